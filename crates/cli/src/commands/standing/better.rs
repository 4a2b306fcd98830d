// SPDX-License-Identifier: LGPL-3.0-only
//! Finds the bank to which a user of several banks should submit the next job.

use crate::ui::figures::{number, ordinal};
use fairshare_engine::engine::answers::AssociationStanding;

/// Returns a sentence that recommends a bank for the user's next job. This is the best ranked bank with headroom, if it ranks above
/// the default bank. Otherwise it is the default bank, if this bank and another bank have headroom. Returns `None` in all other cases.
pub(super) fn advise(associations: &[AssociationStanding]) -> Option<String> {
    let default = associations.iter().find(|association| association.is_default)?;
    let now = default.rank?.place;
    let is_open = |it: &&AssociationStanding| {
        it.userid == default.userid && it.is_active && !it.is_removed && has_headroom(it)
    };
    let ranked = associations.iter().filter(is_open).filter_map(|it| Some((it.rank?.place, &it.bank)));
    let (place, bank) = ranked.min()?;
    if place < now {
        let (place, now) = (ordinal(place), ordinal(now));
        return Some(format!("Submit to {bank} (-B {bank}): it ranks {place}, the default bank {now}."));
    }
    let place = |it: &AssociationStanding| {
        it.rank.map(|rank| format!("{} of {}", ordinal(rank.place), number(rank.of))).unwrap_or_default()
    };
    let others = associations.iter().filter(is_open).filter(|it| it.rank.is_some() && !it.is_default);
    let others: Vec<String> = others.map(|it| format!("{}: {}", it.bank, place(it))).collect();
    (is_open(&default) && !others.is_empty()).then(|| {
        format!("Submit to {}, the default bank: {} ({}).", default.bank, place(default), others.join(", "))
    })
}

/// Returns true if no limit for the jobs of all queues is reached. If the site hides the use of a limit, assumes that it is reached.
fn has_headroom(association: &AssociationStanding) -> bool {
    association.limits.iter().filter(|limit| limit.queue.is_none()).all(|limit| {
        let used = limit.used.map(|used| used.saturating_add(limit.reserved.unwrap_or(0)));
        // A job can run without GPUs.
        limit.measure == "gpus" || limit.cap.is_none_or(|cap| used.is_some_and(|used| used < cap))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairshare_engine::engine::answers::{LimitUsage, RankPosition};

    fn make_association(bank: &str, place: usize) -> AssociationStanding {
        AssociationStanding {
            bank: bank.into(),
            is_default: bank == "chem",
            is_active: true,
            rank: Some(RankPosition { place, of: 18, before: place - 1, tied: 0 }),
            ..AssociationStanding::default()
        }
    }

    #[test]
    fn the_advice_names_only_banks_that_neither_reject_nor_hold_jobs() {
        let of = |other: AssociationStanding| {
            advise(&[make_association("art", 7), make_association("chem", 10), other])
        };
        let phys = || make_association("phys", 5);
        let limit = |used: Option<u64>, measure: &'static str, queue: Option<&str>| LimitUsage {
            measure: measure.into(),
            queue: queue.map(Into::into),
            used,
            reserved: Some(1),
            cap: Some(4),
            ..LimitUsage::default()
        };
        let best = Some("Submit to phys (-B phys): it ranks 5th, the default bank 10th.".to_owned());
        let second = Some("Submit to art (-B art): it ranks 7th, the default bank 10th.".to_owned());
        assert_eq!(of(phys()), best);
        for (limit, advice) in [
            (limit(Some(2), "jobs", None), &best),
            (limit(Some(3), "jobs", None), &second),
            (limit(None, "nodes", None), &second),
            (limit(Some(4), "gpus", None), &best),
            (limit(Some(4), "jobs", Some("debug")), &best),
        ] {
            assert_eq!(
                &of(AssociationStanding { limits: vec![limit.clone()], ..phys() }),
                advice,
                "{limit:?}"
            );
        }
        let inactive = AssociationStanding { is_active: false, ..phys() };
        let removed = AssociationStanding { is_removed: true, ..phys() };
        let unranked = AssociationStanding { rank: None, ..phys() };
        for other in [inactive, removed, unranked] {
            assert_eq!(of(other), second);
        }
        let full = AssociationStanding { limits: vec![limit(Some(3), "jobs", None)], ..phys() };
        for (place, own) in [(3, "3rd"), (5, "5th")] {
            let text = format!("Submit to chem, the default bank: {own} of 18 (phys: 5th of 18).");
            assert_eq!(advise(&[make_association("chem", place), phys()]), Some(text));
            assert_eq!(advise(&[make_association("chem", place), full.clone()]), None, "one usable bank");
        }
        let full_default = AssociationStanding { limits: full.limits, ..make_association("chem", 3) };
        assert_eq!(advise(&[full_default, phys()]), None);
        assert_eq!(advise(&[make_association("phys", 5)]), None);
    }
}
