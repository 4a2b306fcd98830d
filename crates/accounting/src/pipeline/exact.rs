// SPDX-License-Identifier: LGPL-3.0-only
//! The exact rule: a bin is the sum of the jobs that ended in its period, decayed once for each boundary since.
//!
//! A record counts when it is seen for the first time, in the period in which its job ended. What was seen is known by
//! the place in the `jobs` table (see `store/marks.rs`). Where flux-accounting's own program counted since, or nothing
//! was remembered yet, its `last_job_timestamp` of each association says what is counted, and its bin 0 stands for the
//! period that holds now.
//!
//! One fault of a database taken over is taken out: right after a boundary flux-accounting writes an association's past
//! into bin 0 as well as into the older bins. It shows as a stored usage that is bin 0 alone.

use super::found::Found;
use super::grouped::{Counting, Grouped};
use super::start::Start;
use super::{PipelineError, Plan, Rule, Tally, banks, continuous};
use crate::store::{
    AHEAD, Account, Bins, Continuous, Ledger, Marks, Snapshot, StoredBin, UsageChanges, UsageSettings,
};
use fairshare::periods::{self, Periods};

/// What is remembered is written again after so many seconds, also if only the time is new.
const STALE: f64 = 600.0;

/// All that a run goes by.
pub(super) struct Run<'a> {
    pub(super) settings: &'a UsageSettings,
    pub(super) periods: Periods,
    pub(super) now: f64,
    /// The period that holds now.
    pub(super) current: i64,
    pub(super) ledger: &'a Ledger,
    /// By association: its key in the marks.
    pub(super) keys: Vec<u64>,
    /// By association: when its newest counted job ended as we left it.
    pub(super) known: Vec<f64>,
    pub(super) marks: Option<&'a Marks>,
    pub(super) start: Start,
    /// In how many seconds continuous decay halves a usage; 0 if usage does not decay.
    pub(super) decay_time: f64,
}

/// Plans one run at the time `now`, in seconds since the epoch. If `recount` is true, counts all usage from the records.
pub(super) fn plan(
    snapshot: &Snapshot<'_>,
    now: f64,
    recount: bool,
    progress: &mut dyn FnMut(u64),
) -> Result<Plan, PipelineError> {
    let settings = snapshot.usage_settings()?;
    let (end, half_life) = (settings.period_end, settings.half_life);
    let periods = Periods::new(end, half_life).ok_or(PipelineError::Periods { end, half_life })?;
    let marks = snapshot.marks()?;
    let ledger = if recount { snapshot.ledger_to_recount(progress)? } else { snapshot.ledger(progress)? };
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
        decay_time: snapshot.pace()?.half_life(),
    };
    run.start = Start::of(&run, snapshot, now, recount)?;
    let mut tally = Tally { recounted: run.start.recount, ..Tally::default() };
    let mut found = Found::new(&ledger, &run, snapshot.jobs_name_banks()?, &mut tally);
    found.read(snapshot, &run)?;
    let Found { jobs, newest, unplaced, .. } = found;
    tally.waiting = unplaced.len();
    let boundaries = u64::try_from(current.saturating_sub(run.start.period)).unwrap_or(0);
    tally.boundaries = usize::try_from(boundaries).unwrap_or(usize::MAX);
    let take_over = run.start.take_over;
    let is_counted =
        |(at, account): (usize, &Account)| account.usage <= 0.0 || continuous::remembered(&run, at).is_some();
    let has_continuous = ledger.accounts.iter().enumerate().all(is_counted);
    let bins = if jobs.is_empty()
        && boundaries == 0
        && !take_over
        && run.start.recount.is_none()
        && has_continuous
    {
        Bins::default()
    } else {
        snapshot.bins(&ledger)?
    };
    let jobs = Grouped::new(jobs, ledger.accounts.len());
    let mut changes = UsageChanges::default();
    let mut usages: Vec<f64> = ledger.accounts.iter().map(|account| account.usage).collect();
    let mut continuous: Vec<Continuous> = Vec::with_capacity(usages.len());
    for (at, (usage, key)) in usages.iter_mut().zip(&run.keys).enumerate() {
        if bins.of.is_empty() {
            continuous.extend(continuous::remembered(&run, at).cloned());
            continue;
        }
        let Some(counted) = account(&run, at, jobs.of(at), &bins, boundaries, &mut changes, &mut tally)
        else {
            continue;
        };
        if let Some(new) = counted.usage.filter(|new| new != usage) {
            changes.usages.push((at, new));
            *usage = new;
        }
        // A usage that is not the sum of its bins was set by somebody: it is pushed as it is stored.
        if *usage > 0.0 && (counted.usage.is_some() || is_sum_of(*usage, bins.of.get(at))) {
            continuous.push(Continuous { key: *key, usage: *usage, bins: counted.continuous });
        }
    }
    continuous.sort_unstable_by_key(|known| known.key);
    let boundaries = u64::try_from(current.saturating_sub(run.start.of_away(&run))).unwrap_or(0);
    if boundaries > 0 {
        changes.away = bins.away.iter().flat_map(|bins| moved_on(bins, boundaries, settings.decay)).collect();
    }
    changes.banks = banks::changes(&ledger, &usages, Rule::Exact)?;
    changes.period_end = run.new_period_end();
    for (at, (account, newest)) in ledger.accounts.iter().zip(&newest).enumerate() {
        let stored = account.counted.and_then(|counted| counted.newest).unwrap_or(0.0);
        if *newest != stored {
            changes.newest.push((at, *newest));
        }
    }
    let marks = remember(&run, snapshot, now, (newest, continuous), unplaced, changes.is_empty())?;
    Ok(Plan { bins, changes, marks, tally, ledger })
}

fn is_sum_of(usage: f64, bins: Option<&Vec<StoredBin>>) -> bool {
    let total: f64 = bins.into_iter().flatten().map(|bin| bin.value).sum();
    (usage - total).abs() <= 1e-6 * usage
}

/// What a run makes of an association.
struct Counted {
    /// Its usage; `None` if that stays as it is stored.
    usage: Option<f64>,
    /// Its usage with continuous decay, bin by bin.
    continuous: Vec<f64>,
}

/// Counts one association, and adds its bins to the changes.
fn account(
    run: &Run<'_>,
    at: usize,
    jobs: &[Counting],
    bins: &Bins,
    boundaries: u64,
    changes: &mut UsageChanges,
    tally: &mut Tally,
) -> Option<Counted> {
    let account = run.ledger.accounts.get(at)?;
    let stored = bins.of.get(at)?.as_slice();
    let recount = run.start.recount.is_some();
    let columns = bins.is_beyond(i64::try_from(stored.len()).unwrap_or(i64::MAX));
    let kept = if columns { stored.len() } else { run.kept(stored.last().map(|bin| bin.period), recount) };
    let mut values = vec![0.0; kept];
    if !recount {
        for bin in stored {
            if let Some(value) = usize::try_from(bin.period).ok().and_then(|period| values.get_mut(period)) {
                *value = bin.value;
            }
        }
    }
    let repaired = run.start.take_over && run.is_foreign(at) && take_out_past(&mut values, account.usage);
    let continuous = continuous::bins(run, at, &values, jobs, if recount { 0 } else { boundaries });
    if jobs.is_empty() && boundaries == 0 && !repaired && !recount {
        return Some(Counted { usage: None, continuous });
    }
    tally.repaired += usize::from(repaired);
    periods::shift_bins(&mut values, if recount { 0 } else { boundaries }, run.settings.decay);
    let mut sums = vec![0.0; kept];
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
        let missing = before.is_none() && (*value != 0.0 || recount) && !bins.is_beyond(period);
        if missing || before.is_some_and(|before| before != *value) {
            changes.bins.push((at, period, *value));
        }
    }
    let first = i64::try_from(kept).unwrap_or(i64::MAX);
    if recount && stored.last().is_some_and(|bin| bin.period >= first && !bins.is_beyond(first)) {
        changes.forgotten.push((at, first));
    }
    Some(Counted { usage: Some(periods::total_usage(&values)), continuous })
}

/// Moves and decays the bins of users who were removed from a bank, so that they find what is left when they come back. Only
/// rows that exist are written; what would need another row is dropped.
fn moved_on(stored: &[StoredBin], boundaries: u64, decay: f64) -> Vec<(StoredBin, f64)> {
    let place = |bin: &StoredBin| usize::try_from(bin.period).unwrap_or(usize::MAX);
    let mut values = vec![0.0; stored.last().map_or(0, |bin| place(bin).saturating_add(1))];
    for bin in stored {
        if let Some(value) = values.get_mut(place(bin)) {
            *value = bin.value;
        }
    }
    periods::shift_bins(&mut values, boundaries, decay);
    let new = stored.iter().map(|bin| (*bin, values.get(place(bin)).copied().unwrap_or(0.0)));
    new.filter(|(bin, value)| bin.value != *value).collect()
}

/// Takes the past out of bin 0 where it is in it twice; see the head of the file.
fn take_out_past(values: &mut [f64], usage: f64) -> bool {
    let Some((present, past)) = values.split_first_mut() else { return false };
    let past = past.iter().fold(0.0, |sum, bin| sum + bin);
    let twice = past > 0.0 && usage == *present && *present >= past;
    if twice {
        *present -= past;
    }
    twice
}

impl Run<'_> {
    /// How many bins an association keeps, whose oldest stored one is of this period. Programs differ in how they round
    /// the number; what is stored is right.
    pub(super) fn kept(&self, oldest: Option<i64>, recount: bool) -> usize {
        let stored = oldest.and_then(|oldest| usize::try_from(oldest.saturating_add(1)).ok());
        let ratio = self.settings.reset_period / self.settings.half_life;
        let (floor, ceiling) = (ratio.floor() as usize, (ratio.ceil() as usize).max(1));
        match stored {
            Some(stored) if !recount || stored == floor => stored.max(1),
            Some(_) => ceiling,
            None if floor == 0 => 4,
            None => floor,
        }
    }

    /// What the stored end of the period is to be, if it changes. It is the beginning of the present period from the second
    /// one on, and the end of the first: farther ahead only a clock that was ahead has put it.
    fn new_period_end(&self) -> Option<f64> {
        let is_ahead = self.start.recount.is_some() && self.current < -1;
        (self.current >= 1 || is_ahead).then(|| self.periods.start(self.current))
    }

    /// True for an association of which somebody else has counted jobs, or uncounted them, since our last run.
    pub(super) fn is_foreign(&self, at: usize) -> bool {
        self.marks.is_none() || self.known.get(at).is_none_or(|known| *known != self.stored_newest(at))
    }

    /// True for a job that flux-accounting counted since our last run, in bin 0 though that stands for an earlier period:
    /// it passes over the first boundary.
    pub(super) fn is_in_older_bin(&self, at: usize, ended: f64) -> bool {
        let same_end = self.marks.is_some_and(|marks| marks.period_end == self.settings.period_end);
        let counted = ended > self.known_newest(at) && ended <= self.stored_newest(at);
        let period = self.periods.index(ended);
        same_end && counted && self.start.period < period && period <= self.current
    }

    /// The half-life of continuous decay; `None` if usage does not decay.
    pub(super) fn half_life(&self) -> Option<f64> {
        (self.decay_time > 0.0).then_some(self.decay_time)
    }

    /// When the newest job of an association ended as we left it.
    pub(super) fn known_newest(&self, at: usize) -> f64 {
        self.known.get(at).copied().unwrap_or(0.0)
    }

    /// True for a job of an association that ended too early to count: the bank's or the site's cut-off leaves it out.
    pub(super) fn is_cut_off(&self, at: usize, ended: f64) -> bool {
        let bank = self.ledger.accounts.get(at).and_then(|account| self.ledger.banks.get(account.bank));
        let ignored = bank.and_then(|bank| bank.ignore_older_than).unwrap_or(0.0);
        ended <= ignored || ended <= self.start.since
    }

    /// When the newest job ended that is stored as counted.
    pub(super) fn stored_newest(&self, at: usize) -> f64 {
        let counted = self.ledger.accounts.get(at).and_then(|account| account.counted);
        counted.and_then(|counted| counted.newest).unwrap_or(0.0)
    }

    /// Up to when an association is counted of which a job of this end is. What a clock far ahead said is not repeated by a
    /// recount that was asked for: all that ends until then would be taken for counted.
    pub(super) fn counted_to(&self, ended: f64) -> f64 {
        let ahead = ended > self.now + AHEAD;
        if ahead && self.start.is_asked() { self.now } else { ended }
    }

    /// Stands for the associations there are, and for the time from which on the jobs of each one's bank count.
    pub(super) fn associations(&self) -> u64 {
        let mix = |word: u64| word.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.ledger.accounts.iter().zip(&self.keys).fold(0, |sum, (account, key)| {
            let bank = self.ledger.banks.get(account.bank);
            let ignored = bank.and_then(|bank| bank.ignore_older_than).unwrap_or(0.0);
            let mixed = mix(mix(key.rotate_left(17) ^ account.userid.cast_unsigned()) ^ ignored.to_bits());
            sum.wrapping_add(mixed.rotate_left(u32::from(account.is_default)))
        })
    }
}

/// What the next run has to know; `None` if that is what is remembered already.
fn remember(
    run: &Run<'_>,
    snapshot: &Snapshot<'_>,
    now: f64,
    (newest, continuous): (Vec<f64>, Vec<Continuous>),
    unplaced: Vec<u64>,
    unchanged: bool,
) -> Result<Option<Marks>, PipelineError> {
    let mut counted: Vec<(u64, f64)> =
        run.keys.iter().copied().zip(newest).filter(|(_, newest)| *newest > 0.0).collect();
    counted.sort_unstable_by_key(|(key, _)| *key);
    let UsageSettings { period_end, half_life, decay, reset_period, reconfigured, .. } = *run.settings;
    let period_start = run.periods.start(run.current);
    let last_job = snapshot.last_job()?.map(|(_, id)| id);
    let marks = Marks {
        period_start,
        period_end: run.new_period_end().unwrap_or(period_end),
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
        associations: run.associations(),
    };
    let Some(before) = run.marks.filter(|_| unchanged) else { return Ok(Some(marks)) };
    // A recount by a clock that was set back replaces the time of the last run, or no later run would count.
    let is_recent = (before.ran..before.ran + STALE).contains(&now);
    let same = is_recent && *before == Marks { ran: before.ran, ..marks.clone() };
    Ok((!same).then_some(marks))
}
