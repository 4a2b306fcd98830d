# SPDX-License-Identifier: LGPL-3.0-only
"""A job of the oracle, and the names by which the plugin holds jobs."""
import copy
import functools
import itertools
import re
from dataclasses import dataclass, field

from budgets import BUDGET_NAMES, UNBOUNDED
from scopes import KINDS
from scopes import NAMES as OVER_SCOPES

OWN = (
    "max-run-jobs-queue", "max-sched-jobs-queue-limit", "max-sched-nodes-queue-limit", "max-sched-cores-queue-limit",
    "max-resources-queue", "max-running-jobs-user-limit", "max-sched-jobs-user-limit", "max-resources-user-limit",
)
NAMES = OWN + OVER_SCOPES + BUDGET_NAMES
EXPEDITE = 4294967295  # the priority at urgency 31


@functools.lru_cache(maxsize=None)
def kind_of(name):
    """Returns the index in NAMES of the limit of a dependency, or None for a dependency of another plugin."""
    base = re.sub(r"\.\d+$", "", name)
    return NAMES.index(base) if base in NAMES else None


def is_of_queue(kind):
    """Returns whether a limit counts the jobs of one queue."""
    return kind < 5 or NAMES[kind].endswith("-queue") and kind >= len(OWN)


def is_of_exempt(kind, scopes):
    """Returns whether a limit counts the jobs of all queues but those that are exempt from `scopes` (L40)."""
    if kind < len(OWN):
        return kind >= 5 and "association" in scopes
    return any(NAMES[kind].endswith("-" + scope) for scope in scopes if scope in KINDS) and not is_budget(kind)


def is_budget(kind):
    return NAMES[kind] in BUDGET_NAMES


def sort_names(names):
    """Sorts names in the order of the limits."""
    return sorted(names, key=lambda name: (kind_of(name), name))


@dataclass
class Job:
    """The state of a job in Flux and in the plugin."""

    id: int
    uid: int
    nodes: int
    cores: int
    queue: str = ""
    bank: str = None
    project: str = None
    gpus: int = 0
    given_gpus: int = 0
    urgency: int = 16
    told: int = 16  # the urgency that the plugin knows; Flux reports no change of it in DEPEND
    state: str = "NEW"
    priority: int = -1
    deps: list = field(default_factory=list)
    used: set = field(default_factory=set)  # names that were ever added
    declared: bool = False
    # The plugin's side.
    assoc: tuple = None
    charge: str = None  # None, "sched" or "run"
    grant: bool = False  # the job has a reservation
    blocked: bool = False  # released, but blocked by another plugin
    was_held: bool = False
    subscribed: bool = False  # the plugin sees its events
    unheld: bool = False  # was in DEPEND only because of other plugins
    unseen: bool = False  # unblocked while the plugin could not see it
    replayed: bool = False
    unread: bool = False  # replayed in SCHED, and the plugin has not read whether the job was released
    bounced: bool = False  # sent from SCHED to PRIORITY by a restart
    late: bool = False  # replayed before its association arrived: it may be held again
    waits: bool = False  # held past DEPEND
    in_sched: bool = False  # held in SCHED at priority 0
    in_line: bool = False  # held past DEPEND, and ready for its release
    unchecked: bool = False  # submitted before data: queue and bank are checked when it gets its priority
    memo: float = None
    # The model of budgets needs the following data.
    limit: int = UNBOUNDED  # the time limit in milliseconds
    start: float = None  # in R
    end: float = None
    factor: float = 1  # the charge factor of the queue at the start
    slack: float = 0  # seconds by which the plugin may have measured an earlier end
    is_from_job_list: bool = False  # the plugin may have the ended job from job-list, which reports no GPUs
    suspended: bool = False

    def list_our_names(self):
        """Returns the present dependencies of the plugin."""
        return sort_names(name for name in self.deps if kind_of(name) is not None)

    def list_foreign_names(self):
        """Returns the present dependencies of others."""
        return [name for name in self.deps if kind_of(name) is None]

    def was_ever_held(self):
        """Returns whether the plugin has ever held the job, also before a reload."""
        return any(kind_of(name) is not None for name in self.used)

    def make_fresh_name(self, kind):
        """Returns a name of the limit that this job has not used yet."""
        base = NAMES[kind]
        if base not in self.used:
            return base
        return next(n for n in (f"{base}.{i}" for i in itertools.count(2)) if n not in self.used)

    def clone(self):
        other = copy.copy(self)
        other.deps, other.used = list(self.deps), set(self.used)
        return other

    def active(self):
        return self.state != "INACTIVE"
