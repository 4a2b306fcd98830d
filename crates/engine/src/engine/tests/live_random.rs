// SPDX-License-Identifier: LGPL-3.0-only
//! Random histories of jobs with live fair-share. Usages must equal a recount. After a refresh, the first jobs of
//! each queue must be in order. Each priority must equal its explanation.

use super::FEW;
use super::host::Host;
use super::live::{accounts, leaf, tree};
use super::site::{HostJob, NOW};
use crate::engine::{Batches, Engine, Event, Settings};
use crate::ids::{JobId, UserId};
use crate::integral::integral;
use crate::standing::{Charges, Leaf, SitePart};
use fairshare::Policy;
use fairshare::charging::ChargeChange;
use proptest::prelude::*;
use std::collections::BTreeMap;

const USERS: [(u32, &str); 3] = [(7, "A"), (8, "A"), (7, "B")];
const HALF_LIFE: f64 = 1000.0;
/// The number of jobs at the head of a queue that a refresh puts in order.
const DEPTH: usize = 3;

#[derive(Clone, Debug)]
enum Action {
    Submit(usize, u64, bool, i64),
    Start(usize),
    End(usize),
    Urgency(usize, i64),
    Wait(f64),
    Refresh(f64),
    Push,
    /// A push by flux-accounting's methods.
    UpstreamPush,
    Weight(i64),
    /// A configuration with this charge factor of queue q1.
    Charge(f64),
    Replay(bool),
}

fn any_action() -> impl Strategy<Value = Action> {
    let which = 0..64usize;
    let urgency = || prop_oneof![4 => Just(16), 1 => Just(0), 1 => Just(31), 2 => 1..31i64];
    prop_oneof![
        8 => (0..3usize, 1..4u64, any::<bool>(), urgency()).prop_map(|(account, nodes, q, u)| Action::Submit(account, nodes, q, u)),
        5 => which.clone().prop_map(Action::Start),
        3 => which.clone().prop_map(Action::End),
        1 => (which, urgency()).prop_map(|(at, urgency)| Action::Urgency(at, urgency)),
        2 => (0.0..2000.0).prop_map(Action::Wait),
        5 => (0.0..300.0).prop_map(Action::Refresh),
        1 => Just(Action::Push),
        1 => Just(Action::UpstreamPush),
        1 => (0..100_000i64).prop_map(Action::Weight),
        1 => prop::sample::select(vec![0.0, 0.5, 1.0, 3.0]).prop_map(Action::Charge),
        1 => any::<bool>().prop_map(Action::Replay),
    ]
}

/// A job that has run, and the index of its association in `USERS`.
struct StartedJob {
    account: usize,
    nodes: u64,
    /// The charge factor that the job's queue had when the job started.
    charge: f64,
    start: f64,
    end: Option<f64>,
}

struct World {
    host: Host,
    policy: Policy,
    weight: i64,
    /// The changes of the charge factor of queue q1.
    charges: Vec<ChargeChange>,
    /// All jobs that have started, including jobs that have ended.
    started: BTreeMap<JobId, StartedJob>,
}

impl World {
    /// Returns the usage of an association at the time `now`, from the jobs for which `counts` returns true.
    fn recount_usage(&self, account: usize, counts: impl Fn(&StartedJob) -> bool, now: f64) -> f64 {
        let jobs = self.started.values().filter(|job| job.account == account && counts(job));
        jobs.map(|job| {
            let until = job.end.unwrap_or(now).min(now);
            job.charge * job.nodes as f64 * integral(job.start, until, now, Some(HALF_LIFE))
        })
        .sum()
    }

    /// Returns the leaves of the pushed tree. The usage of each leaf includes the jobs that ended by `until`.
    fn leaves(&self, until: f64) -> Vec<Leaf> {
        let now = self.host.now;
        let is_fetched = |job: &StartedJob| job.end.is_some_and(|end| end <= until);
        USERS
            .iter()
            .enumerate()
            .map(|(account, (user, bank))| {
                leaf(*user, bank, self.recount_usage(account, is_fetched, now), until)
            })
            .collect()
    }

    fn push(&mut self, until: f64) {
        let mut accounts = accounts();
        accounts.weights = vec![("fairshare".to_owned(), self.weight)];
        let site = tree(self.policy, self.host.now, self.leaves(until));
        let charges = Charges { factors: self.charges.clone(), rules: Vec::new() };
        self.host.send_event(Event::Policy(accounts, SitePart { charges, ..site }));
    }

    /// Returns the present charge factor of queue q1.
    fn charge(&self) -> f64 {
        self.charges.last().map_or(1.0, |change| change.factor)
    }

    fn configure_charge(&mut self) {
        let charges = [("q1".into(), self.charge())].into();
        self.host.send_event(Event::Settings(Settings { charges, ..Settings::default() }));
    }

    fn apply(&mut self, action: &Action) {
        let pick = |host: &Host, at: usize| host.jobs.keys().nth(at % host.jobs.len().max(1)).copied();
        match action {
            Action::Submit(account, nodes, is_queued, urgency) => {
                let (user, bank) = USERS[*account];
                let mut job = HostJob::new(user).bank(bank).size(*nodes, *nodes);
                job.urgency = *urgency;
                let _ = self.host.submit(if *is_queued { job.queue("q1") } else { job });
            }
            Action::Start(at) => {
                let Some(id) = pick(&self.host, *at) else { return };
                self.host.start_job(id);
                let job = &self.host.jobs[&id];
                if let Some(start) = job.started {
                    let is =
                        |(user, bank): &(u32, &str)| job.user == *user && job.bank.as_deref() == Some(bank);
                    let account = USERS.iter().position(is).unwrap();
                    let charge = if job.queue.is_some() { self.charge() } else { 1.0 };
                    let job = StartedJob { account, nodes: job.size.nodes, charge, start, end: None };
                    self.started.entry(id).or_insert(job);
                }
            }
            Action::End(at) => {
                let Some(id) = pick(&self.host, *at) else { return };
                self.host.end_job(id);
                if let Some(job) = self.started.get_mut(&id) {
                    job.end = Some(self.host.now);
                }
            }
            Action::Urgency(at, urgency) => {
                if let Some(id) = pick(&self.host, *at) {
                    self.host.set_urgency(id, *urgency);
                }
            }
            Action::Wait(seconds) => self.host.now += seconds,
            Action::Refresh(seconds) => self.host.advance_time_and_refresh(*seconds),
            Action::Push => self.push(self.host.now - 50.0),
            Action::UpstreamPush => {
                self.host.send_event(Event::Associations(accounts().associations));
                self.host.send_event(Event::Reprioritize);
            }
            Action::Weight(weight) => {
                self.weight = *weight;
                self.push(NOW);
            }
            Action::Charge(factor) => {
                // A job that starts at the time of a change has the new factor.
                self.host.now += 1.0;
                let since = self.host.now;
                self.charges.push(ChargeChange { queue: "q1".into(), since, factor: *factor });
                self.configure_charge();
            }
            Action::Replay(is_reload) => {
                self.host.replay_jobs(*is_reload, Engine::with_batches(self.host.engine.batches));
                if !self.charges.is_empty() {
                    self.configure_charge();
                }
                self.push((NOW + 300.0).min(self.host.now));
            }
        }
    }

    fn check_usages(&self) {
        let standing = &self.host.engine.standing;
        for (account, (user, bank)) in USERS.iter().enumerate() {
            let index = standing.find(UserId(*user), &(*bank).into()).unwrap();
            let usage = standing.usage(index, self.host.now).unwrap();
            let wanted = self.recount_usage(account, |_| true, self.host.now);
            let wanted = if wanted < 1e-9 { 0.0 } else { wanted };
            assert!(
                (usage - wanted).abs() <= 1e-9 * wanted.max(1.0),
                "{user} in {bank}: {usage}, recounted {wanted}"
            );
        }
    }

    /// Checks that the priority of each job in Flux is the posted priority, and that its terms sum to it.
    fn check_priorities(&self) {
        for (id, job) in self.host.jobs.iter().filter(|(_, job)| job.is_scheduled()) {
            let posted = self.host.engine.view().priorities_of(*id).unwrap().posted;
            assert_eq!(Some(i64::from(posted.priority)), job.priority, "job {id}");
            let sum: f64 = posted.terms().iter().map(|term| term.product).sum();
            assert_eq!(sum, posted.sum);
        }
        let pending = self.host.jobs.values().filter(|job| job.is_scheduled()).count();
        assert_eq!(self.host.engine.view().get_live_fairshare_details().pending, pending);
    }

    /// Checks that the first jobs of each queue by posted priority are also the first by current priority. `right_to`
    /// of the last refresh is the number of jobs that must be in order.
    fn check_heads_of_queues(&self) {
        let Some(last) = self.host.engine.view().get_live_fairshare_details().last else { return };
        for queue in [None, Some("q1")] {
            let here = |(_, job): &(&JobId, &HostJob)| job.is_scheduled() && job.queue.as_deref() == queue;
            let jobs: Vec<(JobId, i64, i64)> = self
                .host
                .jobs
                .iter()
                .filter(here)
                .map(|(id, job)| {
                    let exact = i64::from(self.host.engine.view().priorities_of(*id).unwrap().exact.priority);
                    (*id, job.priority.unwrap(), exact)
                })
                .collect();
            for (id, posted, exact) in &jobs {
                let special = |priority: i64| priority == 0 || priority == i64::from(u32::MAX);
                let is_late = last.right_to.is_some_and(|to| to < DEPTH);
                assert!(is_late || posted == exact || !(special(*posted) || special(*exact)), "job {id}");
            }
            let depth = last.right_to.unwrap_or(jobs.len()).min(jobs.len());
            let first = |priority: fn(&(JobId, i64, i64)) -> i64| {
                let mut sorted = jobs.clone();
                sorted.sort_by_key(|job| (-priority(job), job.0));
                sorted.into_iter().take(depth).map(|job| job.0).collect::<Vec<_>>()
            };
            assert_eq!(first(|job| job.1), first(|job| job.2), "{queue:?}, right to {:?}", last.right_to);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_job_histories_yield_correct_usages_priorities_and_explanations(
        policy in prop::sample::select(Policy::ALL.to_vec()), posted in prop_oneof![Just(2), Just(2000)],
        longest_loop in prop_oneof![Just(0), Just(50_000)],
        acts in prop::collection::vec(any_action(), 1..80),
    ) {
        let mut host = Host::new();
        host.engine.batches = Batches { ordered: DEPTH, posted, longest_loop, ..FEW };
        let mut world = World { host, policy, weight: 100_000, charges: Vec::new(), started: BTreeMap::new() };
        world.push(NOW);
        for action in &acts {
            world.apply(action);
            world.check_usages();
            world.check_priorities();
            if matches!(action, Action::Refresh(_) | Action::Push) {
                world.check_heads_of_queues();
            }
        }
    }
}
