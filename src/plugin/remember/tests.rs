// SPDX-License-Identifier: LGPL-3.0-only
//! Records and their texts: what is written is what is read, and nothing else is.

use super::jobs::{self, Log};
use super::lines::{self, Complete, Cutter};
use super::reading::{Next, Reading};
use super::record::{Manifest, check, hash};
use super::writing::{Then, Writing};
use crate::accounts::{Association, AssociationRecord, Config};
use crate::engine::{Kept, Rest};
use crate::fairshare::Shares;
use crate::fairshare::periods::Resources;
use crate::ids::{JobId, Limit, UserId};
use crate::plugin::reading::Reader;
use crate::plugin::wire;
use crate::standing::{Ended, GivenUp, Job, Leaf, Watermark};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, HashSet};

fn kept(user: u32, bank: &str, fairshare: f64, usage: Option<f64>) -> Kept {
    let association = Association {
        user: UserId(user),
        bank: bank.into(),
        max_running_jobs: Limit(i64::from(user) - 3),
        max_active_jobs: Limit(i64::MAX),
        max_sched_jobs: Limit(i64::MIN),
        max_nodes: Limit(0),
        max_cores: Limit(5),
        queues: ["q".into(), "ü \"r\"\n".trim().into()].into(),
        projects: [].into(),
        def_project: user.is_multiple_of(2).then(|| "*".into()),
        active: !user.is_multiple_of(3),
    };
    let leaf = usage.map(|usage| Leaf {
        user: UserId(user),
        name: format!("u{user}\\").into(),
        bank: bank.into(),
        shares: Shares::Count(u64::from(user)),
        active: association.active,
        usage: Some(usage),
        counted: Watermark::through(fairshare * 1e9),
    });
    Kept { record: AssociationRecord { association, fairshare, def_bank: "d".into() }, leaf }
}

fn groups(all: &[Kept]) -> Vec<Complete> {
    let mut cutter = Cutter::default();
    let mut groups: Vec<Complete> = all.iter().filter_map(|kept| cutter.add(kept)).collect();
    groups.extend(cutter.finish());
    groups
}

/// What groups say, read as a push is.
fn read(groups: &[Complete]) -> Vec<Kept> {
    let mut reader = Reader::default();
    let mut all = Vec::new();
    for Complete { group, texts } in groups {
        let text = |wanted: &String| texts.iter().find(|(hash, _)| hash == wanted).unwrap().1.clone();
        let several = |hashes: &[String]| hashes.iter().map(text).collect::<Vec<_>>();
        let payload =
            lines::associations(&text(&group.limits), &several(&group.fairshares), &several(&group.usages))
                .unwrap();
        let (part, site) = wire::policy_part(Some(&payload), &mut reader).unwrap();
        let mut leaves = site.associations.into_iter().peekable();
        for record in part.associations.unwrap() {
            let is_his =
                |leaf: &Leaf| leaf.user == record.association.user && leaf.bank == record.association.bank;
            let leaf = leaves.next_if(is_his);
            all.push(Kept { record, leaf });
        }
    }
    all
}

prop_compose! {
    fn any_site()(
        users in prop::collection::btree_map((0_u32..4000, 0_u8..3), (any::<u32>(), prop::option::of(0_u32..)), 1..600)
    ) -> Vec<Kept> {
        let number = |bits: u32| f64::from(bits) / 7.0;
        users.into_iter().map(|((user, bank), (fairshare, usage))| {
            kept(user, &format!("b{bank}"), number(fairshare), usage.map(number))
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_is_read_is_what_was_written(all in any_site()) {
        prop_assert_eq!(read(&groups(&all)), all);
    }

    #[test]
    fn one_record_less_leaves_nearly_all_texts_as_they_are(all in any_site(), which in any::<prop::sample::Index>()) {
        let texts = |all: &[Kept]| -> BTreeSet<String> {
            groups(all).into_iter().flat_map(|complete| complete.texts).map(|(hash, _)| hash).collect()
        };
        let mut less = all.clone();
        less.remove(which.index(all.len()));
        // His own three texts; where he ended them, those that they are joined with now.
        let new = texts(&less).difference(&texts(&all)).count();
        prop_assert!(new <= 3 + 2 * 16, "{} new texts", new);
    }

    #[test]
    fn ended_jobs_are_read_as_they_were(
        jobs in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>()), 0..700), cut in 1_usize..300
    ) {
        let ended: Vec<Ended> = jobs.into_iter().map(|(id, user, start, cores)| Ended {
            job: Job {
                id: JobId(id), user: UserId(user), bank: "b\"".into(), start: f64::from(start) / 3.0, limit: 0.0,
                ran_on: Resources { nodes: 1, cores: u64::from(cores), gpus: 0 },
            },
            end: f64::from(start) / 3.0 + 0.1,
        }).collect();
        let sums = [GivenUp {
            user: UserId(1), bank: "b".into(), sum: 0.0, since: f64::NEG_INFINITY, horizon: 1.5, pushed: 0.1, at: 2.0,
            counted: Watermark::default(),
        }];
        let (mut log, mut kvs) = (Log::default(), BTreeMap::new());
        let put = |kvs: &mut BTreeMap<String, String>, changes: super::writing::Changes| for (key, text) in changes {
            match text { Some(text) => kvs.insert(key, text), None => kvs.remove(&key) };
        };
        put(&mut kvs, log.add(&[], &sums, 7));
        for some in ended.chunks(cut) {
            put(&mut kvs, log.add(some, &[], 7));
        }
        let texts = jobs::listed(&kvs[&jobs::list_key()], 7).unwrap();
        prop_assert_eq!(kvs.len(), texts.len() + 1);
        let (mut found, mut found_sums) = (Vec::new(), Vec::new());
        for key in jobs::keys(&texts) {
            prop_assert_eq!(check(&key, &kvs[&key]), Ok(()));
            let (ended, sums) = jobs::read(&kvs[&key]).unwrap();
            found.extend(ended);
            found_sums.extend(sums);
        }
        prop_assert_eq!(found, ended);
        prop_assert_eq!(found_sums, sums.to_vec());
        prop_assert!(jobs::listed(&kvs[&jobs::list_key()], 8).is_err());
    }

    #[test]
    fn a_manifest_is_read_whole_by_its_owner_or_not_at_all(at in any::<prop::sample::Index>(), flip in 1_u8..128) {
        let mut manifest = Manifest::new(7, 1.5e9);
        manifest.rest.push(hash("x"));
        let text = manifest.text();
        prop_assert_eq!(Manifest::read(&text, 7), Ok(manifest));
        prop_assert!(Manifest::read(&text, 8).unwrap_err().contains("user 7"));
        let at = at.index(text.len());
        prop_assert!(Manifest::read(&text[..at], 7).is_err());
        let mut bytes = text.into_bytes();
        bytes[at] ^= flip;
        prop_assert!(Manifest::read(&String::from_utf8_lossy(&bytes), 7).is_err());
    }
}

#[test]
fn another_format_is_named() {
    let json = r#"{"format":2,"something":"else"}"#;
    let read = Manifest::read(&format!("{}\n{json}", hash(json)), 7);
    assert_eq!(read, Err("it has format 2, this plugin knows 1".to_owned()));
}

#[test]
fn a_record_is_read_in_the_order_in_which_a_push_comes() {
    let rest = Rest {
        queues: Vec::new(),
        projects: Vec::new(),
        banks: Vec::new(),
        weights: vec![("x".to_owned(), -1)],
        limits: Vec::new(),
        config: Config::default(),
        rule: None,
    };
    let known = HashSet::new();
    let mut writing = Writing::new(1, 7, 0.0, &rest, false, &known);
    let mut kvs = BTreeMap::new();
    let mut then = writing.page(&[kept(1, "b", 0.5, None)], &known);
    loop {
        then = match then {
            Then::Page => writing.ended((Vec::new(), Vec::new(), None), &known),
            Then::Write(changes) => {
                kvs.extend(changes);
                writing.go_on(&known)
            }
            Then::Done(_) => break,
        };
    }
    let text = |key: &str| kvs[key].clone().unwrap();
    let manifest = Manifest::read(&text(&super::manifest_key()), 7).unwrap();
    let mut reading = Reading::new(manifest, jobs::listed(&text(&jobs::list_key()), 7).unwrap());
    let asked = reading.ask();
    let (last, first) = asked.split_last().unwrap();
    for (number, key) in first {
        assert_eq!(reading.take(*number, &text(key)), Ok(false));
    }
    assert!(reading.take(last.0, "spoiled").is_err());
    assert_eq!(reading.take(last.0, &text(&last.1)), Ok(true));
    let mut steps = Vec::new();
    while steps.last() != Some(&Next::Commit) {
        steps.push(reading.next().unwrap());
    }
    assert!(matches!(steps.as_slice(), [Next::Begin, Next::Part(_), .., Next::Part(_), Next::Commit]));
}
