// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare report`: the site as a single HTML page.
//!
//! `data.rs` builds the document, which `--json` prints. `bins.rs` reads usage by half-life period and computes when usage is
//! back at the share, `course.rs` reads usage over time from job records, and `held.rs` asks the plugin for held jobs. The page's
//! templates are in `html/report/`; all pages share the other templates.

mod bins;
mod course;
pub(super) mod data;
mod held;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::html::page::Page;
use crate::html::report;
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::InstanceArg;
use crate::replaced;
use crate::site::input::{Input, Loaded, PolicyArg, Rules, rank};
use crate::ui::figures::{self, parse_half_life};
use crate::ui::pager::PagedOutput;
use crate::ui::printable::printable_json;
use crate::ui::progress::Progress;
use bins::{Bins, UsageDecayRule};
use course::Course;
use data::{Document, Number, ReportInput, ReportedBudget};
use fairshare::{Policy, Ranking};
use fairshare_accounting::pipeline::budgets::{Budgets, lasts_until};
use fairshare_accounting::store::Database;

/// Write a report of the site as a single HTML page
///
/// Shows shares and usage of all banks and users as a picture, the rank of each user, the effects of other policies, usage over
/// time, when each user's usage is back at the share, and, if the plugin answers, how many jobs each limit holds. The page is
/// one file, loads nothing from the network, and escapes all names. The database is only read.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// The half-life of usage, like 7d, for trees without a half-life; databases have one
    #[arg(long, value_name = "DURATION", value_parser = parse_half_life, help_heading = "Rules")]
    half_life: Option<Duration>,
    /// The file, which is replaced atomically; - is standard output. A link is refused
    #[arg(
        long,
        short_alias = 'o',
        value_name = "FILE",
        required_unless_present = "json",
        value_hint = clap::ValueHint::FilePath,
        help_heading = "Output"
    )]
    output: Option<PathBuf>,
    /// The title of the page
    #[arg(long, value_name = "TEXT", default_value = "Fair-share report", help_heading = "Output")]
    title: String,
    /// Print only the data, as a JSON document
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Do not ask the plugin which jobs are held
    #[arg(long, conflicts_with = "uri", help_heading = "Input")]
    no_jobs: bool,
    #[command(flatten)]
    instance: InstanceArg,
}

pub(super) fn run(args: &Args) -> Outcome {
    let output = args.output.as_deref().unwrap_or(Path::new("-"));
    if output != Path::new("-") {
        replaced::check_page(output)?;
    }
    let mut progress = Progress::start();
    let text = build_text(args, figures::now(), &mut progress)?;
    drop(progress);
    if output == Path::new("-") {
        let mut out = PagedOutput::plain();
        std::io::Write::write_all(&mut out, text.as_bytes())?;
        out.finish()?;
    } else {
        replaced::replace_page(output, text.as_bytes())
            .map_err(|error| failure(format!("{}: {error}", output.display())))?;
    }
    Ok(Answer::Yes)
}

/// Returns the page, or with --json the document.
fn build_text(args: &Args, now: f64, progress: &mut Progress) -> Result<String> {
    let loaded = args.input.load(&args.rules, progress)?;
    let policy = args.policy.choose_policy_for_tree(&loaded)?;
    args.rules.apply_to(&[policy])?;
    let (rankings, without) = rank_by_all_policies(args, &loaded, policy, progress)?;
    progress.phase("reading usage", || 0);
    let bins = match args.input.database() {
        Some(database) => Bins::read(database?, &loaded, now)?,
        None => Bins::default(),
    };
    progress.phase("reading jobs", || 0);
    let course = match args.input.database() {
        Some(database) => Course::read(database?, &loaded.tree, &jiff::tz::TimeZone::system())?,
        None => None,
    };
    let budgets = match args.input.database() {
        Some(database) => read_budgets(database?, now)?,
        None => Vec::new(),
    };
    let forgetting = UsageDecayRule {
        half_life: args.half_life.map(|half_life| half_life.as_secs_f64()),
        pace: bins.pace,
    };
    progress.phase("asking the plugin", || 0);
    let held = if args.no_jobs { None } else { Some(held::ask(&args.instance, &args.input)) };
    progress.phase("counting", || 0);
    let made = ReportInput {
        title: args.title.clone(),
        source: args.input.source(),
        now,
        rankings: &rankings,
        without,
        bins: &bins,
        course,
        forgetting,
        held,
        budgets,
    };
    let document = Document::new(&loaded, made).ok_or_else(|| failure("no policy ranks this tree"))?;
    progress.phase("writing", || 0);
    let data = serde_json::to_string(&document).map_err(failure)?;
    let page = Page { title: &args.title, body: report::BODY, script: report::SCRIPT };
    Ok(if args.json { printable_json(&data).into_owned() + "\n" } else { page.html(&data) })
}

fn read_budgets(mut database: Database, now: f64) -> Result<Vec<ReportedBudget>> {
    let snapshot = database.snapshot()?;
    let budgets = Budgets::count(&snapshot, None, &[], now)?.all;
    let report = |budget| ReportedBudget { lasts_until: lasts_until(&budget, now).map(Number), budget };
    Ok(budgets.into_iter().map(report).collect())
}

/// Policies that can't rank a tree, and the reasons.
type Refusals = Vec<(Policy, String)>;

/// Ranks the tree by `policy` first, then by all other policies. Returns the rankings, and each policy that
/// can't rank the tree with the reason.
fn rank_by_all_policies(
    args: &Args,
    loaded: &Loaded,
    policy: Policy,
    progress: &mut Progress,
) -> Result<(Vec<Ranking>, Refusals)> {
    let source = args.input.source();
    progress.phase("ranking", || 0);
    let mut rankings = vec![rank(source, &loaded.tree, policy, &loaded.options)?];
    let mut without = Vec::new();
    for other in Policy::ALL.into_iter().filter(|other| *other != policy) {
        match loaded.tree.rank(other, &loaded.options) {
            Ok(ranking) => rankings.push(ranking),
            Err(error) => without.push((other, error.to_string())),
        }
    }
    Ok((rankings, without))
}
