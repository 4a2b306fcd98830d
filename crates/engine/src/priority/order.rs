// SPDX-License-Identifier: LGPL-3.0-only
//! Decides for which pending jobs to post a priority, so that the head of each queue is in the correct order.
//!
//! A job has a posted priority, by which the scheduler sorts, and a current priority. If two priorities are equal, the
//! smaller job id comes first. A plan posts only current priorities, so that the terms explain each posted priority.
//!
//! A queue is **correct to a depth K** if its first K jobs by posted priority are also the first K by current priority,
//! in that order. Priorities of the jobs behind the head may be stale. Priorities of jobs in the head may be stale too, if
//! the order is still correct. A plan always posts a stale priority that is or becomes 0 or the maximum. `Head::fewest_posts` finds the
//! fewest jobs to post. Each of the first K jobs by current priority either keeps its posted priority or gets its current
//! priority, and only neighbours have to be compared. The plan also posts each other job whose posted priority is above
//! the priority of the last of the K jobs. This is one pass over the queue, after the first K jobs are sorted.
//!
//! While the order of a queue is correct, the plan posts no other stale priority.
//!
//! A push or a request may refresh stale priorities too ([`Bounds::refreshes_stale`]). The plan then posts every stale job if the budget
//! allows. If the budget is smaller, no **incomparable** priority stays in the head. Exception: if all priorities fell and the budget is
//! too small to post all jobs that would overtake the first job, the head keeps its incomparable priorities. Otherwise the posted part of
//! the head would fall behind other jobs.

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
    /// True if all stale priorities are posted, as for a push or a request.
    pub refreshes_stale: bool,
}

/// The priorities to post.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The jobs to post, each with its current priority. The jobs in the head of a queue come first.
    pub jobs_to_post: Vec<(JobId, u32)>,
    /// The number of stale priorities that remain.
    pub stale: usize,
    /// The depth to which each queue will be correct, or `None` if that is `Bounds::depth`.
    pub correct_depth: Option<usize>,
}

impl PendingJob {
    /// Returns true if posting would make the job held or expedited, or end that state.
    fn must_be_posted(&self) -> bool {
        let is_special = |priority: u32| priority == 0 || priority == PRIORITY_MAX;
        self.is_stale() && (is_special(self.posted) || is_special(self.current))
    }

    /// Returns true if the head of a queue may contain the job with its posted priority.
    fn may_stay_in_head(&self) -> bool {
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
            true => Head::new(jobs.to_vec(), bounds.depth),
            false => Head::with_incomparable_jobs(jobs, bounds.depth),
        };
        let has_stale = |jobs: &&[PendingJob]| jobs.iter().any(PendingJob::is_stale);
        let heads: Vec<Head> = self.queues().filter(has_stale).map(head).collect();
        // Queues with the fewest jobs to post come first. Each queue gets an equal share of the remaining budget, so later
        // queues get the part of a share that an earlier queue did not need.
        let mut by_need: Vec<(usize, &Head)> =
            heads.iter().map(|head| (head.find_fewest_posts(bounds.depth).count, head)).collect();
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

/// Returns the fewest jobs of a queue that must be posted so that the queue is correct to `depth`. The jobs of the head
/// come first.
#[cfg(test)]
fn fewest_posts(jobs: &[PendingJob], depth: usize) -> Vec<PendingJob> {
    Head::new(jobs.to_vec(), depth).fewest_posts(depth)
}

/// The jobs of a queue. The head, its first jobs by current priority, is sorted and comes first.
struct Head {
    jobs: Vec<PendingJob>,
    /// For each job of the head, the fewest jobs to post up to it.
    steps: Vec<Step>,
}

/// The fewest jobs to post so that a queue is correct to a depth. The list of these jobs is computed only when it is
/// needed, because most depths exceed the budget.
struct Fewest {
    /// The number of jobs to post.
    count: usize,
    /// True if the last job of the head keeps its posted priority.
    keeps_last: bool,
    /// Jobs behind the head whose posted priority precedes this key must be posted.
    limit: Option<SortKey>,
}

/// The fewest jobs to post in the head up to one job: `kept` if that job keeps its posted priority, `current` if it gets its current
/// priority. `kept_after_kept` and `current_after_kept` are true if the job before it then keeps its posted priority.
#[derive(Clone, Copy, Default)]
struct Step {
    kept: Option<usize>,
    kept_after_kept: bool,
    current: usize,
    current_after_kept: bool,
}

impl Head {
    /// Sorts the first `depth` jobs by current priority.
    fn new(mut jobs: Vec<PendingJob>, depth: usize) -> Head {
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
        Head { jobs, steps }
    }

    /// Like [`Head::new`], but the head may keep incomparable priorities.
    fn with_incomparable_jobs(jobs: &[PendingJob], depth: usize) -> Head {
        let jobs = jobs.iter().map(|job| PendingJob { is_incomparable: false, ..*job });
        Head::new(jobs.collect(), depth)
    }

    /// Computes the fewest jobs to post for `depth`, which must not exceed the depth of [`Head::new`].
    fn find_fewest_posts(&self, depth: usize) -> Fewest {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Some((last, end)) = head.iter().zip(&self.steps).next_back() else {
            return Fewest { count: find_jobs_behind(rest, None).count(), keeps_last: false, limit: None };
        };
        let current = Fewest {
            count: end.current + find_jobs_behind(rest, Some(last.current_key())).count(),
            keeps_last: false,
            limit: Some(last.current_key()),
        };
        // If the last job of the head keeps a posted priority below its current priority, no other job may get a priority
        // between the two.
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

    /// Lists the fewest jobs to post for `depth`. The jobs of the head come first.
    fn fewest_posts(&self, depth: usize) -> Vec<PendingJob> {
        let (head, rest) = self.jobs.split_at(depth.min(self.steps.len()));
        let Fewest { count, keeps_last: mut kept, limit } = self.find_fewest_posts(depth);
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

    /// Lists the jobs to post if `budget` is too small for `depth`. Also returns the depth to which the queue is then
    /// correct, or `None` if that is `depth`.
    fn list_posts_for_small_budget(&self, budget: usize, depth: usize) -> (Vec<PendingJob>, Option<usize>) {
        let (within, correct_depth) = self.list_posts_within_budget(budget, depth);
        if correct_depth > 0 || !self.jobs.iter().any(|job| job.is_incomparable) {
            return (within, Some(correct_depth));
        }
        let head = Head::with_incomparable_jobs(&self.jobs, self.steps.len());
        if head.find_fewest_posts(depth).count <= budget {
            return (head.fewest_posts(depth), None);
        }
        let (within, correct_depth) = head.list_posts_within_budget(budget, depth);
        (within, Some(correct_depth))
    }

    /// Lists as many jobs as `budget` allows, held and expedited jobs first. Also returns the depth to which the queue
    /// is then correct.
    fn list_posts_within_budget(&self, budget: usize, depth: usize) -> (Vec<PendingJob>, usize) {
        if self.find_fewest_posts(0).count > budget {
            let mut to_post = self.fewest_posts(0);
            to_post.truncate(budget);
            return (to_post, 0);
        }
        let (mut enough, mut too_deep) = (0, depth.min(self.jobs.len()).saturating_add(1));
        // A list of jobs for a depth also suffices for each smaller depth, so this is a binary search.
        while enough + 1 < too_deep {
            let middle = enough + (too_deep - enough) / 2;
            if self.find_fewest_posts(middle).count <= budget {
                enough = middle;
            } else {
                too_deep = middle;
            }
        }
        let to_post =
            if enough == 0 && depth > 0 { self.list_toward_first(budget) } else { self.fewest_posts(enough) };
        (to_post, enough)
    }

    /// Lists as many of the jobs that depth 1 needs as `budget` allows, so that a later plan has fewer jobs to post and ends with the
    /// correct first job. The lowest posted priorities come first: then the order of the other jobs does not change.
    fn list_toward_first(&self, budget: usize) -> Vec<PendingJob> {
        let mut to_post = self.fewest_posts(0);
        let behind =
            find_jobs_behind(self.jobs.get(1..).unwrap_or_default(), self.find_fewest_posts(1).limit);
        let mut behind: Vec<PendingJob> = behind.filter(|job| !job.must_be_posted()).copied().collect();
        behind.sort_unstable_by_key(|job| std::cmp::Reverse(job.posted_key()));
        to_post.extend(behind.into_iter().take(budget.saturating_sub(to_post.len())));
        to_post
    }
}

/// Returns the jobs in `rest`, the jobs behind the head, that must be posted. These are jobs that become or cease to be
/// held or expedited, and jobs whose posted priority precedes `limit`.
fn find_jobs_behind(rest: &[PendingJob], limit: Option<SortKey>) -> impl Iterator<Item = &PendingJob> {
    let is_before = move |job: &PendingJob| limit.is_some_and(|limit| job.posted_key().is_before(limit));
    rest.iter().filter(move |job| job.must_be_posted() || is_before(job))
}

/// Returns the fewest jobs to post up to `job`. `before` is the job before it in the head, with the result for that job.
fn compute_step(before: Option<(&PendingJob, Step)>, job: &PendingJob) -> Step {
    let own = usize::from(job.is_stale());
    let Some((above, last)) = before else {
        return Step { kept: job.may_stay_in_head().then_some(0), current: own, ..Step::default() };
    };
    // Returns the fewest jobs to post so that the previous job precedes `key`.
    let find_behind = |key: SortKey| {
        let current = above.current_key().is_before(key).then_some((last.current, false));
        let kept = last.kept.filter(|_| above.posted_key().is_before(key)).map(|kept| (kept, true));
        [current, kept].into_iter().flatten().min()
    };
    // The current priorities of sorted jobs are always in the correct order.
    let (current, current_after_kept) = find_behind(job.current_key()).unwrap_or((last.current, false));
    let kept = find_behind(job.posted_key()).filter(|_| job.may_stay_in_head());
    Step {
        kept: kept.map(|(count, _)| count),
        kept_after_kept: kept.is_some_and(|(_, after_kept)| after_kept),
        current: current + own,
        current_after_kept,
    }
}

#[cfg(test)]
mod tests;
