// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that the plugin reads back the snapshots that it wrote, and refuses all others.

use super::actions::Action;
use super::jobs::{self, EndedLog};
use super::parsing::Parsing;
use super::reading::Reading;
use super::record::{self, Manifest, check_chunk, groups_key, hash, manifest_key};
use super::site_chunks::build_chunks;
use super::writing::{PAGE, WriterStep, Writing};
use super::{ENDED_PERIOD, MANIFEST, MAX_PANICS, Snapshot};
use crate::jobtap::{ENOENT, Error, LogLevel};
use fairshare::charging::{ChargeBy, ChargeByChange, ChargeChange};
use fairshare::periods::Resources;
use fairshare_engine::accounts::{
    Association, AssociationRecord, Budget, Config, Queue, SiteRecords, Target,
};
use fairshare_engine::engine::{Engine, Event, SavedAssociation, SavedSite};
use fairshare_engine::ids::{JobId, Limit, Measure, QueueName, UserId};
use fairshare_engine::standing::{Bank, Charges, Ended, EvictedUsage, Job, Leaf, SitePart, Watermark};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire;
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};

fn make_association(user: u32, bank: &str, fairshare: f64, usage: Option<f64>) -> SavedAssociation {
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
        user: Some(UserId(user)),
        name: format!("u{user}\\").into(),
        bank: bank.into(),
        shares: u64::from(user),
        active: association.active,
        usage: Some(usage),
        counted: Watermark::through(fairshare * 1e9),
    });
    SavedAssociation {
        record: AssociationRecord { association, fairshare, def_bank: "d".into() },
        leaf,
        is_computed: false,
    }
}

/// A KVS, with the keys of the chunks that the plugin wrote.
#[derive(Default)]
struct Kvs {
    values: BTreeMap<String, String>,
    stored_keys: HashSet<String>,
}

fn make_empty_site() -> SavedSite {
    SavedSite {
        leaves: Vec::new(),
        queues: Vec::new(),
        projects: Vec::new(),
        banks: Vec::new(),
        weights: vec![("x".to_owned(), -1)],
        limits: Vec::new(),
        charges: Charges::default(),
        budgets: Vec::new(),
        config: Config::default(),
        rule: None,
    }
}

impl Kvs {
    fn apply_changes(&mut self, changes: super::writing::Changes) {
        for (key, text) in changes {
            match text {
                Some(text) => drop(self.values.insert(key, text)),
                None => {
                    self.values.retain(|other, _| *other != key && !other.starts_with(&format!("{key}.")))
                }
            }
        }
    }

    /// Writes a snapshot of a site with the associations `all`.
    fn write_snapshot(&mut self, rest: &SavedSite, all: &[SavedAssociation]) {
        let stored_keys = self.stored_keys.clone();
        let mut writing = Writing::new(1, 7, 0.0, rest, false, &stored_keys);
        // A page with fewer than `PAGE` associations is the last one, so it may be empty.
        for number in 0..=all.len() / PAGE {
            let page = &all[number * PAGE..all.len().min((number + 1) * PAGE)];
            let then = writing.add_page(page, &stored_keys);
            assert!(!self.execute_step(&mut writing, then, &stored_keys));
        }
        let then = writing.add_ended((Vec::new(), Vec::new(), None), &stored_keys);
        assert!(self.execute_step(&mut writing, then, &stored_keys));
    }

    /// Carries out a step of the writer. Returns true if the snapshot is written.
    fn execute_step(
        &mut self,
        writing: &mut Writing,
        mut then: WriterStep,
        stored_keys: &HashSet<String>,
    ) -> bool {
        loop {
            then = match then {
                WriterStep::Page => return false,
                WriterStep::Write(changes) => {
                    self.apply_changes(changes);
                    writing.take_batch(stored_keys)
                }
                WriterStep::Done(keys) => {
                    self.stored_keys = keys;
                    return true;
                }
            };
        }
    }

    fn begin_reading(&self, owner: u32) -> Reading {
        let manifest = Manifest::read(&self.values[&manifest_key()], owner).unwrap();
        let jobs = jobs::read_list(&self.values[&jobs::list_key()], owner).unwrap();
        let key = groups_key(&manifest.groups);
        let groups = record::parse_group_list(&key, &self.values[&key]).unwrap();
        Reading::new(manifest, jobs, &groups)
    }

    /// Returns the associations of the snapshot, sorted by user and bank.
    fn read_associations(&self, owner: u32) -> Vec<SavedAssociation> {
        let mut reading = self.begin_reading(owner);
        loop {
            let look_ups = reading.start_next_look_ups();
            assert!(!look_ups.is_empty(), "chunks are missing that were not looked up");
            if look_ups
                .iter()
                .fold(false, |_, (number, key)| reading.add_chunk(*number, &self.values[key]).unwrap())
            {
                break;
            }
        }
        let mut parsing = Parsing::default();
        while !parsing.step(&reading).unwrap() {}
        let mut all = Vec::new();
        for part in &parsing.parts {
            let mut leaves = part.site.associations.iter().cloned().peekable();
            for record in part.part.associations.iter().cloned() {
                let is_own = |leaf: &Leaf| {
                    leaf.user == Some(record.association.user) && leaf.bank == record.association.bank
                };
                let leaf = leaves.next_if(is_own);
                all.push(SavedAssociation { record, leaf, is_computed: false });
            }
        }
        all.sort_by(|a, b| {
            let key = |kept: &SavedAssociation| {
                (kept.record.association.user, kept.record.association.bank.as_str().to_owned())
            };
            key(a).cmp(&key(b))
        });
        all
    }
}

prop_compose! {
    fn any_associations()(
        users in prop::collection::btree_map((0_u32..4000, 0_u8..3), (any::<u32>(), prop::option::of(0_u32..)), 1..600)
    ) -> Vec<SavedAssociation> {
        let number = |bits: u32| f64::from(bits) / 7.0;
        users.into_iter().map(|((user, bank), (fairshare, usage))| {
            make_association(user, &format!("b{bank}"), number(fairshare), usage.map(number))
        }).collect()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn the_plugin_reads_back_the_associations_that_it_wrote(sites in prop::collection::vec((any_associations(), any::<bool>()), 1..8)) {
        let (mut kvs, mut now) = (Kvs::default(), Vec::new());
        for (site, is_another) in sites {
            // Each step either replaces all associations, or changes, removes or adds some of them.
            if is_another {
                now = site;
            } else {
                let by_key = |kept: &SavedAssociation| (kept.record.association.user, kept.record.association.bank.as_str().to_owned());
                let mut all: BTreeMap<_, SavedAssociation> = now.into_iter().map(|kept| (by_key(&kept), kept)).collect();
                for kept in site.into_iter().step_by(17) {
                    let is_gone = kept.record.fairshare < 1e8;
                    let former = all.insert(by_key(&kept), kept.clone());
                    if is_gone && former.is_some() { all.remove(&by_key(&kept)); }
                }
                now = all.into_values().collect();
            }
            kvs.write_snapshot(&make_empty_site(), &now);
            prop_assert_eq!(&kvs.read_associations(7), &now);
            // Each chunk in the KVS is part of the snapshot.
            let lists = [manifest_key(), jobs::list_key()];
            let chunks: HashSet<String> = kvs.values.keys().filter(|key| !lists.contains(key)).cloned().collect();
            prop_assert_eq!(&chunks, &kvs.stored_keys);
        }
    }

    #[test]
    fn a_removed_association_changes_only_one_group_of_snapshot_chunks(all in any_associations(), which in any::<prop::sample::Index>()) {
        let mut kvs = Kvs::default();
        kvs.write_snapshot(&make_empty_site(), &all);
        let mut fewer = all.clone();
        fewer.remove(which.index(all.len()));
        let before = kvs.stored_keys.clone();
        kvs.write_snapshot(&make_empty_site(), &fewer);
        let new: Vec<&String> = kvs.stored_keys.difference(&before).collect();
        // At most four chunks are new: the list of groups, and the three chunks of one group. If the group ended with
        // the removed user, it is joined to the next group.
        prop_assert!(new.len() <= 4, "{new:?}");
    }

    #[test]
    fn the_plugin_reads_back_the_ended_jobs_that_it_wrote(
        jobs in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<u32>()), 0..700), cut in 1_usize..300
    ) {
        let ended: Vec<Ended> = jobs.into_iter().map(|(id, user, start, cores)| Ended {
            job: Job {
                id: JobId(id), user: UserId(user), bank: "b\"".into(), start: f64::from(start) / 3.0,
                limit: if cores % 5 == 0 { 0.05 } else { 0.0 },
                queue: (cores % 3 == 0).then(|| "q \"é".into()),
                ran_on: Resources { nodes: 1, cores: u64::from(cores), gpus: 0 },
            },
            end: f64::from(start) / 3.0 + 0.1,
        }).collect();
        let sums = [EvictedUsage {
            user: UserId(1), bank: "b".into(), sum: 0.0, since: f64::NEG_INFINITY, horizon: 1.5, pushed: 0.1, at: 2.0,
            counted: Watermark::default(),
        }];
        let (mut log, mut kvs) = (EndedLog::default(), BTreeMap::new());
        let apply_changes = |kvs: &mut BTreeMap<String, String>, changes: super::writing::Changes| for (key, text) in changes {
            match text { Some(text) => kvs.insert(key, text), None => kvs.remove(&key) };
        };
        apply_changes(&mut kvs, log.add(&[], &sums, 7));
        for batch in ended.chunks(cut) {
            apply_changes(&mut kvs, log.add(batch, &[], 7));
        }
        let texts = jobs::read_list(&kvs[&jobs::list_key()], 7).unwrap();
        prop_assert_eq!(kvs.len(), texts.len() + 1);
        let (mut found, mut found_sums) = (Vec::new(), Vec::new());
        for key in jobs::chunk_keys(&texts) {
            prop_assert_eq!(check_chunk(&key, &kvs[&key]), Ok(()));
            let (ended, sums) = jobs::read_chunk(&kvs[&key]).unwrap();
            found.extend(ended);
            found_sums.extend(sums);
        }
        prop_assert_eq!(found, ended);
        prop_assert_eq!(found_sums, sums.to_vec());
        prop_assert!(jobs::read_list(&kvs[&jobs::list_key()], 8).is_err());
    }

    #[test]
    fn a_manifest_with_a_changed_byte_or_another_owner_is_refused(at in any::<prop::sample::Index>(), flip in 1_u8..128) {
        let mut manifest = Manifest::new(7, 1.5e9);
        manifest.rest.push(hash("x"));
        manifest.groups = hash("y");
        let text = record::prepend_hash(&manifest);
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
fn the_error_names_an_unknown_format() {
    let json = r#"{"format":2,"something":"else"}"#;
    let read = Manifest::read(&format!("{}\n{json}", hash(json)), 7);
    assert_eq!(read, Err("it has format 2, this plugin reads format 3".to_owned()));
}

#[test]
fn a_chunk_with_another_hash_is_refused() {
    let mut kvs = Kvs::default();
    kvs.write_snapshot(&make_empty_site(), &[make_association(1, "b", 0.5, None)]);
    let mut reading = kvs.begin_reading(7);
    let look_ups = reading.start_next_look_ups();
    let (last, others) = look_ups.split_last().unwrap();
    for (number, key) in others {
        assert_eq!(reading.add_chunk(*number, &kvs.values[key]), Ok(false));
    }
    assert!(reading.add_chunk(last.0, "spoiled").is_err());
    assert_eq!(reading.add_chunk(last.0, &kvs.values[&last.1]), Ok(true));
}

/// If a new snapshot has more ended jobs than `MAX_LINES`, the plugin must not write a snapshot after each job.
#[test]
fn a_log_is_too_long_at_twice_the_lines_of_the_snapshot() {
    let many = EndedLog::continue_from_hashes(vec![String::new(); 1_251]);
    assert!(many.is_too_long(), "250,200 lines");
    let mut log = many.mark_snapshot_written();
    assert!(!log.is_too_long());
    let job = Ended {
        job: Job {
            id: JobId(1),
            user: UserId(7),
            bank: "b".into(),
            queue: None,
            ran_on: Resources { nodes: 1, cores: 2, gpus: 3 },
            start: 1.0,
            limit: 0.0,
        },
        end: 2.0,
    };
    let more = vec![job; 250_200];
    log.add(&more, &[], 7);
    assert!(!log.is_too_long());
    log.add(&more[..1], &[], 7);
    assert!(log.is_too_long());
}

#[test]
fn snapshot_lines_of_ended_jobs_omit_a_missing_queue_and_time_limit() {
    let ran_on = Resources { nodes: 1, cores: 2, gpus: 3 };
    for (queue, limit, line) in [
        (None, 0.0, r#"[1,7,"b",[1,2,3],1.0,3.5]"#),
        (None, 2.5, r#"[1,7,"b",[1,2,3],1.0,3.5]"#),
        (Some("q"), 0.0, r#"[1,7,"b",[1,2,3],1.0,3.5,"q"]"#),
        (Some("q"), 2.0, r#"[1,7,"b",[1,2,3],1.0,3.5,"q",2.0]"#),
        (None, 2.0, r#"[1,7,"b",[1,2,3],1.0,3.5,"",2.0]"#),
    ] {
        let (queue, limit_read) = (queue.map(QueueName::from), if limit < 2.5 { limit } else { 0.0 });
        let job = |limit| Job {
            id: JobId(1),
            user: UserId(7),
            bank: "b".into(),
            queue: queue.clone(),
            ran_on,
            start: 1.0,
            limit,
        };
        let changes = EndedLog::default().add(&[Ended { job: job(limit), end: 3.5 }], &[], 7);
        assert_eq!(changes[0].1.as_deref(), Some(&*format!("{line}\n")));
        let read = jobs::read_chunk(line).unwrap().0;
        assert_eq!(read, [Ended { job: job(limit_read), end: 3.5 }]);
    }
}

#[test]
fn the_snapshot_has_a_chunk_of_budgets_only_if_the_site_has_budgets() {
    let mut rest = make_empty_site();
    let chunks = build_chunks(&rest);
    let (target, measure) = (Target::User(UserId(7)), Measure::CoreTime);
    rest.budgets = vec![Budget { target, measure, start: 1, end: 2, deposited: -3, spent: 4, rate: 5 }];
    let with_budgets = build_chunks(&rest);
    let new: Vec<&String> = with_budgets.iter().filter(|chunk| !chunks.contains(chunk)).collect();
    assert_eq!(
        new,
        [
            r#"{"budgets":[{"deposited":-3,"end":2,"name":"7","rate":5,"scope":"user","spent":4,"start":1,"unit":"core-hours"}]}"#
        ]
    );
    let read = wire::read_policy_part(Some(new[0]), &mut Reader::default()).unwrap().1.budgets;
    assert_eq!(read, rest.budgets);
}

#[test]
fn the_snapshot_has_a_chunk_of_charge_factors_only_if_the_site_has_charge_factors() {
    let mut rest = make_empty_site();
    let chunks = build_chunks(&rest);
    assert!(chunks.iter().all(|chunk| !chunk.contains("charge")), "{chunks:?}");
    let totals = Resources { nodes: 3, cores: 12, gpus: 0 };
    rest.charges = Charges {
        factors: vec![ChargeChange { queue: "gpu".into(), since: 1.5e9, factor: 0.5 }],
        rules: vec![ChargeByChange { since: 1.6e9, charge_by: ChargeBy::Max, totals }],
    };
    let with_charges = build_chunks(&rest);
    let new: Vec<&String> = with_charges.iter().filter(|chunk| !chunks.contains(chunk)).collect();
    assert_eq!(
        new,
        [
            r#"{"charges":[{"factor":0.5,"queue":"gpu","since":1500000000.0}]}"#,
            r#"{"charge_by":[{"charge_by":"max","cores":12,"gpus":0,"nodes":3,"since":1600000000.0}]}"#
        ]
    );
    let read =
        |chunk: &String| wire::read_policy_part(Some(chunk), &mut Reader::default()).unwrap().1.charges;
    assert_eq!(read(new[0]).factors, rest.charges.factors);
    assert_eq!(read(new[1]).rules, rest.charges.rules);
}

#[test]
fn snapshot_chunks_have_the_documented_format() {
    let kept = make_association(4, "A", 0.25, Some(7.0));
    let [limits, fairshare, usage] = super::lines::format_lines(&kept);
    assert_eq!(
        limits,
        r#"{"userid":4,"bank":"A","def_bank":"d","max_running_jobs":1,"max_active_jobs":9223372036854775807,"max_sched_jobs":-9223372036854775808,"max_nodes":0,"max_cores":5,"queues":"q,ü \"r\"","projects":"","def_project":"*","active":1,"username":"u4\\","shares":4}"#
    );
    assert_eq!((fairshare, usage), ("0.25".to_owned(), "7.0,250000000.0".to_owned()));
    let queue = Queue {
        name: "q".into(),
        priority: 1,
        max_running_jobs: Limit(2),
        max_nodes_per_assoc: Limit(3),
        max_sched_jobs: Limit(4),
        max_sched_nodes_per_assoc: Limit(5),
        max_sched_cores_per_assoc: Limit(6),
        min_nodes_per_job: 7,
        max_nodes_per_job: 8,
        max_time_per_job: 9,
    };
    let bank = Bank { name: "A".into(), parent: None, shares: 2, active: true };
    let leaf = Leaf {
        user: None,
        usage: None,
        counted: Watermark::through(f64::NEG_INFINITY),
        ..kept.leaf.unwrap()
    };
    let rest = SavedSite {
        leaves: vec![leaf],
        queues: vec![queue],
        projects: vec!["p".into()],
        banks: vec![(("A".into(), 0.0), Some(bank)), (("B".into(), 1.5), None)],
        ..make_empty_site()
    };
    let texts: Vec<String> = super::site_chunks::build_chunks(&rest);
    assert_eq!(
        texts[1..],
        [
            r#"{"associations":[{"active":1,"bank":"A","counted_until":-1000000000000.0,"def_bank":"A","def_project":"","fairshare":0.0,"max_active_jobs":0,"max_cores":0,"max_nodes":0,"max_running_jobs":0,"max_sched_jobs":0,"projects":"","queues":"","shares":4,"usage":0.0,"userid":4294967295,"username":"u4\\"}]}"#,
            r#"{"queues":[{"max_nodes_per_assoc":3,"max_nodes_per_job":8,"max_running_jobs":2,"max_sched_cores_per_assoc":6,"max_sched_jobs":4,"max_sched_nodes_per_assoc":5,"max_time_per_job":9,"min_nodes_per_job":7,"priority":1,"queue":"q"}]}"#,
            r#"{"projects":[{"project":"p"}]}"#,
            r#"{"banks":[{"active":1,"bank":"A","parent":"","priority":0.0,"shares":2},{"bank":"B","priority":1.5}]}"#,
            r#"{"priority_factors":[{"factor":"x","weight":-1}]}"#,
        ]
    );
}

#[test]
fn after_more_than_three_panics_nothing_is_saved_until_the_configuration_is_read_again() {
    let engine = Engine::new(UserId(1000));
    let mut snapshot = Snapshot::new(false);
    assert!(matches!(snapshot.configure(&engine, true)[..], [Action::Write(_)]));
    for _ in 0..MAX_PANICS {
        assert!(matches!(snapshot.recover()[..], [Action::Write(_)]));
    }
    assert!(matches!(snapshot.recover()[..], [Action::Log(LogLevel::Error, _)]));
    assert!(snapshot.record_push_in_force(true).is_empty());
    assert!(snapshot.recover().is_empty());
    assert!(matches!(snapshot.configure(&engine, true)[..], [Action::Write(_)]));
}

/// The plugin removes a foreign snapshot before it writes a new one, and any snapshot if the setting `remember` is false.
#[test]
fn a_failed_removal_of_a_snapshot_is_repeated_but_logged_once() {
    for is_on in [true, false] {
        let mut engine = Engine::new(UserId(1000));
        let mut snapshot = Snapshot { is_on: Some(is_on), is_foreign: true, ..Snapshot::default() };
        snapshot.record_push_in_force(true);
        for is_first in [true, false, false] {
            assert!(matches!(snapshot.begin_next_task(&mut engine, 0.0)[..], [Action::Write(_)]));
            let actions = snapshot.continue_after_write_commit(Err("no space".to_owned()));
            match (is_first, &actions[..]) {
                (true, [Action::Log(LogLevel::Error, _), Action::StepIn(_)])
                | (false, [Action::StepIn(_)]) => {}
                _ => panic!("{} actions, first: {is_first}, setting: {is_on}", actions.len()),
            }
            assert!(matches!(snapshot.step(&mut engine, false)[..], [Action::Next]));
        }
    }
}

/// Otherwise the next reload would restore an earlier push.
#[test]
fn a_push_during_the_time_in_which_nothing_is_saved_is_saved_later() {
    let mut engine = Engine::new(UserId(1000));
    let mut snapshot = Snapshot::new(false);
    snapshot.configure(&engine, true);
    (0..=MAX_PANICS).for_each(|_| drop(snapshot.recover()));
    engine.handle(0.0, Event::Policy(SiteRecords::default(), SitePart::default()));
    assert!(snapshot.record_push_in_force(true).is_empty());
    assert!(matches!(snapshot.configure(&engine, true)[..], [Action::Write(_)]));
    assert!(matches!(snapshot.continue_after_write_commit(Ok(()))[..], [Action::LookUp(MANIFEST, _)]));
    let missing = Err(Error { call: "flux_kvs_lookup", errno: ENOENT });
    assert!(matches!(snapshot.note_reply(&engine, MANIFEST, missing)[..], [Action::Next]));
    assert!(matches!(snapshot.begin_next_task(&mut engine, 0.0)[..], [Action::StepIn(_)]));
}

/// If the timer of the next write panicked, the timer is not armed any more.
#[test]
fn ended_jobs_are_saved_after_a_panic_between_two_writes() {
    let mut snapshot = Snapshot { is_on: Some(true), is_whole: true, ..Snapshot::default() };
    assert!(snapshot.recover().is_empty(), "the KVS has no snapshot to which the plugin could add jobs");
    snapshot.stored_keys.insert(manifest_key());
    assert!(matches!(snapshot.recover()[..], [Action::StepWithin(ENDED_PERIOD)]));
}

/// Returns a KVS with `values`, whose keys are below the root.
fn build_kvs<'a>(values: impl IntoIterator<Item = (&'a str, &'a str)>) -> Kvs {
    let values = values.into_iter().map(|(key, text)| (format!("{}.{key}", record::ROOT), text.to_owned()));
    Kvs { values: values.collect(), ..Kvs::default() }
}

/// Returns the users in a snapshot of user 1000 with their usages, and the number of ended jobs.
fn read_users_and_jobs(kvs: &Kvs) -> (Vec<(u32, Option<f64>)>, usize) {
    let usage = |kept: &SavedAssociation| kept.leaf.as_ref().and_then(|leaf| leaf.usage);
    let users = kvs
        .read_associations(1000)
        .iter()
        .map(|kept| (kept.record.association.user.0, usage(kept)))
        .collect();
    let lists = kvs.begin_reading(1000).jobs;
    let jobs = jobs::chunk_keys(&lists).map(|key| jobs::read_chunk(&kvs.values[&key]).unwrap().0.len()).sum();
    (users, jobs)
}

#[test]
fn the_example_of_the_document_is_read() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/design/snapshot.md");
    let Ok(document) = std::fs::read_to_string(path) else { return };
    let root = format!("{}.", record::ROOT);
    let mut texts: Vec<(&str, String)> = Vec::new();
    let blocks = document.split("```text\n").skip(1).filter_map(|block| block.split("```").next());
    for line in blocks.flat_map(str::lines) {
        match line.strip_prefix(root.as_str()) {
            Some(key) => texts.push((key, String::new())),
            None => *texts.last_mut().map(|(_, text)| text).unwrap() += &format!("{line}\n"),
        }
    }
    for (key, text) in &mut texts {
        // Only the chunks that consist of lines end with a line break.
        if !key.starts_with("base.") && !key.starts_with("jobs.") {
            text.pop();
        }
        let hash_and_text = (key.rsplit('.').next().unwrap(), text.as_str());
        let (sum, hashed) = text.split_once('\n').filter(|(sum, _)| sum.len() == 16).unwrap_or(hash_and_text);
        assert_eq!(sum, hash(hashed), "{key}");
    }
    let kvs = build_kvs(texts.iter().map(|(key, text)| (*key, text.as_str())));
    assert_eq!(read_users_and_jobs(&kvs), (vec![(5001, Some(7200.0)), (5002, Some(0.0))], 1));
}
