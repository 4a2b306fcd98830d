// SPDX-License-Identifier: LGPL-3.0-only
//! Carries out the effects of the engine, and refuses those that Flux would refuse.

use super::super::site::{HostJob, SITE_NODES};
use super::{Answer, Host};
use crate::engine::tests::FEW;
use crate::engine::{Effect, EndedJob, Event, Posting, Refusal, State, Timer};
use crate::ids::JobId;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Returns the jobs without the dependencies whose removal is queued.
fn apply_queued_removals<'a>(
    jobs: &'a BTreeMap<JobId, HostJob>,
    queued: &[(JobId, String)],
) -> Cow<'a, BTreeMap<JobId, HostJob>> {
    let mut jobs = Cow::Borrowed(jobs);
    for (id, name) in queued {
        if jobs.contains_key(id)
            && let Some(job) = jobs.to_mut().get_mut(id)
        {
            job.dependencies.remove(name);
        }
    }
    jobs
}

impl Host {
    pub fn apply_effects(&mut self, effects: Vec<Effect>) {
        let found = self.find_held_in_sched();
        // The effects request the eventlogs of some jobs. From now on, these jobs wait for their eventlogs.
        let asked_for = |effect: &Effect| match effect {
            Effect::ReadEventlog(id) => Some(*id),
            _ => None,
        };
        self.to_be_read.extend(effects.iter().filter_map(asked_for));
        for effect in effects {
            if let Err(why) = self.apply_effect(&effect) {
                let more = self.engine.refused(effect, why);
                self.apply_effects(more);
            }
        }
        // While an eventlog is unread, the engine may count free headroom as taken.
        let is_known = !self.engine.view().is_replaying() && !self.engine.ledger().has_unread();
        for id in found {
            if is_known && self.jobs.get(&id).is_some_and(|job| job.is_held_in_sched) {
                self.oracle.check_held_in_sched(&self.jobs, id);
            }
        }
    }

    /// Asserts that a lookup does not move the cursor of Flux's loop: outside the loop, or for the job of the running
    /// callback.
    fn assert_lookup_allowed(&self, id: JobId) {
        let is_current = self.busy.last() == Some(&id);
        assert!(
            self.job_in_loop.is_none() || is_current,
            "job {id} is looked up while Flux asks about {:?}",
            self.job_in_loop
        );
    }

    fn update_oracle(&mut self) {
        self.oracle.now = self.now;
        self.oracle.unknown = self.unreadable.clone();
        self.oracle.subscribed = self.subscribed.clone();
        self.oracle.unread = self.reads.iter().chain(&self.to_be_read).copied().collect();
    }

    fn apply_effect(&mut self, effect: &Effect) -> Result<(), Refusal> {
        match effect {
            Effect::AddDependency(id, _)
            | Effect::AskUrgency(id)
            | Effect::AskExpiration(id)
            | Effect::RemoveDependency(id, _)
            | Effect::SetJobspec { id, .. }
            | Effect::Subscribe(id)
            | Effect::Unsubscribe(id)
            | Effect::Memo(id, _)
            | Effect::Raise(id, _)
            | Effect::Prioritize(id, _) => self.assert_lookup_allowed(*id),
            _ => {}
        }
        match effect {
            Effect::RejectPush(text) | Effect::Reject(text) => {
                self.answer = Some(Answer::Rejected(text.clone()))
            }
            Effect::SetPriority(priority) => {
                self.answer = Some(Answer::Priority(i64::from(*priority)));
                if let Some(job) = self.busy.last().and_then(|id| self.jobs.get_mut(id)) {
                    job.answered = Some(i64::from(*priority));
                }
            }
            Effect::Annotate(id, text) => {
                self.notes.push(text.clone());
                if let Some(job) = self.jobs.get_mut(id) {
                    job.annotation = Some(text.clone());
                }
            }
            Effect::KeepPriority => self.answer = Some(Answer::Keep),
            Effect::PriorityUnavailable => self.answer = Some(Answer::Unavailable),
            Effect::AddDependency(id, name) => {
                let job = self.jobs.get_mut(id).ok_or(Refusal::Absent)?;
                if !matches!(job.state, State::New | State::Depend) {
                    return Err(Refusal::TooLate);
                }
                let name = name.to_string();
                assert!(
                    !job.removed_dependencies.contains(&name),
                    "{name} of job {id} was removed once: Flux would ignore it"
                );
                if job.dependencies.insert(name.clone()) {
                    job.log.push((name.clone(), true));
                    self.send_dependency_event(*id, &name, true);
                }
            }
            Effect::AskUrgency(id) => {
                let job = self.jobs.get_mut(id).ok_or(Refusal::Absent)?;
                if let Some(why) = &self.refuse_urgency_requests {
                    return Err(why.clone());
                }
                if job.state == State::Depend {
                    job.urgency_at_first = job.urgency;
                }
                let urgency = job.urgency;
                let more = self.engine.handle(self.now, Event::Urgency(*id, urgency));
                self.apply_effects(more);
            }
            Effect::AskExpiration(id) => {
                let job = self.jobs.get(id).ok_or(Refusal::Absent)?;
                let expiration = job.resources().allocation().and_then(|given| given.expiration);
                let more = self.engine.handle(self.now, Event::Expiration(*id, expiration));
                self.apply_effects(more);
            }
            Effect::LookUp(id) => {
                let job = self.jobs.get(id).cloned().ok_or(Refusal::Absent)?;
                let more = self.engine.handle(self.now, Event::Shown(Host::facts(*id, &job)));
                self.apply_effects(more);
            }
            Effect::RemoveDependency(id, name) => {
                let job = self.jobs.get(id).ok_or(Refusal::Absent)?;
                if !job.dependencies.contains(&name.to_string()) {
                    return Err(Refusal::Absent);
                }
                if !matches!(job.state, State::New | State::Depend) {
                    return Err(Refusal::TooLate);
                }
                self.update_oracle();
                self.oracle.check_removed_dependency(
                    &apply_queued_removals(&self.jobs, &self.queued),
                    *id,
                    &name.to_string(),
                );
                if self.busy.contains(id) {
                    self.queued.push((*id, name.to_string()));
                } else {
                    self.remove_dependency(*id, &name.to_string());
                }
            }
            Effect::SetJobspec { id, posting, bank, project } => {
                let is_current = self.busy.last() == Some(id);
                assert_eq!(is_current, *posting == Posting::Current, "job {id}: the wrong kind of update");
                let job = self.jobs.get_mut(id).ok_or(Refusal::Absent)?;
                assert!(job.state < State::Run, "job {id} is {:?}: too late for an update", job.state);
                assert!(
                    !(is_current && job.state == State::Sched),
                    "job {id} would be sent to PRIORITY during its priority request"
                );
                if let Some(bank) = bank {
                    let bank = Some(bank.to_string());
                    assert!(
                        job.bank.is_none() || job.bank == bank,
                        "a bank that is named is never overwritten"
                    );
                    job.bank = bank;
                }
                if let Some(project) = project {
                    assert_eq!(job.project, None);
                    job.project = Some(project.to_string());
                }
                let (bounces, urgency) = (job.state == State::Sched && !is_current, job.urgency);
                if bounces {
                    job.state = State::Priority;
                }
                self.run_callback(*id, |facts| Event::Updated(facts));
                if bounces {
                    self.repeat_request(*id, urgency);
                }
            }
            Effect::Memo(id, fairshare) | Effect::VolatileMemo(id, fairshare) => {
                let job = self.jobs.get_mut(id).ok_or(Refusal::Absent)?;
                job.memos.push(*fairshare);
                job.stored_memos += usize::from(matches!(effect, Effect::Memo(..)));
            }
            Effect::Raise(id, note) => {
                let job = self.jobs.get(id).ok_or(Refusal::Absent)?;
                assert!(job.state > State::New, "an exception in NEW is refused");
                assert!(self.busy.is_empty(), "a callback may not be done with job {id}");
                self.exceptions.push((*id, note.clone()));
                self.end_job(*id);
            }
            Effect::Log(_, text) => self.logged.push(text.clone()),
            Effect::Subscribe(id) => {
                self.jobs.get(id).ok_or(Refusal::Absent)?;
                self.subscribed.insert(*id);
                // The engine may also subscribe to one running job, to learn when its expiration changes.
                assert!(self.subscribed.len() <= FEW.subscribed + 1, "Flux searches all subscriptions");
            }
            // After a panic, the engine may end a subscription that the plugin does not have.
            Effect::Unsubscribe(id) => {
                let was = self.subscribed.remove(id);
                assert!(was || self.engine.view().needs_comparison(), "job {id} was not subscribed to");
            }
            Effect::Arm(Timer::ReactorTurn) => self.defers += 1,
            Effect::Arm(Timer::Retry) => self.retries += 1,
            Effect::Arm(Timer::Slice) => self.slices += 1,
            Effect::Arm(
                timer @ (Timer::Refresh | Timer::Remember | Timer::Expire | Timer::Answer | Timer::TimeLeft),
            ) => {
                panic!("the engine does not arm {timer:?}")
            }
            Effect::ArmIn(Timer::Slice, _) => self.slices += 1,
            Effect::Arm(Timer::Queues) => self.queue_timer = Some(false),
            Effect::ArmIn(Timer::Queues, seconds) => self.queue_timer = Some(*seconds == 0.0),
            // The model host does not answer this request. The engine then assumes that the scheduler has a separate
            // list of jobs for each queue.
            Effect::AskScheduler => {}
            Effect::AskQueues(names) => self.queues_asked = Some(names.clone()),
            Effect::ArmIn(Timer::TimeLeft, seconds) => self.time_left_at = Some(self.now + seconds),
            Effect::ArmIn(timer, seconds) => {
                assert_eq!(*timer, Timer::Refresh);
                self.refresh_at = Some(self.now + seconds);
            }
            Effect::ReadEventlog(id) => {
                self.requested_reads += 1;
                self.to_be_read.remove(id);
                if !self.never_answered.contains(id) {
                    self.reads.push_back(*id);
                }
            }
            Effect::ReadSiteNodes => {
                let more = self.engine.handle(self.now, Event::SiteNodes(Some(SITE_NODES)));
                self.apply_effects(more);
            }
            Effect::ReadDependencies(id) => self.asks.push(*id),
            Effect::ListEnded { since, before, most } => {
                let mut page: Vec<EndedJob> =
                    self.ended.iter().filter(|job| job.end > *since).cloned().collect();
                page.retain(|job| before.is_none_or(|before| job.end <= before));
                page.sort_by(|a, b| b.end.total_cmp(&a.end));
                page.truncate(*most);
                self.listed = Some(self.has_job_list.then_some(page));
            }
            Effect::Prioritize(id, priority) => {
                let state = self.jobs.get(id).ok_or(Refusal::Absent)?.state;
                if let Some(why) = &self.refuse_priorities {
                    return Err(why.clone());
                }
                if matches!(state, State::Priority | State::Sched) {
                    self.posts += 1;
                    self.moved_to_sched.extend((state == State::Priority).then_some(*id));
                    self.update_oracle();
                    self.oracle.check_posted_priority(&apply_queued_removals(&self.jobs, &self.queued), *id);
                    if let Some(job) = self.jobs.get_mut(id) {
                        job.was_sched |= std::mem::take(&mut job.is_held_in_sched);
                    }
                    self.set_priority(*id, Some(Answer::Priority(i64::from(*priority))));
                }
            }
            Effect::ReprioritizeAll => match &self.refuse_loops {
                Some(why) => return Err(why.clone()),
                None => self.reprioritize_all(),
            },
            Effect::Then(step) => {
                let more = self.engine.execute_step(step.clone());
                self.apply_effects(more);
            }
        }
        Ok(())
    }
}
