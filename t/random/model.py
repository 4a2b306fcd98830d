# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: what the plugin must hold, release, count, price and refuse, from the specification alone.

Counts are never kept: each question is answered by a sum over all jobs.
"""
import copy

from job import NAMES

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
EXPEDITE, HIGHEST = 4294967295, 4294967294
NO_ENTRY = "cannot find user/bank or user/default bank entry for uid: %i"


def complete(document):
    """The records with everything that they leave out."""
    defaults = {"associations": ASSOCIATION, "queues": QUEUE}
    return {
        kind: [dict(defaults.get(kind, {}), **r) for r in records] if isinstance(records, list) else records
        for kind, records in document.items()
    }


# What the specification leaves open. The plugin may do either, but must keep to it from the beginning to the end of a
# history: the first event that tells which one it is decides.
OPEN = {
    "sees_undeclared": "it knows names of others that the jobspec does not declare before they stop a release: to "
    "subscribe all jobs in DEPEND is as good as to subscribe those with declared dependencies",
    "sees_unheld": "the same of jobs that stay in DEPEND without a name of its own",
    "discovered_binds": "a keeper is discovered while jobs are released that nobody was known to keep: the blocked "
    "grant binds those behind it in this pass, as 5.1 #6 says of the same pass; or not, as it says of those whom "
    "nobody keeps",
    "grants_bind_kept": "a blocked grant of an earlier pass counts against jobs that others keep too (full), or it "
    "has ended with its pass (minimum)",
    "judged_reserves": "a job that was never held, judged when another plugin let it go, reserves a place to run as "
    "one that was released, or takes none until it runs, as t1005 pins of SCHED jobs that were never held",
    "counts_bounced": "a job that a restart found in SCHED and sent back to PRIORITY, since there were no data: when "
    "they come it counts in SCHED at once (a bounce changes nothing), or when it is there again",
}


class Model:
    """Data, jobs, and every answer that follows from them."""

    # Off: as the plugin was before it judged jobs that others let go; then a grant that others keep may be taken back
    # at any time.
    judges = True

    def __init__(self, **decided):
        self.decided = decided  # of OPEN
        self.does = None  # asks for one that is not decided yet
        self.happens = None  # asks for what may be so this time, and otherwise the next
        self.jobs = {}
        self.loaded = True
        self.clear()

    def clone(self):
        """A copy to go on with: records are never changed in place, nor are jobs that have ended."""
        other = copy.copy(self)
        for name in ("associations", "defaults", "queues", "banks", "weights"):
            setattr(other, name, dict(getattr(self, name)))
        other.jobs = {jobid: job.clone() if job.active() else job for jobid, job in self.jobs.items()}
        return other

    def clear(self):
        """What a fresh plugin knows."""
        self.associations, self.defaults, self.queues, self.banks = {}, {}, {}, {}
        self.projects = []
        self.weights = dict(WEIGHTS)
        self.zero_score, self.deny_unknown = "hold", False
        self.data = False

    # Data

    def update(self, document, whole=False):
        """The records of `document`, as the data methods take them; `whole`: as policy_update does."""
        document = complete(document)
        if whole:
            gone = {key: dict(record, gone=True) for key, record in self.associations.items()}
            self.clear()
            # A removed association keeps its jobs until they end.
            live = {job.assoc for job in self.jobs.values() if job.active()}
            self.associations = {key: record for key, record in gone.items() if key in live}
        for record in document.get("associations", []):
            self.associations[record["userid"], record["bank"]] = record
            self.defaults[record["userid"]] = record["def_bank"]
            self.data = True
        if "queues" in document:
            self.queues = {record["queue"]: record for record in document["queues"]}
        if "projects" in document:
            self.projects = [record["project"] for record in document["projects"]]
        if "banks" in document:
            self.banks = {record["bank"]: record["priority"] for record in document["banks"]}
        for record in document.get("priority_factors", []):
            self.weights[record["factor"]] = record["weight"]
        if "config" in document:
            self.zero_score = document["config"].get("zero_score", self.zero_score)
            self.deny_unknown = document["config"].get("deny_unknown_queues", self.deny_unknown)
        self.forget_the_gone()
        for job in self.jobs.values():
            self.attach(job)

    def forget_the_gone(self):
        live = {job.assoc for job in self.jobs.values() if job.active()}
        for key in [k for k, r in self.associations.items() if r.get("gone") and k not in live]:
            del self.associations[key]

    def lookup(self, uid, bank):
        """The association that a job of `uid` with this bank in its jobspec belongs to, or None."""
        key = (uid, self.defaults.get(uid) if bank is None else bank)
        record = self.associations.get(key)
        return key if record is not None and not record.get("gone") else None

    def attach(self, job):
        """A job without association gets one if there is one now, and counts there by its phase."""
        if job.assoc is None and job.active():
            job.assoc = self.lookup(job.uid, job.bank)
            if job.assoc is not None:
                job.late = job.replayed
                job.charge = {"SCHED": "sched", "RUN": "run", "CLEANUP": "run"}.get(job.state)
                if job.state == "PRIORITY" and job.bounced and self.does("counts_bounced"):
                    job.charge = "sched"

    def replay(self, document):
        """A fresh plugin, loaded with `document` or without any, sees the jobs again."""
        self.clear()
        self.loaded = True
        # That a SCHED job was released, and so reserves until it runs (5.1 #5), is in its eventlog. A plugin reads
        # eventlogs where they can decide something: for each association it finds out, or starts anew.
        finds = {}
        for job in (job for job in self.jobs.values() if job.active()):
            job.assoc = job.charge = job.memo = None
            job.blocked = job.unchecked = False
            job.was_held = job.was_ever_held()
            job.grant = job.was_held and job.state == "SCHED"
            job.suspended = job.urgency == 0
            if job.grant:
                owner = (job.uid, job.bank)
                finds[owner] = job.grant = finds[owner] if owner in finds else self.happens()
            job.bounced = job.state == "SCHED"
            job.waits, job.in_line = job.state == "PRIORITY", False
            job.replayed = True
            # The eventlog of a job in DEPEND names those who keep it.
            job.subscribed = job.declared or bool(job.foreign())
        if document is not None:
            self.update(document)

    # Counts and limits

    def of(self, key):
        """The active jobs of an association."""
        return [job for job in self.jobs.values() if job.assoc == key and job.state != "INACTIVE"]

    def score(self, job):
        """The sum of the factors, rounded half away from zero."""
        fairshare = self.associations[job.assoc]["fairshare"]
        queue = self.queues.get(job.queue)
        total = (
            self.weights["fairshare"] * fairshare + self.weights["bank"] * self.banks.get(job.assoc[1], 0)
            + self.weights["queue"] * (queue["priority"] if queue else 0)
            + self.weights["urgency"] * (job.urgency - 16)
        )
        return int(total + 0.5) if total >= 0 else -int(-total + 0.5)

    def is_suspended(self, job):
        """Never scheduled as things are: it takes no place to run. It counts so from when its price is asked for, or it is
        let go: data that come without a reprioritize change no job."""
        if job.urgency == 0:
            return True
        return job.urgency != 31 and self.zero_score == "hold" and self.score(job) <= 0

    def exceeded(self, job, reserving=()):
        """The limits (indices of NAMES) that keep this job from going; `reserving`: blocked grants that count too."""
        record, queue = self.associations[job.assoc], self.queues.get(job.queue)
        others = [other for other in self.of(job.assoc) if other is not job]
        run = [o for o in others if o.charge == "run"]
        sched = [o for o in others if o.charge == "sched"]
        going = [o for o in others if (o.grant or o in reserving) and o.charge != "run"]
        run += [o for o in going if not o.suspended]
        sched += [o for o in going if o.charge is None]
        found = []
        if queue is not None:
            run_q, sched_q = ([o for o in group if o.queue == job.queue] for group in (run, sched))
            ran_nodes = sum(o.nodes for o in others if o.charge == "run" and o.queue == job.queue)
            nodes, cores = sum(o.nodes for o in sched_q), sum(o.cores for o in sched_q)
            found = [
                len(run_q) >= queue["max_running_jobs"],
                len(sched_q) >= queue["max_sched_jobs"],
                nodes + job.nodes > queue["max_sched_nodes_per_assoc"],
                cores + job.cores > queue["max_sched_cores_per_assoc"],
                ran_nodes + nodes + job.nodes > queue["max_nodes_per_assoc"],
            ]
        else:
            found = [False] * 5
        found += [
            len(run) >= record["max_running_jobs"],
            len(sched) >= record["max_sched_jobs"],
            sum(o.nodes for o in run) + job.nodes > record["max_nodes"]
            or sum(o.cores for o in run) + job.cores > record["max_cores"],
        ]
        return [index for index, is_exceeded in enumerate(found) if is_exceeded]

    def counts(self, key):
        """The counters of an association, as its record in the query has them."""
        jobs = self.of(key)
        run, sched = ([job for job in jobs if job.charge == charge] for charge in ("run", "sched"))
        usage = {}
        for name in {job.queue for job in jobs}:
            run_q, sched_q = ([job for job in group if job.queue == name] for group in (run, sched))
            usage[name] = dict(
                cur_run_jobs=len(run_q), cur_nodes=sum(j.nodes for j in run_q), cur_sched_jobs=len(sched_q),
                cur_sched_nodes=sum(j.nodes for j in sched_q), cur_sched_cores=sum(j.cores for j in sched_q),
            )
        return dict(
            cur_active_jobs=len(jobs), cur_run_jobs=len(run), cur_sched_jobs=len(sched),
            cur_nodes=sum(j.nodes for j in run), cur_cores=sum(j.cores for j in run),
        ), usage

    def held(self, key):
        """{id: entry} of held_jobs."""
        found = {}
        for job in self.of(key):
            names = job.ours() if job.state == "DEPEND" else []
            if job.state == "PRIORITY" and job.waits and job.in_line:
                names = [NAMES[kind] for kind in self.exceeded(job)]
            if names:
                found[str(job.id)] = dict(nnodes=job.nodes, ncores=job.cores, queue=job.queue, deps=names)
        return found

    # Prices

    def price(self, job):
        """("price", P, fairshare or None) or ("wait",) or ("fatal", text): 4.4."""
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
        if job.urgency == 0:
            return ("price", 0, None)
        if job.urgency == 31:
            return ("price", EXPEDITE, None)
        score = self.score(job)
        if score <= 0:
            score = 1 if self.zero_score == "floor" else 0
        return ("price", min(score, HIGHEST), self.associations[job.assoc]["fairshare"])

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
        """Why job.validate refuses this job: a text, or None."""
        key = self.lookup(job.uid, job.bank)
        if key is None:
            return NO_ENTRY % job.uid if self.data else None
        record, queue = self.associations[key], self.queues.get(job.queue)
        if record["active"] == 0:
            return "user/bank entry has been disabled from flux-accounting DB"
        if self.deny_unknown and job.queue and queue is None:
            return f'queue "{job.queue}" is unknown to flux-accounting and deny-unknown-queues is enabled'
        if not self.permits(key, job.queue):
            return self.not_permitted(key, job.queue)
        if self.wrong_project(record, job):
            return self.wrong_project(record, job)
        if new and 0 < record["max_active_jobs"] <= len(self.of(key)):
            return "user has max active jobs"
        if queue is not None and job.nodes > queue["max_nodes_per_assoc"]:
            return (f"job size ({job.nodes} node(s)) is greater than max resources limit configured for queue "
                    f'({queue["max_nodes_per_assoc"]} node(s))')
        if job.nodes > record["max_nodes"] or job.cores > record["max_cores"]:
            return (f"job size ({job.nodes} node(s), {job.cores} core(s)) is greater than max resources limits "
                    f'configured for association ({record["max_nodes"]} node(s), {record["max_cores"]} core(s))')
        return None

    def update_queue(self, job, queue):
        """The allowed answers (texts, or None for yes) to a change of the queue."""
        if job.assoc is not None:
            if not self.permits(job.assoc, queue):
                return {f"mf_priority: queue not valid for user: {queue}"}
            if job.state in ("PRIORITY", "SCHED"):
                text = "updating to queue %s while it is already at %s limit is not allowed; try again later"
                full = self.moved(job, queue=queue)
                if any(kind < 5 for kind in full):
                    return {text % (queue, NAMES[kind]) for kind in full if kind < 5}
        return {self.validate(self.with_values(job, queue=queue), new=False)}

    def update_bank(self, job, bank):
        """The same for a change of the bank."""
        if job.state in ("RUN", "CLEANUP"):
            return {"update of bank for running job not supported"}
        again = {self.validate(self.with_values(job, bank=bank), new=False)}
        if job.bank == bank:
            return again
        key = self.lookup(job.uid, bank)
        if key is None:
            if not self.data:
                return {"update_bank: plugin still waiting on flux-accounting data"}
            return {f"update_bank: cannot find flux-accounting entry for uid/bank: {job.uid}/{bank}"}
        record = self.associations[key]
        if 0 < record["max_active_jobs"] <= len(self.of(key)):
            return {"new bank is already at max-active-jobs limit"}
        text = "updating to bank %s while it is already at %s limit is not allowed; try again later"
        run = self.counts(key)[0]["cur_run_jobs"]
        going = [o for o in self.of(key) if o.grant and o.charge != "run" and not o.suspended]
        if run >= record["max_running_jobs"]:
            return {text % (bank, "max-run-jobs")}
        # Whether places that are reserved count as taken here is left open.
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
        """The limits that the job would meet elsewhere, itself not counted."""
        there = self.with_values(job, **values)
        if "bank" in values:
            there.assoc = self.lookup(job.uid, values["bank"])
        del self.jobs[job.id]
        try:
            return self.exceeded(there)
        finally:
            self.jobs[job.id] = job
