// SPDX-License-Identifier: LGPL-3.0-only
//! Options of the ranking policies, and their textual form `name=value`.

use super::Policy;
use super::tree::MAX_USAGE;
use strum::{EnumString, IntoStaticStr};

/// How tied siblings are ranked (only `fair-tree` has a choice).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum Ties {
    /// As in Slurm's documentation: tied banks are merged, and their children are visited together.
    #[default]
    Documented,
    /// As in Slurm's program: tied banks are visited one after the other in list order. The first child of
    /// the second bank shares the rank of the last user that was ranked before it.
    SlurmProgram,
}

/// Whether sums include the usage of an inactive association.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case")]
pub enum InactiveUsage {
    /// The shares and usage of an inactive association stay in every sum. The association only gets no rank.
    #[default]
    Count,
    /// All sums exclude the shares and the usage of an inactive association, as in flux-accounting.
    Ignore,
}

/// Options of a site. Each ranking policy ignores the options that it does not use, see [`Options::applies`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Options {
    /// `ties=documented|slurm-program`
    pub ties: Ties,
    /// `pbs.min_usage=NUMBER`: the usage that every node starts with under `pbs`. OpenPBS's program uses 1,
    /// and its published formula uses 0.
    pub pbs_min_usage: f64,
    /// `dampening=NUMBER` (> 0): divides the exponent (`classic`, `depth-oblivious`).
    pub dampening: f64,
    /// `inactive_usage=count|ignore`
    pub inactive_usage: InactiveUsage,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            ties: Ties::Documented,
            pbs_min_usage: 1.0,
            dampening: 1.0,
            inactive_usage: InactiveUsage::Count,
        }
    }
}

/// Name of each option, and the values that it takes.
const ALLOWED: [(&str, &str); 4] = [
    ("ties", "documented or slurm-program"),
    ("pbs.min_usage", "a number from 0 to 1e298"),
    ("dampening", "a number > 0"),
    ("inactive_usage", "count or ignore"),
];

impl Options {
    /// Applies one setting `name=value`. After an error the options are unchanged.
    pub fn set(&mut self, setting: &str) -> Result<(), String> {
        let Some((name, value)) = setting.split_once('=') else {
            return Err(format!("\"{setting}\" is not of the form name=value"));
        };
        let (name, value) = (name.trim(), value.trim());
        let Some(&(name, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            let known = ALLOWED.map(|(known, _)| known).join(", ");
            return Err(format!("unknown option \"{name}\"; known are {known}"));
        };
        let value_error = || format!("{name} is \"{value}\", expected {allowed}");
        let parse_number = || value.parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0);
        match name {
            "ties" => self.ties = value.parse().map_err(|_| value_error())?,
            "pbs.min_usage" => {
                self.pbs_min_usage =
                    parse_number().filter(|number| *number <= MAX_USAGE).ok_or_else(value_error)?;
            }
            "dampening" => {
                self.dampening = parse_number().filter(|number| *number > 0.0).ok_or_else(value_error)?
            }
            _ => self.inactive_usage = value.parse().map_err(|_| value_error())?,
        }
        Ok(())
    }

    /// Returns true if the ranking policy uses the option `name`. An option that no policy lists applies to all policies.
    pub fn applies(name: &str, policy: Policy) -> bool {
        let uses = |policy: Policy| policy.options().contains(&name);
        uses(policy) || !Policy::ALL.into_iter().any(uses)
    }

    /// Returns options for a tree whose usages were multiplied by `factor`: multiplies `pbs_min_usage` by `factor`.
    pub fn scaled(self, factor: f64) -> Options {
        Options { pbs_min_usage: self.pbs_min_usage * factor, ..self }
    }

    /// Returns every option as (name, value), in the form that [`Options::set`] reads.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        let (ties, inactive): (&str, &str) = (self.ties.into(), self.inactive_usage.into());
        [
            ("ties", ties.to_owned()),
            ("pbs.min_usage", self.pbs_min_usage.to_string()),
            ("dampening", self.dampening.to_string()),
            ("inactive_usage", inactive.to_owned()),
        ]
    }
}
