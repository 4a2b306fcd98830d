// SPDX-License-Identifier: LGPL-3.0-only
//! Limits that a site sets beyond flux-accounting's: on whom, in which queue, on what, how much.
//!
//! They come with a push, and from Flux's configuration; where both speak of the same, the push counts. What is said of each
//! association, bank or user holds where nothing is said of one by name. A bank's jobs are its own and those of all banks
//! below it, as far as the push says which these are; "each bank" is each that has no bank below it.

use super::{Book, Queue};
use crate::ids::{Amount, BankName, Limit, Measure, QueueName, Stage, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Whose jobs count together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Target {
    /// Those of a user in a bank.
    Association(UserId, BankName),
    /// The same of every user in every bank, each for themselves.
    EachAssociation,
    /// Those in a bank, and in all banks below it.
    Bank(BankName),
    /// The same of every bank that has none below it.
    EachBank,
    /// Those of a user, in all banks.
    User(UserId),
    /// The same of every user.
    EachUser,
}

/// The kinds of limit, by whose jobs count together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// A user in a bank.
    Association,
    /// The same in one queue.
    AssociationInQueue,
    /// A bank with all banks below it.
    Bank,
    /// The same in one queue.
    BankInQueue,
    /// A user in all banks.
    User,
}

impl Scope {
    /// All of them, in the order in which names are added.
    pub const ALL: [Scope; 5] =
        [Scope::Association, Scope::AssociationInQueue, Scope::Bank, Scope::BankInQueue, Scope::User];
}

impl Target {
    /// The scope, with a queue or without. A user's jobs are not counted by queue.
    pub fn scope(&self, is_in_queue: bool) -> Scope {
        match (self, is_in_queue) {
            (Target::Association(..) | Target::EachAssociation, false) => Scope::Association,
            (Target::Association(..) | Target::EachAssociation, true) => Scope::AssociationInQueue,
            (Target::Bank(_) | Target::EachBank, false) => Scope::Bank,
            (Target::Bank(_) | Target::EachBank, true) => Scope::BankInQueue,
            (Target::User(_) | Target::EachUser, _) => Scope::User,
        }
    }

    /// What is said of each holds for it too, where nothing else is said. `None`: it is each.
    pub fn each(&self) -> Option<Target> {
        match self {
            Target::Association(..) => Some(Target::EachAssociation),
            Target::Bank(_) => Some(Target::EachBank),
            Target::User(_) => Some(Target::EachUser),
            Target::EachAssociation | Target::EachBank | Target::EachUser => None,
        }
    }

    /// Whether flux-accounting's own record of an association says so.
    pub fn is_in_records(&self, is_in_queue: bool, amount: Amount) -> bool {
        let Amount { stage, measure } = amount;
        let is_there = match stage {
            Stage::Running => measure != Measure::Gpus,
            Stage::Scheduled => measure == Measure::Jobs,
            Stage::RunningAndScheduled => false,
        };
        is_there && self.scope(is_in_queue) == Scope::Association
    }

    /// The same of a measure by its name.
    pub fn has_in_records(&self, is_in_queue: bool, measure: &str) -> bool {
        Amount::parse(measure).is_some_and(|amount| self.is_in_records(is_in_queue, amount))
    }

    /// The word for the scope, as it is pushed and configured.
    pub fn kind(&self) -> &'static str {
        match self {
            Target::Association(..) | Target::EachAssociation => "association",
            Target::Bank(_) | Target::EachBank => "bank",
            Target::User(_) | Target::EachUser => "user",
        }
    }

    /// The name, likewise; `*` for each.
    pub fn name(&self) -> String {
        match self {
            Target::Association(user, bank) => format!("{user}/{bank}"),
            Target::Bank(bank) => bank.to_string(),
            Target::User(user) => user.to_string(),
            Target::EachAssociation | Target::EachBank | Target::EachUser => "*".to_owned(),
        }
    }

    /// Reads a scope and a name as they are pushed and configured; users by id.
    pub fn parse(kind: &str, name: &str) -> Result<Target, String> {
        let user = |text: &str| {
            let wrong = || format!("name: expected a user id, got \"{}\"", text.escape_debug());
            text.parse().ok().filter(|id| *id != u32::MAX).map(UserId).ok_or_else(wrong)
        };
        match (kind, name) {
            ("association", "*") => Ok(Target::EachAssociation),
            ("bank", "*") => Ok(Target::EachBank),
            ("user", "*") => Ok(Target::EachUser),
            ("bank", "") => Err("name: expected a bank, got an empty string".to_owned()),
            ("bank", bank) => Ok(Target::Bank(bank.into())),
            ("user", id) => user(id).map(Target::User),
            ("association", pair) => match pair.split_once('/') {
                Some((id, bank)) if !bank.is_empty() => Ok(Target::Association(user(id)?, bank.into())),
                _ => Err(format!("name: expected USERID/BANK, got \"{}\"", pair.escape_debug())),
            },
            _ => Err(format!(
                "scope: expected \"association\", \"bank\" or \"user\", got \"{}\"",
                kind.escape_debug()
            )),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Association(user, bank) => write!(f, "user {user} in bank {bank}"),
            Target::EachAssociation => f.write_str("each user in each bank"),
            Target::Bank(bank) => write!(f, "bank {bank}"),
            Target::EachBank => f.write_str("each bank"),
            Target::User(user) => write!(f, "user {user}"),
            Target::EachUser => f.write_str("each user"),
        }
    }
}

/// Returns the names of the amounts that a site can limit.
pub fn measures() -> Vec<String> {
    Amount::ALL.iter().map(|amount| amount.to_string()).collect()
}

/// How much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The cap.
    pub limit: Limit,
    /// Whether a running job counts what it was given instead of what it asked for.
    pub is_given: bool,
}

/// One limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLimit {
    /// On whom.
    pub target: Target,
    /// In which queue; `None`: over all queues, and none.
    pub queue: Option<QueueName>,
    /// On what.
    pub amount: Amount,
    /// How much.
    pub cap: Cap,
}

/// Caps by what they are on.
pub type ScopeCaps = BTreeMap<Amount, Cap>;

/// All limits in force.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteLimits {
    of: BTreeMap<Target, BTreeMap<Option<QueueName>, ScopeCaps>>,
    /// Of each bank the one above, where limits are on banks.
    parents: BTreeMap<BankName, BankName>,
    /// Banks that have banks below them.
    inner: BTreeSet<BankName>,
    /// Of each virtual queue its parent. Jobs of a virtual queue count under limits on the parent too.
    queue_parents: Arc<QueueParents>,
}

/// Of each virtual queue its parent, with which Flux schedules it together.
pub type QueueParents = BTreeMap<QueueName, QueueName>;

impl SiteLimits {
    /// Later ones count.
    pub fn new<'a>(
        limits: impl IntoIterator<Item = &'a SiteLimit>,
        parents: &[(BankName, BankName)],
        queue_parents: &Arc<QueueParents>,
    ) -> Self {
        let mut all = SiteLimits { queue_parents: Arc::clone(queue_parents), ..SiteLimits::default() };
        for SiteLimit { target, queue, amount, cap } in limits {
            let queues = all.of.entry(target.clone()).or_default();
            queues.entry(queue.clone()).or_default().insert(*amount, *cap);
        }
        if all.of.keys().any(|target| matches!(target, Target::Bank(_) | Target::EachBank)) {
            all.parents = parents.iter().cloned().collect();
            all.inner = parents.iter().map(|(_, parent)| parent.clone()).collect();
        }
        all
    }

    /// Returns true if a job in queue `job_queue` counts under a limit on `queue`; `None` as a limit's queue is all queues.
    pub fn counts_in(&self, queue: Option<&QueueName>, job_queue: Option<&str>) -> bool {
        let Some(queue) = queue else { return true };
        job_queue.is_some_and(|own| {
            own == queue.as_str() || self.queue_parents.get(own).is_some_and(|parent| parent == queue)
        })
    }

    /// Returns the virtual queues of a queue.
    pub fn virtual_queues<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a QueueName> {
        let is_of = move |(_, parent): &(&QueueName, &QueueName)| parent.as_str() == queue;
        self.queue_parents.iter().filter(is_of).map(|(name, _)| name)
    }

    /// Returns the parent of a virtual queue.
    pub fn parent_queue(&self, queue: &str) -> Option<&QueueName> {
        self.queue_parents.get(queue)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// All as they were set.
    pub fn iter(&self) -> impl Iterator<Item = (&Target, Option<&QueueName>, Amount, Cap)> {
        self.of.iter().flat_map(|(target, queues)| {
            queues.iter().flat_map(move |(queue, caps)| {
                caps.iter().map(move |(amount, cap)| (target, queue.as_ref(), *amount, *cap))
            })
        })
    }

    /// Those under which the jobs of a user in a bank come, with whom they are counted.
    pub fn on(&self, user: UserId, bank: &BankName) -> Vec<(Target, Option<QueueName>, ScopeCaps)> {
        let mut found = Vec::new();
        if self.is_empty() {
            return found;
        }
        self.add(Target::Association(user, bank.clone()), &mut found);
        let (mut at, mut steps) = (Some(bank), 0);
        while let Some(bank) = at {
            self.add(Target::Bank(bank.clone()), &mut found);
            // Banks in a circle are refused where they rank anybody; here they must do no harm.
            steps += 1;
            at = self.parents.get(bank).filter(|_| steps <= self.parents.len());
        }
        self.add(Target::User(user), &mut found);
        found
    }

    fn add(&self, target: Target, found: &mut Vec<(Target, Option<QueueName>, ScopeCaps)>) {
        let is_inner = matches!(&target, Target::Bank(bank) if self.inner.contains(bank));
        let each = target.each().filter(|_| !is_inner).and_then(|each| self.of.get(&each));
        let own = self.of.get(&target);
        let mut queues: BTreeMap<&Option<QueueName>, ScopeCaps> = BTreeMap::new();
        for (queue, caps) in each.into_iter().chain(own).flatten() {
            queues.entry(queue).or_default().extend(caps);
        }
        found.extend(queues.into_iter().map(|(queue, caps)| (target.clone(), queue.clone(), caps)));
    }
}

/// Where limits come from.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitSources {
    /// The push.
    pub pushed: Vec<SiteLimit>,
    /// Flux's configuration.
    pub configured: Vec<SiteLimit>,
    /// Banks, each with the one above.
    pub parents: Vec<(BankName, BankName)>,
    /// Of each virtual queue its parent, as Flux says.
    pub queue_parents: Arc<QueueParents>,
    in_force: Arc<SiteLimits>,
}

impl LimitSources {
    /// Takes over what changed.
    pub fn apply(&mut self) {
        let all =
            SiteLimits::new(self.configured.iter().chain(&self.pushed), &self.parents, &self.queue_parents);
        if all != *self.in_force {
            self.in_force = Arc::new(all);
        }
    }
}

impl Book {
    /// The limits that the site set beyond those of associations and queues. Another place in memory is other limits.
    pub fn site_limits(&self) -> &Arc<SiteLimits> {
        &self.limits.in_force
    }

    /// The limits of the last push.
    pub fn pushed_limits(&self) -> &[SiteLimit] {
        &self.limits.pushed
    }

    /// Banks, each with the one above, as the last push said.
    pub fn parents(&self) -> &[(BankName, BankName)] {
        &self.limits.parents
    }

    /// Sets the limits of Flux's configuration.
    pub fn set_configured_limits(&mut self, limits: Vec<SiteLimit>) {
        if self.limits.configured != limits {
            self.limits.configured = limits;
            self.limits.apply();
        }
    }

    /// Sets the parents of virtual queues.
    pub fn set_queue_parents(&mut self, parents: QueueParents) {
        if *self.limits.queue_parents != parents {
            self.limits.queue_parents = Arc::new(parents);
            self.limits.apply();
        }
    }

    /// Returns the queues under whose limits a job in `queue` comes: its own and that of which its own is a virtual queue, as far as they
    /// were pushed.
    pub fn queues_of<'a>(&'a self, queue: Option<&str>) -> impl Iterator<Item = &'a Queue> + use<'a> {
        let parent = queue.and_then(|queue| self.limits.in_force.parent_queue(queue));
        let own = queue.and_then(|queue| self.queue(queue));
        own.into_iter().chain(parent.and_then(|parent| self.queue(parent.as_str())))
    }

    pub(super) fn set_pushed_limits(&mut self, limits: Vec<SiteLimit>, parents: Vec<(BankName, BankName)>) {
        if self.limits.pushed != limits || self.limits.parents != parents {
            (self.limits.pushed, self.limits.parents) = (limits, parents);
            if !self.limits.pushed.is_empty() || !self.limits.in_force.is_empty() {
                self.limits.apply();
            }
        }
    }
}

#[cfg(test)]
mod tests;
