// SPDX-License-Identifier: LGPL-3.0-only
//! Associations that were looked at in vain.
//!
//! After a push there is a walk for each association in line, one after the other in one reactor turn, and where many wait for the
//! same room each of these would look at all of them. As long as nothing changes a look gives what the one before it gave, and
//! places an association where it stands: so it is not taken again. Whatever changes a job or a claim begins this anew, and so does
//! each event, which may change what is configured; and so does a place from which an association counts anew by how many it was
//! overtaken, since that may give it another one the next time.

use super::ledger::Ledger;
use super::release::Line;
use crate::accounts::AssociationId;
use std::collections::BTreeMap;

/// Of whom nobody was found to change, as everything is now.
#[derive(Clone, Debug, Default)]
pub(super) struct InVain {
    /// Among whom it was looked for.
    lines: BTreeMap<AssociationId, Line>,
    /// Those whose place a look would have had worked out anew.
    pub passed_over: Vec<AssociationId>,
}

impl InVain {
    /// Whether a look among these would be in vain.
    pub fn is_known(&self, association: AssociationId, line: Line) -> bool {
        self.lines.get(&association).is_some_and(|known| *known >= line)
    }

    pub fn note(&mut self, association: AssociationId, line: Line) {
        let known = self.lines.entry(association).or_insert(line);
        *known = line.max(*known);
    }
}

impl Ledger {
    /// Something has changed, or may have: nobody was looked at in vain.
    pub fn look_anew(&mut self) {
        self.in_vain.lines.clear();
        self.unplaced.extend(self.in_vain.passed_over.drain(..));
    }
}
