// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare show`: the tree with every number of a policy.

use std::cmp::Ordering;
use std::collections::HashSet;

use serde_json::{Map, Value};

use super::columns::{self, Chosen, Node};
use super::input::{Input, PolicyArg, Rules, rank};
use super::output::{Cell, OutputArgs, Report, colour};
use super::progress::Progress;
use super::{Answer, Failure, Outcome};
use crate::fairshare::{NodeId, NodeKind, Options, Policy, Ranking, Tree};

/// Show the tree: shares, usage and fair-share of every bank and user
///
/// Computes the fair-shares afresh; the database is only read. Siblings come in the order of their fair-share, the most
/// deserving first.
#[derive(Debug, clap::Args)]
#[command(after_long_help = columns::help())]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// Only these users, with the banks above them
    #[arg(short, long, value_name = "USER", value_delimiter = ',', help_heading = "Selection")]
    user: Vec<String>,
    /// Only these banks and what is below them, with the banks above
    #[arg(short, long, value_name = "BANK", value_delimiter = ',', help_heading = "Selection")]
    bank: Vec<String>,
    /// Only this many levels below the root
    #[arg(short, long, value_name = "LEVELS", help_heading = "Selection")]
    depth: Option<usize>,
    /// Order of siblings: name, list (as the input has them) or a column; larger numbers first, with a leading - last
    #[arg(
        short,
        long,
        value_name = "ORDER",
        default_value = "fairshare",
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    sort: String,
    /// More columns; says who is under-served and who over-served
    #[arg(short, long, help_heading = "Output")]
    long: bool,
    /// Columns, separated by commas; --help lists them
    #[arg(short = 'o', long, value_name = "COLUMNS", value_delimiter = ',', help_heading = "Output")]
    columns: Vec<String>,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    let options = args.rules.options()?;
    let policy = args.policy.of(&args.input, &options)?;
    let chosen = choose(args, policy)?;
    let order = Order::parse(&args.sort)?;
    let mut progress = Progress::start();
    let tree = args.input.load(&options, &mut progress)?;
    progress.phase("ranking", || 0);
    let ranking = rank(args.input.source(), &tree, policy, &options)?;
    let selected = match select(args, &tree) {
        Ok(selected) => selected,
        Err(missing) => {
            eprintln!("flux-fairshare: {}: {missing}", args.input.source().display());
            return Ok(Answer::No);
        }
    };
    let mut nodes = order.walk(&tree, &ranking);
    nodes.retain(|(node, depth)| {
        args.depth.is_none_or(|deepest| *depth <= deepest)
            && selected.as_ref().is_none_or(|selected| selected.contains(node))
    });
    drop(progress);
    let rows = nodes.iter().map(|&(node, depth)| {
        let node = Node::new(&tree, &ranking, node, depth);
        chosen.iter().map(|chosen| (chosen.value)(&node)).collect::<Vec<Cell>>()
    });
    args.output.print(Report {
        facts: facts(policy, &options),
        rows_key: "nodes",
        columns: chosen.iter().map(|chosen| chosen.column).collect(),
        rows: Box::new(rows),
        notes: Vec::new(),
    })?;
    Ok(Answer::Yes)
}

/// `policy` and `options` as JSON documents name them.
pub(super) fn facts(policy: Policy, options: &Options) -> Vec<(&'static str, Value)> {
    vec![("policy", policy.name().into()), ("options", options_json(options))]
}

/// The options as a JSON object; numbers are numbers.
pub(super) fn options_json(options: &Options) -> Value {
    let value = |text: String| text.parse::<f64>().map_or_else(|_| Value::from(text), Value::from);
    Value::Object(
        options
            .settings()
            .into_iter()
            .map(|(name, text)| (name.to_owned(), value(text)))
            .collect::<Map<_, _>>(),
    )
}

fn choose(args: &Args, policy: Policy) -> Result<Vec<Chosen>, Failure> {
    let names: Vec<&str> = match (args.columns.is_empty(), args.output.is_table()) {
        (false, _) => args.columns.iter().map(String::as_str).collect(),
        (true, false) => columns::of_document(policy),
        (true, true) => columns::of_table(policy, args.long, colour()),
    };
    columns::choose(names).map_err(|text| Failure::Message(format!("-o: {text}")))
}

/// The nodes asked for and all above them; `None` is all. The error says who is not there.
fn select(args: &Args, tree: &Tree) -> Result<Option<HashSet<NodeId>>, String> {
    if args.user.is_empty() && args.bank.is_empty() {
        return Ok(None);
    }
    let mut below: HashSet<NodeId> = HashSet::new();
    for name in &args.bank {
        let mut todo = vec![tree.bank(name).ok_or_else(|| format!("no bank \"{name}\""))?];
        while let Some(node) = todo.pop() {
            if below.insert(node) {
                todo.extend(tree.children(node));
            }
        }
    }
    let mut selected = HashSet::new();
    if args.user.is_empty() {
        let banks = args.bank.iter().filter_map(|name| tree.bank(name));
        selected.extend(banks.flat_map(|bank| above(tree, bank)));
        selected.extend(below);
        return Ok(Some(selected));
    }
    for name in &args.user {
        let mut found = false;
        for leaf in tree.leaves_of(name).filter(|leaf| args.bank.is_empty() || below.contains(leaf)) {
            found = true;
            selected.insert(leaf);
            selected.extend(above(tree, leaf));
        }
        if !found {
            let place = if args.bank.is_empty() { "" } else { " in that bank" };
            return Err(format!("no user \"{name}\"{place}"));
        }
    }
    Ok(Some(selected))
}

fn above(tree: &Tree, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    std::iter::successors(tree.parent(node), |bank| tree.parent(*bank))
}

/// The order siblings are shown in.
enum Order {
    Rank,
    Name,
    List,
    Column(Chosen, bool),
}

impl Order {
    fn parse(text: &str) -> Result<Order, Failure> {
        let (key, reverse) = text.strip_prefix('-').map_or((text, false), |key| (key, true));
        Ok(match (key, reverse) {
            ("fairshare", false) => Order::Rank,
            ("name", false) => Order::Name,
            ("list", false) => Order::List,
            _ => {
                let chosen =
                    columns::choose([key]).map_err(|text| Failure::Message(format!("--sort: {text}")))?;
                Order::Column(
                    *chosen.first().ok_or_else(|| Failure::Message("--sort: no column".into()))?,
                    reverse,
                )
            }
        })
    }

    /// Every node with its depth, parents before children.
    fn walk(&self, tree: &Tree, ranking: &Ranking) -> Vec<(NodeId, usize)> {
        let (value, reverse) = match self {
            Order::Rank => return ranking.walk(tree),
            Order::Name => return tree.walk(),
            Order::List => return tree.walk_list_order(),
            Order::Column(chosen, reverse) => (chosen.value, *reverse),
        };
        let mut nodes = Vec::with_capacity(tree.len());
        let mut todo = vec![(tree.root(), 0)];
        while let Some((node, depth)) = todo.pop() {
            nodes.push((node, depth));
            if tree.kind(node) == NodeKind::Association {
                continue;
            }
            let mut children: Vec<(Cell, NodeId)> = tree
                .children(node)
                .map(|child| (value(&Node::new(tree, ranking, child, depth + 1)), child))
                .collect();
            children.sort_by(|(a, x), (b, y)| {
                let order = compare(a, b);
                let order = if reverse { order.reverse() } else { order };
                order.then_with(|| tree.name(*x).cmp(tree.name(*y)))
            });
            // Taken from the end.
            todo.extend(children.iter().rev().map(|(_, child)| (*child, depth + 1)));
        }
        nodes
    }
}

/// Larger numbers first, texts ascending, nothing last.
fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Number(a), Cell::Number(b)) => b.total_cmp(a),
        (Cell::Count(a), Cell::Count(b)) => b.cmp(a),
        (Cell::Flag(a), Cell::Flag(b)) => b.cmp(a),
        (Cell::Text(a), Cell::Text(b)) => a.trim_start().cmp(b.trim_start()),
        (Cell::None, Cell::None) => Ordering::Equal,
        (Cell::None, _) => Ordering::Greater,
        (_, Cell::None) => Ordering::Less,
        // shares: "parent" after numbers.
        (Cell::Text(_), _) => Ordering::Greater,
        (_, Cell::Text(_)) => Ordering::Less,
        _ => Ordering::Equal,
    }
}
