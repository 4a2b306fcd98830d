#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-3.0-only
"""Tool of the sharness tests: pushes records, submits as any user, reads the state of the plugin.

Run it inside an instance: flux python mf.py COMMAND ...

  push  RECORD...             sends the records, each kind to its method, then reprioritize
  data  RECORD...             sends the records without reprioritize
  doc   RECORD...             prints the records as one document (configuration at load, policy_update)
  rpc   [--as UID] METHOD [TEXT]   sends TEXT unchanged; prints "ok REPLY" or "ERRNO: text"
  rejects METHOD WANT TEXT... checks that each TEXT gives an error with WANT and leaves the query unchanged
  submit UID [OPTIONS]        submits as UID (unsigned) and prints the job id
  update [--as UID] ID KEY=JSON...  sends a jobspec update, as `flux update` does
  most_ran UID                prints the largest number of jobs of a user that ran at once
  posted EVENT ID...          prints how many events of that name each job has
  in_order                    prints the number of pending jobs, and jobs that got their priority before a job that goes earlier
  jobs [UID]                  prints id, user, state and priority of the active jobs
  state ID | deps ID | prio ID | events ID | times ID EVENT | spec ID    prints facts of one job
  is_state STATE ID...        checks the state of jobs, and prints the jobs in other states
  starts ID...                prints the users of the jobs, in the order of their starts
  counts UID BANK KEY=N...    compares the counters of an association in the query
  query [EXPR]                prints the query document, or the Python value of EXPR over q (the document)
  load PLUGIN [FILE] | remove NAME    loads the plugin with the document in FILE, or removes it, as `flux jobtap` does
  reload FILE PLUGIN TOPIC JSON   sends a request, and before its answer reloads the plugin with the document in FILE
  queues start|stop           starts or stops all queues, as `flux queue start --all` does
  cancel_all SECONDS          cancels all jobs and waits; gives up if SECONDS pass without the end of a job
  sql DATABASE STATEMENT      runs an SQL statement and prints the rows
  alive                       makes two round trips to the job manager
  check                       recounts in the plugin; fails on a difference

RECORD: assoc UID BANK [k=v..] | queue NAME [k=v..] | project NAME | bank NAME PRIORITY
        | factor NAME WEIGHT | config k=v..
"""
import argparse
import errno
import json
import os
import sqlite3
import sys
import time

import flux
from flux.job import JobID

SERVICE = "job-manager.mf_priority."
STATES = {1: "NEW", 2: "DEPEND", 4: "PRIORITY", 8: "SCHED", 16: "RUN", 32: "CLEANUP", 64: "INACTIVE"}
UNLIMITED = 2147483647
JOBID_ANY = -1  # the journal sends this id after the past events
ORDER = [
    ("associations", "rec_update"),
    ("queues", "rec_q_update"),
    ("projects", "rec_proj_update"),
    ("banks", "rec_bank_update"),
    ("priority_factors", "rec_fac_update"),
    ("config", "rec_config_update"),
]
KINDS = {
    "assoc": "associations",
    "queue": "queues",
    "project": "projects",
    "bank": "banks",
    "factor": "priority_factors",
    "config": "config",
}


POSITIONAL = dict(assoc=2, queue=1, project=1, bank=2, factor=2, config=0)


def parse_value(text):
    try:
        return json.loads(text)
    except ValueError:
        return text


def make_association(args, kv, known):
    uid, bank = parse_value(args[0]), args[1]
    default = next((a["def_bank"] for a in known if a["userid"] == uid), bank)
    record = dict(
        userid=uid, bank=bank, def_bank=default, fairshare=0.5, max_running_jobs=UNLIMITED,
        max_active_jobs=UNLIMITED, max_sched_jobs=UNLIMITED, max_nodes=UNLIMITED,
        max_cores=UNLIMITED, queues="", active=1, projects="*", def_project="*",
    )
    record.update(kv)
    return record


def make_queue(args, kv, _known):
    record = dict(
        queue=args[0], min_nodes_per_job=0, max_nodes_per_job=UNLIMITED, max_time_per_job=UNLIMITED,
        priority=0, max_running_jobs=UNLIMITED, max_nodes_per_assoc=UNLIMITED,
        max_sched_jobs=UNLIMITED, max_sched_nodes_per_assoc=UNLIMITED,
        max_sched_cores_per_assoc=UNLIMITED,
    )
    record.update(kv)
    return record


MAKE = {
    "assoc": make_association,
    "queue": make_queue,
    "project": lambda a, kv, _: dict(project=a[0], **kv),
    "bank": lambda a, kv, _: dict(bank=a[0], priority=parse_value(a[1]), **kv),
    "factor": lambda a, kv, _: dict(factor=a[0], weight=parse_value(a[1]), **kv),
}


def parse_document(tokens):
    """Returns the records on the command line as {kind: [record]}; `config` is an object."""
    doc, i = {}, 0
    while i < len(tokens):
        kind = tokens[i]
        if kind not in KINDS:
            sys.exit(f"mf: {kind}: not a kind of record")
        i += 1
        args = tokens[i : i + POSITIONAL[kind]]
        i += len(args)
        kv = {}
        while i < len(tokens) and "=" in tokens[i]:
            key, _, text = tokens[i].partition("=")
            kv[key] = text if key in ("queues", "projects") else parse_value(text)
            i += 1
        if kind == "config":
            doc.setdefault("config", {}).update(kv)
        else:
            known = doc.setdefault(KINDS[kind], [])
            known.append(MAKE[kind](args, kv, known))
    return doc


def exit_with_errno(exc):
    name = errno.errorcode.get(exc.errno, str(exc.errno))
    text = exc.strerror if exc.strerror is not None else str(exc)
    print(f"{name}: {text}")
    sys.exit(1)


def rpc(handle, topic, payload=None):
    return handle.rpc(topic, payload).get_str()


def send_records(tokens, reprioritize):
    handle, doc = flux.Flux(), parse_document(tokens)
    try:
        for kind, method in ORDER:
            if kind in doc:
                rpc(handle, SERVICE + method, {"data": doc[kind]})
        if reprioritize:
            rpc(handle, SERVICE + "reprioritize")
    except OSError as exc:
        exit_with_errno(exc)


def cmd_push(argv):
    send_records(argv, True)


def cmd_data(argv):
    send_records(argv, False)


def cmd_doc(argv):
    doc = parse_document(argv)
    for kind, _ in ORDER[:5]:
        doc.setdefault(kind, [])
    print(json.dumps(doc))


def open_as_user(argv):
    """Removes a leading --as UID and returns a handle with the credentials of this guest."""
    if argv and argv[0] == "--as":
        os.environ["FLUX_HANDLE_USERID"] = argv[1]
        os.environ["FLUX_HANDLE_ROLEMASK"] = "0x2"
        argv = argv[2:]
    return argv


def cmd_rpc(argv):
    argv = open_as_user(argv)
    payload = argv[1] if len(argv) > 1 else None
    topic = argv[0] if "." in argv[0] else SERVICE + argv[0]
    try:
        reply = rpc(flux.Flux(), topic, payload)
    except OSError as exc:
        exit_with_errno(exc)
    print("ok" if reply is None else f"ok {reply}")


def cmd_rejects(argv):
    """Checks that each payload gives an error with WANT and leaves the query unchanged."""
    method, want, payloads = argv[0], argv[1], argv[2:]
    handle, wrong = flux.Flux(), 0
    before = query_document()
    for payload in payloads:
        try:
            rpc(handle, SERVICE + method, payload or None)
            outcome = "accepted"
        except OSError as exc:
            text = exc.strerror or ""
            outcome = None if text and want in text else f"{errno.errorcode.get(exc.errno)}: {text!r}"
        if query_document() != before:
            outcome = f"{outcome}, and the query has changed"
            before = query_document()
        if outcome:
            wrong = 1
            print(f"{method} {payload[:300]}\n    {outcome}")
    sys.exit(wrong)


def make_resources(o):
    if o.resources:
        return json.loads(o.resources)
    slot = {"type": "slot", "label": "task", "count": o.n, "with": [{"type": "core", "count": o.c}]}
    if o.N is None:
        return [slot]
    slot["count"] = max(1, o.n // o.N)
    return [{"type": "node", "count": o.N, "with": [slot]}]


def make_jobspec(o):
    system = {"duration": o.t, "cwd": "/", "environment": {}, "exec": {"test": {"run_duration": o.run}}}
    for name, val in (("queue", o.q), ("bank", o.B), ("project", o.P)):
        if val is not None:
            system[name] = val
    if o.d:
        system["dependencies"] = [
            dict(scheme=d.split(":", 1)[0], value=d.split(":", 1)[1]) for d in o.d
        ]
    spec = {
        "version": 1,
        "resources": make_resources(o),
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": system},
    }
    for item in o.set:
        path, _, text = item.partition("=")
        *parents, leaf = path.split(".")
        at = spec
        for step in parents:
            at = at.setdefault(step, {})
        if text == "DELETE":
            at.pop(leaf, None)
        else:
            at[leaf] = parse_value(text)
    return spec


def cmd_submit(argv):
    p = argparse.ArgumentParser(prog="submit")
    p.add_argument("uid", type=int)
    p.add_argument("-N", type=int)
    p.add_argument("-n", type=int, default=1)
    p.add_argument("-c", type=int, default=1)
    p.add_argument("-q")
    p.add_argument("-B")
    p.add_argument("-P")
    p.add_argument("-u", type=int, default=16, help="urgency")
    p.add_argument("-t", type=float, default=7200.0, help="duration")
    p.add_argument("-d", action="append", help="dependency SCHEME:VALUE")
    p.add_argument("-j", type=int, default=1, help="copies")
    p.add_argument("--run", default="1h", help="how long the mock job runs")
    p.add_argument("--set", action="append", default=[], help="PATH=JSON in the jobspec, DELETE removes")
    p.add_argument("--resources")
    p.add_argument("--spec", help="file that holds the whole jobspec")
    o = p.parse_args(argv)
    if o.spec:
        with open(o.spec, encoding="utf-8") as stream:
            text = stream.read()
    else:
        text = json.dumps(make_jobspec(o))
    from flux.security import SecurityContext

    os.environ["FLUX_HANDLE_USERID"] = str(o.uid)
    handle = flux.Flux()
    signed = SecurityContext().sign_wrap_as(o.uid, text, mech_type="none")
    try:
        futures = [
            flux.job.submit_async(handle, signed, urgency=o.u, pre_signed=True) for _ in range(o.j)
        ]
        for future in futures:
            print(JobID(future.get_id()).f58)
    except OSError as exc:
        print(exc.strerror or exc, file=sys.stderr)
        sys.exit(1)


def cmd_update(argv):
    argv = open_as_user(argv)
    updates = {}
    for item in argv[1:]:
        key, _, text = item.partition("=")
        if not key.startswith("attributes."):
            key = "attributes.system." + key
        updates[key] = parse_value(text)
    try:
        rpc(flux.Flux(), "job-manager.update", {"id": int(JobID(argv[0])), "updates": updates})
    except OSError as exc:
        exit_with_errno(exc)


def list_active_jobs(handle):
    """Returns the active jobs of the job manager; job-list, which `flux jobs` reads, gets them later."""
    attrs = ["userid", "urgency", "priority", "state", "annotations"]
    return handle.rpc("job-manager.list", {"max_entries": 0, "attrs": attrs}).get()["jobs"]


def find_live_job(handle, jobid):
    want = int(JobID(jobid))
    return next((job for job in list_active_jobs(handle) if job["id"] == want), None)


def cmd_jobs(argv):
    """jobs [UID]: prints id, user, state and posted priority of each active job, one a line, in the order of ids."""
    for job in sorted(list_active_jobs(flux.Flux()), key=lambda job: job["id"]):
        if not argv or job["userid"] == int(argv[0]):
            print(job["id"], job["userid"], STATES[job["state"]], job["priority"])


def cmd_state(argv):
    handle = flux.Flux()
    for jobid in argv:
        job = find_live_job(handle, jobid)
        print(STATES[job["state"]] if job else "INACTIVE")


def cmd_is_state(argv):
    want, *jobids = argv
    states = {job["id"]: STATES[job["state"]] for job in list_active_jobs(flux.Flux())}
    for jobid in jobids:
        have = states.get(int(JobID(jobid)), "INACTIVE")
        if have != want:
            print(f"{jobid} is in {have}, not {want}")
            sys.exit(1)


def read_journal(handle):
    """Returns (id, events) of each job from the memory of the job manager; the KVS gets them later, in batches."""
    backlog = handle.rpc("job-manager.events-journal", {"full": True}, flags=flux.constants.FLUX_RPC_STREAMING)
    while (entry := backlog.get())["id"] != JOBID_ANY:
        yield entry["id"], entry["events"]
        backlog.reset()


def read_eventlog(handle, jobid):
    """Returns the events of a job from the KVS, after it has all events that the job manager posted so far.

    The events in the memory of the job manager are not used, because a later memo changes the text of an earlier memo there.
    """
    jobid = int(JobID(jobid))
    posted = next((len(events) for found, events in read_journal(handle) if found == jobid), 0)
    request = {"id": jobid, "keys": ["eventlog"], "flags": 0}
    for _ in range(600):
        lines = handle.rpc("job-info.lookup", request).get()["eventlog"].splitlines()
        if len(lines) >= posted:
            return [json.loads(line) for line in lines]
        time.sleep(0.05)
    raise TimeoutError(f"of {posted} events of {jobid} the KVS has {len(lines)}")


def cmd_most_ran(argv):
    """most_ran UID: prints the largest number of jobs of a user that had resources at once."""
    changes = []
    for _, events in read_journal(flux.Flux()):
        if events[0]["context"]["userid"] == int(argv[0]):
            changes += [(e["timestamp"], {"alloc": 1, "clean": -1}.get(e["name"], 0)) for e in events]
    now = most = 0
    for _, change in sorted(changes):
        now += change
        most = max(most, now)
    print(most)


def cmd_times(argv):
    """times ID EVENT: prints the time of each event of that name, one a line."""
    jobid, name = argv
    for event in read_eventlog(flux.Flux(), jobid):
        if event["name"] == name:
            print(repr(event["timestamp"]))


def cmd_posted(argv):
    """posted EVENT ID...: prints how many events of that name each job has, one a line."""
    logs = dict(read_journal(flux.Flux()))
    for jobid in argv[1:]:
        print(sum(event["name"] == argv[0] for event in logs[int(JobID(jobid))]))


def cmd_starts(argv):
    logs, started = dict(read_journal(flux.Flux())), []
    for jobid in argv:
        first, *events = logs[int(JobID(jobid))]
        when = next(event["timestamp"] for event in events if event["name"] == "start")
        started.append((when, first["context"]["userid"]))
    print(*(user for _, user in sorted(started)))


def cmd_in_order(_argv):
    """in_order: prints the number of pending jobs, and jobs that got their priority before a job that goes earlier."""
    handle = flux.Flux()
    priced = {}
    for found, events in read_journal(handle):
        priced[found] = max((e["timestamp"] for e in events if e["name"] == "priority"), default=None)
    pending = [job for job in list_active_jobs(handle) if STATES[job["state"]] == "SCHED"]
    pending.sort(key=lambda job: (-job["priority"], job["id"]))
    ids = [job["id"] for job in pending]
    print(len(ids), *(JobID(late).f58 for first, late in zip(ids, ids[1:]) if priced[late] < priced[first]))


def cmd_events(argv):
    for event in read_eventlog(flux.Flux(), argv[0]):
        context = " ".join(
            f"{k}={v if isinstance(v, str) else json.dumps(v)}" for k, v in event.get("context", {}).items()
        )
        print(f"{event['name']} {context}".rstrip())


def cmd_prio(argv):
    handle = flux.Flux()
    for jobid in argv:
        values = [e["context"]["priority"] for e in read_eventlog(handle, jobid) if e["name"] == "priority"]
        print(values[-1] if values else "none")


def cmd_spec(argv):
    """Prints the jobspec with all updates, or one attribute of it (dotted path)."""
    handle = flux.Flux()
    reply = handle.rpc(
        "job-info.lookup", {"id": int(JobID(argv[0])), "keys": ["jobspec"], "flags": 2}
    ).get()
    at = json.loads(reply["jobspec"]) if isinstance(reply["jobspec"], str) else reply["jobspec"]
    for step in argv[1].split(".") if len(argv) > 1 else []:
        at = at.get(step, {}) if isinstance(at, dict) else {}
    print(at if isinstance(at, str) else ("none" if at == {} else json.dumps(at)))


def query_document():
    return json.loads(rpc(flux.Flux(), "job-manager.jobtap-query", {"name": "mf_priority.so"}))


def cmd_deps(argv):
    held = {
        jobid: job["deps"]
        for user in query_document()["mf_priority_map"]
        for bank in user["banks"]
        for jobid, job in bank["held_jobs"].items()
    }
    for jobid in argv:
        print(",".join(held.get(str(int(JobID(jobid))), [])) or "none")


COUNTS = dict(active="cur_active_jobs", run="cur_run_jobs", sched="cur_sched_jobs", nodes="cur_nodes", cores="cur_cores")
QUEUE_COUNTS = dict(
    run="cur_run_jobs", nodes="cur_nodes", sched="cur_sched_jobs",
    sched_nodes="cur_sched_nodes", sched_cores="cur_sched_cores",
)


def read_count(bank, key):
    if key == "held":
        return len(bank["held_jobs"])
    if key in COUNTS:
        return bank[COUNTS[key]]
    name, _, count = key.rpartition(".")
    return bank["queue_usage"].get(name, {}).get(QUEUE_COUNTS[count])


def cmd_counts(argv):
    uid, name = int(argv[0]), argv[1]
    doc = query_document()
    banks = [
        b for u in doc["mf_priority_map"] if u["userid"] == uid for b in u["banks"] if b["bank_name"] == name
    ]
    if not banks:
        sys.exit(f"mf: no association {uid}/{name} in the query")
    wrong = 0
    for item in argv[2:]:
        key, _, want = item.partition("=")
        have = read_count(banks[0], key)
        if str(have) != want:
            wrong = 1
            print(f"{uid}/{name} {key}: expected {want}, is {have}")
    if wrong:
        print(json.dumps(banks[0]))
    sys.exit(wrong)


def cmd_query(argv):
    doc = query_document()
    if not argv:
        print(json.dumps(doc, sort_keys=True))
        return
    result = eval(argv[0], {"q": doc})  # the expression comes from a test script
    print(result if isinstance(result, str) else json.dumps(result))


def exit_with_error(command, text):
    """Formats an error as Flux's commands do."""
    print(f"{command}: ERROR: {text}", file=sys.stderr)
    sys.exit(1)


def call_jobtap(request, name):
    try:
        flux.Flux().rpc("job-manager.jobtap", request).get()
    except FileNotFoundError:
        exit_with_error("flux-jobtap", f"{name} not found")
    except OSError as exc:
        exit_with_error("flux-jobtap", exc.strerror or exc)


def cmd_load(argv):
    request = {"load": argv[0]}
    if len(argv) > 1:
        with open(argv[1], encoding="utf-8") as stream:
            request["conf"] = {"config": json.load(stream)}
    call_jobtap(request, argv[0])


def cmd_remove(argv):
    call_jobtap({"remove": argv[0]}, argv[0])


def cmd_queues(argv):
    request = {"start": {"start": True, "stop": False}[argv[0]], "all": True, "nocheckpoint": False}
    future = flux.Flux().rpc("job-manager.queue-start", request, nodeid=0)
    try:
        future.get()
    except OSError:
        exit_with_error("flux-queue", f"start: {future.error_string()}")


def cmd_cancel_all(argv):
    """Cancels all jobs and waits. `flux queue idle` can wait indefinitely: if a killed broker left a job in CLEANUP without
    resources, Flux counts the job's end but not its start, and is never idle."""
    handle, left = flux.Flux(), None
    states = flux.constants.FLUX_JOB_STATE_PENDING | flux.constants.FLUX_JOB_STATE_RUNNING
    everybody = {"dry_run": False, "userid": flux.constants.FLUX_USERID_UNKNOWN, "states": states}
    handle.rpc("job-manager.raiseall", {**everybody, "severity": 0, "type": "cancel"}).get()
    while True:
        drained = handle.rpc("job-manager.drain")
        try:
            drained.wait_for(float(argv[0]))
            drained.get()
            return
        except OSError as exc:
            text = "timeout" if exc.errno == errno.ETIMEDOUT else drained.error_string()
            print(f"flux-queue: ERROR: drain: {text}", file=sys.stderr)
        before, left = left, len(list_active_jobs(handle))
        if before is not None and left >= before:
            sys.exit(1)


def cmd_reload(argv):
    handle = flux.Flux()
    with open(argv[0], encoding="utf-8") as stream:
        load = {"remove": "mf_priority.so", "load": argv[1], "conf": {"config": json.load(stream)}}
    # Both requests are sent before an answer is read. The second request arrives before Flux has stored the events of the first request.
    requests = [handle.rpc(argv[2], json.loads(argv[3])), handle.rpc("job-manager.jobtap", load)]
    try:
        for request in requests:
            request.get()
    except OSError as exc:
        exit_with_errno(exc)


def cmd_sql(argv):
    database, statement = argv
    with sqlite3.connect(database) as connection:
        for row in connection.execute(statement):
            print(*row)


def cmd_alive(_argv):
    handle = flux.Flux()
    for _ in range(2):
        handle.rpc("job-manager.stats-get", {}).get()


def cmd_running(argv):
    """Checks that the plugin stores of the running jobs ID... the same as flux-core reads in their R."""
    from flux.job import JobID, job_kvs_lookup
    from flux.resource import ResourceSet

    handle = flux.Flux()
    wanted = {"jobs": len(argv), "unread": 0, "nodes": 0, "cores": 0, "gpus": 0}
    starts, submits = [], []
    for jobid in map(JobID, argv):
        found = job_kvs_lookup(handle, jobid, keys=["R", "eventlog"])
        resources = ResourceSet(found["R"])
        wanted["nodes"] += resources.nnodes
        wanted["cores"] += resources.ncores
        wanted["gpus"] += resources.ngpus
        starts.append(found["R"]["execution"]["starttime"])
        submits.append(json.loads(found["eventlog"].splitlines()[0])["timestamp"])
    wanted.update(since=min(starts), submitted=min(submits))
    have = handle.rpc(SERVICE + "check").get()["running"]
    if have != wanted:
        sys.exit(f"the plugin keeps {have}, and their R says {wanted}")


def cmd_check(_argv):
    try:
        reply = flux.Flux().rpc(SERVICE + "check").get()
    except OSError as exc:
        exit_with_errno(exc)
    print(json.dumps(reply))
    sys.exit(1 if reply.get("drift") != [] else 0)


def main(argv):
    if not argv or "cmd_" + argv[0] not in globals():
        sys.exit(__doc__)
    globals()["cmd_" + argv[0]](argv[1:])


if __name__ == "__main__":
    main(sys.argv[1:])
