// SPDX-License-Identifier: LGPL-3.0-only
//! The fuzzing loop. It collects inputs that cause new behaviour, and mutates them.
//!
//! A target returns features, which are hashes of its behaviour. An example is the hash of an error text without its numbers. The loop uses
//! features instead of coverage, which only nightly Rust can measure.
//!
//! `FUZZ_SECONDS` sets the duration for each target, and `FUZZ_SEED` repeats a run. A run starts with the files of
//! `t/fuzz/corpus/TARGET/`, which include inputs that failed in the past.

use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A pseudo-random number generator (splitmix64).
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

    /// Returns a number below `n`. `n` must not be 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    /// Returns true with a probability of 1 in `n`.
    pub fn happens_once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A function that returns a changed copy of the first input. It may insert bytes of the second input.
pub type Mutate = fn(&mut Rng, &[u8], &[u8]) -> Vec<u8>;

/// Returns the hash of `what`, which describes how the tested program behaved.
pub fn hash_feature(what: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// Returns the first 120 bytes of a text without digits and quoted values, so that similar messages have the same hash.
#[allow(dead_code, reason = "some programs that include this file do not use it")]
pub fn strip_values(text: &str) -> String {
    let mut stripped = String::new();
    let mut is_quoted = false;
    for c in text.chars().take(300) {
        is_quoted ^= c == '"' || c == '\'';
        if !is_quoted && !c.is_ascii_digit() && stripped.len() < 120 {
            stripped.push(c);
        }
    }
    stripped
}

/// Prints a text if `FUZZ_SHOW` is set.
#[allow(dead_code, reason = "some programs that include this file do not use it")]
pub fn show(text: impl FnOnce() -> String) {
    if std::env::var_os("FUZZ_SHOW").is_some() {
        println!("{}", text());
    }
}

/// Returns the content of the file that `FUZZ_INPUT` names.
#[allow(dead_code, reason = "some programs that include this file do not use it")]
pub fn read_chosen_input() -> Vec<u8> {
    let path = std::env::var_os("FUZZ_INPUT").expect("FUZZ_INPUT names a file");
    std::fs::read(path).expect("cannot read the file that FUZZ_INPUT names")
}

fn parse_variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// Returns the inputs in t/fuzz/corpus for the fuzz test `target`, with the names of their files.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let directory =
        Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/fuzz/corpus").join(target);
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned());
    files.into_iter().filter_map(|path| Some((name(&path)?, std::fs::read(&path).ok()?))).collect()
}

/// Runs the target `run` on the corpus and the seeds, and then on mutated inputs until the time is over. If
/// `run` panics, this function shrinks the input, saves it in the build directory, and panics too.
pub fn fuzz(target: &str, seeds: Vec<Vec<u8>>, mutate: Mutate, mut run: impl FnMut(&[u8]) -> Vec<u64>) {
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
        match catch_unwind(AssertUnwindSafe(|| run(&input))) {
            Ok(found) => {
                let before = known.len();
                known.extend(found);
                // Inputs of 64 KiB or more are not mutated.
                if known.len() > before && input.len() < 1 << 16 {
                    pool.push(input);
                }
            }
            Err(panic) => {
                let input = shrink(input, &mut run);
                let file = save(target, &input);
                let shown: String = String::from_utf8_lossy(&input).chars().take(2000).collect();
                eprintln!(
                    "fuzz {target}: FUZZ_SEED={seed}, execution {executions}, input saved in {}:\n{shown}",
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
    assert!(!pool.is_empty(), "{target}: no seeds");
    while began.elapsed() < Duration::from_secs(seconds) {
        // Half of the time, choose one of the 20 newest inputs, because they were mutated least.
        let at = if rng.happens_once_in(2) {
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

/// Returns the smallest input found in 20 seconds that still makes `run` panic.
fn shrink(mut input: Vec<u8>, run: &mut impl FnMut(&[u8]) -> Vec<u64>) -> Vec<u8> {
    let began = Instant::now();
    let mut chunk = input.len().div_ceil(2);
    while chunk > 0 && began.elapsed() < Duration::from_secs(20) {
        let mut at = 0;
        while at < input.len() {
            let mut shorter = input.clone();
            shorter.drain(at..(at + chunk).min(input.len()));
            if catch_unwind(AssertUnwindSafe(|| run(&shorter))).is_err() {
                input = shorter;
            } else {
                at += chunk;
            }
        }
        chunk = if chunk == 1 { 0 } else { chunk.div_ceil(2) };
    }
    input
}

/// Writes an input that failed to a file, and returns its path.
fn save(target: &str, input: &[u8]) -> PathBuf {
    let directory = option_env!("CARGO_TARGET_TMPDIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("fuzz-{target}-{:016x}", hash_feature(input)));
    let _ = std::fs::write(&path, input);
    path
}

/// Returns `input` with a random change of its bytes.
pub fn mutate_bytes(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
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

/// Reads choices from the bytes of an input. After the last byte, each choice is the first option.
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
