# SPDX-License-Identifier: LGPL-3.0-only
"""The events of one step, read one after the other against what must come next."""
import json

QUIET = {"annotations", "start", "finish", "release", "free", "debug"}


class Difference(Exception):
    """The plugin did something else than it must."""


def show(event):
    job, name, context = event
    return f"{job} {name} {json.dumps(context, sort_keys=True)}" if context else f"{job} {name}"


class Stream:
    """One step: `choices` are the answers to `choose`, 0 when there are none left."""

    def __init__(self, model, events, choices=()):
        self.model, model.does, model.happens = model, self.does, lambda: bool(self.choose(2))
        refused = {jobid for jobid, name, _ in events if name == "invalidate"}
        self.events = [e for e in events if e[0] not in refused and not self.is_quiet(e)]
        self.at = 0
        self.choices, self.asked = list(choices), []
        self.due = []  # associations that a pass must visit before the step is over
        self.may = set()  # associations that one may visit
        self.may_free = set()  # the same, for jobs that nobody else keeps
        self.reading = set()  # associations whose replayed jobs' eventlogs are being read: a pass of theirs waits for that
        self.rehold = {}  # job: limits for which a name may be added outside a submission, beside those now exceeded
        self.due_fatal = {}  # job: text of the exception that must come
        self.busy = None  # a job that is inside a callback: events of it queue up behind
        self.queued = []
        self.depth = 0  # passes that are under way, one within the other
        self.to_follow = []  # jobs that must go in this step, each with what is wrong if it stays
        self.updating = None  # the job whose update was accepted in this step

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
