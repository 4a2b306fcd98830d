// SPDX-License-Identifier: LGPL-3.0-only
//! The one Rust test binary. One binary, because the C side of the embedded job manager is linked into it.

mod embedded;
