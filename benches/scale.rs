// SPDX-License-Identifier: LGPL-3.0-only
//! Measures the time per event with 10,000, 100,000 and 1,000,000 live jobs of 200,000 associations, and the bytes of
//! state per job and per association.

#[path = "common/counting.rs"]
mod counting;

use counting::in_use;
use fairshare_benches::records;
use fairshare_engine::accounts::AssociationRecord;
use fairshare_engine::engine::{Engine, Event, JobFacts, State};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::limits::{Allocation, Resources};
use std::hint::black_box;
use std::time::Instant;

const ASSOCIATIONS: u32 = 200_000;
/// Number of timed events of each kind.
const SAMPLE: u64 = 10_000;

const NOW: f64 = 1_700_000_000.0;

/// Returns the allocation of each job.
fn allocated() -> Resources {
    Resources::Allocated(Allocation {
        nodes: 1,
        cores: 1,
        gpus: 0,
        start: Some(NOW),
        expiration: Some(NOW + 3600.0),
    })
}

fn record(user: u32) -> AssociationRecord {
    records::record(user, &format!("bank{}", user % 1_000), 1_000_000)
}

fn facts(id: u64, state: State) -> JobFacts<'static> {
    records::facts(id, (id % u64::from(ASSOCIATIONS)) as u32, state, NOW)
}

fn handle(engine: &mut Engine, event: Event<'_>) {
    black_box(engine.handle(NOW, event));
}

fn submit(engine: &mut Engine, id: u64) {
    handle(engine, Event::Validate(facts(id, State::New)));
    handle(engine, Event::New(facts(id, State::New)));
    handle(engine, Event::Depend(JobId(id)));
    handle(engine, Event::Priority(JobId(id), 16));
    handle(engine, Event::Sched(JobId(id)));
}

fn run(engine: &mut Engine, id: u64) {
    handle(engine, Event::Run(JobId(id), allocated()));
}

fn end(engine: &mut Engine, id: u64) {
    handle(engine, Event::Inactive(JobId(id)));
}

/// Returns the nanoseconds per call of `what`: the minimum of three rounds. Calls `undo` after each round.
fn time_calls(
    engine: &mut Engine,
    ids: std::ops::Range<u64>,
    what: impl Fn(&mut Engine, u64),
    undo: impl Fn(&mut Engine, u64),
) -> u128 {
    let count = u128::from(ids.end - ids.start);
    let round = |engine: &mut Engine| {
        let begun = Instant::now();
        ids.clone().for_each(|id| what(engine, id));
        let taken = begun.elapsed().as_nanos() / count;
        ids.clone().for_each(|id| undo(engine, id));
        taken
    };
    (0..3).map(|_| round(engine)).min().unwrap_or_default()
}

fn main() {
    let mut engine = Engine::new(UserId(u32::MAX - 1));
    let before = in_use();
    handle(&mut engine, Event::Associations((0..ASSOCIATIONS).map(record).collect()));
    let bytes = in_use() - before;
    println!("{ASSOCIATIONS} associations: {} bytes each", bytes / ASSOCIATIONS as usize);

    // First count the bytes of pending jobs, then those of the same jobs running. Each association already has one job.
    (1..=u64::from(ASSOCIATIONS)).for_each(|id| submit(&mut engine, id));
    let (first, count) = (u64::from(ASSOCIATIONS) + 1, 200_000);
    let before = in_use();
    (first..first + count).for_each(|id| submit(&mut engine, id));
    let pending = in_use() - before;
    (first..first + count).for_each(|id| run(&mut engine, id));
    let running = in_use() - before;
    println!(
        "a pending job: {} bytes; a running one: {}",
        pending / count as usize,
        running / count as usize
    );
    println!("Job itself: {} bytes", size_of::<fairshare_engine::limits::Job>());

    println!("{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "live jobs", "submit", "priority", "run", "end", "panic");
    for live in [10_000, 100_000, 1_000_000u64] {
        let mut engine = Engine::new(UserId(u32::MAX - 1));
        handle(&mut engine, Event::Associations((0..ASSOCIATIONS).map(record).collect()));
        for id in 1..=live {
            submit(&mut engine, id);
            if id % 2 == 0 {
                run(&mut engine, id);
            }
        }
        let new = live + 1..live + 1 + SAMPLE;
        let none = |_: &mut Engine, _: u64| ();
        let submitted = time_calls(&mut engine, new.clone(), submit, end);
        new.clone().for_each(|id| submit(&mut engine, id));
        let prioritize = |engine: &mut Engine, id: u64| handle(engine, Event::PriorityGet(JobId(id), 16));
        let prioritized = time_calls(&mut engine, new.clone(), prioritize, none);
        let again = |engine: &mut Engine, id: u64| {
            end(engine, id);
            submit(engine, id);
        };
        let ran = time_calls(&mut engine, new.clone(), run, again);
        let resubmit = |engine: &mut Engine, id: u64| {
            submit(engine, id);
            run(engine, id);
        };
        let ended = time_calls(&mut engine, new, end, resubmit);
        let begun = Instant::now();
        handle(&mut engine, Event::Panicked(None));
        let recounted = begun.elapsed().as_millis();
        println!(
            "{live:>9} {submitted:>6} ns {prioritized:>6} ns {ran:>6} ns {ended:>6} ns {recounted:>6} ms"
        );
    }
}
