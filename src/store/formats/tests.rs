// SPDX-License-Identifier: LGPL-3.0-only
//! Each format: what is read, and what is said about what can't be.

use super::*;
use crate::fairshare::{Shares, Tree};

/// A tree as lines "depth name shares usage", siblings in list order.
fn lines(builder: Builder) -> Vec<String> {
    let tree = builder.build().expect("a tree");
    let line = |(node, depth)| {
        let shares = match tree.shares(node) {
            Shares::Count(count) => count.to_string(),
            Shares::Parent => "parent".to_owned(),
        };
        let usage = tree.own_usage(node).map_or("-".to_owned(), |usage| usage.to_string());
        let off = if tree.is_active(node) { "" } else { " off" };
        format!("{depth} {} {shares} {usage}{off}", tree.name(node))
    };
    tree.walk_list_order().into_iter().map(line).collect()
}

fn tree_of(builder: Result<Builder, String>) -> Tree {
    builder.expect("read").build().expect("a tree")
}

#[test]
fn plain_document() {
    let text = r#"{"source": "ignored",
        "banks": [{"name": "root", "parent": null, "shares": null}, {"name": "z", "parent": "root", "shares": 2.0},
                  {"name": "a", "parent": "root", "shares": "parent", "usage": 1.5}],
        "associations": [{"user": "u2", "bank": "z", "shares": 18446744073709551615, "usage": null},
                         {"user": "u1", "bank": "z", "shares": 0, "usage": 0.1, "active": 0},
                         {"user": "u3", "bank": "a", "shares": 1, "usage": 2, "active": true}]}"#;
    assert_eq!(detect(text), Some(Format::Tree));
    let expected = [
        "0 root 1 -",
        "1 z 2 -",
        "2 u2 18446744073709551615 -",
        "2 u1 0 0.1 off",
        "1 a parent 1.5",
        "2 u3 1 2",
    ];
    assert_eq!(lines(documents::tree(text).expect("read")), expected);
}

#[test]
fn plain_document_complaints() {
    let wrap = |association: &str| {
        format!(r#"{{"banks":[{{"name":"root","parent":null}}],"associations":[{association}]}}"#)
    };
    let rows = [
        (
            wrap(r#"{"user":"u","bank":"root","shares":-1,"usage":0}"#),
            "shares, a whole number >= 0 or \"parent\"",
        ),
        (
            wrap(r#"{"user":"u","bank":"root","shares":1.5,"usage":0}"#),
            "shares, a whole number >= 0 or \"parent\"",
        ),
        (
            wrap(r#"{"user":"u","bank":"root","shares":"all","usage":0}"#),
            "shares, a whole number >= 0 or \"parent\"",
        ),
        (wrap(r#"{"user":"u","bank":"root","usage":0}"#), "missing field `shares`"),
        (wrap(r#"{"user":"u","bank":"root","shares":1,"usage":"x"}"#), "expected f64"),
        (wrap(r#"{"user":"u","bank":"root","shares":1,"active":"yes"}"#), "true, false, 1 or 0"),
        (
            r#"{"banks":[{"name":"b","parent":"a"}],"associations":[]}"#.to_owned(),
            "bank \"b\": shares is missing",
        ),
        (r#"{"banks":[]}"#.to_owned(), "missing field `associations`"),
        ("{".to_owned(), "EOF"),
    ];
    for (text, expected) in rows {
        let error = documents::tree(&text).expect_err(&text);
        assert!(error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn nested_export() {
    let text = r#"{"root": {"bank": "root", "shares": 1, "usage": 3.0, "children": [
        {"bank": "A", "shares": 2, "usage": 3.0, "children": [{"username": "u", "shares": 5, "usage": 3.0}]},
        {"username": "v", "shares": 1, "usage": 0}]}}"#;
    assert_eq!(detect(text), Some(Format::Emulate));
    assert_eq!(
        lines(documents::emulate(text).expect("read")),
        ["0 root 1 -", "1 v 1 0", "1 A 2 -", "2 u 5 3"]
    );
    let error = documents::emulate(r#"{"root": {"bank": "r", "shares": 1, "children": [{"shares": 1}]}}"#);
    assert_eq!(error.expect_err("nameless"), "a child of bank \"r\" has neither bank nor username");
}

#[test]
fn an_export_for_the_plugin_is_told_apart() {
    let text = r#"{"associations": [], "queues": [], "projects": [], "banks": [], "config": {}, "priority_factors": []}"#;
    assert_eq!(detect(text), Some(Format::ExportJson));
}

const SSHARE: &str = "\
Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins
root|||0.000000|1000||1.000000||||cpu=0
 root|root|1|0.5|0|0.0|0.0|1.0|inf||cpu=0
 a||10|0.5|900|0.9|0.9||0.5||cpu=0
  a|u1|parent|0.5|400|0.4|0.4|0.5|1.1||cpu=0
  b||3|0.5|400|0.9|0.9||0.5||cpu=0
   b|u1|7|0.5|399|0.4|0.4|0.5|1.1||cpu=0
 c||5|0.5|100|0.9|0.9||0.5||cpu=0
";

#[test]
fn sshare_with_usage_of_deleted_users() {
    assert_eq!(detect(SSHARE), Some(Format::Sshare));
    // c has no users left: its 100 are its own. b's one unit is rounding, and so is nothing else of a's missing 100.
    let expected =
        ["0 root 1 -", "1 root 1 0", "1 a 10 100", "2 u1 parent 400", "2 b 3 -", "3 u1 7 399", "1 c 5 100"];
    assert_eq!(lines(slurm::sshare(SSHARE).expect("read")), expected);
}

#[test]
fn sshare_complaints() {
    let flat = SSHARE.replace("\n ", "\n").replace("\n ", "\n").replace("\n ", "\n");
    let rows = [
        (flat.as_str(), "line 4: account \"a\": its indentation does not show what it is below"),
        ("Account|User|RawUsage\n", "no column RawShares in the header"),
        ("Account|User|RawShares|RawUsage\nroot|||0\n a||x|0\n", "line 3: RawShares is \"x\""),
        ("Account|User|RawShares|RawUsage\nroot|||0\n a||1|much\n", "line 3: RawUsage is \"much\""),
        (
            "Account|User|RawShares|RawUsage\nroot|||0\n b|u|1|0\n",
            "user \"u\": account \"b\" is not right above",
        ),
    ];
    for (text, expected) in rows {
        let error = slurm::sshare(text).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
}

const RESOURCE_GROUP: &str = "\
# name id parent shares
g1 50 root 40
Bob 52 g1 50  extra words
* a comment
Suzy 54 TREEROOT 60
";

#[test]
fn resource_group_and_usages() {
    assert_eq!(detect(RESOURCE_GROUP), Some(Format::ResourceGroup));
    let usages = pbs::usages("Bob 100\nmallory: 3.5\n").expect("usages");
    let expected =
        ["0 root 1 -", "1 Suzy 60 -", "1 g1 40 -", "2 Bob 50 100", "1 unknown 0 -", "2 mallory 1 3.5"];
    assert_eq!(lines(pbs::resource_group(RESOURCE_GROUP, &usages).expect("read")), expected);
}

#[test]
fn pbs_complaints() {
    let rows = [
        ("g1 50 root\n", "line 1: expected name, id, parent and shares"),
        ("g1 x root 1\n", "line 1: \"g1\": id is \"x\""),
        ("\ng1 1 root -4\n", "line 2: \"g1\": shares is \"-4\""),
    ];
    for (text, expected) in rows {
        let error = pbs::resource_group(text, &[]).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
    assert!(pbs::usages("Bob\n").expect_err("no usage").contains("line 1: expected a name and a usage"));
    let twice = [("a".to_owned(), 1.0), ("a".to_owned(), 2.0)];
    assert_eq!(
        pbs::resource_group("a 1 root 1", &twice).expect_err("twice"),
        "usage of \"a\" is listed twice"
    );
}

#[test]
fn pbsfs_table() {
    let text = "\
Fairshare usage units are in: cput
TREEROOT  : Grp: -1     cgrp: 0    Shares: -1     Usage: 34     Perc: 100.000%
p         : Grp: 0      cgrp: 110  Shares: 20     Usage: 1      Perc: 20.000%
ga        : Grp: 0      cgrp: 103  Shares: 30     Usage: 34     Perc: 30.000%
x         : Grp: 103    cgrp: 111  Shares: 0      Usage: 33     Perc:  0.000%
unknown   : Grp: 0      cgrp: 1    Shares: 0      Usage: 1      Perc:  0.000%
";
    assert_eq!(detect(text), Some(Format::Pbsfs));
    // A usage of 1 is what PBS shows for none.
    assert_eq!(
        lines(pbs::pbsfs(text).expect("read")),
        ["0 root 1 -", "1 p 20 -", "1 ga 30 -", "2 x 0 33", "1 unknown 0 -"]
    );
    assert_eq!(pbs::usages(text).expect("usages"), [("x".to_owned(), 33.0)]);
}

#[test]
fn what_is_nothing_known() {
    assert_eq!(detect("hello\nworld\n"), None);
    assert_eq!(detect(""), None);
    let tree = tree_of(documents::tree(r#"{"banks":[{"name":"root","parent":null}],"associations":[]}"#));
    assert_eq!(tree.len(), 1);
}
