#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='flux fairshare metrics: each metric is compared with a count without the plugin'

. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence

print_now() { date +%s.%N; }
# check_metrics KEY=VALUE...: compares the present metrics with independent counts (t/scripts/metrics.py).
check_metrics() {
	flux fairshare metrics --users >metrics.txt && flux python "$T_DIR/scripts/metrics.py" metrics.txt loaded=$loaded "$@"
}

test_expect_success 'metrics count jobs of users without data once, as waiting' '
	write_conf "$(with_queues batch silver) | $(with_linger) | .fairshare = {refresh: 0.5}" && start_instance && load_plugin &&
	loaded=$(print_now) && stop_queues && mf submit 5001 -q batch -j 8 >ids && mf submit 5009 -q batch -j 4 >>ids && wait_settled &&
	check_metrics pushes=0 refresh=0 
'
test_expect_success 'a push counts once, whatever its number of requests, and a dry run does not count' '
	make_site && flux account add-queue batch && flux account edit-user user5001 --max-running-jobs=2 --queues=batch,silver &&
	flux account edit-user user5003 --queues=batch && set_usage 5001 90000 && set_usage 5003 10000 &&
	flux fairshare update -p $DB &&
	flux fairshare push --dry-run -p $DB && flux fairshare push -p $DB && flux fairshare push --dry-run -p $DB &&
	flux account-priority-update -p $DB && flux fairshare push -p $DB --json >push.json &&
	pushed=$(print_now) && generation=$(jq .changes.generation push.json)
'
test_expect_success 'metrics count jobs in every state' '
	wait_scheduled $(head -2 ids) && stop_queues && touch linger && start_queues && mf submit 5003 -q batch -N1 -n2 -j 3 >b && wait_running $(cat b) &&
	cancel $(head -1 b) && wait_for finish $(head -1 b) &&
	stop_queues && mf submit 5003 -q batch -j 3 -N2 -n4 >more && wait_scheduled $(cat more) &&
	mf submit 5003 -q batch -d afterany:$(flux job id --to=dec $(tail -1 b)) >blocked && wait_settled && flux jobs -A &&
	check_metrics db=$DB owner=1 pushes=3 pushed=$pushed generation=$generation refresh=0.5 asked.standing=1
'
test_expect_success 'the check of the dashboard fails without panels and without alerts' '
	cp -r "$T_DIR/../etc/grafana" "$T_DIR/../etc/prometheus" . && jq ".panels = []" grafana/flux-fairshare.json >none && cp none grafana/flux-fairshare.json &&
	test_must_fail python3 "$T_DIR/scripts/panels.py" http://127.0.0.1:1 . 2>err && cat err && grep "the dashboard has no panels" err &&
	cp "$T_DIR/../etc/grafana/flux-fairshare.json" grafana/ && echo "groups: []" >prometheus/flux-fairshare.rules.yml &&
	test_must_fail python3 "$T_DIR/scripts/panels.py" http://127.0.0.1:1 . 2>err && cat err && grep "there are no alerts" err
'
command -v prometheus >/dev/null && test_set_prereq PROMETHEUS
test_expect_success PROMETHEUS 'in Prometheus, the query of each panel of the dashboard returns data, and each alert is valid' '
	flux fairshare metrics --listen 127.0.0.1:0 >served 2>&1 8>&- 9>&- & served_pid=$! &&
	for i in $(seq 100); do grep -q http served && break; sleep 0.1; done &&
	python3 "$T_DIR/scripts/panels.py" "$(sed -n "s/.*\(http[^ ]*\).*/\1/p" served)" "$T_DIR/../etc"; rc=$?; kill $served_pid; return $rc
'
test_expect_success 'metrics count requests by method, and refused requests apart' '
	flux fairshare jobs -A >/dev/null && flux fairshare jobs -A >/dev/null && flux fairshare why $(tail -1 b) >/dev/null &&
	{ mf rpc jobs "{\"bank\": \"$(printf "x%.0s" $(seq 70000))\"}" >/dev/null; :; } &&
	check_metrics db=$DB owner=1 pushes=3 pushed=$pushed generation=$generation refresh=0.5 asked.standing=2 asked.jobs=3 asked.explain=1 refused.jobs=1
'
test_expect_success 'all jobs end' 'rm -f linger && cancel_all'
finish
