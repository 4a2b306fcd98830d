# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: anti-starvation reservations (plugin 9), for jobs that were overtaken in limit scopes.

If a hundred jobs have taken headroom while an association has a held job, scopes may keep headroom for its first held job. A few jobs
later, the scope that holds the job must keep headroom. Rule by rule:

- 9 #1, #2: only a scope without headroom for the overtaken job keeps headroom, namely the rest of its exceeded limits.
- 9 #3: no headroom is kept for a job of urgency 0 or in a stopped queue.
- 9 #4: a scope with headroom for the job releases other jobs; and no scope has to keep headroom for a job that another scope holds too.

The plugin may choose when it starts to count.
"""
from scopes import NAMES, OWN, asks, used

OVERTAKEN, LEEWAY = 100, 10


class Claims:
    """The part of the model that counts how often held jobs were overtaken.

    `overtaken`: {(group, association): (the first held job, the number of jobs that took headroom since then, and how many of these did
    while only this scope held the job)}.
    """

    def count_taker(self, job):
        """Counts a job that took headroom, and returns a text if another job was overtaken too often."""
        for group in self.scopes.of(job.assoc):
            if not group.has(job.queue):
                continue
            for key in self.associations:
                first = self.find_first_held(key, group) if self.scopes.is_in(key, group) else None
                if first is None or first is job:
                    continue
                head, since, alone = self.overtaken.get((group.id, key), (None, 0, 0))
                since, alone = (since + 1, alone + 1) if head == first.id else (1, 1)
                alone = alone if self.is_entitled(first, key) and self.holds_alone(group, first, job) else 0
                self.overtaken[group.id, key] = (first.id, since, alone)
                if alone > OVERTAKEN + LEEWAY:
                    return f"job {first.id} is overtaken by {alone} jobs in {group.id}"
        return None

    def find_first_held(self, key, group):
        """Returns the first held job of an association that counts in a group."""
        held = [job for job in self.line(key) if group.has(job.queue)]
        return min(held, key=lambda job: (bool(job.list_foreign_names()), job.id), default=None)

    def is_entitled(self, job, key):
        """Returns whether only limits over scopes hold the job, and it would fit if no other job existed."""
        groups = [group for group in self.scopes.of(key) if group.has(job.queue)]
        # B7: an anti-starvation reservation sets no part of a budget aside.
        return (all(OWN <= kind < OWN + len(NAMES) for kind in self.exceeded(job)) and not job.list_foreign_names() and self.compute_free_priority(job) > 0
                and not self.stops(job.queue)
                and not any(True for group in groups for _ in group.refusals(job))
                and all(cap > 0 for group in groups for amount, (cap, _) in group.caps.items() if amount.endswith("jobs")))

    def list_lacking(self, group, job, but=None):
        """Returns the amounts of which a group has no headroom for a job, without counting the job `but`."""
        parts = self.split_jobs([other for other in self.counted(group) if other is not job and other is not but], asking=job)
        found = []
        for amount, (cap, is_given) in group.caps.items():
            asked = asks(job, amount.rsplit("-", 1)[1])
            if asked > 0 and used(amount, is_given, parts) + asked > cap:
                found.append(amount)
        return found

    def holds_alone(self, group, job, but):
        """Returns whether this group and no other holds a job before the job `but` takes headroom."""
        groups = [other for other in self.scopes.of(job.assoc) if other.has(job.queue) and self.list_lacking(other, job, but)]
        return [other.id for other in groups] == [group.id]

    def is_overtaken(self, job):
        """Returns whether headroom may be kept for a held job."""
        return any(head == job.id and since >= OVERTAKEN for head, since, _ in self.overtaken.values())

    def may_be_kept_from(self, job):
        """Returns the limits (group, amount) that may hold a job because their headroom is kept for another job."""
        claimed = {key: head for (_, key), (head, since, _) in self.overtaken.items() if since >= OVERTAKEN}
        found = []
        for key, head in claimed.items():
            first = self.jobs.get(head)
            if first is None or first is job or first not in self.line(key):
                continue
            if first.told == 0 or self.stops(first.queue):
                continue
            for group in self.scopes.of(job.assoc):
                if group.has(job.queue) and group.has(first.queue) and self.scopes.is_in(key, group):
                    found += [(group, amount) for amount in self.list_lacking(group, first)
                              if asks(job, amount.rsplit("-", 1)[1]) > 0]
        return found

    def kept_names(self, job):
        """Returns the limits (indices of NAMES) that may hold a job because their headroom is kept."""
        return {group.kind(amount) for group, amount in self.may_be_kept_from(job)}
