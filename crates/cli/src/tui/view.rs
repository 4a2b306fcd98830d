// SPDX-License-Identifier: LGPL-3.0-only
//! Draws the screen of `top` from the model and the size of the terminal.

use std::ops::Range;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Paragraph};

use super::model::{Model, Snapshot, TopPage};
use crate::ui::figures::{number, percent, ratio, term};
use crate::ui::printable::{cut, width};

/// The features of the terminal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TerminalLook {
    pub(crate) colour: bool,
    pub(crate) ellipsis: &'static str,
}

/// A column of a table.
struct ScreenColumn {
    title: String,
    /// The least width, in cells. A wider terminal widens the columns with longer texts.
    width: usize,
    /// Whether the texts are aligned to the right.
    right: bool,
    /// If the terminal is too narrow, the column with the largest `leave` is left out first. If `leave` is 0, the column is
    /// always shown.
    leave: u8,
}

/// The texts of a row, one per column.
type ScreenRow = Vec<Text>;

/// A text and its style.
struct Text {
    text: String,
    tone: Tone,
    /// A usage and a share. If they are set, the cell shows a bar of them and not `text`.
    bar: Option<(f64, f64)>,
}

impl Text {
    fn new(text: impl Into<String>, tone: Tone) -> Text {
        Text { text: text.into(), tone, bar: None }
    }

    /// Returns the width that the text needs, or the greatest useful width of a bar, in cells.
    fn natural_width(&self) -> usize {
        if self.bar.is_some() { WIDEST_BAR } else { width(&self.text) }
    }

    /// Returns the text in at most `room` cells.
    fn fit_text(&self, room: usize, look: TerminalLook) -> String {
        match self.bar {
            Some((usage, share)) => draw_bar(usage, share, room),
            None if width(&self.text) > room => cut(&self.text, room, look.ellipsis),
            None => self.text.clone(),
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Tone {
    Plain,
    Bold,
    Good,
    Bad,
}

fn plain_text(text: impl Into<String>) -> Text {
    Text::new(text, Tone::Plain)
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

/// Draws the screen. Stores in the model which rows are shown and which columns are left out.
pub(crate) fn draw(model: &mut Model, look: TerminalLook, frame: &mut Frame<'_>) {
    let facts = model.snapshot.facts.len().min(2) as u16;
    let [top, silence, tabs, body, foot] = Layout::vertical([
        Constraint::Length(facts),
        Constraint::Length(model.silence.is_some().into()),
        Constraint::Length(1),
        Constraint::Min(1),
        Constraint::Length((!model.is_printed).into()),
    ])
    .areas(frame.area());
    let lines: Vec<Line<'_>> =
        model.snapshot.facts.iter().take(2).map(|fact| Line::from(fit_text(fact, top.width, look))).collect();
    frame.render_widget(Paragraph::new(lines), top);
    if let Some(text) = &model.silence {
        let style = look.style(Tone::Bad).add_modifier(Modifier::BOLD);
        frame.render_widget(Line::styled(fit_text(text, silence.width, look), style), silence);
    }
    frame.render_widget(Paragraph::new(Line::from(fit_text(make_foot_line(model), foot.width, look))), foot);
    if model.open.is_some() {
        model.left_out.clear();
        draw_scrollable_text(model, look, frame, body);
    } else {
        match model.page {
            TopPage::Overview => draw_overview(model, look, frame, body),
            TopPage::Standings => {
                let (columns, rows) = tabulate_associations(model);
                draw_table(model, look, frame, body, columns, rows);
            }
            TopPage::Jobs => {
                let (columns, rows) = tabulate_jobs(model);
                draw_table(model, look, frame, body, columns, rows);
            }
        }
    }
    // The tab line shows the rows and columns that the table drew, so it is drawn after the table.
    frame.render_widget(Paragraph::new(tab_line(model, tabs.width, look)), tabs);
}

fn fit_text(text: &str, room: u16, look: TerminalLook) -> String {
    let room = usize::from(room);
    if width(text) <= room { text.to_owned() } else { cut(text, room, look.ellipsis) }
}

/// Returns the line with the pages, the order and the filter at the left, and the position of the shown rows at the right.
fn tab_line(model: &Model, room: u16, look: TerminalLook) -> Line<'static> {
    let mut spans = Vec::new();
    for (at, (page, name)) in TopPage::ALL.iter().enumerate() {
        let style = match *page == model.page {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        spans.push(Span::styled(format!(" {} {name} ", at + 1), style));
    }
    let (column, reverse) = model.find_sort_column();
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
    let rows = model.describe_shown_rows();
    let used: usize = spans.iter().map(Span::width).sum();
    let left = usize::from(room).saturating_sub(used + width(&rows) + 2);
    let text = describe_omitted_columns(&model.left_out, left).unwrap_or_default();
    let blank = left.saturating_sub(width(&text)) + 2;
    spans.push(Span::raw(fit_text(&format!("{text}{}{rows}", " ".repeat(blank)), room, look)));
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

fn draw_scrollable_text(model: &mut Model, look: TerminalLook, frame: &mut Frame<'_>, area: Rect) {
    model.room = usize::from(area.height);
    frame.render_widget(Clear, area);
    let Some((lines, first)) = &model.open else { return };
    let shown = lines.iter().skip(*first).take(model.room);
    model.shown = *first..(*first + model.room).min(lines.len());
    let lines: Vec<Line<'_>> = shown.map(|line| Line::from(fit_text(line, area.width, look))).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

/// Returns the height of the screen that shows all banks without blank lines.
pub(crate) fn measure_height_of_banks(model: &Model, width: u16) -> u16 {
    let Snapshot { facts, banks, held, cost, .. } = &model.snapshot;
    let table = banks.len().max(1) + 1;
    let (held, cost) = (held.len() + 2, if cost.is_empty() { 0 } else { cost.len() + 2 });
    let body = if width >= SIDE.0 { table.max(held + 1 + cost) } else { table + held.max(cost) };
    u16::try_from(facts.len().min(2) + 1 + body).unwrap_or(u16::MAX)
}

/// If the screen has at least this many columns, the figures are to the right of the banks. The second number
/// is the width of the figures.
const SIDE: (u16, u16) = (150, 44);

/// A screen shows at most this many rows of statistics below the banks. A printed page shows all rows.
const MOST_FIGURES: usize = 7;

/// Draws the banks, and below or beside them the held jobs by limit, and the time of refreshes and pushes.
fn draw_overview(model: &mut Model, look: TerminalLook, frame: &mut Frame<'_>, area: Rect) {
    let held: Vec<(String, String)> =
        model.snapshot.held.iter().map(|(limit, jobs)| (limit.clone(), number(jobs))).collect();
    let (from, side) = SIDE;
    let [above, first, second] = if area.width >= from {
        let [left, right] =
            Layout::horizontal([Constraint::Min(1), Constraint::Length(side)]).spacing(2).areas(area);
        let height = held.len() as u16 + 3;
        let [first, second] = Layout::vertical([Constraint::Length(height), Constraint::Min(0)]).areas(right);
        [left, first, second]
    } else {
        let most = if model.is_printed { usize::MAX } else { MOST_FIGURES };
        let below = held.len().max(model.snapshot.cost.len()).min(most) as u16 + 2;
        let below = below.min(area.height.saturating_sub(3));
        let [above, below] = Layout::vertical([Constraint::Min(2), Constraint::Length(below)]).areas(area);
        let [first, second] =
            Layout::horizontal([Constraint::Percentage(55), Constraint::Percentage(45)]).areas(below);
        [above, first, second]
    };
    let (columns, rows) = tabulate_banks(model);
    draw_table(model, look, frame, above, columns, rows);
    // A guest sees neither the times of refreshes nor the jobs of other users.
    let (title, limits) = match (model.snapshot.cost.is_empty(), held.is_empty()) {
        (true, true) => ("", "None of your jobs is held by a limit"),
        (true, false) => ("", "Your jobs that a limit holds"),
        (false, true) => ("Refresh and push", "No job is held by a limit"),
        (false, false) => ("Refresh and push", "Held by a limit"),
    };
    frame.render_widget(Paragraph::new(list_pairs(limits, &held, first, look)), first);
    frame.render_widget(Paragraph::new(list_pairs(title, &model.snapshot.cost, second, look)), second);
}

/// Returns a title, and a line for each name with its value. If `area` has too few lines, the last line says how many are missing.
fn list_pairs(title: &str, pairs: &[(String, String)], area: Rect, look: TerminalLook) -> Vec<Line<'static>> {
    let room = usize::from(area.width).saturating_sub(2);
    let title = fit_text(title, area.width.saturating_sub(2), look);
    let mut lines = vec![Line::default(), Line::styled(title, look.style(Tone::Bold))];
    let rows = usize::from(area.height).saturating_sub(lines.len());
    let shown = if pairs.len() > rows { rows.saturating_sub(1) } else { rows };
    let values = pairs.iter().map(|(_, value)| width(value)).max().unwrap_or(0);
    let names =
        pairs.iter().map(|(name, _)| width(name)).max().unwrap_or(0).min(room.saturating_sub(values + 2));
    for (name, value) in pairs.iter().take(shown) {
        let name = if width(name) > names { cut(name, names, look.ellipsis) } else { name.clone() };
        let gap = names.saturating_sub(width(&name)) + 2 + values.saturating_sub(width(value));
        lines.push(Line::from(format!("{name}{}{value}", " ".repeat(gap))));
    }
    if pairs.len() > rows {
        lines.push(Line::from(format!("{} {} more", look.ellipsis, number(pairs.len() - shown))));
    }
    lines
}

/// The title of the column of bars. If this column is left out, no message says so, because other columns
/// show the same numbers.
const BAR_TITLE: &str = "Used|Share";
/// The greatest width of a bar, in cells.
const WIDEST_BAR: usize = 60;
/// The indexes of the columns that count jobs, on the page of banks.
const JOBS: Range<usize> = 4..7;

fn tabulate_banks(model: &Model) -> (Vec<ScreenColumn>, Vec<ScreenRow>) {
    // Guests do not see all jobs of a bank.
    let has_jobs = model.snapshot.banks.iter().any(|bank| bank.pending.is_some());
    let mut columns = vec![
        ScreenColumn { title: "Bank".into(), width: 14, right: false, leave: 0 },
        ScreenColumn { title: "Share".into(), width: 9, right: true, leave: 0 },
        ScreenColumn { title: "Used".into(), width: 9, right: true, leave: 0 },
        ScreenColumn { title: "Level".into(), width: 9, right: true, leave: 1 },
        ScreenColumn { title: "Running".into(), width: 7, right: true, leave: 4 },
        ScreenColumn { title: "Pending".into(), width: 7, right: true, leave: 2 },
        ScreenColumn { title: "Held".into(), width: 6, right: true, leave: 2 },
        ScreenColumn { title: BAR_TITLE.into(), width: 20, right: false, leave: 3 },
    ];
    // If the order is reversed, a bank comes after the banks below it.
    let as_tree = model.find_sort_column() == ("tree".to_owned(), false) && model.filter.is_empty();
    let rows = model.banks().into_iter().map(|bank| {
        let depth = if as_tree { bank.depth } else { 0 };
        let tone = match (bank.usage > bank.share, bank.depth) {
            (_, 0) => Tone::Plain,
            (true, _) => Tone::Bad,
            (false, _) => Tone::Good,
        };
        vec![
            plain_text(format!("{}{}", " ".repeat(depth.min(12)), bank.name)),
            plain_text(percent(bank.share)),
            Text::new(percent(bank.usage), tone),
            plain_text(bank.level_fs.map(ratio).unwrap_or_default()),
            plain_text(bank.running.map(number).unwrap_or_default()),
            plain_text(bank.pending.map(number).unwrap_or_default()),
            plain_text(bank.held.map(number).unwrap_or_default()),
            // The root has no siblings to compare it with.
            Text { bar: (bank.depth > 0).then_some((bank.usage, bank.share)), ..plain_text("") },
        ]
    });
    let mut rows: Vec<ScreenRow> = rows.collect();
    if !has_jobs {
        columns.drain(JOBS);
        rows.iter_mut().for_each(|row| drop(row.drain(JOBS)));
    }
    (columns, rows)
}

fn tabulate_associations(model: &Model) -> (Vec<ScreenColumn>, Vec<ScreenRow>) {
    let columns = vec![
        ScreenColumn { title: "Place".into(), width: 13, right: true, leave: 0 },
        ScreenColumn { title: "User".into(), width: 14, right: false, leave: 0 },
        ScreenColumn { title: "Bank".into(), width: 16, right: false, leave: 0 },
        ScreenColumn { title: "FairShare".into(), width: 10, right: true, leave: 0 },
        ScreenColumn { title: "Share".into(), width: 9, right: true, leave: 3 },
        ScreenColumn { title: "Used".into(), width: 9, right: true, leave: 3 },
        ScreenColumn { title: "Level".into(), width: 9, right: true, leave: 4 },
        ScreenColumn { title: "Running".into(), width: 7, right: true, leave: 1 },
        ScreenColumn { title: "Pending".into(), width: 7, right: true, leave: 2 },
        ScreenColumn { title: "Held".into(), width: 6, right: true, leave: 1 },
    ];
    let rows = model.standings().into_iter().map(|standing| {
        let place = standing.place.map(|(place, of)| format!("{} of {}", number(place), number(of)));
        vec![
            plain_text(place.unwrap_or_default()),
            plain_text(standing.user.clone()),
            plain_text(standing.bank.clone()),
            plain_text(standing.fairshare.map(|fairshare| format!("{fairshare:.6}")).unwrap_or_default()),
            plain_text(standing.share.map(percent).unwrap_or_default()),
            plain_text(standing.usage.map(percent).unwrap_or_default()),
            plain_text(standing.level_fs.map(ratio).unwrap_or_default()),
            plain_text(number(standing.running)),
            plain_text(number(standing.pending)),
            plain_text(number(standing.held)),
        ]
    });
    (columns, rows.collect())
}

fn tabulate_jobs(model: &Model) -> (Vec<ScreenColumn>, Vec<ScreenRow>) {
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
    columns.push(ScreenColumn { title: "Held by".into(), width: 14, right: false, leave: 0 });
    let rows = model.jobs().into_iter().map(|job| {
        let mut row = vec![
            plain_text(job.name.clone()),
            plain_text(job.user.clone()),
            plain_text(job.bank.clone()),
            plain_text(job.queue.clone()),
            plain_text(job.priority.map(number).unwrap_or_default()),
        ];
        for at in 0..model.snapshot.terms.len() {
            row.push(plain_text(job.products.get(at).map(|product| term(*product)).unwrap_or_default()));
        }
        row.push(Text::new(job.held_by.clone(), Tone::Bad));
        row
    });
    (columns, rows.collect())
}

/// Draws a table. Leaves out columns until the remaining columns fit, and widens columns with longer texts.
fn draw_table(
    model: &mut Model,
    look: TerminalLook,
    frame: &mut Frame<'_>,
    area: Rect,
    mut columns: Vec<ScreenColumn>,
    mut rows: Vec<ScreenRow>,
) {
    let room = usize::from(area.width);
    let needed = |columns: &[ScreenColumn]| columns.iter().map(|column| column.width + 1).sum::<usize>();
    model.left_out.clear();
    while needed(&columns) > room + 1 {
        let most = columns.iter().map(|column| column.leave).max().filter(|most| *most > 0);
        // If several columns have the largest `leave`, the last of them is left out first.
        let Some(at) = columns.iter().rposition(|column| Some(column.leave) == most) else { break };
        let column = columns.remove(at);
        rows.iter_mut().for_each(|row| drop(row.remove(at)));
        if column.title != BAR_TITLE {
            model.left_out.insert(0, column.title);
        }
    }
    let mut spare = (room + 1).saturating_sub(needed(&columns));
    // First widen the columns that are always shown, and then the optional columns.
    for is_optional in [false, true] {
        for (at, column) in
            columns.iter_mut().enumerate().filter(|(_, column)| (column.leave > 0) == is_optional)
        {
            let natural =
                rows.iter().filter_map(|row| row.get(at)).map(Text::natural_width).max().unwrap_or(0);
            let more = natural.saturating_sub(column.width).min(spare);
            column.width += more;
            spare -= more;
        }
    }
    model.room = usize::from(area.height).saturating_sub(1);
    let chosen = model.chosen();
    let first = chosen.saturating_sub(model.room.saturating_sub(1));
    model.shown = first..(first + model.room).min(rows.len());
    let titles: ScreenRow =
        columns.iter().map(|column| Text::new(column.title.clone(), Tone::Bold)).collect();
    let mut lines = vec![format_row(&titles, &columns, look)];
    if rows.is_empty() {
        lines.push(Line::from("nothing to show"));
    }
    for (at, row) in rows.iter().enumerate().skip(first).take(model.room) {
        let mut line = format_row(row, &columns, look);
        if at == chosen {
            let missing = room.saturating_sub(line.width());
            line.push_span(" ".repeat(missing));
            line = line.style(Style::new().add_modifier(Modifier::REVERSED));
        }
        lines.push(line);
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn format_row(row: &ScreenRow, columns: &[ScreenColumn], look: TerminalLook) -> Line<'static> {
    let mut spans = Vec::new();
    for (text, column) in row.iter().zip(columns) {
        let own = text.fit_text(column.width, look);
        let pad = " ".repeat(column.width.saturating_sub(width(&own)));
        let (before, after) = if column.right { (pad, String::new()) } else { (String::new(), pad) };
        spans.push(Span::raw(before));
        spans.push(Span::styled(own, look.style(text.tone)));
        spans.push(Span::raw(after + " "));
    }
    Line::from(spans)
}

/// Draws usage and share as a bar of letters, so that it is readable without colours.
fn draw_bar(usage: f64, share: f64, width: usize) -> String {
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
