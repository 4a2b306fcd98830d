// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare generate`: manual pages and completions from the definitions of the commands.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use super::{Answer, Cli, EXIT_STATUS, Failure, Outcome};

/// Write manual pages and completions below a directory
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(super) struct Args {
    /// The directory; man1/ and completions/ are made in it
    directory: PathBuf,
}

pub(super) fn run(args: &Args) -> Outcome {
    write(&args.directory)
        .map_err(|error| Failure::Message(format!("{}: {error}", args.directory.display())))?;
    Ok(Answer::Yes)
}

fn write(directory: &Path) -> io::Result<()> {
    let (pages, completions) = (directory.join("man1"), directory.join("completions"));
    fs::create_dir_all(&pages)?;
    fs::create_dir_all(&completions)?;
    let mut command = Cli::command();
    command.build();
    page(&command, "flux-fairshare", &pages)?;
    for subcommand in
        command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
    {
        page(subcommand, &format!("flux-fairshare-{}", subcommand.get_name()), &pages)?;
    }
    for shell in [Shell::Bash, Shell::Fish, Shell::Zsh] {
        clap_complete::generate_to(shell, &mut Cli::command(), "flux-fairshare", &completions)?;
    }
    Ok(())
}

/// One page. What follows the options in the help (`Title:`, then lines of `  key  text`) becomes sections.
fn page(command: &Command, name: &str, directory: &Path) -> io::Result<()> {
    let man = clap_mangen::Man::new(command.clone()).title(name);
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    let after = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
    let exit_status = if after.contains(EXIT_STATUS) { "" } else { EXIT_STATUS };
    for line in after.lines().chain(exit_status.lines()) {
        match (line.strip_suffix(':'), line.trim().split_once("  ")) {
            (Some(title), _) => writeln!(text, ".SH \"{}\"", title.to_uppercase())?,
            (None, Some((key, what))) => writeln!(text, ".TP\n\\fB{key}\\fR\n{}", what.trim())?,
            (None, None) => {}
        }
    }
    fs::write(directory.join(format!("{name}.1")), text)
}
