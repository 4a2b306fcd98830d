// SPDX-License-Identifier: LGPL-3.0-only
//! Sentences and tables about jobs and associations, on a screen.

use std::io::{self, Write};

use super::printable::printable;
use super::progress::Progress;
use super::rows::{Look, Rows};
use super::screen::{BOLD, Screen};
use super::table::Table;
use super::words::Words;
use fairshare_engine::engine::answers::Why;

/// What is told, and on what.
pub(crate) struct Teller<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) words: &'a Words<'a>,
}

impl Teller<'_> {
    /// A line of prose, no wider than the screen. Texts of others in it do not act on a terminal; ours of colour are put
    /// on top, where it is known what they mark.
    pub(crate) fn line(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.screen.wrapped(&printable(text), "", "", out)
    }

    /// As [`Teller::line`], set off from the margin.
    pub(crate) fn item(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.screen.wrapped(&printable(text), "  ", "    ", out)
    }

    /// What a part of the text is about.
    pub(crate) fn heading(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.screen.wrapped(&self.screen.paint(BOLD, &printable(text)), "", "", out)
    }

    /// Rows below a text.
    pub(crate) fn table(&self, rows: Rows<'_>, give_up: &[&str], out: &mut dyn Write) -> io::Result<()> {
        let table = Table::new(self.screen, Look { give_up, ..Look::WHOLE }).indented(2);
        table.print(rows, false, &mut Progress::none(), out).map(|_| ())
    }

    /// A job and whose it is.
    pub(crate) fn who(&self, job: &Why) -> String {
        let bank = job.bank.as_ref().map(|bank| format!(" in bank {bank}")).unwrap_or_default();
        format!("{} of {}{bank}", self.words.job(job.id.0), self.words.user(job.userid.0))
    }
}
