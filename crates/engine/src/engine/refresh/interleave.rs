// SPDX-License-Identifier: LGPL-3.0-only
//! Interleave: the priority of a pending job is computed as if the jobs before it in its association had been
//! charged. The first job of an association gets the association's fair-share. The second job gets the fair-share
//! after a charge for the first job, and so on. The *turn* of a job is its position and the fair-share for this
//! position.
//!
//! # Rules
//! - An association's jobs come in the order of their priorities without interleave, the earlier id first. Held and
//!   zero-score jobs have no turn. The first [`Batches::ordered`](super::super::Batches) jobs of each association
//!   have a turn. Each later job has the fair-share of the last turn until it moves up.
//! - A job is charged for its nodes and cores, by the weights of the tree, over its time limit. A job without a time
//!   limit is charged for a day.
//! - Under a policy with a formula, the fair-share of a turn is the fair-share of the association after the
//!   charges, with all other associations unchanged. Under a policy of ranks and under pbs, this formula would make
//!   the later jobs of all associations equal. Under these policies the turns are those of OpenPBS: each job that
//!   gets a turn is charged at once, and [`Charging::list_fairshares`] computes the fair-shares.
//! - Each refresh computes the turns again. A job that came after the last refresh began, or that has moved from
//!   another association since, has the turn of the last job of its association.
//! - A turn never holds a job: if the turn would make the priority 0, the job keeps the fair-share of its
//!   association.
//!
//! [`Charging::list_fairshares`]: crate::standing::Charging::list_fairshares

use crate::accounts::AssociationId;
use crate::engine::Shared;
use crate::ids::JobId;
use crate::limits::Size;
use crate::priority::FAIRSHARE;
use crate::standing::{Charging, Index};
use fairshare::periods::Resources;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

/// The position of a job among the pending jobs of its association, and the fair-share for this position.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Turn {
    /// The position of the job in its association; the first is 1.
    pub number: usize,
    /// The fair-share from which its priority is computed.
    pub fairshare: f64,
}

/// The positions of jobs in their associations, and the fair-shares for these positions, as the last refresh computed
/// them.
#[derive(Clone, Debug, Default)]
pub(in crate::engine) struct InterleavingTurns {
    /// The position of each job in its association, the fair-share for this position, and the job's association at the
    /// last refresh.
    of_job: HashMap<JobId, (AssociationId, Turn)>,
    /// The position of the last job of each association, and the fair-share for this position.
    last: HashMap<AssociationId, Turn>,
}

impl InterleavingTurns {
    /// Stores the position of the next job of an association, and the fair-share for this position.
    pub fn store_interleaving_turn(&mut self, id: JobId, association: AssociationId, turn: Turn) {
        self.of_job.insert(id, (association, turn));
        self.last.insert(association, turn);
    }

    /// Returns the position of job `id` in its association, and the fair-share for this position. If the last refresh
    /// did not include the job, returns the values of the association's last job, or `None` if there is no such job.
    pub fn turn(&self, id: JobId, association: AssociationId) -> Option<Turn> {
        let own = self.of_job.get(&id).filter(|(of, _)| *of == association).map(|(_, turn)| turn);
        own.or_else(|| self.last.get(&association)).copied()
    }
}

/// The number of jobs for which one reactor turn computes the position and the fair-share.
const SLICE: usize = 4_000;
/// The number of jobs that one slice sorts.
const JOBS: usize = 2_000;
/// The time that is charged for a job without a time limit, in seconds.
const DAY: f64 = 86_400.0;

/// The progress of computing the positions of all jobs in their associations, and the fair-shares for these positions.
#[derive(Clone, Debug, Default)]
pub(super) struct TurnComputation {
    /// Associations whose jobs are not sorted yet. `computed` has the priorities of some jobs of the first
    /// association.
    left: VecDeque<AssociationId>,
    computed: Vec<(Reverse<u32>, JobId)>,
    after: Option<JobId>,
    /// For each association whose jobs are sorted, the charge of each job, in the order of the jobs.
    asked: Vec<(Index, Vec<f64>)>,
    charging: Option<Charging>,
    /// The sorted jobs of each association.
    jobs: HashMap<Index, (AssociationId, Vec<JobId>)>,
}

/// Begins to compute the positions of jobs in their associations. Returns `None` if `interleave` is off.
pub fn begin_turns(shared: &mut Shared) -> Option<TurnComputation> {
    if !shared.settings.interleave {
        shared.turns = InterleavingTurns::default();
        return None;
    }
    Some(TurnComputation { left: shared.posted.associations().into(), ..TurnComputation::default() })
}

/// Computes the positions and fair-shares of some more jobs. Returns true if no jobs are left.
pub fn compute_slice_of_interleaving(shared: &mut Shared, taking: &mut TurnComputation) -> bool {
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
    // The difference of two fair-shares that changes a priority by 1, with a margin for rounding.
    let unit = 1.001 / (shared.weighed.weight(FAIRSHARE) as f64).abs().max(1.0);
    let mut turns = InterleavingTurns::default();
    for (index, fairshares) in charging.list_fairshares(&shared.standing, unit) {
        let Some((association, jobs)) = taking.jobs.remove(&index) else { continue };
        for (at, (id, fairshare)) in jobs.into_iter().zip(fairshares).enumerate() {
            turns.store_interleaving_turn(id, association, Turn { number: at + 1, fairshare });
        }
    }
    shared.turns = turns;
    true
}

/// Computes the priorities of at most `most` jobs of an association, and sorts its jobs when all are
/// computed. Returns how many more jobs this slice may take.
fn order_jobs(
    shared: &Shared,
    taking: &mut TurnComputation,
    association: AssociationId,
    most: usize,
) -> usize {
    let fairshare = shared.fairshare(association);
    let priority = |id: JobId| {
        let explained =
            shared.explain_with_fairshare(shared.ledger.job(id)?, shared.posted.urgency(id)?, fairshare?)?;
        (explained.priority > 0).then_some((Reverse(explained.priority), id))
    };
    let jobs: Vec<JobId> = shared.posted.pending_jobs_of(association, taking.after).take(most).collect();
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
    if let Some(index) = shared.find_usage_entry(association).filter(|_| shared.standing.rule().is_some()) {
        let cost = |id: &JobId| {
            shared.ledger.job(*id).map_or(0.0, |job| {
                let Size { nodes, cores, .. } = job.size;
                let (ran_on, queue) = (Resources { nodes, cores, gpus: 0 }, job.queue.as_ref());
                shared.standing.usages.rate(ran_on, queue, shared.now) * job.time_limit().unwrap_or(DAY)
            })
        };
        taking.asked.push((index, in_order.iter().map(cost).collect()));
        taking.jobs.insert(index, (association, in_order));
    }
    // Each association costs as much work as one more job.
    most.saturating_sub(1 + jobs.len())
}
