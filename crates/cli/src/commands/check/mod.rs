// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare check`: what would happen to a job if it were submitted now.

mod jobspec;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;
use serde_json::{Value, json};

use crate::outcome::{Answer, Failure, Outcome, failure};
use crate::plugin::ask::{InstanceArg, Refusal, ask, configuration};
use crate::plugin::scheduling::{QueueState, ResourceRequest, never_fits};
use crate::ui::companions::add_companions;
use crate::ui::messages::remark;
use crate::ui::output::write_pretty;
use crate::ui::pager::Paper;
use crate::ui::screen::{Screen, ScreenArgs};
use crate::ui::teller::Teller;
use crate::ui::words::{Words, userid};
use fairshare_engine::engine::answers::CheckedJob;
use fairshare_engine::ids::f58;
use jobspec::{SubmitArgs, apply_defaults};
use text::{ByFlux, describe, refusal_by_queue};

/// Show whether a job would be accepted, what would hold it, and its priority; submits nothing
///
/// Takes the options of flux submit, or a jobspec: a file, or - for the standard input, as printed by flux submit --dry-run. The
/// plugin answers by the rules that it applies to submitted jobs: whether it accepts the job, the limits that would hold the job, the
/// priority of the job when no limit holds it, and the place among the pending jobs. If the nodes of the queue can never be enough for
/// the job, the answer says so. Other checks of Flux that are not about queues are not part of the answer. The instance owner may ask
/// for any user.
///
/// Exit status 1 means that the job would be rejected.
#[derive(Debug, clap::Args)]
#[command(
    override_usage = "flux fairshare check [-u USER] [--json] [OPTIONS OF FLUX SUBMIT | JOBSPEC]",
    after_long_help = jobspec::help()
)]
pub(crate) struct Args {
    /// The user that would submit the job, by name or number [default: yourself]
    #[arg(short, long, value_name = "USER", help_heading = "Selection")]
    user: Option<String>,
    #[command(flatten)]
    instance: InstanceArg,
    /// Print the answer as JSON
    #[arg(long, help_heading = "Output")]
    json: bool,
    #[command(flatten)]
    screen: ScreenArgs,
    /// Options of flux submit, or a jobspec
    #[arg(value_name = "JOB", trailing_var_arg = true, allow_hyphen_values = true)]
    job: Vec<String>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let submit = SubmitArgs::read(&args.job)?;
    let question = Question { user: args.user.as_deref(), submit, count: 1, json: args.json };
    question.answer(&args.instance, &args.screen.screen())
}

/// Answers `what-if --submit`: `words` are a number of jobs and the options of one of them.
pub(super) fn check_many_jobs(
    words: &[String],
    json: bool,
    instance: &InstanceArg,
    screen: &Screen,
) -> Outcome {
    let (count, job) = words.split_first().ok_or_else(|| failure("--submit: expected a number of jobs"))?;
    let count = count.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    let count = count.ok_or_else(|| failure("--submit: expected a number of jobs from 1 to 1,000,000"))?;
    Question { user: None, submit: SubmitArgs::read(job)?, count, json }.answer(instance, screen)
}

struct Question<'a> {
    user: Option<&'a str>,
    submit: SubmitArgs,
    count: u64,
    json: bool,
}

impl Question<'_> {
    fn answer(&self, instance: &InstanceArg, screen: &Screen) -> Outcome {
        let mut job = self.submit.job()?;
        let flux = instance.connect()?;
        let refusal = apply_defaults(&mut job.jobspec, &configuration::<Value>(&flux)).err();
        let user = self.user.or(self.submit.user.as_deref()).map(userid).transpose().map_err(failure)?;
        let request =
            json!({"jobspec": job.jobspec, "urgency": job.urgency, "count": self.count, "user": user});
        let document: Value = match ask(&flux, "check_job", &request) {
            Ok(document) => document,
            Err(Refusal::No(text)) => {
                remark(text);
                return Ok(Answer::No);
            }
            Err(refusal) => return Err(refusal.into()),
        };
        let checked: CheckedJob = serde_json::from_value(document.clone()).map_err(failure)?;
        let queue = QueueState::ask(&flux, checked.queue.as_deref());
        let wanted = ResourceRequest::new([checked.nodes, checked.cores], Some(&job.jobspec));
        let never_fits = never_fits(&flux, checked.queue.as_deref(), &wanted);
        let refusal = refusal.or_else(|| refusal_by_queue(&checked, &queue));
        let words = Words::for_instance(&flux, checked.heading.now);
        let is_rejected = refusal.is_some() || checked.jobs_rejected > 0;
        if self.json || self.submit.json {
            let own = CheckedByFlux {
                user: words.user(checked.userid.0),
                rejection_by_flux: refusal,
                queue_started: queue.is_started,
                never_fits,
            };
            print_json(document, own)?;
        } else {
            let teller = Teller { screen, words: &words };
            let mut out = Paper::for_people(screen);
            let by_flux =
                ByFlux { refusal: refusal.as_deref(), never_fits: never_fits.as_deref(), queue: &queue };
            describe(&teller, &checked, &by_flux, &mut out)?;
            out.finish()?;
        }
        Ok(if is_rejected { Answer::No } else { Answer::Yes })
    }
}

/// The members of the JSON document besides the plugin's answer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct CheckedByFlux {
    user: String,
    /// Why Flux itself would reject the job; null if it would not.
    rejection_by_flux: Option<String>,
    /// Whether the queue is started; null if unknown.
    queue_started: Option<bool>,
    /// Why the job can never run on the nodes of the queue; null if it can, or if the nodes are unknown.
    never_fits: Option<String>,
}

/// Prints the plugin's answer with the members `own` of the command.
fn print_json(mut document: Value, own: CheckedByFlux) -> Result<(), Failure> {
    if let (Value::Object(members), Value::Object(own)) =
        (&mut document, serde_json::to_value(own).map_err(failure)?)
    {
        members.extend(own);
    }
    add_companions(&mut document, &f58);
    let mut out = Paper::plain();
    write_pretty(&document, &mut out)?;
    Ok(out.finish()?)
}
