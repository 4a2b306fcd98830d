// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare why`: explains a fair-share, the order of two users or banks, a job, or the order of two jobs.

mod compare;
mod explain;
pub(super) mod job;
pub(super) mod json;
mod outlook;
mod text;

use std::time::Duration;

use super::standing;
use crate::outcome::{Answer, Failure, Outcome, Result, failure};
use crate::plugin::ask::InstanceArg;
use crate::site::facts::{PolicyFacts, SourceFacts};
use crate::site::input::{Input, PolicyArg, Rules, rank};
use crate::site::names::{
    bank_of, describe_ambiguous_bank, describe_unknown_user, find_associations, list_partitions,
    resolve_user_id,
};
use crate::ui::figures::{self, parse_half_life};
use crate::ui::messages::remark;
use crate::ui::output::{Facts, print_json_or_text};
use crate::ui::printable::{join_words, printable};
use crate::ui::progress::Progress;
use crate::ui::screen::ScreenArgs;
use crate::ui::suggest::did_you_mean;
use crate::ui::teller::ScreenText;
use crate::ui::words::{caller, userid};
pub(super) use explain::find_level_that_costs_most;
use fairshare::{NodeId, NodeKind, Tree};
use fairshare_accounting::pipeline::StoredPeriods;
use fairshare_accounting::store::{Pace, UsageBin};
use fairshare_client::user_name;
use json::ExplainedNodes;
pub(super) use outlook::find_time_below;
use text::Site;

pub(super) fn run(args: &Args) -> Outcome {
    let mut texts = [Some(&args.first), args.second.as_ref()].into_iter().flatten();
    let names_a_job = || texts.clone().any(|text| job::is_job(text));
    if !args.input.is_given() && (names_a_job() || texts.any(|text| job::is_known_job(args, text))) {
        return job::run(args);
    }
    let mut progress = Progress::start();
    let loaded = match args.input.load_live_or_given_tree(&args.rules, &args.instance, &mut progress) {
        Err(Failure::No(denied)) => return print_answer_for_guest(args, denied, progress),
        loaded => loaded?,
    };
    let place = loaded.place(args.input.source());
    let options = loaded.options;
    let policy = args.policy.choose_policy_for_tree(&loaded)?;
    args.rules.apply_to(&[policy])?;
    let tree = &loaded.tree;
    progress.phase("ranking", || 0);
    let ranking = rank(place, tree, policy, &options)?;
    drop(progress);
    let screen = args.screen.screen();
    let now = figures::now();
    let site = Site {
        tree,
        ranking: &ranking,
        policy,
        levels: if args.long { usize::MAX } else { 24 },
        unit: loaded.unit,
        out: ScreenText::new(&screen),
        what_if: args.input.command_on_tree(
            "what-if",
            args.policy,
            &args.rules,
            args.instance.uri.as_deref(),
        ),
        pace: complete_usage_decay(args, loaded.pace, now)?,
        half_life: args.half_life.map(|half_life| half_life.as_secs_f64()).or(loaded.half_life),
        now,
        walk: ranking.pbs_walk(tree),
        site_has_walk: loaded.policy.is_ordered_by_pbs_walk(),
    };
    // Shell completion of a user name ends in a slash, so that the user can add a bank.
    let whole =
        |name: &'_ str| name.strip_suffix('/').filter(|user| !user.is_empty()).unwrap_or(name).to_owned();
    let names = std::iter::once(&args.first).chain(&args.second);
    let names: Vec<String> = names.map(|name| resolve_user_id(tree, &whole(name)).into_owned()).collect();
    let mut nodes = Vec::new();
    for name in names.iter().map(String::as_str) {
        let found = find(tree, name);
        if found.is_empty() {
            let missing = match loaded.left_out.iter().any(|bank| bank == name) {
                true => loaded.describe_missing_bank(name),
                false => describe_missing_name(tree, name),
            };
            remark(format_args!("{}: {missing}", place.display()));
            return Ok(Answer::No);
        }
        nodes.push((name, found));
    }
    let Facts(mut document) = Facts::new(&PolicyFacts::new(policy, &options))?;
    document.extend(Facts::new(&SourceFacts::new(&loaded))?.0);
    if let Some(head) = loaded.head(args.input.source()) {
        site.out.line(&head);
        site.out.blank();
    }
    match nodes.as_slice() {
        [(_, found)] => {
            let mut list = Vec::new();
            for (at, node) in found.iter().enumerate() {
                if at > 0 {
                    site.out.blank();
                    site.out.blank();
                }
                let explanation = ranking.explain(tree, *node);
                let is_bank = tree.kind(*node) == NodeKind::Bank;
                let has_bins = !is_bank && loaded.pace.is_some();
                let bins = if has_bins { usage_bins(args, tree, *node)? } else { Vec::new() };
                match (args.json, is_bank) {
                    (true, _) => list.push(site.explain_node(*node, &explanation, &bins)),
                    (false, true) => site.explain_bank(*node, &explanation),
                    (false, false) => site.explain(*node, &explanation, &bins),
                }
            }
            document.extend(Facts::new(&ExplainedNodes { associations: list })?.0);
        }
        [first, second] => {
            let (a, b) = (require_single_node(tree, first)?, require_single_node(tree, second)?);
            let comparison = ranking.compare(tree, a, b).ok_or_else(|| {
                let names = [first.0, second.0].map(printable);
                let [first, second] = &names;
                let what = match tree.kind(a) {
                    _ if a != b => "one above the other: there is nothing to compare",
                    NodeKind::Bank => "the same bank",
                    NodeKind::Association => "the same association",
                };
                failure(format!("{first} and {second} are {what}"))
            })?;
            if args.json {
                document.extend(Facts::new(&site.compared_nodes(a, b, &comparison))?.0);
            } else {
                site.compare(a, b, &comparison);
            }
        }
        _ => {}
    }
    print_json_or_text(&screen, args.json.then_some(&document), &site.out.into_bytes())?;
    Ok(Answer::Yes)
}

/// Answers a guest who may read neither the live tree nor the database. Prints the guest's own standing, or returns the reason
/// of the refusal.
fn print_answer_for_guest(args: &Args, denied: String, progress: Progress) -> Outcome {
    drop(progress);
    let name = args.first.split('/').next().unwrap_or_default();
    match (userid(name).ok(), &args.second) {
        (Some(user), None) if user == caller() && !args.json => {
            standing::print_own(&args.first, args.long, &args.instance, args.screen)
        }
        (Some(user), None) if user_name(user).is_none() => Err(Failure::No(format!(
            "no user has the id {name} on this machine, and Flux has no job {name}; \"flux fairshare standing\" shows your own live values"
        ))),
        _ => Err(Failure::No(denied)),
    }
}

/// Returns all associations of `USER` or `USER/BANK`, or else the bank with this name.
fn find(tree: &Tree, name: &str) -> Vec<NodeId> {
    let found = find_associations(tree, name);
    if found.is_empty() { tree.bank(name).into_iter().collect() } else { found }
}

/// Describes why a name was not found, with similar names.
fn describe_missing_name(tree: &Tree, name: &str) -> String {
    if let Some((user, bank)) = name.split_once('/')
        && let Some(node) = tree.bank(bank)
    {
        let parts = list_partitions(tree, user).into_iter().filter(|leaf| tree.parent(*leaf) == Some(node));
        let parts: Vec<String> = parts.map(|leaf| format!("{}/{bank}", tree.name(leaf))).collect();
        if !parts.is_empty() {
            return format!(
                "{user} has an association per partition in bank {bank}: say {}",
                parts.join(" or ")
            );
        }
    }
    let elsewhere = name.split_once('/').and_then(|(user, bank)| {
        let banks: Vec<&str> = tree.list_leaves_of_user(user).map(|leaf| bank_of(tree, leaf)).collect();
        let list = format!("in {}", join_words(banks.first().map(|_| &banks)?));
        Some(match tree.bank(bank) {
            Some(_) => format!("{user} is not in bank {bank}, but {list}"),
            None => {
                let near = did_you_mean(bank, tree.banks().map(|bank| tree.name(bank)));
                format!("there is no bank {bank}; {user} is {list}{near}")
            }
        })
    });
    elsewhere.unwrap_or_else(|| describe_unknown_user(tree, name))
}

fn require_single_node(tree: &Tree, (name, found): &(&str, Vec<NodeId>)) -> Result<NodeId> {
    match found.as_slice() {
        [node] => Ok(*node),
        several => Err(describe_ambiguous_bank(tree, name, several)),
    }
}

/// Sets two values of the usage decay `pace`: the number of period boundaries at which the stored usage has not
/// decayed yet, and the highest number of stored periods.
fn complete_usage_decay(args: &Args, pace: Option<Pace>, now: f64) -> Result<Option<Pace>> {
    let (Some(pace), Some(database)) = (pace, args.input.database()) else { return Ok(pace) };
    let mut database = database?;
    let snapshot = database.snapshot()?;
    let longest = pace.for_rows(snapshot.oldest_period()?).periods;
    Ok(Some(Pace { due: StoredPeriods::count_due_boundaries(&snapshot, now), longest, ..pace }))
}

/// Returns the recorded usage by period; empty if the tree does not come from a database.
fn usage_bins(args: &Args, tree: &Tree, node: NodeId) -> Result<Vec<UsageBin>> {
    let Some(database) = args.input.database() else { return Ok(Vec::new()) };
    let mut database = database?;
    let snapshot = database.snapshot()?;
    snapshot.usage_bins(tree.name(node), bank_of(tree, node)).map_err(failure)
}

/// Explain why a job is waiting, a user's or a bank's fair-share, or why one is ahead of another
///
/// One pending job: its place in its queue, the scheduler's estimate of its start, the terms of its priority, the limits that hold it
/// now and until when at the latest, other reasons why it is waiting, such as too few free nodes, and what would help. A running or
/// ended job: how long it waited, what held it, and its priorities, from its eventlog. Two jobs: the term, or the level of the tree,
/// that decides.
///
/// A job id may have any form that Flux accepts. The plugin answers: users may ask about their own jobs, the instance owner about all
/// jobs. If the second job belongs to another user, the priorities and their terms are compared if the setting "public" of the plugin
/// is "all". Otherwise the two priorities are compared, and the answer names the terms that can differ. If a text could be a user or a
/// job id, it is a user.
///
/// Users and banks: if the plugin answers and neither a database nor a document is named, this explains the plugin's live tree;
/// otherwise the database. The first line says which. Only the instance owner and users with Flux's admin role may read the live tree;
/// "flux fairshare standing" shows all users their own live values, and so does why for your own name if you may not read the database.
///
/// One user or bank: the levels from the root down, the level that lowers the fair-share most, the next user or bank ahead, what
/// would change the order, and when usage is back at the share. Two: the lowest bank that contains both, the two nodes right
/// below this bank, and the shares and usage that decide.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A job, a bank, or a user (with /BANK if the user is in several banks)
    #[arg(value_name = "JOBID|USER[/BANK]")]
    first: String,
    /// The job, the user, or the bank, to compare with
    #[arg(value_name = "JOBID2|USER2[/BANK2]")]
    second: Option<String>,
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// Show every level of a very deep tree
    #[arg(short, long, help_heading = "Output")]
    long: bool,
    /// Print a JSON document
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// The half-life of usage, like 7d, for trees without a half-life; databases have one
    #[arg(long, value_name = "DURATION", value_parser = parse_half_life, help_heading = "Rules")]
    half_life: Option<Duration>,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    screen: ScreenArgs,
}
