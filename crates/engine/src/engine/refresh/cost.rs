// SPDX-License-Identifier: LGPL-3.0-only
//! What posting priorities costs Flux: one by one, or all in its own loop.

/// Priorities posted in one turn, at most.
const POSTS: usize = 100;
/// So many are posted one by one without a question.
pub(super) const SINGLY: usize = 75;
/// Nobody is kept waiting for longer by posts in one turn, in microseconds, if that can be helped.
const TURN: usize = 20_000;
/// The part of the time between two refreshes that posts may take.
const PART: f64 = 0.25;

/// Flux's own loop over all pending jobs. It posts many priorities for less, but nobody is served until it is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Loop {
    /// Jobs that it goes through.
    pub pending: usize,
    /// The longest time that it may take, in microseconds; 0: it is not used.
    pub longest: usize,
}

impl Loop {
    /// Whether it is over in time, with so many priorities to post.
    pub fn is_short(self, touches: usize) -> bool {
        self.longest > 0 && loop_cost(self.pending, touches) <= self.longest
    }

    /// Whether it is to post so many priorities: where that costs less than one by one, which is so from some 75 on, and is short.
    pub fn is_better_for(self, touches: usize) -> bool {
        let singly = touches.saturating_mul(post_cost(self.pending));
        touches > SINGLY && loop_cost(self.pending, touches) < singly && self.is_short(touches)
    }
}

/// How many priorities are posted one by one at a refresh, with so many seconds to the next; 0: there is none.
pub(super) fn posts_between(pending: usize, refresh: f64) -> usize {
    let most = refresh * PART * 1e6 / post_cost(pending) as f64;
    if refresh > 0.0 { (most as usize).max(1) } else { usize::MAX }
}

/// Seconds to wait after so many posts, so that they take no more than their part of the time.
pub(super) fn pause(pending: usize, posts: usize) -> f64 {
    posts as f64 * post_cost(pending) as f64 * 1e-6 * (1.0 / PART - 1.0)
}

/// How many priorities are posted in one turn.
pub(super) fn posts_at_once(pending: usize) -> usize {
    (TURN / post_cost(pending)).clamp(1, POSTS)
}

/// What one priority costs Flux by itself, in microseconds: its events, and the walk to the job's new place, which Flux begins at
/// the end of the list of all pending jobs whichever way the job goes. Measured with flux-core 0.88 (`t/bench/live.sh`): 33 of
/// 1,000 pending jobs, 1,200 of 10,000, 8,300 of 30,000, the jobs at the head of the queue.
fn post_cost(pending: usize) -> usize {
    25usize.saturating_add(pending.saturating_mul(pending.min(30_000)) / 100_000)
}

/// What Flux's loop costs that posts so many priorities, in microseconds. Measured likewise: 9 ms of 1,000 pending jobs, 89 of
/// 10,000, 500 of 30,000, and 15 microseconds a priority.
fn loop_cost(pending: usize, touches: usize) -> usize {
    let each = (pending / 3_000).saturating_add(8);
    pending.saturating_mul(each).saturating_add(touches.saturating_mul(15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_price_costs_what_was_measured() {
        for (pending, one) in [(0, 25), (1_000, 35), (10_000, 1_025), (30_000, 9_025), (60_000, 18_025)] {
            assert_eq!(post_cost(pending), one, "{pending}");
        }
        for (pending, touches, all) in
            [(0, 0, 0), (1_000, 0, 8_000), (10_000, 0, 110_000), (30_000, 2, 540_030), (3_000, 100, 28_500)]
        {
            assert_eq!(loop_cost(pending, touches), all, "{pending} {touches}");
        }
    }

    /// Twenty milliseconds a turn.
    #[test]
    fn the_more_jobs_pend_the_fewer_prices_are_posted_at_once() {
        for (pending, posts) in [(0, 100), (1_000, 100), (4_000, 100), (10_000, 19), (30_000, 2), (90_000, 1)]
        {
            assert_eq!(posts_at_once(pending), posts, "{pending}");
        }
    }

    #[test]
    fn flux_is_asked_for_all_only_where_that_is_cheaper_and_short() {
        for (what, pending, touches, longest, is_better) in [
            ("few are posted singly", 1_000, 75, 50_000, false),
            ("many of few pending", 1_000, 500, 50_000, true),
            ("dearer than singly", 1_000, 300, 50_000, false),
            ("as dear as singly", 100, 80, 50_000, false),
            ("a loop of 125 ms", 10_000, 1_000, 50_000, false),
            ("which may take that long", 10_000, 1_000, 125_000, true),
            ("just not", 10_000, 1_001, 125_000, false),
            ("75 are never too many", 20_000, 75, 10_000_000, false),
            ("but 76 are", 20_000, 76, 10_000_000, true),
            ("never", 1_000, 500, 0, false),
        ] {
            assert_eq!(Loop { pending, longest }.is_better_for(touches), is_better, "{what}");
        }
        assert!(Loop { pending: 1_000, longest: 8_000 }.is_short(0));
        assert!(!Loop { pending: 1_000, longest: 8_000 }.is_short(1));
        assert!(!Loop { pending: 0, longest: 0 }.is_short(0));
    }

    #[test]
    fn posts_take_a_quarter_of_the_time() {
        let micros = |pending, posts| (pause(pending, posts) * 1e6).round();
        assert_eq!([micros(10_000, 0), micros(10_000, 4), micros(1_000, 1)], [0.0, 12_300.0, 105.0]);
        for (pending, refresh, posts) in [
            (0, 30.0, 300_000),
            (10_000, 30.0, 7_317),
            (50_000, 30.0, 499),
            (50_000, 2.0, 33),
            (50_000, 0.001, 1),
            (50_000, 0.0, usize::MAX),
        ] {
            assert_eq!(posts_between(pending, refresh), posts, "{pending} {refresh}");
        }
    }
}
