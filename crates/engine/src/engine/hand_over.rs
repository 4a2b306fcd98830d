// SPDX-License-Identifier: LGPL-3.0-only
//! Going back to flux-accounting's plugin: what becomes of each held job there, and how those that it would lose are put
//! where it leaves them in peace.
//!
//! When that plugin is loaded it adds the plain name of every limit that a job in DEPEND exceeds, and takes off only what it
//! added itself. So whoever carries any other name waits indefinitely: one with a number, one of a limit that it does not know, one
//! of a limit that has room by then. And a plain name that was taken off a job once can't be added again, which Flux does
//! not say: the plugin takes it off all the same when there is room, fails, and ends the job. What it can't hold by a
//! name it leaves alone at urgency 0, in SCHED.
//!
//! Whom others keep too does not come to SCHED by that: it would stay in DEPEND with a name that is used up. So it keeps its
//! names, and nothing saves it but that they let it go. Nor does anything save who was released already and is kept by others alone,
//! where a limit is full again that it had a name of.

use super::{Effect, Shared, View, hold::may_rest, release::scan_after};
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::limits::{Demand, Grant, Job, Keepers, Line, Phase};

/// What becomes of a held job under flux-accounting's plugin, loaded now with the data that are in force here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is held on, and released when there is room.
    Held,
    /// Nobody ever takes off a name that it carries.
    Stranded,
    /// It is ended when there is room.
    Ended,
    /// It is in PRIORITY, where that plugin holds nobody, and goes on at once.
    Released,
}

/// A job that another plugin is to take over: it is held, or it would end there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandedOver {
    /// Its id.
    pub id: JobId,
    /// Who submitted it.
    pub user: UserId,
    /// Its bank.
    pub bank: Option<BankName>,
    /// The queue it names.
    pub queue: Option<QueueName>,
    /// The names that it carries; none in PRIORITY, nor where only others keep it.
    pub names: Vec<String>,
    /// Others keep it in DEPEND too: it can't be put where that plugin leaves it in peace.
    pub is_kept: bool,
    /// What becomes of it.
    pub fate: Fate,
}

/// Takes our names off jobs whose urgency is 0: they rest in SCHED.
pub(super) fn let_rest(shared: &mut Shared, ids: Vec<JobId>) -> Vec<Effect> {
    ids.into_iter().flat_map(|id| let_one_rest(shared, id)).collect()
}

fn let_one_rest(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let job = shared.ledger.job(id).filter(|job| may_rest(job));
    let Some(association) = job.and_then(Job::association) else { return Vec::new() };
    let rules = shared.ledger.rules();
    let names = shared.ledger.change(id, |job| {
        (job.grant, job.demand) = (Grant::Given, Demand::Resting);
        let names: Vec<_> = job.names.iter(rules).collect();
        names.into_iter().filter_map(|name| job.names.remove(name.hold)).collect::<Vec<_>>()
    });
    let names = names.unwrap_or_default().into_iter();
    let mut effects: Vec<Effect> = names.map(|name| Effect::RemoveDependency(id, name)).collect();
    effects.push(scan_after(shared, association, vec![id], Line::All));
    effects
}

/// So many jobs that are held, or would end, by id, from the one that comes after `after`. `None` while eventlogs are being read:
/// nobody knows yet who carries which names.
pub fn hand_over(view: &View<'_>, after: Option<JobId>, most: usize) -> Option<Vec<HandedOver>> {
    if view.is_replaying || view.ledger.has_unread() || !view.unreadable.is_empty() {
        return None;
    }
    let concerned = view.ledger.jobs_after(after).filter(|(_, job)| job.is_held() || ends_unheld(view, job));
    Some(concerned.take(most).map(|(id, job)| handed_over(view, id, job)).collect())
}

/// Whether a job that was released, and that others keep in DEPEND, would end.
fn ends_unheld(view: &View<'_>, job: &Job) -> bool {
    job.grant == Grant::Blocked && fate(view, job) == Fate::Ended
}

fn handed_over(view: &View<'_>, id: JobId, job: &Job) -> HandedOver {
    let record = job.association().and_then(|association| view.book.association(association));
    HandedOver {
        id,
        user: job.user,
        bank: record.map(|record| record.bank.clone()),
        queue: job.queue.clone(),
        names: job.names.iter(view.ledger.rules()).map(|name| name.to_string()).collect(),
        is_kept: job.keepers == Keepers::Others,
        fate: fate(view, job),
    }
}

fn fate(view: &View<'_>, job: &Job) -> Fate {
    if job.phase == Phase::Priority {
        return Fate::Released;
    }
    let rules = view.ledger.rules();
    let full = view.ledger.exceeded_by_charges(&view.book, job);
    let plain = job.names.iter(rules).filter(|name| name.use_count == 1).map(|name| name.hold).collect();
    let is_used_up = |hold| job.names.uses(hold) > 0;
    if rules.members(full.without(plain)).any(is_used_up) {
        Fate::Ended
    } else if job.names.outstanding().without(plain.and(full)).is_empty() {
        Fate::Held
    } else {
        Fate::Stranded
    }
}
