// SPDX-License-Identifier: LGPL-3.0-only
//! The state of `top`: a function of the plugin's last answers and the keys pressed. It uses no terminal, no clock and no plugin.

use std::cmp::Ordering;
use std::ops::Range;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use crate::ui::figures::number;

/// The data that `top` shows, from the plugin's last answers. Names that users chose are escaped when a
/// snapshot is built.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Snapshot {
    /// Lines at the top, about the plugin's data and the jobs.
    pub(crate) facts: Vec<String>,
    pub(crate) banks: Vec<BankLine>,
    pub(crate) standings: Vec<AssociationTableRow>,
    /// Names of the terms whose sum is a priority.
    pub(crate) terms: Vec<String>,
    pub(crate) jobs: Vec<JobLine>,
    /// Number of held jobs for each limit.
    pub(crate) held: Vec<(String, u64)>,
    /// How long refreshes and pushes take. Empty if the caller may not see it.
    pub(crate) cost: Vec<(String, String)>,
    /// Whether the plugin has more associations than the list `standings` contains.
    pub(crate) more_standings: bool,
    /// Whether the plugin has more pending jobs than the list `jobs` contains.
    pub(crate) more_jobs: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct BankLine {
    pub(crate) depth: usize,
    pub(crate) name: String,
    /// The share and the usage, as fractions of the totals of the bank and its siblings.
    pub(crate) share: f64,
    pub(crate) usage: f64,
    pub(crate) level_fs: Option<f64>,
    /// Jobs, including jobs of the banks below; `None` if the caller may not see them.
    pub(crate) running: Option<u64>,
    pub(crate) pending: Option<u64>,
    pub(crate) held: Option<u64>,
}

/// The row of an association: its place, fair-share, share, usage and jobs.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct AssociationTableRow {
    pub(crate) user: String,
    pub(crate) bank: String,
    pub(crate) place: Option<(usize, usize)>,
    pub(crate) fairshare: Option<f64>,
    /// Share and usage, as fractions of the totals of all users in the bank.
    pub(crate) share: Option<f64>,
    pub(crate) usage: Option<f64>,
    pub(crate) level_fs: Option<f64>,
    pub(crate) running: u64,
    pub(crate) pending: u64,
    pub(crate) held: u64,
}

/// A pending job.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct JobLine {
    pub(crate) id: u64,
    /// The id as Flux shows it.
    pub(crate) name: String,
    pub(crate) user: String,
    pub(crate) bank: String,
    pub(crate) queue: String,
    pub(crate) priority: Option<u64>,
    /// Each term's value times its weight, in the order of [`Snapshot::terms`].
    pub(crate) products: Vec<f64>,
    /// Why the job does not start: its limits, "urgency 0" or "score 0" at priority 0, "others" if something else blocks it, or "stopped queue".
    pub(crate) held_by: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum TopPage {
    #[default]
    Overview,
    Standings,
    Jobs,
}

impl TopPage {
    pub(crate) const ALL: [(TopPage, &'static str); 3] =
        [(TopPage::Overview, "Banks"), (TopPage::Standings, "Standings"), (TopPage::Jobs, "Jobs")];
}

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
    /// The index of the column that each page is sorted by, and whether the order is reversed.
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
    /// True if the screen is printed once and then ends, so that keys have no effect.
    pub(crate) is_printed: bool,
    /// While the plugin does not answer: a sentence that says so.
    pub(crate) silence: Option<String>,
}

impl Model {
    /// Returns the index of the page in the arrays `sort` and `chosen`.
    fn page_index(&self) -> usize {
        match self.page {
            TopPage::Overview => 0,
            TopPage::Standings => 1,
            TopPage::Jobs => 2,
        }
    }

    /// Returns the titles of the columns that the page can be sorted by.
    pub(crate) fn titles(&self) -> Vec<String> {
        let fixed = |titles: &str| titles.split(',').map(str::to_owned).collect::<Vec<_>>();
        match self.page {
            TopPage::Overview => fixed("tree,share,usage,level,running,pending,held"),
            TopPage::Standings => fixed("place,user,bank,fair-share,share,usage,level,running,pending,held"),
            TopPage::Jobs => {
                let mut titles = fixed("priority,user,bank,queue,held by");
                titles.extend(self.snapshot.terms.iter().cloned());
                titles
            }
        }
    }

    /// Returns the title of the column that the page is sorted by, and whether the order is reversed.
    pub(crate) fn find_sort_column(&self) -> (String, bool) {
        let (column, reverse) = self.sort.get(self.page_index()).copied().unwrap_or_default();
        (self.titles().get(column).cloned().unwrap_or_default(), reverse)
    }

    pub(crate) fn banks(&self) -> Vec<&BankLine> {
        self.rows(
            &self.snapshot.banks,
            |bank| vec![&bank.name],
            |column, a, b| match column {
                1 => b.share.total_cmp(&a.share),
                2 => b.usage.total_cmp(&a.usage),
                3 => compare_descending(a.level_fs, b.level_fs),
                4 => b.running.cmp(&a.running),
                5 => b.pending.cmp(&a.pending),
                6 => b.held.cmp(&a.held),
                _ => Ordering::Equal,
            },
        )
    }

    pub(crate) fn standings(&self) -> Vec<&AssociationTableRow> {
        self.rows(
            &self.snapshot.standings,
            |standing| vec![&standing.user, &standing.bank],
            |column, a, b| match column {
                // Associations that have no rank come last.
                0 => a.place.is_none().cmp(&b.place.is_none()).then(a.place.cmp(&b.place)),
                1 => a.user.cmp(&b.user),
                2 => a.bank.cmp(&b.bank),
                3 => compare_descending(a.fairshare, b.fairshare),
                4 => compare_descending(a.share, b.share),
                5 => compare_descending(a.usage, b.usage),
                6 => compare_descending(a.level_fs, b.level_fs),
                7 => b.running.cmp(&a.running),
                8 => b.pending.cmp(&a.pending),
                _ => b.held.cmp(&a.held),
            },
        )
    }

    pub(crate) fn jobs(&self) -> Vec<&JobLine> {
        self.rows(
            &self.snapshot.jobs,
            |job| vec![&job.name, &job.user, &job.bank, &job.queue, &job.held_by],
            |column, a, b| {
                let order = match column {
                    0 => b.priority.cmp(&a.priority),
                    1 => a.user.cmp(&b.user),
                    2 => a.bank.cmp(&b.bank),
                    3 => a.queue.cmp(&b.queue),
                    4 => b.held_by.cmp(&a.held_by),
                    term => compare_descending(
                        a.products.get(term - 5).copied(),
                        b.products.get(term - 5).copied(),
                    ),
                };
                order.then(a.id.cmp(&b.id))
            },
        )
    }

    /// Returns the rows of the page, filtered and sorted.
    fn rows<'a, T>(
        &self,
        all: &'a [T],
        texts: impl Fn(&T) -> Vec<&String>,
        compare: impl Fn(usize, &T, &T) -> Ordering,
    ) -> Vec<&'a T> {
        let wanted = self.filter.to_lowercase();
        let matches = |row: &&T| texts(row).iter().any(|text| text.to_lowercase().contains(&wanted));
        let mut rows: Vec<&T> = all.iter().filter(matches).collect();
        let (column, reverse) = self.sort.get(self.page_index()).copied().unwrap_or_default();
        rows.sort_by(|a, b| compare(column, a, b));
        if reverse {
            rows.reverse();
        }
        rows
    }

    /// Returns the number of rows of the page.
    fn count(&self) -> usize {
        match self.page {
            TopPage::Overview => self.banks().len(),
            TopPage::Standings => self.standings().len(),
            TopPage::Jobs => self.jobs().len(),
        }
    }

    /// Describes the rows on the screen and their number, like "1-19 of 300".
    pub(crate) fn describe_shown_rows(&self) -> String {
        let (count, more) = match (&self.open, self.page) {
            (Some((lines, _)), _) => (lines.len(), false),
            (None, TopPage::Overview) => (self.count(), false),
            (None, TopPage::Standings) => (self.count(), self.snapshot.more_standings),
            (None, TopPage::Jobs) => (self.count(), self.snapshot.more_jobs),
        };
        if count == 0 || self.shown.is_empty() {
            return String::new();
        }
        let (first, last) = (number(self.shown.start + 1), number(self.shown.end));
        format!("{first}-{last} of {}{}", if more { "the first " } else { "" }, number(count))
    }

    /// Returns the index of the selected row.
    pub(crate) fn chosen(&self) -> usize {
        let chosen = self.chosen.get(self.page_index()).copied().unwrap_or_default();
        chosen.min(self.count().saturating_sub(1))
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
            KeyCode::Char('1') => self.page = TopPage::Overview,
            KeyCode::Char('2') => self.page = TopPage::Standings,
            KeyCode::Char('3') => self.page = TopPage::Jobs,
            KeyCode::Tab => self.turn(1),
            KeyCode::BackTab => self.turn(2),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('s') => self.sort_by_next_column(),
            KeyCode::Char('r') => {
                let at = self.page_index();
                if let Some((_, reverse)) = self.sort.get_mut(at) {
                    *reverse = !*reverse;
                }
            }
            KeyCode::Enter if self.page == TopPage::Jobs => {
                if let Some(job) = self.jobs().get(self.chosen()) {
                    return Wish::Why(job.id);
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
        let next = (self.page_index() + by) % TopPage::ALL.len();
        self.page = TopPage::ALL.get(next).map_or(TopPage::Overview, |(page, _)| *page);
    }

    fn sort_by_next_column(&mut self) {
        let (at, columns) = (self.page_index(), self.titles().len().max(1));
        if let Some((column, reverse)) = self.sort.get_mut(at) {
            *column = (*column + 1) % columns;
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
        let (at, chosen, last) = (self.page_index(), self.chosen(), self.count().saturating_sub(1));
        if let Some(slot) = self.chosen.get_mut(at) {
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
    "Bars: = usage up to the share, . unused share, + usage above it, | the share.",
];

/// Compares two numbers. The larger number comes first, and `None` comes last.
fn compare_descending(a: Option<f64>, b: Option<f64>) -> Ordering {
    match (a, b) {
        (Some(a), Some(b)) => b.total_cmp(&a),
        (a, b) => b.is_some().cmp(&a.is_some()),
    }
}
