// SPDX-License-Identifier: LGPL-3.0-only
//! Sums the node, core and GPU seconds of job records and of running jobs by a chosen key.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::fetch::RunningJob;
use super::{Result, resources};
use crate::store::{EndedJob, Ledger, Snapshot, Which};

/// The key of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// User and bank.
    Association,
    /// User.
    User,
    /// Bank.
    Bank,
    /// Project.
    Project,
    /// Day.
    Day,
}

/// The time interval, the users and the banks of a usage report.
pub struct Query<'a> {
    /// Start of the interval.
    pub since: f64,
    /// End of the interval.
    pub until: f64,
    /// If true, count jobs that ended in the interval with their whole run time; if false, count the run time inside
    /// the interval.
    pub whole: bool,
    /// How the report groups usage, for example by bank.
    pub by: By,
    /// The running jobs, which count until `now`. If a job also has a record, only the record counts.
    pub running: &'a [RunningJob],
    /// The current time, in seconds since the epoch.
    pub now: f64,
    /// Only these users; empty means all.
    pub users: &'a [String],
    /// Only these banks and the banks below them; empty means all.
    pub banks: &'a [String],
    /// Returns the day of a time, and the end of that day.
    pub day: &'a dyn Fn(f64) -> (String, f64),
    /// Returns the name of a user id that is not in the database.
    pub name: &'a dyn Fn(i64) -> String,
}

/// The sums in one line of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Number of jobs.
    pub jobs: usize,
    /// Node-seconds.
    pub nodes: f64,
    /// Core-seconds.
    pub cores: f64,
    /// GPU-seconds.
    pub gpus: f64,
    /// The number of running jobs in `jobs`.
    pub running_jobs: usize,
    /// The node-seconds of running jobs. `nodes` includes them.
    pub running_nodes: f64,
}

/// The lines of a report, and their total. The key of a line is a user and a bank, or a name and an empty text.
#[derive(Clone, Debug, Default)]
pub struct Usage {
    /// The usage of each line of the report.
    pub lines: BTreeMap<(String, String), Used>,
    /// The total. A job that is in several lines counts once.
    pub total: Used,
    /// Number of records whose R or times are invalid.
    pub unreadable: usize,
    /// Selected users and banks that are neither in the database nor in a record.
    pub unknown: Unknown,
}

/// Unknown names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// Unknown users.
    pub users: Vec<String>,
    /// Unknown banks.
    pub banks: Vec<String>,
}

impl Unknown {
    /// Returns the names in `users` and `banks` that are not in the ledger.
    pub fn find(ledger: &Ledger, users: &[String], banks: &[String]) -> Unknown {
        let is_user = |name: &&String| ledger.accounts.iter().any(|account| account.user == **name);
        let is_bank = |name: &&String| ledger.banks.iter().any(|bank| bank.name == **name);
        Unknown {
            users: users.iter().filter(|name| !is_user(name)).cloned().collect(),
            banks: banks.iter().filter(|name| !is_bank(name)).cloned().collect(),
        }
    }
}

impl Used {
    fn add(&mut self, other: &Used) {
        self.jobs += other.jobs;
        self.nodes += other.nodes;
        self.cores += other.cores;
        self.gpus += other.gpus;
        self.running_jobs += other.running_jobs;
        self.running_nodes += other.running_nodes;
    }
}

impl Usage {
    /// Sums the records and the running jobs that `query` selects.
    pub fn new(snapshot: &Snapshot<'_>, query: &Query<'_>) -> Result<Usage> {
        snapshot.check_usage_schema()?;
        let ledger = snapshot.ledger(&mut |_| ())?;
        let mut names: HashMap<i64, &str> = HashMap::new();
        let mut defaults: HashMap<i64, &str> = HashMap::new();
        let former = snapshot.former_userids(&ledger)?;
        let former = former.iter().filter_map(|(userid, at)| Some((*userid, ledger.accounts.get(*at)?)));
        for (userid, account) in former.chain(ledger.accounts.iter().map(|account| (account.userid, account)))
        {
            // If several users have the id, sync counts its jobs for the last one.
            names.insert(userid, account.user.as_str());
            if account.is_default {
                defaults.insert(userid, ledger.bank_name(account));
            }
        }
        let banks = include_banks_below(&ledger, query.banks);
        let unknown = Unknown::find(&ledger, query.users, query.banks);
        let mut usage = Usage { unknown, ..Usage::default() };
        let running = query.running.iter().map(|job| (job.id.to_string(), job));
        let mut running: BTreeMap<_, _> = running.collect();
        let mut count_job = |job: EndedJob<'_>| {
            let user =
                names.get(&job.userid).map_or_else(|| (query.name)(job.userid), |name| (*name).to_owned());
            let named = job.jobspec.and_then(resources::read_bank);
            let bank = job.bank.or(named.as_deref()).filter(|bank| !bank.is_empty());
            let bank = bank.or_else(|| defaults.get(&job.userid).copied()).unwrap_or("");
            usage.unknown.users.retain(|name| *name != user);
            usage.unknown.banks.retain(|name| name != bank);
            let is_selected = (query.users.is_empty() || query.users.contains(&user))
                && (query.banks.is_empty() || banks.contains(bank));
            if is_selected {
                usage.add_job(query, &job, &user, bank);
            }
        };
        snapshot.ended_jobs(Which::All, &mut |job| {
            running.remove(job.id);
            count_job(job);
        })?;
        running.values().for_each(|job| count_job(job.record_as_ended_at(query.now)));
        Ok(usage)
    }

    fn add_job(&mut self, query: &Query<'_>, job: &EndedJob<'_>, user: &str, bank: &str) {
        let Some(((started, ended), (ran_on, _))) = job.times.zip(resources::count_job(job)) else {
            self.unreadable += 1;
            return;
        };
        let used = |seconds: f64| Used {
            jobs: 1,
            nodes: ran_on.nodes as f64 * seconds,
            cores: ran_on.cores as f64 * seconds,
            gpus: ran_on.gpus as f64 * seconds,
            running_jobs: usize::from(job.running.is_some()),
            running_nodes: job.running.map_or(0.0, |_| ran_on.nodes as f64 * seconds),
        };
        let (from, to) = if query.whole {
            let is_inside = query.since <= ended && ended < query.until;
            if is_inside { (started, ended) } else { return }
        } else {
            (started.max(query.since), ended.min(query.until))
        };
        if to < from || (to == from && started < ended) {
            return;
        }
        self.total.add(&used(to - from));
        let key = match query.by {
            By::Association => (user.to_owned(), bank.to_owned()),
            By::User => (user.to_owned(), String::new()),
            By::Bank => (bank.to_owned(), String::new()),
            By::Project => (job.project.unwrap_or("").to_owned(), String::new()),
            By::Day if query.whole => ((query.day)(ended).0, String::new()),
            By::Day => {
                let mut from = from;
                loop {
                    let (day, end) = (query.day)(from);
                    self.lines.entry((day, String::new())).or_default().add(&used(end.min(to) - from));
                    if end >= to || end <= from {
                        return;
                    }
                    from = end;
                }
            }
        };
        self.lines.entry(key).or_default().add(&used(to - from));
    }
}

/// Returns `banks` and all banks below them.
pub fn include_banks_below<'a>(ledger: &'a Ledger, banks: &'a [String]) -> HashSet<&'a str> {
    let mut names: HashSet<&str> = banks.iter().map(String::as_str).collect();
    loop {
        let before = names.len();
        for bank in &ledger.banks {
            let parent = bank.parent.and_then(|parent| ledger.banks.get(parent));
            if parent.is_some_and(|parent| names.contains(parent.name.as_str())) {
                names.insert(&bank.name);
            }
        }
        if names.len() == before {
            return names;
        }
    }
}
