// SPDX-License-Identifier: LGPL-3.0-only
//! An embedded job manager: opens a jobtap plugin's .so and plays the host's side, with a small cluster in virtual
//! time. It serves the demo and the tests of the C interface where no Flux is installed.
//!
//! Start at [`Host`]: `load` a plugin, `submit` jobs, `advance` time, `request` its services, `restart`.
//! `host` calls plugins, `event` is the life of a job, `ops` and `abi.c` are what a plugin can call.
//!
//! Architecture Invariant: this module knows nothing of the plugin's Rust code. It sees the .so only.

mod abi;
mod active;
mod aux;
mod builtin;
mod cluster;
mod configure;
mod event;
mod fault;
mod host;
mod job;
mod kvs;
mod ops;
mod plugin;
mod prioritize;
mod reactor;
mod restart;
mod service;
mod submit;
mod update;

pub use fault::{Fault, is_in_plugin};
pub use host::{Host, LOG_ERR, LogLine, Options};
pub use job::{Errno, Job, State, f58};
pub use plugin::Init;
pub use restart::Order;
pub use service::{Cred, Late, Refused};
pub use submit::{Shape, Submission};
