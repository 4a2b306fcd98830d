# SPDX-License-Identifier: LGPL-3.0-only
"""Measures the growth of eventlogs on a steady site by live fair-share: with each ranking policy, and with a plugin that posts every change.

The site is that of `cargo bench --bench live steady`: 300 of 1,000 users have all pending jobs and usages near their shares, each node
runs one job of random length, and the user of an ended job submits another. The journal of the job manager shows the events of some
refreshes. The first priority of a job does not count, because it would be posted without live fair-share too.
"""
import collections
import json
import os
import random
import sys
import time

import flux
from bench import association, handle, job_manager, used
from flux import job
from flux.security import SecurityContext

pending, nodes, refresh, refreshes = (int(arg) for arg in sys.argv[1:5])
policies = sys.argv[5:] or ["weighted-walk", "fair-tree", "depth-oblivious", "classic", "pbs"]
USERS, ACTIVE, PER_BANK, FIRST = 1000, 300, 50, 5001
DAY, HALF_LIFE, MEAN_RUN = 86400.0, 7 * 86400.0, 300.0
SERVICE = "job-manager.mf_priority."
chance = random.Random(11)
active = [user for user in range(USERS) if user * ACTIVE // USERS != (user + 1) * ACTIVE // USERS]
context = SecurityContext()


def call(method, payload):
    return json.loads(handle.rpc(SERVICE + method, json.dumps(payload)).get_str() or "{}")


def shares(user):
    return 1 + user * 7919 % 9


def bank(user):
    return f"bank{user // PER_BANK:04}"


def push(policy):
    """Returns the site after long use: the usages are near the shares of a full machine."""
    now, total = time.time(), nodes * HALF_LIFE / 0.6931471805599453
    due = sum(map(shares, active))
    banks = [dict(bank="root", priority=0, parent="", shares=1, active=1)]
    for first in range(0, USERS, PER_BANK):
        of_users = sum(shares(user) for user in range(first, first + PER_BANK))
        banks.append(dict(bank=bank(first), priority=0, parent="root", shares=of_users, active=1))
    records = []
    for user in range(USERS):
        usage = total * shares(user) / due * chance.uniform(0.9, 1.1) if user in spoken else 0.0
        tree = dict(username=f"u{user:06}", shares=shares(user), usage=usage, counted_until=now)
        records.append(association(FIRST + user, bank(user), **tree))
    rule = dict(policy=policy, at=now, half_life=HALF_LIFE, node_weight=1, core_weight=0, gpu_weight=0)
    call("policy_update", dict(
        associations=records, queues=[], projects=[{"project": "*"}], banks=banks,
        priority_factors=[dict(factor="fairshare", weight=100000)], tree=rule,
    ))


def configure(**settings):
    conf = json.loads(handle.rpc("config.get").get_str())
    conf["fairshare"] = settings
    handle.rpc("config.load", conf).get()


def speak_as(user):
    os.environ["FLUX_HANDLE_USERID"] = str(FIRST + user)
    own = flux.Flux()
    del os.environ["FLUX_HANDLE_USERID"]
    return own


def submit(user):
    spec = job.JobspecV1.from_command(["true"])
    spec.duration = 7200
    spec.setattr("system.exec.test.run_duration", f"{chance.expovariate(1 / MEAN_RUN):.3f}s")
    signed = context.sign_wrap_as(FIRST + user, spec.dumps(), mech_type="none")
    return job.submit_async(spoken[user], signed, pre_signed=True)


def submit_all(count):
    for at in range(0, count, 1000):
        for future in [submit(active[i % ACTIVE]) for i in range(at, min(at + 1000, count))]:
            future.get()


class Journal:
    """Reads the journal of the job manager, and submits the next job of a user whose job has ended."""

    def __init__(self):
        self.user_of, self.priced, self.counts = {}, set(), collections.Counter()
        wanted = {name: 1 for name in ("submit", "priority", "clean", "memo")}
        own = flux.Flux()
        self.own, self.backlog = own, own.rpc(
            "job-manager.events-journal", {"full": False, "allow": wanted}, flags=flux.constants.FLUX_RPC_STREAMING
        )

    def watch(self, seconds):
        """Counts, for some time, priority events of jobs that had a priority, their bytes, and all other events."""
        self.counts.clear()
        end, submitted = time.monotonic() + seconds, []
        while time.monotonic() < end:
            try:
                entry = self.backlog.wait_for(0.2).get()
            except TimeoutError:
                continue
            except OSError as exc:
                if exc.errno != 110:
                    raise
                continue
            self.backlog.reset()
            for event in entry["events"]:
                self.take(entry["id"], event, submitted)
            submitted = [future for future in submitted if not future.is_ready()]
        return dict(self.counts)

    def take(self, jobid, event, submitted):
        name = event["name"]
        if name == "submit":
            self.user_of[jobid] = event["context"]["userid"] - FIRST
        elif name == "clean":
            self.counts["ends"] += 1
            self.priced.discard(jobid)
            submitted.append(submit(self.user_of.pop(jobid)))
        elif name == "priority" and jobid not in self.priced:
            self.priced.add(jobid)
        else:
            self.counts[name] += 1
            self.counts["bytes"] += len(json.dumps(event, separators=(",", ":"))) + 1


spoken = {user: speak_as(user) for user in active}
job_manager()
configure(refresh=0)
push(policies[0])
submit_all(pending + nodes)
journal = Journal()
journal.watch(20)
print(f"{USERS} users, {pending} pending jobs, {nodes} nodes, refresh {refresh} s; each line {refreshes} refreshes")
print(f"{'policy':<16} {'posts/min':>10} {'memos/min':>10} {'kB/min':>8} {'ends/s':>7} {'CPU, %':>7}", flush=True)
for policy in policies:
    configure(refresh=refresh)
    push(policy)
    journal.watch(2 * refresh)
    start, seconds = used(), refreshes * refresh
    counts = journal.watch(seconds)
    spent, minutes = used() - start, seconds / 60
    print(
        f"{policy:<16} {counts.get('priority', 0) / minutes:10.0f} "
        f"{counts.get('memo', 0) / minutes:10.0f} {counts.get('bytes', 0) / minutes / 1e3:8.1f} "
        f"{counts.get('ends', 0) / seconds:7.1f} {100 * spent / seconds:7.1f}", flush=True,
    )
