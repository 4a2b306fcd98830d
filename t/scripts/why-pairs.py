#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Tests whether "flux fairshare why A B" names the terms that decide: exchanges them in the instance and reads the order again.

usage: flux python why-pairs.py PAIRS [SEED]   inside an instance with stopped queues q0 to q4 and the plugin loaded

The site has random associations, banks, queues, weights and urgencies. For random pairs of pending jobs, this program exchanges the named
terms at their source: fair-shares and the priorities of banks and queues by a push, urgencies as "flux job urgency" does. It reads the
order from the list of the job manager before and after. Without one of the named terms the order must stay.
"""
import contextlib
import io
import json
import os
import random
import subprocess
import sys

import flux
import mf
from flux.job import JobID

UNLIMITED = 2147483647
pairs = int(sys.argv[1])
seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.SystemRandom().randrange(10**6)
dice = random.Random(seed)
print(f"seed {seed}")
handle = flux.Flux()

users = {uid: dict(bank=f"b{uid % 7}", fairshare=dice.choice([dice.random(), 0.5, 0.25])) for uid in range(6000, 6016)}
banks = {f"b{n}": dice.randrange(0, 5) for n in range(7)}
queues = {f"q{n}": dice.randrange(0, 5) for n in range(5)}
weights = dict(fairshare=dice.choice([1000, 100000]), queue=dice.choice([50, 10000]), bank=dice.choice([30, 3000]), urgency=dice.choice([10, 1000]))


def push_tree():
    associations = [
        dict(userid=uid, bank=user["bank"], def_bank=user["bank"], fairshare=user["fairshare"], max_running_jobs=UNLIMITED,
             max_active_jobs=UNLIMITED, max_sched_jobs=UNLIMITED, max_nodes=UNLIMITED, max_cores=UNLIMITED,
             queues=",".join(queues), active=1, projects="*", def_project="*")
        for uid, user in users.items()
    ]
    records = [
        dict(queue=name, min_nodes_per_job=0, max_nodes_per_job=UNLIMITED, max_time_per_job=UNLIMITED, priority=priority,
             max_running_jobs=UNLIMITED, max_nodes_per_assoc=UNLIMITED, max_sched_jobs=UNLIMITED,
             max_sched_nodes_per_assoc=UNLIMITED, max_sched_cores_per_assoc=UNLIMITED)
        for name, priority in queues.items()
    ]
    handle.rpc("job-manager.mf_priority.policy_update", dict(
        associations=associations, queues=records, projects=[dict(project="*")],
        banks=[dict(bank=name, priority=priority) for name, priority in banks.items()],
        priority_factors=[dict(factor=name, weight=weight) for name, weight in weights.items()], config={},
    )).get()


def read_priorities():
    reply = handle.rpc("job-manager.list", {"max_entries": 0, "attrs": ["priority"]}).get()
    return {job["id"]: job["priority"] for job in reply["jobs"]}


def comes_first(a, b, now):
    """Returns whether a comes before b: by the larger priority, then by the smaller id."""
    return (-now[a], a) < (-now[b], b)


def exchange_terms(terms, a, b):
    """Exchanges the values of these terms between two jobs. A second call restores them."""
    one, other = jobs[a], jobs[b]
    if "fairshare" in terms:
        mine, theirs = users[one["uid"]], users[other["uid"]]
        mine["fairshare"], theirs["fairshare"] = theirs["fairshare"], mine["fairshare"]
    if "bank" in terms:
        mine, theirs = users[one["uid"]]["bank"], users[other["uid"]]["bank"]
        banks[mine], banks[theirs] = banks[theirs], banks[mine]
    if "queue" in terms:
        queues[one["queue"]], queues[other["queue"]] = queues[other["queue"]], queues[one["queue"]]
    if "urgency" in terms:
        one["urgency"], other["urgency"] = other["urgency"], one["urgency"]
        for job in (a, b):
            handle.rpc("job-manager.urgency", {"id": job, "urgency": jobs[job]["urgency"]}).get()
    push_tree()


push_tree()
jobs = {}
for number in range(40):
    job = dict(uid=dice.choice(list(users)), queue=dice.choice(list(queues)), urgency=dice.choice([16, 16, dice.randrange(1, 31)]))
    with contextlib.redirect_stdout(io.StringIO()) as told:
        mf.main(["submit", str(job["uid"]), "-q", job["queue"], "-u", str(job["urgency"])])
    jobs[int(JobID(told.getvalue().strip()))] = job
os.environ.pop("FLUX_HANDLE_USERID", None)  # mf.py submits as another user with it
flux_ids = list(jobs)
for job in flux_ids:
    flux.job.event_wait(handle, job, "priority")

causes = {}
for _ in range(pairs):
    a, b = dice.sample(flux_ids, 2)
    before = read_priorities()
    out = subprocess.run(
        ["flux", "fairshare", "why", JobID(a).f58, str(b), "--json"], capture_output=True, text=True, check=False
    )
    assert out.returncode == 0, out.stderr
    verdict = json.loads(out.stdout)["verdict"]
    ahead, behind = (a, b) if comes_first(a, b, before) else (b, a)
    about = f"{JobID(a).f58} {JobID(b).f58} {verdict} {before[a]} {before[b]}"
    assert (verdict["ahead"], verdict["behind"]) == (ahead, behind), about
    terms = verdict["terms"]
    key = verdict["cause"] + ":" + "+".join(terms)
    causes[key] = causes.get(key, 0) + 1
    if verdict["cause"] == "id":
        assert before[a] == before[b], about
        continue
    assert verdict["cause"] in ("terms", "score") and terms, about
    exchange_terms(terms, a, b)
    assert comes_first(behind, ahead, read_priorities()), f"exchanged, the order stays: {about}"
    exchange_terms(terms, a, b)
    assert read_priorities() == before, f"exchanged twice, it is not as before: {about}"
    if len(terms) > 1:
        exchange_terms(terms[:-1], a, b)
        assert comes_first(ahead, behind, read_priorities()), f"fewer would do: {about}"
        exchange_terms(terms[:-1], a, b)
print(f"{pairs} pairs: " + ", ".join(f"{count} {key}" for key, count in sorted(causes.items())))
