// SPDX-License-Identifier: LGPL-3.0-only
//! Which limits hold a job now, and which jobs of its association would free it. A job keeps the name of the limit that held
//! it first, though it may be another one by now: what counts is what it would exceed.

use super::super::Engine;
use crate::accounts::AssociationId;
use crate::ids::{JobId, QueueName, UserId};
use crate::limits::{Job, Knowledge, Phase, Pressure};

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
    /// The limits that a job in DEPEND would exceed, in the order of the table.
    pub(super) fn holds(&self, job: &Job, now: f64) -> Vec<HoldNow> {
        let Some(association) = job.association().filter(|_| self.is_ours_to_hold(job)) else {
            return Vec::new();
        };
        let pressures = self.ledger.pressures(&self.book, association, job.queue.as_ref());
        let exceeded = pressures.into_iter().filter(|it| it.is_exceeded_by(it.measure.of(job.size)));
        exceeded.map(|pressure| self.hold_now(association, job, &pressure, now)).collect()
    }

    fn is_ours_to_hold(&self, job: &Job) -> bool {
        job.phase == Phase::Depend && (job.knowledge != Knowledge::Known || job.is_held())
    }

    fn hold_now(&self, association: AssociationId, job: &Job, pressure: &Pressure, now: f64) -> HoldNow {
        let Pressure { stage, measure, used, cap, .. } = *pressure;
        let (needed, cap) = (measure.of(job.size), cap.cap());
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
            stage: stage.name(),
            queue,
            used,
            cap,
            needed,
            text,
            frees,
            frees_total: total,
            latest,
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
