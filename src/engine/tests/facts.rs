// SPDX-License-Identifier: LGPL-3.0-only
//! What a job was given is kept beside what it counts as; times are those of the events.

use super::examples::{exact, site, submit};
use super::host::Host;
use super::site::{HostJob, NOW, OWNER, association, record};
use crate::engine::{Effect, Engine, Event};
use crate::ids::{JobId, Limit};
use crate::limits::{Allocation, Resources};

fn given(host: &Host, id: JobId) -> Option<Allocation> {
    host.engine.ledger().job(id).and_then(|job| job.allocation.as_deref().copied())
}

const MORE: Allocation =
    Allocation { nodes: 4, cores: 64, gpus: 8, start: Some(NOW), expiration: Some(NOW + 60.0) };

#[test]
fn a_job_that_got_more_than_it_asked_for_counts_what_it_asked_for() {
    let mut host = site(|a| a.max_nodes = Limit(2));
    let id = submit(&mut host, 1);
    assert_eq!(given(&host, id), None);
    host.engine.handle(NOW, Event::Run(id, Resources::Allocated(MORE)));
    assert_eq!(given(&host, id), Some(MORE));
    let next = submit(&mut host, 1);
    assert!(host.names(next).is_empty(), "one node of two is taken");
    exact(&host);
}

#[test]
fn a_start_that_r_does_not_tell_is_when_the_job_was_seen_to_run() {
    let mut host = site(|_| ());
    let id = submit(&mut host, 1);
    let untold = Allocation { start: None, ..MORE };
    host.engine.handle(NOW + 7.5, Event::Run(id, Resources::Allocated(untold)));
    assert_eq!(given(&host, id).unwrap().start, Some(NOW + 7.5));
}

#[test]
fn an_r_that_cannot_be_read_is_logged_and_changes_nothing_else() {
    let unreadable = || Resources::Unreadable("a rank is named twice".to_owned());
    for (resources, text) in [(unreadable(), "a rank is named twice"), (Resources::None, "there is none")] {
        let mut host = site(|_| ());
        let id = submit(&mut host, 1);
        let effects = host.engine.handle(NOW, Event::Run(id, resources));
        let wanted = format!("job {id}: unable to read its R ({text})");
        assert!(matches!(effects.as_slice(), [Effect::Log(_, told), ..] if *told == wanted), "{effects:?}");
        let running = host.engine.check().running;
        assert_eq!((given(&host, id), running.jobs, running.unread), (None, 1, 1));
        exact(&host);
    }
}

#[test]
fn a_replay_brings_the_same_facts() {
    for is_reload in [true, false] {
        let mut host = site(|_| ());
        let id = host.submit(HostJob::new(7).size(2, 8)).unwrap();
        host.start(id);
        let before = (given(&host, id), host.engine.check().running);
        assert_eq!(before.0.unwrap().start, host.jobs[&id].started);
        assert_eq!(before.1.submitted, Some(host.jobs[&id].submitted));
        let told = (before.1.nodes, before.1.cores, before.1.gpus, before.1.since);
        assert_eq!(told, (2, 8, 0, host.jobs[&id].started));
        let mut engine = Engine::new(OWNER);
        engine.handle(NOW, Event::Associations(vec![record(association(7, "A"), "A")]));
        host.now += 1_000.0;
        host.replay(is_reload, engine);
        assert_eq!((given(&host, id), host.engine.check().running), before, "reload {is_reload}");
        host.end(id);
        assert_eq!(host.engine.check().running.jobs, 0);
    }
}

#[test]
fn what_all_running_jobs_were_given_is_added_up() {
    let mut host = site(|_| ());
    for (at, given) in [(9.0, MORE), (2.0, Allocation { nodes: 1, cores: 2, gpus: 3, ..MORE })] {
        let id = submit(&mut host, 1);
        let given = Allocation { start: Some(NOW + at), ..given };
        host.engine.handle(NOW + at, Event::Run(id, Resources::Allocated(given)));
    }
    let running = host.engine.check().running;
    let told = (running.jobs, running.nodes, running.cores, running.gpus, running.since);
    assert_eq!(told, (2, 5, 66, 11, Some(NOW + 2.0)));
}

/// By how long it may run `why` says when a place is free at the latest.
#[test]
fn a_time_limit_is_that_of_the_last_update() {
    let mut host = site(|_| ());
    let id = submit(&mut host, 1);
    let longer = HostJob { duration: 7_200.0, ..host.jobs[&id].clone() };
    host.engine.handle(NOW, Event::Updated(Host::facts(id, &longer)));
    assert_eq!(host.engine.ledger().job(id).unwrap().duration, 7_200.0);
}
