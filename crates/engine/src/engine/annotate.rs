// SPDX-License-Identifier: LGPL-3.0-only
//! Posts the annotations of jobs, which `flux jobs` shows.
//!
//! Flux accepts annotations only in the answers to a few callbacks. It accepts none in answers to
//! `job.priority.get`, and none by job id. So the engine posts annotations as volatile memos, which Flux shows
//! among the annotations and does not write to the eventlog. Each refresh posts the annotations that are out of
//! date.

use super::{Effect, Shared, Timer, answers::find_rank};
use crate::ids::JobId;
use crate::limits::{Holding, Job, Phase};

/// Returns the effect that posts a job's annotation. Returns `None` if the job already has this annotation, or if
/// annotations are off.
pub fn make_annotation(shared: &mut Shared, id: JobId) -> Option<Effect> {
    if !shared.settings.annotate {
        return None;
    }
    let text = annotation_text(shared, id)?;
    if shared.annotations.get(&id) == Some(&text) {
        return None;
    }
    shared.annotations.insert(id, text.clone());
    Some(Effect::Annotate(id, text))
}

/// Posts the annotations of the next jobs, beginning after the job `after`. Returns the last of these jobs, or `None` if no jobs
/// follow.
pub fn post_annotations_of_next_jobs(
    shared: &mut Shared,
    after: Option<JobId>,
) -> (Vec<Effect>, Option<JobId>) {
    let max_jobs = shared.batches.annotated;
    let waits = |job: &Job| job.is_held() || matches!(job.phase, Phase::Priority | Phase::Sched);
    let jobs: Vec<(JobId, bool)> =
        shared.ledger.jobs_after(after).take(max_jobs).map(|(id, job)| (id, waits(job))).collect();
    let last = jobs.last().filter(|_| jobs.len() == max_jobs).map(|(id, _)| *id);
    let waiting = jobs.iter().filter(|(_, waits)| *waits);
    let mut effects: Vec<Effect> = waiting.filter_map(|(id, _)| make_annotation(shared, *id)).collect();
    effects.extend(last.map(|_| Effect::Arm(Timer::Slice)));
    (effects, last)
}

fn format_ordinal(number: usize) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

pub fn annotation_text(shared: &Shared, id: JobId) -> Option<String> {
    let job = shared.ledger.job(id)?;
    let association = job.association()?;
    if job.is_held() {
        let holding = shared.limits().holding(id);
        let Holding { hold, amount, used, limit, .. } = holding.first()?;
        let used = amount.measure.format_amount(*used);
        let most = amount.measure.format_headroom(limit.cap());
        return Some(format!("held: {} {used}/{most}", hold.name()));
    }
    let fairshare = shared.fairshare(association)?;
    let index = shared.find_usage_entry(association).filter(|_| shared.is_live());
    let rank = index.and_then(|index| find_rank(shared, shared.standing.node(index)?));
    let rank_text =
        rank.map_or(String::new(), |rank| format!(", {} of {}", format_ordinal(rank.place), rank.of));
    Some(format!("{fairshare:.3}{rank_text}"))
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_number_has_its_ordinal_ending() {
        for (number, text) in [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (12, "12th"),
            (13, "13th"),
            (21, "21st"),
            (112, "112th"),
        ] {
            assert_eq!(super::format_ordinal(number), text);
        }
    }
}
