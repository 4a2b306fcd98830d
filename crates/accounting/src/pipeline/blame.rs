// SPDX-License-Identifier: LGPL-3.0-only
//! How a stored usage came to be wrong: the history of an association is played with one fault after the other put in,
//! the fewest first, until the bins come out as they are stored.
//!
//! flux-accounting's program leaves no trace of when it ran, so this is a conclusion from the numbers, not a record.

use std::fmt;

/// A fault of flux-accounting's usage that a stored number can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// At a boundary the past went into the present bin as well.
    PastTwice,
    /// One boundary passed an association by.
    NoDecay,
    /// Associations fared differently at the same boundary.
    LuckOfTiming,
    /// Several boundaries were not made good.
    Outage,
    /// The first boundary of the site was none.
    FirstBoundary,
    /// Jobs of one period were counted in the next, undecayed.
    NextPeriod,
    /// Records that came late were not counted.
    Late,
    /// Users of a bank with sub-banks are missing in its sum.
    UsersBesideBanks,
    /// Jobs that name no bank count nowhere.
    NoBank,
    /// Records were passed over in silence.
    Silence,
    /// A change of lengths threw the history away.
    Forgotten,
}

impl Fault {
    /// Its number in the list of faults.
    pub fn number(self) -> u32 {
        self as u32 + 1
    }

    /// What it did, in a clause.
    pub fn what(self) -> &'static str {
        match self {
            Fault::PastTwice => "a boundary put the past into the present period as well: it counts twice",
            Fault::NoDecay => "a boundary passed by without decay, as the newest job ended just before it",
            Fault::LuckOfTiming => "users fared differently at the same boundary: decay was luck of timing",
            Fault::Outage => "several boundaries were not made good",
            Fault::FirstBoundary => {
                "the first boundary of the site was none: the first decay comes a period late"
            }
            Fault::NextPeriod => "jobs that ended in one period were counted in the next, undecayed",
            Fault::Late => "records that came late were never counted",
            Fault::UsersBesideBanks => "users of a bank that has sub-banks are missing in its usage",
            Fault::NoBank => "jobs that name no bank were not counted in their user's default bank",
            Fault::Silence => {
                "records without an association or without readable resources were passed over in silence"
            }
            Fault::Forgotten => "a change of half-life or decay threw the history away",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "U{}", self.number())
    }
}

/// A job of the association.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trace {
    /// How many boundaries ago it ended.
    pub(super) age: u32,
    /// What it used.
    pub(super) usage: f64,
    /// Seconds from its end to the end of its period.
    pub(super) to_boundary: f64,
    /// Its place among the records.
    pub(super) row: i64,
    /// It names no bank.
    pub(super) without_bank: bool,
    /// It ended before the lengths were changed.
    pub(super) before_change: bool,
}

/// What happened to an association at a boundary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Boundary {
    /// All bins moved on and decayed.
    Proper,
    /// And their sum went into the present bin.
    Twice,
    /// Nothing.
    Missed,
}

/// How the stored bins came to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Story {
    /// The faults, without those that only show between associations.
    pub(super) faults: Vec<Fault>,
    /// What happened at boundaries, the latest first.
    pub(super) boundaries: Vec<Boundary>,
}

/// Boundaries that are played with faults; older ones are proper.
const DEPTH: usize = 6;
/// Faults at boundaries at a time.
const AT_A_TIME: usize = 3;
/// Jobs that may have slipped into the next period.
const SLIPPED: usize = 16;
/// They ended so many seconds before its beginning at most: sites count every hour or so.
const SLIPPING: f64 = 7200.0;
/// Records searched for a group that came late.
const SEARCHED: usize = 2000;
/// Bins of an association that are explained: with more it would take too long.
const EXPLAINED: usize = 64;

/// What jobs used, by how many boundaries ago they ended, in the order of their ends.
struct Ages {
    of: Vec<Vec<f64>>,
    sums: Vec<f64>,
}

impl Ages {
    fn new<'a>(jobs: impl IntoIterator<Item = &'a Trace>) -> Ages {
        let mut of: Vec<Vec<f64>> = Vec::new();
        for job in jobs {
            let age = job.age as usize;
            if of.len() <= age {
                of.resize(age + 1, Vec::new());
            }
            of.get_mut(age).into_iter().for_each(|of| of.push(job.usage));
        }
        let sums = of.iter().map(|of| of.iter().sum()).collect();
        Ages { of, sums }
    }

    fn at(&self, age: usize) -> &[f64] {
        self.of.get(age).map(Vec::as_slice).unwrap_or_default()
    }

    /// The sum of the first ones of an age, and of those behind them.
    fn split(&self, age: usize, first: usize) -> (f64, f64) {
        let of = self.at(age);
        if first >= of.len() {
            return (self.sums.get(age).copied().unwrap_or(0.0), 0.0);
        }
        let (first, rest) = of.split_at(first);
        (first.iter().sum(), rest.iter().sum())
    }
}

/// Which jobs a fault passes over.
type Passed = fn(&Trace) -> bool;

/// Finds a story; `None` if none of ours gives these bins. `jobs` are in the order of their end.
pub(super) fn explain(jobs: &[Trace], stored: &[f64], decay: f64) -> Option<Story> {
    if stored.len() > EXPLAINED {
        return None;
    }
    // What ended before is in no bin any more, whatever happened at the boundaries since.
    let reach = stored.len() + DEPTH + AT_A_TIME;
    let jobs: Vec<Trace> = jobs.iter().filter(|job| (job.age as usize) < reach).copied().collect();
    let depth = jobs.iter().map(|job| job.age as usize).max().unwrap_or(0).min(DEPTH);
    let drops: [(Option<Fault>, Passed); 3] = [
        (None, |_| false),
        (Some(Fault::NoBank), |job| job.without_bank),
        (Some(Fault::Forgotten), |job| job.before_change),
    ];
    let play = |jobs: &Ages, story: &[Boundary], slipped: (usize, usize)| {
        is_close(&played(jobs, story, slipped, decay, stored.len()), stored)
    };
    for faults in 0..=AT_A_TIME {
        for (fault, is_dropped) in &drops {
            let left: Vec<Trace> = jobs.iter().filter(|job| !is_dropped(job)).copied().collect();
            if fault.is_some() && left.len() == jobs.len() {
                continue;
            }
            let Some(at_boundaries) = faults.checked_sub(usize::from(fault.is_some())) else { continue };
            let ages = Ages::new(&left);
            if let Some(fewer) = at_boundaries.checked_sub(1).filter(|fewer| *fewer < 2) {
                for story in stories(depth, fewer) {
                    for boundary in 1..=depth {
                        let may_slip =
                            |job: &&Trace| job.age as usize == boundary && job.to_boundary <= SLIPPING;
                        let most = left.iter().filter(may_slip).count().min(SLIPPED);
                        if (1..=most).any(|slipped| play(&ages, &story, (boundary, slipped))) {
                            return Some(Story::new(*fault, story, true));
                        }
                    }
                }
            }
            for story in stories(depth, at_boundaries) {
                if play(&ages, &story, (0, 0)) {
                    return Some(Story::new(*fault, story, false));
                }
            }
            if at_boundaries == 1 && is_without_late(&left, stored, decay) {
                let mut story = Story::new(*fault, vec![Boundary::Proper; depth], false);
                story.faults.push(Fault::Late);
                return Some(story);
            }
        }
    }
    None
}

impl Story {
    fn new(dropped: Option<Fault>, boundaries: Vec<Boundary>, slipped: bool) -> Story {
        let mut faults: Vec<Fault> = dropped.into_iter().collect();
        if boundaries.contains(&Boundary::Twice) {
            faults.push(Fault::PastTwice);
        }
        match boundaries.iter().filter(|boundary| **boundary == Boundary::Missed).count() {
            0 => {}
            1 => faults.push(Fault::NoDecay),
            _ => faults.push(Fault::Outage),
        }
        if slipped {
            faults.push(Fault::NextPeriod);
        }
        Story { faults, boundaries }
    }
}

/// All ways to have this many faults at so many boundaries, the latest boundary first.
fn stories(depth: usize, faults: usize) -> Vec<Vec<Boundary>> {
    let mut found = vec![Vec::new()];
    for boundary in 0..depth {
        let mut longer = Vec::new();
        for story in found {
            let so_far = story.iter().filter(|what| **what != Boundary::Proper).count();
            let mut add = |what| longer.push([story.as_slice(), &[what]].concat());
            if so_far < faults {
                add(Boundary::Twice);
                add(Boundary::Missed);
            }
            if faults - so_far < depth - boundary {
                add(Boundary::Proper);
            }
        }
        found = longer;
    }
    if depth == 0 && faults > 0 { Vec::new() } else { found }
}

/// The bins after this story. `slipped` last jobs before a boundary were counted behind it.
fn played(
    jobs: &Ages,
    story: &[Boundary],
    (slipped_at, slipped): (usize, usize),
    decay: f64,
    kept: usize,
) -> Vec<f64> {
    let mut bins = vec![0.0; kept];
    let oldest = jobs.of.len().saturating_sub(1);
    // How many of an age were counted in their own period.
    let here = |age: usize| {
        let all = jobs.at(age).len();
        if age == slipped_at { all.saturating_sub(slipped) } else { all }
    };
    for age in (0..=oldest).rev() {
        // The boundary that begins this period.
        match story.get(age).filter(|_| age < oldest).unwrap_or(&Boundary::Proper) {
            Boundary::Missed => {}
            what => {
                fairshare::periods::shift(&mut bins, 1, decay);
                let past: f64 = bins.iter().sum();
                if let Some(present) = bins.first_mut().filter(|_| *what == Boundary::Twice) {
                    *present = past;
                }
            }
        }
        let (used, _) = jobs.split(age, here(age));
        let (_, used_before) = jobs.split(age + 1, here(age + 1));
        if let Some(present) = bins.first_mut() {
            *present += used + used_before;
        }
    }
    bins
}

/// True if all that is missing is a group of records that came one after the other, behind one of a later end.
fn is_without_late(jobs: &[Trace], stored: &[f64], decay: f64) -> bool {
    let proper = |jobs: &[Trace]| played(&Ages::new(jobs), &[], (0, 0), decay, stored.len());
    let missing = proper(jobs).iter().sum::<f64>() - stored.iter().sum::<f64>();
    if missing <= 0.0 || jobs.len() > SEARCHED {
        return false;
    }
    let left_of = |job: &Trace| fairshare::periods::decayed(job.usage, job.age as usize, decay);
    let mut rows: Vec<(usize, &Trace)> = jobs.iter().enumerate().collect();
    rows.sort_by_key(|(_, job)| job.row);
    for first in 1..rows.len() {
        let latest = rows.iter().take(first).map(|(at, _)| *at).max().unwrap_or(0);
        let mut sum = 0.0;
        for (length, (at, job)) in rows.iter().skip(first).enumerate() {
            if *at > latest || sum > missing * (1.0 + 1e-9) {
                break;
            }
            sum += left_of(job);
            if !is_close(&[sum], &[missing]) {
                continue;
            }
            let late = rows.get(first..=first + length).unwrap_or_default();
            let rest: Vec<Trace> = jobs
                .iter()
                .enumerate()
                .filter(|(at, _)| !late.iter().any(|(other, _)| other == at))
                .map(|(_, job)| *job)
                .collect();
            if is_close(&proper(&rest), stored) {
                return true;
            }
        }
    }
    false
}

/// Equal but for what rounding does to sums.
pub(super) fn is_close(one: &[f64], other: &[f64]) -> bool {
    let near = |(one, other): (&f64, &f64)| (one - other).abs() <= 1e-4 + 1e-9 * one.abs().max(other.abs());
    one.iter().zip(other).all(near)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(age: u32, usage: f64, row: i64) -> Trace {
        Trace { age, usage, to_boundary: 60.0, row, without_bank: false, before_change: false }
    }

    fn faults(jobs: &[Trace], stored: [f64; 4]) -> Option<Vec<Fault>> {
        explain(jobs, &stored, 0.5).map(|story| story.faults)
    }

    #[test]
    fn each_fault_is_known_by_its_numbers() {
        let jobs = [job(1, 1000.0, 1), job(0, 100.0, 2), job(0, 10.0, 3)];
        assert_eq!(faults(&jobs, [110.0, 500.0, 0.0, 0.0]), Some(vec![]));
        assert_eq!(faults(&jobs, [610.0, 500.0, 0.0, 0.0]), Some(vec![Fault::PastTwice]));
        assert_eq!(faults(&jobs, [1110.0, 0.0, 0.0, 0.0]), Some(vec![Fault::NextPeriod]));
        assert_eq!(faults(&jobs, [1.0, 2.0, 3.0, 4.0]), None);
        let early = |job| Trace { to_boundary: 1e5, ..job };
        let jobs = jobs.map(early);
        assert_eq!(faults(&jobs, [1110.0, 0.0, 0.0, 0.0]), Some(vec![Fault::NoDecay]));
        let old = [early(job(3, 1000.0, 1))];
        assert_eq!(faults(&old, [0.0, 500.0, 0.0, 0.0]), Some(vec![Fault::Outage]));
        let slipped = [job(1, 7.0, 1), job(1, 1000.0, 2), job(0, 10.0, 3)];
        assert_eq!(faults(&slipped, [1010.0, 3.5, 0.0, 0.0]), Some(vec![Fault::NextPeriod]));
        let late = [job(0, 1000.0, 2), job(0, 100.0, 1)];
        assert_eq!(faults(&late, [100.0, 0.0, 0.0, 0.0]), Some(vec![Fault::Late]));
        let unnamed = [Trace { without_bank: true, ..job(0, 9.0, 1) }, job(0, 1.0, 2)];
        assert_eq!(faults(&unnamed, [1.0, 0.0, 0.0, 0.0]), Some(vec![Fault::NoBank]));
        let forgotten = [Trace { before_change: true, ..job(1, 9.0, 1) }, job(0, 1.0, 2)];
        assert_eq!(faults(&forgotten, [1.0, 0.0, 0.0, 0.0]), Some(vec![Fault::Forgotten]));
    }

    #[test]
    fn a_record_of_long_ago_changes_nothing() {
        let jobs = [job(1, 1000.0, 1), job(0, 100.0, 2), job(0, 10.0, 3)];
        let ancient = [&[job(u32::MAX, 5.0, 0), job(20, 5.0, 0)], &jobs[..]].concat();
        for stored in [[110.0, 500.0, 0.0, 0.0], [610.0, 500.0, 0.0, 0.0], [1110.0, 0.0, 0.0, 0.0], [1.0; 4]]
        {
            assert_eq!(explain(&ancient, &stored, 0.5), explain(&jobs, &stored, 0.5), "{stored:?}");
        }
        assert_eq!(explain(&jobs, &[1.0; 65], 0.5), None, "nobody waits for that");
    }

    #[test]
    fn stories_are_all_different_and_as_many_as_there_are() {
        for (depth, faults, count) in
            [(0, 0, 1), (0, 1, 0), (1, 1, 2), (3, 0, 1), (3, 1, 6), (3, 2, 12), (3, 3, 8)]
        {
            assert_eq!(stories(depth, faults).len(), count, "{depth} {faults}");
        }
    }
}
