// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare migrate`: what another plugin would lose of the jobs that this one holds, and how it loses none.

use std::collections::HashMap;
use std::io::Write;

use serde::Deserialize;
use serde_json::{Value, json};

use super::status::loaded;
use crate::outcome::{Answer, Failure, Outcome, failure};
use crate::plugin::ask::{InstanceArg, NO_DATA, ask, in_a_job};
use crate::ui::messages::{remark, say};
use crate::ui::output::{OutputArgs, Report};
use crate::ui::printable::{count, printable};
use crate::ui::rows::{Cell, Rows, Style, column};
use crate::ui::words::Words;
use fairshare_client::{Flux, FluxError};
use fairshare_engine::engine::answers::Stats;

/// Before going back to flux-accounting's plugin: which held jobs it would lose, and how it loses none
///
/// That plugin goes on holding a job whose names are plain and whose limits are still full when it is loaded. A name such as
/// max-running-jobs-user-limit.2, one of a limit on GPUs or a whole bank, or one of a limit that has room by then, it never
/// takes off: the job would wait for ever; and a job whose plain name was used up it ends when there is room. With
/// --to-upstream each such job gets urgency 0 and loses its names: it rests in SCHED, where no plugin touches it. What is
/// printed then is a shell script that gives each its urgency back: keep it, run it when the other plugin is in place, and remove
/// it then. Begin with no such script, and add to it with >>: run again, this says nothing of the jobs that rest already.
///
/// Jobs that other plugins keep in DEPEND too can't rest: without their names they would stay there, and that plugin would add one that
/// holds nothing, and end them. They are told, and left as they are; run this again when the others have let them go.
///
/// With flux-accounting's plugin loaded, says which jobs it has lost.
///
/// Exit status 1 means that there are such jobs, or that some can't rest. Without data the plugin does not know which jobs it
/// holds: that is an error, and "flux fairshare push" comes first.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Have those that would be lost rest at urgency 0, and print what lets them go again
    #[arg(long)]
    to_upstream: bool,
    /// All held jobs that nobody else keeps: so it does not matter which jobs end before the other plugin is loaded
    #[arg(long, requires = "to_upstream")]
    all: bool,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

/// A held job.
#[derive(Debug, Deserialize)]
struct HeldJob {
    id: u64,
    userid: u32,
    bank: Option<String>,
    urgency: Option<i64>,
    names: Vec<String>,
    /// Others keep it too.
    #[serde(default)]
    kept: bool,
    fate: String,
}

#[derive(Debug, Deserialize)]
struct HeldJobsPage {
    jobs: Vec<HeldJob>,
    next: Option<u64>,
}

impl HeldJob {
    fn is_lost(&self) -> bool {
        self.fate != "held"
    }

    /// What the other plugin makes of it, in words.
    fn fate(&self) -> &str {
        match self.fate.as_str() {
            "held" => "held on",
            "stranded" => "waits for ever",
            "ended" => "ended when there is room",
            "released" => "not held any more",
            other => other,
        }
    }

    /// Whether it would have to rest, and can't.
    fn is_beyond_help(&self, all: bool) -> bool {
        self.kept && (all || self.is_lost())
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    if !is_ours(&flux)? {
        if args.to_upstream {
            return Err(Failure::Message(
                "the plugin that is loaded is flux-accounting's already".to_owned(),
            ));
        }
        return print(args, &flux, "lost", lost(&flux)?);
    }
    has_data(&flux)?;
    let jobs = held(&flux)?;
    if !args.to_upstream {
        return print(args, &flux, "held", jobs);
    }
    let would_rest = |job: &HeldJob| !job.kept && (args.all || job.is_lost());
    let rested = rest(&flux, jobs.into_iter().filter(would_rest).collect())?;
    // Of some it turns out only now that others keep them.
    let kept: Vec<HeldJob> = held(&flux)?.into_iter().filter(|job| job.is_beyond_help(args.all)).collect();
    let words = Words::of(&flux, 0.0);
    for job in &kept {
        remark(format_args!(
            "{}: {} if that plugin is loaded now: others keep it too, and no rest saves it before they let it go",
            words.job(job.id),
            job.fate()
        ));
    }
    Ok(if kept.is_empty() { rested } else { Answer::No })
}

/// Whether the plugin is ours, which alone can be asked this; it is an error if there is none.
fn is_ours(flux: &Flux) -> Result<bool, Failure> {
    match flux.rpc("job-manager.mf_priority.hand_over", "{}") {
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) if loaded(flux)?.is_some() => Ok(false),
        Err(FluxError::Request { errno: libc::ENOSYS, .. }) if let Some(text) = in_a_job(flux) => {
            Err(Failure::Message(text))
        }
        Err(error) => Err(failure(error)),
        Ok(_) => Ok(true),
    }
}

/// Refuses to speak of held jobs where the plugin can't know them. Users without data are named.
fn has_data(flux: &Flux) -> Result<(), Failure> {
    let stats: Stats = ask(flux, "stats", &json!({}))?;
    if stats.heading.generation == 0 {
        return Err(Failure::Message(format!(
            "{NO_DATA}; before that it does not know which jobs its limits hold. Push, then run this again"
        )));
    }
    if stats.jobs.waiting > 0 {
        let jobs = count(usize::try_from(stats.jobs.waiting).unwrap_or(usize::MAX), "job");
        remark(format_args!(
            "{jobs} of users without data are not among those below: whether a limit holds them shows when their users' \
             records are pushed; \"flux fairshare status\" names the users"
        ));
    }
    Ok(())
}

fn held(flux: &Flux) -> Result<Vec<HeldJob>, Failure> {
    let mut held = Vec::new();
    let mut payload = json!({});
    loop {
        let page: HeldJobsPage = ask(flux, "hand_over", &payload)?;
        held.extend(page.jobs);
        match page.next {
            Some(after) => payload = json!({ "after": after }),
            None => return Ok(held),
        }
    }
}

/// Jobs in DEPEND by names of limits of which flux-accounting's plugin does not know.
fn lost(flux: &Flux) -> Result<Vec<HeldJob>, Failure> {
    const DEPEND: u64 = 2;
    let name = loaded(flux)?.unwrap_or_default();
    let query = json!({ "name": name }).to_string();
    let state: Value = answer(flux, "job-manager.jobtap-query", &query)?;
    let attributes = json!(["userid", "urgency", "bank", "dependencies"]);
    let wanted = json!({"max_entries": 0, "attrs": attributes, "constraint": {"states": [DEPEND]}});
    let jobs: Value = answer(flux, "job-list.list", &wanted.to_string())?;
    let jobs = jobs.get("jobs").and_then(Value::as_array).cloned().unwrap_or_default();
    let users = state.get("mf_priority_map").and_then(Value::as_array).into_iter().flatten();
    let banks = users.flat_map(|user| user["banks"].as_array().into_iter().flatten());
    let known = banks.filter_map(|bank| bank["held_jobs"].as_object()).flatten();
    let known: Known = known.map(|(id, held)| (id.as_str(), &held["deps"])).collect();
    Ok(jobs.iter().filter_map(|job| lost_job(job, &known)).collect())
}

/// By id of a job the names that flux-accounting's plugin knows that it carries.
type Known<'a> = HashMap<&'a str, &'a Value>;

fn lost_job(job: &Value, known: &Known<'_>) -> Option<HeldJob> {
    let id = job["id"].as_u64()?;
    let known: &[Value] =
        known.get(id.to_string().as_str()).and_then(|deps| deps.as_array()).map_or(&[], |deps| deps);
    let names = job["dependencies"].as_array().into_iter().flatten();
    let names: Vec<String> = names
        .filter(|name| name.as_str().is_some_and(|text| text.starts_with("max-")) && !known.contains(name))
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect();
    let fate = "stranded".to_owned();
    let userid = u32::try_from(job["userid"].as_u64()?).ok()?;
    let bank = job["bank"].as_str().map(str::to_owned);
    let urgency = job["urgency"].as_i64();
    (!names.is_empty()).then_some(HeldJob { id, userid, bank, urgency, names, kept: false, fate })
}

fn answer(flux: &Flux, topic: &str, payload: &str) -> Result<Value, Failure> {
    let answer = flux.rpc(topic, payload).map_err(failure)?;
    serde_json::from_str(&answer.unwrap_or_default()).map_err(failure)
}

/// Has jobs rest. What lets a job go is printed before anything is done to it.
fn rest(flux: &Flux, jobs: Vec<HeldJob>) -> Outcome {
    let words = Words::of(flux, 0.0);
    say("#!/bin/sh")?;
    say("# Lets jobs go that rest since flux-accounting's plugin was to be loaded.")?;
    let mut resting = Vec::new();
    for job in &jobs {
        let (id, urgency) = (words.job(job.id), job.urgency.unwrap_or(16));
        let bank = job.bank.as_deref().unwrap_or_default();
        let text = format!("# {} in bank {bank}, held by {}", words.user(job.userid), job.names.join(", "));
        // A line break in a name would begin a command.
        say(printable(&text))?;
        if urgency == 0 {
            say(format_args!("# {id} had urgency 0 before"))?;
        } else {
            say(format_args!("flux job urgency {id} {urgency}"))?;
        }
        std::io::stdout().flush()?;
        let payload = json!({"id": job.id, "urgency": 0}).to_string();
        match flux.rpc("job-manager.urgency", &payload) {
            Ok(_) => resting.push(job),
            Err(error) => remark(format_args!("{id}: {error}")),
        }
    }
    let named: Vec<u64> = resting.iter().filter(|job| !job.names.is_empty()).map(|job| job.id).collect();
    for ids in named.chunks(1000) {
        let answer: Value = ask(flux, "rest", &json!({ "ids": ids })).map_err(|refusal| {
            // Whoever overwrites the script now loses the urgencies.
            remark(format_args!(
                "{} at urgency 0; keep the script, and run this again with >> to add to it",
                rested(resting.len())
            ));
            Failure::from(refusal)
        })?;
        let left = answer.get("left").and_then(Value::as_array).into_iter().flatten();
        for left in left.filter_map(Value::as_u64) {
            let id = words.job(left);
            remark(format_args!(
                "{id}: its names were left on it: it is not held any more, others keep it too, or its urgency has changed"
            ));
        }
    }
    remark(format_args!(
        "{} at urgency 0. Now: flux jobtap load -r mf_priority.so PATH/mf_priority.so \"config=$(flux account export-json)\"; \
         then: flux fairshare migrate, and the script",
        rested(resting.len())
    ));
    Ok(if resting.len() == jobs.len() { Answer::Yes } else { Answer::No })
}

fn rested(jobs: usize) -> String {
    match jobs {
        1 => "1 job rests".to_owned(),
        jobs => format!("{} rest", count(jobs, "job")),
    }
}

fn print(args: &Args, flux: &Flux, key: &'static str, jobs: Vec<HeldJob>) -> Outcome {
    let words = Words::of(flux, 0.0);
    let lost = jobs.iter().filter(|job| job.is_lost()).count();
    let beyond_help = jobs.iter().filter(|job| job.is_beyond_help(false)).count();
    let note = match (key, lost) {
        ("held", 0) => format!(
            "{} held by limits; flux-accounting's plugin would hold on to them",
            count(jobs.len(), "job")
        ),
        ("held", _) => format!(
            "{lost} of {} would be lost: flux fairshare migrate --to-upstream",
            count(jobs.len(), "job")
        ),
        (_, 0) => "flux-accounting's plugin has lost no job".to_owned(),
        _ => format!(
            "{} wait for ever: load this plugin again and push, which lets them go when there is room; and go back with \
             migrate --to-upstream --all",
            count(lost, "job")
        ),
    };
    let rows = jobs.into_iter().map(|job| {
        let fate = job.fate().to_owned();
        vec![
            Cell::Text(words.job(job.id)),
            Cell::Text(words.user(job.userid)),
            job.bank.map_or(Cell::None, Cell::Text),
            Cell::Text(fate),
            Cell::Text(job.names.join(",")),
        ]
    });
    let rows = Rows {
        key,
        columns: vec![
            column("id", "JobId", Style::Text),
            column("user", "User", Style::Text),
            column("bank", "Bank", Style::Text),
            column("fate", "There it is", Style::Text),
            column("names", "Held by", Style::Text),
        ],
        rows: Box::new(rows),
    };
    let kept = (beyond_help > 0).then(|| {
        let text = format!("{} of these others keep too: no rest saves", count(beyond_help, "job"));
        format!("{text} {} before they let go", if beyond_help == 1 { "it" } else { "them" })
    });
    args.output.print(Report {
        rows,
        notes: [note].into_iter().chain(kept).collect(),
        ..Report::default()
    })?;
    Ok(if lost == 0 { Answer::Yes } else { Answer::No })
}
