// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `explain`: why a job is where it is.

use super::super::View;
use super::super::{Change, Changes, JobFacts, PricedJob, State, Turn};
use super::heading::Heading;
use super::holds::{HoldNow, current_holds};
use super::note;
use super::others::{Keeper, other_keepers, suggestions, unnamed_keepers};
use super::release::{Release, foresee_release};
use crate::ids::{BankName, JobId, QueueName, UserId, Word};
use crate::limits::{Job, PlaceInLine};
use crate::priority::{AGE, Explanation, SIZE, Term};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The answer to `explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// The state of the plugin.
    #[serde(flatten)]
    pub heading: Heading,
    /// The jobs that are explained, in the order of the request.
    pub jobs: Vec<Why>,
    /// The jobs that are not.
    #[serde(default)]
    pub refused: Vec<Refused>,
}

/// A job that is not explained.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Refused {
    /// The job.
    pub id: JobId,
    /// The reason.
    #[serde(flatten)]
    pub reason: Note,
}

/// A code for programs and a text for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Note {
    /// One of a few words.
    #[serde(default)]
    pub code: Word,
    /// The same in a sentence, with the names that it is about.
    pub text: String,
}

/// The posted priority of a job is stale.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lag {
    /// The current priority less the posted one.
    pub by: i64,
    /// Why the current one was not posted.
    #[serde(flatten)]
    pub reason: Note,
}

/// A priority and its terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExplainedPriority {
    /// The priority.
    pub priority: u32,
    /// The name of the [`Outcome`](crate::priority::Outcome).
    pub outcome: Word,
    /// The sum of the terms; `None` if the urgency alone decides.
    pub sum: Option<f64>,
    /// The rounded sum, likewise.
    pub rounded: Option<f64>,
    /// The urgency of the job at that time, 0 to 31.
    #[serde(default)]
    pub urgency: u8,
    /// The terms, in the order in which they are summed.
    pub terms: Vec<Term<Word>>,
}

impl ExplainedPriority {
    /// Returns a priority with the terms that are shown of a job of this `age`.
    fn new(made: &Explanation, urgency: u8, age: f64) -> ExplainedPriority {
        let by_terms = made.is_by_terms();
        ExplainedPriority {
            priority: made.priority,
            outcome: Cow::Borrowed(made.outcome.name()),
            sum: by_terms.then_some(made.sum),
            rounded: by_terms.then_some(made.rounded),
            urgency,
            terms: made.shown_terms(age),
        }
    }
}

/// The priority by which Flux sorts a job, and why the plugin posted it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PostedPriority {
    /// The priority, with the terms at the time of posting.
    #[serde(flatten)]
    pub made: ExplainedPriority,
    /// When it was posted, in seconds since the epoch.
    pub when: Option<f64>,
    /// The generation of live fair-shares at that time.
    #[serde(default)]
    pub generation: u64,
    /// All reasons in one.
    pub reason: Option<Note>,
    /// The changes since the priority before, the most telling first.
    #[serde(default)]
    pub reasons: Vec<Note>,
    /// The last change that somebody made, if the changes since happened by themselves.
    pub before: Option<EarlierChange>,
}

/// Why an earlier priority was posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EarlierChange {
    /// All reasons in one.
    #[serde(flatten)]
    pub reason: Note,
    /// When that priority was posted, in seconds since the epoch.
    pub when: f64,
}

/// Why a job is where it is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Its user.
    pub userid: UserId,
    /// The bank it counts in; without one, the bank that it names.
    pub bank: Option<BankName>,
    /// The queue it names.
    pub queue: Option<QueueName>,
    /// The queue that this one is a virtual queue of.
    pub parent_queue: Option<QueueName>,
    /// Whether the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    pub one_queue_list: Option<bool>,
    /// The project that it names.
    pub project: Option<String>,
    /// Its urgency, 0 to 31.
    pub urgency: i64,
    /// Its state in Flux: `new`, `depend`, `priority`, `sched`, `run`, or `cleanup`.
    pub state: Word,
    /// When it was submitted, in seconds since the epoch.
    pub submitted: Option<f64>,
    /// The nodes it counts as.
    pub nodes: u64,
    /// The cores it counts as.
    pub cores: u64,
    /// Its time limit in seconds, if it has one.
    pub duration: Option<f64>,
    /// The fair-share of its association.
    pub fairshare: Option<f64>,
    /// Its posted priority, if it has one.
    pub posted: Option<PostedPriority>,
    /// Its current priority, if it has a posted one.
    pub exact: Option<ExplainedPriority>,
    /// Set if the posted priority is stale.
    pub lag: Option<Lag>,
    /// Its turn, if jobs of an association take turns.
    pub turn: Option<Turn>,
    /// Whether limits hold it: in DEPEND, in PRIORITY, or in SCHED at priority 0.
    #[serde(rename = "held")]
    pub is_held: bool,
    /// The dependency names that it carries.
    pub carries: Vec<String>,
    /// The limits that hold it now.
    pub holds: Vec<HoldNow>,
    /// When they release it.
    #[serde(flatten)]
    pub release: Release,
    /// Its place among the held jobs of its line.
    pub line: Option<PlaceInLine>,
    /// What else keeps it.
    pub others: Vec<Keeper>,
    /// The number of `others`, and of the dependencies of other plugins that are not named there.
    pub others_total: usize,
    /// What would help, best first.
    pub helps: Vec<Note>,
}

/// A job whose names are known.
fn carried(job: &Job) -> Option<&Job> {
    Some(job).filter(|job| !job.is_unread())
}

/// Explains a job. `facts` are what Flux reports of it at this moment.
pub fn why(view: &View<'_>, facts: &JobFacts<'_>, now: f64) -> Option<Why> {
    let id = facts.id;
    let job = view.ledger.job(id)?;
    let association = job.association();
    let holds = current_holds(view, id, job, now);
    let release = foresee_release(view, id, job, &holds, now);
    let priced = view.priced(id);
    let others = other_keepers(view, id, job, facts, priced.as_ref());
    let helps = suggestions(view, job, facts, &holds, &release, &others, now);
    let rules = view.ledger.rules();
    let age = view.true_age(job, now);
    Some(Why {
        id,
        userid: job.user,
        bank: view.bank_of(association).or_else(|| job.bank.clone()),
        queue: job.queue.clone(),
        parent_queue: job.queue.as_ref().and_then(|queue| view.queues.parent(queue)).cloned(),
        one_queue_list: view.queues.is_one_list(),
        project: facts.project.map(str::to_owned),
        urgency: facts.urgency,
        state: Cow::Borrowed(state_name(facts.state)),
        submitted: job.submitted,
        nodes: job.size.nodes,
        cores: job.size.cores,
        duration: Some(job.duration).filter(|seconds| *seconds > 0.0),
        fairshare: association.and_then(|association| view.fairshare(association)),
        posted: priced.as_ref().map(|priced| posted(view, job, priced, age)),
        exact: priced.as_ref().map(|priced| ExplainedPriority::new(&priced.exact, priced.urgency, age)),
        lag: priced.as_ref().and_then(|priced| lag(view, id, priced)),
        turn: priced.as_ref().and_then(|priced| priced.turn),
        is_held: job.is_held() || !holds.is_empty(),
        carries: carried(job)
            .map(|job| job.names.iter(rules).map(|name| name.to_string()).collect())
            .unwrap_or_default(),
        line: view.ledger.place_in_line(id),
        holds,
        release,
        others_total: others.len() + unnamed_keepers(view, facts),
        others,
        helps,
    })
}

fn state_name(state: State) -> &'static str {
    match state {
        State::New => "new",
        State::Depend => "depend",
        State::Priority => "priority",
        State::Sched => "sched",
        State::Run => "run",
        State::Cleanup | State::Inactive => "cleanup",
    }
}

fn posted(view: &View<'_>, job: &Job, priced: &PricedJob, age: f64) -> PostedPriority {
    let reasons = made(view, job, priced, priced.changes);
    PostedPriority {
        made: ExplainedPriority::new(&priced.posted, priced.urgency, age),
        when: Some(priced.when),
        generation: priced.generation,
        reason: join(&reasons),
        before: made_before(view, job, priced),
        reasons,
    }
}

/// Joins reasons to one: the code of the first, and the texts of all.
fn join(notes: &[Note]) -> Option<Note> {
    let text = notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
    notes.first().map(|first| Note { code: first.code.clone(), text })
}

/// Why the posted priority was posted.
fn made(view: &View<'_>, job: &Job, priced: &PricedJob, changes: Changes) -> Vec<Note> {
    changes.all().map(|change| changed(view, job, priced, changes, change)).collect()
}

/// Returns what somebody changed before usage or age moved the priority.
fn made_before(view: &View<'_>, job: &Job, priced: &PricedJob) -> Option<EarlierChange> {
    let (changes, when) = priced.earlier?;
    if [Change::Submitted, Change::Loaded].into_iter().any(|change| changes.has(change)) {
        return None;
    }
    Some(EarlierChange { reason: join(&made(view, job, priced, changes))?, when })
}

fn changed(view: &View<'_>, job: &Job, priced: &PricedJob, changes: Changes, change: Change) -> Note {
    let bank = || view.bank_of(job.association()).map_or(String::new(), |bank| format!(" {bank}"));
    match change {
        Change::Submitted => note("submitted", "it is the first since the job was submitted"),
        Change::Loaded => note("loaded", "it is the first since the plugin was loaded or Flux restarted"),
        Change::Data => note("data", "a push brought the association that the job had waited for"),
        Change::Released => note("released", "a limit had held the job, and released it"),
        Change::Urgency => {
            let former = changes.former_urgency().unwrap_or_default();
            note("urgency", format!("the job's urgency was changed from {former} to {}", priced.urgency))
        }
        Change::Jobspec => note("jobspec", "the job's jobspec was updated"),
        Change::Weights => changed_weights(view, changes),
        Change::ZeroScore => {
            note("zero-score", "a push changed what a score of 0 or less means (zero_score)")
        }
        Change::QueuePriority => {
            let queue = job.queue.as_ref().map_or(String::new(), |queue| format!(" {queue}"));
            note("queue-priority", format!("a push changed the priority of queue{queue}"))
        }
        Change::BankPriority => {
            note("bank-priority", format!("a push changed the priority of bank{}", bank()))
        }
        Change::Shares => note("shares", "a push changed shares of banks or users"),
        Change::Members => note("members", "a push added, removed, moved or deactivated banks or users"),
        Change::Policy => note("policy", "a push changed the ranking policy or its options"),
        Change::Accounting => note(
            "accounting",
            "a push or the configuration changed how usage is counted or how fast it decays",
        ),
        Change::Live => {
            note("live", "live fair-share was switched on or off, by a push or the configuration")
        }
        Change::Fairshare => {
            note("fairshare", format!("a push changed the fair-share of its user in bank{}", bank()))
        }
        Change::SiteNodes => note("site-nodes", "the number of nodes of the site changed"),
        Change::Usage => note("usage", "usage moved: a refresh of live fair-share posted it"),
        Change::Turn => note("turn", "its turn among the jobs of its association changed"),
        Change::Age => note("age", "the job has been eligible for longer: its age counts more"),
    }
}

fn changed_weights(view: &View<'_>, changes: Changes) -> Note {
    let factors = view.weighed.all().enumerate();
    let names: Vec<&str> =
        factors.filter(|(place, _)| changes.has_weight(*place)).map(|(_, (factor, _))| factor.name).collect();
    let by = match names.iter().any(|name| [AGE, SIZE].contains(name)) {
        true => "a push or the configuration",
        false => "a push",
    };
    let text = match names.as_slice() {
        [name] => format!("{by} changed the weight of factor {name}"),
        names => format!("{by} changed the weights of factors {}", names.join(", ")),
    };
    note("weight", text)
}

fn lag(view: &View<'_>, id: JobId, priced: &PricedJob) -> Option<Lag> {
    let by = i64::from(priced.exact.priority) - i64::from(priced.posted.priority);
    if by == 0 {
        return None;
    }
    // Not the whole snapshot, which looks at every job: this is asked of many jobs in one turn.
    let (last, is_refreshing) = view.refresh.last_refresh();
    let right_to = last.and_then(|last| last.right_to);
    let depth = view.batches.ordered;
    let reason = if is_refreshing {
        note("refresh-under-way", "a refresh is under way")
    } else if !view.posted.is_stale(id) {
        note("since-refresh", next_prices(view))
    } else if right_to.is_some_and(|to| to < depth) {
        let text = format!("a refresh posts {} prices at most; the next one goes on", view.budget());
        note("budget", text)
    } else {
        note(
            "same-order",
            format!("the order is the same: it changes no place among the first {depth} jobs of the queue"),
        )
    };
    Some(Lag { by, reason })
}

/// That a price changed since prices were posted, and what posts it.
fn next_prices(view: &View<'_>) -> String {
    let refresh = view.settings.refresh;
    if !view.is_live() {
        "it changed since prices were last asked for; a push asks for all".to_owned()
    } else if refresh > 0.0 {
        format!("it changed since the last refresh; they come every {}", super::span(refresh))
    } else {
        "it changed since the last refresh; the next comes with a push".to_owned()
    }
}
