#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only

test_description='the demo prints the same tables in a real instance and in the embedded job manager'
# Sharness changes HOME, and the demo calls cargo.
export CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}"
. "$(dirname "$0")/lib.sh"
in_sequence

DEMO=$T_DIR/../etc/demo.sh
export CARGO_TERM_COLOR=never

# tables FILE: prints the tables of the demo without job ids and column widths, which differ between the hosts.
tables() {
	sed -n '/^Pushed/,/^A recount/p' "$1" | sed -E 's/ƒ[0-9A-Za-z]+/ƒ/g; s/ +/ /g'
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
test_expect_success 'the demo prints the same tables in both hosts' '
	tables flux.out >flux.tables &&
	tables embedded.out >embedded.tables &&
	test $(wc -l <flux.tables) -gt 30 &&
	diff flux.tables embedded.tables
'
test_expect_success 'every line of the demo fits 80 columns, and four steps tell the time' '
	export LC_ALL=C.UTF-8 &&
	! grep -E "^.{81,}" flux.out embedded.out &&
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
