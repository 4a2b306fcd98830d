// SPDX-License-Identifier: LGPL-3.0-only
//! The table of RPC methods, with the role that may call each. To add a method, add a row and a function in `methods`.

mod explain;
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
    owner_method(c"rec_update", |plugin, host, request| {
        updates::update_records(plugin, host, request, "rec_update", wire::associations, Event::Associations)
    }),
    owner_method(c"rec_q_update", |plugin, host, request| {
        updates::update_records(plugin, host, request, "rec_q_update", wire::queues, Event::Queues)
    }),
    owner_method(c"rec_proj_update", |plugin, host, request| {
        updates::update_records(plugin, host, request, "rec_proj_update", wire::projects, Event::Projects)
    }),
    owner_method(c"rec_bank_update", |plugin, host, request| {
        updates::update_records(plugin, host, request, "rec_bank_update", wire::banks, Event::Banks)
    }),
    owner_method(c"rec_fac_update", |plugin, host, request| {
        updates::update_records(plugin, host, request, "rec_fac_update", wire::weights, Event::Weights)
    }),
    owner_method(c"rec_config_update", |plugin, host, request| {
        updates::update_records(plugin, host, request, "rec_config_update", wire::config, Event::Config)
    }),
    owner_method(c"policy_update", updates::update_policy),
    owner_method(c"policy_begin", staged_push::begin),
    owner_method(c"policy_part", staged_push::stage_part),
    owner_method(c"policy_commit", staged_push::commit),
    owner_method(c"policy_abort", staged_push::abort),
    admin_method(c"associations", pages::list_associations),
    admin_method(c"priorities", pages::list_priorities),
    // The name of `priorities` until version 0.1.0. One more release answers requests to this name.
    admin_method(c"prices", pages::list_priorities),
    admin_method(c"usages", pages::list_usages),
    admin_method(c"tree", pages::list_tree),
    owner_method(c"reprioritize", updates::reprioritize),
    owner_method(c"hand_over", pages::list_fates),
    owner_method(c"rest", pages::rest_jobs),
    admin_method(c"check", pages::check),
    guest_method(c"explain", explain::answer),
    guest_method(c"standing", pages::list_standings),
    guest_method(c"jobs", pages::list_jobs),
    guest_method(c"check_job", explain::check_job),
    admin_method(c"stats", pages::show_stats),
];
