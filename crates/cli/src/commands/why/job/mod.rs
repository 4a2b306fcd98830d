// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare why JOBID [JOBID2]`: explains why a job is waiting, or why one job is ahead of another, with the plugin's answers.

pub(in crate::commands) mod compare;
pub(crate) mod decide;
mod ended;
mod explain;
pub(in crate::commands) mod history;
#[cfg(test)]
mod tests;

use serde::Serialize;
use serde_json::{Value, json};

pub(crate) use compare::{LEVEL_COLUMNS, make_share_usage_and_value_cells};

use super::Args;
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::{ask, ask_listed};
use crate::plugin::scheduling::ask_flux_about_job_start;
use crate::ui::companions::add_companion_members;
use crate::ui::figures::now;
use crate::ui::messages::remark;
use crate::ui::output::print_json_or_text;
use crate::ui::printable::printable;
use crate::ui::teller::TextPrinter;
use crate::ui::words::Words;
use compare::JobVerdict;
use compare::describe_which_job_is_ahead;
use ended::{ListedJob, RequestedJob, request_active_and_ended_jobs};
use fairshare_client::{Flux, user_id};
use fairshare_engine::engine::answers::{AssociationStanding, Explained, Standings, Why};
use history::{ask_history, look_up_ended_job};

/// Returns true if a text is a job id. Returns false for an id that could also be a user name.
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
fn may_be_job_id(text: &str) -> bool {
    is_job(text) || (text.starts_with('f') && user_id(text).is_none())
}

/// Returns true if a text may be a job id, and the plugin knows the job or the caller may read its eventlog.
pub(super) fn is_known_job(args: &Args, text: &str) -> bool {
    let is_known = || {
        let flux = args.instance.connect().ok()?;
        let id = flux.parse_job_id(text)?;
        let explained: Explained = ask(&flux, "explain", &json!({ "jobs": [id] })).ok()?;
        Some(is_known_to_plugin(&explained) || ask_history(&flux, id).is_some())
    };
    may_be_job_id(text) && is_known() == Some(true)
}

/// Returns true if the plugin has the requested job, although the plugin may refuse to explain the job to the
/// caller.
fn is_known_to_plugin(explained: &Explained) -> bool {
    explained.refused.iter().all(|refused| refused.reason.code != "unknown")
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    let texts: Vec<&str> = std::iter::once(args.first.as_str()).chain(args.second.as_deref()).collect();
    let mut ids = Vec::new();
    for text in &texts {
        let id = if may_be_job_id(text) { flux.parse_job_id(text) } else { None };
        ids.push(id.ok_or_else(|| {
            let text = printable(text);
            failure(match texts.len() {
                1 => format!("\"{text}\" is not a job id"),
                _ => format!("\"{text}\" is not a job id: name two jobs, or two users"),
            })
        })?);
    }
    let answer: Value = ask(&flux, "explain", &json!({ "jobs": ids }))?;
    let explained: Explained = serde_json::from_value(answer.clone()).map_err(failure)?;
    // The plugin has only active jobs.
    if let ([refused], true) = (explained.refused.as_slice(), ids.len() == 1)
        && refused.reason.code == "unknown"
        && let Some(history) = ask_history(&flux, refused.id.0)
    {
        let job = look_up_ended_job(&flux, refused.id.0, &history);
        return explain_ended_jobs(args, &flux, answer, &[RequestedJob { job, history: Some(history) }]);
    }
    if let ([_, _], false) = (ids.as_slice(), explained.refused.is_empty())
        && let Some(jobs) = request_active_and_ended_jobs(&flux, &explained, &ids)
    {
        return explain_ended_jobs(args, &flux, answer, &jobs);
    }
    let listed: Option<ListedJob> = match (explained.jobs.as_slice(), explained.refused.as_slice()) {
        ([_], [refused]) if refused.reason.code == "not-yours" => {
            ask_listed(&flux, refused.id.0, &["userid", "bank", "queue", "urgency", "priority", "state"])
        }
        _ => None,
    };
    for refused in explained.refused.iter().filter(|_| listed.is_none()) {
        let text = Words::for_flux_instance(&flux, explained.heading.now).named(&refused.reason.text);
        let name = flux.format_job_id(refused.id.0);
        // The plugin's text already names the job.
        remark(match refused.reason.code.as_ref() {
            "not-yours" => {
                format!("{text}; \"flux fairshare why YOURS {name}\" compares it with your job YOURS")
            }
            _ => format!("{name}: {text}"),
        });
    }
    if listed.is_none() && !explained.refused.is_empty() {
        return Ok(Answer::No);
    }
    let screen = args.screen.screen();
    let words = Words::for_flux_instance(&flux, explained.heading.now);
    let teller = TextPrinter::new(&screen, &words);
    let mut document = answer;
    match explained.jobs.as_slice() {
        [job] => {
            let (start, history) = (ask_flux_about_job_start(&flux, job), ask_history(&flux, job.id.0));
            teller.explain_job(job, &explained, &start, history.as_ref());
            extend(document.pointer_mut("/jobs/0"), &start)?;
            if let Some(history) = history {
                extend(document.pointer_mut("/jobs/0"), &json!({ "history": history }))?;
            }
            if let Some(listed) = listed {
                teller.out.blank();
                teller.line(&teller.compare_with_listed_job(job, &listed));
            }
        }
        [a, b] => {
            let verdict = decide::decide(a, b);
            let levels = if verdict.is_decided_by_fairshare(a) { ask_standings(&flux, [a, b]) } else { None };
            teller.compare_jobs(a, b, &verdict, levels.as_ref());
            let verdict = describe_which_job_is_ahead(a, b, &verdict, levels.as_ref());
            extend(Some(&mut document), &json!({ "verdict": verdict }))?;
        }
        _ => {
            return Err(failure(
                "the plugin did not answer for each job; \"flux fairshare doctor\" compares the versions",
            ));
        }
    }
    print(args, &flux, document, teller)
}

/// Prints an ended job, or two jobs of which at least one has ended. The JSON document is the plugin's `answer`, but its list of
/// jobs is `jobs`.
fn explain_ended_jobs(args: &Args, flux: &Flux, mut answer: Value, jobs: &[RequestedJob]) -> Outcome {
    let screen = args.screen.screen();
    let words = Words::for_flux_instance(flux, now());
    let teller = TextPrinter::new(&screen, &words);
    extend(Some(&mut answer), &json!({ "jobs": jobs, "refused": [] }))?;
    match jobs {
        [RequestedJob { job, history: Some(history) }] => {
            teller.explain_ended_job(job, history);
        }
        _ => {
            teller.explain_without_order(jobs);
            extend(Some(&mut answer), &json!({ "verdict": JobVerdict::make_verdict_if_one_job_ended() }))?;
        }
    }
    print(args, flux, answer, teller)
}

/// Adds the fields of `facts` to a JSON object.
fn extend(object: Option<&mut Value>, facts: &impl Serialize) -> Result<()> {
    if let (Some(Value::Object(object)), Value::Object(facts)) =
        (object, serde_json::to_value(facts).map_err(failure)?)
    {
        object.extend(facts);
    }
    Ok(())
}

fn print(args: &Args, flux: &Flux, mut document: Value, teller: TextPrinter<'_>) -> Outcome {
    add_companion_members(&mut document, &|id| flux.format_job_id(id));
    let text = teller.out.into_bytes();
    print_json_or_text(&args.screen.screen(), args.json.then_some(&document), &text)?;
    Ok(Answer::Yes)
}

/// Returns the standings of the associations of two jobs, or `None` if they are not available.
fn ask_standings(flux: &Flux, jobs: [&Why; 2]) -> Option<[AssociationStanding; 2]> {
    let ask_standing = |job: &Why| -> Option<AssociationStanding> {
        let bank = job.bank.as_deref()?;
        let standing: Standings = ask(flux, "standing", &json!({"user": job.userid, "bank": bank})).ok()?;
        <[AssociationStanding; 1]>::try_from(standing.associations).ok().map(|[only]| only)
    };
    let [one, other] = jobs;
    Some([ask_standing(one)?, ask_standing(other)?])
}
