# SPDX-License-Identifier: LGPL-3.0-only
"""Passes: whoever is held and may go goes, in the order of 5.1; over limits that associations share, by price."""
from job import NAMES, OWN, kind_of
from stream import Stream


class Passes(Stream):
    """A stream that knows who goes in a pass."""

    def inline(self, key):
        """A pass that is due may come here."""
        event = self.peek()
        while key in self.due and self.is_release(event, key):
            self.due.remove(key)
            self.a_pass(key, must=False)
            if self.peek() is event:
                self.fail("not expected: the pass is over")
            event = self.peek()

    def is_release(self, event, key=None):
        """Whether it says that a held job goes, or one of its names; in a pass of `key`."""
        job = self.model.jobs.get(event[0]) if event is not None else None
        if job is None or job.assoc is None or key is not None and job.assoc not in self.model.circle(key):
            return False
        if event[1] in ("memo", "priority"):
            # With priority 0 one that is held goes back to SCHED.
            is_back = job.in_sched and job.state == "PRIORITY" and event[2].get("priority") == 0
            return job.waits and job.in_line and not is_back
        return event[1] == "dependency-remove" and kind_of(event[2]["description"]) is not None

    def which(self, keys, assoc):
        """One of `keys` in a pass of which a job of `assoc` may go; None if there is none."""
        if assoc in keys:
            return assoc
        return next((key for key in keys if key is not None and assoc in self.model.circle(key)), None)

    def freed(self, key):
        """There may be room: a pass comes at once, or when eventlogs that are being read are."""
        circle = self.model.circle(key)
        if not any(other in self.reading and other in self.due for other in circle):
            if key in self.due:
                # The pass that was due is over, or this is before it: then it finds whom this one leaves.
                self.due = [other for other in self.due if other != key]
                self.may.add(key)
            self.a_pass(key)
        elif key not in self.due:
            self.due.append(key)

    def sees(self, job):
        """Whether the plugin knows who else keeps it."""
        return job.subscribed or (job.unheld and self.does("sees_unheld")) or self.does("sees_undeclared")

    def bound(self, key, seen):
        """Blocked grants of earlier passes that count against jobs that others keep too."""
        earlier = [job for job in self.model.of(key) if job.blocked]
        return earlier if earlier and any(seen.values()) and self.does("grants_bind_kept") else []

    def binding(self, is_kept, blocked, earlier):
        """Blocked grants that count against a job."""
        binding = blocked + earlier if is_kept else blocked
        return [] if binding and not is_kept and not self.does("discovered_binds") else binding

    def a_pass(self, key, lines=(False, True), must=True):
        """5.1: those that nobody else keeps first, each group by ascending id. `must`: whoever may go goes now."""
        if len(self.model.circle(key)) > 1:
            self.shared_pass(key, lines, must)
            return
        held = self.model.line(key)
        seen = {job.id: bool(job.foreign()) and self.sees(job) for job in held}
        earlier, blocked = self.bound(key, seen), []
        for is_kept in lines:
            for job in held:
                if seen[job.id] != is_kept or job.state != "DEPEND" and not job.waits:
                    continue
                if self.is_amid(key) and not self.is_release(self.peek(), key):
                    continue
                binding = self.binding(is_kept, blocked, earlier)
                self.try_release(job, binding, blocked)

    def is_amid(self, key):
        """Whether data brought replayed jobs to an association, and no reprioritize followed: the plugin may leave it out."""
        return self.model.is_stale and any(job.late for job in self.model.of(key))

    def try_release(self, job, binding, blocked):
        full = self.model.exceeded(job, binding)
        if full:
            for name in self.satisfied(job, full):
                self.unhold(job, name)
            return
        job.grant, job.suspended, job.told = True, self.model.is_suspended(job), job.urgency
        self.took(job)
        if job.waits:
            self.goes_on(job, self.model.price(job))
            return
        for name in job.ours():
            self.unhold(job, name)
        self.after_names(job)
        if job.state == "DEPEND" and self.busy is not job:
            # Blocked: its reservation ends with the pass, or as the policy says. If that was not known, those that
            # nobody else keeps may take its place later.
            if not job.subscribed:
                self.may_free.add(job.assoc)
            job.grant, job.blocked, job.subscribed = False, True, True
            blocked.append(job)

    def took(self, job):
        """A job took room where others may wait for it."""
        if wrong := self.model.took(job):
            self.fail(wrong)

    @staticmethod
    def satisfied(job, full):
        """The names that go although the job stays: never the last, and none of a limit over a scope."""
        names = job.ours() if job.state == "DEPEND" else []
        going = [name for name in names if kind_of(name) not in full]
        if len(going) == len(names):
            going = going[:-1]
        return [name for name in going if kind_of(name) < len(OWN)]

    def unhold(self, job, name):
        self.expect(job, "dependency-remove", {"description": name})
        job.deps.remove(name)

    # Where associations share limits

    def shared_pass(self, key, lines, must):
        """Room goes to the association whose first held job would have the highest price; there, to the first that fits.

        Who goes is read from the events, and must be who is to go in one of the passes that are due; when they are over
        nobody may be left who could.
        """
        walks = {key: lines}
        walks.update((other, (False, True)) for other in self.due if other != key)
        blocked = []
        self.depth += 1
        while True:
            if self.busy is not None and self.goes_now(self.busy, walks, blocked):
                self.try_release(self.busy, [], blocked)
                continue
            unseen = next((job for job in self.unseen(walks) if self.goes_unseen(job, walks, blocked)), None)
            if unseen is not None:
                self.try_release(unseen, [], blocked)
                continue
            event = self.peek()
            if not any(self.is_release(event, walk) for walk in walks):
                break
            job = self.model.jobs[event[0]]
            binding = self.may_go(job, blocked)
            is_followed = self.depth > 1 or len(walks) > 1 or job.assoc in self.may_free
            if blocked and is_followed and not self.is_same(job, binding) and self.choose(2) == 0:
                # The pass of those that were blocked has ended: this is one of those about it, or the one that comes after.
                blocked.clear()
                binding = self.may_go(job, blocked)
            if not self.model.exceeded(job, binding):
                wrong = [self.goes_before(job, walk, walks[walk], blocked) for walk in walks
                         if self.is_release(event, walk)]
                if None not in wrong:
                    other, text = wrong[0]
                    if len(walks) == 1:
                        self.fail(f"job {job.id} goes before {text}")
                    # Of several passes each may have decided who goes before the others' decisions are carried out.
                    self.to_follow.append((other, f"job {job.id} went, and not {text}"))
            self.try_release(job, binding, blocked)
            if self.peek() is event:
                names = [NAMES[kind] for kind in self.model.exceeded(job, binding)]
                self.fail(f"not expected: job {job.id} is held by {', '.join(names)}")
        self.depth -= 1
        for walk in walks:
            left = self.left(walk, walks[walk], blocked)
            if left and walk == key and must:
                self.fail(f"job {left[0].id} may go, and stays")
            if left and walk == key:
                self.due.append(key)
            if not left and walk != key:
                self.due = [other for other in self.due if other != walk]

    def may_go(self, job, blocked):
        """The blocked grants that count against a job."""
        is_kept = bool(job.foreign()) and self.sees(job)
        return self.binding(is_kept, blocked, self.bound(job.assoc, {job.id: is_kept}))

    def is_same(self, job, binding):
        """Whether blocked grants of this pass make no difference to a job."""
        return self.model.exceeded(job, binding) == self.model.exceeded(job, self.may_go(job, []))

    def could_go(self, job, blocked):
        """Whether a held job must go, if it is its turn: whatever may count against it counts."""
        if self.model.may_be_kept_from(job):
            return False
        return not self.model.exceeded(job, blocked + [o for o in self.model.jobs.values() if o.blocked])

    def in_turn(self, key, lines):
        """The held jobs of an association that take part, in order: [(whether others keep it, job)]."""
        if key in self.reading:
            return []
        turns = [(bool(job.foreign()) and self.sees(job), job.id, job) for job in self.model.line(key)]
        return [(is_kept, job) for is_kept, _, job in sorted(turns, key=lambda turn: turn[:2]) if is_kept in lines]

    def goes_before(self, job, walk, lines, blocked):
        """A held job that should go before this one in a pass of `walk`, and a text; None if there is none."""
        if self.model.is_overtaken(job):
            return None  # An overtaken job goes first when it may.
        for is_kept, other in self.in_turn(job.assoc, lines):
            if other is job:
                break
            if self.could_go(other, blocked):
                return other, f"{other.id} of the same association"
        circle = [key for key in self.model.circle(walk) if key != job.assoc]
        mine = self.places(job.assoc, walk, lines)
        for key in circle:
            theirs = self.places(key, walk, lines)
            if not mine or not theirs or max(theirs) >= min(mine):
                continue
            for _, other in self.in_turn(key, lines):
                if self.compete(job, other) and self.could_go(other, blocked):
                    return other, f"{other.id} of {key}, whose place is {max(theirs)}, not {min(mine)}"
        return None

    def places(self, key, walk, lines):
        """Where an association stands in the lines of a pass: by its first held job of all, and of each queue's limit."""
        turns = self.in_turn(key, lines)
        groups = [group for group in self.model.scopes.of(walk) if self.model.scopes.is_in(key, group)]
        found = []
        for of_group in [lambda job, g=group: g.has(job.queue) for group in groups] + [lambda job: True]:
            first = next(((is_kept, job) for is_kept, job in turns if of_group(job)), None)
            if first is not None:
                found.append((first[0], *self.model.place(first[1])))
        return found

    def compete(self, one, other):
        """Whether two jobs count in the same group."""
        return any(group.has(one.queue) and group.has(other.queue) and self.model.scopes.is_in(other.assoc, group)
                   for group in self.model.scopes.of(one.assoc))

    def left(self, walk, lines, blocked):
        """Held jobs that may go, and of the association itself those that carry a name too many."""
        found = []
        # What data changed counts for an association when they are followed by a reprioritize, or at its own pass.
        for key in [walk] if self.model.is_stale else self.model.circle(walk):
            for _, job in [] if self.is_amid(key) else self.in_turn(key, lines):
                if self.could_go(job, blocked):
                    found.append(job)
                elif key == walk and self.satisfied(job, self.model.exceeded(job)):
                    found.append(job)
        return found

    def unseen(self, walks):
        """Jobs that are held in SCHED at priority 0, and would be free there at the same: no event tells that they go."""
        keys = sorted({key for walk in walks for key in self.model.circle(walk)})
        return [job for key in keys for job in self.model.line(key)
                if job.in_sched and self.model.price(job) == ("price", 0, job.memo)]

    def goes_unseen(self, job, walks, blocked):
        """Whether such a job is the next to go."""
        return not self.model.exceeded(job, self.may_go(job, blocked)) and any(
            job.assoc in self.model.circle(walk) and self.goes_before(job, walk, walks[walk], blocked) is None for walk in walks)

    def goes_now(self, job, walks, blocked):
        """Whether a job whose own events come later is the next to change."""
        if job.state != "DEPEND" or not job.ours():
            return False
        full = self.model.exceeded(job, self.may_go(job, blocked))
        if full:
            return job.assoc in walks and bool(self.satisfied(job, full))
        return any(job.assoc in self.model.circle(walk)
                   and self.goes_before(job, walk, walks[walk], blocked) is None for walk in walks)
