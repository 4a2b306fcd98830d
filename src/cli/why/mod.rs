// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare why`: what made a fair-share, or why one user is ahead of another.

mod json;
mod text;

use std::borrow::Cow;
use std::io::{self, Write, stdout};

use serde_json::Value;

use super::input::{Input, PolicyArg, Rules, rank};
use super::printable::printable;
use super::progress::Progress;
use super::show::{no_user, options_json};
use super::suggest::did_you_mean;
use super::{Answer, Failure, Outcome, failure, remark};
use crate::fairshare::{NodeId, NodeKind, Policy, Ranking, Tree};
use crate::store::UsageBin;

/// Explain a user's fair-share, or why one user is ahead of another, in words and numbers
///
/// For one user: the levels from the root down and where most was lost. For two: the first bank above both, the two nodes
/// right below it, and which shares and whose usage made the values that decide.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The user, with /BANK if in several
    #[arg(value_name = "USER[/BANK]")]
    first: String,
    /// The user to compare with
    #[arg(value_name = "USER2[/BANK2]")]
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
}

/// A ranked tree and how to talk about it.
struct Site<'a> {
    tree: &'a Tree,
    ranking: &'a Ranking,
    policy: Policy,
    /// Levels of one chain shown at most.
    levels: usize,
}

pub(super) fn run(args: &Args) -> Outcome {
    let options = args.rules.options()?;
    let mut progress = Progress::start();
    let loaded = args.input.load(&options, &mut progress)?;
    let policy = args.policy.of(&loaded);
    args.rules.apply_to(&[policy])?;
    let tree = loaded.tree;
    progress.phase("ranking", || 0);
    let ranking = rank(args.input.source(), &tree, policy, &options)?;
    drop(progress);
    let site =
        Site { tree: &tree, ranking: &ranking, policy, levels: if args.long { usize::MAX } else { 24 } };
    // A shell that completes names ends them in a slash, where a bank could follow.
    let whole =
        |name: &'_ str| name.strip_suffix('/').filter(|user| !user.is_empty()).unwrap_or(name).to_owned();
    let mut names = vec![whole(&args.first)];
    names.extend(args.second.as_deref().map(whole));
    let names = names.iter().map(String::as_str);
    let mut nodes = Vec::new();
    for name in names {
        let found = find(&tree, name);
        if found.is_empty() {
            let missing = missing(&tree, name);
            remark(format_args!("{}: {missing}", args.input.source().display()));
            return Ok(Answer::No);
        }
        nodes.push((name, found));
    }
    let facts = [("policy", Value::from(policy.name())), ("options", options_json(&options))];
    let mut document: serde_json::Map<String, Value> =
        facts.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    let mut text = Vec::new();
    match nodes.as_slice() {
        [(_, found)] => {
            let mut list = Vec::new();
            for node in found {
                let explanation = ranking.explain(&tree, *node);
                let bins = usage_bins(args, &tree, *node)?;
                if args.json {
                    list.push(site.explanation_json(*node, &explanation, &bins));
                } else {
                    site.explain(*node, &explanation, &bins, &mut text)?;
                }
            }
            document.insert("associations".to_owned(), list.into());
        }
        [first, second] => {
            let (a, b) = (one(&tree, first)?, one(&tree, second)?);
            let comparison = ranking.compare(&tree, a, b).ok_or_else(|| {
                let (first, second) = (printable(first.0), printable(second.0));
                Failure::Message(format!("{first} and {second} are the same association"))
            })?;
            if args.json {
                document.extend(site.comparison_json(a, b, &comparison));
            } else {
                site.compare(a, b, &comparison, &mut text)?;
            }
        }
        _ => {}
    }
    let mut out = stdout().lock();
    if args.json {
        serde_json::to_writer_pretty(&mut out, &document).map_err(io::Error::from)?;
        writeln!(out)?;
    } else {
        out.write_all(&text)?;
    }
    Ok(Answer::Yes)
}

/// All associations meant by `USER` or `USER/BANK`.
fn find(tree: &Tree, name: &str) -> Vec<NodeId> {
    let with_bank = name.split_once('/').and_then(|(user, bank)| tree.leaf(user, bank));
    match with_bank {
        Some(leaf) => vec![leaf],
        None => tree.leaves_of(name).collect(),
    }
}

/// What is there instead of a user that is not.
fn missing(tree: &Tree, name: &str) -> String {
    let elsewhere = name.split_once('/').and_then(|(user, bank)| {
        let banks: Vec<&str> = tree.leaves_of(user).map(|leaf| bank_of(tree, leaf)).collect();
        let (last, others) = banks.split_last()?;
        let list = if others.is_empty() {
            format!("in {last}")
        } else {
            format!("in {} and {last}", others.join(", "))
        };
        Some(match tree.bank(bank) {
            Some(_) => format!("{user} is not in bank {bank}, but {list}"),
            None => {
                let near = did_you_mean(bank, tree.banks().map(|bank| tree.name(bank)));
                format!("there is no bank {bank}; {user} is {list}{near}")
            }
        })
    });
    elsewhere.unwrap_or_else(|| no_user(tree, name))
}

fn one(tree: &Tree, (name, found): &(&str, Vec<NodeId>)) -> Result<NodeId, Failure> {
    match found.as_slice() {
        [node] => Ok(*node),
        several => {
            let names: Vec<String> =
                several.iter().map(|node| format!("{name}/{}", bank_of(tree, *node))).collect();
            let text = format!("{name} is in several banks: say {}", names.join(" or "));
            Err(Failure::Message(printable(&text).into_owned()))
        }
    }
}

fn bank_of(tree: &Tree, node: NodeId) -> &str {
    tree.parent(node).map_or("", |bank| tree.name(bank))
}

/// The recorded usage by period, where the tree comes from a database that keeps it.
fn usage_bins(args: &Args, tree: &Tree, node: NodeId) -> Result<Vec<UsageBin>, Failure> {
    let Some(database) = args.input.database() else { return Ok(Vec::new()) };
    let mut database = database?;
    let snapshot = database.snapshot().map_err(failure)?;
    snapshot.usage_bins(tree.name(node), bank_of(tree, node)).map_err(failure)
}

impl Site<'_> {
    /// A bank's name or an association's user, fit to be printed.
    fn name(&self, node: NodeId) -> Cow<'_, str> {
        printable(self.tree.name(node))
    }

    /// The name of the bank above, fit to be printed.
    fn bank(&self, node: NodeId) -> Cow<'_, str> {
        printable(bank_of(self.tree, node))
    }

    /// The three leaves below a bank that added most to its usage.
    fn top_users(&self, bank: NodeId) -> Vec<(NodeId, f64)> {
        let mut top: Vec<(NodeId, f64)> = Vec::new();
        let mut todo = vec![bank];
        while let Some(node) = todo.pop() {
            if self.tree.kind(node) == NodeKind::Bank {
                todo.extend(self.tree.children(node));
                continue;
            }
            let usage = self.ranking.counted_usage(self.tree, node);
            if usage > 0.0 {
                let at =
                    top.partition_point(|(other, most)| *most > usage || (*most == usage && *other < node));
                top.insert(at, (node, usage));
                top.truncate(3);
            }
        }
        top
    }
}
