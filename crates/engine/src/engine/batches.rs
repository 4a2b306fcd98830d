// SPDX-License-Identifier: LGPL-3.0-only
//! How many jobs the engine handles in one reactor turn and in one refresh, and of how many it has Flux report events.

/// Numbers of jobs, and a time. No site has a reason to choose other values; tests pass smaller ones to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// If more jobs in PRIORITY than this have no priority, they do not get it in Flux's loop, but by id in slices.
    pub put_off: usize,
    /// Jobs in PRIORITY that get a priority in one turn. 200 take about 20 ms.
    pub unmoved: usize,
    /// Jobs in which one turn looks for those without a priority.
    pub sought: usize,
    /// Jobs whose annotations one turn checks.
    pub annotated: usize,
    /// The largest number of subscriptions. Flux takes 0.3 us to skip one in its list, so ending a subscription takes at most 150 us.
    /// With 20,000 it took 6 ms for each job that was refused, cancelled or released.
    pub subscribed: usize,
    /// Pending jobs at the head of each scheduler queue that a refresh keeps in the order of their current priorities. Schedulers look
    /// at fewer: Fluxion at 32 in a cycle by default (`queue-depth`, flux-config-sched-fluxion-qmanager(5)). Each post lengthens an
    /// eventlog for good (K21): posting the order of all 20,000 jobs takes 5 to 8 times the posts (docs/evidence/posting.md). With
    /// `interleave`, this many jobs of each association have turns.
    pub ordered: usize,
    /// Priorities that a refresh posts at most; the next one goes on. Two whole heads fit: usually a refresh posts at most 800
    /// (docs/evidence/posting.md, "Growth of eventlogs").
    pub posted: usize,
    /// The longest time that Flux's own loop over all pending jobs may take, in microseconds; 0: the engine never uses the loop to post
    /// many priorities. The job manager answers no request meanwhile. The loop takes 50 ms with about 4,000 pending jobs
    /// (docs/evidence/posting.md, "Single posts and Flux's loop").
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
