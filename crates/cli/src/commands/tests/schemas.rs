// SPDX-License-Identifier: LGPL-3.0-only
//! The JSON schemas of `--json`, generated from the types and columns that the commands print. `UPDATE_GOLDEN=1` rewrites
//! docs/schemas/.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::commands::why::job::compare::JobVerdict;
use crate::commands::why::job::history::JobHistory;
use crate::commands::why::json::{ComparedNodes, ExplainedNodes};
use crate::commands::*;
use crate::plugin::scheduling::StartFacts;
use crate::site::facts::{PolicyFacts, SourceFacts};
use crate::site::moves;
use crate::ui::companions::add_schemas_of_readable_members;
use crate::ui::figures::Unit;
use crate::ui::rows::{Column, Style, ValueColumn};
use fairshare::Policy;
use fairshare_accounting::pipeline::report::By;
use fairshare_engine::engine::answers::{CheckedJob, Heading, Preview, Refused, Standings, Why};

/// The members besides the rows in a document that has only rows: there are none.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct NoJsonFields {}

/// The document of `why JOBID`.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct ExplainedJobs {
    #[schemars(flatten)]
    heading: Heading,
    jobs: Vec<ExplainedJob>,
    refused: Vec<Refused>,
    /// Which of two jobs is ahead.
    #[schemars(skip_serializing_if = "Option::is_none")]
    verdict: Option<JobVerdict<'static>>,
}

/// A job. If the job has ended, only its history and the data from job-list are known.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct ExplainedJob {
    #[schemars(flatten)]
    job: Why,
    #[schemars(flatten)]
    start: Option<StartFacts>,
    #[schemars(skip_serializing_if = "Option::is_none")]
    history: Option<JobHistory>,
}

/// Schemas contain no titles of columns, so these may be empty.
static NO_TITLES: moves::Titles<'static> = moves::Titles { places: ["", ""], fairshares: ["", ""] };

/// The columns of one kind of rows, with their descriptions.
type Described = Vec<(Column<'static>, &'static str)>;

impl<'a, T> From<ValueColumn<'a, T>> for Column<'a> {
    fn from(of: ValueColumn<'a, T>) -> Column<'a> {
        of.column
    }
}

/// Describes columns by their titles.
fn titled(columns: impl IntoIterator<Item: Into<Column<'static>>>) -> Described {
    columns.into_iter().map(|column| (column.into(), "")).collect()
}

/// Returns the schema of the value of a column.
fn value_schema(column: &Column<'_>, about: &str) -> Value {
    let mut schema = match column.style {
        Style::Text => json!({"type": ["string", "null"]}),
        Style::Flag => json!({"type": ["boolean", "null"]}),
        Style::Time => json!({"type": ["number", "null"]}),
        Style::Count | Style::Limit | Style::Id | Style::Hours => json!({"type": ["integer", "null"]}),
        Style::Shares => json!({"anyOf": [{"type": ["integer", "null"]}, {"const": "parent"}]}),
        _ => json!({"anyOf": [{"type": ["number", "null"]}, {"enum": ["inf", "-inf"]}]}),
    };
    if !about.is_empty() {
        schema["description"] = about.into();
    }
    schema
}

/// Returns the schema of an array of rows. Each row has the columns of one of `lists`. A column that is in
/// all lists is required.
fn rows_schema(lists: &[Described]) -> Value {
    let mut properties = Map::new();
    let mut required: Option<BTreeSet<&str>> = None;
    for list in lists {
        let printed = list.iter().filter(|(column, _)| !matches!(column.style, Style::Bar(_)));
        let keys: BTreeSet<&str> = printed.clone().map(|(column, _)| column.key).collect();
        required = Some(required.map_or(keys.clone(), |required| &required & &keys));
        for (column, about) in printed {
            properties.insert(column.key.to_owned(), value_schema(column, about));
            if column.style == Style::Usage(Unit::NodeSeconds) {
                let about = "`usage`, if the weights of resources are the default";
                properties.insert(format!("{}_node_seconds", column.key), value_schema(column, about));
            }
            if column.style == Style::Time {
                let about = format!("`{}` by RFC 3339.", column.key);
                let text = json!({"type": ["string", "null"], "description": about});
                properties.insert(format!("{}_time", column.key), text);
            }
        }
    }
    let required: Vec<&str> = required.into_iter().flatten().collect();
    json!({"type": "array", "items": {"type": "object", "properties": properties, "required": required}})
}

/// The schemas of the documents that a command can print.
struct JsonDocumentForms {
    generator: SchemaGenerator,
    forms: Vec<Value>,
}

impl JsonDocumentForms {
    fn new() -> JsonDocumentForms {
        let settings = SchemaSettings::draft2020_12().for_serialize();
        JsonDocumentForms { generator: settings.into_generator(), forms: Vec::new() }
    }

    /// Adds the schema of `T` as another form that the output may have.
    fn document<T: JsonSchema>(mut self) -> JsonDocumentForms {
        self.forms.push(T::json_schema(&mut self.generator).to_value());
        self
    }

    /// Adds the schema of a report. It has the members of `T`, and an array of rows for each key in `rows`.
    fn report<T: JsonSchema>(self, rows: &[(&str, &[Described])]) -> JsonDocumentForms {
        let mut forms = self.document::<T>();
        forms.forms.last_mut().into_iter().for_each(add_schemas_of_readable_members);
        let Some(Value::Object(form)) = forms.forms.last_mut() else { panic!("a schema is an object") };
        form.remove("description");
        for (key, lists) in rows {
            form.entry("properties").or_insert_with(|| json!({}))[key] = rows_schema(lists);
            let required = form.entry("required").or_insert_with(|| json!([]));
            required.as_array_mut().expect("an array").push((*key).into());
        }
        forms
    }

    /// Adds the members of `T` to the schema that was added last.
    fn and<T: JsonSchema>(self) -> JsonDocumentForms {
        let mut forms = self.document::<T>();
        let added = forms.forms.pop().expect("a document");
        let last = forms.forms.last_mut().expect("a document before");
        for (key, schema) in added["properties"].as_object().expect("properties") {
            last["properties"][key] = schema.clone();
        }
        let added = added["required"].as_array().cloned().unwrap_or_default();
        last["required"].as_array_mut().expect("an array").extend(added);
        forms
    }

    /// Returns the schema of the command.
    fn schema(mut self, command: &str) -> Value {
        let definitions = self.generator.take_definitions(true);
        let mut schema = match self.forms.len() {
            1 => self.forms.remove(0),
            _ => json!({"anyOf": self.forms}),
        };
        schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
        schema["title"] = format!("flux fairshare {command} --json").into();
        if !definitions.is_empty() {
            schema["$defs"] = definitions.into();
        }
        schema
    }
}

/// Returns the schema of each command.
fn schemas() -> BTreeMap<&'static str, Value> {
    let show = || {
        let node_seconds = |(column, about): (Column<'static>, &'static str)| match column.style {
            Style::Usage(_) => (Column { style: Style::Usage(Unit::NodeSeconds), ..column }, about),
            _ => (column, about),
        };
        crate::ui::columns::list_described_columns().map(node_seconds).collect::<Described>()
    };
    let moved = || titled(moves::move_columns(&NO_TITLES));
    let bank_moves = || titled(moves::BANK_COLUMNS);
    let policies: Vec<&str> = Policy::ALL.iter().map(|policy| policy.name()).collect();
    let by_policy = |columns: fn(&[&'static str]) -> Vec<Column<'static>>| {
        [titled(columns(&policies)), titled(columns(&[]))]
    };
    let usages =
        [By::Association, By::User, By::Bank, By::Project, By::Day].map(|by| titled(usage::columns(by)));
    let budgets = || titled(budget::COLUMNS.iter().copied());
    let deposits = || titled(budget::DEPOSIT_COLUMNS);
    let jobs: Described = jobs::columns::list_described_columns().chain(titled([jobs::ID_DECIMAL])).collect();
    let forms = [
        ("show", JsonDocumentForms::new().report::<show::ShowFacts>(&[("nodes", &[show(), Vec::new()])])),
        (
            "update",
            JsonDocumentForms::new()
                .report::<update::UpdateReportHeader>(&[("moves", &[titled(update::COLUMNS)])]),
        ),
        (
            "policy",
            JsonDocumentForms::new()
                .report::<policy::SitePolicyJsonFields>(&[("options", &[titled(policy::COLUMNS)])]),
        ),
        ("limit", JsonDocumentForms::new().report::<NoJsonFields>(&[("limits", &[titled(limit::COLUMNS)])])),
        (
            "budget",
            JsonDocumentForms::new()
                .report::<NoJsonFields>(&[("budgets", &[budgets()])])
                .report::<NoJsonFields>(&[("deposits", &[deposits()])])
                .report::<NoJsonFields>(&[("deposits", &[deposits()]), ("budgets", &[budgets()])]),
        ),
        (
            "credit",
            JsonDocumentForms::new().report::<NoJsonFields>(&[("credits", &[titled(credit::COLUMNS)])]),
        ),
        (
            "push",
            JsonDocumentForms::new()
                .document::<push::parts::PushDocument<'_>>()
                .document::<Option<Preview>>(),
        ),
        (
            "sync",
            JsonDocumentForms::new()
                .report::<sync::summary::SyncJsonFields>(&[("changes", &[titled(sync::summary::columns())])])
                .report::<NoJsonFields>(&[("changes", &[titled(sync::summary::columns())])]),
        ),
        (
            "recount",
            JsonDocumentForms::new()
                .report::<recount::RecountJsonFields>(&[("differences", &[titled(recount::COLUMNS)])])
                .report::<recount::RecountJsonFields>(&[
                    ("differences", &[titled(recount::COLUMNS)]),
                    ("budgets", &[titled(recount::BUDGET_COLUMNS)]),
                ]),
        ),
        (
            "usage",
            JsonDocumentForms::new()
                .report::<usage::UsageTotals>(&[("usage", &usages)])
                .report::<usage::UsageDecayFields>(&[(
                "periods",
                &[titled(usage::period_columns(Unit::NodeSeconds))],
            )]),
        ),
        (
            "compare",
            JsonDocumentForms::new()
                .report::<compare::TwoPolicyReport>(&[
                    ("associations", &[moved()]),
                    ("banks", &[bank_moves()]),
                ])
                .report::<compare::ManyPolicyReport>(&[
                    ("associations", &by_policy(compare::association_columns)),
                    ("banks", &by_policy(compare::bank_columns)),
                ]),
        ),
        ("report", JsonDocumentForms::new().document::<report::data::Document<'_>>()),
        (
            "why",
            JsonDocumentForms::new()
                .document::<ExplainedJobs>()
                .document::<ExplainedNodes<'_>>()
                .and::<PolicyFacts>()
                .and::<SourceFacts>()
                .document::<ComparedNodes<'_>>()
                .and::<PolicyFacts>()
                .and::<SourceFacts>(),
        ),
        (
            "what-if",
            JsonDocumentForms::new()
                .report::<what_if::WhatIfJsonFields<'_>>(&[
                    ("associations", &[moved()]),
                    ("banks", &[bank_moves()]),
                ])
                .document::<CheckedJob>()
                .and::<check::FluxCheckResult>()
                .document::<Option<Preview>>(),
        ),
        (
            "simulate",
            JsonDocumentForms::new().report::<simulate::print::SimulationJsonFields>(&[
                ("scenarios", &[titled(simulate::print::list_columns_of_scenario_table())]),
                ("groups", &[titled(simulate::print::group_columns(None))]),
            ]),
        ),
        (
            "jobs",
            JsonDocumentForms::new()
                .report::<jobs::JobsReportHeader<'_>>(&[("jobs", &[jobs, Vec::new()])])
                .report::<NoJsonFields>(&[("weights", &[titled([jobs::PRESENT, jobs::JOBS])])]),
        ),
        (
            "standing",
            JsonDocumentForms::new().document::<Standings>().and::<standing::total::StandingJsonFields>(),
        ),
        (
            "status",
            JsonDocumentForms::new()
                .report::<status::StatusJsonFields<'_>>(&[("selected", &[titled(status::columns())])]),
        ),
        ("check", JsonDocumentForms::new().document::<CheckedJob>().and::<check::FluxCheckResult>()),
        (
            "check-import",
            JsonDocumentForms::new().report::<check_import::CheckImportJsonFields>(&[(
                "differences",
                &[titled(check_import::COLUMNS)],
            )]),
        ),
        ("doctor", JsonDocumentForms::new().document::<doctor::DoctorDocument<'_>>()),
        (
            "diff",
            JsonDocumentForms::new()
                .report::<diff::DiffFacts<'_>>(&[("differences", &[titled(diff::COLUMNS)])]),
        ),
        ("config", JsonDocumentForms::new().document::<config::ConfigDocument<'_>>()),
        (
            "migrate",
            ["held", "lost"].into_iter().fold(JsonDocumentForms::new(), |forms, key| {
                let columns = migrate::COLUMNS.into_iter().chain([migrate::JOB_ID]);
                forms.report::<NoJsonFields>(&[(key, &[titled(columns)])])
            }),
        ),
    ];
    let mut schemas: BTreeMap<&str, Value> =
        forms.into_iter().map(|(command, forms)| (command, forms.schema(command))).collect();
    // For a time or a job id, the JSON output has a second member with its readable form. The schemas need these members.
    for (command, schema) in &mut schemas {
        match *command {
            "push" | "why" | "what-if" | "standing" | "check" => add_schemas_of_readable_members(schema),
            "report" | "doctor" | "config" => {}
            _ => schema.get_mut("$defs").into_iter().for_each(add_schemas_of_readable_members),
        }
    }
    // The command requests and joins all pages, and adds the names of users.
    let standing = schemas.get_mut("standing").expect("a schema");
    standing["properties"].as_object_mut().expect("an object").remove("next");
    standing["required"].as_array_mut().expect("an array").retain(|key| key != "next");
    standing["$defs"]["AssociationStanding"]["properties"]["user"] = json!({"type": "string"});
    // The command adds two members to a budget: the remaining amount, and the time until which the budget lasts.
    for key in ["left", "lasts_until"] {
        standing["$defs"]["BudgetShown"]["properties"][key] = json!({"type": ["number", "null"]});
    }
    // A row has an additional number for each term of the priority. The names of the terms depend on the site.
    let jobs = schemas.get_mut("jobs").expect("a schema");
    for (form, key) in [(0, "jobs"), (1, "weights")] {
        jobs["anyOf"][form]["properties"][key]["items"]["additionalProperties"] =
            json!({"type": ["number", "null"]});
    }
    schemas
}

#[test]
fn each_command_with_json_has_a_schema() {
    let whole = crate::definition();
    let has_json =
        |command: &&clap::Command| command.get_arguments().any(|option| option.get_long() == Some("json"));
    let commands: BTreeSet<&str> =
        whole.get_subcommands().filter(has_json).map(clap::Command::get_name).collect();
    assert_eq!(schemas().into_keys().collect::<BTreeSet<_>>(), commands);
}

#[test]
fn docs_schemas_has_the_schema_of_each_command() {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schemas"));
    let text = |schema: &Value| serde_json::to_string_pretty(schema).expect("JSON") + "\n";
    let fresh: BTreeMap<String, String> =
        schemas().iter().map(|(command, schema)| (format!("{command}.json"), text(schema))).collect();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory).expect("a directory");
        for (name, text) in &fresh {
            fs::write(directory.join(name), text).expect("written");
        }
    }
    let files = fs::read_dir(directory).expect("docs/schemas").flatten();
    let committed: BTreeMap<String, String> = files
        .map(|file| {
            let text = fs::read_to_string(file.path()).expect("text");
            (file.file_name().to_string_lossy().into_owned(), text)
        })
        .collect();
    let differing: Vec<&String> =
        fresh.keys().filter(|name| committed.get(*name) != fresh.get(*name)).collect();
    assert_eq!(differing, Vec::<&String>::new(), "UPDATE_GOLDEN=1 cargo test rewrites docs/schemas/");
    assert_eq!(committed.len(), fresh.len(), "docs/schemas/ has a file of no command");
}
