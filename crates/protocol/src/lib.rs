// SPDX-License-Identifier: LGPL-3.0-only
//! The JSON that the plugin accepts: site documents, their parts, and the settings in Flux's configuration.
//!
//! [`records`] describes the records of a document, including budgets, and their [`field`]s. [`wire`] reads
//! the payloads of methods that push data, and [`request`] reads the payloads of all other methods.
//! [`settings`] reads the table `[fairshare]`. [`charges`], [`limits`] and [`tree`] read the parts of a
//! document with these names. [`reading`] finds the record and the key of a fault. [`value`] has functions
//! for JSON values.
#![forbid(unsafe_code)]

pub mod charges;
pub mod field;
mod interner;
pub mod limits;
pub mod reading;
pub mod records;
pub mod request;
pub mod settings;
mod tree;
pub mod value;
pub mod wire;
