// SPDX-License-Identifier: LGPL-3.0-only
//! Prints a report as a table, JSON, CSV or parsable output.

use std::io::{self, IsTerminal, Write, stdout};

use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::{Map, Value};

use super::companions::add_companion_members;
use super::figures::{Unit, make_time_zone_note, now, number, rfc3339};
use super::messages::address;
use super::pager::PagedOutput;
use super::printable::{printable, printable_json};
use super::progress::Progress;
use super::rows::{Cell, Column, Look, Rows, Style};
use super::screen::{Screen, ScreenArgs};
use super::table::Table;
use fairshare_engine::ids::f58;

/// The result of a command: its rows, and the JSON members that describe them.
pub(crate) struct Report<'a> {
    /// Members of the JSON document besides the list of rows. In other formats, only [`Report::notes`] can show them.
    pub(crate) facts: Facts,
    pub(crate) rows: Rows<'a>,
    /// A second list of rows, for tables and JSON.
    pub(crate) more: Option<Rows<'a>>,
    /// Lines above the table.
    pub(crate) before: Vec<String>,
    /// Lines below the table.
    pub(crate) notes: Vec<String>,
    /// Lines at the end that must not be wrapped.
    pub(crate) drawing: Vec<String>,
}

impl Default for Report<'_> {
    fn default() -> Self {
        let rows = Rows { key: "rows", columns: Vec::new(), rows: Box::new(std::iter::empty()) };
        Report {
            facts: Facts::default(),
            rows,
            more: None,
            before: Vec::new(),
            notes: Vec::new(),
            drawing: Vec::new(),
        }
    }
}

/// The members of a JSON document besides the rows.
#[derive(Default)]
pub(crate) struct Facts(pub(crate) Map<String, Value>);

impl Facts {
    /// Takes the members of a struct, and adds the readable forms of times and job ids.
    pub(crate) fn new(facts: &impl Serialize) -> io::Result<Facts> {
        let mut document = serde_json::to_value(facts)?;
        add_companion_members(&mut document, &f58);
        match document {
            Value::Object(members) => Ok(Facts(members)),
            other => Err(io::Error::other(format!("{other} is not an object"))),
        }
    }
}

impl Report<'_> {
    /// Returns the JSON document that [`OutputArgs::print`] prints.
    pub(crate) fn into_json(self) -> io::Result<Vec<u8>> {
        let mut document = Vec::new();
        print_json(self, Progress::none(), &mut document)?;
        Ok(document)
    }
}

/// The option that shortens a table.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct LimitArg {
    /// Show at most this many rows of each kind in the table, the largest differences first; 0 shows all
    #[arg(long, value_name = "NUMBER", default_value_t = 10, conflicts_with = "output")]
    pub(crate) limit: usize,
}

impl LimitArg {
    /// Returns the greatest number of rows of each kind; `None` for all rows.
    pub(crate) fn most_rows(self, output: OutputArgs) -> Option<usize> {
        Some(self.limit).filter(|limit| output.is_table() && *limit > 0)
    }
}

/// The options that choose the format.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print a JSON document with full precision; a missing value is null, infinity is "inf"
    #[arg(long, group = "output")]
    pub(crate) json: bool,
    /// Print comma-separated values (RFC 4180)
    #[arg(long, group = "output")]
    pub(crate) csv: bool,
    /// Print values separated by |; a value with a | in it is quoted as in CSV
    #[arg(short = 'P', long, group = "output")]
    pub(crate) parsable: bool,
    /// Print no header
    #[arg(short = 'n', long, alias = "noheader", conflicts_with = "json")]
    pub(crate) no_header: bool,
    #[command(flatten)]
    pub(crate) screen: ScreenArgs,
}

impl OutputArgs {
    /// Returns true if neither JSON, CSV nor parsable output is chosen.
    pub(crate) fn is_table(self) -> bool {
        !(self.json || self.csv || self.parsable)
    }

    /// Returns the number of rows to show, and a note about the other rows. A table shows at most `most` of `all` rows, or all if `most` is 0.
    pub(crate) fn limit_rows(self, all: usize, most: usize) -> (usize, Vec<String>) {
        let shown = if self.is_table() && most > 0 { most.min(all) } else { all };
        let more = (all > shown).then(|| format!("and {} more (--limit 0 shows all)", number(all - shown)));
        (shown, more.into_iter().collect())
    }

    /// Returns the properties of standard output.
    pub(crate) fn screen(self) -> Screen {
        self.screen.screen()
    }

    /// Prints the report to standard output.
    pub(crate) fn print(self, report: Report<'_>) -> io::Result<()> {
        self.print_as(report, Look::WHOLE, Progress::none())
    }

    /// Prints the report to standard output in the style `look`, and continues the progress bar of the command.
    pub(crate) fn print_as(self, report: Report<'_>, look: Look<'_>, progress: Progress) -> io::Result<()> {
        let terminal = stdout().is_terminal();
        // Rows that appear one by one on the terminal show the progress themselves. A table is formatted as a whole before it is printed,
        // so it needs a progress bar.
        let progress = if terminal && !self.is_table() { Progress::none() } else { progress };
        let screen = self.screen();
        let mut out = if self.is_table() { PagedOutput::with_pager(&screen) } else { PagedOutput::plain() };
        let header = look.header && !self.no_header;
        let look = Look { header, ..look };
        if self.json {
            print_json(report, progress, &mut out)?;
        } else if self.is_table() {
            print_table(&Table::new(&screen, look), report, progress, &mut out)?;
        } else {
            let separator = if self.csv { "," } else { "|" };
            SeparatorFormat { separator, header, terminal }.print(report, progress, &mut out)?;
        }
        out.finish()
    }
}

struct SeparatorFormat {
    separator: &'static str,
    header: bool,
    /// Whether standard output is a terminal. If so, control characters in names are escaped.
    terminal: bool,
}

fn print_table(
    table: &Table<'_>,
    report: Report<'_>,
    mut progress: Progress,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in &report.before {
        table.screen.wrapped(&printable(line), "", "  ", out)?;
    }
    // An empty line separates the lines above the table, the tables and the notes.
    let mut begun = !report.before.is_empty();
    for rows in std::iter::once(report.rows).chain(report.more) {
        begun |= table.print(rows, begun, &mut progress, out)?;
    }
    drop(progress);
    let zone = table.has_times.get().then(|| make_time_zone_note(now(), &TimeZone::system()));
    if !(report.notes.is_empty() && zone.is_none()) && begun {
        writeln!(out)?;
    }
    for note in report.notes.iter().chain(&zone) {
        table.screen.wrapped(&printable(&address(note)), "", "", out)?;
    }
    if !report.drawing.is_empty() {
        writeln!(out)?;
    }
    report.drawing.iter().try_for_each(|line| writeln!(out, "{line}"))
}

fn print_json(report: Report<'_>, mut progress: Progress, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"{")?;
    for (key, value) in &report.facts.0 {
        write!(out, "\"{key}\": ")?;
        out.write_all(printable_json(&serde_json::to_string(value)?).as_bytes())?;
        out.write_all(b", ")?;
    }
    write_json_rows(report.rows, &mut progress, out)?;
    if let Some(more) = report.more {
        out.write_all(b",\n")?;
        write_json_rows(more, &mut progress, out)?;
    }
    out.write_all(b"}\n")
}

fn write_json_rows(rows: Rows<'_>, progress: &mut Progress, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "\"{}\": [", rows.key)?;
    // A drawing is left out, and a column that was chosen twice is written once.
    let first = |column: &Column<'_>| rows.columns.iter().position(|other| other.key == column.key);
    let is_written = |(at, column): (usize, &Column<'_>)| {
        !matches!(column.style, Style::Bar(_)) && first(column) == Some(at)
    };
    let written: Vec<bool> = rows.columns.iter().enumerate().map(is_written).collect();
    let mut separator = "\n";
    for row in progress.over("printing", rows.rows) {
        out.write_all(separator.as_bytes())?;
        separator = ",\n";
        out.write_all(b"{")?;
        let cells = row.iter().zip(&rows.columns).zip(&written).filter(|(_, is_written)| **is_written);
        for (index, ((cell, column), _)) in cells.enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}\"{}\": ", column.key)?;
            write_json_cell(cell, out)?;
            if column.style == Style::Usage(Unit::NodeSeconds) {
                write!(out, ", \"{}_node_seconds\": ", column.key)?;
                write_json_cell(cell, out)?;
            }
            if column.style == Style::Time {
                let text = if let Cell::Number(seconds) = cell { rfc3339(*seconds) } else { None };
                write!(out, ", \"{}_time\": ", column.key)?;
                write_json_cell(&text.map_or(Cell::None, Cell::Text), out)?;
            }
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"\n]")
}

fn write_json_cell(cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    match cell {
        Cell::None | Cell::Bar { .. } => out.write_all(b"null"),
        Cell::Text(text) | Cell::Node { name: text, .. } => {
            out.write_all(printable_json(&serde_json::to_string(text)?).as_bytes())
        }
        Cell::Count(number) => write!(out, "{number}"),
        Cell::Gain(number) => write!(out, "{number}"),
        Cell::Flag(flag) => write!(out, "{flag}"),
        Cell::Number(number) => Ok(serde_json::to_writer(out, &json_number(*number))?),
    }
}

/// Prints a document as indented JSON if the user requested JSON, otherwise prints `text`.
pub(crate) fn print_json_or_text(
    screen: &Screen,
    document: Option<&impl Serialize>,
    text: &[u8],
) -> io::Result<()> {
    let mut out = if document.is_some() { PagedOutput::plain() } else { PagedOutput::with_pager(screen) };
    if let Some(document) = document {
        write_indented_json(document, &mut out)?
    } else {
        out.write_all(text)?
    }
    out.finish()
}

/// Prints a document as one line of JSON.
pub(crate) fn print_json_line(document: &impl Serialize) -> io::Result<()> {
    writeln!(stdout(), "{}", printable_json(&serde_json::to_string(document)?))
}

/// Writes a document as indented JSON.
pub(crate) fn write_indented_json(document: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    let text = serde_json::to_string_pretty(document)?;
    writeln!(out, "{}", printable_json(&text))
}

/// Returns a number as a JSON value. Infinity becomes the text "inf", because JSON has no infinity.
pub(crate) fn json_number(number: f64) -> Value {
    if number.is_infinite() {
        return Value::from(if number > 0.0 { "inf" } else { "-inf" });
    }
    Value::from(number)
}

impl SeparatorFormat {
    fn print(&self, report: Report<'_>, mut progress: Progress, out: &mut dyn Write) -> io::Result<()> {
        let Rows { columns, rows, .. } = report.rows;
        // A drawing is left out.
        let is_written = |column: &Column<'_>| !matches!(column.style, Style::Bar(_));
        if self.header {
            let titles = columns.iter().filter(|column| is_written(column)).map(|column| column.key);
            let titles: Vec<&str> = titles.collect();
            writeln!(out, "{}", titles.join(self.separator))?;
        }
        for row in progress.over("printing", rows) {
            let cells = row.iter().zip(&columns).filter(|(_, column)| is_written(column));
            for (index, (cell, _)) in cells.enumerate() {
                if index > 0 {
                    out.write_all(self.separator.as_bytes())?;
                }
                match cell {
                    Cell::None | Cell::Bar { .. } => {}
                    Cell::Text(text) | Cell::Node { name: text, .. } => self.write_text(text, out)?,
                    Cell::Count(number) => write!(out, "{number}")?,
                    Cell::Gain(number) => write!(out, "{number}")?,
                    Cell::Flag(flag) => write!(out, "{flag}")?,
                    Cell::Number(number) => write!(out, "{number}")?,
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }

    /// Writes a text, in quotes if it contains a quote, a separator or a control character. On a terminal, escapes control characters.
    fn write_text(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        let text = if self.terminal { printable(text) } else { text.into() };
        let quoted = text.contains(|letter: char| letter == '"' || letter.is_control())
            || text.contains(self.separator);
        if quoted { write!(out, "\"{}\"", text.replace('"', "\"\"")) } else { out.write_all(text.as_bytes()) }
    }
}
