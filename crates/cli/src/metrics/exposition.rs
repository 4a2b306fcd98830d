// SPDX-License-Identifier: LGPL-3.0-only
//! The text that OpenMetrics defines (version 1.0.0), of gauges and counters only: those are what node_exporter's textfile
//! collector reads too, which takes the older Prometheus text.

use std::fmt::Write as _;

/// What becomes of a metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It goes up and down.
    Gauge,
    /// It goes up, but for a restart. Its samples are named `_total`.
    Counter,
}

/// Samples of one name.
#[derive(Clone, Debug)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) samples: Vec<Sample>,
}

/// A value, and of what.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sample {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: f64,
}

/// Units that a metric's name may end in.
const UNITS: [&str; 3] = ["weighted_seconds", "seconds", "ratio"];

impl Family {
    /// A family without samples yet.
    pub(crate) fn new(name: &'static str, kind: Kind, help: &'static str) -> Family {
        Family { name, kind, help, samples: Vec::new() }
    }

    /// The family of one value, if there is one.
    pub(crate) fn of(name: &'static str, kind: Kind, help: &'static str, value: Option<f64>) -> Family {
        let mut family = Family::new(name, kind, help);
        family.samples.extend(value.map(|value| Sample { labels: Vec::new(), value }));
        family
    }

    /// Adds a value under these labels.
    pub(crate) fn add(&mut self, labels: &[(&'static str, &str)], value: f64) {
        let labels = labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
        self.samples.push(Sample { labels, value });
    }
}

/// The text of all families that have a sample.
pub(crate) fn text(families: &[Family]) -> String {
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
    let _ = writeln!(out, "# TYPE {name} {kind}");
    if let Some(unit) = UNITS.iter().find(|unit| name.ends_with(&format!("_{unit}"))) {
        let _ = writeln!(out, "# UNIT {name} {unit}");
    }
    let _ = writeln!(out, "# HELP {name} {}", escaped(help));
    for sample in samples {
        out.push_str(name);
        out.push_str(suffix);
        let mut mark = '{';
        for (label, value) in &sample.labels {
            let _ = write!(out, "{mark}{label}=\"{}\"", escaped(value));
            mark = ',';
        }
        if !sample.labels.is_empty() {
            out.push('}');
        }
        let _ = writeln!(out, " {}", number(sample.value));
    }
}

/// A text within quotes or at the end of a line: what would end either is escaped.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
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
    fn families_samples_and_the_end() {
        let mut jobs = Family::new("x_jobs", Kind::Gauge, "Jobs");
        jobs.add(&[("bank", "a\"b\\c\nd"), ("queue", "")], 2.0);
        jobs.add(&[("bank", "e"), ("queue", "f")], f64::INFINITY);
        let push = Family::of("x_push_seconds", Kind::Gauge, "How \"long\"", Some(0.25));
        let ended = Family::of("x_ended", Kind::Counter, "Ended jobs", Some(1e21));
        let nothing = Family::of("x_nothing", Kind::Gauge, "Nothing", None);
        let expected = "\
# TYPE x_jobs gauge
# HELP x_jobs Jobs
x_jobs{bank=\"a\\\"b\\\\c\\nd\",queue=\"\"} 2
x_jobs{bank=\"e\",queue=\"f\"} +Inf
# TYPE x_push_seconds gauge
# UNIT x_push_seconds seconds
# HELP x_push_seconds How \\\"long\\\"
x_push_seconds 0.25
# TYPE x_ended counter
# HELP x_ended Ended jobs
x_ended_total 1000000000000000000000
# EOF
";
        assert_eq!(text(&[jobs, push, ended, nothing]), expected);
    }
}
