// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare doctor`: what is wrong with the site, and what to do about it.

mod findings;

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use super::database::DatabaseArg;
use super::input::Wait;
use super::printable::{printable, printable_json};
use super::status::{check, loaded, state_of};
use super::{Answer, Failure, Outcome, failure, say};
use crate::flux::Flux;
use crate::store::Access;
use findings::{Books, Finding, Loaded, Weight, of_books, of_plugin};

/// Look the database and the plugin over for what goes wrong quietly, and say what to do about each
///
/// Users without a default bank, banks without shares, limits that hold everything, weights that can't matter, usage that
/// nobody counts any more, a plugin that is not loaded or has old data, and the like. Where Flux does not answer the database
/// alone is looked at, and that is said.
///
/// Exit status 1 means that something wants action; notices alone do not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    wait: Wait,
    /// The Flux instance; otherwise the enclosing or the system's
    #[arg(long, value_name = "URI")]
    uri: Option<String>,
    /// Data and usage are old after so many hours
    #[arg(long, value_name = "HOURS", default_value_t = 2.0)]
    stale: f64,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_err(failure)?.as_secs_f64();
    let stale = args.stale * 3600.0;
    let mut findings = Vec::new();
    let books = match books(args, now) {
        Ok(books) => Some(books),
        Err(fault) => {
            let remedy = "name it by --path, or make one: flux account create-db";
            findings.push(Finding::action("no-database", fault.to_string(), remedy));
            None
        }
    };
    findings.extend(books.iter().flat_map(|books| of_books(books, now, stale)));
    let data = books.as_ref().map(|books| &books.data);
    match plugin(args) {
        Ok(plugin) => findings.extend(of_plugin(plugin.as_ref(), data, now, stale)),
        Err(fault) => {
            let remedy = "run this in the instance, as its owner";
            findings.push(Finding::notice("no-flux", format!("the plugin was not asked: {fault}"), remedy));
        }
    }
    findings.sort_by_key(|finding| finding.weight);
    let wants = findings.iter().any(|finding| finding.weight == Weight::Action);
    if args.json {
        say(printable_json(&json!({"database": args.database.path(), "findings": findings}).to_string()))?;
    } else {
        tell(args, &findings)?;
    }
    Ok(if wants { Answer::No } else { Answer::Yes })
}

fn books(args: &Args, now: f64) -> Result<Books, Failure> {
    let mut database = args.wait.open(args.database.found(), Access::Read)?;
    let snapshot = database.snapshot().map_err(failure)?;
    let data = snapshot.policy_data(now).map_err(failure)?;
    let counted = snapshot.counted_at(now).map_err(failure)?;
    Ok(Books { data, pace: snapshot.pace().map_err(failure)?, counted })
}

/// What the plugin says; `None` if none is loaded.
fn plugin(args: &Args) -> Result<Option<Loaded>, Failure> {
    let flux = Flux::connect(args.uri.as_deref()).map_err(failure)?;
    let Some(name) = loaded(&flux)? else { return Ok(None) };
    Ok(Some(Loaded { state: state_of(&flux, &name)?, check: check(&flux)? }))
}

fn tell(args: &Args, findings: &[Finding]) -> Result<(), Failure> {
    if findings.is_empty() {
        say(format_args!("nothing is wrong with {}", args.database.path().display()))?;
    }
    for finding in findings {
        let mark = match finding.weight {
            Weight::Action => "!!",
            Weight::Notice => "--",
        };
        say(format_args!("{mark} {}: {}", finding.code, printable(&finding.text)))?;
        if finding.count > 0 {
            let more = finding.count - finding.whom.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            say(format_args!("   {}{more}", printable(&finding.whom.join(", "))))?;
        }
        say(format_args!("   -> {}", finding.remedy))?;
    }
    Ok(())
}
