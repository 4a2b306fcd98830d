// SPDX-License-Identifier: LGPL-3.0-only
//! Trees from files that are no accounting database: documents of ours, flux-accounting's exports, PBS, Slurm.
#![forbid(unsafe_code)]

mod claims;
mod csv;
mod documents;
mod emulate;
mod fields;
mod known;
mod pbs;
mod slurm;
#[cfg(test)]
mod tests;
mod tidy;

use std::io::{Read, stdin};
use std::path::Path;

use fairshare::{Builder, InactiveUsage, Policy};
use fairshare_accounting::store::{Reason, StoreError, looks_like_database};
use strum::{Display, EnumString, VariantNames};

pub use claims::{Claim, Claimant, Quantity};
pub use documents::{policy_data, policy_text};
pub use slurm::SLURM_FORMULAS;

/// What stands for standard input.
const STDIN: &str = "-";
const BYTE_ORDER_MARK: char = '\u{feff}';

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case", parse_err_ty = String, parse_err_fn = unknown_format)]
pub enum Format {
    /// flux-accounting's SQLite database.
    Database,
    /// The plain document: `{"banks": [..], "associations": [..]}`.
    Tree,
    /// `flux account export-db --fairshare-emulate`: `{"root": {..}}`.
    #[strum(serialize = "export-db")]
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
    /// What `sshare -a --json` prints.
    SshareJson,
    /// The file of `sacctmgr dump`: shares, usages in a list of their own.
    SacctmgrDump,
    /// What `sacctmgr show assoc tree -P` prints: shares, usages in a list of their own.
    SacctmgrAssoc,
}

impl Format {
    /// The rule of the system that the format comes from.
    pub fn policy(self) -> Policy {
        match self {
            Format::ResourceGroup | Format::Pbsfs => Policy::Pbs,
            Format::Sshare | Format::SshareJson | Format::SacctmgrDump | Format::SacctmgrAssoc => {
                Policy::FairTree
            }
            _ => Policy::WeightedWalk,
        }
    }
}

impl Format {
    /// True where usages are in a list of their own, if there are any.
    fn lacks_usages(self) -> bool {
        matches!(self, Format::ResourceGroup | Format::SacctmgrDump | Format::SacctmgrAssoc)
    }
}

/// Returns the error for a name that no format has.
fn unknown_format(name: &str) -> String {
    format!("unknown format \"{name}\"; known are {}", Format::VARIANTS.join(", "))
}

/// A tree that was read from a document.
#[derive(Debug)]
pub struct Document {
    /// Banks and associations, not yet checked.
    pub builder: Builder,
    /// What the document is.
    pub format: Format,
    /// The rule of the system it comes from, by the format or, better, by what is in it.
    pub policy: Policy,
    /// Why the document does not show which rule its system used, if it does not.
    pub undecided: Option<String>,
    /// What was left out of the tree, and why.
    pub notes: Vec<String>,
    /// What that system had computed itself.
    pub claims: Vec<Claim>,
    /// How many FairShares are 0 because that system had not computed them yet.
    pub uncomputed: usize,
}

/// What one format's reader makes of a text.
#[derive(Debug)]
struct Parsed {
    builder: Builder,
    /// `None`: that of the format.
    policy: Option<Policy>,
    undecided: Option<String>,
    notes: Vec<String>,
    claims: Vec<Claim>,
    /// How many values the system had not computed yet.
    uncomputed: usize,
}

impl From<Builder> for Parsed {
    fn from(builder: Builder) -> Self {
        Parsed {
            builder,
            policy: None,
            undecided: None,
            notes: Vec::new(),
            claims: Vec::new(),
            uncomputed: 0,
        }
    }
}

impl Parsed {
    fn of(self, format: Format) -> Document {
        let Parsed { builder, policy, undecided, notes, claims, uncomputed } = self;
        let policy = policy.unwrap_or(format.policy());
        Document { builder, format, policy, undecided, notes, claims, uncomputed }
    }
}

/// What goes with a tree's file and is not in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside<'a> {
    /// The list of usages, where the file has none.
    pub usage: Option<&'a Path>,
    /// PBS: the shares of the group `unknown`, which `sched_config` sets.
    pub unknown_shares: Option<u64>,
}

/// Reads a tree from a file of the given format, or of the one it looks like. The file is read once, so that a pipe will do;
/// `-` is standard input. Returns `None` for a database, which is opened as such.
pub fn load(
    path: &Path,
    format: Option<Format>,
    beside: Beside<'_>,
    inactive: InactiveUsage,
) -> Result<Option<Document>, StoreError> {
    let usage = beside.usage;
    if path.is_dir() {
        if !path.join(csv::ASSOCIATIONS).exists() {
            let text = format!(
                "a directory without {}: a tree is read from a file, or from the directory that \"flux account export-db\" \
                 wrote its tables to",
                csv::ASSOCIATIONS
            );
            return Err(StoreError::new(path, Reason::Format(text)));
        }
        refuse_format(path, format, &[Format::Csv])?;
        refuse_beside(path, Format::Csv, beside)?;
        let builder = csv::read(path, None, inactive)?;
        return Ok(Some(Parsed::from(builder).of(Format::Csv)));
    }
    if format == Some(Format::Database) {
        refuse_beside(path, Format::Database, beside)?;
        return Ok(None);
    }
    if usage == Some(path) && !path.is_file() {
        let text = "can't be both the tree and the list of usages".to_owned();
        return Err(StoreError::new(path, Reason::Format(text)));
    }
    let bytes = read_bytes(path)?;
    if looks_like_database(&bytes) {
        refuse_format(path, format, &[])?;
        refuse_beside(path, Format::Database, beside)?;
        return Ok(None);
    }
    if pbs::is_usage_file(&bytes) {
        let text = "looks like the usage file of PBS's scheduler, which has no shares: --tree resource_group --usage FILE \
                    reads both";
        return Err(StoreError::new(path, Reason::Format(text.to_owned())));
    }
    let mut notes = Vec::new();
    let text = text_of_program(path, bytes, &mut notes)?;
    let named = || (path.file_name()? == "resource_group").then_some(Format::ResourceGroup);
    let format = format.or_else(|| detect(&text)).or_else(named).ok_or_else(|| unknown(path, &text))?;
    let mut document = read(path, format, &text, beside, inactive)?;
    document.notes.splice(0..0, notes);
    Ok(Some(document))
}

/// The text that a program printed, as [`tidy::tidy`] leaves it. `notes` hears of another encoding.
fn text_of_program(path: &Path, bytes: Vec<u8>, notes: &mut Vec<String>) -> Result<String, StoreError> {
    let text = match tidy::latin_1(&bytes).filter(|_| std::str::from_utf8(&bytes).is_err()) {
        Some(text) => {
            notes.push("not UTF-8: read as Latin-1 (ISO 8859-1)".to_owned());
            text
        }
        None => text_of(path, bytes)?,
    };
    let text = tidy::tidy(&text);
    let is_json = text.trim_start().starts_with('{');
    Ok(if is_json { fields::quote_bare_numbers(&text).into_owned() } else { text.into_owned() })
}

/// A format that was named, but can't be what the file is.
fn refuse_format(path: &Path, named: Option<Format>, possible: &[Format]) -> Result<(), StoreError> {
    match named.filter(|named| !possible.contains(named)) {
        None => Ok(()),
        Some(named) => {
            let what = if path.is_dir() { "a directory" } else { "an SQLite database" };
            let text = format!("--format {named} does not apply: it is {what}");
            Err(StoreError::new(path, Reason::Format(text)))
        }
    }
}

/// Refuses what goes with other formats than `format`.
fn refuse_beside(path: &Path, format: Format, beside: Beside<'_>) -> Result<(), StoreError> {
    let text = if beside.usage.is_some() && !format.lacks_usages() {
        format!(
            "holds its usages itself ({format}), so --usage does not apply: it goes with resource_group or what sacctmgr prints"
        )
    } else if beside.unknown_shares.is_some() && format != Format::ResourceGroup {
        format!("is no resource_group file ({format}), so --unknown-shares does not apply")
    } else {
        return Ok(());
    };
    Err(StoreError::new(path, Reason::Format(text)))
}

fn unknown(path: &Path, text: &str) -> StoreError {
    if text.trim().is_empty() {
        return StoreError::new(path, Reason::Empty);
    }
    let json = text.trim_start().starts_with('{').then(|| documents::looks_like(text)).flatten();
    let told = json.map(str::to_owned).or_else(|| known::looks_like(text));
    let text = told.unwrap_or_else(|| "looks like no known format; --format says which it is".to_owned());
    StoreError::new(path, Reason::Format(text))
}

/// What a text holds, by its beginning. `None` if it looks like nothing known.
fn detect(text: &str) -> Option<Format> {
    let start = text.trim_start();
    if start.starts_with('{') {
        return documents::detect(start);
    }
    let line = start.lines().next()?;
    // What another program printed above the table hides neither of these.
    let any = |is_header: fn(&str) -> bool| start.lines().take(tidy::BEFORE).any(is_header);
    if any(slurm::is_header) {
        Some(Format::Sshare)
    } else if any(slurm::is_assoc_header) {
        Some(Format::SacctmgrAssoc)
    } else if slurm::is_dump(text) {
        Some(Format::SacctmgrDump)
    } else if csv::is_header(line) {
        Some(Format::Csv)
    } else if start.lines().take(10).any(pbs::is_table_line) {
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
    beside: Beside<'_>,
    inactive: InactiveUsage,
) -> Result<Document, StoreError> {
    let usage = beside.usage;
    refuse_beside(path, format, beside)?;
    let mut notes = Vec::new();
    let usages = usage.map_or(Ok(Vec::new()), |list| usages(list, &mut notes))?;
    let parsed = match format {
        Format::Csv => {
            return csv::read(path, Some(text), inactive).map(|builder| Parsed::from(builder).of(format));
        }
        Format::Tree => documents::tree(text).map(Parsed::from),
        Format::Emulate => emulate::emulate(text).map(Parsed::from),
        Format::ResourceGroup => {
            pbs::resource_group(text, &usages, beside.unknown_shares, &mut notes).map(Parsed::from)
        }
        Format::Pbsfs => pbs::pbsfs(text),
        Format::Sshare => slurm::sshare(text),
        Format::SshareJson => slurm::json(text),
        Format::SacctmgrDump => slurm::dump(text, &usages),
        Format::SacctmgrAssoc => slurm::assoc(text, &usages),
        Format::ExportJson => {
            Err("the output of \"flux account export-json\" has neither a tree nor shares nor usage: it can \
                 only be pushed. \"flux account export-db --fairshare-emulate\" has them"
                .to_owned())
        }
        Format::Database => Err("not an SQLite database".to_owned()),
    };
    let mut document = parsed.map_err(|text| StoreError::new(path, Reason::Format(text)))?.of(format);
    if format.lacks_usages() && format != Format::ResourceGroup && usage.is_none() {
        let text = "has shares, but no usage: everyone's counts as 0 (\"sshare -a -l -P\" has both, --usage takes a list)";
        document.notes.push(text.to_owned());
    }
    document.notes.append(&mut notes);
    Ok(document)
}

/// PBS's own usage file, or a text.
fn usages(list: &Path, notes: &mut Vec<String>) -> Result<Vec<(String, f64)>, StoreError> {
    let bytes = read_bytes(list)?;
    let usages = if pbs::is_usage_file(&bytes) {
        pbs::usage_file(&bytes, notes)
    } else {
        let text = text_of_program(list, bytes, notes)?;
        match known::no_usages(&text) {
            Some(text) => Err(text),
            None => pbs::usages(&text),
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

/// The text of a file, without the byte order mark that editors of other systems put before it.
fn text_of(path: &Path, bytes: Vec<u8>) -> Result<String, StoreError> {
    let mut text = String::from_utf8(bytes).map_err(|error| {
        let text = known::looks_like_bytes(error.as_bytes());
        StoreError::new(path, Reason::Format(text.to_owned()))
    })?;
    if text.starts_with(BYTE_ORDER_MARK) {
        text.drain(..BYTE_ORDER_MARK.len_utf8());
    }
    Ok(text)
}

/// True for a file that starts like a JSON object. It is read for that: not for pipes.
fn starts_like_json(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(64).read_to_end(&mut head));
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&head);
    read.is_ok() && head.trim_ascii_start().starts_with(b"{")
}
