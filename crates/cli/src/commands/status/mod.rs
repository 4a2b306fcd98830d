// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare status`: the state of the plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::io::stdout;
use std::time::Duration;

use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::json;

use crate::outcome::{Answer, Failure, Outcome, Result, failure};
use crate::plugin::ask::{
    DEFAULT_PLUGIN, InstanceArg, describe_job_instance, find_load_command, request_plugins,
};
use crate::plugin::live_tree::fetch_live_tree_settings;
use crate::site::database::DatabaseArg;
use crate::ui::figures::{duration, half_life_text, now, number};
use crate::ui::messages::remark;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::{count, printable};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Look, Rows, Style, ValueColumn, value_column};
use crate::ui::words::{Words, format_user_or_id, userid};
use fairshare_accounting::store::{Access, Database};
use fairshare_client::{Flux, FluxError};
use fairshare_engine::engine::answers::{AssociationSnapshot, Check, Drift, Overruled, Snapshot};
use fairshare_engine::ids::{UserId, f58};
use fairshare_engine::limits::RULES;
use fairshare_engine::standing::TreePage;

/// Show the state of the priority plugin: its data, weights and half-life, jobs held by each limit
///
/// Also shows the sender and the time of the last push, the last sync that the database has on record, and other priority plugins.
/// A sync that finds nothing new is put on record every ten minutes. After a reload or a restart, the sender of a push is unknown.
///
/// Works with this project's plugin and, as far as it answers, with flux-accounting's. Only the instance owner may ask.
///
/// Exit status 1 means that no such plugin is loaded, that it has no such user or bank, that its recount differs, that another priority
/// plugin is loaded, or that another plugin decided the priority of a job.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The associations of these users, by name or number
    #[arg(short, long, value_name = "USER", value_delimiter = ',', help_heading = "Selection")]
    user: Vec<String>,
    /// The associations in these banks
    #[arg(short, long, value_name = "BANK", value_delimiter = ',', help_heading = "Selection")]
    bank: Vec<String>,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    output: OutputArgs,
}

/// Prefix of the plugin's name.
const PLUGIN: &str = "mf_priority";
/// How long `status` waits for a locked database.
const DATABASE_WAIT: Duration = Duration::from_secs(2);

/// The facts that `status` prints in addition to the plugin's state.
struct StatusContext {
    /// Other priority plugins that are loaded.
    others: Vec<String>,
    /// The time of the last sync, or `None` if there was no sync. The error is the reason why the database can't be read.
    last_sync: Result<Option<f64>, String>,
    /// The settings and the first rows of the live tree; `None` if the plugin has no live tree.
    tree: Option<TreePage>,
    /// The time of the answer.
    now: f64,
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    let plugins = list_plugins(&flux)?;
    let Some(name) = find_plugin(&plugins) else {
        let load = args.instance.variable() + &find_load_command(&flux);
        remark(describe_job_instance(&flux).unwrap_or_else(|| {
            format!("no priority plugin is loaded: \"{load}\" loads it, \"flux jobtap list\" shows all")
        }));
        return Ok(Answer::No);
    };
    let state = read_plugin_state(&flux, name)?;
    let check = request_recount(&flux)?;
    let selected = match select_associations(args, &state) {
        Ok(selected) => selected,
        Err(missing) => {
            remark(missing);
            return Ok(Answer::No);
        }
    };
    let counts = Counts::new(&state);
    let around = StatusContext {
        others: other_priority_plugins(&plugins, Some(name)),
        last_sync: last_sync(args),
        tree: fetch_live_tree_settings(&flux),
        now: now(),
    };
    if args.output.is_table() && args.user.is_empty() && args.bank.is_empty() {
        print_summary(args, &state, &counts, &around, check.as_ref())?;
    } else {
        print(args, &state, &counts, &around, check.as_ref(), selected)?;
    }
    let is_faulty = check.is_some_and(|check| check.overruled.is_some() || !check.drift.is_empty());
    Ok(if is_faulty || !around.others.is_empty() { Answer::No } else { Answer::Yes })
}

/// Returns the state of the plugin `name`.
pub(super) fn read_plugin_state(flux: &Flux, name: &str) -> Result<Snapshot> {
    let payload = json!({"name": name}).to_string();
    let answer =
        flux.rpc("job-manager.jobtap-query", &payload).map_err(describe_query_failure)?.unwrap_or_default();
    serde_json::from_str(&answer)
        .map_err(|error| failure(format!("{name}: its state can't be read: {error}")))
}

/// Returns the name of the loaded mf_priority plugin, if there is one.
pub(super) fn find_loaded_plugin(flux: &Flux) -> Result<Option<String>> {
    Ok(find_plugin(&list_plugins(flux)?).map(str::to_owned))
}

/// Returns the name of the mf_priority plugin in `plugins`, if there is one.
pub(super) fn find_plugin(plugins: &[String]) -> Option<&str> {
    plugins.iter().map(String::as_str).find(|name| name.starts_with(PLUGIN))
}

/// Returns all plugins of the job manager, in the order in which Flux calls them.
pub(super) fn list_plugins(flux: &Flux) -> Result<Vec<String>> {
    request_plugins(flux).map_err(describe_query_failure)
}

/// Returns the priority plugins in `plugins`, except `ours`. Plugins with other names are not returned,
/// although they may give priorities too.
pub(super) fn other_priority_plugins(plugins: &[String], ours: Option<&str>) -> Vec<String> {
    let is_priority = |name: &&String| name.starts_with(PLUGIN) || *name == DEFAULT_PLUGIN;
    plugins.iter().filter(is_priority).filter(|name| Some(name.as_str()) != ours).cloned().collect()
}

/// Reads the time of the last sync from the database. The error is the reason why the database can't be read.
fn last_sync(args: &Args) -> Result<Option<f64>, String> {
    let read = || Database::open(args.database.path(), Access::Read, DATABASE_WAIT)?.snapshot()?.last_sync();
    read().map_err(|error| error.to_string())
}

/// Describes a failed request; if permission is missing, adds that only the instance owner may ask.
pub(super) fn describe_query_failure(error: FluxError) -> Failure {
    match &error {
        FluxError::Request { errno, .. } if *errno == libc::EPERM => {
            failure(format!("{error}; only the instance owner may ask for the plugin's state"))
        }
        _ => failure(error),
    }
}

/// Asks the plugin to recount its counters. Returns `None` if the plugin does not support this request.
pub(super) fn request_recount(flux: &Flux) -> Result<Option<Check>> {
    match flux.rpc("job-manager.mf_priority.check", "{}") {
        Ok(answer) => serde_json::from_str(&answer.unwrap_or_default()).map(Some).map_err(failure),
        Err(FluxError::Request { errno, .. }) if errno == libc::ENOSYS => Ok(None),
        Err(error) => Err(describe_query_failure(error)),
    }
}

/// Returns the time of the data, if the plugin reports a valid one.
fn get_time_of_plugin_data(state: &Snapshot) -> Option<f64> {
    state.updated.filter(|updated| updated.is_finite() && *updated > 0.0)
}

fn print_summary(
    args: &Args,
    state: &Snapshot,
    counts: &Counts,
    around: &StatusContext,
    check: Option<&Check>,
) -> std::io::Result<()> {
    let (screen, mut out) = (args.output.screen(), stdout().lock());
    let mut line = |key: &str, text: String| {
        screen.wrapped(&printable(&text), &format!("{key:<13} "), &" ".repeat(14), &mut out)
    };
    let whose = match (&state.version, check) {
        (Some(version), _) => format!("version {version}"),
        (None, Some(_)) => "of this project, an older version".to_owned(),
        (None, None) => "flux-accounting's own".to_owned(),
    };
    line("plugin", format!("{}, {whose} ({})", state.name, state.path))?;
    let mut data: Vec<String> =
        state.generation.map(|generation| format!("generation {generation}")).into_iter().collect();
    match (get_time_of_plugin_data(state), state.generation) {
        (Some(updated), _) => data.push(format!("{} old", duration(around.now - updated))),
        (None, Some(0)) => data.push("no push yet".to_owned()),
        (None, _) => data.push("age not known".to_owned()),
    }
    line("data", data.join(", "))?;
    let words = Words::new(f58, |_| None, TimeZone::system(), around.now);
    if let Some(at) = get_time_of_plugin_data(state) {
        let by = state.pushed_by.map_or("an unknown user".to_owned(), |user| format_user_or_id(user.0));
        line("last push", format!("by {by}, {}", words.when(at)))?;
    }
    let found = args.database.found();
    let by = found.by.map_or(String::new(), |by| format!(" ({by})"));
    let there = if found.path.exists() { "" } else { ": no such file" };
    line("database", format!("{}{there}{by}", found.path.display()))?;
    line(
        "last sync",
        match &around.last_sync {
            Ok(Some(at)) => words.when(*at),
            Ok(None) => "no sync is recorded".to_owned(),
            Err(_) if !found.path.exists() => "unknown".to_owned(),
            Err(reason) => format!("unknown: {reason}"),
        },
    )?;
    if let Some(tree) = &around.tree {
        line("ranking", format!("{}, half-life {}", tree.policy, half_life_text(tree.half_life)))?;
    }
    if !state.factors.is_empty() {
        let weights = state.factors.iter().map(|(factor, weight)| format!("{factor} {}", number(*weight)));
        line("weights", weights.collect::<Vec<_>>().join(", "))?;
    }
    if !around.others.is_empty() {
        line("also loaded", format!("{}: another priority plugin", around.others.join(", ")))?;
    }
    let Counts { users, banks, associations, inactive, queues, .. } = *counts;
    let inactive = if inactive > 0 { format!(" ({inactive} inactive)") } else { String::new() };
    let included = if associations > 0 { "; this includes the owner and bank root" } else { "" };
    let (users, banks) = (count(users, "user"), count(banks, "bank"));
    line("associations", format!("{associations}{inactive} of {users} in {banks}{included}"))?;
    line("configured", format!("{}, {}", count(queues, "queue"), count(state.projects.len(), "project")))?;
    if let (Some(active), Some(running), Some(cores)) =
        (counts.active_jobs, counts.running_jobs, counts.cores)
    {
        line("jobs", format!("{active} active, {running} running on {}", count(cores, "core")))?;
    } else {
        line("jobs", "unknown before the first push".to_owned())?;
    }
    line(
        "held",
        match counts.held_jobs {
            None => "unknown before the first push".to_owned(),
            Some(0) => "none".to_owned(),
            Some(held) => count(held, "job"),
        },
    )?;
    for (limit, jobs) in counts.held_by.iter().flatten() {
        line("", format!("{jobs:>6} by {limit}"))?;
    }
    if let Some(waiting) = state.waiting {
        let users = format_first_users(&state.waiting_users);
        let text = format!("{} of users whose records were not pushed{users}", count(waiting, "job"));
        line("waiting", if waiting == 0 { "no job waits for data of its user".to_owned() } else { text })?;
    }
    if let Some(overruled) = check.and_then(|check| check.overruled) {
        line("priority", overruled.sentence(&f58(overruled.job.0)))?;
    }
    match check {
        None => line("check", "this plugin can't recount its counters".to_owned()),
        Some(check) if check.drift.is_empty() => line(
            "check",
            format!("no drift: {} jobs of {} associations recounted", check.jobs, check.associations),
        ),
        Some(check) => {
            line("check", format!("{} differ from the recount:", count(check.drift.len(), "counter")))?;
            check.drift.iter().try_for_each(|Drift { userid, bank, what }| {
                line("", format!("user {userid} in bank {bank}: {what}"))
            })
        }
    }
}

/// Returns the selected associations. The error names a user or bank that does not exist.
fn select_associations<'a>(args: &Args, state: &'a Snapshot) -> Result<Vec<SelectedAssociation<'a>>, String> {
    if args.user.is_empty() && args.bank.is_empty() {
        return Ok(Vec::new());
    }
    let users: Vec<u32> = args.user.iter().map(|name| userid(name)).collect::<Result<_, _>>()?;
    let mut selected = Vec::new();
    for user in &state.users {
        let wanted = users.is_empty() || users.contains(&user.userid.0);
        let in_bank = |association: &&AssociationSnapshot| {
            args.bank.is_empty() || args.bank.iter().any(|bank| association.bank_name.as_str() == bank)
        };
        selected.extend(user.banks.iter().filter(|_| wanted).filter(in_bank).map(|bank| (user.userid, bank)));
    }
    for (name, id) in args.user.iter().zip(&users) {
        if !selected.iter().any(|(user, _)| user.0 == *id) {
            return Err(format!(
                "the plugin has no user \"{name}\"{}",
                if args.bank.is_empty() { "" } else { " in that bank" }
            ));
        }
    }
    for bank in &args.bank {
        if !selected.iter().any(|(_, association)| association.bank_name.as_str() == bank) {
            return Err(format!("the plugin has no association in bank \"{bank}\""));
        }
    }
    Ok(selected)
}

/// An association, and its user.
pub(super) type SelectedAssociation<'a> = (UserId, &'a AssociationSnapshot);

/// Returns the columns of the selected associations.
pub(super) fn columns<'a>() -> [ValueColumn<'static, SelectedAssociation<'a>>; 14] {
    [
        value_column("user", "User", Style::Text, |(user, _)| format_user_or_id(user.0).into()),
        value_column("userid", "UserId", Style::Id, |(user, _)| Cell::Count(user.0.into())),
        value_column("bank", "Bank", Style::Text, |(_, it)| it.bank_name.as_str().into()),
        value_column("fairshare", "FairShare", Style::Fraction, |(_, it)| it.fairshare.into()),
        value_column("running_jobs", "Running", Style::Count, |(_, it)| count_cell(it.cur_run_jobs)),
        value_column("max_running_jobs", "of", Style::Limit, |(_, it)| count_cell(it.max_run_jobs.0)),
        value_column("active_jobs", "Active", Style::Count, |(_, it)| count_cell(it.cur_active_jobs)),
        value_column("max_active_jobs", "of", Style::Limit, |(_, it)| count_cell(it.max_active_jobs.0)),
        value_column("nodes", "Nodes", Style::Count, |(_, it)| count_cell(it.cur_nodes)),
        value_column("max_nodes", "of", Style::Limit, |(_, it)| count_cell(it.max_nodes.0)),
        value_column("cores", "Cores", Style::Count, |(_, it)| count_cell(it.cur_cores)),
        value_column("max_cores", "of", Style::Limit, |(_, it)| count_cell(it.max_cores.0)),
        value_column("held_jobs", "Held", Style::Count, |(_, it)| Cell::Count(it.held_jobs.len() as u64)),
        value_column("active", "May run", Style::Flag, |(_, it)| Cell::Flag(it.active != 0)),
    ]
}

fn count_cell(number: i64) -> Cell {
    u64::try_from(number).map_or(Cell::None, Cell::Count)
}

/// The JSON document of `status`, except the list of associations.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct StatusJsonFields<'a> {
    plugin: PluginJsonFields<'a>,
    /// The number of pushes; null for flux-accounting's plugin.
    generation: Option<u64>,
    /// The time of the data in seconds since the epoch.
    updated: Option<f64>,
    /// The age of the data in seconds.
    age: Option<f64>,
    /// The same number as `age`. The name of this member contains the unit.
    age_seconds: Option<f64>,
    /// The sender of the last push.
    pushed_by: Option<String>,
    pushed_by_userid: Option<UserId>,
    /// The time of the last sync in seconds since the epoch.
    last_sync: Option<f64>,
    other_priority_plugins: &'a [String],
    /// The ranking policy of the live tree; null if the plugin has no live tree.
    policy: Option<&'a str>,
    /// The half-life of usage in the live tree; 0 if usage does not decay.
    half_life_seconds: Option<f64>,
    /// The weights of the factors of priorities.
    weights: &'a BTreeMap<String, i64>,
    #[serde(flatten)]
    counts: &'a Counts,
    /// The ids of users whose jobs wait for data.
    waiting_users: &'a [UserId],
    waiting_jobs: Option<usize>,
    /// A job whose priority another plugin decided.
    overruled: Option<Overruled>,
    /// The result of the recount of all counters; null if the plugin made none.
    check: Option<RecountJsonFields<'a>>,
}

/// The loaded plugin.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct PluginJsonFields<'a> {
    name: &'a str,
    path: &'a str,
    version: Option<&'a str>,
}

/// The result of a recount.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RecountJsonFields<'a> {
    jobs: usize,
    associations: usize,
    drift: &'a [Drift],
}

fn print(
    args: &Args,
    state: &Snapshot,
    counts: &Counts,
    around: &StatusContext,
    check: Option<&Check>,
    selected: Vec<SelectedAssociation<'_>>,
) -> std::io::Result<()> {
    let age = get_time_of_plugin_data(state).map(|updated| (around.now - updated).max(0.0));
    let facts = StatusJsonFields {
        plugin: PluginJsonFields { name: &state.name, path: &state.path, version: state.version.as_deref() },
        generation: state.generation,
        updated: state.updated,
        age,
        age_seconds: age,
        pushed_by: state.pushed_by.map(|user| format_user_or_id(user.0)),
        pushed_by_userid: state.pushed_by,
        last_sync: around.last_sync.as_ref().ok().copied().flatten(),
        other_priority_plugins: &around.others,
        policy: around.tree.as_ref().map(|tree| &*tree.policy),
        half_life_seconds: around.tree.as_ref().map(|tree| tree.half_life),
        weights: &state.factors,
        counts,
        waiting_users: &state.waiting_users,
        waiting_jobs: check.map_or(state.waiting, |check| Some(check.waiting)),
        overruled: check.and_then(|check| check.overruled),
        check: check.map(|check| RecountJsonFields {
            jobs: check.jobs,
            associations: check.associations,
            drift: &check.drift,
        }),
    };
    let rows = Rows::new("selected", columns(), selected);
    let report = Report { facts: Facts::new(&facts)?, rows, ..Report::default() };
    let look = Look { give_up: &["userid", "max_cores", "cores", "max_nodes", "nodes"], ..Look::WHOLE };
    args.output.print_as(report, look, Progress::none())
}

/// Returns the names of the first users, and the number of the other users.
fn format_first_users(users: &[UserId]) -> String {
    const NAMED: usize = 5;
    let names: Vec<String> = users.iter().take(NAMED).map(|user| format_user_or_id(user.0)).collect();
    match users.len().saturating_sub(NAMED) {
        _ if names.is_empty() => String::new(),
        0 => format!(": {}", names.join(", ")),
        more => format!(": {} and {more} more", names.join(", ")),
    }
}

/// Sums over all associations. Before the first push, the plugin has no associations and counts no jobs, even if jobs run, so the sums
/// of jobs are null.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Counts {
    users: usize,
    banks: usize,
    associations: usize,
    /// The number of inactive associations.
    inactive: usize,
    queues: usize,
    active_jobs: Option<i64>,
    running_jobs: Option<i64>,
    /// The sum of the nodes of running jobs, as limits count them. If several jobs share a node, each of them counts the node.
    nodes: Option<i64>,
    /// The cores of running jobs.
    cores: Option<i64>,
    held_jobs: Option<usize>,
    /// The number of held jobs by limit.
    held_by: Option<BTreeMap<String, usize>>,
}

impl Counts {
    /// Sums up the associations of `state`.
    fn new(state: &Snapshot) -> Counts {
        let has_data = state.generation != Some(0);
        let all = || state.users.iter().flat_map(|user| &user.banks);
        // Jobs of associations that a push removed still count.
        let counted = || all().chain(&state.removed_associations);
        let sum = |value: fn(&AssociationSnapshot) -> i64| has_data.then(|| counted().map(value).sum());
        let mut by_limit = BTreeMap::new();
        for limit in
            counted().flat_map(|association| association.held_jobs.values()).flat_map(|held| &held.deps)
        {
            let name = RULES.parse(limit).map_or(limit.as_str(), |found| found.hold.name());
            *by_limit.entry(name.to_owned()).or_default() += 1;
        }
        let named_banks: BTreeSet<&str> = all().map(|association| association.bank_name.as_str()).collect();
        Counts {
            users: state.users.len(),
            // flux-accounting's plugin does not list the banks.
            banks: if state.banks.is_empty() { named_banks.len() } else { state.banks.len() },
            associations: all().count(),
            inactive: all().filter(|association| association.active == 0).count(),
            queues: state.queues.len(),
            active_jobs: sum(|association| association.cur_active_jobs),
            running_jobs: sum(|association| association.cur_run_jobs),
            nodes: sum(|association| association.cur_nodes),
            cores: sum(|association| association.cur_cores),
            held_jobs: has_data.then(|| counted().map(|association| association.held_jobs.len()).sum()),
            held_by: has_data.then_some(by_limit),
        }
    }
}
