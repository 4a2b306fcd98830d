// SPDX-License-Identifier: LGPL-3.0-only
//! The table of RPC methods, with the role that may call each. To add a method, add a row and a file.

mod associations;
mod changes;
mod check;
mod check_job;
mod explain;
mod hand_over;
mod jobs;
pub(super) mod pieces;
mod policy_update;
mod priorities;
mod rest;
pub(super) mod staged_push;
mod standing;
mod stats;
mod tree;
mod usages;

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
        pieces::answer(plugin, host, "rec_update", |reader| {
            wire::associations(request.payload, reader).map(Event::Associations)
        })
    }),
    owner_method(c"rec_q_update", |plugin, host, request| {
        pieces::answer(plugin, host, "rec_q_update", |reader| {
            wire::queues(request.payload, reader).map(Event::Queues)
        })
    }),
    owner_method(c"rec_proj_update", |plugin, host, request| {
        pieces::answer(plugin, host, "rec_proj_update", |reader| {
            wire::projects(request.payload, reader).map(Event::Projects)
        })
    }),
    owner_method(c"rec_bank_update", |plugin, host, request| {
        pieces::answer(plugin, host, "rec_bank_update", |reader| {
            wire::banks(request.payload, reader).map(Event::Banks)
        })
    }),
    owner_method(c"rec_fac_update", |plugin, host, request| {
        pieces::answer(plugin, host, "rec_fac_update", |reader| {
            wire::weights(request.payload, reader).map(Event::Weights)
        })
    }),
    owner_method(c"rec_config_update", |plugin, host, request| {
        pieces::answer(plugin, host, "rec_config_update", |reader| {
            wire::config(request.payload, reader).map(Event::Config)
        })
    }),
    owner_method(c"policy_update", |plugin, host, request| {
        policy_update::answer(plugin, host, request.payload)
    }),
    owner_method(c"policy_begin", |plugin, host, request| staged_push::begin(plugin, host, request.payload)),
    owner_method(c"policy_part", |plugin, host, request| {
        staged_push::stage_part(plugin, host, request.payload)
    }),
    owner_method(c"policy_commit", |plugin, host, request| {
        staged_push::commit(plugin, host, request.payload)
    }),
    owner_method(c"policy_abort", |plugin, host, request| staged_push::abort(plugin, host, request.payload)),
    admin_method(c"associations", |plugin, host, request| {
        associations::answer(plugin, host, request.payload)
    }),
    admin_method(c"priorities", |plugin, host, request| priorities::answer(plugin, host, request.payload)),
    // The name of `priorities` until 0.1.0, which one more release answers.
    admin_method(c"prices", |plugin, host, request| priorities::answer(plugin, host, request.payload)),
    admin_method(c"usages", |plugin, host, request| usages::answer(plugin, host, request.payload)),
    admin_method(c"tree", |plugin, host, request| tree::answer(plugin, host, request.payload)),
    owner_method(c"reprioritize", |plugin, host, _| pieces::reprioritize(plugin, host)),
    owner_method(c"hand_over", |plugin, host, request| hand_over::answer(plugin, host, request.payload)),
    owner_method(c"rest", |plugin, host, request| rest::answer(plugin, host, request.payload)),
    admin_method(c"check", |plugin, _, _| check::answer(plugin)),
    guest_method(c"explain", explain::answer),
    guest_method(c"standing", standing::answer),
    guest_method(c"jobs", jobs::answer),
    guest_method(c"check_job", check_job::answer),
    admin_method(c"stats", |plugin, host, request| stats::answer(plugin, host, request.payload)),
];
