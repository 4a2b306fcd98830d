// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare sync`: from ended jobs to the plugin, in one go.

use std::io::{IsTerminal, Write, stderr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use clap::ValueEnum;

use super::fetch::{Fetch, Stored};
use super::input::{PolicyArg, Rules, Wait, seconds};
use super::output::{Cell, Column, OutputArgs, Report, Style};
use super::printable::count;
use super::progress::Progress;
use super::push::{self, Push};
use super::watch;
use super::{Answer, Failure, Outcome, failure, remark};
use crate::flux::Flux;
use crate::pipeline::fairshare::Ranked;
use crate::pipeline::{Plan, Rule, Tally};
use crate::store::{self, Access, Snapshot};

/// Fetch ended jobs, count usage, rank, and push, as one
///
/// Does what "flux account-fetch-job-records", "account-update-usage", "account-update-fshare" and
/// "account-priority-update" do one after the other. All that is stored is stored in one transaction: whatever happens,
/// the database is as before or as after. Prints nothing unless there is something to be said, on a terminal, or asked to.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The accounting database
    #[arg(short, long, value_name = "FILE", default_value = store::DEFAULT_PATH, help_heading = "Input")]
    pub(super) path: PathBuf,
    #[command(flatten)]
    pub(super) wait: Wait,
    /// The Flux instance; otherwise the enclosing or the system's
    #[arg(long, value_name = "URI", help_heading = "Input")]
    pub(super) uri: Option<String>,
    /// Also take the jobs of a job archive, as flux-core wrote it before 0.40
    #[arg(short, long, value_name = "ARCHIVE", help_heading = "Input")]
    copy: Option<PathBuf>,
    /// Do only this; may be given several times
    #[arg(long, value_name = "STEP")]
    only: Vec<Step>,
    /// Stay, and do it when jobs ended or the database changed
    ///
    /// Ended jobs are taken up every SECONDS (30 unless given), a change of the database within a second or two. It outlives
    /// a restart of Flux and a database that is locked or replaced. SIGHUP makes it sync and push at once, SIGTERM end.
    /// systemd is told when it is ready and that it is alive; there is a line for each change.
    #[arg(
        long,
        value_name = "SECONDS",
        num_args = 0..=1,
        default_missing_value = "30",
        value_parser = seconds,
        conflicts_with_all = ["only", "copy", "now", "dry_run"]
    )]
    watch: Option<Duration>,
    /// The rule that makes usage of jobs: exact or flux-accounting
    ///
    /// exact counts each job once, in the half-life period in which it ended, whenever its record comes, and lets all
    /// usage decay at every boundary. flux-accounting stores what "flux account-update-usage" would, to the last digit.
    #[arg(long, value_name = "RULE", default_value = "exact", help_heading = "Rules")]
    usage_rule: Rule,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// The time it is, in seconds since the epoch; for tests and recounts
    #[arg(long, value_name = "SECONDS", value_parser = instant, help_heading = "Rules")]
    now: Option<f64>,
    /// Store and send nothing; show what would change
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// With --dry-run: show this many in the table, 0 is all
    #[arg(long, value_name = "NUMBER", default_value_t = 20, help_heading = "Output")]
    limit: usize,
    /// Say what was done, also when not on a terminal
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// What can be done apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Step {
    /// Bring records of ended jobs into the database
    Fetch,
    /// Count usage
    Usage,
    /// Compute fair-shares
    Fairshare,
    /// Send the database to the plugin
    Push,
}

/// Seconds since the epoch.
pub(super) fn instant(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected seconds since the epoch".to_owned())?;
    // The year 33658: beyond it a double is no exact count of microseconds.
    if !(0.0..1e12).contains(&seconds) {
        return Err("expected seconds since the epoch".to_owned());
    }
    Ok(seconds)
}

/// The time, or what is to be taken for it.
pub(super) fn now(given: Option<f64>) -> f64 {
    given.unwrap_or_else(|| {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    })
}

/// What the steps in the database came to.
#[derive(Default)]
pub(super) struct Done {
    pub(super) fetched: Option<Stored>,
    pub(super) usage: Option<Plan>,
    pub(super) ranked: Option<Ranked>,
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.dry_run && !args.output.is_table() {
        return Err(Failure::Message("--json, --csv and --parsable go with --dry-run".to_owned()));
    }
    if args.copy.is_some() && !args.asks(Step::Fetch) {
        return Err(Failure::Message("--copy goes with the step fetch".to_owned()));
    }
    if let Some(every) = args.watch {
        return watch::run(args, every);
    }
    let done = store_all(args, &mut |text| remark(text))?;
    if args.dry_run {
        print(args, &done)?;
        return Ok(Answer::Yes);
    }
    let verbose = args.verbose || stderr().is_terminal();
    if verbose {
        // Stored is stored: a standard error that takes no more makes no failure of it.
        let _ = writeln!(stderr(), "{}: {}", args.path.display(), summary(args, &done));
    }
    if args.asks(Step::Push) {
        let pushed = push::send(&Push { path: &args.path, wait: args.wait, uri: args.uri.as_deref() })?;
        if verbose {
            let _ = writeln!(stderr(), "{}: {pushed}", args.path.display());
        }
    }
    Ok(Answer::Yes)
}

/// The steps in the database, as one transaction. What somebody should know goes to `note`, asked or not.
pub(super) fn store_all(args: &Args, note: &mut dyn FnMut(String)) -> Result<Done, Failure> {
    let mut done = Done::default();
    if args.asks(Step::Fetch) || args.asks(Step::Usage) || args.asks(Step::Fairshare) {
        let mut progress = Progress::start();
        let mut flux = None;
        let fetch = if args.asks(Step::Fetch) {
            let fetch = Fetch { path: &args.path, wait: args.wait, now: now(args.now) };
            let flux = flux.insert(Flux::connect(args.uri.as_deref()).map_err(failure)?);
            Some(fetch.begin(flux, &mut progress)?)
        } else {
            None
        };
        let mut database = args.wait.open(&args.path, Access::Write)?;
        let snapshot = database.snapshot().map_err(failure)?;
        if let Some(begun) = fetch {
            done.fetched = Some(begun.store(
                &snapshot,
                args.copy.as_deref().map(|path| (path, args.wait)),
                &mut progress,
            )?);
        }
        if args.asks(Step::Usage) {
            done.usage = Some(usage(args, &snapshot, &mut progress)?);
        }
        if args.asks(Step::Fairshare) {
            done.ranked = Some(fairshare(args, &snapshot, &mut progress)?);
        }
        if args.dry_run {
            drop(snapshot);
        } else {
            progress.phase("storing", || 0);
            snapshot.commit().map_err(failure)?;
        }
    }
    if let Some(stored) = &done.fetched {
        stored.tell(&args.path, note);
    }
    if let Some(plan) = &done.usage {
        tell(args, &plan.tally, note);
    }
    Ok(done)
}

impl Args {
    fn asks(&self, step: Step) -> bool {
        self.only.is_empty() || self.only.contains(&step)
    }
}

fn usage(args: &Args, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Plan, Failure> {
    progress.phase("counting", || snapshot.association_estimate());
    let now = now(args.now);
    let plan = Plan::new(snapshot, args.usage_rule, now, &mut |done| progress.at(done)).map_err(failure)?;
    let changes = &plan.changes;
    progress
        .phase("writing usage", || (changes.usages.len() + changes.newest.len() + changes.bins.len()) as u64);
    plan.write(snapshot, &mut |done| progress.at(done)).map_err(failure)?;
    Ok(plan)
}

fn fairshare(args: &Args, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Ranked, Failure> {
    progress.phase("ranking", || snapshot.association_estimate());
    let options = args.rules.options()?;
    let policy = args.policy.of_database();
    let ranked = Ranked::new(snapshot, policy, &options, &mut |done| progress.at(done)).map_err(failure)?;
    progress.phase("writing fair-shares", || ranked.changes.len() as u64);
    ranked.write(snapshot, &mut |done| progress.at(done)).map_err(failure)?;
    Ok(ranked)
}

/// What somebody should know, asked or not.
fn tell(args: &Args, tally: &Tally, note: &mut dyn FnMut(String)) {
    let mut say = |text: String| note(format!("{}: {text}", args.path.display()));
    if let Some(why) = tally.recounted {
        say(format!("all usage was counted anew from {}: {why}", count(tally.counted, "record")));
    }
    if tally.repaired > 0 {
        say(format!(
            "a past that flux-accounting had counted twice was taken out of the usage of {}",
            count(tally.repaired, "association")
        ));
    }
    if tally.unreadable_count > 0 {
        let jobs = tally.unreadable.join(", ");
        let more = if tally.unreadable_count > tally.unreadable.len() { ", ..." } else { "" };
        say(format!(
            "{} left out, the resources or times can't be read: job {jobs}{more}",
            count(tally.unreadable_count, "record")
        ));
    }
    for (userid, bank, jobs) in &tally.unplaced {
        let place = if bank.is_empty() { "a default bank".to_owned() } else { format!("bank {bank}") };
        say(format!(
            "{} of user id {userid} count nowhere yet: no association in {place}",
            count(*jobs, "record")
        ));
    }
    if tally.from_the_future > 0 {
        say(format!(
            "{} of jobs that ended in a period to come count in the present one: is the clock right?",
            count(tally.from_the_future, "record")
        ));
    }
}

/// What was done, in a line.
fn summary(args: &Args, done: &Done) -> String {
    let mut parts = Vec::new();
    parts.extend(done.fetched.as_ref().map(Stored::summary));
    if let Some(Plan { tally, changes, .. }) = &done.usage {
        let mut details = Vec::new();
        for (number, what) in [(tally.in_default_bank, "in a default bank"), (tally.late, "late")] {
            if number > 0 {
                details.push(format!("{number} {what}"));
            }
        }
        let details = if details.is_empty() { String::new() } else { format!(" ({})", details.join(", ")) };
        parts.push(format!(
            "{} counted{details} by rule {}",
            count(tally.counted, "record"),
            args.usage_rule
        ));
        for (number, what) in [
            (tally.boundaries, "period boundary crossed"),
            (tally.ignored, "before a cut-off"),
            (tally.too_old, "too old to count"),
            (tally.waiting, "without an association"),
        ] {
            if number > 0 {
                parts.push(format!("{number} {what}"));
            }
        }
        parts.push(format!(
            "usage of {} and {} changed",
            count(changes.usages.len(), "association"),
            count(changes.banks.len(), "bank")
        ));
    }
    if let Some(ranked) = &done.ranked {
        parts.push(format!(
            "{} ranked by {}, {} changed",
            count(ranked.ranking.ranked(), "association"),
            args.policy.of_database(),
            count(ranked.changes.len(), "fair-share")
        ));
    }
    if parts.is_empty() { "nothing to do".to_owned() } else { parts.join("; ") }
}

/// One association of which something would change.
#[derive(Default)]
struct Move {
    usage: Option<(f64, f64)>,
    fairshare: Option<(Option<f64>, f64)>,
}

/// The table of --dry-run.
fn print(args: &Args, done: &Done) -> std::io::Result<()> {
    let mut moves: std::collections::BTreeMap<(&str, &str), Move> = std::collections::BTreeMap::new();
    if let Some(Plan { ledger, changes, .. }) = &done.usage {
        for (at, usage) in &changes.usages {
            if let Some(account) = ledger.accounts.get(*at) {
                let moved = moves.entry((ledger.bank_name(account), account.user.as_str())).or_default();
                moved.usage = Some((account.usage, *usage));
            }
        }
    }
    if let Some(Ranked { tree, changes, .. }) = &done.ranked {
        for change in changes {
            let bank = tree.parent(change.node).map_or("", |bank| tree.name(bank));
            let moved = moves.entry((bank, tree.name(change.node))).or_default();
            moved.fairshare = Some((change.stored.fairshare, change.fairshare));
        }
    }
    let total = moves.len();
    let limit = if args.output.is_table() && args.limit > 0 { args.limit } else { usize::MAX };
    let mut rows: Vec<_> = moves.into_iter().collect();
    let distance = |moved: &Move| moved.usage.map_or(0.0, |(before, after)| (after - before).abs());
    rows.sort_by(|(_, one), (_, other)| distance(other).total_cmp(&distance(one)));
    let mut notes = Vec::new();
    if total > limit {
        notes.push(format!("and {} more (--limit 0 shows all)", total - limit));
    }
    notes.push(format!("{}; nothing was stored or sent", summary(args, done)));
    let facts = done.usage.as_ref().map(|plan| facts(args, &plan.tally)).unwrap_or_default();
    let column = |key, title, style| Column { key, title, style };
    args.output.print(Report {
        facts,
        rows_key: "changes",
        columns: vec![
            column("user", "User", Style::Text),
            column("bank", "Bank", Style::Text),
            column("usage_stored", "Usage", Style::Usage),
            column("usage", "NewUsage", Style::Usage),
            column("fairshare_stored", "FairShare", Style::Fraction),
            column("fairshare", "NewFairShare", Style::Fraction),
        ],
        rows: Box::new(rows.into_iter().take(limit).map(|((bank, user), moved)| {
            vec![
                Cell::Text(user.to_owned()),
                Cell::Text(bank.to_owned()),
                moved.usage.map(|usage| usage.0).into(),
                moved.usage.map(|usage| usage.1).into(),
                moved.fairshare.and_then(|fairshare| fairshare.0).into(),
                moved.fairshare.map(|fairshare| fairshare.1).into(),
            ]
        })),
        notes,
    })
}

/// The tally for the JSON document.
fn facts(args: &Args, tally: &Tally) -> Vec<(&'static str, serde_json::Value)> {
    vec![
        ("usage_rule", args.usage_rule.to_string().into()),
        ("counted", tally.counted.into()),
        ("in_default_bank", tally.in_default_bank.into()),
        ("late", tally.late.into()),
        ("unreadable", tally.unreadable_count.into()),
        ("waiting", tally.waiting.into()),
        ("boundaries", tally.boundaries.into()),
    ]
}
