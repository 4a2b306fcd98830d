// SPDX-License-Identifier: LGPL-3.0-only
//! Interleave: the priority of a pending job is computed as if the jobs before it in its association had been charged.
//!
//! # Rules
//! - An association's jobs come in the order of their priorities without interleave, the earlier id first. Held and zero-score jobs
//!   have no turn. The first [`Batches::ordered`](super::super::Batches) of each association have one; later jobs have
//!   the fair-share of the last of them until they move up.
//! - A job asks for its nodes and cores, by the tree's weights, for its time limit; one without limit for a day.
//! - Formula policies: where would the association stand then, all others unchanged. Rank policies and pbs compare level by
//!   level who is more deserving, and "all others unchanged" would have every association's jobs from the second on stand equal:
//!   there the turns are OpenPBS's, in which whoever starts is charged at once, and [`Charging::list_fairshares`] makes priorities of them.
//! - Turns are as of the last refresh. A job that came since it was begun, or came from another association, stands with the last of its association.
//! - A turn never holds a job: where its priority would be none it keeps its association's fair-share.
//!
//! [`Charging::list_fairshares`]: crate::standing::Charging::list_fairshares

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

/// The number of turns that one slice computes.
const SLICE: usize = 4_000;
/// The number of jobs that one slice brings into their order.
const JOBS: usize = 2_000;
/// The time limit that is charged for a job without one, in seconds.
const DAY: f64 = 86_400.0;

/// Turns that are being computed.
#[derive(Clone, Debug, Default)]
pub(super) struct Taking {
    /// Associations whose jobs are not in order yet. The priorities of some jobs of the first are in `computed`.
    left: VecDeque<AssociationId>,
    computed: Vec<(Reverse<u32>, JobId)>,
    after: Option<JobId>,
    /// The charge of each job of the other associations, in the order of the jobs.
    asked: Vec<(Index, Vec<f64>)>,
    charging: Option<Charging>,
    /// The jobs of each association in their order.
    jobs: HashMap<Index, (AssociationId, Vec<JobId>)>,
}

/// Begins to compute turns, if jobs interleave.
pub(in crate::engine) fn begin_turns(shared: &mut Shared) -> Option<Taking> {
    if !shared.settings.interleave {
        shared.turns = JobTurns::default();
        return None;
    }
    Some(Taking { left: shared.posted.associations().into(), ..Taking::default() })
}

/// Computes the next slice. Returns true when all turns are known.
pub(in crate::engine) fn take_turns(shared: &mut Shared, taking: &mut Taking) -> bool {
    let mut most = JOBS;
    while let Some(&association) = taking.left.front() {
        if most == 0 {
            return false;
        }
        most = order_jobs(shared, taking, association, most);
    }
    let charging = match taking.charging.take() {
        Some(charging) => Some(charging),
        None => Charging::new(&shared.standing, std::mem::take(&mut taking.asked), shared.now),
    };
    let Some(mut charging) = charging else { return true };
    if !charging.charge(&shared.standing, SLICE) {
        taking.charging = Some(charging);
        return false;
    }
    // The fair-share difference that changes a priority by 1, with a margin for rounding.
    let unit = 1.001 / (shared.weighed.weight(FAIRSHARE) as f64).abs().max(1.0);
    let mut turns = JobTurns::default();
    for (index, fairshares) in charging.list_fairshares(&shared.standing, unit) {
        let Some((association, jobs)) = taking.jobs.remove(&index) else { continue };
        for (at, (id, fairshare)) in jobs.into_iter().zip(fairshares).enumerate() {
            turns.push(id, association, Turn { number: at + 1, fairshare });
        }
    }
    shared.turns = turns;
    true
}

fn asks_for(job: &Job) -> Resources {
    Resources { nodes: job.size.nodes, cores: job.size.cores, gpus: 0 }
}

fn seconds(job: &Job) -> f64 {
    job.time_limit().unwrap_or(DAY)
}

/// Computes the priorities of at most `most` jobs of an association, and brings its jobs into their order when all are computed. Returns
/// how many more jobs this slice may take.
fn order_jobs(shared: &Shared, taking: &mut Taking, association: AssociationId, most: usize) -> usize {
    let fairshare = shared.fairshare(association);
    let priority = |id: JobId| {
        let explained = shared.explain_at(shared.ledger.job(id)?, shared.posted.urgency(id)?, fairshare?)?;
        (explained.priority > 0).then_some((Reverse(explained.priority), id))
    };
    let jobs: Vec<JobId> = shared.posted.pending_of(association, taking.after).take(most).collect();
    taking.computed.extend(jobs.iter().filter_map(|id| priority(*id)));
    taking.after = jobs.last().copied().filter(|_| jobs.len() == most);
    if taking.after.is_some() {
        return 0;
    }
    taking.left.pop_front();
    let mut order = std::mem::take(&mut taking.computed);
    order.sort_unstable();
    order.truncate(shared.batches.ordered);
    let in_order: Vec<JobId> = order.into_iter().map(|(_, id)| id).collect();
    if let Some((index, rule)) = standing_index(shared, association).zip(shared.standing.rule()) {
        let cost = |id: &JobId| {
            shared.ledger.job(*id).map_or(0.0, |job| rule.weights.rate(asks_for(job)) * seconds(job))
        };
        taking.asked.push((index, in_order.iter().map(cost).collect()));
        taking.jobs.insert(index, (association, in_order));
    }
    // An association counts as one job.
    most.saturating_sub(1 + jobs.len())
}

fn standing_index(shared: &Shared, association: AssociationId) -> Option<Index> {
    let association = shared.book.association(association)?;
    shared.standing.find(association.user, &association.bank)
}
