// SPDX-License-Identifier: LGPL-3.0-only
//! The core of the plugin: limits, priorities and fair-share of live jobs. The input is [`engine::Event`]s with their times, and the
//! output is [`engine::Effect`]s.
//!
//! ```text
//!   Event ──> engine ──> accounts   banks, associations, queues, projects: the site's configuration
//!                │  ├───> limits     live jobs, counters, held jobs
//!                │  ├───> standing   usage and fair-share at the present time
//!                │  └───> priority   factors x weights
//!             Effects
//! ```
//!
//! The crate does no I/O, reads no clock, has no `unsafe` code and does not panic.
#![forbid(unsafe_code)]

pub mod accounts;
pub mod budgets;
pub mod engine;
pub mod ids;
#[cfg(test)]
#[path = "../../fairshare/src/accrual/tests/integral.rs"]
mod integral;
pub mod limits;
pub mod priority;
pub mod standing;
