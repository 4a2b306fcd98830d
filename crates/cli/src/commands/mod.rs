// SPDX-License-Identifier: LGPL-3.0-only
//! The subcommands: one file or folder for each, with its clap arguments and `run`.

mod budget;
mod check;
mod check_import;
mod compare;
mod complete;
mod config;
mod credit;
mod diff;
mod doctor;
mod generate;
mod jobs;
mod limit;
mod metrics;
mod migrate;
mod policy;
mod push;
mod recount;
mod report;
mod scrub;
mod show;
mod simulate;
mod standing;
mod status;
mod sync;
#[cfg(test)]
mod tests;
mod top;
mod update;
mod usage;
mod what_if;
pub(crate) mod why;

use clap::Subcommand;

use crate::outcome::Outcome;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Show(show::Args),
    Update(update::Args),
    Policy(policy::Args),
    Limit(limit::Args),
    Budget(budget::Args),
    Credit(credit::Args),
    Push(push::Args),
    Sync(sync::Args),
    Recount(recount::Args),
    Usage(usage::Args),
    Scrub(scrub::Args),
    Compare(compare::Args),
    Report(report::Args),
    // clap's own usage line would list options with a default as required.
    #[command(override_usage = "flux fairshare why [OPTIONS] <JOBID|USER[/BANK]> [JOBID2|USER2[/BANK2]]")]
    Why(why::Args),
    WhatIf(what_if::Args),
    Simulate(simulate::Args),
    Jobs(jobs::Args),
    Standing(standing::Args),
    Top(top::Args),
    Metrics(metrics::Args),
    Status(status::Args),
    Check(check::Args),
    CheckImport(check_import::Args),
    Doctor(doctor::Args),
    Diff(diff::Args),
    Config(config::Args),
    Migrate(migrate::Args),
    Generate(generate::Args),
    Complete(complete::Args),
}

/// Runs the subcommand that the arguments name. `generate` gets the definition of the whole command line.
pub(crate) fn run(command: Command, definition: fn() -> clap::Command) -> Outcome {
    match command {
        Command::Show(args) => show::run(&args),
        Command::Update(args) => update::run(&args),
        Command::Policy(args) => policy::run(&args),
        Command::Limit(args) => limit::run(&args),
        Command::Budget(args) => budget::run(&args),
        Command::Credit(args) => credit::run(&args),
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
        Command::Check(args) => check::run(&args),
        Command::CheckImport(args) => check_import::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Migrate(args) => migrate::run(&args),
        Command::Complete(args) => complete::run(&args),
        Command::Generate(args) => generate::run(&args, definition),
    }
}
