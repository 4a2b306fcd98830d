// SPDX-License-Identifier: LGPL-3.0-only
//! Measures live fair-share without Flux: the priorities that a refresh posts on a steady site, the longest call with up
//! to 100,000 associations and 50,000 pending jobs, and the bytes of state.
//! `cargo bench --bench live [steady|calls|memory]`
#![allow(clippy::indexing_slicing)] // a benchmark may panic

#[path = "../common/counting.rs"]
mod counting;
mod flux;
mod site;

use counting::allocated_bytes;
use fairshare::Policy;
use fairshare_benches::random::Random;
use fairshare_engine::engine::{Batches, Engine, Event, Settings, Tables, Timer};
use fairshare_engine::ids::{JobId, UserId};
use fairshare_engine::standing::SitePart;
use flux::Flux;
use site::{DAY, PART_SIZE, is_active, make_push};
use std::cmp::Reverse;
use std::collections::HashMap;

const REFRESH: f64 = 30.0;

/// Counts the priorities that a refresh posts. 300 of 1,000 users have 20,000 pending jobs. The site has 3,000 nodes, and
/// 10 jobs end per second.
fn measure_site_under_constant_load() {
    const NODES: usize = 3_000;
    const ENDS: usize = 300;
    const REFRESHES: usize = 20;
    println!(
        "1,000 users, 20,000 pending jobs; 10 jobs end per second; each row has the means of {REFRESHES} refreshes, one every 30 s"
    );
    println!(
        "{:<16} {:>9} {:>6} {:>9} {:>8} {:>7} {:>6} {:>6} {:>9}",
        "policy", "half-life", "depth", "changed", "posted", "ratio", "most", "memos", "lagging"
    );
    for policy in Policy::ALL {
        for (days, depth) in [(7.0, 1_000), (7.0, 200), (1.0, 1_000)] {
            let mut flux = Flux::new();
            let batches = Batches { ordered: depth, ..Batches::default() };
            flux.engine = Engine::with_tables(UserId(u32::MAX - 1), Tables { batches, ..Tables::default() });
            flux.handle_event("settings", Event::Settings(Settings::default()));
            flux.push_site(make_push(1_000, 300, policy, NODES as f64, days * DAY));
            let users: Vec<usize> = (0..1_000).filter(|user| is_active(*user, 1_000, 300)).collect();
            let mut random = Random(11);
            for k in 0..20_000 + NODES {
                flux.submit_job(users[k % users.len()]);
            }
            let mut running: Vec<JobId> = (0..NODES).filter_map(|_| flux.start_first_job()).collect();
            let (mut changed, mut posted, mut most, mut memos) = (0, 0, 0, 0);
            let mut before = HashMap::new();
            // The first refreshes depend on the initial state, so the benchmark does not count them.
            for number in 0..REFRESHES * 2 {
                for _ in 0..ENDS {
                    flux.now += REFRESH / ENDS as f64;
                    let id = running.swap_remove(random.generate_number_below(running.len() as u64) as usize);
                    flux.run_callback(id.0, Event::Inactive(id));
                    flux.submit_job(flux.user_of[&id]);
                    running.extend(flux.start_first_job());
                }
                let (posts, sent_memos) = (flux.posts, flux.memos);
                flux.handle_event("refresh", Event::Timer(Timer::Refresh));
                let after = flux.read_current_priorities();
                if number >= REFRESHES {
                    changed += after
                        .iter()
                        .filter(|(id, priority)| {
                            before.get(*id).is_some_and(|previous| previous != *priority)
                        })
                        .count();
                    posted += flux.posts - posts;
                    most = most.max(flux.posts - posts);
                    memos += flux.memos - sent_memos;
                }
                before = after;
            }
            let lagging = flux.engine.view().get_live_fairshare_details().lagging;
            println!(
                "{:<16} {days:>7} d {depth:>6} {:>9} {:>8} {:>7.1} {most:>6} {:>6} {lagging:>9}",
                policy.name(),
                changed / REFRESHES,
                posted / REFRESHES,
                changed as f64 / posted as f64,
                memos / REFRESHES,
            );
        }
    }
}

/// Prints the longest call of each kind, in milliseconds of processor time.
fn measure_calls() {
    println!(
        "the longest call of each kind, in ms of processor time, in a push in parts of {PART_SIZE} records and 5 refreshes, with 1 running job for each 10 users"
    );
    for (users, pending) in [(1_000, 1_000), (10_000, 10_000), (100_000, 50_000)] {
        for policy in Policy::ALL {
            let mut flux = Flux::new();
            flux.handle_event("settings", Event::Settings(Settings::default()));
            flux.push_site(make_push(users, users, policy, 1e4, 7.0 * DAY));
            for k in 0..pending + users / 10 {
                flux.submit_job(k * 7 % users);
            }
            let running: Vec<JobId> = (0..users / 10).filter_map(|_| flux.start_first_job()).collect();
            flux.longest.clear();
            flux.push_site(make_push(users, users, policy, 1e4, 7.0 * DAY));
            for round in 0..5 {
                flux.now += REFRESH;
                for id in running.iter().skip(round * 100).take(100) {
                    flux.run_callback(id.0, Event::Inactive(*id));
                    flux.start_first_job();
                }
                flux.handle_event("refresh", Event::Timer(Timer::Refresh));
            }
            let columns: Vec<String> = flux
                .longest
                .iter()
                .map(|(kind, longest)| format!("{kind} {:.1}", longest.as_secs_f64() * 1e3))
                .collect();
            println!("{users:>7} users {pending:>6} pending {:<16} {}", policy.name(), columns.join("  "));
        }
    }
}

/// Prints the allocated bytes per association, pending job and running job, with and without live fair-share.
fn measure_memory() {
    const USERS: usize = 100_000;
    const JOBS: usize = 50_000;
    for live in [false, true] {
        let before = allocated_bytes();
        let mut flux = Flux::new();
        let bytes_since = |mark: usize, count: usize| (allocated_bytes() - mark) / count;
        let mut parts = make_push(USERS, USERS, Policy::FairTree, 1e4, 7.0 * DAY);
        if !live {
            parts.iter_mut().for_each(|(_, site)| *site = SitePart::default());
        }
        flux.handle_event("settings", Event::Settings(Settings { live, ..Settings::default() }));
        flux.push_site(parts);
        let association_bytes = bytes_since(before, USERS);
        // Reserve the memory of the model of Flux first, so that the count contains only the engine's memory.
        flux.posted_priorities.reserve(JOBS);
        flux.user_of.reserve(JOBS);
        let mark = allocated_bytes();
        (0..JOBS).for_each(|k| flux.submit_job(k));
        flux.queue.clear();
        let pending_bytes = bytes_since(mark, JOBS);
        let ids: Vec<JobId> = flux.posted_priorities.keys().copied().collect();
        for id in ids {
            flux.queue.insert((Reverse(0), id));
        }
        while flux.start_first_job().is_some() {}
        let running_bytes = bytes_since(mark, JOBS);
        println!(
            "with live fair-share {live}: {association_bytes} bytes per association, {pending_bytes} per pending job, {running_bytes} per running job"
        );
    }
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|name| !name.starts_with('-')).collect();
    let measurements: [(&str, fn()); 3] =
        [("steady", measure_site_under_constant_load), ("calls", measure_calls), ("memory", measure_memory)];
    for (name, measure) in measurements {
        if wanted.is_empty() || wanted.iter().any(|want| want == name) {
            measure();
        }
    }
}
