// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare recount`: all usage from the records, and what is wrong with the stored one.

use std::io::{IsTerminal, Write, stderr};

use crate::clock::{instant, now};
use crate::outcome::{Answer, Failure, Outcome, after_storing, failure};
use crate::site::database::DatabaseArg;
use crate::site::input::Wait;
use crate::ui::figures::Unit;
use crate::ui::output::{OutputArgs, Report};
use crate::ui::printable::count;
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Rows, Style, column};
use fairshare_accounting::pipeline::{Counted, Fault, Recount};
use fairshare_accounting::store::Access;

/// Count all usage anew from the records, and say where the stored usage differs and why
///
/// Counts by the exact rule, as far back as usage is kept, and compares. Why a number differs is concluded from the
/// numbers: the history is played with each known fault of flux-accounting's rule until the stored bins come out. What no
/// fault explains may come from records that were removed, from lengths or weights that changed, or from an edit.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    wait: Wait,
    /// The time it is, in seconds since the epoch
    #[arg(long, value_name = "SECONDS", value_parser = instant, help_heading = "Rules")]
    now: Option<f64>,
    /// Store the recounted usage
    #[arg(short, long)]
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
    let mut database = args.wait.open(args.database.found(), access)?;
    let snapshot = database.snapshot().map_err(failure)?;
    progress.phase("counting", || snapshot.association_estimate());
    let counted = Counted::new(&snapshot, now(args.now), &mut |done| progress.at(done)).map_err(failure)?;
    if args.write {
        progress.phase("writing", || counted.plan.changes.bins.len() as u64);
        counted.plan.write(&snapshot, &mut |done| progress.at(done)).map_err(failure)?;
        progress.phase("storing", || 0);
        snapshot.commit().map_err(failure)?;
        // To explain may take long, and nobody has to wait for that to know that all is stored.
        if stderr().is_terminal() {
            drop(progress);
            let _ = writeln!(stderr(), "{}: stored", args.database.path().display());
            progress = Progress::start();
        }
    } else {
        drop(snapshot);
    }
    drop(database);
    progress.phase("explaining", || 0);
    let recount = counted.explain();
    drop(progress);
    print(args, &recount).map_err(|error| if args.write { after_storing(error) } else { error })?;
    Ok(Answer::Yes)
}

fn print(args: &Args, recount: &Recount) -> Result<(), Failure> {
    let ledger = &recount.plan.ledger;
    let mut rows = Vec::new();
    let named = |faults: &[Fault]| faults.iter().map(Fault::to_string).collect::<Vec<_>>().join(" ");
    for one in &recount.differences {
        let Some(account) = ledger.accounts.get(one.account) else { continue };
        let faults = match one.faults.as_slice() {
            [] if one.is_due => "due".to_owned(),
            [] => "?".to_owned(),
            faults => named(faults),
        };
        let user = Cell::Text(account.user.clone());
        rows.push((user, ledger.bank_name(account).to_owned(), one.stored, one.recounted, faults));
    }
    for (bank, stored, recounted, fault) in &recount.banks {
        let fault = fault.map_or(String::new(), |fault| fault.to_string());
        rows.push((Cell::None, bank.clone(), *stored, *recounted, fault));
    }
    let total = rows.len();
    rows.sort_by(|one, other| (other.3 - other.2).abs().total_cmp(&(one.3 - one.2).abs()));
    let limit = if args.output.is_table() && args.limit > 0 { args.limit } else { usize::MAX };
    let mut notes = Vec::new();
    if total > limit {
        notes.push(format!("and {} more (--limit 0 shows all)", total - limit));
    }
    for (fault, times) in &recount.faults {
        let what = match fault {
            Fault::UsersBesideBanks => "bank",
            Fault::Silence => "record",
            _ => "association",
        };
        notes.push(format!("{fault}, {}: {}", count(*times, what), fault.what()));
    }
    let due = recount.differences.iter().filter(|one| one.is_due).count();
    if due > 0 {
        notes.push(format!(
            "due, {}: boundaries passed or jobs ended since the last count; \"flux fairshare sync\" stores these numbers",
            count(due, "association")
        ));
    }
    let unexplained = recount.differences.iter().filter(|one| one.faults.is_empty() && !one.is_due).count();
    if unexplained > 0 {
        notes.push(format!("?, {}: no known fault gives these numbers", count(unexplained, "association")));
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
        count(recount.differences.len(), "association"),
        count(recount.banks.len(), "bank"),
        if args.write { "was put right" } else { "differs; nothing was written" }
    ));
    let faults: serde_json::Map<String, serde_json::Value> =
        recount.faults.iter().map(|(fault, times)| (fault.to_string(), (*times).into())).collect();
    args.output.print(Report {
        facts: vec![
            ("counted", tally.counted.into()),
            ("in_default_bank", tally.in_default_bank.into()),
            ("unreadable", tally.unreadable_count.into()),
            ("without_association", tally.waiting.into()),
            ("faults", faults.into()),
        ],
        rows: Rows {
            key: "differences",
            columns: vec![
                column("user", "User", Style::Text),
                column("bank", "Bank", Style::Text),
                column("stored", "Stored", Style::Usage(Unit::Unknown)),
                column("recounted", "Recounted", Style::Usage(Unit::Unknown)),
                column("faults", "Faults", Style::Text),
            ],
            rows: Box::new(rows.into_iter().take(limit).map(|(user, bank, stored, recounted, faults)| {
                vec![
                    user,
                    Cell::Text(bank),
                    Cell::Number(stored),
                    Cell::Number(recounted),
                    Cell::Text(faults),
                ]
            })),
        },
        notes,
        ..Report::default()
    })?;
    Ok(())
}
