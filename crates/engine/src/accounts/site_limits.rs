// SPDX-License-Identifier: LGPL-3.0-only
//! Limits that a site sets in addition to those of flux-accounting.
//!
//! These limits come from a push and from Flux's configuration. If both set the same limit, the push takes
//! precedence. A limit on each association, bank, user or queue applies only to associations, banks, users or
//! queues without their own limit. The jobs of a bank include the jobs of all banks below it, if the push
//! contains the parents of banks. A limit on each bank applies only to banks that have no banks below them. A
//! limit on each queue applies to each pushed queue.

use super::site_document::SiteTables;
use super::{Book, Queue};
use crate::ids::{Amount, BankName, Limit, Measure, QueueName, Stage, UserId};
use fairshare::insert_all;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;
use strum::{IntoStaticStr, VariantArray};

/// The jobs that a limit counts together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// The jobs of a user in a bank.
    Association(UserId, BankName),
    /// The jobs of a user in a bank, separately for each user and bank.
    EachAssociation,
    /// The jobs in a bank and in all banks below it.
    Bank(BankName),
    /// The jobs in a bank, separately for each bank without banks below it.
    EachBank,
    /// The jobs of a user in all banks.
    User(UserId),
    /// The jobs of a user in all banks. The limit applies to each user separately.
    EachUser,
    /// The jobs in a queue and in its virtual queues.
    Queue(QueueName),
    /// The jobs in a queue, separately for each pushed queue.
    EachQueue,
}

/// The scope of a limit. The scopes have the order of the limit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
pub enum Scope {
    /// A user in a bank.
    Association,
    /// A user in a bank, in one queue.
    AssociationInQueue,
    /// A bank with all banks below it.
    Bank,
    /// A bank with all banks below it, in one queue.
    BankInQueue,
    /// The jobs of a user in all banks.
    User,
    /// The jobs of a user in all banks and in one queue.
    UserInQueue,
    /// A queue.
    Queue,
}

impl Scope {
    /// The scopes from whose limits a queue can be exempt, with their names in the configuration.
    pub const EXEMPTIONS: [(&str, Scope); 3] =
        [("association", Scope::Association), ("bank", Scope::Bank), ("user", Scope::User)];
}

impl Target {
    /// Returns the scope of a limit on this target. `is_in_queue` is true if the limit counts jobs in one queue.
    pub fn scope(&self, is_in_queue: bool) -> Scope {
        match (self, is_in_queue) {
            (Target::Association(..) | Target::EachAssociation, false) => Scope::Association,
            (Target::Association(..) | Target::EachAssociation, true) => Scope::AssociationInQueue,
            (Target::Bank(_) | Target::EachBank, false) => Scope::Bank,
            (Target::Bank(_) | Target::EachBank, true) => Scope::BankInQueue,
            (Target::User(_) | Target::EachUser, false) => Scope::User,
            (Target::User(_) | Target::EachUser, true) => Scope::UserInQueue,
            (Target::Queue(_) | Target::EachQueue, _) => Scope::Queue,
        }
    }

    /// Returns the target whose limits apply if this target has no limits, or `None` if there is no such target.
    pub fn default_target(&self) -> Option<Target> {
        match self {
            Target::Association(..) => Some(Target::EachAssociation),
            Target::Bank(_) => Some(Target::EachBank),
            Target::User(_) => Some(Target::EachUser),
            Target::Queue(_) => Some(Target::EachQueue),
            _ => None,
        }
    }

    /// Returns true if flux-accounting's record of an association has a limit on `amount` for this target. Sites set
    /// such a limit in the record, and not as a site limit.
    pub fn is_in_records(&self, is_in_queue: bool, amount: Amount) -> bool {
        let Amount { stage, measure } = amount;
        let has_cap = match stage {
            Stage::Running => measure != Measure::Gpus && !measure.is_time(),
            Stage::Scheduled | Stage::Active => measure == Measure::Jobs,
            Stage::RunningAndScheduled | Stage::OneJob => false,
        };
        has_cap && self.scope(is_in_queue) == Scope::Association
    }

    /// Returns the name of the scope in pushes and in the configuration.
    pub fn kind(&self) -> &'static str {
        self.scope(false).into()
    }

    /// Returns the name of the target in pushes and in the configuration. A target such as `EachUser` has the name `*`.
    pub fn name(&self) -> String {
        match self {
            Target::Association(user, bank) => format!("{user}/{bank}"),
            Target::Bank(bank) => bank.to_string(),
            Target::User(user) => user.to_string(),
            Target::Queue(queue) => queue.to_string(),
            _ => "*".to_owned(),
        }
    }

    /// Parses the scope and the name of a target in a push or the configuration. A user is named by id.
    pub fn parse(kind: &str, name: &str) -> Result<Target, String> {
        let user = |text: &str| {
            let error = || format!("name: expected a user id, got \"{}\"", text.escape_debug());
            text.parse().ok().filter(|id| *id != u32::MAX).map(UserId).ok_or_else(error)
        };
        match (kind, name) {
            ("association", "*") => Ok(Target::EachAssociation),
            ("bank", "*") => Ok(Target::EachBank),
            ("user", "*") => Ok(Target::EachUser),
            ("queue", "*") => Ok(Target::EachQueue),
            ("queue" | "bank", "") => Err(format!("name: expected a {kind}, got an empty string")),
            ("queue", queue) => Ok(Target::Queue(queue.into())),
            ("bank", bank) => Ok(Target::Bank(bank.into())),
            ("user", id) => user(id).map(Target::User),
            ("association", pair) => match pair.split_once('/') {
                Some((id, bank)) if !bank.is_empty() => Ok(Target::Association(user(id)?, bank.into())),
                _ => Err(format!("name: expected USERID/BANK, got \"{}\"", pair.escape_debug())),
            },
            _ => Err(format!(
                "scope: expected \"association\", \"bank\", \"user\" or \"queue\", got \"{}\"",
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
            Target::Queue(queue) => write!(f, "queue {queue}"),
            Target::EachQueue => f.write_str("each queue"),
        }
    }
}

/// Returns the names of the amounts that a site can limit.
pub fn measures() -> Vec<String> {
    Amount::ALL.iter().map(|amount| amount.to_string()).collect()
}

/// The cap of a site limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    /// The largest permitted amount.
    pub limit: Limit,
    /// True if a running job counts with its allocated resources instead of its requested resources.
    pub is_given: bool,
}

impl Cap {
    /// Converts the cap from the unit of caps to the unit of counters. Caps of budgets are in that unit already.
    #[must_use]
    pub fn convert_to_counted_units(self, amount: Amount) -> Cap {
        let unit = if amount.is_budget() { 1 } else { amount.measure.cap_unit() };
        let unit = i64::try_from(unit).unwrap_or(i64::MAX);
        Cap { limit: Limit(self.limit.0.saturating_mul(unit)), ..self }
    }
}

/// A limit of the site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SiteLimit {
    /// The jobs that the limit counts together.
    pub target: Target,
    /// The queue whose jobs the limit counts. `None` if the limit counts jobs in all queues, or if `target` already
    /// selects queues.
    pub queue: Option<QueueName>,
    /// The amount that is limited.
    pub amount: Amount,
    /// The cap on the amount.
    pub cap: Cap,
}

/// The cap of a budget that does not hold jobs, for example in the mode "warn". A budget that holds jobs has a lower
/// cap.
pub const UNLIMITED_BUDGET: Limit = Limit(i64::MAX);

/// The caps of a limit scope. Each key says what its cap limits, such as running jobs.
pub type ScopeCaps = BTreeMap<Amount, Cap>;

/// The target, the queue and the caps of a limit scope. If there is a queue, only the target's jobs in that
/// queue count.
pub type ScopeLimits = (Target, Option<QueueName>, Arc<ScopeCaps>);

/// All current site limits.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SiteLimits {
    by_target: BTreeMap<Target, BTreeMap<Option<QueueName>, ScopeCaps>>,
    /// The limit scopes of each target in `by_target`, and of each pushed queue. They include the limits of the target's default target,
    /// such as a limit on each user.
    scopes: BTreeMap<Target, Vec<ScopeLimits>>,
    /// Whether a limit counts the time that running jobs have left.
    counts_time_left: bool,
    /// The parent of each bank. Empty if there are no limits on banks.
    parents: FxHashMap<BankName, BankName>,
    /// Banks that have banks below them.
    inner: FxHashSet<BankName>,
    /// The parent of each virtual queue. Jobs in a virtual queue count under limits on the parent queue too.
    queue_parents: Arc<QueueParents>,
    /// The exempt queues. A virtual queue has the exemptions of its parent too.
    exempt: ExemptQueues,
}

/// The exempt queues, with the scopes from whose limits each queue is exempt. Limits of these scopes, except
/// limits on one queue, neither count nor hold jobs in the exempt queue. [`Scope::Association`] includes the
/// limits in the record of an association. A virtual queue is exempt if its parent is.
pub type ExemptQueues = BTreeMap<QueueName, BTreeSet<Scope>>;

/// The parent queue of each virtual queue. Flux schedules the jobs of a virtual queue together with the jobs of its parent.
pub type QueueParents = BTreeMap<QueueName, QueueName>;

impl SiteLimits {
    /// Builds the site limits. If `limits` contains a limit several times, the last occurrence is used. A limit on each queue applies to
    /// the queues in `queues`.
    pub fn new<'a>(
        limits: impl IntoIterator<Item = &'a SiteLimit>,
        parents: &[(BankName, BankName)],
        queues: &[QueueName],
        queue_parents: &Arc<QueueParents>,
    ) -> Self {
        let mut all = SiteLimits { queue_parents: Arc::clone(queue_parents), ..SiteLimits::default() };
        for SiteLimit { target, queue, amount, cap } in limits {
            let queues = all.by_target.entry(target.clone()).or_default();
            queues.entry(queue.clone()).or_default().insert(*amount, *cap);
            all.counts_time_left |= amount.counts_time_left();
        }
        if all.by_target.keys().any(|target| matches!(target, Target::Bank(_) | Target::EachBank)) {
            all.parents = parents.iter().cloned().collect();
            all.inner = parents.iter().map(|(_, parent)| parent.clone()).collect();
        }
        let pushed_queues: BTreeSet<Target> = insert_all(queues.iter().cloned().map(Target::Queue));
        let targets: BTreeSet<&Target> = insert_all(all.by_target.keys().chain(&pushed_queues));
        let with_scopes = |target: &Target| {
            let default = all.default_target(target).and_then(|each| all.by_target.get(&each));
            let default =
                default.filter(|_| !matches!(target, Target::Queue(_)) || pushed_queues.contains(target));
            let mut scopes: BTreeMap<(Option<&QueueName>, bool), ScopeCaps> = BTreeMap::new();
            for (queue, caps) in default.into_iter().chain(all.by_target.get(target)).flatten() {
                let queue = if let Target::Queue(own) = target { Some(own) } else { queue.as_ref() };
                for (amount, cap) in caps {
                    // A budget has a separate scope, because it also counts jobs in queues that are exempt from other
                    // limits.
                    scopes.entry((queue, amount.is_budget())).or_default().insert(*amount, *cap);
                }
            }
            let list = scopes.into_iter().map(|((of, _), caps)| (target.clone(), of.cloned(), caps.into()));
            (target.clone(), list.collect::<Vec<_>>())
        };
        let scopes = targets.into_iter().map(with_scopes).filter(|(_, scopes)| !scopes.is_empty());
        all.scopes = insert_all(scopes);
        all
    }

    /// Returns true if a job in queue `job_queue` counts under a limit on `target` with the queue `queue`. A
    /// limit without a queue counts jobs in all queues except exempt ones. `target` is `None` for a limit in
    /// the record of an association or a queue.
    pub fn counts_in(
        &self,
        target: Option<&Target>,
        queue: Option<&QueueName>,
        job_queue: Option<&str>,
    ) -> bool {
        let Some(queue) = queue else {
            let scope = target.map_or(Scope::Association, |target| target.scope(false));
            return !self.exemptions(job_queue).any(|exempt| exempt == scope);
        };
        job_queue.is_some_and(|own| {
            own == queue.as_str() || self.queue_parents.get(own).is_some_and(|parent| parent == queue)
        })
    }

    /// Returns the scopes from whose limits `queue` is exempt. Limits on a single queue apply even to an exempt queue.
    pub fn exemptions(&self, queue: Option<&str>) -> impl Iterator<Item = Scope> {
        queue.and_then(|queue| self.exempt.get(queue)).into_iter().flatten().copied()
    }

    /// Returns the queues whose jobs the limits of `scope` do not count.
    pub fn exempt_queues(&self, scope: Scope) -> impl Iterator<Item = &QueueName> {
        self.exempt.iter().filter(move |(_, scopes)| scopes.contains(&scope)).map(|(queue, _)| queue)
    }

    /// Returns the virtual queues of a queue.
    pub fn virtual_queues<'a>(&'a self, queue: &'a str) -> impl Iterator<Item = &'a QueueName> {
        let is_child = move |(_, parent): &(&QueueName, &QueueName)| parent.as_str() == queue;
        self.queue_parents.iter().filter(is_child).map(|(name, _)| name)
    }

    /// Returns the parent of a virtual queue.
    pub fn parent_queue(&self, queue: &str) -> Option<&QueueName> {
        self.queue_parents.get(queue)
    }

    /// Returns true if a limit counts the time that running jobs have left.
    pub fn has_time_left_limit(&self) -> bool {
        self.counts_time_left
    }

    /// Returns true if there are no limits.
    pub fn is_empty(&self) -> bool {
        self.by_target.is_empty()
    }

    /// Returns all limits as the push and the configuration set them, without budgets.
    pub fn iter(&self) -> impl Iterator<Item = SiteLimit> {
        self.by_target.iter().flat_map(|(target, queues)| {
            queues.iter().flat_map(move |(queue, caps)| {
                let caps = caps.iter().filter(|(amount, _)| !amount.is_budget());
                caps.map(|(&amount, &cap)| SiteLimit {
                    target: target.clone(),
                    queue: queue.clone(),
                    amount,
                    cap,
                })
            })
        })
    }

    /// Returns the limits that apply to the jobs of a user in a bank, by limit scope.
    pub fn list_limits_of_user(&self, user: UserId, bank: &BankName) -> Vec<ScopeLimits> {
        let queues = self.scopes.range(Target::Queue(QueueName::default())..).map(|(target, _)| target);
        let queues = queues.filter(|target| matches!(target, Target::Queue(_))).cloned();
        let mut found = Vec::new();
        for target in self.targets_of(user, bank).chain(queues) {
            let default = || self.scopes.get(&self.default_target(&target)?);
            let scopes = self.scopes.get(&target).or_else(default).into_iter().flatten();
            found.extend(scopes.map(|(_, queue, caps)| (target.clone(), queue.clone(), Arc::clone(caps))));
        }
        found
    }

    /// Returns the target whose limits apply if `target` has no limits, or `None` if there is no such target.
    fn default_target(&self, target: &Target) -> Option<Target> {
        let is_inner = matches!(target, Target::Bank(bank) if self.inner.contains(bank));
        target.default_target().filter(|_| !is_inner)
    }

    /// Returns the targets whose limits and budgets count the jobs of `user` in `bank`: the association, the
    /// banks from `bank` upwards, and the user. Queues are not included. Banks above `bank` are included only
    /// if a limit or a budget has a bank as its target.
    pub fn targets_of<'a>(
        &'a self,
        user: UserId,
        bank: &'a BankName,
    ) -> impl Iterator<Item = Target> + use<'a> {
        // If the parents of banks form a cycle, `take` ends the iteration. The ranking of the tree rejects the cycle
        // later.
        let banks = std::iter::successors(Some(bank), |bank| self.parents.get(*bank));
        let banks = banks.take(self.parents.len() + 1).cloned().map(Target::Bank);
        let association = Target::Association(user, bank.clone());
        std::iter::once(association).chain(banks).chain([Target::User(user)])
    }
}

/// The current site limits, and their sources other than the last push.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitSources {
    /// The limits that Flux's configuration sets.
    configured: Vec<SiteLimit>,
    /// The deposited amounts of budgets.
    budgets: Vec<SiteLimit>,
    /// The parent of each virtual queue, from Flux's configuration.
    queue_parents: Arc<QueueParents>,
    /// The exempt queues of Flux's configuration.
    exempt: ExemptQueues,
    in_force: Arc<SiteLimits>,
}

impl Book {
    /// Computes the limits from the configuration, the push and the budgets. Replaces `in_force` if the limits have
    /// changed.
    fn apply_limits(&mut self) {
        let LimitSources { configured, budgets, queue_parents, exempt, in_force } = &mut self.limits;
        let limits = configured.iter().chain(&self.tables.limits).chain(&*budgets);
        let queues: Vec<QueueName> = self.tables.queues.keys().cloned().collect();
        let mut all = SiteLimits::new(limits, &self.tables.parents, &queues, queue_parents);
        all.exempt = exempt.clone();
        for (queue, parent) in &**queue_parents {
            if let Some(scopes) = exempt.get(parent) {
                all.exempt.entry(queue.clone()).or_default().extend(scopes);
            }
        }
        if all != **in_force {
            *in_force = Arc::new(all);
        }
    }

    /// Replaces the data of the site except the associations, and computes the limits again.
    pub(super) fn replace_tables(&mut self, tables: SiteTables) {
        self.tables = tables;
        self.apply_limits();
    }

    /// Returns the current site limits. Each change of the limits creates a new `Arc`, so comparing addresses shows whether they changed.
    pub fn site_limits(&self) -> &Arc<SiteLimits> {
        &self.limits.in_force
    }

    /// Sets the limits and the exempt queues of Flux's configuration.
    pub fn set_configured_limits(&mut self, limits: Vec<SiteLimit>, exempt: ExemptQueues) {
        (self.limits.configured, self.limits.exempt) = (limits, exempt);
        self.apply_limits();
    }

    /// Sets the limits of the budgets.
    pub fn set_budget_limits(&mut self, limits: Vec<SiteLimit>) {
        self.limits.budgets = limits;
        self.apply_limits();
    }

    /// Sets the parents of virtual queues.
    pub fn set_queue_parents(&mut self, parents: QueueParents) {
        self.limits.queue_parents = Arc::new(parents);
        self.apply_limits();
    }

    /// Returns the pushed queues whose limits apply to a job in `queue`: `queue` itself and, if `queue` is a
    /// virtual queue, its parent queue.
    pub fn queues_of<'a>(&'a self, queue: Option<&str>) -> impl Iterator<Item = &'a Queue> + use<'a> {
        let parent = queue.and_then(|queue| self.limits.in_force.parent_queue(queue));
        let own = queue.and_then(|queue| self.queue(queue));
        own.into_iter().chain(parent.and_then(|parent| self.queue(parent)))
    }
}

#[cfg(test)]
mod tests;
