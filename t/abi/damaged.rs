// SPDX-License-Identifier: LGPL-3.0-only
//! The plugin refuses and logs a damaged snapshot and a snapshot of another owner. The next push replaces the snapshot.

use fairshare_embedded::Errno;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::remember::{ENDED, MANIFEST, make_site_with_push, tree};
use super::{Site, document};

/// Checks that the plugin refuses the snapshot with a text that contains `why`, and that a push replaces the snapshot.
fn check_refused(site: &Site, why: &str) {
    site.host.take_log();
    site.reload();
    assert!(!site.has_data(), "{why}");
    let log = site.host.take_log();
    let line = log.iter().find(|line| line.text.contains("is refused: ")).map(|line| line.text.as_str());
    assert!(
        line.is_some_and(|line| line.contains(why) && line.contains("flux fairshare push")),
        "{why}: {log:?}"
    );
    site.ask("policy_update", &document());
    site.host.settle();
    site.reload();
    assert!(site.has_data(), "{why}");
}

#[test]
fn a_damaged_or_incompatible_snapshot_is_refused_and_logged() {
    let texts = |site: &Site| site.host.kvs();
    let first = |site: &Site| texts(site).keys().find(|key| key.contains(".rest.")).unwrap().clone();
    type Damage<'a> = (&'a str, &'a dyn Fn(&Site));
    let groups = |site: &Site| texts(site).keys().find(|key| key.contains(".groups.")).unwrap().clone();
    let damages: [Damage<'_>; 13] = [
        ("is missing", &|site| site.host.kvs_put(&groups(site), None)),
        ("is damaged", &|site| site.host.kvs_put(&groups(site), Some("[]"))),
        ("it has format 2, this plugin reads format 3", &|site| {
            let json = r#"{"format":2,"owner":0,"at":1.0,"associations":1,"rest":[],"groups":[]}"#;
            let sum = xxhash_rust::xxh3::xxh3_64(json.as_bytes());
            site.host.kvs_put(MANIFEST, Some(&format!("{sum:016x}\n{json}")));
        }),
        ("the list of ended jobs is missing", &|site| site.host.kvs_put(ENDED, None)),
        ("the list of ended jobs is damaged", &|site| site.host.kvs_put(ENDED, Some("[]"))),
        ("the manifest is damaged", &|site| {
            let text = texts(site)[MANIFEST].replacen("format", "fromat", 1);
            site.host.kvs_put(MANIFEST, Some(&text));
        }),
        ("the manifest is damaged", &|site| site.host.kvs_put(MANIFEST, Some("{\"mine\": 1}"))),
        ("the manifest is damaged", &|site| site.host.kvs_put(MANIFEST, Some(""))),
        ("is missing", &|site| site.host.kvs_put(&first(site), None)),
        ("is damaged", &|site| site.host.kvs_put(&first(site), Some("{}"))),
        ("is damaged", &|site| site.host.kvs_put(&first(site), Some(&"[".repeat(1 << 20)))),
        ("bytes", &|site| site.host.kvs_put(&first(site), Some(&"x".repeat(5 << 20)))),
        ("Is a directory", &|site| {
            site.host.kvs_put(MANIFEST, None);
            site.host.kvs_put(&format!("{MANIFEST}.below"), Some("x"));
        }),
    ];
    for (why, damage) in damages {
        let site = make_site_with_push(&document());
        damage(&site);
        check_refused(&site, why);
    }
    let site = make_site_with_push(&document());
    site.host.set_kvs_errors(None, Some(Errno(5)));
    site.host.take_log();
    site.reload();
    assert!(!site.has_data() && site.has_logged("Input/output error"));
}

#[test]
fn a_snapshot_with_a_changed_or_missing_byte_is_refused() {
    let site = make_site_with_push(&tree(20, f64::from));
    let stored_values = site.host.kvs();
    let before = site.pushed_data();
    let mut runner = TestRunner::new(Config { cases: 24, ..Config::default() });
    let strategy = (0..stored_values.len(), any::<prop::sample::Index>(), 1_u8..128, any::<bool>());
    let outcome = runner.run(&strategy, |(which, place, flip, is_cut)| {
        let (key, text) = stored_values.iter().nth(which).unwrap();
        let mut bytes = text.clone().into_bytes();
        let at = place.index(bytes.len());
        if is_cut {
            bytes.truncate(at);
        } else {
            bytes[at] = (bytes[at] ^ flip) & 0x7f;
        }
        let damaged = String::from_utf8(bytes).unwrap().replace('\0', " ");
        site.host.kvs_put(key, Some(&damaged));
        site.host.take_log();
        site.reload();
        let is_logged = site.has_logged("is refused: ");
        site.host.kvs_put(key, Some(text));
        if damaged == *text {
            prop_assert_eq!(site.pushed_data(), before.clone());
        } else {
            prop_assert!(is_logged && !site.has_data(), "{} {} {}", key, at, flip);
        }
        Ok(())
    });
    outcome.unwrap();
}
