// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of changes between two runs: by flux-accounting's programs, by administrators, and of the clock.

use std::time::Duration;

use super::super::{compute_usages_with_half_life, fetch, scrub};
use super::{Access, Database, END, H, Recount, Rule, Site, StoredPeriods};

/// A time in the first period.
const FIRST: f64 = END - H + 100.0;

#[test]
fn records_without_an_association_wait_for_it() {
    let site = Site::new("wait");
    site.add_job(1, 9, "A", FIRST, 10.0);
    site.add_job(2, 1, "nowhere", FIRST, 20.0);
    let tally = site.run(FIRST + 1.0).expect("a run");
    assert_eq!(tally.unplaced, [(9, "A".to_owned(), 1), (1, "nowhere".to_owned(), 1)]);
    assert_eq!((tally.counted, tally.waiting), (0, 2));
    // A record without an association is reported only once.
    let tally = site.run(FIRST + 2.0).expect("a run");
    assert_eq!((tally.unplaced.len(), tally.waiting), (0, 2));
    site.add_user(9, "A");
    let tally = site.run(FIRST + 3.0).expect("a run");
    assert_eq!((tally.counted, tally.waiting), (1, 1));
    assert_eq!(site.usages(), [0.0, 0.0, 0.0, 10.0]);
    assert_eq!(site.run(FIRST + 4.0).expect("a run").counted, 0);
}

/// `flux account edit-user --userid` and `sync-userids` leave the former user id in the rows of usage and in
/// job records. These records must count for the user.
#[test]
fn records_of_a_former_user_id_count_for_the_user() {
    let site = Site::new("former");
    let usage =
        || site.run_query_for_numbers("SELECT job_usage FROM association_table WHERE username = 'u1'");
    site.add_job(1, 1, "A", FIRST, 10.0);
    site.add_job(2, 1, "", FIRST + 1.0, 5.0);
    site.run(FIRST + 2.0).expect("a run");
    assert_eq!(usage(), [15.0]);
    site.run_sql("UPDATE association_table SET userid = 77 WHERE userid = 1");
    site.run_sql("UPDATE job_usage_factor_table SET userid = 77 WHERE userid = 1");
    // Job 3 was running when the user id changed, and job 4 was submitted later.
    site.add_job(3, 1, "A", FIRST + 3.0, 2.0);
    site.add_job(4, 77, "A", FIRST + 4.0, 4.0);
    let tally = site.run(FIRST + 5.0).expect("a run");
    assert_eq!((tally.counted, tally.waiting, tally.unplaced), (2, 0, Vec::new()));
    assert_eq!(usage(), [21.0]);
    site.recount(FIRST + 6.0).expect("a recount");
    assert_eq!(usage(), [21.0]);
    // If the decay factor changes, the next run counts all records again.
    site.run_sql("UPDATE config_table SET value = '0.25' WHERE key = 'decay_factor'");
    let tally = site.run(FIRST + 7.0).expect("a run");
    assert!(tally.recounted.is_some());
    assert_eq!(usage(), [21.0]);
    // The former user id now belongs to another user, and so do the records with this id.
    site.run_sql(
        "INSERT INTO association_table (username, userid, bank, default_bank) VALUES ('new', 1, 'A', 'A')",
    );
    site.recount(FIRST + 8.0).expect("a recount");
    assert_eq!(usage(), [4.0]);
}

#[test]
fn records_with_a_former_user_id_of_several_users_are_not_counted() {
    let site = Site::new("former_of_several");
    site.run_sql("UPDATE job_usage_per_association_table SET userid = 9 WHERE bank = 'A'");
    site.run_sql("UPDATE job_usage_factor_table SET userid = 9 WHERE bank = 'A'");
    site.add_job(1, 9, "A", FIRST, 10.0);
    let tally = site.run(FIRST + 1.0).expect("a run");
    assert_eq!((tally.counted, tally.waiting), (0, 1));
}

#[test]
fn a_job_without_a_bank_counts_in_the_default_bank() {
    let site = Site::new("default");
    site.run_sql(
        "INSERT INTO association_table (username, userid, bank, default_bank) VALUES ('u1', 1, 'B', 'A')",
    );
    site.add_job(1, 1, "", FIRST, 10.0);
    site.add_job(2, 1, "B", FIRST + 5.0, 3.0);
    let tally = site.run(FIRST + 10.0).expect("a run");
    assert_eq!((tally.counted, tally.in_default_bank), (2, 1));
    assert_eq!(site.banks(), [13.0, 10.0, 3.0]);
    // flux-accounting skips jobs without a bank. A sync must still count such a job, even after flux-accounting has
    // counted later jobs.
    let site = Site::new("default_taken_over");
    site.add_job(1, 1, "A", FIRST + 5.0, 3.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, FIRST + 6.0).expect("a run");
    site.add_job(2, 1, "", FIRST, 10.0);
    site.run(FIRST + 10.0).expect("a run");
    assert_eq!(site.usages(), [13.0, 0.0, 0.0]);
}

#[test]
fn jobs_that_flux_accounting_counted_are_not_counted_again() {
    let site = Site::new("between");
    site.add_job(1, 1, "A", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    site.add_job(2, 1, "A", FIRST + 5.0, 20.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, FIRST + 6.0).expect("a run");
    assert_eq!(site.usages(), [30.0, 0.0, 0.0]);
    site.add_job(3, 1, "A", FIRST + 9.0, 5.0);
    site.add_job(4, 2, "A", FIRST - 9.0, 7.0);
    assert_eq!(site.run(FIRST + 10.0).expect("a run").counted, 2);
    assert_eq!(site.usages(), [35.0, 7.0, 0.0]);
}

/// If a user is renamed, flux-accounting keeps the row of the former name, which has the same user id.
#[test]
fn the_flux_accounting_rule_counts_a_job_again_for_a_former_name_of_its_user() {
    let site = Site::new("renamed");
    site.run_sql("INSERT INTO job_usage_factor_table (username, userid, bank) VALUES ('former', 1, 'A'), ('former', 1, 'B')");
    site.add_job(1, 1, "A", END - 5.0, 10.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, END - 1.0).expect("a run");
    assert_eq!(site.usages(), [20.0, 0.0, 0.0]);
}

#[test]
fn sync_counts_a_late_record_that_flux_accounting_skipped() {
    for (name, bank) in [("late_named", "A"), ("late_nameless", "")] {
        let site = Site::new(name);
        site.add_job(1, 1, "A", FIRST + 5.0, 10.0);
        site.run(FIRST + 6.0).expect("a run");
        site.add_job(2, 1, "A", FIRST + 8.0, 20.0);
        site.run_sync_with_usage_rule(Rule::FluxAccounting, FIRST + 9.0).expect("a run");
        // Job 3 ended before the newest counted job, so flux-accounting skips job 3.
        site.add_job(3, 1, bank, FIRST, 4.0);
        site.run(FIRST + 10.0).expect("a run");
        assert_eq!(site.usages()[0], 34.0, "{name}");
        site.run(FIRST + 11.0).expect("a run");
        assert_eq!(site.usages()[0], 34.0, "{name}");
    }
}

#[test]
fn after_clear_usage_a_bank_counts_only_later_jobs() {
    let site = Site::new("cleared");
    site.add_job(1, 1, "A", FIRST, 10.0);
    site.add_job(2, 3, "B", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    // These statements change the same values as `flux account clear-usage`. Jobs of bank A that ended before FIRST +
    // 2 no longer count.
    site.run_sql(&format!(
        "UPDATE association_table SET job_usage = 0 WHERE bank = 'A';
         UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'A';
         UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'A';
         UPDATE bank_table SET job_usage = 0, ignore_older_than = {} WHERE bank = 'A'",
        FIRST + 2.0
    ));
    site.add_job(3, 1, "A", FIRST + 5.0, 4.0);
    site.run(FIRST + 10.0).expect("a run");
    assert_eq!(site.usages(), [4.0, 0.0, 10.0]);
    assert_eq!(site.banks(), [14.0, 4.0, 10.0]);
    // If the stored end of the newest counted job is set to an earlier time, jobs that ended after that time count again.
    site.run_sql(&format!(
        "UPDATE association_table SET job_usage = 0 WHERE bank = 'A';
         UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'A';
         UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'A';
         UPDATE bank_table SET job_usage = 0, ignore_older_than = {} WHERE bank = 'A'",
        FIRST - 1.0
    ));
    site.run(FIRST + 11.0).expect("a run");
    assert_eq!(site.usages(), [14.0, 0.0, 10.0]);
}

#[test]
fn the_first_sync_removes_past_usage_from_bin_0() {
    let site = Site::new("twice");
    site.run_sql("UPDATE job_usage_per_association_table SET value = 1000.0 WHERE userid = 1 AND period = 0");
    site.run_sql("UPDATE association_table SET job_usage = 1000.0 WHERE userid = 1");
    site.add_job(1, 1, "A", END + H + 5.0, 100.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, END + H + 10.0).expect("a run");
    assert_eq!((site.usages()[0], site.bins(1)[..2].to_vec()), (600.0, vec![600.0, 500.0]));
    site.add_job(2, 1, "A", END + H + 15.0, 10.0);
    assert_eq!(site.run(END + H + 20.0).expect("a run").repaired, 1);
    assert_eq!((site.usages()[0], site.bins(1)[..2].to_vec()), (610.0, vec![110.0, 500.0]));
}

#[test]
fn new_period_lengths_recount_all_usage_from_the_job_records() {
    let site = Site::new("lengths");
    site.add_job(1, 1, "A", FIRST, 80.0);
    site.add_job(2, 1, "A", END + 10.0, 40.0);
    site.run(END + 20.0).expect("a run");
    assert_eq!(site.usages()[0], 80.0);
    // The SQL statements change the same values as `flux account edit-config`. They halve the half-life and keep the
    // number of periods.
    let now = END + 30.0;
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let predicted =
        compute_usages_with_half_life(&database.snapshot().expect("a snapshot"), H / 2.0, now, None);
    site.run_sql(&format!(
        "UPDATE config_table SET value = '{}' WHERE key = 'priority_decay_half_life';
         UPDATE config_table SET value = '{}' WHERE key = 'priority_usage_reset_period';
         INSERT INTO config_table VALUES ('reconfigure_time', '{now}');
         UPDATE job_usage_per_association_table SET value = 0;
         UPDATE job_usage_factor_table SET last_job_timestamp = 0;
         UPDATE t_half_life_period_table SET end_half_life_period = {}",
        H / 2.0,
        2.0 * H,
        now + H / 2.0
    ));
    let copy = Site::new("lengths_theirs");
    std::fs::copy(&site.path, &copy.path).expect("a copy");
    copy.run_sync_with_usage_rule(Rule::FluxAccounting, now + 5.0).expect("a run");
    assert_eq!(copy.bins(1), [0.0; 4], "flux-accounting drops the history");
    let tally = site.run(now + 5.0).expect("a run");
    assert!(tally.recounted.is_some());
    // A period is now 500 s long. Bin 1 contains job 2, and bin 2 contains job 1.
    assert_eq!(site.bins(1), [0.0, 20.0, 20.0, 0.0]);
    let found: Vec<f64> = predicted.expect("usages").into_iter().map(|(_, _, usage)| usage).collect();
    assert_eq!(found, site.usages(), "the prediction before the change");
    // A site that has lost the state of the last sync must get the same usage.
    let fresh = Site::new("lengths_fresh");
    std::fs::copy(&copy.path, &fresh.path).expect("a copy");
    fresh.run_sql("DROP TABLE fairshare_usage_marks");
    fresh.run(now + 6.0).expect("a run");
    assert_eq!(fresh.bins(1), [0.0, 20.0, 20.0, 0.0]);
}

#[test]
fn remaining_records_count_once_after_other_records_were_removed() {
    let site = Site::new("scrubbed");
    site.add_job(1, 1, "A", FIRST, 80.0);
    site.add_job(2, 1, "A", FIRST + 1.0, 10.0);
    site.run(FIRST + 20.0).expect("a run");
    // The stored state names job 2 as the last counted record. The test removes this record.
    site.run_sql("DELETE FROM jobs WHERE id = '2'");
    site.add_job(3, 1, "A", FIRST + 30.0, 5.0);
    site.run(FIRST + 40.0).expect("a run");
    assert_eq!(site.usages()[0], 95.0);
    site.run_sql("DELETE FROM jobs");
    site.add_job(4, 1, "A", FIRST + 50.0, 1.0);
    site.run(FIRST + 60.0).expect("a run");
    assert_eq!(site.usages()[0], 96.0);
}

#[test]
fn users_of_a_bank_with_sub_banks_count_in_the_bank() {
    let site = Site::new("beside");
    site.run_sql("INSERT INTO bank_table (bank, parent_bank) VALUES ('A1', 'A')");
    site.add_user(4, "A1");
    site.add_job(1, 1, "A", FIRST, 80.0);
    site.add_job(2, 4, "A1", FIRST, 5.0);
    let copy = Site::new("beside_theirs");
    std::fs::copy(&site.path, &copy.path).expect("a copy");
    copy.run_sync_with_usage_rule(Rule::FluxAccounting, FIRST + 1.0).expect("a run");
    assert_eq!(copy.banks(), [5.0, 5.0, 0.0, 5.0]);
    site.run(FIRST + 1.0).expect("a run");
    assert_eq!(site.banks(), [85.0, 85.0, 0.0, 5.0]);
}

#[test]
fn scrubbing_removes_no_record_of_a_stored_period() {
    let site = Site::new("scrub");
    let now = END + 4.5 * H;
    // Periods 1 to 4 are stored.
    site.add_job(1, 1, "A", END + 4.1 * H, 10.0);
    site.add_job(2, 1, "A", END + H, 80.0);
    site.add_job(3, 1, "A", END + H - 1.0, 160.0);
    site.run(now).expect("a run");
    let scrub = |before| {
        let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let scrubbed = scrub::scrub(&snapshot, before, now).expect("scrubbed");
        snapshot.commit().expect("stored");
        (scrubbed.removed, scrubbed.needed)
    };
    assert_eq!(scrub(END), (0, 0));
    assert_eq!(scrub(now), (1, 2));
    // The last record was removed. A later record must count as new, and an earlier record must not.
    site.add_job(4, 1, "A", END + 4.4 * H, 5.0);
    assert_eq!(site.run(now + 1.0).expect("a run").counted, 1);
    assert_eq!(site.usages()[0], 10.0 + 10.0 + 5.0);
}

#[test]
fn existing_usage_is_not_recounted_after_a_reconfiguration() {
    let site = Site::new("kept");
    let begin = END - H;
    site.run_sql(&format!("INSERT INTO config_table VALUES ('reconfigure_time', '{begin}')"));
    site.run_sql("UPDATE job_usage_per_association_table SET value = 8.0 WHERE userid = 1 AND period = 1");
    site.add_job(1, 1, "A", FIRST, 10.0);
    assert_eq!(site.run(FIRST + 1.0).expect("a run").recounted, None);
    assert_eq!(site.usages()[0], 18.0);
}

#[test]
fn a_record_whose_end_is_before_its_start_adds_no_usage() {
    let site = Site::new("backwards");
    // Job 1 has no end time, as in some archives. The clock was set back while job 2 ran.
    site.add_job(1, 1, "A", 0.0, -FIRST);
    site.add_job(2, 1, "A", FIRST, -10.0);
    site.add_job(3, 1, "A", FIRST + 1.0, 4.0);
    site.run(FIRST + 2.0).expect("a run");
    assert_eq!(site.usages(), [4.0, 0.0, 0.0]);
}

#[test]
fn jobs_without_a_bank_count_once_if_the_sync_state_is_lost() {
    let site = Site::new("lost_marks");
    site.add_job(1, 1, "", FIRST, 10.0);
    site.add_job(2, 3, "", FIRST, 5.0);
    site.add_job(3, 3, "B", FIRST + 0.5, 2.0);
    site.run(FIRST + 1.0).expect("a run");
    site.run_sql("DROP TABLE fairshare_usage_marks");
    site.add_job(4, 1, "", FIRST + 1.5, 1.0);
    site.run(FIRST + 2.0).expect("a run");
    assert_eq!(site.usages(), [11.0, 0.0, 7.0]);
    site.run(FIRST + 3.0).expect("a run");
    assert_eq!(site.usages(), [11.0, 0.0, 7.0]);
}

#[test]
fn clearing_a_bank_recounts_default_bank_jobs_after_its_cutoff_time() {
    let site = Site::new("cleared_default");
    site.add_job(1, 1, "", FIRST, 10.0);
    site.add_job(2, 3, "B", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    let clear = |ignored: f64| {
        site.run_sql(&format!(
            "UPDATE association_table SET job_usage = 0 WHERE bank = 'A';
             UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'A';
             UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'A';
             UPDATE bank_table SET job_usage = 0, ignore_older_than = {ignored} WHERE bank = 'A'"
        ));
    };
    clear(FIRST + 2.0);
    site.add_job(3, 1, "A", FIRST + 5.0, 4.0);
    site.run(FIRST + 10.0).expect("a run");
    assert_eq!(site.usages(), [4.0, 0.0, 10.0]);
    clear(FIRST - 1.0);
    site.run(FIRST + 11.0).expect("a run");
    assert_eq!(site.usages(), [14.0, 0.0, 10.0]);
}

#[test]
fn a_recount_removes_bins_beyond_the_reset_period() {
    let site = Site::new("fewer_bins");
    // The table has more rows than the reset period needs. This happens if a site shortens the reset period.
    site.run_sql(
        "INSERT INTO job_usage_per_association_table
             SELECT 'u1', 1, 'A', value, 8.0 FROM json_each('[4, 5, 6, 7]')",
    );
    site.add_job(1, 1, "A", FIRST, 10.0);
    let recount = site.recount(FIRST + 1.0).expect("a recount");
    assert_eq!((recount.associations[0].recounted, site.usages()[0]), (10.0, 10.0));
    assert_eq!(site.bins(1), [10.0, 0.0, 0.0, 0.0]);
}

/// If the reset period is shorter than the half-life, `flux account add-user` makes four bins.
#[test]
fn a_recount_keeps_the_bins_of_a_reset_period_shorter_than_the_half_life() {
    let site = Site::new("short_reset");
    site.run_sql("UPDATE config_table SET value = '500' WHERE key = 'priority_usage_reset_period'");
    site.add_job(1, 1, "A", FIRST, 8.0);
    site.run(END + 1.0).expect("a run");
    assert!(site.recount(END + 2.0).expect("a recount").associations.is_empty());
    assert_eq!(site.usages()[0], 4.0);
}

#[test]
fn recount_shows_which_differences_the_next_sync_will_correct() {
    // END is the end of the first half-life period. flux-accounting does not decay usage at END, and a later sync
    // would keep the undecayed usage. Therefore the second case ends before END.
    for (rule, now) in [(Rule::Exact, END + 2.0), (Rule::FluxAccounting, FIRST + 20.0)] {
        let site = Site::new("due");
        site.add_job(1, 1, "A", FIRST, 10.0);
        site.add_job(2, 2, "A", FIRST, 10.0);
        site.add_job(3, 3, "B", FIRST, 10.0);
        site.run_sync_with_usage_rule(rule, FIRST + 1.0).expect("a run");
        // A job of user 2 ends, and an administrator edits the usage of user 3.
        site.add_job(4, 2, "A", now - 1.0, 4.0);
        site.run_sql(
            "UPDATE job_usage_per_association_table SET value = value + 7 WHERE userid = 3 AND period = 0",
        );
        let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let recount = Recount::new(&snapshot, now, &mut |_| ()).expect("a recount");
        let found: Vec<(usize, bool)> =
            recount.associations.iter().map(|difference| (difference.index, difference.is_due)).collect();
        let decayed = (rule == Rule::Exact).then_some((0, true));
        assert_eq!(found, decayed.into_iter().chain([(1, true), (2, false)]).collect::<Vec<_>>(), "{rule:?}");
    }
}

#[test]
fn a_recount_uses_all_usage_bins_of_a_schema_with_bin_columns() {
    let site = Site::new("more_columns");
    site.use_bin_columns(8);
    site.run_sql("UPDATE job_usage_factor_table SET usage_factor_period_5 = 8.0 WHERE userid = 1");
    site.add_job(1, 1, "A", FIRST - 5.0 * H, 32.0);
    let recount = site.recount(FIRST + 1.0).expect("a recount");
    assert_eq!((recount.associations[0].recounted, site.usages()[0]), (1.0, 1.0));
    let bins = (0..8).flat_map(|period| {
        site.run_query_for_numbers(&format!(
            "SELECT usage_factor_period_{period} FROM job_usage_factor_table WHERE userid = 1"
        ))
    });
    assert_eq!(bins.collect::<Vec<_>>(), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn a_job_counted_by_flux_accounting_decays_only_at_later_boundaries() {
    let site = Site::new("behind");
    site.add_job(1, 1, "A", END - 100.0, 1000.0);
    site.run(END - 10.0).expect("a run");
    site.add_job(2, 1, "A", END + 5.0, 100.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, END + 6.0).expect("a run");
    assert_eq!(site.usages(), [1100.0, 0.0, 0.0]);
    site.run(END + 10.0).expect("a run");
    assert_eq!(site.usages(), [600.0, 0.0, 0.0]);
    assert_eq!(site.bins(1), [100.0, 500.0, 0.0, 0.0]);
}

#[test]
fn the_period_of_bin_0_is_known_after_flux_accounting_crossed_a_boundary() {
    let site = Site::new("present");
    site.add_job(1, 1, "A", END - 100.0, 10.0);
    site.run(END - 10.0).expect("a run");
    let start_of_bin_0 = |now: f64| {
        let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        StoredPeriods::read(&snapshot, now).expect("periods").start(0)
    };
    // No program has updated the usage since END, so the newest stored usage still belongs to the first period.
    assert_eq!([start_of_bin_0(END - 1.0), start_of_bin_0(END + 1.0)], [END - H; 2]);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, END + H + 1.0).expect("a run");
    assert_eq!(start_of_bin_0(END + H + 2.0), END + H);
    site.run(END + H + 3.0).expect("a run");
    assert_eq!(start_of_bin_0(END + H + 4.0), END + H);
}

#[test]
fn a_fetch_begins_at_the_newest_job_before_the_last_fetch() {
    let site = Site::new("asked");
    let fetch_start = |now: f64, new: u64| {
        let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let newest = fetch::find_end_of_last_recorded_job(&snapshot, now).expect("a time");
        fetch::record_fetch(&snapshot, now, new).expect("recorded");
        snapshot.commit().expect("stored");
        newest
    };
    assert_eq!(fetch_start(FIRST, 0), None, "there are no records");
    site.add_job(1, 1, "A", FIRST + 5.0, 1.0);
    site.add_job(2, 1, "A", FIRST + 500.0, 1.0);
    assert_eq!(fetch_start(FIRST + 10.0, 2), None, "no record ended before the last fetch");
    assert_eq!(fetch_start(FIRST + 20.0, 0), Some(FIRST + 5.0), "an end in the future is no bound");
    assert_eq!(fetch_start(FIRST + 5000.0, 1), Some(FIRST + 5.0), "the same after a later fetch");
    assert_eq!(fetch_start(FIRST + 5001.0, 0), Some(FIRST + 500.0));
    // The clock is set back and later corrected.
    assert_eq!(fetch_start(FIRST + 200.0, 0), None);
    assert_eq!(fetch_start(FIRST + 201.0, 0), Some(FIRST + 5.0));
    assert_eq!(fetch_start(FIRST + 6000.0, 0), Some(FIRST + 5.0));
}
