// SPDX-License-Identifier: LGPL-3.0-only
//! Refreshes in several turns, the requests to job-list after a start, and queries of usages and of the tree.
//! Rules: F13, F17

use super::FEW;
use super::host::Host;
use super::live::{accounts, leaf, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, record};
use crate::accounts::{ConfigPatch, ZeroScore};
use crate::engine::answers::{self, AssociationFilter, Open};
use crate::engine::{Batches, Effect, EndedJob, Engine, Event, Refusal, Settings, State, Timer};
use crate::ids::{JobId, UserId};
use crate::standing::{Job, RESET, SitePart};
use fairshare::periods::Resources;
use fairshare::{Builder, Options, Policy, Shares};

const HOUR: f64 = 3_600.0;

/// Returns the requests for pages of ended jobs.
pub fn page_requests(effects: &[Effect]) -> Vec<(f64, Option<f64>, usize)> {
    let ask = |effect: &Effect| match effect {
        Effect::ListEnded { since, before, most } => Some((*since, *before, *most)),
        _ => None,
    };
    effects.iter().filter_map(ask).collect()
}

/// Returns the time until the refresh timer fires, if the effects arm it.
fn armed_refresh(effects: &[Effect]) -> Option<f64> {
    effects.iter().find_map(|effect| match effect {
        Effect::ArmIn(Timer::Refresh, seconds) => Some(*seconds),
        _ => None,
    })
}

fn posted_priority(host: &Host, id: JobId) -> i64 {
    host.jobs[&id].priority.unwrap()
}

pub fn make_engine_with_tree(policy: SitePart) -> Engine {
    let mut engine = Engine::with_small_batches();
    engine.handle(NOW, Event::Policy(accounts(), policy));
    engine
}

#[test]
fn a_refresh_of_over_4000_associations_or_jobs_takes_four_reactor_turns() {
    for (users, running, turns) in [(3, 0, 0), (4_000, 0, 0), (4_001, 0, 4), (3, 3_997, 0), (3, 3_998, 4)] {
        let mut all_accounts = accounts();
        all_accounts.associations = vec![record(association(10, "A"), "A")];
        let leaves = (10..).take(users).map(|user| leaf(user, "A", f64::from(user), 0.0)).collect();
        let mut engine = Engine::with_small_batches();
        for id in 0..running {
            let ran_on = Resources { nodes: 1, cores: 1, gpus: 0 };
            let (user, bank, id) = (UserId(10), "A".into(), JobId(1_000 + id));
            let job = Job { id, user, bank, queue: None, ran_on, start: NOW - 9.0, limit: 0.0 };
            engine.standing.usages.track_start(&job).unwrap();
        }
        engine.handle(NOW, Event::Policy(all_accounts, tree(Policy::FairTree, NOW, leaves)));
        let mut slices = 0;
        while engine.view().get_live_fairshare_details().is_refreshing {
            slices += 1;
            engine.handle(NOW + f64::from(slices), Event::Timer(Timer::Slice));
        }
        assert_eq!(slices, turns, "{users}: usages, ranks, changes, priorities");
        let last = engine.view().get_live_fairshare_details().last.unwrap();
        assert_eq!((last.worked_out, last.ranked), (users, true), "{users}");
        assert_eq!(engine.refresh.totals(), (1, 0), "{users}");
    }
}

#[test]
fn the_number_of_refresh_slices_depends_on_jobs_not_on_associations() {
    let turns = |users: u32, jobs: usize, interleave: bool| {
        let mut host = Host::new();
        let mut all_accounts = accounts();
        all_accounts.associations =
            (10..10 + users).map(|user| record(association(user, "A"), "A")).collect();
        let site = || {
            let leaves = (10..10 + users).map(|user| leaf(user, "A", f64::from(user), 0.0)).collect();
            tree(Policy::Classic, NOW, leaves)
        };
        // Flux's loop posts all priorities in one slice. So the number of slices shows the cost of the computation
        // alone.
        host.engine.batches = Batches { ordered: 20, longest_loop: usize::MAX, ..FEW };
        host.send_event(Event::Settings(Settings { interleave, ..Settings::default() }));
        host.send_event(Event::Policy(all_accounts.clone(), site()));
        for job in 0..jobs {
            host.submit(HostJob::new(10 + job as u32 % users)).unwrap();
        }
        let is_posted = |effects: &[Effect]| {
            let is_post =
                |effect: &Effect| matches!(effect, Effect::Prioritize(..) | Effect::ReprioritizeAll);
            effects.iter().any(is_post)
        };
        let mut effects = host.engine.handle(NOW, Event::Policy(all_accounts, site()));
        let mut turns = 0;
        while !is_posted(&effects) && host.engine.view().get_live_fairshare_details().is_refreshing {
            turns += 1;
            effects = host.engine.handle(NOW, Event::Timer(Timer::Slice));
        }
        turns
    };
    for (interleave, few, many) in [(false, 0, 2), (true, 0, 4)] {
        for users in [1, 5, 50] {
            assert_eq!(turns(users, 1_000, interleave), few, "{users} {interleave}");
            assert_eq!(turns(users, 5_000, interleave), many, "{users} {interleave}");
        }
    }
}

/// A reactor turn does 20,000 units of work. A job at the maximum age takes 11 of them: 1 to find the job, and 10 to
/// compute its priority.
#[test]
fn jobs_at_the_maximum_age_get_their_priorities_in_several_reactor_turns() {
    for (jobs, turns) in [(1_000, 0), (1_819, 1), (5_000, 2)] {
        let mut host = make_host_with_live_fairshare(Policy::FairTree);
        let ages = Settings { age_weight: 1_000_000, age_max: 100.0, ..Settings::default() };
        host.engine.batches = Batches { ordered: 20, posted: 300, longest_loop: usize::MAX, ..FEW };
        host.send_event(Event::Settings(ages));
        for _ in 0..jobs {
            host.submit(HostJob::new(7).bank("A")).unwrap();
        }
        host.advance_time_and_refresh(200.0);
        let now = host.now + 10.0;
        host.engine.handle(now, Event::Timer(Timer::Refresh));
        let mut slices = 0;
        while host.engine.view().get_live_fairshare_details().is_refreshing {
            slices += 1;
            host.engine.handle(now, Event::Timer(Timer::Slice));
        }
        let last = host.engine.view().get_live_fairshare_details().last.unwrap();
        assert_eq!((slices, last.lagging), (turns, jobs), "all priorities fell by the same amount");
    }
}

#[test]
fn unchanged_settings_have_no_effects() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    let effects = host.engine.handle(host.now, Event::Settings(Settings::default()));
    assert_eq!(
        page_requests(&effects).len(),
        1,
        "the plugin could not ask job-list while it was loaded: {effects:?}"
    );
    let effects = host.engine.handle(host.now, Event::Settings(Settings::default()));
    assert!(effects.is_empty(), "{effects:?}");
}

#[test]
fn the_refresh_timer_runs_only_if_priorities_change_with_time() {
    let set = |refresh: f64, age_weight: i64| Settings {
        refresh,
        age_weight,
        age_max: 1_000.0,
        ..Settings::default()
    };
    let tree = || tree(Policy::Classic, NOW, leaves());
    for (what, settings, policy, seconds) in [
        ("nothing changes", set(5.0, 0), SitePart::default(), None),
        ("ages change", set(5.0, 1_000), SitePart::default(), Some(5.0)),
        ("ages change, without refreshes", set(0.0, 1_000), SitePart::default(), None),
        ("fair-shares change", set(5.0, 0), tree(), Some(5.0)),
        ("fair-shares change, without refreshes", set(0.0, 0), tree(), None),
    ] {
        let mut engine = Engine::with_small_batches();
        let first_effects = engine.handle(NOW, Event::Policy(accounts(), policy.clone()));
        let has_tree = policy.rule.is_some();
        assert_eq!(armed_refresh(&first_effects), has_tree.then_some(30.0), "{what}: the default");
        assert_eq!(armed_refresh(&engine.handle(NOW, Event::Settings(settings))), seconds, "{what}");
        let again = engine.handle(NOW, Event::Policy(accounts(), policy));
        assert_eq!(armed_refresh(&again), None, "{what}: the timer runs already");
    }
}

#[test]
fn a_refresh_posts_priorities_of_jobs_whose_age_has_reached_the_maximum() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let settings = Settings { age_weight: 100_000, age_max: 100.0 * HOUR, ..Settings::default() };
    host.send_event(Event::Settings(settings));
    let first_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.now += 10.0 * HOUR - 1.0;
    let second_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    for (hours, difference) in [(80.0, 10_000), (15.0, 5_000), (2.0, 3_000), (1.0, 2_000), (7.0, 0), (9.0, 0)]
    {
        host.advance_time_and_refresh(hours * HOUR);
        let current = [first_job, second_job]
            .map(|id| i64::from(host.engine.view().priorities_of(id).unwrap().exact.priority));
        assert_eq!(current[0] - current[1], difference, "{hours} hours later");
        assert!(
            posted_priority(&host, first_job) >= posted_priority(&host, second_job),
            "{hours} hours later the order is the same"
        );
    }
}

/// A tree that is built from the pages must give the same fair-shares as the plugin.
#[test]
fn the_pages_of_the_plugins_tree_form_the_complete_tree() {
    for policy in Policy::ALL {
        let leaves =
            (0..25).map(|user| leaf(user, if user % 3 == 0 { "A" } else { "B" }, f64::from(user % 7), 0.0));
        let mut engine = Engine::with_small_batches();
        assert_eq!(engine.view().tree_page(0, 10, NOW), None);
        engine.handle(NOW, Event::Policy(accounts(), tree(policy, NOW, leaves.collect())));
        engine.handle(NOW + 30.0, Event::Timer(Timer::Refresh));
        let (mut rows, mut builder, mut first) = (Vec::new(), Builder::default(), Some(0));
        while let Some(from) = first {
            let page = engine.view().tree_page(from, 10, NOW + 30.0).expect("a page");
            assert_eq!(
                (page.policy.as_ref(), page.leaves.len() <= 10, page.banks.is_empty()),
                (policy.name(), true, from > 0)
            );
            for bank in &page.banks {
                builder.bank(&bank.name, bank.parent.as_deref(), Shares::Count(bank.shares), None, true);
            }
            rows.extend(page.leaves);
            first = page.next;
        }
        rows.sort_by_key(|row| row.place);
        for row in &rows {
            builder.association(&row.name, &row.bank, Shares::Count(row.shares), Some(row.usage), row.active);
        }
        let rebuilt = builder.build().expect("a tree");
        let ranking = rebuilt.rank(policy, &Options::default()).expect("a ranking");
        assert_eq!(rows.len(), 25);
        for row in rows {
            let wanted = rebuilt.leaf(&row.name, &row.bank).and_then(|leaf| ranking.fairshare(leaf));
            let is_close = row.fairshare.zip(wanted).is_some_and(|(a, b)| (a - b).abs() < 1e-9);
            assert!(is_close, "{policy}: {row:?}, not {wanted:?}");
        }
        engine.handle(NOW, Event::Settings(Settings { live: false, ..Settings::default() }));
        assert_eq!(engine.view().tree_page(0, 10, NOW), None, "fair-share is no longer live");
    }
}

pub fn ended_job(id: u64, end: f64) -> EndedJob {
    let (user, bank) = (UserId(8), Some("A".into()));
    let (id, ran) = (JobId(id), Some((end - 60.0, end)));
    EndedJob { id, user, bank, queue: None, nodes: 1, cores: 1, ran, allocated: None, end }
}

#[test]
fn the_plugin_asks_for_pages_of_ended_jobs_until_one_is_not_full() {
    let mut engine = Engine::with_small_batches();
    let effects = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    let since = NOW - RESET;
    assert_eq!(page_requests(&effects), [(since, None, 1_000)]);
    let oldest = NOW - 1_000.0;
    let page = |first: u64, end: &dyn Fn(u64) -> f64| {
        Event::Ended(Some((first..first + 1_000).map(|id| ended_job(id, end(id))).collect()))
    };
    let effects = engine.handle(NOW, page(1, &|id| NOW - id as f64));
    assert_eq!(page_requests(&effects), [(since, Some(oldest), 1_000)]);
    let effects = engine.handle(NOW, page(2_001, &|_| oldest));
    assert_eq!(
        page_requests(&effects),
        [(since, Some(oldest), 2_000)],
        "all jobs of the page ended at one time, so the next page is larger"
    );
    let effects = engine.handle(NOW, Event::Ended(Some(vec![ended_job(5_000, oldest - 1.0)])));
    assert_eq!(page_requests(&effects), []);
    assert_eq!(engine.view().get_live_fairshare_details().ended, 2_001);
    engine.handle(NOW, Event::Ended(Some(vec![ended_job(5_001, oldest)])));
    assert_eq!(engine.view().get_live_fairshare_details().ended, 2_001, "the plugin did not ask");
}

#[test]
fn the_plugin_asks_job_list_at_most_twelve_times() {
    let mut engine = make_engine_with_tree(tree(Policy::Classic, NOW, leaves()));
    for tried in 1.. {
        let effects = engine.handle(NOW, Event::Ended(None));
        if !effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry))) {
            assert_eq!(tried, 12);
            break;
        }
        assert_eq!(page_requests(&engine.handle(NOW, Event::Timer(Timer::Retry))).len(), 1);
    }
}

#[test]
fn at_most_200_000_jobs_that_ended_before_the_first_tree_count() {
    for (before, is_stored) in [(0, true), (199_999, true), (200_000, false)] {
        let mut host = Host::new();
        // If job-list does not answer, only the jobs that the engine has stored can count.
        host.has_job_list = false;
        host.send_event(Event::Policy(accounts(), SitePart::default()));
        for id in 0..before {
            let ran_on = Resources { nodes: 1, cores: 1, gpus: 0 };
            let (user, bank, id) = (UserId(9), "C".into(), JobId(1_000_000 + id));
            let job = Job { id, user, bank, queue: None, ran_on, start: NOW - 9.0, limit: 0.0 };
            host.engine.standing.usages.track_end(&job, NOW).unwrap();
        }
        let run = |host: &mut Host| {
            let id = host.run_new_job(HostJob::new(8).bank("A"));
            host.now += 99.0;
            host.end_job(id);
            host.engine.view().get_live_fairshare_details().ended
        };
        let after = run(&mut host);
        assert_eq!(after, before as usize + usize::from(is_stored));
        host.send_event(Event::Policy(accounts(), tree(Policy::Classic, host.now, leaves())));
        let standing = &host.engine.standing;
        let used = |usage: Option<f64>| usage.is_some_and(|usage| usage > 90.0);
        let index = standing.find(UserId(8), &"A".into()).unwrap();
        assert_eq!(used(standing.usage(index, host.now)), is_stored, "{before}");
        if !is_stored {
            assert_eq!(run(&mut host), after + 1, "a site with refreshes has no such limit");
        }
    }
}

#[test]
fn a_job_that_names_no_bank_counts_in_its_default_bank() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    host.run_new_job(HostJob::new(8));
    host.now += 50.0;
    let standing = &host.engine.standing;
    let index = standing.find(UserId(8), &"A".into()).unwrap();
    assert!(standing.usage(index, host.now).is_some_and(|usage| usage > 40.0));
}

#[test]
fn an_r_with_an_invalid_time_is_logged() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let id = host.run_new_job(HostJob::new(8).bank("A"));
    host.jobs.get_mut(&id).unwrap().started = Some(1e300);
    host.replay_jobs(true, Engine::with_small_batches());
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert!(host.logged.iter().any(|text| text.contains("is not counted")), "{:?}", host.logged);
}

/// Flux's loop asks for the priorities of all jobs. The engine must answer the posted priority for a job that the refresh did not select.
#[test]
fn during_a_refresh_the_flux_loop_changes_only_selected_priorities() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches = Batches { ordered: 250, posted: 100_000, ..FEW };
    let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    for user in [7, 7, 8].iter().cycle().take(900) {
        host.submit(HostJob::new(*user).bank("A")).unwrap();
    }
    host.start_job(running_job);
    let before: Vec<(JobId, Option<i64>)> = host.jobs.iter().map(|(id, job)| (*id, job.priority)).collect();
    let (loops, posts) = (host.loops, host.posts);
    host.advance_time_and_refresh(30.0);
    assert_eq!((host.loops - loops, host.posts - posts), (1, 0));
    let last = host.engine.view().get_live_fairshare_details().last.unwrap();
    let moved =
        before.iter().filter(|(id, posted_priority)| host.jobs[id].priority != *posted_priority).count();
    let is_stale = |(id, job): (&JobId, &HostJob)| {
        job.state == State::Sched
            && job.priority != Some(i64::from(host.engine.view().priorities_of(*id).unwrap().exact.priority))
    };
    let stale = host.jobs.iter().filter(|job| is_stale(*job)).count();
    assert!(moved > 75 && stale > 50, "{last:?}");
    assert_eq!((last.touched, last.lagging, last.right_to), (moved, stale, Some(250)));
}

#[test]
fn a_posted_priority_is_explained_by_the_rule_that_computed_it() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), 0)]));
    let id = host.submit(HostJob { urgency: 15, ..HostJob::new(7) }).unwrap();
    for (zero, priority) in [(ZeroScore::Hold, 0), (ZeroScore::Floor, 1), (ZeroScore::Hold, 0)] {
        host.send_event(Event::Config(ConfigPatch { zero_score: Some(zero), ..ConfigPatch::default() }));
        host.send_event(Event::Reprioritize);
        assert_eq!(posted_priority(&host, id), priority, "{zero:?}");
        assert_eq!(
            i64::from(host.engine.view().priorities_of(id).unwrap().posted.priority),
            priority,
            "{zero:?}"
        );
    }
}

#[test]
fn a_job_that_flux_no_longer_has_is_removed_from_the_pending_jobs() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let [running_job, mine, other] = [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.start_job(running_job);
    assert_eq!(host.engine.view().list_pending_jobs_after(None, 9), [mine, other]);
    assert_eq!(host.engine.view().list_pending_jobs_after(None, 1), [mine]);
    assert_eq!(host.engine.view().list_pending_jobs_after(Some(mine), 9), [other]);
    host.refuse_priorities = Some(Refusal::Absent);
    host.advance_time_and_refresh(30.0);
    assert_eq!(
        host.engine.view().list_pending_jobs_after(None, 9),
        [other],
        "of two jobs that change places, the engine posts one"
    );
}

#[test]
fn before_the_refresh_of_a_large_push_queries_return_no_ranks() {
    for policy in Policy::ALL {
        let mut all_accounts = accounts();
        all_accounts.associations =
            (10..).take(4_001).map(|user| record(association(user, "A"), "A")).collect();
        let leaves = (10..).take(4_001).map(|user| leaf(user, "A", f64::from(user), 0.0)).collect();
        let mut engine = Engine::with_small_batches();
        let site = tree(policy, NOW, leaves);
        let effects = engine.handle(NOW, Event::Policy(all_accounts, site));
        assert!(effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Slice))), "{policy:?}");
        assert_eq!(
            answers::stats(&engine.view(), answers::Heading::new(&engine.view(), NOW, None)).banks,
            [],
            "{policy:?}: no bank has a rank yet"
        );
        let wanted =
            AssociationFilter { user: Some(UserId(10)), bank: None, after: None, most: 9, open: Open::All };
        let page = answers::standings(&engine.view(), &wanted, NOW);
        assert_eq!((page.associations.len(), page.associations[0].rank.is_none()), (1, true), "{policy:?}");
        while engine.view().get_live_fairshare_details().is_refreshing {
            engine.handle(NOW, Event::Timer(Timer::Slice));
        }
        assert_eq!(
            answers::stats(&engine.view(), answers::Heading::new(&engine.view(), NOW, None)).banks.len(),
            3,
            "{policy:?}"
        );
        assert!(
            answers::standings(&engine.view(), &wanted, NOW).associations[0].rank.is_some(),
            "{policy:?}"
        );
    }
}
