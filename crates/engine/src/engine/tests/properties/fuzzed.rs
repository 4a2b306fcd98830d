// SPDX-License-Identifier: LGPL-3.0-only
//! The same lives as fuzzing targets: a history that brought a job where none had come that way is gone on with.
//!
//! Of an input the first word chooses what the site has, each other word what happens next. A word is the seed of a choice, so
//! that a history is changed by whole steps.

use super::super::event_fuzzer::drive::{Rng, chosen as chosen_input, fuzz, seen, show};
use super::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::{BTreeMap, BTreeSet};

const WORD: usize = 4;
/// So many steps at most, each of which the oracle judges by all jobs.
const MOST: usize = 120;

fn chosen<T>(word: &[u8], strategy: &impl Strategy<Value = T>) -> T {
    let mut seed = [0; 32];
    seed.iter_mut().zip(word).for_each(|(to, from)| *to = *from);
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    strategy.new_tree(&mut runner).expect("nothing is filtered out").current()
}

/// Where a job is, and by which of our limits it is kept there.
fn place(job: &HostJob) -> String {
    let names: Vec<&str> =
        job.dependencies.iter().map(|name| name.split(['.', ':']).next().unwrap_or(name)).collect();
    format!("{:?} {} {} {names:?}", job.state, job.waits, job.is_in_line)
}

fn fresh(rng: &mut Rng) -> [u8; WORD] {
    (rng.next() as u32).to_le_bytes()
}

/// Whole steps left out, repeated, changed, taken from another history.
fn steps(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let words = |bytes: &[u8]| -> Vec<[u8; WORD]> {
        bytes.chunks_exact(WORD).filter_map(|word| word.try_into().ok()).collect()
    };
    let (mut output, other) = (words(input), words(other));
    if output.is_empty() {
        output.push(fresh(rng));
    }
    let at = rng.below(output.len());
    let end = (at + 1 + rng.below(8)).min(output.len());
    match rng.below(6) {
        0 => output[at] = fresh(rng),
        1 => drop(output.drain(at..end)),
        2 => output.insert(at, fresh(rng)),
        3 => {
            let some = output[at..end].to_vec();
            output.splice(at..at, some);
        }
        4 if !other.is_empty() => {
            let from = rng.below(other.len());
            let to = (from + 1 + rng.below(16)).min(other.len());
            output.splice(at..end, other[from..to].iter().copied());
        }
        _ => output.extend((0..=rng.below(16)).map(|_| fresh(rng))),
    }
    output.truncate(1 + MOST);
    output.concat()
}

fn seeds() -> Vec<Vec<u8>> {
    let one = |seed| {
        let mut rng = Rng::new(seed);
        (0..40).flat_map(|_| fresh(&mut rng)).collect()
    };
    (0..8).map(one).collect()
}

/// A life, and what is seen in it: which kind of step brought a job from where to where, and where jobs are at once after it.
fn live(
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
            world.host.jobs.iter().map(|(id, job)| (*id, place(job))).collect();
        let moved =
            after.iter().map(|(id, place)| (before.get(id), place)).filter(|(from, to)| *from != Some(*to));
        features.extend(moved.map(|it| seen((std::mem::discriminant(op), it))));
        let together: BTreeSet<&String> = after.values().collect();
        features.push(seen((std::mem::discriminant(op), together)));
        before = after;
    });
    features
}

#[test]
fn histories_by_ourselves() {
    fuzz("histories", seeds(), steps, |input| {
        live(input, quiet_op(), |site, ops, look| live_by_ourselves(site, ops, look))
    });
}

#[test]
fn histories_among_others() {
    fuzz("others", seeds(), steps, |input| {
        live(input, any_op(), |site, ops, look| live_among_others(site, ops, look))
    });
}

/// `FUZZ_INPUT` names a file to be lived through alone, step by step with `FUZZ_SHOW=1`.
#[test]
#[ignore = "shows the history of one input"]
fn one_history_among_others() {
    live(&chosen_input(), any_op(), |site, ops, look| live_among_others(site, ops, look));
}
