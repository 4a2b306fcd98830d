# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: the counters of limits, the jobs that a limit holds, and the associations that share a limit."""
from budgets import Budgets
from claims import Claims
from job import NAMES, OWN
from scopes import asks, is_on_running, used


class Limits(Claims, Budgets):
    """The part of the model that counts. It stores no counters: each count is a sum over all jobs."""

    def of(self, key):
        """Returns the active jobs of an association."""
        return [job for job in self.jobs.values() if job.assoc == key and job.state != "INACTIVE"]

    def of_counted(self, key):
        """Returns the active jobs that limits in the record of an association count (L40)."""
        return [job for job in self.of(key) if job.queue not in self.scopes.exempt_queues("association")]

    def list_family(self, queue):
        """Returns a queue and, if the queue is virtual, its parent queue. Limits of both queues count a job in a virtual queue (L5)."""
        return [queue, self.virtual[queue]] if queue in self.virtual else [queue]

    def queues_over(self, queue):
        """Returns the records of the pushed queues whose limits apply to a job in a queue (L4, L5)."""
        return [self.queues[name] for name in self.list_family(queue) if name in self.queues]

    def score(self, job):
        """Returns the sum of weights times factors, rounded half away from zero."""
        fairshare = self.associations[job.assoc]["fairshare"]
        queue = self.queues.get(job.queue)
        total = (
            self.weights["fairshare"] * fairshare + self.weights["bank"] * self.banks.get(job.assoc[1], 0)
            + self.weights["queue"] * (queue["priority"] if queue else 0)
            + self.weights["urgency"] * (job.urgency - 16)
        )
        return int(total + 0.5) if total >= 0 else -int(-total + 0.5)

    def is_suspended(self, job):
        """Returns whether the job would not be scheduled at present, so that its reservation is suspended. The plugin notices that when Flux
        asks for the priority or the job is released; data without a reprioritize change no job."""
        if job.urgency == 0:
            return True
        return job.urgency != 31 and self.zero_score == "hold" and self.score(job) <= 0

    def is_strict(self, queue):
        """Returns whether a queue has strict limits: a job counts from its way to the scheduler."""
        queues = self.table.get("queues", {})
        rule = queues.get(queue, {}).get("running-limits") or self.table.get("running-limits", "upstream")
        return rule == "strict"

    def is_promised(self, job):
        """Returns whether the job has a reservation: it was released, or under strict limits it is past DEPEND and not held."""
        if job.grant:
            return True
        is_past = job.charge == "sched" or (job.state == "PRIORITY" and not job.waits)
        return is_past and self.is_strict(job.queue)

    def wakes_too_late(self, job):
        """Returns whether a job in SCHED that would not have been scheduled so far exceeds a strict limit now."""
        is_asleep = job.charge == "sched" and job.suspended and self.is_strict(job.queue)
        if not is_asleep or self.compute_present_priority(job)[0] == 0:
            return False
        return any(kind in (0, 5, 7) or kind >= len(OWN) and is_on_running(NAMES[kind][4:]) for kind in self.exceeded(job))

    def split_jobs(self, jobs, reserving=(), asking=None):
        """Returns (running jobs, jobs in SCHED, jobs with a reservation for RUN, jobs with a reservation for SCHED) of some jobs."""
        going = [o for o in jobs if o.charge != "run" and (o in reserving or self.is_promised(o))]
        return (
            [o for o in jobs if o.charge == "run"], [o for o in jobs if o.charge == "sched"],
            [o for o in going if not o.suspended and not self.lapses(o, asking)], [o for o in going if o.charge is None],
        )

    def stops(self, queue):
        """Returns whether the plugin knows that a queue is stopped. The histories stop and start all queues at once."""
        return self.is_stopped and self.knows_stopped

    def lapses(self, job, asking):
        """Returns whether the reservation of a job is suspended because its queue is stopped. Under strict limits a job counts from its way
        to the scheduler, also in a stopped queue. For a job `asking` that is in a stopped queue too, the reservation counts."""
        counts_anyway = asking is not None and self.stops(asking.queue)
        return self.stops(job.queue) and not self.is_strict(job.queue) and not counts_anyway

    def exceeded(self, job, reserving=()):
        """Returns the limits (indices of NAMES) that hold this job. The reservations of the blocked jobs `reserving` count too."""
        record = self.associations[job.assoc]
        run, sched, to_run, to_sched = self.split_jobs([o for o in self.of(job.assoc) if o is not job], reserving, job)
        mine = run + to_run
        exempt = self.scopes.exempt_queues("association")
        mine_counted, sched_counted = ([o for o in jobs if o.queue not in exempt] for jobs in (mine, sched + to_sched))
        found = [False] * 5
        for queue in self.queues_over(job.queue):
            run_q, sched_q, ran = ([o for o in group if queue["queue"] in self.list_family(o.queue)] for group in (mine, sched + to_sched, run))
            ran_nodes = sum(o.nodes for o in ran)
            nodes, cores = sum(o.nodes for o in sched_q), sum(o.cores for o in sched_q)
            found = [is_exceeded or was_exceeded for was_exceeded, is_exceeded in zip(found, [
                len(run_q) >= queue["max_running_jobs"],
                len(sched_q) >= queue["max_sched_jobs"],
                nodes + job.nodes > queue["max_sched_nodes_per_assoc"],
                cores + job.cores > queue["max_sched_cores_per_assoc"],
                ran_nodes + nodes + job.nodes > queue["max_nodes_per_assoc"],
            ])]
        found += [
            len(mine_counted) >= record["max_running_jobs"],
            len(sched_counted) >= record["max_sched_jobs"],
            sum(o.nodes for o in mine_counted) + job.nodes > record["max_nodes"]
            or sum(o.cores for o in mine_counted) + job.cores > record["max_cores"],
        ] if job.queue not in exempt else []
        full = {index for index, is_exceeded in enumerate(found) if is_exceeded}
        full |= {NAMES.index(name) for name in self.exceeded_budgets(job, reserving)}
        return sorted(full | self.exceeded_over_scopes(job, reserving))

    def exceeded_over_scopes(self, job, reserving):
        """Returns the exceeded limits over scopes. A limit does not hold a job that requests none of its resource."""
        full = set()
        for group in self.scopes.of(job.assoc):
            if group.has(job.queue):
                parts = self.split_jobs([o for o in self.counted(group) if o is not job], reserving, job)
                for amount, (cap, is_given) in group.caps.items():
                    asked = asks(job, amount.rsplit("-", 1)[1])
                    if asked > 0 and used(amount, is_given, parts) + asked > cap:
                        full.add(NAMES.index(group.name_of(amount)))
        return full

    def counted(self, group):
        """Returns the active jobs that count in a group."""
        return [job for job in self.jobs.values() if job.state != "INACTIVE" and job.assoc is not None
                and group.has(job.queue) and self.scopes.is_in(job.assoc, group)]

    def list_sharing(self, key):
        """Returns the association and all associations that share a limit with it."""
        mine = {group.id for group in self.scopes.of(key)}
        return [other for other in self.associations
                if other == key or mine and any(group.id in mine for group in self.scopes.of(other)) or self.share_budget(key, other)]

    def line(self, key):
        """Returns the held jobs of an association in the order of ids."""
        held = [job for job in self.of(key) if job.state == "DEPEND" and job.list_our_names()]
        held += [job for job in self.of(key) if job.waits and job.in_line]
        return sorted(held, key=lambda job: job.id)

    def holds_jobs(self):
        """Returns whether limits hold a job."""
        return any(self.line(key) for key in self.associations)

    def place(self, job):
        """Returns the sort key of an association with the first job `job`: by highest priority, then by lowest id."""
        return (-self.compute_free_priority(job), job.id)

    def compute_free_priority(self, job):
        """Returns the priority that a held job would have at the urgency that the plugin knows."""
        known = self.with_values(job, urgency=job.told)
        outcome = self.compute_present_priority(known)
        return outcome[0]

    def counts(self, key):
        """Returns the counters of an association as in its record of the query."""
        jobs = self.of(key)
        run, sched = ([job for job in jobs if job.charge == charge] for charge in ("run", "sched"))
        counted = [[job for job in some if job in self.of_counted(key)] for some in (jobs, run, sched)]
        usage = {}
        for name in {job.queue for job in jobs}:
            run_q, sched_q = ([job for job in group if job.queue == name] for group in (run, sched))
            usage[name] = dict(
                cur_run_jobs=len(run_q), cur_nodes=sum(j.nodes for j in run_q), cur_sched_jobs=len(sched_q),
                cur_sched_nodes=sum(j.nodes for j in sched_q), cur_sched_cores=sum(j.cores for j in sched_q),
            )
        return dict(
            cur_active_jobs=len(counted[0]), cur_run_jobs=len(counted[1]), cur_sched_jobs=len(counted[2]),
            cur_nodes=sum(j.nodes for j in counted[1]), cur_cores=sum(j.cores for j in counted[1]),
        ), usage

    def held(self, key):
        """Returns {id: entry} of held_jobs."""
        found = {}
        for job in self.of(key):
            names = job.list_our_names() if job.state == "DEPEND" else []
            if job.waits and job.in_line:
                names = [NAMES[kind] for kind in self.exceeded(job)]
            if names:
                found[str(job.id)] = dict(nnodes=job.nodes, ncores=job.cores, queue=job.queue, deps=names)
        return found

