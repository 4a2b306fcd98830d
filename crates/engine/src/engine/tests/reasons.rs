// SPDX-License-Identifier: LGPL-3.0-only
//! The reasons that the plugin gives for a posted priority. Each test makes one change, which must be the reason.

use super::host::Host;
use super::live::{accounts, leaf, leaves, make_host_with_live_fairshare, tree};
use super::site::{HostJob, NOW, association, make_record_with_one_job_limit, queue, record};
use super::strict::running_limit_settings;
use super::why::explain_job;
use crate::accounts::{
    ChangeCounts, ConfigChanges, ConfigPatch, Difference, Others, Queue, RunningLimits, SiteRecords,
    ZeroScore,
};
use crate::engine::answers::Note;
use crate::engine::{Engine, Event, Settings};
use crate::ids::{JobId, Limit, Word};
use crate::standing::SitePart;
use fairshare::Policy;
use fairshare::accrual::{HalfLife, Mode};

/// Returns the codes of the reasons for a job's posted priority.
fn reason_codes(host: &Host, id: JobId) -> Vec<Word> {
    list_reasons(host, id).into_iter().map(|note| note.code).collect()
}

fn list_reasons(host: &Host, id: JobId) -> Vec<Note> {
    explain_job(host, id).posted.expect("a priority").reasons
}

fn posted_priority(host: &Host, id: JobId) -> i64 {
    host.jobs[&id].priority.unwrap()
}

/// A host with a running job of user 7, so that the usage of user 7 changes with time, and pending jobs of users 7 and 8.
struct Site {
    host: Host,
    of_7: JobId,
    of_8: JobId,
}

impl Site {
    fn new() -> Site {
        let mut host = make_host_with_live_fairshare(Policy::Classic);
        let [running_job, of_7, of_8] =
            [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A").queue("q1")).unwrap());
        host.start_job(running_job);
        host.engine.post_stale();
        host.advance_time_and_refresh(30.0);
        let site = Site { host, of_7, of_8 };
        assert_eq!(reason_codes(&site.host, of_7), ["usage"]);
        site
    }

    /// Sends a push with a change. Checks that each job whose priority changed has the reasons `wanted`, and returns the number of these
    /// jobs.
    fn push(&mut self, change: impl FnOnce(&mut SiteRecords, &mut SitePart), wanted: &[&str]) -> usize {
        let before = [self.of_7, self.of_8].map(|id| (id, posted_priority(&self.host, id)));
        let (mut accounts, mut site) = (accounts(), tree(Policy::Classic, NOW, leaves()));
        change(&mut accounts, &mut site);
        self.host.now += 1.0;
        self.host.send_event(Event::Policy(accounts, site));
        self.host.run_until_idle();
        self.host.advance_time_and_refresh(30.0);
        let moved = before.into_iter().filter(|(id, before)| posted_priority(&self.host, *id) != *before);
        let moved: Vec<JobId> = moved.map(|(id, _)| id).collect();
        for id in &moved {
            assert_eq!(reason_codes(&self.host, *id), wanted, "job {id}");
        }
        moved.len()
    }
}

#[test]
fn the_reason_names_the_kind_of_change_of_a_push() {
    let q1 = |priority: i64| Queue { priority, ..queue("q1") };
    assert_eq!(
        Site::new().push(|accounts, _| accounts.queues = vec![q1(7), queue("q2")], &["queue-priority"]),
        2
    );
    let weights = vec![("fairshare".to_owned(), 90_000)];
    assert_eq!(Site::new().push(|accounts, _| accounts.weights = weights, &["weight"]), 2);
    let banks = |accounts: &mut SiteRecords, _: &mut SitePart| {
        accounts.weights.push(("bank".to_owned(), 10));
        accounts.banks = vec![("A".into(), 5.0)];
    };
    assert_eq!(Site::new().push(banks, &["weight", "bank-priority"]), 2);
    let shares = |_: &mut SiteRecords, site: &mut SitePart| site.associations[0].shares = 1000;
    assert!(Site::new().push(shares, &["shares"]) > 0);
    let of_bank = |_: &mut SiteRecords, site: &mut SitePart| site.banks[2].shares = 50;
    let moved = Site::new().push(of_bank, &["shares"]);
    assert!(moved > 0);
    let policy = |_: &mut SiteRecords, site: &mut SitePart| {
        if let Some(rule) = &mut site.rule {
            rule.policy = Policy::FairTree;
        }
    };
    assert_eq!(Site::new().push(policy, &["policy"]), 2);
    let members = |accounts: &mut SiteRecords, site: &mut SitePart| {
        accounts.associations.push(record(association(9, "A"), "A"));
        site.associations.push(leaf(9, "A", 0.0, 0.0));
    };
    assert!(Site::new().push(members, &["members"]) > 0);
}

#[test]
fn the_reason_of_a_new_priority_names_all_changes_of_a_push() {
    let mut site = Site::new();
    let change = |accounts: &mut SiteRecords, site: &mut SitePart| {
        let changed = Queue { priority: 3, ..queue("q1") };
        accounts.queues = vec![changed, queue("q2")];
        accounts.weights.push(("queue".to_owned(), 77));
        site.banks[2].shares = 50;
    };
    let moved = site.push(change, &["weight", "queue-priority", "shares"]);
    assert!(moved > 0);
    let answer = list_reasons(&site.host, site.of_7);
    assert_eq!(answer[0].text, "a push changed the weight of factor queue");
    assert_eq!(answer[1].text, "a push changed the priority of queue q1");
}

#[test]
fn a_later_refresh_gives_usage_not_shares_as_the_priority_reason() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let [running_job, of_7, of_8] = [7, 7, 8].map(|user| host.submit(HostJob::new(user).bank("A")).unwrap());
    // The push changes shares in bank B, which has no pending jobs. Fair-shares in bank A do not change.
    let mut site = tree(Policy::Classic, host.now, leaves());
    host.send_event(Event::Policy(accounts(), site.clone()));
    host.run_until_idle();
    let before = posted_priority(&host, of_8);
    site.associations[2].shares = 9;
    host.send_event(Event::Policy(accounts(), site));
    host.run_until_idle();
    assert_eq!(posted_priority(&host, of_8), before);
    host.start_job(running_job);
    host.advance_time_and_refresh(30.0);
    assert!(posted_priority(&host, of_7) < before);
    assert_eq!(reason_codes(&host, of_7), ["usage"]);
}

/// The second push changes a weight and a value of a term, but not their product.
#[test]
fn a_push_that_leaves_a_priority_equal_keeps_the_reason_and_the_time_of_this_priority() {
    let mut site = Site::new();
    let mut push = |weight: i64, bank_priority: f64| {
        site.host.now += 1.0;
        let mut pushed = accounts();
        pushed.weights.push(("bank".to_owned(), weight));
        pushed.banks = vec![("A".into(), bank_priority)];
        site.host.send_event(Event::Policy(pushed, tree(Policy::Classic, NOW, leaves())));
        site.host.run_until_idle();
        let when = site.host.engine.view().priorities_of(site.of_8).unwrap().noted.when;
        (posted_priority(&site.host, site.of_8), reason_codes(&site.host, site.of_8), when)
    };
    let first = push(10, 5.0);
    assert_eq!(first.1, ["weight", "bank-priority"]);
    assert_eq!(push(5, 10.0), first);
}

#[test]
fn a_push_without_changes_keeps_the_reason_of_each_posted_priority() {
    let mut site = Site::new();
    let when = site.host.engine.view().priorities_of(site.of_7).unwrap().noted.when;
    let number = posted_priority(&site.host, site.of_7);
    site.host.now += 1.0;
    site.host.send_event(Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    site.host.run_until_idle();
    assert_eq!(posted_priority(&site.host, site.of_7), number);
    let priorities = site.host.engine.view().priorities_of(site.of_7).unwrap();
    assert_eq!((reason_codes(&site.host, site.of_7), priorities.noted.when), (vec!["usage".into()], when));
}

#[test]
fn the_reason_names_a_users_change_of_a_job() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let id = host.submit(HostJob::new(7).bank("A").queue("q1")).unwrap();
    assert_eq!(reason_codes(&host, id), ["submitted"]);
    host.set_urgency(id, 20);
    let answer = list_reasons(&host, id);
    assert_eq!((answer.len(), answer[0].text.as_str()), (1, "the job's urgency was changed from 16 to 20"));
    host.update_job(id, Some("q2"), None).unwrap();
    host.run_until_idle();
    assert_eq!(reason_codes(&host, id), ["jobspec"]);
    host.update_job(id, None, Some("B")).unwrap();
    host.run_until_idle();
    assert_eq!(reason_codes(&host, id), ["jobspec"]);
    for (urgency, former) in [(0, 20), (31, 0), (16, 31)] {
        host.set_urgency(id, urgency);
        let answer = list_reasons(&host, id);
        let text = format!("the job's urgency was changed from {former} to {urgency}");
        assert_eq!((answer.len(), answer[0].text.as_str()), (1, text.as_str()));
    }
}

#[test]
fn the_reason_of_a_first_priority_says_what_caused_it() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let id = host.submit(HostJob::new(7).bank("A")).unwrap();
    for is_reload in [true, false] {
        let mut engine = Engine::with_small_batches();
        engine.handle(host.now, Event::Policy(accounts(), tree(Policy::FairTree, NOW, leaves())));
        host.replay_jobs(is_reload, engine);
        host.run_until_idle();
        assert_eq!(reason_codes(&host, id), ["loaded"], "reload: {is_reload}");
    }
    let mut bare_host = Host::new();
    let waits = bare_host.submit(HostJob::new(7).bank("A")).unwrap();
    bare_host.send_event(Event::Policy(accounts(), SitePart::default()));
    bare_host.run_until_idle();
    assert_eq!(reason_codes(&bare_host, waits), ["data"]);
}

#[test]
fn the_reason_names_the_pushed_fair_share_if_live_mode_is_off() {
    let mut host = Host::new();
    host.send_event(Event::Policy(accounts(), SitePart::default()));
    let id = host.submit(HostJob::new(7).bank("A").queue("q1")).unwrap();
    let mut changed_accounts = accounts();
    changed_accounts.associations[0].fairshare = 0.25;
    host.send_event(Event::Policy(changed_accounts.clone(), SitePart::default()));
    host.run_until_idle();
    assert_eq!(reason_codes(&host, id), ["fairshare"]);
    assert_eq!(list_reasons(&host, id)[0].text, "a push changed the fair-share of its user in bank A");
    // A push by flux-accounting's methods sends each list in its own request.
    host.push_weights(vec![("fairshare".to_owned(), 1_000)]);
    host.run_until_idle();
    assert_eq!(reason_codes(&host, id), ["weight"]);
    let own_queue = Queue { priority: 3, ..queue("q1") };
    changed_accounts.queues = vec![own_queue.clone()];
    host.send_event(Event::Queues(vec![own_queue]));
    host.send_event(Event::Reprioritize);
    host.run_until_idle();
    assert_eq!(reason_codes(&host, id), ["queue-priority"]);
    changed_accounts.weights = vec![("fairshare".to_owned(), -1), ("queue".to_owned(), 0)];
    host.send_event(Event::Policy(changed_accounts.clone(), SitePart::default()));
    host.run_until_idle();
    assert_eq!((reason_codes(&host, id), posted_priority(&host, id)), (vec!["weight".into()], 0));
    changed_accounts.config.zero_score = Some(ZeroScore::Floor);
    host.send_event(Event::Policy(changed_accounts, SitePart::default()));
    host.run_until_idle();
    assert_eq!((reason_codes(&host, id), posted_priority(&host, id)), (vec!["zero-score".into()], 1));
    host.send_event(Event::Config(ConfigPatch {
        zero_score: Some(ZeroScore::Hold),
        deny_unknown_queues: None,
    }));
    host.send_event(Event::Reprioritize);
    host.run_until_idle();
    assert_eq!(reason_codes(&host, id), ["zero-score"]);
}

#[test]
fn the_reason_names_settings_that_change_priorities() {
    let mut host = make_host_with_live_fairshare(Policy::FairTree);
    let id = host.submit(HostJob::new(7).bank("A")).unwrap();
    host.send_event(Event::Settings(Settings::default()));
    let set = |host: &mut Host, settings: Settings| {
        host.send_event(Event::Settings(settings));
        host.run_until_idle();
        host.advance_time_and_refresh(30.0);
    };
    set(&mut host, Settings { live: false, ..Settings::default() });
    assert_eq!(reason_codes(&host, id), ["live"]);
    set(&mut host, Settings::default());
    assert_eq!(reason_codes(&host, id), ["live"]);
    host.now += 3600.0;
    set(&mut host, Settings { age_weight: 1_000_000, ..Settings::default() });
    assert_eq!(reason_codes(&host, id), ["weight"]);
    assert_eq!(
        list_reasons(&host, id)[0].text,
        "a push or the configuration changed the weight of factor age"
    );
    set(&mut host, Settings { size_weight: 1_000_000, age_weight: 0, ..Settings::default() });
    assert_eq!(reason_codes(&host, id), ["weight"]);
    let running_job =
        host.submit(HostJob { limit: Some(500.0), duration: 500.0, ..HostJob::new(7).bank("A") }).unwrap();
    host.submit(HostJob::new(8).bank("A")).unwrap();
    host.start_job(running_job);
    host.send_event(Event::Policy(accounts(), tree(Policy::Classic, host.now, leaves())));
    host.run_until_idle();
    let size = Settings { size_weight: 1_000_000, ..Settings::default() };
    set(&mut host, Settings { accrual: Mode::Committed, ..size });
    assert_eq!(reason_codes(&host, id), ["accounting"]);
}

/// Running limits are strict. When the urgency of the job rises from 0, another job runs, so the job is held
/// until the other job ends.
#[test]
fn a_job_that_was_held_twice_reports_the_priority_reason_released() {
    let mut host = Host::with_data(vec![make_record_with_one_job_limit(7, "A")], vec![queue("q1")]);
    host.send_event(Event::Settings(running_limit_settings(RunningLimits::Strict, &[])));
    let at_urgency_0_job = host.submit(HostJob::new(7)).unwrap();
    host.set_urgency(at_urgency_0_job, 0);
    let next_job = host.run_new_job(HostJob::new(7));
    host.set_urgency(at_urgency_0_job, 16);
    host.run_until_idle();
    assert!(host.engine.view().is_held(at_urgency_0_job));
    host.end_job(next_job);
    host.run_until_idle();
    assert!(!host.engine.view().is_held(at_urgency_0_job));
    assert_eq!(reason_codes(&host, at_urgency_0_job), ["released"]);
}

#[test]
fn a_priority_explanation_names_the_last_change_that_was_not_usage() {
    let mut site = Site::new();
    site.push(|_, site| site.associations[0].shares = 1000, &["shares"]);
    let shares = site.host.engine.view().priorities_of(site.of_7).unwrap().noted.when;
    let running_job = site.host.submit(HostJob::new(8).bank("A")).unwrap();
    site.host.start_job(running_job);
    for seconds in [300.0, 600.0] {
        site.host.engine.post_stale();
        site.host.advance_time_and_refresh(seconds);
        let answer = explain_job(&site.host, site.of_7);
        let posted = answer.posted.unwrap();
        let before = posted.before.unwrap();
        assert_eq!(
            (posted.reasons[0].code.as_ref(), before.reason.code.as_ref(), before.when),
            ("usage", "shares", shares)
        );
    }
}

/// The dry run must report the same numbers as the push. A record that differs in two fields counts once.
#[test]
fn a_push_counts_each_record_that_it_changes_by_kind() {
    type Action = fn(&mut SiteRecords, &mut SitePart);
    let counts = |added, changed, removed| ChangeCounts { added, changed, removed };
    let none = Others::default();
    let rows: &[(&str, Action, [usize; 2], Others)] = &[
        ("nothing", |_, _| {}, [0, 3], none),
        ("usage", |_, site| site.associations[0].usage = Some(9.0), [0, 3], none),
        ("a user's shares", |_, site| site.associations[0].shares = 9, [1, 2], none),
        (
            "a user's shares and limits",
            |accounts, site| {
                site.associations[0].shares = 9;
                accounts.associations[0].association.max_nodes = Limit(3);
            },
            [1, 2],
            none,
        ),
        ("a fair-share", |accounts, _| accounts.associations[1].fairshare = 0.1, [1, 2], none),
        (
            "a bank's shares and priority",
            |accounts, site| {
                site.banks[1].shares = 9;
                accounts.banks[0].1 = 4.0;
            },
            [0, 3],
            Others { banks: counts(0, 1, 0), ..none },
        ),
        (
            "a bank's place",
            |_, site| site.banks[1].parent = Some("B".into()),
            [0, 3],
            Others { banks: counts(0, 1, 0), ..none },
        ),
        (
            "a queue, one more and one less",
            |accounts, _| {
                accounts.queues[0].priority = 4;
                accounts.queues[1].name = "q3".into();
            },
            [0, 3],
            Others { queues: counts(1, 1, 1), ..none },
        ),
        (
            "weights",
            |accounts, _| accounts.weights = vec![("fairshare".to_owned(), 1), ("bank".to_owned(), 2)],
            [0, 3],
            Others { factors: counts(1, 1, 0), ..none },
        ),
        (
            "a project",
            |accounts, _| accounts.projects.push("chem".into()),
            [0, 3],
            Others { projects: counts(1, 0, 0), ..none },
        ),
        (
            "a switch, the ranking policy and the half-life",
            |accounts, site| {
                accounts.config.zero_score = Some(ZeroScore::Floor);
                if let Some(rule) = &mut site.rule {
                    (rule.policy, rule.half_life) = (Policy::FairTree, HalfLife::new(5.0).unwrap());
                }
            },
            [0, 3],
            Others { config: ConfigChanges { changed: 3 }, ..none },
        ),
    ];
    for (what, act, [changed, unchanged], others) in rows {
        let mut host = Host::new();
        let base = || {
            let banks =
                [("root", 0.0), ("A", 1.0), ("B", 1.0)].map(|(bank, priority)| (bank.into(), priority));
            let associations = leaves();
            (SiteRecords { banks: banks.into(), ..accounts() }, tree(Policy::Classic, NOW, associations))
        };
        let (before, site) = base();
        host.send_event(Event::Policy(before, site));
        let (mut next, mut site) = base();
        // The order of the banks also changes. Records are compared by name, so this must not count as a change.
        next.banks.swap(0, 1);
        act(&mut next, &mut site);
        let wanted =
            Difference { changed: *changed, unchanged: *unchanged, others: *others, ..Difference::default() };
        assert_eq!(host.engine.difference(next.clone(), site.clone()), Ok(wanted), "{what}, without effect");
        host.send_event(Event::Policy(next, site));
        assert_eq!(host.engine.view().last_difference(), wanted, "{what}");
    }
}
