// SPDX-License-Identifier: LGPL-3.0-only
//! Where associations stand, as JSON.

use super::show::{put, scope, shares};
use fairshare::Options;
use fairshare_engine::accounts::Target;
use fairshare_engine::engine::LiveOutline;
use fairshare_engine::engine::answers::{
    AssociationStanding, LevelShown, LimitShown, Open, RankShown, Sibling, StandingsPage,
};
use fairshare_engine::ids::QueueName;
use serde_json::{Map, Value, json};

/// A page, into `reply`.
pub fn page(reply: &mut Value, page: &StandingsPage, live: &LiveOutline, public: Open) {
    let options = live.rule.map(|(policy, options)| {
        let settings = options.settings().into_iter().filter(|(name, _)| Options::applies(name, policy));
        settings.map(|(name, value)| (name.to_owned(), json!(value))).collect::<Map<_, _>>()
    });
    put(reply, "options", json!(options));
    put(reply, "public", json!(public.name()));
    put(reply, "half_life", json!(live.half_life));
    put(reply, "refreshed", json!(live.refreshed));
    put(reply, "associations", page.associations.iter().map(association).collect());
    put(reply, "next", json!(page.next.as_ref().map(|(user, bank)| json!([user.0, bank.as_str()]))));
}

fn association(shown: &AssociationStanding) -> Value {
    let known = &shown.association;
    let texts = |names: &mut dyn Iterator<Item = &str>| names.map(|name| json!(name)).collect::<Vec<_>>();
    let [jobs, nodes, cores] = shown.running;
    json!({
        "userid": known.user.0,
        "bank": known.bank.as_str(),
        "default": shown.is_default,
        "active": known.active,
        "removed": shown.is_removed,
        "fairshare": shown.fairshare,
        "usage": shown.usage,
        "queues": texts(&mut known.queues.iter().map(QueueName::as_str)),
        "projects": texts(&mut known.projects.iter().map(|project| project.as_str())),
        "default_project": known.def_project.as_ref().map(|project| project.as_str()),
        "jobs": {
            "active": shown.active_jobs,
            "max_active": known.max_active_jobs.at_most(),
            "held": shown.held,
            "pending": shown.pending,
            "running": jobs,
            "nodes": nodes,
            "cores": cores,
        },
        "limits": shown.limits.iter().map(limit).collect::<Vec<_>>(),
        "rank": shown.rank.map(|rank| self::rank(&rank)),
        "levels": shown.levels.iter().map(level).collect::<Vec<_>>(),
    })
}

fn limit(shown: &LimitShown) -> Value {
    json!({
        "limit": shown.limit,
        "scope": scope(shown.target.as_ref(), shown.queue.as_ref()),
        "name": shown.target.as_ref().map(Target::name),
        "queue": shown.queue.as_ref().map(QueueName::as_str),
        "measure": shown.measure,
        "stage": shown.stage,
        "used": shown.used,
        "reserved": shown.reserved,
        "limit_is": shown.cap,
    })
}

fn rank(rank: &RankShown) -> Value {
    json!({"place": rank.place, "of": rank.of, "before": rank.place.saturating_sub(1), "tied": rank.tied})
}

fn level(shown: &LevelShown) -> Value {
    let mut level = sibling(&shown.node);
    put(&mut level, "worst", json!(shown.is_worst));
    put(&mut level, "even_usage", json!(shown.even_usage));
    put(&mut level, "even_at", json!(shown.even_at));
    put(&mut level, "siblings", shown.siblings.iter().map(sibling).collect());
    put(&mut level, "siblings_total", json!(shown.siblings_total));
    level
}

fn sibling(shown: &Sibling) -> Value {
    let is_user = shown.user.is_some();
    let mut sibling = json!({
        "name": shown.name,
        "kind": if is_user { "user" } else { "bank" },
        "shares": shares(shown.shares),
        "shares_part": shown.shares_part,
        "usage": shown.usage,
        "usage_part": shown.usage_part,
        // JSON has no infinity.
        "value": shown.value.filter(|value| value.is_finite()),
        "infinite": shown.value.is_some_and(f64::is_infinite),
    });
    if let Some(user) = shown.user {
        put(&mut sibling, "userid", json!(user.0));
    }
    sibling
}
