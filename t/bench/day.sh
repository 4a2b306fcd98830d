#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the growth of the content store by a day of live fair-share: 100 pending jobs, a refresh every 30 seconds, with each ranking
# policy and without refreshes.
# usage: day.sh PLUGIN.so...   (SPEED=150: the day takes 86400/150 seconds; POLICIES: all; all instances at once)

. "$(dirname "$0")/lib.sh"
speed=${SPEED:-150}
refresh=$(jq -n "30 / $speed")
cat >"$work/conf.json" <<-END
{"fake-resources": {"nnodes": 10, "cores-per-node": 1}, "exec": {"testexec": {"allow-guests": true}},
 "ingest": {"validator": {"disable": true}}, "job-manager": {"plugins": [{"remove": ".priority-default"}]}}
END
# play NAME PLUGIN.so POLICY REFRESH: plays one day in an instance of its own.
play() {
	local state=$work/$1 so
	mkdir "$state" && so=$(path_of "$2") || return
	FLUX_DISABLE_JOB_CLEANUP=t flux start -c "$work/conf.json" -Sstatedir="$state" -Slog-stderr-level=0 \
		bash -c "flux jobtap load $so && PYTHONPATH=$bench flux python $bench/day.py $3 $4 $speed" >"$work/$1.out" 2>"$work/$1.err" || true
	stat -c %s "$state"/content.sqlite >"$work/$1.size"
}
printf '%-34s %-16s %9s %7s %7s %9s %9s %6s\n' plugin policy priority memos ended events,B store,kB ratio
for plugin; do
	for policy in ${POLICIES:-weighted-walk fair-tree classic depth-oblivious pbs}; do
		play "$policy.live" "$plugin" "$policy" "$refresh" &
		play "$policy.none" "$plugin" "$policy" 0 &
	done
	wait
	for policy in ${POLICIES:-weighted-walk fair-tree classic depth-oblivious pbs}; do
		for kind in none live; do
			read -r posts memos bytes ended <"$work/$policy.$kind.out" || { cat "$work/$policy.$kind.err" >&2; exit 1; }
			size=$(cat "$work/$policy.$kind.size")
			test $kind = live || base=$size
			printf '%-34s %-16s %9d %7d %7d %9d %9d %6.2f\n' "$(basename "$plugin") $kind" "$policy" "$posts" "$memos" "$ended" "$bytes" \
				$((size / 1000)) "$(jq -n "$size / $base")"
			rm -r "$work/$policy.$kind" "$work/$policy.$kind".*
		done
	done
done
