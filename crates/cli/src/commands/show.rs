// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare show`: prints the tree with shares, usage and fair-shares.

use std::collections::HashSet;

use serde::Serialize;

use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::InstanceArg;
use crate::site::facts::{PolicyFacts, SourceFacts, count_stale};
use crate::site::input::{Input, Loaded, PolicyArg, Rules, rank};
use crate::site::names::{describe_unknown_user, list_partitions, resolve_user_id};
use crate::ui::columns::{self, NodeColumn, View};
use crate::ui::figures::{Unit, number};
use crate::ui::messages::remark;
use crate::ui::order::Order;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Look, Rows, Style};
use fairshare::{NodeId, NodeKind, Policy, Ranking, Tree};

/// Show the tree: shares, usage and fair-share of every bank and user
///
/// Shows the live tree of the plugin if the plugin answers and neither a database nor a document is named; otherwise the database.
/// The line above the table says which. The plugin shows the live tree only to the instance owner and to users with Flux's admin role;
/// "flux fairshare standing" shows all users their own live values. Recomputes the fair-shares and changes nothing. Siblings are sorted by fair-share, the
/// highest first.
#[derive(Debug, clap::Args)]
#[command(after_long_help = columns::columns_help())]
// --format chooses columns here, so it can't be an alias of --tree-format.
#[command(mut_arg("tree_format", |format| format.alias(None)))]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// Show only these users, by name or number, and the banks above them
    #[arg(short, long, value_name = "USER", value_delimiter = ',', help_heading = "Selection")]
    user: Vec<String>,
    /// Show only these banks, all banks and users below them, and the banks above
    #[arg(
        short,
        long,
        short_alias = 'A',
        alias = "accounts",
        value_name = "BANK",
        value_delimiter = ',',
        help_heading = "Selection"
    )]
    bank: Vec<String>,
    /// Show only users, no banks, like sshare -U
    #[arg(short = 'U', long, alias = "Users", help_heading = "Selection")]
    users_only: bool,
    /// All users, which is the default; accepted for users of sshare
    #[arg(short = 'a', long, hide = true)]
    all: bool,
    /// Show only this many levels below the root
    #[arg(long, short_alias = 'd', value_name = "LEVELS", help_heading = "Selection")]
    depth: Option<usize>,
    /// Sort siblings by this column, name, list (as the input has them), or pbs-walk (as PBS's scheduler compares them); with
    /// a leading -, the largest first
    #[arg(
        short = 'S',
        long,
        short_alias = 's',
        value_name = "ORDER",
        default_value = "-fairshare",
        allow_hyphen_values = true,
        help_heading = "Output"
    )]
    sort: String,
    /// Show more columns, among them whether a user is above or below its share
    #[arg(short, long, help_heading = "Output")]
    long: bool,
    /// Columns by name or title, separated by commas; --help lists them
    #[arg(
        short = 'o',
        long = "format",
        alias = "columns",
        value_name = "COLUMNS",
        value_delimiter = ',',
        help_heading = "Output"
    )]
    columns: Vec<String>,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

/// The JSON document without the nodes.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ShowFacts {
    #[serde(flatten)]
    policy: PolicyFacts,
    /// The number of stored fair-shares that differ from those shown; missing if none are stored.
    #[serde(skip_serializing_if = "Option::is_none")]
    stale: Option<usize>,
    #[serde(flatten)]
    source: SourceFacts,
}

/// A note about the columns. Some columns compare a node with its siblings, and others compare it with the whole
/// site.
const SIBLINGS: &str = "NormShares and Served compare a bank or user with its siblings only; NormUsage is a part of the site's usage.";

pub(super) fn run(args: &Args) -> Outcome {
    let order = Order::parse(&args.sort).map_err(|text| failure(format!("--sort: {text}")))?;
    let mut progress = Progress::start();
    let loaded = args.input.load_live_or_given_tree(&args.rules, &args.instance, &mut progress)?;
    let place = loaded.place(args.input.source());
    let options = loaded.options;
    let policy = args.policy.choose_policy_for_tree(&loaded)?;
    args.rules.apply_to(&[policy])?;
    if order.is_pbs_walk_order() && !policy.is_ordered_by_pbs_walk() {
        let text = format!("--sort: policy {policy} has no order pbs-walk; add --policy pbs");
        return Err(failure(text));
    }
    let screen = args.output.screen();
    let chosen = choose_columns(args, policy, screen.colour, loaded.unit)?;
    let Loaded { tree, stored, .. } = &loaded;
    progress.phase("ranking", || 0);
    let ranking = rank(place, tree, policy, &options)?;
    let selected = match select_nodes(args, &loaded) {
        Ok(selected) => selected,
        Err(missing) => {
            drop(progress);
            remark(format_args!("{}: {missing}", place.display()));
            return Ok(Answer::No);
        }
    };
    progress.phase("sorting", || 0);
    let walk = if args.needs_pbs_order(&chosen) { ranking.pbs_walk(tree) } else { None };
    let view = View { tree, ranking: &ranking, stored, walk };
    let mut nodes = order.walk(&view);
    nodes.retain(|(node, depth)| {
        args.depth.is_none_or(|deepest| *depth <= deepest)
            && (!args.users_only || tree.kind(*node) == NodeKind::Association)
            && selected.as_ref().is_none_or(|selected| selected.contains(node))
    });
    let row = |&(node, depth): &(NodeId, usize)| {
        let node = view.node(node, depth);
        let cells = chosen.iter().map(|chosen| match (chosen.value)(&node) {
            // Without the rows of the banks, an indentation would suggest a wrong bank.
            Cell::Node { name, .. } if args.users_only => Cell::Text(name),
            cell => cell,
        });
        cells.collect::<Vec<Cell>>()
    };
    // Columns that are selected by name are never left out.
    let give_up = if args.columns.is_empty() { columns::give_up() } else { Vec::new() };
    // Only a database has stored fair-shares that can be stale. `loaded.pace` is set only if the tree is from a database.
    let stale = loaded.pace.map(|_| count_stale(tree, &ranking, stored));
    let facts =
        ShowFacts { policy: PolicyFacts::new(policy, &options), stale, source: SourceFacts::new(&loaded) };
    let instead =
        if policy == loaded.policy { String::new() } else { format!(", instead of {}", loaded.policy) };
    let head = loaded.head(args.input.source()).map(|head| format!("{head} Policy: {policy}{instead}."));
    let head = head.filter(|_| !args.output.no_header);
    let report = Report {
        facts: Facts::new(&facts)?,
        rows: Rows {
            key: "nodes",
            columns: chosen.iter().map(|chosen| chosen.column).collect(),
            rows: Box::new(nodes.iter().map(row)),
        },
        before: head.into_iter().collect(),
        notes: if args.output.no_header { Vec::new() } else { args.notes(policy, &ranking, stale) },
        ..Report::default()
    };
    args.output.print_as(report, Look { give_up: &give_up, ..Look::WHOLE }, progress)?;
    Ok(Answer::Yes)
}

impl Args {
    fn needs_pbs_order(&self, chosen: &[NodeColumn]) -> bool {
        chosen.iter().any(|chosen| chosen.column.key == "walk")
    }

    /// Returns the notes below the table.
    fn notes(&self, policy: Policy, ranking: &Ranking, stale: Option<usize>) -> Vec<String> {
        let mut notes = Vec::new();
        if self.columns.is_empty() {
            notes.extend(policy.table_note().map(str::to_owned));
            let names = columns::table_columns(policy, self.long, false);
            let is_of_siblings = policy.is_rank() && names.contains(&"served");
            notes.extend(is_of_siblings.then(|| SIBLINGS.to_owned()));
        }
        if let Some(stale) = stale.filter(|stale| *stale > 0) {
            let update = self.input.command_on_tree("update", self.policy, &self.rules, None);
            let push = self.input.command("push", self.instance.uri.as_deref());
            let differ = if stale == 1 { "differs" } else { "differ" };
            notes.push(format!(
                "{} of {} stored {differ} from those shown here; a plugin without live fair-share uses the stored ones. \
                 \"{update}\" stores these, --dry-run shows the changes; then \"{push}\" sends them.",
                number(stale),
                count(ranking.ranked(), "fair-share"),
            ));
        }
        notes
    }
}

fn choose_columns(args: &Args, policy: Policy, bars: bool, unit: Unit) -> Result<Vec<NodeColumn>> {
    let mut names: Vec<&str> = match (args.columns.is_empty(), args.output.is_table()) {
        (false, _) => args.columns.iter().map(String::as_str).collect(),
        (true, false) => columns::document_columns(policy),
        (true, true) => columns::table_columns(policy, args.long, bars),
    };
    // If the rows of banks are not shown, a column shows the bank of each association.
    if args.users_only && args.columns.is_empty() && args.output.is_table() {
        names.insert(1, "bank");
    }
    let chosen: Result<Vec<NodeColumn>, String> = names.into_iter().map(columns::find_column).collect();
    let mut chosen = chosen.map_err(|text| failure(format!("--format: {text}")))?;
    for NodeColumn { column, .. } in chosen.iter_mut().filter(|chosen| chosen.column.key == "usage") {
        column.style = Style::Usage(unit);
        column.title = if unit == Unit::NodeSeconds { "NodeHours (decayed)" } else { column.title };
    }
    if !args.output.is_table() && chosen.iter().any(|chosen| chosen.column.key == "bar") {
        let text =
            "--format: bar is a drawing, for the table only; its numbers are effective_usage and norm_shares";
        return Err(failure(text.to_owned()));
    }
    Ok(chosen)
}

/// Returns the selected nodes and all banks above them, or `None` for all nodes. The error names a user or bank that does not exist.
fn select_nodes(args: &Args, loaded: &Loaded) -> Result<Option<HashSet<NodeId>>, String> {
    let tree = &loaded.tree;
    if args.user.is_empty() && args.bank.is_empty() {
        return Ok(None);
    }
    let mut below: HashSet<NodeId> = HashSet::new();
    for name in &args.bank {
        let mut todo = vec![tree.bank(name).ok_or_else(|| loaded.describe_missing_bank(name))?];
        while let Some(node) = todo.pop() {
            if below.insert(node) {
                todo.extend(tree.children(node));
            }
        }
    }
    let mut selected = HashSet::new();
    if args.user.is_empty() {
        let banks = args.bank.iter().filter_map(|name| tree.bank(name));
        selected.extend(banks.flat_map(|bank| list_ancestors(tree, bank)));
        selected.extend(below);
        return Ok(Some(selected));
    }
    for name in &args.user {
        let name = &*resolve_user_id(tree, name);
        let mut found = false;
        for leaf in tree.list_leaves_of_user(name).filter(|leaf| args.bank.is_empty() || below.contains(leaf))
        {
            found = true;
            selected.insert(leaf);
            selected.extend(list_ancestors(tree, leaf));
        }
        if !found {
            return Err(if args.bank.is_empty() {
                describe_unknown_user(tree, name)
            } else {
                let parts = list_partitions(tree, name).into_iter().filter(|leaf| below.contains(leaf));
                let parts: Vec<&str> = parts.map(|leaf| tree.name(leaf)).collect();
                match parts.is_empty() {
                    true => format!("no user \"{name}\" in that bank"),
                    false => format!(
                        "no user \"{name}\" in that bank, but one association per partition: {}",
                        parts.join(", ")
                    ),
                }
            });
        }
    }
    Ok(Some(selected))
}

fn list_ancestors(tree: &Tree, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
    std::iter::successors(tree.parent(node), |bank| tree.parent(*bank))
}
