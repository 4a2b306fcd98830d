# SPDX-License-Identifier: LGPL-3.0-only
"""The events that the plugin must post when a job changes its state: names, priorities, counts, and the release rule (5.1)."""
import contextlib

from budgets import SLACK
from job import EXPEDITE, NAMES, kind_of
from passes import Passes
from stream import show


@contextlib.contextmanager
def with_reservations(jobs, has_reservation):
    """Gives each job a reservation, or takes it, for the time of a computation."""
    before = [(job, job.grant) for job in jobs]
    for job in jobs:
        job.grant = has_reservation
    try:
        yield
    finally:
        for job, grant in before:
            job.grant = grant


class Release(Passes):
    """A stream that follows the reactions of the plugin to each change."""

    # States

    def on_validate(self, job):
        model = self.model
        if model.loaded:
            if job.assoc is not None and self.missing(job):
                self.fail(f"job {job.id} was accepted without {self.missing(job)}")
            job.state = "DEPEND"
            self.begin_reads(job.assoc)
            # Until its eventlog is read, a job in SCHED counts as released (R16).
            with with_reservations([other for other in self.unread if other.charge == "sched"], True):
                full = model.exceeded(job) if job.assoc is not None else []
                least = self.list_certain(job) if full else []
            # Another plugin may remove its dependency before Flux has stored the job. Flux then posts this removal before our dependencies.
            while full and (event := self.peek()) and event[0] == job.id and event[1] == "dependency-remove":
                name = self.take()[2]["description"]
                if name in job.deps:
                    job.deps.remove(name)
            self.hold_for(job, full, least)
        job.state = "DEPEND"
        self.after_names(job)

    def list_certain(self, job):
        """Returns the limits that hold a job even if the plugin does not know yet which replayed jobs in SCHED were released."""
        with with_reservations([other for other in self.model.found if other.grant], False):
            return self.model.exceeded(job)

    def hold_for(self, job, full, least):
        for kind in sorted({*full, *self.model.kept_names(job)}):
            name = (job.id, "dependency-add", {"description": job.make_fresh_name(kind)})
            if kind in least or self.peek() == name:
                self.hold(job, kind)

    def hold(self, job, kind):
        name = job.make_fresh_name(kind)
        self.expect(job, "dependency-add", {"description": name})
        self.added(job, name)
        job.was_held, job.grant, job.blocked = True, False, False

    @staticmethod
    def added(job, name):
        # If the job has already had a dependency with this name, Flux ignores the new dependency.
        if name not in job.used:
            job.deps.append(name)
        job.used.add(name)

    def after_names(self, job):
        """Moves a job without dependencies on, within the callback that removed its last name."""
        job.unheld = job.unheld or (job.state == "DEPEND" and bool(job.list_foreign_names()) and not job.list_our_names())
        if job.state == "DEPEND" and not job.deps and self.busy is not job:
            self.expect(job, "depend")
            job.blocked = False
            if self.model.loaded and job.assoc is not None and not job.unseen:
                full = self.list_certain(job)
                if full:
                    self.fail(f"job {job.id} goes past {', '.join(NAMES[kind] for kind in full)}")
                # R17: a replayed job that leaves DEPEND during a push stays in PRIORITY. The reprioritize at the end of the push releases the job.
                if job.replayed and self.is_amid(job.assoc):
                    job.waits, job.grant = True, False
                # R16: the job stays in PRIORITY until the plugin has read the eventlogs of the jobs under its limits.
                if any(self.is_put_off(job, other) for other in self.unread):
                    job.waits, job.in_line, job.grant = True, True, False
                    self.due += [] if job.assoc in self.due else [job.assoc]
            job.state = "PRIORITY"
            self.on_priority(job)

    def on_priority(self, job):
        model = self.model
        if not model.loaded:
            event = self.peek()
            if event is not None and event[:2] == (job.id, "priority"):
                self.take()
                job.priority, job.state = event[2]["priority"], "SCHED"
            return
        if job.waits:
            self.rests(job)
            self.read_due_scan(job.assoc)
            return
        if self.wakes_too_late(job):
            self.take_back(job, True)
            self.rests(job)
            self.read_due_scan(job.assoc)
            return
        if job.assoc is not None and model.is_suspended(job) != job.suspended:
            job.suspended = not job.suspended
            if model.is_promised(job):
                self.due.append(job.assoc)
        self.read_due_scan(job.assoc)
        outcome = model.compute_priority(job)
        if outcome[0] == "fatal":
            self.due_fatal[job.id] = outcome[1]
        if outcome[0] == "wait" and job.priority >= 0:
            self.keep_priority(job)
            return
        if outcome[0] != "price":
            # A job that was in SCHED keeps its reservation. A job without a first priority has no reservation.
            job.waits, job.in_line = not job.bounced, False
            job.grant = job.grant and job.bounced
            return
        self.goes_on(job, outcome)

    def keep_priority(self, job):
        """Reads the priority of a job without data that was in SCHED (P10): it stays as it was, except that Flux replaces it at urgency 0 and 31."""
        kept = 0 if job.priority == EXPEDITE else job.priority
        priority = {0: 0, 31: EXPEDITE}.get(job.urgency, kept)
        self.expect(job, "priority", {"priority": priority})
        job.priority, job.state = priority, "SCHED"

    def wakes_too_late(self, job):
        """Returns whether the headroom of a job whose urgency is raised was taken meanwhile. At a restart the plugin has not read all jobs and
        reservations, so the next event decides."""
        if not (job.bounced and job.assoc is not None and job.suspended and self.model.is_strict(job.queue)):
            return self.model.wakes_too_late(job)
        return self.model.compute_present_priority(job)[0] != 0 and self.peek() == (job.id, "priority", {"priority": 0})

    def take_back(self, job, in_sched):
        """Holds a job that was in SCHED, and frees its headroom for others."""
        job.waits, job.in_line, job.in_sched, job.charge, job.grant = True, True, in_sched, None, False
        self.due.append(job.assoc)

    def rests(self, job):
        """Moves a held job that comes from SCHED back to SCHED, since the scheduler may have allocated resources already. Flux sets the priority of an
        expedited job itself."""
        job.in_sched = job.in_sched and job.urgency != 31
        if job.in_sched:
            self.expect(job, "priority", {"priority": 0})
            job.priority, job.state = 0, "SCHED"

    def goes_on(self, job, outcome):
        self.memo(job, outcome[2])
        if job.state == "PRIORITY" or outcome[1] != job.priority:
            self.expect(job, "priority", {"priority": outcome[1]})
        self.compute_present_priority(job, outcome[1])
        self.on_sched(job)

    def compute_present_priority(self, job, priority):
        job.priority = priority
        job.unchecked = job.waits = job.in_sched = False
        if job.state == "PRIORITY":
            job.state = "SCHED"

    def memo(self, job, fairshare):
        if fairshare is not None and (job.memo is None or abs(job.memo - fairshare) >= 1e-9):
            self.expect(job, "memo", {"fairshare": fairshare})
            job.memo = fairshare

    def on_sched(self, job):
        if job.charge is None and job.assoc is not None:
            self.scheduled(job)
        self.read_due_scan(job.assoc)

    def scheduled(self, job):
        """Counts the job in SCHED."""
        job.charge = "sched"
        if not job.grant:
            self.count_taker(job)

    def on_run(self, job, start=None):
        job.state = "RUN"
        job.start, job.factor = start, self.model.factor_at(job.queue, start or 0)
        job.grant = False
        if self.model.loaded and job.assoc is not None:
            job.charge = "run"
            self.start_scan(job.assoc)

    def on_inactive(self, job):
        """Reads the end of a job: earlier plugins unblock jobs that waited for it, then our plugin stops counting it."""
        name = f"after-finish={job.id}"
        while (event := self.peek()) and event[1] == "dependency-remove" and event[2].get("description") == name:
            self.take()
            self.removed(self.model.jobs[event[0]], name)
        key, freed = job.assoc, job.charge is not None or job.grant
        job.end, job.slack = self.ended, SLACK if self.model.loaded else 0
        job.state, job.charge, job.grant, job.blocked = "INACTIVE", None, False, False
        job.deps = []
        self.due_fatal.pop(job.id, None)
        self.rehold.pop(job.id, None)
        self.model.drop_ended_jobs()
        if self.model.loaded and key in self.model.associations:
            if freed:
                self.start_scan(key)
            else:
                self.may.add(key)

    def removed(self, job, name):
        """Removes a dependency of another plugin."""
        if name in job.deps:
            job.deps.remove(name)
        if job.state != "DEPEND":
            return
        if self.model.loaded and job.assoc is not None and not job.list_foreign_names():
            self.let_go(job)
        self.after_names(job)

    def let_go(self, job):
        """Checks the limits of a job whose last dependency of another plugin is gone."""
        if job.list_our_names():
            # The job is still held. A release scan follows (R10). It includes all jobs, or only the jobs that are not blocked.
            self.followed |= {job.assoc} if job.subscribed else set()
            (self.may if self.choose(2) else self.may_free).add(job.assoc)
            return
        if not self.model.judges or not (job.subscribed or self.does("sees_unheld")):
            job.unseen = True
            job.grant, job.blocked = job.was_held, False
            return
        self.hold_for(job, self.model.exceeded(job), self.list_certain(job))
        if not job.list_our_names():
            job.blocked = False
            job.grant = job.was_held or self.does("judged_reserves")
            if job.grant:
                self.count_taker(job)
            job.suspended = self.model.is_suspended(job)

    # Updates

    def on_update(self, job, update):
        """Reads an update: counts move with the job, names follow the new limits, and release scans of both associations follow."""
        model, self.moved = self.model, job.id
        old, queue = job.assoc, job.queue
        for key in ("queue", "bank"):
            value = update.get("attributes.system." + key)
            if value is not None:
                setattr(job, key, value)
        if job.assoc is not None and model.lookup(job.uid, job.bank) is not None:
            job.assoc = model.lookup(job.uid, job.bank)
        elif job.assoc is None and model.loaded and model.lookup(job.uid, job.bank) and self.choose(2) == 0:
            # The job had no bank, because it was submitted before the first push. The update names a bank of the user. The plugin may count
            # the job in this bank at once.
            model.attach(job)
            old = job.assoc
            if job.state == "DEPEND":
                self.adapt(job)
        if not model.loaded or job.assoc is None or (job.assoc, job.queue) == (old, queue):
            self.may.add(job.assoc)
            self.bounce(job)
            return
        is_inline = job.state == "DEPEND" and self.choose(2) == 0
        if job.state == "DEPEND":
            if is_inline:
                self.busy, self.queued = job, []
            self.adapt(job)
        elif job.state == "SCHED":
            # The limits of the association are checked only if the association of the job or the rule for running limits has changed.
            is_all = job.assoc != old or model.is_strict(job.queue) != model.is_strict(queue)
            full = [kind for kind in model.exceeded(job) if is_all or model.is_on_move(kind, queue, job.queue)]
            if full:
                job.waits, job.in_line, job.in_sched, job.charge, job.grant = True, True, True, None, False
        for key in dict.fromkeys(key for key in (old, job.assoc) if key is not None):
            if is_inline:
                self.read_scan(key)
            else:
                self.due.append(key)
        self.busy, queued = None, self.queued
        self.queued = []
        # When the callback returns, Flux posts the queued events of the job, in the order of the plugin's calls.
        while queued:
            event = self.peek()
            at = next((i for i, (j, n, c) in enumerate(queued) if event == (j.id, n, c)), None)
            if at is None:
                self.fail(f"expected {show((queued[0][0].id,) + queued[0][1:])}")
            queued.pop(at)
            self.take()
        if is_inline:
            self.after_names(job)
        else:
            self.bounce(job)

    def adapt(self, job):
        """Updates the names of a held job after its limits have changed."""
        if not job.list_our_names():
            # No limit holds the job so far, but another plugin blocks the job. Our plugin may check the limits now, or when the job is
            # unblocked.
            self.rehold[job.id] = set(self.model.exceeded(job))
            return
        full = self.model.exceeded(job)
        have = {kind_of(name) for name in job.list_our_names()}
        for kind in full:
            if kind not in have:
                self.hold(job, kind)

    def bounce(self, job):
        if job.state == "SCHED":
            job.state = "PRIORITY"
            for key in set(self.due):
                self.read_due_scan(key)
            self.on_priority(job)
