// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that were accepted before there were data, and that others let go between the parts of flux-accounting's first push: nothing is
//! final before the reprioritize that ends it.
//! Rules: P12

use super::examples::exact;
use super::host::Host;
use super::site::{HostJob, OWNER, association, record};
use crate::accounts::{Association, AssociationRecord};
use crate::engine::{Event, State};
use crate::ids::JobId;
use State::{Priority, Sched};

fn projects(projects: &[&str]) -> Event<'static> {
    Event::Projects(projects.iter().map(|project| (*project).into()).collect())
}

/// May charge one project.
fn of_project(bank: &str) -> AssociationRecord {
    let projects = ["p1"].map(Into::into).into();
    record(Association { projects, def_project: None, ..association(7, bank) }, bank)
}

/// One that another plugin keeps, let go when these records have come.
fn let_go_amid(job: HostJob, records: Vec<AssociationRecord>) -> (Host, JobId) {
    let mut host = Host::new();
    let id = host.submit(job.after("keep=x")).unwrap();
    host.event(Event::Associations(records));
    host.remove_dependency(id, "keep=x");
    host.settle();
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Priority), 0));
    (host, id)
}

#[test]
fn a_project_that_comes_later_is_waited_for() {
    let job = HostJob { project: Some("p1".to_owned()), ..HostJob::new(7) };
    let (mut host, id) = let_go_amid(job.clone(), vec![of_project("A")]);
    host.event(projects(&["p1"]));
    host.event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Sched), 0));
    exact(&host);
    // Until the push is over, and no longer.
    let (mut host, id) = let_go_amid(job, vec![of_project("A")]);
    host.event(projects(&["p2"]));
    host.event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (None, 1));
    assert!(host.exceptions[0].1.starts_with("project \"p1\" not valid for user"), "{:?}", host.exceptions);
}

#[test]
fn an_association_that_comes_later_is_waited_for() {
    let (mut host, id) = let_go_amid(HostJob::new(7).bank("B"), vec![of_project("A")]);
    let mut lacking = host.clone();
    host.event(Event::Associations(vec![of_project("B")]));
    host.event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Sched), 0));
    exact(&host);
    lacking.event(Event::Reprioritize);
    assert_eq!((lacking.state(id), lacking.exceptions.len()), (None, 1));
}

/// The instance owner's record comes after the reprioritize.
#[test]
fn the_owner_is_waited_for_a_while_longer() {
    let own = HostJob::new(OWNER.0).bank("O");
    let (mut host, id) = let_go_amid(own, vec![of_project("A")]);
    host.event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Priority), 0));
    let mut lacking = host.clone();
    host.event(Event::Associations(vec![record(association(OWNER.0, "O"), "O")]));
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Sched), 0));
    exact(&host);
    lacking.now += 5.0;
    lacking.retry();
    assert_eq!((lacking.state(id), lacking.exceptions.len()), (None, 1), "a bank that is not his ends it");
}
