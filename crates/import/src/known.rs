// SPDX-License-Identifier: LGPL-3.0-only
//! Recognizes texts that cannot be read, and names the command that prints a readable form.

use super::slurm;

const PBSFS: &str = "import the output of pbsfs";
const SSHARE: &str = "import the output of \"sshare -a -l -P\"";

/// Returns true if `text` is the output of sreport: if it has a title or a header that only sreport prints.
fn is_sreport(text: &str) -> bool {
    let is_title = |line: &str| {
        line.contains("Utilization ") || line.ends_with("Utilization") || line.contains("Usage reported in")
    };
    let has_columns = |line: &str| {
        let words: Vec<&str> = line.split(['|', ' ', '\t']).map(str::trim).collect();
        let has = |name: &&str| words.contains(name);
        ["Cluster", "Used"].iter().all(has) && ["Account", "Login", "WCKey"].iter().any(has)
    };
    text.lines().take(10).any(|line| is_title(line.trim()) || has_columns(line))
}

/// Returns a sentence about a text that was given as a list of usages but has no usages. Returns `None` if the format
/// of the text is unknown.
pub(super) fn describe_wrong_usages(text: &str) -> Option<String> {
    if is_sreport(text) {
        return Some(format!("{SREPORT}: expected a list with a name and a usage on each line"));
    }
    let header = text.lines().find(|line| !line.trim().is_empty())?;
    slurm::is_header(header).then(|| {
        "is the output of sshare, which has shares and usage: use only --tree, without --usage-file"
            .to_owned()
    })
}

const SREPORT: &str = "looks like a report of sreport, which has no shares and prints usage without decay";

/// If the text is a known document that cannot be imported, returns what it is and what the user can do.
pub(super) fn describe_text(text: &str) -> Option<String> {
    if is_sreport(text) {
        return Some(format!("{SREPORT}: {SSHARE}"));
    }
    let is_comment = |line: &str| line.is_empty() || line.starts_with(['#', '*']);
    if text.lines().map(str::trim).all(is_comment) {
        return Some(
            "contains only comments, like the resource_group file that PBS installs: the scheduler reads its \
             shares from PBS_HOME/sched_priv/resource_group, and pbsfs prints the tree"
                .to_owned(),
        );
    }
    let content = || text.lines().map(str::trim).filter(|line| !is_comment(line));
    let any_line = |starts: &[&str]| content().any(|line| starts.iter().any(|start| line.starts_with(start)));
    let line = content().next()?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let first = words.first().copied().unwrap_or_default();
    let has = |name: &str| words.contains(&name) || columns.contains(&name);
    let is_record_type = |word: &str| word.len() == 1 && word.chars().all(char::is_alphabetic);
    let hint = if slurm::is_fixed_width_table(line) {
        if has("RawShares") || line.contains("Raw Shares") {
            format!("looks like the fixed-width table of sshare, which truncates names: {SSHARE}")
        } else {
            "looks like the fixed-width table of sacctmgr, which truncates names: import the output of \"sacctmgr show assoc tree -P\""
                .to_owned()
        }
    } else if has("JOBID") && (has("PRIORITY") || has("FAIRSHARE")) {
        format!("looks like the output of sprio, which lists priorities of jobs, not the tree: {SSHARE}")
    } else if any_line(&["unknown_shares:", "fairshare_usage_res:", "fair_share:"]) {
        "looks like PBS's sched_config: import the file resource_group from the same directory".to_owned()
    } else if any_line(&["create queue ", "set queue ", "set server "]) {
        format!("looks like the output of qmgr, which has limits but no shares: {PBSFS}")
    } else if first == "Job" || line.split(';').nth(1).is_some_and(is_record_type) {
        format!("looks like a list of jobs of PBS, which has no shares: {PBSFS}")
    } else if any_line(&["ClusterName", "SlurmctldHost", "ControlMachine"]) {
        format!("looks like Slurm's configuration, which has no shares: {SSHARE}")
    } else if has("JobID") || has("JobIDRaw") {
        format!("looks like the output of sacct, which lists jobs, not the tree: {SSHARE}")
    } else if has("GraceTime") {
        format!("looks like a list of QOS, which has limits but no shares: {SSHARE}")
    } else if line.starts_with(';') {
        "looks like a trace, which has no shares: \"flux fairshare simulate --trace FILE\" replays it"
            .to_owned()
    } else if columns.len() > 4 && columns.first() == Some(&"root") {
        format!("looks like sshare's output without its header (-n): {SSHARE}")
    } else if columns.len() > 4 && columns.get(1) == Some(&"root") {
        "looks like sacctmgr's output without its header (-n): run \"sacctmgr show assoc tree -P\" without -n"
            .to_owned()
    } else if has("Account") && has("User") && columns.len() > 1 {
        format!(
            "looks like output of sshare or sacctmgr, but lacks the columns RawShares and RawUsage: {SSHARE}"
        )
    } else if has("Bank") && has("RawShares") {
        "looks like the output of \"flux account view-bank\": read the database with -p".to_owned()
    } else if line.trim_start().starts_with("TREEROOT(") {
        "looks like the output of \"pbsfs -t\", which has no shares and usage: import the output of pbsfs without options"
            .to_owned()
    } else if line.starts_with("fairshare entity:") {
        "looks like the output of \"pbsfs -g\" for one entity: import the output of pbsfs without options"
            .to_owned()
    } else if line.starts_with("---") || first == "shares:" {
        "looks like YAML: export it with --json instead of --yaml".to_owned()
    } else if line.starts_with("<!DOCTYPE") || line.starts_with("<html") {
        "looks like a web page".to_owned()
    } else if line.starts_with("sshare:") || line.starts_with("sacctmgr:") || line.starts_with("pbsfs:") {
        format!("contains an error message instead of data: {line}")
    } else {
        return None;
    };
    Some(hint)
}

/// Returns the error message for a file that is not UTF-8 text.
pub(super) fn describe_bytes(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x1f, 0x8b, ..] | [b'B', b'Z', b'h', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] => {
            "not text (UTF-8) but compressed: unpack the file; -t - reads a tree from standard input"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "not text (UTF-8) but UTF-16: save it as UTF-8",
        [0x7f, b'E', b'L', b'F', ..] => "not text (UTF-8) but a program",
        _ => "not text (UTF-8)",
    }
}
