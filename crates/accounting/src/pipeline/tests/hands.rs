// SPDX-License-Identifier: LGPL-3.0-only
//! What others do to the database between two runs: flux-accounting's programs, administrators, the clock.

use std::time::Duration;

use super::super::{fetch, scrub};
use super::{Access, Database, END, H, Present, Recount, Rule, Site};

/// In the first period.
const FIRST: f64 = END - H + 100.0;

#[test]
fn records_without_an_association_wait_for_it() {
    let site = Site::new("wait");
    site.job(1, 9, "A", FIRST, 10.0);
    site.job(2, 1, "nowhere", FIRST, 20.0);
    let tally = site.run(FIRST + 1.0).expect("a run");
    assert_eq!(tally.unplaced, [(9, "A".to_owned(), 1), (1, "nowhere".to_owned(), 1)]);
    assert_eq!((tally.counted, tally.waiting), (0, 2));
    // They are told of once.
    let tally = site.run(FIRST + 2.0).expect("a run");
    assert_eq!((tally.unplaced.len(), tally.waiting), (0, 2));
    site.add_user(9, "A");
    let tally = site.run(FIRST + 3.0).expect("a run");
    assert_eq!((tally.counted, tally.waiting), (1, 1));
    assert_eq!(site.usages(), [0.0, 0.0, 0.0, 10.0]);
    assert_eq!(site.run(FIRST + 4.0).expect("a run").counted, 0);
}

/// `flux account edit-user --userid` and `sync-userids` leave the former id in the rows of the usage and in the records.
#[test]
fn records_of_a_former_user_id_count_for_the_user() {
    let site = Site::new("former");
    let usage = || site.numbers("SELECT job_usage FROM association_table WHERE username = 'u1'");
    site.job(1, 1, "A", FIRST, 10.0);
    site.job(2, 1, "", FIRST + 1.0, 5.0);
    site.run(FIRST + 2.0).expect("a run");
    assert_eq!(usage(), [15.0]);
    site.sql("UPDATE association_table SET userid = 77 WHERE userid = 1");
    site.sql("UPDATE job_usage_factor_table SET userid = 77 WHERE userid = 1");
    // A job that was running when the id changed, and one that was submitted later.
    site.job(3, 1, "A", FIRST + 3.0, 2.0);
    site.job(4, 77, "A", FIRST + 4.0, 4.0);
    let tally = site.run(FIRST + 5.0).expect("a run");
    assert_eq!((tally.counted, tally.waiting, tally.unplaced), (2, 0, Vec::new()));
    assert_eq!(usage(), [21.0]);
    site.recount(FIRST + 6.0).expect("a recount");
    assert_eq!(usage(), [21.0]);
    // A changed length has the next run count all records anew.
    site.sql("UPDATE config_table SET value = '0.25' WHERE key = 'decay_factor'");
    let tally = site.run(FIRST + 7.0).expect("a run");
    assert!(tally.recounted.is_some());
    assert_eq!(usage(), [21.0]);
    // A user id that somebody else has now is that of the present holder.
    site.sql(
        "INSERT INTO association_table (username, userid, bank, default_bank) VALUES ('new', 1, 'A', 'A')",
    );
    site.recount(FIRST + 8.0).expect("a recount");
    assert_eq!(usage(), [4.0]);
}

#[test]
fn a_former_user_id_of_several_is_of_none() {
    let site = Site::new("former_of_several");
    site.sql("UPDATE job_usage_per_association_table SET userid = 9 WHERE bank = 'A'");
    site.sql("UPDATE job_usage_factor_table SET userid = 9 WHERE bank = 'A'");
    site.job(1, 9, "A", FIRST, 10.0);
    let tally = site.run(FIRST + 1.0).expect("a run");
    assert_eq!((tally.counted, tally.waiting), (0, 1));
}

#[test]
fn a_job_without_a_bank_counts_in_the_default_bank() {
    let site = Site::new("default");
    site.sql(
        "INSERT INTO association_table (username, userid, bank, default_bank) VALUES ('u1', 1, 'B', 'A')",
    );
    site.job(1, 1, "", FIRST, 10.0);
    site.job(2, 1, "B", FIRST + 5.0, 3.0);
    let tally = site.run(FIRST + 10.0).expect("a run");
    assert_eq!((tally.counted, tally.in_default_bank), (2, 1));
    assert_eq!(site.banks(), [13.0, 10.0, 3.0]);
    // That is so also where flux-accounting has counted later ones: it passes over those.
    let site = Site::new("default_taken_over");
    site.job(1, 1, "A", FIRST + 5.0, 3.0);
    site.run_by(Rule::FluxAccounting, FIRST + 6.0).expect("a run");
    site.job(2, 1, "", FIRST, 10.0);
    site.run(FIRST + 10.0).expect("a run");
    assert_eq!(site.usages(), [13.0, 0.0, 0.0]);
}

#[test]
fn what_flux_accounting_counted_is_not_counted_again() {
    let site = Site::new("between");
    site.job(1, 1, "A", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    site.job(2, 1, "A", FIRST + 5.0, 20.0);
    site.run_by(Rule::FluxAccounting, FIRST + 6.0).expect("a run");
    assert_eq!(site.usages(), [30.0, 0.0, 0.0]);
    site.job(3, 1, "A", FIRST + 9.0, 5.0);
    site.job(4, 2, "A", FIRST - 9.0, 7.0);
    assert_eq!(site.run(FIRST + 10.0).expect("a run").counted, 2);
    assert_eq!(site.usages(), [35.0, 7.0, 0.0]);
}

#[test]
fn a_record_that_comes_late_counts_also_where_flux_accounting_counted_meanwhile() {
    for (name, bank) in [("late_named", "A"), ("late_nameless", "")] {
        let site = Site::new(name);
        site.job(1, 1, "A", FIRST + 5.0, 10.0);
        site.run(FIRST + 6.0).expect("a run");
        site.job(2, 1, "A", FIRST + 8.0, 20.0);
        site.run_by(Rule::FluxAccounting, FIRST + 9.0).expect("a run");
        // It ended before the newest that we counted: whoever else counts passes over it.
        site.job(3, 1, bank, FIRST, 4.0);
        site.run(FIRST + 10.0).expect("a run");
        assert_eq!(site.usages()[0], 34.0, "{name}");
        site.run(FIRST + 11.0).expect("a run");
        assert_eq!(site.usages()[0], 34.0, "{name}");
    }
}

#[test]
fn a_bank_that_was_cleared_starts_again() {
    let site = Site::new("cleared");
    site.job(1, 1, "A", FIRST, 10.0);
    site.job(2, 3, "B", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    // What clear-usage does, here from a time on before which nothing counts.
    site.sql(&format!(
        "UPDATE association_table SET job_usage = 0 WHERE bank = 'A';
         UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'A';
         UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'A';
         UPDATE bank_table SET job_usage = 0, ignore_older_than = {} WHERE bank = 'A'",
        FIRST + 2.0
    ));
    site.job(3, 1, "A", FIRST + 5.0, 4.0);
    site.run(FIRST + 10.0).expect("a run");
    assert_eq!(site.usages(), [4.0, 0.0, 10.0]);
    assert_eq!(site.banks(), [14.0, 4.0, 10.0]);
    // With an earlier time, the jobs since then count again.
    site.sql(&format!(
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
fn a_past_in_bin_0_is_taken_out_at_the_takeover() {
    let site = Site::new("twice");
    site.sql("UPDATE job_usage_per_association_table SET value = 1000.0 WHERE userid = 1 AND period = 0");
    site.sql("UPDATE association_table SET job_usage = 1000.0 WHERE userid = 1");
    site.job(1, 1, "A", END + H + 5.0, 100.0);
    site.run_by(Rule::FluxAccounting, END + H + 10.0).expect("a run");
    assert_eq!((site.usages()[0], site.bins(1)[..2].to_vec()), (600.0, vec![600.0, 500.0]));
    site.job(2, 1, "A", END + H + 15.0, 10.0);
    assert_eq!(site.run(END + H + 20.0).expect("a run").repaired, 1);
    assert_eq!((site.usages()[0], site.bins(1)[..2].to_vec()), (610.0, vec![110.0, 500.0]));
}

#[test]
fn new_lengths_recount_from_the_records() {
    let site = Site::new("lengths");
    site.job(1, 1, "A", FIRST, 80.0);
    site.job(2, 1, "A", END + 10.0, 40.0);
    site.run(END + 20.0).expect("a run");
    assert_eq!(site.usages()[0], 80.0);
    // What edit-config does: half the half-life, as many bins as before.
    let now = END + 30.0;
    site.sql(&format!(
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
    copy.run_by(Rule::FluxAccounting, now + 5.0).expect("a run");
    assert_eq!(copy.bins(1), [0.0; 4], "there the history is forgotten");
    let tally = site.run(now + 5.0).expect("a run");
    assert!(tally.recounted.is_some());
    // Boundaries lie at END + 30 - 500, - 1000, ...: job 2 ended in the last of them, job 1 one before that.
    assert_eq!(site.bins(1), [0.0, 20.0, 20.0, 0.0]);
    // And so for a site that never ran us before.
    let fresh = Site::new("lengths_fresh");
    std::fs::copy(&copy.path, &fresh.path).expect("a copy");
    fresh.sql("DROP TABLE fairshare_usage_marks");
    fresh.run(now + 6.0).expect("a run");
    assert_eq!(fresh.bins(1), [0.0, 20.0, 20.0, 0.0]);
}

#[test]
fn records_that_went_leave_the_rest_counted_once() {
    let site = Site::new("scrubbed");
    site.job(1, 1, "A", FIRST, 80.0);
    site.job(2, 1, "A", FIRST + 1.0, 10.0);
    site.run(FIRST + 20.0).expect("a run");
    // The last record is the one that marks the place.
    site.sql("DELETE FROM jobs WHERE id = '2'");
    site.job(3, 1, "A", FIRST + 30.0, 5.0);
    site.run(FIRST + 40.0).expect("a run");
    assert_eq!(site.usages()[0], 95.0);
    site.sql("DELETE FROM jobs");
    site.job(4, 1, "A", FIRST + 50.0, 1.0);
    site.run(FIRST + 60.0).expect("a run");
    assert_eq!(site.usages()[0], 96.0);
}

#[test]
fn users_beside_sub_banks_count_in_the_bank() {
    let site = Site::new("beside");
    site.sql("INSERT INTO bank_table (bank, parent_bank) VALUES ('A1', 'A')");
    site.add_user(4, "A1");
    site.job(1, 1, "A", FIRST, 80.0);
    site.job(2, 4, "A1", FIRST, 5.0);
    let theirs = Site::new("beside_theirs");
    std::fs::copy(&site.path, &theirs.path).expect("a copy");
    theirs.run_by(Rule::FluxAccounting, FIRST + 1.0).expect("a run");
    assert_eq!(theirs.banks(), [5.0, 5.0, 0.0, 5.0]);
    site.run(FIRST + 1.0).expect("a run");
    assert_eq!(site.banks(), [85.0, 85.0, 0.0, 5.0]);
}

#[test]
fn scrubbing_takes_no_record_that_a_period_needs() {
    let site = Site::new("scrub");
    let now = END + 4.5 * H;
    // Periods 1 to 4 are kept.
    site.job(1, 1, "A", END + 4.1 * H, 10.0);
    site.job(2, 1, "A", END + H, 80.0);
    site.job(3, 1, "A", END + H - 1.0, 160.0);
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
    // The last record is gone; what comes after it is new, what was before it is not.
    site.job(4, 1, "A", END + 4.4 * H, 5.0);
    assert_eq!(site.run(now + 1.0).expect("a run").counted, 1);
    assert_eq!(site.usages()[0], 10.0 + 10.0 + 5.0);
}

#[test]
fn usage_that_is_there_was_not_thrown_away() {
    let site = Site::new("kept");
    let begin = END - H;
    site.sql(&format!("INSERT INTO config_table VALUES ('reconfigure_time', '{begin}')"));
    site.sql("UPDATE job_usage_per_association_table SET value = 8.0 WHERE userid = 1 AND period = 1");
    site.job(1, 1, "A", FIRST, 10.0);
    assert_eq!(site.run(FIRST + 1.0).expect("a run").recounted, None);
    assert_eq!(site.usages()[0], 18.0);
}

#[test]
fn a_job_that_ended_before_it_ran_counts_nothing() {
    let site = Site::new("backwards");
    // As of an archive that does not say when a job ended, and of a clock that was set back while one ran.
    site.job(1, 1, "A", 0.0, -FIRST);
    site.job(2, 1, "A", FIRST, -10.0);
    site.job(3, 1, "A", FIRST + 1.0, 4.0);
    site.run(FIRST + 2.0).expect("a run");
    assert_eq!(site.usages(), [4.0, 0.0, 0.0]);
}

#[test]
fn jobs_that_name_no_bank_count_once_if_what_is_remembered_is_lost() {
    let site = Site::new("lost_marks");
    site.job(1, 1, "", FIRST, 10.0);
    site.job(2, 3, "", FIRST, 5.0);
    site.job(3, 3, "B", FIRST + 0.5, 2.0);
    site.run(FIRST + 1.0).expect("a run");
    site.sql("DROP TABLE fairshare_usage_marks");
    site.job(4, 1, "", FIRST + 1.5, 1.0);
    site.run(FIRST + 2.0).expect("a run");
    assert_eq!(site.usages(), [11.0, 0.0, 7.0]);
    site.run(FIRST + 3.0).expect("a run");
    assert_eq!(site.usages(), [11.0, 0.0, 7.0]);
}

#[test]
fn jobs_that_name_no_bank_start_again_with_a_bank_that_was_cleared() {
    let site = Site::new("cleared_default");
    site.job(1, 1, "", FIRST, 10.0);
    site.job(2, 3, "B", FIRST, 10.0);
    site.run(FIRST + 1.0).expect("a run");
    let clear = |ignored: f64| {
        site.sql(&format!(
            "UPDATE association_table SET job_usage = 0 WHERE bank = 'A';
             UPDATE job_usage_per_association_table SET value = 0 WHERE bank = 'A';
             UPDATE job_usage_factor_table SET last_job_timestamp = 0 WHERE bank = 'A';
             UPDATE bank_table SET job_usage = 0, ignore_older_than = {ignored} WHERE bank = 'A'"
        ));
    };
    clear(FIRST + 2.0);
    site.job(3, 1, "A", FIRST + 5.0, 4.0);
    site.run(FIRST + 10.0).expect("a run");
    assert_eq!(site.usages(), [4.0, 0.0, 10.0]);
    clear(FIRST - 1.0);
    site.run(FIRST + 11.0).expect("a run");
    assert_eq!(site.usages(), [14.0, 0.0, 10.0]);
}

#[test]
fn a_recount_removes_bins_that_are_no_longer_kept() {
    let site = Site::new("fewer_bins");
    // More rows than the reset period asks for, as of a site that has shortened it.
    site.sql(
        "INSERT INTO job_usage_per_association_table
             SELECT 'u1', 1, 'A', value, 8.0 FROM json_each('[4, 5, 6, 7]')",
    );
    site.job(1, 1, "A", FIRST, 10.0);
    let recount = site.recount(FIRST + 1.0).expect("a recount");
    assert_eq!((recount.associations[0].recounted, site.usages()[0]), (10.0, 10.0));
    assert_eq!(site.bins(1), [10.0, 0.0, 0.0, 0.0]);
}

#[test]
fn a_recount_marks_differences_that_the_next_run_corrects_as_due() {
    // The program of flux-accounting skips the first boundary, so its next run does not correct the usage.
    for (rule, now) in [(Rule::Exact, END + 2.0), (Rule::FluxAccounting, FIRST + 20.0)] {
        let site = Site::new("due");
        site.job(1, 1, "A", FIRST, 10.0);
        site.job(2, 2, "A", FIRST, 10.0);
        site.job(3, 3, "B", FIRST, 10.0);
        site.run_by(rule, FIRST + 1.0).expect("a run");
        // A job of the second user ends, and somebody edits the usage of the third.
        site.job(4, 2, "A", now - 1.0, 4.0);
        site.sql(
            "UPDATE job_usage_per_association_table SET value = value + 7 WHERE userid = 3 AND period = 0",
        );
        let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let recount = Recount::new(&snapshot, now, &mut |_| ()).expect("a recount");
        let told: Vec<(usize, bool)> =
            recount.associations.iter().map(|one| (one.index, one.is_due)).collect();
        let decayed = (rule == Rule::Exact).then_some((0, true));
        assert_eq!(told, decayed.into_iter().chain([(1, true), (2, false)]).collect::<Vec<_>>(), "{rule:?}");
    }
}

#[test]
fn a_recount_keeps_bins_that_are_columns() {
    let site = Site::new("more_columns");
    site.bins_are_columns(8);
    site.sql("UPDATE job_usage_factor_table SET usage_factor_period_5 = 8.0 WHERE userid = 1");
    site.job(1, 1, "A", FIRST - 5.0 * H, 32.0);
    let recount = site.recount(FIRST + 1.0).expect("a recount");
    assert_eq!((recount.associations[0].recounted, site.usages()[0]), (1.0, 1.0));
    let bins = (0..8).flat_map(|period| {
        site.numbers(&format!(
            "SELECT usage_factor_period_{period} FROM job_usage_factor_table WHERE userid = 1"
        ))
    });
    assert_eq!(bins.collect::<Vec<_>>(), [0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn what_flux_accounting_counts_behind_the_first_boundary_does_not_decay_at_it() {
    let site = Site::new("behind");
    site.job(1, 1, "A", END - 100.0, 1000.0);
    site.run(END - 10.0).expect("a run");
    site.job(2, 1, "A", END + 5.0, 100.0);
    site.run_by(Rule::FluxAccounting, END + 6.0).expect("a run");
    assert_eq!(site.usages(), [1100.0, 0.0, 0.0]);
    site.run(END + 10.0).expect("a run");
    assert_eq!(site.usages(), [600.0, 0.0, 0.0]);
    assert_eq!(site.bins(1), [100.0, 500.0, 0.0, 0.0]);
}

#[test]
fn the_period_of_the_present_bins_is_known_also_where_flux_accounting_crossed_a_boundary() {
    let site = Site::new("present");
    site.job(1, 1, "A", END - 100.0, 10.0);
    site.run(END - 10.0).expect("a run");
    let began = |now: f64| {
        let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        Present::of(&snapshot, now).expect("periods").began(0)
    };
    // Nobody counted since: the bins are still those of the first period.
    assert_eq!([began(END - 1.0), began(END + 1.0)], [END - H; 2]);
    site.run_by(Rule::FluxAccounting, END + H + 1.0).expect("a run");
    assert_eq!(began(END + H + 2.0), END + H);
    site.run(END + H + 3.0).expect("a run");
    assert_eq!(began(END + H + 4.0), END + H);
}

#[test]
fn flux_is_asked_for_all_that_ended_since_it_was_asked_last() {
    let site = Site::new("asked");
    let asks = |now: f64, new: u64| {
        let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
        let snapshot = database.snapshot().expect("a snapshot");
        let newest = fetch::newest(&snapshot, now).expect("a time");
        fetch::remember(&snapshot, now, new).expect("remembered");
        snapshot.commit().expect("stored");
        newest
    };
    assert_eq!(asks(FIRST, 0), None, "there is nothing");
    site.job(1, 1, "A", FIRST + 5.0, 1.0);
    site.job(2, 1, "A", FIRST + 500.0, 1.0);
    assert_eq!(asks(FIRST + 10.0, 2), None, "nothing that ended before it was asked last");
    assert_eq!(asks(FIRST + 20.0, 0), Some(FIRST + 5.0), "one in the future is no bound");
    assert_eq!(asks(FIRST + 5000.0, 1), Some(FIRST + 5.0), "nor is it later");
    assert_eq!(asks(FIRST + 5001.0, 0), Some(FIRST + 500.0));
    // The clock is set back, and is there again.
    assert_eq!(asks(FIRST + 200.0, 0), None);
    assert_eq!(asks(FIRST + 201.0, 0), Some(FIRST + 5.0));
    assert_eq!(asks(FIRST + 6000.0, 0), Some(FIRST + 5.0));
}
