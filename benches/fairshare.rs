// SPDX-License-Identifier: LGPL-3.0-only
//! Benchmarks of fair-share of large sites: building the tree, ranking it, and ranking it after all usage has changed.
#![allow(missing_docs, clippy::expect_used)] // criterion's macros; a bench that can't start should stop

use fairshare_benches::random::Random;
use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use fairshare::{Builder, Options, Policy, Ranking, Shares};

/// Creates a tree of banks with ten children each, and users in the order of a database: by bank, then by user.
fn build_site(leaves: usize, banks: usize) -> Builder {
    let mut random = Random(leaves as u64);
    let mut builder = Builder::default();
    builder.bank("root", None, Shares::Count(1), None, true);
    for bank in 1..banks {
        let parent = if bank <= 10 { "root".to_owned() } else { format!("bank{:05}", (bank - 1) / 10) };
        let shares = Shares::Count(1 + random.generate_number_below(1000));
        builder.bank(&format!("bank{bank:05}"), Some(&parent), shares, None, true);
    }
    for leaf in 0..leaves {
        let bank = if banks == 1 { "root".to_owned() } else { format!("bank{:05}", 1 + leaf % (banks - 1)) };
        let usage = random.generate_number_below(1_000_000) as f64 / 7.0;
        let shares = Shares::Count(1 + random.generate_number_below(1000));
        builder.association(&format!("user{leaf:07}"), &bank, shares, Some(usage), true);
    }
    builder
}

/// Creates a tree in which each level has one bank and one user.
fn build_chain_of_banks(levels: usize) -> Builder {
    let mut builder = Builder::default();
    builder.bank("bank0", None, Shares::Count(1), None, true);
    for level in 1..levels {
        builder.bank(
            &format!("bank{level}"),
            Some(&format!("bank{}", level - 1)),
            Shares::Count(2),
            None,
            true,
        );
    }
    for level in 0..levels {
        let usage = Some((level % 1000) as f64);
        builder.association(&format!("user{level}"), &format!("bank{level}"), Shares::Count(1), usage, true);
    }
    builder
}

fn bench_sites(criterion: &mut Criterion) {
    let sites = [
        ("100k in 1000 banks", build_site(100_000, 1_000)),
        ("1M in 10000 banks", build_site(1_000_000, 10_000)),
        ("100k in one bank", build_site(100_000, 1)),
        ("1M in one bank", build_site(1_000_000, 1)),
        ("100k levels", build_chain_of_banks(100_000)),
    ];
    for (name, builder) in sites {
        let tree = builder.clone().build().expect("a tree");
        let mut ranking = Ranking::default();
        let mut group = criterion.benchmark_group(name);
        group
            .sample_size(15)
            .warm_up_time(Duration::from_millis(500))
            .measurement_time(Duration::from_secs(3));
        group.throughput(Throughput::Elements(tree.leaves().len() as u64));
        group.bench_function("build", |bencher| {
            bencher.iter_batched(
                || builder.clone(),
                |builder| builder.build().expect("a tree"),
                criterion::BatchSize::PerIteration,
            );
        });
        for policy in Policy::ALL {
            group.bench_with_input(BenchmarkId::new("rank", policy), &policy, |bencher, &policy| {
                bencher.iter(|| {
                    tree.rank_into(policy, &Options::default(), &mut ranking).expect("a ranking");
                    black_box(ranking.order().len())
                });
            });
        }
        group.finish();
    }
}

criterion_group!(benches, bench_sites);
criterion_main!(benches);
