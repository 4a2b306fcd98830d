// SPDX-License-Identifier: LGPL-3.0-only
//! Translates options, columns and policies that users of Slurm, PBS or flux-accounting type out of habit.

use std::ffi::{OsStr, OsString};

use crate::ui::suggest::did_you_mean;
use fairshare::Policy;
use fairshare_accounting::store::quote_for_shell;
use fairshare_engine::ids::JobId;

/// Returns our name of sshare's column `name`, or `name` itself if we have none. A width after the name (`User%20`) is ignored.
pub(super) fn translate_column(name: &str) -> &str {
    let name = name.trim();
    let name = name.split_once('%').map_or(name, |(name, _)| name);
    match &*name.to_lowercase() {
        "account" => "bank",
        "rawshares" => "shares",
        "rawusage" => "usage",
        "effectvusage" | "effectiveusage" => "effective_usage",
        _ => name,
    }
}

/// Command names of Slurm, PBS, Maui, flux-accounting and others. Each row also has our command that answers the same question. The words
/// before the bar are a command and, if there are more, the beginnings of arguments; the case is ignored. [`fill_placeholders`] describes
/// the brackets.
pub(super) const COMMANDS: &str = include_str!("commands.txt");

/// The commands that replace `sacctmgr modify`. Each row begins with a key of sacctmgr, for example `grptres=cpu`.
const SACCTMGR: &str = include_str!("sacctmgr.txt");

/// Returns the hint for the arguments of `sacctmgr modify`, or `None` if they set nothing. The hint has a command for each key.
/// If the value of a key is a list of resources, it has a command for each resource.
fn translate_sacctmgr(arguments: &[OsString]) -> Option<String> {
    let words = convert_to_strings(arguments);
    let set = words.iter().skip_while(|word| !word.eq_ignore_ascii_case("set")).skip(1);
    let set = set.take_while(|word| !word.eq_ignore_ascii_case("where"));
    let (mut commands, mut unknown, mut tail) = (Vec::new(), Vec::new(), "");
    for typed in set {
        let Some((key, value)) = typed.split_once('=') else { continue };
        let key = key.trim_end_matches(['+', '-']).to_lowercase();
        let is_list = value.contains('=');
        for part in value.to_lowercase().split(|letter| is_list && letter == ',') {
            match translate_change(&words, &key, part, typed) {
                Some(command) => {
                    let whole = command.strip_suffix(FOR_EACH);
                    tail = whole.map_or(tail, |_| FOR_EACH);
                    commands.push(whole.unwrap_or(&command).to_owned());
                }
                None => unknown.push(format!("{key}={part}")),
            }
        }
    }
    let commands = (!commands.is_empty()).then(|| format!("did you mean: {}{tail}", commands.join(" && ")));
    let lacks = || format!("no command here or in flux account sets {}", unknown.join(", "));
    let unknown = (!unknown.is_empty()).then(lacks);
    commands.into_iter().chain(unknown).reduce(|one, other| format!("{one}; {other}"))
}

/// This text ends a hint if sacctmgr changes a whole bank, but our command changes a single user.
const FOR_EACH: &str = ", for each user of the bank";

/// Returns the command that replaces a setting of sacctmgr. `key` is the name of the setting. `part` is its value, or
/// one resource with its value, such as `cpu=100`. `reason` is the text for our logs.
fn translate_change(words: &[String], key: &str, part: &str, reason: &str) -> Option<String> {
    // sacctmgr accepts the beginning of a key, such as MaxWall.
    let is_meant = |row: &&str| {
        let (theirs, resource) =
            row.split(" | ").next().and_then(|text| text.split_once('=')).unwrap_or_default();
        key.len() > 3 && theirs.starts_with(key) && part.starts_with(resource)
    };
    let typed: Vec<String> = words.iter().map(|word| word.to_lowercase()).collect();
    let is_user = typed.iter().any(|text| text == "user" || text == "users" || text.starts_with("user="));
    let is_in_bank = is_user && typed.iter().any(|text| text.starts_with("account"));
    let column = 1 + usize::from(is_user) + usize::from(is_in_bank);
    let command = SACCTMGR.lines().skip(1).find(is_meant)?.split(" | ").nth(column)?;
    // If the user typed a list of names, the hint keeps the placeholder.
    let find_name = |what: &str| find_value(words, what, true).filter(|name| !name.contains(','));
    let own_name = |of_user: bool| find_value(words, "name", true).filter(|_| of_user == is_user);
    let number = part.rsplit('=').next()?.parse::<f64>().ok();
    // The value -1 removes a limit. flux account does the same with -1.
    let is_removed = number == Some(-1.0);
    let is_accounts = command.starts_with("flux account");
    let mut command = command.to_owned();
    if is_removed && !is_accounts {
        command = command.replace("limit set", "limit unset").replace("budget deposit", "budget remove");
        command = ["=NUMBER", "=HOURS", "=SECONDS", " HOURS", " --until 52w"]
            .iter()
            .fold(command, |command, value| command.replace(value, ""));
    }
    let number = number.filter(|number| *number >= 0.0 || is_removed && is_accounts);
    let scaled = |factor: f64| number.map(|number| ((number * factor * 1e4).round() / 1e4).to_string());
    // sacctmgr counts times in minutes.
    let values = [
        ("NUMBER", scaled(1.0)),
        ("SECONDS", scaled(60.0)),
        ("HOURS", scaled(1.0 / 60.0)),
        ("TEXT", Some(quote_for_shell(reason))),
        ("USER", find_name("user").or_else(|| own_name(true))),
        ("BANK", find_name("account").or_else(|| own_name(false))),
    ];
    Some(replace_placeholders(&command, &values))
}

/// Replaces the placeholders that have a value.
fn replace_placeholders(text: &str, values: &[(&str, Option<String>)]) -> String {
    let known = values.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    known.fold(text.to_owned(), |text, (name, value)| text.replace(name, value))
}

fn convert_to_strings(arguments: &[OsString]) -> Vec<String> {
    arguments.iter().map(|text| text.to_string_lossy().into_owned()).collect()
}

/// Returns the value of the first option or key with one of `names`, such as `u` and `user` in `-u ann`, `--user=ann` and `users=ann`. If
/// `is_bare` is true, the value of a key without hyphens may be the next word, as in `user ann`.
fn find_value(words: &[String], names: &str, is_bare: bool) -> Option<String> {
    let is_key = |typed: &str| {
        let key = typed.trim_start_matches('-');
        let is_it = |name: &str| key == name || name.len() > 1 && key.to_lowercase().starts_with(name);
        names.split(' ').any(is_it)
    };
    let pairs = words.iter().filter_map(|word| word.split_once('='));
    let next = words.iter().zip(words.iter().skip(1)).map(|(key, value)| (&**key, &**value));
    let next = next.filter(|(key, value)| {
        let is_value = !value.contains('=') && !value.starts_with('-') && !["where", "set"].contains(value);
        is_value && (is_bare || key.starts_with('-'))
    });
    pairs.chain(next).find(|(key, _)| is_key(key)).map(|(_, value)| quote_for_shell(value))
}

/// Translates a time of Slurm, such as `now-7days`, to a time that our options accept. Returns `None` if there is no such time.
fn translate_time(text: String) -> Option<String> {
    let Some(ago) = text.strip_prefix("now-") else {
        return Some(text).filter(|text| text.starts_with("20") && text.contains('-'));
    };
    let number = ago.trim_end_matches(char::is_alphabetic);
    let unit = ago.trim_start_matches(number).chars().next()?;
    ("mhdw".contains(unit) && !ago.contains("month")).then(|| format!("{number}{unit}"))
}

/// Fills the placeholders of `command` from the typed `words`. A part in brackets stays only if its placeholder has a value, or if its
/// option was typed.
fn fill_placeholders(command: &str, words: &[String], is_bare: bool) -> String {
    let find = |what: &str| find_value(words, what, is_bare);
    let time = |what: &str| find(what).and_then(translate_time);
    let is_job = |word: &&String| JobId::parse(word).is_some();
    let values = [
        ("USER", find("u user")),
        ("BANK", find("A b account bank")),
        ("QUEUE", find("p q partition queue")),
        ("IDS", find("j job")),
        ("JOBID", find("j job").or_else(|| words.iter().rfind(is_job).cloned())),
        ("SINCE", time("S start")),
        ("UNTIL", time("E end")),
        ("NAME", words.first().filter(|word| !word.starts_with('-')).map(|word| quote_for_shell(word))),
    ];
    let fill = |part: &str| replace_placeholders(part, &values);
    let is_typed = |part: &str| match values.iter().find(|(name, _)| part.ends_with(name)) {
        Some((_, value)) => value.is_some(),
        // A long option begins with the letter of its short option, for example `--partition` and `-p`.
        None => words.iter().any(|word| {
            word.starts_with('-') && word.trim_start_matches('-').starts_with(part.trim_start_matches(" -"))
        }),
    };
    let pieces = command.split('[').map(|piece| match piece.split_once(']') {
        Some((part, rest)) if is_typed(part) => fill(part) + &fill(rest),
        Some((_, rest)) => fill(rest),
        None => fill(piece),
    });
    // sreport and sacct need no start time. If none was typed, the hint uses the last week, because all records are less useful.
    pieces.collect::<String>().replace("SINCE", "7d")
}

/// Returns a hint that names our command for the command `name` of another system with these `arguments`. The case is ignored.
/// Returns `None` for an unknown name.
pub(super) fn translate_command(name: &str, arguments: &[OsString]) -> Option<String> {
    let typed = arguments.iter().skip_while(|argument| *argument != OsStr::new(name)).skip(1);
    let words = convert_to_strings(&typed.cloned().collect::<Vec<_>>());
    let begins = |start: &str| words.iter().any(|word| word.to_lowercase().starts_with(start));
    let known = COMMANDS.lines().filter_map(|row| row.split_once(" | ")).find(|(theirs, _)| {
        let (command, rest) = theirs.split_once(' ').unwrap_or((theirs, ""));
        command.eq_ignore_ascii_case(name) && rest.split_whitespace().all(begins)
    });
    let is_sacctmgr = name.eq_ignore_ascii_case("sacctmgr");
    let change = translate_sacctmgr(arguments).filter(|_| is_sacctmgr);
    let hint =
        |ours| format!("did you mean: flux fairshare {}", fill_placeholders(ours, &words, is_sacctmgr));
    change.or_else(|| known.map(|(_, ours)| hint(ours)))
}

/// Parses the name of a ranking policy: our name, a flag of Slurm's PriorityFlags, or the name of a system that has the policy. The case
/// is ignored, and underscores count as hyphens.
pub(super) fn parse_policy(text: &str) -> Result<Policy, String> {
    let name = text.trim().to_lowercase().replace('_', "-");
    match &*name {
        "slurm" | "fairtree" => Ok(Policy::FairTree),
        "no-fair-tree" | "multifactor" => Ok(Policy::Classic),
        "flux" | "flux-accounting" => Ok(Policy::WeightedWalk),
        "openpbs" | "pbspro" => Ok(Policy::Pbs),
        _ => name.parse().map_err(|_| {
            let unknown = text.parse::<Policy>().err().map_or(String::new(), |error| error.to_string());
            format!("{unknown}{}", did_you_mean(&name, Policy::ALL.map(Policy::name)))
        }),
    }
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

/// Options of Slurm and other systems that our commands lack or spell differently. Each row has the commands, the
/// options and a hint.
const OPTIONS: &str = include_str!("options.txt");

/// Returns a hint about an option that another system has and `command` lacks or spells differently. Returns `None` for any other option.
pub(super) fn find_hint(command: Option<&str>, option: &str) -> Option<&'static str> {
    let has = |list: &str, name: &str| list.split(',').any(|listed| listed == name);
    let rows = OPTIONS.lines().filter_map(|row| row.split_once(" | "));
    let mut rows = rows.filter_map(|(commands, rest)| Some((commands, rest.split_once(" | ")?)));
    let command = command?;
    rows.find(|(commands, (options, _))| has(commands, command) && has(options, option)).map(|row| row.1.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ranking_policy_can_be_named_as_in_slurm_or_openpbs() {
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
    fn a_column_name_of_sshare_is_translated_to_our_column_name() {
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
    fn options_of_pbsfs_are_translated_to_the_command_why() {
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
