// SPDX-License-Identifier: LGPL-3.0-only
//! Lines on standard output and on standard error.

use std::fmt;
use std::io::{self, Write, stderr, stdout};

use super::printable;

/// A line on standard output.
pub(crate) fn say(line: impl fmt::Display) -> io::Result<()> {
    writeln!(stdout(), "{line}")
}

/// As much of a line as anybody reads: a name out of a damaged database may be of any length.
pub(crate) fn readable(line: &str) -> String {
    printable::cut(line, 4000, "...")
}

/// A line on standard error, after the command's name. If it can't be written, nobody is there to be told; what the command
/// was asked to do is not the worse for it. Names of others are in it, so no control character gets through.
pub(crate) fn remark(text: impl fmt::Display) {
    let text = text.to_string();
    let lines: Vec<_> = text.lines().map(|line| readable(&printable::printable(line))).collect();
    let _ = writeln!(stderr(), "flux-fairshare: {}", lines.join("\n"));
}
