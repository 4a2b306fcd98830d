// SPDX-License-Identifier: LGPL-3.0-only
//! The engine under a model of Flux: examples of the specification, and random lives of jobs.

mod asked;
mod doubt;
mod examples;
mod host;
mod kept;
mod oracle;
mod promises;
mod properties;
mod refused;
mod rows;
mod site;
mod urgency;
