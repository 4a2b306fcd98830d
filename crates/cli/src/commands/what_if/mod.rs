// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare what-if`: ranks the tree with other shares, usage, users, policy or date.

mod course;
mod edits;

use std::time::Duration;

use serde::Serialize;

use self::course::{Forecast, UserSteps};
use self::edits::{Edits, NewUser, Shares, Used};
use crate::commands::check::check_many_jobs;
use crate::commands::push::{self, Push};
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::InstanceArg;
use crate::plugin::running;
use crate::site::facts::{OptionValues, SourceFacts, option_values};
use crate::site::input::{Input, PolicyArg, Rules, rank};
use crate::site::moves::{self, Moves, RankChangeTotals, RankedTree, Titles};
use crate::site::names::bank_of;
use crate::ui::figures::{date, half_life_text, now, number, parse_duration, parse_half_life, unrounded};
use crate::ui::messages::{remark, say};
use crate::ui::output::{Facts, LimitArg, OutputArgs};
use crate::ui::progress::Progress;
use crate::ui::rows::Look;
use fairshare::Tree;
use fairshare_accounting::pipeline::compute_usages_with_half_life;
use fairshare_accounting::pipeline::fetch::RunningJob;
use fairshare_engine::priority::FACTORS;
use fairshare_protocol::records::FactorRecord;

/// Show who would move under other shares, usage, half-life, weights or policy; changes nothing
///
/// Makes all changes at once, on the tree that show prints, and computes the fair-shares that update would store then. Without
/// --in, time does not advance. With --in, usage decays by the half-life of the database or of --half-life. With --idle, only the
/// usage of the named users and banks decays, and the usage of all others stays as it is.
///
/// --half-life without --in counts all records of the database again, as sync does after a change of the half-life. If the plugin
/// answers, running jobs count in both orders, and the order now is that of show; jobs that ended after the last sync count only now.
/// --weight and --submit ask the plugin about jobs instead of users.
#[derive(Debug, clap::Args)]
// In this command, --usage changes usage. Therefore it can't be an alias of --usage-file.
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
    /// Another half-life of usage, like 3d; with --in, the half-life until then
    #[arg(long, value_name = "DURATION", value_parser = parse_half_life, help_heading = "Changes")]
    half_life: Option<Duration>,
    /// Instead: other weights of priority factors, as fairshare=50000,age=1000; shows which pending jobs would move
    ///
    /// Asks the plugin for the effects of a push of the database with these weights. Only the instance owner may ask.
    #[arg(
        long,
        value_name = "FACTOR=WEIGHT",
        value_delimiter = ',',
        value_parser = parse_weight,
        conflicts_with_all = ["tree", "shares", "used", "add_user", "later", "half_life", "policy", "submit"],
        help_heading = "Changes"
    )]
    weight: Vec<FactorRecord>,
    /// Instead: this many jobs, each with these options of flux submit: 100 -N2 -t1h
    ///
    /// Asks the plugin how many of the jobs would be rejected, how many would be held, and which place the first would have. All
    /// following words belong to this option. Exit status 1 means that a job would be rejected.
    #[arg(
        long,
        value_name = "NUMBER [OPTION]",
        num_args = 1..,
        allow_hyphen_values = true,
        conflicts_with_all = ["shares", "used", "add_user", "later", "half_life", "policy"],
        help_heading = "Changes"
    )]
    submit: Vec<String>,
    #[command(flatten)]
    limit: LimitArg,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.submit.is_empty() {
        return check_many_jobs(&args.submit, args.output.json, &args.instance, &args.output.screen());
    }
    if !args.weight.is_empty() {
        return preview_weights(args);
    }
    let nothing = args.shares.is_empty() && args.used.is_empty() && args.add_user.is_empty();
    if nothing && args.later.is_none() && args.half_life.is_none() && args.policy.given().is_none() {
        let text = "nothing is different: give --shares, --usage, --add-user, --half-life, --policy, --in, --weight or --submit";
        return Err(failure(text.to_owned()));
    }
    let mut progress = Progress::start();
    let new_half_life =
        args.half_life.filter(|_| args.later.is_none()).map(|half_life| half_life.as_secs_f64());
    let running = new_half_life.map(|_| running::list(&args.instance, args.input.is_given()));
    let loaded = match running {
        Some(Err(_)) => args.input.load(&args.rules, &mut progress)?,
        _ => args.input.load_live_or_given_tree(&args.rules, &args.instance, &mut progress)?,
    };
    // Usage from a database does not include running jobs, so they are left out.
    let running = running.and_then(Result::ok).filter(|_| loaded.is_live());
    let options = loaded.options;
    let source = loaded.place(args.input.source());
    progress.phase("ranking", || 0);
    let policy = args.policy.choose_policy_for_tree(&loaded)?;
    // If the document does not state its policy, the rankings before and after the changes use the policy of --policy.
    let policy_before = if loaded.lacks_policy() { policy } else { loaded.policy };
    args.rules.apply_to(&[policy_before, policy])?;
    let before = rank(source, &loaded.tree, policy_before, &options)?;
    let mut tree = loaded.tree.clone();
    let recount = |half_life| recount_usages(&args.input, half_life, running.as_deref(), &mut tree);
    let recounted = new_half_life.map(recount).transpose()?;
    let edits = Edits { shares: &args.shares, used: &args.used, users: &args.add_user };
    let (mut tree, mut texts) = edits.apply(&loaded, tree)?;
    texts.extend(recounted);
    if policy_before != policy {
        texts.push(format!("policy {policy} instead of {policy_before}"));
    }
    let mut after = rank(source, &tree, policy, &options)?;
    let mut course = None;
    if let Some(later) = args.later {
        texts.push(args.describe_in_words(later));
        let rule = Forecast::new(&args.input, &loaded, &tree, &args.idle, args.half_life)?;
        course = Some(rule.follow(&mut tree, &mut after, later.as_secs_f64())?);
    }
    progress.phase("sorting", || 0);
    let side = |tree, ranking| RankedTree { tree, ranking };
    let moves = Moves::new(side(&loaded.tree, &before), side(&tree, &after), |leaf| {
        loaded.tree.leaf(tree.name(leaf), bank_of(&tree, leaf))
    });
    let titles = Titles { places: ["Now", "Then"], fairshares: ["FS now", "FS then"] };
    let facts = WhatIfJsonFields {
        policies: [policy_before.name(), policy.name()],
        options: option_values(&options),
        changes: &texts,
        totals: moves.totals(),
        source: SourceFacts::new(&loaded),
        course: course.as_ref(),
    };
    let mut report = moves.report(&titles, Facts::new(&facts)?, args.limit.most_rows(args.output));
    if args.output.is_table() {
        let screen = args.output.screen();
        report.before.extend(loaded.head(args.input.source()));
        report.before.extend(texts.iter().map(|change| format!("If: {change}")));
        if !args.input.is_document() {
            let mut changes = vec![("shares", edits.list_share_change_commands(&tree).join(" && "))];
            if policy_before != policy || !args.rules.set.is_empty() {
                let settings: String =
                    args.rules.set.iter().map(|setting| format!(" --set {setting}")).collect();
                changes
                    .push(("policy", format!("{} {policy}{settings}", args.input.command("policy", None))));
            }
            let edit = |half_life| format!("flux account edit-config priority_decay_half_life={half_life}");
            changes.extend(new_half_life.map(|half_life| ("half-life", edit(half_life))));
            changes.retain(|(_, command)| !command.is_empty());
            report.notes.extend(args.list_commands_that_apply_changes(&changes));
        }
        report.notes.extend(course.as_ref().map(|course| course.assumption(&args.idle)));
        report.drawing =
            course.as_ref().map(|course| course.plot_fairshare_steps(&screen)).unwrap_or_default();
    }
    args.output.print_as(report, Look { give_up: moves::GIVE_UP, ..Look::WHOLE }, progress)?;
    Ok(Answer::Yes)
}

/// Parses `FACTOR=WEIGHT`.
fn parse_weight(text: &str) -> Result<FactorRecord, String> {
    let (factor, weight) = text.split_once('=').ok_or("expected FACTOR=WEIGHT, like fairshare=50000")?;
    let mut names = FACTORS.iter().map(|factor| factor.name);
    if !names.any(|name| name == factor) {
        let names = FACTORS.map(|factor| factor.name).join(", ");
        return Err(format!("no factor \"{factor}\"; the factors are {names}"));
    }
    let weight = weight.parse().map_err(|_| format!("\"{weight}\" is not a whole number"))?;
    Ok(FactorRecord { factor: factor.to_owned(), weight })
}

/// Prints the effects of a push of the database with the weights of `--weight`.
fn preview_weights(args: &Args) -> Outcome {
    let (found, wait) = (args.input.found(), args.input.wait_option());
    let push = Push { found: &found, wait, uri: args.instance.uri.as_deref() };
    let mut data = push::read(&push, &mut |note| remark(note))?;
    for new in &args.weight {
        data.priority_factors.retain(|record| record.factor != new.factor);
        data.priority_factors.push(new.clone());
    }
    let changes: Vec<String> =
        args.weight.iter().map(|new| format!("{} {}", new.factor, number(new.weight))).collect();
    let (answer, _) = push::ask(&push, &data)?;
    let answer = answer.ok_or_else(|| failure("--weight: the plugin of this project does not answer"))?;
    let answer =
        push::print_preview(Some(answer), args.output.json, &format!("If: weights {}", changes.join(", ")));
    if args.output.is_table() {
        let edit = |new: &FactorRecord| {
            format!("flux account edit-factor --factor={} --weight={}", new.factor, new.weight)
        };
        let edits = args.weight.iter().map(edit).collect::<Vec<_>>().join(" && ");
        args.list_commands_that_apply_changes(&[("weights", edits)]).map_or(Ok(()), say)?;
    }
    answer
}

/// Recounts the usages of `tree` with a half-life of `half_life` seconds. If `running` is given, adds the usage of running jobs, as the
/// plugin does. Returns a description of the change.
fn recount_usages(
    input: &Input,
    half_life: f64,
    running: Option<&[RunningJob]>,
    tree: &mut Tree,
) -> Result<String> {
    let text = "--half-life without --in needs a database, whose records are counted again";
    let mut database = input.database().ok_or_else(|| failure(text))??;
    let snapshot = database.snapshot()?;
    let usages = compute_usages_with_half_life(&snapshot, half_life, now(), running).map_err(failure)?;
    for (user, bank, usage) in usages {
        if let Some(leaf) = tree.leaf(&user, &bank) {
            tree.set_usage(leaf, usage).map_err(failure)?;
        }
    }
    let (new, old) = (half_life_text(half_life), half_life_text(snapshot.pace()?.period));
    let since = match snapshot.oldest_inactive()? {
        Some(oldest) => format!("from the records since {}", date(oldest, half_life)),
        None => "from no records".to_owned(),
    };
    let usage = match running {
        Some(_) => "both sides are live usage, with running jobs and continuous decay",
        None => "both sides are stored usage, without running jobs, which decays at period boundaries",
    };
    Ok(format!("half-life {new} instead of {old}, with all usage recounted {since}; {usage}"))
}

/// The JSON document without the rows.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct WhatIfJsonFields<'a> {
    /// The present ranking policy, and the assumed one.
    policies: [&'static str; 2],
    options: OptionValues,
    /// The changes that the command assumes.
    changes: &'a [String],
    #[serde(flatten)]
    totals: RankChangeTotals,
    #[serde(flatten)]
    source: SourceFacts,
    /// The steps of the forecast until the time of `--in`.
    #[serde(skip_serializing_if = "Option::is_none")]
    course: Option<&'a UserSteps>,
}

impl Args {
    /// Returns a note with the commands that apply the changes to the site, or `None` if `changes` is empty. Each change has the
    /// name of a setting and the command that sets it.
    fn list_commands_that_apply_changes(&self, changes: &[(&str, String)]) -> Option<String> {
        let has_half_life = changes.iter().any(|(name, _)| *name == "half-life");
        let command = |name| self.input.command(name, self.instance.uri.as_deref());
        let last = if has_half_life { command("sync") } else { command("push") + " -v" };
        let (names, commands): (Vec<&str>, Vec<&str>) =
            changes.iter().map(|(name, it)| (*name, it.as_str())).unzip();
        let (names, commands) = (names.join(" and "), commands.join(" && "));
        (!changes.is_empty()).then(|| format!("To change the {names}: {commands} && {last}"))
    }

    fn describe_in_words(&self, later: Duration) -> String {
        let idle = match self.idle.as_slice() {
            [] => "all users idle".to_owned(),
            names => format!("{} idle", names.join(", ")),
        };
        format!("{} later, {idle}", unrounded(later.as_secs_f64()))
    }
}
