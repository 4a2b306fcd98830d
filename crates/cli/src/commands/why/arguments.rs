// SPDX-License-Identifier: LGPL-3.0-only
//! The arguments of `why`.

use std::time::Duration;

use crate::plugin::ask::InstanceArg;
use crate::site::input::{Input, PolicyArg, Rules};
use crate::ui::figures::parse_duration;
use crate::ui::screen::ScreenArgs;

/// Explain why a job waits, or a user's or a bank's fair-share, or why one is ahead of another, in words and numbers
///
/// Of a job, which may be named in any form in which Flux writes its id: what its priority is made of, which limits hold it now and
/// until when at the latest, what else keeps it, and what would help. Of two jobs: the term that decides, or the level of the
/// tree. The answers are the plugin's own: everybody may ask for his own jobs, the instance owner for all. Names of users that
/// look like ids are taken for users.
///
/// Of users and banks: the live tree of the plugin is explained where that answers and neither a database nor a document is named;
/// otherwise the database. The first line says which.
///
/// For one: the levels from the root down, where most was lost, who is just ahead, what would change it, and when usage has
/// decayed back to the share. For two: the first bank above both, the two nodes right below it, and which shares and whose
/// usage made the values that decide.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The job; or the user, with /BANK if in several; or a bank
    #[arg(value_name = "JOBID|USER[/BANK]")]
    pub(super) first: String,
    /// The job, the user, or the bank, to compare with
    #[arg(value_name = "JOBID2|USER2[/BANK2]")]
    pub(super) second: Option<String>,
    #[command(flatten)]
    pub(super) input: Input,
    #[command(flatten)]
    pub(super) policy: PolicyArg,
    #[command(flatten)]
    pub(super) rules: Rules,
    /// Show every level of a very deep tree
    #[arg(short, long, help_heading = "Output")]
    pub(super) long: bool,
    /// Print a JSON document
    #[arg(long, help_heading = "Output")]
    pub(super) json: bool,
    /// How fast usage is forgotten, like 7d, where the tree does not say; a database does
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Rules")]
    pub(super) half_life: Option<Duration>,
    #[command(flatten)]
    pub(super) instance: InstanceArg,
    #[command(flatten)]
    pub(super) screen: ScreenArgs,
}
