// SPDX-License-Identifier: LGPL-3.0-only
//! Checks whether push, update and sync would refuse the database.

use std::path::Path;

use super::findings::Finding;
use crate::commands::push;
use crate::outcome::{Failure, Result, failure};
use crate::site::mending;
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{PipelineError, Plan, Rule};
use fairshare_accounting::store::{Reason, Snapshot, StoreError, quote_for_shell};

/// Runs the checks of push, update and sync on the stored data. Returns the first refusal, or `None` if all three
/// commands accept the data.
pub(super) fn check_commands(snapshot: &Snapshot<'_>, now: f64) -> Option<Finding> {
    if let Err(fault) = rank_site(snapshot) {
        return Some(refusal_finding("push, update and sync refuse", &fault, snapshot.path()));
    }
    if let Err(fault) = Plan::new(snapshot, Rule::default(), now, &mut |_| ()) {
        if let PipelineError::ClockWentBack { was } = fault {
            let ahead = (was - now) / 3600.0;
            let text = format!(
                "sync refuses the database: usage was last counted {ahead:.1} hours ahead of this clock"
            );
            let remedy = "\"flux fairshare recount --write\" counts all usage again by this clock; if this clock is wrong, set it";
            return Some(Finding::action("refused", text, remedy));
        }
        return Some(refusal_finding("sync refuses", &mending::pipeline_failure(fault), snapshot.path()));
    }
    let fault = push::check_snapshot(snapshot, now).err()?;
    Some(refusal_finding("push and sync refuse", &fault, snapshot.path()))
}

fn rank_site(snapshot: &Snapshot<'_>) -> Result<()> {
    let site = snapshot.site_policy().map_err(failure)?;
    Ranked::new(snapshot, site.policy, &site.options, &mut |_| ()).map_err(mending::pipeline_failure)?;
    Ok(())
}

fn refusal_finding(commands: &str, fault: &Failure, path: &Path) -> Finding {
    let (what, remedy) = mending::split_remedy(&fault.to_string());
    let remedy = remedy.unwrap_or_else(|| {
        format!(
            "correct the record with \"flux account\" or sqlite3, or restore {} from a backup",
            path.display()
        )
    });
    Finding::action("refused", format!("{commands} the database: {what}"), remedy)
}

/// Returns the finding about a database that can't be opened or read.
pub(super) fn unreadable_finding(error: &StoreError, by: Option<&str>) -> Finding {
    let file = quote_for_shell(&error.path.display().to_string());
    let by = by.map_or(String::new(), |by| format!(" ({by})"));
    let text = format!("{error}{by}");
    let (what, given) = mending::split_remedy(&text);
    let (code, remedy) = match &error.reason {
        Reason::Missing => {
            ("no-database", format!("flux account -p {file} create-db, or name another by -p FILE"))
        }
        Reason::Empty | Reason::NotADatabase => (
            "no-database",
            format!("rm {file} && flux account -p {file} create-db, or name another by -p FILE"),
        ),
        Reason::Denied(_) | Reason::Unreadable(_) => {
            ("unreadable-database", format!("run this as an account that may read {file}, such as its owner"))
        }
        Reason::Linked(_) | Reason::Beside { .. } => (
            "unreadable-database",
            "name the file itself by -p, or remove the file that is named above".to_owned(),
        ),
        Reason::Locked(_) => (
            "locked-database",
            format!("end the program that holds the lock (fuser {file}), or wait longer: --wait"),
        ),
        Reason::Truncated { .. } | Reason::Damaged(_) => {
            ("damaged-database", format!("restore {file} from a backup"))
        }
        Reason::Schema(_) => ("old-schema", format!("flux account-update-db -p {file}")),
        Reason::Value(_) | Reason::Format(_) => (
            "refused",
            given.unwrap_or_else(|| format!("correct the record with \"flux account\" or sqlite3 {file}")),
        ),
        Reason::ReadOnly(_) | Reason::Sqlite(_) => {
            ("unreadable-database", format!("run this as the owner of {file}; else restore it from a backup"))
        }
    };
    Finding::action(code, what, remedy)
}
