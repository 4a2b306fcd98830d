// SPDX-License-Identifier: LGPL-3.0-only
//! Decides which pending jobs get a new posted priority, so that the first jobs of each queue are in the correct order.
//!
//! Each job has a posted priority, by which the scheduler sorts, and a current priority. If two priorities are equal,
//! the smaller job id comes first. A plan is a list of jobs whose current priorities are posted. A plan posts no
//! other values, so that the terms explain each posted priority.
//!
//! A queue is **correct to a depth K** if its first K jobs by posted priority are also its first K jobs by current
//! priority, in the same order. The first K jobs are the head of the queue. Priorities may be stale, even in the
//! head, while the order is correct. But if the posted or the current priority is 0 or the maximum, a stale priority
//! is always posted.
//!
//! `QueueHead::fewest_posts` finds the fewest jobs to post. It sorts the first K jobs by current priority. Each of these
//! jobs either keeps its posted priority or gets its current priority, so only neighbours have to be compared. A job
//! behind the head is posted if its posted priority is above the priority of the last job in the head.
//!
//! After a push or a request, the plan posts all stale priorities if the budget allows ([`Bounds::refreshes_stale`]).
//! The budget is the maximum number of jobs to post. If the budget is too small, the plan posts at least the
//! **incomparable** priorities in the head. An incomparable priority was computed with other weights or with another
//! reference time for ages, so it cannot be compared with current priorities.
//!
//! There is one exception. If all priorities fell, the budget may be too small to post all jobs that would overtake
//! the first job. The head then keeps its incomparable priorities. Otherwise the posted jobs of the head would fall
//! behind other jobs.

use super::PRIORITY_MAX;
use super::pending::{Pending, PendingJob};
use crate::ids::JobId;

/// What a plan must achieve, and how many jobs it may post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of jobs at the head of each queue that must be in the correct order.
    pub depth: usize,
    /// The maximum number of jobs to post.
    pub budget: usize,
    /// True after a push or a request to refresh priorities. The plan then posts all stale priorities, as far as the budget allows.
    pub refreshes_stale: bool,
}

/// The priorities to post.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The jobs to post, each with its current priority. The jobs in the head of a queue come first.
    pub jobs_to_post: Vec<(JobId, u32)>,
    /// The number of stale priorities that remain.
    pub stale: usize,
    /// The number of jobs at the head of each queue that will be in the correct order. `None` if this number is `Bounds::depth`.
    pub correct_depth: Option<usize>,
}

impl PendingJob {
    /// Returns true if the job's posted priority is stale, and the posted or the current priority is 0 or the
    /// maximum. These values mean that the job is held or expedited.
    fn must_be_posted(&self) -> bool {
        let is_special = |priority: u32| priority == 0 || priority == PRIORITY_MAX;
        self.is_stale() && (is_special(self.posted) || is_special(self.current))
    }

    /// Returns true if the job may be at the head of a queue with its present posted priority.
    fn may_stay_at_queue_head(&self) -> bool {
        !self.is_stale() || !self.is_incomparable && !self.must_be_posted()
    }

    /// Returns the sort key of the job by its current priority.
    pub(super) fn current_key(&self) -> SortKey {
        SortKey::new(self.current, self.id)
    }

    /// Returns the sort key of the job by its posted priority.
    pub(super) fn posted_key(&self) -> SortKey {
        SortKey::new(self.posted, self.id)
    }
}

/// A number by which jobs sort as in the scheduler: higher priorities first, then smaller ids. No two jobs have the same
/// number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SortKey(u128);

impl SortKey {
    fn new(priority: u32, id: JobId) -> SortKey {
        SortKey((u128::from(!priority) << 64) + u128::from(id.0))
    }

    pub(super) fn is_before(self, other: SortKey) -> bool {
        self.0 < other.0
    }
}

impl<T> Pending<T> {
    /// Returns the jobs to post. Takes O(1) if no priority is stale, otherwise O(pending + depth log depth).
    pub fn plan(&self, bounds: Bounds) -> Plan {
        let stale = self.stale_count();
        if stale == 0 || bounds.refreshes_stale && stale <= bounds.budget {
            let mut to_post: Vec<PendingJob> = self.stale_jobs().collect();
            to_post.sort_unstable_by_key(PendingJob::current_key);
            return build_plan(to_post, 0, None);
        }
        let head = |jobs: &[PendingJob]| match bounds.refreshes_stale {
            true => QueueHead::new(jobs.to_vec(), bounds.depth),
            false => QueueHead::with_all_jobs_comparable(jobs, bounds.depth),
        };
        let has_stale = |jobs: &&[PendingJob]| jobs.iter().any(PendingJob::is_stale);
        let heads: Vec<QueueHead> = self.queues().filter(has_stale).map(head).collect();
        // Queues with the fewest jobs to post come first. Each queue gets an equal share of the remaining budget, so later
        // queues get the part of a share that an earlier queue did not need.
        let mut by_need: Vec<(usize, &QueueHead)> =
            heads.iter().map(|head| (head.find_fewest_jobs_to_post(bounds.depth).count, head)).collect();
        by_need.sort_by_key(|(needed, _)| *needed);
        let (mut to_post, mut correct_depth) = (Vec::new(), None);
        let mut left = bounds.budget;
        for (served, (needed, head)) in by_need.iter().enumerate() {
            let share = left / (by_need.len() - served);
            let in_queue = if *needed <= share {
                head.fewest_posts(bounds.depth)
            } else {
                let (within, depth) = head.list_posts_for_small_budget(share, bounds.depth);
                correct_depth = [correct_depth, depth].into_iter().flatten().min();
                within
            };
            left -= in_queue.len();
            to_post.extend(in_queue);
        }
        let remaining = stale - to_post.len();
        build_plan(to_post, remaining, correct_depth)
    }
}

fn build_plan(to_post: Vec<PendingJob>, stale: usize, correct_depth: Option<usize>) -> Plan {
    Plan {
        jobs_to_post: to_post.into_iter().map(|job| (job.id, job.current)).collect(),
        stale,
        correct_depth,
    }
}

/// Lists the fewest jobs whose priorities must be posted so that the first `depth` jobs of a queue are in the correct
/// order.
#[cfg(test)]
fn fewest_posts(jobs: &[PendingJob], depth: usize) -> Vec<PendingJob> {
    QueueHead::new(jobs.to_vec(), depth).fewest_posts(depth)
}

/// The jobs of a queue. The first jobs by current priority (the head of the queue) are sorted. They precede all other
/// jobs.
struct QueueHead {
    jobs: Vec<PendingJob>,
    /// For each job at the head of the queue, the smallest number of priorities to post from the first job to this
    /// job.
    steps: Vec<Step>,
}

/// The smallest number of posts that put the first jobs of a queue in the correct order. The list of the jobs is
/// computed only when it is needed.
struct Fewest {
    /// The number of jobs to post.
    count: usize,
    /// True if the job at position `depth` keeps its posted priority.
    keeps_last: bool,
    /// Jobs behind the head of the queue are posted if they come before this sort key.
    limit: Option<SortKey>,
}

/// The smallest number of priorities to post from the first job of a queue up to one job, this job included. `kept`
/// is this number if the job keeps its posted priority, and `current` is this number if its current priority is
/// posted. The flags are true if the previous job keeps its posted priority: `kept_after_kept` for `kept`, and
/// `current_after_kept` for `current`.
#[derive(Clone, Copy, Default)]
struct Step {
    kept: Option<usize>,
    kept_after_kept: bool,
    current: usize,
    current_after_kept: bool,
}

impl QueueHead {
    /// Sorts the first `depth` jobs by current priority.
    fn new(mut jobs: Vec<PendingJob>, depth: usize) -> QueueHead {
        if depth < jobs.len() {
            jobs.select_nth_unstable_by_key(depth, PendingJob::current_key);
        }
        let first = depth.min(jobs.len());
        let (head, _) = jobs.split_at_mut(first);
        head.sort_unstable_by_key(PendingJob::current_key);
        let mut steps = Vec::with_capacity(head.len());
        let mut before: Option<(&PendingJob, Step)> = None;
        for job in &*head {
            let step = compute_step(before, job);
            steps.push(step);
            before = Some((job, step));
        }
        QueueHead { jobs, steps }
    }

    /// Works like [`QueueHead::new`], but treats all posted priorities as comparable with current priorities.
    fn with_all_jobs_comparable(jobs: &[PendingJob], depth: usize) -> QueueHead {
        let jobs = jobs.iter().map(|job| PendingJob { is_incomparable: false, ..*job });
        QueueHead::new(jobs.collect(), depth)
    }

    /// Computes the smallest number of priorities to post for the first `depth` jobs. `depth` must not be larger than
    /// in the call of [`QueueHead::new`].
    fn find_fewest_jobs_to_post(&self, depth: usize) -> Fewest {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Some((last, end)) = head.iter().zip(&self.steps).next_back() else {
            return Fewest { count: find_jobs_behind(rest, None).count(), keeps_last: false, limit: None };
        };
        let current = Fewest {
            count: end.current + find_jobs_behind(rest, Some(last.current_key())).count(),
            keeps_last: false,
            limit: Some(last.current_key()),
        };
        // The last job of the head may keep its posted priority only if no job behind the head gets a higher priority.
        let ends_before = |job: &PendingJob| {
            let is_posted = job.must_be_posted() || job.posted_key().is_before(last.posted_key());
            is_posted && job.current_key().is_before(last.posted_key())
        };
        let kept = end.kept.filter(|_| !rest.iter().any(ends_before)).map(|kept| Fewest {
            count: kept + find_jobs_behind(rest, Some(last.posted_key())).count(),
            keeps_last: true,
            limit: Some(last.posted_key()),
        });
        kept.filter(|kept| kept.count < current.count).unwrap_or(current)
    }

    /// Lists the fewest jobs to post so that the first `depth` jobs are in the correct order. The list begins with
    /// the jobs at the head of the queue.
    fn fewest_posts(&self, depth: usize) -> Vec<PendingJob> {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Fewest { count, keeps_last: mut kept, limit } = self.find_fewest_jobs_to_post(depth);
        let mut to_post = Vec::with_capacity(count);
        to_post.extend(find_jobs_behind(rest, limit).copied());
        to_post.sort_unstable_by_key(|job| std::cmp::Reverse(job.current_key()));
        for (job, step) in head.iter().zip(&self.steps).rev() {
            if !kept && job.is_stale() {
                to_post.push(*job);
            }
            kept = if kept { step.kept_after_kept } else { step.current_after_kept };
        }
        to_post.reverse();
        to_post
    }

    /// Lists the jobs to post if the budget is too small to correct the first `depth` jobs. Also returns how many
    /// jobs at the head of the queue are in the correct order afterwards, or `None` if all first `depth` jobs are in
    /// the correct order.
    fn list_posts_for_small_budget(&self, budget: usize, depth: usize) -> (Vec<PendingJob>, Option<usize>) {
        let (within, correct_depth) = self.list_jobs_to_post_within_budget(budget, depth);
        if correct_depth > 0 || !self.jobs.iter().any(|job| job.is_incomparable) {
            return (within, Some(correct_depth));
        }
        let head = QueueHead::with_all_jobs_comparable(&self.jobs, self.steps.len());
        if head.find_fewest_jobs_to_post(depth).count <= budget {
            return (head.fewest_posts(depth), None);
        }
        let (within, correct_depth) = head.list_jobs_to_post_within_budget(budget, depth);
        (within, Some(correct_depth))
    }

    /// Lists at most `budget` jobs to post. Held and expedited jobs come first. Also returns how many jobs at the
    /// head of the queue are in the correct order afterwards.
    fn list_jobs_to_post_within_budget(&self, budget: usize, depth: usize) -> (Vec<PendingJob>, usize) {
        if self.find_fewest_jobs_to_post(0).count > budget {
            let mut to_post = self.fewest_posts(0);
            to_post.truncate(budget);
            return (to_post, 0);
        }
        let (mut enough, mut too_deep) = (0, depth.min(self.jobs.len()).saturating_add(1));
        // A list of jobs for a depth also suffices for each smaller depth, so this is a binary search.
        while enough + 1 < too_deep {
            let middle = enough + (too_deep - enough) / 2;
            if self.find_fewest_jobs_to_post(middle).count <= budget {
                enough = middle;
            } else {
                too_deep = middle;
            }
        }
        let to_post =
            if enough == 0 && depth > 0 { self.list_toward_first(budget) } else { self.fewest_posts(enough) };
        (to_post, enough)
    }

    /// Lists at most `budget` jobs to post when not even the first job of the queue can be corrected. Jobs with low
    /// posted priorities come first, so that the order of the remaining jobs does not change.
    fn list_toward_first(&self, budget: usize) -> Vec<PendingJob> {
        let mut to_post = self.fewest_posts(0);
        let behind =
            find_jobs_behind(self.jobs.get(1..).unwrap_or_default(), self.find_fewest_jobs_to_post(1).limit);
        let mut behind: Vec<PendingJob> = behind.filter(|job| !job.must_be_posted()).copied().collect();
        behind.sort_unstable_by_key(|job| std::cmp::Reverse(job.posted_key()));
        to_post.extend(behind.into_iter().take(budget.saturating_sub(to_post.len())));
        to_post
    }
}

/// Returns the jobs behind the head of the queue whose priorities must be posted. A job must be posted if it becomes
/// held or expedited, or if it was held or expedited. A job must also be posted if it comes before the sort key
/// `limit`.
fn find_jobs_behind(rest: &[PendingJob], limit: Option<SortKey>) -> impl Iterator<Item = &PendingJob> {
    let is_before = move |job: &PendingJob| limit.is_some_and(|limit| job.posted_key().is_before(limit));
    rest.iter().filter(move |job| job.must_be_posted() || is_before(job))
}

/// Computes the [`Step`] of `job`. `before` has the previous job and its step.
fn compute_step(before: Option<(&PendingJob, Step)>, job: &PendingJob) -> Step {
    let own = usize::from(job.is_stale());
    let Some((above, last)) = before else {
        return Step { kept: job.may_stay_at_queue_head().then_some(0), current: own, ..Step::default() };
    };
    // Finds the smallest number of priorities to post so that the previous job sorts before `key`.
    let find_behind = |key: SortKey| {
        let current = above.current_key().is_before(key).then_some((last.current, false));
        let kept = last.kept.filter(|_| above.posted_key().is_before(key)).map(|kept| (kept, true));
        [current, kept].into_iter().flatten().min()
    };
    // The jobs are sorted by current priority, so the current priorities of two neighbours are always in the correct order.
    let (current, current_after_kept) = find_behind(job.current_key()).unwrap_or((last.current, false));
    let kept = find_behind(job.posted_key()).filter(|_| job.may_stay_at_queue_head());
    Step {
        kept: kept.map(|(count, _)| count),
        kept_after_kept: kept.is_some_and(|(_, after_kept)| after_kept),
        current: current + own,
        current_after_kept,
    }
}

#[cfg(test)]
mod tests;
