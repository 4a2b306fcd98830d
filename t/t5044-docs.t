#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='every command in the documents runs and prints the documented output'

# The refresh interval of one hour keeps usages constant, so that the printed numbers do not depend on the speed of the machine.
. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
in_sequence
TOP=$(cd "$T_DIR/.." && pwd)
docs=$TOP/t/scripts/docs.sh
theirs=${UPSTREAM_PLUGIN:-$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so}
test -e "$theirs" && ! grep -qa "mf_priority: loaded (version" "$theirs" && test_set_prereq UPSTREAM ||
	echo "!! flux-accounting's mf_priority.so is not at $theirs: the examples of docs/migrate.md are NOT run" >&2

# copy_document FILE [SED...]: copies the document and replaces its names by the names of this test.
copy_document() {
	local file=$1
	shift
	mkdir -p docs && sed -e "s|load -r mf_priority.so mf_priority.so \"config|load -r mf_priority.so \"$theirs\" \"config|" \
		-e "s|load -r mf_priority.so mf_priority.so\$|load -r mf_priority.so \"$PLUGIN\"|" "$@" "$TOP/$file" >docs/"${file##*/}"
}
# run_and_show COMMAND...: runs the command, shows its output and keeps it in ./out. docs.sh fails if an output is wrong or no block was run.
run_and_show() {
	local rc
	"$@" >out
	rc=$?
	cat out
	return $rc
}
as_5001() { FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 "$@"; }

test_expect_success 'every command of the documents that needs no Flux prints the documented output' '
	(cd "$TOP" && unset FLUX_URI && bash "$docs" README.md CONTRIBUTING.md docs/*.md) >out || { cat out; return 1; }
	cat out && grep "[1-9] blocks, .* 0 wrong" out
'
test_expect_success 'a test runs each kind of block in the documents' '
	sed -n "s/^\`\`\`console \(.*\)/\1/p" "$TOP"/README.md "$TOP"/docs/*.md | sort -u >kinds && printf "%s\n" budgets credits deb deb-running fresh gone gpus ours page rpm site sources upstream >wanted &&
	for kind in $(cat wanted); do grep -q -e "--live $kind " "$T_DIR/t5044-docs.t" "$T_DIR/t5047-docs-root.t" || { echo "nobody runs $kind"; return 1; }; done && test_cmp wanted kinds
'
test_expect_success 'the README has the same figures as the table of flaws' '
	rows() { grep -cE "^\| [0-9]+ \| t7[0-9]+ .*\| $1 \| pass \|\$" "$TOP/docs/evidence/flaws.md"; } && all=$(rows "(pass|fail)") &&
	grep -F "| $(rows pass) of $all | $all of $all |" "$TOP/README.md"
'
test_expect_success 'the links in the documents lead to existing files' '
	for file in "$TOP"/README.md "$TOP"/CONTRIBUTING.md "$TOP"/CHANGELOG.md "$TOP"/docs/*.md "$TOP"/docs/evidence/*.md "$TOP"/t/README.md; do
		(cd "$(dirname "$file")" && grep -o "\]([^)#]*" "$(basename "$file")" | sed "s/^](//" | grep -v -e :// -e "^$" | while read -r link; do
			case $link in *" "*) ;; *) test -e "$link" || echo "$file: $link" ;; esac; done); done >missing
	grep -e : missing; test_must_be_empty missing
'
test_expect_success 'docs/admin.md leads from an empty database to a plugin with data' '
	write_conf ".fairshare.refresh = \"1h\"" && start_instance && load_plugin && DB=fresh.db && flux account -p "$PWD/$DB" create-db >create.log 2>&1 && flux account-service -p "$PWD/$DB" -t &&
	copy_document docs/admin.md -e "/^. flux account create-db/d" && FLUX_FAIRSHARE_DATABASE=$PWD/$DB run_and_show bash "$docs" --live fresh docs/admin.md
	rc=$?; stop_service; return $rc
'
test_expect_success 'docs/user.md shows a site and its jobs' '
	DB=accounting.db && make_site && flux account edit-user user5001 --max-running-jobs=1 && export FLUX_FAIRSHARE_DATABASE=$PWD/$DB && flux fairshare push &&
	run=$(mf submit 5001) && wait_running $run && held=$(mf submit 5001) && wait_held_by $held max-running-jobs-user-limit && wait_settled &&
	copy_document docs/user.md -e "s/ƒ2YSTvBdGM/ƒ${held#?}/g" && run_and_show as_5001 bash "$docs" --live site docs/user.md
'
test_expect_success 'docs/admin.md shows a running site' '
	copy_document docs/admin.md && run_and_show bash "$docs" --live ours docs/admin.md
'
test_expect_success UPSTREAM 'docs/migrate.md leads from the plugin of flux-accounting to ours' '
	flux jobtap load -r mf_priority.so "$theirs" "config=$(flux account export-json)" && copy_document docs/migrate.md && run_and_show bash "$docs" --live site docs/migrate.md &&
	run_and_show bash "$docs" --live upstream docs/migrate.md && wait_settled && is_state RUN $run && is_state DEPEND $held
'
test_expect_success UPSTREAM 'docs/migrate.md leads back, with jobs that would be lost' '
	flux fairshare limit set user user5004 run-nodes=1 >out && flux fairshare limit set user user5003 run-nodes=1 >out && flux fairshare push &&
	for u in 5003 5004; do a=$(mf submit $u -N 1) && wait_running $a && b=$(mf submit $u -N 1) && wait_held_by $b max-run-nodes-user || return 1; done &&
	copy_document docs/migrate.md && run_and_show bash "$docs" --live ours docs/migrate.md && wait_running $b && is_state DEPEND $held
'
test_expect_success 'our plugin is loaded again' 'flux jobtap load -r mf_priority.so "$PLUGIN"'
test_expect_success 'docs/reference.md shows limits that flux-accounting lacks' '
	flux account add-bank --parent-bank=root small 1 && copy_document docs/reference.md && run_and_show bash "$docs" --live gpus docs/reference.md
'
test_expect_success 'docs/admin.md shows limits on submissions, queues and single jobs' '
	copy_document docs/admin.md && run_and_show bash "$docs" --live gpus docs/admin.md
'
test_expect_success 'docs/reference.md shows the remedy after a failed load' '
	flux jobtap remove mf_priority.so && copy_document docs/reference.md -e "s|jobtap load mf_priority.so &&|jobtap load \"$PLUGIN\" \&\&|" && run_and_show bash "$docs" --live gone docs/reference.md
'
test_expect_success 'docs/command.md shows the page of a simulation' '
	ln -s "$TOP/t" t && run_and_show bash "$docs" --live page "$TOP/docs/command.md" && grep "^</html>" week.html
'
# pieces.py finds the TOML blocks with a table [fairshare] in the documents. It merges each block into the configuration of this broker,
# and writes the result to a file.
cat >pieces.py <<-'END'
	import json, re, sys, tomllib
	text = "".join(open(path, encoding="utf-8").read() for path in sys.argv[2:])
	for at, piece in enumerate(re.findall(r"^```toml\n(.*?)^```", text, re.M | re.S)):
	    piece = tomllib.loads(piece)
	    if "fairshare" in piece:  # t5047 tests how the plugin is loaded
	        queues = {name: {} for name in piece["fairshare"].get("queues", {})}
	        whole = json.load(open(sys.argv[1])) | piece | ({"queues": queues} if queues else {})
	        json.dump(whole, open(f"piece{at}.json", "w"))
END
test_expect_success 'Flux and the plugin accept each piece of configuration in the documents' '
	flux python pieces.py conf.json "$TOP"/README.md "$TOP"/docs/*.md && test "$(ls piece*.json | wc -l)" = 4 &&
	for piece in piece*.json; do
		flux config load <$piece && sed -E "s/running-limits|run-sched-gpus|charge/no-such-key/" $piece >bad.json && test_must_fail flux config load <bad.json || return 1; done &&
	flux config load <conf.json
'
test_expect_success 'the service that edits the database ends' 'stop_service'
test_expect_success 'docs/admin.md refunds and sets usage' '
	flux fairshare sync && copy_document docs/admin.md && run_and_show bash "$docs" --live credits docs/admin.md
'
test_expect_success 'docs/admin.md grants and shows a budget' '
	copy_document docs/admin.md && run_and_show bash "$docs" --live budgets docs/admin.md
'
finish
