#!/bin/bash
# SPDX-License-Identifier: LGPL-3.0-only
# A soak in real Flux: jobs of several users, pushes whole and in parts, limits, configuration and plugin changed under way, guests
# who ask, updates, cancels. A row a minute, and a verdict: is memory flat, are latencies, is `check` clean.
# usage: soak.sh PLUGIN.so|nothing   (MINUTES=60, JOBS=500000, LEAVES=2000 associations, LIVE=3000 jobs at a time)
# With `nothing` the same jobs meet a plugin that does nothing: what Flux itself keeps.

. "$(dirname "$0")/../bench/lib.sh"
soak=$bench bench=$(cd "$bench/../bench" && pwd)
so=$(path_of "$1")
meter
# What the KVS keeps is in memory, and the scheduler has all jobs at once: with eight at a time it waits for the KVS, and with it the
# jobs. Neither is what this is about, and both keep the jobs few.
state=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")/soak.XXXX")
trap 'rm -rf "$work" "$state"' EXIT
export SOAK_PAUSE=$work/pause
# Flux forgets ended jobs as they come, so that what grows is not what it keeps of them.
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
