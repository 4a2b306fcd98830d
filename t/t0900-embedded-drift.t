#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the embedded job manager and Flux play the same scenarios, and the plugin does the same in both'

. "$(dirname "$0")/lib.sh"

EMBEDDED=${EMBEDDED_UNDER_TEST:-$T_DIR/../target/debug/fairshare-embedded}
export PLUGIN
if ! test -x "$EMBEDDED"; then
	skip_all="no program at $EMBEDDED: build it with cargo build -p fairshare-embedded"
	test_done
fi

#   SCENARIO   name of the only scenario to play

# play_in_flux NAME: plays a scenario in an instance of its own, with the restarts of the scenario.
play_in_flux() {
	local scenario=$T_DIR/data/scenarios/$1.json rc
	rm -rf state $1.state $1.state.conf $1.real
	write_conf "$(with_queues $(jq -r '.queues[]' "$scenario")) | $(with_plugin)" && start_instance || return 1
	while :; do
		flux python "$T_DIR/scripts/scenario.py" "$scenario" $1.embedded $1.state $1.real
		rc=$?
		test $rc -eq 3 || break
		if test -e $1.state.conf; then
			write_conf "$(with_queues $(jq -r '.queues[]' "$scenario")) | $(with_plugin $1.state.conf)"
		else
			write_conf "$(with_queues $(jq -r '.queues[]' "$scenario")) | $(with_plugin)"
		fi
		restart_instance || return 1
	done
	# The plugin of flux-accounting has no method "check" and answers ENOSYS, which is not a failure here.
	test $rc -eq 0 && ! mf check >$1.check 2>&1 && ! grep -q ENOSYS $1.check && cat $1.check && rc=1
	flux cancel --all --user=all --quiet 2>/dev/null
	stop_instance && test $rc -eq 0
}
sort_keys() { jq -cS . "$1"; }

for scenario in "$T_DIR"/data/scenarios/${SCENARIO:-*}.json; do
	name=$(basename "$scenario" .json)
	test_expect_success "$name: $(jq -r .about "$scenario")" '
		"$EMBEDDED" run "$scenario" --plugin "$PLUGIN" >$name.trace &&
		flux python "$T_DIR/scripts/scenario.py" $name.trace >$name.embedded &&
		play_in_flux $name &&
		sort_keys $name.embedded >$name.want &&
		sort_keys $name.real >$name.have &&
		test_cmp $name.want $name.have
	'
done
test_done
