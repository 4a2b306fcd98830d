# SPDX-License-Identifier: LGPL-3.0-only
"""Measures one instance of scale.sh: `fill` fills it, `restarted` measures it after a restart, `drain` drains held jobs.

Prints a line of JSON for each figure. The figures are processor times of the job manager's thread, which do not depend on other
processes; whole submissions and restarts also have their elapsed time.
"""
import errno
import json
import os
import statistics
import subprocess
import sys
import time

from bench import association, handle, reprioritize, settle, submit_in_turn, used, wait
from flux import job

what, plugin, jobs, leaves, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
SERVICE = "job-manager.mf_priority."
BANKS, DAY, uid = 100, 86400.0, os.getuid()


def note(measure, value, unit):
    line = dict(plugin=plugin, jobs=jobs, leaves=leaves, measure=measure, value=value, unit=unit)
    print(f"   {measure:<44} {value:12.3f} {unit}", file=sys.stderr, flush=True)
    with open(out, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def spent(act):
    """Returns the seconds of the job manager for an action with its requests and answers, until it serves again."""
    settle()
    start = used()
    act()
    settle()
    return used() - start


def call(method, payload=None):
    text = handle.rpc(SERVICE + method, None if payload is None else json.dumps(payload)).get_str()
    return json.loads(text) if text else {}


def has(method, payload):
    try:
        call(method, payload)
        return True
    except OSError as exc:
        return exc.errno != errno.ENOSYS


def given_out():
    """Returns the bytes that the job manager's thread has allocated, for Flux and for the plugin."""
    return handle.rpc("job-manager.meter.memory", {}).get()["job_manager"]


def bank(i):
    return f"B{i % BANKS:02}"


def owner(fairshare):
    """Returns the associations of the owner in each bank. A new `fairshare` gives each job a new priority."""
    return [association(uid, bank(i), def_bank=bank(0), fairshare=fairshare * (1 + i) / 101) for i in range(BANKS)]


def records(fairshare):
    others = [association(100000 + i, bank(i), fairshare=fairshare) for i in range(leaves - BANKS)]
    return owner(fairshare) + others


def in_parts(fairshare):
    """Returns the times of the longest request of a staged push with a tree, and of all its requests."""
    banks = [dict(bank="root", priority=0, parent="", shares=1, active=1)]
    banks += [dict(bank=bank(i), priority=0, parent="root", shares=1 + i, active=1) for i in range(BANKS)]
    rule = dict(policy="weighted-walk", at=time.time(), half_life=7 * DAY, node_weight=1, core_weight=0, gpu_weight=0)
    all_records = records(fairshare)
    for i, record in enumerate(all_records):
        name = "owner" if i < BANKS else f"u{i}"
        record.update(username=name, shares=1 + i % 9, usage=1e6 * (1 + i * 7919 % 1000) * fairshare, counted_until=0)
    number = call("policy_begin", {})["push"]
    head = dict(associations=[], queues=[], projects=[{"project": "*"}], banks=banks, priority_factors=[], tree=rule, push=number)
    costs = [spent(lambda: call("policy_part", head))]
    for at in range(0, len(all_records), 500):
        part = {"push": number, "associations": all_records[at : at + 500]}
        costs.append(spent(lambda: call("policy_part", part)))
    costs.append(spent(lambda: call("policy_commit", {"push": number})))
    return max(costs), sum(costs)


def submit(count, **attributes):
    """Submits jobs of one core, to the banks in turn, and returns the last id."""
    texts = []
    for i in range(BANKS):
        spec = job.JobspecV1.from_command(["true"])
        spec.duration = 7200
        spec.setattr("system.exec.test.run_duration", attributes.get("run", "1h"))
        spec.setattr("system.bank", bank(0 if attributes else i))
        texts.append(spec.dumps())
    return submit_in_turn(texts, count)[-1]


def changed(fairshare):
    call("rec_update", {"data": owner(fairshare)})
    settle()
    return spent(reprioritize)


def fill():
    # These first calls allocate the message buffers. One job runs, so that usage changes.
    call("rec_update", {"data": owner(0.5)})
    call("reprioritize")
    wait(submit(1), "start")
    subprocess.run(["flux", "queue", "stop", "--all", "--quiet"], check=True)
    before = given_out()
    first = {"data": records(0.5)}
    note("push: all new", spent(lambda: call("rec_update", first)) / leaves * 1e6, "us per association")
    note("push: memory", max(0, given_out() - before) / max(1, leaves - BANKS), "bytes")
    second = {"data": records(0.25)}
    note("push: all changed", spent(lambda: call("rec_update", second)) / leaves * 1e6, "us per association")
    call("reprioritize")
    settle()

    before, start, cpu = given_out(), time.monotonic(), used()
    wait(submit(jobs), "priority")
    settle()
    note("submit: a second", jobs / (time.monotonic() - start), "jobs/s")
    note("submit", (used() - cpu) / jobs * 1e6, "us per job")
    note("submit: memory", max(0, given_out() - before) / jobs, "bytes")

    note("reprioritize: nothing new", min(spent(reprioritize) for _ in range(3)) / jobs * 1e6, "us per job")
    note("reprioritize: all new", min(changed(f) for f in (0.4, 0.3, 0.2)) / jobs * 1e6, "us per job")
    ask = lambda: handle.rpc("job-manager.jobtap-query", {"name": "mf_priority.so"}).get()
    note("query of everything", min(spent(ask) for _ in range(3)) * 1e3, "ms")
    if not has("policy_abort", {"push": 0}):
        return
    longest, whole = in_parts(0.5)
    note("push in parts: longest request", longest * 1e3, "ms")
    note("push in parts: all", whole / leaves * 1e6, "us per association")
    some = [one["id"] for one in call("jobs", {"limit": 200})["jobs"]]
    explained = [spent(lambda: call("explain", {"jobs": [one]})) for one in some]
    note("explain", statistics.median(explained) * 1e3, "ms")
    live()


def live():
    """Returns the cost of one refresh a second, compared with none, and the number of posted priorities. After a push that changes each
    priority, many refreshes post thousands of priorities; this waits a minute for them at most."""
    conf = handle.rpc("config.get").get()
    posted = lambda: call("stats")["refresh"]["touched_total"]

    def over(refresh, seconds=10):
        conf["fairshare"] = dict(refresh=refresh)
        handle.rpc("config.load", conf).get()
        settle()
        before, end = -1, time.monotonic() + 60
        while posted() != before and time.monotonic() < end:
            before = posted()
            time.sleep(3)
        start, before = used(), posted()
        time.sleep(seconds)
        cpu = used() - start
        return cpu / seconds, (posted() - before) / seconds

    idle, _ = over(0)
    cost, posts = over(1)
    note("a live refresh", max(0, cost - idle) * 1e3, "ms")
    note("a live refresh: prices posted", posts, "per second")
    # Restore the default refresh interval, so that the restarted instance is like a real site.
    conf["fairshare"] = dict(refresh="30s")
    handle.rpc("config.load", conf).get()
    settle()


def restarted():
    settle()
    note("restart", time.time() - float(sys.argv[6]), "s")
    note("restart: the job manager", used() / jobs * 1e6, "us per job")
    start, number = used(), len(handle.rpc("job-manager.list", {"max_entries": 0, "attrs": []}).get()["jobs"])
    if number != jobs + 1:
        sys.exit(f"{number} of {jobs + 1} jobs are there after the restart")
    call("rec_update", {"data": records(0.5)})
    reprioritize()
    note("restart: first push", (used() - start) * 1e3, "ms")


def drain():
    """Drains held jobs that a limit of 1 releases one after the other, for some seconds at most."""
    call("rec_update", {"data": [association(uid, bank(0), max_running_jobs=1)]})
    call("reprioritize")
    first = submit(1, run="1h")
    wait(first, "start")
    wait(submit(jobs, run="0.001s"), "dependency-add" if plugin != "nothing" else "priority")
    settle()
    start, cpu = time.monotonic(), used()
    job.cancel(handle, first)
    left = jobs
    while left and time.monotonic() - start < float(sys.argv[6]):
        time.sleep(0.2)
        left = handle.rpc("job-manager.stats-get", {}).get()["active_jobs"]
    note("drain of held jobs", (used() - cpu) / max(1, jobs - left) * 1e6, "us per job")
    note("drain: a second", (jobs - left) / (time.monotonic() - start), "jobs/s")


{"fill": fill, "restarted": restarted, "drain": drain}[what]()
