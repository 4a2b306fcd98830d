// SPDX-License-Identifier: LGPL-3.0-only
//! A compact job history: 40 bytes per job. Each party (user, bank, queue) is stored once.

use std::collections::HashMap;

use fairshare_engine::ids::{BankName, QueueName, UserId};

/// A job of the history. Times are in seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// Time of submission since the epoch.
    pub submit: f64,
    /// Run time.
    pub run: f64,
    /// Time limit; at least the run time.
    pub walltime: f64,
    /// Cores over all nodes.
    pub cores: u32,
    /// Number of nodes.
    pub nodes: u32,
    /// GPUs over all nodes.
    pub gpus: u32,
    party: u32,
}

/// User, bank and queue of jobs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// User id.
    pub user: UserId,
    /// Name of the bank.
    pub bank: BankName,
    /// Name of the queue, if any.
    pub queue: Option<QueueName>,
}

/// Mean values of a job history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Seconds between two submissions.
    pub between: f64,
    /// Run time in seconds.
    pub run: f64,
    /// Cores per job.
    pub cores: f64,
}

/// Jobs in the order of submission.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    jobs: Vec<Job>,
    parties: Vec<Party>,
    numbers: HashMap<Party, u32>,
}

impl Trace {
    /// Adds a job that `party` submits.
    pub fn push(&mut self, party: Party, submit: f64, (run, walltime): (f64, f64), size: [u32; 3]) {
        let next = self.parties.len() as u32;
        let number = match self.numbers.get(&party) {
            Some(number) => *number,
            None => {
                self.parties.push(party.clone());
                self.numbers.insert(party, next);
                next
            }
        };
        let [nodes, cores, gpus] = size;
        let (run, walltime) = (run.max(0.0), walltime.max(run));
        self.jobs.push(Job { submit, run, walltime, cores, nodes, gpus, party: number });
    }

    /// Sorts the jobs by time of submission. Jobs with equal times stay in their order.
    pub fn sort(&mut self) {
        self.jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
        self.jobs.shrink_to_fit();
    }

    /// Replaces each party.
    pub fn replace_users_banks_and_queues(&mut self, to: impl FnMut(&Party) -> Party) {
        self.parties = self.parties.iter().map(to).collect();
        self.numbers.clear();
    }

    /// Returns all jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns the mean run time, the mean number of cores and the mean time between submissions. Returns `None` if
    /// there are fewer than two jobs. The jobs must be in the order of submission.
    pub fn means(&self) -> Option<Means> {
        let [first, .., last] = self.jobs.as_slice() else { return None };
        let many = self.jobs.len() as f64;
        let mean = |value: fn(&Job) -> f64| self.jobs.iter().map(value).sum::<f64>() / many;
        Some(Means {
            between: (last.submit - first.submit) / (many - 1.0),
            run: mean(|job| job.run),
            cores: mean(|job| f64::from(job.cores)),
        })
    }

    /// Returns all parties.
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// Returns the index of the party that submitted `job`, in the list that [`Trace::parties`] returns.
    pub fn get_trace_job_owner_index(&self, job: &Job) -> usize {
        job.party as usize
    }
}
