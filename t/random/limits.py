# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: what counts against which limit, whom it holds, and who waits for the same room."""
from claims import Claims
from job import NAMES, OWN
from scopes import asks, is_on_running, used


class Limits(Claims):
    """The part of the model that counts. Counts are never kept: each question is answered by a sum over all jobs."""

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

    def is_strict(self, queue):
        """Whether jobs of a queue count from when they are on their way to the scheduler."""
        queues = self.table.get("queues", {})
        rule = queues.get(queue, {}).get("running-limits") or self.table.get("running-limits", "upstream")
        return rule == "strict"

    def is_promised(self, job):
        """Whether it reserves a place: it was released, or by the strict rule it is past DEPEND and waits for nothing."""
        if job.grant:
            return True
        is_past = job.charge == "sched" or (job.state == "PRIORITY" and not job.waits)
        return is_past and self.is_strict(job.queue)

    def wakes_too_late(self, job):
        """By the strict rule a job that is in SCHED, and was not to be scheduled, may find its place to run taken."""
        is_asleep = job.charge == "sched" and job.suspended and self.is_strict(job.queue)
        if not is_asleep or self.priced(job)[0] == 0:
            return False
        return any(kind in (0, 5, 7) or kind >= len(OWN) and is_on_running(NAMES[kind][4:]) for kind in self.exceeded(job))

    def parted(self, jobs, reserving=()):
        """(that run, that are scheduled, promised a place to run, promised to be scheduled) of some jobs."""
        going = [o for o in jobs if o.charge != "run" and (o in reserving or self.is_promised(o))]
        return (
            [o for o in jobs if o.charge == "run"], [o for o in jobs if o.charge == "sched"],
            [o for o in going if not o.suspended and not self.lapses(o)], [o for o in going if o.charge is None],
        )

    def stops(self, queue):
        """Whether the plugin knows that a queue is stopped: the histories stop all of them, and start all."""
        return self.is_stopped and self.knows_stopped

    def lapses(self, job):
        """Whether the place to run that is reserved for a job lapses while its queue is stopped. By the strict rule jobs count from
        when they are on their way to the scheduler, whether their queue is stopped or not."""
        return self.stops(job.queue) and not self.is_strict(job.queue)

    def exceeded(self, job, reserving=()):
        """The limits (indices of NAMES) that keep this job from going; `reserving`: blocked grants that count too."""
        record, queue = self.associations[job.assoc], self.queues.get(job.queue)
        run, sched, to_run, to_sched = self.parted([o for o in self.of(job.assoc) if o is not job], reserving)
        mine = run + to_run
        found = []
        if queue is not None:
            run_q, sched_q = ([o for o in group if o.queue == job.queue] for group in (mine, sched + to_sched))
            ran_nodes = sum(o.nodes for o in run if o.queue == job.queue)
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
            len(mine) >= record["max_running_jobs"],
            len(sched + to_sched) >= record["max_sched_jobs"],
            sum(o.nodes for o in mine) + job.nodes > record["max_nodes"]
            or sum(o.cores for o in mine) + job.cores > record["max_cores"],
        ]
        full = {index for index, is_exceeded in enumerate(found) if is_exceeded}
        return sorted(full | self.exceeded_over_scopes(job, reserving))

    def exceeded_over_scopes(self, job, reserving):
        """The same of limits over scopes. Who needs none of it is not held by what others have too much of."""
        full = set()
        for group in self.scopes.of(job.assoc):
            if group.has(job.queue):
                parts = self.parted([o for o in self.counted(group) if o is not job], reserving)
                for amount, (cap, is_given) in group.caps.items():
                    asked = asks(job, amount.rsplit("-", 1)[1])
                    if asked > 0 and used(amount, is_given, parts) + asked > cap:
                        full.add(NAMES.index(group.name_of(amount)))
        return full

    def counted(self, group):
        """The active jobs that count in a group."""
        return [job for job in self.jobs.values() if job.state != "INACTIVE" and job.assoc is not None
                and group.has(job.queue) and self.scopes.is_in(job.assoc, group)]

    def circle(self, key):
        """The associations that have a limit in common with this one, and itself."""
        mine = {group.id for group in self.scopes.of(key)}
        return [other for other in self.associations
                if other == key or mine and any(group.id in mine for group in self.scopes.of(other))]

    def line(self, key):
        """The held jobs of an association, by id."""
        held = [job for job in self.of(key) if job.state == "DEPEND" and job.ours()]
        held += [job for job in self.of(key) if job.waits and job.in_line]
        return sorted(held, key=lambda job: job.id)

    def place(self, job):
        """What places an association among others by its first job `job`: the highest price first, then the lowest id."""
        return (-self.price_when_free(job), job.id)

    def price_when_free(self, job):
        """The price a held job would have, at the urgency that the plugin knows."""
        known = self.with_values(job, urgency=job.told)
        outcome = self.priced(known)
        return outcome[0]

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
            if job.waits and job.in_line:
                names = [NAMES[kind] for kind in self.exceeded(job)]
            if names:
                found[str(job.id)] = dict(nnodes=job.nodes, ncores=job.cores, queue=job.queue, deps=names)
        return found

