# SPDX-License-Identifier: LGPL-3.0-only
"""Measures the growth of the content store by a day of live fair-share: 100 pending jobs, 10 nodes, a refresh every 30 seconds.

The day runs faster: with a refresh every REFRESH seconds, all times are 30/REFRESH times shorter, also run times and the half-life of
seven days. Twenty users are near their shares. When a job ends, its user submits another. Prints the events of the eventlogs after the
first priority of each job; day.sh measures the content store after the end of the instance.

usage: day.py POLICY REFRESH SPEED: a day of 86400/SPEED seconds; REFRESH 0 means no refreshes
"""
import collections
import json
import os
import random
import sys
import time

import flux
from bench import association, handle, job_manager
from flux import job
from flux.security import SecurityContext

policy, refresh, speed = sys.argv[1], float(sys.argv[2]), float(sys.argv[3])
DAY, USERS, FIRST, NODES, PENDING = 86400.0, 20, 5001, 10, 100
HALF_LIFE, MEAN_RUN = 7 * DAY / speed, 3600.0 / speed
chance = random.Random(7)
context = SecurityContext()


def speak_as(user):
    os.environ["FLUX_HANDLE_USERID"] = str(FIRST + user)
    own = flux.Flux()
    del os.environ["FLUX_HANDLE_USERID"]
    return own


def push():
    """Returns usages near the shares of a machine that has been full for long."""
    now, total = time.time(), NODES * HALF_LIFE / 0.6931471805599453
    shares = [1 + user * 7919 % 9 for user in range(USERS)]
    banks = [dict(bank="root", priority=0, parent="", shares=1, active=1)]
    banks += [dict(bank=f"b{at}", priority=0, parent="root", shares=sum(shares[at::4]), active=1) for at in range(4)]
    records = []
    for user in range(USERS):
        usage = total * shares[user] / sum(shares) * chance.uniform(0.9, 1.1)
        tree = dict(username=f"u{user}", shares=shares[user], usage=usage, counted_until=now)
        records.append(association(FIRST + user, f"b{user % 4}", **tree))
    rule = dict(policy=policy, at=now, half_life=HALF_LIFE, node_weight=1, core_weight=0, gpu_weight=0)
    handle.rpc("job-manager.mf_priority.policy_update", json.dumps(dict(
        associations=records, queues=[], projects=[{"project": "*"}], banks=banks,
        priority_factors=[dict(factor="fairshare", weight=100000)], tree=rule,
    ))).get()


def submit(user):
    spec = job.JobspecV1.from_command(["true"])
    spec.duration = 4 * MEAN_RUN
    spec.setattr("system.exec.test.run_duration", f"{min(chance.expovariate(1 / MEAN_RUN), 3 * MEAN_RUN):.3f}s")
    signed = context.sign_wrap_as(FIRST + user, spec.dumps(), mech_type="none")
    return job.submit_async(spoken[user], signed, pre_signed=True)


def watch(seconds):
    """Follows the journal: counts events and bytes after the first priority of each job, and ended jobs."""
    user_of, priced, counts, submitted = {}, set(), collections.Counter(), []
    wanted = {name: 1 for name in ("submit", "priority", "clean", "memo")}
    journal = flux.Flux().rpc("job-manager.events-journal", {"full": True, "allow": wanted}, flags=flux.constants.FLUX_RPC_STREAMING)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            entry = journal.wait_for(0.5).get()
        except (TimeoutError, OSError):
            continue
        journal.reset()
        for event in entry["events"]:
            name, jobid = event["name"], entry["id"]
            if name == "submit":
                user_of[jobid] = event["context"]["userid"] - FIRST
            elif name == "clean":
                counts["ended"] += 1
                submitted.append(submit(user_of.pop(jobid)))
            elif name == "priority" and jobid not in priced:
                priced.add(jobid)
            elif jobid in priced:
                counts[name] += 1
                counts["bytes"] += len(json.dumps(event, separators=(",", ":"))) + 1
        submitted = [future for future in submitted if not future.is_ready()]
    return counts


spoken = [speak_as(user) for user in range(USERS)]
job_manager()
conf = json.loads(handle.rpc("config.get").get_str())
conf["fairshare"] = {"refresh": refresh}
handle.rpc("config.load", conf).get()
push()
for future in [submit(at % USERS) for at in range(PENDING + NODES)]:
    future.get()
counts = watch(DAY / speed)
print(counts["priority"], counts["memo"], counts["bytes"], counts["ended"])
