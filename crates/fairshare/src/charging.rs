// SPDX-License-Identifier: LGPL-3.0-only
//! How a site charges jobs: for the sum of their resources or for the dominant one, times the charge factor of their queue.
//!
//! A job is charged by the rule and the factor that were in force when the job started. So a later change of
//! the rule or of a factor does not change the usage of this job.

use crate::periods::{Resources, Weights};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use strum::{EnumString, IntoStaticStr};

/// The largest charge factor.
pub const MAX_FACTOR: f64 = 1000.0;

/// The charge factor of a queue whose factor has never changed.
const DEFAULT_FACTOR: f64 = 1.0;

/// A change of the charge factor of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeChange {
    /// The queue.
    pub queue: Box<str>,
    /// The time at which the factor takes effect, in seconds since the epoch.
    pub since: f64,
    /// The factor.
    pub factor: f64,
}

/// The resources that a job is charged for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ChargeBy {
    /// Jobs are charged for the weighted sum of their nodes, cores and GPUs.
    #[default]
    Sum,
    /// Jobs are charged for the resource of which they have the largest weighted fraction ([`Weights::compute_dominant_usage_rate`]).
    Max,
}

impl ChargeBy {
    /// Returns the name of the charging rule in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// A change of the resources that jobs are charged for, or of the resources of the site.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChargeByChange {
    /// The time at which the rule takes effect, in seconds since the epoch.
    pub since: f64,
    /// The rule.
    pub charge_by: ChargeBy,
    /// The resources of the site.
    #[serde(flatten)]
    pub totals: Resources,
}

/// The rules by which jobs are charged, and the charge factors of all queues, each with the time at which it takes effect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChargeHistory {
    /// The changes of each queue: their times in ascending order, each with its factor. Successive factors differ.
    queues: BTreeMap<Box<str>, Vec<(f64, f64)>>,
    /// The changes of the charging rule, in ascending order of time.
    rules: Vec<ChargeByChange>,
}

/// Returns true if a site can have the charge factor `factor`.
pub fn is_factor(factor: f64) -> bool {
    (0.0..=MAX_FACTOR).contains(&factor)
}

impl ChargeHistory {
    /// Returns true if all queues have always had the factor 1, and jobs were always charged for the sum of
    /// their resources.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.rules.is_empty()
    }

    /// Returns the changes of the resources that jobs are charged for, by time.
    pub fn rules(&self) -> &[ChargeByChange] {
        &self.rules
    }

    /// Appends a change of the charging rule. If `since` is before the last change, the new change gets the time of the
    /// last change. Returns false, and adds nothing, if the rule is already in force or `since` is NaN.
    pub fn add_rule(&mut self, ChargeByChange { since, charge_by, totals }: ChargeByChange) -> bool {
        let last = self.rules.last().map(|last| (last.charge_by, last.totals, last.since));
        let is_same = match (last, charge_by) {
            (None, ChargeBy::Sum) | (Some((ChargeBy::Sum, ..)), ChargeBy::Sum) => true,
            (Some((ChargeBy::Max, known, _)), ChargeBy::Max) => known == totals,
            _ => false,
        };
        if is_same || since.is_nan() {
            return false;
        }
        let since = last.map_or(since, |(.., last)| last.max(since));
        self.rules.push(ChargeByChange { since, charge_by, totals });
        true
    }

    /// Replaces all changes of the charging rule by `changes`. The changes of charge factors stay the same.
    pub fn with_rules(mut self, mut changes: Vec<ChargeByChange>) -> ChargeHistory {
        changes.sort_by(|one, other| one.since.total_cmp(&other.since));
        self.rules.clear();
        for change in changes {
            self.add_rule(change);
        }
        self
    }

    /// Returns true if the charge factor of `queue` has ever changed.
    pub fn has_queue(&self, queue: &str) -> bool {
        self.queues.contains_key(queue)
    }

    /// Returns all changes of charge factors, sorted by queue and time.
    pub fn changes(&self) -> impl Iterator<Item = ChargeChange> + '_ {
        self.queues.iter().flat_map(|(queue, changes)| {
            let change = |&(since, factor)| ChargeChange { queue: queue.clone(), since, factor };
            changes.iter().map(change)
        })
    }

    /// Returns the charge factor of `queue` at `time`. Returns 1 before the first change.
    pub fn factor(&self, queue: Option<&str>, time: f64) -> f64 {
        let changes = queue.and_then(|queue| self.queues.get(queue)).map_or(&[][..], Vec::as_slice);
        let later = changes.partition_point(|(since, _)| *since <= time);
        later.checked_sub(1).and_then(|at| changes.get(at)).map_or(DEFAULT_FACTOR, |(_, factor)| *factor)
    }

    /// Returns the time of the last change of the queue's factor; `None` if there was none.
    pub fn last_change(&self, queue: &str) -> Option<f64> {
        self.queues.get(queue)?.last().map(|(since, _)| *since)
    }

    /// Appends a change of the queue's factor. If `since` is before the queue's last change, the new change
    /// gets the time of the last change. Returns false, and adds nothing, if the queue already has this
    /// factor, or if an argument is invalid.
    pub fn add(&mut self, queue: &str, since: f64, factor: f64) -> bool {
        if self.factor(Some(queue), f64::INFINITY) == factor || !is_factor(factor) || since.is_nan() {
            return false;
        }
        let since = self.last_change(queue).map_or(since, |last| last.max(since));
        self.queues.entry(queue.into()).or_default().push((since, factor));
        true
    }

    /// Appends changes at `since`: each queue of `configured` gets its factor, and each other queue of the
    /// history gets the factor 1. Returns true if a factor changed.
    pub fn add_configuration<'a>(
        &mut self,
        configured: impl Iterator<Item = (&'a str, f64)> + Clone,
        since: f64,
    ) -> bool {
        let is_configured = |queue: &str| configured.clone().any(|(name, _)| name == queue);
        let lacking: Vec<Box<str>> =
            self.queues.keys().filter(|queue| !is_configured(queue)).cloned().collect();
        let mut has_changed = false;
        for (queue, factor) in configured {
            has_changed |= self.add(queue, since, factor);
        }
        for queue in lacking {
            has_changed |= self.add(&queue, since, DEFAULT_FACTOR);
        }
        has_changed
    }

    /// Returns this history followed by `later`, which begins at `since`. A change in `later` is left out unless it is
    /// after the last change of its queue in this history. A queue that `later` lacks has the factor 1 from `since` on.
    pub fn append_later_history(&self, later: &ChargeHistory, since: f64) -> ChargeHistory {
        let mut whole = self.clone();
        let queues = self.queues.keys().chain(later.queues.keys());
        let queues: BTreeSet<&str> = crate::insert_all(queues.map(|queue| &**queue));
        for queue in queues {
            let last = self.last_change(queue).unwrap_or(f64::NEG_INFINITY);
            let changes = later.queues.get(queue).map_or(&[][..], Vec::as_slice);
            let is_default = changes.first().is_none_or(|(first, _)| *first > since);
            let start = is_default.then_some((since, DEFAULT_FACTOR));
            for &(since, factor) in start.iter().chain(changes) {
                if since > last {
                    whole.add(queue, since, factor);
                }
            }
        }
        whole
    }

    /// Returns the usage per second of a job of `queue` that started at `start`, in seconds since the epoch.
    pub fn rate(&self, weights: Weights, ran_on: Resources, queue: Option<&str>, start: f64) -> f64 {
        let in_force = self.rules.partition_point(|change| change.since <= start);
        let base = match in_force.checked_sub(1).and_then(|at| self.rules.get(at)) {
            Some(ChargeByChange { charge_by: ChargeBy::Max, totals, .. }) => {
                weights.compute_dominant_usage_rate(ran_on, *totals)
            }
            _ => weights.rate(ran_on),
        };
        base * self.factor(queue, start)
    }
}

/// Returns `seconds` in whole milliseconds, the unit in which budgets charge run times; 0 if negative.
pub fn whole_milliseconds(seconds: f64) -> u64 {
    // `as` converts a negative number to 0.
    (1000.0 * seconds).round() as u64
}

/// Returns the charge to a budget for a job that has `size` nodes, cores or GPUs for `milliseconds`, in
/// node-, core- or GPU-milliseconds. A larger size or a longer time never gives a smaller charge.
pub fn budget_charge(size: u64, milliseconds: u64, factor: f64) -> u64 {
    let product = size.saturating_mul(milliseconds);
    if factor == DEFAULT_FACTOR { product } else { (product as f64 * factor).round() as u64 }
}

impl FromIterator<ChargeChange> for ChargeHistory {
    fn from_iter<I: IntoIterator<Item = ChargeChange>>(changes: I) -> ChargeHistory {
        let mut changes: Vec<ChargeChange> = changes.into_iter().collect();
        changes.sort_by(|one, other| one.since.total_cmp(&other.since));
        let mut history = ChargeHistory::default();
        for ChargeChange { queue, since, factor } in changes {
            history.add(&queue, since, factor);
        }
        history
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_history(changes: &[(&str, f64, f64)]) -> ChargeHistory {
        let change =
            |&(queue, since, factor): &(&str, f64, f64)| ChargeChange { queue: queue.into(), since, factor };
        changes.iter().map(change).collect()
    }

    fn list_changes(history: &ChargeHistory) -> Vec<(String, f64, f64)> {
        history.changes().map(|change| (change.queue.into(), change.since, change.factor)).collect()
    }

    #[test]
    fn a_job_is_charged_by_the_factor_in_force_when_it_started() {
        let history = read_history(&[("a", 20.0, 0.0), ("a", 10.0, 2.0), ("b", 15.0, 0.5)]);
        for (queue, start, factor) in [
            (Some("a"), 9.9, 1.0),
            (Some("a"), 10.0, 2.0),
            (Some("a"), 19.9, 2.0),
            (Some("a"), 20.0, 0.0),
            (Some("b"), 10.0, 1.0),
            (Some("b"), 99.0, 0.5),
            (Some("c"), 99.0, 1.0),
            (None, 99.0, 1.0),
        ] {
            assert_eq!(history.factor(queue, start), factor, "{queue:?} at {start}");
        }
        let (weights, ran_on) =
            (Weights { node: 1.0, core: 0.5, gpu: 0.0 }, Resources { nodes: 2, cores: 4, gpus: 1 });
        assert_eq!(history.rate(weights, ran_on, Some("a"), 12.0), 8.0);
        assert_eq!(history.rate(weights, ran_on, Some("a"), 9.0), 4.0);
        assert_eq!(history.rate(weights, ran_on, Some("a"), 20.0), 0.0);
    }

    #[test]
    fn a_charge_history_stores_only_changed_factors_and_in_order_of_time() {
        let mut history = ChargeHistory::default();
        assert!(!history.add("a", 5.0, 1.0) && history.is_empty());
        assert!(history.add("a", 5.0, 2.0) && !history.add("a", 6.0, 2.0));
        assert!(history.add("a", 4.0, 3.0));
        assert_eq!(list_changes(&history), [("a".to_owned(), 5.0, 2.0), ("a".to_owned(), 5.0, 3.0)]);
        assert_eq!((history.factor(Some("a"), 5.0), history.last_change("a")), (3.0, Some(5.0)));
    }

    #[test]
    fn a_budget_is_charged_in_whole_milliseconds_times_the_factor() {
        for (seconds, milliseconds) in [(0.0004, 0), (1.2345, 1235), (-3.0, 0), (1e30, u64::MAX)] {
            assert_eq!(whole_milliseconds(seconds), milliseconds);
        }
        assert_eq!(budget_charge(3, u64::MAX / 2, 1.0), u64::MAX);
        assert_eq!(budget_charge(3, (1 << 53) + 1, 1.0), 3 * ((1 << 53) + 1));
        for (factor, charge) in [(0.0, 0), (0.5, 2), (0.1, 0), (1.5, 5), (1000.0, 3000)] {
            assert_eq!(budget_charge(3, 1, factor), charge, "{factor}");
        }
    }

    #[test]
    fn a_queue_that_a_configuration_lacks_gets_the_factor_1() {
        let mut history = ChargeHistory::default();
        assert!(history.add_configuration([("a", 2.0), ("b", 1.0)].into_iter(), 5.0));
        assert!(!history.add_configuration([("a", 2.0)].into_iter(), 6.0));
        assert!(history.add_configuration([("b", 0.0)].into_iter(), 7.0));
        let expected = [("a", 5.0, 2.0), ("a", 7.0, 1.0), ("b", 7.0, 0.0)];
        assert_eq!(
            list_changes(&history),
            expected.map(|(queue, since, factor)| (queue.to_owned(), since, factor))
        );
    }

    #[test]
    fn a_stored_charge_history_is_extended_only_by_later_changes() {
        let stored = read_history(&[("a", 10.0, 2.0), ("b", 10.0, 3.0), ("c", 10.0, 4.0), ("d", 90.0, 5.0)]);
        let seen = read_history(&[("a", 50.0, 2.0), ("b", 50.0, 3.0), ("b", 60.0, 0.5), ("e", 70.0, 6.0)]);
        let whole = stored.append_later_history(&seen, 50.0);
        let expected = [
            ("a", 10.0, 2.0),
            ("b", 10.0, 3.0),
            ("b", 60.0, 0.5),
            ("c", 10.0, 4.0),
            ("c", 50.0, 1.0),
            ("d", 90.0, 5.0),
            ("e", 70.0, 6.0),
        ];
        let changes = list_changes(&whole);
        let is_expected =
            |(one, other): (&(String, f64, f64), &(&str, f64, f64))| (one.0.as_str(), one.1, one.2) == *other;
        assert!(
            changes.len() == expected.len() && changes.iter().zip(&expected).all(is_expected),
            "{changes:?}"
        );
        assert_eq!(whole.append_later_history(&seen, 50.0), whole);
    }

    #[test]
    fn the_dominant_resource_is_relative_to_the_totals_of_the_site() {
        let totals = Resources { nodes: 10, cores: 400, gpus: 20 };
        let weights = Weights { node: 1.0, core: 1.0, gpu: 1.0 };
        for (nodes, cores, gpus, rate) in [
            (1, 40, 0, 1.0),
            (1, 4, 0, 1.0),
            (0, 4, 0, 0.1),
            (1, 40, 2, 1.0),
            (1, 40, 6, 3.0),
            (10, 400, 20, 10.0),
            (0, 0, 0, 0.0),
        ] {
            let ran_on = Resources { nodes, cores, gpus };
            assert_eq!(weights.compute_dominant_usage_rate(ran_on, totals), rate, "{ran_on:?}");
        }
        let ran_on = Resources { nodes: 1, cores: 40, gpus: 4 };
        let heavy = Weights { node: 0.0, core: 0.5, gpu: 3.0 };
        assert_eq!(heavy.compute_dominant_usage_rate(ran_on, totals), 6.0);
        assert_eq!(heavy.compute_dominant_usage_rate(ran_on, Resources { gpus: 0, ..totals }), 0.5);
        assert_eq!(heavy.compute_dominant_usage_rate(ran_on, Resources::default()), 0.0);
    }

    #[test]
    fn a_job_is_charged_by_the_rule_in_force_when_it_started() {
        let totals = Resources { nodes: 10, cores: 100, gpus: 10 };
        let change = |since, charge_by, totals| ChargeByChange { since, charge_by, totals };
        let mut history = read_history(&[("a", 25.0, 0.5)]);
        assert!(!history.add_rule(change(5.0, ChargeBy::Sum, totals)));
        assert!(history.add_rule(change(10.0, ChargeBy::Max, totals)));
        assert!(!history.add_rule(change(15.0, ChargeBy::Max, totals)));
        assert!(history.add_rule(change(20.0, ChargeBy::Max, Resources { nodes: 20, cores: 200, gpus: 10 })));
        assert!(history.add_rule(change(30.0, ChargeBy::Sum, totals)));
        let (weights, ran_on) =
            (Weights { node: 1.0, core: 0.1, gpu: 2.0 }, Resources { nodes: 1, cores: 10, gpus: 1 });
        for (start, rate) in [(9.0, 4.0), (10.0, 2.0), (20.0, 4.0), (25.0, 2.0), (30.0, 2.0)] {
            assert_eq!(history.rate(weights, ran_on, Some("a"), start), rate, "{start}");
        }
        let rules = history.rules().to_vec();
        assert_eq!(ChargeHistory::default().with_rules(rules.clone()).rules(), rules);
        let later = read_history(&[("b", 50.0, 0.0)]);
        assert_eq!(history.append_later_history(&later, 40.0).rules(), rules);
    }
}
