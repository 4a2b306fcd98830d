#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Simulates first come first served and EASY backfill in a simple way, for comparison with `flux fairshare simulate`.

usage: easy.py TRACE.swf CORES fcfs|easy

Each event is computed from scratch. Prints the mean wait, its 50th, 95th and 99th percentiles (nearest rank), the mean bounded
slowdown (10 s), the used part of the cluster, and the makespan.
"""
import math
import sys

path, cores, how = sys.argv[1], int(sys.argv[2]), sys.argv[3]
jobs = []
for line in open(path, errors="replace"):
    fields = line.split()
    if not fields or line.lstrip().startswith(";") or int(float(fields[10])) in (2, 3, 4):
        continue
    submit, run, given, asked, wall = (float(fields[at]) for at in (1, 3, 4, 7, 8))
    size = int(given if given > 0 else asked)
    if run >= 0 and size >= 1 and size <= cores:
        jobs.append((submit, run, max(wall, run), size))
jobs.sort(key=lambda job: job[0])

starts = {}
pending, running = [], []
at = 0
while at < len(jobs) or running:
    ends = [starts[job] + jobs[job][1] for job in running]
    now = min(ends + [jobs[at][0]] if at < len(jobs) else ends)
    running = [job for job in running if starts[job] + jobs[job][1] > now]
    while at < len(jobs) and jobs[at][0] <= now:
        pending.append(at)
        at += 1
    free = cores - sum(jobs[job][3] for job in running)

    def start_job(job):
        global free
        pending.remove(job)
        starts[job] = now
        running.append(job)
        free -= jobs[job][3]

    while pending and jobs[pending[0]][3] <= free:
        start_job(pending[0])
    if how == "fcfs" or not pending:
        continue
    # The first job of the queue needs more cores than are free. It can start at the latest when enough running jobs have reached their time limits.
    at_latest = lambda job: starts[job] + jobs[job][2]
    free_at = lambda when: free + sum(jobs[job][3] for job in running if at_latest(job) <= when)
    shadow = min(end for end in map(at_latest, running) if free_at(end) >= jobs[pending[0]][3])
    there = free_at(shadow)
    extra = there - jobs[pending[0]][3]
    for job in pending[1:]:
        _, _, wall, size = jobs[job]
        if size <= free and (now + wall <= shadow or size <= extra):
            if now + wall > shadow:
                extra -= size
            start_job(job)

waits = sorted(starts[job] - jobs[job][0] for job in starts)
rank = lambda part: waits[max(1, math.ceil(part * len(waits))) - 1]
slow = [max(1.0, (starts[job] - jobs[job][0] + jobs[job][1]) / max(jobs[job][1], 10)) for job in starts]
makespan = max(starts[job] + jobs[job][1] for job in starts) - jobs[0][0]
used = sum(run * size for _, run, _, size in jobs) / (cores * makespan)
print(sum(waits) / len(waits), rank(0.5), rank(0.95), rank(0.99), sum(slow) / len(slow), used, makespan)
