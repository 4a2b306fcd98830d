// SPDX-License-Identifier: LGPL-3.0-only
//! What limits over scopes cost: 10,000 banks, 100,000 associations, 20,000 held jobs, with and without a limit on each
//! bank, the site and each user. Both are timed by turns, so that what else the machine does shows in neither ratio.

#[path = "common/records.rs"]
mod records;

use mf_priority::accounts::{Cap, ConfigPatch, PolicyPart, SiteLimit, Target};
use mf_priority::engine::{Effect, Engine, Event, JobFacts, State};
use mf_priority::ids::{Amount, BankName, JobId, Limit, Measure, Stage, UserId};
use mf_priority::limits::{Allocation, Resources};
use mf_priority::standing::SitePart;
use std::time::Instant;

const BANKS: u32 = 10_000;
const ASSOCIATIONS: u32 = 100_000;
const HELD: u64 = 20_000;
/// Jobs that are submitted in a round, and ends of jobs after each of which one goes.
const SAMPLE: u64 = 2_000;
const ROUNDS: u64 = 9;
const NOW: f64 = 1_700_000_000.0;

fn bank(index: u32) -> BankName {
    format!("bank{index}").as_str().into()
}

fn limits() -> Vec<SiteLimit> {
    let limit = |target, stage, measure, cap| SiteLimit {
        target,
        queue: None,
        amount: Amount { stage, measure },
        cap: Cap { limit: Limit(cap), is_given: false },
    };
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
            // The last name of a job: Flux moves it on before the call is over.
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
    handle(engine, Event::Validate(facts(id, State::New)));
    handle(engine, Event::New(facts(id, State::New)));
    let effects = engine.handle(NOW, Event::Depend(JobId(id)));
    if !effects.iter().any(|effect| matches!(effect, Effect::AddDependency(..))) {
        handle(engine, Event::Priority(JobId(id), 16));
        handle(engine, Event::Sched(JobId(id)));
    }
}

fn run(engine: &mut Engine, id: u64) {
    let given = Allocation { nodes: 1, cores: 1, gpus: 0, start: Some(NOW), expiration: None };
    handle(engine, Event::Run(JobId(id), Resources::Allocated(given)));
}

/// One running job of each of 20,000 associations, and one that waits for its end.
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

/// Microseconds for each of so many.
fn timed(many: u64, what: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    what();
    begun.elapsed().as_secs_f64() * 1e6 / many as f64
}

/// A site, and the best times so far.
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
        // Of others: these are not held.
        let first = HELD + SAMPLE;
        let taken = timed(SAMPLE, || (first..first + SAMPLE).for_each(|id| submit(engine, id)));
        self.submit = self.submit.min(taken);
        (first..first + SAMPLE).for_each(|id| handle(engine, Event::Inactive(JobId(id))));
        let ends = round * SAMPLE..(round + 1) * SAMPLE;
        let taken = timed(SAMPLE, || ends.for_each(|id| handle(engine, Event::Inactive(JobId(id)))));
        self.pass = self.pass.min(taken);
        self.push = self.push.min(timed(1, || push(engine, &self.limits)));
    }
}

fn main() {
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
