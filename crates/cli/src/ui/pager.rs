// SPDX-License-Identifier: LGPL-3.0-only
//! A pager for what is longer than the terminal, chosen as git chooses one.

use std::env;
use std::io::{self, BufWriter, ErrorKind, Write, stdout};
use std::process::{Child, ChildStdin, Command, Stdio};

use super::screen::Screen;

/// Standard output. What fits the terminal goes there; with the first line that does not a pager is started and gets all.
pub(crate) struct Paper {
    state: PagerState,
}

enum PagerState {
    /// Nothing is printed yet: whether a pager is needed is not known.
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
    /// Standard output as it is.
    pub(crate) fn plain() -> Paper {
        Paper { state: PagerState::Direct(BufWriter::with_capacity(1 << 16, stdout())) }
    }

    /// With a pager, if somebody looks at it.
    pub(crate) fn for_people(screen: &Screen) -> Paper {
        match screen.rows {
            Some(rows) if screen.pager => {
                Paper { state: PagerState::Waiting { text: Vec::new(), lines: 0, rows } }
            }
            _ => Paper::plain(),
        }
    }

    /// Writes what is left, and waits until it has been read.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.settle(false)?;
        self.flush()
    }

    /// Decides, if that is still to be done, and hands on what was kept.
    fn settle(&mut self, long: bool) -> io::Result<&mut PagerState> {
        if let PagerState::Waiting { text, .. } = &mut self.state {
            let text = std::mem::take(text);
            let pager = if long { start() } else { None };
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
                self.settle(true)?;
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
            // The end of its input is the end of what it waits for.
            drop(input.take());
            let _ = pager.wait();
        }
    }
}

/// FLUX_FAIRSHARE_PAGER, PAGER, less. Empty or `cat` is none, and so is one that can't be started.
fn start() -> Option<Child> {
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
    // F: leave if it fits; R: show colours; X: leave the text on the screen.
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
