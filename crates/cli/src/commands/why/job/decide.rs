// SPDX-License-Identifier: LGPL-3.0-only
//! Decides which of two jobs is ahead, and which terms of their priorities are the reason.
//!
//! A term is the reason if the order of the jobs is reversed after they have swapped their values of this term. The
//! first term to be swapped is the one that changes the difference of the two scores most. If the order stays, the
//! terms with the next largest effects are swapped too, one after another.

use std::cmp::Ordering;

use fairshare_engine::accounts::ZeroScore;
use fairshare_engine::engine::answers::{LevelShown, PostedPriority, Why};
use fairshare_engine::ids::JobId;
use fairshare_engine::priority::{Outcome, PRIORITY_LIMIT, PriorityBounds, score};

/// The first or the second of the two compared jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
}

/// Why one of two jobs is ahead. `Display` writes the code that `why --json` reports.
#[derive(Clone, Debug, PartialEq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Cause {
    /// The first job runs or is ending. The second job does not run yet.
    Runs,
    /// Both jobs run or are ending.
    #[strum(serialize = "both-run")]
    BothRun,
    /// The scheduler can start the first job. The second job is held or blocked.
    Held,
    /// Neither job can run, and their reasons can't be compared, or neither has a priority yet.
    Neither,
    /// The second job has no priority yet.
    Unpriced,
    /// Urgency 0 holds the second job, or urgency 31 puts the first job ahead of all other jobs.
    Urgency,
    /// The second job is held because its score is 0. Swapping the values of the terms with these indices would put the second
    /// job ahead.
    Score(Vec<usize>),
    /// Swapping the values of the terms with these indices would put the second job ahead.
    Terms(Vec<usize>),
    /// The queue of the second job limits priorities. Because of this limit, swapping terms can't put the second job ahead.
    #[strum(serialize = "max-priority")]
    MaxPriority,
    /// The weights of the terms changed between the two priorities, so swapping the values of terms can't reverse the
    /// order.
    Weights,
    /// The priorities are equal; the smaller id is first.
    Id,
}

/// The job that is ahead, and the reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) side: Side,
    pub(crate) cause: Cause,
}

/// Decides which of two jobs is ahead. Flux sorts pending jobs by priority, the largest first, and then by id, the smallest first.
pub(crate) fn decide(a: &Why, b: &Why) -> Verdict {
    let [first, second] = [stage(a), stage(b)];
    let (order, cause) = match first.cmp(&second) {
        Ordering::Equal => match (&a.posted, &b.posted) {
            (Some(one), Some(other)) if first == Stage::Waiting || [a, b].into_iter().all(is_comparable) => {
                return compare_priorities(a, one, b, other);
            }
            _ if first == Stage::Running => (a.id.cmp(&b.id), Cause::BothRun),
            _ => (a.id.cmp(&b.id), Cause::Neither),
        },
        order => {
            let stages = [first, second];
            let cause = match stages {
                _ if stages.contains(&Stage::Running) => Cause::Runs,
                _ if stages.contains(&Stage::Unpriced) && !stages.contains(&Stage::Held) => Cause::Unpriced,
                _ if is_held_by_urgency(if order.is_lt() { b } else { a }) => Cause::Urgency,
                _ => Cause::Held,
            };
            (order, cause)
        }
    };
    Verdict { side: if order.is_le() { Side::First } else { Side::Second }, cause }
}

/// How close a job is to running. The first stage is the closest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    Waiting,
    Unpriced,
    Held,
}

fn get_posted_outcome(job: &Why) -> Option<Outcome> {
    job.posted.as_ref()?.made.outcome()
}

/// Returns true if only urgency 0 holds the job.
fn is_held_by_urgency(job: &Why) -> bool {
    job.holds.is_empty() && get_posted_outcome(job) == Some(Outcome::HeldByUrgency)
}

/// Returns the reasons why the scheduler can't start a job, as code and text. A job without such a reason is running, or waits for
/// its priority or for resources.
pub(crate) fn list_obstacles(job: &Why) -> Vec<(&str, String)> {
    if matches!(job.state.as_ref(), "run" | "cleanup") {
        return Vec::new();
    }
    let holds = job.holds.iter().map(|hold| (hold.limit.as_ref(), format!("{}: {}", hold.limit, hold.text)));
    let others =
        job.others.iter().filter(|other| !matches!(other.cause.as_ref(), "resources" | "queue-disabled"));
    let mut found: Vec<(&str, String)> =
        holds.chain(others.map(|other| (other.cause.as_ref(), other.text.clone()))).collect();
    if found.is_empty() {
        found.extend(match get_posted_outcome(job) {
            Some(Outcome::HeldByUrgency) => Some(("urgency", "its urgency is 0".to_owned())),
            Some(Outcome::HeldByScore) => Some(("score", "the sum of its terms is 0 or less".to_owned())),
            _ if job.is_held || job.state == "depend" => {
                Some(("held", "it has not been released yet".to_owned()))
            }
            _ => None,
        });
    }
    found
}

/// Returns true if nothing except a stopped queue or a score of 0 prevents the job from running. Only such a job can
/// be compared by its priority.
fn is_comparable(job: &Why) -> bool {
    list_obstacles(job).iter().all(|(code, _)| matches!(*code, "queue-stopped" | "score"))
}

fn stage(job: &Why) -> Stage {
    // A job whose score is 0 is not treated as held, because the terms of its score explain the order.
    let is_obstructed = list_obstacles(job).iter().any(|(code, _)| *code != "score");
    match job.state.as_ref() {
        "run" | "cleanup" => Stage::Running,
        _ if is_obstructed => Stage::Held,
        _ if job.posted.is_none() => Stage::Unpriced,
        _ => Stage::Waiting,
    }
}

fn compare_priorities(a: &Why, one: &PostedPriority, b: &Why, other: &PostedPriority) -> Verdict {
    let order = is_ahead(one.made.priority, a.id, other.made.priority, b.id);
    let side = if order { Side::First } else { Side::Second };
    let verdict = |cause| Verdict { side, cause };
    if one.made.priority == other.made.priority {
        return verdict(Cause::Id);
    }
    if [one, other].iter().any(|posted| posted.made.outcome() == Some(Outcome::Expedited)) {
        return verdict(Cause::Urgency);
    }
    let ([ahead, behind], [first, second]) = match side {
        Side::First => ([one, other], [a, b]),
        Side::Second => ([other, one], [b, a]),
    };
    let most = [first, second].map(|job| job.queue_rules.max_priority);
    let flips = |terms: &[usize]| {
        let [now_ahead, now_behind] = swap_terms([ahead, behind], most, terms);
        !is_ahead(now_ahead, first.id, now_behind, second.id)
    };
    match find_fewest_swaps(ahead, behind, flips) {
        None if second.queue_rules.max_priority.is_some_and(|most| behind.made.priority >= most) => {
            verdict(Cause::MaxPriority)
        }
        None => verdict(Cause::Weights),
        Some(terms) if behind.made.outcome() == Some(Outcome::HeldByScore) => verdict(Cause::Score(terms)),
        Some(terms) => verdict(Cause::Terms(terms)),
    }
}

/// Returns true if job `a` with priority `one` is ahead of job `b` with priority `other`.
fn is_ahead(one: u32, a: JobId, other: u32, b: JobId) -> bool {
    (other, a) < (one, b)
}

/// Returns terms whose values the jobs must swap to reverse their order, or `None` if no swap reverses it. First tries the term
/// with the largest effect, then the two terms with the largest effects, and so on.
fn find_fewest_swaps(
    ahead: &PostedPriority,
    behind: &PostedPriority,
    flips: impl Fn(&[usize]) -> bool,
) -> Option<Vec<usize>> {
    let difference = |at: usize| {
        let value = |posted: &PostedPriority| {
            posted.made.terms.get(at).map_or((0.0, 0), |term| (term.value, term.weight))
        };
        let ((mine, weight), (theirs, other)) = (value(ahead), value(behind));
        // If the jobs swap their values of this term, the difference of the two scores changes by this amount.
        (mine - theirs) * (weight as f64 + other as f64)
    };
    let mut terms: Vec<usize> = (0..ahead.made.terms.len().min(behind.made.terms.len())).collect();
    terms.sort_by(|a, b| difference(*b).total_cmp(&difference(*a)));
    (1..=terms.len()).find_map(|count| {
        let chosen = terms.get(..count)?;
        (difference(*chosen.last()?) > 0.0 && flips(chosen)).then(|| chosen.to_vec())
    })
}

/// Returns the priorities that two jobs would have after swapping their values of `terms`. `most` has the highest
/// priority that each job's queue allows.
pub(super) fn swap_terms(posted: [&PostedPriority; 2], most: [Option<u32>; 2], terms: &[usize]) -> [u32; 2] {
    let [mut first, mut second] = posted.map(|posted| posted.made.terms.clone());
    for at in terms {
        if let (Some(one), Some(other)) = (first.get_mut(*at), second.get_mut(*at)) {
            std::mem::swap(&mut one.value, &mut other.value);
        }
    }
    let is_raised = posted.iter().any(|posted| posted.made.outcome() == Some(Outcome::Raised));
    let zero = if is_raised { ZeroScore::Floor } else { ZeroScore::Hold };
    let [first_most, second_most] = most;
    [(first, first_most), (second, second_most)].map(|(terms, most)| {
        let terms = terms.iter().map(|term| (term.name.as_ref(), term.weight, term.value));
        score(terms, PriorityBounds { zero, max: most.unwrap_or(PRIORITY_LIMIT) }).priority
    })
}

/// Returns the index of the first level at which the paths of two associations differ. Also returns which association is ahead
/// at this level, or `None` if neither is ahead.
pub(crate) fn find_diverging_level(a: &[LevelShown], b: &[LevelShown]) -> Option<(usize, Option<Side>)> {
    let at = a
        .iter()
        .zip(b)
        .position(|(one, other)| (&one.node.name, &one.node.kind) != (&other.node.name, &other.node.kind))?;
    let value = |level: &LevelShown| {
        if level.node.is_infinite { Some(f64::INFINITY) } else { level.node.value }
    };
    let (one, other) = (value(a.get(at)?)?, value(b.get(at)?)?);
    let side = match one.total_cmp(&other) {
        Ordering::Greater => Some(Side::First),
        Ordering::Less => Some(Side::Second),
        Ordering::Equal => None,
    };
    Some((at, side))
}
