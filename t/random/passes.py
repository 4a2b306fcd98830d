# SPDX-License-Identifier: LGPL-3.0-only
"""Release scans: held jobs that fit go, in the order of 5.1; in shared limits, in the order of priorities."""
from budgets import NEAR
from job import NAMES, OWN, kind_of
from stream import Stream


class Passes(Stream):
    """A stream that follows release scans."""

    def read_due_scan(self, key):
        """Reads a release scan that is due, if it comes here."""
        event = self.peek()
        while key in self.due and self.is_release(event, key):
            self.end_reads(event)
            self.due.remove(key)
            self.read_scan(key, must=False)
            if self.peek() is event:
                self.fail("not expected: the pass is over")
            event = self.peek()

    def is_release(self, event, key=None):
        """Returns whether the event releases a held job or one of its names, in a release scan of `key`."""
        job = self.model.jobs.get(event[0]) if event is not None else None
        if job is None or job.assoc is None or key is not None and job.assoc not in self.model.list_sharing(key):
            return False
        if event[1] in ("memo", "priority"):
            # A held job returns to SCHED with priority 0.
            is_back = job.in_sched and job.state == "PRIORITY" and event[2].get("priority") == 0
            return job.waits and job.in_line and not is_back
        return event[1] == "dependency-remove" and kind_of(event[2]["description"]) is not None

    def find_scan(self, keys, assoc):
        """Returns one of `keys` whose release scan may release a job of `assoc`, or None."""
        if assoc in keys:
            return assoc
        return next((key for key in keys if key is not None and assoc in self.model.list_sharing(key)), None)

    def begin_reads(self, key):
        """Begins to read eventlogs if the new job of association `key` brings a limit in reach (R16). A release scan follows."""
        jobs = self.model.read_eventlogs(key) if key is not None else []
        self.unread += jobs
        if jobs:
            self.reading.add(key)
            self.due += [] if key in self.due else [key]

    def is_put_off(self, job, other):
        """Returns whether a job is not released while the eventlog of `other` is being read: `other` is in SCHED under the same limits."""
        return other.charge == "sched" and (other.assoc == job.assoc or self.do_compete(job, other))

    def end_reads(self, event):
        """Ends the reads of eventlogs that put off the job of `event`, which a release scan releases. Flux passes all jobs of a batch to the
        plugin before the plugin can read an eventlog."""
        read = [other for other in self.unread if self.is_put_off(self.model.jobs[event[0]], other)]
        at = getattr(event, "at", 0.0)
        if read and any(later[1] == "validate" and getattr(later, "at", 0.0) == at for later in self.events[self.at:]):
            self.fail(f"job {event[0]} goes before the plugin has read eventlogs")
        if read:
            self.unread = [other for other in self.unread if other not in read]
            self.reading = {other.assoc for other in self.unread}

    def start_scan(self, key):
        """Starts a release scan after a limit may have got headroom: at once, or when eventlogs are read."""
        circle = self.model.list_sharing(key)
        if not any(other in self.reading and other in self.due for other in circle):
            if key in self.due:
                # A release scan for `key` was already expected. This scan takes its place. The plugin may also make a second scan.
                self.due = [other for other in self.due if other != key]
                self.may.add(key)
            self.read_scan(key)
        elif key not in self.due:
            self.due.append(key)

    def knows_blocked(self, job):
        """Returns whether the plugin knows that the job is blocked."""
        return job.subscribed or (job.unheld and self.does("sees_unheld")) or self.does("sees_undeclared")

    def list_bound(self, key, seen):
        """Returns jobs blocked in earlier scans whose reservations count against other blocked jobs."""
        earlier = [job for job in self.model.of(key) if job.blocked]
        return earlier if earlier and any(seen.values()) and self.does("grants_bind_kept") else []

    def list_binding(self, is_kept, blocked, earlier):
        """Returns the blocked jobs whose reservations count against a job."""
        binding = blocked + earlier if is_kept else blocked
        return [] if binding and not is_kept and not self.does("discovered_binds") else binding

    def read_scan(self, key, lines=(False, True), must=True):
        """Reads a release scan (5.1): jobs that are not blocked first, then blocked jobs, each in the order of ids. If `must`, all jobs that fit
        go now."""
        self.model.read_eventlogs()
        if len(self.model.list_sharing(key)) > 1:
            self.read_shared_scan(key, lines, must)
            return
        held = self.model.line(key)
        seen = {job.id: bool(job.list_foreign_names()) and self.knows_blocked(job) for job in held}
        earlier, blocked = self.list_bound(key, seen), []
        for is_kept in lines:
            for job in held:
                if seen[job.id] != is_kept or job.state != "DEPEND" and not job.waits:
                    continue
                if self.is_amid(key) and not self.is_release(self.peek(), key):
                    continue
                binding = self.list_binding(is_kept, blocked, earlier)
                self.try_release(job, binding, blocked)

    def is_amid(self, key):
        """Returns whether data gave an association replayed jobs and no reprioritize followed; the plugin may skip it."""
        return self.model.is_stale and any(job.late for job in self.model.of(key))

    def try_release(self, job, binding, blocked):
        full = self.model.exceeded(job, binding)
        if full:
            for name in self.list_satisfied(job, full):
                self.remove_hold(job, name)
            return
        if (self.model.has_unknown_budget(job) or self.model.may_be_kept_from(job)) and not self.goes_next(job):
            for name in self.list_removed_next(job):
                self.remove_hold(job, name)
            return
        job.grant, job.suspended, job.told = True, self.model.is_suspended(job), job.urgency
        self.count_taker(job)
        if job.waits:
            self.goes_on(job, self.model.compute_priority(job))
            if job.suspended:
                self.due.append(job.assoc)  # R7: the release reserves headroom, and the priority 0 frees it.
            return
        for name in job.list_our_names():
            self.remove_hold(job, name)
        self.after_names(job)
        if job.state == "DEPEND" and self.busy is not job:
            # The job is blocked, and its reservation ends with this scan or later. If the plugin has not subscribed to the job, a later scan
            # may give the headroom to other jobs.
            if not job.subscribed:
                self.may_free.add(job.assoc)
            job.grant, job.blocked, job.subscribed = False, True, True
            blocked.append(job)
            self.followed.add(job.assoc)

    def list_removed_next(self, job):
        """Returns the names of the job that the next events remove."""
        names, at = [], self.at
        while at < len(self.events) and self.events[at][:2] == (job.id, "dependency-remove") and kind_of(self.events[at][2]["description"]) is not None:
            names.append(self.events[at][2]["description"])
            at += 1
        return names

    def goes_next(self, job):
        """Returns whether the next events release a job. While its budget is unknown or headroom is kept from it, they may only remove names of
        limits that it fits."""
        if job.waits:
            return self.peek() is not None and self.peek()[0] == job.id and self.peek()[1] in ("memo", "priority")
        return len(self.list_removed_next(job)) == len(job.list_our_names())

    def count_taker(self, job):
        """Counts a job that took headroom in shared limits."""
        if wrong := self.model.count_taker(job):
            self.fail(wrong)

    @staticmethod
    def list_satisfied(job, full):
        """Returns the names to remove although the job stays held: not the last one, and none of a limit over a scope."""
        names = job.list_our_names() if job.state == "DEPEND" else []
        going = [name for name in names if kind_of(name) not in full]
        if len(going) == len(names):
            going = going[:-1]
        return [name for name in going if kind_of(name) < len(OWN)]

    def remove_hold(self, job, name):
        self.expect(job, "dependency-remove", {"description": name})
        job.deps.remove(name)

    # Associations that share limits

    def read_shared_scan(self, key, lines, must):
        """Reads a release scan in shared limits: headroom goes to the association whose first held job would have the highest priority, and
        there to the first job that fits.

        The events show which job goes, and one of the due scans must release this job. After the scans no job that fits may be left.
        """
        walks = {key: lines}
        walks.update((other, (False, True)) for other in self.due if other != key)
        blocked = []
        self.depth += 1
        while True:
            if self.busy is not None and self.goes_now(self.busy, walks, blocked):
                self.try_release(self.busy, [], blocked)
                continue
            unseen = next((job for job in self.list_unseen(walks) if self.does_go_unseen(job, walks, blocked)), None)
            if unseen is not None:
                self.try_release(unseen, [], blocked)
                continue
            event = self.peek()
            if not any(self.is_release(event, walk) for walk in walks) or blocked and self.is_later():
                break
            job = self.model.jobs[event[0]]
            binding = self.may_go(job, blocked)
            is_followed = self.depth > 1 or len(walks) > 1 or job.assoc in self.may_free or self.find_scan(self.due, job.assoc) is not None
            if blocked and is_followed and not self.is_same(job, binding) and self.choose(2) == 0:
                # The release scan that found the blocked jobs has ended, and another release scan releases this job.
                blocked.clear()
                binding = self.may_go(job, blocked)
            if not self.model.exceeded(job, binding):
                wrong = [self.find_earlier(job, walk, walks[walk], blocked) for walk in walks
                         if self.is_release(event, walk)]
                if None not in wrong:
                    other, text = wrong[0]
                    if len(walks) == 1:
                        self.fail(f"job {job.id} goes before {text}")
                    # Several scans may each choose a job before any of them releases its job.
                    self.to_follow.append((other, f"job {job.id} went, and not {text}"))
            self.try_release(job, binding, blocked)
            if self.peek() is event:
                names = [NAMES[kind] for kind in self.model.exceeded(job, binding)]
                self.fail(f"not expected: job {job.id} is held by {', '.join(names)}")
        self.depth -= 1
        for walk in walks:
            left = self.left(walk, walks[walk], blocked)
            # R16: while the plugin reads the eventlog of a job, jobs that share a limit with this job stay held.
            is_put_off = walk in self.reading
            if left and walk == key and must:
                verb = "go" if self.could_go(left[0], blocked) else "lose a dependency"
                self.fail(f"job {left[0].id} may {verb}, and stays")
            if (left or is_put_off) and walk == key:
                self.due.append(key)
            if not left and not is_put_off and walk != key:
                self.due = [other for other in self.due if other != walk]

    def is_later(self):
        """Returns whether time has passed since the last event, so that a scan has ended, and with it the reservations of blocked jobs (R9)."""
        return self.find_time() - getattr(self.events[self.at - 1], "at", 0.0) > NEAR

    def may_go(self, job, blocked):
        """Returns the blocked jobs whose reservations count against this job."""
        is_kept = bool(job.list_foreign_names()) and self.knows_blocked(job)
        return self.list_binding(is_kept, blocked, self.list_bound(job.assoc, {job.id: is_kept}))

    def is_same(self, job, binding):
        """Returns whether the blocked jobs of this scan make no difference to a job."""
        return self.model.exceeded(job, binding) == self.model.exceeded(job, self.may_go(job, []))

    def could_go(self, job, blocked):
        """Returns whether a held job must go if it is next, even if all possible reservations count against it."""
        if self.model.may_be_kept_from(job) or self.model.has_unknown_budget(job):
            return False
        return not self.model.exceeded(job, blocked + [o for o in self.model.jobs.values() if o.blocked])

    def list_in_turn(self, key, lines):
        """Returns the held jobs of an association that take part, in order: [(whether the job is blocked, job)]."""
        if key in self.reading:
            return []
        turns = [(bool(job.list_foreign_names()) and self.knows_blocked(job), job.id, job) for job in self.model.line(key)]
        return [(is_kept, job) for is_kept, _, job in sorted(turns, key=lambda turn: turn[:2]) if is_kept in lines]

    def find_earlier(self, job, walk, lines, blocked):
        """Returns a held job that should go before this one in a release scan of `walk`, and a text; or None."""
        if self.model.is_overtaken(job):
            return None  # An overtaken job goes first if it fits.
        for is_kept, other in self.list_in_turn(job.assoc, lines):
            if other is job:
                break
            if self.could_go(other, blocked):
                return other, f"{other.id} of the same association"
        circle = [key for key in self.model.list_sharing(walk) if key != job.assoc]
        mine = self.make_sort_keys(job.assoc, walk, lines)
        for key in circle:
            theirs = self.make_sort_keys(key, walk, lines)
            if not mine or not theirs or max(theirs) >= min(mine):
                continue
            for _, other in self.list_in_turn(key, lines):
                if self.do_compete(job, other) and self.could_go(other, blocked):
                    return other, f"{other.id} of {key}, whose place is {max(theirs)}, not {min(mine)}"
        return None

    def make_sort_keys(self, key, walk, lines):
        """Returns the sort keys of an association in a release scan: by its first held job, over all and for each limit of a queue."""
        turns = self.list_in_turn(key, lines)
        groups = [group for group in self.model.scopes.of(walk) if self.model.scopes.is_in(key, group)]
        found = []
        for of_group in [lambda job, g=group: g.has(job.queue) for group in groups] + [lambda job: True]:
            first = next(((is_kept, job) for is_kept, job in turns if of_group(job)), None)
            if first is not None:
                found.append((first[0], *self.model.place(first[1])))
        return found

    def do_compete(self, one, other):
        """Returns whether two jobs count in the same group or budget."""
        return self.model.share_budget(one.assoc, other.assoc) or any(group.has(one.queue) and group.has(other.queue) and self.model.scopes.is_in(other.assoc, group)
                   for group in self.model.scopes.of(one.assoc))

    def left(self, walk, lines, blocked):
        """Returns held jobs that fit, and jobs of the association itself with names to remove. The reservations of the jobs that this scan found
        `blocked` count until the scan ends (R9), also against names (R5)."""
        found = []
        # Between a push and the reprioritize that follows, a release scan applies the new data only to its own association.
        for key in [walk] if self.model.is_stale else self.model.list_sharing(walk):
            for _, job in [] if self.is_amid(key) else self.list_in_turn(key, lines):
                if self.could_go(job, blocked):
                    found.append(job)
                elif key == walk and self.list_satisfied(job, self.model.exceeded(job, self.may_go(job, blocked))):
                    found.append(job)
        return found

    def list_unseen(self, walks):
        """Returns jobs that are held in SCHED at priority 0 and would keep priority 0, so that no event shows their release."""
        keys = sorted({key for walk in walks for key in self.model.list_sharing(walk)})
        return [job for key in keys for job in self.model.line(key)
                if job.in_sched and self.model.compute_priority(job) == ("price", 0, job.memo)]

    def does_go_unseen(self, job, walks, blocked):
        """Returns whether such a job is the next to go."""
        return not self.model.has_unknown_budget(job) and not self.model.exceeded(job, self.may_go(job, blocked)) and any(
            job.assoc in self.model.list_sharing(walk) and self.find_earlier(job, walk, walks[walk], blocked) is None for walk in walks)

    def goes_now(self, job, walks, blocked):
        """Returns whether a job whose own events come later is the next to change."""
        if job.state != "DEPEND" or not job.list_our_names():
            return False
        full = self.model.exceeded(job, self.may_go(job, blocked))
        if full:
            return job.assoc in walks and bool(self.list_satisfied(job, full))
        return any(job.assoc in self.model.list_sharing(walk)
                   and self.find_earlier(job, walk, walks[walk], blocked) is None for walk in walks)
