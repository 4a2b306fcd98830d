// SPDX-License-Identifier: LGPL-3.0-only
//! A model of Flux for a benchmark: it applies the effects of the engine.

use super::site::T0;
use fairshare_benches::processor::used;
use fairshare_benches::records;
use fairshare_engine::accounts::PolicyPart;
use fairshare_engine::engine::{Effect, Engine, Event, JobFacts, State, Timer};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::limits::{Allocation, Resources};
use fairshare_engine::standing::SitePart;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

fn facts(id: u64, user: usize, state: State) -> JobFacts<'static> {
    records::facts(id, user as u32, state, T0)
}

/// Flux's queue in the order of the posted priorities, its loop over all jobs, and its timers.
pub struct Flux {
    pub engine: Engine,
    pub now: f64,
    pub queue: BTreeSet<(Reverse<u32>, JobId)>,
    pub priorities: HashMap<JobId, u32>,
    pub user_of: HashMap<JobId, usize>,
    next: u64,
    /// Number of posted priorities.
    pub posts: usize,
    /// Number of memos.
    pub memos: usize,
    slice: bool,
    turn: bool,
    /// The longest call to the engine of each kind, in processor time. A loop over all jobs counts as one call.
    pub longest: BTreeMap<&'static str, Duration>,
}

impl Flux {
    pub fn new() -> Flux {
        Flux {
            engine: Engine::new(UserId(u32::MAX - 1)),
            now: T0,
            queue: BTreeSet::new(),
            priorities: HashMap::new(),
            user_of: HashMap::new(),
            next: 1,
            posts: 0,
            memos: 0,
            slice: false,
            turn: false,
            longest: BTreeMap::new(),
        }
    }

    fn time_call<T>(&mut self, kind: &'static str, act: impl FnOnce(&mut Engine) -> T) -> T {
        let before = used();
        let done = act(&mut self.engine);
        let longest = self.longest.entry(kind).or_default();
        *longest = (used() - before).max(*longest);
        done
    }

    pub fn event(&mut self, kind: &'static str, event: Event<'_>) {
        let now = self.now;
        let effects = self.time_call(kind, |engine| engine.handle(now, event));
        self.apply(effects, None);
        while self.slice || self.turn {
            if std::mem::take(&mut self.slice) {
                let effects =
                    self.time_call("slice", |engine| engine.handle(now, Event::Timer(Timer::Slice)));
                self.apply(effects, None);
            }
            if std::mem::take(&mut self.turn) {
                let effects = self.time_call("turn", |engine| engine.handle(now, Event::Timer(Timer::Turn)));
                self.apply(effects, None);
            }
        }
    }

    pub fn callback(&mut self, id: u64, event: Event<'_>) {
        let effects = self.engine.handle(self.now, event);
        self.apply(effects, Some(JobId(id)));
    }

    fn apply(&mut self, effects: Vec<Effect>, current: Option<JobId>) {
        for effect in effects {
            match (effect, current) {
                (Effect::SetPriority(priority), Some(id)) => self.post(id, priority),
                (Effect::Prioritize(id, priority), _) => self.post(id, priority),
                (Effect::Memo(..), _) => self.memos += 1,
                (Effect::Arm(Timer::Slice) | Effect::ArmIn(Timer::Slice, _), _) => self.slice = true,
                (Effect::Arm(Timer::Turn), _) => self.turn = true,
                (Effect::ListEnded { .. }, _) => self.event("ended", Event::Ended(Some(Vec::new()))),
                (Effect::ReprioritizeAll, _) => self.reprioritize_all(),
                (Effect::Then(step), _) => {
                    let effects = self.time_call("step", |engine| engine.step(step));
                    self.apply(effects, None);
                }
                (Effect::RejectPolicy(text), _) => println!("rejected: {text}"),
                _ => {}
            }
        }
    }

    fn post(&mut self, id: JobId, priority: u32) {
        match self.priorities.insert(id, priority) {
            Some(before) if before == priority => return,
            Some(before) => self.queue.remove(&(Reverse(before), id)),
            None => false,
        };
        self.queue.insert((Reverse(priority), id));
        self.posts += 1;
    }

    fn reprioritize_all(&mut self) {
        let ids: Vec<JobId> = self.priorities.keys().copied().collect();
        let before = used();
        for id in ids {
            self.callback(id.0, Event::PriorityGet(id, 16));
        }
        let longest = self.longest.entry("loop").or_default();
        *longest = (used() - before).max(*longest);
    }

    pub fn push(&mut self, parts: Vec<(PolicyPart, SitePart)>) {
        self.event("begin", Event::PolicyBegin { keeps_config: false });
        for (part, site) in parts {
            self.event("part", Event::PolicyPart(part, site));
        }
        self.event("commit", Event::PolicyCommit);
    }

    pub fn submit(&mut self, user: usize) {
        let id = self.next;
        self.next += 1;
        self.user_of.insert(JobId(id), user);
        self.callback(id, Event::Validate(facts(id, user, State::New)));
        self.callback(id, Event::New(facts(id, user, State::New)));
        self.callback(id, Event::Depend(JobId(id)));
        self.callback(id, Event::Priority(JobId(id), 16));
        self.callback(id, Event::Sched(JobId(id)));
    }

    /// Starts the first job of the queue.
    pub fn start(&mut self) -> Option<JobId> {
        let (_, id) = self.queue.pop_first()?;
        self.priorities.remove(&id);
        let start = Some(self.now);
        let given = Allocation { nodes: 1, cores: 1, gpus: 0, start, expiration: Some(self.now + 3600.0) };
        self.callback(id.0, Event::Run(id, Resources::Allocated(given)));
        Some(id)
    }

    pub fn exact_priorities(&self) -> HashMap<JobId, u32> {
        let ids = self.priorities.keys();
        ids.filter_map(|id| Some((*id, self.engine.view().priced(*id)?.exact.priority))).collect()
    }
}
