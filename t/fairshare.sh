# SPDX-License-Identifier: LGPL-3.0-only
# Functions of the tests of `flux fairshare`: the command on Flux's path, and a database made by flux account.
#
#   FAIRSHARE_UNDER_TEST  path of the flux-fairshare to test (default: the release build of this tree)

FAIRSHARE_UNDER_TEST=$(realpath -m "${FAIRSHARE_UNDER_TEST:-$T_DIR/../target/release/flux-fairshare}")
DB=accounting.db # relative: the path may hold spaces

if ! flux account --help >/dev/null 2>&1; then
	skip_all='flux account is not installed'
	test_done
fi
if ! test -x "$FAIRSHARE_UNDER_TEST"; then
	echo "no command at $FAIRSHARE_UNDER_TEST: build it with cargo build --release" >&2
	exit 1
fi
# Runs the command, and keeps the documents of --json for the test in `finish`.
mkdir -p exec json
cat >exec/flux-fairshare <<EOF
#!/bin/bash
case " \$* " in
*" --json "*) ;;
*) exec "$FAIRSHARE_UNDER_TEST" "\$@" ;;
esac
"$FAIRSHARE_UNDER_TEST" "\$@" | tee "$PWD/json/\$1.\$\$"
exit \${PIPESTATUS[0]}
EOF
chmod +x exec/flux-fairshare
export FLUX_EXEC_PATH=$PWD/exec${FLUX_EXEC_PATH:+:$FLUX_EXEC_PATH}

# run_as UID COMMAND...: runs the command as the guest UID, or as the instance owner if UID is "own".
run_as() {
	local as=$1
	shift
	case $as in
	own) flux fairshare "$@" ;;
	*) FLUX_HANDLE_USERID=$as FLUX_HANDLE_ROLEMASK=0x2 flux fairshare "$@" ;;
	esac
}

# make_site: makes a database with two banks and four users, and starts the service that edits it.
make_site() {
	# Stop the service if the script ends early. Otherwise the instance would wait for the service, and both would keep running.
	cleanup 'test -z "$FLUX_URI" || stop_service >/dev/null 2>&1; :'
	test -n "$MF_SHARED" || { new_site; return; }
	# The first test file makes the database for all test files.
	(
		flock 9 || exit
		if test -e "$MF_SHARED/site.db"; then
			cp "$MF_SHARED/site.db" "$DB" && serve_site
		else
			new_site && cp "$DB" "$MF_SHARED/site.part" && mv "$MF_SHARED/site.part" "$MF_SHARED/site.db"
		fi
	) 9>"$MF_SHARED/site.lock"
}

serve_site() { flux account-service -p "$PWD/$DB" -t 9>&-; }

new_site() {
	flux account -p "$PWD/$DB" create-db >create.log 2>&1 &&
	serve_site &&
	flux account add-bank root 1 &&
	flux account add-bank --parent-bank=root A 30 &&
	flux account add-bank --parent-bank=root B 70 &&
	flux account add-queue silver --priority=5 &&
	flux account add-project physics &&
	flux account add-user --username=user5001 --userid=5001 --bank=A --shares=1 &&
	flux account add-user --username=user5002 --userid=5002 --bank=A --shares=2 --queues=silver &&
	flux account add-user --username=user5003 --userid=5003 --bank=B --shares=3 &&
	flux account add-user --username=user5004 --userid=5004 --bank=B --shares=4 --max-active-jobs=3
}

stop_service() { mf rpc accounting.shutdown_service >/dev/null; }

# set_usage USERID AMOUNT: stores a usage, as update-usage does.
set_usage() {
	run_sql "UPDATE association_table SET job_usage=$2 WHERE userid=$1"
}

# run_sql STATEMENT: runs a statement on the database and prints its rows.
run_sql() { mf sql "$DB" "$1"; }

# print_stored: prints user and fair-share in the database.
print_stored() {
	run_sql 'SELECT username, fairshare FROM association_table ORDER BY username'
}

# hold_lock: locks the database in another process, until release_lock.
hold_lock() {
	flux python -c 'import sqlite3, sys, time
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("BEGIN IMMEDIATE")
open("locked", "w").close()
time.sleep(60)' "$DB" &
	lock_pid=$!
	while ! test -e locked; do sleep 0.05; done
}

release_lock() {
	kill $lock_pid && wait $lock_pid
	rm -f locked
	return 0
}

# start_relay ARGUMENT...: starts a faulty connection to the broker (t/scripts/relay.py); its address is in $through.
start_relay() {
	rm -f relay.sock relay.sock.stalled
	python3 "$T_DIR/scripts/relay.py" relay.sock "$@" 2>>relay.log 8>&- 9>&- &
	relay_pid=$!
	while ! test -S relay.sock; do sleep 0.05; done
	through=local://$PWD/relay.sock
}
end_relay() {
	kill $relay_pid && wait $relay_pid
	return 0
}
