// SPDX-License-Identifier: LGPL-3.0-only
//! The rules that the table `[fairshare.queues.NAME]` sets for the limits and priorities of jobs in a queue.

use crate::accounts::Scope;
use crate::engine::View;
use crate::ids::{QueueName, Word};
use fairshare::insert_all;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The rules of a queue. A virtual queue has the rules of its parent too.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct QueueRules {
    /// The scopes from whose limits this queue is exempt: `association`, `bank`, `user`. Limits on a single queue still
    /// apply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exempt: Vec<Word>,
    /// The largest priority of jobs in this queue. It does not apply at urgency 31.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_priority: Option<u32>,
}

impl View<'_> {
    /// Returns the rules of `queue`.
    pub(super) fn queue_rules(&self, queue: Option<&QueueName>) -> QueueRules {
        let name = queue.map(QueueName::as_str);
        let is_exempt = |scope| self.book.site_limits().exemptions(name).any(|exempt| exempt == scope);
        let exempt = Scope::EXEMPTIONS.into_iter().filter(|(_, scope)| is_exempt(*scope));
        QueueRules {
            exempt: exempt.map(|(name, _)| Cow::Borrowed(name)).collect(),
            max_priority: self.max_priority(queue),
        }
    }

    /// Returns the rules of `queues` for limits and priorities. Leaves out queues that have the default rules.
    pub(super) fn list_queue_rules<'q>(
        &self,
        queues: impl Iterator<Item = &'q QueueName>,
    ) -> BTreeMap<QueueName, QueueRules> {
        let rules = queues.map(|queue| (queue.clone(), self.queue_rules(Some(queue))));
        insert_all(rules.filter(|(_, rules)| *rules != QueueRules::default()))
    }
}
