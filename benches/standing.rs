// SPDX-License-Identifier: LGPL-3.0-only
//! Benchmarks of live fair-share on large sites.
//!
//! They measure times and memory, for example the time of a refresh with many running jobs.
#![allow(missing_docs, clippy::expect_used)] // criterion's macros; a bench that can't start should stop

#[path = "common/counting.rs"]
mod counting;

use counting::allocated_bytes;
use fairshare_benches::random::Random;
use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use fairshare::accrual::{HalfLife, Mode};
use fairshare::periods::{Resources, Weights};
use fairshare::{Options, Policy};
use fairshare_engine::ids::{BankName, JobId, UserId};
use fairshare_engine::priority::order::Bounds;
use fairshare_engine::priority::{Pending, PendingJob};
use fairshare_engine::standing::{
    Bank, Charging, Job, Leaf, Retention, Rule, SitePart, StagedSite, Standing, Watermark,
};

const T0: f64 = 1.7e9;
/// The most jobs and associations that one call of `compute_refresh_slice` handles.
const SLICE: usize = 5_000;

fn bank_name(bank: usize) -> BankName {
    format!("bank{bank:05}").as_str().into()
}

/// Creates a site with one bank per 100 associations. Each bank has ten children.
fn make_site(leaves: usize, policy: Policy) -> SitePart {
    let mut random = Random(leaves as u64);
    let banks = leaves / 100 + 1;
    let bank = |bank: usize| Bank {
        name: bank_name(bank),
        parent: (bank > 0).then(|| bank_name(bank.saturating_sub(1) / 10)),
        shares: 1 + bank as u64 * 7 % 100,
        active: true,
    };
    let associations = (0..leaves).map(|leaf| Leaf {
        user: Some(UserId(leaf as u32)),
        name: format!("u{leaf:06}").into(),
        bank: bank_name(leaf % banks),
        shares: 1 + random.generate_number_below(1_000),
        active: true,
        usage: Some(random.generate_number_below(1_000_000_000) as f64 / 7.0),
        counted: Watermark::default(),
    });
    SitePart {
        rule: Some(Rule {
            instant: T0,
            half_life: HalfLife::new(604_800.0).expect("a half-life"),
            reset: 2_419_200.0,
            weights: Weights::default(),
            policy,
            options: Options::default(),
            replaces_all: false,
        }),
        associations: associations.collect(),
        banks: (0..banks).map(bank).collect(),
        ..SitePart::default()
    }
}

fn push(standing: &mut Standing, site: SitePart) {
    let mut staged = StagedSite::default();
    staged.absorb(site, standing);
    standing.push_staged(staged, Mode::Elapsed).expect("a site");
}

/// Creates a [`Standing`] of the site, in which one of `every` associations has a running job.
fn make_fairshare_state_with_jobs(site: &SitePart, every: usize) -> Standing {
    let mut standing = Standing::new(Retention::default());
    push(&mut standing, site.clone());
    let mut random = Random(7);
    for (id, leaf) in site.associations.iter().step_by(every).enumerate() {
        let ran_on = Resources { nodes: 1 + random.generate_number_below(64), cores: 0, gpus: 0 };
        let Some(user) = leaf.user else { continue };
        let (bank, start) = (leaf.bank.clone(), T0 - random.generate_number_below(86_400) as f64);
        let job = Job { id: JobId(id as u64), user, bank, queue: None, ran_on, start, limit: 0.0 };
        standing.usages.track_start(&job).expect("a job");
    }
    standing.refresh(T0);
    standing
}

fn bench_refreshes(criterion: &mut Criterion) {
    for leaves in [1_000, 10_000, 100_000] {
        let mut group = criterion.benchmark_group(format!("refresh {leaves}"));
        group
            .sample_size(10)
            .warm_up_time(Duration::from_millis(300))
            .measurement_time(Duration::from_secs(1));
        for policy in Policy::ALL {
            let site = make_site(leaves, policy);
            for (what, every) in [("few run", leaves / 100), ("all run", 1)] {
                let mut standing = make_fairshare_state_with_jobs(&site, every);
                let mut now = T0;
                group.bench_function(BenchmarkId::new(what, policy), |bencher| {
                    bencher.iter(|| {
                        now += 30.0;
                        black_box(standing.refresh(now).changed.len())
                    });
                });
                let (longest, changed) = measure_longest_refresh_slice(&mut standing, now);
                println!(
                    "{leaves} {policy}, {what}: longest call {longest:.2?}, {changed} fair-shares changed"
                );
            }
        }
        group.finish();
        print_memory(leaves);
    }
}

/// Returns the time of the longest call in five refreshes, and the number of fair-shares that the last refresh changed.
fn measure_longest_refresh_slice(standing: &mut Standing, mut now: f64) -> (Duration, usize) {
    let (mut longest, mut changed) = (Duration::ZERO, 0);
    let mut time_call = |act: &mut dyn FnMut()| {
        let before = Instant::now();
        act();
        longest = longest.max(before.elapsed());
    };
    for _ in 0..5 {
        now += 30.0;
        time_call(&mut || standing.begin_computation(now));
        let mut refreshed = None;
        while refreshed.is_none() {
            time_call(&mut || refreshed = standing.compute_refresh_slice(SLICE));
        }
        changed = refreshed.map_or(0, |refreshed| refreshed.changed.len());
    }
    (longest, changed)
}

fn print_memory(leaves: usize) {
    let site = make_site(leaves, Policy::FairTree);
    let (before, start) = (allocated_bytes(), Instant::now());
    let mut idle = Standing::new(Retention::default());
    push(&mut idle, site.clone());
    let push = start.elapsed();
    idle.refresh(T0);
    let association_bytes = allocated_bytes() - before;
    drop(idle);
    let before = allocated_bytes();
    let busy = make_fairshare_state_with_jobs(&site, 1);
    let job_bytes = (allocated_bytes() - before).saturating_sub(association_bytes);
    drop(busy);
    println!(
        "{leaves} associations: {} bytes each, {} more if a job runs; the push took {push:.1?}",
        association_bytes / leaves,
        job_bytes / leaves
    );
}

fn bench_posting_order(criterion: &mut Criterion) {
    let bounds = Bounds { depth: 1_000, budget: 2_000, refreshes_stale: false };
    let mut group = criterion.benchmark_group("order 50000");
    group.sample_size(20).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
    for (what, stale_count) in [("none lag", 0), ("400 lag", 400), ("all lag", 50_000)] {
        let mut random = Random(3);
        let mut pending = Pending::default();
        for id in 0..50_000u64 {
            let current = 1 + random.generate_number_below(100_000) as u32;
            let posted = if id < stale_count {
                current + 1 + random.generate_number_below(50) as u32
            } else {
                current
            };
            pending.put(None, PendingJob { id: JobId(id), posted, current, is_incomparable: false }, ());
        }
        let touched = pending.plan(bounds).jobs_to_post.len();
        println!("{what}: {touched} touched");
        group.bench_function(what, |bencher| {
            bencher.iter(|| black_box(pending.plan(bounds).jobs_to_post.len()))
        });
    }
    let mut pending = Pending::default();
    for id in 0..50_000u64 {
        pending.put(None, PendingJob { id: JobId(id), posted: 5, current: 5, is_incomparable: false }, ());
    }
    let mut priority = 5;
    group.bench_function("every exact priority changes", |bencher| {
        bencher.iter(|| {
            priority += 1;
            (0..50_000).for_each(|id| {
                pending.set_current_priority(JobId(id), priority);
            });
        });
    });
}

/// Measures how long it takes to interleave the jobs of users without usage. Each user has two jobs. All users are in one bank, or each
/// user is in a bank of their own.
fn bench_interleaving_of_users(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("turns");
    group.sample_size(10).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(1));
    for (users, banks) in [(5_000, 1), (1_000, 1_000)] {
        let mut idle = make_site(users, Policy::FairTree);
        let bank = |number| Bank {
            name: bank_name(number),
            parent: (number > 0).then(|| bank_name(0)),
            shares: 1,
            active: true,
        };
        idle.banks = (0..=banks).map(bank).collect();
        for (user, leaf) in idle.associations.iter_mut().enumerate() {
            leaf.bank = bank_name(1 + user % banks);
            (leaf.shares, leaf.usage) = (1, None);
        }
        let users_in: Vec<(UserId, BankName)> =
            idle.associations.iter().filter_map(|leaf| Some((leaf.user?, leaf.bank.clone()))).collect();
        let mut standing = Standing::new(Retention::default());
        push(&mut standing, idle);
        standing.refresh(T0);
        let list_costs = || {
            let indices = users_in.iter().filter_map(|(user, bank)| standing.find(*user, bank));
            indices.map(|index| (index, vec![3_600.0; 2])).collect()
        };
        let (mut longest, mut slices) = (Duration::ZERO, 0);
        let mut charging = Charging::new(&standing, list_costs(), T0).expect("a tree");
        loop {
            let start = Instant::now();
            let is_done = charging.charge(&standing, 4_000);
            (longest, slices) = (longest.max(start.elapsed()), slices + 1);
            if is_done {
                break;
            }
        }
        println!("{users} users in {banks} banks: {slices} calls, the longest {longest:.2?}");
        group.bench_function(BenchmarkId::new("users", format!("{users} in {banks} banks")), |bencher| {
            bencher.iter(|| {
                let mut charging = Charging::new(&standing, list_costs(), T0).expect("a tree");
                while !charging.charge(&standing, 4_000) {}
                black_box(&charging);
            });
        });
    }
    group.finish();
}

criterion_group!(benches, bench_refreshes, bench_posting_order, bench_interleaving_of_users);
criterion_main!(benches);
