// SPDX-License-Identifier: LGPL-3.0-only
//! Prints sentences and tables about jobs and associations on a screen.

use std::cell::RefCell;

use super::figures::number;
use super::printable::printable;
use super::progress::Progress;
use super::rows::{Look, Rows};
use super::screen::{BOLD, Screen};
use super::table::Table;
use super::words::Words;
use fairshare_engine::engine::answers::{QueueRules, Why};
use fairshare_engine::ids::QueueName;

/// A text that is printed on a screen when it is complete.
pub(crate) struct ScreenText<'a> {
    pub(crate) screen: &'a Screen,
    text: RefCell<Vec<u8>>,
}

impl<'a> ScreenText<'a> {
    pub(crate) fn new(screen: &'a Screen) -> ScreenText<'a> {
        ScreenText { screen, text: RefCell::default() }
    }

    /// Adds a text, wrapped to the screen.
    pub(crate) fn line(&self, text: &str) {
        self.add_wrapped(text, "", "");
    }

    /// Adds a text like [`ScreenText::line`], but indented.
    pub(crate) fn item(&self, text: &str) {
        self.add_wrapped(text, "  ", "    ");
    }

    /// Adds a heading.
    pub(crate) fn heading(&self, text: &str) {
        self.line(&self.screen.paint(BOLD, text));
    }

    /// Adds an empty line.
    pub(crate) fn blank(&self) {
        self.text.borrow_mut().push(b'\n');
    }

    /// Adds rows as an indented table.
    pub(crate) fn table(&self, rows: Rows<'_>, give_up: &[&str]) {
        let table = Table::new(self.screen, Look { give_up, ..Look::WHOLE }).indented(2);
        // Writing to memory does not fail.
        let _ = table.print(rows, false, &mut Progress::none(), &mut *self.text.borrow_mut());
    }

    fn add_wrapped(&self, text: &str, first: &str, next: &str) {
        // Writing to memory does not fail.
        let _ = self.screen.wrapped(text, first, next, &mut *self.text.borrow_mut());
    }

    /// Returns the text.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.text.into_inner()
    }
}

/// A text about jobs and associations, with the names of users and jobs. Control characters in it are escaped.
pub(crate) struct TextPrinter<'a> {
    pub(crate) out: ScreenText<'a>,
    pub(crate) words: &'a Words<'a>,
}

impl<'a> TextPrinter<'a> {
    pub(crate) fn new(screen: &'a Screen, words: &'a Words<'a>) -> TextPrinter<'a> {
        TextPrinter { out: ScreenText::new(screen), words }
    }

    /// Adds a text, wrapped to the screen.
    pub(crate) fn line(&self, text: &str) {
        self.out.line(&printable(text));
    }

    /// Adds a text like [`TextPrinter::line`], but indented.
    pub(crate) fn item(&self, text: &str) {
        self.out.item(&printable(text));
    }

    /// Adds a heading.
    pub(crate) fn heading(&self, text: &str) {
        self.out.heading(&printable(text));
    }

    /// If the site has set them, prints the limits from which a queue is exempt, and the largest priority in the queue.
    pub(crate) fn queue_rules(&self, queue: Option<&QueueName>, rules: &QueueRules) {
        let Some(queue) = queue.filter(|_| *rules != QueueRules::default()) else { return };
        let scopes = rules.exempt.join(", ");
        let exempt =
            (!scopes.is_empty()).then(|| format!("exempt from limits over all queues (scopes: {scopes})"));
        let most = rules.max_priority.map(|most| format!("priorities of at most {}", number(most)));
        let parts: Vec<String> = exempt.into_iter().chain(most).collect();
        self.line(&format!("Queue {queue}: {}.", parts.join("; ")));
    }

    /// Returns the job, its user and its bank: `ƒ12 of ann in bank chem`.
    pub(crate) fn format_job_and_owner(&self, job: &Why) -> String {
        let bank = job.bank.as_ref().map(|bank| format!(" in bank {bank}")).unwrap_or_default();
        format!("{} of {}{bank}", self.words.job(job.id.0), self.words.user(job.userid.0))
    }
}
