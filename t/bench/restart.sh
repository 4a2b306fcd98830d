#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Measures the processor time of the job manager for the restart of an instance with pending jobs, for several plugins. Each plugin fills an
# instance with jobs once. Then the plugins take turns: each restarts a copy of its instance, and gets a push.
# usage: restart.sh PLUGIN.so...   (JOBS=10000, ROUNDS=5, PUSH=policy_update or rec_update)

. "$(dirname "$0")/lib.sh"
export PYTHONPATH=$bench FLUX_DISABLE_JOB_CLEANUP=t FLUX_MODPROBE_DISABLE=job-list
jobs=${JOBS:-10000} rounds=${ROUNDS:-5} conf=$work/conf.json
write_conf

# instance N STATE COMMAND: runs a command of restart.py in an instance with plugin N, which Flux loads before it replays the jobs.
instance() {
	sed "s#\(\"remove\": \".priority-default\"\)}#\1}, {\"load\": \"${paths[$1]}\"}#" "$conf" >"$work/loaded.json"
	flux start -c "$work/loaded.json" -Slog-stderr-level=0 -Sstatedir="$2" bash -c "flux python $bench/restart.py $3"
}

paths=()
for so; do paths+=("$(path_of "$so")"); done
for n in "${!paths[@]}"; do
	mkdir "$work/state.$n"
	instance "$n" "$work/state.$n" "fill $jobs"
done
for ((round = 0; round < rounds; round++)); do
	for n in "${!paths[@]}"; do
		rm -rf "$work/copy" && cp -r "$work/state.$n" "$work/copy"
		instance "$n" "$work/copy" "restarted $jobs $work/figures.jsonl $n"
	done
done
flux python "$bench/restart.py" show "$work/figures.jsonl" "$@"
