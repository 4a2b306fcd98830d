// SPDX-License-Identifier: LGPL-3.0-only
//! Posts current priorities to Flux. If Flux's loop over all pending jobs is short, the loop posts them.
//! Otherwise the engine posts them one by one in slices, the head of each queue first.

use super::{
    LoopPosts,
    cost::{MAX_SINGLE_POSTS, PendingJobLoop, pause_seconds, posts_per_reactor_turn, posts_per_refresh},
    stage::Stage,
};
use crate::engine::{
    Effect, Refresh, Shared, Step, Timer,
    due::Scan,
    effect::reprioritize_all,
    hold::{self, lacks_headroom_to_resume},
    priorities,
};
use crate::ids::JobId;
use crate::limits::{Admission, Candidates, Demand, Job, Phase};
use crate::priority::order::Bounds;
use std::collections::VecDeque;

/// The jobs whose priorities the refresh has not posted yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Posts {
    /// Jobs that have no priority yet. After a push, a release scan follows when the engine has asked for the
    /// urgencies of all these jobs.
    unprioritized: VecDeque<JobId>,
    /// Jobs whose current priority is to be posted.
    to_post: VecDeque<JobId>,
}

/// The search for jobs without a priority: the jobs found so far, and where the search continues.
#[derive(Clone, Debug, Default)]
pub(super) struct PrioritySearch {
    found: Vec<JobId>,
    after: Option<JobId>,
}

impl Refresh {
    /// Plans which priorities to post and how, when all current priorities are known. `unprioritized` are the jobs without a priority, if the
    /// engine searched for them.
    pub fn post_plan(&mut self, shared: &mut Shared, unprioritized: Option<Vec<JobId>>) -> Vec<Effect> {
        let (depth, budget) = (shared.batches.ordered, post_budget(shared));
        let refreshes_stale = self.stale.is_due;
        self.is_misplaced = false;
        let plan = shared.posted.plan_posts(Bounds { depth, budget, refreshes_stale });
        self.stale.record_post_plan(shared.now, !plan.jobs_to_post.is_empty(), plan.correct_depth.is_none());
        let (_, lagging) = shared.posted.count_pending_and_stale();
        let last = &mut self.posting;
        last.lagging = lagging.saturating_sub(plan.jobs_to_post.len());
        last.right_to = plan.correct_depth.or((last.lagging > 0).then_some(depth));
        let was_searched = unprioritized.is_some();
        let to_post = plan.jobs_to_post.into_iter().map(|(id, _)| id);
        let mut posts =
            Posts { unprioritized: unprioritized.unwrap_or_default().into(), to_post: to_post.collect() };
        let mut effects = Vec::new();
        let (flux_loop, touched) = (PendingJobLoop::new(shared), posts.to_post.len());
        // If Flux's loop must run anyway for jobs without a priority, it also posts the other priorities, because it
        // needs the least time for that.
        let uses_loop =
            self.needs_release_scan && (!was_searched || posts.unprioritized.len() > MAX_SINGLE_POSTS);
        if uses_loop || flux_loop.is_loop_faster_than_posts(touched) {
            self.posting.touched += touched;
            let jobs = std::mem::take(&mut posts).to_post.into_iter().collect();
            self.loop_posts = Some(LoopPosts {
                jobs,
                needs_release_scan: std::mem::take(&mut self.needs_release_scan),
                refreshes_stale,
            });
            effects.extend(reprioritize_all());
            effects.push(Effect::Then(Step::ScanAllHeld));
        }
        self.stage = Stage::Posting(posts);
        effects.extend(self.post_slice(shared));
        effects
    }

    /// Posts the current priorities of some of the remaining jobs.
    pub fn post_slice(&mut self, shared: &mut Shared) -> Vec<Effect> {
        shared.posted.drop_former_priorities();
        let flux_loop = PendingJobLoop::new(shared);
        let most = posts_per_reactor_turn(flux_loop.pending);
        let Stage::Posting(Posts { unprioritized, to_post }) = &mut self.stage else {
            return Vec::new();
        };
        let asked_jobs: Vec<JobId> = unprioritized.drain(..unprioritized.len().min(most)).collect();
        let batch: Vec<JobId> = to_post.drain(..to_post.len().min(most - asked_jobs.len())).collect();
        let (all_asked, is_done) = (unprioritized.is_empty(), unprioritized.is_empty() && to_post.is_empty());
        // If Flux's loop is not allowed because posts take long, Flux serves other requests between the posts.
        let posts = if flux_loop.is_short(0) { 0 } else { asked_jobs.len() + batch.len() };
        let mut effects: Vec<Effect> = asked_jobs.into_iter().map(Effect::AskUrgency).collect();
        let mut scans = Vec::new();
        for id in batch {
            let urgency = shared.posted.urgency(id).unwrap_or_default();
            if shared.ledger.job(id).is_some_and(|job| lacks_headroom_to_resume(shared, id, job, urgency)) {
                effects.extend(hold::hold_until_headroom(shared, id));
                continue;
            }
            let Some(made) = priorities::store_posted_priority(shared, id) else { continue };
            self.posting.touched += 1;
            effects.extend(priorities::make_fairshare_memo(shared, id, &made));
            effects.push(Effect::Prioritize(id, made.priority));
            let freed = hold::store_scheduler_demand(shared, id, Demand::for_priority(made.priority))
                .map(|of| (of, Candidates::All));
            scans.extend(freed.filter(|scan| !scans.contains(scan)));
        }
        // The ledger counts each job by its new priority at once. But a release scan must wait until Flux has received
        // every new priority that is 0.
        if all_asked && std::mem::take(&mut self.needs_release_scan) {
            effects.push(Effect::Then(Step::ScanAllHeld));
        }
        shared.due.add_release_scan_after_event(Scan::Associations(scans));
        if is_done {
            effects.extend(self.finish_posts(shared));
        } else {
            effects.push(Effect::ArmIn(Timer::Slice, pause_seconds(flux_loop.pending, posts)));
        }
        effects
    }

    /// Notes that all priorities of a refresh are posted. Annotations come next, if they are switched on.
    fn finish_posts(&mut self, shared: &mut Shared) -> Option<Effect> {
        let (count, touched) = &mut self.totals;
        let before = self.last.filter(|_| std::mem::take(&mut self.is_correction));
        if before.is_none() {
            *count += 1;
        }
        let known_posts = before.map_or(0, |last| last.touched);
        *touched += self.posting.touched.saturating_sub(known_posts) as u64;
        self.last = Some(self.posting);
        if shared.settings.annotate {
            self.stage = Stage::Annotations(None);
            return Some(Effect::Arm(Timer::Slice));
        }
        self.end_refresh()
    }

    /// Ends a refresh. If a job is at a wrong position of its queue, returns the effect that arms the timer of the
    /// next slice.
    pub fn end_refresh(&mut self) -> Option<Effect> {
        self.stage = Stage::Idle;
        self.is_misplaced.then_some(Effect::Arm(Timer::Slice))
    }

    /// Returns true if the engine must search for jobs without a priority after a push. Usually Flux's loop over all
    /// pending jobs asks about these jobs, but the loop may take too long.
    pub fn must_search_jobs_without_priority(&self, shared: &Shared) -> bool {
        self.needs_release_scan
            && !PendingJobLoop::new(shared)
                .is_short(shared.posted.count_pending_and_stale().1.min(shared.batches.posted))
    }
}

impl PendingJobLoop {
    fn new(shared: &Shared) -> Self {
        PendingJobLoop { pending: shared.posted.pending().len(), longest: shared.batches.longest_loop }
    }
}

/// Returns the largest number of priorities that a refresh posts. It is [`Batches::posted`], or less if Flux's loop
/// would take too long and priorities are posted one by one.
pub fn post_budget(shared: &Shared) -> usize {
    let (most, flux_loop) = (shared.batches.posted, PendingJobLoop::new(shared));
    if flux_loop.is_short(most) {
        most
    } else {
        most.min(posts_per_refresh(flux_loop.pending, shared.settings.refresh))
    }
}

impl PrioritySearch {
    /// Continues the search. Returns the found jobs when the search has ended. The search also ends when it has found
    /// more than `MAX_SINGLE_POSTS` jobs, because Flux's loop must then ask about these jobs.
    pub fn continue_search(&mut self, shared: &Shared) -> Option<Vec<JobId>> {
        let mut left = shared.batches.sought;
        for (id, job) in shared.ledger.jobs_after(self.after).take(left) {
            (left, self.after) = (left - 1, Some(id));
            if needs_priority_request(shared, id, job) {
                self.found.push(id);
            }
            if self.found.len() > MAX_SINGLE_POSTS {
                break;
            }
        }
        let has_ended = left > 0 || self.found.len() > MAX_SINGLE_POSTS;
        has_ended.then(|| std::mem::take(&mut self.found))
    }
}

/// Returns true if Flux's loop must ask for the priority of the job, for example because the job has no priority yet.
pub fn needs_priority_request(shared: &Shared, id: JobId, job: &Job) -> bool {
    let is_new = matches!(job.admission, Admission::Waiting { .. } | Admission::Attached(_));
    let has_none = || shared.unprioritized.contains(&id) || shared.posted.pending().get(id).is_none();
    matches!(job.phase, Phase::Priority | Phase::Sched) && (is_new || !job.is_awaiting() && has_none())
}
