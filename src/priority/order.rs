// SPDX-License-Identifier: LGPL-3.0-only
//! Which pending jobs to post a new price for, so that the head of each queue is in the right order.
//!
//! A job has a posted price, which the scheduler sorts by, and an exact one. Of two equal prices the earlier id goes first.
//! Touching a job posts its exact price, never a number in between: a posted price is explained by its terms.
//!
//! The head of a queue is **right to a depth K** if its first K jobs by posted price are its first K by exact price, in the same
//! order. Jobs behind that may lag; so may jobs in the head, as long as nobody can see it by the order. Held and expedited
//! jobs never lag. [`least`] finds the fewest jobs that have to be touched: along the first K by exact price each either keeps
//! its posted price or gets the exact one, and only neighbours have to be compared; whoever else would still be posted before
//! the last of them is touched as well. That is one pass over the jobs of a queue, after the first K are sorted.
//!
//! [`Pending`] knows all pending jobs and which of them lag, so that a refresh which changed few prices costs little: those
//! are simply posted.
#![forbid(unsafe_code)]

use super::PRIORITY_MAX;
use super::pending::{Pending, Priced};
use crate::ids::JobId;

/// What a plan has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How deep each queue has to be right.
    pub depth: usize,
    /// So many jobs that lag, over all queues, are posted without asking whether it shows.
    pub few: usize,
    /// No more jobs are touched at once.
    pub budget: usize,
}

/// What to post, and what that leaves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Each job with its exact price: the head of its queue first.
    pub touch: Vec<(JobId, u32)>,
    /// How many will still lag.
    pub lagging: usize,
    /// To which depth every queue will be right; `None` if that is all of it, or the depth that was asked for.
    pub only_to: Option<usize>,
}

impl Priced {
    /// One of the two prices says that it is held, or expedited.
    fn is_urgent(&self) -> bool {
        let special = |price: u32| price == 0 || price == PRIORITY_MAX;
        self.lags() && (special(self.posted) || special(self.exact))
    }

    fn by_exact(&self) -> Place {
        Place::new(self.exact, self.id)
    }

    fn by_posted(&self) -> Place {
        Place::new(self.posted, self.id)
    }
}

/// A number that sorts as the queue does: higher prices first, then the earlier id. No two jobs have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place(u128);

impl Place {
    fn new(price: u32, id: JobId) -> Place {
        Place((u128::from(!price) << 64) + u128::from(id.0))
    }

    fn is_before(self, other: Place) -> bool {
        self.0 < other.0
    }
}

impl<T> Pending<T> {
    /// Which jobs to touch. O(1) if none lags, O(lagging) if few do, else O(pending + depth log depth).
    pub fn plan(&self, bounds: Bounds) -> Plan {
        let lagging = self.lagging();
        if lagging <= bounds.few.min(bounds.budget) {
            let mut touch: Vec<Priced> = self.laggards().collect();
            touch.sort_unstable_by_key(Priced::by_exact);
            return plan(touch, 0, None);
        }
        let mut heads: Vec<Head> = self.queues().map(|jobs| Head::new(jobs, bounds.depth)).collect();
        let mut touch: Vec<Vec<Priced>> = heads.iter_mut().map(|head| head.least(bounds.depth)).collect();
        let (mut left, mut only_to) = (bounds.budget, None);
        // Who wants least is served first, so that what it leaves goes to the others.
        let mut by_need: Vec<usize> = (0..touch.len()).collect();
        by_need.sort_by_key(|&at| touch.get(at).map_or(0, Vec::len));
        for (served, at) in by_need.into_iter().enumerate() {
            let part = left / (heads.len() - served);
            let (Some(jobs), Some(head)) = (touch.get_mut(at), heads.get_mut(at)) else { continue };
            if jobs.len() > part {
                let (within, to) = head.within(part, bounds.depth);
                *jobs = within;
                only_to = Some(only_to.map_or(to, |other: usize| other.min(to)));
            }
            left -= jobs.len();
        }
        let touch: Vec<Priced> = touch.into_iter().flatten().collect();
        let still = lagging - touch.len();
        plan(touch, still, only_to)
    }
}

fn plan(touch: Vec<Priced>, lagging: usize, only_to: Option<usize>) -> Plan {
    Plan { touch: touch.into_iter().map(|job| (job.id, job.exact)).collect(), lagging, only_to }
}

/// The fewest jobs of a queue to touch so that it is right to a depth; the head comes first.
pub fn least(jobs: &[Priced], depth: usize) -> Vec<Priced> {
    Head::new(jobs, depth).least(depth)
}

/// The jobs of a queue, the first ones by exact price sorted.
struct Head {
    jobs: Vec<Priced>,
    /// Memory for the prices kept.
    steps: Vec<Step>,
}

/// The fewest touches up to a job, if it keeps its posted price or gets its exact one, and which of the two the job
/// before it then has.
#[derive(Clone, Copy, Default)]
struct Step {
    kept: Option<usize>,
    kept_after_kept: bool,
    exact: usize,
    exact_after_kept: bool,
}

impl Head {
    fn new(jobs: &[Priced], depth: usize) -> Head {
        let mut jobs = jobs.to_vec();
        if depth < jobs.len() {
            jobs.select_nth_unstable_by_key(depth, Priced::by_exact);
        }
        let first = depth.min(jobs.len());
        if let Some(head) = jobs.get_mut(..first) {
            head.sort_unstable_by_key(Priced::by_exact);
        }
        Head { jobs, steps: Vec::new() }
    }

    /// The fewest for a depth, not beyond that of [`Head::new`].
    fn least(&mut self, depth: usize) -> Vec<Priced> {
        let (head, rest) = self.jobs.split_at(depth.min(self.jobs.len()));
        let Some(last) = head.last() else {
            return urgent(rest);
        };
        self.steps.clear();
        let mut before: Option<(&Priced, Step)> = None;
        for job in head {
            let step = step(before, job);
            self.steps.push(step);
            before = Some((job, step));
        }
        let end = before.map_or(Step::default(), |(_, step)| step);
        let behind =
            |limit: Place| rest.iter().filter(move |job| job.is_urgent() || job.by_posted().is_before(limit));
        let with_exact = end.exact + behind(last.by_exact()).count();
        // If the last of the head keeps a price below its exact one, nobody else's price may lie between.
        let keeps = end.kept.filter(|_| {
            let ends_before = |job: &Priced| {
                let touched = job.is_urgent() || job.by_posted().is_before(last.by_posted());
                touched && job.by_exact().is_before(last.by_posted())
            };
            !rest.iter().any(ends_before)
        });
        let with_kept = keeps.map(|kept| kept + behind(last.by_posted()).count());
        let mut kept = with_kept.is_some_and(|with_kept| with_kept < with_exact);
        let limit = if kept { last.by_posted() } else { last.by_exact() };
        let mut touch: Vec<Priced> = behind(limit).copied().collect();
        touch.sort_unstable_by_key(|job| std::cmp::Reverse(job.by_exact()));
        for (job, step) in head.iter().zip(&self.steps).rev() {
            if !kept && job.lags() {
                touch.push(*job);
            }
            kept = if kept { step.kept_after_kept } else { step.exact_after_kept };
        }
        touch.reverse();
        touch
    }

    /// As many as a budget allows, and the depth to which that is enough: whoever is held or expedited comes first.
    fn within(&mut self, budget: usize, depth: usize) -> (Vec<Priced>, usize) {
        let (mut enough, mut too_deep) = (0, depth.min(self.jobs.len()).saturating_add(1));
        let mut best = urgent(&self.jobs);
        if best.len() > budget {
            best.truncate(budget);
            return (best, 0);
        }
        // What is enough for a depth is enough for any before it.
        while enough + 1 < too_deep {
            let middle = enough + (too_deep - enough) / 2;
            let touch = self.least(middle);
            if touch.len() <= budget {
                (enough, best) = (middle, touch);
            } else {
                too_deep = middle;
            }
        }
        (best, enough)
    }
}

fn urgent(jobs: &[Priced]) -> Vec<Priced> {
    let mut urgent: Vec<Priced> = jobs.iter().filter(|job| job.is_urgent()).copied().collect();
    urgent.sort_unstable_by_key(Priced::by_exact);
    urgent
}

fn step(before: Option<(&Priced, Step)>, job: &Priced) -> Step {
    let touched = usize::from(job.lags());
    let Some((above, last)) = before else {
        return Step { kept: (!job.is_urgent()).then_some(0), exact: touched, ..Step::default() };
    };
    // The fewest touches after which this place comes behind the job above.
    let behind = |place: Place| {
        let exact = above.by_exact().is_before(place).then_some((last.exact, false));
        let kept = last.kept.filter(|_| above.by_posted().is_before(place)).map(|kept| (kept, true));
        [exact, kept].into_iter().flatten().min()
    };
    // Among exact prices there is always a way.
    let (exact, exact_after_kept) = behind(job.by_exact()).unwrap_or((last.exact, false));
    let kept = behind(job.by_posted()).filter(|_| !job.is_urgent());
    Step {
        kept: kept.map(|(touches, _)| touches),
        kept_after_kept: kept.is_some_and(|(_, after_kept)| after_kept),
        exact: exact + touched,
        exact_after_kept,
    }
}

#[cfg(test)]
mod tests;
