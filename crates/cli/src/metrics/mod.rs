// SPDX-License-Identifier: LGPL-3.0-only
//! The metrics of `flux fairshare metrics`: their text and the HTTP server.

pub(crate) mod exposition;
pub(crate) mod families;
pub(crate) mod listen;
#[cfg(test)]
mod tests;
pub(crate) mod window;
