// SPDX-License-Identifier: LGPL-3.0-only
//! Prints a table with aligned columns that fits the terminal, and the tree of banks and users in its first column.

use std::cell::Cell as Flag;
use std::fmt::Write as _;
use std::io::{self, Write};

use anstyle::Style as Paint;
use jiff::tz::TimeZone;

use super::figures::{format_moment, hours, number, percent, ratio, span, term};
use super::printable::{cut, printable, width};
use super::progress::Progress;
use super::screen::{BAD, BOLD, FAINT, GOOD, Screen};
use crate::ui::rows::{Cell, Column, Look, Rows, Style};
use fairshare_protocol::records::UNLIMITED;

/// Prints tables on a screen.
pub(crate) struct Table<'a> {
    pub(crate) screen: &'a Screen,
    look: Look<'a>,
    /// Number of spaces at the beginning of each line.
    margin: usize,
    /// Whether a printed table has times of day.
    pub(crate) has_times: Flag<bool>,
}

/// Names at deeper levels are not indented further. A number before the name shows the depth.
const DEEPEST_INDENT: usize = 24;
/// Spaces between two columns.
const GAP: usize = 2;
/// The longest name, in cells, if the width of the line is not limited.
const LONGEST_NAME: usize = 40;
/// The shortest width, in cells, that a name is cut to.
const SHORTEST_NAME: usize = 8;

/// Formatted cells, row after row. They share one text, because a large site has millions of them.
#[derive(Default)]
struct Lines {
    text: String,
    cells: Vec<FormattedCell>,
    places: Vec<TreePosition>,
}

/// A formatted cell: the end of its text, with colour codes, and its width in terminal cells.
#[derive(Clone, Copy)]
struct FormattedCell {
    end: usize,
    width: u32,
    /// True if the text is the name of a node. The branches of the tree before the name are drawn when the row is printed.
    in_tree: bool,
}

/// The position of a row in the tree: its depth, and a bit for each level. The bit is set if more siblings of this level follow.
#[derive(Clone, Copy, Default)]
struct TreePosition {
    depth: usize,
    open: u32,
}

impl<'a> Table<'a> {
    pub(crate) fn new(screen: &'a Screen, look: Look<'a>) -> Table<'a> {
        Table { screen, look, margin: 0, has_times: Flag::new(false) }
    }

    /// Sets the indentation of the table to `margin` cells.
    pub(crate) fn indented(mut self, margin: usize) -> Table<'a> {
        self.margin = margin;
        self
    }

    /// Prints the rows, after an empty line if `apart` is set, and notes about bars and omitted columns. Returns false if there were no rows.
    pub(crate) fn print(
        &self,
        rows: Rows<'_>,
        apart: bool,
        progress: &mut Progress,
        out: &mut dyn Write,
    ) -> io::Result<bool> {
        let Some(printed) = self.print_rows(rows, apart, progress, out)? else { return Ok(false) };
        // The legend explains the share in a bar. A bar without a title shows no share.
        let drawn = |(column, shown): (&Column<'_>, &bool)| {
            *shown && matches!(column.style, Style::Bar(_)) && !column.title.is_empty()
        };
        if self.look.header && printed.columns.iter().zip(&printed.shown).any(drawn) {
            self.print_legend(out)?;
        }
        self.print_omitted_columns(&printed, out)?;
        Ok(true)
    }

    /// Prints the rows like [`Table::print`], but without notes. Returns `None` if there were no rows.
    pub(crate) fn print_rows<'c>(
        &self,
        rows: Rows<'c>,
        apart: bool,
        progress: &mut Progress,
        out: &mut dyn Write,
    ) -> io::Result<Option<PrintedColumns<'c>>> {
        let columns = rows.columns;
        let title = |column: &Column<'_>| if self.look.header { width(column.title) } else { 0 };
        let mut widths: Vec<usize> = columns.iter().map(title).collect();
        let mut lines = Lines::default();
        for row in progress.over("formatting", rows.rows) {
            let mut place = TreePosition::default();
            for ((cell, column), room) in row.into_iter().zip(&columns).zip(&mut widths) {
                if let Cell::Node { depth, .. } = cell {
                    place.depth = depth;
                }
                let (width, in_tree) = self.format_cell(cell, column.style, &mut lines.text);
                *room = (*room).max(width);
                lines.cells.push(FormattedCell { end: lines.text.len(), width: width as u32, in_tree });
            }
            lines.places.push(place);
            // A row may have fewer cells than there are columns.
            let empty = FormattedCell { end: lines.text.len(), width: 0, in_tree: false };
            lines.cells.resize(lines.places.len() * columns.len(), empty);
        }
        if lines.places.is_empty() {
            return Ok(None);
        }
        if apart {
            writeln!(out)?;
        }
        let natural = widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP) + self.margin;
        let deepest = lines.places.iter().map(|place| place.depth.min(DEEPEST_INDENT)).max().unwrap_or(0);
        let shown = self.fit_columns(&columns, &mut widths, SHORTEST_NAME + self.indent_step() * deepest);
        mark_levels_that_continue_below(&mut lines.places);
        // Rows that are printed on a terminal show the progress, so the bar ends here.
        if self.screen.terminal {
            *progress = Progress::none();
        }
        let printed = PrintedColumns { columns, widths, shown, natural };
        let mut buffer = String::new();
        if self.look.header {
            let mut titles = Lines::default();
            for column in &printed.columns {
                titles.text.push_str(&self.screen.paint(BOLD, column.title));
                let width = width(column.title) as u32;
                titles.cells.push(FormattedCell { end: titles.text.len(), width, in_tree: false });
            }
            self.format_line(&titles.text, 0, &titles.cells, TreePosition::default(), &printed, &mut buffer);
            out.write_all(buffer.as_bytes())?;
        }
        let mut from = 0;
        let rows = lines.cells.chunks(printed.columns.len().max(1)).zip(&lines.places);
        for (cells, place) in progress.over("printing", rows) {
            self.format_line(&lines.text, from, cells, *place, &printed, &mut buffer);
            out.write_all(buffer.as_bytes())?;
            from = cells.last().map_or(from, |cell| cell.end);
        }
        Ok(Some(printed))
    }

    /// Prints which columns are left out because the table is too wide, and the width that shows all columns.
    fn print_omitted_columns(&self, printed: &PrintedColumns<'_>, out: &mut dyn Write) -> io::Result<()> {
        let titles = printed.list_omitted_columns();
        if titles.is_empty() {
            return Ok(());
        }
        let mut text = format!("Left out for lack of width: {}", titles.join(", "));
        let mut omitted = printed.columns.iter().zip(&printed.shown).filter(|(_, shown)| !**shown);
        if !self.look.parts.is_empty() && omitted.any(|(column, _)| column.style == Style::Term) {
            text.push_str("; ");
            text.push_str(self.look.parts);
        }
        text.push_str(&format!(". COLUMNS={} shows all.", printed.natural));
        let margin = " ".repeat(self.margin);
        self.screen.wrapped(&text, &margin, &margin, out)
    }

    /// Formats one row into `line`. The texts of its cells begin at `from` in `text`.
    fn format_line(
        &self,
        text: &str,
        mut from: usize,
        cells: &[FormattedCell],
        place: TreePosition,
        PrintedColumns { columns, widths, shown, .. }: &PrintedColumns<'_>,
        line: &mut String,
    ) {
        line.clear();
        // Writes the indentation and gaps only before a text, so that no line ends with spaces.
        let mut blanks = self.margin;
        let mut gap = 0;
        for (((cell, column), room), shown) in cells.iter().zip(columns).zip(widths).zip(shown) {
            let own = text.get(from..cell.end).unwrap_or_default();
            from = cell.end;
            if !shown {
                continue;
            }
            blanks += gap;
            gap = GAP;
            let pad = room.saturating_sub(cell.width as usize);
            let left = matches!(column.style, Style::Text | Style::Flag | Style::Time | Style::Bar(_));
            if !left {
                blanks += pad;
            }
            if !own.is_empty() {
                line.extend(std::iter::repeat_n(' ', blanks));
                blanks = 0;
                let in_tree = cell.in_tree.then(|| self.indentation(place) + own);
                let own = in_tree.as_deref().unwrap_or(own);
                if cell.width as usize > *room {
                    line.push_str(&cut(own, *room, self.screen.ellipsis()));
                } else {
                    line.push_str(own);
                }
            }
            if left {
                blanks += pad;
            }
        }
        line.truncate(line.trim_end().len());
        line.push('\n');
    }

    /// Returns which columns fit, and reduces `widths`. The first step cuts names to two fifths of the line, the second leaves out
    /// columns, the third cuts names to `shortest`, and the last leaves out times.
    fn fit_columns(&self, columns: &[Column<'_>], widths: &mut [usize], shortest: usize) -> Vec<bool> {
        let mut shown = vec![true; columns.len()];
        let Some(room) = self.screen.width else { return shown };
        let room = room.saturating_sub(self.margin);
        let mut total_width = widths.iter().map(|width| width + GAP).sum::<usize>().saturating_sub(GAP);
        shrink_name_columns(columns, &shown, widths, &mut total_width, room, shortest.max(room * 2 / 5));
        let find = |key: &&str| columns.iter().position(|column| column.key == *key);
        let with_style = |is_it: fn(Style) -> bool| {
            let is_meant = move |index: &usize| columns.get(*index).is_some_and(|column| is_it(column.style));
            (0..columns.len()).rev().filter(is_meant)
        };
        let is_bar = |style| matches!(style, Style::Bar(_));
        leave_out(self.look.give_up.iter().filter_map(find), &mut shown, widths, &mut total_width, room);
        leave_out(with_style(is_bar), &mut shown, widths, &mut total_width, room);
        shrink_name_columns(columns, &shown, widths, &mut total_width, room, shortest);
        // A time that is cut would be misleading, so the whole column is left out.
        leave_out(with_style(|style| style == Style::Time), &mut shown, widths, &mut total_width, room);
        shown
    }

    /// Returns the indentation per level of the tree, in cells.
    fn indent_step(&self) -> usize {
        if self.screen.has_tree_lines() { 2 } else { 1 }
    }

    /// Returns the text before a name: the branches of the tree, or spaces.
    fn indentation(&self, place: TreePosition) -> String {
        let levels = place.depth.min(DEEPEST_INDENT);
        if !self.screen.has_tree_lines() {
            return " ".repeat(levels);
        }
        let mut branch = String::new();
        for level in 1..=levels {
            let goes_on = place.open & (1 << level) != 0;
            branch.push_str(match (level == levels, goes_on) {
                (true, true) => "├ ",
                (true, false) => "└ ",
                (false, true) => "│ ",
                (false, false) => "  ",
            });
        }
        self.screen.paint(FAINT, &branch)
    }

    /// Writes a value in the style of its column. Returns the width of the value, and true if the value is the name
    /// of a node in the tree.
    fn format_cell(&self, cell: Cell, style: Style, out: &mut String) -> (usize, bool) {
        let mut paint = Paint::new();
        let text = match (cell, style) {
            (Cell::None, _) => return (0, false),
            (Cell::Count(limit), Style::Limit) if limit >= UNLIMITED.cast_unsigned() => return (0, false),
            (Cell::Text(text), _) => self.format_name(&text),
            (Cell::Node { depth, bank, name }, _) => {
                let paint = if bank { BOLD } else { paint };
                return (self.format_node(depth, &name, paint, out), true);
            }
            (Cell::Bar { usage, share }, Style::Bar(width)) => {
                out.push_str(&self.draw_bar(usage, share, width));
                return (width, false);
            }
            (Cell::Bar { .. }, _) => String::new(),
            (Cell::Count(id), Style::Id) => id.to_string(),
            (Cell::Count(count), _) => number(count),
            (Cell::Gain(milliseconds), Style::Hours) => hours(milliseconds),
            (Cell::Gain(gain), _) => {
                paint = choose_paint_for_sign(gain.signum() as f64);
                format!("{}{}", if gain > 0 { "+" } else { "" }, number(gain))
            }
            (Cell::Flag(flag), _) => if flag { "yes" } else { "no" }.to_owned(),
            (Cell::Number(number), Style::Usage(unit)) => unit.column(number),
            (Cell::Number(number), Style::Mean) => format!("{number:.1}"),
            (Cell::Number(large), Style::Decimals(_)) if large >= 1000.0 => number(format!("{large:.0}")),
            (Cell::Number(number), Style::Decimals(decimals)) => format!("{number:.decimals$}"),
            (Cell::Number(seconds), Style::Span) => span(seconds),
            (Cell::Number(number), Style::Percent) => percent(number),
            (Cell::Number(number), Style::Term) => term(number),
            (Cell::Number(seconds), Style::Time) => {
                let text = format_moment(seconds, &TimeZone::system());
                let date = text.strip_suffix(" 00:00");
                self.has_times.set(self.has_times.get() || date.is_none());
                date.unwrap_or(&text).to_owned()
            }
            (Cell::Number(number), Style::Change) => {
                paint = choose_paint_for_sign(number);
                format!("{number:+.6}")
            }
            (Cell::Number(number), Style::Quotient) if number.is_infinite() => "no target".to_owned(),
            (Cell::Number(ratio), Style::Ratio | Style::Quotient) if (1e3..1e6).contains(&ratio) => {
                number(format!("{ratio:.0}"))
            }
            (Cell::Number(number), Style::Ratio) if !(number == 0.0 || (1e-6..1e6).contains(&number)) => {
                ratio(number)
            }
            (Cell::Number(number), _) if number > 0.0 && number < 5e-7 => "<0.000001".to_owned(),
            (Cell::Number(number), _) => {
                let from = out.len();
                let _ = write!(out, "{number:.6}");
                return (out.len() - from, false);
            }
        };
        out.push_str(&self.screen.paint(paint, &text));
        (width(&text), false)
    }

    /// Escapes a text that a user chose. If the output has no maximum width, cuts the text to [`LONGEST_NAME`].
    fn format_name(&self, text: &str) -> String {
        let text = printable(text);
        if self.screen.width.is_none() && text.len() > LONGEST_NAME && width(&text) > LONGEST_NAME {
            return cut(&text, LONGEST_NAME, self.screen.ellipsis());
        }
        text.into_owned()
    }

    fn format_node(&self, depth: usize, name: &str, paint: Paint, out: &mut String) -> usize {
        let level = if depth > DEEPEST_INDENT { format!("({depth}) ") } else { String::new() };
        let name = self.format_name(name);
        out.push_str(&level);
        out.push_str(&self.screen.paint(paint, &name));
        self.indent_step() * depth.min(DEEPEST_INDENT) + width(&level) + width(&name)
    }

    /// Prints the meaning of the marks in a bar.
    fn print_legend(&self, out: &mut dyn Write) -> io::Result<()> {
        let blocks = self.screen.colour && self.screen.unicode;
        let marks = [(GOOD, "█", "="), (FAINT, "·", "."), (BAD, "█", "+"), (FAINT, "│", "|")];
        let [within, unused, beyond, share] =
            marks.map(|(paint, block, letter)| self.screen.paint(paint, if blocks { block } else { letter }));
        writeln!(
            out,
            "\n{within} usage up to the share, {unused} unused share, {beyond} usage above the share, {share} the share"
        )
    }

    /// Draws a bar of the usage, with a line at the share. Without colours, different letters show the usage up to the share and above it.
    fn draw_bar(&self, usage: usize, share: usize, width: usize) -> String {
        let blocks = self.screen.colour && self.screen.unicode;
        let mut runs: Vec<(Paint, String)> = Vec::new();
        for at in 0..width {
            let is_stroke = at + 1 == share;
            let (paint, block, letter) = match (at < usage, at < share) {
                (true, true) => (GOOD, "█", "="),
                (true, false) => (BAD, "█", "+"),
                (false, true) => (FAINT, "·", "."),
                (false, false) => (FAINT, " ", " "),
            };
            let mark = match (is_stroke, blocks) {
                (true, true) => "│",
                (true, false) => "|",
                (false, true) => block,
                (false, false) => letter,
            };
            match runs.last_mut() {
                Some((last, run)) if *last == paint => run.push_str(mark),
                _ => runs.push((paint, mark.to_owned())),
            }
        }
        runs.into_iter().map(|(paint, run)| self.screen.paint(paint, &run)).collect()
    }
}

/// The columns of a printed table: their widths, and whether they are shown.
pub(crate) struct PrintedColumns<'c> {
    columns: Vec<Column<'c>>,
    widths: Vec<usize>,
    shown: Vec<bool>,
    /// The width that shows all columns.
    natural: usize,
}

impl<'c> PrintedColumns<'c> {
    /// Returns the titles of the columns that are left out because the table is too wide. If two columns have the same title, returns their
    /// keys. Bars are not named, because other columns show the same numbers.
    pub(crate) fn list_omitted_columns(&self) -> Vec<&'c str> {
        let is_single = |title: &str| self.columns.iter().filter(|column| column.title == title).count() == 1;
        let is_named = |(column, shown): &(&Column<'_>, &bool)| {
            !**shown && !matches!(column.style, Style::Bar(_)) && !column.title.is_empty()
        };
        let omitted = self.columns.iter().zip(&self.shown).filter(is_named).map(|(column, _)| column);
        omitted.map(|column| if is_single(column.title) { column.title } else { column.key }).collect()
    }
}

/// Leaves out the columns with these indexes, in this order, until the table fits into `room`.
fn leave_out(
    indexes: impl Iterator<Item = usize>,
    shown: &mut [bool],
    widths: &[usize],
    whole: &mut usize,
    room: usize,
) {
    for index in indexes {
        if let (Some(shown), Some(width)) = (shown.get_mut(index), widths.get(index))
            && *shown
            && *whole > room
        {
            *shown = false;
            *whole = whole.saturating_sub(width + GAP);
        }
    }
}

/// Shortens names, in the widest columns first, until the table fits into `room`, or no name is longer than `shortest`.
fn shrink_name_columns(
    columns: &[Column<'_>],
    shown: &[bool],
    widths: &mut [usize],
    whole: &mut usize,
    room: usize,
    shortest: usize,
) {
    while *whole > room {
        let names = columns.iter().zip(shown).zip(widths.iter_mut());
        let names = names.filter(|((column, shown), _)| **shown && column.style == Style::Text);
        let Some(widest) = names.map(|(_, width)| width).max() else { break };
        if *widest <= shortest {
            break;
        }
        let less = (*widest - shortest).min(*whole - room).div_ceil(2).max(1);
        *widest -= less;
        *whole -= less;
    }
}

/// Determines, for each row, at which levels of the tree more siblings follow. Visits the last row first, because the result
/// depends on the rows below.
fn mark_levels_that_continue_below(places: &mut [TreePosition]) {
    let mut open = 0u32;
    for place in places.iter_mut().rev() {
        let level = place.depth.min(DEEPEST_INDENT) as u32;
        open &= (2 << level) - 1;
        place.open = open;
        open |= 1 << level;
    }
}

fn choose_paint_for_sign(number: f64) -> Paint {
    if number > 0.0 {
        GOOD
    } else if number < 0.0 {
        BAD
    } else {
        Paint::new()
    }
}
