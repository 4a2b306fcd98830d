// SPDX-License-Identifier: LGPL-3.0-only
//! What a job was given, exactly, as its R says (RFC 20). Most limits count what was asked for; this is kept beside it.

use super::size::Size;

/// The resources of a job, and for when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Allocation {
    /// Nodes.
    pub nodes: u64,
    /// Cores over all nodes.
    pub cores: u64,
    /// GPUs over all nodes.
    pub gpus: u64,
    /// When it began, in seconds since the epoch. `None`: R does not say.
    pub start: Option<f64>,
    /// When it ends at the latest. `None`: never.
    pub expiration: Option<f64>,
}

impl Allocation {
    /// What it counts as.
    pub fn size(&self) -> Size {
        Size { nodes: self.nodes, cores: self.cores, gpus: self.gpus }
    }
}

/// What is known of a job's R.
#[derive(Clone, Debug, PartialEq)]
pub enum Resources {
    /// It has none.
    None,
    /// It has one that can't be read, with what is wrong.
    Unreadable(String),
    /// It says this.
    Allocated(Allocation),
}

impl Resources {
    /// Whether it has any.
    pub fn are_there(&self) -> bool {
        *self != Resources::None
    }

    /// What they are, where that is known.
    pub fn allocation(&self) -> Option<Allocation> {
        match self {
            Resources::Allocated(allocation) => Some(*allocation),
            Resources::None | Resources::Unreadable(_) => None,
        }
    }
}
