// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the examples in manual pages.

use clap::CommandFactory;

use super::manual::list_examples;
use crate::Cli;

#[test]
fn the_examples_in_the_help_of_a_command_use_that_command() {
    for command in Cli::command().get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = command.get_name();
        let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let in_help = help.split("Examples:").nth(1).unwrap_or_default().lines().map(str::trim);
        let all: Vec<&str> = list_examples(name)
            .iter()
            .map(|(example, _)| *example)
            .chain(in_help.filter(|line| !line.is_empty()))
            .collect();
        let wanted = format!("flux fairshare {name}");
        assert!(!all.is_empty(), "{name} has no examples");
        assert!(all.iter().all(|example| example.contains(&wanted)), "{name}: {all:?}");
    }
    assert!(!list_examples(Cli::command().get_name()).is_empty());
}
