// SPDX-License-Identifier: LGPL-3.0-only
//! Fields of records: the JSON key, the column of flux-accounting's database, and the type.

use crate::interner::Interner;
use crate::value::BEYOND;
use serde::Serialize;
use serde_json::value::RawValue;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A user id: an integer of any size.
    UserId,
    /// Text that must not be empty.
    Name,
    /// Any text.
    Text,
    /// Text, or NULL in the database.
    TextOrNull,
    /// An integer of 64 bits.
    Integer,
    /// An integer of at least 0.
    Count,
    /// A finite number.
    Number,
    /// An association usage in the range that the plugin accepts.
    Usage,
}

impl Kind {
    /// Returns the name of the type in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Kind::UserId | Kind::Integer | Kind::Count => "integer",
            Kind::Number | Kind::Usage => "number",
            Kind::Name | Kind::Text | Kind::TextOrNull => "string",
        }
    }

    /// Returns true if `value` has this type. The conversion of the record checks the range of the value.
    pub fn fits(self, value: &RawValue) -> bool {
        let text = value.get();
        let is_integer = || text.parse::<i64>().is_ok();
        let is_beyond = |number: f64| number.is_finite() && number.abs() >= BEYOND;
        match self {
            Kind::Integer | Kind::Count => is_integer(),
            Kind::UserId => is_integer() || text.parse::<f64>().is_ok_and(is_beyond),
            Kind::Number | Kind::Usage => text.parse::<f64>().is_ok_and(f64::is_finite),
            Kind::Name | Kind::Text | Kind::TextOrNull => text.starts_with('"'),
        }
    }
}

/// A field of a record.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key in JSON.
    pub key: &'static str,
    /// The type of the value.
    pub kind: Kind,
    /// The column; `None` if the database has no column for the field.
    pub column: Option<&'static str>,
    /// The SQL literal for databases without the column; `None` if the column must exist.
    pub substitute: Option<&'static str>,
}

impl Field {
    /// Returns a field whose database column has the same name and must exist.
    pub(crate) const fn new(key: &'static str, kind: Kind) -> Field {
        Field { key, kind, column: Some(key), substitute: None }
    }

    pub(crate) const fn with_column(self, column: Option<&'static str>) -> Field {
        Field { column, ..self }
    }

    pub(crate) const fn with_substitute(self, literal: &'static str) -> Field {
        Field { substitute: Some(literal), ..self }
    }
}

/// The invalid key, and the reason.
pub type Fault = (&'static str, String);

/// A type of record: its array, table and fields, and its conversion for the engine.
pub trait Record: Serialize {
    /// The engine's type for the record.
    type Accepted;
    /// The name of the array that holds records of this type in a push.
    const ARRAY: &'static str;
    /// The database table that holds records of this type.
    const TABLE: &'static str;
    /// The fields that a record must have.
    const FIELDS: &'static [Field];
    /// The optional fields of a record.
    const OPTIONAL: &'static [Field] = &[];
    /// The keys that identify a record, each with its name in messages.
    const KEYS: &'static [(&'static str, &'static str)];

    /// Returns a reason if no job can match the record, which is then left out. Returns `None` for any other record.
    fn left_out(&self) -> Option<String> {
        None
    }

    /// Converts the record for the engine. Returns the first fault.
    fn convert(&self, names: &mut Interner) -> Result<Self::Accepted, Fault>;

    /// Returns the limits with their keys.
    fn limits(&self) -> impl Iterator<Item = (&'static str, i64)> {
        std::iter::empty()
    }

    /// Returns all fields.
    fn fields() -> impl Iterator<Item = &'static Field> {
        Self::FIELDS.iter().chain(Self::OPTIONAL)
    }
}
