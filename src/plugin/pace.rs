// SPDX-License-Identifier: LGPL-3.0-only
//! How fast guests are answered. A guest has credit, and so have all of them together: seconds of the job manager's time, which come
//! back as time goes on. Who has none left waits, and is answered in turn: a client that asks again as soon as it is answered is
//! slowed down by that, at the price of nothing. A refusal would have it ask at once.

use std::collections::{HashMap, VecDeque};

/// How fast credit comes back, and how much of it there can be.
#[derive(Clone, Copy, Debug)]
struct Rate {
    /// Seconds a second.
    per_second: f64,
    most: f64,
}

/// One guest: the hundredth part of the job manager's time. What he may have at once is a list of 20,000 jobs.
const ONE: Rate = Rate { per_second: 0.01, most: 0.25 };
/// All of them.
const ALL: Rate = Rate { per_second: 0.05, most: 0.25 };
/// Requests that may wait.
const MOST_OF_ONE: usize = 8;
const MOST_OF_ALL: usize = 1024;
/// What receiving and sending cost beside the answer itself.
const OVERHEAD: f64 = 50e-6;
/// Seconds in which nobody's turn comes after a panic: what panics whenever requests are answered does so once in that time.
const PAUSE: f64 = 1.0;
/// So many guests with less than full credit are kept before those are forgotten that have it again.
const MOST_KEPT: usize = 256;

#[derive(Clone, Copy, Debug)]
struct Credit {
    seconds: f64,
    at: f64,
}

impl Credit {
    fn full(rate: Rate, now: f64) -> Credit {
        Credit { seconds: rate.most, at: now }
    }

    /// What there is at an instant; a clock that was set back gives nothing and takes nothing.
    fn on(self, rate: Rate, now: f64) -> Credit {
        let passed = (now - self.at).max(0.0);
        Credit { seconds: (self.seconds + passed * rate.per_second).min(rate.most), at: now }
    }

    /// Seconds until there is any.
    fn wait(self, rate: Rate) -> f64 {
        if self.seconds > 0.0 { 0.0 } else { (-self.seconds + 1e-9) / rate.per_second }
    }
}

struct Guest<T> {
    credit: Credit,
    line: VecDeque<T>,
    /// Requests that had their turn, and wait for something else.
    aside: usize,
}

impl<T> Guest<T> {
    fn requests(&self) -> usize {
        self.line.len() + self.aside
    }
}

/// What is to be done with a request.
pub(super) enum Verdict {
    /// Answer it.
    Now,
    /// It was taken over.
    Later,
    /// Refuse it: there is no room for it. After so many seconds there may be.
    Full(f64),
}

/// Who waits, and what everybody has left.
pub(super) struct Pace<T> {
    guests: HashMap<u32, Guest<T>>,
    all: Option<Credit>,
    /// Guests who wait, in turn.
    turns: VecDeque<u32>,
    /// Requests of all of them, in line and set aside.
    waiting: usize,
    /// The instant when turns go on after a panic.
    goes_on: Option<f64>,
}

impl<T> Default for Pace<T> {
    fn default() -> Self {
        Pace { guests: HashMap::new(), all: None, turns: VecDeque::new(), waiting: 0, goes_on: None }
    }
}

impl<T> Pace<T> {
    /// A request of a guest has come; `keep` puts it aside.
    pub fn ask(&mut self, user: u32, now: f64, keep: impl FnOnce() -> T) -> Verdict {
        let all = self.all(now);
        if self.guests.len() > MOST_KEPT {
            self.guests
                .retain(|_, guest| guest.requests() > 0 || guest.credit.on(ONE, now).seconds < ONE.most);
        }
        let guest = self.guests.entry(user);
        let guest = guest.or_insert_with(|| Guest {
            credit: Credit::full(ONE, now),
            line: VecDeque::new(),
            aside: 0,
        });
        guest.credit = guest.credit.on(ONE, now);
        let is_full = guest.requests() >= MOST_OF_ONE || self.waiting >= MOST_OF_ALL;
        if !is_full && self.turns.is_empty() && guest.credit.seconds > 0.0 && all.seconds > 0.0 {
            return Verdict::Now;
        }
        if is_full {
            let each = ONE.per_second.recip() * OVERHEAD * guest.requests() as f64;
            return Verdict::Full((guest.credit.wait(ONE) + all.wait(ALL) + each).ceil().max(1.0));
        }
        if guest.line.is_empty() {
            self.turns.push_back(user);
        }
        guest.line.push_back(keep());
        self.waiting += 1;
        Verdict::Later
    }

    /// A request that was let through waits for something else, and counts as waiting meanwhile.
    pub fn set_aside(&mut self, user: u32) {
        if let Some(guest) = self.guests.get_mut(&user) {
            guest.aside += 1;
            self.waiting += 1;
        }
    }

    /// One that was set aside can be answered: it is the guest's next.
    pub fn back(&mut self, user: u32, item: T) {
        let Some(guest) = self.guests.get_mut(&user) else { return };
        guest.aside = guest.aside.saturating_sub(1);
        if guest.line.is_empty() {
            self.turns.push_back(user);
        }
        guest.line.push_front(item);
    }

    /// What an answer to a guest took.
    pub fn charge(&mut self, user: u32, now: f64, seconds: f64) {
        let cost = seconds + OVERHEAD;
        let mut all = self.all(now);
        all.seconds -= cost;
        self.all = Some(all);
        if let Some(guest) = self.guests.get_mut(&user) {
            guest.credit = guest.credit.on(ONE, now);
            guest.credit.seconds -= cost;
        }
    }

    /// After a panic. A pause is never lengthened, so that panics elsewhere, however often, keep nobody from his turn.
    pub fn pause(&mut self, now: f64) {
        if self.paused(now) <= 0.0 {
            self.goes_on = Some(now + PAUSE);
        }
    }

    /// Seconds that are left of a pause; a clock that was set back ends it.
    fn paused(&self, now: f64) -> f64 {
        let left = self.goes_on.map_or(0.0, |goes_on| goes_on - now);
        if left > PAUSE { 0.0 } else { left.max(0.0) }
    }

    /// The next that is to be answered.
    pub fn next(&mut self, now: f64) -> Option<T> {
        if self.all(now).seconds <= 0.0 || self.paused(now) > 0.0 {
            return None;
        }
        for _ in 0..self.turns.len() {
            let user = self.turns.pop_front()?;
            let Some(guest) = self.guests.get_mut(&user) else { continue };
            guest.credit = guest.credit.on(ONE, now);
            let item = if guest.credit.seconds > 0.0 { guest.line.pop_front() } else { None };
            if !guest.line.is_empty() {
                self.turns.push_back(user);
            }
            if item.is_some() {
                self.waiting -= 1;
                return item;
            }
        }
        None
    }

    /// In how many seconds to look again; `None` if nobody waits.
    pub fn due(&mut self, now: f64) -> Option<f64> {
        let all = self.all(now).wait(ALL);
        let wait = |user: &u32| self.guests.get(user).map(|guest| guest.credit.on(ONE, now).wait(ONE));
        let first = self.turns.iter().filter_map(wait).min_by(f64::total_cmp)?;
        Some(first.max(all).max(self.paused(now)))
    }

    /// How many requests wait, in line and set aside.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn all(&mut self, now: f64) -> Credit {
        let all = self.all.unwrap_or(Credit::full(ALL, now)).on(ALL, now);
        self.all = Some(all);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::{ALL, MOST_OF_ALL, MOST_OF_ONE, ONE, PAUSE, Pace, Verdict};
    use proptest::prelude::*;

    /// Guests who ask again as soon as they are answered, for so many seconds: how many answers each got, and their cost.
    fn flood(guests: u32, cost: f64, seconds: f64) -> (Vec<usize>, f64) {
        let mut pace = Pace::default();
        let (mut answers, mut spent, mut now) = (vec![0; guests as usize], 0.0, 1000.0);
        for user in 0..guests {
            assert!(!matches!(pace.ask(user, now, || user), Verdict::Full(_)));
        }
        // Those that were answered at once were so for nothing: it takes one request more to have them wait.
        for user in 0..guests {
            while let Verdict::Now = pace.ask(user, now, || user) {
                pace.charge(user, now, cost);
                (answers[user as usize], spent) = (answers[user as usize] + 1, spent + cost);
            }
        }
        while now < 1000.0 + seconds {
            while let Some(user) = pace.next(now) {
                pace.charge(user, now, cost);
                (answers[user as usize], spent) = (answers[user as usize] + 1, spent + cost);
                pace.ask(user, now, || user);
            }
            now += pace.due(now).unwrap().clamp(1e-6, 1.0);
        }
        (answers, spent)
    }

    #[test]
    fn a_flood_takes_no_more_than_its_part() {
        let (answers, spent) = flood(100, 1e-3, 100.0);
        assert!(spent <= ALL.most + 100.0 * ALL.per_second + 0.01, "{spent}");
        assert!(spent >= 0.8 * 100.0 * ALL.per_second, "{spent}");
        // Turns are fair, whoever asked first.
        let (least, most) = (answers.iter().min().unwrap(), answers.iter().max().unwrap());
        assert!(*least >= 40 && most - least <= 260, "{least} {most}");
        let (_, one) = flood(1, 1e-3, 100.0);
        assert!(one <= ONE.most + 100.0 * ONE.per_second + 0.01, "{one}");
    }

    #[test]
    fn what_waits_is_bounded_and_the_rest_is_told_when() {
        let mut pace = Pace::default();
        let (mut later, mut refused) = (0, 0);
        for user in 0..1000 {
            for _ in 0..2 * MOST_OF_ONE {
                match pace.ask(user, 0.0, || user) {
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
        // Who comes once in a while finds nobody kept.
        let mut pace: Pace<u32> = Pace::default();
        for user in 0..10_000 {
            let now = f64::from(user) * 10.0;
            assert!(matches!(pace.ask(user, now, || user), Verdict::Now));
            pace.charge(user, now, 1e-3);
        }
        assert!(pace.guests.len() < 300, "{}", pace.guests.len());
    }

    #[test]
    fn what_is_set_aside_waits_too() {
        let mut pace = Pace::default();
        for number in 0..MOST_OF_ONE {
            assert!(matches!(pace.ask(7, 0.0, || number), Verdict::Now), "{number}");
            pace.set_aside(7);
        }
        assert!(matches!(pace.ask(7, 0.0, || 99), Verdict::Full(_)));
        assert!(matches!(pace.ask(8, 0.0, || 99), Verdict::Now), "others may go on");
        assert_eq!((pace.waiting(), pace.due(0.0)), (MOST_OF_ONE, None), "nothing can be answered yet");
        for number in (0..MOST_OF_ONE).rev() {
            pace.back(7, number);
        }
        // Who has used up his credit waits for it now.
        pace.charge(7, 0.0, 2.0 * ONE.most);
        assert_eq!((pace.waiting(), pace.next(0.0)), (MOST_OF_ONE, None));
        let later = pace.due(0.0).unwrap() + 1e-6;
        let got: Vec<usize> = std::iter::from_fn(|| pace.next(later)).collect();
        assert_eq!((got, pace.waiting()), ((0..MOST_OF_ONE).collect(), 0));
    }

    #[test]
    fn a_panic_puts_turns_off_for_a_second_and_no_longer() {
        let mut pace = Pace::default();
        let (start, mut turns) = (1000.0, Vec::new());
        assert!(matches!(pace.ask(7, start, || 0), Verdict::Now));
        pace.charge(7, start, ONE.most + 1e-6);
        for number in 1..=4 {
            assert!(matches!(pace.ask(7, start, || number), Verdict::Later));
        }
        // One panic every three tenths of a second, whatever was asked; each tenth somebody looks whose turn it is.
        for tenth in 0..30 {
            let now = start + f64::from(tenth) / 10.0;
            if tenth % 3 == 0 {
                pace.pause(now);
            }
            assert!(pace.due(now).is_none_or(|due| due <= PAUSE), "{now}");
            turns.extend(pace.next(now + 0.01).map(|_| tenth));
        }
        assert_eq!(turns, [10, 11, 22, 23]);
        assert!(matches!(pace.ask(7, start + 5.0, || 3), Verdict::Now));
        // A clock that was set back has nobody wait for the time that it shows again.
        pace.charge(7, start + 5.0, 2.0 * ONE.most);
        assert!(matches!(pace.ask(7, start + 5.0, || 4), Verdict::Later));
        pace.pause(start + 100.0);
        let due = pace.due(start + 50.0).unwrap();
        assert_eq!(pace.next(start + 50.0 + due), Some(4));
    }

    proptest! {
        #[test]
        fn whoever_waits_is_answered_once(asks in prop::collection::vec((0u32..5, 0.0..0.2f64, -1.0..2.0f64), 1..200)) {
            let mut pace = Pace::default();
            let (mut now, mut kept, mut got) = (0.0, Vec::new(), Vec::new());
            for (number, (user, cost, step)) in asks.into_iter().enumerate() {
                // Clocks are set back, too.
                now += step;
                match pace.ask(user, now, || (user, number)) {
                    Verdict::Now => pace.charge(user, now, cost),
                    Verdict::Later => kept.push((user, number)),
                    Verdict::Full(_) => {}
                }
                if let Some(next) = pace.next(now) {
                    pace.charge(next.0, now, cost);
                    got.push(next);
                }
            }
            while let Some(due) = pace.due(now) {
                now += due.max(1e-6);
                got.extend(pace.next(now));
            }
            // Of each user in the order in which they came.
            for user in 0..5 {
                let of = |list: &[(u32, usize)]| list.iter().filter(|it| it.0 == user).map(|it| it.1).collect::<Vec<_>>();
                prop_assert_eq!(of(&got), of(&kept));
            }
            prop_assert_eq!(pace.waiting(), 0);
        }
    }
}
