// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of ended jobs: how many ended jobs the engine stores without refreshes, and how long the engine waits for
//! job-list.
//! Rules: F11

use super::host::Host;
use super::live::{accounts, leaves, make_host_with_live_fairshare, tree, usage};
use super::refreshes::{ended_job, make_engine_with_tree, page_requests};
use super::site::{HostJob, NOW};
use crate::engine::{Effect, Engine, Event, Settings, Timer, has_unsaved_jobs};
use crate::ids::{JobId, UserId};
use crate::standing::{Job, RESET};
use fairshare::Policy;
use fairshare::periods::Resources;

fn has_retry_timer_effect(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry)))
}

/// Ends 100 jobs while the engine stores `others` ended jobs. Returns the number of ended jobs that the
/// engine stores then, and the usage of the 100 jobs.
fn end_jobs(others: u64, settings: Settings) -> (usize, f64) {
    end_jobs_on_host(make_host_with_live_fairshare(Policy::Classic), others, settings)
}

fn end_jobs_on_host(mut host: Host, others: u64, settings: Settings) -> (usize, f64) {
    host.send_event(Event::Settings(settings));
    for id in 0..others {
        let ran_on = Resources { nodes: 1, cores: 1, gpus: 0 };
        let (user, bank, id) = (UserId(9), "C".into(), JobId(1_000_000 + id));
        let job = Job { id, user, bank, queue: None, ran_on, start: NOW - 9.0, limit: 0.0 };
        host.engine.standing.usages.track_end(&job, NOW).unwrap();
    }
    for _ in 0..100 {
        let id = host.run_new_job(HostJob::new(8).bank("A"));
        host.now += 9.0;
        host.end_job(id);
    }
    (host.engine.view().get_live_fairshare_details().ended, usage(&host, 8, "A"))
}

/// Only refreshes fold ended jobs into usage between pushes. Without them, the number of stored jobs would grow without a limit.
#[test]
fn without_refreshes_the_engine_stores_at_most_200_000_ended_jobs() {
    let off =
        [Settings { refresh: 0.0, ..Settings::default() }, Settings { live: false, ..Settings::default() }];
    for settings in off {
        let (few, used) = end_jobs(0, settings.clone());
        assert_eq!(few, 100);
        let (many, same) = end_jobs(200_000, settings);
        assert!((200_000..=200_000 + 2 * 16).contains(&many), "{many}");
        assert!((same / used - 1.0).abs() < 1e-9, "{same} {used}");
    }
}

/// The plugin passes the tree to the engine before the settings. The limit on stored ended jobs must still apply.
#[test]
fn stored_ended_jobs_are_bounded_if_the_tree_arrives_before_the_settings() {
    let mut host = Host::new();
    host.engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    let (many, _) = end_jobs_on_host(host, 200_000, Settings { live: false, ..Settings::default() });
    assert!((200_000..=200_000 + 2 * 16).contains(&many), "{many}");
}

/// The engine waits for 12 timer events for each page. After 12 requests without an answer, it logs that job-list does not answer.
#[test]
fn an_unanswered_request_is_repeated_until_12_are_unanswered() {
    let mut engine = Engine::with_small_batches();
    let first_effects = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    assert!(has_retry_timer_effect(&first_effects), "only the timer can repeat an unanswered request");
    for tried in 1..=12 {
        for fired in 1..12 {
            let effects = engine.handle(NOW, Event::Timer(Timer::Retry));
            assert_eq!(
                (page_requests(&effects), has_retry_timer_effect(&effects)),
                (Vec::new(), true),
                "{tried} {fired}"
            );
        }
        let effects = engine.handle(NOW, Event::Timer(Timer::Retry));
        let gives_up = effects.iter().any(
            |effect| matches!(effect, Effect::Log(_, text) if text.contains("job-list does not answer")),
        );
        // The engine ignores a page if no request is pending, so it sends the next request at once.
        assert_eq!(
            (gives_up, page_requests(&effects).len(), has_retry_timer_effect(&effects)),
            match tried {
                12 => (true, 0, false),
                _ => (false, 1, true),
            }
        );
    }
}

/// Each query receives its first page of ended jobs, but no second page. A received page must not reset the number of
/// failed queries.
#[test]
fn a_query_of_ended_jobs_that_never_completes_is_given_up() {
    let mut engine = make_engine_with_tree(tree(Policy::Classic, NOW, leaves()));
    let page = || (1..=1_000).map(|id| ended_job(id, NOW - id as f64)).collect::<Vec<_>>();
    for tried in 1..=12 {
        assert_eq!(page_requests(&engine.handle(NOW, Event::Ended(Some(page())))).len(), 1, "the next page");
        let refused = engine.handle(NOW, Event::Ended(None));
        let gives_up = refused.iter().any(|effect| matches!(effect, Effect::Log(..)));
        assert_eq!(gives_up, tried == 12, "{tried}");
        let next_effects = engine.handle(NOW, Event::Timer(Timer::Retry));
        assert_eq!(page_requests(&next_effects).len(), usize::from(!gives_up), "{tried}");
    }
}

#[test]
fn each_page_of_ended_jobs_has_its_own_timeout_of_a_minute() {
    let mut engine = make_engine_with_tree(tree(Policy::Classic, NOW, leaves()));
    for page in 0..3 {
        for _ in 1..12 {
            assert_eq!(page_requests(&engine.handle(NOW, Event::Timer(Timer::Retry))), []);
        }
        let jobs =
            (1..=1_000).map(|id| ended_job(page * 1_000 + id, NOW - (page * 1_000 + id) as f64)).collect();
        let effects = engine.handle(NOW, Event::Ended(Some(jobs)));
        assert_eq!(page_requests(&effects).len(), 1, "the next page");
    }
    engine.handle(NOW, Event::Ended(Some(Vec::new())));
    let after_effects = engine.handle(NOW, Event::Timer(Timer::Retry));
    assert_eq!(
        (page_requests(&after_effects), has_retry_timer_effect(&after_effects)),
        (Vec::new(), false),
        "all pages have come"
    );
    assert_eq!(engine.view().get_live_fairshare_details().ended, 3_000);
}

#[test]
fn the_query_of_ended_jobs_goes_back_by_the_usage_reset_period_at_most() {
    let mut site = tree(Policy::Classic, NOW, leaves());
    site.rule.as_mut().unwrap().reset = 5_000.0;
    let mut engine = Engine::with_small_batches();
    let effects = engine.handle(NOW, Event::Policy(accounts(), site));
    assert_eq!(page_requests(&effects), [(NOW - 5_000.0, None, 1_000)]);
    let jobs = vec![ended_job(1, NOW - 4_999.0), ended_job(2, NOW - 5_001.0)];
    engine.handle(NOW, Event::Ended(Some(jobs)));
    assert_eq!(
        engine.view().get_live_fairshare_details().ended,
        1,
        "the other job ended before the requested time"
    );
    let effects = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    assert_eq!(page_requests(&effects), [(NOW - RESET, None, 1_000)], "by the period of the last push");
}

/// Flux may purge the jobs before the next push and before the next load of the plugin.
#[test]
fn ended_jobs_from_job_list_are_written_to_the_snapshot() {
    let site = || tree(Policy::Classic, NOW, leaves());
    let mut engine = make_engine_with_tree(site());
    let list_job = |engine: &mut Engine| {
        engine.ended.restart_query();
        engine.handle(NOW, Event::Policy(accounts(), site()));
        engine.unsaved_ended().clear();
        engine.handle(NOW, Event::Ended(Some(vec![ended_job(1, NOW - 9.0)])));
        has_unsaved_jobs(&engine.view(), 1)
    };
    assert!(list_job(&mut engine));
    assert!(!list_job(&mut engine), "the job is known");
}

/// job-list and the snapshot may report the same job. Of two reported ends, the earlier one counts.
#[test]
fn only_the_earlier_of_two_reported_ends_of_a_job_counts() {
    let mut host = make_host_with_live_fairshare(Policy::Classic);
    for round in 0..3 {
        for id in 1..=60_000_u64 {
            let (user, bank, ran_on) = (UserId(8), "A".into(), Resources { nodes: 1, cores: 1, gpus: 0 });
            let job = Job { id: JobId(id), user, bank, queue: None, ran_on, start: NOW - 100.0, limit: 0.0 };
            host.engine.standing.usages.track_end(&job, NOW - f64::from(round)).unwrap();
        }
    }
    let usage_of_each = usage(&host, 8, "A") / 60_000.0;
    assert!((97.0 * 0.9..98.0).contains(&usage_of_each), "{usage_of_each}");
}
