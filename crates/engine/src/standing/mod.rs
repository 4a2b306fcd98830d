// SPDX-License-Identifier: LGPL-3.0-only
//! Live fair-share: what every association has used and where it stands, as of any instant.
//!
//! ```text
//! Site (a push) ──> tree ─────────────┐
//!                 └> base of a cell   ├─> refresh(now) ──> changed fair-shares
//! jobs start, end ─> jobs of a cell ──┘
//! ```
//!
//! An association has a **cell**: the usage that was pushed with the watermark that says which ended jobs are in it, and the
//! jobs that are not. Its usage at an instant is a function of these and the instant, so neither the order in which pushes,
//! starts and ends arrive nor how often they do changes it, and no clock leaves a trace in it.
//!
//! # Rules
//!
//! - A leaf is known by user name and bank, a job's association by user id and bank. If several leaves of a bank have one user id,
//!   its jobs count in the leaf that comes last in the push, as its limits are those of the last record.
//! - A job is known by its id. It belongs to the association under which it started, for as long as it counts. If two ends are
//!   told, the earlier stands. An end may be told of a job whose start never was.
//! - A job counts unless the watermark of its association covers its end. Jobs that a push covers are still remembered
//!   for a while, so that an older push that comes late, or one with an earlier watermark, counts them again.
//! - **Memory**: beyond a number of ended jobs over all ([`Memory`]), those that ended first are given up association by
//!   association: what is covered is forgotten, what is not becomes one decaying sum. No watermark can take that sum apart
//!   any more. A push whose watermark lies before or inside it leaves the association's usage as it is, which is exact;
//!   one that covers all of it replaces it. Until [`Standing::remember_all`] is lifted nothing is given up, so that jobs
//!   that are read back after a restart may come in any order. After that an unknown job which ended before what was given
//!   up is taken for one of those.
//! - An association that **appears** counts its jobs from the start, also those that began before it did. One that
//!   **disappears** has no fair-share; its cell is kept as long as it has jobs that may count again. One that **moves** to another
//!   bank is another association: what ran in the old bank stays there, as in the accounting database.
//! - A bank that moves takes its associations along, with all they used.
//! - A push replaces the tree; with [`Site::replaces_all`] also what was given up, whatever the watermarks say.
//! - Weights count for all jobs that are remembered one by one, from the push that brings them.
//! - A usage below 1e-9 reads as 0.
//!
//! # How
//!
//! The tree holds scaled usages ([`fairshare::accrual::Scale`]): of an association that runs nothing the number stays the
//! same, bit by bit, until its usage becomes negligible. A refresh works out the cells in which something runs or happened, and
//! ranks the tree if one of them has moved. It is done in slices ([`Standing::step`]).

mod cell;
mod change;
mod draft;
mod interleave;
mod jobs;
mod kept;
mod order;
mod page;
mod push;
mod refresh;
mod site;

use rustc_hash::FxHashMap;

use crate::ids::{BankName, JobId, UserId};
use fairshare::accrual::{Mode, Scale};
use fairshare::periods::Weights;
use fairshare::{NodeId, Options, Policy, Ranking, Tree};

use cell::{Cell, Key};
use refresh::Work;

pub use change::SiteChange;
pub use draft::{Draft, RESET, Rule, SitePart};
pub use interleave::{Charging, Turns};
pub use jobs::{BadJob, Job};
pub use kept::{AsPushed, Bookmark, Ended, GivenUp};
pub use page::{BankRow, LeafRow, TreePage};
pub use refresh::{Changed, Refreshed};
pub use site::{Bank, Leaf, Site, SiteError, Watermark};

/// An association of one [`Standing`]: an index that stays what it is from push to push, as long as the association or a
/// job of it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Index(u32);

impl Index {
    /// A dense number, for a caller's own columns.
    pub fn get(self) -> usize {
        self.0 as usize
    }
}

/// Leaves that share a user id with a later leaf of the same bank. Jobs of that id count in the later leaf.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedIds {
    /// How many leaves no job can match for this reason.
    pub leaves: usize,
    /// One of these leaves: user name, user id, bank.
    pub example: (Box<str>, UserId, BankName),
    /// The user name of the leaf in which jobs of that id count.
    pub counts_in: Box<str>,
}

/// How many ended jobs are remembered one by one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Over all associations, before any is given up.
    pub jobs: usize,
    /// Of each association in any case: its last ones.
    pub each: usize,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { jobs: 200_000, each: 16 }
    }
}

/// Where a job is remembered.
#[derive(Clone, Copy, Debug)]
struct Place {
    cell: u32,
    slot: Slot,
}

/// Its place among the jobs of the cell that run, or among those that ended.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Running(u32),
    Ended(u32),
}

/// What is the same for all, from the last push.
#[derive(Clone, Debug)]
struct Rules {
    instant: f64,
    reset: f64,
    weights: Weights,
    mode: Mode,
    policy: Policy,
    options: Options,
}

/// All associations with what they have used, and the jobs that go on using.
#[derive(Clone, Debug, Default)]
pub struct Standing {
    cells: Vec<Cell>,
    /// Cells that may be used again.
    free: Vec<u32>,
    /// How many became free so far.
    freed: u64,
    /// Where the jobs of a user in a bank count.
    by_key: FxHashMap<(UserId, BankName), u32>,
    /// Leaves that no job matches, by user name and bank.
    by_name: FxHashMap<(Box<str>, BankName), u32>,
    shared_ids: Option<SharedIds>,
    by_id: FxHashMap<JobId, Place>,
    site: Option<Ranked>,
    work: Work,
    memory: Memory,
    /// Ended jobs that are remembered one by one.
    ended: usize,
    keep_all: bool,
    /// A push went before all that was told until then, whatever its watermarks say.
    has_replaced_all: bool,
    generation: u64,
}

/// The site of the last push with its ranking.
#[derive(Clone, Debug)]
struct Ranked {
    rules: Rules,
    tree: Tree,
    scale: Scale,
    ranking: Ranking,
    /// Whether that is of this tree: a push brings the tree, and a refresh, which may come later, ranks it.
    is_ranked: bool,
    /// By leaf.
    cell_of: Vec<u32>,
    /// Banks with a usage of their own, as pushed.
    own_usage: Vec<(NodeId, f64)>,
}

impl Standing {
    /// One that remembers so many ended jobs.
    pub fn new(memory: Memory) -> Standing {
        Standing { memory, ..Standing::default() }
    }

    /// Whether ended jobs are remembered one by one whatever their number is: while they are read back.
    pub fn remember_all(&mut self, on: bool) {
        self.keep_all = on;
    }

    /// Whether the tree has a bank of this name.
    pub fn has_bank(&self, name: &str) -> bool {
        self.tree().is_some_and(|tree| tree.bank(name).is_some())
    }

    /// The association of a user in a bank, if it is in the tree or a job of it is known.
    pub fn find(&self, user: UserId, bank: &BankName) -> Option<Index> {
        // A name is a reference count: cloning one is cheaper than a map of maps.
        self.by_key.get(&(user, bank.clone())).copied().map(Index)
    }

    /// Returns the user id and the bank whose jobs count in an association; `None` for a leaf that no job matches.
    pub fn key(&self, association: Index) -> Option<(UserId, &BankName)> {
        self.cell(association)?.job_key()
    }

    /// Returns which leaves of the last push share a user id with another leaf of their bank, if any do.
    pub fn shared_ids(&self) -> Option<&SharedIds> {
        self.shared_ids.as_ref()
    }

    /// The fair-share as of the last refresh. `None` for an association that the tree does not have, or that is inactive.
    pub fn fairshare(&self, association: Index) -> Option<f64> {
        self.cell(association)?.fairshare
    }

    /// The usage at an instant, exactly, whether refreshed or not; `None` before the first push.
    pub fn usage(&self, association: Index, now: f64) -> Option<f64> {
        let site = self.site.as_ref()?;
        Some(self.cell(association)?.usage(now, site.rules.mode, site.scale.half_life()))
    }

    /// The node of an association in [`Standing::tree`].
    pub fn node(&self, association: Index) -> Option<NodeId> {
        self.cell(association)?.leaf
    }

    /// The association of a leaf of [`Standing::tree`].
    pub fn association(&self, leaf: NodeId) -> Option<Index> {
        self.site.as_ref()?.cell_of.get(leaf.index()).copied().map(Index)
    }

    /// The tree as of the last refresh; its usages are scaled, which changes no comparison.
    pub fn tree(&self) -> Option<&Tree> {
        self.site.as_ref().map(|site| &site.tree)
    }

    /// The ranking as of the last refresh; its usages are scaled. `None` before the first since the push: nobody is ranked then.
    pub fn ranking(&self) -> Option<&Ranking> {
        self.site.as_ref().filter(|site| site.is_ranked).map(|site| &site.ranking)
    }

    /// The units of the usages in the tree.
    pub fn scale(&self) -> Option<Scale> {
        self.site.as_ref().map(|site| site.scale)
    }

    /// Options as they apply to the tree at an instant: a usage in them is in the tree's units. For another policy on the same
    /// tree.
    pub fn scaled_options(&self, options: &Options, now: f64) -> Options {
        let factor = self.site.as_ref().map_or(1.0, |site| site.scale.factor(now));
        options.scaled(factor)
    }

    /// The earliest instant up to which the ended jobs of any association in the tree are counted, beyond `since`.
    pub fn counted_from(&self, since: f64) -> f64 {
        let in_tree = self.cells.iter().filter(|cell| cell.leaf.is_some());
        in_tree.map(Cell::counted_until).fold(f64::INFINITY, f64::min).max(since)
    }

    /// So many seconds: job-list is asked no farther back for jobs that ended. From the last push.
    pub fn reset(&self) -> f64 {
        self.site.as_ref().map_or(RESET, |site| site.rules.reset)
    }

    /// The rule by which the tree is ranked.
    pub fn rule(&self) -> Option<(Policy, Options)> {
        self.site.as_ref().map(|site| (site.rules.policy, site.rules.options))
    }

    /// What a second of a job counts, from the last push; `None` before the first.
    pub fn weights(&self) -> Option<Weights> {
        self.site.as_ref().map(|site| site.rules.weights)
    }

    /// Counts the refreshes that changed a fair-share, and the pushes.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Associations with a cell, running jobs, ended jobs that are remembered.
    pub fn counts(&self) -> (usize, usize, usize) {
        (self.by_key.len() + self.by_name.len(), self.by_id.len().saturating_sub(self.ended), self.ended)
    }

    fn cell(&self, association: Index) -> Option<&Cell> {
        self.cells.get(association.get()).filter(|cell| cell.key.is_some())
    }

    /// The cell of an association, a new one if need be.
    fn cell_for(&mut self, user: UserId, bank: &BankName) -> u32 {
        let key = (user, bank.clone());
        if let Some(&known) = self.by_key.get(&key) {
            return known;
        }
        let at = self.new_cell(Key::Jobs(user, bank.clone()));
        self.by_key.insert(key, at);
        at
    }

    /// The cell of a leaf that no job matches, a new one if need be.
    fn cell_without_jobs(&mut self, name: &str, bank: &BankName) -> u32 {
        let key = (name.into(), bank.clone());
        if let Some(&known) = self.by_name.get(&key) {
            return known;
        }
        let at = self.new_cell(Key::Leaf(name.into(), bank.clone()));
        self.by_name.insert(key, at);
        at
    }

    /// The cell of a leaf, a new one if need be.
    fn cell_of_leaf(&mut self, leaf: &Leaf) -> u32 {
        match leaf.user {
            Some(user) => self.cell_for(user, &leaf.bank),
            None => self.cell_without_jobs(&leaf.name, &leaf.bank),
        }
    }

    fn new_cell(&mut self, key: Key) -> u32 {
        let cell = Cell::new(key);
        let at = match self.free.pop() {
            Some(at) => at,
            None => {
                self.cells.push(Cell::default());
                self.cells.len() as u32 - 1
            }
        };
        if let Some(slot) = self.cells.get_mut(at as usize) {
            *slot = cell;
        }
        at
    }
}

#[cfg(test)]
mod tests;
