// SPDX-License-Identifier: LGPL-3.0-only
//! The state of `top`: a function of the plugin's last answers and the keys pressed. It uses no terminal, no clock and no plugin.

use std::cmp::Ordering;
use std::ops::Range;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use strum::VariantArray;

use crate::ui::figures::number;
use crate::ui::order::compare_cells;
use crate::ui::rows::{BAR, Cell, Column, Rows, Style, column};

/// The data that `top` shows, from the plugin's last answers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// Lines at the top, about the plugin's data and the jobs.
    pub(crate) facts: Vec<String>,
    /// The rows of each page, by [`TopPage`].
    pub(crate) pages: [PageRows; 3],
    /// Names of the terms whose sum is a priority. The page of jobs has a column for each term.
    pub(crate) terms: Vec<String>,
    /// Number of held jobs for each limit.
    pub(crate) held: Vec<(String, String)>,
    /// How long refreshes and pushes take. Empty if the caller may not see it.
    pub(crate) cost: Vec<(String, String)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct PageRows {
    pub(crate) rows: Vec<TopRow>,
    /// Whether the plugin has more rows than `rows` contains.
    pub(crate) has_more: bool,
}

/// A row of a page. The cells are in the order of the page's columns.
#[derive(Clone, Debug)]
pub(crate) struct TopRow {
    /// The job of the row, on the page of jobs.
    pub(crate) job: Option<u64>,
    pub(crate) cells: Vec<Cell>,
}

impl Snapshot {
    /// Returns true if the caller sees neither the times of refreshes nor the jobs of other users.
    pub(crate) fn is_for_guest(&self) -> bool {
        self.cost.is_empty()
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, strum::IntoStaticStr, strum::VariantArray)]
#[strum(const_into_str)]
pub(crate) enum TopPage {
    #[default]
    Banks,
    Standings,
    Jobs,
}

/// The columns of banks. Share and usage are fractions of the totals of the bank and its siblings. Jobs include those of the banks
/// below, and guests do not see them.
const BANKS: [Column<'static>; 8] = [
    column("bank", "Bank", Style::Text),
    column("share", "Share", Style::Percent),
    column("usage", "Used", Style::Percent),
    column("level", "Level", Style::Ratio),
    column("running", "Running", Style::Count),
    column("pending", "Pending", Style::Count),
    column("held", "Held", Style::Count),
    column("bar", "Used|Share", Style::Bar(BAR)),
];

/// The columns of associations. Share and usage are fractions of the totals of all users in the bank.
const STANDINGS: [Column<'static>; 11] = [
    column("place", "Place", Style::Count),
    column("of", "of", Style::Count),
    column("user", "User", Style::Text),
    column("bank", "Bank", Style::Text),
    column("fairshare", "FairShare", Style::Fraction),
    column("share", "Share", Style::Percent),
    column("usage", "Used", Style::Percent),
    column("level", "Level", Style::Ratio),
    column("running", "Running", Style::Count),
    column("pending", "Pending", Style::Count),
    column("held", "Held", Style::Count),
];

/// The columns of pending jobs before the terms of the priority.
const JOBS: [Column<'static>; 5] = [
    column("id", "JobId", Style::Text),
    column("priority", "Priority", Style::Count),
    column("user", "User", Style::Text),
    // A term may be called "bank" or "queue".
    column("job_bank", "Bank", Style::Text),
    column("job_queue", "Queue", Style::Text),
];

/// An action that the user requests with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wish {
    Nothing,
    Quit,
    /// Send the requests to the plugin again.
    Refresh,
    /// Explain why the job with this id is waiting.
    Why(u64),
}

/// The state of the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) snapshot: Snapshot,
    pub(crate) page: TopPage,
    /// For each page, how often the user chose the next column to sort by, and whether the order is reversed.
    pub(crate) sort: [(usize, bool); 3],
    /// Only rows that contain this text are shown.
    pub(crate) filter: String,
    /// Whether the user is typing the filter.
    pub(crate) typing: bool,
    /// The index of the selected row of each page.
    pub(crate) chosen: [usize; 3],
    /// A text that covers the page: its lines, and the index of the first line shown.
    pub(crate) open: Option<(Vec<String>, usize)>,
    pub(crate) paused: bool,
    /// Columns that are left out because the screen is too narrow; the view sets them when it draws.
    pub(crate) left_out: Vec<String>,
    /// The number of rows that fit on the screen. The view sets it when it draws.
    pub(crate) room: usize,
    /// The indexes of the rows or lines that are on the screen. The view sets them when it draws.
    pub(crate) shown: Range<usize>,
    /// While the plugin does not answer: a sentence that says so.
    pub(crate) silence: Option<String>,
}

impl Model {
    /// Returns the columns of the page.
    pub(crate) fn columns(&self) -> Vec<Column<'_>> {
        match self.page {
            TopPage::Banks => {
                let is_shown =
                    |column: &Column<'_>| column.style != Style::Count || !self.snapshot.is_for_guest();
                BANKS.into_iter().filter(is_shown).collect()
            }
            TopPage::Standings => STANDINGS.to_vec(),
            TopPage::Jobs => {
                let terms = self.snapshot.terms.iter().map(|term| column(term, term, Style::Term));
                JOBS.into_iter().chain(terms).chain([column("held_by", "Held by", Style::Text)]).collect()
            }
        }
    }

    /// Returns the keys of the columns that the page leaves out on a narrow screen. The first column of the list is left out first.
    pub(crate) fn give_up(&self) -> Vec<&str> {
        match self.page {
            TopPage::Banks => vec!["running", "bar", "held", "pending", "level"],
            TopPage::Standings => vec!["level", "usage", "share", "pending", "held", "running"],
            TopPage::Jobs => {
                let mut terms = self.snapshot.terms.iter().map(String::as_str);
                let first = terms.next();
                terms.rev().chain(["job_queue", "job_bank"]).chain(first).collect()
            }
        }
    }

    /// Returns the column that the page is sorted by, its index, and whether the order is reversed.
    pub(crate) fn find_sort_column(&self) -> (Column<'_>, usize, bool) {
        let (steps, reverse) = self.sort.get(self.page as usize).copied().unwrap_or_default();
        let mut columns = self.columns();
        columns.retain(|column| !matches!(column.style, Style::Bar(_)));
        let first = columns.iter().position(|column| column.key == "priority").unwrap_or(0);
        let index = (first + steps) % columns.len();
        (columns.swap_remove(index), index, reverse)
    }

    /// Returns the rows of the page, filtered and sorted. Places and texts are in ascending order, other numbers in descending order.
    /// Banks are in the order of the tree if the page is sorted by the bank.
    pub(crate) fn rows(&self) -> Vec<&TopRow> {
        let mut rows: Vec<&TopRow> = self.filtered_rows().collect();
        let (column, index, reverse) = self.find_sort_column();
        let is_ascending = column.style == Style::Text || column.key == "place";
        rows.sort_by(|a, b| match (a.cells.get(index), b.cells.get(index)) {
            (Some(a), Some(b)) => compare_cells(a, b, is_ascending == reverse),
            _ => Ordering::Equal,
        });
        rows
    }

    /// Returns the rows of the page that contain the text of the filter, in the order of the plugin's answers.
    fn filtered_rows(&self) -> impl Iterator<Item = &TopRow> {
        let wanted = self.filter.to_lowercase();
        let contains = move |cell: &Cell| match cell {
            Cell::Text(text) | Cell::Node { name: text, .. } => text.to_lowercase().contains(&wanted),
            _ => false,
        };
        let is_shown = move |row: &&TopRow| self.filter.is_empty() || row.cells.iter().any(&contains);
        self.page_rows().rows.iter().filter(is_shown)
    }

    fn page_rows(&self) -> &PageRows {
        let [banks, standings, jobs] = &self.snapshot.pages;
        match self.page {
            TopPage::Banks => banks,
            TopPage::Standings => standings,
            TopPage::Jobs => jobs,
        }
    }

    /// Returns the rows for a table. Banks are indented only in the order of the tree.
    pub(crate) fn table_rows(&self) -> Rows<'_> {
        let is_tree = self.find_sort_column().1 == 0 && self.filter.is_empty();
        let rows = self.rows().into_iter().map(move |row| {
            let mut cells = row.cells.clone();
            if let Some(Cell::Node { depth, .. }) = cells.first_mut().filter(|_| !is_tree) {
                *depth = 0;
            }
            cells
        });
        Rows { key: "rows", columns: self.columns(), rows: Box::new(rows) }
    }

    /// Describes the rows on the screen and their number, like "1-19 of 300".
    pub(crate) fn describe_shown_rows(&self) -> String {
        let (count, more) = match &self.open {
            Some((lines, _)) => (lines.len(), false),
            None => (self.filtered_rows().count(), self.page_rows().has_more),
        };
        if count == 0 || self.shown.is_empty() {
            return String::new();
        }
        let (first, last) = (number(self.shown.start + 1), number(self.shown.end));
        format!("{first}-{last} of {}{}", if more { "the first " } else { "" }, number(count))
    }

    /// Returns the index of the selected row.
    pub(crate) fn chosen(&self) -> usize {
        let chosen = self.chosen.get(self.page as usize).copied().unwrap_or_default();
        chosen.min(self.filtered_rows().count().saturating_sub(1))
    }

    /// Shows new data, unless the screen is paused.
    pub(crate) fn take(&mut self, snapshot: Snapshot) {
        if !self.paused {
            self.snapshot = snapshot;
        }
    }

    /// Covers the page with a text.
    pub(crate) fn show(&mut self, lines: Vec<String>) {
        self.open = Some((lines, 0));
    }

    /// Handles a key, and returns the action that it asks for.
    pub(crate) fn press(&mut self, key: KeyEvent) -> Wish {
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(key.code, KeyCode::Char('c')) {
            return Wish::Quit;
        }
        if self.typing {
            self.type_filter(key.code);
            return Wish::Nothing;
        }
        match key.code {
            KeyCode::Char('q') if self.open.is_none() => return Wish::Quit,
            KeyCode::Esc | KeyCode::Char('q' | 'h') | KeyCode::Left if self.open.is_some() => {
                self.open = None
            }
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('?') => self.show(HELP.iter().map(|line| (*line).to_owned()).collect()),
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('g') => return Wish::Refresh,
            KeyCode::Down | KeyCode::Char('j') => self.go(1),
            KeyCode::Up | KeyCode::Char('k') => self.go(-1),
            KeyCode::PageDown => self.go(self.room as isize),
            KeyCode::PageUp => self.go(-(self.room as isize)),
            KeyCode::Home => self.go(isize::MIN),
            KeyCode::End => self.go(isize::MAX),
            _ if self.open.is_some() => {}
            KeyCode::Char('1') => self.page = TopPage::Banks,
            KeyCode::Char('2') => self.page = TopPage::Standings,
            KeyCode::Char('3') => self.page = TopPage::Jobs,
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(2),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.sort_by_next_column(),
            KeyCode::Char('r') => {
                if let Some((_, reverse)) = self.sort.get_mut(self.page as usize) {
                    *reverse = !*reverse;
                }
            }
            KeyCode::Enter => {
                if let Some(job) = self.rows().get(self.chosen()).and_then(|row| row.job) {
                    return Wish::Why(job);
                }
            }
            _ => {}
        }
        Wish::Nothing
    }

    fn type_filter(&mut self, key: KeyCode) {
        match key {
            KeyCode::Enter => self.typing = false,
            KeyCode::Esc => {
                self.typing = false;
                self.filter.clear();
            }
            KeyCode::Backspace => drop(self.filter.pop()),
            KeyCode::Char(letter) if self.filter.chars().count() < LONGEST_FILTER => self.filter.push(letter),
            _ => {}
        }
    }

    /// Shows the page that is `by` pages after this page.
    fn turn(&mut self, by: usize) {
        let next = (self.page as usize + by) % TopPage::VARIANTS.len();
        self.page = TopPage::VARIANTS.get(next).copied().unwrap_or_default();
    }

    fn sort_by_next_column(&mut self) {
        if let Some((steps, reverse)) = self.sort.get_mut(self.page as usize) {
            *steps += 1;
            *reverse = false;
        }
    }

    /// Moves the selection down by `by` rows, or scrolls the open text down by `by` lines.
    fn go(&mut self, by: isize) {
        if let Some((lines, first)) = &mut self.open {
            let last = lines.len().saturating_sub(self.room.max(1));
            *first = first.saturating_add_signed(by).min(last);
            return;
        }
        let (chosen, last) = (self.chosen(), self.filtered_rows().count().saturating_sub(1));
        if let Some(slot) = self.chosen.get_mut(self.page as usize) {
            *slot = chosen.saturating_add_signed(by).min(last);
        }
    }
}

/// The greatest length of a filter, in characters.
const LONGEST_FILTER: usize = 40;

/// The help screen.
const HELP: [&str; 12] = [
    "1 2 3, Tab      banks, standings, jobs",
    "Up Down, j k    previous or next row; also PgUp PgDn Home End",
    "Enter           explain why the selected job is waiting; Esc goes back",
    "s               sort by the next column",
    "r               reverse the order",
    "/               filter the rows by a text; Enter keeps the filter, Esc clears it",
    "p, space        pause or continue",
    "g               refresh now",
    "?               this help",
    "q, Ctrl-C       quit",
    "",
    "Bars: = or green within the share, . unused, + or red above it, | the share.",
];
