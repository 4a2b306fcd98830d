// SPDX-License-Identifier: LGPL-3.0-only
//! Requests to the plugin in the job manager and to Flux, and their answers.

pub(crate) mod ask;
pub(crate) mod bank_tree;
pub(crate) mod installed;
pub(crate) mod jobs;
pub(crate) mod live_tree;
pub(crate) mod running;
pub(crate) mod scheduling;
pub(crate) mod standing;
