// SPDX-License-Identifier: LGPL-3.0-only
//! Who may be released, in which order: worked out from the host's jobs and the limits pushed, as the specification
//! has it (tables 4.3 and 5.1), and as limits over scopes are described. Nothing of the engine is used here.

mod lives;
mod scopes;
mod strict;

use super::site::HostJob;
use crate::accounts::{Association, AssociationRecord, Policy, Queue, SiteLimit, Target};
use crate::engine::{Event, State};
use crate::ids::{BankName, JobId, Limit, Measure, Stage, UserId};
use lives::{carries_none, is_on_its_way, is_waiting, was_held};
use std::collections::{BTreeMap, BTreeSet};
use strict::StrictIn;

/// The names of the limits, in the order of table 4.3.
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

/// What of a job is summed.
type Of = fn(&HostJob) -> u64;

/// The limit of a name, whichever use of it this is.
fn limit_of(name: &str) -> Option<&str> {
    let base = name.rsplit_once('.').map_or(name, |(base, _)| base);
    let is_over_scope = || {
        let rest = base.strip_prefix("max-")?;
        let stage =
            ["run-sched-", "run-", "sched-"].into_iter().find_map(|stage| rest.strip_prefix(stage))?;
        let (measure, scope) = stage.split_once('-')?;
        let is_known = ["jobs", "nodes", "cores", "gpus"].contains(&measure)
            && ["association", "association-queue", "bank", "bank-queue", "user"].contains(&scope);
        is_known.then_some(())
    };
    (NAMES.contains(&base) || is_over_scope().is_some()).then_some(base)
}

fn is_ours(name: &str) -> bool {
    limit_of(name).is_some()
}

/// What the host's jobs and the pushed limits say.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    associations: BTreeMap<(UserId, BankName), AssociationRecord>,
    default_banks: BTreeMap<UserId, BankName>,
    queues: BTreeMap<String, Queue>,
    /// Limits over scopes.
    pub limits: Vec<SiteLimit>,
    /// Queues of which no more may be in SCHED than could run; `None` for jobs without queue.
    strict: StrictIn,
    /// Banks, each with the one above.
    parents: BTreeMap<BankName, BankName>,
    /// Everybody is looked at, one after the other: who comes first is not said.
    pub is_all_looked_at: bool,
    /// Fair-shares are worked out live: prices are not known here.
    is_live: bool,
    /// A job moves to another bank or queue: whom it leaves and whom it joins have a pass each.
    pub is_moving: bool,
    /// What was put off comes: several associations may have a pass each.
    pub is_put_off_due: bool,
    /// How many were freed before somebody of another association.
    pub in_order: usize,
    /// Whose records came, and not yet the reprioritize that ends their push: who waits in PRIORITY goes on waiting.
    half_pushed: BTreeSet<(UserId, BankName)>,
    /// Weight of the fair-share, where it was pushed; the weights of queue and urgency are flux-accounting's.
    weight: Option<i64>,
    /// Freed in the pass under way, and kept in DEPEND by others: they count to its end.
    freed: BTreeSet<JobId>,
    /// Jobs that the plugin subscribed to: of no other can it know that others keep it.
    pub subscribed: BTreeSet<JobId>,
    /// Jobs whose names nobody can tell: they take no turn.
    pub unknown: BTreeSet<JobId>,
    /// Jobs of priority 0 count as if they were to run: where fair-shares are live they may have prices that are not posted yet.
    counts_resting: bool,
    /// Queues that are stopped: their jobs are not scheduled.
    pub stopped: BTreeSet<String>,
    /// How many jobs took headroom of limits on each held job since it is held.
    overtakes: BTreeMap<JobId, u64>,
    /// Jobs whose eventlogs are being read: who shares a limit with one of them has his turn later.
    pub unread: BTreeSet<JobId>,
}

impl Oracle {
    /// Takes over what is pushed.
    pub fn learn(&mut self, event: &Event<'_>) {
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
                self.learn_policy(policy);
            }
            Event::Settings(settings) => {
                self.is_all_looked_at = true;
                self.strict = StrictIn::of(settings);
            }
            Event::Reprioritize => {
                self.is_all_looked_at = true;
                self.half_pushed.clear();
            }
            Event::Weights(weights) => {
                let fairshare = weights.iter().find(|(factor, _)| factor == "fairshare");
                self.weight = fairshare.map(|(_, weight)| *weight).or(self.weight);
            }
            Event::Queues(queues) => {
                self.queues = queues.iter().map(|queue| (queue.name.to_string(), queue.clone())).collect();
            }
            _ => {}
        }
    }

    fn learn_policy(&mut self, policy: &Policy) {
        self.is_all_looked_at = true;
        self.learn(&Event::Associations(policy.associations.clone()));
        self.half_pushed.clear();
        self.learn(&Event::Queues(policy.queues.clone()));
        self.weight = None;
        self.learn(&Event::Weights(policy.weights.clone()));
        self.limits = policy.limits.clone();
        self.parents = policy.parents.iter().cloned().collect();
    }

    /// A reactor turn is over, and with it every pass.
    pub fn turn(&mut self) {
        self.freed.clear();
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

    /// The limits that one more job like this one would exceed.
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
        let in_queue: Vec<(&JobId, &HostJob)> =
            siblings.iter().filter(|(_, sibling)| sibling.queue == job.queue).copied().collect();
        let total = |jobs: &[(&JobId, &HostJob)], counts: &dyn Fn(&JobId, &HostJob) -> bool, of: Of| {
            jobs.iter().filter(|(id, job)| counts(id, job)).map(|(_, job)| of(job)).sum::<u64>()
        };
        let one: Of = |_| 1;
        let nodes: Of = |job| job.size.nodes;
        let cores: Of = |job| job.size.cores;
        let runs = |_: &JobId, job: &HostJob| job.state == State::Run;
        // A job in SCHED, or on its way there after it was released.
        let sched = |id: &JobId, job: &HostJob| {
            job.is_scheduled()
                || job.was_sched && job.state == State::Priority
                || self.is_released(*id, job)
                || self.is_strict(job) && is_on_its_way(job)
        };
        // A job that was released and has not run yet, unless it won't be scheduled.
        let may_run = |id: &JobId, job: &HostJob| {
            let is_released = self.is_released(*id, job)
                || was_held(job)
                    && carries_none(job)
                    && !is_waiting(job)
                    && matches!(job.state, State::Priority | State::Sched);
            // Or, by the strict rule, one that is in SCHED or on its way there, held before or not.
            let is_counted = self.is_strict(job) && (job.is_scheduled() || is_on_its_way(job));
            // A stopped queue suspends a reservation, except under the strict rule, and except for a job that is in a stopped queue too.
            let is_suspended = self.is_queue_stopped(job) && !self.is_queue_stopped(asking);
            let rests = self.is_worthless(job) || is_suspended && !self.is_strict(job);
            job.state == State::Run || (is_released || is_counted) && !rests
        };
        let full = |cap: Limit, used: u64, more: u64| used + more > u64::try_from(cap.0).unwrap_or(0);
        let mut exceeded = Vec::new();
        let mut note = |at: usize, is_full: bool| exceeded.extend(is_full.then(|| NAMES[at].to_owned()));
        if let Some(queue) = job.queue.as_ref().and_then(|queue| self.queues.get(queue)) {
            note(0, full(queue.max_running_jobs, total(&in_queue, &may_run, one), 1));
            note(1, full(queue.max_sched_jobs, total(&in_queue, &sched, one), 1));
            note(2, full(queue.max_sched_nodes_per_assoc, total(&in_queue, &sched, nodes), job.size.nodes));
            note(3, full(queue.max_sched_cores_per_assoc, total(&in_queue, &sched, cores), job.size.cores));
            let used = total(&in_queue, &runs, nodes) + total(&in_queue, &sched, nodes);
            note(4, full(queue.max_nodes_per_assoc, used, job.size.nodes));
        }
        note(5, full(limits.max_running_jobs, total(&siblings, &may_run, one), 1));
        note(6, full(limits.max_sched_jobs, total(&siblings, &sched, one), 1));
        note(
            7,
            full(limits.max_nodes, total(&siblings, &may_run, nodes), job.size.nodes)
                || full(limits.max_cores, total(&siblings, &may_run, cores), job.size.cores),
        );
        let mine = (limits.user, &limits.bank);
        for limit in self.limits_on(job) {
            let others = jobs.iter().filter(|(other, theirs)| {
                let association = self.association(theirs).map(|theirs| (theirs.user, &theirs.bank));
                **other != id
                    && is_in(limit, theirs)
                    && association.is_some_and(|theirs| self.counts_with(limit, mine, theirs))
            });
            let others: Vec<(&JobId, &HostJob)> = others.collect();
            let asked: Of = match limit.amount.measure {
                Measure::Jobs => one,
                Measure::Nodes => nodes,
                Measure::Cores => cores,
                Measure::Gpus => |job| job.size.gpus,
            };
            let given: Of = match limit.amount.measure {
                Measure::Nodes => |job| job.given().nodes,
                Measure::Cores => |job| job.given().cores,
                Measure::Gpus => |job| job.given().gpus,
                Measure::Jobs => one,
            };
            let running = total(&others, &runs, if limit.cap.is_given { given } else { asked });
            let used = match limit.amount.stage {
                Stage::Running => {
                    running + total(&others, &|id, job| may_run(id, job) && !runs(id, job), asked)
                }
                Stage::Scheduled => total(&others, &sched, asked),
                Stage::RunningAndScheduled => running + total(&others, &sched, asked),
            };
            // Who needs none of it is not held by what others have too much of.
            if asked(job) > 0 && full(limit.cap.limit, used, asked(job)) {
                let name = scopes::name_of(limit);
                if !exceeded.contains(&name) {
                    exceeded.push(name);
                }
            }
        }
        exceeded
    }

    /// Whoever of the same bank would have a higher price went before.
    fn is_in_order(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        let Some(mine) = self.association(&jobs[&id]).map(|a| (a.user, a.bank.clone())) else { return };
        let is_on_bank = |limit: &SiteLimit| {
            matches!(limit.target, Target::Bank(_) | Target::EachBank)
                && limit.queue.is_none()
                && self.is_on(limit, mine.0, &mine.1)
        };
        let is_unordered = self.is_live || self.is_all_looked_at || self.is_overtaken(id);
        if is_unordered || !self.limits.iter().any(is_on_bank) {
            return;
        }
        let Some(place) = self.place(jobs, (mine.0, &mine.1)) else { return };
        let others = self.associations.values().map(|record| &record.association);
        for other in others.filter(|other| other.bank == mine.1 && other.user != mine.0) {
            let theirs = (other.user, &other.bank);
            // Whose record came waits for the end of the push; others go meanwhile.
            if self.half_pushed.contains(&(other.user, other.bank.clone())) {
                continue;
            }
            let Some(their_place) = self.place(jobs, theirs) else { continue };
            self.in_order += usize::from(place < their_place);
            if their_place < place {
                let whose = |job: &HostJob| self.association(job).map(|a| (a.user, &a.bank)) == Some(theirs);
                let held = jobs.iter().filter(|(_, job)| whose(job) && self.is_in_line(job));
                for (earlier, job) in held {
                    let is_held =
                        !self.exceeded(jobs, *earlier).is_empty() || self.may_be_kept_from(jobs, *earlier);
                    assert!(is_held, "job {id} is freed before {earlier}, whose price is higher: {job:?}");
                }
            }
        }
    }

    /// A job that won't be scheduled: of urgency 0, or of a score of 0. A score counts when it is asked for: when the
    /// job was last prioritized, or when it was freed.
    fn is_worthless(&self, job: &HostJob) -> bool {
        if self.counts_resting && job.urgency != 0 {
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

    /// Released in this pass, or on its way from PRIORITY to SCHED for the first time.
    fn is_released(&self, id: JobId, job: &HostJob) -> bool {
        let is_on_its_way =
            job.state == State::Priority && was_held(job) && carries_none(job) && !is_waiting(job);
        is_on_its_way || matches!(job.state, State::Depend | State::Priority) && self.freed.contains(&id)
    }

    /// The limits that a job would exceed that goes now. Where everybody is looked at, or some are, each in a pass of their own,
    /// and associations share limits, one association may have its turn in several passes: what was freed in an earlier one,
    /// and is kept in DEPEND by others, counts no more.
    fn exceeded_in_pass(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) -> Vec<String> {
        let are_several = self.is_all_looked_at || self.is_put_off_due;
        if self.is_moving || are_several && !self.limits.is_empty() {
            return Oracle { freed: BTreeSet::new(), ..self.clone() }.exceeded(jobs, id);
        }
        self.exceeded(jobs, id)
    }

    /// One of our names is taken off a job: its limit has room, or all have; and if it is the last, the job's turn has
    /// come.
    pub fn taken_off(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId, name: &str) {
        // The names of a job go one by one, and what it was promised with the first is its own.
        let exceeded = self.exceeded_in_pass(jobs, id);
        // Of a limit that a test adds it knows nothing.
        let Some(limit) = limit_of(name) else { return };
        let is_full = exceeded.iter().any(|full| full == limit);
        assert!(!is_full, "{name} is taken off job {id}, and {exceeded:?} are full");
        let ours = jobs[&id].dependencies.iter().filter(|name| is_ours(name)).count();
        if ours > 1 {
            return;
        }
        self.its_turn_came(jobs, id);
    }

    /// A job in PRIORITY is given its price: if it waited, its turn has come.
    pub fn goes_on(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        if is_waiting(&jobs[&id]) {
            self.its_turn_came(jobs, id);
        }
    }

    /// A job that was in SCHED is held: it finds no room, or goes on waiting for the end of a push.
    pub fn stays(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        assert!(
            self.is_half_pushed(&jobs[&id]) || !self.exceeded(jobs, id).is_empty(),
            "job {id} is held in SCHED, and has room: {:?}",
            jobs[&id]
        );
    }

    fn its_turn_came(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        let exceeded = self.exceeded_in_pass(jobs, id);
        assert!(exceeded.is_empty(), "job {id} is freed, and {exceeded:?} are full");
        let freed = self.association(&jobs[&id]).map(|a| (a.user, a.bank.clone()));
        let is_kept = |id: &JobId, job: &HostJob| {
            self.subscribed.contains(id) && job.dependencies.iter().any(|name| !is_ours(name))
        };
        let at_most = Oracle { counts_resting: self.is_live, ..self.clone() };
        for (earlier, job) in jobs.range(..id) {
            let is_sibling = self.association(job).map(|a| (a.user, a.bank.clone())) == freed;
            let is_in_line = self.is_in_line(job);
            let is_known = !self.unknown.contains(earlier) && !self.is_put_off(jobs, job);
            if is_sibling && is_known && is_in_line && is_kept(earlier, job) <= is_kept(&id, &jobs[&id]) {
                let is_held =
                    !at_most.exceeded(jobs, *earlier).is_empty() || self.may_be_kept_from(jobs, *earlier);
                assert!(is_held, "job {id} is freed before {earlier}: {job:?}");
            }
        }
        self.is_in_order(jobs, id);
        self.freed.insert(id);
    }

    /// Nobody stays held by our names alone, or in PRIORITY, while all limits have room.
    pub fn nobody_is_stranded(&self, jobs: &BTreeMap<JobId, HostJob>) {
        for (id, job) in jobs {
            if is_waiting(job) && self.is_in_line(job) {
                let is_held = !self.exceeded(jobs, *id).is_empty() || self.may_be_kept_from(jobs, *id);
                assert!(is_held, "job {id} waits although all its limits have room: {job:?}");
            }
            if job.state == State::Depend && job.dependencies.iter().all(|name| is_ours(name)) {
                let is_held = !self.exceeded(jobs, *id).is_empty() || self.may_be_kept_from(jobs, *id);
                assert!(is_held, "job {id} is held although all its limits have room: {job:?}");
                assert!(!job.dependencies.is_empty(), "job {id} stays in DEPEND for nothing");
            }
        }
    }
}

/// Whether a limit counts jobs of the queue that this one names.
fn is_in(limit: &SiteLimit, job: &HostJob) -> bool {
    limit.queue.as_ref().is_none_or(|queue| Some(queue.as_str()) == job.queue.as_deref())
}
