// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare what-if`: ranks the tree with other shares, usage, users, policy or date.

mod course;
mod edits;

use std::time::Duration;

use serde::Serialize;

use self::course::{Forecast, ForecastDocument};
use self::edits::{Edits, NewUser, Shares, Used};
use crate::commands::check::check_many_jobs;
use crate::outcome::{Answer, Failure, Outcome};
use crate::plugin::ask::InstanceArg;
use crate::site::facts::{OptionValues, SourceFacts, option_values};
use crate::site::input::{Input, PolicyArg, Rules, rank};
use crate::site::moves::{self, MoveTotals, Moves, RankedTree, Titles};
use crate::ui::figures::{duration, parse_duration};
use crate::ui::output::{Facts, OutputArgs};
use crate::ui::progress::Progress;
use crate::ui::rows::Look;
use fairshare::NodeId;

/// Show which users would move if shares, usage, users or the policy were different; changes nothing
///
/// Makes all changes at once, on the tree that show prints, and computes the fair-shares that update would store then. Without
/// --in, time does not advance. With --in, usage decays by the half-life of the database or of --half-life: that of the users and
/// banks named by --idle, while all others continue as before, or without --idle the usage of all users.
#[derive(Debug, clap::Args)]
// --usage is a change here, so it can't be an alias of --usage-file.
#[command(mut_arg("usage_file", |list| list.alias(None).alias("usages")))]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// Other shares of a bank, or of a user, with /BANK if in several banks
    #[arg(long, value_name = "NAME=SHARES", value_delimiter = ',', help_heading = "Changes")]
    shares: Vec<Shares>,
    /// Change a user's usage: alice+=5000nh adds, alice-=20% subtracts, alice/chem=0 sets
    ///
    /// nh means node-hours, if usage counts nodes; % is a part of the user's usage; without a unit, the tree's own unit.
    #[arg(long = "usage", value_name = "USER+=USAGE", value_delimiter = ',', help_heading = "Changes")]
    used: Vec<Used>,
    /// A new user without usage, with one share by default
    #[arg(long, value_name = "USER/BANK[=SHARES]", value_delimiter = ',', help_heading = "Changes")]
    add_user: Vec<NewUser>,
    /// After this time, like 7d, 36h or "2 weeks"
    #[arg(long = "in", value_name = "DURATION", value_parser = parse_duration, help_heading = "Changes")]
    later: Option<Duration>,
    /// With --in: users or banks that are idle until then; for a single user, also plots the fair-share at points in between
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "later", help_heading = "Changes")]
    idle: Vec<String>,
    /// With --in: the half-life of usage, like 7d, if the tree has none; a database has one
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "later", help_heading = "Changes")]
    half_life: Option<Duration>,
    /// Instead: this many jobs, each with these options of flux submit: 100 -N2 -t1h
    ///
    /// Asks the plugin how many of the jobs would be rejected, how many limits would hold, and at which place the first would be. All
    /// following words belong to this option. Exit status 1 means that a job would be rejected.
    #[arg(
        long,
        value_name = "NUMBER [OPTION]",
        num_args = 1..,
        allow_hyphen_values = true,
        conflicts_with_all = ["shares", "used", "add_user", "later", "policy"],
        help_heading = "Changes"
    )]
    submit: Vec<String>,
    /// In the table, show this many winners and as many losers; 0 is all
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 10,
        conflicts_with = "output",
        help_heading = "Output"
    )]
    limit: usize,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.submit.is_empty() {
        return check_many_jobs(&args.submit, args.output.json, &args.instance, &args.output.screen());
    }
    let nothing = args.shares.is_empty() && args.used.is_empty() && args.add_user.is_empty();
    if nothing && args.later.is_none() && args.policy.given().is_none() {
        let text = "nothing is different: give --shares, --usage, --add-user, --policy, --in or --submit";
        return Err(Failure::Message(text.to_owned()));
    }
    let mut progress = Progress::start();
    let loaded = args.input.load_live(&args.rules, &args.instance, &mut progress)?;
    let options = loaded.options;
    let source = loaded.place(args.input.source());
    progress.phase("ranking", || 0);
    let policy = args.policy.for_tree(&loaded)?;
    // If the document does not show its policy, the unchanged tree is ranked by the given policy too.
    let policy_before = if loaded.is_undecided() { policy } else { loaded.policy };
    args.rules.apply_to(&[policy_before, policy])?;
    let before = rank(source, &loaded.tree, policy_before, &options)?;
    let edits = Edits { shares: &args.shares, used: &args.used, users: &args.add_user };
    let (mut tree, mut texts) = edits.apply(&loaded)?;
    if policy_before != policy {
        texts.push(format!("policy {policy} instead of {policy_before}"));
    }
    let mut after = rank(source, &tree, policy, &options)?;
    let mut course = None;
    if let Some(later) = args.later {
        texts.push(args.in_words(later));
        let rule = Forecast::new(&args.input, &loaded, &tree, &args.idle, args.half_life)?;
        course = Some(rule.follow(&mut tree, &mut after, later.as_secs_f64())?);
    }
    progress.phase("sorting", || 0);
    // New users come last in the list of associations, so the others keep their indices.
    let mut by_list: Vec<Option<NodeId>> = vec![None; loaded.tree.leaves().len()];
    for leaf in loaded.tree.leaves() {
        if let Some(slot) = by_list.get_mut(loaded.tree.list_index(leaf)) {
            *slot = Some(leaf);
        }
    }
    let side = |tree, ranking| RankedTree { tree, ranking };
    let moves = Moves::new(side(&loaded.tree, &before), side(&tree, &after), |leaf| {
        by_list.get(tree.list_index(leaf)).copied().flatten()
    });
    let titles = Titles {
        places: ("Now".to_owned(), "Then".to_owned()),
        fairshares: ("FS now".to_owned(), "FS then".to_owned()),
    };
    let facts = WhatIfFacts {
        policies: [policy_before.name(), policy.name()],
        options: option_values(&options),
        changes: texts.clone(),
        totals: moves.totals(),
        source: SourceFacts::new(&loaded),
        course: course.as_ref().map(|course| course.document(&tree)),
    };
    let limit = Some(args.limit).filter(|limit| args.output.is_table() && *limit > 0);
    let mut report = moves.report(&titles, Facts::new(&facts)?, limit);
    if args.output.is_table() {
        let screen = args.output.screen();
        report.before.extend(loaded.head(args.input.source()));
        report.before.extend(texts.iter().map(|change| format!("If: {change}")));
        report.notes.extend(course.as_ref().map(|course| course.assumption(&args.idle)));
        report.drawing = course.map(|course| course.plot_lines(&tree, &screen)).unwrap_or_default();
    }
    args.output.print_as(report, Look { give_up: moves::GIVE_UP, ..Look::WHOLE }, progress)?;
    Ok(Answer::Yes)
}

/// The members of the JSON document besides the rows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WhatIfFacts {
    /// The ranking policies now and then.
    policies: [&'static str; 2],
    options: OptionValues,
    /// The changes that the command assumes.
    changes: Vec<String>,
    #[serde(flatten)]
    totals: MoveTotals,
    #[serde(flatten)]
    source: SourceFacts,
    /// The way to the time of `--in`.
    #[serde(skip_serializing_if = "Option::is_none")]
    course: Option<ForecastDocument>,
}

impl Args {
    fn in_words(&self, later: Duration) -> String {
        let idle = match self.idle.as_slice() {
            [] => "all users idle".to_owned(),
            names => format!("{} idle", names.join(", ")),
        };
        format!("{} later, {idle}", duration(later.as_secs_f64()))
    }
}
