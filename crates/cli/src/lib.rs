// SPDX-License-Identifier: LGPL-3.0-only
//! The command line: definitions, and the way from an outcome to an exit status.
//!
//! One file per subcommand: its clap arguments and `run`. What was typed becomes a tree in `input.rs`; what is printed goes
//! through the trait in `output.rs`: tables (`table.rs`) as `screen.rs` finds standard output, through `pager.rs`. Man pages and completions come from the same definitions (`generate.rs`).
#![forbid(unsafe_code)]

mod answers;
mod ask;
mod check_import;
mod columns;
mod compare;
mod config;
mod database;
mod doctor;
mod fetch;
mod figures;
mod fingers;
mod generate;
mod input;
mod installed;
mod jobs;
mod limit;
mod live_tree;
mod manual;
mod manual_plugin;
mod mending;
mod metrics;
mod migrate;
mod moves;
mod order;
mod output;
mod page;
mod pager;
mod parts;
mod policy;
mod preview;
mod printable;
mod progress;
mod push;
mod recount;
mod replaced;
mod report;
mod screen;
mod scrub;
mod shells;
mod show;
mod simulate;
mod standing;
mod status;
mod suggest;
mod sync;
mod table;
#[cfg(test)]
mod tests;
mod top;
mod update;
mod usage;
mod watch;
mod what_if;
mod why;
mod words;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, ErrorKind, Write, stderr, stdout};
use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind as Refused};
use clap::{Parser, Subcommand};

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

#[derive(Debug, Subcommand)]
enum Command {
    Show(show::Args),
    Update(update::Args),
    Policy(policy::Args),
    Limit(limit::Args),
    Push(push::Args),
    Sync(sync::Args),
    Recount(recount::Args),
    Usage(usage::Args),
    Scrub(scrub::Args),
    Compare(compare::Args),
    Report(report::Args),
    // Left alone, clap counts options that have a default among those that must be given.
    #[command(override_usage = "flux fairshare why [OPTIONS] <JOBID|USER[/BANK]> [JOBID2|USER2[/BANK2]]")]
    Why(why::Args),
    WhatIf(what_if::Args),
    Simulate(simulate::Args),
    Jobs(jobs::Args),
    Standing(standing::Args),
    Top(top::Args),
    Metrics(metrics::Args),
    Status(status::Args),
    CheckImport(check_import::Args),
    Doctor(doctor::Args),
    Config(config::Args),
    Migrate(migrate::Args),
    Generate(generate::Args),
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
    let outcome = match cli.command {
        Command::Show(args) => show::run(&args),
        Command::Update(args) => update::run(&args),
        Command::Policy(args) => policy::run(&args),
        Command::Limit(args) => limit::run(&args),
        Command::Push(args) => push::run(&args),
        Command::Sync(args) => sync::run(&args),
        Command::Recount(args) => recount::run(&args),
        Command::Usage(args) => usage::run(&args),
        Command::Scrub(args) => scrub::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Why(args) => why::run(&args),
        Command::WhatIf(args) => what_if::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Jobs(args) => jobs::run(&args),
        Command::Standing(args) => standing::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Metrics(args) => metrics::run(&args),
        Command::Status(args) => status::run(&args),
        Command::CheckImport(args) => check_import::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Generate(args) => generate::run(&args),
    };
    exit(outcome)
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
