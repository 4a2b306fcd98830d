// SPDX-License-Identifier: LGPL-3.0-only
//! The command line: parses the arguments, runs the subcommand, and turns its outcome into an exit status.
//!
//! | folder or file | contents |
//! |---|---|
//! | `commands` | one file or folder per subcommand: its clap arguments and `run`; `Command` in `mod.rs` lists all of them |
//! | `site` | the tree that a command reads: from an accounting database, a document, or the plugin |
//! | `plugin` | requests to the plugin in the job manager, and its answers |
//! | `ui` | tables, JSON and CSV, pager, colours, columns, progress, wording, hints for typing errors |
//! | `html` | the pages of `report` and `simulate` |
//! | `tui` | the screen of `top` |
//! | `metrics` | the text of `metrics` and its HTTP server |
//! | `outcome.rs` | the outcome of a subcommand, and the exit statuses |
//! | `clock.rs` | the present time, or the time that an option names |
//! | `help.rs` | the list of commands in `--help` |
//! | `fingers.rs` | translates options and values of Slurm, PBS and flux-accounting to those of this command |
//! | `replaced.rs` | replaces a file atomically |
//!
//! `commands` may use all other folders, and none of them uses `commands`. No two files import each other, directly or through others.
#![forbid(unsafe_code)]

mod clock;
mod commands;
mod fingers;
mod help;
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
use clap::{CommandFactory, FromArgMatches, Parser};

use commands::Command;
use outcome::{Answer, EXIT_STATUS, Failure, Outcome};
use ui::messages::{NAME, remark};

/// Fair-share over the flux-accounting database: compute, understand, compare, store, send.
#[derive(Debug, Parser)]
#[command(name = "flux-fairshare", bin_name = "flux fairshare", version, after_help = EXIT_STATUS, after_long_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Runs the subcommand that the process's arguments name.
pub fn main() -> ExitCode {
    run(std::env::args_os().collect())
}

/// Runs the subcommand that `arguments` name. The first argument is the program's name.
pub fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = fingers::translate_arguments(arguments);
    let parsed = definition().try_get_matches_from_mut(&arguments);
    match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => exit_code(commands::run(cli.command, definition)),
        Err(error) => report_parse_error(error, &arguments),
    }
}

/// Returns the definition of the whole command line.
fn definition() -> clap::Command {
    help::with_groups(Cli::command())
}

/// Returns the exit status of `outcome`, after the error message if there is one. A closed pipe on standard output is a success.
fn exit_code(outcome: Outcome) -> ExitCode {
    match outcome {
        Ok(Answer::Yes) => ExitCode::SUCCESS,
        Ok(Answer::No) => ExitCode::from(1),
        Err(Failure::Output(error)) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            remark(&failure);
            ExitCode::from(if matches!(failure, Failure::No(_)) { 1 } else { 2 })
        }
    }
}

/// Prints clap's error in the shape of all errors, with a hint if another system has the command or spells the option differently.
/// Returns the exit status. clap reports `--help` and `--version` as errors too.
fn report_parse_error(mut error: clap::Error, arguments: &[OsString]) -> ExitCode {
    if matches!(error.kind(), Refused::UnknownArgument | Refused::InvalidValue) {
        let option = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::String(option)) => option.clone(),
            _ => String::new(),
        };
        let command = arguments.get(1).and_then(|command| command.to_str());
        if let Some(hint) = fingers::find_hint(command, &option) {
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
        }
    }
    if let Some(ContextValue::String(command)) = error.get(ContextKind::InvalidSubcommand)
        && let Some(hint) = fingers::translate_command(command, arguments)
    {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![hint.into()]));
    }
    // The user requested the help, so a failure to print it is an error. A failure to print a parse error does not change the exit status.
    if !error.use_stderr() {
        return match error.print().and_then(|()| stdout().flush()) {
            Err(failed) => exit_code(Err(Failure::Output(failed))),
            Ok(()) => ExitCode::SUCCESS,
        };
    }
    let text = error.render().ansi().to_string();
    let _ = write!(anstream::stderr(), "{}", text.replacen("error:", &format!("{NAME}:"), 1));
    ExitCode::from(2)
}
