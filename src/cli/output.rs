// SPDX-License-Identifier: LGPL-3.0-only
//! One report, four ways to print it: table, JSON, CSV, parsable.

use std::io::{self, BufWriter, IsTerminal, Write, stdout};

use serde_json::Value;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Nothing to say: JSON null, else empty.
    None,
    Text(String),
    Count(u64),
    Number(f64),
    Flag(bool),
}

impl From<Option<f64>> for Cell {
    fn from(number: Option<f64>) -> Self {
        number.map_or(Cell::None, Cell::Number)
    }
}

/// How a table prints a column. The other forms print every number in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Text,
    Count,
    /// Six decimals, as sshare.
    Fraction,
    /// Node-seconds: no decimals unless small.
    Usage,
    /// With its sign.
    Change,
    /// Text with terminal codes: its width is given beside it.
    Bar(usize),
}

/// A column: its name in JSON, CSV and `-o`, its title in tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    pub(super) key: &'static str,
    pub(super) title: &'static str,
    pub(super) style: Style,
}

/// What a command found out: some facts, and rows.
pub(super) struct Report<'a> {
    /// Keys of the JSON document besides the rows; other forms leave them to [`Report::notes`].
    pub(super) facts: Vec<(&'static str, Value)>,
    /// The key of the rows in the JSON document.
    pub(super) rows_key: &'static str,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Box<dyn Iterator<Item = Vec<Cell>> + 'a>,
    /// What a person reads below the table.
    pub(super) notes: Vec<String>,
}

/// A way to print a report.
pub(super) trait Output {
    fn print(&self, report: Report<'_>, out: &mut dyn Write) -> io::Result<()>;
}

/// Which way.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct OutputArgs {
    /// Print a JSON document: full precision, null for what is absent, "inf" for infinity
    #[arg(long, group = "output")]
    pub(super) json: bool,
    /// Print comma-separated values (RFC 4180)
    #[arg(long, group = "output")]
    csv: bool,
    /// Print values separated by |
    #[arg(short = 'P', long, group = "output")]
    parsable: bool,
}

impl OutputArgs {
    fn output(self) -> &'static dyn Output {
        match self {
            OutputArgs { json: true, .. } => &Json,
            OutputArgs { csv: true, .. } => &Separated { separator: ",", quote: true },
            OutputArgs { parsable: true, .. } => &Separated { separator: "|", quote: false },
            _ => &Table,
        }
    }

    /// True for the form that people read.
    pub(super) fn is_table(self) -> bool {
        !(self.json || self.csv || self.parsable)
    }

    /// Prints to standard output.
    pub(super) fn print(self, report: Report<'_>) -> io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 16, stdout().lock());
        self.output().print(report, &mut out)?;
        out.flush()
    }
}

/// True if a person with colours looks at standard output.
pub(super) fn colour() -> bool {
    stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

struct Table;
struct Json;
struct Separated {
    separator: &'static str,
    quote: bool,
}

impl Output for Table {
    fn print(&self, report: Report<'_>, out: &mut dyn Write) -> io::Result<()> {
        let styles: Vec<Style> = report.columns.iter().map(|column| column.style).collect();
        let mut widths: Vec<usize> =
            report.columns.iter().map(|column| column.title.chars().count()).collect();
        let mut lines: Vec<Vec<String>> = Vec::new();
        for row in report.rows {
            let line: Vec<String> =
                row.iter().zip(&styles).map(|(cell, style)| human(cell, *style)).collect();
            for ((width, text), style) in widths.iter_mut().zip(&line).zip(&styles) {
                *width = (*width).max(visible(text, *style));
            }
            lines.push(line);
        }
        let titles: Vec<String> = report.columns.iter().map(|column| column.title.to_owned()).collect();
        let print = |line: &[String], heading: bool, out: &mut dyn Write| -> io::Result<()> {
            let mut text = String::new();
            for ((cell, width), style) in line.iter().zip(&widths).zip(&styles) {
                if !text.is_empty() {
                    text.push_str("  ");
                }
                let used = if heading { cell.chars().count() } else { visible(cell, *style) };
                let pad = " ".repeat(width.saturating_sub(used));
                match style {
                    Style::Text | Style::Bar(_) => text.extend([cell.as_str(), &pad]),
                    _ => text.extend([&pad, cell.as_str()]),
                }
            }
            writeln!(out, "{}", text.trim_end())
        };
        if !lines.is_empty() {
            print(&titles, true, out)?;
        }
        for line in &lines {
            print(line, false, out)?;
        }
        for note in &report.notes {
            writeln!(out, "{note}")?;
        }
        Ok(())
    }
}

fn visible(text: &str, style: Style) -> usize {
    match style {
        Style::Bar(width) if !text.is_empty() => width,
        _ => text.chars().count(),
    }
}

/// A value as a table shows it.
fn human(cell: &Cell, style: Style) -> String {
    match (cell, style) {
        (Cell::None, _) => String::new(),
        (Cell::Text(text), _) => text.clone(),
        (Cell::Count(number), _) => number.to_string(),
        (Cell::Flag(flag), _) => if *flag { "yes" } else { "no" }.to_owned(),
        (Cell::Number(number), Style::Usage) if number.fract() == 0.0 || *number >= 1000.0 => {
            format!("{number:.0}")
        }
        (Cell::Number(number), Style::Usage) => format!("{number:.2}"),
        (Cell::Number(number), Style::Change) => format!("{number:+.6}"),
        (Cell::Number(number), _) if number.is_finite() && *number >= 1e9 => format!("{number:.3e}"),
        (Cell::Number(number), _) => format!("{number:.6}"),
    }
}

impl Output for Json {
    fn print(&self, report: Report<'_>, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (key, value) in &report.facts {
            write!(out, "\"{key}\": ")?;
            serde_json::to_writer(&mut *out, value)?;
            out.write_all(b", ")?;
        }
        write!(out, "\"{}\": [", report.rows_key)?;
        let mut separator = "\n";
        for row in report.rows {
            out.write_all(separator.as_bytes())?;
            separator = ",\n";
            out.write_all(b"{")?;
            for (index, (cell, column)) in row.iter().zip(&report.columns).enumerate() {
                let comma = if index == 0 { "" } else { ", " };
                write!(out, "{comma}\"{}\": ", column.key)?;
                json_cell(cell, out)?;
            }
            out.write_all(b"}")?;
        }
        out.write_all(b"\n]}\n")
    }
}

fn json_cell(cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    match cell {
        Cell::None => out.write_all(b"null"),
        Cell::Text(text) => Ok(serde_json::to_writer(out, text)?),
        Cell::Count(number) => write!(out, "{number}"),
        Cell::Flag(flag) => write!(out, "{flag}"),
        Cell::Number(number) => Ok(serde_json::to_writer(out, &json_number(*number))?),
    }
}

/// A number as our documents write it: JSON has no infinity.
pub(super) fn json_number(number: f64) -> Value {
    if number.is_infinite() {
        return Value::from(if number > 0.0 { "inf" } else { "-inf" });
    }
    Value::from(number)
}

impl Output for Separated {
    fn print(&self, report: Report<'_>, out: &mut dyn Write) -> io::Result<()> {
        let titles: Vec<&str> = report.columns.iter().map(|column| column.key).collect();
        writeln!(out, "{}", titles.join(self.separator))?;
        for row in report.rows {
            for (index, cell) in row.iter().enumerate() {
                if index > 0 {
                    out.write_all(self.separator.as_bytes())?;
                }
                match cell {
                    Cell::None => {}
                    Cell::Text(text) if self.quote && text.contains([',', '"', '\n', '\r']) => {
                        write!(out, "\"{}\"", text.replace('"', "\"\""))?;
                    }
                    Cell::Text(text) => out.write_all(text.as_bytes())?,
                    Cell::Count(number) => write!(out, "{number}")?,
                    Cell::Flag(flag) => write!(out, "{flag}")?,
                    Cell::Number(number) => write!(out, "{number}")?,
                }
            }
            out.write_all(b"\n")?;
        }
        Ok(())
    }
}
