// SPDX-License-Identifier: LGPL-3.0-only
//! The types of the records in a site document. A record type defines the keys, and its [`Field`]s define the columns
//! in flux-accounting's database. The modules also convert records to the types of the engine and back.
//!
//! The plugin reads records from pushes and writes them to its snapshot. The command reads records from the database
//! and sends them.

mod association;
mod bank;
pub mod budget;
mod limit;
mod queue;

pub use association::{AssociationRecord, BorrowedAssociation};
pub use bank::{BankRecord, FactorRecord, ProjectRecord};
pub use budget::{BudgetRecord, BudgetUnit};
pub use limit::LimitRecord;
pub use queue::QueueRecord;

use crate::field::{Fault, Field};

/// The value of flux-accounting's database for an unlimited limit.
pub const UNLIMITED: i64 = 2_147_483_647;
const UNLIMITED_SQL: &str = "2147483647";

/// Checks a name. `remedy` is the advice for an empty name, which `flux account` can store.
fn check_name(key: &'static str, name: &str, remedy: &str) -> Result<(), Fault> {
    if name.is_empty() {
        return Err((key, format!("expected a name, got an empty string; {remedy}")));
    }
    check_text(key, name)
}

/// Rejects text with NUL: Flux cannot show it, and no job can have such a name.
fn check_text(key: &'static str, text: &str) -> Result<(), Fault> {
    if text.contains('\0') { Err((key, "contains the character NUL".to_owned())) } else { Ok(()) }
}

/// Checks that a record has all of its optional fields or none.
fn check_all_or_none_given<const N: usize>(fields: &[Field], given: [bool; N]) -> Result<(), Fault> {
    let missing = fields.iter().zip(given).find(|(_, is_given)| !is_given).filter(|_| given.contains(&true));
    missing.map_or(Ok(()), |(field, _)| Err((field.key, "key is missing".to_owned())))
}

fn to_shares(shares: i64) -> Result<u64, Fault> {
    let range_error = |_| ("shares", format!("expected 0 or more, got {shares}"));
    u64::try_from(shares).map_err(range_error)
}

/// Returns the number of shares as a signed number.
pub fn from_shares(shares: u64) -> i64 {
    i64::try_from(shares).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::field::Record;
    use serde::Serialize;
    use std::collections::BTreeSet;

    /// Asserts that `record` has all required keys of `R`, and no key that `R` does not define.
    fn assert_keys<R: Record + Serialize>(record: &R) {
        let value = serde_json::to_value(record).unwrap();
        let keys: BTreeSet<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
        let all: BTreeSet<&str> = R::fields().map(|field| field.key).collect();
        let needed: BTreeSet<&str> = R::FIELDS.iter().map(|field| field.key).collect();
        assert!(needed.is_subset(&keys) && keys.is_subset(&all), "{}: {keys:?}", R::ARRAY);
    }

    #[test]
    fn the_table_of_fields_names_the_keys_of_each_record() {
        let (name, shares) = (Some("a".to_owned()), Some(1));
        assert_keys(&AssociationRecord {
            username: name.clone(),
            shares,
            usage: Some(0.0),
            counted_until: Some(0.0),
            ..AssociationRecord::with_limits(1, "A".to_owned(), 0)
        });
        assert_keys(&QueueRecord::unlimited("q"));
        assert_keys(&ProjectRecord { project: "p".to_owned() });
        assert_keys(&BankRecord {
            bank: "A".to_owned(),
            priority: 0.0,
            parent: name,
            shares,
            active: Some(1),
        });
        assert_keys(&FactorRecord { factor: "f".to_owned(), weight: 1 });
    }
}
