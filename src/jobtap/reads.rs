// SPDX-License-Identifier: LGPL-3.0-only
//! Reading eventlogs from the KVS, a few at a time, when all that was posted is there.

use super::error::Error;
use super::guard::Instance;
use super::pending::{Ask, Future, looked_up};
use super::shared::shared;
use super::{Host, Jobtap, Turn, sys};
use std::ffi::c_void;

/// Eventlogs read at a time: enough to keep the store busy, few enough to leave it to others.
const READS_AT_ONCE: usize = 32;

impl<J: Jobtap> Host<'_, J> {
    /// Has [`Jobtap::eventlog`] called with the job's eventlog as it is now or later, in a later reactor turn.
    pub fn read_eventlog(self, id: u64) {
        self.instance.reads.borrow_mut().asked.push_back(id);
        self.instance.begin_wait();
    }
}

impl<J: Jobtap> Instance<J> {
    /// What was posted in the last moments is not in the KVS yet, and a name that is not read there is not known: a read waits for
    /// what was posted when it was asked for. Whoever is asked for during a wait is in the next one.
    fn begin_wait(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            if reads.commits.is_some() || reads.asked.is_empty() {
                return;
            }
            std::mem::swap(&mut reads.asked, &mut reads.awaited);
        }
        self.wait(self.plugin.await_batch(on_batch::<J>, self.at()));
    }

    /// Should that fail, what is there must do.
    fn wait(&self, future: Result<Future, Error>) {
        match future {
            Ok(future) => self.reads.borrow_mut().commits = Some(future),
            Err(_) => self.waited_for_all(),
        }
    }

    /// One of the two steps of a wait is over: the open batch of events is posted, then it is committed.
    fn waited(&self) {
        let future = self.reads.borrow_mut().commits.take();
        drop(future);
    }

    /// All is in the KVS that is waited for.
    fn waited_for_all(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            reads.to_come.append(&mut reads.awaited);
        }
        self.start_reads();
        self.begin_wait();
    }

    /// Nobody waits for any of it any more.
    pub(super) fn forget_reads(&self) {
        let reads = std::mem::take(&mut *self.reads.borrow_mut());
        drop(reads);
    }

    /// What Flux hands back with the futures that are the instance's own.
    pub(super) fn at(&self) -> *mut c_void {
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
    // SAFETY: `arg` is the instance, which destroys the future before it goes.
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
    // SAFETY: Flux hands back what it was given, while the look-up is under way.
    let (instance, id) = unsafe { Ask::answered::<J>(arg) };
    let body = || {
        // SAFETY: the future is that of a look-up, and fulfilled.
        let text = unsafe { looked_up(future) }.ok();
        let read = instance.reads.borrow_mut().under_way.remove(&id);
        drop(read);
        instance.jobtap.eventlog(instance.host(), id, text.as_deref());
        instance.start_reads();
    };
    instance.guarded(Turn::Eventlog.name(), || Some(id), body);
}
