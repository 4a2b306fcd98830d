// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare sync`: from ended jobs to the plugin, in one go.

mod fetch;
mod told;
mod watch;

use std::io::{IsTerminal, Write, stderr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::ValueEnum;

use super::push::{self, Push};
use crate::site::database::DatabaseArg;
use crate::site::input::{PolicyArg, Rules, Wait, seconds};
use crate::site::mending;
use crate::ui::output::OutputArgs;
use crate::ui::progress::Progress;
use crate::{Answer, Failure, Outcome, after_storing, failure, remark};
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::pipeline::{PipelineError, Plan, Rule};
use fairshare_accounting::store::{Access, Snapshot};
use fairshare_client::Flux;
use fetch::{Fetch, Stored};
use told::{print, summary, tell};

/// Fetch ended jobs, count usage, rank, and push, as one
///
/// Does what "flux account-fetch-job-records", "account-update-usage", "account-update-fshare" and
/// "account-priority-update" do one after the other. All that is stored is stored in one transaction: whatever happens,
/// the database is as before or as after. Prints nothing unless there is something to be said, on a terminal, or asked to.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(super) database: DatabaseArg,
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
    /// Why usage was not counted, though the rest was done.
    uncounted: Option<PipelineError>,
}

impl Done {
    /// An error if usage was not counted. What was fetched counts when the clock is there again.
    pub(super) fn is_counted(&self) -> Result<(), Failure> {
        let Some(error) = &self.uncounted else { return Ok(()) };
        let is_ranked = self.ranked.as_ref().is_some_and(|ranked| !ranked.changes.is_empty());
        Err(if self.fetched.is_some() || is_ranked { after_storing(failure(error)) } else { failure(error) })
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.dry_run && !args.output.is_table() {
        return Err(Failure::Message("--json, --csv and --parsable go with --dry-run".to_owned()));
    }
    if args.copy.is_some() && !args.asks(Step::Fetch) {
        return Err(Failure::Message("--copy goes with the step fetch".to_owned()));
    }
    if let Some(archive) = &args.copy
        && is_one_file(archive, args.database.path())
    {
        // To close it when it has been read would give up the locks of the transaction, which hold for a whole process.
        return Err(Failure::Message(format!(
            "{}: --copy takes a job archive, and this is the database itself",
            archive.display()
        )));
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
        let _ = writeln!(stderr(), "{}: {}", args.database.path().display(), summary(args, &done));
    }
    if args.asks(Step::Push) {
        let push = Push { found: args.database.found(), wait: args.wait, uri: args.uri.as_deref() };
        let pushed =
            push::send(&push).map_err(|error| if args.stores() { after_storing(error) } else { error });
        match pushed {
            Ok(pushed) if verbose => {
                let _ = writeln!(stderr(), "{}: {pushed}", args.database.path().display());
            }
            Ok(_) => {}
            Err(error) => {
                done.is_counted().unwrap_or_else(remark);
                return Err(error);
            }
        }
    }
    done.is_counted()?;
    Ok(Answer::Yes)
}

/// Whether two names lead to the same file, by whichever kind of link.
fn is_one_file(one: &Path, other: &Path) -> bool {
    let of = |path: &Path| path.metadata().ok().map(|file| (file.dev(), file.ino()));
    of(one).is_some_and(|one| of(other) == Some(one))
}

/// The steps in the database, as one transaction. What somebody should know goes to `note`, asked or not.
pub(super) fn store_all(args: &Args, note: &mut dyn FnMut(String)) -> Result<Done, Failure> {
    let mut done = Done::default();
    if args.stores() {
        let mut progress = Progress::start();
        let mut flux = None;
        let fetch = if args.asks(Step::Fetch) {
            let fetch = Fetch { found: args.database.found(), wait: args.wait, now: now(args.now) };
            let flux = flux.insert(Flux::connect(args.uri.as_deref()).map_err(failure)?);
            Some(fetch.begin(flux, &mut progress)?)
        } else {
            None
        };
        let mut database = args.wait.open(args.database.found(), Access::Write)?;
        let snapshot = database.snapshot().map_err(failure)?;
        if let Some(begun) = fetch {
            done.fetched = Some(begun.store(
                &snapshot,
                args.copy.as_deref().map(|path| (path, args.wait)),
                &mut progress,
            )?);
        }
        if args.asks(Step::Usage) {
            match usage(args, &snapshot, &mut progress) {
                Ok(plan) => done.usage = Some(plan),
                // A clock that was set back is no reason to lose what was fetched, as Flux may have forgotten those jobs
                // when it is there again, nor a reason to withhold edits from the plugin.
                Err(error @ PipelineError::ClockWentBack { .. }) if !args.dry_run => {
                    done.uncounted = Some(error);
                }
                Err(error) => return Err(failure(error)),
            }
        }
        if args.asks(Step::Fairshare) {
            done.ranked = Some(fairshare(args, &snapshot, &mut progress)?);
        }
        if args.dry_run {
            if args.asks(Step::Push) {
                push::judged_snapshot(&snapshot, now(args.now))?.into_iter().for_each(&mut *note);
            }
            drop(snapshot);
        } else {
            progress.phase("storing", || 0);
            snapshot.commit().map_err(failure)?;
        }
    }
    if let Some(stored) = &done.fetched {
        stored.tell(args.database.path(), note);
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

    fn stores(&self) -> bool {
        [Step::Fetch, Step::Usage, Step::Fairshare].into_iter().any(|step| self.asks(step))
    }
}

fn usage(args: &Args, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Plan, PipelineError> {
    progress.phase("counting", || snapshot.association_estimate());
    let now = now(args.now);
    let plan = Plan::new(snapshot, args.usage_rule, now, &mut |done| progress.at(done))?;
    let changes = &plan.changes;
    progress.phase("writing usage", || {
        (changes.usages.len() + changes.newest.len() + changes.bins.len() + changes.away.len()) as u64
    });
    plan.write(snapshot, &mut |done| progress.at(done))?;
    Ok(plan)
}

fn fairshare(args: &Args, snapshot: &Snapshot<'_>, progress: &mut Progress) -> Result<Ranked, Failure> {
    progress.phase("ranking", || snapshot.association_estimate());
    let site = snapshot.site_policy().map_err(failure)?;
    let (policy, options) = (args.policy.over(site), args.rules.over(site)?);
    let ranked =
        Ranked::new(snapshot, policy, &options, &mut |done| progress.at(done)).map_err(mending::failed)?;
    progress.phase("writing fair-shares", || ranked.changes.len() as u64);
    ranked.write(snapshot, &mut |done| progress.at(done)).map_err(failure)?;
    Ok(ranked)
}
