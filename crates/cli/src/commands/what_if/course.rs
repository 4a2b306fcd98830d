// SPDX-License-Identifier: LGPL-3.0-only
//! Forecasts usage over time, and the place of a user.

use std::collections::HashMap;
use std::time::Duration;

use serde::Serialize;

use super::edits::find_node;
use crate::outcome::{Result, failure};
use crate::site::input::{Input, Loaded};
use crate::site::names::{bank_of, list_associations_below};
use crate::ui::figures::{date, now, number, ordinal};
use crate::ui::printable::printable;
use crate::ui::screen::{FAINT, GOOD, Screen};
use fairshare::{NodeId, NodeKind, Ranking, Tree};
use fairshare_accounting::pipeline::StoredPeriods;
use fairshare_accounting::store::{Database, Pace, UsageBin};

/// A forecast has at most this many steps after its start.
const STEPS: usize = 8;
/// If the forecast ends less than this many seconds after the last period boundary, the end has no step of its own.
const DAY: f64 = 86_400.0;
/// The length of the longest line of a plot, in cells.
const PLOT: usize = 30;

/// The idle associations, and the decay of their usage.
pub(super) struct Forecast {
    /// The nodes that --idle names.
    named: Vec<NodeId>,
    /// The list has the associations with usage at or below the nodes in `named`. If --idle is not given, it has all
    /// associations with usage.
    resting: Vec<NodeId>,
    now: f64,
    pace: UsageDecay,
}

enum UsageDecay {
    /// Continuous decay, half-life in seconds.
    Steady { half_life: f64 },
    /// Decay at the boundaries of a database's periods.
    Bins { pace: Pace, bins: PeriodUsages },
}

impl UsageDecay {
    /// Returns the half-life in seconds.
    fn half_life(&self) -> f64 {
        match self {
            UsageDecay::Steady { half_life } => *half_life,
            UsageDecay::Bins { pace, .. } => pace.half_life(),
        }
    }
}

/// For each user and bank, the recorded usage as pairs of period and usage.
type PeriodUsages = HashMap<(String, String), Vec<(i64, f64)>>;

/// One step of a forecast.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ForecastStep {
    date: String,
    /// The place of the association; 1 is the first.
    place: Option<usize>,
    fairshare: Option<f64>,
}

/// A user in a bank.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct NamedAssociation {
    user: String,
    bank: String,
}

/// The steps of a forecast.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UserSteps {
    /// The association whose forecast `steps` contains; null if the forecast is for several associations.
    of: Option<NamedAssociation>,
    steps: Vec<ForecastStep>,
    #[serde(skip)]
    ranked: usize,
}

impl Forecast {
    pub(super) fn new(
        input: &Input,
        loaded: &Loaded,
        tree: &Tree,
        idle: &[String],
        half_life: Option<Duration>,
    ) -> Result<Forecast> {
        let named: Vec<NodeId> = idle.iter().map(|name| find_node(tree, name)).collect::<Result<_, _>>()?;
        let everyone = if named.is_empty() { list_associations_below(tree, tree.root()) } else { Vec::new() };
        let mut resting: Vec<NodeId> =
            named.iter().flat_map(|node| list_associations_below(tree, *node)).chain(everyone).collect();
        resting.retain(|leaf| tree.own_usage(*leaf).is_some());
        let now = now();
        let half_life = half_life.map(|half_life| half_life.as_secs_f64()).or(loaded.half_life);
        let pace = match (half_life, loaded.pace, input.database()) {
            (Some(half_life), ..) => UsageDecay::Steady { half_life },
            (None, Some(pace), Some(database)) => {
                let (due, bins) = read_bins(database?, now)?;
                UsageDecay::Bins { pace: Pace { due, ..pace }, bins }
            }
            _ => {
                let text = "--in: the tree has no half-life; give one, like --half-life 7d";
                return Err(failure(text.to_owned()));
            }
        };
        Ok(Forecast { named, resting, now, pace })
    }

    /// Decays the usage of idle associations step by step, over `length` seconds, and ranks the tree at each step. At the end,
    /// `tree` has the decayed usage, and `ranking` is its ranking.
    pub(super) fn follow(&self, tree: &mut Tree, ranking: &mut Ranking, length: f64) -> Result<UserSteps> {
        let start: Vec<f64> = self.resting.iter().map(|leaf| tree.own_usage(*leaf).unwrap_or(0.0)).collect();
        let of = match self.named.as_slice() {
            [one] if tree.kind(*one) == NodeKind::Association => Some(*one),
            _ => None,
        };
        let (policy, options) = (ranking.policy(), *ranking.options());
        let mut steps = Vec::new();
        // Steps of less than a day are shown with their times of day.
        let scale = match &self.pace {
            UsageDecay::Steady { half_life } => half_life.min(7.0 * length / STEPS as f64),
            UsageDecay::Bins { .. } => self.pace.half_life(),
        };
        let mut record = |at: f64, ranking: &Ranking| {
            let Some(node) = of else { return };
            let (place, fairshare) = (ranking.place(node), ranking.fairshare(node));
            let date = date(self.now + at, scale);
            steps.push(ForecastStep { date, place, fairshare });
        };
        record(0.0, ranking);
        // The forecast shows steps only for a single user. Otherwise, it shows only the end.
        let moments = if of.is_some() { self.step_times(length) } else { vec![length] };
        for at in moments {
            for (leaf, used) in self.resting.iter().zip(&start) {
                let left = self.remaining_usage(tree, *leaf, *used, at);
                tree.set_usage(*leaf, left).map_err(failure)?;
            }
            tree.rank_into(policy, &options, ranking).map_err(failure)?;
            record(at, ranking);
        }
        let of = of.map(|node| NamedAssociation {
            user: tree.name(node).to_owned(),
            bank: bank_of(tree, node).to_owned(),
        });
        Ok(UserSteps { of, steps, ranked: ranking.ranked() })
    }

    /// Returns the times of the steps, in seconds from now; the last time is `length`.
    fn step_times(&self, length: f64) -> Vec<f64> {
        let steps = STEPS as f64;
        match &self.pace {
            UsageDecay::Bins { pace, .. } => {
                // Usage changes only at the boundaries of half-life periods.
                let crossed = pace.count_period_boundaries(self.now, self.now + length);
                let every = (f64::from(crossed) / steps).ceil().max(1.0) as usize;
                // A step is slightly after its period boundary. Otherwise rounding could put the step before the boundary.
                let first = pace.next_boundary(self.now) - self.now + 0.001;
                let boundary = |at: u32| first + f64::from(at) * pace.period;
                let mut moments: Vec<f64> = (0..crossed).step_by(every).map(boundary).collect();
                let is_end = |last: &f64| {
                    pace.count_period_boundaries(self.now, self.now + last) == crossed && length - last < DAY
                };
                if !moments.last().is_some_and(is_end) {
                    moments.push(length);
                }
                moments
            }
            UsageDecay::Steady { .. } => (1..=STEPS).map(|at| length * at as f64 / steps).collect(),
        }
    }

    /// Returns the part of `used` that remains after `at` seconds.
    fn remaining_usage(&self, tree: &Tree, leaf: NodeId, used: f64, at: f64) -> f64 {
        match &self.pace {
            UsageDecay::Steady { half_life } if *half_life > 0.0 => used * (-at / half_life).exp2(),
            UsageDecay::Steady { .. } => 0.0,
            UsageDecay::Bins { pace, bins } => {
                let crossed = pace.count_period_boundaries(self.now, self.now + at);
                let key = (tree.name(leaf).to_owned(), bank_of(tree, leaf).to_owned());
                let own = bins.get(&key).map(Vec::as_slice).unwrap_or_default();
                let pace = pace.for_rows(own.iter().map(|(period, _)| *period).max());
                let recorded = pace.remaining(own, 0);
                // If credits are larger than the usage of jobs, the sum is negative.
                let later = pace.remaining_later(own, crossed).max(0.0);
                // Usage that the database does not assign to a period counts as usage of the present period.
                if recorded > 0.0 && recorded <= used {
                    later + pace.remaining_later(&[(0, used - recorded)], crossed)
                } else if recorded > 0.0 {
                    used * later / recorded
                } else {
                    pace.remaining_later(&[(0, used)], crossed)
                }
            }
        }
    }
}

/// Returns the number of period boundaries at which the stored usage has not decayed yet. Also returns the stored
/// usage of all associations by period.
fn read_bins(mut database: Database, now: f64) -> Result<(u32, PeriodUsages)> {
    let snapshot = database.snapshot()?;
    let due = StoredPeriods::count_due_boundaries(&snapshot, now);
    let mut bins = PeriodUsages::new();
    let mut take = |user: &str, bank: &str, bin: UsageBin| {
        bins.entry((user.to_owned(), bank.to_owned())).or_default().push((bin.period, bin.usage));
    };
    snapshot.visit_usage_bins(None, &mut take)?;
    Ok((due, bins))
}

impl UserSteps {
    /// Describes what the forecast assumes about new usage.
    pub(super) fn assumption(&self, idle: &[String]) -> String {
        match idle {
            [] => "Usage decays, and no user adds usage.".to_owned(),
            [one] => format!("{one} adds no usage; the usage of all other users stays constant."),
            _ => "The named users add no usage; the usage of all other users stays constant.".to_owned(),
        }
    }

    /// Returns a plot: a bar for each step, as long as the fair-share.
    pub(super) fn plot_fairshare_steps(&self, screen: &Screen) -> Vec<String> {
        let Some(of) = self.of.as_ref().filter(|_| self.steps.len() > 1) else { return Vec::new() };
        let ranked = number(self.ranked);
        let places: Vec<String> = self
            .steps
            .iter()
            .map(|step| {
                step.place.map_or_else(|| "-".to_owned(), |place| format!("{} of {ranked}", ordinal(place)))
            })
            .collect();
        let wide = places.iter().map(String::len).max().unwrap_or(0);
        let name = format!("{} in bank {}", printable(&of.user), printable(&of.bank));
        let mut lines = vec![format!("The fair-share of {name}, 0 to 1:")];
        let mark = if screen.unicode { "█" } else { "#" };
        for (step, place) in self.steps.iter().zip(&places) {
            let fairshare = step.fairshare.unwrap_or(0.0);
            let cells = (fairshare * PLOT as f64).round() as usize;
            let line = screen.paint(GOOD, &mark.repeat(cells));
            let rest =
                screen.paint(FAINT, &(if screen.unicode { "·" } else { "." }).repeat(PLOT - cells.min(PLOT)));
            lines.push(format!("  {}  {place:>wide$}  {line}{rest} {fairshare:.4}", step.date));
        }
        lines
    }
}
