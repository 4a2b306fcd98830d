// SPDX-License-Identifier: LGPL-3.0-only
//! Charge factors of queues.

use std::collections::BTreeMap;

use super::*;
use crate::ids::QueueName;
use fairshare::charging::{ChargeBy, ChargeByChange, ChargeChange};

fn job_in(queue: &str, id: u64, start: f64) -> Job {
    Job { queue: Some(queue.into()), ..job(id, 1, "A", 1, start) }
}

fn configure(standing: &mut Standing, factors: &[(&str, f64)], now: f64) {
    let factors: BTreeMap<QueueName, f64> =
        factors.iter().map(|(queue, factor)| ((*queue).into(), *factor)).collect();
    standing.usages.configure_charges(&factors, now);
}

/// Pushes the site without decay, with these charge factors.
fn push_charges(standing: &mut Standing, weights: Weights, changes: &[(&str, f64, f64)]) {
    let change =
        |&(queue, since, factor): &(&str, f64, f64)| ChargeChange { queue: queue.into(), since, factor };
    push(standing, weights, Charges { factors: changes.iter().map(change).collect(), rules: Vec::new() });
}

fn push(standing: &mut Standing, weights: Weights, charges: Charges) {
    let Site { rule, mode, banks, associations } = site(Policy::FairTree);
    let rule = Some(Rule { half_life: HalfLife::NONE, weights, ..rule });
    let mut staged = StagedSite::default();
    staged.absorb(SitePart { rule, banks, associations, charges, budgets: Vec::new() }, standing);
    standing.push_staged(staged, mode).expect("a site");
}

#[test]
fn a_job_is_charged_by_the_factor_that_was_configured_when_it_started() {
    let mut standing = Standing::new(Retention::default());
    configure(&mut standing, &[], T0);
    configure(&mut standing, &[("free", 0.0), ("gold", 2.0)], T0 + 100.0);
    push_charges(&mut standing, Weights::default(), &[]);
    let mut wanted = 0.0;
    for (id, (queue, start, factor)) in (1..).zip([
        ("gold", 50.0, 1.0),
        ("gold", 100.0, 2.0),
        ("free", 99.0, 1.0),
        ("free", 150.0, 0.0),
        ("other", 150.0, 1.0),
    ]) {
        standing.usages.track_start(&job_in(queue, id, T0 + start)).expect("a job");
        wanted += factor * (1000.0 - start);
        assert_close(usage(&standing, 1, "A", T0 + 1000.0), wanted);
    }
    standing.usages.track_end(&job_in("gold", 2, T0 + 100.0), T0 + 600.0).expect("an end");
    assert_close(usage(&standing, 1, "A", T0 + 1000.0), wanted - 800.0);
    // A new charge factor does not change the usage of jobs that started earlier.
    configure(&mut standing, &[("gold", 7.0)], T0 + 700.0);
    assert_close(usage(&standing, 1, "A", T0 + 1000.0), wanted - 800.0);
}

#[test]
fn new_weights_of_a_push_keep_the_charge_factor_of_a_job() {
    let mut standing = Standing::new(Retention::default());
    configure(&mut standing, &[("gold", 2.0)], T0);
    standing.usages.track_start(&job_in("gold", 1, T0 + 1.0)).expect("a job");
    standing.usages.track_end(&job_in("gold", 2, T0 + 1.0), T0 + 11.0).expect("an end");
    push_charges(&mut standing, Weights::default(), &[]);
    assert_close(usage(&standing, 1, "A", T0 + 21.0), 2.0 * 30.0);
    push_charges(&mut standing, Weights { node: 5.0, core: 0.0, gpu: 0.0 }, &[]);
    assert_close(usage(&standing, 1, "A", T0 + 21.0), 2.0 * 5.0 * 30.0);
}

#[test]
fn pushed_charge_changes_apply_whether_jobs_or_the_push_come_first() {
    for reports_jobs_first in [true, false] {
        let mut standing = Standing::new(Retention::default());
        // The plugin was loaded at T0 + 200 and does not know earlier configurations.
        configure(&mut standing, &[("gold", 2.0)], T0 + 200.0);
        configure(&mut standing, &[("gold", 0.5)], T0 + 300.0);
        if !reports_jobs_first {
            push_charges(&mut standing, Weights::default(), &[("gold", T0 + 100.0, 2.0), ("gone", T0, 9.0)]);
        }
        for (id, queue, start) in
            [(1, "gold", 150.0), (2, "gold", 250.0), (3, "gold", 350.0), (4, "gone", 1.0)]
        {
            standing.usages.track_start(&job_in(queue, id, T0 + start)).expect("a job");
        }
        standing.usages.track_start(&job_in("gone", 5, T0 + 200.0)).expect("a job");
        if reports_jobs_first {
            push_charges(&mut standing, Weights::default(), &[("gold", T0 + 100.0, 2.0), ("gone", T0, 9.0)]);
        }
        let wanted = 2.0 * 850.0 + 2.0 * 750.0 + 0.5 * 650.0 + 9.0 * 999.0 + 800.0;
        assert_close(usage(&standing, 1, "A", T0 + 1000.0), wanted);
        // The last change in the push is later than all changes in the configurations, so the push takes precedence.
        push_charges(&mut standing, Weights::default(), &[("gold", T0 + 320.0, 3.0)]);
        let wanted = 850.0 + 750.0 + 3.0 * 650.0 + 999.0 + 800.0;
        assert_close(usage(&standing, 1, "A", T0 + 1000.0), wanted);
    }
}

#[test]
fn ended_jobs_are_restored_with_their_queue_if_it_has_a_charge_factor() {
    let mut standing = Standing::new(Retention::default());
    configure(&mut standing, &[("gold", 2.0)], T0);
    push_charges(&mut standing, Weights::default(), &[]);
    for (id, queue) in [(1, "gold"), (2, "plain")] {
        standing.usages.track_end(&job_in(queue, id, T0 + 10.0), T0 + 20.0).expect("an end");
    }
    let (ended, _, _) = standing.uncovered(Bookmark::default(), 9);
    let queues: Vec<_> = ended.iter().map(|ended| ended.job.queue.as_deref()).collect();
    assert_eq!(queues, [Some("gold"), None]);
    let changes: Vec<_> = standing.usages.charging().history().changes().collect();
    let changes: Vec<_> =
        changes.iter().map(|change| (&*change.queue, change.since, change.factor)).collect();
    let mut restored = Standing::new(Retention::default());
    configure(&mut restored, &[("gold", 4.0)], T0 + 100.0);
    for Ended { job, end } in ended {
        restored.usages.track_end(&job, end).expect("an end");
    }
    push_charges(&mut restored, Weights::default(), &changes);
    for standing in [standing, restored] {
        assert_close(usage(&standing, 1, "A", T0 + 200.0), 2.0 * 10.0 + 10.0);
    }
}

#[test]
fn a_clock_that_was_set_back_keeps_the_order_of_changes() {
    let mut standing = Standing::new(Retention::default());
    configure(&mut standing, &[], T0 + 50.0);
    configure(&mut standing, &[("gold", 2.0)], T0 + 100.0);
    configure(&mut standing, &[("gold", 3.0)], T0);
    push_charges(&mut standing, Weights::default(), &[]);
    standing.usages.track_start(&job_in("gold", 1, T0 + 99.0)).expect("a job");
    standing.usages.track_start(&job_in("gold", 2, T0 + 100.0)).expect("a job");
    assert_close(usage(&standing, 1, "A", T0 + 200.0), 101.0 + 3.0 * 100.0);
}

#[test]
fn a_pushed_rule_charges_jobs_for_the_dominant_resource() {
    let weights = Weights { node: 1.0, core: 0.5, gpu: 0.0 };
    let ran_on = Resources { nodes: 1, cores: 4, gpus: 2 };
    let mut standing = Standing::new(Retention::default());
    configure(&mut standing, &[("gold", 2.0)], T0);
    for (id, start) in [(1, 10.0), (2, 110.0)] {
        let job = Job { ran_on, ..job_in("gold", id, T0 + start) };
        standing.usages.track_start(&job).expect("a job");
    }
    let totals = Resources { nodes: 10, cores: 5, gpus: 4 };
    let rule = ChargeByChange { since: T0 + 100.0, charge_by: ChargeBy::Max, totals };
    push(&mut standing, weights, Charges { factors: Vec::new(), rules: vec![rule] });
    // The sum of the charges is 1 + 4 * 0.5 = 3. The dominant resource is the cores, because the job has 4 of the
    // site's 5 cores. The site has 10 nodes, and a core has the weight 0.5.
    // The dominant charge is therefore 4 / 5 * 0.5 * 10 = 4.
    assert_close(usage(&standing, 1, "A", T0 + 210.0), 2.0 * (3.0 * 200.0 + 4.0 * 100.0));
    push(&mut standing, weights, Charges::default());
    assert_close(usage(&standing, 1, "A", T0 + 210.0), 2.0 * (3.0 * 200.0 + 3.0 * 100.0));
}
