// SPDX-License-Identifier: LGPL-3.0-only
//! Limits how much of the job manager's time the requests of guests take. Each guest has a token bucket, and all guests
//! together have another. A guest whose bucket is empty waits in a FIFO. The wait slows down a client that sends the
//! next request after each answer; a refusal would make it retry at once.

use std::collections::{HashMap, VecDeque};

/// The seconds of the job manager's time that a guest's bucket gains per second.
const OWN_RATE: f64 = 0.01;
/// The seconds of the job manager's time that the shared bucket gains per second.
const SHARED_RATE: f64 = 0.05;
/// The seconds in a full bucket: the time that a list of 20,000 jobs takes.
const FULL: f64 = 0.25;
/// The maximum number of delayed and parked requests of one guest.
const MOST_OF_ONE: usize = 8;
/// The maximum number of delayed and parked requests of all users.
const MOST_OF_ALL: usize = 1024;
/// The seconds that receiving a request and sending its answer take.
const OVERHEAD: f64 = 50e-6;
/// The seconds after a panic in which no guest is answered. So an answer that always panics does so once in this time.
const PAUSE: f64 = 1.0;

struct Bucket {
    rate: f64,
    seconds: f64,
    filled_at: f64,
}

impl Bucket {
    /// Adds the gain since the last call. If the clock was set back, the bucket gains nothing.
    fn refill(&mut self, now: f64) {
        self.seconds = (self.seconds + (now - self.filled_at).max(0.0) * self.rate).min(FULL);
        self.filled_at = now;
    }

    /// Returns the seconds until the bucket has time again.
    fn wait(&self) -> f64 {
        if self.seconds > 0.0 { 0.0 } else { (1e-9 - self.seconds) / self.rate }
    }
}

/// The decision on a request of a guest.
pub(super) enum Verdict {
    /// The request is answered at once.
    Now,
    /// The request is in the FIFO.
    Later,
    /// The request is refused, because too many requests wait. The guest can try again after this number of seconds.
    Full(f64),
}

/// The requests that wait, and the buckets that are not full.
pub(super) struct Pace<T> {
    buckets: HashMap<u32, Bucket>,
    shared: Bucket,
    /// Delayed requests and their guests, in the order of arrival.
    line: VecDeque<(u32, T)>,
    /// Requests that wait until the job manager answers a question of the plugin. A request of an owner has no guest.
    parked: Vec<(Option<u32>, T)>,
}

impl<T> Default for Pace<T> {
    fn default() -> Self {
        let shared = Bucket { rate: SHARED_RATE, seconds: FULL, filled_at: 0.0 };
        Pace { buckets: HashMap::new(), shared, line: VecDeque::new(), parked: Vec::new() }
    }
}

impl<T> Pace<T> {
    /// Decides on a request of `user` at `now`. If the request is delayed, adds the result of `keep` to the FIFO.
    pub fn admit(&mut self, user: u32, now: f64, keep: impl FnOnce() -> T) -> Verdict {
        self.refill(now);
        let wait = self.wait(user);
        let parked = self.parked.iter().filter(|(guest, _)| *guest == Some(user)).count();
        let delayed = self.line.iter().filter(|(guest, _)| *guest == user).count();
        if parked + delayed >= MOST_OF_ONE || self.waiting() >= MOST_OF_ALL {
            return Verdict::Full(wait.ceil().max(1.0));
        }
        if wait <= 0.0 && self.line.is_empty() {
            return Verdict::Now;
        }
        self.line.push_back((user, keep()));
        Verdict::Later
    }

    /// Subtracts the time of an answer from the guest's bucket and from the shared one.
    pub fn charge(&mut self, user: u32, now: f64, seconds: f64) {
        self.refill(now);
        let full = Bucket { rate: OWN_RATE, seconds: FULL, filled_at: now };
        for bucket in [self.buckets.entry(user).or_insert(full), &mut self.shared] {
            bucket.seconds -= seconds + OVERHEAD;
        }
    }

    /// Stops answers to guests for `PAUSE` after a panic. A second panic does not extend the pause, so guests get
    /// answers however often other calls panic.
    pub fn pause(&mut self, now: f64) {
        self.refill(now);
        if self.shared.seconds > 0.0 {
            self.shared.seconds = -PAUSE * SHARED_RATE;
        }
    }

    /// Removes and returns the next delayed request, or `None` if no guest with a delayed request may be answered. The
    /// guest with the fullest bucket comes first, so that no guest waits for all requests of a busier guest.
    pub fn take_next(&mut self, now: f64) -> Option<T> {
        self.refill(now);
        let level = |user| self.buckets.get(user).map_or(FULL, |bucket| bucket.seconds);
        let levels = self.line.iter().map(|(user, _)| level(user)).enumerate();
        // `max_by` returns the last of equal levels, so this reads the FIFO from its end.
        let (index, fullest) = levels.rev().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        if fullest.min(self.shared.seconds) <= 0.0 {
            return None;
        }
        self.line.remove(index).map(|(_, item)| item)
    }

    /// Returns the seconds until [`Pace::take_next`] returns a request, or `None` if the FIFO is empty.
    pub fn seconds_to_next(&mut self, now: f64) -> Option<f64> {
        self.refill(now);
        self.line.iter().map(|(user, _)| self.wait(*user)).min_by(f64::total_cmp)
    }

    /// Stores a request until [`Pace::unpark`].
    pub fn park(&mut self, guest: Option<u32>, item: T) {
        self.parked.push((guest, item));
    }

    /// Puts the parked requests of guests before all delayed ones, and returns those of owners.
    pub fn unpark(&mut self) -> Vec<T> {
        let parked = std::mem::take(&mut self.parked).into_iter();
        let (guests, owners): (Vec<_>, Vec<_>) = parked.partition(|(guest, _)| guest.is_some());
        let guests = guests.into_iter().filter_map(|(guest, item)| Some((guest?, item)));
        self.line = guests.chain(std::mem::take(&mut self.line)).collect();
        owners.into_iter().map(|(_, item)| item).collect()
    }

    /// Returns how many requests are delayed or parked.
    pub fn waiting(&self) -> usize {
        self.line.len() + self.parked.len()
    }

    /// Refills all buckets, and drops those that are full.
    fn refill(&mut self, now: f64) {
        self.shared.refill(now);
        self.buckets.retain(|_, bucket| {
            bucket.refill(now);
            bucket.seconds < FULL
        });
    }

    /// Returns the seconds until the guest's bucket and the shared one both have time.
    fn wait(&self, user: u32) -> f64 {
        self.buckets.get(&user).map_or(0.0, Bucket::wait).max(self.shared.wait())
    }
}

#[cfg(test)]
mod tests {
    use super::{FULL, MOST_OF_ALL, MOST_OF_ONE, OWN_RATE, PAUSE, Pace, SHARED_RATE, Verdict};
    use proptest::prelude::*;

    /// Simulates `guests` that send the next request after each answer, for `seconds`. Returns the number of answers of
    /// each guest, and the seconds of all answers.
    fn flood(guests: u32, cost: f64, seconds: f64) -> (Vec<usize>, f64) {
        let mut pace = Pace::default();
        let (mut answers, mut spent, mut now) = (vec![0; guests as usize], 0.0, 1000.0);
        for user in 0..guests {
            assert!(!matches!(pace.admit(user, now, || user), Verdict::Full(_)));
        }
        // The first requests were answered and not charged. Each guest asks until a request is delayed.
        for user in 0..guests {
            while let Verdict::Now = pace.admit(user, now, || user) {
                pace.charge(user, now, cost);
                (answers[user as usize], spent) = (answers[user as usize] + 1, spent + cost);
            }
        }
        while now < 1000.0 + seconds {
            while let Some(user) = pace.take_next(now) {
                pace.charge(user, now, cost);
                (answers[user as usize], spent) = (answers[user as usize] + 1, spent + cost);
                pace.admit(user, now, || user);
            }
            now += pace.seconds_to_next(now).unwrap().clamp(1e-6, 1.0);
        }
        (answers, spent)
    }

    #[test]
    fn guests_that_ask_without_pause_take_only_their_share_of_time() {
        let (answers, spent) = flood(100, 1e-3, 100.0);
        assert!(spent <= FULL + 100.0 * SHARED_RATE + 0.01, "{spent}");
        assert!(spent >= 0.8 * 100.0 * SHARED_RATE, "{spent}");
        // No guest gets many more answers than another.
        let (least, most) = (answers.iter().min().unwrap(), answers.iter().max().unwrap());
        assert!(*least >= 40 && most - least <= 260, "{least} {most}");
        let (_, spent_by_guest) = flood(1, 1e-3, 100.0);
        assert!(spent_by_guest <= FULL + 100.0 * OWN_RATE + 0.01, "{spent_by_guest}");
    }

    #[test]
    fn waiting_requests_are_bounded_and_a_refusal_names_the_wait() {
        let mut pace = Pace::default();
        let (mut later, mut refused) = (0, 0);
        for user in 0..1000 {
            for _ in 0..2 * MOST_OF_ONE {
                match pace.admit(user, 0.0, || user) {
                    Verdict::Now => pace.charge(user, 0.0, 1.0),
                    Verdict::Later => later += 1,
                    Verdict::Full(seconds) => {
                        assert!(seconds >= 1.0);
                        refused += 1;
                    }
                }
            }
        }
        assert_eq!((later, pace.waiting()), (MOST_OF_ALL, MOST_OF_ALL));
        assert!(refused > 0);
        // The bucket of a guest that asks every ten seconds is full again, and is dropped.
        let mut pace: Pace<u32> = Pace::default();
        for user in 0..10_000 {
            let now = f64::from(user) * 10.0;
            assert!(matches!(pace.admit(user, now, || user), Verdict::Now));
            pace.charge(user, now, 1e-3);
        }
        assert!(pace.buckets.len() < 300, "{}", pace.buckets.len());
    }

    #[test]
    fn parked_requests_count_as_waiting_and_keep_their_order() {
        let mut pace = Pace::default();
        for number in 0..MOST_OF_ONE {
            assert!(matches!(pace.admit(7, 0.0, || number), Verdict::Now), "{number}");
            pace.park(Some(7), number);
        }
        assert!(matches!(pace.admit(7, 0.0, || 99), Verdict::Full(_)));
        assert!(matches!(pace.admit(8, 0.0, || 99), Verdict::Now), "other guests are answered");
        assert_eq!(
            (pace.waiting(), pace.seconds_to_next(0.0)),
            (MOST_OF_ONE, None),
            "nothing can be answered yet"
        );
        pace.park(None, 100);
        assert_eq!(pace.unpark(), [100], "an owner does not wait for a guest's bucket");
        // The bucket of guest 7 is empty now.
        pace.charge(7, 0.0, 2.0 * FULL);
        assert_eq!((pace.waiting(), pace.take_next(0.0)), (MOST_OF_ONE, None));
        let later = pace.seconds_to_next(0.0).unwrap() + 1e-6;
        let got: Vec<usize> = std::iter::from_fn(|| pace.take_next(later)).collect();
        assert_eq!((got, pace.waiting()), ((0..MOST_OF_ONE).collect(), 0));
    }

    #[test]
    fn a_guest_with_one_request_does_not_wait_for_all_requests_of_another() {
        let mut pace = Pace::default();
        pace.charge(7, 0.0, 1.2 * FULL);
        for number in 0..MOST_OF_ONE {
            assert!(matches!(pace.admit(7, 0.0, || number), Verdict::Later), "{number}");
        }
        assert!(matches!(pace.admit(8, 0.0, || 99), Verdict::Later));
        assert_eq!([0.0, 10.0, 10.0].map(|now| pace.take_next(now)), [None, Some(99), Some(0)]);
    }

    #[test]
    fn a_panic_stops_answers_to_guests_for_a_second_and_no_longer() {
        let mut pace = Pace::default();
        let (start, mut turns) = (1000.0, Vec::new());
        assert!(matches!(pace.admit(7, start, || 0), Verdict::Now));
        pace.charge(7, start, FULL + 1e-6);
        for number in 1..=4 {
            assert!(matches!(pace.admit(7, start, || number), Verdict::Later));
        }
        // A second later no bucket is empty. A call panics every 0.3 s, and the timer fires every 0.1 s.
        for tenth in 0..30 {
            let now = start + 1.0 + f64::from(tenth) / 10.0;
            if tenth % 3 == 0 {
                pace.pause(now);
            }
            assert!(pace.seconds_to_next(now).is_none_or(|due| due <= PAUSE + 1e-6), "{now}");
            turns.extend(pace.take_next(now + 0.01).map(|_| tenth));
        }
        assert_eq!(turns, [10, 11, 22, 23]);
        assert!(matches!(pace.admit(7, start + 5.0, || 3), Verdict::Now));
        // After the clock is set back, a guest does not wait until the clock reaches the former time again.
        pace.charge(7, start + 5.0, 2.0 * FULL);
        assert!(matches!(pace.admit(7, start + 5.0, || 4), Verdict::Later));
        pace.pause(start + 100.0);
        let due = pace.seconds_to_next(start + 50.0).unwrap();
        assert_eq!(pace.take_next(start + 50.0 + due), Some(4));
    }

    proptest! {
        #[test]
        fn each_delayed_request_is_answered_once_and_in_order(asks in prop::collection::vec((0u32..5, 0.0..0.2f64, -1.0..2.0f64), 1..200)) {
            let mut pace = Pace::default();
            let (mut now, mut delayed, mut got) = (0.0, Vec::new(), Vec::new());
            for (number, (user, cost, step)) in asks.into_iter().enumerate() {
                // The clock is sometimes set back.
                now += step;
                match pace.admit(user, now, || (user, number)) {
                    Verdict::Now => pace.charge(user, now, cost),
                    Verdict::Later => delayed.push((user, number)),
                    Verdict::Full(_) => {}
                }
                if let Some(next) = pace.take_next(now) {
                    pace.charge(next.0, now, cost);
                    got.push(next);
                }
            }
            while let Some(due) = pace.seconds_to_next(now) {
                now += due.max(1e-6);
                got.extend(pace.take_next(now));
            }
            // The requests of each user are answered in the order in which they came.
            for user in 0..5 {
                let of_user = |list: &[(u32, usize)]| list.iter().filter(|entry| entry.0 == user).map(|entry| entry.1).collect::<Vec<_>>();
                prop_assert_eq!(of_user(&got), of_user(&delayed));
            }
            prop_assert_eq!(pace.waiting(), 0);
        }
    }
}
