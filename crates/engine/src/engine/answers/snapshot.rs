// SPDX-License-Identifier: LGPL-3.0-only
//! What is configured and going on at one moment, as values: for queries. Nothing here refers to the engine's state.

use super::super::LiveSnapshot;
use super::super::View;
use crate::accounts::{Association, AssociationId, Config, Queue};
use crate::ids::{BankName, JobId, ProjectName, QueueName, UserId};
use crate::limits::{Counts, Knowledge, ScopeUsage, Size};
use std::collections::BTreeMap;

/// All that a query shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Number of accepted updates.
    pub generation: u64,
    /// Associations by ascending user id and bank name.
    pub associations: Vec<AssociationSnapshot>,
    /// Associations that a push removed while jobs of them live: they go on counting in them.
    pub removed: Vec<AssociationSnapshot>,
    /// By name.
    pub queues: Vec<Queue>,
    /// In the order they were pushed.
    pub projects: Vec<ProjectName>,
    /// Bank priorities by name.
    pub banks: Vec<(BankName, f64)>,
    /// What each factor weighs, and the weights given to names that are no factor's.
    pub weights: BTreeMap<String, i64>,
    /// Limits over scopes, with what is in use of each.
    pub limits: Vec<ScopeUsage>,
    /// Switches.
    pub config: Config,
    /// Jobs that wait for an association.
    pub waiting: usize,
    /// Whose they are.
    pub waiting_users: Vec<UserId>,
    /// Live fair-share.
    pub live: LiveSnapshot,
}

/// One association with what it has going on.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationSnapshot {
    /// What is configured for it.
    pub association: Association,
    /// Its fair-share.
    pub fairshare: f64,
    /// Its active jobs.
    pub active_jobs: u64,
    /// What its jobs in RUN and SCHED occupy.
    pub occupied: Counts,
    /// The same by queue, sorted by name. A queue stays listed once a job was counted in it.
    pub occupied_in: Vec<(QueueName, Counts)>,
    /// Priority of the queue of its latest job; 0 without a known one.
    pub queue_priority: i64,
    /// Its held jobs by id.
    pub held: Vec<HeldJob>,
}

/// A job that limits hold.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldJob {
    /// Its id.
    pub id: JobId,
    /// What it asks for.
    pub size: Size,
    /// The queue it names.
    pub queue: Option<QueueName>,
    /// The names that hold it. Of one in PRIORITY, which carries none, and of a replayed one whose eventlog is not read yet:
    /// the limits that it exceeds now.
    pub names: Vec<String>,
}

/// Which associations a page shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageWanted {
    /// Those that come after this user and bank.
    pub after: Option<(UserId, String)>,
    /// Those of one user.
    pub user: Option<UserId>,
    /// So many at most.
    pub most: usize,
    /// The page ends after so many held jobs, however few the associations.
    pub most_held: usize,
}

/// Some of the associations, in the order of [`Snapshot::associations`].
#[derive(Clone, Debug, PartialEq)]
pub struct Page {
    /// Number of accepted updates.
    pub generation: u64,
    /// Those of this page.
    pub associations: Vec<AssociationSnapshot>,
    /// The removed ones, if this page is the last.
    pub removed: Option<Vec<AssociationSnapshot>>,
}

/// How much there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Associations in force.
    pub associations: usize,
    /// Queues.
    pub queues: usize,
    /// Live jobs.
    pub jobs: usize,
}

/// All that a query shows.
pub fn snapshot(view: &View<'_>) -> Snapshot {
    let factors = view.weighed.all().map(|(factor, weight)| (factor.name, weight));
    let weights = view.book.weights().given().chain(factors);
    Snapshot {
        generation: view.book.generation(),
        associations: view.book.associations(None).map(|(id, record)| as_seen(view, id, record)).collect(),
        removed: removed(view, None),
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

/// One page of the associations; the last one also shows the removed ones.
pub fn page(view: &View<'_>, wanted: &PageWanted) -> Page {
    let first = wanted.user.map(|user| (user, String::new()));
    let after = wanted.after.as_ref().max(first.as_ref()).map(|(user, bank)| (*user, bank.as_str()));
    let is_wanted = |user: UserId| wanted.user.is_none_or(|only| only == user);
    let mut rest = view.book.associations(after).take_while(|(_, record)| is_wanted(record.user)).peekable();
    let mut associations = Vec::new();
    let mut held = 0;
    while associations.len() < wanted.most && held < wanted.most_held {
        let Some((id, record)) = rest.next() else { break };
        let shown = as_seen(view, id, record);
        held += shown.held.len();
        associations.push(shown);
    }
    let removed = rest.peek().is_none().then(|| removed(view, wanted.user));
    Page { generation: view.book.generation(), associations, removed }
}

/// Removed associations with live jobs, of one user or of all.
fn removed(view: &View<'_>, user: Option<UserId>) -> Vec<AssociationSnapshot> {
    let has_jobs = |id| view.ledger.usage(id).is_some_and(|usage| usage.active_jobs > 0);
    let gone = view
        .book
        .removed()
        .filter(|(id, record)| has_jobs(*id) && user.is_none_or(|only| only == record.user));
    gone.map(|(id, record)| as_seen(view, id, record)).collect()
}

fn as_seen(view: &View<'_>, id: AssociationId, association: &Association) -> AssociationSnapshot {
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
        held: view.ledger.before_sched(id).filter_map(|id| held(view, id)).collect(),
    }
}

fn held(view: &View<'_>, id: JobId) -> Option<HeldJob> {
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
