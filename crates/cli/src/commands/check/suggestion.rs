// SPDX-License-Identifier: LGPL-3.0-only
//! Finds the changes with which a rejected job would be accepted.

use serde::Serialize;
use serde_json::{Value, json};

use crate::ui::suggest::find_nearest;
use fairshare_engine::engine::answers::RejectionCause;

/// The members of a jobspec that may change, in the order in which they are tried.
const MEMBERS: [&str; 4] = ["bank", "duration", "count", "queue"];
/// The longest time limit that is tried, in minutes: a year.
const LONGEST: u64 = 525_600;

/// The time limit that is suggested if any time limit is accepted, in seconds.
const EXAMPLE: u64 = 3600;

/// Why a job would be rejected, or could never run.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Reason {
    pub(super) cause: RejectionCause,
    pub(super) text: String,
}

impl Reason {
    /// The reason if the plugin does not answer.
    pub(super) const UNKNOWN: Reason = Reason { cause: RejectionCause::Other, text: String::new() };
}

/// The changes that make a rejected job acceptable, as far as they are known.
#[derive(Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Suggestion {
    /// What to change, in sentences.
    pub(super) changes: Vec<String>,
    /// The options of `flux submit` that change the job as described in `changes`.
    pub(super) options: Vec<String>,
    /// Why the job would still be rejected with these changes; empty if it would be accepted.
    pub(super) rejections: Vec<String>,
}

/// The banks and queues from which the user may choose.
pub(super) struct Choices {
    /// The banks of the user, the default bank first.
    pub(super) banks: Vec<String>,
    /// The queues of the instance.
    pub(super) queues: Vec<String>,
    /// `You have`, or `ann has`.
    pub(super) user_has: String,
}

impl Choices {
    /// Returns the names that `member` may have: the name most similar to `given` first.
    fn list_names(&self, member: &str, given: &str) -> Vec<&String> {
        let known = if member == "bank" { &self.banks } else { &self.queues };
        let nearest = find_nearest(given, known.iter().map(String::as_str));
        let mut names: Vec<&String> = known.iter().filter(|name| *name != given).collect();
        names.sort_by_key(|name| Some(name.as_str()) != nearest);
        names
    }

    /// Finds changes of `jobspec`, one member at a time, until the job is not rejected. `judge` returns why a jobspec would be rejected.
    /// Returns `None` if no change helps.
    pub(super) fn suggest(
        &self,
        jobspec: &Value,
        judge: &dyn Fn(&Value) -> Vec<Reason>,
    ) -> Option<Suggestion> {
        let (mut now, mut left, mut made) = (jobspec.clone(), MEMBERS.to_vec(), Vec::new());
        let mut reasons = judge(&now);
        let find = |now: &Value, left: &[&'static str], reasons: &[Reason]| {
            reasons.iter().find_map(|reason| {
                let change = |member| self.find_change(now, member, reason.cause, judge);
                left.iter().find_map(|member| Some((*member, change(member)?)))
            })
        };
        while let Some((member, value)) = find(&now, &left, &reasons) {
            left.retain(|other| *other != member);
            now = replace_member(&now, member, &value);
            reasons = judge(&now);
            made.push((member, value));
        }
        let (changes, options) = made
            .iter()
            .map(|(member, value)| {
                let option = format_option(&now, member, value);
                (self.describe_change(jobspec, &now, member, &option, judge), option)
            })
            .unzip();
        let rejections = reasons.into_iter().map(|reason| reason.text).collect();
        (!made.is_empty()).then_some(Suggestion { changes, options, rejections })
    }

    /// Finds a value of `member` with which the job is no longer rejected for `cause`. Returns `None` if there is no such value. A number is lowered as little as possible.
    fn find_change(
        &self,
        jobspec: &Value,
        member: &str,
        cause: RejectionCause,
        judge: &dyn Fn(&Value) -> Vec<Reason>,
    ) -> Option<Value> {
        let helps = |value: &Value| {
            let reasons = judge(&replace_member(jobspec, member, value));
            reasons.iter().all(|reason| reason.cause != cause)
        };
        let given = find_member(jobspec, member);
        let (unit, most) = match (member, given.and_then(Value::as_f64)) {
            ("duration", seconds) => (
                60,
                seconds
                    .filter(|seconds| *seconds > 0.0)
                    .map_or(LONGEST, |seconds| (seconds / 60.0).ceil() as u64),
            ),
            ("count", count) => (1, count? as u64),
            _ => {
                let names = self.list_names(member, given.and_then(Value::as_str).unwrap_or_default());
                return names.into_iter().map(|name| json!(name)).find(helps);
            }
        };
        let helps = |number: u64| helps(&json!(number * unit));
        let (mut largest, mut beyond) = (1, most);
        if most < 2 || !helps(1) {
            return None;
        }
        if beyond == LONGEST && helps(LONGEST) {
            // The job lacks a time limit, and any time limit is accepted.
            return Some(json!(EXAMPLE));
        }
        while largest + 1 < beyond {
            let middle = largest.midpoint(beyond);
            *if helps(middle) { &mut largest } else { &mut beyond } = middle;
        }
        Some(json!(largest * unit))
    }

    /// Returns the options of the other queues in which the job is accepted.
    fn list_other_accepting_queues(
        &self,
        jobspec: &Value,
        judge: &dyn Fn(&Value) -> Vec<Reason>,
    ) -> Vec<String> {
        let queue = find_member(jobspec, "queue").and_then(Value::as_str).unwrap_or_default();
        let accepts = |name: &&String| judge(&replace_member(jobspec, "queue", &json!(name))).is_empty();
        let names = self.list_names("queue", queue).into_iter().filter(accepts);
        names.map(|name| format!("-q {name}")).collect()
    }

    /// Returns a sentence about the change of `member` from its value in `before` to its value in `after`. `option` is the option that sets
    /// the new value.
    fn describe_change(
        &self,
        before: &Value,
        after: &Value,
        member: &str,
        option: &str,
        judge: &dyn Fn(&Value) -> Vec<Reason>,
    ) -> String {
        let given = find_member(before, member);
        match (member, given.and_then(Value::as_str)) {
            ("bank", Some(bank)) if !self.banks.iter().any(|own| own == bank) => {
                format!(
                    "{} no account in bank {bank} (banks: {}): use {option}.",
                    self.user_has,
                    self.banks.join(", ")
                )
            }
            ("queue", Some(queue)) if !self.queues.iter().any(|known| known == queue) => {
                format!("There is no queue {queue}: use {option}.")
            }
            ("bank", _) => format!("Use {option}."),
            ("queue", _) => {
                let others = self.list_other_accepting_queues(after, judge);
                format!("Use {}.", [vec![option.to_owned()], others].concat().join(" or "))
            }
            ("duration", _) if judge(&replace_member(after, member, &json!(LONGEST * 60))).is_empty() => {
                format!("Set a time limit, such as {option}.")
            }
            _ => {
                let as_given = replace_member(after, member, given.unwrap_or(&json!(0)));
                let others = self.list_other_accepting_queues(&as_given, judge);
                let queue = find_member(after, "queue").and_then(Value::as_str).unwrap_or_default();
                let others = if others.is_empty() {
                    String::new()
                } else {
                    format!(", or a queue without this limit: {}", others.join(" or "))
                };
                let place = if queue.is_empty() { String::new() } else { format!(" in queue {queue}") };
                format!("Use at most {option}{place}{others}.")
            }
        }
    }
}

fn find_member<'a>(jobspec: &'a Value, member: &str) -> Option<&'a Value> {
    match member {
        "count" => jobspec.pointer("/resources/0/count"),
        member => jobspec.pointer("/attributes/system")?.get(member),
    }
}

/// Returns the jobspec with another value of `member`.
pub(super) fn replace_member(jobspec: &Value, member: &str, value: &Value) -> Value {
    let mut changed = jobspec.clone();
    if let ("count", Some(count)) = (member, changed.pointer_mut("/resources/0/count")) {
        *count = value.clone();
    } else if let Some(Value::Object(system)) = changed.pointer_mut("/attributes/system") {
        system.insert(member.to_owned(), value.clone());
    }
    changed
}

/// Returns the option of `flux submit` that gives `member` the value.
fn format_option(jobspec: &Value, member: &str, value: &Value) -> String {
    let name = value.as_str().unwrap_or_default();
    match (member, value.as_u64().unwrap_or_default()) {
        ("bank", _) => format!("-B {name}"),
        ("queue", _) => format!("-q {name}"),
        ("duration", seconds) if seconds % 3600 == 0 => format!("-t {}h", seconds / 3600),
        ("duration", seconds) => format!("-t {}m", seconds / 60),
        (_, count) if jobspec.pointer("/resources/0/type") == Some(&json!("node")) => format!("-N {count}"),
        (_, count) => format!("-n {count}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rejects jobs as a site with the bank chem and the queues batch and debug. Jobs in debug have at most 2 nodes and one hour.
    fn judge(jobspec: &Value) -> Vec<Reason> {
        let name = |member| find_member(jobspec, member).and_then(Value::as_str).unwrap_or_default();
        let number = |member| find_member(jobspec, member).and_then(Value::as_f64).unwrap_or_default();
        let is_debug = name("queue") == "debug";
        let hours = number("duration") / 3600.0;
        let checks = [
            (name("bank") != "chem", RejectionCause::Bank),
            (is_debug && number("count") > 2.0, RejectionCause::Size),
            (!["batch", "debug"].contains(&name("queue")), RejectionCause::Queue),
            (is_debug && (hours == 0.0 || hours > 1.0), RejectionCause::TimeLimit),
            (number("count") > 8.0, RejectionCause::Size),
            (name("project") == "budget" && hours == 0.0, RejectionCause::TimeLimit),
        ];
        let failed = checks.into_iter().filter(|(is_rejected, _)| *is_rejected);
        // All texts begin with the same words: only the causes differ.
        failed.map(|(_, cause)| Reason { cause, text: format!("the job has {cause:?}") }).collect()
    }

    /// Returns reasons without causes, as of an older plugin.
    fn without_causes(reasons: Vec<Reason>) -> Vec<Reason> {
        reasons.into_iter().map(|reason| Reason { cause: RejectionCause::Other, ..reason }).collect()
    }

    #[test]
    fn suggestions_change_a_rejected_job_until_the_plugin_would_accept_it() {
        let names = |names: [&str; 2]| names.map(str::to_owned).to_vec();
        let choices = Choices {
            banks: names(["chem", "phys"]),
            queues: names(["batch", "debug"]),
            user_has: "You have".to_owned(),
        };
        let bank = "You have no account in bank nobank (banks: chem, phys): use -B chem.";
        let queue = "There is no queue debugg: use -q debug.";
        let time = "Use at most -t 1h in queue debug, or a queue without this limit: -q batch.";
        for (bank_name, queue_name, seconds, nodes, changes, options) in [
            ("nobank", "debugg", 0, 1, &[bank, queue, time][..], &["-B chem", "-q debug", "-t 1h"][..]),
            ("chem", "debug", 7200, 1, &[time], &["-t 1h"]),
            (
                "chem",
                "debug",
                60,
                4,
                &["Use at most -N 2 in queue debug, or a queue without this limit: -q batch."],
                &["-N 2"],
            ),
            ("chem", "batch", 60, 9, &["Use at most -N 8 in queue batch."], &["-N 8"]),
        ] {
            let system = json!({"bank": bank_name, "queue": queue_name, "duration": seconds});
            let jobspec =
                json!({"resources": [{"type": "node", "count": nodes}], "attributes": {"system": system}});
            let suggestion = choices.suggest(&jobspec, &judge).expect("a suggestion");
            assert_eq!(
                (&suggestion.changes[..], &suggestion.options[..]),
                (
                    &changes.iter().map(ToString::to_string).collect::<Vec<_>>()[..],
                    &options.iter().map(ToString::to_string).collect::<Vec<_>>()[..]
                )
            );
            assert!(suggestion.rejections.is_empty(), "{suggestion:?}");
        }
        let system = json!({"bank": "chem", "queue": "batch", "project": "budget"});
        let suggestion =
            choices.suggest(&json!({"attributes": {"system": system}}), &judge).expect("a suggestion");
        assert_eq!(
            (&suggestion.changes[..], &suggestion.options[..]),
            (&["Set a time limit, such as -t 1h.".to_owned()][..], &["-t 1h".to_owned()][..])
        );
        let full = |jobspec: &Value| {
            let full = Reason { cause: RejectionCause::ActiveJobs, text: "all jobs are active".to_owned() };
            judge(jobspec).into_iter().chain([full]).collect()
        };
        let jobspec = json!({"attributes": {"system": {"bank": "chem", "queue": "batch"}}});
        assert_eq!(choices.suggest(&jobspec, &full), None);
        let jobspec = json!({"attributes": {"system": {"bank": "chme", "queue": "batch"}}});
        let suggestion = choices.suggest(&jobspec, &full).expect("a suggestion");
        assert_eq!(suggestion.rejections, ["all jobs are active"]);
        let of_older = |jobspec: &Value| without_causes(judge(jobspec));
        let jobspec = json!({"attributes": {"system": {"bank": "chem", "queue": "debug", "duration": 7200}}});
        let suggestion = choices.suggest(&jobspec, &of_older).expect("a suggestion");
        assert_eq!(suggestion.options, ["-t 1h"], "one change removes all reasons");
        let of_older = |jobspec: &Value| without_causes(full(jobspec));
        assert_eq!(choices.suggest(&jobspec, &of_older), None, "no change removes all reasons");
    }
}
