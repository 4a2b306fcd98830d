#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='each command with --json prints a document that follows its schema in docs/schemas'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# prints COMMAND OPTION...: runs the command with --json. Exit status 1 is valid too.
prints() {
	flux fairshare "$@" --json >out || test $? = 1 || return
	jq -e . out >/dev/null
}

test_expect_success 'an instance has the plugin, a site, a running job and a held job' '
	write_conf "$(with_plugin)" && start_instance && make_site && set_usage 5002 3600 && flux account edit-user user5001 --max-running-jobs=1 &&
	export FLUX_FAIRSHARE_DATABASE=$PWD/$DB && flux fairshare sync && run=$(mf submit 5001 -n 1) && wait_running $run &&
	held=$(mf submit 5001 -n 1) && wait_held_by $held max-running-jobs-user-limit && one=$(mf submit 5003 -N 4) && two=$(mf submit 5003 -N 4) &&
	wait_scheduled $two
'
test_expect_success 'commands on the database print a document' '
	prints show && prints show -p $DB && prints update --dry-run && prints policy && prints limit && prints sync --dry-run && prints recount &&
	prints usage && prints usage --by period && prints credit log && prints budget && prints budget log && prints compare && prints compare --policy fair-tree,pbs && prints report && prints doctor &&
	prints what-if --in 7d
'
test_expect_success 'commands on the plugin print a document' '
	prints push --dry-run && prints push && prints diff && prints status && prints status -u 5001 && prints standing -A &&
	prints jobs -A && prints jobs -A -w && prints jobs -A -o id,fairshare && prints check -N1 && prints what-if --submit 3 -N1 &&
	prints migrate && prints why user5001 && prints why user5001 user5003 && prints why A && prints why $held && prints why $run &&
	prints why $one $two
'
test_expect_success 'why prints a document for an ended job' '
	flux cancel $run && wait_ended $run && prints why $run && jq -e ".jobs[0].history" out
'
test_expect_success 'simulate, check-import and config print a document' '
	prints simulate --trace "$T_DIR/data/week.swf" --nodes 4 --cores-per-node 4 &&
	printf "[fairshare]\nrefresh = -1\n" >bad.toml && prints config check bad.toml && jq -e ".faults | length == 1" out &&
	prints check-import --tree "$T_DIR/data/imports/f01-sshare-25.11-classic.txt"
'
test_expect_success 'each command with a schema has printed a document' '
	for schema in "$T_DIR"/../docs/schemas/*.json; do
		name=$(basename "$schema" .json) && find json -name "$name.*" -size +0 | grep . || { echo "$name is missing"; return 1; }
	done
'
finish
