// SPDX-License-Identifier: LGPL-3.0-only
//! flux-accounting's database, and the pipeline that turns finished jobs into usage and fair-share.
//!
//! `store` reads and writes the database and contains all SQL. `pipeline` fetches finished jobs from Flux, computes
//! usage and fair-share, and stores both in one transaction.
#![forbid(unsafe_code)]

pub mod pipeline;
pub mod store;
