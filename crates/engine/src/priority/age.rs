// SPDX-License-Identifier: LGPL-3.0-only
//! Ages as of one common instant.
//!
//! All eligible jobs grow older alike, so the order among them does not change by it. Their ages are therefore shown as of a
//! **reference** that lies ahead: `(reference - eligible since) / age-max`. That number stays the same as time goes on, and no
//! price has to be posted anew. It is by `(reference - now) / age-max`, at most 1, more than the age, for each job by the same;
//! so all differences are exact. A job whose age is 1 already grows no older: its number falls with the time that is left, and
//! only such jobs have to be touched. When the reference is reached it moves on by `age-max`, and with it all prices by the same.
//!
//! With a promise ([`Ages::promising`]) an age has no end: else two jobs that are both at the cap would be equal again, however
//! much later one of them came.

/// The reference, and how ages count against it.
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
    /// Those from now on: the same reference as long as it lies ahead, by no more than an age can be, and nothing else changed.
    #[must_use]
    pub fn moved(self, now: f64, age_max: f64, has_cap: bool) -> Ages {
        let ahead = self.reference - now;
        let holds = ahead > 0.0 && ahead <= age_max && age_max == self.age_max && has_cap == self.has_cap;
        if holds { self } else { Ages { reference: now + age_max, age_max, has_cap } }
    }

    /// As of when ages are shown.
    pub fn reference(self) -> f64 {
        self.reference
    }

    /// The value of a job that is eligible since then.
    pub fn value(self, since: f64, now: f64) -> f64 {
        let ahead = (self.reference - now) / self.age_max;
        if self.is_capped(since, now) {
            return (1.0 + ahead).max(0.0);
        }
        // One that comes after the reference, before that has moved on, is as old as one that comes just then.
        ((self.reference - since) / self.age_max).max(0.0)
    }

    /// Whether it is as old as a job may be: its value falls as time goes on.
    pub fn is_capped(self, since: f64, now: f64) -> bool {
        self.has_cap && now - since >= self.age_max
    }
}

/// The weight of the age under which nobody who waits is overtaken by a job that became eligible `wait` seconds later, where the other
/// terms of two jobs differ by no more than `spread`: by then the age outweighs that, and a point for the roundings.
pub fn promised_weight(spread: f64, wait: f64, age_max: f64) -> i64 {
    let weight = ((spread + 1.0) / wait * age_max).ceil();
    // Beyond that a priority of 32 bits has no room for any age at all.
    weight.clamp(0.0, 1e15) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_reference_moves_when_it_is_reached_and_when_the_clock_goes_back() {
        let ages = Ages::default().moved(1_000.0, 100.0, true);
        assert_eq!(ages.reference(), 1_100.0);
        for (now, age_max, has_cap, reference) in [
            (1_050.0, 100.0, true, 1_100.0),
            (1_099.9, 100.0, true, 1_100.0),
            (1_100.0, 100.0, true, 1_200.0),
            (999.0, 100.0, true, 1_099.0),
            (1_000.0, 200.0, true, 1_200.0),
            (1_010.0, 100.0, false, 1_110.0),
        ] {
            assert_eq!(ages.moved(now, age_max, has_cap).reference(), reference, "{now} {age_max} {has_cap}");
        }
    }

    #[test]
    fn a_promise_weighs_as_much_as_all_else_and_a_point() {
        for (spread, wait, age_max, weight) in [
            (9.0, 10.0, 100.0, 100),
            (9.0, 10.0, 101.0, 101),
            (0.0, 3.0, 100.0, 34),
            (1e300, 1.0, 1.0, 1_000_000_000_000_000),
        ] {
            assert_eq!(promised_weight(spread, wait, age_max), weight, "{spread} {wait} {age_max}");
        }
    }

    #[test]
    fn an_age_has_an_end_unless_there_is_a_promise() {
        let capped = Ages::default().moved(1_000.0, 100.0, true);
        let free = Ages::default().moved(1_000.0, 100.0, false);
        for (since, now, with_cap, without) in [
            (1_000.0, 1_000.0, 1.0, 1.0),
            (950.0, 1_000.0, 1.5, 1.5),
            (900.0, 1_000.0, 2.0, 2.0),
            (500.0, 1_000.0, 2.0, 6.0),
            (500.0, 1_050.0, 1.5, 6.0),
            (1_200.0, 1_200.0, 0.0, 0.0),
        ] {
            assert_eq!(
                (capped.value(since, now), free.value(since, now)),
                (with_cap, without),
                "{since} {now}"
            );
        }
    }

    proptest! {
        /// Whatever the reference, two jobs differ by what they do by the definition.
        #[test]
        fn differences_are_those_of_the_ages(
            began in 0.0..1e9f64, age_max in 1.0..1e7f64, passed in 0.0..1.0f64, waited in prop::array::uniform2(0.0..3.0f64),
        ) {
            let now = began + passed * age_max * 0.999;
            let ages = Ages::default().moved(began, age_max, true).moved(now, age_max, true);
            prop_assert_eq!(ages.reference(), began + age_max);
            let [one, other] = waited.map(|waited| ages.value(now - waited * age_max, now));
            let [young, old] = waited.map(|waited| waited.min(1.0));
            prop_assert!(((one - other) - (young - old)).abs() < 1e-6, "{} {} {} {}", one, other, young, old);
            prop_assert!((0.0..=2.0 + 1e-6).contains(&one));
        }

        /// A job that waits goes before all that became eligible later than promised, whatever their other terms.
        #[test]
        fn nobody_is_overtaken_by_jobs_that_came_later_than_promised(
            spread in 0.0..1e6f64, wait in 60.0..1e7f64, age_max in 60.0..1e7f64, more in 0.0..1e6f64, part in 0.0..1.0f64,
            base in 1.0..1e5f64,
        ) {
            let weight = promised_weight(spread, wait, age_max) as f64;
            let now = 1e9 + wait + more;
            let ages = Ages::default().moved(now, age_max, false);
            let price = |others: f64, since: f64| (others + weight * ages.value(since, now)).round();
            let (waits, later) = (price(base, 1e9), price(base + part * spread, 1e9 + wait + more));
            prop_assert!(waits >= later, "{} {}", waits, later);
        }
    }
}
