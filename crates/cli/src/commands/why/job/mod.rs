// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare why JOBID [JOBID2]`: explains why a job is waiting, or why one job is ahead of another, with the plugin's answers.

pub(in crate::commands) mod compare;
pub(crate) mod decide;
mod ended;
mod explain;
pub(in crate::commands) mod history;
#[cfg(test)]
mod tests;

use std::io::Write;

use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use compare::compared_cells;

use super::arguments::Args;
use crate::outcome::{Answer, Failure, Outcome, failure};
use crate::plugin::ask::{Refusal, ask};
use crate::plugin::scheduling::start_facts;
use crate::ui::companions::add_companions;
use crate::ui::figures::now;
use crate::ui::messages::remark;
use crate::ui::output::write_pretty;
use crate::ui::pager::Paper;
use crate::ui::printable::printable;
use crate::ui::screen::Screen;
use crate::ui::teller::Teller;
use crate::ui::words::Words;
use compare::JobVerdict;
use compare::describe_verdict;
use ended::{PastOrPresentJob, ask_ended_and_others};
use fairshare_client::{Flux, user_id};
use fairshare_engine::engine::answers::{Explained, Standings, Why};
use fairshare_engine::ids::{JobId, UserId};
use history::{JobHistory, ask_ended, ask_history};

/// Returns true if a text is a job id. A text that could also be a user name is a user name; another form of the id avoids the
/// ambiguity.
pub(super) fn is_job(text: &str) -> bool {
    let rest = text.strip_prefix('f').unwrap_or_default();
    // The smallest id of a job that was submitted after the first millisecond of the instance.
    const FIRST: u64 = 1 << 24;
    text.starts_with('ƒ')
        || text.parse().is_ok_and(|id: u64| id >= FIRST)
        || text.starts_with("0x")
        || text.starts_with("job.")
        || text.contains("--")
        || (text.len() == 19 && text.split('.').count() == 4 && text.split('.').all(|part| part.len() == 4))
        || (!rest.is_empty()
            && rest.chars().all(|letter| letter.is_ascii_alphanumeric())
            && rest.chars().any(|letter| letter.is_ascii_digit() || letter.is_ascii_uppercase())
            && user_id(text).is_none())
}

/// Returns true if a text may be a job id. An id of lowercase letters alone looks like a name; a user of that name takes
/// precedence.
fn may_be_job(text: &str) -> bool {
    is_job(text) || (text.starts_with('f') && user_id(text).is_none())
}

/// Returns true if a text may be a job id, and the plugin explains that job to the caller.
pub(super) fn is_live_job(args: &Args, text: &str) -> bool {
    let explained = || {
        let flux = args.instance.connect().ok()?;
        let answer: Value = ask(&flux, "explain", &json!({ "jobs": [flux.parse_job_id(text)?] })).ok()?;
        let explained: Explained = serde_json::from_value(answer).ok()?;
        Some(!explained.jobs.is_empty())
    };
    may_be_job(text) && explained() == Some(true)
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    let texts: Vec<&str> = std::iter::once(args.first.as_str()).chain(args.second.as_deref()).collect();
    let mut ids = Vec::new();
    for text in &texts {
        let id = if may_be_job(text) { flux.parse_job_id(text) } else { None };
        ids.push(id.ok_or_else(|| {
            let text = printable(text);
            Failure::Message(match texts.len() {
                1 => format!("\"{text}\" is not a job id"),
                _ => format!("\"{text}\" is not a job id: name two jobs, or two users"),
            })
        })?);
    }
    let answer: Value = match ask(&flux, "explain", &json!({ "jobs": ids })) {
        Ok(answer) => answer,
        Err(Refusal::No(text)) => {
            remark(text);
            return Ok(Answer::No);
        }
        Err(refusal) => return Err(refusal.into()),
    };
    let explained: Explained = serde_json::from_value(answer.clone()).map_err(failure)?;
    // The plugin has only active jobs.
    if let ([refused], true) = (explained.refused.as_slice(), ids.len() == 1)
        && refused.reason.code == "unknown"
        && let Some(history) = ask_history(&flux, refused.id.0)
    {
        return explain_ended(args, &flux, answer, refused.id.0, &history);
    }
    if let ([_, _], false) = (ids.as_slice(), explained.refused.is_empty())
        && let Some(jobs) = ask_ended_and_others(&flux, &explained, &ids)
    {
        return explain_without_order(args, &flux, answer, &jobs);
    }
    for refused in &explained.refused {
        let text = Words::for_instance(&flux, explained.heading.now).named(&refused.reason.text);
        remark(format_args!("{}: {text}", flux.format_job_id(refused.id.0)));
    }
    if !explained.refused.is_empty() {
        return Ok(Answer::No);
    }
    let screen = args.screen.screen();
    let words = Words::for_instance(&flux, explained.heading.now);
    let teller = Teller { screen: &screen, words: &words };
    let mut text = Vec::new();
    let mut document = answer;
    match explained.jobs.as_slice() {
        [job] => {
            let start = start_facts(&flux, job);
            teller.explain_job(job, &explained, &start, &mut text)?;
            put_into_job(&mut document, &start)?;
            if ["run", "cleanup"].contains(&job.state.as_ref())
                && let Some(history) = ask_history(&flux, job.id.0)
            {
                teller.explain_history(&history, &mut text)?;
                put_into_job(&mut document, &json!({ "history": history }))?;
            }
        }
        [a, b] => {
            let verdict = decide::decide(a, b);
            let levels = if verdict.is_of_fairshare(a) { ask_standings(&flux, [a, b]) } else { None };
            let levels = levels.as_ref().map(|[one, other]| (one, other));
            teller.compare_jobs(a, b, &verdict, levels, &mut text)?;
            if let Value::Object(document) = &mut document {
                let verdict = describe_verdict(a, b, &verdict, levels);
                document.insert("verdict".to_owned(), serde_json::to_value(verdict).map_err(failure)?);
            }
        }
        _ => {
            return Err(Failure::Message(
                "the plugin did not answer for each job; \"flux fairshare doctor\" compares the versions"
                    .to_owned(),
            ));
        }
    }
    print(args, &flux, &screen, document, &text)
}

/// An ended job in the JSON document.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct EndedJob<'a> {
    id: JobId,
    userid: UserId,
    bank: Option<&'a str>,
    queue: Option<&'a str>,
    project: Option<&'a str>,
    urgency: i64,
    state: &'a str,
    submitted: Option<f64>,
    nodes: u64,
    cores: u64,
    /// The time limit in seconds.
    duration: Option<f64>,
    history: &'a JobHistory,
}

impl<'a> EndedJob<'a> {
    fn new(job: &'a Why, history: &'a JobHistory) -> Self {
        EndedJob {
            id: job.id,
            userid: job.userid,
            bank: job.bank.as_deref(),
            queue: job.queue.as_deref(),
            project: job.project.as_deref(),
            urgency: job.urgency,
            state: &job.state,
            submitted: job.submitted,
            nodes: job.nodes,
            cores: job.cores,
            duration: job.duration,
            history,
        }
    }
}

/// Prints an ended job, which the plugin does not have any more. `answer` is the plugin's.
fn explain_ended(args: &Args, flux: &Flux, mut answer: Value, id: u64, history: &JobHistory) -> Outcome {
    let job = ask_ended(flux, id, history);
    let screen = args.screen.screen();
    let words = Words::for_instance(flux, now());
    let mut text = Vec::new();
    (Teller { screen: &screen, words: &words }).explain_ended(&job, history, &mut text)?;
    let ended = EndedJob::new(&job, history);
    if let Value::Object(answer) = &mut answer {
        answer.extend([("jobs".to_owned(), json!([ended])), ("refused".to_owned(), json!([]))]);
    }
    print(args, flux, &screen, answer, &text)
}

/// Prints two jobs of which at least one has ended. `answer` is the plugin's.
fn explain_without_order(args: &Args, flux: &Flux, mut answer: Value, jobs: &[PastOrPresentJob]) -> Outcome {
    let screen = args.screen.screen();
    let words = Words::for_instance(flux, now());
    let mut text = Vec::new();
    (Teller { screen: &screen, words: &words }).explain_without_order(jobs, &mut text)?;
    let document = |PastOrPresentJob { job, history }: &PastOrPresentJob| match history {
        Some(history) if job.state == "inactive" => serde_json::to_value(EndedJob::new(job, history)),
        _ => serde_json::to_value(job),
    };
    let documents = jobs.iter().map(document).collect::<Result<Vec<Value>, _>>().map_err(failure)?;
    if let Value::Object(answer) = &mut answer {
        let members = [
            ("jobs", json!(documents)),
            ("refused", json!([])),
            ("verdict", json!(JobVerdict::without_order())),
        ];
        answer.extend(members.map(|(key, value)| (key.to_owned(), value)));
    }
    print(args, flux, &screen, answer, &text)
}

/// Adds the fields of `facts` to the only job of an answer.
fn put_into_job(document: &mut Value, facts: &impl Serialize) -> Result<(), Failure> {
    if let (Some(job), Value::Object(facts)) = (
        document.pointer_mut("/jobs/0").and_then(Value::as_object_mut),
        serde_json::to_value(facts).map_err(failure)?,
    ) {
        job.extend(facts);
    }
    Ok(())
}

fn print(args: &Args, flux: &Flux, screen: &Screen, mut document: Value, text: &[u8]) -> Outcome {
    let mut out = if args.json { Paper::plain() } else { Paper::for_people(screen) };
    if args.json {
        add_companions(&mut document, &|id| flux.format_job_id(id));
        write_pretty(&document, &mut out)?;
    } else {
        out.write_all(text)?;
    }
    out.finish()?;
    Ok(Answer::Yes)
}

/// Returns the standings of the associations of two jobs, or `None` if they are not available.
fn ask_standings(flux: &Flux, jobs: [&Why; 2]) -> Option<[Standings; 2]> {
    let of = |job: &Why| -> Option<Standings> {
        let bank = job.bank.as_deref()?;
        let standing: Standings = ask(flux, "standing", &json!({"user": job.userid, "bank": bank})).ok()?;
        (standing.associations.len() == 1).then_some(standing)
    };
    let [one, other] = jobs;
    Some([of(one)?, of(other)?])
}
