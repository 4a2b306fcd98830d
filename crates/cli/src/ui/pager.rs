// SPDX-License-Identifier: LGPL-3.0-only
//! Starts a pager for output that is longer than the terminal. The pager is chosen as in git.

use std::env;
use std::io::{self, BufWriter, Write, stdout};
use std::process::{Child, Command, Stdio};

use super::screen::Screen;

/// Standard output, through a pager if the output does not fit the terminal.
pub(crate) struct PagedOutput {
    out: Box<dyn Write>,
    /// The text that is not written yet, and the number of rows of the terminal. `None` if the output needs no pager, or has one.
    waiting: Option<(Vec<u8>, usize)>,
    pager: Option<Child>,
}

impl PagedOutput {
    /// Returns standard output without a pager.
    pub(crate) fn plain() -> PagedOutput {
        PagedOutput { out: buffered(stdout()), waiting: None, pager: None }
    }

    /// Returns standard output with a pager if it is a terminal and the user did not turn the pager off.
    pub(crate) fn with_pager(screen: &Screen) -> PagedOutput {
        let rows = screen.rows.filter(|_| screen.pager);
        let waiting = rows.map(|rows| (Vec::new(), rows));
        PagedOutput { out: buffered(stdout()), waiting, pager: None }
    }

    /// Writes the remaining text. When `PagedOutput` is dropped, it waits until the user closes the pager.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.write_stored_text(false)?;
        self.out.flush()
    }

    /// Directs the output to a pager if the output is `long`, and writes the stored text.
    fn write_stored_text(&mut self, long: bool) -> io::Result<()> {
        let Some((text, _)) = self.waiting.take() else { return Ok(()) };
        if long && let Some(mut pager) = start_pager() {
            if let Some(input) = pager.stdin.take() {
                self.out = buffered(input);
            }
            self.pager = Some(pager);
        }
        self.out.write_all(&text)
    }
}

fn buffered(out: impl Write + 'static) -> Box<dyn Write> {
    Box::new(BufWriter::with_capacity(1 << 16, out))
}

impl Write for PagedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some((text, rows)) = &mut self.waiting else { return self.out.write(bytes) };
        text.extend_from_slice(bytes);
        if text.iter().filter(|byte| **byte == b'\n').count() >= *rows {
            self.write_stored_text(true)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for PagedOutput {
    fn drop(&mut self) {
        if let Some(pager) = &mut self.pager {
            // The pager ends only after the end of its input.
            self.out = Box::new(io::sink());
            let _ = pager.wait();
        }
    }
}

/// Starts the pager that FLUX_FAIRSHARE_PAGER or PAGER names, otherwise less. Returns `None` if the name is empty or `cat`, or if
/// the pager does not start.
fn start_pager() -> Option<Child> {
    let named = ["FLUX_FAIRSHARE_PAGER", "PAGER"].into_iter().find_map(|name| env::var(name).ok());
    let mut command = match named.as_deref().map(str::trim) {
        Some("" | "cat") => return None,
        Some(pager) => {
            let mut shell = Command::new("sh");
            shell.args(["-c", pager]);
            shell
        }
        None => Command::new("less"),
    };
    // F: quit if the text fits; R: show colours; X: leave the text on the screen.
    for (name, value) in [("LESS", "FRX"), ("LV", "-c")] {
        if env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::piped()).spawn().ok()
}
