// SPDX-License-Identifier: LGPL-3.0-only
//! Manual pages, completions and the sample configuration in `etc/` equal those generated from the definitions, and so does the table of
//! settings in docs/reference.md. `UPDATE_GOLDEN=1` rewrites them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use fairshare_engine::engine::Settings;
use fairshare_protocol::settings::read_table;
use fairshare_protocol::settings::{SETTINGS, Setting};

use super::{PROGRAM, directory, fairshare, run_with_input};

fn read_files(root: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let sample = "flux-fairshare.toml";
    found.extend(fs::read_to_string(root.join(sample)).ok().map(|text| (sample.to_owned(), text)));
    for folder in ["man1", "man7", "completions"] {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
            found.insert(name, fs::read_to_string(entry.path()).expect("text"));
        }
    }
    found
}

#[test]
fn manual_pages_and_completions_are_up_to_date() {
    let committed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("etc");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        for folder in ["man1", "man7", "completions"] {
            let _ = fs::remove_dir_all(committed.join(folder));
        }
        fairshare(["generate".as_ref(), committed.as_os_str()]).ok();
    }
    let fresh = directory("generated");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let (committed, fresh) = (read_files(&committed), read_files(&fresh));
    assert!(fresh.len() >= 9, "pages for each command, completions for three shells");
    let names = |files: &BTreeMap<String, String>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&committed), names(&fresh), "UPDATE_GOLDEN=1 cargo test rewrites etc/");
    for (name, text) in &fresh {
        assert!(
            committed.get(name) == Some(text),
            "etc/{name} is out of date: UPDATE_GOLDEN=1 cargo test rewrites it"
        );
    }
}

/// Fails if a setting has no row in the table, or if a row names a setting that does not exist.
#[test]
fn the_reference_has_the_table_of_settings() {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference.md"));
    let text = fs::read_to_string(path).expect("text");
    let head = "| `[fairshare]` | default | meaning |\n|---|---|---|\n";
    let (before, rest) = text.split_once(head).expect("the table");
    let (table, after) = rest.split_once("\n\n").expect("an end");
    let row = |Setting { name, doc, default, .. }: &Setting| format!("| `{name}` | `{default}` | {doc} |");
    let fresh = SETTINGS.iter().map(row).collect::<Vec<_>>().join("\n");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(path, format!("{before}{head}{fresh}\n\n{after}")).expect("written");
    } else {
        assert_eq!(table, fresh, "UPDATE_GOLDEN=1 cargo test rewrites docs/reference.md");
    }
}

/// Returns the methods of a role in the plugin's table, without `prices`, the old name of `priorities`.
fn list_methods_of_role<'a>(table: &'a str, role: &str) -> BTreeSet<&'a str> {
    let rows = table.lines().filter(|row| row.contains(&format!("role: {role},")));
    rows.filter_map(|row| row.split('"').nth(1)).filter(|name| *name != "prices").collect()
}

#[test]
fn the_manual_page_and_the_reference_have_all_methods_of_each_role() {
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let read = |path: &str| fs::read_to_string(root.join(path)).expect("text");
    let table = read("src/plugin/methods.rs").replace("records_method!(", "role: Owner, name: ");
    let (page, reference) = (read("etc/man7/flux-fairshare-plugin.7"), read("docs/reference.md"));
    let section = page.split(".SH \"METHODS\"\n").nth(1).and_then(|rest| rest.split("\n.SH").next());
    let lists: Vec<&str> = section.expect("a section").split("For ").skip(1).collect();
    let roles = ["Owner", "Admin", "Guest"];
    assert_eq!(lists.len(), roles.len());
    for (role, list) in roles.into_iter().zip(lists) {
        let methods = list_methods_of_role(&table, role);
        let names = list.split_once(": ").map_or("", |(_, names)| names);
        let words = names.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let listed: BTreeSet<&str> = words.filter(|word| table.contains(&format!(": c\"{word}\""))).collect();
        assert_eq!(listed, methods, "{role}");
        let missing = methods.iter().find(|name| !reference.contains(&format!("`{name}`")));
        assert_eq!(missing, None);
    }
}

/// The sample configuration sets each key to the default of the plugin.
#[test]
fn the_sample_sets_each_setting_to_its_default() {
    let sample = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../etc/flux-fairshare.toml"));
    let set: String = sample
        .expect("text")
        .lines()
        .map(|line| {
            let line = line.strip_prefix('#').filter(|line| !line.starts_with(' ')).unwrap_or(line);
            line.to_owned() + "\n"
        })
        .collect();
    let table: toml::Table = toml::from_str(&set).expect("TOML");
    let table = table["fairshare"].as_table().expect("a table");
    assert!(SETTINGS.iter().all(|setting| table.contains_key(setting.name)), "{table:?}");
    let text = serde_json::to_string(table).expect("JSON");
    assert_eq!(read_table(&text, Settings::default()), Ok(Settings::default()), "{text}");
    let other = text.replace("\"7d\"", "\"8d\"");
    assert_ne!(read_table(&other, Settings::default()), Ok(Settings::default()), "{text}");
}

#[test]
fn the_short_help_fits_a_screen() {
    for command in ["show", "update", "push", "compare", "why", "what-if"] {
        let ran = fairshare([command, "-h"]);
        assert!(ran.ok().lines().count() <= 50, "{command}");
        assert!(fairshare([command, "--help"]).ok().len() >= ran.out.len());
    }
    for command in ["show", "update", "push", "compare", "why", "what-if"] {
        // The option --wait has the same default as in flux-accounting's tools.
        assert!(fairshare([command, "--help"]).ok().contains("[default: 30]"), "{command}");
    }
    let ran = fairshare(["--help"]);
    assert!(ran.ok().contains("Exit status:\n  0  done\n"), "{ran:?}");
}

/// Returns the completions of bash after these words, the last of which is incomplete.
fn complete_words(script: &Path, words: &[&str]) -> Vec<String> {
    let line = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _flux__fairshare "$1" "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"; printf '%s\n' "${COMPREPLY[@]}""#;
    let output =
        Command::new("bash").args(["-c", line, "bash"]).arg(script).args(words).output().expect("bash");
    String::from_utf8(output.stdout).expect("text").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let fresh = directory("bash_completes");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let script = fresh.join("completions/flux-fairshare.bash");
    let offered = |words: &[&str]| complete_words(&script, words);
    let commands = offered(&["flux-fairshare", ""]);
    for command in [
        "show",
        "update",
        "push",
        "compare",
        "why",
        "what-if",
        "status",
        "check-import",
        "jobs",
        "standing",
        "top",
        "metrics",
    ] {
        assert!(commands.iter().any(|offer| offer == command), "{command}: {commands:?}");
    }
    for hidden in ["embedded", "generate", "demo"] {
        assert!(!commands.iter().any(|offer| offer == hidden), "{hidden}: {commands:?}");
    }
    assert!(offered(&["flux-fairshare", "show", "--j"]).contains(&"--json".to_owned()));
    let policies = ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"];
    assert_eq!(offered(&["flux-fairshare", "show", "--policy", ""]), policies);
    assert_eq!(offered(&["flux-fairshare", "why", "--tree-format", "p"]), ["pbsfs"]);
    assert_eq!(offered(&["flux-fairshare", "show", "-o", "level"]), ["level_fs"]);
    assert_eq!(offered(&["flux-fairshare", "show", "--sort", "li"]), ["list"]);
    assert_eq!(offered(&["flux-fairshare", "compare", "--policy", "pbs,c"]), ["pbs,classic"]);
    assert_eq!(offered(&["flux-fairshare", "show", "--wait", ""]), Vec::<String>::new(), "no files");
}

#[test]
fn shell_completion_gets_users_banks_queues_and_jobs_from_the_command() {
    let fresh = directory("names_complete");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let script = fresh.join("completions/flux-fairshare.bash");
    for (words, asked) in [
        (&["flux-fairshare", "jobs", "-u", "ann,b"][..], "users"),
        (&["flux-fairshare", "jobs", "--bank", "ann,b"], "banks"),
        (&["flux-fairshare", "limit", "--queue", "ann,b"], "queues"),
        (&["flux-fairshare", "jobs", "-j", "ann,b"], "jobs"),
        (&["flux-fairshare", "why", "ann,b"], "subjects"),
        (&["flux-fairshare", "standing", "ann,b"], "users"),
    ] {
        // A shell function replaces flux. The function prints names only if its arguments request a
        // completion of this kind.
        let flux = r#"flux() { [[ "$*" == "fairshare complete KIND -- ann,b" ]] && echo ann,ben; }"#
            .replace("KIND", asked);
        let shell = fresh.join("flux.bash");
        fs::write(&shell, format!("{flux}\n{}", fs::read_to_string(&script).expect("text")))
            .expect("written");
        assert_eq!(complete_words(&shell, words), ["ann,ben"], "{words:?}");
    }
    // Without Flux, the command is silent and offers nothing.
    let ran = run_with_input(
        Command::new(PROGRAM).args(["complete", "users", "a"]).env("FLUX_URI", "local:///none"),
        "",
    );
    assert_eq!(ran.ok(), "");
}

/// Returns the completions that bash offers for `words`, a command line that begins with `flux`. The shell
/// runs the commands in `before` first.
fn list_completions_of_flux_command(script: &Path, before: &str, words: &[&str]) -> Vec<String> {
    let line = format!(
        r#"{before}; source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        complete -p flux | grep -q 'F _flux_fairshare_below_flux flux' || echo not-registered
        _flux_fairshare_below_flux flux "${{COMP_WORDS[COMP_CWORD]}}" "${{COMP_WORDS[COMP_CWORD-1]}}"; printf '%s\n' "${{COMPREPLY[@]}}""#
    );
    let output =
        Command::new("bash").args(["-c", &line, "bash"]).arg(script).args(words).output().expect("bash");
    String::from_utf8(output.stdout).expect("text").split_whitespace().map(str::to_owned).collect()
}

#[test]
fn our_bash_completion_of_flux_completes_only_flux_fairshare() {
    let fresh = directory("below_flux");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let script = fresh.join("completions/flux-fairshare.bash");
    let theirs = "_flux_core() { COMPREPLY=(jobs jobtap); }; complete -F _flux_core flux";
    for before in ["true", theirs] {
        let offered = |words: &[&str]| list_completions_of_flux_command(&script, before, words);
        assert_eq!(offered(&["flux", "fairshare", "sh"]), ["show"]);
        assert_eq!(offered(&["flux", "-v", "fairshare", "show", "--pol"]), ["--policy"]);
        let policies = ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"];
        assert_eq!(offered(&["flux", "fairshare", "why", "--policy", ""]), policies);
    }
    assert_eq!(list_completions_of_flux_command(&script, theirs, &["flux", "jo"]), ["jobs", "jobtap"]);
    assert_eq!(
        list_completions_of_flux_command(&script, theirs, &["flux", "jobs", "fairshare"]),
        ["jobs", "jobtap"]
    );
}

#[test]
fn fish_completes_flux_fairshare_like_the_program() {
    if Command::new("fish").arg("--version").output().is_err() {
        return; // An optional shell.
    }
    let fresh = directory("below_flux_fish");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let offered = |line: &str| {
        let script = fresh.join("completions/flux-fairshare.fish");
        let program = format!("source '{}'; complete -C '{line}'", script.display());
        let output = Command::new("fish").args(["--no-config", "-c", &program]).output().expect("fish");
        let text = String::from_utf8(output.stdout).expect("text");
        text.split('\n').filter_map(|line| line.split('\t').next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let policies = ["classic", "depth-oblivious", "fair-tree", "pbs", "weighted-walk"];
    let below = offered("flux fairshare show --policy ");
    assert!(policies.iter().all(|policy| below.iter().any(|offer| offer == policy)), "{below:?}");
    assert!(offered("flux fairshare sta").contains(&"status".to_owned()));
}

#[test]
fn the_error_about_a_missing_argument_shows_the_usage() {
    let ran = fairshare(["why"]);
    assert!(
        ran.error()
            .contains("Usage: flux fairshare why [OPTIONS] <JOBID|USER[/BANK]> [JOBID2|USER2[/BANK2]]"),
        "{ran:?}"
    );
}

/// A manual page names an environment variable or a file only if an option of the command uses it.
#[test]
fn manual_pages_list_only_environment_variables_and_files_that_options_use() {
    let fresh = directory("environment");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let pages = read_files(&fresh);
    let pages = pages.iter().filter(|(name, _)| name.starts_with("man1/flux-fairshare-"));
    let (mut seen, mut wrong) = (0, Vec::new());
    for (name, page) in pages {
        let section =
            |title: &str| page.split(".SH ").find(|section| section.starts_with(title)).unwrap_or_default();
        // Options are in sections of their own.
        let options = page.split(".SH \"EXIT STATUS\"").next().unwrap_or_default();
        for (option, title, named) in [
            ("path", "ENVIRONMENT", "FLUX_FAIRSHARE_DATABASE"),
            ("path", "FILES", "FluxAccounting.db"),
            ("uri", "ENVIRONMENT", "FLUX_URI"),
            ("color", "ENVIRONMENT", "NO_COLOR, CLICOLOR"),
            ("color", "ENVIRONMENT", "COLUMNS"),
            ("no\\-pager", "ENVIRONMENT", "FLUX_FAIRSHARE_PAGER"),
        ] {
            let has = options.contains(&format!("\\-\\-{option}\\fR"));
            seen += usize::from(has);
            if has != section(title).contains(named) {
                wrong.push(format!("{name}: {named}"));
            }
        }
    }
    assert!(seen > 50, "{seen}");
    assert_eq!(wrong, Vec::<String>::new());
}

/// If a command has exit status 1, its manual page must say what this status means for the command.
#[test]
fn manual_pages_describe_the_exit_status_of_their_command() {
    let fresh = directory("exit_status");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let one = |command: &str| {
        let page =
            fs::read_to_string(fresh.join(format!("man1/flux-fairshare-{command}.1"))).expect("a page");
        let status = page.split(".SH ").find(|section| section.contains("EXIT STATUS")).expect("a section");
        let entry = status.split(".TP").find(|entry| entry.contains("\\fB1\\fR"));
        entry.map(|entry| entry.lines().last().unwrap_or_default().to_owned())
    };
    for never in ["policy", "sync", "recount", "scrub", "update", "push"] {
        assert_eq!(one(never), None, "{never}");
    }
    for other in ["doctor", "status", "check-import", "migrate", "config"] {
        assert_eq!(one(other).as_deref(), Some("see above"), "{other}");
    }
    for usual in ["show", "why", "jobs", "standing", "limit", "budget", "credit", "usage"] {
        assert!(
            one(usual).is_some_and(|text| text.contains("the user, bank or job does not exist")),
            "{usual}"
        );
    }
}

#[test]
fn manual_pages_contain_only_sections_of_their_command() {
    let fresh = directory("manual_pages");
    fairshare(["generate".as_ref(), fresh.as_os_str()]).ok();
    let page = |name: &str| fs::read_to_string(fresh.join("man1").join(name)).expect("a page");
    let (push, show) = (page("flux-fairshare-push.1"), page("flux-fairshare-show.1"));
    let no = "the user, bank or job does not exist";
    assert!(show.contains(no) && !push.contains(no) && !page("flux-fairshare-update.1").contains(no));
    assert!(push.contains("FLUX_URI") && show.contains("NO_COLOR"));
    assert!(!page("flux-fairshare-recount.1").contains("FLUX_URI"));
    assert!(page("flux-fairshare-why.1").contains("[OPTIONS] <JOBID|USER[/BANK]> [JOBID2|USER2[/BANK2]]"));
    for text in [push, show] {
        assert!(text.contains(concat!("\"flux-fairshare ", env!("CARGO_PKG_VERSION"))), "the footer: {text}");
        for section in [".SH FILES", ".SH EXAMPLES", ".SH \"SEE ALSO\""] {
            assert!(text.contains(section), "{section}");
        }
    }
}
