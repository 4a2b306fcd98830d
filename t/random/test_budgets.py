# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the oracle of budgets, exempt queues and largest priorities with cases computed by hand."""
import unittest

from budgets import Beginning, charge, compare_budgets, list_overspent
from compare import compare_query
from job import Job
from judge import Judge, is_allowed_text
from model import Model
from stream import Difference

HOUR = 3600000
TREE = {"policy": "fair-tree", "half_life": 600, "node_weight": 1, "core_weight": 0, "gpu_weight": 0}
BANKS = [{"bank": "root", "priority": 0, "parent": ""}, {"bank": "S", "priority": 0, "parent": "root"},
         {"bank": "A", "priority": 0, "parent": "S"}, {"bank": "B", "priority": 0, "parent": "root"}]


def budget(name="S", deposited=10 * HOUR, scope="bank", start=0, end=1000, unit="node-hours"):
    return {"scope": scope, "name": name, "unit": unit, "start": start, "end": end, "deposited": deposited, "spent": 0, "rate": 0}


class Case(unittest.TestCase):
    """Users 5001 and 5002 in bank A, and 5001 in bank B."""

    def make_site(self, *budgets, table=None, at=100.0):
        self.model = Model()
        self.model.now, self.model.happens = lambda: at, lambda: False
        self.model.configure(table or {})
        self.model.note_charges(table or {}, 0.0)
        associations = [{"userid": uid, "bank": bank, "queues": "q1,q2", "max_running_jobs": 2, "max_active_jobs": 3}
                        for uid, bank in ((5001, "A"), (5002, "A"), (5001, "B"))]
        self.model.update({"associations": associations, "banks": BANKS, "queues": [{"queue": "q1"}, {"queue": "q2"}],
                           "projects": [{"project": "*"}], "budgets": list(budgets)}, whole=True)

    def add_job(self, jobid, charge=None, uid=5001, bank="A", **values):
        job = Job(id=jobid, uid=uid, nodes=1, cores=4, queue="q1", bank=bank, project="*", assoc=(uid, bank), charge=charge,
                  state={"run": "RUN", "sched": "SCHED"}.get(charge, "DEPEND"), limit=HOUR)
        for key, value in values.items():
            setattr(job, key, value)
        self.model.jobs[jobid] = job
        return job

    def end_job(self, jobid, start, end, **values):
        return self.add_job(jobid, state="INACTIVE", start=start, end=end, **values)


class Charges(Case):
    def test_a_charge_is_an_integer_product(self):
        self.assertEqual([charge(2, 1500, 1), charge(1, 333, 0.5), charge(3, 100, 0)], [3000, 167, 0])

    def test_a_job_charges_at_most_its_time_limit_by_the_factor_at_its_start(self):
        self.make_site(budget())
        short = self.end_job(1, 10.0, 11.2504, factor=2)
        late = self.end_job(2, 10.0, 5000.0)
        self.assertEqual(self.model.compute_ended_charge(short, "node-hours"), [2500, 2500])
        self.assertEqual(self.model.compute_ended_charge(late, "core-hours"), [4 * HOUR, 4 * HOUR])

    def test_the_gpus_of_an_ended_job_from_job_list_may_not_count_until_a_push_covers_the_job(self):
        self.make_site(budget(unit="gpu-hours"))
        self.end_job(1, 10.0, 20.0, gpus=2, given_gpus=2)
        self.assertEqual(self.model.compute_ended_charge(self.model.jobs[1], "gpu-hours"), [20000, 20000])
        self.model.restart()
        self.assertEqual(self.model.compute_ended_charge(self.model.jobs[1], "gpu-hours"), [0, 20000])
        self.assertEqual(self.model.compute_ended_charge(self.model.jobs[1], "node-hours"), [10000, 10000])
        for until, least in ((19.0, 0), (20.0, 20000)):
            self.model.cover_ended_jobs({"associations": [{"userid": 5001, "bank": "A", "counted_until": until}]})
            self.assertEqual(self.model.compute_ended_charge(self.model.jobs[1], "gpu-hours"), [least, 20000])

    def test_a_job_charges_the_gpus_in_its_r_after_its_start(self):
        self.make_site(budget(unit="gpu-hours"))
        amounts = [self.model.compute_full_charge(self.add_job(number, phase, gpus=2, start=1.0), "gpu-hours")
                   for number, phase in enumerate((None, "sched", "run"))]
        self.assertEqual(amounts, [2 * HOUR, 2 * HOUR, 0])
        self.assertEqual(self.model.compute_ended_charge(self.end_job(9, 10.0, 20.0, gpus=2), "gpu-hours"), [0, 0])

    def test_a_running_job_keeps_its_factor_and_others_have_the_present_one(self):
        self.make_site(budget(), table={"queues": {"q1": {"charge": 0.5}}})
        self.assertEqual(self.model.compute_full_charge(self.add_job(1, "run", factor=2, start=1.0), "node-hours"), 2 * HOUR)
        self.assertEqual(self.model.compute_full_charge(self.add_job(2, "sched"), "node-hours"), HOUR // 2)
        self.assertTrue(self.model.note_charges({}, 50.0) and not self.model.note_charges({}, 60.0))
        self.assertEqual([self.model.factor_at("q1", at) for at in (49.0, 51.0)], [0.5, 1])


    def test_a_plugin_that_is_loaded_knows_the_changes_of_factors_in_its_document(self):
        """F24: the table has the factor 0, which the plugin sees when it is loaded."""
        self.make_site(budget(), table={"queues": {"q1": {"charge": 0}}})
        running, ended = self.add_job(1, "run", factor=0, start=50.0), self.end_job(2, 10.0, 20.0, factor=0)
        document = {"charges": [{"queue": "q1", "since": 5.0, "factor": 2}], "associations": [
            {"userid": 5001, "bank": "A", "counted_until": 20.0}]}
        self.model.load_charges(document, 90.0)
        self.assertEqual([self.model.jobs[job.id].factor for job in (running, ended)], [2, 0])
        self.assertEqual([self.model.factor_at("q1", at) for at in (4.0, 89.0, 90.0)], [1, 2, 0])


class Holds(Case):
    def test_a_budget_of_a_parent_bank_holds_a_job_that_may_overspend_it(self):
        self.make_site(budget(deposited=2 * HOUR))
        held, other = self.add_job(3), self.add_job(4, bank="B")
        self.add_job(1, "run", uid=5002, start=10.0)
        self.assertEqual(self.model.exceeded_budgets(held), set())
        self.add_job(2, "sched")
        self.assertEqual(self.model.exceeded_budgets(held), {"budget-node-hours-bank"})
        self.assertEqual(self.model.exceeded_budgets(other), set(), "bank B is not below S")

    def test_a_job_that_ends_early_returns_the_rest(self):
        self.make_site(budget(deposited=2 * HOUR))
        held = self.add_job(2)
        self.end_job(1, 10.0, 10.0 + 3600)
        self.assertEqual(self.model.exceeded_budgets(held), set())
        self.end_job(1, 10.0, 10.0 + 3600.001, limit=2 * HOUR)
        self.assertEqual(self.model.exceeded_budgets(held), {"budget-node-hours-bank"})

    def test_a_job_spends_from_the_window_in_which_it_starts(self):
        self.make_site(budget(deposited=HOUR, end=90), budget(deposited=HOUR, start=90, end=200))
        held = self.add_job(2)
        self.add_job(1, "run", start=80.0)
        self.assertEqual(self.model.exceeded_budgets(held), set())
        self.add_job(1, "run", start=95.0)
        self.assertEqual(self.model.exceeded_budgets(held), {"budget-node-hours-bank"})

    def test_outside_of_windows_a_budget_is_0(self):
        self.make_site(budget(end=90), budget("5002", scope="user", start=0, end=1000))
        self.assertEqual(self.model.exceeded_budgets(self.add_job(1)), {"budget-node-hours-bank"})
        self.model.factor_at = lambda queue, at=0: 0
        self.assertEqual(self.model.exceeded_budgets(self.add_job(2)), set(), "a job without a charge needs no budget")

    def test_the_mode_decides_what_happens_to_a_job_that_does_not_fit(self):
        for mode, held, refused in (("hold", 1, 0), ("reject", 1, 1), ("warn", 0, 0)):
            self.make_site(budget(deposited=0), table={"budgets": mode})
            job = self.add_job(1)
            self.assertEqual((len(self.model.exceeded_budgets(job)), len(self.model.budget_refusals(job, job.assoc))), (held, refused))

    def test_a_window_that_begins_is_noticed_once(self):
        self.make_site(budget(start=90, end=200))
        self.model.last_seen = 80
        self.assertEqual([self.model.crosses_boundary(at) for at in (89, 90, 91, 201)], [False, True, False, True])


class Push(Case):
    def test_the_database_knows_jobs_up_to_a_watermark(self):
        self.make_site(budget())
        for jobid in (1, 2, 3):
            self.end_job(jobid, 10.0 * jobid, 10.0 * jobid + 5)
        record = {"id": 1, "scope": "bank", "name": "S", "unit": "node-hours", "windows": [[-100, 50]], "deposited": [HOUR]}
        document = {"budgets": [record], "associations": [{"userid": 5001, "bank": "A"}, {"userid": 5002, "bank": "A"}],
                    "banks": BANKS, "tree": TREE, "lag": 1}
        windows = {}
        full = self.model.add_spent(document, windows, 100.5)
        self.assertEqual([(one["start"], one["end"], one["spent"]) for one in full["budgets"]], [(0, 150, 10000)])
        self.assertEqual([one["counted_until"] for one in full["associations"]], [25.0, 0])
        again = self.model.add_spent(dict(document, lag=3), windows, 300.5)
        self.assertEqual((again["budgets"][0]["start"], again["associations"][0]["counted_until"]), (0, 25.0))

    def test_the_query_must_have_the_amounts_of_the_oracle(self):
        self.make_site(budget(deposited=3 * HOUR))
        self.add_job(1, "run", start=50.0)
        self.end_job(2, 10.0, 20.0, slack=0.05)
        shown = dict(budget(deposited=3 * HOUR), in_force=True, spent=50000 + 9960, committed=HOUR - 50000)
        self.assertEqual(compare_budgets(self.model, {"budgets": [shown]}, 100.0), [])
        # B11: while no limit holds a job, the plugin may notice the start or end of a window late.
        late = dict(shown, in_force=False, spent=0)
        self.assertEqual(compare_budgets(self.model, {"budgets": [late]}, 100.0), [])
        self.add_job(3, deps=["max-running-jobs-user-limit"])
        for wrong in ({"spent": 50000 + 9940}, {"spent": 50000 + 10001}, {"deposited": HOUR}, {"in_force": False}):
            self.assertEqual(len(compare_budgets(self.model, {"budgets": [dict(shown, **wrong)]}, 100.0)), 1, wrong)
        self.assertEqual(len(compare_budgets(self.model, {}, 100.0)), 1)

    def test_a_budget_may_not_become_overspent_without_a_cause(self):
        judge = Judge({})
        query = {"budgets": [dict(budget(deposited=HOUR), in_force=True, spent=0, committed=2 * HOUR)]}
        judge.check_overspent({"config": {}}, {"query": query})
        judge.check_overspent({"cancel": "j1"}, {"query": query})
        query["budgets"][0]["committed"] += 1
        with self.assertRaises(Difference):
            judge.check_overspent({"update": "j1"}, {"query": query})
        self.assertEqual(list_overspent(None), {})
        judge.models[0].configure({"budgets": "warn"})
        judge.check_overspent({"update": "j1"}, {"query": query})

    def test_a_refusal_is_compared_up_to_its_amounts(self):
        self.assertTrue(is_allowed_text("the job may use 3 node-hours, and more", Beginning("the job may use ")))
        self.assertFalse(is_allowed_text("the job may not", Beginning("the job may use ")))


class Queues(Case):
    EXEMPT = {"queues": {"q2": {"exempt": ["association", "bank"], "max-priority": 7}}}

    def test_jobs_of_exempt_queues_neither_count_nor_are_held(self):
        self.make_site(table=self.EXEMPT)
        self.model.limit([{"scope": "bank", "name": "A", "run-sched-jobs": 1}, {"scope": "user", "name": "5001", "run-sched-jobs": 2}],
                         {"A": "S", "S": "root"})
        self.add_job(1, "run", queue="q2")
        self.add_job(2, "run", queue="q2")
        held, free = self.add_job(3), self.add_job(4, queue="q2")
        names = lambda job: [kind for kind in self.model.exceeded(job)]  # noqa: E731
        self.assertEqual([len(names(held)), len(names(free))], [1, 1], "only the limit of the user counts them")
        self.assertEqual(self.model.counts((5001, "A"))[0]["cur_run_jobs"], 0)
        self.model.configure({})
        self.assertEqual(len(names(held)), 3)

    def test_max_active_jobs_counts_no_exempt_job(self):
        self.make_site(table=self.EXEMPT)
        for jobid in (1, 2, 3):
            self.add_job(jobid, queue="q2")
        self.assertEqual(self.model.validate(self.add_job(9)), [])
        for jobid in (1, 2, 3):
            self.add_job(jobid)
        self.assertEqual(self.model.validate(self.add_job(8)), ["user has max active jobs"])
        self.assertEqual(self.model.validate(self.model.with_values(self.model.jobs[8], queue="q2")), [])

    def test_a_larger_priority_is_lowered_except_at_urgency_31(self):
        self.make_site(table=self.EXEMPT)
        job = self.add_job(1, queue="q2")
        self.assertEqual(self.model.compute_present_priority(job)[0], 7)
        job.urgency = 31
        self.assertEqual(self.model.compute_present_priority(job)[0], 4294967295)
        job.urgency, job.queue = 16, "q1"
        self.assertEqual(self.model.compute_present_priority(job)[0], 50000)

    def test_a_job_that_leaves_an_exempt_or_cheap_queue_is_checked(self):
        self.make_site(budget(deposited=2 * HOUR), table={"queues": {"q1": {"charge": 3}, "q2": {"exempt": ["association"]}}})
        job = self.add_job(1, "sched", queue="q2")
        text = "updating to queue q1 while it is already at budget-node-hours-bank limit is not allowed; try again later"
        self.assertEqual(self.model.update_queue(job, "q1"), {text})
        self.assertEqual(self.model.update_queue(job, "q2"), {None})
        for jobid in (2, 3, 4):
            self.add_job(jobid)
        self.assertIn("max-active-jobs", self.model.update_queue(job, "q1").pop())

    def test_the_query_shows_the_rules_of_queues(self):
        self.make_site(table=self.EXEMPT)
        query = {"mf_priority_map": [], "queues": ["q1", "q2"], "limits": [], "running_limits": {"default": "upstream", "queues": {}}}
        self.model.associations = {}
        self.assertEqual(len(compare_query(self.model, query)), 1)
        query["queue_rules"] = {"q2": {"exempt": ["association", "bank"], "max_priority": 7}}
        self.assertEqual(compare_query(self.model, query), [])


if __name__ == "__main__":
    unittest.main()
