// SPDX-License-Identifier: LGPL-3.0-only
//! Association records and jobs for the benchmarks.

use fairshare_engine::accounts::{Association, AssociationRecord};
use fairshare_engine::engine::{JobFacts, State};
use fairshare_engine::ids::{JobId, Limit, UserId};
use fairshare_engine::limits::{Resources, Size};

/// Creates a record of a user in a bank, without limits except `max_running_jobs`.
pub fn make_record(user: u32, bank: &str, max_running_jobs: i64) -> AssociationRecord {
    let unlimited = Limit(2_147_483_647);
    let association = Association {
        user: UserId(user),
        bank: bank.into(),
        max_running_jobs: Limit(max_running_jobs),
        max_active_jobs: unlimited,
        max_sched_jobs: unlimited,
        max_nodes: unlimited,
        max_cores: unlimited,
        queues: [].into(),
        projects: ["*"].map(Into::into).into(),
        def_project: Some("*".into()),
        active: true,
    };
    AssociationRecord { association, fairshare: 0.5, def_bank: bank.into() }
}

/// Creates a job with one core and a time limit of one hour, in the default bank of its user.
pub fn make_facts(id: u64, user: u32, state: State, submitted: f64) -> JobFacts<'static> {
    JobFacts {
        id: JobId(id),
        user: UserId(user),
        state,
        urgency: 16,
        priority: -1,
        bank: None,
        queue: None,
        project: None,
        size: Ok(Size::new(1, 1, 0)),
        submitted: Some(submitted),
        duration: 3600.0,
        resources: Resources::None,
    }
}
