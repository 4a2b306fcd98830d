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
//! A posted priority that is merely stale stays: if the order of a queue is right, the plan for the queue is empty.
//!
//! A push or a request may refresh stale priorities too ([`Bounds::refreshes_stale`]). Then the plan posts every stale job if the
//! budget allows. If the budget is smaller, no **outdated** price is kept in the head. If all prices fell, and the budget is too
//! small for the jobs that would then stand before the first one, the head keeps its outdated prices: to touch a part of the
//! jobs would put the head behind the others.

use super::PRIORITY_MAX;
use super::pending::{Pending, Priced};
use crate::ids::JobId;

/// What a plan has to keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How deep each queue has to be right.
    pub depth: usize,
    /// No more jobs are touched at once.
    pub budget: usize,
    /// Whether priorities that are merely stale are posted too: for a push or a request.
    pub refreshes_stale: bool,
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

    /// Whether it may keep its posted price in the head.
    fn may_lag(&self) -> bool {
        !self.lags() || !self.is_outdated && !self.is_urgent()
    }

    pub(super) fn by_exact(&self) -> Place {
        Place::new(self.exact, self.id)
    }

    pub(super) fn by_posted(&self) -> Place {
        Place::new(self.posted, self.id)
    }
}

/// A number that sorts as the queue does: higher prices first, then the earlier id. No two jobs have the same.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u128);

impl Place {
    fn new(price: u32, id: JobId) -> Place {
        Place((u128::from(!price) << 64) + u128::from(id.0))
    }

    pub(super) fn is_before(self, other: Place) -> bool {
        self.0 < other.0
    }
}

impl<T> Pending<T> {
    /// Which jobs to touch. O(1) if none lags, else O(pending + depth log depth).
    pub fn plan(&self, bounds: Bounds) -> Plan {
        let lagging = self.lagging();
        if lagging == 0 || bounds.refreshes_stale && lagging <= bounds.budget {
            let mut touch: Vec<Priced> = self.laggards().collect();
            touch.sort_unstable_by_key(Priced::by_exact);
            return plan(touch, 0, None);
        }
        let head = |jobs: &[Priced]| match bounds.refreshes_stale {
            true => Head::new(jobs, bounds.depth),
            false => Head::keeping(jobs, bounds.depth),
        };
        let has_stale = |jobs: &&[Priced]| jobs.iter().any(Priced::lags);
        let heads: Vec<Head> = self.queues().filter(has_stale).map(head).collect();
        // Who wants least is served first, so that what it leaves goes to the others.
        let mut by_need: Vec<(usize, &Head)> =
            heads.iter().map(|head| (head.fewest(bounds.depth).touches, head)).collect();
        by_need.sort_by_key(|(wants, _)| *wants);
        let (mut touch, mut only_to) = (Vec::new(), None);
        let mut left = bounds.budget;
        for (served, (wants, head)) in by_need.iter().enumerate() {
            let part = left / (by_need.len() - served);
            let of_queue = if *wants <= part {
                head.least(bounds.depth)
            } else {
                let (within, to) = head.some(part, bounds.depth);
                only_to = [only_to, to].into_iter().flatten().min();
                within
            };
            left -= of_queue.len();
            touch.extend(of_queue);
        }
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
    /// Of each of the first ones.
    steps: Vec<Step>,
}

/// The fewest touches that make a queue right to a depth: how many, and which. That is asked of many depths, and most come to more
/// than may be touched.
struct Fewest {
    touches: usize,
    /// Whether the last job of the head keeps its posted price.
    keeps_last: bool,
    /// Behind the head who would stand before this place has to be touched.
    limit: Option<Place>,
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
        Head::of(jobs.to_vec(), depth)
    }

    fn of(mut jobs: Vec<Priced>, depth: usize) -> Head {
        if depth < jobs.len() {
            jobs.select_nth_unstable_by_key(depth, Priced::by_exact);
        }
        let first = depth.min(jobs.len());
        let (head, _) = jobs.split_at_mut(first);
        head.sort_unstable_by_key(Priced::by_exact);
        let mut steps = Vec::with_capacity(head.len());
        let mut before: Option<(&Priced, Step)> = None;
        for job in &*head {
            let step = step(before, job);
            steps.push(step);
            before = Some((job, step));
        }
        Head { jobs, steps }
    }

    /// The same, where outdated prices may be kept.
    fn keeping(jobs: &[Priced], depth: usize) -> Head {
        let jobs = jobs.iter().map(|job| Priced { is_outdated: false, ..*job });
        Head::of(jobs.collect(), depth)
    }

    /// The fewest for a depth, not beyond that of [`Head::new`].
    fn fewest(&self, depth: usize) -> Fewest {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Some((last, end)) = head.iter().zip(&self.steps).next_back() else {
            return Fewest { touches: behind(rest, None).count(), keeps_last: false, limit: None };
        };
        let exact = Fewest {
            touches: end.exact + behind(rest, Some(last.by_exact())).count(),
            keeps_last: false,
            limit: Some(last.by_exact()),
        };
        // If the last of the head keeps a price below its exact one, nobody else's price may lie between.
        let ends_before = |job: &Priced| {
            let touched = job.is_urgent() || job.by_posted().is_before(last.by_posted());
            touched && job.by_exact().is_before(last.by_posted())
        };
        let kept = end.kept.filter(|_| !rest.iter().any(ends_before)).map(|kept| Fewest {
            touches: kept + behind(rest, Some(last.by_posted())).count(),
            keeps_last: true,
            limit: Some(last.by_posted()),
        });
        kept.filter(|kept| kept.touches < exact.touches).unwrap_or(exact)
    }

    /// These jobs, the head first.
    fn least(&self, depth: usize) -> Vec<Priced> {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Fewest { touches, keeps_last: mut kept, limit } = self.fewest(depth);
        let mut touch = Vec::with_capacity(touches);
        touch.extend(behind(rest, limit).copied());
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

    /// Some that a budget allows which is too small for all, and the depth to which that is enough, if that is not all of it.
    fn some(&self, budget: usize, depth: usize) -> (Vec<Priced>, Option<usize>) {
        let (within, to) = self.within(budget, depth);
        if to > 0 || !self.jobs.iter().any(|job| job.is_outdated) {
            return (within, Some(to));
        }
        let keeping = Head::keeping(&self.jobs, self.steps.len());
        if keeping.fewest(depth).touches <= budget {
            return (keeping.least(depth), None);
        }
        let (within, to) = keeping.within(budget, depth);
        (within, Some(to))
    }

    /// As many as a budget allows, and the depth to which that is enough: whoever is held or expedited comes first.
    fn within(&self, budget: usize, depth: usize) -> (Vec<Priced>, usize) {
        if self.fewest(0).touches > budget {
            let mut urgent = self.least(0);
            urgent.truncate(budget);
            return (urgent, 0);
        }
        let (mut enough, mut too_deep) = (0, depth.min(self.jobs.len()).saturating_add(1));
        // What is enough for a depth is enough for any before it.
        while enough + 1 < too_deep {
            let middle = enough + (too_deep - enough) / 2;
            if self.fewest(middle).touches <= budget {
                enough = middle;
            } else {
                too_deep = middle;
            }
        }
        (self.least(enough), enough)
    }
}

/// Who of those behind the head has to be touched in any case: who is held or expedited, and who would stand before a place.
fn behind(rest: &[Priced], limit: Option<Place>) -> impl Iterator<Item = &Priced> {
    let is_before = move |job: &Priced| limit.is_some_and(|limit| job.by_posted().is_before(limit));
    rest.iter().filter(move |job| job.is_urgent() || is_before(job))
}

fn step(before: Option<(&Priced, Step)>, job: &Priced) -> Step {
    let touched = usize::from(job.lags());
    let Some((above, last)) = before else {
        return Step { kept: job.may_lag().then_some(0), exact: touched, ..Step::default() };
    };
    // The fewest touches after which this place comes behind the job above.
    let behind = |place: Place| {
        let exact = above.by_exact().is_before(place).then_some((last.exact, false));
        let kept = last.kept.filter(|_| above.by_posted().is_before(place)).map(|kept| (kept, true));
        [exact, kept].into_iter().flatten().min()
    };
    // Among exact prices there is always a way.
    let (exact, exact_after_kept) = behind(job.by_exact()).unwrap_or((last.exact, false));
    let kept = behind(job.by_posted()).filter(|_| job.may_lag());
    Step {
        kept: kept.map(|(touches, _)| touches),
        kept_after_kept: kept.is_some_and(|(_, after_kept)| after_kept),
        exact: exact + touched,
        exact_after_kept,
    }
}

#[cfg(test)]
mod tests;
