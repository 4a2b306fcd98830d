// SPDX-License-Identifier: LGPL-3.0-only
//! Runs the command `flux fairshare` for the demo, and answers its requests if the embedded job manager runs the plugin.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use super::site::Site;

/// The program to run, and the libraries from `testing/embedded/client`.
#[derive(Debug, clap::Args)]
pub(super) struct CommandArgs {
    /// The built command flux-fairshare. Without it, the demo runs no commands
    #[arg(long, value_name = "FILE", requires = "libraries")]
    command: Option<PathBuf>,
    /// The directory of users.so and libflux-core.so.2
    #[arg(long, value_name = "DIRECTORY")]
    libraries: Option<PathBuf>,
}

impl CommandArgs {
    /// Builds the command with `arguments`, 80 columns wide. Returns `None` if no command was given.
    pub(super) fn build(&self, site: &Site, arguments: &[String], colour: bool) -> Option<Command> {
        let mut command = Command::new(self.command.as_ref()?);
        let users = self.libraries.as_ref()?.join("users.so");
        command
            .args(arguments)
            .env("COLUMNS", "80")
            .env("LD_PRELOAD", users)
            .env("DEMO_USERS", site.format_users());
        command.env(if colour { "CLICOLOR_FORCE" } else { "NO_COLOR" }, "1");
        Some(command)
    }

    /// Makes the command load the demo's libflux-core.so.2, which sends the requests of the command to standard input.
    pub(super) fn replace_library(&self, command: &mut Command) {
        command.envs(self.libraries.as_ref().map(|directory| ("LD_LIBRARY_PATH", directory)));
    }
}

/// Runs `command`, and returns its output, with warnings and errors last. The exit status 1 is not an error.
pub(super) fn run_command(command: &mut Command) -> Result<String, String> {
    run_and_answer(command, |_, _| Err((libc::ENOSYS, String::new())))
}

/// Runs `command`, and answers its requests with `answer`. `answer` gets topic and payload, and returns the text of the response,
/// or errno and text of an error. Returns the output of the command.
pub(super) fn run_and_answer(
    command: &mut Command,
    answer: impl Fn(&str, &str) -> Result<Option<String>, (i32, String)>,
) -> Result<String, String> {
    let failed = |error: std::io::Error| format!("can't run the command: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().map_err(failed)?;
    // Close the demo's copy of the socket of the command, so that reading ends when the command ends.
    command.stdin(Stdio::null());
    // Another thread reads the output, because the command waits if a pipe is full.
    let waiting = thread::spawn(move || child.wait_with_output());
    let mut requests = BufReader::new(&ours);
    while let (Some(topic), Some(payload)) = (read_text(&mut requests), read_text(&mut requests)) {
        let (errno, text) = match answer(&topic, &payload) {
            Ok(text) => (0, text.unwrap_or_default()),
            Err((errno, text)) => (errno, text),
        };
        // If the command has ended, the next read ends the loop.
        let _ = write!(&ours, "{errno}\0{text}\0");
    }
    let output =
        waiting.join().map_err(|_| "the thread of the command panicked".to_owned())?.map_err(failed)?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match output.status.code() {
        Some(0 | 1) => Ok(text(&output.stdout) + &text(&output.stderr)),
        _ => Err(format!("the command failed ({}): {}", output.status, text(&output.stderr))),
    }
}

/// Reads a text that ends with a NUL byte. Returns `None` at the end.
fn read_text(from: &mut impl BufRead) -> Option<String> {
    let mut bytes = Vec::new();
    from.read_until(0, &mut bytes).ok()?;
    (bytes.pop() == Some(0)).then(|| String::from_utf8_lossy(&bytes).into_owned())
}
