// SPDX-License-Identifier: LGPL-3.0-only
//! Draws the screen of `top` from the model and the size of the terminal.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::model::{Model, TopPage};
use crate::ui::figures::{number, percent, ratio, term};
use crate::ui::printable::{cut, width};

/// The features of the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalLook {
    pub(crate) colour: bool,
    pub(crate) ellipsis: &'static str,
}

/// A column. `right` aligns it to the right. A column of width 0 takes the remaining width.
struct ScreenColumn {
    title: String,
    width: usize,
    right: bool,
    /// If the terminal is too narrow, columns with the largest number are left out first. Columns with 0 are always shown.
    leave: u8,
}

/// The texts of a row, one per column.
type ScreenRow = Vec<Text>;

/// A text and its style.
struct Text {
    text: String,
    tone: Tone,
}

#[derive(Clone, Copy, PartialEq)]
enum Tone {
    Plain,
    Bold,
    Good,
    Bad,
}

fn plain(text: impl Into<String>) -> Text {
    Text { text: text.into(), tone: Tone::Plain }
}

impl TerminalLook {
    fn style(self, tone: Tone) -> Style {
        match tone {
            Tone::Plain => Style::new(),
            Tone::Bold => Style::new().add_modifier(Modifier::BOLD),
            Tone::Good if self.colour => Style::new().fg(Color::Green),
            Tone::Bad if self.colour => Style::new().fg(Color::Red),
            Tone::Good | Tone::Bad => Style::new(),
        }
    }
}

/// Draws the screen. Sets the model's number of rows that fit, and its columns that are left out.
pub(crate) fn draw(model: &mut Model, look: TerminalLook, frame: &mut Frame<'_>) {
    let facts = model.snapshot.facts.len().min(2) as u16;
    let [top, tabs, body, foot] = Layout::vertical([
        Constraint::Length(facts),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    let lines: Vec<Line<'_>> =
        model.snapshot.facts.iter().take(2).map(|fact| Line::from(fitted(fact, top.width, look))).collect();
    frame.render_widget(Paragraph::new(lines), top);
    frame.render_widget(Paragraph::new(Line::from(fitted(&foot_line(model), foot.width, look))), foot);
    if model.open.is_some() {
        model.left_out.clear();
        frame.render_widget(Paragraph::new(tab_line(model)), tabs);
        return draw_open(model, look, frame, body);
    }
    match model.page {
        TopPage::Overview => draw_overview(model, look, frame, body),
        TopPage::Standings => {
            let (columns, rows) = standings(model);
            table(model, look, frame, body, columns, rows);
        }
        TopPage::Jobs => {
            let (columns, rows) = jobs(model);
            table(model, look, frame, body, columns, rows);
        }
    }
    // The tab line names the columns that the table left out, so it is drawn after the table.
    frame.render_widget(Paragraph::new(tab_line(model)), tabs);
}

fn fitted(text: &str, room: u16, look: TerminalLook) -> String {
    let room = usize::from(room);
    if width(text) <= room { text.to_owned() } else { cut(text, room, look.ellipsis) }
}

fn tab_line(model: &Model) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, (page, name)) in TopPage::ALL.iter().enumerate() {
        let style = match *page == model.page {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} {name} ", at + 1), style));
    }
    let (column, reverse) = model.sorted_by();
    spans.push(Span::raw(format!("  by {column}{}", if reverse { ", reversed" } else { "" })));
    if model.typing || !model.filter.is_empty() {
        let cursor = if model.typing { "_" } else { "" };
        spans.push(Span::raw(format!(
            "  only \"{}{cursor}\"",
            crate::ui::printable::printable(&model.filter)
        )));
    }
    if model.paused {
        spans.push(Span::styled("  paused", Style::new().add_modifier(Modifier::BOLD)));
    }
    if !model.left_out.is_empty() {
        spans.push(Span::raw(format!("  left out: {}", model.left_out.join(", "))));
    }
    Line::from(spans)
}

fn foot_line(model: &Model) -> String {
    match &model.snapshot.trouble {
        Some(trouble) => trouble.clone(),
        None if model.open.is_some() => "Up Down  scroll   Esc  back   q  back".to_owned(),
        None if model.typing => "Enter  keep filter   Esc  clear filter".to_owned(),
        None if model.page == TopPage::Jobs => {
            "q quit  Tab page  s sort  r reverse  / filter  Enter why  p pause  ? help".to_owned()
        }
        None => "q quit  Tab page  s sort  r reverse  / filter  p pause  ? help".to_owned(),
    }
}

fn draw_open(model: &mut Model, look: TerminalLook, frame: &mut Frame<'_>, area: Rect) {
    model.room = usize::from(area.height);
    frame.render_widget(Clear, area);
    let Some((lines, first)) = &model.open else { return };
    let shown = lines.iter().skip(*first).take(model.room);
    let lines: Vec<Line<'_>> = shown.map(|line| Line::from(fitted(line, area.width, look))).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Draws the banks, and below them two columns: the held jobs by limit, and the time of refreshes and pushes.
fn draw_overview(model: &mut Model, look: TerminalLook, frame: &mut Frame<'_>, area: Rect) {
    let below = model.snapshot.held.len().max(model.snapshot.cost.len()).clamp(1, 7) as u16 + 2;
    let [above, below] =
        Layout::vertical([Constraint::Min(2), Constraint::Length(below.min(area.height.saturating_sub(3)))])
            .areas(area);
    let (columns, rows) = banks(model, above.width);
    table(model, look, frame, above, columns, rows);
    let [left, right] =
        Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(below);
    let held: Vec<(String, String)> =
        model.snapshot.held.iter().map(|(limit, jobs)| (limit.clone(), number(jobs))).collect();
    let none = if held.is_empty() { "No job is held by a limit" } else { "Held by a limit" };
    frame.render_widget(Paragraph::new(pairs(none, &held, left, look)), left);
    let title = if model.snapshot.cost.is_empty() { "" } else { "Refresh and push" };
    frame.render_widget(Paragraph::new(pairs(title, &model.snapshot.cost, right, look)), right);
}

/// Returns the lines of a title and of names with their values.
fn pairs(title: &str, pairs: &[(String, String)], area: Rect, look: TerminalLook) -> Vec<Line<'static>> {
    let room = usize::from(area.width).saturating_sub(2);
    let mut lines = vec![Line::default(), Line::styled(title.to_owned(), look.style(Tone::Bold))];
    let values = pairs.iter().map(|(_, value)| width(value)).max().unwrap_or(0);
    let names =
        pairs.iter().map(|(name, _)| width(name)).max().unwrap_or(0).min(room.saturating_sub(values + 2));
    for (name, value) in pairs {
        let name = if width(name) > names { cut(name, names, look.ellipsis) } else { name.clone() };
        let gap = names.saturating_sub(width(&name)) + 2 + values.saturating_sub(width(value));
        lines.push(Line::from(format!("{name}{}{value}", " ".repeat(gap))));
    }
    lines
}

/// The title of the bars. They show the same numbers as other columns.
const BAR_TITLE: &str = "Used|Share";
/// The indexes of the columns that count jobs, on the page of banks.
const JOBS: Range<usize> = 4..7;

fn banks(model: &Model, room: u16) -> (Vec<ScreenColumn>, Vec<ScreenRow>) {
    let bar = if room >= 100 { 30 } else { 20 };
    // Guests do not see the jobs of whole banks.
    let has_jobs = model.snapshot.banks.iter().any(|bank| bank.pending.is_some());
    let mut columns = vec![
        ScreenColumn { title: "Bank".into(), width: 0, right: false, leave: 0 },
        ScreenColumn { title: "Share".into(), width: 9, right: true, leave: 0 },
        ScreenColumn { title: "Used".into(), width: 9, right: true, leave: 0 },
        ScreenColumn { title: "Level".into(), width: 9, right: true, leave: 1 },
        ScreenColumn { title: "Running".into(), width: 7, right: true, leave: 4 },
        ScreenColumn { title: "Pending".into(), width: 7, right: true, leave: 2 },
        ScreenColumn { title: "Held".into(), width: 6, right: true, leave: 2 },
        ScreenColumn { title: BAR_TITLE.into(), width: bar, right: false, leave: 3 },
    ];
    let as_tree = model.sorted_by().0 == "tree" && model.filter.is_empty();
    let rows = model.banks().into_iter().map(|bank| {
        let depth = if as_tree { bank.depth } else { 0 };
        let tone = match (bank.usage > bank.share, bank.depth) {
            (_, 0) => Tone::Plain,
            (true, _) => Tone::Bad,
            (false, _) => Tone::Good,
        };
        vec![
            plain(format!("{}{}", " ".repeat(depth.min(12)), bank.name)),
            plain(percent(bank.share)),
            Text { text: percent(bank.usage), tone },
            plain(bank.level_fs.map(ratio).unwrap_or_default()),
            plain(bank.running.map(number).unwrap_or_default()),
            plain(bank.pending.map(number).unwrap_or_default()),
            plain(bank.held.map(number).unwrap_or_default()),
            plain(if bank.depth == 0 { String::new() } else { self::bar(bank.usage, bank.share, bar) }),
        ]
    });
    let mut rows: Vec<ScreenRow> = rows.collect();
    if !has_jobs {
        columns.drain(JOBS);
        rows.iter_mut().for_each(|row| drop(row.drain(JOBS)));
    }
    (columns, rows)
}

fn standings(model: &Model) -> (Vec<ScreenColumn>, Vec<ScreenRow>) {
    let columns = vec![
        ScreenColumn { title: "Place".into(), width: 13, right: true, leave: 0 },
        ScreenColumn { title: "User".into(), width: 0, right: false, leave: 0 },
        ScreenColumn { title: "Bank".into(), width: 16, right: false, leave: 0 },
        ScreenColumn { title: "FairShare".into(), width: 10, right: true, leave: 0 },
        ScreenColumn { title: "Running".into(), width: 7, right: true, leave: 1 },
        ScreenColumn { title: "Pending".into(), width: 7, right: true, leave: 2 },
        ScreenColumn { title: "Held".into(), width: 6, right: true, leave: 1 },
    ];
    let rows = model.standings().into_iter().map(|standing| {
        let place = standing.place.map(|(place, of)| format!("{} of {}", number(place), number(of)));
        vec![
            plain(place.unwrap_or_default()),
            plain(standing.user.clone()),
            plain(standing.bank.clone()),
            plain(format!("{:.6}", standing.fairshare)),
            plain(number(standing.running)),
            plain(number(standing.pending)),
            plain(number(standing.held)),
        ]
    });
    (columns, rows.collect())
}

fn jobs(model: &Model) -> (Vec<ScreenColumn>, Vec<ScreenRow>) {
    let mut columns = vec![
        ScreenColumn { title: "JobId".into(), width: 13, right: false, leave: 0 },
        ScreenColumn { title: "User".into(), width: 10, right: false, leave: 0 },
        ScreenColumn { title: "Bank".into(), width: 10, right: false, leave: 4 },
        ScreenColumn { title: "Queue".into(), width: 8, right: false, leave: 5 },
        ScreenColumn { title: "Priority".into(), width: 11, right: true, leave: 0 },
    ];
    for (at, name) in model.snapshot.terms.iter().enumerate() {
        let leave = if at == 0 { 1 } else { 6 };
        columns.push(ScreenColumn { title: name.clone(), width: 9, right: true, leave });
    }
    columns.push(ScreenColumn { title: "Held by".into(), width: 0, right: false, leave: 0 });
    let rows = model.jobs().into_iter().map(|job| {
        let mut row = vec![
            plain(job.name.clone()),
            plain(job.user.clone()),
            plain(job.bank.clone()),
            plain(job.queue.clone()),
            plain(job.priority.map(number).unwrap_or_default()),
        ];
        for at in 0..model.snapshot.terms.len() {
            row.push(plain(job.products.get(at).map(|product| term(*product)).unwrap_or_default()));
        }
        row.push(Text {
            text: job.held_by.clone(),
            tone: if job.held_by.is_empty() { Tone::Plain } else { Tone::Bad },
        });
        row
    });
    (columns, rows.collect())
}

/// The least width, in cells, of a column that takes the remaining width.
const LEAST: usize = 14;

fn table(
    model: &mut Model,
    look: TerminalLook,
    frame: &mut Frame<'_>,
    area: Rect,
    mut columns: Vec<ScreenColumn>,
    rows: Vec<ScreenRow>,
) {
    let room = usize::from(area.width);
    let mut shown = vec![true; columns.len()];
    let needed = |columns: &[ScreenColumn], shown: &[bool]| {
        let widths = columns.iter().zip(shown).filter(|(_, shown)| **shown);
        widths.map(|(column, _)| if column.width == 0 { LEAST } else { column.width } + 1).sum::<usize>()
    };
    while needed(&columns, &shown) > room + 1 {
        let most =
            columns.iter().zip(&shown).filter(|(_, shown)| **shown).map(|(column, _)| column.leave).max();
        let Some(most) = most.filter(|most| *most > 0) else { break };
        // Among columns with the same number the last is left out.
        let at = columns.iter().zip(&shown).rposition(|(column, shown)| *shown && column.leave == most);
        if let Some(slot) = at.and_then(|at| shown.get_mut(at)) {
            *slot = false;
        }
    }
    let is_left_out = |(column, shown): &(&ScreenColumn, &bool)| !**shown && column.title != BAR_TITLE;
    let left_out = columns.iter().zip(&shown).filter(is_left_out);
    model.left_out = left_out.map(|(column, _)| column.title.clone()).collect();
    let left = (room + 1).saturating_sub(needed(&columns, &shown));
    for column in columns.iter_mut().filter(|column| column.width == 0) {
        column.width = LEAST + left;
    }
    model.room = usize::from(area.height).saturating_sub(1);
    let chosen = model.chosen();
    let first = chosen.saturating_sub(model.room.saturating_sub(1));
    let titles = columns
        .iter()
        .map(|column| Text { text: column.title.clone(), tone: Tone::Bold })
        .collect::<ScreenRow>();
    let mut lines = vec![line(&titles, &columns, &shown, look)];
    if rows.is_empty() {
        lines.push(Line::from("nothing to show"));
    }
    for (at, row) in rows.iter().enumerate().skip(first).take(model.room) {
        let mut line = line(row, &columns, &shown, look);
        if at == chosen {
            let missing = room.saturating_sub(line.width());
            line.push_span(" ".repeat(missing));
            line = line.style(Style::new().add_modifier(Modifier::REVERSED));
        }
        lines.push(line);
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn line(row: &ScreenRow, columns: &[ScreenColumn], shown: &[bool], look: TerminalLook) -> Line<'static> {
    let mut spans = Vec::new();
    for ((text, column), _) in row.iter().zip(columns).zip(shown).filter(|(_, shown)| **shown) {
        let own = if width(&text.text) > column.width {
            cut(&text.text, column.width, look.ellipsis)
        } else {
            text.text.clone()
        };
        let pad = " ".repeat(column.width.saturating_sub(width(&own)));
        let (before, after) = if column.right { (pad, String::new()) } else { (String::new(), pad) };
        spans.push(Span::raw(before));
        spans.push(Span::styled(own, look.style(text.tone)));
        spans.push(Span::raw(after + " "));
    }
    Line::from(spans)
}

/// Draws the usage within the share and beyond it, and a stroke at the share. Letters show the parts, so that no colour is needed.
fn bar(usage: f64, share: f64, width: usize) -> String {
    let cells = |part: f64| (part.clamp(0.0, 1.0) * width as f64).round() as usize;
    let (usage, share) = (cells(usage), cells(share));
    let letter = |at: usize| match (at + 1 == share, at < usage, at < share) {
        (true, ..) => '|',
        (_, true, true) => '=',
        (_, true, false) => '+',
        (_, false, true) => '.',
        (_, false, false) => ' ',
    };
    (0..width).map(letter).collect()
}
