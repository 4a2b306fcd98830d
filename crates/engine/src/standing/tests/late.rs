// SPDX-License-Identifier: LGPL-3.0-only
//! Ended jobs and evicted usage that are restored after a push must count as if they had been restored before the push.

use super::*;

/// Returns a standing and its export. One job of user 1 ended every ten seconds, and all except the last were evicted.
fn standing_with_export() -> (Standing, Vec<Ended>, Vec<EvictedUsage>) {
    let mut first = Standing::new(Retention { jobs: 0, each: 1 });
    first.push(site(Policy::Classic)).expect("a site");
    for id in 1..6 {
        first.usages.ended(&job(id, 1, "A", 1, T0), T0 + 10.0 * id as f64).expect("an end");
    }
    first.refresh(T0 + 100.0);
    let (jobs, sums, next) = first.uncovered(Bookmark::default(), 100);
    assert_eq!((jobs.len(), sums.len(), sums[0].horizon, next), (1, 1, T0 + 40.0, None));
    (first, jobs, sums)
}

#[test]
fn a_push_counts_the_same_before_and_after_a_restore() {
    for (through, replaces_all, of_job_list) in [
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
        let (mut first, jobs, sums) = standing_with_export();
        let mut push = site(Policy::Classic);
        (push.rule.instant, push.rule.replaces_all) = (T0 + 150.0, replaces_all);
        push.associations[0] = leaf(1, "A", 1000.0, Watermark::through(T0 + through));
        first.push(push.clone()).expect("a site");
        let mut second = Standing::new(Retention::default());
        second.push(push).expect("a site");
        second.refresh(T0 + 200.0);
        for id in &of_job_list {
            second.usages.ended(&job(*id, 1, "A", 1, T0), T0 + 10.0 * *id as f64).expect("an end");
        }
        second.refresh(T0 + 200.0);
        assert!(sums.into_iter().all(|sum| second.restore_evicted(sum)));
        for Ended { job, end } in jobs {
            second.usages.ended(&job, end).expect("an end");
        }
        for standing in [&mut first, &mut second] {
            standing.refresh(T0 + 200.0);
            standing.usages.assert_positions();
        }
        let what = format!("{through} {replaces_all} {of_job_list:?}");
        let [ours, wanted] = [&second, &first].map(|one| usage(one, 1, "A", T0 + 200.0));
        assert!((ours - wanted).abs() < 1e-9 * wanted, "{what}: {ours} {wanted}");
        let [ours, wanted] = [&second, &first].map(|one| fairshare(one, 1, "A").expect("ranked"));
        assert!((ours - wanted).abs() < 1e-12, "{what}: {ours} {wanted}");
    }
}

#[test]
fn a_sum_is_restored_once() {
    let (first, jobs, sums) = standing_with_export();
    let mut second = Standing::new(Retention { jobs: 0, each: 1 });
    for _ in 0..2 {
        assert!(sums.iter().cloned().all(|sum| second.restore_evicted(sum)));
        for Ended { job, end } in jobs.clone() {
            second.usages.ended(&job, end).expect("an end");
        }
    }
    second.push(site(Policy::Classic)).expect("a site");
    assert_close(usage(&second, 1, "A", T0 + DAY), usage(&first, 1, "A", T0 + DAY));
    // A restored sum does not replace jobs that this standing evicted itself.
    for id in 6..9 {
        second.usages.ended(&job(id, 1, "A", 1, T0), T0 + 10.0 * id as f64).expect("an end");
    }
    second.refresh(T0 + 200.0);
    assert_eq!(second.usages.counts().2, 1);
    let before = usage(&second, 1, "A", T0 + DAY);
    assert!(sums.into_iter().all(|sum| second.restore_evicted(sum)));
    assert_close(usage(&second, 1, "A", T0 + DAY), before);
}

#[test]
fn a_job_has_the_largest_resource_counts_reported() {
    let on = |cores, gpus| {
        let ran_on = Resources { nodes: 2, cores, gpus };
        Job { ran_on, ..job(1, 1, "A", 2, T0) }
    };
    let mut weighted = site(Policy::Classic);
    weighted.rule.weights = Weights { node: 1.0, core: 10.0, gpu: 100.0 };
    let mut exports = Vec::new();
    for (one, other) in [((0, 0), (3, 4)), ((3, 4), (0, 0)), ((3, 0), (0, 4)), ((3, 4), (3, 4))] {
        let mut standing = standing(weighted.clone());
        for (cores, gpus) in [one, other] {
            standing.usages.ended(&on(cores, gpus), T0 + 10.0).expect("an end");
            standing.refresh(T0 + 10.0);
        }
        assert_close(usage(&standing, 1, "A", T0 + 10.0), usage_of(2 + 3 * 10 + 4 * 100));
        exports.push(standing.uncovered(Bookmark::default(), 9));
    }
    assert!(exports.windows(2).all(|pair| pair[0] == pair[1]), "{exports:?}");
}

/// Returns the usage of ten seconds at `rate`, as of the end of the ten seconds.
fn usage_of(rate: u32) -> f64 {
    let per_second = std::f64::consts::LN_2 / DAY;
    f64::from(rate) * (1.0 - (-per_second * 10.0).exp()) / per_second
}
