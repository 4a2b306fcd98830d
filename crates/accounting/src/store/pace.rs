// SPDX-License-Identifier: LGPL-3.0-only
//! What usage counts in a database, and how it is forgotten.

use std::collections::HashMap;

use rusqlite::OptionalExtension;
use rusqlite::types::Value;

use super::{Snapshot, StoreError};
use fairshare::periods::Weights;

/// How usage is forgotten: at the end of each period all that was recorded loses a part of itself, and what is older than the
/// last period kept is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Seconds in a period.
    pub period: f64,
    /// What is left after each.
    pub factor: f64,
    /// Periods kept, the current one included, of who has no rows of them yet.
    pub periods: u32,
    /// Periods kept of whoever has most rows; 0 as long as nobody looked.
    pub longest: u32,
    /// An instant at which one ended or will end, in seconds since 1970; `None` where the database does not say.
    pub boundary: Option<f64>,
    /// Boundaries that passed and that nobody counted yet: what is stored is as it was before them. Counting knows them.
    pub due: u32,
    /// What a node-, core- and GPU-second counts.
    pub weights: Weights,
}

impl Default for Pace {
    /// flux-accounting's own figures.
    fn default() -> Self {
        Pace {
            period: 604_800.0,
            factor: 0.5,
            periods: 4,
            longest: 0,
            boundary: None,
            due: 0,
            weights: Weights::default(),
        }
    }
}

impl Pace {
    /// Whether usage is plain node-seconds.
    pub fn is_node_seconds(&self) -> bool {
        self.weights == Weights::default()
    }

    /// In how many seconds a usage that decays by the same law at every instant halves; 0 where it does not decay. A
    /// boundary that leaves nothing has no such law: after a period of 50 halvings as good as nothing is left.
    pub fn half_life(&self) -> f64 {
        let halvings = (-self.factor.log2()).min(50.0);
        if halvings > 0.0 { self.period / halvings } else { 0.0 }
    }

    /// When the period that `now` belongs to ends.
    pub fn next_boundary(&self, now: f64) -> f64 {
        let boundary = self.boundary.unwrap_or(now);
        boundary + ((now - boundary) / self.period).floor().max(-1e9) * self.period + self.period
    }

    /// How many boundaries lie between two instants.
    pub fn boundaries(&self, now: f64, later: f64) -> u32 {
        let first = self.next_boundary(now);
        if later < first { 0 } else { ((later - first) / self.period).floor().min(1e9) as u32 + 1 }
    }

    /// The pace of an association whose oldest row is of this period. Programs differ in how they round the number of periods;
    /// counting goes by the rows, as far as there are any.
    pub fn of_rows(self, oldest: Option<i64>) -> Pace {
        let rows = oldest.and_then(|oldest| u32::try_from(oldest.saturating_add(1)).ok());
        Pace { periods: rows.map_or(self.periods, |rows| rows.max(1)), ..self }
    }

    /// The pace of a bank: nothing is dropped before it is of whoever keeps most.
    pub fn of_bank(self) -> Pace {
        Pace { periods: self.periods.max(self.longest), ..self }
    }

    /// What is left of (period, usage) after so many boundaries to come, and those that passed without being counted.
    pub fn left_then(&self, bins: &[(i64, f64)], crossed: u32) -> f64 {
        self.left(bins, self.due.saturating_add(crossed))
    }

    /// What is left of (period, usage) after so many boundaries.
    pub fn left(&self, bins: &[(i64, f64)], boundaries: u32) -> f64 {
        let kept = |period: i64| period + i64::from(boundaries) < i64::from(self.periods);
        let factor = self.factor.powi(i32::try_from(boundaries).unwrap_or(i32::MAX));
        bins.iter().filter(|(period, _)| kept(*period)).map(|(_, usage)| usage * factor).sum()
    }
}

impl Snapshot<'_> {
    /// What the database says about it; flux-accounting's defaults where it says nothing.
    pub fn pace(&self) -> Result<Pace, StoreError> {
        let mut pace = Pace::default();
        let read = |sql: &str| -> rusqlite::Result<HashMap<String, f64>> {
            let mut statement = self.transaction.prepare(sql)?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, number(row.get(1)?))))?;
            rows.filter_map(|row| row.map(|(key, number)| Some((key, number?))).transpose()).collect()
        };
        if self.table("config_table")?.is_some() {
            let settings = read(
                "SELECT key, value FROM config_table WHERE key IN ('priority_decay_half_life', \
                 'priority_usage_reset_period', 'decay_factor', 'node_weight', 'core_weight', 'gpu_weight')",
            )
            .map_err(|error| self.fail(&error))?;
            let setting = |name: &str, otherwise: f64| settings.get(name).copied().unwrap_or(otherwise);
            let period = setting("priority_decay_half_life", pace.period);
            if period > 0.0 {
                let reset = setting("priority_usage_reset_period", 4.0 * period);
                pace.period = period;
                pace.periods = (reset / period).clamp(1.0, 1e6) as u32;
            }
            pace.factor = setting("decay_factor", pace.factor).clamp(0.0, 1.0);
            pace.weights = Weights {
                node: setting("node_weight", 1.0),
                core: setting("core_weight", 0.0),
                gpu: setting("gpu_weight", 0.0),
            };
        }
        if self.table("t_half_life_period_table")?.is_some_and(|table| table.has("end_half_life_period")) {
            let sql = "SELECT end_half_life_period FROM t_half_life_period_table";
            let boundary = self.transaction.query_row(sql, [], |row| row.get(0)).optional();
            pace.boundary = boundary.map_err(|error| self.fail(&error))?.and_then(number);
        }
        Ok(pace)
    }

    /// The oldest period that anybody has a row of, however little is in it; `None` where nothing is recorded.
    pub fn oldest_period(&self) -> Result<Option<i64>, StoreError> {
        if self.table("job_usage_per_association_table")?.is_none() {
            let columns = i64::try_from(self.bin_columns()?).unwrap_or(i64::MAX);
            return Ok((columns > 0).then(|| columns - 1));
        }
        let sql = "SELECT max(period) FROM job_usage_per_association_table WHERE typeof(period) = 'integer'";
        self.transaction.query_row(sql, [], |row| row.get(0)).map_err(|error| self.fail(&error))
    }
}

fn number(value: Value) -> Option<f64> {
    let number = match value {
        Value::Integer(number) => Some(number as f64),
        Value::Real(number) => Some(number),
        Value::Text(text) => text.trim().parse().ok(),
        Value::Null | Value::Blob(_) => None,
    };
    number.filter(|number: &f64| number.is_finite())
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn boundaries_are_a_period_apart() {
        let pace = Pace { period: 10.0, boundary: Some(103.0), ..Pace::default() };
        let next = [80.0, 93.0, 99.9, 103.0, 112.9, 113.0].map(|now| pace.next_boundary(now));
        assert_eq!(next, [83.0, 103.0, 103.0, 113.0, 113.0, 123.0]);
        let crossed = [99.0, 102.9, 103.0, 112.9, 113.0, 123.5].map(|later| pace.boundaries(99.0, later));
        assert_eq!(crossed, [0, 0, 1, 1, 2, 3]);
    }

    #[test]
    fn a_half_life_is_as_long_as_the_factor_says() {
        let half_life = |factor| Pace { period: 10.0, factor, ..Pace::default() }.half_life();
        assert_eq!([0.5, 0.25, 1.0].map(half_life), [10.0, 5.0, 0.0]);
        assert_eq!(half_life(0.0), 0.2);
    }

    #[test]
    fn what_is_too_old_is_dropped() {
        let pace = Pace::default();
        let bins = [(0, 8.0), (1, 4.0), (3, 2.0)];
        assert_eq!([0, 1, 3, 4].map(|crossed| pace.left(&bins, crossed)), [14.0, 6.0, 1.0, 0.0]);
    }

    #[test]
    fn rows_say_how_much_is_kept() {
        let pace = Pace::default();
        let of_rows = [None, Some(-2), Some(-1), Some(0), Some(4)].map(|oldest| pace.of_rows(oldest).periods);
        assert_eq!(of_rows, [4, 4, 1, 1, 5]);
        let of_bank = [0, 3, 5].map(|longest| Pace { longest, ..pace }.of_bank().periods);
        assert_eq!(of_bank, [4, 4, 5]);
    }
}
