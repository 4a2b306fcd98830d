// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare standing`: the place of an association, its limits, and how much of them is used.

pub(super) mod association;
mod better;
#[cfg(test)]
mod tests;
pub(super) mod total;

use serde_json::{Map, Value, json};

use crate::outcome::{Answer, Outcome, Result, failure};
use crate::plugin::ask::{InstanceArg, NO_DATA};
use crate::plugin::standing::fetch;
use crate::ui::companions::add_companion_members;
use crate::ui::figures::Unit;
use crate::ui::messages::remark;
use crate::ui::output::{OutputArgs, Report, print_json_or_text};
use crate::ui::progress::Progress;
use crate::ui::rows::{Cell, Look, Rows, Style, ValueColumn, value_column};
use crate::ui::screen::ScreenArgs;
use crate::ui::teller::TextPrinter;
use crate::ui::words::{Words, caller, userid};
use better::advise;
use fairshare_engine::engine::answers::{AssociationStanding, Standings};
use total::UserTotal;

/// Show where you stand, your limits and how much of them is used
///
/// For each of your associations: its place among all and how many are ahead of it, its fair-share, the levels of the tree above
/// it with their siblings, its decayed usage, its jobs, a bar for each limit that is set, and when its usage is back at its share if it is idle.
/// Then the usage in all of your banks: with decay, without decay for the jobs that Flux still lists, and when it will have expired.
/// If you are in several banks, the last line names the best bank for the next job. The site decides how much of the tree users may see. The instance owner may name any user, or list all associations.
///
/// Exit status 1 means that there is no such association, or that you may not see it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The user, by name or number, with /BANK if in several banks [default: yourself]
    #[arg(value_name = "USER[/BANK]")]
    user: Option<String>,
    /// Show only the association in this bank
    #[arg(short, long, value_name = "BANK", help_heading = "Selection")]
    bank: Option<String>,
    /// Print one line per association of the site
    #[arg(short = 'A', long, conflicts_with = "user", help_heading = "Selection")]
    all: bool,
    /// Also show the siblings of each level
    #[arg(short, long)]
    long: bool,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    output: OutputArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    let flux = args.instance.connect()?;
    let (user, of) = match args.user.as_deref().map(|text| text.split_once('/').unwrap_or((text, ""))) {
        Some((user, bank)) => (Some(userid(user).map_err(failure)?), bank),
        None => (None, ""),
    };
    if let Some(bank) = args.bank.as_deref().filter(|bank| !["", *bank].contains(&of)) {
        return Err(failure(format!("--bank is {bank}, but USER/BANK names {of}; name one bank")));
    }
    let bank = args.bank.as_deref().or((!of.is_empty()).then_some(of));
    let standing = fetch(&flux, &build_request(args.all, user, bank), usize::MAX)?;
    let words = Words::for_flux_instance(&flux, standing.heading.now);
    if standing.associations.is_empty() {
        if standing.heading.generation == 0 {
            remark(NO_DATA);
        } else {
            remark(describe_missing(args, user, bank, &words));
        }
        return Ok(Answer::No);
    }
    let total = match standing.associations.first() {
        Some(first) if !args.all && bank.is_none() => UserTotal::ask(&flux, first.userid.0, &standing),
        _ => None,
    };
    if args.output.json {
        return print_json(args, &standing, total.as_ref(), &words);
    }
    if args.all || !args.output.is_table() {
        print_list(args, &standing, &words)?;
        return Ok(Answer::Yes);
    }
    let screen = args.output.screen();
    let teller = TextPrinter::new(&screen, &words);
    for (at, association) in standing.associations.iter().enumerate() {
        if at > 0 {
            teller.out.blank();
            teller.out.blank();
        }
        teller.print_association(association, &standing, args.long, caller());
    }
    if let Some(total) = &total {
        teller.out.blank();
        teller.print_total(total, &standing);
    }
    if let Some(advice) = advise(&standing.associations) {
        teller.out.blank();
        teller.line(&advice);
    }
    print_json_or_text(&screen, None::<&Value>, &teller.out.into_bytes())?;
    Ok(Answer::Yes)
}

/// Prints the standing of the caller, in the bank if `user` is USER/BANK.
pub(super) fn print_own(user: &str, long: bool, instance: &InstanceArg, screen: ScreenArgs) -> Outcome {
    let (instance, output) = (instance.clone(), OutputArgs { screen, ..OutputArgs::default() });
    run(&Args { user: Some(user.to_owned()), bank: None, all: false, long, instance, output })
}

fn build_request(all: bool, user: Option<u32>, bank: Option<&str>) -> Map<String, Value> {
    let mut request = Map::new();
    request.extend(user.map(|user| ("user".to_owned(), json!(user))));
    request.extend(bank.map(|bank| ("bank".to_owned(), json!(bank))));
    request.extend(all.then(|| ("all".to_owned(), json!(true))));
    request
}

fn describe_missing(args: &Args, user: Option<u32>, bank: Option<&str>, words: &Words<'_>) -> String {
    let bank = bank.map(|bank| format!(" in bank {bank}")).unwrap_or_default();
    match user {
        Some(user) => format!("{} has no association{bank}", words.user(user)),
        None if args.all => "the plugin has no associations".to_owned(),
        None => format!(
            "you ({}) have no association{bank}: ask the administrators of this site",
            words.user(caller())
        ),
    }
}

/// Prints the plugin's answer as JSON, and adds user names and the remaining amounts of budgets.
fn print_json(args: &Args, standing: &Standings, total: Option<&UserTotal>, words: &Words<'_>) -> Outcome {
    let mut document = serde_json::to_value(standing).map_err(failure)?;
    let (now, associations) = (standing.heading.now, document.get_mut("associations"));
    let associations = associations.and_then(Value::as_array_mut).into_iter().flatten();
    for (association, shown) in associations.zip(&standing.associations) {
        let budgets = association.get_mut("budgets").and_then(Value::as_array_mut).into_iter().flatten();
        for (budget, shown) in budgets.filter_map(Value::as_object_mut).zip(&shown.budgets) {
            budget.insert("left".to_owned(), json!(association::left(shown)));
            budget.insert("lasts_until".to_owned(), json!(association::lasts_until(shown, now)));
        }
        if let Some(association) = association.as_object_mut() {
            association.insert("user".to_owned(), words.user(shown.userid.0).into());
        }
    }
    if let Some(members) = document.as_object_mut() {
        members.remove("next");
        members.insert("total".to_owned(), json!(total));
    }
    add_companion_members(&mut document, &|id| words.job(id));
    print_json_or_text(&args.output.screen(), Some(&document), &[])?;
    Ok(Answer::Yes)
}

/// An association, and the name of its user.
type ListedAssociation<'a> = (&'a AssociationStanding, String);

/// Returns the columns of the list of associations.
fn list_columns<'a>(usage: &'a str, unit: Unit) -> [ValueColumn<'a, ListedAssociation<'a>>; 13] {
    [
        value_column("place", "Place", Style::Count, |(one, _)| {
            one.rank.map(|rank| Cell::Count(rank.place as u64)).into()
        }),
        value_column("user", "User", Style::Text, |(_, user)| user.as_str().into()),
        value_column("bank", "Bank", Style::Text, |(one, _)| one.bank.as_str().into()),
        value_column("fairshare", "FairShare", Style::Fraction, |(one, _)| one.fairshare.into()),
        value_column("usage", usage, Style::Usage(unit), |(one, _)| one.usage.into()),
        value_column("running", "Running", Style::Count, |(one, _)| Cell::Count(one.jobs.running)),
        value_column("pending", "Pending", Style::Count, |(one, _)| Cell::Count(one.jobs.pending)),
        value_column("held", "Held", Style::Count, |(one, _)| Cell::Count(one.jobs.held)),
        value_column("blocked", "Blocked", Style::Count, |(one, _)| Cell::Count(one.jobs.blocked)),
        value_column("nodes", "Nodes", Style::Count, |(one, _)| Cell::Count(one.jobs.nodes)),
        value_column("cores", "Cores", Style::Count, |(one, _)| Cell::Count(one.jobs.cores)),
        value_column("active", "Active", Style::Flag, |(one, _)| Cell::Flag(one.is_active)),
        value_column("userid", "UserId", Style::Id, |(one, _)| Cell::Count(one.userid.0.into())),
    ]
}

/// Prints one line per association.
fn print_list(args: &Args, standing: &Standings, words: &Words<'_>) -> Result<()> {
    let mut associations: Vec<&AssociationStanding> = standing.associations.iter().collect();
    if args.all {
        let place =
            |association: &AssociationStanding| association.rank.map_or(usize::MAX, |rank| rank.place);
        associations.sort_by_key(|association| (place(association), association.userid));
    }
    let unit = Unit::new(standing.in_node_seconds);
    let usage = if unit == Unit::NodeSeconds { "NodeHours (decayed)" } else { "Usage (decayed)" };
    let rows = Rows::new(
        "associations",
        list_columns(usage, unit),
        associations.into_iter().map(|association| (association, words.user(association.userid.0))),
    );
    let report = Report { rows, ..Report::default() };
    let look = Look { give_up: &["userid", "cores", "nodes", "active", "blocked", "usage"], ..Look::WHOLE };
    Ok(args.output.print_as(report, look, Progress::none())?)
}
