// SPDX-License-Identifier: LGPL-3.0-only
//! The JSON that the plugin accepts: site documents, their parts, and the settings in Flux's configuration.
//!
//! [`records`] describes the records of a document, each with its [`field`]s. [`document`] checks a document or a configuration
//! for the command, without a plugin. [`wire`] reads the payloads of methods that bring data, [`request`] those of other methods,
//! [`settings`] the table `[fairshare]`, [`charges`], [`limits`] and [`tree`] the parts of a document with these names. [`reading`] finds the record and
//! the key of a fault. [`value`] has functions for JSON values.
#![forbid(unsafe_code)]

pub mod charges;
pub mod document;
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
