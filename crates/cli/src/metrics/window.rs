// SPDX-License-Identifier: LGPL-3.0-only
//! What banks got of what they were promised, over a window, while they had demand.
//!
//! Promised is a bank's part of the site by the shares of the tree. Delivered is its part of the cores that running jobs had, over
//! the time in which jobs of it were pending: who wants nothing is not wronged by getting nothing, and what others could not
//! use is no promise. Each look at the plugin counts for the time until the next one.

use fairshare_engine::engine::answers::{Load, Stats};
use std::collections::{BTreeMap, VecDeque};

/// Into so many parts a window is divided at most.
const MOST_LOOKS: f64 = 1000.0;

/// Looks at the plugin, as far back as the window goes.
#[derive(Debug)]
pub(crate) struct Window {
    seconds: f64,
    looks: VecDeque<Observation>,
}

/// What was to be seen at an instant.
#[derive(Clone, Debug)]
struct Observation {
    when: f64,
    /// By bank, those below it included.
    banks: BTreeMap<String, Seen>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    promised: f64,
    /// Its part of the cores in use.
    delivered: f64,
    demand: bool,
    /// Whether associations are right below it.
    has_associations: bool,
}

/// What a bank got over the window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Got {
    pub(crate) bank: String,
    pub(crate) promised: f64,
    /// `None` without demand in the window.
    pub(crate) delivered: Option<f64>,
    /// The part of the window in which it had demand.
    pub(crate) demand: f64,
    has_associations: bool,
}

impl Window {
    /// An empty window of so many seconds.
    pub(crate) fn new(seconds: f64) -> Window {
        Window { seconds, looks: VecDeque::new() }
    }

    /// How long it is.
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds
    }

    /// Takes in what the plugin says now.
    pub(crate) fn look(&mut self, stats: &Stats) {
        // A clock that was set back would make times negative.
        if self.looks.back().is_some_and(|last| last.when > stats.heading.now) {
            self.looks.clear();
        }
        // However often anybody asks, the looks that are kept are no more than this.
        let finest = self.seconds / MOST_LOOKS;
        if self.looks.iter().nth_back(1).is_some_and(|before| stats.heading.now - before.when < finest) {
            self.looks.pop_back();
        }
        self.looks.push_back(Observation { when: stats.heading.now, banks: seen(stats) });
        // The look that the window begins in is still of it.
        while self.looks.get(1).is_some_and(|second| second.when <= stats.heading.now - self.seconds) {
            self.looks.pop_front();
        }
    }

    #[cfg(test)]
    pub(crate) fn looks(&self) -> usize {
        self.looks.len()
    }

    /// What each bank of the last look got.
    pub(crate) fn got(&self) -> Vec<Got> {
        let Some(last) = self.looks.back() else { return Vec::new() };
        let spans = self.spans();
        let whole: f64 = spans.iter().map(|(_, seconds)| seconds).sum();
        let of = |(bank, now): (&String, &Seen)| {
            let (mut promised, mut delivered, mut demand) = (0.0, 0.0, 0.0);
            for (look, seconds) in &spans {
                if let Some(seen) = look.banks.get(bank).filter(|seen| seen.demand) {
                    promised += seen.promised * seconds;
                    delivered += seen.delivered * seconds;
                    demand += seconds;
                }
            }
            Got {
                bank: bank.clone(),
                promised: if demand > 0.0 { promised / demand } else { now.promised },
                delivered: (demand > 0.0).then(|| delivered / demand),
                demand: if whole > 0.0 { demand / whole } else { 0.0 },
                has_associations: now.has_associations,
            }
        };
        last.banks.iter().map(of).collect()
    }

    /// The looks with the time that each stands for. A single one stands for itself.
    fn spans(&self) -> Vec<(&Observation, f64)> {
        if let (1, Some(only)) = (self.looks.len(), self.looks.back()) {
            return vec![(only, 1.0)];
        }
        let begin = self.looks.back().map_or(0.0, |last| last.when - self.seconds);
        let pairs = self.looks.iter().zip(self.looks.iter().skip(1));
        pairs.map(|(look, next)| (look, next.when - look.when.max(begin))).collect()
    }
}

/// Jain's index of what banks got of what they were promised: 1 if all got the same part of it, 1/n if one of n got all. Of
/// those right above users that had demand and were promised something; `None` if there are none, or none got anything.
pub(crate) fn jain(got: &[Got]) -> Option<f64> {
    let counted = got.iter().filter(|got| got.has_associations && got.promised > 0.0);
    let parts: Vec<f64> = counted.filter_map(|got| Some(got.delivered? / got.promised)).collect();
    let (sum, squares) =
        parts.iter().fold((0.0, 0.0), |(sum, squares), part| (sum + part, squares + part * part));
    (squares > 0.0).then(|| sum * sum / (parts.len() as f64 * squares))
}

fn seen(stats: &Stats) -> BTreeMap<String, Seen> {
    let parents: BTreeMap<&str, Option<&str>> =
        stats.banks.iter().map(|bank| (bank.bank.as_str(), bank.parent.as_deref())).collect();
    let mut seen: BTreeMap<String, Seen> = stats
        .banks
        .iter()
        .map(|bank| {
            let seen =
                Seen { promised: bank.promised, has_associations: bank.associations > 0, ..Seen::default() };
            (bank.bank.clone(), seen)
        })
        .collect();
    let all: u64 = stats.running.iter().map(|load| load.cores).sum();
    let mut add = |load: &Load, add: &dyn Fn(&mut Seen)| {
        let mut bank = load.bank.as_deref();
        // A tree is no deeper than it has banks; a circle would have no end.
        for _ in 0..=parents.len() {
            let Some(name) = bank else { break };
            if let Some(seen) = seen.get_mut(name) {
                add(seen);
            }
            bank = parents.get(name).copied().flatten();
        }
    };
    for load in &stats.running {
        add(load, &|seen| seen.delivered += if all > 0 { load.cores as f64 / all as f64 } else { 0.0 });
    }
    for load in stats.pending.iter().filter(|load| load.jobs > 0) {
        add(load, &|seen| seen.demand = true);
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn stats(now: f64, running: Value, pending: Value) -> Stats {
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

    fn load(bank: &str, jobs: u64, nodes: u64) -> Value {
        json!({"bank": bank, "queue": null, "jobs": jobs, "nodes": nodes, "cores": nodes})
    }

    fn of<'a>(got: &'a [Got], bank: &str) -> &'a Got {
        got.iter().find(|got| got.bank == bank).expect("the bank")
    }

    #[test]
    fn one_look_stands_for_itself() {
        let mut window = Window::new(3600.0);
        assert!(window.got().is_empty() && jain(&window.got()).is_none());
        window.look(&stats(10.0, json!([load("a", 1, 3), load("b", 1, 1)]), json!([load("a", 5, 5)])));
        let got = window.got();
        assert_eq!((of(&got, "a").delivered, of(&got, "a").demand), (Some(0.75), 1.0));
        assert_eq!(
            (of(&got, "b").delivered, of(&got, "b").demand, of(&got, "b").promised),
            (None, 0.0, 0.25)
        );
        assert_eq!((of(&got, "root").delivered, of(&got, "root").demand), (Some(1.0), 1.0));
        assert_eq!(jain(&got), Some(1.0), "one bank is fair to itself");
    }

    #[test]
    fn each_look_counts_until_the_next_and_only_demand_counts() {
        let mut window = Window::new(100.0);
        let both = json!([load("a", 1, 1), load("b", 1, 1)]);
        // 30 s in which b gets half of all; 70 s in which a alone runs and b wants nothing.
        window.look(&stats(0.0, json!([load("a", 1, 1), load("b", 1, 1)]), both.clone()));
        window.look(&stats(30.0, json!([load("a", 1, 4)]), json!([load("a", 1, 1)])));
        window.look(&stats(100.0, json!([]), both.clone()));
        let got = window.got();
        assert_eq!((of(&got, "b").delivered, of(&got, "b").demand), (Some(0.5), 0.3));
        assert_eq!(of(&got, "a").demand, 1.0);
        assert!((of(&got, "a").delivered.expect("demand") - (0.5 * 30.0 + 70.0) / 100.0).abs() < 1e-12);
        // a got 0.85 / 0.75 of its promise, b 0.5 / 0.25.
        let (a, b) = (0.85 / 0.75, 2.0);
        let expected: f64 = (a + b) * (a + b) / (2.0 * (a * a + b * b));
        assert!((jain(&got).expect("demand") - expected).abs() < 1e-12);
        // What is older than the window is gone, but for the look that it begins in.
        window.look(&stats(180.0, json!([load("b", 1, 2)]), both.clone()));
        let got = window.got();
        assert!((of(&got, "a").demand - 1.0).abs() < 1e-12);
        assert!((of(&got, "b").demand - 0.8).abs() < 1e-12 && of(&got, "b").delivered == Some(0.0));
        // A clock that goes back begins anew.
        window.look(&stats(5.0, json!([load("b", 1, 2)]), both));
        assert_eq!(of(&window.got(), "b").delivered, Some(1.0));
    }
}
