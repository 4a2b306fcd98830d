// SPDX-License-Identifier: LGPL-3.0-only
//! Prints lines on standard output and on standard error.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, Write, stderr, stdout};

use super::printable;
use super::screen::ScreenArgs;
use super::words::{caller, is_owner};
use crate::help::FOR_ADMINISTRATORS;
use fairshare_client::Flux;

/// Prints a line on standard output.
pub(crate) fn say(line: impl fmt::Display) -> io::Result<()> {
    writeln!(stdout(), "{line}")
}

/// Prints a sentence on standard output, wrapped to the terminal. Further lines are indented.
pub(crate) fn say_wrapped(text: impl fmt::Display) -> io::Result<()> {
    ScreenArgs::default().screen().wrapped(&text.to_string(), "", "  ", &mut stdout())
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

/// The commands of other programs that only administrators can use.
const OTHER_PROGRAMS: [&str; 3] = ["flux account", "flux jobtap", "sqlite3 "];

/// The advice to a guest if only administrators can help.
pub(crate) const ASK: &str = "ask an administrator of this site";

/// Returns true if the caller is a guest of the instance. Root can act as the instance owner, so root is never a guest.
pub(crate) fn is_guest() -> bool {
    caller() != 0 && Flux::connect(None).is_ok_and(|flux| !is_owner(&flux))
}

/// Returns true if a clause of a message suggests no command of administrators.
fn is_for_guests(clause: &str) -> bool {
    let names_command = |name: &str| clause.contains(&format!("fairshare {name}"));
    !OTHER_PROGRAMS.iter().any(|command| clause.contains(command))
        && !FOR_ADMINISTRATORS.iter().any(|name| names_command(name))
}

/// Returns the message for the caller. If the caller is a guest of the instance, removes the suggestions that only
/// administrators can follow, and adds the advice to ask an administrator.
pub(crate) fn address(message: &str) -> Cow<'_, str> {
    if is_for_guests(message) || !is_guest() {
        return message.into();
    }
    let clauses = message.split("; ").filter(|clause| is_for_guests(clause));
    clauses.chain([ASK]).collect::<Vec<_>>().join("; ").into()
}

/// Prints a text on standard error, after the command's name. An error is ignored, because the result of the command does not
/// depend on it. Control characters are escaped, because the text may hold names that users chose.
pub(crate) fn remark(text: impl fmt::Display) {
    let text = strip_error_number(&address(&text.to_string()));
    let lines: Vec<_> = text.lines().map(|line| truncate_line(&printable::printable(line))).collect();
    let _ = writeln!(stderr(), "{NAME}: {}", lines.join("\n"));
}
