// SPDX-License-Identifier: LGPL-3.0-only
//! Prints lines on standard output and on standard error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write, stderr, stdout};

use super::printable;
use super::words::{caller, is_owner};
use fairshare_client::Flux;

/// Prints a line on standard output.
pub(crate) fn say(line: impl fmt::Display) -> io::Result<()> {
    writeln!(stdout(), "{line}")
}

/// Cuts a line to 4,000 cells. A name from a damaged database may have any length.
pub(crate) fn truncate_line(line: &str) -> String {
    printable::cut(line, 4000, "...")
}

/// The name of the command in messages.
pub(crate) const NAME: &str = "flux-fairshare";

/// Removes the numbers that Rust appends to errors of the system, such as " (os error 2)".
pub(crate) fn strip_error_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once(')').map_or(part, |(_, rest)| rest))
}

/// If a clause of a message contains one of these texts, only administrators can do what the clause suggests.
const ADMINISTRATION: &str = "flux account|flux jobtap|sqlite3 |read access|fairshare budget|fairshare limit|\
    fairshare policy|fairshare push|fairshare recount|fairshare sync|fairshare update";

/// Returns the message for the caller. If the caller is a guest of the instance, removes the suggestions that only
/// administrators can follow, and adds the advice to ask an administrator. Root can act as the instance owner, so
/// root is never a guest.
pub(crate) fn address(message: &str) -> Cow<'_, str> {
    let is_for_guests = |clause: &&str| !ADMINISTRATION.split('|').any(|words| clause.contains(words));
    let is_guest = || caller() != 0 && Flux::connect(None).is_ok_and(|flux| !is_owner(&flux));
    if is_for_guests(&message) || !is_guest() {
        return message.into();
    }
    let clauses = message.split("; ").filter(is_for_guests);
    clauses.chain(["ask an administrator of this site"]).collect::<Vec<_>>().join("; ").into()
}

/// Prints a text on standard error, after the command's name. An error is ignored, because the result of the command does not
/// depend on it. Control characters are escaped, because the text may hold names that users chose.
pub(crate) fn remark(text: impl fmt::Display) {
    let text = strip_error_number(&address(&text.to_string()));
    let lines: Vec<_> = text.lines().map(|line| truncate_line(&printable::printable(line))).collect();
    let _ = writeln!(stderr(), "{NAME}: {}", lines.join("\n"));
}
