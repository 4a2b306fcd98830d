// SPDX-License-Identifier: LGPL-3.0-only
//! What is wrong with a site, from what its database and its plugin say: one row for each kind of trouble.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::super::status::state::{Check, State};
use crate::store::{AssociationRecord, FactorRecord, Pace, PolicyData, QueueRecord};

/// Limits of this and more are none.
const UNLIMITED: i64 = 2_147_483_647;
/// The highest priority of a job that is not expedited.
const TOP: f64 = 4_294_967_294.0;
/// Names that are told of one kind of trouble.
const MOST: usize = 5;
/// A factor whose whole range moves a score by less than this part of another's can't be seen.
const UNSEEN: f64 = 1e-3;
/// By so many seconds two clocks may differ.
const CLOCK: f64 = 60.0;

/// Whether something has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Weight {
    /// Somebody is harmed.
    Action,
    /// It may be meant.
    Notice,
}

/// One kind of trouble.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Finding {
    /// Its name.
    pub code: &'static str,
    pub weight: Weight,
    /// What is wrong.
    pub text: String,
    /// What to do.
    pub remedy: String,
    /// Whom it is about: the first ones, and how many there are.
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

    /// Of these; none if there are none.
    fn about(self, whom: impl IntoIterator<Item = String>) -> Option<Finding> {
        let mut whom: Vec<String> = whom.into_iter().collect();
        let count = whom.len();
        whom.truncate(MOST);
        (count > 0).then_some(Finding { whom, count, ..self })
    }

    fn only_if(self, is_so: bool) -> Option<Finding> {
        is_so.then_some(self)
    }
}

/// What the database says.
pub(super) struct Books {
    pub data: PolicyData,
    pub pace: Pace,
    /// When `sync` or `usage` last counted, where the exact rule is in use.
    pub counted: Option<f64>,
}

/// What the plugin says of itself.
pub(super) struct Loaded {
    pub state: State,
    pub check: Option<Check>,
}

fn whom(record: &AssociationRecord) -> String {
    match &record.leaf {
        Some(leaf) => format!("{} in {}", leaf.username, record.bank),
        None => format!("user {} in {}", record.userid, record.bank),
    }
}

fn names(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty())
}

fn hours(seconds: f64) -> String {
    format!("{:.1} hours", seconds / 3600.0)
}

/// Trouble that the database alone shows.
pub(super) fn of_books(books: &Books, now: f64, stale: f64) -> Vec<Finding> {
    let Books { data, pace, counted } = books;
    let mut found = of_users(data);
    found.extend(of_limits(data));
    found.extend(of_weights(data));
    let branches = data.banks.iter().filter_map(|bank| Some((bank, bank.branch.as_ref()?)));
    found.extend(
        Finding::action(
            "no-shares",
            "banks without shares: whoever is in them goes behind everybody else",
            "flux account edit-bank NAME --shares=N",
        )
        .about(branches.filter(|(_, branch)| branch.shares == 0).map(|(bank, _)| bank.bank.clone())),
    );
    let age = counted.map(|counted| now - counted);
    found.extend(age.filter(|age| *age > stale).map(|age| {
        Finding::action(
            "usage-old",
            format!("usage was last counted {} ago", hours(age)),
            "see whether flux-fairshare-sync runs: systemctl status flux-fairshare-sync, or run: flux fairshare sync",
        )
    }));
    // What is stored as the end of a period is the beginning of the present one, but for a site's first.
    let behind = pace.boundary.map(|boundary| now - boundary - pace.period).filter(|behind| *behind > stale);
    found.extend(behind.map(|behind| {
        Finding::action(
            "decay-behind",
            format!("a half-life period ended {} ago, and nothing has decayed since", hours(behind)),
            "flux fairshare sync, and see whether it runs regularly",
        )
    }));
    found
}

fn of_users(data: &PolicyData) -> Vec<Finding> {
    let mut by_user: BTreeMap<i64, Vec<&AssociationRecord>> = BTreeMap::new();
    data.associations.iter().for_each(|record| by_user.entry(record.userid).or_default().push(record));
    let strays = by_user.values().filter(|all| !all.iter().any(|record| record.bank == record.def_bank));
    let strays = strays.filter_map(|all| all.first()).map(|record| whom(record));
    let queues: BTreeSet<&str> = data.queues.iter().map(|queue| queue.queue.as_str()).collect();
    let projects: BTreeSet<&str> = data.projects.iter().map(|project| project.project.as_str()).collect();
    let in_none = |record: &&AssociationRecord| {
        names(&record.queues).next().is_some() && !names(&record.queues).any(|name| queues.contains(name))
    };
    let unknown = |of: &mut dyn Iterator<Item = (&AssociationRecord, String)>, what: &str| -> Vec<String> {
        of.map(|(record, name)| format!("{what} {name} of {}", whom(record))).collect()
    };
    let all = &data.associations;
    let mut strange = all.iter().flat_map(|record| {
        names(&record.queues).filter(|name| !queues.contains(name)).map(move |name| (record, name.to_owned()))
    });
    let strange = unknown(&mut strange, "queue");
    let mut lost = all
        .iter()
        .filter(|record| !record.def_project.is_empty() && !projects.contains(record.def_project.as_str()))
        .map(|record| (record, record.def_project.clone()));
    let lost = unknown(&mut lost, "default project");
    let mut one_id: BTreeMap<(i64, &str), Vec<&AssociationRecord>> = BTreeMap::new();
    all.iter().for_each(|record| one_id.entry((record.userid, &record.bank)).or_default().push(record));
    let one_id = one_id.into_values().filter(|same| same.len() > 1).flatten();
    let disabled = by_user.values().filter(|all| all.iter().all(|record| record.active == 0));
    [
        Finding::action(
            "no-default-bank",
            "users whose default bank is none of theirs: their jobs without a bank are refused",
            "flux account edit-user NAME --default-bank=BANK",
        )
        .about(strays),
        Finding::action(
            "refused-in-all-queues",
            "associations of which every queue is unknown: their jobs in a queue are refused",
            "flux account edit-user NAME --bank=BANK --queues=QUEUES, or flux account add-queue QUEUE",
        )
        .about(all.iter().filter(in_none).map(whom)),
        Finding::notice(
            "unknown-queues",
            "queues that no queue_table has",
            "flux account add-queue QUEUE, or take it from the user",
        )
        .about(strange),
        Finding::action(
            "unknown-projects",
            "default projects that are not there: jobs without a project are refused",
            "flux account add-project PROJECT, or flux account edit-user NAME --default-project=PROJECT",
        )
        .about(lost),
        Finding::action(
            "same-id",
            "users of a bank with the same user id, of whom the one last listed counts, in the tree too; 65534 is what \
             flux-accounting gives whom the system does not know",
            "make them known to the system (getent passwd NAME finds them), then flux account sync-userids",
        )
        .about(one_id.map(|record| format!("{}: {}", whom(record), record.userid))),
        Finding::notice(
            "disabled-users",
            "users who are disabled in all their banks: they can submit nothing; what they submitted before runs",
            "nothing, if that is meant",
        )
        .about(disabled.filter_map(|all| all.first()).map(|record| whom(record))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn of_limits(data: &PolicyData) -> Vec<Finding> {
    // By this value flux-accounting's own tests have jobs fail.
    let is_broken = |record: &&AssociationRecord| record.active != 0 && record.max_running_jobs == -1;
    let nothing = |record: &&AssociationRecord| {
        record.active != 0
            && !is_broken(record)
            && [record.max_running_jobs, record.max_sched_jobs, record.max_nodes, record.max_cores]
                .iter()
                .any(|limit| *limit <= 0)
    };
    let nobody = |queue: &&QueueRecord| {
        let limits = [
            queue.max_running_jobs,
            queue.max_nodes_per_assoc,
            queue.max_sched_jobs,
            queue.max_sched_nodes_per_assoc,
            queue.max_sched_cores_per_assoc,
        ];
        limits.iter().any(|limit| *limit <= 0)
    };
    let ends_all = Finding::action(
        "limit-ends-jobs",
        "associations whose max_running_jobs is -1: each of their jobs ends with an exception",
        format!("flux account edit-user NAME --bank=BANK --max-running-jobs=N ({UNLIMITED} is none)"),
    );
    let holds_all = Finding::action(
        "limits-hold-everything",
        "associations with a limit of 0 or less: all their jobs are held for ever",
        format!("flux account edit-user NAME --bank=BANK with another limit ({UNLIMITED} is none)"),
    );
    let lets_nobody = Finding::action(
        "queues-for-nobody",
        "queues with a limit that no job can keep to",
        "flux account edit-queue NAME with other limits",
    );
    let broken = data.associations.iter().filter(is_broken).map(whom);
    let associations = data.associations.iter().filter(nothing).map(whom);
    let queues = data.queues.iter().filter(nobody).map(|queue| queue.queue.clone());
    [ends_all.about(broken), holds_all.about(associations), lets_nobody.about(queues)]
        .into_iter()
        .flatten()
        .collect()
}

/// From which to which score each factor may move a job: its value lies between 0 or the lowest and the highest of the site.
fn ranges(data: &PolicyData) -> Vec<(&str, f64, f64)> {
    let span = |values: &mut dyn Iterator<Item = f64>| {
        values.fold((0.0f64, 0.0f64), |(low, high), value| (low.min(value), high.max(value)))
    };
    let range = |FactorRecord { factor, weight }: &FactorRecord| {
        let (low, high) = match factor.as_str() {
            "fairshare" | "age" | "size" => (0.0, 1.0),
            "queue" => span(&mut data.queues.iter().map(|queue| queue.priority as f64)),
            "bank" => span(&mut data.banks.iter().map(|bank| bank.priority)),
            "urgency" => (-15.0, 14.0),
            _ => (0.0, 0.0),
        };
        let ends = [low * *weight as f64, high * *weight as f64];
        (ends[0].min(ends[1]), ends[0].max(ends[1]))
    };
    data.priority_factors
        .iter()
        .map(|record| {
            let (low, high) = range(record);
            (record.factor.as_str(), low, high)
        })
        .collect()
}

fn of_weights(data: &PolicyData) -> Vec<Finding> {
    let ranges = ranges(data);
    let widest = ranges.iter().map(|(_, low, high)| high - low).fold(0.0, f64::max);
    let fairshare = data.priority_factors.iter().find(|record| record.factor == "fairshare");
    let highest: f64 = ranges.iter().map(|(_, _, high)| high).sum();
    let width =
        |name: &str| ranges.iter().find(|range| range.0 == name).map_or(0.0, |range| range.2 - range.1);
    let hidden = ranges.iter().filter(|(name, low, high)| {
        let width = high - low;
        *name != "fairshare" && width > 0.0 && width < widest * UNSEEN
    });
    let edit = "flux account edit-factor NAME --weight=N";
    [
        Finding::action("no-weights", "no factor weighs anything: every job has a score of 0, and is held", edit)
            .only_if(widest <= 0.0 && !data.priority_factors.is_empty()),
        Finding::action(
            "fairshare-does-not-count",
            "fair-share weighs less than a thousandth of another factor: the order of jobs does not follow it",
            edit,
        )
        .only_if(widest > 0.0 && width("fairshare") < widest * UNSEEN),
        Finding::action("negative-fairshare", "fair-share has a negative weight: who used most goes first", edit)
            .only_if(fairshare.is_some_and(|record| record.weight < 0)),
        Finding::notice("weights-too-small", "factors that are swamped by another: they decide ties at most", edit)
            .about(hidden.map(|(name, ..)| (*name).to_owned())),
        Finding::action(
            "priorities-clamp",
            format!("scores reach {highest:.0}, and priorities end at {TOP:.0}: jobs above are all alike"),
            edit,
        )
        .only_if(highest > TOP),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Trouble that the plugin shows, or that there is none.
pub(super) fn of_plugin(
    loaded: Option<&Loaded>,
    data: Option<&PolicyData>,
    now: f64,
    stale: f64,
) -> Vec<Finding> {
    let Some(Loaded { state, check }) = loaded else {
        let load = "flux jobtap load -r .priority-default mf_priority.so && flux fairshare push";
        let text = "no priority plugin is loaded: no limit holds, fair-share does not count";
        return vec![Finding::action("not-loaded", text, load)];
    };
    let push = "flux fairshare push";
    let is_ours = state.version.is_some();
    let age = state.updated.map(|updated| now - updated);
    let has_data = state.generation.map_or(!state.mf_priority_map.is_empty(), |generation| generation > 0);
    let known: BTreeSet<(i64, &str)> = state
        .mf_priority_map
        .iter()
        .flat_map(|user| user.banks.iter().map(|bank| (i64::from(user.userid), bank.bank_name.as_str())))
        .collect();
    let wanted: BTreeSet<(i64, &str)> =
        data.iter().flat_map(|data| &data.associations).map(|it| (it.userid, it.bank.as_str())).collect();
    let of_pair = |(user, bank): &(i64, &str)| format!("user {user} in {bank}");
    let missing = wanted.difference(&known).filter(|_| has_data).map(of_pair);
    // The instance owner's record is made up where the database has none.
    let gone = known.difference(&wanted).count();
    let waiting = state.waiting.unwrap_or(0);
    let drift = check.as_ref().map_or(0, |check| check.drift.len());
    let version = state.version.clone().unwrap_or_default();
    [
        Finding::notice(
            "flux-accounting's",
            "the plugin that is loaded is flux-accounting's own",
            "flux jobtap load -r mf_priority.so mf_priority.so, where this one is installed",
        )
        .only_if(!is_ours),
        Finding::notice(
            "other-version",
            format!("the plugin is version {version}, this command {}", env!("CARGO_PKG_VERSION")),
            "flux jobtap load -r mf_priority.so mf_priority.so takes the one that is installed",
        )
        .only_if(is_ours && version != env!("CARGO_PKG_VERSION")),
        Finding::action("no-data", "the plugin has no data: all jobs wait", push).only_if(!has_data),
        Finding::action(
            "data-old",
            format!("the plugin's data are {} old", hours(age.unwrap_or_default())),
            "see whether flux-fairshare-sync or cron runs; flux fairshare push",
        )
        .only_if(has_data && age.is_some_and(|age| age > stale)),
        Finding::action(
            "clock",
            format!("the plugin's data come from {} ahead of this clock", hours(-age.unwrap_or_default())),
            "set the clocks of this machine and of the management node",
        )
        .only_if(age.is_some_and(|age| age < -CLOCK)),
        Finding::action("not-pushed", "associations that the database has and the plugin has not", push)
            .about(missing),
        Finding::action(
            "not-removed",
            format!("the plugin has {gone} associations that the database has not"),
            push,
        )
        .only_if(data.is_some() && gone > 1),
        Finding::action(
            "waiting",
            format!("{waiting} jobs wait for data of their users"),
            "flux account add-user for each, then flux fairshare push; or cancel the jobs",
        )
        .about(state.waiting_users.iter().map(|user| format!("user {user}")))
        .or_else(|| Finding::action("waiting", format!("{waiting} jobs wait"), push).only_if(waiting > 0)),
        Finding::action(
            "drift",
            format!("{drift} counters differ from a recount"),
            "this is a fault of the plugin: please report it with the output of flux fairshare status",
        )
        .only_if(drift > 0),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests;
