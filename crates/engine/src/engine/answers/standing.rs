// SPDX-License-Identifier: LGPL-3.0-only
//! Where associations stand: their limits and counters, their rank, and the levels of the tree above them, as far as the site
//! lets it be seen.

use super::super::{Shared, View};
use crate::accounts::{Association, AssociationId, Target};
use crate::ids::{BankName, QueueName, UserId};
use crate::limits::{Holding, ScopeUsage};
use fairshare::{Level, NodeId, NodeKind, Ranking, Shares, Tree};
use std::cmp::Reverse;

/// So many siblings are shown of one level.
const MOST_SIBLINGS: usize = 200;
/// Beyond so many of them no further association comes on a page: who has many banks asks for the next one.
const MOST_SIBLINGS_OF_PAGE: usize = 2000;
/// The same of limits: there are some on each queue.
const MOST_LIMITS_OF_PAGE: usize = 2000;
/// Among so many of them those are sought that stand first.
const MOST_COMPARED: usize = 2000;

/// What of the tree may be seen by who is not the instance owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// An association's own numbers.
    Own,
    /// The banks above it, and their siblings.
    Banks,
    /// All of it.
    All,
}

impl Open {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Open::Own => "own",
            Open::Banks => "banks",
            Open::All => "all",
        }
    }
}

/// Which associations are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StandingsWanted {
    /// Those of this user.
    pub user: Option<UserId>,
    /// In this bank.
    pub bank: Option<String>,
    /// Those that come after this user and bank.
    pub after: Option<(UserId, String)>,
    /// So many at most.
    pub most: usize,
    /// What of the tree is shown.
    pub open: Open,
}

/// Some of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StandingsPage {
    /// By user and bank.
    pub associations: Vec<AssociationStanding>,
    /// After which one the next page begins.
    pub next: Option<(UserId, BankName)>,
}

/// A limit with what is in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitShown {
    /// The dependency's name.
    pub limit: &'static str,
    /// Whose jobs count together; `None`: those of the association, by its own record or the queue's.
    pub target: Option<Target>,
    /// The queue, if it is a limit of one.
    pub queue: Option<QueueName>,
    /// What it counts.
    pub measure: &'static str,
    /// Of which jobs.
    pub stage: &'static str,
    /// In use, reservations excluded; `None` where the caller may not see it.
    pub used: Option<u64>,
    /// Reserved for released jobs; `None` where the caller may not see it.
    pub reserved: Option<u64>,
    /// The cap, if there is one.
    pub cap: Option<u64>,
}

/// A place among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankShown {
    /// 1 for who goes first.
    pub place: usize,
    /// How many are ranked.
    pub of: usize,
    /// How many others have the same.
    pub tied: usize,
}

/// A sibling on a level.
#[derive(Clone, Debug, PartialEq)]
pub struct Sibling {
    /// Bank or user name.
    pub name: String,
    /// Who, if it is an association.
    pub user: Option<UserId>,
    /// What it was promised.
    pub shares: Shares,
    /// The same, as a part of all on this level.
    pub shares_part: Option<f64>,
    /// What it has used.
    pub usage: f64,
    /// The same, as a part.
    pub usage_part: Option<f64>,
    /// What siblings are compared by.
    pub value: Option<f64>,
}

/// One level on the way from the root to an association.
#[derive(Clone, Debug, PartialEq)]
pub struct LevelShown {
    /// The node itself.
    pub node: Sibling,
    /// Whether most is lost here.
    pub is_worst: bool,
    /// At which usage its part of it is its part of the shares.
    pub even_usage: Option<f64>,
    /// When it is back there, if it rests and the others go on.
    pub even_at: Option<f64>,
    /// Who competes with it, the most deserving first.
    pub siblings: Vec<Sibling>,
    /// How many there are that may be seen.
    pub siblings_total: usize,
}

/// Where an association stands.
#[derive(Clone, Debug, PartialEq)]
pub struct AssociationStanding {
    /// What is configured for it.
    pub association: Association,
    /// Whether it is the user's default.
    pub is_default: bool,
    /// Whether a push removed it; live jobs still count in it.
    pub is_removed: bool,
    /// The fair-share by which its jobs are priced.
    pub fairshare: Option<f64>,
    /// What it has used as of now.
    pub usage: Option<f64>,
    /// Active jobs.
    pub active_jobs: u64,
    /// Jobs that limits hold.
    pub held: usize,
    /// Jobs with a price.
    pub pending: usize,
    /// Running jobs, and the nodes and cores that they were given. Jobs that share a node count it each.
    pub running: [u64; 3],
    /// Its limits.
    pub limits: Vec<LimitShown>,
    /// Its rank, if it has one.
    pub rank: Option<RankShown>,
    /// The way from the root to it.
    pub levels: Vec<LevelShown>,
}

/// The siblings of a node that may be seen, without itself, and how many there are. Of very many users those around it.
fn visible(tree: &Tree, node: NodeId, with_users: bool) -> (Vec<NodeId>, usize) {
    let Some(parent) = tree.parent(node) else { return (Vec::new(), 0) };
    let is_shown = |other: &NodeId| *other != node && (with_users || tree.kind(*other) == NodeKind::Bank);
    let total = tree.children(parent).filter(is_shown).count();
    let before =
        tree.children(parent).filter(is_shown).take_while(|other| other.index() < node.index()).count();
    let skipped = before.saturating_sub(MOST_COMPARED / 2);
    (tree.children(parent).filter(is_shown).skip(skipped).take(MOST_COMPARED).collect(), total)
}

/// A page of associations.
pub fn standings(view: &View<'_>, wanted: &StandingsWanted, now: f64) -> StandingsPage {
    let is_bank = |record: &Association| wanted.bank.as_ref().is_none_or(|bank| record.bank.as_str() == bank);
    let after = wanted.after.as_ref().map(|(user, bank)| (*user, bank.as_str()));
    let comes = |record: &Association| after.is_none_or(|after| (record.user, record.bank.as_str()) > after);
    let mut page = StandingsPage::default();
    let (mut siblings, mut limits) = (0, 0);
    let mut add = |id, record: &Association| {
        let is_full = siblings > MOST_SIBLINGS_OF_PAGE || limits > MOST_LIMITS_OF_PAGE;
        if page.associations.len() == wanted.most || is_full {
            page.next = page
                .associations
                .last()
                .map(|it: &AssociationStanding| (it.association.user, it.association.bank.clone()));
            return false;
        }
        let standing = standing_of(view, id, record, wanted.open, now);
        siblings += standing.levels.iter().map(|level| level.siblings.len()).sum::<usize>();
        limits += standing.limits.len();
        page.associations.push(standing);
        true
    };
    match wanted.user {
        Some(user) => {
            let has_jobs = |id| view.ledger.usage(id).is_some_and(|usage| usage.active_jobs > 0);
            let shown = |id| view.book.is_in_force(id) || has_jobs(id);
            let mut own =
                view.book.all_of(user).filter(|(id, record)| is_bank(record) && comes(record) && shown(*id));
            while own.next().is_some_and(|(id, record)| add(id, record)) {}
        }
        None => {
            let mut all = view.book.associations(after).filter(|(_, record)| is_bank(record));
            while all.next().is_some_and(|(id, record)| add(id, record)) {}
        }
    }
    page
}

fn standing_of(
    view: &View<'_>,
    id: AssociationId,
    record: &Association,
    open: Open,
    now: f64,
) -> AssociationStanding {
    let index = view.standing.find(record.user, &record.bank);
    let usage = view.ledger.usage(id);
    let run = usage.map(|usage| usage.total.charged.given).unwrap_or_default();
    let node = index.and_then(|index| view.standing.node(index)).filter(|_| view.is_live());
    AssociationStanding {
        association: record.clone(),
        is_default: view.book.default_bank(record.user) == Some(&record.bank),
        is_removed: !view.book.is_in_force(id),
        fairshare: view.fairshare(id),
        usage: index.and_then(|index| view.standing.usage(index, now)),
        active_jobs: usage.map_or(0, |usage| usage.active_jobs),
        held: view.ledger.held_count(id),
        pending: view.posted.pending_count(id),
        running: [run.jobs(), run.nodes(), run.cores()],
        limits: limits_of(view, id, record, open),
        rank: node.and_then(|node| rank_of(view, node)),
        levels: node.map(|node| levels(view, node, open, now)).unwrap_or_default(),
    }
}

fn limits_of(view: &View<'_>, id: AssociationId, record: &Association, open: Open) -> Vec<LimitShown> {
    let mut shown = vec![LimitShown {
        limit: "max-active-jobs",
        target: None,
        queue: None,
        measure: "jobs",
        stage: "active",
        used: Some(view.ledger.usage(id).map_or(0, |usage| usage.active_jobs)),
        reserved: Some(0),
        cap: record.max_active_jobs.at_most(),
    }];
    let show = |pressure: &Holding, queue: Option<&QueueName>| LimitShown {
        limit: pressure.hold.name(),
        target: None,
        queue: queue.cloned(),
        measure: pressure.amount.measure.name(),
        stage: pressure.amount.stage.which(),
        used: Some(pressure.used.saturating_sub(pressure.reserved)),
        reserved: Some(pressure.reserved),
        cap: pressure.limit.at_most(),
    };
    let own = view.ledger.pressures(&view.book, id, None);
    shown.extend(own.iter().filter(|it| it.queue.is_none()).map(|it| show(it, None)));
    let used = view.ledger.usage(id).into_iter().flat_map(|usage| usage.queues().map(|(name, _)| name));
    let mut queues: Vec<&QueueName> = record.queues.iter().chain(used).collect();
    queues.sort_unstable();
    queues.dedup();
    for queue in queues {
        let of_queue = view.ledger.pressures(&view.book, id, Some(queue));
        let is_shown = |it: &LimitShown| it.cap.is_some() || it.used > Some(0) || it.reserved > Some(0);
        let of_queue = of_queue.iter().filter(|it| it.queue.as_ref() == Some(queue));
        shown.extend(of_queue.map(|it| show(it, Some(queue))).filter(is_shown));
    }
    // What all in a bank have in use is what others use.
    let is_open =
        |target: &Target| open != Open::Own || !matches!(target, Target::Bank(_) | Target::EachBank);
    let over_scopes = view.ledger.scope_usages_on(record.user, &record.bank);
    shown.extend(over_scopes.into_iter().map(|(hold, ScopeUsage { limit, used, reserved })| {
        LimitShown {
            limit: hold.name(),
            used: is_open(&limit.target)
                .then(|| used.unwrap_or_default().saturating_sub(reserved.unwrap_or_default())),
            reserved: reserved.filter(|_| is_open(&limit.target)),
            target: Some(limit.target),
            queue: limit.queue,
            measure: limit.amount.measure.name(),
            stage: limit.amount.stage.which(),
            cap: limit.cap.limit.at_most(),
        }
    }));
    shown
}

pub(in crate::engine) fn rank_of(shared: &Shared, node: NodeId) -> Option<RankShown> {
    let ranking = shared.standing.ranking()?;
    Some(RankShown { place: ranking.place(node)?, of: ranking.ranked(), tied: ranking.tied_with(node) })
}

fn levels(view: &View<'_>, node: NodeId, open: Open, now: f64) -> Vec<LevelShown> {
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
    let plain = |scaled: f64| scale.map_or(scaled, |scale| scale.plain(scaled, now));
    let sibling = |node: NodeId, usage: f64, value: Option<f64>| {
        let shares = tree.shares(node);
        Sibling {
            name: tree.name(node).to_owned(),
            user: view.standing.association(node).and_then(|index| Some(view.standing.key(index)?.0)),
            shares,
            shares_part: match shares {
                Shares::Count(count) if level.sibling_shares > 0.0 => {
                    Some(count as f64 / level.sibling_shares)
                }
                _ => None,
            },
            usage: plain(usage),
            usage_part: (level.sibling_usage > 0.0 && level.depth > 0).then(|| usage / level.sibling_usage),
            value,
        }
    };
    let used = level.detail.usage;
    let even = level.even_usage();
    let half_life = scale.and_then(|scale| scale.half_life().seconds());
    let even_at = even.zip(half_life).filter(|(even, _)| *even < used);
    let even_at = even_at.map(|(even, half_life)| now + (used / even).log2() * half_life);
    let (mut siblings, total) = match open {
        Open::Own => (Vec::new(), 0),
        Open::Banks | Open::All => visible(tree, level.node, open == Open::All),
    };
    siblings.sort_by_cached_key(|node| Reverse(ranking.value(tree, *node).map_or(0, f64::to_bits)));
    siblings.truncate(MOST_SIBLINGS);
    let shown = siblings.iter().map(|node| {
        let ranked = tree.kind(*node) == NodeKind::Bank || ranking.rank(*node).is_some();
        sibling(*node, ranking.usage(tree, *node), ranking.value(tree, *node).filter(|_| ranked))
    });
    LevelShown {
        is_worst,
        even_usage: even.map(plain),
        even_at,
        siblings: shown.collect(),
        siblings_total: total,
        node: sibling(level.node, used, level.value),
    }
}
