// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that compare the preview of a push with the push itself.

use super::host::Host;
use super::live::{accounts, leaf, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, record};
use crate::accounts::{ChangeCounts, Others, SiteRecords};
use crate::engine::answers::{DefaultBankChange, Move, Preview, PushChanges, RemovedAssociation};
use crate::engine::{Engine, Event, Settings, State};
use crate::ids::{JobId, UserId};
use crate::standing::SitePart;
use fairshare::Policy;
use serde_json::json;
use std::collections::BTreeMap;

fn stage_push(host: &mut Host, accounts: SiteRecords, site: SitePart) {
    host.send_event(Event::PolicyBegin { keeps_config: false });
    host.send_event(Event::PolicyPart(accounts, site));
}

fn list_priorities(host: &Host) -> BTreeMap<JobId, i64> {
    host.jobs.iter().filter_map(|(id, job)| Some((*id, job.priority?))).collect()
}

/// Returns the preview of the staged push, and the priorities before and after the commit.
fn preview_and_commit(host: &mut Host) -> (Preview, BTreeMap<JobId, i64>, BTreeMap<JobId, i64>) {
    let before = list_priorities(host);
    let preview = host.engine.preview(host.now, usize::MAX).unwrap();
    assert_eq!(list_priorities(host), before, "a preview changes nothing");
    // A preview with only one move must have the largest move. Moves are sorted by the change of the position, then by
    // the change of the priority.
    let few = host.engine.preview(host.now, 1).unwrap().moves;
    let far = |job: &Move| (job.place[0].abs_diff(job.place[1]), job.priority[0].abs_diff(job.priority[1]));
    assert_eq!(few.iter().map(far).max(), preview.moves.iter().map(far).max());
    host.send_event(Event::PolicyCommit);
    (preview, before, list_priorities(host))
}

/// Checks a preview of a push against the priorities before and after the push is committed.
fn check_preview(preview: &Preview, before: &BTreeMap<JobId, i64>, after: &BTreeMap<JobId, i64>) {
    for job in &preview.moves {
        assert_eq!([before[&job.id], after[&job.id]], job.priority.map(i64::from), "job {}", job.id);
    }
    let repriced = before.iter().filter(|(id, priority)| after[*id] != **priority).count();
    assert_eq!((preview.pending, preview.repriced), (before.len(), repriced));
    let place = |priorities: &BTreeMap<JobId, i64>, id: JobId| {
        1 + priorities
            .iter()
            .filter(|(other, priority)| (-**priority, **other) < (-priorities[&id], id))
            .count()
    };
    let moved: Vec<JobId> =
        before.keys().copied().filter(|id| place(before, *id) != place(after, *id)).collect();
    let mut listed: Vec<JobId> = preview.moves.iter().map(|job| job.id).collect();
    listed.sort();
    assert_eq!((listed, preview.moved), (moved.clone(), moved.len()));
    for job in &preview.moves {
        assert_eq!(job.place, [place(before, job.id), place(after, job.id)]);
    }
}

#[test]
fn a_preview_without_a_tree_uses_the_pushed_fair_shares() {
    let mut host = Host::new();
    host.send_event(Event::Policy(accounts(), SitePart::default()));
    for user in [7, 8, 7, 8] {
        host.submit(HostJob::new(user).bank("A")).unwrap();
    }
    let mut next_accounts = accounts();
    next_accounts.associations[1].fairshare = 0.9;
    stage_push(&mut host, next_accounts, SitePart::default());
    let (preview, before, after) = preview_and_commit(&mut host);
    check_preview(&preview, &before, &after);
    assert_eq!((preview.repriced, preview.moved), (2, 4));
}

#[test]
fn a_preview_compares_the_jobs_of_one_scheduler_queue() {
    let queues = |parent: Option<&str>| {
        Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), parent.map(Into::into))])
    };
    for (what, event, moved) in [
        ("two queues", queues(None), 0),
        ("a virtual queue", queues(Some("q1")), 2),
        ("one list", Event::OneQueueList(true), 2),
    ] {
        let mut host = Host::new();
        host.send_event(event);
        host.send_event(Event::Policy(accounts(), SitePart::default()));
        for (user, queue) in [(7, "q1"), (8, "q2")] {
            host.submit(HostJob::new(user).bank("A").queue(queue)).unwrap();
        }
        let mut next_accounts = accounts();
        next_accounts.associations[1].fairshare = 0.9;
        stage_push(&mut host, next_accounts, SitePart::default());
        let (preview, before, after) = preview_and_commit(&mut host);
        assert_eq!((preview.repriced, preview.moved), (1, moved), "{what}");
        if moved > 0 {
            check_preview(&preview, &before, &after);
        }
    }
}

#[test]
fn a_preview_applies_the_largest_priority_of_a_parent_queue() {
    let mut host = Host::new();
    host.send_event(Event::ConfiguredQueues(vec![("q1".into(), None), ("q2".into(), Some("q1".into()))]));
    let max_priorities = BTreeMap::from([("q1".into(), 100)]);
    host.send_event(Event::Settings(Settings { max_priorities, ..Settings::default() }));
    host.send_event(Event::Policy(accounts(), SitePart::default()));
    host.submit(HostJob::new(7).bank("A").queue("q2")).unwrap();
    stage_push(&mut host, accounts(), SitePart::default());
    let (preview, before, after) = preview_and_commit(&mut host);
    check_preview(&preview, &before, &after);
    assert_eq!(preview.repriced, 0, "the push changes nothing");
}

#[test]
fn a_preview_of_a_tree_includes_the_usage_of_running_jobs() {
    for policy in Policy::ALL {
        let mut host = make_host_with_live_fairshare(policy);
        let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
        for (user, bank) in [(7, "A"), (8, "A"), (7, "B"), (8, "A")] {
            host.submit(HostJob::new(user).bank(bank)).unwrap();
        }
        host.start_job(running_job);
        host.now += 100.0;
        let mut next = leaves();
        next[1] = leaf(8, "A", 5_000.0, 0.0);
        stage_push(&mut host, accounts(), tree(policy, NOW, next));
        let (preview, mut before, mut after) = preview_and_commit(&mut host);
        before.remove(&running_job);
        after.remove(&running_job);
        check_preview(&preview, &before, &after);
        assert!(preview.moved > 0, "{policy}");
    }
}

#[test]
fn a_preview_names_the_jobs_that_would_be_rejected_and_the_removed_associations() {
    let mut host = Host::new();
    let waiting_job = host.submit(HostJob::new(9).bank("Z")).unwrap();
    let valid_job = host.submit(HostJob::new(7).bank("A")).unwrap();
    stage_push(&mut host, accounts(), SitePart::default());
    let preview = host.engine.preview(host.now, 10).unwrap();
    assert!(
        matches!(preview.rejected.as_slice(), [job] if (job.id, job.user) == (waiting_job, UserId(9))),
        "the job of user 9: {preview:?}"
    );
    host.send_event(Event::PolicyCommit);
    assert!(host.jobs[&valid_job].priority.is_some());
    let mut fewer = accounts();
    fewer.associations = vec![record(association(8, "A"), "A")];
    stage_push(&mut host, fewer, SitePart::default());
    let preview = host.engine.preview(host.now, 10).unwrap();
    assert_eq!(
        preview.removed_with_jobs,
        [RemovedAssociation { user: UserId(7), bank: "A".into(), jobs: 1 }]
    );
}

/// The expected texts are the JSON that earlier versions wrote.
#[test]
fn the_answer_to_a_push_has_the_documented_members() {
    let none = json!({"added": 0, "changed": 0, "removed": 0});
    let mut document = json!({
        "generation": 3, "dry_run": true, "added": 1, "changed": 2, "removed": 3, "unchanged": 4,
        "queues": {"added": 5, "changed": 6, "removed": 7}, "projects": none, "banks": none, "limits": none, "factors": none,
        "config": {"changed": 8},
    });
    let changes: PushChanges = serde_json::from_value(document.clone()).unwrap();
    assert_eq!(serde_json::to_value(changes).unwrap(), document);
    let preview = json!({
        "pending": 2, "repriced": 2, "moved": 1,
        "moves": [{"id": 9, "userid": 7, "bank": "A", "queue": null, "priority": [10, 20], "place": [2, 1]}],
        "rejected": [{"id": 10, "userid": 8, "reason": "no bank"}], "rejected_count": 1,
        "removed_with_jobs": [{"userid": 7, "bank": "B", "jobs": 3}], "removed_with_jobs_count": 1,
    });
    document.as_object_mut().unwrap().extend(preview.as_object().unwrap().clone());
    let preview: Preview = serde_json::from_value(document.clone()).unwrap();
    assert_eq!((preview.changes, preview.moves[0].place), (changes, [2, 1]));
    document["default_banks"] = json!([]);
    assert_eq!(serde_json::to_value(preview).unwrap(), document);
}

/// The answer of an older plugin has fewer kinds of records.
#[test]
fn counts_missing_from_the_push_answer_of_an_older_plugin_are_0() {
    let text = r#"{"generation":3,"added":1,"changed":0,"removed":0,"unchanged":0,"queues":{"added":1}}"#;
    let changes: PushChanges = serde_json::from_str(text).unwrap();
    let others = Others { queues: ChangeCounts { added: 1, ..ChangeCounts::default() }, ..Others::default() };
    assert_eq!((changes.difference.others, changes.is_dry_run), (others, false));
}

/// A job that was accepted before the reload stays in PRIORITY until a push brings its association, so the push does not end it.
#[test]
fn a_preview_rejects_no_job_that_was_accepted_before_a_reload() {
    for is_reload in [true, false] {
        let mut host = Host::new();
        let waiting_job = host.submit(HostJob::new(9).bank("Z")).unwrap();
        host.replay_jobs(is_reload, Engine::with_small_batches());
        stage_push(&mut host, accounts(), SitePart::default());
        assert_eq!(host.engine.preview(host.now, 10).unwrap().rejected, []);
        host.send_event(Event::PolicyCommit);
        assert_eq!((host.state(waiting_job), host.exceptions.len()), (Some(State::Priority), 0));
    }
}

/// A changed default bank does not count as a change of an association.
#[test]
fn a_preview_lists_the_users_whose_default_bank_changes() {
    let mut host = Host::new();
    host.send_event(Event::Policy(accounts(), SitePart::default()));
    let mut next = accounts();
    next.associations.retain(|record| record.association.user != UserId(8));
    next.associations.push(record(association(9, "A"), "A"));
    next.associations
        .iter_mut()
        .filter(|it| it.association.user == UserId(7))
        .for_each(|it| it.def_bank = "B".into());
    stage_push(&mut host, next, SitePart::default());
    let preview = host.engine.preview(host.now, 10).unwrap();
    let change = DefaultBankChange { user: UserId(7), banks: ["A", "B"].map(Into::into) };
    assert_eq!(preview.default_banks, [change], "users 8 and 9 are removed and added");
    assert_eq!(preview.changes.difference.changed, 0);
}

#[test]
fn a_preview_reports_an_invalid_tree() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let mut wrong_tree = tree(Policy::FairTree, NOW, leaves());
    wrong_tree.banks[1].parent = Some("nowhere".into());
    stage_push(&mut host, accounts(), wrong_tree);
    let fault = host.engine.preview(host.now, 10).unwrap_err();
    assert!(fault.contains("nowhere"), "{fault}");
}

/// The preview must use the current settings, and ages and usages at the present time. Otherwise it would show
/// changed priorities.
#[test]
fn a_preview_of_an_unchanged_push_moves_no_job() {
    for (settings, rule) in [
        (Settings { size_weight: 8_000, ..Settings::default() }, None),
        (Settings { age_weight: 8_000, ..Settings::default() }, None),
        (Settings::default(), Some(Policy::Classic)),
    ] {
        let mut host = Host::new();
        host.send_event(Event::Settings(settings));
        let site = |host: &Host| rule.map_or_else(SitePart::default, |rule| tree(rule, host.now, leaves()));
        host.send_event(Event::Policy(accounts(), site(&host)));
        let running_job = host.submit(HostJob::new(7).bank("A")).unwrap();
        for (user, nodes) in [(7, 4), (8, 2), (7, 1)] {
            host.submit(HostJob::new(user).bank("A").size(nodes, nodes)).unwrap();
            host.now += 600.0;
        }
        host.start_job(running_job);
        host.advance_time_and_refresh(300.0);
        host.send_event(Event::Reprioritize);
        let again = site(&host);
        stage_push(&mut host, accounts(), again);
        let (preview, before, after) = preview_and_commit(&mut host);
        assert_eq!((preview.repriced, preview.moved), (0, 0), "{rule:?}: {before:?} {after:?}");
    }
}
