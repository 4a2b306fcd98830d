// SPDX-License-Identifier: LGPL-3.0-only
//! The columns of `flux fairshare jobs`: fixed columns, and one for each term of the priority.

use std::collections::HashMap;

use crate::plugin::jobs::{find_hold_other_than_limits, multiply_term_by_weight};
use crate::plugin::scheduling::StoppedQueues;
use crate::ui::figures::number;
use crate::ui::printable::capitalize;
use crate::ui::rows::{Cell, Column, Style, column};
use crate::ui::suggest::did_you_mean;
use crate::ui::words::Words;
use fairshare_engine::engine::answers::{JobsPage, ListedJob};
use fairshare_engine::ids::Word;

/// The fixed columns: definition, letter in sprio's formats, help text.
const COLUMNS: [(Column<'static>, char, &str); 21] = [
    (column("id", "JobId", Style::Text), 'i', "the job id"),
    (column("user", "User", Style::Text), 'u', "the user"),
    (column("bank", "Bank", Style::Text), 'o', "the bank"),
    (column("queue", "Queue", Style::Text), 'r', "the queue"),
    (column("priority", "Priority", Style::Count), 'Y', "the posted priority"),
    (column("place", "Place", Style::Signed), ' ', "its place in its scheduler queue by posted priority"),
    (column("place_of", "Of", Style::Count), ' ', "the number of jobs with a place in that queue"),
    (column("estimated_start", "Start", Style::Time), ' ', "when the scheduler expects it to start"),
    (column("queue_stopped", "Stopped", Style::Flag), ' ', "whether its queue is stopped"),
    (column("state", "State", Style::Text), ' ', "depend, priority or sched"),
    (column("urgency", "Urgency", Style::Id), 'N', "the urgency, 0 to 31"),
    (column("nodes", "Nodes", Style::Count), ' ', "requested nodes"),
    (column("cores", "Cores", Style::Count), ' ', "requested cores"),
    (column("submitted", "Submitted", Style::Time), ' ', "the submit time"),
    (column("sum", "Sum", Style::Term), ' ', "the sum of the terms, before rounding"),
    (column("outcome", "Outcome", Style::Text), ' ', "how the sum became the priority"),
    (
        column("exact", "Exact", Style::Count),
        ' ',
        "the current priority, which differs from the posted one if that is stale",
    ),
    (column("when", "Set", Style::Time), ' ', "when the priority was posted"),
    (
        column("holds", "Held by", Style::Text),
        ' ',
        "the limits that hold it now; in a table, also urgency 0 or score 0",
    ),
    (
        column("kept", "Blocked", Style::Flag),
        ' ',
        "whether something other than this plugin's limits blocks it",
    ),
    (column("userid", "UserId", Style::Id), ' ', "the user id"),
];

/// Returns the fixed columns with their texts for the man page.
#[cfg(test)]
pub(in crate::commands) fn list_described_columns() -> impl Iterator<Item = (Column<'static>, &'static str)> {
    COLUMNS.iter().map(|(column, _, about)| (*column, *about))
}

/// The note that is printed if a table leaves out a term.
pub(super) const PARTS: &str = "the terms that are shown do not sum to the priority";

/// Returns the columns that a table leaves out if it is too wide, in the order in which they are left out.
pub(super) fn give_up() -> Vec<&'static str> {
    let keys = "submitted queue_stopped userid cores nodes kept outcome when sum urgency exact size \
        age_offset age bank_term queue urgency_term state";
    keys.split(' ').collect()
}

/// For each term: sprio's letters of the normalized and of the weighted value, and our name of the term.
const SPRIO: [(char, char, &str); 4] =
    [('f', 'F', "fairshare"), ('a', 'A', "age"), ('j', 'J', "size"), ('p', 'P', "queue_term")];

/// The rows of the table: pending jobs, and what Flux reports about them.
#[derive(Default)]
pub(super) struct Listing {
    pub(super) page: JobsPage,
    /// The scheduler's estimates of starts, by job id.
    pub(super) estimates: HashMap<u64, f64>,
    pub(super) stopped: StoppedQueues,
    /// The half-life of usage in seconds, for `--weights`.
    pub(super) half_life: Option<f64>,
}

/// A column chosen for output.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ChosenColumn {
    /// A fixed column, by its index.
    Fixed(usize),
    /// The term with this index. If the second field is true, the column shows the weighted term.
    Term(usize, bool),
}

/// All columns for a list of terms.
pub(super) struct Columns {
    terms: Vec<Word>,
    /// The key of each term: its name, or NAME_term if a fixed column has that name.
    keys: Vec<String>,
    titles: Vec<String>,
    /// True if terms are shown without their weights by default.
    normalized: bool,
}

impl Columns {
    /// Creates the columns for the terms of an answer.
    pub(super) fn new(terms: &[Word], normalized: bool) -> Columns {
        let key = |term: &Word| if is_fixed_column(term) { format!("{term}_term") } else { term.to_string() };
        let title = |term: &Word| {
            let title = capitalize(term);
            match term.as_ref() {
                "fairshare" => "FairShare".to_owned(),
                "age_offset" => "AgeOffset".to_owned(),
                // Titles are unique.
                term if is_fixed_column(term) => format!("By{title}"),
                _ => title,
            }
        };
        Columns {
            keys: terms.iter().map(key).collect(),
            titles: terms.iter().map(title).collect(),
            terms: terms.to_vec(),
            normalized,
        }
    }

    /// Returns the columns of all terms.
    pub(super) fn list_priority_term_columns(&self) -> impl Iterator<Item = ChosenColumn> {
        (0..self.terms.len()).map(|term| ChosenColumn::Term(term, !self.normalized))
    }

    /// Parses a list of column names, or a format of sprio.
    pub(super) fn parse(&self, text: &str) -> Result<Vec<ChosenColumn>, String> {
        if text.contains('%') {
            return self.parse_sprio_format(text);
        }
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(|name| self.find(name)).collect()
    }

    /// Returns the column whose name, title or letter of sprio is `name`.
    pub(super) fn find(&self, name: &str) -> Result<ChosenColumn, String> {
        let is_called = |text: &str| text.eq_ignore_ascii_case(name);
        let fixed = COLUMNS.iter().position(|(column, ..)| is_called(column.key) || is_called(column.title));
        let term = || self.keys.iter().position(|key| is_called(key));
        if let Some(found) = fixed
            .map(ChosenColumn::Fixed)
            .or_else(|| term().map(|at| ChosenColumn::Term(at, !self.normalized)))
        {
            return Ok(found);
        }
        if let [letter] = name.chars().collect::<Vec<_>>()[..]
            && let Some(found) = self.find_column_by_letter(letter)
        {
            return Ok(found);
        }
        let known: Vec<&str> = self.names().collect();
        let near = did_you_mean(name, known.iter().copied());
        Err(format!("unknown column \"{name}\"; known are {}{near}", known.join(", ")))
    }

    /// Parses a format like sprio's `%.15i %Y %F`; widths are ignored.
    fn parse_sprio_format(&self, text: &str) -> Result<Vec<ChosenColumn>, String> {
        let mut chosen = Vec::new();
        for part in text.split('%').skip(1) {
            let part = part.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
            let letter = part.chars().next().ok_or("expected a letter behind %, as in sprio's formats")?;
            let found = self.find_column_by_letter(letter);
            chosen.push(found.ok_or_else(|| format!("%{letter} of sprio's formats has no column here"))?);
        }
        Ok(chosen)
    }

    fn find_column_by_letter(&self, letter: char) -> Option<ChosenColumn> {
        if letter == ' ' {
            return None;
        }
        if let Some(index) = COLUMNS.iter().position(|(_, theirs, _)| *theirs == letter) {
            return Some(ChosenColumn::Fixed(index));
        }
        let (_, weighted, name) =
            SPRIO.iter().find(|(normal, weighted, _)| [*normal, *weighted].contains(&letter))?;
        let index = self.keys.iter().position(|key| key == name)?;
        Some(ChosenColumn::Term(index, letter == *weighted))
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        COLUMNS.iter().map(|(column, ..)| column.key).chain(self.keys.iter().map(String::as_str))
    }

    /// Returns key, title and style of a column.
    pub(super) fn column(&self, chosen: &ChosenColumn) -> Column<'_> {
        match chosen {
            ChosenColumn::Fixed(at) => {
                COLUMNS.get(*at).map_or(column("", "", Style::Text), |(column, ..)| *column)
            }
            ChosenColumn::Term(at, weighted) => {
                let key = self.keys.get(*at).map_or("", String::as_str);
                let title = self.titles.get(*at).map_or("", String::as_str);
                column(key, title, if *weighted { Style::Term } else { Style::Fraction })
            }
        }
    }
}

fn is_fixed_column(name: &str) -> bool {
    COLUMNS.iter().any(|(column, ..)| column.key == name)
}

/// Returns the cell of the column `chosen` in the row of a job.
pub(super) fn format_cell(
    chosen: &ChosenColumn,
    row: &ListedJob,
    listing: &Listing,
    words: &Words<'_>,
    is_table: bool,
) -> Cell {
    let text = |text: Option<&str>| text.map_or(Cell::None, |text| Cell::Text(text.to_owned()));
    let count = |count: Option<u32>| count.map_or(Cell::None, |count| Cell::Count(count.into()));
    let time = |time: Option<f64>| match time {
        Some(time) if is_table => Cell::Text(words.format_time(time)),
        time => time.into(),
    };
    let is_stopped = listing.stopped.contains(row.queue.as_deref());
    let index = match chosen {
        ChosenColumn::Term(term, weighted) => {
            return match weighted {
                true => multiply_term_by_weight(row, &listing.page, *term).into(),
                false => row.values.get(*term).copied().into(),
            };
        }
        ChosenColumn::Fixed(index) => *index,
    };
    match COLUMNS.get(index).map_or("", |(column, ..)| column.key) {
        "id" => Cell::Text(words.job(row.id.0)),
        "user" => Cell::Text(words.user(row.userid.0)),
        "bank" => text(row.bank.as_deref()),
        "queue" if is_table && is_stopped => {
            Cell::Text(format!("{} (stopped)", row.queue.as_deref().unwrap_or("")).trim_start().to_owned())
        }
        "queue" => text(row.queue.as_deref()),
        "priority" => count(row.priority),
        "place" => match row.place {
            Some(line) if is_table => Cell::Text(format!("{} of {}", number(line.place), number(line.of))),
            line => line.map_or(Cell::None, |line| Cell::Count(line.place as u64)),
        },
        "place_of" => row.place.map_or(Cell::None, |line| Cell::Count(line.of as u64)),
        "estimated_start" => time(listing.estimates.get(&row.id.0).copied()),
        "queue_stopped" => Cell::Flag(is_stopped),
        "state" => Cell::Text(row.state.to_string()),
        "urgency" => count(row.urgency.map(u32::from)),
        "nodes" => Cell::Count(row.nodes),
        "cores" => Cell::Count(row.cores),
        "submitted" => time(row.submitted),
        "sum" => row.sum.into(),
        "outcome" => text(row.outcome.as_deref()),
        "exact" => count(row.exact),
        "when" => time(row.when),
        "holds" if row.holds.is_empty() => text(find_hold_other_than_limits(row).filter(|_| is_table)),
        "holds" => Cell::Text(row.holds.join(",")),
        "kept" => Cell::Flag(row.is_kept),
        "userid" => Cell::Count(row.userid.0.into()),
        _ => Cell::None,
    }
}

/// One line per column, for the manual page.
pub(super) fn help() -> String {
    let mut text = "Columns:\n".to_owned();
    for (column, letter, what) in &COLUMNS {
        let letter = if *letter == ' ' { String::new() } else { format!(" (sprio's %{letter})") };
        text.push_str(&format!("  {:<22}{what}{letter}\n", column.key));
    }
    text.push_str(
        "  fairshare, age, ..    a term: factor times weight, or with --normalized the factor alone; named NAME_term if another column is named NAME\n",
    );
    text
}

/// Returns true for the column of job ids.
pub(super) fn is_id(chosen: &ChosenColumn) -> bool {
    *chosen == ChosenColumn::Fixed(0)
}
