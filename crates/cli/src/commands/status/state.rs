// SPDX-License-Identifier: LGPL-3.0-only
//! A summary of a plugin's answer to a query.

use std::collections::{BTreeMap, BTreeSet};

use fairshare_engine::engine::answers::{AssociationSnapshot, Snapshot};

/// Sums over all associations.
pub(crate) struct Summary {
    pub(crate) associations: usize,
    pub(crate) inactive: usize,
    pub(crate) banks: usize,
    pub(crate) running: i64,
    pub(crate) active: i64,
    pub(crate) nodes: i64,
    pub(crate) cores: i64,
    pub(crate) held: usize,
    pub(crate) by_limit: BTreeMap<String, usize>,
}

impl Summary {
    /// Sums up the associations of `state`.
    pub(crate) fn new(state: &Snapshot) -> Summary {
        let all = || state.users.iter().flat_map(|user| &user.banks);
        let sum = |value: fn(&AssociationSnapshot) -> i64| all().map(value).sum();
        let mut by_limit = BTreeMap::new();
        for limit in all().flat_map(|association| association.held_jobs.values()).flat_map(|held| &held.deps)
        {
            *by_limit.entry(limit_of(limit).to_owned()).or_default() += 1;
        }
        Summary {
            associations: all().count(),
            inactive: all().filter(|association| association.active == 0).count(),
            banks: all().map(|association| association.bank_name.as_str()).collect::<BTreeSet<_>>().len(),
            running: sum(|association| association.cur_run_jobs),
            active: sum(|association| association.cur_active_jobs),
            nodes: sum(|association| association.cur_nodes),
            cores: sum(|association| association.cur_cores),
            held: all().map(|association| association.held_jobs.len()).sum(),
            by_limit,
        }
    }
}

/// Returns the limit of a dependency, without the number that marks a repeated use.
fn limit_of(dependency: &str) -> &str {
    match dependency.rsplit_once('.') {
        Some((limit, number)) if number.parse::<u32>().is_ok() => limit,
        _ => dependency,
    }
}

#[cfg(test)]
mod tests {
    use super::limit_of;

    #[test]
    fn a_number_behind_a_limit_is_left_off() {
        assert_eq!(limit_of("max-run-jobs-queue"), "max-run-jobs-queue");
        assert_eq!(limit_of("max-sched-jobs-user-limit.2"), "max-sched-jobs-user-limit");
        assert_eq!(limit_of("a.b"), "a.b");
    }
}
