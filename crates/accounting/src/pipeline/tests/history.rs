// SPDX-License-Identifier: LGPL-3.0-only
//! The usage depends on the jobs only, not on the order in which their records arrive.

use proptest::prelude::*;

use super::{END, H, Site};

/// A job of the test. Its record arrives `delay` half-lives after the job ended.
#[derive(Clone, Debug)]
struct Job {
    user: i64,
    ended: f64,
    used: f64,
    delay: f64,
}

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (1..=3_i64, 0.0..6.0_f64, 1..=900_u32, prop_oneof![3 => Just(0.0), 1 => 0.0..3.0_f64]);
    let job = job.prop_map(|(user, ended, used, delay)| Job {
        user,
        ended: END - H + ended * H,
        used: f64::from(used),
        delay,
    });
    proptest::collection::vec(job, 0..25)
}

/// Generates the times at which the test runs a sync, in half-lives since the start of the test.
fn any_run_times() -> impl Strategy<Value = Vec<f64>> {
    proptest::collection::vec(0.0..6.0_f64, 0..8).prop_map(|mut runs| {
        runs.sort_by(f64::total_cmp);
        runs
    })
}

/// Computes the usage by its definition: the usage of each job, halved for each boundary since its end, until its
/// period is dropped.
fn compute_expected_usage(jobs: &[Job], user: i64, now: f64) -> f64 {
    let period = |instant: f64| ((instant - END) / H).floor();
    let remaining_usage = |job: &Job| {
        let age = period(now) - period(job.ended);
        if age < 4.0 { job.used * 0.5_f64.powf(age) } else { 0.0 }
    };
    jobs.iter().filter(|job| job.user == user).map(remaining_usage).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn sync_runs_at_any_times_give_the_same_usage_as_one_run(jobs in any_jobs(), runs in any_run_times(), vacuum in any::<bool>()) {
        let site = Site::new("history");
        let end = END + 5.5 * H;
        let mut pending: Vec<(u64, Job)> = (1..).zip(jobs.clone()).collect();
        // The jobs are sorted by the arrival of their records, so their ids are not in order.
        pending.sort_by(|a, b| (a.1.ended + a.1.delay * H).total_cmp(&(b.1.ended + b.1.delay * H)));
        let times = runs.iter().map(|run| END - H + run * H).chain([end]);
        for (number, now) in times.enumerate() {
            let has_arrived = |job: &Job| now >= end || job.ended + job.delay * H <= now;
            let (arrived, remaining): (Vec<_>, Vec<_>) = pending.into_iter().partition(|(_, job)| has_arrived(job));
            pending = remaining;
            for (id, job) in arrived {
                site.add_job(id, job.user, if job.user == 3 { "B" } else { "A" }, job.ended, job.used);
            }
            site.run(now).expect("a run");
            if number == 2 && vacuum {
                site.run_sql("VACUUM");
            }
            // A second sync at the same time counts no record again.
            prop_assert_eq!(site.run(now).expect("a run").counted, 0);
        }
        let expected: Vec<f64> = (1..=3).map(|user| compute_expected_usage(&jobs, user, end)).collect();
        for (found, expected) in site.usages().iter().zip(&expected) {
            prop_assert!((found - expected).abs() <= 1e-9 * expected.max(1.0), "{found}, not {expected}");
        }
        let total: f64 = expected.iter().sum();
        prop_assert!(site.banks().first().is_some_and(|root| (root - total).abs() <= 1e-9 * total.max(1.0)));
    }
}
