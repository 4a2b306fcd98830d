// SPDX-License-Identifier: LGPL-3.0-only
//! Removes text that terminals, mails and editors add before, after and inside the output of a program.

use std::borrow::Cow;

/// The maximum number of lines that may come before the output of a program.
pub(super) const MAX_LINES_BEFORE: usize = 40;
/// The start of the line that a program prints above the output of each cluster, if there are several.
pub(super) const CLUSTER: &str = "CLUSTER:";

/// Decodes bytes that are not UTF-8 as Latin-1. Returns `None` for UTF-16 and for control characters that no text
/// contains.
pub(super) fn decode_latin_1(bytes: &[u8]) -> Option<String> {
    let is_text = |byte: &u8| *byte >= 0x20 || matches!(*byte, b'\t' | b'\n' | b'\r' | 0x0c);
    let is_utf_16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    (!is_utf_16 && bytes.iter().all(is_text)).then(|| bytes.iter().copied().map(char::from).collect())
}

/// Replaces the lines before and after the output by empty lines, so that line numbers stay, and no-break spaces by spaces.
pub(super) fn erase_lines_around_output(text: &str) -> Cow<'_, str> {
    const NO_BREAK_SPACE: char = '\u{a0}';
    let spaced: Cow<'_, str> = if text.contains(NO_BREAK_SPACE) {
        Cow::Owned(text.replace(NO_BREAK_SPACE, " "))
    } else {
        Cow::Borrowed(text)
    };
    let lines: Vec<&str> = spaced.lines().collect();
    let is_output = |at: usize| {
        let line = lines.get(at).copied().unwrap_or_default();
        let next = || lines.iter().skip(at + 1).find(|line| !line.trim().is_empty());
        let names_json = line.starts_with(CLUSTER) && next().is_some_and(|line| line.starts_with('{'));
        !line.trim().is_empty() && !is_outside_of_output(line) && !names_json
    };
    let first = (0..lines.len().min(MAX_LINES_BEFORE)).find(|at| is_output(*at));
    let last = (0..lines.len()).rev().find(|at| is_output(*at));
    let (Some(first), Some(last)) = (first, last) else { return spaced };
    let is_blank = |line: &&str| line.trim().is_empty();
    let (before, rest) = lines.split_at(first);
    let after = rest.get(last + 1 - first..).unwrap_or_default();
    if before.iter().all(is_blank) && after.iter().all(is_blank) {
        return spaced;
    }
    let output = rest.get(..=last - first).unwrap_or_default();
    Cow::Owned("\n".repeat(first) + &output.join("\n") + "\n")
}

/// Returns true if the line does not belong to the output but to the terminal, the mail or the log around it: a fence,
/// a comment, a prompt, or a message of a program.
pub(super) fn is_outside_of_output(line: &str) -> bool {
    let line = line.trim();
    if line.contains('|') || line.contains(" Grp:") || line.contains(" - '") {
        return false;
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_number = |at: usize| words.get(at).is_some_and(|word| word.parse::<f64>().is_ok());
    // A user can have the name of a program, or a name that ends like a prompt. In a list of usages, a number follows
    // the name. In a resource_group file, these are an id, a group and shares.
    let is_record = is_number(1) && (words.len() == 2 || is_number(3));
    let first = words.first().copied().unwrap_or_default();
    let is_message = words.len() > 1 && is_program_prefix(first);
    ["```", "~~~", "#", "[SNIP", "===", "No filename given"].iter().any(|mark| line.starts_with(mark))
        || (!is_record && (is_message || is_prompt(line)))
        || ["Users requested:", "Accounts requested:"].contains(&line)
        || first == ":"
}

/// Returns true for a shell prompt, with or without a command.
fn is_prompt(line: &str) -> bool {
    let signs = ['$', '#', '%', '>'];
    let ends = |part: &str| part.ends_with(signs);
    let mut words = line.split_whitespace();
    if words.next().is_some_and(ends) {
        return true;
    }
    let is_host =
        line.starts_with(['[', '(']) || line.split_whitespace().next().is_some_and(|word| word.contains('@'));
    is_host && words.any(ends)
}

/// Returns true for the start of a program's message, for example `sshare:`, `sacctmgr:` or `bash:`.
fn is_program_prefix(word: &str) -> bool {
    let Some(name) = word.strip_suffix(':') else { return false };
    let name = name.to_lowercase();
    let known = [
        "sshare", "sacctmgr", "sreport", "pbsfs", "error", "info", "note", "warning", "bash", "sh", "ssh",
        "sudo", "perl",
    ];
    known.contains(&name.as_str()) || name.starts_with("slurm")
}
