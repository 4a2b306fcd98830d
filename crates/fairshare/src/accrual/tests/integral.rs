// SPDX-License-Identifier: LGPL-3.0-only
//! Computes decayed usage numerically. Tests of the engine include this file too.

/// Integrates 2^-((now - s)/h) over s in [a, b] by Gauss-Legendre quadrature on short panels, without
/// subtracting powers of two.
pub fn integral(a: f64, b: f64, now: f64, half_life: Option<f64>) -> f64 {
    if b <= a {
        return 0.0;
    }
    let Some(half_life) = half_life else { return b - a };
    const POINTS: [(f64, f64); 5] = [
        (0.0, 0.568_888_888_888_888_9),
        (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (-0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
        (0.906_179_845_938_664, 0.236_926_885_056_189_08),
        (-0.906_179_845_938_664, 0.236_926_885_056_189_08),
    ];
    // Integrates over ages instead of times, because a present-day time has only seven digits after the decimal
    // point. Usage more than 80 half-lives before the end is negligible.
    let (since, length) = (now - b, (b - a).min(80.0 * half_life));
    let panels = (length / half_life * 8.0).ceil().max(1.0) as usize;
    let width = length / panels as f64;
    let panel = |at: usize| {
        let middle = since + (at as f64 + 0.5) * width;
        let point = |&(x, weight): &(f64, f64)| weight * 2f64.powf(-(middle + x * width / 2.0) / half_life);
        POINTS.iter().map(point).sum::<f64>() * width / 2.0
    };
    (0..panels).map(panel).sum()
}
