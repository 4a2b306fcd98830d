// SPDX-License-Identifier: LGPL-3.0-only
//! The site document on which a history is replayed: from a database, from a tree document, or flat, from the users and groups
//! of the history.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::outcome::{Result, failure};
use crate::site::input::{Loaded, Rules};
use crate::ui::printable::count;
use fairshare::{NodeId, NodeKind, Policy, Shares, Tree};
use fairshare_accounting::pipeline::budgets;
use fairshare_accounting::store::{ConfigRecord, Database, PolicyData, SitePolicy, TreeRecord};
use fairshare_engine::ids::UserId;
use fairshare_protocol::records::{AssociationRecord, BankRecord, BudgetRecord, QueueRecord, UNLIMITED};
use fairshare_simulate::{Party, Trace};

const ROOT: &str = "root";
/// First user id for users of a document without a numeric name.
const NUMBERED_FROM: i64 = 1_000_000_000;
/// The default half-life in seconds, as in flux-accounting.
const HALF_LIFE: f64 = 604_800.0;

/// Returns the site document of a database.
pub(super) fn from_database(database: &mut Database, rules: &Rules, now: f64) -> Result<PolicyData> {
    let snapshot = database.snapshot()?;
    let mut data = snapshot.policy_data(now)?;
    // Spent amounts are not simulated, so the notes about them do not matter.
    budgets::add_to_push(&snapshot, &mut data, now).map_err(failure)?;
    let options = rules.over(snapshot.site_policy()?)?;
    let Some(tree) = &mut data.tree else {
        return Err(failure("the banks and associations of the database do not form a tree"));
    };
    tree.options = options.settings().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(data)
}

/// Returns shares for nodes with Slurm's `fairshare=parent`, which Flux lacks (see docs/migrate.md). A bank gets the sum of the
/// shares right below it, so that each child keeps its fraction of the shares. A user gets the largest shares of a user in the bank, or 1
/// if no user has shares.
pub(super) fn replace_parent_shares(tree: &Tree) -> HashMap<NodeId, u64> {
    let mut most: HashMap<NodeId, u64> = HashMap::new();
    for leaf in tree.leaves() {
        if let (Shares::Count(shares @ 1..), Some(bank)) = (tree.shares(leaf), tree.parent(leaf)) {
            let most = most.entry(bank).or_insert(shares);
            *most = shares.max(*most);
        }
    }
    let mut replaced = HashMap::new();
    let mut below: HashMap<NodeId, u64> = HashMap::new();
    // A bank comes before its children, so in reverse order the sum of the children is complete.
    for (node, _) in tree.list_nodes_in_input_order().into_iter().rev() {
        let shares = match (tree.shares(node), tree.kind(node)) {
            (Shares::Count(shares), _) => shares,
            (Shares::Parent, NodeKind::Bank) => below.get(&node).copied().unwrap_or(0),
            (Shares::Parent, NodeKind::Association) => {
                tree.parent(node).and_then(|bank| most.get(&bank)).copied().unwrap_or(1)
            }
        };
        if tree.shares(node) == Shares::Parent {
            replaced.insert(node, shares);
        }
        if let Some(bank) = tree.parent(node) {
            let sum = below.entry(bank).or_default();
            *sum = sum.saturating_add(shares);
        }
    }
    replaced
}

/// Returns the site document of a tree document, without limits. Usage is charged by cores. `is_chosen` is true if --policy is given.
pub(super) fn from_document(loaded: &Loaded, is_chosen: bool) -> Result<PolicyData> {
    let tree = &loaded.tree;
    let policy = if is_chosen { loaded.policy } else { loaded.require_policy()? };
    let mut data = make_empty_site(&SitePolicy { policy, options: loaded.options });
    let replaced = replace_parent_shares(tree);
    let shares = |node| match tree.shares(node) {
        Shares::Count(shares) => shares,
        Shares::Parent => replaced.get(&node).copied().unwrap_or(1),
    };
    let mut uids: HashMap<&str, i64> = HashMap::new();
    let mut homes: HashMap<&str, &str> = HashMap::new();
    for (node, _) in tree.list_nodes_in_input_order() {
        let name = tree.name(node);
        let bank = tree.parent(node).map(|parent| tree.name(parent)).unwrap_or_default();
        if tree.kind(node) == NodeKind::Bank {
            data.banks.push(bank_record(name, bank, shares(node), tree.is_active(node)));
            continue;
        }
        let next = NUMBERED_FROM + uids.len() as i64;
        let uid = *uids.entry(name).or_insert_with(|| parse_user_number(name).unwrap_or(next));
        let home = *homes.entry(name).or_insert(bank);
        let mut record = association_record((uid, name), bank, home, shares(node));
        record.active = i64::from(tree.is_active(node));
        data.associations.push(record);
    }
    if !replaced.is_empty() {
        data.notes.push(format!(
            "{} with fairshare=parent, which Flux does not support; docs/migrate.md describes the shares that the simulation uses instead",
            count(replaced.len(), "association")
        ));
    }
    Ok(data)
}

/// Returns the number in `17` or `user17`, which is the user's number in a trace. Returns `None` for any other name.
fn parse_user_number(name: &str) -> Option<i64> {
    let digits = name.strip_prefix("user").unwrap_or(name);
    digits.parse().ok().filter(|uid| (0..NUMBERED_FROM).contains(uid))
}

/// Returns a flat site: a bank for each group of the history, and an association for each user of the group, with one share each.
pub(super) fn build_site_from_trace(trace: &Trace, rules: &Rules) -> Result<PolicyData> {
    let mut data =
        make_empty_site(&SitePolicy { options: rules.over(SitePolicy::default())?, ..SitePolicy::default() });
    let mut homes: BTreeMap<UserId, &str> = BTreeMap::new();
    let mut pairs: BTreeSet<(UserId, &str)> = BTreeSet::new();
    for party in trace.parties() {
        homes.entry(party.user).or_insert(party.bank.as_str());
        pairs.insert((party.user, party.bank.as_str()));
    }
    let banks: BTreeSet<&str> = pairs.iter().map(|(_, bank)| *bank).collect();
    let queues: BTreeSet<&str> =
        trace.parties().iter().filter_map(|party| Some(party.queue.as_ref()?.as_str())).collect();
    data.banks.push(bank_record(ROOT, "", 1, true));
    data.banks.extend(banks.into_iter().map(|name| bank_record(name, ROOT, 1, true)));
    let open = queues.iter().copied().collect::<Vec<_>>().join(",");
    data.queues = queues.into_iter().map(QueueRecord::unlimited).collect();
    for (user, bank) in pairs {
        let name = format!("user{user}");
        let home = homes.get(&user).copied().unwrap_or(bank);
        let record = association_record((i64::from(user.0), &name), bank, home, 1);
        data.associations.push(AssociationRecord { queues: open.clone(), ..record });
    }
    Ok(data)
}

/// Assigns each job to the association that it names, or else to the user's default bank.
pub(super) fn assign_jobs(trace: &mut Trace, data: &PolicyData) {
    let known: HashSet<(i64, &str)> =
        data.associations.iter().map(|record| (record.userid, record.bank.as_str())).collect();
    let homes: HashMap<i64, &str> =
        data.associations.iter().map(|record| (record.userid, record.def_bank.as_str())).collect();
    trace.replace_users_banks_and_queues(|party: &Party| {
        let user = i64::from(party.user.0);
        let is_known = known.contains(&(user, party.bank.as_str()));
        let home = homes.get(&user).filter(|_| !is_known).map(|bank| (*bank).into());
        Party { bank: home.unwrap_or_else(|| party.bank.clone()), ..party.clone() }
    });
}

/// Returns a note for each budget whose last window ends before or at `begin`, the time of the first submission.
pub(super) fn list_expired_budgets(budgets: &[BudgetRecord], begin: f64) -> impl Iterator<Item = String> {
    let is_same =
        |a: &BudgetRecord, b: &BudgetRecord| (&a.scope, &a.name, a.unit) == (&b.scope, &b.name, b.unit);
    let last_windows = budgets.chunk_by(is_same).filter_map(<[_]>::last);
    last_windows.filter(move |window| window.end as f64 <= begin).map(|BudgetRecord { scope, name, unit, .. }| {
        format!("the budget of {scope} {name} in {unit} ended before the first submission, so it pays for no job")
    })
}

/// Clears all usage, all spent amounts of budgets, and all projects. If the first window of a budget begins after `now`, moves
/// its beginning to `now`, which is the beginning of the history. Projects do not affect priorities, limits or usage.
pub(super) fn clear_usage(data: &mut PolicyData, now: f64) {
    for record in &mut data.associations {
        record.projects = String::new();
        record.def_project = String::new();
        if record.username.is_some() {
            (record.usage, record.counted_until) = (Some(0.0), Some(0.0));
        }
    }
    let mut last_target = None;
    for BudgetRecord { scope, name, unit, start, spent, .. } in &mut data.budgets {
        *spent = 0;
        // The windows of a budget are next to each other, in the order of time.
        let target = Some((scope, name, unit));
        *start = if target == last_target { *start } else { now.min(*start as f64) as i64 };
        last_target = target;
    }
    if let Some(tree) = &mut data.tree {
        tree.at = now;
    }
}

fn make_empty_site(site: &SitePolicy) -> PolicyData {
    let options = site.options.settings().into_iter().map(|(name, value)| (name.to_owned(), value));
    PolicyData {
        tree: Some(TreeRecord {
            policy: site.policy.name().to_owned(),
            options: options.collect(),
            at: 0.0,
            half_life: HALF_LIFE,
            reset: 4.0 * HALF_LIFE,
            node_weight: 0.0,
            core_weight: 1.0,
            gpu_weight: 0.0,
        }),
        // With zero_score = hold, a job with score 0 could wait until the end of the simulation.
        config: ConfigRecord { zero_score: Some("floor".to_owned()), ..ConfigRecord::default() },
        ..PolicyData::default()
    }
}

fn bank_record(name: &str, parent: &str, shares: u64, is_active: bool) -> BankRecord {
    BankRecord {
        bank: name.to_owned(),
        priority: 0.0,
        parent: Some(parent.to_owned()),
        shares: Some(i64::try_from(shares).unwrap_or(i64::MAX)),
        active: Some(is_active.into()),
    }
}

fn association_record((userid, name): (i64, &str), bank: &str, home: &str, shares: u64) -> AssociationRecord {
    AssociationRecord {
        def_bank: home.to_owned(),
        username: Some(name.to_owned()),
        shares: Some(i64::try_from(shares).unwrap_or(i64::MAX)),
        usage: Some(0.0),
        counted_until: Some(0.0),
        ..AssociationRecord::with_limits(userid, bank.to_owned(), UNLIMITED)
    }
}

/// Returns the ranking policy of the site.
pub(super) fn policy(data: &PolicyData) -> Policy {
    data.tree.as_ref().and_then(|tree| tree.policy.parse().ok()).unwrap_or_default()
}
