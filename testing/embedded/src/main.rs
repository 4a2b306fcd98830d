// SPDX-License-Identifier: LGPL-3.0-only
//! `fairshare-embedded`: runs scenarios in the embedded job manager, and the demo.

mod demo;
mod play;

use clap::Parser;
use std::error::Error;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Run the plugin in a job manager without Flux
#[derive(Debug, Parser)]
#[command(name = "fairshare-embedded")]
enum Command {
    Demo(demo::DemoArgs),
    Run(play::ScenarioArgs),
}

/// The result of a subcommand. The text of an error is for the user. An `io::Error` means that the output can't be written.
type Outcome<T = ()> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Demo(args) => demo::run(&args),
        Command::Run(args) => play::run(&args),
    };
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    if error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    eprintln!("fairshare-embedded: {error}");
    ExitCode::from(2)
}
