// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the charge factors of queues. The database and the plugin must count the same usage. A job is charged
//! with the factor that its queue had when the job started.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::{Access, Database, END, H, Site};
use crate::store::{NewCharges, ReportedCharges};
use fairshare::accrual::{HalfLife, Mode};
use fairshare::charging::{ChargeBy, ChargeChange, ChargeHistory};
use fairshare::periods::{Resources, Weights};
use fairshare_engine::ids::{JobId, QueueName, UserId};
use fairshare_engine::standing::{self, Retention, StagedSite, Standing};
use fairshare_protocol::reading::Reader;
use fairshare_protocol::wire::read_policy_update;

const BEGIN: f64 = END - H;
const QUEUES: [Option<&str>; 3] = [None, Some("a"), Some("b")];
const WEIGHTS: Weights = Weights { node: 1.0, core: 0.5, gpu: 0.0 };
/// The resources that each job uses.
const RAN_ON: Resources = Resources { nodes: 1, cores: 4, gpus: 0 };
const FACTORS: [f64; 4] = [1.0, 0.0, 2.0, 0.5];

type Configuration = BTreeMap<QueueName, f64>;

fn make_site(name: &str) -> Site {
    let site = Site::new(name);
    site.run_sql(
        "ALTER TABLE association_table ADD COLUMN max_running_jobs int DEFAULT 5;
         ALTER TABLE association_table ADD COLUMN max_active_jobs int DEFAULT 7",
    );
    site
}

/// Stores charge factors that a plugin reports, and returns the number of changes that were not stored before.
fn add_charges(site: &Site, configured: &[(&str, f64)], changes: &[(&str, f64, f64)], now: f64) -> usize {
    let configured = configured.iter().map(|(queue, factor)| ((*queue).to_owned(), *factor)).collect();
    let change =
        |&(queue, since, factor): &(&str, f64, f64)| ChargeChange { queue: queue.into(), since, factor };
    let changes = changes.iter().map(change).collect();
    store_charges(site, &ReportedCharges { configured, changes, ..ReportedCharges::default() }, now)
        .factors
        .len()
}

fn store_charges(site: &Site, reported: &ReportedCharges, now: f64) -> NewCharges {
    let mut database = Database::open(&site.path, Access::Write, Duration::ZERO).expect("a database");
    let snapshot = database.snapshot().expect("a snapshot");
    let new = snapshot.add_charges(reported, now).expect("a table");
    snapshot.commit().expect("a commit");
    new
}

fn read_history(site: &Site) -> ChargeHistory {
    let mut database = Database::open(&site.path, Access::Read, Duration::ZERO).expect("a database");
    database.snapshot().expect("a snapshot").charge_history().expect("a history")
}

fn add_job(site: &Site, id: u64, user: i64, queue: Option<&str>, (start, end): (f64, f64)) {
    site.add_job(id, user, if user == 3 { "B" } else { "A" }, end, end - start);
    if let Some(queue) = queue {
        let jobspec = format!(r#"{{"attributes": {{"system": {{"queue": "{queue}"}}}}}}"#);
        site.run_sql(&format!("UPDATE jobs SET jobspec = '{jobspec}' WHERE id = '{id}'"));
    }
}

#[test]
fn a_record_keeps_the_factor_in_force_when_its_job_started() {
    let site = make_site("charges");
    assert_eq!(add_charges(&site, &[("a", 2.0), ("b", 0.0)], &[], BEGIN + 100.0), 2);
    add_job(&site, 1, 1, Some("a"), (BEGIN + 50.0, BEGIN + 150.0));
    add_job(&site, 2, 2, Some("a"), (BEGIN + 100.0, BEGIN + 200.0));
    add_job(&site, 3, 3, Some("b"), (BEGIN + 120.0, BEGIN + 220.0));
    site.run(BEGIN + 300.0).expect("a run");
    assert_eq!(site.usages(), [100.0, 200.0, 0.0]);
    // The factor changed after the last counted job ended, and the plugin saw the change before the next count.
    assert_eq!(add_charges(&site, &[("a", 0.5)], &[("a", BEGIN + 350.0, 0.5)], BEGIN + 400.0), 2);
    add_job(&site, 4, 1, Some("a"), (BEGIN + 340.0, BEGIN + 440.0));
    add_job(&site, 5, 2, Some("a"), (BEGIN + 350.0, BEGIN + 450.0));
    add_job(&site, 6, 3, Some("b"), (BEGIN + 400.0, BEGIN + 500.0));
    site.run(BEGIN + 600.0).expect("a run");
    assert_eq!(site.usages(), [300.0, 250.0, 100.0]);
    let recount = site.recount(BEGIN + 600.0).expect("a recount");
    assert!(recount.associations.is_empty() && recount.banks.is_empty(), "{:?}", recount.associations);
    assert_eq!(site.banks(), [650.0, 550.0, 100.0]);
}

#[test]
fn the_counting_rule_of_flux_accounting_ignores_charge_factors() {
    let site = make_site("charges-upstream");
    add_charges(&site, &[("a", 2.0)], &[], BEGIN);
    add_job(&site, 1, 1, Some("a"), (BEGIN + 50.0, BEGIN + 150.0));
    site.run_sync_with_usage_rule(super::Rule::FluxAccounting, BEGIN + 300.0).expect("a run");
    assert_eq!(site.usages(), [100.0, 0.0, 0.0]);
}

#[test]
fn a_charge_factor_change_is_stored_once_and_never_before_the_last_usage_count() {
    let site = make_site("charges-once");
    assert_eq!(add_charges(&site, &[("a", 1.0)], &[], BEGIN), 0);
    assert_eq!(add_charges(&site, &[("a", 2.0)], &[("a", BEGIN + 10.0, 2.0)], BEGIN + 20.0), 1);
    assert_eq!(add_charges(&site, &[("a", 2.0)], &[("a", BEGIN + 10.0, 2.0)], BEGIN + 30.0), 0);
    site.run(BEGIN + 100.0).expect("a run");
    // A reloaded plugin reports the factor as if it had changed at the reload, later than the change in the database.
    assert_eq!(add_charges(&site, &[("a", 2.0)], &[("a", BEGIN + 90.0, 2.0)], BEGIN + 110.0), 0);
    assert_eq!(add_charges(&site, &[("a", 3.0)], &[("a", BEGIN + 50.0, 3.0)], BEGIN + 110.0), 1);
    let history = read_history(&site);
    for (start, factor) in [(9.0, 1.0), (10.0, 2.0), (99.0, 2.0), (100.0, 3.0)] {
        assert_eq!(history.factor(Some("a"), BEGIN + start), factor, "{start}");
    }
}

/// The factor of queue a becomes 1 before a reload, and 2 again after it. The plugin loses the time of the
/// first change.
#[test]
fn a_charge_factor_with_unknown_end_ends_at_the_reload() {
    let site = make_site("charges-ended");
    assert_eq!(add_charges(&site, &[("a", 2.0)], &[], BEGIN), 1);
    let change = ChargeChange { queue: "a".into(), since: BEGIN + 20.0, factor: 2.0 };
    let configured = [("a".to_owned(), 2.0)].into();
    let seen_since = Some(BEGIN + 10.0);
    let reported = ReportedCharges { configured, changes: vec![change], seen_since, rule: None };
    assert_eq!(store_charges(&site, &reported, BEGIN + 30.0).factors.len(), 2);
    let history = read_history(&site);
    for (start, factor) in [(5.0, 2.0), (15.0, 1.0), (25.0, 2.0)] {
        assert_eq!(history.factor(Some("a"), BEGIN + start), factor, "{start}");
    }
    assert_eq!(store_charges(&site, &reported, BEGIN + 40.0).factors, []);
}

#[test]
fn a_job_is_charged_by_the_rule_that_applied_at_its_start() {
    let site = make_site("charge-by");
    site.run_sql("INSERT INTO config_table VALUES ('core_weight', '0.5')");
    let store = |charge_by, cores, now| {
        let totals = Resources { nodes: 10, cores, gpus: 0 };
        let reported = ReportedCharges { rule: Some((charge_by, totals)), ..ReportedCharges::default() };
        store_charges(&site, &reported, now).rule.map(|rule| rule.since)
    };
    assert_eq!(store(ChargeBy::Sum, 40, BEGIN), None);
    assert_eq!(store(ChargeBy::Max, 5, BEGIN + 100.0), Some(BEGIN + 100.0));
    assert_eq!(store(ChargeBy::Max, 5, BEGIN + 150.0), None);
    // Each job has 1 node and 4 cores, and a core weighs 0.5. Charged by the sum, a job costs 1 + 0.5 * 4 = 3.
    // Charged by the maximum, a job costs 4: its 4 of 5 cores equal 8 of the site's 10 nodes, times 0.5.
    add_job(&site, 1, 1, None, (BEGIN + 99.0, BEGIN + 199.0));
    add_job(&site, 2, 2, None, (BEGIN + 100.0, BEGIN + 200.0));
    site.run(BEGIN + 300.0).expect("a run");
    assert_eq!(site.usages(), [300.0, 400.0, 0.0]);
    // If the site gets more cores, the usage of counted jobs must stay.
    assert_eq!(store(ChargeBy::Max, 40, BEGIN + 250.0), Some(BEGIN + 300.0));
    add_job(&site, 3, 3, None, (BEGIN + 310.0, BEGIN + 410.0));
    site.run(BEGIN + 500.0).expect("a run");
    assert_eq!(site.usages(), [300.0, 400.0, 100.0]);
    let recount = site.recount(BEGIN + 500.0).expect("a recount");
    assert!(recount.associations.is_empty() && recount.banks.is_empty(), "{:?}", recount.associations);
}

#[test]
fn the_table_of_charges_refuses_changes_of_its_rows() {
    let site = make_site("charges-append");
    add_charges(&site, &[("a", 2.0)], &[], BEGIN);
    let rule = Some((ChargeBy::Max, RAN_ON));
    store_charges(&site, &ReportedCharges { rule, ..ReportedCharges::default() }, BEGIN);
    let connection = rusqlite::Connection::open(&site.path).expect("a database");
    for (sql, message) in [
        ("UPDATE fairshare_charge_table SET factor = 3", "never changed"),
        ("DELETE FROM fairshare_charge_table", "never deleted"),
        ("UPDATE fairshare_charge_by_table SET nodes = 3", "never changed"),
        ("DELETE FROM fairshare_charge_by_table", "never deleted"),
        ("INSERT INTO fairshare_charge_by_table VALUES (1, 'min', 1, 1, 1)", "CHECK constraint"),
        ("INSERT INTO fairshare_charge_table VALUES ('a', 1, 1001)", "CHECK constraint"),
    ] {
        let error = connection.execute(sql, []).expect_err(sql).to_string();
        assert!(error.contains(message), "{error}");
    }
}

/// A job of one node and four cores.
#[derive(Clone, Debug)]
struct Job {
    user: i64,
    queue: Option<&'static str>,
    start: f64,
    end: f64,
}

impl Job {
    fn to_live_job(&self, id: u64) -> standing::Job {
        standing::Job {
            id: JobId(id),
            user: UserId(self.user as u32),
            bank: if self.user == 3 { "B" } else { "A" }.into(),
            queue: self.queue.map(Into::into),
            ran_on: RAN_ON,
            start: self.start,
            limit: 0.0,
        }
    }

    /// Returns the usage at `now` of one node without a charge factor.
    fn usage(&self, now: f64) -> f64 {
        let (end, tau) = (self.end.min(now), H / std::f64::consts::LN_2);
        if end <= self.start {
            0.0
        } else {
            tau * (((end - now) / tau).exp() - ((self.start - now) / tau).exp())
        }
    }
}

#[derive(Clone, Debug)]
enum Act {
    Configure([usize; 2]),
    /// The resources that jobs are charged for after the next sync, and the cores of the site.
    ChargeBy(ChargeBy, u64),
    /// Runs a sync, which also pushes.
    Sync,
    Reload,
}

fn any_jobs() -> impl Strategy<Value = Vec<Job>> {
    let job = (1..=3_i64, 0..3_usize, 0.0..2.0_f64, 0.0..0.9_f64);
    let job = job.prop_map(|(user, queue, start, length)| {
        let start = BEGIN + start * H;
        Job { user, queue: QUEUES[queue], start, end: start + length * H }
    });
    prop::collection::vec(job, 1..16)
}

fn any_actions(reloads: bool) -> impl Strategy<Value = Vec<(f64, Act)>> {
    let act = prop_oneof![
        3 => prop::array::uniform2(0..FACTORS.len()).prop_map(Act::Configure),
        3 => Just(Act::Sync),
        u32::from(reloads) => Just(Act::Reload),
        u32::from(reloads) => (prop::sample::select(vec![ChargeBy::Sum, ChargeBy::Max]), 5..40_u64)
            .prop_map(|(rule, cores)| Act::ChargeBy(rule, cores)),
    ];
    prop::collection::vec((0.0..2.9_f64, act), 0..14).prop_map(|mut acts| {
        acts.iter_mut().for_each(|(time, _)| *time = BEGIN + *time * H);
        acts.sort_by(|one, other| one.0.total_cmp(&other.0));
        acts
    })
}

/// A site with its database and its plugin.
struct World {
    site: Site,
    plugin: Standing,
    jobs: Vec<Job>,
    configured: Configuration,
    rule: (ChargeBy, Resources),
    /// All changes of the configured factors, including those that the plugin lost at a reload.
    configured_history: ChargeHistory,
}

impl World {
    fn new(name: &str, jobs: Vec<Job>) -> World {
        let mut plugin = Standing::new(Retention::default());
        plugin.usages.configure_charges(&Configuration::new(), BEGIN);
        let (configured, configured_history) = (Configuration::new(), ChargeHistory::default());
        let site = make_site(name);
        site.run_sql("INSERT INTO config_table VALUES ('core_weight', '0.5')");
        let rule = (ChargeBy::Sum, Resources::default());
        World { site, plugin, jobs, configured, rule, configured_history }
    }

    /// Calls the plugin for each start and end of a job until `now`.
    fn report_jobs(&mut self, now: f64) {
        for (id, job) in (1..).zip(&self.jobs) {
            if job.end <= now {
                self.plugin.usages.track_end(&job.to_live_job(id), job.end).expect("an end");
            } else if job.start <= now {
                self.plugin.usages.track_start(&job.to_live_job(id)).expect("a start");
            }
        }
    }

    fn configure(&mut self, [a, b]: [usize; 2], now: f64) {
        self.configured = [("a".into(), FACTORS[a]), ("b".into(), FACTORS[b])].into();
        let factors = self.configured.iter().map(|(queue, factor)| (queue.as_str(), *factor));
        self.configured_history.add_configuration(factors, now);
        self.plugin.usages.configure_charges(&self.configured, now);
    }

    fn reload(&mut self, now: f64) {
        self.plugin = Standing::new(Retention::default());
        self.plugin.usages.configure_charges(&self.configured, now);
    }

    /// Runs a sync: stores the plugin's changes of charge factors, counts the jobs, and pushes.
    fn sync(&mut self, now: f64) {
        let configured = self.configured.iter().map(|(queue, factor)| (queue.as_str().to_owned(), *factor));
        let changes = self.plugin.usages.charging().history().changes().collect();
        store_charges(
            &self.site,
            &ReportedCharges {
                configured: configured.collect(),
                changes,
                seen_since: self.plugin.usages.charging().seen_since(),
                rule: Some(self.rule),
            },
            now,
        );
        for (id, job) in (1..).zip(&self.jobs) {
            if job.end <= now {
                add_job(&self.site, id, job.user, job.queue, (job.start, job.end));
            }
        }
        self.site.run(now).expect("a run");
        let mut database = Database::open(&self.site.path, Access::Read, Duration::ZERO).expect("a database");
        let data = database.snapshot().expect("a snapshot").policy_data(now).expect("data");
        let text = serde_json::to_string(&data).expect("JSON");
        let ((_, part), _) = read_policy_update(Some(&text), &mut Reader::default()).expect("a document");
        let mut staged = StagedSite::default();
        staged.absorb(part, &mut self.plugin);
        self.plugin.push_staged(staged, Mode::Elapsed).expect("a site");
    }

    /// Checks that the plugin's usage at `now` is the usage of all jobs with the charge factors of `history`.
    /// Before the first push the plugin has no usage.
    fn check_usages(&self, history: &ChargeHistory, now: f64) -> Result<(), TestCaseError> {
        for user in 1..=3 {
            let jobs = self.jobs.iter().filter(|job| job.user == user);
            let wanted: f64 =
                jobs.map(|job| job.usage(now) * history.rate(WEIGHTS, RAN_ON, job.queue, job.start)).sum();
            let bank = if user == 3 { "B" } else { "A" }.into();
            let index = self.plugin.find(UserId(user as u32), &bank);
            let Some(found) = index.and_then(|index| self.plugin.usage(index, now)) else { continue };
            prop_assert!(
                (found - wanted).abs() <= 1e-4 + 1e-9 * wanted,
                "user {user}: {found}, not {wanted}"
            );
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn the_plugin_and_the_database_count_the_same_usage(jobs in any_jobs(), acts in any_actions(false)) {
        let mut world = World::new("charges-same", jobs);
        for (now, act) in acts.iter().chain([&(BEGIN + 2.95 * H, Act::Sync)]) {
            world.report_jobs(*now);
            match act {
                Act::Configure(factors) => world.configure(*factors, *now),
                Act::Sync => world.sync(*now),
                Act::Reload | Act::ChargeBy(..) => {}
            }
            let history = world.configured_history.clone();
            world.check_usages(&history, *now)?;
        }
        prop_assert_eq!(read_history(&world.site), world.configured_history.clone());
        let recount = world.site.recount(BEGIN + 2.95 * H).expect("a recount");
        prop_assert!(recount.associations.is_empty() && recount.banks.is_empty(), "{:?}", recount.associations);
    }

    /// A factor may change between the last sync and a reload. The plugin and the database must then both
    /// apply the change from the time of the reload.
    #[test]
    fn after_a_reload_a_push_gives_the_plugin_the_usage_of_the_database(jobs in any_jobs(), acts in any_actions(true)) {
        let mut world = World::new("charges-reload", jobs);
        for (now, act) in acts.iter().chain([&(BEGIN + 2.95 * H, Act::Sync)]) {
            world.report_jobs(*now);
            match act {
                Act::Configure(factors) => world.configure(*factors, *now),
                Act::Sync => {
                    world.sync(*now);
                    world.check_usages(&read_history(&world.site), *now)?;
                }
                Act::Reload => world.reload(*now),
                Act::ChargeBy(rule, cores) => world.rule = (*rule, Resources { nodes: 10, cores: *cores, gpus: 0 }),
            }
        }
        let recount = world.site.recount(BEGIN + 2.95 * H).expect("a recount");
        prop_assert!(recount.associations.is_empty() && recount.banks.is_empty(), "{:?}", recount.associations);
    }
}

#[test]
fn the_plugin_uses_the_half_life_of_the_database() {
    let mut world = World::new("charges-half-life", vec![]);
    world.sync(BEGIN + 1.0);
    assert_eq!(world.plugin.rule().map(|rule| rule.half_life), HalfLife::new(H));
}
