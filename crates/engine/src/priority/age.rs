// SPDX-License-Identifier: LGPL-3.0-only
//! Ages of jobs at a common reference time.
//!
//! All eligible jobs age at the same rate, so aging does not change their order. The engine therefore computes ages for
//! a **reference** time in the future: `(reference - eligible since) / age-max`. This value is constant, so the plugin
//! need not post priorities again as time passes. The value exceeds the real age by `(reference - now) / age-max`, at
//! most 1. That excess is equal for all jobs, so all differences are exact. A job whose age has reached 1 stops aging:
//! its value falls as the reference comes closer. Only the priorities of such jobs are posted again. When the time
//! reaches the reference, the reference increases by `age-max`, and all priorities rise equally.
//!
//! With `max-wait-behind` an age has no cap. With a cap, two jobs at the cap would have the same age, even if one
//! became eligible much later than the other.

/// The reference time, and the rules for ages.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ages {
    reference: f64,
    age_max: f64,
    has_cap: bool,
}

impl Default for Ages {
    fn default() -> Self {
        Ages { reference: f64::NEG_INFINITY, age_max: 1.0, has_cap: true }
    }
}

impl Ages {
    /// Returns the ages at the time `now`. The reference stays the same if it is later than `now` by at most `age_max`,
    /// and if `age_max` and `has_cap` are unchanged.
    #[must_use]
    pub fn at_time(self, now: f64, age_max: f64, has_cap: bool) -> Ages {
        let ahead = self.reference - now;
        let is_valid = ahead > 0.0 && ahead <= age_max && age_max == self.age_max && has_cap == self.has_cap;
        if is_valid { self } else { Ages { reference: now + age_max, age_max, has_cap } }
    }

    /// Returns the time for which ages are computed, in seconds since the epoch.
    pub fn reference(self) -> f64 {
        self.reference
    }

    /// Returns the age factor of a job that became eligible at the time `since`.
    pub fn value(self, since: f64, now: f64) -> f64 {
        let ahead = (self.reference - now) / self.age_max;
        if self.is_capped(since, now) {
            return (1.0 + ahead).max(0.0);
        }
        // If the job became eligible after the time for which ages are computed, the age is 0.
        ((self.reference - since) / self.age_max).max(0.0)
    }

    /// Returns true if a job that became eligible at `since` has reached the maximum age at the time `now`. The age
    /// factor of the job then falls as time passes.
    pub fn is_capped(self, since: f64, now: f64) -> bool {
        self.has_cap && now - since >= self.age_max
    }
}

/// Returns the weight of the age for `max-wait-behind`: jobs that became eligible more than `wait` seconds after a job
/// do not overtake it. `spread` is the maximum difference of the other terms of two jobs. The weight includes one point
/// for rounding.
pub fn age_weight_for_wait(spread: f64, wait: f64, age_max: f64) -> i64 {
    let weight = ((spread + 1.0) / wait * age_max).ceil();
    // No larger weight is useful: the priority of a job of any age would exceed 32 bits.
    weight.clamp(0.0, 1e15) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_age_reference_time_moves_with_time_and_with_a_clock_reset() {
        let ages = Ages::default().at_time(1_000.0, 100.0, true);
        assert_eq!(ages.reference(), 1_100.0);
        for (now, age_max, has_cap, reference) in [
            (1_050.0, 100.0, true, 1_100.0),
            (1_099.9, 100.0, true, 1_100.0),
            (1_100.0, 100.0, true, 1_200.0),
            (999.0, 100.0, true, 1_099.0),
            (1_000.0, 200.0, true, 1_200.0),
            (1_010.0, 100.0, false, 1_110.0),
        ] {
            assert_eq!(
                ages.at_time(now, age_max, has_cap).reference(),
                reference,
                "{now} {age_max} {has_cap}"
            );
        }
    }

    #[test]
    fn under_max_wait_behind_age_outweighs_all_other_terms_by_1() {
        for (spread, wait, age_max, weight) in [
            (9.0, 10.0, 100.0, 100),
            (9.0, 10.0, 101.0, 101),
            (0.0, 3.0, 100.0, 34),
            (1e300, 1.0, 1.0, 1_000_000_000_000_000),
        ] {
            assert_eq!(age_weight_for_wait(spread, wait, age_max), weight, "{spread} {wait} {age_max}");
        }
    }

    #[test]
    fn the_age_factor_is_capped_only_if_max_wait_behind_is_unset() {
        let capped = Ages::default().at_time(1_000.0, 100.0, true);
        let uncapped = Ages::default().at_time(1_000.0, 100.0, false);
        for (since, now, capped_value, uncapped_value) in [
            (1_000.0, 1_000.0, 1.0, 1.0),
            (950.0, 1_000.0, 1.5, 1.5),
            (900.0, 1_000.0, 2.0, 2.0),
            (500.0, 1_000.0, 2.0, 6.0),
            (500.0, 1_050.0, 1.5, 6.0),
            (1_200.0, 1_200.0, 0.0, 0.0),
        ] {
            assert_eq!(
                (capped.value(since, now), uncapped.value(since, now)),
                (capped_value, uncapped_value),
                "{since} {now}"
            );
        }
    }

    proptest! {
        #[test]
        fn age_factor_values_differ_by_the_same_amount_as_the_ages(
            began in 0.0..1e9f64, age_max in 1.0..1e7f64, passed in 0.0..1.0f64, waited in prop::array::uniform2(0.0..3.0f64),
        ) {
            let now = began + passed * age_max * 0.999;
            let ages = Ages::default().at_time(began, age_max, true).at_time(now, age_max, true);
            prop_assert_eq!(ages.reference(), began + age_max);
            let [first, second] = waited.map(|waited| ages.value(now - waited * age_max, now));
            let [first_age, second_age] = waited.map(|waited| waited.min(1.0));
            prop_assert!(((first - second) - (first_age - second_age)).abs() < 1e-6, "{} {} {} {}", first, second, first_age, second_age);
            prop_assert!((0.0..=2.0 + 1e-6).contains(&first));
        }

        /// All terms except the age differ by at most `spread` between the two jobs.
        #[test]
        fn jobs_submitted_more_than_max_wait_behind_later_never_overtake(
            spread in 0.0..1e6f64, wait in 60.0..1e7f64, age_max in 60.0..1e7f64, more in 0.0..1e6f64, fraction in 0.0..1.0f64,
            base in 1.0..1e5f64,
        ) {
            let weight = age_weight_for_wait(spread, wait, age_max) as f64;
            let now = 1e9 + wait + more;
            let ages = Ages::default().at_time(now, age_max, false);
            let priority = |others: f64, since: f64| (others + weight * ages.value(since, now)).round();
            let (early_priority, late_priority) = (priority(base, 1e9), priority(base + fraction * spread, 1e9 + wait + more));
            prop_assert!(early_priority >= late_priority, "{} {}", early_priority, late_priority);
        }
    }
}
