// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare policy`: shows or changes the ranking policy of the site.

use clap::ArgAction;
use serde::Serialize;

use crate::fingers;
use crate::outcome::{Answer, Outcome, Result, failure, mark_stored};
use crate::site::database::DatabaseArg;
use crate::site::input::{Rules, file_failure};
use crate::site::mending;
use crate::ui::messages::remark;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::rows::{Cell, Column, Rows, Style, column};
use crate::ui::suggest::did_you_mean;
use fairshare::{Options, Policy};
use fairshare_accounting::store::{Access, SitePolicy, Snapshot};

/// Show or choose the ranking policy of the site and its options
///
/// The database stores the choice; show, update, sync, why, what-if and push use it unless --policy or --set is given.
/// flux-accounting's own tools leave it in place and always rank by weighted-walk. Without a name and options, prints the
/// choice. Refuses a policy that can't rank the database.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The new policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs
    #[arg(value_name = "POLICY", value_parser = fingers::parse_policy)]
    policy: Option<Policy>,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    rules: Rules,
    /// Reset these options to their defaults
    #[arg(long, value_name = "NAME", help_heading = "Rules")]
    unset: Vec<String>,
    /// Reset all options to their defaults
    #[arg(long, action = ArgAction::SetTrue, conflicts_with = "unset", help_heading = "Rules")]
    reset: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    let changes = args.policy.is_some() || args.reset || !args.unset.is_empty() || !args.rules.set.is_empty();
    let access = if changes { Access::Write } else { Access::Read };
    let mut database = args.database.open(access)?;
    let snapshot = database.snapshot()?;
    if !changes {
        let site = snapshot.site_policy()?;
        drop(snapshot);
        drop(database);
        print(args, &site)?;
        return Ok(Answer::Yes);
    }
    let before = snapshot.site_policy();
    // A stored policy that can't be read can still be replaced.
    let before = match (before, args.policy, args.reset) {
        (Err(_), Some(_), true) => SitePolicy::default(),
        (before, ..) => before.map_err(failure)?,
    };
    let site = apply_changes(args, before)?;
    check_policy(args, &snapshot, &site)?;
    snapshot.write_site_policy(&site)?;
    snapshot.commit()?;
    print(args, &site).map_err(mark_stored)?;
    if site != before && args.output.is_table() {
        let update = mending::format_command(&args.database, None, "update");
        remark(format_args!(
            "Takes effect on fair-shares at the next \"{update}\" or \"sync\", and in the plugin at the next push"
        ));
    }
    Ok(Answer::Yes)
}

/// Returns the stored policy `before` with the changes that `args` requests.
fn apply_changes(args: &Args, before: SitePolicy) -> Result<SitePolicy> {
    let policy = args.policy.unwrap_or(before.policy);
    let defaults = Options::default();
    let mut kept = if args.reset { defaults } else { before.options };
    for name in &args.unset {
        let known = defaults.settings();
        let Some((name, value)) = known.iter().find(|(known, _)| known == name) else {
            let near = did_you_mean(name, known.map(|(name, _)| name));
            return Err(failure(format!("--unset: unknown option \"{name}\"{near}")));
        };
        kept.set(&format!("{name}={value}")).map_err(failure)?;
    }
    let options = args.rules.over(SitePolicy { policy, options: kept })?;
    args.rules.apply_to(&[policy])?;
    Ok(SitePolicy { policy, options })
}

/// Returns an error if the policy in `site` can't rank the banks and associations in the database. update and sync would fail with this
/// policy.
fn check_policy(args: &Args, snapshot: &Snapshot<'_>, site: &SitePolicy) -> Result<()> {
    let path = args.database.path();
    let stored = snapshot.tree(site.options.inactive_usage, &mut |_| ())?;
    // A site may choose a policy before it has banks.
    let Ok(tree) = stored.builder.build() else { return Ok(()) };
    match tree.rank(site.policy, &site.options) {
        Ok(_) => Ok(()),
        Err(error) => Err(file_failure(path, format_args!("can't be ranked by {}: {error}", site.policy))),
    }
}

pub(super) const COLUMNS: [Column<'static>; 4] = [
    column("name", "Option", Style::Text),
    column("value", "Value", Style::Text),
    column("default", "Default", Style::Text),
    column("applies", "Applies", Style::Flag),
];

/// The JSON document without the options.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct SitePolicyJsonFields {
    /// The ranking policy of the site.
    policy: &'static str,
}

fn print(args: &Args, site: &SitePolicy) -> std::io::Result<()> {
    let defaults = Options::default().settings();
    let rows = site.options.settings().into_iter().zip(defaults).map(|((name, value), (_, default))| {
        vec![
            Cell::Text(name.to_owned()),
            Cell::Text(value),
            Cell::Text(default),
            Cell::Flag(Options::applies(name, site.policy)),
        ]
    });
    args.output.print(Report {
        facts: Facts::new(&SitePolicyJsonFields { policy: site.policy.name() })?,
        before: vec![format!("The site's policy is {}.", site.policy)],
        rows: Rows { key: "options", columns: COLUMNS.to_vec(), rows: Box::new(rows) },
        ..Report::default()
    })
}
