# SPDX-License-Identifier: LGPL-3.0-only
"""Submits jobs to several instances in rounds. Compares the processor time and the memory that a job takes in the thread of the job manager
with the values of the first plugin in the same round. All plugins except "nothing" must post the same events, because Flux's work for the
events is part of the figures."""
import json
import os
import statistics
import sys

import flux
from flux import job

from bench import association, job_manager

BANKS = 100
per_round, rounds, meter = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def bank(i):
    return f"B{i % BANKS:02}"


def jobspec(i):
    spec = job.JobspecV1.from_command(["true"])
    spec.duration = 7200
    spec.setattr("system.bank", bank(i))
    return spec.dumps()


class Site:
    """An instance with a plugin and without a scheduler that could start a job."""

    def __init__(self, name, uri):
        self.name, self.handle, self.times, self.bytes = name, flux.Flux(uri), [], []
        self.schedstat = job_manager(self.handle)
        self.call("jobtap", {"load": meter})
        owner = [association(os.getuid(), bank(i), def_bank=bank(0)) for i in range(BANKS)]
        self.call("mf_priority.rec_update", {"data": owner})
        self.call("queue-start", {"all": True, "start": False})
        self.submit(per_round)
        self.first = self.submit(1)[0]
        self.settle()

    def call(self, method, payload=None):
        return self.handle.rpc("job-manager." + method, payload or {}).get()

    def settle(self):
        for _ in range(2):
            self.call("stats-get")

    def used(self):
        with open(self.schedstat, encoding="utf-8") as stat:
            return int(stat.read().split()[0]) / 1e9

    def submit(self, count):
        """Submits jobs of all banks in turn, and waits until the last has a priority."""
        ids = [future.get_id() for future in [job.submit_async(self.handle, SPECS[i % BANKS]) for i in range(count)]]
        job.event_wait(self.handle, ids[-1], "priority")
        return ids

    def measure(self):
        self.settle()
        given_out, start = self.call("meter.memory")["job_manager"], self.used()
        self.submit(per_round)
        self.settle()
        self.times.append((self.used() - start) / per_round * 1e6)
        self.bytes.append((self.call("meter.memory")["job_manager"] - given_out) / per_round)

    def events(self):
        """The events of a job, without times."""
        found = job.event_watch(self.handle, self.first)
        events = []
        for event in found:
            events.append((event.name, {} if event.name == "submit" else event.context))
            if event.name == "priority":
                return json.dumps(events)


SPECS = [jobspec(i) for i in range(BANKS)]
sites = [Site(*pair) for pair in zip(sys.argv[4::2], sys.argv[5::2])]
for site in sites:
    if site.name != "nothing" and site.events() != sites[0].events():
        sys.exit(f"{site.name} posts {site.events()}, not {sites[0].events()}")
for turn in range(rounds):
    for site in sites[turn % len(sites) :] + sites[: turn % len(sites)]:
        site.measure()
print(f"{rounds} rounds of {per_round} jobs; events: {sites[0].events()}")
for site in sites:
    ratio = statistics.median(a / b for a, b in zip(site.times, sites[0].times))
    print(
        f"{statistics.median(site.times):8.1f} us a job, {ratio:5.2f} times the first;"
        f" {statistics.median(site.bytes):8.0f} bytes a job, {statistics.median(site.bytes) - statistics.median(sites[0].bytes):+6.0f}"
        f"  {site.name}"
    )
