// SPDX-License-Identifier: LGPL-3.0-only
//! What standard output is, and what may be put on it: how wide it is, whether colours and lines are shown.

use std::env;
use std::io::{self, IsTerminal, Write, stdout};

use anstream::{AutoStream, ColorChoice as Choice};
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use textwrap::{Options, WordSplitter};

/// How output for people looks.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ScreenArgs {
    /// Colours: on a terminal, always, or never
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    /// Don't start a pager for what is longer than the terminal
    #[arg(long)]
    no_pager: bool,
}

/// What standard output is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Cells in a line, where there is an end of it.
    pub(crate) width: Option<usize>,
    /// Lines, of a terminal that has them.
    pub(crate) rows: Option<usize>,
    /// Whether colours are wanted.
    pub(crate) colour: bool,
    /// Whether letters beyond ASCII are shown, by the locale.
    pub(crate) unicode: bool,
    /// Whether a person looks at it.
    pub(crate) terminal: bool,
    /// Whether a pager may stand in between.
    pub(crate) pager: bool,
}

/// Headings, and banks among users.
pub(crate) const BOLD: Style = Style::new().bold();
/// What helps the eye along.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// Less than was promised, or a gain.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// More than was promised, or a loss.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

impl ScreenArgs {
    /// Looks at standard output and the environment: NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM, COLUMNS, the locale.
    pub(crate) fn screen(self) -> Screen {
        let terminal = stdout().is_terminal();
        let colour = match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(&stdout()) != Choice::Never,
        };
        // The one and the other are asked for on their own: a terminal of no rows still has columns.
        let size = rustix::termios::tcgetwinsize(stdout()).ok();
        let size = |pick: fn(rustix::termios::Winsize) -> u16| {
            size.map(|size| usize::from(pick(size))).filter(|cells| *cells > 0)
        };
        Screen {
            width: columns().or_else(|| size(|size| size.ws_col)),
            rows: size(|size| size.ws_row),
            colour,
            unicode: unicode(),
            terminal,
            pager: terminal && !self.no_pager,
        }
    }
}

impl Default for ScreenArgs {
    fn default() -> Self {
        ScreenArgs { color: ColorChoice::Auto, no_pager: false }
    }
}

impl Screen {
    /// A text in a style, where styles are wanted.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && style != Style::new() && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Writes a text as lines that end where the screen does; `first` goes before the first of them, `others` before the rest.
    pub(crate) fn wrapped(
        &self,
        text: &str,
        first: &str,
        others: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(width) = self.width else { return writeln!(out, "{first}{text}") };
        // A terminal of ten columns is no place for words; what does not fit there is for the terminal to break.
        let options = Options::new(width.max(20))
            .initial_indent(first)
            .subsequent_indent(others)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation);
        // A number stays with its unit.
        let text = text.replace(" %", "\u{a0}%").replace("< ", "<\u{a0}");
        textwrap::wrap(&text, options)
            .iter()
            .try_for_each(|line| writeln!(out, "{}", line.replace('\u{a0}', " ")))
    }

    /// Whether lines show what is below what.
    pub(crate) fn tree_lines(&self) -> bool {
        self.terminal && self.unicode
    }

    /// What stands for the rest of a text that was cut.
    pub(crate) fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { ".." }
    }
}

/// The environment's word on the width, which goes before the terminal's own, as with git.
fn columns() -> Option<usize> {
    env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0)
}

/// Whether the locale's letters are those of Unicode: the first of these that says anything decides.
fn unicode() -> bool {
    let said = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    said.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
