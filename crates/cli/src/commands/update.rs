// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare update`: compute the fair-shares and store them.

use std::io::{IsTerminal, Write, stderr};

use serde::Serialize;

use crate::outcome::{Answer, Outcome, failure};
use crate::site::database::DatabaseArg;
use crate::site::facts::{PolicyFacts, ROUNDING};
use crate::site::input::{PolicyArg, Rules};
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Rows, Style, column};
use fairshare_accounting::pipeline::fairshare::Ranked;
use fairshare_accounting::store::{Access, SitePolicy};

/// Compute the fair-shares and store them in the database
///
/// Does what "flux account-update-fshare" does. Everything is read, computed and written in one transaction: whatever
/// happens, the database holds the old values or the new ones. Only rows that change are written, with full precision.
/// Inactive associations keep their values. Prints nothing, unless it runs on a terminal or with --verbose.
#[derive(Debug, clap::Args)]
// In earlier versions, -n meant --dry-run. If -n meant --no-header now, an old script with -n would change the database.
#[command(mut_arg("no_header", |header| header.short(None)))]
pub(crate) struct Args {
    /// Write nothing; show whose fair-share would change
    #[arg(long, short_alias = 'n')]
    dry_run: bool,
    #[command(flatten, next_help_heading = "Input")]
    database: DatabaseArg,
    #[command(flatten)]
    policy: PolicyArg,
    #[command(flatten)]
    rules: Rules,
    /// With --dry-run: show this many in the table, 0 is all
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 20,
        requires = "dry_run",
        conflicts_with = "output",
        help_heading = "Output"
    )]
    limit: usize,
    /// Print a summary, even if not on a terminal
    #[arg(short, long, help_heading = "Output")]
    verbose: bool,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    if !args.dry_run && !args.output.is_table() {
        return Err(failure("--json, --csv and --parsable go with --dry-run"));
    }
    // Rejects invalid settings before the database is opened.
    args.rules.over(SitePolicy::default())?;
    let path = args.database.path();
    let mut progress = Progress::start();
    let access = if args.dry_run { Access::Read } else { Access::Write };
    let mut database = args.database.open(access)?;
    let snapshot = database.snapshot()?;
    let site = snapshot.site_policy()?;
    let (policy, options) = (args.policy.over(site), args.rules.over(site)?);
    args.rules.apply_to(&[policy])?;
    progress.phase("reading", || snapshot.estimate_association_count());
    let mut ranked = Ranked::new(&snapshot, policy, &options, &mut |done| progress.set_finished_steps(done))?;
    if args.dry_run {
        // Close the database before printing. An open transaction blocks writers, and the user may read in the pager for long.
        drop(snapshot);
        drop(database);
        drop(progress);
        print_rank_changes(args, &mut ranked)?;
        return Ok(Answer::Yes);
    }
    progress.phase("writing", || ranked.changes.len() as u64);
    ranked.write(&snapshot, &mut |done| progress.set_finished_steps(done))?;
    snapshot.commit()?;
    drop(progress);
    if args.verbose || stderr().is_terminal() {
        // The fair-shares are already stored, so the command does not fail if standard error is closed.
        let _ = writeln!(
            stderr(),
            "{}: {} ranked by {policy}, {} changed",
            path.display(),
            count(ranked.ranking.ranked(), "association"),
            count(ranked.changes.len(), "fair-share")
        );
    }
    Ok(Answer::Yes)
}

pub(super) const COLUMNS: [Column<'static>; 5] = [
    column("user", "User", Style::Text),
    column("bank", "Bank", Style::Text),
    column("stored", "Stored", Style::Fraction),
    column("fairshare", "FairShare", Style::Fraction),
    column("change", "Change", Style::Change),
];

/// The JSON document of `update`, except the list of changed fair-shares.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UpdateReportHeader {
    #[serde(flatten)]
    policy: PolicyFacts,
    /// The number of ranked associations.
    ranked: usize,
}

fn print_rank_changes(args: &Args, ranked: &mut Ranked) -> std::io::Result<()> {
    let Ranked { tree, ranking, changes } = ranked;
    let digits = changes.len();
    changes.retain(|change| change.distance().abs() > ROUNDING);
    let digits = digits - changes.len();
    // Changes of equal size are sorted by their place in the tree.
    changes.sort_by(|a, b| b.distance().abs().total_cmp(&a.distance().abs()).then(a.node.cmp(&b.node)));
    let moves = changes.len();
    let (shown, mut notes) = args.output.limit_rows(moves, args.limit);
    let rows = changes.iter().take(shown).map(|change| {
        vec![
            Cell::Text(tree.name(change.node).to_owned()),
            tree.parent(change.node).map_or(Cell::None, |bank| Cell::Text(tree.name(bank).to_owned())),
            change.stored.fairshare.into(),
            Cell::Number(change.fairshare),
            Cell::Number(change.distance()),
        ]
    });
    let unmoved = ranking.ranked() - moves;
    notes.push(format!(
        "{moves} of {} would get another fair-share; {unmoved} would keep their fair-share, {digits} of them with more digits; nothing was written",
        count(ranking.ranked(), "association")
    ));
    let facts = UpdateReportHeader {
        policy: PolicyFacts::new(ranking.policy(), ranking.options()),
        ranked: ranking.ranked(),
    };
    args.output.print(Report {
        facts: Facts::new(&facts)?,
        rows: Rows { key: "moves", columns: COLUMNS.to_vec(), rows: Box::new(rows) },
        notes,
        ..Report::default()
    })
}
