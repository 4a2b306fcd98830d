// SPDX-License-Identifier: LGPL-3.0-only
//! What decides which of two jobs goes first: a function of how the priorities of both came about.
//!
//! A term decides if the order is the other one once the two jobs have swapped their values of it. Where no single term
//! does, it is the fewest that do together, those of the largest differences.

use std::cmp::Ordering;

use fairshare_engine::accounts::ZeroScore;
use fairshare_engine::engine::answers::{LevelShown, PostedPriority, Why};
use fairshare_engine::ids::JobId;
use fairshare_engine::priority::score;

/// Which of two goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    First,
    Second,
}

/// Why a job goes first. `Display` writes the code that `why --json` reports.
#[derive(Clone, Debug, PartialEq, strum::Display)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Cause {
    /// One is past waiting: it runs, or ends.
    Runs,
    /// Of one nothing keeps it from the scheduler; the other is held, or somebody else keeps it.
    Held,
    /// Neither can run, for reasons that do not compare: none goes first.
    Neither,
    /// One has no priority yet.
    Unpriced,
    /// The urgency of one holds it or puts it ahead of all.
    Urgency,
    /// The score of one is 0, which holds it; these terms, swapped, would have the other held in its place, or put behind.
    Score(Vec<usize>),
    /// These terms, by their places, swapped.
    Terms(Vec<usize>),
    /// The values would not do it: the weights were others when one of them was priced.
    Weights,
    /// The priorities are equal; the older id goes first.
    Id,
}

/// Who goes first, and why.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Verdict {
    pub(crate) side: Side,
    pub(crate) cause: Cause,
}

/// Which of two jobs goes first, and why. As Flux sorts pending jobs: the larger priority first, of equal ones the older id.
pub(crate) fn decide(a: &Why, b: &Why) -> Verdict {
    let [first, second] = [stage(a), stage(b)];
    let (order, cause) = match first.cmp(&second) {
        Ordering::Equal => match (&a.posted, &b.posted) {
            (Some(one), Some(other))
                if first == Stage::Waiting || [a, b].into_iter().all(is_only_stopped) =>
            {
                return by_price(a, one, b, other);
            }
            _ if first == Stage::Held => (a.id.cmp(&b.id), Cause::Neither),
            _ => (a.id.cmp(&b.id), Cause::Id),
        },
        order => {
            let stages = [first, second];
            let cause = match stages {
                _ if stages.contains(&Stage::Running) => Cause::Runs,
                _ if stages.contains(&Stage::Unpriced) && !stages.contains(&Stage::Held) => Cause::Unpriced,
                _ if is_by_urgency(if order.is_lt() { b } else { a }) => Cause::Urgency,
                _ => Cause::Held,
            };
            (order, cause)
        }
    };
    Verdict { side: if order.is_le() { Side::First } else { Side::Second }, cause }
}

/// How far a job has come; who is further goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Running,
    Waiting,
    Unpriced,
    Held,
}

/// Whether its urgency alone holds a job.
fn is_by_urgency(job: &Why) -> bool {
    job.holds.is_empty() && job.posted.as_ref().is_some_and(|price| price.made.outcome == "held-by-urgency")
}

/// What keeps a job from running until somebody or something else changes it, by code and in words. A job of which nothing
/// does is running, or waits for its priority or for resources.
pub(crate) fn obstacles(job: &Why) -> Vec<(&str, String)> {
    if matches!(job.state.as_ref(), "run" | "cleanup") {
        return Vec::new();
    }
    let holds = job.holds.iter().map(|hold| (hold.limit.as_ref(), format!("{}: {}", hold.limit, hold.text)));
    let others =
        job.others.iter().filter(|other| !matches!(other.cause.as_ref(), "resources" | "queue-disabled"));
    let mut found: Vec<(&str, String)> =
        holds.chain(others.map(|other| (other.cause.as_ref(), other.text.clone()))).collect();
    let outcome = job.posted.as_ref().map(|price| price.made.outcome.as_ref());
    if found.is_empty() {
        found.extend(match outcome {
            Some("held-by-urgency") => Some(("urgency", "its urgency is 0".to_owned())),
            Some("held-by-score") => Some(("score", "the sum of its terms is 0 or less".to_owned())),
            _ if job.is_held || job.state == "depend" => {
                Some(("held", "it has not been released yet".to_owned()))
            }
            _ => None,
        });
    }
    found
}

/// Whether nothing but its stopped queue, and its score, keeps a job from running: priorities compare both.
fn is_only_stopped(job: &Why) -> bool {
    obstacles(job).iter().all(|(code, _)| matches!(*code, "queue-stopped" | "score"))
}

fn stage(job: &Why) -> Stage {
    // Of a score of 0 it is told which terms make it.
    let is_kept = obstacles(job).iter().any(|(code, _)| *code != "score");
    match job.state.as_ref() {
        "run" | "cleanup" => Stage::Running,
        _ if is_kept => Stage::Held,
        _ if job.posted.is_none() => Stage::Unpriced,
        _ => Stage::Waiting,
    }
}

fn by_price(a: &Why, one: &PostedPriority, b: &Why, other: &PostedPriority) -> Verdict {
    let order = before(one.made.priority, a.id, other.made.priority, b.id);
    let side = if order { Side::First } else { Side::Second };
    let verdict = |cause| Verdict { side, cause };
    if one.made.priority == other.made.priority {
        return verdict(Cause::Id);
    }
    if [one, other].iter().any(|price| price.made.outcome == "expedited") {
        return verdict(Cause::Urgency);
    }
    let (ahead, ahead_id, behind, behind_id) = match side {
        Side::First => (one, a.id, other, b.id),
        Side::Second => (other, b.id, one, a.id),
    };
    let flips = |terms: &[usize]| {
        let [now_ahead, now_behind] = swapped(ahead, behind, terms);
        !before(now_ahead, ahead_id, now_behind, behind_id)
    };
    match fewest(ahead, behind, flips) {
        None => verdict(Cause::Weights),
        Some(terms) if behind.made.outcome == "held-by-score" => verdict(Cause::Score(terms)),
        Some(terms) => verdict(Cause::Terms(terms)),
    }
}

/// Whether the first goes before the second.
fn before(one: u32, a: JobId, other: u32, b: JobId) -> bool {
    (other, a) < (one, b)
}

/// The terms, swapped one after the other from the largest difference down, until the order is the other one.
fn fewest(
    ahead: &PostedPriority,
    behind: &PostedPriority,
    flips: impl Fn(&[usize]) -> bool,
) -> Option<Vec<usize>> {
    let difference = |at: usize| {
        let value = |price: &PostedPriority| {
            price.made.terms.get(at).map_or((0.0, 0), |term| (term.value, term.weight))
        };
        let ((mine, weight), (theirs, other)) = (value(ahead), value(behind));
        // What a swap takes from the one and gives to the other.
        (mine - theirs) * (weight as f64 + other as f64)
    };
    let mut terms: Vec<usize> = (0..ahead.made.terms.len().min(behind.made.terms.len())).collect();
    terms.sort_by(|a, b| difference(*b).total_cmp(&difference(*a)));
    (1..=terms.len()).find_map(|count| {
        let chosen = terms.get(..count)?;
        (difference(*chosen.last()?) > 0.0 && flips(chosen)).then(|| chosen.to_vec())
    })
}

/// Returns the priorities of two jobs after they have swapped the values of these terms.
pub(super) fn swapped(one: &PostedPriority, other: &PostedPriority, terms: &[usize]) -> [u32; 2] {
    let [mut first, mut second] = [one.made.terms.clone(), other.made.terms.clone()];
    for at in terms {
        if let (Some(one), Some(other)) = (first.get_mut(*at), second.get_mut(*at)) {
            std::mem::swap(&mut one.value, &mut other.value);
        }
    }
    let is_raised = [one, other].iter().any(|price| price.made.outcome == "raised");
    let zero = if is_raised { ZeroScore::Floor } else { ZeroScore::Hold };
    [first, second].map(|terms| {
        let terms = terms.iter().map(|term| (term.name.as_ref(), term.weight, term.value));
        score(terms, zero).priority
    })
}

/// The level of the tree at which two associations part, by its place in the lists of levels, and which of them goes first
/// there, if one does. Levels above have the same name.
pub(crate) fn parting(a: &[LevelShown], b: &[LevelShown]) -> Option<(usize, Option<Side>)> {
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
