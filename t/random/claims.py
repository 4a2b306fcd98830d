# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: nobody is overtaken for ever over limits that associations share.

When a hundred jobs have taken room before the first job of an association that waits there, room is kept for it. From when
exactly the plugin counts is its own matter: from the hundredth on it may keep room, and some later it must.
"""
from scopes import OWN

OVERTAKEN, LEEWAY = 100, 10


class Claims:
    """The part of the model that counts how often held jobs were overtaken.

    `overtaken`: {(group, association): (its first held job there, jobs that took room since, the same while nothing else
    held it)}.
    """

    def took(self, job):
        """A job took room. A text if somebody was overtaken once too often."""
        for group in self.scopes.of(job.assoc):
            if not group.has(job.queue):
                continue
            for key in self.associations:
                first = self.first_in(key, group) if self.scopes.is_in(key, group) else None
                if first is None or first is job:
                    continue
                head, since, alone = self.overtaken.get((group.id, key), (None, 0, 0))
                since, alone = (since + 1, alone + 1) if head == first.id else (1, 1)
                alone = alone if self.has_a_right(first, key) else 0
                self.overtaken[group.id, key] = (first.id, since, alone)
                if alone > OVERTAKEN + LEEWAY:
                    return f"job {first.id} is overtaken by {alone} jobs in {group.id}"
        return None

    def first_in(self, key, group):
        """The first held job of an association that counts in a group."""
        held = [job for job in self.line(key) if group.has(job.queue)]
        return min(held, key=lambda job: (bool(job.foreign()), job.id), default=None)

    def has_a_right(self, job, key):
        """Whether nothing but limits over scopes holds it, and it would find room if nobody else were there."""
        groups = [group for group in self.scopes.of(key) if group.has(job.queue)]
        return (all(kind >= OWN for kind in self.exceeded(job)) and not job.foreign() and self.price_when_free(job) > 0
                and not any(True for group in groups for _ in group.refusals(job))
                and all(cap > 0 for group in groups for amount, (cap, _) in group.caps.items() if amount.endswith("jobs")))

    def may_be_kept_from(self, job):
        """Groups whose room may be kept for somebody else."""
        claimed = {key: head for (_, key), (head, since, _) in self.overtaken.items() if since >= OVERTAKEN}
        found = []
        for key, head in claimed.items():
            first = self.jobs.get(head)
            if first is not None and first is not job and first in self.line(key):
                found += [group for group in self.scopes.of(job.assoc)
                          if group.has(job.queue) and group.has(first.queue) and self.scopes.is_in(key, group)]
        return found

    def kept_names(self, job):
        """The limits (indices of NAMES) that may hold a job for that reason."""
        return {kind for group in self.may_be_kept_from(job) for kind in group.kinds(job)}
