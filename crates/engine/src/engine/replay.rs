// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs shown at plugin load or job-manager restart.
//!
//! What Flux shows then is not enough: names added in an earlier life are in the eventlog only, jobs in PRIORITY are
//! never asked about, and updates from these callbacks may land on other jobs. So a replayed job is only counted, and
//! a zero-delay timer does the rest when all have been seen. Each association is released when of its own jobs
//! everything is known.

use super::due::Scan;
use super::foreign::ForeignNames;
use super::{Effect, Engine, JobFacts, Level, State, Timer};
use crate::accounts::AssociationId;
use crate::engine::age::lacks_site_nodes;
use crate::engine::hold;
use crate::engine::keepers;
use crate::engine::life::log_unmeasured;
use crate::engine::life::log_unread_resources;
use crate::engine::live::accrual;
use crate::engine::live::accrual::lacks_start;
use crate::engine::live::ended;
use crate::engine::price;
use crate::engine::pushes::reprioritize_all;
use crate::engine::unasked::is_in_reach;
use crate::ids::JobId;
use crate::limits::{Grant, HoldName, HoldNames, Job, Keepers, Knowledge, Line, Origin, Phase};
use crate::priority::{AGE, URGENCY_HOLD};

/// A timer may fire so many seconds before the clock shows its time.
const EARLY: f64 = 0.1;

/// What was replayed and not yet worked out.
#[derive(Clone, Debug, Default)]
pub(super) struct Replay {
    is_due: bool,
    /// Jobs in DEPEND, PRIORITY and SCHED.
    pending: Vec<JobId>,
    /// Whether one of them is in PRIORITY.
    has_unpriced: bool,
}

impl Replay {
    /// Whether jobs were shown whose replay is not worked out yet.
    pub fn is_due(&self) -> bool {
        self.is_due
    }

    /// What follows a replay is due, whichever jobs there were.
    pub fn begin(&mut self) {
        self.is_due = true;
    }
}

impl Engine {
    /// Counts a replayed job by its state. Nothing is rejected, nothing is ended.
    pub(super) fn replayed(&mut self, mut job: Job, facts: &JobFacts<'_>) -> Vec<Effect> {
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
            self.shared.due.incomplete.insert(facts.id);
        }
        self.replay.has_unpriced |= facts.state == State::Priority;
        let mut effects = log_unmeasured(facts);
        if job.phase == Phase::Run {
            job.allocation = facts.resources.allocation().map(Box::new);
            effects.extend(log_unread_resources(facts.id, &facts.resources));
        }
        self.shared.ledger.insert(facts.id, job);
        // Where R has no start, the eventlog has the time of the allocation.
        let lacks_start = lacks_start(&self.shared, facts.id);
        effects.extend(if lacks_start {
            Some(Effect::ReadEventlog(facts.id))
        } else {
            accrual::accrues(&mut self.shared, facts.id)
        });
        effects.extend(self.shared.expirations.follow(
            &self.shared.ledger,
            facts.id,
            facts.state == State::Run,
        ));
        if !self.replay.is_due {
            self.replay.is_due = true;
            effects.push(Effect::Arm(Timer::Turn));
        }
        effects
    }

    /// All replayed jobs were seen: what could not be done inside their callbacks.
    pub(super) fn replay_seen(&mut self) -> Vec<Effect> {
        let Replay { is_due, pending, has_unpriced } = std::mem::take(&mut self.replay);
        if !is_due {
            return Vec::new();
        }
        let depends = pending
            .iter()
            .filter_map(|id| self.shared.ledger.job(*id).filter(|job| job.phase == Phase::Depend));
        self.shared.due.unjudged.extend(depends.filter_map(Job::association));
        let mut effects = self.read_eventlogs(pending);
        if self.resync.is_over() {
            // Who came while jobs were compared may be held by what was found to be wrong.
            self.shared
                .due
                .passes
                .extend(self.shared.ledger.in_line().map(|association| (association, Line::All)));
        }
        self.all_may_be_known();
        // Flux asks about jobs in PRIORITY at plugin load, but not after a restart.
        if has_unpriced {
            effects.extend(reprioritize_all());
        }
        effects
    }

    /// Asks for the eventlogs of replayed jobs that can decide something: of those in DEPEND, which names are
    /// outstanding; of those in SCHED, which were released and have a place to run reserved, if a limit on what runs is
    /// in reach, now or [later](Engine::ask_unasked). Where ages count, of all, how long they were eligible: nobody waits for that.
    pub(super) fn read_eventlogs(&mut self, pending: Vec<JobId>) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in pending {
            let Some(job) = self.shared.ledger.job(id) else { continue };
            let can_decide = match job.phase {
                Phase::Depend => true,
                Phase::Sched => {
                    job.association().is_some_and(|of| is_in_reach(&self.shared, of, job.queue.as_ref()))
                }
                Phase::New | Phase::Priority | Phase::Run | Phase::Cleanup => false,
            };
            // In SCHED it counted as unread from the start, so that its place to run was not given away. Where no limit on what runs is
            // in reach nothing depends on its eventlog.
            let (is_unread, counts_age) = (job.is_unread(), self.shared.weighed.weight(AGE) != 0);
            let is_left = job.phase == Phase::Sched && !can_decide;
            if can_decide != is_unread {
                let knowledge = if can_decide { Knowledge::Unread } else { Knowledge::Known };
                self.shared.ledger.change(id, |job| job.knowledge = knowledge);
            }
            if is_left {
                self.leave_unasked(id);
            }
            effects.extend((can_decide || counts_age).then_some(Effect::ReadEventlog(id)));
        }
        effects
    }

    /// Takes over the names an eventlog tells of.
    pub(super) fn eventlog(&mut self, id: JobId, history: Option<Vec<(String, bool)>>) -> Vec<Effect> {
        let Some(knowledge) = self.shared.ledger.job(id).map(|job| job.knowledge) else { return Vec::new() };
        let now = self.shared.now;
        let start = accrual::begin_accrual(&mut self.shared, id, now);
        let Some(history) = history else { return start.into_iter().chain(self.cannot_read(id)).collect() };
        let rules = self.shared.ledger.rules();
        let mut effects = Vec::from_iter(start);
        let (ours, foreign): (Vec<_>, Vec<_>) =
            history.into_iter().partition(|(name, _)| rules.parse(name).is_some());
        // What callbacks told meanwhile is known already, and may be later than what is read here.
        effects.extend(self.note_foreign(id, &foreign));
        if knowledge != Knowledge::Known {
            self.shared.ledger.change(id, |job| {
                let ours = ours.iter().filter_map(|(text, added)| Some((rules.parse(text)?, *added)));
                ours.for_each(|(name, added)| job.names.replay(name, added));
            });
            effects.extend(self.known(id));
        }
        effects
    }

    /// Nothing is missing any more among the names of others, if we were subscribed while the eventlog was read. If we
    /// were not, and others keep the job by names that its jobspec does not declare, it is read once more.
    fn note_foreign(&mut self, id: JobId, foreign: &[(String, bool)]) -> Vec<Effect> {
        if let Some(others) = self.shared.subscriptions.names_mut(id) {
            foreign.iter().for_each(|(name, added)| others.note(name, *added));
            others.complete();
            return keepers::note_keepers(&mut self.shared, id);
        }
        let mut others = ForeignNames::of_new();
        foreign.iter().for_each(|(name, added)| others.note(name, *added));
        let is_here = self.shared.ledger.job(id).is_some_and(|job| job.phase == Phase::Depend);
        if others.keep_it() && is_here { keepers::watch(&mut self.shared, id) } else { Vec::new() }
    }

    /// The names on the job are known now. Whether it was released follows from them.
    fn known(&mut self, id: JobId) -> Vec<Effect> {
        self.unreadable.remove(&id);
        let is_unwatched = self.shared.subscriptions.is_unwatched(id);
        self.shared.ledger.change(id, |job| {
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
        self.all_may_be_known();
        match self.shared.ledger.job(id).and_then(Job::association) {
            Some(association) => self.one_less_unread(association),
            None => self.passes_put_off(),
        }
    }

    /// An eventlog that can't be read. Of a job in DEPEND others may know which names are outstanding, and it is tried
    /// again; meanwhile the job is not called free, and the others of its association go on. For a job in SCHED a place
    /// to run is reserved, as if it had been released.
    fn cannot_read(&mut self, id: JobId) -> Vec<Effect> {
        let Some(job) = self.shared.ledger.job(id) else { return Vec::new() };
        let (knowledge, association) = (job.knowledge, job.association());
        if job.phase != Phase::Depend {
            self.unreadable.remove(&id);
            self.shared.ledger.change(id, |job| {
                job.knowledge = Knowledge::Known;
                if job.phase == Phase::Sched {
                    job.grant = Grant::Given;
                }
            });
            self.all_may_be_known();
            // It may be held in PRIORITY, where its names are no matter.
            let association = association.filter(|_| knowledge != Knowledge::Known);
            return association.map(|a| self.one_less_unread(a)).unwrap_or_default();
        }
        let mut effects = Vec::new();
        if self.unreadable.insert(id) {
            let text =
                format!("job {id}: its eventlog can't be read; trying again until its names are known");
            effects.push(Effect::Log(Level::Error, text));
        }
        effects.push(Effect::ReadDependencies(id));
        if knowledge == Knowledge::Unread {
            self.shared.ledger.change(id, |job| job.knowledge = Knowledge::Unreadable);
            effects.extend(association.map(|a| self.one_less_unread(a)).unwrap_or_default());
        }
        effects
    }

    /// Takes over which names are outstanding, where no eventlog tells which were before.
    pub(super) fn dependencies(&mut self, id: JobId, names: Option<Vec<String>>) -> Vec<Effect> {
        let Some(names) = names else { return vec![Effect::Arm(Timer::Retry)] };
        let Some(knowledge) = self.shared.ledger.job(id).map(|job| job.knowledge) else { return Vec::new() };
        let rules = self.shared.ledger.rules();
        let ours: Vec<HoldName> = names.iter().filter_map(|name| rules.parse(name)).collect();
        let foreign = names.into_iter().filter(|name| rules.parse(name).is_none());
        let foreign: Vec<(String, bool)> = foreign.map(|name| (name, true)).collect();
        self.unreadable.remove(&id);
        let mut effects = self.note_foreign(id, &foreign);
        if knowledge != Knowledge::Known {
            let names = HoldNames::only_outstanding(rules, ours, self.shared.now);
            self.shared.ledger.change(id, |job| job.names = names);
            effects.extend(self.known(id));
        }
        effects
    }

    /// Tries again to read what could not be read; and the owner's record should have come by now.
    pub(super) fn retry(&mut self) -> Vec<Effect> {
        let (now, patience) = (self.shared.now, Timer::Retry.seconds());
        // If the clock was set back, nobody can tell how long a job has waited.
        let is_over = |since: f64| !(0.0..patience - EARLY).contains(&(now - since));
        let over = self.shared.due.expected.extract_if(.., |_, since| is_over(*since)).map(|(id, _)| id);
        self.shared.due.ends.extend(over);
        let mut effects = price::end_unpriceable(&mut self.shared);
        effects.extend((!self.shared.due.expected.is_empty()).then_some(Effect::Arm(Timer::Retry)));
        effects.extend(self.unreadable.iter().copied().map(Effect::ReadEventlog));
        effects.extend(ended::ask_again(&mut self.shared));
        effects.extend(lacks_site_nodes(&self.shared));
        effects.extend((!self.shared.due.unmoved.is_empty()).then_some(Effect::Arm(Timer::Turn)));
        effects
    }

    /// When all eventlogs of an association are read, whoever may go there is released, and then whoever must be held
    /// is, if that was not decided before.
    pub(super) fn one_less_unread(&mut self, association: AssociationId) -> Vec<Effect> {
        if self.shared.ledger.is_unread(association) {
            return Vec::new();
        }
        let effects = self.passes_put_off();
        if self.shared.due.half_pushed.contains(&association) {
            return effects;
        }
        self.shared.due.scan(association);
        if self.shared.due.unjudged.contains(&association) {
            self.shared.due.scans.push(Scan::HoldReplayed(association));
        }
        effects
    }

    /// An association that was read before others with which it shares a limit has its turn when all are read.
    fn passes_put_off(&mut self) -> Vec<Effect> {
        if self.shared.ledger.has_unread() {
            return Vec::new();
        }
        let put_off = self.shared.ledger.take_put_off();
        put_off
            .into_iter()
            .flat_map(|association| self.shared.due.scan_later(association, Line::All))
            .collect()
    }

    /// Whether that was the last of all that is read. Of a job that can't be read somebody is still being asked: should
    /// taking in the answer panic each time, comparing with Flux anew each time would have no end.
    pub(super) fn all_may_be_known(&mut self) {
        if !self.shared.ledger.has_unread() && self.unreadable.is_empty() {
            self.resync.ended();
        }
    }

    /// Holds replayed jobs that carry no name of ours and don't fit.
    pub(super) fn hold_replayed(&mut self, association: AssociationId) -> Vec<Effect> {
        self.shared.due.unjudged.remove(&association);
        let is_free = |id: &JobId| {
            self.shared.ledger.job(*id).is_some_and(|job| {
                job.origin == Origin::Replayed && job.is_up_to_others() && job.grant == Grant::None
            })
        };
        let free: Vec<JobId> = self.shared.ledger.before_sched(association).filter(is_free).collect();
        free.into_iter().flat_map(|id| hold::hold(&mut self.shared, id)).collect()
    }
}
