// SPDX-License-Identifier: LGPL-3.0-only
//! The answers to `query` and `associations`: the whole configuration with all counters at one moment. The
//! keys, the nesting and the order of the JSON are an interface that flux-accounting's plugin defined, so
//! they must not change. Only keys at the top level may be added.

use super::super::{LiveSnapshot, View};
use super::budgets::{BudgetShown, list_budgets};
use super::queue_rules::QueueRules;
use crate::accounts::{Association, AssociationId, Config, Queue, RunningLimitSettings, Target};
use crate::ids::{BankName, JobId, Limit, ProjectName, QueueName, UserId, Word};
use crate::limits::{Knowledge, ScopeUsage, Tally};
use fairshare::insert_all;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The largest number of users without data in an answer. Before the first push, all users are without data.
const MAX_WAITING: usize = 1000;

/// The answer to `query`. The plugin adds its version, the time and the sender of the last data, and the cost of the last refresh.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Snapshot {
    /// The name of the plugin. Flux adds this field.
    #[serde(skip_serializing)]
    pub name: String,
    /// The path of the plugin. Flux adds this field.
    #[serde(skip_serializing)]
    pub path: String,
    /// The users by id.
    #[serde(rename = "mf_priority_map")]
    pub users: Vec<UserSnapshot>,
    /// The queues by name.
    pub queues: BTreeMap<QueueName, Queue>,
    /// Projects in the order of the push.
    pub projects: Vec<ProjectName>,
    /// Number of accepted updates; `None` from flux-accounting's plugin.
    pub generation: Option<u64>,
    /// The weight of each factor, and weights that a push gives to unknown factors.
    pub factors: BTreeMap<String, i64>,
    /// Bank priorities by name.
    pub banks: BTreeMap<BankName, f64>,
    /// The site limits, each with the amount in use.
    pub limits: Vec<LimitUse>,
    /// The budgets of the last push. If there are no budgets, the answer does not contain the key.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetShown>,
    /// The switches.
    pub config: Config,
    /// The number of jobs without an association; `None` from flux-accounting's plugin.
    pub waiting: Option<usize>,
    /// Users of jobs without an association; a long list is cut.
    pub waiting_users: Vec<UserId>,
    /// Associations that a push removed, whose live jobs still count in them.
    pub removed_associations: Vec<AssociationSnapshot>,
    /// The version of the plugin; `None` from flux-accounting's plugin.
    pub version: Option<Word>,
    /// The time of the last data, in seconds since the epoch.
    pub updated: Option<f64>,
    /// The user who pushed the last data; `None` if the plugin got the data at its load or from its snapshot.
    pub pushed_by: Option<UserId>,
    /// Live fair-share.
    pub live: LiveSnapshot,
    /// When and how jobs count under limits on running jobs.
    pub running_limits: RunningLimitSettings,
    /// The rules of queues for limits and priorities.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_rules: BTreeMap<QueueName, QueueRules>,
}

/// A user with their associations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserSnapshot {
    /// The user.
    pub userid: UserId,
    /// The associations by bank.
    pub banks: Vec<AssociationSnapshot>,
}

/// An association with its counters. Counters that flux-accounting's plugin sends may be negative.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct AssociationSnapshot {
    /// The user of a removed association.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userid: Option<UserId>,
    /// True if a push removed the association.
    #[serde(rename = "removed", skip_serializing_if = "std::ops::Not::not")]
    pub is_removed: bool,
    /// The bank.
    pub bank_name: BankName,
    /// The fair-share.
    pub fairshare: f64,
    /// Cap on the running jobs of the association.
    pub max_run_jobs: Limit,
    /// The running jobs of the association.
    pub cur_run_jobs: i64,
    /// Cap on the active jobs of the association.
    pub max_active_jobs: Limit,
    /// The active jobs of the association.
    pub cur_active_jobs: i64,
    /// The queues that the association may use.
    pub queues: Vec<QueueName>,
    /// The priority of the queue in which the association's latest job is; 0 if that queue is unknown.
    pub queue_factor: i64,
    /// The projects that the association may use.
    pub projects: Vec<ProjectName>,
    /// The default project; empty if there is none.
    pub def_project: ProjectName,
    /// Cap on the nodes of the running jobs of the association.
    pub max_nodes: Limit,
    /// Cap on the cores of the running jobs of the association.
    pub max_cores: Limit,
    /// The nodes of the running jobs of the association.
    pub cur_nodes: i64,
    /// The cores of the running jobs of the association.
    pub cur_cores: i64,
    /// 1 if the association may run jobs, 0 if not.
    pub active: i64,
    /// The jobs of the association in SCHED.
    pub cur_sched_jobs: i64,
    /// Cap on the jobs in SCHED of the association.
    pub max_sched_jobs: Limit,
    /// The resources of the association's jobs, for each queue in which the association has had jobs. The command does
    /// not read this field, because older versions of flux-accounting's plugin use another format.
    #[serde(skip_deserializing)]
    pub queue_usage: BTreeMap<QueueName, QueueUsage>,
    /// The held jobs of the association.
    pub held_jobs: BTreeMap<JobId, HeldJob>,
}

/// The resources of an association's jobs in one queue.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QueueUsage {
    /// Running jobs.
    pub cur_run_jobs: i64,
    /// The nodes of the running jobs.
    pub cur_nodes: i64,
    /// Jobs in SCHED.
    pub cur_sched_jobs: i64,
    /// The nodes of the jobs in SCHED.
    pub cur_sched_nodes: i64,
    /// The cores of the jobs in SCHED.
    pub cur_sched_cores: i64,
}

/// A job that limits hold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldJob {
    /// The requested nodes.
    pub nnodes: i64,
    /// The requested cores.
    pub ncores: i64,
    /// The queue of the jobspec; empty if the jobspec names no queue.
    pub queue: QueueName,
    /// The names of the dependencies that hold the job. For a job in PRIORITY, and for a replayed job whose eventlog is
    /// not read yet, the field contains the limits that the job exceeds now.
    pub deps: Vec<String>,
}

/// A site limit, and how much of the limit is in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LimitUse {
    /// `given` if running jobs count with their allocated resources, `asked` if they count with the resources that
    /// their jobspec requests.
    pub counts: Word,
    /// The limit.
    pub limit: Limit,
    /// What the limit counts, such as `jobs` or `nodes`.
    pub measure: String,
    /// The name of the association, bank, user or queue; `*` for a limit on each of them.
    pub name: String,
    /// The queue whose jobs are counted. `None` if jobs in all queues are counted, or if the target of the limit is a
    /// queue.
    pub queue: Option<QueueName>,
    /// The amount in `used` that is reserved for released jobs.
    pub reserved: Option<u64>,
    /// `association`, `bank`, `user` or `queue`.
    pub scope: Word,
    /// The amount in use, in the unit of the limit, rounded up. `None` for a limit on each association, bank,
    /// user or queue, because each of them has its own counter. Also `None` for a limit on single jobs.
    pub used: Option<u64>,
}

impl From<ScopeUsage> for LimitUse {
    fn from(ScopeUsage { limit, used, reserved }: ScopeUsage) -> Self {
        LimitUse {
            counts: Cow::Borrowed(if limit.cap.is_given { "given" } else { "asked" }),
            limit: limit.cap.limit,
            measure: limit.amount.to_string(),
            name: limit.target.name(),
            queue: limit.queue.filter(|_| !matches!(limit.target, Target::Queue(_))),
            reserved,
            scope: Cow::Borrowed(limit.target.kind()),
            used,
        }
    }
}

/// The filter of a request for a page of associations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFilter {
    /// Only associations after this user and bank.
    pub after: Option<(UserId, String)>,
    /// Only associations of this user.
    pub user: Option<UserId>,
    /// The largest number of associations in a page.
    pub most: usize,
    /// The page ends after this many held jobs.
    pub most_held: usize,
}

/// The answer to `associations`: a page of the users of [`Snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Page {
    /// Number of accepted updates.
    pub generation: u64,
    /// The users of this page.
    #[serde(rename = "mf_priority_map")]
    pub users: Vec<UserSnapshot>,
    /// The user and the bank after which the next page begins; `None` on the last page.
    pub next: Option<(UserId, BankName)>,
    /// The removed associations, if this page is the last.
    #[serde(rename = "removed_associations", skip_serializing_if = "Option::is_none")]
    pub removed: Option<Vec<AssociationSnapshot>>,
}

/// The number of associations, queues and jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SiteSize {
    /// Associations, without removed ones.
    pub associations: usize,
    /// Queues.
    pub queues: usize,
    /// Live jobs.
    pub jobs: usize,
}

/// Returns the answer to a `query` of the plugin.
pub fn snapshot(view: &View<'_>) -> Snapshot {
    let factors = view.weighed.all().map(|(factor, weight)| (factor.name, weight));
    let weights =
        view.book.tables().weights.iter().map(|(name, weight)| (name.as_str(), *weight)).chain(factors);
    let ruled_queues = view.settings.exempt.keys().chain(view.settings.max_priorities.keys());
    let mut users = Vec::new();
    for (id, record) in view.book.associations(None) {
        add_to_user(&mut users, record.user, show_association(view, id, record));
    }
    Snapshot {
        users,
        queues: view.book.tables().queues.clone(),
        projects: view.book.tables().projects.clone(),
        generation: Some(view.book.generation()),
        factors: insert_all(weights.map(|(name, weight)| (name.to_owned(), weight))),
        banks: view.book.tables().banks.clone(),
        limits: view.limits().scope_usages().into_iter().map(LimitUse::from).collect(),
        budgets: list_budgets(view, view.now),
        config: view.book.config(),
        waiting: Some(view.ledger.waiting().values().flatten().count()),
        waiting_users: view.ledger.waiting().keys().copied().take(MAX_WAITING).collect(),
        removed_associations: list_removed_associations(view, None),
        live: view.get_live_fairshare_details(),
        running_limits: view.settings.running.clone(),
        queue_rules: view.list_queue_rules(ruled_queues.chain(view.queues.virtual_queues())),
        ..Snapshot::default()
    }
}

/// Returns a page of the associations. The last page includes the removed associations.
pub fn page(view: &View<'_>, wanted: &PageFilter) -> Page {
    let first = wanted.user.map(|user| (user, ""));
    let after = wanted.after.as_ref().map(|(user, bank)| (*user, bank.as_str())).max(first);
    let is_wanted = |user: UserId| wanted.user.is_none_or(|only| only == user);
    let associations = view.book.associations(after).take_while(|(_, record)| is_wanted(record.user));
    let mut remaining = associations.peekable();
    let mut page = Page { generation: view.book.generation(), ..Page::default() };
    let (mut count, mut held) = (0, 0);
    while count < wanted.most && held < wanted.most_held {
        let Some((id, record)) = remaining.next() else { break };
        let shown = show_association(view, id, record);
        count += 1;
        held += shown.held_jobs.len();
        page.next = Some((record.user, record.bank.clone()));
        add_to_user(&mut page.users, record.user, shown);
    }
    if remaining.peek().is_none() {
        page.next = None;
        page.removed = Some(list_removed_associations(view, wanted.user));
    }
    page
}

/// Adds an association to the last user in `users`. If the association belongs to another user, adds that user first.
fn add_to_user(users: &mut Vec<UserSnapshot>, userid: UserId, association: AssociationSnapshot) {
    match users.last_mut().filter(|last| last.userid == userid) {
        Some(last) => last.banks.push(association),
        None => users.push(UserSnapshot { userid, banks: vec![association] }),
    }
}

/// Returns removed associations with live jobs, of one user or of all users.
fn list_removed_associations(view: &View<'_>, user: Option<UserId>) -> Vec<AssociationSnapshot> {
    let has_jobs = |id| view.ledger.accounts().usage(id).active_jobs > 0;
    let is_shown = |user_of: UserId| user.is_none_or(|only| only == user_of);
    let gone = view.book.removed().filter(|(id, record)| has_jobs(*id) && is_shown(record.user));
    let shown = gone.map(|(id, record)| AssociationSnapshot {
        userid: Some(record.user),
        is_removed: true,
        ..show_association(view, id, record)
    });
    shown.collect()
}

/// Converts a counter to a signed number, because Flux limits the integers of JSON to 63 bits.
fn convert_to_signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn show_association(view: &View<'_>, id: AssociationId, association: &Association) -> AssociationSnapshot {
    let usage = view.ledger.accounts().usage(id);
    let latest = view.ledger.accounts().latest_queue(id).and_then(|queue| view.book.queue(queue.as_str()));
    let (active_jobs, total) = view.limits().sum_usage_over_queues(id);
    let Tally { run, sched, .. } = total;
    let queue_usage = usage.queues().map(|(name, tally)| {
        let Tally { run, sched, .. } = tally;
        let shown = QueueUsage {
            cur_run_jobs: convert_to_signed(run.jobs()),
            cur_nodes: convert_to_signed(run.nodes()),
            cur_sched_jobs: convert_to_signed(sched.jobs()),
            cur_sched_nodes: convert_to_signed(sched.nodes()),
            cur_sched_cores: convert_to_signed(sched.cores()),
        };
        (name.clone(), shown)
    });
    let held_jobs = view.ledger.accounts().list_jobs_before_sched(id, None);
    // All fields of both types are named, so that the compiler reports a new field that the answer lacks.
    let Association {
        user: _,
        ref bank,
        max_running_jobs,
        max_active_jobs,
        max_sched_jobs,
        max_nodes,
        max_cores,
        ref queues,
        ref projects,
        ref def_project,
        active,
    } = *association;
    AssociationSnapshot {
        userid: None,
        is_removed: false,
        bank_name: bank.clone(),
        fairshare: view.fairshare(id).unwrap_or_default(),
        max_run_jobs: max_running_jobs,
        cur_run_jobs: convert_to_signed(run.jobs()),
        max_active_jobs,
        cur_active_jobs: convert_to_signed(active_jobs),
        queues: queues.to_vec(),
        queue_factor: latest.map_or(0, |queue| queue.priority),
        projects: projects.to_vec(),
        def_project: def_project.clone().unwrap_or_default(),
        max_nodes,
        max_cores,
        cur_nodes: convert_to_signed(run.nodes()),
        cur_cores: convert_to_signed(run.cores()),
        active: i64::from(active),
        cur_sched_jobs: convert_to_signed(sched.jobs()),
        max_sched_jobs,
        queue_usage: insert_all(queue_usage),
        held_jobs: insert_all(held_jobs.filter_map(|id| Some((id, show_held_job(view, id)?)))),
    }
}

fn show_held_job(view: &View<'_>, id: JobId) -> Option<HeldJob> {
    let job = view.ledger.job(id)?;
    let rules = view.ledger.rules();
    let deps: Vec<String> = match job.knowledge {
        Knowledge::Known if !job.is_awaiting() => {
            job.names.iter(rules).map(|name| name.to_string()).collect()
        }
        Knowledge::Known if !job.is_held() => Vec::new(),
        Knowledge::Known | Knowledge::Unread | Knowledge::Unreadable => {
            let exceeded = view.limits().exceeded_by(id);
            rules.members(exceeded).map(|hold| hold.name().to_owned()).collect()
        }
    };
    (!deps.is_empty()).then(|| HeldJob {
        nnodes: convert_to_signed(job.size.nodes),
        ncores: convert_to_signed(job.size.cores),
        queue: job.queue.clone().unwrap_or_default(),
        deps,
    })
}
