// SPDX-License-Identifier: LGPL-3.0-only
//! Benchmarks of limits on banks, on users and on the whole site.
//!
//! `cost` compares two sites with 10,000 banks, 100,000 associations and 20,000 held jobs. The second site has
//! additional limits: on each bank, on each user and on the whole site. `budgets` compares a site with a tree and no
//! limits to the same site with fifty limits, and then to the same site with fifty limits and ten budgets. Both
//! benchmarks run the compared sites in turn, so that other load on the machine slows both sites.
//!
//! `lines` measures events while one limit holds the jobs of many associations. `without` and `with` run only one of
//! the two sites of `budgets`, so that callgrind can count its instructions.
//!
//! Usage: `cargo bench --bench scopes [cost|budgets|lines|without|with]`

use fairshare::accrual::HalfLife;
use fairshare::periods::Weights;
use fairshare::{Options, Policy as Ranking};
use fairshare_benches::{processor, records};
use fairshare_engine::accounts::{AssociationRecord, Budget, Cap, SiteLimit, SiteRecords, Target};
use fairshare_engine::engine::{Effect, Engine, Event, JobFacts, State};
use fairshare_engine::ids::{Amount, BankName, JobId, Limit, Measure, Stage, UserId};
use fairshare_engine::limits::{Allocation, Resources, Size};
use fairshare_engine::standing::{Bank, Leaf, Rule, SitePart, Watermark};
use std::time::Instant;

const BANKS: u32 = 10_000;
const ASSOCIATIONS: u32 = 100_000;
const HELD: u64 = 20_000;
/// The number of jobs that a round submits, and the number of jobs that a round ends. Each end releases one held job.
const SAMPLE: u64 = 2_000;
const ROUNDS: u64 = 9;
const NOW: f64 = 1_700_000_000.0;

fn bank_name(index: u32) -> BankName {
    format!("bank{index}").as_str().into()
}

fn make_limit(target: Target, stage: Stage, measure: Measure, cap: i64) -> SiteLimit {
    let cap = Cap { limit: Limit(cap), is_given: false };
    SiteLimit { target, queue: None, amount: Amount { stage, measure }, cap }
}

fn make_limits() -> Vec<SiteLimit> {
    let banks = (0..BANKS)
        .map(|at| make_limit(Target::Bank(bank_name(at)), Stage::Running, Measure::Gpus, 1_000_000));
    let root = Target::Bank("root".into());
    let others = [
        make_limit(root, Stage::RunningAndScheduled, Measure::Nodes, 10_000_000),
        make_limit(Target::EachUser, Stage::RunningAndScheduled, Measure::Gpus, 1_000_000),
    ];
    banks.chain(others).collect()
}

/// Creates fifty limits: on forty banks, each bank, each user, and the site.
fn make_fifty_limits() -> Vec<SiteLimit> {
    let measures = [Measure::Jobs, Measure::Nodes, Measure::Cores, Measure::Gpus];
    let banks = (0..40).map(|at| Target::Bank(bank_name(at))).map(|bank| (bank, Measure::Nodes));
    let others = [Target::EachUser, Target::Bank("root".into())]
        .into_iter()
        .flat_map(|target| measures.map(|measure| (target.clone(), measure)));
    let each_bank = [Measure::Cores, Measure::Gpus].map(|measure| (Target::EachBank, measure));
    let all = banks.chain(others).chain(each_bank);
    all.map(|(target, measure)| make_limit(target, Stage::RunningAndScheduled, measure, 1_000_000)).collect()
}

/// Creates ten budgets with headroom: of the site and of nine banks.
fn make_budgets() -> Vec<Budget> {
    let banks = (0..9).map(bank_name).chain(["root".into()]);
    let (start, end) = (NOW as i64 - 86_400, NOW as i64 + 86_400);
    let (deposited, spent, rate) = (i64::MAX / 2, 0, 0);
    let measure = Measure::NodeTime;
    banks
        .map(|bank| Budget { target: Target::Bank(bank), measure, start, end, deposited, spent, rate })
        .collect()
}

/// Creates a tree of all banks and associations.
fn make_tree(budgets: Vec<Budget>) -> SitePart {
    let rule = Rule {
        instant: NOW,
        half_life: HalfLife::new(604_800.0).unwrap_or(HalfLife::NONE),
        reset: 2_419_200.0,
        weights: Weights::default(),
        policy: Ranking::FairTree,
        options: Options::default(),
        replaces_all: false,
    };
    let bank = |name, parent| Bank { name, parent, shares: 1, active: true };
    let banks = (0..BANKS).map(|at| bank(bank_name(at), Some("root".into())));
    let leaf = |user| Leaf {
        user: Some(UserId(user)),
        name: format!("u{user}").into(),
        bank: bank_name(user % BANKS),
        shares: 1,
        active: true,
        usage: Some(1.0),
        counted: Watermark::through(NOW),
    };
    SitePart {
        rule: Some(rule),
        banks: [bank("root".into(), None)].into_iter().chain(banks).collect(),
        associations: (0..ASSOCIATIONS).map(leaf).collect(),
        budgets,
        ..SitePart::default()
    }
}

fn apply_effects(engine: &mut Engine, effects: Vec<Effect>) {
    for effect in effects {
        let more_effects = match effect {
            Effect::Then(step) => engine.execute_step(step),
            Effect::AskUrgency(id) => engine.handle(NOW, Event::Urgency(id, 16)),
            // Flux moves a job without dependencies to PRIORITY before the call returns.
            Effect::RemoveDependency(id, _) => {
                let more_effects = engine.handle(NOW, Event::Priority(id, 16));
                apply_effects(engine, more_effects);
                engine.handle(NOW, Event::Sched(id))
            }
            _ => Vec::new(),
        };
        apply_effects(engine, more_effects);
    }
}

fn handle(engine: &mut Engine, event: Event<'_>) {
    let effects = engine.handle(NOW, event);
    apply_effects(engine, effects);
}

fn push_site(engine: &mut Engine, limits: &[SiteLimit], tree: &SitePart) {
    handle(engine, Event::PolicyBegin { keeps_config: false });
    handle(engine, Event::PolicyPart(SiteRecords::default(), tree.clone()));
    let mut push_part = |part: SiteRecords| handle(engine, Event::PolicyPart(part, SitePart::default()));
    for first in (0..ASSOCIATIONS).step_by(500) {
        let users = first..first + 500;
        let records =
            users.map(|user| records::make_record(user, bank_name(user % BANKS).as_str(), 1)).collect();
        push_part(SiteRecords { associations: records, ..SiteRecords::default() });
    }
    push_part(SiteRecords {
        projects: vec!["*".into()],
        banks: (0..BANKS).map(|at| (bank_name(at), 0.0)).collect(),
        parents: (0..BANKS).map(|at| (bank_name(at), "root".into())).collect(),
        limits: limits.to_vec(),
        ..SiteRecords::default()
    });
    handle(engine, Event::PolicyCommit);
    // Before the engine gets the list of ended jobs, the balances of budgets are unknown. The engine then holds each job.
    handle(engine, Event::Ended(Some(Vec::new())));
}

fn make_facts(id: u64, state: State) -> JobFacts<'static> {
    records::make_facts(id, (id % u64::from(ASSOCIATIONS)) as u32, state, NOW)
}

/// Submits a job. Returns true if a limit holds the job.
fn submit_job(engine: &mut Engine, id: u64) -> bool {
    submit_job_to_engine(engine, make_facts(id, State::New))
}

/// Submits a job. Returns true if a limit holds the job.
fn submit_job_to_engine(engine: &mut Engine, facts: JobFacts<'static>) -> bool {
    let id = facts.id;
    handle(engine, Event::Validate(facts.clone()));
    handle(engine, Event::New(facts));
    let effects = engine.handle(NOW, Event::Depend(id));
    let is_held = effects.iter().any(|effect| matches!(effect, Effect::AddDependency(..)));
    if !is_held {
        handle(engine, Event::Priority(id, 16));
        handle(engine, Event::Sched(id));
    }
    is_held
}

/// Submits [`SAMPLE`] jobs with ids from `first`. Returns how many of these jobs are held.
#[inline(never)]
fn submit_sample(engine: &mut Engine, first: u64) -> usize {
    (first..first + SAMPLE).filter(|id| submit_job(engine, *id)).count()
}

/// Starts [`SAMPLE`] jobs with ids from `first`.
#[inline(never)]
fn start_sample(engine: &mut Engine, first: u64) {
    (first..first + SAMPLE).for_each(|id| run_job(engine, id));
}

/// Ends [`SAMPLE`] jobs with ids from `first`.
#[inline(never)]
fn end_sample_jobs(engine: &mut Engine, first: u64) {
    (first..first + SAMPLE).for_each(|id| handle(engine, Event::Inactive(JobId(id))));
}

fn run_job(engine: &mut Engine, id: u64) {
    let allocation = Allocation { nodes: 1, cores: 1, gpus: 0, start: Some(NOW), expiration: None };
    handle(engine, Event::Run(JobId(id), Resources::Allocated(allocation)));
}

/// Creates an engine with 20,000 associations. Each has a running job, and a job that is held until the running job ends.
fn make_engine_with_held_jobs(limits: &[SiteLimit], tree: &SitePart) -> Engine {
    let mut engine = Engine::new(UserId(u32::MAX - 1));
    push_site(&mut engine, limits, tree);
    for id in 0..HELD {
        submit_job(&mut engine, id);
        run_job(&mut engine, id);
        submit_job(&mut engine, id + u64::from(ASSOCIATIONS));
    }
    engine
}

/// Returns the microseconds per event of `act`, which handles `count` events.
fn time_events(count: u64, act: impl FnOnce()) -> f64 {
    let start = Instant::now();
    act();
    start.elapsed().as_secs_f64() * 1e6 / count as f64
}

/// A site, and the shortest time of each kind of event in all rounds, in microseconds. `release` is the time to end a job and release a held job.
struct MeasuredSite {
    limits: Vec<SiteLimit>,
    tree: SitePart,
    engine: Engine,
    submit: f64,
    start: f64,
    release: f64,
    push: f64,
}

impl MeasuredSite {
    fn new(limits: Vec<SiteLimit>, tree: SitePart) -> MeasuredSite {
        let engine = make_engine_with_held_jobs(&limits, &tree);
        let most = f64::INFINITY;
        MeasuredSite { limits, tree, engine, submit: most, start: most, release: most, push: most }
    }

    fn run_and_measure_round(&mut self, round: u64) {
        let engine = &mut self.engine;
        // These jobs belong to associations without running jobs, so no limit holds them.
        let first = HELD + SAMPLE;
        let mut held = 0;
        let elapsed = time_events(SAMPLE, || held = submit_sample(engine, first));
        assert_eq!(held, 0, "a limit holds jobs that should run");
        self.submit = self.submit.min(elapsed);
        self.start = self.start.min(time_events(SAMPLE, || start_sample(engine, first)));
        (first..first + SAMPLE).for_each(|id| handle(engine, Event::Inactive(JobId(id))));
        let elapsed = time_events(SAMPLE, || end_sample_jobs(engine, round * SAMPLE));
        self.release = self.release.min(elapsed);
        self.push = self.push.min(time_events(1, || push_site(engine, &self.limits, &self.tree)));
    }
}

fn compare_cost() {
    let site = |limits| MeasuredSite::new(limits, SitePart::default());
    compare(site(Vec::new()), site(make_limits()));
}

fn compare_budgets() {
    for budgets in [Vec::new(), make_budgets()] {
        println!("fifty limits and {} budgets", budgets.len());
        let without = MeasuredSite::new(Vec::new(), make_tree(Vec::new()));
        compare(without, MeasuredSite::new(make_fifty_limits(), make_tree(budgets)));
    }
}

/// Submits, starts and ends jobs in three rounds. Callgrind can count the instructions of `submit_sample`,
/// `start_sample` and `end_sample_jobs`.
fn run_three_benchmark_rounds(limits: Vec<SiteLimit>, budgets: Vec<Budget>) {
    let mut site = MeasuredSite::new(limits, make_tree(budgets));
    (0..3).for_each(|round| site.run_and_measure_round(round));
}

fn compare(mut without: MeasuredSite, mut with: MeasuredSite) {
    for round in 0..ROUNDS {
        without.run_and_measure_round(round);
        with.run_and_measure_round(round);
    }
    println!("{:10} {:>14} {:>14} {:>7}", "", "without, us", "with, us", "ratio");
    for (what, without, with) in [
        ("submit", without.submit, with.submit),
        ("start", without.start, with.start),
        ("release", without.release, with.release),
        ("push", without.push, with.push),
    ] {
        println!("{what:10} {without:14.3} {with:14.3} {:7.3}", with / without);
    }
}

/// A site in which limits on the nodes and cores of the whole site hold jobs. A running job leaves only one node and one core of the limits free.
struct CrowdedSite {
    engine: Engine,
    next_id: u64,
}

/// The limits on nodes and on cores of the site.
const SITE_LIMIT: u64 = 1_000;
/// The user of the running jobs.
const RUNNING_USER: u32 = 1_000_000;

impl CrowdedSite {
    /// Creates a site with `associations` associations. The priority of their jobs increases with the user id.
    fn new(associations: u32) -> CrowdedSite {
        let record = |user: u32| AssociationRecord {
            fairshare: (f64::from(user) / f64::from(associations)).min(1.0),
            ..records::make_record(user, "bank", 2_147_483_647)
        };
        let root = || Target::Bank("root".into());
        let site_limit = |measure| make_limit(root(), Stage::Running, measure, SITE_LIMIT as i64);
        let mut site = CrowdedSite { engine: Engine::new(UserId(u32::MAX - 1)), next_id: 1 };
        let policy = SiteRecords {
            associations: (0..associations).chain([RUNNING_USER]).map(record).collect(),
            projects: vec!["*".into()],
            parents: vec![("bank".into(), "root".into())],
            limits: vec![site_limit(Measure::Nodes), site_limit(Measure::Cores)],
            ..SiteRecords::default()
        };
        handle(&mut site.engine, Event::Policy(policy, SitePart::default()));
        let id = site.submit(RUNNING_USER, SITE_LIMIT - 1, SITE_LIMIT - 1, false);
        run_job(&mut site.engine, id);
        site
    }

    fn submit(&mut self, user: u32, nodes: u64, cores: u64, is_held: bool) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let size = Ok(Size::new(nodes, cores, 0));
        let facts = JobFacts { size, ..records::make_facts(id, user, State::New, NOW) };
        assert_eq!(
            submit_job_to_engine(&mut self.engine, facts),
            is_held,
            "user {user}, {nodes} nodes, {cores} cores"
        );
        id
    }

    /// Creates a site in which each association has one job that needs more than the headroom.
    fn with_waiting_jobs(associations: u32) -> CrowdedSite {
        let mut site = CrowdedSite::new(associations);
        for user in 0..associations {
            site.submit(user, 3, 3, true);
        }
        site
    }

    /// Submits two jobs of each association: one needs more cores than are free under the limit, the other more nodes.
    fn submit_jobs_that_exceed_headroom(mut self, associations: u32) -> CrowdedSite {
        for user in 0..associations {
            self.submit(user, 1, 3, true);
            self.submit(user, 3, 1, true);
        }
        self
    }

    /// Submits and ends a job that no limit holds. The end starts a release scan.
    fn run_empty_job(&mut self) {
        let id = self.submit(RUNNING_USER, 0, 0, false);
        handle(&mut self.engine, Event::Inactive(JobId(id)));
    }

    /// Pushes an association, which may change priorities, then runs an empty job.
    fn run_empty_job_after_push(&mut self) {
        let records = vec![records::make_record(RUNNING_USER, "bank", 2_147_483_647)];
        handle(&mut self.engine, Event::Associations(records));
        self.run_empty_job();
    }

    /// Runs enough empty jobs to make the held jobs count as overtaken.
    fn run_jobs_until_overtaken(mut self) -> CrowdedSite {
        (0..=fairshare_engine::limits::OVERTAKEN).for_each(|_| self.run_empty_job());
        self
    }
}

/// Prints the milliseconds of processor time that the first and the second call of `act` take.
fn print_row(what: &str, mut site: CrowdedSite, act: fn(&mut CrowdedSite)) {
    let mut measure = || {
        let start = processor::thread_time();
        act(&mut site);
        (processor::thread_time() - start).as_secs_f64() * 1e3
    };
    let (first, again) = (measure(), measure());
    println!("{what:64} {first:10.2} {again:10.2}");
}

fn measure_searches_of_held_jobs() {
    let reprioritize = |site: &mut CrowdedSite| handle(&mut site.engine, Event::Reprioritize);
    println!("{:64} {:>10} {:>10}", "ms of processor time", "first", "again");
    print_row(
        "20,000 wait, and the job with the lowest priority is first",
        CrowdedSite::with_waiting_jobs(20_000),
        CrowdedSite::run_empty_job,
    );
    print_row(
        "20,000 wait, and priorities may have changed",
        CrowdedSite::with_waiting_jobs(20_000),
        CrowdedSite::run_empty_job_after_push,
    );
    print_row(
        "20,000 wait and were overtaken, and priorities may have changed",
        CrowdedSite::with_waiting_jobs(20_000).run_jobs_until_overtaken(),
        CrowdedSite::run_empty_job_after_push,
    );
    print_row(
        "2,000 wait, some job of each might fit, and none fits",
        CrowdedSite::new(2_000).submit_jobs_that_exceed_headroom(2_000),
        CrowdedSite::run_empty_job,
    );
    print_row("5,000 wait, and the engine checks all", CrowdedSite::with_waiting_jobs(5_000), reprioritize);
    print_row(
        "1,000 wait, and some job of 100 of them might fit",
        CrowdedSite::with_waiting_jobs(1_000).submit_jobs_that_exceed_headroom(100),
        reprioritize,
    );
    print_row(
        "2,000 wait, and some job of 400 of them might fit",
        CrowdedSite::with_waiting_jobs(2_000).submit_jobs_that_exceed_headroom(400),
        reprioritize,
    );
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let measurements: [(&str, fn()); 5] = [
        ("cost", compare_cost),
        ("budgets", compare_budgets),
        ("lines", measure_searches_of_held_jobs),
        ("without", || run_three_benchmark_rounds(Vec::new(), Vec::new())),
        ("with", || run_three_benchmark_rounds(make_fifty_limits(), make_budgets())),
    ];
    for (name, measure) in measurements {
        if wanted.is_empty() || wanted.iter().any(|want| want == name) {
            measure();
        }
    }
}
