# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the oracle with cases computed by hand: limits over scopes and strict running limits."""
import unittest

from compare import Follower
from job import NAMES, OWN, Job
from judge import configure
from model import Model
from scopes import AMOUNTS
from stream import Difference

RUN = OWN[5]
TREE = {"A": "S", "B": "S", "S": "root", "C": "root"}


class Case(unittest.TestCase):
    """Users 7 in banks A and B, 8 in A and 9 in C; banks A and B below S. Jobs are named by letters in the order of ids."""

    def site(self, *limits, table=None, **record):
        self.model = Model()
        self.model.configure(table or {})
        shares = {(7, "A"): 0.2, (7, "B"): 0.2, (8, "A"): 0.9, (9, "C"): 0.5}
        records = [dict(userid=user, bank=bank, def_bank=bank, queues="q1,q2", fairshare=share, **record)
                   for (user, bank), share in shares.items()]
        banks = [dict(bank=bank, priority=0, parent=parent) for bank, parent in TREE.items()]
        queues = [{"queue": "q1"}, {"queue": "q2"}]
        self.model.update(dict(associations=records, queues=queues, projects=[], banks=banks, limits=limits), whole=True)

    def job(self, name, user, bank, charge=None, queue="q1", names=(), **values):
        state = {"run": "RUN", "sched": "SCHED"}.get(charge, "DEPEND")
        job = Job(id=ord(name), uid=user, nodes=1, cores=1, queue=queue, bank=bank, project="*", state=state,
                  deps=list(names), charge=charge, assoc=(user, bank), was_held=bool(names))
        for key, value in values.items():
            setattr(job, key, value)
        job.used, job.memo, job.told = set(job.deps), self.model.associations[job.assoc]["fairshare"], job.urgency
        job.priority = self.model.priced(job)[0] if charge else -1
        self.model.jobs[job.id] = job
        return job

    def held_by(self, job):
        return [NAMES[kind] for kind in self.model.exceeded(job)]

    def play(self, *events, then=None):
        """Reads events (job, name[, context]), which must be exactly the events that the plugin must post."""
        full = []
        for job, name, *said in events:
            key = {"priority": "priority", "urgency": "urgency"}.get(name, "description")
            context = {"severity": 0, "type": "cancel"} if name == "exception" else {key: said[0]} if said else {}
            full.append((ord(job), name, context))
        follower = Follower(self.model, full)
        if then is not None:
            then(follower)
        follower.run()

    def differs(self, *events, then=None):
        before, self.model = self.model, self.model.clone()
        with self.assertRaises(Difference):
            self.play(*events, then=then)
        self.model = before

    def ends(self, name):
        return [(name, "exception"), (name, "clean")]

    def goes(self, name, *names):
        job = self.model.jobs[ord(name)]
        return [(name, "dependency-remove", one) for one in names] + [
            (name, "depend"), (name, "priority", self.model.priced(job)[0])]


class Together(Case):
    """Jobs that count together, and their amounts."""

    def test_jobs_of_a_scope_count_together_and_others_do_not(self):
        others = [(7, "A", "q1"), (7, "A", "q2"), (8, "A", "q1"), (7, "B", "q1"), (9, "C", "q1")]
        for scope, name, queue, held in (
            ("association", "7/A", None, "yy..."), ("association", "*", None, "yy..."),
            ("association", "7/A", "q1", "y...."), ("association", "*", "q1", "y...."),
            ("bank", "A", None, "yyy.."), ("bank", "*", None, "yyy.."), ("bank", "S", None, "yyyy."),
            ("bank", "root", None, "yyyyy"), ("bank", "S", "q1", "y.yy."), ("bank", "B", None, "....."),
            ("user", "7", None, "yy.y."), ("user", "*", None, "yy.y."), ("user", "8", None, "....."),
        ):
            self.site({"scope": scope, "name": name, "queue": queue, "run-sched-gpus": 4})
            self.job("A", 7, "A", "run", gpus=3)
            for (user, bank, where), is_held in zip(others, held):
                job = self.job("B", user, bank, queue=where, gpus=2)
                want = [f"max-run-sched-gpus-{scope}" + ("-queue" if queue else "")] if is_held == "y" else []
                self.assertEqual(self.held_by(job), want, (scope, name, queue, user, bank, where))
                job.gpus = 0
                self.assertEqual(self.held_by(job), [], "it needs none")

    def test_each_phase_and_measure_counts_its_own(self):
        for phase, counts in (("run", ["run"]), ("sched", ["sched"]), ("run-sched", ["run", "sched"])):
            for measure in ("jobs", "nodes", "cores", "gpus"):
                if f"{phase}-{measure}" not in AMOUNTS:
                    continue
                cap = 1 if measure == "jobs" else 4
                self.site({"scope": "bank", "name": "S", f"{phase}-{measure}": cap})
                for charge in ("run", "sched"):
                    size = {} if measure == "jobs" else {measure: 3}
                    self.job("A", 7, "B", charge, **size)
                    job = self.job("B", 8, "A", **{key: 2 for key in size})
                    want = [f"max-{phase}-{measure}-bank"] if charge in counts else []
                    self.assertEqual(self.held_by(job), want, (phase, measure, charge))

    def test_what_is_promised_counts_and_what_was_given(self):
        self.site({"scope": "bank", "name": "S", "run-gpus": 4})
        one, job = self.job("A", 7, "B", "sched", gpus=3), self.job("B", 8, "A", gpus=2)
        for one.grant, one.suspended, want in ((False, False, []), (True, False, ["max-run-gpus-bank"]), (True, True, [])):
            self.assertEqual(self.held_by(job), want)
        self.site({"scope": "bank", "name": "S", "counts": "given", "run-gpus": 4})
        self.job("A", 7, "B", "run", gpus=1, given_gpus=3)
        self.assertEqual(self.held_by(self.job("B", 8, "A", gpus=2)), ["max-run-gpus-bank"])

    def test_one_that_is_named_displaces_each_and_inner_banks_are_none_of_each(self):
        self.site({"scope": "bank", "name": "*", "run-jobs": 1}, {"scope": "bank", "name": "A", "run-jobs": 2})
        self.job("A", 7, "A", "run"), self.job("B", 9, "C", "run")
        self.assertEqual(self.held_by(self.job("C", 8, "A")), [])
        self.assertEqual(self.held_by(self.job("D", 9, "C")), ["max-run-jobs-bank"])
        self.site({"scope": "bank", "name": "*", "run-jobs": 1})
        self.job("A", 7, "A", "run")
        self.assertEqual(self.held_by(self.job("C", 7, "B")), [], "S is no bank of each")

    def test_a_push_counts_before_the_configuration(self):
        table = {"limits": [{"scope": "user", "name": "*", "run-jobs": 1, "run-gpus": 0}]}
        self.site({"scope": "user", "name": "*", "run-jobs": 2}, table=table)
        self.job("A", 7, "A", "run")
        self.assertEqual(self.held_by(self.job("B", 7, "B", gpus=1)), ["max-run-gpus-user"])

    def test_who_asks_for_more_than_a_whole_cap_is_refused(self):
        self.site({"scope": "bank", "name": "S", "run-gpus": 8}, {"scope": "bank", "name": "C", "run-jobs": 0},
                  {"scope": "association", "name": "*", "queue": "q2", "run-sched-cores": 3})
        self.assertEqual(self.model.validate(self.job("A", 7, "A", gpus=9)), [
            "job size (9 gpu(s)) is greater than what may run at once of bank S (8 gpu(s))"])
        self.assertEqual(self.model.validate(self.job("A", 7, "A", queue="q2", cores=4)), [
            "job size (4 core(s)) is greater than what may run or be scheduled at once of user 7 in bank A in queue q2 "
            "(3 core(s))"])
        self.assertEqual(self.model.validate(self.job("A", 9, "C")), [], "one job too many waits")


class Turns(Case):
    """The jobs that go when a limit has headroom again."""

    NAME = "max-run-sched-jobs-bank"

    def full(self, **values):
        self.site({"scope": "bank", "name": "S", "run-sched-jobs": 1})
        self.job("A", 7, "B", "run")
        self.job("B", 7, "B", names=[self.NAME], **values), self.job("C", 8, "A", names=[self.NAME])
        self.job("D", 8, "A", names=[self.NAME], urgency=31)

    def test_the_association_whose_first_job_has_the_highest_price_goes_and_there_the_first(self):
        self.full()
        self.play(*self.ends("A"), *self.goes("C", self.NAME))
        self.differs(*self.ends("C"))
        self.play(*self.ends("C"), *self.goes("D", self.NAME))
        self.play(*self.ends("D"), *self.goes("B", self.NAME))

    def test_nobody_else_may_and_somebody_must(self):
        self.full()
        for other in "BD":
            self.differs(*self.ends("A"), *self.goes(other, self.NAME))
        self.differs(*self.ends("A"))
        self.differs(*self.ends("A"), *self.goes("C", self.NAME), *self.goes("B", self.NAME))

    def test_equal_prices_go_by_id(self):
        self.full(urgency=16)
        self.model.associations[7, "B"]["fairshare"] = 0.9
        self.model.jobs[ord("B")].memo = 0.9
        self.differs(*self.ends("A"), *self.goes("C", self.NAME))
        self.play(*self.ends("A"), *self.goes("B", self.NAME))

    def test_the_urgency_at_submission_counts_of_a_change_nobody_is_told(self):
        self.full()
        self.model.jobs[ord("B")].urgency = 31
        self.play(*self.ends("A"), *self.goes("C", self.NAME))

    def test_who_does_not_fit_lets_others_pass(self):
        self.site({"scope": "bank", "name": "S", "run-sched-gpus": 4})
        name = "max-run-sched-gpus-bank"
        self.job("A", 7, "B", "run", gpus=2), self.job("B", 8, "A", "run", gpus=2)
        self.job("C", 8, "A", names=[name], gpus=3), self.job("D", 7, "B", names=[name], gpus=1)
        self.play(*self.ends("A"), *self.goes("D", name))

    def test_names_over_scopes_stay_until_the_job_goes(self):
        self.site({"scope": "bank", "name": "S", "run-sched-jobs": 2}, max_running_jobs=1)
        self.job("A", 7, "B", "run"), self.job("B", 8, "A", "run")
        self.job("C", 7, "B", names=[RUN, self.NAME])
        self.play(*self.ends("B"))
        self.job("D", 8, "A", "run")
        self.play(*self.ends("A"), *self.goes("C", RUN, self.NAME))
        self.job("E", 9, "C", "run"), self.job("F", 7, "A", names=[RUN, self.NAME])
        self.job("G", 8, "A", "run"), self.job("H", 7, "A", "run")
        self.play(*self.ends("H"), ("F", "dependency-remove", RUN))

    def test_elsewhere_nobody_goes(self):
        self.full()
        self.job("E", 9, "C", "run")
        self.play(*self.ends("E"))


class Overtaken(Case):
    """Anti-starvation reservations (plugin 9)."""

    USER, BANK = "max-run-sched-gpus-user", "max-run-sched-gpus-bank"

    def overtaken(self):
        """User 7 has a limit of 16 GPUs and runs 14 in bank B. Their job with 4 GPUs in bank A, which has 4, was overtaken a hundred times."""
        self.site({"scope": "user", "name": "*", "run-sched-gpus": 16}, {"scope": "bank", "name": "A", "run-sched-gpus": 4})
        self.job("A", 7, "B", "run", gpus=14)
        wide = self.job("B", 7, "A", names=[self.USER], gpus=4)
        self.model.overtaken[("user", "7", None), (7, "A")] = (wide.id, 100, 100)
        return wide

    def kept(self, job):
        return [NAMES[kind] for kind in self.model.kept_names(job)]

    def test_a_scope_with_headroom_for_the_job_keeps_none(self):
        self.overtaken()
        self.assertEqual(self.kept(self.job("C", 8, "A", gpus=1)), [])
        self.assertEqual(self.kept(self.job("D", 7, "B", gpus=1)), [self.USER])
        self.assertEqual(self.kept(self.job("E", 7, "B", gpus=0)), [], "it needs none of it")

    def test_a_job_that_is_held_for_another_scopes_sake_is_a_difference(self):
        self.overtaken()
        self.job("C", 8, "A", gpus=1, names=[self.BANK])
        self.job("D", 8, "A", "run")
        self.differs(*self.ends("D"))
        self.play(*self.ends("D"), *self.goes("C", self.BANK))

    def test_none_is_kept_for_urgency_0_or_in_a_stopped_queue(self):
        wide = self.overtaken()
        own = self.job("D", 7, "B", gpus=1)
        wide.told = 0
        self.assertEqual(self.kept(own), [])
        wide.told, self.model.is_stopped = 16, True
        self.assertEqual(self.kept(own), [self.USER], "nobody has asked")
        self.model.knows_stopped = True
        self.assertEqual(self.kept(own), [])

    def test_an_overtaken_job_goes_first(self):
        self.site({"scope": "bank", "name": "A", "run-sched-gpus": 4})
        self.job("A", 8, "A", "run", gpus=4)
        wide, _ = self.job("B", 7, "A", names=[self.BANK], gpus=4), self.job("C", 8, "A", names=[self.BANK], gpus=1)
        self.differs(*self.ends("A"), *self.goes("B", self.BANK))
        self.model.overtaken[("bank", "A", None), (7, "A")] = (wide.id, 100, 100)
        self.play(*self.ends("A"), *self.goes("B", self.BANK))

    def test_a_scope_must_keep_headroom_in_the_end(self):
        self.site({"scope": "bank", "name": "A", "run-sched-gpus": 4})
        self.job("A", 8, "A", "run", gpus=4), self.job("B", 7, "A", names=[self.BANK], gpus=4)
        small = self.job("C", 8, "A", "sched", gpus=1)
        told = [self.model.took(small) for _ in range(111)]
        self.assertEqual((told[109], told[110]), (None, f"job {ord('B')} is overtaken by 111 jobs in ('bank', 'A', None)"))

    def test_a_job_that_another_scope_holds_too_is_no_reason_to_stand_still(self):
        wide = self.overtaken()
        small = self.job("C", 8, "A", "sched", gpus=1)
        self.assertEqual([self.model.took(small) for _ in range(200)], [None] * 200)
        self.assertIn(wide, self.model.line((7, "A")))


class Lapses(Case):
    """Reservations of released jobs in stopped queues."""

    def test_a_reservation_is_suspended_in_a_queue_that_is_known_to_be_stopped(self):
        for strict, knows, reserving in ((False, False, 1), (False, True, 0), (True, True, 1)):
            self.site({"scope": "bank", "name": "S", "run-gpus": 4}, table={"running-limits": "strict"} if strict else {})
            released = self.job("A", 7, "B", "sched", gpus=4, grant=True)
            self.model.is_stopped, self.model.knows_stopped = True, knows
            self.assertEqual(len(self.model.parted([released])[2]), reserving, (strict, knows))
            # The other job is in a stopped queue too.
            self.assertEqual(self.held_by(self.job("B", 8, "A", gpus=1)), ["max-run-gpus-bank"], (strict, knows))


class Strict(Case):
    """Strict running limits."""

    STRICT = {"running-limits": "strict"}

    def test_who_is_in_sched_counts_by_the_rule_of_its_queue(self):
        for table, want in (
            ({}, []), (self.STRICT, [RUN]), ({"queues": {"q1": self.STRICT}}, [RUN]), ({"queues": {"q2": self.STRICT}}, []),
            (dict(self.STRICT, queues={"q1": {"running-limits": "upstream"}}), []),
        ):
            self.site(table=table, max_running_jobs=1)
            self.job("A", 7, "A", "sched")
            self.assertEqual(self.held_by(self.job("B", 7, "A", queue="q2")), want, table)

    def test_over_scopes_too_and_who_rests_takes_no_place(self):
        self.site({"scope": "user", "name": "7", "run-nodes": 2}, table=self.STRICT)
        one, job = self.job("A", 7, "B", "sched", nodes=2), self.job("B", 7, "A")
        self.assertEqual(self.held_by(job), ["max-run-nodes-user"])
        one.suspended = True
        self.assertEqual(self.held_by(job), [])

    def test_back_frees_at_once_and_forth_takes_nobody_back(self):
        self.site(table=self.STRICT, max_running_jobs=1)
        self.job("A", 7, "A", "sched"), self.job("B", 7, "A", names=[RUN])
        self.play(then=lambda follower: configure(follower, dict(self.STRICT)))
        self.differs(then=lambda follower: configure(follower, {}))
        self.play(*self.goes("B", RUN), then=lambda follower: configure(follower, {}))
        self.play(then=lambda follower: configure(follower, self.STRICT))

    def asleep(self):
        self.site(table=self.STRICT, max_running_jobs=1)
        self.job("A", 7, "A", "sched", urgency=0, suspended=True), self.job("B", 7, "A", "sched")

    def test_who_wakes_too_late_is_held_in_sched(self):
        self.asleep()
        self.differs(("A", "urgency", 16), ("A", "priority", 20000))
        self.differs(("A", "urgency", 16))
        self.play(("A", "urgency", 16), ("A", "priority", 0))
        self.assertEqual((self.model.jobs[ord("A")].state, self.model.jobs[ord("A")].charge), ("SCHED", None))
        self.play(*self.ends("B"), ("A", "priority", 20000))
        self.assertEqual((self.model.jobs[ord("A")].state, self.model.jobs[ord("A")].charge), ("SCHED", "sched"))

    def test_and_wakes_where_there_is_room(self):
        self.asleep()
        self.model.jobs[ord("B")].state = "INACTIVE"
        self.differs(("A", "urgency", 16))
        self.play(("A", "urgency", 16), ("A", "priority", 20000))

    def test_a_reprioritize_finds_it_too(self):
        self.asleep()
        self.model.jobs[ord("A")].urgency, self.model.jobs[ord("A")].bank = 16, "A"
        priced = (ord("A"), "priority", {"priority": 20000})
        for events, is_right in (([], True), ([priced], False)):
            model = self.model.clone()
            follower = Follower(model, events)
            follower.reprioritize()
            if is_right:
                follower.run()
                self.assertEqual((model.jobs[ord("A")].state, model.jobs[ord("A")].charge), ("SCHED", None))
            else:
                self.assertRaises(Difference, follower.run)


if __name__ == "__main__":
    unittest.main()
