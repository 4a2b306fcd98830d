// SPDX-License-Identifier: LGPL-3.0-only
//! Compares usages after random histories with a recount: usages that are computed from the records of the same jobs.

use proptest::prelude::*;
use proptest::sample::Index as Pick;

use super::*;
use crate::integral::integral;
use fairshare::{Builder, NodeId, Shares, Tree};

const USERS: [(u32, &str); 5] = [(1, "A"), (2, "A"), (3, "B"), (1, "B"), (4, "AA")];
/// The time at which all jobs have ended.
const END: f64 = T0 + 20.0 * DAY;

#[derive(Clone, Debug)]
struct Record {
    id: u64,
    association: usize,
    nodes: u64,
    cores: u64,
    start: f64,
    end: Option<f64>,
}

impl Record {
    fn job(&self) -> Job {
        let ran_on = Resources { nodes: self.nodes, cores: self.cores, gpus: 0 };
        let (user, bank) = USERS[self.association];
        let id = JobId(self.id);
        Job { id, user: UserId(user), bank: bank.into(), queue: None, ran_on, start: self.start, limit: 0.0 }
    }

    fn report(&self, standing: &mut Standing, reports_start: bool) {
        if reports_start || self.end.is_none() {
            standing.usages.track_start(&self.job()).expect("a job");
        }
        if let Some(end) = self.end {
            standing.usages.track_end(&self.job(), end).expect("an end");
        }
    }

    fn usage(&self, now: f64, half_life: f64, weights: Weights) -> f64 {
        let rate = self.nodes as f64 * weights.node + self.cores as f64 * weights.core;
        let half_life = Some(half_life).filter(|half_life| *half_life > 0.0);
        rate * integral(self.start, self.end.unwrap_or(now).min(now), now, half_life)
    }
}

/// Returns the usage of each association at `now`, computed from the records alone.
fn recount(records: &[Record], now: f64, half_life: f64, weights: Weights) -> [f64; 5] {
    let mut usages = [0.0; 5];
    for record in records {
        usages[record.association] += record.usage(now, half_life, weights);
    }
    usages
}

/// A push whose usage includes, for each association, all jobs that ended no later than one chosen job.
#[derive(Clone, Debug)]
struct GeneratedPush {
    /// For each association, the last job that the pushed usage includes, or `None` if there is no such job.
    last: [Option<Pick>; 5],
    delay: f64,
}

impl GeneratedPush {
    fn site(&self, records: &[Record], half_life: f64, weights: Weights, policy: Policy) -> Site {
        let mut site = site(policy);
        site.banks.push(bank("AA", Some("A"), 3));
        (site.rule.half_life, site.rule.weights) = (HalfLife::new(half_life).expect("a half-life"), weights);
        let last_end = records.iter().filter_map(|record| record.end).fold(T0, f64::max);
        site.rule.instant = last_end + self.delay;
        let remaining = |since: f64| {
            if half_life > 0.0 { 0.5f64.powf((site.rule.instant - since) / half_life) } else { 1.0 }
        };
        site.associations = (0..USERS.len())
            .map(|association| {
                let mut ended: Vec<_> = records
                    .iter()
                    .filter(|record| record.association == association && record.end.is_some())
                    .collect();
                ended.sort_by(|a, b| a.end.partial_cmp(&b.end).expect("numbers"));
                let last = self.last[association]
                    .filter(|_| !ended.is_empty())
                    .map(|last| ended[last.index(ended.len())]);
                // Each association had usage before the first record.
                let mut usage = 1e4 * (association + 1) as f64 * remaining(T0);
                let mut counted = Watermark::default();
                if let Some(last) = last {
                    let end = last.end.expect("ended");
                    let is_covered = |record: &&Record| record.end <= Some(end);
                    let ended_records = records
                        .iter()
                        .filter(|record| record.association == association && record.end.is_some());
                    usage += ended_records
                        .filter(is_covered)
                        .map(|job| job.usage(site.rule.instant, half_life, weights))
                        .sum::<f64>();
                    counted = Watermark::through(end);
                }
                let (user, bank) = USERS[association];
                leaf(user, bank, usage, counted)
            })
            .collect();
        site
    }
}

#[derive(Clone, Debug)]
enum Act {
    Push(GeneratedPush),
    Report(Pick, bool),
    Refresh(f64),
    Restart,
}

fn any_records() -> impl Strategy<Value = Vec<Record>> {
    let start = prop_oneof![(0..10u32).prop_map(|day| f64::from(day) * DAY), 0.0..10.0 * DAY];
    let length = prop::option::weighted(0.8, prop_oneof![Just(DAY), Just(0.0), 0.0..3.0 * DAY]);
    let record = (0..USERS.len(), 1..20u64, 0..64u64, start, length);
    prop::collection::vec(record, 1..24).prop_map(|rows| {
        let numbered = (100u64..).zip(rows);
        numbered
            .map(|(id, (association, nodes, cores, start, length))| {
                let (start, end) = (T0 + start, length.map(|length| T0 + start + length));
                Record { id, association, nodes, cores, start, end }
            })
            .collect()
    })
}

fn any_push() -> impl Strategy<Value = GeneratedPush> {
    let last = prop::array::uniform5(prop::option::of(any::<Pick>()));
    (last, 0.0..2.0 * DAY).prop_map(|(last, delay)| GeneratedPush { last, delay })
}

fn any_actions(restarts: bool) -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        2 => any_push().prop_map(Act::Push),
        8 => (any::<Pick>(), any::<bool>()).prop_map(|(which, reports_start)| Act::Report(which, reports_start)),
        2 => (-1.0..30.0f64).prop_map(|days| Act::Refresh(T0 + days * DAY)),
        u32::from(restarts) => Just(Act::Restart),
    ];
    prop::collection::vec(act, 0..40)
}

fn any_half_life() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), Just(DAY), Just(7.0 * DAY), Just(3_600.0)]
}

/// Checks that the usage of each association equals the recount plus the decayed usage before the first record.
#[track_caller]
fn assert_recounted(standing: &Standing, records: &[Record], now: f64, half_life: f64, weights: Weights) {
    standing.usages.assert_job_positions();
    let expected = recount(records, now, half_life, weights);
    for (association, &(user, bank)) in USERS.iter().enumerate() {
        let decay = if half_life > 0.0 { 0.5f64.powf((now - T0) / half_life) } else { 1.0 };
        let expected = expected[association] + 1e4 * (association + 1) as f64 * decay;
        assert_close(usage(standing, user, bank, now), expected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_history_of_jobs_and_pushes_ends_with_the_recounted_usage(
        records in any_records(), acts in any_actions(true), last in any_push(), order in any::<u64>(), pushes_last in any::<bool>(),
        half_life in any_half_life(), core in prop_oneof![Just(0.0), Just(0.25)],
    ) {
        let weights = Weights { node: 1.0, core, gpu: 0.0 };
        let policy = Policy::ALL[order as usize % 5];
        let mut standing = Standing::new(Retention::default());
        for act in &acts {
            match act {
                Act::Push(pushed) => {
                    standing.push(pushed.site(&records, half_life, weights, policy)).expect("a site");
                }
                Act::Report(which, reports_start) => which.get(&records).report(&mut standing, *reports_start),
                Act::Refresh(now) => { standing.refresh(*now); }
                Act::Restart => standing = Standing::new(Retention::default()),
            }
        }
        // Finally all records are reported, in any order, before or after the last push.
        let site = last.site(&records, half_life, weights, policy);
        if !pushes_last {
            standing.push(site.clone()).expect("a site");
        }
        let mut ordered: Vec<&Record> = records.iter().collect();
        ordered.sort_by_key(|record| (record.id ^ order).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for record in ordered {
            record.report(&mut standing, order % 3 == 0);
        }
        if pushes_last {
            standing.push(site).expect("a site");
        }
        for now in [END, END + 0.5 * DAY] {
            assert_recounted(&standing, &records, now, half_life, weights);
            standing.refresh(now);
            assert_recounted(&standing, &records, now, half_life, weights);
        }
    }

    #[test]
    fn evicting_jobs_does_not_change_usage(
        records in any_records(), acts in any_actions(false), half_life in any_half_life(), each in 0..3usize, core in prop_oneof![Just(0.0), Just(0.25)],
    ) {
        let weights = Weights { node: 1.0, core, gpu: 0.0 };
        let mut standing = Standing::new(Retention { jobs: 0, each });
        standing.usages.keep_all_ended_jobs(true);
        let first = GeneratedPush { last: [None; 5], delay: 0.0 };
        standing.push(first.site(&records, half_life, weights, Policy::FairTree)).expect("a site");
        for record in &records {
            record.report(&mut standing, true);
        }
        standing.usages.keep_all_ended_jobs(false);
        standing.refresh(END - DAY);
        for act in &acts {
            match act {
                Act::Push(pushed) => {
                    standing.push(pushed.site(&records, half_life, weights, Policy::FairTree)).expect("a site");
                }
                Act::Report(which, reports_start) => which.get(&records).report(&mut standing, *reports_start),
                Act::Refresh(now) => { standing.refresh(*now); }
                Act::Restart => {}
            }
            assert_recounted(&standing, &records, END, half_life, weights);
        }
        standing.refresh(END);
        let (_, _, ended_count) = standing.usages.counts();
        prop_assert!(ended_count <= USERS.len() * (2 * each).max(1));
    }

    #[test]
    fn a_refresh_ranks_like_a_tree_of_recounted_usages(
        records in any_records(), pushed in any_push(), half_life in any_half_life(), delays in prop::collection::vec(0.0..4.0 * DAY, 1..4),
        inactive_index in 0..6usize, slice in prop_oneof![Just(1), Just(7), Just(usize::MAX)],
    ) {
        let weights = Weights { node: 1.0, core: 0.25, gpu: 0.0 };
        for policy in Policy::ALL {
            let mut site = pushed.site(&records, half_life, weights, policy);
            if let Some(leaf) = site.associations.get_mut(inactive_index) {
                leaf.active = false;
            }
            let mut standing = Standing::new(Retention::default());
            for record in &records {
                record.report(&mut standing, true);
            }
            standing.push(site.clone()).expect("a site");
            for later in &delays {
                // The clock sometimes jumps back.
                let now = END + later;
                standing.begin_computation(now);
                let refreshed = loop {
                    if let Some(refreshed) = standing.compute_refresh_slice(slice) {
                        break refreshed;
                    }
                };
                prop_assert_eq!(refreshed.now, now);
                let (nodes, tree) = build_tree(&site, &records, now, half_life);
                if depends_on_rounding(&compute_usages(&records, now, half_life, weights)) {
                    continue;
                }
                let ranking = tree.rank(policy, &site.rule.options).expect("a ranking");
                for (association, &(user, bank)) in USERS.iter().enumerate() {
                    let ours = fairshare(&standing, user, bank);
                    let expected = ranking.fairshare(nodes[association]);
                    prop_assert_eq!(ours.is_some(), expected.is_some());
                    let (ours, expected) = (ours.unwrap_or(0.0), expected.unwrap_or(0.0));
                    prop_assert!((ours - expected).abs() < 1e-9, "{policy} {user} {bank}: {ours} {expected}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_refresh_ranks_as_if_the_tree_were_built_from_reported_jobs(
        records in any_records(), acts in prop::collection::vec((any::<Pick>(), any::<bool>(), 0.0..2.0 * DAY), 1..12),
        half_life in any_half_life(), policy in 0..5usize, slice in prop_oneof![Just(1), Just(7), Just(usize::MAX)],
    ) {
        let (weights, policy) = (Weights { node: 1.0, core: 0.25, gpu: 0.0 }, Policy::ALL[policy]);
        let site = GeneratedPush { last: [None; 5], delay: 0.0 }.site(&records, half_life, weights, policy);
        let mut standing = Standing::new(Retention::default());
        standing.push(site.clone()).expect("a site");
        let mut reported: Vec<Record> = Vec::new();
        let mut now = END;
        for (which, reports_start_only, later) in &acts {
            let record = which.get(&records).clone();
            let record = Record { end: record.end.filter(|_| !reports_start_only), ..record };
            record.report(&mut standing, *reports_start_only);
            let position = reported.iter().position(|other| other.id == record.id);
            match position {
                Some(at) if record.end.is_some() => reported[at] = record,
                Some(_) => {}
                None => reported.push(record),
            }
            now += later;
            standing.begin_computation(now);
            while standing.compute_refresh_slice(slice).is_none() {}
            if depends_on_rounding(&compute_usages(&reported, now, half_life, weights)) {
                continue;
            }
            let (nodes, tree) = build_tree(&site, &reported, now, half_life);
            let ranking = tree.rank(policy, &site.rule.options).expect("a ranking");
            for (association, &(user, bank)) in USERS.iter().enumerate() {
                let (ours, expected) = (fairshare(&standing, user, bank), ranking.fairshare(nodes[association]));
                let (ours, expected) = (ours.expect("ranked"), expected.expect("ranked"));
                prop_assert!((ours - expected).abs() < 1e-9, "{policy} {user} {bank}: {ours} {expected}");
            }
        }
    }
}

/// Returns the stored usage of each association, including the usage before the first record. A usage below 1e-9 is 0.
fn compute_usages(records: &[Record], now: f64, half_life: f64, weights: Weights) -> [f64; 5] {
    let decay = if half_life > 0.0 { 0.5f64.powf((now - T0) / half_life) } else { 1.0 };
    let mut usages = recount(records, now, half_life, weights);
    for (association, usage) in usages.iter_mut().enumerate() {
        *usage += 1e4 * (association + 1) as f64 * decay;
        *usage = if *usage < 1e-9 { 0.0 } else { *usage };
    }
    usages
}

/// Returns true if the usages of two siblings are equal except for rounding. A ranking policy may then order these siblings either way.
fn depends_on_rounding(usages: &[f64; 5]) -> bool {
    let [user_1_in_a, user_2_in_a, user_3_in_b, user_1_in_b, user_4_in_aa] = *usages;
    let is_close = |(a, b): (f64, f64)| a > 0.0 && b > 0.0 && (a - b).abs() <= 1e-9 * a.max(b);
    let siblings = [
        (user_1_in_a + user_2_in_a + user_4_in_aa, user_3_in_b + user_1_in_b),
        (user_1_in_a, user_2_in_a),
        (user_1_in_a, user_4_in_aa / 3.0),
        (user_2_in_a, user_4_in_aa / 3.0),
        (user_3_in_b, user_1_in_b),
    ];
    siblings.into_iter().any(is_close)
}

#[test]
fn the_order_of_different_usages_does_not_depend_on_rounding() {
    for usages in [
        [1.0, 2.0, 3.0, 4.0, 5.0],
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.0, 0.0, 3.0, 0.0, 0.0],
        [1.0, 2.0, 4.0, 0.0, 0.0],
    ] {
        assert!(!depends_on_rounding(&usages), "{usages:?}");
    }
    assert!(depends_on_rounding(&[1.0, 1.0 + 1e-12, 3.0, 4.0, 5.0]));
}

/// Builds the tree of `site` with the recounted usages. Returns the nodes of the associations, and the tree.
fn build_tree(site: &Site, records: &[Record], now: f64, half_life: f64) -> ([NodeId; 5], Tree) {
    let mut builder = Builder::default();
    for bank in &site.banks {
        builder.bank(bank.name.as_str(), bank.parent.as_deref(), Shares::Count(bank.shares), None, true);
    }
    let usages = compute_usages(records, now, half_life, site.rule.weights);
    for (usage, leaf) in usages.into_iter().zip(&site.associations) {
        let user = format!("{:010}", leaf.user.unwrap().0);
        builder.association(&user, leaf.bank.as_str(), Shares::Count(leaf.shares), Some(usage), leaf.active);
    }
    let tree = builder.build().expect("a tree");
    let node = |(user, bank): (u32, &str)| tree.leaf(&format!("{user:010}"), bank).expect("a leaf");
    (USERS.map(node), tree)
}
