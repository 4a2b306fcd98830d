// SPDX-License-Identifier: LGPL-3.0-only
//! Arguments that say which tree is meant and how it is ranked.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::progress::Progress;
use super::{Failure, failure, remark};
use crate::fairshare::{Options, Policy, Ranking, Tree};
use crate::store::formats::{self, Format};
use crate::store::{self, Access, Database, StoredAssociation};

/// Which tree.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Input")]
pub(super) struct Input {
    /// The accounting database
    #[arg(short, long, value_name = "FILE", default_value = store::DEFAULT_PATH, conflicts_with = "tree")]
    path: PathBuf,
    /// A tree from a document instead of the database; - is standard input
    ///
    /// Known are our plain JSON document, the output of "flux account export-db" (CSV tables, or JSON with
    /// --fairshare-emulate), PBS's resource_group file or the output of pbsfs, and the output of Slurm's
    /// "sshare -a -l -P". The plain document is {"banks": [{"name", "parent": null|NAME, "shares": NUMBER|"parent",
    /// "usage"?}], "associations": [{"user", "bank", "shares", "usage", "active"?}]}.
    #[arg(short, long, value_name = "FILE")]
    tree: Option<PathBuf>,
    /// What the document is, where it can't be told from its beginning
    ///
    /// One of database, tree, export-db, csv, resource-group, pbsfs, sshare.
    #[arg(long, value_name = "FORMAT", requires = "tree")]
    format: Option<Format>,
    /// Usages that go with a resource_group file: "name value" per line, or the output of pbsfs
    #[arg(long, value_name = "FILE", requires = "tree")]
    usage: Option<PathBuf>,
    #[command(flatten)]
    pub(super) wait: Wait,
}

/// How long to wait for others.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct Wait {
    /// How long to wait for a locked database
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = seconds)]
    pub(super) wait: Duration,
}

/// How it is ranked.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
pub(super) struct Rules {
    /// Options of the policy
    ///
    /// ties=documented|slurm-program, pbs.min_usage=NUMBER, dampening=NUMBER, inactive_usage=count|ignore. May be given
    /// several times.
    #[arg(long, value_name = "NAME=VALUE")]
    set: Vec<String>,
}

/// One policy.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
pub(super) struct PolicyArg {
    /// The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs
    ///
    /// Unless given, it is that of the system the tree comes from: weighted-walk for flux-accounting, fair-tree for sshare's
    /// output, pbs for PBS's files.
    #[arg(long, value_name = "POLICY")]
    policy: Option<Policy>,
}

impl PolicyArg {
    /// The policy for a tree from the accounting database.
    pub(super) fn of_database(self) -> Policy {
        self.policy.unwrap_or_default()
    }

    /// The policy for a tree from wherever it comes.
    pub(super) fn of(self, loaded: &Loaded) -> Policy {
        self.policy.unwrap_or(loaded.policy)
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    // A day; SQLite counts milliseconds in an int.
    if !(0.0..=86_400.0).contains(&number) {
        return Err("expected 0 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

impl Wait {
    pub(super) fn open(self, path: &Path, access: Access) -> Result<Database, Failure> {
        Database::open(path, access, self.wait).map_err(failure)
    }
}

impl Rules {
    pub(super) fn options(&self) -> Result<Options, Failure> {
        let mut options = Options::default();
        for setting in &self.set {
            options.set(setting).map_err(|error| Failure::Message(format!("--set: {error}")))?;
        }
        Ok(options)
    }
}

impl Input {
    /// The file the tree comes from.
    pub(super) fn source(&self) -> &Path {
        self.tree.as_deref().unwrap_or(&self.path)
    }

    /// The database, if the tree comes from one.
    pub(super) fn database(&self) -> Option<&Path> {
        (self.tree.is_none() || self.format == Some(Format::Database)).then(|| self.source())
    }

    /// Reads and checks the tree.
    pub(super) fn load(&self, options: &Options, progress: &mut Progress) -> Result<Loaded, Failure> {
        let source = self.source();
        progress.phase("reading", || 0);
        let document = match &self.tree {
            None => None,
            Some(file) => formats::load(file, self.format, self.usage.as_deref(), options.inactive_usage)
                .map_err(failure)?,
        };
        let (builder, stored, policy) = match document {
            Some(document) => {
                for note in &document.notes {
                    remark(format_args!("{}: {note}", source.display()));
                }
                (document.builder, Vec::new(), document.format.policy())
            }
            None => {
                let mut database = self.wait.open(source, Access::Read)?;
                let snapshot = database.snapshot().map_err(failure)?;
                progress.phase("reading", || snapshot.association_estimate());
                let stored =
                    snapshot.tree(options.inactive_usage, &mut |done| progress.at(done)).map_err(failure)?;
                (stored.builder, stored.associations, Policy::default())
            }
        };
        progress.phase("building the tree", || 0);
        let tree = builder.build().map_err(|error| about(source, error))?;
        Ok(Loaded { tree, stored, policy })
    }
}

/// A tree, and what came with it.
pub(super) struct Loaded {
    pub tree: Tree,
    /// What a database stores of each association, by its list index; empty for a document.
    pub stored: Vec<StoredAssociation>,
    /// The rule of the system it comes from.
    pub policy: Policy,
}

/// An error about what a file says.
pub(super) fn about(source: &Path, error: impl std::fmt::Display) -> Failure {
    Failure::Message(format!("{}: {error}", source.display()))
}

/// Ranks, and says which file can't be.
pub(super) fn rank(
    source: &Path,
    tree: &Tree,
    policy: Policy,
    options: &Options,
) -> Result<Ranking, Failure> {
    tree.rank(policy, options).map_err(|error| about(source, error))
}
