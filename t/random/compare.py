# SPDX-License-Identifier: LGPL-3.0-only
"""Follows the events of one step through the oracle: each event is an event of Flux or an event that the plugin must post.

Actions of Flux and of others (a job gets resources, ends, is unblocked by another plugin) are taken from the stream of events. The model
computes the actions of the plugin, and the stream must have exactly these: the right names, in the right order, with the right values,
in the reactor turn that the specification names.

The specification leaves some freedom, which is accepted here:
- associations and jobs of a reprioritize come in any order (Flux iterates over a hash);
- a release scan after an urgency, an update or a replay comes at once or a turn later; after a replay it comes when the eventlogs of
  the jobs of the association are read, even if headroom appears before;
- missing banks and projects are written at once or a turn later;
- the open questions in `model.OPEN`.
"""
from budgets import UNBOUNDED, compare_budgets
from job import Job, is_budget, kind_of
from release import Release
from scopes import REJECTING, used


class Follower(Release):
    """Reads a whole step: each event is an event of Flux, or an event that the plugin must post now."""

    has_held = False  # jobs were held at the beginning of the step

    # Reprioritize

    def reprioritize(self):
        """Flux asks for all priorities after a push or a reprioritize. Then a release scan of all associations follows."""
        self.model.is_stale, self.model.may_read = False, frozenset()
        for job in self.model.jobs.values():
            if job.late:
                self.reading.add(job.assoc)
            if job.late and job.state == "DEPEND":
                self.rehold.setdefault(job.id, set())
            job.late = False
        self.read_priorities()
        self.due += [key for key in self.model.associations if key not in self.due]

    def read_priorities(self):
        """Flux asks for the priority of each job in PRIORITY and SCHED, in any order."""
        pending = {job.id for job in self.model.jobs.values() if job.state in ("PRIORITY", "SCHED")}
        while True:
            self.take_names()
            event = self.peek()
            if event is None or event[1] not in ("memo", "priority", "jobspec-update"):
                break
            job = self.model.jobs[event[0]]
            if event[1] == "jobspec-update":
                # While Flux asks for priorities, the plugin may also write the missing banks of other jobs, even of jobs in DEPEND.
                self.absorb(job)
                if self.peek() is event:
                    break
                continue
            if job.id not in pending:
                break
            pending.discard(job.id)
            self.read_priority(job)
        for jobid in sorted(pending):
            self.read_priority(self.model.jobs[jobid])

    def read_priority(self, job):
        outcome = self.model.compute_priority(job)
        if outcome[0] == "fatal":
            self.due_fatal[job.id] = outcome[1]
        if outcome[0] != "price":
            return
        if job.waits:
            # The plugin has checked the limits of the job. The next release scan decides when the job is released.
            job.in_line, job.unchecked = True, False
            return
        if self.model.wakes_too_late(job):
            self.take_back(job, job.state == "SCHED")
            return
        was_suspended, job.suspended = job.suspended, self.model.is_suspended(job)
        if job.suspended and not was_suspended and self.model.is_promised(job) and job.assoc not in self.due:
            self.due.append(job.assoc)  # R7
        self.memo(job, outcome[2])
        if outcome[1] != job.priority or job.state == "PRIORITY":
            self.expect(job, "priority", {"priority": outcome[1]})
            self.compute_present_priority(job, outcome[1])
            if job.charge is None:
                self.scheduled(job)

    def replay(self, is_restart):
        """After a load or restart, names are added for exceeded limits, jobs in PRIORITY get their priority, and release scans follow."""
        model = self.model
        for job in model.jobs.values():
            job.late = False
            job.in_line = job.waits and job.assoc is not None
            if job.assoc is not None and job.state == "DEPEND":
                self.rehold[job.id] = set(model.exceeded(job))
        if not is_restart:
            self.take_names()
            self.reprioritize()
            self.due.clear()
        self.due += list(model.associations)
        self.reading = set(model.associations)

    def take_names(self):
        while (event := self.peek()) and event[0] in self.rehold and event[1] == "dependency-add":
            self.read_late_name(self.take())

    def read_late_name(self, event):
        """Reads a name that is added to a job in DEPEND outside a submission."""
        job, name = self.model.jobs[event[0]], event[2]["description"]
        is_unknown = is_budget(kind_of(name)) and self.model.has_unknown_budget(job)
        if kind_of(name) not in self.rehold[job.id] and kind_of(name) not in self.model.exceeded(job) and not is_unknown:
            self.at -= 1
            self.fail(f"job {job.id} is held by {name}, which has room")
        self.added(job, name)
        job.was_held, job.grant, job.blocked = True, False, False

    # The whole step

    def run(self):
        """Reads all events of the step; then the plugin must have posted all its events."""
        self.has_held = self.model.holds_jobs()
        # R16: with new data, the jobs of an association may reach a limit. The next release scan then reads the eventlogs of these jobs, and
        # another scan of the association may follow.
        self.may |= {key for key in self.model.may_read if key in self.model.associations}
        while self.peek() is not None:
            self.follow_clock()
            self.read_event()
        self.follow_clock()
        self.read_queue_states()
        self.reading.clear()
        if not self.model.knows_ended and self.model.budgets:
            # After job-list has listed the ended jobs, the plugin makes a release scan of all held jobs (rule B10).
            self.model.knows_ended = True
            self.due += [key for key in self.model.associations if key not in self.due]
        while self.due:
            self.read_scan(self.due.pop(0))
        for job, text in self.to_follow:
            if job in self.model.line(job.assoc):
                self.fail(text)
        for job in [job for key in self.followed for job in self.list_left_over(key)]:
            self.fail(f"job {job.id} is not blocked and may go, and stays")
        if self.due_fatal:
            self.fail(f"expected exceptions {self.due_fatal}")
        for job in self.model.jobs.values():
            if self.model.loaded and self.missing(job) and job.state == "SCHED":
                self.fail(f"job {job.id} still lacks {self.missing(job)}")

    def list_left_over(self, key):
        """Returns the held jobs that are not blocked and fit. At the end of a step, the release scans have ended, and with them the reservations of
        blocked jobs (R9)."""
        keys = [key] if self.model.is_stale else self.model.list_sharing(key)
        held = [job for other in keys if not self.is_amid(other) for job in self.model.line(other) if not job.list_foreign_names()]
        return [job for job in held if not (self.model.may_be_kept_from(job) or self.model.has_unknown_budget(job) or self.model.exceeded(job))]

    def follow_clock(self):
        """At the start and the end of a window, a release scan of all held jobs follows (B11)."""
        if self.model.crosses_boundary(self.find_time()) and self.model.loaded:
            self.due += [key for key in self.model.associations if key not in self.due]

    def read_queue_states(self):
        """The plugin asks for the states of queues while jobs are held (R7). In stopped queues reservations end, and a release scan follows. If all
        held jobs go in this step, the plugin may have asked before. When the records of a push bring held jobs, the plugin asks, and may get the
        answer before the reprioritize. Its release scan then comes too early for these jobs (R17)."""
        model = self.model
        if not model.loaded or model.knows_stopped or not model.is_stopped:
            return False
        if not model.holds_jobs() and not (self.has_held and self.choose(2)):
            return False
        model.knows_stopped = True
        if self.has_early_data and self.choose(2):
            self.may.update(model.associations)
        else:
            self.due += [key for key in model.associations if key not in self.due]
        return True

    def read_event(self):
        event = self.peek()
        jobid, name, context = event
        job = self.model.jobs.get(jobid)
        if job is None:
            self.fail("an event of an unknown job")
        if name.startswith("dependency-"):
            self.read_dependency(job, name, context["description"])
        elif name == "jobspec-update":
            self.read_jobspec_update(job, context)
        elif name == "priority" and jobid == self.moved and job.state == "SCHED" and context["priority"] == job.priority:
            # A release scan within the callback about the update releases the job by its id. Then Flux asks for its priority.
            self.take()
        elif name in ("memo", "priority"):
            if not self.model.loaded and name == "priority":
                self.take()
                self.compute_present_priority(job, context["priority"])
            elif not self.is_release(event) or not self.read_release(job):
                if not self.read_queue_states():
                    self.fail("not expected")
        elif name in ("submit", "validate", "urgency", "flux-restart", "exception", "alloc", "clean"):
            self.take()
            getattr(self, "host_" + name.replace("-", "_"))(job, context)
        else:
            self.fail("not expected")

    def read_release(self, job):
        """Reads a change of a held job in a release scan that is due or possible, and returns False if there is no such scan."""
        event = self.peek()
        key = self.find_scan(self.due, job.assoc)
        if key is not None:
            self.end_reads(event)
            self.due.remove(key)
            self.read_scan(key, must=False)
            if self.peek() is event:
                self.fail("not expected: the pass is over")
            return True
        key = self.find_scan(self.may | self.may_free, job.assoc)
        if key is not None:
            self.is_scan_possible(key)
        return key is not None

    def is_scan_possible(self, key):
        """Reads a release scan that was possible, and no longer expects it."""
        is_whole = key in self.may and (key not in self.may_free or self.choose(2) == 1)
        lines = (False, True) if is_whole else (False,)
        (self.may if is_whole else self.may_free).discard(key)
        event = self.peek()
        self.read_scan(key, lines)
        if self.peek() is event:
            self.fail("not expected")

    def read_dependency(self, job, name, description):
        is_ours, is_add = kind_of(description) is not None, name == "dependency-add"
        if not is_ours:
            self.take()
            if is_add:
                self.added(job, description)
            else:
                self.removed(job, description)
        elif is_add and job.id in self.rehold and job.state == "DEPEND":
            self.read_late_name(self.take())
        elif is_add and job.list_foreign_names() and job.assoc is not None and not self.model.judges:
            self.rehold[job.id] = set()
            self.read_late_name(self.take())
        elif is_add or not self.read_release(job):
            if is_add or not self.read_queue_states():
                self.fail("not expected")

    def read_jobspec_update(self, job, context):
        if job.state == "NEW":
            if self.missing(job) != context:
                self.fail(f"expected {self.missing(job)}")
            self.take()
            self.write(job, context)
            return
        before = self.at
        self.absorb(job)
        if self.at != before:
            return
        if job.id != self.updating:
            self.fail("not expected")
        self.take()
        self.updating = None
        self.on_update(job, context)

    def host_submit(self, job, context):
        if context["userid"] != job.uid:
            self.fail("a job of another user")

    def host_validate(self, job, _context):
        self.on_validate(job)

    def host_urgency(self, job, context):
        job.urgency = context["urgency"]
        if job.state == "SCHED":
            job.state = "PRIORITY"
            self.on_priority(job)
        elif job.assoc is not None:
            self.may.add(job.assoc)
            # The plugin gets the events of jobs that other plugins may block (R11).
            if job.state == "DEPEND" and self.model.loaded and self.knows_blocked(job):
                job.told = job.urgency
            if self.model.is_overtaken(job) and job in self.model.line(job.assoc):
                # The plugin subscribes to the events of an overtaken job. No headroom is kept for a job of urgency 0 (rule 9 #3), so the
                # plugin makes a release scan after the urgency event, and may release other jobs.
                job.told = job.urgency
                self.due.append(job.assoc)

    def host_flux_restart(self, job, _context):
        job.state, job.priority = "PRIORITY", -1
        self.on_priority(job)

    def host_exception(self, job, context):
        if context["type"] == "mf_priority":
            if self.due_fatal.pop(job.id, None) != context["note"]:
                self.fail("not expected")
        elif context["type"] not in ("cancel",):
            self.fail("not expected")
        job.state = "CLEANUP"

    def host_alloc(self, job, context):
        self.on_run(job, context.get("start"))

    def host_clean(self, job, _context):
        self.ended = getattr(self.events[self.at - 1], "at", 0.0)
        self.on_inactive(job)


def make_job(model, jobid, step, after=None):
    """Returns the job of a submission, attached to its association if that is known."""
    nodes, tasks = max(1, step.get("nodes", 0)), max(1, step.get("tasks", 0))
    job = Job(
        id=jobid, uid=step["user"], nodes=nodes, cores=nodes * tasks * step.get("cores", 4),
        queue=step.get("queue", ""), bank=step.get("bank"), project=step.get("project"),
        urgency=step.get("urgency", 16), told=step.get("urgency", 16), gpus=nodes * tasks * step.get("gpus", 0),
    )
    job.suspended = job.urgency == 0  # R7: a job that is submitted at urgency 0 has had no reservation yet.
    job.given_gpus = job.gpus if model.has_gpus else 0
    job.limit = step.get("limit", 36000) * 1000 or UNBOUNDED
    job.declared = job.subscribed = after is not None or "keep" in step or "begin" in step
    return job


def compare_query(model, query, at=0.0):
    """Returns the differences between the query document and the model, as a list of lines."""
    wrong, seen = [], set()
    for user in query["mf_priority_map"]:
        for bank in user["banks"]:
            key = (user["userid"], bank["bank_name"])
            seen.add(key)
            record = model.associations.get(key)
            if record is None:
                wrong.append(f"{key}: not an association")
                continue
            counts, usage = model.counts(key)
            limits = dict(
                max_run_jobs=record["max_running_jobs"], fairshare=record["fairshare"],
                **{k: record[k] for k in ("max_active_jobs", "max_sched_jobs", "max_nodes", "max_cores", "active")})
            for name, want in {**counts, **limits, "held_jobs": model.held(key)}.items():
                if bank[name] != want:
                    wrong.append(f"{key} {name}: expected {want}, seen {bank[name]}")
            for queue, want in usage.items():
                have = bank["queue_usage"].get(queue)
                if have is None and (queue == "" or not any(want.values())):
                    continue
                for name, value in want.items():
                    if (have or {}).get(name) != value:
                        wrong.append(f"{key} queue_usage {queue} {name}: expected {value}, seen {have}")
            for queue, have in bank["queue_usage"].items():
                if queue not in usage and any(have.values()):
                    wrong.append(f"{key} queue_usage {queue}: expected nothing, seen {have}")
    missing = [key for key, record in model.associations.items() if key not in seen and not record.get("gone")]
    wrong += [f"{key}: not in the query" for key in missing]
    if "limits" in query:
        wrong += compare_limits(model, query)
    wrong += compare_budgets(model, query, at)
    if set(query["queues"]) != set(model.queues):
        wrong.append(f"queues: expected {sorted(model.queues)}, seen {sorted(query['queues'])}")
    return wrong


def compare_limits(model, query):
    """Returns the differences in limits over scopes and in the rules for running limits."""
    keys = ("scope", "name", "queue", "measure", "limit", "counts")
    seen = {tuple(one[key] for key in keys): one["used"] for one in query["limits"]}
    want = {}
    for scope, name, queue, amount, cap, counts in model.scopes.shown():
        counted = model.counted(model.scopes.make_group(scope, name, queue, {})) if name != "*" else None
        if amount in REJECTING:
            shown = len(counted) if amount == "active-jobs" and counted is not None else None
        else:
            shown = None if counted is None else used(amount, counts == "given", model.split_jobs(counted))
        want[scope, name, None if scope == "queue" else queue, amount, cap, counts] = shown
    wrong = [f"limit {key}: expected {want.get(key, 'none')}, seen {seen.get(key, 'none')}"
             for key in {**want, **seen} if key not in seen or key not in want or want[key] != seen[key]]
    queues, shown = model.table.get("queues", {}), {}
    for queue in {*queues, *model.virtual}:
        # A virtual queue has the rules of its parent too (L40, P16).
        if exempt := [scope for scope in ("association", "bank", "user") if scope in model.scopes.exempt.get(queue, ())]:
            shown.setdefault(queue, {})["exempt"] = exempt
        if highest := model.list_largest_priorities(queue):
            shown.setdefault(queue, {})["max_priority"] = min(highest)
    if query.get("queue_rules", {}) != shown:
        wrong.append(f"queue_rules: expected {shown}, seen {query.get('queue_rules')}")
    rules = {queue: t["running-limits"] for queue, t in queues.items() if "running-limits" in t}
    rules = {"default": model.table.get("running-limits", "upstream"), "queues": rules}
    if query["running_limits"] != rules:
        wrong.append(f"running_limits: expected {rules}, seen {query['running_limits']}")
    return wrong
