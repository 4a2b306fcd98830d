// SPDX-License-Identifier: LGPL-3.0-only
//! The screens of `top`, and the effects of keys.

use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::style::Color;

use super::gather::snapshot;
use super::model::{Model, PageRows, Snapshot, TopPage, TopRow, Wish};
use super::view::{draw, print_banks};
use super::{Question, Reply, UnansweredRequests, describe_no_answer};
use crate::plugin::scheduling::StoppedQueues;
use crate::tests::golden::{
    EVIL, check, make_jobs_page, make_standing_reply, make_standing_reply_with_nested_banks,
    make_stats_answer, make_words,
};
use crate::ui::rows::Cell;
use crate::ui::screen::Screen;
use fairshare_engine::engine::answers::{JobsPage, Standings, Stats};
use fairshare_engine::ids::{BankName, UserId};

fn owner_snapshot() -> Snapshot {
    let stats: Stats = serde_json::from_value(make_stats_answer()).expect("stats");
    build_snapshot(Some(&stats))
}

fn build_snapshot(stats: Option<&Stats>) -> Snapshot {
    let mut standing: Standings = serde_json::from_value(make_standing_reply()).expect("a standing");
    let root = &mut standing.associations[0].levels[0];
    (root.node.shares_part, root.node.usage_part) = (None, None);
    let page: JobsPage = serde_json::from_value(make_jobs_page()).expect("a page");
    let mut other = standing.associations[0].clone();
    (other.userid, other.bank, other.rank) = (UserId(5003), BankName::from("phys"), None);
    standing.associations.push(other);
    snapshot(stats, &standing, &page, &StoppedQueues::default(), &make_words())
}

#[test]
fn stopped_queues_are_named_at_the_top_and_marked_in_the_rows_of_their_jobs() {
    let stats: Stats = serde_json::from_value(make_stats_answer()).expect("stats");
    let standing: Standings = serde_json::from_value(make_standing_reply()).expect("a standing");
    let mut page: JobsPage = serde_json::from_value(make_jobs_page()).expect("a page");
    page.jobs[1].outcome = Some("held-by-urgency".into());
    let mut stopped = StoppedQueues::default();
    stopped
        .note(Some("debug"), &serde_json::from_value(serde_json::json!({"start": false})).expect("a state"));
    let snapshot = snapshot(Some(&stats), &standing, &page, &stopped, &make_words());
    assert!(snapshot.facts[1].ends_with("; stopped: debug"), "{:?}", snapshot.facts);
    let jobs = snapshot.pages[TopPage::Jobs as usize].rows.iter();
    let marks: Vec<(&str, &str)> =
        jobs.map(|row| (name(&row.cells[4]), row.cells.last().map_or("", name))).collect();
    assert_eq!(marks[0], ("debug", "stopped queue"));
    assert_eq!(marks[1].1, "urgency 0");
    assert_eq!(marks[2], ("debug", "max-running-jobs-user-limit,stopped queue"));
    assert!(marks.iter().all(|(queue, held)| held.contains("stopped") == (*queue == "debug")), "{marks:?}");
}

/// Returns the text of a cell; empty for an empty cell.
fn name(cell: &Cell) -> &str {
    match cell {
        Cell::Text(text) | Cell::Node { name: text, .. } => text,
        _ => "",
    }
}

fn make_screen(width: Option<usize>, colour: bool) -> Screen {
    Screen { width, rows: None, colour, unicode: true, terminal: false, pager: false }
}

fn make_model() -> Model {
    let mut model = Model::default();
    model.take(owner_snapshot());
    model
}

fn press(model: &mut Model, keys: &str) -> Wish {
    let mut wish = Wish::Nothing;
    for letter in keys.chars() {
        let code = match letter {
            '\n' => KeyCode::Enter,
            '\t' => KeyCode::Tab,
            '\x1b' => KeyCode::Esc,
            '\x08' => KeyCode::Backspace,
            '↓' => KeyCode::Down,
            '↑' => KeyCode::Up,
            '⇟' => KeyCode::PageDown,
            '⇱' => KeyCode::Home,
            '⇲' => KeyCode::End,
            letter => KeyCode::Char(letter),
        };
        wish = model.press(KeyEvent::new(code, KeyModifiers::NONE));
    }
    wish
}

/// Draws the screen and returns it as text.
fn draw_screen(model: &mut Model, (width, height): (u16, u16), colour: bool) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
    terminal.draw(|frame| draw(model, &make_screen(None, colour), frame)).expect("drawn");
    let buffer = terminal.backend().buffer();
    let coloured = buffer.content().iter().any(|cell| cell.fg != Color::Reset || cell.bg != Color::Reset);
    assert!(colour || !coloured, "no colours where none are wanted");
    let lines = (0..height).map(|row| {
        let line: String = (0..width).map(|column| buffer[(column, row)].symbol()).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[test]
fn screens_of_the_pages_match_the_golden_files() {
    for size in [(80, 24), (120, 30), (200, 40)] {
        let mut screens = String::new();
        let mut model = make_model();
        for (title, keys) in [
            ("banks", ""),
            ("banks by usage, only ch", "ss/ch\n"),
            ("standings", "\x1b\t"),
            ("jobs", "\t"),
            ("jobs, the second chosen, sorted by user, reversed, paused", "↓srp"),
            ("typing a filter that nothing has", "/nothing\x08"),
            ("help", "\x1b?"),
            ("many associations, the last chosen, no answer", "\x1b\x1bsp2"),
        ] {
            press(&mut model, keys);
            if title.starts_with("many") {
                model.snapshot.pages[1] = make_page_of_many_associations(false);
                press(&mut model, "⇲");
                model.silence = describe_no_answer(Duration::from_secs(42), None, Some("the broker is gone"));
            }
            screens.push_str(&format!(
                "===== {} x {}: {title}\n{}",
                size.0,
                size.1,
                draw_screen(&mut model, size, false)
            ));
        }
        check(&format!("top-{}", size.0), usize::from(size.0), &screens);
    }
}

#[test]
fn top_shows_a_guest_their_own_associations_and_the_root_at_100_percent() {
    let mut model = Model::default();
    model.take(build_snapshot(None));
    let text = draw_screen(&mut model, (80, 24), false);
    check("top-guest", 80, &text);
    // The root has no siblings, so the plugin sends neither share nor usage for it.
    let root = text.lines().find(|line| line.starts_with("root")).expect("the root");
    assert_eq!(root.split_whitespace().collect::<Vec<_>>(), ["root", "100.00", "%", "100.00", "%"]);
    assert!(text.contains("chem") && text.contains("phys"), "{text}");
    assert!(text.contains("\nYour jobs that a limit holds\n"), "{text}");
    model.snapshot.held.clear();
    assert!(draw_screen(&mut model, (80, 24), false).contains("\nNone of your jobs is held by a limit\n"));
}

#[test]
fn each_bank_of_a_guest_is_followed_by_its_subtree() {
    let mut standing: Standings =
        serde_json::from_value(make_standing_reply_with_nested_banks()).expect("a standing");
    let mut other = standing.associations[0].clone();
    let science = &mut other.levels[1];
    std::mem::swap(&mut science.node, &mut science.siblings[0]);
    other.levels[2].node.name = "mail".to_owned();
    other.levels[2].siblings.clear();
    standing.associations.push(other);
    let page: JobsPage = serde_json::from_value(make_jobs_page()).expect("a page");
    let snapshot = snapshot(None, &standing, &page, &StoppedQueues::default(), &make_words());
    let bank = |row: &TopRow| match &row.cells[0] {
        Cell::Node { depth, name, .. } => (*depth, name.clone()),
        cell => panic!("{cell:?}"),
    };
    let shown: Vec<(usize, String)> = snapshot.pages[0].rows.iter().map(bank).collect();
    let wanted = [(0, "root"), (1, "science"), (2, "chem"), (2, EVIL), (2, "phys"), (1, "ops"), (2, "mail")];
    let wanted = wanted.map(|(depth, name)| (depth, name.to_owned()));
    assert_eq!(shown, wanted);
    let mut model = Model::default();
    model.take(snapshot);
    assert!(draw_screen(&mut model, (80, 24), false).contains("\n  mail "));
    press(&mut model, "s");
    assert!(
        draw_screen(&mut model, (80, 24), false).contains("\nmail "),
        "no indentation in the order of the shares"
    );
}

/// Returns the standings of 300 users.
fn make_page_of_many_associations(has_more: bool) -> PageRows {
    let standing = |place| {
        let fairshare = 1.0 - place as f64 / 300.0;
        let names = [format!("user{place}").into(), Cell::from("phys")];
        let mut cells = vec![Cell::Count(place), Cell::Count(300)];
        cells.extend(names.into_iter().chain([fairshare.into()]));
        TopRow { job: None, cells }
    };
    PageRows { rows: (1..=300).map(standing).collect(), has_more }
}

#[test]
fn the_tab_line_of_top_shows_the_number_of_rows() {
    let mut model = make_model();
    model.snapshot.pages[1] = make_page_of_many_associations(false);
    press(&mut model, "2");
    let mut tab_line = |keys: &str| {
        press(&mut model, keys);
        draw_screen(&mut model, (80, 24), false).lines().nth(2).expect("the tab line").to_owned()
    };
    assert!(tab_line("").ends_with(" 1-19 of 300"));
    assert!(tab_line("⇟↓↓").ends_with(" 4-22 of 300"));
    assert!(tab_line("⇲").ends_with(" 282-300 of 300"));
    assert!(tab_line("/user12\n").ends_with(" 1-11 of 11"));
    assert!(!tab_line("/zz\n").contains(" of "), "no row, no count");
    press(&mut model, "\x1b");
    // The body has only the titles of the columns.
    assert!(!draw_screen(&mut model, (80, 5), false).contains(" of 300\n"), "no row is shown");
    model.snapshot.pages[1].has_more = true;
    press(&mut model, "\x1b⇱");
    assert!(draw_screen(&mut model, (80, 24), false).contains(" 1-19 of the first 300\n"));
    // The screen is too narrow for the names of the columns at the right, so the title shows their number.
    press(&mut model, "3");
    assert!(draw_screen(&mut model, (74, 24), false).contains("columns left out   1-5 of 5\n"));
}

#[test]
fn the_screen_says_how_long_the_plugin_has_not_answered() {
    let second = Duration::from_secs(1);
    assert_eq!(describe_no_answer(9 * second, None, None), None);
    assert_eq!(
        describe_no_answer(9 * second, Some(second), None),
        None,
        "an answer that takes one second prints no warning"
    );
    assert_eq!(
        describe_no_answer(9 * second, Some(3 * second), None).as_deref(),
        Some("No answer from the plugin for 9 seconds")
    );
    let failed = describe_no_answer(120 * second, None, Some("the connection to Flux is lost"));
    assert_eq!(
        failed.as_deref(),
        Some("No answer from the plugin for 2 minutes: the connection to Flux is lost")
    );
    let mut model = make_model();
    let answering = draw_screen(&mut model, (80, 24), false);
    model.silence = failed.clone();
    let silent = draw_screen(&mut model, (80, 24), true);
    assert_eq!(silent.lines().nth(2), failed.as_deref());
    assert!(silent.lines().last().expect("a line").starts_with("q quit"), "the keys stay visible");
    model.silence = None;
    assert_eq!(draw_screen(&mut model, (80, 24), false), answering);
}

#[test]
fn top_does_not_repeat_a_request_before_its_reply() {
    let mut open = UnansweredRequests::default();
    let why = |id| Some(Question::Why { id, width: 80 });
    assert_eq!(open.open(&Wish::Why(1), 80), why(1));
    assert_eq!([Wish::Why(1), Wish::Why(2)].map(|wish| open.open(&wish, 80)), [None, None]);
    assert_eq!(open.open(&Wish::Refresh, 80), Some(Question::Refresh), "another kind");
    assert_eq!(open.open(&Wish::Refresh, 80), None);
    open.close(&Reply::Explanation(Vec::new()));
    assert_eq!(open.open(&Wish::Refresh, 80), None);
    assert_eq!(open.open(&Wish::Why(2), 80), why(2));
    open.close(&Reply::Data(Err("no answer".to_owned())));
    assert_eq!(open.open(&Wish::Refresh, 80), Some(Question::Refresh));
}

#[test]
fn top_counts_the_limits_that_do_not_fit_on_the_screen() {
    let mut model = make_model();
    model.snapshot.held = (1..=12).map(|jobs| (format!("limit-{jobs}"), jobs.to_string())).collect();
    let narrow = draw_screen(&mut model, (80, 24), false);
    assert!(
        narrow.contains("limit-6 ") && narrow.contains("… 6 more") && !narrow.contains("limit-7 "),
        "{narrow}"
    );
    let wide = draw_screen(&mut model, (200, 40), false);
    assert!(wide.contains("limit-12 ") && !wide.contains(" more"), "{wide}");
    model.snapshot.held.truncate(7);
    assert!(draw_screen(&mut model, (80, 24), false).contains("limit-7 "));
}

#[test]
fn one_printed_screen_is_as_high_as_its_contents() {
    for width in [80, 120, 200] {
        let mut out = Vec::new();
        print_banks(owner_snapshot(), &make_screen(Some(width), false), &mut out).expect("printed");
        let text = String::from_utf8(out).expect("text");
        check(&format!("top-once-{width}"), width, &text);
        assert!(text.contains("last push") && !text.contains("q quit") && !text.contains("\n\n\n"), "{text}");
    }
}

#[test]
fn top_once_prints_all_limits_that_hold_jobs() {
    let held: Vec<(String, String)> =
        (1..=12).map(|jobs| (format!("limit-{jobs}"), jobs.to_string())).collect();
    for width in [80, 200] {
        let snapshot = Snapshot { held: held.clone(), ..owner_snapshot() };
        let mut out = Vec::new();
        print_banks(snapshot, &make_screen(Some(width), false), &mut out).expect("printed");
        let text = String::from_utf8(out).expect("text");
        assert!(held.iter().all(|(limit, _)| text.contains(limit)) && text.contains("last push"), "{text}");
    }
}

#[test]
fn a_screen_of_any_size_is_drawn_with_colours() {
    let mut model = make_model();
    draw_screen(&mut model, (80, 24), true);
    for page in ["1", "2", "3", "?", "\x1b"] {
        press(&mut model, page);
        for size in [(1, 1), (10, 3), (20, 5), (40, 12), (300, 100)] {
            draw_screen(&mut model, size, true);
        }
    }
}

#[test]
fn keys_of_top_switch_pages_and_move_the_selection() {
    let mut model = make_model();
    draw_screen(&mut model, (80, 24), false);
    assert_eq!(press(&mut model, "\t\t\t"), Wish::Nothing);
    assert_eq!(model.page, TopPage::Banks);
    assert_eq!(press(&mut model, "\n"), Wish::Nothing, "banks have no why");
    assert_eq!(press(&mut model, "3\n"), Wish::Why(22), "the job of the largest priority");
    assert_eq!(press(&mut model, "↓↓\n"), Wish::Why(24));
    assert_eq!(press(&mut model, "↑\n"), Wish::Why(21));
    assert_eq!(press(&mut model, "⇟\n"), Wish::Why(25), "the last");
    assert_eq!(press(&mut model, "⇱\n"), Wish::Why(22));
    assert_eq!(press(&mut model, "/phys\n\n"), Wish::Why(22));
    assert_eq!(model.rows().len(), 1);
    assert_eq!(press(&mut model, "/\x1br\n"), Wish::Why(24), "the smallest priority");
    // While the user types a filter, a letter is not a command.
    assert_eq!(press(&mut model, "/q"), Wish::Nothing);
    let control = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(model.press(control), Wish::Quit, "but this is");
    press(&mut model, "\x1b");
    model.show((0..50).map(|line| line.to_string()).collect());
    draw_screen(&mut model, (80, 24), false);
    press(&mut model, "↓↓");
    assert_eq!(model.open.as_ref().map(|(_, first)| *first), Some(2));
    press(&mut model, "⇟⇟⇟");
    assert_eq!(model.open.as_ref().map(|(_, first)| *first), Some(50 - model.room));
    assert_eq!(press(&mut model, "q"), Wish::Nothing, "back to the page");
    assert!(model.open.is_none());
    assert_eq!((press(&mut model, "g"), press(&mut model, "q")), (Wish::Refresh, Wish::Quit));
    // New data do not appear while the screen is paused.
    press(&mut model, "p");
    model.take(Snapshot::default());
    assert_eq!(model.rows().len(), 5);
    press(&mut model, "p");
    model.take(Snapshot::default());
    assert_eq!(press(&mut model, "3\n↓↑"), Wish::Nothing, "no job, no why");
}
