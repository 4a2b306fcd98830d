// SPDX-License-Identifier: LGPL-3.0-only
//! Counts the resources of a job in its R (RFC 20, version 1), and reads its jobspec, without building JSON documents
//! in memory.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

use crate::store::{EndedJob, is_time};
use fairshare::periods::Resources;
use fairshare_engine::ids::idset::{self, Ranks};

#[derive(Deserialize)]
struct R<'a> {
    version: f64,
    #[serde(borrow, default)]
    execution: Execution<'a>,
}

#[derive(Default, Deserialize)]
struct Execution<'a> {
    #[serde(borrow, default, rename = "R_lite")]
    entries: Vec<Entry<'a>>,
    starttime: Option<f64>,
}

/// An entry of `R_lite`. All nodes of the entry have the same cores and GPUs.
#[derive(Deserialize)]
struct Entry<'a> {
    #[serde(borrow)]
    rank: Ids<'a>,
    #[serde(borrow, default)]
    children: Children<'a>,
}

#[derive(Default, Deserialize)]
struct Children<'a> {
    #[serde(borrow)]
    core: Option<Ids<'a>>,
    #[serde(borrow)]
    gpu: Option<Ids<'a>>,
}

/// An idset (RFC 22), or a single number.
enum Ids<'a> {
    Text(Cow<'a, str>),
    One(u32),
}

impl<'de: 'a, 'a> Deserialize<'de> for Ids<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct IdsVisitor;

        impl<'de> Visitor<'de> for IdsVisitor {
            type Value = Ids<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an idset")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Ids<'de>, E> {
                Ok(Ids::Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Ids<'de>, E> {
                Ok(Ids::Text(Cow::Owned(text.to_owned())))
            }

            fn visit_u64<E: Error>(self, id: u64) -> Result<Ids<'de>, E> {
                u32::try_from(id).map(Ids::One).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(IdsVisitor)
    }
}

/// A jobspec. `S` has those of its system attributes that are read.
#[derive(Deserialize)]
#[serde(bound = "S: Default + Deserialize<'de>")]
struct Jobspec<S> {
    #[serde(default)]
    attributes: Attributes<S>,
}

#[derive(Default, Deserialize)]
#[serde(bound = "S: Default + Deserialize<'de>")]
struct Attributes<S> {
    #[serde(default)]
    system: S,
}

/// Reads system attributes of a jobspec.
pub(super) fn read_system_attributes<'a, S: Default + Deserialize<'a>>(
    jobspec: &'a str,
) -> serde_json::Result<S> {
    serde_json::from_str::<Jobspec<S>>(jobspec).map(|jobspec| jobspec.attributes.system)
}

#[derive(Default, Deserialize)]
struct System<'a> {
    #[serde(borrow)]
    bank: Option<Cow<'a, str>>,
    #[serde(borrow)]
    queue: Option<Cow<'a, str>>,
}

/// Returns the queue in a jobspec.
pub fn read_queue(jobspec: &str) -> Option<Cow<'_, str>> {
    read_system_attributes::<System<'_>>(jobspec).ok()?.queue
}

/// Returns the bank in a jobspec, or `None` if the jobspec is invalid or names no bank.
pub fn read_bank(jobspec: &str) -> Option<Cow<'_, str>> {
    read_system_attributes::<System<'_>>(jobspec).ok()?.bank
}

/// Fields of a jobspec that a simulation needs.
#[derive(Debug, Default, Deserialize)]
pub struct Terms<'a> {
    /// Name of the bank.
    #[serde(borrow)]
    pub bank: Option<Cow<'a, str>>,
    /// Name of the queue.
    #[serde(borrow)]
    pub queue: Option<Cow<'a, str>>,
    /// Time limit in seconds.
    pub duration: Option<f64>,
}

/// Returns bank, queue and duration of a jobspec, or no values if it is invalid.
pub fn read_bank_queue_and_duration(jobspec: &str) -> Terms<'_> {
    read_system_attributes(jobspec).unwrap_or_default()
}

/// Counts the resources in an R. Returns `None` if it is invalid.
pub fn count(r: &str) -> Option<Resources> {
    read_resources_and_start(r).map(|(resources, _)| resources)
}

/// Returns the resources of a job, and its start if its R has one. Returns `None` if R is invalid.
pub(super) fn count_job(job: &EndedJob<'_>) -> Option<(Resources, Option<f64>)> {
    job.running.map_or_else(|| read_resources_and_start(job.r?), |(resources, _)| Some((resources, None)))
}

/// Counts the resources in an R. Also returns the start of the job in seconds since the epoch, if R has a valid
/// start. Returns `None` if R is invalid.
fn read_resources_and_start(r: &str) -> Option<(Resources, Option<f64>)> {
    // Reject an array, which serde would read as an object.
    if r.trim_start().starts_with('[') {
        return None;
    }
    let Ok(R { version, execution }) = serde_json::from_str::<R<'_>>(r) else {
        // flux-accounting treats `null` as an empty set.
        return matches!(serde_json::from_str::<Option<IgnoredAny>>(r), Ok(None)).then(Default::default);
    };
    if version != 1.0 {
        return None;
    }
    let mut sum = Resources::default();
    let mut ranks = Ranks::default();
    for entry in &execution.entries {
        let mut nodes = 0;
        entry.rank.visit_id_ranges(|low, high| {
            ranks.add(low, high);
            nodes += u64::from(high - low) + 1;
        })?;
        let count_ids = |ids: &Option<Ids<'_>>| ids.as_ref().map_or(Some(0), Ids::count);
        sum.nodes = sum.nodes.checked_add(nodes)?;
        sum.cores = sum.cores.checked_add(nodes.checked_mul(count_ids(&entry.children.core)?)?)?;
        sum.gpus = sum.gpus.checked_add(nodes.checked_mul(count_ids(&entry.children.gpu)?)?)?;
    }
    let start = execution.starttime.filter(|start| *start > 0.0 && is_time(*start));
    ranks.are_distinct().then_some((sum, start))
}

impl Ids<'_> {
    fn count(&self) -> Option<u64> {
        match self {
            Ids::One(_) => Some(1),
            Ids::Text(text) => idset::count(text),
        }
    }

    /// Calls `call` for each range. Returns `None` if the text is not an idset (RFC 22).
    fn visit_id_ranges(&self, mut call: impl FnMut(u32, u32)) -> Option<()> {
        match self {
            Ids::One(id) => {
                call(*id, *id);
                Some(())
            }
            Ids::Text(text) => idset::each_range(text, call),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count_entries(entries: &str) -> Option<(u64, u64, u64)> {
        let r = format!(
            r#"{{"version": 1, "execution": {{"R_lite": [{entries}], "nodelist": ["n[0-9]"],
                "starttime": 1.5, "expiration": 0.0}}, "scheduling": {{"graph": [1, "x", null]}}}}"#
        );
        count(&r).map(|found| (found.nodes, found.cores, found.gpus))
    }

    /// The expected values are those of flux-core's `ResourceSet`.
    #[test]
    fn count_returns_the_resources_that_flux_core_counts() {
        for (entries, expected) in [
            (r#"{"rank":"0-3","children":{"core":"0-3","gpu":"0,2"}}"#, Some((4, 16, 8))),
            (
                r#"{"rank":"3","children":{"core":"0"}},{"rank":"0-2","children":{"core":"0-1"}}"#,
                Some((4, 7, 0)),
            ),
            (r#"{"rank":"[0-1]"}"#, Some((2, 0, 0))),
            (r#"{"rank":""}"#, Some((0, 0, 0))),
            (r#"{"rank":"0,"}"#, Some((1, 0, 0))),
            (r#"{"rank":5,"children":{"core":3}}"#, Some((1, 1, 0))),
            (r#"{"rank":"0","children":{"core":""}}"#, Some((1, 0, 0))),
            (r#"{"rank":"01"}"#, None),
            (r#"{"rank":"2-2"}"#, None),
            (r#"{"rank":"3,1"}"#, None),
            (r#"{"rank":" 0"}"#, None),
            (r#"{"rank":"1-"}"#, None),
            (r#"{"rank":"+1"}"#, None),
            (r#"{"children":{}}"#, None),
            (r#"{"rank":"0","children":null}"#, None),
            ("", Some((0, 0, 0))),
        ] {
            assert_eq!(count_entries(entries), expected, "{entries}");
        }
    }

    #[test]
    fn an_r_that_names_a_rank_twice_is_invalid() {
        assert_eq!(count_entries(r#"{"rank":"0-2"},{"rank":"2"}"#), None);
        assert_eq!(count_entries(r#"{"rank":"0,3"},{"rank":"1-2"}"#), Some((4, 0, 0)));
    }

    #[test]
    fn texts_that_are_not_a_resource_set_are_invalid() {
        for r in ["", "[]", "[1]", "3", "{}", r#"{"version": 2}"#, r#"{"version": "1"}"#, r#"{"version": 1"#]
        {
            assert_eq!(count(r), None, "{r}");
        }
        for r in ["null", r#"{"version": 1}"#, r#"{"version": 1.0, "execution": {}}"#] {
            assert_eq!(count(r), Some(Resources::default()), "{r}");
        }
    }
}
