// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare usage`: usage from job records, and the parts of an association's current usage.

use std::collections::{BTreeMap, HashMap};

use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use serde::Serialize;

use crate::clock::{now, parse_absolute_time};
use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::InstanceArg;
use crate::plugin::running::{self, Running};
use crate::site::database::DatabaseArg;
use crate::ui::figures::{Unit, format_moment, parse_duration, plain, to_zoned, zone_name};
use crate::ui::messages::remark;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::{count, printable};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Look, Rows, Style, column};
use fairshare_accounting::pipeline::StoredPeriods;
use fairshare_accounting::pipeline::report::{self, Query, Unknown, Usage};
use fairshare_accounting::store::{Access, UsageBin};
use fairshare_client::user_name;

/// Show node, core and GPU hours of users, banks, projects or days, from the records of ended jobs and from running jobs
///
/// Only the part of a job between --since and --until counts; with --whole, a job counts completely at its end, as in
/// "flux account view-usage-report". Running jobs count until now if Flux answers, but not with --whole, and with --path only if --uri
/// is given too. Flux shows a guest no GPUs of the running jobs of others, and in private mode none of these jobs. Jobs that ended after
/// the last sync do not count yet.
///
/// --by period shows instead the parts of each association's stored usage by half-life period, including credits, when each part
/// decays and when it expires. Stored usage decays at period boundaries. The live usage in the plugin, which makes priorities, decays
/// continuously with the same half-life, and "flux fairshare show" prints it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    database: DatabaseArg,
    /// The beginning: 2026-11-21, 2026-11-21T13:00, 2026-11-21T12:00:00Z, seconds since the epoch, or how long ago (90m, 12h, 7d, 4w)
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// The end, in the forms of --since
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Group usage by this
    #[arg(long, value_name = "WHAT", default_value = "association")]
    by: By,
    /// Only these users
    #[arg(short, long, value_name = "USER", value_delimiter = ',')]
    user: Vec<String>,
    /// Only these banks and those below them
    #[arg(short, long, value_name = "BANK", value_delimiter = ',')]
    bank: Vec<String>,
    /// Count each job completely at the time of its end
    #[arg(long)]
    whole: bool,
    /// Show this many in the table, 0 is all
    #[arg(long, value_name = "NUMBER", default_value_t = 40, help_heading = "Output")]
    limit: usize,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum By {
    Association,
    User,
    Bank,
    Project,
    Day,
    Period,
}

/// The length of a bar, in cells.
const BAR: usize = 24;
const HOUR: f64 = 3600.0;

pub(super) fn run(args: &Args) -> Outcome {
    let zone = TimeZone::system();
    let present = now(None);
    let parse_bound = |text: &Option<String>, otherwise: f64| -> Result<f64> {
        text.as_ref().map_or(Ok(otherwise), |text| parse_instant(text, present, &zone)).map_err(failure)
    };
    let (since, until) = (parse_bound(&args.since, 0.0)?, parse_bound(&args.until, f64::INFINITY)?);
    if let Some(end) = args.until.as_ref().filter(|_| until < since) {
        return Err(failure(format!("--until: {end} is before --since; exchange the two times")));
    }
    if let Some(begin) = args.since.as_ref().filter(|_| since > present) {
        return Err(failure(format!("--since: {begin} is in the future")));
    }
    let is_of_jobs = args.whole || args.since.is_some() || args.until.is_some();
    if is_of_jobs && matches!(args.by, By::Period) {
        let text = "--by period shows stored usage, to which --since, --until and --whole do not apply";
        return Err(failure(text));
    }
    let mut progress = Progress::start();
    progress.phase("reading", || 0);
    let by = match args.by {
        By::Period => return print_periods(args, progress, present, &zone),
        By::User => report::By::User,
        By::Bank => report::By::Bank,
        By::Project => report::By::Project,
        By::Day => report::By::Day,
        By::Association => report::By::Association,
    };
    let running = match args.whole {
        true => Err("a job counts at its end with --whole".to_owned()),
        false => running::list(&args.instance, args.database.is_given()),
    };
    let query = Query {
        since,
        until,
        whole: args.whole,
        by,
        running: running.as_deref().unwrap_or_default(),
        now: present,
        users: &args.user,
        banks: &args.bank,
        day: &|instant| find_day(instant, &zone),
        name: &|userid| {
            let name = u32::try_from(userid).ok().and_then(user_name);
            name.unwrap_or_else(|| userid.to_string())
        },
    };
    let (usage, last_sync) = {
        let mut database = args.database.open(Access::Read)?;
        let snapshot = database.snapshot()?;
        (Usage::new(&snapshot, &query)?, snapshot.last_sync()?)
    };
    drop(progress);
    if usage.unreadable > 0 {
        let what = count(usage.unreadable, "record");
        remark(format_args!(
            "{}: {what} left out: the resources or times can't be read",
            args.database.path().display()
        ));
    }
    if print_unknown_names(args, &usage.unknown) {
        return Ok(Answer::No);
    }
    print(args, usage, &query, &zone, &running, last_sync)?;
    Ok(Answer::Yes)
}

/// Prints the requested users and banks that do not exist. Returns true if there are any.
fn print_unknown_names(args: &Args, unknown: &Unknown) -> bool {
    let named = |what: &'static str, names: &[String]| {
        for name in names {
            remark(format_args!("{}: no {what} \"{}\"", args.database.path().display(), printable(name)));
        }
        !names.is_empty()
    };
    let users = named("user", &unknown.users);
    named("bank", &unknown.banks) || users
}

fn print(
    args: &Args,
    usage: Usage,
    query: &Query<'_>,
    zone: &TimeZone,
    running: &Running,
    last_sync: Option<f64>,
) -> std::io::Result<()> {
    let Usage { lines, total, .. } = usage;
    let by = query.by;
    let since = Some(query.since).filter(|since| *since > 0.0);
    let until = query.until.min(query.now);
    let from = since.map_or("the first record of a job".to_owned(), |since| format_moment(since, zone));
    let period = format!("Usage from {from} to {}{}.", format_moment(until, zone), zone_name(until, zone));
    let mut lines: Vec<_> = lines.into_iter().collect();
    if by != report::By::Day {
        lines.sort_by(|one, other| other.1.nodes.total_cmp(&one.1.nodes));
    }
    let most = lines.iter().map(|(_, used)| used.nodes).fold(0.0, f64::max);
    let (shown, mut notes) = args.output.limit_rows(lines.len(), args.limit);
    notes.push(format!(
        "{}: {} node-hours, {} core-hours, {} GPU-hours, which do not decay; Part is the fraction of these node-hours",
        count(total.jobs, "job"),
        plain(total.nodes / HOUR),
        plain(total.cores / HOUR),
        plain(total.gpus / HOUR)
    ));
    notes.push(match running {
        Ok(_) => format!(
            "Of this, {} used {} node-hours until now (Running).",
            count(total.running_jobs, "running job"),
            plain(total.running_nodes / HOUR)
        ),
        Err(reason) => format!("Only ended jobs count, because {reason}."),
    });
    notes.extend(describe_unsynced_jobs(last_sync, zone));
    let is_counted = running.is_ok();
    let hours = |seconds: f64| Cell::Number(seconds / HOUR);
    let report = Report {
        facts: Facts::new(&UsageTotals {
            since,
            until,
            jobs: total.jobs,
            node_hours: total.nodes / HOUR,
            core_hours: total.cores / HOUR,
            gpu_hours: total.gpus / HOUR,
            running_jobs: is_counted.then_some(total.running_jobs),
            running_node_hours: is_counted.then_some(total.running_nodes / HOUR),
        })?,
        rows: Rows {
            key: "usage",
            columns: columns(by),
            rows: Box::new(lines.into_iter().take(shown).map(move |((name, bank), used)| {
                let mut row = vec![Cell::Text(name)];
                row.extend((by == report::By::Association).then_some(Cell::Text(bank)));
                row.push(Cell::Count(used.jobs as u64));
                row.push(hours(used.nodes));
                row.push(if is_counted { hours(used.running_nodes) } else { Cell::None });
                row.extend([used.cores, used.gpus].map(hours));
                let part = |of: f64| if of > 0.0 { used.nodes / of } else { 0.0 };
                row.push(Cell::Number(part(total.nodes)));
                row.push(Cell::Bar { usage: (part(most) * BAR as f64).round() as usize, share: BAR + 1 });
                row
            })),
        },
        before: if args.output.no_header { Vec::new() } else { vec![period] },
        notes,
        ..Report::default()
    };
    let look = Look { give_up: &["bar", "running_node_hours", "gpu_hours", "core_hours"], ..Look::WHOLE };
    args.output.print_as(report, look, Progress::none())
}

/// Returns the note about the jobs that are not on record yet.
fn describe_unsynced_jobs(last_sync: Option<f64>, zone: &TimeZone) -> Option<String> {
    let at = format_moment(last_sync?, zone);
    Some(format!("Jobs that ended after the last sync, at {at}, are missing."))
}

/// The totals of the jobs in the interval. Hours do not decay.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UsageTotals {
    /// The start of the interval in seconds since the epoch; null if all records count.
    since: Option<f64>,
    /// The end of the interval in seconds since the epoch, at most the present time.
    until: f64,
    /// The number of jobs.
    jobs: usize,
    /// Nodes times hours.
    node_hours: f64,
    /// Cores times hours.
    core_hours: f64,
    /// GPUs times hours.
    gpu_hours: f64,
    /// The number of running jobs in `jobs`; null if only ended jobs count.
    running_jobs: Option<usize>,
    /// The part of `node_hours` that running jobs have used; null if only ended jobs count.
    running_node_hours: Option<f64>,
}

/// Returns the columns of the usage in an interval, grouped by `by`.
pub(super) fn columns(by: report::By) -> Vec<Column<'static>> {
    let mut columns = match by {
        report::By::Association => {
            vec![column("user", "User", Style::Text), column("bank", "Bank", Style::Text)]
        }
        report::By::User => vec![column("user", "User", Style::Text)],
        report::By::Bank => vec![column("bank", "Bank", Style::Text)],
        report::By::Project => vec![column("project", "Project", Style::Text)],
        report::By::Day => vec![column("day", "Day", Style::Text)],
    };
    columns.extend([
        column("jobs", "Jobs", Style::Count),
        column("node_hours", "NodeHours (not decayed)", Style::Usage(Unit::Unknown)),
        column("running_node_hours", "Running", Style::Usage(Unit::Unknown)),
        column("core_hours", "CoreHours", Style::Usage(Unit::Unknown)),
        column("gpu_hours", "GPUHours", Style::Usage(Unit::Unknown)),
        column("part", "Part", Style::Fraction),
        column("bar", "", Style::Bar(BAR)),
    ]);
    columns
}

/// Prints the current usage of associations by half-life period.
fn print_periods(args: &Args, progress: Progress, present: f64, zone: &TimeZone) -> Outcome {
    let mut database = args.database.open(Access::Read)?;
    let snapshot = database.snapshot()?;
    snapshot.check_usage_schema()?;
    let settings = snapshot.usage_settings()?;
    let ledger = snapshot.ledger(&mut |_| ())?;
    let bins = snapshot.bins(&ledger)?;
    let unit = Unit::new(snapshot.pace()?.is_node_seconds());
    let bins_of = StoredPeriods::read(&snapshot, present)?;
    let credits = snapshot.read_usage_bins_with_credits(None)?;
    let credits: HashMap<(String, String), Vec<UsageBin>> =
        credits.into_iter().map(|(user, bank, bins)| ((user, bank), bins)).collect();
    let last_sync = snapshot.last_sync()?;
    drop(snapshot);
    drop(database);
    // Ends the progress line before other output.
    drop(progress);
    if print_unknown_names(args, &Unknown::find(&ledger, &args.user, &args.bank)) {
        return Ok(Answer::No);
    }
    let banks = report::include_banks_below(&ledger, &args.bank);
    let (mut rows, mut are_parts_left_out) = (Vec::new(), false);
    for (account, bins) in ledger.accounts.iter().zip(&bins.by_account) {
        let bank = ledger.bank_name(account);
        if !(args.user.is_empty() || args.user.contains(&account.user))
            || !(args.bank.is_empty() || banks.contains(bank))
        {
            continue;
        }
        let mut usages: BTreeMap<i64, f64> = bins.iter().map(|bin| (bin.period, bin.value)).collect();
        for bin in credits.get(&(account.user.clone(), bank.to_owned())).into_iter().flatten() {
            *usages.entry(bin.period).or_default() += bin.usage;
        }
        // If credits make the usage of a period negative, fractions of the total usage have no meaning. They are left
        // out.
        let has_parts = account.usage > 0.0 && usages.values().all(|usage| *usage >= 0.0);
        let period_count = usages.keys().next_back().map_or(1, |period| period + 1);
        for (period, usage) in usages.into_iter().filter(|(_, usage)| *usage != 0.0) {
            let began = bins_of.start(period);
            let part = has_parts.then(|| usage / account.usage);
            let bar = |part: f64| Cell::Bar { usage: (part * BAR as f64).round() as usize, share: BAR + 1 };
            are_parts_left_out |= part.is_none();
            rows.push(vec![
                Cell::Text(account.user.clone()),
                Cell::Text(bank.to_owned()),
                Cell::Count(period.unsigned_abs()),
                Cell::Number(began),
                Cell::Number(began + settings.half_life),
                Cell::Number(usage),
                part.into(),
                part.map_or(Cell::None, bar),
                Cell::Number(bins_of.start(-1)),
                Cell::Number(bins_of.start(period - period_count)),
            ]);
        }
    }
    let (shown, mut notes) = args.output.limit_rows(rows.len(), args.limit);
    notes.extend(rows.is_empty().then(|| "No usage is stored.".to_owned()));
    let in_seconds = "; its unit is the second, times the weights of nodes, cores and GPUs";
    notes.push(format!(
        "Stored usage is multiplied by {} at each period boundary; the next is at {}{}. Live usage, which \"flux fairshare show\" prints \
         and which makes priorities, decays continuously.",
        settings.decay,
        format_moment(bins_of.start(-1), zone),
        if unit == Unit::Unknown { in_seconds } else { "" }
    ));
    if are_parts_left_out {
        notes.push(
            "Part is empty if credits cancel all usage of the association, or more than that of a period."
                .to_owned(),
        );
    }
    notes.extend(describe_unsynced_jobs(last_sync, zone));
    let report = Report {
        facts: Facts::new(&UsageDecayFields {
            half_life: settings.half_life,
            half_life_seconds: settings.half_life,
            decay_factor: settings.decay,
            next_boundary: bins_of.start(-1),
        })?,
        rows: Rows {
            key: "periods",
            columns: period_columns(unit),
            rows: Box::new(rows.into_iter().take(shown)),
        },
        notes,
        ..Report::default()
    };
    // The columns `decays` and `to` may be left out, because the note and the column `from` give the same
    // information.
    let look = Look { give_up: &["bar", "decays", "to"], ..Look::WHOLE };
    args.output.print_as(report, look, Progress::none())?;
    Ok(Answer::Yes)
}

/// Returns the columns of the usage by period.
pub(super) fn period_columns(unit: Unit) -> Vec<Column<'static>> {
    let usage = if unit == Unit::NodeSeconds { "NodeHours (decayed)" } else { "Usage (decayed)" };
    vec![
        column("user", "User", Style::Text),
        column("bank", "Bank", Style::Text),
        column("period", "Period", Style::Count),
        column("from", "From", Style::Time),
        column("to", "To", Style::Time),
        column("usage", usage, Style::Usage(unit)),
        column("part", "Part", Style::Fraction),
        column("bar", "", Style::Bar(BAR)),
        column("decays", "Decays", Style::Time),
        column("forgotten", "Expires", Style::Time),
    ]
}

/// The decay of usage.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UsageDecayFields {
    /// The length of a period in seconds.
    half_life: f64,
    /// The same number as `half_life`. The name of this member contains the unit.
    half_life_seconds: f64,
    /// The factor by which usage is multiplied at each period boundary.
    decay_factor: f64,
    /// The next period boundary in seconds since the epoch.
    next_boundary: f64,
}

pub(super) fn epoch_seconds(when: &Zoned) -> f64 {
    when.timestamp().as_microsecond() as f64 / 1e6
}

/// Returns the day that contains `instant`, and the end of that day in seconds since the epoch.
fn find_day(instant: f64, zone: &TimeZone) -> (String, f64) {
    let Some(when) = to_zoned(instant, zone) else { return (String::new(), f64::INFINITY) };
    let end = when.tomorrow().and_then(|next| next.start_of_day());
    (when.strftime("%Y-%m-%d").to_string(), end.map_or(f64::INFINITY, |end| epoch_seconds(&end)))
}

/// Parses a time: seconds since the epoch, a date, or how long before `present`. Returns seconds since the epoch.
pub(super) fn parse_instant(text: &str, present: f64, zone: &TimeZone) -> Result<f64, String> {
    if let Some(seconds) = parse_absolute_time(text) {
        return Ok(seconds);
    }
    if let Ok(ago) = parse_duration(text) {
        return Ok(present - ago.as_secs_f64());
    }
    let local: Option<DateTime> = text.parse().ok();
    local
        .and_then(|local| local.to_zoned(zone.clone()).ok())
        .map(|when| epoch_seconds(&when))
        .ok_or_else(|| format!("{text}: expected a date, seconds since the epoch, or how long ago (7d)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_parsed_in_each_form() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let typed = |text| parse_instant(text, 1_000_000.0, &zone);
        assert_eq!(typed("1700000000.5"), Ok(1_700_000_000.5));
        assert_eq!(typed("2h"), Ok(992_800.0));
        assert_eq!(typed("1w"), Ok(395_200.0));
        assert_eq!(typed("1970-01-02"), Ok(82_800.0));
        assert_eq!(typed("1970-01-02T01:00"), Ok(86_400.0));
        // The time zone of the text takes precedence over that of the system. JSON documents have times in UTC.
        for text in ["1970-01-02T00:00:00Z", "1970-01-02T05:00+05:00", "1970-01-02T00:00[UTC]"] {
            assert_eq!(typed(text), Ok(86_400.0), "{text}");
        }
        for text in ["soon", "nan", "inf"] {
            assert!(typed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_day_that_starts_summer_time_has_23_hours() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let (name, end) = find_day(1_774_738_800.0, &zone);
        assert_eq!(name, "2026-03-29");
        assert_eq!(end - 1_774_738_800.0, 23.0 * HOUR);
    }
}
