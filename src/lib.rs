// SPDX-License-Identifier: LGPL-3.0-only
//! The priority plugin `mf_priority.so` for the Flux job manager: it validates jobs, enforces limits, and computes each job's
//! priority from the fair-share of its association. A site loads it in place of flux-accounting's plugin of the same name.
//!
//! This crate adapts Flux to the engine: Flux's callbacks and RPCs become engine events, and the engine's effects
//! become calls to Flux. The other crates of the workspace are in `crates/`. Code that only tests and the demo need is
//! in `testing/`.
//!
//! ```text
//!   Flux ── callbacks, RPCs ──> jobtap ──> plugin ── Event ──> engine ──> accounts   banks, associations, queues, projects
//!    ^                                       |                   |  ├───> limits     live jobs, counters, held jobs
//!    |                                       |                   |  ├───> standing   usage and fair-share at the present time
//!    └──────────── calls ────────────────────┴────── Effects ────┘  └───> priority   factors x weights
//!
//!   people ──> cli ──> accounting (database; fetch, usage, fair-share in one transaction) ──> fairshare (ranking policies)
//!               ├────> import (sites of Slurm and OpenPBS, CSV, JSON) ──> accounting
//!               ├────> protocol (site documents and settings) ──> engine
//!               ├────> simulate (a cluster in virtual time) ──> engine
//!               └────> client (RPCs to a Flux instance)
//! ```
//!
//! | crate | contents |
//! |---|---|
//! | root | the plugin: `jobtap` wraps Flux's C interface, `plugin` joins it to the engine |
//! | `crates/fairshare` | ranking policies, decay and accrual of usage |
//! | `crates/engine` | the decisions of the plugin: accounts, limits, standing, priorities |
//! | `crates/protocol` | the records of a site document, and the JSON that the plugin accepts |
//! | `crates/accounting` | flux-accounting's database, and the usage pipeline |
//! | `crates/import` | sites from other programs' files |
//! | `crates/client` | RPCs through libflux-core, which is loaded when the command runs |
//! | `crates/simulate` | traces of jobs through the engine |
//! | `crates/cli` | the command `flux-fairshare` |
//! | `testing/embedded` | a job manager without Flux that loads the .so, and the demo |
//! | `testing/plugin` | the plugin with injected faults, for tests |
//!
//! # Where to start reading
//! `crates/engine/src/engine/event.rs` and `effect.rs` next to it are the engine's inputs and outputs;
//! `step.rs` lists how the engine continues work that does not fit into one call. In the engine's other
//! modules:
//! - `limits/job.rs`: the amounts of a job that limits count; `limits/release.rs`: the rule by which held
//!   jobs are released;
//! - `priority/explanation.rs`: how a priority is computed;
//! - `engine/mod.rs`: the events, the parts of the engine, and how work continues; `engine/release.rs`: the release scan;
//! - `standing/mod.rs`: how usage accrues while jobs run; `engine/refresh/mod.rs`: how the priorities of
//!   pending jobs are updated;
//! - `engine/blocked.rs`: dependencies of other plugins; `engine/hold.rs`: how limits hold jobs;
//! - `engine/answers/mod.rs`: the answers, each described once.
//!
//! In this crate `plugin/mod.rs` lists the callbacks, and `plugin/events.rs` turns them into events. `plugin/effects.rs` carries out
//! the effects. `plugin/methods.rs` lists the RPC methods, `plugin/pace.rs` limits the time that requests of guests take, and
//! `plugin/snapshot/mod.rs` saves the snapshot. The documentation of the crate `fairshare` explains the ranking policies.
//!
//! # Where to add
//! - a field of associations, queues, banks, projects or weights: the record in
//!   `crates/protocol/src/records/`, by which the field is read, saved, shown and fetched from the database,
//!   and the matching type of the engine in `crates/engine/src/accounts/`;
//! - a limit, a factor, a ranking policy, or a field of an answer: docs/design/README.md lists the steps. For a kind of limit scope,
//!   or a new amount that these limits count, docs/design/limits.md lists the steps;
//! - an RPC method: a file in `plugin/methods/`, and a row of `METHODS` in `plugin/methods.rs` with the role that may call it;
//! - a timer: a row of `Timer` in `engine/timer.rs`;
//! - a command: a file in `crates/cli/src/commands/`, and a row of `Command` in `mod.rs` there;
//! - a page for a browser: its content, put into the frame of `crates/cli/src/html/page/mod.rs`.
//!
//! Three tests in `engine/tests/tables.rs` build an engine with one more limit or factor, and show that the engine needs only a row:
//! `a_new_counted_limit_needs_only_a_row_in_the_limit_table`, `a_new_limit_on_one_job_needs_only_a_row_in_the_limit_table` and
//! `a_new_priority_factor_needs_only_a_row_in_the_factor_table`. `max_wait_behind_is_guaranteed_despite_an_additional_priority_factor`
//! shows that a new factor cannot break the guarantee of `max-wait-behind`.
//!
//! # Architecture invariants
//! - The core (`fairshare`, `engine`) does no I/O, reads no clock, has no `unsafe` code and does not panic. Time, ids and text are
//!   inputs, and every action is an output.
//! - No borrow of the engine is held across a call into Flux, because Flux calls back into the plugin: `plugin/engine.rs`.
//! - While Flux asks for all priorities, the plugin calls Flux about no other job: Flux would lose its position in its
//!   list of jobs. The engine stores the ids in `engine/due.rs` and continues in a later reactor turn.
//! - While Flux passes a new configuration to its plugins, the plugin calls Flux about no job: Flux would lose its position in its
//!   list of plugins and start again with the first.
//! - Counters are a function of the live jobs: a job changes only through `Ledger::change`, which subtracts
//!   its old footprint and adds the new footprint. No counter depends on how often a callback ran.
//! - No magic values: a job without an association is `None`, and a limit is a number and nothing else.
//! - The sender of a request is the user that Flux names (`jobtap::Caller`), never a user that the payload
//!   names.
//! - `jobtap` contains no term of fair-share, the core no term of Flux's C interface. Only `plugin` uses both. `testing/embedded`
//!   uses the .so alone.
//! - The .so has no statics and no thread-locals of its own: all state belongs to the plugin handle and is freed with it.
//! - The priority that Flux gets is the last field of the explanation that users see: `priority::Explanation`.
//!
//! Cargo.toml of each crate says which crates it may use; `.ci/layering` checks the other rules. `.ci/house` prints the figures of the
//! structure, such as the methods of `Engine`, with their limits.

#[cfg(not(panic = "unwind"))]
compile_error!("mf_priority must be built with panic=unwind: a panic has to stop at the plugin's boundary");

pub mod jobtap;
pub mod plugin;
