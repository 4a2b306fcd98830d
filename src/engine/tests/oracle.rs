// SPDX-License-Identifier: LGPL-3.0-only
//! Who may be released, in which order: worked out from the host's jobs and the limits pushed, as the specification
//! has it (tables 4.3 and 5.1). Nothing of the engine is used here.

use super::site::HostJob;
use crate::accounts::{Association, AssociationRecord, Queue};
use crate::engine::{Event, State};
use crate::ids::{BankName, JobId, Limit, UserId};
use std::collections::{BTreeMap, BTreeSet};

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

fn is_ours(name: &str) -> bool {
    NAMES
        .iter()
        .any(|ours| name == *ours || name.strip_prefix(ours).is_some_and(|rest| rest.starts_with('.')))
}

/// What the host's jobs and the pushed limits say.
#[derive(Clone, Debug, Default)]
pub struct Oracle {
    associations: BTreeMap<(UserId, BankName), AssociationRecord>,
    default_banks: BTreeMap<UserId, BankName>,
    queues: BTreeMap<String, Queue>,
    /// Weight of the fair-share, where it was pushed; the weights of queue and urgency are flux-accounting's.
    weight: Option<i64>,
    /// Freed in the pass under way, and kept in DEPEND by others: they count to its end.
    freed: BTreeSet<JobId>,
    /// Jobs that the plugin subscribed to: of no other can it know that others keep it.
    pub subscribed: BTreeSet<JobId>,
    /// Jobs whose names nobody can tell: they take no turn.
    pub unknown: BTreeSet<JobId>,
}

impl Oracle {
    /// Takes over what is pushed.
    pub fn learn(&mut self, event: &Event<'_>) {
        match event {
            Event::Associations(records) => {
                for record in records {
                    let association = record.association.clone();
                    self.default_banks.insert(association.user, record.def_bank.clone());
                    self.associations.insert((association.user, association.bank), record.clone());
                }
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
    pub fn exceeded(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) -> Vec<&'static str> {
        let job = &jobs[&id];
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
            job.state == State::Sched
                || job.was_sched && job.state == State::Priority
                || self.is_released(*id, job)
        };
        // A job that was released and has not run yet, unless it won't be scheduled.
        let may_run = |id: &JobId, job: &HostJob| {
            let is_released = self.is_released(*id, job)
                || was_held(job) && carries_none(job) && matches!(job.state, State::Priority | State::Sched);
            job.state == State::Run || is_released && !self.is_worthless(job)
        };
        let full = |cap: Limit, used: u64, more: u64| used + more > u64::try_from(cap.0).unwrap_or(0);
        let mut exceeded = Vec::new();
        let mut note = |at: usize, is_full: bool| exceeded.extend(is_full.then_some(NAMES[at]));
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
        exceeded
    }

    /// A job that won't be scheduled: of urgency 0, or of a score of 0. A score counts when it is asked for: when the
    /// job was last prioritized, or when it was freed.
    fn is_worthless(&self, job: &HostJob) -> bool {
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
        let is_on_its_way = job.state == State::Priority && was_held(job) && carries_none(job);
        is_on_its_way || job.state == State::Depend && self.freed.contains(&id)
    }

    /// One of our names is taken off a job: its limit has room, or all have; and if it is the last, the job's turn has
    /// come.
    pub fn taken_off(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId, name: &str) {
        // The names of a job go one by one, and what it was promised with the first is its own.
        let exceeded = self.exceeded(jobs, id);
        let ours = NAMES.iter().find(|ours| name == **ours || name.starts_with(&format!("{ours}.")));
        // Of a limit that a test adds it knows nothing.
        let Some(limit) = ours else { return };
        assert!(!exceeded.contains(limit), "{name} is taken off job {id}, and {exceeded:?} are full");
        let ours = jobs[&id].dependencies.iter().filter(|name| is_ours(name)).count();
        if ours > 1 {
            return;
        }
        assert!(exceeded.is_empty(), "job {id} is freed, and {exceeded:?} are full");
        let freed = self.association(&jobs[&id]).map(|a| (a.user, a.bank.clone()));
        let is_kept = |id: &JobId, job: &HostJob| {
            self.subscribed.contains(id) && job.dependencies.iter().any(|name| !is_ours(name))
        };
        for (earlier, job) in jobs.range(..id) {
            let is_sibling = self.association(job).map(|a| (a.user, a.bank.clone())) == freed;
            let is_in_line = job.state == State::Depend && job.dependencies.iter().any(|name| is_ours(name));
            let is_known = !self.unknown.contains(earlier);
            if is_sibling && is_known && is_in_line && is_kept(earlier, job) <= is_kept(&id, &jobs[&id]) {
                let exceeded = self.exceeded(jobs, *earlier);
                assert!(!exceeded.is_empty(), "job {id} is freed before {earlier}: {job:?}");
            }
        }
        self.freed.insert(id);
    }

    /// Nobody stays held by our names alone while all limits have room.
    pub fn nobody_is_stranded(&self, jobs: &BTreeMap<JobId, HostJob>) {
        for (id, job) in jobs {
            if job.state == State::Depend && job.dependencies.iter().all(|name| is_ours(name)) {
                let exceeded = self.exceeded(jobs, *id);
                assert!(!exceeded.is_empty(), "job {id} is held although all its limits have room: {job:?}");
                assert!(!job.dependencies.is_empty(), "job {id} stays in DEPEND for nothing");
            }
        }
    }
}

/// Of a job whose eventlog could not be read it is not known: a place to run is reserved for it, as if it had been.
fn was_held(job: &HostJob) -> bool {
    job.was_unreadable || job.log.iter().any(|(name, _)| is_ours(name))
}

fn carries_none(job: &HostJob) -> bool {
    !job.dependencies.iter().any(|name| is_ours(name))
}
