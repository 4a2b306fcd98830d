// SPDX-License-Identifier: LGPL-3.0-only
//! A ninth limit and a fifth factor: a row each, and nothing else.

use super::host::Host;
use super::site::{HostJob, OWNER, association, queue, record};
use crate::engine::{Effect, Engine, Event, Tables};
use crate::ids::{JobId, Limit};
use crate::limits::{Caps, Measure, RULES, Rule, Rules, Stage};
use crate::priority::{FACTORS, Factor, Factors};
use std::collections::VecDeque;

/// Cores of an association's running jobs in a queue.
const NINTH: Rule = Rule {
    name: "max-run-cores-queue-limit",
    stage: Stage::Running,
    caps: Caps::InQueue(&[(Measure::Cores, |_| Limit(4))]),
};

#[test]
fn a_ninth_limit_is_a_row() {
    let rules = Rules([RULES.0, &[NINTH]].concat().leak());
    let mut engine = site(Tables { rules, ..Tables::default() });
    let job = |cores| HostJob::new(7).queue("q1").size(1, cores);
    let (first, second) = (JobId(1), JobId(2));
    assert_eq!(names(&mut engine, Event::New(Host::facts(first, &job(3)))), Vec::<String>::new());
    names(&mut engine, Event::Run(first));
    names(&mut engine, Event::New(Host::facts(second, &job(2))));
    assert_eq!(names(&mut engine, Event::Depend(second)), ["add max-run-cores-queue-limit"]);
    assert_eq!(names(&mut engine, Event::Inactive(first)), ["remove max-run-cores-queue-limit"]);
    assert_eq!(engine.check().drift, []);
}

/// Wide jobs first.
const FIFTH: Factor = Factor { name: "size", default_weight: 7, value: |subject| subject.nodes as f64 };

#[test]
fn a_fifth_factor_is_a_row() {
    static FIVE: [Factor; 5] = {
        let [fairshare, queue, bank, urgency] = FACTORS;
        [fairshare, queue, bank, urgency, FIFTH]
    };
    let mut host = Host::new();
    host.engine = site(Tables { factors: Factors::of(&FIVE), ..Tables::default() });
    let id = host.submit(HostJob::new(7).size(3, 3)).unwrap();
    assert_eq!(host.jobs[&id].priority, Some(50_000 + 3 * 7));
    // Its weight is pushed as any other's.
    host.event(Event::Weights(vec![("size".to_owned(), 100)]));
    host.event(Event::Reprioritize);
    assert_eq!(host.jobs[&id].priority, Some(50_000 + 3 * 100));
    assert_eq!(host.engine.snapshot().weights.get("size"), Some(&100));
}

/// An engine that works by these tables, with data.
fn site(tables: Tables) -> Engine {
    let mut engine = Engine::with_tables(OWNER, tables);
    engine.handle(Event::Queues(vec![queue("q1")]));
    engine.handle(Event::Projects(vec!["*".into()]));
    engine.handle(Event::Associations(vec![record(association(7, "A"), "A")]));
    engine
}

/// Which names an event puts on jobs and takes off them.
fn names(engine: &mut Engine, event: Event<'_>) -> Vec<String> {
    // Else `job.new` is a replay.
    if let Event::New(facts) = &event {
        engine.handle(Event::Validate(facts.clone()));
    }
    let mut todo = VecDeque::from(engine.handle(event));
    let mut names = Vec::new();
    while let Some(effect) = todo.pop_front() {
        match effect {
            Effect::AddDependency(_, name) => names.push(format!("add {name}")),
            Effect::RemoveDependency(_, name) => names.push(format!("remove {name}")),
            Effect::Then(step) => todo.extend(engine.step(step)),
            _ => {}
        }
    }
    names
}
