// SPDX-License-Identifier: LGPL-3.0-only
//! What was pushed, and the usage that no push covers yet, told again: for whoever keeps it for after a restart.
//!
//! What is told of jobs is to be taken before the push: it may have to leave alone what was given up. It is told over many turns:
//! jobs may be given up in between, and then they are in a sum that is told after them.

use super::cell::Cell;
use super::{Bank, Job, Leaf, Rule, Standing, Watermark};
use crate::ids::{BankName, UserId};
use fairshare::Ranking;
use fairshare::accrual::{HalfLife, MAX_PUSHED, MAX_TIME};

/// A job that is over and that no push covers: for [`Standing::ended`].
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The job.
    pub job: Job,
    /// When it ended.
    pub end: f64,
}

/// What was given up of an association, and the pushed usage that it stands beside.
#[derive(Clone, Debug, PartialEq)]
pub struct GivenUp {
    /// Who.
    pub user: UserId,
    /// In which bank.
    pub bank: BankName,
    /// The usage of what was given up.
    pub sum: f64,
    /// As of when.
    pub since: f64,
    /// Everything that ended up to here was given up.
    pub horizon: f64,
    /// The usage that was pushed.
    pub pushed: f64,
    /// As of when.
    pub at: f64,
    /// Which ended jobs are in it.
    pub counted: Watermark,
}

/// How far the ended jobs that no push covers were told; none of them at first.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Bookmark {
    cell: usize,
    /// The place among the ended jobs of that cell.
    job: usize,
    /// [`Cell::sorted`](super::cell::Cell::sorted) then.
    sorted: u32,
}

/// What the tree makes of the usages that were pushed, and of nothing else.
#[derive(Clone, Debug)]
pub struct AsPushed(Ranking);

impl Standing {
    /// Ranks the tree by the usages that were pushed: whoever pushes the same tree again, in any order, gets the same
    /// numbers, bit by bit. `None` without a tree, and where it takes more than what is told of it: the order in which it came.
    pub fn as_pushed(&self) -> Option<AsPushed> {
        let site = self.site.as_ref()?;
        let rules = &site.rules;
        if rules.policy.uses_list_order(&rules.options) {
            return None;
        }
        let mut tree = site.tree.clone();
        for (bank, usage) in &site.own_usage {
            tree.accrue(*bank, *usage);
        }
        for (leaf, cell) in site.tree.leaves().zip(&site.cell_of) {
            tree.accrue(leaf, self.cells.get(*cell as usize)?.pushed().0);
        }
        tree.rank(rules.policy, &rules.options).ok().map(AsPushed)
    }

    /// The fair-share of an association there.
    pub fn fairshare_as_pushed(&self, it: &AsPushed, user: UserId, bank: &BankName) -> Option<f64> {
        it.0.fairshare(self.cell(self.find(user, bank)?)?.leaf?)
    }

    /// Ended jobs that no push covers, and what was given up, from a place on: at most `most` jobs of at most `most`
    /// associations. The sum of an association comes with its last page. If jobs were given up between pages they are in that sum,
    /// and were also told one by one; [`Standing::gave_up`] removes them again. The last is the place to go on from, if any are
    /// left.
    pub fn uncovered(&self, from: Bookmark, most: usize) -> (Vec<Ended>, Vec<GivenUp>, Option<Bookmark>) {
        let half_life = self.site.as_ref().map_or(HalfLife::NONE, |site| site.scale.half_life());
        let (mut jobs, mut sums) = (Vec::new(), Vec::new());
        for (number, cell) in self.cells.iter().enumerate().skip(from.cell) {
            if number - from.cell >= most || jobs.len() >= most {
                return (jobs, sums, Some(Bookmark { cell: number, ..Bookmark::default() }));
            }
            let Some((user, bank)) = cell.job_key() else { continue };
            // Where they stand in another order by now, all of them are told again.
            let is_same = number == from.cell && cell.sorted() == from.sorted;
            for (at, held) in cell.uncovered(if is_same { from.job } else { 0 }) {
                if jobs.len() >= most {
                    return (jobs, sums, Some(Bookmark { cell: number, job: at, sorted: cell.sorted() }));
                }
                let (ran_on, start) = (held.resources(), held.run.start());
                let job = Job { id: held.id, user, bank: bank.clone(), ran_on, start, limit: 0.0 };
                jobs.extend(held.run.end().map(|end| Ended { job, end }));
            }
            sums.extend(cell.given_up(half_life));
        }
        (jobs, sums, None)
    }

    /// Takes again what was given up, in place of the jobs that are in it. A push that came before stays in force as if it came
    /// after. False if it can't be right.
    pub fn gave_up(&mut self, told: GivenUp) -> bool {
        let is_time = |time: f64| time.abs() <= MAX_TIME;
        let is_usage = |usage: f64| (0.0..=MAX_PUSHED).contains(&usage);
        let is_right = is_time(told.horizon)
            && (is_time(told.since) || told.sum == 0.0)
            && is_time(told.at)
            && is_usage(told.sum)
            && is_usage(told.pushed)
            && !told.counted.is_bad();
        if is_right {
            let at = self.cell_for(told.user, &told.bank);
            let takes = |cell: &&mut Cell| !self.has_replaced_all && cell.takes(&told);
            let gone = self.cells.get_mut(at as usize).filter(takes).map(|cell| cell.give_up_again(told));
            self.given_up(at, gone.unwrap_or_default());
            self.unsettle(at);
        }
        is_right
    }

    /// How the tree is ranked; `None` if none was pushed. It is to be taken by one that knows of no job.
    pub fn pushed_rule(&self) -> Option<Rule> {
        let site = self.site.as_ref()?;
        let rules = &site.rules;
        Some(Rule {
            instant: rules.instant,
            half_life: site.scale.half_life(),
            reset: rules.reset,
            weights: rules.weights,
            policy: rules.policy,
            options: rules.options,
            replaces_all: false,
        })
    }

    /// A bank of the tree. One that was left out of it, since nobody there is in use, is none.
    pub fn bank(&self, name: &BankName) -> Option<Bank> {
        let site = self.site.as_ref()?;
        let (tree, node) = (&site.tree, site.tree.bank(name.as_str())?);
        let usage = site.own_usage.iter().find(|(bank, _)| *bank == node).map(|(_, usage)| *usage);
        Some(Bank {
            name: name.clone(),
            parent: tree.parent(node).map(|parent| tree.name(parent).into()),
            shares: tree.shares(node),
            usage,
            active: tree.is_active(node),
        })
    }

    /// A leaf of the tree, with the usage that was pushed.
    pub fn leaf(&self, user: UserId, bank: &BankName) -> Option<Leaf> {
        self.leaf_of(self.cell(self.find(user, bank)?)?, Some(user), bank)
    }

    /// The leaves of the tree that no job matches, by bank and user name.
    pub fn leaves_without_jobs(&self) -> Vec<Leaf> {
        let mut keys: Vec<(&(Box<str>, BankName), &u32)> = self.by_name.iter().collect();
        keys.sort_unstable_by(|((name, bank), _), ((other, of), _)| (bank, name).cmp(&(of, other)));
        let leaf = |((_, bank), at): (&(Box<str>, BankName), &u32)| {
            self.leaf_of(self.cells.get(*at as usize)?, None, bank)
        };
        keys.into_iter().filter_map(leaf).collect()
    }

    fn leaf_of(&self, cell: &Cell, user: Option<UserId>, bank: &BankName) -> Option<Leaf> {
        let tree = self.tree()?;
        let node = cell.leaf?;
        let (usage, counted) = cell.pushed();
        Some(Leaf {
            user,
            name: tree.name(node).into(),
            bank: bank.clone(),
            shares: tree.shares(node),
            active: tree.is_active(node),
            usage: (usage > 0.0 || tree.own_usage(node).is_some()).then_some(usage),
            counted: counted.clone(),
        })
    }
}
