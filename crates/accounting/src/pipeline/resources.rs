// SPDX-License-Identifier: LGPL-3.0-only
//! What a job ran on, counted from its R (RFC 20, version 1), and its bank, without building the documents in memory.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Error, IgnoredAny, Visitor};
use serde::{Deserialize, Deserializer};

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
}

/// Ranks that are alike.
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

/// An idset, or a number that stands for one.
enum Ids<'a> {
    Text(Cow<'a, str>),
    One(u32),
}

impl<'de: 'a, 'a> Deserialize<'de> for Ids<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Either;

        impl<'de> Visitor<'de> for Either {
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
        deserializer.deserialize_any(Either)
    }
}

#[derive(Deserialize)]
struct Jobspec<'a> {
    #[serde(borrow, default)]
    attributes: Attributes<'a>,
}

#[derive(Default, Deserialize)]
struct Attributes<'a> {
    #[serde(borrow, default)]
    system: System<'a>,
}

#[derive(Default, Deserialize)]
struct System<'a> {
    #[serde(borrow)]
    bank: Option<Cow<'a, str>>,
}

/// The bank that a jobspec names.
pub fn bank(jobspec: &str) -> Option<Cow<'_, str>> {
    serde_json::from_str::<Jobspec<'_>>(jobspec).ok()?.attributes.system.bank
}

/// What else of a jobspec matters to who replays it.
#[derive(Debug, Default, Deserialize)]
pub struct Terms<'a> {
    /// The bank it names.
    #[serde(borrow)]
    pub bank: Option<Cow<'a, str>>,
    /// The queue it names.
    #[serde(borrow)]
    pub queue: Option<Cow<'a, str>>,
    /// How long it asked to run, in seconds.
    pub duration: Option<f64>,
}

/// Bank, queue and duration of a jobspec; nothing of one that can't be read.
pub fn terms(jobspec: &str) -> Terms<'_> {
    #[derive(Deserialize)]
    struct Outer<'a> {
        #[serde(borrow)]
        attributes: Inner<'a>,
    }
    #[derive(Deserialize)]
    struct Inner<'a> {
        #[serde(borrow)]
        system: Terms<'a>,
    }
    serde_json::from_str::<Outer<'_>>(jobspec).map(|it| it.attributes.system).unwrap_or_default()
}

/// The resources in an R; `None` if it can't be read.
pub fn count(r: &str) -> Option<Resources> {
    // Serde would read an array as an object without names.
    if r.trim_start().starts_with('[') {
        return None;
    }
    let Ok(R { version, execution }) = serde_json::from_str::<R<'_>>(r) else {
        // What flux-accounting takes for an empty set.
        return matches!(serde_json::from_str::<Option<IgnoredAny>>(r), Ok(None)).then(Resources::default);
    };
    if version != 1.0 {
        return None;
    }
    let mut sum = Resources::default();
    let mut ranks = Ranks::default();
    for entry in &execution.entries {
        let mut nodes = 0;
        entry.rank.each(|low, high| {
            ranks.add(low, high);
            nodes += u64::from(high - low) + 1;
        })?;
        let each = |ids: &Option<Ids<'_>>| ids.as_ref().map_or(Some(0), Ids::count);
        sum.nodes = sum.nodes.checked_add(nodes)?;
        sum.cores = sum.cores.checked_add(nodes.checked_mul(each(&entry.children.core)?)?)?;
        sum.gpus = sum.gpus.checked_add(nodes.checked_mul(each(&entry.children.gpu)?)?)?;
    }
    ranks.are_distinct().then_some(sum)
}

impl Ids<'_> {
    fn count(&self) -> Option<u64> {
        match self {
            Ids::One(_) => Some(1),
            Ids::Text(text) => idset::count(text),
        }
    }

    /// Calls for each range; `None` if this is no idset (RFC 22).
    fn each(&self, mut call: impl FnMut(u32, u32)) -> Option<()> {
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

    fn of(entries: &str) -> Option<(u64, u64, u64)> {
        let r = format!(
            r#"{{"version": 1, "execution": {{"R_lite": [{entries}], "nodelist": ["n[0-9]"],
                "starttime": 1.5, "expiration": 0.0}}, "scheduling": {{"graph": [1, "x", null]}}}}"#
        );
        count(&r).map(|found| (found.nodes, found.cores, found.gpus))
    }

    /// Rows that flux-core's `ResourceSet` was asked about too.
    #[test]
    fn nodes_cores_and_gpus_are_what_flux_core_counts() {
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
            assert_eq!(of(entries), expected, "{entries}");
        }
    }

    #[test]
    fn a_rank_named_twice_is_no_r() {
        assert_eq!(of(r#"{"rank":"0-2"},{"rank":"2"}"#), None);
        assert_eq!(of(r#"{"rank":"0,3"},{"rank":"1-2"}"#), Some((4, 0, 0)));
    }

    #[test]
    fn what_is_no_r_is_not_read() {
        for r in ["", "[]", "[1]", "3", "{}", r#"{"version": 2}"#, r#"{"version": "1"}"#, r#"{"version": 1"#]
        {
            assert_eq!(count(r), None, "{r}");
        }
        for r in ["null", r#"{"version": 1}"#, r#"{"version": 1.0, "execution": {}}"#] {
            assert_eq!(count(r), Some(Resources::default()), "{r}");
        }
    }
}
