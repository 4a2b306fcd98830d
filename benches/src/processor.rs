// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the processor time of this thread. Other processes affect it only through the processor's caches.

use std::time::Duration;

/// Returns the processor time that this thread has used.
pub fn thread_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: clock_gettime(2): Linux has this clock, and `time` is a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
