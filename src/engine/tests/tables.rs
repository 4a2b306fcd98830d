// SPDX-License-Identifier: LGPL-3.0-only
//! A ninth limit and a fifth factor: a row each, and nothing else.

use super::host::Host;
use super::site::{HostJob, NOW, OWNER, association, queue, record};
use crate::engine::{Effect, Engine, Event, Tables};
use crate::ids::{JobId, Limit};
use crate::limits::{Caps, Measure, RULES, Resources, Rule, Rules, Stage};
use crate::priority::{FACTORS, Factor, Factors};
use std::collections::VecDeque;

/// Cores of an association's running jobs in a queue.
const NINTH: Rule = Rule {
    name: "max-run-cores-queue-limit",
    stage: Stage::Running,
    caps: Caps::InQueue(&[(Measure::Cores, |_| Limit(4))]),
    too_large: Some("{cores} cores are more than {max-cores}"),
};

#[test]
fn a_ninth_limit_is_a_row() {
    let rules = Rules([RULES.0, &[NINTH]].concat().leak());
    let mut engine = site(Tables { rules, ..Tables::default() });
    let job = |cores| HostJob::new(7).queue("q1").size(1, cores);
    let (first, second) = (JobId(1), JobId(2));
    assert_eq!(names(&mut engine, Event::New(Host::facts(first, &job(3)))), Vec::<String>::new());
    names(&mut engine, Event::Run(first, Resources::None));
    names(&mut engine, Event::New(Host::facts(second, &job(2))));
    assert_eq!(names(&mut engine, Event::Depend(second)), ["add max-run-cores-queue-limit"]);
    assert_eq!(names(&mut engine, Event::Inactive(first)), ["remove max-run-cores-queue-limit"]);
    let too_large = engine.handle(NOW, Event::Validate(Host::facts(JobId(3), &job(5))));
    assert!(matches!(too_large.as_slice(), [Effect::Reject(text)] if text == "5 cores are more than 4"));
    assert_eq!(engine.check().drift, []);
}

/// Hours since submission.
const FIFTH: Factor = Factor {
    name: "age",
    default_weight: 7,
    value: |subject| subject.submitted.map_or(0.0, |submitted| (subject.now - submitted) / 3600.0),
};

#[test]
fn a_fifth_factor_is_a_row() {
    static FIVE: [Factor; 5] = {
        let [fairshare, queue, bank, urgency] = FACTORS;
        [fairshare, queue, bank, urgency, FIFTH]
    };
    let mut host = Host::new();
    host.engine = site(Tables { factors: Factors::of(&FIVE), ..Tables::default() });
    let id = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(host.jobs[&id].priority, Some(50_000));
    host.now = NOW + 2.0 * 3600.0;
    host.event(Event::Reprioritize);
    assert_eq!(host.jobs[&id].priority, Some(50_000 + 2 * 7));
    // Its weight is pushed as any other's, and shown as any other's.
    host.event(Event::Weights(vec![("age".to_owned(), 100)]));
    host.event(Event::Reprioritize);
    assert_eq!(host.jobs[&id].priority, Some(50_000 + 2 * 100));
    assert_eq!(host.engine.snapshot().weights.get("age"), Some(&100));
}

/// An engine that works by these tables, with data.
fn site(tables: Tables) -> Engine {
    let mut engine = Engine::with_tables(OWNER, tables);
    engine.handle(NOW, Event::Queues(vec![queue("q1")]));
    engine.handle(NOW, Event::Projects(vec!["*".into()]));
    engine.handle(NOW, Event::Associations(vec![record(association(7, "A"), "A")]));
    engine
}

/// Which names an event puts on jobs and takes off them.
fn names(engine: &mut Engine, event: Event<'_>) -> Vec<String> {
    // Else `job.new` is a replay.
    if let Event::New(facts) = &event {
        engine.handle(NOW, Event::Validate(facts.clone()));
    }
    let mut todo = VecDeque::from(engine.handle(NOW, event));
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
