// SPDX-License-Identifier: LGPL-3.0-only
//! Without jobs, live fair-share must equal the ranking of the command, for each ranking policy on each golden tree.

use std::collections::BTreeSet;

use fairshare::accrual::{HalfLife, Mode};
use fairshare::periods::Weights;
use fairshare::{InactiveUsage, NodeId, Options, Policy, Shares, Ties, Tree};
use fairshare_engine::accounts::{Association, AssociationRecord, SiteRecords};
use fairshare_engine::engine::{Batches, Engine, Event, JobFacts, Settings, State, Tables, Timer};
use fairshare_engine::ids::{BankName, JobId, Limit, UserId};
use fairshare_engine::limits::{Resources, Size};
use fairshare_engine::standing::{
    Bank, Leaf, Retention, Rule, SitePart, StagedSite, Standing, Turns, Watermark,
};

const INSTANT: f64 = 1.7e9;
/// This urgency is above the default. At the default urgency the plugin would hold jobs of users without shares, but OpenPBS runs these
/// jobs.
const URGENCY: i64 = 17;

/// Returns the pushed form of a tree; users get ids in the order of their names.
fn site(tree: &Tree, policy: Policy, options: Options) -> (SitePart, Vec<&str>) {
    let names: Vec<&str> =
        tree.leaves().map(|leaf| tree.name(leaf)).collect::<BTreeSet<_>>().into_iter().collect();
    let in_list_order = |mut nodes: Vec<_>| {
        nodes.sort_by_key(|&node| tree.find_input_index(node));
        nodes
    };
    let bank = |node| Bank {
        name: tree.name(node).into(),
        parent: tree.parent(node).map(|parent| tree.name(parent).into()),
        shares: tree.shares(node).count(),
        active: tree.is_active(node),
    };
    let leaf = |node| Leaf {
        user: Some(UserId(names.binary_search(&tree.name(node)).unwrap() as u32)),
        name: tree.name(node).into(),
        bank: tree.name(tree.parent(node).unwrap()).into(),
        shares: tree.shares(node).count(),
        active: tree.is_active(node),
        usage: tree.own_usage(node),
        counted: Watermark::default(),
    };
    let site = SitePart {
        rule: Some(Rule {
            instant: INSTANT,
            half_life: HalfLife::new(604_800.0).unwrap(),
            reset: 2_419_200.0,
            weights: Weights::default(),
            policy,
            options,
            replaces_all: false,
        }),
        banks: in_list_order(tree.banks().collect()).into_iter().map(bank).collect(),
        associations: in_list_order(tree.leaves().collect()).into_iter().map(leaf).collect(),
        ..SitePart::default()
    };
    (site, names)
}

#[test]
fn live_fair_shares_equal_the_ranking_of_each_golden_tree() {
    let mut compared = 0;
    for (name, tree) in super::golden::trees() {
        // A push contains only numbers of shares, and usages only of associations.
        let has_own_usage = |bank| tree.own_usage(bank).is_some_and(|usage| usage > 0.0);
        if tree.leaves().chain(tree.banks()).any(|node| tree.shares(node) == Shares::Parent)
            || tree.banks().any(has_own_usage)
        {
            continue;
        }
        for policy in Policy::ALL {
            for (ties, inactive_usage) in
                [(Ties::Documented, InactiveUsage::Count), (Ties::SlurmProgram, InactiveUsage::Ignore)]
            {
                let options = Options { ties, inactive_usage, ..Options::default() };
                let (site, names) = site(&tree, policy, options);
                let mut standing = Standing::new(Retention::default());
                let batch = tree.rank(policy, &options).expect(&name);
                let mut staged = StagedSite::default();
                staged.absorb(site, &mut standing);
                standing.push_staged(staged, Mode::Elapsed).expect(&name);
                let mut check = |now: f64, tolerance: f64| {
                    standing.refresh(now);
                    for leaf in tree.leaves() {
                        let user = UserId(names.binary_search(&tree.name(leaf)).unwrap() as u32);
                        let bank = BankName::from(tree.name(tree.parent(leaf).unwrap()));
                        let live = standing.fairshare(standing.find(user, &bank).unwrap());
                        let batch = batch.fairshare(leaf);
                        assert_eq!(live.is_some(), batch.is_some(), "{name} {policy}: {user} {bank}");
                        let off = (live.unwrap_or(0.0) - batch.unwrap_or(0.0)).abs();
                        assert!(off <= tolerance, "{name} {policy}: {user} {bank}: {live:?} {batch:?}");
                        compared += 1;
                    }
                };
                check(INSTANT, 0.0);
                // Decay multiplies all usages by the same factor. So the ranking stays the same at a later time, and after a clock is set
                // back. This is not true for pbs, because pbs adds a constant to the usages.
                if policy != Policy::Pbs {
                    for now in [INSTANT + 3_000.0, INSTANT - 3_600.0] {
                        check(now, 1e-12);
                    }
                }
                check(INSTANT, 0.0);
            }
        }
    }
    assert!(compared > 10_000, "{compared}");
}

/// With interleaving, jobs must have the order in which OpenPBS starts them. OpenPBS charges each started job at once to its entity and to all
/// groups above the entity.
#[test]
fn interleaving_orders_jobs_as_one_openpbs_scheduling_cycle_would() {
    let mut checked = 0;
    for (name, table, tree) in super::golden::pbs_trees() {
        let sequence = &table["cycle_sequence"];
        let Some(picks) = sequence["picks"].as_array() else { continue };
        let cost = sequence["job_cost"].as_f64().unwrap();
        let ranking = tree.rank(Policy::Pbs, &Options::default()).unwrap();
        // In OpenPBS the built-in group is a leaf, but it has no entity and no job.
        let mut turns = Turns::new(&tree, &ranking, tree.leaves().map(|leaf| (leaf, picks.len()))).unwrap();
        for (number, pick) in picks.iter().enumerate() {
            let ours = turns.take(|_| cost).map(|leaf| tree.name(leaf));
            assert_eq!(ours, pick.as_str(), "{name}: pick {number}");
        }
        for (node, usage) in sequence["final_temp_usage"].as_object().unwrap() {
            let known = if node == "TREEROOT" { tree.root() } else { find_node_by_name(&tree, node) };
            if let Some(ours) = turns.usage(known) {
                assert!((ours - usage.as_f64().unwrap()).abs() < 1e-6, "{name}: {node}");
            }
        }
        checked += 1;
    }
    assert!(checked >= 4, "{checked}");
}

fn find_node_by_name(tree: &Tree, name: &str) -> NodeId {
    tree.bank(name).or_else(|| tree.leaves().find(|&leaf| tree.name(leaf) == name)).expect(name)
}

/// For each user, as many jobs are submitted as OpenPBS starts in one scheduling cycle. Sorted by priority and then by id, the jobs must
/// have the order in which OpenPBS starts them.
#[test]
fn interleaved_priorities_give_the_start_order_of_an_openpbs_cycle() {
    let mut checked = 0;
    for (name, table, tree) in super::golden::pbs_trees() {
        let sequence = &table["cycle_sequence"];
        let Some(picks) = sequence["picks"].as_array() else { continue };
        // With the default weights, a node accrues a usage of 1 in each second.
        let duration = sequence["job_cost"].as_f64().unwrap();
        let (site, names) = site(&tree, Policy::Pbs, Options::default());
        let batches = Batches { ordered: 1_000_000, ..Batches::default() };
        let mut engine = Engine::with_tables(UserId(1_000_000), Tables { batches, ..Tables::default() });
        let unlimited = Limit(2_147_483_647);
        let mut users: Vec<(UserId, BankName)> =
            site.associations.iter().map(|leaf| (leaf.user.unwrap(), leaf.bank.clone())).collect();
        users.sort();
        let record = |(user, bank): &(UserId, BankName)| AssociationRecord {
            association: Association {
                user: *user,
                bank: bank.clone(),
                max_running_jobs: unlimited,
                max_active_jobs: unlimited,
                max_sched_jobs: unlimited,
                max_nodes: unlimited,
                max_cores: unlimited,
                queues: [].into(),
                projects: [].into(),
                def_project: None,
                active: true,
            },
            fairshare: 0.5,
            def_bank: bank.clone(),
        };
        let accounts = engine_policy(users.iter().map(record).collect());
        let settings = Settings { interleave: true, ..Settings::default() };
        engine.handle(INSTANT, Event::Settings(settings));
        engine.handle(INSTANT, Event::Policy(accounts, site));
        let mut jobs = Vec::new();
        // Users submit in the order of their names, which decides between equal users.
        for (user, bank) in &users {
            for _ in 0..picks.len() {
                let id = JobId(jobs.len() as u64 + 1);
                let facts = |state| JobFacts {
                    id,
                    user: *user,
                    state,
                    urgency: URGENCY,
                    priority: -1,
                    bank: Some(bank.as_str()),
                    queue: None,
                    project: None,
                    size: Ok(Size::new(1, 1, 0)),
                    submitted: Some(INSTANT),
                    duration,
                    resources: Resources::None,
                };
                engine.handle(INSTANT, Event::Validate(facts(State::New)));
                engine.handle(INSTANT, Event::New(facts(State::New)));
                engine.handle(INSTANT, Event::Depend(id));
                engine.handle(INSTANT, Event::Priority(id, URGENCY));
                engine.handle(INSTANT, Event::Sched(id));
                jobs.push((id, *user));
            }
        }
        engine.handle(INSTANT, Event::Timer(Timer::Refresh));
        for _ in 0..10_000 {
            engine.handle(INSTANT, Event::Timer(Timer::Slice));
        }
        let price = |id: JobId| engine.view().priorities_of(id).unwrap().exact.priority;
        jobs.sort_by_key(|(id, _)| (std::cmp::Reverse(price(*id)), *id));
        for (number, (pick, (id, user))) in picks.iter().zip(&jobs).enumerate() {
            assert_eq!(Some(names[user.0 as usize]), pick.as_str(), "{name}: pick {number} is {id}");
        }
        checked += 1;
    }
    assert!(checked >= 4, "{checked}");
}

/// Returns the pushed data without the tree. The fair-share weight is large, so that a small difference of the fair-shares changes the
/// priority.
fn engine_policy(associations: Vec<AssociationRecord>) -> SiteRecords {
    SiteRecords {
        associations,
        weights: vec![("fairshare".to_owned(), 4_000_000_000)],
        ..SiteRecords::default()
    }
}
