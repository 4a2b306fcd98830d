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

/// Defines the subcommands, each with its module. The module has the clap arguments and `run`.
macro_rules! define_commands {
    ($($(#[$attribute:meta])* $name:ident => $module:ident,)*) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum Command {
            $($(#[$attribute])* $name($module::Args),)*
            Generate(generate::Args),
        }

        /// Runs the subcommand that the arguments name. `generate` gets the definition of the whole command line.
        pub(crate) fn run(command: Command, definition: fn() -> clap::Command) -> Outcome {
            match command {
                $(Command::$name(args) => $module::run(&args),)*
                Command::Generate(args) => generate::run(&args, definition),
            }
        }
    };
}

define_commands! {
    Show => show,
    Update => update,
    Policy => policy,
    Limit => limit,
    Budget => budget,
    Credit => credit,
    Push => push,
    Sync => sync,
    Recount => recount,
    Usage => usage,
    Scrub => scrub,
    Compare => compare,
    Report => report,
    // clap's own usage line would list options with a default as required.
    #[command(override_usage = "flux fairshare why [OPTIONS] <JOBID|USER[/BANK]> [JOBID2|USER2[/BANK2]]")]
    Why => why,
    WhatIf => what_if,
    Simulate => simulate,
    Jobs => jobs,
    Standing => standing,
    Top => top,
    Metrics => metrics,
    Status => status,
    Check => check,
    CheckImport => check_import,
    Doctor => doctor,
    Diff => diff,
    Config => config,
    Migrate => migrate,
    Complete => complete,
}
