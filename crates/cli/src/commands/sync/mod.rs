// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare sync`: fetches ended jobs, counts usage, ranks and pushes in one step.

mod arguments;
mod charges;
mod done;
mod fetch;
mod steps;
pub(super) mod summary;
mod watch;

use std::io::{IsTerminal, Write, stderr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::push::{self, Push};
use crate::outcome::{Answer, Failure, Outcome, after_storing};
use crate::ui::messages::remark;
pub(super) use arguments::Args;
use arguments::Step;
use steps::store_all;
use summary::{print_dry_run, summarize_steps};

pub(super) fn run(args: &Args) -> Outcome {
    if !args.dry_run && !args.output.is_table() {
        return Err(Failure::Message("--json, --csv and --parsable go with --dry-run".to_owned()));
    }
    if args.copy.is_some() && !args.includes(Step::Fetch) {
        return Err(Failure::Message("--copy goes with the step fetch".to_owned()));
    }
    if let Some(archive) = &args.copy
        && is_one_file(archive, args.database.path())
    {
        // POSIX locks belong to the process: closing the archive would release the locks of the transaction on the same file.
        return Err(Failure::Message(format!(
            "{}: --copy takes a job archive, and this is the database itself",
            archive.display()
        )));
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
        let push = Push { found: args.database.found(), wait: args.wait, uri: args.uri.as_deref() };
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

/// Returns true if two paths lead to the same file.
fn is_one_file(one: &Path, other: &Path) -> bool {
    let file_id = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    file_id(one).is_some_and(|one| file_id(other) == Some(one))
}
