// SPDX-License-Identifier: LGPL-3.0-only
//! The arguments of `why`.

use std::time::Duration;

use crate::plugin::ask::InstanceArg;
use crate::site::input::{Input, PolicyArg, Rules};
use crate::ui::figures::parse_duration;
use crate::ui::screen::ScreenArgs;

/// Explain why a job is waiting, a user's or a bank's fair-share, or why one is ahead of another
///
/// One pending job: its place in its queue, the scheduler's estimate of its start, the terms of its priority, the limits that hold it
/// now and until when at the latest, other reasons why it is waiting, and what would help. A running or ended job: how long it
/// waited, what held it, and its priorities, from its eventlog. Two jobs: the term, or the level of the tree, that decides.
///
/// A job id may have any form that Flux accepts. The plugin answers: users may ask about their own jobs, the instance owner about all
/// jobs. If a text could be a user or a job id, it is a user.
///
/// Users and banks: if the plugin answers and neither a database nor a document is named, this explains the plugin's live tree;
/// otherwise the database. The first line says which.
///
/// One user or bank: the levels from the root down, the level that lowers the fair-share most, the next user or bank ahead, what
/// would change the order, and when usage is back at the share. Two: the first bank above both, the two nodes right below that
/// bank, and the shares and usage that decide.
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
    /// The half-life of usage, like 7d, if the tree has none; a database has one
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, help_heading = "Rules")]
    pub(super) half_life: Option<Duration>,
    #[command(flatten)]
    pub(super) instance: InstanceArg,
    #[command(flatten)]
    pub(super) screen: ScreenArgs,
}
