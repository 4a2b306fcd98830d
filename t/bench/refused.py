# SPDX-License-Identifier: LGPL-3.0-only
"""Times R refused submissions with a dependency while N inactive jobs with a dependency are retained. When Flux frees a job with a
subscription, it searches the list of subscriptions of the plugin from the front.

The plugins take turns, and the order is reversed in each round; ratios are of one round. The interval is that of the median ratio, by
bootstrap; p is the probability of the sign test that as many rounds agree by chance."""
import math
import os
import random
import statistics
import sys
import time

import flux
from flux import job

from bench import association

r, rounds, counts = int(sys.argv[1]), int(sys.argv[2]), [int(n) for n in sys.argv[3].split()]


def spec(after, project=None):
    one = job.JobspecV1.from_command(["true"])
    one.setattr("system.exec.test.run_duration", "1h")
    if project:
        one.setattr("system.project", project)
    if after:
        one.setattr("system.dependencies", [{"scheme": "afterok", "value": str(after)}])
    return one.dumps()


class Site:
    """An instance with a plugin, and its timings."""

    def __init__(self, name, uri):
        self.name, self.handle, self.retained, self.times = name, flux.Flux(uri), 0, []
        self.call("mf_priority.rec_update", {"data": [association(os.getuid())]})
        self.some = job.submit(self.handle, spec(None))

    def call(self, method, payload=None):
        return self.handle.rpc("job-manager." + method, payload).get()

    def settle(self):
        for _ in range(2):
            self.call("stats-get", {})

    def retain(self, count):
        """Submits jobs that depend on the success of a failing job, until `count` jobs are inactive."""
        left = count - self.retained
        if left <= 0:
            return
        first = job.submit(self.handle, spec(None))
        job.event_wait(self.handle, first, "alloc")
        text = spec(first)
        while left > 0:
            part = [job.submit_async(self.handle, text) for _ in range(min(2000, left))]
            left -= len([future.get_id() for future in part])
        job.cancel(self.handle, first)
        while self.call("stats-get", {})["inactive_jobs"] < count:
            time.sleep(0.2)
        self.settle()
        self.retained = count

    def refused(self):
        """Returns the seconds until all submissions are refused."""
        text = spec(self.some, project="unknown")
        start = time.monotonic()
        for future in [job.submit_async(self.handle, text) for _ in range(r)]:
            try:
                future.get_id()
            except OSError:
                continue
            sys.exit(self.name + ": a job of an unknown project was accepted")
        self.settle()
        return time.monotonic() - start


def interval(ratios):
    """Returns the middle 95 % of the medians of resamples."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(4000))
    return medians[100], medians[-101]


def sign_test(ratios):
    """Returns the two-sided probability that as many values or more are on one side of 1."""
    n, most = len(ratios), max(sum(x > 1 for x in ratios), sum(x < 1 for x in ratios))
    return min(1.0, 2 * sum(math.comb(n, k) for k in range(most, n + 1)) / 2**n)


sites = [Site(*pair) for pair in zip(sys.argv[4::2], sys.argv[5::2])]
for number, site in enumerate(sites):
    print(f"plugin {number}: {site.name}")
for n in counts:
    for site in sites:
        site.retain(n)
        site.refused()
        site.times = []
    for turn in range(rounds):
        for site in sites[turn % len(sites):] + sites[: turn % len(sites)]:
            site.times.append(site.refused())
    print(f"{n} retained, {r} refused, {rounds} rounds")
    for number, site in enumerate(sites):
        line = f"  plugin {number}: median {statistics.median(site.times):7.3f} s"
        if number:
            ratios = [b / a for a, b in zip(sites[0].times, site.times)]
            low, high = interval(ratios)
            line += f", {statistics.median(ratios):.2f} times plugin 0 [{low:.2f}, {high:.2f}], p = {sign_test(ratios):.1g}"
        print(line, flush=True)
