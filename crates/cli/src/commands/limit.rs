// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare limit`: limits beyond flux-accounting's.

use clap::ValueEnum;
use serde_json::value::to_raw_value;
use serde_json::{Map, Value};

use super::push;
use super::status::{find_loaded_plugin, read_plugin_state};
use crate::outcome::{Answer, Outcome, Result, failure, mark_stored};
use crate::plugin::ask::{self, InstanceArg};
use crate::site::database::DatabaseArg;
use crate::site::mending;
use crate::ui::messages::{remark, say, say_wrapped};
use crate::ui::output::{OutputArgs, Report};
use crate::ui::rows::{Cell, Rows, Style, ValueColumn, value_column};
use crate::ui::suggest::did_you_mean;
use crate::ui::words::format_user_or_id;
use fairshare_accounting::store::{Access, Snapshot, StoredLimit};
use fairshare_client::Flux;
use fairshare_engine::accounts::{SiteLimit, Target, measures};
use fairshare_engine::engine::answers::LimitUse;
use fairshare_engine::ids::Amount;
use fairshare_protocol::limits::read_limits;
use fairshare_protocol::records::LimitRecord;

const MEASURES: &str = include_str!("limit.txt").trim_ascii_end();

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// List the limits
    Show,
    /// Set limits
    Set,
    /// Remove limits
    Unset,
}

/// Show, set or remove limits on GPUs, whole banks, and users over all their banks
///
/// The database keeps these limits in a table of its own, which flux-accounting's tools do not change; push sends them. A
/// queue's max_nodes and max_cores, which "flux account edit-queue" sets, are listed as limits of the root bank in that queue on
/// run-sched-nodes and run-sched-cores; if both are set, the lower one counts. Tables [[fairshare.limits]] of Flux's
/// configuration are listed too, if the instance answers; set and unset do not change them. For the instance owner, the column
/// Pushed says whether the plugin has a limit of the database.
///
/// A bank's jobs include those of all banks below it. Jobs that would exceed a limit are held until there is headroom; if jobs
/// of several users share a limit, the job that would have the highest priority goes first. A job that asks for more nodes,
/// cores or GPUs than a limit allows at all is rejected at submission.
#[derive(Debug, clap::Args)]
#[command(after_help = MEASURES, after_long_help = MEASURES)]
pub(crate) struct Args {
    /// The action
    #[arg(value_enum, default_value = "show")]
    action: Action,
    /// The scope: association, bank, user or queue
    #[arg(value_name = "SCOPE", value_parser = ["association", "bank", "user", "queue"])]
    scope: Option<String>,
    /// USER/BANK, a bank, a user or a queue; * means all without a limit of their own
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The measures and their limits; for unset, only the measures
    #[arg(value_name = "MEASURE=VALUE")]
    measures: Vec<String>,
    /// Count only jobs in this queue
    #[arg(short, long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Count the resources that running jobs were allocated, not those they asked for
    #[arg(long)]
    given: bool,
    /// Also push, so that the change takes effect at once
    #[arg(long)]
    push: bool,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    if args.action == Action::Show {
        return show(args);
    }
    let (Some(scope), Some(name)) = (&args.scope, &args.name) else {
        return Err(failure(
            "set and unset need SCOPE and NAME, for example: flux fairshare limit set user ann run-jobs=8",
        ));
    };
    let mut database = args.database.open(Access::Write)?;
    let snapshot = database.snapshot()?;
    let stored = snapshot.stored_limits()?;
    let queue = args.queue.clone().unwrap_or_default();
    let here = |limit: &&StoredLimit| (&limit.scope, &limit.name, &limit.queue) == (scope, name, &queue);
    let changes = if args.action == Action::Set {
        let limits = parse_limits(args, scope, name)?;
        check_target(&snapshot, scope, name, &queue)?;
        for limit in &limits {
            snapshot.set_limit(limit)?;
        }
        limits.iter().any(|limit| !stored.contains(limit))
    } else {
        let mut known: Vec<&StoredLimit> = stored.iter().filter(here).collect();
        if let Some(lost) = args.measures.iter().find(|it| !known.iter().any(|limit| limit.measure == **it)) {
            remark(format_args!("no limit {lost} is set for this scope and name"));
            return Ok(Answer::No);
        }
        known.retain(|limit| args.measures.is_empty() || args.measures.contains(&limit.measure));
        if known.is_empty() {
            remark("no limit is set for this scope and name");
            return Ok(Answer::No);
        }
        for limit in known {
            snapshot.unset_limit(limit)?;
        }
        true
    };
    let mut limits = list_limits(&snapshot, None)?;
    snapshot.commit()?;
    let uri = args.instance.uri.as_deref();
    let apply = || push::apply_change(&args.database, uri, args.push, args.output.is_table());
    if args.push {
        apply()?;
        let loaded = args.instance.connect().ok().and_then(|flux| request_limits_of_plugin(&flux));
        let snapshot = database.snapshot().map_err(|fault| mark_stored(failure(fault)))?;
        limits = list_limits(&snapshot, loaded.as_deref()).map_err(mark_stored)?;
    }
    limits.retain(|listed| listed.source == "database" && here(&&listed.limit));
    print(args, limits).map_err(mark_stored)?;
    if changes && !args.push { apply() } else { Ok(Answer::Yes) }
}

/// Lists the limits of the database, of its queues, and of Flux's configuration.
fn show(args: &Args) -> Outcome {
    if args.push {
        return Err(failure("--push: show changes nothing; did you mean set?"));
    }
    let (configured, loaded) = match args.instance.connect() {
        Ok(flux) => (configured_limits(&ask::configured_limits(&flux)), request_limits_of_plugin(&flux)),
        Err(failure) if args.instance.uri.is_some() => return Err(failure),
        Err(_) => (Vec::new(), None),
    };
    let read = || {
        let mut database = args.database.open(Access::Read)?;
        list_limits(&database.snapshot()?, loaded.as_deref())
    };
    let mut limits = match read() {
        Ok(limits) => limits,
        Err(failure) if args.database.is_given() || configured.is_empty() => return Err(failure),
        Err(failure) => {
            remark(format_args!("warning: {failure}; only the limits of Flux's configuration are listed"));
            Vec::new()
        }
    };
    limits.extend(configured);
    limits.sort();
    let is_asked = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|it| it == found);
    limits.retain(|ListedLimit { limit, .. }| {
        is_asked(&args.scope, &limit.scope)
            && is_asked(&args.name, &limit.name)
            && is_asked(&args.queue, &limit.queue)
    });
    let is_found = !limits.is_empty() || args.scope.is_none();
    if limits.is_empty() && args.output.is_table() {
        let selected = args.scope.is_some() || args.queue.is_some();
        say(if selected { "no such limits are set" } else { "no limits are set" })?;
        make_note_about_association_limits(args).map_or(Ok(()), say_wrapped)?;
    } else {
        print(args, limits)?;
    }
    Ok(if is_found { Answer::Yes } else { Answer::No })
}

/// Returns the note about the limits in the records of associations, which `limit show` does not list.
fn make_note_about_association_limits(args: &Args) -> Option<String> {
    let is_of_associations = args.scope.as_ref().is_none_or(|scope| scope == "association");
    (args.action == Action::Show && is_of_associations).then(|| {
        "Limits in the records of associations, such as max-running-jobs, are not listed: \"flux account view-user USER\" and \
         \"flux fairshare standing USER\" show them."
            .to_owned()
    })
}

/// A limit that `limit show` lists.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListedLimit {
    limit: StoredLimit,
    /// Where the limit is set: `database`, `queue` or `config`.
    source: &'static str,
    /// True if the plugin has this limit of the database; `None` if unknown, or for limits of Flux's configuration.
    is_pushed: Option<bool>,
}

/// Returns the limits of the plugin, or `None` if it does not answer. Only the instance owner may ask.
fn request_limits_of_plugin(flux: &Flux) -> Option<Vec<LimitUse>> {
    let name = find_loaded_plugin(flux).ok()??;
    Some(read_plugin_state(flux, &name).ok()?.limits)
}

/// Returns the limits in the database, including the limits of its queues. If the plugin answers, `loaded` has the
/// limits that the plugin enforces.
fn list_limits(snapshot: &Snapshot<'_>, loaded: Option<&[LimitUse]>) -> Result<Vec<ListedLimit>> {
    let stored = snapshot.stored_limits()?.into_iter().map(|limit| (limit, "database"));
    let of_queues = snapshot.list_queue_limits()?.into_iter().map(|limit| (limit, "queue"));
    let all: Vec<(StoredLimit, &'static str)> = stored.chain(of_queues).collect();
    let ids = snapshot.user_ids()?;
    let key = |StoredLimit { scope, name, queue, measure, .. }: &StoredLimit| {
        let with_id = if name == "*" { None } else { ids.name_by_id(scope, name) };
        [scope.clone(), with_id.unwrap_or_else(|| name.clone()), queue.clone(), measure.clone()]
    };
    let keys: Vec<[String; 4]> = all.iter().map(|(limit, _)| key(limit)).collect();
    let list_limit = |((limit, source), key): (&(StoredLimit, &'static str), &[String; 4])| {
        // Several limits may have the same scope, name, queue and measure. A push then sends the lowest value.
        let same = all.iter().zip(&keys).filter(|(_, other)| *other == key);
        let value = same.map(|((other, _), _)| other.value).min();
        let is_it = |known: &LimitUse| {
            let queue = known.queue.as_deref().unwrap_or_default();
            *key == [known.scope.as_ref(), &known.name, queue, &known.measure]
                && Some(known.limit.0) == value
                && (*source == "queue" || (known.counts == "given") == limit.is_given)
        };
        let is_pushed = loaded.map(|loaded| loaded.iter().any(is_it));
        ListedLimit { limit: limit.clone(), source, is_pushed }
    };
    Ok(all.iter().zip(&keys).map(list_limit).collect())
}

/// Returns the limits of the tables `[[fairshare.limits]]`, which the plugin has checked. The tables name users by id.
fn configured_limits(tables: &[Map<String, Value>]) -> Vec<ListedLimit> {
    let read = to_raw_value(tables).ok().and_then(|tables| read_limits(&tables).ok());
    let list_limit = |limit: &SiteLimit| {
        let LimitRecord { scope, name, queue, counts, caps } = LimitRecord::from(limit);
        let name = match (scope.as_str(), name.split_once('/')) {
            ("user", _) => user_name(&name),
            ("association", Some((id, bank))) => format!("{}/{bank}", user_name(id)),
            _ => name,
        };
        let is_given = counts.is_some();
        caps.into_iter().map(move |(measure, value)| ListedLimit {
            limit: StoredLimit {
                scope: scope.clone(),
                name: name.clone(),
                queue: queue.clone(),
                measure,
                value,
                is_given,
            },
            source: "config",
            is_pushed: None,
        })
    };
    read.unwrap_or_default().iter().flat_map(list_limit).collect()
}

/// Returns the name of the user with this id, or the id if the user is unknown.
fn user_name(id: &str) -> String {
    id.parse().map_or_else(|_| id.to_owned(), format_user_or_id)
}

/// Parses the limits to set. It is an error if a measure, value or scope is invalid.
fn parse_limits(args: &Args, scope: &str, name: &str) -> Result<Vec<StoredLimit>> {
    if args.measures.is_empty() {
        return Err(failure("MEASURE=VALUE is missing, for example run-nodes=16"));
    }
    let target = parse_target(scope, name)?;
    if args.queue.is_some() && scope == "queue" {
        return Err(failure("--queue: in scope queue, NAME is the queue; remove the option"));
    }
    let known = measures();
    let parse_measure = |text: &String| {
        let Some((measure, value)) = text.split_once('=') else {
            return Err(failure(format!("expected MEASURE=VALUE, got \"{text}\"")));
        };
        if let Some(refusal) = Amount::refusal(measure) {
            return Err(failure(format!("{measure} is not a limit of scope \"{scope}\": {refusal}")));
        }
        if !known.iter().any(|known| known == measure) {
            let near = did_you_mean(measure, known.iter().map(String::as_str));
            let names = known.join(", ");
            return Err(failure(format!("unknown measure \"{measure}\"{near}; the measures are {names}")));
        }
        let is_in_records = |amount| target.is_in_records(args.queue.is_some(), amount);
        if Amount::parse(measure).is_some_and(is_in_records) {
            let text = format!("{measure}: \"flux account edit-user\" sets this limit of associations");
            return Err(failure(text));
        }
        let wrong = || failure(format!("{measure}: expected an integer from 0, got \"{value}\""));
        let value = value.parse::<i64>().ok().filter(|value| *value >= 0).ok_or_else(wrong)?;
        if args.measures.iter().filter(|text| text.split('=').next() == Some(measure)).nth(1).is_some() {
            return Err(failure(format!("{measure} is given twice")));
        }
        Ok(StoredLimit {
            scope: scope.to_owned(),
            name: name.to_owned(),
            queue: args.queue.clone().unwrap_or_default(),
            measure: measure.to_owned(),
            value,
            is_given: args.given,
        })
    };
    args.measures.iter().map(parse_measure).collect()
}

/// Parses scope and name. Every user gets the id 0, because only the form of the name is checked.
pub(super) fn parse_target(scope: &str, name: &str) -> Result<Target> {
    let with_id = match (scope, name.split_once('/')) {
        (_, _) if name == "*" => name.to_owned(),
        ("user", _) => "0".to_owned(),
        ("association", Some((_, bank))) => format!("0/{bank}"),
        ("association", None) => {
            return Err(failure(format!("expected USER/BANK, got \"{name}\"")));
        }
        _ => name.to_owned(),
    };
    Target::parse(scope, &with_id).map_err(failure)
}

/// Returns an error if the database lacks the target or the queue: such a limit would never hold a job.
pub(super) fn check_target(snapshot: &Snapshot<'_>, scope: &str, name: &str, queue: &str) -> Result<()> {
    let is_there = match (scope, name.split_once('/')) {
        (_, _) if name == "*" => true,
        ("bank", _) => snapshot.has_bank(name)?,
        ("queue", _) => snapshot.has_queue(name)?,
        ("association", Some((user, bank))) => snapshot.has_user(user, Some(bank))?,
        _ => snapshot.has_user(name, None)?,
    };
    if !is_there {
        return Err(failure(format!("there is no {scope} {name} in the database")));
    }
    if !queue.is_empty() && !snapshot.has_queue(queue)? {
        return Err(failure(format!("there is no queue {queue} in the database")));
    }
    Ok(())
}

pub(super) const COLUMNS: [ValueColumn<'static, ListedLimit>; 8] = [
    value_column("scope", "Scope", Style::Text, |listed| listed.limit.scope.as_str().into()),
    value_column("name", "Name", Style::Text, |listed| listed.limit.name.as_str().into()),
    value_column("queue", "Queue", Style::Text, |listed| listed.limit.queue.as_str().into()),
    value_column("measure", "Measure", Style::Text, |listed| listed.limit.measure.as_str().into()),
    value_column("value", "Limit", Style::Count, |listed| Cell::Count(listed.limit.value.unsigned_abs())),
    value_column("counts", "Counts", Style::Text, |listed| {
        if listed.limit.is_given { "given" } else { "asked" }.into()
    }),
    value_column("source", "Source", Style::Text, |listed| listed.source.into()),
    value_column("pushed", "Pushed", Style::Flag, |listed| listed.is_pushed.map(Cell::Flag).into()),
];

fn print(args: &Args, limits: Vec<ListedLimit>) -> std::io::Result<()> {
    let is_both = limits.iter().any(|listed| listed.source == "config")
        && limits.iter().any(|listed| listed.source != "config");
    let note = "If the database and the configuration (config) set the same limit, the database counts after a push.";
    let mut notes = if is_both { vec![note.to_owned()] } else { Vec::new() };
    if limits.iter().any(|listed| listed.is_pushed == Some(false)) {
        let push = mending::format_command(&args.database, args.instance.uri.as_deref(), "push");
        notes.push(format!("Limits that are not pushed do not apply until \"{push}\"."));
    }
    notes.extend(make_note_about_association_limits(args));
    let is_known = !args.output.is_table() || limits.iter().any(|listed| listed.is_pushed.is_some());
    let columns = COLUMNS.into_iter().filter(|one| is_known || one.column.key != "pushed");
    args.output.print(Report { rows: Rows::new("limits", columns, limits), notes, ..Report::default() })
}
