#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Replaces Flux's module job-list, which must not be loaded, until this process is killed. Writes each request to FILE.

usage: job-list.py HOW FILE

  slow     answers "no jobs" after three seconds
  silent   never answers
  refuses  answers with an error
  lies     reports jobs that do not exist, live jobs as ended, and dependencies that no plugin added
  raves    sends invalid answers
"""
import json
import sys
import time

import flux
from flux.constants import FLUX_MSGTYPE_REQUEST
from flux.job import JobID

how, path = sys.argv[1], sys.argv[2]
handle = flux.Flux()
kept, raved = [], 0
RAVINGS = ["{}", "[]", "7", '{"jobs":7,"job":7}', '{"jobs":[{"id":-1}],"job":{"dependencies":[7]}}', '{"job":{"dependencies":"x"},"jobs":[null]}']


def make_live_jobs():
    return handle.rpc("job-manager.list", {"max_entries": 0, "attrs": ["userid"]}).get()["jobs"]


def make_ended_job(one, userid, **more):
    return dict(id=one, userid=userid, bank="A", t_run=1.0, t_inactive=time.time(), nnodes=2**63 - 1, ncores=2**63 - 1, **more)


def answer_wrongly(topic):
    if topic.endswith("list-id"):
        names = ["max-running-jobs-user-limit", "max-sched-jobs-user-limit", "begin-time=9e99", "\x1b[31m\n", "x" * 5000]
        return {"job": {"id": 1, "dependencies": names}}
    jobs = [make_ended_job(JobID(one["id"]), one["userid"]) for one in make_live_jobs()]
    return {"jobs": jobs + jobs + [make_ended_job(n, 5001 + n % 2) for n in range(1, 1000)] + [make_ended_job(7, 4294967295, t_run=-1e300)]}


def answer_request(_handle, _watcher, message, _arg):
    global raved
    with open(path, "a", encoding="utf-8") as stream:
        print(message.topic, message.payload_str, file=stream)
    if how == "silent":
        kept.append(message)
    elif how == "refuses":
        handle.respond_error(message, 5, "it refuses")
    elif how == "raves":
        raved += 1
        handle.respond(message, RAVINGS[raved % len(RAVINGS)])
    elif how == "slow":
        kept.append(message)
        handle.timer_watcher_create(3.0, answer_late).start()
    else:
        handle.respond(message, json.dumps(answer_wrongly(message.topic)))


def answer_late(*_args):
    message = kept.pop(0)
    handle.respond(message, json.dumps({"job": {"id": 1}} if message.topic.endswith("list-id") else {"jobs": []}))


handle.service_register("job-list").get()
handle.msg_watcher_create(answer_request, FLUX_MSGTYPE_REQUEST, "job-list.*").start()
with open(path, "a", encoding="utf-8") as stream:
    print("ready", file=stream)
handle.reactor_run()
