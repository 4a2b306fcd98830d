# SPDX-License-Identifier: LGPL-3.0-only
"""Measures live fair-share in a real instance: single posts compared with Flux's own loop, refreshes compared with a full reprioritize, and
stalls of the job manager.

Processor time is that of the thread of the job manager, which does not depend on other processes. A stall is the processor time of that
thread between a ping and its answer.
"""
import json
import os
import sys
import threading
import time

import flux
from bench import UNLIMITED, association, handle, reprioritize, show, submit_in_turn, used, wait
from flux import job

n, leaves, refresh = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
uid = os.getuid()
BANKS = 100
DAY = 86400.0


def call(method, payload):
    return json.loads(handle.rpc("job-manager.mf_priority." + method, json.dumps(payload)).get_str() or "{}")


def live():
    text = handle.rpc("job-manager.jobtap-query", {"name": "mf_priority.so"}).get_str()
    return json.loads(text)["live"]


def bank(i):
    return f"B{i:02}"


def owner(fairshares, **leaf):
    """Returns the associations of the owner, one in each bank; with `leaf`, those of a tree."""
    return [
        association(uid, bank(i), def_bank=bank(0), fairshare=fairshare, **leaf) for i, fairshare in enumerate(fairshares)
    ]


def push(policy, others):
    """Returns a tree with other users, and with the owner in each bank, unless the owner keeps the pushed fair-shares."""
    banks = [dict(bank="root", priority=0, parent="", shares=1, active=1)]
    banks += [dict(bank=bank(i), priority=0, parent="root", shares=1 + i, active=1) for i in range(BANKS)]
    rule = dict(policy=policy, at=time.time(), half_life=7 * DAY, node_weight=1, core_weight=0, gpu_weight=0)
    number = call("policy_begin", {})["push"]
    head = dict(associations=[], queues=[], projects=[{"project": "*"}], banks=banks, priority_factors=[], tree=rule)
    call("policy_part", dict(head, push=number))
    records = owner([0.5] * BANKS)
    if policy_has_owner:
        for i, record in enumerate(records):
            record.update(username="owner", shares=1, usage=1e6 * (1 + i * 7 % BANKS), counted_until=0)
    for i in range(others):
        usage = 1e6 * (1 + i * 7919 % 1000)
        record = association(100000 + i, bank(i % BANKS))
        record.update(username=f"u{i:06}", shares=1 + i % 9, usage=usage, counted_until=0)
        records.append(record)
    for at in range(0, len(records), 500):
        call("policy_part", {"push": number, "associations": records[at : at + 500]})
    start = used()
    call("policy_commit", {"push": number})
    return used() - start


def configure(**settings):
    conf = json.loads(handle.rpc("config.get").get_str())
    conf["fairshare"] = settings
    handle.rpc("config.load", conf).get()


def submit_to_banks(count):
    """Submits jobs of one core, to the banks in turn, and returns the last id."""
    texts = []
    for i in range(BANKS):
        spec = job.JobspecV1.from_command(["true"])
        spec.duration = 7200
        spec.setattr("system.bank", bank(i))
        texts.append(spec.dumps())
    return submit_in_turn(texts, count)[-1]


def fill():
    """Starts one job on all nodes, so that later jobs wait in the queue of the scheduler."""
    spec = job.JobspecV1.from_command(["true"], num_nodes=4, num_tasks=4, cores_per_task=4)
    spec.duration = 7200
    spec.setattr("system.exec.test.run_duration", "2h")
    spec.setattr("system.bank", bank(0))
    wait(job.submit(handle, spec.dumps()), "start")


def rest():
    """Waits until a refresh is over and its events are written."""
    while live()["refreshing"]:
        time.sleep(0.05)
    time.sleep(0.2)
    handle.rpc("job-manager.stats-get", {}).get()


def one_by_one_or_loop():
    """Moves the priorities of some banks to the other end of the queue and back, by a refresh and by Flux's loop."""
    push("classic", 1)
    base = [(1 + i) / 101 for i in range(BANKS)]
    age_max, is_up = 604800, False
    configure(refresh=0, **{"age-max": age_max})
    rest()
    print(f"{n} pending: jobs touched, ms of the job manager one by one, by Flux's loop")
    for percent in (0, 1, 2, 5, 10, 20, 50, 100):
        def shares(up):
            if percent == 100:
                return base[::-1] if up else base
            return [share + (percent and 0.5) if i < percent and up else share / 2 for i, share in enumerate(base)]

        call("rec_update", {"data": owner(shares(False))})
        reprioritize()
        rest()
        singly, loop, touched = [], [], 0
        for _ in range(2):
            for way in (singly, loop):
                is_up = not is_up
                call("rec_update", {"data": owner(shares(is_up))})
                handle.rpc("job-manager.stats-get", {}).get()
                start = used()
                if way is singly:
                    # A changed setting makes the plugin refresh.
                    age_max += 1
                    configure(refresh=0, **{"age-max": age_max})
                    rest()
                    touched = max(touched, live()["last"]["touched"])
                else:
                    reprioritize()
                    rest()
                way.append(used() - start)
        print(f"{percent:>4} % {touched:>7} {min(singly) * 1e3:10.1f} {min(loop) * 1e3:10.1f}", flush=True)


class Pings(threading.Thread):
    """Sends small requests to the job manager all the time, and measures the elapsed and the processor time of the answers."""

    def __init__(self):
        super().__init__()
        self.over, self.waits, self.works = False, [], []

    def run(self):
        mine = flux.Flux()
        while not self.over:
            start, work = time.monotonic(), used()
            mine.rpc("job-manager.getattr", {"id": 0, "attrs": []}).wait_for(30)
            self.waits.append(time.monotonic() - start)
            self.works.append(used() - work)
            time.sleep(0.0005)


def while_pinging(act):
    pings = Pings()
    pings.start()
    start = used()
    result = act()
    spent = used() - start
    pings.over = True
    pings.join()
    return result, spent, max(pings.works), max(pings.waits)


def refreshes():
    seconds = max(10, 2 * refresh + 5)
    print(f"{leaves} associations, {n} pending: refreshes each {refresh:g} s, for {seconds:g} s")
    print(f"{'':<22} {'touched':>8} {'lagging':>8} {'each, ms':>9} {'stall, ms':>10} {'by clock':>9}")

    def line(what, touched, lagging, spent, stall, wait_):
        print(f"{what:<22} {touched:>8} {lagging:>8} {spent * 1e3:9.1f} {stall * 1e3:10.1f} {wait_ * 1e3:9.1f}", flush=True)

    for policy in ("classic", "weighted-walk", "fair-tree", "pbs", "depth-oblivious"):
        configure(refresh=0)

        def push_and_wait():
            commit = push(policy, leaves - BANKS)
            # On a large site, the plugin first answers, then refreshes, and then posts priorities.
            time.sleep(max(3, refresh))
            return commit

        commit, _, stall, wait_ = while_pinging(push_and_wait)
        line(policy + ": commit", "", "", commit, stall, wait_)
        rest()
        # Do not send a query here. Its answer would contain all associations and disturb the measurement.
        def watch():
            time.sleep(seconds)

        _, idle, *_ = while_pinging(watch)
        configure(refresh=refresh)
        _, spent, stall, wait_ = while_pinging(watch)
        last = live()["last"]
        line(policy + ": refresh", last["touched"], last["lagging"], (spent - idle) / (seconds // refresh), stall, wait_)
    configure(live=False)
    rest()
    moves = iter(([0.3] * BANKS, [0.4] * BANKS, [0.2] * BANKS))

    def full():
        reprioritize()
        time.sleep(0.5)
        reprioritize()

    call("rec_update", {"data": owner(next(moves))})
    _, spent, stall, wait_ = while_pinging(full)
    line("Flux's loop, all new", n, 0, spent, stall, wait_)


policy_has_owner = False
push("classic", 1)
fill()
wait(submit_to_banks(n), "priority")
handle.rpc("job-manager.stats-get", {}).get()
if leaves == 0:
    one_by_one_or_loop()
else:
    policy_has_owner = True
    refreshes()
