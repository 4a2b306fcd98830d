// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare compare`: what another policy would change.

use serde_json::Value;

use super::input::{Input, Rules, rank};
use super::output::{Cell, Column, Look, OutputArgs, Report, Style};
use super::printable::count;
use super::progress::Progress;
use super::show::options_json;
use super::tau::kendall_tau;
use super::{Answer, Outcome, fingers};
use crate::fairshare::{NodeId, Policy};

/// Compare two policies on the same tree: who gains, who loses, how much the orders differ
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    input: Input,
    /// The two policies, the present one first
    #[arg(long, value_name = "FIRST,SECOND", value_parser = two_policies, required = true, help_heading = "Rules")]
    policies: (Policy, Policy),
    #[command(flatten)]
    rules: Rules,
    /// In the table, show this many winners and as many losers; 0 is all
    #[arg(
        long,
        value_name = "NUMBER",
        default_value_t = 10,
        conflicts_with = "output",
        help_heading = "Output"
    )]
    limit: usize,
    #[command(flatten)]
    output: OutputArgs,
}

fn two_policies(text: &str) -> Result<(Policy, Policy), String> {
    let Some((first, second)) = text.split_once(',') else {
        return Err("expected two policies with a comma between".to_owned());
    };
    Ok((fingers::policy(first)?, fingers::policy(second)?))
}

struct Change {
    node: NodeId,
    ranks: (u32, u32),
    fairshares: (Option<f64>, Option<f64>),
}

impl Change {
    fn gain(&self) -> i64 {
        i64::from(self.ranks.1) - i64::from(self.ranks.0)
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let options = args.rules.options()?;
    let (first, second) = args.policies;
    args.rules.apply_to(&[first, second])?;
    let mut progress = Progress::start();
    let tree = args.input.load(&options, &mut progress)?.tree;
    let source = args.input.source();
    progress.phase("ranking", || 0);
    let before = rank(source, &tree, first, &options)?;
    let after = rank(source, &tree, second, &options)?;
    let mut changes: Vec<Change> = tree
        .leaves()
        .filter_map(|node| {
            let ranks = (before.rank(node)?, after.rank(node)?);
            Some(Change { node, ranks, fairshares: (before.fairshare(node), after.fairshare(node)) })
        })
        .collect();
    let pairs: Vec<(u32, u32)> = changes.iter().map(|change| change.ranks).collect();
    let tau = kendall_tau(&pairs);
    let number = |wanted: fn(i64) -> bool| changes.iter().filter(|change| wanted(change.gain())).count();
    let (winners, losers) = (number(|gain| gain > 0), number(|gain| gain < 0));
    progress.phase("sorting", || 0);
    // The greatest gain first; ties in the order of the tree.
    changes.sort_by(|a, b| b.gain().cmp(&a.gain()).then(a.node.cmp(&b.node)));

    let stay = changes.len() - winners - losers;
    let mut notes = vec![format!(
        "{}: {winners} {}, {losers} {}, {stay} {}",
        count(changes.len(), "association"),
        if winners == 1 { "gains" } else { "gain" },
        if losers == 1 { "loses" } else { "lose" },
        if stay == 1 { "keeps its rank" } else { "keep their rank" },
    )];
    notes.push(match tau {
        Some(tau) => format!("Kendall tau {tau:.6} (1: same order, -1: reversed)"),
        None => "Kendall tau: nothing to compare, all are tied".to_owned(),
    });
    let ranked = changes.len();
    if args.output.is_table() && args.limit > 0 {
        let last_winner = winners.min(args.limit);
        let first_loser = changes.len() - losers.min(args.limit);
        changes = changes
            .into_iter()
            .enumerate()
            .filter(|(at, _)| *at < last_winner || *at >= first_loser)
            .map(|(_, change)| change)
            .collect();
        let left_out = winners + losers - changes.len();
        if left_out > 0 {
            notes.insert(0, format!("and {left_out} more (--limit 0 shows all)"));
        }
    }
    let rows = changes.iter().map(|change| {
        let gain = change.gain();
        vec![
            Cell::Text(tree.name(change.node).to_owned()),
            tree.parent(change.node).map_or(Cell::None, |bank| Cell::Text(tree.name(bank).to_owned())),
            Cell::Count(change.ranks.0.into()),
            Cell::Count(change.ranks.1.into()),
            if args.output.is_table() { Cell::Text(format!("{gain:+}")) } else { Cell::Number(gain as f64) },
            change.fairshares.0.into(),
            change.fairshares.1.into(),
        ]
    });
    let fairshares = (format!("{first} FS"), format!("{second} FS"));
    let column = |key, title, style| Column { key, title, style };
    let report = Report {
        facts: vec![
            ("policies", vec![first.name(), second.name()].into()),
            ("options", options_json(&options)),
            ("ranked", ranked.into()),
            ("winners", winners.into()),
            ("losers", losers.into()),
            ("kendall_tau", tau.map_or(Value::Null, Value::from)),
        ],
        rows_key: "associations",
        columns: vec![
            column("user", "User", Style::Text),
            column("bank", "Bank", Style::Text),
            column("rank_first", first.name(), Style::Count),
            column("rank_second", second.name(), Style::Count),
            column("change", "Change", Style::Count),
            column("fairshare_first", &fairshares.0, Style::Fraction),
            column("fairshare_second", &fairshares.1, Style::Fraction),
        ],
        rows: Box::new(rows),
        notes,
    };
    args.output.print_as(report, Look { header: true, give_up: &[] }, progress)?;
    Ok(Answer::Yes)
}
