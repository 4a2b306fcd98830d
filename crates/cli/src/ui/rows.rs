// SPDX-License-Identifier: LGPL-3.0-only
//! Rows, cells and columns, and the style of a column.

use super::figures::Unit;
use fairshare::Shares;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cell {
    /// An empty cell; null in JSON.
    None,
    Text(String),
    /// The name of a bank or user, which tables indent by its depth.
    Node {
        depth: usize,
        bank: bool,
        name: String,
    },
    Count(u64),
    Number(f64),
    /// A change, shown with its sign; a positive change is an improvement.
    Gain(i64),
    Flag(bool),
    /// A bar in a table. `usage` and `share` are lengths in cells.
    Bar {
        usage: usize,
        share: usize,
    },
}

/// Width of a bar that compares usage with share, in cells.
pub(crate) const BAR: usize = 20;

impl Cell {
    /// Returns a bar of [`BAR`] cells. `usage` and `share` are fractions of its length.
    pub(crate) fn bar(usage: f64, share: f64) -> Cell {
        let cells = |part: f64| (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        Cell::Bar { usage: cells(usage), share: cells(share) }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Cell::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Cell::Text(text)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Cell::Number(number)
    }
}

/// An empty cell if there is no value.
impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Self {
        value.map_or(Cell::None, T::into)
    }
}

impl From<Shares> for Cell {
    fn from(shares: Shares) -> Self {
        match shares {
            Shares::Count(count) => Cell::Count(count),
            Shares::Parent => Cell::Text("parent".to_owned()),
        }
    }
}

/// How a table prints a column. All other formats print every number in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    Text,
    /// Yes or no.
    Flag,
    /// A time: a local time in tables, seconds since the epoch in the other formats. JSON has the time by RFC 3339 too.
    Time,
    Count,
    /// A limit on a count. A table shows nothing if it is unlimited.
    Limit,
    /// A number of shares, or `parent`.
    Shares,
    /// A number that identifies something, without commas.
    Id,
    /// Six decimals, as in sshare.
    Fraction,
    /// Like [`Style::Ratio`], but infinity is shown as "no target".
    Quotient,
    /// One decimal.
    Mean,
    /// This number of decimals; none from 1,000 on.
    Decimals(usize),
    /// A length of time in seconds, with about three digits and a unit.
    Span,
    /// A fraction from 0 to 1, shown as a percentage.
    Percent,
    /// The ratio that siblings are compared by: six decimals, or "unused" if it is infinite.
    Ratio,
    /// A usage in the given unit.
    Usage(Unit),
    /// A term of a sum, with up to two decimals.
    Term,
    /// Node-, core- or GPU-milliseconds: hours in tables, integers in the other formats.
    Hours,
    /// A text that is aligned to the right.
    Signed,
    /// A number with its sign.
    Change,
    /// A bar of this width in cells.
    Bar(usize),
}

/// A column: its name in JSON, CSV and `-o`, its title in tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) key: &'a str,
    pub(crate) title: &'a str,
    pub(crate) style: Style,
}

/// Builds a [`Column`].
pub(crate) const fn column<'a>(key: &'a str, title: &'a str, style: Style) -> Column<'a> {
    Column { key, title, style }
}

/// A column, and the function that returns its cell of a row.
#[derive(Clone, Copy)]
pub(crate) struct ValueColumn<'a, T> {
    pub(crate) column: Column<'a>,
    pub(crate) value: fn(&T) -> Cell,
}

/// Builds a [`ValueColumn`].
pub(crate) const fn value_column<'a, T>(
    key: &'a str,
    title: &'a str,
    style: Style,
    value: fn(&T) -> Cell,
) -> ValueColumn<'a, T> {
    ValueColumn { column: column(key, title, style), value }
}

/// Rows and their columns.
pub(crate) struct Rows<'a> {
    /// The key of the rows in the JSON document.
    pub(crate) key: &'static str,
    pub(crate) columns: Vec<Column<'a>>,
    pub(crate) rows: Box<dyn Iterator<Item = Vec<Cell>> + 'a>,
}

impl<'a> Rows<'a> {
    /// Returns a row for each of `list`, with the cells of `columns`.
    pub(crate) fn new<T: 'a>(
        key: &'static str,
        columns: impl IntoIterator<Item = ValueColumn<'a, T>>,
        list: impl IntoIterator<Item = T, IntoIter: 'a>,
    ) -> Rows<'a> {
        let (columns, values): (Vec<_>, Vec<_>) =
            columns.into_iter().map(|one| (one.column, one.value)).unzip();
        let make_row = move |one: T| values.iter().map(|value| value(&one)).collect();
        Rows { key, columns, rows: Box::new(list.into_iter().map(make_row)) }
    }
}

/// How a report is printed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Look<'a> {
    /// Whether tables, CSV and parsable output begin with a line of titles.
    pub(crate) header: bool,
    /// Columns that a table leaves out, in this order, until it fits the terminal.
    pub(crate) give_up: &'a [&'a str],
    /// The hint for a table that leaves out a term of a sum. It says that the shown terms do not add up to the sum.
    pub(crate) parts: &'a str,
}

impl Look<'_> {
    /// All columns with their titles.
    pub(crate) const WHOLE: Look<'static> = Look { header: true, give_up: &[], parts: "" };
}
