// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare migrate`: lists the held jobs that flux-accounting's plugin would lose, and parks them.

use std::collections::HashMap;
use std::io::Write;

use serde::Deserialize;
use serde_json::json;

use super::status::{describe_query_failure, find_loaded_plugin, read_plugin_state};
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::{InstanceArg, NO_DATA, ask, describe_job_instance};
use crate::ui::messages::{remark, say};
use crate::ui::output::{OutputArgs, Report};
use crate::ui::printable::{count, printable};
use crate::ui::rows::{Cell, Column, Rows, Style, column};
use crate::ui::words::Words;
use fairshare_client::{Flux, FluxError};
use fairshare_engine::engine::answers::{HeldJob, Stats};
use fairshare_engine::engine::{HandOverOutcome, JobForHandOver, JobsToHandOverPage, Resting};
use fairshare_engine::ids::{BankName, JobId, UserId};
use fairshare_engine::limits::RULES;

/// Before you go back to flux-accounting's plugin: list the held jobs that it would lose, and save them
///
/// flux-accounting's plugin continues to hold a job only if it supports each dependency of the job, and
/// the limit of each dependency is reached when that plugin is loaded. That plugin never removes a numbered
/// dependency such as max-running-jobs-user-limit.2, a dependency on a limit on GPUs or a whole bank, or a
/// dependency on a limit that has headroom when that plugin is loaded: the job waits forever. If a
/// dependency was used before on a job, that plugin ends the job when there is headroom.
///
/// With --to-upstream each such job gets urgency 0 and loses its dependencies: it is parked in SCHED, where
/// no plugin changes it. The output is a shell script that restores the urgencies: keep the script, run it
/// after the other plugin is loaded, and then delete it. Start with no such script and append with >>: a
/// second run does not list the jobs that are parked already.
///
/// A job that other plugins block in DEPEND too can't be parked: without its dependencies it would stay in
/// DEPEND, where flux-accounting's plugin would add a dependency without effect and end the job. Such jobs
/// are listed and left unchanged; run migrate again when the other plugins have released them.
///
/// If flux-accounting's plugin is loaded, lists the jobs that this plugin has lost.
///
/// Exit status 1 means that there are such jobs, or that some can't be parked. If the plugin has no data, the
/// held jobs are unknown: this is an error; run "flux fairshare push" first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Park the jobs that would be lost: give them urgency 0, and print a script that restores the urgencies
    #[arg(long, conflicts_with = "output")]
    to_upstream: bool,
    /// Park all held jobs that no other plugin blocks, because the end of a job can change which jobs would be lost
    #[arg(long, alias = "all", requires = "to_upstream")]
    all_held: bool,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

fn is_lost(job: &JobForHandOver) -> bool {
    job.fate != HandOverOutcome::Held
}

/// Returns in words what would happen to the job under flux-accounting's plugin.
fn describe_migration_outcome(job: &JobForHandOver) -> &'static str {
    match job.fate {
        HandOverOutcome::Held => "stays held",
        HandOverOutcome::Stranded => "waits forever",
        HandOverOutcome::Ended => "is ended when there is headroom",
        HandOverOutcome::Released => "no longer held",
    }
}

/// Returns true if the job should get urgency 0 but can't, because another plugin blocks the job.
fn must_stay_in_depend(job: &JobForHandOver, all: bool) -> bool {
    job.is_kept && (all || is_lost(job))
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    if let Some(name) = find_flux_accounting_plugin(&flux)? {
        if args.to_upstream {
            return Err(failure("flux-accounting's plugin is already loaded"));
        }
        return print(args, &flux, "lost", list_jobs_with_unknown_limits(&flux, &name)?);
    }
    check_data(&flux)?;
    let jobs = list_held_jobs(&flux)?;
    if !args.to_upstream {
        return print(args, &flux, "held", jobs);
    }
    let is_parkable = |job: &JobForHandOver| !job.is_kept && (args.all_held || is_lost(job));
    let parked = set_job_urgencies_to_0(&flux, jobs.into_iter().filter(is_parkable).collect())?;
    // While the command changed urgencies, other plugins may have blocked more jobs. So the command lists the held
    // jobs again.
    let kept: Vec<JobForHandOver> =
        list_held_jobs(&flux)?.into_iter().filter(|job| must_stay_in_depend(job, args.all_held)).collect();
    let words = Words::for_flux_instance(&flux, 0.0);
    for job in &kept {
        remark(format_args!(
            "{}: {} if flux-accounting's plugin is loaded now: other plugins block this job too, and it \
             can't be parked before they release it",
            words.job(job.id.0),
            describe_migration_outcome(job)
        ));
    }
    Ok(if kept.is_empty() { parked } else { Answer::No })
}

/// Returns the name of flux-accounting's plugin, or `None` if this project's is loaded. Fails if neither plugin is loaded.
fn find_flux_accounting_plugin(flux: &Flux) -> Result<Option<String>> {
    match flux.rpc("job-manager.mf_priority.hand_over", "{}") {
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) if let Some(name) = find_loaded_plugin(flux)? => {
            Ok(Some(name))
        }
        Err(FluxError::Request { errno: libc::ENOSYS, .. })
            if let Some(text) = describe_job_instance(flux) =>
        {
            Err(failure(text))
        }
        Err(error) => Err(describe_query_failure(error)),
        Ok(_) => Ok(None),
    }
}

/// Returns an error if the plugin has no data, because it can't list held jobs then. Warns about jobs of users without data.
fn check_data(flux: &Flux) -> Result<()> {
    let stats: Stats = ask(flux, "stats", &json!({}))?;
    if stats.heading.generation == 0 {
        return Err(failure(format!(
            "{NO_DATA}. Until then, the jobs that limits hold are unknown. Push, then run this command again"
        )));
    }
    if stats.jobs.waiting > 0 {
        let jobs = count(stats.jobs.waiting, "job");
        remark(format_args!(
            "{jobs} of users without data are not listed: whether a limit holds them is unknown until the \
             users' records are pushed; \"flux fairshare status\" names the users"
        ));
    }
    Ok(())
}

fn list_held_jobs(flux: &Flux) -> Result<Vec<JobForHandOver>> {
    let mut held = Vec::new();
    let mut payload = json!({});
    loop {
        let page: JobsToHandOverPage = ask(flux, "hand_over", &payload)?;
        held.extend(page.jobs);
        match page.next {
            Some(after) => payload = json!({ "after": after }),
            None => return Ok(held),
        }
    }
}

/// Returns the jobs in DEPEND with dependencies on limits that flux-accounting's plugin lacks. `name` is the name of this plugin.
fn list_jobs_with_unknown_limits(flux: &Flux, name: &str) -> Result<Vec<JobForHandOver>> {
    const DEPEND: u64 = 2;
    let state = read_plugin_state(flux, name)?;
    let associations = state.users.iter().flat_map(|user| &user.banks);
    let held = associations.flat_map(|association| &association.held_jobs);
    let known: HashMap<JobId, &HeldJob> = held.map(|(id, job)| (*id, job)).collect();
    let attributes = json!(["userid", "urgency", "bank", "dependencies"]);
    let wanted = json!({"max_entries": 0, "attrs": attributes, "constraint": {"states": [DEPEND]}});
    let answer = flux.rpc("job-list.list", &wanted.to_string()).map_err(failure)?.unwrap_or_default();
    let list: ListAnswer = serde_json::from_str(&answer).map_err(failure)?;
    let lost = |job: JobWithDependency| {
        let known = known.get(&job.id).map_or(&[][..], |held| held.deps.as_slice());
        let is_lost = |name: &String| is_limit(name) && !known.contains(name);
        let names: Vec<String> = job.dependencies.into_iter().filter(is_lost).collect();
        let JobWithDependency { id, userid: user, urgency, bank, .. } = job;
        (!names.is_empty()).then_some(JobForHandOver {
            id,
            user,
            bank,
            queue: None,
            urgency,
            names,
            is_kept: false,
            fate: HandOverOutcome::Stranded,
        })
    };
    Ok(list.jobs.into_iter().filter_map(lost).collect())
}

/// Returns true if the dependency `name` belongs to a limit or a budget.
fn is_limit(name: &str) -> bool {
    name.starts_with("max-") || RULES.parse(name).is_some()
}

/// The answer of job-list.
#[derive(Deserialize)]
struct ListAnswer {
    jobs: Vec<JobWithDependency>,
}

#[derive(Deserialize)]
struct JobWithDependency {
    id: JobId,
    userid: UserId,
    urgency: Option<i64>,
    bank: Option<BankName>,
    #[serde(default)]
    dependencies: Vec<String>,
}

/// Parks jobs at urgency 0. Before it parks a job, prints the command that restores the urgency of the job.
fn set_job_urgencies_to_0(flux: &Flux, jobs: Vec<JobForHandOver>) -> Outcome {
    let words = Words::for_flux_instance(flux, 0.0);
    say("#!/bin/sh")?;
    say("# Restores the urgencies of jobs that were parked before flux-accounting's plugin was loaded.")?;
    let mut parked_jobs = Vec::new();
    for job in &jobs {
        let (id, urgency) = (words.job(job.id.0), job.urgency.unwrap_or(16));
        let bank = job.bank.as_deref().unwrap_or_default();
        let text = format!("# {} in bank {bank}, held by {}", words.user(job.user.0), job.names.join(", "));
        // A line break in a bank's name would end the comment, and a shell would run the text after it.
        say(printable(&text))?;
        if urgency == 0 {
            say(format_args!("# {id} had urgency 0 before"))?;
        } else {
            say(format_args!("flux job urgency {id} {urgency}"))?;
        }
        std::io::stdout().flush()?;
        let payload = json!({"id": job.id, "urgency": 0}).to_string();
        match flux.rpc("job-manager.urgency", &payload) {
            Ok(_) => parked_jobs.push(job),
            Err(error) => remark(format_args!("{id}: {error}")),
        }
    }
    let named: Vec<JobId> =
        parked_jobs.iter().filter(|job| !job.names.is_empty()).map(|job| job.id).collect();
    for ids in named.chunks(1000) {
        let answer: Resting = ask(flux, "rest", &json!({ "ids": ids })).inspect_err(|_| {
            // The script contains the jobs' urgencies. If the user overwrites the script with a second run, the
            // urgencies are lost.
            remark(format_args!(
                "{} at urgency 0; keep the script, and run the command again with >> to append to the script",
                describe_jobs_at_urgency_0(parked_jobs.len())
            ));
        })?;
        for left in answer.left {
            let id = words.job(left.0);
            remark(format_args!(
                "{id}: its dependencies were not removed: it is no longer held, other plugins block it too, or its urgency has changed"
            ));
        }
    }
    remark(format_args!(
        "{} at urgency 0. Now: flux jobtap load -r mf_priority.so PATH/mf_priority.so \"config=$(flux account export-json)\"; \
         then: flux fairshare migrate, and the script",
        describe_jobs_at_urgency_0(parked_jobs.len())
    ));
    Ok(if parked_jobs.len() == jobs.len() { Answer::Yes } else { Answer::No })
}

fn describe_jobs_at_urgency_0(jobs: usize) -> String {
    match jobs {
        1 => "1 job is parked".to_owned(),
        jobs => format!("{} are parked", count(jobs, "job")),
    }
}

pub(super) const COLUMNS: [Column<'static>; 5] = [
    column("id", "JobId", Style::Text),
    column("user", "User", Style::Text),
    column("bank", "Bank", Style::Text),
    column("fate", "Under flux-accounting's plugin", Style::Text),
    column("names", "Held by", Style::Text),
];

/// The job id in decimal, which only JSON has.
pub(super) const JOB_ID: Column<'static> = column("id_decimal", "", Style::Text);

fn print(args: &Args, flux: &Flux, key: &'static str, jobs: Vec<JobForHandOver>) -> Outcome {
    let words = Words::for_flux_instance(flux, 0.0);
    let lost_count = jobs.iter().filter(|job| is_lost(job)).count();
    let beyond_help = jobs.iter().filter(|job| must_stay_in_depend(job, false)).count();
    let note = match (key, lost_count) {
        ("held", 0) => format!(
            "{} held by limits; flux-accounting's plugin would continue to hold them",
            count(jobs.len(), "job")
        ),
        ("held", _) => format!(
            "{lost_count} of {} would be lost: flux fairshare migrate --to-upstream",
            count(jobs.len(), "job")
        ),
        (_, 0) => "flux-accounting's plugin has lost no job".to_owned(),
        _ => format!(
            "{} waiting forever: load the plugin of this project again and push, which releases the jobs when there is headroom; \
             then return with \"flux fairshare migrate --to-upstream --all-held\"",
            count(lost_count, "job")
        ),
    };
    let is_json = args.output.json;
    let rows = jobs.into_iter().map(move |job| {
        let fate = describe_migration_outcome(&job).to_owned();
        let mut cells = vec![
            Cell::Text(words.job(job.id.0)),
            Cell::Text(words.user(job.user.0)),
            job.bank.map_or(Cell::None, |bank| Cell::Text(bank.as_str().to_owned())),
            Cell::Text(fate),
            Cell::Text(job.names.join(",")),
        ];
        cells.extend(is_json.then(|| Cell::Text(job.id.to_string())));
        cells
    });
    let rows = Rows {
        key,
        columns: COLUMNS.iter().copied().chain(args.output.json.then_some(JOB_ID)).collect(),
        rows: Box::new(rows),
    };
    let kept = (beyond_help > 0).then(|| {
        let (verb, they) = if beyond_help == 1 { ("is", "it") } else { ("are", "they") };
        let jobs = count(beyond_help, "job");
        format!(
            "{jobs} of these {verb} blocked by other plugins too: {they} can't be parked before these plugins release {}",
            if beyond_help == 1 { "it" } else { "them" }
        )
    });
    args.output.print(Report {
        rows,
        notes: [note].into_iter().chain(kept).collect(),
        ..Report::default()
    })?;
    Ok(if lost_count == 0 { Answer::Yes } else { Answer::No })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_limits_and_budgets_are_known() {
        for name in
            ["max-running-jobs-user-limit.2", "max-old", "budget-node-hours-bank", "budget-gpu-hours-user"]
        {
            assert!(is_limit(name), "{name}");
        }
        assert!(!is_limit("after-start=ƒ1"));
    }
}
