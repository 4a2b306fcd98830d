# SPDX-License-Identifier: LGPL-3.0-only
"""Pushes a large tree again and again, so that pushes arrive during refreshes, and verifies the result.

    amid.py push ASSOCIATIONS USERS ROUNDS    pushes whole and in parts, some abandoned; prints how many arrived during a refresh
    amid.py verify                            waits until no refresh is due; posted, explained and Flux's priorities must be equal

The first USERS associations, from user id 5001 on, have pending jobs.
"""
import json
import math
import random
import sys
import time

import flux

FIRST, PER_PART = 5001, 700
# Batches::ordered in crates/engine/src/engine/batches.rs
HEAD = 1000
SERVICE = "job-manager.mf_priority."
UNLIMITED = 2147483647
handle = flux.Flux()
chance = random.Random(1024)


def send(method, payload=None):
    return handle.rpc(SERVICE + method, json.dumps(payload or {}))


def answer(future):
    return json.loads(future.get_str() or "{}")


def call(method, payload=None):
    return answer(send(method, payload))


def is_refreshing(stats):
    return answer(stats)["refresh"]["under_way"]


def make_association(user, users):
    bank = f"bank{user % 20:02}"
    # Users with pending jobs get a random usage, so that each push changes their ranks.
    usage = chance.uniform(0, 1e6) if user < users else float(user)
    return dict(
        userid=FIRST + user, bank=bank, def_bank=bank, fairshare=0.5, max_running_jobs=UNLIMITED, max_active_jobs=UNLIMITED,
        max_sched_jobs=UNLIMITED, max_nodes=UNLIMITED, max_cores=UNLIMITED, queues="", active=1, projects="*", def_project="*",
        username=f"u{user:06}", shares=1 + user % 7, usage=usage, counted_until=0,
    )


def make_document(associations, users):
    banks = [dict(bank="root", priority=0, parent="", shares=1, active=1)]
    banks += [dict(bank=f"bank{n:02}", priority=0, parent="root", shares=1 + n % 3, active=1) for n in range(20)]
    policy = chance.choice(["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"])
    tree = dict(policy=policy, at=time.time(), half_life=600, node_weight=1, core_weight=0, gpu_weight=0)
    return dict(
        associations=[make_association(user, users) for user in range(associations)], queues=[], projects=[{"project": "*"}],
        banks=banks, priority_factors=[], config=dict(zero_score="floor"), tree=tree,
    )


def split_into_parts(whole):
    records = whole["associations"]
    yield {**whole, "associations": []}
    for at in range(0, len(records), PER_PART):
        yield {"associations": records[at : at + PER_PART]}


def push_rounds(associations, users, rounds):
    amid = {"whole": 0, "commit": 0, "part": 0}
    asked = {"whole": 0, "commit": 0, "part": 0, "abort": 0, "left open": 0}
    for number in range(rounds):
        whole = make_document(associations, users)
        if number % 2 == 0:
            # All requests are sent before the first answer is read. So "stats" shows whether a refresh runs when the push arrives.
            sent = [(send("stats"), send("policy_update", one)) for one in (whole, make_document(associations, users))]
            for stats, pushed in sent:
                asked["whole"] += 1
                answer(pushed)
                amid["whole"] += is_refreshing(stats)
            continue
        # The parts of the staged push arrive while the plugin still refreshes after the previous push.
        asked["whole"] += 1
        before, parts = send("policy_update", make_document(associations, users)), list(split_into_parts(whole))
        push = call("policy_begin")["push"]
        end = "abort" if number % 12 == 5 else "left open" if number % 12 == 11 else "commit"
        sent = []
        for part in parts:
            sent.append(("part", send("stats"), send("policy_part", {**part, "push": push})))
        if end != "left open":
            sent.append((end, send("stats"), send(f"policy_{end}", {"push": push})))
        asked[end] += end == "left open"
        answer(before)
        for kind, stats, request in sent:
            asked[kind] += 1
            answer(request)
            if kind in amid:
                amid[kind] += is_refreshing(stats)
    print(json.dumps({"asked": asked, "amid": amid}))


def list_priorities():
    after = None
    while True:
        page = call("priorities", {} if after is None else {"after": after})
        yield from page["jobs"]
        after = page["next"]
        if after is None:
            return


def is_at_rest():
    """Returns whether no refresh runs and nothing is left for the next one. Priorities may be stale behind the head of the queue."""
    refresh = call("stats")["refresh"]
    return not refresh["under_way"] and refresh["last"] and refresh["last"]["right_to"] in (None, HEAD)


def read_sched_priorities():
    """Returns the priority in Flux of each job in SCHED."""
    listed = handle.rpc("job-manager.list", {"max_entries": 0, "attrs": ["priority", "state"]}).get()["jobs"]
    return {job["id"]: job["priority"] for job in listed if job["state"] == flux.constants.FLUX_JOB_STATE_SCHED}


def verify():
    deadline = time.time() + 300
    while not is_at_rest():
        if time.time() > deadline:
            sys.exit(f"no rest: {call('stats')['refresh']}")
        time.sleep(0.1)
    while True:
        pending = read_sched_priorities()
        told = {job["id"]: job for job in list_priorities()}
        # If the priorities changed in the meantime, read them again from Flux and from the plugin.
        if pending == read_sched_priorities():
            break
        if time.time() > deadline:
            sys.exit("Flux's priorities change whenever the plugin is asked for them")
    wrong = sorted(set(pending) ^ set(told))
    for jobid, job in told.items():
        posted = job["posted"]
        is_sum = abs(sum(term["product"] for term in posted["terms"]) - posted["sum"]) < 1e-6
        # The priority is the rounded sum of the terms, and at least 1. A job with urgency 0 has no terms, and its priority is 0.
        rounded = max(math.floor(posted["sum"] + 0.5), 1) if posted["terms"] else 0
        if not (is_sum and posted["priority"] == rounded == pending.get(jobid)):
            wrong.append((jobid, pending.get(jobid), job))
    print(len(pending), "pending, wrong:", wrong[:3])
    sys.exit(bool(wrong))


if sys.argv[1] == "push":
    push_rounds(*(int(arg) for arg in sys.argv[2:5]))
else:
    verify()
