// SPDX-License-Identifier: LGPL-3.0-only
//! The price of a job, and what comes before it: an association for a job that waits, bank and project in its jobspec.

use super::{Effect, Engine, Level, Memo, Posting, Timer};
use crate::accounts::AssociationId;
use crate::engine::in_priority::wakes_too_late;
use crate::engine::life::complete_jobspec;
use crate::engine::live::prices::keeps_price;
use crate::engine::shared::Shared;
use crate::engine::unmoved::is_put_off;
use crate::engine::validate::unknown_association;
use crate::ids::JobId;
use crate::limits::{Admission, Demand, Grant, Job, Line, Origin, Phase, Project, Settled};
use crate::priority::{AGE, Explanation, FAIRSHARE, PRIORITY_MAX, URGENCY_EXPEDITE};

/// A fair-share that moved by less is not worth an event.
const MEMO_STEP: f64 = 1e-9;

/// Why a job has no price yet.
pub(super) enum Pending {
    /// It waits for data.
    Unavailable,
    /// It is the instance owner's: his record comes after the reprioritize of the same push, if it comes.
    Expected,
    /// It was accepted once, and the data that came lack its association: told once, in the log.
    Missed(String),
    /// It never will have one.
    Fatal(String),
}

/// When bank and project go into a jobspec that lacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Completion {
    /// At once.
    Now(Posting),
    /// In the next reactor turn: an update sends a job that is in SCHED round to PRIORITY, and it is just being priced.
    Later,
}

/// Returns the priority that a job in SCHED without data keeps when its urgency changes: the posted one, or 0 if that came from urgency
/// 31. If the urgency is 0 or 31 now, Flux replaces the answer.
fn without_expedite(posted: u32) -> u32 {
    if posted == PRIORITY_MAX { 0 } else { posted }
}

impl Completion {
    /// That of a job that is priced in a phase, where Flux has it already.
    fn in_phase(phase: Phase, posting: Posting) -> Completion {
        if phase == Phase::Sched { Completion::Later } else { Completion::Now(posting) }
    }
}

impl Engine {
    /// Returns the answer to `job.state.priority`. `posted` is the posted priority of a job that was in SCHED until now: the scheduler
    /// may have decided on this job, so it always gets a priority, which returns it to SCHED.
    pub(super) fn prioritized(&mut self, id: JobId, urgency: i64, posted: Option<u32>) -> Vec<Effect> {
        self.shared.ledger.note_eligible(id, Some(urgency), self.shared.now);
        if posted.is_some() && urgency == URGENCY_EXPEDITE {
            self.release_expedited(id);
        } else if self.shared.ledger.job(id).is_some_and(|job| wakes_too_late(&self.shared, id, job, urgency))
        {
            let mut effects = self.stands_in_line(id);
            effects.extend(self.stays(id, urgency, posted.is_some()));
            return effects;
        }
        if self.shared.ledger.job(id).is_some_and(Job::is_awaiting) {
            self.note_held_urgency(id, urgency);
            return self.stays(id, urgency, posted.is_some());
        }
        let price = self.price(id, urgency, Completion::Now(Posting::Current));
        if price.is_err() && posted.is_none() {
            self.shared.unpriced.insert(id);
        } else {
            self.shared.unpriced.remove(&id);
        }
        match price {
            Ok((mut effects, price)) => {
                effects.push(Effect::SetPriority(price));
                effects.extend(self.annotation(id));
                effects.extend(self.correct_place(id));
                let freed = self.rest(id, Demand::of_price(price));
                freed.into_iter().for_each(|association| self.shared.due.scan(association));
                effects
            }
            Err(pending) => {
                let answer = match posted {
                    Some(posted) => Effect::SetPriority(without_expedite(posted)),
                    None => Effect::PriorityUnavailable,
                };
                if posted.is_none() {
                    self.stays_in_priority(id);
                }
                self.unpriced(id, pending, Some(answer))
            }
        }
    }

    /// The answer to `job.priority.get`, which Flux asks in its loop over its jobs alone. Of one that others began nobody tells that it is
    /// over: in the next reactor turn it is. Until then other plugins may have a job start that it asks about.
    pub(super) fn asked_in_loop(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        if !self.is_looping {
            self.shared.live.stale.begin_loop(self.shared.now);
        }
        let mut effects = self.priority_get(id, urgency);
        if !self.is_looping && !effects.is_empty() {
            self.is_looping = true;
            effects.push(Effect::Arm(Timer::Turn));
        }
        effects
    }

    /// The same, where it is known that Flux loops: no other job may be touched.
    fn priority_get(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        if let Some(price) = settled_priority(&self.shared, id, urgency) {
            return vec![Effect::SetPriority(price)];
        }
        self.shared.ledger.note_eligible(id, Some(urgency), self.shared.now);
        let Some(job) = self.shared.ledger.job(id) else { return Vec::new() };
        if job.is_awaiting() {
            self.note_held_urgency(id, urgency);
            return self.stays_as_it_is(id);
        }
        let phase = job.phase;
        // One that a restart sent to PRIORITY has no price that it could keep.
        if wakes_too_late(&self.shared, id, job, urgency)
            && (self.shared.unpriced.contains(&id) || !keeps_price(&self.shared, id, urgency))
        {
            let mut effects = self.stands_in_line(id);
            effects.extend(self.stays_as_it_is(id));
            return effects;
        }
        if keeps_price(&self.shared, id, urgency) || self.keeps_stale(id, urgency) {
            return vec![Effect::KeepPriority];
        }
        if is_put_off(&self.shared, id) {
            return self.put_off(id);
        }
        let completion = Completion::in_phase(phase, Posting::Current);
        match self.price(id, urgency, completion) {
            Ok((mut effects, price)) => {
                effects.push(Effect::SetPriority(price));
                effects.extend(self.annotation(id));
                let freed = self.rest(id, Demand::of_price(price));
                effects.extend(freed.into_iter().flat_map(|of| self.shared.due.scan_later(of, Line::All)));
                effects.extend(self.moved_on(id));
                self.settle(id, urgency, price);
                effects
            }
            Err(pending) => self.unpriced(id, pending, Some(Effect::KeepPriority)),
        }
    }

    /// Notes the price of a job, where neither time nor other jobs make it another.
    fn settle(&mut self, id: JobId, urgency: i64, price: u32) {
        let stays = !self.shared.is_live() && self.shared.weighed.weight(AGE) == 0;
        let settled =
            i32::try_from(urgency).map(|urgency| Settled { revision: self.shared.revision, urgency, price });
        self.shared.ledger.settle(id, settled.ok().filter(|_| stays));
    }

    /// A job's present urgency. Of one in PRIORITY it was asked because Flux would leave it there, or because it was
    /// released: it gets its price by id, which does nothing where Flux did. Of one in DEPEND it was asked because it goes:
    /// one that won't be scheduled takes no place to run.
    pub(super) fn told_urgency(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        self.shared.ledger.note_eligible(id, Some(urgency), self.shared.now);
        let Some(job) = self.shared.ledger.job(id) else { return Vec::new() };
        if job.phase == Phase::Depend {
            let explanation = self.shared.explain(id, job, urgency);
            let demand = explanation.map_or(Demand::ToRun, |it| Demand::of_price(it.priority));
            self.shared.ledger.change(id, |job| (job.demand, job.urgency) = (demand, urgency));
            return Vec::new();
        }
        // A replayed job that has resources in PRIORITY needs a priority to leave that state.
        let may_lack_priority = job.phase == Phase::Run && job.origin == Origin::Replayed;
        if job.phase > Phase::Sched && !may_lack_priority {
            return Vec::new();
        }
        let is_late = wakes_too_late(&self.shared, id, job, urgency);
        if is_late || job.is_awaiting() {
            self.note_held_urgency(id, urgency);
            let mut effects = if is_late { self.stands_in_line(id) } else { Vec::new() };
            let admitted = self.admit(id, Completion::Now(Posting::ById));
            effects.extend(admitted.unwrap_or_else(|pending| self.unpriced(id, pending, None)));
            return effects;
        }
        let (completion, is_in_sched) = (Completion::in_phase(job.phase, Posting::ById), job.is_in_sched);
        match self.price(id, urgency, completion) {
            Ok((mut effects, price)) => {
                self.shared.unpriced.remove(&id);
                // Flux does not say that it comes to where it is.
                if is_in_sched {
                    self.advance(id, Phase::Sched);
                }
                effects.push(Effect::Prioritize(id, price));
                effects.extend(self.correct_place(id));
                let freed = self.rest(id, Demand::of_price(price));
                freed.into_iter().for_each(|association| self.shared.due.scan(association));
                effects
            }
            Err(pending) => {
                self.stays_in_priority(id);
                self.unpriced(id, pending, None)
            }
        }
    }

    /// The urgency of a held job has changed. No scope keeps headroom for a job that won't be scheduled.
    pub(super) fn held_urgency(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        if self.shared.ledger.job(id).is_some_and(may_be_released) {
            self.shared.ledger.note_eligible(id, Some(urgency), self.shared.now);
            self.note_held_urgency(id, urgency);
        }
        Vec::new()
    }

    fn note_held_urgency(&mut self, id: JobId, urgency: i64) {
        let is_other = |job: &&Job| may_be_released(job) && job.urgency != urgency;
        let Some(job) = self.shared.ledger.job(id).filter(is_other) else { return };
        let explanation = self.shared.explain(id, job, urgency);
        let demand = explanation.map_or(Demand::ToRun, |it| Demand::of_price(it.priority));
        self.shared.ledger.change(id, |job| (job.demand, job.urgency) = (demand, urgency));
    }

    /// The answer for a job that has no price. One that never will is judged again in the next reactor turn and ends
    /// there. Not here: it would disturb Flux's loop over its jobs; and another plugin may have let it go and still look
    /// at what is its own and the job's. Flux's begin-time takes the broker down if the job ends under its hands.
    pub(super) fn unpriced(&mut self, id: JobId, pending: Pending, answer: Option<Effect>) -> Vec<Effect> {
        let before = match pending {
            Pending::Unavailable => None,
            Pending::Expected => Some(Effect::Arm(Timer::Retry)),
            Pending::Missed(text) => Some(Effect::Log(Level::Error, text)),
            Pending::Fatal(_) => {
                self.shared.due.ends.insert(id);
                Some(Effect::Arm(Timer::Turn))
            }
        };
        before.into_iter().chain(answer).collect()
    }

    /// Ends jobs that can never have a price.
    pub(super) fn end_unpriceable(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in std::mem::take(&mut self.shared.due.ends) {
            match self.admit(id, Completion::Now(Posting::ById)) {
                Ok(more) => effects.extend(more),
                Err(Pending::Fatal(note)) => effects.push(Effect::Raise(id, note)),
                Err(Pending::Unavailable | Pending::Expected | Pending::Missed(_)) => {}
            }
        }
        effects
    }

    /// Notes whether the job would be scheduled. Returns its association if that frees the headroom that the job has reserved.
    pub(super) fn rest(&mut self, id: JobId, demand: Demand) -> Option<AssociationId> {
        let job = self.shared.ledger.job(id).filter(|job| job.demand != demand)?;
        let (association, reserved) = (job.association(), job.footprint().reserved);
        self.shared.ledger.change(id, |job| job.demand = demand);
        let is_freed = self.shared.ledger.job(id).is_some_and(|job| job.footprint().reserved != reserved);
        association.filter(|_| demand == Demand::Resting && is_freed)
    }

    /// The price of a job at this moment, and what comes before it is set.
    fn price(
        &mut self,
        id: JobId,
        urgency: i64,
        completion: Completion,
    ) -> Result<(Vec<Effect>, u32), Pending> {
        // What is settled is what was noted last.
        self.shared.ledger.settle(id, None);
        let priced = self.admit(id, completion).and_then(|effects| {
            let job = self.shared.ledger.job(id).ok_or(Pending::Unavailable)?;
            Ok((effects, self.shared.explain(id, job, urgency).ok_or(Pending::Unavailable)?))
        });
        let (mut effects, explanation) = match priced {
            Ok(priced) => priced,
            Err(pending) => {
                self.shared.live.forget(id);
                return Err(pending);
            }
        };
        let is_posted = self.shared.live.posted_priority(id) == Some(explanation.priority);
        self.note_price(id, urgency, &explanation);
        let has_memo = self.shared.ledger.job(id).is_some_and(|job| job.memo.is_some());
        // Live fair-share moves at each instant, and Flux posts no priority that is the same.
        if !(is_posted && has_memo && self.shared.is_live()) {
            effects.extend(self.memo(id, &explanation));
        }
        Ok((effects, explanation.priority))
    }

    /// Returns the memo with the fair-share of a priority that is about to be posted, unless the job has it already.
    pub(super) fn memo(&mut self, id: JobId, explanation: &Explanation) -> Option<Effect> {
        if self.shared.settings.memo == Memo::Never || !explanation.is_by_terms() {
            return None;
        }
        let job = self.shared.ledger.job(id)?;
        let term = explanation.terms().iter().find(|term| term.name == FAIRSHARE);
        let fairshare = term.map(|term| term.value).or_else(|| self.shared.fairshare(job.association()?))?;
        if job.memo.is_some_and(|last| (last - fairshare).abs() < MEMO_STEP) {
            return None;
        }
        // An eventlog grows with the square of its events, so only the first memo of live fair-share is in it.
        let is_volatile = self.shared.is_live() && job.memo.is_some();
        self.shared.ledger.annotate(id, Some(fairshare));
        Some(if is_volatile { Effect::VolatileMemo(id, fairshare) } else { Effect::Memo(id, fairshare) })
    }

    /// Gives a waiting job its association, and an association's job its bank and project.
    pub(super) fn admit(&mut self, id: JobId, completion: Completion) -> Result<Vec<Effect>, Pending> {
        let Some(job) = self.shared.ledger.job(id) else { return Err(Pending::Unavailable) };
        match job.admission {
            Admission::Admitted(_) => return Ok(Vec::new()),
            Admission::Broken(_) => return Err(Pending::Unavailable),
            Admission::Waiting { .. } | Admission::Attached(_) => {}
        }
        let named = job.bank.as_ref().map(|b| b.as_str());
        let Some(association) = job.association().or_else(|| self.shared.book.find(job.user, named)) else {
            return Err(self.missed(id));
        };
        if job.origin == Origin::Submitted {
            let forbidden = self.shared.forbidden_queue(association, job.queue.as_ref().map(|q| q.as_str()));
            let unjudged = match &job.project {
                Project::Unjudged(project) => Some(project.as_str()),
                Project::Missing | Project::Judged => None,
            };
            if let Some(text) = forbidden.or_else(|| self.shared.forbidden_project(association, unjudged)) {
                // The rest of a push may bring it.
                return Err(if self.shared.due.push_ended {
                    Pending::Fatal(text)
                } else {
                    Pending::Unavailable
                });
            }
        }
        let posting = if let Completion::Now(posting) = completion { posting } else { Posting::ById };
        let mut effects = complete_jobspec(&self.shared, id, job, association, posting);
        let mut admission = Admission::Admitted(association);
        if completion == Completion::Later && !effects.is_empty() {
            self.shared.due.incomplete.insert(id);
            (effects, admission) = (vec![Effect::Arm(Timer::Turn)], Admission::Attached(association));
        }
        self.shared.ledger.meet(&self.shared.book, association);
        self.shared.ledger.change(id, |job| job.admission = admission);
        // From now on it stands in line.
        if self.shared.ledger.job(id).is_some_and(Job::is_awaiting) {
            effects.extend(self.shared.due.scan_later(association, Line::All));
        }
        Ok(effects)
    }

    /// Why a job whose association is not in the data has no price. In the middle of a push it may still come: the reprioritize that ends
    /// it asks again.
    fn missed(&mut self, id: JobId) -> Pending {
        let Some(job) =
            self.shared.ledger.job(id).filter(|_| self.shared.book.has_data() && self.shared.due.push_ended)
        else {
            return Pending::Unavailable;
        };
        let was_told = job.admission == (Admission::Waiting { was_passed_over: true });
        let text = unknown_association(job.user);
        // Without a bank it may still be the instance owner's, whose record arrives last.
        let bank = job.bank.as_ref().map(|bank| bank.to_string());
        let (is_submission, is_owners) = (job.origin == Origin::Submitted, self.shared.is_owner(job.user));
        self.shared.ledger.change(id, |job| job.admission = Admission::Waiting { was_passed_over: true });
        match bank {
            None => Pending::Unavailable,
            Some(_) if is_owners && !was_told => {
                self.shared.due.expected.entry(id).or_insert(self.shared.now);
                Pending::Expected
            }
            Some(_) if is_submission => Pending::Fatal(text),
            Some(_) if was_told => Pending::Unavailable,
            // It was accepted once; a push that lacks its association is no reason to kill it.
            Some(bank) => {
                Pending::Missed(format!("job {id}: {text}, bank {bank}; it waits until a push brings it"))
            }
        }
    }
}

/// The price of a job in SCHED that was asked for before, if nothing has changed since that it is made of.
fn settled_priority(shared: &Shared, id: JobId, urgency: i64) -> Option<u32> {
    let is_of_now = |it: &Settled| (it.revision, i64::from(it.urgency)) == (shared.revision, urgency);
    let settled = shared.ledger.settled(id).filter(is_of_now)?;
    debug_assert_eq!(
        shared.ledger.job(id).and_then(|job| shared.explain(id, job, urgency)).map(|it| it.priority),
        Some(settled.price)
    );
    (!shared.unpriced.contains(&id)).then_some(settled.price)
}

/// Whether the job is held, or others keep it in DEPEND.
fn may_be_released(job: &Job) -> bool {
    job.is_held() || job.phase == Phase::Depend && job.grant != Grant::Given
}
