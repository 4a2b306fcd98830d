// SPDX-License-Identifier: LGPL-3.0-only
//! Limit scopes: jobs that count together under limits that a site sets on associations, banks,
//! users and queues.
//!
//! An association gets its scopes when its first job is validated or replayed, and again when the limits change. A scope is created when
//! the first association gets it.

use super::counter::{BudgetAccount, Counter};
use super::counts::Tally;
use super::job::Footprint;
use super::line::SizedLine;
use super::place::LineKey;
use super::scope_rows::ScopeRow;
use super::size::Size;
use crate::accounts::{AssociationId, Cap, ScopeCaps, ScopeLimits, SiteLimit, SiteLimits, Target};
use crate::ids::{Amount, BankName, Limit, Measure, QueueName, Stage, UserId};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The id of a limit scope. It is valid until the limits change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScopeId(u32);

/// A limit scope: the counters of jobs that count together, and the waiting list of associations whose jobs lack headroom.
#[derive(Clone, Debug)]
pub(super) struct LimitScope {
    pub target: Target,
    /// Only jobs of this queue and of its virtual queues count; `None` for all jobs.
    pub queue: Option<QueueName>,
    virtual_queues: Box<[QueueName]>,
    /// The queues whose jobs do not count; empty if `queue` is set, and in a scope of budgets.
    exempt_queues: Box<[QueueName]>,
    pub counters: Box<[Counter]>,
    /// All caps of the scope, as the site sets them.
    pub caps: Arc<ScopeCaps>,
    /// The number of active jobs; always 0 in a scope without a cap on active jobs.
    pub active_jobs: u64,
    /// The number of jobs that have taken headroom in the scope so far.
    pub taken: u64,
    /// The waiting list: associations whose jobs lack headroom, in the order of release. The size of a member is the least that its held
    /// jobs request of each measure.
    pub line: SizedLine<LineKey>,
    /// The associations in the waiting list. Each association has the value that `taken` had when its present first
    /// held job became its first held job.
    pub since: BTreeSet<(u64, AssociationId)>,
    /// The value of [`LimitScopes::epoch`] when the waiting list was last sorted.
    epoch: u64,
    /// The number of jobs whose eventlog is not read yet. While it is above 0 the headroom is unknown, and no job that needs headroom in the
    /// scope is released.
    pub unread: u64,
}

impl LimitScope {
    /// Returns true if jobs of `queue` count in the scope.
    pub fn counts_queue(&self, queue: Option<&QueueName>) -> bool {
        let is_in = |queues: &[QueueName]| queue.is_some_and(|queue| queues.contains(queue));
        match &self.queue {
            None => !is_in(&self.exempt_queues),
            own => own.as_ref() == queue || is_in(&self.virtual_queues),
        }
    }

    /// Returns the cap on active jobs, if there is one.
    pub fn active_jobs_cap(&self) -> Option<Limit> {
        self.caps.get(&Amount { stage: Stage::Active, measure: Measure::Jobs }).map(|cap| cap.limit)
    }

    /// Returns true if a limit of the scope has too little headroom for a job of `size`.
    pub fn lacks_headroom(&self, size: Size) -> bool {
        self.counters.iter().any(|counter| counter.lacks_headroom(size))
    }

    /// Returns true if the headroom of the scope is known and sufficient for a job of `size`.
    pub fn fits(&self, size: Size) -> bool {
        self.unread == 0 && !self.lacks_headroom(size)
    }

    /// Returns true if a job of `size` would fit in the scope if no other job counted there. For budgets, returns
    /// true only if the budget has headroom for the job now.
    pub fn could_fit(&self, size: Size) -> bool {
        let fits = |it: &Counter| it.amount.is_budget() || it.cap.limit.admits(0, size.amount(it.amount));
        self.counters.iter().all(fits) && !self.lacks_budget(size)
    }

    /// Returns true if a budget of the scope has too little headroom for a job of `size`.
    pub fn lacks_budget(&self, size: Size) -> bool {
        self.counters.iter().any(|it| it.amount.is_budget() && it.lacks_headroom(size))
    }
}

/// Returns true if the limits of the scope are budgets. A scope never has both budgets and other limits.
fn has_budgets(caps: &ScopeCaps) -> bool {
    caps.keys().next().is_some_and(|amount| amount.is_budget())
}

/// The scopes in which the jobs of an association count. In each list, the narrowest scope comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScopeIds {
    pub all: Box<[ScopeId]>,
    /// The scopes with limits that can hold jobs.
    pub holding: Box<[ScopeId]>,
    /// The scopes with a limit on active jobs. A job counts in these scopes even if it uses no headroom.
    pub active: Box<[ScopeId]>,
}

/// The spent amount and the window of each budget. The key has the owner of the budget, such as a bank, and the unit,
/// such as node-hours.
pub type BudgetAccounts = BTreeMap<(Target, Amount), BudgetAccount>;

/// All limit scopes.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitScopes {
    limits: Arc<SiteLimits>,
    all: Vec<LimitScope>,
    /// The id of each scope. The key has the target, the queue, and true if the limits of the scope are budgets.
    ids: FxHashMap<(Target, Option<QueueName>, bool), ScopeId>,
    accounts: BudgetAccounts,
    /// Increases each time priorities have changed.
    epoch: u64,
}

impl LimitScopes {
    /// Returns an empty table of scopes for the given limits and budgets.
    pub fn with_limits(limits: &Arc<SiteLimits>, accounts: BudgetAccounts) -> LimitScopes {
        LimitScopes { limits: Arc::clone(limits), accounts, ..LimitScopes::default() }
    }

    pub fn limits(&self) -> &Arc<SiteLimits> {
        &self.limits
    }

    /// Returns the spent amount and the window of each budget.
    pub fn accounts(&self) -> &BudgetAccounts {
        &self.accounts
    }

    /// Returns the spent amount and the window of a budget. Returns the default for a limit that is not a budget.
    pub fn account(&self, target: &Target, amount: Amount) -> BudgetAccount {
        let account = || self.accounts.get(&(target.clone(), amount)).copied();
        if amount.is_budget() { account().unwrap_or_default() } else { BudgetAccount::default() }
    }

    /// Sets the amount that ended jobs have spent of a budget.
    pub fn set_spent_amount(&mut self, target: Target, amount: Amount, spent: u64) {
        let id = self.ids.get(&(target.clone(), None, true)).copied();
        let Some(account) = self.accounts.get_mut(&(target, amount)) else { return };
        account.spent = spent;
        let account = *account;
        let counters = id.and_then(|id| self.get_mut(id)).into_iter().flat_map(|scope| &mut scope.counters);
        counters.filter(|counter| counter.amount == amount).for_each(|counter| counter.account = account);
    }

    /// Returns true if the site has set no limits over scopes.
    pub fn has_no_limits(&self) -> bool {
        self.limits.is_empty()
    }

    /// Returns the scopes with counters of 0 and empty waiting lists.
    pub fn with_zero_counters(mut self) -> LimitScopes {
        for scope in &mut self.all {
            scope.counters.iter_mut().for_each(Counter::clear);
            (scope.line, scope.since, scope.unread, scope.active_jobs) = Default::default();
        }
        self
    }

    pub fn iter(&self) -> impl Iterator<Item = (ScopeId, &LimitScope)> {
        (0..).map(ScopeId).zip(&self.all)
    }

    pub fn get(&self, id: ScopeId) -> Option<&LimitScope> {
        self.all.get(id.0 as usize)
    }

    pub fn get_mut(&mut self, id: ScopeId) -> Option<&mut LimitScope> {
        self.all.get_mut(id.0 as usize)
    }

    /// Marks the order of all waiting lists as out of date.
    pub fn mark_priorities_changed(&mut self) {
        self.epoch += 1;
    }

    /// Returns the associations in the waiting list of scope `id` if priorities have changed since the last call for
    /// `id`. Returns nothing if they have not changed.
    pub fn take_reordered_associations(&mut self, id: ScopeId) -> impl Iterator<Item = AssociationId> {
        let epoch = self.epoch;
        let scope = self.get_mut(id).filter(|scope| scope.epoch != epoch);
        let line = scope.map(|scope| {
            scope.epoch = epoch;
            &scope.line
        });
        line.into_iter().flat_map(|line| line.ids()).map(|key| key.association)
    }

    pub fn find_scope(&self, limit: &SiteLimit) -> Option<&LimitScope> {
        let SiteLimit { target, queue, amount, .. } = limit;
        self.get(*self.ids.get(&(target.clone(), queue.clone(), amount.is_budget()))?)
    }

    /// Returns the scopes to which `user` in `bank` belongs, and creates missing scopes. The narrowest scope comes first.
    pub fn find_or_add_scopes(&mut self, user: UserId, bank: &BankName) -> ScopeIds {
        let limits = self.list_limits_narrowest_first(user, bank).into_iter();
        let all: Box<[ScopeId]> = limits.filter_map(|limits| self.find_or_add_scope(limits)).collect();
        let select = |is_wanted: fn(&LimitScope) -> bool| {
            all.iter().copied().filter(|id| self.get(*id).is_some_and(is_wanted)).collect()
        };
        let holding = select(|scope| !scope.counters.is_empty());
        let active = select(|scope| scope.active_jobs_cap().is_some());
        ScopeIds { all, holding, active }
    }

    /// Returns the same scopes as [`find_or_add_scopes`](LimitScopes::find_or_add_scopes) without adding any. Scopes that do not exist yet
    /// have no id.
    pub fn list_scopes_to_join(
        &self,
        user: UserId,
        bank: &BankName,
    ) -> impl Iterator<Item = (Option<ScopeId>, Cow<'_, LimitScope>)> {
        self.list_limits_narrowest_first(user, bank).into_iter().map(|(target, queue, caps)| {
            let key = (target, queue, has_budgets(&caps));
            let id = self.ids.get(&key).copied();
            let make_scope = || Cow::Owned(self.make_scope((key.0.clone(), key.1.clone(), caps)));
            (id, id.and_then(|id| self.get(id)).map_or_else(make_scope, Cow::Borrowed))
        })
    }

    /// Returns the limits on the jobs of `user` in `bank`. The narrowest scope comes first: association and user before banks, inner banks
    /// before outer banks, banks before all jobs of a queue, one queue before all queues.
    fn list_limits_narrowest_first(&self, user: UserId, bank: &BankName) -> Vec<ScopeLimits> {
        let mut limits = self.limits.list_limits_of_user(user, bank);
        for of_target in limits.chunk_by_mut(|(target, ..), (next, ..)| target == next) {
            of_target.sort_by_key(|(_, queue, _)| queue.is_none());
        }
        limits.sort_by_key(|(target, ..)| match target {
            Target::Queue(_) => 2,
            Target::Bank(_) => 1,
            _ => 0,
        });
        limits
    }

    fn find_or_add_scope(&mut self, (target, queue, caps): ScopeLimits) -> Option<ScopeId> {
        let key = (target, queue, has_budgets(&caps));
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        let id = ScopeId(u32::try_from(self.all.len()).ok()?);
        self.all.push(self.make_scope((key.0.clone(), key.1.clone(), caps)));
        self.ids.insert(key, id);
        Some(id)
    }

    /// Returns a scope without jobs.
    fn make_scope(&self, (target, queue, caps): ScopeLimits) -> LimitScope {
        let scope = target.scope(queue.is_some());
        let make_counter = |(&amount, cap): (&Amount, &Cap)| {
            let (hold, cap) = (ScopeRow { scope, amount }.hold(), cap.convert_to_counted_units(amount));
            let mut counter = Counter::new(hold, amount, cap, &Tally::default());
            counter.account = self.account(&target, amount);
            counter
        };
        let counters = caps.iter().filter(|(amount, _)| amount.can_hold_jobs()).map(make_counter).collect();
        let virtual_queues = queue.iter().flat_map(|queue| self.limits.virtual_queues(queue.as_str()));
        let exempt_queues = self.limits.exempt_queues(scope).filter(|_| !has_budgets(&caps));
        LimitScope {
            virtual_queues: virtual_queues.cloned().collect(),
            exempt_queues: exempt_queues.cloned().collect(),
            target,
            queue,
            counters,
            caps,
            active_jobs: 0,
            taken: 0,
            line: SizedLine::default(),
            since: BTreeSet::new(),
            epoch: 0,
            unread: 0,
        }
    }

    /// Replaces the footprint `before` of a job by `after` in the counters of the scopes in `ids`. Both footprints have the same queue.
    pub fn count_job(&mut self, ids: &ScopeIds, before: &Footprint, after: &Footprint) {
        self.update_scopes(&ids.active, after, |scope| {
            scope.active_jobs = scope.active_jobs.saturating_sub(before.active_jobs) + after.active_jobs;
        });
        let (was_idle, is_idle) = (before.is_idle(), after.is_idle());
        if was_idle && is_idle && before.is_unread == after.is_unread {
            return;
        }
        self.update_scopes(&ids.holding, after, |scope| {
            for counter in &mut scope.counters {
                if !was_idle && !is_idle && after.counts_equally(before, counter.amount, counter.cap.is_given)
                {
                    continue;
                }
                if !was_idle {
                    counter.count_job(before, false);
                }
                if !is_idle {
                    counter.count_job(after, true);
                }
            }
            let unread = scope.unread.saturating_sub(u64::from(before.is_unread));
            scope.unread = unread + u64::from(after.is_unread);
        });
    }

    /// Calls `change` for each scope in `scopes` that counts jobs of the queue in `footprint`.
    pub fn update_scopes<'a>(
        &mut self,
        scopes: impl IntoIterator<Item = &'a ScopeId>,
        footprint: &Footprint,
        change: impl Fn(&mut LimitScope),
    ) {
        for id in scopes {
            let scope = self.get_mut(*id).filter(|scope| scope.counts_queue(footprint.queue.as_ref()));
            scope.into_iter().for_each(&change);
        }
    }
}
