#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Compares what "flux fairshare metrics --users" printed with independent counts.

usage: metrics.py METRICS KEY=VALUE...

The counts come from Flux's job-list, from eventlogs and R, from the accounting database and from what the test itself did:

  db=FILE             the accounting database; without it no user has data
  pushes=N            pushes that put data in force
  pushed=TIME         when the last of them ended
  generation=N        the generation that it reported
  loaded=TIME         when the plugin was loaded
  refresh=SECONDS     the period of refreshes; 0: live fair-share is off
  asked.METHOD=N      requests of a method; refused.METHOD=N the refused ones
"""
import collections
import json
import re
import sqlite3
import sys
import time

import flux
import flux.job

# The limit that t5050 sets on a user whose jobs were submitted before the first push.
PAST_DEPEND = "max-running-jobs-user-limit"
STATES = {1: "NEW", 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP"}


def parse(text):
    """Returns the samples as {(name, labels): value}; labels are a frozenset of pairs."""
    samples = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        name, labels, value = re.fullmatch(r"(\w+)(?:\{(.*)\})? (\S+)", line).groups()
        pairs = re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', labels or "")
        samples[name, frozenset(pairs)] = float(value)
    return samples


class Site:
    """Reads the tree and the users of the accounting database."""

    def __init__(self, path):
        self.parents, self.shares, self.users, self.usage, self.queues = {}, {}, {}, {}, 0
        self.default = {}
        if path is None:
            return
        with sqlite3.connect(path) as db:
            for bank, parent, shares in db.execute("SELECT bank, parent_bank, shares FROM bank_table WHERE active=1"):
                self.parents[bank], self.shares[bank] = parent, shares
            for uid, bank, usage, default in db.execute(
                "SELECT userid, bank, job_usage, default_bank FROM association_table WHERE active=1"
            ):
                self.users.setdefault(uid, []).append(bank)
                self.usage[uid, bank] = usage
                self.default[uid] = default
            (self.queues,) = db.execute("SELECT count(*) FROM queue_table").fetchone()

    def list_banks_above(self, bank):
        """Returns the bank and all banks above it."""
        while bank:
            yield bank
            bank = self.parents.get(bank)

    def compute_fraction(self, bank):
        """Returns the shares divided by those of all siblings."""
        parent = self.parents[bank]
        siblings = [other for other in self.parents if self.parents[other] == parent]
        return self.shares[bank] / sum(self.shares[other] for other in siblings)

    def compute_promised(self, bank):
        part = 1.0
        for one in self.list_banks_above(bank):
            part *= self.compute_fraction(one)
        return part


def list_active_jobs(handle, site):
    """Returns state (as in the metrics), bank, queue and size of each active job."""
    attrs = ["userid", "state", "queue", "bank", "dependencies", "nnodes", "ncores", "t_run", "priority", "urgency"]
    found = []
    for job in flux.job.job_list(handle, max_entries=0, attrs=attrs, userid=flux.constants.FLUX_USERID_UNKNOWN, states=63).get_jobs():
        state, deps = STATES[job["state"]], job.get("dependencies", [])
        holds = [name for name in deps if name.startswith("max-")]
        known = job["userid"] in site.users
        # A job that was submitted before the first push had left DEPEND before the push set its limits. So the job has no dependency for a limit.
        if known and job["urgency"] > 0 and (state == "PRIORITY" or state == "SCHED" and job["priority"] == 0):
            holds = [PAST_DEPEND]
        # As in Flux, a job runs until its resources are free again.
        if state == "RUN" or state == "CLEANUP" and job.get("t_run"):
            kind = "running"
        elif state == "CLEANUP":
            kind = "ending"
        elif not known:
            kind = "waiting"
        elif holds:
            kind = "held"
        else:
            kind = {"PRIORITY": "pending", "SCHED": "pending"}.get(state, "blocked") if job["urgency"] > 0 else "blocked"
        job.update(kind=kind, holds=holds, queue=job.get("queue", ""), bank=job.get("bank") or site.default.get(job["userid"], ""))
        if kind == "running":
            lite = flux.job.job_kvs_lookup(handle, job["id"], keys=["R"])["R"]["execution"]["R_lite"]
            job["nnodes"], job["ncores"] = 0, 0
            for entry in lite:
                nodes = len(flux.idset.IDset(str(entry["rank"])))
                job["nnodes"] += nodes
                job["ncores"] += nodes * len(flux.idset.IDset(str(entry["children"]["core"])))
        else:
            # If a jobspec names no nodes, job-list does not report the size of the pending job. The test submits such jobs with one core for each
            # task.
            resource = flux.job.job_kvs_lookup(handle, job["id"], keys=["jobspec"], original=False)["jobspec"]["resources"][0]
            nodes = resource["count"] if resource["type"] == "node" else 1
            slot = resource["with"][0] if resource["type"] == "node" else resource
            job["nnodes"] = nodes
            job["ncores"] = slot["count"] * slot["with"][0]["count"] * (nodes if resource["type"] == "node" else 1)
        found.append(job)
    return found


def count_posts(handle, jobs):
    """Counts the priority events after the first one of each job."""
    count = 0
    for job in jobs:
        log = flux.job.job_kvs_lookup(handle, job["id"], keys=["eventlog"], decode=False)["eventlog"]
        count += max(0, sum(json.loads(line)["name"] == "priority" for line in log.splitlines()) - 1)
    return count


class Checker:
    def __init__(self, samples):
        self.samples, self.left, self.wrong = samples, {name for name, _ in samples}, []

    def check_sample(self, name, least, most=None, **labels):
        """Checks that a sample has the expected value, or is between two values."""
        most = least if most is None else most
        self.left.discard(name)
        key = name, frozenset(labels.items())
        value = self.samples.get(key)
        if value is None or not least - 1e-5 * abs(least) - 1e-9 <= value <= most + 1e-5 * abs(most) + 1e-9:
            self.wrong.append(f"{name}{labels or ''} is {value}, counted {least if least == most else (least, most)}")

    def check_family(self, name, counts, names):
        """Checks that a family has exactly these samples."""
        self.left.discard(name)
        have = {labels: value for (one, labels), value in self.samples.items() if one == name and value}
        want = {frozenset(zip(names, key)): value for key, value in counts.items() if value}
        if have.keys() != want.keys() or any(abs(have[key] - want[key]) > 1e-6 for key in want):
            self.wrong.append(f"{name} is {have}, counted {want}")


def main():
    path, *rest = sys.argv[1:]
    given = dict(item.split("=", 1) for item in rest)
    with open(path, encoding="utf-8") as stream:
        samples = parse(stream.read())
    handle, now = flux.Flux(), time.time()
    site = Site(given.get("db"))
    jobs = list_active_jobs(handle, site)
    check = Checker(samples)

    kinds = collections.Counter(job["kind"] for job in jobs)
    check.check_family("flux_fairshare_jobs", {(kind,): count for kind, count in kinds.items()}, ["state"])
    check.check_family("flux_fairshare_held_jobs", collections.Counter((name,) for job in jobs for name in job["holds"]), ["limit"])
    for kind in ("pending", "running"):
        for what, size in (("jobs", lambda job: 1), ("nodes", lambda job: job["nnodes"]), ("cores", lambda job: job["ncores"])):
            sums = collections.Counter()
            for job in jobs:
                if job["kind"] == kind:
                    sums[job["bank"], job["queue"]] += size(job)
            check.check_family(f"flux_fairshare_{kind}_{what}", sums, ["bank", "queue"])

    owner = 1 if given.get("owner") else 0
    check.check_sample("flux_fairshare_up", 1)
    check.check_sample("flux_fairshare_associations", len(site.usage) + owner)
    check.check_sample("flux_fairshare_queues", site.queues)
    check.check_sample("flux_fairshare_banks", len(site.parents))
    check.check_sample("flux_fairshare_drift", 0)
    check.check_sample("flux_fairshare_overruled", 0)
    check.check_sample("flux_fairshare_refreshing", 0, 1)
    check.check_sample("flux_fairshare_generation", int(given.get("generation", 0)))

    pushes = int(given["pushes"])
    check.check_sample("flux_fairshare_pushes_total", pushes)
    busy = now - float(given["loaded"])
    if pushes:
        total = samples["flux_fairshare_push_seconds_total", frozenset()]
        check.check_sample("flux_fairshare_push_seconds_total", 1e-5 * pushes, busy)
        check.check_sample("flux_fairshare_last_push_seconds", total if pushes == 1 else 1e-5, total)
        since = now - float(given["pushed"])
        check.check_sample("flux_fairshare_data_age_seconds", since - 3, since + 1)
    else:
        check.check_sample("flux_fairshare_push_seconds_total", 0)

    period = float(given["refresh"])
    check.check_sample("flux_fairshare_live", 1 if period else 0)
    if period:
        fewest = max(1, int(busy / period / 4))
        check.check_sample("flux_fairshare_refreshes_total", fewest, busy / period + pushes + 3)
        refreshes = samples["flux_fairshare_refreshes_total", frozenset()]
        total = samples["flux_fairshare_refresh_seconds_total", frozenset()]
        # A refresh of a few associations takes at least a microsecond. All refreshes take at most a fifth of the time.
        check.check_sample("flux_fairshare_refresh_seconds_total", 1e-6 * refreshes, 0.2 * busy)
        check.check_sample("flux_fairshare_last_refresh_seconds", 1e-7, total)
        check.check_sample("flux_fairshare_refresh_age_seconds", 0, period + 3)
        events = count_posts(handle, jobs)
        check.check_sample("flux_fairshare_posted_priorities_total", 0, events)
        check.check_sample("flux_fairshare_last_posted_priorities", 0, events)
    else:
        for name in ("refreshes_total", "refresh_seconds_total", "posted_priorities_total"):
            check.check_sample(f"flux_fairshare_{name}", 0)
    check.check_sample("flux_fairshare_stale_jobs", 0, kinds["pending"])

    check_banks(check, site, jobs, now)
    check_users(check, site, jobs)
    check.check_family("flux_fairshare_requests_total", {(key[6:],): int(n) for key, n in given.items() if key.startswith("asked.")}, ["method"])
    check.check_family("flux_fairshare_requests_refused_total", {(key[8:],): int(n) for key, n in given.items() if key.startswith("refused.")}, ["method"])
    check.check_family("flux_fairshare_requests_deferred_total", {}, ["method"])
    check.check_sample("flux_fairshare_requests_waiting", 0)
    check.check_sample("flux_fairshare_window_seconds", 3600)
    check.check_sample("flux_fairshare_banks_left_out", 0)
    check.wrong += [f"{name}: no count is compared with it" for name in sorted(check.left)]
    print("\n".join(check.wrong))
    sys.exit(bool(check.wrong))


def check_banks(check, site, jobs, now):
    running, demand = collections.Counter(), set()
    for job in jobs:
        for bank in site.list_banks_above(job["bank"]):
            if job["kind"] == "running":
                running[bank] += job["ncores"]
            if job["kind"] == "pending":
                demand.add(bank)
    all_cores = running["root"]
    usage = collections.Counter()
    for (_, bank), used in site.usage.items():
        for one in site.list_banks_above(bank):
            usage[one] += used
    # The usage of running jobs with a node weight of 1, without decay.
    added = sum(job["nnodes"] * (now - job["t_run"]) for job in jobs if job["kind"] == "running") + 60
    delivered = {}
    for bank in site.parents:
        check.check_sample("flux_fairshare_bank_promised_ratio", site.compute_promised(bank), bank=bank)
        check.check_sample("flux_fairshare_bank_usage_weighted_seconds", usage[bank] * 0.99, usage[bank] + added, bank=bank)
        used = check.samples.get(("flux_fairshare_bank_usage_weighted_seconds", frozenset({("bank", bank)})), 0)
        site_used = check.samples.get(("flux_fairshare_bank_usage_weighted_seconds", frozenset({("bank", "root")})), 0)
        parent = site.parents[bank] or bank
        above = check.samples.get(("flux_fairshare_bank_usage_weighted_seconds", frozenset({("bank", parent)})), 0)
        check.check_sample("flux_fairshare_bank_usage_ratio", used / site_used if site_used else 0, bank=bank)
        part = used / above if above else 0
        check.check_sample("flux_fairshare_bank_level_ratio", site.compute_fraction(bank) / part if part else float("inf"), bank=bank)
        check.check_sample("flux_fairshare_bank_demand_ratio", 1 if bank in demand else 0, bank=bank)
        if bank in demand:
            delivered[bank] = running[bank] / all_cores if all_cores else 0
            check.check_sample("flux_fairshare_bank_delivered_ratio", delivered[bank], bank=bank)
    of_users = {bank for _, bank in site.usage}
    parts = [got / site.compute_promised(bank) for bank, got in delivered.items() if bank in of_users and site.compute_promised(bank)]
    if sum(parts):
        check.check_sample("flux_fairshare_jain_ratio", sum(parts) ** 2 / (len(parts) * sum(part * part for part in parts)))


def check_users(check, site, jobs):
    for (uid, bank), used in site.usage.items():
        of = {"user": str(uid), "bank": bank}
        own = collections.Counter(job["kind"] for job in jobs if (job["userid"], job["bank"]) == (uid, bank))
        for state in ("running", "pending", "held"):
            check.check_sample("flux_fairshare_association_jobs", own[state], state=state, **of)
        check.check_sample("flux_fairshare_association_fairshare", 0, 1, **of)
        check.check_sample("flux_fairshare_association_usage_weighted_seconds", used * 0.99, used + 1e4, **of)


main()
