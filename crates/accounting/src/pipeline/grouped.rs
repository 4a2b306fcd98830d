// SPDX-License-Identifier: LGPL-3.0-only
//! Sorts counted jobs by association and end time.

/// A job whose usage the sync counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CountedJob {
    /// Index of the job's association. With `Rule::FluxAccounting`, index of the job's group of associations.
    pub(super) group: u32,
    /// The number of period boundaries since the end of the job.
    pub(super) age: u32,
    /// End of the job, in seconds since the epoch.
    pub(super) ended: f64,
    /// Usage of the job.
    pub(super) usage: f64,
    /// Usage of the job with continuous decay from its start to its end.
    pub(super) continuous: f64,
}

/// Jobs sorted by group and end time.
#[derive(Debug, Default)]
pub(super) struct JobGroups(Vec<CountedJob>);

impl JobGroups {
    /// Sorts by group and end time. Jobs of the same group and end time keep their order.
    pub(super) fn new(mut jobs: Vec<CountedJob>) -> JobGroups {
        jobs.sort_by(|a, b| a.group.cmp(&b.group).then(a.ended.total_cmp(&b.ended)));
        JobGroups(jobs)
    }

    /// Returns the jobs of a group in the order of their end times.
    pub(super) fn jobs_in_group(&self, group: usize) -> &[CountedJob] {
        let begin = self.0.partition_point(|job| (job.group as usize) < group);
        let end = self.0.partition_point(|job| job.group as usize <= group);
        self.0.get(begin..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_are_sorted_by_group_and_end_time() {
        let job = |group, ended, usage| CountedJob { group, age: 0, ended, usage, continuous: usage };
        let jobs = vec![job(2, 5.0, 1.0), job(0, 9.0, 2.0), job(2, 1.0, 3.0), job(2, 5.0, 4.0)];
        let grouped = JobGroups::new(jobs);
        let usages = |group| grouped.jobs_in_group(group).iter().map(|job| job.usage).collect::<Vec<_>>();
        assert_eq!(
            [usages(0), usages(1), usages(2), usages(3)],
            [vec![2.0], vec![], vec![3.0, 1.0, 4.0], vec![]]
        );
    }
}
