#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only

test_description='the demo prints the same in a real instance and in the embedded job manager'
# The demo calls cargo, and cargo looks for its files in HOME. Sharness changes HOME, so the paths are set here.
export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
. "$(dirname "$0")/lib.sh"
in_sequence

DEMO=$T_DIR/../etc/demo.sh
export CARGO_TERM_COLOR=never LC_ALL=C.UTF-8

# print_comparable FILE: prints the demo's output in one line. Leaves out what differs between runs: job ids, times, costs.
print_comparable() {
	sed -n '/^Pushed/,/^A recount/p' "$1" | tr -s ' \n' ' ' | sed -E '
		s/ƒ[0-9A-Za-z]+/ƒ/g
		s/([0-9-]{10} )?[0-9]{2}:[0-9]{2}(:[0-9]{2})?/TIME/g
		s/ \((now|[^()]* ago|in [^()]*)\)//g
		s/waiting [0-9a-z ]+ is enough/waiting is enough/g
		s/When jobs start is unknown: the scheduler gives no estimates\. //g
		s/[0-9]+ seconds? (old|ago)/\1/g
		s/[0-9.]+ ms/TIME/g
		s/(fair-shares changed|priorities posted|refreshes|stale jobs) [0-9]+/\1/g'
}

test_expect_success 'the demo runs in a real instance and reports that' '
	DEMO_HOST=flux bash "$DEMO" >flux.out &&
	grep "^The plugin runs in a real Flux instance" flux.out
'
test_expect_success 'the demo runs in the embedded job manager and reports that' '
	DEMO_HOST=embedded bash "$DEMO" >embedded.out &&
	grep "^The plugin runs in the embedded job manager" embedded.out
'
test_expect_success 'the demo runs in a real instance if Flux is on PATH and DEMO_HOST is not set' '
	bash "$DEMO" >auto.out &&
	grep "^The plugin runs in a real Flux instance" auto.out
'
test_expect_success 'the demo and its commands print the same in both hosts' '
	print_comparable flux.out >flux.text &&
	print_comparable embedded.out >embedded.text &&
	for text in "why ƒ ƒ of alice in bank physics is held by 2 limits" \
		"standing dan/physics dan in bank physics (the default bank) 3rd of 6 associations: 2 are ahead of dan" \
		"top --once generation 1, weighted-walk," "13 jobs of 7 associations: 0 counters differ"; do
		grep -F "$text" embedded.text || return 1
	done &&
	diff flux.text embedded.text
'
test_expect_success 'every line except the names of commands fits 80 columns, and four steps print the elapsed time' '
	! grep -E "^[^$].{80,}" flux.out embedded.out &&
	for host in flux embedded; do
		test "$(grep -cE "^[1-4] of 4 \([0-9]+ s\): " $host.out)" = 4 || return 1
	done
'
test_expect_success 'the demo prints no colour without a terminal' '
	test -s flux.out && test -s embedded.out &&
	! grep "$(printf "\033")" flux.out embedded.out
'
test_expect_success 'the demo refuses an unknown DEMO_HOST and names the two that exist' '
	! DEMO_HOST=slurm bash "$DEMO" 2>wrong.err &&
	grep "DEMO_HOST is flux or embedded" wrong.err
'

test_done
