// SPDX-License-Identifier: LGPL-3.0-only
//! The table of RPC methods: who may call each, and what answers. To add one, add a row.

use super::MfPriority;
use crate::jobtap::{Host, Method, Reply, Request, Role};
use fairshare_engine::engine::Event;
use fairshare_protocol::wire;
use std::ffi::CStr;

type Answer = fn(&MfPriority, Host<'_, MfPriority>, &Request<'_>) -> Reply;

const fn owners(name: &'static CStr, answer: Answer) -> Method<MfPriority> {
    Method { name, role: Role::Owner, answer }
}

const fn admins(name: &'static CStr, answer: Answer) -> Method<MfPriority> {
    Method { name, role: Role::Admin, answer }
}

const fn guests(name: &'static CStr, answer: Answer) -> Method<MfPriority> {
    Method { name, role: Role::Guest, answer }
}

/// Whether every user may call it.
pub(super) fn is_everybodys(method: &Method<MfPriority>) -> bool {
    method.role == Role::Guest
}

/// Whether a request of this method is, or may be, one of a push. `reprioritize` ends a push of flux-accounting's tools.
pub(super) fn is_push(method: &Method<MfPriority>) -> bool {
    ["rec_", "policy_", "reprioritize"].iter().any(|kind| method.title().starts_with(kind))
}

/// All of them. Those that flux-accounting has are its instance owner's alone, as there.
pub(super) const METHODS: &[Method<MfPriority>] = &[
    owners(c"rec_update", |plugin, host, request| {
        plugin.update(host, "rec_update", |reader| {
            wire::associations(request.payload, reader).map(Event::Associations)
        })
    }),
    owners(c"rec_q_update", |plugin, host, request| {
        plugin.update(host, "rec_q_update", |reader| wire::queues(request.payload, reader).map(Event::Queues))
    }),
    owners(c"rec_proj_update", |plugin, host, request| {
        plugin.update(host, "rec_proj_update", |reader| {
            wire::projects(request.payload, reader).map(Event::Projects)
        })
    }),
    owners(c"rec_bank_update", |plugin, host, request| {
        plugin
            .update(host, "rec_bank_update", |reader| wire::banks(request.payload, reader).map(Event::Banks))
    }),
    owners(c"rec_fac_update", |plugin, host, request| {
        plugin.update(host, "rec_fac_update", |reader| {
            wire::weights(request.payload, reader).map(Event::Weights)
        })
    }),
    owners(c"rec_config_update", |plugin, host, request| {
        plugin.update(host, "rec_config_update", |reader| {
            wire::config(request.payload, reader).map(Event::Config)
        })
    }),
    owners(c"policy_update", |plugin, host, request| plugin.policy_update(host, request.payload)),
    owners(c"policy_begin", |plugin, host, request| plugin.policy_begin(host, request.payload)),
    owners(c"policy_part", |plugin, host, request| plugin.policy_part(host, request.payload)),
    owners(c"policy_commit", |plugin, host, request| plugin.policy_commit(host, request.payload)),
    owners(c"policy_abort", |plugin, host, request| plugin.policy_abort(host, request.payload)),
    admins(c"associations", |plugin, host, request| plugin.associations(host, request.payload)),
    admins(c"prices", |plugin, host, request| plugin.prices(host, request.payload)),
    admins(c"usages", |plugin, host, request| plugin.usages(host, request.payload)),
    admins(c"tree", |plugin, host, request| plugin.tree(host, request.payload)),
    owners(c"reprioritize", |plugin, host, _| plugin.reprioritize(host)),
    owners(c"hand_over", |plugin, host, request| plugin.hand_over(host, request.payload)),
    owners(c"rest", |plugin, host, request| plugin.rest(host, request.payload)),
    admins(c"check", |plugin, _, _| plugin.check()),
    guests(c"explain", |plugin, host, request| plugin.explain(host, request)),
    guests(c"standing", |plugin, host, request| plugin.standing(host, request)),
    guests(c"jobs", |plugin, host, request| plugin.jobs(host, request)),
    admins(c"stats", |plugin, host, request| plugin.stats(host, request.payload)),
];
