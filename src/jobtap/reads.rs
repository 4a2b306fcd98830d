// SPDX-License-Identifier: LGPL-3.0-only
//! Reads eventlogs from the KVS, `READS_AT_ONCE` at a time. A read begins after the KVS has all events posted before
//! the request.

use super::error::Error;
use super::guard::Instance;
use super::pending::{Future, PendingRequest, read_look_up_value};
use super::shared::borrow_from_c;
use super::{Host, Jobtap, reply, sys};
use std::ffi::c_void;

/// The number of eventlogs read at a time. The KVS stays busy, but can still serve its other clients.
const READS_AT_ONCE: usize = 32;

impl<J: Jobtap> Host<'_, J> {
    /// Reads the job's eventlog, with all events posted before this call, and passes it to
    /// [`Jobtap::receive_eventlog`] in a later reactor turn.
    pub fn read_eventlog(self, id: u64) {
        self.instance.reads.borrow_mut().requested.push_back(id);
        self.instance.begin_wait();
    }
}

impl<J: Jobtap> Instance<J> {
    /// Starts to wait until the KVS has the events posted so far. An earlier read could miss the last events
    /// of a job, such as its dependencies. If an eventlog is requested during this wait, the eventlog is read
    /// after a second wait.
    fn begin_wait(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            if reads.wait_step.is_some() || reads.requested.is_empty() {
                return;
            }
            std::mem::swap(&mut reads.requested, &mut reads.waiting);
        }
        self.store_future_of_wait(self.plugin.await_batch(on_batch::<J>, self.as_arg()));
    }

    /// Stores the future that the plugin waits for now. If `future` is an error, reads the eventlogs without waiting.
    fn store_future_of_wait(&self, future: Result<Future, Error>) {
        match future {
            Ok(future) => self.reads.borrow_mut().wait_step = Some(future),
            Err(_) => self.end_wait(),
        }
    }

    /// Destroys the future that the plugin waited for. The wait has two steps, each with a future: the job manager
    /// sends its batch of events, then the KVS commits the batch.
    fn end_wait_step(&self) {
        let future = self.reads.borrow_mut().wait_step.take();
        drop(future);
    }

    /// Ends the wait for the KVS, and starts to read the eventlogs.
    fn end_wait(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            reads.readable.append(&mut reads.waiting);
        }
        self.start_reads();
        self.begin_wait();
    }

    /// Cancels all reads.
    pub(super) fn cancel_reads(&self) {
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
                if reads.pending.len() < READS_AT_ONCE { reads.readable.pop_front() } else { None }
            };
            let Some(id) = next else { return };
            match PendingRequest::start(self, id, |arg| self.plugin.read_eventlog(id, on_read::<J>, arg)) {
                Ok(read) => {
                    let replaced_read = self.reads.borrow_mut().pending.insert(id, read);
                    drop(replaced_read);
                }
                Err(_) => self.jobtap.receive_eventlog(self.host(), id, None),
            }
        }
    }
}

unsafe extern "C" fn on_batch<J: Jobtap>(_future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: `arg` points to the instance, which destroys the future before the instance itself is dropped.
    let instance = unsafe { borrow_from_c::<Instance<J>>(arg) };
    let body = || {
        instance.end_wait_step();
        instance.store_future_of_wait(instance.plugin.await_commits(on_commits::<J>, arg));
    };
    instance.catch_panic(reply::BATCH, || None, body);
}

unsafe extern "C" fn on_commits<J: Jobtap>(_future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: as above.
    let instance = unsafe { borrow_from_c::<Instance<J>>(arg) };
    let body = || {
        instance.end_wait_step();
        instance.end_wait();
    };
    instance.catch_panic(reply::COMMITS, || None, body);
}

unsafe extern "C" fn on_read<J: Jobtap>(future: *mut sys::flux_future_t, arg: *mut c_void) {
    // SAFETY: Flux passes the argument that the look-up was started with, and the look-up is still pending.
    let (instance, id) = unsafe { PendingRequest::identify::<J>(arg) };
    let body = || {
        // SAFETY: the future belongs to a look-up and is fulfilled.
        let text = unsafe { read_look_up_value(future) }.ok();
        let read = instance.reads.borrow_mut().pending.remove(&id);
        drop(read);
        instance.jobtap.receive_eventlog(instance.host(), id, text.as_deref());
        instance.start_reads();
    };
    instance.catch_panic(reply::EVENTLOG, || Some(id), body);
}
