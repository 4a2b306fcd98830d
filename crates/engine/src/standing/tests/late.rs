// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of a restore after a push: ended jobs and evicted usage must count as if the restore had come before the push.

use super::*;

/// Returns a standing and its export. One job of user 1 ended every ten seconds, and all except the last were evicted.
fn make_fairshare_state_with_export() -> (Standing, Vec<Ended>, Vec<EvictedUsage>) {
    let mut original = Standing::new(Retention { jobs: 0, each: 1 });
    original.push(site(Policy::Classic)).expect("a site");
    for id in 1..6 {
        original.usages.track_end(&job(id, 1, "A", 1, T0), T0 + 10.0 * id as f64).expect("an end");
    }
    original.refresh(T0 + 100.0);
    let (jobs, sums, next) = original.uncovered(Bookmark::default(), 100);
    assert_eq!((jobs.len(), sums.len(), sums[0].horizon, next), (1, 1, T0 + 40.0, None));
    (original, jobs, sums)
}

#[test]
fn a_push_gives_the_same_usage_before_and_after_ended_jobs_are_restored() {
    for (through, replaces_all, reported_ids) in [
        (-5.0, false, vec![]),
        (25.0, false, vec![]),
        (25.0, false, vec![2, 3, 4, 5]),
        (40.0, false, vec![]),
        (40.0, false, vec![3, 4, 5]),
        (45.0, false, vec![5]),
        (90.0, false, vec![]),
        (25.0, true, vec![]),
        (90.0, true, vec![5]),
    ] {
        let (mut original, jobs, sums) = make_fairshare_state_with_export();
        let mut pushed = site(Policy::Classic);
        (pushed.rule.instant, pushed.rule.replaces_all) = (T0 + 150.0, replaces_all);
        pushed.associations[0] = leaf(1, "A", 1000.0, Watermark::through(T0 + through));
        original.push(pushed.clone()).expect("a site");
        let mut restored = Standing::new(Retention::default());
        restored.push(pushed).expect("a site");
        restored.refresh(T0 + 200.0);
        for id in &reported_ids {
            restored.usages.track_end(&job(*id, 1, "A", 1, T0), T0 + 10.0 * *id as f64).expect("an end");
        }
        restored.refresh(T0 + 200.0);
        assert!(sums.into_iter().all(|sum| restored.restore_evicted(sum)));
        for Ended { job, end } in jobs {
            restored.usages.track_end(&job, end).expect("an end");
        }
        for standing in [&mut original, &mut restored] {
            standing.refresh(T0 + 200.0);
            standing.usages.assert_job_positions();
        }
        let case = format!("{through} {replaces_all} {reported_ids:?}");
        let [ours, wanted] = [&restored, &original].map(|standing| usage(standing, 1, "A", T0 + 200.0));
        assert!((ours - wanted).abs() < 1e-9 * wanted, "{case}: {ours} {wanted}");
        let [ours, wanted] =
            [&restored, &original].map(|standing| fairshare(standing, 1, "A").expect("ranked"));
        assert!((ours - wanted).abs() < 1e-12, "{case}: {ours} {wanted}");
    }
}

#[test]
fn the_sum_of_evicted_usage_is_restored_once() {
    let (original, jobs, sums) = make_fairshare_state_with_export();
    let mut restored = Standing::new(Retention { jobs: 0, each: 1 });
    for _ in 0..2 {
        assert!(sums.iter().cloned().all(|sum| restored.restore_evicted(sum)));
        for Ended { job, end } in jobs.clone() {
            restored.usages.track_end(&job, end).expect("an end");
        }
    }
    restored.push(site(Policy::Classic)).expect("a site");
    assert_close(usage(&restored, 1, "A", T0 + DAY), usage(&original, 1, "A", T0 + DAY));
    // This instance has evicted jobs itself. A restore must not replace the usage of these jobs.
    for id in 6..9 {
        restored.usages.track_end(&job(id, 1, "A", 1, T0), T0 + 10.0 * id as f64).expect("an end");
    }
    restored.refresh(T0 + 200.0);
    assert_eq!(restored.usages.counts().2, 1);
    let before = usage(&restored, 1, "A", T0 + DAY);
    assert!(sums.into_iter().all(|sum| restored.restore_evicted(sum)));
    assert_close(usage(&restored, 1, "A", T0 + DAY), before);
}

#[test]
fn the_larger_resource_counts_of_two_reports_about_a_job_are_kept() {
    let job_on = |cores, gpus| {
        let ran_on = Resources { nodes: 2, cores, gpus };
        Job { ran_on, ..job(1, 1, "A", 2, T0) }
    };
    let mut weighted = site(Policy::Classic);
    weighted.rule.weights = Weights { node: 1.0, core: 10.0, gpu: 100.0 };
    let mut exports = Vec::new();
    for (first_report, second_report) in
        [((0, 0), (3, 4)), ((3, 4), (0, 0)), ((3, 0), (0, 4)), ((3, 4), (3, 4))]
    {
        let mut standing = standing(weighted.clone());
        for (cores, gpus) in [first_report, second_report] {
            standing.usages.track_end(&job_on(cores, gpus), T0 + 10.0).expect("an end");
            standing.refresh(T0 + 10.0);
        }
        assert_close(usage(&standing, 1, "A", T0 + 10.0), usage_after_ten_seconds(2 + 3 * 10 + 4 * 100));
        exports.push(standing.uncovered(Bookmark::default(), 9));
    }
    assert!(exports.windows(2).all(|pair| pair[0] == pair[1]), "{exports:?}");
}

/// Returns the usage of a job that has run for ten seconds at `rate`, at the end of the ten seconds.
fn usage_after_ten_seconds(rate: u32) -> f64 {
    let per_second = std::f64::consts::LN_2 / DAY;
    f64::from(rate) * (1.0 - (-per_second * 10.0).exp()) / per_second
}
