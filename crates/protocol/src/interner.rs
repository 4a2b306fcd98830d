// SPDX-License-Identifier: LGPL-3.0-only
//! Stores each name and each list of a push once, because the associations of a site have few different banks
//! and lists.

use fairshare_engine::ids::{BankName, ProjectName, QueueName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Interns the names and the lists in a push.
#[derive(Default)]
pub struct Interner {
    banks: BTreeMap<String, BankName>,
    queues: BTreeMap<String, Arc<[QueueName]>>,
    projects: BTreeMap<String, Arc<[ProjectName]>>,
    project: BTreeMap<String, ProjectName>,
}

fn split_list(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|item| !item.is_empty())
}

fn intern<T: Clone>(known: &mut BTreeMap<String, T>, text: &str, build: impl FnOnce() -> T) -> T {
    if let Some(existing) = known.get(text) {
        return existing.clone();
    }
    let value = build();
    known.insert(text.to_owned(), value.clone());
    value
}

impl Interner {
    pub(crate) fn intern_bank(&mut self, name: &str) -> BankName {
        intern(&mut self.banks, name, || name.into())
    }

    pub(crate) fn intern_queues(&mut self, list: &str) -> Arc<[QueueName]> {
        intern(&mut self.queues, list, || split_list(list).map(Into::into).collect())
    }

    pub(crate) fn intern_projects(&mut self, list: &str) -> Arc<[ProjectName]> {
        intern(&mut self.projects, list, || split_list(list).map(Into::into).collect())
    }

    pub(crate) fn intern_project(&mut self, name: &str) -> ProjectName {
        intern(&mut self.project, name, || name.into())
    }
}
