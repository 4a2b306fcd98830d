# SPDX-License-Identifier: LGPL-3.0-only
"""The oracle: budgets. What a job charges comes from its R, its jobspec and its eventlog alone (rules B1 to B10 of docs/design/budgets.md)."""
from dataclasses import dataclass

UNITS = {"node-hours": "nodes", "core-hours": "cores", "gpu-hours": "gpus"}
SCOPES = ("association", "bank", "user")
BUDGET_NAMES = tuple(f"budget-{unit}-{scope}" for scope in SCOPES for unit in UNITS)
UNBOUNDED = 10 ** 15  # the milliseconds of a job without a time limit
SMALLEST_FACTOR = 0.01  # no charge factor of a history is smaller, except 0
# Seconds of run time by which the plugin may round down the charge of an ended job. A push replaces the rounded charge by the exact charge.
SLACK = 0.001
NEAR = 0.05  # seconds around the start or end of a window in which either window may count
ALWAYS = float("inf")


def charge(size, milliseconds, factor):
    """B4: the product of size, time and charge factor as an integer."""
    return size * milliseconds if factor == 1 else int(size * milliseconds * factor + 0.5)


@dataclass(frozen=True)
class Budget:
    """A budget of `unit` with its windows [(start, end, deposited)], sorted by start."""

    scope: str
    name: str
    unit: str
    windows: tuple

    def pays_for(self, key, banks):
        """B1: whether the budget pays for the jobs of an association (user, bank); `banks` are the bank and all banks above it."""
        user, bank = key
        return self.name in {"association": [f"{user}/{bank}"], "bank": list(banks), "user": [str(user)]}[self.scope]

    def find_window(self, at):
        """Returns the window in force, or None. The end of a window is excluded (B5)."""
        return next((window for window in self.windows if window[0] <= at < window[1]), None)

    def list_boundaries(self):
        return [at for start, end, _ in self.windows for at in (start, end)]


def read_budgets(records):
    """Returns the budgets of a push."""
    found = {}
    for one in records:
        found.setdefault((one["scope"], str(one["name"]), one["unit"]), []).append((one["start"], one["end"], one["deposited"]))
    return [Budget(*key, tuple(sorted(windows))) for key, windows in found.items()]


class Budgets:
    """The part of the model that knows budgets and charge factors. It stores no balance: each is a sum over all jobs."""

    def factor_at(self, queue, at=ALWAYS):
        """Returns the charge factor of a queue that was in force at a time (F23)."""
        factors = [factor for since, name, factor in self.charges if name == queue and since <= at]
        return factors[-1] if factors else 1

    def note_charges(self, table, at):
        """Stores the changes of charge factors in a table [fairshare], and returns whether there are any."""
        now = {queue: rules["charge"] for queue, rules in table.get("queues", {}).items() if "charge" in rules}
        known = {queue for _, queue, _ in self.charges}
        changes = [(at, queue, now.get(queue, 1)) for queue in sorted(known | set(now)) if self.factor_at(queue) != now.get(queue, 1)]
        self.charges = self.charges + changes
        return bool(changes)

    def load_charges(self, document, at):
        """A plugin that is loaded at `at` knows the changes that the document has, and the present factors as of then (F24)."""
        self.charges = [(one["since"], one["queue"], one["factor"]) for one in document.get("charges", ())]
        self.note_charges(self.table, at)
        until = self.find_watermarks(document)
        for job in list(self.jobs.values()):
            if job.start is not None and not (job.state == "INACTIVE" and job.end <= until.get(self.payer(job), 0)):
                self.jobs[job.id] = self.with_values(job, factor=self.factor_at(job.queue, job.start))

    def list_paying(self, key):
        """Returns the budgets that pay for the jobs of an association (B1)."""
        return [budget for budget in self.budgets if budget.pays_for(key, self.scopes.above(key[1]))]

    def compute_full_charge(self, job, unit):
        """B6: the charge for the whole time limit. A running job has the size in R and the factor of its start, any other job the size in its
        jobspec and the present factor."""
        if job.charge == "run":
            return charge(self.size_in_r(job, unit), job.limit, job.factor)
        return charge(getattr(job, UNITS[unit]), job.limit, self.factor_at(job.queue))

    @staticmethod
    def size_in_r(job, unit):
        """Returns the size of a job in R, which has all nodes and cores that the job requests, and maybe no GPUs."""
        return job.given_gpus if unit == "gpu-hours" else getattr(job, UNITS[unit])

    def compute_ended_charge(self, job, unit):
        """B4: the charge of an ended job, as (least, most). job-list reports no GPUs (F11)."""
        found = []
        for end in (job.end - job.slack, job.end):
            milliseconds = int(1000 * max(0, end - job.start) + 0.5)
            found.append(charge(self.size_in_r(job, unit), min(milliseconds, job.limit), job.factor))
        return [0, found[1]] if unit == "gpu-hours" and job.is_from_job_list else found

    def list_spenders(self, budget):
        """Returns the jobs that ended and that the budget pays for."""
        ended = [job for job in self.jobs.values() if job.state == "INACTIVE" and job.start is not None]
        return [job for job in ended if budget.pays_for(self.payer(job), self.scopes.above(self.payer(job)[1]))]

    def payer(self, job):
        return job.assoc or (job.uid, job.bank or self.defaults.get(job.uid, "A"))

    def compute_spending(self, budget, window, at, but=None, reserving=()):
        """Returns what ended jobs have spent of a window (B3), and what is spent by and committed to the other jobs (B6), as (least, most, of live
        jobs). A job that does not run counts in the window in force."""
        start, end, _ = window
        least = most = live = 0
        for job in self.list_spenders(budget):
            if start <= job.start < end:
                low, high = self.compute_ended_charge(job, budget.unit)
                least, most = least + low, most + high
        jobs = [job for job in self.jobs.values() if job.active() and job.assoc is not None and job is not but
                and budget.pays_for(job.assoc, self.scopes.above(job.assoc[1]))]
        run, sched, _, to_sched = self.split_jobs(jobs, reserving)
        for job in run + sched + to_sched:
            if start <= (job.start if job.charge == "run" and job.start is not None else at) < end:
                live += self.compute_full_charge(job, budget.unit)
        return least, most, live

    def exceeded_budgets(self, job, reserving=()):
        """B7: the budgets (names) whose balance is less than the charge for the whole time limit of a job."""
        if not self.budgets or self.table.get("budgets") == "warn":
            return set()
        at, full = self.now(), set()
        for budget in self.list_paying(job.assoc):
            needed = self.compute_full_charge(job, budget.unit)
            if needed == 0:
                continue
            near = any(abs(at - boundary) < NEAR for boundary in budget.list_boundaries())
            window = budget.find_window(at + NEAR if near and self.happens_once(("near", budget, int(at))) else at)
            least, most, live = self.compute_spending(budget, window, at, job, reserving) if window else (0, 0, 0)
            left = (window[2] if window else 0) - live - needed
            if left < least or left < most and self.happens_once((job.id, budget, live)):
                full.add(f"budget-{budget.unit}-{budget.scope}")
        return full

    def happens_once(self, what):
        """Decides a question once in a step."""
        if what not in self.asked:
            self.asked[what] = self.happens()
        return self.asked[what]

    def budget_refusals(self, job, key):
        """B7, B8: the beginnings of the texts that refuse a new job."""
        mode = self.table.get("budgets", "hold")
        if not self.budgets or mode == "warn":
            return []
        there = self.with_values(job, assoc=key)
        paying = [budget for budget in self.list_paying(key) if self.compute_full_charge(there, budget.unit) > 0]
        if job.limit == UNBOUNDED and paying:
            return [Beginning("the budget of ")]
        return [Beginning("the job may use ")] if mode == "reject" and self.exceeded_budgets(there) else []

    def crosses_boundary(self, at):
        """Returns whether a window has begun or ended since the last call (B11)."""
        before, self.last_seen = self.last_seen, max(at, self.last_seen)
        return any(before < boundary <= at for budget in self.budgets for boundary in budget.list_boundaries())

    def has_unknown_budget(self, job):
        """Returns whether budgets may hold a job because the plugin asks job-list for ended jobs (B10)."""
        return not self.knows_ended and bool(self.list_paying(job.assoc))

    def share_budget(self, one, other):
        """Returns whether a budget pays for the jobs of two associations."""
        return any(budget in self.list_paying(other) for budget in self.list_paying(one))

    def cover_ended_jobs(self, document):
        """B10: the spent amounts of a push are exact for the jobs that its watermarks cover."""
        until = self.find_watermarks(document)
        self.set_exact(lambda job: job.end <= until.get(self.payer(job), 0))

    @staticmethod
    def find_watermarks(document):
        return {(one["userid"], one["bank"]): one.get("counted_until", 0) for one in document.get("associations", [])}

    def set_exact(self, is_exact=lambda job: True):
        for job in list(self.jobs.values()):
            if job.state == "INACTIVE" and (job.slack or job.is_from_job_list) and job.start is not None and is_exact(job):
                self.jobs[job.id] = self.with_values(job, slack=0, is_from_job_list=False)

    def restart(self):
        """A plugin that is loaded gets the ended jobs that its snapshot lacks from job-list (B10)."""
        self.set_exact()
        for job in list(self.jobs.values()):
            if job.state == "INACTIVE" and job.start is not None:
                self.jobs[job.id] = self.with_values(job, is_from_job_list=True)

    # The accounting database

    def add_spent(self, document, windows, at):
        """Returns a document with what a database knows (B10): the windows, the spent amounts of jobs up to a watermark for each association,
        and the changes of charge factors. The database lacks the last jobs of each association; `lag` is their number."""
        lag, ended = document.get("lag", 0), {}
        for job in self.jobs.values():
            if job.state == "INACTIVE" and job.start is not None:
                ended.setdefault(self.payer(job), []).append(job)
        parents, self.scopes.parents = self.scopes.parents, {one["bank"]: one["parent"] for one in document.get("banks", ()) if one.get("parent")}
        until, listed = {}, {(one["userid"], one["bank"]) for one in document["associations"]}
        for key, jobs in ended.items():
            jobs.sort(key=lambda job: job.end)
            # The plugin assumes that a push includes all ended jobs of the associations that it lacks (B10).
            covered = jobs[:len(jobs) - (lag if key in listed else 0)]
            # The database keeps all ended jobs, so this time never decreases.
            until[key] = windows["until", key] = max(windows.get(("until", key), 0), covered[-1].end if covered else 0)
        records = []
        for one in document["budgets"]:
            for index, (start, end) in enumerate(one["windows"]):
                start, end = windows.setdefault((one["id"], index), (int(at) + start, int(at) + end))
                budget = Budget(one["scope"], str(one["name"]), one["unit"], ())
                spent = sum(self.compute_ended_charge(job, one["unit"])[1] for job in self.list_spenders(budget)
                            if start <= job.start < end and job.end <= until[self.payer(job)])
                records.append({"scope": one["scope"], "name": str(one["name"]), "unit": one["unit"], "start": start, "end": end,
                                "deposited": one["deposited"][index], "spent": spent, "rate": 0})
        self.scopes.parents = parents
        associations = [dict(one, counted_until=until.get((one["userid"], one["bank"]), 0)) for one in document["associations"]]
        charges = [{"queue": queue, "since": since, "factor": factor} for since, queue, factor in self.charges]
        document = {key: value for key, value in document.items() if key != "lag"}
        tree = dict(document["tree"], at=at)
        return dict(document, associations=associations, budgets=records, charges=charges, tree=tree)


class Beginning(str):
    """The beginning of an expected text, whose rest has amounts."""


def compare_budgets(model, query, at):
    """Returns the differences in budgets: deposits, windows in force, and spent plus committed amounts."""
    wrong, seen = [], {}
    for one in query.get("budgets", []):
        seen[one["scope"], one["name"], one["unit"], one["start"]] = one
    want = {(b.scope, b.name, b.unit, window[0]): (b, window) for b in model.budgets for window in b.windows}
    wrong += [f"budget {key}: expected {key in want}, seen {key in seen}" for key in {**seen, **want} if (key in seen) != (key in want)]
    for key in want.keys() & seen.keys():
        (budget, window), one = want[key], seen[key]
        least, most, live = model.compute_spending(budget, window, at)
        total = one["spent"] + one["committed"]
        is_in_force = window[0] <= at < window[1]
        # By rule B11, the plugin notices the start or the end of a budget's window at its next event. If no limit holds a job, the next
        # event may come much later.
        is_behind = one["in_force"] != is_in_force and not model.holds_jobs()
        if one["deposited"] != window[2] or one["end"] != window[1] or one["in_force"] != is_in_force and not is_behind:
            wrong.append(f"budget {key}: expected {window}, in force: {is_in_force}; seen {one}")
        elif live < UNBOUNDED * SMALLEST_FACTOR and not is_behind and not least + live <= total <= most + live:
            wrong.append(f"budget {key}: expected spent and committed from {least + live} to {most + live}, seen {total}: {one}")
    return wrong


def list_overspent(query):
    """Returns {budget: the amount by which spent and committed exceed the deposits} of the windows in force (B9)."""
    return {(one["scope"], one["name"], one["unit"], one["start"]): one["spent"] + one["committed"] - one["deposited"]
            for one in (query or {}).get("budgets", []) if one["in_force"]}
