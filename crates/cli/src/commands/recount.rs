// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare recount`: recounts all usage from the records and compares it with the stored usage.

use serde::Serialize;

use super::sync::summary::describe_uncounted_records;
use crate::clock::{now, parse_instant};
use crate::outcome::{Answer, Outcome, Result, failure, mark_stored};
use crate::site::database::DatabaseArg;
use crate::site::mending;
use crate::ui::figures::{Unit, date};
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Rows, Style, ValueColumn, value_column};
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
    let snapshot = database.snapshot()?;
    progress.phase("counting", || snapshot.estimate_association_count());
    let recount = Recount::new(&snapshot, now(args.now), &mut |done| progress.set_finished_steps(done))?;
    let half_life = snapshot.usage_settings()?.half_life;
    let budgets = compare_budgets(&snapshot, now(args.now))?;
    if args.write {
        progress.phase("writing", || recount.plan.changes.bins.len() as u64);
        recount.plan.write(&snapshot, &mut |done| progress.set_finished_steps(done))?;
        let counted = Budgets::count(&snapshot, None, &[], now(args.now))?;
        counted.store_spent_amounts(&snapshot, true).map_err(failure)?;
        progress.phase("storing", || 0);
        snapshot.commit()?;
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
    for budget in Budgets::count(snapshot, None, &[], now)?.all {
        let stored = snapshot.read_spent_amount(&budget)?;
        compared.extend(stored.map(|(stored, _)| (budget, stored)));
    }
    Ok(compared)
}

/// The columns of the table of budgets. A row is a budget and its stored amount.
pub(super) const BUDGET_COLUMNS: [ValueColumn<'static, (BudgetRecord, i64)>; 7] = [
    value_column("scope", "Scope", Style::Text, |(budget, _)| budget.scope.as_str().into()),
    value_column("name", "Name", Style::Text, |(budget, _)| budget.name.as_str().into()),
    value_column("unit", "Unit", Style::Text, |(budget, _)| budget.unit.to_string().into()),
    value_column("start", "From", Style::Time, |(budget, _)| Cell::Number(budget.start as f64)),
    value_column("stored_ms", "Stored", Style::Hours, |(_, stored)| Cell::Gain(*stored)),
    value_column("recounted_ms", "Recounted", Style::Hours, |(budget, _)| Cell::Gain(budget.spent)),
    value_column("difference_ms", "Difference (ms)", Style::Change, |(budget, stored)| {
        Cell::Gain(budget.spent.saturating_sub(*stored))
    }),
];

/// Returns the rows of the budgets whose stored amount differs from the records.
fn budget_rows(budgets: Vec<(BudgetRecord, i64)>) -> Rows<'static> {
    let differing = budgets.into_iter().filter(|(budget, stored)| budget.spent != *stored);
    Rows::new("budgets", BUDGET_COLUMNS, differing)
}

/// A row of the table of differences. The row of a bank has no user.
pub(super) struct DifferenceRow {
    user: Option<String>,
    bank: String,
    usage: Difference,
}

pub(super) const COLUMNS: [ValueColumn<'static, DifferenceRow>; 6] = [
    value_column("user", "User", Style::Text, |row| row.user.as_deref().into()),
    value_column("bank", "Bank", Style::Text, |row| row.bank.as_str().into()),
    value_column("stored", "Stored (decayed)", USAGE, |row| row.usage.stored.into()),
    value_column("recounted", "Recounted (decayed)", USAGE, |row| row.usage.recounted.into()),
    value_column("difference", "Difference", USAGE, |row| (row.usage.recounted - row.usage.stored).into()),
    value_column("due", "Due", Style::Flag, |row| Cell::Flag(row.usage.is_due)),
];

const USAGE: Style = Style::Usage(Unit::Unknown);

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
    for usage in &recount.associations {
        let Some(account) = ledger.accounts.get(usage.index) else { continue };
        let bank = ledger.bank_name(account).to_owned();
        rows.push(DifferenceRow { user: Some(account.user.clone()), bank, usage: *usage });
    }
    for usage in &recount.banks {
        let Some(bank) = ledger.banks.get(usage.index) else { continue };
        rows.push(DifferenceRow { user: None, bank: bank.name.clone(), usage: *usage });
    }
    let size = |row: &DifferenceRow| (row.usage.recounted - row.usage.stored).abs();
    rows.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let (shown, mut notes) = args.output.limit_rows(rows.len(), args.limit);
    let due = recount.associations.iter().filter(|one| one.is_due).count();
    let sync = mending::format_command(&args.database, None, "sync");
    if due > 0 && !args.write {
        let due = count(due, "association");
        notes.push(format!("the next \"{sync}\" stores the recounted usage of {due}"));
    }
    let would_lose = recount.associations.iter().any(|one| !one.is_due && one.recounted < one.stored);
    if let Some(since) = recount.records_since.filter(|_| would_lose) {
        notes.push(format!(
            "the oldest record ended on {}; if older records were removed, the recount lacks their usage",
            date(since, half_life)
        ));
    }
    let tally = &recount.plan.tally;
    notes.extend(describe_uncounted_records(tally));
    if tally.records == 0 {
        notes.push(format!(
            "the database has no record of a job to count; \"{sync}\" fetches those that Flux still has"
        ));
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
        rows: Rows::new("differences", COLUMNS, rows.into_iter().take(shown)),
        notes,
        ..Report::default()
    })?;
    Ok(())
}
