// SPDX-License-Identifier: LGPL-3.0-only
//! Random histories under budgets. After each event, no budget is overspent, and no job is held while every budget has headroom.
//! Rules: B4, B9

use super::super::host::Host;
use super::super::oracle::Record;
use super::super::site::{HostJob, NOW};
use super::*;
use crate::ids::BankName;
use crate::standing::Charges;
use fairshare::charging::ChargeChange;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

/// The number of histories; `BUDGET_HISTORIES` sets another number. 10,000 histories have about a million events.
const HISTORIES: u32 = 60;
const LONGEST: usize = 200;

#[derive(Clone, Debug)]
enum Action {
    /// Submits a job: the index of its user and bank, its nodes, its time limit in quarters of a second, and whether
    /// another plugin blocks it. Jobs with 2 nodes go to the queue q1, and jobs with 3 nodes have no GPUs.
    Submit(usize, u64, u32, bool),
    Start(usize),
    End(usize, When),
    Unblock(usize),
    Urgency(usize, i64),
    Move(usize, usize),
    Extend(usize, u32),
    Wait(u32),
    /// Moves the clock by this number of seconds, which may be negative.
    Clock(i32),
    /// Pushes the data of a database that lags behind by this number of seconds for each association.
    Push([u32; 3]),
    /// Adds an amount, which may be negative, to the deposited amount of a budget.
    Deposit(usize, i64),
    /// Reloads the plugin, or restarts the job manager. The snapshot lacks the last ended jobs.
    Replay(bool, usize),
    Mode(BudgetMode),
    /// The site sets the charge factor of the queue q1.
    Charge(f64),
}

/// When a job ends.
#[derive(Clone, Copy, Debug)]
enum When {
    Early,
    AtLimit,
    Late,
}

fn any_action() -> impl Strategy<Value = Action> {
    let which = || 0..64usize;
    let when = prop_oneof![3 => Just(When::Early), 1 => Just(When::AtLimit), 1 => Just(When::Late)];
    prop_oneof![
        10 => (0..3usize, 1..5u64, 1..1_200u32, prop::bool::weighted(0.1))
            .prop_map(|(account, nodes, quarters, is_blocked)| Action::Submit(account, nodes, quarters, is_blocked)),
        9 => which().prop_map(Action::Start),
        8 => (which(), when).prop_map(|(at, when)| Action::End(at, when)),
        1 => which().prop_map(Action::Unblock),
        1 => (which(), prop::sample::select(vec![0, 16, 20])).prop_map(|(at, urgency)| Action::Urgency(at, urgency)),
        1 => (which(), 0..3usize).prop_map(|(at, account)| Action::Move(at, account)),
        1 => (which(), 1..400u32).prop_map(|(at, quarters)| Action::Extend(at, quarters)),
        3 => (0..120u32).prop_map(Action::Wait),
        1 => (-300..300i32).prop_map(Action::Clock),
        2 => prop::array::uniform3(0..200u32).prop_map(Action::Push),
        1 => (0..4usize, -400_000..800_000i64).prop_map(|(at, amount)| Action::Deposit(at, amount)),
        1 => (any::<bool>(), 0..4usize).prop_map(|(is_reload, lost)| Action::Replay(is_reload, lost)),
        1 => prop::sample::select(vec![BudgetMode::Hold, BudgetMode::Reject]).prop_map(Action::Mode),
        1 => prop::sample::select(vec![0.0, 0.1, 1.0, 2.5]).prop_map(Action::Charge),
    ]
}

/// Returns budgets of different targets and units, with windows that begin and end during the history.
fn any_budgets() -> impl Strategy<Value = Vec<Budget>> {
    let targets = vec![
        bank("root"),
        bank("A"),
        bank("B"),
        Target::User(UserId(7)),
        Target::Association(UserId(8), "A".into()),
    ];
    let target = prop::sample::select(targets);
    let measure = prop::sample::select(vec![Measure::NodeTime, Measure::CoreTime, Measure::GpuTime]);
    let lengths = prop::collection::vec((1..900i64, prop::bool::weighted(0.2), 0..3_000_000i64), 1..4);
    let one = (target, measure, -50..300i64, lengths).prop_map(|(target, measure, first, lengths)| {
        let mut start = NOW as i64 + first;
        let mut budgets = Vec::new();
        for (length, is_gap, deposited) in lengths {
            let (target, end) = (target.clone(), start + length);
            if !is_gap {
                budgets.push(Budget { target, measure, start, end, deposited, spent: 0, rate: 0 });
            }
            start = end;
        }
        budgets
    });
    prop::collection::vec(one, 1..4).prop_map(|lists| {
        let key = |list: &Vec<Budget>| list.first().map(|it| (it.target.clone(), it.measure));
        let by_key: BTreeMap<_, Vec<Budget>> = lists.into_iter().map(|list| (key(&list), list)).collect();
        by_key.into_values().flatten().collect()
    })
}

type Balances = BTreeMap<(Target, Measure), (u64, u64, u64)>;

struct World {
    host: Host,
    budgets: Vec<Budget>,
    watermarks: [f64; 3],
    mode: BudgetMode,
}

impl World {
    fn new(budgets: Vec<Budget>) -> World {
        let mut world = World { host: Host::new(), budgets, watermarks: [NOW; 3], mode: BudgetMode::Hold };
        world.push();
        world
    }

    /// Pushes the budgets. The spent amounts include the ended jobs up to the watermarks.
    fn push(&mut self) {
        let oracle = &self.host.oracle;
        let covers = |record: &&Record| {
            let is_of = |(user, bank): &(u32, &str)| record.user.0 == *user && record.bank.as_str() == *bank;
            USERS.iter().position(is_of).is_some_and(|at| record.ran.1 <= self.watermarks[at])
        };
        let with_spent = |budget: &Budget| {
            let records = oracle.budgets.records.iter().filter(covers);
            let here = records.filter(|record| {
                let starts_here = budget.start as f64 <= record.ran.0 && record.ran.0 < budget.end as f64;
                starts_here && oracle.pays_for(budget, record.user, &record.bank)
            });
            let spent: u64 = here.map(|record| oracle.budgets.charge(record, budget.measure)).sum();
            Budget { spent: spent as i64, ..budget.clone() }
        };
        let budgets = self.budgets.iter().map(with_spent).collect();
        let (policy, site) = push_with_budgets(budgets, self.host.now, self.watermarks);
        let change = |&(since, factor): &(f64, f64)| ChargeChange { queue: "q1".into(), since, factor };
        let factors = oracle.budgets.charges.iter().map(change).collect();
        let charges = Charges { factors, rules: Vec::new() };
        self.host.send_event(Event::Policy(policy, SitePart { charges, ..site }));
    }

    fn apply(&mut self, action: &Action) {
        let pick = |host: &Host, at: usize| host.jobs.keys().nth(at % host.jobs.len().max(1)).copied();
        match action {
            Action::Submit(account, nodes, quarters, is_blocked) => {
                let (user, bank) = USERS[*account];
                let mut job = job(user, bank, *nodes, f64::from(*quarters) / 4.0);
                (job.size.cores, job.size.gpus) = (3 * nodes, nodes % 3 * 2);
                job = if *nodes == 2 { job.queue("q1") } else { job };
                job = if *is_blocked { job.blocked_by("begin-time") } else { job };
                let _ = self.host.submit(job);
            }
            Action::Start(at) => {
                if let Some(id) = pick(&self.host, *at) {
                    self.host.start_job(id);
                }
            }
            Action::End(at, when) => {
                let Some(id) = pick(&self.host, *at) else { return };
                let job = &self.host.jobs[&id];
                if let (Some(start), Some(limit)) = (job.started, job.limit) {
                    let end = start + limit;
                    let at = match when {
                        When::Early => self.host.now.min(end - 1.0),
                        When::AtLimit => end - 1.0,
                        When::Late => end + 20.0,
                    };
                    self.host.now = self.host.now.max(at);
                }
                self.host.end_job(id);
            }
            Action::Unblock(at) => {
                if let Some(id) = pick(&self.host, *at) {
                    self.host.remove_dependency(id, "begin-time");
                    self.host.run_until_idle();
                }
            }
            Action::Urgency(at, urgency) => {
                if let Some(id) = pick(&self.host, *at) {
                    self.host.set_urgency(id, *urgency);
                }
            }
            Action::Move(at, account) => {
                let Some(id) = pick(&self.host, *at) else { return };
                let (user, bank) = USERS[*account];
                if self.host.jobs[&id].user == user {
                    let _ = self.host.update_job(id, None, Some(bank));
                }
            }
            Action::Extend(at, quarters) => {
                let Some(id) = pick(&self.host, *at) else { return };
                if self.host.jobs[&id].state < State::Run {
                    let _ = self.host.update_duration(id, f64::from(*quarters) / 4.0);
                }
            }
            Action::Wait(seconds) => self.host.now += f64::from(*seconds),
            Action::Clock(seconds) => self.host.now += f64::from(*seconds),
            Action::Push(lags) => {
                self.watermarks = lags.map(|lag| self.host.now - f64::from(lag));
                self.push();
            }
            Action::Deposit(at, amount) => {
                let at = *at % self.budgets.len().max(1);
                if let Some(budget) = self.budgets.get_mut(at) {
                    budget.deposited += amount;
                }
                self.push();
            }
            Action::Replay(is_reload, lost) => {
                let (mut ended, sums, _) =
                    crate::engine::uncovered(&self.host.engine.view(), Bookmark::default(), 10_000);
                ended.truncate(ended.len().saturating_sub(*lost));
                self.host.oracle.budgets.restart(&ended.iter().map(|it| it.job.id).collect());
                self.host.replay_jobs(*is_reload, Engine::with_batches(FEW));
                self.set_mode(self.mode);
                self.host.send_event(Event::Recalled(ended, sums));
                self.push();
            }
            Action::Mode(mode) => self.set_mode(*mode),
            Action::Charge(factor) => {
                // The change must be later than the last pushed change (F24), and later than the starts of all jobs.
                // Otherwise the change could apply to ended jobs whose queues the snapshot has not stored (F25).
                let records = self.host.oracle.budgets.records.iter().map(|record| record.ran.0);
                let starts = records.chain(self.host.jobs.values().filter_map(|job| job.started));
                let changes = self.host.oracle.budgets.charges.iter().map(|(since, _)| *since);
                let now = starts.chain(changes).fold(self.host.now, f64::max) + 1.0;
                self.host.now = now;
                let charges = &mut self.host.oracle.budgets.charges;
                let (last, present) = charges.last().copied().unwrap_or((f64::NEG_INFINITY, 1.0));
                if present != *factor {
                    charges.push((now.max(last), *factor));
                }
                self.set_mode(self.mode);
                // `flux fairshare sync` pushes the change.
                self.push();
            }
        }
    }

    fn set_mode(&mut self, mode: BudgetMode) {
        self.mode = mode;
        let factor = self.host.oracle.budgets.charges.last().map_or(1.0, |(_, factor)| *factor);
        let charges = [("q1".into(), factor)].into();
        self.host.send_event(Event::Settings(Settings { budgets: mode, charges, ..Settings::default() }));
    }

    fn balances(&mut self) -> Balances {
        self.host.oracle.now = self.host.now;
        self.host.oracle.balances(&self.host.jobs, None)
    }

    fn committed_jobs(&self) -> BTreeSet<JobId> {
        let is_committed = |(id, job): &(&JobId, &HostJob)| self.host.oracle.is_committed(**id, job);
        self.host.jobs.iter().filter(is_committed).map(|(id, _)| *id).collect()
    }

    /// Returns for each budget whether its window has begun, and whether the window is over.
    fn list_passed_window_bounds(&self) -> Vec<[bool; 2]> {
        let has_passed = |time: i64| time as f64 <= self.host.now;
        self.budgets.iter().map(|budget| [budget.start, budget.end].map(has_passed)).collect()
    }

    /// Applies an action, and checks B9: no job is released, and no job enters SCHED, unless the job fits into all
    /// its budgets. Also checks that only pushes, updates of jobs, and the beginning or end of a window increase the
    /// amount of an overspent budget.
    fn step(&mut self, action: &Action) {
        let (before, committed, windows) =
            (self.balances(), self.committed_jobs(), self.list_passed_window_bounds());
        self.apply(action);
        // If the window of a budget has begun or ended, the engine applies this at its next event.
        self.host.advance_time_and_refresh(0.0);
        let after = self.balances();
        let newly: Vec<JobId> = self.committed_jobs().difference(&committed).copied().collect();
        // If the clock was set back, a job may start before the last change of its charge factor.
        let is_behind =
            self.host.oracle.budgets.charges.last().is_some_and(|(since, _)| *since > self.host.now);
        let may_grow = is_behind
            || windows != self.list_passed_window_bounds()
            || matches!(
                action,
                Action::Push(_)
                    | Action::Deposit(..)
                    | Action::Replay(..)
                    | Action::Charge(_)
                    | Action::Extend(..)
                    | Action::Move(..)
            );
        for (key, (deposited, spent, reserved)) in &after {
            let total = spent + reserved;
            if total <= *deposited {
                continue;
            }
            let budget = self.budgets.iter().find(|it| (&it.target, it.measure) == (&key.0, key.1)).unwrap();
            for id in &newly {
                let job = &self.host.jobs[id];
                let bank = BankName::from(job.bank.as_deref().unwrap());
                let oracle = &self.host.oracle;
                let is_paid = oracle.pays_for(budget, UserId(job.user), &bank)
                    && oracle.budgets.total_charge(job, budget.measure) > 0;
                assert!(
                    !is_paid,
                    "{id} enters SCHED, and {key:?} has {total} of {deposited}: {action:?}, {job:?}"
                );
            }
            let (_, spent_before, reserved_before) = before[key];
            assert!(
                may_grow || total <= spent_before + reserved_before,
                "{key:?} is overspent: {total} of {deposited}, {before:?} before {action:?}"
            );
        }
        self.check_spent_and_committed_amounts(&after);
        self.host.oracle.check_no_job_is_stranded(&self.host.jobs);
    }

    /// Checks that the engine has the spent and committed amounts of the oracle, to the last millisecond.
    fn check_spent_and_committed_amounts(&self, balances: &Balances) {
        let view = self.host.engine.view();
        for window in self.host.engine.budgets.windows() {
            let pushed = self.host.oracle.budgets.budgets.iter().find(|it| **it == window.budget).unwrap();
            assert_eq!(window.spent(), self.host.oracle.spent(pushed), "{pushed:?}");
        }
        for (user, bank) in USERS {
            for (_, usage) in view.limits().list_scope_usages_of_user(UserId(user), &bank.into()) {
                let (_, spent, committed) =
                    balances[&(usage.limit.target.clone(), usage.limit.amount.measure)];
                assert_eq!(usage.used, Some(spent + committed), "{usage:?}");
            }
        }
    }
}

#[test]
fn no_history_overspends_a_budget_or_strands_a_job() {
    let cases =
        std::env::var("BUDGET_HISTORIES").ok().and_then(|text| text.parse().ok()).unwrap_or(HISTORIES);
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4_000, ..Config::default() };
    let events = Cell::new(0);
    let histories = (any_budgets(), prop::collection::vec(any_action(), 1..LONGEST));
    let result = TestRunner::new(config).run(&histories, |(budgets, actions)| {
        let mut world = World::new(budgets);
        for action in &actions {
            world.step(action);
            events.set(events.get() + 1);
        }
        let check = crate::engine::answers::check(&world.host.engine.view());
        prop_assert_eq!(check.drift, vec![]);
        Ok(())
    });
    println!("{} events", events.get());
    result.unwrap();
}
