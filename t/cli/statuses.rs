// SPDX-License-Identifier: LGPL-3.0-only
//! The exit statuses and the shape of errors, over all commands.

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

/// Returns the arguments that a command requires before it reads anything.
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
fn the_status_is_1_if_the_user_or_bank_does_not_exist() {
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
    for (typed, ours) in [
        ("sprio", "jobs"),
        ("sshare", "show"),
        ("pbsfs", "show"),
        ("wyh", "standing"),
        ("sprio -w", "jobs -w"),
        ("sacctmgr modify account chem set GrpTRES=node=10", "limit set bank BANK run-nodes=NUMBER --push"),
        (
            "sacctmgr modify account chem set grptresmins=node=600",
            "budget deposit bank BANK NODE-HOURS --until 52w --reason TEXT --push",
        ),
        ("sacctmgr modify user ann set RawUsage=0", "credit set USER/BANK 0 --reason TEXT --push"),
        ("sreport user top", "usage --by user"),
        (
            "sacctmgr",
            "limit set bank BANK run-nodes=NUMBER --push, or credit set USER/BANK AMOUNT --reason TEXT --push",
        ),
        ("PriorityWeightFairshare", "jobs --weights"),
    ] {
        let words: Vec<&str> = typed.split(' ').collect();
        let helped = [&["help"], &words[..1]].concat();
        for arguments in if words.len() == 1 { vec![words, helped] } else { vec![words] } {
            let ran = fairshare(arguments);
            assert_error(&ran);
            assert!(ran.err.contains(&format!("did you mean: flux fairshare {ours}\n")), "{ran:?}");
        }
    }
}
