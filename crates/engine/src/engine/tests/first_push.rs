// SPDX-License-Identifier: LGPL-3.0-only
//! Jobs that were accepted without data and are unblocked between the requests of flux-accounting's first push. The engine must end no such
//! job before the reprioritize that ends the push.
//! Rules: P12

use super::examples::assert_no_drift;
use super::host::Host;
use super::site::{HostJob, OWNER, association, record};
use crate::accounts::{Association, AssociationRecord};
use crate::engine::{Event, State};
use crate::ids::JobId;
use State::{Priority, Sched};

fn projects_event(projects: &[&str]) -> Event<'static> {
    Event::Projects(projects.iter().map(|project| (*project).into()).collect())
}

/// Returns a record of user 7 that allows only project p1.
fn make_record_of_project_p1(bank: &str) -> AssociationRecord {
    let projects = ["p1"].map(Into::into).into();
    record(Association { projects, def_project: None, ..association(7, bank) }, bank)
}

/// Submits a blocked job, pushes `records`, and unblocks the job.
fn unblock_during_push(job: HostJob, records: Vec<AssociationRecord>) -> (Host, JobId) {
    let mut host = Host::new();
    let id = host.submit(job.blocked_by("keep=x")).unwrap();
    host.send_event(Event::Associations(records));
    host.unblock(id, "keep=x");
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Priority), 0));
    (host, id)
}

#[test]
fn a_job_waits_for_its_project_until_the_push_is_complete() {
    let job = HostJob { project: Some("p1".to_owned()), ..HostJob::new(7) };
    let (mut host, id) = unblock_during_push(job.clone(), vec![make_record_of_project_p1("A")]);
    host.send_event(projects_event(&["p1"]));
    host.send_event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Sched), 0));
    assert_no_drift(&host);
    // The push is complete, but does not contain the project of the job. So the plugin ends the job.
    let (mut host, id) = unblock_during_push(job, vec![make_record_of_project_p1("A")]);
    host.send_event(projects_event(&["p2"]));
    host.send_event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (None, 1));
    assert!(host.exceptions[0].1.starts_with("project \"p1\" not valid for user"), "{:?}", host.exceptions);
}

#[test]
fn a_job_waits_for_its_association_until_the_push_is_complete() {
    let (mut host, id) = unblock_during_push(HostJob::new(7).bank("B"), vec![make_record_of_project_p1("A")]);
    let mut lacking_host = host.clone();
    host.push(vec![make_record_of_project_p1("B")]);
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Sched), 0));
    assert_no_drift(&host);
    lacking_host.send_event(Event::Reprioritize);
    assert_eq!((lacking_host.state(id), lacking_host.exceptions.len()), (None, 1));
}

/// The instance owner's record comes after the reprioritize, so the engine must not end the owner's job there.
#[test]
fn a_job_of_the_instance_owner_waits_for_the_owners_record_after_the_push() {
    let own_facts = HostJob::new(OWNER.0).bank("O");
    let (mut host, id) = unblock_during_push(own_facts, vec![make_record_of_project_p1("A")]);
    host.send_event(Event::Reprioritize);
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Priority), 0));
    let mut lacking_host = host.clone();
    host.send_event(Event::Associations(vec![record(association(OWNER.0, "O"), "O")]));
    assert_eq!((host.state(id), host.exceptions.len()), (Some(Sched), 0));
    assert_no_drift(&host);
    lacking_host.now += 5.0;
    lacking_host.fire_retry_timer();
    assert_eq!(
        (lacking_host.state(id), lacking_host.exceptions.len()),
        (None, 1),
        "the owner has no record in that bank"
    );
}
