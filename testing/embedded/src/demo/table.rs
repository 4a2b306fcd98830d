// SPDX-License-Identifier: LGPL-3.0-only
//! Output of the demo: aligned tables, coloured on terminals.

use std::io::{self, Write};

/// The role of a text, which decides its colour.
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

/// Creates a cell without colour.
pub(super) fn plain(text: impl Into<String>) -> Cell {
    (text.into(), Tone::Plain)
}

/// The output stream of the demo.
pub(super) struct Paper<'a> {
    pub(super) out: &'a mut dyn Write,
    pub(super) colour: bool,
}

impl Paper<'_> {
    fn text(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        if !self.colour || tone == Tone::Plain {
            return write!(self.out, "{text}");
        }
        write!(self.out, "{}{text}\x1b[0m", tone.code())
    }

    pub(super) fn line(&mut self, text: &str, tone: Tone) -> io::Result<()> {
        self.text(text, tone)?;
        writeln!(self.out)
    }

    /// Prints a heading below an empty line.
    pub(super) fn heading(&mut self, text: &str) -> io::Result<()> {
        writeln!(self.out)?;
        self.line(text, Tone::Heading)
    }

    /// Prints a table. A title that starts with `>` aligns its column to the right.
    pub(super) fn table(&mut self, titles: &[&str], rows: &[Vec<Cell>]) -> io::Result<()> {
        let heads: Vec<Cell> =
            titles.iter().map(|title| (title.trim_start_matches('>').to_owned(), Tone::Faint)).collect();
        let widths: Vec<usize> = (0..titles.len())
            .map(|column| {
                let cells = std::iter::once(&heads).chain(rows).filter_map(|row| row.get(column));
                cells.map(|(text, _)| text.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in std::iter::once(&heads).chain(rows) {
            let last = row.iter().rposition(|(text, _)| !text.is_empty()).unwrap_or(0);
            for (column, (text, tone)) in row.iter().enumerate().take(last + 1) {
                let width = widths.get(column).copied().unwrap_or(0);
                let blank = " ".repeat(width.saturating_sub(text.chars().count()));
                let right = titles.get(column).is_some_and(|title| title.starts_with('>'));
                write!(self.out, "  {}", if right { blank.as_str() } else { "" })?;
                self.text(text, *tone)?;
                if !right && column < last {
                    write!(self.out, "{blank}")?;
                }
            }
            writeln!(self.out)?;
        }
        Ok(())
    }
}
