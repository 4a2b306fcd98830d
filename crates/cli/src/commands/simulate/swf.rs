// SPDX-License-Identifier: LGPL-3.0-only
//! The Standard Workload Format of the Parallel Workloads Archive, version 2.2: one line of 18 numbers per job; header lines
//! start with `;`; -1 is unknown. Users, groups and queues are numbers.

use std::io::{BufRead, Read};

use super::read::{History, LONGEST_RUN, Size};
use fairshare_accounting::store::{LATEST, is_time};
use fairshare_engine::ids::UserId;
use fairshare_simulate::Party;

// Indices of the fields of a line.
const SUBMIT: usize = 1;
const WAIT: usize = 2;
const RUN: usize = 3;
const GIVEN: usize = 4;
const ASKED: usize = 7;
const WALLTIME: usize = 8;
const STATUS: usize = 10;
const USER: usize = 11;
const GROUP: usize = 12;
const QUEUE: usize = 14;
/// The status of a cancelled job.
const CANCELLED: f64 = 5.0;
/// The status of a part of a job.
const PARTS: std::ops::Range<f64> = 2.0..5.0;
/// The user id of jobs with an unknown user.
const UNKNOWN: u32 = 65_534;
/// The greatest user id: `u32::MAX` is not a valid id.
const GREATEST_USER: f64 = (u32::MAX - 1) as f64;

/// The most characters of a word that an error text shows.
const MAX_SHOWN: usize = 40;
/// The most bytes of a line, with its line break. 18 numbers take about a hundred bytes.
const LONGEST_LINE: usize = 64 * 1024;

/// Reads the next line, or returns `None` at the end. Reads at most `LONGEST_LINE` bytes, because a compressed line may have any length.
fn read_line(lines: &mut impl BufRead, line: &mut Vec<u8>) -> Result<Option<()>, String> {
    line.clear();
    lines.take(LONGEST_LINE as u64 + 1).read_until(b'\n', line).map_err(|error| error.to_string())?;
    if line.len() > LONGEST_LINE {
        let limit = LONGEST_LINE / 1024;
        return Err(format!(
            "longer than {limit} KiB; in the Standard Workload Format, a line has 18 numbers"
        ));
    }
    Ok((!line.is_empty()).then_some(()))
}

/// Reads a trace, or only the header lines before the first job if `size` is `None`. An error names the number of the line.
pub(super) fn read_trace(
    mut lines: impl BufRead,
    size: Option<Size>,
    history: &mut History,
) -> Result<(), String> {
    let (mut start, mut bytes, mut previous) = (0.0, Vec::new(), None);
    for number in 1_u64.. {
        let at_line = |text: String| format!("line {number}: {text}");
        if read_line(&mut lines, &mut bytes).map_err(at_line)?.is_none() {
            break;
        }
        let line = String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes));
        if let Some(said) = line.trim_start().strip_prefix(';') {
            if let Some((key, value)) = said.split_once(':') {
                let note = read_header(key.trim(), value.trim(), &mut start, history);
                history.notes.extend(note.map(at_line));
            }
            continue;
        }
        if line.trim().is_empty() {
            continue;
        }
        let Some(size) = size else { break };
        let fields = parse_fields(&line).map_err(at_line)?;
        // A job in parts has a summary line, and the lines of its parts follow.
        let job = fields.first().copied();
        if fields.get(STATUS).is_some_and(|status| PARTS.contains(status)) {
            history.skipped += usize::from(job != previous);
        } else {
            add_job(&fields, start, size, history).map_err(at_line)?;
        }
        previous = job;
    }
    Ok(())
}

/// Reads a line of the header. Returns a note if its value is invalid; a negative value is unknown.
fn read_header(key: &str, value: &str, start: &mut f64, history: &mut History) -> Option<String> {
    // Digits may be grouped by commas.
    let word = value.split_whitespace().next().unwrap_or_default().replace(',', "");
    let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
    let count = number.filter(|number| *number >= 1.0).map(|number| number as u64);
    let is_read = match key {
        "UnixStartTime" => {
            *start = number.filter(|number| is_time(*number)).unwrap_or(0.0);
            number.is_some_and(is_time)
        }
        "MaxProcs" => {
            history.cores = count;
            count.is_some()
        }
        "MaxNodes" => {
            history.nodes = count;
            count.is_some()
        }
        _ => true,
    };
    let is_unknown = number.is_some_and(|number| number < 0.0);
    let shown = value.chars().take(MAX_SHOWN).collect::<String>();
    (!is_read && !is_unknown)
        .then(|| format!("ignored {key}, because \"{}\" is invalid", shown.escape_debug()))
}

/// Parses the fields of a line. The error text names the first word that is not a number, or the number of words.
fn parse_fields(line: &str) -> Result<[f64; 18], String> {
    let expected = "expected 18 numbers, as the Standard Workload Format has them";
    let parse = |word: &str| {
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        let shown = || word.chars().take(MAX_SHOWN).collect::<String>().escape_debug().to_string();
        number.ok_or_else(|| format!("\"{}\" is not a number: {expected}", shown()))
    };
    let fields = line.split_ascii_whitespace().map(parse).collect::<Result<Vec<f64>, String>>()?;
    let many = fields.len();
    fields.try_into().map_err(|_| format!("the number of fields is {many}: {expected}"))
}

/// Adds the job of a line. An error names the invalid number.
fn add_job(fields: &[f64; 18], start: f64, size: Size, history: &mut History) -> Result<(), String> {
    let field = |at: usize| fields.get(at).copied().unwrap_or(-1.0);
    for (at, what, most) in
        [(SUBMIT, "the submit time", LATEST), (WAIT, "the wait", LATEST), (RUN, "the run time", LONGEST_RUN)]
    {
        if field(at) > most {
            return Err(format!("{what} is {:e} s; the maximum is {most:e} s", field(at)));
        }
    }
    if field(USER) > GREATEST_USER {
        return Err(format!("the user id is {}; the maximum is {GREATEST_USER}", field(USER)));
    }
    let cores = if field(GIVEN) > 0.0 { field(GIVEN) } else { field(ASKED) };
    // A job that was cancelled before its start may have the run time 0, but it got no processors.
    let never_ran = field(STATUS) == CANCELLED && field(RUN) == 0.0 && field(GIVEN) <= 0.0;
    if never_ran || field(RUN) < 0.0 || cores < 1.0 || field(SUBMIT) < 0.0 {
        history.skipped += 1;
        return Ok(());
    }
    let named = |what: &str, number: f64| {
        if number < 0.0 { format!("no-{what}") } else { format!("{what}{number}") }
    };
    let user = if field(USER) < 0.0 { UNKNOWN } else { field(USER) as u32 };
    let queue = (field(QUEUE) >= 0.0).then(|| named("queue", field(QUEUE)).as_str().into());
    let party = Party { user: UserId(user), bank: named("group", field(GROUP)).as_str().into(), queue };
    let [nodes, cores, gpus] = size.complete_job_size(cores as u32);
    let wait = Some(field(WAIT)).filter(|wait| *wait >= 0.0);
    history.push(party, start + field(SUBMIT), wait, (field(RUN), field(WALLTIME)), [nodes, cores, gpus]);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fairshare_simulate::Job;

    fn parse(text: &str) -> Result<History, String> {
        let mut history = History::default();
        let size = Size { cores_per_node: 4, whole_nodes: false };
        read_trace(text.as_bytes(), Some(size), &mut history)?;
        history.trace.sort();
        Ok(history)
    }

    #[test]
    fn each_line_is_read_as_a_job() {
        let history = parse("\u{feff}; MaxProcs: 100\n;MaxNodes:25 (5)\n; UnixStartTime: 1000\n\
             1 5 3 60 6 -1 -1 8 120 -1 1 7 3 -1 2 -1 -1 -1\n 2 1 -1 10.5 -1 -1 -1 2 -1 -1 0 -1 -1 -1 -1 -1 -1 -1\n")
        .unwrap();
        assert_eq!((history.cores, history.nodes, history.skipped), (Some(100), Some(25), 0));
        let parsed = |job: &Job| (job.submit, job.run, job.walltime, job.nodes, job.cores);
        let jobs: Vec<_> = history.trace.jobs().iter().map(parsed).collect();
        assert_eq!(jobs, [(1001.0, 10.5, 10.5, 1, 2), (1005.0, 60.0, 120.0, 2, 6)]);
        let parties: Vec<_> = history.trace.parties().iter().map(|party| format!("{party:?}")).collect();
        assert!(
            parties[0].contains("UserId(7)")
                && parties[0].contains("group3")
                && parties[0].contains("queue2")
        );
        assert!(parties[1].contains("UserId(65534)") && parties[1].contains("no-group"), "{}", parties[1]);
    }

    #[test]
    fn trace_import_skips_partial_executions_and_jobs_that_never_ran() {
        let history = parse(
            "1 5 3 60 6 -1 -1 8 120 -1 3 7 3 -1 2 -1 -1 -1\n2 5 3 -1 6 -1 -1 8 120 -1 5 7 3 -1 2 -1 -1 -1\n\
             3 5 3 9 0 -1 -1 -1 120 -1 5 7 3 -1 2 -1 -1 -1\n4 5 3 0 0 -1 -1 8 120 -1 5 7 3 -1 2 -1 -1 -1\n",
        );
        // The first job is left out too, because it has a part (status 3) but no summary line.
        let history = history.unwrap();
        assert_eq!((history.trace.jobs().len(), history.skipped), (0, 4));
        let line = |job: u32, run: u32, status: u32| {
            format!("{job} 5 3 {run} 6 -1 -1 8 120 -1 {status} 7 3 -1 2 -1 -1 -1\n")
        };
        let with_summary = line(1, 60, 1) + &line(1, 40, 2) + &line(1, 20, 3);
        let history = parse(&(with_summary + &line(2, 40, 2) + &line(2, 20, 3) + &line(3, 9, 4))).unwrap();
        let runs: Vec<_> = history.trace.jobs().iter().map(|job| job.run).collect();
        assert_eq!((runs, history.skipped), (vec![60.0], 2));
    }

    /// If a submit time were as large as 1e18 s, adding a second would not change the number, so the replay would never end.
    #[test]
    fn an_invalid_number_is_reported_with_its_line() {
        let line = |submit: &str, wait: &str, run: &str, user: &str| {
            parse(&format!("; x\n1 {submit} {wait} {run} 6 -1 -1 8 1e300 -1 1 {user} 3 -1 2 -1 -1 -1\n"))
        };
        for (submit, wait, run, user, message) in [
            ("1e18", "0", "9", "7", "the submit time is 1e18 s; the maximum is 1e11 s"),
            ("0", "1e308", "9", "7", "the wait is 1e308 s; the maximum is 1e11 s"),
            ("0", "0", "4294967295", "7", "the run time is 4.294967295e9 s; the maximum is 3.15576e8 s"),
            ("0", "0", "9", "4294967295", "the user id is 4294967295; the maximum is 4294967294"),
        ] {
            assert_eq!(line(submit, wait, run, user).err().unwrap(), format!("line 2: {message}"));
        }
        let most = line("1e11", "1e11", "3.15576e8", "4294967294").unwrap();
        assert_eq!((most.trace.jobs().len(), most.waits), (1, (1, 1e11)));
        // An invalid start time is ignored.
        let started = parse("; UnixStartTime: 1e300\n1 5 -1 9 6 -1 -1 8 9 -1 1 7 3 -1 2 -1 -1 -1\n").unwrap();
        assert_eq!(started.trace.jobs()[0].submit, 5.0);
        assert_eq!(started.notes, ["line 1: ignored UnixStartTime, because \"1e300\" is invalid"]);
    }

    #[test]
    fn an_invalid_value_of_the_header_is_reported() {
        let header =
            parse("; MaxProcs: 1,024\n; MaxNodes: 12k\n; UnixStartTime: -1\n; MaxJobs: x\n").unwrap();
        assert_eq!((header.cores, header.nodes), (Some(1024), None));
        assert_eq!(header.notes, ["line 2: ignored MaxNodes, because \"12k\" is invalid"]);
        let header = parse("; MaxProcs: -1\n; MaxNodes: 0\n").unwrap();
        assert_eq!(header.notes, ["line 2: ignored MaxNodes, because \"0\" is invalid"]);
    }

    /// Without a limit on the length of a line, ten megabytes of compressed input took ten gigabytes of memory.
    #[test]
    fn a_trace_line_of_unlimited_length_is_reported_and_not_stored() {
        struct Endless(u64);
        impl std::io::Read for Endless {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                self.0 += buffer.len() as u64;
                buffer.fill(b';');
                Ok(buffer.len())
            }
        }
        let too_long = "line 1: longer than 64 KiB; in the Standard Workload Format, a line has 18 numbers";
        let size = Size { cores_per_node: 4, whole_nodes: false };
        let mut endless = Endless(0);
        for size in [Some(size), None] {
            let lines = std::io::BufReader::new(&mut endless);
            assert_eq!(read_trace(lines, size, &mut History::default()).err().unwrap(), too_long);
        }
        assert!(endless.0 < 1 << 20, "{} bytes were read", endless.0);
        // A line of the greatest length is accepted.
        let longest = format!(";{}\n", " ".repeat(LONGEST_LINE - 2));
        assert_eq!(parse(&longest.repeat(2)).unwrap().trace.jobs().len(), 0);
        assert_eq!(parse(&longest.replace('\n', " \n")).err().unwrap(), too_long);
        let text = longest.clone() + "; MaxProcs: 100\nnot a job\n; MaxProcs: 200\n";
        let mut header = History::default();
        read_trace(text.as_bytes(), None, &mut header).unwrap();
        assert_eq!((header.nodes, header.cores), (None, Some(100)));
    }

    #[test]
    fn a_file_that_is_not_a_trace_is_reported_with_its_line() {
        let long = format!("1 {}\n", "x".repeat(500));
        let cut = format!("\"{}\" is not a number", "x".repeat(40));
        for (text, fault) in [
            ("1 2 3\n", "the number of fields is 3"),
            ("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19\n", "the number of fields is 19"),
            ("name,user\n", "\"name,user\" is not a number"),
            ("12/21/2009 15:27:00;E;6.edge;user=u\n", "\"12/21/2009\" is not a number"),
            ("1 2 nan\n", "\"nan\" is not a number"),
            ("PK\u{3}\u{4}\n", "\"PK\\u{3}\\u{4}\" is not a number"),
            (&long, &cut),
        ] {
            let parsed = parse(&format!("; x\n{text}")).err().unwrap();
            let expected = "expected 18 numbers, as the Standard Workload Format has them";
            assert_eq!(parsed, format!("line 2: {fault}: {expected}"));
        }
    }
}
