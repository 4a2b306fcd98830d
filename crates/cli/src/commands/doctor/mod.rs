// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare doctor`: finds silent problems of the site, and prints remedies.

mod findings;
mod instance;

use std::borrow::Cow;
use std::fs::OpenOptions;
use std::io::{Write, stdout};
use std::path::Path;

use serde::Serialize;

use super::push::Push;
use crate::outcome::{Answer, Outcome, Result};
use crate::plugin::ask::InstanceArg;
use crate::site::database::{DatabaseArg, Found};
use crate::ui::figures;
use crate::ui::messages::{address, say_wrapped};
use crate::ui::output::print_json_line;
use crate::ui::printable::printable;
use crate::ui::screen::ScreenArgs;
use fairshare_accounting::pipeline::budgets;
use fairshare_accounting::store::{Access, Database, StoreError, quote_for_shell};
use findings::{DatabaseFacts, Finding, Weight, add_weights_in_force, check_database, check_instance};
use instance::{Instance, check_commands, make_unreadable_database_finding};

/// The remedies if Flux does not answer, and if the caller is not the instance owner.
const NO_FLUX: &str = "run this where Flux runs, as the owner of the instance, or name the instance by --uri";
const NOT_OWNER: &str = "run this as the owner of the instance; \"flux fairshare standing\" and \"flux fairshare jobs\" show your own associations and jobs";

/// Check the database and the plugin for silent problems, and say what to do about each
///
/// Runs the checks of "push --dry-run", "update --dry-run" and "sync --dry-run" and reports what they would refuse. Finds users without a default
/// bank, banks without shares, limits that hold all jobs, limits on banks and queues that do not exist, weights that have no
/// effect, budgets that are used up or over, usage and credits that are not counted, a plugin that is not loaded or has old data, a second
/// priority plugin, edits that were not pushed, and a configuration on disk with which Flux would not start. If Flux does not
/// answer, or if you are not the instance owner, doctor says so and checks the database alone.
///
/// Exit status 1 means that a problem needs action; notices alone do not. Another priority plugin, and counters that differ from a
/// recount, need action, so that "flux fairshare status" then ends with 1 too.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    instance: InstanceArg,
    /// Report data and usage older than this many hours
    #[arg(long, value_name = "HOURS", default_value_t = 2.0, value_parser = figures::parse_amount)]
    stale: f64,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// The document of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DoctorDocument<'a> {
    database: Cow<'a, str>,
    findings: &'a [Finding],
}

pub(super) fn run(args: &Args) -> Outcome {
    let now = figures::now();
    let stale = args.stale * 3600.0;
    let mut configuration = None;
    let (mut facts, refused) = read_and_check(args, now).unwrap_or_else(|error| {
        (None, Some(make_unreadable_database_finding(&error, args.database.found().by)))
    });
    let mut findings = Vec::from_iter(refused);
    let push =
        Push { found: args.database.found(), wait: args.database.wait, uri: args.instance.uri.as_deref() };
    let asked = Instance::ask(args.instance.uri.as_deref(), &push, facts.as_ref(), now - stale);
    let loaded = asked.as_ref().ok().and_then(|instance| instance.loaded.as_ref());
    if let (Some(facts), Some(loaded)) = (&mut facts, loaded) {
        add_weights_in_force(&mut facts.data, &loaded.state.factors);
    }
    findings.extend(facts.iter().flat_map(|facts| check_database(facts, now, stale)));
    let data = facts.as_ref().map(|facts| &facts.data);
    match asked {
        Ok(instance) => {
            let path = args.database.path();
            findings.extend(facts.as_ref().and_then(|_| find_read_only_file(path)));
            findings.extend(check_instance(&instance, data, now, stale));
            let is_needed =
                |finding: &Finding| finding.code != "no-database" && finding.remedy.contains("flux account ");
            if !instance.has_account_service && findings.iter().any(is_needed) {
                let text =
                    "flux-accounting's service does not run, so \"flux account\" cannot change the database";
                let file = quote_for_shell(&path.display().to_string());
                let remedy = format!("flux account-service -p {file} -t, or systemctl start flux-accounting");
                findings.push(Finding::action("no-account-service", text, remedy));
            }
            configuration = instance.configuration;
        }
        Err(fault) => {
            let (code, text, remedy) = match args.instance.connect() {
                Ok(_) => ("not-checked", "the plugin, its data and counters were not checked", NOT_OWNER),
                Err(_) => ("no-flux", "could not query the plugin", NO_FLUX),
            };
            // With --uri, Flux must answer. Without --uri, the host of the database may have no Flux.
            let find = if args.instance.uri.is_some() { Finding::action } else { Finding::notice };
            findings.push(find(code, format!("{text}: {fault}"), remedy));
        }
    }
    // The check of the database reports the same fault with its remedy.
    let is_refused = findings.iter().any(|finding| finding.code == "refused");
    findings.retain(|finding| !is_refused || finding.code != "push-refused");
    for finding in &mut findings {
        let remedy = add_database_path(&finding.remedy, args.database.found());
        finding.remedy = address(&add_uri(remedy, &args.instance)).into_owned();
    }
    findings.sort_by_key(|finding| finding.weight);
    let wants = findings.iter().any(|finding| finding.weight == Weight::Action);
    if args.json {
        let document =
            DoctorDocument { database: args.database.path().to_string_lossy(), findings: &findings };
        print_json_line(&document)?;
    } else {
        if findings.is_empty() {
            let sync = facts.and_then(|facts| facts.counted).map_or(String::new(), |counted| {
                format!(" (usage counted {} ago)", figures::duration(now - counted))
            });
            let file = configuration.map_or("Flux has no configuration file".to_owned(), |path| {
                format!("with Flux's configuration {}", path.display())
            });
            let database = args.database.path().display();
            say_wrapped(printable(&format!(
                "nothing is wrong with {database}{sync}, with the plugin, and {file}"
            )))?;
        }
        print(&findings)?;
    }
    Ok(if wants { Answer::No } else { Answer::Yes })
}

/// Returns a finding if this account cannot write the database.
fn find_read_only_file(path: &Path) -> Option<Finding> {
    OpenOptions::new().append(true).open(path).err()?;
    let text = "this account may read the database but not write it: sync, update and limit fail";
    Some(Finding::action("read-only-database", text, "run these commands as the owner of the database"))
}

/// Reads the database and runs the checks of push, update and sync on it. Also returns the refusal of these commands. The facts are `None`
/// if the refused records can't be read.
fn read_and_check(args: &Args, now: f64) -> Result<(Option<DatabaseFacts>, Option<Finding>), StoreError> {
    let mut database = Database::open(args.database.path(), Access::Read, args.database.wait.wait)?;
    let snapshot = database.snapshot()?;
    let refused = check_commands(&snapshot, now, args.stale * 3600.0);
    let mut data = match snapshot.policy_data(now) {
        Ok(data) => data,
        // The error in `refused` already describes the invalid records, so no second error is returned.
        Err(_) if refused.is_some() => return Ok((None, refused)),
        Err(error) => return Err(error),
    };
    // The earlier check has already stored this error in `refused`.
    if budgets::add_to_push(&snapshot, &mut data, now).is_err() {
        return Ok((None, refused));
    }
    let (counted, unknown) = (snapshot.find_last_count_time(now)?, snapshot.unknown_columns()?);
    let (pace, newest) = (snapshot.pace()?, snapshot.newest_inactive(now).unwrap_or_default());
    Ok((Some(DatabaseFacts { data, pace, counted, newest, unknown }), refused))
}

/// Inserts the path of the database into the suggested commands of sqlite3. If an option named the database, also inserts the path
/// into our own commands.
fn add_database_path(remedy: &str, found: &Found) -> String {
    let path = quote_for_shell(&found.path.display().to_string());
    let remedy = remedy.replace("sqlite3 DATABASE ", &format!("sqlite3 {path} "));
    if found.by.is_some() {
        return remedy;
    }
    let update = |options: &str| format!("\"flux account-update-db{options}\"");
    let remedy = remedy.replace(&update(""), &update(&format!(" -p {path}")));
    let commands = "push, sync, update, recount --write, policy, limit unset, budget deposit, budget remove";
    commands.split(", ").fold(remedy, |remedy, command| {
        let command = format!("flux fairshare {command}");
        remedy.replace(&command, &format!("{command} -p {path}"))
    })
}

/// Inserts the instance that `--uri` names into the suggested commands.
fn add_uri(remedy: String, instance: &InstanceArg) -> String {
    let own = ["push", "sync", "status", "budget deposit", "budget remove"];
    let own = own.map(|command| format!("flux fairshare {command}"));
    let remedy = own.iter().fold(remedy, |text, it| text.replace(it, &format!("{it}{}", instance.option())));
    let of_flux = ["flux jobtap", "flux cancel", "flux --parent"];
    of_flux.iter().fold(remedy, |text, it| text.replace(it, &format!("{}{it}", instance.variable())))
}

fn print(findings: &[Finding]) -> Result<()> {
    let (screen, mut out) = (ScreenArgs::default().screen(), stdout().lock());
    for finding in findings {
        let mark = match finding.weight {
            Weight::Action => "!!",
            Weight::Notice => "--",
        };
        let text = format!("{mark} {}: {}", finding.code, printable(&finding.text));
        screen.wrapped(&text, "", "   ", &mut out)?;
        if finding.count > 0 {
            let more = finding.count - finding.whom.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let whom = format!("{}{more}", printable(&finding.whom.join(", ")));
            screen.wrapped(&whom, "   ", "   ", &mut out)?;
        }
        // A shell could not run a command that is wrapped.
        writeln!(out, "   -> {}", printable(&finding.remedy))?;
    }
    Ok(())
}
