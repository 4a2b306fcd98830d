#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
test_description='the documents: every command in them is run, and prints what they say'

# Some are a sequence: the instance is shared, and what a document shows is set up before it.
. "$(dirname "$0")/lib.sh"
. "$T_DIR/fairshare.sh"
TOP=$(cd "$T_DIR/.." && pwd)
docs=$TOP/t/scripts/docs.sh
theirs=${UPSTREAM_PLUGIN:-$(pkg-config --variable=fluxlibdir flux-core)/job-manager/plugins/mf_priority.so}
test -e "$theirs" && ! grep -qa "mf_priority: loaded (version" "$theirs" && test_set_prereq UPSTREAM ||
	echo "!! flux-accounting's mf_priority.so is not at $theirs: the examples of docs/migrate.md are NOT run" >&2

# copy FILE [SED...]: the document with this place's names in it.
copy() {
	local file=$1
	shift
	mkdir -p docs && sed -e "s|load -r mf_priority.so mf_priority.so \"config|load -r mf_priority.so \"$theirs\" \"config|" \
		-e "s|load -r mf_priority.so mf_priority.so\$|load -r mf_priority.so \"$PLUGIN\"|" "$@" "$TOP/$file" >docs/"${file##*/}"
}
as_5001() { FLUX_HANDLE_USERID=5001 FLUX_HANDLE_ROLEMASK=0x2 "$@"; }

test_expect_success 'every command that needs no Flux prints what the documents say' '
	(cd "$TOP" && unset FLUX_URI && bash "$docs" README.md CONTRIBUTING.md docs/*.md) >out || { cat out; return 1; }
	cat out && grep "[1-9] blocks, .* 0 wrong" out
'
test_expect_success 'each block of a kind that this script knows' '
	sed -n "s/^\`\`\`console \(.*\)/\1/p" "$TOP"/README.md "$TOP"/docs/*.md | sort -u >kinds && printf "%s\n" fresh ours site upstream >wanted && test_cmp wanted kinds
'
test_expect_success 'the figures beside the original are those of the table of its flaws' '
	rows() { grep -cE "^\| [0-9]+ \| t7[0-9]+ .*\| $1 \| pass \|\$" "$TOP/t/README.md"; } && all=$(rows "(pass|fail)") &&
	grep -F "| $(rows pass) of $all | $all of $all |" "$TOP/README.md"
'
test_expect_success 'what they link to is there' '
	for file in README.md CONTRIBUTING.md CHANGELOG.md docs/*.md; do
		(cd "$(dirname "$TOP/$file")" && sed -n "s/[^]]*](\([^)#]*\)[^)]*)/\1\n/gp" "$(basename "$file")" | grep -v -e :// -e "^$" | while read -r link; do
			case $link in *" "*) ;; *) test -e "$link" || echo "$file: $link" ;; esac; done); done >missing
	grep -e : missing; test_must_be_empty missing
'
test_expect_success 'from an empty database to a plugin that knows it' '
	start_instance && load_plugin && DB=fresh.db && flux account -p "$PWD/$DB" create-db >create.log 2>&1 && flux account-service -p "$PWD/$DB" -t &&
	copy docs/admin.md -e "/^. flux account create-db/d" && FLUX_FAIRSHARE_DATABASE=$PWD/$DB bash "$docs" --live fresh docs/admin.md >out; cat out; stop_service; grep " 0 wrong" out
'
test_expect_success 'a site, its jobs, and what people ask about them' '
	DB=accounting.db && make_site && flux account edit-user user5001 --max-running-jobs=1 && export FLUX_FAIRSHARE_DATABASE=$PWD/$DB && flux fairshare push &&
	run=$(mf submit 5001) && running $run && held=$(mf submit 5001) && held_by $held max-running-jobs-user-limit && settled &&
	copy docs/user.md -e "s/ƒ2YSTvBdGM/ƒ${held#?}/g" && as_5001 bash "$docs" --live site docs/user.md >out; cat out; grep " 0 wrong" out
'
test_expect_success 'for who runs it' '
	copy docs/admin.md && bash "$docs" --live ours docs/admin.md >out; cat out; grep " 0 wrong" out
'
test_expect_success UPSTREAM 'from the plugin of flux-accounting' '
	flux jobtap load -r mf_priority.so "$theirs" "config=$(flux account export-json)" && copy docs/migrate.md && bash "$docs" --live site docs/migrate.md >out; cat out; grep " 0 wrong" out &&
	bash "$docs" --live upstream docs/migrate.md >out; cat out; grep " 0 wrong" out && settled && is_state RUN $run && is_state DEPEND $held
'
test_expect_success UPSTREAM 'and back, with jobs that it would lose' '
	flux fairshare limit set user user5004 run-nodes=1 >out && flux fairshare limit set user user5003 run-nodes=1 >out && flux fairshare push &&
	for u in 5003 5004; do a=$(mf submit $u -N 1) && running $a && b=$(mf submit $u -N 1) && held_by $b max-run-nodes-user || return 1; done &&
	copy docs/migrate.md && bash "$docs" --live ours docs/migrate.md >out; cat out; grep " 0 wrong" out && running $b && is_state DEPEND $held
'
test_expect_success 'at last ours is back' 'flux jobtap load -r mf_priority.so "$PLUGIN" && stop_service'
finish
