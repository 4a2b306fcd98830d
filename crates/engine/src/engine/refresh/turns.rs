// SPDX-License-Identifier: LGPL-3.0-only
//! Interleave: pending jobs priced as if those before them had been charged what they ask for.
//!
//! # Rules
//! - An association's jobs come in the order of their priorities without interleave, the earlier id first. Held and zero-score jobs
//!   have no turn. The first [`Batches::ordered`](super::super::Batches) of each association have one; those behind are priced
//!   like the last of them, until they come up.
//! - A job asks for its nodes and cores, by the tree's weights, for its time limit; one without limit for a day.
//! - Formula policies: where would the association stand then, all others unchanged. Rank policies and pbs compare level by
//!   level who is more deserving, and "all others unchanged" would have every association's jobs from the second on stand equal:
//!   there the turns are OpenPBS's, in which whoever starts is charged at once, and [`Standing::list_fairshares`] makes priorities of them.
//! - Turns are as of the last refresh. A job that came since it was begun, or came from another association, stands with the last of its association.
//! - A turn never holds a job: where its priority would be none it keeps its association's fair-share.
//!
//! [`Standing::list_fairshares`]: crate::standing::Standing::list_fairshares

use crate::accounts::AssociationId;
use crate::engine::{
    Shared,
    turns::{JobTurns, Turn},
};
use crate::ids::JobId;
use crate::limits::Job;
use crate::priority::FAIRSHARE;
use crate::standing::{Charging, Index};
use fairshare::periods::Resources;
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

/// Turns that are computed at once.
const SLICE: usize = 4_000;
/// Jobs that are brought into their order at once.
const PRICED: usize = 2_000;
/// What a job without a time limit asks for.
const DAY: f64 = 86_400.0;

/// Turns that are being computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Taking {
    /// Associations whose jobs have yet to be brought into their order; of the first one these are priced already.
    left: VecDeque<AssociationId>,
    priced: Vec<(Reverse<u32>, JobId)>,
    after: Option<JobId>,
    /// What the jobs of the others ask for, in their order.
    asked: Vec<(Index, Vec<f64>)>,
    charging: Option<Charging>,
    /// Jobs in their order.
    jobs: HashMap<Index, (AssociationId, Vec<JobId>)>,
}

/// Begins to work out turns, if that is asked for.
pub(in crate::engine) fn begin_turns(shared: &mut Shared) -> Option<Taking> {
    if !shared.settings.interleave {
        shared.turns = JobTurns::default();
        return None;
    }
    Some(Taking { left: shared.posted.associations().into(), ..Taking::default() })
}

/// Goes on by a slice; `None` when all turns are known.
pub(in crate::engine) fn take_turns(shared: &mut Shared, mut taking: Taking) -> Option<Taking> {
    let mut most = PRICED;
    while let Some(&association) = taking.left.front() {
        if most == 0 {
            return Some(taking);
        }
        most = order_on(shared, &mut taking, association, most);
    }
    let charging = match taking.charging.take() {
        Some(charging) => Some(charging),
        None => shared.standing.begin_charging(std::mem::take(&mut taking.asked), shared.now),
    };
    let mut charging = charging?;
    if !shared.standing.continue_charging(&mut charging, SLICE) {
        taking.charging = Some(charging);
        return Some(taking);
    }
    // What makes a difference of one in a priority, and a little for what multiplying loses.
    let unit = 1.001 / (shared.weighed.weight(FAIRSHARE) as f64).abs().max(1.0);
    let mut turns = JobTurns::default();
    for (index, fairshares) in shared.standing.list_fairshares(charging, unit) {
        let Some((association, jobs)) = taking.jobs.remove(&index) else { continue };
        for (at, (id, fairshare)) in jobs.into_iter().zip(fairshares).enumerate() {
            let turn = Turn { number: at + 1, fairshare };
            turns.push(id, association, turn);
        }
    }
    shared.turns = turns;
    None
}

fn asks_for(job: &Job) -> Resources {
    Resources { nodes: job.size.nodes, cores: job.size.cores, gpus: 0 }
}

fn seconds(job: &Job) -> f64 {
    if job.duration > 0.0 { job.duration } else { DAY }
}

/// Priorities at most `most` of an association's jobs that may run, and brings them into their own order when all are priced. Says
/// how many more may be.
fn order_on(shared: &Shared, taking: &mut Taking, association: AssociationId, most: usize) -> usize {
    let fairshare = shared.fairshare(association);
    let price = |id: JobId| {
        let explained = shared.explain_at(shared.ledger.job(id)?, shared.posted.urgency(id)?, fairshare?)?;
        (explained.priority > 0).then_some((Reverse(explained.priority), id))
    };
    let jobs: Vec<JobId> = shared.posted.pending_of(association, taking.after).take(most).collect();
    taking.priced.extend(jobs.iter().filter_map(|id| price(*id)));
    taking.after = jobs.last().copied().filter(|_| jobs.len() == most);
    if taking.after.is_some() {
        return 0;
    }
    taking.left.pop_front();
    let mut order = std::mem::take(&mut taking.priced);
    order.sort_unstable();
    order.truncate(shared.batches.ordered);
    let in_order: Vec<JobId> = order.into_iter().map(|(_, id)| id).collect();
    if let Some((index, weights)) = standing_index(shared, association).zip(shared.standing.weights()) {
        let cost =
            |id: &JobId| shared.ledger.job(*id).map_or(0.0, |job| weights.rate(asks_for(job)) * seconds(job));
        taking.asked.push((index, in_order.iter().map(cost).collect()));
        taking.jobs.insert(index, (association, in_order));
    }
    // An association costs something too.
    most.saturating_sub(1 + jobs.len())
}

fn standing_index(shared: &Shared, association: AssociationId) -> Option<Index> {
    let association = shared.book.association(association)?;
    shared.standing.find(association.user, &association.bank)
}
