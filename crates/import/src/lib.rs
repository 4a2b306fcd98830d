// SPDX-License-Identifier: LGPL-3.0-only
//! Reads trees from files that are not accounting databases: flux-fairshare's own document, and files of PBS and Slurm.
#![forbid(unsafe_code)]

mod claims;
mod documents;
mod fields;
mod known;
mod pbs;
mod slurm;
#[cfg(test)]
mod tests;
mod tidy;

use std::io::{Read, stdin};
use std::path::Path;

use fairshare::{Builder, Policy};
use fairshare_accounting::store::{Reason, StoreError, looks_like_database};
use strum::{Display, EnumString, VariantNames};

pub use claims::{Claim, Claimant, Quantity};
pub use documents::{parse_site_text, read_site_text};
pub use slurm::SLURM_FORMULAS;

/// The path that means standard input.
const STDIN: &str = "-";
const BYTE_ORDER_MARK: char = '\u{feff}';

/// The input formats that the command recognizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown_format)]
pub enum Format {
    /// flux-accounting's SQLite database.
    Database,
    /// flux-fairshare's plain document: `{"banks": [..], "associations": [..]}`.
    Tree,
    /// `flux account export-json`: the site document for the plugin. It has neither shares nor usage.
    ExportJson,
    /// PBS's `resource_group` file. Usages are in a separate list.
    ResourceGroup,
    /// Output of `pbsfs`.
    Pbsfs,
    /// Output of `sshare -a -l -P`.
    Sshare,
    /// Output of `sshare -a --json`.
    SshareJson,
    /// Output of `sacctmgr dump`. It has shares; usages are in a separate list.
    SacctmgrDump,
    /// Output of `sacctmgr show assoc tree -P`. It has shares; usages are in a separate list.
    SacctmgrAssoc,
}

impl Format {
    /// Returns true if the format has no usages, so that a separate list may provide them.
    fn lacks_usages(self) -> bool {
        matches!(self, Format::ResourceGroup | Format::SacctmgrDump | Format::SacctmgrAssoc)
    }
}

/// Returns the error text for the unknown format `name`.
fn unknown_format(name: &str) -> String {
    format!("unknown format \"{name}\"; known are {}", Format::VARIANTS.join(", "))
}

/// A tree that was read from a document.
#[derive(Debug)]
pub struct Document {
    /// Banks and associations, not yet checked.
    pub builder: Builder,
    /// The ranking policy of the source system.
    pub policy: Policy,
    /// If the document does not show the ranking policy of its system, the reason why.
    pub undecided: Option<String>,
    /// Notes about input that was left out, each with its reason.
    pub notes: Vec<String>,
    /// Values that the source system computed.
    pub claims: Vec<Claim>,
    /// Number of FairShare values that are 0 because the source system had not computed them yet.
    pub uncomputed: usize,
}

impl Document {
    fn new(builder: Builder, policy: Policy) -> Document {
        Document { builder, policy, undecided: None, notes: Vec::new(), claims: Vec::new(), uncomputed: 0 }
    }
}

/// Input that the file of the tree does not contain.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras<'a> {
    /// The list of usages, if the file of the tree has no usages.
    pub usage: Option<&'a Path>,
    /// PBS: shares of the group `unknown`, as set in `sched_config`.
    pub unknown_shares: Option<u64>,
}

/// Reads a tree from a file in the given format, or in the format that the content shows. The file is read once, so it
/// may be a pipe; `-` is standard input. Returns `None` for a database, which the caller opens.
pub fn load(path: &Path, format: Option<Format>, extras: Extras<'_>) -> Result<Option<Document>, StoreError> {
    if path.is_dir() {
        let text = "is a directory; name a file that contains a tree".to_owned();
        return Err(StoreError::new(path, Reason::Format(text)));
    }
    if format == Some(Format::Database) {
        check_extra_inputs_of_format(path, Format::Database, extras)?;
        return Ok(None);
    }
    if extras.usage == Some(path) && !path.is_file() {
        let text = "can't be both the tree and the list of usages".to_owned();
        return Err(StoreError::new(path, Reason::Format(text)));
    }
    let bytes = read_bytes(path)?;
    if looks_like_database(&bytes) {
        if let Some(named) = format {
            let text = format!("--tree-format {named} does not apply: the file is an SQLite database");
            return Err(StoreError::new(path, Reason::Format(text)));
        }
        check_extra_inputs_of_format(path, Format::Database, extras)?;
        return Ok(None);
    }
    if pbs::is_usage_file(&bytes) {
        let text = "looks like the usage file of PBS's scheduler, which has no shares: --tree resource_group --usage-file FILE \
                    reads both";
        return Err(StoreError::new(path, Reason::Format(text.to_owned())));
    }
    let mut notes = Vec::new();
    let text = decode_output(path, bytes, &mut notes)?;
    let format_of_name = || (path.file_name()? == "resource_group").then_some(Format::ResourceGroup);
    let format = format
        .or_else(|| detect_format(&text))
        .or_else(format_of_name)
        .ok_or_else(|| unknown_content_error(path, &text))?;
    let mut document = read_document(path, format, &text, extras)?;
    document.notes.splice(0..0, notes);
    Ok(Some(document))
}

/// Decodes the output of a program and cleans it with [`tidy::erase_lines_around_output`]. Adds a note if the text is not
/// UTF-8.
fn decode_output(path: &Path, bytes: Vec<u8>, notes: &mut Vec<String>) -> Result<String, StoreError> {
    let text = match tidy::decode_latin_1(&bytes).filter(|_| std::str::from_utf8(&bytes).is_err()) {
        Some(text) => {
            notes.push("not UTF-8: read as Latin-1 (ISO 8859-1)".to_owned());
            text
        }
        None => decode_utf_8(path, bytes)?,
    };
    let text = tidy::erase_lines_around_output(&text);
    let is_json = text.trim_start().starts_with('{');
    Ok(if is_json { fields::quote_bare_numbers(&text).into_owned() } else { text.into_owned() })
}

/// Returns an error if `extras` contains input that does not belong to `format`.
fn check_extra_inputs_of_format(path: &Path, format: Format, extras: Extras<'_>) -> Result<(), StoreError> {
    let text = if extras.usage.is_some() && !format.lacks_usages() {
        format!(
            "contains usages ({format}), so --usage-file does not apply: use --usage-file with resource_group or output of sacctmgr"
        )
    } else if extras.unknown_shares.is_some() && format != Format::ResourceGroup {
        format!("is not a resource_group file ({format}), so --unknown-shares does not apply")
    } else {
        return Ok(());
    };
    Err(StoreError::new(path, Reason::Format(text)))
}

fn unknown_content_error(path: &Path, text: &str) -> StoreError {
    if text.trim().is_empty() {
        return StoreError::new(path, Reason::Empty);
    }
    let json = text.trim_start().starts_with('{').then(|| documents::describe_content(text)).flatten();
    let hint = json.map(str::to_owned).or_else(|| known::describe_text(text));
    let text = hint.unwrap_or_else(|| {
        "has no known format: import the output of \"sshare -a -l -P\", \"sacctmgr dump\" or pbsfs, or name the \
         format with --tree-format"
            .to_owned()
    });
    StoreError::new(path, Reason::Format(text))
}

/// Detects the format of a text by its beginning. Returns `None` for an unknown format.
fn detect_format(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('{') {
        return documents::detect_format(start);
    }
    // Lines that another program printed may precede the headers of these formats.
    let any_line = |is_header: fn(&str) -> bool| start.lines().take(tidy::MAX_LINES_BEFORE).any(is_header);
    if any_line(slurm::is_header) {
        Some(Format::Sshare)
    } else if any_line(slurm::is_assoc_header) {
        Some(Format::SacctmgrAssoc)
    } else if slurm::is_dump(text) {
        Some(Format::SacctmgrDump)
    } else if start.lines().take(10).any(pbs::is_table_line) {
        Some(Format::Pbsfs)
    } else if !start.starts_with(';') && pbs::is_resource_group_file(text) {
        Some(Format::ResourceGroup)
    } else {
        None
    }
}

fn read_document(
    path: &Path,
    format: Format,
    text: &str,
    extras: Extras<'_>,
) -> Result<Document, StoreError> {
    check_extra_inputs_of_format(path, format, extras)?;
    let mut notes = Vec::new();
    let usages = extras.usage.map_or(Ok(Vec::new()), |list| read_usages(list, &mut notes))?;
    let document = match format {
        Format::Tree => {
            documents::read_tree(text).map(|builder| Document::new(builder, Policy::WeightedWalk))
        }
        Format::ResourceGroup => pbs::read_resource_group(text, &usages, extras.unknown_shares, &mut notes)
            .map(|builder| Document::new(builder, Policy::Pbs)),
        Format::Pbsfs => pbs::read_pbsfs(text),
        Format::Sshare => slurm::read_sshare(text),
        Format::SshareJson => slurm::read_json(text),
        Format::SacctmgrDump => slurm::read_dump(text, &usages),
        Format::SacctmgrAssoc => slurm::read_assoc(text, &usages),
        Format::ExportJson => Err(
            "the output of \"flux account export-json\" has neither a tree nor shares nor usage, so only \
                 push accepts it: read the database instead (-p FILE)"
                .to_owned(),
        ),
        Format::Database => Err("not an SQLite database".to_owned()),
    };
    let mut document = document.map_err(|text| StoreError::new(path, Reason::Format(text)))?;
    if format.lacks_usages() && format != Format::ResourceGroup && extras.usage.is_none() {
        let text = "has shares but no usage, so the usage of each user is 0 (\"sshare -a -l -P\" prints \
                    both; --usage-file reads a list of usages)";
        document.notes.push(text.to_owned());
    }
    document.notes.append(&mut notes);
    Ok(document)
}

/// Reads a list of usages: PBS's own usage file, or a text file.
fn read_usages(list: &Path, notes: &mut Vec<String>) -> Result<Vec<(String, f64)>, StoreError> {
    let bytes = read_bytes(list)?;
    let usages = if pbs::is_usage_file(&bytes) {
        pbs::read_usage_file(&bytes, notes)
    } else {
        let text = decode_output(list, bytes, notes)?;
        match known::describe_wrong_usages(&text) {
            Some(text) => Err(text),
            None => pbs::read_usage_list(&text),
        }
    };
    usages.map_err(|text| StoreError::new(list, Reason::Format(text)))
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
    read().map_err(|error| StoreError::system(path, &error))
}

/// Decodes UTF-8 and removes a byte order mark.
fn decode_utf_8(path: &Path, bytes: Vec<u8>) -> Result<String, StoreError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let text = known::describe_bytes(error.as_bytes());
        StoreError::new(path, Reason::Format(text.to_owned()))
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// Returns true if the file starts like a JSON object. Do not call this for a pipe, which would lose the bytes read.
fn starts_like_json(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    read.is_ok() && head.trim_ascii_start().starts_with(b"{")
}
