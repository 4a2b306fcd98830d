// SPDX-License-Identifier: LGPL-3.0-only
//! A limit that flux-accounting does not have: one row, and nothing else is touched.

use super::host::Host;
use super::site::{HostJob, OWNER, association, queue, record};
use crate::accounts::{AssociationRecord, Queue};
use crate::engine::{Engine, Event, State};
use crate::ids::Limit;
use crate::limits::{Caps, Measure, RULES, Rule, Rules, Stage};

/// Cores of an association in SCHED; its cap stands for one that records would bring.
const NINTH: Rule = Rule {
    name: "max-sched-cores-user-limit",
    stage: Stage::Scheduled,
    caps: Caps::InAll(&[(Measure::Cores, |_| Limit(8))]),
    too_large: Some("job size ({cores} core(s)) is greater than the {max-cores} core(s) of a user in SCHED"),
};

fn rules() -> Rules {
    let rows = RULES.0.iter().copied().chain([NINTH]).collect::<Vec<Rule>>();
    Rules(Box::leak(rows.into_boxed_slice()))
}

fn data() -> (Vec<AssociationRecord>, Vec<Queue>) {
    (vec![record(association(7, "A"), "A")], vec![queue("q1")])
}

/// Whatever happens to jobs at the other limits happens at the ninth.
#[test]
fn a_ninth_limit_is_one_row() {
    let mut host = Host::new();
    host.engine = Engine::with_rules(OWNER, rules());
    let (associations, queues) = data();
    host.event(Event::Queues(queues));
    host.event(Event::Associations(associations));
    let job = |cores| HostJob::new(7).size(1, cores);
    let text = "job size (9 core(s)) is greater than the 8 core(s) of a user in SCHED";
    assert_eq!(host.submit(job(9)), Err(text.to_owned()), "it could never run");
    let [first, second, third] = [6, 4, 2].map(|cores| host.submit(job(cores)).unwrap());
    assert_eq!(host.names(second), ["max-sched-cores-user-limit"]);
    assert_eq!(host.state(third), Some(State::Sched), "for the smaller one there is room");
    // A plugin that is loaded again finds the name in the eventlog.
    let mut engine = Engine::with_rules(OWNER, rules());
    engine.handle(host.now, Event::Associations(data().0));
    host.replay(true, engine);
    assert_eq!(host.names(second), ["max-sched-cores-user-limit"]);
    host.start(first);
    assert_eq!(host.state(second), Some(State::Sched), "released when the first left SCHED");
    assert_eq!(host.engine.check().drift, []);
}
