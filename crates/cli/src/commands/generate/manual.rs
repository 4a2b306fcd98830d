// SPDX-License-Identifier: LGPL-3.0-only
//! Sections of manual pages other than the arguments: files, environment, examples.

use clap::Command;

use super::parse_sections;
use crate::site::database;
use fairshare_accounting::store;

type Entry = (&'static str, &'static str);

/// The option by which a command finds the accounting database.
const PATH: &str = "path";

const FILES: &[Entry] = &[(
    store::DEFAULT_PATH,
    "The accounting database, unless an option or the environment names another, or flux-accounting was built with another default.",
)];

/// Environment variables of commands that have an option.
const ENVIRONMENT: &[(&str, Entry)] = &[
    (
        PATH,
        (
            database::VARIABLE,
            "The accounting database, unless -p names one. Without both, the default of flux-accounting.",
        ),
    ),
    ("uri", ("FLUX_URI", "The Flux instance, unless --uri names one. Without both, the system instance.")),
    (
        "color",
        (
            "NO_COLOR, CLICOLOR, CLICOLOR_FORCE",
            "Used without --color. No colours and no bars if NO_COLOR is not empty or CLICOLOR is 0; colours and bars also in files and \
             pipes if CLICOLOR_FORCE is set.",
        ),
    ),
    ("color", ("COLUMNS", "The width of tables and text; overrides the width of the terminal.")),
    (
        "no_pager",
        (
            "FLUX_FAIRSHARE_PAGER, PAGER, LESS",
            "The pager for output that is longer than the terminal; the default is less, with the options FRX if LESS is not set. cat or \
             an empty value turns the pager off.",
        ),
    ),
    (
        "color",
        (
            "LC_ALL, LC_CTYPE, LANG",
            "The tree and the bars are drawn with box characters if the encoding is UTF-8.",
        ),
    ),
];

/// Returns the manual's text about exit status 1, or `None` if the command never exits with 1. Most commands get the text in `usual`.
pub(super) fn describe_exit_status_1<'a>(command: &str, usual: &'a str) -> Option<&'a str> {
    match command {
        "update" | "push" | "sync" | "policy" | "recount" | "scrub" | "compare" | "what-if" | "simulate"
        | "top" | "metrics" | "report" => None,
        // The descriptions of these commands explain exit status 1.
        "doctor" | "diff" | "status" | "check-import" | "migrate" | "config" => Some("see above"),
        _ => Some(usual),
    }
}

/// Returns true if the command or one of its visible subcommands has the option.
fn has_option(command: &Command, option: &str) -> bool {
    let mut below = command.get_subcommands().filter(|command| !command.is_hide_set());
    command.get_arguments().any(|argument| argument.get_id() == option)
        || below.any(|command| has_option(command, option))
}

/// Returns the sections of a command's page.
pub(super) fn list_sections(command: &Command) -> Vec<(&'static str, Vec<Entry>)> {
    let files = if has_option(command, PATH) { FILES } else { &[] };
    let environment = ENVIRONMENT.iter().filter(|(option, _)| has_option(command, option));
    let sections = [
        ("FILES", files.to_vec()),
        ("ENVIRONMENT", environment.map(|(_, entry)| *entry).collect()),
        ("EXAMPLES", list_examples(command.get_name())),
    ];
    sections.into_iter().filter(|(_, entries)| !entries.is_empty()).collect()
}

/// Returns the examples of a command from `examples.txt`. The file has no examples of commands whose help has examples.
pub(super) fn list_examples(command: &str) -> Vec<Entry> {
    let sections = parse_sections(include_str!("examples.txt")).into_iter();
    sections.filter(|(title, _)| *title == command).flat_map(|(_, entries)| entries).collect()
}
