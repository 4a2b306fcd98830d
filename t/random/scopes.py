# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: limits over scopes, their caps and their counters.

A limit is a record `{"scope", "name", "queue"?, "counts"?, MEASURE: cap, ..}`, as in a push and in the configuration.
"""
PHASES, MEASURES = ("run", "sched", "run-sched"), ("jobs", "nodes", "cores", "gpus")
AMOUNTS = tuple(f"{phase}-{measure}" for phase in PHASES for measure in MEASURES if phase != "sched" or measure == "jobs")
# Limits with these names reject jobs at submission. They never hold a job.
REJECTING = ("active-jobs", "job-nodes")
KINDS = ("association", "association-queue", "bank", "bank-queue", "user", "user-queue", "in-queue")
OWN = 8  # names of flux-accounting's limits come before these
NAMES = tuple(f"max-{amount}-{kind}" for kind in KINDS for amount in AMOUNTS)
UNITS = {"nodes": "node(s)", "cores": "core(s)", "gpus": "gpu(s)"}
ADJECTIVES = {"run": "running", "sched": "scheduled", "run-sched": "running and scheduled"}


class Group:
    """The limits of one `scope` and `name`, in one queue or all; `caps`: {amount: (cap, is_given)}. `rejecting` has the caps that hold no job."""

    def __init__(self, scope, name, queue, caps, exempt=(), virtual=()):
        self.scope, self.name, self.queue, self.exempt, self.virtual = scope, name, queue, exempt, virtual
        self.caps = {amount: cap for amount, cap in caps.items() if amount not in REJECTING}
        self.rejecting = {amount: cap[0] for amount, cap in caps.items() if amount in REJECTING}
        self.id = (scope, name, queue)

    def has(self, queue):
        """Returns whether the group counts jobs of a queue. A group of all queues counts no job of an exempt queue (L40). A group of one
        queue also counts the jobs of its virtual queues (L5, L26)."""
        return queue not in self.exempt if self.queue is None else self.queue == queue or queue in self.virtual

    def name_of(self, amount):
        """Returns the dependency name of the limit on an amount."""
        if self.scope == "queue":
            return f"max-{amount}-in-queue"
        return f"max-{amount}-{self.scope}" + ("-queue" if self.queue is not None else "")

    def kind(self, amount):
        """Returns the limit on an amount (an index of all names)."""
        return OWN + NAMES.index(self.name_of(amount))

    def refusals(self, job):
        """Yields the texts with which caps refuse a job that is larger than the cap. Caps on the number of jobs refuse no job."""
        if job.nodes > self.rejecting.get("job-nodes", job.nodes):
            yield (f"job size ({job.nodes} node(s)) is greater than the limit of {self.describe()} on one job "
                   f"({self.rejecting['job-nodes']} node(s))")
        for amount, (cap, _) in self.caps.items():
            phase, measure = amount.rsplit("-", 1)
            asked = asks(job, measure)
            if measure != "jobs" and asked > cap:
                yield (f"job size ({asked} {UNITS[measure]}) is greater than the limit of {self.describe()} on "
                       f"{ADJECTIVES[phase]} jobs ({cap} {UNITS[measure]})")

    def describe(self):
        """Returns the jobs of the group in words."""
        if self.scope == "queue":
            return f"queue {self.name}"
        target = f"{self.scope} {self.name}"
        if self.scope == "association":
            target = "user {} in bank {}".format(*self.name.split("/", 1))
        return target + (f" in queue {self.queue}" if self.queue is not None else "")


def asks(job, measure):
    """Returns the amount that a job requests."""
    return {"jobs": 1, "nodes": job.nodes, "cores": job.cores, "gpus": job.gpus}[measure]


def has(job, measure):
    """Returns the amount that a running job got: the requested amount, except GPUs if the fake nodes have none."""
    return job.given_gpus if measure == "gpus" else asks(job, measure)


def is_on_running(amount):
    """Returns whether an amount counts only running jobs and reservations for RUN."""
    return amount.startswith("run-") and not amount.startswith("run-sched-")


def used(amount, is_given, counted):
    """Returns the counter of an amount; `counted` is the result of Limits.parted."""
    phase, measure = amount.rsplit("-", 1)
    run, sched, to_run, to_sched = counted
    running = sum((has if is_given else asks)(job, measure) for job in run)
    scheduled = sum(asks(job, measure) for job in sched + to_sched)
    if phase == "run":
        return running + sum(asks(job, measure) for job in to_run)
    return scheduled if phase == "sched" else running + scheduled


class Scopes:
    """The limits over scopes in force."""

    def __init__(self, configured=(), pushed=(), parents=None, queues=(), exempt=None, virtual=None):
        self.table, self.known = {}, {}
        # For each queue, the scopes whose limits do not count jobs of the queue.
        self.exempt = dict(exempt or {})
        # The parent of each virtual queue. Jobs in a virtual queue are exempt if their parent is exempt (L40).
        self.virtual = dict(virtual or {})
        for queue, parent in self.virtual.items():
            self.exempt[queue] = sorted({*self.exempt.get(queue, ()), *self.exempt.get(parent, ())})
        # The queues of the last push. A queue limit with the name "*" applies to each of them.
        self.queues = set(queues)
        # A pushed limit takes precedence over a configured one.
        for record in (*configured, *pushed):
            scope, name = record["scope"], str(record["name"])
            key = (scope, name, name if scope == "queue" and name != "*" else record.get("queue"))
            is_given = record.get("counts") == "given"
            caps = {amount: (record[amount], is_given) for amount in AMOUNTS + REJECTING if amount in record}
            self.table.setdefault(key, {}).update(caps)
        self.parents = dict(parents or {})

    def above(self, bank):
        """Yields a bank and all banks above it."""
        while bank is not None:
            yield bank
            bank = self.parents.get(bank)

    def of(self, key):
        """Returns the groups with limits that can hold jobs of an association (user, bank)."""
        return [group for group in self.all_of(key) if group.caps]

    def all_of(self, key):
        """Returns the groups in which the jobs of an association (user, bank) count."""
        if key not in self.known:
            user, bank = key
            targets = [("association", f"{user}/{bank}", True)]
            # "*" means each bank without sub-banks.
            targets += [("bank", b, b not in self.parents.values()) for b in self.above(bank)]
            targets.append(("user", str(user), True))
            groups = [group for target in targets for group in self.on(*target)]
            self.known[key] = groups + list(self.on_queues())
        return self.known[key]

    def on(self, scope, name, is_of_each):
        queues = sorted({q or "" for s, n, q in self.table if s == scope and n in ("*", name)})
        for queue in (q or None for q in queues):
            caps = dict(self.table.get((scope, "*", queue), {})) if is_of_each else {}
            caps.update(self.table.get((scope, name, queue), {}))
            if caps:
                yield self.make_group(scope, name, queue, caps)

    def make_group(self, scope, name, queue, caps):
        virtual = [child for child, parent in self.virtual.items() if parent == queue]
        return Group(scope, name, queue, caps, self.exempt_queues(scope) if queue is None else (), virtual)

    def exempt_queues(self, scope):
        """Returns the queues whose jobs the limits of a scope over all queues do not count."""
        return {queue for queue, scopes in self.exempt.items() if scope in scopes}

    def on_queues(self):
        """Yields the groups of all jobs of a queue."""
        each = self.table.get(("queue", "*", None), {})
        named = {name for scope, name, _ in self.table if scope == "queue" and name != "*"}
        for queue in sorted(named | (self.queues if each else set())):
            caps = {**(each if queue in self.queues else {}), **self.table.get(("queue", queue, queue), {})}
            if caps:
                yield self.make_group("queue", queue, queue, caps)

    def set_queues(self, queues):
        """Sets the pushed queues. Returns whether limits on each queue now apply to other queues."""
        is_other = self.queues != set(queues) and ("queue", "*", None) in self.table
        self.queues, self.known = set(queues), {}
        return is_other

    def is_in(self, key, group):
        """Returns whether the jobs of an association count in a group."""
        return any(other.id == group.id for other in self.all_of(key))

    def shown(self):
        """Returns (scope, name, queue, amount, cap, "given" or "asked") of all limits."""
        return [(*key, amount, cap, "given" if is_given else "asked")
                for key, caps in self.table.items() for amount, (cap, is_given) in caps.items()]
