// SPDX-License-Identifier: LGPL-3.0-only
//! The usage rule `exact`: computes the usage of each association in each half-life period.
//!
//! The usage of a period (a "bin") is the sum of the usage of all jobs that ended in the period. At each later period
//! boundary, this usage is multiplied by the decay factor.
//!
//! Each sync counts the job records that no earlier sync has read. The table in `store/marks.rs` stores the last
//! record that was read. If flux-accounting has counted usage since, or if the table is empty, the sync counts the
//! records that are newer than the association's `last_job_timestamp`. If flux-accounting has changed the end of the
//! half-life period, or if the table is empty, this end shows which period bin 0 belongs to (`start.rs`).
//!
//! A sync also repairs a fault of flux-accounting. Right after a period boundary, flux-accounting adds an
//! association's past usage to bin 0, but also keeps it in the older bins. The sync detects this fault if the stored
//! usage equals bin 0.

use super::credits::Credits;
use super::fetch::RunningJob;
use super::found::RecordSelection;
use super::grouped::{CountedJob, JobGroups};
use super::periods::{self, Periods};
use super::start::Start;
use super::{Plan, Result, Rule, Tally, banks, continuous};
use crate::store::{
    AHEAD, Account, Bins, Continuous, Credit, CreditedUsage, Ledger, Marks, Pace, Snapshot, StoredBin,
    UsageChanges, UsageSettings,
};
use fairshare::accrual::{HalfLife, zero_negligible};

/// If nothing else has changed, a sync stores its time at most once in this many seconds.
const REWRITE_SECONDS: f64 = 600.0;

/// Input of a run.
pub(super) struct Run<'a> {
    pub(super) settings: &'a UsageSettings,
    pub(super) periods: Periods,
    pub(super) now: f64,
    /// The present period.
    pub(super) current: i64,
    pub(super) ledger: &'a Ledger,
    /// The stored state of the last sync identifies each association by this key ([`Marks::key`]).
    pub(super) keys: Vec<u64>,
    /// For each association, the time when its newest counted job ended, as stored by the last sync.
    pub(super) known: Vec<f64>,
    pub(super) marks: Option<&'a Marks>,
    pub(super) start: Start,
    pub(super) credits: Credits<'a>,
    /// Running jobs, which count as if they ended at `now`.
    pub(super) running: &'a [RunningJob],
    /// Half-life of continuous decay in seconds; 0 if usage does not decay.
    pub(super) decay_time: f64,
}

/// Plans one run at the time `now`, in seconds since the epoch. If `recount` is true, counts all usage from the records.
pub(super) fn plan_run(
    snapshot: &Snapshot<'_>,
    now: f64,
    recount: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Plan> {
    plan_with(snapshot, snapshot.usage_settings()?, now, recount, &snapshot.credits()?, &[], progress)
}

/// Plans a run with `settings` and `credits` in place of the stored ones. Also counts the jobs in `running`.
pub(super) fn plan_with(
    snapshot: &Snapshot<'_>,
    settings: UsageSettings,
    now: f64,
    recount: bool,
    credits: &[Credit],
    running: &[RunningJob],
    progress: &mut dyn FnMut(u64),
) -> Result<Plan> {
    let periods = Periods::read(&settings)?;
    let marks = snapshot.marks()?;
    let ledger =
        if recount { snapshot.read_accounts_for_recount(progress)? } else { snapshot.ledger(progress)? };
    let key = |account: &Account| Marks::key(&account.user, ledger.bank_name(account));
    let keys: Vec<u64> = ledger.accounts.iter().map(key).collect();
    let known = keys.iter().map(|key| marks.as_ref().map_or(0.0, |marks| marks.newest(*key))).collect();
    let current = periods.index(now);
    let mut run = Run {
        settings: &settings,
        periods,
        now,
        current,
        ledger: &ledger,
        keys,
        known,
        marks: marks.as_ref(),
        start: Start::default(),
        credits: Credits::new(credits),
        running,
        decay_time: Pace { period: settings.half_life, factor: settings.decay, ..Pace::default() }
            .half_life(),
    };
    run.start = Start::new(&run, snapshot, now, recount)?;
    let mut tally = Tally { recounted: run.start.recount, ..Tally::default() };
    let mut selection = RecordSelection::new(&ledger, &run, snapshot.has_job_bank_column()?, &mut tally);
    selection.read_records(snapshot, &run)?;
    let RecordSelection { jobs, newest, unplaced, .. } = selection;
    tally.waiting = unplaced.len();
    let boundaries = u64::try_from(current.saturating_sub(run.start.period)).unwrap_or(0);
    tally.boundaries = usize::try_from(boundaries).unwrap_or(usize::MAX);
    let take_over = run.start.take_over;
    let is_counted = |(at, account): (usize, &Account)| {
        continuous::last_count(&run, at).map_or(account.usage <= 0.0, |known| known.usage == account.usage)
    };
    let has_continuous = ledger.accounts.iter().enumerate().all(is_counted);
    let bins = if jobs.is_empty()
        && boundaries == 0
        && !take_over
        && run.start.recount.is_none()
        && has_continuous
        && !run.must_recount_usage_credits()
    {
        Bins::default()
    } else {
        snapshot.bins(&ledger)?
    };
    let jobs = JobGroups::new(jobs);
    let mut changes = UsageChanges::default();
    let mut usages: Vec<f64> = ledger.accounts.iter().map(|account| account.usage).collect();
    let mut continuous: Vec<Continuous> = Vec::with_capacity(usages.len());
    let mut credits: Vec<CreditedUsage> = Vec::new();
    for (at, (usage, key)) in usages.iter_mut().zip(&run.keys).enumerate() {
        if bins.by_account.is_empty() {
            continuous.extend(continuous::last_count(&run, at).cloned());
            credits.extend(run.marks.and_then(|marks| marks.credited(*key)).cloned());
            continue;
        }
        let Some(counted) =
            count_account(&run, at, jobs.jobs_in_group(at), &bins, boundaries, &mut changes, &mut tally)
        else {
            continue;
        };
        if let Some(new) = counted.usage.filter(|new| new != usage) {
            changes.usages.push((at, new));
            *usage = new;
        }
        // A usage that is not the sum of its bins was set by an administrator and is pushed as it is stored.
        if (*usage > 0.0 || counted.credits.is_some())
            && (counted.usage.is_some() || equals_sum_of_bins(*usage, bins.by_account.get(at)))
        {
            continuous.push(Continuous { key: *key, usage: *usage, bins: counted.continuous });
        }
        credits.extend(counted.credits);
    }
    let counted = run.keys.iter().copied().zip(newest.iter().copied());
    let mut counted: Vec<(u64, f64)> = counted.filter(|(_, newest)| *newest > 0.0).collect();
    continuous::add_removed_associations(&run, boundaries, &mut counted, &mut continuous);
    counted.sort_unstable_by_key(|(key, _)| *key);
    continuous.sort_unstable_by_key(|known| known.key);
    credits.sort_unstable_by_key(|known| known.key);
    let boundaries =
        u64::try_from(current.saturating_sub(run.start.find_period_of_removed_users(&run))).unwrap_or(0);
    if boundaries > 0 {
        let decay = |bins: &Vec<StoredBin>| decay_bins_of_removed_users(bins, boundaries, settings.decay);
        changes.removed = bins.removed.iter().flat_map(decay).collect();
    }
    changes.banks = banks::list_usage_changes(&ledger, &usages, Rule::Exact)?;
    changes.period_end = run.compute_new_period_end();
    for (at, (account, newest)) in ledger.accounts.iter().zip(&newest).enumerate() {
        let stored = account.counted.and_then(|counted| counted.newest).unwrap_or(0.0);
        if *newest != stored {
            changes.newest.push((at, *newest));
        }
    }
    let marks =
        build_usage_marks(&run, snapshot, now, (counted, continuous, credits), unplaced, changes.is_empty())?;
    Ok(Plan { bins, changes, marks, tally, ledger })
}

fn equals_sum_of_bins(usage: f64, bins: Option<&Vec<StoredBin>>) -> bool {
    let total: f64 = bins.into_iter().flatten().map(|bin| bin.value).sum();
    (usage - total).abs() <= 1e-6 * usage
}

/// The new usage of an association.
struct CountedUsage {
    /// The usage, or `None` if the stored usage does not change.
    usage: Option<f64>,
    /// The usage with continuous decay, by bin.
    continuous: Vec<f64>,
    /// The usage from credits, if the association has any.
    credits: Option<CreditedUsage>,
}

/// Counts the jobs of one association, and stores its changed bins in `changes`.
fn count_account(
    run: &Run<'_>,
    at: usize,
    jobs: &[CountedJob],
    bins: &Bins,
    boundaries: u64,
    changes: &mut UsageChanges,
    tally: &mut Tally,
) -> Option<CountedUsage> {
    let account = run.ledger.accounts.get(at)?;
    let stored = bins.by_account.get(at)?.as_slice();
    let recount = run.start.recount.is_some();
    let lacks_column = bins.is_beyond(i64::try_from(stored.len()).unwrap_or(i64::MAX));
    let kept_bins =
        if lacks_column { stored.len() } else { run.bin_count(stored.last().map(|bin| bin.period), recount) };
    let mut values = vec![0.0; kept_bins];
    if !recount {
        for bin in stored {
            if let Some(value) = usize::try_from(bin.period).ok().and_then(|period| values.get_mut(period)) {
                *value = bin.value;
            }
        }
    }
    let is_repaired = run.start.take_over
        && run.is_foreign(at)
        && subtract_past_usage_counted_twice(&mut values, account.usage);
    let continuous = continuous::count_bins(run, at, &values, jobs, if recount { 0 } else { boundaries });
    let credits = run.credits.count(run, at, kept_bins);
    let is_credited = credits.is_some() || run.has_counted_usage_credits(at);
    // flux-accounting stored the usage 0 and kept the bins, because the user was removed and added again.
    let is_back = account.usage == 0.0 && values.iter().any(|bin| *bin > 0.0);
    if jobs.is_empty() && boundaries == 0 && !is_repaired && !recount && !is_credited && !is_back {
        return Some(CountedUsage { usage: None, continuous, credits });
    }
    tally.repaired += usize::from(is_repaired);
    periods::shift_bins(&mut values, if recount { 0 } else { boundaries }, run.settings.decay);
    let mut sums = vec![0.0; kept_bins];
    for job in jobs {
        match sums.get_mut(job.age as usize) {
            Some(sum) => *sum += job.usage,
            None => {
                tally.too_old += 1;
                tally.counted = tally.counted.saturating_sub(1);
            }
        }
    }
    for (age, (value, sum)) in values.iter_mut().zip(sums).enumerate() {
        *value += periods::decay_at_boundaries(sum, age, run.settings.decay);
    }
    for (period, value) in (0..).zip(&values) {
        let before = bins.stored(at, period).map(|bin| bin.value);
        let is_missing = before.is_none() && (*value != 0.0 || recount) && !bins.is_beyond(period);
        if is_missing || before.is_some_and(|before| before != *value) {
            changes.bins.push((at, period, *value));
        }
    }
    let first = i64::try_from(kept_bins).unwrap_or(i64::MAX);
    if recount && stored.last().is_some_and(|bin| bin.period >= first && !bins.is_beyond(first)) {
        changes.dropped.push((at, first));
    }
    let usage = periods::total_usage(&values);
    let add_credits = |credits: &CreditedUsage| zero_negligible(usage + periods::total_usage(&credits.bins));
    Some(CountedUsage { usage: Some(credits.as_ref().map_or(usage, add_credits)), continuous, credits })
}

/// Moves the bins of removed users to older periods and decays them, because these users may return. Updates
/// existing rows only; usage that would need a new row is dropped.
fn decay_bins_of_removed_users(stored: &[StoredBin], boundaries: u64, decay: f64) -> Vec<(StoredBin, f64)> {
    let bin_index = |bin: &StoredBin| usize::try_from(bin.period).unwrap_or(usize::MAX);
    let mut values = vec![0.0; stored.last().map_or(0, |bin| bin_index(bin).saturating_add(1))];
    for bin in stored {
        if let Some(value) = values.get_mut(bin_index(bin)) {
            *value = bin.value;
        }
    }
    periods::shift_bins(&mut values, boundaries, decay);
    let new = stored.iter().map(|bin| (*bin, values.get(bin_index(bin)).copied().unwrap_or(0.0)));
    new.filter(|(bin, value)| bin.value != *value).collect()
}

/// flux-accounting may have added the usage of past periods to the present period. In this case, subtracts it and
/// returns true.
fn subtract_past_usage_counted_twice(values: &mut [f64], usage: f64) -> bool {
    let Some((present, past)) = values.split_first_mut() else { return false };
    let past = past.iter().fold(0.0, |sum, bin| sum + bin);
    let is_counted_twice = past > 0.0 && usage == *present && *present >= past;
    if is_counted_twice {
        *present -= past;
    }
    is_counted_twice
}

impl Run<'_> {
    /// Returns the number of half-life periods that an association has. `oldest` is its oldest period in the
    /// database. flux-accounting's programs round this number differently, so the number in the database is
    /// preferred.
    pub(super) fn bin_count(&self, oldest: Option<i64>, recount: bool) -> usize {
        let stored = oldest.and_then(|oldest| usize::try_from(oldest.saturating_add(1)).ok());
        let ratio = self.settings.reset_period / self.settings.half_life;
        let added = if ratio < 1.0 { 4 } else { ratio.floor() as usize };
        match stored {
            Some(stored) if !recount || stored == added => stored.max(1),
            Some(_) => (ratio.ceil() as usize).max(1),
            None => added,
        }
    }

    /// Returns the new end of the half-life period, or `None` if the stored end does not change. The stored
    /// end is the end of the first period until that period is over, and then the start of the current
    /// period. If the clock was ahead, the stored end is in the future; only a recount replaces it.
    fn compute_new_period_end(&self) -> Option<f64> {
        let is_ahead = self.start.recount.is_some() && self.current < -1;
        (self.current >= 1 || is_ahead).then(|| self.periods.start(self.current))
    }

    /// Returns true if, since the last run with the usage rule `exact`, another program has counted jobs of the
    /// association or removed their usage.
    pub(super) fn is_foreign(&self, at: usize) -> bool {
        self.marks.is_none()
            || self.known.get(at).is_none_or(|known| *known != self.read_stored_newest_end(at))
    }

    /// Returns true if flux-accounting counted the job in bin 0, but bin 0 belongs to an earlier period than the
    /// job. This happens because flux-accounting does not shift the bins at the first boundary.
    pub(super) fn was_counted_in_older_bin(&self, at: usize, ended: f64) -> bool {
        let has_same_end = self.marks.is_some_and(|marks| marks.period_end == self.settings.period_end);
        let is_counted = ended > self.known_newest(at) && ended <= self.read_stored_newest_end(at);
        let period = self.periods.index(ended);
        has_same_end && is_counted && self.start.period < period && period <= self.current
    }

    /// Returns true if all credits must be counted again. This is the case after a change of the credits, the
    /// associations or the `ignore_older_than` of a bank.
    fn must_recount_usage_credits(&self) -> bool {
        let Some(marks) = self.marks else { return self.credits.last > 0 };
        let has_other_associations =
            || self.credits.last > 0 && marks.associations != self.hash_associations();
        marks.last_credit != self.credits.last || has_other_associations()
    }

    /// Returns true if the last run counted credits of the association.
    fn has_counted_usage_credits(&self, at: usize) -> bool {
        let key = self.keys.get(at);
        self.marks.zip(key).is_some_and(|(marks, key)| marks.credited(*key).is_some())
    }

    /// Returns the half-life of continuous decay.
    pub(super) fn half_life(&self) -> HalfLife {
        HalfLife::new(self.decay_time).unwrap_or_default()
    }

    /// Returns the time when the newest counted job of an association ended, as stored by the last sync.
    pub(super) fn known_newest(&self, at: usize) -> f64 {
        self.known.get(at).copied().unwrap_or(0.0)
    }

    /// Returns true for a job that ended at or before the cut-off of its bank or of the site.
    pub(super) fn ended_before_usage_was_cleared(&self, at: usize, ended: f64) -> bool {
        let bank = self.ledger.accounts.get(at).and_then(|account| self.ledger.banks.get(account.bank));
        let ignored = bank.and_then(|bank| bank.ignore_older_than).unwrap_or(0.0);
        ended <= ignored || ended <= self.start.since
    }

    /// Returns the end of the association's newest counted job in the database, or 0 if the database has
    /// none.
    pub(super) fn read_stored_newest_end(&self, at: usize) -> f64 {
        let counted = self.ledger.accounts.get(at).and_then(|account| account.counted);
        counted.and_then(|counted| counted.newest).unwrap_or(0.0)
    }

    /// Returns the time to store as the end of the newest counted job. If this time is far in the future, it
    /// comes from a wrong clock, and a requested recount stores `now` instead. Otherwise later runs would
    /// skip all jobs that end before that time.
    pub(super) fn limit_newest_end_time(&self, ended: f64) -> f64 {
        let is_ahead = ended > self.now + AHEAD;
        if is_ahead && self.start.is_requested() { self.now } else { ended }
    }

    /// Returns a hash of all associations and of the `ignore_older_than` times of their banks.
    pub(super) fn hash_associations(&self) -> u64 {
        let mix = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.ledger.accounts.iter().zip(&self.keys).fold(0, |sum, (account, key)| {
            let bank = self.ledger.banks.get(account.bank);
            let ignored = bank.and_then(|bank| bank.ignore_older_than).unwrap_or(0.0);
            let mixed = mix(mix(key.rotate_left(17) ^ account.userid.cast_unsigned()) ^ ignored.to_bits());
            sum.wrapping_add(mixed.rotate_left(u32::from(account.is_default)))
        })
    }
}

/// Returns the state to store for the next sync, or `None` if the stored state is up to date.
fn build_usage_marks(
    run: &Run<'_>,
    snapshot: &Snapshot<'_>,
    now: f64,
    (counted, continuous, credits): (Vec<(u64, f64)>, Vec<Continuous>, Vec<CreditedUsage>),
    unplaced: Vec<u64>,
    unchanged: bool,
) -> Result<Option<Marks>> {
    let UsageSettings { period_end, half_life, decay, reset_period, reconfigured, .. } = *run.settings;
    let period_start = run.periods.start(run.current);
    let last_job = snapshot.last_job()?.map(|(_, id)| id);
    let marks = Marks {
        period_start,
        period_end: run.compute_new_period_end().unwrap_or(period_end),
        half_life,
        decay,
        reset_period,
        reconfigured,
        since: run.start.since,
        last_job,
        ran: now,
        counted,
        continuous,
        unplaced,
        associations: run.hash_associations(),
        last_credit: run.credits.last,
        credits,
    };
    let Some(before) = run.marks.filter(|_| unchanged) else { return Ok(Some(marks)) };
    // A recount replaces the time of the last run even if the clock was set back. Otherwise no later run would count.
    let is_recent = (before.ran..before.ran + REWRITE_SECONDS).contains(&now);
    let is_unchanged = is_recent && *before == Marks { ran: before.ran, ..marks.clone() };
    Ok((!is_unchanged).then_some(marks))
}
