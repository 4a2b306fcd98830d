// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the cost of a refresh, of eviction, and of reported changes, against numbers that were computed by hand.

use super::*;
use fairshare::InactiveUsage;
use fairshare::accrual::MAX_TIME;

#[test]
fn a_refresh_slice_uses_its_whole_budget_of_steps() {
    let mut six_users = site(Policy::FairTree);
    six_users.associations =
        (1..=6).map(|user| leaf(user, "A", f64::from(user), Watermark::default())).collect();
    let unrefreshed = standing(six_users);
    // A refresh takes some steps for the usages, one step for the ranking, and some steps to compare fair-shares. One
    // step can compare four times as many fair-shares as it can compute usages.
    for (budget, steps) in [(1, 6 + 1 + 2), (3, 2 + 1 + 1), (4, 2 + 1 + 1), (6, 1 + 1 + 1), (99, 1 + 1 + 1)] {
        let mut standing = unrefreshed.clone();
        standing.begin_computation(T0);
        let mut taken_steps = 1;
        while standing.compute_refresh_slice(budget).is_none() {
            taken_steps += 1;
        }
        assert_eq!(taken_steps, steps, "{budget}");
    }
}

#[test]
fn a_refresh_computes_only_changed_associations() {
    let mut standing = standing(site(Policy::FairTree));
    let refresh_after = |standing: &mut Standing, later: f64| {
        let refreshed = standing.refresh(T0 + later);
        (refreshed.worked_out, refreshed.ranked)
    };
    assert_eq!(refresh_after(&mut standing, 0.0), (3, true), "the tree is new");
    assert_eq!(refresh_after(&mut standing, 0.0), (0, false), "the time is the same");
    standing.usages.track_start(&job(1, 1, "A", 1, T0)).expect("a job");
    assert_eq!(refresh_after(&mut standing, 10.0), (1, true), "the job has started");
    assert_eq!(refresh_after(&mut standing, 20.0), (1, true), "the job runs");
    standing.usages.track_end(&job(1, 1, "A", 1, T0), T0 + 25.0).expect("an end");
    assert_eq!(refresh_after(&mut standing, 30.0), (1, true), "the job has ended");
    assert_eq!(refresh_after(&mut standing, 40.0), (0, false), "the job no longer runs");
    standing.usages.track_end(&job(2, 3, "B", 1, T0), T0 + 45.0).expect("an end");
    assert_eq!(refresh_after(&mut standing, 50.0), (1, true), "the start of job 2 was not reported");
    for id in [3, 4] {
        standing.usages.track_start(&job(id, 1, "A", 1, T0 + 50.0)).expect("a job");
    }
    assert_eq!(refresh_after(&mut standing, 60.0), (1, true), "two jobs of one association");
    standing.usages.track_end(&job(4, 1, "A", 1, T0 + 50.0), T0 + 65.0).expect("an end");
    assert_eq!(refresh_after(&mut standing, 70.0), (1, true), "one job ends, the other runs");
    assert_eq!(
        standing.usages.entries_mut().1.count_stored_associations(),
        (1, 2),
        "one association runs a job, two decay"
    );
    for id in 5..50 {
        standing.usages.track_start(&job(id, 1, "A", 1, T0 + 70.0)).expect("a job");
        standing.usages.track_end(&job(id + 100, 3, "B", 1, T0 + 70.0), T0 + 75.0).expect("an end");
        standing.refresh(T0 + 80.0);
    }
    assert_eq!(
        standing.usages.entries_mut().1.count_stored_associations(),
        (1, 2),
        "each association is stored once"
    );
}

#[test]
fn decay_changes_the_ranking_under_pbs_only_with_an_initial_usage() {
    for (min_usage, ranked) in [(0.0, false), (1.0, true)] {
        let mut used = site(Policy::Pbs);
        used.rule.options.pbs_min_usage = min_usage;
        used.associations[0].usage = Some(5e6);
        let mut standing = standing(used);
        standing.refresh(T0);
        assert_eq!(standing.refresh(T0 + DAY).ranked, ranked, "{min_usage}");
    }
}

/// Rounding could make one of two equal usages larger, which would change the ranks.
#[test]
fn the_plugin_keeps_the_exact_value_of_a_pushed_usage() {
    let mut pushed_site = site(Policy::Classic);
    let pushed = [1e6 / 3.0, 1e6 / 7.0, 1e6 / 11.0];
    for (leaf, usage) in pushed_site.associations.iter_mut().zip(pushed) {
        leaf.usage = Some(usage);
    }
    let mut standing = standing(pushed_site);
    for later in [-1_000.0, 5.0, 0.0, -12_345.6, -500.0, 77.7] {
        standing.refresh(T0 + later);
        let tree = standing.tree().expect("pushed");
        for (at, usage) in (0..3).map(Index).zip(pushed) {
            let ours = tree.own_usage(standing.node(at).expect("a leaf")).expect("used");
            assert_eq!(ours.to_bits(), usage.to_bits(), "{later}: {ours} {usage}");
        }
    }
}

#[test]
fn new_usage_after_negligible_usage_decays_again() {
    let mut nearly_unused = site(Policy::FairTree);
    nearly_unused.associations[0].usage = Some(1.0);
    let mut standing = standing(nearly_unused);
    standing.refresh(T0);
    let later = T0 + 40.0 * DAY;
    standing.refresh(later);
    assert_eq!(fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"));
    standing.usages.track_end(&job(1, 1, "A", 1, later), later + 1.0).expect("an end");
    standing.refresh(later + 1.0);
    assert!(fairshare(&standing, 1, "A") < fairshare(&standing, 2, "A"));
    standing.refresh(later + 40.0 * DAY);
    assert_eq!(fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"));
}

/// The clock was ahead when the job ended, so the reported end is in the future. The job must accrue usage until the reported end.
#[test]
fn a_job_whose_end_is_in_the_future_accrues_until_then() {
    let mut plain = site(Policy::FairTree);
    (plain.rule.half_life, plain.associations[2].usage) = (HalfLife::NONE, Some(75.0));
    let mut standing = standing(plain);
    standing.usages.track_end(&job(1, 1, "A", 1, T0), T0 + 100.0).expect("an end");
    for (later, is_ahead) in [(50.0, true), (200.0, false)] {
        standing.refresh(T0 + later);
        assert_eq!(fairshare(&standing, 1, "A") > fairshare(&standing, 3, "B"), is_ahead, "{later}");
    }
}

#[test]
fn a_refresh_removes_the_usage_of_a_job_that_never_ran() {
    let mut standing = standing(site(Policy::FairTree));
    standing.usages.track_start(&job(1, 1, "A", 1, T0)).expect("a job");
    standing.refresh(T0 + 100.0);
    assert!(fairshare(&standing, 1, "A") < fairshare(&standing, 2, "A"));
    standing.usages.remove_job_stored_as_running(JobId(1));
    standing.refresh(T0 + 200.0);
    assert_eq!(fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"));
}

/// Usages decay with time, but the ranking as pushed must use the usages of the push.
#[test]
fn the_ranking_as_pushed_uses_the_pushed_usage() {
    let mut used = site(Policy::Classic);
    (used.associations[0].usage, used.associations[2].usage) = (Some(3e6), Some(1e6));
    let mut standing = standing(used);
    let rank_as_pushed = |standing: &Standing| {
        let ranking = standing.as_pushed().expect("a tree");
        [(1, "A"), (3, "B")]
            .map(|(user, bank)| standing.get_pushed_fairshare(&ranking, UserId(user), &bank.into()))
    };
    standing.refresh(T0);
    let live = [fairshare(&standing, 1, "A"), fairshare(&standing, 3, "B")];
    assert_eq!(rank_as_pushed(&standing), live);
    standing.refresh(T0 + 5e3 * DAY);
    assert_eq!(rank_as_pushed(&standing), live);
}

/// After a push that removes an association, the refresh must report that its fair-share changed to `None`.
#[test]
fn a_refresh_reports_removed_associations_and_reuses_their_table_entries() {
    let mut standing = standing(site(Policy::FairTree));
    standing.refresh(T0);
    let entries = standing.usages.entries().len();
    for user in 4..50 {
        let mut other = site(Policy::FairTree);
        other.associations[2] = leaf(user, "B", 0.0, Watermark::default());
        let removed = standing.find(UserId(user - 1), &"B".into()).expect("known");
        let before = standing.fairshare(removed);
        standing.push(other).expect("a site");
        let refreshed = standing.refresh(T0 + f64::from(user));
        let reported = Changed { association: removed, before, after: None };
        assert!(before.is_some() && refreshed.changed.contains(&reported), "{user}: {:?}", refreshed.changed);
    }
    assert!(
        standing.usages.entries().len() <= entries + 1,
        "{} of {entries}",
        standing.usages.entries().len()
    );
}

#[test]
fn a_refresh_keeps_as_many_ended_jobs_as_the_retention_allows() {
    for (what, each, keep_all, ends, now, stored) in [
        ("as many as allowed", 1, false, [&[1u32, 2, 3, 4][..], &[]], 99u32, 4),
        ("one more than allowed", 1, false, [&[1, 2, 3, 4, 5], &[]], 99, 1),
        ("only associations with more than twice `each`", 1, false, [&[1, 2], &[3, 4, 5]], 99, 3),
        ("while a restart reads them", 1, true, [&[1, 2, 3, 4, 5], &[]], 99, 5),
        ("jobs that end later", 0, false, [&[1, 2, 3, 4, 5], &[]], 3, 2),
        ("jobs that end together", 2, false, [&[1, 2, 3, 3, 4], &[]], 99, 3),
    ] {
        let mut standing = Standing::new(Retention { jobs: 4, each });
        standing.push(site(Policy::Classic)).expect("a site");
        standing.usages.keep_all_ended_jobs(keep_all);
        for ((user, bank, first), ends) in [(1, "A", 10), (3, "B", 20)].into_iter().zip(ends) {
            for (id, end) in (first..).zip(ends) {
                let end = T0 + f64::from(*end);
                standing.usages.track_end(&job(id, user, bank, 1, T0), end).expect("an end");
            }
        }
        standing.refresh(T0 + f64::from(now));
        assert_eq!(standing.usages.counts().2, stored, "{what}");
    }
}

#[test]
fn a_job_with_a_late_end_report_is_not_taken_for_an_evicted_job() {
    let mut plain = site(Policy::Classic);
    plain.rule.half_life = HalfLife::NONE;
    let mut standing = Standing::new(Retention { jobs: 0, each: 0 });
    standing.push(plain.clone()).expect("a site");
    let make_job = |id: u64| job(id, 1, "A", 1, T0);
    standing.usages.track_start(&make_job(1)).expect("a job");
    for id in 2..=4 {
        standing.usages.track_end(&make_job(id), T0 + 10.0 * id as f64).expect("an end");
    }
    standing.refresh(T0 + 100.0);
    assert_eq!(standing.usages.counts(), (3, 1, 0));
    let used = |standing: &Standing| usage(standing, 1, "A", T0 + 100.0);
    standing.usages.track_end(&make_job(1), T0 + 15.0).expect("an end");
    assert_eq!(used(&standing), 105.0, "job 1 ran before the eviction");
    standing.usages.track_start(&make_job(5)).expect("a job");
    standing.usages.track_end(&make_job(5), T0 + 35.0).expect("an end");
    assert_eq!(used(&standing), 105.0, "job 5 may be one of the evicted jobs");
    standing.usages.track_start(&make_job(6)).expect("a job");
    standing.usages.track_end(&make_job(6), T0 + 60.0).expect("an end");
    assert_eq!(used(&standing), 165.0, "job 6 ended after the evicted jobs");
    // The first push includes all evicted jobs, and sets the usage to 90. The second push includes only some of the
    // evicted jobs, so the engine keeps the usage of the first push.
    plain.associations[0] = Leaf { usage: None, ..leaf(1, "A", 0.0, Watermark::through(T0 + 40.0)) };
    plain.associations[0].usage = Some(90.0);
    standing.push(plain.clone()).expect("a site");
    plain.associations[0] = Leaf { usage: None, ..leaf(1, "A", 0.0, Watermark::through(T0 + 30.0)) };
    standing.push(plain).expect("a site");
    assert_eq!(standing.leaf(UserId(1), &"A".into()).expect("a leaf").usage, Some(90.0));
}

/// The clock was set back, so job 1 ended before the evicted jobs. The usage of job 1 decays from the end of job 1,
/// and is added to the usage of the evicted jobs.
#[test]
fn a_job_that_ended_before_evicted_jobs_decays_from_its_own_end() {
    let mut standing = Standing::new(Retention { jobs: 0, each: 0 });
    standing.push(site(Policy::Classic)).expect("a site");
    standing.usages.track_start(&job(1, 1, "A", 1, T0)).expect("a job");
    for id in 2..=4 {
        standing.usages.track_end(&job(id, 1, "A", 1, T0), T0 + DAY * id as f64).expect("an end");
    }
    standing.refresh(T0 + 5.0 * DAY);
    standing.usages.track_end(&job(1, 1, "A", 1, T0), T0 + 1.5 * DAY).expect("an end");
    let decayed_usage = |end: f64| DAY / 2f64.ln() * (0.5f64.powf(5.0 - end) - 0.5f64.powi(5));
    let total: f64 = [1.5, 2.0, 3.0, 4.0].map(decayed_usage).iter().sum();
    assert_close(usage(&standing, 1, "A", T0 + 5.0 * DAY), total);
    standing.refresh(T0 + 5.0 * DAY);
    assert_eq!(standing.usages.counts().2, 0, "job 1 is evicted");
    assert_close(usage(&standing, 1, "A", T0 + 5.0 * DAY), total);
}

#[test]
fn an_invalid_time_is_named_in_the_error() {
    let error = standing(site(Policy::Classic))
        .usages
        .track_end(&job(1, 1, "A", 1, T0), f64::NAN)
        .expect_err("no time");
    assert!(
        error.to_string().contains("is not counted: expected a time in seconds since 1970, got NaN"),
        "{error}"
    );
}

#[test]
fn an_association_is_kept_while_one_of_its_jobs_may_add_usage() {
    let mut plain = site(Policy::Classic);
    plain.rule.half_life = HalfLife::NONE;
    let mut standing = standing(plain.clone());
    standing.usages.track_end(&job(1, 9, "A", 1, T0 - 50.0), T0 - 10.0).expect("an end");
    standing.usages.track_start(&job(2, 10, "A", 1, T0)).expect("a job");
    standing.push(plain.clone()).expect("a site");
    let known = |standing: &Standing, user: u32| standing.find(UserId(user), &"A".into()).is_some();
    assert_eq!([9, 10, 11].map(|user| known(&standing, user)), [true, true, false]);
    standing.usages.remove_job_stored_as_running(JobId(2));
    plain.associations.push(leaf(9, "A", 0.0, Watermark::default()));
    standing.push(plain).expect("a site");
    assert_eq!([9, 10].map(|user| known(&standing, user)), [true, false]);
    assert_eq!(usage(&standing, 9, "A", T0), 40.0);
}

#[test]
fn a_removed_association_is_reported() {
    let mut standing = standing(site(Policy::Classic));
    standing.refresh(T0);
    let removed = standing.find(UserId(3), &"B".into()).expect("a leaf");
    let before = standing.fairshare(removed);
    assert!(before.is_some());
    let mut fewer = site(Policy::Classic);
    fewer.associations.pop();
    standing.push(fewer).expect("a site");
    let changed = standing.refresh(T0 + 1.0).changed;
    assert!(changed.contains(&Changed { association: removed, before, after: None }), "{changed:?}");
    standing.begin_computation(T0 + 2.0);
    assert!(standing.work.is_in_progress());
    standing.remove_site();
    assert!(!standing.work.is_in_progress(), "there is no tree");
}

#[test]
fn times_up_to_the_maximum_are_accepted() {
    for (instant, counted, is_accepted) in [
        (MAX_TIME, T0, true),
        (-MAX_TIME, T0, true),
        (T0, MAX_TIME, true),
        (MAX_TIME * 1.001, T0, false),
        (-MAX_TIME * 1.001, T0, false),
        (T0, MAX_TIME * 1.001, false),
    ] {
        let mut pushed = site(Policy::Classic);
        pushed.rule.instant = instant;
        pushed.associations[0].counted = Watermark::through(counted);
        assert_eq!(Standing::default().push(pushed).is_ok(), is_accepted, "{instant} {counted}");
    }
}

#[test]
fn associations_below_an_inactive_bank_are_not_ranked() {
    for inactive_usage in [InactiveUsage::Count, InactiveUsage::Ignore] {
        let mut inactive_site = site(Policy::Classic);
        inactive_site.rule.options.inactive_usage = inactive_usage;
        inactive_site.banks.push(bank("AA", Some("A"), 1));
        inactive_site.banks[1].active = false;
        inactive_site.associations = [(1, "AA"), (2, "A"), (3, "B")]
            .map(|(user, bank)| leaf(user, bank, 100.0, Watermark::default()))
            .into();
        let mut standing = standing(inactive_site);
        standing.refresh(T0);
        assert!(fairshare(&standing, 3, "B").is_some());
        assert_eq!([(1, "AA"), (2, "A")].map(|(user, bank)| fairshare(&standing, user, bank)), [None, None]);
        let stored_flag = (inactive_usage == InactiveUsage::Count).then_some(false);
        for (name, active) in [("A", stored_flag), ("AA", stored_flag), ("B", Some(true))] {
            assert_eq!(
                standing.bank(&name.into()).map(|bank| bank.active),
                active,
                "{name} {inactive_usage:?}"
            );
        }
        for (user, bank, active) in [(1, "AA", stored_flag), (2, "A", stored_flag), (3, "B", Some(true))] {
            let leaf = standing.leaf(UserId(user), &bank.into());
            assert_eq!(leaf.map(|leaf| leaf.active), active, "{user} {inactive_usage:?}");
        }
    }
}

/// Jobs with the same end are evicted together, so none of these jobs can be evicted.
#[test]
fn ended_jobs_keep_their_order_if_none_can_be_evicted() {
    let half_life = HalfLife::new(DAY).expect("a half-life");
    let mut standing = Standing::new(Retention { jobs: 0, each: 1 });
    standing.push(site(Policy::Classic)).expect("a site");
    let list_ended = |standing: &Standing| {
        let tracked = standing.usages.entries()[0].jobs().ended.iter();
        (standing.usages.entries()[0].jobs().version, tracked.map(|job| job.id.0).collect::<Vec<_>>())
    };
    for id in (1..=9).rev() {
        standing.usages.track_end(&job(id, 1, "A", 1, T0), T0 + 10.0).expect("an end");
        standing.usages.evict_ended_jobs_of_same_association(JobId(id), T0 + 10.0, half_life);
        assert_eq!(list_ended(&standing), (0, (id..=9).rev().collect()));
        standing.usages.assert_job_positions();
    }
    // A second call at the same time evicts nothing, although job 10 could be evicted.
    standing.usages.track_end(&job(10, 1, "A", 1, T0), T0 + 5.0).expect("an end");
    standing.usages.evict_ended_jobs_of_same_association(JobId(10), T0 + 10.0, half_life);
    assert_eq!(standing.usages.counts().2, 10);
    standing.usages.evict_ended_jobs_of_same_association(JobId(10), T0 + 11.0, half_life);
    assert_eq!(standing.usages.counts().2, 9);
    standing.usages.assert_job_positions();
    // Jobs with an end after the present time are not evicted.
    let mut standing_with_later_ends = Standing::new(Retention { jobs: 0, each: 0 });
    standing_with_later_ends.push(site(Policy::Classic)).expect("a site");
    for id in 1..=3 {
        standing_with_later_ends
            .usages
            .track_end(&job(id, 1, "A", 1, T0), T0 + 100.0 - id as f64)
            .expect("an end");
    }
    standing_with_later_ends.usages.evict_ended_jobs_of_same_association(JobId(1), T0 + 50.0, half_life);
    assert_eq!(list_ended(&standing_with_later_ends), (0, vec![1, 2, 3]));
    standing_with_later_ends.usages.evict_ended_jobs_of_same_association(JobId(1), T0 + 97.0, half_life);
    assert_eq!(standing_with_later_ends.usages.counts().2, 2, "a job that ends now is evicted");
    standing_with_later_ends.usages.evict_ended_jobs_of_same_association(JobId(1), T0 + 98.5, half_life);
    assert_eq!(standing_with_later_ends.usages.counts().2, 1);
    standing_with_later_ends.usages.assert_job_positions();
}
