// SPDX-License-Identifier: LGPL-3.0-only
//! `fairshare-embedded`: runs scenarios in the embedded job manager, and the demo.

mod demo;
mod play;
mod queue;

use clap::Parser;
use std::fmt;
use std::io::{self, ErrorKind};
use std::process::ExitCode;

/// Run the plugin in a job manager without Flux
#[derive(Debug, Parser)]
#[command(name = "fairshare-embedded")]
enum Command {
    Demo(demo::DemoArgs),
    Run(play::ScenarioArgs),
}

/// Reason why a subcommand failed; the text is for the user.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Message(String),
    #[error("can't write the output: {0}")]
    Output(#[from] io::Error),
}

type Outcome = Result<(), Failure>;

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure::Message(text)
    }
}

/// Makes a failure from the text of an error.
fn failure(error: impl fmt::Display) -> Failure {
    Failure::Message(error.to_string())
}

fn main() -> ExitCode {
    let outcome = match Command::parse() {
        Command::Demo(args) => demo::run(&args),
        Command::Run(args) => play::run(&args),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("fairshare-embedded: {failure}");
            ExitCode::from(2)
        }
    }
}
