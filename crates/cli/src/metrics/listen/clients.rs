// SPDX-License-Identifier: LGPL-3.0-only
//! Who is connected. There is room for so many; where it is taken, who has asked nothing for longest goes for who comes.

use std::collections::VecDeque;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Clients at a time.
pub(crate) const MOST: usize = 32;

/// All of them.
#[derive(Default)]
pub(crate) struct Clients {
    all: Mutex<All>,
    /// Told when somebody leaves.
    left: Condvar,
}

#[derive(Default)]
struct All {
    seated: usize,
    /// Those who have asked nothing yet, in the order in which they came.
    silent: VecDeque<(u64, Arc<TcpStream>)>,
    /// How many came so far: each is known by its number.
    came: u64,
}

/// A place among them, which is free again when this is dropped.
pub(crate) struct Seat<'a> {
    clients: &'a Clients,
    number: u64,
}

impl Clients {
    /// Seats one more. Waits only where all are being answered.
    pub(crate) fn seat(&self, client: &Arc<TcpStream>) -> Seat<'_> {
        let mut all = self.all();
        while all.seated >= MOST {
            // It leaves as soon as it notices.
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

    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat<'_> {
    /// It has asked, and stays until it is answered. False: it had to go before.
    pub(crate) fn keep(&self) -> bool {
        let mut all = self.clients.all();
        let before = all.silent.len();
        all.silent.retain(|(number, _)| *number != self.number);
        all.silent.len() < before
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.keep();
        self.clients.all().seated -= 1;
        self.clients.left.notify_one();
    }
}
