// SPDX-License-Identifier: LGPL-3.0-only
//! Messages about databases that can't be used, each with the command that repairs them.

use std::path::Path;

use super::database::{DatabaseArg, Found, VARIABLE};
use crate::outcome::{Failure, failure};
use crate::ui::messages::{ASK, is_guest};
use crate::ui::printable::printable;
use fairshare::TreeError;
use fairshare_accounting::pipeline::PipelineError;
use fairshare_accounting::store::{Access, Fault, Reason, StoreError, StoredLimit, quote_for_shell};

/// Remedy for users who may not read the database: the commands that ask the plugin.
const STANDING: &str = "\"flux fairshare standing\" and \"flux fairshare why JOBID\" ask the plugin instead";

/// Returns the message for a database that can't be opened, with the options that name another database. If
/// the command also reads documents, the message names the option for documents. If the command only reads,
/// the message names the commands that ask the plugin. A guest can neither create the database nor get access to it, so
/// the message to a guest begins with what the guest can do.
pub(crate) fn open_failure(error: &StoreError, found: &Found, access: Access, reads_files: bool) -> Failure {
    let source = found.by.map_or(String::new(), |by| format!(" ({by})"));
    let document = if reads_files { ", -t FILE reads a document instead" } else { "" };
    let elsewhere = format!("-p FILE or {VARIABLE} names another database{document}");
    let is_named = error.reason == Reason::Missing && found.by.is_none();
    let live = if access == Access::Read && !is_named { format!("; {STANDING}") } else { String::new() };
    let text = match &error.reason {
        Reason::Missing | Reason::Denied(_) if access == Access::Read && is_guest() => match found.by {
            Some(_) => format!("{}; {error}{source}; {ASK}", describe_commands_for_guests()),
            None => format!("{error}; {elsewhere}; {ASK}"),
        },
        Reason::Missing => {
            format!("{error}{source}; {elsewhere}, \"flux account create-db\" creates a database{live}")
        }
        Reason::Denied(_) => {
            format!(
                "{error}{source}; run the command as a user with read access, or read another file: {elsewhere}{live}"
            )
        }
        Reason::Unreadable(_) | Reason::Empty | Reason::NotADatabase if found.by.is_some() => {
            format!("{error}{source}; {elsewhere}")
        }
        _ => error.to_string(),
    };
    failure(text)
}

/// The reason why a guest can't read the live tree.
pub(crate) const LIVE_DENIED: &str = "only the instance owner and admins may read the live tree";
/// What a guest can do instead of reading the live tree.
pub(crate) const OWN_VALUES: &str = "\"flux fairshare standing\" shows your own live values";

/// Returns the commands that a guest can use without the database.
fn describe_commands_for_guests() -> String {
    format!("{OWN_VALUES}; \"flux fairshare why YOURJOB OTHERJOB\" compares two jobs")
}

/// Returns the message for a guest who may not read the live tree, and for whom the database can't be opened.
pub(crate) fn explain_denied_tree_access(error: &StoreError) -> Failure {
    Failure::No(format!("{}; {LIVE_DENIED}; {error}", describe_commands_for_guests()))
}

impl From<PipelineError> for Failure {
    /// Converts an error of the pipeline. For an invalid tree, the failure names the command that repairs the tree.
    fn from(error: PipelineError) -> Failure {
        match error {
            PipelineError::Tree { path, error } => describe_tree_failure(&path, &error),
            PipelineError::Store(error) => error.into(),
            error => failure(error),
        }
    }
}

/// Returns the failure for rows of a database that are not a tree, with the command that repairs them.
pub(crate) fn describe_tree_failure(source: &Path, error: &TreeError) -> Failure {
    let flux_command = |words: &[&str], names: &[&str]| quote_command("account", words, names);
    let mend = match error {
        TreeError::NoBanks => "\"flux account add-bank root 1\" creates the first bank".to_owned(),
        TreeError::NoRoot => format!(
            "{} makes the bank root the root of the tree",
            sqlite3_command(source, "UPDATE bank_table SET parent_bank = '' WHERE bank = 'root'")
        ),
        TreeError::SeveralRoots(_, other) => {
            format!(
                "{} gives it a parent bank",
                flux_command(&["edit-bank", "--parent-bank=PARENT"], &[other])
            )
        }
        TreeError::MissingParent(bank, parent) => format!(
            "{} gives it another parent bank, {} creates the missing bank",
            flux_command(&["edit-bank", "--parent-bank=PARENT"], &[bank]),
            flux_command(&["add-bank", "--parent-bank=root"], &[parent, "SHARES"])
        ),
        TreeError::Cycle(bank) => {
            format!("{} breaks the cycle", flux_command(&["edit-bank", "--parent-bank=root"], &[bank]))
        }
        TreeError::MissingBank(user, bank) => format!(
            "{} creates the bank, {} removes the user from it",
            flux_command(&["add-bank", "--parent-bank=root"], &[bank, "SHARES"]),
            flux_command(&["delete-user", "--force"], &[user, bank])
        ),
        TreeError::DuplicateAssociation(user, bank) => {
            format!(
                "{} removes the user from the bank",
                flux_command(&["delete-user", "--force"], &[user, bank])
            )
        }
        TreeError::BadUsage { .. } => {
            "\"flux fairshare recount --write\" recomputes it from the job records".to_owned()
        }
        TreeError::DuplicateBank(bank) => format!(
            "{} removes a row of the bank, and {} shows the rows",
            sqlite3_command(source, "DELETE FROM bank_table WHERE bank_id = ID"),
            flux_command(&["view-bank"], &[bank])
        ),
        TreeError::TooLarge => {
            return failure(format!("{}: {error}", source.display()));
        }
    };
    Failure::Message(Fault { problem: format!("{}: {error}", source.display()), remedy: Some(mend) })
}

/// Returns a message for each user or bank that has limits but does not exist, with the command that removes the limits.
pub(crate) fn describe_lost_limits(limits: &[StoredLimit]) -> Vec<String> {
    let message = |StoredLimit { scope, name, queue, .. }: &StoredLimit| {
        let unset = format!("\"{}\"", unset_limit_command(scope, name, queue));
        format!(
            "the limits of {scope} {name} are not sent, because {name} does not exist; {unset} removes them"
        )
    };
    let mut lost: Vec<String> = limits.iter().map(message).collect();
    // The limits are sorted, so `dedup` removes all duplicate messages.
    lost.dedup();
    lost
}

/// Returns the command `flux fairshare NAME` on the database and on the instance that `--uri` names.
pub(crate) fn format_command(database: &DatabaseArg, uri: Option<&str>, name: &str) -> String {
    let path = database.is_given().then(|| database.path().display().to_string());
    let options = path.iter().flat_map(|path| ["-p", path]).chain(uri.iter().flat_map(|uri| ["--uri", uri]));
    let words: Vec<&str> = [name].into_iter().chain(options).collect();
    join_command("fairshare", &words, &[])
}

/// Returns the command that removes all limits of a user or bank, over all queues or in `queue`.
pub(crate) fn unset_limit_command(scope: &str, name: &str, queue: &str) -> String {
    let in_queue = format!("--queue={queue}");
    let mut words = vec!["limit", "unset"];
    words.extend((!queue.is_empty()).then_some(in_queue.as_str()));
    join_command("fairshare", &words, &[scope, name])
}

/// Returns the command that runs an SQL statement on the database, in quotes.
fn sqlite3_command(database: &Path, statement: &str) -> String {
    let path = quote_for_shell(&database.display().to_string());
    format!("`sqlite3 {path} \"{statement}\"`")
}

/// Returns the command `flux SUBCOMMAND WORDS NAMES`, in quotes.
pub(crate) fn quote_command(subcommand: &str, words: &[&str], names: &[&str]) -> String {
    format!("\"{}\"", join_command(subcommand, words, names))
}

/// Returns the command `flux SUBCOMMAND WORDS NAMES`. Words with spaces or special characters are quoted for the shell.
pub(crate) fn join_command(subcommand: &str, words: &[&str], names: &[&str]) -> String {
    let quoted = |word: &&str| quote_for_shell(&printable(word));
    // Without this mark, a name with a leading dash would be an option.
    let mark = names.iter().any(|name| name.starts_with('-')).then_some(&"--");
    let words: Vec<String> = words.iter().chain(mark).chain(names).map(quoted).collect();
    format!("flux {subcommand} {}", words.join(" "))
}
