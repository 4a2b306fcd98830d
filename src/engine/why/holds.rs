// SPDX-License-Identifier: LGPL-3.0-only
//! Which limits hold a job now, and which jobs of its association would free it. A job keeps the name of the limit that held
//! it first, though it may be another one by now: what counts is what it would exceed.

use super::super::Engine;
use crate::accounts::{AssociationId, Target};
use crate::ids::{JobId, QueueName, UserId};
use crate::limits::{Holding, Job, Knowledge, Phase, Pressure};

/// So many of the jobs that would free a limit are named.
const MOST_NAMED: usize = 20;
/// So many are looked at.
pub(super) const MOST_LOOKED_AT: usize = 1000;

/// A limit that holds a job.
#[derive(Clone, Debug, PartialEq)]
pub struct HoldNow {
    /// The dependency's name.
    pub limit: &'static str,
    /// What it counts: jobs, nodes or cores.
    pub measure: &'static str,
    /// Of which jobs: running, scheduled, or both.
    pub stage: &'static str,
    /// The queue, if it is a limit of that.
    pub queue: Option<QueueName>,
    /// In use.
    pub used: u64,
    /// The cap.
    pub cap: u64,
    /// What the job takes.
    pub needed: u64,
    /// All of it in words.
    pub text: String,
    /// Who would free it, who ends first before the others.
    pub frees: Vec<Freeing>,
    /// How many there are.
    pub frees_total: usize,
    /// When jobs that run now have made room for it, were it alone.
    pub latest: Option<f64>,
    /// Associations share it: who goes first when there is room depends on all of them.
    pub is_shared: bool,
}

/// A job that takes room under a limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Freeing {
    /// The job.
    pub id: JobId,
    /// `run`, `sched`, or `released` where it is on its way there.
    pub state: &'static str,
    /// How much it takes.
    pub amount: u64,
    /// When it gives it back at the latest, if anybody can say.
    pub by: Option<f64>,
}

impl HoldNow {
    /// Whether no other job's end could make room.
    pub fn is_for_ever(&self) -> bool {
        self.needed > self.cap
    }
}

impl Engine {
    /// The limits that a job in DEPEND would exceed, in the order of the table; those over scopes come last.
    pub(super) fn holds(&self, id: JobId, job: &Job, now: f64) -> Vec<HoldNow> {
        let Some(association) = job.association().filter(|_| self.is_ours_to_hold(job)) else {
            return Vec::new();
        };
        let pressures = self.ledger.pressures(&self.book, association, job.queue.as_ref());
        let exceeded = pressures.into_iter().filter(|it| it.is_exceeded_by(job.size.of(it.measure)));
        let own = exceeded.map(|pressure| self.hold_now(association, job, &pressure, now));
        let shared = self.ledger.holding(&self.book, id).into_iter().filter_map(shared_hold);
        own.chain(shared).collect()
    }

    fn is_ours_to_hold(&self, job: &Job) -> bool {
        job.phase == Phase::Depend && (job.knowledge != Knowledge::Known || job.is_held())
    }

    fn hold_now(&self, association: AssociationId, job: &Job, pressure: &Pressure, now: f64) -> HoldNow {
        let Pressure { stage, measure, used, cap, .. } = *pressure;
        let (needed, cap) = (job.size.of(measure), cap.cap());
        let queue = job.queue.clone().filter(|_| pressure.is_of_queue);
        let (mut frees, mut total, mut left, mut latest) = (Vec::new(), 0, used, None);
        for (id, by) in self.ledger.counted(association).take(MOST_LOOKED_AT) {
            let Some(other) = self.ledger.job(id) else { continue };
            let amount = stage.taken(other, measure);
            if amount == 0 || (queue.is_some() && other.queue != queue) {
                continue;
            }
            total += 1;
            let by = by.map(|by| by.max(now));
            left = if by.is_some() { left.saturating_sub(amount) } else { left };
            if latest.is_none() && left.saturating_add(needed) <= cap {
                latest = by;
            }
            if frees.len() < MOST_NAMED {
                frees.push(Freeing { id, state: state(other), amount, by });
            }
        }
        let whose = self.whose(association, queue.as_ref());
        let what = format!("{} {}", stage.adjective(), measure.name());
        let text = format!("{used} of {cap} {what} of {whose} are in use; this job takes {needed}");
        HoldNow {
            limit: pressure.hold.name(),
            measure: measure.name(),
            stage: stage.which(),
            queue,
            used,
            cap,
            needed,
            text,
            frees,
            frees_total: total,
            latest,
            is_shared: false,
        }
    }

    fn whose(&self, association: AssociationId, queue: Option<&QueueName>) -> String {
        let known = self.book.association(association);
        let (user, bank) = known.map_or((UserId(0), ""), |known| (known.user, known.bank.as_str()));
        match queue {
            Some(queue) => format!("user {user} in bank {bank}, queue {queue}"),
            None => format!("user {user} in bank {bank}"),
        }
    }
}

fn state(job: &Job) -> &'static str {
    match job.phase {
        Phase::Run => "run",
        Phase::Sched => "sched",
        Phase::New | Phase::Depend | Phase::Priority | Phase::Cleanup => "released",
    }
}

/// A limit over a scope; of those of the association itself there is none here.
fn shared_hold(held: Holding) -> Option<HoldNow> {
    let Holding { hold, amount, target, queue, used, limit, needed, is_claimed } = held;
    let whose = match target? {
        Target::Association(user, bank) => format!("user {user} in bank {bank}"),
        Target::EachAssociation => "its association".to_owned(),
        Target::Bank(bank) => format!("bank {bank} with all below it"),
        Target::EachBank => "its bank".to_owned(),
        Target::User(user) => format!("user {user} over all banks"),
        Target::EachUser => "its user over all banks".to_owned(),
    };
    let of_queue = queue.as_ref().map_or(String::new(), |queue| format!(", queue {queue}"));
    let (cap, measure) = (limit.cap(), amount.measure.name());
    let what = format!("{} {measure}", amount.stage.adjective());
    let mut text = format!("{used} of {cap} {what} of {whose}{of_queue} are in use; this job takes {needed}");
    if is_claimed {
        text.push_str("; what is free is kept for a job that was overtaken often");
    }
    let stage = amount.stage.which();
    let (frees, frees_total, latest) = (Vec::new(), 0, None);
    let limit = hold.name();
    Some(HoldNow {
        limit,
        measure,
        stage,
        queue,
        used,
        cap,
        needed,
        text,
        frees,
        frees_total,
        latest,
        is_shared: true,
    })
}
