// SPDX-License-Identifier: LGPL-3.0-only
//! Random histories of jobs. The counters must equal a recount from the host's jobs, no limit may be exceeded, and no job may stay held
//! without a reason.
//! Rules: L9

use super::host::Host;
use super::live::{leaf, tree};
use super::site::{HostJob, NOW, association, queue, record};
use super::strict::running_limit_settings;
use super::{FEW, SINGLE_POSTS};
use crate::accounts::{
    AssociationRecord, Cap, ExemptQueues, Queue, RunningLimits, Scope, SiteLimit, SiteRecords, Target,
};
use crate::engine::{Batches, Engine, Event, Settings, State};
use crate::ids::{Amount, JobId, Limit, UserId};
use crate::standing::SitePart;
use fairshare::Policy as Ranking;
use proptest::prelude::*;

mod fuzzed;
mod ops;
mod predictions;

use ops::*;

fn pick_job(host: &Host, at: usize) -> Option<JobId> {
    let count = host.jobs.len().max(1);
    host.jobs.keys().nth(at % count).copied()
}

/// Returns the job that an [`Op::Submit`] submits.
fn build_job(op: &Op) -> HostJob {
    let Op::Submit { user, bank, queue, nodes, gpus, urgency, foreign } = op else { panic!("{op:?}") };
    let mut job = HostJob::new(*user).size(*nodes, *nodes * 2).gpus(*gpus);
    job.urgency = *urgency;
    let durations = [3600.0, 1800.0, 7200.0, 0.0];
    job.duration = durations[(*nodes + urgency.unsigned_abs()) as usize % durations.len()];
    job.bank = bank.map(|at| BANKS[at].to_owned());
    job.queue = QUEUES[*queue].map(str::to_owned);
    if *foreign != DependencyOfOtherPlugin::None {
        job = job.blocked_by("afterany:other");
        job.has_declared_dependencies = *foreign == DependencyOfOtherPlugin::Declared;
    }
    job
}

fn is_strict(settings: &Settings) -> bool {
    settings.running == running_limit_settings(RunningLimits::Strict, &[]).running
}

/// The data and settings of a site, and the behaviour of its scheduler.
#[derive(Clone, Debug)]
struct Site {
    records: Vec<AssociationRecord>,
    queues: Vec<Queue>,
    limits: Vec<SiteLimit>,
    /// Whether the scheduler starts each job as soon as the job is in SCHED.
    is_eager: bool,
    settings: Settings,
    batches: Batches,
    /// Whether pushes bring a tree. With a tree, refreshes post priorities.
    has_tree: bool,
    /// Whether q2 is a virtual queue of q1.
    is_virtual: bool,
}

fn queue_parents_event(is_virtual: bool) -> Event<'static> {
    Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), is_virtual.then(|| "q1".into()))])
}

/// A host, and the site whose data it has.
struct World {
    host: Host,
    site: Site,
}

impl World {
    fn new(site: Site) -> Self {
        let mut world = World { host: Host::new(), site };
        world.host.engine.batches = world.site.batches;
        world.set_queue_parents();
        world.host.send_event(Event::Settings(world.site.settings.clone()));
        world.host.send_event(world.make_push_of_all_data());
        world
    }

    fn set_queue_parents(&mut self) {
        self.host.send_event(queue_parents_event(self.site.is_virtual));
    }

    /// Returns a push of all data.
    fn make_push_of_all_data(&self) -> Event<'static> {
        let leaves =
            || [(7, "A"), (7, "B"), (8, "A"), (8, "B")].map(|(user, bank)| leaf(user, bank, 0.0, 0.0));
        let site = match self.site.has_tree {
            true => tree(Ranking::FairTree, NOW, leaves().into()),
            false => SitePart::default(),
        };
        Event::Policy(self.accounts(), site)
    }

    fn accounts(&self) -> SiteRecords {
        SiteRecords {
            associations: self.site.records.clone(),
            queues: self.site.queues.clone(),
            projects: vec!["*".into()],
            parents: BANKS.map(|bank| (bank.into(), "root".into())).to_vec(),
            limits: self.site.limits.clone(),
            ..SiteRecords::default()
        }
    }

    fn apply(&mut self, op: &Op) {
        let host = &mut self.host;
        host.now += 10.0;
        match op {
            Op::Submit { .. } => {
                let _ = host.submit(build_job(op));
            }
            Op::Start(at, extra) => {
                if let Some(id) = pick_job(host, *at) {
                    if let Some(job) = host.jobs.get_mut(&id).filter(|job| job.state == State::Sched) {
                        job.extra_gpus = *extra;
                    }
                    host.start_job(id);
                }
            }
            Op::Limits(limits) => {
                self.site.limits = limits.clone();
                self.host.send_event(self.make_push_of_all_data());
            }
            Op::Rules(settings) => {
                self.site.settings = settings.clone();
                host.send_event(Event::Settings(self.site.settings.clone()));
            }
            Op::End(at) => pick_job(host, *at).into_iter().for_each(|id| host.end_job(id)),
            Op::Urgency(at, urgency) => {
                pick_job(host, *at).into_iter().for_each(|id| host.set_urgency(id, *urgency));
            }
            Op::UpdateQueue(at, queue) => {
                if let (Some(id), Some(queue)) = (pick_job(host, *at), QUEUES[*queue]) {
                    let _ = host.update_job(id, Some(queue), None);
                }
            }
            Op::Move(at, queue, bank) => {
                if let (Some(id), Some(queue)) = (pick_job(host, *at), QUEUES[*queue]) {
                    let _ = host.update_job(id, Some(queue), Some(BANKS[*bank]));
                }
            }
            Op::Parent(is_virtual) => {
                self.site.is_virtual = *is_virtual;
                self.set_queue_parents();
            }
            Op::UpdateBank(at, bank) => {
                if let Some(id) = pick_job(host, *at) {
                    let _ = host.update_job(id, None, Some(BANKS[*bank]));
                }
            }
            Op::Unblock(at) => {
                if let Some(id) = pick_job(host, *at) {
                    host.unblock(id, "afterany:other");
                }
            }
            Op::Weight(weight) => host.send_event(Event::Weights(vec![("fairshare".to_owned(), *weight)])),
            Op::Readable(at, true) => {
                if let Some(id) = pick_job(host, *at) {
                    host.unreadable.remove(&id);
                }
                host.fire_retry_timer();
            }
            Op::Readable(at, false) => host.unreadable.extend(pick_job(host, *at)),
            Op::Reprioritize => host.send_event(Event::Reprioritize),
            Op::Push { user, bank, limits } => {
                let pushed = record_with_limits(*user, BANKS[*bank], *limits);
                let same = |r: &&mut AssociationRecord| {
                    (r.association.user, &r.association.bank)
                        == (pushed.association.user, &pushed.association.bank)
                };
                if let Some(present) = self.site.records.iter_mut().find(same) {
                    *present = pushed.clone();
                }
                host.send_event(Event::Associations(vec![pushed]));
            }
            Op::Replay { is_reload, data_first } => {
                let (push, settings) = (self.make_push_of_all_data(), self.site.settings.clone());
                let host = &mut self.host;
                host.oracle.apply_event(&Event::Weights(vec![("fairshare".to_owned(), 100_000)]));
                let mut engine = Engine::with_batches(self.site.batches);
                engine.handle(NOW, queue_parents_event(self.site.is_virtual));
                engine.handle(NOW, Event::Settings(settings));
                if *data_first {
                    engine.handle(NOW, push);
                    host.replay_jobs(*is_reload, engine);
                } else {
                    host.replay_jobs(*is_reload, engine);
                    host.send_event(push);
                }
            }
        }
        while self.site.is_eager
            && let Some(id) = self.find_startable()
        {
            self.host.start_job(id);
        }
    }

    fn find_startable(&self) -> Option<JobId> {
        let can_start = |job: &HostJob| job.state == State::Sched && job.priority > Some(0);
        self.host.jobs.iter().find(|(_, job)| can_start(job)).map(|(id, _)| *id)
    }

    /// Checks that the counters of each association equal those of the host's jobs in each state.
    fn check_counts(&self) {
        assert_eq!(crate::engine::answers::check(&self.host.engine.view()).drift, []);
        for record in &self.site.records {
            let (user, bank) = (record.association.user, record.association.bank.as_str());
            let id = self.host.engine.book().find(user, Some(bank)).unwrap();
            let usage = self.host.engine.ledger().accounts().usage(id);
            let mine = |job: &&HostJob| job.user == user.0 && job.bank.as_deref().unwrap_or("A") == bank;
            let jobs: Vec<&HostJob> = self.host.jobs.values().filter(mine).collect();
            let sum = |state: State, of: fn(&HostJob) -> u64| -> u64 {
                jobs.iter().filter(|job| job.state == state && !job.is_held_in_sched).map(|job| of(job)).sum()
            };
            let counts = usage.total;
            assert_eq!(usage.active_jobs, jobs.len() as u64, "active jobs of {user} in {bank}");
            let limited = jobs.iter().filter(|job| {
                let is_exempt = |queue: &str| {
                    let scopes = self.site.settings.exempt.get(queue);
                    scopes.is_some_and(|scopes| scopes.contains(&Scope::Association))
                };
                let queue = job.queue.as_deref();
                let parent = queue.filter(|queue| self.site.is_virtual && *queue == "q2").map(|_| "q1");
                !queue.into_iter().chain(parent).any(is_exempt)
            });
            let limited_nodes =
                limited.clone().filter(|job| job.state == State::Run).map(|job| job.size.nodes);
            let (active, tally) = self.host.engine.view().limits().sum_usage_over_queues(id);
            let expected = (limited.clone().count() as u64, limited_nodes.sum());
            assert_eq!((active, tally.run.nodes()), expected, "under limits of {user} in {bank}");
            assert_eq!(counts.run.jobs(), sum(State::Run, |_| 1), "running jobs of {user} in {bank}");
            assert_eq!(counts.run.nodes(), sum(State::Run, |job| job.size.nodes));
            assert_eq!(counts.run.cores(), sum(State::Run, |job| job.size.cores));
            assert_eq!(counts.sched.jobs(), sum(State::Sched, |_| 1), "scheduled jobs of {user} in {bank}");
            for queue in ["q1", "q2"] {
                let here = |job: &&&HostJob| job.queue.as_deref() == Some(queue) && job.is_scheduled();
                let nodes: u64 = jobs.iter().filter(here).map(|job| job.size.nodes).sum();
                assert_eq!(usage.tally_in_queue(queue).sched.nodes(), nodes, "scheduled nodes in {queue}");
            }
        }
    }

    /// Returns true if running jobs never exceed a limit: the scheduler starts each job at once, or running limits
    /// are strict. In other cases, jobs that were never held can start beyond a limit.
    fn are_running_limits_kept(&self) -> bool {
        self.site.is_eager || is_strict(&self.site.settings)
    }

    fn check_limits(&self) {
        let are_running_limits_kept = self.are_running_limits_kept();
        for record in &self.site.records {
            let limits = &record.association;
            let id = self.host.engine.book().find(limits.user, Some(limits.bank.as_str())).unwrap();
            let usage = self.host.engine.ledger().accounts().usage(id);
            let counts = self.host.engine.view().limits().sum_usage_over_queues(id).1;
            assert!(
                limits.max_sched_jobs.admits(counts.sched.jobs(), 0),
                "scheduled jobs of {limits:?}: {counts:?}"
            );
            if are_running_limits_kept {
                assert!(
                    limits.max_running_jobs.admits(counts.run.jobs(), 0),
                    "running jobs of {limits:?}: {counts:?}"
                );
                assert!(limits.max_nodes.admits(counts.run.nodes(), 0), "nodes of {limits:?}: {counts:?}");
                assert!(limits.max_cores.admits(counts.run.cores(), 0), "cores of {limits:?}: {counts:?}");
            }
            for queue in &self.site.queues {
                let below = (self.site.is_virtual && queue.name.as_str() == "q1").then_some("q2");
                let below = below.map(|queue| usage.tally_in_queue(queue)).unwrap_or_default();
                let counts = usage.tally_in_queue(queue.name.as_str()).zip(below, u64::saturating_add);
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
                if are_running_limits_kept {
                    assert!(queue.max_running_jobs.admits(counts.run.jobs(), 0), "{queue:?}: {counts:?}");
                }
            }
        }
    }

    fn check_scopes(&self) {
        let exceeded = self.host.oracle.find_exceeded_scopes(&self.host.jobs, self.are_running_limits_kept());
        assert_eq!(exceeded, [""; 0]);
    }

    fn check_no_job_is_stranded(&self) {
        self.host.oracle.check_no_job_is_stranded(&self.host.jobs);
    }
}

/// Generates five limits, of which most admit some jobs.
fn any_limits() -> impl Strategy<Value = [i64; 5]> {
    prop::array::uniform5(prop_oneof![1 => Just(0i64), 8 => 1..4i64, 3 => Just(1000)])
}

fn any_site() -> impl Strategy<Value = Site> {
    let accounts =
        (prop::array::uniform4(any_limits()), prop::array::uniform2(any_limits()), any_scope_limits());
    let ways = (
        any::<bool>(),
        any_settings(),
        any::<bool>(),
        prop_oneof![Just(SINGLE_POSTS), Just(FEW)],
        any::<bool>(),
    );
    (accounts, ways).prop_map(
        |((associations, in_queues, limits), (is_eager, settings, has_tree, batches, is_virtual))| Site {
            records: make_records(associations),
            queues: make_queues(in_queues),
            limits,
            is_eager,
            settings,
            batches,
            has_tree,
            is_virtual,
        },
    )
}

/// Runs operations without other plugins and without changes of limits. Checks after each operation that no limit is exceeded and no job
/// is stranded, and calls `observe`.
fn run_without_other_plugins(site: Site, ops: &[Op], mut observe: impl FnMut(&Op, &World)) {
    // A job at priority 0 loses its reservation, and may start later beyond a limit if running limits are not strict.
    // So an eager scheduler gets no operation here that makes a priority 0.
    let may_exceed = site.is_eager && !is_strict(&site.settings);
    let is_allowed = |op: &&Op| !(may_exceed && matches!(op, Op::Urgency(..) | Op::Weight(_)));
    let mut world = World::new(site);
    for op in ops.iter().filter(is_allowed) {
        world.apply(op);
        world.check_counts();
        world.check_no_job_is_stranded();
        world.check_limits();
        world.check_scopes();
        observe(op, &world);
    }
}

/// Runs any operations. Checks the counters and calls `observe` after each operation. Checks at the end that no job is stranded, and that
/// the engine stores nothing about jobs that have ended.
fn run_with_other_plugins(site: Site, ops: &[Op], mut observe: impl FnMut(&Op, &World)) {
    let mut world = World::new(site);
    for op in ops {
        world.apply(op);
        world.check_counts();
        observe(op, &world);
    }
    world.host.unreadable.clear();
    world.host.fire_retry_timer();
    world.host.send_event(Event::Reprioritize);
    let ids: Vec<JobId> = world.host.jobs.keys().copied().collect();
    for id in ids {
        world.host.remove_dependency(id, "afterany:other");
    }
    world.host.send_event(Event::Reprioritize);
    world.check_counts();
    world.check_no_job_is_stranded();
    let all_jobs: Vec<JobId> = world.host.jobs.keys().copied().collect();
    all_jobs.into_iter().for_each(|id| world.host.end_job(id));
    world.check_counts();
    assert_eq!(world.host.engine.count_stored_jobs(), []);
    assert!(world.host.engine.book().find(UserId(7), None).is_some());
}

/// The refresh raises the priorities of ten jobs above 0, one after another. One job may run, so the job whose
/// priority rises first reserves all headroom.
#[test]
fn a_refresh_releases_one_job_if_the_limit_allows_one() {
    let submit = |urgency| Op::Submit {
        user: 7,
        bank: None,
        queue: 0,
        nodes: 1,
        gpus: 0,
        urgency,
        foreign: DependencyOfOtherPlugin::None,
    };
    let mut ops = vec![Op::Weight(0), submit(16), submit(10)];
    ops.extend((0..8).map(|_| submit(16)));
    ops.extend([Op::Weight(100_000), submit(16), Op::Reprioritize]);
    let site = Site {
        records: make_records([[1, 0, 2, 1, 1], [0; 5], [0; 5], [0; 5]]),
        queues: make_queues([[1000; 5]; 2]),
        limits: Vec::new(),
        is_eager: true,
        settings: running_limit_settings(RunningLimits::Strict, &[]),
        batches: SINGLE_POSTS,
        has_tree: true,
        is_virtual: false,
    };
    run_without_other_plugins(site, &ops, |_, _| ());
}

/// The refresh after a push posts the priority 0 of the job in SCHED. This ends the reservation of the job,
/// so the refresh must release held jobs.
#[test]
fn a_posted_priority_of_0_releases_the_next_held_job() {
    let submit = |user, queue| Op::Submit {
        user,
        bank: Some(1),
        queue,
        nodes: 1,
        gpus: 0,
        urgency: 16,
        foreign: DependencyOfOtherPlugin::None,
    };
    let ops = [
        submit(8, 2),
        Op::Urgency(0, 0),
        submit(7, 0),
        submit(7, 2),
        Op::Urgency(0, 10),
        Op::Weight(0),
        Op::Reprioritize,
    ];
    let site = Site {
        records: make_records([[0; 5], [1, 0, 1, 1, 1], [0; 5], [1, 0, 2, 1, 1]]),
        queues: make_queues([[0; 5], [1; 5]]),
        limits: Vec::new(),
        is_eager: false,
        settings: running_limit_settings(RunningLimits::Strict, &[]),
        batches: SINGLE_POSTS,
        has_tree: true,
        is_virtual: false,
    };
    run_without_other_plugins(site, &ops, |_, _| ());
}

/// Returns a configuration with 400 cases, or with `PROPTEST_CASES` if that is more.
fn proptest_config() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(400), ..default }
}

proptest! {
    #![proptest_config(proptest_config())]

    #[test]
    fn all_limits_hold_and_no_job_is_stranded(site in any_site(), ops in prop::collection::vec(harmless_op(), 1..80)) {
        run_without_other_plugins(site, &ops, |_, _| ());
    }

    #[test]
    fn counters_are_exact_after_any_sequence_of_operations(site in any_site(), ops in prop::collection::vec(any_op(), 1..80)) {
        run_with_other_plugins(site, &ops, |_, _| ());
    }
}
