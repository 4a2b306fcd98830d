#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare doctor finds silent problems, and its remedies work'

. "$(dirname "$0")/lib.sh"
TWO_PLUGINS=1
. "$T_DIR/fairshare.sh"
in_sequence

# check_findings STATUS CODE...: checks the exit status of doctor and that it has these findings and no others.
check_findings() {
	test_expect_code "$1" flux fairshare doctor -p $DB --json >doctor.json && shift &&
	jq -e ".findings | type == \"array\"" doctor.json && test "$(jq -r "[.findings[].code] | join(\" \")" doctor.json)" = "$*" || { cat doctor.json; return 1; }
}
run_doctor() { flux fairshare doctor -p $DB "$@"; }

# check_finding CODE [OPTION...]: checks that doctor has this finding, and writes its remedy to the file remedy.
check_finding() {
	test_might_fail flux fairshare doctor -p $DB --json "${@:2}" >doctor.json &&
	jq -er --arg code "$1" '[.findings[] | select(.code == $code) | .remedy][0]' doctor.json >remedy || { cat doctor.json; return 1; }
}
# check_remedy CODE EDIT [OPTION...]: checks that doctor has this finding, and that the finding is gone after its remedy. The remedy runs as it is
# printed, with its placeholders replaced by the sed command EDIT. If it has alternatives, the first one runs.
check_remedy() {
	local command
	check_finding "$1" "${@:3}" || return 1
	command=$(sed -E -e 's/^"([^"]*)".*/\1/;t e' -e 's/^`([^`]*)`.*/\1/;t e' -e 's/(, or |, and see|; | \().*//' -e ':e' -e "$2" remedy)
	echo "\$ $command" && bash -c "$command" || { cat remedy; return 1; }
	test_might_fail flux fairshare doctor -p $DB --json "${@:3}" >doctor.json &&
	jq -e --arg code "$1" 'all(.findings[]; .code != $code)' doctor.json >/dev/null || { cat doctor.json; return 1; }
}
# restore_database: copies all tables back from healthy.db, and pushes.
restore_database() {
	flux python -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as db:
    db.execute("ATTACH ? AS healthy", ("healthy.db",))
    for (table,) in db.execute("SELECT name FROM healthy.sqlite_master WHERE type = \"table\" AND name NOT LIKE \"sqlite%\"").fetchall():
        db.execute(f"DELETE FROM main.{table}")
        db.execute(f"INSERT INTO main.{table} SELECT * FROM healthy.{table}")
    db.commit()' "$DB" && flux fairshare push -p $DB
}
test_expect_success 'doctor finds that no plugin is loaded' '
	start_instance && make_site && check_findings 1 not-loaded && test_expect_code 1 run_doctor >out && grep -e "-> flux jobtap load mf_priority.so && flux fairshare push" out
'
test_expect_success 'doctor finds a plugin without data' '
	load_plugin && check_findings 1 no-data && test_expect_code 1 run_doctor >out && grep "!! no-data: the plugin has no data: all jobs wait" out
'
test_expect_success 'doctor finds nothing after a push and ends with exit status 0' '
	check_remedy no-data "" && check_findings 0 && run_doctor >out && cat out && grep "nothing is wrong with $DB.*, with the plugin, and with Flux.s configuration $PWD/conf.json" out
'
test_expect_success 'doctor finds a limit that holds everything, and names the association' '
	flux account add-user --username=user5009 --userid=5009 --bank=B --shares=1 --max-running-jobs=0 && flux fairshare push -p $DB &&
	check_findings 1 limits-hold-everything && jq -e ".findings[0].whom == [\"user5009 in B\"]" doctor.json &&
	check_remedy limits-hold-everything "s/NAME/user5009/;s/BANK/B/;s/LIMIT=N/max-running-jobs=5/"
'
test_expect_success 'doctor finds data that were not pushed' '
	for u in 5010 5011; do flux account add-user --username=user$u --userid=$u --bank=B || return 1; done &&
	check_findings 1 not-pushed && check_remedy not-pushed "" && check_findings 0 &&
	flux account edit-user user5010 --bank=B --max-nodes=7 && check_findings 1 not-pushed && grep "associations: 1 changed" doctor.json && check_remedy not-pushed "" && check_findings 0 &&
	flux account delete-user --force user5011 B && flux account delete-user --force user5010 B && check_findings 1 not-pushed && check_remedy not-pushed "" && check_findings 0
'
test_expect_success 'doctor finds nothing after the record of a waiting user was pushed' '
	cp $DB before.db && remove_plugin && flux kvs unlink -Rf mf_priority && load_plugin && a=$(mf submit 5077) && wait_for depend $a && wait_settled &&
	check_findings 1 no-data && ! grep add-user doctor.json && flux fairshare push -p $DB || return 1
	remove_plugin && load_plugin && wait_settled && test_might_fail run_doctor --json >doctor.json && cat doctor.json
	cancel $a && wait_ended $a && flux fairshare push -p $DB && check_findings 0
'
test_expect_success 'doctor finds old data after the hours that --stale gives, and a push is the remedy' '
	sleep 4 && check_remedy data-old "" --stale 0.001
'
test_expect_success 'doctor checks the database without Flux and reports that' '
	(unset FLUX_URI; test_expect_code 1 flux fairshare doctor -p $DB --uri local:///nonexistent >out) && grep "no-flux: could not query the plugin" out &&
	uri=$FLUX_URI && grep "name the instance by --uri" out && (unset FLUX_URI; flux fairshare doctor -p $DB --uri $uri >out) && grep "nothing is wrong with $DB" out
'
test_expect_success 'doctor of a guest says that it did not check the plugin, and who may' '
	run_as 5001 doctor -p $DB >out && cat out && grep "^-- not-checked: the plugin, .* were not checked: .*Request requires owner" out && ! grep no-flux out &&
	grep "run this as the owner of the instance; .*flux fairshare standing" out
'
test_expect_success 'doctor finds a missing or empty database' '
	test_expect_code 1 flux fairshare doctor -p nowhere.db >out && grep "!! no-database: " out && grep "flux account -p nowhere.db create-db" out &&
	test_expect_code 1 run_as 5001 doctor -p nowhere.db >out && cat out && grep -e "-> ask an administrator of this site$" out && ! grep create-db out &&
	(DB=nowhere.db && check_remedy no-database "" && rm nowhere.db && : >nowhere.db && check_remedy no-database "")
'
test_expect_success 'doctor does not advise a new database if the present one is damaged or of an old schema' '
	dd if=$DB of=cut.db bs=1024 count=9 2>/dev/null && test_expect_code 1 flux fairshare doctor -p cut.db >out && ! grep create-db out &&
	grep "!! damaged-database: " out && grep "restore cut.db from a backup" out && cp $DB cut.db && (DB=cut.db && check_findings 0) &&
	flux python -c "import sqlite3
with sqlite3.connect(\"cut.db\") as db: db.executescript(\"DROP TABLE jobs; PRAGMA user_version = 20\")" && (DB=cut.db && check_remedy refused "")
'
cp $DB healthy.db
while IFS='|' read -r name code edit sql; do
	test_expect_success "the remedy works: $name" '
		run_sql "$sql" && check_remedy "$code" "$edit" && restore_database
	'
done <<'END'
a bank in two places|refused|s/= ID/= (SELECT max(bank_id) FROM bank_table)/|INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('A', 'root', 3)
banks in a circle|refused||UPDATE bank_table SET parent_bank = CASE bank WHEN 'A' THEN 'B' ELSE 'A' END WHERE bank IN ('A', 'B')
no root|refused||UPDATE bank_table SET parent_bank = 'A' WHERE bank = 'root'
two roots|refused|s,PARENT,root,|INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('R', '', 3)
a parent that is not there|refused|s,PARENT,root,|UPDATE bank_table SET parent_bank = 'Z' WHERE bank = 'A'
a bank that is not there|refused|s/SHARES/1/|UPDATE association_table SET bank = 'Z' WHERE userid = 5001
a bank without a name|refused||INSERT INTO bank_table (bank, parent_bank, shares) VALUES ('', 'root', 3)
a negative usage|refused||UPDATE association_table SET job_usage = -8 WHERE userid = 5001
a usage that is no number|refused||UPDATE association_table SET job_usage = 'nan' WHERE userid = 5001
an infinite usage|refused||UPDATE association_table SET job_usage = 9e999 WHERE userid = 5001
a negative weight of nodes|refused|s/VALUE/1.0/|UPDATE config_table SET value = '-1' WHERE key = 'node_weight'
a weight of GPUs that is no number|refused|s/VALUE/0.0/|UPDATE config_table SET value = 'nan' WHERE key = 'gpu_weight'
a half-life of nothing|refused|s/VALUE/604800/|UPDATE config_table SET value = '0' WHERE key = 'priority_decay_half_life'
a half-life that is no number|refused|s/VALUE/604800/|UPDATE config_table SET value = 'week' WHERE key = 'priority_decay_half_life'
a decay factor beyond 1|refused|s/VALUE/0.5/|UPDATE config_table SET value = '7' WHERE key = 'decay_factor'
a policy that is none|refused|s/NAME/weighted-walk/|INSERT INTO config_table VALUES ('fairshare.policy', 'xx')
an option of the policy that is none|refused||INSERT INTO config_table VALUES ('fairshare.ties', 'xx')
a switch that is none|refused|s/VALUE/false/|UPDATE config_table SET value = 'xx' WHERE key = 'deny_unknown_queues'
a zero_score that is none|refused|s/VALUE/hold/|INSERT INTO config_table VALUES ('zero_score', 'xx')
negative shares of a user|refused|s/VALUE/1/|UPDATE association_table SET shares = -1 WHERE userid = 5001
negative shares of a bank|refused|s/VALUE/1/|UPDATE bank_table SET shares = -1 WHERE bank = 'A'
a priority of a bank that is no number|refused|s/VALUE/1/|UPDATE bank_table SET priority = 'x' WHERE bank = 'A'
a fair-share that is no number|refused||UPDATE association_table SET fairshare = 'x' WHERE userid = 5001
a limit that is no number|refused|s/VALUE/5/|UPDATE association_table SET max_nodes = 'many' WHERE userid = 5001
an active flag that is none|refused|s/VALUE/1/|UPDATE association_table SET active = 'yes' WHERE userid = 5001
a weight of a factor that is no number|refused|s/VALUE/10000/|UPDATE priority_factor_weight_table SET weight = 'x' WHERE factor = 'queue'
a limit of a queue that is no number|refused|s/VALUE/5/|UPDATE queue_table SET max_sched_nodes_per_assoc = 'x'
a bank without shares|no-shares|s/NAME/A/;s/N$/30/|UPDATE bank_table SET shares = 0 WHERE bank = 'A'
a default bank that is none|no-default-bank|s/NAME/user5001/;s/BANK/A/|UPDATE association_table SET default_bank = 'B' WHERE userid = 5001
two default banks of a user|default-banks-differ|s/NAME/user5001/;s/BANK/A/|INSERT INTO association_table (creation_time, mod_time, username, userid, bank, default_bank, shares) VALUES (0, 0, 'user5001', 5001, 'B', 'B', 1)
enabled users of a disabled bank|disabled-banks|s,PARENT,root,;s/BANK/A/;s/SHARES/30/|UPDATE bank_table SET active = 0 WHERE bank = 'A'
a user without shares|no-user-shares|s/NAME/user5001/;s/BANK/A/;s/N$/1/|UPDATE association_table SET shares = 0 WHERE userid = 5001
the user id of no user|wrong-id|s/NAME/user5001/;s/ID/5001/|UPDATE association_table SET userid = 65534 WHERE userid = 5001
a single half-life period|one-period|s/SECONDS.*/2419200/|UPDATE config_table SET value = '604800' WHERE key = 'priority_usage_reset_period'
a user of no known queue|refused-in-all-queues|s/NAME/user5001/;s/BANK/A/;s/QUEUES/silver/|UPDATE association_table SET queues = 'gold' WHERE userid = 5001
an unknown queue of a user|unknown-queues|s/QUEUE/gold/|UPDATE association_table SET queues = 'gold,silver' WHERE userid = 5001
an unknown project of a user|unknown-projects|s/PROJECT/bio/|UPDATE association_table SET default_project = 'bio' WHERE userid = 5001
a limit that ends jobs|limit-ends-jobs|s/NAME/user5001/;s/BANK/A/;s/N$/5/|UPDATE association_table SET max_running_jobs = -1 WHERE userid = 5001
a limit that holds everything|limits-hold-everything|s/NAME/user5001/;s/BANK/A/;s/LIMIT=N/max-sched-jobs=5/|UPDATE association_table SET max_sched_jobs = 0 WHERE userid = 5001
a queue for nobody|queues-for-nobody|s/QUEUE/silver/;s/LIMIT=N/max-nodes-per-assoc=5/|UPDATE queue_table SET max_nodes_per_assoc = 0
a disabled user|disabled-users|s/nothing.*//;s/^$/flux account add-user --username=user5001 --bank=A/|UPDATE association_table SET active = 0 WHERE userid = 5001
no weights|no-weights|s/NAME/fairshare/;s/N$/100000/|UPDATE priority_factor_weight_table SET weight = 0
a fair-share that does not count|fairshare-does-not-count|s/NAME/fairshare/;s/N$/100000/|UPDATE priority_factor_weight_table SET weight = 0 WHERE factor = 'fairshare'
two users with one user id|same-id|s/NAME/user5002/;s/ID/5002/|UPDATE association_table SET userid = 5001 WHERE username = 'user5002'
a negative fair-share|negative-fairshare|s/NAME/fairshare/;s/N$/100000/|UPDATE priority_factor_weight_table SET weight = -100000 WHERE factor = 'fairshare'
a weight that decides ties at most|weights-too-small|s/NAME/urgency/;s/N$/1000/|UPDATE priority_factor_weight_table SET weight = 1 WHERE factor = 'urgency'
weights beyond the highest priority|priorities-clamp|s/NAME/fairshare/;s/N$/100000/|UPDATE priority_factor_weight_table SET weight = 5000000000 WHERE factor = 'fairshare'
a half-life period that nobody ended|decay-behind||UPDATE t_half_life_period_table SET end_half_life_period = 1700000000.0
END
test_expect_success 'doctor finds limits of missing banks, users and queues' '
	flux fairshare limit set -p $DB bank A run-gpus=4 && flux fairshare push -p $DB && check_findings 0 &&
	for values in "\"bank\", \"Z\", \"\"" "\"bank\", \"A\", \"gold\"" "\"association\", \"user5001/Z\", \"\"" "\"user\", \"ghost\", \"\""; do
		run_sql "INSERT INTO fairshare_limit_table VALUES ($values, \"run-gpus\", 3, \"asked\")" && check_remedy lost-limits "" || return 1
	done && run_sql "INSERT INTO fairshare_limit_table VALUES (\"bank\", \"A\", \"\", \"run-jbs\", 3, \"asked\")" && check_remedy refused "" &&
	flux fairshare limit unset -p $DB bank A && flux fairshare push -p $DB && check_findings 0
'
test_expect_success 'doctor finds limits of 0 in the table of limits, but not on GPUs' '
	flux fairshare limit set -p $DB user "*" run-sched-gpus=0 --push && check_findings 0 && flux fairshare limit set -p $DB bank A run-jobs=0 --push && check_findings 1 limits-hold-everything &&
	check_remedy limits-hold-everything "" && flux fairshare limit unset -p $DB user "*" --push && check_findings 0
'
test_expect_success 'doctor finds stopped queues and a missing scheduler' '
	flux queue stop --all && check_findings 0 queues-stopped && flux queue start --all && check_findings 0 &&
	flux module remove sched-simple && check_remedy scheduler-offline "" && check_findings 0
'
test_expect_success 'doctor finds a missing job-list, and ended jobs without a record' '
	flux module remove job-list && check_findings 1 no-job-list && check_remedy no-job-list "" && check_findings 0 &&
	a=$(mf submit 5001 --run 0.1s) && wait_ended $a && sleep 4 && check_remedy not-fetched "" --stale 0.001
'
test_expect_success 'doctor finds records that nothing counted' '
	run_sql "DROP TABLE fairshare_usage_marks" && run_sql "UPDATE job_usage_factor_table SET last_job_timestamp = 0" && check_remedy usage-old "" --stale 0.001 &&
	cp $DB healthy.db && check_findings 0
'
test_expect_success 'doctor advises against a push of the database of another instance' '
	cp $DB other.db && flux python -c "import sqlite3
with sqlite3.connect(\"other.db\") as db: db.execute(\"UPDATE association_table SET userid = userid + 1000\")" && (DB=other.db && check_findings 1 other-database) && rm other.db
'
test_expect_success 'doctor finds a configuration that is not in force' '
	cp conf.json conf.good && jq ".fairshare.annotate = true" conf.good >conf.json && check_findings 1 config-not-loaded && check_remedy config-not-loaded "" &&
	cp conf.good conf.json && flux config reload && check_findings 0
'
test_expect_success 'doctor finds a column of a later schema if it has a value other than its default' '
	run_sql "ALTER TABLE queue_table ADD COLUMN max_gold int NOT NULL DEFAULT 2147483647" && check_findings 0 &&
	run_sql "UPDATE queue_table SET max_gold = 4" && check_findings 0 unknown-columns &&
	check_finding unknown-columns && command=$(sed "s/.*\(sqlite3 .*\)/\1/" remedy) && bash -c "$command" && check_findings 0 && run_sql "ALTER TABLE queue_table DROP COLUMN max_gold"
'
test_expect_success 'doctor finds usage that was not counted for hours' '
	run_sql "DROP TABLE IF EXISTS fairshare_usage_marks" && flux fairshare sync -p $DB --only usage --now $(($(date +%s) - 10000)) && check_remedy usage-old "" &&
	flux fairshare push -p $DB && check_findings 0
'
test_expect_success 'doctor finds usage that was counted by a clock ahead of this one' '
	flux fairshare sync -p $DB --only usage --now $(($(date +%s) + 5000)) && check_findings 1 refused && grep "1.4 hours later than the clock of this machine" doctor.json &&
	check_remedy refused "" && flux fairshare push -p $DB && check_findings 0
'
test_expect_success 'doctor finds a second priority plugin' '
	flux jobtap load .priority-default && check_findings 1 two-priority-plugins && check_remedy two-priority-plugins "" && check_findings 0
'
test_expect_success 'doctor finds a configuration that Flux would refuse' '
	cp conf.json conf.good && jq ".fairshare.refesh = 3" conf.good >conf.json && check_findings 1 config-refused && grep "fairshare.refesh: unknown key" doctor.json &&
	check_finding config-refused && cp conf.good conf.json && bash -c "$(sed "s/.*; then: //" remedy)" && check_findings 0
'
test_expect_success 'doctor finds the configuration of a broker that was started with a relative path from each directory' '
	case $(flux getattr config.path) in /*) false ;; esac && db=$(realpath $DB) && (cd / && flux fairshare doctor -p "$db") >out && cat out && grep "configuration $PWD/conf.json" out &&
	cp conf.json conf.good && jq ".fairshare.refesh = 3" conf.good >conf.json && (cd / && test_expect_code 1 flux fairshare doctor -p "$db") >out && cat out &&
	grep "would not start with $PWD/conf.json: .*refesh: unknown key" out && grep -E "flux fairshare config check .?$PWD/conf.json" out && cp conf.good conf.json &&
	mv conf.json elsewhere.json && (cd / && test_expect_code 1 flux fairshare doctor -p "$db") >out && cat out && mv elsewhere.json conf.json && grep "would not start with $PWD/conf.json: .*No such file" out
'
test_expect_success 'the remedy after a failed reload loads the plugin from where it is installed' '
	mkdir -p usr/libexec/flux/cmd usr/share/flux-fairshare && sed "s|load = \"mf_priority.so\"|load = \"$PLUGIN\"|" "$T_DIR/../etc/flux-fairshare.toml" >usr/share/flux-fairshare/flux-fairshare.toml &&
	FLUX_EXEC_PATH=$PWD/usr/libexec/flux/cmd:$FLUX_EXEC_PATH && test_must_fail flux jobtap load -r mf_priority.so "$PLUGIN" refresh=-1 &&
	check_findings 1 not-loaded && check_remedy not-loaded "" && check_findings 0 && flux jobtap query mf_priority.so | jq -e ".path == \"$PLUGIN\""
'
test_expect_success 'the remedy replaces the default plugin if it is loaded' '
	remove_plugin && flux jobtap load .priority-default && for command in status diff standing; do
		FLUX_FAIRSHARE_DATABASE=$DB test_might_fail flux fairshare $command >out 2>&1; cat out; grep -e "flux jobtap load -r .priority-default" out || return 1; done && check_findings 1 not-loaded && grep -F -e "-r .priority-default" doctor.json && check_remedy not-loaded "" && check_findings 0
'
for UPSTREAM in ${UPSTREAM_PLUGIN:+"$UPSTREAM_PLUGIN"} "$(pkg-config --variable=fluxlibdir flux-core)"/{job-manager/plugins,flux-fairshare/flux-accounting}/mf_priority.so; do
	test -e "$UPSTREAM" && ! grep -qa "mf_priority: loaded (version" "$UPSTREAM" && test_set_prereq UPSTREAM && break
done
test_expect_success UPSTREAM 'the remedy replaces the plugin of flux-accounting, which has the same name' '
	flux jobtap load -r mf_priority.so "$UPSTREAM" && check_finding "flux-accounting'\''s" && check_remedy "flux-accounting'\''s" "" &&
	flux jobtap query mf_priority.so | jq -e ".path == \"$PLUGIN\"" && check_findings 0
'
cat >behind.c <<'END'
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
/* The clock of the program is two hours behind. */
int clock_gettime (clockid_t id, struct timespec *now)
{
    long rc = syscall (SYS_clock_gettime, id, now);
    if (id == CLOCK_REALTIME)
        now->tv_sec -= 7200;
    return rc;
}
END
test_expect_success 'doctor finds data with a time in the future until the clocks agree' '
	plain=$(mktemp -d) && gcc -shared -fPIC -o $plain/behind.so behind.c && flux fairshare push -p $DB &&
	{ LD_PRELOAD=$plain/behind.so flux fairshare doctor -p $DB --json >doctor.json; rm -r $plain; } && cat doctor.json;
	jq -er ".findings[] | select(.code == \"clock\") | .remedy" doctor.json >remedy && grep "2.0 hours later than the clock of this machine" doctor.json && grep "set the clocks" remedy &&
	bash -c "$(sed "s/.*, then: //" remedy)" && check_findings 0
'
cat >site.c <<'END'
typedef int (*callback) (void *, const char *, void *, void *);
extern int flux_plugin_register (void *, const char *, const void *), flux_plugin_arg_pack (void *, int, const char *, ...);
static int priority (void *p, const char *topic, void *args, void *arg)
{
    return flux_plugin_arg_pack (args, 1, "{s:I}", "priority", 77LL);
}
int flux_plugin_init (void *p)
{
    static const struct { const char *topic; callback call; void *arg; } table[] = {
        { "job.state.priority", priority, 0 }, { "job.priority.get", priority, 0 }, { 0, 0, 0 },
    };
    return flux_plugin_register (p, "site", table);
}
END
test_expect_success 'doctor finds a plugin of another name that decides the priorities, and names the job' '
	gcc -shared -fPIC -o site.so site.c && flux queue stop --all && flux jobtap load "$PWD/site.so" && a=$(mf submit 5001) && flux job wait-event -t $MF_WAIT $a priority &&
	b=$(mf submit 5001) && flux job wait-event -t $MF_WAIT $b priority && check_findings 1 overruled queues-stopped && grep "has priority 77 in Flux" doctor.json &&
	check_finding overruled && grep -x "flux jobtap remove site.so" remedy && bash -c "$(cat remedy)" && c=$(mf submit 5001) && flux job wait-event -t $MF_WAIT $c priority && check_findings 0 queues-stopped &&
	cancel $a $b $c && wait_ended $a $b $c && flux queue start --all
'
test_expect_success 'doctor finds queues that only Flux or only the database has' '
	flux config get >before.json && jq ".queues = {silver: {}, gold: {}}" before.json >queues.json && flux config load <queues.json && check_remedy queues-not-stored "s/QUEUE/gold/" &&
	jq ".queues = {gold: {}}" before.json >queues.json && flux config load <queues.json && check_remedy queues-not-in-flux "s/QUEUE/silver/" &&
	flux config load <before.json && restore_database && check_findings 0
'
test_expect_success 'doctor finds a record that the plugin would refuse' '
	flux account add-user --username=root --userid=$(id -u) --bank=A && run_sql "UPDATE association_table SET default_bank = \"\" WHERE username = \"root\"" &&
	test_might_fail flux fairshare doctor -p $DB --json >doctor.json && cat doctor.json && code=$(jq -r "[.findings[] | select(.remedy | test(\"default-bank\"))][0].code" doctor.json) &&
	check_remedy $code "s/VALUE/A/" && restore_database && check_findings 0
'
test_expect_success 'doctor reports a refusal of the database once, with its remedy' '
	run_sql "UPDATE bank_table SET parent_bank = \"A\" WHERE bank = \"root\"" && check_findings 1 refused && restore_database && check_findings 0
'
test_expect_success 'doctor finds a plugin of another version' '
	mkdir -p other && LC_ALL=C sed "s/0\.1\.0/0.0.9/g" "$PLUGIN" >other/mf_priority.so && flux jobtap load -r mf_priority.so "$PWD/other/mf_priority.so" && flux fairshare push -p $DB &&
	check_findings 0 other-version && grep "the plugin is version 0.0.9" doctor.json && check_remedy other-version "" && flux fairshare push -p $DB && check_findings 0
'
test_expect_success 'doctor finds an association whose user id no job can have, and diff leaves it out' '
	flux account add-user --username=ghost --bank=A && run_sql "UPDATE association_table SET userid = 4294967295 WHERE username = \"ghost\"" &&
	flux fairshare push -p $DB && check_findings 1 wrong-id && test_might_fail flux fairshare diff -p $DB >out && cat out && grep silver out && ! grep 4294967295 out && flux account delete-user --force ghost A && restore_database && check_findings 0
'
test_expect_success 'doctor finds that the service of flux account does not run, and that its remedy works' '
	run_sql "UPDATE association_table SET max_sched_jobs = 0 WHERE userid = 5001" && flux fairshare push -p $DB && stop_service && check_findings 1 limits-hold-everything no-account-service &&
	check_remedy no-account-service "" && restore_database
'
test_expect_success 'the service that edits the database ends' 'stop_service'
finish
