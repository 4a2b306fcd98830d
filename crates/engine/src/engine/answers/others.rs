// SPDX-License-Identifier: LGPL-3.0-only
//! Returns the reasons other than limits why a job does not run, and suggestions for its user.

use super::super::View;
use super::super::{JobFacts, JobPriorities, State, life::queue_name, updates, validate};
use super::holds::{HoldNow, MOST_VISITED};
use super::job::Note;
use super::release::{MOST_RIVALS, Release};
use super::{format_span, note, round_up};
use crate::accounts::{Association, AssociationId};
use crate::engine::admission::unknown_association_text;
use crate::ids::{JobId, QueueName, Word, f58};
use crate::limits::{BlockState, Demand, Job, Phase, ScanCursor};
use crate::priority::{Outcome, Term, URGENCY_DEFAULT, URGENCY_HOLD};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// The largest number of dependencies that an answer names. A user may submit a job with any number of them.
const MOST_NAMED: usize = 20;
/// The largest number of banks and queues that are tested for a suggestion.
const MOST_TRIED: usize = 32;
const BEGIN_TIME: &str = "begin-time=";

/// A reason besides limits why a job does not run yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocker {
    /// A code for programs.
    pub cause: Word,
    /// The reason in a sentence.
    pub text: String,
    /// The name of the dependency, if the reason is a dependency whose name is known.
    pub name: Option<String>,
    /// When this reason no longer applies, in seconds since the epoch; `None` if unknown.
    pub at: Option<f64>,
}

impl Blocker {
    /// Creates a reason without a dependency name (`name`) and without a time (`at`).
    pub fn plain(cause: &'static str, text: impl Into<String>) -> Blocker {
        Blocker { cause: Cow::Borrowed(cause), text: text.into(), name: None, at: None }
    }
}

/// Parses the name of a dependency on another job. Returns that job, the awaited action in words, and the scheme that
/// users write in the jobspec. Returns `None` for any other dependency.
fn parse_awaited_job(name: &str) -> Option<(JobId, &'static str, &'static str)> {
    let (condition, id) = name.split_once('=')?;
    let (awaited_action, scheme) = match condition {
        "after-start" => ("start", "after"),
        "after-finish" => ("end", "afterany"),
        "after-success" => ("end successfully", "afterok"),
        "after-failure" => ("fail", "afternotok"),
        "after-except" => ("end with an exception", "afterexcept"),
        _ => return None,
    };
    Some((JobId::parse(id)?, awaited_action, scheme))
}

/// Describes a dependency that another plugin added.
fn describe_dependency(view: &View<'_>, name: &str) -> Blocker {
    let begin_time = name.strip_prefix(BEGIN_TIME).and_then(|time| time.parse().ok());
    let (cause, text) = match (begin_time, parse_awaited_job(name)) {
        (Some(_), _) => ("begin-time", "its begin time has not come".to_owned()),
        (None, Some((id, does, scheme))) => {
            let state = describe_state(view, id);
            ("dependency", format!("job {id} has to {does} first (dependency {scheme}); job {id} {state}"))
        }
        (None, None) if name == "singleton" => {
            let text = "an earlier job of its user with the same name has to end first (singleton)";
            ("dependency", text.to_owned())
        }
        (None, None) => ("dependency", format!("another plugin blocks it: {name}")),
    };
    Blocker { name: Some(name.to_owned()), at: begin_time, ..Blocker::plain(cause, text) }
}

/// Describes the present state of a job.
fn describe_state(view: &View<'_>, id: JobId) -> &'static str {
    let Some(job) = view.ledger.job(id) else { return "is not active" };
    match job.phase {
        _ if job.is_held() => "is held by a limit",
        Phase::New | Phase::Depend => "is blocked by dependencies of its own",
        Phase::Priority => "has no priority yet",
        Phase::Sched if job.demand == Demand::Resting => "is pending at priority 0",
        Phase::Sched => "is pending",
        Phase::Run => "is running",
        Phase::Cleanup => "is ending",
    }
}

/// Returns the number of dependencies of other plugins that an answer does not name.
pub fn count_unnamed_dependencies(view: &View<'_>, facts: &JobFacts<'_>) -> usize {
    let names = view.subscriptions.names(facts.id).filter(|_| facts.state == State::Depend);
    names.map_or(0, |names| names.count_blocking_dependencies().saturating_sub(MOST_NAMED))
}

pub fn list_blockers(
    view: &View<'_>,
    id: JobId,
    job: &Job,
    facts: &JobFacts<'_>,
    priorities: Option<&JobPriorities<'_>>,
) -> Vec<Blocker> {
    let mut found = Vec::new();
    if facts.state > State::Sched {
        return found;
    }
    if facts.state == State::Depend {
        if let Some(names) = view.subscriptions.names(id) {
            found.extend(
                names.outstanding_names().take(MOST_NAMED).map(|name| describe_dependency(view, name)),
            );
        }
        if found.is_empty() && job.block_state == BlockState::Blocked {
            found.push(Blocker::plain(
                "dependency",
                "another plugin blocks it; the name of the dependency is unknown",
            ));
        }
    }
    if job.association().is_none() {
        let text = match view.book.has_data() {
            false => "the instance has no data about users and banks yet".to_owned(),
            true => {
                format!("{}: the job waits for a push of its association", unknown_association_text(job.user))
            }
        };
        found.push(Blocker::plain("association", text));
    }
    if facts.urgency == URGENCY_HOLD {
        found.push(Blocker::plain("urgency", "its urgency is 0, so it does not run"));
    } else if priorities.is_some_and(|priorities| priorities.posted.outcome == Outcome::HeldByScore) {
        found
            .push(Blocker::plain("score", "the sum of its terms is 0 or less, and the site holds such jobs"));
    }
    // At priority 0, Flux withdraws the job's request for resources from the scheduler.
    if found.is_empty() && facts.state == State::Sched && !job.is_awaiting() {
        found.push(Blocker::plain("resources", "it is waiting for resources"));
    }
    found
}

/// Returns suggestions, best first.
pub fn list_suggestions(
    view: &View<'_>,
    job: &Job,
    facts: &JobFacts<'_>,
    holds: &[HoldNow],
    release: &Release,
    now: f64,
) -> Vec<Note> {
    let mut found = Vec::new();
    let id = facts.id;
    if facts.urgency == URGENCY_HOLD {
        found.push(note("urgency", format!("flux job urgency {} 16 allows it to run", f58(id.0))));
    }
    if let Some(latest) = release.latest.filter(|_| !holds.is_empty()) {
        found.push(note("wait", format!("waiting {} is enough", format_span(round_up(latest - now)))));
    }
    if let [hold] = holds
        && let Some(first) = hold
            .frees
            .iter()
            .find(|freeing| hold.used.saturating_sub(freeing.amount).saturating_add(hold.needed) <= hold.cap)
        && is_released_by_end_of_job(view, id, job, hold, first.id)
    {
        found.push(note("cancel", format!("the end of job {} frees enough headroom", first.id)));
    }
    for hold in holds {
        let left = hold.cap.saturating_sub(hold.used);
        if hold.needed > 1 && left > 0 && hold.kept_for.is_none() {
            found.push(note(
                "smaller",
                format!("{} has headroom for a job of at most {left} {}", hold.limit, hold.measure),
            ));
        }
    }
    if let Some(association) = job.association().filter(|_| !holds.is_empty()) {
        found.extend(suggest_bank(view, association, job, facts));
        found.extend(suggest_queue(view, association, job, facts));
    }
    if holds.iter().any(HoldNow::needs_more_than_cap) {
        found.push(note("ask", "ask the site for a higher limit"));
    }
    found
}

/// Returns suggestions for a job that its score holds. `terms` are the terms of its posted priority.
pub fn suggest_higher_score(facts: &JobFacts<'_>, terms: &[Term<Word>]) -> Vec<Note> {
    let is_positive_with = |name: &str, value: f64| {
        let product =
            |term: &Term<Word>| if term.name == name { term.weight as f64 * value } else { term.product };
        terms.iter().map(product).sum::<f64>() >= 0.5
    };
    // The factor of the default urgency is 0.
    let is_urgency_low = facts.urgency < URGENCY_DEFAULT && is_positive_with("urgency", 0.0);
    let urgency = is_urgency_low
        .then(|| note("urgency", format!("flux job urgency {} 16 allows it to run", f58(facts.id.0))));
    let ask = if is_positive_with("fairshare", 1.0) {
        Some("its fair-share grows as its association's usage decays; or ask the site")
    } else {
        urgency.is_none().then_some(
            "ask the site: at the present weights, even the highest fair-share does not release it",
        )
    };
    urgency.into_iter().chain(ask.map(|text| note("ask", text))).collect()
}

/// Returns true if the held job `id` would be released if only job `other` ended. Held jobs that come before job `id`
/// are released first. Returns false if other associations share a limit of the job, because their jobs are not
/// simulated.
fn is_released_by_end_of_job(view: &View<'_>, id: JobId, job: &Job, hold: &HoldNow, other: JobId) -> bool {
    let Some(association) = job.association().filter(|_| !hold.is_shared()) else { return false };
    if view.ledger.accounts().is_counted_by_scopes(association, job.queue.as_ref()) {
        return false;
    }
    let Some(rivals) = view.ledger.rivals(id, MOST_RIVALS) else { return false };
    let counted = view.ledger.accounts().counted_jobs(association).take(MOST_VISITED + 1).map(|(id, _)| id);
    let mut jobs: Vec<JobId> = counted.collect();
    if jobs.len() > MOST_VISITED {
        return false;
    }
    jobs.extend(rivals.into_iter().chain([id]));
    let mut without = view.ledger.excerpt(association, jobs.into_iter());
    without.remove(other);
    let (released, _) = ScanCursor::release_fitting_jobs(&mut without, &view.book, association);
    released.contains(&id)
}

/// Returns true if `job.validate` accepts an update of the job to `facts`, and if no limit of `association` then holds
/// the job.
fn is_accepted_and_fits(
    view: &View<'_>,
    association: AssociationId,
    job: &Job,
    facts: &JobFacts<'_>,
) -> bool {
    let moved = Job { queue: queue_name(view, facts.queue), ..job.clone() };
    let size = moved.charged_size(view.standing.usages.charging().history());
    view.limits().headroom(association, moved.queue.as_ref()).exceeded(size).is_empty()
        && validate::rejections_of_job(view, Some(association), facts).next().is_none()
}

/// Suggests another bank of the user that accepts the job, and in which no limit holds the job. Returns
/// `None` if no bank fits.
fn suggest_bank(view: &View<'_>, own: AssociationId, job: &Job, facts: &JobFacts<'_>) -> Option<Note> {
    let is_free = |other, record: &Association| {
        let bank = record.bank.as_str();
        let updated = JobFacts { bank: Some(bank), ..facts.clone() };
        updates::bank_rejection(view, facts.id, job.user, facts.state, bank).is_none()
            && is_accepted_and_fits(view, other, job, &updated)
    };
    let (bank, id) = (validate::find_bank_that_accepts_job(view, own, facts, is_free)?, f58(facts.id.0));
    Some(note("bank", format!("bank {bank} has headroom for it: flux update {id} bank={bank}")))
}

/// Suggests another queue in which no limit holds the job. Returns `None` if no queue fits.
fn suggest_queue(view: &View<'_>, own: AssociationId, job: &Job, facts: &JobFacts<'_>) -> Option<Note> {
    let queues = view.book.association(own)?.queues.iter();
    let mut queues = queues.filter(|queue| job.queue.as_ref() != Some(queue)).take(MOST_TRIED);
    let is_free = |queue: &&QueueName| {
        let updated = JobFacts { queue: Some(queue.as_str()), ..facts.clone() };
        view.book.queue(queue.as_str()).is_some()
            && updates::queue_rejection(view, Some(job), own, facts.state, queue.as_str()).is_none()
            && is_accepted_and_fits(view, own, job, &updated)
    };
    let queue = queues.find(is_free)?;
    let id = job.queue.as_ref().map(|_| f58(facts.id.0))?;
    Some(note("queue", format!("queue {queue} has headroom for it: flux update {id} queue={queue}")))
}
