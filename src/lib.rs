// SPDX-License-Identifier: LGPL-3.0-only
//! Fair-share priorities and limits for the Flux job manager, and the tools around them.
//!
//! Two things are built from this crate. `libmf_priority.so` is loaded into the Flux job manager in place of
//! flux-accounting's priority plugin: it validates jobs, holds those that would exceed a limit, and prices each from the
//! fair-share of its association. `flux-fairshare` is the command for people.
//!
//! ```text
//!   Flux ── callbacks, RPCs ──> jobtap ──> plugin ── Event ──> engine ──> accounts   what is configured
//!    ^                                       |                   |  ├───> limits     live jobs, counters, holds
//!    |                                       |                   |  ├───> standing   usage and fair-share as of now
//!    └──────────── calls ────────────────────┴────── Effects ────┘  └───> priority   factors x weights, and whom to touch
//!
//!   people ──> cli ──> store (database, documents) ──> fairshare (the ranking rules, half-life periods)
//!               ├────> pipeline (fetch, usage, fair-share: one transaction) ──> store, flux, fairshare
//!               ├────> simulate (a cluster in virtual time) ──> engine
//!               └────> flux (RPCs), embedded (a job manager without Flux)
//! ```
//!
//! # Where to start reading
//! `engine/event.rs` and `engine/effect.rs` are the protocol, `engine/step.rs` what the engine goes on with by itself;
//! `limits/job.rs` says what a job counts as; `priority/explanation.rs` says how a priority comes about;
//! `limits/release.rs` is the release rule; `engine/keepers.rs` says what other plugins' dependencies mean for it,
//! `engine/in_priority.rs` how jobs past DEPEND are held;
//! `standing/mod.rs` says how usage accrues while jobs run, `engine/live/mod.rs` how pending jobs follow;
//! `engine/why/mod.rs` says what people are told, `plugin/pace.rs` how fast;
//! `accounts/derived.rs` says how what is derived for associations is joined with them; `plugin/mod.rs` lists what Flux
//! calls, `plugin/remember/mod.rs` says what outlives a restart; `fairshare/mod.rs` explains the rules.
//!
//! # Where to add
//! - a limit whose cap is in the records of associations or queues: a row of `RULES` in `limits/table.rs`; a scope, or what
//!   limits over scopes count: a row of `limits/scopes.rs`;
//! - a factor: a row of `FACTORS` in `priority/factor.rs`, over what `Subject` shows there;
//! - an RPC method: a row of `METHODS` in `plugin/methods.rs`, with who may call it;
//! - a timer: a row of `Timer` in `engine/timer.rs`;
//! - a policy: a file in `fairshare/policy/`, and its name in `fairshare/policy/mod.rs`;
//! - a command: a file in `cli/`, and a line of `Command` in `cli/mod.rs`;
//! - a page for a browser: what is its own, put into the frame of `cli/page/mod.rs`.
//!
//! # Architecture invariants
//! - The core (`ids`, `accounts`, `limits`, `priority`, `fairshare`, `standing`, `engine`) does no I/O, reads no clock, has no
//!   `unsafe` and no panics. Time, ids and text come in as values; what is to be done goes out as values.
//! - No borrow of the engine lives across a call into Flux, because Flux re-enters callbacks.
//! - While Flux asks for every priority, no other job is touched: any look at one makes Flux lose its place among its jobs.
//!   What is due is noted by id in `engine/due.rs`, and worked out when it is done.
//! - While Flux tells its plugins of a configuration, no job is touched: any callback about one makes Flux lose its place among its
//!   plugins, and begin with the first of them again.
//! - Counters are a function of the live jobs: a job changes only through `Ledger::change`, which takes its old
//!   footprint out and puts the new one in. Nothing is counted by how often a callback fired.
//! - No magic values: a job without association is `None`, a limit is a number and nothing else.
//! - Who asks is what Flux vouches for (`jobtap::Caller`), never what a payload says.
//! - The command takes one thing from `plugin`: what it makes of a document, and what it would say to one that is about to be
//!   pushed.
//! - `jobtap` knows no word of the field (no "bank"), the core knows no word of Flux's C interface; only `plugin` sees
//!   both. `embedded` sees only the .so.
//! - There are no statics and no thread-locals of ours: state hangs on the plugin handle and dies with it.
//! - Imports go one way, and nothing passes another room's types on: `.ci/layering` checks it.
//! - What Flux gets as a priority is the last field of what a person is shown: `priority::Explanation`.

#[cfg(not(panic = "unwind"))]
compile_error!("mf_priority must be built with panic=unwind: a panic has to stop at the plugin's boundary");

pub mod accounts;
pub mod engine;
pub mod fairshare;
pub mod ids;
pub mod jobtap;
pub mod limits;
pub mod plugin;
pub mod priority;
pub mod standing;

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod embedded;
#[cfg(feature = "cli")]
pub mod flux;
#[cfg(feature = "cli")]
pub mod pipeline;
#[cfg(feature = "cli")]
pub mod simulate;
#[cfg(feature = "cli")]
pub mod store;
