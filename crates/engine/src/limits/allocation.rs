// SPDX-License-Identifier: LGPL-3.0-only
//! The resources that a job got, as its R (RFC 20) states. Most limits count the resources that a job requested instead.

use super::size::Size;

/// The resources that a job got, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    /// Nodes.
    pub nodes: u64,
    /// Cores over all nodes.
    pub cores: u64,
    /// GPUs over all nodes.
    pub gpus: u64,
    /// The start in seconds since the epoch; `None` if R does not state it.
    pub start: Option<f64>,
    /// The time when the job ends at the latest; `None` if it may run indefinitely.
    pub expiration: Option<f64>,
}

impl Allocation {
    /// Returns the size that the job counts as.
    pub fn size(&self) -> Size {
        Size::new(self.nodes, self.cores, self.gpus)
    }
}

/// The R of a job.
#[derive(Clone, Debug, PartialEq)]
pub enum Resources {
    /// The job has no R.
    None,
    /// The R cannot be read, for this reason.
    Unreadable(String),
    /// The R states these resources.
    Allocated(Allocation),
}

impl Resources {
    /// Returns true if the job has an R.
    pub fn are_there(&self) -> bool {
        *self != Resources::None
    }

    /// Returns the resources, if they can be read.
    pub fn allocation(&self) -> Option<Allocation> {
        match self {
            Resources::Allocated(allocation) => Some(*allocation),
            Resources::None | Resources::Unreadable(_) => None,
        }
    }
}
