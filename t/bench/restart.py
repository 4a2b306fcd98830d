# SPDX-License-Identifier: LGPL-3.0-only
"""One step of restart.sh: `fill` an instance with pending jobs, measure one that was `restarted`, or `show` the figures.

A plugin without a snapshot has no data after a restart, and gives no priorities before the next push. So the push is measured, too.
Each figure is the processor time of the job manager until it has nothing to do. On a busy machine the push may come before the snapshot
is restored: compare the sums of both figures."""
import json
import os
import statistics
import subprocess
import sys
import time

BANKS = 100


def push(handle, association):
    """The document that both plugins take: as flux-accounting's script sends it."""
    def bank(i):
        return f"B{i:02}"

    records = [association(os.getuid(), bank(i), def_bank=bank(0), fairshare=(1 + i) / 101) for i in range(BANKS)]
    call = lambda method, payload=None: handle.rpc("job-manager.mf_priority." + method, payload).get()
    try:
        whole = dict(associations=records, queues=[], projects=[{"project": "*"}], banks=[], priority_factors=[])
        call("policy_update", whole)
    except OSError:
        call("rec_update", {"data": records})
    call("reprioritize")


def count_jobs(handle):
    """Returns the numbers of jobs and of jobs with a priority."""
    listed = handle.rpc("job-manager.list", {"max_entries": 0, "attrs": ["priority"]}).get()["jobs"]
    return len(listed), sum(one.get("priority", -1) >= 0 for one in listed)


def until_idle(used):
    """Returns the processor time used so far when the job manager has used almost none for three seconds."""
    before, now = -1, used()
    while now - before > 0.005:
        time.sleep(3)
        before, now = now, used()
    return now


def fill(count):
    from flux import job

    from bench import association, handle, settle, submit_in_turn, wait

    subprocess.run(["flux", "queue", "stop", "--all", "--quiet"], check=True)
    push(handle, association)
    specs = []
    for i in range(BANKS):
        spec = job.JobspecV1.from_command(["true"])
        spec.duration = 7200
        spec.setattr("system.bank", f"B{i:02}")
        specs.append(spec.dumps())
    wait(submit_in_turn(specs, count)[-1], "priority")
    settle()


def restarted(count, out, number):
    from bench import association, handle, settle, used

    settle()
    restart = until_idle(used)
    jobs, ready = count_jobs(handle)
    if jobs != count:
        sys.exit(f"{jobs} of {count} jobs are there after the restart")
    before = used()
    push(handle, association)
    settle()
    pushed = until_idle(used) - before
    _, ready_after = count_jobs(handle)
    line = dict(number=number, restart=restart / count * 1e6, push=pushed / count * 1e6, ready=ready, after=ready_after)
    print(line, file=sys.stderr, flush=True)
    with open(out, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")


def show(out, names):
    with open(out, encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    for number, name in enumerate(names):
        own = [line for line in lines if line["number"] == number]
        median = lambda key: statistics.median(line[key] for line in own)
        both = statistics.median(line["restart"] + line["push"] for line in own)
        print(
            f"restart {median('restart'):6.0f} us a job, then {median('ready'):.0f} jobs have a priority;"
            f" the first push {median('push'):6.1f} us a job, then {median('after'):.0f}; both {both:6.0f}  {name}"
        )


if sys.argv[1] == "fill":
    fill(int(sys.argv[2]))
elif sys.argv[1] == "restarted":
    restarted(int(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
else:
    show(sys.argv[2], sys.argv[3:])
