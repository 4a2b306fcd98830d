// SPDX-License-Identifier: LGPL-3.0-only
//! The eight limits that hold a job, and the dependency names that say so.

use std::fmt;

/// A limit that keeps a job in DEPEND.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hold {
    /// Running jobs of the association in the queue.
    RunJobsQueue,
    /// Scheduled jobs of the association in the queue.
    SchedJobsQueue,
    /// Nodes of its scheduled jobs in the queue.
    SchedNodesQueue,
    /// Cores of its scheduled jobs in the queue.
    SchedCoresQueue,
    /// Nodes of its running and scheduled jobs in the queue.
    ResourcesQueue,
    /// Running jobs of the association.
    RunningJobsUser,
    /// Scheduled jobs of the association.
    SchedJobsUser,
    /// Nodes and cores of its running jobs.
    ResourcesUser,
}

impl Hold {
    /// All, in the order in which names are added and shown.
    pub const ALL: [Hold; 8] = [
        Hold::RunJobsQueue,
        Hold::SchedJobsQueue,
        Hold::SchedNodesQueue,
        Hold::SchedCoresQueue,
        Hold::ResourcesQueue,
        Hold::RunningJobsUser,
        Hold::SchedJobsUser,
        Hold::ResourcesUser,
    ];

    /// The dependency's name.
    pub fn name(self) -> &'static str {
        match self {
            Hold::RunJobsQueue => "max-run-jobs-queue",
            Hold::SchedJobsQueue => "max-sched-jobs-queue-limit",
            Hold::SchedNodesQueue => "max-sched-nodes-queue-limit",
            Hold::SchedCoresQueue => "max-sched-cores-queue-limit",
            Hold::ResourcesQueue => "max-resources-queue",
            Hold::RunningJobsUser => "max-running-jobs-user-limit",
            Hold::SchedJobsUser => "max-sched-jobs-user-limit",
            Hold::ResourcesUser => "max-resources-user-limit",
        }
    }
}

/// A set of [`Hold`]s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct HoldSet(u8);

impl HoldSet {
    /// No limit.
    pub const NONE: HoldSet = HoldSet(0);

    /// Adds `hold`.
    pub fn insert(&mut self, hold: Hold) {
        self.0 |= 1 << hold as u8;
    }

    /// Takes `hold` out.
    pub fn remove(&mut self, hold: Hold) {
        self.0 &= !(1 << hold as u8);
    }

    /// Whether `hold` is in the set.
    pub fn contains(self, hold: Hold) -> bool {
        self.0 & (1 << hold as u8) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// What is in `self` and not in `other`.
    pub fn without(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 & !other.0)
    }

    /// What is in both.
    pub fn and(self, other: HoldSet) -> HoldSet {
        HoldSet(self.0 & other.0)
    }

    /// Members in the order of [`Hold::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Hold> {
        Hold::ALL.into_iter().filter(move |hold| self.contains(*hold))
    }
}

impl FromIterator<Hold> for HoldSet {
    fn from_iter<I: IntoIterator<Item = Hold>>(holds: I) -> Self {
        let mut set = HoldSet::NONE;
        holds.into_iter().for_each(|hold| set.insert(hold));
        set
    }
}

/// A dependency as it stands in the eventlog: a limit's name, `.2`, `.3`, .. from the second use on.
///
/// Flux never honours a name again that was removed from a job once, so each new hold needs a fresh one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Name {
    /// The limit.
    pub hold: Hold,
    /// 1 for the plain name.
    pub use_count: u16,
}

impl Name {
    /// Reads a dependency description; `None` if it is not one of ours.
    pub fn parse(text: &str) -> Option<Name> {
        let plain = Hold::ALL.into_iter().find(|hold| hold.name() == text);
        if let Some(hold) = plain {
            return Some(Name { hold, use_count: 1 });
        }
        let (base, count) = text.rsplit_once('.')?;
        let hold = Hold::ALL.into_iter().find(|hold| hold.name() == base)?;
        let use_count = count.parse().ok().filter(|n| *n >= 2)?;
        Some(Name { hold, use_count })
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.use_count {
            0 | 1 => f.write_str(self.hold.name()),
            n => write!(f, "{}.{n}", self.hold.name()),
        }
    }
}

/// The names one job carries or carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Names {
    outstanding: HoldSet,
    uses: [u16; 8],
}

impl Names {
    /// Limits whose name is outstanding.
    pub fn outstanding(&self) -> HoldSet {
        self.outstanding
    }

    /// Whether this job was ever held by us.
    pub fn were_used(&self) -> bool {
        self.uses.iter().any(|n| *n > 0)
    }

    /// Adds a name for `hold`, a fresh one if it was used before. `None` if one is outstanding already.
    pub fn add(&mut self, hold: Hold) -> Option<Name> {
        let uses = self.uses.get_mut(hold as usize)?;
        if self.outstanding.contains(hold) || *uses == u16::MAX {
            return None;
        }
        *uses += 1;
        self.outstanding.insert(hold);
        Some(Name { hold, use_count: *uses })
    }

    /// Takes the name for `hold` off; `None` if it was not outstanding.
    pub fn remove(&mut self, hold: Hold) -> Option<Name> {
        let name = self.current(hold)?;
        self.outstanding.remove(hold);
        Some(name)
    }

    /// The outstanding name for `hold`.
    pub fn current(&self, hold: Hold) -> Option<Name> {
        let use_count = *self.uses.get(hold as usize)?;
        self.outstanding.contains(hold).then_some(Name { hold, use_count })
    }

    /// Outstanding names in the order of [`Hold::ALL`].
    pub fn iter(&self) -> impl Iterator<Item = Name> {
        self.outstanding.iter().filter_map(|hold| self.current(hold))
    }

    /// Puts back a name that could not be taken off.
    pub fn restore(&mut self, name: Name) {
        if self.uses.get(name.hold as usize) == Some(&name.use_count) {
            self.outstanding.insert(name.hold);
        }
    }

    /// Takes over what an eventlog says happened to `name`. One that was used before and is added again holds nothing.
    pub fn replay(&mut self, name: Name, added: bool) {
        let Some(uses) = self.uses.get_mut(name.hold as usize) else { return };
        let is_fresh = name.use_count > *uses;
        let is_latest = name.use_count >= *uses;
        *uses = (*uses).max(name.use_count);
        match added {
            true if is_fresh => self.outstanding.insert(name.hold),
            false if is_latest => self.outstanding.remove(name.hold),
            _ => {}
        }
    }

    /// All names may be there: what is assumed of a replayed job whose eventlog can't be read.
    pub fn unknown() -> Names {
        let mut names = Names::default();
        for hold in Hold::ALL {
            names.replay(Name { hold, use_count: 1 }, true);
        }
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_what_they_print() {
        for hold in Hold::ALL {
            for use_count in [1, 2, 17, u16::MAX] {
                let name = Name { hold, use_count };
                assert_eq!(Name::parse(&name.to_string()), Some(name));
            }
        }
        for foreign in [
            "",
            "after:1",
            "max-run-jobs-queue.1",
            "max-run-jobs-queue.x",
            "max-run-jobs-queue.",
            "begin-time",
        ] {
            assert_eq!(Name::parse(foreign), None, "{foreign}");
        }
    }

    #[test]
    fn a_name_that_was_removed_comes_back_fresh() {
        let mut names = Names::default();
        assert_eq!(
            names.add(Hold::SchedJobsUser).map(|n| n.to_string()).as_deref(),
            Some("max-sched-jobs-user-limit")
        );
        assert_eq!(names.add(Hold::SchedJobsUser), None);
        assert!(names.remove(Hold::SchedJobsUser).is_some());
        assert_eq!(names.remove(Hold::SchedJobsUser), None);
        let again = names.add(Hold::SchedJobsUser).map(|n| n.to_string());
        assert_eq!(again.as_deref(), Some("max-sched-jobs-user-limit.2"));
    }

    #[test]
    fn an_eventlog_restores_names() {
        let mut names = Names::default();
        for (text, added) in [
            ("max-resources-user-limit", true),
            ("max-running-jobs-user-limit", true),
            ("max-running-jobs-user-limit", false),
            ("max-running-jobs-user-limit.2", true),
            ("max-sched-jobs-user-limit", true),
            ("max-sched-jobs-user-limit", false),
            ("max-sched-jobs-user-limit", true),
        ] {
            names.replay(Name::parse(text).unwrap(), added);
        }
        let shown: Vec<String> = names.iter().map(|n| n.to_string()).collect();
        assert_eq!(shown, ["max-running-jobs-user-limit.2", "max-resources-user-limit"]);
        assert_eq!(names.remove(Hold::RunningJobsUser).unwrap().use_count, 2);
        assert_eq!(names.add(Hold::RunningJobsUser).unwrap().use_count, 3);
    }
}
