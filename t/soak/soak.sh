#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# Runs a soak test in real Flux. Users submit, update and cancel jobs, guests send requests, policies are pushed in one message and in parts, and
# limits, configuration and plugin change. Prints a table row each minute, and at the end a verdict on memory, latencies and `check`.
# usage: soak.sh PLUGIN.so|nothing   (MINUTES=60, JOBS=500000, LEAVES=2000 associations, LIVE=3000 jobs at a time)
# With `nothing`, the same jobs run under a plugin that does nothing, to show the memory that Flux itself keeps.

. "$(dirname "$0")/../bench/lib.sh"
soak=$bench bench=$(cd "$bench/../bench" && pwd)
so=$(path_of "$1")
meter
# The content store is in memory, and the scheduler gets all jobs at once. With Flux's defaults, the scheduler would often wait for the KVS,
# and the soak would run fewer jobs.
state=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")/soak.XXXX")
trap 'rm -rf "$work" "$state"' EXIT
export SOAK_PAUSE=$work/pause
# Flux removes ended jobs early, so that the records of ended jobs do not use more and more memory.
cat >"$work/conf.json" <<-END
	{"fake-resources": {"nnodes": 64, "cores-per-node": 16}, "exec": {"testexec": {"allow-guests": true}},
	 "ingest": {"validator": {"disable": true}},
	 "queues": {"batch": {}, "debug": {}},
	 "fairshare": {"refresh": "5s"},
	 "job-manager": {"inactive-num-limit": 1000, "plugins": [{"remove": ".priority-default"}]}}
END
FLUX_DISABLE_JOB_CLEANUP=t flux start -c "$work/conf.json" -Sstatedir="$state" -Slog-stderr-level=0 -Slog-ring-size=4096 \
	bash -c "flux module reload sched-simple queue-depth=unlimited && flux jobtap load $work/meter.so && flux jobtap load $so && flux queue start --all --quiet &&
		PYTHONPATH=$soak:$bench flux python $soak/soak.py $so ${MINUTES:-60} ${JOBS:-500000} ${LEAVES:-2000} ${LIVE:-3000}"
