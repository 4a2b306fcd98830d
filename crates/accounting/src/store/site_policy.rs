// SPDX-License-Identifier: LGPL-3.0-only
//! Reads and writes the ranking policy of a site. The policy is stored as additional rows of `config_table`.
//! flux-accounting's tools list, edit and keep these rows, and otherwise ignore them.

use super::{Fault, Snapshot, StoreResult};
use fairshare::{Options, Policy};

/// The prefix of all keys that this program adds.
const PREFIX: &str = "fairshare.";
/// The key of the row that contains the name of the policy. All other keys are names of options.
const POLICY: &str = "fairshare.policy";

/// The ranking policy of a site. The default is flux-accounting's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SitePolicy {
    /// The policy.
    pub policy: Policy,
    /// The options of the policy, and options that are stored for other policies.
    pub options: Options,
}

impl Snapshot<'_> {
    /// Reads the ranking policy of the site. Returns an error for an unknown policy or option.
    pub fn site_policy(&self) -> StoreResult<SitePolicy> {
        let mut site = SitePolicy::default();
        if self.table("config_table")?.is_none() {
            return Ok(site);
        }
        let sql = "SELECT key, value FROM config_table WHERE substr(key, 1, 10) = 'fairshare.' ORDER BY key";
        self.visit_rows(sql, "config_table", &["key", "value"], |cells| {
            let (key, value) = (cells.text(0)?, cells.text(1)?.trim());
            let fault = |error: String, policy: &str, effect: &str| Fault {
                problem: format!("config_table: {key}: {error}"),
                remedy: Some(format!("\"flux fairshare policy {policy} --reset\" {effect}")),
            };
            if key == POLICY {
                let parsed = value.parse();
                site.policy = parsed.map_err(|error| fault(error, "NAME", "stores another policy"))?;
                return Ok(());
            }
            let name = key.strip_prefix(PREFIX).unwrap_or(key);
            let outcome = site.options.set(&format!("{name}={value}"));
            outcome.map_err(|error| fault(error, site.policy.name(), "removes the option"))
        })?;
        Ok(site)
    }

    /// Stores the ranking policy of the site. Options with default values get no row.
    pub fn write_site_policy(&self, site: &SitePolicy) -> StoreResult<()> {
        if self.table("config_table")?.is_none() {
            return Err(self.schema_error("no table config_table, which stores the site's policy"));
        }
        let defaults = Options::default().settings();
        let chosen = site.options.settings().into_iter().zip(defaults);
        let rows =
            chosen.filter(|(chosen, default)| chosen != default).map(|((name, value), _)| (name, value));
        self.run_sql(|| {
            self.transaction
                .execute("DELETE FROM config_table WHERE substr(key, 1, 10) = 'fairshare.'", [])?;
            let mut insert =
                self.transaction.prepare("INSERT INTO config_table (key, value) VALUES (?1, ?2)")?;
            insert.execute([POLICY, site.policy.name()])?;
            for (name, value) in rows {
                insert.execute([format!("{PREFIX}{name}"), value])?;
            }
            Ok(())
        })
    }
}
