// SPDX-License-Identifier: LGPL-3.0-only
//! Tables of jobs.

use clap::Parser;
use serde_json::json;

use super::columns::{ChosenColumn, Columns, Listing, PARTS, give_up};
use super::{Args, build_report, build_weights_report};
use crate::plugin::jobs::append;
use crate::tests::golden::{NOW, check, make_jobs_page, make_screen, make_words};
use crate::ui::progress::Progress;
use crate::ui::rows::Look;
use crate::ui::table::Table;
use fairshare_engine::engine::answers::JobsPage;
use fairshare_engine::ids::JobId;

#[derive(Parser)]
struct JobsCommand {
    #[command(flatten)]
    args: Args,
}

fn parse_args(text: &str) -> Args {
    let words = std::iter::once("jobs").chain(text.split_whitespace());
    JobsCommand::try_parse_from(words).expect("arguments").args
}

fn jobs_page() -> JobsPage {
    serde_json::from_value(make_jobs_page()).expect("a page")
}

/// Returns the output on a screen of `width` columns.
fn print_jobs(text: &str, width: usize) -> String {
    print_listing(text, width, &Listing { page: jobs_page(), ..Listing::default() })
}

fn print_listing(text: &str, width: usize, listing: &Listing) -> String {
    let (args, screen, words) = (parse_args(text), make_screen(width), make_words());
    let columns = Columns::new(&listing.page.terms, args.normalized);
    let report = if args.weights {
        build_weights_report(listing, &columns)
    } else {
        build_report(&args, listing, &columns, &words, "No pending jobs.").expect("a report")
    };
    let give_up = if args.chosen.is_some() { Vec::new() } else { give_up() };
    let mut out = Vec::new();
    Table::new(&screen, Look { header: true, give_up: &give_up, parts: PARTS })
        .print(report.rows, false, &mut Progress::none(), &mut out)
        .expect("written");
    for note in &report.notes {
        screen.wrapped(note, "", "", &mut out).expect("written");
    }
    String::from_utf8(out).expect("text")
}

#[test]
fn screens_of_the_command_jobs_equal_the_golden_files() {
    let mut screens = String::new();
    for (arguments, width) in [
        ("", 80),
        ("", 120),
        ("--normalized", 80),
        ("-l", 80),
        ("-l", 200),
        ("-w", 80),
        ("-o id,userid,holds,age", 80),
    ] {
        let text = print_jobs(arguments, width);
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        screens.push_str(&format!("===== {width} columns: jobs {arguments}\n{text}"));
    }
    let mut listing = Listing { page: jobs_page(), ..Listing::default() };
    listing.page.weights = vec![200_000, 10_000, 0, 1000, 250, 0];
    let weights = print_listing("-w", 80, &listing);
    assert!(weights.lines().nth(1).is_some_and(|line| line.starts_with("yes") && line.contains("200,000")));
    screens.push_str(&format!("===== 80 columns: jobs -w after a change of weights\n{weights}"));
    check("jobs", 200, &screens);
}

#[test]
fn stopped_queues_and_estimates_are_marked() {
    let mut listing = Listing { page: jobs_page(), ..Listing::default() };
    let stopped = json!({"enable": true, "start": false, "stop_reason": "for repair"});
    listing.stopped.note(Some("debug"), &serde_json::from_value(stopped).expect("a state"));
    listing.estimates.insert(22, NOW + 3600.0);
    let text = print_listing("", 200, &listing);
    check("jobs-stopped", 200, &text);
    assert!(
        text.contains("debug (stopped)") && text.contains("Queue debug is stopped: for repair."),
        "{text}"
    );
    assert!(text.contains("Start") && !text.contains("no estimates"), "{text}");
    let rows = print_listing("-o id,queue_stopped,place,place_of -S place", 80, &listing);
    assert!(rows.lines().nth(1).is_some_and(|line| line.contains("1 of 2")), "{rows}");
}

#[test]
fn jobs_shows_the_reason_of_jobs_held_by_urgency_0_or_score_0() {
    let mut listing = Listing { page: jobs_page(), ..Listing::default() };
    listing.page.jobs.retain(|row| row.holds.is_empty());
    assert!(!print_listing("", 120, &listing).contains("Held by"));
    for (at, outcome) in [(0, "held-by-urgency"), (1, "held-by-score")] {
        (listing.page.jobs[at].priority, listing.page.jobs[at].outcome) = (Some(0), Some(outcome.into()));
    }
    let text = print_listing("", 120, &listing);
    let reasons = text.lines().filter_map(|line| Some((line.starts_with('ƒ'), line.rsplit_once("  ")?.1)));
    let reasons: Vec<&str> = reasons.filter(|(is_job, _)| *is_job).map(|(_, reason)| reason).collect();
    assert!(reasons.contains(&"urgency 0") && reasons.contains(&"score 0"), "{text}");
    assert!(text.contains("1 job is held with urgency 0 until \"flux job urgency JOBID 16\"."), "{text}");
}

fn print_ids(text: &str) -> Vec<String> {
    print_jobs(&format!("{text} -o id"), 80).lines().skip(1).take(5).map(str::to_owned).collect()
}

#[test]
fn rows_are_sorted_as_by_sprio() {
    assert_eq!(print_ids(""), ["ƒ22", "ƒ21", "ƒ24", "ƒ23", "ƒ25"], "jobs without a priority come last");
    assert_eq!(print_ids("-S id"), ["ƒ21", "ƒ22", "ƒ23", "ƒ24", "ƒ25"]);
    assert_eq!(print_ids("-S -i"), ["ƒ25", "ƒ24", "ƒ23", "ƒ22", "ƒ21"]);
    assert_eq!(print_ids("-S user,-id"), ["ƒ25", "ƒ23", "ƒ21", "ƒ22", "ƒ24"]);
    assert_eq!(print_ids("-S fairshare"), ["ƒ24", "ƒ21", "ƒ22", "ƒ23", "ƒ25"]);
    assert_eq!(print_ids("-S urgency_term"), ["ƒ22", "ƒ21", "ƒ24", "ƒ23", "ƒ25"]);
}

#[test]
fn columns_are_chosen_by_name_and_by_letter() {
    let page = jobs_page();
    let columns = Columns::new(&page.terms, false);
    assert_eq!(
        columns.parse("%.15i %9u %F%f"),
        columns.parse("JobId,user,fairshare").map(|mut list| {
            list.push(ChosenColumn::Term(0, false));
            list
        })
    );
    assert_eq!(
        columns.parse("queue_term, AGE"),
        Ok(vec![ChosenColumn::Term(1, true), ChosenColumn::Term(4, true)])
    );
    let error = columns.parse("priorty").expect_err("unknown");
    assert!(
        error.starts_with("unknown column \"priorty\"; known are id, user, ")
            && error.ends_with("did you mean \"priority\"?"),
        "{error}"
    );
    assert!(columns.parse("%c").is_err() && columns.parse("%").is_err());
}

#[test]
fn each_page_of_jobs_has_its_own_list_of_weights() {
    let mut all = jobs_page();
    all.next = Some(JobId(25));
    let mut next = jobs_page();
    next.weighings = vec![vec![1], vec![100_000, 10_000, 0, 1000, 250, 0]];
    next.jobs.truncate(2);
    (next.jobs[0].weighing, next.jobs[1].weighing) = (Some(1), Some(0));
    append(&mut all, next);
    assert_eq!((all.jobs.len(), all.weighings.len(), all.next), (7, 2, None));
    assert_eq!([all.jobs[5].weighing, all.jobs[6].weighing], [Some(0), Some(1)]);
}

#[test]
fn the_command_jobs_sends_its_options_as_a_request() {
    let ask = |text: &str, ids: &[u64], users: Option<&[u32]>| {
        serde_json::Value::Object(super::build_request(&parse_args(text), ids, users))
    };
    assert_eq!(ask("", &[], Some(&[5001])), json!({"user": 5001}));
    assert_eq!(ask("-q a -b b", &[], None), json!({"queue": "a", "bank": "b"}));
    assert_eq!(ask("-q a,c", &[7], Some(&[1, 2])), json!({"ids": [7]}));
}
