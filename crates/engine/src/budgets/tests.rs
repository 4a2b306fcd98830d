// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of windows, charges and amounts of budgets.

use super::*;
use crate::ids::UserId;
use crate::standing::Ended;
use fairshare::periods::Resources;
use proptest::prelude::*;

const NODE_HOURS: Amount = Amount::BUDGETS[0];

fn target_bank_a() -> Target {
    Target::Bank("A".into())
}

fn budget(start: i64, end: i64, deposited: i64, spent: i64) -> Budget {
    Budget { target: target_bank_a(), measure: Measure::NodeTime, start, end, deposited, spent, rate: 0 }
}

fn budgets(list: &[Budget]) -> Budgets {
    let mut budgets = Budgets::default();
    budgets.replace_all_budgets(list.to_vec());
    budgets
}

fn run(id: u64, nodes: u64, (start, end): (f64, f64), limit: f64) -> EndedRun {
    let ran_on = Resources { nodes, cores: 4 * nodes, gpus: 0 };
    let job = Job { id: JobId(id), user: UserId(7), bank: "A".into(), queue: None, ran_on, start, limit };
    EndedRun { ended: Ended { job, end }, charge_factor: 1.0, is_included: false }
}

/// Returns the cap and the spent amount of the budget at `now`.
fn get_budget_amounts_at(budgets: &mut Budgets, now: f64) -> (i64, u64) {
    let (limits, accounts) = budgets.in_force(now, true);
    (limits[0].cap.limit.0, accounts[&(target_bank_a(), NODE_HOURS)].spent)
}

#[test]
fn a_budget_is_0_outside_of_its_windows() {
    let mut budgets = budgets(&[budget(100, 200, 5, 1), budget(300, 400, 9, 2)]);
    for (now, deposited, spent) in
        [(99.9, 0, 0), (100.0, 5, 1), (199.9, 5, 1), (200.0, 0, 0), (350.0, 9, 2), (400.0, 0, 0)]
    {
        assert_eq!(get_budget_amounts_at(&mut budgets, now), (deposited, spent), "{now}");
    }
}

#[test]
fn budgets_are_recomputed_if_the_clock_crosses_a_window_boundary_either_way() {
    let mut budgets = budgets(&[budget(100, 200, 5, 0)]);
    assert!(budgets.is_outdated(150.0, true), "nothing is computed yet");
    drop(budgets.in_force(150.0, true));
    for (now, is_outdated) in
        [(150.0, false), (100.0, false), (199.9, false), (200.0, true), (99.9, true), (f64::NAN, true)]
    {
        assert_eq!(budgets.is_outdated(now, true), is_outdated, "{now}");
    }
    assert!(budgets.is_outdated(150.0, false), "ended jobs are being read");
    assert!(!Budgets::default().is_outdated(150.0, false));
}

#[test]
fn a_charge_is_the_size_times_the_run_time_in_whole_milliseconds_times_the_factor() {
    for (nodes, ran, limit, charge_factor, charge) in [
        (3, (100.0, 101.5), 0.0, 1.0, 4_500),
        (3, (100.0, 101.5), 1.0, 1.0, 3_000),
        (3, (100.0, 101.5), 60.0, 1.0, 4_500),
        (1, (100.0, 100.000_4), 60.0, 1.0, 0),
        (1, (100.0, 100.000_6), 60.0, 1.0, 1),
        (7, (100.0, 100.0), 60.0, 1.0, 0),
        (3, (100.0, 101.5), 60.0, 0.1, 450),
        (1, (100.0, 100.003), 60.0, 0.5, 2),
        (3, (100.0, 101.5), 60.0, 0.0, 0),
    ] {
        let mut budgets = budgets(&[budget(0, 1_000, 0, 10)]);
        let run = EndedRun { charge_factor, ..run(1, nodes, ran, limit) };
        drop(budgets.charge_job(&SiteLimits::default(), &run, true, 500.0));
        assert_eq!(get_budget_amounts_at(&mut budgets, 500.0), (0, 10 + charge), "{run:?}");
    }
}

#[test]
fn a_job_spends_from_the_window_in_which_it_starts() {
    let mut budgets = budgets(&[budget(100, 200, 5, 0), budget(200, 300, 9, 0)]);
    drop(budgets.in_force(250.0, true));
    let before = run(1, 1, (199.0, 250.0), 0.0);
    let changed = budgets.charge_job(&SiteLimits::default(), &before, true, 250.0);
    assert_eq!(changed, [], "the window in force did not change");
    assert_eq!([250.0, 150.0].map(|now| get_budget_amounts_at(&mut budgets, now).1), [0, 51_000]);
    let after = run(2, 1, (200.0, 250.0), 0.0);
    let changed = budgets.charge_job(&SiteLimits::default(), &after, true, 250.0);
    assert_eq!(changed, [(target_bank_a(), NODE_HOURS, 50_000)]);
}

#[test]
fn while_ended_jobs_are_unknown_a_budget_has_no_headroom_except_in_mode_warn() {
    let mut budgets = budgets(&[budget(100, 200, 5, 1)]);
    let key = (target_bank_a(), NODE_HOURS);
    assert_eq!(budgets.in_force(150.0, false).1[&key].spent, UNKNOWN);
    budgets.set_mode(BudgetMode::Warn);
    let (limits, accounts) = budgets.in_force(150.0, false);
    assert_eq!((limits[0].cap.limit, accounts[&key].spent), (UNLIMITED_BUDGET, 1));
}

#[test]
fn a_job_that_ended_after_the_push_counts_in_the_budget_even_if_its_end_time_is_included() {
    let mut budgets = budgets(&[budget(100, 200, 5, 1)]);
    let included = EndedRun { is_included: true, ..run(1, 1, (110.0, 120.0), 0.0) };
    let charge = |budgets: &mut Budgets| {
        drop(budgets.charge_job(&SiteLimits::default(), &included, true, 150.0));
        get_budget_amounts_at(budgets, 150.0).1
    };
    assert_eq!(charge(&mut budgets), 1);
    budgets.record_late_end(JobId(1));
    assert_eq!(charge(&mut budgets), 10_001);
    budgets.replace_all_budgets(vec![budget(100, 200, 5, 1)]);
    assert_eq!(charge(&mut budgets), 1);
}

proptest! {
    /// Charges are integers. So the order in which jobs are added to a sum or subtracted from it does not change the sum.
    #[test]
    fn sums_of_charges_do_not_depend_on_the_order(
        jobs in prop::collection::vec((1..1_000u64, 0.0..300.0f64, 0.0..100.0f64, 0.0..100.0f64), 1..20),
        windows in prop::collection::vec(1..60i64, 1..5),
    ) {
            let mut start = 50;
        let list: Vec<Budget> = windows.iter().map(|length| {
            start += length;
            budget(start - length, start, 0, 0)
        }).collect();
        let runs: Vec<EndedRun> = (0..).zip(&jobs)
            .map(|(id, (nodes, start, duration, limit))| run(id, *nodes, (*start, start + duration), *limit)).collect();
        let sum = |order: &mut dyn Iterator<Item = &EndedRun>| {
            let mut budgets = budgets(&list);
            order.for_each(|run| drop(budgets.charge_job(&SiteLimits::default(), run, true, 75.0)));
            budgets
        };
        let forward = sum(&mut runs.iter());
        let mut backward = sum(&mut runs.iter().rev());
        let spent = |budgets: &Budgets| budgets.windows().map(Window::spent).collect::<Vec<_>>();
        prop_assert_eq!(spent(&forward), spent(&backward));
        for (window, budget) in forward.windows().zip(&list) {
            let expected: f64 = runs.iter().filter(|run| (budget.start as f64..budget.end as f64).contains(&run.ended.job.start)).map(|run| {
                let Ended { job, end } = &run.ended;
                let time = end - job.start;
                let time = if job.limit > 0.0 { time.min(job.limit) } else { time };
                job.ran_on.nodes as f64 * (time * 1_000.0).round()
            }).sum();
            prop_assert_eq!(window.spent() as f64, expected);
        }
        runs.iter().for_each(|run| drop(backward.charge_job(&SiteLimits::default(), run, false, 75.0)));
        prop_assert!(backward.windows().all(|window| window.spent() == 0));
    }
}
