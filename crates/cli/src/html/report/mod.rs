// SPDX-License-Identifier: LGPL-3.0-only
//! The body and the script of the page that `flux fairshare report` writes.

pub(crate) const BODY: &str = include_str!("body.html");
pub(crate) const SCRIPT: &str = concat!(
    include_str!("model.js"),
    include_str!("amounts.js"),
    include_str!("tree.js"),
    include_str!("standings.js"),
    include_str!("policies.js"),
    include_str!("usage.js"),
    include_str!("held.js"),
    include_str!("budgets.js"),
    include_str!("user.js"),
    include_str!("main.js"),
);
