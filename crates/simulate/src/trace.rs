// SPDX-License-Identifier: LGPL-3.0-only
//! A job history in little memory: forty bytes a job, and who they are of once for all.

use std::collections::HashMap;

use fairshare_engine::ids::{BankName, QueueName, UserId};

/// A job of the history, in seconds and whole resources.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Job {
    /// When it was submitted, since the epoch.
    pub submit: f64,
    /// How long it ran.
    pub run: f64,
    /// How long it asked to run; never less than it ran.
    pub walltime: f64,
    /// Cores over all nodes.
    pub cores: u32,
    /// Nodes.
    pub nodes: u32,
    /// GPUs over all nodes.
    pub gpus: u32,
    party: u32,
}

/// Whose jobs they are, and where they were submitted to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// Who.
    pub user: UserId,
    /// The bank.
    pub bank: BankName,
    /// The queue, if any.
    pub queue: Option<QueueName>,
}

/// Means over all jobs of a history, by which histories are compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Means {
    /// Seconds from one submission to the next.
    pub between: f64,
    /// Seconds that a job ran.
    pub run: f64,
    /// Cores of a job.
    pub cores: f64,
}

/// Jobs in the order of their submission.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    jobs: Vec<Job>,
    parties: Vec<Party>,
    numbers: HashMap<Party, u32>,
}

impl Trace {
    /// Adds a job of somebody; what `job` says of that is of no account.
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

    /// Puts the jobs in the order of their submission; of those submitted at one time the first added comes first.
    pub fn sort(&mut self) {
        self.jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
        self.jobs.shrink_to_fit();
    }

    /// Has jobs be of others than they were.
    pub fn rename(&mut self, to: impl FnMut(&Party) -> Party) {
        self.parties = self.parties.iter().map(to).collect();
        self.numbers.clear();
    }

    /// All jobs.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// What the jobs are like; of two jobs at least, in the order of their submission.
    pub fn means(&self) -> Option<Means> {
        let [first, .., last] = self.jobs.as_slice() else { return None };
        let many = self.jobs.len() as f64;
        let mean = |of: fn(&Job) -> f64| self.jobs.iter().map(of).sum::<f64>() / many;
        Some(Means {
            between: (last.submit - first.submit) / (many - 1.0),
            run: mean(|job| job.run),
            cores: mean(|job| f64::from(job.cores)),
        })
    }

    /// All there are jobs of.
    pub fn parties(&self) -> &[Party] {
        &self.parties
    }

    /// Of whom a job is, by its place among all.
    pub fn party_of(&self, job: &Job) -> usize {
        job.party as usize
    }

    /// Bytes that a job takes.
    pub const BYTES: usize = size_of::<Job>();
}
