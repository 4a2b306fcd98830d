// SPDX-License-Identifier: LGPL-3.0-only
//! Tests the export of usages and jobs, and their restore in a new instance.

use super::super::usage::UsageEntry;
use super::*;
use fairshare::{InactiveUsage, Ties};
use proptest::prelude::*;

/// Returns [`site`] with a different usage and watermark for each user, and with options that are not the defaults.
fn make_varied_site() -> Site {
    let mut changed = site(Policy::Pbs);
    changed.rule.options = Options { pbs_min_usage: 7.0, ..Options::default() };
    changed.rule.reset = 3.0 * DAY;
    changed.rule.weights = Weights { node: 2.0, core: 3.0, gpu: 5.0 };
    changed.associations[0] = leaf(1, "A", 5.0, Watermark::through(T0 - 50.0));
    changed.associations[1] = Leaf { usage: None, ..leaf(2, "A", 0.0, Watermark::through(T0 - 20.0)) };
    changed.associations[2] = leaf(3, "B", 0.0, Watermark::through(T0 - 90.0));
    changed
}

#[test]
fn the_pushed_site_is_exported() {
    let site = make_varied_site();
    let exporter = standing(site.clone());
    for bank in &site.banks {
        assert_eq!(exporter.bank(&bank.name).as_ref(), Some(bank));
    }
    assert_eq!(exporter.bank(&"C".into()), None);
    for leaf in &site.associations {
        assert_eq!(exporter.leaf(leaf.user.unwrap(), &leaf.bank).as_ref(), Some(leaf));
    }
    assert_eq!(exporter.leaf(UserId(4), &"A".into()), None);
    let rule = exporter.rule().expect("pushed");
    let exported = (rule.instant, rule.half_life, rule.weights, rule.policy, rule.options, rule.replaces_all);
    assert_eq!([rule.reset, exporter.reset(), Standing::default().reset()], [3.0 * DAY, 3.0 * DAY, RESET]);
    assert_eq!(
        exported,
        (T0, site.rule.half_life, site.rule.weights, site.rule.policy, site.rule.options, false)
    );
    assert_eq!(Standing::default().rule(), None);
}

#[test]
fn the_generation_counts_pushes_and_refreshes_that_change_a_fairshare() {
    let mut standing = Standing::default();
    assert_eq!(standing.generation(), 0);
    standing.remove_site();
    assert_eq!(standing.generation(), 0, "there was no tree");
    for generation in [1, 2] {
        standing.push(site(Policy::Classic)).expect("a site");
        assert_eq!(standing.generation(), generation);
    }
    standing.refresh(T0);
    let ranked = standing.generation();
    assert_eq!(ranked, 3, "all associations have a fair-share");
    standing.refresh(T0 + 1.0);
    assert_eq!(standing.generation(), ranked);
    let idle = standing.compute_refresh_slice(1).map(|done| (done.now, done.changed.len()));
    assert_eq!(idle, Some((T0 + 1.0, 0)), "no refresh is in progress");
    standing.remove_site();
    assert_eq!(standing.generation(), ranked + 1);
    assert!(standing.tree().is_none());
}

#[test]
fn the_plugin_needs_ended_jobs_since_the_earliest_watermark_of_the_tree() {
    let standing = standing(make_varied_site());
    assert_eq!(standing.earliest_watermark(0.0), T0 - 90.0);
    assert_eq!(standing.earliest_watermark(T0 - 10.0), T0 - 10.0);
    let mut fewer = make_varied_site();
    fewer.associations.pop();
    assert_eq!(super::standing(fewer).earliest_watermark(0.0), T0 - 50.0);
}

#[test]
fn usage_that_no_push_includes_is_exported_in_pages_and_restored() {
    let mut exporter = Standing::new(Retention { jobs: 4, each: 2 });
    exporter.push(make_varied_site()).expect("a site");
    let ends =
        [(1, 1, "A", -60.0), (2, 1, "A", 10.0), (3, 1, "A", 20.0), (4, 1, "A", 30.0), (5, 1, "A", 40.0)];
    for (id, user, bank, end) in ends.into_iter().chain([(6, 3, "B", 15.0), (7, 3, "B", -100.0)]) {
        exporter.usages.track_end(&job(id, user, bank, 1, T0 - 200.0), T0 + end).expect("an end");
    }
    exporter.refresh(T0 + 100.0);
    assert!(exporter.usages.counts().2 < 7, "some jobs were evicted");
    let (mut jobs, mut sums, mut bookmark, mut pages) = (Vec::new(), Vec::new(), Some(Default::default()), 0);
    while let Some(from) = bookmark {
        let (page_jobs, page_sums, next) = exporter.uncovered(from, 1);
        assert_ne!(next, bookmark);
        assert!(page_jobs.len() <= 1, "{page_jobs:?}");
        (bookmark, pages) = (next, pages + 1);
        jobs.extend(page_jobs);
        sums.extend(page_sums);
    }
    assert_eq!(pages, 4, "two jobs of association 1, one of association 3");
    assert_eq!(exporter.uncovered(Default::default(), 100), (jobs.clone(), sums.clone(), None));
    assert!(jobs.iter().all(|job| ![1, 7].contains(&job.job.id.0)), "the pushed usage includes these jobs");
    assert!(!sums.is_empty() && sums.iter().all(|sum| sum.horizon > T0));
    let mut restored = Standing::new(Retention { jobs: 4, each: 2 });
    restored.usages.keep_all_ended_jobs(true);
    for sum in sums {
        assert!(restored.restore_evicted(sum));
    }
    for Ended { job, end } in jobs {
        restored.usages.track_end(&job, end).expect("an end");
    }
    restored.usages.keep_all_ended_jobs(false);
    restored.push(make_varied_site()).expect("a site");
    for (user, bank) in [(1, "A"), (2, "A"), (3, "B")] {
        let [original, restored] =
            [&exporter, &restored].map(|standing| usage(standing, user, bank, T0 + 200.0));
        assert_close(restored, original);
        assert!(user == 2 || original > 0.0);
    }
}

/// Jobs are evicted between two pages of an export. No job may be exported both as a job and in the usage of evicted jobs.
#[test]
fn jobs_evicted_during_an_export_count_once() {
    for each in [0, 1, 2] {
        let mut exporter = Standing::new(Retention { jobs: 0, each });
        exporter.usages.keep_all_ended_jobs(true);
        exporter.push(site(Policy::Classic)).expect("a site");
        // The jobs do not end in the order in which the export lists them.
        for (id, end) in (1..).zip([50.0, 10.0, 40.0, 20.0, 30.0, 60.0]) {
            exporter.usages.track_end(&job(id, 1, "A", 1, T0), T0 + end).expect("an end");
        }
        let (jobs, sums, next) = exporter.uncovered(Default::default(), 4);
        assert_eq!((jobs.len(), sums.len()), (4, 0));
        let mut pages = vec![(jobs, sums)];
        exporter.usages.keep_all_ended_jobs(false);
        exporter.refresh(T0 + 100.0);
        assert_eq!(exporter.usages.counts().2, each);
        let (jobs, sums, end) = exporter.uncovered(next.expect("two are left"), 4);
        assert_eq!((jobs.len(), sums.len(), end), (each, 1, None));
        pages.push((jobs, sums));
        let mut restored = Standing::new(Retention::default());
        restored.usages.keep_all_ended_jobs(true);
        for (jobs, sums) in pages {
            assert!(sums.into_iter().all(|sum| restored.restore_evicted(sum)));
            for Ended { job, end } in jobs {
                restored.usages.track_end(&job, end).expect("an end");
            }
        }
        restored.push(site(Policy::Classic)).expect("a site");
        assert_close(usage(&restored, 1, "A", T0 + DAY), usage(&exporter, 1, "A", T0 + DAY));
        restored.usages.assert_job_positions();
    }
}

/// If the clock jumps back, a job may end before jobs that are already evicted. The export must add such a job to the evicted sum, because a
/// restore drops jobs that ended before the latest evicted job.
#[test]
fn usage_of_a_job_that_ended_before_evicted_jobs_survives_a_restore() {
    for (most, end) in [(1, 50.0), (100, 50.0), (1, 90.0), (100, 90.0)] {
        let mut exporter = Standing::new(Retention { jobs: 0, each: 1 });
        exporter.push(site(Policy::Classic)).expect("a site");
        exporter.usages.track_start(&job(9, 1, "A", 7, T0)).expect("a job");
        for (id, end) in (1..).zip([70.0, 80.0, 90.0, 100.0]) {
            exporter.usages.track_end(&job(id, 1, "A", 1, T0), T0 + end).expect("an end");
        }
        exporter.refresh(T0 + 100.0);
        assert_eq!(exporter.usages.counts(), (3, 1, 1));
        exporter.usages.record_end_of_running_job(JobId(9), T0 + end).expect("an end");
        let mut restored = Standing::new(Retention::default());
        restored.usages.keep_all_ended_jobs(true);
        let mut bookmark = Some(Default::default());
        while let Some(from) = bookmark {
            let (jobs, sums, next) = exporter.uncovered(from, most);
            bookmark = next;
            assert!(jobs.iter().all(|it| it.job.id != JobId(9)), "the sum includes the job");
            assert!(sums.into_iter().all(|sum| restored.restore_evicted(sum)));
            for Ended { job, end } in jobs {
                restored.usages.track_end(&job, end).expect("an end");
            }
        }
        restored.push(site(Policy::Classic)).expect("a site");
        assert_close(usage(&restored, 1, "A", T0 + DAY), usage(&exporter, 1, "A", T0 + DAY));
        assert_close(usage(&exporter, 1, "A", T0 + 100.0), usage(&restored, 1, "A", T0 + 100.0));
        restored.usages.assert_job_positions();
    }
}

#[test]
fn invalid_evicted_usage_is_rejected() {
    let valid_sum = || EvictedUsage {
        user: UserId(1),
        bank: "A".into(),
        sum: 8.0,
        since: T0,
        horizon: T0,
        pushed: 4.0,
        at: T0,
        counted: Watermark::through(T0),
    };
    let never = f64::NEG_INFINITY;
    for (evicted, is_valid) in [
        (valid_sum(), true),
        (EvictedUsage { sum: 0.0, since: never, ..valid_sum() }, true),
        (EvictedUsage { since: never, ..valid_sum() }, false),
        (EvictedUsage { horizon: never, ..valid_sum() }, false),
        (EvictedUsage { at: never, ..valid_sum() }, false),
        (EvictedUsage { sum: -1.0, ..valid_sum() }, false),
        (EvictedUsage { pushed: f64::NAN, ..valid_sum() }, false),
        (EvictedUsage { counted: Watermark::through(f64::NAN), ..valid_sum() }, false),
    ] {
        let mut standing = Standing::default();
        assert_eq!(standing.restore_evicted(evicted.clone()), is_valid, "{evicted:?}");
        assert_eq!(standing.find(UserId(1), &"A".into()).is_some(), is_valid, "{evicted:?}");
        let (jobs, sums, _) = standing.uncovered(Default::default(), 9);
        assert_eq!((jobs, sums), (Vec::new(), is_valid.then_some(evicted).into_iter().collect()));
    }
}

#[test]
fn a_refresh_sums_the_usage_of_ended_jobs_once() {
    let mut standing = standing(site(Policy::Classic));
    let read_entry = |standing: &Standing| standing.usages.entries()[0].clone();
    let read_cost = |standing: &Standing| read_entry(standing).cost();
    assert_eq!(read_cost(&standing), 1);
    for id in [1, 2] {
        standing.usages.track_start(&job(id, 1, "A", 1, T0)).expect("a job");
    }
    assert_eq!(read_cost(&standing), 3);
    standing.usages.track_end(&job(1, 1, "A", 1, T0), T0 + 10.0).expect("an end");
    assert!(read_entry(&standing).ended_sum.is_none());
    assert_eq!(read_cost(&standing), 3, "one job runs, one ended");
    standing.refresh(T0 + 20.0);
    assert!(read_entry(&standing).ended_sum.is_some());
    assert_eq!(read_cost(&standing), 2, "only the running job");
    assert_eq!(
        (read_entry(&standing).latest(), UsageEntry::default().latest()),
        (T0 + 10.0, UsageEntry::default().latest())
    );
}

/// Generates sites with a few banks. Usages may be absent or equal, and banks may be inactive.
fn any_site() -> impl Strategy<Value = Site> {
    let usage = prop_oneof![Just(0.0), Just(100.0), 0.0..1e7];
    let any_leaf = (0..4_usize, 0..4_u64, usage, prop::bool::weighted(0.9));
    let any_bank = (0..4_usize, 0..4_u64, prop::bool::weighted(0.9));
    let any_policy = prop::sample::select(vec![
        Policy::WeightedWalk,
        Policy::FairTree,
        Policy::Classic,
        Policy::DepthOblivious,
        Policy::Pbs,
    ]);
    let any_inactive_usage = prop::sample::select(vec![InactiveUsage::Count, InactiveUsage::Ignore]);
    let any_rule = (any_policy, any_inactive_usage, prop_oneof![Just(0.0), Just(7.0)]);
    (prop::collection::vec(any_leaf, 1..40), prop::collection::vec(any_bank, 4), any_rule).prop_map(
        |(leaves, banks, rule)| {
            let mut site = site(rule.0);
            (site.rule.options.inactive_usage, site.rule.options.pbs_min_usage) = (rule.1, rule.2);
            site.banks = vec![root_bank()];
            for (number, (above, shares, active)) in banks.into_iter().enumerate() {
                let parent = if above < number { format!("b{above}") } else { "root".to_owned() };
                let generated_bank = Bank { active, ..bank(&format!("b{number}"), Some(&parent), shares) };
                site.banks.push(generated_bank);
            }
            site.associations = leaves
                .into_iter()
                .zip(1..)
                .map(|((bank, shares, usage, active), user)| Leaf {
                    shares,
                    active,
                    ..leaf(user, &format!("b{bank}"), usage, Watermark::through(T0 - 1e3))
                })
                .collect();
            site
        },
    )
}

fn root_bank() -> Bank {
    bank("root", None, 1)
}

proptest! {
    /// The export may list banks and associations in another order than the push. Neither this order nor running jobs may change the ranking as
    /// pushed.
    #[test]
    fn an_exported_tree_has_the_same_ranking_as_the_pushed_tree(given in any_site(), jobs in prop::collection::vec((1..40_u32, 0.0..1e5), 0..9)) {
        let fresh = standing(given.clone());
        let wanted = fresh.as_pushed().expect("a tree");
        let mut ranked = fresh.clone();
        ranked.refresh(T0);
        for leaf in &given.associations {
            let pushed = fresh.get_pushed_fairshare(&wanted, leaf.user.unwrap(), &leaf.bank);
            let refreshed = fairshare(&ranked, leaf.user.unwrap().0, leaf.bank.as_str());
            prop_assert_eq!(pushed.is_some(), refreshed.is_some());
            prop_assert!((pushed.unwrap_or(0.0) - refreshed.unwrap_or(0.0)).abs() < 1e-12, "{:?}", leaf);
        }
        let mut with_jobs = fresh.clone();
        for (id, (user, start)) in jobs.into_iter().enumerate() {
            let Some(leaf) = given.associations.iter().find(|leaf| leaf.user.unwrap().0 == user) else { continue };
            let _ = with_jobs.usages.track_start(&job(id as u64, user, leaf.bank.as_str(), 3, T0 + start));
            with_jobs.refresh(T0 + start + 50.0);
        }
        let exported = Site {
            banks: given.banks.iter().rev().map(|given| with_jobs.bank(&given.name).unwrap_or(given.clone())).collect(),
            associations: given.associations.iter().rev().map(|given| with_jobs.leaf(given.user.unwrap(), &given.bank).unwrap_or(given.clone())).collect(),
            ..given.clone()
        };
        let restored = standing(exported);
        for (standing, ranking) in [(&with_jobs, with_jobs.as_pushed().expect("a tree")), (&restored, restored.as_pushed().expect("a tree"))] {
            for leaf in &given.associations {
                let (ours, wanted) = (
                    standing.get_pushed_fairshare(&ranking, leaf.user.unwrap(), &leaf.bank),
                    fresh.get_pushed_fairshare(&wanted, leaf.user.unwrap(), &leaf.bank),
                );
                prop_assert_eq!(ours.map(f64::to_bits), wanted.map(f64::to_bits), "{:?}", leaf);
            }
        }
    }
}

#[test]
fn a_ranking_that_depends_on_the_order_of_the_push_is_not_exported() {
    let mut given = site(Policy::FairTree);
    assert!(standing(given.clone()).as_pushed().is_some());
    given.rule.options.ties = Ties::SlurmProgram;
    assert!(standing(given.clone()).as_pushed().is_none());
    given.rule.policy = Policy::WeightedWalk;
    assert!(standing(given).as_pushed().is_some());
    assert!(Standing::default().as_pushed().is_none());
}
