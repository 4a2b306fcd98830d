// SPDX-License-Identifier: LGPL-3.0-only
//! Tests that the plugin writes chunks of the snapshot again after it has removed them. Also tests a push
//! that arrives while a write to the KVS fails.

use fairshare_embedded::Errno;
use serde_json::json;

use super::remember::{make_site_with_push, tree, usage_of};
use super::{OWNER, document, job, topic};

/// The snapshot has a chunk with one ended job. When a second job ends, the plugin replaces this chunk by a chunk with both
/// jobs. After a push with the usage of the second job, the plugin needs the first chunk again.
#[test]
fn a_chunk_that_was_removed_is_written_again() {
    let mut document = tree(3, |_| 0.0);
    document["tree"]["half_life"] = json!(0);
    let site = make_site_with_push(&document);
    for id in [1000, 1001].map(|user| site.submit(&job(user, 1))) {
        site.host.advance(10.0);
        site.finish(id);
        site.host.advance(130.0);
    }
    document["associations"][1]["counted_until"] = json!(site.host.now());
    site.ask("policy_update", &document);
    site.host.settle();
    let before = usage_of(&site, 1000);
    assert!(before > 5.0 && usage_of(&site, 1001) == 0.0, "{before}");
    site.host.take_log();
    site.reload();
    assert!(site.has_logged("restored the last push: "));
    assert!((usage_of(&site, 1000) - before).abs() < 1e-9);
    site.check();
}

#[test]
fn a_push_during_a_write_that_fails_is_written_later() {
    let site = make_site_with_push(&tree(300, f64::from));
    site.host.set_kvs_errors(Some(Errno(28)), None);
    for next in [tree(300, |user| f64::from(user) + 1.0), document()] {
        site.host.request_now(&topic("policy_update"), Some(&next.to_string()), OWNER).unwrap();
        // The first write has failed, but its answer has not reached the plugin.
        site.host.run_reactor_up_to_commit_limit(1);
    }
    site.host.settle();
    assert!(site.has_logged("can't be saved"));
    site.host.set_kvs_errors(None, None);
    let in_force = site.pushed_data();
    site.host.advance(130.0);
    site.reload();
    assert!(site.pushed_data() == in_force, "the data after the reload differ from the data before");
}

/// The KVS refuses writes for two minutes.
#[test]
fn a_snapshot_that_could_not_be_written_is_written_within_a_minute_after_the_kvs_recovers() {
    let site = make_site_with_push(&tree(300, f64::from));
    site.host.set_kvs_errors(Some(Errno(28)), None);
    site.ask("policy_update", &document());
    site.host.advance(130.0);
    let log = site.host.take_log();
    let failures = log.iter().filter(|line| line.text.contains("can't be saved"));
    assert_eq!(failures.count(), 1, "the first failure is logged");
    site.host.set_kvs_errors(None, None);
    let in_force = site.pushed_data();
    site.host.advance(70.0);
    site.reload();
    assert!(site.pushed_data() == in_force, "the data after the reload differ from the data before");
}
