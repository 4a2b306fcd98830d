# SPDX-License-Identifier: LGPL-3.0-only
"""Plays the steps of a history in a real Flux instance and reports their outcomes."""
import json
import time

import flux
import flux.job
from flux.security import SecurityContext

from instance import SERVICE, Instance
from model import complete
from stream import Event

QUEUES = ("q1", "q2", "q3")
METHODS = (
    ("associations", "rec_update"), ("queues", "rec_q_update"), ("projects", "rec_proj_update"),
    ("banks", "rec_bank_update"), ("priority_factors", "rec_fac_update"), ("config", "rec_config_update"),
)
ASKED_WITHIN = 0.7  # seconds until the plugin asks whether queues are stopped
FOLLOWED, BOUNDARY = 1.2, 0.4  # seconds after and before the start or end of a window
PART = 3  # records in one part of a policy
WHOLE = ("associations", "queues", "projects", "banks", "priority_factors")
TROUBLE = ("BUG:", "callback returned error", "panic", "job-manager.crit", "job-manager.alert")


class Player:
    """Plays a history in one instance."""

    def __init__(self, directory, plugin, keeper, virtual):
        queues = {name: {"parent": virtual[name]} if name in virtual else {} for name in QUEUES}
        self.instance = Instance(directory, plugin, keeper, queues)
        self.names = {}
        self.steps = {}  # submission of each job id
        self.started, self.waits, self.known = set(), set(), 0
        self.reads = False  # the present plugin reads eventlogs, or will when data arrive
        self.is_started = True
        self.has_check = True
        self.taken = 0
        self.starts = {}  # of jobs, by their R
        self.has_budgets, self.windows, self.seen = False, [], time.time()

    def begin(self, document):
        self.has_budgets = "budgets" in (document or {})
        self.instance.start(None if document is None else complete(document))
        self.queues(True)

    def queues(self, start):
        reason = {} if start else {"reason": "test"}
        self.instance.rpc("job-manager.queue-start", dict(start=start, all=True, **reason))
        self.is_started = start

    # Steps

    def play(self, step):
        """Plays the step and returns answers and ids; `settle` returns the consequences."""
        self.taken, began = len(self.instance.events), time.time()
        answers, ids = [], {}
        if "submit" in step or "batch" in step:
            wanted = [(one, self.submit(one)) for one in step.get("batch", [step])]
            for one, future in wanted:
                try:
                    jobid = int(future.get_id())
                    ids[one["submit"]] = self.names[one["submit"]] = jobid
                    self.steps[jobid] = one
                    answers.append(None)
                except OSError as error:
                    answers.append(error.strerror or str(error))
        else:
            try:
                self.other(step)
                answers.append(None)
            except OSError as error:
                answers.append(error.strerror or str(error))
        return {"answers": answers, "ids": ids, "began": began}

    def submit(self, step):
        nodes, tasks, cores = step.get("nodes", 0), max(1, step.get("tasks", 0)), step.get("cores", 4)
        slot = {"type": "slot", "count": tasks, "label": "task", "with": [{"type": "core", "count": cores}]}
        if step.get("gpus"):
            slot["with"].append({"type": "gpu", "count": step["gpus"]})
        resource = {"type": "node", "count": nodes, "with": [slot]} if nodes else slot
        run = {"run_duration": step.get("run", "10h")}
        system = {"duration": float(step.get("limit", 36000)), "cwd": "/", "environment": {}, "exec": {"test": run}}
        system.update({key: step[key] for key in ("queue", "bank", "project", "keep_silently") if key in step})
        wants = []
        if step.get("after") in self.names:
            wants.append({"scheme": "afterany", "value": str(self.names[step["after"]])})
        if "keep" in step:
            wants.append({"scheme": "keep", "value": step["keep"]})
        if "begin" in step:
            wants.append({"scheme": "begin-time", "value": str(time.time() + step["begin"])})
        if wants:
            system["dependencies"] = wants
        spec = {
            "version": 1, "resources": [resource], "attributes": {"system": system},
            "tasks": [{"command": ["job"], "slot": "task", "count": {"per_slot": 1}}],
        }
        signed = SecurityContext().sign_wrap_as(step["user"], json.dumps(spec), mech_type="none")
        handle = self.instance.of_user(step["user"])
        return flux.job.submit_async(handle, signed, urgency=step.get("urgency", 16), pre_signed=True)

    def other(self, step):
        instance = self.instance
        if "wait" in step:
            return None
        if "stop" in step or "start" in step:
            self.queues("start" in step)
            return time.sleep(ASKED_WITHIN)
        for key in ("cancel", "urgency", "update", "add", "drop"):
            if key in step:
                jobid = self.names.get(step[key])
                return getattr(self, key)(jobid, step) if jobid is not None else None
        if "restart" in step:
            status = instance.stop()
            if status != 0:
                raise OSError(f"the broker ended with status {status}")
            return instance.start(None if step["restart"] is None else complete(step["restart"]))
        if "module" in step:
            return instance.reload_manager()
        if "rush" in step:
            return self.rush(complete(step["rush"]))
        if "config" in step:
            return instance.configure(step["config"])
        if "parts" in step:
            return self.parts({**{key: [] for key in WHOLE}, **complete(step["parts"])})
        for key in ("data", "push"):
            if key in step:
                self.data(step[key])
        if "policy" in step:
            document = {key: [] for key in WHOLE}
            instance.rpc(SERVICE + "policy_update", dict(document, **complete(step["policy"])))
        if "push" in step or "reprioritize" in step:
            instance.rpc(SERVICE + "reprioritize")
        if "reload" in step or "remove" in step:
            instance.rpc("job-manager.jobtap", {"remove": "mf_priority.so"})
        for key in ("reload", "load"):
            if key in step:
                request = {"load": instance.plugin}
                if step[key] is not None:
                    request["conf"] = {"config": complete(step[key])}
                instance.rpc("job-manager.jobtap", request)
        return None

    def data(self, document):
        document = complete(document)
        for kind, method in METHODS:
            if kind in document:
                self.instance.rpc(SERVICE + method, {"data": document[kind]})

    def parts(self, document):
        """Pushes a whole policy, a few records at a time."""
        push = json.loads(self.instance.rpc(SERVICE + "policy_begin", {}))["push"]
        for kind, records in document.items():
            some = [records[at:at + PART] for at in range(0, len(records), PART)] if isinstance(records, list) else []
            for part in some or [records]:
                self.instance.rpc(SERVICE + "policy_part", {"push": push, kind: part})
        self.instance.rpc(SERVICE + "policy_commit", {"push": push})

    def rush(self, document):
        """Reloads the plugin without data and pushes; all requests are sent before the first answer."""
        handle = self.instance.handle
        swap = {"remove": "mf_priority.so", "load": self.instance.plugin}
        requests = [handle.rpc("job-manager.jobtap", swap)]
        requests += [handle.rpc(SERVICE + m, {"data": document[k]}) for k, m in METHODS if k in document]
        requests.append(handle.rpc(SERVICE + "reprioritize"))
        for request in requests:
            request.get()

    def cancel(self, jobid, _step):
        flux.job.cancel(self.instance.handle, jobid)

    def urgency(self, jobid, step):
        self.instance.rpc("job-manager.urgency", {"id": jobid, "urgency": step["value"]})

    def update(self, jobid, step):
        key = "queue" if "queue" in step else "bank"
        self.instance.rpc("job-manager.update", {"id": jobid, "updates": {"attributes.system." + key: step[key]}})

    def add(self, jobid, step):
        self.instance.rpc("job-manager.keeper.add", {"id": jobid, "name": step["name"]})

    def drop(self, jobid, step):
        self.instance.rpc("job-manager.keeper.drop", {"id": jobid, "name": step["name"]})

    # Rest

    def settle(self, patience=0.01, limit=20.0):
        """Waits until Flux has done everything, and returns events, states and query."""
        deadline, calm = time.time() + limit, 0
        while calm < 2 and time.time() < deadline:
            for _ in range(2):
                self.instance.rpc("job-manager.stats-get", {})
            if self.instance.receive(patience):
                while self.instance.receive(0.0):
                    pass
                calm = 0
                continue
            calm = calm + 1 if self.is_calm() and not (self.has_budgets and self.is_amid_window(self.instance.query())) else 0
        active = self.instance.jobs()
        states = {jobid: active[jobid]["state"] if jobid in active else "INACTIVE" for jobid in self.steps}
        events = [self.make_event(*event) for event in self.instance.events[self.taken:]]
        query = self.instance.query()
        if self.has_budgets and self.is_amid_window(query) and time.time() < deadline:
            return self.settle(patience, deadline - time.time())
        self.seen = time.time()
        return {"events": events, "states": states, "query": query, "drift": self.drift() if query else None, "until": self.seen}

    def make_event(self, jobid, entry):
        """Returns an event with its time. The event "alloc" has the start in R."""
        context = entry.get("context", {})
        if entry["name"] == "alloc" and self.has_budgets:
            if jobid not in self.starts:
                found = json.loads(self.instance.rpc("job-info.lookup", {"id": jobid, "keys": ["R"], "flags": 0}))
                self.starts[jobid] = json.loads(found["R"])["execution"]["starttime"]
            context = dict(context, start=self.starts[jobid])
        event = Event((jobid, entry["name"], context))
        event.at = entry["timestamp"]
        return event

    def has_boundary(self):
        """Returns whether the window of a budget has begun or ended since the last step."""
        return any(self.seen <= at < time.time() + BOUNDARY for at in self.windows)

    def is_amid_window(self, query):
        """Returns whether the plugin does not know all ended jobs, or has not followed a window that began or ended, or is about to."""
        budgets = (query or {}).get("budgets", [])
        self.windows = [at for one in budgets for at in (one["start"], one["end"])]
        now = time.time()
        return not all(one["complete"] for one in budgets) or any(now - FOLLOWED < at < now + BOUNDARY for at in self.windows)

    def is_calm(self):
        """Returns whether no job has to change its state."""
        for jobid, entry in self.instance.events[self.known:]:
            if entry["name"] == "start":
                self.started.add(jobid)
            if entry["name"] in ("clean", "depend"):
                self.waits.discard(jobid)
            text = entry.get("context", {}).get("description", "") if entry["name"].startswith("dep") else ""
            if text.startswith("begin-time=") and float(text[11:]) < time.time() + 60:
                (self.waits.add if entry["name"] == "dependency-add" else self.waits.discard)(jobid)
        self.known = len(self.instance.events)
        for jobid, job in self.instance.jobs().items():
            state = job["state"]
            is_ending = "run" in self.steps.get(jobid, {}) or jobid not in self.started
            if state == "CLEANUP" or (state == "RUN" and is_ending) or jobid in self.waits:
                return False
            if state == "SCHED" and job["priority"] > 0 and self.is_started:
                return False
        return True

    def drift(self):
        """Returns the recount of the plugin, if it has one."""
        if self.has_check:
            try:
                return json.loads(self.instance.rpc(SERVICE + "check"))["drift"]
            except OSError:
                self.has_check = False
        return None

    def trouble(self):
        """Returns lines of the log that report errors."""
        return [line for line in self.instance.log().splitlines() if any(word in line for word in TROUBLE)]

    def end(self):
        """Stops the instance and returns (lines of errors, exit status)."""
        lines = self.trouble() if self.instance.broker else []
        return lines, self.instance.stop()

    def kill(self):
        self.instance.kill()
