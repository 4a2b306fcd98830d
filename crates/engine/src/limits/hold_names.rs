// SPDX-License-Identifier: LGPL-3.0-only
//! The dependency names by which limits hold a job, and the names that were removed from the job before.

use super::hold::{Hold, HoldSet};
use super::table::Rules;
use std::fmt;

/// The name of a dependency in the eventlog: the name of a limit, with `.2`, `.3` and so on from the second use on.
///
/// Flux ignores a name that was once removed from the same job, so each new hold needs a new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldName {
    /// The limit.
    pub hold: Hold,
    /// The number in the name: 1 for the name without a number, 2 for `.2`, and so on. Each new hold of the job by
    /// the limit has a larger number.
    pub use_count: u32,
}

impl fmt::Display for HoldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.use_count {
            0 | 1 => f.write_str(self.hold.name()),
            n => write!(f, "{}.{n}", self.hold.name()),
        }
    }
}

impl Rules {
    /// Parses the description of a dependency. Returns `None` if it is not the name of a limit.
    pub fn parse(self, text: &str) -> Option<HoldName> {
        let find_limit = |name: &str| self.names().find(|hold| hold.name() == name);
        if let Some(hold) = find_limit(text) {
            return Some(HoldName { hold, use_count: 1 });
        }
        let (base, count) = text.rsplit_once('.')?;
        let use_count = count.parse().ok().filter(|n| *n >= 2)?;
        Some(HoldName { hold: find_limit(base)?, use_count })
    }
}

/// The dependency names that limits have given to a job. Most jobs never get a dependency name, so `uses` is allocated only when needed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HoldNames {
    outstanding: HoldSet,
    uses: Option<Box<NameUseCounts>>,
}

/// For each limit whose name was used, its index in [`HoldSet`] and the number of uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct NameUseCounts(Vec<(u8, u32)>);

impl HoldNames {
    /// Returns the limits that hold the job in DEPEND.
    pub fn outstanding(&self) -> HoldSet {
        self.outstanding
    }

    /// Returns true if a limit has ever held the job.
    pub fn was_job_ever_held(&self) -> bool {
        self.uses.is_some()
    }

    /// Returns how often the name of a limit was used.
    pub fn use_count(&self, hold: Hold) -> u32 {
        let row = hold.index();
        let uses = self.uses.iter().flat_map(|uses| &uses.0);
        uses.filter(|(used, _)| *used == row).map(|(_, count)| *count).next().unwrap_or(0)
    }

    fn set_use_count(&mut self, hold: Hold, count: u32) {
        let NameUseCounts(uses) = &mut **self.uses.get_or_insert_default();
        match uses.iter_mut().find(|(used, _)| *used == hold.index()) {
            Some((_, slot)) => *slot = count,
            None => uses.push((hold.index(), count)),
        }
    }

    /// Adds a new dependency name for the limit `hold`. Returns `None` if the limit already holds the job, or if the
    /// number of uses of the limit's name would overflow.
    fn add(&mut self, hold: Hold) -> Option<HoldName> {
        let use_count = self.use_count(hold).checked_add(1)?;
        if self.outstanding.contains(hold) {
            return None;
        }
        self.set_use_count(hold, use_count);
        self.outstanding.insert(hold);
        Some(HoldName { hold, use_count })
    }

    /// Adds a dependency name for each limit in `exceeded` that does not hold the job yet. If no name of these limits
    /// is left, uses the name of another limit, so that the job stays held.
    pub fn add_all(&mut self, rules: Rules, exceeded: HoldSet) -> Vec<HoldName> {
        let mut added: Vec<HoldName> = rules.members(exceeded).filter_map(|hold| self.add(hold)).collect();
        if self.outstanding.is_empty() && !exceeded.is_empty() {
            added.extend(rules.names().find_map(|hold| self.add(hold)));
        }
        added
    }

    /// Removes and returns the dependency name of the limit `hold`. Returns `None` if the limit does not hold the job.
    pub fn remove(&mut self, hold: Hold) -> Option<HoldName> {
        let name = self.current_name(hold)?;
        self.outstanding.remove(hold);
        Some(name)
    }

    /// Returns the dependency name with which the limit `hold` holds the job now. Returns `None` if the limit does not hold the job.
    pub fn current_name(&self, hold: Hold) -> Option<HoldName> {
        self.outstanding.contains(hold).then(|| HoldName { hold, use_count: self.use_count(hold) })
    }

    /// Returns the dependency names that hold the job, in the order of the limits in `rules`.
    pub fn iter(&self, rules: Rules) -> impl Iterator<Item = HoldName> {
        rules.members(self.outstanding).filter_map(|hold| self.current_name(hold))
    }

    /// Restores a dependency name that Flux refused to remove.
    pub fn restore(&mut self, name: HoldName) {
        if self.use_count(name.hold) == name.use_count {
            self.outstanding.insert(name.hold);
        }
    }

    /// Applies an event of the eventlog that adds or removes the dependency `name`. Ignores the addition of a name
    /// that was used before.
    pub fn replay(&mut self, name: HoldName, added: bool) {
        let uses = self.use_count(name.hold);
        self.set_use_count(name.hold, uses.max(name.use_count));
        match added {
            true if name.use_count > uses => self.outstanding.insert(name.hold),
            false if name.use_count >= uses => self.outstanding.remove(name.hold),
            _ => {}
        }
    }

    /// Restores the dependency names of a job if the removed names are unknown. The numbers of new names begin after
    /// `now`, in seconds since the epoch. An earlier instance of the plugin began at a lower number, and no job gets
    /// a name each second. So earlier names have lower numbers, and no name is used twice.
    pub fn from_outstanding(rules: Rules, names: impl IntoIterator<Item = HoldName>, now: f64) -> HoldNames {
        let mut restored = HoldNames::default();
        for hold in rules.names() {
            restored.set_use_count(hold, now as u32);
        }
        for name in names {
            restored.set_use_count(name.hold, name.use_count);
            restored.outstanding.insert(name.hold);
        }
        restored
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::RULES;
    use super::*;

    fn hold(name: &str) -> Hold {
        RULES.parse(name).unwrap().hold
    }

    #[test]
    fn a_printed_name_parses_to_itself() {
        for hold in RULES.names() {
            for use_count in [1, 2, 17, 70_000, u32::MAX] {
                let name = HoldName { hold, use_count };
                assert_eq!(RULES.parse(&name.to_string()), Some(name));
            }
        }
        for foreign in [
            "",
            "after:1",
            "max-run-jobs-queue.1",
            "max-run-jobs-queue.0",
            "max-run-jobs-queue.x",
            "max-run-jobs-queue.",
            "max-run-jobs-queue.4294967296",
            "begin-time",
        ] {
            assert_eq!(RULES.parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_removed_dependency_is_added_again_under_the_next_number() {
        let sched = hold("max-sched-jobs-user-limit");
        let mut names = HoldNames::default();
        assert!(!names.was_job_ever_held());
        assert_eq!(names.add(sched).map(|n| n.to_string()).as_deref(), Some("max-sched-jobs-user-limit"));
        assert!(names.was_job_ever_held());
        assert_eq!(names.add(sched), None);
        assert!(names.remove(sched).is_some());
        assert_eq!(names.remove(sched), None);
        let again = names.add(sched).map(|n| n.to_string());
        assert_eq!(again.as_deref(), Some("max-sched-jobs-user-limit.2"));
    }

    #[test]
    fn an_eventlog_restores_names() {
        let mut names = HoldNames::default();
        for (text, is_added) in [
            ("max-resources-user-limit", true),
            ("max-running-jobs-user-limit", true),
            ("max-running-jobs-user-limit", false),
            ("max-running-jobs-user-limit.2", true),
            ("max-sched-jobs-user-limit", true),
            ("max-sched-jobs-user-limit", false),
            ("max-sched-jobs-user-limit", true),
        ] {
            names.replay(RULES.parse(text).unwrap(), is_added);
        }
        let outstanding: Vec<String> = names.iter(RULES).map(|n| n.to_string()).collect();
        assert_eq!(outstanding, ["max-running-jobs-user-limit.2", "max-resources-user-limit"]);
        let running = hold("max-running-jobs-user-limit");
        assert_eq!(names.remove(running).unwrap().use_count, 2);
        assert_eq!(names.add(running).unwrap().use_count, 3);
        assert!(names.remove(running).is_some());
        names.restore(HoldName { hold: running, use_count: 2 });
        assert_eq!(names.current_name(running), None, "a name with an older use count does not hold the job");
        names.restore(HoldName { hold: running, use_count: 3 });
        assert_eq!(names.current_name(running).unwrap().use_count, 3);
    }

    #[test]
    fn a_limit_without_unused_dependency_names_adds_a_name_of_another_limit() {
        let sched = hold("max-sched-jobs-user-limit");
        let mut names = HoldNames::default();
        let last = HoldName { hold: sched, use_count: u32::MAX };
        names.replay(last, true);
        names.replay(last, false);
        let added = names.add_all(RULES, HoldSet::from_iter([sched]));
        assert_eq!(added.len(), 1);
        assert_ne!(added[0].hold, sched);
        assert!(!names.outstanding().is_empty());
        assert_eq!(names.add_all(RULES, HoldSet::from_iter([sched])), [], "the job is already held");
        assert_eq!(
            HoldNames::default().add_all(RULES, HoldSet::NONE),
            [],
            "a job that exceeds no limit gets no name"
        );
    }

    #[test]
    fn dependency_names_added_after_a_reload_have_never_been_used_before() {
        let second = RULES.parse("max-sched-jobs-user-limit.2").unwrap();
        let mut names = HoldNames::from_outstanding(RULES, [second], 1_700_000_000.0);
        assert_eq!(names.iter(RULES).collect::<Vec<_>>(), [second]);
        assert!(names.was_job_ever_held());
        let all = RULES.select_limits(|_| true);
        let add_new_names = |names: &mut HoldNames| {
            names.add_all(RULES, all).iter().map(|name| name.use_count).collect::<Vec<_>>()
        };
        assert_eq!(add_new_names(&mut names), [1_700_000_001; 7]);
        // The plugin is loaded again, and the job has no dependencies of ours. The new names have numbers above the
        // time of the load.
        let mut later = HoldNames::from_outstanding(RULES, [], 1_700_000_002.0);
        assert_eq!(add_new_names(&mut later), [1_700_000_003; 8]);
    }
}
