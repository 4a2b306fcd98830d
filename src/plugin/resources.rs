// SPDX-License-Identifier: LGPL-3.0-only
//! Reads R (RFC 20, version 1), the resources of a job, in time linear in the length of R.

use crate::jobtap::Json;
use fairshare_engine::ids::idset::{Ranks, count, each_range};
use fairshare_engine::limits::{Allocation, Resources, Size};
use std::ffi::CStr;

/// Reads the resources in R. If R is invalid, returns [`Resources::Unreadable`] with the reason.
pub fn read_resources(r: Option<Json<'_>>) -> Resources {
    let Some(r) = r else { return Resources::None };
    match read_allocation(r) {
        Ok(allocation) => Resources::Allocated(allocation),
        Err(what) => Resources::Unreadable(what.to_owned()),
    }
}

/// Returns the number of nodes in the R of the instance, or `None` if `text` is not an R.
pub fn count_site_nodes(text: &str) -> Option<u64> {
    let r: serde_json::Value = serde_json::from_str(text).ok()?;
    let mut nodes = 0u64;
    for entry in r.pointer("/execution/R_lite")?.as_array()? {
        let ranks = entry.get("rank")?;
        nodes = nodes.checked_add(ranks.as_str().map_or_else(|| ranks.as_u64().map(|_| 1), count)?)?;
    }
    Some(nodes)
}

fn read_allocation(r: Json<'_>) -> Result<Allocation, &'static str> {
    if r.get(c"version").and_then(Json::as_number) != Some(1.0) {
        return Err("its version is not 1");
    }
    let execution = r.get(c"execution").ok_or("it has no execution")?;
    let (start, expiration) = (read_time(execution, c"starttime")?, read_time(execution, c"expiration")?);
    let mut sum = Allocation { nodes: 0, cores: 0, gpus: 0, start, expiration };
    let mut ranks = Ranks::default();
    for entry in execution.get(c"R_lite").ok_or("it has no R_lite")?.items() {
        let mut nodes = 0;
        let rank = entry.get(c"rank").ok_or("an entry of R_lite has no rank")?;
        visit_id_ranges(rank, |low, high| {
            ranks.add(low, high);
            nodes += u64::from(high - low) + 1;
        })
        .ok_or("the rank of an entry of R_lite is not an idset")?;
        let children = entry.get(c"children");
        let count_on_each_node = |kind: &CStr| match children.and_then(|children| children.get(kind)) {
            None => Some(0),
            Some(ids) => ids.as_str().map_or_else(|| read_id(ids).map(|_| 1), count),
        };
        let add_kind = |sum: &mut u64, kind| {
            let units = nodes.checked_mul(
                count_on_each_node(kind)
                    .ok_or("an entry of R_lite has core or gpu children that are not an idset")?,
            );
            *sum = units.and_then(|units| sum.checked_add(units)).ok_or("it exceeds 64 bits")?;
            Ok::<(), &'static str>(())
        };
        add_kind(&mut sum.cores, c"core")?;
        add_kind(&mut sum.gpus, c"gpu")?;
        sum.nodes = sum.nodes.checked_add(nodes).ok_or("it exceeds 64 bits")?;
    }
    if [sum.nodes, sum.cores, sum.gpus].into_iter().any(|amount| amount > Size::MOST) {
        return Err("it has too many nodes, cores or GPUs");
    }
    if ranks.are_distinct() { Ok(sum) } else { Err("a rank is named twice") }
}

/// Calls `call` with the first and last id of each range of an idset. A JSON number is an idset with one id.
/// Returns `None` if `ids` is invalid.
fn visit_id_ranges(ids: Json<'_>, mut call: impl FnMut(u32, u32)) -> Option<()> {
    if let Some(text) = ids.as_str() { each_range(text, call) } else { read_id(ids).map(|id| call(id, id)) }
}

fn read_id(id: Json<'_>) -> Option<u32> {
    id.as_int().and_then(|id| u32::try_from(id).ok())
}

/// Returns the time `key` of R in seconds, or `None` if it is absent or 0.
fn read_time(execution: Json<'_>, key: &CStr) -> Result<Option<f64>, &'static str> {
    let Some(value) = execution.get(key) else { return Ok(None) };
    match value.as_number() {
        Some(0.0) => Ok(None),
        Some(time) if time.is_finite() && time > 0.0 => Ok(Some(time)),
        _ => Err("starttime or expiration is not a time of 0 or more"),
    }
}
