// SPDX-License-Identifier: LGPL-3.0-only
//! Draws the screen of `top` from the model and the size of the terminal.

use std::io::{self, Write};

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};
use strum::VariantArray;

use super::model::{Model, Snapshot, TopPage};
use crate::ui::figures::number;
use crate::ui::printable::{cut, printable, width};
use crate::ui::progress::Progress;
use crate::ui::rows::{Look, Rows, Style as Format, column};
use crate::ui::screen::{BOLD, Screen};
use crate::ui::table::Table;

/// Converts a line with colour codes. Tables have only the codes of the styles in `ui/screen.rs`.
fn convert_colours(text: &str) -> Line<'static> {
    let mut spans = Vec::new();
    let mut style = Style::new();
    for (at, part) in text.split("\x1b[").enumerate() {
        let (code, own) = if at == 0 { ("", part) } else { part.split_once('m').unwrap_or(("", part)) };
        style = match code {
            "1" => style.add_modifier(Modifier::BOLD),
            "2" => style.add_modifier(Modifier::DIM),
            "31" => style.fg(Color::Red),
            "32" => style.fg(Color::Green),
            _ => Style::new(),
        };
        spans.push(Span::styled(own.to_owned(), style));
    }
    Line::from(spans)
}

/// Draws the screen. Stores in the model which rows are shown and which columns are left out.
pub(crate) fn draw(model: &mut Model, screen: &Screen, frame: &mut Frame<'_>) {
    let facts = model.snapshot.facts.len().min(2) as u16;
    let [top, silence, tabs, body, foot] = Layout::vertical([
        Constraint::Length(facts),
        Constraint::Length(model.silence.is_some().into()),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let facts = model.snapshot.facts.iter().take(2);
    let lines: Vec<Line<'_>> = facts.map(|fact| Line::from(fit_text(fact, top.width, screen))).collect();
    frame.render_widget(Paragraph::new(lines), top);
    if let Some(text) = &model.silence {
        let style = Style::new().add_modifier(Modifier::BOLD);
        let style = if screen.colour { style.fg(Color::Red) } else { style };
        frame.render_widget(Line::styled(fit_text(text, silence.width, screen), style), silence);
    }
    frame
        .render_widget(Paragraph::new(Line::from(fit_text(make_foot_line(model), foot.width, screen))), foot);
    if model.open.is_some() {
        model.left_out.clear();
        draw_scrollable_text(model, screen, frame, body);
    } else {
        let table = if model.page == TopPage::Banks { draw_lists(model, screen, frame, body) } else { body };
        draw_table(model, screen, frame, table);
    }
    // The tab line shows the rows and columns that the table drew, so it is drawn after the table.
    frame.render_widget(Paragraph::new(tab_line(model, tabs.width, screen)), tabs);
}

fn fit_text(text: &str, room: u16, screen: &Screen) -> String {
    let room = usize::from(room);
    if width(text) <= room { text.to_owned() } else { cut(text, room, screen.ellipsis()) }
}

/// Returns the line with the pages, the order and the filter at the left, and the position of the shown rows at the right.
fn tab_line(model: &Model, room: u16, screen: &Screen) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, page) in TopPage::VARIANTS.iter().enumerate() {
        let style = match *page == model.page {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} {} ", at + 1, page.into_str()), style));
    }
    let (column, _, reverse) = model.find_sort_column();
    spans.push(Span::raw(format!("  by {}{}", column.title, if reverse { ", reversed" } else { "" })));
    if model.typing || !model.filter.is_empty() {
        let cursor = if model.typing { "_" } else { "" };
        spans.push(Span::raw(format!("  only \"{}{cursor}\"", printable(&model.filter))));
    }
    if model.paused {
        spans.push(Span::styled("  paused", Style::new().add_modifier(Modifier::BOLD)));
    }
    let rows = model.describe_shown_rows();
    let used: usize = spans.iter().map(Span::width).sum();
    let left = usize::from(room).saturating_sub(used + width(&rows) + 2);
    let text = describe_omitted_columns(&model.left_out, left).unwrap_or_default();
    let blank = left.saturating_sub(width(&text)) + 2;
    spans.push(Span::raw(fit_text(&format!("{text}{}{rows}", " ".repeat(blank)), room, screen)));
    Line::from(spans)
}

/// Names the columns that are left out. If `room` cells are too few for the names, prints their number instead.
fn describe_omitted_columns(columns: &[String], room: usize) -> Option<String> {
    let count = match columns.len() {
        0 => return None,
        1 => "  1 column left out".to_owned(),
        count => format!("  {count} columns left out"),
    };
    let names = format!("  left out: {}", columns.join(", "));
    [names, count].into_iter().find(|text| width(text) <= room)
}

fn make_foot_line(model: &Model) -> &'static str {
    match model.page {
        _ if model.open.is_some() => "Up Down scroll  Esc back  q back",
        _ if model.typing => "Enter keep filter  Esc clear filter",
        TopPage::Jobs => "q quit  Tab page  s sort  r reverse  / filter  Enter why  p pause  ? help",
        _ => "q quit  Tab page  s sort  r reverse  / filter  p pause  ? help",
    }
}

fn draw_scrollable_text(model: &mut Model, screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    model.room = usize::from(area.height);
    frame.render_widget(Clear, area);
    let Some((lines, first)) = &model.open else { return };
    let shown = lines.iter().skip(*first).take(model.room);
    model.shown = *first..(*first + model.room).min(lines.len());
    let lines: Vec<Line<'_>> =
        shown.map(|line| convert_colours(&fit_text(line, area.width, screen))).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Below the banks, a screen shows at most this many rows of each list, or a third of its rows if that is more.
const MOST_FIGURES: usize = 7;

/// Draws the held jobs by limit, and the time of refreshes and pushes. Returns the remaining area above them.
fn draw_lists(model: &Model, screen: &Screen, frame: &mut Frame<'_>, area: Rect) -> Rect {
    let longest = model
        .snapshot
        .held
        .len()
        .max(model.snapshot.cost.len())
        .min(MOST_FIGURES.max(usize::from(area.height / 3)));
    let height = (longest as u16 + 2).min(area.height.saturating_sub(3));
    let [above, below] = Layout::vertical([Constraint::Min(2), Constraint::Length(height)]).areas(area);
    let sides =
        Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas::<2>(below);
    for (area, (title, pairs)) in sides.into_iter().zip(model.snapshot.lists()) {
        let screen = Screen { width: Some(usize::from(area.width).saturating_sub(2)), ..*screen };
        let mut lines = format_list(title, pairs, &screen);
        let rows = usize::from(area.height).saturating_sub(2);
        if pairs.len() > rows {
            lines.truncate(rows);
            lines.push(format!("{} {} more", screen.ellipsis(), number(pairs.len() + 1 - rows)));
        }
        let lines = std::iter::once(Line::default()).chain(lines.iter().map(|line| convert_colours(line)));
        frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
    }
    above
}

impl Snapshot {
    /// Returns the lists below the banks, each with its title.
    fn lists(&self) -> [(&'static str, &[(String, String)]); 2] {
        let (limits, costs) = match (self.is_for_guest(), self.held.is_empty()) {
            (true, true) => ("None of your jobs is held by a limit", ""),
            (true, false) => ("Your jobs that a limit holds", ""),
            (false, true) => ("No job is held by a limit", "Refresh and push"),
            (false, false) => ("Held by a limit", "Refresh and push"),
        };
        [(limits, &self.held), (costs, &self.cost)]
    }
}

/// Returns the title, and a line for each name with its value.
fn format_list(title: &str, pairs: &[(String, String)], screen: &Screen) -> Vec<String> {
    if pairs.is_empty() {
        return vec![screen.paint(BOLD, title)];
    }
    let rows = pairs.iter().map(|(name, value)| vec![name.as_str().into(), value.as_str().into()]);
    let columns = vec![column("name", title, Format::Text), column("value", "", Format::Signed)];
    format_rows(Rows { key: "rows", columns, rows: Box::new(rows) }, &[], screen).0
}

/// Returns the lines of a table, the titles first, and the titles of the columns that do not fit. Without rows, returns no lines.
fn format_rows(rows: Rows<'_>, give_up: &[&str], screen: &Screen) -> (Vec<String>, Vec<String>) {
    let mut out = Vec::new();
    let table = Table::new(screen, Look { give_up, ..Look::WHOLE });
    // Writing to memory does not fail.
    let printed = table.print_rows(rows, false, &mut Progress::none(), &mut out).unwrap_or_default();
    let left_out = printed.map(|printed| printed.list_omitted_columns()).unwrap_or_default();
    let lines = String::from_utf8_lossy(&out).lines().map(str::to_owned).collect();
    (lines, left_out.into_iter().map(str::to_owned).collect())
}

/// Draws the table of the page, from the row at which the selected row is on the screen.
fn draw_table(model: &mut Model, screen: &Screen, frame: &mut Frame<'_>, area: Rect) {
    let room = usize::from(area.width);
    let screen = Screen { width: Some(room), ..*screen };
    let (lines, left_out) = format_rows(model.table_rows(), &model.give_up(), &screen);
    let rows = lines.get(1..).unwrap_or_default();
    model.left_out = left_out;
    model.room = usize::from(area.height).saturating_sub(1);
    let chosen = model.chosen();
    let first = chosen.saturating_sub(model.room.saturating_sub(1));
    model.shown = first..(first + model.room).min(rows.len());
    let mut shown =
        vec![lines.first().map_or(Line::from("nothing to show"), |titles| convert_colours(titles))];
    for (at, row) in rows.iter().enumerate().skip(first).take(model.room) {
        let mut line = convert_colours(row);
        if at == chosen {
            let missing = room.saturating_sub(line.width());
            line.push_span(" ".repeat(missing));
            line = line.style(Style::new().add_modifier(Modifier::REVERSED));
        }
        shown.push(line);
    }
    frame.render_widget(Paragraph::new(shown), area);
}

/// Prints the banks, and the lists that the page of banks has.
pub(crate) fn print_banks(snapshot: Snapshot, screen: &Screen, out: &mut dyn Write) -> io::Result<()> {
    let model = Model { snapshot, ..Model::default() };
    for fact in &model.snapshot.facts {
        screen.wrapped(fact, "", "  ", out)?;
    }
    let give_up = model.give_up();
    let table = Table::new(screen, Look { give_up: &give_up, ..Look::WHOLE });
    table.print(model.table_rows(), true, &mut Progress::none(), out)?;
    for (title, pairs) in model.snapshot.lists().into_iter().filter(|(title, _)| !title.is_empty()) {
        let lines = format_list(title, pairs, screen);
        writeln!(out, "\n{}", lines.join("\n"))?;
    }
    Ok(())
}
