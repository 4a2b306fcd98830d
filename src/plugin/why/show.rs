// SPDX-License-Identifier: LGPL-3.0-only
//! What there is to say of jobs, as JSON.

use crate::plugin::costs::Cost;
use fairshare::Shares;
use fairshare_engine::accounts::Target;
use fairshare_engine::engine::View;
use fairshare_engine::engine::answers;
use fairshare_engine::engine::answers::{HoldNow, JobSums, JobsWanted, Keeper, ListedJob, Note, Stats, Why};
use fairshare_engine::engine::{JobFacts, PricedJob, State};
use fairshare_engine::ids::{BankName, QueueName};
use serde::Serialize;
use serde::ser::{SerializeSeq, Serializer};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Adds a member to an object.
pub(in crate::plugin) fn put(object: &mut Value, key: &str, value: Value) {
    if let Value::Object(members) = object {
        members.insert(key.to_owned(), value);
    }
}

fn note(note: &Note) -> Value {
    json!({"code": note.code, "text": note.text})
}

/// The reasons as one: the code of the first, and the texts of all.
fn reason(notes: &[Note]) -> Value {
    let text = notes.iter().map(|note| note.text.as_str()).collect::<Vec<_>>().join("; ");
    notes.first().map_or(Value::Null, |first| json!({"code": first.code, "text": text}))
}

/// Shares as a number, or that they are those of the bank above.
pub(super) fn shares(shares: Shares) -> Value {
    match shares {
        Shares::Count(count) => json!(count),
        Shares::Parent => json!("parent"),
    }
}

/// A job.
pub fn job(why: &Why, facts: &JobFacts<'_>) -> Value {
    let priced = why.priced.as_ref();
    let posted = priced.map(|priced| {
        let mut posted = price(priced, why.age, false);
        put(&mut posted, "when", json!(priced.when));
        put(&mut posted, "generation", json!(priced.generation));
        put(&mut posted, "reason", reason(&why.made));
        put(&mut posted, "reasons", why.made.iter().map(note).collect());
        let before = why.made_before.as_ref().map(|(notes, when)| {
            let mut before = reason(notes);
            put(&mut before, "when", json!(when));
            before
        });
        put(&mut posted, "before", json!(before));
        posted
    });
    json!({
        "id": why.id.0,
        "userid": why.user.0,
        "bank": why.bank.as_ref().map(BankName::as_str),
        "queue": why.queue.as_ref().map(QueueName::as_str),
        "parent_queue": why.parent.as_ref().map(QueueName::as_str),
        "one_queue_list": why.is_one_list,
        "project": facts.project,
        "urgency": facts.urgency,
        "state": state(facts.state),
        "submitted": why.submitted,
        "nodes": why.size.nodes,
        "cores": why.size.cores,
        "duration": why.duration,
        "fairshare": why.fairshare,
        "posted": posted,
        "exact": priced.map(|priced| price(priced, why.age, true)),
        "lag": why.lag.as_ref().map(|lag| json!({"by": lag.by, "code": lag.reason.code, "text": lag.reason.text})),
        "turn": priced.and_then(|priced| priced.turn).map(|turn| json!({"number": turn.number, "fairshare": turn.fairshare})),
        "held": why.is_held,
        "carries": why.carries,
        "holds": why.holds.iter().map(hold).collect::<Vec<_>>(),
        "latest": why.release.latest,
        "latest_reason": note(&why.release.reason),
        "if_started": why.release.if_started,
        "line": why.line.map(|line| json!({"place": line.place, "of": line.of})),
        "others": why.others.iter().map(keeper).collect::<Vec<_>>(),
        "others_total": why.others.len() + why.others_unnamed,
        "helps": why.helps.iter().map(note).collect::<Vec<_>>(),
    })
}

fn state(state: State) -> &'static str {
    match state {
        State::New => "new",
        State::Depend => "depend",
        State::Priority => "priority",
        State::Sched => "sched",
        State::Run => "run",
        State::Cleanup | State::Inactive => "cleanup",
    }
}

/// The posted price of a job of this age, or the exact one.
fn price(priced: &PricedJob, age: f64, is_exact: bool) -> Value {
    let made = if is_exact { &priced.exact } else { &priced.posted };
    let terms = made.shown_terms(age).into_iter().map(|term| {
        json!({"name": term.name, "value": term.value, "weight": term.weight, "product": term.product})
    });
    let by_terms = made.is_by_terms();
    json!({
        "priority": made.priority,
        "outcome": made.outcome.name(),
        "sum": by_terms.then_some(made.sum),
        "rounded": by_terms.then_some(made.rounded),
        "urgency": priced.urgency,
        "terms": terms.collect::<Vec<_>>(),
    })
}

/// Whose jobs a limit counts: by kind where it is one over a scope, else those of the association, in one queue or in all.
pub(super) fn scope(target: Option<&Target>, queue: Option<&QueueName>) -> &'static str {
    match (target, queue) {
        (Some(target), _) => target.kind(),
        (None, Some(_)) => "queue",
        (None, None) => "association",
    }
}

fn hold(hold: &HoldNow) -> Value {
    let frees = hold
        .frees
        .iter()
        .map(|one| json!({"id": one.id.0, "state": one.state, "amount": one.amount, "by": one.by}));
    json!({
        "limit": hold.limit,
        "measure": hold.measure,
        "stage": hold.stage,
        "scope": scope(hold.target.as_ref(), hold.queue.as_ref()),
        "name": hold.target.as_ref().map(Target::name),
        "queue": hold.queue.as_ref().map(QueueName::as_str),
        "used": hold.used,
        "reserved": hold.reserved,
        "limit_is": hold.cap,
        "needed": hold.needed,
        "kept_for": hold.kept_for.map(|id| id.0),
        "text": hold.text,
        "frees": frees.collect::<Vec<_>>(),
        "frees_total": hold.frees_total,
        "latest": hold.latest,
    })
}

/// Something else that keeps a job.
pub(super) fn keeper(keeper: &Keeper) -> Value {
    json!({"cause": keeper.cause.code, "text": keeper.cause.text, "name": keeper.name, "at": keeper.at})
}

#[derive(Serialize)]
struct Row<'a> {
    id: u64,
    userid: u32,
    bank: Option<&'a str>,
    queue: Option<&'a str>,
    state: &'static str,
    urgency: Option<u8>,
    nodes: u64,
    cores: u64,
    submitted: Option<f64>,
    priority: Option<u32>,
    exact: Option<u32>,
    outcome: Option<&'static str>,
    weighing: Option<usize>,
    #[serde(serialize_with = "values")]
    values: &'a ListedJob,
    sum: Option<f64>,
    when: Option<f64>,
    holds: &'a [&'static str],
    kept: bool,
}

/// The values of the terms.
fn values<S: Serializer>(job: &ListedJob, serializer: S) -> Result<S::Ok, S::Error> {
    let terms = job.price.as_ref().map(|price| price.made.shown_terms(job.age)).unwrap_or_default();
    let mut sequence = serializer.serialize_seq(Some(terms.len()))?;
    for term in terms {
        sequence.serialize_element(&term.value)?;
    }
    sequence.end()
}

#[derive(Serialize)]
struct Rows<'a> {
    now: f64,
    generation: u64,
    live: bool,
    terms: Vec<&'static str>,
    weighings: &'a [Vec<i64>],
    jobs: Vec<Row<'a>>,
    next: Option<u64>,
    has_bank: bool,
    has_queue: bool,
    overruled: Option<Value>,
}

fn row(job: &ListedJob) -> Row<'_> {
    let price = job.price.as_ref();
    Row {
        id: job.id.0,
        userid: job.user.0,
        bank: job.bank.as_ref().map(BankName::as_str),
        queue: job.queue.as_ref().map(QueueName::as_str),
        state: job.state,
        urgency: price.map(|price| price.urgency),
        nodes: job.size.nodes,
        cores: job.size.cores,
        submitted: job.submitted,
        priority: price.map(|price| price.posted),
        exact: price.map(|price| price.exact),
        outcome: price.map(|price| price.made.outcome.name()),
        weighing: job.weighing,
        values: job,
        sum: price.filter(|price| price.made.is_by_terms()).map(|price| price.made.sum),
        when: price.map(|price| price.when),
        holds: &job.holds,
        kept: job.is_kept,
    }
}

/// A page of jobs, as text: it may be long.
pub fn jobs(
    view: &View<'_>,
    wanted: &JobsWanted,
    now: f64,
    overruled: Option<Value>,
) -> Result<String, serde_json::Error> {
    let page = answers::jobs_page(view, wanted, now);
    serde_json::to_string(&Rows {
        now,
        generation: view.generation(),
        live: view.outline().is_on,
        terms: answers::term_names(view),
        weighings: &page.weighings,
        jobs: page.jobs.iter().map(row).collect(),
        next: page.next.map(|id| id.0),
        has_bank: page.has_bank,
        has_queue: page.has_queue,
        overruled,
    })
}

fn by_place(places: &BTreeMap<(Option<BankName>, Option<QueueName>), JobSums>) -> Value {
    let rows = places.iter().map(|((bank, queue), sums)| {
        json!({
            "bank": bank.as_ref().map(BankName::as_str),
            "queue": queue.as_ref().map(QueueName::as_str),
            "jobs": sums.jobs,
            "nodes": sums.nodes,
            "cores": sums.cores,
        })
    });
    rows.collect()
}

/// The instance in numbers, into `reply`; `cost` is that of refreshes.
pub fn stats(reply: &mut Value, stats: &Stats, cost: Cost) {
    let banks = stats.banks.iter().map(|bank| {
        json!({
            "bank": bank.bank,
            "parent": bank.parent,
            "shares": shares(bank.shares),
            "shares_part": bank.shares_part,
            "promised": bank.promised,
            "usage": bank.usage,
            "usage_part": bank.usage_part,
            "delivered": bank.delivered,
            "fairshare": bank.fairshare,
            "associations": bank.associations,
        })
    });
    let (count, touched) = stats.refreshes;
    let live = &stats.snapshot;
    let mut jobs = json!({"live": stats.live});
    for (state, count) in &stats.states {
        put(&mut jobs, state.name(), json!(count));
    }
    let held: serde_json::Map<String, Value> =
        stats.held_by_limit.iter().map(|(name, jobs)| ((*name).to_owned(), json!(jobs))).collect();
    let more = json!({
        "associations": stats.associations,
        "queues": stats.queues,
        "jobs": jobs,
        "held_by_limit": held,
        "pending": by_place(&stats.pending),
        "held": by_place(&stats.held),
        "running": by_place(&stats.running),
        "banks": banks.collect::<Vec<_>>(),
        "refresh": {
            "total": count,
            "seconds_total": cost.seconds,
            "touched_total": touched,
            "last": live.last.as_ref().map(|last| super::super::live::last(last, cost)),
            "under_way": live.is_refreshing,
            "lagging": live.lagging,
        },
    });
    if let (Value::Object(reply), Value::Object(more)) = (reply, more) {
        reply.extend(more);
    }
}
