// SPDX-License-Identifier: LGPL-3.0-only
//! The table of RPC methods, with the role that may call each. To add a method, add a row and a function in `methods`.

mod check_job;
mod explain;
mod hand_over;
mod pages;
pub(super) mod staged_push;
pub(super) mod updates;

use super::MfPriority;
use crate::jobtap::{Host, Method, Reply, Request, Role};
use fairshare_engine::engine::Event;
use fairshare_protocol::wire;
use std::ffi::CStr;

type Answer = fn(&MfPriority, Host<'_, MfPriority>, &Request<'_>) -> Reply;

/// Returns a method that only the instance owner may call.
const fn owner_method(name: &'static CStr, answer: Answer) -> Method<MfPriority> {
    Method { name, role: Role::Owner, answer }
}

/// Defines a method by which flux-accounting pushes records. The arguments are the method's name, the function that
/// reads the payload, and the engine's event.
macro_rules! records_method {
    ($name:literal, $read:path, $event:path) => {
        owner_method($name, |plugin, host, request| {
            updates::update_records(plugin, host, request, $name, $read, $event)
        })
    };
}

/// Returns a method that the instance owner and admins may call.
const fn admin_method(name: &'static CStr, answer: Answer) -> Method<MfPriority> {
    Method { name, role: Role::Admin, answer }
}

/// Returns a method that every user may call.
const fn guest_method(name: &'static CStr, answer: Answer) -> Method<MfPriority> {
    Method { name, role: Role::Guest, answer }
}

/// Returns true if every user may call `method`.
pub(super) fn may_everyone_call(method: &Method<MfPriority>) -> bool {
    method.role == Role::Guest
}

/// Returns true if requests of `method` may belong to a push. `reprioritize` ends a push of flux-accounting's tools.
pub(super) fn is_push(method: &Method<MfPriority>) -> bool {
    ["rec_", "policy_", "reprioritize"].iter().any(|kind| method.title().starts_with(kind))
}

/// All methods. As in flux-accounting's plugin, only the instance owner may call the methods that both plugins have.
pub(super) const METHODS: &[Method<MfPriority>] = &[
    records_method!(c"rec_update", wire::read_associations, Event::Associations),
    records_method!(c"rec_q_update", wire::read_queues, Event::Queues),
    records_method!(c"rec_proj_update", wire::read_projects, Event::Projects),
    records_method!(c"rec_bank_update", wire::read_banks, Event::Banks),
    records_method!(c"rec_fac_update", wire::read_weights, Event::Weights),
    records_method!(c"rec_config_update", wire::read_config_update, Event::Config),
    owner_method(c"policy_update", updates::update_policy),
    owner_method(c"policy_begin", staged_push::answer_push_begin),
    owner_method(c"policy_part", staged_push::answer_part),
    owner_method(c"policy_commit", staged_push::answer_commit),
    owner_method(c"policy_abort", staged_push::answer_abort),
    admin_method(c"associations", pages::list_associations),
    admin_method(c"priorities", pages::list_priorities),
    // The name of `priorities` until version 0.1.0. One more release answers requests to this name.
    admin_method(c"prices", pages::list_priorities),
    admin_method(c"usages", pages::list_usages),
    admin_method(c"tree", pages::list_tree),
    owner_method(c"reprioritize", updates::answer_reprioritize),
    owner_method(c"hand_over", hand_over::list_job_outcomes),
    owner_method(c"rest", hand_over::answer_rest_request),
    admin_method(c"check", pages::answer_check),
    guest_method(c"explain", explain::explain_jobs),
    guest_method(c"standing", pages::list_standings),
    guest_method(c"jobs", pages::list_jobs),
    guest_method(c"check_job", check_job::answer_check_job),
    admin_method(c"stats", pages::show_stats),
];
