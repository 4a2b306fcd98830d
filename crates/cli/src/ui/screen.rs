// SPDX-License-Identifier: LGPL-3.0-only
//! The properties of standard output: its size, and whether it shows colours and letters beyond ASCII.

use std::env;
use std::io::{self, IsTerminal, Write, stdout};

use anstream::{AutoStream, ColorChoice as Choice};
use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use textwrap::{Options, WordSplitter};

/// The options for output on a terminal.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ScreenArgs {
    /// Colours: on a terminal, always, or never
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    color: ColorChoice,
    /// Don't start a pager for output that is longer than the terminal
    #[arg(long)]
    no_pager: bool,
}

/// The properties of standard output.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Screen {
    /// Cells of a line; `None` if lines are not wrapped.
    pub(crate) width: Option<usize>,
    /// Lines of the terminal; `None` if standard output is not a terminal.
    pub(crate) rows: Option<usize>,
    /// Whether colours are wanted.
    pub(crate) colour: bool,
    /// Whether the locale has letters beyond ASCII.
    pub(crate) unicode: bool,
    /// Whether standard output is a terminal.
    pub(crate) terminal: bool,
    /// Whether a pager may be started.
    pub(crate) pager: bool,
}

/// The style of headings. Banks have this style in a table that also has users.
pub(crate) const BOLD: Style = Style::new().bold();
/// The style of lines and other marks that show no data.
pub(crate) const FAINT: Style = Style::new().dimmed();
/// The style of good values, such as usage within the share.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// The style of bad values, such as usage beyond the share.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

impl ScreenArgs {
    /// Reads the properties of standard output from the terminal and from the environment: NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM,
    /// COLUMNS and the locale.
    pub(crate) fn screen(self) -> Screen {
        let terminal = stdout().is_terminal();
        let colour = match self.color {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => AutoStream::choice(&stdout()) != Choice::Never,
        };
        // A terminal that reports 0 rows may still report its columns.
        let size = rustix::termios::tcgetwinsize(stdout()).ok();
        let size = |pick: fn(rustix::termios::Winsize) -> u16| {
            size.map(|size| usize::from(pick(size))).filter(|cells| *cells > 0)
        };
        Screen {
            width: columns_variable().or_else(|| size(|size| size.ws_col)),
            rows: size(|size| size.ws_row),
            colour,
            unicode: is_unicode_locale(),
            terminal,
            pager: terminal && !self.no_pager,
        }
    }
}

impl Screen {
    /// Returns the text in a style, if colours are wanted.
    pub(crate) fn paint(&self, style: Style, text: &str) -> String {
        if self.colour && style != Style::new() && !text.is_empty() {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    /// Writes a text, wrapped to the width of the screen. `first` is the indentation of the first line, `next` of the next lines.
    pub(crate) fn wrapped(&self, text: &str, first: &str, next: &str, out: &mut dyn Write) -> io::Result<()> {
        let Some(width) = self.width else { return writeln!(out, "{first}{text}") };
        // A line has at least 20 cells, or words would not fit. A narrower terminal wraps the lines itself.
        let options = Options::new(width.max(20))
            .initial_indent(first)
            .subsequent_indent(next)
            .break_words(false)
            .word_splitter(WordSplitter::NoHyphenation);
        // A number is not separated from its unit.
        let text = text.replace(" %", "\u{a0}%").replace("< ", "<\u{a0}");
        textwrap::wrap(&text, options)
            .iter()
            .try_for_each(|line| writeln!(out, "{}", line.replace('\u{a0}', " ")))
    }

    /// Returns true if tables draw the tree with lines.
    pub(crate) fn has_tree_lines(&self) -> bool {
        self.terminal && self.unicode
    }

    /// Returns the mark at the end of a text that was cut.
    pub(crate) fn ellipsis(&self) -> &'static str {
        if self.unicode { "…" } else { ".." }
    }
}

/// Returns the width that COLUMNS gives, or `None` if COLUMNS is not a positive number. COLUMNS takes precedence over the terminal's width,
/// as in git.
fn columns_variable() -> Option<usize> {
    env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0)
}

/// Returns true if the locale uses UTF-8. The first variable that is set decides.
fn is_unicode_locale() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .find_map(|name| env::var(name).ok().filter(|value| !value.is_empty()));
    locale.is_some_and(|locale| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    })
}
