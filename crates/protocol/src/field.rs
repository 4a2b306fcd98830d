// SPDX-License-Identifier: LGPL-3.0-only
//! Fields of records: the key of each in JSON, its column in flux-accounting's database, and its type in both.

use crate::interner::Interner;
use crate::value::BEYOND;
use serde_json::value::RawValue;

/// The type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A user id: an integer of any size.
    UserId,
    /// Text that the database must not leave empty.
    Name,
    /// Any text.
    Text,
    /// Text for which the database may have NULL.
    TextOrNull,
    /// An integer of 64 bits.
    Integer,
    /// An integer >= 0.
    Count,
    /// A finite number.
    Number,
    /// An association usage that the plugin accepts.
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

    /// Returns true if `value` has this type. The record itself checks the range.
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
    /// The column; `None` if the database has none for the field.
    pub column: Option<&'static str>,
    /// The SQL literal for a database that is older than the column; `None` if the column must exist.
    pub substitute: Option<&'static str>,
}

impl Field {
    /// Returns a field whose column has the name of its key and must exist.
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

/// A key at fault, and the text about its fault.
pub type Fault = (&'static str, String);

/// A kind of record: its array, its table, its fields, and its conversion for the engine.
pub trait Record: Sized {
    /// The engine's type.
    type Accepted;
    /// The array of a push.
    const ARRAY: &'static str;
    /// The table of the database.
    const TABLE: &'static str;
    /// The fields that each record has.
    const FIELDS: &'static [Field];
    /// Fields that a record may lack.
    const OPTIONAL: &'static [Field] = &[];
    /// The keys that identify a record, each with its word in messages.
    const WHO: &'static [(&'static str, &'static str)];

    /// Returns the values of these keys, each with its word.
    fn who(&self) -> Vec<(&'static str, String)>;

    /// Returns the reason why the record concerns no job and is left out; `None` for any other record.
    fn left_out(&self) -> Option<String> {
        None
    }

    /// Converts the record for the engine.
    fn accept(&self, names: &mut Interner) -> Result<Self::Accepted, Fault>;

    /// Returns the limits with their keys.
    fn limits(&self) -> [(&'static str, i64); 5] {
        [("", 0); 5]
    }

    /// Returns all fields.
    fn fields() -> impl Iterator<Item = &'static Field> {
        Self::FIELDS.iter().chain(Self::OPTIONAL)
    }
}
