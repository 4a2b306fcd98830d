// SPDX-License-Identifier: LGPL-3.0-only
//! The array `budgets` of a push: the deposited and the spent amount of each budget in each of its windows.
//!
//! Amounts are integers in unit-milliseconds: 3,600,000 are one node-hour, core-hour or GPU-hour. The reader
//! rejects unknown keys, because a budget without effect is worse than an error.

use crate::wire::{Read, read_records};
use fairshare::shortened;
use fairshare_engine::accounts::{Budget, Target};
use fairshare_engine::ids::Measure;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use strum::{Display, EnumString};

/// The key of the array.
pub const BUDGETS: &str = "budgets";
/// The largest amount in unit-milliseconds, about 2.8e11 unit-hours. The sum of nine such amounts fits into 64 bits.
pub const MAX_AMOUNT: i64 = 1_000_000_000_000_000_000;
/// The latest time at which a window may start or end, in seconds since the epoch (year 5138).
pub const MAX_WINDOW: i64 = 100_000_000_000;

/// The unit of a budget.
#[derive(
    Clone, Copy, Debug, Display, EnumString, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
#[allow(missing_docs)]
pub enum BudgetUnit {
    NodeHours,
    CoreHours,
    GpuHours,
}

impl BudgetUnit {
    /// All units.
    pub const ALL: [BudgetUnit; 3] = [BudgetUnit::NodeHours, BudgetUnit::CoreHours, BudgetUnit::GpuHours];

    /// Returns the measure by which the plugin charges budgets in this unit.
    pub fn measure(self) -> Measure {
        match self {
            BudgetUnit::NodeHours => Measure::NodeTime,
            BudgetUnit::CoreHours => Measure::CoreTime,
            BudgetUnit::GpuHours => Measure::GpuTime,
        }
    }

    /// Returns the name of the unit in pushes and in the database.
    pub fn name(self) -> &'static str {
        self.measure().name()
    }
}

/// One budget in one window.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BudgetRecord {
    /// `association`, `bank` or `user`.
    pub scope: String,
    /// The bank, the user id, or `USERID/BANK`.
    pub name: String,
    /// The unit of the budget.
    pub unit: BudgetUnit,
    /// The start of the budget's window, in seconds since the epoch.
    pub start: i64,
    /// The end of the budget's window, in seconds since the epoch. The window does not include this time.
    pub end: i64,
    /// The sum of the deposits in unit-milliseconds. Corrections can make it negative.
    pub deposited: i64,
    /// The amount charged for jobs that ended up to the watermarks of the push, in unit-milliseconds.
    pub spent: i64,
    /// The average amount that the target spent per day in the last seven days, in unit-milliseconds.
    pub rate: i64,
}

impl BudgetRecord {
    /// Returns the budget, or the key and the reason why the record is invalid.
    fn check(&self) -> Result<Budget, String> {
        let BudgetRecord { start, end, deposited, spent, rate, .. } = *self;
        if self.name.contains('\0') {
            return Err("name: contains the character NUL".to_owned());
        }
        let target = Target::parse(&self.scope, &self.name)?;
        if !matches!(target, Target::Association(..) | Target::Bank(_) | Target::User(_)) {
            return Err("name: expected the name of one association, bank or user".to_owned());
        }
        for (key, number, least, most) in [
            ("start", start, 0, MAX_WINDOW - 1),
            ("end", end, start.saturating_add(1), MAX_WINDOW),
            ("deposited", deposited, -MAX_AMOUNT, MAX_AMOUNT),
            ("spent", spent, 0, MAX_AMOUNT),
            ("rate", rate, 0, MAX_AMOUNT),
        ] {
            if !(least..=most).contains(&number) {
                return Err(format!("{key}: expected an integer from {least} to {most}, got {number}"));
            }
        }
        Ok(Budget { target, measure: self.unit.measure(), start, end, deposited, spent, rate })
    }
}

impl From<&Budget> for BudgetRecord {
    fn from(budget: &Budget) -> BudgetRecord {
        let Budget { ref target, measure, start, end, deposited, spent, rate } = *budget;
        let counts = |unit: &BudgetUnit| unit.measure() == measure;
        let unit = BudgetUnit::ALL.into_iter().find(counts).unwrap_or(BudgetUnit::NodeHours);
        let (scope, name) = (target.kind().to_owned(), target.name());
        BudgetRecord { scope, name, unit, start, end, deposited, spent, rate }
    }
}

/// Reads the array of budgets. Windows of the same target and unit must not overlap; the engine checks this for all
/// parts of the push together.
pub fn read_budgets(array: &RawValue) -> Read<Vec<Budget>> {
    let remedy = "\"flux fairshare budget log\" lists the deposits";
    read_records(array, BUDGETS, |record| {
        let record: BudgetRecord =
            serde_json::from_str(record.get()).map_err(|error| format!(": {error}; {remedy}"))?;
        record.check().map_err(|what| {
            let BudgetRecord { scope, name, unit, .. } = &record;
            format!(".{what} ({scope} {}, {unit}); {remedy}", shortened(name).escape_debug())
        })
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::wire::WireError;

    const GOOD: &str = r#"{"scope": "bank", "name": "A", "unit": "node-hours", "start": 10, "end": 20, "deposited": -5, "spent": 3, "rate": 0}"#;

    fn read_text(text: &str) -> Read<Vec<Budget>> {
        read_budgets(serde_json::from_str(text).unwrap())
    }

    fn fault(what: &str) -> WireError {
        WireError::Record(format!("budgets{what}; \"flux fairshare budget log\" lists the deposits"))
    }

    #[test]
    fn written_budgets_are_read_back() {
        let text = format!(
            r#"[{GOOD}, {{"scope": "association", "name": "5001/A", "unit": "gpu-hours", "start": 0, "end": 7,
                "deposited": 1000000000000000000, "spent": 9007199254740993, "rate": 1}},
                {{"scope": "user", "name": "007", "unit": "core-hours", "start": 0, "end": 7,
                "deposited": 0, "spent": 0, "rate": 0}}]"#
        );
        let budgets = read_text(&text).unwrap();
        let records: Vec<BudgetRecord> = budgets.iter().map(BudgetRecord::from).collect();
        let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
        assert_eq!(names, ["A", "5001/A", "7"]);
        assert_eq!(budgets[1].spent, 9_007_199_254_740_993, "more digits than a real number has");
        assert_eq!(read_text(&serde_json::to_string(&records).unwrap()), Ok(budgets));
        assert_eq!(read_text("[]"), Ok(Vec::new()));
        assert_eq!(read_text("{}"), Err(WireError::WrongType(BUDGETS)));
        for unit in BudgetUnit::ALL {
            assert_eq!(serde_json::to_value(unit).unwrap(), unit.name());
            assert_eq!((unit.name().parse(), unit.to_string().as_str()), (Ok(unit), unit.name()));
        }
    }

    #[test]
    fn an_error_names_the_record_the_value_the_limits_and_the_remedy() {
        for (old, new, what) in [
            (
                r#""A""#,
                r#""*""#,
                ".name: expected the name of one association, bank or user (bank *, node-hours)",
            ),
            (
                r#""bank", "name": "A""#,
                r#""user", "name": "A""#,
                ".name: expected a user id, got \"A\" (user A, node-hours)",
            ),
            (
                r#""spent": 3"#,
                r#""spent": -3"#,
                ".spent: expected an integer from 0 to 1000000000000000000, got -3 (bank A, node-hours)",
            ),
            (
                r#""end": 20"#,
                r#""end": 10"#,
                ".end: expected an integer from 11 to 100000000000, got 10 (bank A, node-hours)",
            ),
            (
                r#""spent": 3"#,
                r#""spent": 1.5"#,
                ": invalid type: floating point `1.5`, expected i64 at line 1 column 106",
            ),
            (
                r#""rate""#,
                r#""rates""#,
                ": unknown field `rates`, expected one of `scope`, `name`, `unit`, `start`, `end`, `deposited`, `spent`, `rate` at line 1 column 113",
            ),
            (r#", "rate": 0"#, "", ": missing field `rate` at line 1 column 105"),
            (
                "node-hours",
                "jobs",
                ": unknown variant `jobs`, expected one of `node-hours`, `core-hours`, `gpu-hours` at line 1 column 45",
            ),
        ] {
            let text = format!("[{GOOD}, {}]", GOOD.replacen(old, new, 1));
            assert_eq!(read_text(&text), Err(fault(&format!("[1]{what}"))), "{text}");
        }
        assert!(read_text("[3]").is_err());
    }
}
