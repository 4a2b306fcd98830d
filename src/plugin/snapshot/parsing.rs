// SPDX-License-Identifier: LGPL-3.0-only
//! A record of which all texts are there, taken apart step by step, until it is what a push would bring.

use super::changes::Patches;
use super::lines::{self, MAX_RECORDS, Numbers};
use super::reading::Reading;
use super::record::Fault;
use fairshare::accrual::Mode;
use fairshare_engine::accounts::PolicyPart;
use fairshare_engine::ids::BankName;
use fairshare_engine::standing::{AsPushed, SitePart, StagedSite, Standing};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::{self, WireError};

/// A part of a push.
#[derive(Debug)]
pub(super) struct Part {
    pub part: PolicyPart,
    pub site: SitePart,
    /// Of each of its associations, whether the fair-share is to be reckoned.
    reckoned: Vec<bool>,
}

#[derive(Debug, Default)]
enum Stage {
    /// The next text of each kind.
    #[default]
    Rest,
    Log,
    Groups,
    Come,
    Reckon,
    /// The next part that gets its fair-shares.
    Fill(Box<(Standing, AsPushed)>),
    Done,
}

/// What was taken apart so far.
#[derive(Default)]
pub(super) struct Parsing {
    stage: Stage,
    at: usize,
    reader: Reader,
    patches: Patches,
    pub parts: Vec<Part>,
    /// The tree once more, for the fair-shares that it gives.
    draft: StagedSite,
    standing: Standing,
}

impl Parsing {
    /// The next step; true when it is done.
    pub(super) fn step(&mut self, it: &Reading) -> Result<bool, Fault> {
        let at = self.at;
        self.at += 1;
        let next = match &mut self.stage {
            Stage::Rest => match it.rest(at)? {
                Some(text) => return self.part(text, Vec::new()).map(|()| false),
                None => Stage::Log,
            },
            Stage::Log => match it.log(at)? {
                Some(text) => return self.patches.read(text).map(|()| false),
                None => Stage::Groups,
            },
            Stage::Groups => match it.group(at)? {
                Some(texts) => return self.group(texts).map(|()| false),
                None => Stage::Come,
            },
            Stage::Come => match self.patches.come(MAX_RECORDS)?.as_slice() {
                [] => Stage::Reckon,
                come => return self.associations(come).map(|()| false),
            },
            Stage::Reckon if self.parts.iter().any(|part| part.reckoned.contains(&true)) => {
                Stage::Fill(Box::new(self.reckon()?))
            }
            Stage::Reckon => Stage::Done,
            Stage::Fill(tree) => match self.parts.get_mut(at) {
                Some(part) => return part.fill(&tree.0, &tree.1).map(|()| false),
                None => Stage::Done,
            },
            Stage::Done => return self.is_right(it).map(|()| true),
        };
        (self.stage, self.at) = (next, 0);
        Ok(false)
    }

    fn is_right(&self, it: &Reading) -> Result<(), Fault> {
        let (wanted, read) = (it.manifest.associations, self.reader.associations());
        if wanted != read {
            return Err(format!("it has {read} associations, not {wanted}"));
        }
        Ok(())
    }

    fn group(&mut self, [limits, fairshares, usages]: [&str; 3]) -> Result<(), Fault> {
        let mut now = Vec::new();
        for line in lines::of_group(limits, fairshares, usages)? {
            now.extend(self.patches.apply(line)?);
        }
        self.associations(&now)
    }

    fn associations(&mut self, lines: &[(String, Numbers)]) -> Result<(), Fault> {
        let as_text = lines.iter().map(|(limits, Numbers { fairshare, usage })| {
            (limits.as_str(), fairshare.as_str(), usage.as_str())
        });
        let (payload, reckoned) = lines::part(as_text)?;
        self.part(&payload, reckoned)?;
        let records = self.parts.last().and_then(|part| part.part.associations.as_ref());
        let records = records.filter(|records| records.len() == lines.len());
        records.map(drop).ok_or_else(|| "a record of limits is several".to_owned())
    }

    fn part(&mut self, payload: &str, reckoned: Vec<bool>) -> Result<(), Fault> {
        let (part, site) = wire::policy_part(Some(payload), &mut self.reader).map_err(words)?;
        self.draft.absorb(site.clone(), &mut self.standing);
        self.parts.push(Part { part, site, reckoned });
        Ok(())
    }

    fn reckon(&mut self) -> Result<(Standing, AsPushed), Fault> {
        let none = "it has no tree that gives its fair-shares";
        let (draft, mut standing) = (std::mem::take(&mut self.draft), std::mem::take(&mut self.standing));
        standing.push_staged(draft, Mode::default()).map_err(|fault| format!("tree: {fault}"))?;
        let as_pushed = standing.as_pushed().ok_or(none)?;
        Ok((standing, as_pushed))
    }
}

impl Part {
    fn fill(&mut self, standing: &Standing, it: &AsPushed) -> Result<(), Fault> {
        let records = self.part.associations.iter_mut().flatten();
        for (record, _) in records.zip(&self.reckoned).filter(|(_, reckoned)| **reckoned) {
            let (user, bank): (_, &BankName) = (record.association.user, &record.association.bank);
            let reckoned = standing.fairshare_as_pushed(it, user, bank);
            record.fairshare =
                reckoned.ok_or_else(|| format!("its tree has no user {user} in bank {bank}"))?;
        }
        Ok(())
    }
}

fn words(fault: WireError) -> Fault {
    match fault {
        WireError::Undecodable(text) | WireError::Record(text) => text,
        WireError::WrongType(what) => format!("{what} is of a wrong type"),
    }
}
