// SPDX-License-Identifier: LGPL-3.0-only
//! Trees from files that are no accounting database: documents of ours, flux-accounting's exports, PBS, Slurm.

mod csv;
mod documents;
mod emulate;
mod fields;
mod pbs;
mod slurm;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{ErrorKind, Read, stdin};
use std::path::Path;
use std::str::FromStr;

use super::{Reason, StoreError};
use crate::fairshare::{Builder, InactiveUsage, Policy};

pub use documents::policy_data;

/// What stands for standard input.
const STDIN: &str = "-";

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// flux-accounting's SQLite database.
    Database,
    /// The plain document: `{"banks": [..], "associations": [..]}`.
    Tree,
    /// `flux account export-db --fairshare-emulate`: `{"root": {..}}`.
    Emulate,
    /// `flux account export-json`: what the plugin is loaded with. It has neither shares nor usage.
    ExportJson,
    /// `flux account export-db`: a directory with `association_table.csv` and `bank_table.csv`, or the former's path.
    Csv,
    /// PBS's `resource_group` file, usages in a list of their own.
    ResourceGroup,
    /// What `pbsfs` prints.
    Pbsfs,
    /// What `sshare -a -l -P` prints.
    Sshare,
}

impl Format {
    /// Every format.
    pub const ALL: [Format; 8] = [
        Format::Database,
        Format::Tree,
        Format::Emulate,
        Format::ExportJson,
        Format::Csv,
        Format::ResourceGroup,
        Format::Pbsfs,
        Format::Sshare,
    ];

    /// The name used in text.
    pub fn name(self) -> &'static str {
        match self {
            Format::Database => "database",
            Format::Tree => "tree",
            Format::Emulate => "export-db",
            Format::ExportJson => "export-json",
            Format::Csv => "csv",
            Format::ResourceGroup => "resource-group",
            Format::Pbsfs => "pbsfs",
            Format::Sshare => "sshare",
        }
    }

    /// The rule of the system that the format comes from.
    pub fn policy(self) -> Policy {
        match self {
            Format::ResourceGroup | Format::Pbsfs => Policy::Pbs,
            Format::Sshare => Policy::FairTree,
            _ => Policy::WeightedWalk,
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Format::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| {
            let known: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
            format!("unknown format \"{text}\"; known are {}", known.join(", "))
        })
    }
}

/// A tree that was read from a document.
#[derive(Debug)]
pub struct Document {
    /// Banks and associations, not yet checked.
    pub builder: Builder,
    /// What the document is.
    pub format: Format,
    /// What was left out of the tree, and why.
    pub notes: Vec<String>,
}

/// Reads a tree from a file of the given format, or of the one it looks like. `usage` is PBS's list of usages, where they
/// are kept apart. The file is read once, so that a pipe will do; `-` is standard input. `None`: it is a database, to be
/// opened as such.
pub fn load(
    path: &Path,
    format: Option<Format>,
    usage: Option<&Path>,
    inactive: InactiveUsage,
) -> Result<Option<Document>, StoreError> {
    if path.is_dir() {
        if !path.join(csv::ASSOCIATIONS).exists() {
            return Err(unknown(path, ""));
        }
        let builder = csv::read(path, None, inactive)?;
        return Ok(Some(Document { builder, format: Format::Csv, notes: Vec::new() }));
    }
    if format == Some(Format::Database) {
        return Ok(None);
    }
    if usage == Some(path) && !path.is_file() {
        let text = "can't be both the tree and the list of usages".to_owned();
        return Err(StoreError::new(path, Reason::Format(text)));
    }
    let bytes = read_bytes(path)?;
    if format.is_none() && super::looks_like_database(&bytes) {
        return Ok(None);
    }
    let text = text_of(path, bytes)?;
    let named = || (path.file_name()? == "resource_group").then_some(Format::ResourceGroup);
    let format = format.or_else(|| detect(&text)).or_else(named).ok_or_else(|| unknown(path, &text))?;
    read(path, format, &text, usage, inactive).map(Some)
}

fn unknown(path: &Path, text: &str) -> StoreError {
    if text.trim().is_empty() && !path.is_dir() {
        return StoreError::new(path, Reason::Empty);
    }
    let hint = if text.lines().next().is_some_and(slurm::is_for_people) { " (sshare needs -P)" } else { "" };
    let text = format!("looks like no known format; --format says which it is{hint}");
    StoreError::new(path, Reason::Format(text))
}

/// What a text holds, by its beginning. `None` if it looks like nothing known.
fn detect(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('{') {
        return documents::detect(start);
    }
    let line = start.lines().next()?;
    if slurm::is_header(line) {
        Some(Format::Sshare)
    } else if csv::is_header(line) {
        Some(Format::Csv)
    } else if start.lines().take(3).any(pbs::is_pbsfs_line) {
        Some(Format::Pbsfs)
    } else if pbs::is_resource_group(text) {
        Some(Format::ResourceGroup)
    } else {
        None
    }
}

fn read(
    path: &Path,
    format: Format,
    text: &str,
    usage: Option<&Path>,
    inactive: InactiveUsage,
) -> Result<Document, StoreError> {
    if usage.is_some() && format != Format::ResourceGroup {
        let text =
            format!("holds its usages itself ({format}); a usage list goes with a resource_group file");
        return Err(StoreError::new(path, Reason::Format(text)));
    }
    let mut notes = Vec::new();
    let parsed = match format {
        Format::Csv => {
            return csv::read(path, Some(text), inactive).map(|builder| Document { builder, format, notes });
        }
        Format::Tree => documents::tree(text),
        Format::Emulate => emulate::emulate(text),
        Format::ResourceGroup => {
            let usages = usage.map_or(Ok(Vec::new()), usages)?;
            pbs::resource_group(text, &usages, &mut notes)
        }
        Format::Pbsfs => pbs::pbsfs(text),
        Format::Sshare => slurm::sshare(text),
        Format::ExportJson => {
            Err("the output of \"flux account export-json\" has neither a tree nor shares nor usage: it can \
                 only be pushed. \"flux account export-db --fairshare-emulate\" has them"
                .to_owned())
        }
        Format::Database => Err("not a text document".to_owned()),
    };
    parsed
        .map(|builder| Document { builder, format, notes })
        .map_err(|text| StoreError::new(path, Reason::Format(text)))
}

fn usages(list: &Path) -> Result<Vec<(String, f64)>, StoreError> {
    let text = text_of(list, read_bytes(list)?)?;
    pbs::usages(&text).map_err(|text| StoreError::new(list, Reason::Format(text)))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    let read = || -> std::io::Result<Vec<u8>> {
        if path != Path::new(STDIN) {
            return std::fs::read(path);
        }
        let mut bytes = Vec::new();
        stdin().read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    read().map_err(|error| {
        let reason = match error.kind() {
            ErrorKind::NotFound => Reason::Missing,
            _ => Reason::Unreadable(error.to_string()),
        };
        StoreError::new(path, reason)
    })
}

fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, StoreError> {
    String::from_utf8(bytes).map_err(|_| StoreError::new(path, Reason::Format("not text (UTF-8)".to_owned())))
}

/// True for a file that starts like a JSON object. It is read for that: not for pipes.
fn starts_like_json(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && head.trim_ascii_start().starts_with(b"{")
}
