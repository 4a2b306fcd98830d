// SPDX-License-Identifier: LGPL-3.0-only
//! The interface between the demo and the job manager: a real Flux instance or the embedded job manager. Runs the command
//! `flux fairshare` for the demo, and answers its requests if the embedded job manager runs the plugin.

use std::io::{BufRead, BufReader, Write, stdout};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;

use anstream::{AutoStream, ColorChoice};
use serde_json::Value;

use super::site::{DemoJob, Site};

/// A job manager that runs the plugin. Errors are texts for the user.
///
/// Each method returns only when no job will change its state by itself.
pub(super) trait DemoHost {
    /// Returns the description of the job manager that the demo prints.
    fn name(&self) -> String;
    /// Returns the time of the job manager, in seconds since the epoch.
    fn now(&self) -> f64;
    /// Sends a request to the service `job-manager.mf_priority.<method>`, and returns the response.
    fn request(&self, method: &str, payload: &Value) -> Result<Value, String>;
    /// Submits a job as user `userid`. Returns the job id, or the text of the rejection.
    fn submit(&self, userid: u32, job: &DemoJob, jobspec: &Value) -> Result<Result<u64, String>, String>;
    /// Ends the tasks of the running job `id` of user `userid`.
    fn finish(&self, id: u64, userid: u32) -> Result<(), String>;
    /// Runs a command of `flux fairshare` with this job manager, and returns the output of the command.
    fn run_command(&self, args: &CommandArgs, command: &mut Command) -> Result<String, String>;
}

/// The command that the demo runs, and the libraries that replace Flux's libraries for this command.
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
    pub(super) fn build(&self, site: &Site, arguments: &[String]) -> Option<Command> {
        let mut command = Command::new(self.command.as_ref()?);
        let users = self.libraries.as_ref()?.join("users.so");
        // The command can't see whether the demo's own output is a terminal.
        let is_coloured = AutoStream::choice(&stdout()) != ColorChoice::Never;
        command
            .args(arguments)
            .env("COLUMNS", "80")
            .env("LD_PRELOAD", users)
            .env("DEMO_USERS", site.format_users());
        command.env(if is_coloured { "CLICOLOR_FORCE" } else { "NO_COLOR" }, "1");
        Some(command)
    }

    /// Makes the command load the demo's libflux-core.so.2. This library sends the command's requests to the demo, over the
    /// socket at standard input.
    pub(super) fn replace_library(&self, command: &mut Command) {
        command.envs(self.libraries.as_ref().map(|directory| ("LD_LIBRARY_PATH", directory)));
    }
}

/// Runs `command`, and answers its requests with `answer`. `answer` gets topic and payload, and returns the text of the response,
/// or errno and text of an error. Returns the output of the command, with warnings and errors last. The exit status 1 is not an error.
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
