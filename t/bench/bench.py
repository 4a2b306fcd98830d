# SPDX-License-Identifier: LGPL-3.0-only
"""Functions of the timing scripts: records, submission in bulk, a stopwatch, the processor time of the job manager, the memory of the
broker."""
import functools
import glob
import json
import os
import sys
import time

import flux
from flux import job

UNLIMITED = 2147483647
handle = flux.Flux()


def association(uid, bank="A", **changes):
    record = dict(
        userid=uid, bank=bank, def_bank=bank, fairshare=0.5, max_running_jobs=UNLIMITED,
        max_active_jobs=UNLIMITED, max_sched_jobs=UNLIMITED, max_nodes=UNLIMITED, max_cores=UNLIMITED,
        queues="", active=1, projects="*", def_project="*",
    )
    record.update(changes)
    return record


def queue(name, **changes):
    record = dict(
        queue=name, priority=1, min_nodes_per_job=0, max_nodes_per_job=UNLIMITED, max_time_per_job=UNLIMITED,
        max_running_jobs=UNLIMITED, max_nodes_per_assoc=UNLIMITED, max_sched_jobs=UNLIMITED,
        max_sched_nodes_per_assoc=UNLIMITED, max_sched_cores_per_assoc=UNLIMITED,
    )
    record.update(changes)
    return record


def call(method, records=None):
    """Returns the seconds that a method takes, without making the text of the payload."""
    text = None if records is None else json.dumps({"data": records})
    start = time.monotonic()
    handle.rpc("job-manager.mf_priority." + method, text).get()
    return time.monotonic() - start


@functools.cache
def job_manager(instance=handle):
    """Returns the schedstat file of the broker's thread that runs the job manager."""
    pid = int(instance.attr_get("broker.pid"))
    for task in glob.glob(f"/proc/{pid}/task/*"):
        with open(task + "/comm", encoding="utf-8") as comm:
            if comm.read().strip() == "job-manager":
                return task + "/schedstat"
    sys.exit("the broker has no thread named job-manager")


def used():
    """Returns the seconds of processor time that the thread of the job manager has used, which does not depend on other processes."""
    with open(job_manager(), encoding="utf-8") as stat:
        return int(stat.read().split()[0]) / 1e9


def settle():
    for _ in range(2):
        handle.rpc("job-manager.stats-get", {}).get()


def reprioritize():
    """Returns the seconds until the job manager serves again: a plugin may answer before its work is done."""
    start = time.monotonic()
    handle.rpc("job-manager.mf_priority.reprioritize").get()
    handle.rpc("job-manager.stats-get", {}).get()
    return time.monotonic() - start


def submit(count, run="1h", urgency=16):
    """Submits `count` one-core jobs as the owner and returns their ids."""
    spec = job.JobspecV1.from_command(["true"])
    spec.duration = 7200
    spec.setattr("system.exec.test.run_duration", run)
    return submit_in_turn([spec.dumps()], count, urgency=urgency)


def submit_in_turn(texts, count, **options):
    """Submits `count` jobs with these jobspecs in turn, and returns their ids."""
    ids = []
    while len(ids) < count:
        turns = range(len(ids), min(len(ids) + 2000, count))
        part = [job.submit_async(handle, texts[turn % len(texts)], **options) for turn in turns]
        ids += [f.get_id() for f in part]
    return ids


def wait(jobid, event):
    job.event_wait(handle, jobid, event)


def memory():
    """Returns the resident bytes of the broker, after the C library has returned freed pages."""
    pid = int(handle.attr_get("broker.pid"))
    with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def show(what, seconds, unit="s"):
    print(f"{what:<58} {seconds:12.4f} {unit}", flush=True)


def best(times):
    return min(times)
