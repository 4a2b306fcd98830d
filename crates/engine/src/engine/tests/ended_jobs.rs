// SPDX-License-Identifier: LGPL-3.0-only
//! Ended jobs: how many are remembered where nothing folds them, and how long one waits for those that job-list knows of.
//! Rules: F11

use super::host::Host;
use super::live::{accounts, leaves, live, tree, usage};
use super::refreshes::{asks, ended, pushed};
use super::site::{HostJob, NOW};
use crate::engine::{Effect, Engine, Event, Settings, Timer};
use crate::ids::{JobId, UserId};
use crate::standing::{Job, RESET};
use fairshare::Policy;
use fairshare::periods::Resources;

fn arms(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::Arm(Timer::Retry)))
}

/// A hundred jobs that end beside so many others: how many are remembered, and what the hundred used.
fn beside(others: u64, settings: Settings) -> (usize, f64) {
    beside_in(live(Policy::Classic), others, settings)
}

fn beside_in(mut host: Host, others: u64, settings: Settings) -> (usize, f64) {
    host.event(Event::Settings(settings));
    for id in 0..others {
        let ran_on = Resources { nodes: 1, cores: 1, gpus: 0 };
        let (user, bank, id) = (UserId(9), "C".into(), JobId(1_000_000 + id));
        let job = Job { id, user, bank, ran_on, start: NOW - 9.0, limit: 0.0 };
        host.engine.standing.ended(&job, NOW).unwrap();
    }
    for _ in 0..100 {
        let id = host.submit(HostJob::new(8).bank("A")).unwrap();
        host.start(id);
        host.now += 9.0;
        host.end(id);
    }
    (host.engine.view().live_snapshot().counts.2, usage(&host, 8, "A"))
}

/// Without refreshes nothing folds them between pushes. And where fair-share is the number that was pushed, the tree still says how
/// usage decays.
#[test]
fn where_no_refresh_folds_them_ended_jobs_are_given_up_as_they_end_and_none_is_lost() {
    let off =
        [Settings { refresh: 0.0, ..Settings::default() }, Settings { live: false, ..Settings::default() }];
    for settings in off {
        let (few, used) = beside(0, settings.clone());
        assert_eq!(few, 100);
        let (many, same) = beside(200_000, settings);
        assert!((200_000..=200_000 + 2 * 16).contains(&many), "{many}");
        assert!((same / used - 1.0).abs() < 1e-9, "{same} {used}");
    }
}

/// Flux carries nothing out of what a policy asks for that is given at load, before the settings are known.
#[test]
fn so_they_are_where_the_tree_came_at_load() {
    let mut host = Host::new();
    host.engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    let (many, _) = beside_in(host, 200_000, Settings { live: false, ..Settings::default() });
    assert!((200_000..=200_000 + 2 * 16).contains(&many), "{many}");
}

/// Twelve times the timer fires without a page before a request is taken for one that nobody answers.
#[test]
fn a_request_that_is_never_answered_is_made_again() {
    let mut engine = Engine::small();
    let first = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    assert!(arms(&first), "without an answer nothing else would come");
    for tried in 1..=12 {
        for fired in 1..12 {
            let effects = engine.handle(NOW, Event::Timer(Timer::Retry));
            assert_eq!((asks(&effects), arms(&effects)), (Vec::new(), true), "{tried} {fired}");
        }
        let effects = engine.handle(NOW, Event::Timer(Timer::Retry));
        let gives_up = effects.iter().any(
            |effect| matches!(effect, Effect::Log(_, text) if text.contains("job-list does not answer")),
        );
        // At once: a page that came while nobody waits would be lost.
        assert_eq!(
            (gives_up, asks(&effects).len(), arms(&effects)),
            match tried {
                12 => (true, 0, false),
                _ => (false, 1, true),
            }
        );
    }
}

/// A page that comes says nothing of the next one.
#[test]
fn an_asking_that_never_comes_to_its_end_is_given_up() {
    let mut engine = pushed(tree(Policy::Classic, NOW, leaves()));
    let page = || (1..=1_000).map(|id| ended(id, NOW - id as f64)).collect::<Vec<_>>();
    for tried in 1..=12 {
        assert_eq!(asks(&engine.handle(NOW, Event::Ended(Some(page())))).len(), 1, "the next page");
        let refused = engine.handle(NOW, Event::Ended(None));
        let gives_up = refused.iter().any(|effect| matches!(effect, Effect::Log(..)));
        assert_eq!(gives_up, tried == 12, "{tried}");
        let next = engine.handle(NOW, Event::Timer(Timer::Retry));
        assert_eq!(asks(&next).len(), usize::from(!gives_up), "{tried}");
    }
}

#[test]
fn a_page_is_an_answer_and_the_next_one_has_its_own_minute() {
    let mut engine = pushed(tree(Policy::Classic, NOW, leaves()));
    for page in 0..3 {
        for _ in 1..12 {
            assert_eq!(asks(&engine.handle(NOW, Event::Timer(Timer::Retry))), []);
        }
        let jobs = (1..=1_000).map(|id| ended(page * 1_000 + id, NOW - (page * 1_000 + id) as f64)).collect();
        let effects = engine.handle(NOW, Event::Ended(Some(jobs)));
        assert_eq!(asks(&effects).len(), 1, "the next page");
    }
    engine.handle(NOW, Event::Ended(Some(Vec::new())));
    let after = engine.handle(NOW, Event::Timer(Timer::Retry));
    assert_eq!((asks(&after), arms(&after)), (Vec::new(), false), "all of it is there");
    assert_eq!(engine.view().live_snapshot().counts.2, 3_000);
}

#[test]
fn no_farther_back_is_asked_than_the_usage_reset_period() {
    let mut site = tree(Policy::Classic, NOW, leaves());
    site.rule.as_mut().unwrap().reset = 5_000.0;
    let mut engine = Engine::small();
    let effects = engine.handle(NOW, Event::Policy(accounts(), site));
    assert_eq!(asks(&effects), [(NOW - 5_000.0, None, 1_000)]);
    let jobs = vec![ended(1, NOW - 4_999.0), ended(2, NOW - 5_001.0)];
    engine.handle(NOW, Event::Ended(Some(jobs)));
    assert_eq!(engine.view().live_snapshot().counts.2, 1, "the other ended farther back than is asked");
    let effects = engine.handle(NOW, Event::Policy(accounts(), tree(Policy::Classic, NOW, leaves())));
    assert_eq!(asks(&effects), [(NOW - RESET, None, 1_000)], "by the period of the last push");
}

/// Which of the ended jobs it is, is known: telling all of them again takes no search.
#[test]
fn what_is_told_again_counts_once_and_to_its_earlier_end() {
    let mut host = live(Policy::Classic);
    for round in 0..3 {
        for id in 1..=60_000_u64 {
            let (user, bank, ran_on) = (UserId(8), "A".into(), Resources { nodes: 1, cores: 1, gpus: 0 });
            let job = Job { id: JobId(id), user, bank, ran_on, start: NOW - 100.0, limit: 0.0 };
            host.engine.standing.ended(&job, NOW - f64::from(round)).unwrap();
        }
    }
    let to_the_first: f64 = usage(&host, 8, "A");
    let of_each = to_the_first / 60_000.0;
    assert!((97.0 * 0.9..98.0).contains(&of_each), "{of_each}");
}
