// SPDX-License-Identifier: LGPL-3.0-only
//! Tests the exit status and the form of error messages of all commands.

use super::site::Site;
use super::{RunResult, fairshare};

/// Returns the commands that the help lists.
fn list_commands() -> Vec<String> {
    let help = fairshare(["--help"]);
    let groups = help.ok().split("\nOptions:").next().expect("a text").to_owned();
    let names = groups.lines().filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split(' ').next());
    names.map(str::to_owned).collect()
}

#[track_caller]
fn assert_error(ran: &RunResult) {
    assert!(ran.error().starts_with("flux-fairshare: "), "{ran:?}");
    assert!(!ran.err.contains("os error") && !ran.err.contains("error:"), "{ran:?}");
}

#[test]
fn an_unknown_option_is_an_error_in_each_command() {
    let commands = list_commands();
    assert!(commands.len() > 20, "{commands:?}");
    for command in commands {
        let ran = fairshare([command.as_str(), "--no-such-option"]);
        assert_error(&ran);
        assert!(ran.err.contains("unexpected argument '--no-such-option'"), "{ran:?}");
    }
}

/// Returns the arguments without which the command line of a command is invalid.
fn required_arguments(command: &str) -> &'static [&'static str] {
    match command {
        "why" => &["ann"],
        "what-if" => &["--shares", "chem=2"],
        "config" => &["check", "/nonexistent"],
        "simulate" => &["--trace", "/nonexistent"],
        "report" => &["--output", "-"],
        _ => &[],
    }
}

#[test]
fn a_missing_database_or_instance_is_an_error_in_each_command() {
    // `top` fails before it connects, because the test has no terminal.
    for command in list_commands().into_iter().filter(|command| command != "top") {
        let has = |option: &str| fairshare([command.as_str(), "-h"]).ok().contains(option);
        let mut arguments = [&[command.as_str()], required_arguments(&command)].concat();
        if has("--path <FILE>") {
            arguments.extend(["-p", "/nonexistent"]);
        }
        if has("--uri <URI>") && command != "simulate" {
            arguments.extend(["--uri", "local:///nonexistent"]);
        }
        let ran = fairshare(&arguments);
        if command == "doctor" {
            // doctor reports the missing database and instance as findings, with exit status 1.
            assert!(ran.status == 1 && !ran.out.contains("os error"), "{ran:?}");
        } else {
            assert_error(&ran);
            assert!(ran.err.contains("nonexistent"), "{arguments:?}: {ran:?}");
        }
    }
}

#[test]
fn the_exit_status_is_1_if_the_user_or_bank_is_unknown() {
    let site = Site::small("statuses");
    super::pipeline::add_jobs(&site);
    for arguments in [
        &["show", "-u", "nobody-here"][..],
        &["show", "-b", "nobody-here"],
        &["why", "nobody-here"],
        &["usage", "-u", "nobody-here"],
        &["usage", "-b", "nobody-here"],
        &["limit", "unset", "user", "nobody-here"],
        &["budget", "show", "user", "nobody-here"],
        &["budget", "log", "bank", "A"],
    ] {
        let ran = fairshare([arguments, &["-p", site.path()]].concat());
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{arguments:?}: {ran:?}");
        assert!(ran.err.starts_with("flux-fairshare: "), "{ran:?}");
    }
}

#[test]
fn a_command_of_slurm_or_pbs_gets_a_hint() {
    for (typed, ours) in include_str!("command_hints.txt").lines().filter_map(|row| row.split_once(" | ")) {
        let words: Vec<&str> = typed.split(' ').collect();
        let helped = [&["help"], &words[..1]].concat();
        for arguments in if words.len() == 1 { vec![words, helped] } else { vec![words] } {
            let ran = fairshare(arguments);
            assert_error(&ran);
            assert!(ran.err.contains(&format!("did you mean: flux fairshare {ours}\n")), "{ran:?}");
        }
    }
}

#[test]
fn a_change_with_sacctmgr_gets_the_command_that_makes_the_same_change() {
    for (typed, hint) in include_str!("sacctmgr_hints.txt").lines().filter_map(|row| row.split_once(" | ")) {
        let ran = fairshare(["sacctmgr", "modify"].into_iter().chain(typed.split(' ')));
        assert_error(&ran);
        assert!(ran.err.contains(&format!("{hint}\n")), "{typed}: {ran:?}");
    }
}

#[test]
fn each_command_for_sacctmgr_is_accepted_or_belongs_to_flux_account() {
    let site = Site::small("sacctmgr");
    super::pipeline::add_jobs(&site);
    let rows = include_str!("../../crates/cli/src/sacctmgr.txt").lines().skip(1);
    for row in rows {
        let commands: Vec<&str> = row.split(" | ").skip(1).collect();
        assert_eq!(commands.len(), 3, "{row}");
        for command in commands {
            let command = command.trim_end_matches(", for each user of the bank");
            let Some(words) = command.strip_prefix("flux fairshare ") else {
                let mut steps = command.split(" && ");
                let is_edit = steps.next().is_some_and(|step| step.starts_with("flux account edit-"));
                let is_pushed = steps.next() == Some("flux fairshare push -v");
                let is_shown = steps.next().is_some_and(|step| {
                    step.starts_with("flux fairshare show -")
                        || step.starts_with("flux fairshare status -u USER")
                });
                assert!(is_edit && is_pushed && is_shown, "{command}");
                continue;
            };
            let fill = |word: &str| match word {
                "HOURS" => "5".to_owned(),
                "TEXT" => "why".to_owned(),
                "BANK" | "USER" | "USER/BANK" => word.replace("USER", "ann").replace("BANK", "A"),
                _ => word.replace("NUMBER", "5").replace("HOURS", "5").replace("SECONDS", "5"),
            };
            let words = words.split(' ').filter(|word| *word != "--push").map(fill);
            let words: Vec<String> = words.chain(["-p".to_owned(), site.path().to_owned()]).collect();
            let ran = fairshare(&words);
            assert_eq!(ran.status, 0, "{command}: {ran:?}");
        }
    }
}
