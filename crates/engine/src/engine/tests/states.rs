// SPDX-License-Identifier: LGPL-3.0-only
//! The numbers of active jobs by state, in the statistics.

use super::host::Host;
use super::site::{HostJob, association, record};
use crate::accounts::Association;
use crate::engine::answers::{AssociationFilter, Open, standings};
use crate::ids::Limit;

#[test]
fn each_active_job_counts_in_exactly_one_state() {
    let own_association = Association { max_running_jobs: Limit(1), ..association(7, "A") };
    let mut host =
        Host::with_data(vec![record(own_association, "A"), record(association(8, "A"), "A")], Vec::new());
    let states = |host: &Host| {
        let stats = host.stats();
        let jobs = stats.jobs;
        let counts = [jobs.running, jobs.pending, jobs.held, jobs.waiting, jobs.blocked, jobs.ending];
        assert_eq!(counts.iter().sum::<u64>(), jobs.live);
        let wanted = AssociationFilter { user: None, bank: None, after: None, most: 9, open: Open::Own };
        let standings = standings(&host.engine.view(), &wanted, host.now).associations;
        let sums = standings.iter().fold([0; 4], |[running, pending, held, blocked], it| {
            [
                running + it.jobs.running,
                pending + it.jobs.pending,
                held + it.jobs.held,
                blocked + it.jobs.blocked,
            ]
        });
        assert_eq!(sums, [jobs.running, jobs.pending, jobs.held, jobs.blocked]);
        counts
    };
    assert_eq!(states(&host), [0; 6]);
    // The order of the counts is running, pending, held, waiting, blocked, ending.
    let running_job = host.run_new_job(HostJob::new(7));
    assert_eq!(states(&host), [1, 0, 0, 0, 0, 0]);
    let held_job = host.submit(HostJob::new(7)).unwrap();
    assert_eq!(states(&host), [1, 0, 1, 0, 0, 0]);
    host.submit(HostJob::new(8)).unwrap();
    // A job of priority 0 is blocked.
    host.submit(HostJob { urgency: 0, ..HostJob::new(8) }).unwrap();
    assert_eq!(states(&host), [1, 1, 1, 0, 1, 0]);
    host.submit(HostJob::new(8).blocked_by("afterany:1")).unwrap();
    assert_eq!(states(&host), [1, 1, 1, 0, 2, 0]);
    host.end_job(running_job);
    assert_eq!(states(&host), [0, 2, 0, 0, 2, 0]);
    host.start_job(held_job);
    assert_eq!(states(&host), [1, 1, 0, 0, 2, 0]);
    // Before the first push, all four jobs wait for data. None of them counts as pending, held or blocked.
    let mut host = Host::new();
    for user in [5, 5, 6] {
        host.submit(HostJob::new(user)).unwrap();
    }
    host.submit(HostJob::new(6).blocked_by("afterany:1")).unwrap();
    assert_eq!(states(&host), [0, 0, 0, 4, 0, 0]);
    let stats = host.stats();
    assert!(stats.pending.is_empty() && stats.held.is_empty() && stats.running.is_empty());
}
