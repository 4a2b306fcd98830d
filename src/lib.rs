// SPDX-License-Identifier: LGPL-3.0-only
//! Fair-share priorities and limits for the Flux job manager (`mf_priority.so`), and the tools around them.

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

#[cfg(feature = "cli")]
pub mod cli;
#[cfg(feature = "cli")]
pub mod embedded;
#[cfg(feature = "cli")]
pub mod flux;
#[cfg(feature = "cli")]
pub mod store;
