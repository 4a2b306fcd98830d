// SPDX-License-Identifier: LGPL-3.0-only
//! All that there is to say of one job.

use super::super::View;
use super::super::{Change, Changes, JobFacts, PricedJob};
use super::holds::{HoldNow, current_holds};
use super::note;
use super::others::{Keeper, other_keepers, suggestions, unnamed_keepers};
use super::release::{Release, foresee_release};
use crate::ids::{BankName, JobId, QueueName, UserId};
use crate::limits::{Job, PlaceInLine, Size};
use crate::priority::{AGE, SIZE};

/// A code for programs and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// One of a few words.
    pub code: &'static str,
    /// The same in words, with what it is about.
    pub text: String,
}

/// That Flux sorts a job by another price than it would get today, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Lag {
    /// Today's price less the one that was posted.
    pub by: i64,
    /// Why it was not posted.
    pub reason: Note,
}

/// What there is to say of a job.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The job.
    pub id: JobId,
    /// Whose it is.
    pub user: UserId,
    /// The bank it counts in; without one, the bank that it names.
    pub bank: Option<BankName>,
    /// The queue it names.
    pub queue: Option<QueueName>,
    /// The queue that this one is a virtual queue of.
    pub parent: Option<QueueName>,
    /// Whether the scheduler keeps the jobs of all queues in one list. `None`: unknown.
    pub is_one_list: Option<bool>,
    /// What it counts as.
    pub size: Size,
    /// Its time limit in seconds, if it has one.
    pub duration: Option<f64>,
    /// When it was submitted.
    pub submitted: Option<f64>,
    /// The fair-share of its association.
    pub fairshare: Option<f64>,
    /// Its true age, as a part of `age-max`.
    pub age: f64,
    /// Its prices, if it has any.
    pub priced: Option<PricedJob>,
    /// What had changed when the posted one was posted, the most telling first.
    pub made: Vec<Note>,
    /// The last change that somebody made, where it posted the priority before, and when that was.
    pub made_before: Option<(Vec<Note>, f64)>,
    /// That it is not today's.
    pub lag: Option<Lag>,
    /// Whether limits hold it: in DEPEND, in PRIORITY, or in SCHED at priority 0.
    pub is_held: bool,
    /// The dependency names that it carries.
    pub carries: Vec<String>,
    /// The limits that hold it now.
    pub holds: Vec<HoldNow>,
    /// When they let it go.
    pub release: Release,
    /// Where it stands in the line.
    pub line: Option<PlaceInLine>,
    /// What else keeps it.
    pub others: Vec<Keeper>,
    /// How many dependencies of others keep it besides, which are not named.
    pub others_unnamed: usize,
    /// What would help, best first.
    pub helps: Vec<Note>,
}

/// A job whose names are known.
fn carried(job: &Job) -> Option<&Job> {
    Some(job).filter(|job| !job.is_unread())
}

/// What there is to say of a job. `facts` are what Flux says of it at this moment.
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
    Some(Why {
        id,
        user: job.user,
        bank: view.bank_of(association).or_else(|| job.bank.clone()),
        queue: job.queue.clone(),
        parent: job.queue.as_ref().and_then(|queue| view.queues.parent(queue)).cloned(),
        is_one_list: view.queues.is_one_list(),
        size: job.size,
        duration: Some(job.duration).filter(|seconds| *seconds > 0.0),
        submitted: job.submitted,
        age: view.true_age(job, now),
        fairshare: association.and_then(|association| view.fairshare(association)),
        made: priced.as_ref().map(|it| made(view, job, it, it.changes)).unwrap_or_default(),
        made_before: priced.as_ref().and_then(|it| made_before(view, job, it)),
        lag: priced.as_ref().and_then(|priced| lag(view, id, priced)),
        priced,
        is_held: job.is_held() || !holds.is_empty(),
        carries: carried(job)
            .map(|job| job.names.iter(rules).map(|name| name.to_string()).collect())
            .unwrap_or_default(),
        line: view.ledger.place_in_line(id),
        holds,
        release,
        others,
        others_unnamed: unnamed_keepers(view, facts),
        helps,
    })
}

/// Why the posted priority was posted.
fn made(view: &View<'_>, job: &Job, priced: &PricedJob, changes: Changes) -> Vec<Note> {
    changes.all().map(|change| changed(view, job, priced, changes, change)).collect()
}

/// What somebody changed before usage or age moved it on.
fn made_before(view: &View<'_>, job: &Job, priced: &PricedJob) -> Option<(Vec<Note>, f64)> {
    let (changes, when) = priced.earlier?;
    let is_first = [Change::Submitted, Change::Loaded].into_iter().any(|change| changes.has(change));
    (!is_first).then(|| (made(view, job, priced, changes), when))
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
    let depth = view.settings.depth;
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
