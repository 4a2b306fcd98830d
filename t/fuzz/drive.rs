// SPDX-License-Identifier: LGPL-3.0-only
//! The fuzzing loop, on stable Rust: it keeps inputs with new behaviour and mutates them further.
//!
//! A target returns hashes of its behaviour (texts of refusals without numbers, kinds of effects) instead of the coverage that only
//! nightly Rust could measure. `FUZZ_SECONDS` sets the time of each target, and `FUZZ_SEED` repeats a run. A run starts with the
//! files of `t/fuzz/corpus/TARGET/`, which also has inputs that once failed.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A small random generator (splitmix64).
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A function that changes an input, possibly with parts of a second input.
pub type Mutate = fn(&mut Rng, &[u8], &[u8]) -> Vec<u8>;

/// Returns the hash of an observation.
pub fn seen(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Returns a text without digits and quoted parts.
#[allow(dead_code, reason = "some programs that include this file do not use it")]
pub fn gist(text: &str) -> String {
    let mut gist = String::new();
    let mut quoted = false;
    for c in text.chars().take(300) {
        quoted ^= c == '"' || c == '\'';
        if !quoted && !c.is_ascii_digit() && gist.len() < 120 {
            gist.push(c);
        }
    }
    gist
}

/// Prints a text if `FUZZ_SHOW=1`.
#[allow(dead_code, reason = "some programs that include this file do not use it")]
pub fn show(what: impl FnOnce() -> String) {
    if std::env::var_os("FUZZ_SHOW").is_some() {
        println!("{}", what());
    }
}

/// Returns the content of the file that `FUZZ_INPUT` names.
#[allow(dead_code, reason = "some programs that include this file do not use it")]
pub fn chosen() -> Vec<u8> {
    let path = std::env::var_os("FUZZ_INPUT").expect("FUZZ_INPUT names a file");
    std::fs::read(path).expect("it can be read")
}

fn parse_variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the committed inputs of a target with their names.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    files.into_iter().filter_map(|path| Some((name(&path)?, std::fs::read(&path).ok()?))).collect()
}

/// Runs a target on the corpus and the seeds, and then on mutated inputs until the time is over. If the target panics, it shrinks the input,
/// saves it in the build directory and panics.
pub fn fuzz(target: &str, seeds: Vec<Vec<u8>>, mutate: Mutate, mut one: impl FnMut(&[u8]) -> Vec<u64>) {
    let seconds = parse_variable("FUZZ_SECONDS").unwrap_or(2);
    let seed = parse_variable("FUZZ_SEED").unwrap_or_else(|| {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(1, |since| since.as_nanos() as u64 & 0xffff_ffff)
    });
    let mut rng = Rng::new(seed);
    let mut known = HashSet::new();
    let mut pool: Vec<Vec<u8>> = Vec::new();
    let mut executions = 0u64;
    let mut attempt = |input: Vec<u8>, pool: &mut Vec<Vec<u8>>, executions: u64| {
        match catch_unwind(AssertUnwindSafe(|| one(&input))) {
            Ok(found) => {
                let before = known.len();
                known.extend(found);
                // Small inputs are mutated sooner than large ones.
                if known.len() > before && input.len() < 1 << 16 {
                    pool.push(input);
                }
            }
            Err(panic) => {
                let input = smaller(input, &mut one);
                let file = keep(target, &input);
                let shown: String = String::from_utf8_lossy(&input).chars().take(2000).collect();
                eprintln!(
                    "fuzz {target}: FUZZ_SEED={seed}, execution {executions}, input kept in {}:\n{shown}",
                    file.display()
                );
                std::panic::resume_unwind(panic);
            }
        }
        known.len()
    };
    let began = Instant::now();
    let given = corpus(target).into_iter().map(|(_, input)| input).chain(seeds);
    let mut features = 0;
    for input in given {
        pool.push(input.clone());
        executions += 1;
        features = attempt(input, &mut pool, executions);
    }
    assert!(!pool.is_empty(), "{target}: nothing to begin with");
    while began.elapsed() < Duration::from_secs(seconds) {
        // The newest inputs are the least explored.
        let at = if rng.one_in(2) {
            pool.len() - 1 - rng.below(pool.len().min(20))
        } else {
            rng.below(pool.len())
        };
        let other = rng.below(pool.len());
        let mut input = mutate(&mut rng, &pool[at], &pool[other]);
        for _ in 0..rng.below(4) {
            input = mutate(&mut rng, &input, &pool[other]);
        }
        executions += 1;
        features = attempt(input, &mut pool, executions);
    }
    let took = began.elapsed().as_secs_f64();
    println!("fuzz {target}: FUZZ_SEED={seed}, {executions} executions in {took:.1} s, {features} features");
}

/// Returns a smaller input that still fails, as far as it is found within a time limit.
fn smaller(mut input: Vec<u8>, one: &mut impl FnMut(&[u8]) -> Vec<u64>) -> Vec<u8> {
    let began = Instant::now();
    let mut chunk = input.len().div_ceil(2);
    while chunk > 0 && began.elapsed() < Duration::from_secs(20) {
        let mut at = 0;
        while at < input.len() {
            let mut less = input.clone();
            less.drain(at..(at + chunk).min(input.len()));
            if catch_unwind(AssertUnwindSafe(|| one(&less))).is_err() {
                input = less;
            } else {
                at += chunk;
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    input
}

fn keep(target: &str, input: &[u8]) -> PathBuf {
    let directory = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("fuzz-{target}-{:016x}", seen(input)));
    let _ = std::fs::write(&path, input);
    path
}

/// Changes bytes without regard to their meaning.
pub fn bytes(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    const ODD: [u8; 12] = [0, 1, 0x7f, 0x80, 0xff, b'\n', b'"', b'\\', b'{', b'-', b'9', b','];
    let mut output = input.to_vec();
    if output.is_empty() {
        output.push(rng.next() as u8);
    }
    let at = rng.below(output.len());
    let end = (at + 1 + rng.below(16)).min(output.len());
    match rng.below(9) {
        0 => output[at] ^= 1 << rng.below(8),
        1 => output[at] = *rng.pick(&ODD),
        2 => output[at] = rng.next() as u8,
        3 => drop(output.drain(at..end)),
        4 => output.insert(at, *rng.pick(&ODD)),
        5 => {
            let chunk = output[at..end].to_vec();
            output.splice(at..at, chunk);
        }
        6 if !other.is_empty() => {
            let from = rng.below(other.len());
            let to = (from + 1 + rng.below(64)).min(other.len());
            output.splice(at..end, other[from..to].iter().copied());
        }
        7 => output.truncate(at),
        _ => output.extend((0..=rng.below(16)).map(|_| rng.next() as u8)),
    }
    output.truncate(1 << 18);
    output
}

/// A stream of choices from an input. After its end, each choice is the first one.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    pub fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n
    }

    pub fn pick<T: Clone>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())].clone()
    }
}
