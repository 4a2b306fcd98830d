// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare check`: what would happen to a job if it were submitted now.

mod jobspec;
#[cfg(test)]
mod tests;
mod text;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::outcome::{Answer, Outcome, failure};
use crate::plugin::ask::{InstanceArg, Refusal, ask, configuration};
use crate::plugin::scheduling::{QueueState, ResourceRequest, describe_resources};
use crate::site::mending::quote_command;
use crate::ui::companions::add_companions;
use crate::ui::output::{Facts, print_either};
use crate::ui::screen::{Screen, ScreenArgs};
use crate::ui::teller::Teller;
use crate::ui::words::{Words, userid};
use fairshare_engine::engine::answers::CheckedJob;
use fairshare_engine::ids::f58;
use jobspec::{SubmitArgs, apply_defaults, exceeds_policy_limit};
use text::{ByFlux, describe, refusal_by_queue};

/// The most queues that are tried to find those that a user may use.
const MOST_TRIED: usize = 32;

/// Show whether a job would be accepted, what would hold it, and its priority; submits nothing
///
/// Takes the options of flux submit, or a jobspec: a file, or - for the standard input, as printed by flux submit --dry-run. The
/// plugin answers by the rules that it applies to submitted jobs: whether it accepts the job, the limits that would hold the job, the
/// priority of the job when no limit holds it, and the place among the pending jobs. If the nodes of the queue can never be enough for
/// the job, the answer says so. Of Flux's own checks, the answer has those of queues, and of the limits of durations and sizes in Flux's
/// configuration. The instance owner may ask for any user.
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
    let user = args.user.as_deref();
    let command = ["check"].into_iter().chain(user.into_iter().flat_map(|user| ["-u", user])).collect();
    let question = Question { user, submit, count: 1, json: args.json, command, words: &args.job };
    question.answer(&args.instance, &args.screen.screen())
}

/// Answers `what-if --submit`: `words` are a number of jobs and the options of one of them.
pub(super) fn check_many_jobs(
    words: &[String],
    json: bool,
    instance: &InstanceArg,
    screen: &Screen,
) -> Outcome {
    let (text, words) = words.split_first().ok_or_else(|| failure("--submit: expected a number of jobs"))?;
    let count = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    let count = count.ok_or_else(|| failure("--submit: expected a number of jobs from 1 to 1,000,000"))?;
    let command = vec!["what-if", "--submit", text];
    let question = Question { user: None, submit: SubmitArgs::read(words)?, count, json, command, words };
    question.answer(instance, screen)
}

struct Question<'a> {
    user: Option<&'a str>,
    submit: SubmitArgs,
    count: u64,
    json: bool,
    /// The command line before `words`.
    command: Vec<&'a str>,
    /// The words that describe the job.
    words: &'a [String],
}

impl Question<'_> {
    fn answer(&self, instance: &InstanceArg, screen: &Screen) -> Outcome {
        let job = self.submit.job()?;
        let flux = instance.connect()?;
        let config: Value = configuration(&flux);
        let user = self.user.or(self.submit.user.as_deref()).map(userid).transpose().map_err(failure)?;
        let ask_plugin = |jobspec: &Value| {
            let request =
                json!({"jobspec": jobspec, "urgency": job.urgency, "count": self.count, "user": user});
            ask::<Value>(&flux, "check_job", &request)
        };
        let may_use = |queue: &&String| {
            let mut jobspec = job.jobspec.clone();
            if let Some(Value::Object(system)) = jobspec.pointer_mut("/attributes/system") {
                system.insert("queue".to_owned(), json!(queue));
            }
            QueueState::ask(&flux, Some(queue)).is_enabled != Some(false)
                && apply_defaults(&mut jobspec, &config).is_ok()
                && ask_plugin(&jobspec).is_ok_and(|answer| answer.get("rejection") == Some(&Value::Null))
        };
        let mut jobspec = job.jobspec.clone();
        let refusal = apply_defaults(&mut jobspec, &config).err().map(|text| {
            let queues = config.get("queues").and_then(Value::as_object);
            let queues = queues.filter(|_| self.submit.lacks_queue()).into_iter().flat_map(Map::keys);
            let usable: Vec<&String> = queues.take(MOST_TRIED).filter(may_use).collect();
            self.name_queues(text, &usable)
        });
        let mut document = ask_plugin(&jobspec).map_err(Refusal::into_answer)?;
        let checked: CheckedJob = serde_json::from_value(document.clone()).map_err(failure)?;
        let queue = QueueState::ask(&flux, checked.queue.as_deref());
        let wanted = ResourceRequest::new([checked.nodes, checked.cores], Some(&jobspec));
        let known_queue = checked.queue.as_deref().filter(|_| refusal.is_none());
        let [never_fits, _] = describe_resources(&flux, known_queue, &wanted).unwrap_or_default();
        let refusal = refusal
            .or_else(|| refusal_by_queue(&checked, &queue))
            .or_else(|| exceeds_policy_limit(&checked, &jobspec, &config));
        let words = Words::for_instance(&flux, checked.heading.now);
        let is_rejected = refusal.is_some() || checked.jobs_rejected > 0;
        let by_flux =
            ByFlux { refusal: refusal.as_deref(), never_fits: never_fits.as_deref(), queue: &queue };
        let mut text = Vec::new();
        describe(&Teller { screen, words: &words }, &checked, &by_flux, &mut text)?;
        let has_place = refusal.is_none() && never_fits.is_none();
        document.as_object_mut().filter(|_| !has_place).map(|it| it.insert("place".to_owned(), Value::Null));
        let own = CheckedByFlux {
            user: words.user(checked.userid.0),
            rejection_by_flux: refusal,
            queue_started: queue.is_started,
            never_fits,
        };
        if let (Value::Object(members), Facts(own)) = (&mut document, Facts::new(&own)?) {
            members.extend(own);
        }
        add_companions(&mut document, &f58);
        print_either(screen, (self.json || self.submit.json).then_some(&document), &text)?;
        Ok(if is_rejected { Answer::No } else { Answer::Yes })
    }

    /// Replaces the list of all queues in the text of a refusal by the queues that the user may use, and by the command that names the
    /// first of them. Returns the same text if there are none.
    fn name_queues(&self, text: String, usable: &[&String]) -> String {
        let (Some(first), Some((reason, _))) = (usable.first(), text.split_once(" (")) else { return text };
        let words = self.command.iter().copied().chain(["-q", first.as_str()]);
        let words: Vec<&str> = words.chain(self.words.iter().map(String::as_str)).collect();
        let names = usable.iter().map(|queue| queue.as_str()).collect::<Vec<_>>().join(", ");
        format!("{reason} (add -q QUEUE: {names}), as in {}", quote_command("fairshare", &words))
    }
}

/// The members of the JSON document that the command adds to the plugin's answer.
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
