// SPDX-License-Identifier: LGPL-3.0-only
//! The document `flux jobtap query` shows. Keys, nesting and order are an interface; keys may be added at the top.

use crate::accounts::{Association, AssociationId, ZeroScore};
use crate::engine::{Check, Engine};
use serde_json::{Map, Value, json};

/// The document as JSON text.
pub fn document(engine: &Engine) -> String {
    let (book, ledger) = (engine.book(), engine.ledger());
    let users: Vec<Value> = book
        .users()
        .map(|(user, banks)| {
            let banks: Vec<Value> = banks.map(|(id, association)| bank(engine, id, association)).collect();
            json!({"userid": user.0, "banks": banks})
        })
        .collect();
    let queues: Map<String, Value> =
        book.queues().map(|queue| (queue.name.to_string(), self::queue(queue))).collect();
    let projects: Vec<&str> = book.projects().iter().map(|p| p.as_str()).collect();
    let weights = book.weights();
    let mut factors: Map<String, Value> =
        weights.others.iter().map(|(name, weight)| (name.clone(), json!(weight))).collect();
    factors.insert("fairshare".to_owned(), json!(weights.fairshare));
    factors.insert("queue".to_owned(), json!(weights.queue));
    factors.insert("bank".to_owned(), json!(weights.bank));
    factors.insert("urgency".to_owned(), json!(weights.urgency));
    let banks: Map<String, Value> =
        book.banks().map(|(bank, priority)| (bank.to_string(), json!(priority))).collect();
    let config = book.config();
    let zero_score = match config.zero_score {
        ZeroScore::Hold => "hold",
        ZeroScore::Floor => "floor",
    };
    json!({
        "mf_priority_map": users,
        "queues": queues,
        "projects": projects,
        "generation": book.generation(),
        "factors": factors,
        "banks": banks,
        "config": {"deny_unknown_queues": config.deny_unknown_queues, "zero_score": zero_score},
        "waiting": ledger.waiting().count(),
    })
    .to_string()
}

fn bank(engine: &Engine, id: AssociationId, association: &Association) -> Value {
    let ledger = engine.ledger();
    let usage = ledger.usage(id).cloned().unwrap_or_default();
    let queues: Map<String, Value> = usage
        .queues()
        .map(|(name, tally)| {
            let counts = tally.charged;
            let shown = json!({
                "cur_run_jobs": counts.run_jobs,
                "cur_nodes": counts.run_nodes,
                "cur_sched_jobs": counts.sched_jobs,
                "cur_sched_nodes": counts.sched_nodes,
                "cur_sched_cores": counts.sched_cores,
            });
            (name.to_string(), shown)
        })
        .collect();
    let latest = ledger.latest_queue(id).and_then(|queue| engine.book().queue(queue.as_str()));
    let counts = usage.total.charged;
    json!({
        "bank_name": association.bank.as_str(),
        "fairshare": association.fairshare,
        "max_run_jobs": association.max_running_jobs.0,
        "cur_run_jobs": counts.run_jobs,
        "max_active_jobs": association.max_active_jobs.0,
        "cur_active_jobs": usage.active_jobs,
        "queues": association.queues.iter().map(|q| q.as_str()).collect::<Vec<_>>(),
        "queue_factor": latest.map_or(0, |queue| queue.priority),
        "projects": association.projects.iter().map(|p| p.as_str()).collect::<Vec<_>>(),
        "def_project": association.def_project.as_ref().map_or("", |p| p.as_str()),
        "max_nodes": association.max_nodes.0,
        "max_cores": association.max_cores.0,
        "cur_nodes": counts.run_nodes,
        "cur_cores": counts.run_cores,
        "active": i64::from(association.active),
        "cur_sched_jobs": counts.sched_jobs,
        "max_sched_jobs": association.max_sched_jobs.0,
        "queue_usage": queues,
        "held_jobs": held(engine, id),
    })
}

/// Held jobs. Of a replayed job whose eventlog is not read yet, the limits that it exceeds now are shown.
fn held(engine: &Engine, id: AssociationId) -> Map<String, Value> {
    let ledger = engine.ledger();
    let mut held = Map::new();
    for job_id in ledger.in_depend(id) {
        let Some(job) = ledger.job(job_id) else { continue };
        let deps: Vec<String> = if job.is_unread {
            ledger.exceeded_by(engine.book(), job_id).iter().map(|hold| hold.name().to_owned()).collect()
        } else {
            job.names.iter().map(|name| name.to_string()).collect()
        };
        if deps.is_empty() {
            continue;
        }
        let shown = json!({
            "nnodes": job.size.nodes,
            "ncores": job.size.cores,
            "queue": job.queue.as_ref().map_or("", |q| q.as_str()),
            "deps": deps,
        });
        held.insert(job_id.to_string(), shown);
    }
    held
}

fn queue(queue: &crate::accounts::Queue) -> Value {
    json!({
        "name": queue.name.as_str(),
        "min_nodes_per_job": queue.min_nodes_per_job,
        "max_nodes_per_job": queue.max_nodes_per_job,
        "max_time_per_job": queue.max_time_per_job,
        "priority": queue.priority,
        "max_running_jobs": queue.max_running_jobs.0,
        "max_nodes_per_assoc": queue.max_nodes_per_assoc.0,
        "max_sched_jobs": queue.max_sched_jobs.0,
        "max_sched_nodes_per_assoc": queue.max_sched_nodes_per_assoc.0,
        "max_sched_cores_per_assoc": queue.max_sched_cores_per_assoc.0,
    })
}

/// The answer to `check`.
pub fn check(check: &Check) -> String {
    let drift: Vec<Value> = check
        .drift
        .iter()
        .map(|(user, bank, what)| json!({"userid": user.0, "bank": bank.as_str(), "what": what}))
        .collect();
    json!({
        "jobs": check.jobs,
        "waiting": check.waiting,
        "associations": check.associations,
        "drift": drift,
    })
    .to_string()
}
