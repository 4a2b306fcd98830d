// SPDX-License-Identifier: LGPL-3.0-only
//! A job's way from `job.new` to INACTIVE.

use super::others::Others;
use super::{Effect, Engine, JobFacts, Level, Posting, State};
use crate::accounts::AssociationId;
use crate::ids::{BankName, JobId, QueueName};
use crate::limits::{Grant, Job, Name, Names, Origin, Phase, Size};
use crate::priority::{PRIORITY_MAX, Terms, URGENCY_EXPEDITE, URGENCY_HOLD};

/// A fair-share that moved by less is not worth an event.
const MEMO_STEP: f64 = 1e-9;

impl Engine {
    /// Takes an accepted job in. Return codes are ignored by Flux here, so nothing is refused.
    pub(super) fn new_job(&mut self, facts: &JobFacts<'_>) -> Vec<Effect> {
        if self.knows(facts.id) {
            return Vec::new();
        }
        let is_submission = self.validated.remove(&facts.id);
        let association = self.book.find(facts.user, facts.bank);
        let mut job = Job {
            user: facts.user,
            association,
            bank: self.bank_name(association, facts.bank),
            queue: self.queue_name(facts.queue),
            has_project: facts.project.is_some(),
            is_kept_by_others: self.others.get(&facts.id).is_some_and(Others::keep_it),
            size: *facts.size.as_ref().unwrap_or(&Size::ONE),
            phase: Phase::New,
            origin: if is_submission { Origin::Submitted } else { Origin::Replayed },
            names: Names::default(),
            grant: Grant::None,
            is_urgency_hold: facts.urgency == URGENCY_HOLD,
            lacks_price: facts.state == State::Priority,
            needs_admission: true,
            is_unread: false,
            is_broken: false,
            is_missed: false,
            memo: None,
        };
        if !is_submission {
            return self.replayed(job, facts);
        }
        let association = job.association.and_then(|id| self.book.association(id));
        job.is_broken = association.is_some_and(|a| a.is_broken());
        job.needs_admission = job.association.is_none();
        let effects = match job.association {
            Some(association) if !job.is_broken => {
                self.complete_jobspec(facts.id, &job, association, Posting::Current)
            }
            _ => Vec::new(),
        };
        self.ledger.insert(facts.id, job);
        effects
    }

    /// The bank's name; thousands of jobs share their association's.
    pub(super) fn bank_name(
        &self,
        association: Option<AssociationId>,
        bank: Option<&str>,
    ) -> Option<BankName> {
        let known = association.and_then(|id| self.book.association(id)).map(|association| &association.bank);
        bank.map(|bank| known.filter(|known| known.as_str() == bank).cloned().unwrap_or_else(|| bank.into()))
    }

    /// The queue's name; thousands of jobs share that of the configured queue.
    pub(super) fn queue_name(&self, queue: Option<&str>) -> Option<QueueName> {
        queue.map(|queue| self.book.queue(queue).map_or_else(|| queue.into(), |known| known.name.clone()))
    }

    /// Puts the default bank and project into a jobspec that names none. A bank that is named is never overwritten.
    pub(super) fn complete_jobspec(
        &self,
        id: JobId,
        job: &Job,
        association: AssociationId,
        posting: Posting,
    ) -> Vec<Effect> {
        let Some(association) = self.book.association(association) else { return Vec::new() };
        let bank = job.bank.is_none().then(|| association.bank.clone());
        let project = if job.has_project { None } else { association.def_project.clone() };
        if bank.is_none() && project.is_none() {
            return Vec::new();
        }
        vec![Effect::SetJobspec { id, posting, bank, project }]
    }

    /// Holds the job for each limit it would exceed. Waiting jobs are never held: they must reach PRIORITY.
    pub(super) fn depend(&mut self, id: JobId) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id) else { return Vec::new() };
        if job.is_broken {
            return vec![Effect::Raise(id, "job.state.depend: bank info is missing".to_owned())];
        }
        // A replayed job is already in DEPEND; its names are read from its eventlog.
        if job.phase != Phase::New {
            return Vec::new();
        }
        let is_waiting = job.association.is_none();
        self.ledger.change(id, |job| job.phase = Phase::Depend);
        if is_waiting { Vec::new() } else { self.hold(id) }
    }

    /// Keeps the names by which others hold a job. When the last is gone and only ours are left, the job may go in the
    /// next reactor turn: this callback is still the job's own.
    pub(super) fn dependency(&mut self, id: JobId, name: &str, added: bool) -> Vec<Effect> {
        if Name::parse(name).is_some() {
            return Vec::new();
        }
        let others = self.others.entry(id).or_default();
        others.note(name, added);
        let is_kept = others.keep_it();
        let Some(job) = self.ledger.job(id).filter(|job| job.is_kept_by_others != is_kept) else {
            return Vec::new();
        };
        let (association, is_held) = (job.association, job.is_held());
        self.ledger.change(id, |job| job.is_kept_by_others = is_kept);
        if is_kept || !is_held {
            return Vec::new();
        }
        self.passed_over.extend(association);
        vec![Effect::Defer]
    }

    pub(super) fn priority(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id) else { return Vec::new() };
        if job.phase < Phase::Priority {
            self.ledger.change(id, |job| {
                job.phase = Phase::Priority;
                // Released after all: what was promised is reserved again until it is charged.
                if job.grant == Grant::Blocked {
                    job.grant = Grant::Given;
                }
            });
        }
        let price = self.admitted_price(id, urgency, Posting::Current);
        if self.ledger.job(id).is_some_and(|job| job.lacks_price != price.is_err()) {
            self.ledger.change(id, |job| job.lacks_price = price.is_err());
        }
        match price {
            Ok(effects) => effects,
            Err(pending) => self.unpriced(id, pending, Effect::PriorityUnavailable),
        }
    }

    pub(super) fn priority_get(&mut self, id: JobId, urgency: i64) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id) else { return Vec::new() };
        if job.is_admitted() && !job.lacks_price && job.is_urgency_hold == (urgency == URGENCY_HOLD) {
            let (effects, memo) = self.price(id, job, urgency);
            self.ledger.annotate(id, memo);
            return effects;
        }
        // An update of the current job would send one that is in SCHED round, within Flux's loop over its jobs.
        let posting = if job.phase == Phase::Sched { Posting::ById } else { Posting::Current };
        match self.admitted_price(id, urgency, posting) {
            Ok(effects) => self.moved_on(id, effects),
            Err(pending) => self.unpriced(id, pending, Effect::KeepPriority),
        }
    }

    /// The answer for a job that has no price. One that never will is judged again in the next reactor turn and ends
    /// there. Not here: it would disturb Flux's loop over its jobs; and another plugin may have let it go and still look
    /// at what is its own and the job's. Flux's begin-time takes the broker down if the job ends under its hands.
    fn unpriced(&mut self, id: JobId, pending: Pending, answer: Effect) -> Vec<Effect> {
        match pending {
            Pending::Unavailable => vec![answer],
            Pending::Missed(text) => vec![Effect::Log(Level::Error, text), answer],
            Pending::Fatal(_) => {
                self.refusals.push(id);
                vec![Effect::Defer, answer]
            }
        }
    }

    /// Ends jobs that can never have a price.
    pub(super) fn refuse(&mut self) -> Vec<Effect> {
        let mut effects = Vec::new();
        for id in std::mem::take(&mut self.refusals) {
            match self.admit(id, Posting::ById) {
                Ok(more) => effects.extend(more),
                Err(Pending::Fatal(note)) => effects.push(Effect::Raise(id, note)),
                Err(Pending::Unavailable | Pending::Missed(_)) => {}
            }
        }
        effects
    }

    /// A job in PRIORITY that gets its price from a reprioritize: should it be the price it had before, Flux does
    /// nothing, so it is prioritized by id in the next reactor turn. That does nothing where Flux did.
    fn moved_on(&mut self, id: JobId, mut effects: Vec<Effect>) -> Vec<Effect> {
        let price = effects.iter().find_map(|effect| match effect {
            Effect::SetPriority(price) => Some(*price),
            _ => None,
        });
        if let Some(price) = price.filter(|_| self.ledger.job(id).is_some_and(|job| job.lacks_price)) {
            self.ledger.change(id, |job| job.lacks_price = false);
            self.moves.push((id, price));
            effects.push(Effect::Defer);
        }
        effects
    }

    fn admitted_price(&mut self, id: JobId, urgency: i64, posting: Posting) -> Result<Vec<Effect>, Pending> {
        let mut effects = self.admit(id, posting)?;
        effects.extend(self.urgency_hold(id, urgency == URGENCY_HOLD));
        let job = self.ledger.job(id).ok_or(Pending::Unavailable)?;
        let (price, memo) = self.price(id, job, urgency);
        effects.extend(price);
        self.ledger.annotate(id, memo);
        Ok(effects)
    }

    /// Gives a waiting job its association, and an association's job its bank and project.
    fn admit(&mut self, id: JobId, posting: Posting) -> Result<Vec<Effect>, Pending> {
        let Some(job) = self.ledger.job(id) else { return Err(Pending::Unavailable) };
        if job.is_admitted() {
            return Ok(Vec::new());
        }
        if job.is_broken {
            return Err(Pending::Unavailable);
        }
        let is_submission = job.origin == Origin::Submitted;
        let named = job.bank.as_ref().map(|b| b.as_str());
        let Some(association) = job.association.or_else(|| self.book.find(job.user, named)) else {
            // Without a bank it may still be the instance owner's, whose record arrives last. A replayed job was
            // accepted once; a push that lacks it is no reason to kill it.
            if !self.book.has_data() || named.is_none() || job.is_missed {
                return Err(Pending::Unavailable);
            }
            let text = Engine::unknown_association(job.user);
            if is_submission {
                return Err(Pending::Fatal(text));
            }
            let bank = named.unwrap_or_default();
            let told = format!("job {id}: {text}, bank {bank}; it waits until a push brings it");
            self.ledger.change(id, |job| job.is_missed = true);
            return Err(Pending::Missed(told));
        };
        if is_submission
            && let Some(text) = self.forbidden_queue(association, job.queue.as_ref().map(|q| q.as_str()))
        {
            return Err(Pending::Fatal(text));
        }
        // What is posted by id is posted in the next reactor turn.
        let effects = match posting {
            Posting::Current => self.complete_jobspec(id, job, association, posting),
            Posting::ById => vec![Effect::Defer],
        };
        self.ledger.change(id, |job| {
            job.association = Some(association);
            job.needs_admission = posting == Posting::ById;
        });
        Ok(effects)
    }

    /// The price of an attached job, and the fair-share to remember as told if the effects tell it.
    fn price(&self, id: JobId, job: &Job, urgency: i64) -> (Vec<Effect>, Option<f64>) {
        let Some(association) = job.association.and_then(|a| self.book.association(a)) else {
            return (vec![Effect::PriorityUnavailable], None);
        };
        match urgency {
            URGENCY_HOLD => return (vec![Effect::SetPriority(0)], None),
            URGENCY_EXPEDITE => return (vec![Effect::SetPriority(PRIORITY_MAX)], None),
            _ => {}
        }
        let terms = Terms::of(&self.book, association, job.queue.as_ref().map(|q| q.as_str()), urgency);
        let priority = Effect::SetPriority(terms.priority(self.book.config().zero_score));
        let fairshare = terms.fairshare.factor;
        if job.memo.is_none_or(|last| (last - fairshare).abs() >= MEMO_STEP) {
            (vec![Effect::Memo(id, fairshare), priority], Some(fairshare))
        } else {
            (vec![priority], None)
        }
    }

    /// A released job that its user then holds lets others use the running slot reserved for it.
    fn urgency_hold(&mut self, id: JobId, is_held: bool) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id) else { return Vec::new() };
        if job.is_urgency_hold == is_held {
            return Vec::new();
        }
        let (association, frees) = (job.association, is_held && job.grant == Grant::Given);
        self.ledger.change(id, |job| job.is_urgency_hold = is_held);
        match association {
            Some(association) if frees => self.pass(association),
            _ => Vec::new(),
        }
    }

    /// Counts a job in SCHED, once however often it comes round.
    pub(super) fn sched(&mut self, id: JobId) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id) else { return Vec::new() };
        if job.phase >= Phase::Sched {
            return Vec::new();
        }
        let association = job.association;
        self.ledger.change(id, |job| {
            job.phase = Phase::Sched;
            if job.grant == Grant::Blocked {
                job.grant = Grant::Given;
            }
        });
        association.map(|a| self.withdraw_grants(a)).unwrap_or_default()
    }

    /// Counts a job as running; what it held in SCHED is free.
    pub(super) fn run(&mut self, id: JobId) -> Vec<Effect> {
        let Some(job) = self.ledger.job(id) else { return Vec::new() };
        let association = job.association;
        self.ledger.change(id, |job| {
            job.phase = Phase::Run;
            job.grant = Grant::None;
        });
        association.map(|a| self.pass(a)).unwrap_or_default()
    }

    /// Uncounts a job. Ids we never counted are no error: a job may end during a restart before we see it.
    pub(super) fn inactive(&mut self, id: JobId) -> Vec<Effect> {
        self.validated.remove(&id);
        self.others.remove(&id);
        let Some(job) = self.ledger.remove(id) else { return Vec::new() };
        self.refusals.retain(|refused| *refused != id);
        self.moves.retain(|(moved, _)| *moved != id);
        let mut effects = if job.is_unread { self.one_less_unread() } else { Vec::new() };
        match job.association {
            Some(association) if !job.footprint().is_idle() || job.is_blocked_grant() => {
                effects.extend(self.pass(association));
            }
            _ => {}
        }
        effects
    }

    pub(super) fn log_unmeasured(facts: &JobFacts<'_>) -> Vec<Effect> {
        let Err(error) = &facts.size else { return Vec::new() };
        let text = format!("job {}: unable to count resources ({error}); counting 1 node, 1 core", facts.id);
        vec![Effect::Log(Level::Error, text)]
    }
}

/// Why a job has no price yet.
enum Pending {
    /// It waits for data.
    Unavailable,
    /// It was accepted once, and the data that came lack its association: told once, in the log.
    Missed(String),
    /// It never will have one.
    Fatal(String),
}
