// SPDX-License-Identifier: LGPL-3.0-only
//! Explains a job: its priority, the limits that hold it and until when, and what would help.

use super::history::JobHistory;
use crate::plugin::scheduling::{StartFacts, describe_list, is_pending};
use crate::ui::figures::{number, ordinal, unrounded};
use crate::ui::printable::{count, sentence};
use crate::ui::rows::{Cell, Rows, Style, column};
use crate::ui::teller::TextPrinter;
use fairshare_engine::engine::answers::{Explained, HoldNow, PostedPriority, Why};
use fairshare_engine::limits::RULES;
use fairshare_engine::priority::Outcome;

impl TextPrinter<'_> {
    /// Prints the explanation of a job. `history` is `None` if the caller may not read the eventlog.
    pub(in crate::commands) fn explain_job(
        &self,
        job: &Why,
        explained: &Explained,
        start: &StartFacts,
        history: Option<&JobHistory>,
    ) {
        match &start.never_fits {
            Some(why) => {
                self.heading(&format!("{} can never run as it is: {why}", self.format_job_and_owner(job)))
            }
            None => self.heading(&self.headline(job)),
        }
        self.line(&self.describe_job_properties(job));
        self.queue_rules(job.queue.as_ref(), &job.queue_rules);
        self.print_place_and_start(job, start);
        self.out.blank();
        match &job.posted {
            Some(posted) => self.priority(job, posted, explained, history),
            None if !is_pending(job) => self.line(&self.describe_last_priority(history)),
            None if job.state == "sched" && job.is_held => {
                self.line("It is held in SCHED at priority 0 until its limits have headroom.")
            }
            None => self.line("It has no priority yet: it gets one when nothing holds or blocks it."),
        }
        if !job.holds.is_empty() || !job.carries.is_empty() {
            self.out.blank();
            self.print_holds(job);
        }
        let is_too_large = start.never_fits.is_some();
        let mut others =
            job.others.iter().filter(|other| !is_too_large || other.cause != "resources").peekable();
        if others.peek().is_some() {
            self.out.blank();
            self.heading(if job.holds.is_empty() {
                "Why it is waiting:"
            } else {
                "Other reasons why it is waiting:"
            });
            for other in others {
                let at = other.at.map(|at| format!(": {}", self.words.when(at))).unwrap_or_default();
                let free = start.free_resources.clone().filter(|_| other.cause == "resources");
                let text = free.unwrap_or_else(|| self.words.named(&other.text));
                self.item(&format!("{text}{at}"));
                if let (Some(place), "resources") = (job.place, other.cause.as_ref()) {
                    let ahead = count(place.place.saturating_sub(1), "pending job");
                    self.item(&format!("ahead of it by priority: {ahead}"));
                }
            }
            self.print_omitted_count(job.others.len(), job.others_total);
        }
        let helps = job.helps.iter().filter(|help| !is_too_large || help.code != "wait");
        let mut helps: Vec<&str> = helps.map(|help| help.text.as_str()).collect();
        if is_too_large {
            helps.insert(0, "cancel the job and submit one that requests less");
        }
        if !helps.is_empty() {
            self.out.blank();
            self.heading("What would help:");
            for help in helps {
                self.item(&self.words.named(help));
            }
        }
        if let Some(history) = history {
            self.explain_history(history);
        }
    }

    /// Prints the place of a pending job, and when the scheduler expects it to start. Prints nothing if the job can never run.
    fn print_place_and_start(&self, job: &Why, start: &StartFacts) {
        if !is_pending(job) || start.never_fits.is_some() {
            return;
        }
        if let Some(place) = job.place {
            let queue = job.parent_queue.as_ref().or(job.queue.as_ref());
            let within = describe_list(job.one_queue_list, queue);
            let (at, of) = (ordinal(place.place), count(place.of, "pending job"));
            self.line(&format!("By priority, the job is {at} of {of}{within}."));
        }
        // In DEPEND, a job of urgency 0 has no posted priority.
        let priority =
            if job.urgency == 0 { Some(0) } else { job.posted.as_ref().map(|it| it.made.priority) };
        let is_scheduled = job.state == "sched" && priority.is_some();
        let text = match start.estimated_start {
            _ if priority == Some(0) => "Flux does not pass it to the scheduler at priority 0.".to_owned(),
            Some(time) if time < self.words.now => format!(
                "The scheduler expected the job to start {}, and has not updated this estimate.",
                self.words.when(time)
            ),
            Some(time) => format!("The scheduler expects it to start {}.", self.words.when(time)),
            None if is_scheduled => "When it starts is unknown: the scheduler gives no estimate.".to_owned(),
            None => "When it starts is unknown: the scheduler does not have the job yet.".to_owned(),
        };
        self.line(&text)
    }

    /// Prints the number of items that a list leaves out.
    fn print_omitted_count(&self, listed: usize, total: usize) {
        if total > listed {
            self.item(&format!("and {} more", number(total - listed)));
        }
    }

    /// Returns the state of the job in one sentence.
    pub(super) fn headline(&self, job: &Why) -> String {
        let name = self.format_job_and_owner(job);
        let by = |text: &str| format!("{name} {text}");
        match (job.state.as_ref(), job.holds.as_slice(), job.others.as_slice()) {
            ("run", ..) => by("is running"),
            ("cleanup", ..) => by("is ending"),
            (_, [hold], _) => format!("{name} is held by {}", hold.limit),
            (_, [_, _, ..], _) => format!("{name} is held by {}", count(job.holds.len(), "limit")),
            (_, [], [other, ..]) if other.cause == "resources" => by("is waiting for resources"),
            (_, [], [other, ..]) if other.cause == "urgency" => by("is held with urgency 0"),
            (_, [], [other, ..]) => format!("{name} is waiting: {}", self.words.named(&other.text)),
            ("sched", ..) if job.is_held => by("is about to be released"),
            ("sched", ..) => by("is waiting for the scheduler"),
            ("priority", ..) => by("is waiting for its priority"),
            ("depend", ..) if !job.carries.is_empty() => by("is about to be released"),
            _ => by("is waiting"),
        }
    }

    /// Returns queue, project, size, time limit, urgency and submit time of the job.
    pub(super) fn describe_job_properties(&self, job: &Why) -> String {
        let mut parts = Vec::new();
        parts.extend(job.queue.as_ref().map(|queue| match &job.parent_queue {
            Some(parent) => format!("queue {queue} (part of {parent})"),
            None => format!("queue {queue}"),
        }));
        parts.extend(
            job.project
                .as_ref()
                .filter(|project| *project != "*")
                .map(|project| format!("project {project}")),
        );
        parts.push(count(job.nodes, "node"));
        parts.push(count(job.cores, "core"));
        parts.push(
            job.duration.map_or("no time limit".to_owned(), |limit| format!("at most {}", unrounded(limit))),
        );
        parts.push(format!("urgency {}", job.urgency));
        parts.extend(job.submitted.map(|time| format!("submitted {}", self.words.when(time))));
        parts.join(", ")
    }

    /// Describes the posted priority, the previous one, and when and why the plugin posted the priority.
    pub(super) fn posted_priority(&self, posted: &PostedPriority, history: Option<&JobHistory>) -> String {
        let last = history.and_then(|history| history.priorities.last());
        let last = last.filter(|last| last.priority == u64::from(posted.made.priority));
        let former = last.and_then(|last| last.former);
        let former = former.map(|former| format!(" ({} before)", number(former))).unwrap_or_default();
        let when = posted.when.map(|when| format!(", set {}", self.words.when(when))).unwrap_or_default();
        let why = posted.reason.as_ref().map(|reason| format!(": {}", reason.text)).unwrap_or_default();
        format!("Its priority is {}{former}{when}{why}.", number(posted.made.priority))
    }

    fn priority(
        &self,
        job: &Why,
        posted: &PostedPriority,
        explained: &Explained,
        history: Option<&JobHistory>,
    ) {
        self.line(&self.posted_priority(posted, history));
        if let Some(before) = &posted.before {
            let when = self.words.when(before.when);
            self.line(&format!("The previous priority was set {when}: {}.", before.reason.text));
        }
        if !posted.made.terms.is_empty() {
            self.out.blank();
            self.out.table(tabulate_priority_terms(posted), &[]);
        }
        let outcome = match posted.made.outcome() {
            Some(Outcome::HeldByScore) => "The sum is 0 or less, which holds the job.",
            Some(Outcome::Raised) => "The sum is 0 or less, so this site raises the priority to 1.",
            Some(Outcome::Lowered) => {
                "The sum is reduced to the highest priority of a job that is not expedited."
            }
            Some(Outcome::LoweredInQueue) => "The sum is lowered to the queue's max-priority.",
            Some(Outcome::HeldByUrgency) => "Urgency 0 holds the job, whatever its other factors.",
            Some(Outcome::Expedited) => {
                "Urgency 31 puts the job ahead of all others, whatever its other factors."
            }
            Some(Outcome::Taken) | None => "",
        };
        if !outcome.is_empty() {
            self.line(outcome);
        }
        if let Some(turn) = &job.turn {
            let text = format!(
                "Users take turns: this is the {} pending job of its association, so its priority is computed from fair-share {:.6}.",
                ordinal(turn.number),
                turn.fairshare
            );
            self.line(&text);
        }
        let policy = explained.heading.policy.as_ref().filter(|_| explained.heading.live);
        if let Some(exact) = job.exact.as_ref().filter(|exact| exact.priority != posted.made.priority) {
            let lag = job
                .lag
                .as_ref()
                .map(|lag| format!(" ({:+}): {}", lag.by, lag.reason.text))
                .unwrap_or_default();
            self.line(&format!("The current priority is {}{lag}", number(exact.priority)));
        } else if policy.is_some() {
            self.line("The priority is up to date.");
        }
    }

    fn print_holds(&self, job: &Why) {
        if !job.holds.is_empty() {
            self.heading(if job.holds.len() == 1 {
                "The limit that holds it now:"
            } else {
                "The limits that hold it now:"
            });
        }
        for hold in &job.holds {
            self.item(&format!("{}: {}", hold.limit, self.words.named(&hold.text)));
            if !hold.frees.is_empty() {
                self.item("Jobs that count toward this limit, in the order of their ends:");
                self.out.table(self.frees(hold), &[]);
            }
            self.print_omitted_count(hold.frees.len(), hold.frees_total);
        }
        let gone: Vec<&str> =
            job.carries.iter().map(String::as_str).filter(|name| !is_holding_limit(job, name)).collect();
        if !gone.is_empty() {
            let text = format!(
                "Flux still lists {} as a dependency, though the limit no longer holds the job: the dependency stays until the job is released.",
                gone.join(", ")
            );
            self.line(&text);
        }
        if let Some(line) = job.line {
            let place = ordinal(line.place);
            let text = format!("It is {place} of {} held jobs in the order of release.", number(line.of));
            self.line(&text);
        }
        match (job.release.latest, &job.release.reason) {
            (Some(latest), _) => {
                let text = "if jobs run to their time limits and no other job is submitted";
                self.line(&format!("It is released at the latest {}, {text}.", self.words.when(latest)));
            }
            (None, reason) if reason.text.is_empty() => {}
            (None, reason) => self.line(&sentence(&self.words.named(&reason.text))),
        }
        if let Some(started) = job
            .release
            .if_started
            .filter(|started| job.release.latest.is_none_or(|latest| latest != *started))
        {
            let text = format!("Released {} if all jobs ahead of it start now.", self.words.when(started));
            self.line(&text);
        }
    }

    fn frees<'a>(&'a self, hold: &'a HoldNow) -> Rows<'a> {
        let unit = match hold.measure.as_ref() {
            "nodes" => "Nodes",
            "cores" => "Cores",
            "gpus" => "GPUs",
            "node-hours" => "Node-hours",
            _ => "Jobs",
        };
        let rows = hold.frees.iter().map(|free| {
            let by = free.by.map_or("unknown".to_owned(), |by| self.words.when(by));
            vec![
                self.words.job(free.id.0).into(),
                free.state.as_ref().into(),
                Cell::Count(free.amount),
                by.into(),
            ]
        });
        let columns = vec![
            column("id", "JobId", Style::Text),
            column("state", "State", Style::Text),
            column("amount", unit, Style::Count),
            column("by", "At the latest", Style::Text),
        ];
        Rows { key: "frees", columns, rows: Box::new(rows) }
    }
}

/// Returns true if the dependency `name` belongs to a limit that holds the job now.
fn is_holding_limit(job: &Why, name: &str) -> bool {
    let limit = RULES.parse(name).map_or(name, |name| name.hold.name());
    job.holds.iter().any(|hold| hold.limit == limit)
}

/// Returns the terms of a priority, their sum and the result.
fn tabulate_priority_terms(posted: &PostedPriority) -> Rows<'static> {
    let made = &posted.made;
    let row = |name: &str, factor: Option<(f64, i64)>, product: f64| {
        let (value, weight) = factor.map(|(value, weight)| (value, weight as f64)).unzip();
        vec![name.into(), value.into(), weight.into(), product.into()]
    };
    let terms = made.terms.iter().filter(|term| term.weight != 0 || term.product != 0.0);
    let mut rows: Vec<Vec<Cell>> =
        terms.map(|term| row(&term.name, Some((term.value, term.weight)), term.product)).collect();
    let rounded = made.rounded.filter(|rounded| made.sum != Some(*rounded));
    rows.extend(made.sum.map(|sum| row("sum", None, sum)));
    rows.extend(rounded.map(|rounded| row("rounded", None, rounded)));
    rows.push(row("priority", None, made.priority as f64));
    let columns = vec![
        column("name", "Term", Style::Text),
        column("value", "Factor", Style::Fraction),
        column("weight", "Weight", Style::Term),
        column("product", "Product", Style::Term),
    ];
    Rows { key: "terms", columns, rows: Box::new(rows.into_iter()) }
}
