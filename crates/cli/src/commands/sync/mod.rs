// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare sync`: fetches ended jobs, counts usage, ranks and pushes in one step.

mod arguments;
mod charges;
mod done;
mod fetch;
mod steps;
pub(super) mod summary;
mod watch;

use std::ffi::OsStr;
use std::io::{IsTerminal, Write, stderr};

use clap::{Args as _, FromArgMatches};

use super::push::{self, Push};
use crate::outcome::{Answer, Outcome, after_storing, failure};
use crate::site::database::DatabaseArg;
use crate::ui::messages::remark;
pub(super) use arguments::Args;
use arguments::Step;
use steps::store_all;
use summary::{print_dry_run, summarize_steps};

/// Syncs `database` at the time `now` with the default options.
pub(super) fn run_on(database: &DatabaseArg, now: Option<f64>, verbose: bool) -> Outcome {
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
    let done = store_all(args, &mut |text| remark(text))?;
    if args.dry_run {
        print_dry_run(args, &done)?;
        return Ok(Answer::Yes);
    }
    let verbose = args.verbose || stderr().is_terminal();
    if verbose {
        // The results are stored: a closed standard error is not a failure.
        let _ = writeln!(stderr(), "{}: {}", args.database.path().display(), summarize_steps(args, &done));
    }
    if args.includes(Step::Push) {
        let push = Push { found: args.database.found(), wait: args.database.wait, uri: args.uri.as_deref() };
        let pushed = push::send(&push)
            .map_err(|error| if args.stores_results() { after_storing(error) } else { error });
        match pushed {
            Ok(pushed) if verbose => {
                let _ = writeln!(stderr(), "{}: {pushed}", args.database.path().display());
            }
            Ok(_) => {}
            Err(error) => {
                done.check_counted().unwrap_or_else(remark);
                return Err(error);
            }
        }
    }
    done.check_counted()?;
    Ok(Answer::Yes)
}
