// SPDX-License-Identifier: LGPL-3.0-only
//! Translates options, columns and policies that users of Slurm, PBS or flux-accounting type out of habit.

use std::ffi::{OsStr, OsString};

use crate::ui::suggest::did_you_mean;
use fairshare::Policy;

/// sshare's names of columns, and ours.
const COLUMNS: [(&str, &str); 5] = [
    ("Account", "bank"),
    ("RawShares", "shares"),
    ("RawUsage", "usage"),
    ("EffectvUsage", "effective_usage"),
    ("EffectiveUsage", "effective_usage"),
];

/// Returns our name of the column that sshare calls `name`, or `name` itself. A width after the name (`User%20`) is dropped.
pub(super) fn translate_column(name: &str) -> &str {
    let name = name.trim();
    let name = name.split_once('%').map_or(name, |(name, _)| name);
    let known = COLUMNS.iter().find(|(theirs, _)| theirs.eq_ignore_ascii_case(name));
    known.map_or(name, |(_, ours)| ours)
}

/// Commands of Slurm, PBS, Maui and flux-accounting, and other common names, with the command here that answers the same question. A row
/// with a second word is for arguments that begin with this word, in any case.
pub(super) const COMMANDS: &[(&str, &str)] = &[
    ("sprio -w", "jobs -w"),
    ("sprio", "jobs"),
    ("sshare", "show"),
    ("squeue", "jobs"),
    ("sreport user", "usage --by user"),
    ("sreport", "usage"),
    ("sacct", "usage"),
    ("sacctmgr", "limit or budget (TRES minutes), credit (usage), flux account (shares)"),
    ("sdiag", "status"),
    ("scontrol", "why JOBID or status"),
    ("PriorityWeightFairshare", "jobs --weights"),
    ("PriorityDecayHalfLife", "status"),
    ("RawUsage", "credit set USER/BANK AMOUNT --reason TEXT --push"),
    ("pbsfs", "show"),
    ("qstat", "jobs"),
    ("qmgr", "limit"),
    ("showq", "jobs"),
    ("checkjob", "why JOBID"),
    ("showstart", "why JOBID"),
    ("diagnose", "jobs"),
    ("mdiag", "jobs"),
    ("wyh", "standing"),
    ("whatyouhave", "standing"),
    ("what-you-have", "standing"),
    ("view-user", "standing"),
    ("view-bank", "show"),
    ("view-usage-report", "usage"),
    ("fetch-job-records", "sync --only fetch"),
    ("update-usage", "sync --only usage"),
    ("update-fshare", "update"),
    ("priority-update", "push"),
    ("scrub-old-jobs", "scrub"),
];

/// The commands that do the same as `sacctmgr modify`. Each row begins with a key of sacctmgr and, if the command depends on it, a resource.
const SACCTMGR: &str = include_str!("sacctmgr.txt");

/// Returns the hint for the arguments of `sacctmgr modify`, or `None` if they set nothing.
fn translate_sacctmgr(arguments: &[OsString]) -> Option<String> {
    let typed: Vec<String> = arguments.iter().map(|text| text.to_string_lossy().to_lowercase()).collect();
    let (key, value) = typed.iter().skip_while(|text| *text != "set").nth(1)?.split_once('=')?;
    let key = key.trim_end_matches(['+', '-']);
    // sacctmgr accepts the beginning of a key, such as MaxWall.
    let is_meant = |row: &&str| {
        let (theirs, resource) =
            row.split(" | ").next().and_then(|text| text.split_once('=')).unwrap_or_default();
        key.len() > 3 && theirs.starts_with(key) && value.split(',').any(|part| part.starts_with(resource))
    };
    let is_user = typed.iter().any(|text| text == "user" || text == "users" || text.starts_with("user="));
    let is_in_bank = is_user && typed.iter().any(|text| text.starts_with("account"));
    let column = 1 + usize::from(is_user) + usize::from(is_in_bank);
    let row = SACCTMGR.lines().skip(1).find(is_meant);
    let Some(command) = row.and_then(|row| row.split(" | ").nth(column)) else {
        return Some(format!("no command here or in flux account sets {key}={value}"));
    };
    // Names keep their case. The placeholder of a list of names stays.
    let words: Vec<_> = arguments.iter().map(|text| text.to_string_lossy()).collect();
    let find_name = |what: &str| {
        let is_key = |key: &str| {
            let key = key.to_lowercase();
            let key = key.trim_end_matches('s');
            key == what || key == "name" && (what == "user") == is_user
        };
        let pairs = words.iter().filter_map(|word| word.split_once('='));
        let next = words.iter().zip(words.iter().skip(1)).map(|(key, name)| (&**key, &**name));
        let next = next.filter(|(_, name)| !name.contains('=') && !["where", "set"].contains(name));
        pairs.chain(next).find(|(key, name)| is_key(key) && !name.contains(',')).map(|it| it.1.to_owned())
    };
    let resource = row.and_then(|row| row.split(" | ").next()?.split_once('=')).map_or("", |it| it.1);
    let part = value.split(',').find(|part| part.starts_with(resource));
    let number = part.and_then(|part| part.rsplit('=').next()?.parse().ok()).filter(|it: &f64| *it >= 0.0);
    let scaled = |factor: f64| number.map(|number| ((number * factor * 1e4).round() / 1e4).to_string());
    let mut text = command.to_owned();
    // sacctmgr counts times in minutes.
    for (placeholder, value) in [
        ("NUMBER", scaled(1.0)),
        ("SECONDS", scaled(60.0)),
        ("NODE-HOURS", scaled(1.0 / 60.0)),
        ("CORE-HOURS", scaled(1.0 / 60.0)),
        ("GPU-HOURS", scaled(1.0 / 60.0)),
        ("HOURS", scaled(1.0 / 60.0)),
        ("USER", find_name("user")),
        ("BANK", find_name("account")),
    ] {
        text = value.map_or(text.clone(), |value| text.replace(placeholder, &value));
    }
    Some(format!("did you mean: {text}"))
}

/// Returns the hint for the command `name` of another system with `arguments`: our command that does the same. The case is ignored.
/// Returns `None` for an unknown name.
pub(super) fn translate_command(name: &str, arguments: &[OsString]) -> Option<String> {
    let known = COMMANDS.iter().find(|(theirs, _)| {
        let (command, word) = theirs.split_once(' ').unwrap_or((theirs, ""));
        let begins = |argument: &OsString| argument.to_string_lossy().to_lowercase().starts_with(word);
        command.eq_ignore_ascii_case(name) && (word.is_empty() || arguments.iter().any(begins))
    });
    let change = translate_sacctmgr(arguments).filter(|_| name.eq_ignore_ascii_case("sacctmgr"));
    change.or_else(|| known.map(|(_, ours)| format!("did you mean: flux fairshare {ours}")))
}

/// Names of ranking policies in Slurm's PriorityFlags, and the names of the systems that have them.
const POLICIES: [(&str, Policy); 8] = [
    ("slurm", Policy::FairTree),
    ("fairtree", Policy::FairTree),
    ("no-fair-tree", Policy::Classic),
    ("multifactor", Policy::Classic),
    ("flux", Policy::WeightedWalk),
    ("flux-accounting", Policy::WeightedWalk),
    ("openpbs", Policy::Pbs),
    ("pbspro", Policy::Pbs),
];

/// Parses a ranking policy from our name or another system's name. The case is ignored, and underscores count as hyphens.
pub(super) fn parse_policy(text: &str) -> Result<Policy, String> {
    let name = text.trim().to_lowercase().replace('_', "-");
    if let Ok(policy) = name.parse() {
        return Ok(policy);
    }
    if let Some((_, policy)) = POLICIES.iter().find(|(theirs, _)| *theirs == name) {
        return Ok(*policy);
    }
    let unknown = text.parse::<Policy>().err().map_or(String::new(), |error| error.to_string());
    Err(format!("{unknown}{}", did_you_mean(&name, Policy::ALL.map(Policy::name))))
}

/// Translates options of `pbsfs` to the commands that do the same: `-g NAME` to `why NAME`, `-c NAME NAME` to `why NAME NAME`.
pub(super) fn translate_arguments(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let is = |at: usize, text: &str| arguments.get(at).is_some_and(|argument| argument == OsStr::new(text));
    let option_index = if is(1, "show") { 2 } else { 1 };
    let names = match (is(option_index, "-g"), is(option_index, "-c")) {
        (true, _) => 1,
        (_, true) => 2,
        _ => return arguments,
    };
    let is_name =
        |argument: &OsString| !argument.as_encoded_bytes().starts_with(b"-") && !argument.is_empty();
    if arguments.iter().skip(option_index + 1).take(names).filter(|argument| is_name(argument)).count()
        == names
    {
        arguments.splice(1..=option_index, [OsString::from("why")]);
    }
    arguments
}

/// Returns a hint about an option that another system has and `command` lacks or spells differently. Returns `None` for any other option.
pub(super) fn find_hint(command: Option<&str>, option: &str) -> Option<&'static str> {
    Some(match (command?, option) {
        ("show" | "compare", "--path <FILE>") => "-p takes a database; sshare's -p and -P are -P here",
        ("show" | "why" | "compare", "-M" | "--clusters") => {
            "a database or document holds one tree; name it with -p or -t"
        }
        ("why", "--csv" | "-P" | "--parsable") => {
            "why prints sentences, or JSON with --json; to print rows: show --user USER --csv"
        }
        ("show", "-m" | "--partition") => "each association per partition has its own row, USER:PARTITION",
        ("show", "-g" | "-c") => {
            "pbsfs -g NAME is \"why NAME\" here, pbsfs -c NAME NAME is \"why NAME NAME\""
        }
        ("show" | "why" | "compare" | "check-import", "-s" | "-d" | "-e") => {
            "this command does not change PBS's usage file; use pbsfs"
        }
        ("update" | "push", "-t" | "--tree") => {
            "a document can be shown, but not stored or sent; name a database with -p"
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_policy_is_found_by_the_name_of_another_system() {
        for (typed, meant) in [
            ("fair_tree", Policy::FairTree),
            ("FAIR_TREE", Policy::FairTree),
            ("depth_oblivious", Policy::DepthOblivious),
            ("NO_FAIR_TREE", Policy::Classic),
            ("Slurm", Policy::FairTree),
            ("pbspro", Policy::Pbs),
            ("weighted-walk", Policy::WeightedWalk),
        ] {
            assert_eq!(parse_policy(typed), Ok(meant), "{typed}");
        }
        let error = parse_policy("fair-three").expect_err("unknown");
        assert!(error.starts_with("unknown policy \"fair-three\"; known are weighted-walk, "), "{error}");
        assert!(error.ends_with("; did you mean \"fair-tree\"?"), "{error}");
    }

    #[test]
    fn a_column_is_found_by_the_name_of_sshare() {
        for (typed, ours) in [
            ("RawShares", "shares"),
            ("EffectvUsage", "effective_usage"),
            ("account%30", "bank"),
            ("LevelFS", "LevelFS"),
            (" fairshare ", "fairshare"),
        ] {
            assert_eq!(translate_column(typed), ours);
        }
    }

    #[test]
    fn options_of_pbsfs_become_the_command_why() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (typed, meant) in [
            ("x -g bob", "x why bob"),
            ("x show -g bob -t file", "x why bob -t file"),
            ("x -c bob eve", "x why bob eve"),
            ("x show -c bob", "x show -c bob"),
            ("x show -g --json", "x show -g --json"),
            ("x why bob -g", "x why bob -g"),
        ] {
            assert_eq!(translate_arguments(words(typed)), words(meant), "{typed}");
        }
    }
}
