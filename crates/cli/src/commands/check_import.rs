// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare check-import`: compares the values that another system computed with ours.

use std::collections::{BTreeMap, HashMap};
use std::io;

use serde::Serialize;
use serde_json::Value;

use crate::outcome::{Answer, Outcome, failure};
use crate::site::facts::PolicyFacts;
use crate::site::input::{Input, Loaded, PolicyArg, Rules, rank};
use crate::site::names::add_sums_to_banks_above;
use crate::ui::output::{Facts, LimitArg, OutputArgs, Report, json_number};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Look, Rows, Style, column};
use fairshare::{NodeDetail, NodeId, NodeKind, Options, Policy, Ranking, Ties, Tree};
use fairshare_import::{Claim, Claimant, Quantity, SLURM_FORMULAS};

/// Compare the values that Slurm, PBS or flux-accounting computed with ours
///
/// The document or database contains values that the other system computed: FairShare and LevelFS in sshare's output;
/// percentages, group usages and (after the table, from "pbsfs -g" for each node) fairshare_tree_usage in pbsfs's output;
/// fair-shares in flux-accounting's database. Each value is compared with ours to its last printed digit. A difference that can
/// come from usages printed as whole numbers counts as agreement; the output has the number of these differences. FairShares of 0
/// that Slurm had not computed yet are not compared; the output has their number. Without --policy and --set, all rules that the system may use are tried, and
/// the one that agrees best is reported.
///
/// Exit status 1 means that some values differ.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    #[command(flatten)]
    limit: LimitArg,
    #[command(flatten)]
    output: OutputArgs,
}

/// A value that the document states or the database stores, and the value that we compute for the same node.
struct Pair {
    node: NodeId,
    quantity: Quantity,
    theirs: f64,
    ours: Option<f64>,
    verdict: ValueMatch,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueMatch {
    Equal,
    /// The difference can come from usages that were printed as whole numbers.
    WithinRounding,
    Different,
}

/// The values of the document or the database, compared with the values that we compute with this policy and these options.
struct Trial {
    policy: Policy,
    options: Options,
    pairs: Vec<Pair>,
}

impl Trial {
    fn count_matching_values(&self) -> usize {
        self.pairs.iter().filter(|pair| pair.verdict != ValueMatch::Different).count()
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut progress = Progress::start();
    let loaded = args.input.load(&args.rules, &mut progress)?;
    let candidates = list_candidates(args, &loaded);
    let uncomputed = loaded.uncomputed;
    let policies: Vec<Policy> = candidates.iter().map(|(policy, _)| *policy).collect();
    args.rules.apply_to(&policies)?;
    let claims = collect_expected_values(&loaded);
    if claims.is_empty() {
        let text = match uncomputed {
            0 => HOLDS_NOTHING.to_owned(),
            number => format!("holds {}", describe_uncomputed_fairshares(number)),
        };
        return Err(failure(format!("{}: {text}", args.input.source().display())));
    }
    progress.phase("ranking", || 0);
    let number = candidates.len();
    let mut best: Option<Trial> = None;
    for (policy, options) in candidates {
        let ranking = rank(args.input.source(), &loaded.tree, policy, &options)?;
        let trial = Trial { policy, options, pairs: pair_values(&loaded.tree, &ranking, &claims) };
        if best.as_ref().is_none_or(|best| trial.count_matching_values() > best.count_matching_values()) {
            best = Some(trial);
        }
    }
    let Some(best) = best else { return Ok(Answer::No) };
    let all = best.count_matching_values() == best.pairs.len();
    print(args, &loaded, &best, number, progress)?;
    Ok(if all { Answer::Yes } else { Answer::No })
}

const HOLDS_NOTHING: &str = "has no values that the other system computed: \"sshare -a -l -P\", \"sshare -a --json\" and \
    pbsfs print such values";

/// Describes `number` FairShares that Slurm prints as 0 before it has computed them.
fn describe_uncomputed_fairshares(number: usize) -> String {
    let values = if number == 1 { "1 FairShare".to_owned() } else { format!("{number} FairShares") };
    format!(
        "{values} that Slurm prints as 0, because Slurm computes FairShare only once in PriorityCalcPeriod (5 minutes)"
    )
}

/// Returns the policies to try, each with its options. If the command line names a policy, only this policy is tried. Otherwise, each
/// policy is tried that may have computed the values of the document.
fn list_candidates(args: &Args, loaded: &Loaded) -> Vec<(Policy, Options)> {
    let options = loaded.options;
    let policies = match (args.policy.given(), loaded.policy) {
        (Some(policy), _) => vec![policy],
        (None, policy) if loaded.lacks_policy() => [policy].into_iter().chain(SLURM_FORMULAS).collect(),
        (None, policy) if SLURM_FORMULAS.contains(&policy) => SLURM_FORMULAS.to_vec(),
        (None, policy) => vec![policy],
    };
    let mut candidates = Vec::new();
    for policy in policies {
        candidates.push((policy, options));
        if Options::applies("ties", policy) && !args.rules.sets("ties") {
            candidates.push((policy, Options { ties: Ties::SlurmProgram, ..options }));
        }
    }
    candidates
}

/// Returns the values that the document claims or the database stores, each with its node.
fn collect_expected_values(loaded: &Loaded) -> Vec<(NodeId, Claim)> {
    let tree = &loaded.tree;
    if loaded.claims.is_empty() {
        let stored = |node: NodeId| {
            let index = tree.find_input_index(node);
            let value = loaded.stored.get(index)?.fairshare.filter(|_| tree.is_active(node))?;
            let of = Claimant::Association(index);
            // flux-accounting's own program stores six decimals.
            Some((node, Claim { node: of, quantity: Quantity::FairShare, value, half_unit: 5e-7 }))
        };
        return tree.leaves().filter_map(stored).collect();
    }
    let find_claimant = |node: NodeId| match tree.kind(node) {
        NodeKind::Bank => Claimant::Bank(tree.find_input_index(node)),
        NodeKind::Association => Claimant::Association(tree.find_input_index(node)),
    };
    let nodes: HashMap<Claimant, NodeId> =
        tree.banks().chain(tree.leaves()).map(|node| (find_claimant(node), node)).collect();
    loaded.claims.iter().filter_map(|claim| Some((*nodes.get(&claim.node)?, *claim))).collect()
}

fn pair_values(tree: &Tree, ranking: &Ranking, claims: &[(NodeId, Claim)]) -> Vec<Pair> {
    let rounding = Rounding { tree, ranking, counts: count_nodes_below(tree) };
    let pair = |(node, claim): &(NodeId, Claim)| {
        let detail = ranking.detail(tree, *node);
        let ours = find_computed_value(claim.quantity, &detail);
        let bound = || rounding.bound_difference(*node, claim.quantity, &detail);
        let verdict = compare_value(claim, ours, bound);
        Pair { node: *node, quantity: claim.quantity, theirs: claim.value, ours, verdict }
    };
    claims.iter().map(pair).collect()
}

fn find_computed_value(quantity: Quantity, detail: &NodeDetail) -> Option<f64> {
    match quantity {
        Quantity::FairShare => detail.fairshare,
        Quantity::LevelFs => detail.level_fs,
        Quantity::TreePercentage => detail.pbs.map(|pbs| pbs.fairshare_perc),
        Quantity::TreeUsage => detail.pbs.map(|pbs| pbs.fairshare_tree_usage),
        Quantity::GroupUsage => Some(detail.usage),
    }
}

/// The relative error of PBS's values, which PBS computes in single precision.
const SINGLE: f64 = 1e-6;

fn compare_value(claim: &Claim, ours: Option<f64>, rounding: impl FnOnce() -> f64) -> ValueMatch {
    let Some(ours) = ours else { return ValueMatch::Different };
    if ours == claim.value {
        return ValueMatch::Equal;
    }
    let off = (ours - claim.value).abs();
    let single = matches!(claim.quantity, Quantity::TreePercentage | Quantity::TreeUsage);
    // The tolerance is slightly more than half a unit in the last printed digit, because the printed number is itself
    // rounded to a double.
    let unit = claim.half_unit * 1.000_001 + if single { SINGLE } else { 1e-12 } * ours.abs().max(1.0);
    // NaN, or infinity on one side only, is a difference.
    if !off.is_finite() {
        ValueMatch::Different
    } else if off <= unit {
        ValueMatch::Equal
    } else if off <= unit + rounding() {
        ValueMatch::WithinRounding
    } else {
        ValueMatch::Different
    }
}

/// Returns the number of nodes at or below each node.
fn count_nodes_below(tree: &Tree) -> Vec<f64> {
    let mut counts = vec![1.0; tree.len()];
    add_sums_to_banks_above(tree, &mut counts, |sum, below| *sum += below);
    counts
}

/// The largest errors that come from the rounding of usages. The other system prints usages as whole numbers, so each
/// usage that a user or a bank has of its own may be up to one unit too small.
struct Rounding<'a> {
    tree: &'a Tree,
    ranking: &'a Ranking,
    /// The number of nodes at or below each node.
    counts: Vec<f64>,
}

impl Rounding<'_> {
    fn error_of_usage(&self, node: NodeId) -> f64 {
        self.counts.get(node.index()).copied().unwrap_or(0.0)
    }

    fn relative_error_of_usage(&self, node: NodeId) -> f64 {
        let usage = self.ranking.usage(self.tree, node);
        if usage > 0.0 { self.error_of_usage(node) / usage } else { 0.0 }
    }

    /// Returns the error of the effective usage if it is a mean of the usages on the path from the root.
    fn error_of_effective_usage(&self, node: NodeId) -> f64 {
        let Rounding { tree, ranking, .. } = self;
        let mut path: Vec<NodeId> = std::iter::successors(Some(node), |node| tree.parent(*node)).collect();
        path.pop();
        let of_root = self.relative_error_of_usage(tree.root());
        let (mut error, mut above) = (0.0, None);
        for node in path.into_iter().rev() {
            let detail = ranking.detail(tree, node);
            let own = detail.norm_usage * (self.relative_error_of_usage(node) + of_root);
            let part = above.filter(|above| *above > 0.0).map_or(0.0, |above| detail.norm_shares / above);
            error = own * (1.0 - part) + error * part;
            above = Some(detail.norm_shares);
        }
        error
    }

    /// Returns the largest difference between the other system's value and ours.
    fn bound_difference(&self, node: NodeId, quantity: Quantity, detail: &NodeDetail) -> f64 {
        let Rounding { tree, ranking, .. } = self;
        let of_root = self.relative_error_of_usage(tree.root());
        let path = || std::iter::successors(Some(node), |node| tree.parent(*node));
        match quantity {
            Quantity::LevelFs => {
                let level = detail.level_fs.filter(|level| level.is_finite()).unwrap_or(0.0);
                level * path().take(2).map(|node| self.relative_error_of_usage(node)).sum::<f64>()
            }
            // A rank-based fair-share does not depend on the rounding of usages.
            Quantity::FairShare if ranking.policy().is_rank() => 0.0,
            Quantity::FairShare => {
                let share = if detail.norm_shares > 0.0 { 1.0 / detail.norm_shares } else { 0.0 };
                let error = if ranking.policy().multiplies_usage_ratios() {
                    // Each level multiplies the usage ratio by a power of the quotient of two usages.
                    let relative = path().map(|node| self.relative_error_of_usage(node)).sum::<f64>();
                    DAMPING_SLOPE * relative * detail.effective_usage
                } else {
                    self.error_of_effective_usage(node)
                };
                detail.fairshare.unwrap_or(0.0) * std::f64::consts::LN_2 * error * share
            }
            Quantity::TreePercentage => 0.0,
            Quantity::TreeUsage => of_root,
            Quantity::GroupUsage => self.error_of_usage(node) * 0.5,
        }
    }
}

/// A factor for the error of an exponent that depends on usages itself.
const DAMPING_SLOPE: f64 = 4.0;

pub(super) const COLUMNS: [Column<'static>; 5] = [
    column("bank", "Bank", Style::Text),
    column("user", "User", Style::Text),
    column("quantity", "Value", Style::Text),
    column("theirs", "Theirs", Style::Fraction),
    column("ours", "Ours", Style::Fraction),
];

/// The JSON document without the differences.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CheckImportJsonFields {
    #[serde(flatten)]
    policy: PolicyFacts,
    #[serde(flatten)]
    total: Agreement,
    /// The number of values that differ from our values only because the document rounds usages to whole numbers.
    within_rounding: usize,
    /// The number of values that the scheduler had not computed yet when the document was exported.
    not_computed: usize,
    /// Messages about parts of the document that are not in the tree.
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    notes: Vec<String>,
    /// For each kind of value, how many of the compared values agree with our values.
    quantities: BTreeMap<String, Agreement>,
}

/// How many of the compared values agree with our values.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Agreement {
    /// The number of compared values that agree with the values that we compute.
    agree: usize,
    /// The number of compared values.
    of: usize,
}

fn print(args: &Args, loaded: &Loaded, best: &Trial, tried: usize, progress: Progress) -> io::Result<()> {
    let (tree, uncomputed) = (&loaded.tree, loaded.uncomputed);
    let of = best.pairs.len();
    let mut counts: BTreeMap<Quantity, (usize, usize)> = BTreeMap::new();
    for pair in &best.pairs {
        let (agree, of) = counts.entry(pair.quantity).or_default();
        *agree += usize::from(pair.verdict != ValueMatch::Different);
        *of += 1;
    }
    let rounded = best.pairs.iter().filter(|pair| pair.verdict == ValueMatch::WithinRounding).count();
    let mut different: Vec<&Pair> =
        best.pairs.iter().filter(|pair| pair.verdict == ValueMatch::Different).collect();
    let off = |pair: &Pair| pair.ours.map_or(f64::INFINITY, |ours| (ours - pair.theirs).abs());
    different.sort_by(|a, b| off(b).total_cmp(&off(a)).then(a.node.cmp(&b.node)));
    let (shown, mut notes) = args.output.limit_rows(different.len(), args.limit.limit);
    for (quantity, (agree, of)) in &counts {
        notes.push(format!("{quantity}: {agree} of {of} agree"));
    }
    if rounded > 0 {
        notes.push(format!("{rounded} agree only within the rounding of usages printed as whole numbers"));
    }
    if uncomputed > 0 {
        notes.push(format!("not compared: {}", describe_uncomputed_fairshares(uncomputed)));
    }
    notes.push(describe_rule(best, tried));

    let agreement = |(quantity, (agree, of)): (&Quantity, &_)| {
        (quantity.to_string(), Agreement { agree: *agree, of: *of })
    };
    let facts = CheckImportJsonFields {
        policy: PolicyFacts::new(best.policy, &best.options),
        total: Agreement { agree: best.count_matching_values(), of },
        within_rounding: rounded,
        not_computed: uncomputed,
        notes: loaded.notes().to_vec(),
        quantities: counts.iter().map(agreement).collect(),
    };
    let is_table = args.output.is_table();
    let number = |number: f64, other: Option<f64>| match json_number(number) {
        Value::String(text) if !is_table => Cell::Text(text),
        // If two different values would look equal with six decimals, the table has all digits.
        _ if is_table && other.is_some_and(|other| format!("{other:.6}") == format!("{number:.6}")) => {
            Cell::Text(number.to_string())
        }
        _ => Cell::Number(number),
    };
    let rows = different.iter().take(shown).map(|pair| {
        let is_bank = tree.kind(pair.node) == NodeKind::Bank;
        let name = Cell::Text(tree.name(pair.node).to_owned());
        let bank = tree.parent(pair.node).map_or(Cell::None, |bank| Cell::Text(tree.name(bank).to_owned()));
        let (bank, user) = if is_bank { (name, Cell::None) } else { (bank, name) };
        vec![
            bank,
            user,
            Cell::Text(pair.quantity.to_string()),
            number(pair.theirs, pair.ours),
            pair.ours.map_or(Cell::None, |ours| number(ours, Some(pair.theirs))),
        ]
    });
    let header = !is_table || !different.is_empty();
    let report = Report {
        facts: Facts::new(&facts)?,
        rows: Rows { key: "differences", columns: COLUMNS.to_vec(), rows: Box::new(rows) },
        notes,
        ..Report::default()
    };
    args.output.print_as(report, Look { header, ..Look::WHOLE }, progress)
}

fn describe_rule(best: &Trial, tried: usize) -> String {
    let settings = best.options.settings();
    let ties = settings.iter().find(|(name, _)| *name == "ties" && Options::applies(name, best.policy));
    let ties = ties.map(|(name, value)| format!(" with {name}={value}")).unwrap_or_default();
    let among = if tried > 1 { format!(", the best match of {tried} ranking rules") } else { String::new() };
    format!("ranked by {}{ties}{among}", best.policy)
}
