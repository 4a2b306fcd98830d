// SPDX-License-Identifier: LGPL-3.0-only
//! The time that Flux takes to post priorities: one by one, or all in its loop over its jobs.

/// The largest number of priorities that the engine posts in one reactor turn.
const POSTS: usize = 100;
/// Up to this number, priorities are posted one by one.
pub(super) const MAX_SINGLE_POSTS: usize = 75;
/// The time that posts may take in one reactor turn, in microseconds. During this time the broker serves no request.
const POST_TIME_PER_REACTOR_TURN: usize = 20_000;
/// The fraction of the time between two refreshes that posts may take.
const POSTING_FRACTION: f64 = 0.25;

/// Flux's loop over all pending jobs. It posts many priorities in less time, but the broker serves no request until it ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingJobLoop {
    /// The number of jobs whose priority Flux requests in its loop over all pending jobs.
    pub pending: usize,
    /// The longest time that Flux's loop over all pending jobs may take, in microseconds. If 0, the loop must not be
    /// used.
    pub longest: usize,
}

impl PendingJobLoop {
    /// Returns true if Flux's loop over all pending jobs takes at most the time `longest` when it posts `touches`
    /// priorities.
    pub fn is_short(self, touches: usize) -> bool {
        self.longest > 0 && loop_cost(self.pending, touches) <= self.longest
    }

    /// Returns true if Flux's loop posts `touches` priorities in less time than the engine needs to post them one by
    /// one, and if [`Self::is_short`] returns true. The loop is faster from about 75 priorities on.
    pub fn is_loop_faster_than_posts(self, touches: usize) -> bool {
        let single_posts = touches.saturating_mul(estimate_post_time(self.pending));
        touches > MAX_SINGLE_POSTS
            && loop_cost(self.pending, touches) < single_posts
            && self.is_short(touches)
    }
}

/// Returns how many priorities may be posted one by one in the `refresh` seconds between two refreshes. If
/// `refresh` is 0, the number is not limited.
pub fn posts_per_refresh(pending: usize, refresh: f64) -> usize {
    let most = refresh * POSTING_FRACTION * 1e6 / estimate_post_time(pending) as f64;
    if refresh > 0.0 { (most as usize).max(1) } else { usize::MAX }
}

/// Returns the seconds to wait after `posts` posts, so that posts take at most [`POSTING_FRACTION`] of the
/// time between two refreshes.
pub fn pause_seconds(pending: usize, posts: usize) -> f64 {
    posts as f64 * estimate_post_time(pending) as f64 * 1e-6 * (1.0 / POSTING_FRACTION - 1.0)
}

/// Returns the largest number of priorities to post in one reactor turn.
pub fn posts_per_reactor_turn(pending: usize) -> usize {
    (POST_TIME_PER_REACTOR_TURN / estimate_post_time(pending)).clamp(1, POSTS)
}

/// Returns the time that one post takes Flux, in microseconds. Flux writes events of the job, and searches its list
/// of pending jobs for the job's new position. The search always begins at the end of the list. Measured with
/// flux-core 0.88 (`t/bench/live.sh`) for jobs at the head of the queue: 33 us with 1,000 pending jobs, 1,200 us with
/// 10,000, 8,300 us with 30,000.
fn estimate_post_time(pending: usize) -> usize {
    25usize.saturating_add(pending.saturating_mul(pending.min(30_000)) / 100_000)
}

/// Returns the time that Flux's loop over all pending jobs takes to post `touches` priorities, in microseconds.
/// Measured with the same script, the loop without posts takes 9 ms with 1,000 pending jobs, 89 ms with 10,000, and
/// 500 ms with 30,000. Each posted priority adds 15 us.
fn loop_cost(pending: usize, touches: usize) -> usize {
    let cost_per_job = (pending / 3_000).saturating_add(8);
    pending.saturating_mul(cost_per_job).saturating_add(touches.saturating_mul(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cost_estimates_for_posts_and_flux_reprioritization_equal_measured_values() {
        for (pending, one) in [(0, 25), (1_000, 35), (10_000, 1_025), (30_000, 9_025), (60_000, 18_025)] {
            assert_eq!(estimate_post_time(pending), one, "{pending}");
        }
        for (pending, touches, all) in
            [(0, 0, 0), (1_000, 0, 8_000), (10_000, 0, 110_000), (30_000, 2, 540_030), (3_000, 100, 28_500)]
        {
            assert_eq!(loop_cost(pending, touches), all, "{pending} {touches}");
        }
    }

    #[test]
    fn a_reactor_turn_posts_fewer_priorities_if_more_jobs_are_pending() {
        for (pending, posts) in [(0, 100), (1_000, 100), (4_000, 100), (10_000, 19), (30_000, 2), (90_000, 1)]
        {
            assert_eq!(posts_per_reactor_turn(pending), posts, "{pending}");
        }
    }

    #[test]
    fn flux_reprioritization_is_used_only_if_cheaper_than_posts_and_short() {
        for (what, pending, touches, longest, is_better) in [
            ("few priorities are posted one by one", 1_000, 75, 50_000, false),
            ("many priorities of few pending jobs", 1_000, 500, 50_000, true),
            ("the loop costs more than single posts", 1_000, 300, 50_000, false),
            ("the loop costs as much as single posts", 100, 80, 50_000, false),
            ("a loop of 125 ms is longer than allowed", 10_000, 1_000, 50_000, false),
            ("a loop of 125 ms is allowed", 10_000, 1_000, 125_000, true),
            ("one more priority makes the loop too long", 10_000, 1_001, 125_000, false),
            ("75 priorities are posted one by one", 20_000, 75, 10_000_000, false),
            ("76 priorities are posted by the loop", 20_000, 76, 10_000_000, true),
            ("the loop is switched off", 1_000, 500, 0, false),
        ] {
            assert_eq!(
                PendingJobLoop { pending, longest }.is_loop_faster_than_posts(touches),
                is_better,
                "{what}"
            );
        }
        assert!(PendingJobLoop { pending: 1_000, longest: 8_000 }.is_short(0));
        assert!(!PendingJobLoop { pending: 1_000, longest: 8_000 }.is_short(1));
        assert!(!PendingJobLoop { pending: 0, longest: 0 }.is_short(0));
    }

    #[test]
    fn priority_posts_take_at_most_a_quarter_of_the_time_between_refreshes() {
        let micros = |pending, posts| (pause_seconds(pending, posts) * 1e6).round();
        assert_eq!([micros(10_000, 0), micros(10_000, 4), micros(1_000, 1)], [0.0, 12_300.0, 105.0]);
        for (pending, refresh, posts) in [
            (0, 30.0, 300_000),
            (10_000, 30.0, 7_317),
            (50_000, 30.0, 499),
            (50_000, 2.0, 33),
            (50_000, 0.001, 1),
            (50_000, 0.0, usize::MAX),
        ] {
            assert_eq!(posts_per_refresh(pending, refresh), posts, "{pending} {refresh}");
        }
    }
}
