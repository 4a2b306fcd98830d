# SPDX-License-Identifier: LGPL-3.0-only
# What every sharness test here shares: a real Flux instance, and short words for what is done to it.
#
#   PLUGIN_UNDER_TEST  path of the mf_priority.so to test (default: the release build of this tree)
#   MF_WAIT            seconds to wait for an event (default 30)
#   MF_WRAP            command to run the broker under, as words joined by commas (valgrind)
#   MF_SHARED          a directory where what takes long and several tests need is made once (t/run.sh has one)
#
# The test script itself stays outside: start_instance runs a broker in the background and points
# FLUX_URI at it, so that job ids in shell variables outlive a restart of the instance.

T_DIR=$(cd "$(dirname "$0")" && pwd)
PLUGIN_UNDER_TEST=$(realpath -m "${PLUGIN_UNDER_TEST:-$T_DIR/../target/release/libmf_priority.so}")
MF_WAIT=${MF_WAIT:-30}
SHARNESS_TEST_DIRECTORY=${SHARNESS_TEST_DIRECTORY:-$(mktemp -d "${TMPDIR:-/tmp}/mf-sharness.XXXXXX")}
SHARNESS_TEST_SRCDIR=$T_DIR
export HARNESS_ACTIVE=1
. "${SHARNESS_LIB:-/usr/share/sharness/sharness.sh}"

if ! command -v flux >/dev/null; then
	skip_all='flux is not on PATH'
	test_done
fi
if ! test -e "$PLUGIN_UNDER_TEST"; then
	echo "no plugin at $PLUGIN_UNDER_TEST: build it with" \
		"cargo build --release" >&2
	exit 1
fi

# Flux knows the plugin by its file's name, whatever the build calls it.
mkdir -p so
ln -sf "$PLUGIN_UNDER_TEST" so/mf_priority.so
PLUGIN=$PWD/so/mf_priority.so

unset FLUX_URI FLUX_CONF_DIR
export FLUX_DISABLE_JOB_CLEANUP=t # an instance that ends leaves its jobs as they are
export FLUX_PYCLI_LOGLEVEL=30

# mf COMMAND...: what t/scripts/mf.py does, by a process of this script's. Its socket has a short name: those of sockets have a limit.
mf_socket=$(mktemp -u "${TMPDIR:-/tmp}/mf.XXXXXX")
flux python "$T_DIR/scripts/served.py" "$mf_socket" $$ >served.log 2>&1 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- </dev/null &
disown # a test that waits for all it has begun does not wait for this
mf() {
	local tries=0
	until test -S "$mf_socket"; do
		test $((tries += 1)) -lt 600 || { echo "mf: nobody serves"; cat served.log; return 1; }
		sleep 0.05
	done
	python3 -IS "$T_DIR/scripts/asks.py" "$mf_socket" "$@"
}

# write_conf [JQ_FILTER]: the broker's configuration; the filter adds to it. Of what Flux has Python do to each job before the plugin sees
# it nothing is needed here: with_frobnicator is a filter for who wants jobs to come as they do at a site with queues.
write_conf() {
	jq -n --arg so "$PLUGIN" '{
		"fake-resources": {nnodes: 4, "cores-per-node": 4},
		exec: {testexec: {"allow-guests": true}},
		ingest: {validator: {disable: true}, frobnicator: {disable: true}},
		"job-manager": {plugins: [{remove: ".priority-default"}]}
	} | '"${1:-.}" >conf.json
}

# A filter for write_conf: load the plugin with the broker, with the document in file $1 if given.
with_plugin() {
	if test $# -gt 0; then
		echo '."job-manager".plugins += [{load: $so, conf: {config: '"$(cat "$1")"'}}]'
	else
		echo '."job-manager".plugins += [{load: $so}]'
	fi
}

# A filter for write_conf: the named queues.
with_queues() {
	local q
	for q; do printf '.queues["%s"] = {} | ' "$q"; done
	echo .
}

with_frobnicator() { echo 'del(.ingest.frobnicator)'; }

# A filter for write_conf: a finished job stays in CLEANUP for as long as the file ./linger exists.
with_linger() {
	cat <<-EOF
	."job-manager".plugins += [{load: "perilog.so"}] |
	."job-manager".epilog = {command: ["sh", "-c", "while test -e \"$PWD/linger\"; do sleep 0.05; done"]}
	EOF
}

# What a site has its brokers do at their start (rc1.d) is not done here: flux-accounting's script gives the plugin whatever database this
# machine has. A Flux that has no such task would refuse the name.
no_rc1=
grep -q "@task(\"run-all-rc1\"" "$(flux config builtin libexecdir 2>/dev/null)/modprobe/rc1.py" 2>/dev/null && no_rc1=FLUX_MODPROBE_DISABLE=run-all-rc1

# start_instance: bring up a broker on ./state with ./conf.json; returns when it serves.
start_instance() {
	test -e conf.json || write_conf
	mkdir -p state
	rm -f uri leash
	mkfifo leash
	# The initial program lives as long as we hold the leash: no orphan survives this script.
	# No descriptor of sharness goes along: a reader of the test's output would wait for the broker.
	env $no_rc1 flux start ${MF_WRAP:+--wrap="$MF_WRAP"} -c conf.json -Sstatedir="$PWD/state" \
		-Slog-stderr-level=3 -Slog-ring-size=65536 \
		bash -c 'flux getattr local-uri >uri.part && mv uri.part uri && cat leash' \
		>>broker.log 2>&1 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
	broker_pid=$!
	exec 8<>leash # read and write: opening does not wait for the reader
	FLUX_URI=
	while kill -0 $broker_pid 2>/dev/null; do
		if test -s uri; then
			FLUX_URI=$(cat uri)
			export FLUX_URI
			# A fresh instance has its named queues stopped; a restarted one keeps what it had.
			test -e state/started || start_queues && : >state/started
			return 0
		fi
		sleep 0.05
	done
	echo "the broker did not start" && tail -20 broker.log
	return 1
}

# stop_instance: an orderly shutdown; jobs stay as they are, for the next start_instance.
stop_instance() {
	test -n "$broker_pid" || return 0
	# A broker waits for a service that runs in it.
	! type stop_service >/dev/null 2>&1 || stop_service >/dev/null 2>&1
	exec 8>&-
	wait $broker_pid
	broker_rc=$?
	broker_pid=
	unset FLUX_URI
	test $broker_rc -eq 0 || { echo "broker: exit $broker_rc"; tail -20 broker.log; return 1; }
}

restart_instance() {
	flux dmesg >>dmesg.log
	stop_instance && start_instance
}

# load_plugin [FILE]: load the plugin into the running instance, with the document of FILE if given. What Flux has its own commands for,
# which t1001 and others run, mf does where it is done hundreds of times: they take as long to start as a test needs for all the rest.
load_plugin() { mf load "$PLUGIN" "$@"; }

remove_plugin() { mf remove mf_priority.so; }

# reload_plugin [FILE]
reload_plugin() {
	remove_plugin && load_plugin "$@"
}

# With the queues stopped, jobs go as far as SCHED and stay there.
stop_queues() { mf queues stop; }
start_queues() { mf queues start; }

# wait_for EVENT ID [KEY=VALUE]
wait_for() {
	flux job wait-event -t "$MF_WAIT" ${3:+-m "$3"} "$2" "$1" >/dev/null
}

# some ID...: fails without ids, or with an empty one: a check over no job would pass.
some() {
	local id
	test $# -gt 0 || { echo "of no job"; return 1; }
	for id; do test -n "$id" || { echo "of a job without an id"; return 1; }; done
}

running() { local id; some "$@" && for id; do wait_for start "$id" || return 1; done; }
scheduled() { local id; some "$@" && for id; do wait_for priority "$id" || return 1; done; }
ended() { local id; some "$@" && for id; do wait_for clean "$id" || return 1; done; }
held_by() { wait_for dependency-add "$1" description="$2"; }
freed_from() { wait_for dependency-remove "$1" description="$2"; }

# cancel ID...: ask for it; `ended` waits for it.
cancel() {
	local id
	some "$@" && for id; do flux job raise --severity=0 --type=cancel "$id" || return 1; done
}

# is_state STATE ID...: what the job manager says now.
is_state() { some "${@:2}" && mf is_state "$@"; }

# held_in_sched ID...: in SCHED, at priority 0, whatever the urgency.
held_in_sched() {
	local id
	is_state SCHED "$@" && for id; do
		test "$(flux jobs --no-header --format="{priority}" "$id")" = 0 || { flux jobs "$id"; return 1; }
	done
}

# deps_are ID LIST: the names that hold the job, in the query's order, joined by commas, or none.
deps_are() {
	local have
	have=$(mf deps "$1")
	test "$have" = "$2" || { echo "$1 is held by $have, not $2"; return 1; }
}

# prio_is ID N: the priority last given to the job.
prio_is() {
	local have
	have=$(mf prio "$1")
	test "$have" = "$2" || { echo "$1 has priority $have, not $2"; return 1; }
}

# refused TEXT COMMAND...: the command fails and says TEXT, and nothing else but what to do, behind "; ".
refused() {
	local want=$1
	shift
	"$@" >refused.out 2>&1 && { echo "accepted: $*"; cat refused.out; return 1; }
	grep -qxF -- "$want" refused.out || awk -v want="$want; " \
		'BEGIN { n = length(want) } substr($0, 1, n) == want { found = 1 } END { exit !found }' refused.out || { echo "expected: $want"; cat refused.out; return 1; }
}

# never ID PATTERN: the job's events could be read, and none is like that.
never() {
	mf events "$1" >events.read && grep -q ^submit events.read || { echo "the events of $1 could not be read"; return 1; }
	! grep -E -- "$2" events.read
}

# logged TEXT: the broker's log holds it. not_logged TEXT: it could be read, and does not. new_log: forget what is there.
logged() { flux dmesg | grep -F -- "$1"; }
not_logged() { flux dmesg >log.read && ! grep -F -- "$1" log.read; }
new_log() { flux dmesg >>dmesg.log && flux dmesg -C; }

# errors_logged: lines of level err or worse that the job manager logged since new_log. no_errors: there are none.
errors_logged() { flux dmesg | grep -E "job-manager\.(err|crit|alert|emerg)"; }
no_errors() { flux dmesg >log.read && ! grep -E "job-manager\.(err|crit|alert|emerg)" log.read; }

# Let timers, lookups and answers that are under way come to rest: a few turns of the job manager. For claims that something did not happen.
settled() { mf alive && mf alive; }

# post_event ID NAME JSON: write an event into the job's log, as another plugin may.
post_event() {
	mf rpc job-manager.post-event.post "{\"id\":$(flux job id "$1"),\"name\":\"$2\",\"context\":$3}"
}

# end_linger ID...: let jobs leave CLEANUP whose epilog a restart of the broker has killed.
end_linger() {
	local id
	for id; do post_event "$id" epilog-finish '{"description":"job-manager.epilog","status":0}' || return 1; done
}

# unlog_end ID: take the last event (clean) out of an ended job's log, so that a restart finds the job in
# CLEANUP with nothing left to wait for.
unlog_end() {
	local key
	key=$(flux job id --to=kvs "$1").eventlog &&
	flux kvs get --raw "$key" | sed '$d' >unlogged &&
	flux kvs put --raw "$key=-" <unlogged
}

# cancel_all: end every job that is left, however slow the machine is.
cancel_all() { mf cancel_all "$MF_WAIT" || { flux jobs --user=all; flux queue status -v; flux dmesg | tail -20; return 1; }; }

# finish: the last line of a test. Our own plugin must also agree with its recount, and have logged no trouble. Another one that knows no
# check is let off; a test that ends without any says so by NO_PLUGIN, and one that loads two priority plugins by TWO_PLUGINS.
finish() {
	if test -n "$broker_pid" && test -z "$NO_PLUGIN"; then
		mf check >check.out 2>&1 || ! grep -q ENOSYS check.out || ! flux jobtap list | grep -q mf_priority && test_set_prereq CHECK
	fi
	test_expect_success CHECK 'counters equal a recount' '
		mf check
	'
	test_expect_success CHECK 'no bug and no failed callback was logged' '
		flux dmesg >>dmesg.log &&
		! grep -e BUG: -e "callback returned error" -e panic dmesg.log &&
		{ test -n "$TWO_PLUGINS" || ! grep "another priority plugin decides" dmesg.log; }
	'
	test_expect_success 'the broker ends in order' '
		stop_instance
	'
	test_done
}
