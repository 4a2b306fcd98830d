// SPDX-License-Identifier: LGPL-3.0-only
//! The whole configuration with all counters at one moment, as values without references to the engine's state, for
//! `query`.

use super::super::LiveSnapshot;
use super::super::View;
use crate::accounts::{Association, AssociationId, Config, Queue};
use crate::ids::{BankName, JobId, ProjectName, QueueName, UserId};
use crate::limits::{Counts, Knowledge, ScopeUsage, Size};
use std::collections::BTreeMap;

/// The content of `query`.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Number of accepted updates.
    pub generation: u64,
    /// Associations by ascending user id and bank name.
    pub associations: Vec<AssociationSnapshot>,
    /// Associations that a push removed, whose live jobs still count in them.
    pub removed: Vec<AssociationSnapshot>,
    /// Queues by name.
    pub queues: Vec<Queue>,
    /// Projects in the order of the push.
    pub projects: Vec<ProjectName>,
    /// Bank priorities by name.
    pub banks: Vec<(BankName, f64)>,
    /// The weight of each factor, and weights that a push gives to unknown factors.
    pub weights: BTreeMap<String, i64>,
    /// Limits over limit scopes, with their use.
    pub limits: Vec<ScopeUsage>,
    /// The switches.
    pub config: Config,
    /// The number of jobs without an association.
    pub waiting: usize,
    /// The users of these jobs.
    pub waiting_users: Vec<UserId>,
    /// Live fair-share.
    pub live: LiveSnapshot,
}

/// An association with its counters.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationSnapshot {
    /// The association's record.
    pub association: Association,
    /// Its fair-share.
    pub fairshare: f64,
    /// Its active jobs.
    pub active_jobs: u64,
    /// The resources of its jobs in RUN and SCHED.
    pub occupied: Counts,
    /// The same by queue, sorted by name. A queue stays listed once a job has counted in it.
    pub occupied_in: Vec<(QueueName, Counts)>,
    /// The priority of the queue of its latest job; 0 if that queue is unknown.
    pub queue_priority: i64,
    /// Its held jobs by id.
    pub held: Vec<HeldJob>,
}

/// A job that limits hold.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldJob {
    /// Its id.
    pub id: JobId,
    /// The requested resources.
    pub size: Size,
    /// The queue of its jobspec.
    pub queue: Option<QueueName>,
    /// The names of the dependencies that hold it. A job in PRIORITY has none, and those of a replayed job are
    /// unknown until its eventlog is read: then these are the limits that it exceeds now.
    pub names: Vec<String>,
}

/// The filter of a request for a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageWanted {
    /// Only associations after this user and bank.
    pub after: Option<(UserId, String)>,
    /// Only associations of this user.
    pub user: Option<UserId>,
    /// The most associations of a page.
    pub most: usize,
    /// The page ends after this many held jobs.
    pub most_held: usize,
}

/// A page of the associations, in the order of [`Snapshot::associations`].
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Number of accepted updates.
    pub generation: u64,
    /// The associations of this page.
    pub associations: Vec<AssociationSnapshot>,
    /// The removed associations, if this page is the last.
    pub removed: Option<Vec<AssociationSnapshot>>,
}

/// The number of associations, queues and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Associations in force.
    pub associations: usize,
    /// Queues.
    pub queues: usize,
    /// Live jobs.
    pub jobs: usize,
}

/// Returns the content of `query`.
pub fn snapshot(view: &View<'_>) -> Snapshot {
    let factors = view.weighed.all().map(|(factor, weight)| (factor.name, weight));
    let weights = view.book.weights().given().chain(factors);
    Snapshot {
        generation: view.book.generation(),
        associations: view
            .book
            .associations(None)
            .map(|(id, record)| show_association(view, id, record))
            .collect(),
        removed: list_removed(view, None),
        queues: view.book.queues().cloned().collect(),
        projects: view.book.projects().to_vec(),
        banks: view.book.banks().map(|(bank, priority)| (bank.clone(), priority)).collect(),
        weights: weights.map(|(name, weight)| (name.to_owned(), weight)).collect(),
        limits: view.ledger.scope_usages(),
        config: view.book.config(),
        waiting: view.ledger.waiting().count(),
        waiting_users: view.ledger.waiting_users().collect(),
        live: view.live_snapshot(),
    }
}

/// Returns a page of the associations. The last page includes the removed associations.
pub fn page(view: &View<'_>, wanted: &PageWanted) -> Page {
    let first = wanted.user.map(|user| (user, String::new()));
    let after = wanted.after.as_ref().max(first.as_ref()).map(|(user, bank)| (*user, bank.as_str()));
    let is_wanted = |user: UserId| wanted.user.is_none_or(|only| only == user);
    let mut remaining =
        view.book.associations(after).take_while(|(_, record)| is_wanted(record.user)).peekable();
    let mut associations = Vec::new();
    let mut held = 0;
    while associations.len() < wanted.most && held < wanted.most_held {
        let Some((id, record)) = remaining.next() else { break };
        let shown = show_association(view, id, record);
        held += shown.held.len();
        associations.push(shown);
    }
    let removed = remaining.peek().is_none().then(|| list_removed(view, wanted.user));
    Page { generation: view.book.generation(), associations, removed }
}

/// Returns removed associations with live jobs, of one user or of all users.
fn list_removed(view: &View<'_>, user: Option<UserId>) -> Vec<AssociationSnapshot> {
    let has_jobs = |id| view.ledger.usage(id).is_some_and(|usage| usage.active_jobs > 0);
    let gone = view
        .book
        .removed()
        .filter(|(id, record)| has_jobs(*id) && user.is_none_or(|only| only == record.user));
    gone.map(|(id, record)| show_association(view, id, record)).collect()
}

fn show_association(view: &View<'_>, id: AssociationId, association: &Association) -> AssociationSnapshot {
    let usage = view.ledger.usage(id);
    let latest = view.ledger.latest_queue(id).and_then(|queue| view.book.queue(queue.as_str()));
    let queues = usage.into_iter().flat_map(|usage| usage.queues());
    AssociationSnapshot {
        association: association.clone(),
        fairshare: view.fairshare(id).unwrap_or_default(),
        active_jobs: usage.map_or(0, |usage| usage.active_jobs),
        occupied: usage.map(|usage| usage.total.charged).unwrap_or_default(),
        occupied_in: queues.map(|(name, tally)| (name.clone(), tally.charged)).collect(),
        queue_priority: latest.map_or(0, |queue| queue.priority),
        held: view.ledger.before_sched(id).filter_map(|id| show_held(view, id)).collect(),
    }
}

fn show_held(view: &View<'_>, id: JobId) -> Option<HeldJob> {
    let job = view.ledger.job(id)?;
    let rules = view.ledger.rules();
    let names: Vec<String> = match job.knowledge {
        Knowledge::Known if !job.is_awaiting() => {
            job.names.iter(rules).map(|name| name.to_string()).collect()
        }
        Knowledge::Known if !job.is_held() => Vec::new(),
        Knowledge::Known | Knowledge::Unread | Knowledge::Unreadable => {
            let exceeded = view.ledger.exceeded_by(&view.book, id);
            rules.members(exceeded).map(|hold| hold.name().to_owned()).collect()
        }
    };
    (!names.is_empty()).then(|| HeldJob { id, size: job.size, queue: job.queue.clone(), names })
}
