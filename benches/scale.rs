// SPDX-License-Identifier: LGPL-3.0-only
//! Measures the time per event with 10,000, 100,000 and 1,000,000 live jobs of 200,000 associations, and the bytes of
//! state per job and per association.

#[path = "common/counting.rs"]
mod counting;

use counting::allocated_bytes;
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
fn make_allocation() -> Resources {
    Resources::Allocated(Allocation {
        nodes: 1,
        cores: 1,
        gpus: 0,
        start: Some(NOW),
        expiration: Some(NOW + 3600.0),
    })
}

fn make_record(user: u32) -> AssociationRecord {
    records::make_record(user, &format!("bank{}", user % 1_000), 1_000_000)
}

fn make_facts(id: u64, state: State) -> JobFacts<'static> {
    records::make_facts(id, (id % u64::from(ASSOCIATIONS)) as u32, state, NOW)
}

fn handle(engine: &mut Engine, event: Event<'_>) {
    black_box(engine.handle(NOW, event));
}

fn submit_job(engine: &mut Engine, id: u64) {
    handle(engine, Event::Validate(make_facts(id, State::New)));
    handle(engine, Event::New(make_facts(id, State::New)));
    handle(engine, Event::Depend(JobId(id)));
    handle(engine, Event::Priority(JobId(id), 16));
    handle(engine, Event::Sched(JobId(id)));
}

fn run_job(engine: &mut Engine, id: u64) {
    handle(engine, Event::Run(JobId(id), make_allocation()));
}

fn end_job(engine: &mut Engine, id: u64) {
    handle(engine, Event::Inactive(JobId(id)));
}

/// Returns the nanoseconds per call of `act`, as the minimum of three rounds. After each round, `undo` restores the state
/// of each job.
fn time_calls(
    engine: &mut Engine,
    ids: std::ops::Range<u64>,
    act: impl Fn(&mut Engine, u64),
    undo: impl Fn(&mut Engine, u64),
) -> u128 {
    let count = u128::from(ids.end - ids.start);
    let round = |engine: &mut Engine| {
        let start = Instant::now();
        ids.clone().for_each(|id| act(engine, id));
        let elapsed = start.elapsed().as_nanos() / count;
        ids.clone().for_each(|id| undo(engine, id));
        elapsed
    };
    (0..3).map(|_| round(engine)).min().unwrap_or_default()
}

fn main() {
    let mut engine = Engine::new(UserId(u32::MAX - 1));
    let before = allocated_bytes();
    handle(&mut engine, Event::Associations((0..ASSOCIATIONS).map(make_record).collect()));
    let bytes = allocated_bytes() - before;
    println!("{ASSOCIATIONS} associations: {} bytes each", bytes / ASSOCIATIONS as usize);

    // Count the bytes of pending jobs, then of the same jobs after their start. Each association already has another job.
    (1..=u64::from(ASSOCIATIONS)).for_each(|id| submit_job(&mut engine, id));
    let (first, count) = (u64::from(ASSOCIATIONS) + 1, 200_000);
    let before = allocated_bytes();
    (first..first + count).for_each(|id| submit_job(&mut engine, id));
    let pending = allocated_bytes() - before;
    (first..first + count).for_each(|id| run_job(&mut engine, id));
    let running = allocated_bytes() - before;
    println!(
        "a pending job: {} bytes; a running one: {}",
        pending / count as usize,
        running / count as usize
    );
    println!("Job itself: {} bytes", size_of::<fairshare_engine::limits::Job>());

    println!("{:>9} {:>9} {:>9} {:>9} {:>9} {:>9}", "live jobs", "submit", "priority", "run", "end", "panic");
    for live in [10_000, 100_000, 1_000_000u64] {
        let mut engine = Engine::new(UserId(u32::MAX - 1));
        handle(&mut engine, Event::Associations((0..ASSOCIATIONS).map(make_record).collect()));
        for id in 1..=live {
            submit_job(&mut engine, id);
            if id % 2 == 0 {
                run_job(&mut engine, id);
            }
        }
        let new = live + 1..live + 1 + SAMPLE;
        let undo_nothing = |_: &mut Engine, _: u64| ();
        let submitted = time_calls(&mut engine, new.clone(), submit_job, end_job);
        new.clone().for_each(|id| submit_job(&mut engine, id));
        let prioritize = |engine: &mut Engine, id: u64| handle(engine, Event::PriorityGet(JobId(id), 16));
        let prioritized = time_calls(&mut engine, new.clone(), prioritize, undo_nothing);
        let resubmit_pending = |engine: &mut Engine, id: u64| {
            end_job(engine, id);
            submit_job(engine, id);
        };
        let ran = time_calls(&mut engine, new.clone(), run_job, resubmit_pending);
        let resubmit_running = |engine: &mut Engine, id: u64| {
            submit_job(engine, id);
            run_job(engine, id);
        };
        let ended = time_calls(&mut engine, new, end_job, resubmit_running);
        let start = Instant::now();
        handle(&mut engine, Event::Panicked(None));
        let recounted = start.elapsed().as_millis();
        println!(
            "{live:>9} {submitted:>6} ns {prioritized:>6} ns {ran:>6} ns {ended:>6} ns {recounted:>6} ms"
        );
    }
}
