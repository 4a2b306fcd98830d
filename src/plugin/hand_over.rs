// SPDX-License-Identifier: LGPL-3.0-only
//! What an admin asks who goes back to flux-accounting's plugin: `hand_over` and `rest`.

use super::MfPriority;
use super::services::{busy, error, refuse};
use crate::jobtap::{EAGAIN, Host, Plugin, Reply};
use fairshare_engine::engine::{self};
use fairshare_engine::engine::{Event, Fate, HandedOver};
use fairshare_engine::ids::JobId;
use fairshare_protocol::wire;
use fairshare_protocol::wire::WireError;
use serde_json::{Value, json};

fn shown(plugin: Plugin, job: &HandedOver) -> Value {
    json!({
        "id": job.id.0,
        "userid": job.user.0,
        "bank": job.bank.as_ref().map(|bank| bank.as_str()),
        "queue": job.queue.as_ref().map(|queue| queue.as_str()),
        "urgency": plugin.urgency(job.id.0).ok(),
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

impl MfPriority {
    /// What becomes under flux-accounting's plugin of held jobs, and of others that would end, in pages by id.
    pub(super) fn hand_over(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let plugin = host.plugin();
        let wanted = wire::prices(payload).map_err(|fault| refuse(plugin, "hand_over", &fault))?;
        let page =
            self.engine.view(|view| engine::hand_over(view, wanted.after, wanted.most)).ok_or_else(busy)?;
        let unread = || error(EAGAIN, "eventlogs of jobs are still being read; try again".to_owned());
        let page = page.ok_or_else(unread)?;
        let next = page.last().filter(|_| page.len() == wanted.most).map(|job| job.id.0);
        let jobs: Vec<Value> = page.iter().map(|job| shown(plugin, job)).collect();
        Ok(Some(json!({"jobs": jobs, "next": next}).to_string()))
    }

    /// Takes our names off held jobs of urgency 0, which then rest in SCHED. Others are left as they are, and those that other plugins
    /// keep too: they would not come to SCHED.
    pub(super) fn rest(&self, host: Host<'_, Self>, payload: Option<&str>) -> Reply {
        let plugin = host.plugin();
        let wanted = wire::prices(payload).map_err(|fault| refuse(plugin, "rest", &fault))?;
        let missing = || refuse(plugin, "rest", &WireError::Record("ids: they are missing".to_owned()));
        let ids = wanted.ids.ok_or_else(missing)?;
        let may_rest = |id: &JobId| {
            matches!(plugin.urgency(id.0), Ok(0)) && self.engine.view(|view| view.may_rest(*id)) == Some(true)
        };
        let (rest, left): (Vec<JobId>, Vec<JobId>) = ids.into_iter().partition(may_rest);
        let reply = json!({
            "resting": rest.iter().map(|id| id.0).collect::<Vec<_>>(),
            "left": left.iter().map(|id| id.0).collect::<Vec<_>>(),
        });
        self.effect(host, Event::Rest(rest))?;
        Ok(Some(reply.to_string()))
    }
}
