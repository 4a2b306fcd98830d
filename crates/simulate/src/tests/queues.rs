// SPDX-License-Identifier: LGPL-3.0-only
//! Compares mean waits with queueing theory: M/M/1, M/D/1 and M/M/c, first come first served.

use super::{Random, make_host, make_owner_of_trace_job, make_scenario, remove_weights};
use crate::Trace;

const MEAN_RUN: f64 = 100.0;
const BATCHES: usize = 30;
/// Student's t with 29 degrees of freedom for a 99 % confidence interval.
const T99: f64 = 2.756;

/// Returns the mean wait and half the width of its confidence interval, from batch means without the first batch
/// (warm-up).
fn measure_mean_wait(
    cores: u64,
    load: f64,
    jobs: usize,
    seed: u64,
    run: impl Fn(&mut Random) -> f64,
) -> (f64, f64) {
    let mut random = Random(seed + number_from_env("SIMULATE_SEED", 0) as u64);
    let mut trace = Trace::default();
    let mut now = 1e9;
    for _ in 0..jobs {
        now += random.exponential(MEAN_RUN / (load * cores as f64));
        let run = run(&mut random);
        trace.push(make_owner_of_trace_job(1, "a"), now, (run, run), [1, 1, 0]);
    }
    let mut host = make_host(&trace, remove_weights(make_scenario(cores, &[("a", 1)], &[(1, "a", 1)])));
    while host.step() {}
    let waits: Vec<f64> =
        trace.jobs().iter().zip(&host.starts).map(|(job, start)| start - job.submit).collect();
    assert!(waits.iter().all(|wait| (0.0..f64::INFINITY).contains(wait)));
    let size = jobs / (BATCHES + 1);
    let means: Vec<f64> = waits
        .chunks(size)
        .skip(1)
        .take(BATCHES)
        .map(|batch| batch.iter().sum::<f64>() / size as f64)
        .collect();
    let many = BATCHES as f64;
    let mean = means.iter().sum::<f64>() / many;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (many - 1.0);
    (mean, T99 * (variance / many).sqrt())
}

#[track_caller]
fn assert_mean_wait(what: &str, (mean, half): (f64, f64), theory: f64) {
    println!("{what}: mean wait {mean:.2} s +- {half:.2} (99 %), theory {theory:.2}");
    assert!(half < 0.2 * theory, "{what}: {half} says nothing about {theory}");
    assert!((mean - theory).abs() <= half, "{what}: {mean} +- {half}, theory {theory}");
}

/// Reads a number from an environment variable, with which a developer can lengthen the test.
fn number_from_env(variable: &str, otherwise: usize) -> usize {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn job_count() -> usize {
    number_from_env("SIMULATE_JOBS", 31_000)
}

#[test]
fn mean_wait_on_one_core_with_exponential_run_times() {
    for (load, seed) in [(0.5, 1), (0.7, 2)] {
        let found = measure_mean_wait(1, load, job_count(), seed, |random| random.exponential(MEAN_RUN));
        assert_mean_wait(&format!("M/M/1 at {load}"), found, load / (1.0 - load) * MEAN_RUN);
    }
}

#[test]
fn mean_wait_on_one_core_with_equal_run_times() {
    let load = 0.7;
    let found = measure_mean_wait(1, load, job_count(), 3, |_| MEAN_RUN);
    assert_mean_wait("M/D/1 at 0.7", found, load / (2.0 * (1.0 - load)) * MEAN_RUN);
}

#[test]
fn mean_wait_on_four_cores_with_exponential_run_times() {
    let (cores, load) = (4u32, 0.8);
    let found = measure_mean_wait(cores.into(), load, job_count(), 4, |random| random.exponential(MEAN_RUN));
    let offered = f64::from(cores) * load;
    // Erlang's C: the fraction of jobs that have to wait.
    let term = |n: u32| (1..=n).fold(1.0, |term, k| term * offered / f64::from(k));
    let last = term(cores) / (1.0 - load);
    let waits = last / ((0..cores).map(term).sum::<f64>() + last);
    assert_mean_wait("M/M/4 at 0.8", found, waits * MEAN_RUN / (f64::from(cores) * (1.0 - load)));
}
