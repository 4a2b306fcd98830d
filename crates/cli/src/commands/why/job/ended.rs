// SPDX-License-Identifier: LGPL-3.0-only
//! Explains two jobs that the plugin can't compare. One of these jobs has ended or belongs to another user.

use serde::{Deserialize, Serialize};

use super::compare::name_in_words;
use super::history::{JobHistory, ask_history, look_up_ended_job, request_job_history};
use crate::plugin::ask::RUN;
use crate::ui::figures::number;
use crate::ui::printable::join_words;
use crate::ui::teller::TextPrinter;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{Explained, Why};
use fairshare_engine::ids::{BankName, JobId, QueueName, UserId, Word};
use fairshare_engine::priority::Term;

/// A job that the user asked about. The plugin does not store ended jobs, so the facts about an ended job are from
/// its eventlog and from job-list.
#[derive(Serialize)]
pub(super) struct RequestedJob {
    #[serde(flatten)]
    pub(super) job: Why,
    /// The history; `None` if the job is pending, or if the caller may not read its eventlog.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) history: Option<JobHistory>,
}

/// A job of another user, as job-list shows it to all users. In private mode, job-list shows users only their own jobs.
#[derive(Deserialize)]
pub(super) struct ListedJob {
    id: JobId,
    userid: UserId,
    bank: Option<BankName>,
    queue: Option<QueueName>,
    urgency: i64,
    /// `None` if Flux has no priority of the job yet.
    priority: Option<u32>,
    state: u64,
}

impl RequestedJob {
    pub(super) fn has_ended(&self) -> bool {
        self.job.state == "inactive"
    }
}

/// Returns the requested jobs in the order of `ids`. Returns `None` if the plugin has one of the jobs but
/// refuses to explain it. Also returns `None` if the plugin lacks a job and the caller may not read its
/// eventlog.
pub(super) fn request_active_and_ended_jobs(
    flux: &Flux,
    explained: &Explained,
    ids: &[u64],
) -> Option<Vec<RequestedJob>> {
    let find = |id: &u64| {
        if let Some(job) = explained.jobs.iter().find(|job| job.id.0 == *id) {
            return Some(RequestedJob { job: job.clone(), history: request_job_history(flux, job) });
        }
        let refused = explained.refused.iter().find(|refused| refused.id.0 == *id)?;
        let history = Some(refused)
            .filter(|refused| refused.reason.code == "unknown")
            .and_then(|_| ask_history(flux, *id))?;
        Some(RequestedJob { job: look_up_ended_job(flux, *id, &history), history: Some(history) })
    };
    ids.iter().map(find).collect()
}

impl TextPrinter<'_> {
    /// Returns the priorities of the caller's job and of a job of another user, which of the jobs is ahead, and which terms can differ.
    pub(super) fn compare_with_listed_job(&self, job: &Why, listed: &ListedJob) -> String {
        let ListedJob { id, userid, bank, queue, urgency, priority, state } = listed;
        let (name, user) = (self.words.job(id.0), self.words.user(userid.0));
        let owner = self.format_job_and_owner(&Why {
            id: *id,
            userid: *userid,
            bank: bank.clone(),
            ..Why::default()
        });
        let posted = job.posted.as_ref().map(|posted| posted.made.priority);
        let [theirs, yours] = [*priority, posted].map(|priority| {
            priority.map_or("no priority yet".to_owned(), |it| format!("priority {}", number(it)))
        });
        let order = match posted.zip(*priority) {
            _ if *state >= RUN => format!("; {name} has started"),
            Some((one, other)) if (other, job.id) < (one, *id) => {
                ", so your job is ahead in the order of priority and job id".to_owned()
            }
            Some(_) => format!(", so {name} is ahead in the order of priority and job id"),
            None => String::new(),
        };
        let can_differ = |term: &&Term<Word>| match term.name.as_ref() {
            "queue" => *queue != job.queue,
            "bank" => *bank != job.bank,
            "urgency" => *urgency != job.urgency,
            _ => true,
        };
        let terms = job.posted.iter().filter(|_| priority.is_some()).flat_map(|posted| &posted.made.terms);
        let terms = terms.filter(|term| term.weight != 0).filter(can_differ);
        let terms = join_words(&terms.map(|term| name_in_words(&term.name)).collect::<Vec<_>>());
        let differ = match terms.as_str() {
            "" => String::new(),
            terms => format!(" At the present weights, the two jobs can differ only in {terms}."),
        };
        let hidden = format!("Only {user}, the instance owner and admins see the priority terms of {name}.");
        format!("Job {owner} has {theirs}, your job has {yours}{order}.{differ} {hidden}")
    }

    /// Prints that neither job is ahead, because a job has ended. Then prints the last priority of each job, and why
    /// the job got this priority.
    pub(super) fn explain_without_order(&self, jobs: &[RequestedJob]) {
        let ended = jobs.iter().filter(|job| job.has_ended()).map(|job| self.words.job(job.job.id.0));
        let ended = match ended.collect::<Vec<_>>().as_slice() {
            [one] => format!("{one} has ended"),
            _ => "both have ended".to_owned(),
        };
        self.heading(&format!("Neither job is ahead of the other: {ended}"));
        for RequestedJob { job, history } in jobs {
            let headline = match history {
                Some(history) if job.state == "inactive" => self.describe_job_end(job, history),
                _ => self.headline(job),
            };
            let priority = match (&job.posted, job.state.as_ref()) {
                (Some(posted), _) => self.posted_priority(posted, None),
                (None, "run" | "cleanup" | "inactive") => self.describe_last_priority(history.as_ref()),
                (None, _) => "It has no priority yet.".to_owned(),
            };
            self.line(&format!("{headline}. {priority}"));
        }
    }
}
