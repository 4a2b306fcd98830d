// SPDX-License-Identifier: LGPL-3.0-only
//! Decides for which pending jobs to post a priority, so that the head of each queue is in the correct order.
//!
//! A job has a posted priority, by which the scheduler sorts, and a current one. If two priorities are equal, the
//! smaller job id comes first. A plan posts only current priorities, so that the terms explain each posted priority.
//!
//! A queue is **correct to a depth K** if its first K jobs by posted priority are also the first K by current priority,
//! in that order. Priorities of jobs behind them may be stale. Priorities of jobs in the head may be stale too, if the
//! order is still correct. Priorities of held and expedited jobs are never stale. `Head::least` finds the fewest jobs
//! to post. Each of the first K jobs by current priority either keeps its posted priority or gets the current one, and
//! only neighbours have to be compared. The plan also posts all other jobs whose posted priority is above the priority
//! of the last of the K jobs. This is one pass over the queue, after the first K jobs are sorted.
//!
//! A stale priority alone is no reason to post: if the order of a queue is correct, the plan for the queue is empty.
//!
//! A push or a request may refresh stale priorities too ([`Bounds::refreshes_stale`]). The plan then posts every stale
//! job if the budget allows. If the budget is smaller, no **incomparable** priority stays in the head. There is one
//! exception: all priorities fell, and the budget does not cover the jobs that would precede the first job. Then the
//! head keeps its incomparable priorities, because posting only some of them would move the head behind other jobs.

use super::PRIORITY_MAX;
use super::pending::{Pending, PendingJob};
use crate::ids::JobId;

/// The limits of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of jobs at the head of each queue that must be in the correct order.
    pub depth: usize,
    /// The maximum number of jobs to post.
    pub budget: usize,
    /// True if all stale priorities are posted, as for a push or a request.
    pub refreshes_stale: bool,
}

/// The priorities to post.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The jobs to post, each with its current priority. The head of a queue comes first.
    pub touch: Vec<(JobId, u32)>,
    /// The number of stale priorities that remain.
    pub stale: usize,
    /// The depth to which each queue will be correct; `None` if it is `Bounds::depth`.
    pub correct_depth: Option<usize>,
}

impl PendingJob {
    /// Returns true if the job becomes held or expedited by its urgency, or ceases to be.
    fn is_urgent(&self) -> bool {
        let special = |priority: u32| priority == 0 || priority == PRIORITY_MAX;
        self.is_stale() && (special(self.posted) || special(self.current))
    }

    /// Returns true if the posted priority may stay in the head.
    fn may_stay(&self) -> bool {
        !self.is_stale() || !self.is_incomparable && !self.is_urgent()
    }

    pub(super) fn by_current(&self) -> Place {
        Place::new(self.current, self.id)
    }

    pub(super) fn by_posted(&self) -> Place {
        Place::new(self.posted, self.id)
    }
}

/// A number by which jobs sort as in the scheduler: higher priorities first, then smaller ids. Each job has another
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place(u128);

impl Place {
    fn new(priority: u32, id: JobId) -> Place {
        Place((u128::from(!priority) << 64) + u128::from(id.0))
    }

    pub(super) fn is_before(self, other: Place) -> bool {
        self.0 < other.0
    }
}

impl<T> Pending<T> {
    /// Returns the jobs to post. Takes O(1) if no priority is stale, otherwise O(pending + depth log depth).
    pub fn plan(&self, bounds: Bounds) -> Plan {
        let stale = self.stale_count();
        if stale == 0 || bounds.refreshes_stale && stale <= bounds.budget {
            let mut touch: Vec<PendingJob> = self.stale_jobs().collect();
            touch.sort_unstable_by_key(PendingJob::by_current);
            return build_plan(touch, 0, None);
        }
        let head = |jobs: &[PendingJob]| match bounds.refreshes_stale {
            true => Head::new(jobs.to_vec(), bounds.depth),
            false => Head::keeping(jobs, bounds.depth),
        };
        let has_stale = |jobs: &&[PendingJob]| jobs.iter().any(PendingJob::is_stale);
        let heads: Vec<Head> = self.queues().filter(has_stale).map(head).collect();
        // Queues with the smallest need come first, so that the other queues get the rest of the budget.
        let mut by_need: Vec<(usize, &Head)> =
            heads.iter().map(|head| (head.fewest(bounds.depth).touches, head)).collect();
        by_need.sort_by_key(|(wants, _)| *wants);
        let (mut touch, mut correct_depth) = (Vec::new(), None);
        let mut left = bounds.budget;
        for (served, (wants, head)) in by_need.iter().enumerate() {
            let part = left / (by_need.len() - served);
            let in_queue = if *wants <= part {
                head.least(bounds.depth)
            } else {
                let (within, to) = head.list_for_budget(part, bounds.depth);
                correct_depth = [correct_depth, to].into_iter().flatten().min();
                within
            };
            left -= in_queue.len();
            touch.extend(in_queue);
        }
        let still = stale - touch.len();
        build_plan(touch, still, correct_depth)
    }
}

fn build_plan(touch: Vec<PendingJob>, stale: usize, correct_depth: Option<usize>) -> Plan {
    Plan { touch: touch.into_iter().map(|job| (job.id, job.current)).collect(), stale, correct_depth }
}

/// Returns the fewest jobs of a queue that must be posted so that the queue is correct to `depth`. The jobs of the head
/// come first.
#[cfg(test)]
fn least(jobs: &[PendingJob], depth: usize) -> Vec<PendingJob> {
    Head::new(jobs.to_vec(), depth).least(depth)
}

/// The jobs of a queue, of which the first ones by current priority are sorted.
struct Head {
    jobs: Vec<PendingJob>,
    /// The step for each of the sorted jobs.
    steps: Vec<Step>,
}

/// The fewest jobs to post so that a queue is correct to a depth. The list of these jobs is computed only when it is
/// needed, because most depths exceed the budget.
struct Fewest {
    touches: usize,
    /// True if the last job of the head keeps its posted priority.
    keeps_last: bool,
    /// Jobs behind the head whose posted priority precedes this place must be posted.
    limit: Option<Place>,
}

/// The fewest jobs to post among the sorted jobs up to this one. `kept` is the number if the job keeps its posted
/// priority, `current` if it gets its current one. The flag of each is true if the previous job keeps its posted
/// priority in that case.
#[derive(Clone, Copy, Default)]
struct Step {
    kept: Option<usize>,
    kept_after_kept: bool,
    current: usize,
    current_after_kept: bool,
}

impl Head {
    fn new(mut jobs: Vec<PendingJob>, depth: usize) -> Head {
        if depth < jobs.len() {
            jobs.select_nth_unstable_by_key(depth, PendingJob::by_current);
        }
        let first = depth.min(jobs.len());
        let (head, _) = jobs.split_at_mut(first);
        head.sort_unstable_by_key(PendingJob::by_current);
        let mut steps = Vec::with_capacity(head.len());
        let mut before: Option<(&PendingJob, Step)> = None;
        for job in &*head {
            let step = compute_step(before, job);
            steps.push(step);
            before = Some((job, step));
        }
        Head { jobs, steps }
    }

    /// Like [`Head::new`], but incomparable priorities may stay.
    fn keeping(jobs: &[PendingJob], depth: usize) -> Head {
        let jobs = jobs.iter().map(|job| PendingJob { is_incomparable: false, ..*job });
        Head::new(jobs.collect(), depth)
    }

    /// Computes the fewest jobs to post for `depth`, which must not exceed the depth of [`Head::new`].
    fn fewest(&self, depth: usize) -> Fewest {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Some((last, end)) = head.iter().zip(&self.steps).next_back() else {
            return Fewest { touches: find_jobs_behind(rest, None).count(), keeps_last: false, limit: None };
        };
        let current = Fewest {
            touches: end.current + find_jobs_behind(rest, Some(last.by_current())).count(),
            keeps_last: false,
            limit: Some(last.by_current()),
        };
        // If the last job of the head keeps a posted priority below its current one, no other job may come between the
        // two.
        let ends_before = |job: &PendingJob| {
            let touched = job.is_urgent() || job.by_posted().is_before(last.by_posted());
            touched && job.by_current().is_before(last.by_posted())
        };
        let kept = end.kept.filter(|_| !rest.iter().any(ends_before)).map(|kept| Fewest {
            touches: kept + find_jobs_behind(rest, Some(last.by_posted())).count(),
            keeps_last: true,
            limit: Some(last.by_posted()),
        });
        kept.filter(|kept| kept.touches < current.touches).unwrap_or(current)
    }

    /// Lists the fewest jobs to post for `depth`. The jobs of the head come first.
    fn least(&self, depth: usize) -> Vec<PendingJob> {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Fewest { touches, keeps_last: mut kept, limit } = self.fewest(depth);
        let mut touch = Vec::with_capacity(touches);
        touch.extend(find_jobs_behind(rest, limit).copied());
        touch.sort_unstable_by_key(|job| std::cmp::Reverse(job.by_current()));
        for (job, step) in head.iter().zip(&self.steps).rev() {
            if !kept && job.is_stale() {
                touch.push(*job);
            }
            kept = if kept { step.kept_after_kept } else { step.current_after_kept };
        }
        touch.reverse();
        touch
    }

    /// Lists the jobs to post if `budget` is too small for `depth`. Also returns the depth to which the queue is
    /// correct after that, or `None` if it is `depth`.
    fn list_for_budget(&self, budget: usize, depth: usize) -> (Vec<PendingJob>, Option<usize>) {
        let (within, to) = self.list_within(budget, depth);
        if to > 0 || !self.jobs.iter().any(|job| job.is_incomparable) {
            return (within, Some(to));
        }
        let keeping = Head::keeping(&self.jobs, self.steps.len());
        if keeping.fewest(depth).touches <= budget {
            return (keeping.least(depth), None);
        }
        let (within, to) = keeping.list_within(budget, depth);
        (within, Some(to))
    }

    /// Lists as many jobs as `budget` allows, held and expedited ones first. Also returns the depth to which the queue
    /// is correct after that.
    fn list_within(&self, budget: usize, depth: usize) -> (Vec<PendingJob>, usize) {
        if self.fewest(0).touches > budget {
            let mut urgent = self.least(0);
            urgent.truncate(budget);
            return (urgent, 0);
        }
        let (mut enough, mut too_deep) = (0, depth.min(self.jobs.len()).saturating_add(1));
        // A list of jobs for a depth also suffices for each smaller depth, so this is a binary search.
        while enough + 1 < too_deep {
            let middle = enough + (too_deep - enough) / 2;
            if self.fewest(middle).touches <= budget {
                enough = middle;
            } else {
                too_deep = middle;
            }
        }
        let touch =
            if enough == 0 && depth > 0 { self.list_toward_first(budget) } else { self.least(enough) };
        (touch, enough)
    }

    /// Lists as many of the jobs for depth 1 as `budget` allows, so that a later plan has fewer jobs to post and ends
    /// with the correct first job. The jobs with the lowest posted priorities come first, because the order of the
    /// other jobs then does not change.
    fn list_toward_first(&self, budget: usize) -> Vec<PendingJob> {
        let mut touch = self.least(0);
        let behind = find_jobs_behind(self.jobs.get(1..).unwrap_or_default(), self.fewest(1).limit);
        let mut behind: Vec<PendingJob> = behind.filter(|job| !job.is_urgent()).copied().collect();
        behind.sort_unstable_by_key(|job| std::cmp::Reverse(job.by_posted()));
        touch.extend(behind.into_iter().take(budget.saturating_sub(touch.len())));
        touch
    }
}

/// Returns the jobs behind the head that must be posted: jobs that become or cease to be held or expedited, and jobs
/// that precede `limit`.
fn find_jobs_behind(rest: &[PendingJob], limit: Option<Place>) -> impl Iterator<Item = &PendingJob> {
    let is_before = move |job: &PendingJob| limit.is_some_and(|limit| job.by_posted().is_before(limit));
    rest.iter().filter(move |job| job.is_urgent() || is_before(job))
}

fn compute_step(before: Option<(&PendingJob, Step)>, job: &PendingJob) -> Step {
    let touched = usize::from(job.is_stale());
    let Some((above, last)) = before else {
        return Step { kept: job.may_stay().then_some(0), current: touched, ..Step::default() };
    };
    // Returns the fewest jobs to post so that `place` comes behind the previous job.
    let behind = |place: Place| {
        let current = above.by_current().is_before(place).then_some((last.current, false));
        let kept = last.kept.filter(|_| above.by_posted().is_before(place)).map(|kept| (kept, true));
        [current, kept].into_iter().flatten().min()
    };
    // The current priorities of sorted jobs are always in the correct order.
    let (current, current_after_kept) = behind(job.by_current()).unwrap_or((last.current, false));
    let kept = behind(job.by_posted()).filter(|_| job.may_stay());
    Step {
        kept: kept.map(|(touches, _)| touches),
        kept_after_kept: kept.is_some_and(|(_, after_kept)| after_kept),
        current: current + touched,
        current_after_kept,
    }
}

#[cfg(test)]
mod tests;
