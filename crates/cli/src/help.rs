// SPDX-License-Identifier: LGPL-3.0-only
//! The list of commands in `--help`, in groups by reader.

use std::fmt::Write;

use clap::Command;
use textwrap::Options;

/// Each group of commands: its heading, and its commands in the order of the help.
pub(crate) const GROUPS: [(&str, &[&str]); 3] = [
    ("For users", &["why", "jobs", "standing", "check", "what-if", "top"]),
    (
        "For admins",
        &[
            "status", "doctor", "show", "diff", "sync", "push", "update", "policy", "limit", "budget",
            "credit", "usage", "recount", "scrub", "compare", "simulate", "report", "metrics", "config",
        ],
    ),
    ("For migration", &["check-import", "migrate"]),
];

/// The commands that only administrators can use, because they change the database, the plugin or its jobs.
pub(crate) const FOR_ADMINISTRATORS: [&str; 10] =
    ["budget", "credit", "limit", "migrate", "policy", "push", "recount", "scrub", "sync", "update"];

/// Width of a line, in terminal cells.
const WIDTH: usize = 80;
/// Indentation of the descriptions of the commands, in terminal cells.
const INDENT: usize = 16;

/// Puts the groups of commands into the help of `command`, in place of clap's single list.
pub(crate) fn with_groups(command: Command) -> Command {
    let mut groups = String::new();
    let heading = *command.get_styles().get_header();
    let literal = *command.get_styles().get_literal();
    for (title, names) in GROUPS {
        let _ = write!(groups, "{heading}{title}:{heading:#}");
        for name in names {
            let text = textwrap::wrap(&about(&command, name), Options::new(WIDTH - INDENT))
                .join(&format!("\n{:INDENT$}", ""));
            let _ = write!(groups, "\n  {literal}{name}{literal:#}{:1$}{text}", "", INDENT - 2 - name.len());
        }
        groups.push_str("\n\n");
    }
    command.help_template(format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}{heading}Options:{heading:#}\n{{options}}{{after-help}}"
    ))
}

/// Returns the first line of the help of the subcommand `name`.
pub(crate) fn about(command: &Command, name: &str) -> String {
    let about = command.find_subcommand(name).and_then(Command::get_about);
    about.map(ToString::to_string).unwrap_or_default()
}
