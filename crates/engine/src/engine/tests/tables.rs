// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that a new limit with a constant cap, or a new priority factor, needs only one new row in a table.

use super::host::Host;
use super::site::{HostJob, NOW, OWNER, association, queue, record};
use crate::engine::{Engine, Event, Settings, State, Tables};
use crate::ids::{Limit, Measure, Stage};
use crate::limits::{Caps, JobSizeLimit, RULES, Rule, Rules};
use crate::priority::{FACTORS, Factor, Factors, NO_RANGE};

/// A limit on the cores of an association's jobs in SCHED, with a fixed cap.
const NINTH: Rule = Rule {
    name: "max-sched-cores-user-limit",
    stage: Stage::Scheduled,
    caps: Caps::InAll(&[(Measure::Cores, |_| Limit(8))]),
};

/// The ninth limit must hold and release jobs as the eight other limits do.
#[test]
fn a_new_counted_limit_needs_only_a_row_in_the_limit_table() {
    let counters = [RULES.counters, &[NINTH]].concat().leak();
    let tables = Tables { rules: Rules { counters, ..RULES }, ..Tables::default() };
    let mut host = Host::new();
    host.engine = make_site(tables);
    let job = |cores| HostJob::new(7).size(1, cores);
    let [first_job, second_job, third_job] = [6, 4, 2].map(|cores| host.submit(job(cores)).unwrap());
    assert_eq!(host.names(second_job), ["max-sched-cores-user-limit"]);
    assert_eq!(host.state(third_job), Some(State::Sched), "the limit has headroom for the smaller job");
    // After a reload, the engine finds the new limit by its name in the eventlog.
    host.replay_jobs(true, make_site(tables));
    assert_eq!(host.names(second_job), ["max-sched-cores-user-limit"]);
    host.start_job(first_job);
    assert_eq!(host.state(second_job), Some(State::Sched), "the first job has left SCHED");
    assert_eq!(crate::engine::answers::check(&host.engine.view()).drift, []);
}

/// A limit on the GPUs of one job.
const THIRD: JobSizeLimit = JobSizeLimit {
    caps: Caps::InAll(&[(Measure::Gpus, |_| Limit(4))]),
    rejection: "job size ({gpus} gpu(s)) is greater than the {max-gpus} gpu(s) that a job may have",
};

#[test]
fn a_new_limit_on_one_job_needs_only_a_row_in_the_limit_table() {
    let per_job = [RULES.per_job, &[THIRD]].concat().leak();
    let mut host = Host::new();
    host.engine = make_site(Tables { rules: Rules { per_job, ..RULES }, ..Tables::default() });
    let job = |gpus| HostJob::new(7).gpus(gpus);
    let text = "job size (5 gpu(s)) is greater than the 4 gpu(s) that a job may have";
    assert_eq!(host.submit(job(5)), Err(text.to_owned()));
    for _ in 0..2 {
        let id = host.submit(job(4)).unwrap();
        assert_eq!(host.state(id), Some(State::Sched), "the limit counts no other job");
    }
}

/// A factor whose value is the number of requested nodes.
const FIFTH: Factor =
    Factor { name: "nodes", default_weight: 7, value: |subject| subject.nodes as f64, range: NO_RANGE };

/// A factor whose value is 1 for users with an even id.
const EVEN: Factor = Factor {
    name: "even",
    default_weight: 5_000_000,
    value: |subject| f64::from(u8::from(subject.association.user.0.is_multiple_of(2))),
    range: |_| 1.0,
};

#[test]
fn a_new_priority_factor_needs_only_a_row_in_the_factor_table() {
    static FIVE: [Factor; 5] = {
        let [fairshare, queue, bank, urgency, ..] = FACTORS;
        [fairshare, queue, bank, urgency, FIFTH]
    };
    let mut host = Host::new();
    host.engine = make_site(Tables { factors: Factors::from_rows(&FIVE), ..Tables::default() });
    let id = host.submit(HostJob::new(7).size(2, 2)).unwrap();
    assert_eq!(host.jobs[&id].priority, Some(50_000 + 2 * 7));
    // A push can set the weight of the new factor, and the query shows it.
    host.send_event(Event::Weights(vec![("nodes".to_owned(), 100)]));
    host.send_event(Event::Reprioritize);
    assert_eq!(host.jobs[&id].priority, Some(50_000 + 2 * 100));
    assert_eq!(crate::engine::answers::snapshot(&host.engine.view()).factors.get("nodes"), Some(&100));
}

/// The weight of age that `max-wait-behind` gives must outweigh the range of the new factor too.
#[test]
fn max_wait_behind_is_guaranteed_despite_an_additional_priority_factor() {
    static SEVEN: [Factor; 7] = {
        let [fairshare, queue, bank, urgency, age, size] = FACTORS;
        [fairshare, queue, bank, urgency, age, size, EVEN]
    };
    const WAIT: f64 = 3_600.0;
    let mut host = Host::new();
    host.engine = make_site(Tables { factors: Factors::from_rows(&SEVEN), ..Tables::default() });
    host.send_event(Event::Associations(vec![
        record(association(7, "A"), "A"),
        record(association(8, "A"), "A"),
    ]));
    host.send_event(Event::Settings(Settings { max_wait_behind: WAIT, ..Settings::default() }));
    let waiting = host.submit(HostJob::new(7)).unwrap();
    host.now += WAIT;
    let later = host.submit(HostJob::new(8)).unwrap();
    host.send_event(Event::Reprioritize);
    let [waiting, later] = [waiting, later].map(|id| host.jobs[&id].priority.unwrap());
    assert!(waiting > later, "{waiting} {later}");
}

/// Returns an engine with `tables`, queue q1 and an association of user 7.
fn make_site(tables: Tables) -> Engine {
    let mut engine = Engine::with_tables(OWNER, tables);
    engine.handle(NOW, Event::Queues(vec![queue("q1")]));
    engine.handle(NOW, Event::Projects(vec!["*".into()]));
    engine.handle(NOW, Event::Associations(vec![record(association(7, "A"), "A")]));
    engine
}
