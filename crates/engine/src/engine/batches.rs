// SPDX-License-Identifier: LGPL-3.0-only
//! Limits on the work of one reactor turn and of one refresh, and on the number of subscriptions.

/// The sizes of batches. No site has a reason to change the sizes, so they are not settings. Tests use
/// smaller batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// The largest number of jobs in PRIORITY that get their first priority in Flux's loop. If there are more, the engine posts the
    /// priorities by id, in slices.
    pub put_off: usize,
    /// The number of jobs in PRIORITY whose priorities one turn posts. 200 jobs take about 20 ms.
    pub unmoved: usize,
    /// The number of jobs that the engine searches in one reactor turn for jobs without a priority.
    pub sought: usize,
    /// The number of jobs whose annotations the engine checks in one reactor turn.
    pub annotated: usize,
    /// The largest number of subscriptions. When a subscription ends, Flux searches its list of subscriptions, which
    /// takes 0.3 us for each entry. So the end takes at most 150 us; with 20,000 subscriptions, each end took 6 ms.
    pub subscribed: usize,
    /// The number of pending jobs at the head of each scheduler queue that a refresh keeps in the order of their
    /// current priorities. Schedulers consider fewer jobs in a cycle: Fluxion considers 32 by default (`queue-depth`,
    /// flux-config-sched-fluxion-qmanager(5)). Each post lengthens an eventlog permanently (K21), and posting the order
    /// of all 20,000 jobs takes 5 to 8 times as many posts (docs/evidence/posting.md). If `interleave` is on, this is
    /// also the number of jobs of an association that get different fair-shares (`refresh/interleave.rs`).
    pub ordered: usize,
    /// The largest number of priorities that a refresh posts; the next refresh continues. Usually a refresh posts at most 800
    /// (docs/evidence/posting.md, "Growth of eventlogs").
    pub posted: usize,
    /// The longest time that Flux's own loop over all pending jobs may take, in microseconds. The job manager answers no request during the
    /// loop. If 0, the engine posts by the loop only after a push with over 75 jobs without a priority. The loop takes 50 ms with about
    /// 4,000 pending jobs (docs/evidence/posting.md, "Single posts and Flux's loop").
    pub longest_loop: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Batches {
            put_off: 1_000,
            unmoved: 200,
            sought: 20_000,
            annotated: 200,
            subscribed: 500,
            ordered: 1_000,
            posted: 2_000,
            longest_loop: 50_000,
        }
    }
}
