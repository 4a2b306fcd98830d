// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare complete`: the names of users, banks, queues and pending jobs, for the completion scripts of shells.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, json};

use crate::outcome::{Answer, Outcome};
use crate::plugin::ask::configured_queues;
use crate::plugin::{jobs, live_tree, standing};
use crate::ui::messages::say;
use crate::ui::words::{caller, format_user_or_id};
use fairshare_client::Flux;
use fairshare_engine::engine::answers::{AssociationStanding, Sibling};

/// The longest time that the command waits for the names.
const PATIENCE: Duration = Duration::from_secs(1);
/// The largest number of job ids that the command prints.
const JOBS: usize = 2000;

/// Print names for the completion scripts of shells
#[derive(Debug, clap::Args)]
#[command(hide = true)]
pub(crate) struct Args {
    /// Which names to print
    kind: Kind,
    /// The word that the user has typed so far
    #[arg(default_value = "", allow_hyphen_values = true)]
    word: String,
}

/// The names that the command can print.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Users,
    Banks,
    Queues,
    Jobs,
    /// What `why` explains: jobs and users.
    Subjects,
}

/// Prints the completions of a word. Prints nothing if the names do not arrive in time, because a shell can't
/// show an error.
pub(super) fn run(args: &Args) -> Outcome {
    let (sender, receiver) = mpsc::channel();
    let kind = args.kind;
    thread::spawn(move || sender.send(list_names(kind)));
    for offer in complete_word(&args.word, receiver.recv_timeout(PATIENCE).unwrap_or_default()) {
        say(offer)?;
    }
    Ok(Answer::Yes)
}

/// Returns the completions of `word`. Each completion is the text up to the last comma of `word`, followed by
/// a name. The name starts with the text of `word` after the comma.
fn complete_word(word: &str, mut names: Vec<String>) -> Vec<String> {
    let (before, typed) = match word.rfind(',') {
        Some(comma) => word.split_at(comma + 1),
        None => ("", word),
    };
    names.sort_unstable();
    names.dedup();
    let continues = |name: &String| is_plain(name) && name.starts_with(typed);
    names.into_iter().filter(continues).map(|name| format!("{before}{name}")).collect()
}

/// Returns true if a shell takes the name as one word. Bash expands the words of a list, so bash would run a
/// name such as `$(id)`.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|letter| letter.is_alphanumeric() || "_-.@+/".contains(letter))
}

/// Returns the names of a kind that the caller may see. A caller who may not see the tree still gets the ids of their jobs.
fn list_names(kind: Kind) -> Vec<String> {
    let Ok(flux) = Flux::connect(None) else { return Vec::new() };
    let mut names = Vec::new();
    if kind == Kind::Queues {
        names.extend(configured_queues(&flux));
    }
    if matches!(kind, Kind::Jobs | Kind::Subjects) {
        let of_caller = Map::from_iter([("user".to_owned(), json!(caller()))]);
        if let Ok(page) = jobs::fetch(&flux, &of_caller, JOBS) {
            names.extend(page.jobs.iter().take(JOBS).map(|job| flux.format_job_id(job.id.0)));
        }
    }
    if matches!(kind, Kind::Users | Kind::Banks | Kind::Subjects) {
        match live_tree::fetch(&flux) {
            Ok(pages) => pages.into_iter().for_each(|page| match kind {
                Kind::Banks => names.extend(page.banks.into_iter().map(|bank| bank.name.to_string())),
                _ => names.extend(page.leaves.into_iter().map(|leaf| leaf.name)),
            }),
            // The site does not show its tree to users, or the plugin has no tree.
            Err(_) => {
                let answer = standing::fetch(&flux, &Map::new(), usize::MAX);
                let associations = answer.map(|answer| answer.associations).unwrap_or_default();
                let own = format_user_or_id(caller());
                names.extend(list_banks_or_users_of_caller(kind, &associations, own));
            }
        }
    }
    names
}

/// Returns the banks or the users that the plugin shows for the caller's associations. `own` is the name of the
/// caller.
fn list_banks_or_users_of_caller(kind: Kind, standings: &[AssociationStanding], own: String) -> Vec<String> {
    let is_wanted = |node: &&Sibling| (node.kind == "bank") == (kind == Kind::Banks);
    let levels = standings.iter().flat_map(|association| &association.levels);
    let nodes = levels.flat_map(|level| std::iter::once(&level.node).chain(&level.siblings));
    let mut names: Vec<String> = nodes.filter(is_wanted).map(|node| node.name.clone()).collect();
    match kind {
        Kind::Banks => {
            names.extend(standings.iter().map(|association| association.bank.to_string()));
        }
        _ => names.push(own),
    }
    names
}

#[cfg(test)]
mod tests {
    use super::{Kind, complete_word, list_banks_or_users_of_caller};
    use fairshare_engine::engine::answers::AssociationStanding;
    use serde_json::json;

    #[test]
    fn completion_completes_the_name_after_the_last_comma_of_a_word() {
        let names = || ["ben", "ann", "anna", "ann"].map(str::to_owned).to_vec();
        assert_eq!(complete_word("an", names()), ["ann", "anna"]);
        assert_eq!(complete_word("ann,b", names()), ["ann,ben"]);
        assert_eq!(complete_word("", names()), ["ann", "anna", "ben"]);
    }

    #[test]
    fn completion_offers_a_guest_their_own_names_and_the_names_that_the_site_shows() {
        let answer = |levels| json!([{"userid": 5001, "bank": "chem", "levels": levels}]);
        let bank = |name: &str| json!({"name": name, "kind": "bank", "shares": 1});
        let mut chem = bank("chem");
        chem["siblings"] = json!([bank("phys")]);
        let user = json!({"name": "ann", "kind": "user", "shares": 1});
        for (levels, banks, users) in [
            (json!([]), &["chem"][..], &["ann"][..]),
            (json!([bank("root"), chem, user]), &["chem", "phys", "root"], &["ann"]),
        ] {
            let standings: Vec<AssociationStanding> =
                serde_json::from_value(answer(levels)).expect("an answer");
            let of =
                |kind| complete_word("", list_banks_or_users_of_caller(kind, &standings, "ann".to_owned()));
            assert_eq!((of(Kind::Banks), of(Kind::Subjects)), (own(banks), own(users)));
        }
        assert_eq!(list_banks_or_users_of_caller(Kind::Users, &[], "ann".to_owned()), ["ann"]);
    }

    fn own(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_name_that_a_shell_would_expand_is_not_offered() {
        let names = ["$(id)", "`id`", "a b", "-x", "a;b", "a*", "ƒ2Y"].map(str::to_owned).to_vec();
        assert_eq!(complete_word("", names), ["ƒ2Y"]);
    }
}
