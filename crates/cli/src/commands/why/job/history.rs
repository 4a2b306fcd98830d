// SPDX-License-Identifier: LGPL-3.0-only
//! How a running or ended job waited: for how long, held by which limits, and at which priorities. The only
//! source is its eventlog.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

use crate::plugin::ask::{ask_flux, ask_listed};
use crate::plugin::scheduling::is_pending;
use crate::ui::figures::{duration, now, number};
use crate::ui::rows::{Cell, Rows, Style, column};
use crate::ui::teller::TextPrinter;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{Note, Why};
use fairshare_engine::limits::RULES;
use fairshare_engine::priority::URGENCY_DEFAULT;

/// The most rows of priorities that a screen shows.
const MOST_ROWS: usize = 20;

/// The history of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct JobHistory {
    /// When the job was submitted, in seconds since the epoch.
    pub(super) submitted: f64,
    /// When the job got resources; null if it got none.
    pub(super) allocated: Option<f64>,
    /// When the job ended; null if it has not ended.
    pub(super) ended: Option<f64>,
    /// How the job ended.
    pub(super) result: Option<String>,
    /// Seconds from the submission until the job got resources or ended; until now if the job is pending.
    pub(super) waited_seconds: f64,
    /// The parts of `waited_seconds`, by cause.
    pub(super) waits: BTreeMap<WaitCause, f64>,
    /// The dependencies that kept the job in DEPEND, in the order in which they were added.
    pub(super) holds: Vec<PastHold>,
    /// The priorities of the job while it was pending.
    pub(super) priorities: Vec<PastJobPriority>,
    #[serde(skip)]
    userid: u32,
}

/// Why a job waited. If several causes apply at the same time, the first of this list is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(super) enum WaitCause {
    /// Dependencies of limits.
    Limits,
    /// Other dependencies.
    Dependencies,
    /// Flux had not validated the job yet, or had not moved it from DEPEND to PRIORITY.
    Validation,
    /// The job had no priority.
    Priority,
    /// Urgency 0.
    Urgency,
    /// The priority of the job was 0, although its urgency was not 0.
    PriorityZero,
    /// The scheduler had no resources for the job.
    Resources,
}

impl WaitCause {
    fn text(self) -> &'static str {
        match self {
            WaitCause::Limits => "held by limits",
            WaitCause::Dependencies => "blocked by other dependencies",
            WaitCause::Validation => "for validation by Flux",
            WaitCause::Priority => "without a priority",
            WaitCause::Urgency => "held by urgency 0",
            WaitCause::PriorityZero => "at priority 0, because of a limit or a sum of terms of 0 or less",
            WaitCause::Resources => "for resources",
        }
    }
}

/// A dependency that kept a job in DEPEND.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PastHold {
    /// The name of the limit, or the description of another dependency.
    pub(super) name: String,
    /// True if the dependency belongs to a limit.
    pub(super) is_limit: bool,
    /// When the dependency was added, in seconds since the epoch.
    pub(super) from: f64,
    /// When the dependency was removed, or the job stopped waiting; null if the job still waits.
    pub(super) until: Option<f64>,
    /// The time between `from` and `until`.
    pub(super) seconds: Option<f64>,
}

/// A priority of a pending job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct PastJobPriority {
    /// When Flux got the priority, in seconds since the epoch.
    pub(super) when: f64,
    pub(super) priority: u64,
    /// The previous priority; null for the first.
    pub(super) former: Option<u64>,
    /// Why the priority was set, if the eventlog shows the reason.
    #[serde(flatten)]
    pub(super) cause: Note,
}

/// An event of an eventlog (RFC 18).
#[derive(Deserialize)]
struct LogEvent {
    timestamp: f64,
    name: String,
    context: Option<LogContext>,
}

/// The fields of an event's context that a history needs.
#[derive(Default, Deserialize)]
#[serde(default)]
struct LogContext {
    userid: Option<u32>,
    urgency: Option<i64>,
    priority: Option<u64>,
    description: Option<String>,
    severity: Option<i64>,
    #[serde(rename = "type")]
    kind: Option<String>,
    note: Option<String>,
    status: Option<i64>,
    /// The job's fair-share. The plugin posts it in a memo event before it posts a priority.
    fairshare: Option<f64>,
}

/// The state of a job between two events.
struct Reader {
    history: JobHistory,
    /// Why the job waits after DEPEND; `None` while the job is in DEPEND.
    cause: Option<WaitCause>,
    urgency: i64,
    /// The indexes of the dependencies that are not removed.
    open: Vec<usize>,
    /// The reason for the job's next priority, if an earlier event of the eventlog shows this reason.
    next_cause: Option<Note>,
    /// The fair-share in the last memo event.
    fairshare: Option<f64>,
    last: f64,
    is_waiting: bool,
}

/// Reads the history from an eventlog. A pending job has waited until `now`. Returns `None` if the eventlog does not begin with the
/// submission.
pub(super) fn read_history(eventlog: &str, now: f64) -> Option<JobHistory> {
    let mut events = eventlog.lines().filter_map(|line| serde_json::from_str::<LogEvent>(line).ok());
    let submit = events.next().filter(|event| event.name == "submit")?;
    let context = submit.context?;
    let userid = context.userid?;
    let mut reader = Reader {
        history: JobHistory { submitted: submit.timestamp, userid, ..JobHistory::default() },
        cause: None,
        urgency: context.urgency.unwrap_or(URGENCY_DEFAULT),
        open: Vec::new(),
        next_cause: Some(note("submitted", "the first after the submission")),
        fairshare: None,
        last: submit.timestamp,
        is_waiting: true,
    };
    events.for_each(|event| reader.take(event));
    if reader.is_waiting {
        reader.add_wait_until(now);
        reader.history.waited_seconds = (now - submit.timestamp).max(0.0);
    }
    Some(reader.history)
}

fn note(code: &'static str, text: impl Into<String>) -> Note {
    Note { code: code.into(), text: text.into() }
}

/// Returns the name of the limit that the dependency `description` belongs to, or `None` for any other dependency.
fn find_limit_of_dependency(description: &str) -> Option<&'static str> {
    RULES.parse(description).map(|name| name.hold.name())
}

impl Reader {
    fn take(&mut self, event: LogEvent) {
        let (at, context) = (event.timestamp, event.context.unwrap_or_default());
        if self.is_waiting {
            self.add_wait_until(at);
        }
        match event.name.as_str() {
            "dependency-add" => {
                let Some(description) = context.description.as_deref() else { return };
                let limit = find_limit_of_dependency(description);
                self.open.push(self.history.holds.len());
                self.history.holds.push(PastHold {
                    name: limit.unwrap_or(description).to_owned(),
                    is_limit: limit.is_some(),
                    from: at,
                    until: None,
                    seconds: None,
                });
            }
            "dependency-remove" => {
                let Some(description) = context.description.as_deref() else { return };
                let limit = find_limit_of_dependency(description);
                if limit.is_some() {
                    self.next_cause = Some(note("released", "the limits that held the job released it"));
                }
                let name = limit.unwrap_or(description);
                let holds = &self.history.holds;
                let is_it = |index: &usize| holds.get(*index).is_some_and(|hold| hold.name == name);
                if let Some(place) = self.open.iter().position(is_it) {
                    let index = self.open.remove(place);
                    self.close(index, at);
                }
            }
            "depend" => self.cause = Some(WaitCause::Priority),
            "priority" => {
                let Some(priority) = context.priority.filter(|_| self.is_waiting) else { return };
                self.cause = Some(match (priority, self.urgency) {
                    (0, 0) => WaitCause::Urgency,
                    (0, _) => WaitCause::PriorityZero,
                    _ => WaitCause::Resources,
                });
                let recomputed = || note("recomputed", "recomputed; the eventlog does not say why");
                let cause = self.next_cause.take().unwrap_or_else(recomputed);
                let former = self.history.priorities.last().map(|last| last.priority);
                self.history.priorities.push(PastJobPriority { when: at, priority, former, cause });
            }
            "urgency" => {
                let Some(urgency) = context.urgency else { return };
                let by = context.userid.map_or("a user".to_owned(), |user| format!("user {user}"));
                let former = std::mem::replace(&mut self.urgency, urgency);
                self.next_cause =
                    Some(note("urgency", format!("{by} changed the urgency from {former} to {urgency}")));
            }
            "memo" => {
                let Some(fairshare) = context.fairshare else { return };
                if let Some(former) = self.fairshare.replace(fairshare).filter(|former| *former != fairshare)
                {
                    let text = format!("its fair-share changed from {former:.6} to {fairshare:.6}");
                    self.next_cause.get_or_insert_with(|| note("fairshare", text));
                }
            }
            "jobspec-update" if self.cause.is_some() => {
                self.next_cause = Some(note("jobspec", "the jobspec was updated"));
            }
            "flux-restart" if self.cause.is_some() => {
                self.cause = Some(WaitCause::Priority);
                self.next_cause = Some(note("restart", "Flux restarted"));
            }
            "alloc" => {
                self.history.allocated = Some(at);
                self.end_wait(at);
            }
            "exception" if context.severity == Some(0) => {
                let kind = context.kind.as_deref().unwrap_or("exception");
                let kind = if kind == "cancel" { "canceled" } else { kind };
                let reason = context.note.filter(|note| !note.is_empty());
                let result = reason.map_or(kind.to_owned(), |reason| format!("{kind}: {reason}"));
                self.history.result.get_or_insert(result);
                self.end_wait(at);
            }
            "finish" => {
                let result = match context.status {
                    Some(0) => "completed".to_owned(),
                    Some(status) if status & 0x7f == 0 => format!("failed with exit status {}", status >> 8),
                    Some(status) => format!("failed by signal {}", status & 0x7f),
                    None => "finished".to_owned(),
                };
                self.history.result.get_or_insert(result);
            }
            "clean" => {
                self.history.ended = Some(at);
                self.end_wait(at);
            }
            _ => {}
        }
    }

    /// Adds the time between the last event and `at` to the job's waiting times. Each cause of waiting has its own
    /// sum.
    fn add_wait_until(&mut self, at: f64) {
        let is_open = |is_limit: bool| {
            let holds = self.open.iter().filter_map(|index| self.history.holds.get(*index));
            holds.into_iter().any(|hold| hold.is_limit == is_limit)
        };
        let in_depend = || match (is_open(true), is_open(false)) {
            (true, _) => WaitCause::Limits,
            (false, true) => WaitCause::Dependencies,
            (false, false) => WaitCause::Validation,
        };
        let cause = self.cause.unwrap_or_else(in_depend);
        if at > self.last {
            *self.history.waits.entry(cause).or_default() += at - self.last;
        }
        self.last = at;
    }

    fn close(&mut self, index: usize, at: f64) {
        if let Some(hold) = self.history.holds.get_mut(index) {
            (hold.until, hold.seconds) = (Some(at), Some(at - hold.from));
        }
    }

    fn end_wait(&mut self, at: f64) {
        if std::mem::replace(&mut self.is_waiting, false) {
            self.history.waited_seconds = at - self.history.submitted;
            std::mem::take(&mut self.open).into_iter().for_each(|index| self.close(index, at));
        }
    }
}

/// Returns the history of a job, if the caller may read its eventlog.
pub(in crate::commands) fn ask_history(flux: &Flux, id: u64) -> Option<JobHistory> {
    let wanted = json!({"id": id, "keys": ["eventlog"], "flags": 0});
    let answer: Value = ask_flux(flux, "job-info.lookup", &wanted)?;
    read_history(answer.get("eventlog")?.as_str()?, now())
}

/// Returns the history of a job that the plugin has; `None` if the job is pending, or if the caller may not read its eventlog.
pub(super) fn request_job_history(flux: &Flux, job: &Why) -> Option<JobHistory> {
    if is_pending(job) { None } else { ask_history(flux, job.id.0) }
}

/// Returns the facts about an ended job: from its history, and from job-list if job-list still has the job.
pub(super) fn look_up_ended_job(flux: &Flux, id: u64, history: &JobHistory) -> Why {
    let attributes = ["bank", "queue", "project", "nnodes", "ncores", "duration", "urgency"];
    let job: Map<String, Value> = ask_listed(flux, id, &attributes).unwrap_or_default();
    let text = |key: &str| job.get(key).and_then(Value::as_str);
    let count = |key: &str| job.get(key).and_then(Value::as_u64).unwrap_or_default();
    Why {
        id: fairshare_engine::ids::JobId(id),
        userid: fairshare_engine::ids::UserId(history.userid),
        bank: text("bank").map(Into::into),
        queue: text("queue").map(Into::into),
        project: text("project").map(Into::into),
        urgency: job.get("urgency").and_then(Value::as_i64).unwrap_or_default(),
        state: "inactive".into(),
        submitted: Some(history.submitted),
        nodes: count("nnodes"),
        cores: count("ncores"),
        duration: job.get("duration").and_then(Value::as_f64).filter(|seconds| *seconds > 0.0),
        ..Why::default()
    }
}

impl TextPrinter<'_> {
    /// Returns when and how a job ended, in one sentence.
    pub(super) fn describe_job_end(&self, job: &Why, history: &JobHistory) -> String {
        let how = history.result.as_ref().map(|result| format!(": {result}")).unwrap_or_default();
        let when = history.ended.map(|ended| format!(" {}", self.words.when(ended))).unwrap_or_default();
        format!("{} ended{when}{how}", self.format_job_and_owner(job))
    }

    /// Returns the last priority that a job had while it was pending, and the cause of that priority. `history` is `None` if the caller
    /// may not read the eventlog.
    pub(super) fn describe_last_priority(&self, history: Option<&JobHistory>) -> String {
        let Some(history) = history else {
            return "Its last priority is unknown: you may not read its eventlog.".to_owned();
        };
        history.priorities.last().map_or_else(
            || "It never had a priority.".to_owned(),
            |last| {
                let (priority, when) = (number(last.priority), self.words.when(last.when));
                format!(
                    "Its last priority was {priority}, set {when}: {}.",
                    self.words.named(&last.cause.text)
                )
            },
        )
    }

    /// Prints an ended job and its history.
    pub(super) fn explain_ended_job(&self, job: &Why, history: &JobHistory) {
        self.heading(&self.describe_job_end(job, history));
        self.line(&self.describe_job_properties(job));
        self.explain_history(history)
    }

    /// Prints how a job waited.
    pub(super) fn explain_history(&self, history: &JobHistory) {
        let upto = match (history.allocated, history.ended) {
            (Some(at), _) => format!("until it got its resources {}", self.words.when(at)),
            (None, Some(_)) => "and never ran".to_owned(),
            (None, None) => return,
        };
        self.out.blank();
        // Waits below a second are not shown, because Flux takes this time for each job.
        let mut long = history.waits.iter().filter(|(_, seconds)| **seconds >= 1.0).peekable();
        let end = match long.peek() {
            Some(_) => ":",
            None if history.holds.is_empty() => ". No limit held it.",
            None => ".",
        };
        self.heading(&format!("It waited {} {upto}{end}", format_span(history.waited_seconds)));
        for (cause, seconds) in long {
            self.item(&format!("{} {}", format_span(*seconds), cause.text()));
        }
        if !history.holds.is_empty() {
            self.out.blank();
            self.heading("What held it in DEPEND:");
            self.out.table(self.past_holds(history), &["from"]);
        }
        if !history.priorities.is_empty() {
            self.out.blank();
            let mut others = history.priorities.iter().skip(1);
            let has_changed =
                others.any(|other| history.priorities.first().map(|it| it.priority) != Some(other.priority));
            let text = if has_changed { "Its priorities:" } else { "Its priority, which did not change:" };
            self.heading(text);
            self.out.table(self.past_priorities(history), &[]);
        }
    }

    fn past_holds<'a>(&'a self, history: &'a JobHistory) -> Rows<'a> {
        let rows = history.holds.iter().map(|hold| {
            let [from, until] = [Some(hold.from), hold.until]
                .map(|time| Cell::from(time.map(|time| self.words.format_time(time))));
            vec![hold.name.as_str().into(), from, until, hold.seconds.map(format_span).into()]
        });
        let columns = vec![
            column("name", "Limit or dependency", Style::Text),
            column("from", "From", Style::Text),
            column("until", "Until", Style::Text),
            column("seconds", "Time", Style::Signed),
        ];
        Rows { key: "holds", columns, rows: Box::new(rows) }
    }

    /// Returns at most the last [`MOST_ROWS`] priorities as rows. Successive priorities with the cause "recomputed" share a row.
    fn past_priorities<'a>(&'a self, history: &'a JobHistory) -> Rows<'a> {
        let mut rows: Vec<(&PastJobPriority, usize, Option<u64>)> = Vec::new();
        for priority in &history.priorities {
            match rows.last_mut() {
                Some((last, times, _))
                    if last.cause.code == "recomputed" && priority.cause.code == "recomputed" =>
                {
                    (*last, *times) = (priority, *times + 1);
                }
                _ => rows.push((priority, 1, priority.former)),
            }
        }
        let rows = rows.split_off(rows.len().saturating_sub(MOST_ROWS));
        let rows = rows.into_iter().map(|(last, times, former)| {
            let cause = match times {
                1 => self.words.named(&last.cause.text),
                times => format!("{} ({} times; this row shows the last)", last.cause.text, number(times)),
            };
            let when = Cell::Text(self.words.format_time(last.when));
            vec![when, former.map_or(Cell::None, Cell::Count), Cell::Count(last.priority), Cell::Text(cause)]
        });
        let columns = vec![
            column("when", "Set", Style::Text),
            column("former", "Before", Style::Count),
            column("priority", "Priority", Style::Count),
            column("text", "Cause", Style::Text),
        ];
        Rows { key: "priorities", columns, rows: Box::new(rows) }
    }
}

fn format_span(seconds: f64) -> String {
    if seconds < 1.0 { "less than a second".to_owned() } else { duration(seconds.round()) }
}
