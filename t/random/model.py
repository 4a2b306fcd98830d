# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: holds, releases, counts, priorities and refusals of the plugin, from the specification alone."""
import copy

from budgets import read_budgets
from job import EXPEDITE, NAMES, is_budget, is_of_exempt, is_of_queue
from limits import Limits
from scopes import Scopes, is_on_running

UNLIMITED = 2147483647
WEIGHTS = {"fairshare": 100000, "queue": 10000, "bank": 0, "urgency": 1000}
ASSOCIATION = dict(
    def_bank="A", fairshare=0.5, max_running_jobs=UNLIMITED, max_active_jobs=UNLIMITED, max_sched_jobs=UNLIMITED,
    max_nodes=UNLIMITED, max_cores=UNLIMITED, queues="", active=1, projects="*", def_project="*",
)
QUEUE = dict(
    min_nodes_per_job=0, max_nodes_per_job=UNLIMITED, max_time_per_job=UNLIMITED, priority=0,
    max_running_jobs=UNLIMITED, max_nodes_per_assoc=UNLIMITED, max_sched_jobs=UNLIMITED,
    max_sched_nodes_per_assoc=UNLIMITED, max_sched_cores_per_assoc=UNLIMITED,
)
HIGHEST = 4294967294
NO_ENTRY = "cannot find user/bank or user/default bank entry for uid: %i"


def complete(document):
    """Returns the records with their default values."""
    defaults = {"associations": ASSOCIATION, "queues": QUEUE}
    return {
        kind: [dict(defaults.get(kind, {}), **r) for r in records] if isinstance(records, list) else records
        for kind, records in document.items()
    }


# Questions that the specification leaves open. The plugin may choose one of two answers, and must keep it for a whole history. The first event
# that shows the choice decides the question.
OPEN = {
    "sees_undeclared": "the plugin knows dependencies of others that the jobspec does not declare before they stop a "
    "release: it may subscribe to all jobs in DEPEND, or to those with declared dependencies",
    "sees_unheld": "the plugin knows such dependencies of jobs that it does not hold",
    "discovered_binds": "a release shows that a job is blocked: the reservation of this job counts for later jobs of "
    "the same release scan, as 5.1 #6 says; or not, as it says of jobs that are not blocked",
    "grants_bind_kept": "the reservation of a job that was blocked in an earlier release scan counts against other "
    "blocked jobs (full), or ended with that scan (minimum)",
    "judged_reserves": "a job that was never held and is checked when it is unblocked reserves headroom as a released "
    "job does, or takes none until it runs, as t1005 says of jobs in SCHED that were never held",
    "reads_all": "the plugin finds out at once which jobs in SCHED were released, or when a limit on running jobs is in reach (R16)",
    "counts_bounced": "a restart without data moved a job from SCHED to PRIORITY: it counts in SCHED as soon as data "
    "arrive, or when it is in SCHED again",
}


class Model(Limits):
    """Data and jobs, and all answers that follow from them."""

    # If false, the model describes older versions of the plugin. An older version does not check a job when the job is unblocked, and may
    # end the reservation of a blocked job at any time.
    judges = True

    def __init__(self, **decided):
        self.decided = decided  # of OPEN
        self.does = None  # decides an open question for the whole history
        self.happens = None  # decides a question for this time only
        self.jobs = {}
        self.loaded = True
        self.has_gpus = False  # whether R has the GPUs that a job asks for
        self.found = []  # jobs whose earlier release is found in this step
        self.is_stopped = False  # all queues are stopped
        self.knows_stopped = False  # the plugin has asked since then; it asks while jobs are held or a queue is known to be stopped
        self.virtual = {}  # the parent of each virtual queue
        self.is_stale = False  # data arrived, and no reprioritize followed
        self.may_read = frozenset()  # associations with jobs in SCHED whose eventlogs data brought in reach of a limit
        self.scopes = Scopes()
        self.table = {}  # [fairshare] of Flux's configuration
        self.charges = []  # the changes of charge factors: [(time, queue, factor)]
        self.now = lambda: 0  # the time of the next event
        self.asked, self.last_seen = {}, 0
        self.knows_ended = True  # job-list has reported the jobs that ended before the plugin was loaded
        self.clear()

    def clone(self):
        """Returns a copy. Records and ended jobs are never changed in place, so the copy shares them."""
        other = copy.copy(self)
        for name in ("associations", "defaults", "queues", "banks", "weights", "overtaken"):
            setattr(other, name, dict(getattr(self, name)))
        other.found, other.asked = [], {}
        other.jobs = {jobid: job.clone() if job.active() else job for jobid, job in self.jobs.items()}
        return other

    def clear(self):
        """Resets the model to a plugin without data."""
        self.associations, self.defaults, self.queues, self.banks = {}, {}, {}, {}
        self.projects = []
        self.weights = dict(WEIGHTS)
        self.zero_score, self.deny_unknown = "hold", False
        self.data, self.overtaken = False, {}
        self.budgets = []
        self.limit({}, {})

    # Data

    def limit(self, pushed, parents):
        """Sets limits over scopes from a push and from the configuration; `parents` has the parent of each bank."""
        self.pushed = (pushed, parents)
        exempt = {queue: rules["exempt"] for queue, rules in self.table.get("queues", {}).items() if "exempt" in rules}
        scopes = Scopes(self.table.get("limits", ()), pushed, parents, self.queues, exempt, self.virtual)
        if any(getattr(scopes, key) != getattr(self.scopes, key) for key in ("table", "parents", "exempt", "virtual")):
            self.scopes, self.overtaken = scopes, {}

    def configure(self, table):
        """Applies the table [fairshare] and returns what changed, of "limits", "priorities", "running-limits" and "budgets"."""

        def pick(table, key):
            return {queue: rules[key] for queue, rules in table.get("queues", {}).items() if key in rules}

        before, self.table = self.table, table
        self.limit(*self.pushed)
        parts = [{"limits": (t.get("limits", []), pick(t, "exempt")), "priorities": pick(t, "max-priority"),
                  "running-limits": (t.get("running-limits"), pick(t, "running-limits")), "budgets": t.get("budgets")} for t in (before, table)]
        return {key for key in parts[0] if parts[0][key] != parts[1][key]}

    def update(self, document, whole=False, scopes=False):
        """Applies the records of `document` as the data methods do, or as policy_update does if `whole`. If `scopes`, the document has
        limits over scopes."""
        document = complete(document)
        if whole:
            gone = {key: dict(record, gone=True) for key, record in self.associations.items()}
            self.clear()
            # A removed association keeps its jobs until they end.
            live = {job.assoc for job in self.jobs.values() if job.active()}
            self.associations = {key: record for key, record in gone.items() if key in live}
        if whole or scopes:
            parents = {r["bank"]: r["parent"] for r in document.get("banks", []) if r.get("parent")}
            self.limit(document.get("limits", ()), parents)
            self.budgets = read_budgets(document.get("budgets", ()))
            self.cover_ended_jobs(document)
        for record in document.get("associations", []):
            self.associations[record["userid"], record["bank"]] = record
            self.defaults[record["userid"]] = record["def_bank"]
            self.data = True
        if "queues" in document:
            self.queues = {record["queue"]: record for record in document["queues"]}
            if self.scopes.set_queues(self.queues):
                self.overtaken = {}
        if "projects" in document:
            self.projects = [record["project"] for record in document["projects"]]
        if "banks" in document:
            self.banks = {record["bank"]: record["priority"] for record in document["banks"]}
        for record in document.get("priority_factors", []):
            self.weights[record["factor"]] = record["weight"]
        if "config" in document:
            self.zero_score = document["config"].get("zero_score", self.zero_score)
            self.deny_unknown = document["config"].get("deny_unknown_queues", self.deny_unknown)
        self.drop_ended_jobs()
        lost = [job for job in self.jobs.values() if job.assoc is None and job.active()]
        for job in lost:
            self.attach(job)
        ways = {}
        for job in lost:
            is_scheduled = job.charge == "sched" or job.bounced and job.state == "PRIORITY"
            if job.assoc is not None and is_scheduled:
                job.unread = not self.finds(job, whole or scopes, ways)
                job.grant = job.was_held and not job.unread
                self.found += [job] if job.grant else []

    def finds(self, job, is_whole, ways):
        """Returns whether a new plugin finds out if a job in SCHED was released, and so has a reservation until it runs (5.1 #5). The
        plugin reads the eventlog of the job only if the release matters."""
        if self.is_in_reach(job):
            # The records of queues may arrive after the records of associations.
            key = (job.assoc, job.queue)
            ways[key] = ways[key] if key in ways else is_whole or self.is_in_reach(job, False) or self.happens()
            return ways[key]
        return self.does("reads_all")

    def is_in_reach(self, job, with_queue=True):
        """Returns whether the active jobs of an association could reach a limit on running jobs that counts a job."""
        active, record = len(self.of(job.assoc)), self.associations[job.assoc]
        groups = [group for group in self.scopes.of(job.assoc) if any(map(is_on_running, group.caps))]
        caps = [queue["max_running_jobs"] for queue in self.queues_over(job.queue) if with_queue]
        if job.queue not in self.scopes.exempt_queues("association"):
            caps += [record["max_running_jobs"]] + [0 for size in ("max_nodes", "max_cores") if record[size] < UNLIMITED]
        return bool(groups) or active + 1 > min(caps, default=UNLIMITED)

    def read_eventlogs(self, key=None):
        """Reads the eventlogs of jobs in SCHED for which a limit is in reach now (R16), of association `key` or of all associations. Returns
        these jobs. The plugin reads the eventlogs before a release scan and when a job enters DEPEND."""
        jobs = [job for job in self.jobs.values() if job.unread and job.charge == "sched" and key in (None, job.assoc) and self.is_in_reach(job)]
        for job in jobs:
            job.grant, job.unread = job.grant or job.was_held, False
        return jobs

    def drop_ended_jobs(self):
        live = {job.assoc for job in self.jobs.values() if job.active()}
        for key in [k for k, r in self.associations.items() if r.get("gone") and k not in live]:
            del self.associations[key]

    def lookup(self, uid, bank):
        """Returns the association of a job of `uid` with this bank in its jobspec, or None."""
        key = (uid, self.defaults.get(uid) if bank is None else bank)
        record = self.associations.get(key)
        return key if record is not None and not record.get("gone") else None

    def attach(self, job):
        """Gives a job its association if that exists now; the job counts there by its state."""
        if job.assoc is None and job.active():
            job.assoc = self.lookup(job.uid, job.bank)
            if job.assoc is not None:
                job.late = job.replayed
                job.charge = None if job.in_sched else {"SCHED": "sched", "RUN": "run", "CLEANUP": "run"}.get(job.state)
                if job.state == "PRIORITY" and job.bounced and self.does("counts_bounced"):
                    job.charge = "sched"

    def replay(self, document):
        """Replays the jobs to a new plugin, loaded with `document` if any."""
        self.clear()
        self.restart()
        self.loaded, self.knows_stopped, self.knows_ended = True, False, False
        self.may_read = frozenset()
        for job in (job for job in self.jobs.values() if job.active()):
            job.assoc = job.charge = job.memo = None
            job.blocked = job.unchecked = job.unread = False
            job.was_held = job.was_ever_held()
            job.grant = False
            job.suspended, job.told = job.urgency == 0, job.urgency
            # If a job in SCHED has priority 0 but not urgency 0, a limit held the job there, or its score is 0. In both cases it counts as
            # held.
            is_held = job.state == "SCHED" and job.priority == 0 and job.urgency != 0
            job.bounced = job.state == "SCHED" and not is_held
            job.waits, job.in_line, job.in_sched = job.state == "PRIORITY" or is_held, is_held, is_held
            job.replayed = True
            # The eventlog of a job in DEPEND has its dependencies.
            job.subscribed = job.declared or bool(job.list_foreign_names())
        if document is not None:
            self.update(document, scopes=True)

    # Priorities

    def compute_priority(self, job):
        """Returns ("price", P, fairshare or None), ("wait",) or ("fatal", text): section 4.4."""
        if job.assoc is None:
            self.attach(job)
        if job.assoc is None:
            if self.data and job.bank is not None and not job.replayed:
                return ("fatal", NO_ENTRY % job.uid)
            return ("wait",)
        if job.unchecked and not self.permits(job.assoc, job.queue):
            return ("fatal", self.not_permitted(job.assoc, job.queue))
        if job.unchecked and self.wrong_project(self.associations[job.assoc], job):
            return ("fatal", self.wrong_project(self.associations[job.assoc], job))
        return ("price", *self.compute_present_priority(job))

    def compute_present_priority(self, job):
        """Returns the present priority of a job, and its fair-share or None."""
        if job.urgency == 0:
            return 0, None
        if job.urgency == 31:
            return EXPEDITE, None
        score = self.score(job)
        if score <= 0:
            score = 1 if self.zero_score == "floor" else 0
        return min(score, HIGHEST, *self.list_largest_priorities(job.queue)), self.associations[job.assoc]["fairshare"]

    def list_largest_priorities(self, queue):
        """Returns the largest priorities of a queue and of its parent (P16)."""
        rules = self.table.get("queues", {})
        return [rules[name]["max-priority"] for name in self.list_family(queue) if "max-priority" in rules.get(name, {})]

    # Refusals

    def queues_of(self, key):
        return [name.strip() for name in self.associations[key]["queues"].split(",") if name.strip()]

    def permits(self, key, queue):
        return queue not in self.queues or queue in self.queues_of(key)

    def not_permitted(self, key, queue):
        return f'queue "{queue}" not valid for user; valid queues for user: {",".join(self.queues_of(key))}'

    def wrong_project(self, record, job):
        projects = [name.strip() for name in record["projects"].split(",") if name.strip()]
        is_default = job.project is None or job.project == record["def_project"]
        if is_default or (job.project in self.projects and job.project in projects):
            return None
        return f'project "{job.project}" not valid for user; valid projects for user: {",".join(projects)}'

    def validate(self, job, new=True):
        """Returns the texts with which job.validate may refuse this job, or none if the job is accepted."""
        reason = self.refusal(job, new)
        full = [f"{group.describe()} has max active jobs; {count} of {group.rejecting['active-jobs']}: wait until one of them ends"
                for group, count in self.full_groups(job)] if new else []
        if reason is not None and not (full and reason.startswith("job size")):
            return [reason]
        if full:
            return full
        key = self.find_association(job, new)
        groups = self.scopes.all_of(key) if key is not None else []
        texts = [text for group in groups if group.has(job.queue) for text in group.refusals(job)]
        return texts or (self.budget_refusals(job, key) if new and key is not None else [])

    def find_association(self, job, new):
        """Returns the association of a job. A live job that stays in its bank keeps its association if it was removed (L15)."""
        is_kept = not new and job.assoc is not None and job.bank == job.assoc[1]
        return self.lookup(job.uid, job.bank) or (job.assoc if is_kept else None)

    def full_groups(self, job, moved=None):
        """Returns (group, number of active jobs) of the groups that admit no further active job. The job `moved` would move there; groups that
        count it already admit it."""
        key = self.lookup(job.uid, job.bank)
        groups = self.scopes.all_of(key) if key is not None else []
        groups = [group for group in groups if "active-jobs" in group.rejecting and group.has(job.queue)]
        counted = [(group, [one for one in self.counted(group) if one.id != job.id or one is moved]) for group in groups]
        return [(group, len(jobs)) for group, jobs in counted
                if len(jobs) >= group.rejecting["active-jobs"] and (moved is None or moved not in jobs)]

    def refusal(self, job, new):
        """Returns the first reason to refuse the job by the records of flux-accounting, or None."""
        key = self.find_association(job, new)
        if key is None:
            return NO_ENTRY % job.uid if self.data else None
        record = self.associations[key]
        if record["active"] == 0:
            return "user/bank entry has been disabled from flux-accounting DB"
        if self.deny_unknown and job.queue and job.queue not in self.queues:
            return f'queue "{job.queue}" is unknown to flux-accounting and deny-unknown-queues is enabled'
        if not self.permits(key, job.queue):
            return self.not_permitted(key, job.queue)
        if self.wrong_project(record, job):
            return self.wrong_project(record, job)
        is_exempt = job.queue in self.scopes.exempt_queues("association")
        if new and 0 < record["max_active_jobs"] <= len(self.of_counted(key)) and not is_exempt:
            return "user has max active jobs"
        for queue in self.queues_over(job.queue):
            if job.nodes > queue["max_nodes_per_assoc"]:
                return (f"job size ({job.nodes} node(s)) is greater than max resources limit configured for queue "
                        f'({queue["max_nodes_per_assoc"]} node(s))')
        if (job.nodes > record["max_nodes"] or job.cores > record["max_cores"]) and not is_exempt:
            return (f"job size ({job.nodes} node(s), {job.cores} core(s)) is greater than max resources limits "
                    f'configured for association ({record["max_nodes"]} node(s), {record["max_cores"]} core(s))')
        return None

    def update_queue(self, job, queue):
        """Returns the allowed answers (texts, or None for acceptance) to a change of the queue."""
        if job.assoc is not None:
            if not self.permits(job.assoc, queue):
                return {f"mf_priority: queue not valid for user: {queue}"}
            exempt, record = self.scopes.exempt_queues("association"), self.associations[job.assoc]
            if job.queue in exempt and queue not in exempt and 0 < record["max_active_jobs"] <= len(self.of_counted(job.assoc)):
                text = "updating to queue %s while it is already at max-active-jobs limit is not allowed; try again later"
                return {text % queue}
            full = self.full_groups(self.with_values(job, queue=queue), job)
            if full:
                text = "updating to queue %s while it is already at %s limit is not allowed; try again later"
                return {text % (queue, group.name_of("active-jobs")) for group, _ in full}
            if job.state in ("PRIORITY", "SCHED"):
                text = "updating to queue %s while it is already at %s limit is not allowed; try again later"
                full = [kind for kind in self.moved(job, queue=queue) if self.is_on_move(kind, job.queue, queue)]
                if full and queue != job.queue:
                    return {text % (queue, NAMES[kind]) for kind in full}
        return self.answers(self.with_values(job, queue=queue))

    def is_on_move(self, kind, old, new):
        """Returns whether a job may come under a limit when it moves from the queue `old` to `new` (L24, L42): a limit of the queue, a limit
        from which the jobs in `old` are exempt, or a budget if the charge factor is higher (B9)."""
        if is_budget(kind):
            return self.factor_at(new) > self.factor_at(old)
        return is_of_queue(kind) or is_of_exempt(kind, self.scopes.exempt.get(old, ()))

    def answers(self, job):
        """Returns the allowed answers of validate to the updated job."""
        return set(self.validate(job, new=False)) or {None}

    def update_bank(self, job, bank):
        """Returns the allowed answers to a change of the bank."""
        if job.state in ("RUN", "CLEANUP"):
            return {"update of bank for running job not supported"}
        again = self.answers(self.with_values(job, bank=bank))
        if job.bank == bank:
            return again
        key = self.lookup(job.uid, bank)
        if key is None:
            if not self.data:
                return {"update_bank: plugin still waiting on flux-accounting data"}
            return {f"update_bank: cannot find flux-accounting entry for uid/bank: {job.uid}/{bank}"}
        record = self.associations[key]
        is_exempt = job.queue in self.scopes.exempt_queues("association")
        if 0 < record["max_active_jobs"] <= len(self.of_counted(key)) and not is_exempt:
            return {"new bank is already at max-active-jobs limit"}
        text = "updating to bank %s while it is already at %s limit is not allowed; try again later"
        full = self.full_groups(self.with_values(job, bank=bank), job)
        if full:
            return {text % (bank, group.name_of("active-jobs")) for group, _ in full}
        run = self.counts(key)[0]["cur_run_jobs"]
        going = [o for o in self.of_counted(key) if o.grant and o.charge != "run" and not o.suspended]
        if is_exempt:
            going, run = [], -1
        if run >= record["max_running_jobs"]:
            return {text % (bank, "max-run-jobs")}
        # The specification does not say whether this check must include reservations.
        answers = {text % (bank, "max-run-jobs")} if run + len(going) >= record["max_running_jobs"] else set()
        if job.state in ("PRIORITY", "SCHED"):
            full = [kind for kind in self.moved(job, bank=bank) if kind != 5]
            if full:
                return answers | {text % (bank, NAMES[kind]) for kind in full}
        return answers | again

    def with_values(self, job, **values):
        other = copy.copy(job)
        for key, value in values.items():
            setattr(other, key, value)
        return other

    def moved(self, job, **values):
        """Returns the limits that the job would exceed after a move, without counting the job itself."""
        there = self.with_values(job, **values)
        if "bank" in values:
            there.assoc = self.lookup(job.uid, values["bank"])
        del self.jobs[job.id]
        try:
            return self.exceeded(there)
        finally:
            self.jobs[job.id] = job
