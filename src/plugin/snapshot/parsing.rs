// SPDX-License-Identifier: LGPL-3.0-only
//! Parses the chunks of a snapshot, step by step, into the parts of a staged push.

use super::lines;
use super::reading::Reading;
use super::record::Fault;
use fairshare::{Ranking, accrual::Mode};
use fairshare_engine::accounts::SiteRecords;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::{SitePart, StagedSite, Standing};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, WireError};

/// A part of a staged push.
#[derive(Debug)]
pub(super) struct SnapshotPart {
    pub part: SiteRecords,
    pub site: SitePart,
    /// For each association of the part, true if its fair-share must be computed.
    is_computed: Vec<bool>,
}

#[derive(Debug, Default)]
enum ParseStage {
    /// Parses the chunks without associations.
    #[default]
    Site,
    Groups,
    Tree,
    /// Computes the fair-shares from the tree.
    Fairshares(Box<(Standing, Ranking)>),
    Done,
}

/// A snapshot that is being parsed.
#[derive(Default)]
pub(super) struct Parsing {
    stage: ParseStage,
    /// The index of the next chunk or part that the current stage handles.
    at: usize,
    reader: Reader,
    pub parts: Vec<SnapshotPart>,
    /// The tree of the snapshot, from which the fair-shares are computed.
    staged: StagedSite,
    standing: Standing,
}

impl Parsing {
    /// Does the next step. Returns true after the last step.
    pub(super) fn step(&mut self, reading: &Reading) -> Result<bool, Fault> {
        let at = self.at;
        self.at += 1;
        let next = match &mut self.stage {
            ParseStage::Site => match reading.get_site_chunk(at) {
                Some(chunk) => return self.add_part(chunk, Vec::new()).map(|()| false),
                None => ParseStage::Groups,
            },
            ParseStage::Groups => match reading.group_chunks(at) {
                Some(chunks) => return self.add_group(chunks).map(|()| false),
                None => ParseStage::Tree,
            },
            ParseStage::Tree if self.parts.iter().any(|part| part.is_computed.contains(&true)) => {
                ParseStage::Fairshares(Box::new(self.compute_tree()?))
            }
            ParseStage::Tree => ParseStage::Done,
            ParseStage::Fairshares(tree) => match self.parts.get_mut(at) {
                Some(part) => return part.set_fairshares(&tree.0, &tree.1).map(|()| false),
                None => ParseStage::Done,
            },
            ParseStage::Done => return self.check_count(reading).map(|()| true),
        };
        (self.stage, self.at) = (next, 0);
        Ok(false)
    }

    fn check_count(&self, reading: &Reading) -> Result<(), Fault> {
        let (wanted, read) = (reading.manifest.associations, self.reader.associations());
        if wanted != read { Err(format!("it has {read} associations, not {wanted}")) } else { Ok(()) }
    }

    fn add_group(&mut self, chunks: [&str; 3]) -> Result<(), Fault> {
        let (payload, is_computed) = lines::build_push_part(chunks)?;
        self.add_part(&payload, is_computed)
    }

    fn add_part(&mut self, payload: &str, is_computed: Vec<bool>) -> Result<(), Fault> {
        let (part, site) = wire::read_policy_part(Some(payload), &mut self.reader).map_err(describe_error)?;
        self.staged.absorb(site.clone(), &mut self.standing);
        self.parts.push(SnapshotPart { part, site, is_computed });
        Ok(())
    }

    /// Returns the tree of the snapshot, and its ranking by the pushed usages.
    fn compute_tree(&mut self) -> Result<(Standing, Ranking), Fault> {
        let none = "it has no tree to compute its fair-shares from";
        let (staged, mut standing) = (std::mem::take(&mut self.staged), std::mem::take(&mut self.standing));
        standing.push_staged(staged, Mode::default()).map_err(|fault| format!("tree: {fault}"))?;
        let as_pushed = standing.as_pushed().ok_or(none)?;
        Ok((standing, as_pushed))
    }
}

impl SnapshotPart {
    fn set_fairshares(&mut self, standing: &Standing, as_pushed: &Ranking) -> Result<(), Fault> {
        let records = self.part.associations.iter_mut();
        for (record, _) in records.zip(&self.is_computed).filter(|(_, is_computed)| **is_computed) {
            let (user, bank): (_, &BankName) = (record.association.user, &record.association.bank);
            let fairshare = standing.get_pushed_fairshare(as_pushed, user, bank);
            record.fairshare =
                fairshare.ok_or_else(|| format!("its tree has no user {user} in bank {bank}"))?;
        }
        Ok(())
    }
}

fn describe_error(fault: WireError) -> Fault {
    match fault {
        WireError::Undecodable(text) | WireError::Record(text) => text,
        WireError::WrongType(what) => format!("{what} has the wrong type"),
    }
}
