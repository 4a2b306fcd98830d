// SPDX-License-Identifier: LGPL-3.0-only
//! Which records the exact rule counts in a run, and in which period.

use std::collections::HashSet;

use super::exact::Run;
use super::grouped::Counting;
use super::placing::Placing;
use super::{PipelineError, Tally, nameless, resources};
use crate::store::{EndedJob, Ledger, Snapshot, Which};
use fairshare::decay;

/// How many names of a kind a tally keeps.
const NAMES: usize = 10;

/// What was found among the records.
pub(super) struct Found<'a> {
    tally: &'a mut Tally,
    placing: Placing<'a>,
    /// By association: candidates are records that ended after this, in rows after the last one.
    foreign: Vec<bool>,
    pub(super) jobs: Vec<Counting>,
    pub(super) newest: Vec<f64>,
    pub(super) unplaced: Vec<u64>,
    oldest_kept: i64,
    /// True where records have a place for their bank.
    names_banks: bool,
    /// True if no association and no bank's cut-off changed since our last run.
    is_same: bool,
    /// Where nothing is remembered, by association: true if jobs that name no bank are counted.
    nameless: Option<Vec<bool>>,
}

impl<'a> Found<'a> {
    pub(super) fn new(
        ledger: &'a Ledger,
        run: &Run<'_>,
        names_banks: bool,
        tally: &'a mut Tally,
    ) -> Found<'a> {
        let accounts = || 0..ledger.accounts.len();
        let recount = run.start.recount.is_some();
        let lost = run.start.last_row.is_none();
        let ratio = (run.settings.reset_period / run.settings.half_life).ceil() as i64;
        Found {
            tally,
            placing: Placing::new(ledger),
            foreign: accounts().map(|at| !recount && (lost || run.is_foreign(at))).collect(),
            jobs: Vec::new(),
            newest: accounts().map(|at| run.counted_to(run.stored_newest(at))).collect(),
            names_banks,
            is_same: run.marks.is_some_and(|marks| marks.associations == run.associations()),
            nameless: None,
            unplaced: Vec::new(),
            oldest_kept: run.current.saturating_sub(ratio.max(4)),
        }
    }

    pub(super) fn read(&mut self, snapshot: &Snapshot<'_>, run: &Run<'_>) -> Result<(), PipelineError> {
        // Rows that waited and are dealt with here; the loop below skips them.
        let mut waited = HashSet::new();
        let mut passed_on = 0;
        let waiting = run.marks.filter(|_| run.start.last_row.is_some());
        if let Some(marks) = waiting.filter(|marks| !marks.unplaced.is_empty()) {
            // At a boundary they are looked at again too: some are too old then to wait any longer.
            if self.is_same && run.start.period == run.current {
                self.unplaced.clone_from(&marks.unplaced);
                passed_on = self.unplaced.len();
            } else {
                snapshot.ended_jobs(Which::Ids(&marks.unplaced), &mut |job| {
                    waited.insert(job.row);
                    self.take(run, job, true);
                })?;
            }
        }
        if run.marks.is_none() && run.start.recount.is_none() {
            self.placing.add_former(&snapshot.former_userids(run.ledger)?);
            self.nameless = Some(nameless::are_counted(run, &self.placing, snapshot)?);
        }
        let last = run.start.last_row.unwrap_or(i64::MIN);
        // A watermark that went back asks for records that were counted once.
        let all = run.start.last_row.is_none() || run.start.uncounted;
        let which = if all { Which::All } else { Which::After(last) };
        snapshot.ended_jobs(which, &mut |job| {
            if waited.contains(&job.row) {
                return;
            }
            if job.row > last {
                self.tally.records += 1;
            }
            self.take(run, job, job.row > last);
        })?;
        if self.unplaced.len() > passed_on {
            self.place_former(snapshot, run)?;
        }
        Ok(())
    }

    /// Counts records of user ids that associations had before.
    fn place_former(&mut self, snapshot: &Snapshot<'_>, run: &Run<'_>) -> Result<(), PipelineError> {
        let former = snapshot.former_userids(run.ledger)?;
        if former.is_empty() {
            return Ok(());
        }
        self.placing.add_former(&former);
        let unplaced = std::mem::take(&mut self.unplaced);
        self.tally.unplaced.clear();
        snapshot.ended_jobs(Which::Ids(&unplaced), &mut |job| self.take(run, job, true))?;
        Ok(())
    }

    /// Counts a record, unless it was counted.
    fn take(&mut self, run: &Run<'_>, job: EndedJob<'_>, is_new: bool) {
        let Some((started, ended)) = job.times else { return self.unreadable(job.id) };
        let Some((at, by_default)) = self.placing.of(&job) else {
            if is_new {
                self.unplaced(run, &job, ended);
            }
            return;
        };
        let stored = run.stored_newest(at);
        let recount = run.start.recount.is_some();
        let foreign = self.foreign.get(at).copied().unwrap_or(true);
        let passed_over = self.is_passed_over(run, at, &job, ended);
        let moves = foreign && is_new && !passed_over && run.is_in_older_bin(at, ended);
        if if foreign && !passed_over { ended <= stored && !moves } else { !is_new } {
            return;
        }
        if run.is_cut_off(at, ended) {
            self.tally.ignored += 1;
            return;
        }
        let Some(ran_on) = job.r.and_then(resources::count) else { return self.unreadable(job.id) };
        let periods_ago = run.current.saturating_sub(run.periods.index(ended));
        let age = u32::try_from(periods_ago.max(0)).unwrap_or(u32::MAX);
        // A clock that was set back while it ran, or a record that does not say when it ended.
        let seconds = (ended - started).max(0.0);
        let usage = run.settings.weights.usage(ran_on, seconds);
        let continuous = decay::interval(
            run.settings.weights.rate(ran_on),
            ended - seconds,
            ended,
            ended,
            run.half_life(),
        );
        let group = u32::try_from(at).unwrap_or(u32::MAX);
        if moves {
            let bin_0 = u32::try_from(run.current.saturating_sub(run.start.period)).unwrap_or(u32::MAX);
            self.jobs.push(Counting { group, age: bin_0, ended, usage: -usage, continuous: -continuous });
            self.jobs.push(Counting { group, age, ended, usage, continuous });
            return;
        }
        self.tally.counted += 1;
        self.tally.in_default_bank += usize::from(by_default);
        self.tally.late += usize::from(!recount && ended < stored);
        self.tally.from_the_future += usize::from(periods_ago < 0);
        if let Some(newest) = self.newest.get_mut(at) {
            *newest = newest.max(run.counted_to(ended));
        }
        self.jobs.push(Counting { group, age, ended, usage, continuous });
    }

    /// True for a record that flux-accounting never counts: one without a bank, or one that ended before the newest job we
    /// had counted. So if we have not seen it, it is in no bin. (If somebody cleared the bank and flux-accounting then counted
    /// everything anew, it did count such a record; the bank's cut-off has changed then, unless it was cleared with the same
    /// one again, and `is_same` is false.)
    fn is_passed_over(&self, run: &Run<'_>, at: usize, job: &EndedJob<'_>, ended: f64) -> bool {
        // If the stored time went back, what we counted was cleared too.
        let remembered = run.start.last_row.is_some() && run.stored_newest(at) >= run.known_newest(at);
        let is_late = self.is_same && remembered && ended <= run.known_newest(at);
        let is_nameless = self.names_banks && job.bank.is_none_or(str::is_empty);
        is_late
            || is_nameless
                && match &self.nameless {
                    Some(counted) => !counted.get(at).copied().unwrap_or(false),
                    None => remembered,
                }
    }

    fn unreadable(&mut self, id: &str) {
        self.tally.unreadable_count += 1;
        if self.tally.unreadable.len() < NAMES {
            self.tally.unreadable.push(id.to_owned());
        }
    }

    fn unplaced(&mut self, run: &Run<'_>, job: &EndedJob<'_>, ended: f64) {
        if run.periods.index(ended) < self.oldest_kept {
            return;
        }
        if let Ok(id) = job.id.parse() {
            self.unplaced.push(id);
        }
        let bank = job.bank.unwrap_or("");
        let room = self.tally.unplaced.len() < NAMES;
        let mut known = self.tally.unplaced.iter_mut();
        match known.find(|(userid, name, _)| (*userid, name.as_str()) == (job.userid, bank)) {
            Some((_, _, count)) => *count += 1,
            None if room => self.tally.unplaced.push((job.userid, bank.to_owned(), 1)),
            None => {}
        }
    }
}
