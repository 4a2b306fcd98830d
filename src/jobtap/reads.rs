// SPDX-License-Identifier: LGPL-3.0-only
//! Reads eventlogs from the KVS, `READS_AT_ONCE` at a time. A read begins after the KVS has all events posted before
//! the request.

use super::guard::Instance;
use super::pending::RequestId;
use super::{Host, Jobtap};
use std::collections::VecDeque;

/// The number of eventlogs read at a time. The KVS stays busy, but can still serve its other clients.
const READS_AT_ONCE: usize = 32;

/// Jobs whose eventlogs were requested, and are not being read yet.
#[derive(Default)]
pub(super) struct Reads {
    /// Jobs whose eventlogs were requested after the current wait began.
    requested: VecDeque<u64>,
    /// Jobs whose eventlogs can be read when the KVS has the events posted so far.
    waiting: VecDeque<u64>,
    /// Jobs whose eventlogs can be read now.
    readable: VecDeque<u64>,
}

impl<J: Jobtap> Host<'_, J> {
    /// Reads the job's eventlog, with all events posted before this call ([`RequestId::Eventlog`]).
    pub fn read_eventlog(self, id: u64) {
        self.instance.reads.borrow_mut().requested.push_back(id);
        self.instance.begin_wait();
    }
}

impl<J: Jobtap> Instance<J> {
    /// Starts to wait until the KVS has the events posted so far. An earlier read could miss the last events
    /// of a job, such as its dependencies. If an eventlog is requested during this wait, the eventlog is read
    /// after a second wait.
    ///
    /// The wait has two steps: the job manager sends its batch of events, then the KVS commits the batch.
    fn begin_wait(&self) {
        {
            let pending = self.pending.borrow();
            let is_waiting =
                pending.contains_key(&RequestId::Batch) || pending.contains_key(&RequestId::Commits);
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            if is_waiting || reads.requested.is_empty() {
                return;
            }
            std::mem::swap(&mut reads.requested, &mut reads.waiting);
        }
        self.await_reply(RequestId::Batch, self.plugin.await_batch());
    }

    /// Waits until the KVS has committed the batch of events.
    pub(super) fn await_commits(&self) {
        self.await_reply(RequestId::Commits, self.plugin.commit_changes(&[]));
    }

    /// Ends the wait for the KVS, and starts to read the eventlogs.
    pub(super) fn end_wait(&self) {
        {
            let mut reads = self.reads.borrow_mut();
            let reads = &mut *reads;
            reads.readable.append(&mut reads.waiting);
        }
        self.start_reads();
        self.begin_wait();
    }

    /// Cancels all reads that have not begun.
    pub(super) fn cancel_reads(&self) {
        self.reads.take();
    }

    /// Starts to read eventlogs until `READS_AT_ONCE` reads are pending.
    pub(super) fn start_reads(&self) {
        let eventlogs = RequestId::Eventlog(0)..=RequestId::Eventlog(u64::MAX);
        while self.pending.borrow().range(eventlogs.clone()).count() < READS_AT_ONCE {
            let next = self.reads.borrow_mut().readable.pop_front();
            let Some(id) = next else { return };
            self.await_reply(RequestId::Eventlog(id), self.plugin.read_eventlog(id));
        }
    }
}
