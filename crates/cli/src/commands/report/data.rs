// SPDX-License-Identifier: LGPL-3.0-only
//! The data of the report, in columns, because there may be a hundred thousand associations.
//!
//! Banks and associations are referred to by index: banks in the order of the tree (a bank before its children), associations by
//! bank and name.

use std::collections::BTreeMap;
use std::path::Path;

use serde::{Serialize, Serializer};

use super::bins::{BankBins, Bins, UsageDecayRule, find_level_that_lowers_fairshare_most};
use super::course::Course;
use super::held::HeldJobs;
use crate::site::facts::{OptionValues, count_stale, option_values};
use crate::site::input::Loaded;
use crate::site::moves::{Moves, RankChangeTotals, RankedTree};
use crate::ui::figures::{Unit, rfc3339};
use fairshare::{NodeId, Policy, Ranking, Shares, Tree};
use fairshare_protocol::records::BudgetRecord;

/// The document of the report.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct Document<'a> {
    /// The version of the document's format.
    format: u32,
    program: &'static str,
    pub(super) title: String,
    /// The file name of the database or document.
    source: String,
    /// The source of the numbers, as a sentence; `null` for a document.
    head: Option<String>,
    /// Seconds since the epoch.
    generated: Number,
    /// `generated` in RFC 3339 format.
    generated_time: Option<String>,
    unit: &'static str,
    policy: &'static str,
    /// True if fair-shares are ranks, false if they are values of a formula.
    by_rank: bool,
    options: OptionValues,
    ranked: usize,
    /// Number of stored fair-shares that differ from those shown; `null` if none are stored.
    stale: Option<usize>,
    policies: Vec<Compared>,
    /// Policies that can't rank this tree, and the reason.
    without: BTreeMap<&'static str, String>,
    forgetting: Option<DecayDocument>,
    banks: Banks<'a>,
    users: Users<'a>,
    usage: Option<BankBins>,
    course: Option<Course>,
    held: Option<HeldJobs>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<ReportedBudget>,
}

/// A budget in one of its windows. Its record names users instead of giving their ids.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ReportedBudget {
    #[serde(flatten)]
    #[cfg_attr(test, schemars(with = "serde_json::Map<String, serde_json::Value>"))]
    pub(super) budget: BudgetRecord,
    /// The time until which the budget lasts at the rate of the last seven days, in seconds since the epoch. `null` outside of the
    /// window, or if nothing is left.
    pub(super) lasts_until: Option<Number>,
}

/// The ranking under a policy, compared with the site's policy.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Compared {
    policy: &'static str,
    #[serde(flatten)]
    moves: RankChangeTotals,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DecayDocument {
    /// The half-life, in seconds, if usage decays continuously; null if usage decays at period boundaries.
    half_life: Option<Number>,
    period: Option<Number>,
    factor: Option<Number>,
    /// The number of half-life periods for which a bank's usage is kept.
    periods: Option<u32>,
    /// The number of past period boundaries for which the stored usage has not been decayed yet.
    due: Option<u32>,
    next: Option<Number>,
}

/// Columns of banks and associations.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Nodes<'a> {
    name: Vec<&'a str>,
    /// `null` for `fairshare=parent`.
    shares: Vec<Option<u64>>,
    /// The fraction of the shares of all siblings, including the node.
    share: Vec<Number>,
    usage: Vec<Number>,
    /// The fraction of the usage of all siblings, including the node.
    part: Vec<Number>,
    fairshare: Vec<Option<Number>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Banks<'a> {
    #[serde(flatten)]
    nodes: Nodes<'a>,
    /// `null` for the root.
    parent: Vec<Option<usize>>,
    inactive: Vec<usize>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Users<'a> {
    #[serde(flatten)]
    nodes: Nodes<'a>,
    bank: Vec<usize>,
    /// For each policy in `policies`, the place of each association. The first place is 1; 0 means that the
    /// association is not ranked.
    places: Vec<Vec<usize>>,
    /// Periods of usage that are kept; empty without a database.
    periods: Vec<u32>,
    /// The level that lowers the fair-share most: index of a bank, -1 for the association itself, `null` for none.
    lost: Vec<Option<i64>>,
    /// The usage at which the level that lowers the fair-share most would have used exactly its share.
    even_usage: Vec<Option<Number>>,
    /// Seconds until the usage of the level that lowers the fair-share most has decayed to `even_usage`.
    even_in: Vec<Option<Number>>,
}

/// The data from which the document is built, in addition to the tree.
pub(super) struct ReportInput<'a> {
    pub(super) title: String,
    pub(super) source: &'a Path,
    pub(super) now: f64,
    /// The first ranking is by the site's policy.
    pub(super) rankings: &'a [Ranking],
    pub(super) without: Vec<(Policy, String)>,
    pub(super) bins: &'a Bins,
    pub(super) course: Option<Course>,
    pub(super) forgetting: UsageDecayRule,
    pub(super) held: Option<HeldJobs>,
    pub(super) budgets: Vec<ReportedBudget>,
}

impl<'a> Document<'a> {
    /// Creates the document. Returns `None` if there is no ranking.
    pub(super) fn new(loaded: &'a Loaded, made: ReportInput<'a>) -> Option<Document<'a>> {
        let ReportInput { title, source, now, rankings, without, bins, course, forgetting, held, budgets } =
            made;
        let tree = &loaded.tree;
        let first = rankings.first()?;
        let file = source.file_name().map(Path::new);
        let head = file.and_then(|file| loaded.head(file));
        let source = source.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Some(Document {
            format: 1,
            program: concat!("flux-fairshare ", env!("CARGO_PKG_VERSION")),
            title,
            source,
            head,
            generated: Number(now.floor()),
            generated_time: rfc3339(now),
            unit: if loaded.unit == Unit::NodeSeconds { "node-seconds" } else { "" },
            policy: first.policy().name(),
            by_rank: first.policy().is_rank(),
            options: option_values(&loaded.options),
            ranked: first.ranked(),
            stale: loaded.pace.map(|_| count_stale(tree, first, &loaded.stored)),
            policies: rankings.iter().map(|ranking| compare_ranking(tree, first, ranking)).collect(),
            without: without.into_iter().map(|(policy, why)| (policy.name(), why)).collect(),
            forgetting: forgetting.document(now),
            banks: bank_columns(tree, first),
            users: user_columns(tree, rankings, first, bins, forgetting, now),
            usage: bins.document(tree),
            course,
            held,
            budgets,
        })
    }
}

impl UsageDecayRule {
    fn document(self, now: f64) -> Option<DecayDocument> {
        let UsageDecayRule { half_life, pace } = self;
        let pace = pace.filter(|_| half_life.is_none());
        (half_life.is_some() || pace.is_some()).then(|| DecayDocument {
            half_life: half_life.map(Number),
            period: pace.map(|pace| Number(pace.period)),
            factor: pace.map(|pace| Number(pace.factor)),
            periods: pace.map(|pace| pace.for_bank().periods),
            due: pace.map(|pace| pace.due),
            next: pace.map(|pace| Number(pace.next_boundary(now))),
        })
    }
}

fn compare_ranking(tree: &Tree, first: &Ranking, ranking: &Ranking) -> Compared {
    let side = |ranking| RankedTree { tree, ranking };
    let moves = Moves::new(side(first), side(ranking), Some);
    Compared { policy: ranking.policy().name(), moves: moves.totals() }
}

fn bank_columns<'a>(tree: &'a Tree, ranking: &Ranking) -> Banks<'a> {
    let users = tree.leaves().len();
    let mut banks = Banks { nodes: Nodes::default(), parent: Vec::new(), inactive: Vec::new() };
    for bank in tree.banks() {
        banks.nodes.add_node(tree, ranking, bank);
        banks.parent.push(tree.parent(bank).map(|above| above.index() - users));
        if !tree.is_active(bank) {
            banks.inactive.push(bank.index() - users);
        }
    }
    banks
}

fn user_columns<'a>(
    tree: &'a Tree,
    rankings: &[Ranking],
    first: &Ranking,
    bins: &Bins,
    forgetting: UsageDecayRule,
    now: f64,
) -> Users<'a> {
    let all = tree.leaves().len();
    let place = |ranking: &Ranking, leaf| ranking.place(leaf).unwrap_or(0);
    let mut users = Users {
        nodes: Nodes::default(),
        bank: Vec::new(),
        places: rankings
            .iter()
            .map(|ranking| tree.leaves().map(|leaf| place(ranking, leaf)).collect())
            .collect(),
        periods: bins.kept.clone(),
        lost: Vec::new(),
        even_usage: Vec::new(),
        even_in: Vec::new(),
    };
    for leaf in tree.leaves() {
        users.nodes.add_node(tree, first, leaf);
        users.bank.push(tree.parent(leaf).map_or(0, |bank| bank.index() - all));
        let outlook = find_level_that_lowers_fairshare_most(tree, first, leaf, bins, forgetting, now);
        let level = |lost: NodeId| if lost == leaf { -1 } else { lost.index() as i64 - all as i64 };
        users.lost.push(outlook.map(|outlook| level(outlook.lost)));
        users.even_usage.push(outlook.and_then(|outlook| outlook.even_usage).map(Number));
        users.even_in.push(outlook.and_then(|outlook| outlook.even_in).map(|seconds| Number(seconds.ceil())));
    }
    users
}

impl<'a> Nodes<'a> {
    fn add_node(&mut self, tree: &'a Tree, ranking: &Ranking, node: NodeId) {
        let detail = ranking.detail(tree, node);
        self.name.push(tree.name(node));
        self.shares.push(match tree.shares(node) {
            Shares::Count(shares) => Some(shares),
            Shares::Parent => None,
        });
        let (share, part) = match tree.parent(node) {
            _ if ranking.policy().is_rank() => (detail.norm_shares, detail.effective_usage),
            None => (1.0, 1.0),
            Some(above) => {
                let above = ranking.detail(tree, above);
                let part = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
                (part(detail.norm_shares, above.norm_shares), part(detail.usage, above.usage))
            }
        };
        self.share.push(Number(share));
        self.part.push(Number(part));
        self.usage.push(Number(detail.usage));
        self.fairshare.push(detail.fairshare.map(Number));
    }
}

/// A number in the document: integers without a point, others with seven significant digits, and `null` for NaN and infinity.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(with = "Option<f64>"))]
pub(super) struct Number(pub(super) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Number(number) = *self;
        if !number.is_finite() {
            return serializer.serialize_none();
        }
        let digits = (6 - number.abs().log10().max(-400.0).floor() as i32).max(0);
        let scale = 10f64.powi(digits);
        let rounded = if scale.is_finite() { (number * scale).round() / scale } else { number };
        // Above this limit a double can't represent every integer.
        if rounded.fract() == 0.0 && rounded.abs() < 9e15 {
            return serializer.serialize_i64(rounded as i64);
        }
        serializer.serialize_f64(rounded)
    }
}
