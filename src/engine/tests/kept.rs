// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that other plugins keep in DEPEND as well: whose turn it is, and who may go in their stead.

use super::examples::{exact, site, submit};
use super::site::{HostJob, OWNER, association, record};
use crate::engine::{Engine, Event, State};
use crate::ids::Limit;

#[test]
fn a_job_kept_by_others_gives_way_to_one_that_nobody_keeps() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let also_kept = host.submit(HostJob::new(7).after("afterany:1")).unwrap();
    let next = submit(&mut host, 1);
    host.end(a);
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit"]);
    assert_eq!(host.names(also_kept), ["afterany:1", "max-running-jobs-user-limit"]);
    assert_eq!(host.state(next), Some(State::Sched), "its turn came, and nobody else can take it");
    host.remove_dependency(kept, "begin-time:9999");
    host.settle();
    host.start(next);
    exact(&host);
}

#[test]
fn a_job_that_others_let_go_is_not_passed_over() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let let_go = host.submit(HostJob::new(7).after("begin-time:1")).unwrap();
    let later = submit(&mut host, 1);
    host.remove_dependency(let_go, "begin-time:1");
    host.settle();
    assert_eq!(host.names(let_go), ["max-running-jobs-user-limit"]);
    host.end(a);
    assert_eq!([let_go, later].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit"]);
    exact(&host);
}

#[test]
fn a_job_that_only_we_hold_goes_as_soon_as_others_let_it_go() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let let_go = host.submit(HostJob::new(7).after("begin-time:1")).unwrap();
    host.end(a);
    assert_eq!(host.names(let_go), ["begin-time:1", "max-running-jobs-user-limit"]);
    host.remove_dependency(let_go, "begin-time:1");
    host.settle();
    assert_eq!(host.state(let_go), Some(State::Sched), "all limits have room, and nobody else keeps it");
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit.2"]);
    exact(&host);
}

#[test]
fn what_others_keep_is_known_after_a_restart() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let kept = host.submit(HostJob::new(7).after("begin-time:9999")).unwrap();
    let let_go = host.submit(HostJob::new(7).after("begin-time:1")).unwrap();
    host.remove_dependency(let_go, "begin-time:1");
    // A restart adds it again; a name that was removed once holds nothing.
    host.jobs.get_mut(&let_go).unwrap().log.push(("begin-time:1".to_owned(), true));
    let mut limited = association(7, "A");
    limited.max_running_jobs = Limit(1);
    let mut engine = Engine::new(OWNER);
    engine.handle(Event::Associations(vec![record(limited, "A")]));
    host.replay(true, engine);
    let later = submit(&mut host, 1);
    host.end(a);
    assert_eq!([let_go, later].map(|id| host.state(id)), [Some(State::Sched), Some(State::Depend)]);
    assert_eq!(host.names(kept), ["begin-time:9999", "max-running-jobs-user-limit.2"]);
    exact(&host);
}

#[test]
fn a_job_kept_by_others_holds_nobody_back() {
    let mut host = site(|a| a.max_nodes = Limit(4));
    let a = submit(&mut host, 4);
    host.start(a);
    let kept = host.submit(HostJob::new(7).size(3, 3).after("begin-time:9999")).unwrap();
    let (large, small) = (submit(&mut host, 4), submit(&mut host, 1));
    host.end(a);
    assert_eq!((host.state(large), host.state(small)), (Some(State::Sched), Some(State::Depend)), "in turn");
    assert_eq!(host.names(kept), ["begin-time:9999", "max-resources-user-limit"], "no event for nothing");
    exact(&host);
}

#[test]
fn a_job_kept_by_others_unknown_to_us_gives_way_in_the_next_turn() {
    let mut host = site(|a| a.max_running_jobs = Limit(1));
    let a = submit(&mut host, 1);
    host.start(a);
    let (kept, next) = (submit(&mut host, 1), submit(&mut host, 1));
    // No jobspec declares it, so we are told nothing of it.
    host.jobs.get_mut(&kept).unwrap().dependencies.insert("license".to_owned());
    host.end(a);
    assert_eq!(host.names(kept), ["license", "max-running-jobs-user-limit.2"]);
    assert_eq!(host.state(next), Some(State::Sched));
    exact(&host);
}
