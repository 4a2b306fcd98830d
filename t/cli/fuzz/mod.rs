// SPDX-License-Identifier: LGPL-3.0-only
//! Random hostile input for the command: documents, databases, and records of ended jobs. See `t/fuzz/drive.rs` for the loop.

mod database;
#[path = "../../fuzz/drive.rs"]
mod drive;
mod formats;
#[path = "../../fuzz/json.rs"]
mod json;
mod traces;
