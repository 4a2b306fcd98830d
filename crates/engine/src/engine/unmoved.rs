// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs in PRIORITY that get their priority by id, since Flux would leave them there.
//!
//! Flux keeps the jobs that pend in one list, in the order in which they go, and finds the place of each that comes by a walk from its
//! end; for priorities in the upper half of all from its beginning. After a restart all of them are in PRIORITY without a priority. Its
//! loop would priority them in no order, each after a walk over half the list, and nobody is served until it is over. So where there are
//! many they are left where they are in that loop, and are then priced by id, in the order in which they go: each is the last of the
//! list, or the first. With 20,000 the push that makes Flux loop takes a quarter of the time.

use super::{Effect, Shared, Timer};
use crate::ids::JobId;
use crate::priority::PRIORITY_MAX;
use std::collections::BTreeSet;

/// It gets its priority in the next reactor turns.
pub(super) fn put_off(shared: &mut Shared, id: JobId) -> Vec<Effect> {
    shared.due.unmoved.insert(id);
    vec![Effect::Arm(Timer::Turn), Effect::KeepPriority]
}

/// A job in PRIORITY that gets its priority from a reprioritize: should it be the priority it had before, Flux does
/// nothing, so it is prioritized by id in the next reactor turn, at what its priority is then.
pub(super) fn moved_on(shared: &mut Shared, id: JobId) -> Option<Effect> {
    shared.unpriced.remove(&id).then(|| {
        shared.due.unmoved.insert(id);
        Effect::Arm(Timer::Turn)
    })
}

/// Asks for the urgency of those that are to be given their priority: of all, or of the next where there are many.
pub(super) fn move_on(shared: &mut Shared) -> Vec<Effect> {
    if !shared.due.unmoved.is_in_order() {
        if shared.due.unmoved.jobs().len() <= shared.batches.put_off {
            return shared.due.unmoved.take().into_iter().map(Effect::AskUrgency).collect();
        }
        let order = in_order(shared, shared.due.unmoved.jobs());
        shared.due.unmoved.put_in_order(order);
    }
    let next = std::iter::from_fn(|| shared.due.unmoved.next()).take(shared.batches.unmoved);
    let mut effects: Vec<Effect> = next.map(Effect::AskUrgency).collect();
    effects.extend((!shared.due.unmoved.is_empty()).then_some(Effect::Arm(Timer::Turn)));
    effects
}

/// Whether Flux's loop leaves a job in PRIORITY, of which there are many.
pub(super) fn is_put_off(shared: &Shared, id: JobId) -> bool {
    shared.unpriced.len() > shared.batches.put_off && shared.unpriced.contains(&id)
}

/// In the order in which Flux finds a place for each at once, the first at the end, by the urgencies that were told last.
pub(super) fn in_order(shared: &Shared, jobs: &BTreeSet<JobId>) -> Vec<JobId> {
    let mut keyed: Vec<(bool, u32, u64)> = jobs
        .iter()
        .map(|id| {
            let made = shared.ledger.job(*id).and_then(|job| shared.explain(*id, job, job.urgency));
            let price = made.map_or(0, |made| made.priority);
            match price > PRIORITY_MAX / 2 {
                true => (true, !price, id.0),
                false => (false, price, !id.0),
            }
        })
        .collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(is_high, _, id)| JobId(if is_high { id } else { !id })).collect()
}
