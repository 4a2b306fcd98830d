// SPDX-License-Identifier: LGPL-3.0-only
//! The test oracle's rules for site limits: which jobs count together, and which association is scanned first.

use super::*;
use crate::engine::Past;

impl Oracle {
    /// Replaces a limit on each queue by a limit on every pushed queue that has no limit of its own. Moves
    /// the limits that hold no job to `submission_limits`.
    pub(super) fn expand_limits_on_each_queue(&mut self) {
        self.limits = self.pushed_limits.clone();
        self.limits.retain(|limit| limit.target != Target::EachQueue);
        for limit in self.pushed_limits.iter().filter(|limit| limit.target == Target::EachQueue) {
            for name in self.queues.keys() {
                let target = Target::Queue(name.as_str().into());
                let is_own = |other: &&SiteLimit| other.target == target && other.amount == limit.amount;
                if !self.pushed_limits.iter().any(|other| is_own(&other)) {
                    let queue = Some(name.as_str().into());
                    self.limits.push(SiteLimit { target, queue, ..limit.clone() });
                }
            }
        }
        let limits = std::mem::take(&mut self.limits);
        (self.limits, self.submission_limits) = limits
            .into_iter()
            .partition(|limit| !matches!(limit.amount.stage, Stage::Active | Stage::OneJob));
    }

    /// Checks that job `id` was accepted, or rejected with the text `rejection`, as the limits on submissions require. Other limits may have
    /// rejected the job too.
    pub fn check_submission(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId, rejection: Option<&str>) {
        let job = &jobs[&id];
        let Some(of) = self.association(job) else { return };
        let mine = (of.user, &of.bank);
        let mut texts = Vec::new();
        for limit in self.submission_limits.iter().filter(|limit| self.counts_queue_of_job(limit, job)) {
            let same = |other: &&SiteLimit| other.queue == limit.queue && other.amount == limit.amount;
            let named = |target: &Target| {
                self.submission_limits.iter().filter(same).any(|other| other.target == *target)
            };
            let target = match &limit.target {
                Target::EachAssociation => Target::Association(of.user, of.bank.clone()),
                Target::EachBank => Target::Bank(of.bank.clone()),
                Target::EachUser => Target::User(of.user),
                other => other.clone(),
            };
            let is_inner_bank = self.parents.values().any(|above| *above == of.bank);
            let is_replaced =
                target != limit.target && named(&target) || limit.target == Target::EachBank && is_inner_bank;
            let applies = match &target {
                Target::Association(user, bank) => (*user, bank) == mine,
                Target::Bank(above) => self.is_bank_at_or_below(&of.bank, above),
                Target::User(user) => *user == of.user,
                _ => true,
            };
            if is_replaced || !applies {
                continue;
            }
            let scope = match (&target, &limit.queue) {
                (Target::Queue(_), _) | (_, None) => target.to_string(),
                (_, Some(queue)) => format!("{target} in queue {queue}"),
            };
            if limit.amount.stage == Stage::OneJob {
                let most = limit.cap.limit.cap() as f64;
                let is_too_large = match limit.amount.measure {
                    Measure::Nodes => job.size.nodes as f64 > most,
                    Measure::Time => job.duration <= 0.0 || job.duration > most,
                    _ => job.duration <= 0.0 || job.size.nodes as f64 * job.duration > most * 3600.0,
                };
                texts.extend(is_too_large.then(|| format!("the limit of {scope} on one job")));
                continue;
            }
            let counts = |(other, job): &(&JobId, &HostJob)| {
                let theirs = self.association(job).map(|theirs| (theirs.user, &theirs.bank));
                **other != id
                    && self.counts_queue_of_job(limit, job)
                    && theirs.is_some_and(|theirs| self.counts_jobs_of_both_associations(limit, mine, theirs))
            };
            let active = jobs.iter().filter(counts).count() as u64;
            let most = limit.cap.limit.cap();
            if active >= most {
                texts.push(format!(
                    "{scope} has max active jobs; {active} of {most}: wait until one of them ends"
                ));
            }
        }
        match rejection {
            None => assert!(texts.is_empty(), "job {id} is accepted in spite of {texts:?}"),
            Some(text) if text.ends_with("of them ends") || text.contains(" on one job") => {
                assert!(texts.iter().any(|known| text.contains(known)), "{text} is not one of {texts:?}");
            }
            Some(_) => {}
        }
    }

    /// Returns true if `bank` is `above` or a bank below it.
    pub(super) fn is_bank_at_or_below(&self, bank: &BankName, above: &BankName) -> bool {
        let mut at = Some(bank);
        while let Some(bank) = at {
            if bank == above {
                return true;
            }
            at = self.parents.get(bank);
        }
        false
    }

    /// Returns true if a limit applies to the jobs of an association. For example, a limit on bank A takes precedence
    /// over a limit on each bank.
    pub(super) fn applies_to(&self, limit: &SiteLimit, user: UserId, bank: &BankName) -> bool {
        let named = |target: Target| {
            let same = |other: &&SiteLimit| other.queue == limit.queue && other.amount == limit.amount;
            self.limits.iter().filter(same).any(|other| other.target == target)
        };
        match &limit.target {
            Target::Association(whose, at) => (*whose, at) == (user, bank),
            Target::EachAssociation => !named(Target::Association(user, bank.clone())),
            Target::Bank(above) => self.is_bank_at_or_below(bank, above),
            Target::EachBank => {
                !self.parents.values().any(|above| above == bank) && !named(Target::Bank(bank.clone()))
            }
            Target::User(whose) => *whose == user,
            Target::EachUser => !named(Target::User(user)),
            Target::Queue(_) => true,
            Target::EachQueue => false,
        }
    }

    /// Returns true if a limit counts the jobs of two associations together.
    pub(super) fn counts_jobs_of_both_associations(
        &self,
        limit: &SiteLimit,
        mine: (UserId, &BankName),
        theirs: (UserId, &BankName),
    ) -> bool {
        match &limit.target {
            Target::Association(..) | Target::EachAssociation | Target::EachBank if mine.1 != theirs.1 => {
                false
            }
            Target::Association(..) | Target::EachAssociation => mine.0 == theirs.0,
            Target::EachBank => true,
            Target::Bank(above) => self.is_bank_at_or_below(theirs.1, above),
            Target::User(_) | Target::EachUser => mine.0 == theirs.0,
            Target::Queue(_) | Target::EachQueue => true,
        }
    }

    /// Returns true if a scan has to skip the job because the eventlog of a job under the same limit is being read.
    pub(super) fn waits_for_an_eventlog(&self, jobs: &BTreeMap<JobId, HostJob>, job: &HostJob) -> bool {
        let Some(mine) = self.association(job).map(|mine| (mine.user, &mine.bank)) else { return false };
        let on = self
            .limits
            .iter()
            .filter(|limit| self.applies_to(limit, mine.0, mine.1) && self.counts_queue_of_job(limit, job));
        let unread = || self.unread.iter().filter_map(|id| jobs.get(id));
        let counts = |limit: &SiteLimit, other: &HostJob| {
            let theirs = self.association(other).map(|theirs| (theirs.user, &theirs.bank));
            self.counts_queue_of_job(limit, other)
                && theirs.is_some_and(|theirs| self.counts_jobs_of_both_associations(limit, mine, theirs))
        };
        on.into_iter().any(|limit| unread().any(|other| counts(limit, other)))
    }

    /// Returns the site limits that the jobs of the model host exceed. Checks limits on running jobs only if
    /// `is_eager` is true: the scheduler then starts all jobs at once.
    pub fn find_exceeded_scopes(&self, jobs: &BTreeMap<JobId, HostJob>, is_eager: bool) -> Vec<String> {
        let mut overfull = Vec::new();
        for record in self.associations.values() {
            let mine = (record.association.user, &record.association.bank);
            for limit in self.limits.iter().filter(|limit| self.applies_to(limit, mine.0, mine.1)) {
                let counts = |job: &&HostJob| {
                    let stage = match limit.amount.stage {
                        Stage::Running => is_eager && job.state == State::Run,
                        Stage::Scheduled => job.is_scheduled(),
                        Stage::RunningAndScheduled => job.state == State::Run || job.is_scheduled(),
                        Stage::Active | Stage::OneJob => unreachable!("these limits hold no job"),
                    };
                    let theirs = self.association(job).map(|theirs| (theirs.user, &theirs.bank));
                    stage
                        && self.counts_queue_of_job(limit, job)
                        && theirs
                            .is_some_and(|theirs| self.counts_jobs_of_both_associations(limit, mine, theirs))
                };
                let of = |job: &HostJob| match limit.amount.measure {
                    Measure::Jobs => 1,
                    Measure::Nodes => job.size.nodes,
                    Measure::Cores => job.size.cores,
                    Measure::Gpus => job.size.gpus,
                    Measure::Time => job.unit_milliseconds(1),
                    Measure::NodeTime => self.node_time_left(job),
                    Measure::CoreTime => job.unit_milliseconds(job.size.cores),
                    Measure::GpuTime => job.unit_milliseconds(job.size.gpus),
                };
                let used: u64 = jobs.values().filter(counts).map(of).sum();
                let hour = if limit.amount.measure.is_time() { 3_600_000 } else { 1 };
                if !Limit(limit.cap.limit.0 * hour).admits(used, 0) {
                    overfull.push(format!("{used} of {limit:?}"));
                }
            }
        }
        overfull
    }

    /// Returns the priority and the id of an association's first held job. A scan sorts associations that share limits
    /// by this key. Returns `None` if other jobs also affect the order.
    pub(super) fn sort_key(
        &self,
        jobs: &BTreeMap<JobId, HostJob>,
        whose: (UserId, &BankName),
    ) -> Option<(i64, JobId)> {
        let held: Vec<(&JobId, &HostJob)> = jobs
            .iter()
            .filter(|(_, job)| self.association(job).map(|a| (a.user, &a.bank)) == Some(whose))
            .filter(|(_, job)| self.is_held(job))
            .collect();
        let (first, head) = held.first()?;
        let is_plain = |(id, job): &(&JobId, &HostJob)| {
            job.queue == head.queue
                && !self.unknown.contains(id)
                && !self.waits_for_an_eventlog(jobs, job)
                && job.dependencies.iter().all(|name| is_ours(name))
        };
        // The engine sees a change of urgency in DEPEND only when it releases the job.
        let is_as_submitted =
            head.past.iter().filter(|(_, past)| matches!(past, Past::Urgency(_))).count() <= 1;
        if !held.iter().all(is_plain) || !is_as_submitted {
            return None;
        }
        let record = self.record(head)?;
        let queue = head.queue.as_ref().and_then(|queue| self.queues.get(queue)).map_or(0, |q| q.priority);
        let terms = self.weight.unwrap_or(100_000) as f64 * record.fairshare
            + (10_000 * queue + 1_000 * (head.urgency_at_first - 16)) as f64;
        let priority = match head.urgency_at_first {
            0 => 0,
            31 => i64::from(u32::MAX),
            _ => (terms.round() as i64).clamp(0, self.max_priority(head)),
        };
        Some((-priority, **first))
    }

    pub(super) fn is_queue_stopped(&self, job: &HostJob) -> bool {
        job.queue.as_ref().is_some_and(|queue| self.stopped.contains(queue))
    }

    /// Returns the site limits that apply to a job.
    pub(super) fn list_scope_limits_on_job(&self, job: &HostJob) -> Vec<&SiteLimit> {
        let Some(of) = self.association(job) else { return Vec::new() };
        let on = self.limits.iter().filter(|limit| self.applies_to(limit, of.user, &of.bank));
        on.filter(|limit| self.counts_queue_of_job(limit, job)).collect()
    }

    /// Returns true if a limit counts the two jobs together.
    fn is_shared(&self, limit: &SiteLimit, first: &HostJob, other: &HostJob) -> bool {
        let key = |job: &HostJob| self.association(job).map(|of| (of.user, of.bank.clone()));
        let (Some(first), Some(theirs)) = (key(first), key(other)) else { return false };
        self.counts_queue_of_job(limit, other)
            && self.counts_jobs_of_both_associations(limit, (first.0, &first.1), (theirs.0, &theirs.1))
    }

    /// Job `id` took headroom. Adds 1 to the number of overtakings of each held job that shares a limit with job `id`.
    pub fn count_overtakings(&mut self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) {
        let mut overtakes = std::mem::take(&mut self.overtakes);
        overtakes.retain(|held, _| jobs.get(held).is_some_and(|job| self.is_held(job)));
        self.overtakes = overtakes;
        let Some(taker) = jobs.get(&id).filter(|_| !self.limits.is_empty()) else { return };
        let limits = self.list_scope_limits_on_job(taker);
        let is_overtaken = |job: &HostJob| limits.iter().any(|limit| self.is_shared(limit, taker, job));
        let held = jobs.iter().filter(|(held, job)| **held != id && self.is_held(job) && is_overtaken(job));
        for held in held.map(|(held, _)| *held).collect::<Vec<_>>() {
            *self.overtakes.entry(held).or_default() += 1;
        }
    }

    /// Returns true if the job was overtaken often enough for an anti-starvation reservation.
    pub(super) fn is_overtaken(&self, id: JobId) -> bool {
        self.overtakes.get(&id).is_some_and(|count| *count >= crate::limits::OVERTAKEN)
    }

    /// Returns true if an anti-starvation reservation of another job may hold job `id`. Two conditions must be true:
    ///
    /// - The other job was overtaken, and a limit that both jobs share has no headroom for the other job.
    /// - The urgency of the other job is not 0, and its queue is not stopped.
    pub(super) fn may_be_held_by_reservation(&self, jobs: &BTreeMap<JobId, HostJob>, id: JobId) -> bool {
        let overtaken = self.overtakes.keys().filter(|held| self.is_overtaken(**held));
        let overtaken = overtaken.filter_map(|held| Some((*held, jobs.get(held)?)));
        let mut overtaken =
            overtaken.filter(|(held, job)| *held != id && job.urgency != 0 && !self.is_queue_stopped(job));
        let asker = &jobs[&id];
        overtaken.any(|(held, job)| {
            let full = |limit: &SiteLimit| {
                let alone = Oracle { limits: vec![limit.clone()], ..self.at_most() };
                alone.exceeded(jobs, held).contains(&format_limit_name(limit))
            };
            let of = self.list_scope_limits_on_job(job).into_iter();
            of.filter(|limit| self.is_shared(limit, job, asker)).any(full)
        })
    }
}

pub(super) fn format_limit_name(limit: &SiteLimit) -> String {
    let scope = match (&limit.target, &limit.queue) {
        (Target::Queue(_) | Target::EachQueue, _) => "in-queue".to_owned(),
        (target, Some(_)) => format!("{}-queue", target.kind()),
        (target, None) => target.kind().to_owned(),
    };
    format!("max-{}-{scope}", limit.amount)
}
