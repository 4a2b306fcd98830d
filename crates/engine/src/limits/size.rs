// SPDX-License-Identifier: LGPL-3.0-only
//! The nodes, cores and GPUs that a jobspec requests, and the time limit: RFC 25 shapes and other RFC 14 resources.

use crate::ids::Measure;
use std::fmt;

/// The resources that a job requests: at least 1 node and 1 core, and at most [`Size::MOST`] of each measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size {
    /// The number of nodes.
    pub nodes: u64,
    /// The number of cores on all nodes together.
    pub cores: u64,
    /// The number of GPUs on all nodes together.
    pub gpus: u64,
    /// The time limit in milliseconds, rounded up; [`Size::MOST_TIME`] if the job has none.
    pub time_limit_ms: u64,
}

impl Size {
    /// The size of a running job whose jobspec cannot be measured.
    pub const ONE: Size = Size::new(1, 1, 0);

    /// The most that a job may request of each measure. With this limit, no sum over jobs overflows 64 bits. So a counter is exact: each job
    /// subtracts the amount that it has added.
    pub const MOST: u64 = 1 << 40;

    /// The most that a job counts as in a measure of time, and the time limit of a job without one, in milliseconds. So sums over 16,000 such
    /// jobs fit into 64 bits.
    pub const MOST_TIME: u64 = 1 << 50;

    /// Returns the size of a job without a time limit.
    pub const fn new(nodes: u64, cores: u64, gpus: u64) -> Size {
        Size { nodes, cores, gpus, time_limit_ms: Size::MOST_TIME }
    }

    /// Sets the time limit, in seconds; 0 means none.
    #[must_use]
    pub fn with_time_limit(self, seconds: f64) -> Size {
        let is_limited = seconds > 0.0 && seconds.is_finite();
        // A conversion to an integer saturates.
        let milliseconds = if is_limited { (seconds * 1000.0).ceil() as u64 } else { Size::MOST_TIME };
        Size { time_limit_ms: milliseconds.min(Size::MOST_TIME), ..self }
    }

    /// Returns, for each measure, the lesser of the two amounts.
    pub fn least_of_each(self, other: Size) -> Size {
        Size {
            nodes: self.nodes.min(other.nodes),
            cores: self.cores.min(other.cores),
            gpus: self.gpus.min(other.gpus),
            time_limit_ms: self.time_limit_ms.min(other.time_limit_ms),
        }
    }

    /// Returns true if the size equals `least` in at least one measure. If a member with such a size leaves a set whose least size is
    /// `least`, the least size of the set may grow.
    pub fn equals_in_a_measure(self, least: Size) -> bool {
        self.nodes == least.nodes
            || self.cores == least.cores
            || self.gpus == least.gpus
            || self.time_limit_ms == least.time_limit_ms
    }

    /// Returns true if the job has a time limit.
    pub fn has_time_limit(self) -> bool {
        self.time_limit_ms < Size::MOST_TIME
    }

    /// Returns the amount of `measure` that a job of this size counts as.
    pub fn amount(self, measure: Measure) -> u64 {
        match measure {
            Measure::Jobs => 1,
            Measure::Nodes => self.nodes,
            Measure::Cores => self.cores,
            Measure::Gpus => self.gpus,
            Measure::Time => self.time_limit_ms,
            Measure::NodeTime => self.time_of(self.nodes),
            Measure::CoreTime => self.time_of(self.cores),
            Measure::GpuTime => self.time_of(self.gpus),
        }
    }

    /// Returns `count` times the time limit, in milliseconds.
    fn time_of(self, count: u64) -> u64 {
        count.saturating_mul(self.time_limit_ms).min(Size::MOST_TIME)
    }
}

/// The kinds of resource that sizes distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A node.
    Node,
    /// A task slot (RFC 14).
    Slot,
    /// A core.
    Core,
    /// A GPU.
    Gpu,
    /// Any other kind. Its count multiplies the counts of the resources below it.
    Other,
}

/// One resource vertex in depth-first order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// 0 for the members of the top-level array.
    pub depth: usize,
    /// The kind of resource.
    pub kind: Kind,
    /// The number of these resources in each resource of the parent vertex; positive.
    pub count: u64,
}

/// The reason why a jobspec cannot be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SizeError {
    /// The resources have no task slot.
    NoSlot,
    /// The resources have no core below a task slot.
    NoCore,
    /// The job requests more than [`Size::MOST`] of a measure.
    TooLarge,
    /// The jobspec has an invalid form. The text names the key and the fault.
    Malformed(String),
}

impl fmt::Display for SizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeError::NoSlot => f.write_str("resources have no slot"),
            SizeError::NoCore => f.write_str("resources have no core in a slot"),
            SizeError::TooLarge => write!(f, "resources exceed {} of a kind", Size::MOST),
            SizeError::Malformed(what) => f.write_str(what),
        }
    }
}

/// Measures resources: multiplies the counts along each path, and sums the products over all branches. A job that names no node counts as
/// one node. Cores and GPUs outside of task slots are not counted, as in Flux.
pub fn measure(vertices: &[Vertex]) -> Result<Size, SizeError> {
    struct Level {
        product: u64,
        in_slot: bool,
        node: Option<usize>,
    }
    let mut path: Vec<Level> = Vec::new();
    // A node vertex that contains another node vertex is not counted as a node of the job.
    let mut nodes: Vec<(u64, bool)> = Vec::new();
    let (mut cores, mut gpus, mut slots) = (0u64, 0u64, false);
    for vertex in vertices {
        path.truncate(vertex.depth);
        let (above, mut in_slot, mut node) =
            path.last().map_or((1, false, None), |l| (l.product, l.in_slot, l.node));
        let product = above.checked_mul(vertex.count).ok_or(SizeError::TooLarge)?;
        match vertex.kind {
            Kind::Node => {
                if let Some((_, leaf)) = node.and_then(|index| nodes.get_mut(index)) {
                    *leaf = false;
                }
                node = Some(nodes.len());
                nodes.push((product, true));
            }
            Kind::Slot => (in_slot, slots) = (true, true),
            Kind::Core if in_slot => cores = cores.checked_add(product).ok_or(SizeError::TooLarge)?,
            Kind::Gpu if in_slot => gpus = gpus.checked_add(product).ok_or(SizeError::TooLarge)?,
            Kind::Core | Kind::Gpu | Kind::Other => {}
        }
        path.push(Level { product, in_slot, node });
    }
    if !slots {
        return Err(SizeError::NoSlot);
    }
    if cores == 0 {
        return Err(SizeError::NoCore);
    }
    let mut count = 0u64;
    for (product, _) in nodes.iter().filter(|(_, leaf)| *leaf) {
        count = count.checked_add(*product).ok_or(SizeError::TooLarge)?;
    }
    let size = Size::new(count.max(1), cores, gpus);
    if [size.nodes, size.cores, size.gpus].into_iter().any(|amount| amount > Size::MOST) {
        return Err(SizeError::TooLarge);
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Core, Gpu, Node, Other, Slot};

    fn measure_tree(vertices: &[(usize, Kind, u64)]) -> Result<(u64, u64), SizeError> {
        let vertices: Vec<Vertex> = vertices
            .iter()
            .map(|(depth, kind, count)| Vertex { depth: *depth, kind: *kind, count: *count })
            .collect();
        measure(&vertices).map(|size| (size.nodes, size.cores))
    }

    #[test]
    fn sizes_are_products_along_paths_summed_over_branches() {
        for (vertices, size) in [
            (&[(0, Slot, 4), (1, Core, 2)][..], Ok((1, 8))),
            (&[(0, Node, 2), (1, Slot, 3), (2, Core, 4)], Ok((2, 24))),
            (&[(0, Slot, 2), (1, Node, 1), (2, Core, 1)], Ok((2, 2))),
            (&[(0, Slot, 2), (1, Core, 1), (1, Other, 4)], Ok((1, 2))),
            (&[(0, Other, 2), (1, Node, 3), (2, Slot, 1), (3, Core, 5)], Ok((6, 30))),
            (
                &[(0, Node, 2), (1, Slot, 1), (2, Core, 1), (0, Node, 1), (1, Slot, 2), (2, Core, 8)],
                Ok((3, 18)),
            ),
            (&[(0, Node, 2), (1, Node, 3), (2, Slot, 1), (3, Core, 1)], Ok((6, 6))),
            (&[(0, Core, 4)], Err(SizeError::NoSlot)),
            (&[(0, Node, 4)], Err(SizeError::NoSlot)),
            (&[(0, Slot, 4), (1, Other, 1)], Err(SizeError::NoCore)),
            (&[], Err(SizeError::NoSlot)),
            // Cores outside of the slot are not counted.
            (&[(0, Slot, 2), (1, Core, 3), (0, Core, 5)], Ok((1, 6))),
            (&[(0, Slot, 2), (1, Other, 1), (0, Core, 5)], Err(SizeError::NoCore)),
            (&[(0, Slot, u64::MAX), (1, Core, 2)], Err(SizeError::TooLarge)),
            (&[(0, Slot, Size::MOST), (1, Core, 1)], Ok((1, Size::MOST))),
            (&[(0, Slot, Size::MOST), (1, Core, 2)], Err(SizeError::TooLarge)),
            (&[(0, Node, Size::MOST + 1), (1, Slot, 1), (2, Core, 1)], Err(SizeError::TooLarge)),
            (&[(0, Slot, 1), (1, Core, u64::MAX), (1, Core, 1)], Err(SizeError::TooLarge)),
        ] {
            assert_eq!(measure_tree(vertices), size, "{vertices:?}");
        }
    }

    #[test]
    fn gpus_of_a_slot_are_counted_like_its_cores() {
        let count_gpus = |vertices: &[(usize, Kind, u64)]| {
            let vertex = |(depth, kind, count): &(usize, Kind, u64)| Vertex {
                depth: *depth,
                kind: *kind,
                count: *count,
            };
            measure(&vertices.iter().map(vertex).collect::<Vec<_>>()).map(|size| size.gpus)
        };
        for (vertices, count) in [
            (&[(0, Slot, 4), (1, Core, 2)][..], Ok(0)),
            (&[(0, Slot, 4), (1, Core, 2), (1, Gpu, 3)], Ok(12)),
            (&[(0, Node, 2), (1, Slot, 3), (2, Core, 1), (2, Gpu, 4)], Ok(24)),
            (&[(0, Slot, 2), (1, Node, 1), (2, Core, 1), (2, Gpu, 8)], Ok(16)),
            (&[(0, Slot, 1), (1, Core, 1), (1, Other, 2), (2, Gpu, 5)], Ok(10)),
            // GPUs outside of the slot are not counted.
            (&[(0, Slot, 2), (1, Core, 1), (1, Gpu, 1), (0, Gpu, 7)], Ok(2)),
            (&[(0, Slot, 2), (1, Core, 1), (1, Gpu, u64::MAX)], Err(SizeError::TooLarge)),
            (&[(0, Slot, 1), (1, Core, 1), (1, Gpu, u64::MAX), (1, Gpu, 1)], Err(SizeError::TooLarge)),
            (&[(0, Slot, 2), (1, Gpu, 1)], Err(SizeError::NoCore)),
        ] {
            assert_eq!(count_gpus(vertices), count, "{vertices:?}");
        }
    }

    #[test]
    fn measures_of_time_are_products_with_the_time_limit() {
        let size = Size::new(2, 8, 0);
        for (seconds, node_time, core_time) in [
            (3_600.0, 7_200_000, 28_800_000),
            (0.0001, 2, 8),
            (1e300, Size::MOST_TIME, Size::MOST_TIME),
            // No time limit.
            (0.0, Size::MOST_TIME, Size::MOST_TIME),
            (f64::NAN, Size::MOST_TIME, Size::MOST_TIME),
        ] {
            let size = size.with_time_limit(seconds);
            let amounts = [Measure::NodeTime, Measure::CoreTime, Measure::GpuTime].map(|it| size.amount(it));
            assert_eq!(amounts, [node_time, core_time, 0], "{seconds}");
        }
    }

    #[test]
    fn each_error_has_its_text() {
        for (error, text) in [
            (SizeError::NoSlot, "resources have no slot"),
            (SizeError::NoCore, "resources have no core in a slot"),
            (SizeError::TooLarge, "resources exceed 1099511627776 of a kind"),
            (SizeError::Malformed("count is 0".to_owned()), "count is 0"),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
