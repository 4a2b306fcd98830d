// SPDX-License-Identifier: LGPL-3.0-only
//! A model of Flux that applies the effects of the engine.

use super::site::T0;
use fairshare_benches::processor::thread_time;
use fairshare_benches::records;
use fairshare_engine::accounts::SiteRecords;
use fairshare_engine::engine::{Effect, Engine, Event, JobFacts, State, Timer};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::limits::{Allocation, Resources};
use fairshare_engine::standing::SitePart;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

fn make_facts(id: u64, user: usize, state: State) -> JobFacts<'static> {
    records::make_facts(id, user as u32, state, T0)
}

/// A model of Flux: its queue in the order of the posted priorities, its loop over all jobs, and its timers.
pub struct Flux {
    pub engine: Engine,
    pub now: f64,
    pub queue: BTreeSet<(Reverse<u32>, JobId)>,
    pub posted_priorities: HashMap<JobId, u32>,
    pub user_of: HashMap<JobId, usize>,
    next_id: u64,
    /// Number of posted priorities.
    pub posts: usize,
    /// Number of sent memos.
    pub memos: usize,
    is_slice_armed: bool,
    is_turn_armed: bool,
    /// The longest call to the engine of each kind, in processor time. A loop over all jobs counts as one call.
    pub longest: BTreeMap<&'static str, Duration>,
}

impl Flux {
    pub fn new() -> Flux {
        Flux {
            engine: Engine::new(UserId(u32::MAX - 1)),
            now: T0,
            queue: BTreeSet::new(),
            posted_priorities: HashMap::new(),
            user_of: HashMap::new(),
            next_id: 1,
            posts: 0,
            memos: 0,
            is_slice_armed: false,
            is_turn_armed: false,
            longest: BTreeMap::new(),
        }
    }

    /// Calls `act`, and records its time if it is the longest call of `kind`.
    fn time_call<T>(&mut self, kind: &'static str, act: impl FnOnce(&mut Engine) -> T) -> T {
        let before = thread_time();
        let result = act(&mut self.engine);
        let longest = self.longest.entry(kind).or_default();
        *longest = (thread_time() - before).max(*longest);
        result
    }

    /// Sends an event to the engine, then runs armed timers until none is armed.
    pub fn handle_event(&mut self, kind: &'static str, event: Event<'_>) {
        let now = self.now;
        let effects = self.time_call(kind, |engine| engine.handle(now, event));
        self.apply_effects(effects, None);
        while self.is_slice_armed || self.is_turn_armed {
            if std::mem::take(&mut self.is_slice_armed) {
                let effects =
                    self.time_call("slice", |engine| engine.handle(now, Event::Timer(Timer::Slice)));
                self.apply_effects(effects, None);
            }
            if std::mem::take(&mut self.is_turn_armed) {
                let effects =
                    self.time_call("turn", |engine| engine.handle(now, Event::Timer(Timer::ReactorTurn)));
                self.apply_effects(effects, None);
            }
        }
    }

    /// Sends an event of job `id` to the engine, as in a callback of Flux.
    pub fn run_callback(&mut self, id: u64, event: Event<'_>) {
        let effects = self.engine.handle(self.now, event);
        self.apply_effects(effects, Some(JobId(id)));
    }

    fn apply_effects(&mut self, effects: Vec<Effect>, current: Option<JobId>) {
        for effect in effects {
            match (effect, current) {
                (Effect::SetPriority(priority), Some(id)) => self.post_priority(id, priority),
                (Effect::Prioritize(id, priority), _) => self.post_priority(id, priority),
                (Effect::Memo(..), _) => self.memos += 1,
                (Effect::Arm(Timer::Slice) | Effect::ArmIn(Timer::Slice, _), _) => self.is_slice_armed = true,
                (Effect::Arm(Timer::ReactorTurn), _) => self.is_turn_armed = true,
                (Effect::ListEnded { .. }, _) => self.handle_event("ended", Event::Ended(Some(Vec::new()))),
                (Effect::ReprioritizeAll, _) => self.reprioritize_all(),
                (Effect::Then(step), _) => {
                    let effects = self.time_call("step", |engine| engine.execute_step(step));
                    self.apply_effects(effects, None);
                }
                (Effect::RejectPush(text), _) => println!("rejected: {text}"),
                _ => {}
            }
        }
    }

    fn post_priority(&mut self, id: JobId, priority: u32) {
        match self.posted_priorities.insert(id, priority) {
            Some(before) if before == priority => return,
            Some(before) => self.queue.remove(&(Reverse(before), id)),
            None => false,
        };
        self.queue.insert((Reverse(priority), id));
        self.posts += 1;
    }

    fn reprioritize_all(&mut self) {
        let ids: Vec<JobId> = self.posted_priorities.keys().copied().collect();
        let before = thread_time();
        for id in ids {
            self.run_callback(id.0, Event::PriorityGet(id, 16));
        }
        let longest = self.longest.entry("loop").or_default();
        *longest = (thread_time() - before).max(*longest);
    }

    pub fn push_site(&mut self, parts: Vec<(SiteRecords, SitePart)>) {
        self.handle_event("begin", Event::PolicyBegin { keeps_config: false });
        for (part, site) in parts {
            self.handle_event("part", Event::PolicyPart(part, site));
        }
        self.handle_event("commit", Event::PolicyCommit);
    }

    pub fn submit_job(&mut self, user: usize) {
        let id = self.next_id;
        self.next_id += 1;
        self.user_of.insert(JobId(id), user);
        self.run_callback(id, Event::Validate(make_facts(id, user, State::New)));
        self.run_callback(id, Event::New(make_facts(id, user, State::New)));
        self.run_callback(id, Event::Depend(JobId(id)));
        self.run_callback(id, Event::Priority(JobId(id), 16));
        self.run_callback(id, Event::Sched(JobId(id)));
    }

    /// Starts the first job of the queue. Returns its id, or `None` if the queue is empty.
    pub fn start_first_job(&mut self) -> Option<JobId> {
        let (_, id) = self.queue.pop_first()?;
        self.posted_priorities.remove(&id);
        let start = Some(self.now);
        let allocation =
            Allocation { nodes: 1, cores: 1, gpus: 0, start, expiration: Some(self.now + 3600.0) };
        self.run_callback(id.0, Event::Run(id, Resources::Allocated(allocation)));
        Some(id)
    }

    pub fn read_current_priorities(&self) -> HashMap<JobId, u32> {
        let ids = self.posted_priorities.keys();
        ids.filter_map(|id| Some((*id, self.engine.view().priorities_of(*id)?.exact.priority))).collect()
    }
}
