// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of budgets with a simulated Flux: one example for each rule.
//! Rules: B1, B3, B5, B6, B7, B8, B10, B11

mod random;

use super::FEW;
use super::host::Host;
use super::live::{leaf, tree};
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::{Budget, Cap, ChangeCounts, Queue, Scope, SiteLimit, SiteRecords, Target};
use crate::budgets::BudgetMode;
use crate::engine::answers::{AssociationFilter, BudgetShown, Heading, Open, check_job};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit, Measure, UserId};
use crate::standing::{Bookmark, SitePart};
use fairshare::Policy as Ranking;

const HOUR: f64 = 3_600.0;
const MS_PER_HOUR: u64 = 3_600_000;
/// The users and banks of the site.
const USERS: [(u32, &str); 3] = [(7, "A"), (8, "A"), (7, "B")];

fn hours(count: i64) -> i64 {
    count * MS_PER_HOUR as i64
}

/// Returns a budget of node-hours for the day that begins at `NOW`.
fn budget(target: Target, deposited: i64) -> Budget {
    let (start, end) = (NOW as i64, NOW as i64 + 86_400);
    Budget { target, measure: Measure::NodeTime, start, end, deposited, spent: 0, rate: 0 }
}

fn bank(name: &str) -> Target {
    Target::Bank(name.into())
}

fn push_with_budgets(budgets: Vec<Budget>, at: f64, watermarks: [f64; 3]) -> (SiteRecords, SitePart) {
    let policy = SiteRecords {
        associations: USERS.map(|(user, bank)| record(association(user, bank), bank)).into(),
        queues: vec![queue("q1")],
        projects: vec!["*".into()],
        parents: ["A", "B"].map(|bank| (bank.into(), "root".into())).into(),
        weights: vec![("fairshare".to_owned(), 100_000)],
        ..SiteRecords::default()
    };
    let leaves = std::iter::zip(USERS, watermarks).map(|((user, bank), until)| leaf(user, bank, 0.0, until));
    (policy, SitePart { budgets, ..tree(Ranking::FairTree, at, leaves.collect()) })
}

fn push(host: &mut Host, budgets: Vec<Budget>, watermark: f64) {
    let (policy, site) = push_with_budgets(budgets, host.now, [watermark; 3]);
    host.send_event(Event::Policy(policy, site));
}

fn host_with_budgets(budgets: Vec<Budget>, mode: BudgetMode) -> Host {
    let mut host = Host::new();
    host.send_event(Event::Settings(Settings { budgets: mode, ..Settings::default() }));
    push(&mut host, budgets, NOW);
    host
}

/// Returns a host with budgets. Jobs in queue q1 are charged by `factor`.
fn make_host_with_charged_queue(factor: f64, budgets: Vec<Budget>) -> Host {
    let mut host = Host::new();
    let charges = [("q1".into(), factor)].into();
    host.send_event(Event::Settings(Settings { charges, ..Settings::default() }));
    push(&mut host, budgets, NOW);
    host
}

/// Returns a job of `nodes` nodes with a time limit of `seconds`.
fn job(user: u32, bank: &str, nodes: u64, seconds: f64) -> HostJob {
    HostJob { duration: seconds, limit: Some(seconds), ..HostJob::new(user).bank(bank).size(nodes, nodes) }
}

fn spent(host: &Host, target: &Target) -> u64 {
    let is_of = |window: &&crate::budgets::Window| window.budget.target == *target;
    host.engine.budgets.windows().filter(is_of).map(crate::budgets::Window::spent).sum()
}

fn end_job_seconds_after_start(host: &mut Host, id: JobId, seconds: f64) {
    host.now = host.jobs[&id].started.unwrap() + seconds - 1.0;
    host.end_job(id);
}

#[test]
fn a_job_that_ends_early_returns_its_unused_amount_to_the_budget() {
    let mut host = host_with_budgets(vec![budget(bank("root"), hours(10))], BudgetMode::Hold);
    let first = host.submit(job(7, "A", 4, 2.0 * HOUR)).unwrap();
    let second = host.submit(job(7, "B", 1, 3.0 * HOUR)).unwrap();
    assert_eq!(host.names(second), ["budget-node-hours-bank"], "8 of 10 node-hours are committed");
    let small = host.submit(job(8, "A", 1, 2.0 * HOUR)).unwrap();
    assert_eq!(host.state(small), Some(State::Sched), "2 node-hours are left");
    host.start_job(first);
    end_job_seconds_after_start(&mut host, first, 900.0);
    assert_eq!(spent(&host, &bank("root")), MS_PER_HOUR, "4 nodes for a quarter of an hour");
    assert_eq!(host.state(second), Some(State::Sched));
}

#[test]
fn a_budget_counts_jobs_in_a_queue_that_is_exempt_from_limits_of_the_bank() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(3))], BudgetMode::Hold);
    let cap = Cap { limit: Limit(1), is_given: false };
    let amount = Amount::parse("run-sched-jobs").unwrap();
    let limits = vec![SiteLimit { target: bank("A"), queue: None, amount, cap }];
    let exempt = [("q1".into(), [Scope::Bank].into())].into();
    host.send_event(Event::Settings(Settings { limits, exempt, ..Settings::default() }));
    let jobs = [job(7, "A", 1, HOUR).queue("q1"), job(8, "A", 1, HOUR).queue("q1"), job(7, "A", 1, HOUR)];
    for job in jobs {
        let id = host.submit(job).unwrap();
        assert_eq!(host.state(id), Some(State::Sched), "the limit counts one job, the budget all three");
    }
    let exempt_job = host.submit(job(7, "A", 1, HOUR).queue("q1")).unwrap();
    assert_eq!(host.names(exempt_job), ["budget-node-hours-bank"]);
    let counted_job = host.submit(job(8, "A", 1, HOUR)).unwrap();
    assert_eq!(host.names(counted_job), ["budget-node-hours-bank", "max-run-sched-jobs-bank"]);
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

#[test]
fn a_job_after_its_time_limit_is_charged_for_its_time_limit() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(7, "A", 1, HOUR)).unwrap();
    host.start_job(id);
    end_job_seconds_after_start(&mut host, id, HOUR + 60.0);
    assert_eq!(spent(&host, &bank("A")), MS_PER_HOUR);
}

#[test]
fn budgets_of_users_and_associations_and_core_hour_budgets_hold_jobs() {
    let of_user = Target::User(UserId(7));
    let of_association = Target::Association(UserId(7), "A".into());
    let cores = Budget { measure: Measure::CoreTime, ..budget(bank("A"), hours(2)) };
    for (target, name) in [
        (budget(of_user, hours(2)), "budget-node-hours-user"),
        (budget(of_association, hours(2)), "budget-node-hours-association"),
        (cores, "budget-core-hours-bank"),
    ] {
        let mut host = host_with_budgets(vec![target], BudgetMode::Hold);
        let held = host.submit(job(7, "A", 3, HOUR)).unwrap();
        assert_eq!(host.names(held), [name]);
        let id = host.submit(job(7, "A", 2, HOUR)).unwrap();
        assert_eq!(host.names(id), [] as [&str; 0]);
    }
}

#[test]
fn a_job_without_a_time_limit_is_rejected_if_a_budget_counts_the_job() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let text = "the budget of bank A counts node-hours, so each job needs a time limit: set one with -t";
    assert_eq!(host.submit(job(7, "A", 1, 0.0)), Err(text.to_owned()));
    assert!(host.submit(job(7, "B", 1, 0.0)).is_ok(), "no budget counts the job");
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Warn);
    assert!(host.submit(job(7, "A", 1, 0.0)).is_ok());
    assert!(host.submit(job(7, "A", 100, HOUR)).is_ok());
}

#[test]
fn budget_mode_reject_rejects_new_jobs_and_holds_accepted_ones_when_exhausted() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Reject);
    let text = "the job may use 11 node-hours, and the budget of bank A has 10 of 10 left: request less time with -t, \
                or ask for a deposit";
    assert_eq!(host.submit(job(7, "A", 11, HOUR)), Err(text.to_owned()));
    let blocked = host.submit(job(7, "A", 6, HOUR).blocked_by("begin-time")).unwrap();
    let id = host.submit(job(8, "A", 6, HOUR)).unwrap();
    assert_eq!(host.state(id), Some(State::Sched));
    host.remove_dependency(blocked, "begin-time");
    host.run_until_idle();
    assert_eq!(host.names(blocked), ["budget-node-hours-bank"]);
}

/// A job that another limit holds spends nothing, so it is not rejected.
#[test]
fn the_answer_about_several_jobs_counts_those_that_a_budget_would_reject() {
    let few_jobs = |cap| {
        let (cap, amount) =
            (Cap { limit: Limit(cap), is_given: false }, Amount::parse("sched-jobs").unwrap());
        vec![SiteLimit { target: bank("A"), queue: None, amount, cap }]
    };
    for (mode, limits, expected) in [
        (BudgetMode::Hold, Vec::new(), (0, 3)),
        (BudgetMode::Reject, Vec::new(), (3, 0)),
        (BudgetMode::Reject, few_jobs(6), (3, 0)),
        (BudgetMode::Reject, few_jobs(5), (3, 0)),
        (BudgetMode::Reject, few_jobs(4), (0, 4)),
    ] {
        let mut host = host_with_budgets(vec![budget(bank("A"), hours(11))], mode);
        host.send_event(Event::Settings(Settings { budgets: mode, limits, ..Settings::default() }));
        let (job, view) = (job(7, "A", 2, HOUR), host.engine.view());
        let heading = Heading::new(&view, host.now, None);
        let answer = check_job(&view, &Host::facts(JobId(u64::MAX), &job), 8, Open::All, heading);
        let submitted: Vec<_> = (0..8).map(|_| host.submit(job.clone())).collect();
        let held = submitted.iter().flatten().filter(|id| host.state(**id) == Some(State::Depend)).count();
        let rejected = submitted.iter().filter(|submitted| submitted.is_err()).count();
        assert_eq!((rejected, held), expected, "{mode:?}");
        assert_eq!((answer.jobs_rejected, answer.jobs_held), (rejected as u64, held as u64), "{answer:?}");
        let limit = answer.active_limit.or(answer.first_limit.map(String::from)).unwrap();
        assert_eq!(limit.starts_with("budget-node-hours-bank"), expected != (0, 4), "{limit}");
    }
}

#[test]
fn a_job_without_a_time_limit_may_not_move_to_a_bank_whose_budget_counts_it() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(7, "B", 1, 0.0).blocked_by("begin-time")).unwrap();
    let text = "the budget of bank A counts node-hours, so each job needs a time limit: set one with -t";
    assert_eq!(host.update_job(id, None, Some("A")), Err(text.to_owned()));
    assert_eq!(host.update_job(id, Some("q1"), None), Ok(()));
}

#[test]
fn a_deposit_releases_held_jobs_and_a_refund_holds_only_new_jobs() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(1))], BudgetMode::Hold);
    let id = host.submit(job(7, "A", 2, HOUR)).unwrap();
    assert_eq!(host.state(id), Some(State::Depend));
    push(&mut host, vec![budget(bank("A"), hours(2))], NOW);
    assert_eq!(host.state(id), Some(State::Sched));
    push(&mut host, vec![budget(bank("A"), hours(-1))], NOW);
    assert_eq!(host.state(id), Some(State::Sched));
    let next = host.submit(job(8, "A", 1, 1.0)).unwrap();
    assert_eq!(host.state(next), Some(State::Depend));
    push(&mut host, Vec::new(), NOW);
    assert_eq!(host.state(next), Some(State::Sched), "a bank without deposits has no budget");
}

#[test]
fn a_push_that_includes_an_ended_job_does_not_change_the_spent_amount() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(7, "A", 2, 2.0 * HOUR)).unwrap();
    host.start_job(id);
    end_job_seconds_after_start(&mut host, id, HOUR);
    let charge = 2 * MS_PER_HOUR;
    assert_eq!(spent(&host, &bank("A")), charge);
    // The first push does not include the job's end, and the second push includes the job's end.
    for (spent_in_push, watermark) in [(0, NOW), (hours(2), host.now)] {
        push(&mut host, vec![Budget { spent: spent_in_push, ..budget(bank("A"), hours(10)) }], watermark);
        assert_eq!(spent(&host, &bank("A")), charge);
    }
}

#[test]
fn a_job_spends_from_the_window_in_which_it_starts() {
    let first = budget(bank("A"), hours(4));
    let second = Budget { start: first.end + 3_600, end: first.end + 86_400, ..first.clone() };
    let mut host = host_with_budgets(vec![first.clone(), second.clone()], BudgetMode::Hold);
    host.now = first.end as f64 - 600.0;
    let running = host.submit(job(7, "A", 3, HOUR)).unwrap();
    host.start_job(running);
    host.now = first.end as f64 + 1.0;
    let held = host.submit(job(8, "A", 4, HOUR)).unwrap();
    assert_eq!(host.names(held), ["budget-node-hours-bank"], "no window is in force");
    host.advance_time_and_refresh(HOUR);
    assert_eq!(host.state(held), Some(State::Sched), "the running job spends from the first window");
    host.start_job(held);
    for id in [running, held] {
        host.end_job(id);
    }
    let spent: Vec<bool> = host.engine.budgets.windows().map(|window| window.spent() > 0).collect();
    assert_eq!(spent, [true, true]);
}

#[test]
fn budgets_hold_jobs_until_job_list_has_listed_ended_jobs() {
    let mut host = Host::new();
    host.has_job_list = false;
    push(&mut host, vec![budget(bank("A"), hours(10))], NOW);
    let id = host.submit(job(7, "A", 1, 1.0)).unwrap();
    assert_eq!(host.names(id), ["budget-node-hours-bank"]);
    host.has_job_list = true;
    host.fire_retry_timer();
    assert_eq!(host.state(id), Some(State::Sched));
}

#[test]
fn budget_charges_survive_a_reload_and_a_restart() {
    for is_reload in [true, false] {
        let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
        let [ended, running] = [3.0, 2.0].map(|nodes| {
            let id = host.submit(job(7, "A", nodes as u64, HOUR)).unwrap();
            host.start_job(id);
            id
        });
        end_job_seconds_after_start(&mut host, ended, 2.0 * HOUR);
        let held = host.submit(job(8, "A", 6, HOUR)).unwrap();
        assert_eq!(host.names(held), ["budget-node-hours-bank"]);
        // The snapshot of the crashed instance lacks the job that ended last.
        host.replay_jobs(is_reload, Engine::with_batches(FEW));
        push(&mut host, vec![budget(bank("A"), hours(10))], NOW);
        assert_eq!(spent(&host, &bank("A")), 3 * MS_PER_HOUR, "the time limit of an ended job is kept");
        assert_eq!(host.names(held), ["budget-node-hours-bank"]);
        end_job_seconds_after_start(&mut host, running, 2.5 * HOUR);
        assert_eq!(spent(&host, &bank("A")), 5 * MS_PER_HOUR);
        assert_eq!(host.names(held), ["budget-node-hours-bank"]);
    }
}

#[test]
fn ended_jobs_in_the_snapshot_keep_their_time_limits() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(7, "A", 1, HOUR)).unwrap();
    host.start_job(id);
    end_job_seconds_after_start(&mut host, id, 2.0 * HOUR);
    let (ended, sums, _) = crate::engine::uncovered(&host.engine.view(), Bookmark::default(), 10);
    host.engine = Engine::with_batches(FEW);
    host.ended.clear();
    host.send_event(Event::Recalled(ended, sums));
    push(&mut host, vec![budget(bank("A"), hours(10))], NOW);
    assert_eq!(spent(&host, &bank("A")), MS_PER_HOUR);
}

#[test]
fn a_push_with_budgets_and_without_a_tree_is_rejected() {
    let mut host = host_with_budgets(Vec::new(), BudgetMode::Hold);
    let (policy, site) = push_with_budgets(vec![budget(bank("A"), 0)], NOW, [NOW; 3]);
    let effects = host.engine.handle(NOW, Event::Policy(policy, SitePart { rule: None, ..site }));
    assert!(
        matches!(&effects[..], [crate::engine::Effect::RejectPush(text)] if text.starts_with("budgets: the push has no tree"))
    );
    assert!(host.engine.budgets.is_empty());
}

#[test]
fn a_push_counts_changes_of_deposits_and_not_of_spent_amounts() {
    let mut host =
        host_with_budgets(vec![budget(bank("A"), hours(10)), budget(bank("B"), hours(1))], BudgetMode::Hold);
    let spent = Budget { spent: 5, rate: 7, ..budget(bank("B"), hours(1)) };
    let next = vec![budget(bank("A"), hours(11)), spent, budget(bank("root"), hours(1))];
    let (policy, site) = push_with_budgets(next.clone(), NOW, [NOW; 3]);
    let difference = host.engine.difference(policy, site).unwrap();
    assert_eq!(difference.others.budgets, ChangeCounts { added: 1, changed: 1, removed: 0 });
    push(&mut host, next, NOW);
    assert_eq!(host.engine.view().last_difference().others.budgets, difference.others.budgets);
    push(&mut host, Vec::new(), NOW);
    let counts = host.engine.view().last_difference().others.budgets;
    assert_eq!(counts, ChangeCounts { added: 0, changed: 0, removed: 3 });
}

#[test]
fn a_push_whose_parts_have_overlapping_windows_is_rejected() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let overlapping = Budget { start: NOW as i64, ..budget(bank("A"), hours(5)) };
    let (policy, site) = push_with_budgets(vec![budget(bank("A"), hours(1))], NOW, [NOW; 3]);
    host.send_event(Event::PolicyBegin { keeps_config: false });
    host.send_event(Event::PolicyPart(policy, site));
    let part = SitePart { budgets: vec![overlapping], ..SitePart::default() };
    host.send_event(Event::PolicyPart(SiteRecords::default(), part));
    let effects = host.engine.handle(NOW, Event::PolicyCommit);
    assert!(
        matches!(&effects[..], [crate::engine::Effect::RejectPush(text)] if text.starts_with("budgets: expected a start"))
    );
    assert_eq!(host.engine.budgets.windows().next().unwrap().budget.deposited, hours(10));
}

#[test]
fn an_update_may_not_extend_a_pending_job_beyond_the_budget() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(7, "A", 5, HOUR)).unwrap();
    let validate = |host: &mut Host, seconds: f64| {
        let updated = HostJob { duration: seconds, ..host.jobs[&id].clone() };
        !host.engine.handle(host.now, Event::Validate(Host::facts(id, &updated))).is_empty()
    };
    assert!(!validate(&mut host, 2.0 * HOUR));
    assert!(!validate(&mut host, 0.5 * HOUR));
    assert!(validate(&mut host, 2.0 * HOUR + 1.0));
    assert!(validate(&mut host, 0.0), "the job loses its time limit");
}

/// Flux does not ask plugins to validate a time limit that the instance owner sets.
#[test]
fn a_job_in_sched_that_the_owner_extends_beyond_the_budget_is_held() {
    for (mode, is_held) in [(BudgetMode::Hold, true), (BudgetMode::Reject, true), (BudgetMode::Warn, false)] {
        let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], mode);
        let first = host.submit(job(7, "A", 3, 2.0 * HOUR)).unwrap();
        let extended = host.submit(job(8, "A", 4, HOUR)).unwrap();
        host.start_job(first);
        for (seconds, is_beyond) in [(0.5 * HOUR, false), (1.5 * HOUR, true), (HOUR, false)] {
            let is_held = is_held && is_beyond;
            host.jobs.get_mut(&extended).unwrap().duration = seconds;
            host.force_update(extended, None, Some("A".to_owned()));
            assert_eq!(host.state(extended), Some(State::Sched));
            assert_eq!(host.jobs[&extended].priority == Some(0), is_held, "{mode:?} {seconds}");
            assert_eq!(host.engine.view().is_held(extended), is_held, "{mode:?} {seconds}");
        }
    }
}

/// Budgets need each ended job that no push covers. Without budgets, the engine evicts such jobs beyond its
/// retention limits.
#[test]
fn ended_jobs_that_no_push_covers_are_not_evicted_while_there_are_budgets() {
    let memory = crate::standing::Retention { jobs: 4, each: 2 };
    for (budgets, is_kept) in [(vec![budget(bank("A"), hours(10))], true), (Vec::new(), false)] {
        let mut host = Host::new();
        host.engine = Engine::with_batches(FEW).with_retention(memory);
        push(&mut host, budgets, NOW);
        for _ in 0..12 {
            let id = host.submit(job(7, "A", 1, 60.0)).unwrap();
            host.start_job(id);
            host.end_job(id);
            host.advance_time_and_refresh(30.0);
        }
        assert_eq!(host.engine.standing.usages.counts().2 == 12, is_kept);
    }
}

#[test]
fn the_query_shows_what_jobs_have_spent_and_may_still_spend() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    assert!(
        !serde_json::to_string(&crate::engine::answers::snapshot(&Host::new().engine.view()))
            .unwrap()
            .contains("budgets")
    );
    let [ended, running] = [2, 3].map(|nodes| {
        let id = host.submit(job(7, "A", nodes, HOUR)).unwrap();
        host.start_job(id);
        id
    });
    let start = host.jobs[&running].started.unwrap();
    end_job_seconds_after_start(&mut host, ended, 0.5 * HOUR);
    host.submit(job(8, "A", 1, HOUR)).unwrap();
    host.now = start + 0.5 * HOUR;
    host.advance_time_and_refresh(0.0);
    let shown = crate::engine::answers::snapshot(&host.engine.view()).budgets.remove(0);
    let half = MS_PER_HOUR / 2;
    assert_eq!((shown.spent, shown.committed), (Some(5 * half), Some(5 * half)));
    assert!(shown.complete && shown.in_force);
    let held = host.submit(job(7, "A", 6, HOUR)).unwrap();
    let why =
        crate::engine::answers::why(&host.engine.view(), &Host::facts(held, &host.jobs[&held]), host.now)
            .unwrap();
    assert_eq!(
        why.holds[0].text,
        "5 of 10 node-hours in the budget of bank A and the banks below it are spent, or committed to \
         released jobs; this job takes 6"
    );
}

#[test]
fn a_user_sees_the_budgets_of_own_jobs_but_not_others_spending() {
    let rate = hours(24);
    let budgets = vec![
        Budget { rate, ..budget(bank("root"), hours(10)) },
        Budget { rate, ..budget(Target::User(UserId(7)), hours(5)) },
        budget(bank("B"), hours(1)),
        budget(Target::User(UserId(8)), hours(1)),
    ];
    let mut host = host_with_budgets(budgets, BudgetMode::Hold);
    let id = host.submit(job(7, "A", 1, 2.0 * HOUR)).unwrap();
    host.start_job(id);
    host.now = host.jobs[&id].started.unwrap() + HOUR;
    let show = |open| {
        let wanted = AssociationFilter {
            user: Some(UserId(7)),
            bank: Some("A".to_owned()),
            after: None,
            most: 9,
            open,
        };
        let page = crate::engine::answers::standings(&host.engine.view(), &wanted, host.now);
        page.associations[0].budgets.clone()
    };
    let full = show(Open::Banks);
    let amounts = |it: &BudgetShown| (it.scope.to_string(), it.spent, it.committed);
    let spent = Some(MS_PER_HOUR);
    assert_eq!(
        full.iter().map(amounts).collect::<Vec<_>>(),
        [("bank".to_owned(), spent, spent), ("user".to_owned(), spent, spent),]
    );
    let own = show(Open::Own);
    let hidden = BudgetShown { spent: None, committed: None, rate: None, ..full[0].clone() };
    assert_eq!(own, [hidden, full[1].clone()]);
}

/// The job ended while there were no budgets, so the snapshot lacks its time limit. The engine must then get
/// the time limit from job-list.
#[test]
fn a_job_whose_time_limit_the_snapshot_lacks_gets_it_from_job_list() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(7, "A", 1, HOUR)).unwrap();
    host.start_job(id);
    end_job_seconds_after_start(&mut host, id, 2.0 * HOUR);
    let (mut ended, sums, _) = crate::engine::uncovered(&host.engine.view(), Bookmark::default(), 10);
    ended[0].job.limit = 0.0;
    host.engine = Engine::with_batches(FEW);
    host.send_event(Event::Recalled(ended, sums));
    push(&mut host, vec![budget(bank("A"), hours(10))], NOW);
    assert_eq!(spent(&host, &bank("A")), MS_PER_HOUR);
}

#[test]
fn the_charge_factor_of_a_queue_applies_to_spent_and_committed_budget_amounts() {
    let mut host = Host::new();
    let configure = |host: &mut Host, factor| {
        host.oracle.budgets.charges.push((host.now, factor));
        let charges = [("q1".into(), factor)].into();
        host.send_event(Event::Settings(Settings { charges, ..Settings::default() }));
    };
    configure(&mut host, 0.5);
    push(&mut host, vec![budget(bank("A"), hours(10))], NOW);
    let running = host.submit(job(7, "A", 16, HOUR).queue("q1")).unwrap();
    assert_eq!(host.state(running), Some(State::Sched), "16 node-hours count as 8");
    host.start_job(running);
    let waiting = host.submit(job(8, "A", 2, HOUR).queue("q1")).unwrap();
    assert_eq!(host.state(waiting), Some(State::Sched));
    let held = host.submit(job(7, "A", 3, HOUR).queue("q1")).unwrap();
    assert_eq!(host.names(held), ["budget-node-hours-bank"], "9 of 10 node-hours are committed");
    configure(&mut host, 0.25);
    host.run_until_idle();
    assert_eq!(host.state(held), Some(State::Sched), "the jobs that do not run count with the new factor");
    end_job_seconds_after_start(&mut host, running, HOUR);
    assert_eq!(spent(&host, &bank("A")), 8 * MS_PER_HOUR, "the factor at the start of the job counts");
    host.start_job(waiting);
    end_job_seconds_after_start(&mut host, waiting, HOUR);
    assert_eq!(spent(&host, &bank("A")), 8 * MS_PER_HOUR + MS_PER_HOUR / 2);
}

#[test]
fn a_job_may_not_move_to_a_queue_where_its_charge_would_exceed_the_budget() {
    let mut host = make_host_with_charged_queue(3.0, vec![budget(bank("A"), hours(10))]);
    let moves = |host: &mut Host, id, queue| {
        let state = host.state(id).unwrap();
        host.engine.handle(host.now, Event::UpdateQueue { id, user: UserId(7), state, queue }).is_empty()
    };
    let [small, large] = [3, 4].map(|nodes| host.submit(job(7, "A", nodes, HOUR)).unwrap());
    assert!(!moves(&mut host, small, "q1"), "9 more than the 4 committed node-hours");
    assert!(!moves(&mut host, large, "q1"));
    host.end_job(large);
    assert!(moves(&mut host, small, "q1"));
    host.jobs.get_mut(&small).unwrap().queue = Some("q1".to_owned());
    let updated = host.jobs[&small].clone();
    host.send_event(Event::Updated(Host::facts(small, &updated)));
    let held = host.submit(job(8, "A", 2, HOUR)).unwrap();
    assert_eq!(host.names(held), ["budget-node-hours-bank"], "9 of 10 node-hours are committed");
    assert!(moves(&mut host, small, "q2"), "a move to a cheaper queue is allowed");
}

#[test]
fn a_job_whose_association_the_push_lacks_is_charged_until_the_next_push() {
    let mut host = host_with_budgets(vec![budget(bank("A"), hours(10))], BudgetMode::Hold);
    let id = host.submit(job(8, "A", 2, HOUR)).unwrap();
    host.start_job(id);
    let push_without = |host: &mut Host, spent| {
        let budgets = vec![Budget { spent, ..budget(bank("A"), hours(10)) }];
        let (mut policy, mut site) = push_with_budgets(budgets, host.now, [NOW; 3]);
        policy.associations.retain(|record| record.association.user != UserId(8));
        site.associations.retain(|leaf| leaf.user != Some(UserId(8)));
        host.send_event(Event::Policy(policy, site));
    };
    push_without(&mut host, 0);
    end_job_seconds_after_start(&mut host, id, HOUR);
    assert_eq!(spent(&host, &bank("A")), 2 * MS_PER_HOUR);
    // The next push includes the charge of the ended job in the spent amount of the bank. The push does not say up to
    // which time it includes jobs of the association. The job must not be charged twice.
    push_without(&mut host, hours(2));
    assert_eq!(spent(&host, &bank("A")), 2 * MS_PER_HOUR);
}

#[test]
fn the_charge_factor_of_a_queue_applies_to_an_extended_time_limit() {
    let mut host = make_host_with_charged_queue(0.5, vec![budget(bank("A"), hours(10))]);
    let id = host.submit(job(7, "A", 5, HOUR).queue("q1")).unwrap();
    let mut is_rejected = |seconds: f64| {
        let updated = HostJob { duration: seconds, ..host.jobs[&id].clone() };
        !host.engine.handle(host.now, Event::Validate(Host::facts(id, &updated))).is_empty()
    };
    assert!(!is_rejected(4.0 * HOUR), "20 node-hours count as 10");
    assert!(is_rejected(4.0 * HOUR + 1.0));
}

#[test]
fn an_ended_job_is_saved_with_its_queue_if_charged_and_with_its_time_limit_if_there_are_budgets() {
    let charged = make_host_with_charged_queue(2.0, vec![budget(bank("A"), hours(10))]);
    let uncharged = host_with_budgets(Vec::new(), BudgetMode::Hold);
    for (mut host, stored) in [(charged, (true, HOUR)), (uncharged, (false, 0.0))] {
        let is_incomplete = host.engine.unsaved_ended().take(0).is_none();
        assert_eq!(is_incomplete, stored.0, "the snapshot lacks the new charge factor");
        host.engine.unsaved_ended().clear();
        let id = host.submit(job(7, "A", 1, HOUR).queue("q1")).unwrap();
        host.start_job(id);
        end_job_seconds_after_start(&mut host, id, 60.0);
        let saved = host.engine.unsaved_ended().take(10).unwrap();
        assert_eq!(saved.len(), 1);
        assert_eq!((saved[0].job.queue.is_some(), saved[0].job.limit), stored);
    }
}

#[test]
fn the_charge_factor_of_a_queue_applies_to_a_job_before_its_submission() {
    let host = make_host_with_charged_queue(3.0, vec![budget(bank("A"), hours(10))]);
    for (nodes, is_held) in [(3, false), (4, true)] {
        let job = job(7, "A", nodes, HOUR).queue("q1");
        let (view, facts) = (host.engine.view(), Host::facts(JobId(u64::MAX), &job));
        let checked = check_job(&view, &facts, 1, Open::All, Heading::new(&view, host.now, None));
        let mut host = host.clone();
        let id = host.submit(job.clone()).unwrap();
        assert_eq!((!checked.holds.is_empty(), !host.names(id).is_empty()), (is_held, is_held), "{nodes}");
    }
}

#[test]
fn why_suggests_no_queue_in_which_the_charge_exceeds_the_budget() {
    for (factor, is_suggested) in [(1.0, true), (3.0, false)] {
        let mut host = make_host_with_charged_queue(factor, vec![]);
        let (mut policy, site) = push_with_budgets(vec![budget(bank("A"), hours(10))], NOW, [NOW; 3]);
        policy.queues.push(Queue { max_running_jobs: Limit(1), ..queue("q2") });
        host.send_event(Event::Policy(policy, site));
        host.run_new_job(job(7, "A", 1, HOUR).queue("q2"));
        let held = host.submit(job(7, "A", 4, HOUR).queue("q2")).unwrap();
        assert_eq!(host.names(held), ["max-run-jobs-queue"]);
        let helps = super::why::explain_job(&host, held).helps;
        assert_eq!(helps.iter().any(|help| help.code == "queue"), is_suggested, "{helps:?}");
        assert_eq!(host.update_job(held, Some("q1"), None), Ok(()));
        assert_eq!(host.names(held).is_empty(), is_suggested);
    }
}

/// The plugin checks the time limit, the queue and the bank after one update together.
#[test]
fn one_update_of_time_limit_and_queue_or_bank_may_not_exceed_the_budget() {
    let budgets = ["A", "B"].map(|name| budget(bank(name), hours(10)));
    let mut host = make_host_with_charged_queue(3.0, budgets.into());
    let id = host.submit(job(7, "A", 1, 2.0 * HOUR)).unwrap();
    host.submit(job(7, "B", 1, 6.0 * HOUR)).unwrap();
    for (queue, bank, hours, is_rejected) in [
        (Some("q1"), "A", 3.0, false),
        (Some("q1"), "A", 4.0, true),
        (None, "B", 4.0, false),
        (None, "B", 5.0, true),
    ] {
        let queue = queue.map(str::to_owned);
        let updated = HostJob { duration: hours * HOUR, queue, ..host.jobs[&id].clone().bank(bank) };
        let effects = host.engine.handle(host.now, Event::Validate(Host::facts(id, &updated)));
        assert_eq!(!effects.is_empty(), is_rejected, "{bank} {hours}: {effects:?}");
    }
}
