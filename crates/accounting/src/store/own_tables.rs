// SPDX-License-Identifier: LGPL-3.0-only
//! Reads our own tables, which flux-accounting's tools leave unchanged. Also creates the tables whose rows
//! never change.

use super::schema::Column;
use super::values::QueryRow;
use super::{Fault, Snapshot, StoreResult};

impl Snapshot<'_> {
    /// Returns the rows of one of our tables, with the `columns` that spaces separate, in the order in which they were added. Returns no rows if the table does not exist.
    pub(super) fn read_project_table<T>(
        &self,
        name: &'static str,
        columns: &'static str,
        read: impl FnMut(&QueryRow<'_, '_>) -> Result<T, Fault>,
    ) -> StoreResult<Vec<T>> {
        let Some(table) = self.table(name)? else { return Ok(Vec::new()) };
        let names: Vec<&'static str> = columns.split(' ').collect();
        let columns: Vec<Column> = names.iter().map(|name| (*name, None)).collect();
        let select = table.build_select(&columns).map_err(|text| self.schema_error(&text))?;
        self.read_rows(name, &format!("{select} ORDER BY rowid"), &names, read)
    }

    /// Creates one of the additional tables, unless it exists, with triggers that reject changes of existing
    /// rows. `row` is the name of a row in the messages of the triggers.
    pub(super) fn create_kept_table(&self, name: &str, row: &str, columns: &str) -> rusqlite::Result<()> {
        self.transaction.execute_batch(&format!("CREATE TABLE IF NOT EXISTS {name} ({columns})"))?;
        let replace = format!("INSERT ON {name} WHEN EXISTS (SELECT 1 FROM {name} WHERE rowid = NEW.rowid)");
        for (event, change, when) in [
            ("update", "changed", format!("UPDATE ON {name}")),
            ("delete", "deleted", format!("DELETE ON {name}")),
            ("replace", "replaced", replace),
        ] {
            self.transaction.execute_batch(&format!(
                "CREATE TRIGGER IF NOT EXISTS {name}_{event} BEFORE {when} \
                 BEGIN SELECT RAISE(ABORT, 'a {row} is never {change}; add another {row}'); END"
            ))?;
        }
        Ok(())
    }
}
