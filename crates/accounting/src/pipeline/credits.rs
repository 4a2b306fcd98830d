// SPDX-License-Identifier: LGPL-3.0-only
//! Counts the credits of associations.
//!
//! Bins contain jobs only, because flux-accounting's programs read them. A credit counts as if a job had ended at
//! the time of the credit. The usage of an association is the sum of its bins and its credits, but at least 0.
//! Each run computes the usage of all credits again.

use std::collections::BTreeMap;

use super::exact::{self, Run};
use super::{PipelineError, continuous, recount};
use super::{Result, periods};
use crate::store::{Credit, CreditedUsage, Marks, Snapshot};
use fairshare::group_all;

/// The credits of the database.
#[derive(Debug, Default)]
pub(super) struct Credits<'a> {
    /// The credits of each association, by [`Marks::key`], in the order in which they were added.
    by_key: BTreeMap<u64, Vec<&'a Credit>>,
    /// Number of the last credit; 0 if none exists.
    pub(super) last: i64,
}

impl<'a> Credits<'a> {
    pub(super) fn new(credits: &'a [Credit]) -> Credits<'a> {
        let by_key = group_all(credits.iter().map(|it| (Marks::key(&it.user, &it.bank), it)));
        Credits { by_key, last: credits.last().map_or(0, |credit| credit.id) }
    }

    /// Returns the usage from credits of association `at`, or `None` if it has no credits. `count` is the number of its bins.
    pub(super) fn count(&self, run: &Run<'_>, at: usize, count: usize) -> Option<CreditedUsage> {
        let key = *run.keys.get(at)?;
        let mut credited = CreditedUsage { key, live: 0.0, bins: vec![0.0; count] };
        for credit in self.by_key.get(&key)? {
            if run.ended_before_usage_was_cleared(at, credit.from) {
                continue;
            }
            // If the clock was set back, the credit may be in the future.
            let from = credit.from.min(run.now);
            let period = run.periods.index(from);
            let age = usize::try_from(run.current.saturating_sub(period)).unwrap_or(0);
            if let Some(bin) = credited.bins.get_mut(age) {
                let decay = |usage| periods::decay_at_boundaries(usage, age, run.settings.decay);
                *bin += decay(credit.usage);
                let growth = continuous::growth_factor(run, from - run.periods.start(period));
                credited.live += decay(credit.live_usage * growth);
            }
        }
        Some(credited)
    }
}

/// Returns the credit that changes the usage of an association to `amount` at the time `now`, in seconds since the
/// epoch. The caller sets the fields that describe the credit. The credit takes all jobs on record into account,
/// also jobs that no sync has counted yet.
pub fn set_usage(snapshot: &Snapshot<'_>, user: &str, bank: &str, amount: f64, now: f64) -> Result<Credit> {
    snapshot.check_usage_schema()?;
    let mut credits = snapshot.credits()?;
    let credit =
        Credit { user: user.to_owned(), bank: bank.to_owned(), is_set: true, from: now, ..Credit::default() };
    // Without this credit of 0, the run would not compute the usage from bins and credits.
    let id = credits.last().map_or(0, |credit| credit.id).saturating_add(1);
    credits.push(Credit { id, ..credit.clone() });
    let plan =
        exact::plan_with(snapshot, snapshot.usage_settings()?, now, false, &credits, &[], &mut |_| ())?;
    let account =
        |account: &crate::store::Account| account.user == user && plan.ledger.bank_name(account) == bank;
    let (Some(marks), Some(at)) = (&plan.marks, plan.ledger.accounts.iter().position(account)) else {
        return Err(PipelineError::NoAssociation { user: user.to_owned(), bank: bank.to_owned() });
    };
    let key = Marks::key(user, bank);
    let jobs = periods::total_usage(&recount::list_bins_after(&plan, &plan.changes, at));
    let credited = marks.credited(key).cloned().unwrap_or_default();
    let left = snapshot.pace()?.compute_usage_fraction_after_decay(now - marks.period_start);
    Ok(Credit {
        usage: amount - (jobs + periods::total_usage(&credited.bins)),
        live_usage: amount - marks.live_usage(key) * left,
        ..credit
    })
}
