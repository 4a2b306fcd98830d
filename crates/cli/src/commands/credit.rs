// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare credit`: changes of usage, with a reason and a log.

use clap::ValueEnum;
use jiff::tz::TimeZone;
use serde_json::json;
use strum::Display;

use super::{sync, usage};
use crate::clock;
use crate::outcome::{Answer, Outcome, Result, failure, mark_stored};
use crate::plugin::ask::ask;
use crate::site::database::DatabaseArg;
use crate::site::mending;
use crate::ui::figures::{Unit, format_moment, trim_decimals};
use crate::ui::messages::{remark, say};
use crate::ui::output::{OutputArgs, Report};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Look, Rows, Style, ValueColumn, value_column};
use crate::ui::words::format_user_or_id;
use fairshare_accounting::pipeline::credits;
use fairshare_accounting::store::{Access, Credit, MAX_CREDIT, Snapshot, UsageSettings, quote_for_shell};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{RankPosition, Standings};

const EXAMPLES: &str = include_str!("credit.txt").trim_ascii_end();

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Action {
    /// List all credits
    Log,
    /// Add usage, or subtract it with a negative amount
    Add,
    /// Set the usage to the amount
    Set,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Display)]
#[strum(serialize_all = "kebab-case")]
enum CreditUnit {
    /// Node hours, times the weight of a node
    NodeHours,
    /// Core hours, times the weight of a core
    CoreHours,
    /// GPU hours, times the weight of a GPU
    GpuHours,
    /// Usage in the unit of the database: weighted seconds
    Usage,
}

/// Add or subtract usage of an association, with a reason and a log
///
/// A credit counts like the usage of a job that ended at its time: it decays and expires with usage of that time. Without --from, this
/// time is now, so the credit expires later than earlier usage that it cancels. It stays in effect
/// after a recount, after a change of the half-life and after job records are removed. Usage is never below 0. If credits subtract
/// more than the ended jobs of an association used, the rest reduces the usage of its running and later jobs. The rest decays too.
///
/// The stored usage is that of ended jobs and decays at period boundaries. The live usage in the plugin includes running jobs and
/// decays continuously; it makes priorities, and "flux fairshare show" prints it. With --push, prints both, before and after.
///
/// "add" adds AMOUNT; a negative AMOUNT is a refund. "set" stores the difference between AMOUNT and the usage of the jobs on record
/// at this moment. Usage of jobs that end later, or whose records arrive later, is added.
///
/// Credits are in a table of the database that is only ever extended. To take back a credit, add the opposite amount with the same
/// --from. flux-accounting's programs, and --usage-rule flux-accounting, ignore credits.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = EXAMPLES)]
pub(crate) struct Args {
    /// The action
    #[arg(value_enum, default_value = "log")]
    action: Action,
    /// The association; log also accepts a user
    #[arg(value_name = "USER/BANK")]
    association: Option<String>,
    /// The amount
    #[arg(value_name = "AMOUNT", allow_negative_numbers = true)]
    amount: Option<String>,
    /// The reason, for the log
    #[arg(short, long, value_name = "TEXT")]
    reason: Option<String>,
    /// The unit of the amount
    #[arg(long, value_enum, default_value = "node-hours")]
    unit: CreditUnit,
    /// The time of the added usage: 2026-11-21, 2026-11-21T13:00, 2026-11-21T12:00:00Z, seconds since the epoch, or how long ago (90m, 12h, 7d, 4w)
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Also sync, which pushes, so that the change takes effect at once
    #[arg(long)]
    push: bool,
    /// The current time, in seconds since the epoch
    #[arg(long, value_name = "SECONDS", value_parser = clock::parse_instant, help_heading = "Rules")]
    now: Option<f64>,
    #[command(flatten)]
    database: DatabaseArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    if args.action == Action::Log {
        return print_log(args);
    }
    let wanted = NewCredit::parse(args)?;
    let mut database = args.database.open(Access::Write)?;
    let snapshot = database.snapshot()?;
    if !snapshot.has_user(wanted.user, Some(wanted.bank))? {
        return Err(failure(format!(
            "there is no association {}/{} in the database",
            wanted.user, wanted.bank
        )));
    }
    let mut credit = wanted.credit(args, &snapshot)?;
    let before = sum_usage(&snapshot, &wanted, wanted.now);
    credit.id = snapshot.add_credit(&credit)?;
    let reduction =
        before.zip(sum_usage(&snapshot, &wanted, wanted.now)).map(|(before, after)| before - after);
    let settings = snapshot.usage_settings()?;
    let one = compute_usage_per_credit_unit(args.unit, &settings)?;
    let id = snapshot.user_ids().ok().and_then(|ids| ids.name_by_id("user", wanted.user)?.parse().ok());
    let dated = wanted.describe_undated_negative_credit(args, &credit, one, &settings);
    snapshot.commit()?;
    print(args, vec![credit]).map_err(mark_stored)?;
    let live = || ask_plugin_for_usage_and_rank(id.filter(|_| args.push)?, wanted.bank);
    let live_before = live();
    if args.push {
        sync::sync_database(&args.database, args.now, args.output.is_table()).map_err(mark_stored)?;
    }
    // The credit is already stored. If the database is locked now, only this note is left out.
    let sum = database.snapshot().ok().and_then(|now| sum_usage(&now, &wanted, clock::now(args.now)));
    let sums = reduction.zip(sum);
    if let Some((reduction, after)) = sums {
        remark(describe_sums(&wanted, args.unit, [after + reduction, after].map(|sum| sum / one)));
    }
    if let Some((before, after)) = live_before.zip(live()) {
        let [was, is] = [before.0, after.0].map(|usage| trim_decimals(&format!("{:.4}", usage / one)));
        remark(format_args!(
            "in force: the live usage of {}/{} is {is} {} instead of {was}; it differs from stored usage, because it includes running jobs \
             and decays from the end of each job, and stored usage decays only at period boundaries, as in flux-accounting",
            wanted.user, wanted.bank, args.unit
        ));
        if let (Some(was), Some(is)) = (before.1, after.1) {
            let was = if was.place == is.place {
                ", as before".to_owned()
            } else {
                format!(" instead of {}", was.place)
            };
            remark(format_args!(
                "the place of {}/{} by live fair-share is {} of {}{was}",
                wanted.user, wanted.bank, is.place, is.of
            ));
        }
    }
    dated.iter().for_each(remark);
    if !args.push && args.output.is_table() {
        remark(format_args!(
            "Takes effect at the next sync: {}",
            mending::format_command(&args.database, None, "sync")
        ));
    }
    Ok(Answer::Yes)
}

/// Returns the usage of ended jobs and credits. The sum is negative if credits subtract more than the jobs used; the usage is 0 then.
fn sum_usage(snapshot: &Snapshot<'_>, wanted: &NewCredit<'_>, now: f64) -> Option<f64> {
    credits::set_usage(snapshot, wanted.user, wanted.bank, 0.0, now).ok().map(|credit| -credit.usage)
}

/// Returns the usage in the plugin, which includes running jobs, and the rank. Returns `None` if the plugin does not answer.
fn ask_plugin_for_usage_and_rank(user: u32, bank: &str) -> Option<(f64, Option<RankPosition>)> {
    let flux = Flux::connect(None).ok()?;
    let answer: Standings = ask(&flux, "standing", &json!({"user": user, "bank": bank})).ok()?;
    let association = answer.associations.first()?;
    Some((association.usage?, association.rank))
}

/// A sum that is closer to 0 than this differs from 0 only by rounding.
const LEAST: f64 = 1e-9;

/// Describes how a credit changes the usage of an association. `sums` has the usage before and after the credit.
fn describe_sums(wanted: &NewCredit<'_>, unit: CreditUnit, sums: [f64; 2]) -> String {
    let NewCredit { user, bank, .. } = wanted;
    let [before, after] = sums;
    let later = "the usage of running and later jobs";
    let [was, is, all, rest] = [before.max(0.0), after.max(0.0), before - after, -after]
        .map(|hours| trim_decimals(&format!("{hours:.4}")));
    if after > -LEAST {
        format!(
            "with this credit, the stored usage of {user}/{bank}, of ended jobs, is {is} {unit} instead of {was}"
        )
    } else if before < LEAST {
        format!("warning: {user}/{bank} has no usage of ended jobs, so the credit reduces only {later}")
    } else {
        format!(
            "of the {all} {unit} of this credit, {was} reduce the usage of ended jobs, and {rest} reduce {later}"
        )
    }
}

/// The checked arguments of a new credit.
struct NewCredit<'a> {
    user: &'a str,
    bank: &'a str,
    amount: &'a str,
    number: f64,
    reason: &'a str,
    from: f64,
    now: f64,
}

impl NewCredit<'_> {
    fn parse(args: &Args) -> Result<NewCredit<'_>> {
        let fail = |text: String| Err(failure(text));
        let (Some(association), Some(amount)) = (&args.association, &args.amount) else {
            return fail(
                "USER/BANK and AMOUNT are missing, as in: flux fairshare credit add ann/physics -96 --reason outage --push"
                    .to_owned(),
            );
        };
        let Some((user, bank)) = association.split_once('/') else {
            return fail(format!(
                "expected USER/BANK, got \"{association}\"; the usage of a bank is the sum of its associations: change each of them"
            ));
        };
        let Some(number) = amount.parse().ok().filter(|number: &f64| number.is_finite()) else {
            return fail(format!("AMOUNT: expected a number, got \"{amount}\""));
        };
        let reason = parse_reason(args.reason.as_deref(), "usage")?;
        if args.action == Action::Set && number < 0.0 {
            return fail(format!("AMOUNT is {amount}, but usage is never below 0"));
        }
        if args.action == Action::Add && number == 0.0 {
            return fail("AMOUNT is 0, which changes nothing".to_owned());
        }
        let now = clock::now(args.now);
        let from = match &args.from {
            Some(_) if args.action == Action::Set => {
                return fail("--from: set changes the usage as of now".to_owned());
            }
            Some(text) => usage::parse_instant(text, now, &TimeZone::system()).map_err(failure)?,
            None => now,
        };
        if from > now {
            return fail(format!("--from: {} is in the future", args.from.as_deref().unwrap_or_default()));
        }
        Ok(NewCredit { user, bank, amount, number, reason, from, now })
    }

    /// Returns a note if `credit` reduces usage and the caller gave no date. The note shows the command with a date. `one` is the usage of
    /// one unit of the amount, for example of one node-hour.
    fn describe_undated_negative_credit(
        &self,
        args: &Args,
        credit: &Credit,
        one: f64,
        settings: &UsageSettings,
    ) -> Option<String> {
        (credit.usage < 0.0 && args.from.is_none()).then(|| {
            let expires = format_moment(self.now + longest_age(settings), &TimeZone::system());
            let [amount, back] = [1e4, -1e4].map(|scale| (credit.usage / one * scale).round() / 1e4);
            let unit = if args.unit == CreditUnit::NodeHours { String::new() } else { format!(" --unit {}", args.unit) };
            let command = mending::format_command(&args.database, None, "credit");
            let target = quote_for_shell(&format!("{}/{}", self.user, self.bank));
            format!(
                "the credit has the date of now, so the older usage that it cancels expires before it, and what is left of the credit then \
                 favours later jobs, until {expires} at the latest; to date it back: {command} add {target} {back}{unit} \
                 --reason undone && {command} add {target} {amount}{unit} --from TIME --reason TEXT"
            )
        })
    }

    /// Builds the credit from the arguments. For `credit set`, the credit is the difference from the stored usage.
    fn credit(&self, args: &Args, snapshot: &Snapshot<'_>) -> Result<Credit> {
        let settings = snapshot.usage_settings()?;
        let usage = self.number * compute_usage_per_credit_unit(args.unit, &settings)?;
        if usage.abs() > MAX_CREDIT {
            return Err(failure(format!(
                "AMOUNT: {} {} are {usage:e} usage, more than {MAX_CREDIT:e}",
                self.amount, args.unit
            )));
        }
        if self.from < self.now - longest_age(&settings) {
            return Err(failure(
                "--from: usage of that time has expired, so the credit would change nothing",
            ));
        }
        let credit = match args.action {
            Action::Set => credits::set_usage(snapshot, self.user, self.bank, usage, self.now)?,
            _ => Credit { usage, live_usage: usage, from: self.from, ..Credit::default() },
        };
        Ok(Credit {
            user: self.user.to_owned(),
            bank: self.bank.to_owned(),
            amount: self.amount.to_owned(),
            unit: args.unit.to_string(),
            reason: self.reason.to_owned(),
            author: author(),
            created: self.now,
            ..credit
        })
    }
}

/// Returns the age in seconds at which all usage has expired.
fn longest_age(settings: &UsageSettings) -> f64 {
    settings.half_life * ((settings.reset_period / settings.half_life).ceil().max(4.0) + 1.0)
}

/// Returns the usage of one `unit`.
fn compute_usage_per_credit_unit(unit: CreditUnit, settings: &UsageSettings) -> Result<f64> {
    let weights = settings.weights;
    let (setting, weight) = match unit {
        CreditUnit::NodeHours => ("node_weight", weights.node),
        CreditUnit::CoreHours => ("core_weight", weights.core),
        CreditUnit::GpuHours => ("gpu_weight", weights.gpu),
        CreditUnit::Usage => return Ok(1.0),
    };
    if weight == 0.0 {
        return Err(failure(format!(
            "--unit {unit}: {setting} is 0 in config_table, so {unit} add no usage; use another unit"
        )));
    }
    Ok(3600.0 * weight)
}

/// Returns the reason for the change of `what`. Returns an error if there is no reason, or only a word that a help text uses as a
/// placeholder, such as TEXT.
pub(super) fn parse_reason<'a>(reason: Option<&'a str>, what: &str) -> Result<&'a str> {
    let reason = reason.unwrap_or_default().trim();
    let bare = reason.trim_matches(|letter: char| !letter.is_alphanumeric());
    if ["", "text", "reason"].contains(&&*bare.to_lowercase()) {
        let given =
            if reason.is_empty() { "is missing".to_owned() } else { format!("\"{reason}\" is not a reason") };
        return Err(failure(format!("--reason {given}: state for the log why the {what} changes")));
    }
    Ok(reason)
}

/// Returns the name of the user who runs the command. Under sudo, this is the user who called sudo.
pub(super) fn author() -> String {
    let own = rustix::process::getuid().as_raw();
    let caller = std::env::var("SUDO_UID").ok().filter(|_| own == 0).and_then(|id| id.parse().ok());
    format_user_or_id(caller.unwrap_or(own))
}

fn print_log(args: &Args) -> Outcome {
    if args.amount.is_some() || args.reason.is_some() || args.from.is_some() || args.push {
        let text = "log has no AMOUNT, --reason, --from and --push; did you mean add?";
        return Err(failure(text));
    }
    let mut database = args.database.open(Access::Read)?;
    let snapshot = database.snapshot()?;
    let mut credits = snapshot.credits()?;
    let mut is_known = true;
    if let Some(name) = &args.association {
        let (user, bank) =
            name.split_once('/').map_or((name.as_str(), None), |(user, bank)| (user, Some(bank)));
        credits.retain(|credit| credit.user == user && bank.is_none_or(|bank| credit.bank == bank));
        is_known = !credits.is_empty() || snapshot.has_user(user, bank)?;
    }
    drop(snapshot);
    drop(database);
    if credits.is_empty() && args.output.is_table() {
        say(if is_known { "no credits" } else { "no credits: there is no such association" })?;
    } else {
        print(args, credits)?;
    }
    Ok(if is_known { Answer::Yes } else { Answer::No })
}

/// The columns of the table of credits.
pub(super) const COLUMNS: [ValueColumn<'static, Credit>; 11] = [
    value_column("id", "Id", Style::Id, |credit| Cell::Count(credit.id.unsigned_abs())),
    value_column("created", "Created", Style::Time, |credit| credit.created.into()),
    value_column("author", "Author", Style::Text, |credit| credit.author.as_str().into()),
    value_column("user", "User", Style::Text, |credit| credit.user.as_str().into()),
    value_column("bank", "Bank", Style::Text, |credit| credit.bank.as_str().into()),
    value_column("kind", "Kind", Style::Text, |credit| if credit.is_set { "set" } else { "add" }.into()),
    value_column("amount", "Amount", Style::Text, |credit| credit.amount.as_str().into()),
    value_column("unit", "Unit", Style::Text, |credit| credit.unit.as_str().into()),
    value_column("usage", "Usage", Style::Usage(Unit::Unknown), |credit| credit.usage.into()),
    value_column("from", "From", Style::Time, |credit| credit.from.into()),
    value_column("reason", "Reason", Style::Text, |credit| credit.reason.as_str().into()),
];

fn print(args: &Args, credits: Vec<Credit>) -> std::io::Result<()> {
    let rows = Rows::new("credits", COLUMNS, credits);
    // The column Usage shows the credit's amount in another unit, so it may be left out.
    let look = Look { give_up: &["usage", "kind"], ..Look::WHOLE };
    args.output.print_as(Report { rows, ..Report::default() }, look, Progress::none())
}
