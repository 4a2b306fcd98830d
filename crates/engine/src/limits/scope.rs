// SPDX-License-Identifier: LGPL-3.0-only
//! Limit scopes: jobs that count together under limits that a site sets on associations, banks,
//! users and queues.
//!
//! A limit scope is created when an association that belongs to it gets its first job. The ledger assigns scopes to an association when its
//! first job comes, and again when the limits change.

use super::counter::Counter;
use super::counts::Tally;
use super::job::{Footprint, Job};
use super::line::SizedLine;
use super::place::LineKey;
use super::scope_rows::ScopeRow;
use super::size::Size;
use crate::accounts::{AssociationId, ScopeCaps, SiteLimits, Target};
use crate::ids::{Amount, BankName, Limit, Measure, QueueName, Stage, UserId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The id of a limit scope. It is valid until the limits change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ScopeId(u32);

/// A limit scope: the counters of the jobs that count together, and the line of associations that wait for headroom.
#[derive(Clone, Debug)]
pub(super) struct LimitScope {
    pub target: Target,
    /// Only jobs of this queue and of its virtual queues count; `None` for all jobs.
    pub queue: Option<QueueName>,
    virtual_queues: Box<[QueueName]>,
    pub counters: Box<[Counter]>,
    /// All caps of the scope, as the site sets them.
    pub caps: ScopeCaps,
    /// The number of active jobs; always 0 in a scope without a cap on active jobs.
    pub active_jobs: u64,
    /// The number of jobs that have taken headroom in the scope so far.
    pub taken: u64,
    /// The associations that wait for headroom in the scope, in the order in which their jobs are released. The size of a member is the
    /// least of each measure that its held jobs request.
    pub line: SizedLine<LineKey>,
    /// The associations in `line`, sorted by the value that `taken` had when their first held job became the first.
    pub since: BTreeSet<(u64, AssociationId)>,
    /// The value of [`LimitScopes::epoch`] for which the order of `line` was last computed.
    epoch: u64,
    /// The number of jobs whose eventlog is not read yet. While it is above 0 the headroom is unknown, and no job that needs headroom in the
    /// scope is released.
    pub unread: u64,
}

impl LimitScope {
    /// Returns true if jobs of `queue` count in the scope.
    pub fn counts_queue(&self, queue: Option<&QueueName>) -> bool {
        self.queue.is_none()
            || self.queue.as_ref() == queue
            || queue.is_some_and(|queue| self.virtual_queues.contains(queue))
    }

    /// Returns the cap on active jobs, if there is one.
    pub fn active_jobs_cap(&self) -> Option<Limit> {
        find_active_jobs_cap(&self.caps)
    }

    /// Returns true if a limit of the scope has too little headroom for a job of `size`.
    pub fn lacks_headroom(&self, size: Size) -> bool {
        self.counters.iter().any(|counter| counter.lacks_headroom(size))
    }

    /// Returns true if the headroom of the scope is known and sufficient for a job of `size`.
    pub fn fits(&self, size: Size) -> bool {
        self.unread == 0 && !self.lacks_headroom(size)
    }

    /// Returns true if a job of `size` would fit if no other job counted in the scope.
    pub fn could_fit(&self, size: Size) -> bool {
        self.counters.iter().all(|it| it.cap.limit.admits(0, size.amount(it.amount.measure)))
    }

    pub fn enter_line(&mut self, key: LineKey, least: Size, since: u64) {
        self.line.insert(key, least);
        self.since.insert((since, key.association));
    }

    pub fn leave_line(&mut self, key: LineKey, since: u64) {
        self.line.remove(key);
        self.since.remove(&(since, key.association));
    }
}

/// Returns the cap on active jobs, if there is one.
pub(super) fn find_active_jobs_cap(caps: &ScopeCaps) -> Option<Limit> {
    caps.get(&Amount { stage: Stage::Active, measure: Measure::Jobs }).map(|cap| cap.limit)
}

/// The scopes in which the jobs of an association count. In each list, the narrowest scope comes first.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ScopeIds {
    pub all: Box<[ScopeId]>,
    /// The scopes with limits that can hold jobs.
    pub holding: Box<[ScopeId]>,
    /// The scopes with a limit on active jobs. No other scope is read or changed when a job comes that takes no headroom.
    pub active: Box<[ScopeId]>,
}

/// A scope that an association joins with its first job.
pub(super) struct ScopeToJoin {
    /// `None` if the scope does not exist yet.
    pub id: Option<ScopeId>,
    pub target: Target,
    pub queue: Option<QueueName>,
    pub counters: Vec<Counter>,
    pub caps: ScopeCaps,
    pub active_jobs: u64,
}

/// All limit scopes.
#[derive(Clone, Debug, Default)]
pub(super) struct LimitScopes {
    limits: Arc<SiteLimits>,
    all: Vec<LimitScope>,
    ids: BTreeMap<(Target, Option<QueueName>), ScopeId>,
    /// Increases each time priorities have changed.
    epoch: u64,
}

impl LimitScopes {
    /// Returns a table without scopes, for `limits`.
    pub fn with_limits(&self, limits: &Arc<SiteLimits>) -> LimitScopes {
        LimitScopes { limits: Arc::clone(limits), epoch: self.epoch, ..LimitScopes::default() }
    }

    pub fn limits(&self) -> &Arc<SiteLimits> {
        &self.limits
    }

    /// Returns true if the site has set no limits over scopes.
    pub fn has_no_limits(&self) -> bool {
        self.limits.is_empty()
    }

    /// Returns the scopes with counters of 0 and empty lines.
    pub fn without_jobs(mut self) -> LimitScopes {
        for scope in &mut self.all {
            scope.counters.iter_mut().for_each(Counter::clear);
            (scope.line, scope.unread, scope.active_jobs) = (SizedLine::default(), 0, 0);
            scope.since.clear();
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

    /// Marks the order of all lines as out of date.
    pub fn note_priorities_changed(&mut self) {
        self.epoch += 1;
    }

    /// Returns the associations in the line of scope `id` if priorities have changed since the last call for this scope, otherwise none.
    pub fn take_stale(&mut self, id: ScopeId) -> impl Iterator<Item = AssociationId> {
        let epoch = self.epoch;
        let scope = self.get_mut(id).filter(|scope| scope.epoch != epoch);
        let line = scope.map(|scope| {
            scope.epoch = epoch;
            &scope.line
        });
        line.into_iter().flat_map(|line| line.ids()).map(|key| key.association)
    }

    pub fn find_scope(&self, target: &Target, queue: Option<&QueueName>) -> Option<&LimitScope> {
        self.get(*self.ids.get(&(target.clone(), queue.cloned()))?)
    }

    /// Returns the scopes to which `user` in `bank` belongs, and creates missing scopes. The narrowest scope comes first: association and user
    /// before banks, inner banks before outer banks, banks before all jobs of a queue, one queue before all queues.
    pub fn find_or_add_scopes(&mut self, user: UserId, bank: &BankName) -> ScopeIds {
        let limits = Arc::clone(&self.limits);
        let mut on = limits.limits_for(user, bank);
        let targets: Vec<Target> = on.iter().map(|(target, ..)| target.clone()).collect();
        on.sort_by_key(|(target, queue, _)| {
            let breadth = match target {
                Target::Queue(_) => 2,
                Target::Bank(_) => 1,
                _ => 0,
            };
            let depth = targets.iter().position(|other| other == target);
            (breadth, depth, queue.is_none())
        });
        let all: Box<[ScopeId]> = on
            .into_iter()
            .filter_map(|(target, queue, caps)| self.find_or_add_scope(target, queue, caps))
            .collect();
        let select = |is_wanted: fn(&LimitScope) -> bool| {
            all.iter().copied().filter(|id| self.get(*id).is_some_and(is_wanted)).collect()
        };
        let holding = select(|scope| !scope.counters.is_empty());
        let active = select(|scope| scope.active_jobs_cap().is_some());
        ScopeIds { all, holding, active }
    }

    /// Returns the scopes that [`find_or_add_scopes`](LimitScopes::find_or_add_scopes) would return, without creating them.
    pub fn scopes_to_join(&self, user: UserId, bank: &BankName) -> impl Iterator<Item = ScopeToJoin> {
        self.limits.limits_for(user, bank).into_iter().map(|(target, queue, caps)| {
            let key = (target, queue);
            let id = self.ids.get(&key).copied();
            let existing = id.and_then(|id| self.get(id));
            let counters = existing.map_or_else(
                || make_counters(&key.0, key.1.as_ref(), &caps).collect(),
                |scope| scope.counters.to_vec(),
            );
            let active_jobs = existing.map_or(0, |scope| scope.active_jobs);
            ScopeToJoin { id, target: key.0, queue: key.1, counters, caps, active_jobs }
        })
    }

    fn find_or_add_scope(
        &mut self,
        target: Target,
        queue: Option<QueueName>,
        caps: ScopeCaps,
    ) -> Option<ScopeId> {
        let key = (target.clone(), queue.clone());
        if let Some(id) = self.ids.get(&key) {
            return Some(*id);
        }
        let id = ScopeId(u32::try_from(self.all.len()).ok()?);
        let counters = make_counters(&target, queue.as_ref(), &caps).collect();
        let virtual_queues = queue.iter().flat_map(|queue| self.limits.virtual_queues(queue.as_str()));
        self.all.push(LimitScope {
            virtual_queues: virtual_queues.cloned().collect(),
            target,
            counters,
            caps,
            active_jobs: 0,
            taken: 0,
            line: SizedLine::default(),
            since: BTreeSet::new(),
            epoch: 0,
            unread: 0,
            queue,
        });
        self.ids.insert(key, id);
        Some(id)
    }

    /// Adds a job to the counters of `scopes` with `op`, or subtracts it.
    pub fn count_job(&mut self, scopes: &ScopeIds, job: &Job, footprint: Footprint, op: fn(u64, u64) -> u64) {
        self.update_scopes(&scopes.active, job, |scope| {
            scope.active_jobs = op(scope.active_jobs, footprint.active_jobs);
        });
        if footprint.is_idle() && !job.is_unread() {
            return;
        }
        self.update_scopes(&scopes.holding, job, |scope| {
            for counter in &mut scope.counters {
                counter.count_job(footprint, op);
            }
            scope.unread = op(scope.unread, u64::from(job.is_unread()));
        });
    }

    /// Counts that a job took headroom in `scopes`.
    pub fn note_taken(&mut self, scopes: &[ScopeId], job: &Job) {
        self.update_scopes(scopes, job, |scope| scope.taken += 1);
    }

    /// Calls `change` for each of `scopes` that counts the queue of `job`.
    fn update_scopes(&mut self, scopes: &[ScopeId], job: &Job, change: impl Fn(&mut LimitScope)) {
        for id in scopes {
            self.get_mut(*id)
                .filter(|scope| scope.counts_queue(job.queue.as_ref()))
                .into_iter()
                .for_each(&change);
        }
    }
}

/// Returns the counters of a scope without jobs.
fn make_counters(
    target: &Target,
    queue: Option<&QueueName>,
    caps: &ScopeCaps,
) -> impl Iterator<Item = Counter> {
    let scope = target.scope(queue.is_some());
    caps.iter().filter(|(amount, _)| amount.can_hold()).map(move |(&amount, cap)| {
        let cap = cap.in_counted_units(amount.measure);
        Counter::new(ScopeRow { scope, amount }.hold(), amount, cap, &Tally::default())
    })
}
