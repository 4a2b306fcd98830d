// SPDX-License-Identifier: LGPL-3.0-only
//! The table of RPC methods, with the role that may call each. To add a method, add a row and a function in `methods`.

mod check_job;
mod explain;
mod hand_over;
mod pages;
pub(super) mod staged_push;
mod updates;

use super::MfPriority;
use crate::jobtap::Method;
use crate::jobtap::Role::{Admin, Guest, Owner};
use fairshare_engine::engine::Event;
use fairshare_protocol::records::{FactorRecord, ProjectRecord, QueueRecord};
use fairshare_protocol::wire;

/// Defines a method by which flux-accounting pushes records. The arguments are the method's name, the function that
/// reads the payload, and the engine's event.
macro_rules! records_method {
    ($name:literal, $read:expr, $event:path) => {
        Method {
            name: $name,
            role: Owner,
            answer: |plugin, host, request| {
                updates::update_records(plugin, host, request, $name, $read, $event)
            },
        }
    };
}

/// Returns true if requests of `method` may belong to a push. `reprioritize` ends a push of flux-accounting's tools.
pub(super) fn is_push(method: &Method<MfPriority>) -> bool {
    ["rec_", "policy_", "reprioritize"].iter().any(|kind| method.title().starts_with(kind))
}

/// All methods. As in flux-accounting's plugin, only the instance owner may call the methods that both plugins have.
pub(super) const METHODS: &[Method<MfPriority>] = &[
    records_method!(c"rec_update", wire::read_associations, Event::Associations),
    records_method!(c"rec_q_update", wire::read_table::<QueueRecord>, Event::Queues),
    records_method!(c"rec_proj_update", wire::read_table::<ProjectRecord>, Event::Projects),
    records_method!(c"rec_bank_update", wire::read_banks, Event::Banks),
    records_method!(c"rec_fac_update", wire::read_table::<FactorRecord>, Event::Weights),
    records_method!(c"rec_config_update", wire::read_config_update, Event::Config),
    Method { name: c"policy_update", role: Owner, answer: updates::update_policy },
    Method { name: c"policy_begin", role: Owner, answer: staged_push::answer_push_begin },
    Method { name: c"policy_part", role: Owner, answer: staged_push::answer_part },
    Method { name: c"policy_commit", role: Owner, answer: staged_push::answer_commit },
    Method { name: c"policy_abort", role: Owner, answer: staged_push::answer_abort },
    Method { name: c"associations", role: Admin, answer: pages::list_associations },
    Method { name: c"priorities", role: Admin, answer: pages::list_priorities },
    // The name of `priorities` until version 0.1.0. One more release answers requests to this name.
    Method { name: c"prices", role: Admin, answer: pages::list_priorities },
    Method { name: c"tree", role: Admin, answer: pages::list_tree },
    Method { name: c"reprioritize", role: Owner, answer: updates::answer_reprioritize },
    Method { name: c"hand_over", role: Owner, answer: hand_over::list_job_outcomes },
    Method { name: c"rest", role: Owner, answer: hand_over::answer_rest_request },
    Method { name: c"check", role: Admin, answer: pages::answer_check },
    Method { name: c"explain", role: Guest, answer: explain::explain_jobs },
    Method { name: c"standing", role: Guest, answer: pages::list_standings },
    Method { name: c"jobs", role: Guest, answer: pages::list_jobs },
    Method { name: c"check_job", role: Guest, answer: check_job::answer_check_job },
    Method { name: c"stats", role: Admin, answer: pages::show_stats },
];
