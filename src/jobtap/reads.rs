// SPDX-License-Identifier: LGPL-3.0-only
//! Reads eventlogs from the KVS, `READS_AT_ONCE` at a time. A read begins after the KVS has all events posted before
//! the request.

use super::error::Error;
use super::guard::Instance;
use super::pending::{Ask, Future, looked_up};
use super::shared::shared;
use super::{Host, Jobtap, Turn, sys};
use std::ffi::c_void;

/// The number of eventlogs read at a time. It keeps the KVS busy, but leaves time for its other clients.
const READS_AT_ONCE: usize = 32;

impl<J: Jobtap> Host<'_, J> {
    /// Reads the job's eventlog in its state at this call or later, and passes it to [`Jobtap::eventlog`] in a later
    /// reactor turn.
    pub fn read_eventlog(self, id: u64) {
        self.instance.reads.borrow_mut().asked.push_back(id);
        self.instance.begin_wait();
    }
}

impl<J: Jobtap> Instance<J> {
    /// Starts a wait until the KVS has the events posted so far. The last events are not in the KVS yet, and a read
    /// that misses them would miss dependencies. Eventlogs requested during the wait belong to the next wait.
    fn begin_wait(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            if reads.commits.is_some() || reads.asked.is_empty() {
                return;
            }
            std::mem::swap(&mut reads.asked, &mut reads.awaited);
        }
        self.wait(self.plugin.await_batch(on_batch::<J>, self.as_arg()));
    }

    /// Stores `future` as the step of the wait. If the step could not start, reads the eventlogs without waiting.
    fn wait(&self, future: Result<Future, Error>) {
        match future {
            Ok(future) => self.reads.borrow_mut().commits = Some(future),
            Err(_) => self.waited_for_all(),
        }
    }

    /// Ends a step. A wait has two steps: the job manager sends the open batch of events, then the KVS commits it.
    fn waited(&self) {
        let future = self.reads.borrow_mut().commits.take();
        drop(future);
    }

    /// Ends the wait and starts the reads.
    fn waited_for_all(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            reads.to_come.append(&mut reads.awaited);
        }
        self.start_reads();
        self.begin_wait();
    }

    /// Cancels all reads.
    pub(super) fn forget_reads(&self) {
        let reads = std::mem::take(&mut *self.reads.borrow_mut());
        drop(reads);
    }

    /// Returns the instance's address, for C to pass to continuations.
    pub(super) fn as_arg(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn start_reads(&self) {
        loop {
            let next = {
                let mut reads = self.reads.borrow_mut();
                if reads.under_way.len() < READS_AT_ONCE { reads.to_come.pop_front() } else { None }
            };
            let Some(id) = next else { return };
            match Ask::start(self, id, |arg| self.plugin.read_eventlog(id, on_read::<J>, arg)) {
                Ok(read) => {
                    let former = self.reads.borrow_mut().under_way.insert(id, read);
                    drop(former);
                }
                Err(_) => self.jobtap.eventlog(self.host(), id, None),
            }
        }
    }
}

unsafe extern "C" fn on_batch<J: Jobtap>(_future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` points to the instance, which destroys the future before the instance itself is dropped.
    let instance = unsafe { shared::<Instance<J>>(arg) };
    let body = || {
        instance.waited();
        instance.wait(instance.plugin.await_commits(on_commits::<J>, arg));
    };
    instance.guarded(Turn::Batch.name(), || None, body);
}

unsafe extern "C" fn on_commits<J: Jobtap>(_future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: as above.
    let instance = unsafe { shared::<Instance<J>>(arg) };
    let body = || {
        instance.waited();
        instance.waited_for_all();
    };
    instance.guarded(Turn::Commits.name(), || None, body);
}

unsafe extern "C" fn on_read<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux passes the argument that the look-up was started with, and the look-up is still pending.
    let (instance, id) = unsafe { Ask::answered::<J>(arg) };
    let body = || {
        // SAFETY: the future belongs to a look-up and is fulfilled.
        let text = unsafe { looked_up(future) }.ok();
        let read = instance.reads.borrow_mut().under_way.remove(&id);
        drop(read);
        instance.jobtap.eventlog(instance.host(), id, text.as_deref());
        instance.start_reads();
    };
    instance.guarded(Turn::Eventlog.name(), || Some(id), body);
}
