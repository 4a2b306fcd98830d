#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare simulate replays the jobs of a database'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

run_simulate() { flux fairshare simulate --trace "$DB" --nodes 4 --cores-per-node 4 "$@"; }

test_expect_success 'an instance has the plugin, a site and ended jobs of three users in the database' '
	write_conf "$(with_plugin)" && start_instance && make_site && flux fairshare push -p $DB &&
	a=$(mf submit 5001 --run 0.4s) && b=$(mf submit 5002 -N 2 -n 2 --run 0.6s) &&
	c=$(mf submit 5003 -N 4 -n 4 --run 0.3s) && d=$(mf submit 5001 -N 3 -n 3 --run 0.2s) && wait_ended $a $b $c $d &&
	flux fairshare sync -p $DB && test "$(run_sql "SELECT count(*) FROM jobs")" = 4
'
test_expect_success 'simulate runs all jobs of the database, by bank' '
	run_simulate --json >out.json && cat out.json &&
	jq -e ".jobs == 4 and .skipped == 0 and .cores == 16" out.json &&
	jq -e ".scenarios == [.scenarios[] | select(.jobs == 4 and .rejected == 0 and .never == 0)] and (.scenarios | length) == 1" out.json &&
	jq -e "[.groups[] | select(.by == \"bank\") | [.group, .jobs, .promised]] == [[\"A\", 3, 0.3], [\"B\", 1, 0.7]]" out.json
'
test_expect_success 'simulate without options replays the jobs of the database on the nodes of the instance' '
	FLUX_FAIRSHARE_DATABASE=$PWD/$DB flux fairshare simulate --json >own.json && cat own.json &&
	jq -e ".jobs == 4 and .nodes == 4 and .cores == 16 and .cluster_of_instance" own.json && jq -S "del(.trace, .cluster_of_instance)" own.json >found &&
	jq -S "del(.trace, .cluster_of_instance)" out.json >wanted && test_cmp wanted found && flux fairshare simulate -p $DB >own &&
	grep "^4 jobs on 4 nodes with 16 cores, as the Flux instance has" own && jq -e "(.cluster_of_instance | not)" out.json
'
test_expect_success 'simulate with --cores-per-node does not say that the instance has these cores' '
	flux fairshare simulate -p $DB --cores-per-node 2 >own && cat own && grep "^4 jobs on 4 nodes with 8 cores\.$" own
'
test_expect_success 'simulate without an instance asks for --nodes' '
	(unset FLUX_URI && test_expect_code 2 flux fairshare simulate -p $DB --uri local:///nonexistent 2>err) && cat err && grep "^flux-fairshare: --nodes is missing" err
'
test_expect_success 'simulate reports the recorded waits' '
	wanted=$(run_sql "SELECT avg(t_run - t_submit) FROM jobs") &&
	jq -e --argjson wanted "$wanted" "(.recorded_wait_mean - \$wanted) | fabs < 1e-6" out.json &&
	jq -e ".scenarios[0] | .utilisation > 0 and .utilisation <= 1 and .makespan > 0.5" out.json
'
test_expect_success 'simulate compares policies and limits, and leaves the database unchanged' '
	cp $DB before.db && run_simulate --policy fair-tree,pbs --sweep max-running-jobs=0,9 --json >out.json && cmp $DB before.db &&
	jq -e "[.scenarios[] | [.scenario, .jobs, .never]] == [[\"fair-tree max-running-jobs=0\", 0, 4], [\"fair-tree max-running-jobs=9\", 4, 0],
		[\"pbs max-running-jobs=0\", 0, 4], [\"pbs max-running-jobs=9\", 4, 0]]" out.json
'
test_expect_success 'simulate prints the same table twice' '
	run_simulate >one && run_simulate >two && test_cmp one two && grep "^4 jobs on 4 nodes with 16 cores" one && grep "^weighted-walk  *A  *3 " one
'
test_expect_success 'the page of simulate has the data of --json and not the path of the history' '
	DB=$PWD/$DB run_simulate --policy fair-tree,pbs --report page.html --json >out.json && grep -F "$PWD" out.json &&
	run_simulate --policy fair-tree,pbs --report again.html >out && test_cmp page.html again.html &&
	jq -S ".trace = \"accounting.db\"" out.json >wanted && ! grep "$PWD" page.html &&
	flux python -c "import json; print(json.dumps(json.loads(open(\"page.html\").read().split(\"id=\\\"data\\\">\")[1].split(\"</script>\")[0])[\"simulation\"]))" >data.json &&
	jq -S . data.json >found && test_cmp wanted found && grep "default-src .none." page.html && ! grep -E "(src|href)=\"[^#]" page.html &&
	jq -e ".users == 3 and .banks == 2 and .core_seconds > 0" out.json
'
test_expect_success 'simulate refuses to write its page to a link, a directory or standard output' '
	echo precious >victim && ln -s victim link &&
	for name in link . -; do test_expect_code 2 run_simulate --report $name 2>err >out && cat err && test_must_be_empty out || return 1; done &&
	grep "standard output is for the table" err && test "$(cat victim)" = precious && ! test -e ./-
'
test_expect_success 'the service that edits the database ends' 'stop_service'
finish
