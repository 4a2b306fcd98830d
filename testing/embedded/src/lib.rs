// SPDX-License-Identifier: LGPL-3.0-only
//! An embedded job manager: loads the .so of a jobtap plugin and acts as its host, with a small cluster in virtual time. The demo and the tests of
//! the C interface use it on machines without Flux.
//!
//! Start at [`Host`]: `load` a plugin, `submit` jobs, `advance` time, `request` its services, `restart`. `host` calls plugins, `event` handles the
//! events of jobs, `ops` and `abi.c` have the functions that a plugin can call.
//!
//! Architecture Invariant: this crate uses the plugin only through its .so, not through its Rust code.

mod abi;
mod active;
mod aux;
mod builtin;
mod cluster;
mod event;
mod fault;
mod host;
mod job;
mod job_list;
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
pub use restart::Order;
pub use service::{Cred, LateAnswer, RequestError};
pub use submit::{Shape, Submission};
