// SPDX-License-Identifier: LGPL-3.0-only
//! The shadow policy: what another policy would make of the pending jobs. It is worked out after a refresh, in slices, and has no
//! effect on any price.

use super::super::Engine;
use crate::accounts::AssociationId;
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::standing::{Compared, Shadow};
use fairshare::tau::inversions;
use fairshare::{Policy, RankError};
use std::collections::BTreeMap;

/// Movers that are listed.
const MOST_MOVERS: usize = 20;
/// Jobs that are priced in one turn.
const SLICE: usize = 5_000;

/// How far it is.
#[derive(Clone, Debug)]
pub(super) enum Shadowing {
    /// The tree is to be ranked.
    Rank(Policy),
    /// The rankings are to be compared.
    Compare(Policy, Box<Shadow>),
    /// Pending jobs are priced, by both.
    Price(Box<Pricing>),
}

#[derive(Clone, Debug)]
pub(super) struct Pricing {
    policy: Policy,
    shadow: Shadow,
    compared: Compared,
    left: Vec<JobId>,
    /// By queue: places by the price in force and by the other, in this order.
    places: BTreeMap<Option<QueueName>, Vec<(Place, Place)>>,
}

/// Sorts as a queue does: higher prices first, then the earlier id.
type Place = (u32, JobId);

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct ShadowReport {
    /// The other policy.
    pub policy: Policy,
    /// As of when, in seconds since the epoch.
    pub when: f64,
    /// Why it can't rank this tree; then all else is 0.
    pub fault: Option<RankError>,
    /// Ranked associations.
    pub associations: usize,
    /// Kendall's tau-b over their ranks.
    pub tau: Option<f64>,
    /// How many would have another rank.
    pub moved: usize,
    /// Who would move most: user, bank, rank, rank by the other policy.
    pub movers: Vec<(UserId, BankName, u32, u32)>,
    /// Pending jobs with a price.
    pub pending: usize,
    /// Pairs of them in one queue that would stand the other way round.
    pub inversions: u64,
    /// Pairs of jobs in one queue.
    pub pairs: u64,
}

impl Engine {
    /// What a refresh does last.
    pub(super) fn shadowing(&mut self) -> Option<Shadowing> {
        let policy = self.settings.shadow?;
        let is_known = self.live.shadow.as_ref().is_some_and(|report| report.policy == policy);
        let is_due = std::mem::take(&mut self.live.shadow_due) || !is_known;
        is_due.then_some(Shadowing::Rank(policy))
    }

    /// Goes on by a step; `None` when the report is there.
    pub(super) fn shadow_step(&mut self, at: Shadowing) -> Option<Shadowing> {
        match at {
            Shadowing::Rank(policy) => match self.standing.shadow(policy, self.now)? {
                Ok(shadow) => Some(Shadowing::Compare(policy, Box::new(shadow))),
                Err(fault) => {
                    let none = Compared::default();
                    self.live.shadow = Some(self.report(policy, &none, Some(fault), [].into_iter()));
                    None
                }
            },
            Shadowing::Compare(policy, shadow) => {
                let compared = self.standing.compare_with(&shadow, MOST_MOVERS);
                let left = self.live.pending.ids_after(None).collect();
                let places = BTreeMap::new();
                Some(Shadowing::Price(Box::new(Pricing { policy, shadow: *shadow, compared, left, places })))
            }
            Shadowing::Price(mut pricing) => {
                for _ in 0..SLICE {
                    let Some(id) = pricing.left.pop() else {
                        let Pricing { policy, compared, places, .. } = *pricing;
                        self.live.shadow = Some(self.report(policy, &compared, None, places.into_values()));
                        return None;
                    };
                    self.place_both(&mut pricing, id);
                }
                Some(Shadowing::Price(pricing))
            }
        }
    }

    fn place_both(&self, pricing: &mut Pricing, id: JobId) {
        let place = |price: u32| (!price, id);
        let Some(both) = self.both_prices(&pricing.shadow, id) else { return };
        let Some(job) = self.ledger.job(id) else { return };
        let places = both.map(place);
        // Most jobs are in a queue that is known already: its name is not copied.
        match pricing.places.get_mut(&job.queue) {
            Some(known) => known.push(places.into()),
            None => {
                pricing.places.insert(job.queue.clone(), vec![places.into()]);
            }
        }
    }

    /// A pending job's exact price, and that by the other policy.
    fn both_prices(&self, shadow: &Shadow, id: JobId) -> Option<[u32; 2]> {
        let (job, urgency) = (self.ledger.job(id)?, self.urgency(id)?);
        let association = job.association()?;
        let exact = self.explain_at(job, urgency, self.fairshare(association)?)?;
        // For whom the tree lacks, the pushed number counts by either policy.
        let fairshare = self.shadow_fairshare(shadow, association).or_else(|| self.fairshare(association))?;
        let other = self.explain_at(job, urgency, fairshare)?;
        Some([exact.priority, other.priority])
    }

    fn shadow_fairshare(&self, shadow: &Shadow, association: AssociationId) -> Option<f64> {
        let association = self.book.association(association)?;
        let index = self.standing.find(association.user, &association.bank)?;
        self.standing.shadow_fairshare(shadow, index)
    }

    fn report(
        &self,
        policy: Policy,
        compared: &Compared,
        fault: Option<RankError>,
        queues: impl Iterator<Item = Vec<(Place, Place)>>,
    ) -> ShadowReport {
        let name = |mover: &crate::standing::Mover| {
            let (user, bank) = self.standing.key(mover.association)?;
            Some((user, bank.clone(), mover.rank, mover.shadow_rank))
        };
        let (mut pending, mut reversed, mut pairs) = (0, 0, 0);
        for mut places in queues {
            let many = places.len() as u64;
            pending += places.len();
            pairs += many * many.saturating_sub(1) / 2;
            places.sort_unstable();
            reversed += inversions(places.into_iter().map(|(_, other)| other).collect());
        }
        ShadowReport {
            policy,
            when: self.now,
            fault,
            associations: compared.associations,
            tau: compared.tau,
            moved: compared.moved,
            movers: compared.movers.iter().filter_map(name).collect(),
            pending,
            inversions: reversed,
            pairs,
        }
    }
}
