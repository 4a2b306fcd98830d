// SPDX-License-Identifier: LGPL-3.0-only
//! Rows of cells under columns, and how they are shown.

use super::figures::Unit;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// Nothing to say: JSON null, else empty.
    None,
    Text(String),
    /// A name in the tree, which tables put by its depth.
    Node {
        depth: usize,
        bank: bool,
        name: String,
    },
    Count(u64),
    Number(f64),
    /// With its sign: better if positive.
    Gain(i64),
    Flag(bool),
    /// A drawing for tables: so many of its cells are used, so many are the share.
    Bar {
        usage: usize,
        share: usize,
    },
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Cell::None, Cell::Number)
    }
}

/// How a table prints a column. The other forms print every number in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Text,
    Count,
    /// A number that is a name.
    Id,
    /// Six decimals, as sshare.
    Fraction,
    /// As [`Style::Ratio`], of a division that may have nothing to divide by.
    Quotient,
    /// One decimal.
    Mean,
    /// A part, as a percentage.
    Percent,
    /// What siblings are compared by: six decimals, but "unused" for what has no bounds.
    Ratio,
    /// In its unit.
    Usage(Unit),
    /// A term of a sum: as many decimals as say something, up to two.
    Term,
    /// A text that ends where the others do.
    Signed,
    /// With its sign.
    Change,
    /// So many cells wide, where there is one.
    Bar(usize),
}

/// A column: its name in JSON, CSV and `-o`, its title in tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) key: &'a str,
    pub(crate) title: &'a str,
    pub(crate) style: Style,
}

/// A column in few words.
pub(crate) const fn column<'a>(key: &'a str, title: &'a str, style: Style) -> Column<'a> {
    Column { key, title, style }
}

/// Rows under titles.
pub(crate) struct Rows<'a> {
    /// Their key in the JSON document.
    pub(crate) key: &'static str,
    pub(crate) columns: Vec<Column<'a>>,
    pub(crate) rows: Box<dyn Iterator<Item = Vec<Cell>> + 'a>,
}

/// What differs from one printing of a report to the next.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// A line of titles above tables, CSV and parsable output.
    pub(crate) header: bool,
    /// Columns that a table leaves out, one after the other, while it is too wide for the terminal.
    pub(crate) give_up: &'a [&'a str],
    /// What it means for the reader if a term of a sum is left out.
    pub(crate) parts: &'a str,
}

impl Look<'_> {
    /// A table of all its columns, under their titles.
    pub(crate) const WHOLE: Look<'static> = Look { header: true, give_up: &[], parts: "" };
}
