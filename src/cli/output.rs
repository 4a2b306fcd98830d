// SPDX-License-Identifier: LGPL-3.0-only
//! One report, four ways to print it: table, JSON, CSV, parsable.

use std::io::{self, BufWriter, IsTerminal, Write, stdout};

use serde_json::Value;

use super::printable::{printable, width};
use super::progress::Progress;

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    /// Nothing to say: JSON null, else empty.
    None,
    Text(String),
    /// A name, which tables indent by its depth.
    Indented(usize, String),
    Count(u64),
    Number(f64),
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
pub(super) enum Style {
    Text,
    Count,
    /// Six decimals, as sshare.
    Fraction,
    /// Node-seconds: no decimals unless small.
    Usage,
    /// With its sign.
    Change,
    /// So many cells wide, where there is one.
    Bar(usize),
}

/// A column: its name in JSON, CSV and `-o`, its title in tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column<'a> {
    pub(super) key: &'static str,
    pub(super) title: &'a str,
    pub(super) style: Style,
}

/// What a command found out: some facts, and rows.
pub(super) struct Report<'a> {
    /// Keys of the JSON document besides the rows; other forms leave them to [`Report::notes`].
    pub(super) facts: Vec<(&'static str, Value)>,
    /// The key of the rows in the JSON document.
    pub(super) rows_key: &'static str,
    pub(super) columns: Vec<Column<'a>>,
    pub(super) rows: Box<dyn Iterator<Item = Vec<Cell>> + 'a>,
    /// What a person reads below the table.
    pub(super) notes: Vec<String>,
}

/// A way to print a report.
trait Output {
    fn print(&self, report: Report<'_>, progress: Progress, out: &mut dyn Write) -> io::Result<()>;
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

/// What differs from one printing of a report to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    /// A line of titles above tables, CSV and parsable output.
    pub(super) header: bool,
    /// Columns that a table leaves out, one after the other, while it is too wide for the terminal.
    pub(super) give_up: &'a [&'a str],
}

impl OutputArgs {
    /// True for the form that people read.
    pub(super) fn is_table(self) -> bool {
        !(self.json || self.csv || self.parsable)
    }

    /// Prints to standard output.
    pub(super) fn print(self, report: Report<'_>) -> io::Result<()> {
        self.print_as(report, Look { header: true, give_up: &[] }, Progress::none())
    }

    /// As [`OutputArgs::print`], in another way than usual, and with the progress of the command up to here.
    pub(super) fn print_as(self, report: Report<'_>, look: Look<'_>, progress: Progress) -> io::Result<()> {
        // Rows on the same screen are progress enough; a table needs them all before it prints the first.
        let progress = if stdout().is_terminal() && !self.is_table() { Progress::none() } else { progress };
        let mut out = BufWriter::with_capacity(1 << 16, stdout().lock());
        let header = look.header;
        let output: &dyn Output = match self {
            OutputArgs { json: true, .. } => &Json,
            OutputArgs { csv: true, .. } => &Separated { separator: ",", quote: true, header },
            OutputArgs { parsable: true, .. } => &Separated { separator: "|", quote: false, header },
            _ => &Table { look, colour: colour(), room: room() },
        };
        output.print(report, progress, &mut out)?;
        out.flush()
    }
}

/// True if a person with colours looks at standard output.
pub(super) fn colour() -> bool {
    let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    stdout().is_terminal() && !unwanted && !dumb
}

/// How wide the terminal is, if standard output is one.
fn room() -> Option<usize> {
    rustix::termios::tcgetwinsize(stdout()).ok().map(|size| usize::from(size.ws_col)).filter(|c| *c > 0)
}

struct Table<'a> {
    look: Look<'a>,
    colour: bool,
    room: Option<usize>,
}
struct Json;
struct Separated {
    separator: &'static str,
    quote: bool,
    header: bool,
}

/// Deeper than this a name is not moved further right, but told its depth.
const DEEPEST_INDENT: usize = 24;
/// Blanks between two columns.
const GAP: usize = 2;

impl Output for Table<'_> {
    fn print(&self, report: Report<'_>, mut progress: Progress, out: &mut dyn Write) -> io::Result<()> {
        let styles: Vec<Style> = report.columns.iter().map(|column| column.style).collect();
        let title =
            |column: &Column<'_>| if self.look.header { column.title.to_owned() } else { String::new() };
        let titles: Vec<String> = report.columns.iter().map(title).collect();
        let mut widths: Vec<usize> = titles.iter().map(|title| width(title)).collect();
        let mut lines: Vec<Vec<String>> = Vec::new();
        for row in progress.over("formatting", report.rows) {
            let line: Vec<String> =
                row.into_iter().zip(&styles).map(|(cell, style)| self.human(cell, *style)).collect();
            for ((width, text), style) in widths.iter_mut().zip(&line).zip(&styles) {
                *width = (*width).max(visible(text, *style));
            }
            lines.push(line);
        }
        let shown = self.shown(&report.columns, &widths);
        if stdout().is_terminal() {
            progress = Progress::none();
        }
        let print = |line: &[String], heading: bool, out: &mut dyn Write| -> io::Result<()> {
            let mut text = String::new();
            let columns = line.iter().zip(&widths).zip(&styles).zip(&shown);
            for (((cell, width), style), _) in columns.filter(|(_, shown)| **shown) {
                if !text.is_empty() {
                    text.push_str(&" ".repeat(GAP));
                }
                let style = if heading && matches!(style, Style::Bar(_)) { Style::Text } else { *style };
                let pad = " ".repeat(width.saturating_sub(visible(cell, style)));
                match style {
                    Style::Text | Style::Bar(_) => text.extend([cell.as_str(), &pad]),
                    _ => text.extend([&pad, cell.as_str()]),
                }
            }
            writeln!(out, "{}", text.trim_end())
        };
        if !lines.is_empty() && self.look.header {
            print(&titles, true, out)?;
        }
        for line in progress.over("printing", lines.iter()) {
            print(line, false, out)?;
        }
        for note in &report.notes {
            writeln!(out, "{note}")?;
        }
        Ok(())
    }
}

impl Table<'_> {
    /// Which columns fit.
    fn shown(&self, columns: &[Column<'_>], widths: &[usize]) -> Vec<bool> {
        let mut shown = vec![true; columns.len()];
        let Some(room) = self.room else { return shown };
        let mut whole = widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
        for key in self.look.give_up {
            if whole <= room {
                break;
            }
            for ((column, width), shown) in columns.iter().zip(widths).zip(&mut shown) {
                if column.key == *key {
                    *shown = false;
                    whole = whole.saturating_sub(width + GAP);
                }
            }
        }
        shown
    }

    /// A value as a table shows it.
    fn human(&self, cell: Cell, style: Style) -> String {
        match (cell, style) {
            (Cell::None, _) => String::new(),
            (Cell::Text(text), _) => printable(&text).into_owned(),
            (Cell::Indented(depth, name), _) => {
                let indent = " ".repeat(depth.min(DEEPEST_INDENT));
                let told = if depth > DEEPEST_INDENT { format!("({depth}) ") } else { String::new() };
                format!("{indent}{told}{}", printable(&name))
            }
            (Cell::Bar { usage, share }, Style::Bar(width)) => bar(usage, share, width, self.colour),
            (Cell::Bar { .. }, _) => String::new(),
            (Cell::Count(number), _) => number.to_string(),
            (Cell::Flag(flag), _) => if flag { "yes" } else { "no" }.to_owned(),
            (Cell::Number(number), Style::Usage) => usage(number),
            (Cell::Number(number), Style::Change) => format!("{number:+.6}"),
            (Cell::Number(number), _) if number.is_finite() && number >= 1e9 => format!("{number:.3e}"),
            (Cell::Number(number), _) => format!("{number:.6}"),
        }
    }
}

fn visible(text: &str, style: Style) -> usize {
    match style {
        Style::Bar(width) if !text.is_empty() => width,
        _ => width(text),
    }
}

/// Two decimals; small ones keep three digits that say something.
fn usage(number: f64) -> String {
    if number.fract() == 0.0 || number >= 1000.0 {
        format!("{number:.0}")
    } else if number >= 0.1 {
        format!("{number:.2}")
    } else if number >= 1e-6 {
        let decimals = 2 - number.log10().floor() as i32;
        let text = format!("{number:.*}", usize::try_from(decimals).unwrap_or(2));
        text.trim_end_matches('0').to_owned()
    } else {
        format!("{number:.2e}")
    }
}

/// Usage up to the share and beyond it, a stroke at the share. Colours say which part is which, or letters do.
fn bar(usage: usize, share: usize, width: usize, colour: bool) -> String {
    let mut text = String::new();
    for at in 0..width {
        let is_stroke = at + 1 == share;
        let (code, block, letter) = match (at < usage, at < share) {
            (true, true) => ("32", '█', '='),
            (true, false) => ("31", '█', '+'),
            (false, true) => ("2", '·', '.'),
            (false, false) => ("2", ' ', ' '),
        };
        if colour {
            text.push_str(&format!("\x1b[{code}m{}\x1b[0m", if is_stroke { '│' } else { block }));
        } else {
            text.push(if is_stroke { '|' } else { letter });
        }
    }
    text
}

impl Output for Json {
    fn print(&self, report: Report<'_>, mut progress: Progress, out: &mut dyn Write) -> io::Result<()> {
        out.write_all(b"{")?;
        for (key, value) in &report.facts {
            write!(out, "\"{key}\": ")?;
            serde_json::to_writer(&mut *out, value)?;
            out.write_all(b", ")?;
        }
        write!(out, "\"{}\": [", report.rows_key)?;
        let mut separator = "\n";
        for row in progress.over("printing", report.rows) {
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
        Cell::None | Cell::Bar { .. } => out.write_all(b"null"),
        Cell::Text(text) | Cell::Indented(_, text) => Ok(serde_json::to_writer(out, text)?),
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
    fn print(&self, report: Report<'_>, mut progress: Progress, out: &mut dyn Write) -> io::Result<()> {
        let titles: Vec<&str> = report.columns.iter().map(|column| column.key).collect();
        if self.header {
            writeln!(out, "{}", titles.join(self.separator))?;
        }
        for row in progress.over("printing", report.rows) {
            for (index, cell) in row.iter().enumerate() {
                if index > 0 {
                    out.write_all(self.separator.as_bytes())?;
                }
                match cell {
                    Cell::None | Cell::Bar { .. } => {}
                    Cell::Text(text) | Cell::Indented(_, text) if self.quote && needs_quotes(text) => {
                        write!(out, "\"{}\"", text.replace('"', "\"\""))?;
                    }
                    Cell::Text(text) | Cell::Indented(_, text) => out.write_all(text.as_bytes())?,
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

fn needs_quotes(text: &str) -> bool {
    text.contains(|letter: char| matches!(letter, ',' | '"') || letter.is_control())
}
