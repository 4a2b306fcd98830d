// SPDX-License-Identifier: LGPL-3.0-only
//! How many jobs the engine handles in one reactor turn, and of how many it has Flux report events.

/// Numbers of jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batches {
    /// If more jobs in PRIORITY have no priority, Flux's loop leaves them there, and they get it in slices.
    pub put_off: usize,
    /// Jobs in PRIORITY that get a priority in one turn: 200 take some 20 ms.
    pub unmoved: usize,
    /// Jobs that are looked at in one turn for those without a priority.
    pub sought: usize,
    /// Jobs that are looked at in one turn for annotations that are out of date.
    pub annotated: usize,
    /// Jobs that are subscribed to at a time. Flux passes over one in 0.3 us, so giving back one of 500 takes 150 us at most; in the
    /// midst of 20,000 that took 6 ms, for every job that was refused, cancelled or released.
    pub subscribed: usize,
}

impl Default for Batches {
    fn default() -> Self {
        Batches { put_off: 1_000, unmoved: 200, sought: 20_000, annotated: 200, subscribed: 500 }
    }
}
