// SPDX-License-Identifier: LGPL-3.0-only
//! The command line: definitions, and the way from an outcome to an exit status.
//!
//! | folder or file | contents |
//! |---|---|
//! | `commands` | one file or folder per subcommand: its clap arguments and `run`; `Command` in `mod.rs` lists all of them |
//! | `site` | the tree that a command reads: from an accounting database, a document, or the plugin |
//! | `plugin` | requests to the plugin in the job manager, and its answers |
//! | `ui` | tables, JSON and CSV, pager, colours, columns, progress, wording, hints for typing errors |
//! | `html` | the pages of `report` and `simulate` |
//! | `tui` | the screen of `top` |
//! | `metrics` | the text of `metrics`, its HTTP server and its textfile |
//! | `outcome.rs` | the outcome of a subcommand, and the exit statuses |
//! | `clock.rs` | the present time, or the time that an option names |
//! | `fingers.rs` | translates options and values of Slurm, PBS and flux-accounting to those of this command |
//! | `replaced.rs` | replaces a file as a whole |
//!
//! `commands` may use all other folders, and none of them uses `commands`. No two files import each other, directly or through others.
#![forbid(unsafe_code)]

mod clock;
mod commands;
mod fingers;
mod html;
mod metrics;
mod outcome;
mod plugin;
mod replaced;
mod site;
#[cfg(test)]
mod tests;
mod tui;
mod ui;

use std::ffi::OsString;
use std::io::{ErrorKind, Write, stdout};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Refused};
use clap::{CommandFactory, Parser};

use commands::Command;
use outcome::{Answer, EXIT_STATUS, Failure, Outcome};
use ui::messages::remark;

/// Fair-share over the flux-accounting database: compute, understand, compare, store, send.
#[derive(Debug, Parser)]
#[command(name = "flux-fairshare", bin_name = "flux fairshare", version, after_help = EXIT_STATUS, after_long_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Runs the command named by the process's arguments.
pub fn main() -> ExitCode {
    run(std::env::args_os().collect())
}

/// Runs the command named by these arguments, of which the first is the program's name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = fingers::understood(arguments);
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => return refused(error, &arguments),
    };
    exit(commands::run(cli.command, Cli::command))
}

fn exit(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            remark(failure);
            ExitCode::from(2)
        }
    }
}

/// Arguments that are not understood; help and version, too, come this way.
fn refused(mut error: clap::Error, arguments: &[OsString]) -> ExitCode {
    if matches!(error.kind(), Refused::UnknownArgument | Refused::InvalidValue) {
        let option = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) => option.clone(),
            _ => String::new(),
        };
        let command = arguments.get(1).and_then(|command| command.to_str());
        if let Some(hint) = fingers::hint(command, &option) {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        }
    }
    // What is asked for, help, must arrive; a complaint need not, and has an exit status of its own.
    match error.print().and_then(|()| stdout().flush()) {
        Err(failed) if !error.use_stderr() => exit(Err(Failure::Output(failed))),
        _ => ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2)),
    }
}
