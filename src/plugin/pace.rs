// SPDX-License-Identifier: LGPL-3.0-only
//! Limits how much of the job manager's time the requests of guests take. Each guest has a token bucket, and all
//! guests share a further bucket. If the bucket of a guest is empty, the requests of this guest wait in a FIFO. The
//! wait slows down a client that sends its next request after each answer. A refusal would make such a client retry
//! at once.

use std::collections::{HashMap, VecDeque};

/// The refill rate of a guest's token bucket, in seconds of the job manager's time per second.
const OWN_RATE: f64 = 0.01;
/// The refill rate of the token bucket that all guests share, in seconds of the job manager's time per
/// second.
const SHARED_RATE: f64 = 0.05;
/// The capacity of a token bucket, in seconds of the job manager's time. A full bucket is enough for a list
/// of 20,000 jobs.
const FULL_SECONDS: f64 = 0.25;
/// The maximum number of delayed and parked requests of one guest.
const MAX_OF_ONE_GUEST: usize = 8;
/// The maximum number of delayed and parked requests of all users.
const MAX_OF_ALL_USERS: usize = 1024;
/// The seconds that it takes to receive a request and to send its answer.
const OVERHEAD: f64 = 50e-6;
/// The seconds after a panic in which the plugin answers no guest. So a request whose answer always panics causes
/// at most one panic in this time.
const PAUSE_SECONDS: f64 = 1.0;

struct Bucket {
    rate: f64,
    seconds: f64,
    filled_at: f64,
}

impl Bucket {
    /// Refills the token bucket for the time since the last call. If the clock was set back, adds nothing.
    fn refill(&mut self, now: f64) {
        self.seconds = (self.seconds + (now - self.filled_at).max(0.0) * self.rate).min(FULL_SECONDS);
        self.filled_at = now;
    }

    /// Returns the seconds until the token bucket is no longer empty.
    fn seconds_to_credit(&self) -> f64 {
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

/// The delayed and parked requests, and the buckets that are not full.
pub(super) struct Pace<T> {
    buckets: HashMap<u32, Bucket>,
    shared: Bucket,
    /// Delayed requests and their guests, in the order of arrival.
    fifo: VecDeque<(u32, T)>,
    /// Requests that wait for a reply of the job manager to the plugin. The first field is the user id of the guest who
    /// sent the request, or `None` for the instance owner and admins.
    parked: Vec<(Option<u32>, T)>,
}

impl<T> Default for Pace<T> {
    fn default() -> Self {
        let shared = Bucket { rate: SHARED_RATE, seconds: FULL_SECONDS, filled_at: 0.0 };
        Pace { buckets: HashMap::new(), shared, fifo: VecDeque::new(), parked: Vec::new() }
    }
}

impl<T> Pace<T> {
    /// Decides on a request of `user` at `now`. If the request is delayed, adds the result of `make_request` to the
    /// FIFO.
    pub fn admit(&mut self, user: u32, now: f64, make_request: impl FnOnce() -> T) -> Verdict {
        self.refill(now);
        let seconds = self.seconds_until_answer(user);
        let parked = self.parked.iter().filter(|(guest, _)| *guest == Some(user)).count();
        let delayed = self.fifo.iter().filter(|(guest, _)| *guest == user).count();
        if parked + delayed >= MAX_OF_ONE_GUEST || self.count_waiting() >= MAX_OF_ALL_USERS {
            return Verdict::Full(seconds.ceil().max(1.0));
        }
        if seconds <= 0.0 && self.fifo.is_empty() {
            return Verdict::Now;
        }
        self.fifo.push_back((user, make_request()));
        Verdict::Later
    }

    /// Subtracts the time of an answer from the guest's bucket and from the shared bucket.
    pub fn charge(&mut self, user: u32, now: f64, seconds: f64) {
        self.refill(now);
        let full_bucket = Bucket { rate: OWN_RATE, seconds: FULL_SECONDS, filled_at: now };
        for bucket in [self.buckets.entry(user).or_insert(full_bucket), &mut self.shared] {
            bucket.seconds -= seconds + OVERHEAD;
        }
    }

    /// Stops answers to guests for `PAUSE_SECONDS` after a panic. Further panics do not extend the pause, so guests get
    /// answers even if panics continue.
    pub fn pause(&mut self, now: f64) {
        self.refill(now);
        if self.shared.seconds > 0.0 {
            self.shared.seconds = -PAUSE_SECONDS * SHARED_RATE;
        }
    }

    /// Removes and returns the next delayed request, or `None` if no guest with a delayed request may be answered. The
    /// guest with the fullest bucket comes first, so that no guest waits for all requests of a busier guest.
    pub fn take_next(&mut self, now: f64) -> Option<T> {
        self.refill(now);
        let level = |user| self.buckets.get(user).map_or(FULL_SECONDS, |bucket| bucket.seconds);
        let levels = self.fifo.iter().map(|(user, _)| level(user)).enumerate();
        // If several buckets are equally full, `max_by` returns the last of them. The iterator is reversed, so the last
        // bucket belongs to the oldest request.
        let (index, fullest) = levels.rev().max_by(|(_, a), (_, b)| a.total_cmp(b))?;
        if fullest.min(self.shared.seconds) <= 0.0 {
            return None;
        }
        self.fifo.remove(index).map(|(_, item)| item)
    }

    /// Returns the seconds until [`Pace::take_next`] returns a request, or `None` if the FIFO is empty.
    pub fn seconds_to_next(&mut self, now: f64) -> Option<f64> {
        self.refill(now);
        self.fifo.iter().map(|(user, _)| self.seconds_until_answer(*user)).min_by(f64::total_cmp)
    }

    /// Stores a request until [`Pace::unpark`].
    pub fn park(&mut self, guest: Option<u32>, item: T) {
        self.parked.push((guest, item));
    }

    /// Moves the parked requests of guests to the front of the delayed requests, and returns the parked
    /// requests of owners.
    pub fn unpark(&mut self) -> Vec<T> {
        let parked = std::mem::take(&mut self.parked).into_iter();
        let (guests, owners): (Vec<_>, Vec<_>) = parked.partition(|(guest, _)| guest.is_some());
        let guests = guests.into_iter().filter_map(|(guest, item)| Some((guest?, item)));
        self.fifo = guests.chain(std::mem::take(&mut self.fifo)).collect();
        owners.into_iter().map(|(_, item)| item).collect()
    }

    /// Returns how many requests are delayed or parked.
    pub fn count_waiting(&self) -> usize {
        self.fifo.len() + self.parked.len()
    }

    /// Refills all buckets, and drops full buckets.
    fn refill(&mut self, now: f64) {
        self.shared.refill(now);
        self.buckets.retain(|_, bucket| {
            bucket.refill(now);
            bucket.seconds < FULL_SECONDS
        });
    }

    /// Returns the seconds until neither the guest's bucket nor the shared bucket is empty.
    fn seconds_until_answer(&self, user: u32) -> f64 {
        self.buckets.get(&user).map_or(0.0, Bucket::seconds_to_credit).max(self.shared.seconds_to_credit())
    }
}

#[cfg(test)]
mod tests {
    use super::{
        FULL_SECONDS, MAX_OF_ALL_USERS, MAX_OF_ONE_GUEST, OWN_RATE, PAUSE_SECONDS, Pace, SHARED_RATE, Verdict,
    };
    use proptest::prelude::*;

    /// Simulates `guests` guests for `seconds`. Each guest sends its next request after each answer. Returns
    /// the number of answers of each guest, and the seconds of all answers.
    fn simulate_flood(guests: u32, cost: f64, seconds: f64) -> (Vec<usize>, f64) {
        let mut pace = Pace::default();
        let (mut answers, mut spent, mut now) = (vec![0; guests as usize], 0.0, 1000.0);
        for user in 0..guests {
            assert!(!matches!(pace.admit(user, now, || user), Verdict::Full(_)));
        }
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
    fn guests_that_send_requests_without_pause_get_a_limited_part_of_the_time() {
        let (answers, spent) = simulate_flood(100, 1e-3, 100.0);
        assert!(spent <= FULL_SECONDS + 100.0 * SHARED_RATE + 0.01, "{spent}");
        assert!(spent >= 0.8 * 100.0 * SHARED_RATE, "{spent}");
        // All guests get about the same number of answers.
        let (least, most) = (answers.iter().min().unwrap(), answers.iter().max().unwrap());
        assert!(*least >= 40 && most - least <= 260, "{least} {most}");
        let (_, spent_by_guest) = simulate_flood(1, 1e-3, 100.0);
        assert!(spent_by_guest <= FULL_SECONDS + 100.0 * OWN_RATE + 0.01, "{spent_by_guest}");
    }

    #[test]
    fn requests_beyond_the_waiting_limit_are_refused_with_a_delay() {
        let mut pace = Pace::default();
        let (mut later, mut refused) = (0, 0);
        for user in 0..1000 {
            for _ in 0..2 * MAX_OF_ONE_GUEST {
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
        assert_eq!((later, pace.count_waiting()), (MAX_OF_ALL_USERS, MAX_OF_ALL_USERS));
        assert!(refused > 0);
        // When a guest's token bucket is full again, the bucket is dropped.
        let mut pace: Pace<u32> = Pace::default();
        for user in 0..10_000 {
            let now = f64::from(user) * 10.0;
            assert!(matches!(pace.admit(user, now, || user), Verdict::Now));
            pace.charge(user, now, 1e-3);
        }
        assert!(pace.buckets.len() < 300, "{}", pace.buckets.len());
    }

    #[test]
    fn requests_that_need_queue_states_wait_and_keep_their_order() {
        let mut pace = Pace::default();
        for number in 0..MAX_OF_ONE_GUEST {
            assert!(matches!(pace.admit(7, 0.0, || number), Verdict::Now), "{number}");
            pace.park(Some(7), number);
        }
        assert!(matches!(pace.admit(7, 0.0, || 99), Verdict::Full(_)));
        assert!(matches!(pace.admit(8, 0.0, || 99), Verdict::Now), "other guests are answered");
        assert_eq!(
            (pace.count_waiting(), pace.seconds_to_next(0.0)),
            (MAX_OF_ONE_GUEST, None),
            "nothing can be answered yet"
        );
        pace.park(None, 100);
        assert_eq!(pace.unpark(), [100], "an owner does not wait for a guest's bucket");
        // The bucket of guest 7 is empty now.
        pace.charge(7, 0.0, 2.0 * FULL_SECONDS);
        assert_eq!((pace.count_waiting(), pace.take_next(0.0)), (MAX_OF_ONE_GUEST, None));
        let later = pace.seconds_to_next(0.0).unwrap() + 1e-6;
        let answered: Vec<usize> = std::iter::from_fn(|| pace.take_next(later)).collect();
        assert_eq!((answered, pace.count_waiting()), ((0..MAX_OF_ONE_GUEST).collect(), 0));
    }

    #[test]
    fn a_guest_with_one_request_does_not_wait_for_all_requests_of_another() {
        let mut pace = Pace::default();
        pace.charge(7, 0.0, 1.2 * FULL_SECONDS);
        for number in 0..MAX_OF_ONE_GUEST {
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
        pace.charge(7, start, FULL_SECONDS + 1e-6);
        for number in 1..=4 {
            assert!(matches!(pace.admit(7, start, || number), Verdict::Later));
        }
        // One second later, no bucket is empty. In the next 3 s, the timer fires every 0.1 s, and a call panics every
        // 0.3 s.
        for tenth in 0..30 {
            let now = start + 1.0 + f64::from(tenth) / 10.0;
            if tenth % 3 == 0 {
                pace.pause(now);
            }
            assert!(pace.seconds_to_next(now).is_none_or(|due| due <= PAUSE_SECONDS + 1e-6), "{now}");
            turns.extend(pace.take_next(now + 0.01).map(|_| tenth));
        }
        assert_eq!(turns, [10, 11, 22, 23]);
        assert!(matches!(pace.admit(7, start + 5.0, || 3), Verdict::Now));
        // After the clock is set back, a guest must not wait until the clock shows the old time again.
        pace.charge(7, start + 5.0, 2.0 * FULL_SECONDS);
        assert!(matches!(pace.admit(7, start + 5.0, || 4), Verdict::Later));
        pace.pause(start + 100.0);
        let due = pace.seconds_to_next(start + 50.0).unwrap();
        assert_eq!(pace.take_next(start + 50.0 + due), Some(4));
    }

    proptest! {
        #[test]
        fn each_delayed_request_is_answered_once_and_in_order(asks in prop::collection::vec((0u32..5, 0.0..0.2f64, -1.0..2.0f64), 1..200)) {
            let mut pace = Pace::default();
            let (mut now, mut delayed, mut answered) = (0.0, Vec::new(), Vec::new());
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
                    answered.push(next);
                }
            }
            while let Some(due) = pace.seconds_to_next(now) {
                now += due.max(1e-6);
                answered.extend(pace.take_next(now));
            }
            // The requests of each user are answered in the order in which they came.
            for user in 0..5 {
                let of_user = |list: &[(u32, usize)]| list.iter().filter(|entry| entry.0 == user).map(|entry| entry.1).collect::<Vec<_>>();
                prop_assert_eq!(of_user(&answered), of_user(&delayed));
            }
            prop_assert_eq!(pace.count_waiting(), 0);
        }
    }
}
