// SPDX-License-Identifier: LGPL-3.0-only
//! The body and the script of the page that `flux fairshare simulate` writes.

pub(crate) const BODY: &str = include_str!("body.html");
pub(crate) const SCRIPT: &str = concat!(
    include_str!("model.js"),
    include_str!("scenarios.js"),
    include_str!("groups.js"),
    include_str!("main.js"),
);
