// SPDX-License-Identifier: LGPL-3.0-only
//! Job histories: traces in the Standard Workload Format, and accounting databases with any value in any column of the job records. The command
//! must print valid numbers, or an error that says where the invalid data are.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fairshare_accounting::pipeline::{Plan, Rule};
use fairshare_accounting::store::{Access, Database};
use serde_json::Value;

use super::database::write_random_values;
use super::drive::{Choices, Rng, fuzz, hash_feature, mutate_bytes, strip_values};
use crate::pipeline::{END, add_jobs};
use crate::site::{Site, read_rows};
use crate::{PROGRAM, directory};

/// A trace with several users and an unknown user (-1). One line is a part of a job (status 2), and one job never ran.
const TRACE: &str = "; MaxProcs: 8\n; MaxNodes: 2 (1)\n; UnixStartTime: 1600000000\n\
    1 0 5 100 2 -1 -1 2 100 -1 1 1 1 -1 1 -1 -1 -1\n\
    2 10 5 100 8 -1 -1 8 100 -1 1 2 1 -1 1 -1 -1 -1\n\
    3 20 -1 50 2 -1 -1 2 -1 -1 1 1 2 -1 2 -1 -1 -1\n\
    4 20 7 50.5 4 -1 -1 4 60 -1 2 3 2 -1 -1 -1 -1 -1\n\
    5 30 -1 -1 4 -1 -1 4 60 -1 5 -1 -1 -1 -1 -1 -1 -1\n\
    6 90000 0 3600 -1 -1 -1 6 7200 -1 1 -1 -1 -1 0 -1 -1 -1\n";

/// Unusual numbers.
const NUMBERS: [&str; 19] = [
    "-1",
    "0",
    "1",
    "0.5",
    "-0",
    "1e-300",
    "1e11",
    "1e12",
    "1e18",
    "1e308",
    "nan",
    "inf",
    "315576000",
    "4294967294",
    "4294967295",
    "18446744073709551615",
    "9007199254740993",
    "x",
    "",
];

/// Changes a number, doubles or removes lines, or changes bytes.
fn mutate(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    if rng.happens_once_in(5) {
        return mutate_bytes(rng, input, other);
    }
    let text = String::from_utf8_lossy(input).into_owned();
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let at = rng.below(lines.len());
    match rng.below(6) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[rng.below(lines.len())].clone()),
        _ => {
            let mut words: Vec<&str> = lines[at].split(' ').collect();
            let word = rng.below(words.len());
            words[word] = NUMBERS[rng.below(NUMBERS.len())];
            lines[at] = words.join(" ");
        }
    }
    lines.join("\n").into_bytes()
}

/// Runs simulate, and returns status, output and errors. The test fails if the replay does not end.
fn run_simulate(path: &str) -> (Option<i32>, String, String) {
    let mut child = Command::new(PROGRAM)
        .args(["simulate", "--trace", path, "--json", "--sweep", "scheduler=fcfs,easy"])
        // A job of ten years with a refresh every 30 s would take minutes.
        .args(["--sweep", "refresh=1h"])
        .env_remove("FLUX_URI")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    // The output about a few jobs fits into a pipe, so the program ends although no one reads the pipe yet.
    let began = Instant::now();
    while child.try_wait().expect("it can be waited for").is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            let _ = child.kill();
            panic!("the program has not ended after 60 s");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().expect("it ended");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Calls `each` with the key and the value of every number in the JSON `value`, at any depth, and with `None` for every null.
fn visit_all_json_numbers<'a>(value: &'a Value, key: &'a str, each: &mut dyn FnMut(&str, Option<f64>)) {
    match value {
        Value::Array(list) => list.iter().for_each(|value| visit_all_json_numbers(value, key, each)),
        Value::Object(map) => map.iter().for_each(|(key, value)| visit_all_json_numbers(value, key, each)),
        Value::Number(number) => each(key, number.as_f64()),
        Value::Null => each(key, None),
        Value::String(_) | Value::Bool(_) => {}
    }
}

/// Counts the jobs. A line with a status from 2 to 4 describes a part of the job of the line before, if it has the same number.
fn count_job_lines(input: &[u8]) -> usize {
    let text = String::from_utf8_lossy(input);
    let is_job = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with(';');
    let (mut count, mut last) = (0, None);
    for line in text.split('\n').filter(is_job) {
        let field = |at| line.split_ascii_whitespace().nth(at).and_then(|word| word.parse::<f64>().ok());
        let is_part = field(10).is_some_and(|status| (2.0..5.0).contains(&status));
        count += usize::from(!is_part || field(0) != last);
        last = field(0);
    }
    count
}

fn check_replay(path: &str, input: &[u8]) -> Vec<u64> {
    std::fs::write(path, input).unwrap();
    let (status, out, err) = run_simulate(path);
    if status != Some(0) {
        assert_eq!(status, Some(2), "{err}");
        assert!(err.starts_with("flux-fairshare: ") && err.lines().count() == 1, "{err}");
        assert_eq!(err.trim_end().find(char::is_control), None, "{err:?}");
        return vec![hash_feature(strip_values(&err.replace(path, "")))];
    }
    let document: Value = serde_json::from_str(&out).expect("JSON");
    let count = |value: &Value| value.as_u64().expect("a count") as usize;
    assert_eq!(count(&document["jobs"]) + count(&document["skipped"]), count_job_lines(input), "{document}");
    visit_all_json_numbers(&document, "", &mut |name, number| {
        // The members in this list may be null. If the trace has fewer than two jobs, every number may be null.
        let may_lack = ["promised", "delivered", "recorded_wait_mean", "jain"].contains(&name);
        let may_lack = may_lack || count(&document["jobs"]) < 2;
        let is_part = ["utilisation", "jain"].contains(&name);
        let most = if is_part { 1.0 + 1e-9 } else { f64::INFINITY };
        let is_sound = number.map_or(may_lack, |number| (0.0..=most).contains(&number));
        assert!(is_sound, "{name} is {number:?}: {document}");
    });
    let mut features = vec![hash_feature((count(&document["jobs"]), count(&document["skipped"])))];
    for scenario in document["scenarios"].as_array().expect("a list") {
        let of = |name: &str| count(&scenario[name]);
        assert!(of("jobs") + of("rejected") + of("never") <= count(&document["jobs"]), "{document}");
        features.push(hash_feature((of("jobs"), of("rejected"), of("never"))));
    }
    features
}

#[test]
fn any_trace_gives_an_error_or_valid_numbers() {
    let path = directory("fuzz-traces").join("trace.swf");
    let path = path.to_str().expect("text").to_owned();
    fuzz("traces", vec![TRACE.into()], mutate, |input| check_replay(&path, input));
}

const TABLES: [&str; 5] = [
    "association_table",
    "bank_table",
    "job_usage_factor_table",
    "job_usage_per_association_table",
    "t_half_life_period_table",
];

/// Counts the usage of a site, or returns the error.
fn count_usage(site: &Site, rule: Rule, now: f64) -> Result<u64, String> {
    let message = |error: &dyn std::fmt::Display| error.to_string();
    let mut database =
        Database::open(&site.path, Access::Write, Duration::ZERO).map_err(|error| message(&error))?;
    let snapshot = database.snapshot().map_err(|error| message(&error))?;
    let plan = Plan::new(&snapshot, rule, now, &mut |_| ()).map_err(|error| message(&error))?;
    plan.write(&snapshot, &mut |_| ()).map_err(|error| message(&error))?;
    snapshot.commit().map_err(|error| message(&error))?;
    let tally = &plan.tally;
    Ok(hash_feature((
        tally.counted.min(9),
        tally.late.min(3),
        tally.from_the_future.min(3),
        tally.too_old.min(3),
        tally.ignored.min(3),
        tally.unreadable_count.min(5),
        tally.waiting.min(5),
        tally.recounted,
    )))
}

/// Checks that a run stores everything or nothing, that a second run changes nothing, and that each usage is a number.
fn check_count(site: &Site, rule: Rule, now: f64) -> u64 {
    let before = read_rows(&site.open(), TABLES);
    match count_usage(site, rule, now) {
        Err(text) => {
            assert!(!text.is_empty());
            assert_eq!(read_rows(&site.open(), TABLES), before, "{text}");
            hash_feature((rule.to_string(), strip_values(&text)))
        }
        Ok(feature) => {
            let connection = site.open();
            // Under flux-accounting's rule, a job that ended before its start lowers the usage, so a usage
            // may be negative.
            let least = if rule == Rule::Exact { "0" } else { "-1e300" };
            let sql = format!(
                "SELECT COUNT(*) FROM association_table WHERE typeof(job_usage) NOT IN ('real', 'integer')
                    OR job_usage NOT BETWEEN {least} AND 1e300"
            );
            let wrong: i64 = connection.query_row(&sql, [], |row| row.get(0)).expect("a count");
            let after = read_rows(&connection, TABLES);
            assert_eq!(wrong, 0, "{after:#?}");
            drop(connection);
            if rule == Rule::Exact {
                count_usage(site, rule, now).expect("it was counted once");
                assert_eq!(read_rows(&site.open(), TABLES), after, "a second run");
            }
            hash_feature((rule.to_string(), feature))
        }
    }
}

/// Changes job records of flux-accounting or `fetch`, and the data of earlier counts.
#[test]
fn any_job_record_is_counted_or_refused() {
    const COLUMNS: [(&str, &str); 12] = [
        ("jobs", "id"),
        ("jobs", "userid"),
        ("jobs", "t_submit"),
        ("jobs", "t_run"),
        ("jobs", "t_inactive"),
        ("jobs", "R"),
        ("jobs", "jobspec"),
        ("jobs", "bank"),
        ("jobs", "actual_duration"),
        ("jobs", "requested_duration"),
        ("job_usage_factor_table", "last_job_timestamp"),
        ("t_half_life_period_table", "end_half_life_period"),
    ];
    const VALUES: [&str; 28] = [
        "NULL",
        "0",
        "-1",
        "1",
        "9223372036854775807",
        "-9223372036854775808",
        "1e308",
        "-1e308",
        "1e999",
        "0.5",
        "51500.25",
        "52999",
        "''",
        "'A'",
        "'B'",
        "'1e5'",
        "x'ff00fe'",
        "zeroblob(100)",
        "'{'",
        "'{}'",
        "'null'",
        "'[1]'",
        r#"'{"version": 1, "execution": {"R_lite": [{"rank": "0-4294967295", "children": {"core": "0-4294967295"}}]}}'"#,
        r#"'{"version": 1, "execution": {"R_lite": [{"rank": "1-0", "children": {"core": "0"}}]}}'"#,
        r#"'{"version": 9, "execution": {"R_lite": []}}'"#,
        r#"'{"attributes": {"system": {"bank": "A", "queue": "q", "duration": 1e308}}}'"#,
        r#"'{"attributes": {"system": {"bank": 5, "queue": [], "duration": -1}}}'"#,
        "51000",
    ];
    const TIMES: [f64; 5] = [END - 10.0, END + 950.0, END + 1000.0, END + 5100.0, 1.7e9];
    let site = Site::small("fuzz-records");
    add_jobs(&site);
    site.sql("PRAGMA page_size = 512; VACUUM");
    let original_bytes = site.bytes();
    let seeds = (0..60u8).map(|n| vec![n, n / 5, n.wrapping_mul(7), n % 4, n / 3, n, 2]).collect();
    fuzz("records", seeds, mutate_bytes, |input| {
        std::fs::write(&site.path, &original_bytes).unwrap();
        let mut of = Choices(input);
        let rule = of.pick(&[Rule::Exact, Rule::Exact, Rule::FluxAccounting]);
        let now = of.pick(&TIMES);
        write_random_values(&site, &mut of, &COLUMNS, &VALUES);
        vec![check_count(&site, rule, now), check_count(&site, rule, now + 1500.0)]
    });
}
