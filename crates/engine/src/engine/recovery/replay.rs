// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs shown at plugin load or job-manager restart.
//!
//! What Flux shows then is not enough: names added in an earlier life are in the eventlog only, jobs in PRIORITY are
//! never asked about, and updates from these callbacks may land on other jobs. So a replayed job is only counted, and
//! a zero-delay timer does the rest when all have been seen. Each association is released when of its own jobs
//! everything is known.

use super::unasked::is_in_reach;
use crate::accounts::AssociationId;
use crate::engine::{
    Effect, JobFacts, Level, Recovery, Shared, State, Timer,
    accrual::{self, lacks_start, log_unread_resources},
    due::Scan,
    effect::reprioritize_all,
    foreign::ForeignNames,
    hold, keepers,
    recovery::replay,
};
use crate::ids::JobId;
use crate::limits::{Grant, HoldName, HoldNames, Job, Keepers, Knowledge, Line, Origin, Phase};
use crate::priority::{AGE, URGENCY_HOLD};

/// Replayed jobs whose eventlogs were not asked for yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    is_due: bool,
    /// Jobs in DEPEND, PRIORITY and SCHED.
    pending: Vec<JobId>,
    /// Whether one of them is in PRIORITY.
    has_unpriced: bool,
}

impl Replay {
    /// Returns true if the next reactor turn asks for eventlogs.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// What follows a replay is due, whichever jobs there were.
    pub fn begin(&mut self) {
        self.is_due = true;
    }
}

impl Recovery {
    /// Counts a replayed job by its state. Nothing is rejected, nothing is ended.
    pub(in crate::engine) fn replayed(
        &mut self,
        shared: &mut Shared,
        mut job: Job,
        facts: &JobFacts<'_>,
    ) -> Vec<Effect> {
        job.phase = match facts.state {
            State::New => Phase::New,
            State::Depend => Phase::Depend,
            // The scheduler has allocated its resources, and Flux could not note that while the job was in PRIORITY.
            State::Priority if facts.resources.are_there() => Phase::Run,
            State::Priority => Phase::Priority,
            State::Sched => Phase::Sched,
            State::Run => Phase::Run,
            // Resources are held until INACTIVE.
            State::Cleanup if facts.resources.are_there() => Phase::Run,
            State::Cleanup => Phase::Cleanup,
            State::Inactive => return Vec::new(),
        };
        match job.phase {
            // It waited for data or for room, was held in SCHED or has a score of 0, or had just been released: all the same, it stands
            // in line.
            Phase::Priority => job.await_room(),
            Phase::Sched if facts.priority == 0 && facts.urgency != URGENCY_HOLD => job.await_room(),
            Phase::Depend | Phase::Sched => job.knowledge = Knowledge::Unread,
            _ => {}
        }
        if matches!(job.phase, Phase::Depend | Phase::Priority | Phase::Sched) {
            self.replay.pending.push(facts.id);
            shared.due.incomplete.insert(facts.id);
        }
        self.replay.has_unpriced |= facts.state == State::Priority;
        let mut effects = log_unmeasured(facts);
        if job.phase == Phase::Run {
            job.allocation = facts.resources.allocation().map(Box::new);
            effects.extend(log_unread_resources(facts.id, &facts.resources));
        }
        shared.ledger.insert(facts.id, job);
        // Where R has no start, the eventlog has the time of the allocation.
        let lacks_start = lacks_start(shared, facts.id);
        effects.extend(if lacks_start {
            Some(Effect::ReadEventlog(facts.id))
        } else {
            accrual::accrues(shared, facts.id)
        });
        effects.extend(shared.expirations.follow(&shared.ledger, facts.id, facts.state == State::Run));
        if !self.replay.is_due {
            self.replay.is_due = true;
            effects.push(Effect::Arm(Timer::Turn));
        }
        effects
    }

    /// All replayed jobs were seen: what could not be done inside their callbacks.
    pub(in crate::engine) fn replay_seen(&mut self, shared: &mut Shared) -> Vec<Effect> {
        let Replay { is_due, pending, has_unpriced } = std::mem::take(&mut self.replay);
        if !is_due {
            return Vec::new();
        }
        let depends =
            pending.iter().filter_map(|id| shared.ledger.job(*id).filter(|job| job.phase == Phase::Depend));
        shared.due.unjudged.extend(depends.filter_map(Job::association));
        let mut effects = self.read_eventlogs(shared, pending);
        if self.resync.is_over() {
            // Who came while jobs were compared may be held by what was found to be wrong.
            shared.due.passes.extend(shared.ledger.in_line().map(|association| (association, Line::All)));
        }
        self.all_may_be_known(shared);
        // Flux asks about jobs in PRIORITY at plugin load, but not after a restart.
        if has_unpriced {
            effects.extend(reprioritize_all());
        }
        effects
    }

    /// Asks for the eventlogs of replayed jobs that can decide something: of those in DEPEND, which names are
    /// outstanding; of those in SCHED, which were released and have a place to run reserved, if a limit on what runs is
    /// in reach, now or [later](Recovery::ask_unasked). Where ages count, of all, how long they were eligible: nobody waits for that.
    pub(in crate::engine) fn read_eventlogs(
        &mut self,
        shared: &mut Shared,
        pending: Vec<JobId>,
    ) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in pending {
            let Some(job) = shared.ledger.job(id) else { continue };
            let can_decide = match job.phase {
                Phase::Depend => true,
                Phase::Sched => {
                    job.association().is_some_and(|of| is_in_reach(shared, of, job.queue.as_ref()))
                }
                Phase::New | Phase::Priority | Phase::Run | Phase::Cleanup => false,
            };
            // In SCHED it counted as unread from the start, so that its place to run was not given away. Where no limit on what runs is
            // in reach nothing depends on its eventlog.
            let (is_unread, counts_age) = (job.is_unread(), shared.weighed.weight(AGE) != 0);
            let is_left = job.phase == Phase::Sched && !can_decide;
            if can_decide != is_unread {
                let knowledge = if can_decide { Knowledge::Unread } else { Knowledge::Known };
                shared.ledger.change(id, |job| job.knowledge = knowledge);
            }
            if is_left {
                self.leave_unasked(shared, id);
            }
            effects.extend((can_decide || counts_age).then_some(Effect::ReadEventlog(id)));
        }
        effects
    }

    /// Takes over the names an eventlog tells of.
    pub(in crate::engine) fn eventlog(
        &mut self,
        shared: &mut Shared,
        id: JobId,
        history: Option<Vec<(String, bool)>>,
    ) -> Vec<Effect> {
        let Some(knowledge) = shared.ledger.job(id).map(|job| job.knowledge) else { return Vec::new() };
        let now = shared.now;
        let start = accrual::begin_accrual(shared, id, now);
        let Some(history) = history else {
            return start.into_iter().chain(self.cannot_read(shared, id)).collect();
        };
        let rules = shared.ledger.rules();
        let mut effects = Vec::from_iter(start);
        let (ours, foreign): (Vec<_>, Vec<_>) =
            history.into_iter().partition(|(name, _)| rules.parse(name).is_some());
        // What callbacks told meanwhile is known already, and may be later than what is read here.
        effects.extend(replay::note_foreign(shared, id, &foreign));
        if knowledge != Knowledge::Known {
            shared.ledger.change(id, |job| {
                let ours = ours.iter().filter_map(|(text, added)| Some((rules.parse(text)?, *added)));
                ours.for_each(|(name, added)| job.names.replay(name, added));
            });
            effects.extend(self.known(shared, id));
        }
        effects
    }

    /// The names on the job are known now. Whether it was released follows from them.
    fn known(&mut self, shared: &mut Shared, id: JobId) -> Vec<Effect> {
        self.unreadable.remove(&id);
        let is_unwatched = shared.subscriptions.is_unwatched(id);
        shared.ledger.change(id, |job| {
            job.knowledge = Knowledge::Known;
            if is_unwatched && !job.names.outstanding().is_empty() {
                job.keepers = Keepers::NobodyElse;
            }
            if job.names.were_used() && job.names.outstanding().is_empty() {
                job.grant = match job.phase {
                    Phase::Depend => Grant::Blocked,
                    Phase::Sched => Grant::Given,
                    Phase::New | Phase::Priority | Phase::Run | Phase::Cleanup => job.grant,
                };
            }
        });
        self.all_may_be_known(shared);
        match shared.ledger.job(id).and_then(Job::association) {
            Some(association) => self.one_less_unread(shared, association),
            None => replay::passes_put_off(shared),
        }
    }

    /// An eventlog that can't be read. Of a job in DEPEND others may know which names are outstanding, and it is tried
    /// again; meanwhile the job is not called free, and the others of its association go on. For a job in SCHED a place
    /// to run is reserved, as if it had been released.
    fn cannot_read(&mut self, shared: &mut Shared, id: JobId) -> Vec<Effect> {
        let Some(job) = shared.ledger.job(id) else { return Vec::new() };
        let (knowledge, association) = (job.knowledge, job.association());
        if job.phase != Phase::Depend {
            self.unreadable.remove(&id);
            shared.ledger.change(id, |job| {
                job.knowledge = Knowledge::Known;
                if job.phase == Phase::Sched {
                    job.grant = Grant::Given;
                }
            });
            self.all_may_be_known(shared);
            // It may be held in PRIORITY, where its names are no matter.
            let association = association.filter(|_| knowledge != Knowledge::Known);
            return association.map(|a| self.one_less_unread(shared, a)).unwrap_or_default();
        }
        let mut effects = Vec::new();
        if self.unreadable.insert(id) {
            let text =
                format!("job {id}: its eventlog can't be read; trying again until its names are known");
            effects.push(Effect::Log(Level::Error, text));
        }
        effects.push(Effect::ReadDependencies(id));
        if knowledge == Knowledge::Unread {
            shared.ledger.change(id, |job| job.knowledge = Knowledge::Unreadable);
            effects.extend(association.map(|a| self.one_less_unread(shared, a)).unwrap_or_default());
        }
        effects
    }

    /// Takes over which names are outstanding, where no eventlog tells which were before.
    pub(in crate::engine) fn dependencies(
        &mut self,
        shared: &mut Shared,
        id: JobId,
        names: Option<Vec<String>>,
    ) -> Vec<Effect> {
        let Some(names) = names else { return vec![Effect::Arm(Timer::Retry)] };
        let Some(knowledge) = shared.ledger.job(id).map(|job| job.knowledge) else { return Vec::new() };
        let rules = shared.ledger.rules();
        let ours: Vec<HoldName> = names.iter().filter_map(|name| rules.parse(name)).collect();
        let foreign = names.into_iter().filter(|name| rules.parse(name).is_none());
        let foreign: Vec<(String, bool)> = foreign.map(|name| (name, true)).collect();
        self.unreadable.remove(&id);
        let mut effects = replay::note_foreign(shared, id, &foreign);
        if knowledge != Knowledge::Known {
            let names = HoldNames::only_outstanding(rules, ours, shared.now);
            shared.ledger.change(id, |job| job.names = names);
            effects.extend(self.known(shared, id));
        }
        effects
    }

    /// When all eventlogs of an association are read, whoever may go there is released, and then whoever must be held
    /// is, if that was not decided before.
    pub(in crate::engine) fn one_less_unread(
        &mut self,
        shared: &mut Shared,
        association: AssociationId,
    ) -> Vec<Effect> {
        if shared.ledger.is_unread(association) {
            return Vec::new();
        }
        let effects = replay::passes_put_off(shared);
        if shared.due.half_pushed.contains(&association) {
            return effects;
        }
        shared.due.scan(association);
        if shared.due.unjudged.contains(&association) {
            shared.due.scans.push(Scan::HoldReplayed(association));
        }
        effects
    }

    /// Whether that was the last of all that is read. Of a job that can't be read somebody is still being asked: should
    /// taking in the answer panic each time, comparing with Flux again each time would have no end.
    pub(in crate::engine) fn all_may_be_known(&mut self, shared: &mut Shared) {
        if !shared.ledger.has_unread() && self.unreadable.is_empty() {
            self.resync.ended();
        }
    }
}

/// Nothing is missing any more among the names of others, if we were subscribed while the eventlog was read. If we
/// were not, and others keep the job by names that its jobspec does not declare, it is read once more.
fn note_foreign(shared: &mut Shared, id: JobId, foreign: &[(String, bool)]) -> Vec<Effect> {
    if let Some(others) = shared.subscriptions.names_mut(id) {
        foreign.iter().for_each(|(name, added)| others.note(name, *added));
        others.complete();
        return keepers::note_keepers(shared, id);
    }
    let mut others = ForeignNames::of_new();
    foreign.iter().for_each(|(name, added)| others.note(name, *added));
    let is_here = shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Depend);
    if others.keep_it() && is_here { keepers::watch(shared, id) } else { Vec::new() }
}

/// An association that was read before others with which it shares a limit has its turn when all are read.
fn passes_put_off(shared: &mut Shared) -> Vec<Effect> {
    if shared.ledger.has_unread() {
        return Vec::new();
    }
    let put_off = shared.ledger.take_put_off();
    put_off.into_iter().flat_map(|association| shared.due.scan_later(association, Line::All)).collect()
}

/// Holds replayed jobs that carry no name of ours and don't fit.
pub(in crate::engine) fn hold_replayed(shared: &mut Shared, association: AssociationId) -> Vec<Effect> {
    shared.due.unjudged.remove(&association);
    let is_free = |id: &JobId| {
        shared.ledger.job(*id).is_some_and(|job| {
            job.origin == Origin::Replayed && job.is_up_to_others() && job.grant == Grant::None
        })
    };
    let free: Vec<JobId> = shared.ledger.before_sched(association).filter(is_free).collect();
    free.into_iter().flat_map(|id| hold::hold(shared, id)).collect()
}

fn log_unmeasured(facts: &JobFacts<'_>) -> Vec<Effect> {
    let Err(error) = &facts.size else { return Vec::new() };
    let text = format!("job {}: unable to count resources ({error}); counting 1 node, 1 core", facts.id);
    vec![Effect::Log(Level::Error, text)]
}
