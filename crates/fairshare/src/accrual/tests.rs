// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the usage of a job. The expected usage is computed by hand or by numerical integration.

use proptest::prelude::*;

use super::*;
use integral::integral;

mod integral;

fn make_half_life(seconds: f64) -> HalfLife {
    HalfLife::new(seconds).expect("a half-life")
}

fn make_run(rate: f64, start: f64, end: Option<f64>, limit: f64) -> Run {
    let run = Run::new(rate, start).expect("a run").limit_run_time(limit);
    end.map_or(run, |end| run.with_end(end).expect("an end"))
}

fn is_near(ours: f64, expected: f64) -> bool {
    (ours - expected).abs() <= 1e-9 + 1e-11 * expected.abs()
}

#[test]
fn half_lives_must_be_positive_or_none() {
    for (seconds, expected) in [
        (0.0, Some(None)),
        (-0.0, Some(None)),
        (f64::INFINITY, Some(None)),
        (604_800.0, Some(Some(604_800.0))),
        (f64::NAN, None),
        (-1.0, None),
        (f64::NEG_INFINITY, None),
        (1e-300, None),
    ] {
        assert_eq!(HalfLife::new(seconds).map(HalfLife::seconds), expected, "{seconds}");
    }
}

/// After 0 seconds no usage has decayed. A usage is negligible only if it is below the limit, and not if it
/// equals the limit.
#[test]
fn decay_and_negligible_usage_are_exact_at_their_bounds() {
    let half_life = make_half_life(10.0);
    assert_eq!([-10.0, -0.0, 0.0, 10.0].map(|elapsed| half_life.left_after(elapsed)), [1.0, 1.0, 1.0, 0.5]);
    assert_eq!([NEGLIGIBLE, NEGLIGIBLE * 0.999, 1.0].map(zero_negligible), [NEGLIGIBLE, 0.0, 1.0]);
}

#[test]
fn accrued_usage_is_precise_if_the_half_life_is_long() {
    let millennium = 1000.0 * 365.25 * 86_400.0;
    let expected = 1.0 - LN_2 / millennium / 2.0;
    assert!((make_half_life(millennium).accrued(1.0) - expected).abs() <= 1e-15);
    assert_eq!(HalfLife::NONE.accrued(100.0), 100.0);
    assert_eq!([0.0, -1.0, f64::NAN].map(|length| make_half_life(millennium).accrued(length)), [0.0; 3]);
}

#[test]
fn runs_with_invalid_numbers_are_rejected() {
    for (rate, start) in
        [(-1.0, 0.0), (f64::NAN, 0.0), (f64::INFINITY, 0.0), (1.0, f64::NAN), (1.0, 1e300), (1e31, 0.0)]
    {
        assert_eq!(Run::new(rate, start), None, "{rate} {start}");
    }
    let run = Run::new(1.0, 100.0).expect("a run");
    assert_eq!(run.with_end(f64::NAN), None);
    assert_eq!(run.with_end(50.0).and_then(|run| run.end()), Some(100.0));
    assert_eq!(run.limit_run_time(f64::NAN), run);
    assert_eq!(run.limit_run_time(-3.0), run);
}

/// The job starts at 100 and has the rate 4. Each row has the end, the time limit, the present time, and the
/// usage in both modes.
#[test]
fn the_usage_of_a_job_equals_values_computed_by_hand() {
    for (what, end, limit, now, elapsed, committed) in [
        ("not begun: the clock was set back", None, 50.0, 40.0, 0.0, 200.0),
        ("at its start", None, 50.0, 100.0, 0.0, 200.0),
        ("on its way", None, 50.0, 120.0, 80.0, 200.0),
        ("at its limit", None, 50.0, 150.0, 200.0, 200.0),
        ("beyond its limit", None, 50.0, 160.0, 240.0, 240.0),
        ("ended early", Some(110.0), 50.0, 160.0, 40.0, 40.0),
        ("ended, the clock set back", Some(110.0), 50.0, 105.0, 20.0, 40.0),
        ("without a limit", None, 0.0, 110.0, 40.0, 40.0),
        ("never ran", Some(100.0), 50.0, 110.0, 0.0, 0.0),
    ] {
        let run = make_run(4.0, 100.0, end, limit);
        assert_eq!(run.usage(now, Mode::Elapsed, HalfLife::NONE), elapsed, "{what}");
        assert_eq!(run.usage(now, Mode::Committed, HalfLife::NONE), committed, "{what}");
    }
    // If the job runs indefinitely, its usage approaches rate * half-life / ln 2. After one half-life, the usage is half of this value.
    let usage = make_run(4.0, 100.0, None, 0.0).usage(120.0, Mode::Elapsed, make_half_life(20.0));
    assert!(is_near(usage, 40.0 / LN_2), "{usage}");
}

/// In committed mode, a running job is also charged for the rest of its time limit. This usage must be scaled too.
#[test]
fn scaled_usage_converts_back_to_plain_usage() {
    let (scale, run) = (Scale::new(0.0, make_half_life(100.0)), make_run(4.0, 100.0, None, 300.0));
    for mode in [Mode::Elapsed, Mode::Committed] {
        let plain = scale.plain(run.scaled(300.0, mode, &scale), 300.0);
        assert!(is_near(plain, run.usage(300.0, mode, scale.half_life())), "{plain} {mode:?}");
    }
}

#[test]
fn scales_are_rebased_by_whole_half_lives() {
    let scale = Scale::new(1_000.0, make_half_life(10.0));
    assert_eq!(scale.rebased(1_600.0), None);
    let later = scale.rebased(1_643.0).expect("too far");
    assert_eq!(scale.factor(later.epoch), 2f64.powi(64));
    assert_eq!(Scale::new(0.0, HalfLife::NONE).rebased(1e12), None);
    let negligible_time = scale.find_negligible_time(1.0).expect("it decays");
    assert!(
        scale.plain(1.0, negligible_time - 0.001) > NEGLIGIBLE
            && scale.plain(1.0, negligible_time + 0.001) < NEGLIGIBLE
    );
    assert_eq!(scale.find_negligible_time(0.0), None);
}

fn any_half_life() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(20.0), Just(3_600.0), Just(604_800.0), Just(3.15e7), 1.0..1e7]
}

fn any_instant() -> impl Strategy<Value = f64> {
    // Most times are in one range of 12 days, some are in six years around that range, and some are 0.
    prop_oneof![4 => 1.7e9..1.7e9 + 1e6, 1 => 1.6e9..1.8e9, 1 => Just(0.0)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_usage_of_a_job_equals_the_sum_over_its_seconds(
        rate in 0.0..1e5f64, start in any_instant(), length in prop::option::of(0.0..1e6f64), limit in 0.0..1e6f64,
        after in -1e5..3e7f64, h in any_half_life(),
    ) {
        let (now, end) = (start + after, length.map(|length| start + length));
        let job = make_run(rate, start, end, limit);
        let decay = make_half_life(h);
        let until = end.map_or(now, |end| end.min(now));
        let used = rate * integral(start, until, now, decay.seconds());
        prop_assert!(is_near(job.usage(now, Mode::Elapsed, decay), used), "{} {used}", job.usage(now, Mode::Elapsed, decay));
        // Committed mode adds the usage until the job's time limit. The end of the job is rounded, so the length of
        // the job is computed from the rounded end.
        let expected = end.map_or(limit, |end| end - start);
        let running = end.is_none_or(|end| end > now);
        let ahead = if running && limit > 0.0 { rate * (expected - (now - start)).max(0.0).min(expected) } else { 0.0 };
        let committed = job.usage(now, Mode::Committed, decay);
        if limit > 0.0 {
            prop_assert!(is_near(committed, used + ahead), "{committed} {used} {ahead}");
            prop_assert!(committed >= 0.0);
            prop_assert!(committed <= (rate * expected).max(used) * (1.0 + 1e-9) + 1e-9);
        }
        let scale = Scale::new(start + 1e4, decay);
        if scale.rebased(now).is_none() {
            for mode in [Mode::Elapsed, Mode::Committed] {
                let plain = scale.plain(job.scaled(now, mode, &scale), now);
                prop_assert!(is_near(zero_negligible(plain), job.usage(now, mode, decay)));
            }
        }
    }

    #[test]
    fn committed_usage_of_a_running_job_changes_continuously_and_never_rises(
        rate in 0.1..1e3f64, limit in 1.0..1e5f64, h in any_half_life(), parts in 2..40usize,
    ) {
        let (start, decay) = (1.7e9, make_half_life(h));
        let running = make_run(rate, start, None, limit);
        let mut last = running.usage(start, Mode::Committed, decay);
        prop_assert!(is_near(last, rate * limit));
        for part in 1..=parts {
            let now = start + limit * part as f64 / parts as f64;
            let usage = running.usage(now, Mode::Committed, decay);
            prop_assert!(usage <= last * (1.0 + 1e-12) + 1e-6 * rate, "{usage} after {last}");
            last = usage;
        }
        let end = start + limit;
        let ended = make_run(rate, start, Some(end), limit);
        let gap = (ended.usage(end, Mode::Committed, decay) - running.usage(end, Mode::Committed, decay)).abs();
        prop_assert!(gap <= 1e-6 * rate, "{gap}");
    }

    #[test]
    fn usage_is_never_negative_or_nan_at_any_time(
        rate in 0.0..MAX_RATE, start in -MAX_TIME..MAX_TIME, end in prop::option::of(-MAX_TIME..MAX_TIME),
        limit in prop_oneof![Just(f64::NAN), Just(f64::INFINITY), -1.0..1e13f64], now in -1e13..1e13f64, h in any_half_life(),
    ) {
        let job = make_run(rate, start, end, limit);
        for mode in [Mode::Elapsed, Mode::Committed] {
            let usage = job.usage(now, mode, make_half_life(h));
            prop_assert!(usage >= 0.0 && usage.is_finite());
        }
    }
}
