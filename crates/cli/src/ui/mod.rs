// SPDX-License-Identifier: LGPL-3.0-only
//! Output: tables, JSON and CSV, the pager, progress, wording of numbers and names, and hints for typing errors.

pub(crate) mod columns;
pub(crate) mod companions;
pub(crate) mod figures;
pub(crate) mod messages;
pub(crate) mod order;
pub(crate) mod output;
pub(crate) mod pager;
pub(crate) mod printable;
pub(crate) mod progress;
pub(crate) mod rows;
pub(crate) mod screen;
pub(crate) mod suggest;
pub(crate) mod table;
pub(crate) mod teller;
pub(crate) mod words;
