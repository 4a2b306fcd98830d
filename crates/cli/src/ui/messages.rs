// SPDX-License-Identifier: LGPL-3.0-only
//! Prints lines on standard output and on standard error.

use std::fmt;
use std::io::{self, Write, stderr, stdout};

use super::printable;

/// Prints a line on standard output.
pub(crate) fn say(line: impl fmt::Display) -> io::Result<()> {
    writeln!(stdout(), "{line}")
}

/// Cuts a line to 4,000 cells. A name from a damaged database may have any length.
pub(crate) fn cut_line(line: &str) -> String {
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

/// Prints a text on standard error, after the command's name. An error is ignored, because the result of the command does not
/// depend on it. Control characters are escaped, because the text may hold names that users chose.
pub(crate) fn remark(text: impl fmt::Display) {
    let text = strip_error_number(&text.to_string());
    let lines: Vec<_> = text.lines().map(|line| cut_line(&printable::printable(line))).collect();
    let _ = writeln!(stderr(), "{NAME}: {}", lines.join("\n"));
}
