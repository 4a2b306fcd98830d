// SPDX-License-Identifier: LGPL-3.0-only
//! kill -9 during an update leaves the old values or the new ones, never a mix.

use std::process::Command;
use std::time::{Duration, Instant};

use super::PROGRAM;
use super::site::{Site, fairshares};

/// Kills an update at many moments. Each time, the values must be all old or all new.
fn assert_killed_update_is_atomic(site: &Site) {
    let old = "UPDATE association_table SET fairshare = 0.123456";
    let update =
        || Command::new(PROGRAM).args(["update", "-p", site.path()]).spawn().expect("the program starts");
    site.sql(old);
    let started = Instant::now();
    assert!(update().wait().expect("it ends").success());
    let full_duration = started.elapsed();
    let new = site.fairshares();
    let stale: Vec<(String, f64)> = new.iter().map(|(user, _)| (user.clone(), 0.123456)).collect();
    assert!(new.iter().zip(&stale).all(|(new, stale)| new.1 != stale.1), "every row changes");

    let (mut kept, mut done) = (0, 0);
    // Step 0 kills the process at once. In later steps, the process may end before it is killed.
    for step in 0..24_u32 {
        site.sql(old);
        let moment = full_duration.mul_f64(1.1 * f64::from(step) / 24.0);
        let mut child = update();
        std::thread::sleep(moment.max(Duration::from_millis(1)));
        // Send SIGKILL. The call may fail if the process has already ended.
        let _ = child.kill();
        child.wait().expect("it ends");
        let found = fairshares(&site.path);
        if found == stale {
            kept += 1;
        } else {
            assert!(found == new, "the database has old and new values after a kill at {moment:?}");
            done += 1;
        }
    }
    assert!(kept > 0, "every kill came after the values were stored ({done} of 24, {full_duration:?})");
    let check: String =
        site.open().query_row("PRAGMA integrity_check", [], |row| row.get(0)).expect("checked");
    assert_eq!(check, "ok");
}

#[test]
fn a_killed_update_stores_all_or_nothing_with_a_rollback_journal() {
    assert_killed_update_is_atomic(&Site::large("kill_journal", 40, 300));
}

#[test]
fn a_killed_update_of_a_wal_database_stores_all_or_nothing() {
    let site = Site::large("kill_wal", 40, 300);
    site.sql("PRAGMA journal_mode = WAL");
    assert_killed_update_is_atomic(&site);
}
