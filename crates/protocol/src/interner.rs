// SPDX-License-Identifier: LGPL-3.0-only
//! Shared names: the associations of a site have few banks and lists, and each of these is stored once.

use fairshare_engine::ids::{BankName, ProjectName, QueueName};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The names and lists of one push.
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
    pub(crate) fn bank(&mut self, name: &str) -> BankName {
        interned(&mut self.banks, name, || name.into())
    }

    pub(crate) fn queues(&mut self, list: &str) -> Arc<[QueueName]> {
        interned(&mut self.queues, list, || items(list).map(Into::into).collect())
    }

    pub(crate) fn projects(&mut self, list: &str) -> Arc<[ProjectName]> {
        interned(&mut self.projects, list, || items(list).map(Into::into).collect())
    }

    pub(crate) fn project(&mut self, name: &str) -> ProjectName {
        interned(&mut self.project, name, || name.into())
    }
}
