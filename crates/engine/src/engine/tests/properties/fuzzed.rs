// SPDX-License-Identifier: LGPL-3.0-only
//! Random histories as fuzz targets. The fuzzer continues from inputs that brought a job into a new situation.
//!
//! The first word of an input chooses the site, and each other word an operation. Each word is the seed of a random choice, so that a
//! mutation changes whole operations.

use super::super::event_fuzzer::drive::{Rng, fuzz, hash_feature, read_chosen_input, show};
use super::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const WORD: usize = 4;
/// The maximum number of operations of an input. The oracle checks all jobs after each operation, so long inputs are slow.
const MAX_OPS: usize = 120;

/// Generates a value with `word` as the seed.
fn generate_value<T>(word: &[u8], strategy: &impl Strategy<Value = T>) -> T {
    let mut seed = [0; 32];
    seed.iter_mut().zip(word).for_each(|(to, from)| *to = *from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).expect("nothing is filtered out").current()
}

/// Returns the state of a job and the names of its dependencies, as text.
fn describe_state_and_dependencies(job: &HostJob) -> String {
    let names: Vec<&str> =
        job.dependencies.iter().map(|name| name.split(['.', ':']).next().unwrap_or(name)).collect();
    format!("{:?} {} {} {names:?}", job.state, job.lacks_priority, job.is_held_in_sched)
}

fn random_word(rng: &mut Rng) -> [u8; WORD] {
    (rng.next() as u32).to_le_bytes()
}

/// Returns `input` with a change of whole operations: some are removed, repeated, replaced or added, or come from `other`.
fn mutate_input(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
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
    output.truncate(1 + MAX_OPS);
    output.concat()
}

fn make_seed_inputs() -> Vec<Vec<u8>> {
    let one = |seed| {
        let mut rng = Rng::new(seed);
        (0..40).flat_map(|_| random_word(&mut rng)).collect()
    };
    (0..8).map(one).collect()
}

/// Runs one input with `run`. Returns hashes: for each operation, one hash of each change of a job's state, and one
/// hash of the states of all jobs. All hashes include the kind of the operation. The fuzzer keeps an input that gives a
/// new hash.
fn run_input(
    input: &[u8],
    op: impl Strategy<Value = Op>,
    run: impl FnOnce(Site, &[Op], &mut dyn FnMut(&Op, &World)),
) -> Vec<u64> {
    let mut words = input.chunks_exact(WORD);
    let site = generate_value(words.next().unwrap_or_default(), &any_site());
    let ops: Vec<Op> = words.take(MAX_OPS).map(|word| generate_value(word, &op)).collect();
    show(|| format!("{site:#?}"));
    let (mut features, mut before) = (Vec::new(), BTreeMap::<JobId, String>::new());
    run(site, &ops, &mut |op, world| {
        show(|| format!("{op:?}"));
        let after: BTreeMap<JobId, String> =
            world.host.jobs.iter().map(|(id, job)| (*id, describe_state_and_dependencies(job))).collect();
        let moved = after
            .iter()
            .map(|(id, situation)| (before.get(id), situation))
            .filter(|(from, to)| *from != Some(*to));
        features.extend(moved.map(|it| hash_feature((std::mem::discriminant(op), it))));
        let together: BTreeSet<&String> = after.values().collect();
        features.push(hash_feature((std::mem::discriminant(op), together)));
        before = after;
    });
    features
}

#[test]
fn fuzz_histories_without_other_plugins() {
    fuzz("histories", make_seed_inputs(), mutate_input, |input| {
        run_input(input, harmless_op(), |site, ops, observe| run_without_other_plugins(site, ops, observe))
    });
}

#[test]
fn fuzz_histories_with_other_plugins() {
    fuzz("others", make_seed_inputs(), mutate_input, |input| {
        run_input(input, any_op(), |site, ops, observe| run_with_other_plugins(site, ops, observe))
    });
}

/// Runs the input in the file `FUZZ_INPUT`, and prints each operation with `FUZZ_SHOW=1`.
#[test]
#[ignore = "shows the history of one input"]
fn run_history_of_one_input() {
    run_input(&read_chosen_input(), any_op(), |site, ops, observe| {
        run_with_other_plugins(site, ops, observe)
    });
}
