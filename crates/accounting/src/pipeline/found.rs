// SPDX-License-Identifier: LGPL-3.0-only
//! Selects the job records that a sync counts, and finds the half-life period of each record.
//!
//! If the stored state of the last sync is lost, this module also determines whether the stored usage includes jobs
//! without a bank. flux-accounting does not count these jobs.

use std::collections::HashSet;

use super::charges::{compute_usage_of_job, compute_usage_rate_of_job};
use super::exact::Run;
use super::grouped::CountedJob;
use super::periods::round5;
use super::placing::AccountIndex;
use super::recount::is_close;
use super::{Result, Tally, periods, resources};
use crate::store::{EndedJob, Ledger, Snapshot, Which};
use fairshare::accrual::zero_negligible;

/// A sync reports at most this many names or job ids in each list.
const MAX_NAMES: usize = 10;

/// The records that a run counts.
pub(super) struct RecordSelection<'a> {
    tally: &'a mut Tally,
    accounts_by_job: AccountIndex<'a>,
    /// For each association, true if flux-accounting has counted its jobs since the last sync, or if the state of
    /// the last sync is lost. If true, the sync counts each record that is newer than the association's newest
    /// counted job, also if an earlier sync has read the record.
    foreign: Vec<bool>,
    pub(super) jobs: Vec<CountedJob>,
    pub(super) newest: Vec<f64>,
    pub(super) unplaced: Vec<u64>,
    oldest_kept: i64,
    /// True if records have a column for the bank.
    names_banks: bool,
    /// True if the associations and the `ignore_older_than` of their banks are the same as in the last sync.
    is_same: bool,
    /// For each association, true if its stored usage includes jobs without a bank. The run determines these flags
    /// only if the state of the last sync is lost.
    nameless: Option<Vec<bool>>,
}

impl<'a> RecordSelection<'a> {
    pub(super) fn new(
        ledger: &'a Ledger,
        run: &Run<'_>,
        names_banks: bool,
        tally: &'a mut Tally,
    ) -> RecordSelection<'a> {
        let accounts = || 0..ledger.accounts.len();
        let recount = run.start.recount.is_some();
        let marks_are_lost = run.start.last_row.is_none();
        let ratio = (run.settings.reset_period / run.settings.half_life).ceil() as i64;
        RecordSelection {
            tally,
            accounts_by_job: AccountIndex::new(ledger),
            foreign: accounts().map(|at| !recount && (marks_are_lost || run.is_foreign(at))).collect(),
            jobs: Vec::new(),
            newest: accounts().map(|at| run.limit_newest_end_time(run.read_stored_newest_end(at))).collect(),
            names_banks,
            is_same: run.marks.is_some_and(|marks| marks.associations == run.hash_associations()),
            nameless: None,
            unplaced: Vec::new(),
            oldest_kept: run.current.saturating_sub(ratio.max(4)),
        }
    }

    pub(super) fn read_records(&mut self, snapshot: &Snapshot<'_>, run: &Run<'_>) -> Result<()> {
        // Rows of the records in `unplaced` that this run has already read. The loop below skips these rows.
        let mut rows_read = HashSet::new();
        let mut passed_on = 0;
        let waiting = run.marks.filter(|_| run.start.last_row.is_some());
        if let Some(marks) = waiting.filter(|marks| !marks.unplaced.is_empty()) {
            // The jobs in `unplaced` had no association at the last sync. They are read again if the associations
            // have changed, or after a period boundary, because some jobs may now be too old to count.
            if self.is_same && run.start.period == run.current {
                self.unplaced.clone_from(&marks.unplaced);
                passed_on = self.unplaced.len();
            } else {
                snapshot.ended_jobs(Which::Ids(&marks.unplaced), &mut |job| {
                    rows_read.insert(job.row);
                    self.count_record(run, job, true);
                })?;
            }
        }
        if run.marks.is_none() && run.start.recount.is_none() {
            self.accounts_by_job.add_former_userids(&snapshot.former_userids(run.ledger)?);
            self.nameless = Some(find_accounts_with_jobs_without_bank(run, &self.accounts_by_job, snapshot)?);
        }
        let last = run.start.last_row.unwrap_or(i64::MIN);
        // If another program stored an earlier end of the newest counted job, records that were counted
        // before must be counted again.
        let all = run.start.last_row.is_none() || run.start.uncounted;
        let which = if all { Which::All } else { Which::After(last) };
        snapshot.ended_jobs(which, &mut |job| {
            if rows_read.contains(&job.row) {
                return;
            }
            if job.row > last {
                self.tally.records += 1;
            }
            self.count_record(run, job, job.row > last);
        })?;
        if self.unplaced.len() > passed_on {
            self.count_former_users(snapshot, run)?;
        }
        run.running.iter().for_each(|job| self.count_record(run, job.record_as_ended_at(run.now), true));
        Ok(())
    }

    /// Counts records of user ids that associations had earlier.
    fn count_former_users(&mut self, snapshot: &Snapshot<'_>, run: &Run<'_>) -> Result<()> {
        let former = snapshot.former_userids(run.ledger)?;
        if former.is_empty() {
            return Ok(());
        }
        self.accounts_by_job.add_former_userids(&former);
        let unplaced = std::mem::take(&mut self.unplaced);
        self.tally.unplaced.clear();
        snapshot.ended_jobs(Which::Ids(&unplaced), &mut |job| self.count_record(run, job, true))?;
        Ok(())
    }

    /// Counts a record, unless it is counted already. `is_new` is true if no earlier run has read the record.
    fn count_record(&mut self, run: &Run<'_>, job: EndedJob<'_>, is_new: bool) {
        let Some((started, ended)) = job.times else { return self.add_unreadable_record(job.id) };
        let Some((at, by_default)) = self.accounts_by_job.find_account(&job) else {
            if is_new {
                self.add_job_without_account(run, &job, ended);
            }
            return;
        };
        let stored = run.read_stored_newest_end(at);
        let recount = run.start.recount.is_some();
        let is_foreign = self.foreign.get(at).copied().unwrap_or(true);
        let is_passed_over = self.is_passed_over(run, at, &job, ended);
        let must_move = is_foreign && is_new && !is_passed_over && run.was_counted_in_older_bin(at, ended);
        if if is_foreign && !is_passed_over { ended <= stored && !must_move } else { !is_new } {
            return;
        }
        if run.ended_before_usage_was_cleared(at, ended) {
            self.tally.ignored += 1;
            return;
        }
        let ran_on = job.running.map(|(ran_on, _)| ran_on).or_else(|| resources::count(job.r?));
        let Some(ran_on) = ran_on else { return self.add_unreadable_record(job.id) };
        let periods_ago = run.current.saturating_sub(run.periods.index(ended));
        let age = u32::try_from(periods_ago.max(0)).unwrap_or(u32::MAX);
        // If the clock was set back during the job, or if the record lacks the end, `ended` is before `started`.
        let seconds = (ended - started).max(0.0);
        let rate = compute_usage_rate_of_job(run.settings, &job, ran_on, started);
        let usage = round5(rate * seconds);
        let continuous = zero_negligible(rate * run.half_life().accrued(seconds));
        let group = u32::try_from(at).unwrap_or(u32::MAX);
        if must_move {
            let bin_0 = u32::try_from(run.current.saturating_sub(run.start.period)).unwrap_or(u32::MAX);
            self.jobs.push(CountedJob { group, age: bin_0, ended, usage: -usage, continuous: -continuous });
            self.jobs.push(CountedJob { group, age, ended, usage, continuous });
            return;
        }
        self.tally.counted += 1;
        self.tally.in_default_bank += usize::from(by_default);
        self.tally.late += usize::from(!recount && ended < stored);
        self.tally.from_the_future += usize::from(periods_ago < 0);
        if let Some(newest) = self.newest.get_mut(at) {
            *newest = newest.max(run.limit_newest_end_time(ended));
        }
        self.jobs.push(CountedJob { group, age, ended, usage, continuous });
    }

    /// Returns true if flux-accounting never counts this record. flux-accounting skips a record that names no
    /// bank. flux-accounting also skips the record of a job that ended before the newest job that the last sync
    /// counted.
    ///
    /// After `flux account clear-usage`, flux-accounting counts old records again. This function detects
    /// `clear-usage` by the new `ignore_older_than` of the bank, but not a second `clear-usage` with the same
    /// time.
    fn is_passed_over(&self, run: &Run<'_>, at: usize, job: &EndedJob<'_>, ended: f64) -> bool {
        // After `clear-usage`, the stored end of the newest counted job is 0, so `was_read` is false.
        let was_read = run.start.last_row.is_some() && run.read_stored_newest_end(at) >= run.known_newest(at);
        let is_late = self.is_same && was_read && ended <= run.known_newest(at);
        let is_nameless = self.names_banks && job.bank.is_none_or(str::is_empty);
        is_late
            || is_nameless
                && match &self.nameless {
                    Some(counted) => !counted.get(at).copied().unwrap_or(false),
                    None => was_read,
                }
    }

    fn add_unreadable_record(&mut self, id: &str) {
        self.tally.unreadable_count += 1;
        if self.tally.unreadable.len() < MAX_NAMES {
            self.tally.unreadable.push(id.to_owned());
        }
    }

    fn add_job_without_account(&mut self, run: &Run<'_>, job: &EndedJob<'_>, ended: f64) {
        if run.periods.index(ended) < self.oldest_kept {
            return;
        }
        if let Ok(id) = job.id.parse() {
            self.unplaced.push(id);
        }
        let bank = job.bank.unwrap_or("");
        let has_room = self.tally.unplaced.len() < MAX_NAMES;
        let mut known = self.tally.unplaced.iter_mut();
        match known.find(|(userid, name, _)| (*userid, name.as_str()) == (job.userid, bank)) {
            Some((_, _, count)) => *count += 1,
            None if has_room => self.tally.unplaced.push((job.userid, bank.to_owned(), 1)),
            None => {}
        }
    }
}

/// Returns a flag for each association. The flag is true if the stored usage equals the usage of all jobs of the
/// association, including the jobs without a bank.
pub(super) fn find_accounts_with_jobs_without_bank(
    run: &Run<'_>,
    accounts_by_job: &AccountIndex<'_>,
    snapshot: &Snapshot<'_>,
) -> Result<Vec<bool>> {
    let mut sums = vec![0.0; run.ledger.accounts.len()];
    let kept = run.bin_count(None, false) as i64;
    snapshot.ended_jobs(Which::All, &mut |job| {
        let ran_on = job.r.and_then(resources::count);
        let (Some((from, to)), Some(ran_on), Some((at, _))) =
            (job.times, ran_on, accounts_by_job.find_account(&job))
        else {
            return;
        };
        let age = run.start.period.saturating_sub(run.periods.index(to)).max(0);
        if to > run.read_stored_newest_end(at) || run.ended_before_usage_was_cleared(at, to) || age >= kept {
            return;
        }
        let usage = compute_usage_of_job(run.settings, &job, ran_on, (from, to.max(from)));
        if let Some(sum) = sums.get_mut(at) {
            *sum += periods::decay_at_boundaries(
                usage,
                usize::try_from(age).unwrap_or(usize::MAX),
                run.settings.decay,
            );
        }
    })?;
    let stored = run.ledger.accounts.iter().map(|account| account.usage);
    Ok(stored.zip(sums).map(|(stored, sum)| is_close(stored, sum)).collect())
}
