// SPDX-License-Identifier: LGPL-3.0-only
//! Writes metrics in the text format of OpenMetrics 1.0.0. node_exporter's textfile collector reads the older
//! Prometheus format. Therefore only gauges and counters are used, which look the same in both formats.

use std::fmt::Write as _;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The value goes up and down.
    Gauge,
    /// The value only goes up, except at a restart. The names of its samples end in `_total`.
    Counter,
}

/// A metric with its samples.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<Sample>,
}

/// A value and its labels.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: f64,
}

/// The beginning of the names of all metrics.
const PREFIX: &str = "flux_fairshare_";
/// Units that a metric's name may end in.
const UNITS: [&str; 4] = ["weighted_seconds", "seconds", "ratio", "hours"];

impl Family {
    /// Returns a metric family without samples.
    pub(crate) fn new(name: &'static str, kind: Kind, help: &'static str) -> Family {
        Family { name, kind, help, samples: Vec::new() }
    }

    /// Returns a family with one sample without labels, or without samples if `value` is `None`.
    pub(crate) fn single(name: &'static str, kind: Kind, help: &'static str, value: Option<f64>) -> Family {
        let mut family = Family::new(name, kind, help);
        family.samples.extend(value.map(|value| Sample { labels: Vec::new(), value }));
        family
    }

    /// Adds a sample.
    pub(crate) fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { labels, value });
    }
}

/// Returns the text of all families that have samples.
pub(crate) fn format_families(families: &[Family]) -> String {
    let mut out = String::new();
    for family in families.iter().filter(|family| !family.samples.is_empty()) {
        write_family(family, &mut out);
    }
    out.push_str("# EOF\n");
    out
}

fn write_family(family: &Family, out: &mut String) {
    let Family { name, kind, help, samples } = family;
    let (kind, suffix) = match kind {
        Kind::Gauge => ("gauge", ""),
        Kind::Counter => ("counter", "_total"),
    };
    let name = format!("{PREFIX}{name}");
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if let Some(unit) = UNITS.iter().find(|unit| name.ends_with(&format!("_{unit}"))) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {}", escape_text(help));
    for sample in samples {
        out.push_str(&name);
        out.push_str(suffix);
        let mut mark = '{';
        for (label, value) in &sample.labels {
            let _ = write!(out, "{mark}{label}=\"{}\"", escape_text(value));
            mark = ',';
        }
        if !sample.labels.is_empty() {
            out.push('}');
        }
        let _ = writeln!(out, " {}", format_number(sample.value));
    }
}

/// Escapes backslashes, quotes and line feeds in a label value or a help text.
fn escape_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn format_number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_text_contains_families_with_samples_and_ends_with_eof() {
        let mut jobs = Family::new("x_jobs", Kind::Gauge, "Jobs");
        jobs.add(&[("bank", "a\"b\\c\nd"), ("queue", "")], 2.0);
        jobs.add(&[("bank", "e"), ("queue", "f")], f64::INFINITY);
        let push = Family::single("x_push_seconds", Kind::Gauge, "How \"long\"", Some(0.25));
        let ended = Family::single("x_ended", Kind::Counter, "Ended jobs", Some(1e21));
        let nothing = Family::single("x_nothing", Kind::Gauge, "Nothing", None);
        let expected = "\
# TYPE flux_fairshare_x_jobs gauge
# HELP flux_fairshare_x_jobs Jobs
flux_fairshare_x_jobs{bank=\"a\\\"b\\\\c\\nd\",queue=\"\"} 2
flux_fairshare_x_jobs{bank=\"e\",queue=\"f\"} +Inf
# TYPE flux_fairshare_x_push_seconds gauge
# UNIT flux_fairshare_x_push_seconds seconds
# HELP flux_fairshare_x_push_seconds How \\\"long\\\"
flux_fairshare_x_push_seconds 0.25
# TYPE flux_fairshare_x_ended counter
# HELP flux_fairshare_x_ended Ended jobs
flux_fairshare_x_ended_total 1000000000000000000000
# EOF
";
        assert_eq!(format_families(&[jobs, push, ended, nothing]), expected);
    }
}
