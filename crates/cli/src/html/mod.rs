// SPDX-License-Identifier: LGPL-3.0-only
//! The pages that `report` and `simulate` write for a browser.
//!
//! `page/` is the frame that both pages share; the other folders hold the body and the script of one page.

pub(crate) mod page;
pub(crate) mod report;
pub(crate) mod simulate;
