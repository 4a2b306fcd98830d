// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare config check`: checks whether Flux and the plugin would accept a configuration.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::outcome::{Answer, Failure, Outcome, Result, failure};
use crate::site::document::{self, FaultKind};
use crate::ui::messages::{remark, say_wrapped, strip_error_number};
use crate::ui::output::print_json_line;
use crate::ui::printable::printable;
use crate::ui::suggest::did_you_mean;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// Say whether Flux and the plugin would accept the files
    Check,
}

/// Check Flux's configuration files before Flux reads them
///
/// A file that Flux can't parse, or a value in [fairshare] that the plugin refuses, keeps Flux from starting.
/// This command reads files as Flux does: in a directory all *.toml files, merged in the order of their
/// names; a file that ends in .json as JSON; several files as one configuration. It checks the table
/// [fairshare] and the options that [job-manager] passes to the plugin at load. Queues in [fairshare.queues]
/// must be in [queues], so check the whole directory of the configuration.
///
/// Exit status 1 means that Flux or the plugin would refuse the files.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The action
    #[arg(value_enum)]
    action: Action,
    /// Configuration files, or directories of them
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print a JSON document
    #[arg(long)]
    json: bool,
}

/// The document of `--json`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct ConfigDocument<'a> {
    accepted: bool,
    faults: &'a [Fault],
}

/// Why a configuration would be refused.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Fault {
    #[serde(serialize_with = "serialize_path")]
    #[cfg_attr(test, schemars(with = "String"))]
    pub(super) file: PathBuf,
    /// The key, as far as it is known; empty for a file that can't be parsed.
    pub(super) key: String,
    /// The value in the file.
    pub(super) value: Value,
    /// The fault, with the key, the value and the allowed values.
    pub(super) text: String,
    pub(super) remedy: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file.to_string_lossy();
        write!(f, "{}: {}; {}", printable(&file), printable(&self.text), printable(&self.remedy))
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let Action::Check = args.action;
    let (_, faults) = check(&args.files)?;
    if args.json {
        let document = ConfigDocument { accepted: faults.is_empty(), faults: &faults };
        print_json_line(&document)?;
    } else {
        let mut accepted = args.files.iter().filter(|_| faults.is_empty()).map(|file| file.to_string_lossy());
        accepted.try_for_each(|file| say_wrapped(format_args!("{}: accepted", printable(&file))))?;
        faults.iter().try_for_each(say_wrapped)?;
    }
    Ok(if faults.is_empty() { Answer::Yes } else { Answer::No })
}

/// Writes a path that is not UTF-8 with replacement characters, where serde would fail.
fn serialize_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.to_string_lossy())
}

/// Returns the table `[fairshare]` of the configuration in a file or directory. Fails if Flux or the plugin would refuse the
/// configuration.
pub(super) fn read_table(file: &PathBuf) -> Result<Map<String, Value>> {
    let (configuration, faults) = check(std::slice::from_ref(file))?;
    match (faults.first(), configuration.get("fairshare")) {
        (Some(fault), _) => Err(failure(fault)),
        (None, Some(Value::Object(table))) => Ok(table.clone()),
        (None, _) => Ok(Map::new()),
    }
}

/// Reads files and directories as one configuration. Returns the configuration and its faults. Fails if a file can't be read.
pub(super) fn check(files: &[PathBuf]) -> Result<(Value, Vec<Fault>)> {
    let mut faults = Vec::new();
    let mut read: Vec<(PathBuf, Map<String, Value>)> = Vec::new();
    for file in files {
        for file in list_files(file)? {
            match parse(&file, &fs::read(&file).map_err(|error| describe_read_failure(&file, &error))?) {
                Ok(table) => {
                    for text in document::warn_of_retired_keys(&Value::Object(table.clone()).to_string()) {
                        remark(format_args!("{}: {text}", file.display()));
                    }
                    read.push((file, table));
                }
                Err(text) => faults.push(Fault {
                    file,
                    key: String::new(),
                    value: Value::Null,
                    text,
                    remedy: "correct the file: Flux does not start with it".to_owned(),
                }),
            }
        }
    }
    let mut merged = Map::new();
    read.iter().for_each(|(_, table)| merge(&mut merged, table));
    let configuration = Value::Object(merged);
    for fault in document::check_configuration(&configuration.to_string()).map_err(failure)? {
        let [table, key] = &fault.key;
        let has = |(_, of_file): &&(PathBuf, Map<String, Value>)| {
            of_file.get(table).is_some_and(|value| key.is_empty() || value.get(key).is_some())
        };
        let file = read.iter().rev().find(has).or(read.last()).map(|(file, _)| file.clone());
        let is_whole = key.is_empty();
        let value = configuration.get(table).and_then(|of| if is_whole { Some(of) } else { of.get(key) });
        faults.push(Fault {
            file: file.unwrap_or_default(),
            key: if is_whole { table.clone() } else { format!("{table}.{key}") },
            value: value.cloned().unwrap_or_default(),
            remedy: find_remedy(&fault.kind, configuration.get("queues").is_some()),
            text: fault.text,
        });
    }
    Ok((configuration, faults))
}

/// Returns the remedy for a fault that the plugin would report.
fn find_remedy(kind: &FaultKind, has_queues: bool) -> String {
    let remedy = match kind {
        FaultKind::UnknownKey { typed, known } => {
            return format!(
                "correct the key or remove it{}",
                did_you_mean(typed, known.iter().map(String::as_str))
            );
        }
        FaultKind::UnknownQueue if has_queues => "correct the name, or add the queue to [queues]",
        FaultKind::UnknownQueue => "these files have no [queues]: check the whole configuration directory",
        FaultKind::Value => "correct the value, or remove the key for its default (flux-fairshare-plugin(7))",
    };
    remedy.to_owned()
}

/// Returns the files that Flux reads for `path`: the file itself, or all *.toml in a directory in the order of their names.
fn list_files(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.metadata().map_err(|error| describe_read_failure(path, &error))?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = fs::read_dir(path).map_err(|error| describe_read_failure(path, &error))?;
    let mut files = Vec::new();
    for entry in entries {
        let file = entry.map_err(|error| describe_read_failure(path, &error))?.file_name();
        // The pattern *.toml does not match a leading dot.
        let name = file.to_string_lossy();
        if name.ends_with(".toml") && !name.starts_with('.') {
            files.push(path.join(file));
        }
    }
    files.sort();
    if files.is_empty() {
        remark(format_args!("{}: contains no *.toml file", path.display()));
    }
    Ok(files)
}

fn describe_read_failure(path: &Path, error: &std::io::Error) -> Failure {
    failure(format!(
        "{}: can't be read: {}; name a file or directory that this account may read",
        path.display(),
        strip_error_number(&error.to_string())
    ))
}

/// Parses a file as Flux does: .json as JSON, any other as TOML. The error is a sentence for the user.
fn parse(file: &Path, bytes: &[u8]) -> Result<Map<String, Value>, String> {
    if file.extension().is_some_and(|extension| extension == "json") {
        return serde_json::from_slice(bytes).map_err(|error| format!("not a JSON object: {error}"));
    }
    // Flux accepts bytes that are not UTF-8 in comments, but not in values.
    let text = &*String::from_utf8_lossy(bytes);
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let line = error.span().map(|span| text.get(..span.start).unwrap_or(text).matches('\n').count() + 1);
        let line = line.map_or(String::new(), |line| format!("line {line}: "));
        format!("{line}not TOML: {}", error.message())
    })?;
    if text.as_bytes() != bytes && format!("{table:?}").contains('\u{fffd}') {
        return Err("contains a text that is not UTF-8, which Flux can't read".to_owned());
    }
    table.into_iter().map(|(key, value)| Ok((key, convert_toml(value)?))).collect()
}

/// Converts a TOML value to JSON as Flux does.
fn convert_toml(value: toml::Value) -> Result<Value, String> {
    Ok(match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Float(number) if number.is_finite() => number.into(),
        toml::Value::Float(number) => {
            return Err(format!("contains the number {number}, which Flux can't read"));
        }
        toml::Value::Boolean(is_set) => is_set.into(),
        toml::Value::Datetime(time) => time.to_string().into(),
        toml::Value::Array(values) => {
            values.into_iter().map(convert_toml).collect::<Result<Vec<_>, _>>()?.into()
        }
        toml::Value::Table(table) => {
            let pairs = table.into_iter().map(|(key, value)| Ok((key, convert_toml(value)?)));
            Value::Object(pairs.collect::<Result<_, String>>()?)
        }
    })
}

/// Merges `from` into `to` as Flux does: tables key by key; any other value is replaced.
fn merge(to: &mut Map<String, Value>, from: &Map<String, Value>) {
    for (key, value) in from {
        match (to.get_mut(key), value) {
            (Some(Value::Object(to)), Value::Object(from)) => merge(to, from),
            _ => {
                to.insert(key.clone(), value.clone());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tables_are_merged_and_arrays_are_replaced() {
        let table = |text: &str| parse(Path::new("x.toml"), text.as_bytes()).expect("it is TOML");
        let mut merged = table("a = 1\n[fairshare]\nrefresh = 3\nlimits = [{ scope = \"bank\" }]\n");
        merge(&mut merged, &table("[fairshare]\nage-max = 5\nlimits = []\n[b]\n"));
        assert_eq!(
            Value::Object(merged),
            json!({"a": 1, "b": {}, "fairshare": {"refresh": 3, "age-max": 5, "limits": []}})
        );
    }

    #[test]
    fn a_syntax_error_names_its_line() {
        let fault = parse(Path::new("x.toml"), b"a = 1\nb = = 2\n").expect_err("it is no TOML");
        assert!(fault.starts_with("line 2: not TOML: "), "{fault}");
        let fault = parse(Path::new("x.toml"), b"a = nan\n").expect_err("Flux does not read it");
        assert_eq!(fault, "contains the number NaN, which Flux can't read");
        let fault = parse(Path::new("x.json"), b"[]").expect_err("it is no object");
        assert!(fault.starts_with("not a JSON object: "), "{fault}");
    }
}
