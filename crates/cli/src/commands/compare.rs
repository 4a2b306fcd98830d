// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare compare`: compares ranking policies on the same tree.

use serde::Serialize;

use crate::fingers;
use crate::outcome::{Answer, Outcome, failure};
use crate::plugin::ask::InstanceArg;
use crate::site::facts::{OptionValues, SourceFacts, option_values};
use crate::site::input::{Input, Loaded, Rules, rank};
use crate::site::moves::{self, Moves, RankChangeTotals, RankedTree, Titles};
use crate::site::names::add_sums_to_banks_above;
use crate::ui::output::{Facts, LimitArg, OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Look, Rows, Style, column};
use fairshare::{NodeId, NodeKind, Options, Policy, Ranking, Tree};

/// Compare policies on the same tree: gains, losses, and how much the orders differ
///
/// For two policies, shows each user that gains or loses places, and the sums of each bank. For more
/// policies, or for all if --policy names none, shows each user's place by each policy, and the mean place of
/// the users below each bank.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The policies to compare, the site's present policy first; a single policy is compared with it [default: all]
    #[arg(
        long = "policy",
        alias = "policies",
        value_name = "POLICY",
        value_delimiter = ',',
        value_parser = fingers::parse_policy,
        help_heading = "Rules"
    )]
    policies: Vec<Policy>,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    limit: LimitArg,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    let policies = if args.policies.is_empty() { &Policy::ALL[..] } else { &args.policies };
    args.rules.apply_to(policies)?;
    let first = |policy: &Policy| policies.iter().position(|other| other == policy);
    if let Some((_, policy)) = policies.iter().enumerate().find(|(at, policy)| first(policy) != Some(*at)) {
        return Err(failure(format!("--policy: {policy} is given twice")));
    }
    let mut progress = Progress::start();
    let loaded = args.input.load_live_or_given_tree(&args.rules, &args.instance, &mut progress)?;
    let options = loaded.options;
    progress.phase("ranking", || 0);
    let policies = match args.policies.as_slice() {
        [] => all_policies(&loaded),
        [other] => vec![loaded.require_policy()?, *other],
        several => several.to_vec(),
    };
    let source = loaded.place(args.input.source());
    let mut rankings = Vec::new();
    let mut notes = Vec::new();
    for policy in policies {
        match rank(source, &loaded.tree, policy, &options) {
            Ok(ranking) => rankings.push(ranking),
            // Without --policy, a policy that can't rank this tree causes a note, not an error.
            Err(error) if args.policies.is_empty() => notes.push(format!("without {policy}: {error}")),
            Err(error) => return Err(error),
        }
    }
    match rankings.as_slice() {
        [first, second] => compare_two_policies(args, &loaded, (first, second), &options, progress),
        several => compare_many(args, &loaded, several, &options, notes, progress),
    }
}

/// Returns all policies. The first is the policy of the loaded site.
fn all_policies(loaded: &Loaded) -> Vec<Policy> {
    let others = Policy::ALL.into_iter().filter(|policy| *policy != loaded.policy);
    std::iter::once(loaded.policy).chain(others).collect()
}

fn compare_two_policies(
    args: &Args,
    loaded: &Loaded,
    (first, second): (&Ranking, &Ranking),
    options: &Options,
    mut progress: Progress,
) -> Outcome {
    progress.phase("sorting", || 0);
    let side = |ranking| RankedTree { tree: &loaded.tree, ranking };
    let moves = Moves::new(side(first), side(second), Some);
    let (first, second) = (first.policy().name(), second.policy().name());
    let fairshares = [format!("{first} FS"), format!("{second} FS")];
    let titles = Titles { places: [first, second], fairshares: fairshares.each_ref().map(String::as_str) };
    let facts = TwoPolicyReport {
        policies: [first, second],
        options: option_values(options),
        totals: moves.totals(),
        source: SourceFacts::new(loaded),
    };
    let mut report = moves.report(&titles, Facts::new(&facts)?, args.limit.most_rows(args.output));
    let head = loaded.head(args.input.source());
    report.before.extend(head.map(|head| format!("{head} Policies: {first} and {second}.")));
    args.output.print_as(report, Look { give_up: moves::GIVE_UP, ..Look::WHOLE }, progress)?;
    Ok(Answer::Yes)
}

fn compare_many(
    args: &Args,
    loaded: &Loaded,
    rankings: &[Ranking],
    options: &Options,
    mut notes: Vec<String>,
    mut progress: Progress,
) -> Outcome {
    progress.phase("sorting", || 0);
    let tree = &loaded.tree;
    let places =
        |leaf: NodeId| rankings.iter().map(|ranking| ranking.place(leaf)).collect::<Option<Vec<_>>>();
    let spread = |places: &[usize]| {
        places.iter().max().zip(places.iter().min()).map_or(0, |(last, first)| last - first)
    };
    let mut list: Vec<(NodeId, Vec<usize>)> =
        tree.leaves().filter_map(|leaf| Some((leaf, places(leaf)?))).collect();
    let sums = sum_places(tree, &list, rankings.len());
    list.sort_by(|a, b| spread(&b.1).cmp(&spread(&a.1)).then(a.0.cmp(&b.0)));
    let ranked = list.len();
    let (shown, more) = args.output.limit_rows(ranked, args.limit.limit);
    notes.extend(more);
    notes.push(format!(
        "{}: the place of each user by each policy (1 is first); below, the mean place of the users of each bank",
        count(ranked, "association")
    ));
    let policies: Vec<&'static str> = rankings.iter().map(|ranking| ranking.policy().name()).collect();
    let rows = list.iter().take(shown).map(|(leaf, places)| {
        let mut row = vec![
            Cell::Text(tree.name(*leaf).to_owned()),
            tree.parent(*leaf).map_or(Cell::None, |bank| Cell::Text(tree.name(bank).to_owned())),
        ];
        row.extend(places.iter().map(|place| Cell::Count(*place as u64)));
        row
    });
    let walk = rankings.first().map(|first| first.walk(tree)).unwrap_or_default();
    let of_bank = walk.into_iter().filter(|(node, _)| tree.kind(*node) == NodeKind::Bank).filter_map(
        |(node, depth)| {
            let (users, sums) = sums.get(node.index()).filter(|(users, _)| *users > 0)?;
            let mut row =
                vec![Cell::Node { depth, bank: true, name: tree.name(node).to_owned() }, Cell::Count(*users)];
            row.extend(sums.iter().map(|sum| Cell::Number((sum / *users as f64 * 10.0).round() / 10.0)));
            Some(row)
        },
    );
    let facts = ManyPolicyReport {
        policies: policies.clone(),
        options: option_values(options),
        ranked,
        source: SourceFacts::new(loaded),
    };
    let report = Report {
        facts: Facts::new(&facts)?,
        before: loaded.head(args.input.source()).into_iter().collect(),
        rows: Rows { key: "associations", columns: association_columns(&policies), rows: Box::new(rows) },
        more: Some(Rows { key: "banks", columns: bank_columns(&policies), rows: Box::new(of_bank) }),
        notes,
        ..Report::default()
    };
    args.output.print_as(report, Look::WHOLE, progress)?;
    Ok(Answer::Yes)
}

/// Returns the columns of the table of associations: user, bank, and for each policy the association's place.
pub(super) fn association_columns(policies: &[&'static str]) -> Vec<Column<'static>> {
    let named = [column("user", "User", Style::Text), column("bank", "Bank", Style::Text)];
    named.into_iter().chain(policies.iter().map(|policy| column(policy, policy, Style::Count))).collect()
}

/// Returns the columns of the table of banks. Each policy has a column with the mean place of the bank's users.
pub(super) fn bank_columns(policies: &[&'static str]) -> Vec<Column<'static>> {
    let named = [column("bank", "Bank", Style::Text), column("users", "Users", Style::Count)];
    named.into_iter().chain(policies.iter().map(|policy| column(policy, policy, Style::Mean))).collect()
}

/// The JSON document of a comparison of two policies, except the lists of associations and banks.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct TwoPolicyReport {
    policies: [&'static str; 2],
    options: OptionValues,
    #[serde(flatten)]
    totals: RankChangeTotals,
    #[serde(flatten)]
    source: SourceFacts,
}

/// The JSON document of a comparison of several policies, except its rows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ManyPolicyReport {
    policies: Vec<&'static str>,
    options: OptionValues,
    /// The number of ranked associations.
    ranked: usize,
    #[serde(flatten)]
    source: SourceFacts,
}

/// Returns, by node index, the number of ranked associations at or below a node and the sum of their places by each policy.
fn sum_places(tree: &Tree, list: &[(NodeId, Vec<usize>)], policies: usize) -> Vec<(u64, Vec<f64>)> {
    let mut sums = vec![(0, vec![0.0; policies]); tree.len()];
    for (leaf, places) in list {
        if let Some(sum) = sums.get_mut(leaf.index()) {
            *sum = (1, places.iter().map(|place| *place as f64).collect());
        }
    }
    add_sums_to_banks_above(tree, &mut sums, |(users, sums), (more, places)| {
        *users += more;
        sums.iter_mut().zip(places).for_each(|(sum, place)| *sum += place);
    });
    sums
}
