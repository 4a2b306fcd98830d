// SPDX-License-Identifier: LGPL-3.0-only
//! If Flux's loop over all jobs would block other requests for too long, the engine posts priorities one by one, by
//! job id. A push then also posts the priorities of jobs without a priority one by one, if they are at most 75 jobs.
//! Rules: F16, F18, F19

use super::host::Host;
use super::live::{accounts, leaf, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, record};
use super::strict::running_limit_settings;
use super::{FEW, SINGLE_POSTS};
use crate::accounts::{RunningLimits, SiteRecords};
use crate::engine::{Batches, Effect, Engine, Event, Settings, State, Step, Timer, answers};
use crate::ids::{JobId, Limit, UserId};
use fairshare::Policy;

/// Returns a push of the usual data, changed by `change`, with user 9 added to bank A.
fn push_with_user_9(change: impl FnOnce(&mut SiteRecords)) -> Event<'static> {
    let mut all_accounts = accounts();
    all_accounts.associations.push(record(association(9, "A"), "A"));
    change(&mut all_accounts);
    let leaves = leaves().into_iter().chain([leaf(9, "A", 0.0, 0.0)]).collect();
    Event::Policy(all_accounts, tree(Policy::FairTree, NOW, leaves))
}

/// Handles a push and returns how often Flux's loop ran for it.
fn count_flux_loops_during_push(host: &mut Host, push: Event<'_>) -> usize {
    let before = host.loops;
    host.send_event(push);
    host.loops - before
}

/// Submits a job for each user before the first push. The jobs stay in PRIORITY.
fn submit_before_first_push(host: &mut Host, users: &[u32]) -> Vec<JobId> {
    users.iter().map(|user| host.submit(HostJob::new(*user)).unwrap()).collect()
}

#[test]
fn a_push_posts_first_priorities_without_a_loop_over_all_jobs() {
    for (batches, by_loop) in [(FEW, 1), (SINGLE_POSTS, 0)] {
        let mut host = Host::new();
        host.engine.batches = batches;
        let jobs = submit_before_first_push(&mut host, &[7, 9, 8]);
        let first = Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves()));
        assert_eq!(count_flux_loops_during_push(&mut host, first), by_loop);
        let states = |host: &Host| jobs.iter().map(|id| host.state(*id).unwrap()).collect::<Vec<_>>();
        assert_eq!(states(&host), [State::Sched, State::Priority, State::Sched]);
        assert_eq!(count_flux_loops_during_push(&mut host, push_with_user_9(|_| ())), by_loop);
        assert_eq!(states(&host), [State::Sched; 3]);
        for id in &jobs {
            let exact = host.engine.view().priorities_of(*id).unwrap().exact;
            assert_eq!(host.jobs[id].priority, Some(i64::from(exact.priority)), "job {id}");
            assert_eq!(host.jobs[id].bank.as_deref(), Some("A"), "its jobspec names the bank");
        }
    }
}

/// The user of `stranger_job` has no association, and the queue of `forbidden_job` is not valid for its user.
#[test]
fn a_push_without_flux_reprioritization_rejects_jobs_that_get_no_priority() {
    for batches in [FEW, SINGLE_POSTS] {
        let mut host = Host::new();
        host.engine.batches = batches;
        let stranger_job = host.submit(HostJob::new(99).bank("A")).unwrap();
        let forbidden_job = host.submit(HostJob::new(9).queue("q2")).unwrap();
        host.send_event(push_with_user_9(|all| {
            for one in all.associations.iter_mut().filter(|one| one.association.user.0 == 9) {
                one.association.queues = ["q1".into()].into();
            }
        }));
        assert_eq!([host.state(stranger_job), host.state(forbidden_job)], [None, None]);
        assert_eq!(host.exceptions.len(), 2, "{:?}", host.exceptions);
    }
}

/// The job in PRIORITY was submitted first. The push posts its priority before it releases held jobs.
#[test]
fn a_job_without_a_priority_takes_precedence_over_held_jobs_that_came_later() {
    for batches in [FEW, SINGLE_POSTS] {
        let mut host = Host::new();
        host.engine.batches = batches;
        let first_job = submit_before_first_push(&mut host, &[9])[0];
        let held_job = host.submit(HostJob::new(9).blocked_by("afterany:other")).unwrap();
        host.send_event(push_with_user_9(|all| {
            all.associations.iter_mut().for_each(|one| one.association.max_sched_jobs = Limit(1));
        }));
        host.unblock(held_job, "afterany:other");
        assert_eq!(host.states([first_job, held_job]), [Some(State::Sched), Some(State::Depend)]);
        host.send_event(push_with_user_9(|_| ()));
        assert_eq!(host.state(held_job), Some(State::Sched), "the push that raised the limit releases it");
    }
}

/// The data was pushed before the replay, so no limit holds the jobs. But Flux has not asked for their priorities
/// since the reload, so the push must make the engine post these priorities.
#[test]
fn a_push_posts_priorities_of_jobs_that_flux_has_not_asked_about_since_a_reload() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let jobs = [7, 8, 7, 8, 7].map(|user| host.submit(HostJob::new(user)).unwrap());
    let mut engine = Engine::with_batches(SINGLE_POSTS);
    engine.handle(NOW, Event::Settings(Settings::default()));
    engine.handle(NOW, Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    host.replay_jobs(true, engine);
    let push = Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves()));
    assert_eq!(count_flux_loops_during_push(&mut host, push), 0);
    assert!(
        jobs.iter().all(|id| host.engine.view().priorities_of(*id).is_some()),
        "the jobs of the last turn too"
    );
}

/// A held job gets its priority when it is released.
#[test]
fn a_push_requests_no_priority_for_held_jobs() {
    let mut host = Host::new();
    host.engine.batches = SINGLE_POSTS;
    let jobs = submit_before_first_push(&mut host, &[9; 80]);
    let push = || {
        push_with_user_9(|all| {
            all.associations.iter_mut().for_each(|one| one.association.max_sched_jobs = Limit(1))
        })
    };
    assert_eq!(count_flux_loops_during_push(&mut host, push()), 1, "no job has a priority");
    let waiting = || jobs.iter().filter(|id| host.state(**id) == Some(State::Priority)).count();
    assert_eq!(waiting(), 79);
    assert_eq!(
        count_flux_loops_during_push(&mut host, push()),
        0,
        "the jobs without a priority are held now"
    );
}

/// A restart without data leaves the jobs in SCHED. An update of the jobspec would send them to PRIORITY again.
#[test]
fn a_push_sets_bank_and_priority_of_jobs_that_are_in_sched_already() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let jobs: Vec<JobId> = [7, 8].map(|user| host.submit(HostJob::new(user)).unwrap()).into();
    for id in &jobs {
        host.jobs.get_mut(id).unwrap().bank = None;
    }
    let mut engine = Engine::with_batches(SINGLE_POSTS);
    engine.handle(NOW, Event::Settings(Settings::default()));
    host.replay_jobs(true, engine);
    let push = Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves()));
    assert_eq!(count_flux_loops_during_push(&mut host, push), 0);
    for id in &jobs {
        let job = &host.jobs[id];
        let exact = i64::from(host.engine.view().priorities_of(*id).unwrap().exact.priority);
        assert_eq!((job.state, job.bank.as_deref(), job.priority), (State::Sched, Some("A"), Some(exact)));
    }
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_push_makes_flux_reprioritize_if_over_75_jobs_lack_a_priority() {
    for (waiting, by_loop) in [(75, 0), (76, 1)] {
        let mut host = Host::new();
        host.engine.batches = SINGLE_POSTS;
        let jobs = submit_before_first_push(&mut host, &vec![7; waiting]);
        let push = Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves()));
        assert_eq!(count_flux_loops_during_push(&mut host, push), by_loop, "{waiting}");
        assert!(jobs.iter().all(|id| host.state(*id) == Some(State::Sched)));
        assert_eq!(count_flux_loops_during_push(&mut host, push_with_user_9(|_| ())), 0);
    }
}

/// Flux takes 25 us to set a priority. Posts may take a quarter of the refresh period, which is 100 us here.
/// So each refresh posts one priority, and starts at the head of the queue. After two posts the order is
/// right.
#[test]
fn the_refresh_period_bounds_the_number_of_priorities_posted_one_by_one() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches = SINGLE_POSTS;
    host.send_event(Event::Settings(Settings { refresh: 0.0001, ..Settings::default() }));
    let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    let jobs = [8, 7, 8, 7].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.start_job(running_job);
    host.now += 300.0;
    for (touched, lagging, right_to, reason) in [
        (1, 3, 2, "a refresh posts at most 1 priorities"),
        (1, 2, 1000, "a posting would not reorder the first 1000 jobs of the queue"),
    ] {
        host.advance_time_and_refresh(0.0);
        let last = host.engine.view().get_live_fairshare_details().last.unwrap();
        assert_eq!((last.touched, last.lagging, last.right_to), (touched, lagging, Some(right_to)));
        let why = |id: &JobId| {
            answers::why(&host.engine.view(), &Host::facts(*id, &host.jobs[id]), host.now).unwrap()
        };
        let texts: Vec<String> = jobs.iter().filter_map(|id| Some(why(id).lag?.reason.text)).collect();
        assert!(!texts.is_empty() && texts.iter().all(|text| text.starts_with(reason)), "{texts:?}");
    }
}

/// The weight of fair-share changes after the last refresh, and `why` must give this as the reason for the
/// stale priority.
#[test]
fn why_explains_that_a_priority_changed_after_the_last_refresh() {
    let refreshed = |refresh| Settings { refresh, ..Settings::default() };
    for (settings, text) in [
        (refreshed(40.0), "it changed after the last refresh; a refresh comes every 40 s"),
        (refreshed(0.0), "it changed after the last refresh; the next refresh comes with a push"),
        (
            Settings { live: false, ..refreshed(40.0) },
            "it changed after the last posting; a push posts all priorities",
        ),
    ] {
        let mut host = make_host_with_live_fairshare(Policy::Classic);
        let id = host.submit(HostJob::new(7).bank("A")).unwrap();
        host.send_event(Event::Settings(settings));
        host.advance_time_and_refresh(30.0);
        host.send_event(Event::Weights(vec![("fairshare".to_owned(), 50_000)]));
        let why = answers::why(&host.engine.view(), &Host::facts(id, &host.jobs[&id]), host.now).unwrap();
        let reason = why.lag.unwrap().reason;
        assert_eq!((reason.code.as_ref(), reason.text.as_str()), ("since-refresh", text));
    }
}

/// One turn posts 100 of the 150 priorities, which takes Flux 2.5 ms. The next turn comes 7.5 ms later, so
/// that Flux can serve other requests.
#[test]
fn posting_single_priorities_uses_at_most_a_quarter_of_the_time() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches = SINGLE_POSTS;
    let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    for _ in 0..150 {
        host.submit(HostJob::new(7).bank("A")).unwrap();
    }
    host.start_job(running_job);
    host.engine.post_stale();
    let effects = host.engine.handle(host.now + 30.0, Event::Timer(Timer::Refresh));
    assert_eq!(effects.iter().filter(|effect| matches!(effect, Effect::Prioritize(..))).count(), 100);
    let pauses = effects.iter().filter_map(|effect| match effect {
        Effect::ArmIn(Timer::Slice, seconds) => Some(*seconds),
        _ => None,
    });
    assert_eq!(pauses.collect::<Vec<_>>(), [0.0075]);
}

/// Returns a host where user 7 may run one job in bank A, a released job in SCHED, and a held job. The priority of the held job comes from
/// its urgency alone.
fn submit_released_and_held(settings: Settings) -> (Host, [JobId; 2]) {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches = SINGLE_POSTS;
    host.send_event(Event::Settings(settings));
    let mut all_accounts = accounts();
    all_accounts.associations.iter_mut().for_each(|one| one.association.max_running_jobs = Limit(1));
    host.send_event(Event::Policy(all_accounts, tree(Policy::Classic, NOW, leaves())));
    let running_job = host.run_new_job(HostJob::new(7).bank("A"));
    let [freed, held] =
        [16, 20].map(|urgency| host.submit(HostJob { urgency, ..HostJob::new(7).bank("A") }).unwrap());
    host.end_job(running_job);
    assert_eq!(host.states([freed, held]), [Some(State::Sched), Some(State::Depend)]);
    (host, [freed, held])
}

/// Sets the weight of fair-share, and runs the refresh 30 s later.
fn set_weight(host: &mut Host, weight: i64) {
    host.send_event(Event::Weights(vec![("fairshare".to_owned(), weight)]));
    host.advance_time_and_refresh(30.0);
}

#[test]
fn a_job_whose_posted_priority_falls_to_0_gives_up_its_reservation() {
    let (mut host, [freed, held]) = submit_released_and_held(Settings::default());
    let loops = host.loops;
    set_weight(&mut host, 0);
    assert_eq!(host.loops, loops, "each priority was posted by itself");
    assert_eq!(host.states([freed, held]), [Some(State::Sched); 2]);
    assert_eq!([freed, held].map(|id| host.jobs[&id].priority), [Some(0), Some(4_000)]);
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

/// Running limits are strict. The job whose priority rises from 0 stays held until the job that took its
/// headroom ends.
#[test]
fn a_priority_that_rises_from_0_is_not_posted_while_another_job_has_the_headroom() {
    let (mut host, [freed, held_job]) =
        submit_released_and_held(running_limit_settings(RunningLimits::Strict, &[]));
    set_weight(&mut host, 0);
    assert_eq!([freed, held_job].map(|id| host.jobs[&id].priority), [Some(0), Some(4_000)]);
    set_weight(&mut host, 100_000);
    assert_eq!(host.jobs[&freed].priority, Some(0));
    assert!(host.jobs[&held_job].priority > Some(4_000));
    assert!(host.jobs[&freed].is_held_in_sched);
    host.end_job(held_job);
    assert!(host.jobs[&freed].priority > Some(0), "the job is released");
    assert_eq!(answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_post_outside_flux_reprioritization_adds_a_fair_share_memo() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    host.engine.batches = SINGLE_POSTS;
    let [running_job, waits] = [7, 7].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.start_job(running_job);
    let before = host.jobs[&waits].memos.len();
    host.engine.post_stale();
    host.advance_time_and_refresh(30.0);
    let (job, id) = (&host.jobs[&waits], host.engine.book().find(UserId(7), Some("A")).unwrap());
    assert_eq!(job.memos.len(), before + 1);
    assert_eq!(job.memos.last().copied(), host.engine.view().fairshare(id));
}

#[test]
fn a_small_site_is_refreshed_within_one_timer_event() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let jobs = [(7, "A"), (8, "A"), (7, "B"), (8, "A")];
    let [running_job, ..] = jobs.map(|(user, bank)| host.submit(HostJob::new(user).bank(bank)).unwrap());
    host.start_job(running_job);
    host.now += 30.0;
    let touched = host.engine.refresh.totals().1;
    let effects = host.engine.handle(host.now, Event::Timer(Timer::Refresh));
    assert!(!host.engine.view().get_live_fairshare_details().is_refreshing);
    let posted = effects.iter().filter(|effect| matches!(effect, Effect::Prioritize(..))).count();
    assert_eq!(posted, 2, "one of the other job in bank A, one of the job in bank B: {effects:?}");
    assert_eq!(host.engine.refresh.totals().1 - touched, 2);
    let is_release = |effect: &Effect| matches!(effect, Effect::Then(Step::ScanAllHeld));
    assert!(!effects.iter().any(is_release), "no push asked for a release scan: {effects:?}");
}

/// Returns a site in which user 7 runs a job. Under the classic policy each refresh lowers the priorities of both users.
fn make_falling_priority_site(policy: Policy, jobs: usize) -> Host {
    let mut host = make_host_with_live_fairshare(policy);
    let [one_job, other_job] = [7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    host.start_job(one_job);
    host.now += 100.0;
    host.start_job(other_job);
    for user in [7, 8].iter().cycle().take(jobs) {
        host.submit(HostJob::new(*user).bank("A")).unwrap();
    }
    host.advance_time_and_refresh(30.0);
    host
}

/// Returns the pending jobs, sorted by descending `priority` and then by id.
fn sort_pending(host: &Host, priority: impl Fn(JobId) -> u32) -> Vec<JobId> {
    let mut jobs = host.engine.view().list_pending_jobs_after(None, usize::MAX);
    jobs.sort_by_key(|id| (std::cmp::Reverse(priority(*id)), *id));
    jobs
}

fn is_in_order(host: &Host) -> bool {
    let posted = sort_pending(host, |id| host.engine.view().priorities_of(id).unwrap().posted.priority);
    posted == sort_pending(host, |id| host.engine.view().priorities_of(id).unwrap().exact.priority)
}

fn count_stale(host: &Host) -> usize {
    host.engine.view().get_live_fairshare_details().lagging
}

/// Flux adds each posted priority to the job's eventlog. So a refresh must not post a priority without need.
#[test]
fn a_refresh_posts_nothing_while_the_order_of_jobs_is_the_same() {
    for policy in Policy::ALL {
        for jobs in [1, 20, 301] {
            let mut host = make_falling_priority_site(policy, jobs);
            let (posts, loops) = (host.posts, host.loops);
            for _ in 0..20 {
                host.advance_time_and_refresh(30.0);
                assert!(is_in_order(&host), "{policy} {jobs}");
            }
            assert_eq!((host.posts, host.loops), (posts, loops), "{policy} {jobs}");
            assert!(policy != Policy::Classic || count_stale(&host) == jobs, "{}", count_stale(&host));
        }
    }
}

/// At first, user 8 has more usage than user 7. The job of user 7 runs until user 7 has more usage. To correct the
/// order, the refresh needs to post only the priorities of one user.
#[test]
fn a_refresh_posts_only_priorities_that_change_the_order_of_jobs() {
    for policy in [Policy::WeightedWalk, Policy::FairTree, Policy::Classic, Policy::DepthOblivious] {
        let mut host = Host::new();
        let used = vec![leaf(7, "A", 0.0, 0.0), leaf(8, "A", 100.0, 0.0), leaf(7, "B", 1000.0, 0.0)];
        host.send_event(Event::Policy(accounts(), tree(policy, NOW, used)));
        let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
        for user in [7, 7, 7, 8, 8] {
            host.submit(HostJob::new(user).bank("A")).unwrap();
        }
        host.start_job(running_job);
        let before = host.posts;
        for _ in 0..20 {
            host.advance_time_and_refresh(30.0);
            assert!(is_in_order(&host), "{policy}");
        }
        let posts = host.posts - before;
        assert!((2..=5).contains(&posts), "{policy}: {posts}");
        for id in host.engine.view().list_pending_jobs_after(None, 9) {
            assert_eq!(
                host.jobs[&id].user == 8,
                sort_pending(&host, |id| host.jobs[&id].priority.unwrap() as u32)[..2].contains(&id)
            );
        }
    }
}

#[test]
fn a_push_refreshes_stale_priorities_at_most_once_an_hour() {
    let mut host = make_falling_priority_site(Policy::Classic, 20);
    let (mut refreshed, mut seconds) = (Vec::new(), 0.0);
    // A push every five minutes brings usages that grow without a change of order.
    while seconds < 3.0 * 3_600.0 {
        let used = [(7, "A", 2.0), (8, "A", 1.0), (7, "B", 0.0)];
        let used = used.map(|(user, bank, used)| leaf(user, bank, used * (1e3 + seconds), 0.0)).to_vec();
        host.send_event(Event::Policy(accounts(), tree(Policy::Classic, host.now, used)));
        if count_stale(&host) == 0 {
            refreshed.push(seconds);
        }
        assert!(is_in_order(&host));
        for _ in 0..10 {
            host.advance_time_and_refresh(30.0);
        }
        seconds += 300.0;
    }
    assert_eq!(refreshed, [0.0, 3_600.0, 7_200.0]);
}

#[test]
fn a_push_that_changes_weights_or_shares_posts_all_priorities() {
    let mut host = make_falling_priority_site(Policy::Classic, 20);
    for (weight, shares) in [(90_000, 1), (80_000, 1), (80_000, 2), (80_000, 3)] {
        host.advance_time_and_refresh(30.0);
        let mut site = tree(Policy::Classic, host.now, leaves());
        site.associations[0].shares = shares;
        let mut changed_accounts = accounts();
        changed_accounts.weights.push(("fairshare".to_owned(), weight));
        host.send_event(Event::Policy(changed_accounts, site));
        assert_eq!(count_stale(&host), 0, "{weight} {shares}");
    }
}

/// Three events make Flux ask for all priorities: flux-accounting's reprioritize, a loop that another plugin starts,
/// and changed settings. Each of these events may cause posts of stale priorities at most once an hour.
#[test]
fn a_request_refreshes_stale_priorities_at_most_once_an_hour() {
    type Ask = fn(&mut Host);
    let asks: [(&str, Ask); 3] = [
        ("request", |host| host.send_event(Event::Reprioritize)),
        ("another plugin's loop", |host| host.reprioritize_all()),
        ("reload", |host| {
            let refresh = host.engine.view().settings().refresh + 1.0;
            host.send_event(Event::Settings(Settings { refresh, ..Settings::default() }));
        }),
    ];
    for (what, ask) in asks {
        let mut host = make_falling_priority_site(Policy::Classic, 20);
        host.now += 3_600.0;
        for (seconds, is_refreshed) in [(30.0, true), (30.0, false), (3_500.0, false), (70.0, true)] {
            host.advance_time_and_refresh(seconds);
            assert_eq!(count_stale(&host), 20, "{what}");
            let posts = host.posts;
            ask(&mut host);
            assert_eq!(count_stale(&host), if is_refreshed { 0 } else { 20 }, "{what} {seconds}");
            assert!(is_refreshed || host.posts == posts, "{what}");
            assert!(is_in_order(&host), "{what}");
        }
    }
}

/// The new job gets its current priority, but the posted priorities of the other jobs are stale. The engine
/// must post some of these to keep the order.
#[test]
fn the_engine_posts_stale_priorities_so_that_a_new_job_is_ordered() {
    let mut host = make_falling_priority_site(Policy::Classic, 20);
    for _ in 0..20 {
        host.advance_time_and_refresh(30.0);
    }
    assert_eq!(count_stale(&host), 20);
    let (refreshes, .., before) = host.engine.refresh.totals();
    let newcomer_job = host.submit(HostJob::new(8).bank("A")).unwrap();
    assert!(is_in_order(&host));
    let posted = host.jobs[&newcomer_job].priority.unwrap() as u32;
    assert_eq!(posted, host.engine.view().priorities_of(newcomer_job).unwrap().exact.priority);
    let (now, .., after) = host.engine.refresh.totals();
    assert_eq!(
        (now, after - before),
        (refreshes, 20 - count_stale(&host) as u64),
        "no refresh, but the posts count"
    );
}

/// A queue has 400 jobs of user 7, and its virtual queue has 400 jobs of user 8. A push reverses the order of the
/// users. Right after the push, the first jobs of both queues together must be jobs of user 8.
#[test]
fn jobs_of_a_virtual_queue_and_its_parent_share_one_priority_order() {
    for learned in ["configuration", "one list", "nowhere"] {
        let mut host = Host::new();
        host.engine.batches = Batches { ordered: 40, posted: 500, ..SINGLE_POSTS };
        let used =
            |of_7, of_8| vec![leaf(7, "A", of_7, 0.0), leaf(8, "A", of_8, 0.0), leaf(7, "B", 0.0, 0.0)];
        match learned {
            "configuration" => host.send_event(Event::ConfiguredQueues(vec![
                ("q1".into(), None),
                ("q2".into(), Some("q1".into())),
            ])),
            "one list" => host.send_event(Event::OneQueueList(true)),
            _ => {}
        }
        host.send_event(Event::Policy(accounts(), tree(Policy::Classic, NOW, used(10.0, 1000.0))));
        for (user, queue) in [(7, "q1"), (8, "q2")] {
            for _ in 0..400 {
                host.submit(HostJob::new(user).bank("A").queue(queue)).unwrap();
            }
        }
        // The start of q2 makes the plugin request the states of the queues again. After an hour, a push may post
        // stale priorities.
        host.set_queue_started("q2", true);
        host.now += 3_600.0;
        host.send_event(Event::Policy(accounts(), tree(Policy::Classic, host.now, used(1000.0, 1.0))));
        let first: Vec<u32> =
            sort_pending(&host, |id| host.engine.view().priorities_of(id).unwrap().posted.priority)
                .into_iter()
                .take(40)
                .map(|id| host.jobs[&id].user)
                .collect();
        assert_eq!(first.iter().all(|user| *user == 8), learned != "nowhere", "{learned}: {first:?}");
    }
}
