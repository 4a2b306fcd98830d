// SPDX-License-Identifier: LGPL-3.0-only
//! The records of the database and of the plugin in one form, so that they can be compared field by field.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::ui::figures::rfc3339;
use crate::ui::words::format_user_or_id;
use fairshare_accounting::store::PolicyData;
use fairshare_engine::accounts::{ChangeCounts, Difference as PushDifference};
use fairshare_engine::engine::answers::{AssociationSnapshot, DefaultBankChange, Snapshot};
use fairshare_engine::ids::{BankName, UserId};
use fairshare_engine::standing::TreePage;
use fairshare_protocol::records::{AssociationRecord, QueueRecord, UNLIMITED, from_shares};

/// The kinds of records, in the order of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "lowercase", const_into_str)]
pub(super) enum RecordKind {
    Association,
    Bank,
    Queue,
    Project,
    Factor,
    Limit,
    Budget,
    Credit,
    /// A setting of the plugin, such as the ranking policy.
    Setting,
}

impl RecordKind {
    /// Returns the number of records of this kind that a push would change.
    pub(super) fn count_changes(self, push: &PushDifference) -> usize {
        let total = |counts: ChangeCounts| counts.added + counts.changed + counts.removed;
        let is_it = |name: &str| name.strip_suffix('s') == Some(self.into_str());
        match self {
            RecordKind::Association => push.added + push.changed + push.removed,
            RecordKind::Setting => push.others.config.changed,
            // A push changes no credits.
            _ => push.others.kinds().into_iter().find(|(name, _)| is_it(name)).map_or(0, |it| total(it.1)),
        }
    }
}

/// Identifies a record in the database and in the plugin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RecordId {
    pub(super) kind: RecordKind,
    pub(super) name: String,
}

/// The name of the field that is true if the bank is the user's default bank. The plugin does not report changes of this field.
pub(super) const DEFAULT_BANK: &str = "is_default_bank";

/// The fields of a tree that are compared as records of the kind [`RecordKind::Setting`]. The options of the tree are such records too.
const TREE_SETTINGS: [&str; 5] = ["policy", "half_life", "node_weight", "core_weight", "gpu_weight"];

/// The fields of a record by name.
pub(super) type Record = Map<String, Value>;

/// Records by kind and name.
#[derive(Default)]
struct Records(BTreeMap<RecordId, Record>);

impl Records {
    fn add(&mut self, kind: RecordKind, name: impl Into<String>, fields: Record) {
        self.0.insert(RecordId { kind, name: name.into() }, fields);
    }

    fn add_budget(&mut self, scope: &str, name: &str, unit: &str, window: [i64; 2], deposited: i64) {
        let [from, until] = window.map(|time| rfc3339(time as f64).unwrap_or_else(|| time.to_string()));
        let fields = Map::from_iter([
            ("until".to_owned(), until.into()),
            ("deposited_ms".to_owned(), deposited.into()),
        ]);
        self.add(RecordKind::Budget, format!("{scope} {name} {unit} from {from}"), fields);
    }

    /// Adds the settings of a tree. The tree is from the database or from the plugin.
    fn add_tree(&mut self, tree: &impl Serialize) {
        let mut fields = serialize_fields(tree, &[]);
        let options = fields.remove("options").and_then(|options| options.as_object().cloned());
        fields.retain(|name, _| TREE_SETTINGS.contains(&name.as_str()));
        let settings = fields.into_iter().chain(options.unwrap_or_default());
        settings.for_each(|(name, value)| self.add_setting(name, value));
    }

    fn add_setting(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.add(RecordKind::Setting, name, Map::from_iter([("value".to_owned(), value.into())]));
    }
}

/// Serializes a record, without the fields in `left_out`.
fn serialize_fields(record: &impl Serialize, left_out: &[&str]) -> Record {
    let Ok(Value::Object(mut fields)) = serde_json::to_value(record) else { return Map::new() };
    fields.retain(|name, _| !left_out.contains(&name.as_str()));
    fields
}

/// Returns the name of an association. The name is made from the user id, because the database and the plugin may store different user
/// names.
fn association_name(userid: i64, bank: &str) -> String {
    let user = u32::try_from(userid).map_or_else(|_| userid.to_string(), format_user_or_id);
    format!("{user}/{bank}")
}

/// Removes the blanks from a list of names, because the plugin stores the list without them.
fn remove_spaces(text: &str) -> String {
    text.split(',').map(str::trim).filter(|name| !name.is_empty()).collect::<Vec<_>>().join(",")
}

/// Returns the fields of an association, except the fields that the plugin computes: fair-share and usage.
fn association_fields(record: AssociationRecord, is_default: Option<bool>, shares: Option<i64>) -> Record {
    let record = AssociationRecord {
        queues: remove_spaces(&record.queues),
        projects: remove_spaces(&record.projects),
        active: i64::from(record.active != 0),
        username: None,
        shares: None,
        usage: None,
        counted_until: None,
        ..record
    };
    let mut fields = serialize_fields(&record, &["userid", "bank", "def_bank", "fairshare"]);
    fields.extend(is_default.map(|is_default| (DEFAULT_BANK.to_owned(), is_default.into())));
    fields.extend(shares.map(|shares| ("shares".to_owned(), shares.into())));
    fields
}

fn bank_fields(priority: f64, branch: Option<(&str, i64, bool)>) -> Record {
    let mut fields = Map::from_iter([("priority".to_owned(), json!(priority))]);
    if let Some((parent, shares, is_active)) = branch {
        fields.insert("parent".to_owned(), parent.into());
        fields.insert("shares".to_owned(), shares.into());
        fields.insert("active".to_owned(), i64::from(is_active).into());
    }
    fields
}

fn limit_name(scope: &str, name: &str, queue: &str, measure: &str) -> String {
    let queue = if queue.is_empty() { String::new() } else { format!(" in queue {queue}") };
    format!("{scope} {name}{queue} {measure}")
}

/// Returns the records that a push of `data` would send.
pub(super) fn collect_database_records(data: &PolicyData) -> BTreeMap<RecordId, Record> {
    let mut records = Records::default();
    for record in &data.associations {
        let name = association_name(record.userid, &record.bank);
        let is_default = record.bank == record.def_bank;
        records.add(
            RecordKind::Association,
            name,
            association_fields(record.clone(), Some(is_default), record.shares),
        );
    }
    for record in &data.banks {
        let branch = || Some((record.parent.as_deref()?, record.shares?, record.active? != 0));
        records.add(RecordKind::Bank, &record.bank, bank_fields(record.priority, branch()));
    }
    for record in &data.queues {
        records.add(RecordKind::Queue, &record.queue, serialize_fields(record, &["queue"]));
    }
    for record in &data.projects {
        records.add(RecordKind::Project, &record.project, Map::new());
    }
    for record in &data.priority_factors {
        records.add(RecordKind::Factor, &record.factor, serialize_fields(record, &["factor"]));
    }
    for record in &data.limits {
        for (measure, limit) in &record.caps {
            let name = limit_name(&record.scope, &record.name, &record.queue, measure);
            let counts = record.counts.as_deref().unwrap_or("asked");
            let fields =
                Map::from_iter([("limit".to_owned(), (*limit).into()), ("counts".to_owned(), counts.into())]);
            records.add(RecordKind::Limit, name, fields);
        }
    }
    for budget in &data.budgets {
        let window = [budget.start, budget.end];
        records.add_budget(&budget.scope, &budget.name, budget.unit.name(), window, budget.deposited);
    }
    records.add_setting("deny_unknown_queues", data.config.deny_unknown_queues);
    if let Some(zero_score) = &data.config.zero_score {
        records.add_setting("zero_score", zero_score.as_str());
    }
    if let Some(tree) = &data.tree {
        records.add_tree(tree);
    }
    records.0
}

/// Returns the records of the plugin. `pages` is the plugin's tree. `default_banks` are the default banks that a push would change.
/// `configured` are the limits of Flux's configuration, which no push changes.
pub(super) fn collect_plugin_records(
    state: &Snapshot,
    pages: &[TreePage],
    default_banks: &[DefaultBankChange],
    configured: &[Map<String, Value>],
) -> BTreeMap<RecordId, Record> {
    let mut records = Records::default();
    let leaves = pages.iter().flat_map(|page| &page.leaves);
    let shares: BTreeMap<(UserId, &str), i64> = leaves
        .filter_map(|leaf| Some(((leaf.user?, leaf.bank.as_str()), from_shares(leaf.shares))))
        .collect();
    let defaults: BTreeMap<UserId, &BankName> =
        default_banks.iter().map(|change| (change.user, &change.banks[0])).collect();
    for user in &state.users {
        for snapshot in &user.banks {
            let key = (user.userid, snapshot.bank_name.as_str());
            // If a push leaves a user's default bank unchanged, the default bank is not compared.
            let is_default = defaults.get(&user.userid).map(|default| **default == snapshot.bank_name);
            let shares = shares.get(&key).copied();
            let name = association_name(user.userid.0.into(), snapshot.bank_name.as_str());
            let record = association_record(user.userid, snapshot);
            records.add(RecordKind::Association, name, association_fields(record, is_default, shares));
        }
    }
    let branches = pages.iter().flat_map(|page| &page.banks);
    let branches: BTreeMap<&str, (&str, i64, bool)> = branches
        .map(|bank| {
            let parent = bank.parent.as_deref().unwrap_or_default();
            (bank.name.as_str(), (parent, from_shares(bank.shares), bank.active))
        })
        .collect();
    for (name, priority) in &state.banks {
        records.add(
            RecordKind::Bank,
            name.as_str(),
            bank_fields(*priority, branches.get(name.as_str()).copied()),
        );
    }
    for (name, queue) in &state.queues {
        records.add(
            RecordKind::Queue,
            name.as_str(),
            serialize_fields(&QueueRecord::from(queue), &["queue"]),
        );
    }
    for project in &state.projects {
        records.add(RecordKind::Project, project.as_str(), Map::new());
    }
    for (factor, weight) in &state.factors {
        let fields = Map::from_iter([("weight".to_owned(), (*weight).into())]);
        records.add(RecordKind::Factor, factor, fields);
    }
    let text = |table: &Map<String, Value>, key: &str| {
        table.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    for limit in &state.limits {
        let queue = limit.queue.as_ref().map_or("", |queue| queue.as_str());
        let is_configured = configured.iter().any(|table| {
            let names = [("scope", &*limit.scope), ("name", limit.name.as_str()), ("queue", queue)];
            names.iter().all(|(key, value)| text(table, key) == *value) && table.contains_key(&limit.measure)
        });
        if is_configured {
            continue;
        }
        let fields = Map::from_iter([
            ("limit".to_owned(), limit.limit.0.into()),
            ("counts".to_owned(), (&*limit.counts).into()),
        ]);
        records.add(RecordKind::Limit, limit_name(&limit.scope, &limit.name, queue, &limit.measure), fields);
    }
    for budget in &state.budgets {
        let window = [budget.start, budget.end];
        records.add_budget(&budget.scope, &budget.name, &budget.unit, window, budget.deposited);
    }
    for (name, value) in serialize_fields(&state.config, &[]) {
        records.add_setting(name, value);
    }
    if let Some(tree) = pages.first() {
        records.add_tree(tree);
    }
    records.0
}

fn association_record(user: UserId, snapshot: &AssociationSnapshot) -> AssociationRecord {
    let names = |names: Vec<String>| names.join(",");
    AssociationRecord {
        max_running_jobs: snapshot.max_run_jobs.0,
        max_active_jobs: snapshot.max_active_jobs.0,
        max_sched_jobs: snapshot.max_sched_jobs.0,
        max_nodes: snapshot.max_nodes.0,
        max_cores: snapshot.max_cores.0,
        queues: names(snapshot.queues.iter().map(ToString::to_string).collect()),
        projects: names(snapshot.projects.iter().map(ToString::to_string).collect()),
        def_project: snapshot.def_project.to_string(),
        active: snapshot.active,
        ..AssociationRecord::with_limits(user.0.into(), snapshot.bank_name.to_string(), UNLIMITED)
    }
}
