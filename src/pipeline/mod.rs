// SPDX-License-Identifier: LGPL-3.0-only
//! From ended jobs to fair-shares: what a site runs from time to time, as one transaction.

pub mod fetch;
