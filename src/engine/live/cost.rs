// SPDX-License-Identifier: LGPL-3.0-only
//! What posting prices costs Flux: one by one, or all in its own loop.

/// Prices posted in one turn, at most.
const POSTS: usize = 100;
/// So many are posted one by one without a question.
const SINGLY: usize = 75;
/// Nobody is kept waiting for longer, in microseconds, if that can be helped.
const STALL: usize = 20_000;
/// The same where it is one call for all of it.
const LOOP_STALL: usize = 50_000;

/// Whether Flux's own loop over all pending jobs is to post so many prices, with so many seconds between two refreshes. It costs
/// less from some 75 jobs on, but nobody is served until it is over: where that is long, only if posting one by one would take most
/// of the time.
pub(super) fn loops_for(pending: usize, touches: usize, refresh: f64) -> bool {
    let singly = touches.saturating_mul(post_cost(pending));
    let all = loop_cost(pending, touches);
    // A quarter of the time between two refreshes.
    let too_long = (refresh * 250_000.0) as usize;
    touches > SINGLY && all < singly && (all <= LOOP_STALL || too_long > 0 && singly > too_long)
}

/// How many prices are posted in one turn.
pub(super) fn posts_at_once(pending: usize) -> usize {
    (STALL / post_cost(pending)).clamp(1, POSTS)
}

/// What one price costs Flux by itself, in microseconds: its events, and the walk to the job's new place, which Flux begins at
/// the end of the list of all pending jobs whichever way the job goes. Measured with flux-core 0.88 (`t/bench/live.sh`): 33 of
/// 1,000 pending jobs, 1,200 of 10,000, 8,300 of 30,000, the jobs at the head of the queue.
fn post_cost(pending: usize) -> usize {
    25usize.saturating_add(pending.saturating_mul(pending.min(30_000)) / 100_000)
}

/// What Flux's loop costs that posts so many prices, in microseconds. Measured likewise: 9 ms of 1,000 pending jobs, 89 of
/// 10,000, 500 of 30,000, and 15 microseconds a price.
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
        for (what, pending, touches, refresh, by_loop) in [
            ("few are posted singly", 1_000, 75, 30.0, false),
            ("many of few pending", 1_000, 500, 30.0, true),
            ("dearer than singly", 1_000, 300, 30.0, false),
            ("a loop of 90 ms", 10_000, 1_000, 30.0, false),
            ("singly would take over a quarter of the time", 30_000, 1_000, 30.0, true),
            ("and here not", 30_000, 1_000, 60.0, false),
            ("singly takes just a quarter", 20_000, 10_000, 161.0, false),
            ("without a period there is no such part", 30_000, 1_000, 0.0, false),
            ("75 are never too many", 20_000, 75, 1.0, false),
            ("but 76 are", 20_000, 76, 1.0, true),
            ("as dear as singly", 100, 80, 30.0, false),
        ] {
            assert_eq!(loops_for(pending, touches, refresh), by_loop, "{what}");
        }
    }
}
