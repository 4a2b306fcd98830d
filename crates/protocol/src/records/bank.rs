// SPDX-License-Identifier: LGPL-3.0-only
//! The records of banks, of projects, and of the weights of factors.

use super::{check_all_or_none_given, check_name, check_text, from_shares, to_shares};
use crate::field::{Fault, Field, Kind, Record};
use crate::interner::Interner;
use fairshare_engine::ids::{BankName, ProjectName};
use fairshare_engine::standing::Bank;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct ProjectRecord {
    pub project: String,
}

impl Record for ProjectRecord {
    type Accepted = ProjectName;
    const ARRAY: &'static str = "projects";
    const TABLE: &'static str = "project_table";
    const FIELDS: &'static [Field] = &[Field::new("project", Kind::Name)];
    const KEYS: &'static [(&'static str, &'static str)] = &[("project", "project")];

    fn convert(&self, _: &mut Interner) -> Result<ProjectName, Fault> {
        check_name("project", &self.project, "\"flux account delete-project ''\" removes it")?;
        Ok(self.project.as_str().into())
    }
}

/// A bank: its priority, and its parent, shares and active flag in the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct BankRecord {
    pub bank: String,
    pub priority: f64,
    /// The parent bank; empty for the root.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<i64>,
    /// 0 if the bank, and all banks and associations below it, are inactive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub active: Option<i64>,
}

/// The priority of a bank, and its branch of the tree if the record has one.
pub type BankWithBranch = ((BankName, f64), Option<Bank>);

impl Record for BankRecord {
    type Accepted = BankWithBranch;
    const ARRAY: &'static str = "banks";
    const TABLE: &'static str = "bank_table";
    const FIELDS: &'static [Field] =
        &[Field::new("bank", Kind::Name), Field::new("priority", Kind::Number).with_substitute("0.0")];
    const OPTIONAL: &'static [Field] = &[
        Field::new("parent", Kind::TextOrNull).with_column(Some("parent_bank")),
        Field::new("shares", Kind::Count),
        Field::new("active", Kind::Integer).with_substitute("1"),
    ];
    const KEYS: &'static [(&'static str, &'static str)] = &[("bank", "bank")];

    fn convert(&self, names: &mut Interner) -> Result<Self::Accepted, Fault> {
        check_name("bank", &self.bank, "\"flux account delete-bank --force ''\" removes it")?;
        let name = names.intern_bank(&self.bank);
        let given = [self.parent.is_some(), self.shares.is_some(), self.active.is_some()];
        check_all_or_none_given(Self::OPTIONAL, given)?;
        let branch = match (&self.parent, self.shares, self.active) {
            (Some(parent), Some(shares), Some(active)) => {
                check_text("parent", parent)?;
                Some(Bank {
                    name: name.clone(),
                    parent: (!parent.is_empty()).then(|| names.intern_bank(parent)),
                    shares: to_shares(shares)?,
                    active: active != 0,
                })
            }
            _ => None,
        };
        Ok(((name, self.priority), branch))
    }
}

impl From<&BankWithBranch> for BankRecord {
    fn from(((name, priority), bank): &BankWithBranch) -> Self {
        let branch = bank.as_ref();
        let parent_name = |bank: &Bank| bank.parent.as_ref().map(ToString::to_string).unwrap_or_default();
        BankRecord {
            bank: name.to_string(),
            priority: *priority,
            parent: branch.map(parent_name),
            shares: branch.map(|bank| from_shares(bank.shares)),
            active: branch.map(|bank| bank.active.into()),
        }
    }
}

/// The weight of a factor of the priority.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct FactorRecord {
    pub factor: String,
    pub weight: i64,
}

impl Record for FactorRecord {
    type Accepted = (String, i64);
    const ARRAY: &'static str = "priority_factors";
    const TABLE: &'static str = "priority_factor_weight_table";
    const FIELDS: &'static [Field] = &[Field::new("factor", Kind::Text), Field::new("weight", Kind::Integer)];
    const KEYS: &'static [(&'static str, &'static str)] = &[("factor", "factor")];

    fn convert(&self, _: &mut Interner) -> Result<Self::Accepted, Fault> {
        check_name("factor", &self.factor, "name the factor")?;
        Ok((self.factor.clone(), self.weight))
    }
}
