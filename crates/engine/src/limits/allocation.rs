// SPDX-License-Identifier: LGPL-3.0-only
//! The resources allocated to a job, from its R (RFC 20). Most limits count the requested resources instead.

use super::size::Size;

/// The resources allocated to a job, with the times in its R.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    /// The number of nodes.
    pub nodes: u64,
    /// The number of cores on all nodes together.
    pub cores: u64,
    /// The number of GPUs on all nodes together.
    pub gpus: u64,
    /// The start in seconds since the epoch; `None` if R does not state it.
    pub start: Option<f64>,
    /// The time at which the job ends at the latest, in seconds since the epoch; `None` if it may run indefinitely.
    pub expiration: Option<f64>,
}

impl Allocation {
    /// Returns the size of the allocated resources.
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
    pub fn are_allocated(&self) -> bool {
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
