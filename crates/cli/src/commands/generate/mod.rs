// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare generate`: manual pages and completions from the definitions of the commands, and a sample of the configuration.

mod manual;
mod shells;
#[cfg(test)]
mod tests;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;
use strum::VariantNames;

use crate::help::{GROUPS, about};
use crate::outcome::{Answer, EXIT_STATUS, Outcome, failure};
use fairshare::Policy;
use fairshare_import::Format;
use fairshare_protocol::settings::{SETTINGS, Setting};

/// Write manual pages, completions and a sample of the configuration below a directory
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// The directory; man1/, man7/, completions/ and flux-fairshare.toml are made in it
    directory: PathBuf,
}

/// The name of the program as one word. Under flux, the name has two words.
const PROGRAM: &str = "flux-fairshare";
/// The name of the plugin's page.
const PLUGIN_PAGE: &str = "flux-fairshare-plugin";

pub(super) fn run(args: &Args, definition: fn() -> Command) -> Outcome {
    write_files(&args.directory, definition)
        .map_err(|error| failure(format!("{}: {error}", args.directory.display())))?;
    Ok(Answer::Yes)
}

fn write_files(directory: &Path, definition: fn() -> Command) -> io::Result<()> {
    let [pages, of_plugin, completions] = ["man1", "man7", "completions"].map(|name| directory.join(name));
    for directory in [&pages, &of_plugin, &completions] {
        fs::create_dir_all(directory)?;
    }
    write_plugin_page(&of_plugin)?;
    fs::write(directory.join(format!("{PROGRAM}.toml")), build_sample())?;
    let mut command = definition();
    command.build();
    write_page(&command, PROGRAM, &pages, definition)?;
    for subcommand in visible_subcommands(&command).filter(|command| command.get_name() != "help") {
        write_page(subcommand, &format!("{PROGRAM}-{}", subcommand.get_name()), &pages, definition)?;
    }
    // clap_complete 4.6 replaces the hyphen of the program's name by `__` where the script enters a state, and by `__subcmd__` where the
    // script looks the state up. So the script would never find the state of a subcommand.
    let (looked_up, entered) = (PROGRAM.replace('-', "__subcmd__"), PROGRAM.replace('-', "__"));
    let script = generate_script(Shell::Bash, definition).replace(&looked_up, &entered);
    let script = shells::NAMES.iter().fold(script, |script, kind| {
        let word = shells::placeholder(kind);
        // Two arguments of one command may accept the same kind of names, such as users.
        script.replace(&format!("{word} {word}"), &word).replace(&word, &shells::bash_names(kind))
    });
    fs::write(completions.join(format!("{PROGRAM}.bash")), script + shells::BASH)?;
    let zsh = shells::NAMES.iter().fold(generate_script(Shell::Zsh, definition), |script, kind| {
        script.replace(&format!("({})", shells::placeholder(kind)), &shells::zsh_names(kind))
    });
    // The script ends by calling its completion function, so other functions are inserted before this call.
    let (body, tail) = zsh.rsplit_once("\nif [ ").unwrap_or((&zsh, ""));
    let body = body.replacen(shells::ZSH_HEAD.0, shells::ZSH_HEAD.1, 1);
    let tail = tail.replacen(shells::ZSH_TAIL.0, shells::ZSH_TAIL.1, 1);
    fs::write(completions.join(format!("_{PROGRAM}")), format!("{body}\n{}\nif [ {tail}", shells::ZSH))?;
    let fish = shells::NAMES.iter().fold(generate_script(Shell::Fish, definition), |script, kind| {
        script.replace(&format!("\"{}\\t''\"", shells::placeholder(kind)), &shells::fish_names(kind))
    });
    fs::write(completions.join(format!("{PROGRAM}.fish")), fish + shells::FISH)?;
    Ok(())
}

fn generate_script(shell: Shell, definition: fn() -> Command) -> String {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut build_completion_definitions(definition), PROGRAM, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

fn visible_subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set())
}

/// Writes the page of a command. Texts after the options in the help become sections.
fn write_page(
    command: &Command,
    name: &str,
    directory: &Path,
    definition: fn() -> Command,
) -> io::Result<()> {
    let source = format!("{PROGRAM} {}", env!("CARGO_PKG_VERSION"));
    let man = clap_mangen::Man::new(command.clone()).title(name).source(source);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    // clap_mangen's own synopsis lists every option and omits the names of the values. The usage in the help
    // has `[OPTIONS]` instead, and the names of the values.
    let usage = command.clone().render_usage().to_string();
    writeln!(text, ".SH SYNOPSIS\n{}", escape_roff(usage.trim_start_matches("Usage: ")))?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        for (title, names) in GROUPS {
            writeln!(text, ".SH \"COMMANDS {}\"", title.to_uppercase())?;
            for name in names {
                let page = escape_roff(&format!("{PROGRAM}-{name}(1)"));
                writeln!(text, ".TP\n{page}\n{}", escape_roff(&about(command, name)))?;
            }
        }
    }
    let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let after = if after.contains(EXIT_STATUS) { after } else { format!("{after}\n{EXIT_STATUS}") };
    for (title, entries) in parse_sections(&after) {
        writeln!(text, ".SH \"{}\"", title.to_uppercase())?;
        for (key, what) in entries {
            let is_no = title == "Exit status" && key == "1";
            let what =
                if is_no { manual::describe_exit_status_1(command.get_name(), what) } else { Some(what) };
            let Some(what) = what else { continue };
            writeln!(text, ".TP\n\\fB{}\\fR\n{}", escape_roff(key), escape_roff(what))?;
        }
    }
    for (title, entries) in manual::list_sections(command) {
        writeln!(text, ".SH {title}")?;
        for (key, what) in entries {
            writeln!(text, ".TP\n\\fB{}\\fR\n{}", escape_roff(key), escape_roff(what))?;
        }
    }
    let others = visible_subcommands(&definition())
        .map(|other| format!("{PROGRAM}-{}", other.get_name()))
        .chain([PROGRAM.to_owned(), "flux".to_owned(), "flux-jobtap".to_owned()])
        .filter(|other| other != name)
        .map(|other| format!("\\fB{}\\fR(1)", escape_roff(&other)))
        .chain([format!("\\fB{}\\fR(7)", escape_roff(PLUGIN_PAGE))])
        .collect::<Vec<_>>();
    writeln!(text, ".SH \"SEE ALSO\"\n{}", others.join(", "))?;
    fs::write(directory.join(format!("{name}.1")), text)
}

/// Returns the entry of a setting in the plugin's manual page.
fn setting_entry(Setting { name, doc, default, .. }: &Setting) -> String {
    format!(".TP\n\\fB{}\\fR\n{}\n", escape_roff(name), escape_roff(&format!("{doc} Default: {default}.")))
}

/// Returns the sample of the configuration, which has all settings as comments.
fn build_sample() -> String {
    let settings = SETTINGS.iter().map(|Setting { name, doc, default, .. }| {
        let doc =
            textwrap::fill(doc, textwrap::Options::new(100).initial_indent("# ").subsequent_indent("# "));
        format!("\n{doc}\n#{name} = {default}\n")
    });
    std::iter::once(SAMPLE.to_owned()).chain(settings).collect()
}

const SAMPLE: &str = r#"# SPDX-License-Identifier: LGPL-3.0-only
# Sample for the system instance, e.g. conf.d/flux-fairshare.toml in Flux's system configuration directory.

[job-manager]
plugins = [
  { remove = ".priority-default", load = "mf_priority.so" },
]

# The settings with their defaults: see flux-fairshare-plugin(7). To change one, uncomment its line and [fairshare].
#[fairshare]
"#;

/// Writes the page of the plugin. In its text, lines that begin with a dot are roff, and each line after `.TP` is a term.
fn write_plugin_page(directory: &Path) -> io::Result<()> {
    let mut page = format!(".TH {PLUGIN_PAGE} 7 \"\" \"{PROGRAM} {}\"\n", env!("CARGO_PKG_VERSION"));
    let mut previous = "";
    for line in include_str!("plugin-page.txt").lines() {
        page += &match line {
            "@SETTINGS@" => SETTINGS.iter().map(setting_entry).collect(),
            _ if line.starts_with('.') => format!("{line}\n"),
            _ if previous == ".TP" => format!("\\fB{}\\fR\n", escape_roff(line)),
            _ => format!("{}\n", escape_roff(line)),
        };
        previous = line;
    }
    fs::write(directory.join(format!("{PLUGIN_PAGE}.7")), page)
}

/// A heading, and the pairs of key and text below it.
type Section<'a> = (&'a str, Vec<(&'a str, &'a str)>);

/// Parses a text of `Title:` lines and `  key  text` lines.
fn parse_sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    for line in text.lines() {
        match (line.strip_suffix(':'), line.trim().split_once("  "), sections.last_mut()) {
            (Some(title), ..) => sections.push((title, Vec::new())),
            (None, Some((key, what)), Some((_, entries))) => entries.push((key, what.trim())),
            _ => {}
        }
    }
    sections
}

/// Escapes text for a manual page.
fn escape_roff(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('\'', "\\(aq")
}

/// Returns the definitions of commands for the completion scripts. The scripts split the command line at spaces, so the program's name must
/// be one word. Hidden commands are left out, and arguments have their possible values.
fn build_completion_definitions(definition: fn() -> Command) -> Command {
    let command = definition();
    let mut columns: Vec<PossibleValue> = Vec::new();
    let show = command.find_subcommand("show").and_then(|show| show.get_after_long_help());
    for (_, entries) in parse_sections(&show.map(ToString::to_string).unwrap_or_default()) {
        let entries = entries.into_iter().map(|(key, what)| (key.to_owned(), what.to_owned()));
        columns.extend(entries.map(|(key, what)| PossibleValue::new(key).help(what)));
    }
    let subcommands: Vec<Command> = visible_subcommands(&command)
        .map(|subcommand| {
            let name = subcommand.get_name().to_owned();
            subcommand.clone().mut_args(|argument| add_value_hint(&name, argument, &columns))
        })
        .collect();
    let about = command.get_about().cloned().unwrap_or_default();
    Command::new(PROGRAM)
        .about(about)
        .version(env!("CARGO_PKG_VERSION"))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(subcommands)
}

fn add_value_hint(command: &str, argument: Arg, columns: &[PossibleValue]) -> Arg {
    if !argument.get_action().takes_values() || argument.get_value_hint() != ValueHint::Unknown {
        return argument;
    }
    let policies = Policy::ALL.map(Policy::name);
    let names = |kind| vec![PossibleValue::new(shells::placeholder(kind))];
    let values: Vec<PossibleValue> = match argument.get_id().as_str() {
        "first" | "second" if command == "why" => names("subjects"),
        "user" => names("users"),
        "bank" => names("banks"),
        "queue" => names("queues"),
        "jobs" => names("jobs"),
        "policy" => policies.map(PossibleValue::new).to_vec(),
        "policies" => {
            let others = |first| policies.into_iter().filter(move |second| *second != first);
            let pairs = policies
                .iter()
                .flat_map(|first| others(*first).map(move |second| format!("{first},{second}")));
            pairs.map(PossibleValue::new).collect()
        }
        // A document in this format contains no tree.
        "tree_format" => {
            let no_tree = Format::ExportJson.to_string();
            Format::VARIANTS.iter().filter(|name| **name != no_tree).map(PossibleValue::new).collect()
        }
        "columns" => columns.to_vec(),
        "sort" => {
            let list = PossibleValue::new("list").help("as the input has them");
            let walk = PossibleValue::new("pbs-walk").help("as PBS's scheduler compares them");
            columns.iter().cloned().chain([list, walk]).collect()
        }
        // All arguments that take file names are handled above.
        _ => return argument.value_hint(ValueHint::Other),
    };
    argument.value_parser(PossibleValuesParser::new(values))
}
