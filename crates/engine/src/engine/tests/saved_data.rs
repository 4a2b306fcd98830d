// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the data that the snapshot stores: the associations of a push with their fair-shares, and ended jobs. The
//! snapshot must not store the data of an aborted push.
//! Rules: D18

use super::host::Host;
use super::live::{accounts, leaf, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, record};
use crate::accounts::{AssociationRecord, SiteRecords};
use crate::engine::{Event, Settings};
use crate::ids::{JobId, UserId};
use crate::standing::{Ended, EvictedUsage, Job, Watermark};
use fairshare::Policy;
use fairshare::periods::Resources;

/// The snapshot stores a fair-share only if it differs from the one that the tree gives.
#[test]
fn a_fair_share_equal_to_that_of_the_tree_is_marked_as_computed() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let given = crate::engine::as_pushed(&host.engine.view()).expect("there is a tree");
    let marks = |host: &super::host::Host| -> Vec<(u32, bool)> {
        let kept = crate::engine::associations_page(&host.engine.view(), None, 10, Some(&given)).into_iter();
        kept.map(|kept| (kept.record.association.user.0, kept.is_computed)).collect()
    };
    // The pushed fair-share is 0.5 for all associations.
    let by_tree = |user: u32, bank: &str| {
        host.engine
            .standing
            .get_pushed_fairshare(&given, UserId(user), &bank.into())
            .expect("it is in the tree")
    };
    let of = [(7, "A"), (8, "A"), (7, "B")].map(|(user, bank)| (user, bank, by_tree(user, bank)));
    for (user, bank, fairshare) in of {
        let live =
            host.engine.book().find(UserId(user), Some(bank)).and_then(|it| host.engine.view().fairshare(it));
        assert_eq!(Some(fairshare), live, "{user} in {bank}");
    }
    let wanted: Vec<(u32, bool)> = {
        let mut all: Vec<_> = of.iter().map(|(user, bank, is)| (*user, *bank, *is == 0.5)).collect();
        all.sort_unstable();
        all.into_iter().map(|(user, _, is)| (user, is)).collect()
    };
    assert_eq!(marks(&host), wanted);
    let records = of.map(|(user, bank, fairshare)| AssociationRecord {
        fairshare,
        ..record(association(user, bank), "A")
    });
    host.send_event(Event::Associations(records.to_vec()));
    assert_eq!(marks(&host), [(7, true), (7, true), (8, true)]);
    assert!(
        crate::engine::associations_page(&host.engine.view(), None, 10, None)
            .iter()
            .all(|kept| !kept.is_computed),
        "without a tree, no fair-share is marked"
    );
}

#[test]
fn an_aborted_push_leaves_no_associations() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let before = host.engine.standing.usages.counts();
    let mut more = leaves();
    more.push(leaf(9, "B", 5.0, 0.0));
    let part = || SiteRecords { associations: accounts().associations, ..SiteRecords::default() };
    for gives_up in [Event::PolicyAbort, Event::PolicyBegin { keeps_config: false }] {
        host.send_event(Event::PolicyBegin { keeps_config: false });
        host.send_event(Event::PolicyPart(part(), tree(Policy::FairTree, NOW, more.clone())));
        assert_ne!(host.engine.standing.usages.counts(), before, "each part adds its associations");
        host.send_event(gives_up);
        assert_eq!(host.engine.standing.usages.counts(), before);
    }
}

/// A push in one message replaces the staged push.
#[test]
fn a_replaced_staged_push_leaves_no_associations() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let before = host.engine.standing.usages.counts();
    let mut more = leaves();
    more.push(leaf(9, "B", 5.0, 0.0));
    host.send_event(Event::PolicyBegin { keeps_config: false });
    host.send_event(Event::PolicyPart(SiteRecords::default(), tree(Policy::FairTree, NOW, more)));
    assert_ne!(host.engine.standing.usages.counts(), before);
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert!(host.engine.staged_push.is_tree_empty());
    assert_eq!(host.engine.standing.usages.counts(), before);
}

fn ended_job(id: u64) -> Job {
    let ran_on = Resources { nodes: 1, cores: 1, gpus: 0 };
    Job { id: JobId(id), user: UserId(7), bank: "A".into(), queue: None, ran_on, start: NOW, limit: 0.0 }
}

/// `take` returns each ended job once. It returns `None` if more jobs have ended than the engine stores.
#[test]
fn an_ended_job_is_kept_until_the_snapshot_has_taken_it() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    assert!(!crate::engine::has_unsaved_jobs(&host.engine.view(), 1));
    for _ in 0..3 {
        let id = host.run_new_job(HostJob::new(7));
        host.end_job(id);
    }
    assert!(crate::engine::has_unsaved_jobs(&host.engine.view(), 1));
    let take = |host: &mut Host, most| host.engine.unsaved_ended().take(most).map(|ended| ended.len());
    assert_eq!([2, 9, 9].map(|most| take(&mut host, most)), [Some(2), Some(1), Some(0)]);
    assert!(!crate::engine::has_unsaved_jobs(&host.engine.view(), 1));
    for (jobs, is_too_many) in [(20_000, false), (20_001, true)] {
        (0..jobs).for_each(|id| host.engine.unsaved_ended().store_ended_job(ended_job(id), NOW));
        assert!(crate::engine::has_unsaved_jobs(&host.engine.view(), 1));
        assert_eq!(host.engine.unsaved_ended().take(1).is_none(), is_too_many, "{jobs}");
        host.engine.unsaved_ended().clear();
        assert!(!crate::engine::has_unsaved_jobs(&host.engine.view(), 1));
    }
    host.send_event(Event::Settings(Settings { remember: false, ..Settings::default() }));
    let id = host.run_new_job(HostJob::new(7));
    host.end_job(id);
    assert!(!crate::engine::has_unsaved_jobs(&host.engine.view(), 1), "the snapshot is turned off");
    let mut host = Host::new();
    host.engine.unsaved_ended().store_ended_job(ended_job(1), NOW);
    assert!(!crate::engine::has_unsaved_jobs(&host.engine.view(), 1), "there is no tree yet");
    host.send_event(Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
    assert!(crate::engine::has_unsaved_jobs(&host.engine.view(), 1), "the job ended before there was a tree");
}

#[test]
fn an_ended_job_from_the_snapshot_counts_and_an_invalid_job_is_logged() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let valid = Ended { job: ended_job(1), end: NOW + 50.0 };
    let invalid = Ended { job: Job { start: f64::NAN, ..ended_job(2) }, end: NOW };
    host.send_event(Event::Recalled(vec![valid.clone(), invalid], Vec::new()));
    assert_eq!(host.logged.len(), 1, "{:?}", host.logged);
    assert_eq!(
        crate::engine::uncovered(&host.engine.view(), Default::default(), 9),
        (vec![valid], Vec::new(), None)
    );
    assert_eq!(
        crate::engine::uncovered(&Host::new().engine.view(), Default::default(), 9),
        (Vec::new(), Vec::new(), None)
    );
    let evicted = |sum| EvictedUsage {
        user: UserId(7),
        bank: "A".into(),
        sum,
        since: NOW,
        horizon: NOW,
        pushed: 0.0,
        at: NOW,
        counted: Watermark::default(),
    };
    for (sum, logged) in [(5.0, 1), (-5.0, 2)] {
        host.send_event(Event::Recalled(Vec::new(), vec![evicted(sum)]));
        assert_eq!(host.logged.len(), logged, "{:?}", host.logged);
    }
}
