// SPDX-License-Identifier: LGPL-3.0-only
//! When limits let a held job go whoever starts meanwhile, and whenever.
//!
//! With more room a job does not always go sooner: another may fit then that comes before it, and take more than there was more.
//! So what may happen is enclosed between two ledgers. In the fullest whoever counts and does not run takes its place to run too, and
//! gives back nothing; and so does each held job from when it may have gone before this one. In the emptiest none of these takes
//! anything: who finds no room there finds none at all. Jobs that run end when their time is up, in both.

use crate::accounts::{AssociationId, Book};
use crate::ids::JobId;
use crate::limits::{Demand, Grant, HoldSet, Ledger, Line, Phase, Released, Rule};
use std::collections::BTreeSet;

pub(super) struct Enclosed<'a> {
    book: &'a Book,
    association: AssociationId,
    /// The job that is asked about.
    wanted: JobId,
    fullest: Ledger,
    emptiest: Ledger,
    /// Held jobs that find room in the emptiest, and that come after this one: where it fits it goes before them.
    behind: Vec<JobId>,
    /// Jobs that end, by time.
    ends: BTreeSet<(u64, JobId)>,
    now: f64,
}

impl<'a> Enclosed<'a> {
    /// `excerpt` knows the `counted` jobs of the association, and those that may go before `wanted`.
    pub fn new(
        book: &'a Book,
        association: AssociationId,
        wanted: JobId,
        excerpt: Ledger,
        counted: &[(JobId, Option<f64>)],
        now: f64,
    ) -> Enclosed<'a> {
        let (mut fullest, mut emptiest) = (excerpt.clone(), excerpt);
        let mut ends = BTreeSet::new();
        for (id, by) in counted {
            if fullest.job(*id).is_some_and(|job| job.phase < Phase::Run) {
                take_for_ever(&mut fullest, *id);
            }
            match by {
                Some(by) => {
                    ends.insert((by.max(now).to_bits(), *id));
                }
                // One that runs and has no time limit may end at any time.
                None => {
                    emptiest.remove(*id);
                }
            }
        }
        Enclosed { book, association, wanted, fullest, emptiest, behind: Vec::new(), ends, now }
    }

    /// When the job is released at the latest, if anybody can say, and if so many looks at held jobs tell: else none is left.
    pub fn latest(mut self, looks: &mut usize) -> Option<f64> {
        let mut at = self.now;
        loop {
            *looks = looks.saturating_sub(self.note_who_fits());
            let blocking = self.fullest.exceeded_by(self.book, self.wanted);
            if blocking.is_empty() {
                return Some(at);
            }
            *looks = looks.saturating_sub(self.let_overtake(blocking));
            let ended = self.next_ends(&mut at)?;
            for id in &ended {
                self.emptiest.remove(*id);
            }
            if ended.len() > 1 {
                // Which of them ends first nobody can say: between two of them others may fit, and this one not.
                *looks = looks.saturating_sub(self.note_who_fits());
                *looks = looks.saturating_sub(self.let_overtake(blocking));
            }
            if *looks == 0 {
                return None;
            }
            for id in ended {
                self.fullest.remove(id);
            }
        }
    }

    /// The jobs that end next, all at one time.
    fn next_ends(&mut self, at: &mut f64) -> Option<Vec<JobId>> {
        let (end, first) = self.ends.pop_first()?;
        let mut ended = vec![first];
        while let Some((_, id)) = self.ends.first().filter(|(next, _)| *next == end) {
            ended.push(*id);
            self.ends.pop_first();
        }
        *at = f64::from_bits(end);
        Some(ended)
    }

    /// Held jobs that may have gone by now. Those that come before this one take their places. Says how many looks that took.
    fn note_who_fits(&mut self) -> usize {
        let mut walk = self.emptiest.begin_scan(self.association, Line::All);
        let place = |ledger: &Ledger, id| ledger.job(id).map(|job| (job.keepers, id));
        let wanted = place(&self.fullest, self.wanted);
        while let Some(Released { id, is_free, .. }) =
            self.emptiest.release_next(self.book, &mut walk, &BTreeSet::new())
        {
            if !is_free {
                continue;
            }
            // Each by itself: it takes nothing from the others.
            self.emptiest.remove(id);
            if place(&self.fullest, id) < wanted {
                take_for_ever(&mut self.fullest, id);
            } else if id != self.wanted {
                self.behind.push(id);
            }
        }
        walk.comparisons()
    }

    /// Those that come after this one take their places too, but for such as every limit keeps back that may keep this one. Says at how
    /// many that took a look.
    fn let_overtake(&mut self, blocking: HoldSet) -> usize {
        let Some(wanted) = self.fullest.job(self.wanted) else { return 0 };
        let (queue, size) = (wanted.queue.clone(), wanted.size);
        let of_queue = blocking.and(self.fullest.rules().select(Rule::is_of_queue));
        let behind = std::mem::take(&mut self.behind);
        let looks = behind.len();
        for id in behind {
            let Some(job) = self.fullest.job(id) else { continue };
            let is_elsewhere = job.queue != queue && !of_queue.is_empty();
            if is_elsewhere || size.min_of(job.size) != size {
                take_for_ever(&mut self.fullest, id);
            } else {
                self.behind.push(id);
            }
        }
        looks
    }
}

/// The job counts as one in SCHED, and as one that runs.
fn take_for_ever(ledger: &mut Ledger, id: JobId) {
    ledger.change(id, |job| {
        (job.grant, job.demand, job.is_queue_stopped) = (Grant::Given, Demand::ToRun, false);
    });
}
