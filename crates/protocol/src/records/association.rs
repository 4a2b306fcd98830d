// SPDX-License-Identifier: LGPL-3.0-only
//! The records of associations.

use super::{UNLIMITED_SQL, check_all_or_none_given, check_name, check_text, from_shares, to_shares};
use crate::field::{Fault, Field, Kind, Record};
use crate::interner::Interner;
use crate::value::{present, saturated};
use fairshare::accrual::MAX_TIME;
use fairshare::shortened;
use fairshare_engine::accounts::{self, Association};
use fairshare_engine::ids::{Limit, UserId};
use fairshare_engine::standing::{Leaf, Watermark};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::fmt::Display;

/// Text that is borrowed from the payload, or copied if it contains escapes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

impl AsRef<str> for Text<'_> {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

impl<'a> From<&'a str> for Text<'a> {
    fn from(text: &'a str) -> Self {
        Text(text.into())
    }
}

/// Returns the names as a list separated by commas.
fn join_names<T: Display>(names: &[T]) -> Text<'static> {
    Text(names.iter().map(ToString::to_string).collect::<Vec<_>>().join(",").into())
}

/// A user in a bank: limits, permissions, fair-share, and the leaf of the tree. The plugin uses [`Text`] as `S`, because it reads
/// many records.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssociationRecord<S = String> {
    /// The Unix user id.
    #[serde(deserialize_with = "saturated")]
    pub userid: i64,
    /// The bank of the association.
    pub bank: S,
    /// The user's default bank.
    pub def_bank: S,
    /// The fair-share, from 0 to 1. Only records in the snapshot have no fair-share, because the snapshot stores
    /// fair-shares in other chunks.
    #[serde(deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub fairshare: Option<f64>,
    /// Cap on running jobs.
    pub max_running_jobs: i64,
    /// Cap on active jobs, checked at submission; 0 is unlimited.
    pub max_active_jobs: i64,
    /// Cap on jobs in SCHED.
    pub max_sched_jobs: i64,
    /// Cap on the nodes of running jobs.
    pub max_nodes: i64,
    /// Cap on the cores of running jobs.
    pub max_cores: i64,
    /// Permitted queues, separated by commas.
    pub queues: S,
    /// Permitted projects, separated by commas.
    pub projects: S,
    /// The user's default project.
    pub def_project: S,
    /// 0 if the association is disabled.
    pub active: i64,
    /// The user's name. Tied siblings are sorted by this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username: Option<S>,
    /// The shares among the siblings in the bank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<i64>,
    /// The association usage, in seconds times weight; negative if credits offset later usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usage: Option<f64>,
    /// The watermark of the usage, in seconds since the epoch. Jobs that ended later are not in the usage
    /// yet. Jobs that ended at or before this time are in the usage, or will never be added to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counted_until: Option<f64>,
}

/// An association as the plugin reads it.
pub type BorrowedAssociation<'a> = AssociationRecord<Text<'a>>;

/// The association and the leaf of the tree that one record describes. The association is `None` if no job
/// can match the record. The leaf is `None` if the record does not describe a leaf.
pub type AssociationWithLeaf = (Option<accounts::AssociationRecord>, Option<Leaf>);

impl<S: AsRef<str> + Serialize> Record for AssociationRecord<S> {
    type Accepted = AssociationWithLeaf;
    const ARRAY: &'static str = "associations";
    const TABLE: &'static str = "association_table";
    /// A supported database may lack a column only if this column's field has a substitute value.
    const FIELDS: &'static [Field] = &[
        Field::new("userid", Kind::UserId),
        Field::new("bank", Kind::Name),
        Field::new("def_bank", Kind::Name).with_column(Some("default_bank")),
        Field::new("fairshare", Kind::Number),
        Field::new("max_running_jobs", Kind::Integer),
        Field::new("max_active_jobs", Kind::Integer),
        Field::new("max_sched_jobs", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("max_nodes", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("max_cores", Kind::Integer).with_substitute(UNLIMITED_SQL),
        Field::new("queues", Kind::Text).with_substitute("''"),
        Field::new("projects", Kind::Text).with_substitute("'*'"),
        Field::new("def_project", Kind::Text).with_column(Some("default_project")).with_substitute("'*'"),
        Field::new("active", Kind::Integer).with_substitute("1"),
    ];
    const OPTIONAL: &'static [Field] = &[
        Field::new("username", Kind::Name),
        Field::new("shares", Kind::Count),
        Field::new("usage", Kind::Usage).with_column(Some("job_usage")),
        Field::new("counted_until", Kind::Number).with_column(None),
    ];
    const KEYS: &'static [(&'static str, &'static str)] = &[("userid", "user"), ("bank", "bank")];

    fn left_out(&self) -> Option<String> {
        if self.user().is_some() {
            return None;
        }
        let name = match self.username.as_ref().map(AsRef::as_ref).filter(|name| !name.is_empty()) {
            Some(name) => format!("user {}", shortened(name).escape_debug()),
            None => format!("userid {}", self.userid),
        };
        let bank = shortened(self.bank.as_ref());
        Some(format!(
            ".userid: {} is outside 0 to {}: no job can match {name} in bank {}, so the limits of this record are ignored",
            self.userid,
            u32::MAX - 1,
            bank.escape_debug(),
        ))
    }

    fn convert(&self, names: &mut Interner) -> Result<AssociationWithLeaf, Fault> {
        let (bank, def_bank) = (self.bank.as_ref(), self.def_bank.as_ref());
        let (queues, projects) = (self.queues.as_ref(), self.projects.as_ref());
        check_name("bank", bank, "\"flux account delete-user --force USER ''\" removes it")?;
        check_name("def_bank", def_bank, "\"flux account edit-user --default-bank=BANK USER\" sets one")?;
        check_text("queues", queues)?;
        check_text("projects", projects)?;
        check_text("def_project", self.def_project.as_ref())?;
        let def_project = self.def_project.as_ref().trim();
        let fairshare = self.fairshare.ok_or_else(|| ("fairshare", "key is missing".to_owned()))?;
        let user = self.user();
        let leaf = self.leaf(user, names)?;
        let Some(user) = user else { return Ok((None, leaf)) };
        let association = Association {
            user,
            bank: names.intern_bank(bank),
            max_running_jobs: Limit(self.max_running_jobs),
            max_active_jobs: Limit(self.max_active_jobs),
            max_sched_jobs: Limit(self.max_sched_jobs),
            max_nodes: Limit(self.max_nodes),
            max_cores: Limit(self.max_cores),
            queues: names.intern_queues(queues),
            projects: names.intern_projects(projects),
            def_project: (!def_project.is_empty()).then(|| names.intern_project(def_project)),
            active: self.active != 0,
        };
        let def_bank = names.intern_bank(def_bank);
        Ok((Some(accounts::AssociationRecord { association, fairshare, def_bank }), leaf))
    }

    fn limits(&self) -> impl Iterator<Item = (&'static str, i64)> {
        [
            ("max_running_jobs", self.max_running_jobs),
            ("max_active_jobs", self.max_active_jobs),
            ("max_sched_jobs", self.max_sched_jobs),
            ("max_nodes", self.max_nodes),
            ("max_cores", self.max_cores),
        ]
        .into_iter()
    }
}

impl<S: AsRef<str> + Serialize> AssociationRecord<S> {
    /// Returns the user id; `None` if no job can have it.
    pub fn user(&self) -> Option<UserId> {
        u32::try_from(self.userid).ok().filter(|id| *id != u32::MAX).map(UserId)
    }

    fn leaf(&self, user: Option<UserId>, names: &mut Interner) -> Result<Option<Leaf>, Fault> {
        let (name, shares, usage, until) = (&self.username, self.shares, self.usage, self.counted_until);
        let given = [name.is_some(), shares.is_some(), usage.is_some(), until.is_some()];
        check_all_or_none_given(Self::OPTIONAL, given)?;
        let (Some(name), Some(shares), Some(until)) = (name, shares, until) else { return Ok(None) };
        check_text("username", name.as_ref())?;
        Ok(Some(Leaf {
            user,
            name: name.as_ref().into(),
            bank: names.intern_bank(self.bank.as_ref()),
            shares: to_shares(shares)?,
            active: self.active != 0,
            usage,
            counted: Watermark::through(until),
        }))
    }
}

impl<S: Clone + Default> AssociationRecord<S> {
    /// Returns an enabled association whose limits all are `limit`, without queues, projects and leaf.
    pub fn with_limits(userid: i64, bank: S, limit: i64) -> Self {
        AssociationRecord {
            userid,
            def_bank: bank.clone(),
            bank,
            fairshare: Some(0.5),
            max_running_jobs: limit,
            max_active_jobs: limit,
            max_sched_jobs: limit,
            max_nodes: limit,
            max_cores: limit,
            active: 1,
            ..Self::default()
        }
    }
}

impl<'a> BorrowedAssociation<'a> {
    /// Converts an association of the engine and its leaf.
    pub fn from_engine(record: &'a accounts::AssociationRecord, leaf: Option<&'a Leaf>) -> Self {
        let association = &record.association;
        // This names all fields, so that the compiler reports a new field that the conversion forgets.
        let without_leaf = AssociationRecord {
            userid: association.user.0.into(),
            bank: association.bank.as_str().into(),
            def_bank: record.def_bank.as_str().into(),
            fairshare: Some(record.fairshare),
            max_running_jobs: association.max_running_jobs.0,
            max_active_jobs: association.max_active_jobs.0,
            max_sched_jobs: association.max_sched_jobs.0,
            max_nodes: association.max_nodes.0,
            max_cores: association.max_cores.0,
            queues: join_names(&association.queues),
            projects: join_names(&association.projects),
            def_project: association.def_project.as_ref().map_or("", |project| project.as_str()).into(),
            active: association.active.into(),
            username: None,
            shares: None,
            usage: None,
            counted_until: None,
        };
        if let Some(leaf) = leaf { without_leaf.with_leaf(leaf) } else { without_leaf }
    }

    /// Converts a leaf that no job matches, because its user has no valid id.
    pub fn from_leaf(leaf: &'a Leaf) -> Self {
        let record = AssociationRecord::with_limits(u32::MAX.into(), leaf.bank.as_str().into(), 0);
        AssociationRecord { active: leaf.active.into(), fairshare: Some(0.0), ..record.with_leaf(leaf) }
    }

    fn with_leaf(self, leaf: &'a Leaf) -> Self {
        AssociationRecord {
            username: Some((*leaf.name).into()),
            shares: Some(from_shares(leaf.shares)),
            // The record always has a usage and a watermark. The usage is 0 if it was never set. If no job
            // was counted, the watermark is the earliest time.
            usage: Some(leaf.usage.unwrap_or(0.0)),
            counted_until: Some(leaf.counted.end().max(-MAX_TIME)),
            ..self
        }
    }
}
