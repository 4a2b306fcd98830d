// SPDX-License-Identifier: LGPL-3.0-only
//! Random lives of jobs: counters equal a recount from the host, limits hold, nobody is stranded.

use super::host::Host;
use super::site::{HostJob, NOW, OWNER, association, queue, record};
use crate::accounts::{AssociationRecord, Queue};
use crate::engine::{Engine, Event, State};
use crate::ids::{JobId, Limit, UserId};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Op {
    Submit {
        user: u32,
        bank: Option<usize>,
        queue: usize,
        nodes: u64,
        urgency: i64,
        foreign: Foreign,
    },
    Start(usize),
    End(usize),
    Urgency(usize, i64),
    UpdateQueue(usize, usize),
    UpdateBank(usize, usize),
    ForeignDone(usize),
    Reprioritize,
    /// Of the fair-share: 0 makes every score 0, and nobody is scheduled.
    Weight(i64),
    /// A job's eventlog can be read from now on, or can't.
    Readable(usize, bool),
    Push {
        user: u32,
        bank: usize,
        limits: [i64; 5],
    },
    Replay {
        is_reload: bool,
        data_first: bool,
    },
}

/// Another plugin's dependency on a new job.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Foreign {
    None,
    Declared,
    /// The jobspec says nothing of it.
    Undeclared,
}

const BANKS: [&str; 2] = ["A", "B"];
const QUEUES: [Option<&str>; 4] = [None, Some("q1"), Some("q2"), Some("unknown")];

fn urgency() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(16), 2 => Just(0), 1 => Just(31), 1 => Just(10)]
}

fn quiet_op() -> impl Strategy<Value = Op> {
    let which = 0..64usize;
    prop_oneof![
        6 => (7..9u32, prop::option::of(0..2usize), 0..4usize, 1..4u64, urgency()).prop_map(
            |(user, bank, queue, nodes, urgency)| Op::Submit { user, bank, queue, nodes, urgency, foreign: Foreign::None }
        ),
        6 => which.clone().prop_map(Op::Start),
        4 => which.clone().prop_map(Op::End),
        2 => (which.clone(), urgency()).prop_map(|(at, urgency)| Op::Urgency(at, urgency)),
        1 => (which.clone(), 0..4usize).prop_map(|(at, queue)| Op::UpdateQueue(at, queue)),
        1 => (which, 0..2usize).prop_map(|(at, bank)| Op::UpdateBank(at, bank)),
        1 => Just(Op::Reprioritize),
    ]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => quiet_op(),
        2 => (7..9u32, 0..4usize, 1..4u64, urgency(), any::<bool>()).prop_map(
            |(user, queue, nodes, urgency, is_declared)| {
                let foreign = if is_declared { Foreign::Declared } else { Foreign::Undeclared };
                Op::Submit { user, bank: None, queue, nodes, urgency, foreign }
            }
        ),
        1 => prop_oneof![Just(0), Just(100_000)].prop_map(Op::Weight),
        1 => (0..64usize, any::<bool>()).prop_map(|(at, is_readable)| Op::Readable(at, is_readable)),
        1 => (0..64usize).prop_map(Op::ForeignDone),
        1 => (7..9u32, 0..2usize, prop::array::uniform5(-1..5i64))
            .prop_map(|(user, bank, limits)| Op::Push { user, bank, limits }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(is_reload, data_first)| Op::Replay { is_reload, data_first }),
    ]
}

fn records(limits: [[i64; 5]; 4]) -> Vec<AssociationRecord> {
    let keys = [(7, "A"), (7, "B"), (8, "A"), (8, "B")];
    keys.into_iter().zip(limits).map(|((user, bank), limits)| limited(user, bank, limits)).collect()
}

fn limited(user: u32, bank: &str, [run, active, sched, nodes, cores]: [i64; 5]) -> AssociationRecord {
    let mut one = association(user, bank);
    // -1 is the test suite's hook, which is no limit.
    one.max_running_jobs = Limit(run.max(0));
    one.max_active_jobs = Limit(active * 4);
    one.max_sched_jobs = Limit(sched);
    one.max_nodes = Limit(nodes * 2);
    one.max_cores = Limit(cores * 4);
    record(one, "A")
}

fn queues(limits: [[i64; 5]; 2]) -> Vec<Queue> {
    let build = |(name, [run, nodes, sched, sched_nodes, sched_cores]): (&str, [i64; 5])| {
        let mut one = queue(name);
        one.max_running_jobs = Limit(run);
        one.max_nodes_per_assoc = Limit(nodes * 2);
        one.max_sched_jobs = Limit(sched);
        one.max_sched_nodes_per_assoc = Limit(sched_nodes * 2);
        one.max_sched_cores_per_assoc = Limit(sched_cores * 4);
        one
    };
    ["q1", "q2"].into_iter().zip(limits).map(build).collect()
}

fn pick(host: &Host, at: usize) -> Option<JobId> {
    let count = host.jobs.len().max(1);
    host.jobs.keys().nth(at % count).copied()
}

struct World {
    host: Host,
    records: Vec<AssociationRecord>,
    queues: Vec<Queue>,
    /// The scheduler starts every job at once.
    is_eager: bool,
}

impl World {
    fn new(records: Vec<AssociationRecord>, queues: Vec<Queue>, is_eager: bool) -> Self {
        World { host: Host::with(records.clone(), queues.clone()), records, queues, is_eager }
    }

    fn step(&mut self, op: &Op) {
        let host = &mut self.host;
        host.now += 10.0;
        match op {
            Op::Submit { user, bank, queue, nodes, urgency, foreign } => {
                let mut job = HostJob::new(*user).size(*nodes, *nodes * 2);
                job.urgency = *urgency;
                job.bank = bank.map(|at| BANKS[at].to_owned());
                job.queue = QUEUES[*queue].map(str::to_owned);
                if *foreign != Foreign::None {
                    job = job.after("afterany:other");
                    job.declares = *foreign == Foreign::Declared;
                }
                let _ = host.submit(job);
            }
            Op::Start(at) => pick(host, *at).into_iter().for_each(|id| host.start(id)),
            Op::End(at) => pick(host, *at).into_iter().for_each(|id| host.end(id)),
            Op::Urgency(at, urgency) => {
                pick(host, *at).into_iter().for_each(|id| host.set_urgency(id, *urgency));
            }
            Op::UpdateQueue(at, queue) => {
                if let (Some(id), Some(queue)) = (pick(host, *at), QUEUES[*queue]) {
                    let _ = host.update(id, Some(queue), None);
                }
            }
            Op::UpdateBank(at, bank) => {
                if let Some(id) = pick(host, *at) {
                    let _ = host.update(id, None, Some(BANKS[*bank]));
                }
            }
            Op::ForeignDone(at) => {
                if let Some(id) = pick(host, *at) {
                    host.remove_dependency(id, "afterany:other");
                    host.settle();
                }
            }
            Op::Weight(weight) => host.event(Event::Weights(vec![("fairshare".to_owned(), *weight)])),
            Op::Readable(at, true) => {
                if let Some(id) = pick(host, *at) {
                    host.unreadable.remove(&id);
                }
                host.retry();
            }
            Op::Readable(at, false) => host.unreadable.extend(pick(host, *at)),
            Op::Reprioritize => host.event(Event::Reprioritize),
            Op::Push { user, bank, limits } => {
                let pushed = limited(*user, BANKS[*bank], *limits);
                let same = |r: &&mut AssociationRecord| {
                    (r.association.user, &r.association.bank)
                        == (pushed.association.user, &pushed.association.bank)
                };
                if let Some(present) = self.records.iter_mut().find(same) {
                    *present = pushed.clone();
                }
                host.event(Event::Associations(vec![pushed]));
            }
            Op::Replay { is_reload, data_first } => {
                let push = || [Event::Queues(self.queues.clone()), Event::Associations(self.records.clone())];
                host.oracle.learn(&Event::Weights(vec![("fairshare".to_owned(), 100_000)]));
                let mut engine = Engine::new(OWNER);
                if *data_first {
                    for event in push() {
                        engine.handle(NOW, event);
                    }
                }
                host.replay(*is_reload, engine);
                if !*data_first {
                    push().into_iter().for_each(|event| host.event(event));
                    host.event(Event::Projects(vec!["*".into()]));
                    host.event(Event::Reprioritize);
                }
            }
        }
        while self.is_eager
            && let Some(id) = self.startable()
        {
            self.host.start(id);
        }
    }

    fn startable(&self) -> Option<JobId> {
        let can = |job: &HostJob| job.state == State::Sched && job.priority > Some(0);
        self.host.jobs.iter().find(|(_, job)| can(job)).map(|(id, _)| *id)
    }

    /// Counters of every association equal what the host has in each state.
    fn counts_are_exact(&self) {
        assert_eq!(self.host.engine.check().drift, []);
        for record in &self.records {
            let (user, bank) = (record.association.user, record.association.bank.as_str());
            let id = self.host.engine.book().find(user, Some(bank)).unwrap();
            let usage = self.host.engine.ledger().usage(id).cloned().unwrap_or_default();
            let mine = |job: &&HostJob| job.user == user.0 && job.bank.as_deref().unwrap_or("A") == bank;
            let jobs: Vec<&HostJob> = self.host.jobs.values().filter(mine).collect();
            let sum = |state: State, of: fn(&HostJob) -> u64| -> u64 {
                jobs.iter().filter(|job| job.state == state).map(|job| of(job)).sum()
            };
            let counts = usage.total.charged;
            assert_eq!(usage.active_jobs, jobs.len() as u64, "active jobs of {user} in {bank}");
            assert_eq!(counts.run.jobs(), sum(State::Run, |_| 1), "running jobs of {user} in {bank}");
            assert_eq!(counts.run.nodes(), sum(State::Run, |job| job.size.nodes));
            assert_eq!(counts.run.cores(), sum(State::Run, |job| job.size.cores));
            assert_eq!(counts.sched.jobs(), sum(State::Sched, |_| 1), "scheduled jobs of {user} in {bank}");
            for queue in ["q1", "q2"] {
                let here = |job: &&&HostJob| job.queue.as_deref() == Some(queue) && job.state == State::Sched;
                let nodes: u64 = jobs.iter().filter(here).map(|job| job.size.nodes).sum();
                assert_eq!(usage.in_queue(queue).charged.sched.nodes(), nodes, "scheduled nodes in {queue}");
            }
        }
    }

    fn limits_hold(&self) {
        for record in &self.records {
            let limits = &record.association;
            let id = self.host.engine.book().find(limits.user, Some(limits.bank.as_str())).unwrap();
            let Some(usage) = self.host.engine.ledger().usage(id) else { continue };
            let counts = usage.total.charged;
            assert!(
                limits.max_sched_jobs.admits(counts.sched.jobs(), 0),
                "scheduled jobs of {limits:?}: {counts:?}"
            );
            if self.is_eager {
                assert!(
                    limits.max_running_jobs.admits(counts.run.jobs(), 0),
                    "running jobs of {limits:?}: {counts:?}"
                );
                assert!(limits.max_nodes.admits(counts.run.nodes(), 0), "nodes of {limits:?}: {counts:?}");
                assert!(limits.max_cores.admits(counts.run.cores(), 0), "cores of {limits:?}: {counts:?}");
            }
            for queue in &self.queues {
                let counts = usage.in_queue(queue.name.as_str()).charged;
                assert!(queue.max_sched_jobs.admits(counts.sched.jobs(), 0), "{queue:?}: {counts:?}");
                assert!(
                    queue.max_sched_nodes_per_assoc.admits(counts.sched.nodes(), 0),
                    "{queue:?}: {counts:?}"
                );
                assert!(
                    queue.max_sched_cores_per_assoc.admits(counts.sched.cores(), 0),
                    "{queue:?}: {counts:?}"
                );
                let nodes = counts.run.nodes() + counts.sched.nodes();
                assert!(queue.max_nodes_per_assoc.admits(nodes, 0), "{queue:?}: {counts:?}");
                if self.is_eager {
                    assert!(queue.max_running_jobs.admits(counts.run.jobs(), 0), "{queue:?}: {counts:?}");
                }
            }
        }
    }

    fn nobody_is_stranded(&self) {
        self.host.oracle.nobody_is_stranded(&self.host.jobs);
    }
}

/// Limits that let something through most of the time.
fn limits() -> impl Strategy<Value = [i64; 5]> {
    prop::array::uniform5(prop_oneof![1 => Just(0i64), 8 => 1..4i64, 3 => Just(1000)])
}

/// 400 cases, or as many as `PROPTEST_CASES` says.
fn cases() -> ProptestConfig {
    let told = ProptestConfig::default();
    ProptestConfig { cases: told.cases.max(400), ..told }
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn limits_hold_and_nobody_is_stranded(
        associations in prop::array::uniform4(limits()),
        in_queues in prop::array::uniform2(limits()),
        is_eager in any::<bool>(),
        ops in prop::collection::vec(quiet_op(), 1..80),
    ) {
        let mut world = World::new(records(associations), queues(in_queues), is_eager);
        // A job that moves, or that gave its place to run to another for its urgency of 0, may come to run past a limit.
        let may_exceed = |op: &Op| matches!(op, Op::UpdateQueue(..) | Op::UpdateBank(..) | Op::Urgency(..));
        for op in ops.iter().filter(|op| !(is_eager && may_exceed(op))) {
            world.step(op);
            world.counts_are_exact();
            world.nobody_is_stranded();
            world.limits_hold();
        }
    }

    #[test]
    fn counters_survive_anything(
        associations in prop::array::uniform4(limits()),
        in_queues in prop::array::uniform2(limits()),
        is_eager in any::<bool>(),
        ops in prop::collection::vec(any_op(), 1..80),
    ) {
        let mut world = World::new(records(associations), queues(in_queues), is_eager);
        for op in &ops {
            world.step(op);
            world.counts_are_exact();
        }
        world.host.unreadable.clear();
        world.host.retry();
        world.host.event(Event::Reprioritize);
        let others: Vec<JobId> = world.host.jobs.keys().copied().collect();
        for id in others {
            world.host.remove_dependency(id, "afterany:other");
        }
        world.host.event(Event::Reprioritize);
        world.counts_are_exact();
        world.nobody_is_stranded();
        let all: Vec<JobId> = world.host.jobs.keys().copied().collect();
        all.into_iter().for_each(|id| world.host.end(id));
        world.counts_are_exact();
        prop_assert_eq!(world.host.engine.check().jobs, 0);
        prop_assert!(world.host.engine.book().find(UserId(7), None).is_some());
    }
}
