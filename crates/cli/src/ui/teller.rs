// SPDX-License-Identifier: LGPL-3.0-only
//! Prints sentences and tables about jobs and associations on a screen.

use std::io::{self, Write};

use super::figures::number;
use super::printable::printable;
use super::progress::Progress;
use super::rows::{Look, Rows};
use super::screen::{BOLD, Screen};
use super::table::Table;
use super::words::Words;
use fairshare_engine::engine::answers::{QueueRules, Why};
use fairshare_engine::ids::QueueName;

/// Prints texts on a screen, with the names of users and jobs.
pub(crate) struct TextPrinter<'a> {
    pub(crate) screen: &'a Screen,
    pub(crate) words: &'a Words<'a>,
}

impl TextPrinter<'_> {
    /// Prints a text, wrapped to the screen. Control characters in it are escaped.
    pub(crate) fn line(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.screen.wrapped(&printable(text), "", "", out)
    }

    /// Prints a text like [`TextPrinter::line`], but indented.
    pub(crate) fn item(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.screen.wrapped(&printable(text), "  ", "    ", out)
    }

    /// Prints a heading.
    pub(crate) fn heading(&self, text: &str, out: &mut dyn Write) -> io::Result<()> {
        self.screen.wrapped(&self.screen.paint(BOLD, &printable(text)), "", "", out)
    }

    /// If the site has set them, prints the limits from which a queue is exempt, and the largest priority in the queue.
    pub(crate) fn queue_rules(
        &self,
        queue: Option<&QueueName>,
        rules: &QueueRules,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let Some(queue) = queue.filter(|_| *rules != QueueRules::default()) else { return Ok(()) };
        let scopes = rules.exempt.join(", ");
        let exempt =
            (!scopes.is_empty()).then(|| format!("exempt from limits over all queues (scopes: {scopes})"));
        let most = rules.max_priority.map(|most| format!("priorities of at most {}", number(most)));
        let parts: Vec<String> = exempt.into_iter().chain(most).collect();
        self.line(&format!("Queue {queue}: {}.", parts.join("; ")), out)
    }

    /// Prints rows as an indented table.
    pub(crate) fn table(&self, rows: Rows<'_>, give_up: &[&str], out: &mut dyn Write) -> io::Result<()> {
        let table = Table::new(self.screen, Look { give_up, ..Look::WHOLE }).indented(2);
        table.print(rows, false, &mut Progress::none(), out).map(|_| ())
    }

    /// Returns the job, its user and its bank: `ƒ12 of ann in bank chem`.
    pub(crate) fn format_job_and_owner(&self, job: &Why) -> String {
        let bank = job.bank.as_ref().map(|bank| format!(" in bank {bank}")).unwrap_or_default();
        format!("{} of {}{bank}", self.words.job(job.id.0), self.words.user(job.userid.0))
    }
}
