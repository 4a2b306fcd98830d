// SPDX-License-Identifier: LGPL-3.0-only
//! The limits of a queue's record on each job: the minimum and maximum number of nodes, and the maximum time
//! limit. The texts are the same as for Flux's own policy limits.

use crate::accounts::Queue;
use crate::ids::Limit;
use crate::limits::Size;

const MINUTE: f64 = 60.0;

/// Returns the text that rejects a job of `size` in `queue` for its number of nodes.
pub fn node_count_rejection(queue: &Queue, size: Size) -> Option<String> {
    let Queue { name, min_nodes_per_job: least, max_nodes_per_job: most, .. } = queue;
    let nodes = i64::try_from(size.nodes).unwrap_or(i64::MAX);
    if !Limit(*most).is_unlimited() && nodes > *most {
        return Some(format!("requested nnodes ({nodes}) exceeds policy limit of {most} for queue {name}"));
    }
    (nodes < *least)
        .then(|| format!("requested nnodes ({nodes}) is under policy limit of {least} for queue {name}"))
}

/// Returns the text that rejects a job of `size` in `queue` for its time limit.
pub fn time_limit_rejection(queue: &Queue, size: Size) -> Option<String> {
    let Queue { name, max_time_per_job, .. } = queue;
    if *max_time_per_job <= 0 || Limit(*max_time_per_job).is_unlimited() {
        return None;
    }
    let longest = *max_time_per_job as f64 * MINUTE;
    let (requested, limit) = if size.has_time_limit() {
        let seconds = size.time_limit_ms as f64 / 1000.0;
        if seconds <= longest {
            return None;
        }
        match (show_duration(seconds), show_duration(longest)) {
            (requested, limit) if requested == limit => (format!("{seconds}s"), format!("{longest}s")),
            shown => shown,
        }
    } else {
        ("unlimited".to_owned(), show_duration(longest))
    };
    Some(format!("requested duration ({requested}) exceeds policy limit of {limit} for queue {name}"))
}

/// Returns a duration of at least a second with two significant digits, as in the texts of Flux.
fn show_duration(seconds: f64) -> String {
    let units = [(86_400.0, "d"), (3600.0, "h"), (MINUTE, "m")];
    let (length, unit) = units.into_iter().find(|(length, _)| seconds >= *length).unwrap_or((1.0, "s"));
    let tenths = (seconds / length * 10.0).round();
    let number = if tenths < 100.0 { tenths / 10.0 } else { (seconds / length).round() };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_too_large_for_its_queue_is_rejected_with_fluxs_message() {
        let queue = Queue {
            name: "batch".into(),
            min_nodes_per_job: 2,
            max_nodes_per_job: 8,
            max_time_per_job: 60,
            ..Queue::default()
        };
        for (nodes, seconds, text) in [
            (8, 3600.0, None),
            (9, 60.0, Some("requested nnodes (9) exceeds policy limit of 8 for queue batch")),
            (1, 60.0, Some("requested nnodes (1) is under policy limit of 2 for queue batch")),
            (2, 5400.0, Some("requested duration (1.5h) exceeds policy limit of 1h for queue batch")),
            (2, 3600.5, Some("requested duration (3600.5s) exceeds policy limit of 3600s for queue batch")),
            (2, 864_000.0, Some("requested duration (10d) exceeds policy limit of 1h for queue batch")),
            (2, 0.0, Some("requested duration (unlimited) exceeds policy limit of 1h for queue batch")),
        ] {
            let size = Size::new(nodes, nodes, 0).with_time_limit(seconds);
            let rejection = node_count_rejection(&queue, size).or_else(|| time_limit_rejection(&queue, size));
            assert_eq!(rejection.as_deref(), text);
        }
        let unlimited = 2_147_483_647;
        let open = Queue {
            min_nodes_per_job: 0,
            max_nodes_per_job: unlimited,
            max_time_per_job: unlimited,
            ..queue
        };
        let largest = Size::new(Size::MOST, 1, 0);
        assert_eq!(node_count_rejection(&open, largest), None);
        assert_eq!(time_limit_rejection(&open, largest), None);
        assert_eq!(time_limit_rejection(&Queue { max_time_per_job: 0, ..open }, largest), None);
    }
}
