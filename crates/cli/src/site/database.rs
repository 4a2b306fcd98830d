// SPDX-License-Identifier: LGPL-3.0-only
//! Finds the accounting database if no option names it.
//!
//! 1. The environment variable FLUX_FAIRSHARE_DATABASE.
//! 2. The path that flux-accounting was built for. The path is read from the file of flux-accounting's Python
//!    module, without starting Python.
//! 3. The path that flux-accounting has on most systems.

use std::cell::OnceCell;
use std::fs;
use std::path::{Path, PathBuf};

use super::input::Wait;
use crate::outcome::Result;
use fairshare_accounting::store::{self, Access, Database};

/// The environment variable that names the database.
pub(crate) const VARIABLE: &str = "FLUX_FAIRSHARE_DATABASE";

/// The usual directories of flux-accounting's commands, in addition to FLUX_EXEC_PATH.
const COMMANDS: [&str; 2] = ["/usr/libexec/flux/cmd", "/usr/local/libexec/flux/cmd"];

/// A database, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// The source of the path, for messages; `None` if an option names the database.
    pub(crate) by: Option<&'static str>,
}

/// The options that name the database and say how long to wait for it.
#[derive(Debug, clap::Args)]
pub(crate) struct DatabaseArg {
    /// The accounting database [default: flux-accounting's own]
    ///
    /// Without this option, it is the database that the environment variable FLUX_FAIRSHARE_DATABASE names, otherwise the database
    /// that flux-accounting on this machine was built for, otherwise /var/lib/flux/FluxAccounting.db.
    #[arg(short, long, value_name = "FILE")]
    path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) wait: Wait,
    #[arg(skip)]
    found: OnceCell<Found>,
}

impl DatabaseArg {
    /// Returns the database. The first call searches for it.
    pub(crate) fn found(&self) -> &Found {
        self.found.get_or_init(|| match &self.path {
            Some(path) => Found { path: path.clone(), by: None },
            None => find(),
        })
    }

    /// Returns true if an option names the database.
    pub(crate) fn is_given(&self) -> bool {
        self.path.is_some()
    }

    /// Opens the database.
    pub(crate) fn open(&self, access: Access) -> Result<Database> {
        self.wait.open(self.found(), access)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.found().path
    }
}

/// Finds the database that is used if no option names one.
fn find() -> Found {
    if let Some(path) = std::env::var_os(VARIABLE).filter(|path| !path.is_empty()) {
        return Found { path: path.into(), by: Some(VARIABLE) };
    }
    if let Some(path) = read_module_path(&command_directories()) {
        return Found { path, by: Some("flux-accounting's own default") };
    }
    Found {
        path: PathBuf::from(store::DEFAULT_PATH),
        by: Some("the default path, because flux-accounting was not found"),
    }
}

/// Returns the directories of Flux's commands: FLUX_EXEC_PATH, this program's directory, and the usual directories.
pub(crate) fn command_directories() -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> =
        std::env::var_os("FLUX_EXEC_PATH").iter().flat_map(std::env::split_paths).collect();
    let program = std::env::current_exe().ok();
    directories.extend(program.as_deref().and_then(Path::parent).map(Path::to_owned));
    directories.extend(COMMANDS.map(PathBuf::from));
    directories
}

/// Returns true if flux-accounting's command is in `directory`.
fn has_accounting(directory: &Path) -> bool {
    directory.join("flux-account.py").exists()
}

/// Reads the path of the database from the file of flux-accounting's Python module, without running it. Returns `None` if the module is not
/// found.
fn read_module_path(commands: &[PathBuf]) -> Option<PathBuf> {
    // flux-accounting's Python module and commands have the same prefix, for example /usr/local/lib/python3.11/site-packages and
    // /usr/local/libexec/flux/cmd.
    let prefixes = commands.iter().filter(|directory| has_accounting(directory));
    let libraries = prefixes.flat_map(|directory| {
        directory
            .ancestors()
            .skip(2)
            .take(3)
            .flat_map(|prefix| [prefix.join("lib"), prefix.join("lib64"), prefix.to_owned()])
    });
    libraries.filter_map(|library| find_in_library(&library)).next()
}

/// Reads the path of the database from the Python packages below `library`. Returns `None` if flux-accounting is not among them.
fn find_in_library(library: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(library).ok()?.flatten();
    let pythons = entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(b"python3"));
    pythons
        .flat_map(|python| ["site-packages", "dist-packages"].map(|folder| python.path().join(folder)))
        .find_map(|folder| {
            parse_db_path(&fs::read_to_string(folder.join("fluxacct/accounting/__init__.py")).ok()?)
        })
}

/// Returns the value of the line `DB_PATH = "..."` if it is an absolute path.
fn parse_db_path(module: &str) -> Option<PathBuf> {
    let line =
        module.lines().find_map(|line| line.strip_prefix("DB_PATH")?.trim_start().strip_prefix('='))?;
    let line = line.trim();
    let quote = line.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
    let path = line.get(1..)?.split(quote).next()?;
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::parse_db_path;

    #[test]
    fn the_database_path_is_read_from_the_module() {
        let parsed = |text| parse_db_path(text).and_then(|path| path.to_str().map(str::to_owned));
        let module = "DB_SCHEMA_VERSION = 38\nDB_PATH = \"/opt/x/lib/flux/FluxAccounting.db\"\n";
        assert_eq!(parsed(module).as_deref(), Some("/opt/x/lib/flux/FluxAccounting.db"));
        assert_eq!(parsed("DB_PATH='/a b.db' # here").as_deref(), Some("/a b.db"));
        assert_eq!(parsed("DB_PATH = os.path.join(x)"), None);
        assert_eq!(parsed("DB_PATH = \"relative.db\""), None);
        assert_eq!(parsed(""), None);
    }
}
