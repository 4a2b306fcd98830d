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
//! | `fingers.rs` | options and values of Slurm, PBS and flux-accounting, in the words of this command |
//! | `replaced.rs` | replaces a file as a whole |
//!
//! `commands` may use all other folders, and none of them uses `commands`. No two files import each other, directly or through others.
#![forbid(unsafe_code)]

mod commands;
mod fingers;
mod html;
mod metrics;
mod plugin;
mod replaced;
mod site;
#[cfg(test)]
mod tests;
mod tui;
mod ui;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind as Refused};

use commands::Command;
use ui::printable;

const EXIT_STATUS: &str = "\
Exit status:
  0  done
  1  asked, and the answer is no: there is no such user, bank or job, or it is not for you to see
  2  an error; the message says what, and the database is as it was unless it says that something is stored";

/// Fair-share over the flux-accounting database: compute, understand, compare, store, send.
#[derive(Debug, Parser)]
#[command(name = "flux-fairshare", bin_name = "flux fairshare", version, after_help = EXIT_STATUS, after_long_help = EXIT_STATUS)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// What a subcommand that did not fail came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Yes,
    No,
}

/// Why a subcommand failed; the text is for the user.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Message(String),
    #[error("can't write the output: {0}")]
    Output(#[from] io::Error),
}

type Outcome = Result<Answer, Failure>;

/// Any error whose text says enough.
fn failure(error: impl fmt::Display) -> Failure {
    Failure::Message(error.to_string())
}

/// A failure after all was stored that was to be: it says so, as an exit status can't. A reader who is gone is none.
fn after_storing(failure: impl Into<Failure>) -> Failure {
    match failure.into() {
        Failure::Output(error) if error.kind() == ErrorKind::BrokenPipe => Failure::Output(error),
        failure => Failure::Message(format!("{failure}; what was to be stored is stored")),
    }
}

/// A line on standard output.
fn say(line: impl fmt::Display) -> io::Result<()> {
    writeln!(stdout(), "{line}")
}

/// As much of a line as anybody reads: a name out of a damaged database may be of any length.
fn readable(line: &str) -> String {
    printable::cut(line, 4000, "...")
}

/// A line on standard error, after the command's name. If it can't be written, nobody is there to be told; what the command
/// was asked to do is not the worse for it. Names of others are in it, so no control character gets through.
fn remark(text: impl fmt::Display) {
    let text = text.to_string();
    let lines: Vec<_> = text.lines().map(|line| readable(&printable::printable(line))).collect();
    let _ = writeln!(stderr(), "flux-fairshare: {}", lines.join("\n"));
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
    exit(commands::run(cli.command))
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
