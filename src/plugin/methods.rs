// SPDX-License-Identifier: LGPL-3.0-only
//! The table of RPC methods: who may call each, and what answers. To add one, add a row.

use super::reading::Reader;
use super::wire::{self, WireError};
use super::{MfPriority, query};
use crate::engine::Event;
use crate::jobtap::{Method, Reply, Role};
use std::ffi::CStr;

type Row = Method<MfPriority>;

/// A method that is the instance owner's alone.
const fn owners(name: &'static CStr, answer: Answer) -> Row {
    Method { name, role: Role::Owner, answer }
}
