// SPDX-License-Identifier: LGPL-3.0-only
//! Computes by the rules in `docs/design` which jobs may be released, and in which order. The oracle uses the jobs of
//! the host and the pushed limits, and no code of the engine.

mod budgets;
mod job_state;
mod scopes;
mod strict;

pub use budgets::Record;

use super::site::HostJob;
use crate::accounts::{
    Association, AssociationRecord, ExemptQueues, Queue, Scope, SiteLimit, SiteRecords, Target,
};
use crate::engine::{Event, State};
use crate::ids::{BankName, JobId, Limit, Measure, QueueName, Stage, UserId};
use budgets::BudgetRules;
use job_state::{has_no_limit_dependency, is_held_in_priority_or_sched, is_on_its_way, was_held};
use std::collections::{BTreeMap, BTreeSet};
use strict::StrictQueues;

/// The names of the limits, in the order of the table in docs/design/limits.md.
const NAMES: [&str; 8] = [
    "max-run-jobs-queue",
    "max-sched-jobs-queue-limit",
    "max-sched-nodes-queue-limit",
    "max-sched-cores-queue-limit",
    "max-resources-queue",
    "max-running-jobs-user-limit",
    "max-sched-jobs-user-limit",
    "max-resources-user-limit",
];

/// Returns how much of a limit a job takes, such as its nodes.
type AmountOf = fn(&HostJob) -> u64;

/// Returns the name of the limit in a dependency's name, without the number at the end. Returns `None` for a dependency of another plugin.
fn find_limit_name(name: &str) -> Option<&str> {
    let base = name.rsplit_once('.').map_or(name, |(base, _)| base);
    let is_over_scope = || {
        let rest = base.strip_prefix("max-")?;
        let stage =
            ["run-sched-", "run-", "sched-"].into_iter().find_map(|stage| rest.strip_prefix(stage))?;
        let measures = ["jobs-", "nodes-", "cores-", "gpus-", "node-hours-"];
        let scope = measures.into_iter().find_map(|measure| stage.strip_prefix(measure))?;
        let is_known =
            ["association", "association-queue", "bank", "bank-queue", "user", "user-queue", "in-queue"]
                .contains(&scope);
        is_known.then_some(())
    };
    let is_known = NAMES.contains(&base) || base.starts_with("budget-") || is_over_scope().is_some();
    is_known.then_some(base)
}

fn is_ours(name: &str) -> bool {
    find_limit_name(name).is_some()
}

/// Computes from the jobs of the model host and the pushed limits which jobs the engine may release.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    associations: BTreeMap<(UserId, BankName), AssociationRecord>,
    default_banks: BTreeMap<UserId, BankName>,
    queues: BTreeMap<String, Queue>,
    /// The limits of the last push.
    pushed_limits: Vec<SiteLimit>,
    /// The current limits that can hold jobs. A limit on each queue is stored as one limit for each pushed queue.
    pub limits: Vec<SiteLimit>,
    /// The current limits that only reject jobs at submission.
    submission_limits: Vec<SiteLimit>,
    pub budgets: BudgetRules,
    strict: StrictQueues,
    exempt: ExemptQueues,
    max_priorities: BTreeMap<QueueName, u32>,
    pub queue_parents: BTreeMap<String, String>,
    parents: BTreeMap<BankName, BankName>,
    /// Whether a release scan visits all associations. The specification does not fix their order.
    pub scans_all: bool,
    /// Whether live fair-share is on. If so, the oracle cannot compute the priorities.
    is_live: bool,
    /// Whether a job is being moved to another bank or queue. One scan then releases jobs of the former bank or queue,
    /// and another scan releases jobs of the new one.
    pub is_moving: bool,
    /// Whether a reactor turn for deferred work begins. Such a turn may scan several associations, one after another.
    pub is_deferred_turn: bool,
    /// The number of times that the order of two associations was compared. Tests check that it is above 0.
    pub compared_orders: usize,
    /// Associations whose record was pushed, but whose push has not ended. Jobs of these associations stay in
    /// PRIORITY.
    half_pushed: BTreeSet<(UserId, BankName)>,
    /// The pushed weight of fair-share. The weights of queue and urgency are the defaults of flux-accounting.
    weight: Option<i64>,
    /// Jobs that the current scan released and that other plugins block in DEPEND. Limits count these jobs until the
    /// scan ends.
    freed: BTreeSet<JobId>,
    /// Jobs to whose events the plugin is subscribed. For other jobs, no event shows whether other plugins
    /// hold them.
    pub subscribed: BTreeSet<JobId>,
    /// Jobs with unknown dependencies. A scan skips them.
    pub unknown: BTreeSet<JobId>,
    /// Whether jobs at priority 0 use headroom, as jobs above 0 do. Under live fair-share, a posted priority of 0 may
    /// be stale.
    counts_priority_0: bool,
    /// True if running jobs count with their whole time limit, and false if they count with the time that they have
    /// left. The engine's counters must lie between the two results, because a timer updates the counters.
    counts_whole_time: bool,
    /// The time of the host.
    pub now: f64,
    /// Stopped queues. Flux schedules no job of a stopped queue.
    pub stopped: BTreeSet<String>,
    /// For each held job, the number of jobs that took headroom from its limits while it was held.
    overtakes: BTreeMap<JobId, u64>,
    /// Jobs whose eventlogs are being read. Jobs that share a limit with such a job are scanned later.
    pub unread: BTreeSet<JobId>,
}

impl Oracle {
    /// Stores the limits and weights in an event.
    pub fn apply_event(&mut self, event: &Event<'_>) {
        match event {
            Event::Associations(records) => {
                for record in records {
                    let association = record.association.clone();
                    self.half_pushed.insert((association.user, association.bank.clone()));
                    self.default_banks.insert(association.user, record.def_bank.clone());
                    self.associations.insert((association.user, association.bank), record.clone());
                }
            }
            Event::Policy(policy, site) => {
                self.is_live = site.rule.is_some();
                self.apply_policy(policy);
                self.budgets.apply_push(site);
            }
            Event::Settings(settings) => {
                self.scans_all = true;
                self.strict = StrictQueues::from_settings(settings);
                self.exempt = settings.exempt.clone();
                self.max_priorities = settings.max_priorities.clone();
            }
            Event::ConfiguredQueues(queues) => {
                let parents = queues.iter().filter_map(|(queue, parent)| Some((queue, parent.as_ref()?)));
                self.queue_parents =
                    parents.map(|(queue, parent)| (queue.to_string(), parent.to_string())).collect();
            }
            Event::Reprioritize => {
                self.scans_all = true;
                self.half_pushed.clear();
            }
            Event::Weights(weights) => {
                let fairshare = weights.iter().find(|(factor, _)| factor == "fairshare");
                self.weight = fairshare.map(|(_, weight)| *weight).or(self.weight);
            }
            Event::Queues(queues) => {
                self.queues = queues.iter().map(|queue| (queue.name.to_string(), queue.clone())).collect();
                self.expand_limits_on_each_queue();
            }
            _ => {}
        }
    }

    fn apply_policy(&mut self, policy: &SiteRecords) {
        self.scans_all = true;
        self.apply_event(&Event::Associations(policy.associations.clone()));
        self.half_pushed.clear();
        self.apply_event(&Event::Queues(policy.queues.clone()));
        self.weight = None;
        self.apply_event(&Event::Weights(policy.weights.clone()));
        self.pushed_limits = policy.limits.clone();
        self.expand_limits_on_each_queue();
        self.parents = policy.parents.iter().cloned().collect();
    }

    /// Returns this oracle with running jobs counted by their whole time limits. Its results are upper bounds of the
    /// engine's counters.
    fn at_most(&self) -> Oracle {
        Oracle { counts_whole_time: true, ..self.clone() }
    }

    /// Returns the node-milliseconds that a running job may still use.
    fn node_time_left(&self, job: &HostJob) -> u64 {
        let whole = job.unit_milliseconds(job.size.nodes);
        if self.counts_whole_time || job.duration <= 0.0 {
            return whole;
        }
        let elapsed = job.started.map_or(0.0, |started| ((self.now - started) * 1000.0).floor());
        whole.saturating_sub(elapsed as u64 * job.size.nodes)
    }

    /// Ends the scans of a reactor turn.
    pub fn end_scans(&mut self) {
        self.freed.clear();
    }

    /// Returns the queue of the job, and its parent queue if it is virtual.
    fn queues_of<'a>(&'a self, job: &'a HostJob) -> impl Iterator<Item = &'a str> {
        let parent = job.queue.as_ref().and_then(|queue| self.queue_parents.get(queue));
        job.queue.iter().chain(parent).map(String::as_str)
    }

    /// Returns the largest priority of a job in the queue of `job`.
    fn max_priority(&self, job: &HostJob) -> i64 {
        let caps = self.queues_of(job).filter_map(|queue| self.max_priorities.get(queue));
        caps.copied().min().map_or(i64::MAX, i64::from)
    }

    fn is_exempt(&self, job: &HostJob, scope: Scope) -> bool {
        let is_in = |queue: &str| self.exempt.get(queue).is_some_and(|scopes| scopes.contains(&scope));
        self.queues_of(job).any(is_in)
    }

    /// Returns true if a limit counts the jobs in the queue of the job.
    fn counts_queue_of_job(&self, limit: &SiteLimit, job: &HostJob) -> bool {
        match &limit.queue {
            Some(queue) => self.queues_of(job).any(|own| own == queue.as_str()),
            None => !self.is_exempt(job, limit.target.scope(false)),
        }
    }

    fn association(&self, job: &HostJob) -> Option<&Association> {
        self.record(job).map(|record| &record.association)
    }

    fn record(&self, job: &HostJob) -> Option<&AssociationRecord> {
        let user = UserId(job.user);
        let bank =
            job.bank.as_deref().map(BankName::from).or_else(|| self.default_banks.get(&user).cloned())?;
        self.associations.get(&(user, bank))
    }

    /// Returns the limits that job `id` would exceed if it were released.
    pub fn exceeded(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) -> Vec<String> {
        let job = &jobs[&id];
        let asking = job;
        let Some(limits) = self.association(job) else { return Vec::new() };
        let siblings: Vec<(&JobId, &HostJob)> = jobs
            .iter()
            .filter(|(other, sibling)| {
                **other != id
                    && self.association(sibling).map(|a| (a.user, &a.bank))
                        == Some((limits.user, &limits.bank))
            })
            .collect();
        let total = |jobs: &[(&JobId, &HostJob)], counts: &dyn Fn(&JobId, &HostJob) -> bool, of: AmountOf| {
            jobs.iter().filter(|(id, job)| counts(id, job)).map(|(_, job)| of(job)).sum::<u64>()
        };
        let one: AmountOf = |_| 1;
        let nodes: AmountOf = |job| job.size.nodes;
        let cores: AmountOf = |job| job.size.cores;
        let runs = |_: &JobId, job: &HostJob| job.state == State::Run;
        let sched = |id: &JobId, job: &HostJob| {
            job.is_scheduled()
                || job.was_sched && job.state == State::Priority
                || self.is_released(*id, job)
                || self.is_strict(job) && is_on_its_way(job)
        };
        // Returns true for a running job, and for a released job that does not run yet but can be scheduled.
        let may_run = |id: &JobId, job: &HostJob| {
            let is_released = self.is_released(*id, job)
                || was_held(job)
                    && has_no_limit_dependency(job)
                    && !is_held_in_priority_or_sched(job)
                    && matches!(job.state, State::Priority | State::Sched);
            // If running limits are strict, each job that is in SCHED or moves there counts.
            let is_counted = self.is_strict(job) && (job.is_scheduled() || is_on_its_way(job));
            // A pending job in a stopped queue keeps no headroom from jobs outside stopped queues, unless running
            // limits are strict.
            let is_suspended = self.is_queue_stopped(job) && !self.is_queue_stopped(asking);
            let rests = self.is_unschedulable(job) || is_suspended && !self.is_strict(job);
            job.state == State::Run || (is_released || is_counted) && !rests
        };
        let full = |cap: Limit, used: u64, more: u64| used + more > u64::try_from(cap.0).unwrap_or(0);
        let mut exceeded = Vec::new();
        let mut note = |at: usize, is_full: bool| exceeded.extend(is_full.then(|| NAMES[at].to_owned()));
        for queue in self.queues_of(job).filter_map(|queue| self.queues.get(queue)) {
            let is_here = |job: &HostJob| self.queues_of(job).any(|own| own == queue.name.as_str());
            let in_queue: Vec<(&JobId, &HostJob)> =
                siblings.iter().filter(|(_, sibling)| is_here(sibling)).copied().collect();
            note(0, full(queue.max_running_jobs, total(&in_queue, &may_run, one), 1));
            note(1, full(queue.max_sched_jobs, total(&in_queue, &sched, one), 1));
            note(2, full(queue.max_sched_nodes_per_assoc, total(&in_queue, &sched, nodes), job.size.nodes));
            note(3, full(queue.max_sched_cores_per_assoc, total(&in_queue, &sched, cores), job.size.cores));
            let used = total(&in_queue, &runs, nodes) + total(&in_queue, &sched, nodes);
            note(4, full(queue.max_nodes_per_assoc, used, job.size.nodes));
        }
        if !self.is_exempt(job, Scope::Association) {
            let is_counted =
                |(_, sibling): &&(&JobId, &HostJob)| !self.is_exempt(sibling, Scope::Association);
            let counted: Vec<(&JobId, &HostJob)> = siblings.iter().filter(is_counted).copied().collect();
            note(5, full(limits.max_running_jobs, total(&counted, &may_run, one), 1));
            note(6, full(limits.max_sched_jobs, total(&counted, &sched, one), 1));
            note(
                7,
                full(limits.max_nodes, total(&counted, &may_run, nodes), job.size.nodes)
                    || full(limits.max_cores, total(&counted, &may_run, cores), job.size.cores),
            );
        }
        let mine = (limits.user, &limits.bank);
        for limit in self.list_scope_limits_on_job(job) {
            let others = jobs.iter().filter(|(other, theirs)| {
                let association = self.association(theirs).map(|theirs| (theirs.user, &theirs.bank));
                **other != id
                    && self.counts_queue_of_job(limit, theirs)
                    && association
                        .is_some_and(|theirs| self.counts_jobs_of_both_associations(limit, mine, theirs))
            });
            let others: Vec<(&JobId, &HostJob)> = others.collect();
            let asked: AmountOf = match limit.amount.measure {
                Measure::Jobs => one,
                Measure::Nodes => nodes,
                Measure::Cores => cores,
                Measure::Gpus => |job| job.size.gpus,
                Measure::Time => |job| job.unit_milliseconds(1),
                Measure::NodeTime => |job| job.unit_milliseconds(job.size.nodes),
                Measure::CoreTime => |job| job.unit_milliseconds(job.size.cores),
                Measure::GpuTime => |job| job.unit_milliseconds(job.size.gpus),
            };
            let given: AmountOf = match limit.amount.measure {
                Measure::Nodes => |job| job.get_allocated_job_size().nodes,
                Measure::Cores => |job| job.get_allocated_job_size().cores,
                Measure::Gpus => |job| job.get_allocated_job_size().gpus,
                Measure::Jobs => one,
                // A limit on time, such as node time, counts the requested resources of running jobs.
                Measure::Time | Measure::NodeTime | Measure::CoreTime | Measure::GpuTime => asked,
            };
            let running = if limit.amount.measure.is_time() {
                let running = others.iter().filter(|(id, job)| runs(id, job));
                running.map(|(_, job)| self.node_time_left(job)).sum()
            } else {
                total(&others, &runs, if limit.cap.is_given { given } else { asked })
            };
            let used = match limit.amount.stage {
                Stage::Running => {
                    running + total(&others, &|id, job| may_run(id, job) && !runs(id, job), asked)
                }
                Stage::Scheduled => total(&others, &sched, asked),
                Stage::RunningAndScheduled => running + total(&others, &sched, asked),
                Stage::Active | Stage::OneJob => unreachable!("these limits hold no job"),
            };
            // A job that requests nothing of the limited amount is not held, even if the limit is exceeded.
            let hour = if limit.amount.measure.is_time() { 3_600_000 } else { 1 };
            if asked(job) > 0 && full(Limit(limit.cap.limit.0 * hour), used, asked(job)) {
                let name = scopes::format_limit_name(limit);
                if !exceeded.contains(&name) {
                    exceeded.push(name);
                }
            }
        }
        exceeded.extend(self.exceeded_budgets(jobs, id));
        exceeded
    }

    /// Checks that the release of job `id` skipped no held job of the same bank: a job with a higher priority that
    /// could be released.
    fn check_order_in_bank(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        let Some(mine) = self.association(&jobs[&id]).map(|a| (a.user, a.bank.clone())) else { return };
        let is_on_bank = |limit: &SiteLimit| {
            matches!(limit.target, Target::Bank(_) | Target::EachBank)
                && limit.queue.is_none()
                && self.applies_to(limit, mine.0, &mine.1)
        };
        let is_unordered = self.is_live || self.scans_all || self.is_overtaken(id);
        if is_unordered || !self.limits.iter().any(is_on_bank) {
            return;
        }
        let Some(place) = self.sort_key(jobs, (mine.0, &mine.1)) else { return };
        let others = self.associations.values().map(|record| &record.association);
        for other in others.filter(|other| other.bank == mine.1 && other.user != mine.0) {
            let theirs = (other.user, &other.bank);
            // No job of association `other` can be released before the push of its record ends.
            if self.half_pushed.contains(&(other.user, other.bank.clone())) {
                continue;
            }
            let Some(their_place) = self.sort_key(jobs, theirs) else { continue };
            self.compared_orders += usize::from(place < their_place);
            if their_place < place {
                let whose = |job: &HostJob| self.association(job).map(|a| (a.user, &a.bank)) == Some(theirs);
                let held = jobs.iter().filter(|(_, job)| whose(job) && self.is_held(job));
                for (earlier, job) in held {
                    let is_held = !self.at_most().exceeded(jobs, *earlier).is_empty()
                        || self.may_be_held_by_reservation(jobs, *earlier);
                    assert!(
                        is_held,
                        "job {id} is released before {earlier}, whose priority is higher: {job:?}"
                    );
                }
            }
        }
    }

    /// Returns true if Flux will not schedule the job, because its urgency or its priority is 0. For a job in DEPEND,
    /// this is the priority that it would get if it were released. For other jobs it is the priority in the last
    /// answer to Flux.
    fn is_unschedulable(&self, job: &HostJob) -> bool {
        if self.counts_priority_0 && job.urgency != 0 {
            return false;
        }
        if job.state != State::Depend {
            return job.answered == Some(0);
        }
        let fairshare = self.record(job).map_or(0.0, |record| record.fairshare);
        let queue =
            job.queue.as_ref().and_then(|queue| self.queues.get(queue)).map_or(0, |queue| queue.priority);
        let score = self.weight.unwrap_or(100_000) as f64 * fairshare
            + (10_000 * queue + 1_000 * (job.urgency - 16)) as f64;
        job.urgency == 0 || job.urgency != 31 && score.round() <= 0.0
    }

    /// Returns true if the current scan released the job, or if the job was held and now moves from PRIORITY to
    /// SCHED.
    fn is_released(&self, id: JobId, job: &HostJob) -> bool {
        let is_on_its_way = job.state == State::Priority
            && was_held(job)
            && has_no_limit_dependency(job)
            && !is_held_in_priority_or_sched(job);
        is_on_its_way || matches!(job.state, State::Depend | State::Priority) && self.freed.contains(&id)
    }

    /// Returns the limits that job `id` would exceed if it were released now. If several scans may
    /// share limits, does not count jobs that an earlier scan released and that other plugins block in DEPEND.
    fn list_limits_exceeded_in_scan(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) -> Vec<String> {
        let are_several = self.scans_all || self.is_deferred_turn;
        let has_scopes = !self.limits.is_empty() || !self.budgets.budgets.is_empty();
        if self.is_moving || are_several && has_scopes {
            return Oracle { freed: BTreeSet::new(), ..self.clone() }.exceeded(jobs, id);
        }
        self.exceeded(jobs, id)
    }

    /// Checks that the limit of a removed dependency has headroom. If the job has no other dependency of ours, checks that the job may be
    /// released.
    pub fn check_removed_dependency(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId, name: &str) {
        // The dependencies of a job are removed one by one. The first removal reserves headroom for this job
        // itself.
        let exceeded = self.list_limits_exceeded_in_scan(jobs, id);
        // A test may use a dependency name that belongs to no limit.
        let Some(limit) = find_limit_name(name) else { return };
        let is_full = exceeded.iter().any(|full| full == limit);
        assert!(!is_full, "{name} is removed from job {id}, and {exceeded:?} are full");
        let ours = jobs[&id].dependencies.iter().filter(|name| is_ours(name)).count();
        if ours > 1 {
            return;
        }
        self.check_release(jobs, id);
    }

    /// Checks a job in PRIORITY that gets a priority. If the job was held, limits must allow its release.
    pub fn check_posted_priority(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        if is_held_in_priority_or_sched(&jobs[&id]) {
            self.check_release(jobs, id);
        }
    }

    /// Checks that a job held in SCHED exceeds a limit, or that the push of its association has not ended.
    pub fn check_held_in_sched(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        assert!(
            self.is_half_pushed(&jobs[&id]) || !self.at_most().exceeded(jobs, id).is_empty(),
            "job {id} is held in SCHED, and its limits have headroom: {:?}",
            jobs[&id]
        );
    }

    fn check_release(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        let exceeded = self.list_limits_exceeded_in_scan(jobs, id);
        assert!(exceeded.is_empty(), "job {id} is released, and {exceeded:?} are full");
        let freed = self.association(&jobs[&id]).map(|a| (a.user, a.bank.clone()));
        let is_kept = |id: &JobId, job: &HostJob| {
            self.subscribed.contains(id) && job.dependencies.iter().any(|name| !is_ours(name))
        };
        let at_most = Oracle { counts_priority_0: self.is_live, ..self.at_most() };
        for (earlier, job) in jobs.range(..id) {
            let is_sibling = self.association(job).map(|a| (a.user, a.bank.clone())) == freed;
            let is_held_in_sched = self.is_held(job);
            let is_known = !self.unknown.contains(earlier) && !self.waits_for_an_eventlog(jobs, job);
            if is_sibling && is_known && is_held_in_sched && is_kept(earlier, job) <= is_kept(&id, &jobs[&id])
            {
                let is_held = !at_most.exceeded(jobs, *earlier).is_empty()
                    || self.may_be_held_by_reservation(jobs, *earlier);
                assert!(is_held, "job {id} is released before {earlier}: {job:?}");
            }
        }
        self.check_order_in_bank(jobs, id);
        self.freed.insert(id);
    }

    /// Checks that each held job exceeds a limit. Jobs that other plugins hold too are not checked.
    pub fn check_no_job_is_stranded(&self, jobs: &BTreeMap<JobId, HostJob>) {
        let at_most = self.at_most();
        for (id, job) in jobs {
            if is_held_in_priority_or_sched(job) && self.is_held(job) {
                let is_held =
                    !at_most.exceeded(jobs, *id).is_empty() || self.may_be_held_by_reservation(jobs, *id);
                assert!(
                    is_held,
                    "job {id} is held in PRIORITY although all its limits have headroom: {job:?}"
                );
            }
            if job.state == State::Depend && job.dependencies.iter().all(|name| is_ours(name)) {
                let is_held =
                    !at_most.exceeded(jobs, *id).is_empty() || self.may_be_held_by_reservation(jobs, *id);
                assert!(is_held, "job {id} is held although all its limits have headroom: {job:?}");
                assert!(!job.dependencies.is_empty(), "job {id} stays in DEPEND without a dependency");
            }
        }
    }
}
