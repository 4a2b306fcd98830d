// SPDX-License-Identifier: LGPL-3.0-only
//! The checks of `doctor`: problems of the database and of the instance, one finding for each kind of problem.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Serialize;

use super::instance::{Instance, LoadedPlugin};
use crate::commands::config::Fault;
use crate::commands::status::other_priority_plugins;
use crate::plugin::installed::load_command;
use crate::plugin::scheduling::StoppedQueues;
use crate::site::mending;
use fairshare::group_all;
use fairshare_accounting::pipeline::budgets;
use fairshare_accounting::store::{Pace, PolicyData, UnknownColumn, quote_for_shell};
use fairshare_client::{user_id, user_name};
use fairshare_engine::engine::answers::Snapshot;
use fairshare_engine::ids::f58;
use fairshare_protocol::field::Record;
use fairshare_protocol::records::{
    AssociationRecord, BankRecord, BudgetRecord, FactorRecord, LimitRecord, QueueRecord, UNLIMITED,
};

/// The remedy for a record that the plugin or a command refuses.
pub(super) const CORRECT: &str = "correct the record with \"flux account\" or sqlite3";
/// The highest priority of a job that is not expedited.
const TOP: f64 = 4_294_967_294.0;
/// For each problem, the command lists at most this many names.
const MOST: usize = 5;
/// A priority factor has no visible effect if its range is smaller than this fraction of the widest range of any
/// factor.
const UNSEEN: f64 = 1e-3;
/// Difference between two clocks that is tolerated, in seconds.
const CLOCK: f64 = 60.0;
/// The remedy if nothing counts usage.
pub(super) const SYNC: &str =
    "flux fairshare sync, and see whether flux-fairshare-sync runs: systemctl status flux-fairshare-sync";

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(super) enum Weight {
    /// The problem affects users or jobs.
    Action,
    /// The site may have configured this on purpose.
    Notice,
}

/// One kind of problem.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Finding {
    /// The name that `doctor --json` reports.
    pub code: &'static str,
    pub weight: Weight,
    /// The problem.
    pub text: String,
    /// The command or action that solves the problem.
    pub remedy: String,
    /// The first few affected users, banks or queues. `count` is the number of all affected users, banks or queues.
    pub whom: Vec<String>,
    pub count: usize,
}

impl Finding {
    pub fn action(code: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        let (text, remedy) = (text.into(), remedy.into());
        Finding { code, weight: Weight::Action, text, remedy, whom: Vec::new(), count: 0 }
    }

    pub fn notice(code: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
        Finding { weight: Weight::Notice, ..Finding::action(code, text, remedy) }
    }

    /// Adds the affected users, banks or queues in `whom` to the finding. Returns `None` if `whom` is empty.
    fn with_names(self, whom: impl IntoIterator<Item = String>) -> Option<Finding> {
        let mut whom: Vec<String> = whom.into_iter().collect();
        let count = whom.len();
        whom.truncate(MOST);
        (count > 0).then_some(Finding { whom, count, ..self })
    }

    fn create_finding_if(self, is_so: bool) -> Option<Finding> {
        is_so.then_some(self)
    }
}

/// The data of the database that the checks use.
pub(super) struct DatabaseFacts {
    pub data: PolicyData,
    pub pace: Pace,
    /// Time of the last usage count with the rule `exact`; `None` if there was none, or if flux-accounting has counted later.
    pub counted: Option<f64>,
    /// The end of the newest job on record.
    pub newest: Option<f64>,
    /// Columns that this version does not know, with values other than their defaults.
    pub unknown: Vec<UnknownColumn>,
}

fn association_label(record: &AssociationRecord) -> String {
    match &record.username {
        Some(name) => format!("{name} in {}", record.bank),
        None => format!("user {} in {}", record.userid, record.bank),
    }
}

/// The name of a user of this machine, or `user ID`.
fn user_label(userid: i64) -> String {
    let name = u32::try_from(userid).ok().and_then(user_name);
    name.unwrap_or_else(|| format!("user {userid}"))
}

fn split_name_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

pub(super) fn format_hours(seconds: f64) -> String {
    format!("{:.1} hours", seconds / 3600.0)
}

/// Returns the problems of the database. Usage older than `stale` seconds is a problem.
pub(super) fn check_database(facts: &DatabaseFacts, now: f64, stale: f64) -> Vec<Finding> {
    let DatabaseFacts { data, pace, counted, unknown, .. } = facts;
    let mut found: Vec<Finding> = check_users(data).into_iter().chain(check_limits(data)).flatten().collect();
    found.extend(check_limit_tables(data));
    found.extend(unknown.iter().map(|UnknownColumn { table, column, default, rows }| {
        Finding::notice(
            "unknown-columns",
            format!("{rows} rows of {table} set {column}, which this version of the command does not support: the plugin does not enforce the value"),
            format!(
                "install a version that supports {column}, or restore the default: sqlite3 DATABASE \"UPDATE {table} SET {column} = {default}\""
            ),
        )
    }));
    found.extend(check_weights(data).into_iter().flatten());
    // The root has no siblings, so its shares have no effect.
    let is_root = |bank: &BankRecord| bank.parent.as_deref().is_none_or(str::is_empty);
    let without_shares =
        data.banks.iter().filter(|bank| bank.shares == Some(0) && bank.active != Some(0) && !is_root(bank));
    found.extend(
        Finding::action(
            "no-shares",
            "banks without shares: their users rank behind all others",
            "flux account edit-bank NAME --shares=N",
        )
        .with_names(without_shares.map(|bank| bank.bank.clone())),
    );
    let name = |BudgetRecord { scope, name, unit, .. }: &BudgetRecord| {
        format!("{scope} {} in {unit}", describe_limit_target(data, scope, name))
    };
    let used_up = data.budgets.iter().filter(|budget| budgets::is_used_up(budget, now));
    found.extend(
        Finding::action(
            "budget-used-up",
            "budgets that are in force and have nothing left: jobs that they count are held until a deposit, unless the setting \
             \"budgets\" of the plugin is \"reject\" or \"warn\"",
            "flux fairshare budget deposit SCOPE NAME AMOUNT --unit UNIT --reason TEXT --push",
        )
        .with_names(used_up.map(&name)),
    );
    // The windows of a budget are next to each other, in the order of time.
    let targets = data.budgets.chunk_by(|a, b| (&a.scope, &a.name, &a.unit) == (&b.scope, &b.name, &b.unit));
    let over = targets.filter_map(<[_]>::last).filter(|last| last.end as f64 <= now);
    found.extend(
        Finding::action(
            "budget-over",
            "budgets whose last window is over: jobs that they count are held until a deposit or the removal of the budget, unless the \
             setting \"budgets\" of the plugin is \"reject\" or \"warn\"",
            "flux fairshare budget remove SCOPE NAME --unit UNIT --reason TEXT --push",
        )
        .with_names(over.map(name)),
    );
    let credits = data.uncounted_credits.iter();
    let credits = credits.map(|it| format!("{} {} of {}/{}", it.amount, it.unit, it.user, it.bank));
    found.extend(
        Finding::notice(
            "credits-not-counted",
            "credits that no sync has counted: neither usages nor fair-shares include them",
            "flux fairshare sync",
        )
        .with_names(credits),
    );
    found.extend(
        Finding::notice(
            "one-period",
            "the usage reset period holds a single half-life period: at the end of each period, usage is dropped instead of halved",
            "flux account edit-config priority_usage_reset_period=SECONDS, such as four times priority_decay_half_life",
        )
        .create_finding_if(pace.periods == 1),
    );
    let age = counted.map(|counted| now - counted);
    found.extend(age.filter(|age| *age > stale).map(|age| {
        Finding::action("usage-old", format!("usage was last counted {} ago", format_hours(age)), SYNC)
    }));
    // The database's `end_half_life_period` is the start of the present half-life period. In a site's first period,
    // it is the end of the period.
    let behind = pace.boundary.map(|boundary| now - boundary - pace.period).filter(|behind| *behind > stale);
    found.extend(behind.map(|behind| {
        Finding::action(
            "decay-behind",
            format!("a half-life period ended {} ago, and nothing has decayed since", format_hours(behind)),
            "flux fairshare sync, and see whether it runs regularly",
        )
    }));
    found
}

fn check_users(data: &PolicyData) -> [Option<Finding>; 10] {
    // flux-accounting keeps the associations of deleted users and banks as inactive records.
    let active = || data.associations.iter().filter(|record| record.active != 0);
    let by_user = group_all(active().map(|record| (record.userid, record)));
    // If the default banks of a user's records differ, the plugin uses that of the last record.
    let has_default = |all: &[&AssociationRecord]| {
        let default = all.last().map(|last| &last.def_bank);
        all.iter().any(|record| Some(&record.bank) == default)
    };
    let strays = by_user.values().filter(|all| !has_default(all));
    let strays = strays.filter_map(|all| all.first()).map(|record| association_label(record));
    let differ = by_user
        .values()
        .filter(|all| all.windows(2).any(|pair| matches!(pair, [a, b] if a.def_bank != b.def_bank)));
    let differ = differ.filter_map(|all| all.last()).map(|last| {
        let user = last.username.clone().unwrap_or_else(|| user_label(last.userid));
        format!("{user} ({} is in force)", last.def_bank)
    });
    let disabled = data.banks.iter().filter(|bank| bank.active == Some(0)).map(|bank| &*bank.bank);
    let disabled: BTreeSet<&str> = disabled.collect();
    let in_disabled = active().filter(|record| disabled.contains(&*record.bank)).map(association_label);
    let shareless = active().filter(|record| record.shares == Some(0)).map(association_label);
    // A user may have many associations, and a directory service answers slowly.
    let names: BTreeSet<&str> = active().filter_map(|record| record.username.as_deref()).collect();
    let ids: BTreeMap<_, _> = names.into_iter().map(|name| (name, user_id(name))).collect();
    // flux-accounting stores these ids for a user that the system does not know.
    let has_wrong_id = |record: &&AssociationRecord| {
        let known = record.username.as_deref().and_then(|name| *ids.get(name)?).map(i64::from);
        known.map_or([65_534, 4_294_967_295].contains(&record.userid), |id| id != record.userid)
    };
    let wrong_id = active()
        .filter(has_wrong_id)
        .map(|record| format!("{}: {}", association_label(record), record.userid));
    let correct_id = "flux account edit-user NAME --userid=ID && flux account sync-userids && flux fairshare push; \"id -u NAME\" prints \
                      the ID of a user that the system knows";
    let queues: BTreeSet<&str> = data.queues.iter().map(|queue| queue.queue.as_str()).collect();
    let projects: BTreeSet<&str> = data.projects.iter().map(|project| project.project.as_str()).collect();
    let in_none = |record: &&AssociationRecord| {
        split_name_list(&record.queues).next().is_some()
            && !split_name_list(&record.queues).any(|name| queues.contains(name))
    };
    let strange = active().flat_map(|record| {
        let unknown = split_name_list(&record.queues).filter(|name| !queues.contains(name));
        unknown.map(move |name| format!("queue {name} of {}", association_label(record)))
    });
    let lost = active()
        .filter(|record| !record.def_project.is_empty() && !projects.contains(record.def_project.as_str()));
    let lost =
        lost.map(|record| format!("default project {} of {}", record.def_project, association_label(record)));
    let one_id = group_all(data.associations.iter().map(|record| ((record.userid, &record.bank), record)));
    // The plugin uses the last record.
    let has_lost_user =
        |same: &Vec<&AssociationRecord>| same.iter().rev().skip(1).any(|lost| lost.active != 0);
    let one_id = one_id.into_values().filter(has_lost_user).flatten();
    let disabled = group_all(data.associations.iter().map(|record| (record.userid, record)));
    let disabled = disabled.values().filter(|all| all.iter().all(|record| record.active == 0));
    [
        Finding::action(
            "no-default-bank",
            "users without an association in their default bank: their jobs that name no bank are rejected",
            "flux account edit-user NAME --default-bank=BANK",
        )
        .with_names(strays),
        Finding::action(
            "default-banks-differ",
            "users whose associations have different default banks: jobs that name no bank are in the bank of the last association",
            "flux account edit-user NAME --default-bank=BANK",
        )
        .with_names(differ),
        Finding::action(
            "disabled-banks",
            "enabled associations in disabled banks: they get no place, and keep their last fair-share",
            "flux account add-bank --parent-bank=PARENT BANK SHARES, or flux account delete-user NAME BANK",
        )
        .with_names(in_disabled),
        Finding::notice(
            "no-user-shares",
            "users without shares: they rank behind all other users of their bank",
            "flux account edit-user NAME --bank=BANK --shares=N",
        )
        .with_names(shareless),
        Finding::action(
            "wrong-id",
            "users whose user id is not that of this system: the plugin finds no association for their jobs",
            correct_id,
        )
        .with_names(wrong_id),
        Finding::action(
            "refused-in-all-queues",
            "associations whose queues are all unknown: their jobs in a queue are rejected",
            "flux account edit-user NAME --bank=BANK --queues=QUEUES, or flux account add-queue QUEUE",
        )
        .with_names(active().filter(in_none).map(association_label)),
        Finding::notice(
            "unknown-queues",
            "queues of associations that the queue table lacks",
            "flux account add-queue QUEUE, or flux account edit-user NAME --bank=BANK --delete-queue=QUEUE",
        )
        .with_names(strange),
        Finding::action(
            "unknown-projects",
            "default projects that do not exist: jobs that name no project are rejected",
            "flux account add-project PROJECT, or flux account edit-user NAME --default-project=PROJECT",
        )
        .with_names(lost),
        Finding::action(
            "same-id",
            "users of a bank with the same user id: jobs of that id are those of the user listed last; flux-accounting stores 65534 or \
             4294967295 for a user that the system does not know",
            correct_id,
        )
        .with_names(one_id.map(|record| format!("{}: {}", association_label(record), record.userid))),
        Finding::notice(
            "disabled-users",
            "users that are disabled in all their banks: they can submit no jobs; jobs that they submitted before still run",
            "nothing, if this is intended; flux account add-user --username=NAME --bank=BANK enables a user again",
        )
        .with_names(disabled.filter_map(|all| all.first()).map(|record| association_label(record))),
    ]
}

fn check_limits(data: &PolicyData) -> [Option<Finding>; 3] {
    // If `max_running_jobs` is -1, flux-accounting ends all jobs of the association. Its tests show this.
    let is_broken = |record: &&AssociationRecord| record.active != 0 && record.max_running_jobs == -1;
    let nothing = |record: &&AssociationRecord| {
        record.active != 0
            && !is_broken(record)
            && record.limits().any(|(key, limit)| key != "max_active_jobs" && limit <= 0)
    };
    let nobody = |queue: &&QueueRecord| {
        let over_all = [queue.max_nodes, queue.max_cores].into_iter().flatten();
        queue.limits().map(|(_, limit)| limit).chain(over_all).any(|limit| limit <= 0)
    };
    let ends_all = Finding::action(
        "limit-ends-jobs",
        "associations whose max_running_jobs is -1: each of their jobs ends with an exception",
        format!("flux account edit-user NAME --bank=BANK --max-running-jobs=N ({UNLIMITED}: no limit)"),
    );
    let holds_all = Finding::action(
        "limits-hold-everything",
        "associations with a limit of 0 or less: all their jobs are held indefinitely",
        format!(
            "flux account edit-user NAME --bank=BANK --LIMIT=N (max-running-jobs, max-sched-jobs, max-nodes, max-cores; \
             {UNLIMITED}: no limit)"
        ),
    );
    let lets_nobody = Finding::action(
        "queues-for-nobody",
        "queues with a limit of 0 or less, which no job can meet",
        format!(
            "flux account edit-queue QUEUE --LIMIT=N (max-running-jobs, max-nodes-per-assoc, max-sched-jobs, \
             max-sched-nodes-per-assoc, max-sched-cores-per-assoc, max-nodes, max-cores; {UNLIMITED}: no limit)"
        ),
    );
    let broken = data.associations.iter().filter(is_broken).map(association_label);
    let associations = data.associations.iter().filter(nothing).map(association_label);
    let queues = data.queues.iter().filter(nobody).map(|queue| queue.queue.clone());
    [ends_all.with_names(broken), holds_all.with_names(associations), lets_nobody.with_names(queues)]
}

/// Returns the name of the user, bank or association that a limit applies to. In the data of a push, a user has only
/// an id.
fn describe_limit_target(data: &PolicyData, scope: &str, name: &str) -> String {
    let user_of = |id: &str| {
        let record = data.associations.iter().find(|record| record.userid.to_string() == id);
        record.and_then(|record| record.username.clone()).unwrap_or_else(|| id.to_owned())
    };
    match (scope, name.split_once('/')) {
        ("association", Some((id, bank))) => format!("{}/{bank}", user_of(id)),
        ("user", _) => user_of(name),
        _ => name.to_owned(),
    }
}

/// Returns limits on banks, users or queues that do not exist, and limits of 0. A limit of 0 GPUs is left out, because it concerns only
/// jobs with GPUs.
fn check_limit_tables(data: &PolicyData) -> Vec<Finding> {
    let has_bank = |bank: &str| data.banks.iter().any(|record| record.bank == bank);
    let has_queue = |queue: &str| queue.is_empty() || data.queues.iter().any(|record| record.queue == queue);
    let is_lost = |LimitRecord { scope, name, queue, .. }: &&LimitRecord| {
        let bank = match scope.as_str() {
            "bank" => Some(name.as_str()),
            "association" => name.split_once('/').map(|(_, bank)| bank),
            _ => None,
        };
        let lacks_queue = scope == "queue" && name != "*" && !has_queue(name);
        lacks_queue || !has_queue(queue) || bank.is_some_and(|bank| name != "*" && !has_bank(bank))
    };
    let named = |LimitRecord { scope, name, queue, .. }: &LimitRecord| {
        (scope.clone(), describe_limit_target(data, scope, name), queue.clone())
    };
    let lost =
        data.lost_limits.iter().map(|limit| (limit.scope.clone(), limit.name.clone(), limit.queue.clone()));
    let all: BTreeSet<(String, String, String)> =
        data.limits.iter().filter(is_lost).map(named).chain(lost).collect();
    let make_finding = |(scope, name, queue): (String, String, String)| {
        let unset = mending::unset_limit_command(&scope, &name, &queue);
        let place = if queue.is_empty() { String::new() } else { format!(" in queue {queue}") };
        let text = format!("a limit on {scope} {name}{place}, which does not exist: the limit holds no jobs");
        Finding::action("lost-limits", text, format!("{unset}, or correct the name"))
    };
    let zero = data.limits.iter().filter(|limit| !is_lost(limit)).flat_map(|limit| {
        let zero = limit.caps.iter().filter(|(measure, cap)| **cap <= 0 && !measure.ends_with("gpus"));
        zero.map(|(measure, cap)| {
            let (scope, name, queue) = named(limit);
            let place = if queue.is_empty() { String::new() } else { format!(" in queue {queue}") };
            let text = format!("the limit {measure}={cap} on {scope} {name}{place}: all jobs that it counts are held or rejected");
            let unset = mending::unset_limit_command(&scope, &name, &queue);
            Finding::action("limits-hold-everything", text, format!("{unset} --push, or set a higher limit"))
        })
    });
    zero.chain(all.into_iter().map(make_finding)).collect()
}

/// Adds the weights that the plugin uses for factors without a weight in the database: those of Flux's configuration, and default weights.
pub(super) fn add_weights_in_force(data: &mut PolicyData, in_force: &BTreeMap<String, i64>) {
    for (factor, weight) in in_force {
        if !data.priority_factors.iter().any(|record| record.factor == *factor) {
            data.priority_factors.push(FactorRecord { factor: factor.clone(), weight: *weight });
        }
    }
}

/// Returns each factor with the lowest and the highest term that it can add to a priority.
fn find_factor_ranges(data: &PolicyData) -> Vec<(&str, f64, f64)> {
    let span = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let ranges = data.priority_factors.iter().map(|FactorRecord { factor, weight }| {
        let (low, high) = match factor.as_str() {
            "fairshare" | "age" | "size" => (0.0, 1.0),
            "queue" => span(&mut data.queues.iter().map(|queue| queue.priority as f64)),
            "bank" => span(&mut data.banks.iter().map(|bank| bank.priority)),
            "urgency" => (-15.0, 14.0),
            _ => (0.0, 0.0),
        };
        let [one, other] = [low, high].map(|value| value * *weight as f64);
        (factor.as_str(), one.min(other), one.max(other))
    });
    ranges.collect()
}

fn check_weights(data: &PolicyData) -> [Option<Finding>; 5] {
    let ranges = find_factor_ranges(data);
    let widest = ranges.iter().map(|(_, low, high)| high - low).fold(0.0, f64::max);
    let fairshare = data.priority_factors.iter().find(|record| record.factor == "fairshare");
    let highest: f64 = ranges.iter().map(|(_, _, high)| high).sum();
    let width =
        |name: &str| ranges.iter().find(|range| range.0 == name).map_or(0.0, |range| range.2 - range.1);
    let hidden = ranges.iter().filter(|(name, low, high)| {
        let width = high - low;
        *name != "fairshare" && width > 0.0 && width < widest * UNSEEN
    });
    let edit = "flux account edit-factor --factor=NAME --weight=N";
    [
        Finding::action("no-weights", "no factor weighs anything: every job has a score of 0, and is held", edit)
            .create_finding_if(widest <= 0.0 && !data.priority_factors.is_empty()),
        Finding::action(
            "fairshare-does-not-count",
            "fair-share weighs less than a thousandth of another factor: the order of jobs does not follow it",
            edit,
        )
        .create_finding_if(widest > 0.0 && width("fairshare") < widest * UNSEEN),
        Finding::action("negative-fairshare", "fair-share has a negative weight: the heaviest users go first", edit)
            .create_finding_if(fairshare.is_some_and(|record| record.weight < 0)),
        Finding::notice("weights-too-small", "factors with much smaller terms than another factor: they decide only ties", edit)
            .with_names(hidden.map(|(name, ..)| (*name).to_owned())),
        Finding::action(
            "priorities-clamp",
            format!("scores reach {highest:.0}, but the highest priority is {TOP:.0}: all jobs with a higher score get this priority"),
            edit,
        )
        .create_finding_if(highest > TOP),
    ]
}

/// Returns the problems of the instance at `now`. Data and usage that are older than `stale` seconds are a problem.
pub(super) fn check_instance(
    instance: &Instance,
    data: Option<&PolicyData>,
    now: f64,
    stale: f64,
) -> Vec<Finding> {
    let refused = |fault: &Fault| {
        let text = format!("Flux would not start with {}: {}", fault.file.display(), fault.text);
        let check = "flux fairshare config check";
        let file = quote_for_shell(&fault.file.display().to_string());
        let remedy = format!("{}; then: {check} {file}", fault.remedy);
        Finding::action("config-refused", text, remedy)
    };
    let mut found: Vec<Finding> = instance.refused.iter().map(refused).collect();
    found.extend(instance.unchecked.as_ref().map(|reason| {
        let file = instance.configuration.as_deref().unwrap_or(Path::new("")).display();
        let text = format!("Flux's configuration {file} was not checked: {reason}");
        let remedy =
            "run \"flux fairshare config check FILE\" on the broker's host, as the owner of the instance";
        Finding::notice("config-not-checked", text, remedy)
    }));
    found.extend(instance.not_in_force.then(|| {
        let text = "[fairshare] of Flux's configuration on disk differs from the configuration in force";
        Finding::action("config-not-loaded", text, "flux config reload")
    }));
    found.extend(data.iter().flat_map(|data| check_queues(instance, data)));
    found.extend(check_scheduling(&instance.stopped));
    found.extend(instance.unfetched.as_ref().map(|found| match found {
        Ok(job) => {
            Finding::action("not-fetched", format!("the usage of ended jobs is not counted: {job}"), SYNC)
        }
        Err(fault) => {
            let text = format!("sync cannot fetch ended jobs: {fault}");
            Finding::action("no-job-list", text, "flux module load job-list && flux fairshare sync")
        }
    }));
    let ours = instance.loaded.as_ref().map(|loaded| loaded.state.name.as_str());
    let others = other_priority_plugins(&instance.plugins, ours);
    if ours.is_some() {
        found.extend(others.iter().map(|other| {
            let text = format!(
                "another priority plugin is loaded: {other}; Flux takes the priority that the last one gives"
            );
            Finding::action("two-priority-plugins", text, format!("flux jobtap remove {other}"))
        }));
    }
    let check = instance.loaded.as_ref().and_then(|loaded| loaded.check.as_ref());
    let overruled = check.and_then(|check| check.overruled).filter(|_| others.is_empty());
    // The last plugin of the list may give priorities even if its name is not that of a priority plugin.
    let is_ours = |name: &String| Some(name.as_str()) == ours;
    let last = instance.plugins.last().filter(|last| !is_ours(last));
    if let (Some(overruled), Some(last)) = (overruled, last) {
        let text = format!("{}; {last} is loaded last", overruled.sentence(&f58(overruled.job.0)));
        found.push(Finding::action("overruled", text, format!("flux jobtap remove {last}")));
    }
    let Some(LoadedPlugin { state, check }) = &instance.loaded else {
        if let Some(text) = &instance.of_job {
            found.push(Finding::action("not-the-site", text, "flux --parent fairshare doctor".to_owned()));
            return found;
        }
        let load = load_command(others.first().map(String::as_str));
        let text = "no priority plugin is loaded: no limit is enforced, and fair-share has no effect";
        found.push(Finding::action("not-loaded", text, format!("{load} && flux fairshare push")));
        return found;
    };
    let load = || load_command(Some(&state.name));
    let push = "flux fairshare push";
    let is_ours = state.version.is_some();
    let age = state.updated.map(|updated| now - updated);
    let has_data = state.generation.map_or(!state.users.is_empty(), |generation| generation > 0);
    let known: BTreeSet<(i64, &str)> = state
        .users
        .iter()
        .flat_map(|user| user.banks.iter().map(|bank| (i64::from(user.userid.0), bank.bank_name.as_str())))
        .collect();
    let wanted: BTreeSet<(i64, &str)> = data
        .iter()
        .flat_map(|data| &data.associations)
        .filter(|it| it.user().is_some())
        .map(|it| (it.userid, it.bank.as_str()))
        .collect();
    let of_pair = |(user, bank): &(i64, &str)| format!("{} in {bank}", user_label(*user));
    let missing = wanted.difference(&known).filter(|_| has_data).map(of_pair);
    // A push adds a record of the instance owner if the database has none, so one more record in the plugin is normal.
    let gone = known.difference(&wanted).count();
    let drift = check.as_ref().map_or(0, |check| check.drift.len());
    let version = state.version.clone().unwrap_or_default();
    // The owner's record may be in both, because a push adds it.
    let is_other = known.len() > 2 && wanted.len() > 2 && wanted.intersection(&known).count() <= 1;
    let is_missing = wanted.difference(&known).next().is_some();
    let edits = instance.push.as_ref().and_then(|push| push.as_ref().ok()).filter(|_| has_data);
    let refusal = instance.push.as_ref().and_then(|push| push.as_ref().err());
    found.extend(
        [
            Finding::notice(
                "flux-accounting's",
                "the plugin that is loaded is flux-accounting's own",
                format!("{} && {push}", load()),
            )
            .create_finding_if(!is_ours),
            Finding::notice(
                "other-version",
                format!("the plugin is version {version}, this command {}", env!("CARGO_PKG_VERSION")),
                load(),
            )
            .create_finding_if(is_ours && version != env!("CARGO_PKG_VERSION")),
            Finding::action("no-data", "the plugin has no data: all jobs wait", push)
                .create_finding_if(!has_data),
            Finding::action(
                "data-old",
                format!("the plugin's data are {} old", format_hours(age.unwrap_or_default())),
                "flux fairshare push, and see whether flux-fairshare-sync or cron runs",
            )
            .create_finding_if(has_data && age.is_some_and(|age| age > stale)),
            Finding::action(
                "clock",
                format!(
                    "the plugin's data are dated {} later than the clock of this machine",
                    format_hours(-age.unwrap_or_default())
                ),
                "set the clocks of this machine and of the management node, then: flux fairshare push",
            )
            .create_finding_if(age.is_some_and(|age| age < -CLOCK)),
            refusal.map(|refusal| {
                let text = format!("the plugin would refuse a push: {refusal}");
                let is_same = !is_ours || version == env!("CARGO_PKG_VERSION");
                let reload = Some(format!("{} && {push}", load())).filter(|_| !is_same);
                let correct = || format!("{CORRECT}, then: flux fairshare push");
                Finding::action("push-refused", text, reload.unwrap_or_else(correct))
            }),
            Finding::action(
                "other-database",
                "the plugin has none of the associations of this database, which may be that of another instance: a push would replace all",
                "name the database of this instance by -p; only if it is this database: flux fairshare push",
            )
            .create_finding_if(is_other),
            Finding::action("not-pushed", "associations of the database that the plugin lacks", push)
                .with_names(missing)
                .filter(|_| !is_other),
            edits.filter(|_| !is_missing).map(|edits| {
                let text = format!("changes of the database that were not pushed: {edits}");
                Finding::action("not-pushed", text, push)
            }),
            Finding::action(
                "not-removed",
                format!("the plugin has {gone} associations that the database lacks"),
                push,
            )
            .create_finding_if(data.is_some() && gone > 1 && edits.is_none()),
            check_waiting_jobs(state, &wanted, has_data),
            Finding::action(
                "drift",
                format!("{drift} counters differ from a recount"),
                "this is a fault of the plugin: please report it with the output of flux fairshare status",
            )
            .create_finding_if(drift > 0),
        ]
        .into_iter()
        .flatten(),
    );
    found
}

/// Returns the finding about jobs that wait for data of their users, if the plugin has data at all.
fn check_waiting_jobs(state: &Snapshot, wanted: &BTreeSet<(i64, &str)>, has_data: bool) -> Option<Finding> {
    let waiting = state.waiting.filter(|waiting| *waiting > 0 && has_data)?;
    let users = state.waiting_users.iter().map(|user| user.0);
    let (known, unknown): (Vec<u32>, Vec<u32>) =
        users.partition(|user| wanted.iter().any(|(id, _)| *id == i64::from(*user)));
    let text = format!("{waiting} jobs wait for data of their users");
    if unknown.is_empty() {
        let whom = known.iter().map(|user| user_label((*user).into()));
        let finding = Finding::action("waiting", text, "flux fairshare push");
        return finding.clone().with_names(whom).or(Some(finding));
    }
    let add = "flux account add-user --username=NAME --userid=ID --bank=BANK && flux fairshare push, or cancel the jobs: \
               flux cancel --all --user=ID";
    Finding::action("waiting", text, add).with_names(unknown.iter().map(|user| match user_name(*user) {
        Some(name) => format!("user {user} ({name})"),
        None => format!("user {user}"),
    }))
}

/// Returns a finding about stopped queues, each with its reason.
fn check_scheduling(stopped: &StoppedQueues) -> Option<Finding> {
    let texts: Vec<String> = stopped.texts().collect();
    let is_offline = texts.iter().any(|text| text.to_lowercase().ends_with("scheduler is offline"));
    match is_offline {
        true => Finding::action(
            "scheduler-offline",
            "no scheduler is loaded: no job starts",
            "flux module load sched-simple, or the scheduler of your site",
        ),
        false => Finding::notice(
            "queues-stopped",
            "stopped queues: their jobs do not start",
            "nothing, if this is intended; flux queue start QUEUE",
        ),
    }
    .with_names(texts)
}

/// Returns queues that exist only in Flux or only in the queue table.
fn check_queues(instance: &Instance, data: &PolicyData) -> Vec<Finding> {
    let stored: BTreeSet<String> = data.queues.iter().map(|queue| queue.queue.clone()).collect();
    if instance.queues.is_empty() || stored.is_empty() {
        return Vec::new();
    }
    let strange = stored.difference(&instance.queues).cloned();
    let missing = instance.queues.difference(&stored).cloned();
    let (text, remedy) = ("queues of Flux that the queue table lacks", "flux account add-queue QUEUE");
    let missing = match data.config.deny_unknown_queues {
        true => Finding::action("queues-not-stored", format!("{text}: jobs in them are rejected"), remedy)
            .with_names(missing),
        false => Finding::notice(
            "queues-not-stored",
            format!("{text}: these queues have no limits and no priority"),
            remedy,
        )
        .with_names(missing),
    };
    let strange = Finding::notice(
        "queues-not-in-flux",
        "queues of the queue table that Flux lacks",
        "flux account delete-queue QUEUE, or add the queue to [queues] of Flux's configuration",
    )
    .with_names(strange);
    strange.into_iter().chain(missing).collect()
}

#[cfg(test)]
mod tests;
