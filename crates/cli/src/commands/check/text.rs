// SPDX-License-Identifier: LGPL-3.0-only
//! Describes in sentences what would happen to a job.

use crate::plugin::scheduling::{QueueState, describe_list, queue_label};
use crate::ui::figures::{exact_duration, number, ordinal};
use crate::ui::printable::count;
use crate::ui::teller::TextPrinter;
use fairshare_engine::engine::answers::{CheckedJob, ExplainedPriority};
use fairshare_engine::priority::Outcome;

/// Returns the reason why Flux rejects a job at submission, or `None` if its `queue` takes new jobs.
pub(super) fn explain_queue_refusal(checked: &CheckedJob, queue: &QueueState) -> Option<String> {
    let reason = queue.disable_reason.as_deref().unwrap_or_default();
    let name = queue_label(checked.queue.as_deref());
    (queue.is_enabled == Some(false)).then(|| format!("{name} takes no new jobs{}", format_reason(reason)))
}

fn format_reason(reason: &str) -> String {
    if reason.is_empty() { String::new() } else { format!(": {reason}") }
}

/// The parts of the answer that are from Flux.
pub(super) struct FluxAnswer<'a> {
    /// The text with which Flux itself would reject the jobs.
    pub(super) refusal: Option<&'a str>,
    /// Why the resources can never be enough for one of the jobs.
    pub(super) never_fits: Option<&'a str>,
    pub(super) queue: &'a QueueState,
}

/// Prints what would happen to the jobs.
pub(super) fn describe(teller: &TextPrinter<'_>, checked: &CheckedJob, by_flux: &FluxAnswer<'_>) {
    let FluxAnswer { refusal, never_fits, queue } = *by_flux;
    let words = teller.words;
    let rejections = checked.rejection.iter().chain(&checked.further_rejections);
    let rejections = rejections.map(|text| format!("Rejected: {}.", words.named(text)));
    let mut all = refusal.map(|text| format!("Rejected by Flux: {text}.")).into_iter().chain(rejections);
    if let Some(first) = all.next() {
        teller.heading(&first);
        let never = never_fits.map(|why| format!("It can never run as it is: {why}."));
        return all.chain(never).chain([describe_size(teller, checked)]).for_each(|line| teller.line(&line));
    }
    let (heading, whose) = match (checked.jobs, checked.jobs_rejected) {
        (1, 0) => ("Accepted".to_owned(), "the job"),
        (1, _) => ("Rejected".to_owned(), "the job"),
        (all, rejected) => {
            (format!("{} of {} jobs are accepted", number(all - rejected), number(all)), "each job")
        }
    };
    let never = never_fits.map(|why| format!(", but {whose} can never run as it is: {why}"));
    teller.heading(&format!("{heading}{}.", never.unwrap_or_default()));
    teller.line(&describe_size(teller, checked));
    teller.queue_rules(checked.queue.as_ref(), &checked.queue_rules);
    if checked.waits_for_data {
        let text =
            "The plugin has no data yet: the job waits until a push brings the association of its user.";
        return teller.line(text);
    }
    if checked.jobs > 1 {
        describe_many(teller, checked);
    }
    for hold in &checked.holds {
        teller.line(&format!("Held by {}: {}.", hold.limit, words.named(&hold.text)));
    }
    if checked.holds.is_empty() && checked.jobs == 1 {
        let which = if checked.leaves_out_shared_limits { "No limit of its user" } else { "No limit" };
        teller.line(&format!("{which} holds it."));
    }
    if checked.leaves_out_shared_limits {
        let text = "Limits on banks and queues are not part of this answer, because the site does not show their use.";
        teller.line(text);
    }
    if queue.is_started == Some(false) {
        let name = queue_label(checked.queue.as_deref());
        let text =
            format!("Its jobs wait until {name} is started{}.", format_reason(queue.get_stop_reason()));
        teller.line(&text);
    }
    match (&checked.priority, never_fits) {
        (Some(_), Some(_)) => teller.line("A job that never runs has no place among the pending jobs."),
        (Some(made), None) => teller.line(&describe_priority(checked, made)),
        (None, _) => {}
    }
}

fn describe_size(teller: &TextPrinter<'_>, checked: &CheckedJob) -> String {
    let each = if checked.jobs > 1 { "Each job" } else { "The job" };
    let mut parts = vec![format!("{each} of {}", teller.words.user(checked.userid.0))];
    parts.extend(checked.bank.as_ref().map(|bank| format!("in bank {bank}")));
    parts.extend(checked.queue.as_ref().map(|queue| format!("in queue {queue}")));
    let project = checked.project.as_ref().filter(|project| project.as_str() != "*");
    parts.extend(project.map(|project| format!("for project {project}")));
    let mut size = Vec::new();
    size.extend((checked.nodes > 0).then(|| count(checked.nodes, "node")));
    size.extend((checked.cores > 0).then(|| count(checked.cores, "core")));
    size.extend((checked.gpus > 0).then(|| count(checked.gpus, "GPU")));
    size.push(checked.duration.map_or("no time limit".to_owned(), exact_duration));
    format!("{}: {}.", parts.join(" "), size.join(", "))
}

/// Prints how many of several jobs are rejected and held.
fn describe_many(teller: &TextPrinter<'_>, checked: &CheckedJob) {
    if checked.jobs_rejected > 0 {
        let limit = checked.active_limit.as_deref().unwrap_or("a limit on active jobs");
        let (jobs, limit) = (number(checked.jobs_rejected), teller.words.named(limit));
        teller.line(&format!("Rejected: the last {jobs} jobs, by {limit}."));
    }
    let accepted = checked.jobs - checked.jobs_rejected;
    let text = match &checked.first_limit {
        None => "Held: none.".to_owned(),
        Some(limit) => format!(
            "Held: at most {} of the {} accepted jobs, by {limit} (fewer if a job starts or ends during the submission). A held job is released when another job ends.",
            number(checked.jobs_held),
            number(accepted)
        ),
    };
    teller.line(&text)
}

/// Returns a sentence about the job's priority and about the job's place in the queue.
fn describe_priority(checked: &CheckedJob, made: &ExplainedPriority) -> String {
    let whose = if checked.jobs > 1 { "The first has" } else { "It has" };
    let when = if checked.holds.is_empty() { "" } else { " when no limit holds it" };
    match (made.outcome(), checked.place) {
        (Some(Outcome::HeldByUrgency), _) => {
            "Urgency 0 holds it until \"flux job urgency JOBID 16\".".to_owned()
        }
        (_, None) => {
            format!("{whose} priority 0{when}, so it does not run: the sum of its terms is 0 or less.")
        }
        (_, Some(place)) => format!(
            "{whose} priority {}{when}, and would be {} of {} pending jobs{}.",
            number(made.priority),
            ordinal(place),
            number(checked.place_of),
            describe_list(checked.one_queue_list, checked.parent_queue.as_ref().or(checked.queue.as_ref()))
        ),
    }
}
