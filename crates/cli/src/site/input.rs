// SPDX-License-Identifier: LGPL-3.0-only
//! The options that name the tree and how it is ranked, and the loading of the tree.

use std::path::{Path, PathBuf};
use std::time::Duration;

use strum::VariantNames;

use super::database::{DatabaseArg, Found};
use crate::fingers;
use crate::outcome::{Failure, Result, failure};
use crate::plugin::ask::InstanceArg;
use crate::plugin::live_tree::{self, PluginFairshareTree};
use crate::site::mending::{self, LIVE_DENIED, OWN_VALUES};
use crate::ui::figures::{self, Unit};
use crate::ui::messages::remark;
use crate::ui::printable::printable;
use crate::ui::progress::Progress;
use crate::ui::suggest::did_you_mean;
use fairshare::{Options, Policy, Ranking, Tree};
use fairshare_accounting::store::{Access, Database, Pace, SitePolicy, StoreError, StoredAssociation};
use fairshare_import::{self as formats, Claim, Document, Extras, Format};

/// The options that name the tree.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Input")]
pub(crate) struct Input {
    #[command(flatten)]
    database: DatabaseArg,
    /// A tree from a document instead of the database; - is standard input
    ///
    /// Accepted are the plain JSON document below, PBS's resource_group file or the output of pbsfs, the output of Slurm's
    /// "sshare -a -l -P" or "sshare -a --json", and without usages that of "sacctmgr dump" or "sacctmgr show assoc tree -P". The plain document is {"banks": [{"name", "parent": null|NAME, "shares": NUMBER|"parent",
    /// "usage"?}], "associations": [{"user", "bank", "shares", "usage", "active"?}]}.
    #[arg(short, long, value_name = "FILE", conflicts_with = "path")]
    tree: Option<PathBuf>,
    /// The format of the document, if its beginning does not show it
    ///
    /// One of database, tree, resource-group, pbsfs, sshare, sshare-json, sacctmgr-dump, sacctmgr-assoc.
    #[arg(long, alias = "format", value_name = "FORMAT", requires = "tree", conflicts_with = "path", value_parser = parse_format)]
    tree_format: Option<Format>,
    /// Usages for a resource_group file, or for output of sacctmgr
    ///
    /// A list of "name value" per line (or "user/account value"), the output of pbsfs, or PBS's own file of usages
    /// (sched_priv/usage). A name may contain colons, and ends at white space. Usages of names that are not in the tree are left
    /// out with a note for Slurm, and belong to the group "unknown" for PBS.
    #[arg(long, alias = "usage", value_name = "FILE", requires = "tree", conflicts_with = "path")]
    usage_file: Option<PathBuf>,
    /// Shares of PBS's group "unknown", as unknown_shares in sched_config
    ///
    /// Only for a resource_group file. By default PBS gives the group no shares; pbsfs prints the number in force.
    #[arg(long, value_name = "NUMBER", requires = "tree", conflicts_with = "path")]
    unknown_shares: Option<u64>,
}

/// The option for the time to wait for a locked database.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct Wait {
    /// How long to wait for a locked database
    #[arg(long, value_name = "SECONDS", default_value = "30", value_parser = parse_seconds)]
    pub(crate) wait: Duration,
}

/// The options of the ranking policy.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
pub(crate) struct Rules {
    /// Options of the policy
    ///
    /// ties=documented|slurm-program, pbs.min_usage=NUMBER, dampening=NUMBER, inactive_usage=count|ignore. May be given
    /// several times. Options that are not given are as the site set them.
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) set: Vec<String>,
}

/// The option that names the ranking policy.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(next_help_heading = "Rules")]
pub(crate) struct PolicyArg {
    /// The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs
    ///
    /// Without this option, it is the policy that the site set ("flux fairshare policy"), otherwise the policy of the system that the
    /// tree comes from: weighted-walk for flux-accounting, pbs for PBS's files, and for Slurm's output the policy that its columns
    /// and NormShares show (fair-tree, classic or depth-oblivious).
    #[arg(long, value_name = "POLICY", value_parser = fingers::parse_policy)]
    policy: Option<Policy>,
}

impl PolicyArg {
    /// Returns the policy that the option --policy names. Without this option, returns the policy of `site`.
    pub(crate) fn over(self, site: SitePolicy) -> Policy {
        self.policy.unwrap_or(site.policy)
    }

    /// Returns the policy that the option names, if it is given.
    pub(crate) fn given(self) -> Option<Policy> {
        self.policy
    }

    /// Returns the policy for a loaded tree. Fails if the option is not given and the document does not show its policy.
    pub(crate) fn choose_policy_for_tree(self, loaded: &Loaded) -> Result<Policy> {
        if let Some(policy) = self.policy { Ok(policy) } else { loaded.require_policy() }
    }
}

/// Returns the name in `name=value`.
fn setting_name(setting: &str) -> &str {
    setting.split_once('=').map_or(setting, |(name, _)| name).trim()
}

/// Parses a number of seconds.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    // The time must have a limit, because SQLite stores its milliseconds in an int. A day is enough.
    if !(0.0..=86_400.0).contains(&number) {
        return Err("expected 0 to 86400 seconds".to_owned());
    }
    Ok(Duration::from_secs_f64(number))
}

/// Parses the name of a format.
fn parse_format(text: &str) -> Result<Format, String> {
    let name = text.trim().to_lowercase().replace('_', "-");
    name.parse()
        .map_err(|error: String| format!("{error}{}", did_you_mean(&name, Format::VARIANTS.iter().copied())))
}

impl Wait {
    /// Opens the database for a command that can't read documents.
    pub(crate) fn open(self, found: &Found, access: Access) -> Result<Database> {
        Database::open(&found.path, access, self.wait)
            .map_err(|error| mending::open_failure(&error, found, access, false))
    }
}

impl Rules {
    /// Returns the options of `site`, overridden by the settings of --set.
    pub(crate) fn over(&self, site: SitePolicy) -> Result<Options> {
        let mut options = site.options;
        for setting in &self.set {
            options.set(setting).map_err(|error| {
                let (name, known) = (setting_name(setting), options.settings().map(|(name, _)| name));
                let is_unknown = setting.contains('=') && !known.contains(&name);
                let near = if is_unknown { did_you_mean(name, known) } else { String::new() };
                failure(format!("--set: {error}{near}"))
            })?;
        }
        Ok(options)
    }

    /// Fails if a setting of `--set` applies to none of the policies.
    pub(crate) fn apply_to(&self, policies: &[Policy]) -> Result<()> {
        let names = self.set.iter().map(|setting| setting_name(setting));
        let useless = |name: &&str| !policies.iter().any(|policy| Options::applies(name, *policy));
        match names.into_iter().find(useless) {
            None => Ok(()),
            Some(name) => {
                let applying = Policy::ALL.into_iter().filter(|policy| Options::applies(name, *policy));
                let applying: Vec<&str> = applying.map(Policy::name).collect();
                let ranked: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
                let (ranked, applying) = (ranked.join(" and "), applying.join(" and "));
                Err(failure(format!(
                    "--set: {name} does not apply: the policy is {ranked}, and {name} is an option of {applying}"
                )))
            }
        }
    }

    /// Returns true if the option `name` is set.
    pub(crate) fn sets(&self, name: &str) -> bool {
        self.set.iter().any(|setting| setting_name(setting) == name)
    }
}

impl Input {
    /// Returns true if an option names the tree.
    pub(crate) fn is_given(&self) -> bool {
        self.tree.is_some() || self.database.is_given()
    }

    /// Returns true if the tree comes from a document.
    pub(crate) fn is_document(&self) -> bool {
        self.tree.is_some() && self.tree_format != Some(Format::Database)
    }

    pub(crate) fn wait_option(&self) -> Wait {
        self.database.wait
    }

    /// Returns the command `flux fairshare NAME` on the database and on the instance that `--uri` names.
    pub(crate) fn command(&self, name: &str, uri: Option<&str>) -> String {
        mending::format_command(&self.database, uri, name)
    }

    /// Returns the command `flux fairshare NAME` on the same tree, with the same ranking policy and options. `uri` names the
    /// instance with the live tree.
    pub(crate) fn command_on_tree(
        &self,
        name: &str,
        policy: PolicyArg,
        rules: &Rules,
        uri: Option<&str>,
    ) -> String {
        let text = |path: &Path| path.display().to_string();
        let options = [
            ("-p", self.database.is_given().then(|| text(self.database.path()))),
            ("--tree", self.tree.as_deref().map(text)),
            ("--tree-format", self.tree_format.map(|format| format.to_string())),
            ("--usage-file", self.usage_file.as_deref().map(text)),
            ("--unknown-shares", self.unknown_shares.map(|shares| shares.to_string())),
            ("--policy", policy.policy.map(|policy| policy.name().to_owned())),
            ("--uri", uri.filter(|_| !self.is_given()).map(str::to_owned)),
        ];
        let options = options.into_iter().filter_map(|(option, value)| Some((option, value?)));
        let options = options.chain(rules.set.iter().map(|setting| ("--set", setting.clone())));
        let words: Vec<String> = options.flat_map(|(option, value)| [option.to_owned(), value]).collect();
        let words: Vec<&str> = std::iter::once(name).chain(words.iter().map(String::as_str)).collect();
        mending::join_command("fairshare", &words, &[])
    }

    /// Returns the file that the tree comes from.
    pub(crate) fn source(&self) -> &Path {
        self.tree.as_deref().unwrap_or_else(|| self.database.path())
    }

    /// Returns the database that the tree comes from, and how it was found.
    pub(crate) fn found(&self) -> Found {
        match &self.tree {
            None => self.database.found().clone(),
            Some(tree) => Found { path: tree.clone(), by: None },
        }
    }

    /// Opens the database from which the tree is read. Returns `None` if the tree is read from a document.
    pub(crate) fn database(&self) -> Option<Result<Database>> {
        (!self.is_document()).then(|| self.open())
    }

    fn open(&self) -> Result<Database> {
        let found = self.found();
        let opened = self.open_database(&found);
        opened.map_err(|error| mending::open_failure(&error, &found, Access::Read, true))
    }

    fn open_database(&self, found: &Found) -> Result<Database, StoreError> {
        Database::open(&found.path, Access::Read, self.database.wait.wait)
    }

    /// Loads the live tree of the plugin if no option names a tree and the plugin answers this user. Otherwise calls [`Input::load`].
    pub(crate) fn load_live_or_given_tree(
        &self,
        rules: &Rules,
        instance: &InstanceArg,
        progress: &mut Progress,
    ) -> Result<Loaded> {
        if self.is_given() {
            return self.load(rules, progress);
        }
        let flux = match instance.connect() {
            Ok(flux) => flux,
            Err(failure) if instance.uri.is_some() => return Err(failure),
            Err(_) => return self.load(rules, progress),
        };
        progress.phase("asking the plugin", || 0);
        let live = match live_tree::load(&flux) {
            Ok(live) => live,
            Err(_) if live_tree::is_denied(&flux) => {
                self.open_database(&self.found())
                    .map_err(|error| mending::explain_denied_tree_access(&error))?;
                return Ok(Loaded { is_denied: true, ..self.load(rules, progress)? });
            }
            Err(_) => return self.load(rules, progress),
        };
        let PluginFairshareTree { tree, in_force, policy, options, now, half_life, is_node_seconds } = live;
        let options = rules.over(SitePolicy { policy, options })?;
        Ok(Loaded {
            half_life,
            stored: in_force,
            unit: Unit::new(is_node_seconds),
            ..Loaded::new(tree, Source::Plugin { now }, policy, options)
        })
    }

    /// Reads and checks the tree from a database or a document.
    pub(crate) fn load(&self, rules: &Rules, progress: &mut Progress) -> Result<Loaded> {
        // Report an invalid setting before reading the file.
        let options = rules.over(SitePolicy::default())?;
        progress.phase("reading", || 0);
        let document = match &self.tree {
            None => None,
            Some(file) => {
                let extras =
                    Extras { usage: self.usage_file.as_deref(), unknown_shares: self.unknown_shares };
                formats::load(file, self.tree_format, extras)?
            }
        };
        match document {
            Some(document) => self.build_from_document(document, options, progress),
            None => self.load_database(rules, progress),
        }
    }

    fn build_from_document(
        &self,
        document: Document,
        options: Options,
        progress: &mut Progress,
    ) -> Result<Loaded> {
        let source = self.source();
        for note in &document.notes {
            remark(format_args!("{}: {note}", source.display()));
        }
        progress.phase("building the tree", || 0);
        let tree = document.builder.build().map_err(|error| file_failure(source, error))?;
        Ok(Loaded {
            undecided: document.undecided.map(|text| format!("{}: {text}", source.display())),
            notes: document.notes,
            claims: document.claims,
            uncomputed: document.uncomputed,
            ..Loaded::new(tree, Source::Document, document.policy, options)
        })
    }

    fn load_database(&self, rules: &Rules, progress: &mut Progress) -> Result<Loaded> {
        let mut database = self.open()?;
        let snapshot = database.snapshot()?;
        let site = snapshot.site_policy()?;
        let options = rules.over(site)?;
        progress.phase("reading", || snapshot.estimate_association_count());
        let read = snapshot.tree(options.inactive_usage, &mut |done| progress.set_finished_steps(done))?;
        let pace = snapshot.pace()?;
        let counted = snapshot.find_last_count_time(figures::now())?;
        progress.phase("building the tree", || 0);
        let tree =
            read.builder.build().map_err(|error| mending::describe_tree_failure(self.source(), &error))?;
        Ok(Loaded {
            stored: read.associations,
            unit: Unit::new(pace.is_node_seconds()),
            pace: Some(pace),
            left_out: read.left_out,
            ..Loaded::new(tree, Source::Database { counted }, site.policy, options)
        })
    }
}

/// The kind of file or program that a tree comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Source {
    Document,
    /// The plugin. Its usages are valid at the time `now`, in seconds since the epoch.
    Plugin {
        now: f64,
    },
    /// A database. `counted` is the time at which its usages were counted. If flux-accounting counted them,
    /// `counted` is `None`, because flux-accounting does not store the time.
    Database {
        counted: Option<f64>,
    },
}

/// A tree, and the data that came with it.
pub(crate) struct Loaded {
    pub tree: Tree,
    pub source: Source,
    /// The half-life of usage in seconds, if the tree is the plugin's.
    pub half_life: Option<f64>,
    /// The fair-share of each association that the database stores, by list index. Empty for a document.
    pub stored: Vec<StoredAssociation>,
    /// The policy that the site has set, or the policy of the system that wrote the document.
    pub policy: Policy,
    /// The options of the site. Options of the command line take precedence.
    pub options: Options,
    /// The results that the document contains, such as fair-shares that Slurm computed.
    pub claims: Vec<Claim>,
    /// The error that asks the user for the policy. `None` if the document shows its policy.
    undecided: Option<String>,
    /// Notes on parts of the document that are not in the tree.
    notes: Vec<String>,
    /// The number of fair-shares that the scheduler had not computed yet when the document was exported.
    pub uncomputed: usize,
    /// The unit of the usages.
    pub unit: Unit,
    /// The decay of usage, if the tree comes from a database.
    pub pace: Option<Pace>,
    /// Inactive banks that the options leave out of the tree.
    pub left_out: Vec<String>,
    /// Whether the plugin has a live tree that the caller may not read.
    is_denied: bool,
}

impl Loaded {
    fn new(tree: Tree, source: Source, policy: Policy, options: Options) -> Loaded {
        Loaded {
            tree,
            source,
            half_life: None,
            stored: Vec::new(),
            policy,
            options,
            claims: Vec::new(),
            undecided: None,
            notes: Vec::new(),
            uncomputed: 0,
            unit: Unit::Unknown,
            pace: None,
            left_out: Vec::new(),
            is_denied: false,
        }
    }

    /// Returns the sentence above a table that names the source of its numbers; `None` for a document. `path`
    /// is the path of the database.
    pub(crate) fn head(&self, path: &Path) -> Option<String> {
        match self.source {
            Source::Document => None,
            Source::Plugin { .. } => Some("Live usage from the plugin, with running jobs.".to_owned()),
            Source::Database { counted } => {
                let path = path.display().to_string();
                let path = printable(&path);
                let live = format!(" These values are stored: {LIVE_DENIED}; {OWN_VALUES}.");
                let live = if self.is_denied { live.as_str() } else { "" };
                Some(match counted {
                    Some(at) => {
                        let zone = jiff::tz::TimeZone::system();
                        let zoned =
                            figures::moment(at, figures::now(), &zone) + &figures::zone_name(at, &zone);
                        format!("As of the last count {zoned}, from {path}.{live}")
                    }
                    None => format!("From {path}; flux-accounting counted the usage.{live}"),
                })
            }
        }
    }

    /// Returns the name of the source for error messages: `path`, or "the plugin".
    pub(crate) fn place<'a>(&self, path: &'a Path) -> &'a Path {
        if self.is_live() { Path::new("the plugin") } else { path }
    }

    /// Returns true if the tree is that of the plugin.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.source, Source::Plugin { .. })
    }

    /// Returns the policy of the tree. Fails if the document does not show it.
    pub(crate) fn require_policy(&self) -> Result<Policy> {
        if let Some(text) = &self.undecided { Err(failure(text.clone())) } else { Ok(self.policy) }
    }

    /// Returns true if the document does not state its ranking policy.
    pub(crate) fn lacks_policy(&self) -> bool {
        self.undecided.is_some()
    }

    /// Returns the notes on parts of the input that are not in the tree.
    pub(crate) fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Returns the message for a bank that is not in the tree.
    pub(crate) fn describe_missing_bank(&self, name: &str) -> String {
        if self.left_out.iter().any(|bank| bank == name) {
            format!("bank \"{name}\" is inactive, and inactive_usage=ignore leaves it out")
        } else {
            crate::site::names::describe_unknown_bank(&self.tree, name)
        }
    }
}

/// Returns a failure with the path `source` and the error.
pub(crate) fn file_failure(source: &Path, error: impl std::fmt::Display) -> Failure {
    failure(format!("{}: {error}", source.display()))
}

/// Ranks the tree. An error names the file.
pub(crate) fn rank(source: &Path, tree: &Tree, policy: Policy, options: &Options) -> Result<Ranking> {
    tree.rank(policy, options).map_err(|error| file_failure(source, error))
}
