// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare budget`: amounts of node-hours, core-hours and GPU-hours that banks, associations and users may spend.

use std::io;

use clap::ValueEnum;
use jiff::tz::TimeZone;

use super::{credit, limit, push, usage};
use crate::outcome::{Answer, Outcome, Result, failure, mark_stored};
use crate::plugin::ask::InstanceArg;
use crate::plugin::running::{self, Running};
use crate::site::database::DatabaseArg;
use crate::ui::figures::{hours, now, parse_duration};
use crate::ui::messages::{remark, say};
use crate::ui::output::{OutputArgs, Report};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Look, Rows, Style, ValueColumn, column, value_column};
use fairshare_accounting::pipeline::budgets::{self, Budgets};
use fairshare_accounting::store::{Access, Database, Deposit, Snapshot};
use fairshare_engine::ids::{JobId, f58};
use fairshare_protocol::records::budget::{MAX_AMOUNT, MAX_WINDOW};
use fairshare_protocol::records::{BudgetRecord, BudgetUnit};

const EXAMPLES: &str = include_str!("budget.txt").trim_ascii_end();

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Show what each budget has spent and what is left
    Show,
    /// Add an amount to a budget, and show what is left; a negative amount corrects another deposit
    Deposit,
    /// Give back what a job has spent, or a part of it
    Refund,
    /// Remove a budget with all of its windows; its jobs are then not held
    Remove,
    /// List the deposits
    Log,
}

/// Show budgets of node-hours, core-hours or GPU-hours, and add to them
///
/// A budget is an amount that a bank, an association or a user may spend within a window of time. It does not decay and does not
/// change priorities. A bank's budget pays for the jobs of all banks below it. A job spends its nodes, cores or GPUs times its run
/// time, at most its time limit, times the charge factor of its queue, from the window in which it starts. Without deposits in a
/// unit, a bank, association or user has no budget in that unit. With deposits, nothing can be spent outside of their windows,
/// until the budget is removed.
///
/// The database keeps deposits in a table of its own. They are never changed. The spent amounts come from the records of ended
/// jobs. push sends both to the plugin, which adds all other jobs.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The action
    #[arg(value_enum, default_value = "show")]
    action: Action,
    /// The scope: association, bank or user
    #[arg(value_name = "SCOPE", value_parser = ["association", "bank", "user"])]
    scope: Option<String>,
    /// USER/BANK, a bank or a user
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// For deposit and refund: the amount in hours of the unit, like 5000, 0.5 or -20
    #[arg(value_name = "AMOUNT", allow_negative_numbers = true)]
    amount: Option<String>,
    /// The unit [default for deposit and refund: node-hours]
    #[arg(long, value_name = "UNIT", value_parser = ["node-hours", "core-hours", "gpu-hours"])]
    unit: Option<String>,
    /// The start of the window: 2027-01-01, 2027-01-01T08:00, 2027-01-01T08:00:00Z, or seconds since the epoch [default: now with --until, else the current window]
    #[arg(long, value_name = "TIME", requires = "until", conflicts_with = "job")]
    from: Option<String>,
    /// The end of the window, which the window does not include: a time, or the length of the window, like 52w or 365d
    #[arg(long, value_name = "TIME", conflicts_with = "job")]
    until: Option<String>,
    /// The reason, for the log
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// For refund: the ended job that spent the amount
    #[arg(long, value_name = "JOBID")]
    job: Option<String>,
    /// Also push, so that the change takes effect at once
    #[arg(long)]
    push: bool,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    match args.action {
        Action::Show | Action::Log => list(args),
        Action::Deposit | Action::Refund | Action::Remove => add(args),
    }
}

/// Adds a deposit, a refund or a removal, and prints it.
fn add(args: &Args) -> Outcome {
    let fail = |text: &str| Err(failure(text.to_owned()));
    let is_refund = args.action == Action::Refund;
    let given = args.amount.as_deref().or((args.action == Action::Remove).then_some("0"));
    let (Some(scope), Some(name), Some(amount)) = (&args.scope, &args.name, given) else {
        return fail(
            "SCOPE, NAME or AMOUNT is missing, as in: flux fairshare budget deposit bank phys 5000 --reason grant",
        );
    };
    let is_valid = |amount: &i64| match args.action {
        Action::Remove => *amount == 0,
        Action::Refund => *amount > 0,
        _ => *amount != 0,
    };
    let Some(milliseconds) = parse_hours(amount).filter(is_valid) else {
        return Err(failure(format!(
            "AMOUNT: expected a number of hours in whole milliseconds, like 5000{}, got \"{amount}\"",
            if is_refund { " or 0.5" } else { ", 0.5 or -20" }
        )));
    };
    let reason = credit::parse_reason(args.reason.as_deref(), "budget")?;
    if is_refund != args.job.is_some() {
        return fail("--job: a refund names its job, and a deposit names none");
    }
    if name == "*" {
        return fail("NAME: a budget is for one association, bank or user");
    }
    let mut database = args.database.open(Access::Write)?;
    let snapshot = database.snapshot()?;
    limit::parse_target(scope, name)?;
    limit::check_target(&snapshot, scope, name, "")?;
    let mut budget = BudgetRecord {
        scope: scope.clone(),
        name: name.clone(),
        unit: args.unit.as_deref().and_then(|unit| unit.parse().ok()).unwrap_or(BudgetUnit::NodeHours),
        start: 0,
        end: 0,
        deposited: milliseconds,
        spent: 0,
        rate: 0,
    };
    let mut others = snapshot.list_deposits_in_force()?;
    others.retain(|other| other.target() == (scope, name, budget.unit));
    let (job, at) = match &args.job {
        Some(text) => check_refund(&snapshot, &budget, &others, text)?,
        None => (String::new(), now()),
    };
    (budget.start, budget.end) = find_window(args, &budget, &others, at)?;
    let mut deposit = Deposit {
        id: 0,
        budget,
        reason: reason.to_owned(),
        author: credit::author(),
        created: now() as i64,
        job,
    };
    deposit.id = snapshot.add_deposit(&deposit)?;
    snapshot.commit()?;
    print_stored(args, &mut database, deposit).map_err(mark_stored)?;
    push::apply_change(&args.database, args.instance.uri.as_deref(), args.push, args.output.is_table())
}

/// Prints a stored deposit, and the state of its budget.
fn print_stored(args: &Args, database: &mut Database, deposit: Deposit) -> Result<()> {
    let now = now();
    let running = running::list(&args.instance, args.database.is_given());
    let mut budgets = count_budgets(args, &database.snapshot()?, &running, now)?;
    let (target, start) = (deposit.target(), deposit.budget.start);
    budgets.retain(|(it, _)| (&*it.scope, &*it.name, it.unit) == target && it.start == start);
    warn_of_used_up_budgets(&budgets, now);
    let state = (!budgets.is_empty()).then(|| budget_rows(args, budgets, now));
    Ok(print(args, Rows::new("deposits", DEPOSIT_COLUMNS, [deposit]), state, Some(&running))?)
}

/// Parses an amount of hours. Returns unit-milliseconds, or `None` if the amount is not a whole number of them.
fn parse_hours(text: &str) -> Option<i64> {
    // An hour is 2^7 x 3^2 x 5^5 milliseconds, so whole milliseconds have at most seven decimals.
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let scaled: i128 = if decimals.len() > 7 { None } else { format!("{whole}{decimals:0<7}").parse().ok() }?;
    let milliseconds = scaled.checked_mul(3_600_000)?;
    let amount = i64::try_from(milliseconds / 10_000_000).ok()?;
    (milliseconds % 10_000_000 == 0 && amount.abs() <= MAX_AMOUNT).then_some(amount)
}

/// Returns the id of the job in decimal and the start of the job, or an error if the refunds of the job would exceed its charge.
fn check_refund(
    snapshot: &Snapshot<'_>,
    budget: &BudgetRecord,
    others: &[Deposit],
    text: &str,
) -> Result<(String, f64)> {
    let BudgetRecord { scope, name, unit, deposited, .. } = budget;
    let id = JobId::parse(text).ok_or_else(|| failure(format!("--job: \"{text}\" is not a job id")))?;
    let found = budgets::find_job_charge(snapshot, budget, id.0)?;
    let (start, charge) = found.ok_or_else(|| {
        failure(format!(
            "--job: the database has no readable record of job {text} for {scope} {name}; \"flux fairshare sync\" fetches \
             the record of an ended job"
        ))
    })?;
    let job = id.0.to_string();
    let refunds = others.iter().filter(|other| other.job == job);
    let left = refunds.fold(charge, |left, refund| left.saturating_sub(refund.budget.deposited));
    if *deposited > left {
        return Err(failure(format!(
            "AMOUNT: the job spent {} {unit}, of which {} are not refunded yet",
            hours(charge),
            hours(left)
        )));
    }
    Ok((job, start))
}

/// Returns the window of a new deposit. With `--until`, the options name the window. Without it, returns the window of an earlier deposit
/// that includes the time `at`, or for `remove` the window of any deposit.
fn find_window(args: &Args, budget: &BudgetRecord, others: &[Deposit], at: f64) -> Result<(i64, i64)> {
    let BudgetRecord { scope, name, unit, .. } = budget;
    let Some(until) = &args.until else {
        let is_removal = args.action == Action::Remove;
        let found = others.iter().find(|other| is_removal || budgets::contains(&other.budget, at));
        return found.map(|found| (found.budget.start, found.budget.end)).ok_or_else(|| {
            failure(match args.action {
                Action::Remove => format!("{scope} {name} has no budget in {unit}"),
                Action::Refund => format!("{scope} {name} had no budget in {unit} when the job started"),
                _ => format!("{scope} {name} has no budget in {unit} now; --until TIME begins one"),
            })
        });
    };
    let fail = |option: &str, text: String| failure(format!("{option}: {text}"));
    let parse = |text| usage::parse_instant(text, now(), &TimeZone::system());
    let start = args.from.as_deref().map_or(Ok(at), parse).map_err(|text| fail("--from", text))?.floor();
    let end = match parse_duration(until) {
        Ok(length) => start + length.as_secs_f64(),
        Err(_) => parse(until).map_err(|text| fail("--until", text))?,
    };
    let (start, end) = (start as i64, end as i64);
    if start < 0 || end <= start || end > MAX_WINDOW {
        return Err(fail("--until", format!("expected a time after --from, from 1970 to 5138, got {until}")));
    }
    let overlaps = |other: &&Deposit| {
        let BudgetRecord { start: from, end: until, .. } = other.budget;
        (from, until) != (start, end) && from < end && start < until
    };
    others.iter().find(overlaps).map_or(Ok((start, end)), |Deposit { id, budget, .. }| {
        let BudgetRecord { start, end, .. } = budget;
        Err(failure(format!(
            "the window overlaps the window of deposit {id}; for the same window: --from {start} --until {end}"
        )))
    })
}

/// Shows budgets, or lists deposits.
fn list(args: &Args) -> Outcome {
    let is_change = args.from.is_some() || args.reason.is_some() || args.job.is_some() || args.push;
    if args.amount.is_some() || is_change {
        return Err(failure(
            "show and log have no AMOUNT, --from, --reason, --job and --push; did you mean deposit?",
        ));
    }
    let is_selected = |budget: &BudgetRecord| {
        let is_asked = |wanted: &Option<String>, found: &str| wanted.as_ref().is_none_or(|it| it == found);
        is_asked(&args.scope, &budget.scope)
            && is_asked(&args.name, &budget.name)
            && is_asked(&args.unit, budget.unit.name())
    };
    let is_log = args.action == Action::Log;
    let now = now();
    let running = (!is_log).then(|| running::list(&args.instance, args.database.is_given()));
    let mut database = args.database.open(Access::Read)?;
    let snapshot = database.snapshot()?;
    let mut deposits = if is_log { snapshot.deposits() } else { snapshot.list_deposits_in_force() }?;
    deposits.retain(|deposit| is_selected(&deposit.budget));
    if let (true, Some(scope), Some(name)) = (deposits.is_empty(), &args.scope, &args.name) {
        remark(format_args!("{scope} {name} has no budget"));
        return Ok(Answer::No);
    }
    let budgets = running.as_ref().map(|jobs| count_budgets(args, &snapshot, jobs, now)).transpose()?;
    drop(snapshot);
    drop(database);
    match budgets {
        _ if deposits.is_empty() && args.output.is_table() => say("no budgets")?,
        None => print(args, Rows::new("deposits", DEPOSIT_COLUMNS, deposits), None, None)?,
        Some(mut budgets) => {
            budgets.retain(|(budget, _)| is_selected(budget));
            warn_of_used_up_budgets(&budgets, now);
            print(args, budget_rows(args, budgets, now), None, running.as_ref())?;
        }
    }
    Ok(Answer::Yes)
}

/// Returns all budgets, each with the amount spent in the last 24 hours. Prints messages about records that are not counted.
fn count_budgets(
    args: &Args,
    snapshot: &Snapshot<'_>,
    jobs: &Running,
    now: f64,
) -> Result<Vec<(BudgetRecord, i64)>> {
    let jobs = jobs.as_deref().unwrap_or_default();
    let Budgets { all, last_day, notes } = Budgets::count(snapshot, None, jobs, now)?;
    notes.iter().for_each(|note| remark(format_args!("{}: {note}", args.database.path().display())));
    Ok(all.into_iter().zip(last_day).collect())
}

/// Warns about each budget that has nothing left in its current window.
fn warn_of_used_up_budgets(budgets: &[(BudgetRecord, i64)], now: f64) {
    let used_up = budgets.iter().map(|(budget, _)| budget).filter(|it| budgets::is_used_up(it, now));
    for BudgetRecord { scope, name, unit, .. } in used_up {
        remark(format_args!(
            "warning: no {unit} are left: the jobs of {scope} {name} are held until a deposit, unless the setting \"budgets\" of \
             the plugin is \"reject\" or \"warn\""
        ));
    }
}

/// The columns of the table of budgets.
pub(super) const COLUMNS: &[Column<'static>] = &[
    column("scope", "Scope", Style::Text),
    column("name", "Name", Style::Text),
    column("unit", "Unit", Style::Text),
    column("start", "From", Style::Time),
    column("end", "Until", Style::Time),
    column("deposited_ms", "Deposited", Style::Hours),
    column("spent_ms", "Spent", Style::Hours),
    column("left_ms", "Left", Style::Hours),
    column("rate_24h_ms", "PerDay (24h)", Style::Hours),
    column("lasts_until_24h", "LastsUntil (24h)", Style::Time),
    column("rate_ms", "PerDay (7d)", Style::Hours),
    column("lasts_until", "LastsUntil (7d)", Style::Time),
];

/// Columns that a table leaves out if the screen is narrow.
const GIVE_UP: &[&str] =
    &["created", "author", "job", "lasts_until", "rate_ms", "start", "spent_ms", "deposited_ms"];

/// Prints deposits, budgets, or both. The mean rates of the budgets include the running jobs `jobs`.
fn print(args: &Args, rows: Rows<'_>, more: Option<Rows<'_>>, jobs: Option<&Running>) -> io::Result<()> {
    let describe = |jobs: &Running| {
        let counted = jobs.as_ref().err().map_or("PerDay includes running jobs".to_owned(), |reason| {
            format!("PerDay includes only ended jobs, because {reason}")
        });
        format!(
            "Spent by ended jobs up to the last sync; the plugin adds all other jobs. PerDay is the mean rate of the last 24 hours or 7 \
             days. LastsUntil is when nothing is left at this rate, or \"end of window\" if the budget lasts longer than its window. {counted}."
        )
    };
    let has_budgets = more.is_some() || rows.key == "budgets";
    let notes = jobs.filter(|_| has_budgets).map(describe).into_iter().collect();
    let look = Look { give_up: GIVE_UP, ..Look::WHOLE };
    args.output.print_as(Report { rows, more, notes, ..Report::default() }, look, Progress::none())
}

fn budget_rows(args: &Args, budgets: Vec<(BudgetRecord, i64)>, now: f64) -> Rows<'static> {
    let is_table = args.output.is_table();
    let rows = budgets.into_iter().map(move |(budget, last_day)| {
        let BudgetRecord { scope, name, unit, .. } = &budget;
        let mut cells = Vec::from([scope.clone(), name.clone(), unit.to_string()].map(Cell::Text));
        cells.extend([budget.start, budget.end].map(|time| Cell::Number(time as f64)));
        cells.extend([budget.deposited, budget.spent, budgets::left(&budget)].map(Cell::Gain));
        for rate in [last_day, budget.rate] {
            let budget = BudgetRecord { rate, ..budget.clone() };
            cells.push(Cell::Gain(rate));
            cells.push(match budgets::lasts_until(&budget, now).map(f64::floor) {
                Some(until) if is_table && until >= budget.end as f64 => {
                    Cell::Text("end of window".to_owned())
                }
                until => until.into(),
            });
        }
        cells
    });
    Rows { key: "budgets", columns: COLUMNS.to_vec(), rows: Box::new(rows) }
}

/// The columns of the table of deposits.
pub(super) const DEPOSIT_COLUMNS: [ValueColumn<'static, Deposit>; 11] = [
    value_column("id", "Deposit", Style::Id, |deposit| Cell::Count(deposit.id.unsigned_abs())),
    value_column("created", "Created", Style::Time, |deposit| Cell::Number(deposit.created as f64)),
    value_column("author", "Author", Style::Text, |deposit| deposit.author.as_str().into()),
    value_column("scope", "Scope", Style::Text, |deposit| deposit.budget.scope.as_str().into()),
    value_column("name", "Name", Style::Text, |deposit| deposit.budget.name.as_str().into()),
    value_column("unit", "Unit", Style::Text, |deposit| deposit.budget.unit.to_string().into()),
    value_column("amount_ms", "Amount", Style::Hours, |deposit| Cell::Gain(deposit.budget.deposited)),
    value_column("start", "From", Style::Time, |deposit| Cell::Number(deposit.budget.start as f64)),
    value_column("end", "Until", Style::Time, |deposit| Cell::Number(deposit.budget.end as f64)),
    value_column("job", "Job", Style::Text, |deposit| deposit.job.parse().ok().map(f58).into()),
    value_column("reason", "Reason", Style::Text, |deposit| deposit.reason.as_str().into()),
];

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn amounts_are_parsed_without_rounding() {
        for (text, milliseconds) in [
            ("5000", Some(18_000_000_000)),
            ("-20", Some(-72_000_000)),
            ("+1.25", Some(4_500_000)),
            ("0.0000025", Some(9)),
            ("0.0000001", None),
            ("0.00000000", None),
            ("277777777777.7777775", Some(999_999_999_999_999_999)),
            ("277777777778", None),
            ("5h", None),
            ("1e3", None),
            ("1.-5", None),
            ("1,000", None),
        ] {
            assert_eq!(parse_hours(text), milliseconds, "{text}");
        }
        assert_eq!(parse_hours(&"9".repeat(50)), None);
    }

    proptest! {
        #[test]
        fn a_budget_amount_is_parsed_to_the_last_digit(nines in -100_000_000_000_000_i64..100_000_000_000_000) {
            // 9 ms are 0.0000025 h, so each multiple has an exact decimal text.
            let scaled = nines.abs() * 25;
            let sign = if nines < 0 { "-" } else { "" };
            let text = format!("{sign}{}.{:07}", scaled / 10_000_000, scaled % 10_000_000);
            prop_assert_eq!(parse_hours(&text), Some(9 * nines));
            prop_assert_eq!(parse_hours(&format!("{text}1")), None);
        }
    }
}
