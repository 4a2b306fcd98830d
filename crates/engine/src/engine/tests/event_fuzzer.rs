// SPDX-License-Identifier: LGPL-3.0-only
//! The event fuzzer sends any events at any times. It carries out, refuses, repeats or loses the effects that the
//! engine returns.
//!
//! After each event, the engine's answers must agree with a simple model, which computes the states of jobs from the
//! events alone. The engine's counters must agree with a new count of all jobs. The bytes of an input choose the
//! events (`t/fuzz/drive.rs`).

#[path = "../../../../../t/fuzz/drive.rs"]
pub mod drive;
mod stage_oracle;

use self::drive::{Choices, fuzz, hash_feature, mutate_bytes, read_chosen_input, show};
use self::stage_oracle::JobStageOracle;
use super::FEW;
use super::live::{leaf, tree};
use super::site::{NOW, association, queue, record};
use crate::accounts::{
    Association, Budget, Cap, ConfigPatch, Queue, SiteLimit, SiteRecords, Target, ZeroScore,
};
use crate::budgets::BudgetMode;
use crate::engine::answers::PageFilter;
use crate::engine::{
    Batches, Effect, EndedJob, Engine, Event, JobFacts, Past, Refusal, Settings, State, Timer, answers,
};
use crate::ids::{Amount, JobId, Limit, Measure, UserId};
use crate::limits::{Allocation, Resources, Size};
use crate::standing::SitePart;
use fairshare::Policy as Rule;
use fairshare::charging::{ChargeBy, ChargeByChange, ChargeChange};

const IDS: [u64; 9] = [0, 1, 2, 3, 4, 5, 6, 7, u64::MAX];
const USERS: [u32; 5] = [7, 8, 9, 0, u32::MAX];
const BANKS: [Option<&str>; 6] = [None, Some("A"), Some("B"), Some("root"), Some(""), Some("%s\n\u{1b}[31m")];
const QUEUES: [Option<&str>; 5] = [None, Some("q1"), Some("q2"), Some("unknown"), Some("")];
const NAMES: [&str; 6] =
    ["afterany:1", "max-running-jobs-user-limit", "max-run-jobs-queue.3", "max-sched-jobs-bank", "", "%n\n"];
const STATES: [State; 7] =
    [State::New, State::Depend, State::Priority, State::Sched, State::Run, State::Cleanup, State::Inactive];
const AMOUNTS: [u64; 6] = [1, 2, 3, 0, 1_000_000, Size::MOST];
const URGENCIES: [i64; 6] = [16, 0, 31, 17, -1, i64::MAX];
const CAPS: [i64; 8] = [1, 2, 3, 1000, 0, -1, 2_147_483_647, i64::MAX];
const TIMES: [f64; 9] =
    [NOW, NOW + 1.0, NOW - 9.0, 0.0, -1.0, 1e300, f64::INFINITY, f64::NAN, f64::NEG_INFINITY];

fn choose_random_job<'a>(choices: &mut Choices<'_>, id: JobId) -> JobFacts<'a> {
    let size = Size::new(choices.pick(&AMOUNTS), choices.pick(&AMOUNTS), choices.pick(&AMOUNTS));
    JobFacts {
        id,
        user: UserId(choices.pick(&USERS)),
        state: choices.pick(&STATES),
        urgency: choices.pick(&URGENCIES),
        priority: choices.pick(&[-1, 0, 1, i64::MAX]),
        bank: choices.pick(&BANKS),
        queue: choices.pick(&QUEUES),
        project: choices.pick(&[None, Some("*"), Some("unknown")]),
        size: if choices.below(8) == 7 { Err("too large".to_owned()) } else { Ok(size) },
        submitted: choices.pick(&[Some(NOW), None, Some(f64::NAN), Some(-1.0)]),
        duration: choices.pick(&[3600.0, 0.0, f64::INFINITY, -1.0]),
        resources: choose_resources(choices),
    }
}

fn choose_resources(choices: &mut Choices<'_>) -> Resources {
    match choices.below(4) {
        0 | 1 => Resources::Allocated(Allocation {
            nodes: choices.pick(&AMOUNTS),
            cores: choices.pick(&AMOUNTS),
            gpus: choices.pick(&AMOUNTS),
            start: Some(choices.pick(&TIMES)).filter(|time| *time > 0.0),
            expiration: Some(choices.pick(&TIMES)).filter(|time| *time > 0.0),
        }),
        2 => Resources::None,
        _ => Resources::Unreadable("odd".to_owned()),
    }
}

fn choose_policy(choices: &mut Choices<'_>) -> SiteRecords {
    let choose_record = |choices: &mut Choices<'_>, user: u32, bank: &str| {
        let mut new_association =
            Association { max_running_jobs: Limit(choices.pick(&CAPS)), ..association(user, bank) };
        new_association.max_active_jobs = Limit(choices.pick(&[1000, 3, 0, -1]));
        new_association.max_sched_jobs = Limit(choices.pick(&CAPS));
        new_association.max_nodes = Limit(choices.pick(&CAPS));
        new_association.max_cores = Limit(choices.pick(&CAPS));
        new_association.active = choices.below(8) != 7;
        let mut record = record(new_association, choices.pick(&["A", "B", "nowhere"]));
        record.fairshare = choices.pick(&[0.5, 0.0, 1.0, -1.0, f64::NAN, f64::INFINITY]);
        record
    };
    let target = |choices: &mut Choices<'_>| match choices.below(8) {
        0 => Target::Association(UserId(7), "A".into()),
        1 => Target::EachAssociation,
        2 => Target::Bank(choices.pick(&["A", "B", "root", "gone"]).into()),
        3 => Target::EachBank,
        4 => Target::User(UserId(7)),
        5 => Target::Queue(choices.pick(&["q1", "unknown"]).into()),
        6 => Target::EachQueue,
        _ => Target::EachUser,
    };
    let amounts: Vec<Amount> = Amount::ALL.to_vec();
    let limits = (0..choices.below(4)).map(|_| SiteLimit {
        target: target(choices),
        queue: choices.pick(&[None, Some("q1"), Some("unknown")]).map(Into::into),
        amount: choices.pick(&amounts),
        cap: Cap { limit: Limit(choices.pick(&CAPS)), is_given: choices.below(2) == 1 },
    });
    let limits = limits.collect();
    let keys = [(7, "A"), (7, "B"), (8, "A"), (8, "B"), (u32::MAX, "A")];
    let most = choices.below(keys.len() + 1);
    let queue = |choices: &mut Choices<'_>, name: &str| {
        let mut new_queue = Queue { priority: choices.pick(&[0, 1, i64::MIN, i64::MAX]), ..queue(name) };
        new_queue.max_running_jobs = Limit(choices.pick(&CAPS));
        new_queue.max_nodes_per_assoc = Limit(choices.pick(&CAPS));
        new_queue.max_sched_jobs = Limit(choices.pick(&CAPS));
        new_queue
    };
    SiteRecords {
        associations: keys
            .into_iter()
            .take(most)
            .map(|(user, bank)| choose_record(choices, user, bank))
            .collect(),
        queues: ["q1", "q2"].into_iter().take(choices.below(3)).map(|name| queue(choices, name)).collect(),
        projects: vec!["*".into()],
        banks: vec![("A".into(), choices.pick(&[0.0, 1.0, -1e300, f64::NAN]))],
        parents: ["A", "B"].map(|bank| (bank.into(), choices.pick(&["root", "A", "B"]).into())).to_vec(),
        limits,
        weights: vec![(
            choices.pick(&["fairshare", "age", "size", "queue", "unknown"]).to_owned(),
            choices.pick(&[100_000, 0, -1, i64::MAX, i64::MIN]),
        )],
        ..SiteRecords::default()
    }
}

fn choose_site(choices: &mut Choices<'_>) -> SitePart {
    if choices.below(2) == 0 {
        return SitePart::default();
    }
    let rule = choices.pick(&Rule::ALL);
    let leaves = USERS.map(|user| {
        leaf(user, choices.pick(&["A", "B", "gone"]), choices.pick(&TIMES), choices.pick(&TIMES))
    });
    let most = choices.below(4);
    let mut part = tree(rule, choices.pick(&TIMES), leaves.into_iter().take(most).collect());
    if choices.below(4) == 3 {
        part.banks.pop();
    }
    let (since, factor) = (choices.pick(&TIMES), choices.pick(&[1.0, 0.0, 2.0, f64::INFINITY]));
    part.charges.factors.push(ChargeChange { queue: "q1".into(), since, factor });
    let (charge_by, since) = (choices.pick(&[ChargeBy::Sum, ChargeBy::Max]), choices.pick(&TIMES));
    let [nodes, cores, gpus] = [choices.pick(&AMOUNTS), choices.pick(&AMOUNTS), choices.pick(&AMOUNTS)];
    let totals = fairshare::periods::Resources { nodes, cores, gpus };
    part.charges.rules.push(ChargeByChange { since, charge_by, totals });
    part.budgets = choose_budgets(choices);
    part
}

fn choose_budgets(choices: &mut Choices<'_>) -> Vec<Budget> {
    let targets =
        [Target::Association(UserId(7), "A".into()), Target::Bank("root".into()), Target::User(UserId(8))];
    let budgets = (0..choices.below(8).saturating_sub(5)).map(|_| {
        let start = choices.pick(&[0, NOW as i64 - 9, NOW as i64, i64::MAX - 1]);
        Budget {
            target: choices.pick(&targets),
            measure: choices.pick(&[Measure::NodeTime, Measure::CoreTime, Measure::GpuTime]),
            start,
            end: start.saturating_add(choices.pick(&[1, 100, i64::MAX])),
            deposited: choices.pick(&[0, -5, 36_000_000, i64::MAX - 1]),
            spent: choices.pick(&[0, 1_000, i64::MAX]),
            rate: 0,
        }
    });
    budgets.collect()
}

fn choose_settings(choices: &mut Choices<'_>) -> Settings {
    Settings {
        live: choices.below(4) != 3,
        refresh: choices.pick(&[30.0, 0.0, 1e300, f64::NAN, -1.0]),
        age_max: choices.pick(&[604_800.0, 0.0, f64::INFINITY]),
        age_weight: choices.pick(&[0, 1000, i64::MAX, -5]),
        size_weight: choices.pick(&[0, 1000, i64::MIN]),
        max_wait_behind: choices.pick(&[0.0, 60.0, f64::NAN]),
        interleave: choices.below(2) == 1,
        annotate: choices.below(2) == 1,
        charges: [("q1".into(), choices.pick(&[1.0, 0.0, 2.5, 1000.0, -1.0, f64::NAN]))].into(),
        budgets: choices.pick(&[BudgetMode::Hold, BudgetMode::Reject, BudgetMode::Warn]),
        ..Settings::default()
    }
}

fn choose_ended_job(choices: &mut Choices<'_>, id: JobId) -> EndedJob {
    EndedJob {
        id,
        user: UserId(choices.pick(&USERS)),
        bank: choices.pick(&BANKS).map(Into::into),
        queue: choices.pick(&[None, Some("q1"), Some("gone")]).map(Into::into),
        nodes: choices.pick(&AMOUNTS),
        cores: choices.pick(&AMOUNTS),
        ran: (choices.below(3) != 2).then(|| (choices.pick(&TIMES), choices.pick(&TIMES))),
        allocated: (choices.below(3) == 0).then(|| (choices.pick(&TIMES), choices.pick(&TIMES))),
        end: choices.pick(&TIMES),
    }
}

fn choose_event<'a>(choices: &mut Choices<'_>) -> Event<'a> {
    let id = JobId(choices.pick(&IDS));
    let user = UserId(choices.pick(&USERS));
    let some = |text: Option<&'static str>| text.unwrap_or("A");
    match choices.below(40) {
        0 => Event::Created { id, state: choices.pick(&STATES), has_dependencies: choices.below(2) == 1 },
        1 | 36 => Event::Validate(choose_random_job(choices, id)),
        2 | 37 => Event::New(choose_random_job(choices, id)),
        3 | 38 => Event::Depend(id),
        4 => Event::Dependency { id, name: choices.pick(&NAMES), added: choices.below(2) == 1 },
        5 => Event::Priority(id, choices.pick(&URGENCIES)),
        39 => {
            Event::Bounced { id, urgency: choices.pick(&URGENCIES), posted: choices.pick(&[0, 7, u32::MAX]) }
        }
        6 => Event::PriorityGet(id, choices.pick(&URGENCIES)),
        7 | 35 => Event::Sched(id),
        8 => Event::Run(id, choose_resources(choices)),
        9 => Event::Cleanup(id),
        10 => Event::Inactive(id),
        11 => Event::Gone(id),
        12 => {
            Event::UpdateQueue { id, user, state: choices.pick(&STATES), queue: some(choices.pick(&QUEUES)) }
        }
        13 => Event::UpdateBank { id, user, state: choices.pick(&STATES), bank: some(choices.pick(&BANKS)) },
        14 => Event::Updated(choose_random_job(choices, id)),
        15 => Event::Settings(choose_settings(choices)),
        16 => Event::Associations(choose_policy(choices).associations),
        17 => Event::Queues(choose_policy(choices).queues),
        18 => Event::Projects(vec!["*".into()]),
        19 => Event::Banks(choose_policy(choices).banks),
        20 => Event::Weights(choose_policy(choices).weights),
        21 => Event::Config(ConfigPatch {
            deny_unknown_queues: choices.pick(&[None, Some(true), Some(false)]),
            zero_score: choices.pick(&[None, Some(ZeroScore::Hold), Some(ZeroScore::Floor)]),
        }),
        22 | 23 => Event::Policy(choose_policy(choices), choose_site(choices)),
        24 => Event::PolicyBegin { keeps_config: choices.below(2) == 1 },
        25 => {
            let mut part = choose_policy(choices);
            part.arrays = SiteRecords::ARRAYS.into_iter().filter(|_| choices.below(4) != 3).collect();
            Event::PolicyPart(part, choose_site(choices))
        }
        26 => Event::PolicyCommit,
        27 => {
            choices.pick(&[Event::PolicyAbort, Event::Reprioritize, Event::TryAgain, Event::Rest(vec![id])])
        }
        28 => Event::Timer(choices.pick(&(0..).map_while(Timer::from_repr).collect::<Vec<_>>())),
        29 => Event::SiteNodes(choices.pick(&[None, Some(0), Some(8), Some(u64::MAX)])),
        30 => match choices.below(3) {
            0 => Event::Urgency(id, choices.pick(&URGENCIES)),
            1 => Event::ResourcesUpdated,
            _ => Event::Expiration(id, Some(choices.pick(&TIMES)).filter(|time| *time > 0.0)),
        },
        31 => {
            let log = (0..choices.below(4))
                .map(|_| (choices.pick(&NAMES).to_owned(), choices.below(2) == 1))
                .collect();
            Event::Eventlog(id, Some(log).filter(|_| choices.below(4) != 3))
        }
        32 => {
            let past = |choices: &mut Choices<'_>| match choices.below(4) {
                0 => Past::Urgency(choices.pick(&URGENCIES)),
                1 => Past::Dependency(choices.pick(&NAMES).to_owned(), choices.below(2) == 1),
                2 => Past::Accepted,
                _ => Past::Allocated,
            };
            Event::Past(id, (0..choices.below(4)).map(|_| (choices.pick(&TIMES), past(choices))).collect())
        }
        33 => {
            let names = (0..choices.below(3)).map(|_| choices.pick(&NAMES).to_owned()).collect();
            Event::Dependencies(id, Some(names).filter(|_| choices.below(4) != 3))
        }
        _ => match choices.below(4) {
            0 => Event::Shown(choose_random_job(choices, id)),
            1 => Event::Panicked(Some(id).filter(|_| choices.below(2) == 1)),
            2 => Event::Ended(None),
            _ => Event::Ended(Some((0..choices.below(3)).map(|_| choose_ended_job(choices, id)).collect())),
        },
    }
}

/// Returns the name of the enum variant of `value`. The fuzzer keeps an input that leads to a new combination
/// of names.
fn variant_name(value: &impl std::fmt::Debug) -> String {
    let text = format!("{value:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Sends the events that the bytes of `input` choose, and checks the engine after each event. Returns hashes.
/// Each hash covers an event, the stages of all jobs before the event, and one of its effects, if any. The fuzzer keeps
/// an input that gives a new hash.
fn run_history(input: &[u8]) -> Vec<u64> {
    let mut choices = Choices(input);
    let batches = Batches {
        ordered: choices.pick(&[1000, 0, 1, usize::MAX]),
        posted: choices.pick(&[2000, 0, 1]),
        longest_loop: choices.pick(&[50_000, 0, usize::MAX]),
        ..FEW
    };
    let mut engine = Engine::with_batches(batches);
    let mut oracle = JobStageOracle::default();
    let mut pending_effects: Vec<Effect> = Vec::new();
    let mut features = Vec::new();
    let mut now = NOW;
    let first = Event::Policy(choose_policy(&mut choices), choose_site(&mut choices));
    engine.handle(now, first);
    while !choices.is_over() {
        let before = format!("{:?}", oracle.stages());
        let (what, effects) = match choices.below(10) {
            // Flux carries out or refuses an effect of an earlier event. One effect in four stays in
            // `pending_effects`, and may be carried out again.
            0 | 1 if !pending_effects.is_empty() => {
                let at = choices.below(pending_effects.len());
                let effect = if choices.below(4) == 3 {
                    pending_effects[at].clone()
                } else {
                    pending_effects.swap_remove(at)
                };
                let why = [Refusal::Absent, Refusal::TooLate, Refusal::Other("%s\n".to_owned())];
                match (effect, choices.below(4)) {
                    (Effect::Then(step), _) => (variant_name(&step), engine.execute_step(step)),
                    (effect, how @ 0..=2) => {
                        // Flux refuses a lookup with `Absent` or `TooLate` if the job has ended.
                        if let (Effect::LookUp(id), 0 | 1) = (&effect, how) {
                            oracle.apply_event(&Event::Gone(*id), &[]);
                        }
                        (variant_name(&effect), engine.refused(effect, why[how].clone()))
                    }
                    (Effect::AskUrgency(id), _) => {
                        ("asked".to_owned(), engine.handle(now, Event::Urgency(id, choices.pick(&URGENCIES))))
                    }
                    (Effect::LookUp(id), _) => {
                        let event = Event::Shown(choose_random_job(&mut choices, id));
                        oracle.apply_event(&event, &[]);
                        ("shown".to_owned(), engine.handle(now, event))
                    }
                    (effect, _) => (variant_name(&effect), Vec::new()),
                }
            }
            _ => {
                now = if choices.below(8) == 7 { choices.pick(&TIMES) } else { now + 1.0 };
                let event = choose_event(&mut choices);
                let what = variant_name(&event);
                show(|| format!("at {now} {event:?}"));
                let effects = engine.handle(now, event.clone());
                oracle.apply_event(&event, &effects);
                (what, effects)
            }
        };
        show(|| format!("{what} -> {effects:?}"));
        features.extend(effects.iter().map(|effect| hash_feature((&what, &before, variant_name(effect)))));
        features.push(hash_feature((&what, &before)));
        oracle.copy_decisions(&engine);
        assert_engine_agrees(&engine, &oracle);
        pending_effects.extend(effects);
        pending_effects.truncate(64);
    }
    // No query may panic, whatever the history was.
    let _ = (
        answers::snapshot(&engine.view()),
        answers::stats(&engine.view(), answers::Heading::new(&engine.view(), now, None)),
        engine.preview(now, 10).is_ok(),
    );
    let all = PageFilter { after: None, user: None, most: 1000, most_held: 1000 };
    let _ = (
        answers::page(&engine.view(), &all),
        crate::engine::uncovered(&engine.view(), Default::default(), 10),
        crate::engine::associations_page(
            &engine.view(),
            None,
            10,
            crate::engine::as_pushed(&engine.view()).as_ref(),
        ),
        crate::engine::site_document(&engine.view()),
    );
    for id in IDS.map(JobId) {
        let mut facts = choose_random_job(&mut choices, id);
        facts.state = State::Sched;
        let _ = answers::why(&engine.view(), &facts, now);
    }
    // Once a job is INACTIVE, the engine stores nothing about it.
    for id in IDS.map(JobId) {
        engine.handle(now, Event::Inactive(id));
    }
    assert_eq!(
        (engine.count_stored_jobs(), answers::check(&engine.view()).drift),
        (vec![], vec![]),
        "all jobs have ended"
    );
    features
}

fn assert_engine_agrees(engine: &Engine, oracle: &JobStageOracle) {
    let check = answers::check(&engine.view());
    assert_eq!(check.drift, [], "the counters differ from a recount");
    assert_eq!(check.jobs, oracle.count_tracked_live_jobs(), "live jobs, of {oracle:?}");
    assert_eq!(check.running.jobs, oracle.running_count(), "running jobs, of {oracle:?}");
    let snapshot = answers::snapshot(&engine.view());
    let sum = |count: fn(&answers::AssociationSnapshot) -> i64| {
        let in_force = snapshot.users.iter().flat_map(|user| &user.banks);
        in_force.chain(&snapshot.removed_associations).map(count).sum::<i64>().unsigned_abs()
    };
    let shown = (sum(|one| one.cur_active_jobs), sum(|one| one.cur_run_jobs), sum(|one| one.cur_sched_jobs));
    assert_eq!(shown, oracle.counts(), "counts of all associations, of {oracle:?}");
    let (book, ledger) = (&engine.shared.book, &engine.shared.ledger);
    let usages = book.associations(None).chain(book.removed()).map(|(id, _)| ledger.accounts().usage(id));
    let gpus: u64 = usages.map(|usage| usage.total.run.gpus()).sum();
    assert_eq!(gpus, oracle.running_gpus(), "GPUs of running jobs, of {oracle:?}");
}

/// Runs the input file that `FUZZ_INPUT` names. `FUZZ_SHOW=1` prints each event.
#[test]
#[ignore = "shows the history of one input"]
fn counters_stay_correct_for_the_event_history_in_fuzz_input() {
    run_history(&read_chosen_input());
}

#[test]
fn any_sequence_of_events_keeps_the_counters_right() {
    let seeds = (0..32u8).map(|n| (0..200u8).map(|at| at.wrapping_mul(n * 2 + 1) ^ n).collect()).collect();
    fuzz("events", seeds, mutate_bytes, run_history);
}
