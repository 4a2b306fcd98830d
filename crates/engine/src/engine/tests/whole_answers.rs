// SPDX-License-Identifier: LGPL-3.0-only
//! Compares whole answers about one site with a file, so that no field of an answer can lose its value. The site has live fair-share,
//! interleave, a budget, a limit on a bank, rules of queues, and a removed association with a job.

use super::host::Host;
use super::live::{leaf, tree};
use super::site::{HostJob, NOW, association, queue, record};
use crate::accounts::{Budget, Cap, ExemptQueues, Scope, SiteLimit, SiteRecords, Target};
use crate::engine::answers::{self, AssociationFilter, JobFilter, Open};
use crate::engine::{Event, Settings};
use crate::ids::{Amount, Limit, Measure, UserId};
use crate::standing::SitePart;
use fairshare::Policy;
use serde_json::{Value, json};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/engine/tests/whole_answers.json");
const HOUR: f64 = 3_600.0;

/// Sends the records of `users` and banks, with a budget of 100 node-hours and a limit on nodes for bank A.
fn push(host: &mut Host, users: &[(u32, &str)]) {
    let budget = Budget {
        target: Target::Bank("A".into()),
        measure: Measure::NodeTime,
        start: NOW as i64,
        end: NOW as i64 + 86_400,
        deposited: 360_000_000,
        spent: 3_600_000,
        rate: 2,
    };
    let limit = SiteLimit {
        target: Target::Bank("A".into()),
        queue: None,
        amount: Amount::parse("run-nodes").unwrap(),
        cap: Cap { limit: Limit(6), is_given: false },
    };
    let records = SiteRecords {
        associations: users.iter().map(|&(user, bank)| record(association(user, bank), bank)).collect(),
        queues: vec![queue("q1"), queue("q2")],
        projects: vec!["*".into()],
        banks: vec![("A".into(), 3.0)],
        parents: ["A", "B"].map(|bank| (bank.into(), "root".into())).into(),
        limits: vec![limit],
        weights: vec![("fairshare".to_owned(), 100_000), ("bank".to_owned(), 10)],
        ..SiteRecords::default()
    };
    let leaves = users.iter().map(|&(user, bank)| leaf(user, bank, f64::from(user), NOW)).collect();
    let site = SitePart { budgets: vec![budget], ..tree(Policy::FairTree, host.now, leaves) };
    host.send_event(Event::Policy(records, site));
}

/// Rounds all numbers to six places, because the last digits depend on the C library.
fn round_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = json!((number.as_f64().unwrap() * 1e6).round() / 1e6);
        }
        Value::Array(values) => values.iter_mut().for_each(round_numbers),
        Value::Object(fields) => fields.values_mut().for_each(round_numbers),
        _ => (),
    }
}

#[test]
fn the_answers_about_a_site_have_all_their_fields() {
    let mut host = Host::new();
    host.send_event(Event::Settings(Settings {
        interleave: true,
        charges: [("q1".into(), 2.0)].into(),
        exempt: ExemptQueues::from([("q2".into(), [Scope::User].into())]),
        max_priorities: [("q2".into(), 70_000)].into(),
        ..Settings::default()
    }));
    push(&mut host, &[(7, "A"), (8, "A"), (7, "B"), (9, "B")]);
    let job = |user, bank, queue, nodes| {
        let job = HostJob::new(user).bank(bank).queue(queue).size(nodes, 2 * nodes).gpus(nodes);
        HostJob { limit: Some(2.0 * HOUR), duration: 2.0 * HOUR, project: Some("*".to_owned()), ..job }
    };
    for (user, bank, nodes) in [(9, "B", 1), (8, "A", 4)] {
        let id = host.submit(job(user, bank, "q1", nodes)).unwrap();
        host.start_job(id);
    }
    let pending = host.submit(job(7, "A", "q2", 1)).unwrap();
    let urgent = host.submit(job(7, "A", "q2", 1)).unwrap();
    let held = host.submit(job(8, "A", "q1", 3).blocked_by("afterany:1")).unwrap();
    push(&mut host, &[(7, "A"), (8, "A"), (7, "B")]);
    host.set_urgency(urgent, 20);
    host.now += HOUR;
    host.advance_time_and_refresh(30.0);
    let view = host.engine.view();
    let heading = || answers::Heading::new(&view, host.now, None);
    let why = |id| answers::why(&view, &Host::facts(id, &host.jobs[&id]), host.now).unwrap();
    let explain = |id| answers::explain_priority(&view, &Host::facts(id, &host.jobs[&id]), host.now).unwrap();
    let wanted =
        AssociationFilter { user: Some(UserId(8)), bank: None, after: None, most: 9, open: Open::All };
    let facts = |job: &HostJob| {
        let facts = Host::facts(crate::ids::JobId(0), job);
        answers::check_job(&view, &facts, 3, Open::All, heading())
    };
    let mut host_without_data = Host::new();
    host_without_data.submit(job(7, "A", "q1", 1)).unwrap();
    let mut found = json!({
        "query before the first push": answers::snapshot(&host_without_data.engine.view()),
        "why of a pending job": why(urgent),
        "why of a held job": why(held),
        "why of a pending job of another user": explain(pending),
        "why of a held job of another user": explain(held),
        "jobs": answers::jobs_page(&view, &JobFilter { most: 9, ..JobFilter::default() }, host.now),
        "query": answers::snapshot(&view),
        "standing": answers::standing(&view, &wanted, Open::All, heading()),
        "stats": answers::stats(&view, heading()),
        "check of an accepted job": facts(&job(7, "A", "q2", 2)),
        "check of a rejected job": facts(&HostJob { project: Some("x".to_owned()), ..job(7, "A", "q3", 7) }),
    });
    round_numbers(&mut found);
    let found = format!("{found:#}\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(FILE, &found).unwrap();
    }
    let wanted = std::fs::read_to_string(FILE).unwrap_or_default();
    let line = std::iter::zip(found.lines(), wanted.lines()).find(|(one, other)| one != other);
    assert!(found == wanted, "UPDATE_GOLDEN=1 rewrites {FILE}; the first line that differs: {line:?}");
}
