# SPDX-License-Identifier: LGPL-3.0-only
"""The events of one step, each compared with the next expected event."""
import json

QUIET = {"annotations", "start", "finish", "release", "free", "debug"}


class Event(tuple):
    """An event (job, name, context) that was posted at the time `at`."""

    at = 0.0


class Difference(Exception):
    """The plugin did not act as specified."""


def show(event):
    job, name, context = event
    return f"{job} {name} {json.dumps(context, sort_keys=True)}" if context else f"{job} {name}"


class Stream:
    """One step; `choices` are the answers of `choose`, followed by zeros."""

    def __init__(self, model, events, choices=(), until=0.0):
        self.until, model.now = until, self.find_time
        self.model, model.does, model.happens = model, self.does, lambda: bool(self.choose(2))
        refused = {jobid for jobid, name, _ in events if name == "invalidate"}
        self.events = [e for e in events if e[0] not in refused and not self.is_quiet(e)]
        self.at = 0
        self.choices, self.asked = list(choices), []
        self.due = []  # associations that need a release scan in this step
        self.may = set()  # associations that may have one
        self.may_free = set()  # associations that may have one for jobs that are not blocked
        self.reading = set()  # associations whose eventlogs are being read, which delays their release scans
        self.unread = []  # jobs in SCHED whose eventlogs are being read because a job entered DEPEND (R16)
        self.rehold = {}  # job: limits whose names may be added outside a submission, besides exceeded ones
        self.due_fatal = {}  # job: text of the exception that must come
        self.busy = None  # the job of the running callback, whose events are queued
        self.queued = []
        self.depth = 0  # nested release scans
        self.to_follow = []  # jobs that must go in this step, each with the text of the failure if it stays
        self.followed = set()  # associations of which a release scan over jobs that are not blocked must follow in this step (R9, R10)
        self.updating = self.moved = None  # the job whose update was accepted in this step; the same job when its update is read
        self.has_early_data = False  # the step pushes records before the reprioritize

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
        """Returns the answer of the plugin to an open question."""
        if what not in self.model.decided:
            self.model.decided = dict(self.model.decided, **{what: bool(self.choose(2))})
        return self.model.decided[what]

    # The stream

    def peek(self):
        return self.events[self.at] if self.at < len(self.events) else None

    def find_time(self):
        """Returns the time of the next event, or of the end of the step."""
        event = self.peek()
        return self.until if event is None else getattr(event, "at", 0.0)

    def take(self):
        self.at += 1
        return self.events[self.at - 1]

    def fail(self, text):
        near = [("-> " if i == self.at else "   ") + show(e) for i, e in enumerate(self.events)]
        raise Difference("\n".join([text] + near[max(0, self.at - 6):self.at + 6]))

    def expect(self, job, name, context=None):
        """Reads the next event, which must be this one. Missing banks and projects may be written before it."""
        if self.busy is job:
            self.queued.append((job, name, context))
            return
        self.absorb(job)
        event = self.peek()
        if event is None or event[0] != job.id or event[1] != name or (context is not None and event[2] != context):
            self.fail(f"expected {show((job.id, name, context))}, seen {show(event) if event else 'nothing'}")
        self.take()

    def absorb(self, job):
        """Reads updates that write missing banks and projects."""
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

    # Missing attributes of jobspecs

    def missing(self, job):
        """Returns the update that the plugin must post for this job."""
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
