#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Plays a scenario of t/data/scenarios in the running instance, as `fairshare-embedded run` does.

usage: flux python scenario.py TRACE
       flux python scenario.py SCENARIO EXPECTED STATE OUT

The first form converts TRACE, the output of the embedded job manager, to EXPECTED. After each step this program waits until the jobs have the states in
EXPECTED, or for MF_WAIT seconds. STATE keeps names, ids and the next step between calls. A step "restart" ends the call with
status 3 and writes the document for the load to STATE.conf; the caller restarts the instance and calls again.
OUT gets lines of the same form as EXPECTED.
"""
import json
import os
import sys
import time

import flux
import flux.job
import mf

RESTART = 3


def add_defaults(doc):
    """Returns the records with their default values, as in testing/embedded/src/play.rs."""
    assoc = dict(
        def_bank="A", fairshare=0.5, max_running_jobs=mf.UNLIMITED, max_active_jobs=mf.UNLIMITED,
        max_sched_jobs=mf.UNLIMITED, max_nodes=mf.UNLIMITED, max_cores=mf.UNLIMITED, queues="", active=1,
        projects="*", def_project="*",
    )
    queue = mf.make_queue([""], {}, None)
    defaults = {"associations": assoc, "queues": queue}
    return {
        kind: [dict(defaults.get(kind, {}), **r) for r in records] if isinstance(records, list) else records
        for kind, records in doc.items()
    }


def open_as_user(uid):
    """Returns a handle with the credentials of `uid`."""
    os.environ["FLUX_HANDLE_USERID"] = str(uid)
    try:
        return flux.Flux()
    finally:
        del os.environ["FLUX_HANDLE_USERID"]


def submit(step, ids):
    nodes, tasks, cores = max(1, step.get("nodes", 0)), max(1, step.get("tasks", 0)), step.get("cores", 4)
    slot = {"type": "slot", "count": tasks, "label": "task", "with": [{"type": "core", "count": cores}]}
    resource = {"type": "node", "count": nodes, "with": [slot]} if step.get("nodes") else slot
    system = {"duration": 7200.0, "cwd": "/", "environment": {}, "exec": {"test": {"override": 1}}}
    system.update({key: step[key] for key in ("queue", "bank", "project") if key in step})
    if "after" in step:
        system["dependencies"] = [{"scheme": "afterany", "value": str(ids[step["after"]])}]
    spec = {
        "version": 1, "resources": [resource], "attributes": {"system": system},
        "tasks": [{"command": ["job"], "slot": "task", "count": {"per_slot": 1}}],
    }
    from flux.security import SecurityContext

    handle = open_as_user(step["user"])
    signed = SecurityContext().sign_wrap_as(step["user"], json.dumps(spec), mech_type="none")
    future = flux.job.submit_async(handle, signed, urgency=step.get("urgency", 16), pre_signed=True)
    ids[step["submit"]] = int(future.get_id())


def push_data(handle, doc):
    doc = add_defaults(doc)
    for kind, method in mf.ORDER:
        if kind in doc:
            mf.rpc(handle, mf.SERVICE + method, {"data": doc[kind]})


def load_plugin(handle, doc):
    request = {"load": os.environ["PLUGIN"]}
    if doc is not None:
        request["conf"] = {"config": add_defaults(doc)}
    handle.rpc("job-manager.jobtap", request).get()


def play(handle, step, ids):
    """Plays one step. A refusal raises OSError."""
    if "submit" in step:
        submit(step, ids)
    elif "push" in step or "data" in step:
        push_data(handle, step.get("push", step.get("data")))
        if "push" in step:
            mf.rpc(handle, mf.SERVICE + "reprioritize")
    elif "reprioritize" in step:
        mf.rpc(handle, mf.SERVICE + "reprioritize")
    elif "finish" in step:
        finish(handle, ids[step["finish"]])
    elif "cancel" in step:
        flux.job.cancel(handle, ids[step["cancel"]])
    elif "urgency" in step:
        handle.rpc("job-manager.urgency", {"id": ids[step["urgency"]], "urgency": step["value"]}).get()
    elif "update" in step:
        key = "queue" if "queue" in step else "bank"
        updates = {"attributes.system." + key: step[key]}
        handle.rpc("job-manager.update", {"id": ids[step["update"]], "updates": updates}).get()
    else:
        if "reload" in step or "remove" in step:
            handle.rpc("job-manager.jobtap", {"remove": "mf_priority.so"}).get()
        if "reload" in step or "load" in step:
            load_plugin(handle, step.get("reload", step.get("load")))


def finish(handle, jobid):
    """Waits for the start of a mock job and ends it, with the credentials of its user."""
    if read_states(handle, {"": jobid})[""] != "RUN":
        return  # as in the embedded job manager
    user = open_as_user(mf.find_live_job(handle, jobid)["userid"])
    deadline = time.time() + wait_limit()
    for event in ("start", "finish"):
        while True:
            try:
                user.rpc("job-exec.override", {"jobid": jobid, "event": event, "status": 0}).get()
                break
            except OSError as exc:
                if "already running" in str(exc):
                    break
                if time.time() > deadline:  # before it, the execution system may not have the job yet
                    raise
                time.sleep(0.05)


def wait_limit():
    return float(os.environ.get("MF_WAIT", "30"))


def read_states(handle, ids):
    attrs = ["userid", "urgency", "priority", "state", "annotations"]
    jobs = handle.rpc("job-manager.list", {"max_entries": 0, "attrs": attrs}).get()["jobs"]
    now = {job["id"]: mf.STATES[job["state"]] for job in jobs}
    return {name: now.get(jobid, "INACTIVE") for name, jobid in ids.items()}


def list_users(ids):
    try:
        return name_held_jobs(mf.query_document(), ids)
    except OSError:
        return None


def name_held_jobs(query, ids):
    """Returns the users of the query with names instead of job ids."""
    names = {str(jobid): name for name, jobid in ids.items()}
    for user in query["mf_priority_map"]:
        for bank in user["banks"]:
            bank["held_jobs"] = {names.get(k, k): held for k, held in bank["held_jobs"].items()}
    return query["mf_priority_map"]


def settle(handle, ids, want):
    """Waits until jobs and query are as expected and stay so for a moment, and returns them."""
    deadline = time.time() + wait_limit()
    calm = 0
    while True:
        now = {"states": read_states(handle, ids), "users": list_users(ids)}
        calm = calm + 1 if all(now[key] == want[key] for key in now) else 0
        if calm == 3 or time.time() > deadline:
            return now
        time.sleep(0.05)


def is_from_plugin(event):
    name, context = event["name"], event.get("context")
    if name in ("jobspec-update", "memo", "priority"):
        return [name, context]
    if name in ("dependency-add", "dependency-remove") and context["description"].startswith("max-"):
        return [name, context]
    if name == "exception" and context["type"] == "mf_priority":
        return [name, {"note": context["note"]}]
    return None


def convert(trace):
    """Prints the trace of the embedded job manager in the form of the output of this program."""
    with open(trace, encoding="utf-8") as stream:
        steps = [json.loads(line) for line in stream]
    events = {}
    for step in steps:
        ids, query = step["ids"], step["query"]
        line = {"step": step["step"], "states": {name: step["states"][str(ids[name])] for name in ids}}
        line["users"] = query and name_held_jobs(query, ids)
        if step["answers"][0] is not None:
            line["refused"] = step["answers"][0]
        print(json.dumps(line))
        for jobid, name, context, _ in step["trace"]:
            events.setdefault(jobid, []).append(is_from_plugin({"name": name, "context": context}))
    for name in sorted(ids):
        print(json.dumps({"job": name, "events": list(filter(None, events.get(ids[name], [])))}))


def main(scenario, expected, state, out):
    with open(scenario, encoding="utf-8") as stream:
        steps = json.load(stream)["steps"]
    with open(expected, encoding="utf-8") as stream:
        want = [line for line in map(json.loads, stream) if "step" in line]
    ids, index, restarted = {}, 0, False
    if os.path.exists(state):
        with open(state, encoding="utf-8") as stream:
            ids, index = json.load(stream)
        restarted = True
    handle = flux.Flux()
    with open(out, "a", encoding="utf-8") as stream:
        while index < len(steps):
            step, line = steps[index], {"step": index}
            if "restart" in step and not restarted:
                with open(state, "w", encoding="utf-8") as saved:
                    json.dump([ids, index], saved)
                if os.path.exists(state + ".conf"):
                    os.unlink(state + ".conf")
                if step["restart"] is not None:
                    with open(state + ".conf", "w", encoding="utf-8") as saved:
                        json.dump(add_defaults(step["restart"]), saved)
                return RESTART
            if "restart" not in step:
                try:
                    play(handle, step, ids)
                except OSError as exc:
                    line["refused"] = exc.strerror or str(exc)
            restarted = False
            line.update(settle(handle, ids, want[index]))
            print(json.dumps(line), file=stream, flush=True)
            index += 1
        for name in sorted(ids):
            events = filter(None, map(is_from_plugin, mf.read_eventlog(handle, ids[name])))
            print(json.dumps({"job": name, "events": list(events)}), file=stream)
    return 0


if __name__ == "__main__":
    sys.exit(convert(sys.argv[1]) if len(sys.argv) == 2 else main(*sys.argv[1:]))
