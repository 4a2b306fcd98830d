// SPDX-License-Identifier: LGPL-3.0-only
//! Compares two rankings: the places that each association gains or loses, and the sums for each bank.

use serde::Serialize;

use super::names::add_sums_to_banks_above;
use super::tau::kendall_tau;
use crate::ui::figures::number;
use crate::ui::output::{Facts, Report};
use crate::ui::printable::count;
use crate::ui::rows::{Cell, Column, Rows, Style, column};
use fairshare::{NodeId, Ranking, Tree};

/// A ranked tree.
#[derive(Clone, Copy)]
pub(crate) struct RankedTree<'a> {
    pub(crate) tree: &'a Tree,
    pub(crate) ranking: &'a Ranking,
}

/// An association in the second ranking, and its change since the first ranking. The first ranking may lack the association.
pub(crate) struct Move {
    before: Option<NodeId>,
    after: NodeId,
    places: (Option<usize>, usize),
    /// The number of places by which the association rises in the ranking; negative if it falls.
    pub(crate) gain: i64,
}

/// How the place of each association changes between two rankings.
pub(crate) struct Moves<'a> {
    before: RankedTree<'a>,
    after: RankedTree<'a>,
    /// Sorted by descending gain. Equal gains are in the order of the tree.
    list: Vec<Move>,
    winners: usize,
    losers: usize,
    tau: Option<f64>,
}

impl<'a> Moves<'a> {
    /// Compares all associations that `after` ranks. `before_of` finds an association in the first tree.
    pub(crate) fn new(
        before: RankedTree<'a>,
        after: RankedTree<'a>,
        before_of: impl Fn(NodeId) -> Option<NodeId>,
    ) -> Moves<'a> {
        let place = |side: RankedTree<'_>, node| side.ranking.place(node);
        let moved = |node: NodeId| {
            let was = before_of(node);
            let places = (was.and_then(|was| place(before, was)), place(after, node)?);
            let gain = places.0.map_or(0, |first| first as i64 - places.1 as i64);
            Some(Move { before: was, after: node, places, gain })
        };
        let mut list: Vec<Move> = after.tree.leaves().filter_map(moved).collect();
        let ranks = |moved: &Move| {
            let rank = before.ranking.rank(moved.before?)?;
            Some((rank, after.ranking.rank(moved.after)?))
        };
        let tau = kendall_tau(&list.iter().filter_map(ranks).collect::<Vec<_>>());
        let winners = list.iter().filter(|moved| moved.gain > 0).count();
        let losers = list.iter().filter(|moved| moved.gain < 0).count();
        list.sort_by(|a, b| b.gain.cmp(&a.gain).then(a.after.cmp(&b.after)));
        Moves { before, after, list, winners, losers, tau }
    }

    /// Returns the totals for JSON documents.
    pub(crate) fn totals(&self) -> RankChangeTotals {
        RankChangeTotals {
            ranked: self.list.len(),
            winners: self.winners,
            losers: self.losers,
            kendall_tau: self.tau,
        }
    }

    /// Returns the report with at most `limit` winners and `limit` losers. `titles` names the columns of the two rankings.
    pub(crate) fn report<'r>(
        &'r self,
        titles: &Titles<'r>,
        facts: Facts,
        limit: Option<usize>,
    ) -> Report<'r> {
        let shown: Vec<&Move> = match limit {
            None => self.list.iter().collect(),
            Some(limit) => {
                let first_loser = self.list.len() - self.losers.min(limit);
                let new = self.list.iter().filter(|moved| moved.places.0.is_none());
                let winners = self.list.iter().take(self.winners.min(limit));
                winners.chain(new).chain(self.list.iter().skip(first_loser)).collect()
            }
        };
        let mut notes = Vec::new();
        let new = self.list.iter().filter(|moved| moved.places.0.is_none()).count();
        let left_out = (self.winners + self.losers + new).saturating_sub(shown.len());
        if left_out > 0 && limit.is_some() {
            notes.push(format!("and {} more (--limit 0 shows all)", number(left_out)));
        }
        notes.extend(self.notes(new));
        let rows = shown.into_iter().map(|moved| self.make_cells_of_moved_node(moved));
        Report {
            facts,
            rows: Rows { key: "associations", columns: move_columns(titles), rows: Box::new(rows) },
            more: Some(self.bank_rows(limit.is_some())),
            notes,
            ..Report::default()
        }
    }

    fn notes(&self, new: usize) -> Vec<String> {
        let stay = self.list.len() - self.winners - self.losers - new;
        let mut text = format!(
            "{}: {} up, {} down, {} in the same place",
            count(self.list.len(), "association"),
            number(self.winners),
            number(self.losers),
            number(stay),
        );
        if new > 0 {
            text.push_str(&format!(", {} new", number(new)));
        }
        let tau = match self.tau {
            Some(tau) => format!("Kendall tau {tau:.6} (1: same order, -1: reversed)"),
            None => "Kendall tau: nothing to compare, all are tied".to_owned(),
        };
        vec![text, tau]
    }

    fn make_cells_of_moved_node(&self, moved: &Move) -> Vec<Cell> {
        let RankedTree { tree, ranking } = self.after;
        let was = |value: fn(&Ranking, NodeId) -> Option<f64>| {
            moved.before.and_then(|was| value(self.before.ranking, was))
        };
        vec![
            Cell::Text(tree.name(moved.after).to_owned()),
            tree.parent(moved.after).map_or(Cell::None, |bank| Cell::Text(tree.name(bank).to_owned())),
            moved.places.0.map_or(Cell::None, |place| Cell::Count(place as u64)),
            Cell::Count(moved.places.1 as u64),
            if moved.places.0.is_some() { Cell::Gain(moved.gain) } else { Cell::None },
            was(Ranking::fairshare).into(),
            ranking.fairshare(moved.after).into(),
        ]
    }

    /// Returns a row for each bank. The row sums the places that the associations below the bank gain or lose. If `moved_only` is
    /// set, leaves out banks whose associations all keep their places.
    fn bank_rows(&self, moved_only: bool) -> Rows<'_> {
        let tree = self.after.tree;
        let mut sums = vec![Sum::default(); tree.len()];
        for moved in &self.list {
            if let Some(sum) = sums.get_mut(moved.after.index()) {
                let (up, down) = (moved.gain > 0, moved.gain < 0);
                *sum = Sum { users: 1, winners: up.into(), losers: down.into(), gain: moved.gain };
            }
        }
        add_sums_to_banks_above(tree, &mut sums, Sum::add_sum);
        let rows = self.after.ranking.walk(tree).into_iter().filter_map(move |(node, depth)| {
            let sum = *sums.get(node.index())?;
            let bank = tree.kind(node) == fairshare::NodeKind::Bank;
            (bank && sum.users > 0 && (!moved_only || sum.winners + sum.losers > 0)).then(|| {
                vec![
                    Cell::Node { depth, bank, name: tree.name(node).to_owned() },
                    Cell::Count(sum.users),
                    Cell::Count(sum.winners),
                    Cell::Count(sum.losers),
                    Cell::Gain(sum.gain),
                ]
            })
        });
        Rows { key: "banks", columns: BANK_COLUMNS.to_vec(), rows: Box::new(rows) }
    }
}

/// The columns of the table of banks. Each row sums the places that the associations below a bank gain or lose.
pub(crate) const BANK_COLUMNS: [Column<'static>; 5] = [
    column("bank", "Bank", Style::Text),
    column("users", "Users", Style::Count),
    column("winners", "Gain", Style::Count),
    column("losers", "Lose", Style::Count),
    column("change", "Places", Style::Count),
];

/// How many associations gain or lose places, and how similar the two rankings are.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct RankChangeTotals {
    /// The number of associations that the second ranking ranks.
    ranked: usize,
    /// The number of associations that gain places.
    winners: usize,
    /// The number of associations that lose places.
    losers: usize,
    /// Kendall's tau of the two orders: 1 for the same order, -1 for the reverse; null if all are tied.
    kendall_tau: Option<f64>,
}

/// The number of users below a bank that gain or lose places, and the sums of their changes.
#[derive(Clone, Copy, Default)]
struct Sum {
    users: u64,
    winners: u64,
    losers: u64,
    gain: i64,
}

impl Sum {
    fn add_sum(&mut self, other: &Sum) {
        self.users += other.users;
        self.winners += other.winners;
        self.losers += other.losers;
        self.gain += other.gain;
    }
}

/// The titles of the columns of the two rankings.
pub(crate) struct Titles<'a> {
    pub(crate) places: [&'a str; 2],
    pub(crate) fairshares: [&'a str; 2],
}

/// Columns that a table leaves out if it is too wide.
pub(crate) const GIVE_UP: &[&str] = &["fairshare_first", "fairshare_second"];

/// Returns the columns of associations.
pub(crate) fn move_columns<'a>(titles: &Titles<'a>) -> Vec<Column<'a>> {
    let Titles { places: [place, other_place], fairshares: [fairshare, other_fairshare] } = *titles;
    vec![
        column("user", "User", Style::Text),
        column("bank", "Bank", Style::Text),
        column("place_first", place, Style::Count),
        column("place_second", other_place, Style::Count),
        column("change", "Change", Style::Count),
        column("fairshare_first", fairshare, Style::Fraction),
        column("fairshare_second", other_fairshare, Style::Fraction),
    ]
}
