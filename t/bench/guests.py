# SPDX-License-Identifier: LGPL-3.0-only
"""Measures the load of guests that call explain, standing and jobs without pause.

Periods with and without guests alternate in one run. Processor time is that of the thread of the job manager.
"""
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time

import flux
from bench import association, handle, settle, show, used
from flux import job
from flux.security import SecurityContext

jobs, leaves, guests, rounds = (int(arg) for arg in sys.argv[1:5])
FIRST = 5001
SERVICE = "job-manager.mf_priority."


def speak_as(uid):
    os.environ["FLUX_HANDLE_USERID"] = str(uid)
    os.environ["FLUX_HANDLE_ROLEMASK"] = "0x2"
    return flux.Flux()


def flood(counts, lock):
    """Runs a thread with its own handle for each guest, which sends the next request after each answer."""

    def guest(own, mine):
        number = 0
        while True:
            method, payload = (
                ("explain", {"jobs": [mine]}),
                ("standing", {}),
                ("jobs", {"limit": 500}),
            )[number % 3]
            number += 1
            own.rpc(SERVICE + method, json.dumps(payload)).get_str()
            with lock:
                counts[method] = counts.get(method, 0) + 1

    for number in range(guests):
        own = speak_as(FIRST + number)
        page = json.loads(own.rpc(SERVICE + "jobs", '{"limit":1}').get_str())
        threading.Thread(target=guest, args=(own, page["jobs"][0]["id"]), daemon=True).start()


if len(sys.argv) > 5:
    answered = {}
    flood(answered, threading.Lock())
    print("begun", flush=True)
    for _ in sys.stdin:
        print(json.dumps(answered), flush=True)
    sys.exit(0)


def timed(method, payload):
    start = time.monotonic()
    text = handle.rpc(SERVICE + method, json.dumps(payload)).get_str()
    return time.monotonic() - start, text


def spec_text():
    spec = job.JobspecV1.from_command(["true"])
    spec.duration = 7200
    return spec.dumps()


def submit_all():
    """Submits the jobs of each guest with the credentials of the guest."""
    text, context = spec_text(), SecurityContext()
    for number in range(guests):
        uid = FIRST + number
        os.environ["FLUX_HANDLE_USERID"] = str(uid)
        own = flux.Flux()
        signed = context.sign_wrap_as(uid, text, mech_type="none")
        futures = [job.submit_async(own, signed, pre_signed=True) for _ in range(jobs // guests)]
        last = [future.get_id() for future in futures][-1]
        del own
    del os.environ["FLUX_HANDLE_USERID"]
    return last


def calls(seconds):
    """Times submissions and changes of urgency, one after another for some time."""
    submits, urgencies = [], []
    text, end, number = spec_text(), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        start = time.monotonic()
        job.submit(handle, text)
        submits.append(time.monotonic() - start)
        start = time.monotonic()
        handle.rpc("job-manager.urgency", {"id": target, "urgency": 10 + number % 5}).get()
        urgencies.append(time.monotonic() - start)
        number += 1
    return submits, urgencies


def p99(times):
    return statistics.quantiles(times, n=100)[98]



own_uid = os.getuid()
records = [association(own_uid)]
records += [association(FIRST + number, bank=f"B{number % 100:02}") for number in range(leaves)]
banks = [{"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1}]
names = ["A"] + [f"B{number:02}" for number in range(100)]
banks += [{"bank": name, "priority": 0, "parent": "root", "shares": 1, "active": 1} for name in names]
for number, record in enumerate(records):
    record.update(username=f"u{number}", shares=1, usage=float(number % 977), counted_until=0)
tree = {"policy": "fair-tree", "at": time.time(), "half_life": 604800, "node_weight": 1, "core_weight": 0, "gpu_weight": 0}
document = {"associations": records, "queues": [], "projects": [{"project": "*"}], "banks": banks,
            "priority_factors": [], "config": {}, "tree": tree}
handle.rpc(SERVICE + "policy_update", json.dumps(document)).get()
handle.rpc("job-manager.queue-start", {"start": False, "reason": "timing", "all": True}).get()
submit_all()
settle()
target = job.submit(handle, spec_text())
job.event_wait(handle, target, "priority")
settle()
page = json.loads(timed("jobs", {"limit": 2000})[1])
some = [one["id"] for one in page["jobs"]]

def ping():
    start = time.monotonic()
    handle.rpc("job-manager.getinfo", {}).get()
    return time.monotonic() - start


before = used()
explains, pings = [], []
for at in range(1000):
    explains.append(timed("explain", {"jobs": [some[at % len(some)]]})[0])
each, before = (used() - before) / 1000, used()
pings = [ping() for _ in range(1000)]
show(f"explain of one job of {jobs}, p50", 1000 * statistics.median(explains), "ms")
show("  the shortest question that Flux answers, p50", 1000 * statistics.median(pings), "ms")
show("  of the job manager's time, explain", 1000 * each, "ms")
show("  of the job manager's time, the shortest question", used() - before, "ms")
before = used()
start, after, listed = time.monotonic(), None, 0
while True:
    page = json.loads(timed("jobs", {"after": after, "limit": 2000})[1])
    listed, after = listed + len(page["jobs"]), page["next"]
    if after is None:
        break
show(f"a list of all {listed} jobs, by pages of 2,000", time.monotonic() - start)
show("  of the job manager's time", used() - before)

command = [sys.executable, __file__, *sys.argv[1:5], "flood"]
crowd = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
assert crowd.stdout.readline() == "begun\n"
idle, busy, spent = ([], []), ([], []), [0.0, 0.0]
for _ in range(rounds):
    for state, times in ((signal.SIGSTOP, idle), (signal.SIGCONT, busy)):
        crowd.send_signal(state)
        time.sleep(1)
        before, since = used(), time.monotonic()
        for mine, more in zip(times, calls(5)):
            mine.extend(more)
        spent[times is busy] += (used() - before) / (time.monotonic() - since) / rounds
crowd.send_signal(signal.SIGCONT)
crowd.stdin.write("\n")
crowd.stdin.flush()
print("answered:", crowd.stdout.readline().strip())
crowd.kill()
for what, quiet, loud in zip(("submit", "urgency"), idle, busy):
    show(f"{what}: p50 idle ({len(quiet)} times)", 1000 * statistics.median(quiet), "ms")
    show(f"{what}: p50 with {guests} guests ({len(loud)} times)", 1000 * statistics.median(loud), "ms")
    show(f"{what}: p99 idle", 1000 * p99(quiet), "ms")
    show(f"{what}: p99 with {guests} guests", 1000 * p99(loud), "ms")
    show(f"{what}: p99 against idle", p99(loud) / p99(quiet), "x")
show("job manager's part of a processor, idle", 100 * spent[0], "%")
show("  with guests", 100 * spent[1], "%")
stats = json.loads(timed("stats", {})[1])
print("requests:", json.dumps(stats["requests"]))
