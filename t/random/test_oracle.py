# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the oracle with cases computed by hand: the examples of the release rule, priorities, refusals."""
import unittest

from compare import Follower
from job import NAMES, OWN, Job
from judge import merged
from model import Model
from stream import Difference

Q_RUN, Q_SCHED, Q_NODES, Q_CORES, Q_ALL, RUN, SCHED, ALL = OWN


class Case(unittest.TestCase):
    """A user with one association and jobs named by letters; ids follow the alphabet."""

    def site(self, queues=None, **limits):
        self.model = Model()
        record = dict(userid=5001, bank="A", queues="q1,q2", **limits)
        self.model.update({"associations": [record], "queues": queues or [{"queue": "q1"}], "projects": []})

    def job(self, name, charge=None, nodes=1, names=(), foreign=(), **values):
        state = {"run": "RUN", "sched": "SCHED"}.get(charge, "DEPEND")
        job = Job(id=ord(name), uid=5001, nodes=nodes, cores=nodes, queue="q1", bank="A", project="*", state=state,
                  deps=list(foreign) + list(names), charge=charge, assoc=(5001, "A"), memo=0.5, was_held=bool(names))
        job.used, job.subscribed, job.priority = set(job.deps), bool(foreign), 50000
        for key, value in values.items():
            setattr(job, key, value)
        self.model.jobs[job.id] = job
        return job

    def play(self, *events, reads=False, **decided):
        """Reads events (job, name[, context]), which must be exactly the events that the plugin must post."""
        self.model.decided = decided
        full = []
        for job, name, *said in events:
            key = {"priority": "priority"}.get(name, "description")
            context = {"severity": 0, "type": "cancel"} if name == "exception" else {key: said[0]} if said else {}
            full.append((ord(job), name, context))
        follower = Follower(self.model, full)
        if reads:
            # As after a replay: the eventlogs of the association are being read, and a release scan is due after that.
            follower.reading, follower.due = {(5001, "A")}, [(5001, "A")]
        follower.run()

    def goes(self, name, *names):
        """Returns the events of the release of a job."""
        return [(name, "dependency-remove", one) for one in names] + [(name, "depend"), (name, "priority", 50000)]

    def held(self):
        return {chr(int(jobid)): entry["deps"] for jobid, entry in self.model.held((5001, "A")).items()}

    def differs(self, *events, **decided):
        before, self.model = self.model, self.model.clone()
        with self.assertRaises(Difference):
            self.play(*events, **decided)
        self.model = before


class Release(Case):
    """The examples of section 5.2, by their numbers."""

    def test_1_one_place_in_sched_frees_the_first(self):
        self.site(max_sched_jobs=2)
        self.job("A", "run"), self.job("B", "sched"), self.job("C", "sched")
        self.job("D", names=[SCHED]), self.job("E", names=[SCHED])
        events = [("A", "exception"), ("A", "clean"), ("B", "alloc")] + self.goes("D", SCHED)
        self.play(*events)
        self.assertEqual(self.held(), {"E": [SCHED]})
        self.assertEqual(self.model.counts((5001, "A"))[0]["cur_sched_jobs"], 2)

    def test_1_the_second_one_must_stay(self):
        self.site(max_sched_jobs=2)
        self.job("B", "sched"), self.job("C", "sched"), self.job("D", names=[SCHED]), self.job("E", names=[SCHED])
        self.differs(("B", "alloc"), *self.goes("E", SCHED))
        self.differs(("B", "alloc"), *self.goes("D", SCHED), *self.goes("E", SCHED))
        self.differs(("B", "alloc"))

    def test_after_a_replay_a_pass_waits_for_eventlogs_and_comes(self):
        self.site(max_sched_jobs=2)
        self.job("B", "sched"), self.job("C", "sched"), self.job("D", names=[SCHED])
        late = [("B", "alloc"), ("C", "alloc")] + self.goes("D", SCHED)
        self.differs(*late)
        self.differs(("B", "alloc"), ("C", "alloc"), reads=True)
        self.play(*late, reads=True)

    def two_and_2b(self):
        self.site(max_running_jobs=2, max_nodes=3)
        self.job("A", "run", nodes=2), self.job("B", "run"), self.job("C", nodes=2, names=[RUN, ALL])

    def test_2_the_satisfied_name_goes_the_job_stays(self):
        self.two_and_2b()
        self.play(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", RUN))
        self.assertEqual(self.held(), {"C": [ALL]})
        self.assertEqual(self.model.exceeded(self.model.jobs[ord("C")]), [NAMES.index(ALL)])

    def test_2b_then_all_are_satisfied(self):
        self.two_and_2b()
        self.play(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", RUN),
                  ("A", "exception"), ("A", "clean"), *self.goes("C", ALL))
        self.assertEqual(self.held(), {})

    def test_2b_the_last_name_stays_for_an_unnamed_limit(self):
        self.two_and_2b()
        self.model.jobs[ord("C")].deps = [ALL]
        self.job("D", "run")
        self.play(("A", "exception"), ("A", "clean"))
        self.assertEqual(self.held(), {"C": [ALL]})

    def three(self):
        self.site(max_sched_jobs=1)
        self.job("A", "run"), self.job("B", "sched")
        after = [f"after-finish={ord('A')}"]
        self.job("C", names=[SCHED], foreign=after), self.job("D", names=[SCHED], foreign=after)
        return after[0]

    def test_3_a_blocked_grant_counts_in_its_pass(self):
        self.three()
        self.play(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", SCHED))
        self.assertEqual(self.held(), {"D": [SCHED]})

    def test_3_and_nobody_else_goes(self):
        self.three()
        self.differs(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", SCHED),
                     ("D", "dependency-remove", SCHED))

    def test_3b_the_other_plugin_lets_both_go(self):
        after = self.three()
        self.play(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", SCHED),
                  ("A", "exception"), ("A", "clean"), ("C", "dependency-remove", after), ("C", "depend"),
                  ("C", "priority", 50000), ("D", "dependency-remove", after), ("C", "alloc"), *self.goes("D", SCHED))
        counts = self.model.counts((5001, "A"))[0]
        self.assertEqual((counts["cur_run_jobs"], counts["cur_sched_jobs"], self.held()), (1, 1, {}))

    def test_4_cores_of_one_let_one_go(self):
        self.site(max_cores=2)
        self.job("A", "run", cores=2), self.job("B", cores=2, names=[ALL]), self.job("C", cores=2, names=[ALL])
        self.differs(("A", "exception"), ("A", "clean"), *self.goes("B", ALL), *self.goes("C", ALL))

    def test_5_a_released_job_keeps_its_room(self):
        self.site(max_running_jobs=1)
        self.job("B", "sched", grant=True), self.job("C", names=[RUN])
        follower = Follower(self.model, [])
        follower.reprioritize()
        follower.run()
        self.assertEqual(self.held(), {"C": [RUN]})

    def test_5_not_while_it_can_never_be_scheduled(self):
        self.site(max_running_jobs=1, fairshare=0)
        one, other = self.job("B", "sched", grant=True, urgency=0), self.job("C", names=[RUN], urgency=31)
        for one.urgency, is_suspended in ((0, True), (16, True), (31, False)):
            # As its priority says when Flux asks for it, and unchanged until then.
            before = self.model.exceeded(other)
            self.assertEqual(self.model.is_suspended(one), is_suspended)
            self.assertEqual(self.model.exceeded(other), before)
            one.suspended = is_suspended
            self.assertEqual(self.model.exceeded(other), [] if is_suspended else [5])
        self.model.zero_score = "floor"
        self.assertEqual(self.model.exceeded(self.model.jobs[ord("C")]), [5])

    def test_6_what_does_not_fit_is_skipped(self):
        self.site(max_nodes=4)
        self.job("A", "run", nodes=3), self.job("X", "run")
        self.job("B", nodes=4, names=[ALL]), self.job("C", names=[ALL])
        self.play(("X", "exception"), ("X", "clean"), *self.goes("C", ALL))
        self.assertEqual(self.held(), {"B": [ALL]})

    def test_7_a_start_frees_as_many_as_fit(self):
        self.site(queues=[{"queue": "q1", "max_sched_nodes_per_assoc": 4, "max_sched_cores_per_assoc": 4}])
        self.job("S", "sched", nodes=4)
        self.job("A", nodes=2, names=[Q_NODES, Q_CORES]), self.job("B", nodes=2, names=[Q_NODES, Q_CORES])
        self.play(("S", "alloc"), *self.goes("A", Q_NODES, Q_CORES), *self.goes("B", Q_NODES, Q_CORES))

    def test_8_another_queue_frees_nobody(self):
        self.site(queues=[{"queue": "q1", "max_running_jobs": 1}, {"queue": "q2"}])
        self.job("X", "run"), self.job("A", names=[Q_RUN]), self.job("Y", "run", queue="q2")
        self.play(("Y", "exception"), ("Y", "clean"))
        self.assertEqual(self.held(), {"A": [Q_RUN]})

    def test_10_a_cancelled_held_job_frees_its_place_among_the_active(self):
        self.site(max_running_jobs=1)
        self.job("A", "run"), self.job("B", names=[RUN])
        self.play(("B", "exception"), ("B", "clean"))
        self.assertEqual((self.held(), self.model.counts((5001, "A"))[0]["cur_active_jobs"]), ({}, 1))


class Judged(Case):
    """5.1 #6: jobs that another plugin unblocks."""

    def test_dependents_of_one_job_stay_below_the_cap_of_the_queue(self):
        self.site(queues=[{"queue": "q1", "max_nodes_per_assoc": 1}])
        after = f"after-finish={ord('K')}"
        self.job("K", "sched", queue="q2")
        for name in "LMNO":
            self.job(name, foreign=[after])
        held = [event for name in "MNO" for event in
                ((name, "dependency-remove", after), (name, "dependency-add", Q_ALL))]
        self.play(("K", "exception"), ("K", "clean"), ("L", "dependency-remove", after), ("L", "depend"),
                  ("L", "priority", 50000), *held, judged_reserves=False)
        self.assertEqual(self.held(), {"M": [Q_ALL], "N": [Q_ALL], "O": [Q_ALL]})

    def test_a_name_that_was_used_comes_with_a_number(self):
        self.site(max_running_jobs=1)
        job = self.job("B", foreign=["keep=x"], was_held=True)
        job.used.add(RUN)
        self.job("C", "run")
        self.play(("B", "dependency-remove", "keep=x"), ("B", "dependency-add", RUN + ".2"))
        self.assertEqual(self.held(), {"B": [RUN + ".2"]})
        self.differs(("B", "dependency-remove", RUN + ".2"))

    def test_those_that_nobody_keeps_go_first(self):
        self.site(max_running_jobs=1)
        self.job("A", "run"), self.job("B", names=[RUN], foreign=["keep=x"]), self.job("C", names=[RUN])
        self.play(("A", "exception"), ("A", "clean"), *self.goes("C", RUN))
        self.assertEqual(self.held(), {"B": [RUN]})


class Prices(Case):
    """4.4, with the figures of flux-accounting's tests."""

    def price(self, fairshare, weights, urgency=16, queue=0):
        self.site(queues=[{"queue": "q1", "priority": queue}], fairshare=fairshare)
        self.model.weights.update(weights)
        return self.model.price(self.job("A", "sched", urgency=urgency))[1]

    def test_figures(self):
        self.assertEqual(self.price(0.45321, {"urgency": 1}, urgency=15), 45320)
        self.assertEqual(self.price(0.5, {}, queue=10000), 100050000)
        self.assertEqual(self.price(0.5, {}, urgency=0), 0)
        self.assertEqual(self.price(0.5, {}, urgency=31), 4294967295)
        self.assertEqual(self.price(0.0, {}), 0)
        self.assertEqual(self.price(0.5, {"queue": 10000000}, queue=10000), 4294967294)


class Refusals(Case):
    """4.1 and 4.6."""

    def test_sizes_and_counts(self):
        self.site(max_nodes=2, max_active_jobs=1)
        big = self.job("A", nodes=3)
        self.assertEqual(self.model.validate(big), ["user has max active jobs"])
        self.assertIn("3 node(s), 3 core(s)", self.model.validate(big, new=False)[0])

    def test_a_move_to_a_full_queue(self):
        self.site(queues=[{"queue": "q1"}, {"queue": "q2", "max_running_jobs": 1}])
        self.job("A", "run", queue="q2")
        job = self.job("B", "sched")
        self.assertEqual(self.model.update_queue(job, "q2"), {
            f"updating to queue q2 while it is already at {Q_RUN} limit is not allowed; try again later"})
        job.state = "DEPEND"
        self.assertEqual(self.model.update_queue(job, "q2"), {None})


class Open(unittest.TestCase):
    """Open questions that no event has decided yet."""

    def test_two_ways_that_end_alike_leave_the_question_open(self):
        ways = [Model(sees_undeclared=value, judged_reserves=True) for value in (False, True)]
        self.assertEqual([model.decided for model in merged(ways)], [{"judged_reserves": True}])


if __name__ == "__main__":
    unittest.main()
