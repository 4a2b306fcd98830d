// SPDX-License-Identifier: LGPL-3.0-only
//! A million counted jobs, sorted by who ran them and when they ended.

/// One job that counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Counting {
    /// Whose it is: a place in a list.
    pub(super) group: u32,
    /// How many boundaries ago it ended.
    pub(super) age: u32,
    /// When it ended.
    pub(super) ended: f64,
    /// What it used.
    pub(super) usage: f64,
    /// What it used, with continuous decay until it ended.
    pub(super) continuous: f64,
}

/// Jobs by group.
#[derive(Debug, Default)]
pub(super) struct Grouped {
    jobs: Vec<Counting>,
    /// Where each group ends.
    ends: Vec<usize>,
}

impl Grouped {
    /// Sorts by group and, within it, by end; jobs that ended together stay in their order.
    pub(super) fn new(jobs: Vec<Counting>, groups: usize) -> Grouped {
        let mut ends = vec![0; groups];
        for job in &jobs {
            if let Some(count) = ends.get_mut(job.group as usize) {
                *count += 1;
            }
        }
        let mut sum = 0;
        for end in &mut ends {
            let count = *end;
            *end = sum;
            sum += count;
        }
        // Each group's beginning moves to its end as it fills.
        let mut sorted = jobs.clone();
        for job in &jobs {
            if let Some(at) = ends.get_mut(job.group as usize) {
                if let Some(place) = sorted.get_mut(*at) {
                    *place = *job;
                }
                *at += 1;
            }
        }
        let mut grouped = Grouped { jobs: sorted, ends };
        let mut begin = 0;
        for end in &grouped.ends {
            if let Some(jobs) = grouped.jobs.get_mut(begin..*end) {
                jobs.sort_by(|one, other| one.ended.total_cmp(&other.ended));
            }
            begin = *end;
        }
        grouped
    }

    /// The jobs of a group.
    pub(super) fn of(&self, group: usize) -> &[Counting] {
        let begin = group.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        let end = self.ends.get(group).copied().unwrap_or(begin);
        self.jobs.get(begin..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_apart_and_in_order_of_time() {
        let job = |group, ended, usage| Counting { group, age: 0, ended, usage, continuous: usage };
        let jobs = vec![job(2, 5.0, 1.0), job(0, 9.0, 2.0), job(2, 1.0, 3.0), job(2, 5.0, 4.0)];
        let grouped = Grouped::new(jobs, 4);
        let usages = |group| grouped.of(group).iter().map(|job| job.usage).collect::<Vec<_>>();
        assert_eq!(
            [usages(0), usages(1), usages(2), usages(3)],
            [vec![2.0], vec![], vec![3.0, 1.0, 4.0], vec![]]
        );
    }
}
