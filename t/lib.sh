# SPDX-License-Identifier: LGPL-3.0-only
# Functions of the sharness tests: a real Flux instance, its jobs and the plugin.
#
#   PLUGIN_UNDER_TEST  path of the mf_priority.so to test (default: the release build of this tree)
#   MF_WAIT            seconds to wait for an event (default 30)
#   MF_WRAP            command to run the broker under, as words joined by commas (valgrind)
#   MF_SHARED          directory for results that several tests share (t/run.sh makes one)
#
# The test script runs outside of the instance: start_instance runs a broker in the background and sets FLUX_URI, so that job ids in
# shell variables outlive a restart of the instance.

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

# Flux uses the file name as the name of the plugin.
mkdir -p so
ln -sf "$PLUGIN_UNDER_TEST" so/mf_priority.so
PLUGIN=$PWD/so/mf_priority.so

unset FLUX_URI FLUX_CONF_DIR
export FLUX_DISABLE_JOB_CLEANUP=t # jobs stay as they are when the instance ends
export FLUX_PYCLI_LOGLEVEL=30

# in_sequence: for a file in which tests use jobs and data of earlier tests. Names each test "step N", and shows whether an earlier step
# failed, since a later failure may follow from it.
in_sequence() {
	eval "expect_success() $(declare -f test_expect_success | sed 1d)"
	sequence_step=0
	test_expect_success() {
		sequence_step=$((sequence_step + 1))
		expect_success "${@:1:$#-2}" "step $sequence_step$(test "$test_failure" -eq 0 || echo ", after a failed step"): ${*: -2:1}" "${*: -1}"
	}
}

# mf COMMAND...: runs a command of t/scripts/mf.py. The commands run in a server process that this script starts. The server's socket is in
# TMPDIR, because the path of a socket must be short.
mf_socket=$(mktemp -u "${TMPDIR:-/tmp}/mf.XXXXXX")
flux python "$T_DIR/scripts/served.py" "$mf_socket" $$ >served.log 2>&1 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- </dev/null &
disown # "wait" in a test must not wait for this process
# The path of the interpreter itself. A wrapper, such as that of pyenv, uses more CPU time than the commands of mf.
python=$(python3 -c "import sys; print(sys.executable)")
mf() {
	local tries=0
	until test -S "$mf_socket"; do
		test $((tries += 1)) -lt 600 || { echo "mf: the server does not answer"; cat served.log; return 1; }
		sleep 0.05
	done
	"$python" -IS "$T_DIR/scripts/asks.py" "$mf_socket" "$@"
}

# write_conf [JQ_FILTER]: writes the configuration of the broker, to which the filter adds. The Python steps
# of job ingest are off, because they are slow. The filter with_frobnicator switches the frobnicator on.
write_conf() {
	jq -n --arg so "$PLUGIN" '{
		"fake-resources": {nnodes: 4, "cores-per-node": 4},
		exec: {testexec: {"allow-guests": true}},
		ingest: {validator: {disable: true}, frobnicator: {disable: true}},
		"job-manager": {plugins: [{remove: ".priority-default"}]}
	} | '"${1:-.}" >conf.json
}

# with_plugin [FILE]: a filter for write_conf that loads the plugin with the broker, with the document in FILE if given.
with_plugin() {
	if test $# -gt 0; then
		echo '."job-manager".plugins += [{load: $so, conf: {config: '"$(cat "$1")"'}}]'
	else
		echo '."job-manager".plugins += [{load: $so}]'
	fi
}

# with_queues NAME...: a filter for write_conf that adds queues.
with_queues() {
	local q
	for q; do printf '.queues["%s"] = {} | ' "$q"; done
	echo .
}

with_frobnicator() { echo 'del(.ingest.frobnicator)'; }

# with_linger: a filter for write_conf that keeps finished jobs in CLEANUP while the file ./linger exists.
with_linger() {
	cat <<-EOF
	."job-manager".plugins += [{load: "perilog.so"}] |
	."job-manager".epilog = {command: ["sh", "-c", "while test -e \"$PWD/linger\"; do sleep 0.05; done"]}
	EOF
}

# Disables the task of Flux that runs the scripts in rc1.d, because flux-accounting's script would push the database of this machine. A
# version of Flux without this task would reject the name of the task.
no_rc1=
grep -q "@task(\"run-all-rc1\"" "$(flux config builtin libexecdir 2>/dev/null)/modprobe/rc1.py" 2>/dev/null && no_rc1=FLUX_MODPROBE_DISABLE=run-all-rc1

# start_instance: starts a broker on ./state with ./conf.json, and waits until it serves.
start_instance() {
	test -e conf.json || write_conf
	mkdir -p state
	rm -f uri leash
	mkfifo leash
	# The initial program reads the fifo `leash` until this script ends. So the broker ends with the script.
	# The broker gets no descriptor of sharness: a reader of the test's output would wait for the broker.
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
			# Named queues are stopped in a new instance; a restarted instance keeps the state of its queues.
			test -e state/started || start_queues && : >state/started
			return 0
		fi
		sleep 0.05
	done
	echo "the broker did not start" && tail -20 broker.log
	return 1
}

# stop_instance: shuts the broker down regularly. Jobs stay as they are for the next start_instance.
stop_instance() {
	test -n "$broker_pid" || return 0
	# Stop the service of flux account first, because the broker would wait for it.
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

# load_plugin [FILE]: loads the plugin into the running instance, with the document in FILE if FILE is given. This function and the next two
# use mf, which is faster than the commands of Flux. t1001 tests the commands of Flux.
load_plugin() { mf load "$PLUGIN" "$@"; }

remove_plugin() { mf remove mf_priority.so; }

# reload_plugin [FILE]
reload_plugin() {
	remove_plugin && load_plugin "$@"
}

# While the queues are stopped, jobs stay in SCHED.
stop_queues() { mf queues stop; }
start_queues() { mf queues start; }

# wait_for EVENT ID [KEY=VALUE]: waits for an event of the job.
wait_for() {
	flux job wait-event -t "$MF_WAIT" ${3:+-m "$3"} "$2" "$1" >/dev/null
}

# require_ids ID...: fails if there is no id, or if an id is empty. Without this function, a check of no job would pass.
require_ids() {
	local id
	test $# -gt 0 || { echo "no job id given"; return 1; }
	for id; do test -n "$id" || { echo "empty job id given"; return 1; }; done
}

wait_running() { local id; require_ids "$@" && for id; do wait_for start "$id" || return 1; done; }
wait_scheduled() { local id; require_ids "$@" && for id; do wait_for priority "$id" || return 1; done; }
wait_ended() { local id; require_ids "$@" && for id; do wait_for clean "$id" || return 1; done; }
wait_held_by() { wait_for dependency-add "$1" description="$2"; }
wait_freed_from() { wait_for dependency-remove "$1" description="$2"; }

# cancel ID...: cancels jobs; `wait_ended` waits until they have ended.
cancel() {
	local id
	require_ids "$@" && for id; do flux job raise --severity=0 --type=cancel "$id" || return 1; done
}

# is_state STATE ID...: checks the present state of jobs.
is_state() { require_ids "${@:2}" && mf is_state "$@"; }

# held_in_sched ID...: checks that jobs are in SCHED at priority 0.
held_in_sched() {
	local id
	is_state SCHED "$@" && for id; do
		test "$(flux jobs --no-header --format="{priority}" "$id")" = 0 || { flux jobs "$id"; return 1; }
	done
}

# deps_are ID LIST: checks the dependencies by which the plugin holds the job. LIST has their names in the
# order of the query, joined by commas, or is empty.
deps_are() {
	local have
	have=$(mf deps "$1")
	test "$have" = "$2" || { echo "$1 is held by $have, not $2"; return 1; }
}

# wait_until COMMAND...: waits until the command succeeds, for $MF_WAIT seconds at most.
wait_until() {
	local until=$((SECONDS + MF_WAIT))
	until "$@"; do
		test $SECONDS -le $until || return 1
		sleep 0.1
	done
}

# prio_is ID N: checks the posted priority of the job.
prio_is() {
	local have
	have=$(mf prio "$1")
	test "$have" = "$2" || { echo "$1 has priority $have, not $2"; return 1; }
}

# check_refused TEXT COMMAND...: checks that the command fails, and that a line of its output is TEXT, or TEXT
# followed by "; " and advice.
check_refused() {
	local want=$1
	shift
	"$@" >refused.out 2>&1 && { echo "accepted: $*"; cat refused.out; return 1; }
	grep -qxF -- "$want" refused.out || awk -v want="$want; " \
		'BEGIN { n = length(want) } substr($0, 1, n) == want { found = 1 } END { exit !found }' refused.out || { echo "expected: $want"; cat refused.out; return 1; }
}

# check_no_event ID PATTERN: checks that no event of the job matches.
check_no_event() {
	mf events "$1" >events.read && grep -q ^submit events.read || { echo "the events of $1 could not be read"; return 1; }
	! grep -E -- "$2" events.read
}

# log_has TEXT, log_lacks TEXT: check whether the log of the broker has TEXT. clear_log: clears the log.
log_has() { flux dmesg | grep -F -- "$1"; }
log_lacks() { flux dmesg >log.read && ! grep -F -- "$1" log.read; }
clear_log() { flux dmesg >>dmesg.log && flux dmesg -C; }

# list_errors: prints lines of level err or worse that the job manager logged since clear_log. no_errors: checks that there are none.
list_errors() { flux dmesg | grep -E "job-manager\.(err|crit|alert|emerg)"; }
no_errors() { flux dmesg >log.read && ! grep -E "job-manager\.(err|crit|alert|emerg)" log.read; }

# wait_settled: waits a few turns of the job manager's reactor, for tests that something does not happen.
wait_settled() { mf alive && mf alive; }

# post_event ID NAME JSON: posts an event of the job, as another plugin may.
post_event() {
	mf rpc job-manager.post-event.post "{\"id\":$(flux job id "$1"),\"name\":\"$2\",\"context\":$3}"
}

# end_linger ID...: ends the epilog of jobs in CLEANUP after a restart of the broker has killed it.
end_linger() {
	local id
	for id; do post_event "$id" epilog-finish '{"description":"job-manager.epilog","status":0}' || return 1; done
}

# unlog_end ID: removes the last event (clean) from the eventlog of an ended job, so that a restart finds the job in CLEANUP and ends it.
unlog_end() {
	local key
	key=$(flux job id --to=kvs "$1").eventlog &&
	flux kvs get --raw "$key" | sed '$d' >unlogged &&
	flux kvs put --raw "$key=-" <unlogged
}

# cancel_all: cancels all jobs, and waits until they have ended.
cancel_all() { mf cancel_all "$MF_WAIT" || { flux jobs --user=all; flux queue status -v; flux dmesg | tail -20; return 1; }; }

# finish: ends a test file. Checks that the counters of our plugin equal a recount, and that the log has no error. Skips these checks if the
# plugin has no method "check".
#   NO_PLUGIN=t     no plugin is loaded at the end of the test file
#   TWO_PLUGINS=1   the test file loads a second priority plugin
finish() {
	if test -n "$broker_pid" && test -z "$NO_PLUGIN"; then
		mf check >check.out 2>&1 || ! grep -q ENOSYS check.out || ! flux jobtap list | grep -q mf_priority && test_set_prereq CHECK
	fi
	test_expect_success CHECK 'counters equal a recount' '
		mf check
	'
	test_expect_success CHECK 'the log has no bug and no failed callback' '
		flux dmesg >>dmesg.log &&
		! grep -e BUG: -e "callback returned error" -e panic dmesg.log &&
		{ test -n "$TWO_PLUGINS" || ! grep "another priority plugin decides" dmesg.log; }
	'
	if test -d json; then
		test_expect_success 'each document of --json follows its schema in docs/schemas' '
			flux python "$T_DIR/scripts/schemas.py" json
		'
	fi
	test_expect_success 'the broker ends with exit status 0' '
		stop_instance
	'
	test_done
}
