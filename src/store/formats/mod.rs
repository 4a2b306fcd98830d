// SPDX-License-Identifier: LGPL-3.0-only
//! Trees from files that are no accounting database: documents of ours, flux-accounting's exports, PBS, Slurm.

mod csv;
mod documents;
mod pbs;
mod slurm;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::str::FromStr;

use super::{Reason, StoreError};
use crate::fairshare::{Builder, InactiveUsage};

pub use documents::policy_data;

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

/// Reads a tree from a file of the given format, or of the one it looks like. `usage` is PBS's list of usages, where they
/// are kept apart. The file is read once, so that a pipe will do. `None`: it is a database, to be opened as such.
pub fn load(
    path: &Path,
    format: Option<Format>,
    usage: Option<&Path>,
    inactive: InactiveUsage,
) -> Result<Option<Builder>, StoreError> {
    let unknown = || {
        let text = "looks like no known format; --format says which it is".to_owned();
        StoreError::new(path, Reason::Format(text))
    };
    if path.is_dir() {
        if !path.join(csv::ASSOCIATIONS).exists() {
            return Err(unknown());
        }
        return csv::read(path, inactive).map(Some);
    }
    if format == Some(Format::Database) {
        return Ok(None);
    }
    let bytes = read_bytes(path)?;
    if format.is_none() && super::looks_like_database(&bytes) {
        return Ok(None);
    }
    let text = text_of(path, bytes)?;
    let format = format.or_else(|| detect(&text)).ok_or_else(unknown)?;
    read(path, format, &text, usage, inactive).map(Some)
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
) -> Result<Builder, StoreError> {
    if usage.is_some() && format != Format::ResourceGroup {
        let text =
            format!("holds its usages itself ({format}); a usage list goes with a resource_group file");
        return Err(StoreError::new(path, Reason::Format(text)));
    }
    if format == Format::Csv {
        return csv::read(path, inactive);
    }
    let listed = match usage {
        Some(list) => {
            let text = text_of(list, read_bytes(list)?)?;
            Some(pbs::usages(&text).map_err(|text| StoreError::new(list, Reason::Format(text)))?)
        }
        None => None,
    };
    let parsed = match format {
        Format::Tree => documents::tree(text),
        Format::Emulate => documents::emulate(text),
        Format::ResourceGroup => pbs::resource_group(text, listed.as_deref().unwrap_or_default()),
        Format::Pbsfs => pbs::pbsfs(text),
        Format::Sshare => slurm::sshare(text),
        Format::ExportJson => {
            Err("the output of \"flux account export-json\" has neither a tree nor shares nor usage: it can \
                                   only be pushed. \"flux account export-db --fairshare-emulate\" has them"
                .to_owned())
        }
        Format::Database | Format::Csv => Err("not a text document".to_owned()),
    };
    parsed.map_err(|text| StoreError::new(path, Reason::Format(text)))
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, StoreError> {
    std::fs::read(path).map_err(|error| {
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

/// True for a regular file that starts like a JSON object.
pub fn is_json(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    read.is_ok() && head.trim_ascii_start().starts_with(b"{")
}
