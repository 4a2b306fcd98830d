// SPDX-License-Identifier: LGPL-3.0-only
//! A push contains usage with continuous decay, even for jobs that flux-accounting counted.

use std::time::Duration;

use proptest::prelude::*;

use super::{Access, Database, END, H, Rule, Site};

/// Start of the first period.
const BEGIN: f64 = END - H;

/// Makes a site whose users 1, 2 and 3 can be pushed.
pub(super) fn make_site(name: &str) -> Site {
    let site = Site::new(name);
    site.run_sql(
        "ALTER TABLE association_table ADD COLUMN max_running_jobs int DEFAULT 5;
         ALTER TABLE association_table ADD COLUMN max_active_jobs int DEFAULT 7",
    );
    site
}

/// Returns the usage of users 1, 2 and 3 at `now` in a plugin that received a push at `now`.
pub(super) fn pushed_usages(site: &Site, now: f64) -> Vec<f64> {
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let data = database.snapshot().expect("a snapshot").policy_data(now).expect("data");
    let at = data.tree.expect("a tree").at;
    let usages = data.associations.iter().map(|record| record.usage.expect("a leaf"));
    usages.map(|usage| usage * 0.5_f64.powf((now - at) / H)).collect()
}

fn assert_close(found: &[f64], wanted: &[f64], what: &str) {
    let is_close = |(a, b): (&f64, &f64)| (a - b).abs() <= 1e-6 * b.abs().max(1e-3);
    assert!(
        found.len() == wanted.len() && found.iter().zip(wanted).all(is_close),
        "{what}: {found:?}, not {wanted:?}"
    );
}

/// Returns the usage at `now` of a job that used one node for `used` seconds and ended at `ended`. The usage decays
/// continuously.
pub(super) fn compute_expected_usage(ended: f64, used: f64, now: f64) -> f64 {
    let tau = H / std::f64::consts::LN_2;
    tau * (1.0 - (-used / tau).exp()) * (-(now - ended) / tau).exp()
}

#[test]
fn the_usage_of_idle_users_decays_continuously_over_any_number_of_syncs() {
    let site = make_site("idle");
    for (id, user, bank, ended, used) in
        [(1, 1, "A", 100.0, 50.0), (2, 2, "A", 800.0, 700.0), (3, 3, "B", 990.0, 9.0)]
    {
        site.add_job(id, user, bank, BEGIN + ended, used);
    }
    site.run(BEGIN + 995.0).expect("a run");
    let jobs = [(100.0, 50.0), (800.0, 700.0), (990.0, 9.0)];
    for step in 0..30 {
        let now = BEGIN + 995.0 + 100.0 * f64::from(step);
        let wanted = jobs.map(|(ended, used)| compute_expected_usage(BEGIN + ended, used, now));
        assert_close(&pushed_usages(&site, now), &wanted, "before a run");
        site.run(now).expect("a run");
        assert_close(&pushed_usages(&site, now), &wanted, "after a run");
        assert_close(
            &pushed_usages(&site, now + 50.0),
            &wanted.map(|used| used * 0.5_f64.powf(50.0 / H)),
            "later",
        );
    }
    // If the clock was set back, the last count is in the future.
    let behind = BEGIN + 3000.0;
    let wanted = jobs.map(|(ended, used)| compute_expected_usage(BEGIN + ended, used, behind));
    assert_close(&pushed_usages(&site, behind), &wanted, "by a clock that was set back");
    // Only four periods are stored, so older usage is dropped.
    site.run(BEGIN + 5.0 * H).expect("a run");
    assert_eq!(pushed_usages(&site, BEGIN + 5.0 * H), [0.0; 3]);
}

/// An older version of this program stored usage without continuous decay, and so does an administrator who edits
/// a usage. Until a recount, a usage that an older version stored decays from the end of the association's newest
/// job.
#[test]
fn stored_usage_without_continuous_decay_decays_from_its_newest_job() {
    let site = make_site("older");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.run(BEGIN + 200.0).expect("a run");
    site.run_sql("ALTER TABLE fairshare_usage_marks DROP COLUMN continuous");
    assert_close(&pushed_usages(&site, BEGIN + 200.0), &[64.0, 0.0, 0.0], "no run since");
    site.run(BEGIN + 300.0).expect("a run");
    let left = |seconds: f64| 64.0 * 0.5_f64.powf(seconds / H);
    assert_close(&pushed_usages(&site, BEGIN + 400.0), &[left(300.0), 0.0, 0.0], "counted by this version");
    site.run(BEGIN + 1300.0).expect("a run");
    assert_close(&pushed_usages(&site, BEGIN + 1400.0), &[left(1300.0), 0.0, 0.0], "after a boundary");
    site.run_sql("UPDATE association_table SET job_usage = 1000 WHERE userid = 2");
    assert_close(
        &pushed_usages(&site, BEGIN + 1300.0),
        &[left(1200.0), 1000.0, 0.0],
        "set by an administrator",
    );
    site.run(BEGIN + 1350.0).expect("a run");
    assert_close(&pushed_usages(&site, BEGIN + 1350.0), &[left(1250.0), 1000.0, 0.0], "its bins are empty");
    site.recount(BEGIN + 1400.0).expect("a recount");
    assert_close(
        &pushed_usages(&site, BEGIN + 1500.0),
        &[compute_expected_usage(BEGIN + 100.0, 64.0, BEGIN + 1500.0), 0.0, 0.0],
        "recounted",
    );
}

#[test]
fn usage_counted_by_flux_accounting_never_rises_while_its_user_is_idle() {
    let site = make_site("upstream");
    site.add_job(1, 1, "A", BEGIN + 100.0, 64.0);
    site.add_job(2, 2, "A", BEGIN + 900.0, 64.0);
    site.run_sync_with_usage_rule(Rule::FluxAccounting, BEGIN + 950.0).expect("a run");
    // flux-accounting's first decay is one half-life late (fault U5 of `docs/design/usage.md`). Later, the usage
    // decays at the end of each half-life period.
    site.add_job(3, 3, "B", END + 2.0 * H, 1.0);
    for step in 0..6 {
        site.run_sync_with_usage_rule(Rule::FluxAccounting, END + H + 1.0 + f64::from(step)).expect("a run");
    }
    let begun = END + H + 10.0;
    let mut before = pushed_usages(&site, begun);
    // The plugin decays the usage of the last push.
    let left = 0.5_f64.powf(37.0 / H) * (1.0 + 1e-9);
    for step in 1..100 {
        let now = begun + f64::from(step) * 37.0;
        let without_run = pushed_usages(&site, now);
        site.run_sync_with_usage_rule(Rule::FluxAccounting, now).expect("a run");
        let with_run = pushed_usages(&site, now);
        for user in [0, 1] {
            assert!(without_run[user] <= before[user] * left, "{step}: {without_run:?} after {before:?}");
            assert!(with_run[user] <= without_run[user], "{step}: {with_run:?}, not {without_run:?}");
        }
        before = with_run;
    }
    assert!(before[0] < 10.0, "{before:?}");
}

/// The clock was ahead while the jobs ran, by 2.5 half-lives and by a century.
#[test]
fn a_job_with_an_end_in_the_future_adds_no_more_usage_than_if_it_ended_now() {
    let site = make_site("future");
    let now = BEGIN + 500.0;
    site.add_job(1, 1, "A", now + 2.5 * H, 64.0);
    site.add_job(2, 2, "A", now + 3e9, 64.0);
    site.add_job(3, 3, "B", now, 64.0);
    site.run(now).expect("a run");
    assert_close(&pushed_usages(&site, now), &[compute_expected_usage(now, 64.0, now); 3], "at once");
    site.run(now + H).expect("a run");
    assert_close(&pushed_usages(&site, now + H), &[compute_expected_usage(now, 64.0, now + H); 3], "later");
}

/// The clock was corrected by 40 s, so the sync counts a job that ended after the time of the sync.
#[test]
fn a_push_decays_usage_continuously_after_the_clock_was_set_back_a_little() {
    let site = make_site("set_back");
    let (ended, ran) = (BEGIN + 940.0, BEGIN + 900.0);
    site.add_job(1, 1, "A", BEGIN + 10.0, 64.0);
    site.add_job(2, 2, "A", ended, 64.0);
    site.run(ran).expect("a run");
    let now = ended + 10.0;
    let wanted =
        [compute_expected_usage(BEGIN + 10.0, 64.0, now), compute_expected_usage(ran, 64.0, now), 0.0];
    assert_close(&pushed_usages(&site, now), &wanted, "after the end of the job");
    // flux-accounting has counted another job since.
    site.run_sql(&format!(
        "UPDATE job_usage_factor_table SET last_job_timestamp = {} WHERE userid = 2",
        ended + 5.0
    ));
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    assert_eq!(snapshot.find_last_count_time(now).expect("a time"), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In whatever order runs happen and records arrive, a push must contain the usage of the counted jobs in
    /// the stored periods.
    #[test]
    fn for_any_history_the_pushed_usage_equals_that_of_the_counted_jobs(
        jobs in proptest::collection::vec((1..=3_i64, 0.0..5.5_f64, 1..=1900_u32, 0.0..1.5_f64), 0..20),
        mut runs in proptest::collection::vec(0.0..6.0_f64, 1..8),
    ) {
        let site = make_site("continuous");
        runs.sort_by(f64::total_cmp);
        let mut counted = Vec::new();
        for run in runs {
            let now = BEGIN + run * H;
            for (id, (user, ended, used, delay)) in (1..).zip(&jobs) {
                if ended + delay <= run && !counted.contains(&id) {
                    counted.push(id);
                    site.add_job(id, *user, if *user == 3 { "B" } else { "A" }, BEGIN + ended * H, f64::from(*used));
                }
            }
            site.run(now).expect("a run");
            let is_kept = |ended: f64| run.floor() - ended.floor() < 4.0;
            let wanted: Vec<f64> = (1..=3).map(|user| {
                let own = (1..).zip(&jobs).filter(|(id, job)| counted.contains(id) && job.0 == user && is_kept(job.1));
                own.map(|(_, (_, ended, used, _))| compute_expected_usage(BEGIN + ended * H, f64::from(*used), now)).sum()
            }).collect();
            assert_close(&pushed_usages(&site, now), &wanted, "a history");
        }
    }
}
