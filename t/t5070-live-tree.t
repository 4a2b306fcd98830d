#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='show, why, usage, compare and what-if use the live tree of the plugin and name the source of their numbers'
# Rules: F3

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

# print_shown OPTION..., print_standing FILE: print user, place and usage of each association.
print_shown() { flux fairshare show -U --csv -n -o user,place,usage "$@" | tr , " " | sort; }
print_standing() { jq -r '.associations[] | select(.userid > 5000) | "user\(.userid) \(.rank.place) \(.usage)"' "$1" | sort; }
# check_close FILE FILE: checks that both files have the same users with the same ranks. The usages must differ by less than 20, because the
# two answers come at different times.
check_close() {
	cat "$1" "$2" && test $(wc -l <"$1") = 4 &&
	join "$1" "$2" | while read user place usage other_place other; do
		test $place = $other_place && jq -ne "($usage - $other | fabs) < 20" >/dev/null || { echo "$user differs"; return 1; }
	done
}

gpu_nodes='[{"type":"node","count":4,"with":[{"type":"slot","count":1,"label":"task","with":[{"type":"core","count":1},{"type":"gpu","count":2}]}]}]'
test_expect_success 'an instance has the plugin, a site and a running job' '
	write_conf "$(with_plugin) | .\"fake-resources\" = {nnodes: 4, \"cores-per-node\": 4, \"gpus-per-node\": 2}" && start_instance && make_site && set_usage 5002 3600 && set_usage 5004 7200 &&
	export FLUX_FAIRSHARE_DATABASE=$PWD/$DB && flux fairshare sync && id=$(mf submit 5001 --resources "$gpu_nodes") && wait_running $id
'
test_expect_success 'show prints the live tree, and the running job counts' '
	sleep 2 && flux fairshare show >out && cat out && head -1 out | grep -x "Live usage from the plugin, with running jobs. Policy: weighted-walk." &&
	flux fairshare show --policy fair-tree >out && head -1 out | grep " Policy: fair-tree, instead of weighted-walk\.$" && flux fairshare show --json >show.json && jq -e ".source.from == \"plugin\" and .source.as_of > 0" show.json &&
	jq -e "[.nodes[] | select(.user == \"user5001\")][0].usage > 4"  show.json
'
test_expect_success 'show and standing print the same places and usages' '
	print_shown >a && flux fairshare standing -A --json >standing.json && print_standing standing.json >b && check_close a b
'
test_expect_success 'usage counts the running job until now, as standing does, and shows its part' '
	flux fairshare usage --since 1h --by bank >out && cat out && grep "^Of this, 1 running job used [0-9.]* node-hours until now" out && grep "NodeHours.* Running" out &&
	flux fairshare usage --since 1h --json >usage.json && cat usage.json && flux fairshare standing -A --json >standing.json &&
	used=$(jq "[.associations[] | select(.userid == 5001)][0].usage" standing.json) &&
	jq -e ".usage[] | select(.user == \"user5001\") | .jobs == 1 and (.running_node_hours * 3600 - $used | fabs) < 20 and .node_hours == .running_node_hours and
		.core_hours == .node_hours and .gpu_hours == 2 * .node_hours" usage.json && jq -e ".running_jobs == 1 and .node_hours == .running_node_hours" usage.json
'
test_expect_success 'usage counts the running job only within the interval, and not with -p, which is the database alone' '
	flux fairshare usage --since 2h --until 1h --json | jq -e ".running_jobs == 0" && flux fairshare usage -p $DB --json | jq -e ".running_jobs == null and .jobs == 0" &&
	flux fairshare usage -p $DB --uri $FLUX_URI --json | jq -e ".running_jobs == 1" && flux fairshare usage -p $DB >out && grep "Only ended jobs count, because an option" out &&
	flux fairshare usage --whole --json | jq -e ".running_jobs == null" &&
	flux fairshare usage --uri local:///nonexistent >out && cat out && grep "Only ended jobs count, because .*connect to Flux" out
'
test_expect_success 'what-if --half-life counts the running job on both sides, and its order now is that of show' '
	print_places() { jq -r ".associations[] | \"\(.user) \(.$1)\"" | sort; } &&
	set_usage 5002 4 && flux fairshare push && flux fairshare show -U --csv -n -o user,place | tr , " " | sort >shown && flux fairshare what-if --half-life 2d --json >live.json && cat shown live.json &&
	jq -e ".source.from == \"plugin\" and (.changes[0] | test(\"both sides are live usage\"))" live.json && print_places place_first <live.json | test_cmp shown - &&
	jq -e "[.associations[] | select(.user == \"user5001\")][0].place_second > 1" live.json &&
	flux fairshare what-if --half-life 2d -p $DB --json >stored.json && jq -e ".changes[0] | test(\"both sides are stored usage\")" stored.json &&
	print_places place_first <stored.json >stored && cat stored && ! cmp -s stored shown && set_usage 5002 3600 && flux fairshare push
'
test_expect_success 'budget counts the running job in the rate' '
	flux fairshare budget deposit user user5001 1000 --until 7d --reason r && flux fairshare budget show --json >budget.json && cat budget.json &&
	jq -e ".budgets[0] | .spent_ms == 0 and .rate_ms > 4000 * 2 / 7 and .lasts_until == .end" budget.json &&
	flux fairshare budget show >out && cat out && grep "1,000 .*end of window" out && grep "PerDay includes running jobs" out &&
	flux fairshare push && run_as 5001 standing >out && cat out && grep "at the rate of ended jobs in the last 7 days, it lasts longer" out &&
	flux fairshare budget remove user user5001 --reason r --push
'
test_expect_success 'why of a user prints live numbers' '
	flux fairshare why user5001 >out && cat out && head -1 out | grep -x "Live usage from the plugin, with running jobs." &&
	place=$(jq -r "[.associations[] | select(.userid == 5001)][0].rank.place" standing.json) &&
	case $place in 1) word=first;; 2) word=2nd;; 3) word=3rd;; *) word=4th;; esac && grep "$word of 4\|${place}[a-z]* of 4" out &&
	flux fairshare why user5001 --json | jq -e ".source.from == \"plugin\"" &&
	flux fairshare why user5001 user5003 --uri $FLUX_URI >out && cat out && tr "\n" " " <out | grep "To see all effects: flux fairshare what-if --uri $FLUX_URI  *--shares"
'
for_guests=".flux fairshare standing. shows your own live values; .flux fairshare why YOURJOB OTHERJOB. compares two jobs"
test_expect_success 'show and why of a guest name the missing permission and the command with the live values' '
	run_as 5001 show >out && cat out && head -2 out | tr "\n" " " | tr -s " " >line && grep "^As of the last count .*only the instance owner and admins may read the live tree" line &&
	grep "standing. shows your own live values" line && run_as 5001 why user5001/A >out && grep "only the instance owner" out && flux fairshare show >out && ! grep "only the instance owner" out &&
	for command in show "why user5001" compare "what-if --shares A=99"; do
		test_expect_code 1 env FLUX_FAIRSHARE_DATABASE=nowhere.db FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=2 flux fairshare $command 2>err || return 1
		cat err && grep "^flux-fairshare: $for_guests; only the instance owner and admins may read the live tree; .*nowhere.db: no such file$" err &&
		test $(wc -l <err) = 1 || return 1
	done
'
test_expect_success 'why of a guest without the database prints their own standing, and names a number that is no user and no job' '
	as_guest() { FLUX_FAIRSHARE_DATABASE=nowhere.db FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=2 flux fairshare "$@"; } &&
	as_guest why 5001/A >out && cat out && grep "^5001 in bank A" out && as_guest why 5001 >out && cat out && grep "^Usage of 5001 in A:" out &&
	test_expect_code 1 as_guest why 999 2>err && cat err && grep "no user has the id 999 on this machine, and Flux has no job 999; " err && test $(wc -l <err) = 1 &&
	for command in usage "usage --by period" limit policy budget credit; do
		test_expect_code 2 as_guest $command 2>err; cat err && grep "^flux-fairshare: $for_guests; .*nowhere.db: no such file.*; ask an administrator of this site$" err || return 1
	done &&
	for command in push update; do
		test_expect_code 2 as_guest $command 2>err; cat err && grep "nowhere.db: no such file.*; ask an administrator of this site$" err && ! grep "flux account" err || return 1
	done &&
	test_expect_code 2 as_guest usage -p missing.db 2>err; cat err && grep "^flux-fairshare: missing.db: no such file; -p FILE or .*; ask an administrator of this site$" err
'
test_expect_success 'standing prints the sum of the usage in all banks, and jobs that flux lists without decay' '
	flux fairshare standing 5001 --json >out && cat out && jq -e "([.associations[].usage] | add) == .total.usage and .total.listed_jobs >= 1" out &&
	jq -e "(.total.half_at - .now - .half_life | fabs) < 0.01 and (.total.gone_at - .now - .reset | fabs) < 0.01 and .reset == 2419200" out &&
	flux fairshare standing 5001 >out && cat out && tr -s "\n " " " <out >line && grep "Usage of 5001 in A: .* now, with decay .* without decay .*in the 1 job that Flux still lists (running); .*no usage is left .* after the last job ends (not before .*) usage halves" line
'
test_expect_success 'compare and what-if print live numbers, and usage decays by the half-life of the plugin' '
	flux fairshare compare >out && cat out && head -1 out | grep -x "Live usage from the plugin, with running jobs." &&
	flux fairshare compare --policy weighted-walk,fair-tree --json | jq -e ".source.from == \"plugin\"" &&
	flux fairshare what-if --shares A=99 >out && cat out && head -1 out | grep -x "Live usage from the plugin, with running jobs." &&
	flux fairshare what-if --in 14d --idle user5004 >out && cat out && grep "steady\|idle" out &&
	flux fairshare what-if --in 14d --json | jq -e ".source.from == \"plugin\""
'
test_expect_success 'report uses the database and names the time of its last count' '
	flux fairshare report --json -p $DB | jq -e ".head | test(\"^As of the last count .*, from $DB\\\\.\")" &&
	flux fairshare report --json | jq -e ".head | test(\"^As of the last count\")"
'
test_expect_success 'show and why with -p use the database and name the time of its last count' '
	flux fairshare show -p $DB >out && cat out && head -1 out | grep "^As of the last count .*, from $DB\. Policy: weighted-walk\.$" &&
	flux fairshare show -p $DB --policy fair-tree >out && head -1 out | grep " Policy: fair-tree, instead of weighted-walk\.$" &&
	flux fairshare show -p $DB --json | jq -e "[.nodes[] | select(.user == \"user5001\")][0].usage == 0" &&
	flux fairshare why user5001 -p $DB | head -1 | grep "^As of the last count"
'
test_expect_success 'standing of a user in two banks prints the usage of the database' '
	flux account add-user --username=user5003 --userid=5003 --bank=A --shares=9 &&
	run_sql "UPDATE association_table SET job_usage = 720000 WHERE userid = 5003 AND bank = \"B\"" && flux fairshare update && flux fairshare push &&
	run_as 5003 standing --json | jq -e "[.associations[] | {(.bank): (.usage / 3600 | round)}] | add == {A: 0, B: 200}"
'
test_expect_success 'a job in the bank that standing advises gets the higher priority' '
	run_as 5003 standing >out && tail -1 out && bank=$(sed -n "s/^Submit to \([AB]\) (-B [AB]): .*\.$/\1/p" out) && test -n "$bank" &&
	stop_queues && a=$(mf submit 5003 -B A) && b=$(mf submit 5003 -B B) && wait_scheduled $a $b && echo "A $(mf prio $a), B $(mf prio $b)" &&
	case $bank in
	A) test $(mf prio $a) -gt $(mf prio $b) ;;
	B) test $(mf prio $b) -gt $(mf prio $a) ;;
	esac
'
test_expect_success 'show uses the database if no plugin answers' '
	flux jobtap remove mf_priority.so && flux fairshare show >out && head -1 out | grep "^As of the last count" &&
	(unset FLUX_URI; flux fairshare show --uri local:///nonexistent >out 2>err; test $? = 2) && cat err &&
	load_plugin && flux fairshare push
'
test_expect_success 'a job that ended counts once, by its record' '
	cancel_all && wait_ended $id && flux fairshare sync && flux fairshare usage --since 1h --json >usage.json && cat usage.json &&
	jq -e ".running_jobs == 0 and .jobs == 1 and .gpu_hours == 2 * .node_hours" usage.json
'
finish
