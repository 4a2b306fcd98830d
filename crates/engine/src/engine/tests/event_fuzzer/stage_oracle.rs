// SPDX-License-Identifier: LGPL-3.0-only
//! Follows the stages of live jobs from the events alone. This oracle applies no limits.

use crate::engine::{Effect, Engine, Event, State};
use crate::ids::JobId;
use crate::limits::{Admission, Job, Size};
use std::collections::{BTreeMap, BTreeSet};

/// The stage that a job has reached. Only a job that is held in PRIORITY returns to an earlier stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    New,
    Depend,
    Priority,
    Sched,
    Run,
    Cleanup,
}

#[derive(Clone, Debug)]
struct TrackedJob {
    stage: Stage,
    size: Size,
    /// Whether the counters of the association include the job.
    counts: bool,
    /// Whether the job is held in SCHED. A held job does not count as scheduled before its release.
    is_held: bool,
}

fn is_prioritized(effects: &[Effect]) -> bool {
    effects.iter().any(|effect| matches!(effect, Effect::SetPriority(_)))
}

/// The live jobs, as the events reported them.
#[derive(Clone, Debug, Default)]
pub struct JobStageOracle {
    jobs: BTreeMap<JobId, TrackedJob>,
    /// Jobs that passed validation and have had no later event.
    validated: BTreeSet<JobId>,
}

impl JobStageOracle {
    pub fn apply_event(&mut self, event: &Event<'_>, effects: &[Effect]) {
        match event {
            Event::Validate(facts) if facts.state == State::New => {
                let is_rejected = effects.iter().any(|effect| matches!(effect, Effect::Reject(_)));
                self.validated.extend((!is_rejected).then_some(facts.id));
            }
            Event::New(facts) | Event::Shown(facts) => {
                let is_submission = self.validated.remove(&facts.id) && matches!(event, Event::New(_));
                let stage = match facts.state {
                    _ if is_submission => Stage::New,
                    State::New => Stage::New,
                    State::Depend => Stage::Depend,
                    State::Priority if facts.resources.are_allocated() => Stage::Run,
                    State::Priority => Stage::Priority,
                    State::Sched => Stage::Sched,
                    State::Run => Stage::Run,
                    State::Cleanup if facts.resources.are_allocated() => Stage::Run,
                    State::Cleanup => Stage::Cleanup,
                    State::Inactive => {
                        if matches!(event, Event::Shown(_)) {
                            self.jobs.remove(&facts.id);
                        }
                        return;
                    }
                };
                let size = *facts.size.as_ref().unwrap_or(&Size::ONE);
                self.jobs.insert(facts.id, TrackedJob { stage, size, counts: false, is_held: false });
            }
            Event::Depend(id) => self.set_stage(*id, Stage::Depend),
            // An expedited job that left SCHED returns there.
            Event::Bounced { id, urgency: 31, .. } if is_prioritized(effects) => {
                self.set_stage(*id, Stage::Sched)
            }
            Event::Priority(id, _) | Event::Bounced { id, .. } => self.set_stage(*id, Stage::Priority),
            Event::Sched(id) => self.set_stage(*id, Stage::Sched),
            Event::Run(id, _) => {
                if let Some(life) = self.jobs.get_mut(id) {
                    life.stage = Stage::Run;
                }
            }
            Event::Cleanup(id) => {
                if let Some(life) =
                    self.jobs.get_mut(id).filter(|life| life.stage < Stage::Sched || life.is_held)
                {
                    life.stage = Stage::Cleanup;
                }
            }
            Event::Inactive(id) | Event::Gone(id) => {
                self.jobs.remove(id);
                self.validated.remove(id);
            }
            Event::Updated(facts) => {
                if let (Some(life), Ok(size)) = (self.jobs.get_mut(&facts.id), &facts.size)
                    && (life.is_held || !matches!(life.stage, Stage::Sched | Stage::Run))
                {
                    life.size = *size;
                }
            }
            _ => {}
        }
    }

    fn set_stage(&mut self, id: JobId, stage: Stage) {
        if let Some(life) = self.jobs.get_mut(&id) {
            life.stage = life.stage.max(stage);
        }
    }

    /// Copies from the engine which jobs count and which are held in SCHED, because both depend on the configuration. A job does not count
    /// while it has no association, or if its association had flux-accounting's test mark when it was submitted.
    pub fn copy_decisions(&mut self, engine: &Engine) {
        for (id, life) in &mut self.jobs {
            let job = engine.ledger().job(*id);
            let admission = job.map(|job| job.admission);
            life.counts = matches!(admission, Some(Admission::Attached(_) | Admission::Admitted(_)));
            life.is_held = job.is_some_and(|job| job.is_in_sched);
            // The engine holds an expedited job in PRIORITY, even if the job had reached SCHED.
            if life.stage == Stage::Sched && !life.is_held && job.is_some_and(Job::is_awaiting) {
                life.stage = Stage::Priority;
            }
        }
    }

    pub fn stages(&self) -> Vec<Stage> {
        self.jobs.values().map(|life| life.stage).collect()
    }

    pub fn count_tracked_live_jobs(&self) -> usize {
        self.jobs.len()
    }

    fn list_tracked_jobs_in_stage(&self, stage: Stage) -> impl Iterator<Item = &TrackedJob> {
        self.jobs.values().filter(move |life| life.stage == stage)
    }

    pub fn running_count(&self) -> usize {
        self.list_tracked_jobs_in_stage(Stage::Run).count()
    }

    /// Returns the numbers of active, running and scheduled jobs of all associations.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |stage| self.list_tracked_jobs_in_stage(stage).filter(|life| life.counts).count() as u64;
        let active = self.jobs.values().filter(|life| life.counts).count() as u64;
        let held =
            self.list_tracked_jobs_in_stage(Stage::Sched).filter(|life| life.counts && life.is_held).count()
                as u64;
        (active, count(Stage::Run), count(Stage::Sched) - held)
    }

    pub fn running_gpus(&self) -> u64 {
        self.list_tracked_jobs_in_stage(Stage::Run)
            .filter(|life| life.counts)
            .map(|life| life.size.gpus)
            .sum()
    }
}
