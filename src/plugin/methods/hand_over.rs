// SPDX-License-Identifier: LGPL-3.0-only
//! `hand_over`: the fate of jobs if an admin goes back to flux-accounting's plugin.

use crate::jobtap::{EAGAIN, Host, Plugin, Reply};
use crate::plugin::MfPriority;
use crate::plugin::services::{busy, error, refuse};
use fairshare_engine::engine::{self, Fate, HandedOver};
use fairshare_protocol::wire;
use serde_json::{Value, json};

/// Answers with the fate of held jobs, and of other jobs that would end, under flux-accounting's plugin, in pages by
/// id.
pub fn answer(plugin: &MfPriority, host: Host<'_, MfPriority>, payload: Option<&str>) -> Reply {
    let flux = host.plugin();
    let wanted = wire::prices(payload).map_err(|fault| refuse(flux, "hand_over", &fault))?;
    let page =
        plugin.engine.view(|view| engine::hand_over(view, wanted.after, wanted.most)).ok_or_else(busy)?;
    let unread = || error(EAGAIN, "eventlogs of jobs are still being read; try again".to_owned());
    let page = page.ok_or_else(unread)?;
    let next = page.last().filter(|_| page.len() == wanted.most).map(|job| job.id.0);
    let jobs: Vec<Value> = page.iter().map(|job| show_job(flux, job)).collect();
    Ok(Some(json!({"jobs": jobs, "next": next}).to_string()))
}

fn show_job(flux: Plugin, job: &HandedOver) -> Value {
    json!({
        "id": job.id.0,
        "userid": job.user.0,
        "bank": job.bank.as_ref().map(|bank| bank.as_str()),
        "queue": job.queue.as_ref().map(|queue| queue.as_str()),
        "urgency": flux.urgency(job.id.0).ok(),
        "names": job.names,
        "kept": job.is_kept,
        "fate": match job.fate {
            Fate::Held => "held",
            Fate::Stranded => "stranded",
            Fate::Ended => "ended",
            Fate::Released => "released",
        },
    })
}
