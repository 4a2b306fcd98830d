# SPDX-License-Identifier: LGPL-3.0-only
"""Tests the oracle with cases computed by hand: the examples of the release rule, priorities, refusals."""
import unittest

from compare import Follower
from job import NAMES, OWN, Job
from judge import merge_models
from model import Model
from stream import Difference

Q_RUN, Q_SCHED, Q_NODES, Q_CORES, Q_ALL, RUN, SCHED, ALL = OWN


class Case(unittest.TestCase):
    """A user with one association and jobs named by letters; ids follow the alphabet."""

    def make_site(self, queues=None, **limits):
        self.model = Model()
        record = dict(userid=5001, bank="A", queues="q1,q2", **limits)
        self.model.update({"associations": [record], "queues": queues or [{"queue": "q1"}], "projects": []})

    def add_job(self, name, charge=None, nodes=1, names=(), foreign=(), **values):
        state = {"run": "RUN", "sched": "SCHED"}.get(charge, "DEPEND")
        job = Job(id=ord(name), uid=5001, nodes=nodes, cores=nodes, queue="q1", bank="A", project="*", state=state,
                  deps=list(foreign) + list(names), charge=charge, assoc=(5001, "A"), memo=0.5, was_held=bool(names))
        job.used, job.subscribed, job.priority = set(job.deps), bool(foreign), 50000
        for key, value in values.items():
            setattr(job, key, value)
        self.model.jobs[job.id] = job
        return job

    def assert_plays(self, *events, reads=False, **decided):
        """Reads events (job, name[, context]), which must be exactly the events that the plugin must post."""
        self.model.decided = decided
        full = []
        for job, name, *said in events:
            key = {"priority": "priority", "urgency": "urgency"}.get(name, "description")
            context = {"severity": 0, "type": "cancel"} if name == "exception" else {key: said[0]} if said else {}
            full.append((ord(job), name, context))
        follower = Follower(self.model, full)
        if reads:
            # As after a replay, the plugin first reads the eventlogs of the association and then makes a release scan.
            follower.reading, follower.due = {(5001, "A")}, [(5001, "A")]
        follower.run()

    def make_release_events(self, name, *names):
        """Returns the events of the release of a job."""
        return [(name, "dependency-remove", one) for one in names] + [(name, "depend"), (name, "priority", 50000)]

    def list_held(self):
        return {chr(int(jobid)): entry["deps"] for jobid, entry in self.model.held((5001, "A")).items()}

    def assert_differs(self, *events, **decided):
        before, self.model = self.model, self.model.clone()
        with self.assertRaises(Difference):
            self.assert_plays(*events, **decided)
        self.model = before


class Release(Case):
    """The examples of section 5.2, by their numbers."""

    def test_1_headroom_for_one_job_in_sched_releases_the_first_job(self):
        self.make_site(max_sched_jobs=2)
        self.add_job("A", "run"), self.add_job("B", "sched"), self.add_job("C", "sched")
        self.add_job("D", names=[SCHED]), self.add_job("E", names=[SCHED])
        events = [("A", "exception"), ("A", "clean"), ("B", "alloc")] + self.make_release_events("D", SCHED)
        self.assert_plays(*events)
        self.assertEqual(self.list_held(), {"E": [SCHED]})
        self.assertEqual(self.model.counts((5001, "A"))[0]["cur_sched_jobs"], 2)

    def test_1_the_second_job_stays_held(self):
        self.make_site(max_sched_jobs=2)
        self.add_job("B", "sched"), self.add_job("C", "sched"), self.add_job("D", names=[SCHED]), self.add_job("E", names=[SCHED])
        self.assert_differs(("B", "alloc"), *self.make_release_events("E", SCHED))
        self.assert_differs(("B", "alloc"), *self.make_release_events("D", SCHED), *self.make_release_events("E", SCHED))
        self.assert_differs(("B", "alloc"))

    def test_after_a_replay_a_release_scan_waits_for_the_eventlogs(self):
        self.make_site(max_sched_jobs=2)
        self.add_job("B", "sched"), self.add_job("C", "sched"), self.add_job("D", names=[SCHED])
        late = [("B", "alloc"), ("C", "alloc")] + self.make_release_events("D", SCHED)
        self.assert_differs(*late)
        self.assert_differs(("B", "alloc"), ("C", "alloc"), reads=True)
        self.assert_plays(*late, reads=True)

    def test_a_scan_follows_the_release_of_a_job_in_sched_at_priority_0(self):
        """R7, R9: the release of B reserves headroom, which the priority 0 frees. So the reservation of the blocked job C ends before D is tested."""
        self.make_site(max_running_jobs=1)
        self.add_job("A", "run"), self.add_job("C", names=[RUN], foreign=["x=1"]), self.add_job("D", names=[RUN], foreign=["x=2"])
        events = [("A", "exception"), ("A", "clean"), ("C", "dependency-remove", RUN)]
        both = events + [("D", "dependency-remove", RUN)]
        self.assert_differs(*both, grants_bind_kept=False)
        held = dict(waits=True, in_line=True, in_sched=True, urgency=0, told=0, priority=0, memo=None)
        self.add_job("B", "sched", **held).charge = None
        self.assert_differs(*events, grants_bind_kept=False)
        self.assert_plays(*both, grants_bind_kept=False)

    def test_a_limit_in_reach_shows_that_a_job_in_sched_was_released(self):
        """R16"""
        for cap, is_found in ((3, False), (2, True)):
            self.make_site(max_running_jobs=cap)
            self.add_job("A", "run")
            job = self.add_job("B", "sched", was_held=True, unread=True)
            self.model.read_eventlogs()
            self.assertEqual(job.grant, is_found)

    def add_new_jobs(self, names):
        for name in names:
            self.add_job(name, state="NEW")

    def test_new_jobs_wait_for_the_eventlogs_of_jobs_for_which_they_bring_a_limit_in_reach(self):
        """R16"""
        for jobs, is_in_reach in (("B", False), ("BC", True)):
            self.make_site(max_running_jobs=3)
            self.add_job("A", "sched", unread=True)
            self.add_new_jobs(jobs)
            accepted = [[(name, "validate"), (name, "depend")] for name in jobs]
            at_once = [event for events in accepted for event in [*events, (events[0][0], "priority", 50000)]]
            later = sum(accepted, []) + [(name, "priority", 50000) for name in jobs]
            if is_in_reach:
                self.assert_differs(*at_once)
                self.assert_differs(*sum(accepted, []))
            self.assert_plays(*later)
            self.assertEqual([self.model.jobs[ord(name)].grant for name in "A" + jobs], [False] + [is_in_reach] * len(jobs))

    def test_a_job_in_sched_counts_as_released_while_its_eventlog_is_read(self):
        """R16: the eventlog shows that A was never held. Then A has no reservation, and B goes."""
        self.make_site(max_running_jobs=1)
        self.add_job("A", "sched", unread=True)
        self.add_new_jobs("B")
        held = [("B", "validate"), ("B", "dependency-add", RUN)]
        self.assert_differs(("B", "validate"), ("B", "depend"), ("B", "priority", 50000))
        self.assert_differs(*held)
        self.assert_plays(*held, *self.make_release_events("B", RUN))

    def set_up_examples_2_and_2b(self):
        self.make_site(max_running_jobs=2, max_nodes=3)
        self.add_job("A", "run", nodes=2), self.add_job("B", "run"), self.add_job("C", nodes=2, names=[RUN, ALL])

    def test_2_a_satisfied_name_is_removed_and_the_job_stays_held(self):
        self.set_up_examples_2_and_2b()
        self.assert_plays(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", RUN))
        self.assertEqual(self.list_held(), {"C": [ALL]})
        self.assertEqual(self.model.exceeded(self.model.jobs[ord("C")]), [NAMES.index(ALL)])

    def test_2b_a_job_is_released_when_all_its_names_are_satisfied(self):
        self.set_up_examples_2_and_2b()
        self.assert_plays(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", RUN),
                  ("A", "exception"), ("A", "clean"), *self.make_release_events("C", ALL))
        self.assertEqual(self.list_held(), {})

    def test_2b_the_last_name_stays_while_a_limit_without_a_name_is_full(self):
        self.set_up_examples_2_and_2b()
        self.model.jobs[ord("C")].deps = [ALL]
        self.add_job("D", "run")
        self.assert_plays(("A", "exception"), ("A", "clean"))
        self.assertEqual(self.list_held(), {"C": [ALL]})

    def add_three_jobs(self):
        self.make_site(max_sched_jobs=1)
        self.add_job("A", "run"), self.add_job("B", "sched")
        after = [f"after-finish={ord('A')}"]
        self.add_job("C", names=[SCHED], foreign=after), self.add_job("D", names=[SCHED], foreign=after)
        return after[0]

    def test_3_the_reservation_of_a_blocked_job_counts_in_its_release_scan(self):
        self.add_three_jobs()
        self.assert_plays(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", SCHED))
        self.assertEqual(self.list_held(), {"D": [SCHED]})

    def test_3_a_release_scan_releases_no_further_job(self):
        self.add_three_jobs()
        self.assert_differs(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", SCHED),
                     ("D", "dependency-remove", SCHED))

    def test_3b_the_other_plugin_unblocks_both_jobs(self):
        after = self.add_three_jobs()
        self.assert_plays(("B", "exception"), ("B", "clean"), ("C", "dependency-remove", SCHED),
                  ("A", "exception"), ("A", "clean"), ("C", "dependency-remove", after), ("C", "depend"),
                  ("C", "priority", 50000), ("D", "dependency-remove", after), ("C", "alloc"), *self.make_release_events("D", SCHED))
        counts = self.model.counts((5001, "A"))[0]
        self.assertEqual((counts["cur_run_jobs"], counts["cur_sched_jobs"], self.list_held()), (1, 1, {}))

    def test_4_the_cores_of_one_ended_job_release_one_job(self):
        self.make_site(max_cores=2)
        self.add_job("A", "run", cores=2), self.add_job("B", cores=2, names=[ALL]), self.add_job("C", cores=2, names=[ALL])
        self.assert_differs(("A", "exception"), ("A", "clean"), *self.make_release_events("B", ALL), *self.make_release_events("C", ALL))

    def test_5_a_released_job_keeps_its_reservation(self):
        self.make_site(max_running_jobs=1)
        self.add_job("B", "sched", grant=True), self.add_job("C", names=[RUN])
        follower = Follower(self.model, [])
        follower.reprioritize()
        follower.run()
        self.assertEqual(self.list_held(), {"C": [RUN]})

    def test_5_a_reservation_is_suspended_while_the_job_cannot_be_scheduled(self):
        self.make_site(max_running_jobs=1, fairshare=0)
        one, other = self.add_job("B", "sched", grant=True, urgency=0), self.add_job("C", names=[RUN], urgency=31)
        for one.urgency, is_suspended in ((0, True), (16, True), (31, False)):
            # The reservation changes only when Flux asks for the priority of the job.
            before = self.model.exceeded(other)
            self.assertEqual(self.model.is_suspended(one), is_suspended)
            self.assertEqual(self.model.exceeded(other), before)
            one.suspended = is_suspended
            self.assertEqual(self.model.exceeded(other), [] if is_suspended else [5])
        self.model.zero_score = "floor"
        self.assertEqual(self.model.exceeded(self.model.jobs[ord("C")]), [5])

    def test_6_a_job_that_does_not_fit_is_skipped(self):
        self.make_site(max_nodes=4)
        self.add_job("A", "run", nodes=3), self.add_job("X", "run")
        self.add_job("B", nodes=4, names=[ALL]), self.add_job("C", names=[ALL])
        self.assert_plays(("X", "exception"), ("X", "clean"), *self.make_release_events("C", ALL))
        self.assertEqual(self.list_held(), {"B": [ALL]})

    def test_7_a_start_releases_as_many_jobs_as_fit(self):
        self.make_site(queues=[{"queue": "q1", "max_sched_nodes_per_assoc": 4, "max_sched_cores_per_assoc": 4}])
        self.add_job("S", "sched", nodes=4)
        self.add_job("A", nodes=2, names=[Q_NODES, Q_CORES]), self.add_job("B", nodes=2, names=[Q_NODES, Q_CORES])
        self.assert_plays(("S", "alloc"), *self.make_release_events("A", Q_NODES, Q_CORES), *self.make_release_events("B", Q_NODES, Q_CORES))

    def test_8_headroom_in_another_queue_releases_no_job(self):
        self.make_site(queues=[{"queue": "q1", "max_running_jobs": 1}, {"queue": "q2"}])
        self.add_job("X", "run"), self.add_job("A", names=[Q_RUN]), self.add_job("Y", "run", queue="q2")
        self.assert_plays(("Y", "exception"), ("Y", "clean"))
        self.assertEqual(self.list_held(), {"A": [Q_RUN]})

    def test_10_a_cancelled_held_job_no_longer_counts_as_active(self):
        self.make_site(max_running_jobs=1)
        self.add_job("A", "run"), self.add_job("B", names=[RUN])
        self.assert_plays(("B", "exception"), ("B", "clean"))
        self.assertEqual((self.list_held(), self.model.counts((5001, "A"))[0]["cur_active_jobs"]), ({}, 1))


class WithoutData(Case):
    def test_a_job_in_sched_keeps_its_priority_when_its_urgency_changes(self):
        """P10"""
        for urgency, before, after in ((20, 50000, 50000), (16, 0, 0), (16, 4294967295, 0), (31, 50000, 4294967295), (0, 50000, 0)):
            self.make_site()
            self.add_job("A", "sched", assoc=None, bank="Z", replayed=True, priority=before)
            self.assert_differs(("A", "urgency", urgency))
            self.assert_plays(("A", "urgency", urgency), ("A", "priority", after))


class Judged(Case):
    """5.1 #6: jobs that another plugin unblocks."""

    def test_dependents_of_one_job_stay_below_the_cap_of_the_queue(self):
        self.make_site(queues=[{"queue": "q1", "max_nodes_per_assoc": 1}])
        after = f"after-finish={ord('K')}"
        self.add_job("K", "sched", queue="q2")
        for name in "LMNO":
            self.add_job(name, foreign=[after])
        held = [event for name in "MNO" for event in
                ((name, "dependency-remove", after), (name, "dependency-add", Q_ALL))]
        self.assert_plays(("K", "exception"), ("K", "clean"), ("L", "dependency-remove", after), ("L", "depend"),
                  ("L", "priority", 50000), *held, judged_reserves=False)
        self.assertEqual(self.list_held(), {"M": [Q_ALL], "N": [Q_ALL], "O": [Q_ALL]})

    def test_a_name_that_was_removed_returns_with_a_number(self):
        self.make_site(max_running_jobs=1)
        job = self.add_job("B", foreign=["keep=x"], was_held=True)
        job.used.add(RUN)
        self.add_job("C", "run")
        self.assert_plays(("B", "dependency-remove", "keep=x"), ("B", "dependency-add", RUN + ".2"))
        self.assertEqual(self.list_held(), {"B": [RUN + ".2"]})
        self.assert_differs(("B", "dependency-remove", RUN + ".2"))

    def test_jobs_that_are_not_blocked_go_first(self):
        self.make_site(max_running_jobs=1)
        self.add_job("A", "run"), self.add_job("B", names=[RUN], foreign=["keep=x"]), self.add_job("C", names=[RUN])
        self.assert_plays(("A", "exception"), ("A", "clean"), *self.make_release_events("C", RUN))
        self.assertEqual(self.list_held(), {"B": [RUN]})

    def test_a_replayed_job_that_is_unblocked_during_a_push_waits_for_the_reprioritize(self):
        """R17: the push gave B its association, and no reprioritize followed."""
        self.make_site()
        self.add_job("B", foreign=["x=1"], replayed=True, late=True)
        self.model.is_stale = True
        unblocked = [("B", "dependency-remove", "x=1"), ("B", "depend")]
        self.assert_differs(*unblocked, ("B", "priority", 50000))
        self.assert_plays(*unblocked)

    def test_a_scan_follows_the_scan_that_found_a_blocked_job(self):
        """R9: the release shows that another plugin blocks B. When the scan ends, B has no reservation, so C goes."""
        self.make_site(max_running_jobs=1)
        self.add_job("A", "run"), self.add_job("C", names=[RUN])
        self.add_job("B", names=[RUN], foreign=["x=1"], subscribed=False)
        released = [("A", "exception"), ("A", "clean"), ("B", "dependency-remove", RUN)]
        decided = {"sees_undeclared": False, "discovered_binds": True}
        self.assert_differs(*released, **decided)
        self.assert_plays(*released, *self.make_release_events("C", RUN), **decided)


class Prices(Case):
    """4.4, with the figures of flux-accounting's tests."""

    def compute_priority(self, fairshare, weights, urgency=16, queue=0):
        self.make_site(queues=[{"queue": "q1", "priority": queue}], fairshare=fairshare)
        self.model.weights.update(weights)
        return self.model.compute_priority(self.add_job("A", "sched", urgency=urgency))[1]

    def test_priorities_equal_those_of_flux_accountings_tests(self):
        self.assertEqual(self.compute_priority(0.45321, {"urgency": 1}, urgency=15), 45320)
        self.assertEqual(self.compute_priority(0.5, {}, queue=10000), 100050000)
        self.assertEqual(self.compute_priority(0.5, {}, urgency=0), 0)
        self.assertEqual(self.compute_priority(0.5, {}, urgency=31), 4294967295)
        self.assertEqual(self.compute_priority(0.0, {}), 0)
        self.assertEqual(self.compute_priority(0.5, {"queue": 10000000}, queue=10000), 4294967294)


class Refusals(Case):
    """4.1 and 4.6."""

    def test_sizes_and_counts_of_jobspecs(self):
        self.make_site(max_nodes=2, max_active_jobs=1)
        big = self.add_job("A", nodes=3)
        self.assertEqual(self.model.validate(big), ["user has max active jobs"])
        self.assertIn("3 node(s), 3 core(s)", self.model.validate(big, new=False)[0])

    def test_a_job_may_not_move_to_a_full_queue(self):
        self.make_site(queues=[{"queue": "q1"}, {"queue": "q2", "max_running_jobs": 1}])
        self.add_job("A", "run", queue="q2")
        job = self.add_job("B", "sched")
        self.assertEqual(self.model.update_queue(job, "q2"), {
            f"updating to queue q2 while it is already at {Q_RUN} limit is not allowed; try again later"})
        job.state = "DEPEND"
        self.assertEqual(self.model.update_queue(job, "q2"), {None})


class Open(unittest.TestCase):
    """Open questions that no event has decided yet."""

    def test_two_decisions_with_equal_events_stay_possible(self):
        ways = [Model(sees_undeclared=value, judged_reserves=True) for value in (False, True)]
        self.assertEqual([model.decided for model in merge_models(ways)], [{"judged_reserves": True}])


if __name__ == "__main__":
    unittest.main()
