// SPDX-License-Identifier: LGPL-3.0-only
//! The usage per second of a job.

use serde::{Deserialize, Serialize};

/// Usage per second of a node, a core and a GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// Usage of a node-second.
    pub node: f64,
    /// Usage of a core-second.
    pub core: f64,
    /// Usage of a GPU-second.
    pub gpu: f64,
}

/// Resources that a job ran on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Number of nodes.
    pub nodes: u64,
    /// Cores, over all nodes.
    pub cores: u64,
    /// GPUs, over all nodes.
    pub gpus: u64,
}

impl Default for Weights {
    fn default() -> Self {
        Weights { node: 1.0, core: 0.0, gpu: 0.0 }
    }
}

impl Weights {
    /// Returns the usage per second of a job that ran on the resources `ran_on`.
    pub fn rate(self, ran_on: Resources) -> f64 {
        ran_on.nodes as f64 * self.node + ran_on.cores as f64 * self.core + ran_on.gpus as f64 * self.gpu
    }

    /// Returns the usage per second of a job that is charged for its dominant resource. The weighted fraction of a
    /// resource is the job's number of it, times the weight, divided by the number in `totals`. The usage is the
    /// largest weighted fraction, times the nodes of the site. Resources that the site lacks are left out.
    pub fn compute_dominant_usage_rate(self, ran_on: Resources, totals: Resources) -> f64 {
        let part = |count: u64, weight: f64, total: u64| {
            if total == 0 { 0.0 } else { count as f64 * weight / total as f64 }
        };
        let nodes = part(ran_on.nodes, self.node, totals.nodes);
        let cores = part(ran_on.cores, self.core, totals.cores);
        let gpus = part(ran_on.gpus, self.gpu, totals.gpus);
        nodes.max(cores).max(gpus) * totals.nodes as f64
    }
}
