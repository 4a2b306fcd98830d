# SPDX-License-Identifier: LGPL-3.0-only
"""Follows the events of one step through the oracle: every event is one that Flux makes or one that the plugin owes.

What Flux and others do (a job gets resources, ends, is let go by another plugin) is taken from the stream of events.
What the plugin does is computed by the model and must be there: the right names, in the right order, with the right
values, in the reactor turn that the specification names, and nothing else.

Freedom that the specification leaves, and that is accepted here, each at its place:
- associations and jobs of a reprioritize come in any order (Flux walks a hash);
- a pass that an urgency, an update or a replay makes due comes at once or a turn later;
- missing banks and projects are written at once or a turn later;
- what `model.OPEN` lists.
"""
import json

from model import NAMES, Job, kind_of

QUIET = {"annotations", "start", "finish", "release", "free", "memo-user", "debug"}


class Difference(Exception):
    """The plugin did something else than it must."""


def show(event):
    job, name, context = event
    return f"{job} {name} {json.dumps(context, sort_keys=True)}" if context else f"{job} {name}"


class Follower:
    """One step: `choices` are the answers to `choose`, 0 when there are none left."""

    def __init__(self, model, events, choices=()):
        self.model, model.does = model, self.does
        refused = {jobid for jobid, name, _ in events if name == "invalidate"}
        self.events = [e for e in events if e[0] not in refused and not self.is_quiet(e)]
        self.at = 0
        self.choices, self.asked = list(choices), []
        self.due = []  # associations that a pass must visit before the step is over
        self.may = set()  # associations that one may visit
        self.rehold = {}  # job: limits for which a name may be added outside a submission, beside those now exceeded
        self.due_price = set()  # jobs in PRIORITY that must be priced in this step
        self.due_fatal = {}  # job: text of the exception that must come
        self.busy = None  # a job that is inside a callback: events of it queue up behind
        self.queued = []

    @staticmethod
    def is_quiet(event):
        _, name, context = event
        if name == "exception":
            return context.get("severity") != 0
        return name in QUIET or name.startswith("debug.")

    def choose(self, options):
        index = len(self.asked)
        value = self.choices[index] if index < len(self.choices) else 0
        self.asked.append(options)
        return value

    def does(self, what):
        """Which way the plugin goes where the specification leaves it open."""
        if what not in self.model.decided:
            self.model.decided = dict(self.model.decided, **{what: bool(self.choose(2))})
        return self.model.decided[what]

    # The stream

    def peek(self):
        return self.events[self.at] if self.at < len(self.events) else None

    def take(self):
        self.at += 1
        return self.events[self.at - 1]

    def fail(self, text):
        near = [("-> " if i == self.at else "   ") + show(e) for i, e in enumerate(self.events)]
        raise Difference("\n".join([text] + near[max(0, self.at - 6):self.at + 6]))

    def expect(self, job, name, context=None):
        """The next event must be this one. Missing banks and projects may be written before it."""
        if self.busy is job:
            self.queued.append((job, name, context))
            return
        self.absorb(job)
        event = self.peek()
        if event is None or event[0] != job.id or event[1] != name or (context is not None and event[2] != context):
            self.fail(f"expected {show((job.id, name, context))}, seen {show(event) if event else 'nothing'}")
        self.take()

    def absorb(self, job):
        """Take missing banks and projects that are written now."""
        while True:
            event = self.peek()
            if event is None or event[1] != "jobspec-update" or event[0] not in self.model.jobs:
                return
            other = self.model.jobs[event[0]]
            if self.missing(other) != event[2] or not event[2] or other.state == "NEW":
                return
            self.take()
            self.write(other, event[2])
            if other.state == "SCHED":
                other.state = "PRIORITY"
                self.on_priority(other)

    # What is missing in a jobspec

    def missing(self, job):
        """The update that the plugin owes this job."""
        if job.assoc is None or job.state not in ("NEW", "DEPEND", "PRIORITY", "SCHED"):
            return {}
        update = {}
        if job.bank is None:
            update["attributes.system.bank"] = job.assoc[1]
        default = self.model.associations[job.assoc]["def_project"]
        if job.project is None and default:
            update["attributes.system.project"] = default
        return update

    @staticmethod
    def write(job, update):
        for key, value in update.items():
            setattr(job, key.rpartition(".")[2], value)

    # States

    def on_validate(self, job):
        model = self.model
        if model.loaded:
            if job.assoc is not None and self.missing(job):
                self.fail(f"job {job.id} was accepted without {self.missing(job)}")
            job.state = "DEPEND"
            if job.assoc is not None:
                for kind in model.exceeded(job):
                    self.hold(job, kind)
        job.state = "DEPEND"
        self.after_names(job)

    def hold(self, job, kind):
        name = job.fresh(kind)
        self.expect(job, "dependency-add", {"description": name})
        self.added(job, name)
        job.was_held, job.grant, job.blocked = True, False, False

    @staticmethod
    def added(job, name):
        # A name that was removed once is dead: adding it again holds nothing.
        if name not in job.used:
            job.deps.append(name)
        job.used.add(name)

    def after_names(self, job):
        """A job in DEPEND that nobody keeps goes on, inside whatever took its last name."""
        if job.state == "DEPEND" and not job.deps and self.busy is not job:
            self.expect(job, "depend")
            job.blocked = False
            if self.model.loaded and job.assoc is not None and self.was_judged(job):
                full = self.model.exceeded(job)
                if full:
                    self.fail(f"job {job.id} goes past {', '.join(NAMES[kind] for kind in full)}")
            job.state = "PRIORITY"
            self.on_priority(job)

    @staticmethod
    def was_judged(job):
        """Whether the plugin could judge it: not if it could not know who let it go."""
        return not getattr(job, "unseen", False)

    def on_priority(self, job):
        model = self.model
        if not model.loaded:
            event = self.peek()
            if event is not None and event[:2] == (job.id, "priority"):
                self.take()
                job.priority, job.state = event[2]["priority"], "SCHED"
            return
        suspended = job.assoc is not None and model.is_suspended(job)
        if job.grant and job.assoc is not None and suspended != job.suspended:
            job.suspended = suspended
            self.due.append(job.assoc)
        self.inline(job.assoc)
        outcome = model.price(job)
        if outcome[0] == "fatal":
            self.due_fatal[job.id] = outcome[1]
        if outcome[0] != "price":
            return
        self.memo(job, outcome[2])
        self.expect(job, "priority", {"priority": outcome[1]})
        self.priced(job, outcome[1])
        self.on_sched(job)

    def priced(self, job, priority):
        job.priority = priority
        job.unchecked = False
        self.due_price.discard(job.id)
        if job.state == "PRIORITY":
            job.state = "SCHED"

    def memo(self, job, fairshare):
        if fairshare is not None and (job.memo is None or abs(job.memo - fairshare) >= 1e-9):
            self.expect(job, "memo", {"fairshare": fairshare})
            job.memo = fairshare

    def on_sched(self, job):
        if job.charge is None and job.assoc is not None:
            job.charge = "sched"
        self.inline(job.assoc)

    def on_run(self, job):
        job.state = "RUN"
        job.grant = False
        if self.model.loaded and job.assoc is not None:
            job.charge = "run"
            self.a_pass(job.assoc)

    def on_inactive(self, job):
        """First the plugins before ours let go those that wait for this end, then ours counts it out."""
        name = f"after-finish={job.id}"
        while (event := self.peek()) and event[1] == "dependency-remove" and event[2].get("description") == name:
            self.take()
            self.removed(self.model.jobs[event[0]], name)
        key, freed = job.assoc, job.charge is not None or job.grant
        job.state, job.charge, job.grant, job.blocked = "INACTIVE", None, False, False
        job.deps = []
        self.due_fatal.pop(job.id, None)
        self.rehold.pop(job.id, None)
        self.due_price.discard(job.id)
        self.model.forget_the_gone()
        if self.model.loaded and key in self.model.associations:
            if freed:
                self.a_pass(key)
            else:
                self.may.add(key)

    def removed(self, job, name):
        """A name of another plugin went."""
        if name in job.deps:
            job.deps.remove(name)
        if job.state != "DEPEND":
            return
        if self.model.loaded and job.assoc is not None and not job.foreign():
            self.let_go(job)
        self.after_names(job)

    def let_go(self, job):
        """The last foreign name of the job is gone: it is judged by the counts of this moment."""
        if job.ours():
            # It still waits for its turn; a pass may look whether that has come.
            self.may.add(job.assoc)
            return
        if not self.model.judges or not (job.subscribed or self.does("sees_undeclared")):
            job.unseen = True
            job.grant, job.blocked = job.was_held, False
            return
        full = self.model.exceeded(job)
        for kind in full:
            self.hold(job, kind)
        if not full:
            job.blocked = False
            job.grant = job.was_held or self.does("judged_reserves")
            job.suspended = self.model.is_suspended(job)

    # Passes

    def inline(self, key):
        """A pass that is due may come here."""
        event = self.peek()
        while key in self.due and self.is_release(event, key):
            self.due.remove(key)
            self.a_pass(key)
            event = self.peek()

    def is_release(self, event, key=None):
        if event is None or event[1] != "dependency-remove" or kind_of(event[2]["description"]) is None:
            return False
        job = self.model.jobs.get(event[0])
        return job is not None and (key is None or job.assoc == key)

    def a_pass(self, key):
        """5.1: those that nobody else keeps first, each group by ascending id."""
        model = self.model
        held = sorted((job for job in model.of(key) if job.state == "DEPEND" and job.ours()), key=lambda job: job.id)
        seen = {job.id: bool(job.foreign()) and (job.subscribed or self.does("sees_undeclared")) for job in held}
        earlier = [job for job in model.of(key) if job.blocked]
        if earlier and not (any(seen.values()) and self.does("grants_bind_kept")):
            earlier = []
        blocked = []
        for is_kept in (False, True):
            for job in held:
                if seen[job.id] != is_kept or job.state != "DEPEND":
                    continue
                binding = blocked + earlier if is_kept else blocked
                if binding and not is_kept and not self.does("discovered_binds"):
                    binding = []
                self.try_release(job, binding, blocked)

    def try_release(self, job, binding, blocked):
        full = self.model.exceeded(job, binding)
        names = job.ours()
        if not full:
            job.grant, job.suspended = True, self.model.is_suspended(job)
            for name in names:
                self.unhold(job, name)
            self.after_names(job)
            if job.state == "DEPEND" and self.busy is not job:
                # Blocked: its reservation ends with the pass, or as the policy says.
                job.grant, job.blocked, job.subscribed = False, True, True
                blocked.append(job)
            return
        satisfied = [name for name in names if kind_of(name) not in full]
        if len(satisfied) == len(names):
            satisfied.pop()
        for name in satisfied:
            self.unhold(job, name)

    def unhold(self, job, name):
        self.expect(job, "dependency-remove", {"description": name})
        job.deps.remove(name)

    # Updates

    def on_update(self, job, update):
        """job.update: counts go along, names follow the new limits, both associations get a pass."""
        model = self.model
        old, queue = job.assoc, job.queue
        for key in ("queue", "bank"):
            value = update.get("attributes.system." + key)
            if value is not None:
                setattr(job, key, value)
        if job.assoc is not None and model.lookup(job.uid, job.bank) is not None:
            job.assoc = model.lookup(job.uid, job.bank)
        elif job.assoc is None and model.loaded and model.lookup(job.uid, job.bank) and self.choose(2) == 0:
            # A waiting job that comes to name a bank of its user: it counts there now, or when it is next looked at.
            model.attach(job)
            old = job.assoc
        if not model.loaded or job.assoc is None or (job.assoc, job.queue) == (old, queue):
            self.may.add(job.assoc)
            self.bounce(job)
            return
        is_inline = job.state == "DEPEND" and self.choose(2) == 0
        if job.state == "DEPEND":
            if is_inline:
                self.busy, self.queued = job, []
            self.adapt(job)
        for key in dict.fromkeys(key for key in (old, job.assoc) if key is not None):
            if is_inline:
                self.a_pass(key)
            else:
                self.due.append(key)
        self.busy, queued = None, self.queued
        self.queued = []
        # Its own events come when the callback is over. New names and old ones: whichever the plugin asks for first.
        while queued:
            event = self.peek()
            at = next((i for i, (j, n, c) in enumerate(queued) if event == (j.id, n, c)), None)
            if at is None:
                self.fail(f"expected {show((queued[0][0].id,) + queued[0][1:])}")
            queued.pop(at)
            self.take()
        if is_inline:
            self.after_names(job)
        self.bounce(job)

    def adapt(self, job):
        """The names of a held job after its limits have changed."""
        if not job.ours():
            # Kept by others only: it may be held now, or judged when they let it go.
            self.rehold[job.id] = set(self.model.exceeded(job))
            return
        full = self.model.exceeded(job)
        have = {kind_of(name) for name in job.ours()}
        for kind in full:
            if kind not in have:
                self.hold(job, kind)

    def bounce(self, job):
        if job.state == "SCHED":
            job.state = "PRIORITY"
            for key in set(self.due):
                self.inline(key)
            self.on_priority(job)

    # Reprioritize

    def reprioritize(self):
        """Flux asks for the price of each job in PRIORITY and SCHED, in any order; then a pass for everybody."""
        pending = {job.id for job in self.model.jobs.values() if job.state in ("PRIORITY", "SCHED")}
        for job in self.model.jobs.values():
            if job.late and job.state == "DEPEND":
                self.rehold[job.id] = set()
            job.late = False
        while True:
            self.take_names()
            event = self.peek()
            if event is None or event[0] not in pending or event[1] not in ("memo", "priority", "jobspec-update"):
                break
            job = self.model.jobs[event[0]]
            if event[1] == "jobspec-update":
                self.absorb(job)
                if self.peek() is event:
                    break
                continue
            pending.discard(job.id)
            self.ask(job)
        for jobid in sorted(pending):
            self.ask(self.model.jobs[jobid])
        self.due += [key for key in self.model.associations if key not in self.due]

    def ask(self, job):
        outcome = self.model.price(job)
        if outcome[0] == "fatal":
            self.due_fatal[job.id] = outcome[1]
        if outcome[0] != "price":
            return
        job.suspended = self.model.is_suspended(job)
        self.memo(job, outcome[2])
        if outcome[1] != job.priority or job.state == "PRIORITY":
            self.expect(job, "priority", {"priority": outcome[1]})
            self.priced(job, outcome[1])
            if job.charge is None:
                job.charge = "sched"

    def replay(self, is_restart):
        """After load or restart: names may be added for what is exceeded, PRIORITY jobs are priced, passes follow."""
        model = self.model
        for job in model.jobs.values():
            job.late = False
            if job.assoc is not None and job.state == "DEPEND":
                self.rehold[job.id] = set(model.exceeded(job))
            if is_restart and job.state == "PRIORITY":
                self.due_price.add(job.id)
        if not is_restart:
            self.take_names()
            self.reprioritize()
            self.due.clear()
        self.due += list(model.associations)

    def take_names(self):
        while (event := self.peek()) and event[0] in self.rehold and event[1] == "dependency-add":
            self.late_name(self.take())

    def late_name(self, event):
        """A name that is added to a job in DEPEND outside a submission."""
        job, name = self.model.jobs[event[0]], event[2]["description"]
        if kind_of(name) not in self.rehold[job.id] and kind_of(name) not in self.model.exceeded(job):
            self.at -= 1
            self.fail(f"job {job.id} is held by {name}, which has room")
        self.added(job, name)
        job.was_held, job.grant, job.blocked = True, False, False

    # All of it

    def run(self):
        """All events of the step; then nothing may be owed."""
        while self.peek() is not None:
            self.one()
        while self.due:
            self.a_pass(self.due.pop(0))
        if self.due_fatal:
            self.fail(f"expected exceptions {self.due_fatal}")
        for job in self.model.jobs.values():
            if self.model.loaded and self.missing(job) and job.state == "SCHED":
                self.fail(f"job {job.id} still lacks {self.missing(job)}")
        if any(self.model.price(self.model.jobs[jobid])[0] == "price" for jobid in self.due_price):
            self.fail(f"jobs {sorted(self.due_price)} have no priority")

    def one(self):
        event = self.peek()
        jobid, name, context = event
        job = self.model.jobs.get(jobid)
        if job is None:
            self.fail("an event of an unknown job")
        if name.startswith("dependency-"):
            self.dependency(job, name, context["description"])
        elif name == "jobspec-update":
            self.jobspec_update(job, context)
        elif name in ("memo", "priority"):
            if not self.model.loaded and name == "priority":
                self.take()
                self.priced(job, context["priority"])
            elif job.id in self.due_price:
                self.due_price.discard(job.id)
                self.on_priority(job)
            else:
                self.fail("not expected")
        elif name in ("submit", "validate", "urgency", "flux-restart", "exception", "alloc", "clean"):
            self.take()
            getattr(self, "host_" + name.replace("-", "_"))(job, context)
        else:
            self.fail("not expected")

    def dependency(self, job, name, description):
        is_ours, is_add = kind_of(description) is not None, name == "dependency-add"
        if not is_ours:
            self.take()
            if is_add:
                self.added(job, description)
            else:
                self.removed(job, description)
        elif is_add and job.id in self.rehold and job.state == "DEPEND":
            self.late_name(self.take())
        elif is_add and job.foreign() and job.assoc is not None and not self.model.judges:
            self.rehold[job.id] = set()
            self.late_name(self.take())
        elif not is_add and job.assoc in self.due:
            self.due.remove(job.assoc)
            self.a_pass(job.assoc)
            if self.peek() == (job.id, name, {"description": description}):
                self.fail("not expected: the pass is over")
        elif not is_add and job.assoc in self.may:
            self.may.discard(job.assoc)
            self.a_pass(job.assoc)
        else:
            self.fail("not expected")

    def jobspec_update(self, job, context):
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
        if job.id != getattr(self, "updating", None):
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
        self.due_price.discard(job.id)

    def host_alloc(self, job, _context):
        self.on_run(job)

    def host_clean(self, job, _context):
        self.on_inactive(job)


def new_job(model, jobid, step, after=None):
    """The job that a submission makes, attached if its association is known."""
    nodes, tasks = max(1, step.get("nodes", 0)), max(1, step.get("tasks", 0))
    job = Job(
        id=jobid, uid=step["user"], nodes=nodes, cores=nodes * tasks * step.get("cores", 4),
        queue=step.get("queue", ""), bank=step.get("bank"), project=step.get("project"),
        urgency=step.get("urgency", 16),
    )
    job.declared = job.subscribed = after is not None or "keep" in step or "begin" in step
    return job


def of_query(model, query):
    """What the query document says otherwise than the model, as a list of lines."""
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
    if set(query["queues"]) != set(model.queues):
        wrong.append(f"queues: expected {sorted(model.queues)}, seen {sorted(query['queues'])}")
    return wrong
