// SPDX-License-Identifier: LGPL-3.0-only
//! The tree that a command reads: from an accounting database, a document, or the plugin.

pub(crate) mod database;
pub(crate) mod document;
pub(crate) mod facts;
pub(crate) mod input;
pub(crate) mod mending;
pub(crate) mod moves;
pub(crate) mod names;
mod tau;
