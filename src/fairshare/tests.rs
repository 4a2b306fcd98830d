// SPDX-License-Identifier: LGPL-3.0-only
//! Published examples, refusals, edge cases and extremes.
mod properties;
mod reference;
