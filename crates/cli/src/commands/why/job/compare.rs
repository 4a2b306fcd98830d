// SPDX-License-Identifier: LGPL-3.0-only
//! Explains why one job is ahead of another: the term, or the level of the tree, that decides.

use serde::Serialize;

use super::decide::{Cause, Side, Verdict, find_diverging_level, list_obstacles};
use crate::ui::figures::{number, ordinal, percent, ratio, term};
use crate::ui::printable::{capitalize, join_words};
use crate::ui::rows::{Cell, Column, Rows, Style, column};
use crate::ui::teller::TextPrinter;
use fairshare_engine::engine::answers::{AssociationStanding, LevelShown, Sibling, Why};
use fairshare_engine::ids::{JobId, Word};
use fairshare_engine::priority::Term;

type BothStandings<'a> = Option<&'a [AssociationStanding; 2]>;

impl Verdict {
    /// Returns the names of the terms of `job` that decide the order.
    pub(crate) fn terms<'a>(&self, job: &'a Why) -> Vec<&'a str> {
        let (Cause::Terms(places) | Cause::Score(places)) = &self.cause else { return Vec::new() };
        let terms = job.posted.as_ref().map(|posted| posted.made.terms.as_slice()).unwrap_or_default();
        places.iter().filter_map(|at| terms.get(*at)).map(|term| term.name.as_ref()).collect()
    }

    /// Returns true if fair-share is one of the terms that decide the order.
    pub(crate) fn is_decided_by_fairshare(&self, job: &Why) -> bool {
        self.terms(job).contains(&"fairshare")
    }
}

/// The result of comparing two jobs, in the JSON document of `why`.
#[derive(Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::commands) struct JobVerdict<'a> {
    /// The job that is ahead; null if neither is.
    ahead: Option<JobId>,
    behind: Option<JobId>,
    cause: String,
    /// The priority terms that explain why one job is ahead.
    terms: Vec<&'a str>,
    /// If fair-share explains the order, the first level of the tree at which the paths of the two associations
    /// differ.
    level: Option<DecidingLevel>,
    /// Why the jobs cannot run now.
    cannot_run: Vec<Obstacle<'a>>,
}

impl JobVerdict<'_> {
    /// Returns the result of comparing two jobs if one of them has ended.
    pub(super) fn make_verdict_if_one_job_ended() -> Self {
        JobVerdict { cause: "ended".to_owned(), ..JobVerdict::default() }
    }
}

/// A level of the tree on which the associations of two jobs differ.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct DecidingLevel {
    /// The bank above the level.
    below: Option<String>,
    /// The banks or users of the level.
    nodes: [Option<String>; 2],
    /// The index of the node that is ahead; null if neither is.
    decides: Option<usize>,
}

/// Why a job cannot run now.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Obstacle<'a> {
    id: JobId,
    code: &'a str,
    text: String,
}

/// Describes for the JSON document which job is ahead, and why.
pub(super) fn describe_which_job_is_ahead<'a>(
    a: &'a Why,
    b: &'a Why,
    verdict: &Verdict,
    standings: BothStandings<'_>,
) -> JobVerdict<'a> {
    let (ahead, behind) = order_jobs_by_verdict(a, b, verdict);
    let level = standings.and_then(|[one, other]| {
        let (at, side) = find_diverging_level(&one.levels, &other.levels)?;
        let name = |association: &AssociationStanding, at: usize| {
            association.levels.get(at).map(|level| level.node.name.clone())
        };
        let (names, below) =
            ([name(one, at), name(other, at)], at.checked_sub(1).and_then(|above| name(one, above)));
        let decides = side.map(|side| if side == Side::First { 0 } else { 1 });
        Some(DecidingLevel { below, nodes: names, decides })
    });
    let cannot_run = [a, b].into_iter().flat_map(|job| {
        let obstacle = |(code, text)| Obstacle { id: job.id, code, text };
        list_obstacles(job).into_iter().map(obstacle).collect::<Vec<_>>()
    });
    let is_decided = !matches!(verdict.cause, Cause::Neither | Cause::BothRun);
    JobVerdict {
        ahead: is_decided.then_some(ahead.id),
        behind: is_decided.then_some(behind.id),
        cause: verdict.cause.to_string(),
        terms: verdict.terms(a),
        level,
        cannot_run: cannot_run.collect(),
    }
}

/// Describes whether the scheduler compares jobs of the two queues. Returns `None` if both jobs are in one queue.
fn describe_queues(a: &Why, b: &Why) -> Option<String> {
    let (one, other) = (a.queue.as_ref()?, b.queue.as_ref()?);
    if one == other {
        return None;
    }
    let part =
        |job: &Why| Some(format!("queue {} is part of {}", job.queue.as_ref()?, job.parent_queue.as_ref()?));
    let parts: Vec<String> = [a, b].into_iter().filter_map(part).collect();
    let scheduled = |job: &Why| job.parent_queue.clone().or_else(|| job.queue.clone());
    if scheduled(a) == scheduled(b) {
        return Some(format!("Both are scheduled in one order: {}.", parts.join(", and ")));
    }
    a.one_queue_list.map(|is_one| match is_one {
        true => format!(
            "Both are scheduled in one order: the scheduler keeps queues {one} and {other} in one list."
        ),
        false => format!(
            "The scheduler orders queues {one} and {other} separately: this compares only the priorities."
        ),
    })
}

fn order_jobs_by_verdict<'a>(a: &'a Why, b: &'a Why, verdict: &Verdict) -> (&'a Why, &'a Why) {
    if verdict.side == Side::First { (a, b) } else { (b, a) }
}

impl TextPrinter<'_> {
    /// Prints which of two jobs is ahead, and why.
    pub(crate) fn compare_jobs(&self, a: &Why, b: &Why, verdict: &Verdict, standings: BothStandings<'_>) {
        let (ahead, behind) = order_jobs_by_verdict(a, b, verdict);
        if a.id == b.id {
            return self.line(&format!(
                "{} is named twice: there is nothing to compare.",
                self.format_job_and_owner(a)
            ));
        }
        let (first, second) = (self.format_job_and_owner(ahead), self.format_job_and_owner(behind));
        let heading = match verdict.cause {
            Cause::Neither => format!("Neither {first} nor {second} can run now"),
            Cause::BothRun => format!("{first} and {second} have started already"),
            _ => format!("{first} is ahead of {second}"),
        };
        self.heading(&heading);
        if let Some(cause) = self.cause(ahead, behind, verdict) {
            self.line(&cause);
        }
        if let Some(queues) = describe_queues(a, b) {
            self.line(&queues);
        }
        for job in [ahead, behind] {
            self.cannot_run(job);
        }
        if let (Some(one), Some(other)) = (&ahead.posted, &behind.posted)
            && !(one.made.terms.is_empty() && other.made.terms.is_empty())
        {
            self.out.blank();
            let terms = [one, other].map(|posted| posted.made.terms.as_slice());
            self.out.table(self.make_terms_table([ahead, behind], terms), &[]);
        }
        let standings = standings
            .map(|[one, other]| if verdict.side == Side::First { (one, other) } else { (other, one) });
        if verdict.is_decided_by_fairshare(a) {
            self.out.blank();
            self.fairshare(ahead, behind, standings);
        }
        let fork = |job: &Why| {
            job.exact
                .as_ref()
                .zip(job.posted.as_ref())
                .is_some_and(|(now, then)| now.priority != then.made.priority)
        };
        if fork(ahead) || fork(behind) {
            self.out.blank();
            self.line("These are the posted priorities. The current priorities are:");
            for job in [ahead, behind] {
                if let Some(exact) = &job.exact {
                    self.item(&format!("{}: {}", self.words.job(job.id.0), number(exact.priority)));
                }
            }
        }
    }

    /// Prints why a job can't run, and until when if that is known.
    fn cannot_run(&self, job: &Why) {
        let texts: Vec<String> = list_obstacles(job).iter().map(|(_, text)| self.words.named(text)).collect();
        if texts.is_empty() {
            return;
        }
        let at = job.others.iter().filter_map(|other| other.at).reduce(f64::max);
        let until = match (job.release.latest, at) {
            (Some(latest), _) if texts.len() == job.holds.len() => {
                format!("; it is released at the latest {}", self.words.when(latest))
            }
            (None, Some(at)) if texts.len() == 1 => format!("; it may begin {}", self.words.when(at)),
            _ => String::new(),
        };
        self.line(&format!("{} cannot run now: {}{until}.", self.words.job(job.id.0), texts.join("; ")))
    }

    /// Returns a sentence about why the job `ahead` is ahead. Returns `None` if [`TextPrinter::cannot_run`] already
    /// explains this.
    fn cause(&self, ahead: &Why, behind: &Why, verdict: &Verdict) -> Option<String> {
        let (first, second) = (self.words.job(ahead.id.0), self.words.job(behind.id.0));
        Some(match &verdict.cause {
            Cause::Neither if list_obstacles(behind).is_empty() => "Neither has a priority yet.".to_owned(),
            Cause::Held | Cause::Neither | Cause::BothRun => return None,
            Cause::Runs => format!("{first} has started already."),
            Cause::Unpriced => format!("{second} has no priority yet."),
            Cause::Urgency if behind.urgency == 0 => format!("The urgency decides: {second} has urgency 0, which holds it."),
            Cause::Urgency => format!("The urgency decides: {first} has urgency 31, which puts it ahead of all."),
            Cause::Score(terms) => format!(
                "The score of {second} is 0, which holds it. {} it.",
                self.describe_terms_that_decide(ahead, terms, "decides", "decide")
            ),
            Cause::Terms(terms) => format!(
                "{}: if the two jobs exchanged {}, {second} would go first.",
                self.describe_terms_that_decide(ahead, terms, "decides", "decide together"),
                if terms.len() == 1 { "this value" } else { "these values" }
            ),
            Cause::MaxPriority => format!(
                "The max-priority of its queue decides: {second} gets at most {}.",
                number(behind.queue_rules.max_priority.unwrap_or_default())
            ),
            Cause::Weights => {
                "The factors do not explain the order: the weights changed after one of the two priorities was computed.".to_owned()
            }
            Cause::Id => format!("Their priorities are equal: {first} was submitted first."),
        })
    }

    fn describe_terms_that_decide(&self, job: &Why, places: &[usize], one: &str, several: &str) -> String {
        let terms = job.posted.as_ref().map(|posted| posted.made.terms.as_slice()).unwrap_or_default();
        let names: Vec<&str> =
            places.iter().filter_map(|at| terms.get(*at)).map(|term| name_in_words(&term.name)).collect();
        capitalize(&format!("{} {}", join_words(&names), if names.len() == 1 { one } else { several }))
    }

    /// Returns a table with the terms of both jobs.
    fn make_terms_table(&self, jobs: [&Why; 2], terms: [&[Term<Word>]; 2]) -> Rows<'static> {
        let row = |named: &Term<Word>| {
            let pair = terms.map(|terms| terms.iter().find(|term| term.name == named.name));
            if pair.into_iter().flatten().all(|term| term.weight == 0) {
                return None;
            }
            let [value, other_value] = pair.map(|term| Cell::from(term.map(|term| term.value)));
            let [mine, theirs] = pair.map(|term| term.map(|term| term.product));
            let difference = mine.zip(theirs).map(|(mine, theirs)| mine - theirs);
            let difference = difference.map(|by| if by > 0.0 { format!("+{}", term(by)) } else { term(by) });
            let name = named.name.as_ref().into();
            Some(vec![name, value, other_value, mine.into(), theirs.into(), difference.into()])
        };
        let names = terms.into_iter().find(|terms| !terms.is_empty()).unwrap_or_default();
        let mut rows: Vec<Vec<Cell>> = names.iter().filter_map(row).collect();
        let priority = |job: &Why| Cell::from(job.posted.as_ref().map(|posted| posted.made.priority as f64));
        let [one, other] = jobs.map(priority);
        rows.push(vec!["priority".into(), Cell::None, Cell::None, one, other, Cell::None]);
        let columns = vec![
            column("name", "Term", Style::Text),
            column("one_value", "Factor 1", Style::Fraction),
            column("other_value", "Factor 2", Style::Fraction),
            column("one", "Product 1", Style::Term),
            column("other", "Product 2", Style::Term),
            column("difference", "Difference", Style::Signed),
        ];
        Rows { key: "terms", columns, rows: Box::new(rows.into_iter()) }
    }

    /// Prints why the fair-shares of the two associations differ.
    fn fairshare(
        &self,
        ahead: &Why,
        behind: &Why,
        standings: Option<(&AssociationStanding, &AssociationStanding)>,
    ) {
        if ahead.userid == behind.userid && ahead.bank == behind.bank {
            let turn = |job: &Why| job.turn.as_ref().map(|turn| ordinal(turn.number));
            return self.line(&match (turn(ahead), turn(behind)) {
                (Some(one), Some(other)) => format!(
                    "Both belong to one association, whose jobs take turns: these are its {one} and its {other} job."
                ),
                _ => "Both belong to one association: its fair-share changed after one of the two priorities was computed.".to_owned(),
            });
        }
        let Some((one, other)) = standings else {
            return self
                .line("Only the instance owner and admins see at which level of the tree they differ.");
        };
        let Some((at, side)) = find_diverging_level(&one.levels, &other.levels) else {
            let text = "The plugin has no tree: run \"flux fairshare why USER1 USER2\" on the machine that computes the fair-shares.";
            return self.line(text);
        };
        let (Some(mine), Some(theirs)) = (one.levels.get(at), other.levels.get(at)) else { return };
        let above = at.checked_sub(1).and_then(|above| one.levels.get(above));
        let below = above.map_or_else(|| "the root".to_owned(), |level| format!("bank {}", level.node.name));
        let (mine_is, theirs_is) = (describe_node(mine), describe_node(theirs));
        let text = match side {
            Some(Side::First) => {
                format!("The siblings right below {below} decide: {mine_is} comes before {theirs_is}.")
            }
            Some(Side::Second) => format!(
                "The siblings right below {below} decide. There, {theirs_is} now comes before \
                 {mine_is}, but the posted priorities use older fair-shares."
            ),
            None => format!(
                "The siblings right below {below}, {mine_is} and {theirs_is}, are equal, so the levels below them decide."
            ),
        };
        self.line(&text);
        self.out.table(tabulate_levels(&[mine, theirs]), &["shares", "usage"]);
        let place = |association: &AssociationStanding| {
            association.rank.map(|rank| format!("{} of {}", ordinal(rank.place), number(rank.of)))
        };
        if let (Some(one), Some(other)) = (place(one), place(other)) {
            self.line(&format!("Their associations rank {one} and {other}."));
        }
    }
}

/// Returns the name of a term for a sentence.
pub(super) fn name_in_words(name: &str) -> &str {
    if name == "fairshare" { "fair-share" } else { name }
}

fn describe_node(level: &LevelShown) -> String {
    if level.node.kind == "bank" { format!("bank {}", level.node.name) } else { level.node.name.clone() }
}

/// The columns of a table of nodes.
pub(crate) const LEVEL_COLUMNS: [Column<'static>; 5] = [
    column("name", "Bank/User", Style::Text),
    column("shares", "Shares", Style::Count),
    column("shares_part", "Share", Style::Percent),
    column("usage_part", "Used", Style::Percent),
    column("value", "Value", Style::Ratio),
];

/// Returns a table of nodes with shares, usage and value.
pub(crate) fn tabulate_levels(nodes: &[&LevelShown]) -> Rows<'static> {
    let rows: Vec<Vec<Cell>> = nodes
        .iter()
        .map(|level| {
            let [share, used, value] = make_share_usage_and_value_cells(&level.node);
            vec![Cell::Text(describe_node(level)), Cell::Count(level.node.shares), share, used, value]
        })
        .collect();
    Rows { key: "levels", columns: LEVEL_COLUMNS.to_vec(), rows: Box::new(rows.into_iter()) }
}

/// Returns the cells that compare a node with its siblings: the fractions of shares and usage, and the value by which
/// the policy ranks siblings.
pub(crate) fn make_share_usage_and_value_cells(node: &Sibling) -> [Cell; 3] {
    let part = |part: Option<f64>| part.map_or(Cell::None, |part| Cell::Text(percent(part)));
    let value = match (node.is_infinite, node.value) {
        (true, _) => Cell::Text("unused".to_owned()),
        (false, Some(value)) => Cell::Text(ratio(value)),
        (false, None) => Cell::None,
    };
    [part(node.shares_part), part(node.usage_part), value]
}
