// SPDX-License-Identifier: LGPL-3.0-only
//! Benchmarks of the engine without Flux: priorities, pushes, the release of held jobs, and responses to guests.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fairshare_benches::records;
use fairshare_engine::accounts::{Association, AssociationRecord, Queue};
use fairshare_engine::engine::answers;
use fairshare_engine::engine::answers::{AssociationFilter, Open};
use fairshare_engine::engine::{Engine, Event, JobFacts, State, Timer};
use fairshare_engine::ids::{JobId, Limit, UserId};
use fairshare_engine::limits::{Allocation, Resources, Size};
use std::hint::black_box;

const NOW: f64 = 1_700_000_000.0;

/// Returns an allocation of `nodes` nodes with one core each.
fn make_allocation(nodes: u64) -> Resources {
    Resources::Allocated(Allocation { nodes, cores: nodes, gpus: 0, start: Some(NOW), expiration: None })
}

fn make_record(user: u32, max_running_jobs: i64) -> AssociationRecord {
    records::make_record(user, "A", max_running_jobs)
}

fn make_facts(id: u64, state: State) -> JobFacts<'static> {
    JobFacts { bank: Some("A"), project: Some("*"), ..records::make_facts(id, 1, state, NOW) }
}

/// Creates an engine in which user 1 has `jobs` jobs in DEPEND. The limit on running jobs is `max_running_jobs`.
fn make_engine_with_jobs(jobs: u64, max_running_jobs: i64) -> Engine {
    let mut engine = Engine::new(UserId(0));
    engine.handle(NOW, Event::Associations(vec![make_record(1, max_running_jobs)]));
    for id in 1..=jobs {
        engine.handle(NOW, Event::Validate(make_facts(id, State::New)));
        engine.handle(NOW, Event::New(make_facts(id, State::New)));
        engine.handle(NOW, Event::Depend(JobId(id)));
    }
    engine
}

fn bench_priorities(c: &mut Criterion) {
    let mut engine = make_engine_with_jobs(10_000, 1_000_000);
    for id in 1..=10_000 {
        engine.handle(NOW, Event::Priority(JobId(id), 16));
        engine.handle(NOW, Event::Sched(JobId(id)));
    }
    let mut group = c.benchmark_group("priority");
    group.throughput(Throughput::Elements(10_000));
    group.bench_function("10,000 unchanged jobs", |b| {
        b.iter(|| {
            for id in 1..=10_000 {
                black_box(engine.handle(NOW, Event::PriorityGet(JobId(id), 16)));
            }
        });
    });
    group.finish();
}

fn bench_push(c: &mut Criterion) {
    let records: Vec<_> = (0..50_000).map(|user| make_record(user, 5)).collect();
    c.bench_function("push 50,000 associations", |b| {
        b.iter_batched(
            || (Engine::new(UserId(0)), records.clone()),
            |(mut engine, records)| {
                engine.handle(NOW, Event::Associations(records));
                engine
            },
            BatchSize::LargeInput,
        );
    });
}

fn bench_releases(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain held jobs one by one");
    group.sample_size(10);
    for jobs in [1_000u64, 10_000] {
        group.throughput(Throughput::Elements(jobs));
        group.bench_with_input(BenchmarkId::from_parameter(jobs), &jobs, |b, jobs| {
            b.iter_batched(
                || {
                    let mut engine = make_engine_with_jobs(*jobs, 1);
                    for id in 1..=1 {
                        engine.handle(NOW, Event::Run(JobId(id), make_allocation(1)));
                    }
                    engine
                },
                |mut engine| {
                    for id in 1..=*jobs {
                        black_box(engine.handle(NOW, Event::Inactive(JobId(id))));
                    }
                    engine
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// Submits a job of `user`, and moves it to RUN.
fn run_job(engine: &mut Engine, id: u64, user: u32, nodes: u64) {
    let facts_in_state = |state| JobFacts {
        user: UserId(user),
        size: Ok(Size::new(nodes, nodes, 0)),
        ..make_facts(id, state)
    };
    engine.handle(NOW, Event::Validate(facts_in_state(State::New)));
    engine.handle(NOW, Event::New(facts_in_state(State::New)));
    engine.handle(NOW, Event::Depend(JobId(id)));
    engine.handle(NOW, Event::Priority(JobId(id), 16));
    engine.handle(NOW, Event::Sched(JobId(id)));
    engine.handle(NOW, Event::Run(JobId(id), make_allocation(nodes)));
}

/// Measures events of single jobs in an engine with 1,000,000 running jobs of 1,000 users. User 1 also has 20,000 held jobs with different
/// sizes. The time of an event must not depend on the number of jobs.
fn bench_events_among_many_jobs(c: &mut Criterion) {
    const LIVE: u64 = 1_000_000;
    const HELD: u64 = 20_000;
    let mut engine = Engine::new(UserId(0));
    let mut first = make_record(1, 2_147_483_647);
    first.association.max_nodes = Limit(2_000_000);
    let others = (2..=1_001).map(|user| make_record(user, 2_147_483_647));
    engine.handle(NOW, Event::Associations(std::iter::once(first).chain(others).collect()));
    for id in 1..=LIVE {
        run_job(&mut engine, id, 2 + (id % 1_000) as u32, 1);
    }
    // User 1 uses all nodes of their limit except one. Each of their held jobs requests two or more.
    run_job(&mut engine, LIVE + 1, 1, 1_999_999);
    for index in 0..HELD {
        let facts_in_state = |state| JobFacts {
            size: Ok(Size::new(2 + index, 2 + index, 0)),
            ..make_facts(LIVE + 2 + index, state)
        };
        engine.handle(NOW, Event::Validate(facts_in_state(State::New)));
        engine.handle(NOW, Event::New(facts_in_state(State::New)));
        engine.handle(NOW, Event::Depend(JobId(LIVE + 2 + index)));
    }
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    let mut group = c.benchmark_group("1,000,000 live and 20,000 held jobs");
    group.sample_size(20);
    group.bench_function("deferred step", |b| {
        b.iter(|| black_box(engine.handle(NOW, Event::Timer(Timer::ReactorTurn))))
    });
    group.bench_function("RPC (weights)", |b| {
        b.iter(|| black_box(engine.handle(NOW, Event::Weights(Vec::new()))));
    });
    group.bench_function("RPC (one association)", |b| {
        b.iter(|| black_box(engine.handle(NOW, Event::Associations(vec![make_record(7, 2_147_483_647)]))));
    });
    let mut last_id = LIVE + HELD + 10;
    group.bench_function("a job of one node runs and ends, and no held job fits", |b| {
        b.iter(|| {
            last_id += 1;
            run_job(&mut engine, last_id, 1, 1);
            black_box(engine.handle(NOW, Event::Inactive(JobId(last_id))))
        });
    });
    group.finish();
}

/// Creates an engine in which user 1 may use `jobs` nodes and cores, and running jobs use all of them. 499 held jobs need all nodes or all cores.
/// Also returns the held job that was submitted last.
fn make_engine_with_held_jobs(jobs: u64) -> (Engine, JobFacts<'static>) {
    let facts_with_size = |id: u64, nodes: u64, cores: u64, state| JobFacts {
        size: Ok(Size::new(nodes, cores, 0)),
        ..make_facts(id, state)
    };
    let mut engine = Engine::new(UserId(0));
    let mut record = make_record(1, 2_147_483_647);
    (record.association.max_nodes, record.association.max_cores) = (Limit(jobs as i64), Limit(jobs as i64));
    engine.handle(NOW, Event::Associations(vec![record]));
    for id in 1..=jobs {
        let expiration = Some(NOW + id as f64);
        let allocation = Allocation { nodes: 1, cores: 1, gpus: 0, start: Some(NOW), expiration };
        let resources = Resources::Allocated(allocation);
        engine.handle(NOW, Event::New(JobFacts { resources, ..make_facts(id, State::Run) }));
    }
    engine.handle(NOW, Event::Timer(Timer::ReactorTurn));
    let mut submit_held = |facts: JobFacts<'static>| {
        let id = facts.id;
        engine.handle(NOW, Event::Validate(facts.clone()));
        engine.handle(NOW, Event::New(facts));
        engine.handle(NOW, Event::Depend(id));
    };
    for id in 10_000..10_499_u64 {
        let (nodes, cores) = if id.is_multiple_of(2) { (jobs, 1) } else { (1, jobs) };
        submit_held(facts_with_size(id, nodes, cores, State::New));
    }
    submit_held(facts_with_size(20_000, jobs, jobs, State::New));
    (engine, facts_with_size(20_000, jobs, jobs, State::Depend))
}

/// Creates an engine with one association that has a job in each of 1,000 queues with limits.
fn make_engine_with_many_queues() -> Engine {
    let mut engine = Engine::new(UserId(0));
    let names: Vec<String> = (0..1_000).map(|number| format!("q{number:03}")).collect();
    let queue = |name: &String| Queue {
        name: name.as_str().into(),
        priority: 0,
        max_running_jobs: Limit(5),
        max_nodes_per_assoc: Limit(5),
        max_sched_jobs: Limit(5),
        max_sched_nodes_per_assoc: Limit(5),
        max_sched_cores_per_assoc: Limit(5),
        min_nodes_per_job: 0,
        max_nodes_per_job: 0,
        max_time_per_job: 0,
    };
    engine.handle(NOW, Event::Queues(names.iter().map(queue).collect()));
    let record = make_record(1, 5);
    let queues = names.iter().map(|name| name.as_str().into()).collect();
    let association = Association { queues, ..record.association };
    engine.handle(NOW, Event::Associations(vec![AssociationRecord { association, ..record }]));
    for (id, name) in (1..).zip(names) {
        let facts_in_state = |state| JobFacts { queue: Some(&name), ..make_facts(id, state) };
        engine.handle(NOW, Event::Validate(facts_in_state(State::New)));
        engine.handle(NOW, Event::New(facts_in_state(State::New)));
        engine.handle(NOW, Event::Depend(JobId(id)));
        engine.handle(NOW, Event::Priority(JobId(id), 16));
        engine.handle(NOW, Event::Sched(JobId(id)));
    }
    engine
}

/// Measures the time of responses to requests that guests may send.
fn bench_responses(c: &mut Criterion) {
    let mut group = c.benchmark_group("answers");
    group.sample_size(20);
    for jobs in [50, 1_000] {
        let (engine, facts) = make_engine_with_held_jobs(jobs);
        group.bench_function(BenchmarkId::new("explain a job behind 499, running jobs", jobs), |b| {
            b.iter(|| black_box(answers::why(&engine.view(), &facts, NOW)));
        });
    }
    let engine = make_engine_with_many_queues();
    let wanted =
        AssociationFilter { user: Some(UserId(1)), bank: None, after: None, most: 100, open: Open::Own };
    group.bench_function("standing in 1,000 queues", |b| {
        b.iter(|| black_box(answers::standings(&engine.view(), &wanted, NOW)));
    });
    group.finish();
}

criterion_group!(
    benches,
    bench_priorities,
    bench_push,
    bench_releases,
    bench_events_among_many_jobs,
    bench_responses
);
criterion_main!(benches);
