// SPDX-License-Identifier: LGPL-3.0-only
//! `flux-fairshare`, found by `flux fairshare` on Flux's exec path.

fn main() -> std::process::ExitCode {
    flux_fairshare::main()
}
