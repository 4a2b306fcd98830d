// SPDX-License-Identifier: LGPL-3.0-only
//! The event fuzzer: any sequence of events, legal or not, with any times; effects carried out, refused, repeated or lost.
//!
//! After each, a count of the jobs that are alive by what was told of them, made here from the events alone, must agree
//! with what the engine shows, and the engine's own recount with its counters. The bytes of an input are choices
//! (`t/fuzz/drive.rs`); the same bytes make the same history.

#[path = "../../../../../t/fuzz/drive.rs"]
pub mod drive;
mod stage_oracle;

use self::drive::{Choices, bytes, chosen, fuzz, seen, show};
use self::stage_oracle::Told;
use super::FEW;
use super::live::{leaf, tree};
use super::site::{NOW, association, queue, record};
use crate::accounts::{Cap, ConfigPatch, Policy, PolicyPart, SiteLimit, Target, ZeroScore};
use crate::engine::answers::PageWanted;
use crate::engine::{
    Batches, Effect, EndedJob, Engine, Event, JobFacts, Past, Refusal, Settings, State, Timer,
};
use crate::ids::{Amount, JobId, Limit, UserId};
use crate::limits::{Allocation, Resources, Size, SizeError};
use crate::standing::SitePart;
use fairshare::Policy as Rule;

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

fn facts<'a>(of: &mut Choices<'_>, id: JobId) -> JobFacts<'a> {
    let size = Size { nodes: of.pick(&AMOUNTS), cores: of.pick(&AMOUNTS), gpus: of.pick(&AMOUNTS) };
    JobFacts {
        id,
        user: UserId(of.pick(&USERS)),
        state: of.pick(&STATES),
        urgency: of.pick(&URGENCIES),
        priority: of.pick(&[-1, 0, 1, i64::MAX]),
        bank: of.pick(&BANKS),
        queue: of.pick(&QUEUES),
        project: of.pick(&[None, Some("*"), Some("nobody's")]),
        size: if of.below(8) == 7 { Err(SizeError::TooLarge) } else { Ok(size) },
        submitted: of.pick(&[Some(NOW), None, Some(f64::NAN), Some(-1.0)]),
        duration: of.pick(&[3600.0, 0.0, f64::INFINITY, -1.0]),
        resources: resources(of),
    }
}

fn resources(of: &mut Choices<'_>) -> Resources {
    match of.below(4) {
        0 | 1 => Resources::Allocated(Allocation {
            nodes: of.pick(&AMOUNTS),
            cores: of.pick(&AMOUNTS),
            gpus: of.pick(&AMOUNTS),
            start: Some(of.pick(&TIMES)).filter(|time| *time > 0.0),
            expiration: Some(of.pick(&TIMES)).filter(|time| *time > 0.0),
        }),
        2 => Resources::None,
        _ => Resources::Unreadable("odd".to_owned()),
    }
}

fn policy(of: &mut Choices<'_>) -> Policy {
    let one = |of: &mut Choices<'_>, user: u32, bank: &str| {
        let mut one = association(user, bank);
        one.max_running_jobs = Limit(of.pick(&CAPS));
        one.max_active_jobs = Limit(of.pick(&[1000, 3, 0, -1]));
        one.max_sched_jobs = Limit(of.pick(&CAPS));
        one.max_nodes = Limit(of.pick(&CAPS));
        one.max_cores = Limit(of.pick(&CAPS));
        one.active = of.below(8) != 7;
        let mut record = record(one, of.pick(&["A", "B", "nowhere"]));
        record.fairshare = of.pick(&[0.5, 0.0, 1.0, -1.0, f64::NAN, f64::INFINITY]);
        record
    };
    let target = |of: &mut Choices<'_>| match of.below(6) {
        0 => Target::Association(UserId(7), "A".into()),
        1 => Target::EachAssociation,
        2 => Target::Bank(of.pick(&["A", "B", "root", "gone"]).into()),
        3 => Target::EachBank,
        4 => Target::User(UserId(7)),
        _ => Target::EachUser,
    };
    let amounts: Vec<Amount> = Amount::ALL.to_vec();
    let limits = (0..of.below(4)).map(|_| SiteLimit {
        target: target(of),
        queue: of.pick(&[None, Some("q1"), Some("unknown")]).map(Into::into),
        amount: of.pick(&amounts),
        cap: Cap { limit: Limit(of.pick(&CAPS)), is_given: of.below(2) == 1 },
    });
    let limits = limits.collect();
    let keys = [(7, "A"), (7, "B"), (8, "A"), (8, "B"), (u32::MAX, "A")];
    let most = of.below(keys.len() + 1);
    let queue = |of: &mut Choices<'_>, name: &str| {
        let mut one = queue(name);
        one.priority = of.pick(&[0, 1, i64::MIN, i64::MAX]);
        one.max_running_jobs = Limit(of.pick(&CAPS));
        one.max_nodes_per_assoc = Limit(of.pick(&CAPS));
        one.max_sched_jobs = Limit(of.pick(&CAPS));
        one
    };
    Policy {
        associations: keys.into_iter().take(most).map(|(user, bank)| one(of, user, bank)).collect(),
        queues: ["q1", "q2"].into_iter().take(of.below(3)).map(|name| queue(of, name)).collect(),
        projects: vec!["*".into()],
        banks: vec![("A".into(), of.pick(&[0.0, 1.0, -1e300, f64::NAN]))],
        parents: ["A", "B"].map(|bank| (bank.into(), of.pick(&["root", "A", "B"]).into())).to_vec(),
        limits,
        weights: vec![(
            of.pick(&["fairshare", "age", "size", "queue", "nobody's"]).to_owned(),
            of.pick(&[100_000, 0, -1, i64::MAX, i64::MIN]),
        )],
        ..Policy::default()
    }
}

fn site(of: &mut Choices<'_>) -> SitePart {
    if of.below(2) == 0 {
        return SitePart::default();
    }
    let rule = of.pick(&Rule::ALL);
    let leaves = USERS.map(|user| leaf(user, of.pick(&["A", "B", "gone"]), of.pick(&TIMES), of.pick(&TIMES)));
    let most = of.below(4);
    let mut part = tree(rule, of.pick(&TIMES), leaves.into_iter().take(most).collect());
    if of.below(4) == 3 {
        part.banks.pop();
    }
    part
}

fn settings(of: &mut Choices<'_>) -> Settings {
    Settings {
        live: of.below(4) != 3,
        refresh: of.pick(&[30.0, 0.0, 1e300, f64::NAN, -1.0]),
        age_max: of.pick(&[604_800.0, 0.0, f64::INFINITY]),
        age_weight: of.pick(&[0, 1000, i64::MAX, -5]),
        size_weight: of.pick(&[0, 1000, i64::MIN]),
        max_wait_behind: of.pick(&[0.0, 60.0, f64::NAN]),
        interleave: of.below(2) == 1,
        annotate: of.below(2) == 1,
        ..Settings::default()
    }
}

fn ended(of: &mut Choices<'_>, id: JobId) -> EndedJob {
    EndedJob {
        id,
        user: UserId(of.pick(&USERS)),
        bank: of.pick(&BANKS).map(Into::into),
        nodes: of.pick(&AMOUNTS),
        cores: of.pick(&AMOUNTS),
        ran: (of.below(3) != 2).then(|| (of.pick(&TIMES), of.pick(&TIMES))),
        end: of.pick(&TIMES),
    }
}

fn event<'a>(of: &mut Choices<'_>) -> Event<'a> {
    let id = JobId(of.pick(&IDS));
    let user = UserId(of.pick(&USERS));
    let some = |text: Option<&'static str>| text.unwrap_or("A");
    match of.below(40) {
        0 => Event::Created { id, state: of.pick(&STATES), has_dependencies: of.below(2) == 1 },
        1 | 36 => Event::Validate(facts(of, id)),
        2 | 37 => Event::New(facts(of, id)),
        3 | 38 => Event::Depend(id),
        4 => Event::Dependency { id, name: of.pick(&NAMES), added: of.below(2) == 1 },
        5 => Event::Priority(id, of.pick(&URGENCIES)),
        39 => Event::Bounced { id, urgency: of.pick(&URGENCIES), posted: of.pick(&[0, 7, u32::MAX]) },
        6 => Event::PriorityGet(id, of.pick(&URGENCIES)),
        7 | 35 => Event::Sched(id),
        8 => Event::Run(id, resources(of)),
        9 => Event::Cleanup(id),
        10 => Event::Inactive(id),
        11 => Event::Gone(id),
        12 => Event::UpdateQueue { id, user, state: of.pick(&STATES), queue: some(of.pick(&QUEUES)) },
        13 => Event::UpdateBank { id, user, state: of.pick(&STATES), bank: some(of.pick(&BANKS)) },
        14 => Event::Updated(facts(of, id)),
        15 => Event::Settings(settings(of)),
        16 => Event::Associations(policy(of).associations),
        17 => Event::Queues(policy(of).queues),
        18 => Event::Projects(vec!["*".into()]),
        19 => Event::Banks(policy(of).banks),
        20 => Event::Weights(policy(of).weights),
        21 => Event::Config(ConfigPatch {
            deny_unknown_queues: of.pick(&[None, Some(true), Some(false)]),
            zero_score: of.pick(&[None, Some(ZeroScore::Hold), Some(ZeroScore::Floor)]),
        }),
        22 | 23 => Event::Policy(policy(of), site(of)),
        24 => Event::PolicyBegin { keeps_config: of.below(2) == 1 },
        25 => {
            let Policy { associations, queues, projects, banks, parents, limits, weights, .. } = policy(of);
            let part = PolicyPart {
                associations: Some(associations).filter(|_| of.below(4) != 3),
                queues: Some(queues).filter(|_| of.below(4) != 3),
                projects: Some(projects).filter(|_| of.below(4) != 3),
                banks: Some(banks).filter(|_| of.below(4) != 3),
                parents,
                limits,
                weights: Some(weights).filter(|_| of.below(4) != 3),
                config: ConfigPatch::default(),
            };
            Event::PolicyPart(part, site(of))
        }
        26 => Event::PolicyCommit,
        27 => of.pick(&[Event::PolicyAbort, Event::Reprioritize, Event::TryAgain, Event::Rest(vec![id])]),
        28 => Event::Timer(of.pick(&Timer::ALL.iter().map(|(timer, ..)| *timer).collect::<Vec<_>>())),
        29 => Event::SiteNodes(of.pick(&[None, Some(0), Some(8), Some(u64::MAX)])),
        30 => match of.below(3) {
            0 => Event::Urgency(id, of.pick(&URGENCIES)),
            1 => Event::ResourcesUpdated,
            _ => Event::Expiration(id, Some(of.pick(&TIMES)).filter(|time| *time > 0.0)),
        },
        31 => {
            let log = (0..of.below(4)).map(|_| (of.pick(&NAMES).to_owned(), of.below(2) == 1)).collect();
            Event::Eventlog(id, Some(log).filter(|_| of.below(4) != 3))
        }
        32 => {
            let past = |of: &mut Choices<'_>| match of.below(4) {
                0 => Past::Urgency(of.pick(&URGENCIES)),
                1 => Past::Dependency(of.pick(&NAMES).to_owned(), of.below(2) == 1),
                2 => Past::Accepted,
                _ => Past::Allocated,
            };
            Event::Past(id, (0..of.below(4)).map(|_| (of.pick(&TIMES), past(of))).collect())
        }
        33 => {
            let names = (0..of.below(3)).map(|_| of.pick(&NAMES).to_owned()).collect();
            Event::Dependencies(id, Some(names).filter(|_| of.below(4) != 3))
        }
        _ => match of.below(4) {
            0 => Event::Shown(facts(of, id)),
            1 => Event::Panicked(Some(id).filter(|_| of.below(2) == 1)),
            2 => Event::Ended(None),
            _ => Event::Ended(Some((0..of.below(3)).map(|_| ended(of, id)).collect())),
        },
    }
}

/// What a history leads to, for whoever chooses which to go on with.
fn kind(of: &impl std::fmt::Debug) -> String {
    let text = format!("{of:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}

/// Lives through the history that the bytes choose.
fn live_through(input: &[u8]) -> Vec<u64> {
    let mut of = Choices(input);
    let batches = Batches {
        ordered: of.pick(&[1000, 0, 1, usize::MAX]),
        posted: of.pick(&[2000, 0, 1]),
        longest_loop: of.pick(&[50_000, 0, usize::MAX]),
        ..FEW
    };
    let mut engine = Engine::with_batches(batches);
    let mut told = Told::default();
    let mut open: Vec<Effect> = Vec::new();
    let mut features = Vec::new();
    let mut now = NOW;
    let first = Event::Policy(policy(&mut of), site(&mut of));
    engine.handle(now, first);
    while !of.is_over() {
        let before = format!("{:?}", told.stages());
        let (what, effects) = match of.below(10) {
            // An effect of before is carried out, again, or never; or Flux refuses it.
            0 | 1 if !open.is_empty() => {
                let at = of.below(open.len());
                let effect = if of.below(4) == 3 { open[at].clone() } else { open.swap_remove(at) };
                let why = [Refusal::Absent, Refusal::TooLate, Refusal::Other("%s\n".to_owned())];
                match (effect, of.below(4)) {
                    (Effect::Then(step), _) => (kind(&step), engine.step(step)),
                    (effect, how @ 0..=2) => {
                        // What Flux does not have is over.
                        if let (Effect::LookUp(id), 0 | 1) = (&effect, how) {
                            told.learn(&Event::Gone(*id), &[]);
                        }
                        (kind(&effect), engine.refused(effect, why[how].clone()))
                    }
                    (Effect::AskUrgency(id), _) => {
                        ("asked".to_owned(), engine.handle(now, Event::Urgency(id, of.pick(&URGENCIES))))
                    }
                    (Effect::LookUp(id), _) => {
                        let event = Event::Shown(facts(&mut of, id));
                        told.learn(&event, &[]);
                        ("shown".to_owned(), engine.handle(now, event))
                    }
                    (effect, _) => (kind(&effect), Vec::new()),
                }
            }
            _ => {
                now = if of.below(8) == 7 { of.pick(&TIMES) } else { now + 1.0 };
                let event = event(&mut of);
                let what = kind(&event);
                show(|| format!("at {now} {event:?}"));
                let effects = engine.handle(now, event.clone());
                told.learn(&event, &effects);
                (what, effects)
            }
        };
        show(|| format!("{what} -> {effects:?}"));
        features.extend(effects.iter().map(|effect| seen((&what, &before, kind(effect)))));
        features.push(seen((&what, &before)));
        told.resolve(&engine);
        agrees(&engine, &told);
        open.extend(effects);
        open.truncate(64);
    }
    // Whatever it was told, it can be asked.
    let _ = (
        crate::engine::answers::snapshot(&engine.view()),
        crate::engine::answers::stats(
            &engine.view(),
            crate::engine::answers::Heading::new(&engine.view(), now, None),
        ),
        engine.preview(now, 10).is_ok(),
    );
    let all = PageWanted { after: None, user: None, most: 1000, most_held: 1000 };
    let _ = (
        crate::engine::answers::page(&engine.view(), &all),
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
        let mut facts = facts(&mut of, id);
        facts.state = State::Sched;
        let _ = crate::engine::answers::why(&engine.view(), &facts, now);
    }
    // And whoever ends leaves nothing behind.
    for id in IDS.map(JobId) {
        engine.handle(now, Event::Inactive(id));
    }
    assert_eq!(
        (engine.keeps(), crate::engine::answers::check(&engine.view()).drift),
        (vec![], vec![]),
        "all jobs have ended"
    );
    features
}

fn agrees(engine: &Engine, told: &Told) {
    let check = crate::engine::answers::check(&engine.view());
    assert_eq!(check.drift, [], "the counters differ from a recount");
    assert_eq!(check.jobs, told.alive(), "jobs alive, of {told:?}");
    assert_eq!(check.running.jobs, told.running(), "running jobs, of {told:?}");
    let snapshot = crate::engine::answers::snapshot(&engine.view());
    let sum = |of: fn(&crate::engine::answers::AssociationSnapshot) -> u64| {
        snapshot.associations.iter().chain(&snapshot.removed).map(of).sum::<u64>()
    };
    let shown = (
        sum(|one| one.active_jobs),
        sum(|one| one.occupied.run.jobs()),
        sum(|one| one.occupied.sched.jobs()),
    );
    assert_eq!(shown, told.counts(), "counts of all associations, of {told:?}");
    assert_eq!(sum(|one| one.occupied.run.gpus()), told.gpus_running(), "GPUs of running jobs, of {told:?}");
}

/// `FUZZ_INPUT` names a file to be lived through alone, event by event with `FUZZ_SHOW=1`.
#[test]
#[ignore = "shows the history of one input"]
fn one_history() {
    live_through(&chosen());
}

#[test]
fn any_sequence_of_events() {
    let seeds = (0..32u8).map(|n| (0..200u8).map(|at| at.wrapping_mul(n * 2 + 1) ^ n).collect()).collect();
    fuzz("events", seeds, bytes, live_through);
}
