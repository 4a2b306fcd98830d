// SPDX-License-Identifier: LGPL-3.0-only
//! Compares the delivered share of each bank with its promised share, over a sliding window.
//!
//! The promised share is the bank's share of the site in the tree. The delivered share is the fraction of the used cores that the
//! bank's jobs used while the bank had pending jobs. Time without demand does not count, because an idle bank is not treated
//! unfairly. Each observation counts for the time until the next one.

use crate::plugin::bank_tree::BankTree;
use fairshare_engine::engine::answers::{Load, Stats};
use std::collections::{BTreeMap, VecDeque};

/// The greatest number of observations in a window.
const MOST_OBSERVATIONS: f64 = 1000.0;

/// The observations of the last `seconds` seconds.
#[derive(Debug)]
pub(crate) struct Window {
    seconds: f64,
    observations: VecDeque<Observation>,
}

/// The state of the banks at the time `when`.
#[derive(Clone, Debug)]
struct Observation {
    when: f64,
    /// The state of each bank, including the banks below it.
    banks: BTreeMap<String, BankState>,
}

#[derive(Clone, Copy, Debug, Default)]
struct BankState {
    promised: f64,
    /// The fraction of the used cores that the bank's jobs use.
    delivered: f64,
    demand: bool,
    /// Whether the bank has associations of its own.
    has_associations: bool,
}

/// The promised and the delivered share of a bank, averaged over the time in the window in which the bank had demand.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct BankShares {
    pub(crate) bank: String,
    pub(crate) promised: f64,
    /// `None` if the bank had no demand in the window.
    pub(crate) delivered: Option<f64>,
    /// The fraction of the window in which the bank had demand.
    pub(crate) demand: f64,
    has_associations: bool,
}

impl Window {
    /// Returns an empty window, which will keep the observations of the last `seconds` seconds.
    pub(crate) fn new(seconds: f64) -> Window {
        Window { seconds, observations: VecDeque::new() }
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Adds an answer of the plugin, and removes the observations that are older than the window.
    pub(crate) fn observe(&mut self, stats: &Stats) {
        // If the clock was set back, durations would be negative.
        if self.observations.back().is_some_and(|last| last.when > stats.heading.now) {
            self.observations.clear();
        }
        // If the last observation but one is younger than `finest` seconds, the new observation replaces the last one.
        let finest = self.seconds / MOST_OBSERVATIONS;
        if self.observations.iter().nth_back(1).is_some_and(|before| stats.heading.now - before.when < finest)
        {
            self.observations.pop_back();
        }
        self.observations.push_back(Observation { when: stats.heading.now, banks: observe_banks(stats) });
        // Keep the last observation before the window, because it describes the beginning of the window.
        while self.observations.get(1).is_some_and(|second| second.when <= stats.heading.now - self.seconds) {
            self.observations.pop_front();
        }
    }

    #[cfg(test)]
    pub(crate) fn observation_count(&self) -> usize {
        self.observations.len()
    }

    /// Returns the shares of each bank in the last observation, averaged over the time in the window in which the bank had demand.
    pub(crate) fn bank_shares(&self) -> Vec<BankShares> {
        let Some(last) = self.observations.back() else { return Vec::new() };
        let spans = self.spans();
        let total_seconds: f64 = spans.iter().map(|(_, seconds)| seconds).sum();
        let shares = |(bank, now): (&String, &BankState)| {
            let (mut promised, mut delivered, mut demand) = (0.0, 0.0, 0.0);
            for (observation, seconds) in &spans {
                if let Some(state) = observation.banks.get(bank).filter(|state| state.demand) {
                    promised += state.promised * seconds;
                    delivered += state.delivered * seconds;
                    demand += seconds;
                }
            }
            BankShares {
                bank: bank.clone(),
                promised: if demand > 0.0 { promised / demand } else { now.promised },
                delivered: (demand > 0.0).then(|| delivered / demand),
                demand: if total_seconds > 0.0 { demand / total_seconds } else { 0.0 },
                has_associations: now.has_associations,
            }
        };
        last.banks.iter().map(shares).collect()
    }

    /// Returns each observation with the seconds until the next one. A single observation counts for one second.
    fn spans(&self) -> Vec<(&Observation, f64)> {
        if let (1, Some(only)) = (self.observations.len(), self.observations.back()) {
            return vec![(only, 1.0)];
        }
        let begin = self.observations.back().map_or(0.0, |last| last.when - self.seconds);
        let pairs = self.observations.iter().zip(self.observations.iter().skip(1));
        pairs.map(|(observation, next)| (observation, next.when - observation.when.max(begin))).collect()
    }
}

/// Returns Jain's index of delivered / promised: 1 if the quotient is the same for all banks, 1/n if only one of n banks got anything.
/// Banks without associations, without demand or without a promised share do not count. Returns `None` if no bank counts, or if no
/// bank got anything.
pub(crate) fn jain_index(banks: &[BankShares]) -> Option<f64> {
    let counted = banks.iter().filter(|bank| bank.has_associations && bank.promised > 0.0);
    let parts: Vec<f64> = counted.filter_map(|bank| Some(bank.delivered? / bank.promised)).collect();
    let (sum, squares) =
        parts.iter().fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
    (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
}

/// Returns the state of each bank. A bank includes the banks below it.
fn observe_banks(stats: &Stats) -> BTreeMap<String, BankState> {
    let tree = BankTree::new(&stats.banks);
    let mut states: BTreeMap<String, BankState> = stats
        .banks
        .iter()
        .map(|bank| {
            let state = BankState {
                promised: bank.promised,
                has_associations: bank.associations > 0,
                ..BankState::default()
            };
            (bank.bank.clone(), state)
        })
        .collect();
    let all: u64 = stats.running.iter().map(|load| load.cores).sum();
    let mut add = |load: &Load, add: &dyn Fn(&mut BankState)| {
        for bank in tree.path(load.bank.as_deref()) {
            if let Some(state) = states.get_mut(bank) {
                add(state);
            }
        }
    };
    for load in &stats.running {
        add(load, &|state| state.delivered += if all > 0 { load.cores as f64 / all as f64 } else { 0.0 });
    }
    for load in stats.pending.iter().filter(|load| load.jobs > 0) {
        add(load, &|state| state.demand = true);
    }
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn make_stats(now: f64, running: Value, pending: Value) -> Stats {
        serde_json::from_value(json!({
            "now": now,
            "banks": [
                {"bank": "root", "parent": null, "promised": 1.0, "associations": 0},
                {"bank": "a", "parent": "root", "promised": 0.75, "associations": 2},
                {"bank": "b", "parent": "root", "promised": 0.25, "associations": 1},
            ],
            "running": running,
            "pending": pending,
        }))
        .expect("stats")
    }

    fn make_load_of_bank(bank: &str, jobs: u64, nodes: u64) -> Value {
        json!({"bank": bank, "queue": null, "jobs": jobs, "nodes": nodes, "cores": nodes})
    }

    fn find_bank<'a>(shares: &'a [BankShares], bank: &str) -> &'a BankShares {
        shares.iter().find(|shares| shares.bank == bank).expect("the bank")
    }

    #[test]
    fn the_metrics_window_counts_a_single_observation() {
        let mut window = Window::new(3600.0);
        assert!(window.bank_shares().is_empty() && jain_index(&window.bank_shares()).is_none());
        window.observe(&make_stats(
            10.0,
            json!([make_load_of_bank("a", 1, 3), make_load_of_bank("b", 1, 1)]),
            json!([make_load_of_bank("a", 5, 5)]),
        ));
        let shares = window.bank_shares();
        assert_eq!((find_bank(&shares, "a").delivered, find_bank(&shares, "a").demand), (Some(0.75), 1.0));
        assert_eq!(
            (
                find_bank(&shares, "b").delivered,
                find_bank(&shares, "b").demand,
                find_bank(&shares, "b").promised
            ),
            (None, 0.0, 0.25)
        );
        assert_eq!(
            (find_bank(&shares, "root").delivered, find_bank(&shares, "root").demand),
            (Some(1.0), 1.0)
        );
        assert_eq!(jain_index(&shares), Some(1.0), "one bank is fair to itself");
    }

    #[test]
    fn each_load_observation_counts_until_the_next_one_while_demand_exists() {
        let mut window = Window::new(100.0);
        let both = json!([make_load_of_bank("a", 1, 1), make_load_of_bank("b", 1, 1)]);
        // Until 30 s, b uses half of the busy cores. From 30 s to 100 s only a runs jobs, and b has no demand.
        window.observe(&make_stats(
            0.0,
            json!([make_load_of_bank("a", 1, 1), make_load_of_bank("b", 1, 1)]),
            both.clone(),
        ));
        window.observe(&make_stats(
            30.0,
            json!([make_load_of_bank("a", 1, 4)]),
            json!([make_load_of_bank("a", 1, 1)]),
        ));
        window.observe(&make_stats(100.0, json!([]), both.clone()));
        let shares = window.bank_shares();
        assert_eq!((find_bank(&shares, "b").delivered, find_bank(&shares, "b").demand), (Some(0.5), 0.3));
        assert_eq!(find_bank(&shares, "a").demand, 1.0);
        assert!(
            (find_bank(&shares, "a").delivered.expect("demand") - (0.5 * 30.0 + 70.0) / 100.0).abs() < 1e-12
        );
        // Delivered / promised is 0.85 / 0.75 for a, and 0.5 / 0.25 for b.
        let (a, b) = (0.85 / 0.75, 2.0);
        let expected: f64 = (a + b) * (a + b) / (2.0 * (a * a + b * b));
        assert!((jain_index(&shares).expect("demand") - expected).abs() < 1e-12);
        // Observations older than the window are removed, except the last of them, which describes the beginning of the window.
        window.observe(&make_stats(180.0, json!([make_load_of_bank("b", 1, 2)]), both.clone()));
        let shares = window.bank_shares();
        assert!((find_bank(&shares, "a").demand - 1.0).abs() < 1e-12);
        assert!(
            (find_bank(&shares, "b").demand - 0.8).abs() < 1e-12
                && find_bank(&shares, "b").delivered == Some(0.0)
        );
        // If the clock goes back, the window begins again.
        window.observe(&make_stats(5.0, json!([make_load_of_bank("b", 1, 2)]), both));
        assert_eq!(find_bank(&window.bank_shares(), "b").delivered, Some(1.0));
    }
}
