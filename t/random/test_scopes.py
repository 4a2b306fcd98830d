# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the oracle with cases computed by hand: limits over scopes and strict running limits."""
import unittest

from compare import Follower
from job import NAMES, OWN, Job
from judge import configure
from model import Model
from scopes import AMOUNTS
from stream import Difference

RUN, SCHED = OWN[5:7]
TREE = {"A": "S", "B": "S", "S": "root", "C": "root"}


class Case(unittest.TestCase):
    """Users 7 in banks A and B, 8 in A and 9 in C; banks A and B below S. Jobs are named by letters in the order of ids."""

    def make_site(self, *limits, table=None, virtual=None, queues=({"queue": "q1"}, {"queue": "q2"}), **record):
        self.model = Model()
        self.model.virtual = virtual or {}
        self.model.configure(table or {})
        shares = {(7, "A"): 0.2, (7, "B"): 0.2, (8, "A"): 0.9, (9, "C"): 0.5}
        records = [dict(userid=user, bank=bank, def_bank=bank, queues="q1,q2", fairshare=share, **record)
                   for (user, bank), share in shares.items()]
        banks = [dict(bank=bank, priority=0, parent=parent) for bank, parent in TREE.items()]
        self.model.update(dict(associations=records, queues=list(queues), projects=[], banks=banks, limits=limits), whole=True)

    def add_job(self, name, user, bank, charge=None, queue="q1", names=(), **values):
        state = {"run": "RUN", "sched": "SCHED"}.get(charge, "DEPEND")
        job = Job(id=ord(name), uid=user, nodes=1, cores=1, queue=queue, bank=bank, project="*", state=state,
                  deps=list(names), charge=charge, assoc=(user, bank), was_held=bool(names))
        for key, value in values.items():
            setattr(job, key, value)
        job.used, job.memo, job.told = set(job.deps), self.model.associations[job.assoc]["fairshare"], job.urgency
        job.priority = self.model.compute_present_priority(job)[0] if charge else -1
        self.model.jobs[job.id] = job
        return job

    def list_holds(self, job):
        return [NAMES[kind] for kind in self.model.exceeded(job)]

    def assert_plays(self, *events, then=None):
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

    def assert_differs(self, *events, then=None):
        before, self.model = self.model, self.model.clone()
        with self.assertRaises(Difference):
            self.assert_plays(*events, then=then)
        self.model = before

    def make_end_events(self, name):
        return [(name, "exception"), (name, "clean")]

    def make_release_events(self, name, *names):
        job = self.model.jobs[ord(name)]
        return [(name, "dependency-remove", one) for one in names] + [
            (name, "depend"), (name, "priority", self.model.compute_present_priority(job)[0])]


class Together(Case):
    """Jobs that count together, and their amounts."""

    def test_jobs_of_a_scope_count_together_and_other_jobs_do_not(self):
        others = [(7, "A", "q1"), (7, "A", "q2"), (8, "A", "q1"), (7, "B", "q1"), (9, "C", "q1")]
        for scope, name, queue, held in (
            ("association", "7/A", None, "yy..."), ("association", "*", None, "yy..."),
            ("association", "7/A", "q1", "y...."), ("association", "*", "q1", "y...."),
            ("bank", "A", None, "yyy.."), ("bank", "*", None, "yyy.."), ("bank", "S", None, "yyyy."),
            ("bank", "root", None, "yyyyy"), ("bank", "S", "q1", "y.yy."), ("bank", "B", None, "....."),
            ("user", "7", None, "yy.y."), ("user", "*", None, "yy.y."), ("user", "8", None, "....."),
        ):
            self.make_site({"scope": scope, "name": name, "queue": queue, "run-sched-gpus": 4})
            self.add_job("A", 7, "A", "run", gpus=3)
            for (user, bank, where), is_held in zip(others, held):
                job = self.add_job("B", user, bank, queue=where, gpus=2)
                want = [f"max-run-sched-gpus-{scope}" + ("-queue" if queue else "")] if is_held == "y" else []
                self.assertEqual(self.list_holds(job), want, (scope, name, queue, user, bank, where))
                job.gpus = 0
                self.assertEqual(self.list_holds(job), [], "it needs none")

    def test_each_limit_counts_its_own_phase_and_measure(self):
        for phase, counts in (("run", ["run"]), ("sched", ["sched"]), ("run-sched", ["run", "sched"])):
            for measure in ("jobs", "nodes", "cores", "gpus"):
                if f"{phase}-{measure}" not in AMOUNTS:
                    continue
                cap = 1 if measure == "jobs" else 4
                self.make_site({"scope": "bank", "name": "S", f"{phase}-{measure}": cap})
                for charge in ("run", "sched"):
                    size = {} if measure == "jobs" else {measure: 3}
                    self.add_job("A", 7, "B", charge, **size)
                    job = self.add_job("B", 8, "A", **{key: 2 for key in size})
                    want = [f"max-{phase}-{measure}-bank"] if charge in counts else []
                    self.assertEqual(self.list_holds(job), want, (phase, measure, charge))

    def test_reservations_and_allocated_resources_count(self):
        self.make_site({"scope": "bank", "name": "S", "run-gpus": 4})
        one, job = self.add_job("A", 7, "B", "sched", gpus=3), self.add_job("B", 8, "A", gpus=2)
        for one.grant, one.suspended, want in ((False, False, []), (True, False, ["max-run-gpus-bank"]), (True, True, [])):
            self.assertEqual(self.list_holds(job), want)
        self.make_site({"scope": "bank", "name": "S", "counts": "given", "run-gpus": 4})
        self.add_job("A", 7, "B", "run", gpus=1, given_gpus=3)
        self.assertEqual(self.list_holds(self.add_job("B", 8, "A", gpus=2)), ["max-run-gpus-bank"])

    def test_a_named_limit_replaces_the_limit_of_each_bank_and_inner_banks_have_none(self):
        self.make_site({"scope": "bank", "name": "*", "run-jobs": 1}, {"scope": "bank", "name": "A", "run-jobs": 2})
        self.add_job("A", 7, "A", "run"), self.add_job("B", 9, "C", "run")
        self.assertEqual(self.list_holds(self.add_job("C", 8, "A")), [])
        self.assertEqual(self.list_holds(self.add_job("D", 9, "C")), ["max-run-jobs-bank"])
        self.make_site({"scope": "bank", "name": "*", "run-jobs": 1})
        self.add_job("A", 7, "A", "run")
        self.assertEqual(self.list_holds(self.add_job("C", 7, "B")), [], "S is no bank of each")

    def test_a_pushed_limit_takes_precedence_over_the_configuration(self):
        table = {"limits": [{"scope": "user", "name": "*", "run-jobs": 1, "run-gpus": 0}]}
        self.make_site({"scope": "user", "name": "*", "run-jobs": 2}, table=table)
        self.add_job("A", 7, "A", "run")
        self.assertEqual(self.list_holds(self.add_job("B", 7, "B", gpus=1)), ["max-run-gpus-user"])

    def test_a_limit_on_a_queue_counts_the_jobs_of_all_users_there(self):
        for name in ("q1", "*"):
            self.make_site({"scope": "queue", "name": name, "run-sched-jobs": 1})
            self.add_job("A", 7, "A", "run")
            self.assertEqual(self.list_holds(self.add_job("B", 9, "C")), ["max-run-sched-jobs-in-queue"], name)
            self.assertEqual(self.list_holds(self.add_job("C", 9, "C", queue="q2")), [], name)
        self.make_site({"scope": "user", "name": "*", "queue": "q1", "run-jobs": 1})
        self.add_job("A", 7, "A", "run")
        self.assertEqual(self.list_holds(self.add_job("B", 7, "B")), ["max-run-jobs-user-queue"])
        self.assertEqual(self.list_holds(self.add_job("C", 7, "B", queue="q2")), [])

    def test_limits_on_active_jobs_and_on_one_job_reject_jobs_and_hold_none(self):
        self.make_site({"scope": "bank", "name": "S", "active-jobs": 2, "job-nodes": 3})
        self.add_job("A", 7, "B")
        self.assertEqual(self.model.validate(self.add_job("B", 8, "A", nodes=4)), [
            "job size (4 node(s)) is greater than the limit of bank S on one job (3 node(s))"])
        self.assertEqual(self.list_holds(self.model.jobs[ord("B")]), [])
        self.assertEqual(self.model.validate(self.add_job("C", 7, "A")), [
            "bank S has max active jobs; 2 of 2: wait until one of them ends"])
        self.assertEqual(self.model.validate(self.add_job("D", 9, "C")), [])
        self.assertEqual(self.model.update_bank(self.model.jobs[ord("D")], "A"), {
            "update_bank: cannot find flux-accounting entry for uid/bank: 9/A"})

    def test_a_job_larger_than_a_cap_is_rejected(self):
        self.make_site({"scope": "bank", "name": "S", "run-gpus": 8}, {"scope": "bank", "name": "C", "run-jobs": 0},
                  {"scope": "association", "name": "*", "queue": "q2", "run-sched-cores": 3})
        self.assertEqual(self.model.validate(self.add_job("A", 7, "A", gpus=9)), [
            "job size (9 gpu(s)) is greater than the limit of bank S on running jobs (8 gpu(s))"])
        self.assertEqual(self.model.validate(self.add_job("A", 7, "A", queue="q2", cores=4)), [
            "job size (4 core(s)) is greater than the limit of user 7 in bank A in queue q2 on running and scheduled jobs "
            "(3 core(s))"])
        self.assertEqual(self.model.validate(self.add_job("A", 9, "C")), [], "one job too many waits")


class VirtualQueues(Case):
    """q2 is a virtual queue of q1."""

    def make_virtual_site(self, *limits, **values):
        self.make_site(*limits, virtual={"q2": "q1"}, **values)

    def test_the_limits_of_the_parent_count_jobs_in_both_queues(self):
        """L4, L5"""
        narrow = {"max_running_jobs": 1, "max_sched_jobs": 1}
        kinds = {"run": "max-run-jobs-queue", "sched": "max-sched-jobs-queue-limit"}
        for limited, other, charge, held in (("q1", "q2", "run", True), ("q1", "q2", "sched", True), ("q2", "q1", "run", False)):
            for queue, where in ((limited, other), (other, limited)):
                self.make_virtual_site(queues=[dict(queue=limited, **narrow), {"queue": other}])
                self.add_job("A", 7, "A", charge, queue=queue)
                self.assertEqual(self.list_holds(self.add_job("B", 7, "A", queue=where)), [kinds[charge]] if held else [], (limited, queue, charge))
                self.assertEqual(self.list_holds(self.add_job("C", 7, "B", queue=where)), [], "another association")
        self.make_virtual_site(queues=[{"queue": "q2"}])
        self.add_job("A", 7, "A", "run", queue="q2")
        self.assertEqual(self.list_holds(self.add_job("B", 7, "A", queue="q2")), [], "q1 is not pushed")

    def test_a_job_that_is_too_large_for_the_parent_is_rejected(self):
        """L7"""
        self.make_virtual_site(queues=[{"queue": "q1", "max_nodes_per_assoc": 1}, {"queue": "q2"}])
        self.assertEqual(self.model.validate(self.add_job("A", 7, "A", queue="q2", nodes=2)), [
            "job size (2 node(s)) is greater than max resources limit configured for queue (1 node(s))"])

    def test_limits_over_scopes_on_the_parent_count_jobs_in_both_queues(self):
        """L26, L27"""
        for limit, kind in (({"scope": "queue", "name": "q1"}, "in-queue"), ({"scope": "queue", "name": "*"}, "in-queue"),
                            ({"scope": "user", "name": "7", "queue": "q1"}, "user-queue"), ({"scope": "bank", "name": "A", "queue": "q1"}, "bank-queue")):
            for queue in ("q1", "q2"):
                self.make_virtual_site({**limit, "run-jobs": 1})
                self.add_job("A", 7, "A", "run", queue=queue)
                for where in ("q1", "q2"):
                    self.assertEqual(self.list_holds(self.add_job("B", 7, "A", queue=where)), [f"max-run-jobs-{kind}"], (limit, queue, where))

    def test_a_virtual_queue_has_the_exemptions_and_the_largest_priority_of_its_parent(self):
        """L40, L42, P16"""
        rules = {"q1": {"exempt": ["association"], "max-priority": 9}, "q2": {"exempt": ["bank"], "max-priority": 20}}
        self.make_virtual_site({"scope": "bank", "name": "A", "run-jobs": 0}, table={"queues": rules}, max_running_jobs=0)
        jobs = [self.add_job(name, 7, "A", queue=queue) for name, queue in zip("AB", ("q1", "q2"))]
        self.assertEqual([self.list_holds(job) for job in jobs], [["max-run-jobs-bank"], []])
        self.assertEqual([self.model.compute_present_priority(job)[0] for job in jobs], [9, 9])
        jobs[1].state = "PRIORITY"
        self.assertEqual(self.model.update_queue(jobs[1], "q1"), {
            "updating to queue q1 while it is already at max-run-jobs-bank limit is not allowed; try again later"})


class Turns(Case):
    """The jobs that go when a limit has headroom again."""

    NAME = "max-run-sched-jobs-bank"

    def fill_bank(self, **values):
        self.make_site({"scope": "bank", "name": "S", "run-sched-jobs": 1})
        self.add_job("A", 7, "B", "run")
        self.add_job("B", 7, "B", names=[self.NAME], **values), self.add_job("C", 8, "A", names=[self.NAME])
        self.add_job("D", 8, "A", names=[self.NAME], urgency=31)

    def test_the_first_job_of_the_association_with_the_highest_priority_is_released(self):
        self.fill_bank()
        self.assert_plays(*self.make_end_events("A"), *self.make_release_events("C", self.NAME))
        self.assert_differs(*self.make_end_events("C"))
        self.assert_plays(*self.make_end_events("C"), *self.make_release_events("D", self.NAME))
        self.assert_plays(*self.make_end_events("D"), *self.make_release_events("B", self.NAME))

    def test_no_other_job_may_be_released_and_one_job_must_be(self):
        self.fill_bank()
        for other in "BD":
            self.assert_differs(*self.make_end_events("A"), *self.make_release_events(other, self.NAME))
        self.assert_differs(*self.make_end_events("A"))
        self.assert_differs(*self.make_end_events("A"), *self.make_release_events("C", self.NAME), *self.make_release_events("B", self.NAME))

    def test_jobs_with_equal_priorities_go_by_id(self):
        self.fill_bank(urgency=16)
        self.model.associations[7, "B"]["fairshare"] = 0.9
        self.model.jobs[ord("B")].memo = 0.9
        self.assert_differs(*self.make_end_events("A"), *self.make_release_events("C", self.NAME))
        self.assert_plays(*self.make_end_events("A"), *self.make_release_events("B", self.NAME))

    def test_the_urgency_at_submission_counts_because_a_change_is_not_reported(self):
        self.fill_bank()
        self.model.jobs[ord("B")].urgency = 31
        self.assert_plays(*self.make_end_events("A"), *self.make_release_events("C", self.NAME))

    def test_a_job_that_does_not_fit_lets_other_jobs_pass(self):
        self.make_site({"scope": "bank", "name": "S", "run-sched-gpus": 4})
        name = "max-run-sched-gpus-bank"
        self.add_job("A", 7, "B", "run", gpus=2), self.add_job("B", 8, "A", "run", gpus=2)
        self.add_job("C", 8, "A", names=[name], gpus=3), self.add_job("D", 7, "B", names=[name], gpus=1)
        self.assert_plays(*self.make_end_events("A"), *self.make_release_events("D", name))

    def test_names_of_limits_over_scopes_stay_until_the_release(self):
        self.make_site({"scope": "bank", "name": "S", "run-sched-jobs": 2}, max_running_jobs=1)
        self.add_job("A", 7, "B", "run"), self.add_job("B", 8, "A", "run")
        self.add_job("C", 7, "B", names=[RUN, self.NAME])
        self.assert_plays(*self.make_end_events("B"))
        self.add_job("D", 8, "A", "run")
        self.assert_plays(*self.make_end_events("A"), *self.make_release_events("C", RUN, self.NAME))
        self.add_job("E", 9, "C", "run"), self.add_job("F", 7, "A", names=[RUN, self.NAME])
        self.add_job("G", 8, "A", "run"), self.add_job("H", 7, "A", "run")
        self.assert_plays(*self.make_end_events("H"), ("F", "dependency-remove", RUN))

    def test_names_stay_while_the_reservation_of_a_blocked_job_counts_in_the_scan(self):
        """R9: the scan reserves headroom for B, which another plugin blocks. So D exceeds both limits (R5) until the scan ends. If D is unblocked later,
        B has no reservation, so D goes (R10)."""
        self.make_site({"scope": "bank", "name": "S", "sched-jobs": 1}, max_sched_jobs=1)
        both = [SCHED, "max-sched-jobs-bank"]
        self.add_job("A", 7, "B", "sched")
        self.add_job("B", 7, "B", names=both).deps.append("x=1")
        self.add_job("D", 7, "B", names=both).deps.append("x=2")
        for job in "BD":
            self.model.jobs[ord(job)].subscribed = True
        released = [("A", "alloc"), *(("B", "dependency-remove", name) for name in both)]
        self.assert_differs(*released, ("D", "dependency-remove", SCHED))
        self.assert_plays(*released)
        self.assert_differs(("D", "dependency-remove", "x=2"))
        self.assert_plays(("D", "dependency-remove", "x=2"), *self.make_release_events("D", *both))

    def test_a_scan_continues_when_the_eventlogs_of_jobs_under_the_same_limit_are_read(self):
        """R16: a name that is added to another job comes between two releases."""
        self.make_site({"scope": "bank", "name": "S", "run-sched-jobs": 2})
        self.add_job("A", 8, "A", names=[self.NAME]), self.add_job("B", 7, "B", names=[self.NAME])
        self.add_job("C", 9, "C").deps = ["x=1"]

        def read_eventlogs(follower):
            follower.reading, follower.due = {(8, "A"), (7, "B")}, [(8, "A"), (7, "B")]
            follower.rehold = {ord("C"): {NAMES.index(RUN)}}

        events = [*self.make_release_events("A", self.NAME), ("C", "dependency-add", RUN)]
        self.assert_differs(*events, then=read_eventlogs)
        self.assert_plays(*events, *self.make_release_events("B", self.NAME), then=read_eventlogs)

    def test_headroom_in_another_scope_releases_no_job(self):
        self.fill_bank()
        self.add_job("E", 9, "C", "run")
        self.assert_plays(*self.make_end_events("E"))


class Overtaken(Case):
    """Anti-starvation reservations (plugin 9)."""

    USER, BANK = "max-run-sched-gpus-user", "max-run-sched-gpus-bank"

    def add_overtaken_job(self):
        """User 7 has a limit of 16 GPUs and runs 14 in bank B. Their job with 4 GPUs in bank A, which has 4, was overtaken a hundred times."""
        self.make_site({"scope": "user", "name": "*", "run-sched-gpus": 16}, {"scope": "bank", "name": "A", "run-sched-gpus": 4})
        self.add_job("A", 7, "B", "run", gpus=14)
        wide = self.add_job("B", 7, "A", names=[self.USER], gpus=4)
        self.model.overtaken[("user", "7", None), (7, "A")] = (wide.id, 100, 100)
        return wide

    def list_kept(self, job):
        return [NAMES[kind] for kind in self.model.kept_names(job)]

    def test_a_scope_with_headroom_for_the_job_keeps_no_headroom(self):
        self.add_overtaken_job()
        self.assertEqual(self.list_kept(self.add_job("C", 8, "A", gpus=1)), [])
        self.assertEqual(self.list_kept(self.add_job("D", 7, "B", gpus=1)), [self.USER])
        self.assertEqual(self.list_kept(self.add_job("E", 7, "B", gpus=0)), [], "it needs none of it")

    def test_a_job_that_is_held_because_of_another_scope_is_a_difference(self):
        self.add_overtaken_job()
        self.add_job("C", 8, "A", gpus=1, names=[self.BANK])
        self.add_job("D", 8, "A", "run")
        self.assert_differs(*self.make_end_events("D"))
        self.assert_plays(*self.make_end_events("D"), *self.make_release_events("C", self.BANK))

    def test_no_headroom_is_kept_at_urgency_0_or_in_a_stopped_queue(self):
        wide = self.add_overtaken_job()
        own = self.add_job("D", 7, "B", gpus=1)
        wide.told = 0
        self.assertEqual(self.list_kept(own), [])
        wide.told, self.model.is_stopped = 16, True
        self.assertEqual(self.list_kept(own), [self.USER], "nobody has asked")
        self.model.knows_stopped = True
        self.assertEqual(self.list_kept(own), [])

    def test_an_overtaken_job_is_released_first(self):
        self.make_site({"scope": "bank", "name": "A", "run-sched-gpus": 4})
        self.add_job("A", 8, "A", "run", gpus=4)
        wide, _ = self.add_job("B", 7, "A", names=[self.BANK], gpus=4), self.add_job("C", 8, "A", names=[self.BANK], gpus=1)
        self.assert_differs(*self.make_end_events("A"), *self.make_release_events("B", self.BANK))
        self.model.overtaken[("bank", "A", None), (7, "A")] = (wide.id, 100, 100)
        self.assert_plays(*self.make_end_events("A"), *self.make_release_events("B", self.BANK))

    def test_a_job_is_overtaken_by_at_most_110_jobs(self):
        self.make_site({"scope": "bank", "name": "A", "run-sched-gpus": 4})
        self.add_job("A", 8, "A", "run", gpus=4), self.add_job("B", 7, "A", names=[self.BANK], gpus=4)
        small = self.add_job("C", 8, "A", "sched", gpus=1)
        told = [self.model.count_taker(small) for _ in range(111)]
        self.assertEqual((told[109], told[110]), (None, f"job {ord('B')} is overtaken by 111 jobs in ('bank', 'A', None)"))

    def test_a_scope_keeps_no_headroom_for_a_job_that_another_scope_holds(self):
        wide = self.add_overtaken_job()
        small = self.add_job("C", 8, "A", "sched", gpus=1)
        self.assertEqual([self.model.count_taker(small) for _ in range(200)], [None] * 200)
        self.assertIn(wide, self.model.line((7, "A")))


class Lapses(Case):
    """Reservations of released jobs in stopped queues."""

    def test_a_reservation_is_suspended_in_a_queue_that_is_known_to_be_stopped(self):
        for strict, knows, reserving in ((False, False, 1), (False, True, 0), (True, True, 1)):
            self.make_site({"scope": "bank", "name": "S", "run-gpus": 4}, table={"running-limits": "strict"} if strict else {})
            released = self.add_job("A", 7, "B", "sched", gpus=4, grant=True)
            self.model.is_stopped, self.model.knows_stopped = True, knows
            self.assertEqual(len(self.model.split_jobs([released])[2]), reserving, (strict, knows))
            # This job is in a stopped queue, like the released job.
            self.assertEqual(self.list_holds(self.add_job("B", 8, "A", gpus=1)), ["max-run-gpus-bank"], (strict, knows))

    def test_the_plugin_may_ask_for_the_states_of_queues_before_the_last_held_job_goes(self):
        """R7: the query shows whether the reservation of the released job is suspended."""
        for choices, reserving in (((), 1), ((1,), 0)):
            self.make_site()
            job = self.add_job("A", 8, "A", names=[RUN])
            self.model.is_stopped = True
            follower = Follower(self.model, [(job.id, name, context) for name, context in (
                ("dependency-remove", {"description": RUN}), ("depend", {}), ("priority", {"priority": 90000}))], choices)
            follower.due = [(8, "A")]
            follower.run()
            self.assertEqual(len(self.model.split_jobs([job])[2]), reserving, choices)


class Strict(Case):
    """Strict running limits."""

    STRICT = {"running-limits": "strict"}

    def test_a_job_in_sched_counts_by_the_rule_of_its_queue(self):
        for table, want in (
            ({}, []), (self.STRICT, [RUN]), ({"queues": {"q1": self.STRICT}}, [RUN]), ({"queues": {"q2": self.STRICT}}, []),
            (dict(self.STRICT, queues={"q1": {"running-limits": "upstream"}}), []),
        ):
            self.make_site(table=table, max_running_jobs=1)
            self.add_job("A", 7, "A", "sched")
            self.assertEqual(self.list_holds(self.add_job("B", 7, "A", queue="q2")), want, table)

    def test_strict_limits_over_scopes_do_not_count_jobs_of_urgency_0(self):
        self.make_site({"scope": "user", "name": "7", "run-nodes": 2}, table=self.STRICT)
        one, job = self.add_job("A", 7, "B", "sched", nodes=2), self.add_job("B", 7, "A")
        self.assertEqual(self.list_holds(job), ["max-run-nodes-user"])
        one.suspended = True
        self.assertEqual(self.list_holds(job), [])

    def test_leaving_strict_limits_releases_jobs_and_entering_them_holds_none(self):
        self.make_site(table=self.STRICT, max_running_jobs=1)
        self.add_job("A", 7, "A", "sched"), self.add_job("B", 7, "A", names=[RUN])
        self.assert_plays(then=lambda follower: configure(follower, dict(self.STRICT)))
        self.assert_differs(then=lambda follower: configure(follower, {}))
        self.assert_plays(*self.make_release_events("B", RUN), then=lambda follower: configure(follower, {}))
        self.assert_plays(then=lambda follower: configure(follower, self.STRICT))

    def add_jobs_of_urgency_0(self):
        self.make_site(table=self.STRICT, max_running_jobs=1)
        self.add_job("A", 7, "A", "sched", urgency=0, suspended=True), self.add_job("B", 7, "A", "sched")

    def test_a_job_whose_urgency_rises_too_late_is_held_in_sched(self):
        self.add_jobs_of_urgency_0()
        self.assert_differs(("A", "urgency", 16), ("A", "priority", 20000))
        self.assert_differs(("A", "urgency", 16))
        self.assert_plays(("A", "urgency", 16), ("A", "priority", 0))
        self.assertEqual((self.model.jobs[ord("A")].state, self.model.jobs[ord("A")].charge), ("SCHED", None))
        self.assert_plays(*self.make_end_events("B"), ("A", "priority", 20000))
        self.assertEqual((self.model.jobs[ord("A")].state, self.model.jobs[ord("A")].charge), ("SCHED", "sched"))

    def test_a_job_whose_urgency_rises_gets_a_priority_if_there_is_headroom(self):
        self.add_jobs_of_urgency_0()
        self.model.jobs[ord("B")].state = "INACTIVE"
        self.assert_differs(("A", "urgency", 16))
        self.assert_plays(("A", "urgency", 16), ("A", "priority", 20000))

    def test_a_reprioritize_holds_a_job_whose_urgency_rose_too_late(self):
        self.add_jobs_of_urgency_0()
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
