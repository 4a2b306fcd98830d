// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare check`: what would happen to a job if it were submitted now.

mod jobspec;
mod suggestion;
#[cfg(test)]
mod tests;
mod text;

use std::iter;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::{InstanceArg, ask, configuration};
use crate::plugin::scheduling::{QueueState, ResourceRequest, describe_resources};
use crate::plugin::standing::fetch;
use crate::site::mending::join_command;
use crate::ui::companions::add_companion_members;
use crate::ui::output::{Facts, print_json_or_text};
use crate::ui::screen::{Screen, ScreenArgs};
use crate::ui::teller::TextPrinter;
use crate::ui::words::{Words, userid};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{CheckedJob, RejectionCause};
use fairshare_engine::ids::f58;
use jobspec::{JobToCheck, SubmitArgs, apply_defaults, exceeds_policy_limit, list_queues};
use suggestion::{Choices, Reason, Suggestion};
use text::{FluxAnswer, describe, explain_queue_refusal};

/// The highest number of queues that the command checks to find the queues that a user may use.
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
    let (text, words) = words.split_first().ok_or_else(|| failure("--submit: expected a number of jobs"))?;
    let count = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    let count = count.ok_or_else(|| failure("--submit: expected a number of jobs from 1 to 1,000,000"))?;
    let question = Question { user: None, submit: SubmitArgs::read(words)?, count, json };
    question.answer(instance, screen)
}

struct Question<'a> {
    user: Option<&'a str>,
    submit: SubmitArgs,
    count: u64,
    json: bool,
}

impl Question<'_> {
    fn answer(&self, instance: &InstanceArg, screen: &Screen) -> Outcome {
        let job = self.submit.job()?;
        let flux = instance.connect()?;
        let config: Value = configuration(&flux);
        let user = self.user.or(self.submit.user.as_deref()).map(userid).transpose().map_err(failure)?;
        let verdict = self.judge(&flux, &config, user, &job)?;
        let judge = |jobspec: &Value| {
            let changed = JobToCheck { jobspec: jobspec.clone(), urgency: job.urgency };
            self.judge(&flux, &config, user, &changed)
                .map_or_else(|_| vec![Reason::UNKNOWN], |verdict| verdict.reasons())
        };
        let queues = config.get("queues").and_then(Value::as_object);
        let queues = queues.into_iter().flat_map(Map::keys).take(MOST_TRIED).cloned();
        let Verdict { mut document, checked, queue, refusal, never_fits } = verdict;
        let refusal = refusal.map(|reason| reason.text);
        let words = Words::for_flux_instance(&flux, checked.heading.now);
        let is_rejected = refusal.is_some() || checked.jobs_rejected > 0;
        let suggestion = (refusal.is_some() || checked.rejection.is_some() || never_fits.is_some())
            .then(|| {
                let banks = list_banks(&flux, user);
                let user_has = if user.is_some() {
                    format!("{} has", words.user(checked.userid.0))
                } else {
                    "You have".to_owned()
                };
                Choices { banks, queues: queues.collect(), user_has }.suggest(&job.jobspec, &judge)
            })
            .flatten();
        let by_flux =
            FluxAnswer { refusal: refusal.as_deref(), never_fits: never_fits.as_deref(), queue: &queue };
        let teller = TextPrinter::new(screen, &words);
        describe(&teller, &checked, &by_flux);
        if let Some(suggestion) = &suggestion {
            self.print_suggestion(suggestion, instance, &teller);
        }
        let has_place = refusal.is_none() && never_fits.is_none();
        document.as_object_mut().filter(|_| !has_place).map(|it| it.insert("place".to_owned(), Value::Null));
        let own = FluxCheckResult {
            user: words.user(checked.userid.0),
            rejection_by_flux: refusal,
            queue_started: queue.is_started,
            never_fits,
            suggestion,
        };
        if let (Value::Object(members), Facts(own)) = (&mut document, Facts::new(&own)?) {
            members.extend(own);
        }
        add_companion_members(&mut document, &f58);
        print_json_or_text(
            screen,
            (self.json || self.submit.json).then_some(&document),
            &teller.out.into_bytes(),
        )?;
        Ok(if is_rejected { Answer::No } else { Answer::Yes })
    }

    /// Asks the plugin and Flux whether they would accept the job.
    fn judge(&self, flux: &Flux, config: &Value, user: Option<u32>, job: &JobToCheck) -> Result<Verdict> {
        let mut jobspec = job.jobspec.clone();
        let queue_refusal = apply_defaults(&mut jobspec, config).err();
        let request = json!({"jobspec": jobspec, "urgency": job.urgency, "count": self.count, "user": user});
        let document: Value = ask(flux, "check_job", &request)?;
        let checked: CheckedJob = serde_json::from_value(document.clone()).map_err(failure)?;
        let queue = QueueState::ask(flux, checked.queue.as_deref());
        let wanted = ResourceRequest::new([checked.nodes, checked.cores], Some(&jobspec));
        let known_queue = checked.queue.as_deref().filter(|_| queue_refusal.is_none());
        let [never_fits, _] = describe_resources(flux, known_queue, &wanted).unwrap_or_default();
        let refusal = queue_refusal
            .map(|reason| format!("{reason} ({})", list_queues(config)))
            .or_else(|| explain_queue_refusal(&checked, &queue))
            .map(|text| Reason { cause: RejectionCause::Queue, text })
            .or_else(|| exceeds_policy_limit(&checked, &jobspec, config));
        Ok(Verdict { document, checked, queue, refusal, never_fits })
    }

    /// Prints what to change, and the command that would be accepted by `instance`.
    fn print_suggestion(&self, suggestion: &Suggestion, instance: &InstanceArg, teller: &TextPrinter<'_>) {
        suggestion.changes.iter().for_each(|change| teller.line(change));
        let options = suggestion.options.join(" ");
        let text = match (suggestion.rejections.as_slice(), self.submit.words_with(&suggestion.options)) {
            ([], Some(words)) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                format!("Accepted with: \"{}{}\".", instance.variable(), join_command("submit", &words, &[]))
            }
            ([], None) => format!("Accepted with {options} in the options of flux submit."),
            (left, _) => format!("Still rejected with {options}: {}.", teller.words.named(&left.join("; "))),
        };
        teller.line(&text);
    }
}

/// The answer of the plugin and of Flux for a job.
struct Verdict {
    document: Value,
    checked: CheckedJob,
    queue: QueueState,
    /// Why Flux itself would reject the job.
    refusal: Option<Reason>,
    /// Why the resources can never be enough for the job.
    never_fits: Option<String>,
}

impl Verdict {
    /// Returns the reasons why the job would not run. The reasons from the plugin come first: if the bank is
    /// unknown, the plugin can't check the queue.
    fn reasons(self) -> Vec<Reason> {
        let Verdict { checked, refusal, never_fits, .. } = self;
        let texts = checked.rejection.into_iter().chain(checked.further_rejections);
        // An older plugin sends no causes.
        let causes = checked.rejection_causes.into_iter().chain(iter::repeat(RejectionCause::Other));
        let of_plugin = texts.zip(causes).map(|(text, cause)| Reason { cause, text });
        let never_fits = never_fits.map(|text| Reason { cause: RejectionCause::Size, text });
        of_plugin.chain(refusal).chain(never_fits).collect()
    }
}

/// Returns the banks of a user, or of the caller, the default bank first.
fn list_banks(flux: &Flux, user: Option<u32>) -> Vec<String> {
    let request = user.map(|user| ("user".to_owned(), json!(user))).into_iter().collect();
    let mut own = fetch(flux, &request, MOST_TRIED).map(|it| it.associations).unwrap_or_default();
    own.retain(|association| association.is_active && !association.is_removed);
    own.sort_by_key(|association| !association.is_default);
    own.into_iter().map(|association| association.bank.to_string()).collect()
}

/// The members of the JSON document that the command adds to the plugin's answer.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct FluxCheckResult {
    user: String,
    /// Why Flux itself would reject the job; null if it would not.
    rejection_by_flux: Option<String>,
    /// Whether the queue is started; null if unknown.
    queue_started: Option<bool>,
    /// Why the job can never run on the nodes of the queue; null if it can, or if the nodes are unknown.
    never_fits: Option<String>,
    /// What to change so that the job is accepted and can run; null if nothing is to change, or if no change is known to help.
    suggestion: Option<Suggestion>,
}
