// SPDX-License-Identifier: LGPL-3.0-only
//! Prints an association: its place, jobs and limits, and the levels of the tree above it.

use crate::commands::why::job::{LEVEL_COLUMNS, make_share_usage_and_value_cells};
use crate::ui::figures::{Unit, describe_associations_ahead, half_life_text, hours, number, ordinal};
use crate::ui::printable::count;
use crate::ui::rows::{Cell, Rows, Style, ValueColumn, column, value_column};
use crate::ui::teller::TextPrinter;
use fairshare_accounting::pipeline::budgets::estimate_budget_end;
use fairshare_engine::engine::answers::{AssociationStanding, BudgetShown, LimitUsage, Sibling, Standings};

/// The length of a bar that compares usage with a share, in cells.
const BAR: usize = 20;
/// The length of a bar that compares a count with its limit, in cells.
const LIMIT_BAR: usize = 10;

/// The columns of the table of limits.
const LIMIT_COLUMNS: [ValueColumn<'static, LimitUsage>; 6] = [
    value_column("limit", "Limit", Style::Text, |limit| limit_name(limit).into()),
    value_column("used", "Used", Style::Count, |limit| limit.used.map(Cell::Count).into()),
    value_column("cap", "of", Style::Count, |limit| limit.cap.map(Cell::Count).into()),
    value_column("measure", "", Style::Text, |limit| get_limited_resource_name(limit).into()),
    value_column("reserved", "Reserved", Style::Count, |limit| {
        get_reserved_amount(limit).map(Cell::Count).into()
    }),
    value_column("bar", "", Style::Signed, |limit| {
        let used = limit.used.map(|used| used + limit.reserved.unwrap_or(0));
        used.map(|used| draw_limit_bar(used, limit.cap.unwrap_or_default())).into()
    }),
];

fn get_reserved_amount(limit: &LimitUsage) -> Option<u64> {
    limit.reserved.filter(|reserved| *reserved > 0)
}

impl TextPrinter<'_> {
    /// Prints an association. `caller` is the user id of the caller.
    pub(crate) fn print_association(
        &self,
        association: &AssociationStanding,
        standing: &Standings,
        long: bool,
        caller: u32,
    ) {
        let own = association.userid.0 == caller;
        let kind = if association.is_default { " (the default bank)" } else { "" };
        let user = self.words.user(association.userid.0);
        self.heading(&format!("{user} in bank {}{kind}", association.bank));
        self.line(&describe_place(association, standing, if own { "you" } else { &user }));
        self.line(&describe_jobs(association));
        if let Some(text) = self.describe_usage(association, standing) {
            self.line(&text);
        }
        if !association.queues.is_empty() {
            let queues: Vec<&str> = association.queues.iter().map(|queue| queue.as_str()).collect();
            self.line(&format!("Queues: {}.", queues.join(", ")));
        }
        for (queue, rules) in &association.queue_rules {
            self.queue_rules(Some(queue), rules);
        }
        let project = association.default_project.as_deref().filter(|project| *project != "*");
        if let Some(project) = project {
            let others: Vec<&str> = association
                .projects
                .iter()
                .map(|other| other.as_str())
                .filter(|other| *other != project && *other != "*")
                .collect();
            let others =
                if others.is_empty() { String::new() } else { format!(", also {}", others.join(", ")) };
            self.line(&format!("Project: {project}{others}."));
        }
        self.out.blank();
        self.print_limits(association);
        self.print_budgets(&association.budgets, standing.heading.now);
        if !association.levels.is_empty() {
            self.out.blank();
            self.heading(&make_levels_title(standing));
            self.out.table(self.make_level_rows(association, long), &["even_at", "shares", "bar"]);
            self.print_recovery(association, standing);
        }
    }

    /// Returns a sentence about the decayed usage, or `None` if the plugin has no usage of the association.
    fn describe_usage(&self, association: &AssociationStanding, standing: &Standings) -> Option<String> {
        let used = Unit::new(standing.in_node_seconds).amount(association.usage?);
        let unit = if standing.in_node_seconds { "" } else { ", in the site's unit" };
        let half_life = standing.half_life.filter(|_| association.usage > Some(0.0));
        let half = half_life.map_or(String::new(), |half_life| {
            let until = self.words.when(standing.heading.now + half_life);
            format!("; half of it has decayed by {until}")
        });
        Some(format!("Used: {used} (decayed{unit}){half}."))
    }

    fn print_limits(&self, association: &AssociationStanding) {
        // Budgets are left out: their limits are rounded to hours, and `budgets` has the exact amounts.
        let is_set = |limit: &&LimitUsage| limit.cap.is_some() && !limit.limit.starts_with("budget-");
        let set: Vec<&LimitUsage> = association.limits.iter().filter(is_set).collect();
        // The plugin lists an unset limit of a queue only while its counter is not 0.
        let is_unset = |limit: &&LimitUsage| limit.cap.is_none() && limit.queue.is_none();
        let unlimited = association.limits.iter().filter(is_unset).count();
        if set.is_empty() {
            return self.line("No limit is set.");
        }
        self.heading("Limits:");
        let has_reserved = set.iter().any(|limit| get_reserved_amount(limit).is_some());
        let columns = LIMIT_COLUMNS.into_iter().filter(|one| has_reserved || one.column.key != "reserved");
        self.out.table(Rows::new("limits", columns, set.into_iter().cloned()), &["bar"]);
        if unlimited > 0 {
            let verb = if unlimited == 1 { "is" } else { "are" };
            let limits = count(unlimited, "other limit");
            self.item(&format!("{limits} of the association {verb} not set"));
        }
    }

    /// Prints the budgets whose window is not over.
    fn print_budgets(&self, budgets: &[BudgetShown], now: f64) {
        let mut budgets = budgets.iter().filter(|budget| budget.end as f64 > now).peekable();
        if budgets.peek().is_none() {
            return;
        }
        self.out.blank();
        self.heading("Budgets:");
        budgets.for_each(|budget| self.item(&self.describe_budget(budget, now)));
    }

    /// Returns a sentence with the amounts of a budget that the caller may see, its window, and how long it lasts.
    fn describe_budget(&self, budget: &BudgetShown, now: f64) -> String {
        let BudgetShown { scope, name, unit, deposited, .. } = budget;
        let amounts = match (budget.spent, budget.committed, left(budget)) {
            (Some(spent), Some(committed), Some(left)) => {
                let [spent, committed] = [spent, committed].map(|amount| hours(amount.cast_signed()));
                let (of, left) = (hours(*deposited), hours(left));
                format!("{spent} of {of} {unit} spent, {committed} committed, {left} left")
            }
            _ => format!("{} {unit}", hours(*deposited)),
        };
        let [start, end] = [budget.start, budget.end].map(|time| time as f64);
        let from =
            if start > now { format!(" from {}", self.words.format_time(start)) } else { String::new() };
        let runway = match lasts_until(budget, now) {
            _ if !budget.complete => "; the spent amount lacks jobs that ended lately".to_owned(),
            Some(at) => {
                let until = || format!("until {}", self.words.format_time(at));
                let how_long = if at < end { until() } else { "longer".to_owned() };
                format!("; at the rate of ended jobs in the last 7 days, it lasts {how_long}")
            }
            None => String::new(),
        };
        let name = self.node_label(name, scope);
        format!("{scope} {name}: {amounts}{from} until {}{runway}.", self.words.format_time(end))
    }

    /// Returns a row for each level, from the root down. If `long` is set, also returns a row for each sibling in the answer.
    /// The siblings of a node come after the rows below the node.
    fn make_level_rows(&self, association: &AssociationStanding, long: bool) -> Rows<'_> {
        let mut rows = Vec::new();
        for (depth, level) in association.levels.iter().enumerate() {
            let mark = if level.is_worst { " <" } else { "" };
            let name = self.node_label(&level.node.name, &level.node.kind) + mark;
            let even_at = level.even_at.map(|at| round_up_estimate(at, self.words.now));
            let mut row = vec![Cell::Node { depth, bank: level.node.kind == "bank", name }];
            row.extend(make_number_cells(&level.node, depth));
            row.insert(1, Cell::Count(level.node.shares));
            row.push(even_at.map_or(Cell::None, |at| Cell::Text(self.words.format_time(at))));
            rows.push(row);
        }
        for (depth, level) in association.levels.iter().enumerate().rev().filter(|_| long) {
            rows.extend(level.siblings.iter().map(|sibling| self.make_table_row_of_sibling(sibling, depth)));
            let omitted = level.siblings_total.saturating_sub(level.siblings.len());
            if omitted > 0 && !level.siblings.is_empty() {
                rows.push(vec![Cell::Node {
                    depth,
                    bank: false,
                    name: format!("and {} more", number(omitted)),
                }]);
            }
        }
        let mut columns = LEVEL_COLUMNS.to_vec();
        columns.push(column("bar", "Usage|Share", Style::Bar(BAR)));
        columns.push(column("even_at", "Back at share (if idle)", Style::Text));
        Rows { key: "levels", columns, rows: Box::new(rows.into_iter()) }
    }

    fn make_table_row_of_sibling(&self, sibling: &Sibling, depth: usize) -> Vec<Cell> {
        let name = self.node_label(&sibling.name, &sibling.kind);
        let mut row = vec![Cell::Node { depth, bank: false, name }, Cell::Count(sibling.shares)];
        row.extend(make_number_cells(sibling, depth));
        row
    }

    fn node_label(&self, name: &str, kind: &str) -> String {
        match (kind, name.parse::<u32>()) {
            ("user", Ok(user)) => self.words.user(user),
            _ => name.to_owned(),
        }
    }

    /// Prints which level of the tree lowers the fair-share most, and when the usage of this level will have decayed
    /// to its share.
    fn print_recovery(&self, association: &AssociationStanding, standing: &Standings) {
        self.out.blank();
        let worst = association.levels.iter().find(|level| level.is_worst);
        if let Some(worst) = worst {
            let text = format!(
                "< The fair-share is lowered most at {}.",
                self.node_label(&worst.node.name, &worst.node.kind)
            );
            self.line(&text);
        }
        if hides_numbers_of_other_users(standing) {
            self.line("This site shows users only their own numbers.");
        }
        if let Some(half_life) = standing.half_life {
            self.line(&format!("Usage decays by half every {}.", half_life_text(half_life)));
        }
        let above = association.levels.iter().filter_map(|level| Some((level, level.even_at?)));
        match above.max_by(|(_, a), (_, b)| a.total_cmp(b)) {
            None => {
                let beyond = association.levels.iter().rfind(|level| {
                    level
                        .node
                        .usage_part
                        .zip(level.node.shares_part)
                        .is_some_and(|(used, share)| used > share)
                });
                match beyond {
                    None => self.line("No level has used more than its share."),
                    Some(level) => {
                        let name = self.node_label(&level.node.name, &level.node.kind);
                        let text = format!(
                            "{name} has used more than its share, and stays above it as long as its siblings use nothing."
                        );
                        self.line(&text)
                    }
                }
            }
            Some((level, at)) => {
                let node = self.node_label(&level.node.name, &level.node.kind);
                let is_user = level.node.kind.as_ref() == "user";
                let name = if is_user { node.clone() } else { format!("everyone below {node}") };
                let text = format!(
                    "If {name} is idle from now on and all others continue as before, the usage of {node} falls to its share {}.",
                    self.words.when(round_up_estimate(at, self.words.now))
                );
                self.line(&text)
            }
        }
    }
}

/// Returns true if the site shows users only their own numbers.
fn hides_numbers_of_other_users(standing: &Standings) -> bool {
    standing.public.as_deref() == Some("own")
        && standing.associations.iter().all(|association| association.levels.len() <= 1)
}

/// Rounds an estimated time up: to 5 minutes within a day from `now`, and else to an hour. Starts and ends of jobs change
/// the estimate by minutes. The unit is seconds since the epoch.
fn round_up_estimate(time: f64, now: f64) -> f64 {
    let step = if time - now < 86_400.0 { 300.0 } else { 3600.0 };
    (time / step).ceil() * step
}

/// Returns a sentence about the place of the association in the ranking.
fn describe_place(association: &AssociationStanding, standing: &Standings, name: &str) -> String {
    let fairshare = association.fairshare.map(|fairshare| format!("fair-share {fairshare:.6}"));
    let with = |text: String| match &fairshare {
        Some(fairshare) => format!("{text}; {fairshare}."),
        None => format!("{text}."),
    };
    match association.rank {
        Some(rank) => {
            let ahead = describe_associations_ahead(rank.before, name, rank.tied);
            with(format!("{} of {} associations: {ahead}", ordinal(rank.place), number(rank.of)))
        }
        None if association.is_removed => {
            "Removed: running jobs still count here; new jobs are rejected.".to_owned()
        }
        None if !association.is_active => with("Inactive: not ranked; new jobs are rejected".to_owned()),
        None if !standing.heading.live => {
            with("Not ranked: the plugin has no tree, so fair-shares stay as pushed".to_owned())
        }
        None => with("No place yet".to_owned()),
    }
}

pub(super) fn describe_jobs(association: &AssociationStanding) -> String {
    let jobs = association.jobs;
    let blocked = match jobs.blocked {
        0 => String::new(),
        blocked => format!(", {} more blocked (urgency 0, priority 0 or dependencies)", number(blocked)),
    };
    format!(
        "Jobs: {} running on {}, {} pending, {} more held{blocked}.",
        number(jobs.running),
        count(jobs.cores, "core"),
        number(jobs.pending),
        number(jobs.held)
    )
}

fn make_levels_title(standing: &Standings) -> String {
    let policy = standing.heading.policy.as_ref().map(|policy| format!(" ({policy})")).unwrap_or_default();
    format!("The levels of the tree{policy}:")
}

/// Returns the cells that levels and siblings share: share, usage, value and bar.
fn make_number_cells(node: &Sibling, depth: usize) -> Vec<Cell> {
    let cells = |part: f64| (part.clamp(0.0, 1.0) * BAR as f64).round() as usize;
    let bar = match (node.shares_part, node.usage_part) {
        (Some(share), Some(used)) if depth > 0 => Cell::Bar { usage: cells(used), share: cells(share) },
        _ => Cell::None,
    };
    let [share, used, value] = make_share_usage_and_value_cells(node);
    vec![share, used, value, bar]
}

/// Returns the name of a limit, with its bank and queue if it has them.
fn limit_name(limit: &LimitUsage) -> String {
    let bank = limit.name.as_deref().filter(|_| limit.scope == "bank");
    let within: Vec<&str> = bank.into_iter().chain(limit.queue.as_deref()).collect();
    match within.as_slice() {
        [] => limit.limit.to_string(),
        within => format!("{} ({})", limit.limit, within.join(", ")),
    }
}

/// Returns the deposits less the spent and the committed amount, or `None` if the caller may not see them.
pub(super) fn left(budget: &BudgetShown) -> Option<i64> {
    let not_spent = budget.deposited.saturating_sub_unsigned(budget.spent?);
    Some(not_spent.saturating_sub_unsigned(budget.committed?))
}

/// Returns the time until which a budget lasts at its rate, or `None` if the window does not include `now`, if nothing is left, or if the
/// caller may not see the amounts.
pub(super) fn lasts_until(budget: &BudgetShown, now: f64) -> Option<f64> {
    let not_spent = budget.deposited.saturating_sub_unsigned(budget.spent?);
    estimate_budget_end(not_spent, budget.rate?, budget.end, now).filter(|_| budget.in_force)
}

/// Returns what a limit counts, such as jobs or nodes.
fn get_limited_resource_name(limit: &LimitUsage) -> &str {
    match limit.measure.as_ref() {
        "" => "jobs",
        measure => measure,
    }
}

/// Returns the bar of a limit. It is full only if the limit is reached, and empty only if `used` is 0.
fn draw_limit_bar(used: u64, most: u64) -> String {
    let cells = match (used, most) {
        (0, _) => 0,
        (used, most) if used >= most => LIMIT_BAR,
        (used, most) => {
            ((used as f64 / most as f64 * LIMIT_BAR as f64).round() as usize).clamp(1, LIMIT_BAR - 1)
        }
    };
    format!("[{}{}]", "=".repeat(cells), " ".repeat(LIMIT_BAR - cells))
}
