// SPDX-License-Identifier: LGPL-3.0-only
//! Other plugins' dependencies: who keeps a job in DEPEND, and what happens when they let it go.
//!
//! Flux tells of a job's events only who subscribed to it, and searches the list of subscriptions from the front for
//! every one that is given back. So a job is subscribed to while others may keep it, from NEW to the end of DEPEND, and no longer:
//! at once if its jobspec declares dependencies, else when it turns out to stay in DEPEND without a name of ours.
//!
//! And not more than [`Batches::subscribed`](super::Batches) are at a time: anybody may have any number of jobs wait for others, or for a time to begin. Of
//! the rest nobody tells when they are let go. None of them gets a name of ours, by which it would stand in line indefinitely as one that
//! others keep; one that carries some, from before a reload, stands there as if nobody else kept it. When it is let go it
//! is in PRIORITY, and is judged there: it goes no further before there is room.

use super::{Effect, Shared, State, foreign::ForeignNames, hold, subscriptions::Subscribed};
use crate::ids::JobId;
use crate::limits::{Grant, Job, Keepers, Line, Phase};

/// Subscribes to a job that declares dependencies, before other plugins see them.
pub(super) fn created(shared: &mut Shared, id: JobId, state: State, has_dependencies: bool) -> Vec<Effect> {
    let others = match state {
        State::New => ForeignNames::of_new(),
        State::Depend => ForeignNames::unknown(),
        _ => return Vec::new(),
    };
    if !has_dependencies {
        return Vec::new();
    }
    subscribe(shared, id, others).unwrap_or_default()
}

/// Subscribes to a job that others keep, and has its eventlog read for their names.
pub(super) fn watch(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    if shared.subscriptions.names(id).is_some() {
        return Vec::new();
    }
    let Some(mut effects) = subscribe(shared, id, ForeignNames::unknown()) else { return Vec::new() };
    shared.ledger.change(id, |job| job.keepers = Keepers::Others);
    shared.ledger.note_eligible(id, None, shared.now);
    effects.push(Effect::ReadEventlog(id));
    effects
}

fn subscribe(shared: &mut Shared, id: JobId, names: ForeignNames) -> Option<Vec<Effect>> {
    match shared.subscriptions.add(id, names) {
        Subscribed::New => Some(vec![Effect::Subscribe(id)]),
        Subscribed::Already => Some(Vec::new()),
        Subscribed::Full => {
            leave_unwatched(shared, id);
            None
        }
    }
}

/// Notes that nothing reports when others release the job. For its age, and in answers, others keep it, unless limits hold it.
pub(super) fn leave_unwatched(shared: &mut Shared, id: JobId) {
    shared.subscriptions.leave_unwatched(id);
    shared.ledger.change(id, |job| {
        let is_ours = !job.names.outstanding().is_empty();
        job.keepers = if is_ours { Keepers::NobodyElse } else { Keepers::Others };
    });
    shared.ledger.note_eligible(id, None, shared.now);
}

/// Ends the subscription to a job that leaves DEPEND.
pub(super) fn unwatch(shared: &mut Shared, id: JobId) -> Option<Effect> {
    shared.due.unheld.remove(&id);
    shared.subscriptions.end(id)
}

/// Flux moves a job on from DEPEND in the same turn if nobody keeps it. Who is still there is kept by others.
pub(super) fn discover(shared: &mut Shared) -> Vec<Effect> {
    let is_here = |job: &Job| job.phase == Phase::Depend;
    let unheld = std::mem::take(&mut shared.due.unheld);
    unheld
        .into_iter()
        .flat_map(|id| match shared.ledger.job(id).is_some_and(is_here) {
            true => watch(shared, id),
            false => Vec::new(),
        })
        .collect()
}

/// A dependency of the job was added or removed.
pub(super) fn dependency(shared: &mut Shared, id: JobId, name: &str, added: bool) -> Vec<Effect> {
    if shared.ledger.rules().parse(name).is_some() {
        return Vec::new();
    }
    let Some(others) = shared.subscriptions.names_mut(id) else { return Vec::new() };
    others.note(name, added);
    let may_go = !added && others.know_none();
    let mut effects = note_keepers(shared, id);
    effects.extend(may_go.then(|| judge(shared, id)).into_iter().flatten());
    effects
}

/// Takes over whether others keep the job. When they have let it go and only our names are left, it may go in the
/// next reactor turn: the running callback is the job's own.
pub(super) fn note_keepers(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let keepers = shared.subscriptions.keepers(id);
    let Some(job) = shared.ledger.job(id).filter(|job| job.keepers != keepers) else {
        return Vec::new();
    };
    let (association, is_held) = (job.association(), job.is_held());
    shared.ledger.change(id, |job| job.keepers = keepers);
    shared.ledger.note_eligible(id, None, shared.now);
    match association {
        Some(association) if keepers == Keepers::NobodyElse && is_held => {
            shared.due.scan_later(association, Line::KeptByNobodyElse)
        }
        _ => Vec::new(),
    }
}

/// Others let go of a job that carries no name of ours: this may have been their last, and the job goes on when the
/// running callback is over. What counts is what the limits say now, whatever they said when it came, or when it
/// was released. Of all the dependents of one job, that is after those that were let go before it.
fn judge(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    let Some(job) = shared.ledger.job(id).filter(|job| job.is_up_to_others()) else {
        return Vec::new();
    };
    // What a pass under way has just promised to it is counted already.
    if job.grant == Grant::Given { Vec::new() } else { hold::hold(shared, id) }
}

/// Subscribes again to a job after a panic, which may have lost the subscription: Flux counts each one, so all are given back first.
/// What other plugins did meanwhile is in the eventlog.
pub(super) fn watch_again(shared: &mut Shared, id: JobId, state: State) -> Vec<Effect> {
    let others = shared.subscriptions.take_names(id);
    shared.expirations.forget(id);
    if state > State::Depend {
        shared.subscriptions.clear_unwatched(id);
    }
    let mut effects = vec![Effect::Unsubscribe(id)];
    let others = match (others, state) {
        (Some(others), State::New) => others,
        (Some(_), State::Depend) => ForeignNames::unknown(),
        _ => return effects,
    };
    shared.subscriptions.put_back(id, others);
    effects.push(Effect::Subscribe(id));
    effects
}
