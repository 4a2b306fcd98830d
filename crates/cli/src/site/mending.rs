// SPDX-License-Identifier: LGPL-3.0-only
//! What to do about a database that can't be used, or about what is in it.

use std::path::Path;

use super::database::{Found, VARIABLE};
use crate::outcome::{Failure, failure};
use crate::ui::printable::printable;
use fairshare::TreeError;
use fairshare_accounting::pipeline::PipelineError;
use fairshare_accounting::store::{Access, Reason, StoreError, StoredLimit, quote_for_shell};

/// What of a database the plugin tells its users too. Sites keep the file private.
const STANDING: &str = "\"flux fairshare standing\" and \"flux fairshare why JOBID\" ask the plugin instead";

/// A database that can't be opened, and where else to look; also for a document, where the command reads one. Who only reads is
/// told what the plugin answers.
pub(crate) fn unopened(error: &StoreError, found: &Found, access: Access, reads_documents: bool) -> Failure {
    let who = found.by.map_or(String::new(), |by| format!(" ({by})"));
    let document = if reads_documents { ", -t FILE reads a document instead" } else { "" };
    let elsewhere = format!("-p FILE or {VARIABLE} names another{document}");
    let is_named = error.reason == Reason::Missing && found.by.is_none();
    let live = if access == Access::Read && !is_named { format!("; {STANDING}") } else { String::new() };
    let told = match &error.reason {
        Reason::Missing => {
            format!("{error}{who}; {elsewhere}, \"flux account create-db\" makes one{live}")
        }
        Reason::Denied(_) => {
            format!("{error}{who}; it takes an account that may read it, or another file: {elsewhere}{live}")
        }
        Reason::Unreadable(_) | Reason::Empty | Reason::NotADatabase if found.by.is_some() => {
            format!("{error}{who}; {elsewhere}")
        }
        _ => error.to_string(),
    };
    Failure::Message(told)
}

/// Splits a message into what is wrong and what to do about it, which begins with a command.
pub(crate) fn split(message: &str) -> (String, Option<String>) {
    let begins = ["; \"flux ", "; `sqlite3 "].iter().filter_map(|begin| message.find(begin)).min();
    match begins.and_then(|at| message.split_at_checked(at)) {
        Some((what, remedy)) => (what.to_owned(), Some(remedy.trim_start_matches("; ").to_owned())),
        None => (message.to_owned(), None),
    }
}

/// A step of the pipeline that failed; of a tree with the command that mends it.
pub(crate) fn failed(error: PipelineError) -> Failure {
    match error {
        PipelineError::Tree { path, error } => no_tree(&path, &error),
        error => failure(error),
    }
}

/// Rows of a database that are no tree, and the command that mends them.
pub(crate) fn no_tree(source: &Path, error: &TreeError) -> Failure {
    let mend = match error {
        TreeError::NoBanks => "\"flux account add-bank root 1\" makes the first".to_owned(),
        TreeError::NoRoot => format!(
            "{} makes the bank root the one above all",
            sqlite3(source, "UPDATE bank_table SET parent_bank = '' WHERE bank = 'root'")
        ),
        TreeError::SeveralRoots(_, other) => {
            format!("{} puts it below another", flux(&["edit-bank", "--parent-bank=PARENT", other]))
        }
        TreeError::MissingParent { bank, parent } => format!(
            "{} puts it below another, {} makes that one",
            flux(&["edit-bank", "--parent-bank=PARENT", bank]),
            flux(&["add-bank", "--parent-bank=root", parent, "SHARES"])
        ),
        TreeError::Cycle(bank) => {
            format!("{} takes it out of the circle", flux(&["edit-bank", "--parent-bank=root", bank]))
        }
        TreeError::MissingBank { user, bank } => format!(
            "{} makes it, {} removes the user from it",
            flux(&["add-bank", "--parent-bank=root", bank, "SHARES"]),
            flux(&["delete-user", "--force", user, bank])
        ),
        TreeError::DuplicateAssociation { user, bank } => {
            format!("{} removes the user from it", flux(&["delete-user", "--force", user, bank]))
        }
        TreeError::BadUsage { .. } => {
            "\"flux fairshare recount --write\" counts it anew from the records of jobs".to_owned()
        }
        TreeError::DuplicateBank(bank) => format!(
            "{} removes one of its rows, which {} shows",
            sqlite3(source, "DELETE FROM bank_table WHERE bank_id = ID"),
            flux(&["view-bank", bank])
        ),
        TreeError::TooLarge => {
            return Failure::Message(format!("{}: {error}", source.display()));
        }
    };
    Failure::Message(format!("{}: {error}; {mend}", source.display()))
}

/// Limits on users who are not there, each with the command that takes it back.
pub(crate) fn lost(limits: &[StoredLimit]) -> Vec<String> {
    let one = |StoredLimit { scope, name, queue, .. }: &StoredLimit| {
        let unset = format!("\"{}\"", unset_limit(scope, name, queue));
        format!("nothing of {scope} {name} is sent, who is not there; {unset} takes the limits back")
    };
    let mut lost: Vec<String> = limits.iter().map(one).collect();
    // Limits are in order: those on the same lie together.
    lost.dedup();
    lost
}

/// The command that takes back all limits on somebody, over all queues or in one.
pub(crate) fn unset_limit(scope: &str, name: &str, queue: &str) -> String {
    let in_queue = format!("--queue={queue}");
    let mut words = vec!["limit", "unset", scope, name];
    words.extend((!queue.is_empty()).then_some(in_queue.as_str()));
    command("fairshare", &words).trim_matches('"').to_owned()
}

/// A statement to be run on the database, in quotes.
fn sqlite3(database: &Path, statement: &str) -> String {
    let path = quote_for_shell(&database.display().to_string());
    format!("`sqlite3 {path} \"{statement}\"`")
}

/// A command of flux-accounting's, in quotes.
fn flux(words: &[&str]) -> String {
    command("account", words)
}

/// A command in quotes; names with blanks or worse in them are quoted as a shell wants it.
fn command(of: &str, words: &[&str]) -> String {
    let quoted = |word: &&str| quote_for_shell(&printable(word));
    format!("\"flux {of} {}\"", words.iter().map(quoted).collect::<Vec<_>>().join(" "))
}
