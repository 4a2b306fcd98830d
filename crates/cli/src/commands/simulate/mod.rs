// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare simulate`: replays a job history under other settings, on a cluster in virtual time.

pub(super) mod print;
mod read;
mod scenarios;
mod site;
mod swf;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use self::print::{GroupBy, ScenarioResult, ScenarioSettings, SimulationJsonFields};
use self::read::{History, Size};
use self::scenarios::{Common, Plan, SettingSweep, combine_setting_sweeps};
use super::config;
use crate::fingers;
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::{InstanceArg, site_resources};
use crate::replaced;
use crate::site::input::{Input, Rules};
use crate::ui::figures::span;
use crate::ui::messages::remark;
use crate::ui::output::OutputArgs;
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use fairshare::Policy;
use fairshare_accounting::store::{Access, PolicyData};
use fairshare_simulate::{Means, Measures, Scheduler, Trace, replay};

const SWEEPS: &str = include_str!("sweeps.txt").trim_ascii_end();

/// Time between two updates of the progress line.
const GLANCE: Duration = Duration::from_millis(100);

/// Replay a job history under other policies, weights, half-lives, limits and refresh intervals
///
/// The plugin's own engine computes priorities and live usage, applies limits and releases jobs; Flux and the cluster are simulated.
/// Jobs keep their submit times, run times and time limits. At the beginning, all usage is 0. The cluster is a number of cores,
/// without a topology.
///
/// Limits, budgets and charge factors of the database apply. At the beginning, all budgets are unspent; a budget whose first window begins
/// later is in force from the beginning. With --config, the settings of Flux's configuration apply too, such as exempt queues and largest
/// priorities, and its charge factors replace those of the database.
///
/// Without options, replays the jobs of the accounting database on the nodes and cores of the Flux instance.
///
/// A trace in the Standard Workload Format defines its users, its groups as banks, and its queues, all with equal shares. If
/// --path or --tree names a site, user 17 of the trace is the site's user with id 17 or named 17 or user17, in the bank named
/// like the group or else in the default bank. If the trace lists a resumed job in parts, only its summary line counts.
#[derive(Debug, clap::Args)]
#[command(after_help = SWEEPS, after_long_help = SWEEPS)]
pub(crate) struct Args {
    /// The history: an accounting database, or a trace in the Standard Workload Format, which may be compressed (.gz)
    /// [default: the accounting database]
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    trace: Option<PathBuf>,
    #[command(flatten)]
    input: Input,
    /// Nodes of the cluster, if the trace does not say [default: those of the Flux instance]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..=10_000_000), help_heading = "Cluster")]
    nodes: Option<u64>,
    /// Cores of each node, if the trace does not say [default: with --nodes 1, otherwise those of the Flux instance]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Cluster")]
    cores_per_node: Option<u32>,
    /// Jobs get whole nodes
    #[arg(long, help_heading = "Cluster")]
    whole_nodes: bool,
    /// The scheduler: fcfs starts jobs in the order of priority; easy also starts jobs that do not delay the first
    #[arg(long, value_name = "NAME", default_value = "easy", value_parser = scenarios::parse_scheduler, help_heading = "Cluster")]
    scheduler: Scheduler,
    /// With easy: how many pending jobs behind the first may be backfilled
    #[arg(long, value_name = "NUMBER", default_value_t = 1000, help_heading = "Cluster")]
    backfill_depth: usize,
    /// A ranking policy; may be given several times [default: the site's]
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = fingers::parse_policy, help_heading = "Rules")]
    policy: Vec<Policy>,
    /// A setting and its values; if given several times, all combinations are simulated
    #[arg(long, value_name = "KEY=VALUE,...", help_heading = "Rules")]
    sweep: Vec<SettingSweep>,
    /// Use [fairshare] of this configuration of Flux: a file, or a directory with *.toml files. --sweep takes precedence
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::AnyPath, help_heading = "Rules")]
    config: Option<PathBuf>,
    #[command(flatten)]
    rules: Rules,
    /// How many scenarios run at once [default: as many as there are cores]
    #[arg(long, value_name = "NUMBER", help_heading = "Output")]
    threads: Option<NonZeroUsize>,
    /// How the second table groups jobs; with --csv, print this table instead of the scenarios
    #[arg(long, value_name = "WHAT", help_heading = "Output")]
    by: Option<GroupBy>,
    /// Also write an HTML page with all results; the file is replaced atomically, and a link is refused
    #[arg(long, value_name = "FILE", value_hint = clap::ValueHint::FilePath, help_heading = "Output")]
    report: Option<PathBuf>,
    /// The title of the page
    #[arg(
        long,
        value_name = "TEXT",
        default_value = "Simulation",
        requires = "report",
        help_heading = "Output"
    )]
    title: String,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

impl Args {
    /// Returns the file with the history.
    fn trace(&self) -> &Path {
        self.trace.as_deref().unwrap_or_else(|| self.input.source())
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    if let Some(report) = &args.report {
        if report == Path::new("-") {
            let text = "--report: name a file; standard output is for the table";
            return Err(failure(text.to_owned()));
        }
        replaced::check_page(report)?;
    }
    let mut progress = Progress::start();
    let (history, common, cluster_of_instance) = load_history(args, &mut progress)?;
    let History { mut trace, skipped, waits, .. } = history;
    let site = load_site(args, &mut trace, &mut progress)?;
    let mut sweeps = args.sweep.clone();
    if !args.policy.is_empty() {
        sweeps.insert(0, SettingSweep::policies(&args.policy));
    }
    let plans = combine_setting_sweeps(&sweeps, site::policy(&site))?;
    let (jobs, parties, means) = (trace.jobs(), trace.parties(), trace.means());
    let measured = replay_all(args, &trace, &site, &plans, &common, &mut progress)?;
    let settings = plans.iter().map(|Plan { name, values }| ScenarioSettings {
        scenario: name.clone(),
        settings: values.iter().map(|value| (value.key.clone(), value.text.clone())).collect(),
    });
    let settings = settings.collect();
    let results = plans.into_iter().zip(measured);
    let results: Vec<_> =
        results.map(|(Plan { name, .. }, measures)| ScenarioResult { name, measures }).collect();
    let recorded = (waits.0 > 0).then(|| waits.1 / waits.0 as f64);
    let facts = SimulationJsonFields {
        trace: args.trace().to_owned(),
        jobs: jobs.len(),
        skipped,
        nodes: common.nodes,
        cores: common.cores,
        cluster_of_instance,
        recorded_wait_mean: recorded,
        interarrival_mean: means.map(|means| means.between),
        run_mean: means.map(|means| means.run),
        cores_mean: means.map(|means| means.cores),
        users: parties.iter().map(|party| party.user).collect::<HashSet<_>>().len(),
        banks: parties.iter().map(|party| &party.bank).collect::<HashSet<_>>().len(),
        first_submit: jobs.first().map(|job| job.submit),
        last_submit: jobs.last().map(|job| job.submit),
        core_seconds: jobs.iter().map(|job| job.run * f64::from(job.cores)).sum(),
        settings,
    };
    let mut before = vec![format!(
        "{} on {} with {}{}.",
        count(jobs.len(), "job"),
        count(common.nodes as usize, "node"),
        count(common.cores as usize, "core"),
        if cluster_of_instance { ", as the Flux instance has" } else { "" }
    )];
    if let Some(Means { between, run, cores }) = means {
        let (between, run) = (span(between), span(run));
        before.push(format!("On average a job came every {between} and ran {run} on {cores:.1} cores."));
    }
    if skipped > 0 {
        before.push(format!(
            "Left out: {} without a run time, a size or a summary line in the trace.",
            count(skipped, "job")
        ));
    }
    if let Some(report) = &args.report {
        progress.phase("writing", || 0);
        let page = print::build_html(&args.title, &results, &facts)?;
        replaced::replace_page(report, page.as_bytes())
            .map_err(|error| failure(format!("{}: {error}", report.display())))?;
    }
    print::print(args.output, args.by, &results, &facts, before, progress)?;
    Ok(Answer::Yes)
}

/// Reads the history of jobs and the parameters that all scenarios share. Also returns true if the size of the
/// cluster comes from the Flux instance.
fn load_history(args: &Args, progress: &mut Progress) -> Result<(History, Common, bool)> {
    progress.phase("reading the history", || 0);
    if args.trace.is_none() && !args.input.is_document() {
        // If there is no database, this error also names a remedy.
        args.input.wait_option().open(&args.input.found(), Access::Read)?;
    }
    // If the trace states only the cores of its jobs, the header of the trace defines the nodes, because limits and weights need sizes in
    // nodes.
    let stated = read::read_cluster(args.trace())?;
    let instance = match (args.nodes, stated) {
        (None, (None, None)) => args.instance.connect().ok().and_then(|flux| site_resources(&flux)),
        _ => None,
    };
    let of_each = |cores: u64, nodes: u64| u32::try_from(cores / nodes).unwrap_or(1).max(1);
    let cores_per_node = match (args.cores_per_node, stated, &instance) {
        (Some(given), ..) => given,
        (None, (Some(nodes), Some(cores)), _) => of_each(cores, nodes),
        (None, _, Some(all)) => of_each(all.cores, all.nodes),
        (None, ..) => 1,
    };
    let size = Size { cores_per_node, whole_nodes: args.whole_nodes };
    let history = read::read_history(args.trace(), size, args.input.wait_option())?;
    history.notes.iter().for_each(|note| remark(format_args!("{}: {note}", args.trace().display())));
    let of_instance = instance.as_ref().map(|all| (all.nodes, all.cores));
    let of_cores = history.cores.map(|cores| cores.div_ceil(cores_per_node.into()));
    let Some(nodes) = args.nodes.or(history.nodes).or(of_cores).or(of_instance.map(|(nodes, _)| nodes))
    else {
        let text =
            "--nodes is missing: neither the history nor a Flux instance says how large the cluster is";
        return Err(failure(text.to_owned()));
    };
    let stated = history.cores.or(of_instance.map(|(_, cores)| cores));
    let has_only_cores = history.nodes.is_none() && history.cores.is_some();
    let is_stated = args.nodes.is_none() && (args.cores_per_node.is_none() || has_only_cores);
    let stated = stated.filter(|_| is_stated);
    let cores = stated.unwrap_or(nodes.saturating_mul(cores_per_node.into()));
    let table = args.config.as_ref().map(config::read_table).transpose()?.unwrap_or_default();
    let common = Common { table, scheduler: args.scheduler, depth: args.backfill_depth, nodes, cores };
    Ok((history, common, of_instance.is_some() && is_stated))
}

/// Returns the site without usage, and assigns the jobs of the history to its associations.
fn load_site(args: &Args, trace: &mut Trace, progress: &mut Progress) -> Result<PolicyData> {
    let begin = trace.jobs().first().map_or(0.0, |job| job.submit);
    let is_given = args.input.is_given();
    let database = if is_given {
        args.input.database()
    } else if read::is_database(args.trace())? {
        let found = crate::site::database::Found { path: args.trace().to_owned(), by: None };
        Some(args.input.wait_option().open(&found, Access::Read))
    } else {
        None
    };
    let mut data = match database {
        Some(database) => site::from_database(&mut database?, &args.rules, begin)?,
        None if is_given => {
            site::from_document(&args.input.load(&args.rules, progress)?, !args.policy.is_empty())?
        }
        None => site::build_site_from_trace(trace, &args.rules)?,
    };
    for note in data.notes.iter().cloned().chain(site::list_expired_budgets(&data.budgets, begin)) {
        remark(note);
    }
    site::clear_usage(&mut data, begin);
    if args.config.is_some() {
        data.charges.clear();
    }
    site::assign_jobs(trace, &data);
    Ok(data)
}

/// Replays all scenarios in parallel. Returns their results in the order of `plans`.
fn replay_all(
    args: &Args,
    trace: &Trace,
    site: &PolicyData,
    plans: &[Plan],
    common: &Common,
    progress: &mut Progress,
) -> Result<Vec<Measures>> {
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = args.threads.map_or(cores, NonZeroUsize::get).min(plans.len());
    progress.phase("replaying", || (trace.jobs().len() * plans.len()) as u64);
    let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
    let mut measured: Vec<Option<Result<Measures, String>>> = vec![None; plans.len()];
    thread::scope(|scope| {
        let (sender, finished) = channel();
        for _ in 0..threads {
            let (sender, next, done) = (sender.clone(), &next, &done);
            scope.spawn(move || {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(plan) = plans.get(index) else { break };
                    let outcome =
                        plan.scenario(site, common).and_then(|scenario| replay(trace, scenario, done));
                    if sender.send((index, outcome)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        loop {
            match finished.recv_timeout(GLANCE) {
                Ok((index, outcome)) => {
                    if let Some(place) = measured.get_mut(index) {
                        *place = Some(outcome);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            progress.set_finished_steps(done.load(Ordering::Relaxed));
        }
    });
    let outcome = |(plan, outcome): (&Plan, Option<Result<Measures, String>>)| {
        let outcome = outcome.unwrap_or_else(|| Err("it was not run".to_owned()));
        outcome.map_err(|error| failure(format!("{}: {error}", plan.name)))
    };
    plans.iter().zip(measured).map(outcome).collect()
}
