// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `explain`: the priority of a job, and the reasons why it is held or blocked.

use super::super::{Change, Changes, JobFacts, JobPriorities, Turn, View, refresh::post_budget};
use super::holds::{HoldNow, list_holds};
use super::others::{
    Blocker, count_unnamed_dependencies, list_blockers, list_suggestions, suggest_higher_score,
};
use super::release::{Release, estimate_release};
use super::{Heading, QueueRules, note};
use crate::ids::{BankName, JobId, QueueName, UserId, Word};
use crate::limits::{Job, PositionAmongJobs};
use crate::priority::{AGE, Explanation, Outcome, SIZE, Term};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The answer to `explain`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Explained {
    /// The state of the plugin.
    #[serde(flatten)]
    pub heading: Heading,
    /// The explained jobs, in the order of the request.
    pub jobs: Vec<Why>,
    /// The requested jobs that the answer does not explain, with the reasons.
    #[serde(default)]
    pub refused: Vec<Refused>,
}

/// A requested job that the answer does not explain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Refused {
    /// The job.
    pub id: JobId,
    /// The reason.
    #[serde(flatten)]
    pub reason: Note,
}

/// A code for programs and a text for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Note {
    /// The code of the reason, for programs.
    #[serde(default)]
    pub code: Word,
    /// The reason in a sentence.
    pub text: String,
}

/// The difference between a stale posted priority and the current priority, and the reason for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lag {
    /// The current priority minus the posted priority.
    pub by: i64,
    /// Why the current priority was not posted.
    #[serde(flatten)]
    pub reason: Note,
}

/// A priority and its terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ExplainedPriority {
    /// The priority.
    pub priority: u32,
    /// The name of the [`Outcome`](crate::priority::Outcome).
    pub outcome: Word,
    /// The sum of the terms; `None` if the urgency alone decides.
    pub sum: Option<f64>,
    /// The sum of the terms, rounded to a whole number; `None` if the urgency alone decides the priority.
    pub rounded: Option<f64>,
    /// The urgency from which the priority was computed, 0 to 31.
    #[serde(default)]
    pub urgency: u8,
    /// The terms, in the order in which they are summed.
    pub terms: Vec<Term<Word>>,
}

impl ExplainedPriority {
    /// Returns how the engine derived the priority from the sum of the terms. Returns `None` if a newer plugin sent an
    /// outcome that this version does not know.
    pub fn outcome(&self) -> Option<Outcome> {
        self.outcome.parse().ok()
    }

    /// Describes a priority and its terms for an answer. `age` is the age of the job.
    pub(super) fn new(made: &Explanation, urgency: u8, age: f64) -> ExplainedPriority {
        let by_terms = made.is_decided_by_terms();
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PostedPriority {
    /// The priority, with the terms at the time of posting.
    #[serde(flatten)]
    pub made: ExplainedPriority,
    /// When the priority was posted, in seconds since the epoch.
    pub when: Option<f64>,
    /// The number of pushes and refreshes that had changed fair-shares when the priority was posted.
    #[serde(default)]
    pub generation: u64,
    /// All reasons in one text.
    pub reason: Option<Note>,
    /// The changes since the previous priority, the most important first.
    #[serde(default)]
    pub reasons: Vec<Note>,
    /// The last change by a push, an update or the configuration. Set only if all later changes were of usage and age.
    pub before: Option<EarlierChange>,
}

/// Why an earlier priority was posted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EarlierChange {
    /// All reasons in one text.
    #[serde(flatten)]
    pub reason: Note,
    /// When the plugin posted a priority because of this change, in seconds since the epoch.
    pub when: f64,
}

/// Explains why a job has its priority, and why the job does not run yet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Its user.
    pub userid: UserId,
    /// The bank of the job's association. If the job has no association, the bank in the jobspec.
    pub bank: Option<BankName>,
    /// The queue in the job's jobspec.
    pub queue: Option<QueueName>,
    /// The parent queue, if the job's queue is a virtual queue.
    pub parent_queue: Option<QueueName>,
    /// The rules of the job's queue for limits and priorities.
    #[serde(flatten)]
    pub queue_rules: QueueRules,
    /// True if the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    pub one_queue_list: Option<bool>,
    /// The project of its jobspec.
    pub project: Option<String>,
    /// The urgency of the job, 0 to 31.
    pub urgency: i64,
    /// Its state in Flux: `new`, `depend`, `priority`, `sched`, `run`, or `cleanup`.
    pub state: Word,
    /// When it was submitted, in seconds since the epoch.
    pub submitted: Option<f64>,
    /// The requested nodes.
    pub nodes: u64,
    /// The requested cores.
    pub cores: u64,
    /// The time limit in seconds, if the job has one.
    pub duration: Option<f64>,
    /// The fair-share of its association, if it has one.
    pub fairshare: Option<f64>,
    /// The posted priority of the job, if there is one.
    pub posted: Option<PostedPriority>,
    /// The position of the job in its scheduler queue, as in [`ListedJob::place`](super::ListedJob::place). The caller
    /// of [`why`] sets the position.
    pub place: Option<PositionAmongJobs>,
    /// The current priority of the job. Set only if the job has a posted priority.
    pub exact: Option<ExplainedPriority>,
    /// Set if the posted priority is stale.
    pub lag: Option<Lag>,
    /// The position of the job among the pending jobs of its association, and the fair-share for this position. `None`
    /// if jobs of different associations are not interleaved.
    pub turn: Option<Turn>,
    /// True if limits hold the job in DEPEND, in PRIORITY, or in SCHED at priority 0.
    #[serde(rename = "held")]
    pub is_held: bool,
    /// The dependencies that this plugin has added to the job.
    pub carries: Vec<String>,
    /// The limits that the job exceeds now.
    pub holds: Vec<HoldNow>,
    /// When the job is released.
    #[serde(flatten)]
    pub release: Release,
    /// The position of the job in the order of release, among the held jobs of its association.
    pub line: Option<PositionAmongJobs>,
    /// The reasons other than limits why the job does not run yet.
    pub others: Vec<Blocker>,
    /// The number of all reasons other than limits. `others` may contain fewer reasons, because it lists a limited
    /// number of dependencies.
    pub others_total: usize,
    /// Suggestions, best first.
    pub helps: Vec<Note>,
}

/// Explains a job at `now`. `facts` are Flux's present facts about the job. Returns `None` if the job is unknown.
pub fn why(view: &View<'_>, facts: &JobFacts<'_>, now: f64) -> Option<Why> {
    let id = facts.id;
    let job = view.ledger.job(id)?;
    let holds = list_holds(view, id, job, now);
    let release = estimate_release(view, id, job, &holds, now);
    let others = list_blockers(view, id, job, facts, view.priorities_of(id).as_ref());
    let explained = explain_priority(view, facts, now)?;
    let mut helps = list_suggestions(view, job, facts, &holds, &release, now);
    if let Some(posted) = explained.posted.as_ref().filter(|_| others.iter().any(|it| it.cause == "score")) {
        helps.extend(suggest_higher_score(facts, &posted.made.terms));
    }
    let known_names = job.names.iter(view.ledger.rules()).filter(|_| !job.is_unread());
    Some(Why {
        is_held: job.is_held() || !holds.is_empty(),
        carries: known_names.map(|name| name.to_string()).collect(),
        line: view.ledger.accounts().find_position_of_held_job(id, job),
        holds,
        release,
        others_total: others.len() + count_unnamed_dependencies(view, facts),
        others,
        helps,
        ..explained
    })
}

/// Explains only the priority of a job at `now`: leaves out limits, dependencies and suggestions. Returns `None` if the job is unknown.
pub fn explain_priority(view: &View<'_>, facts: &JobFacts<'_>, now: f64) -> Option<Why> {
    let id = facts.id;
    let job = view.ledger.job(id)?;
    let (association, pair) = (job.association(), view.priorities_of(id));
    let age = view.age_without_offset(job, now);
    Some(Why {
        id,
        userid: job.user,
        bank: view.bank_of_job(job),
        queue: job.queue.clone(),
        parent_queue: job.queue.as_ref().and_then(|queue| view.queues.parent(queue)).cloned(),
        queue_rules: view.queue_rules(job.queue.as_ref()),
        one_queue_list: view.queues.is_one_list(),
        project: facts.project.map(str::to_owned),
        urgency: facts.urgency,
        state: Cow::Borrowed(facts.state.into()),
        submitted: job.submitted,
        nodes: job.size.nodes,
        cores: job.size.cores,
        duration: job.time_limit(),
        fairshare: association.and_then(|association| view.fairshare(association)),
        posted: pair.as_ref().map(|pair| explain_posted_priority(view, job, pair, age)),
        exact: pair.as_ref().map(|pair| ExplainedPriority::new(&pair.exact, pair.noted.urgency, age)),
        lag: pair.as_ref().and_then(|pair| explain_stale_priority(view, id, pair)),
        turn: pair.as_ref().and_then(|pair| pair.turn),
        is_held: job.is_held(),
        ..Why::default()
    })
}

fn explain_posted_priority(view: &View<'_>, job: &Job, pair: &JobPriorities<'_>, age: f64) -> PostedPriority {
    let reasons = list_reasons(view, job, pair, pair.noted.changes);
    PostedPriority {
        made: ExplainedPriority::new(&pair.posted, pair.noted.urgency, age),
        when: Some(pair.noted.when),
        generation: pair.noted.generation,
        reason: join_explanation_notes(&reasons),
        before: explain_earlier_change(view, job, pair),
        reasons,
    }
}

/// Joins `notes` into one note, with the code of the first note and the texts of all notes. Returns `None` if
/// `notes` is empty.
fn join_explanation_notes(notes: &[Note]) -> Option<Note> {
    let text = notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
    notes.first().map(|first| Note { code: first.code.clone(), text })
}

/// Returns the reasons for the posted priority.
fn list_reasons(view: &View<'_>, job: &Job, pair: &JobPriorities<'_>, changes: Changes) -> Vec<Note> {
    changes.iter().map(|change| describe_change(view, job, pair, changes, change)).collect()
}

/// Returns the last change of an input other than the usage and the age. Returns `None` if this change was the
/// submission of the job or a load of the plugin.
fn explain_earlier_change(view: &View<'_>, job: &Job, pair: &JobPriorities<'_>) -> Option<EarlierChange> {
    let (changes, when) = pair.noted.earlier?;
    if [Change::Submitted, Change::Loaded].into_iter().any(|change| changes.contains(change)) {
        return None;
    }
    Some(EarlierChange { reason: join_explanation_notes(&list_reasons(view, job, pair, changes))?, when })
}

fn describe_change(
    view: &View<'_>,
    job: &Job,
    pair: &JobPriorities<'_>,
    changes: Changes,
    change: Change,
) -> Note {
    let queue = || job.queue.as_ref().map_or(String::new(), |queue| format!(" {queue}"));
    let bank = || view.bank_of(job.association()).map_or(String::new(), |bank| format!(" {bank}"));
    let text = match change {
        Change::Submitted => "this is the first priority since the job was submitted",
        Change::Loaded => "this is the first priority since the plugin was loaded or Flux restarted",
        Change::Data => "a push contained the data of the job's association",
        Change::Released => "the limits that held the job released it",
        Change::Urgency => {
            let former = changes.former_urgency().unwrap_or_default();
            &format!("the job's urgency was changed from {former} to {}", pair.noted.urgency)
        }
        Change::Jobspec => "the job's jobspec was updated",
        Change::Weights => &describe_weight_change(view, changes),
        Change::ZeroScore => "a push changed the setting zero_score, which applies to scores of 0 or less",
        Change::MaxPriority => &format!("the configuration changed the max-priority of queue{}", queue()),
        Change::QueuePriority => &format!("a push changed the priority of queue{}", queue()),
        Change::BankPriority => &format!("a push changed the priority of bank{}", bank()),
        Change::Shares => "a push changed shares of banks or users",
        Change::Members => "a push added, removed, moved or deactivated banks or users",
        Change::Policy => "a push changed the ranking policy or its options",
        Change::Accounting => {
            "a push or the configuration changed how usage is counted or how fast it decays"
        }
        Change::Live => "live fair-share was switched on or off, by a push or the configuration",
        Change::Fairshare => &format!("a push changed the fair-share of its user in bank{}", bank()),
        Change::SiteNodes => "the number of nodes of the site changed",
        Change::Usage => "updated by a live fair-share refresh",
        Change::Turn => "the job's turn among the jobs of its association changed",
        Change::Age => "the job's age grew",
    };
    note(change.into(), text)
}

fn describe_weight_change(view: &View<'_>, changes: Changes) -> String {
    let factors = view.weighed.all().enumerate();
    let names: Vec<&str> =
        factors.filter(|(place, _)| changes.has_weight(*place)).map(|(_, (factor, _))| factor.name).collect();
    let origin = match names.iter().any(|name| [AGE, SIZE].contains(name)) {
        true => "a push or the configuration",
        false => "a push",
    };
    match names.as_slice() {
        [name] => format!("{origin} changed the weight of factor {name}"),
        names => format!("{origin} changed the weights of factors {}", names.join(", ")),
    }
}

fn explain_stale_priority(view: &View<'_>, id: JobId, pair: &JobPriorities<'_>) -> Option<Lag> {
    let difference = i64::from(pair.exact.priority) - i64::from(pair.posted.priority);
    if difference == 0 {
        return None;
    }
    // `View::get_live_fairshare_details` is not used here: it visits every job, and one request may name many jobs.
    let (last, is_refreshing) = view.refresh.last_refresh();
    let right_to = last.and_then(|last| last.right_to);
    let depth = view.batches.ordered;
    let reason = if is_refreshing {
        note("refresh-under-way", "a refresh is under way")
    } else if !view.posted.is_stale(id) {
        note("since-refresh", describe_next_posting(view))
    } else if right_to.is_some_and(|to| to < depth) {
        let text =
            format!("a refresh posts at most {} priorities; the next refresh continues", post_budget(view));
        note("budget", text)
    } else {
        note("same-order", format!("a posting would not reorder the first {depth} jobs of the queue"))
    };
    Some(Lag { by: difference, reason })
}

/// Returns a text that says when the current priority changed, and when the engine will post this priority.
fn describe_next_posting(view: &View<'_>) -> String {
    let refresh = view.settings.refresh;
    if !view.is_live() {
        "it changed after the last posting; a push posts all priorities".to_owned()
    } else if refresh > 0.0 {
        format!("it changed after the last refresh; a refresh comes every {}", super::format_span(refresh))
    } else {
        "it changed after the last refresh; the next refresh comes with a push".to_owned()
    }
}
