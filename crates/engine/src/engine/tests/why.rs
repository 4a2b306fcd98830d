// SPDX-License-Identifier: LGPL-3.0-only
//! Explanations of jobs (`why`). The tests compare each explanation with what later happens to the job in the model
//! host.

use super::host::Host;
use super::live::{accounts, leaf, make_host_with_live_fairshare, tree};
use super::release_bounds::{any_queue_rules, apply_queue_rules};
use super::site::{HostJob, NOW, association, make_engine_with_associations, queue, record};
use crate::accounts::{Association, AssociationRecord, ConfigPatch, Queue};
use crate::engine::answers::{
    self, AssociationFilter, BankStats, Check, Explained, Heading, JobFilter, JobsPage, Open, Standings,
    Stats, Why,
};
use crate::engine::{Effect, Event, Settings, State};
use crate::ids::{JobId, Limit, UserId, f58};
use fairshare::Policy;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

pub fn explain_job(host: &Host, id: JobId) -> Why {
    answers::why(&host.engine.view(), &Host::facts(id, &host.jobs[&id]), host.now).unwrap()
}

pub fn timed_job(user: u32, limit: f64) -> HostJob {
    HostJob { limit: Some(limit), duration: limit, ..HostJob::new(user) }
}

pub fn limited_record(running: i64, nodes: i64) -> AssociationRecord {
    let own_association =
        Association { max_running_jobs: Limit(running), max_nodes: Limit(nodes), ..association(7, "A") };
    record(own_association, "A")
}

#[test]
fn an_explanation_names_the_limits_that_a_held_job_would_exceed_now() {
    let mut host = Host::with_data(vec![limited_record(1, 2)], vec![queue("q1")]);
    let first_job = host.run_new_job(timed_job(7, 100.0));
    let held = host.submit(timed_job(7, 100.0).size(2, 2)).unwrap();
    let explanation = explain_job(&host, held);
    let limits: Vec<_> = explanation
        .holds
        .iter()
        .map(|hold| (hold.limit.as_ref(), hold.used, hold.cap, hold.needed))
        .collect();
    assert_eq!(limits, [("max-running-jobs-user-limit", 1, 1, 1), ("max-resources-user-limit", 1, 2, 2)]);
    let frees: Vec<_> = explanation.holds[0].frees.iter().map(|one| (one.id, one.amount)).collect();
    assert_eq!(frees, [(first_job, 1)]);
    // After the limit on jobs is raised, the limit on nodes alone holds the job.
    host.send_event(Event::Associations(vec![limited_record(9, 2)]));
    let explanation = explain_job(&host, held);
    assert_eq!(
        explanation.holds.iter().map(|hold| hold.limit.as_ref()).collect::<Vec<_>>(),
        ["max-resources-user-limit"]
    );
    assert_eq!(explanation.release.latest, host.jobs[&first_job].started.map(|start| start + 100.0));
    host.send_event(Event::Associations(vec![limited_record(9, 1)]));
    let explanation = explain_job(&host, held);
    assert_eq!(
        (explanation.release.reason.code.as_ref(), explanation.helps.last().map(|help| help.code.as_ref())),
        ("never", Some("ask"))
    );
}

#[test]
fn an_explanation_names_the_jobs_whose_end_frees_headroom_in_the_order_of_their_ends() {
    let mut host = Host::with_data(vec![limited_record(2, 99)], vec![queue("q1")]);
    let [late_job, early_job] = [200.0, 100.0].map(|limit| host.submit(timed_job(7, limit)).unwrap());
    host.start_job(late_job);
    host.start_job(early_job);
    let held_job = host.submit(timed_job(7, 100.0)).unwrap();
    let hold = explain_job(&host, held_job).holds.remove(0);
    assert_eq!(hold.text, "2 of 2 running jobs of user 7 in bank A are in use; this job takes 1");
    assert_eq!(hold.frees.iter().map(|one| one.id).collect::<Vec<_>>(), [early_job, late_job]);
    let first = host.jobs[&early_job].started.map(|start| start + 100.0);
    assert_eq!((hold.frees_total, hold.latest), (2, first), "one end is enough");
}

#[test]
fn why_counts_all_jobs_whose_end_frees_headroom_and_names_twenty() {
    let mut host = Host::with_data(vec![limited_record(21, 99)], vec![queue("q1")]);
    for _ in 0..21 {
        host.run_new_job(timed_job(7, 100.0));
    }
    let held_job = host.submit(timed_job(7, 100.0)).unwrap();
    let hold = explain_job(&host, held_job).holds.remove(0);
    assert_eq!((hold.frees.len(), hold.frees_total), (20, 21));
}

#[test]
fn only_jobs_of_the_same_queue_free_headroom_of_a_queue_limit() {
    let small_queue = Queue { max_running_jobs: Limit(1), ..queue("q1") };
    let mut host = Host::with_data(vec![limited_record(9, 99)], vec![small_queue, queue("q2")]);
    let [other_job, own_job] = ["q2", "q1"].map(|name| host.submit(timed_job(7, 100.0).queue(name)).unwrap());
    host.start_job(other_job);
    host.start_job(own_job);
    let held_job = host.submit(timed_job(7, 100.0).queue("q1")).unwrap();
    let hold = explain_job(&host, held_job).holds.remove(0);
    assert_eq!(hold.text, "1 of 1 running jobs of user 7 in bank A in queue q1 are in use; this job takes 1");
    assert_eq!(
        (hold.frees.iter().map(|one| one.id).collect::<Vec<_>>(), hold.frees_total),
        (vec![own_job], 1)
    );
}

#[test]
fn a_blocked_job_is_not_held_by_a_full_limit() {
    let mut host = Host::with_data(vec![limited_record(1, 99)], vec![queue("q1")]);
    let blocked_job = host.submit(HostJob::new(7).blocked_by("after-finish=17")).unwrap();
    host.run_new_job(HostJob::new(7));
    assert_eq!(explain_job(&host, blocked_job).holds, []);
}

#[test]
fn an_explanation_suggests_a_bank_only_if_the_update_is_accepted() {
    for (most, helps) in [(1, false), (2, true)] {
        let other = association(7, "B");
        let other = record(Association { max_active_jobs: Limit(most), ..other }, "A");
        let mut host = Host::with_data(vec![limited_record(1, 99), other], vec![queue("q1")]);
        host.submit(timed_job(7, 100.0).bank("B")).unwrap();
        host.run_new_job(timed_job(7, 100.0));
        let held_job = host.submit(timed_job(7, 100.0)).unwrap();
        let is_suggested = explain_job(&host, held_job).helps.iter().any(|help| help.code == "bank");
        assert_eq!((is_suggested, host.update_job(held_job, None, Some("B")).is_ok()), (helps, helps));
    }
}

#[test]
fn an_explanation_names_what_other_than_limits_blocks_a_job() {
    let mut host = Host::with_data(vec![limited_record(9, 9)], vec![queue("q1")]);
    let causes =
        |host: &Host, id| explain_job(host, id).others.iter().map(|it| it.cause.clone()).collect::<Vec<_>>();
    let starting_job = host.submit(HostJob::new(7).blocked_by("begin-time=1800000000.000")).unwrap();
    let explanation = explain_job(&host, starting_job).others;
    assert_eq!((explanation[0].cause.as_ref(), explanation[0].at), ("begin-time", Some(1.8e9)));
    let later_job = host.submit(HostJob::new(7).blocked_by("after-finish=17")).unwrap();
    assert_eq!(explain_job(&host, later_job).others[0].name.as_deref(), Some("after-finish=17"));
    let text = |host: &Host, id| explain_job(host, id).others[0].text.clone();
    assert_eq!(text(&host, later_job), "job 17 has to end first (dependency afterany); job 17 is not active");
    let pending_job = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(causes(&host, pending_job), ["resources"]);
    host.set_urgency(pending_job, 0);
    assert_eq!(causes(&host, pending_job), ["urgency"]);
    let urgency = format!("flux job urgency {} 16 allows it to run", f58(pending_job.0));
    assert_eq!(explain_job(&host, pending_job).helps[0].text, urgency);
    host.set_urgency(pending_job, 16);
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
    host.send_event(Event::Config(ConfigPatch::default()));
    host.send_event(Event::Reprioritize);
    host.run_until_idle();
    assert_eq!(causes(&host, pending_job), ["score"]);
    let mut bare_host = Host::new();
    let waits = bare_host.submit(HostJob::new(9)).unwrap();
    assert_eq!(causes(&bare_host, waits), ["association"]);
}

#[test]
fn a_rank_is_the_position_among_all_associations() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let leaves = vec![leaf(7, "A", 5.0, 0.0), leaf(8, "A", 9.0, 0.0), leaf(7, "B", 100.0, 0.0)];
    host.send_event(Event::Policy(super::live::accounts(), tree(Policy::FairTree, host.now, leaves)));
    host.run_until_idle();
    let wanted = |open| AssociationFilter { user: Some(UserId(7)), bank: None, after: None, most: 9, open };
    let explanation = answers::standings(&host.engine.view(), &wanted(Open::Banks), host.now);
    let rank = |at: usize| explanation.associations[at].rank.unwrap();
    assert_eq!([(rank(0).place, rank(0).of), (rank(1).place, rank(1).of)], [(1, 3), (3, 3)]);
    let levels = &explanation.associations[0].levels;
    assert_eq!(levels.iter().map(|level| level.node.name.as_str()).collect::<Vec<_>>(), ["root", "A", "7"]);
    // The answer shows the siblings of the user's bank, and no other user.
    assert_eq!(levels[1].siblings.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["B"]);
    assert_eq!((levels[2].siblings.len(), levels[2].siblings_total), (0, 0));
    assert_eq!(levels[2].node.usage_part.map(|part| (part * 14.0).round()), Some(5.0));
    let own = answers::standings(&host.engine.view(), &wanted(Open::Own), host.now);
    assert_eq!(own.associations[0].levels.iter().map(|it| it.node.name.clone()).collect::<Vec<_>>(), ["7"]);
    let all = answers::standings(&host.engine.view(), &wanted(Open::All), host.now);
    assert_eq!(all.associations[0].levels[2].siblings[0].userid, Some(UserId(8)));
}

#[test]
fn an_annotation_contains_fair_share_and_rank_or_the_limit_that_holds_the_job() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.send_event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    host.submit(HostJob::new(7)).unwrap();
    assert_eq!(host.notes.last().map(String::as_str), Some("1.000, 1st of 3"));
    let mut host = Host::with_data(vec![limited_record(0, 9)], vec![]);
    host.send_event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    host.submit(HostJob::new(7)).unwrap();
    assert_eq!(host.notes, ["held: max-running-jobs-user-limit 0/0"]);
}

#[test]
fn a_refresh_updates_annotations() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    let leaves = vec![leaf(7, "A", 1e3, 0.0), leaf(8, "A", 1e3 + 10.0, 0.0)];
    host.send_event(Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves)));
    host.send_event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    let [running_job, waits, behind] =
        [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.start_job(running_job);
    let first = host.jobs[&waits].annotation.clone();
    for _ in 0..3 {
        host.advance_time_and_refresh(30.0);
        for id in [waits, behind] {
            assert_eq!(
                host.jobs[&id].annotation,
                crate::engine::annotate::annotation_text(&host.engine.view(), id)
            );
        }
    }
    assert_ne!(host.jobs[&waits].annotation, first);
    // After annotations were turned off and on, all jobs get their annotations again.
    for annotate in [false, true] {
        host.send_event(Event::Settings(Settings { annotate, ..Settings::default() }));
        host.jobs.get_mut(&behind).unwrap().annotation = None;
    }
    host.advance_time_and_refresh(30.0);
    assert_eq!(
        host.jobs[&behind].annotation,
        crate::engine::annotate::annotation_text(&host.engine.view(), behind)
    );
}

#[test]
fn an_unchanged_annotation_is_not_sent_again() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.send_event(Event::Settings(Settings { annotate: true, ..Settings::default() }));
    let id = host.submit(HostJob::new(7)).unwrap();
    let notes = |host: &mut Host| {
        let effects = host.engine.handle(NOW, Event::PriorityGet(id, 16));
        effects.iter().filter(|effect| matches!(effect, Effect::Annotate(..))).count()
    };
    assert_eq!(notes(&mut host), 0);
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 10)]));
    assert_eq!(notes(&mut host), 0, "the priority changed, the fair-share did not");
}

/// Generates jobs. A tuple has: whether the job starts, its nodes, its queue (0 for none), its user, and its time
/// limit.
pub fn any_jobs() -> impl Strategy<Value = Vec<(bool, u64, usize, u32, Option<u32>)>> {
    let one = (any::<bool>(), 1..5u64, 0..3usize, 7..9u32, prop::option::weighted(0.9, 10..500u32));
    prop::collection::vec(one, 1..24)
}

/// Returns a host with `limits`: the running jobs, nodes and jobs in SCHED of user 7 in bank A, and the running jobs and nodes of each
/// association in queue q1.
pub fn make_site(limits: [i64; 5]) -> Host {
    let mut own_association = association(7, "A");
    (own_association.max_running_jobs, own_association.max_nodes, own_association.max_sched_jobs) =
        (Limit(limits[0]), Limit(limits[1]), Limit(limits[2]));
    let small_queue =
        Queue { max_running_jobs: Limit(limits[3]), max_nodes_per_assoc: Limit(limits[4]), ..queue("q1") };
    Host::with_data(
        vec![record(own_association, "A"), record(association(8, "A"), "A")],
        vec![small_queue, queue("q2")],
    )
}

/// Submits jobs. Starts a job if the first member of its tuple is true. Returns the ids of the accepted jobs.
pub fn submit_all(host: &mut Host, jobs: &[(bool, u64, usize, u32, Option<u32>)]) -> Vec<JobId> {
    let mut ids = Vec::new();
    for (starts, nodes, at, user, limit) in jobs {
        let mut job = HostJob::new(*user).size(*nodes, *nodes);
        (job.limit, job.duration) = (limit.map(f64::from), limit.map_or(0.0, f64::from));
        if *at > 0 {
            job = job.queue(["q1", "q2"][*at - 1]);
        }
        // The engine rejects a job that can never run.
        let Ok(id) = host.submit(job) else { continue };
        ids.push(id);
        if *starts {
            host.start_job(id);
        }
    }
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    /// All jobs end at their time limits. If each job in SCHED starts at once, each held job must be released exactly at the predicted time.
    #[test]
    fn the_predicted_release_is_right_if_all_released_jobs_start_at_once(
        jobs in any_jobs(), limits in (0..4i64, 3..9i64, 1..6i64, 1..4i64, 2..9i64), rules in any_queue_rules(),
    ) {
        let mut host = make_site([limits.0, limits.1, limits.2, limits.3, limits.4]);
        apply_queue_rules(&mut host, rules);
        let ids = submit_all(&mut host, &jobs);
        let held: Vec<JobId> = ids.into_iter().filter(|id| host.state(*id) == Some(State::Depend)).collect();
        let explanation: Vec<(JobId, Why)> = held.into_iter().map(|id| (id, explain_job(&host, id))).collect();
        let asked_at = host.now;
        let mut released: BTreeMap<JobId, f64> = BTreeMap::new();
        let mut ends: BTreeSet<(u64, JobId)> = BTreeSet::new();
        for (id, job) in &host.jobs {
            if let (State::Run, Some(start), Some(limit)) = (job.state, job.started, job.limit) {
                ends.insert(((start + limit).max(asked_at) as u64, *id));
            }
        }
        let mut at = asked_at;
        loop {
            while let Some(id) = host.jobs.iter().find(|(_, job)| job.state == State::Sched).map(|(id, _)| *id) {
                host.start_job(id);
                ends.extend(host.jobs[&id].limit.map(|limit| ((at + limit) as u64, id)));
            }
            for (id, _) in &explanation {
                if host.state(*id) != Some(State::Depend) {
                    released.entry(*id).or_insert(at);
                }
            }
            let Some((end, id)) = ends.pop_first() else { break };
            at = end as f64;
            host.end_job(id);
        }
        for (id, explanation) in &explanation {
            prop_assert_eq!(
                explanation.release.if_started.map(f64::floor), released.get(id).copied().map(f64::floor), "{}", id
            );
        }
    }

    /// Pages that are restricted to a user contain the user's pending jobs, and other pages contain all pending jobs.
    #[test]
    fn the_pages_of_a_list_contain_all_jobs(jobs in any_jobs(), most in 1..6usize) {
        let mut host = make_site([2, 6, 3, 2, 5]);
        let ids = submit_all(&mut host, &jobs);
        for user in [None, Some(7), Some(8)] {
            let wanted: Vec<JobId> = ids
                .iter()
                .copied()
                .filter(|id| host.jobs.get(id).is_some_and(|job| job.state < State::Run && user.is_none_or(|user| job.user == user)))
                .collect();
            let (mut after, mut got) = (None, Vec::new());
            loop {
                let page = answers::jobs_page(&host.engine.view(), &JobFilter { after, user: user.map(UserId), most, ..JobFilter::default() }, host.now);
                prop_assert!(page.jobs.len() <= most);
                for job in &page.jobs {
                    let explanation = explain_job(&host, job.id);
                    let mut limits: Vec<_> = explanation.holds.iter().map(|hold| hold.limit.as_ref()).collect();
                    limits.dedup();
                    prop_assert_eq!(&job.holds, &limits);
                    prop_assert_eq!(job.priority, explanation.posted.map(|posted| posted.made.priority));
                    got.push(job.id);
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
            prop_assert_eq!(&got, &wanted);
        }
        prop_assert!(host.now >= NOW);
    }
}

/// If a push raises a limit, a held job keeps its dependencies until the next scan. Until then the explanation
/// predicts that the job is released now.
#[test]
fn why_predicts_an_immediate_release_after_the_limit_is_raised() {
    let mut host = Host::with_data(vec![limited_record(1, 9)], vec![queue("q1")]);
    let [first, held] = [(); 2].map(|()| host.run_new_job(timed_job(7, 100.0)));
    let release = |host: &Host, id| {
        let explanation = explain_job(host, id);
        (explanation.holds.len(), explanation.release.reason.code.to_string(), explanation.release.latest)
    };
    let end = host.jobs[&first].started.map(|start| start + 100.0);
    assert_eq!(release(&host, held), (1, "bounded".to_owned(), end));
    host.send_event(Event::Associations(vec![limited_record(9, 9)]));
    assert_eq!(release(&host, held), (0, "bounded".to_owned(), Some(host.now)));
    let pending_job = host.submit(timed_job(7, 100.0)).unwrap();
    assert_eq!(release(&host, pending_job), (0, "free".to_owned(), None));
}

/// Until the eventlog is read, the engine has not stored the job's dependencies. It can still compare the job with the limits.
#[test]
fn the_explanation_of_a_job_whose_eventlog_is_unread_names_the_limits_it_would_exceed() {
    let mut host = Host::with_data(vec![limited_record(1, 9)], vec![queue("q1")]);
    let first_job = host.run_new_job(timed_job(7, 100.0));
    let held_job = host.submit(timed_job(7, 100.0)).unwrap();
    host.never_answered = [held_job].into();
    host.replay_jobs(true, make_engine_with_associations(vec![limited_record(1, 9)]));
    let explanation = explain_job(&host, held_job);
    let holds: Vec<_> = explanation.holds.iter().map(|hold| hold.limit.as_ref()).collect();
    assert_eq!(
        (holds, explanation.release.reason.code.as_ref()),
        (vec!["max-running-jobs-user-limit"], "unread")
    );
    assert!(explanation.is_held && explanation.carries.is_empty());
    assert_eq!(explain_job(&host, first_job).holds, []);
}

/// A dependency contains the id in the form in which the user wrote it, and the explanation must accept every form.
#[test]
fn an_explanation_names_the_job_that_a_job_depends_on_with_its_state() {
    let mut host = Host::with_data(vec![limited_record(2, 9)], vec![queue("q1")]);
    let [first_job, second_job] = [7, 7].map(|user| host.submit(HostJob::new(user)).unwrap());
    let f58 = |id: JobId| format!("ƒ{}", ["", "2", "3", "4", "5", "6", "7", "8"][id.0 as usize]);
    let rows = [
        ("after-start", "start", "after", first_job.to_string(), first_job),
        ("after-finish", "end", "afterany", format!("0x{:x}", first_job.0), first_job),
        ("after-success", "end successfully", "afterok", f58(second_job), second_job),
        ("after-failure", "fail", "afternotok", format!("0000.0000.0000.{:04x}", second_job.0), second_job),
        ("after-except", "end with an exception", "afterexcept", second_job.to_string(), second_job),
    ];
    for state in ["is pending", "is running"] {
        for (name, does, scheme, id, target) in &rows {
            let waiting_job = host.submit(HostJob::new(7).blocked_by(&format!("{name}={id}"))).unwrap();
            let text =
                format!("job {target} has to {does} first (dependency {scheme}); job {target} {state}");
            assert_eq!(explain_job(&host, waiting_job).others[0].text, text);
            host.end_job(waiting_job);
        }
        if state == "is pending" {
            host.start_job(first_job);
            host.start_job(second_job);
        }
    }
    let held_job = host.submit(HostJob::new(7)).unwrap();
    let last = host.submit(HostJob::new(7).blocked_by(&format!("after-success={held_job}"))).unwrap();
    let text = format!(
        "job {held_job} has to end successfully first (dependency afterok); job {held_job} is held by a limit"
    );
    assert_eq!(explain_job(&host, last).others[0].text, text);
    for (name, text) in [
        ("singleton", "an earlier job of its user with the same name has to end first (singleton)"),
        ("site=17", "another plugin blocks it: site=17"),
        ("after-success=academy-cobra--x", "another plugin blocks it: after-success=academy-cobra--x"),
    ] {
        let id = host.submit(HostJob::new(7).blocked_by(name)).unwrap();
        assert_eq!(explain_job(&host, id).others[0].text, text);
        host.end_job(id);
    }
}

/// The end of the running job releases only the first of three held jobs. So the answers for the second and the third
/// job do not suggest to cancel the running job.
#[test]
fn why_suggests_a_cancellation_only_if_it_would_release_the_job() {
    let mut host = Host::with_data(vec![limited_record(1, 99)], vec![queue("q1")]);
    let running_job = host.run_new_job(timed_job(7, 100.0));
    let held = [(); 3].map(|()| host.submit(timed_job(7, 100.0)).unwrap());
    let helps = |host: &Host, id| explain_job(host, id).helps.iter().any(|help| help.code == "cancel");
    assert_eq!(held.map(|id| helps(&host, id)), [true, false, false]);
    host.end_job(running_job);
    assert_eq!(held.map(|id| host.engine.view().is_held(id)), [false, true, true]);
    // The end of a large job releases two small jobs.
    let mut host = Host::with_data(vec![limited_record(9, 4)], vec![queue("q1")]);
    let large_job = host.run_new_job(timed_job(7, 100.0).size(4, 4));
    let held = [3, 1, 1].map(|nodes| host.submit(timed_job(7, 100.0).size(nodes, nodes)).unwrap());
    assert_eq!(held.map(|id| helps(&host, id)), [true, true, false]);
    host.end_job(large_job);
    assert_eq!(held.map(|id| host.engine.view().is_held(id)), [false, false, true]);
}

/// The command reads answers into the types of the engine. Scripts read the keys of the JSON, so a changed key fails this test.
#[test]
fn an_answer_survives_a_round_trip_through_json() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.send_event(Event::Associations(vec![limited_record(1, 9)]));
    let first_job = host.submit(timed_job(7, 100.0)).unwrap();
    let held_job = host.submit(timed_job(7, 100.0)).unwrap();
    host.start_job(first_job);
    let last_job = host.submit(timed_job(7, 100.0)).unwrap();
    for id in [first_job, held_job, last_job] {
        let explanation = explain_job(&host, id);
        let written = serde_json::to_value(&explanation).unwrap();
        assert_eq!(serde_json::from_value::<Why>(written).unwrap(), explanation);
    }
    let view = host.engine.view();
    let heading = || Heading::new(&view, host.now, None);
    let wanted = AssociationFilter { user: None, bank: None, after: None, most: 9, open: Open::All };
    let standings = answers::standing(&view, &wanted, Open::Banks, heading());
    let written = serde_json::to_value(&standings).unwrap();
    let keys: Vec<&str> = written.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "associations",
            "generation",
            "half_life",
            "in_node_seconds",
            "live",
            "live_generation",
            "next",
            "now",
            "options",
            "overruled",
            "policy",
            "public",
            "refreshed",
            "reset"
        ]
    );
    assert_eq!(serde_json::from_value::<Standings>(written).unwrap(), standings);
    let stats = answers::stats(&view, heading());
    let written = serde_json::to_value(&stats).unwrap();
    assert_eq!(serde_json::from_value::<Stats>(written).unwrap(), stats);
    let page = answers::jobs_page(&view, &JobFilter { most: 9, ..JobFilter::default() }, host.now);
    let written = serde_json::to_value(&page).unwrap();
    assert_eq!(serde_json::from_value::<JobsPage>(written).unwrap(), page);
    let check = answers::check(&view);
    assert_eq!(serde_json::from_value::<Check>(serde_json::to_value(&check).unwrap()).unwrap(), check);
}

#[test]
fn an_answer_of_another_version_can_be_read() {
    let text = r#"{"now": 5.0, "jobs": [{"id": 1, "userid": 7, "state": "sched", "new": [1]}], "later": {"a": null}}"#;
    let explanation: Explained = serde_json::from_str(text).unwrap();
    assert_eq!(
        (explanation.heading.now, explanation.heading.live, explanation.refused.len()),
        (5.0, false, 0)
    );
    let job = &explanation.jobs[0];
    assert_eq!((job.id, job.userid, job.state.as_ref()), (JobId(1), UserId(7), "sched"));
    assert_eq!((job.posted.is_some(), job.holds.len(), job.release.reason.text.as_str()), (false, 0, ""));
    let bank: BankStats = serde_json::from_str(r#"{"bank": "a", "shares": 3}"#).unwrap();
    assert_eq!((bank.shares, bank.parent), (3, None));
    assert!(serde_json::from_str::<BankStats>(r#"{"bank": "a", "shares": "half"}"#).is_err());
    assert!(serde_json::from_str::<Explained>("{}").is_err(), "an answer to explain without jobs is invalid");
}
