// SPDX-License-Identifier: LGPL-3.0-only
//! Parses the chunks of a snapshot, step by step, into the parts of a staged push.

use super::lines::{self, MAX_RECORDS, Numbers};
use super::patches::Patches;
use super::reading::Reading;
use super::record::Fault;
use fairshare::accrual::Mode;
use fairshare_engine::accounts::PolicyPart;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::{AsPushed, SitePart, StagedSite, Standing};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, WireError};

/// A part of a staged push.
#[derive(Debug)]
pub(super) struct SnapshotPart {
    pub part: PolicyPart,
    pub site: SitePart,
    /// For each association of the part, true if its fair-share must be computed.
    is_computed: Vec<bool>,
}

#[derive(Debug, Default)]
enum ParseStage {
    /// Parses the chunks without associations.
    #[default]
    Site,
    Log,
    Groups,
    /// Takes the associations that occur only in the log.
    NewAssociations,
    Tree,
    /// Computes the fair-shares from the tree.
    Fairshares(Box<(Standing, AsPushed)>),
    Done,
}

/// A snapshot that is being parsed.
#[derive(Default)]
pub(super) struct Parsing {
    stage: ParseStage,
    /// The index of the next chunk or part in this stage.
    at: usize,
    reader: Reader,
    patches: Patches,
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
            ParseStage::Site => match reading.site_chunk(at)? {
                Some(chunk) => return self.add_part(chunk, Vec::new()).map(|()| false),
                None => ParseStage::Log,
            },
            ParseStage::Log => match reading.log_chunk(at)? {
                Some(chunk) => return self.patches.add_chunk(chunk).map(|()| false),
                None => ParseStage::Groups,
            },
            ParseStage::Groups => match reading.group_chunks(at)? {
                Some(chunks) => return self.add_group(chunks).map(|()| false),
                None => ParseStage::NewAssociations,
            },
            ParseStage::NewAssociations => {
                match self.patches.take_new_associations(MAX_RECORDS)?.as_slice() {
                    [] => ParseStage::Tree,
                    new => return self.add_associations(new).map(|()| false),
                }
            }
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
        if wanted != read {
            return Err(format!("it has {read} associations, not {wanted}"));
        }
        Ok(())
    }

    fn add_group(&mut self, [limits, fairshares, usages]: [&str; 3]) -> Result<(), Fault> {
        let mut patched = Vec::new();
        for line in lines::zip_group(limits, fairshares, usages)? {
            patched.extend(self.patches.apply_to_line(line)?);
        }
        self.add_associations(&patched)
    }

    fn add_associations(&mut self, lines: &[(String, Numbers)]) -> Result<(), Fault> {
        let as_text = lines.iter().map(|(limits, Numbers { fairshare, usage })| {
            (limits.as_str(), fairshare.as_str(), usage.as_str())
        });
        let (payload, is_computed) = lines::build_part(as_text)?;
        self.add_part(&payload, is_computed)?;
        let records = self.parts.last().and_then(|part| part.part.associations.as_ref());
        let records = records.filter(|records| records.len() == lines.len());
        records.map(drop).ok_or_else(|| "a line of limits contains several records".to_owned())
    }

    fn add_part(&mut self, payload: &str, is_computed: Vec<bool>) -> Result<(), Fault> {
        let (part, site) = wire::policy_part(Some(payload), &mut self.reader).map_err(describe_error)?;
        self.staged.absorb(site.clone(), &mut self.standing);
        self.parts.push(SnapshotPart { part, site, is_computed });
        Ok(())
    }

    /// Returns the tree of the snapshot, and its ranking by the pushed usages.
    fn compute_tree(&mut self) -> Result<(Standing, AsPushed), Fault> {
        let none = "it has no tree that gives its fair-shares";
        let (staged, mut standing) = (std::mem::take(&mut self.staged), std::mem::take(&mut self.standing));
        standing.push_staged(staged, Mode::default()).map_err(|fault| format!("tree: {fault}"))?;
        let as_pushed = standing.as_pushed().ok_or(none)?;
        Ok((standing, as_pushed))
    }
}

impl SnapshotPart {
    fn set_fairshares(&mut self, standing: &Standing, as_pushed: &AsPushed) -> Result<(), Fault> {
        let records = self.part.associations.iter_mut().flatten();
        for (record, _) in records.zip(&self.is_computed).filter(|(_, is_computed)| **is_computed) {
            let (user, bank): (_, &BankName) = (record.association.user, &record.association.bank);
            let fairshare = standing.fairshare_as_pushed(as_pushed, user, bank);
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
