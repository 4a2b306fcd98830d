// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare sync`: fetches ended jobs, counts usage, ranks and pushes in one step.

mod fetch;
mod steps;
pub(super) mod summary;
mod watch;

use std::ffi::OsStr;
use std::io::{IsTerminal, Write, stderr};
use std::time::Duration;

use clap::{Args as _, FromArgMatches, ValueEnum};

use super::push::{self, Push};
use crate::clock::parse_instant;
use crate::outcome::{Answer, Outcome, failure, mark_stored};
use crate::site::database::DatabaseArg;
use crate::site::input::{PolicyArg, Rules, parse_seconds};
use crate::ui::messages::remark;
use crate::ui::output::OutputArgs;
use fairshare_accounting::pipeline::Rule;
use steps::run_sync_steps_in_transaction;
use summary::{print_dry_run, summarize_steps};

/// Syncs `database` at the time `now` with the default options.
pub(super) fn sync_database(database: &DatabaseArg, now: Option<f64>, verbose: bool) -> Outcome {
    let words = [OsStr::new("sync"), OsStr::new("-p"), database.path().as_os_str()];
    let definition = Args::augment_args(clap::Command::new("sync"));
    let matches = definition.try_get_matches_from(words).map_err(failure)?;
    let mut args = Args::from_arg_matches(&matches).map_err(failure)?;
    args.database.wait = database.wait;
    run(&Args { now, verbose, ..args })
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.dry_run && !args.output.is_table() {
        return Err(failure("--json, --csv and --parsable go with --dry-run"));
    }
    if let Some(every) = args.watch {
        return watch::run(args, every);
    }
    let done = run_sync_steps_in_transaction(args, &mut |text| remark(text))?;
    if args.dry_run {
        print_dry_run(args, &done)?;
        return Ok(Answer::Yes);
    }
    let verbose = args.verbose || stderr().is_terminal();
    if verbose {
        // The results are already stored, so a failure to print the summary is ignored.
        let _ = writeln!(stderr(), "{}: {}", args.database.path().display(), summarize_steps(args, &done));
    }
    if args.includes(Step::Push) {
        let push = Push { found: args.database.found(), wait: args.database.wait, uri: args.uri.as_deref() };
        let pushed =
            push::send(&push).map_err(|error| if args.stores_results() { mark_stored(error) } else { error });
        match pushed {
            Ok(pushed) if verbose => {
                let _ = writeln!(stderr(), "{}: {pushed}", args.database.path().display());
            }
            Ok(_) => {}
            Err(error) => {
                done.check_usage_was_counted().unwrap_or_else(remark);
                return Err(error);
            }
        }
    }
    done.check_usage_was_counted()?;
    Ok(Answer::Yes)
}

/// Fetch ended jobs, count usage, rank and push, in one step
///
/// Does what "flux account-fetch-job-records", "account-update-usage", "account-update-fshare" and
/// "account-priority-update" do one after the other. Stores everything in one transaction: if sync fails, the database is
/// unchanged. Prints only warnings, unless it runs on a terminal or with --verbose.
#[derive(Debug, clap::Args)]
// In earlier versions, -n meant --dry-run. If -n meant --no-header now, an old script with -n would change the database.
#[command(mut_arg("no_header", |header| header.short(None)))]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    /// The Flux instance; by default the enclosing instance or the system instance
    #[arg(long, value_name = "URI", help_heading = "Input")]
    uri: Option<String>,
    /// Do only this step; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
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
    watch: Option<Duration>,
    /// The rule that counts usage: exact or flux-accounting
    ///
    /// exact counts each job once, in the half-life period in which it ended, however late its record arrives, and decays all
    /// usage at every period boundary. flux-accounting stores what "flux account-update-usage" would, to the last digit.
    #[arg(long, value_name = "RULE", default_value = "exact", help_heading = "Rules")]
    usage_rule: Rule,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// The current time, in seconds since the epoch; for tests and recounts
    #[arg(long, value_name = "SECONDS", value_parser = parse_instant, help_heading = "Rules")]
    now: Option<f64>,
    /// Store and send nothing; show what would change
    #[arg(long, short_alias = 'n')]
    dry_run: bool,
    /// With --dry-run: show this many in the table, 0 is all
    #[arg(long, value_name = "NUMBER", default_value_t = 20, help_heading = "Output")]
    limit: usize,
    /// Print a summary, even if not on a terminal
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// A step of sync that --only selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
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
    fn includes(&self, step: Step) -> bool {
        self.only.is_empty() || self.only.contains(&step)
    }

    fn stores_results(&self) -> bool {
        [Step::Fetch, Step::Usage, Step::Fairshare].into_iter().any(|step| self.includes(step))
    }
}
