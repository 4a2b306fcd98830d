# SPDX-License-Identifier: LGPL-3.0-only
"""Measures limits over scopes and no limits by turns in one instance, in processor time of the job manager's thread."""
import json
import os
import statistics
import sys

import flux
from bench import association, handle, settle, show, used
from flux import job
from flux.security import SecurityContext

banks, leaves, held, rounds = (int(arg) for arg in sys.argv[1:5])
FIRST, USERS, SAMPLE = 5001, 100, 500


def bank(number):
    return f"B{number % banks:05}"


def limit(scope, name, measure, cap):
    return {"scope": scope, "name": name, measure: cap}


records = [association(FIRST + i, bank=bank(i), max_sched_jobs=1 if i < USERS else 2147483647) for i in range(leaves)]
records.append(association(os.getuid(), bank=bank(banks // 2)))
tree = [{"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1}]
tree += [{"bank": bank(i), "priority": 0, "parent": "root", "shares": 1, "active": 1} for i in range(banks)]
document = {"associations": records, "queues": [], "projects": [{"project": "*"}], "banks": tree,
            "priority_factors": [], "config": {}}
limits = [limit("bank", bank(i), "run-gpus", 1000000) for i in range(banks)]
limits += [limit("bank", "root", "run-sched-nodes", 10000000), limit("user", "*", "run-sched-gpus", 1000000)]
texts = [json.dumps(document), json.dumps({**document, "limits": limits})]
spec = job.JobspecV1.from_command(["true"])
spec.duration = 7200
spec = spec.dumps()


def timed(count, what):
    """Returns the seconds of the job manager for each of `count` actions, and the result."""
    settle()
    before = used()
    result = what()
    settle()
    return (used() - before) / count, result


def push(text):
    handle.rpc("job-manager.mf_priority.policy_update", text).get()


def submit():
    futures = [job.submit_async(handle, spec) for _ in range(SAMPLE)]
    ids = [future.get_id() for future in futures]
    job.event_wait(handle, ids[-1], "priority")
    return ids


def cancel(ids):
    for future in [job.cancel_async(handle, one) for one in ids]:
        future.get()
    job.event_wait(handle, ids[-1], "clean", raiseJobException=False)


def crowd():
    """Submits jobs of each user with the credentials of the user: the first is scheduled, all others are held."""
    context, lines = SecurityContext(), []
    for number in range(USERS):
        os.environ["FLUX_HANDLE_USERID"] = str(FIRST + number)
        own = flux.Flux()
        signed = context.sign_wrap_as(FIRST + number, spec, mech_type="none")
        futures = [job.submit_async(own, signed, pre_signed=True) for _ in range(held // USERS + 1)]
        lines.append([future.get_id() for future in futures])
    del os.environ["FLUX_HANDLE_USERID"]
    return lines


for text in texts * 2:
    push(text)
handle.rpc("job-manager.queue-start", {"start": False, "reason": "timing", "all": True}).get()
lines = crowd()
job.event_wait(handle, lines[-1][-1], "dependency-add")
times = {what: ([], []) for what in ("a push that changes the limits", "the same push again", "a submission", "an end that lets the next one go")}
for number in range(rounds):
    for side, text in enumerate(texts):
        times["a push that changes the limits"][side].append(timed(1, lambda: push(text))[0])
        # A second push changes nothing.
        times["the same push again"][side].append(timed(1, lambda: push(text))[0])
        seconds, ids = timed(SAMPLE, submit)
        times["a submission"][side].append(seconds)
        cancel(ids)
        first = [line.pop(0) for line in lines]
        times["an end that lets the next one go"][side].append(timed(len(first), lambda: cancel(first))[0])
for what, (without, limited) in times.items():
    show(f"{what}, without such limits", 1e3 * statistics.median(without), "ms")
    show(f"{what}, with {len(limits)} of them", 1e3 * statistics.median(limited), "ms")
    show("  ratio", statistics.median(limited) / statistics.median(without), "x")
