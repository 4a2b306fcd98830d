// SPDX-License-Identifier: LGPL-3.0-only
//! All usage from the records alone, beside what is stored: who differs, and by which fault.

use std::collections::BTreeMap;

use super::blame::{self, Boundary, Fault, Story, Trace};
use super::{PipelineError, Plan, Present, exact};
use crate::store::{Snapshot, UsageSettings};
use fairshare::periods::{self, Periods, total};

/// What a recount found.
#[derive(Debug)]
pub struct Recount {
    /// What storing the recounted usage would change.
    pub plan: Plan,
    /// Associations whose stored usage or bins differ, as they are stored.
    pub differences: Vec<Difference>,
    /// Banks whose stored usage differs: name, stored, recounted, fault if it is the bank's own.
    pub banks: Vec<(String, f64, f64, Option<Fault>)>,
    /// How many associations, banks or records each fault is found in.
    pub faults: BTreeMap<Fault, usize>,
}

/// One association whose usage differs.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Its place in the ledger.
    pub account: usize,
    /// The stored usage.
    pub stored: f64,
    /// The recounted usage.
    pub recounted: f64,
    /// The stored bins.
    pub stored_bins: Vec<f64>,
    /// The recounted bins.
    pub recounted_bins: Vec<f64>,
    /// By which faults; empty if none explains it.
    pub faults: Vec<Fault>,
    /// True if the next run stores the recounted usage: boundaries passed or jobs ended since the last one, and nothing is wrong.
    pub is_due: bool,
}

/// What the records come to, before it is known why what is stored differs. Needs no database from here on.
#[derive(Debug)]
pub struct Counted {
    /// What storing the recounted usage would change.
    pub plan: Plan,
    settings: UsageSettings,
    traces: Vec<(usize, f64, Trace)>,
    due: Due,
    now: f64,
    oldest_association: Option<f64>,
}

impl Counted {
    /// Counts by the exact rule. The lengths in force are taken to hold for the whole history.
    pub fn new(
        snapshot: &Snapshot<'_>,
        now: f64,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Counted, PipelineError> {
        snapshot.check_usage_schema()?;
        let settings = snapshot.usage_settings()?;
        let mut traces = Vec::new();
        let plan = exact::plan(snapshot, now, Some(&mut traces), progress)?;
        let due = Due::of(snapshot, &plan, now)?;
        Ok(Counted { plan, settings, traces, due, now, oldest_association: snapshot.oldest_association()? })
    }

    /// Who differs, and by which fault. That may take its time: nobody should have to wait for a lock meanwhile.
    pub fn explain(self) -> Recount {
        let Counted { plan, settings, traces, due, now, oldest_association } = self;
        let mut of: Vec<Vec<(f64, Trace)>> = vec![Vec::new(); plan.ledger.accounts.len()];
        let oldest = traces.iter().map(|(_, ended, _)| *ended).reduce(f64::min);
        for (at, ended, trace) in traces {
            if let Some(jobs) = of.get_mut(at) {
                jobs.push((ended, trace));
            }
        }
        let mut recount =
            Recount { plan, differences: Vec::new(), banks: Vec::new(), faults: BTreeMap::new() };
        let mut stories = Vec::new();
        for (at, jobs) in of.iter_mut().enumerate() {
            jobs.sort_by(|one, other| one.0.total_cmp(&other.0));
            let Some(mut difference) = recount.difference(at) else { continue };
            let then = due.then(at, &difference.stored_bins, jobs, settings.decay);
            let (kept, gone) = then.split_at(difference.recounted_bins.len().min(then.len()));
            difference.is_due = kept.len() == difference.recounted_bins.len()
                && blame::is_close(kept, &difference.recounted_bins)
                && gone.iter().all(|value| blame::is_close(&[*value], &[0.0]))
                && blame::is_close(&[total(&difference.stored_bins)], &[difference.stored]);
            let jobs: Vec<Trace> = jobs.iter().map(|(_, trace)| *trace).collect();
            let story = if difference.is_due { None } else { blame::explain(&jobs, &then, settings.decay) };
            let story = story.unwrap_or_default();
            difference.faults.clone_from(&story.faults);
            recount.differences.push(difference);
            stories.push(story);
        }
        let first = Periods::new(settings.period_end, settings.half_life)
            .is_some_and(|periods| periods.index(now) == 0)
            && is_first(settings.period_end - settings.half_life, oldest, oldest_association);
        recount.name_missed(&stories, first);
        recount.compare_banks();
        for difference in &recount.differences {
            for fault in &difference.faults {
                *recount.faults.entry(*fault).or_default() += 1;
            }
        }
        let boundaries = stories.iter().filter_map(|story| story.boundaries.first());
        let fates = [Boundary::Twice, Boundary::Missed]
            .map(|fate| boundaries.clone().filter(|what| **what == fate).count());
        let unharmed = of.iter().zip(0..).any(|(jobs, at)| {
            jobs.iter().any(|(_, job)| job.age > 0)
                && !recount.differences.iter().any(|one| one.account == at)
        });
        if fates.iter().filter(|count| **count > 0).count() + usize::from(unharmed) > 1 {
            recount.faults.insert(Fault::LuckOfTiming, fates.iter().sum());
        }
        let silent = recount.plan.tally.unreadable_count + recount.plan.tally.waiting;
        if silent > 0 {
            recount.faults.insert(Fault::Silence, silent);
        }
        recount
    }
}

/// Computes the stored bins as of after the next run, faults left in.
#[derive(Debug)]
struct Due {
    /// Boundaries since the last run.
    boundaries: u64,
    /// By association: when the newest counted job ended.
    newest: Vec<f64>,
    /// Records after this row are new; `None` if no run of the exact rule is remembered.
    last_row: Option<i64>,
}

impl Due {
    fn of(snapshot: &Snapshot<'_>, plan: &Plan, now: f64) -> Result<Due, PipelineError> {
        let newest = plan.ledger.accounts.iter().map(|account| account.counted?.newest);
        let last_job = snapshot.marks()?.and_then(|marks| marks.last_job);
        Ok(Due {
            boundaries: Present::due(snapshot, now).into(),
            newest: newest.map(Option::unwrap_or_default).collect(),
            last_row: last_job.map(|id| snapshot.row_of_job(&id)).transpose()?.flatten(),
        })
    }

    /// The bins of an association after the next run. `jobs` are all that count in it, with their ends.
    fn then(&self, at: usize, stored: &[f64], jobs: &[(f64, Trace)], decay: f64) -> Vec<f64> {
        let mut then = stored.to_vec();
        periods::shift(&mut then, self.boundaries, decay);
        let newest = self.newest.get(at).copied().unwrap_or(0.0);
        let is_new = |(ended, job): &&(f64, Trace)| {
            self.last_row.map_or(*ended > newest && !job.without_bank, |last| job.row > last)
        };
        for (_, job) in jobs.iter().filter(is_new) {
            if let Some(bin) = then.get_mut(job.age as usize) {
                *bin += periods::decayed(job.usage, job.age as usize, decay);
            }
        }
        then
    }
}

impl Recount {
    /// What is stored of an association beside what was recounted, if that differs.
    fn difference(&self, at: usize) -> Option<Difference> {
        let Plan { ledger, bins, changes, .. } = &self.plan;
        let account = ledger.accounts.get(at)?;
        let stored = bins.of.get(at)?;
        let forgotten = changes.forgotten.binary_search_by_key(&at, |(of, _)| *of).ok();
        let first_gone = forgotten.and_then(|found| changes.forgotten.get(found)).map(|(_, first)| *first);
        let kept = stored.partition_point(|bin| first_gone.is_none_or(|first| bin.period < first));
        let stored_bins: Vec<f64> = stored.iter().map(|bin| bin.value).collect();
        let mut recounted: Vec<(i64, f64)> =
            stored.iter().take(kept).map(|bin| (bin.period, bin.value)).collect();
        let first = changes.bins.partition_point(|change| change.0 < at);
        for (_, period, value) in changes.bins.iter().skip(first).take_while(|change| change.0 == at) {
            match recounted.iter_mut().find(|bin| bin.0 == *period) {
                Some(bin) => bin.1 = *value,
                None => recounted.push((*period, *value)),
            }
        }
        let recounted_bins: Vec<f64> = recounted.into_iter().map(|(_, value)| value).collect();
        let usage = total(&recounted_bins);
        // To drop a bin that holds nothing changes no number.
        let (beside, gone) = stored_bins.split_at(kept);
        let same = blame::is_close(beside, &recounted_bins)
            && beside.len() == recounted_bins.len()
            && gone.iter().all(|value| blame::is_close(&[*value], &[0.0]))
            && blame::is_close(&[usage], &[account.usage]);
        (!same).then(|| Difference {
            account: at,
            stored: account.usage,
            recounted: usage,
            stored_bins,
            recounted_bins,
            faults: Vec::new(),
            is_due: false,
        })
    }

    /// A boundary that was missed by all who had something to decay is the site's first, if that is where it is.
    fn name_missed(&mut self, stories: &[Story], first: bool) {
        if !first {
            return;
        }
        for (difference, story) in self.differences.iter_mut().zip(stories) {
            let missed = story.boundaries.iter().filter(|what| **what == Boundary::Missed).count();
            if story.boundaries.first() != Some(&Boundary::Missed) || missed > 1 {
                continue;
            }
            for fault in difference.faults.iter_mut().filter(|fault| **fault == Fault::NoDecay) {
                *fault = Fault::FirstBoundary;
            }
        }
    }

    /// Banks whose users are missing beside sub-banks have a fault of their own; others follow from their users.
    fn compare_banks(&mut self) {
        let Plan { ledger, changes, .. } = &self.plan;
        for (at, usage) in &changes.banks {
            let Some(bank) = ledger.banks.get(*at).filter(|bank| !blame::is_close(&[bank.usage], &[*usage]))
            else {
                continue;
            };
            let has_banks = ledger.banks.iter().any(|other| other.parent == Some(*at));
            let used = |account: &crate::store::Account| account.bank == *at && account.usage > 0.0;
            let fault = (has_banks && ledger.accounts.iter().any(used)).then_some(Fault::UsersBesideBanks);
            if let Some(fault) = fault {
                *self.faults.entry(fault).or_default() += 1;
            }
            self.banks.push((bank.name.clone(), bank.usage, *usage, fault));
        }
    }
}

/// True if the history began in the period that begins there, so that its end is the site's first boundary.
fn is_first(begin: f64, oldest_job: Option<f64>, oldest_association: Option<f64>) -> bool {
    let since = |instant: Option<f64>| instant.is_none_or(|instant| instant >= begin - 1.0);
    since(oldest_job) && since(oldest_association)
}
