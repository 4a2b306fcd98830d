// SPDX-License-Identifier: LGPL-3.0-only
//! The program `flux-fairshare`, which `flux fairshare` starts from Flux's exec path.

fn main() -> std::process::ExitCode {
    flux_fairshare::main()
}
