// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare jobs`: the terms of the priorities of pending jobs.

pub(super) mod columns;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::collections::{BTreeSet, HashMap};

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::{INACTIVE, InstanceArg, NO_DATA, RUN, ask_listed, configured_queues};
use crate::plugin::jobs::{fetch, find_hold_other_than_limits};
use crate::plugin::live_tree::fetch_live_tree_settings;
use crate::plugin::scheduling::{StoppedQueues, ask_estimates};
use crate::ui::figures::half_life_text;
use crate::ui::messages::remark;
use crate::ui::order::compare_cells;
use crate::ui::output::{Facts, OutputArgs, Report};
use crate::ui::printable::{count, sentence};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Column, Look, Rows, Style, column};
use crate::ui::suggest::did_you_mean;
use crate::ui::words::{Words, caller, is_owner, userid};
use columns::{ChosenColumn, Columns, Listing, PARTS, format_cell, give_up};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{JobsPage, ListedJob};
use fairshare_engine::ids::Word;

/// Show the priorities of pending jobs and the terms that they are made of
///
/// Shows the values from which the plugin computed each posted priority, even if settings have changed since: the terms of a job
/// sum to its priority. Users see their own jobs, the instance owner sees all jobs.
///
/// Exit status 1 means that there is no such bank or queue, or that a named job is not pending or belongs to another user.
#[derive(Debug, clap::Args)]
#[command(after_long_help = columns::help())]
pub(crate) struct Args {
    /// The jobs of these users, by name or number; "all" is every user
    #[arg(short, long, value_name = "USER", value_delimiter = ',', help_heading = "Selection")]
    user: Vec<String>,
    /// The jobs of all users that you may see; the default for the instance owner
    #[arg(short = 'A', long, conflicts_with = "user", help_heading = "Selection")]
    all: bool,
    /// The jobs in these queues
    #[arg(short, long, value_name = "QUEUE", value_delimiter = ',', help_heading = "Selection")]
    queue: Vec<String>,
    /// The jobs in these banks
    #[arg(short, long, value_name = "BANK", value_delimiter = ',', help_heading = "Selection")]
    bank: Vec<String>,
    /// These jobs; ids may have any form that Flux accepts
    #[arg(short, long, value_name = "IDS", value_delimiter = ',', help_heading = "Selection")]
    jobs: Vec<String>,
    /// Show factors without their weights
    #[arg(long)]
    normalized: bool,
    /// Show the weights instead of jobs
    #[arg(short, long, conflicts_with_all = ["chosen", "order", "long"])]
    weights: bool,
    /// Show more columns
    #[arg(short, long)]
    long: bool,
    /// Show these columns; names, or a format of sprio
    #[arg(short = 'o', long = "format", value_name = "COLUMNS")]
    chosen: Option<String>,
    /// Sort by these columns; with a leading -, the largest first
    #[arg(
        short = 'S',
        long = "sort",
        value_name = "ORDER",
        default_value = "-priority,id",
        allow_hyphen_values = true
    )]
    order: String,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    let ids: Result<BTreeSet<u64>, String> = args.jobs.iter().map(|text| parse_id(&flux, text)).collect();
    let ids = Vec::from_iter(ids.map_err(failure)?);
    let is_owner = is_owner(&flux);
    let users = select_users(args, is_owner).map_err(failure)?;
    let request = build_request(args, &ids, users.as_deref());
    let mut page = fetch(&flux, &request, usize::MAX)?;
    page.jobs.retain(|row| {
        let among = |list: &[String], name: Option<&str>| {
            list.is_empty() || name.is_some_and(|name| list.iter().any(|one| one == name))
        };
        among(&args.queue, row.queue.as_deref())
            && among(&args.bank, row.bank.as_deref())
            && users.as_ref().is_none_or(|users| users.contains(&row.userid.0))
    });
    if page.generation == 0 {
        // Pending jobs wait for data, so an empty list would be misleading.
        remark(NO_DATA);
        return Ok(Answer::No);
    }
    let words = Words::for_flux_instance(&flux, page.now);
    let unknown = find_unknown_names(args, &page, &flux)?;
    if !unknown.is_empty() {
        unknown.iter().for_each(remark);
        return Ok(Answer::No);
    }
    let user =
        users.as_ref().and_then(|users| if let [user] = users.as_slice() { Some(*user) } else { None });
    let mut listing = Listing { page, ..Listing::default() };
    if args.weights {
        listing.half_life = fetch_live_tree_settings(&flux).map(|tree| tree.half_life);
    } else if !listing.page.jobs.is_empty() {
        listing.stopped = StoppedQueues::ask(&flux, listing.page.jobs.iter().map(|row| row.queue.as_deref()));
        listing.estimates = ask_estimates(&flux, user);
    }
    let page = &listing.page;
    // A table without any of the named jobs would say that there are no pending jobs.
    if ids.is_empty() || !page.jobs.is_empty() || args.weights || !args.output.is_table() {
        print(args, &listing, &words, &describe_empty_list(args, users.as_deref(), is_owner, &words))?;
    }
    let missing: Vec<&u64> = ids.iter().filter(|id| !page.jobs.iter().any(|row| row.id.0 == **id)).collect();
    for id in &missing {
        remark(format_args!(
            "{} {}",
            words.job(**id),
            explain_unlisted_job(args, &flux, **id, is_owner, &words)
        ));
    }
    Ok(if missing.is_empty() { Answer::Yes } else { Answer::No })
}

/// Returns why the plugin does not list a job, as a sentence without a subject, with the command that explains the job.
fn explain_unlisted_job(args: &Args, flux: &Flux, id: u64, is_owner: bool, words: &Words<'_>) -> String {
    let why = format!("\"flux fairshare why {}{}\" explains", words.job(id), args.instance.option());
    let Some(job) = ask_listed::<HashMap<String, u64>>(flux, id, &["userid", "state"]) else {
        return format!(
            "is not listed by Flux, or Flux does not show it to you; {why} a job of yours that ended"
        );
    };
    let [user, state] = ["userid", "state"].map(|key| job.get(key).copied().unwrap_or_default());
    match (u32::try_from(user).unwrap_or_default(), state) {
        (user, _) if !is_owner && user != caller() => {
            format!("belongs to {}, and you see only your own jobs", words.user(user))
        }
        (_, INACTIVE) => format!("has ended; {why} how long it waited"),
        (_, RUN..) => format!("has started; {why} how long it waited"),
        _ => format!("is pending, and the other options leave it out; {why} it"),
    }
}

/// Parses a job id in any form that Flux accepts.
pub(super) fn parse_id(flux: &Flux, text: &str) -> Result<u64, String> {
    flux.parse_job_id(text.trim()).ok_or_else(|| format!("\"{text}\" is not a job id"))
}

/// Returns a message for each bank and queue in `args` that does not exist.
fn find_unknown_names(args: &Args, page: &JobsPage, flux: &Flux) -> Result<Vec<String>> {
    let is_listed =
        |name: &str, of: fn(&ListedJob) -> Option<&str>| page.jobs.iter().any(|row| of(row) == Some(name));
    let banks: Vec<&String> =
        args.bank.iter().filter(|bank| !is_listed(bank, |row| row.bank.as_deref())).collect();
    let queues_left: Vec<&String> =
        args.queue.iter().filter(|queue| !is_listed(queue, |row| row.queue.as_deref())).collect();
    let ask = |key: &str, name: &str| {
        let wanted = Map::from_iter([(key.to_owned(), json!(name))]);
        fetch(flux, &wanted, 1)
    };
    let mut unknown = Vec::new();
    for bank in banks {
        let page = ask("bank", bank)?;
        if page.jobs.is_empty() && !page.has_bank {
            unknown.push(format!("no bank \"{bank}\" in the data that were pushed into the plugin"));
        }
    }
    let of_flux = if queues_left.is_empty() { Default::default() } else { configured_queues(flux) };
    for queue in queues_left {
        let page = ask("queue", queue)?;
        if page.jobs.is_empty() && !page.has_queue && !of_flux.contains(queue) {
            let near = did_you_mean(queue, of_flux.iter().map(String::as_str));
            unknown.push(match of_flux.is_empty() {
                true => format!("no queue \"{queue}\": this instance has no named queues"),
                false => format!("no queue \"{queue}\" in this instance{near}"),
            });
        }
    }
    Ok(unknown)
}

/// Returns the message that no job matches the options.
fn describe_empty_list(args: &Args, users: Option<&[u32]>, is_owner: bool, words: &Words<'_>) -> String {
    let of = match users {
        Some([user]) if *user == caller() && args.user.is_empty() => " of yours".to_owned(),
        Some(users) => {
            let names: Vec<String> = users.iter().map(|user| words.user(*user)).collect();
            format!(" of {}", names.join(", "))
        }
        None if is_owner => String::new(),
        None => " of yours".to_owned(),
    };
    let within = |what: &str, names: &[String]| match names {
        [] => String::new(),
        names => format!(" in {what} {}", names.join(", ")),
    };
    format!("No pending jobs{of}{}{}.", within("bank", &args.bank), within("queue", &args.queue))
}

/// Returns the users whose jobs are selected, or `None` for all jobs that the caller may see.
fn select_users(args: &Args, is_owner: bool) -> Result<Option<Vec<u32>>, String> {
    if args.all || args.user.iter().any(|user| user == "all") {
        return Ok(None);
    }
    if args.user.is_empty() {
        return Ok((args.jobs.is_empty() && !is_owner).then(|| vec![caller()]));
    }
    args.user.iter().map(|user| userid(user)).collect::<Result<_, _>>().map(Some)
}

/// Builds the request. The plugin selects by at most one user, one bank and one queue. If `args` name several, the command selects from the
/// plugin's answer about all jobs.
fn build_request(args: &Args, ids: &[u64], users: Option<&[u32]>) -> Map<String, Value> {
    let mut wanted = Map::new();
    let mut put = |key: &str, value: Option<Value>| {
        wanted.extend(value.map(|value| (key.to_owned(), value)));
    };
    put("ids", (!ids.is_empty()).then(|| json!(ids)));
    put("user", users.and_then(|users| if let [user] = users { Some(json!(user)) } else { None }));
    put("queue", if let [queue] = args.queue.as_slice() { Some(json!(queue)) } else { None });
    put("bank", if let [bank] = args.bank.as_slice() { Some(json!(bank)) } else { None });
    wanted
}

fn print(args: &Args, listing: &Listing, words: &Words<'_>, none: &str) -> Result<()> {
    let page = &listing.page;
    let report_columns = Columns::new(&page.terms, args.normalized);
    let give_up = if args.chosen.is_some() { Vec::new() } else { give_up() };
    let look = Look { give_up: &give_up, parts: PARTS, ..Look::WHOLE };
    let report = if args.weights {
        build_weights_report(listing, &report_columns)
    } else {
        build_report(args, listing, &report_columns, words, none).map_err(failure)?
    };
    Ok(args.output.print_as(report, look, Progress::none())?)
}

/// Returns the present weights, and the earlier weights with which posted priorities were computed.
fn build_weights_report<'a>(listing: &'a Listing, columns: &'a Columns) -> Report<'a> {
    let page = &listing.page;
    let terms: Vec<ChosenColumn> = columns.list_priority_term_columns().collect();
    let mut shown: Vec<_> = terms.iter().map(|term| columns.column(term)).collect();
    for column in &mut shown {
        column.style = Style::Term;
    }
    // An earlier version of the plugin does not send the present weights.
    let mut kinds = Vec::from_iter(Some(&page.weights).filter(|weights| !weights.is_empty()));
    for weights in &page.weighings {
        if !kinds.contains(&weights) {
            kinds.push(weights);
        }
    }
    let mut notes = Vec::new();
    if kinds.len() > 1 && !page.weights.is_empty() {
        let text = "Jobs whose weights are not present keep an earlier priority until the plugin posts a new one, at urgency 0 indefinitely.";
        notes.push(text.to_owned());
    }
    notes.extend(listing.half_life.map(|it| format!("Half-life of usage: {}", half_life_text(it))));
    let mut all = vec![PRESENT, JOBS];
    all.append(&mut shown);
    let rows = kinds.into_iter().map(|weights| {
        let weights_of = |row: &ListedJob| page.weighings.get(row.weighing?);
        let jobs = page.jobs.iter().filter(|row| weights_of(row) == Some(weights)).count();
        let head = [Cell::Flag(*weights == page.weights), Cell::Count(jobs as u64)];
        head.into_iter().chain(weights.iter().map(|weight| Cell::Number(*weight as f64))).collect()
    });
    Report { rows: Rows { key: "weights", columns: all, rows: Box::new(rows) }, notes, ..Report::default() }
}

/// The JSON document without the jobs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct JobsReportHeader<'a> {
    /// The time of the answer in seconds since the epoch.
    now: f64,
    /// The number of pushes.
    generation: u64,
    /// True if the plugin computes fair-shares from live usage.
    live: bool,
    /// The names of the terms, in the order in which they are summed.
    terms: &'a [Word],
    /// The weights of the terms that made the posted priorities.
    weighings: &'a [Vec<i64>],
}

fn build_report<'a>(
    args: &Args,
    listing: &'a Listing,
    columns: &'a Columns,
    words: &'a Words<'_>,
    none: &str,
) -> Result<Report<'a>, String> {
    let page = &listing.page;
    let is_table = args.output.is_table();
    let chosen = match &args.chosen {
        Some(text) => columns.parse(text).map_err(|text| format!("--format: {text}"))?,
        None => default_columns(args.long || !is_table, is_table, listing, columns),
    };
    let keys = parse_sort_keys(&args.order, columns).map_err(|text| format!("--sort: {text}"))?;
    let mut rows: Vec<&ListedJob> = page.jobs.iter().collect();
    rows.sort_by(|a, b| {
        let by = |(chosen, descending): &(ChosenColumn, bool)| {
            compare_rows(chosen, *descending, a, b, listing, words)
        };
        keys.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    });
    let companion = args.output.json.then_some(ID_DECIMAL);
    let shown = chosen.iter().map(|chosen| columns.column(chosen)).chain(companion).collect();
    let mut notes =
        if rows.is_empty() && is_table { vec![none.to_owned()] } else { list_job_notes(&rows, listing) };
    let has_times = chosen.iter().any(|chosen| columns.column(chosen).style == Style::Time);
    notes.extend((has_times && is_table && !rows.is_empty()).then(|| words.make_time_zone_note()));
    let cells = move |row: &'a ListedJob| {
        let cells = chosen.iter().map(|chosen| format_cell(chosen, row, listing, words, is_table));
        cells.chain(companion.map(|_| Cell::Text(row.id.0.to_string()))).collect()
    };
    let facts = JobsReportHeader {
        now: page.now,
        generation: page.generation,
        live: page.live,
        terms: &page.terms,
        weighings: &page.weighings,
    };
    let facts = Facts::new(&facts).map_err(|error| error.to_string())?;
    let rows = Rows { key: "jobs", columns: shown, rows: Box::new(rows.into_iter().map(cells)) };
    Ok(Report { facts, rows, notes, ..Report::default() })
}

/// The column that shows whether the plugin uses these weights for new priorities.
pub(super) const PRESENT: Column<'static> = column("present", "Present", Style::Flag);

/// The column that shows how many jobs have the weights of the row.
pub(super) const JOBS: Column<'static> = column("jobs", "Jobs", Style::Count);

/// The job id in digits, in JSON.
pub(super) const ID_DECIMAL: Column<'static> = column("id_decimal", "", Style::Text);

/// Returns the default columns. Of the terms, only those with a weight are shown, unless `long` is set.
fn default_columns(long: bool, is_table: bool, listing: &Listing, columns: &Columns) -> Vec<ChosenColumn> {
    let page = &listing.page;
    let any = |is: &dyn Fn(&ListedJob) -> bool| page.jobs.iter().any(is);
    let find = |shown: bool, names: &str| {
        let names = names.split(' ').filter(move |_| shown);
        names.filter_map(|name| columns.find(name).ok()).collect::<Vec<_>>()
    };
    let weighs = |term: &ChosenColumn| match term {
        ChosenColumn::Term(at, _) => {
            page.weighings.iter().any(|weights| weights.get(*at).is_some_and(|weight| *weight != 0))
        }
        ChosenColumn::Fixed(_) => true,
    };
    let has_estimate = |row: &ListedJob| listing.estimates.contains_key(&row.id.0);
    let is_held = |row: &ListedJob| !row.holds.is_empty() || find_hold_other_than_limits(row).is_some();
    let terms = columns.list_priority_term_columns().filter(|term| long || weighs(term));
    [
        find(true, "id user bank queue priority"),
        find(long || any(&|row| row.place.is_some()), "place"),
        find(!is_table, "place_of"),
        find(!is_table || any(&has_estimate), "estimated_start"),
        find(long, "state urgency nodes cores submitted"),
        terms.collect(),
        find(long, "sum outcome exact when"),
        find(long || any(&is_held), "holds"),
        find(long || any(&|row| row.is_kept), "kept"),
        find(!is_table, "userid queue_stopped"),
    ]
    .concat()
}

fn parse_sort_keys(text: &str, columns: &Columns) -> Result<Vec<(ChosenColumn, bool)>, String> {
    let keys = text.split(',').map(str::trim).filter(|key| !key.is_empty());
    keys.map(|key| {
        let (name, descending) = match key.strip_prefix('-') {
            Some(name) => (name, true),
            None => (key.strip_prefix('+').unwrap_or(key), false),
        };
        columns.find(name).map(|chosen| (chosen, descending))
    })
    .collect()
}

/// Compares two rows by a column, as sprio does. A row without a value is always last.
fn compare_rows(
    chosen: &ChosenColumn,
    descending: bool,
    a: &ListedJob,
    b: &ListedJob,
    listing: &Listing,
    words: &Words<'_>,
) -> Ordering {
    let [first, second] = [a, b].map(|row| format_cell(chosen, row, listing, words, false));
    // The F58 form of ids does not sort by number.
    match (columns::is_id(chosen), descending) {
        (true, false) => a.id.cmp(&b.id),
        (true, true) => b.id.cmp(&a.id),
        (false, _) => compare_cells(&first, &second, descending),
    }
}

/// Returns notes about held jobs, jobs without a priority, stale priorities, stopped queues, and missing estimates.
fn list_job_notes(rows: &[&ListedJob], listing: &Listing) -> Vec<String> {
    let held = rows.iter().filter(|row| !row.holds.is_empty()).count();
    let without_priority = rows.iter().filter(|row| held == 0 && row.priority.is_none()).count();
    let late = rows.iter().filter(|row| row.exact.is_some() && row.exact != row.priority).count();
    let resting = rows.iter().filter(|row| find_hold_other_than_limits(row) == Some("urgency 0")).count();
    let mut notes = Vec::new();
    let mut note = |jobs: usize, text: &str| {
        let verb = if jobs == 1 { "is" } else { "are" };
        notes.extend((jobs > 0).then(|| format!("{} {verb} {text}", count(jobs, "job"))));
    };
    note(held, "held by a limit and not counted in places; \"flux fairshare why JOBID\" says until when.");
    note(without_priority, "without a priority yet; \"flux fairshare why JOBID\" says why.");
    note(resting, "held with urgency 0 until \"flux job urgency JOBID 16\".");
    if late > 0 {
        let jobs = count(late, "job");
        notes.push(format!("The posted priority of {jobs} is stale (-l shows the current one)."));
    }
    notes.extend(listing.stopped.texts().map(|text| sentence(&text)));
    if rows.iter().any(|row| row.place.is_some()) && listing.estimates.is_empty() {
        notes.push("When jobs start is unknown: the scheduler gives no estimates.".to_owned());
    }
    notes
}
