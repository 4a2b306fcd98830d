// SPDX-License-Identifier: LGPL-3.0-only
//! The arguments of `sync`.

use std::time::Duration;

use clap::ValueEnum;

use crate::clock::parse_instant;
use crate::site::database::DatabaseArg;
use crate::site::input::{PolicyArg, Rules, parse_seconds};
use crate::ui::output::OutputArgs;
use fairshare_accounting::pipeline::Rule;

/// Fetch ended jobs, count usage, rank and push, in one step
///
/// Does what "flux account-fetch-job-records", "account-update-usage", "account-update-fshare" and
/// "account-priority-update" do one after the other. Stores everything in one transaction: if sync fails, the database is
/// unchanged. Prints only warnings, unless it runs on a terminal or with --verbose.
#[derive(Debug, clap::Args)]
// In earlier versions, -n was --dry-run. A script that still uses -n must not write, so -n is not the short
// form of --no-header.
#[command(mut_arg("no_header", |header| header.short(None)))]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) database: DatabaseArg,
    /// The Flux instance; by default the enclosing instance or the system instance
    #[arg(long, value_name = "URI", help_heading = "Input")]
    pub(super) uri: Option<String>,
    /// Do only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    pub(super) only: Vec<Step>,
    /// Keep running, and sync when jobs have ended or the database has changed
    ///
    /// Looks for ended jobs every SECONDS (default: 30), and notices a change of the database within two seconds. Continues
    /// after a restart of Flux, and if the database is locked or replaced. SIGHUP syncs and pushes at once; SIGTERM ends it.
    /// Notifies systemd that it is ready and alive, and logs one line per change.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "30",
        value_parser = parse_seconds,
        conflicts_with_all = ["only", "now", "dry_run"]
    )]
    pub(super) watch: Option<Duration>,
    /// The rule that counts usage: exact or flux-accounting
    ///
    /// exact counts each job once, in the half-life period in which it ended, however late its record arrives, and decays all
    /// usage at every period boundary. flux-accounting stores what "flux account-update-usage" would, to the last digit.
    #[arg(long, value_name = "RULE", default_value = "exact", help_heading = "Rules")]
    pub(super) usage_rule: Rule,
    #[command(flatten)]
    pub(super) policy: PolicyArg,
    #[command(flatten)]
    pub(super) rules: Rules,
    /// The current time, in seconds since the epoch; for tests and recounts
    #[arg(long, value_name = "SECONDS", value_parser = parse_instant, help_heading = "Rules")]
    pub(super) now: Option<f64>,
    /// Store and send nothing; show what would change
    #[arg(long, short_alias = 'n')]
    pub(super) dry_run: bool,
    /// With --dry-run: show this many in the table, 0 is all
    #[arg(long, value_name = "NUMBER", default_value_t = 20, help_heading = "Output")]
    pub(super) limit: usize,
    /// Print a summary, even if not on a terminal
    #[arg(short, long, help_heading = "Output")]
    pub(super) verbose: bool,
    #[command(flatten)]
    pub(super) output: OutputArgs,
}

/// A step of sync that --only selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Step {
    /// Bring records of ended jobs into the database
    Fetch,
    /// Count usage
    Usage,
    /// Compute fair-shares
    Fairshare,
    /// Send the database to the plugin
    Push,
}

impl Args {
    pub(super) fn includes(&self, step: Step) -> bool {
        self.only.is_empty() || self.only.contains(&step)
    }

    pub(super) fn stores_results(&self) -> bool {
        [Step::Fetch, Step::Usage, Step::Fairshare].into_iter().any(|step| self.includes(step))
    }
}
