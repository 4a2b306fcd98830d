// SPDX-License-Identifier: LGPL-3.0-only
//! Published examples, rejected input and edge cases.
mod charged;
mod extremes;
mod figures;
mod outlook;
mod peers;
mod properties;
mod reference;
mod site;
mod toys;
mod why;

use std::cmp::Ordering;

use super::*;
use site::{Association, Bank, Site};

/// Builds a site from text: `bank parent shares` and `user bank shares usage`. `-` means none, `!` marks an inactive
/// user.
fn make_site(banks: &str, associations: &str) -> Site {
    let words = |line: &str| line.split_whitespace().map(String::from).collect::<Vec<_>>();
    let lines = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(words).filter(|words| !words.is_empty()).collect()
    };
    let shares = |word: &str| match word {
        "parent" => Shares::Parent,
        count => Shares::Count(count.parse().expect("shares")),
    };
    let usage =
        |word: Option<&String>| word.filter(|word| *word != "-").map(|word| word.parse().expect("usage"));
    let bank = |row: Vec<String>| Bank {
        name: row[0].clone(),
        parent: (row[1] != "-").then(|| row[1].clone()),
        shares: shares(&row[2]),
        usage: usage(row.get(3)),
    };
    let association = |row: Vec<String>| Association {
        user: row[0].trim_start_matches('!').into(),
        bank: row[1].clone(),
        shares: shares(&row[2]),
        usage: usage(row.get(3)),
        active: !row[0].starts_with('!'),
    };
    Site {
        banks: lines(banks).into_iter().map(bank).collect(),
        associations: lines(associations).into_iter().map(association).collect(),
    }
}

fn make_tree(banks: &str, associations: &str) -> Tree {
    Tree::build(&make_site(banks, associations)).expect("a tree")
}

/// Returns `user/bank` of each ranked association with its rank, best first.
fn list_ranks(tree: &Tree, policy: Policy, options: &Options) -> Vec<(String, u32)> {
    let ranking = tree.rank(policy, options).expect("a ranking");
    let describe = |&node: &NodeId| {
        let bank = tree.parent(node).expect("bank");
        (format!("{}/{}", tree.name(node), tree.name(bank)), ranking.rank(node).expect("rank"))
    };
    ranking.order().iter().map(describe).collect()
}

#[track_caller]
fn assert_ranks(tree: &Tree, policy: Policy, options: &Options, expected: &[(&str, u32)]) {
    let expected: Vec<_> = expected.iter().map(|&(name, rank)| (name.to_owned(), rank)).collect();
    assert_eq!(list_ranks(tree, policy, options), expected, "{policy}");
}

/// The example in flux-accounting's documentation.
fn flux_example() -> Tree {
    make_tree(
        "root - 1000
         account1 root 1000
         account2 root 100
         account3 root 10",
        "leaf.1.1 account1 10000 100
         leaf.1.2 account1 1000 11
         leaf.1.3 account1 100000 10
         leaf.2.1 account2 100000 8
         leaf.2.2 account2 10000 3
         leaf.3.1 account3 100 0
         leaf.3.2 account3 10 1",
    )
}

#[test]
fn weighted_walk_gives_the_numbers_of_flux_accountings_example() {
    let tree = flux_example();
    let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
    // The values are compared with as many decimals as the document shows.
    let assert_printed = |value: f64, printed: &str| {
        let decimals = printed.split_once('.').map_or(0, |(_, decimals)| decimals.len());
        assert_eq!(format!("{value:.decimals$}"), printed);
    };
    let rows = [
        ("leaf.1.1", "account1", "0.109009", "0.285714"),
        ("leaf.1.2", "account1", "0.0990991", "0.142857"),
        ("leaf.1.3", "account1", "10.9009", "0.428571"),
        ("leaf.2.1", "account2", "1.25", "0.714286"),
        ("leaf.2.2", "account2", "0.333333", "0.571429"),
        ("leaf.3.2", "account3", "0.0909091", "0.857143"),
        // flux-accounting's document shows the weight of this leaf as 1.84467e+19.
        ("leaf.3.1", "account3", "18446744073709551616", "1.0"),
    ];
    for (user, bank, weight, fairshare) in rows {
        let node = tree.leaf(user, bank).expect("leaf");
        let detail = ranking.detail(&tree, node);
        assert_printed(detail.weight.expect("weight"), weight);
        assert_printed(detail.fairshare.expect("ranked"), fairshare);
    }
    for (bank, usage, weight) in
        [("account1", 121.0, "0.990246"), ("account2", 11.0, "1.08927"), ("account3", 1.0, "1.1982")]
    {
        let detail = ranking.detail(&tree, tree.bank(bank).expect("bank"));
        assert_eq!(detail.usage, usage);
        assert_printed(detail.weight.expect("weight"), weight);
    }
    assert_eq!(ranking.usage(&tree, tree.root()), 133.0);
}

#[test]
fn pbs_fair_shares_equal_the_example_of_ticket_pp_718() {
    let tree = make_tree(
        "root - 1
         group1 root 40
         group2 root 60",
        "Bob group1 50 100
         Cathy group1 50 100
         Suzy group2 60 0
         Scott group2 40 1000",
    );
    let formula = Options { pbs_min_usage: 0.0, ..Options::default() };
    let ranking = tree.rank(Policy::Pbs, &formula).expect("a ranking");
    let leaf = |user, bank| tree.leaf(user, bank).expect("leaf");
    let bob = ranking.detail(&tree, leaf("Bob", "group1")).pbs.expect("pbs");
    assert_eq!(bob.fairshare_perc, 0.2);
    assert_eq!(bob.fairshare_tree_usage, 0.125);
    assert_eq!(format!("{:.3}", bob.fairshare_factor), "0.648");
    let suzy = ranking.detail(&tree, leaf("Suzy", "group2")).pbs.expect("pbs");
    assert_eq!(format!("{:.2} {:.1}", suzy.fairshare_perc, suzy.fairshare_tree_usage), "0.36 0.5");
    assert_eq!(format!("{:.3}", suzy.fairshare_factor), "0.382");
    // pbsfs prints the values below if the minimum usage is 1.
    let ranking = tree.rank(Policy::Pbs, &Options::default()).expect("a ranking");
    let scott = ranking.detail(&tree, leaf("Scott", "group2"));
    assert_eq!(format!("{:.6}", scott.effective_usage), "0.832973");
    assert_eq!(ranking.usage(&tree, tree.root()), 1201.0);
    assert_eq!(
        ranking.compare_by_pbs_walk(&tree, leaf("Bob", "group1"), leaf("Suzy", "group2")),
        Some(Ordering::Less)
    );
}

#[test]
fn an_invalid_site_is_rejected_with_the_name_of_the_node() {
    let banks = "root - 1\na root 1\n";
    let rows: [(&str, &str, &str); 16] = [
        ("", "", "there are no banks"),
        ("root - 1\na root 1 3e299", "", "bank \"a\": usage 3e299 is not a number from 0 to 1e298"),
        ("a b 1\nb a 1", "", "no root: every bank has a parent"),
        ("a - 1\nb - 1", "", "several roots: neither bank \"a\" nor bank \"b\" has a parent"),
        ("root - 1\na gone 1", "", "bank \"a\": its parent \"gone\" does not exist"),
        ("root - 1\na a 1", "", "bank \"a\" is its own ancestor"),
        ("root - 1\nx a 1\na b 1\nb a 1", "", "bank \"a\" is its own ancestor"),
        ("root - 1\na root 1\na root 2", "", "bank \"a\" appears twice"),
        ("root - 1\nroot - 1", "", "bank \"root\" appears twice"),
        (banks, "u b 1 0", "user \"u\": bank \"b\" does not exist"),
        (banks, "a u 1 0\nu a 1 0", "user \"a\": bank \"u\" does not exist"),
        (banks, "u a 1 0\nv a 1 0\nu a 2 0", "user \"u\" is twice in bank \"a\""),
        (banks, "u a 1 -1", "user \"u\" in bank \"a\": usage -1 is not a number from 0 to 1e298"),
        (banks, "u a 1 NaN", "user \"u\" in bank \"a\": usage NaN is not a number from 0 to 1e298"),
        (banks, "u a 1 inf", "user \"u\" in bank \"a\": usage inf is not a number from 0 to 1e298"),
        ("root - 1\na root 1 -0.5", "", "bank \"a\": usage -0.5 is not a number from 0 to 1e298"),
    ];
    for (banks, associations, expected) in rows {
        let error = Tree::build(&make_site(banks, associations)).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn only_slurms_policies_accept_parent_shares() {
    let tree = make_tree("root parent 1\n".replace("parent", "-").as_str(), "u root parent 3\nv root 1 1");
    for policy in Policy::ALL {
        let outcome = tree.rank(policy, &Options::default()).map(|_| ()).map_err(|error| error.to_string());
        let expected = if [Policy::WeightedWalk, Policy::Pbs].contains(&policy) {
            Err(format!(
                "user \"u\" in bank \"root\": policy {policy} does not support shares \"parent\"; use a policy of Slurm, for example --policy fair-tree"
            ))
        } else {
            Ok(())
        };
        assert_eq!(outcome, expected);
    }
}

#[test]
fn policy_names_are_parsed_and_unknown_ones_rejected() {
    for policy in Policy::ALL {
        assert_eq!(policy.to_string().parse(), Ok(policy));
    }
    assert_eq!(Policy::default(), Policy::WeightedWalk);
    assert_eq!(
        "fairtree".parse::<Policy>().expect_err("unknown").to_string(),
        "unknown policy \"fairtree\"; known are weighted-walk, fair-tree, classic, depth-oblivious, pbs"
    );
}

#[test]
fn options_are_set_by_name_and_invalid_values_rejected() {
    let mut options = Options::default();
    for setting in ["ties=slurm-program", "pbs.min_usage=0", " dampening = 3 ", "inactive_usage=ignore"] {
        options.set(setting).expect(setting);
    }
    let expected = Options {
        ties: Ties::SlurmProgram,
        pbs_min_usage: 0.0,
        dampening: 3.0,
        inactive_usage: InactiveUsage::Ignore,
    };
    assert_eq!(options, expected);
    let mut again = Options::default();
    for (name, value) in options.settings() {
        again.set(&format!("{name}={value}")).expect(name);
    }
    assert_eq!(again, options);
    let rows = [
        ("ties", "\"ties\" is not of the form name=value"),
        ("tie=x", "unknown option \"tie\"; known are ties, pbs.min_usage, dampening, inactive_usage"),
        ("ties=slurm", "ties is \"slurm\", expected documented or slurm-program"),
        ("pbs.min_usage=-1", "pbs.min_usage is \"-1\", expected a number from 0 to 1e298"),
        ("pbs.min_usage=1e300", "pbs.min_usage is \"1e300\", expected a number from 0 to 1e298"),
        ("dampening=0", "dampening is \"0\", expected a number > 0"),
        ("dampening=nan", "dampening is \"nan\", expected a number > 0"),
        ("inactive_usage=", "inactive_usage is \"\", expected count or ignore"),
    ];
    for (setting, expected) in rows {
        assert_eq!(options.set(setting).expect_err(setting).to_string(), expected);
        assert_eq!(options, again, "{setting} changed an option");
    }
}

/// A user and a bank are equal. Under `weighted-walk`, the user is ranked before the bank. Under `fair-tree`,
/// the first user of the bank has the same rank as the user.
#[test]
fn each_policy_ranks_a_user_equal_to_a_bank_by_its_own_rule() {
    let tree = make_tree(
        "root - 1
         bank root 1
         empty root 1",
        "user root 1 10
         one bank 1 5
         two bank 1 5
         late root 1 40",
    );
    let options = Options::default();
    let walk = [("user/root", 4), ("one/bank", 3), ("two/bank", 3), ("late/root", 1)];
    assert_ranks(&tree, Policy::WeightedWalk, &options, &walk);
    let fair = [("user/root", 4), ("one/bank", 4), ("two/bank", 4), ("late/root", 1)];
    assert_ranks(&tree, Policy::FairTree, &options, &fair);
}

/// Slurm's documentation ranks the users of equal banks together. Slurm's program visits equal banks in the
/// order of its list.
#[test]
fn equal_banks_are_merged_or_visited_in_list_order() {
    let banks = |first, second| format!("root - 1\n{first} root 1\n{second} root 1");
    let users = "a1 a 1 2\na2 a 1 8\nb1 b 1 1\nb2 b 1 9";
    let merged = [("b1/b", 4), ("a1/a", 3), ("a2/a", 2), ("b2/b", 1)];
    for tree in [make_tree(&banks("a", "b"), users), make_tree(&banks("b", "a"), users)] {
        assert_ranks(&tree, Policy::WeightedWalk, &Options::default(), &merged);
        assert_ranks(&tree, Policy::FairTree, &Options::default(), &merged);
    }
    let program = Options { ties: Ties::SlurmProgram, ..Options::default() };
    let a_first = [("a1/a", 4), ("a2/a", 3), ("b1/b", 3), ("b2/b", 1)];
    assert_ranks(&make_tree(&banks("a", "b"), users), Policy::FairTree, &program, &a_first);
    let b_first = [("b1/b", 4), ("b2/b", 3), ("a1/a", 3), ("a2/a", 1)];
    assert_ranks(&make_tree(&banks("b", "a"), users), Policy::FairTree, &program, &b_first);
}

/// Weights that differ by less than flux-accounting's tolerance are tied, and users still come before banks.
#[test]
fn weights_within_the_tolerance_are_tied() {
    // u and b have equal quotients, but the weight of b is larger by one bit. User u must still come before
    // bank b.
    let tree = make_tree("root - 1\nb root 5", "u root 1 2\nv root 1 3\nw b 1 10");
    let ranking = tree.rank(Policy::WeightedWalk, &Options::default()).expect("a ranking");
    let weight = |node: Option<NodeId>| ranking.value(&tree, node.expect("node")).expect("weight");
    assert!(weight(tree.bank("b")) > weight(tree.leaf("u", "root")));
    let expected = [("u/root", 3), ("w/b", 2), ("v/root", 1)];
    assert_ranks(&tree, Policy::WeightedWalk, &Options::default(), &expected);
    let rows = [
        (1.0 + f64::EPSILON, 1.0, true),
        (1.0 + 2.0 * f64::EPSILON, 1.0, false),
        (1e-17, 0.0, true),
        (1e9 + 1e-7, 1e9, true),
        (1e9 + 1e-6, 1e9, false),
    ];
    for (a, b, equal) in rows {
        assert_eq!(Policy::WeightedWalk.is_tie(a, b), equal, "{a} {b}");
    }
}

#[test]
fn the_usage_of_an_inactive_user_still_counts_in_the_bank() {
    let tree = make_tree(
        "root - 1
         a root 1
         b root 1",
        "!heavy a 1 1000
         light a 1 1
         other b 1 10",
    );
    let count = Options::default();
    assert_ranks(&tree, Policy::WeightedWalk, &count, &[("other/b", 2), ("light/a", 1)]);
    let ignore = Options { inactive_usage: InactiveUsage::Ignore, ..count };
    assert_ranks(&tree, Policy::WeightedWalk, &ignore, &[("light/a", 2), ("other/b", 1)]);
    let ranking = tree.rank(Policy::Classic, &count).expect("a ranking");
    let heavy = tree.leaf("heavy", "a").expect("leaf");
    assert_eq!((ranking.rank(heavy), ranking.fairshare(heavy)), (None, None));
    assert_eq!(ranking.usage(&tree, heavy), 1000.0);
}

#[test]
fn nodes_are_found_by_name_and_walks_visit_all_nodes() {
    let tree = make_tree(
        "z top 1
         top - 1
         a top 1",
        "u z 1 0
         a top 1 0
         u a 1 0
         b a 1 0",
    );
    assert_eq!(tree.len(), 7);
    assert_eq!(tree.name(tree.root()), "top");
    assert_eq!(tree.leaf("u", "top"), None);
    assert_eq!(tree.leaf("u", "nowhere"), None);
    assert_eq!(tree.bank("u"), None);
    assert_eq!(
        tree.list_leaves_of_user("u").map(|node| tree.describe(node)).collect::<Vec<_>>(),
        ["user \"u\" in bank \"a\"", "user \"u\" in bank \"z\""]
    );
    let shown = |walk: Vec<(NodeId, usize)>| -> Vec<String> {
        walk.into_iter().map(|(node, depth)| format!("{depth}{}", tree.name(node))).collect()
    };
    assert_eq!(shown(tree.walk()), ["0top", "1a", "1a", "2b", "2u", "1z", "2u"]);
    assert_eq!(shown(tree.list_nodes_in_input_order()), ["0top", "1a", "1z", "2u", "1a", "2u", "2b"]);
    let second_a = tree.leaf("a", "top").expect("leaf");
    assert_eq!((tree.kind(second_a), tree.find_input_index(second_a)), (NodeKind::Association, 1));
    assert_eq!(tree.find_input_index(tree.bank("a").expect("bank")), 2);
}
