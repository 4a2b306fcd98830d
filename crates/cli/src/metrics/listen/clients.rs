// SPDX-License-Identifier: LGPL-3.0-only
//! The connected clients. If there are too many, the client that has been silent for longest is disconnected for a new client.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// The greatest number of clients at a time.
pub(crate) const MOST: usize = 32;

/// The connected clients.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<ClientLists>,
    /// Notified when a client leaves.
    left: Condvar,
}

#[derive(Default)]
struct ClientLists {
    seated: usize,
    /// Clients that have not sent a request yet, by their numbers, in the order in which they came.
    silent: VecDeque<(u64, Arc<TcpStream>)>,
    /// The number of clients so far, which is the next client's number.
    came: u64,
}

/// The registration of a client. Dropping it makes room for another client.
pub(crate) struct Seat<'a> {
    clients: &'a Clients,
    number: u64,
}

impl Clients {
    /// Registers a client, if necessary in place of the client that has been silent for longest, which is disconnected. Waits if
    /// all clients are being answered.
    pub(crate) fn seat(&self, client: &Arc<TcpStream>) -> Seat<'_> {
        let mut all = self.all();
        while all.seated >= MOST {
            // Shutting down the connection ends the client's thread.
            if let Some((_, longest)) = all.silent.pop_front() {
                let _ = longest.shutdown(Shutdown::Both);
            }
            all = self.left.wait(all).unwrap_or_else(PoisonError::into_inner);
        }
        let number = all.came;
        all.came += 1;
        all.seated += 1;
        all.silent.push_back((number, Arc::clone(client)));
        Seat { clients: self, number }
    }

    fn all(&self) -> MutexGuard<'_, ClientLists> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat<'_> {
    /// Marks a client that has sent its request, so that it is not disconnected. Returns false if it is already disconnected.
    pub(crate) fn protect(&self) -> bool {
        let mut all = self.clients.all();
        let before = all.silent.len();
        all.silent.retain(|(number, _)| *number != self.number);
        all.silent.len() < before
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.protect();
        self.clients.all().seated -= 1;
        self.clients.left.notify_one();
    }
}
