// SPDX-License-Identifier: LGPL-3.0-only
//! The note by which `flux jobs` can show where a job stands. It goes with an answer to a callback of the job's own: Flux keeps it
//! in no eventlog. A price that is posted by id leaves the note as it was.

use super::{Effect, Engine};
use crate::ids::JobId;
use crate::limits::Holding;

impl Engine {
    /// What the note says, where the site wants one.
    pub(super) fn annotation(&self, id: JobId) -> Option<Effect> {
        if !self.settings.annotate {
            return None;
        }
        let job = self.ledger.job(id)?;
        let association = job.association()?;
        if job.is_held() {
            let holding = self.ledger.holding(&self.book, id);
            let Holding { hold, used, limit, .. } = holding.first()?;
            return Some(Effect::Annotate(format!("held: {} {used}/{limit}", hold.name())));
        }
        let fairshare = self.fairshare(association)?;
        let record = self.book.association(association)?;
        let index = self.standing.find(record.user, &record.bank).filter(|_| self.is_live());
        let rank = index.and_then(|index| self.rank_of(self.standing.node(index)?));
        let place = rank.map_or(String::new(), |rank| format!(", {} of {}", ordinal(rank.place), rank.of));
        Some(Effect::Annotate(format!("{fairshare:.3}{place}")))
    }
}

fn ordinal(number: usize) -> String {
    let ending = match (number % 100, number % 10) {
        (11..=13, _) => "th",
        (_, 1) => "st",
        (_, 2) => "nd",
        (_, 3) => "rd",
        _ => "th",
    };
    format!("{number}{ending}")
}

#[cfg(test)]
mod tests {
    #[test]
    fn ordinals() {
        for (number, text) in [
            (1, "1st"),
            (2, "2nd"),
            (3, "3rd"),
            (4, "4th"),
            (11, "11th"),
            (12, "12th"),
            (13, "13th"),
            (21, "21st"),
            (112, "112th"),
        ] {
            assert_eq!(super::ordinal(number), text);
        }
    }
}
