// SPDX-License-Identifier: LGPL-3.0-only
//! A credit has the same effect as a job that ended at the time of the credit. The order in which jobs and credits
//! are added does not matter.

use proptest::prelude::*;

use super::continuous::{compute_expected_usage, make_site, pushed_usages};
use super::{END, H, Recount, Rule, Site};

/// Start of the first period.
const BEGIN: f64 = END - H;

fn is_close(found: f64, wanted: f64) -> bool {
    (found - wanted).abs() <= 1e-6 * wanted.abs().max(1.0)
}

/// Returns the number of associations whose stored usage differs from a recount.
fn count_differences(site: &Site, now: f64) -> usize {
    let recount: Recount = site.recount(now).expect("a recount");
    recount.associations.len() + recount.banks.len()
}

#[test]
fn a_credit_counts_once_and_decays_like_a_job_that_ended_at_the_same_time() {
    let site = make_site("credited");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.run(BEGIN + 200.0).expect("a run");
    site.add_credit(1, "A", 36.0, BEGIN + 250.0);
    site.add_credit(3, "B", 8.0, BEGIN + 250.0);
    site.run(BEGIN + 300.0).expect("a run");
    assert_eq!(site.usages(), [100.0, 0.0, 8.0]);
    assert_eq!(site.banks(), [108.0, 100.0, 8.0]);
    assert_eq!(site.bins(1), [64.0, 0.0, 0.0, 0.0], "flux-accounting's bins contain jobs only");
    let pushed = pushed_usages(&site, BEGIN + 750.0);
    assert!(is_close(pushed[2], 8.0 * 0.5_f64.sqrt()), "{pushed:?}");
    site.run(BEGIN + 400.0).expect("a run");
    assert_eq!(site.usages(), [100.0, 0.0, 8.0], "counted once");
    site.run(END + 1.0).expect("a run");
    assert_eq!(site.usages(), [50.0, 0.0, 4.0]);
    site.run(END + 2.0 * H + 1.0).expect("a run");
    assert_eq!(site.usages(), [12.5, 0.0, 1.0]);
    site.run(END + 3.0 * H + 1.0).expect("a run");
    assert_eq!(site.usages(), [0.0; 3], "four periods are stored");
    assert_eq!(pushed_usages(&site, END + 3.0 * H + 1.0), [0.0; 3]);
}

#[test]
fn a_usage_credit_decays_from_its_own_date_on() {
    let site = make_site("credited_late");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.run(END + 1.0).expect("a run");
    site.add_credit(1, "A", -64.0, BEGIN + 100.0);
    site.run(END + 2.0).expect("a run");
    assert_eq!(site.usages()[0], 0.0, "the refund of a job");
    assert_eq!(count_differences(&site, END + 3.0), 0);
}

#[test]
fn a_credit_larger_than_the_usage_offsets_the_usage_of_later_jobs() {
    let site = make_site("credited_beyond");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.add_credit(1, "A", -100.0, BEGIN + 100.0);
    site.run(BEGIN + 200.0).expect("a run");
    assert_eq!(site.usages()[0], 0.0);
    assert_eq!(site.banks(), [0.0; 3], "a bank does not gain by the credit of a user");
    let pushed = pushed_usages(&site, BEGIN + 200.0);
    assert!(
        -36.0 < pushed[0] && pushed[0] < -33.0,
        "the rest offsets running jobs in the plugin: {pushed:?}"
    );
    site.add_job(2, 1, "A", BEGIN + 300.0, 50.0);
    site.run(BEGIN + 301.0).expect("a run");
    assert_eq!(site.usages()[0], 14.0);
    assert_eq!(count_differences(&site, BEGIN + 302.0), 0);
}

#[test]
fn credit_set_stores_and_pushes_the_given_usage() {
    let site = make_site("set");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.add_job(2, 2, "A", BEGIN + 900.0, 300.0);
    site.run(END + 100.0).expect("a run");
    let now = END + 400.0;
    for (user, bank, amount) in [(1, "A", 500.0), (2, "A", 0.0), (3, "B", 7.0)] {
        site.set_usage(user, bank, amount, now);
    }
    site.run(now).expect("a run");
    assert_eq!(site.usages(), [500.0, 0.0, 7.0]);
    let pushed = pushed_usages(&site, now);
    assert!(
        pushed.iter().zip([500.0, 0.0, 7.0]).all(|(found, wanted)| is_close(*found, wanted)),
        "{pushed:?}"
    );
    // The record of a job that ended before the usage was set arrives later. The job's usage is added to the set
    // amount. Setting the usage again replaces this sum.
    site.add_job(3, 1, "A", END + 300.0, 10.0);
    site.run(now + 1.0).expect("a run");
    assert_eq!(site.usages()[0], 510.0);
    site.set_usage(1, "A", 20.0, now + 2.0);
    site.run(now + 3.0).expect("a run");
    assert_eq!(site.usages()[0], 20.0);
    assert_eq!(count_differences(&site, now + 4.0), 0);
    site.run(END + H + 1.0).expect("a run");
    assert_eq!(site.usages(), [10.0, 0.0, 3.5]);
}

/// An administrator of a site without credits may write a usage into the database. A later `credit set` must
/// replace that usage.
#[test]
fn the_command_credit_set_replaces_a_usage_written_by_an_administrator() {
    let site = make_site("set_edited");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.run(BEGIN + 200.0).expect("a run");
    site.run_sql("UPDATE association_table SET job_usage = 1000 WHERE userid = 1");
    site.set_usage(1, "A", 30.0, BEGIN + 300.0);
    site.run(BEGIN + 300.0).expect("a run");
    assert_eq!(site.usages()[0], 30.0);
    assert!(is_close(pushed_usages(&site, BEGIN + 300.0)[0], 30.0));
}

#[test]
fn credits_are_never_changed_or_deleted() {
    let site = make_site("append_only");
    site.add_credit(1, "A", 1.0, BEGIN);
    let connection = rusqlite::Connection::open(&site.path).expect("a database");
    for (sql, text) in [
        ("UPDATE fairshare_credit_table SET usage = 2", "never changed"),
        ("DELETE FROM fairshare_credit_table", "never deleted"),
        (
            "INSERT OR REPLACE INTO fairshare_credit_table SELECT * FROM fairshare_credit_table",
            "never replaced",
        ),
        (
            "INSERT INTO fairshare_credit_table SELECT 9, 'u1', 'A', 'add', '1', 'usage', 'x', 1, 0, '', '', 0",
            "CHECK",
        ),
        (
            "INSERT INTO fairshare_credit_table SELECT 9, 'u1', 'A', 'add', '1', 'usage', 1e31, 1, 0, '', '', 0",
            "CHECK",
        ),
    ] {
        let error = connection.execute_batch(sql).expect_err(sql).to_string();
        assert!(error.contains(text), "{sql}: {error}");
    }
    assert_eq!(site.run_query_for_numbers("SELECT usage FROM fairshare_credit_table"), [1.0]);
}

#[test]
fn usage_credits_still_count_in_new_periods_and_without_job_records() {
    let site = make_site("credit_lengths");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.add_credit(1, "A", 100.0, BEGIN + 100.0);
    site.run(END + 100.0).expect("a run");
    assert_eq!(site.usages()[0], 82.0);
    site.run_sql(&format!(
        "UPDATE config_table SET value = '{}' WHERE key = 'priority_decay_half_life';
         UPDATE config_table SET value = '{}' WHERE key = 'priority_usage_reset_period'",
        H / 2.0,
        2.0 * H
    ));
    let tally = site.run(END + 200.0).expect("a run");
    assert!(tally.recounted.is_some());
    // The job and the credit are three half-lives of 500 s old.
    assert_eq!(site.usages()[0], 164.0 / 4.0);
    site.run_sql("DELETE FROM jobs");
    assert_eq!(count_differences(&site, END + 300.0), 3, "user, bank and root");
    assert_eq!(site.usages()[0], 25.0, "the credit without the job");
}

#[test]
fn clear_usage_removes_the_effect_of_earlier_credits_of_the_bank() {
    let site = make_site("credit_cleared");
    site.add_credit(3, "B", 8.0, BEGIN + 100.0);
    site.run(BEGIN + 200.0).expect("a run");
    site.run_sql(&format!(
        "UPDATE association_table SET job_usage = 0 WHERE bank = 'B';
         UPDATE bank_table SET job_usage = 0, ignore_older_than = {} WHERE bank = 'B'",
        BEGIN + 300.0
    ));
    site.add_credit(3, "B", 2.0, BEGIN + 400.0);
    site.run(BEGIN + 400.0).expect("a run");
    assert_eq!(site.usages()[2], 2.0);
}

#[test]
fn a_usage_credit_counts_again_if_its_user_is_removed_and_added() {
    let site = make_site("credit_returns");
    site.add_credit(3, "B", 8.0, BEGIN + 100.0);
    site.run(BEGIN + 200.0).expect("a run");
    site.run_sql("DELETE FROM association_table WHERE username = 'u3'");
    site.run(BEGIN + 300.0).expect("a run");
    assert_eq!(site.banks(), [0.0; 3]);
    site.add_user(3, "B");
    site.run(BEGIN + 400.0).expect("a run");
    assert_eq!(site.usages()[2], 8.0);
}

#[test]
fn the_flux_accounting_usage_rule_ignores_credits_unlike_the_exact_rule() {
    let site = make_site("credit_ignored");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.add_credit(1, "A", 36.0, BEGIN + 100.0);
    let tally = site.run_sync_with_usage_rule(Rule::FluxAccounting, BEGIN + 200.0).expect("a run");
    assert_eq!((tally.ignored_credits, site.usages()[0]), (1, 64.0));
    site.run(BEGIN + 201.0).expect("a run");
    assert_eq!(site.usages()[0], 100.0);
    site.add_job(2, 1, "A", BEGIN + 300.0, 10.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, BEGIN + 301.0).expect("a run");
    assert_eq!(site.usages()[0], 74.0);
    site.run(BEGIN + 302.0).expect("a run");
    assert_eq!(site.usages()[0], 110.0);
}

#[test]
fn the_database_of_a_version_without_usage_credits_can_be_read() {
    let site = make_site("credit_older");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.run(BEGIN + 200.0).expect("a run");
    site.run_sql("ALTER TABLE fairshare_usage_marks DROP COLUMN credits");
    assert!(is_close(
        pushed_usages(&site, BEGIN + 200.0)[0],
        compute_expected_usage(BEGIN + 100.0, 64.0, BEGIN + 200.0)
    ));
    site.add_credit(1, "A", 36.0, BEGIN + 210.0);
    site.run(BEGIN + 220.0).expect("a run");
    assert_eq!(site.usages()[0], 100.0);
}

/// A job or a credit of the test. `delay` is the number of half-lives until the entry is recorded.
#[derive(Clone, Debug)]
struct Entry {
    user: i64,
    /// The end of the job or the time of the credit, in half-lives after the start of the first period.
    at: f64,
    usage: f64,
    is_credit: bool,
    delay: f64,
}

impl Entry {
    fn instant(&self) -> f64 {
        BEGIN + self.at * H
    }

    /// Computes the usage at `now` from its definition. Returns the usage with decay at boundaries and with continuous decay.
    fn usages(&self, now: f64) -> (f64, f64) {
        let period = |instant: f64| ((instant - END) / H).floor();
        let age = period(now) - period(self.instant());
        if age >= 4.0 {
            return (0.0, 0.0);
        }
        let live = if self.is_credit {
            self.usage * 0.5_f64.powf((now - self.instant()) / H)
        } else {
            compute_expected_usage(self.instant(), self.usage, now)
        };
        (self.usage * 0.5_f64.powf(age), live)
    }
}

fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    let delay = prop_oneof![3 => Just(0.0), 1 => 0.0..3.0_f64];
    let entry = (1..=3_i64, 0.0..6.0_f64, -900..=900_i32, any::<bool>(), delay);
    let entry = entry.prop_map(|(user, at, usage, is_credit, delay)| Entry {
        user,
        at,
        usage: f64::from(if is_credit { usage } else { usage.abs().max(1) }),
        is_credit,
        delay,
    });
    proptest::collection::vec(entry, 0..25)
}

/// Generates runs. Each run has a time, in half-lives after the start, and true if the run is a recount.
fn any_run_times() -> impl Strategy<Value = Vec<(f64, bool)>> {
    proptest::collection::vec((0.0..6.0_f64, proptest::bool::weighted(0.2)), 0..8).prop_map(|mut runs| {
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        runs
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn usage_does_not_depend_on_the_order_of_jobs_credits_and_syncs(entries in any_entries(), runs in any_run_times()) {
        let site = make_site("credit_history");
        let end = BEGIN + 6.5 * H;
        let mut pending: Vec<(u64, Entry)> = (1..).zip(entries.clone()).collect();
        pending.sort_by(|(_, a), (_, b)| (a.at + a.delay).total_cmp(&(b.at + b.delay)));
        let mut arrived: Vec<Entry> = Vec::new();
        for (run, is_recount) in runs.into_iter().chain([(6.5, false)]) {
            let now = BEGIN + run * H;
            let (new, later): (Vec<_>, Vec<_>) =
                pending.into_iter().partition(|(_, entry)| now >= end || entry.at + entry.delay <= run);
            pending = later;
            for (id, entry) in new {
                let bank = if entry.user == 3 { "B" } else { "A" };
                if entry.is_credit {
                    site.add_credit(entry.user, bank, entry.usage, entry.instant());
                } else {
                    site.add_job(id, entry.user, bank, entry.instant(), entry.usage);
                }
                arrived.push(entry);
            }
            if is_recount {
                site.recount(now).expect("a recount");
            } else {
                site.run(now).expect("a run");
            }
            let pushed = pushed_usages(&site, now);
            let mut total = 0.0;
            for (user, (found, pushed)) in (1..=3).zip(site.usages().into_iter().zip(pushed)) {
                let entries = arrived.iter().filter(|entry| entry.user == user);
                let (stored, live) = entries.map(|entry| entry.usages(now)).fold((0.0, 0.0), |sum, entry| {
                    (sum.0 + entry.0, sum.1 + entry.1)
                });
                prop_assert!(is_close(found, stored.max(0.0)), "user {user}: {found}, not {stored}");
                prop_assert!(is_close(pushed, live), "user {user}: pushed {pushed}, not {live}");
                total += stored.max(0.0);
            }
            prop_assert!(site.banks().first().is_some_and(|root| is_close(*root, total)));
        }
        prop_assert_eq!(count_differences(&site, end), 0);
    }
}
