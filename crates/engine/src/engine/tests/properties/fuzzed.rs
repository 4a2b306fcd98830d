// SPDX-License-Identifier: LGPL-3.0-only
//! Random lives as fuzz targets. The fuzzer continues from inputs that brought a job to a new place.
//!
//! The first word of an input chooses the site, each other word an operation. A word is the seed of a random choice, so the fuzzer
//! changes whole operations.

use super::super::event_fuzzer::drive::{Rng, chosen as chosen_input, fuzz, seen, show};
use super::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const WORD: usize = 4;
/// The number of operations is limited because the oracle checks all jobs after each.
const MOST: usize = 120;

fn chosen<T>(word: &[u8], strategy: &impl Strategy<Value = T>) -> T {
    let mut seed = [0; 32];
    seed.iter_mut().zip(word).for_each(|(to, from)| *to = *from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).expect("nothing is filtered out").current()
}

/// Returns the state of a job and the limits that hold it.
fn job_place(job: &HostJob) -> String {
    let names: Vec<&str> =
        job.dependencies.iter().map(|name| name.split(['.', ':']).next().unwrap_or(name)).collect();
    format!("{:?} {} {} {names:?}", job.state, job.lacks_priority, job.is_held_in_sched)
}

fn random_word(rng: &mut Rng) -> [u8; WORD] {
    (rng.next() as u32).to_le_bytes()
}

/// Changes an input by whole operations: removes, repeats or replaces some, or inserts some of another input.
fn mutate(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let words = |bytes: &[u8]| -> Vec<[u8; WORD]> {
        bytes.chunks_exact(WORD).filter_map(|word| word.try_into().ok()).collect()
    };
    let (mut output, other) = (words(input), words(other));
    if output.is_empty() {
        output.push(random_word(rng));
    }
    let at = rng.below(output.len());
    let end = (at + 1 + rng.below(8)).min(output.len());
    match rng.below(6) {
        0 => output[at] = random_word(rng),
        1 => drop(output.drain(at..end)),
        2 => output.insert(at, random_word(rng)),
        3 => {
            let some = output[at..end].to_vec();
            output.splice(at..at, some);
        }
        4 if !other.is_empty() => {
            let from = rng.below(other.len());
            let to = (from + 1 + rng.below(16)).min(other.len());
            output.splice(at..end, other[from..to].iter().copied());
        }
        _ => output.extend((0..=rng.below(16)).map(|_| random_word(rng))),
    }
    output.truncate(1 + MOST);
    output.concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let one = |seed| {
        let mut rng = Rng::new(seed);
        (0..40).flat_map(|_| random_word(&mut rng)).collect()
    };
    (0..8).map(one).collect()
}

/// Runs one input. Returns the features that were seen: the kind of operation with each job's move, and the jobs' places after it.
fn run_input(
    input: &[u8],
    op: impl Strategy<Value = Op>,
    as_is: impl FnOnce(Site, &[Op], &mut dyn FnMut(&Op, &World)),
) -> Vec<u64> {
    let mut words = input.chunks_exact(WORD);
    let site = chosen(words.next().unwrap_or_default(), &site());
    let ops: Vec<Op> = words.take(MOST).map(|word| chosen(word, &op)).collect();
    show(|| format!("{site:#?}"));
    let (mut features, mut before) = (Vec::new(), BTreeMap::<JobId, String>::new());
    as_is(site, &ops, &mut |op, world| {
        show(|| format!("{op:?}"));
        let after: BTreeMap<JobId, String> =
            world.host.jobs.iter().map(|(id, job)| (*id, job_place(job))).collect();
        let moved = after
            .iter()
            .map(|(id, job_place)| (before.get(id), job_place))
            .filter(|(from, to)| *from != Some(*to));
        features.extend(moved.map(|it| seen((std::mem::discriminant(op), it))));
        let together: BTreeSet<&String> = after.values().collect();
        features.push(seen((std::mem::discriminant(op), together)));
        before = after;
    });
    features
}

#[test]
fn histories_without_other_plugins() {
    fuzz("histories", seeds(), mutate, |input| {
        run_input(input, quiet_op(), |site, ops, look| run_alone(site, ops, look))
    });
}

#[test]
fn histories_with_other_plugins() {
    fuzz("others", seeds(), mutate, |input| {
        run_input(input, any_op(), |site, ops, look| run_among_others(site, ops, look))
    });
}

/// Runs the input in the file `FUZZ_INPUT`, and prints each operation with `FUZZ_SHOW=1`.
#[test]
#[ignore = "shows the history of one input"]
fn history_of_one_input() {
    run_input(&chosen_input(), any_op(), |site, ops, look| run_among_others(site, ops, look));
}
