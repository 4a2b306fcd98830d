// SPDX-License-Identifier: LGPL-3.0-only
//! The rules that hold for the options of all commands.

use std::any::TypeId;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use clap::error::ErrorKind;
use clap::{Arg, Command};

use crate::help::{FOR_ADMINISTRATORS, GROUPS};
use crate::{definition, fingers};

/// Returns the visible commands, complete with the options that clap adds.
fn list_commands() -> Vec<Command> {
    let mut root_command = definition();
    root_command.build();
    let visible = root_command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.filter(|command| command.get_name() != "help").cloned().collect()
}

/// Returns the visible options of a command, with their long names.
fn list_options(command: &Command) -> impl Iterator<Item = (&str, &Arg)> {
    let visible = command.get_arguments().filter(|option| !option.is_hide_set());
    visible.filter_map(|option| Some((option.get_long()?, option)))
}

/// Returns the spelling of an option: its letter, its long name and its value.
fn spell_option(long: &str, option: &Arg) -> String {
    let letter = option.get_short().map_or(String::new(), |letter| format!("-{letter}, "));
    let value = match option.get_value_names() {
        Some([value, ..]) if option.get_action().takes_values() => format!(" {value}"),
        _ => String::new(),
    };
    format!("{letter}--{long}{value}")
}

/// Returns the spellings of each option with the commands that have them.
fn list_spellings(commands: &[Command]) -> BTreeMap<&str, BTreeMap<String, Vec<&str>>> {
    let mut found: BTreeMap<&str, BTreeMap<String, Vec<&str>>> = BTreeMap::new();
    for command in commands {
        for (long, option) in list_options(command) {
            let commands = found.entry(long).or_default().entry(spell_option(long, option)).or_default();
            commands.push(command.get_name());
        }
    }
    found
}

#[test]
fn an_option_has_one_letter_and_one_value_in_all_commands() {
    let commands = list_commands();
    for (long, mut spellings) in list_spellings(&commands) {
        if long == "no-header" {
            // In these commands, -n is a hidden alias of --dry-run for one release.
            assert_eq!(spellings.remove("--no-header"), Some(vec!["update", "sync"]));
        }
        assert_eq!(spellings.len(), 1, "--{long}: {spellings:?}");
    }
}

#[test]
fn a_short_option_stands_for_the_same_long_option_in_all_commands() {
    let commands = list_commands();
    let mut of_letter: BTreeMap<char, BTreeSet<&str>> = BTreeMap::new();
    for (long, option) in commands.iter().flat_map(list_options) {
        option.get_short().map(|letter| of_letter.entry(letter).or_default().insert(long));
    }
    let several: Vec<_> = of_letter.iter().filter(|(_, options)| options.len() > 1).collect();
    assert!(of_letter.len() > 10 && several.is_empty(), "{several:?}");
}

#[test]
fn a_numeric_argument_is_a_finite_number_of_at_least_0() {
    let mut count = 0;
    for command in list_commands() {
        for argument in command.get_arguments() {
            if argument.get_value_parser().type_id() != TypeId::of::<f64>() {
                continue;
            }
            count += 1;
            for value in ["nan", "inf", "-inf", "-1", "1e300"] {
                let word = argument.get_long().map_or(value.to_owned(), |long| format!("--{long}={value}"));
                let parsed = definition().try_get_matches_from(["x", command.get_name(), "--", &word]);
                let parsed = match argument.get_long() {
                    Some(_) => definition().try_get_matches_from(["x", command.get_name(), &word]),
                    None => parsed,
                };
                let kind = parsed.map(drop).map_err(|error| error.kind());
                assert_eq!(kind, Err(ErrorKind::ValueValidation), "{} {word}", command.get_name());
            }
        }
    }
    assert!(count > 5, "{count}");
}

/// Options of other systems that commands accept: `show -a -A -U`, `--accounts` and `--Users` are sshare's, `--noheader` is Slurm's.
const HABITS: [&str; 4] = ["-A", "--accounts", "--Users", "--noheader"];

#[test]
fn the_changelog_lists_each_hidden_alias() {
    let changes =
        fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../CHANGELOG.md")).expect("text");
    let mut count = 0;
    for command in list_commands() {
        for (long, option) in list_options(&command) {
            let letters = option.get_all_short_aliases().unwrap_or_default();
            let letters = letters.into_iter().map(|letter| format!("-{letter}"));
            let names = option.get_all_aliases().unwrap_or_default();
            let names = names.into_iter().map(|name| format!("--{name}"));
            for old in letters.chain(names).filter(|old| !HABITS.contains(&old.as_str())) {
                count += 1;
                let is_row = |line: &str| {
                    line.starts_with("| ")
                        && line.contains(&format!("`{old}`"))
                        && line.contains(&format!("`--{long}`"))
                };
                assert!(changes.lines().any(is_row), "{}: {old} for --{long}", command.get_name());
            }
        }
    }
    assert!(count > 10, "{count}");
}

#[test]
fn each_command_is_in_one_group_of_the_help() {
    let commands = list_commands();
    let mut names: Vec<&str> = commands.iter().map(Command::get_name).collect();
    let mut grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
    names.sort_unstable();
    grouped.sort_unstable();
    assert_eq!(names, grouped);
}

/// Messages to guests leave out the commands for administrators.
#[test]
fn each_command_is_either_for_administrators_or_for_everyone() {
    const FOR_EVERYONE: [&str; 17] = [
        "check",
        "check-import",
        "compare",
        "config",
        "diff",
        "doctor",
        "jobs",
        "metrics",
        "report",
        "show",
        "simulate",
        "standing",
        "status",
        "top",
        "usage",
        "what-if",
        "why",
    ];
    let commands = list_commands();
    let mut names: Vec<&str> = commands.iter().map(Command::get_name).collect();
    let mut classified = [&FOR_ADMINISTRATORS[..], &FOR_EVERYONE].concat();
    names.sort_unstable();
    classified.sort_unstable();
    assert_eq!(names, classified);
}

#[test]
fn each_hint_for_other_systems_commands_names_an_existing_command() {
    for (theirs, ours) in fingers::COMMANDS.lines().filter_map(|row| row.split_once(" | ")) {
        let name = ours.split([' ', '[']).next();
        let ours = list_commands().into_iter().find(|command| Some(command.get_name()) == name);
        assert!(ours.is_some() && definition().find_subcommand(theirs).is_none(), "{theirs}");
    }
}

/// The table must have a row for each option, and no row for an option that does not exist.
#[test]
fn the_reference_has_the_table_of_options() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md");
    let text = fs::read_to_string(path).expect("text");
    let head = "| option | commands |\n|---|---|\n";
    let (before, rest) = text.split_once(head).expect("the table");
    let (table, after) = rest.split_once("\n\n").expect("an end");
    let commands = list_commands();
    let rows = list_spellings(&commands).into_values().flatten().map(|(spelling, of)| {
        let of = if of.len() == commands.len() { "all".to_owned() } else { of.join(", ") };
        format!("| `{spelling}` | {of} |")
    });
    let fresh = rows.collect::<Vec<_>>().join("\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, format!("{before}{head}{fresh}\n\n{after}")).expect("written");
    } else {
        assert_eq!(table, fresh, "UPDATE_GOLDEN=1 cargo test rewrites docs/reference.md");
    }
}
