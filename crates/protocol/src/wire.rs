// SPDX-License-Identifier: LGPL-3.0-only
//! The records flux-accounting pushes, and what is wrong with them.
//!
//! A payload is read whole before anything is applied.

use crate::field::Record;
use crate::limits::{self, LIMITS};
use crate::reading::Reader;
use crate::records::{BankRecord, BorrowedAssociation, FactorRecord, ProjectRecord, QueueRecord};
use crate::settings;
use crate::tree::{self, TREE};
use crate::value::{Members, Object, describe, members};
use fairshare::shortened;
use fairshare_engine::accounts::{
    AssociationRecord, Config, ConfigPatch, Policy, PolicyPart, Queue, ZeroScore,
};
use fairshare_engine::engine::Settings;
use fairshare_engine::engine::answers::PageWanted;
use fairshare_engine::ids::{BankName, JobId, ProjectName, UserId};
use fairshare_engine::standing::{Bank, SitePart};
use serde::Deserialize;
use serde_json::value::RawValue;

/// Why a payload was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireError {
    /// Absent, no JSON, or no `data`; the text says which.
    Undecodable(String),
    /// `data` is not of the array's or object's type.
    WrongType(&'static str),
    /// One record; the text names array, index, key and fault.
    Record(String),
}

const DENY_UNKNOWN_QUEUES: &str = "deny_unknown_queues";
const ZERO_SCORE: &str = "zero_score";
/// The arrays of a whole policy.
const ARRAYS: [&str; 5] = ["associations", "queues", "projects", "banks", "priority_factors"];

#[derive(Deserialize)]
struct Payload<R> {
    data: Vec<Object<R>>,
}

fn from_payload<'a, R: Record + Deserialize<'a>>(
    payload: Option<&'a str>,
    reader: &mut Reader,
) -> Result<Vec<R::Accepted>, WireError> {
    match serde_json::from_str::<Object<Payload<R>>>(payload.unwrap_or_default()) {
        Ok(Object(payload)) => reader.accept(payload.data),
        Err(_) => reader.array::<R>(data(payload)?),
    }
}

fn data(payload: Option<&str>) -> Result<&RawValue, WireError> {
    let missing = || WireError::Undecodable("the key \"data\" is missing".to_owned());
    object(payload)?.get("data").copied().ok_or_else(missing)
}

/// The members of a payload, which is to be an object.
pub fn object(payload: Option<&str>) -> Result<Members<'_>, WireError> {
    let text = payload.ok_or_else(|| WireError::Undecodable("there is no payload".to_owned()))?;
    let value: &RawValue =
        serde_json::from_str(text).map_err(|error| WireError::Undecodable(error.to_string()))?;
    members(value)
        .ok_or_else(|| WireError::Undecodable(format!("expected an object, got {}", describe(value))))
}

/// `rec_update`.
pub fn associations(payload: Option<&str>, reader: &mut Reader) -> Result<Vec<AssociationRecord>, WireError> {
    let records = from_payload::<BorrowedAssociation>(payload, reader)?;
    Ok(records.into_iter().filter_map(|(record, _)| record).collect())
}

/// `rec_q_update`.
pub fn queues(payload: Option<&str>, reader: &mut Reader) -> Result<Vec<Queue>, WireError> {
    from_payload::<QueueRecord>(payload, reader)
}

/// `rec_proj_update`.
pub fn projects(payload: Option<&str>, reader: &mut Reader) -> Result<Vec<ProjectName>, WireError> {
    from_payload::<ProjectRecord>(payload, reader)
}

/// `rec_bank_update`.
pub fn banks(payload: Option<&str>, reader: &mut Reader) -> Result<Vec<(BankName, f64)>, WireError> {
    let records = from_payload::<BankRecord>(payload, reader)?;
    Ok(records.into_iter().map(|(bank, _)| bank).collect())
}

/// `rec_fac_update`.
pub fn weights(payload: Option<&str>, reader: &mut Reader) -> Result<Vec<(String, i64)>, WireError> {
    from_payload::<FactorRecord>(payload, reader)
}

/// `rec_config_update`. A newer database may know of switches that we don't: they are warned of.
pub fn config(payload: Option<&str>, reader: &mut Reader) -> Result<ConfigPatch, WireError> {
    let value = data(payload)?;
    let patch = config_of(value)?;
    warn_of_switches(value, reader);
    Ok(patch)
}

fn config_of(value: &RawValue) -> Result<ConfigPatch, WireError> {
    let members = members(value).ok_or(WireError::WrongType("config"))?;
    let deny =
        members.get(DENY_UNKNOWN_QUEUES).map(|value| boolean(DENY_UNKNOWN_QUEUES, value)).transpose()?;
    let score = members.get(ZERO_SCORE).map(|value| match value.get() {
        "\"hold\"" => Ok(ZeroScore::Hold),
        "\"floor\"" => Ok(ZeroScore::Floor),
        other => {
            let text = format!("{ZERO_SCORE}: expected \"hold\" or \"floor\", got {}", shortened(other));
            Err(WireError::Record(text))
        }
    });
    Ok(ConfigPatch { deny_unknown_queues: deny, zero_score: score.transpose()? })
}

/// The switches of a `config` object that are nobody's.
fn unknown_switches(value: &RawValue) -> Vec<String> {
    unknown(&members(value).unwrap_or_default(), &[DENY_UNKNOWN_QUEUES, ZERO_SCORE])
}

fn warn_of_switches(config: &RawValue, reader: &mut Reader) {
    for key in unknown_switches(config) {
        reader.warnings.note(|| format!("config: unknown switch {key}, ignored"));
    }
}

/// Keys that are not among `known`, as a person can read them.
fn unknown(members: &Members<'_>, known: &[&str]) -> Vec<String> {
    let strange = members.keys().filter(|key| !known.contains(&key.as_ref()));
    strange.map(|key| format!("\"{}\"", shortened(key).escape_debug())).collect()
}

fn boolean(key: &str, value: &RawValue) -> Result<bool, WireError> {
    match value.get() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(WireError::Record(format!("{key}: expected boolean, got {}", describe(value)))),
    }
}

/// `policy_update`: a whole policy, bare or under `data`, and whether only to say what it would change. `dry_run` may
/// stand in either place: what was meant as a question must not become an order.
pub fn policy_update(payload: Option<&str>, reader: &mut Reader) -> Result<(Push, bool), WireError> {
    let outer = object(payload)?;
    let inner =
        outer.get("data").map(|data| members(data).ok_or(WireError::WrongType("policy"))).transpose()?;
    let mut dry_run = false;
    for part in [Some(&outer), inner.as_ref()].into_iter().flatten() {
        if let Some(value) = part.get("dry_run") {
            dry_run |= boolean("policy.dry_run", value)?;
        }
    }
    let parts = inner.unwrap_or(outer);
    for array in ARRAYS {
        if !parts.contains_key(array) {
            return Err(WireError::Record(format!("policy.{array}: key is missing")));
        }
    }
    Ok((push_of(&parts, reader)?, dry_run))
}

/// How a policy that comes in parts is to be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beginning {
    /// Only say at the commit what it would change.
    pub dry_run: bool,
    /// Switches that no part mentions stay as they are.
    pub keeps_config: bool,
    /// After how many seconds without a part it is given up.
    pub expires: u64,
}

/// `policy_begin`. It needs no payload.
pub fn policy_begin(payload: Option<&str>) -> Result<Beginning, WireError> {
    const MOST: u64 = 3600;
    let members = payload.map_or_else(|| Ok(Members::new()), |text| object(Some(text)))?;
    let flag =
        |key: &str| members.get(key).map_or(Ok(false), |value| boolean(&format!("policy.{key}"), value));
    let expires = match members.get("expires") {
        None => 60,
        Some(value) => {
            value.get().parse().ok().filter(|seconds| (1..=MOST).contains(seconds)).ok_or_else(|| {
                let found = describe(value);
                WireError::Record(format!(
                    "policy.expires: expected an integer from 1 to {MOST}, got {found}"
                ))
            })?
        }
    };
    Ok(Beginning { dry_run: flag("dry_run")?, keeps_config: flag("keep_config")?, expires })
}

/// The number of the push that `policy_part`, `policy_commit` and `policy_abort` are about.
pub fn push_number(payload: Option<&str>) -> Result<u64, WireError> {
    let members = object(payload)?;
    let missing = || WireError::Record("policy.push: key is missing".to_owned());
    let value = members.get("push").ok_or_else(missing)?;
    let wrong = || WireError::Record(format!("policy.push: expected integer, got {}", describe(value)));
    value.get().parse().map_err(|_| wrong())
}

/// `policy_part`: some of the arrays, or parts of them.
pub fn policy_part(payload: Option<&str>, reader: &mut Reader) -> Result<PushPart, WireError> {
    part_of(&object(payload)?, reader)
}

/// What a page shows at most of held jobs before it ends, however few the associations.
const MAX_HELD: usize = 2000;

/// `associations`. It needs no payload.
pub fn page(payload: Option<&str>) -> Result<PageWanted, WireError> {
    const MOST: usize = 1000;
    let members = payload.map_or_else(|| Ok(Members::new()), |text| object(Some(text)))?;
    let given = |key: &str| members.get(key).filter(|value| value.get() != "null").copied();
    let wrong = |key: &str, wanted: &str, found: &RawValue| {
        WireError::Record(format!("{key}: expected {wanted}, got {}", describe(found)))
    };
    let after = given("after").map(|value| {
        let pair = serde_json::from_str::<(u32, String)>(value.get());
        pair.map_err(|_| wrong("after", "[userid, bank]", value))
    });
    let user = given("user").map(|value| value.get().parse().map_err(|_| wrong("user", "a user id", value)));
    let limit = given("limit").map_or(Ok(MOST), |value| {
        let limit = value.get().parse().ok().filter(|limit| (1..=MOST).contains(limit));
        limit.ok_or_else(|| wrong("limit", &format!("an integer from 1 to {MOST}"), value))
    });
    let after = after.transpose()?.map(|(user, bank)| (UserId(user), bank));
    Ok(PageWanted { after, user: user.transpose()?.map(UserId), most: limit?, most_held: MAX_HELD })
}

/// `tree`: the place of the first leaf of the page, and the number of leaves at most. It needs no payload.
pub fn tree_page(payload: Option<&str>) -> Result<(usize, usize), WireError> {
    const MOST: usize = 1000;
    let members = payload.map_or_else(|| Ok(Members::new()), |text| object(Some(text)))?;
    let number = |key: &str, or: usize, range: std::ops::RangeInclusive<usize>| {
        let Some(value) = members.get(key).filter(|value| value.get() != "null") else { return Ok(or) };
        let number = value.get().parse().ok().filter(|number| range.contains(number));
        let (least, most) = (range.start(), range.end());
        number.ok_or_else(|| {
            let text = format!("{key}: expected an integer from {least} to {most}, got {}", describe(value));
            WireError::Record(text)
        })
    };
    Ok((number("after", 0, 0..=u32::MAX as usize)?, number("limit", MOST, 1..=MOST)?))
}

/// Which prices are asked for.
pub struct PricesWanted {
    /// Those of these jobs, and of no others.
    pub ids: Option<Vec<JobId>>,
    /// Those of jobs that come after this one.
    pub after: Option<JobId>,
    /// So many at most.
    pub most: usize,
}

/// `prices`. It needs no payload.
pub fn prices(payload: Option<&str>) -> Result<PricesWanted, WireError> {
    const MOST: usize = 1000;
    let members = payload.map_or_else(|| Ok(Members::new()), |text| object(Some(text)))?;
    let given = |key: &str| members.get(key).filter(|value| value.get() != "null").copied();
    let wrong = |key: &str, wanted: &str, found: &RawValue| {
        WireError::Record(format!("{key}: expected {wanted}, got {}", describe(found)))
    };
    let ids = given("ids").map(|value| {
        let ids = serde_json::from_str::<Vec<u64>>(value.get()).ok().filter(|ids| ids.len() <= MOST);
        ids.ok_or_else(|| wrong("ids", &format!("an array of at most {MOST} job ids"), value))
    });
    let after =
        given("after").map(|value| value.get().parse().map_err(|_| wrong("after", "a job id", value)));
    let most = given("limit").map_or(Ok(MOST), |value| {
        let limit = value.get().parse().ok().filter(|limit| (1..=MOST).contains(limit));
        limit.ok_or_else(|| wrong("limit", &format!("an integer from 1 to {MOST}"), value))
    });
    let ids = ids.transpose()?.map(|ids| ids.into_iter().map(JobId).collect());
    Ok(PricesWanted { ids, after: after.transpose()?.map(JobId), most: most? })
}

/// The load-time configuration: the text of the plugin's conf, whose key `config` holds a policy, all parts optional.
/// What an admin writes by hand must be known: no other option, and no other switch. Other keys of the document, and of
/// its records, may come from a newer database.
pub fn load_config(conf: &str, reader: &mut Reader) -> Result<Option<Push>, WireError> {
    if conf.trim() == "null" {
        return Ok(None);
    }
    let conf = object(Some(conf))?;
    let known: Vec<&str> = std::iter::once("config").chain(settings::names()).collect();
    if let Some(key) = unknown(&conf, &known).first() {
        let known = known.join(", ");
        return Err(WireError::Record(format!("unknown option {key}; known are {known}")));
    }
    let Some(policy) = conf.get("config") else { return Ok(None) };
    let wrong = || WireError::Record(format!("config: expected object, got {}", describe(policy)));
    let parts = members(policy).ok_or_else(wrong)?;
    if let Some(key) = parts.get("config").and_then(|config| unknown_switches(config).into_iter().next()) {
        let text = format!(
            "config.config: unknown switch {key}, expected \"{DENY_UNKNOWN_QUEUES}\" or \"{ZERO_SCORE}\""
        );
        return Err(WireError::Record(text));
    }
    for key in unknown(&parts, &[ARRAYS.as_slice(), &["config", TREE, LIMITS]].concat()) {
        reader.warnings.note(|| format!("config: unknown key {key}, ignored"));
    }
    push_of(&parts, reader).map(Some)
}

/// The load-time settings: all keys of the plugin's conf but `config`, in the place of those given.
pub fn load_settings(conf: &str, settings: Settings) -> Result<Settings, String> {
    if conf.trim() == "null" {
        return Ok(settings);
    }
    let Ok(mut keys) = object(Some(conf)) else { return Ok(settings) };
    keys.remove("config");
    settings::of_members(&keys, settings, "")
}

/// A whole policy, and what it says of a tree.
pub type Push = (Policy, SitePart);
/// A part of them.
pub type PushPart = (PolicyPart, SitePart);

fn push_of(parts: &Members<'_>, reader: &mut Reader) -> Result<Push, WireError> {
    let (part, site) = part_of(parts, reader)?;
    let policy = Policy {
        associations: part.associations.unwrap_or_default(),
        queues: part.queues.unwrap_or_default(),
        projects: part.projects.unwrap_or_default(),
        banks: part.banks.unwrap_or_default(),
        parents: part.parents,
        limits: part.limits,
        weights: part.weights.unwrap_or_default(),
        config: Config::default().patched(part.config),
    };
    Ok((policy, site))
}

fn part_of(parts: &Members<'_>, reader: &mut Reader) -> Result<PushPart, WireError> {
    fn array<'a, R: Record + Deserialize<'a>>(
        parts: &Members<'a>,
        reader: &mut Reader,
    ) -> Result<Option<Vec<R::Accepted>>, WireError> {
        parts.get(R::ARRAY).map(|array| reader.array::<R>(array)).transpose()
    }
    let within = |fault| match fault {
        WireError::Record(text) => WireError::Record(format!("config.{text}")),
        other => other,
    };
    fn split<A, B>(records: Option<Vec<(A, Option<B>)>>) -> (Option<Vec<A>>, Vec<B>) {
        let Some(records) = records else { return (None, Vec::new()) };
        let (all, some): (Vec<A>, Vec<Option<B>>) = records.into_iter().unzip();
        (Some(all), some.into_iter().flatten().collect())
    }
    let (associations, leaves) = split(array::<BorrowedAssociation>(parts, reader)?);
    let associations = associations.map(|records| records.into_iter().flatten().collect());
    let (banks, branches) = split(array::<BankRecord>(parts, reader)?);
    let above = |bank: &Bank| Some((bank.name.clone(), bank.parent.clone()?));
    let parents = branches.iter().filter_map(above).collect();
    let limits = parts.get(LIMITS).map(|limits| limits::read(limits, LIMITS)).transpose()?;
    let rule =
        parts.get(TREE).filter(|tree| tree.get() != "null").map(|tree| tree::rule(tree)).transpose()?;
    let part = PolicyPart {
        associations,
        queues: array::<QueueRecord>(parts, reader)?,
        projects: array::<ProjectRecord>(parts, reader)?,
        banks,
        parents,
        limits: limits.unwrap_or_default(),
        weights: array::<FactorRecord>(parts, reader)?,
        config: parts.get("config").map(|c| config_of(c)).transpose().map_err(within)?.unwrap_or_default(),
    };
    if let Some(config) = parts.get("config") {
        warn_of_switches(config, reader);
    }
    Ok((part, SitePart { rule, banks: branches, associations: leaves }))
}
