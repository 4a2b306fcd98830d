// SPDX-License-Identifier: LGPL-3.0-only
//! The operations of random histories, and how often the generator chooses each.

use super::*;
use crate::accounts::Queue;
use crate::ids::Measure;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
pub enum Op {
    Submit {
        user: u32,
        bank: Option<usize>,
        queue: usize,
        nodes: u64,
        gpus: u64,
        urgency: i64,
        foreign: DependencyOfOtherPlugin,
    },
    /// Starts the job with this index. The `u64` is the number of GPUs that the job gets in addition to its request.
    Start(usize, u64),
    End(usize),
    Urgency(usize, i64),
    UpdateQueue(usize, usize),
    UpdateBank(usize, usize),
    /// Updates the queue and the bank of a job together.
    Move(usize, usize, usize),
    /// Makes q2 a virtual queue of q1, or an ordinary queue.
    Parent(bool),
    /// Removes the dependency of another plugin.
    Unblock(usize),
    Reprioritize,
    /// Sets the weight of the fair-share. If the weight is 0, every score is 0, and Flux schedules only jobs at urgency
    /// 31.
    Weight(i64),
    /// Makes a job's eventlog readable or unreadable.
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
    /// Pushes new site limits.
    Limits(Vec<SiteLimit>),
    /// Sets a new rule for limits on running jobs.
    Rules(Settings),
}

/// Whether another plugin blocks a new job, and whether the jobspec contains the dependency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum DependencyOfOtherPlugin {
    None,
    Declared,
    /// The jobspec does not contain the dependency.
    Undeclared,
}

pub const BANKS: [&str; 2] = ["A", "B"];
pub const QUEUES: [Option<&str>; 4] = [None, Some("q1"), Some("q2"), Some("unknown")];

pub fn any_urgency() -> impl Strategy<Value = i64> {
    prop_oneof![4 => Just(16), 2 => Just(0), 1 => Just(31), 1 => Just(10)]
}

/// Generates operations that exceed no limit. Jobs in SCHED do not get urgency 31, because Flux schedules such a job whatever the limits
/// are.
pub fn harmless_op() -> impl Strategy<Value = Op> {
    let which = 0..64usize;
    prop_oneof![
        6 => (7..9u32, prop::option::of(0..2usize), 0..4usize, 1..4u64, 0..3u64, any_urgency()).prop_map(
            |(user, bank, queue, nodes, gpus, urgency)| {
                Op::Submit { user, bank, queue, nodes, gpus, urgency, foreign: DependencyOfOtherPlugin::None }
            }
        ),
        6 => (which.clone(), prop_oneof![4 => Just(0), 1 => 1..3u64])
            .prop_map(|(at, extra)| Op::Start(at, extra)),
        4 => which.clone().prop_map(Op::End),
        2 => (which.clone(), prop_oneof![Just(16), Just(0), Just(10)])
            .prop_map(|(at, urgency)| Op::Urgency(at, urgency)),
        1 => (which.clone(), 0..4usize).prop_map(|(at, queue)| Op::UpdateQueue(at, queue)),
        1 => (which.clone(), 0..2usize).prop_map(|(at, bank)| Op::UpdateBank(at, bank)),
        1 => (which, 0..4usize, 0..2usize).prop_map(|(at, queue, bank)| Op::Move(at, queue, bank)),
        1 => Just(Op::Reprioritize),
        1 => prop_oneof![Just(0), Just(100_000)].prop_map(Op::Weight),
    ]
}

pub fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => harmless_op(),
        1 => (0..64usize).prop_map(|at| Op::Urgency(at, 31)),
        2 => (7..9u32, 0..4usize, 1..4u64, any_urgency(), any::<bool>()).prop_map(
            |(user, queue, nodes, urgency, is_declared)| {
                let foreign = if is_declared { DependencyOfOtherPlugin::Declared } else { DependencyOfOtherPlugin::Undeclared };
                Op::Submit { user, bank: None, queue, nodes, gpus: nodes % 3, urgency, foreign }
            }
        ),
        1 => (0..64usize, any::<bool>()).prop_map(|(at, is_readable)| Op::Readable(at, is_readable)),
        1 => (0..64usize).prop_map(Op::Unblock),
        1 => (7..9u32, 0..2usize, prop::array::uniform5(-1..5i64))
            .prop_map(|(user, bank, limits)| Op::Push { user, bank, limits }),
        1 => (any::<bool>(), any::<bool>()).prop_map(|(is_reload, data_first)| Op::Replay { is_reload, data_first }),
        1 => any_scope_limits().prop_map(Op::Limits),
        1 => any_settings().prop_map(Op::Rules),
        1 => any::<bool>().prop_map(Op::Parent),
    ]
}

/// Generates settings that say from which state on jobs count under limits on running jobs.
pub fn any_running_limits() -> impl Strategy<Value = Settings> {
    let [upstream, strict] = [RunningLimits::Upstream, RunningLimits::Strict];
    prop_oneof![
        2 => Just(running_limit_settings(upstream, &[])),
        2 => Just(running_limit_settings(strict, &[])),
        1 => Just(running_limit_settings(upstream, &[("q1", strict)])),
        1 => Just(running_limit_settings(strict, &[("q1", upstream)])),
    ]
}

/// Generates settings with rules for limits on running jobs. Half of them exempt one or two queues, and
/// some set the largest priority of a queue.
pub fn any_settings() -> impl Strategy<Value = Settings> {
    let scopes = prop::sample::subsequence(vec![Scope::Association, Scope::Bank, Scope::User], 1..4);
    let exempt = prop::collection::btree_map(
        (1..4usize).prop_map(|queue| QUEUES[queue].unwrap().into()),
        scopes,
        1..3,
    );
    let exempt = exempt.prop_map(|exempt| {
        exempt.into_iter().map(|(queue, scopes)| (queue, BTreeSet::from_iter(scopes))).collect()
    });
    let exempt = prop_oneof![Just(ExemptQueues::new()), exempt];
    let max_priorities = prop_oneof![
        3 => Just(BTreeMap::new()),
        1 => (1..100_000u32).prop_map(|most| [(QUEUES[1].unwrap().into(), most)].into()),
    ];
    (any_running_limits(), exempt, max_priorities).prop_map(|(settings, exempt, max_priorities)| Settings {
        exempt,
        max_priorities,
        ..settings
    })
}

/// Generates limits over scopes without duplicates.
pub fn any_scope_limits() -> impl Strategy<Value = Vec<SiteLimit>> {
    let target = prop_oneof![
        (7..9u32, 0..2usize).prop_map(|(user, bank)| Target::Association(UserId(user), BANKS[bank].into())),
        Just(Target::EachAssociation),
        (0..3usize).prop_map(|bank| Target::Bank([BANKS[0], BANKS[1], "root"][bank].into())),
        Just(Target::EachBank),
        (7..9u32).prop_map(|user| Target::User(UserId(user))),
        Just(Target::EachUser),
        (1..4usize).prop_map(|queue| Target::Queue(QUEUES[queue].unwrap().into())),
        Just(Target::EachQueue),
    ];
    let amounts: Vec<Amount> = Amount::ALL.to_vec();
    let limit = (target, prop::option::of(0..3usize), prop::sample::select(amounts), 1..7i64, any::<bool>());
    let limit = limit.prop_map(|(target, queue, amount, cap, is_given)| {
        let queue = match &target {
            Target::Queue(queue) => Some(queue.clone()),
            Target::EachQueue => None,
            _ => queue.and_then(|queue| QUEUES[queue + 1]).map(Into::into),
        };
        let cap = if amount.measure == Measure::Time { 1200 * cap } else { cap };
        SiteLimit { target, queue, amount, cap: Cap { limit: Limit(cap), is_given } }
    });
    prop::collection::vec(limit, 0..6).prop_map(|limits| {
        let mut unique: Vec<SiteLimit> = Vec::new();
        for limit in limits {
            let is_same = |other: &SiteLimit| {
                (&other.target, &other.queue, other.amount) == (&limit.target, &limit.queue, limit.amount)
            };
            if !unique.iter().any(is_same) {
                unique.push(limit);
            }
        }
        unique
    })
}

pub fn make_records(limits: [[i64; 5]; 4]) -> Vec<AssociationRecord> {
    let keys = [(7, "A"), (7, "B"), (8, "A"), (8, "B")];
    keys.into_iter()
        .zip(limits)
        .map(|((user, bank), limits)| record_with_limits(user, bank, limits))
        .collect()
}

pub fn record_with_limits(
    user: u32,
    bank: &str,
    [run, active, sched, nodes, cores]: [i64; 5],
) -> AssociationRecord {
    let mut one_association = association(user, bank);
    // -1 would not be a limit but a mark of flux-accounting's test suite.
    one_association.max_running_jobs = Limit(run.max(0));
    one_association.max_active_jobs = Limit(active * 4);
    one_association.max_sched_jobs = Limit(sched);
    one_association.max_nodes = Limit(nodes * 2);
    one_association.max_cores = Limit(cores * 4);
    record(one_association, "A")
}

pub fn make_queues(limits: [[i64; 5]; 2]) -> Vec<Queue> {
    let build = |(name, [run, nodes, sched, sched_nodes, sched_cores]): (&str, [i64; 5])| {
        let mut limited_queue = Queue { max_running_jobs: Limit(run), ..queue(name) };
        limited_queue.max_nodes_per_assoc = Limit(nodes * 2);
        limited_queue.max_sched_jobs = Limit(sched);
        limited_queue.max_sched_nodes_per_assoc = Limit(sched_nodes * 2);
        limited_queue.max_sched_cores_per_assoc = Limit(sched_cores * 4);
        limited_queue
    };
    ["q1", "q2"].into_iter().zip(limits).map(build).collect()
}
