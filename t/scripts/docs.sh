#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Runs the commands in documents, and compares what they print with what the documents say.
#
# usage: t/scripts/docs.sh [--live WORD] FILE.md...
#
# In a block that begins with ```console, bash runs each line "$ COMMAND"; a trailing \ continues the command on the next line.
# The other lines are the expected output of the command, on stdout and stderr. "..." matches any number of lines, or any text
# within a line. The width of blanks does not count. A block with a word after "console" needs Flux and the preparation for
# this word in t/t5044-docs.t: it is run only with --live WORD. DOCS_VERBOSE=1 prints all output.
# The last line is "N blocks, N commands, N wrong".
set -u
export COLUMNS=100 NO_COLOR=1 LC_ALL=C.UTF-8
begin='```console'
[ "${1:-}" != --live ] || { begin+=" $2"; shift 2; }
blocks=0 commands=0 wrong=0

# as_pattern: makes a pattern for [[ == ]] from expected output.
as_pattern() { sed -e 's/[][*?\\]/\\&/g' -e 's/\.\.\./*/g'; }
squeeze() { sed -e 's/[[:space:]]\{1,\}/ /g' -e 's/ $//'; }

# All commands of a document run in this shell, so that variables and functions stay defined. Their output goes to the file $out.
out=$(mktemp)
trap 'rm -f "$out"' EXIT

check() { # FILE LINE COMMAND EXPECTED
	local got want
	commands=$((commands + 1))
	eval "$3" >"$out" 2>&1 </dev/null
	[ -z "${DOCS_VERBOSE:-}" ] || { printf '$ %s\n' "$3"; cat "$out"; }
	got=$(squeeze <"$out")
	want=$(printf '%s' "$4" | squeeze | as_pattern)
	# In a document, a line "..." may also stand for no line at all.
	want=${want//$'\n*\n'/$'\n*'}
	# shellcheck disable=SC2053
	[[ $got == $want ]] && return
	wrong=$((wrong + 1))
	printf '%s:%s: $ %s\n-- it says\n%s\n-- it prints\n%s\n' "$1" "$2" "$3" "$4" "$(cat "$out")"
}

for file; do
	inside='' command='' expected='' number=0 at=0
	while IFS= read -r line <&3; do
		number=$((number + 1))
		if [ -z "$inside" ]; then
			[[ $line == "$begin" ]] && inside=1 blocks=$((blocks + 1)) command='' expected=''
			continue
		fi
		if [[ $line == '```' ]]; then
			[ -z "$command" ] || check "$file" "$at" "$command" "$expected"
			inside=''
		elif [[ $line == '$ '* ]]; then
			[ -z "$command" ] || check "$file" "$at" "$command" "$expected"
			command=${line#\$ } expected='' at=$number
		elif [[ $command == *\\ ]]; then
			command+=$'\n'$line
		else
			expected+=${expected:+$'\n'}$line
		fi
	done 3<"$file"
done
echo "$blocks blocks, $commands commands, $wrong wrong"
[ "$wrong" -eq 0 ] && [ "$blocks" -gt 0 ]
