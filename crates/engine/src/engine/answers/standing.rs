// SPDX-License-Identifier: LGPL-3.0-only
//! The answer to `standing`: associations with their usage, limits and rank, and the levels of the tree above them.
//! The site decides how much of the tree guests see.

use super::super::{Shared, View};
use super::budgets::{BudgetShown, list_budgets};
use super::holds::scope_kind;
use super::{Heading, QueueRules};
use crate::accounts::{Association, AssociationId, Scope, Target};
use crate::ids::{Amount, BankName, JobId, Limit, Measure, ProjectName, QueueName, Stage, UserId, Word};
use crate::limits::{Holding, Phase, ScopeUsage};
use fairshare::{Level, NodeId, NodeKind, Ranking, Tree, periods};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use strum::{EnumString, IntoStaticStr};

/// The most siblings of one level that are shown.
const MOST_SIBLINGS: usize = 200;
/// A page with more siblings than this gets no further association.
const MOST_SIBLINGS_OF_PAGE: usize = 2000;
/// A page with more limits than this gets no further association.
const MOST_LIMITS_OF_PAGE: usize = 2000;
/// The largest number of siblings on one level that the answer sorts by value. If there are more, the answer shows the
/// neighbours of the association.
const MOST_COMPARED: usize = 2000;

/// The part of the tree that a guest may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Open {
    /// The usage, shares and limits of the association itself.
    Own,
    /// The association's own numbers, the banks above it, and the siblings of these banks.
    Banks,
    /// The whole tree.
    All,
}

impl Open {
    /// Returns the name of the variant.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns true if users may see how much of a limit over `target` is in use. The use of a limit on a bank or a queue reveals the
    /// use by other users.
    pub fn shows_limit_use(self, target: &Target) -> bool {
        self != Open::Own || matches!(target.scope(false), Scope::Association | Scope::User)
    }
}

/// The filter of a request for associations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssociationFilter {
    /// Only associations of this user.
    pub user: Option<UserId>,
    /// Only associations in this bank.
    pub bank: Option<String>,
    /// Only associations after this user and bank.
    pub after: Option<(UserId, String)>,
    /// The largest number of associations in a page.
    pub most: usize,
    /// The part of the tree that is shown.
    pub open: Open,
}

/// The answer to `standing`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Standings {
    /// The state of the plugin.
    #[serde(flatten)]
    pub heading: Heading,
    /// The options of the ranking policy, if there is a tree.
    pub options: Option<BTreeMap<String, String>>,
    /// The part of the tree that guests see: `own`, `banks`, or `all`.
    pub public: Option<Word>,
    /// The half-life of usage in seconds; `None` without a tree or without decay.
    pub half_life: Option<f64>,
    /// The usage reset period in seconds: `sync` drops the usage of jobs that ended earlier; `None` without a tree.
    pub reset: Option<f64>,
    /// True if the unit of usages is the node-second.
    #[serde(default)]
    pub in_node_seconds: bool,
    /// When a refresh last computed fair-shares, in seconds since the epoch.
    pub refreshed: Option<f64>,
    /// The associations, by user and bank.
    pub associations: Vec<AssociationStanding>,
    /// The association after which the next page begins.
    pub next: Option<(UserId, BankName)>,
}

/// A page of associations.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AssociationPage {
    /// The associations, by user and bank.
    pub associations: Vec<AssociationStanding>,
    /// The association after which the next page begins.
    pub next: Option<(UserId, BankName)>,
}

/// A limit with its use.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LimitUsage {
    /// The dependency's name.
    pub limit: Word,
    /// The limit scope: `association`, `queue` (the jobs of the association in one queue), `bank`, or `user`.
    pub scope: Word,
    /// The name of the scope, as in `[[fairshare.limits]]`; `None` for a limit in the record of an association or a queue.
    pub name: Option<String>,
    /// The queue, if the limit counts only jobs in one queue.
    pub queue: Option<QueueName>,
    /// The measure, such as `jobs`, `nodes` or `cores`.
    pub measure: Word,
    /// The stage of the counted jobs: `active`, `running`, `scheduled`, or `both` for running and scheduled.
    pub stage: Word,
    /// The amount in use, without reservations; `None` if the caller may not see it.
    pub used: Option<u64>,
    /// The amount reserved for released jobs; `None` if the caller may not see it.
    pub reserved: Option<u64>,
    /// The cap; `None` is unlimited.
    #[serde(rename = "limit_is")]
    pub cap: Option<u64>,
}

/// The rank of an association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RankPosition {
    /// The rank of the association; the best rank is 1.
    pub place: usize,
    /// The number of ranked associations.
    pub of: usize,
    /// The number of associations with a better rank.
    pub before: usize,
    /// The number of other associations with the same rank.
    #[serde(default)]
    pub tied: usize,
}

/// A bank or an association on one level of the tree, compared with its siblings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Sibling {
    /// The bank's or the user's name.
    pub name: String,
    /// `bank` or `user`.
    pub kind: Word,
    /// The user id of an association; `None` for a bank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub userid: Option<UserId>,
    /// Its shares.
    pub shares: u64,
    /// The shares of this sibling as a fraction of the shares of all siblings, 0 to 1.
    pub shares_part: Option<f64>,
    /// The usage of this sibling at the time of the answer.
    pub usage: f64,
    /// The usage of this sibling as a fraction of the usage of all siblings, 0 to 1.
    pub usage_part: Option<f64>,
    /// The value by which siblings are compared. JSON has no infinity, so `is_infinite` shows an infinite value
    /// instead.
    pub value: Option<f64>,
    /// True if the value by which siblings are compared is infinite.
    #[serde(rename = "infinite")]
    pub is_infinite: bool,
}

/// One level of the path from the root to an association.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct LevelShown {
    /// The bank or the user on this level of the path.
    #[serde(flatten)]
    pub node: Sibling,
    /// True if this level has the smallest value of all levels below the root. False on all levels if no bank or user
    /// on the path used more than its share.
    #[serde(rename = "worst")]
    pub is_worst: bool,
    /// With this usage, the bank or user would have a fraction of the usage that equals its fraction of the shares.
    pub even_usage: Option<f64>,
    /// When the usage of the bank or user will have decayed to `even_usage`, in seconds since the epoch. The
    /// computation assumes that the siblings' usage does not change.
    pub even_at: Option<f64>,
    /// The siblings on this level, sorted by descending value.
    pub siblings: Vec<Sibling>,
    /// The number of siblings that the caller may see.
    pub siblings_total: usize,
}

/// The number of jobs of an association, by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AssociationJobs {
    /// Active jobs.
    pub active: u64,
    /// The cap on active jobs; `None` is unlimited.
    pub max_active: Option<u64>,
    /// Jobs that limits hold.
    pub held: u64,
    /// Jobs with a priority above 0.
    pub pending: u64,
    /// Jobs that a reason other than a limit keeps from running: in DEPEND, or at priority 0, such as at urgency 0.
    pub blocked: u64,
    /// Running jobs.
    pub running: u64,
    /// The nodes of running jobs. A node that several jobs share is counted once for each of these jobs.
    pub nodes: u64,
    /// The cores of running jobs.
    pub cores: u64,
}

/// An association with its usage, limits and rank.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct AssociationStanding {
    /// The user.
    pub userid: UserId,
    /// The bank.
    pub bank: BankName,
    /// True if the bank is the user's default bank.
    #[serde(rename = "default")]
    pub is_default: bool,
    /// True if the association may submit jobs.
    #[serde(rename = "active")]
    pub is_active: bool,
    /// True if a push removed the association. Its live jobs still belong to the association.
    #[serde(rename = "removed")]
    pub is_removed: bool,
    /// The fair-share from which the engine computes the priorities of the association's jobs.
    pub fairshare: Option<f64>,
    /// The usage of the association at the time of the answer.
    pub usage: Option<f64>,
    /// The queues that the association may use.
    pub queues: Vec<QueueName>,
    /// The rules of these queues for limits and priorities.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub queue_rules: BTreeMap<QueueName, QueueRules>,
    /// The projects that the association may use.
    pub projects: Vec<ProjectName>,
    /// Its default project.
    pub default_project: Option<ProjectName>,
    /// Its jobs.
    pub jobs: AssociationJobs,
    /// Its limits.
    pub limits: Vec<LimitUsage>,
    /// The budgets that are charged for the association's jobs, with one entry for each window.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub budgets: Vec<BudgetShown>,
    /// The rank of the association, if there is one.
    pub rank: Option<RankPosition>,
    /// The levels of the tree on the path from the root to the association.
    pub levels: Vec<LevelShown>,
}

/// Returns the siblings of `node` that the caller may see, and their total number. If there are more than
/// [`MOST_COMPARED`], returns those next to `node`.
fn list_visible_siblings(tree: &Tree, node: NodeId, with_users: bool) -> (Vec<NodeId>, usize) {
    let Some(parent) = tree.parent(node) else { return (Vec::new(), 0) };
    let is_shown = |other: &NodeId| *other != node && (with_users || tree.kind(*other) == NodeKind::Bank);
    let total = tree.children(parent).filter(is_shown).count();
    let before =
        tree.children(parent).filter(is_shown).take_while(|other| other.index() < node.index()).count();
    let skipped = before.saturating_sub(MOST_COMPARED / 2);
    (tree.children(parent).filter(is_shown).skip(skipped).take(MOST_COMPARED).collect(), total)
}

/// Returns the answer to `standing`. `public` is the part of the tree that guests see.
pub fn standing(view: &View<'_>, wanted: &AssociationFilter, public: Open, heading: Heading) -> Standings {
    let rule = view.standing.rule();
    let AssociationPage { associations, next } = standings(view, wanted, heading.now);
    Standings {
        options: view.ranking_options(),
        public: Some(Cow::Borrowed(public.name())),
        half_life: rule.and_then(|rule| rule.half_life.seconds()),
        reset: rule.map(|rule| rule.reset),
        in_node_seconds: rule.is_some_and(|it| it.weights == periods::Weights::default()),
        refreshed: view.refresh.last_refresh().0.map(|last| last.when),
        associations,
        next,
        heading,
    }
}

/// Returns a page of the associations that `wanted` selects, as of `now`.
pub fn standings(view: &View<'_>, wanted: &AssociationFilter, now: f64) -> AssociationPage {
    let is_bank = |record: &Association| wanted.bank.as_ref().is_none_or(|bank| record.bank.as_str() == bank);
    let after = wanted.after.as_ref().map(|(user, bank)| (*user, bank.as_str()));
    let is_after =
        |record: &Association| after.is_none_or(|after| (record.user, record.bank.as_str()) > after);
    let is_shown = |id| view.book.is_in_force(id) || view.ledger.accounts().usage(id).active_jobs > 0;
    let candidates: Box<dyn Iterator<Item = (AssociationId, &Association)>> = match wanted.user {
        Some(user) => {
            let own = view.book.all_associations_of(user);
            Box::new(own.filter(|(id, record)| is_after(record) && is_shown(*id)))
        }
        None => Box::new(view.book.associations(after)),
    };
    let mut page = AssociationPage::default();
    let budgets = list_budgets(view, now);
    let (mut siblings, mut limits) = (0, 0);
    for (id, record) in candidates.filter(|(_, record)| is_bank(record)) {
        let is_full = siblings > MOST_SIBLINGS_OF_PAGE || limits > MOST_LIMITS_OF_PAGE;
        if page.associations.len() == wanted.most || is_full {
            page.next = page.associations.last().map(|last| (last.userid, last.bank.clone()));
            break;
        }
        let mut standing = show_association(view, id, record, wanted.open, now);
        let targets: Vec<Target> = view.book.site_limits().targets_of(record.user, &record.bank).collect();
        let show = |budget: &BudgetShown| budget.show_budget_of_targets(&targets, wanted.open);
        standing.budgets = budgets.iter().filter_map(show).collect();
        siblings += standing.levels.iter().map(|level| level.siblings.len()).sum::<usize>();
        limits += standing.limits.len();
        page.associations.push(standing);
    }
    page
}

fn show_association(
    view: &View<'_>,
    id: AssociationId,
    record: &Association,
    open: Open,
    now: f64,
) -> AssociationStanding {
    let index = view.standing.find(record.user, &record.bank);
    let usage = view.ledger.accounts().usage(id);
    let run = usage.total.given;
    let node = index.and_then(|index| view.standing.node(index)).filter(|_| view.is_live());
    AssociationStanding {
        userid: record.user,
        bank: record.bank.clone(),
        is_active: record.active,
        queues: record.queues.to_vec(),
        queue_rules: view.list_queue_rules(record.queues.iter()),
        projects: record.projects.to_vec(),
        default_project: record.def_project.clone(),
        is_default: view.book.default_bank(record.user) == Some(&record.bank),
        is_removed: !view.book.is_in_force(id),
        fairshare: view.fairshare(id),
        usage: index.and_then(|index| view.standing.usage(index, now)),
        jobs: AssociationJobs {
            active: view.limits().sum_usage_over_queues(id).0,
            max_active: record.active_jobs_cap(),
            held: view.ledger.accounts().held_count(id) as u64,
            pending: view.posted.pending_count(id) as u64,
            blocked: count_blocked_jobs(view, id),
            running: run.jobs(),
            nodes: run.nodes(),
            cores: run.cores(),
        },
        limits: show_limits(view, id, record, open),
        budgets: Vec::new(),
        rank: node.and_then(|node| find_rank(view, node)),
        levels: node.map(|node| show_levels(view, node, open, now)).unwrap_or_default(),
    }
}

/// Returns the number of an association's jobs that a reason other than a limit keeps from running.
fn count_blocked_jobs(view: &View<'_>, association: AssociationId) -> u64 {
    let is_blocked = |id: &JobId| match view.ledger.job(*id) {
        Some(job) if job.phase == Phase::Depend => !job.is_held(),
        Some(job) if job.phase == Phase::Sched => view.posted.posted_priority(*id) == Some(0),
        _ => false,
    };
    let before_sched = view.ledger.accounts().list_jobs_before_sched(association, None);
    before_sched.chain(view.posted.pending_jobs_of(association, None)).filter(is_blocked).count() as u64
}

fn show_limits(view: &View<'_>, id: AssociationId, record: &Association, open: Open) -> Vec<LimitUsage> {
    let show = |name: &'static str, queue: Option<&QueueName>, amount: Amount, cap: Limit| LimitUsage {
        limit: Cow::Borrowed(name),
        scope: scope_kind(None, queue),
        queue: queue.cloned(),
        measure: Cow::Borrowed(amount.measure.name()),
        stage: Cow::Borrowed(amount.stage.answer_name()),
        cap: cap.finite_cap(),
        ..LimitUsage::default()
    };
    let show_holding = |holding: &Holding| LimitUsage {
        used: Some(holding.used.saturating_sub(holding.reserved)),
        reserved: Some(holding.reserved),
        ..show(holding.hold.name(), holding.queue.as_ref(), holding.amount, holding.limit)
    };
    let active_jobs = Amount { stage: Stage::Active, measure: Measure::Jobs };
    let mut shown = vec![LimitUsage {
        used: Some(view.limits().sum_usage_over_queues(id).0),
        reserved: Some(0),
        cap: record.active_jobs_cap(),
        ..show("max-active-jobs", None, active_jobs, record.max_active_jobs)
    }];
    let used = view.ledger.accounts().usage(id).queues().map(|(name, _)| name);
    let limits = view.book.site_limits();
    // A limit on a parent queue also counts the jobs in its virtual queues.
    let queues = record.queues.iter().chain(used).flat_map(|queue| [Some(queue), limits.parent_queue(queue)]);
    // `None`, which is in the set, stands for the limits of the association in all queues.
    let queues: BTreeSet<Option<&QueueName>> = queues.chain([None]).collect();
    for queue in queues {
        let limits = view.limits().limits_in_records(id, queue);
        let limits = limits.iter().filter(|holding| holding.queue.as_ref() == queue).map(show_holding);
        shown.extend(limits.filter(|limit| {
            queue.is_none() || limit.cap.is_some() || limit.used > Some(0) || limit.reserved > Some(0)
        }));
    }
    let over_scopes = view.limits().list_scope_usages_of_user(record.user, &record.bank);
    shown.extend(over_scopes.into_iter().map(|(name, ScopeUsage { limit, used, reserved })| {
        // Amounts of budgets are in unit-milliseconds.
        let unit = if limit.amount.is_budget() { limit.amount.measure.cap_unit() } else { 1 };
        let [used, reserved] = [used, reserved].map(|amount| Some(amount?.div_ceil(unit)));
        let shows_use = open.shows_limit_use(&limit.target);
        LimitUsage {
            used: used.filter(|_| shows_use).map(|used| used.saturating_sub(reserved.unwrap_or_default())),
            reserved: reserved.filter(|_| shows_use),
            scope: scope_kind(Some(&limit.target), limit.queue.as_ref()),
            name: Some(limit.target.name()),
            ..show(name, limit.queue.as_ref(), limit.amount, Limit(limit.cap.limit.0 / unit.cast_signed()))
        }
    }));
    shown
}

pub fn find_rank(shared: &Shared, node: NodeId) -> Option<RankPosition> {
    let ranking = shared.standing.ranking()?;
    let place = ranking.place(node)?;
    let (before, tied) = (place.saturating_sub(1), ranking.count_ties(node));
    Some(RankPosition { place, of: ranking.ranked(), before, tied })
}

fn show_levels(view: &View<'_>, node: NodeId, open: Open, now: f64) -> Vec<LevelShown> {
    let (Some(tree), Some(ranking)) = (view.standing.tree(), view.standing.ranking()) else {
        return Vec::new();
    };
    let explained = ranking.explain(tree, node);
    let shown =
        explained.levels.iter().enumerate().filter(|(_, level)| open != Open::Own || level.node == node);
    shown
        .map(|(at, level)| show_level(view, tree, ranking, level, explained.worst == Some(at), open, now))
        .collect()
}

fn show_level(
    view: &View<'_>,
    tree: &Tree,
    ranking: &Ranking,
    level: &Level,
    is_worst: bool,
    open: Open,
    now: f64,
) -> LevelShown {
    let scale = view.standing.scale();
    let unscale = |scaled: f64| scale.map_or(scaled, |scale| scale.plain(scaled, now));
    let sibling = |node: NodeId, usage: f64, value: Option<f64>| {
        let shares = tree.shares(node).count();
        let userid = view.standing.user(node);
        Sibling {
            name: tree.name(node).to_owned(),
            kind: Cow::Borrowed(if userid.is_some() { "user" } else { "bank" }),
            userid,
            shares,
            shares_part: (level.sibling_shares > 0.0).then(|| shares as f64 / level.sibling_shares),
            usage: unscale(usage),
            usage_part: (level.sibling_usage > 0.0 && level.depth > 0).then(|| usage / level.sibling_usage),
            value: value.filter(|value| value.is_finite()),
            is_infinite: value.is_some_and(f64::is_infinite),
        }
    };
    let used = level.detail.usage;
    let even = level.even_usage();
    let half_life = scale.and_then(|scale| scale.half_life().seconds());
    let even_at = even.zip(half_life).filter(|(even, _)| *even < used);
    let even_at = even_at.map(|(even, half_life)| now + (used / even).log2() * half_life);
    let (mut siblings, total) = match open {
        Open::Own => (Vec::new(), 0),
        Open::Banks | Open::All => list_visible_siblings(tree, level.node, open == Open::All),
    };
    siblings.sort_by_cached_key(|node| Reverse(ranking.value(tree, *node).map_or(0, f64::to_bits)));
    siblings.truncate(MOST_SIBLINGS);
    let shown = siblings.iter().map(|node| {
        let ranked = tree.kind(*node) == NodeKind::Bank || ranking.rank(*node).is_some();
        sibling(*node, ranking.usage(tree, *node), ranking.value(tree, *node).filter(|_| ranked))
    });
    LevelShown {
        is_worst,
        even_usage: even.map(unscale),
        even_at,
        siblings: shown.collect(),
        siblings_total: total,
        node: sibling(level.node, used, level.value),
    }
}
