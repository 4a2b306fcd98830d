// SPDX-License-Identifier: LGPL-3.0-only
//! Asks the plugin for the data of `top`: the data of the whole instance if the caller may see them, otherwise the data of the caller.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::model::{PageRows, Snapshot, TopRow};
use crate::outcome::{Failure, Result};
use crate::plugin::ask::ask;
use crate::plugin::bank_tree::BankTree;
use crate::plugin::scheduling::StoppedQueues;
use crate::plugin::{jobs, standing};
use crate::ui::figures::{duration, number};
use crate::ui::printable::printable;
use crate::ui::rows::Cell;
use crate::ui::words::Words;
use fairshare::group_all;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{
    AssociationJobs, AssociationStanding, JobsPage, ListedJob, Load, Sibling, Standings, Stats,
};

/// The greatest number of associations, and of jobs, per refresh. This limit bounds the plugin's work.
const MOST: usize = 2000;

/// Sends all requests and waits for the answers.
pub(crate) fn gather(flux: &Flux) -> Result<Snapshot> {
    let stats: Option<Stats> = match ask(flux, "stats", &json!({})) {
        Ok(stats) => Some(stats),
        Err(Failure::No(_)) => None,
        Err(failure) => return Err(failure),
    };
    let all = stats.is_some();
    let wanted = if all { Map::from_iter([("all".to_owned(), Value::Bool(true))]) } else { Map::new() };
    let answer = standing::fetch(flux, &wanted, MOST)?;
    let page = jobs::fetch(flux, &Map::new(), MOST)?;
    let words = Words::for_flux_instance(flux, page.now);
    let stopped = StoppedQueues::ask(flux, page.jobs.iter().map(|row| row.queue.as_deref()));
    Ok(snapshot(stats.as_ref(), &answer, &page, &stopped, &words))
}

/// Builds the data from the plugin's answers. `stats` is `None` for a guest.
pub(crate) fn snapshot(
    stats: Option<&Stats>,
    standing: &Standings,
    page: &JobsPage,
    stopped: &StoppedQueues,
    words: &Words<'_>,
) -> Snapshot {
    let shown = shown_terms(page);
    let job = |row: &ListedJob| {
        let mut cells = vec![
            words.job(row.id.0).into(),
            row.priority.map_or(Cell::None, |priority| Cell::Count(priority.into())),
            words.user(row.userid.0).into(),
            row.bank.as_deref().into(),
            row.queue.as_deref().into(),
        ];
        cells.extend(shown.iter().map(|at| jobs::multiply_term_by_weight(row, page, *at).into()));
        cells.push(describe_holds(row, stopped).into());
        TopRow { job: Some(row.id.0), cells }
    };
    let mut listed: Vec<&ListedJob> = page.jobs.iter().collect();
    listed.sort_by_key(|row| row.id);
    let standings =
        standing.associations.iter().map(|association| make_table_row(association, words)).collect();
    let held = jobs::count_held_jobs_by_limit(stats, page).into_iter();
    let terms = shown.iter().filter_map(|at| page.terms.get(*at));
    let banks = stats.map_or_else(|| list_visible_banks(standing), list_banks);
    let more_standings = stats.is_some_and(|stats| stats.associations > standing.associations.len());
    Snapshot {
        facts: describe_data_and_jobs(stats, standing, stopped),
        pages: [
            PageRows { rows: banks, has_more: false },
            PageRows { rows: standings, has_more: more_standings },
            PageRows { rows: listed.into_iter().map(job).collect(), has_more: page.next.is_some() },
        ],
        terms: terms.map(|term| printable(term).into_owned()).collect(),
        held: held.map(|(limit, jobs)| (limit.to_string(), number(jobs))).collect(),
        cost: stats.map(list_costs).unwrap_or_default(),
    }
}

/// Describes why the job does not start: its limits, "urgency 0" or "score 0" at priority 0, "others" if something else blocks the
/// job, and "stopped queue". Returns `None` if nothing holds the job.
fn describe_holds(row: &ListedJob, stopped: &StoppedQueues) -> Option<String> {
    let mut names: Vec<&str> = row.holds.iter().map(|limit| limit.as_ref()).collect();
    names.extend(jobs::find_hold_other_than_limits(row));
    if row.is_kept {
        names.push("others");
    }
    if stopped.contains(row.queue.as_deref()) {
        names.push("stopped queue");
    }
    (!names.is_empty()).then(|| names.join(","))
}

/// Returns the indexes of the terms with a weight other than 0.
fn shown_terms(page: &JobsPage) -> Vec<usize> {
    let weighs =
        |at: &usize| page.weighings.iter().any(|weights| weights.get(*at).is_some_and(|weight| *weight != 0));
    (0..page.terms.len()).filter(weighs).collect()
}

fn make_table_row(association: &AssociationStanding, words: &Words<'_>) -> TopRow {
    let jobs = association.jobs;
    // The last level of an association is the user among the other users of the bank.
    let own = association.levels.last().map(|level| &level.node).filter(|node| node.kind == "user");
    let [place, of] = [association.rank.map(|rank| rank.place), association.rank.map(|rank| rank.of)]
        .map(|number| number.map_or(Cell::None, |number| Cell::Count(number as u64)));
    let cells = vec![
        place,
        of,
        words.user(association.userid.0).into(),
        association.bank.as_str().into(),
        association.fairshare.into(),
        own.and_then(|node| node.shares_part).into(),
        own.and_then(|node| node.usage_part).into(),
        own.and_then(|node| node.value).into(),
        Cell::Count(jobs.running),
        Cell::Count(jobs.pending),
        Cell::Count(jobs.held),
    ];
    TopRow { job: None, cells }
}

/// Returns the row of a bank. `jobs` are the running, pending and held jobs, or `None` if the caller may not see them.
fn make_bank_row(
    (depth, name): (usize, &str),
    [share, usage]: [f64; 2],
    level: Option<f64>,
    jobs: Option<[u64; 3]>,
) -> TopRow {
    let mut cells = vec![
        Cell::Node { depth, bank: true, name: name.to_owned() },
        share.into(),
        usage.into(),
        level.into(),
    ];
    cells.extend(jobs.into_iter().flatten().map(Cell::Count));
    // The root has no siblings to compare it with.
    cells.push(if depth > 0 { Cell::bar(usage, share) } else { Cell::None });
    TopRow { job: None, cells }
}

/// Returns two lines: one about the plugin's data and one about the jobs.
fn describe_data_and_jobs(
    stats: Option<&Stats>,
    standing: &Standings,
    stopped: &StoppedQueues,
) -> Vec<String> {
    let policy = standing.heading.policy.as_deref().unwrap_or("fair-share as pushed");
    let mut data =
        vec![format!("generation {}", number(standing.heading.generation)), printable(policy).into_owned()];
    if let Some(updated) = stats.and_then(|stats| stats.updated) {
        data.push(format!("data {} old", duration(standing.heading.now - updated)));
    }
    if let Some(refreshed) = standing.refreshed {
        data.push(format!("refreshed {} ago", duration(standing.heading.now - refreshed)));
    }
    let jobs = match stats {
        _ if standing.heading.generation == 0 => format!(
            "no data: nothing was pushed since the plugin was loaded, and {}",
            stats.map_or("all jobs wait".to_owned(), |stats| format!(
                "{} jobs wait",
                number(stats.jobs.waiting)
            ))
        ),
        Some(stats) => format!(
            "{} associations, {} running, {} pending + {} held, {} without data",
            number(stats.associations),
            number(stats.jobs.running),
            number(stats.jobs.pending),
            number(stats.jobs.held),
            number(stats.jobs.waiting)
        ),
        None => {
            let sum = |count: fn(&AssociationJobs) -> u64| -> String {
                number(standing.associations.iter().map(|association| count(&association.jobs)).sum::<u64>())
            };
            let [running, pending, held] = [sum(|it| it.running), sum(|it| it.pending), sum(|it| it.held)];
            format!("yours: {running} running, {pending} pending + {held} held")
        }
    };
    let shown = standing.associations.len();
    if stats.is_some_and(|stats| stats.associations > shown) {
        data.push(format!("{} shown", number(shown)));
    }
    let names: Vec<String> = stopped.names().map(|name| printable(name).into_owned()).collect();
    let stopped = if names.is_empty() { String::new() } else { format!("; stopped: {}", names.join(", ")) };
    vec![data.join(", "), jobs + &stopped]
}

/// Returns the banks in the order of the tree.
fn list_banks(stats: &Stats) -> Vec<TopRow> {
    let tree = BankTree::new(&stats.banks);
    let [running, pending, held] =
        [&stats.running, &stats.pending, &stats.held].map(|loads| count_jobs_in_bank_subtrees(loads, &tree));
    let count = |jobs: &BTreeMap<&str, u64>, bank: &str| jobs.get(bank).copied().unwrap_or(0);
    let below = group_all(stats.banks.iter().enumerate().map(|(at, bank)| (bank.parent.as_deref(), at)));
    let mut walk: Vec<(usize, usize)> =
        below.get(&None).into_iter().flatten().rev().map(|at| (*at, 0)).collect();
    let mut banks = Vec::new();
    while let Some((at, depth)) = walk.pop() {
        // If a bank is its own parent, this limit on the number of banks ends the loop.
        let Some(bank) = stats.banks.get(at).filter(|_| banks.len() < stats.banks.len()) else { continue };
        let jobs = [&running, &pending, &held].map(|jobs| count(jobs, &bank.bank));
        let parts = [bank.shares_part, bank.usage_part];
        banks.push(make_bank_row((depth, &bank.bank), parts, bank.level(), Some(jobs)));
        walk.extend(
            below.get(&Some(bank.bank.as_str())).into_iter().flatten().rev().map(|at| (*at, depth + 1)),
        );
    }
    banks
}

/// Returns the number of jobs of each bank, including the banks below it.
fn count_jobs_in_bank_subtrees<'a>(loads: &'a [Load], tree: &BankTree<'a>) -> BTreeMap<&'a str, u64> {
    let mut jobs: BTreeMap<&str, u64> = BTreeMap::new();
    for load in loads {
        for bank in tree.path(load.bank.as_deref()) {
            *jobs.entry(bank).or_default() += load.jobs;
        }
    }
    jobs
}

/// Returns the banks that a guest may see, in the order of the tree: the banks above the guest's associations,
/// and the siblings of these banks.
fn list_visible_banks(standing: &Standings) -> Vec<TopRow> {
    let mut banks: Vec<(usize, &Sibling)> = Vec::new();
    let is_bank = |node: &&Sibling| node.kind == "bank";
    for association in &standing.associations {
        // Index in `banks` at which the banks of this level begin.
        let mut first = 0;
        for (depth, level) in association.levels.iter().enumerate().filter(|(_, level)| is_bank(&&level.node))
        {
            for node in std::iter::once(&level.node).chain(&level.siblings).filter(is_bank) {
                if !banks.iter().any(|(_, bank)| bank.name == node.name) {
                    let siblings = banks.iter().skip(first).take_while(|bank| bank.0 >= depth).count();
                    banks.insert(first + siblings, (depth, node));
                }
            }
            let above = banks.iter().position(|(_, bank)| bank.name == level.node.name);
            first = above.map_or(banks.len(), |above| above + 1);
        }
    }
    let row = |(depth, node): (usize, &Sibling)| {
        // The root has no siblings, so the plugin sends neither share nor usage for it. Both are 1.
        let of_root = if depth == 0 { 1.0 } else { 0.0 };
        let parts = [node.shares_part, node.usage_part].map(|part| part.unwrap_or(of_root));
        make_bank_row((depth, &node.name), parts, node.value, None)
    };
    banks.into_iter().map(row).collect()
}

/// Returns the time that refreshes and pushes take, as names and values.
fn list_costs(stats: &Stats) -> Vec<(String, String)> {
    let mut cost = Vec::new();
    let mut add = |name: &str, value: String| cost.push((name.to_owned(), value));
    if let Some(last) = &stats.refresh.last {
        add("last refresh", format_milliseconds(last.seconds.unwrap_or_default()));
        add("fair-shares changed", number(last.changed));
        add("priorities posted", number(last.touched));
    }
    if stats.refresh.total > 0 {
        add("refreshes", number(stats.refresh.total));
        add("mean refresh", format_milliseconds(stats.refresh.seconds_total / stats.refresh.total as f64));
    }
    add("stale jobs", number(stats.refresh.lagging));
    if let Some(last) = &stats.push.last {
        add("last push", format_milliseconds(last.seconds));
    }
    cost
}

fn format_milliseconds(seconds: f64) -> String {
    format!("{:.3} ms", seconds * 1e3)
}
