// SPDX-License-Identifier: LGPL-3.0-only
//! Output of the demo: aligned tables, coloured on terminals.

use std::io::{self, Write};

/// The role of a text in the output, which determines its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Heading,
    Good,
    Waiting,
    Bad,
    Faint,
}

impl Tone {
    fn code(self) -> &'static str {
        match self {
            Tone::Plain => "",
            Tone::Heading => "\x1b[1m",
            Tone::Good => "\x1b[32m",
            Tone::Waiting => "\x1b[33m",
            Tone::Bad => "\x1b[31m",
            Tone::Faint => "\x1b[2m",
        }
    }
}

/// The text of a table cell, and its tone.
pub(super) type Cell = (String, Tone);

/// The width of the output, in characters.
const WIDTH: usize = 80;

/// A row of a table, and the note below the row.
#[derive(Debug, Default)]
pub(super) struct Row {
    pub(super) cells: Vec<Cell>,
    /// An empty text is not printed.
    pub(super) note: String,
}

/// Creates a cell without colour.
pub(super) fn plain_cell(text: impl Into<String>) -> Cell {
    (text.into(), Tone::Plain)
}

/// The output stream of the demo.
pub(super) struct Printer<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) colour: bool,
}

impl Printer<'_> {
    fn print_text(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        if !self.colour || tone == Tone::Plain {
            return write!(self.out, "{text}");
        }
        write!(self.out, "{}{text}\x1b[0m", tone.code())
    }

    pub(super) fn print_line(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        self.print_text(text, tone)?;
        writeln!(self.out)
    }

    /// Prints a heading below an empty line.
    pub(super) fn print_heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.print_line(text, Tone::Heading)
    }

    /// Prints a table. A title that starts with `>` aligns its column to the right.
    pub(super) fn print_table(&mut self, titles: &[&str], rows: &[Row]) -> io::Result<()> {
        let cells =
            titles.iter().map(|title| (title.trim_start_matches('>').to_owned(), Tone::Faint)).collect();
        let head = Row { cells, ..Row::default() };
        let all = || std::iter::once(&head).chain(rows);
        let widths: Vec<usize> = (0..titles.len())
            .map(|column| {
                let cells = all().filter_map(|row| row.cells.get(column));
                cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in all() {
            let last = row.cells.len().saturating_sub(1);
            for (column, (text, tone)) in row.cells.iter().enumerate() {
                let width = widths.get(column).copied().unwrap_or(0);
                let blank = " ".repeat(width.saturating_sub(text.chars().count()));
                let right = titles.get(column).is_some_and(|title| title.starts_with('>'));
                write!(self.out, " {}", if right { blank.as_str() } else { "" })?;
                self.print_text(text, *tone)?;
                if !right && column < last {
                    write!(self.out, "{blank}")?;
                }
            }
            writeln!(self.out)?;
            self.print_note(&row.note)?;
        }
        Ok(())
    }

    /// Prints a text below a row, indented and wrapped.
    fn print_note(&mut self, text: &str) -> io::Result<()> {
        const INDENT: &str = "     ";
        let mut line = String::new();
        for word in text.split_whitespace() {
            if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH {
                writeln!(self.out, "{line}")?;
                line.clear();
            }
            line += if line.is_empty() { INDENT } else { " " };
            line += word;
        }
        if line.is_empty() { Ok(()) } else { writeln!(self.out, "{line}") }
    }
}
