// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare recount`: recounts all usage from the records and compares it with the stored usage.

use serde::Serialize;

use super::budget::make_name_cells;
use crate::clock::{now, parse_instant};
use crate::outcome::{Answer, Outcome, Result, failure, mark_stored};
use crate::site::database::DatabaseArg;
use crate::ui::figures::{Unit, date};
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Rows, Style, column};
use fairshare_accounting::pipeline::budgets::Budgets;
use fairshare_accounting::pipeline::{Difference, Recount};
use fairshare_accounting::store::{Access, Snapshot};
use fairshare_protocol::records::BudgetRecord;

/// Recount all usage from the job records, and show where the stored usage differs
///
/// Counts by the exact rule, as far back as usage is kept, and compares. A difference is due if the next "flux fairshare sync"
/// stores the recounted usage. Other differences come from faults of flux-accounting's programs, from edits of the database,
/// from changed half-lives or weights, or from removed records. The recount lacks the usage of removed records.
///
/// Also compares the spent amounts of budgets that the last sync stored with the job records that this sync counted, to the
/// millisecond.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    /// The current time, in seconds since the epoch
    #[arg(long, value_name = "SECONDS", value_parser = parse_instant, help_heading = "Rules")]
    now: Option<f64>,
    /// Store the recounted usage
    #[arg(long, short_alias = 'w')]
    write: bool,
    /// Show this many in the table, 0 is all
    #[arg(long, value_name = "NUMBER", default_value_t = 20, help_heading = "Output")]
    limit: usize,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut progress = Progress::start();
    let access = if args.write { Access::Write } else { Access::Read };
    let mut database = args.database.open(access)?;
    let snapshot = database.snapshot().map_err(failure)?;
    progress.phase("counting", || snapshot.estimate_association_count());
    let recount = Recount::new(&snapshot, now(args.now), &mut |done| progress.set_finished_steps(done))
        .map_err(failure)?;
    let half_life = snapshot.usage_settings().map_err(failure)?.half_life;
    let budgets = compare_budgets(&snapshot, now(args.now))?;
    if args.write {
        progress.phase("writing", || recount.plan.changes.bins.len() as u64);
        recount.plan.write(&snapshot, &mut |done| progress.set_finished_steps(done)).map_err(failure)?;
        let counted = Budgets::count(&snapshot, None, &[], now(args.now)).map_err(failure)?;
        counted.store_spent_amounts(&snapshot, true).map_err(failure)?;
        progress.phase("storing", || 0);
        snapshot.commit().map_err(failure)?;
    } else {
        drop(snapshot);
    }
    drop(database);
    drop(progress);
    print(args, &recount, half_life, budgets)
        .map_err(|error| if args.write { mark_stored(error) } else { error })?;
    Ok(Answer::Yes)
}

/// Returns each budget for which the last sync stored a spent amount, with this amount.
fn compare_budgets(snapshot: &Snapshot<'_>, now: f64) -> Result<Vec<(BudgetRecord, i64)>> {
    let mut compared = Vec::new();
    for budget in Budgets::count(snapshot, None, &[], now).map_err(failure)?.all {
        let stored = snapshot.read_spent_amount(&budget).map_err(failure)?;
        compared.extend(stored.map(|(stored, _)| (budget, stored)));
    }
    Ok(compared)
}

/// The columns of the table of budgets.
pub(super) const BUDGET_COLUMNS: [Column<'static>; 7] = [
    column("scope", "Scope", Style::Text),
    column("name", "Name", Style::Text),
    column("unit", "Unit", Style::Text),
    column("start", "From", Style::Time),
    column("stored_ms", "Stored", Style::Hours),
    column("recounted_ms", "Recounted", Style::Hours),
    column("difference_ms", "Difference (ms)", Style::Change),
];

/// Returns the rows of the budgets whose stored amount differs from the records.
fn budget_rows(budgets: Vec<(BudgetRecord, i64)>) -> Rows<'static> {
    let differing = budgets.into_iter().filter(|(budget, stored)| budget.spent != *stored);
    let cells = |(budget, stored): (BudgetRecord, i64)| {
        let amounts = [stored, budget.spent, budget.spent.saturating_sub(stored)].map(Cell::Gain);
        let names = make_name_cells(&budget).into_iter().chain([Cell::Number(budget.start as f64)]);
        names.chain(amounts).collect()
    };
    Rows { key: "budgets", columns: BUDGET_COLUMNS.to_vec(), rows: Box::new(differing.map(cells)) }
}

pub(super) const COLUMNS: [Column<'static>; 6] = [
    column("user", "User", Style::Text),
    column("bank", "Bank", Style::Text),
    column("stored", "Stored (decayed)", Style::Usage(Unit::Unknown)),
    column("recounted", "Recounted (decayed)", Style::Usage(Unit::Unknown)),
    column("difference", "Difference", Style::Usage(Unit::Unknown)),
    column("due", "Due", Style::Flag),
];

/// The members of the JSON document besides the list of differences between stored and recounted usage.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RecountJsonFields {
    /// The number of job records that were counted.
    counted: usize,
    /// The number of counted records that are charged to the default bank of their user.
    in_default_bank: usize,
    /// The number of records that cannot be read.
    unreadable: usize,
    /// The number of records of users without an association.
    without_association: usize,
    /// The end of the oldest record in seconds since the epoch.
    records_since: Option<f64>,
}

fn print(args: &Args, recount: &Recount, half_life: f64, budgets: Vec<(BudgetRecord, i64)>) -> Result<()> {
    let ledger = &recount.plan.ledger;
    let mut rows = Vec::new();
    for one in &recount.associations {
        let Some(account) = ledger.accounts.get(one.index) else { continue };
        rows.push((Cell::Text(account.user.clone()), ledger.bank_name(account).to_owned(), *one));
    }
    for one in &recount.banks {
        let Some(bank) = ledger.banks.get(one.index) else { continue };
        rows.push((Cell::None, bank.name.clone(), *one));
    }
    let size = |row: &(Cell, String, Difference)| (row.2.recounted - row.2.stored).abs();
    rows.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let (shown, mut notes) = args.output.limit_rows(rows.len(), args.limit);
    let due = recount.associations.iter().filter(|one| one.is_due).count();
    if due > 0 && !args.write {
        let due = count(due, "association");
        notes.push(format!("the next \"flux fairshare sync\" stores the recounted usage of {due}"));
    }
    let would_lose = recount.associations.iter().any(|one| !one.is_due && one.recounted < one.stored);
    if let Some(since) = recount.records_since.filter(|_| would_lose) {
        notes.push(format!(
            "the oldest record ended on {}; if older records were removed, the recount lacks their usage",
            date(since, half_life)
        ));
    }
    let tally = &recount.plan.tally;
    if tally.records == 0 {
        notes.push(
            "the database has no record of a job to count; \"flux fairshare sync\" fetches those that Flux still has"
                .to_owned(),
        );
    }
    notes.push(format!(
        "{} counted for {}: usage of {} and {} {}",
        count(tally.counted, "record"),
        count(ledger.accounts.len(), "association"),
        count(recount.associations.len(), "association"),
        count(recount.banks.len(), "bank"),
        if args.write { "was corrected" } else { "differs; nothing was written" }
    ));
    if !budgets.is_empty() {
        let different = budgets.iter().filter(|(budget, stored)| budget.spent != *stored).count();
        let outcome = match different {
            0 => "the spent amounts equal the records".to_owned(),
            _ if args.write => format!("{different} spent amounts were corrected"),
            _ => format!("{different} spent amounts differ from the records"),
        };
        notes.push(format!("{} checked: {outcome}", count(budgets.len(), "budget")));
    }
    args.output.print(Report {
        more: (!budgets.is_empty()).then(|| budget_rows(budgets)),
        facts: Facts::new(&RecountJsonFields {
            counted: tally.counted,
            in_default_bank: tally.in_default_bank,
            unreadable: tally.unreadable_count,
            without_association: tally.waiting,
            records_since: recount.records_since,
        })?,
        rows: Rows {
            key: "differences",
            columns: COLUMNS.to_vec(),
            rows: Box::new(rows.into_iter().take(shown).map(|(user, bank, one)| {
                vec![
                    user,
                    Cell::Text(bank),
                    Cell::Number(one.stored),
                    Cell::Number(one.recounted),
                    Cell::Number(one.recounted - one.stored),
                    Cell::Flag(one.is_due),
                ]
            })),
        },
        notes,
        ..Report::default()
    })?;
    Ok(())
}
