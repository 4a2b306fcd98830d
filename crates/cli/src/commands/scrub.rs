// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare scrub`: removes old job records.

use crate::clock::{now, parse_instant};
use crate::outcome::{Answer, Outcome, mark_stored};
use crate::site::database::DatabaseArg;
use crate::ui::figures::parse_amount;
use crate::ui::messages::say_wrapped;
use crate::ui::printable::count;
use fairshare_accounting::pipeline::scrub::{RecordRemovalResult, scrub};
use fairshare_accounting::store::Access;

const WEEK: f64 = 604_800.0;

/// Remove the records of jobs that ended long ago
///
/// Does what "flux account scrub-old-jobs" does, but keeps each record whose half-life period is still kept, so that usage can be
/// recounted from the remaining records. Also keeps the records of jobs that may have started in the current window of a budget.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Remove records older than this many weeks
    #[arg(value_name = "WEEKS", default_value_t = 26.0, value_parser = parse_amount)]
    weeks: f64,
    #[command(flatten)]
    database: DatabaseArg,
    /// The current time, in seconds since the epoch
    #[arg(long, value_name = "SECONDS", value_parser = parse_instant, help_heading = "Rules")]
    now: Option<f64>,
    /// Remove nothing; show what would be removed
    #[arg(long, short_alias = 'n')]
    dry_run: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let now = now(args.now);
    let mut database = args.database.open(Access::Write)?;
    let snapshot = database.snapshot()?;
    let RecordRemovalResult { removed, needed, is_for_budget, .. } =
        scrub(&snapshot, now - args.weeks * WEEK, now)?;
    let reason = if is_for_budget { "usage or a budget" } else { "usage" };
    let needed = match needed {
        0 => String::new(),
        needed => format!("; kept {} that {reason} still needs", count(needed, "record")),
    };
    if args.dry_run {
        drop(snapshot);
        say_wrapped(format_args!("would remove {}{needed}", count(removed, "record")))?;
    } else {
        snapshot.commit()?;
        say_wrapped(format_args!("removed {}{needed}", count(removed, "record"))).map_err(mark_stored)?;
    }
    Ok(Answer::Yes)
}
