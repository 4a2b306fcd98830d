// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of usage and fair-share by examples of each rule. The tests in `figures` compare with numbers that were computed by hand, and the
//! tests in `recount` and `turns` check random histories.
mod charges;
mod export;
mod figures;
mod late;
mod parts;
mod recount;
mod shared;
mod turns;

use crate::ids::{BankName, JobId, UserId};
use fairshare::accrual::{HalfLife, Mode};
use fairshare::periods::{Resources, Weights};
use fairshare::{Options, Policy};

use super::*;

const DAY: f64 = 86_400.0;
/// A realistic time, in seconds since the epoch.
const T0: f64 = 1.7e9;

fn bank(name: &str, parent: Option<&str>, shares: u64) -> Bank {
    Bank { name: name.into(), parent: parent.map(Into::into), shares, active: true }
}

/// A push in one part.
#[derive(Clone, Debug, PartialEq)]
struct Site {
    rule: Rule,
    mode: Mode,
    banks: Vec<Bank>,
    associations: Vec<Leaf>,
}

impl Standing {
    fn push(&mut self, site: Site) -> Result<SiteChange, String> {
        let Site { rule, mode, banks, associations } = site;
        let mut staged = StagedSite::default();
        staged.absorb(SitePart { rule: Some(rule), banks, associations, ..SitePart::default() }, self);
        self.push_staged(staged, mode)
    }
}

fn leaf(user: u32, bank: &str, usage: f64, counted: Watermark) -> Leaf {
    let (shares, usage) = (1, Some(usage));
    let name = format!("{user:010}").into();
    Leaf { user: Some(UserId(user)), name, bank: bank.into(), shares, active: true, usage, counted }
}

/// Returns a site with users 1 and 2 in bank A and user 3 in bank B, all without usage.
fn site(policy: Policy) -> Site {
    Site {
        rule: Rule {
            instant: T0,
            half_life: HalfLife::new(DAY).expect("a half-life"),
            reset: RESET,
            weights: Weights::default(),
            policy,
            options: Options::default(),
            replaces_all: false,
        },
        mode: Mode::Elapsed,
        banks: vec![bank("root", None, 1), bank("A", Some("root"), 1), bank("B", Some("root"), 1)],
        associations: [(1, "A"), (2, "A"), (3, "B")]
            .map(|(user, bank)| leaf(user, bank, 0.0, Watermark::default()))
            .into(),
    }
}

fn job(id: u64, user: u32, bank: &str, nodes: u64, start: f64) -> Job {
    let ran_on = Resources { nodes, cores: 0, gpus: 0 };
    Job { id: JobId(id), user: UserId(user), bank: bank.into(), queue: None, ran_on, start, limit: 0.0 }
}

fn standing(site: Site) -> Standing {
    let mut standing = Standing::new(Retention::default());
    standing.push(site).expect("a site");
    standing
}

fn usage(standing: &Standing, user: u32, bank: &str, now: f64) -> f64 {
    let index = standing.find(UserId(user), &BankName::from(bank)).expect("known");
    standing.usage(index, now).expect("pushed")
}

fn fairshare(standing: &Standing, user: u32, bank: &str) -> Option<f64> {
    standing.find(UserId(user), &bank.into()).and_then(|index| standing.fairshare(index))
}

#[track_caller]
fn assert_close(value: f64, expected: f64) {
    assert!((value - expected).abs() <= 1e-9 * expected.abs().max(1.0), "{value}, expected {expected}");
}

#[test]
fn the_next_refresh_lowers_the_fair_share_of_an_association_with_a_running_job() {
    for policy in Policy::ALL {
        let mut standing = standing(site(policy));
        standing.refresh(T0);
        assert_eq!(fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"), "{policy}");
        standing.usages.track_start(&job(7, 1, "A", 4, T0)).expect("a job");
        let refreshed = standing.refresh(T0 + 30.0);
        assert!(refreshed.ranked && !refreshed.changed.is_empty(), "{policy}");
        let (busy, idle) = (fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"));
        assert!(busy < idle, "{policy}: {busy:?} {idle:?}");
    }
}

/// Rule U32: credits may subtract more than the ended jobs used. The rest offsets the usage of running jobs.
#[test]
fn a_negative_pushed_usage_offsets_running_jobs() {
    for policy in Policy::ALL {
        let mut credited = site(policy);
        credited.associations[0].usage = Some(-400.0);
        let mut standing = standing(credited.clone());
        standing.refresh(T0);
        assert_eq!(fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"), "{policy}");
        standing.usages.track_start(&job(7, 1, "A", 4, T0)).expect("a job");
        standing.usages.track_start(&job(8, 2, "A", 4, T0)).expect("a job");
        standing.refresh(T0 + 90.0);
        assert_eq!(usage(&standing, 1, "A", T0 + 90.0), 0.0, "{policy}");
        assert!(fairshare(&standing, 1, "A") > fairshare(&standing, 2, "A"), "{policy}");
        let left = usage(&standing, 2, "A", T0 + 200.0) - 400.0 * 0.5_f64.powf(200.0 / DAY);
        assert_close(usage(&standing, 1, "A", T0 + 200.0), left);
        let leaf = standing.leaf(UserId(1), &"A".into()).expect("a leaf");
        assert_eq!(leaf, credited.associations[0], "the snapshot has the pushed usage");
    }
}

/// Under the policy pbs, time alone can change ranks, because its option `pbs.min_usage` is an absolute usage. So only pbs ranks again.
#[test]
fn a_refresh_without_changes_computes_nothing() {
    for policy in Policy::ALL {
        let mut with_usage = site(policy);
        with_usage.associations[0].usage = Some(5e6);
        let mut standing = standing(with_usage);
        standing.refresh(T0);
        let before: Vec<_> = (0..3).map(|at| standing.fairshare(Index(at))).collect();
        let refreshed = standing.refresh(T0 + DAY);
        assert_eq!(refreshed.worked_out, 0, "{policy}");
        assert_eq!(refreshed.ranked, policy == Policy::Pbs, "{policy}");
        if policy != Policy::Pbs {
            let after: Vec<_> = (0..3).map(|at| standing.fairshare(Index(at))).collect();
            assert_eq!(after, before, "{policy}");
        }
    }
}

#[test]
fn a_negligible_usage_counts_as_0() {
    let mut nearly_unused = site(Policy::FairTree);
    nearly_unused.associations[0].usage = Some(1.0);
    let mut standing = standing(nearly_unused);
    standing.refresh(T0);
    let before = fairshare(&standing, 1, "A");
    assert!(before < fairshare(&standing, 2, "A"));
    // After 30 half-lives the usage is 2^-30, or 9.3e-10, and a usage below 1e-9 counts as 0.
    assert_eq!(standing.refresh(T0 + 29.0 * DAY).worked_out, 0);
    assert_eq!(standing.refresh(T0 + 30.0 * DAY).worked_out, 1);
    assert_eq!(fairshare(&standing, 1, "A"), fairshare(&standing, 2, "A"));
    assert_eq!(usage(&standing, 1, "A", T0 + 30.0 * DAY), 0.0);
    // The clock now jumps back.
    standing.refresh(T0 + DAY);
    assert_eq!(fairshare(&standing, 1, "A"), before);
}

#[test]
fn a_job_that_the_pushed_usage_includes_counts_once() {
    let mut standing = standing(site(Policy::Classic));
    for id in [1, 2, 3] {
        standing.usages.track_start(&job(id, 1, "A", 1, T0)).expect("a job");
    }
    // Jobs 2 and 3 end at the same time.
    for (id, end) in [(1, T0 + 100.0), (2, T0 + 200.0), (3, T0 + 200.0)] {
        let job = job(id, 1, "A", 1, T0);
        standing.usages.track_end(&job, end).expect("an end");
        standing.usages.track_end(&job, end).expect("a second report");
        standing.usages.track_start(&job).expect("a late start");
    }
    let mut undecayed = site(Policy::Classic);
    undecayed.rule.half_life = HalfLife::NONE;
    for (what, mark, pushed, total) in [
        ("no job", Watermark::default(), 0.0, 500.0),
        ("job 1", Watermark::through(T0 + 100.0), 1_100.0, 1_500.0),
        ("all jobs", Watermark::through(T0 + 200.0), 1_500.0, 1_500.0),
        ("an older push that arrives late", Watermark::through(T0 + 100.0), 1_100.0, 1_500.0),
    ] {
        undecayed.associations[0] = leaf(1, "A", pushed, mark);
        standing.push(undecayed.clone()).expect("a site");
        standing.refresh(T0 + 300.0);
        assert_eq!(usage(&standing, 1, "A", T0 + 300.0), total, "{what}");
    }
}

#[test]
fn if_two_ends_of_a_job_are_reported_the_earlier_counts() {
    for ends in [[50.0, 60.0], [60.0, 50.0]] {
        let mut plain = site(Policy::Classic);
        plain.rule.half_life = HalfLife::NONE;
        let mut standing = standing(plain);
        for end in ends {
            standing.usages.track_end(&job(1, 1, "A", 2, T0), T0 + end).expect("an end");
        }
        assert_eq!(usage(&standing, 1, "A", T0 + 100.0), 100.0);
    }
}

#[test]
fn a_push_adds_moves_and_removes_associations() {
    let mut plain = site(Policy::WeightedWalk);
    plain.rule.half_life = HalfLife::NONE;
    let mut standing = standing(plain.clone());
    // The job starts before the tree has user 9.
    standing.usages.track_start(&job(1, 9, "A", 1, T0)).expect("a job");
    standing.refresh(T0 + 10.0);
    assert_eq!(fairshare(&standing, 9, "A"), None);
    let mut site_with_9 = plain.clone();
    site_with_9.associations.push(leaf(9, "A", 0.0, Watermark::default()));
    standing.push(site_with_9.clone()).expect("a site");
    standing.refresh(T0 + 20.0);
    assert_eq!(usage(&standing, 9, "A", T0 + 20.0), 20.0);
    assert_eq!(fairshare(&standing, 9, "A"), Some(0.25));
    // User 9 moves to B and starts without usage. The job stays in A.
    let mut site_with_9_in_b = plain.clone();
    site_with_9_in_b.associations.push(leaf(9, "B", 0.0, Watermark::default()));
    standing.push(site_with_9_in_b).expect("a site");
    let refreshed = standing.refresh(T0 + 30.0);
    let old = standing.find(UserId(9), &"A".into()).expect("the job of user 9 runs");
    assert!(refreshed.changed.contains(&Changed { association: old, before: Some(0.25), after: None }));
    assert_eq!((standing.fairshare(old), standing.node(old)), (None, None));
    assert_eq!(usage(&standing, 9, "B", T0 + 30.0), 0.0);
    // User 9 moves back to bank A.
    standing.push(site_with_9).expect("a site");
    assert_eq!(usage(&standing, 9, "A", T0 + 40.0), 40.0);
    assert_eq!(standing.find(UserId(9), &"A".into()), Some(old));
    assert_eq!(standing.find(UserId(9), &"B".into()), None, "user 9 has no jobs in B");
}

#[test]
fn a_push_within_the_evicted_jobs_replaces_their_whole_sum() {
    let mut plain = site(Policy::Classic);
    plain.rule.half_life = HalfLife::NONE;
    let mut standing = Standing::new(Retention { jobs: 4, each: 1 });
    standing.push(plain.clone()).expect("a site");
    let nth_job = |id: u64| (job(id, 1, "A", 1, T0), T0 + 10.0 * id as f64);
    for (job, end) in (1..=10).map(nth_job) {
        standing.usages.track_end(&job, end).expect("an end");
    }
    standing.refresh(T0 + 200.0);
    assert_eq!(standing.usages.counts(), (3, 0, 1), "all jobs except the last are evicted");
    assert_eq!(usage(&standing, 1, "A", T0 + 200.0), 550.0);
    // The end of job 1, which is evicted, is reported again.
    let (first, end) = nth_job(1);
    standing.usages.track_end(&first, end).expect("an end");
    assert_eq!(usage(&standing, 1, "A", T0 + 200.0), 550.0);
    for (what, mark, pushed, replaces_all, total) in [
        ("a watermark within the sum", Watermark::through(T0 + 50.0), 1_150.0, false, 550.0),
        ("a watermark at the end of the sum", Watermark::through(T0 + 90.0), 1_450.0, false, 1_550.0),
        ("a watermark after the sum", Watermark::through(T0 + 95.0), 1_455.0, false, 1_555.0),
        ("the watermark within the sum again", Watermark::through(T0 + 50.0), 1_150.0, false, 1_555.0),
        ("a push that replaces all", Watermark::default(), 3.0, true, 103.0),
    ] {
        plain.associations[0] = leaf(1, "A", pushed, mark);
        plain.rule.replaces_all = replaces_all;
        standing.push(plain.clone()).expect("a site");
        standing.refresh(T0 + 200.0);
        assert_eq!(usage(&standing, 1, "A", T0 + 200.0), total, "{what}");
    }
}

#[test]
fn a_push_during_a_refresh_restarts_the_refresh() {
    let mut standing = standing(site(Policy::Classic));
    standing.usages.track_start(&job(1, 1, "A", 1, T0)).expect("a job");
    let in_one_step = { standing.clone().refresh(T0 + 60.0) };
    // Each iteration pushes after a different number of steps.
    for steps in 0..8 {
        let mut sliced = standing.clone();
        sliced.begin_computation(T0 + 60.0);
        let mut reported = Vec::new();
        for _ in 0..steps {
            reported
                .extend(sliced.compute_refresh_slice(1).into_iter().flat_map(|refreshed| refreshed.changed));
        }
        let mut with_usage_of_2 = site(Policy::Classic);
        with_usage_of_2.associations[1].usage = Some(1e4);
        sliced.push(with_usage_of_2).expect("a site");
        sliced.begin_computation(T0 + 60.0);
        while sliced.work.is_in_progress() {
            reported
                .extend(sliced.compute_refresh_slice(1).into_iter().flat_map(|refreshed| refreshed.changed));
        }
        for changed in &reported {
            let last = reported.iter().rfind(|other| other.association == changed.association);
            assert_eq!(last.expect("itself").after, sliced.fairshare(changed.association));
        }
        assert!(fairshare(&sliced, 2, "A") < fairshare(&sliced, 1, "A"), "after {steps} steps");
    }
    assert_eq!(in_one_step.worked_out, 3);
}

#[test]
fn clock_jumps_do_not_change_usage() {
    for policy in Policy::ALL {
        let mut busy = site(policy);
        busy.associations[2].usage = Some(500.0);
        let mut standing = standing(busy);
        standing.usages.track_start(&job(1, 1, "A", 3, T0 + 10.0)).expect("a job");
        standing.usages.track_end(&job(2, 2, "A", 1, T0 + 5.0), T0 + 3_600.0).expect("an end");
        let mut plain = standing.clone();
        plain.refresh(T0 + 100.0);
        // In the first steps the clock is behind, ahead or invalid. In the last step the clock is right.
        for now in
            [T0 - 3_600.0, T0 + 365.0 * DAY, T0 + 5e3 * DAY, f64::NAN, 1e300, T0 - 5e3 * DAY, T0 + 100.0]
        {
            standing.refresh(now);
            for at in 0..3 {
                let fairshare = standing.fairshare(Index(at)).expect("ranked");
                assert!((0.0..=1.0).contains(&fairshare), "{policy} {now}");
                assert!(
                    standing
                        .usage(Index(at), now.clamp(-1e12, 1e12))
                        .is_none_or(|usage| usage >= 0.0 || now.is_nan())
                );
            }
        }
        for at in 0..3 {
            let (ours, expected) = (standing.fairshare(Index(at)), plain.fairshare(Index(at)));
            assert_close(ours.expect("ranked"), expected.expect("ranked"));
        }
    }
}

#[test]
fn an_invalid_site_is_rejected_and_the_site_in_force_stays() {
    let mut standing = standing(site(Policy::Classic));
    standing.refresh(T0);
    let old = standing.fairshare(Index(0));
    let change_site = |change: &dyn Fn(&mut Site)| {
        let mut invalid = site(Policy::Classic);
        change(&mut invalid);
        invalid
    };
    for (invalid, text) in [
        (
            change_site(&|s| s.associations[0].usage = Some(f64::NAN)),
            "user \"1\" in bank \"A\": expected a usage from -1e250 to 1e250, got NaN",
        ),
        (
            change_site(&|s| s.associations[1].usage = Some(-1e251)),
            "user \"2\" in bank \"A\": expected a usage from -1e250 to 1e250, got -1e251",
        ),
        (
            change_site(&|s| s.associations[2].usage = Some(1e251)),
            "user \"3\" in bank \"B\": expected a usage from -1e250 to 1e250, got 1e251",
        ),
        (
            change_site(&|s| s.rule.instant = f64::NAN),
            "the usages are of NaN: expected a time in seconds since 1970",
        ),
        (change_site(&|s| s.rule.weights.core = f64::NAN), "core weight NaN: expected a number"),
        (
            change_site(&|s| s.associations[0].counted = Watermark::through(f64::INFINITY)),
            "user \"1\" in bank \"A\": jobs are counted until inf",
        ),
        (change_site(&|s| s.banks[2].parent = Some("C".into())), "C"),
    ] {
        let error = standing.push(invalid).expect_err(text).to_string();
        assert!(error.contains(text), "{error}");
    }
    standing.refresh(T0 + 1.0);
    assert_eq!(standing.fairshare(Index(0)), old);
    for (start, end) in [(f64::NAN, T0), (T0, f64::NAN), (1e300, T0)] {
        assert!(standing.usages.track_end(&job(1, 1, "A", 1, start), end).is_err(), "{start} {end}");
    }
    standing.usages.track_start(&job(3, 1, "A", 1, T0)).expect("a job");
    assert!(standing.usages.track_end(&job(3, 1, "A", 1, T0), f64::NAN).is_err(), "the end of a running job");
    standing.usages.assert_job_positions();
    standing.usages.track_end(&job(2, 1, "A", u64::MAX, T0), T0 - 5.0).expect("an end before the start");
    assert_eq!(usage(&standing, 1, "A", T0 + 1.0), 0.0);
}

#[test]
fn a_job_that_never_ran_has_no_usage() {
    let mut standing = standing(site(Policy::Classic));
    for id in 1..=3 {
        standing.usages.track_start(&job(id, 1, "A", 1, T0)).expect("a job");
    }
    standing.usages.remove_job_stored_as_running(JobId(1));
    standing.usages.remove_job_stored_as_running(JobId(1));
    standing.usages.track_end(&job(3, 1, "A", 1, T0), T0 + 10.0).expect("an end");
    standing.usages.track_end(&job(2, 1, "A", 1, T0), T0 + 10.0).expect("an end");
    assert_eq!(standing.usages.counts(), (3, 0, 2));
    let ended_usage = usage(&standing, 1, "A", T0 + 10.0);
    assert!((ended_usage - 20.0).abs() < 1e-3, "{ended_usage}");
}
