// SPDX-License-Identifier: LGPL-3.0-only
//! The nodes, cores and GPUs that a jobspec requests, and the time limit: RFC 25 shapes and other RFC 14 resources.

use crate::ids::{Amount, Measure};
use fairshare::charging::budget_charge;

/// A charge factor of a queue, stored as the bits of a number that is not negative. The bits sort like the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChargeFactor(u64);

impl ChargeFactor {
    /// The charge factor of a queue for which none is set.
    pub const ONE: ChargeFactor = ChargeFactor::new(1.0);

    /// Returns a factor, which must not be negative.
    pub const fn new(factor: f64) -> ChargeFactor {
        ChargeFactor(factor.to_bits())
    }
}

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
    /// The charge factor of the job's queue, for budgets. It is [`ChargeFactor::ONE`] if there are no budgets.
    pub charge_factor: ChargeFactor,
}

impl Size {
    /// The size of a running job whose jobspec cannot be measured.
    pub const ONE: Size = Size::new(1, 1, 0);

    /// The most that a job may request of each measure. With this limit, no sum over jobs overflows 64 bits. So a counter is exact: each job
    /// subtracts the amount that it has added.
    pub const MOST: u64 = 1 << 40;

    /// The largest amount of one job in any measure of time, such as node-time, in milliseconds. A job without a time
    /// limit has this time limit.
    pub const MOST_TIME: u64 = 1 << 50;

    /// Returns the size of a job without a time limit.
    pub const fn new(nodes: u64, cores: u64, gpus: u64) -> Size {
        Size { nodes, cores, gpus, time_limit_ms: Size::MOST_TIME, charge_factor: ChargeFactor::ONE }
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
    pub fn take_least_measures(self, other: Size) -> Size {
        Size {
            nodes: self.nodes.min(other.nodes),
            cores: self.cores.min(other.cores),
            gpus: self.gpus.min(other.gpus),
            time_limit_ms: self.time_limit_ms.min(other.time_limit_ms),
            charge_factor: self.charge_factor.min(other.charge_factor),
        }
    }

    /// Returns true if the size equals `least` in at least one field. `least` has the minimum of each field over a
    /// set of jobs. If this function returns true for a job that leaves the set, the minimums must be computed again.
    pub fn has_least_amount_of_a_resource(self, least: Size) -> bool {
        self.nodes == least.nodes
            || self.cores == least.cores
            || self.gpus == least.gpus
            || self.time_limit_ms == least.time_limit_ms
            || self.charge_factor == least.charge_factor
    }

    /// Returns true if the job has a time limit.
    pub fn has_time_limit(self) -> bool {
        self.time_limit_ms < Size::MOST_TIME
    }

    /// Returns the amount that a job of this size adds to a counter of `amount`. For a budget, this is the charge for the whole time limit.
    pub fn amount(self, amount: Amount) -> u64 {
        match amount.is_budget() {
            true => self.charge(amount.measure, self.time_limit_ms).min(Size::MOST_TIME),
            false => self.measure(amount.measure),
        }
    }

    /// Returns the amount of `measure` that the job requests. The charge factor is not applied.
    pub fn measure(self, measure: Measure) -> u64 {
        match measure {
            Measure::Jobs => 1,
            Measure::Time => self.time_limit_ms,
            _ if measure.is_time() => {
                self.count(measure).saturating_mul(self.time_limit_ms).min(Size::MOST_TIME)
            }
            _ => self.count(measure),
        }
    }

    /// Returns the charge to a budget for a job of this size that runs for `milliseconds`. The budget is in units of
    /// `measure`.
    pub fn charge(self, measure: Measure, milliseconds: u64) -> u64 {
        budget_charge(self.count(measure), milliseconds, f64::from_bits(self.charge_factor.0))
    }

    /// Returns the number of nodes, cores or GPUs that `measure` counts.
    fn count(self, measure: Measure) -> u64 {
        match measure {
            Measure::Nodes | Measure::NodeTime => self.nodes,
            Measure::Cores | Measure::CoreTime => self.cores,
            Measure::Gpus | Measure::GpuTime => self.gpus,
            Measure::Jobs | Measure::Time => 0,
        }
    }
}

/// The kinds of resource in a jobspec.
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
    /// A resource of a different kind, such as a rack. Its count multiplies the counts of the resources below it.
    Other,
}

/// One resource vertex in depth-first order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vertex {
    /// The depth in the jobspec's tree of resources. The top level has depth 0.
    pub depth: usize,
    /// The kind of resource.
    pub kind: Kind,
    /// The number of resources of this kind in each parent resource; at least 1.
    pub count: u64,
}

/// Measures resources: multiplies the counts along each path, and sums the products over all branches. A job that names no node counts as
/// one node. Cores and GPUs outside of task slots are not counted, as in Flux.
pub fn measure(vertices: &[Vertex]) -> Result<Size, String> {
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
        let product = above.checked_mul(vertex.count).ok_or_else(describe_excess)?;
        match vertex.kind {
            Kind::Node => {
                if let Some((_, leaf)) = node.and_then(|index| nodes.get_mut(index)) {
                    *leaf = false;
                }
                node = Some(nodes.len());
                nodes.push((product, true));
            }
            Kind::Slot => (in_slot, slots) = (true, true),
            Kind::Core if in_slot => cores = cores.checked_add(product).ok_or_else(describe_excess)?,
            Kind::Gpu if in_slot => gpus = gpus.checked_add(product).ok_or_else(describe_excess)?,
            Kind::Core | Kind::Gpu | Kind::Other => {}
        }
        path.push(Level { product, in_slot, node });
    }
    if !slots {
        return Err("resources have no slot".to_owned());
    }
    if cores == 0 {
        return Err("resources have no core in a slot".to_owned());
    }
    let mut count = 0u64;
    for (product, _) in nodes.iter().filter(|(_, leaf)| *leaf) {
        count = count.checked_add(*product).ok_or_else(describe_excess)?;
    }
    let size = Size::new(count.max(1), cores, gpus);
    if [size.nodes, size.cores, size.gpus].into_iter().any(|amount| amount > Size::MOST) {
        return Err(describe_excess());
    }
    Ok(size)
}

fn describe_excess() -> String {
    format!("resources exceed {} nodes, cores or GPUs", Size::MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Kind::{Core, Gpu, Node, Other, Slot};

    const NO_SLOT: &str = "resources have no slot";
    const NO_CORE: &str = "resources have no core in a slot";
    const TOO_LARGE: &str = "resources exceed 1099511627776 nodes, cores or GPUs";

    fn measure_tree(vertices: &[(usize, Kind, u64)]) -> Result<(u64, u64), String> {
        let vertices: Vec<Vertex> = vertices
            .iter()
            .map(|(depth, kind, count)| Vertex { depth: *depth, kind: *kind, count: *count })
            .collect();
        measure(&vertices).map(|size| (size.nodes, size.cores))
    }

    #[test]
    fn job_sizes_are_summed_over_branches_and_multiplied_along_resource_paths() {
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
            (&[(0, Core, 4)], Err(NO_SLOT)),
            (&[(0, Node, 4)], Err(NO_SLOT)),
            (&[(0, Slot, 4), (1, Other, 1)], Err(NO_CORE)),
            (&[], Err(NO_SLOT)),
            // Cores outside of the slot are not counted.
            (&[(0, Slot, 2), (1, Core, 3), (0, Core, 5)], Ok((1, 6))),
            (&[(0, Slot, 2), (1, Other, 1), (0, Core, 5)], Err(NO_CORE)),
            (&[(0, Slot, u64::MAX), (1, Core, 2)], Err(TOO_LARGE)),
            (&[(0, Slot, Size::MOST), (1, Core, 1)], Ok((1, Size::MOST))),
            (&[(0, Slot, Size::MOST), (1, Core, 2)], Err(TOO_LARGE)),
            (&[(0, Node, Size::MOST + 1), (1, Slot, 1), (2, Core, 1)], Err(TOO_LARGE)),
            (&[(0, Slot, 1), (1, Core, u64::MAX), (1, Core, 1)], Err(TOO_LARGE)),
        ] {
            assert_eq!(measure_tree(vertices), size.map_err(str::to_owned), "{vertices:?}");
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
            (&[(0, Slot, 2), (1, Core, 1), (1, Gpu, u64::MAX)], Err(TOO_LARGE)),
            (&[(0, Slot, 1), (1, Core, 1), (1, Gpu, u64::MAX), (1, Gpu, 1)], Err(TOO_LARGE)),
            (&[(0, Slot, 2), (1, Gpu, 1)], Err(NO_CORE)),
        ] {
            assert_eq!(count_gpus(vertices), count.map_err(str::to_owned), "{vertices:?}");
        }
    }

    #[test]
    fn node_time_and_core_time_are_products_of_size_and_time_limit() {
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
            let amounts = [Measure::NodeTime, Measure::CoreTime, Measure::GpuTime].map(|it| size.measure(it));
            assert_eq!(amounts, [node_time, core_time, 0], "{seconds}");
        }
    }
}
