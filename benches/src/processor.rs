// SPDX-License-Identifier: LGPL-3.0-only
//! Processor time of this thread: it says the same whoever else uses the machine, but for the caches.

use std::time::Duration;

/// What was used so far.
pub fn used() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2): the clock is one that Linux has, and the place for the answer is ours.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
