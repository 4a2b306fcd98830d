// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the state of the instance: plugins, queues, configuration on disk, and the effects of a push. Also checks whether push,
//! update and sync would refuse the database.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::findings::{CORRECT, DatabaseFacts, Finding, SYNC, format_hours};
use crate::commands::config::{self, Fault};
use crate::commands::push::{self, Push, parts};
use crate::commands::status::{find_plugin, list_plugins, read_plugin_state, request_recount};
use crate::outcome::{Failure, Result, failure};
use crate::plugin::ask::{configuration, configured_queues, describe_job_instance};
use crate::plugin::scheduling::StoppedQueues;
use crate::ui::figures;
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{PipelineError, Plan, Rule};
use fairshare_accounting::store::{Reason, Snapshot, StoreError, quote_for_shell};
use fairshare_client::{Flux, FluxError};
use fairshare_engine::engine::answers::{self, Check};
use fairshare_engine::ids::f58;

/// The state of the instance.
#[derive(Default)]
pub(super) struct Instance {
    /// The job manager's plugins, in the order in which Flux calls them.
    pub plugins: Vec<String>,
    /// The state of the priority plugin, if one is loaded.
    pub loaded: Option<LoadedPlugin>,
    /// A message if the instance belongs to a job and has no priority plugin.
    pub of_job: Option<String>,
    /// The named queues of Flux's configuration; empty if there are none.
    pub queues: BTreeSet<String>,
    /// The configuration on disk; `None` if Flux started without one.
    pub configuration: Option<PathBuf>,
    /// Faults of the configuration on disk.
    pub refused: Vec<Fault>,
    /// The reason why the configuration on disk was not checked.
    pub unchecked: Option<String>,
    /// Whether flux-accounting's service answers, by which `flux account` changes the database.
    pub has_account_service: bool,
    /// Whether `[fairshare]` of the configuration on disk differs from the configuration in force.
    pub not_in_force: bool,
    /// The stopped queues.
    pub stopped: StoppedQueues,
    /// A job that ended long ago without a record in the database, in words. The error is the reason why job-list did not answer.
    pub unfetched: Option<Result<String, String>>,
    /// The plugin's answer to a dry push of the database, in words: the changes, or the reason of a refusal.
    pub push: Option<Result<String, String>>,
}

/// The state of the loaded plugin, and the result of recounting its counters.
pub(super) struct LoadedPlugin {
    pub state: answers::Snapshot,
    pub check: Option<Check>,
}

impl Instance {
    /// Connects to the instance and reads its state. `facts` are those of the database, if it can be read. Jobs that ended before `old` should
    /// have a record in the database.
    pub(super) fn ask(
        uri: Option<&str>,
        push: &Push<'_>,
        facts: Option<&DatabaseFacts>,
        old: f64,
    ) -> Result<Self> {
        let flux = Flux::connect(uri).map_err(failure)?;
        let plugins = list_plugins(&flux)?;
        let mut instance = Instance {
            queues: configured_queues(&flux),
            configuration: find_configuration(&flux),
            has_account_service: !matches!(
                flux.rpc("accounting.list_banks", "{}"),
                Err(FluxError::Request { errno: libc::ENOSYS, .. })
            ),
            ..Instance::default()
        };
        match instance.configuration.as_ref().map(|path| check_files_on_disk(&flux, path)) {
            Some(Ok((table, faults))) => {
                let in_force: Value = configuration(&flux);
                instance.not_in_force =
                    faults.is_empty() && in_force.get("fairshare") != table.get("fairshare");
                instance.refused = faults;
            }
            Some(Err(reason)) => instance.unchecked = Some(reason),
            None => {}
        }
        if let Some(name) = find_plugin(&plugins) {
            instance.loaded =
                Some(LoadedPlugin { state: read_plugin_state(&flux, name)?, check: request_recount(&flux)? });
        }
        instance.plugins = plugins;
        instance.of_job = if instance.loaded.is_none() { describe_job_instance(&flux) } else { None };
        if let (Some(_), Some(DatabaseFacts { data, newest, .. })) = (&instance.loaded, facts) {
            let queues = instance.queues.iter().map(|name| Some(name.as_str()));
            let unnamed = instance.queues.is_empty().then_some(None);
            instance.stopped = StoppedQueues::ask(&flux, queues.chain(unnamed));
            instance.unfetched = find_unfetched_job(&flux, newest.unwrap_or(0.0), old).transpose();
            instance.push = match push::ask(push, data) {
                Ok((None, _)) => None,
                Ok((Some(preview), _)) => parts::describe_kinds(&preview.changes.difference).map(Ok),
                Err(fault) => Some(Err(fault.to_string())),
            };
        }
        Ok(instance)
    }
}

/// Returns a text about a job that ran and ended after `newest` and before `old`, in seconds since the epoch.
fn find_unfetched_job(flux: &Flux, newest: f64, old: f64) -> Result<Option<String>, String> {
    let [after, before] =
        [(">", newest), ("<", old)].map(|(sign, time)| json!({"t_inactive": [format!("{sign}{time}")]}));
    let constraint = json!({"and": [after, before, {"t_run": [">0"]}]});
    let wanted = json!({"max_entries": 1, "attrs": ["t_inactive"], "constraint": constraint});
    let answer = flux.rpc("job-list.list", &wanted.to_string()).map_err(|error| error.to_string())?;
    let answer: Value =
        serde_json::from_str(&answer.unwrap_or_default()).map_err(|error| error.to_string())?;
    let member = |name: &str| answer.pointer("/jobs/0")?.get(name);
    let job = member("id").and_then(Value::as_u64).zip(member("t_inactive").and_then(Value::as_f64));
    Ok(job.map(|(id, end)| {
        let ago = figures::duration(figures::now() - end);
        format!("job {} ended {ago} ago, and the database has no record of it", f58(id))
    }))
}

/// Returns the path of the configuration files of the instance, or `None` if it has none. A relative path is one in the broker's working
/// directory, and stays relative if this directory is unknown.
fn find_configuration(flux: &Flux) -> Option<PathBuf> {
    let path = flux.attribute("config.path").ok().filter(|path| !path.is_empty())?;
    let broker = flux.attribute("broker.pid").ok().filter(|_| is_on_this_host(flux));
    let directory = broker.and_then(|broker| fs::read_link(format!("/proc/{broker}/cwd")).ok());
    Some(directory.unwrap_or_default().join(path))
}

/// Returns true if the socket of the broker is on this host.
fn is_on_this_host(flux: &Flux) -> bool {
    let uri = flux.attribute("local-uri").unwrap_or_default();
    uri.strip_prefix("local://").is_some_and(|socket| Path::new(socket).exists())
}

/// Returns the faults of the configuration files that this instance reads at its next start, or the reason why they can't be checked.
fn check_files_on_disk(flux: &Flux, path: &PathBuf) -> Result<(Value, Vec<Fault>), String> {
    if path.is_relative() || !is_on_this_host(flux) {
        return Err("the broker runs on another host, or its working directory is not readable".to_owned());
    }
    match config::check(std::slice::from_ref(path)) {
        Ok(checked) => Ok(checked),
        Err(failure) if path.try_exists().is_ok_and(|exists| !exists) => {
            let (text, remedy) = (failure.to_string(), format!("restore {}", path.display()));
            let fault = Fault { file: path.clone(), key: String::new(), value: Value::Null, text, remedy };
            Ok((Value::Null, vec![fault]))
        }
        Err(failure) => Err(failure.to_string()),
    }
}

/// Runs the checks of push, update and sync on the stored data. Returns the first refusal, or `None` if all three
/// commands accept the data.
pub(super) fn check_commands(snapshot: &Snapshot<'_>, now: f64, stale: f64) -> Option<Finding> {
    if let Err(fault) = rank_site(snapshot) {
        return Some(refusal_finding("push, update and sync refuse", fault, snapshot.path()));
    }
    let plan = match Plan::new(snapshot, Rule::default(), now, &mut |_| ()) {
        Err(PipelineError::ClockWentBack { was }) => {
            let ahead = (was - now) / 3600.0;
            let text = format!(
                "sync refuses the database: usage was last counted at a time {ahead:.1} hours later than the clock of this machine"
            );
            let remedy = "\"flux fairshare recount --write\" counts all usage again by this clock; if this clock is wrong, set it";
            return Some(Finding::action("refused", text, remedy));
        }
        Err(fault) => return Some(refusal_finding("sync refuses", fault.into(), snapshot.path())),
        Ok(plan) => plan,
    };
    if let Err(fault) = push::check_snapshot(snapshot, now) {
        return Some(refusal_finding("push and sync refuse", fault, snapshot.path()));
    }
    // If the last count is known, its age is checked elsewhere.
    let is_known = snapshot.find_last_count_time(now).is_ok_and(|counted| counted.is_some());
    let newest = snapshot.newest_inactive(now).ok()?.filter(|newest| !is_known && now - newest > stale)?;
    let text = format!(
        "records of ended jobs are not counted, the newest of a job that ended {} ago",
        format_hours(now - newest)
    );
    (plan.tally.counted > 0).then(|| Finding::action("usage-old", text, SYNC))
}

fn rank_site(snapshot: &Snapshot<'_>) -> Result<()> {
    let site = snapshot.site_policy()?;
    Ranked::new(snapshot, site.policy, &site.options, &mut |_| ())?;
    Ok(())
}

fn refusal_finding(commands: &str, fault: Failure, path: &Path) -> Finding {
    let fault = if let Failure::Message(fault) = fault { fault } else { fault.to_string().into() };
    let remedy = || format!("{CORRECT}, or restore {} from a backup", path.display());
    let text = format!("{commands} the database: {}", fault.problem);
    Finding::action("refused", text, fault.remedy.unwrap_or_else(remedy))
}

/// Returns the finding about a database that can't be opened or read.
pub(super) fn make_unreadable_database_finding(error: &StoreError, by: Option<&str>) -> Finding {
    let file = quote_for_shell(&error.path.display().to_string());
    let by = by.map_or(String::new(), |by| format!(" ({by})"));
    let fault = error.fault();
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
        Reason::Value(_) | Reason::Format(_) => {
            ("refused", fault.remedy.unwrap_or_else(|| format!("{CORRECT} {file}")))
        }
        Reason::ReadOnly(_) | Reason::Sqlite(_) => {
            ("unreadable-database", format!("run this as the owner of {file}; else restore it from a backup"))
        }
    };
    Finding::action(code, fault.problem + &by, remedy)
}
