// SPDX-License-Identifier: LGPL-3.0-only
//! Snapshots that are written again, or during another write.

use fairshare_embedded::Errno;
use serde_json::json;

use super::remember::{pushed, tree, used};
use super::{OWNER, document, job, topic};

/// A list of ended jobs grows, so that its former chunk is removed. Then a push covers the added jobs, and the former chunk is needed again.
#[test]
fn a_text_that_was_taken_away_is_written_again() {
    let mut document = tree(3, |_| 0.0);
    document["tree"]["half_life"] = json!(0);
    let site = pushed(&document);
    for id in [1000, 1001].map(|user| site.submit(&job(user, 1))) {
        site.host.advance(10.0);
        site.finish(id);
        site.host.advance(130.0);
    }
    document["associations"][1]["counted_until"] = json!(site.host.now());
    site.ask("policy_update", &document);
    site.host.settle();
    let before = used(&site, 1000);
    assert!(before > 5.0 && used(&site, 1001) == 0.0, "{before}");
    site.host.take_log();
    site.reload();
    assert!(site.said("restored the last push: "));
    assert!((used(&site, 1000) - before).abs() < 1e-9);
    site.check();
}

#[test]
fn a_push_that_comes_while_a_write_fails_is_written_a_while_later() {
    let site = pushed(&tree(300, f64::from));
    site.host.set_kvs_errors(Some(Errno(28)), None);
    for next in [tree(300, |user| f64::from(user) + 1.0), document()] {
        site.host.request_now(&topic("policy_update"), Some(&next.to_string()), OWNER).unwrap();
        // The first write has failed, and the plugin has not got the answer yet.
        site.host.settle_commits(1);
    }
    site.host.settle();
    assert!(site.said("can't be saved"));
    site.host.set_kvs_errors(None, None);
    let in_force = site.policy();
    site.host.advance(130.0);
    site.reload();
    assert!(site.policy() == in_force, "another policy is in force");
}
