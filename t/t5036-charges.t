#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='charge factors of queues in the database: sync, recount and the plugin count the same usage over changes'
# Rules: U17, U18, U19, F23, F26

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# configure QUEUES: writes the configuration with this table [fairshare.queues].
configure() { write_conf "$(with_queues free gold) | $(with_plugin) | .fairshare = {refresh: \"300ms\", queues: $1}"; }
# run_jobs SECONDS: runs a job of user 5001 in the queue gold, one of 5002 in free, one of 5003 in gold on two nodes.
run_jobs() {
	local a b c
	a=$(mf submit 5001 -q gold --run "$1") && b=$(mf submit 5002 -q free --run "$1") && c=$(mf submit 5003 -q gold -N 2 -n 2 --run "$1") && wait_ended $a $b $c
}
# compute_usages: computes the usage of each user from job-list and the two tables of charges.
core_weight=0
compute_usages() {
	run_sql "SELECT queue || \" \" || printf(\"%.6f\", since) || \" \" || factor FROM fairshare_charge_table ORDER BY rowid" >rows 2>/dev/null
	run_sql "SELECT printf(\"%.6f\", since), charge_by, nodes, cores FROM fairshare_charge_by_table ORDER BY rowid" >rules 2>/dev/null
	flux jobs -A -a -n -o "{userid} {t_run} {t_inactive} {nnodes} {queue} {ncores}" | awk -v weight=$core_weight '
		FILENAME == "rows" { queue[++n] = $1; since[n] = $2; factor[n] = $3; next }
		FILENAME == "rules" { from[++m] = $1; by[m] = $2; nodes[m] = $3; cores[m] = $4; next }
		{
			f = 1; for (i = 1; i <= n; i++) if (queue[i] == $5 && since[i] <= $2) f = factor[i]
			rate = $4 + weight * $6
			for (i = 1; i <= m; i++) if (from[i] <= $2) {
				part = weight * $6 / cores[i]; if ($4 / nodes[i] > part) part = $4 / nodes[i]
				rate = by[i] == "max" ? part * nodes[i] : $4 + weight * $6
			}
			used[$1] += sprintf("%.5f", f * rate * ($3 - $2))
		}
		END { for (id in used) printf "%d %.5f\n", id, used[id] }' rows rules - | sort
}
# check_stored: checks that the stored usages equal the usages computed from the jobs and the rows of charges,
# and that a recount finds no difference.
check_stored() {
	compute_usages >hand && run_sql "SELECT userid || \" \" || printf(\"%.5f\", job_usage) FROM association_table WHERE userid BETWEEN 5001 AND 5003 ORDER BY 1" >found &&
	cat rows && paste -d" " hand found && awk '{ d = $2 - $4; if ($1 != $3 || d > 3e-5 || d < -3e-5) exit 1 }' <<<"$(paste -d" " hand found)" &&
	flux fairshare recount -p $DB --json >recount.json && jq -e ".differences == []" recount.json >/dev/null || { cat recount.json; return 1; }
}
# check_plugin: checks that the usages of the plugin are the stored ones. The half-life is a week, so they decay little.
check_plugin() {
	mf rpc standing "{\"all\":true}" | sed "s/^ok //" | jq -r ".associations[] | select(.userid >= 5001 and .userid <= 5003) | \"\\(.userid) \\(.usage)\"" | sort >live &&
	paste -d" " live found && awk '{ d = $2 - $4; if ($1 != $3 || d > 1e-3 || d < -1e-3) exit 1 }' <<<"$(paste -d" " live found)"
}

test_expect_success 'an instance has the plugin, a site with two queues and ended jobs' '
	configure "{}" && start_instance && make_site && flux account add-queue free && flux account add-queue gold &&
	for user in 5001 5002 5003; do flux account edit-user user$user --queues=free,gold || return 1; done &&
	flux fairshare push -p $DB && run_jobs 0.5s
'
test_expect_success 'without charge factors sync creates no table of charges' '
	flux fairshare sync -p $DB && run_sql "SELECT count(*) FROM sqlite_master WHERE name LIKE \"%charge%\"" >out && echo 0 >expected && test_cmp expected out &&
	check_stored && check_plugin
'
test_expect_success 'sync stores a change with the time at which the plugin read the configuration' '
	configure "{free: {charge: 0}, gold: {charge: 2}}" && flux config reload && run_jobs 0.7s &&
	mf rpc stats "{}" | sed "s/^ok //" | jq -r ".charges.changes[] | [.queue, (.since * 1000 | round), .factor] | @tsv" >seen &&
	flux fairshare sync -v -p $DB 2>out && cat out && grep "charge of queue free is 0; charge of queue gold is 2" out &&
	run_sql "SELECT queue, CAST(round(since * 1000) AS int), CAST(factor AS int) FROM fairshare_charge_table ORDER BY rowid" | tr " " "\t" >stored && test_cmp seen stored
'
test_expect_success 'sync, recount and the plugin agree on jobs before and after the change' 'check_stored && check_plugin'
test_expect_success 'a second sync stores no row' '
	flux fairshare sync -v -p $DB 2>out && ! grep charge out && run_sql "SELECT count(*) FROM fairshare_charge_table" >out && echo 2 >expected && test_cmp expected out
'
test_expect_success 'sync, recount and the plugin agree after a second change and a reload of the plugin' '
	configure "{gold: {charge: 0.5}}" && flux config reload && run_jobs 0.4s && flux fairshare sync -p $DB && check_stored && check_plugin &&
	reload_plugin && run_jobs 0.3s && flux fairshare sync -p $DB && check_stored && check_plugin &&
	run_sql "SELECT queue || factor FROM fairshare_charge_table ORDER BY rowid" >out && printf "free0.0\ngold2.0\nfree1.0\ngold0.5\n" >expected && test_cmp expected out
'
test_expect_success 'recount --write stores the same usages' '
	cp found before && flux fairshare recount --write -p $DB && check_stored && test_cmp before found
'
test_expect_success 'with charge-by max, jobs that start after the next sync are charged by their dominant resource' '
	run_sql "INSERT OR REPLACE INTO config_table VALUES (\"core_weight\", \"2\")" && core_weight=2 && flux fairshare recount --write -p $DB && check_stored &&
	write_conf "$(with_queues free gold) | $(with_plugin) | .fairshare = {refresh: \"300ms\", \"charge-by\": \"max\", queues: {gold: {charge: 0.5}}}" && flux config reload &&
	flux fairshare sync -v -p $DB 2>out && cat out && grep "charge-by is max" out && run_sql "SELECT charge_by, nodes, cores, gpus FROM fairshare_charge_by_table" >out &&
	echo "max 4 16 0" >expected && test_cmp expected out && run_jobs 0.5s && d=$(mf submit 5002 -q gold -N 1 -n 4 --run 0.5s) && wait_ended $d &&
	flux fairshare sync -p $DB && cat rules && check_stored && check_plugin &&
	mf rpc stats "{}" | sed "s/^ok //" | jq -c ".charges | [.charge_by, .totals]" >out && echo "[\"max\",[4,16,0]]" >expected && test_cmp expected out
'
test_expect_success 'after a reload of the plugin and with charge-by sum again, sync, recount and the plugin agree' '
	reload_plugin && configure "{gold: {charge: 0.5}}" && flux config reload && flux fairshare sync -p $DB && run_jobs 0.3s && flux fairshare sync -p $DB &&
	check_stored && check_plugin && run_sql "SELECT charge_by FROM fairshare_charge_by_table" >out && printf "max\nsum\n" >expected && test_cmp expected out
'
test_expect_success 'sync without the plugin stores a change at the time of the sync' '
	configure "{}" && flux config reload && remove_plugin && begun=$(date +%s.%N) &&
	{ flux fairshare sync --only fetch --only usage -p $DB || return 1; } && check_stored &&
	run_sql "SELECT since FROM fairshare_charge_table WHERE factor = 1 AND queue = \"gold\"" >out && cat out && jq -ne "$(cat out) >= $begun"
'
test_expect_success 'flux account accepts a database with the table of charges, and its rows cannot be changed' '
	flux account view-bank root >out && cat out && ! run_sql "UPDATE fairshare_charge_table SET factor = 3" 2>err &&
	! run_sql "DELETE FROM fairshare_charge_table" 2>err
'
test_done
