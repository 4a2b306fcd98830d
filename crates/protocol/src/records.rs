// SPDX-License-Identifier: LGPL-3.0-only
//! The records of a push, key by key: what each reads from, and what it becomes.

use crate::value::{BEYOND, saturated};
use fairshare::Shares;
use fairshare::shortened;
use fairshare_engine::accounts::{Association, AssociationRecord, Queue};
use fairshare_engine::ids::{BankName, Limit, ProjectName, QueueName, UserId};
use fairshare_engine::standing::{Bank, Leaf, Watermark};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Copy)]
pub enum Type {
    Integer,
    /// An integer of any size.
    BigInteger,
    Number,
    Text,
}

impl Type {
    pub fn name(self) -> &'static str {
        match self {
            Type::Integer | Type::BigInteger => "integer",
            Type::Number => "number",
            Type::Text => "string",
        }
    }

    pub fn fits(self, value: &RawValue) -> bool {
        let text = value.get();
        match self {
            Type::Integer => text.parse::<i64>().is_ok(),
            Type::BigInteger => {
                let is_beyond = |number: f64| number.is_finite() && number.abs() >= BEYOND;
                text.parse::<i64>().is_ok() || text.parse::<f64>().is_ok_and(is_beyond)
            }
            Type::Number => text.parse::<f64>().is_ok_and(f64::is_finite),
            Type::Text => text.starts_with('"'),
        }
    }
}

/// A kind of record: how it reads from JSON, whose text lives for `'a`, and what it becomes.
pub trait Wire<'a>: Deserialize<'a> {
    type Record;
    /// The array's name in error texts.
    const ARRAY: &'static str;
    const KEYS: &'static [(&'static str, Type)];
    /// Keys that all are there, or none.
    const TOGETHER: &'static [(&'static str, Type)] = &[];
    /// The keys that say whom or what a record is about, each with the word for it.
    const WHO: &'static [(&'static str, &'static str)];
    /// Whom or what this one is about, in the same words.
    fn who(&self) -> Vec<(&'static str, String)>;
    /// Says why the record concerns no job and is left out; `None` for any other record.
    fn left_out(&self) -> Option<String> {
        None
    }
    /// The record, or the key at fault and what is wrong.
    fn accept(&self, names: &mut Interner) -> Result<Self::Record, (&'static str, String)>;
    /// Keys and values of limits, for warnings about negative ones.
    fn limits(&self) -> [(&'static str, i64); 5] {
        [("", 0); 5]
    }
}

/// Associations of a site share few banks and lists: each is kept once.
#[derive(Default)]
pub struct Interner {
    banks: BTreeMap<String, BankName>,
    queues: BTreeMap<String, Arc<[QueueName]>>,
    projects: BTreeMap<String, Arc<[ProjectName]>>,
    project: BTreeMap<String, ProjectName>,
}

fn items(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn interned<T: Clone>(known: &mut BTreeMap<String, T>, text: &str, make: impl FnOnce() -> T) -> T {
    if let Some(found) = known.get(text) {
        return found.clone();
    }
    let made = make();
    known.insert(text.to_owned(), made.clone());
    made
}

impl Interner {
    fn bank(&mut self, name: &str) -> BankName {
        interned(&mut self.banks, name, || name.into())
    }

    fn queues(&mut self, list: &str) -> Arc<[QueueName]> {
        interned(&mut self.queues, list, || items(list).map(Into::into).collect())
    }

    fn projects(&mut self, list: &str) -> Arc<[ProjectName]> {
        interned(&mut self.projects, list, || items(list).map(Into::into).collect())
    }

    fn project(&mut self, name: &str) -> ProjectName {
        interned(&mut self.project, name, || name.into())
    }
}

type Checked = Result<(), (&'static str, String)>;

/// Checks a name; `remedy` says what to do about an empty one, which `flux account` can store.
fn named(key: &'static str, name: &str, remedy: &str) -> Checked {
    if name.is_empty() {
        return Err((key, format!("expected a name, got an empty string; {remedy}")));
    }
    printable(key, name)
}

/// Flux's JSON knows no NUL within text: a name with one could never be shown again, nor matched by a job's.
fn printable(key: &'static str, text: &str) -> Checked {
    if text.contains('\0') { Err((key, "contains the character NUL".to_owned())) } else { Ok(()) }
}

/// There may be very many of these: what they say stays where it was read.
#[derive(Deserialize)]
pub struct AssociationWire<'a> {
    #[serde(deserialize_with = "saturated")]
    userid: i64,
    #[serde(borrow)]
    bank: Cow<'a, str>,
    #[serde(borrow)]
    def_bank: Cow<'a, str>,
    fairshare: f64,
    max_running_jobs: i64,
    max_active_jobs: i64,
    max_sched_jobs: i64,
    max_nodes: i64,
    max_cores: i64,
    #[serde(borrow)]
    queues: Cow<'a, str>,
    #[serde(borrow)]
    projects: Cow<'a, str>,
    #[serde(borrow)]
    def_project: Cow<'a, str>,
    active: i64,
    username: Option<String>,
    shares: Option<i64>,
    usage: Option<f64>,
    counted_until: Option<f64>,
}

/// An association, unless its record concerns no job, and its leaf of the tree if the record has one.
pub type AssociationWithLeaf = (Option<AssociationRecord>, Option<Leaf>);

impl<'a> Wire<'a> for AssociationWire<'a> {
    type Record = AssociationWithLeaf;
    const ARRAY: &'static str = "associations";
    const KEYS: &'static [(&'static str, Type)] = &[
        ("userid", Type::BigInteger),
        ("bank", Type::Text),
        ("def_bank", Type::Text),
        ("fairshare", Type::Number),
        ("max_running_jobs", Type::Integer),
        ("max_active_jobs", Type::Integer),
        ("max_sched_jobs", Type::Integer),
        ("max_nodes", Type::Integer),
        ("max_cores", Type::Integer),
        ("queues", Type::Text),
        ("projects", Type::Text),
        ("def_project", Type::Text),
        ("active", Type::Integer),
    ];
    const TOGETHER: &'static [(&'static str, Type)] = &[
        ("username", Type::Text),
        ("shares", Type::Integer),
        ("usage", Type::Number),
        ("counted_until", Type::Number),
    ];
    const WHO: &'static [(&'static str, &'static str)] = &[("userid", "user"), ("bank", "bank")];

    fn who(&self) -> Vec<(&'static str, String)> {
        vec![("user", self.userid.to_string()), ("bank", self.bank.to_string())]
    }

    fn left_out(&self) -> Option<String> {
        let who = match self.username.as_deref().filter(|name| !name.is_empty()) {
            Some(name) => format!("user {}", shortened(name).escape_debug()),
            None => format!("userid {}", self.userid),
        };
        let bank = shortened(&self.bank);
        let text = format!(
            ".userid: {} is outside 0 to {}: no job can match {who} in bank {}, whose limits are left out",
            self.userid,
            u32::MAX - 1,
            bank.escape_debug(),
        );
        self.user().is_none().then_some(text)
    }

    fn accept(&self, names: &mut Interner) -> Result<AssociationWithLeaf, (&'static str, String)> {
        named("bank", &self.bank, "\"flux account delete-user --force USER ''\" removes it")?;
        named("def_bank", &self.def_bank, "\"flux account edit-user --default-bank=BANK USER\" sets one")?;
        printable("queues", &self.queues)?;
        printable("projects", &self.projects)?;
        printable("def_project", &self.def_project)?;
        let def_project = self.def_project.trim();
        let user = self.user();
        let leaf = self.leaf(user, names)?;
        let Some(user) = user else { return Ok((None, leaf)) };
        let association = Association {
            user,
            bank: names.bank(&self.bank),
            max_running_jobs: Limit(self.max_running_jobs),
            max_active_jobs: Limit(self.max_active_jobs),
            max_sched_jobs: Limit(self.max_sched_jobs),
            max_nodes: Limit(self.max_nodes),
            max_cores: Limit(self.max_cores),
            queues: names.queues(&self.queues),
            projects: names.projects(&self.projects),
            def_project: (!def_project.is_empty()).then(|| names.project(def_project)),
            active: self.active != 0,
        };
        let def_bank = names.bank(&self.def_bank);
        Ok((Some(AssociationRecord { association, fairshare: self.fairshare, def_bank }), leaf))
    }

    fn limits(&self) -> [(&'static str, i64); 5] {
        [
            ("max_running_jobs", self.max_running_jobs),
            ("max_active_jobs", self.max_active_jobs),
            ("max_sched_jobs", self.max_sched_jobs),
            ("max_nodes", self.max_nodes),
            ("max_cores", self.max_cores),
        ]
    }
}

impl AssociationWire<'_> {
    /// Returns the user whose jobs the record is about; `None` if no job can have that user id.
    fn user(&self) -> Option<UserId> {
        u32::try_from(self.userid).ok().filter(|id| *id != u32::MAX).map(UserId)
    }

    fn leaf(
        &self,
        user: Option<UserId>,
        names: &mut Interner,
    ) -> Result<Option<Leaf>, (&'static str, String)> {
        let (name, shares, usage, until) = (&self.username, self.shares, self.usage, self.counted_until);
        let given = [name.is_some(), shares.is_some(), usage.is_some(), until.is_some()];
        together(Self::TOGETHER, given)?;
        let (Some(name), Some(shares), Some(until)) = (name, shares, until) else { return Ok(None) };
        printable("username", name)?;
        Ok(Some(Leaf {
            user,
            name: name.as_str().into(),
            bank: names.bank(&self.bank),
            shares: counted("shares", shares)?,
            active: self.active != 0,
            usage,
            counted: Watermark::through(until),
        }))
    }
}

/// Keys of which all are given, or none.
fn together<const N: usize>(keys: &[(&'static str, Type)], given: [bool; N]) -> Checked {
    let missing = keys.iter().zip(given).find(|(_, is_given)| !is_given).filter(|_| given.contains(&true));
    missing.map_or(Ok(()), |((key, _), _)| Err((key, "key is missing".to_owned())))
}

fn counted(key: &'static str, shares: i64) -> Result<Shares, (&'static str, String)> {
    let wrong = |_| (key, format!("expected 0 or more, got {shares}"));
    u64::try_from(shares).map(Shares::Count).map_err(wrong)
}

#[derive(Deserialize)]
pub struct QueueWire {
    queue: String,
    priority: i64,
    max_running_jobs: i64,
    max_nodes_per_assoc: i64,
    max_sched_jobs: i64,
    max_sched_nodes_per_assoc: i64,
    max_sched_cores_per_assoc: i64,
    min_nodes_per_job: i64,
    max_nodes_per_job: i64,
    max_time_per_job: i64,
}

impl Wire<'_> for QueueWire {
    type Record = Queue;
    const ARRAY: &'static str = "queues";
    const KEYS: &'static [(&'static str, Type)] = &[
        ("queue", Type::Text),
        ("priority", Type::Integer),
        ("max_running_jobs", Type::Integer),
        ("max_nodes_per_assoc", Type::Integer),
        ("max_sched_jobs", Type::Integer),
        ("max_sched_nodes_per_assoc", Type::Integer),
        ("max_sched_cores_per_assoc", Type::Integer),
        ("min_nodes_per_job", Type::Integer),
        ("max_nodes_per_job", Type::Integer),
        ("max_time_per_job", Type::Integer),
    ];
    const WHO: &'static [(&'static str, &'static str)] = &[("queue", "queue")];

    fn who(&self) -> Vec<(&'static str, String)> {
        vec![("queue", self.queue.clone())]
    }

    fn accept(&self, _: &mut Interner) -> Result<Queue, (&'static str, String)> {
        named("queue", &self.queue, "\"flux account delete-queue ''\" removes it")?;
        Ok(Queue {
            name: self.queue.as_str().into(),
            priority: self.priority,
            max_running_jobs: Limit(self.max_running_jobs),
            max_nodes_per_assoc: Limit(self.max_nodes_per_assoc),
            max_sched_jobs: Limit(self.max_sched_jobs),
            max_sched_nodes_per_assoc: Limit(self.max_sched_nodes_per_assoc),
            max_sched_cores_per_assoc: Limit(self.max_sched_cores_per_assoc),
            min_nodes_per_job: self.min_nodes_per_job,
            max_nodes_per_job: self.max_nodes_per_job,
            max_time_per_job: self.max_time_per_job,
        })
    }

    fn limits(&self) -> [(&'static str, i64); 5] {
        [
            ("max_running_jobs", self.max_running_jobs),
            ("max_nodes_per_assoc", self.max_nodes_per_assoc),
            ("max_sched_jobs", self.max_sched_jobs),
            ("max_sched_nodes_per_assoc", self.max_sched_nodes_per_assoc),
            ("max_sched_cores_per_assoc", self.max_sched_cores_per_assoc),
        ]
    }
}

#[derive(Deserialize)]
pub struct ProjectWire {
    project: String,
}

impl Wire<'_> for ProjectWire {
    type Record = ProjectName;
    const ARRAY: &'static str = "projects";
    const KEYS: &'static [(&'static str, Type)] = &[("project", Type::Text)];
    const WHO: &'static [(&'static str, &'static str)] = &[("project", "project")];

    fn who(&self) -> Vec<(&'static str, String)> {
        vec![("project", self.project.clone())]
    }

    fn accept(&self, _: &mut Interner) -> Result<ProjectName, (&'static str, String)> {
        named("project", &self.project, "\"flux account delete-project ''\" removes it")?;
        Ok(self.project.as_str().into())
    }
}

#[derive(Deserialize)]
pub struct BankWire {
    bank: String,
    priority: f64,
    parent: Option<String>,
    shares: Option<i64>,
    active: Option<i64>,
}

/// A bank's priority, and its place in the tree if the record has one.
pub type BankWithBranch = ((BankName, f64), Option<Bank>);

impl Wire<'_> for BankWire {
    type Record = BankWithBranch;
    const ARRAY: &'static str = "banks";
    const KEYS: &'static [(&'static str, Type)] = &[("bank", Type::Text), ("priority", Type::Number)];
    const TOGETHER: &'static [(&'static str, Type)] =
        &[("parent", Type::Text), ("shares", Type::Integer), ("active", Type::Integer)];
    const WHO: &'static [(&'static str, &'static str)] = &[("bank", "bank")];

    fn who(&self) -> Vec<(&'static str, String)> {
        vec![("bank", self.bank.clone())]
    }

    fn accept(&self, names: &mut Interner) -> Result<Self::Record, (&'static str, String)> {
        named("bank", &self.bank, "\"flux account delete-bank --force ''\" removes it")?;
        let name = names.bank(&self.bank);
        let given = [self.parent.is_some(), self.shares.is_some(), self.active.is_some()];
        together(Self::TOGETHER, given)?;
        let branch = match (&self.parent, self.shares, self.active) {
            (Some(parent), Some(shares), Some(active)) => {
                printable("parent", parent)?;
                Some(Bank {
                    name: name.clone(),
                    parent: (!parent.is_empty()).then(|| names.bank(parent)),
                    shares: counted("shares", shares)?,
                    usage: None,
                    active: active != 0,
                })
            }
            _ => None,
        };
        Ok(((name, self.priority), branch))
    }
}

#[derive(Deserialize)]
pub struct FactorWire {
    factor: String,
    weight: i64,
}

impl Wire<'_> for FactorWire {
    type Record = (String, i64);
    const ARRAY: &'static str = "priority_factors";
    const KEYS: &'static [(&'static str, Type)] = &[("factor", Type::Text), ("weight", Type::Integer)];
    const WHO: &'static [(&'static str, &'static str)] = &[("factor", "factor")];

    fn who(&self) -> Vec<(&'static str, String)> {
        vec![("factor", self.factor.clone())]
    }

    fn accept(&self, _: &mut Interner) -> Result<Self::Record, (&'static str, String)> {
        named("factor", &self.factor, "name the factor")?;
        Ok((self.factor.clone(), self.weight))
    }
}
