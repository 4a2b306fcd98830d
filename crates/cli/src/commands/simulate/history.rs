// SPDX-License-Identifier: LGPL-3.0-only
//! The job history that a simulation replays.

use fairshare_simulate::{Party, Trace};

/// Longest run time of a job, in seconds: ten years. While a job runs and another one is pending, each refresh sorts the pending
/// jobs: ten years at a refresh of 30 s take 11 s to replay, and 1e11 s would take an hour.
pub(super) const LONGEST_RUN: f64 = 10.0 * 365.25 * 86_400.0;

/// Options for the sizes of jobs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) cores_per_node: u32,
    pub(super) whole_nodes: bool,
}

impl Size {
    /// Returns nodes, cores and GPUs of a job that asks for `cores` cores.
    pub(super) fn fill_size(self, cores: u32) -> [u32; 3] {
        self.round_to_nodes(cores.div_ceil(self.cores_per_node.max(1)), cores, 0)
    }

    pub(super) fn round_to_nodes(self, nodes: u32, cores: u32, gpus: u32) -> [u32; 3] {
        let cores =
            if self.whole_nodes { nodes.saturating_mul(self.cores_per_node).max(cores) } else { cores };
        [nodes, cores, gpus]
    }
}

/// A job history.
#[derive(Debug, Default)]
pub(super) struct History {
    pub(super) trace: Trace,
    /// Nodes of the cluster, if the history states them.
    pub(super) nodes: Option<u64>,
    pub(super) cores: Option<u64>,
    /// Jobs without a run time or a size.
    pub(super) skipped: usize,
    /// Number of jobs with a recorded wait, and the sum of these waits in seconds.
    pub(super) waits: (u64, f64),
}

impl History {
    pub(super) fn push(
        &mut self,
        party: Party,
        submit: f64,
        wait: Option<f64>,
        times: (f64, f64),
        size: [u32; 3],
    ) {
        if let Some(wait) = wait {
            self.waits.0 += 1;
            self.waits.1 += wait;
        }
        self.trace.push(party, submit, times, size);
    }
}
