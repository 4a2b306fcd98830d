# SPDX-License-Identifier: LGPL-3.0-only
"""Measures the life of a job by turns with and without fifty limits and ten budgets, in processor time of the job manager's thread. All jobs
are jobs of the instance owner. Each association may have one job in SCHED or RUN, so that each second job is held."""
import json
import os
import statistics
import sys
import time

import flux
from bench import association, handle, settle, show, used
from flux import job

banks, leaves, rounds = (int(arg) for arg in sys.argv[1:4])
SAMPLE, HOUR, now = 400, 3_600_000, time.time()
measures = ("jobs", "nodes", "cores", "gpus")


def bank(number):
    return f"B{number % banks:05}"


def limit(scope, name, measure):
    return {"scope": scope, "name": name, f"run-sched-{measure}": 1_000_000}


def window(number):
    name = "root" if number == 9 else bank(number)
    return {"scope": "bank", "name": name, "unit": "node-hours", "start": int(now - 86400), "end": int(now + 86400),
            "deposited": 10**9 * HOUR, "spent": 0, "rate": 0}


def leaf(uid, index, **changes):
    return association(uid, bank=bank(index), username=f"u{uid}", shares=1, usage=1.0 + index, counted_until=now, **changes)


def jobspec(index):
    spec = job.JobspecV1.from_command(["true"])
    spec.duration = 7200
    spec.setattr("system.bank", bank(index))
    spec.setattr("system.exec.test.run_duration", "2h")
    return spec.dumps()


tree = [{"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1}]
tree += [{"bank": bank(i), "priority": 0, "parent": "root", "shares": 1, "active": 1} for i in range(banks)]
rule = {"policy": "fair-tree", "at": now, "half_life": 604800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0}
owner = [leaf(os.getuid(), i, def_bank=bank(0), max_sched_jobs=1, max_running_jobs=1) for i in range(SAMPLE)]
document = {"associations": owner + [leaf(100000 + i, i) for i in range(leaves - SAMPLE)], "queues": [], "projects": [{"project": "*"}],
            "banks": tree, "priority_factors": [], "config": {}, "tree": rule}
limits = [limit("bank", bank(i), "nodes") for i in range(40)] + [limit("bank", "*", measure) for measure in ("cores", "gpus")]
limits += [limit("user", "*", measure) for measure in measures] + [limit("bank", "root", measure) for measure in measures]
texts = [json.dumps(document), json.dumps({**document, "limits": limits, "budgets": [window(i) for i in range(10)]})]
specs = [jobspec(i) for i in range(SAMPLE)]



def timed(act):
    """Returns the microseconds of the job manager for each of SAMPLE jobs, and the result of `act`."""
    settle()
    before = used()
    result = act()
    settle()
    return (used() - before) / SAMPLE * 1e6, result


def push(text):
    """Pushes a site, and waits until its budgets have the list of ended jobs."""
    handle.rpc("job-manager.mf_priority.policy_update", text).get()
    complete = [False]
    while not all(complete):
        time.sleep(0.5)
        answer = handle.rpc("job-manager.mf_priority.standing", {"user": os.getuid(), "bank": bank(0)}).get()
        complete = [one["in_force"] and one["complete"] for one in answer["associations"][0].get("budgets", [])]
    if len(complete) != (2 if text is texts[1] else 0):
        sys.exit(f"{len(complete)} budgets count jobs of {bank(0)}")
    settle()


def submit(event):
    ids = [future.get_id() for future in [job.submit_async(handle, spec) for spec in specs]]
    job.event_wait(handle, ids[-1], event)
    return ids


def wait_for(state, count):
    """Waits until `count` jobs are in a state. job-list counts them, so that the job manager does not serve the wait."""
    while handle.rpc("job-list.job-stats", {}).get()["job_states"][state] != count:
        time.sleep(0.1)


def start():
    handle.rpc("job-manager.queue-start", {"start": True, "all": True}).get()
    wait_for("run", SAMPLE)
    handle.rpc("job-manager.queue-start", {"start": False, "reason": "timing", "all": True}).get()


def cancel(ids):
    for future in [job.cancel_async(handle, one) for one in ids]:
        future.get()
    wait_for("run", 0)
    wait_for("cleanup", 0)


def measure(text):
    """Returns the time of each phase: all jobs of the phase belong to different associations."""
    push(text)
    handle.rpc("job-manager.queue-start", {"start": False, "reason": "timing", "all": True}).get()
    times = {}
    times["submission"], first = timed(lambda: submit("priority"))
    times["submission of a job that is held"], held = timed(lambda: submit("dependency-add"))
    times["start, with a held job of the association"], _ = timed(start)
    times["end, and release of the held job"], _ = timed(lambda: cancel(first))
    times["start"], _ = timed(start)
    times["end"], _ = timed(lambda: cancel(held))
    return times


rows = ([], [])
for text in texts:
    measure(text)
for _ in range(rounds):
    for side, text in enumerate(texts):
        rows[side].append(measure(text))
        print(".", end="", file=sys.stderr, flush=True)
for what in rows[0][0]:
    without, limited = ([row[what] for row in side] for side in rows)
    show(f"{what}, without", statistics.median(without), "us")
    show(f"{what}, with", statistics.median(limited), "us")
    show("  ratio of the medians", statistics.median(limited) / statistics.median(without), "x")
    show("  ratio of the minima", min(limited) / min(without), "x")
