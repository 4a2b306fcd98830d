// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the weights of usage and its decay at period boundaries.

use super::ledger::{PERIOD, PERIOD_END};
use super::{Snapshot, StoreResult, UsageSettings};
use fairshare::periods::Weights;

/// The decay of usage: at each period boundary all stored usage is multiplied by a factor, and usage older than the
/// last period is dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Length of a period in seconds.
    pub period: f64,
    /// Factor by which usage decays at a boundary.
    pub factor: f64,
    /// Number of periods, including the current one, of an association that has no stored periods.
    pub periods: u32,
    /// Highest number of stored periods of any association; 0 if it was not read.
    pub longest: u32,
    /// Time of a boundary in seconds since the epoch; `None` if the database has none.
    pub boundary: Option<f64>,
    /// Number of period boundaries that have passed, but at which the stored usage has not decayed yet.
    pub due: u32,
    /// Usage of one second of a node, a core and a GPU.
    pub weights: Weights,
}

impl Default for Pace {
    /// flux-accounting's defaults.
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
    /// Returns true if usage is in node-seconds.
    pub fn is_node_seconds(&self) -> bool {
        self.weights == Weights::default()
    }

    /// Returns the half-life in seconds of the continuous decay that has the same factor per period, or 0 if usage
    /// does not decay. A factor of 0 has no half-life. It is treated as 50 halvings per period, which leaves almost
    /// nothing.
    pub fn half_life(&self) -> f64 {
        let halvings = (-self.factor.log2()).min(50.0);
        if halvings > 0.0 { self.period / halvings } else { 0.0 }
    }

    /// Returns the usage that remains after `seconds` of continuous decay.
    pub fn compute_usage_fraction_after_decay(&self, seconds: f64) -> f64 {
        let half_life = self.half_life();
        if half_life > 0.0 { (-seconds.max(0.0) / half_life).exp2() } else { 1.0 }
    }

    /// Returns the end of the period that contains `now`.
    pub fn next_boundary(&self, now: f64) -> f64 {
        let boundary = self.boundary.unwrap_or(now);
        boundary + ((now - boundary) / self.period).floor().max(-1e9) * self.period + self.period
    }

    /// Returns the number of boundaries between two instants.
    pub fn count_period_boundaries(&self, now: f64, later: f64) -> u32 {
        let first = self.next_boundary(now);
        if later < first { 0 } else { ((later - first) / self.period).floor().min(1e9) as u32 + 1 }
    }

    /// Returns the decay for an association whose oldest stored period is `oldest`. The number of periods is the
    /// number of the association's stored rows, because flux-accounting's programs round this number differently.
    pub fn for_rows(self, oldest: Option<i64>) -> Pace {
        let rows = oldest.and_then(|oldest| u32::try_from(oldest.saturating_add(1)).ok());
        Pace { periods: rows.map_or(self.periods, |rows| rows.max(1)), ..self }
    }

    /// Returns the decay of a bank. The usage of a bank is kept as long as the usage of any association is
    /// kept.
    pub fn for_bank(self) -> Pace {
        Pace { periods: self.periods.max(self.longest), ..self }
    }

    /// Returns the usage that remains of the bins after `self.due + crossed` period boundaries.
    pub fn remaining_later(&self, bins: &[(i64, f64)], crossed: u32) -> f64 {
        self.remaining(bins, self.due.saturating_add(crossed))
    }

    /// Returns the usage that remains after `boundaries` period boundaries. `bins` has pairs of a period and its
    /// usage.
    pub fn remaining(&self, bins: &[(i64, f64)], boundaries: u32) -> f64 {
        let is_kept = |period: i64| period + i64::from(boundaries) < i64::from(self.periods);
        let factor = self.factor.powi(i32::try_from(boundaries).unwrap_or(i32::MAX));
        bins.iter().filter(|(period, _)| is_kept(*period)).map(|(_, usage)| usage * factor).sum()
    }
}

impl Snapshot<'_> {
    /// Reads the decay from the database. Missing settings have flux-accounting's defaults.
    pub fn pace(&self) -> StoreResult<Pace> {
        const NAME: &str = "t_half_life_period_table";
        let UsageSettings { half_life, reset_period, decay, weights, .. } = self.usage_rule(0.0, None)?;
        let table = self.table(NAME)?;
        let boundary = if table.is_some_and(|table| PERIOD.iter().all(|(name, _)| table.has_column(name))) {
            let ends = self
                .read_rows(NAME, PERIOD_END, &["end_half_life_period"], |cells| Ok(cells.number_if_any(0)));
            ends?.first().copied().flatten()
        } else {
            None
        };
        let periods = (reset_period / half_life).clamp(1.0, 1e6) as u32;
        Ok(Pace { period: half_life, factor: decay, periods, boundary, weights, ..Pace::default() })
    }

    /// Returns the oldest period of any association that has a row, or `None` if there are no rows.
    pub fn oldest_period(&self) -> StoreResult<Option<i64>> {
        if self.table("job_usage_per_association_table")?.is_none() {
            let columns = i64::try_from(self.bin_columns()?).unwrap_or(i64::MAX);
            return Ok((columns > 0).then(|| columns - 1));
        }
        let sql = "SELECT max(period) FROM job_usage_per_association_table WHERE typeof(period) = 'integer'";
        self.run_sql(|| self.transaction.query_row(sql, [], |row| row.get(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::Pace;

    #[test]
    fn period_boundaries_are_one_period_apart() {
        let pace = Pace { period: 10.0, boundary: Some(103.0), ..Pace::default() };
        let next = [80.0, 93.0, 99.9, 103.0, 112.9, 113.0].map(|now| pace.next_boundary(now));
        assert_eq!(next, [83.0, 103.0, 103.0, 113.0, 113.0, 123.0]);
        let crossed =
            [99.0, 102.9, 103.0, 112.9, 113.0, 123.5].map(|later| pace.count_period_boundaries(99.0, later));
        assert_eq!(crossed, [0, 0, 1, 1, 2, 3]);
    }

    #[test]
    fn the_half_life_follows_from_period_and_factor() {
        let half_life = |factor| Pace { period: 10.0, factor, ..Pace::default() }.half_life();
        assert_eq!([0.5, 0.25, 1.0].map(half_life), [10.0, 5.0, 0.0]);
        assert_eq!(half_life(0.0), 0.2);
    }

    #[test]
    fn usage_of_old_periods_is_dropped() {
        let pace = Pace::default();
        let bins = [(0, 8.0), (1, 4.0), (3, 2.0)];
        assert_eq!([0, 1, 3, 4].map(|crossed| pace.remaining(&bins, crossed)), [14.0, 6.0, 1.0, 0.0]);
    }

    #[test]
    fn the_number_of_rows_is_the_number_of_periods() {
        let pace = Pace::default();
        let for_rows =
            [None, Some(-2), Some(-1), Some(0), Some(4)].map(|oldest| pace.for_rows(oldest).periods);
        assert_eq!(for_rows, [4, 4, 1, 1, 5]);
        let for_bank = [0, 3, 5].map(|longest| Pace { longest, ..pace }.for_bank().periods);
        assert_eq!(for_bank, [4, 4, 5]);
    }
}
