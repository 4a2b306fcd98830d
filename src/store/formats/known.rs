// SPDX-License-Identifier: LGPL-3.0-only
//! What a text that can't be read looks like, and which command prints it so that it can be.

use super::slurm;

const SSHARE: &str = "\"sshare -a -l -P\" prints what can be read";

/// A sentence about a text of no known format, where there is one to say.
pub(super) fn looks_like(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim_end).find(|line| !line.is_empty())?;
    let words: Vec<&str> = line.split_whitespace().collect();
    let columns: Vec<&str> = line.split('|').map(str::trim).collect();
    let first = words.first().copied().unwrap_or_default();
    let has = |name: &str| words.contains(&name) || columns.contains(&name);
    let told = if slurm::is_table_for_people(line) {
        if has("RawShares") {
            format!("looks like sshare's table for people, which cuts names short: {SSHARE}")
        } else {
            "looks like sacctmgr's table for people, which cuts names short: \"sacctmgr show assoc tree -P\" prints what \
             can be read"
                .to_owned()
        }
    } else if has("JOBID") && (has("PRIORITY") || has("FAIRSHARE")) {
        format!("looks like what sprio prints, the priorities of jobs, not the tree they come from: {SSHARE}")
    } else if columns.len() > 4 && columns.first() == Some(&"root") {
        format!("looks like sshare's output without its header (-n): {SSHARE}")
    } else if columns.len() > 4 && columns.get(1) == Some(&"root") {
        "looks like sacctmgr's output without its header (-n): \"sacctmgr show assoc tree -P\" has it"
            .to_owned()
    } else if has("Account") && has("User") && columns.len() > 1 {
        format!("looks like Slurm's, but lacks the columns RawShares and RawUsage: {SSHARE}")
    } else if has("Bank") && has("RawShares") {
        "looks like what \"flux account\" prints of a bank: -p reads the database itself, and \"flux account export-db\" \
         writes what -t can read"
            .to_owned()
    } else if line.trim_start().starts_with("TREEROOT(") {
        "looks like what \"pbsfs -t\" prints, names without shares and usage: pbsfs alone prints all"
            .to_owned()
    } else if line.starts_with("fairshare entity:") {
        "looks like what \"pbsfs -g\" prints of one entity: pbsfs alone prints all".to_owned()
    } else if line.starts_with("---") || first == "shares:" {
        "looks like YAML: --json instead of --yaml prints what can be read".to_owned()
    } else if line.starts_with("<!DOCTYPE") || line.starts_with("<html") {
        "looks like a web page".to_owned()
    } else if line.starts_with("sshare:") || line.starts_with("sacctmgr:") || line.starts_with("pbsfs:") {
        format!("holds an error of that program: {line}")
    } else {
        return None;
    };
    Some(told)
}

/// A sentence about bytes that are no text.
pub(super) fn looks_like_bytes(bytes: &[u8]) -> &'static str {
    match bytes {
        [0x1f, 0x8b, ..] | [b'B', b'Z', b'h', ..] | [0x28, 0xb5, 0x2f, 0xfd, ..] | [0xfd, b'7', b'z', ..] => {
            "not text (UTF-8) but compressed: unpack it, through a pipe if you like (-t - reads standard input)"
        }
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => "not text (UTF-8) but UTF-16: save it as UTF-8",
        [0x7f, b'E', b'L', b'F', ..] => "not text (UTF-8) but a program",
        _ => "not text (UTF-8)",
    }
}
