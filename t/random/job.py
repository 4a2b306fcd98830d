# SPDX-License-Identifier: LGPL-3.0-only
"""A job as the oracle sees it, and the names by which the plugin holds jobs."""
import copy
import functools
import itertools
import re
from dataclasses import dataclass, field

from scopes import NAMES as OVER_SCOPES

OWN = (
    "max-run-jobs-queue", "max-sched-jobs-queue-limit", "max-sched-nodes-queue-limit", "max-sched-cores-queue-limit",
    "max-resources-queue", "max-running-jobs-user-limit", "max-sched-jobs-user-limit", "max-resources-user-limit",
)
NAMES = OWN + OVER_SCOPES


@functools.lru_cache(maxsize=None)
def kind_of(name):
    """The limit that a dependency's name speaks of: its index in NAMES. None: the name of another plugin."""
    base = re.sub(r"\.\d+$", "", name)
    return NAMES.index(base) if base in NAMES else None


def is_of_queue(kind):
    """Whether a limit counts the jobs of one queue."""
    return kind < 5 or NAMES[kind].endswith("-queue") and kind >= len(OWN)


def in_order(names):
    """Names in the order of the limits."""
    return sorted(names, key=lambda name: (kind_of(name), name))


@dataclass
class Job:
    """A job as Flux has it, and what the plugin must know of it."""

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
    told: int = 16  # the urgency that the plugin knows: of a change in DEPEND nobody tells it
    state: str = "NEW"
    priority: int = -1
    deps: list = field(default_factory=list)
    used: set = field(default_factory=set)  # names that were ever added
    declared: bool = False
    # The plugin's side.
    assoc: tuple = None
    charge: str = None  # None, "sched" or "run"
    grant: bool = False  # released or judged, and not in RUN yet: reserves
    blocked: bool = False  # released, but another plugin keeps it
    was_held: bool = False
    subscribed: bool = False  # the plugin sees its events
    unheld: bool = False  # was in DEPEND for others' sake alone
    unseen: bool = False  # let go by others while the plugin could not see it
    replayed: bool = False
    bounced: bool = False  # sent from SCHED to PRIORITY by a restart
    late: bool = False  # replayed, and its association came later: it may be held anew then
    waits: bool = False  # past DEPEND, until its turn comes
    in_sched: bool = False  # and that in SCHED, at priority 0
    in_line: bool = False  # and nothing else is to be decided of it first
    unchecked: bool = False  # submitted while there were no data: queue and bank are checked when it is priced
    memo: float = None
    suspended: bool = False

    def ours(self):
        """Outstanding names of the plugin."""
        return in_order(name for name in self.deps if kind_of(name) is not None)

    def foreign(self):
        """Outstanding names of others."""
        return [name for name in self.deps if kind_of(name) is None]

    def was_ever_held(self):
        """Whether the plugin, in any of its lives, held it."""
        return any(kind_of(name) is not None for name in self.used)

    def fresh(self, kind):
        """A name for the limit that this job has not used."""
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
