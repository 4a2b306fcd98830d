// SPDX-License-Identifier: LGPL-3.0-only
//! Screens on a real terminal with 80, 120 and 200 columns, with and without colours. `UPDATE_GOLDEN=1` rewrites `t/golden/screens/`, which
//! must be reviewed before the commit.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use super::site::Site;
use super::table::run_on_screen;
use super::{fairshare, file};

/// Returns a site with three levels of banks and users. The database has the total usage of each user, and the usage in each period.
fn make_site(test: &str) -> Site {
    let site = Site::new(
        test,
        &[
            ("root", "", 1),
            ("science", "root", 60),
            ("chem", "science", 1),
            ("phys", "science", 3),
            ("ops", "root", 40),
        ],
        &[
            ("amira", "chem", 2, 1.8e7),
            ("bo", "chem", 1, 0.0),
            ("carla", "phys", 1, 3.6e6),
            ("dmitri", "phys", 1, 7.2e6),
            ("amira", "phys", 1, 36.0),
            ("a-user-with-a-name-longer-than-people-read", "ops", 1, 9.0e5),
            ("erik", "ops", 1, 2.5e6),
        ],
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    site.sql(&format!(
        "CREATE TABLE t_half_life_period_table (cluster tinytext, end_half_life_period real);
         INSERT INTO t_half_life_period_table VALUES ('cluster', {});
         UPDATE association_table SET active = 0 WHERE username = 'bo';
         INSERT INTO job_usage_per_association_table SELECT username, userid, bank, 0, job_usage * 0.75 FROM association_table;
         INSERT INTO job_usage_per_association_table SELECT username, userid, bank, 1, job_usage * 0.25 FROM association_table;
         INSERT INTO job_usage_per_association_table SELECT username, userid, bank, value, 0 FROM association_table, json_each('[2, 3]')",
        now + 1.9 * 86_400.0
    ));
    fairshare(["update", "-p", site.path()]).ok();
    site.sql("UPDATE association_table SET job_usage = 8.1e6 WHERE username = 'carla'");
    site
}

const GROUPS: &str = "g1 101 root 50\ng2 102 root 50\na 103 g1 10\nb 104 g1 10\nc 105 g2 10\nd 106 g2 10\ns 107 root 50\nz 108 g2 0\n";
const USAGES: &str = "a 49\nb 150\nc 100\nd 99\ns 200\nz 5\n";

/// Masks dates and other text that differs between runs, and makes terminal codes visible.
fn mask_text(text: &str) -> String {
    let text = text.replace("\r\n", "\n").replace('\x1b', "ESC");
    let mut masked = String::new();
    let mut rest = text.as_str();
    while let Some(letter) = rest.chars().next() {
        let date = rest.get(..10).filter(|date| {
            date.bytes().enumerate().all(|(at, byte)| match at {
                4 | 7 => byte == b'-',
                _ => byte.is_ascii_digit(),
            })
        });
        let taken = match date {
            Some(_) => {
                masked.push_str("YYYY-MM-DD");
                10
            }
            None => {
                masked.push(letter);
                letter.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    let lines: Vec<&str> = masked.lines().map(str::trim_end).collect();
    lines.join("\n") + "\n"
}

/// Runs the command in `directory` at each width, first without colours, then with colours. `arguments` name files relative to `directory`, because
/// the length of a full path would change the line breaks.
fn check_screens(name: &str, directory: &Path, arguments: &str) {
    let directory = directory.to_str().expect("text");
    let mut screens = format!("$ flux fairshare {arguments}\n");
    for colour in ["never", "always"] {
        for columns in [80, 120, 200] {
            // On a busy machine, a progress bar may appear on standard error, which the test therefore drops.
            let command = format!("cd '{directory}'; PROGRAM {arguments} --color {colour} 2>/dev/null");
            let Some(ran) = run_on_screen((columns, 200), "xterm", &command) else { return };
            assert_eq!(ran.status, 0, "{name}: {ran:?}");
            let text = mask_text(&ran.out);
            check_lines(name, columns, colour == "always", &text);
            screens.push_str(&format!("\n===== {columns} columns, colour {colour}\n{text}"));
        }
    }
    let golden = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .join("t/golden/screens")
        .join(format!("{name}.txt"));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(golden.parent().expect("a directory")).expect("a directory");
        fs::write(&golden, &screens).expect("written");
    }
    let wanted = fs::read_to_string(&golden).unwrap_or_default();
    assert!(wanted == screens, "{name}: UPDATE_GOLDEN=1 rewrites it; is now\n{screens}");
}

/// Checks that no line is wider than the screen, and that the colours are readable on any background: bold, faint, red, green.
#[track_caller]
fn check_lines(name: &str, columns: u32, colour: bool, text: &str) {
    assert_eq!(text.contains("ESC"), colour, "{name}: {text}");
    for line in text.lines() {
        let mut parts = line.split("ESC[");
        let mut plain = parts.next().expect("a line").to_owned();
        for part in parts {
            let (code, rest) = part.split_once('m').expect("a code of colour");
            assert!(["0", "1", "2", "31", "32"].contains(&code), "{name}: {code} in {line}");
            plain.push_str(rest);
        }
        assert!(
            unicode_width::UnicodeWidthStr::width(plain.as_str()) <= columns as usize,
            "{name}: {columns}: {line}"
        );
    }
}

#[test]
fn screens_of_a_database_equal_the_golden_files() {
    let site = make_site("screens");
    for (name, arguments) in [
        ("show", "show -p site.db"),
        ("show-long", "show -p site.db --long"),
        ("why-user", "why amira/chem -p site.db"),
        ("why-two", "why amira/chem dmitri -p site.db"),
        ("why-bank", "why chem -p site.db"),
        ("why-inactive", "why bo -p site.db"),
        ("compare", "compare -p site.db"),
        ("compare-two", "compare -p site.db --policy weighted-walk,depth-oblivious"),
        ("what-if", "what-if -p site.db --shares chem=20 --usage erik+=5000nh --add-user new/ops=2"),
        ("what-if-in", "what-if -p site.db --in 21d --idle amira/chem"),
    ] {
        check_screens(name, site.directory(), arguments);
    }
}

/// Each user has one record: a job on one node that ended some days ago. A different half-life changes the
/// order of the users.
#[test]
fn screens_of_another_half_life_equal_the_golden_files() {
    let site = make_site("decays");
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs_f64();
    let r = r#"{"version": 1, "execution": {"R_lite": [{"rank": "0", "children": {"core": "0-3"}}]}}"#;
    site.sql(&format!(
        "UPDATE association_table SET userid = unicode(username);
         CREATE TABLE job_usage_factor_table (username text, userid int, bank text, last_job_timestamp real DEFAULT 0);
         CREATE TABLE jobs (
             id char(16), userid int, t_submit real, t_run real, t_inactive real, ranks text, R text, jobspec text, project text,
             bank text, requested_duration real, actual_duration real);
         INSERT INTO jobs SELECT rowid, userid, 0, {now} - days * 86400 - 3600 * hours, {now} - days * 86400, '0', '{r}', '{{}}', '',
             bank, 0, 0 FROM association_table JOIN (SELECT 'carla' AS user, 20 AS days, 2000 AS hours
             UNION SELECT 'dmitri', 1, 500 UNION SELECT 'erik', 9, 600) ON user = username"
    ));
    check_screens("what-if-half-life", site.directory(), "what-if -p site.db --half-life 14d");
}

#[test]
fn screens_of_a_simulation_equal_the_golden_files() {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../t/data"));
    let arguments = "simulate --trace week.swf --policy fair-tree --sweep half-life=1d,14d";
    check_screens("simulate", data, arguments);
}

#[test]
fn screens_of_a_pbs_site_equal_the_golden_files() {
    let directory = super::directory("screens_pbs");
    fs::write(directory.join("groups"), GROUPS).expect("a file");
    fs::write(directory.join("usages"), USAGES).expect("a file");
    for (name, arguments) in [
        ("pbs-show", "show -t groups --usage-file usages"),
        ("pbs-show-walk", "show -t groups --usage-file usages --sort pbs-walk"),
        ("pbs-why-two", "why a s -t groups --usage-file usages"),
        ("pbs-why-no-shares", "why z -t groups --usage-file usages"),
    ] {
        check_screens(name, &directory, arguments);
    }
}

#[test]
fn the_option_color_and_the_environment_control_colours() {
    let path = file("screens_colour", super::what_if::TREE);
    let rows =
        [("", true), ("NO_COLOR=1", false), ("CLICOLOR=0", false), ("TERM=dumb", false), ("NO_COLOR=", true)];
    for (setting, colour) in rows {
        let Some(ran) = run_on_screen((80, 50), "xterm", &format!("{setting} PROGRAM show -t {path}")) else {
            return;
        };
        assert_eq!(ran.out.contains('\x1b'), colour, "{setting}: {ran:?}");
        let ran =
            run_on_screen((80, 50), "xterm", &format!("{setting} PROGRAM show -t {path} --color always"));
        assert!(ran.expect("a terminal").out.contains('\x1b'), "{setting}");
        let ran = run_on_screen(
            (80, 50),
            "xterm",
            &format!("CLICOLOR_FORCE=1 {setting} PROGRAM show -t {path} --color never"),
        );
        assert!(!ran.expect("a terminal").out.contains('\x1b'), "{setting}");
    }
    let ran = run_on_screen((80, 50), "xterm", &format!("PROGRAM show -t {path} | cat")).expect("a terminal");
    assert!(!ran.out.contains('\x1b'), "{ran:?}");
    let ran = run_on_screen((80, 50), "xterm", &format!("CLICOLOR_FORCE=1 PROGRAM show -t {path} | cat"));
    assert!(ran.expect("a terminal").out.contains('\x1b'));
    // In a locale without box-drawing characters, the output is ASCII.
    let ran =
        run_on_screen((80, 50), "xterm", &format!("LC_ALL=C PROGRAM show -t {path}")).expect("a terminal");
    assert!(ran.out.is_ascii(), "{ran:?}");
}

/// Output that does not fit on the screen goes to the pager, with colours. Short output and output into a pipe do not go to the pager. Git
/// does the same.
#[test]
fn output_longer_than_the_terminal_goes_to_a_pager() {
    let path = file("screens_pager", super::what_if::TREE);
    let paged = |rows, setting: &str, arguments: &str| {
        let command = format!("PAGER=\"sed 's/^/paged /'\" {setting} PROGRAM {arguments} -t {path}");
        run_on_screen((80, rows), "xterm", &command)
    };
    let Some(ran) = paged(4, "", "show") else { return };
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines.len() > 5 && lines.iter().all(|line| line.starts_with("paged ")), "{ran:?}");
    assert!(ran.out.contains('\x1b'), "{ran:?}");
    let not = |rows, setting: &str, arguments: &str| {
        let ran = paged(rows, setting, arguments).expect("a terminal");
        assert!(!ran.out.contains("paged") && ran.out.contains("u"), "{setting} {arguments}: {ran:?}");
    };
    not(50, "", "show");
    not(4, "", "show --no-pager");
    not(4, "", "show --json");
    not(4, "", "show --csv");
    not(4, "FLUX_FAIRSHARE_PAGER=cat", "show");
    not(4, "PAGER=", "show");
    assert!(paged(4, "", "why u/a").expect("a terminal").out.contains("paged"));
    // A pager that ends early is not an error.
    let ran = paged(4, "FLUX_FAIRSHARE_PAGER=true", "show").expect("a terminal");
    assert_eq!((ran.status, ran.out.as_str()), (0, ""), "{ran:?}");
    // PATH has no `less`, so there is no pager. No text may be lost.
    let command = format!("env -u PAGER PATH=/nonexistent PROGRAM show -t {path}");
    let ran = run_on_screen((80, 4), "xterm", &command.replace("env", "/usr/bin/env")).expect("a terminal");
    assert!(ran.out.contains("root") && ran.status == 0, "{ran:?}");
}
