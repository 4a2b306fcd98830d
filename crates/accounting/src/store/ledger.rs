// SPDX-License-Identifier: LGPL-3.0-only
//! Reads the usage settings, and the associations and banks with their usage.

use std::collections::HashMap;

use super::schema::Column;
use super::values::{QueryRow, edit_config};
use super::{Fault, Reason, Snapshot, StoreResult};
use fairshare::accrual::MAX_WEIGHT;
use fairshare::charging::ChargeHistory;
use fairshare::periods::Weights;

/// Settings for counting usage.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageSettings {
    /// Stored end of the half-life period. Boundaries are whole half-lives before and after it.
    pub period_end: f64,
    /// Half-life in seconds. This is the time between two period boundaries.
    pub half_life: f64,
    /// Seconds after which usage is dropped.
    pub reset_period: f64,
    /// Factor by which usage decays at a boundary.
    pub decay: f64,
    /// Usage of one second of a node, a core and a GPU.
    pub weights: Weights,
    /// Charge factors of queues.
    pub charges: ChargeHistory,
    /// Time of the last change of the settings above. Jobs that ended until then do not count.
    pub reconfigured: f64,
    /// Substitutes for columns and tables that an older schema lacks, as `table.column: value`.
    pub notes: Vec<String>,
}

/// An association with its usage.
#[derive(Clone, Debug, PartialEq)]
pub struct Account {
    /// Row in the association table.
    pub row: i64,
    /// Name of the user.
    pub user: String,
    /// User id.
    pub userid: i64,
    /// Index of its bank in [`Ledger::banks`].
    pub bank: usize,
    /// True if the bank is the user's default bank.
    pub is_default: bool,
    /// The stored usage.
    pub usage: f64,
    /// The association's row in flux-accounting's `job_usage_factor_table`; `None` if there is no such row.
    pub counted: Option<Counted>,
}

/// The jobs of an association that flux-accounting has counted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Counted {
    /// Row in the factor table.
    pub row: i64,
    /// User id in the factor table.
    pub userid: i64,
    /// End of the newest counted job, 0 before the first; `None` if it is not a number.
    pub newest: Option<f64>,
}

/// A bank with its usage.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BankWithUsage {
    /// Row in the bank table; `None` if only associations name the bank.
    pub row: Option<i64>,
    /// Name of the bank.
    pub name: String,
    /// Index of the parent bank.
    pub parent: Option<usize>,
    /// True if the bank table names no parent.
    pub is_root: bool,
    /// The stored usage.
    pub usage: f64,
    /// Jobs that ended until this time do not count; `None` if it is not a number.
    pub ignore_older_than: Option<f64>,
}

/// All associations and banks, in the order of their rows.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The associations.
    pub accounts: Vec<Account>,
    /// The banks of the bank table, followed by banks that only associations name.
    pub banks: Vec<BankWithUsage>,
    /// The bank's name and the row in the factor table of each pair of user and bank that is no longer an association.
    pub removed: Vec<(String, Counted)>,
}

const ASSOCIATION: [Column; 5] =
    [("username", None), ("userid", None), ("bank", None), ("default_bank", None), ("job_usage", None)];
const BANK: [Column; 4] =
    [("bank", None), ("parent_bank", None), ("job_usage", None), ("ignore_older_than", Some("0"))];
pub(super) const PERIOD: [Column; 2] = [("cluster", None), ("end_half_life_period", None)];
pub(super) const PERIOD_END: &str =
    "SELECT end_half_life_period FROM t_half_life_period_table WHERE cluster = 'cluster'";
const FACTOR: [Column; 4] =
    [("username", None), ("userid", None), ("bank", None), ("last_job_timestamp", None)];
/// Highest number of periods. 100,000 periods of an hour are eleven years, so more are a mistake.
pub(super) const MOST_PERIODS: i64 = 100_000;
/// Valid weights of a node-, core- or GPU-second.
const WEIGHTS: std::ops::RangeInclusive<f64> = 0.0..=MAX_WEIGHT;
/// flux-accounting's default half-life, in seconds.
const WEEK: f64 = 604_800.0;

impl Snapshot<'_> {
    /// Checks that all tables and columns for counting usage exist. The error names all that are missing.
    pub fn check_usage_schema(&self) -> StoreResult<()> {
        let mut faults = Vec::new();
        let jobs: Vec<Column> = super::jobs::NEEDED_COLUMNS.map(|name| (name, None)).to_vec();
        for (name, columns) in [
            ("association_table", ASSOCIATION.as_slice()),
            ("bank_table", BANK.as_slice()),
            ("job_usage_factor_table", FACTOR.as_slice()),
            ("t_half_life_period_table", PERIOD.as_slice()),
            ("jobs", jobs.as_slice()),
        ] {
            self.select_columns(name, columns, &mut faults)?;
        }
        if self.bin_columns()? == 0 && self.table("job_usage_per_association_table")?.is_none() {
            faults.push(
                "neither a table job_usage_per_association_table nor columns usage_factor_period_0, ... in job_usage_factor_table"
                    .to_owned(),
            );
        }
        if faults.is_empty() { Ok(()) } else { Err(self.schema_error(&faults.join("; "))) }
    }

    /// Returns the number of bins that are columns of the factor table (before schema 36), or 0.
    pub(super) fn bin_columns(&self) -> StoreResult<usize> {
        if self.table("job_usage_per_association_table")?.is_some() {
            return Ok(0);
        }
        let table = self.table("job_usage_factor_table")?;
        let has = |period: &usize| {
            table.as_ref().is_some_and(|table| table.has_column(&format!("usage_factor_period_{period}")))
        };
        Ok((0..1000).take_while(has).count())
    }

    /// Reads and checks the settings for counting usage. Missing settings have flux-accounting's defaults.
    pub fn usage_settings(&self) -> StoreResult<UsageSettings> {
        let columns = ["end_half_life_period"];
        let ends =
            self.read_rows("t_half_life_period_table", PERIOD_END, &columns, |cells| cells.number(0))?;
        let Some(period_end) = ends.first().copied() else {
            return Err(self.schema_error("t_half_life_period_table has no row for cluster \"cluster\""));
        };
        self.usage_rule(period_end, None)
    }

    /// Reads and checks the settings for counting usage as they would be if the half-life became `half_life` seconds at the time `now`.
    pub fn usage_settings_with(&self, half_life: f64, now: f64) -> StoreResult<UsageSettings> {
        Ok(UsageSettings { reconfigured: now, ..self.usage_rule(now + half_life, Some(half_life))? })
    }

    /// Checks the settings of `config_table` for counting and decaying usage. `push`, `update` and `sync` all reject
    /// a database that this function rejects.
    pub fn check_usage_rule(&self) -> StoreResult<()> {
        self.usage_rule(0.0, None).map(drop)
    }

    /// Reads and checks the settings of `config_table`, with the given `period_end`. If `half_life` is given, it replaces the stored value.
    pub(super) fn usage_rule(&self, period_end: f64, half_life: Option<f64>) -> StoreResult<UsageSettings> {
        let mut known: HashMap<String, f64> = HashMap::new();
        let mut notes = Vec::new();
        if self.table("config_table")?.is_some() {
            self.visit_rows(
                "SELECT key, value FROM config_table",
                "config_table",
                &["key", "value"],
                |cells| {
                    let key = cells.text(0)?;
                    if NUMBERS.split(' ').any(|number| number == key) {
                        known.insert(key.to_owned(), cells.number(1)?);
                    }
                    Ok(())
                },
            )?;
        } else {
            notes.push(format!("config_table: half-life {WEEK} s, decay 0.5, node weight 1"));
        }
        let columns = self.bin_columns()?;
        let get = |key: &str, default: f64| known.get(key).copied().unwrap_or(default);
        let half_life = half_life.unwrap_or_else(|| get("priority_decay_half_life", WEEK));
        let bins = if columns > 0 { columns as f64 } else { 4.0 };
        let settings = UsageSettings {
            period_end,
            half_life,
            reset_period: get("priority_usage_reset_period", half_life * bins),
            decay: get("decay_factor", 0.5),
            weights: Weights {
                node: get("node_weight", 1.0),
                core: get("core_weight", 0.0),
                gpu: get("gpu_weight", 0.0),
            },
            charges: self.charge_history()?,
            reconfigured: get("reconfigure_time", 0.0),
            notes,
        };
        let Weights { node, core, gpu } = settings.weights;
        let weights = [("node_weight", node), ("core_weight", core), ("gpu_weight", gpu)];
        let weights = weights.map(|(key, value)| (key, value, WEIGHTS.contains(&value), "from 0 to 1e12"));
        let lengths =
            [("priority_decay_half_life", half_life), ("priority_usage_reset_period", settings.reset_period)];
        let lengths = lengths.map(|(key, value)| (key, value, value > 0.0, "> 0"));
        let decay = ("decay_factor", settings.decay, (0.0..=1.0).contains(&settings.decay), "from 0 to 1");
        for (key, value, fits, range) in weights.into_iter().chain(lengths).chain([decay]) {
            if !fits {
                let problem = format!("config_table: {key} is {value}, expected a number {range}");
                return Err(self.error(Reason::Value(Fault { problem, remedy: Some(edit_config(key)) })));
            }
        }
        if settings.reset_period / half_life > MOST_PERIODS as f64 {
            let text = format!(
                "config_table: a reset period of {} s has more than {MOST_PERIODS} half-lives of {half_life} s",
                settings.reset_period
            );
            return Err(self.error(Reason::Value(text.into())));
        }
        Ok(settings)
    }

    /// Reads all associations and banks. Calls `progress` with the number of associations read.
    pub fn ledger(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Ledger> {
        self.read_ledger(progress, |cells, at| cells.number(at))
    }

    /// Reads all associations and banks for a recount. A recount replaces their usage, so an invalid usage is read as NaN.
    pub fn read_accounts_for_recount(&self, progress: &mut dyn FnMut(u64)) -> StoreResult<Ledger> {
        self.read_ledger(progress, |cells, at| Ok(cells.number_if_any(at).unwrap_or(f64::NAN)))
    }

    fn read_ledger(
        &self,
        progress: &mut dyn FnMut(u64),
        usage: fn(&QueryRow<'_, '_>, usize) -> Result<f64, Fault>,
    ) -> StoreResult<Ledger> {
        let mut ledger = Ledger::default();
        let mut parents = Vec::new();
        self.visit_numbered_rows("bank_table", &BANK, |cells| {
            let parent = cells.optional_text(1)?.filter(|parent| !parent.is_empty());
            ledger.banks.push(BankWithUsage {
                row: Some(cells.integer(4)?),
                name: cells.text(0)?.to_owned(),
                parent: None,
                is_root: parent.is_none(),
                usage: usage(cells, 2)?,
                ignore_older_than: cells.number_if_any(3),
            });
            parents.push(parent.map(str::to_owned));
            Ok(())
        })?;
        let mut names: HashMap<String, usize> = HashMap::new();
        for (at, bank) in ledger.banks.iter().enumerate() {
            names.entry(bank.name.clone()).or_insert(at);
        }
        for (bank, parent) in ledger.banks.iter_mut().zip(&parents) {
            bank.parent = parent.as_ref().and_then(|parent| names.get(parent)).copied();
        }
        let Ledger { accounts, banks, .. } = &mut ledger;
        self.visit_numbered_rows("association_table", &ASSOCIATION, |cells| {
            let name = cells.text(2)?;
            let bank = match names.get(name) {
                Some(bank) => *bank,
                None => {
                    names.insert(name.to_owned(), banks.len());
                    banks.push(BankWithUsage { name: name.to_owned(), ..BankWithUsage::default() });
                    banks.len() - 1
                }
            };
            accounts.push(Account {
                row: cells.integer(5)?,
                user: cells.text(0)?.to_owned(),
                userid: cells.user_id(1),
                bank,
                is_default: cells.optional_text(3)? == Some(name),
                usage: usage(cells, 4)?,
                counted: None,
            });
            if accounts.len() % 8192 == 0 {
                progress(accounts.len() as u64);
            }
            Ok(())
        })?;
        let mut finder = AccountFinder::new(&ledger);
        let (mut found, mut removed) = (Vec::with_capacity(ledger.accounts.len()), Vec::new());
        self.visit_numbered_rows("job_usage_factor_table", &FACTOR, |cells| {
            let (userid, bank) = (cells.user_id(1), cells.text(2)?);
            let counted = Counted { row: cells.integer(4)?, userid, newest: cells.number_if_any(3) };
            match finder.find(cells.text(0)?, bank) {
                Some(at) => found.push((at, counted)),
                None => removed.push((bank.to_owned(), counted)),
            }
            Ok(())
        })?;
        ledger.removed = removed;
        for (at, counted) in found {
            if let Some(account) = ledger.accounts.get_mut(at) {
                account.counted = Some(counted);
            }
        }
        Ok(ledger)
    }

    /// Returns the user ids that associations had when their usage was stored and no longer have, each with the index
    /// of the association in `ledger`.
    ///
    /// flux-accounting can change the user id of an association; the old id remains in the rows of its usage and in
    /// job records.
    pub fn former_userids(&self, ledger: &Ledger) -> StoreResult<Vec<(i64, usize)>> {
        let mut former = Vec::new();
        for table in ["job_usage_per_association_table", "job_usage_factor_table"] {
            if self.table(table)?.is_none() {
                continue;
            }
            let sql = format!(
                "SELECT DISTINCT used.username, used.userid, used.bank FROM {table} AS used JOIN association_table AS now \
                 ON now.username = used.username AND now.bank = used.bank WHERE used.userid != now.userid"
            );
            let mut finder = AccountFinder::new(ledger);
            self.visit_rows(&sql, table, &["username", "userid", "bank"], |cells| {
                former.extend(finder.find(cells.text(0)?, cells.text(2)?).map(|at| (cells.user_id(1), at)));
                Ok(())
            })?;
        }
        former.sort_unstable();
        former.dedup();
        Ok(former)
    }

    /// Calls `each` with `columns` and the row number of each row of a table, in the order of row numbers.
    pub(super) fn visit_numbered_rows(
        &self,
        name: &'static str,
        columns: &[Column],
        each: impl FnMut(&QueryRow<'_, '_>) -> Result<(), Fault>,
    ) -> StoreResult<()> {
        let select = self.select_with_row_numbers(name, columns)?;
        let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
        self.visit_rows(&select, name, &names, each)
    }

    /// Returns an SQL query that selects `columns` and the row number. The rows are sorted by row number. Fails if the
    /// table has no row numbers.
    pub(super) fn select_with_row_numbers(
        &self,
        name: &'static str,
        columns: &[Column],
    ) -> StoreResult<String> {
        let mut faults = Vec::new();
        let Some((_, select)) = self.select_columns(name, columns, &mut faults)? else {
            return Err(self.schema_error(&faults.join("; ")));
        };
        let number = self.row_number(name)?;
        let select = select.replacen(" FROM", &format!(", {number} FROM"), 1);
        Ok(format!("{select} ORDER BY {number}"))
    }

    /// Returns the name of the column that contains the row number, such as `rowid`. Fails if the table has no row
    /// numbers.
    pub(super) fn row_number(&self, name: &'static str) -> StoreResult<&'static str> {
        self.required_table(name)?.row_number().ok_or_else(|| {
            let text = format!(
                "{name} has no row numbers (rowid), which writes need: it is a view, a table WITHOUT ROWID, \
                 or has columns named rowid, _rowid_ and oid; nothing was changed"
            );
            self.error(Reason::Schema(text.into()))
        })
    }

    /// Calls `each` with each row of a query. Returns an error of `each`, or an error if another program wrote to the database during the query.
    pub(super) fn visit_rows(
        &self,
        sql: &str,
        table: &'static str,
        columns: &[&'static str],
        mut each: impl FnMut(&QueryRow<'_, '_>) -> Result<(), Fault>,
    ) -> StoreResult<()> {
        let mut statement = self.run_sql(|| self.transaction.prepare(sql))?;
        let mut rows = statement.query([]).map_err(|error| self.sqlite_error(&error))?;
        let mut number = 0;
        while let Some(row) = rows.next().map_err(|error| self.sqlite_error(&error))? {
            number += 1;
            let cells = QueryRow { table, row, number, columns };
            each(&cells).map_err(|fault| self.error(Reason::Value(fault)))?;
        }
        self.check_database_unchanged()
    }
}

/// Keys of `config_table` with numeric values.
const NUMBERS: &str = "priority_decay_half_life priority_usage_reset_period decay_factor node_weight \
    core_weight gpu_weight reconfigure_time";

/// Finds associations by user and bank. A search is fastest if the caller searches in the order of
/// [`Ledger::accounts`].
pub(super) struct AccountFinder<'a> {
    ledger: &'a Ledger,
    last: usize,
    by_name: Option<HashMap<(&'a str, &'a str), usize>>,
}

impl<'a> AccountFinder<'a> {
    pub(super) fn new(ledger: &'a Ledger) -> Self {
        AccountFinder { ledger, last: 0, by_name: None }
    }

    pub(super) fn find(&mut self, user: &str, bank: &str) -> Option<usize> {
        for at in [self.last, self.last + 1] {
            if self
                .ledger
                .accounts
                .get(at)
                .is_some_and(|account| account.user == user && self.ledger.bank_name(account) == bank)
            {
                self.last = at;
                return Some(at);
            }
        }
        let ledger = self.ledger;
        let by_name = self.by_name.get_or_insert_with(|| {
            let named = |(at, account): (usize, &'a Account)| {
                ((account.user.as_str(), ledger.bank_name(account)), at)
            };
            ledger.accounts.iter().enumerate().map(named).collect()
        });
        let at = by_name.get(&(user, bank)).copied()?;
        self.last = at;
        Some(at)
    }
}

impl Ledger {
    /// Returns user name, user id and bank name of the association with index `at`.
    pub(super) fn key(&self, at: usize) -> Option<(&str, i64, &str)> {
        let account = self.accounts.get(at)?;
        Some((&account.user, account.userid, self.bank_name(account)))
    }

    /// Returns the name of an association's bank.
    pub fn bank_name(&self, account: &Account) -> &str {
        self.banks.get(account.bank).map_or("", |bank| bank.name.as_str())
    }
}
