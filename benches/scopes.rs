// SPDX-License-Identifier: LGPL-3.0-only
//! Measures limits on banks, on the site, and on users.
//!
//! `cost` compares 10,000 banks, 100,000 associations and 20,000 held jobs with and without a limit on each bank, the site
//! and each user. It times both alternately, so that other load on the machine affects both. `lines` measures many
//! associations that wait for the same limit. `cargo bench --bench scopes [cost|lines]`

use fairshare_benches::{processor, records};
use fairshare_engine::accounts::{
    AssociationRecord, Cap, ConfigPatch, Policy, PolicyPart, SiteLimit, Target,
};
use fairshare_engine::engine::{Effect, Engine, Event, JobFacts, State};
use fairshare_engine::ids::{Amount, BankName, JobId, Limit, Measure, Stage, UserId};
use fairshare_engine::limits::{Allocation, Resources, Size};
use fairshare_engine::standing::SitePart;
use std::time::Instant;

const BANKS: u32 = 10_000;
const ASSOCIATIONS: u32 = 100_000;
const HELD: u64 = 20_000;
/// The number of jobs that a round submits, and the number that it ends. Each end releases one held job.
const SAMPLE: u64 = 2_000;
const ROUNDS: u64 = 9;
const NOW: f64 = 1_700_000_000.0;

fn bank(index: u32) -> BankName {
    format!("bank{index}").as_str().into()
}

fn limit(target: Target, stage: Stage, measure: Measure, cap: i64) -> SiteLimit {
    let cap = Cap { limit: Limit(cap), is_given: false };
    SiteLimit { target, queue: None, amount: Amount { stage, measure }, cap }
}

fn limits() -> Vec<SiteLimit> {
    let banks = (0..BANKS).map(|at| limit(Target::Bank(bank(at)), Stage::Running, Measure::Gpus, 1_000_000));
    let root = Target::Bank("root".into());
    let others = [
        limit(root, Stage::RunningAndScheduled, Measure::Nodes, 10_000_000),
        limit(Target::EachUser, Stage::RunningAndScheduled, Measure::Gpus, 1_000_000),
    ];
    banks.chain(others).collect()
}

fn apply(engine: &mut Engine, effects: Vec<Effect>) {
    for effect in effects {
        let more = match effect {
            Effect::Then(step) => engine.step(step),
            Effect::AskUrgency(id) => engine.handle(NOW, Event::Urgency(id, 16)),
            // Flux moves a job without dependencies to PRIORITY before the call returns.
            Effect::RemoveDependency(id, _) => {
                let more = engine.handle(NOW, Event::Priority(id, 16));
                apply(engine, more);
                engine.handle(NOW, Event::Sched(id))
            }
            _ => Vec::new(),
        };
        apply(engine, more);
    }
}

fn handle(engine: &mut Engine, event: Event<'_>) {
    let effects = engine.handle(NOW, event);
    apply(engine, effects);
}

fn push(engine: &mut Engine, limits: &[SiteLimit]) {
    handle(engine, Event::PolicyBegin { keeps_config: false });
    let mut part = |part: PolicyPart| handle(engine, Event::PolicyPart(part, SitePart::default()));
    for first in (0..ASSOCIATIONS).step_by(500) {
        let some = first..first + 500;
        let records = some.map(|user| records::record(user, bank(user % BANKS).as_str(), 1)).collect();
        part(PolicyPart { associations: Some(records), ..PolicyPart::default() });
    }
    part(PolicyPart {
        queues: Some(Vec::new()),
        projects: Some(vec!["*".into()]),
        banks: Some((0..BANKS).map(|at| (bank(at), 0.0)).collect()),
        parents: (0..BANKS).map(|at| (bank(at), "root".into())).collect(),
        limits: limits.to_vec(),
        weights: Some(Vec::new()),
        config: ConfigPatch::default(),
        ..PolicyPart::default()
    });
    handle(engine, Event::PolicyCommit);
}

fn facts(id: u64, state: State) -> JobFacts<'static> {
    records::facts(id, (id % u64::from(ASSOCIATIONS)) as u32, state, NOW)
}

fn submit(engine: &mut Engine, id: u64) {
    submit_as(engine, facts(id, State::New));
}

/// Submits a job. Returns true if it is held.
fn submit_as(engine: &mut Engine, facts: JobFacts<'static>) -> bool {
    let id = facts.id;
    handle(engine, Event::Validate(facts.clone()));
    handle(engine, Event::New(facts));
    let effects = engine.handle(NOW, Event::Depend(id));
    let is_held = effects.iter().any(|effect| matches!(effect, Effect::AddDependency(..)));
    if !is_held {
        handle(engine, Event::Priority(id, 16));
        handle(engine, Event::Sched(id));
    }
    is_held
}

fn run(engine: &mut Engine, id: u64) {
    let given = Allocation { nodes: 1, cores: 1, gpus: 0, start: Some(NOW), expiration: None };
    handle(engine, Event::Run(JobId(id), Resources::Allocated(given)));
}

/// Creates a site in which each of 20,000 associations has one running job, and one held job that waits until it ends.
fn site(limits: &[SiteLimit]) -> Engine {
    let mut engine = Engine::new(UserId(u32::MAX - 1));
    push(&mut engine, limits);
    for id in 0..HELD {
        submit(&mut engine, id);
        run(&mut engine, id);
        submit(&mut engine, id + u64::from(ASSOCIATIONS));
    }
    engine
}

/// Returns the microseconds per event of `act`, which handles `count` events.
fn time_events(count: u64, act: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    act();
    begun.elapsed().as_secs_f64() * 1e6 / count as f64
}

/// A site, and the shortest times of all rounds in microseconds.
struct Side {
    limits: Vec<SiteLimit>,
    engine: Engine,
    submit: f64,
    pass: f64,
    push: f64,
}

impl Side {
    fn new(limits: Vec<SiteLimit>) -> Side {
        let engine = site(&limits);
        Side { limits, engine, submit: f64::INFINITY, pass: f64::INFINITY, push: f64::INFINITY }
    }

    fn round(&mut self, round: u64) {
        let engine = &mut self.engine;
        // These jobs belong to associations without running jobs, so they are not held.
        let first = HELD + SAMPLE;
        let taken = time_events(SAMPLE, || (first..first + SAMPLE).for_each(|id| submit(engine, id)));
        self.submit = self.submit.min(taken);
        (first..first + SAMPLE).for_each(|id| handle(engine, Event::Inactive(JobId(id))));
        let ends = round * SAMPLE..(round + 1) * SAMPLE;
        let taken = time_events(SAMPLE, || ends.for_each(|id| handle(engine, Event::Inactive(JobId(id)))));
        self.pass = self.pass.min(taken);
        self.push = self.push.min(time_events(1, || push(engine, &self.limits)));
    }
}

fn cost() {
    let (mut without, mut with) = (Side::new(Vec::new()), Side::new(limits()));
    for round in 0..ROUNDS {
        without.round(round);
        with.round(round);
    }
    println!("{:10} {:>14} {:>14} {:>7}", "", "without, us", "with, us", "ratio");
    for (what, without, with) in [
        ("submit", without.submit, with.submit),
        ("pass", without.pass, with.pass),
        ("push", without.push, with.push),
    ] {
        println!("{what:10} {without:14.3} {with:14.3} {:7.3}", with / without);
    }
}

/// A site in which jobs wait for the limits on nodes and cores of the site. One job uses all nodes and cores except one
/// of each.
struct Crowd {
    engine: Engine,
    next: u64,
}

/// The limits on nodes and on cores of the site.
const ALL: u64 = 1_000;
/// The user of the running jobs.
const RUNNING: u32 = 1_000_000;

impl Crowd {
    /// Creates a site with `associations` associations. The priority of their jobs increases with the user id.
    fn new(associations: u32) -> Crowd {
        let record = |user: u32| AssociationRecord {
            fairshare: (f64::from(user) / f64::from(associations)).min(1.0),
            ..records::record(user, "bank", 2_147_483_647)
        };
        let root = || Target::Bank("root".into());
        let on = |measure| limit(root(), Stage::Running, measure, ALL as i64);
        let mut crowd = Crowd { engine: Engine::new(UserId(u32::MAX - 1)), next: 1 };
        let policy = Policy {
            associations: (0..associations).chain([RUNNING]).map(record).collect(),
            projects: vec!["*".into()],
            parents: vec![("bank".into(), "root".into())],
            limits: vec![on(Measure::Nodes), on(Measure::Cores)],
            ..Policy::default()
        };
        handle(&mut crowd.engine, Event::Policy(policy, SitePart::default()));
        let id = crowd.submit(RUNNING, ALL - 1, ALL - 1, false);
        run(&mut crowd.engine, id);
        crowd
    }

    fn submit(&mut self, user: u32, nodes: u64, cores: u64, is_held: bool) -> u64 {
        let id = self.next;
        self.next += 1;
        let size = Ok(Size::new(nodes, cores, 0));
        let facts = JobFacts { size, ..records::facts(id, user, State::New, NOW) };
        assert_eq!(submit_as(&mut self.engine, facts), is_held, "user {user}, {nodes} nodes, {cores} cores");
        id
    }

    /// Creates a site in which each association has one job that needs more than the headroom.
    fn with_waiting_jobs(associations: u32) -> Crowd {
        let mut crowd = Crowd::new(associations);
        for user in 0..associations {
            crowd.submit(user, 3, 3, true);
        }
        crowd
    }

    /// Submits two jobs for each association: one needs more cores than the headroom, the other more nodes.
    fn with_jobs_short_of_either(mut self, associations: u32) -> Crowd {
        for user in 0..associations {
            self.submit(user, 1, 3, true);
            self.submit(user, 3, 1, true);
        }
        self
    }

    /// Submits and ends a job that no limit holds. The end makes the engine look for jobs to release.
    fn run_empty_job(&mut self) {
        let id = self.submit(RUNNING, 0, 0, false);
        handle(&mut self.engine, Event::Inactive(JobId(id)));
    }

    /// Pushes an association, which may change priorities, then runs an empty job.
    fn run_empty_job_after_push(&mut self) {
        let records = vec![records::record(RUNNING, "bank", 2_147_483_647)];
        handle(&mut self.engine, Event::Associations(records));
        self.run_empty_job();
    }

    /// Runs empty jobs until the waiting jobs count as overtaken.
    fn overtaken(mut self) -> Crowd {
        (0..=fairshare_engine::limits::OVERTAKEN).for_each(|_| self.run_empty_job());
        self
    }
}

/// Prints the milliseconds of processor time of `act` on its first and on its second call.
fn print_row(what: &str, mut crowd: Crowd, act: fn(&mut Crowd)) {
    let mut taken = || {
        let begun = processor::used();
        act(&mut crowd);
        (processor::used() - begun).as_secs_f64() * 1e3
    };
    let (first, again) = (taken(), taken());
    println!("{what:64} {first:10.2} {again:10.2}");
}

fn lines() {
    let reprioritize = |crowd: &mut Crowd| handle(&mut crowd.engine, Event::Reprioritize);
    println!("{:64} {:>10} {:>10}", "ms of processor time", "first", "again");
    print_row(
        "20,000 wait, and the job with the lowest priority is first",
        Crowd::with_waiting_jobs(20_000),
        Crowd::run_empty_job,
    );
    print_row(
        "20,000 wait, and priorities may have changed",
        Crowd::with_waiting_jobs(20_000),
        Crowd::run_empty_job_after_push,
    );
    print_row(
        "20,000 wait and were overtaken, and priorities may have changed",
        Crowd::with_waiting_jobs(20_000).overtaken(),
        Crowd::run_empty_job_after_push,
    );
    print_row(
        "2,000 wait, some job of each might fit, and none fits",
        Crowd::new(2_000).with_jobs_short_of_either(2_000),
        Crowd::run_empty_job,
    );
    print_row("5,000 wait, and the engine checks all", Crowd::with_waiting_jobs(5_000), reprioritize);
    print_row(
        "1,000 wait, and some job of 100 of them might fit",
        Crowd::with_waiting_jobs(1_000).with_jobs_short_of_either(100),
        reprioritize,
    );
    print_row(
        "2,000 wait, and some job of 400 of them might fit",
        Crowd::with_waiting_jobs(2_000).with_jobs_short_of_either(400),
        reprioritize,
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let tables: [(&str, fn()); 2] = [("cost", cost), ("lines", lines)];
    for (name, table) in tables {
        if wanted.is_empty() || wanted.iter().any(|want| want == name) {
            table();
        }
    }
}
