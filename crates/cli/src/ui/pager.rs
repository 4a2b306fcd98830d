// SPDX-License-Identifier: LGPL-3.0-only
//! Starts a pager for output that is longer than the terminal. The pager is chosen as in git.

use std::env;
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::screen::Screen;

/// Standard output, through a pager if the output does not fit the terminal. The text is stored until it is known whether the output fits.
pub(crate) struct Paper {
    state: PagerState,
}

enum PagerState {
    /// Nothing is printed yet, because the output may still fit the terminal.
    Waiting {
        text: Vec<u8>,
        lines: usize,
        rows: usize,
    },
    Direct(BufWriter<io::Stdout>),
    Paged {
        input: Option<BufWriter<ChildStdin>>,
        pager: Child,
    },
}

impl Paper {
    /// Returns standard output without a pager.
    pub(crate) fn plain() -> Paper {
        Paper { state: PagerState::Direct(BufWriter::with_capacity(1 << 16, stdout())) }
    }

    /// Returns standard output with a pager if it is a terminal and the user did not turn the pager off.
    pub(crate) fn for_people(screen: &Screen) -> Paper {
        match screen.rows {
            Some(rows) if screen.pager => {
                Paper { state: PagerState::Waiting { text: Vec::new(), lines: 0, rows } }
            }
            _ => Paper::plain(),
        }
    }

    /// Writes the remaining text. Dropping the paper waits for the end of the pager.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.choose_writer(false)?;
        self.flush()
    }

    /// Directs the output to a pager if the output is `long`, otherwise to standard output, and writes the stored text. Later calls do
    /// nothing.
    fn choose_writer(&mut self, long: bool) -> io::Result<&mut PagerState> {
        if let PagerState::Waiting { text, .. } = &mut self.state {
            let text = std::mem::take(text);
            let pager = if long { start_pager() } else { None };
            let mut state = match pager {
                Some(mut pager) => {
                    let input = pager.stdin.take().map(|input| BufWriter::with_capacity(1 << 16, input));
                    PagerState::Paged { input, pager }
                }
                None => PagerState::Direct(BufWriter::with_capacity(1 << 16, stdout())),
            };
            state.write_all(&text)?;
            self.state = state;
        }
        Ok(&mut self.state)
    }
}

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let PagerState::Waiting { text, lines, rows } = &mut self.state {
            text.extend_from_slice(bytes);
            *lines += bytes.iter().filter(|byte| **byte == b'\n').count();
            if *lines >= *rows {
                self.choose_writer(true)?;
            }
            return Ok(bytes.len());
        }
        self.state.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.state.flush()
    }
}

impl PagerState {
    fn writer(&mut self) -> Option<&mut dyn Write> {
        match self {
            PagerState::Waiting { text, .. } => Some(text),
            PagerState::Direct(out) => Some(out),
            PagerState::Paged { input, .. } => input.as_mut().map(|input| input as &mut dyn Write),
        }
    }
}

impl Write for PagerState {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer().map_or(Ok(bytes.len()), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer().map_or(Ok(()), Write::flush)
    }
}

impl Drop for Paper {
    fn drop(&mut self) {
        if let PagerState::Paged { input, pager } = &mut self.state {
            // The pager ends only after the end of its input.
            drop(input.take());
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
    match command.stdin(Stdio::piped()).spawn() {
        Ok(child) => Some(child),
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        Err(_) => None,
    }
}
