// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of each format: the resulting tree, and the errors about invalid input.

use super::*;
use fairshare::{Shares, Tree};

/// Returns the nodes of a tree in input order, each as a line "depth name shares usage".
fn to_lines(builder: Builder) -> Vec<String> {
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
    tree.list_nodes_in_input_order().into_iter().map(line).collect()
}

fn build_tree(builder: Result<Builder, String>) -> Tree {
    builder.expect("read").build().expect("a tree")
}

#[test]
fn an_import_reads_the_json_document_of_a_tree() {
    let text = r#"{"source": "ignored",
        "banks": [{"name": "root", "parent": null, "shares": null}, {"name": "z", "parent": "root", "shares": 2.0},
                  {"name": "a", "parent": "root", "shares": "parent", "usage": 1.5}],
        "associations": [{"user": "u2", "bank": "z", "shares": 18446744073709551615, "usage": null},
                         {"user": "u1", "bank": "z", "shares": 0, "usage": 0.1, "active": 0},
                         {"user": "u3", "bank": "a", "shares": 1, "usage": 2, "active": true}]}"#;
    assert_eq!(detect_format(text), Some(Format::Tree));
    let expected = [
        "0 root 1 -",
        "1 z 2 -",
        "2 u2 18446744073709551615 -",
        "2 u1 0 0.1 off",
        "1 a parent 1.5",
        "2 u3 1 2",
    ];
    assert_eq!(to_lines(documents::read_tree(text).expect("read")), expected);
}

#[test]
fn errors_in_a_plain_document_name_the_node_and_the_value() {
    let wrap = |association: &str| {
        format!(r#"{{"banks":[{{"name":"root","parent":null}}],"associations":[{association}]}}"#)
    };
    let shares = "expected a whole number from 0 to 18446744073709551615 or \"parent\"";
    let of_u = |key: &str, value: &str| format!("user \"u\" in bank \"root\": {key} is {value}, expected ");
    let leaf =
        |shares: &str, more: &str| wrap(&format!(r#"{{"user":"u","bank":"root","shares":{shares}{more}}}"#));
    let bank = |more: &str| format!(r#"{{"banks":[{{"name":"b"{more}}}],"associations":[]}}"#);
    let rows = [
        (leaf("-1", ""), of_u("shares", "-1") + &shares[9..]),
        (leaf("1.5", ""), of_u("shares", "1.5") + &shares[9..]),
        (leaf("18446744073709551616", ""), of_u("shares", "18446744073709551616") + &shares[9..]),
        (leaf("\"all\"", ""), of_u("shares", "\"all\"") + &shares[9..]),
        (leaf("[1]", ""), of_u("shares", "[1]") + &shares[9..]),
        (leaf("null", ""), "user \"u\" in bank \"root\": shares is missing".to_owned()),
        (leaf("1", r#","usage":"x""#), of_u("usage", "\"x\"") + "a number from 0 to 1e298"),
        (leaf("1", r#","usage":1e400"#), of_u("usage", "1e400") + "a number from 0 to 1e298"),
        (leaf("1", r#","usage":-3"#), of_u("usage", "-3") + "a number from 0 to 1e298"),
        (leaf("1", r#","active":"yes""#), of_u("active", "\"yes\"") + "true, false, 1 or 0"),
        (leaf("1", r#","active":2"#), of_u("active", "2") + "true, false, 1 or 0"),
        (wrap(r#"{"user":5,"bank":"root"}"#), "association 1: user is 5, expected text".to_owned()),
        (wrap(r#"{"user":"u","shares":1}"#), "association 1: user \"u\": bank is missing".to_owned()),
        (bank(r#","parent":"a""#), "bank \"b\": shares is missing".to_owned()),
        (bank(r#","parent":7"#), "bank \"b\": parent is 7, expected text".to_owned()),
        (
            bank(r#","usage":1e299"#),
            "bank \"b\": usage is 1e299, expected a number from 0 to 1e298".to_owned(),
        ),
        (r#"{"banks":[]}"#.to_owned(), "missing field `associations` at line 1 column 12".to_owned()),
        ("{".to_owned(), "EOF while parsing an object at line 1 column 1".to_owned()),
    ];
    for (text, expected) in rows {
        assert_eq!(documents::read_tree(&text).expect_err(&text), expected, "{text}");
    }
}

#[test]
fn a_usage_of_minus_zero_becomes_zero() {
    let text = r#"{"banks":[{"name":"root","parent":null}],"associations":[{"user":"u","bank":"root","shares":1,"usage":-0.0}]}"#;
    assert_eq!(to_lines(documents::read_tree(text).expect("read")), ["0 root 1 -", "1 u 1 0"]);
}

#[test]
fn a_site_document_is_detected() {
    let text = r#"{"associations": [], "queues": [], "projects": [], "banks": [], "config": {}, "priority_factors": []}"#;
    assert_eq!(detect_format(text), Some(Format::ExportJson));
}

const SSHARE: &str = "\
Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS|GrpTRESMins|TRESRunMins
root|||0.000000|1000||1.000000||||cpu=0
 root|root|1|0.062500|0|0.0|0.0|1.0|inf||cpu=0
 a||10|0.625000|900|0.9|0.9||0.5||cpu=0
  a|u1|parent|0.625000|400|0.4|0.4|0.5|1.1||cpu=0
  b||3|1.000000|400|0.9|0.9||0.5||cpu=0
   b|u1|7|1.000000|399|0.4|0.4|0.5|1.1||cpu=0
 c||5|0.312500|100|0.9|0.9||0.5||cpu=0
";

#[test]
fn the_usage_of_deleted_users_is_imported_as_own_usage_of_their_account() {
    assert_eq!(detect_format(SSHARE), Some(Format::Sshare));
    // Account c has no users any more, so its usage of 100 is its own usage. In account b, the difference of
    // 1 is rounding. In account a, the difference of 100 is not.
    let expected =
        ["0 root 1 -", "1 root 1 0", "1 a 10 100", "2 u1 parent 400", "2 b 3 -", "3 u1 7 399", "1 c 5 100"];
    assert_eq!(to_lines(slurm::read_sshare(SSHARE).expect("read").builder), expected);
}

#[test]
fn errors_in_sshare_output_name_the_line_and_the_value() {
    // The output is cut within its last line. The rest of that line must be an error, not a user without usage.
    let cut = SSHARE.split_inclusive('\n').take(6).chain(["   b|u2"]).collect::<String>();
    let flat = SSHARE.replace("\n ", "\n").replace("\n ", "\n").replace("\n ", "\n");
    let rows = [
        (flat.as_str(), "line 4: account \"a\": its indentation does not show its parent account"),
        ("Account|User|RawUsage\n", "no column RawShares in the header"),
        ("Account|User|RawShares|RawUsage\nroot|||0\n a||x|0\n", "line 3: RawShares is \"x\""),
        ("Account|User|RawShares|RawUsage\nroot|||0\n a||1|much\n", "line 3: RawUsage is \"much\""),
        (&cut, "line 7: 2 of 11 columns: the row is cut off"),
        (
            "Account|User|RawShares|RawUsage\nroot|||0\n b|u|1|0\n",
            "user \"u\": expected account \"b\" directly above this user",
        ),
    ];
    for (text, expected) in rows {
        let error = slurm::read_sshare(text).expect_err(text);
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
fn a_resource_group_file_is_read_with_usages() {
    assert_eq!(detect_format(RESOURCE_GROUP), Some(Format::ResourceGroup));
    let usages = pbs::read_usage_list("Bob 100\nmallory: 3.5\n").expect("usages");
    let expected =
        ["0 root 1 -", "1 Suzy 60 -", "1 g1 40 -", "2 Bob 50 100", "1 unknown 0 -", "2 mallory 1 3.5"];
    assert_eq!(
        to_lines(pbs::read_resource_group(RESOURCE_GROUP, &usages, None, &mut Vec::new()).expect("read")),
        expected
    );
}

#[test]
fn errors_in_pbs_files_name_the_line_and_the_value() {
    let rows = [
        ("g1 50 root\n", "line 1: expected name, id, parent and shares"),
        ("g1 x root 1\n", "line 1: \"g1\": id is \"x\""),
        ("\ng1 1 root -4\n", "line 2: \"g1\": shares is \"-4\""),
    ];
    for (text, expected) in rows {
        let error = pbs::read_resource_group(text, &[], None, &mut Vec::new()).expect_err(text);
        assert!(error.contains(expected), "{error}");
    }
    let rows = [
        ("Bob\n", "line 1: expected a name and a usage"),
        ("a 1\nusr1 -5\n", "line 2: \"usr1\": usage is \"-5\", expected a number from 0 to 1e298"),
        ("usr1 nan", "line 1: \"usr1\": usage is \"nan\", expected a number from 0 to 1e298"),
        ("# names\na 1\nb 2\na 3\n", "line 4: \"a\" is listed twice"),
    ];
    for (text, expected) in rows {
        assert_eq!(pbs::read_usage_list(text).expect_err(text), expected);
    }
    let row =
        |shares, group, usage| format!("x : Grp: {group} cgrp: 5 Shares: {shares} Usage: {usage} Perc: 1%\n");
    let head = "Fairshare usage units are in: cput\n";
    for (text, expected) in [
        (row("-3", "0", "1"), "line 2: \"x\": shares is \"-3\", expected a whole number >= 0"),
        (row("1", "7", "1"), "line 2: \"x\": there is no group 7"),
        (row("1", "?", "1"), "line 2: \"x\": Grp is \"?\", expected a whole number"),
        (row("1", "0", "-2"), "line 2: \"x\": usage is \"-2\", expected a number from 0 to 1e298"),
        ("x : Grp: 1\n".to_owned(), "line 2: not a row of pbsfs's table"),
    ] {
        assert_eq!(pbs::read_pbsfs(&format!("{head}{text}")).expect_err(&text), expected);
    }
}

#[test]
fn a_file_with_one_bad_line_is_still_detected() {
    let bad_first = format!("g0 none root 1\n{RESOURCE_GROUP}");
    let bad_last = format!("{RESOURCE_GROUP}too few\n");
    for (text, expected) in [
        (bad_first, "line 1: \"g0\": id is \"none\", expected a whole number"),
        (bad_last, "line 6: expected name, id, parent and shares"),
        ("g1 50 root -4\n".to_owned(), "line 1: \"g1\": shares is \"-4\", expected a whole number >= 0"),
    ] {
        assert_eq!(detect_format(&text), Some(Format::ResourceGroup), "{text}");
        assert_eq!(pbs::read_resource_group(&text, &[], None, &mut Vec::new()).expect_err(&text), expected);
    }
}

#[test]
fn a_usage_of_a_group_is_left_out_with_a_note() {
    let usages = pbs::read_usage_list("g1 7\nBob 100\nunknown 3\n").expect("usages");
    let mut notes = Vec::new();
    let builder = pbs::read_resource_group(RESOURCE_GROUP, &usages, None, &mut notes).expect("read");
    assert_eq!(
        to_lines(builder),
        ["0 root 1 -", "1 Suzy 60 -", "1 g1 40 -", "2 Bob 50 100", "1 unknown 0 -"]
    );
    let note = |name| {
        format!(
            "the usage of group \"{name}\" is left out, as in OpenPBS: only entities, not groups, have a \
             usage"
        )
    };
    assert_eq!(notes, [note("g1"), note("unknown")]);
}

#[test]
fn a_pbsfs_table_is_read() {
    let text = "\
Fairshare usage units are in: cput
TREEROOT  : Grp: -1     cgrp: 0    Shares: -1     Usage: 34     Perc: 100.000%
p         : Grp: 0      cgrp: 110  Shares: 20     Usage: 1      Perc: 20.000%
ga        : Grp: 0      cgrp: 103  Shares: 30     Usage: 34     Perc: 30.000%
x         : Grp: 103    cgrp: 111  Shares: 0      Usage: 33     Perc:  0.000%
unknown   : Grp: 0      cgrp: 1    Shares: 0      Usage: 1      Perc:  0.000%
";
    assert_eq!(detect_format(text), Some(Format::Pbsfs));
    // PBS shows a missing usage as 1.
    assert_eq!(
        to_lines(pbs::read_pbsfs(text).expect("read").builder),
        ["0 root 1 -", "1 p 20 -", "1 ga 30 -", "2 x 0 33", "1 unknown 0 -"]
    );
    assert_eq!(pbs::read_usage_list(text).expect("usages"), [("x".to_owned(), 33.0)]);
    // Lines of a terminal before the table become empty lines.
    assert_eq!(pbs::read_usage_list(&format!("\n\n\n\n{text}")).expect("usages"), [("x".to_owned(), 33.0)]);
    // All entities that are not in the resource_group file have the number -1, which is also the group of the
    // root.
    let unlisted = "\
eve       : Grp: 1      cgrp: -1   Shares: 1      Usage: 300    Perc:  0.000%
mallory   : Grp: 1      cgrp: -1   Shares: 1      Usage: 30     Perc:  0.000%
";
    let usages = pbs::read_usage_list(&format!("{text}{unlisted}")).expect("usages");
    assert_eq!(usages, [("x".to_owned(), 33.0), ("eve".to_owned(), 300.0), ("mallory".to_owned(), 30.0)]);
}

#[test]
fn the_type_of_a_gpu_in_a_dump_of_sacctmgr_is_not_an_option() {
    let text = "Cluster - 'c'\nParent - 'root'\n\
        User - 'u1':GrpTRES=cpu=8,gres/gpu:a100=4,gres/gpu:h100=2:GrpTRESMins=gres/gpu=60:Fairsare=1:Fairshare=7\n\
        User - 'u2':Fairshare=5:GrpTRES=gres/gpu:s=2:MaxTRESPerJob=cpu=1,gres/gpu:p=4,gres/gpu:f=8 # a comment\n";
    let document = slurm::read_dump(text, &[]).expect("read");
    assert_eq!(document.notes, ["line 3: \"u1\": sacctmgr has no option \"fairsare\": left out"]);
    // Without their types, "s" and "f" would be short for shares and fairshare, and "p" for partition.
    assert_eq!(to_lines(document.builder), ["0 root 1 -", "1 u1 7 -", "1 u2 5 -"]);
}

#[test]
fn the_lines_that_sacctmgr_dump_prints_to_the_terminal_are_read() {
    let dump = "sacctmgr: Cluster - 'my-cluster':Fairshare=1\nsacctmgr: Parent - 'root'\n\
        sacctmgr: Account - 'a-b':Fairshare=5\nsacctmgr: Parent - 'a-b'\nsacctmgr: User - 'u1':Fairshare=7\n";
    let name = " No filename given, using ./my-cluster.cfg.\n";
    for text in [dump.to_owned(), format!("{name}{dump}"), format!("{dump}{name}")] {
        let text = tidy::erase_lines_around_output(&text);
        assert_eq!(detect_format(&text), Some(Format::SacctmgrDump), "{text}");
        let document = slurm::read_dump(&text, &[]).expect("read");
        assert_eq!(to_lines(document.builder), ["0 root 1 -", "1 a-b 5 -", "2 u1 7 -"]);
    }
}

#[test]
fn a_row_with_more_columns_than_its_header_is_an_error() {
    let text = "Account|User|Comment|Share\nroot|||1\n a||x|9\n  a|u1|x|7|2\n";
    let expected = "line 4: \"2\" is beyond the 4 columns of the header: a value contains the separator, so leave out \
                    its column with format=";
    assert_eq!(slurm::read_assoc(text, &[]).expect_err("too many"), expected);
    let with_separators = "Account|User|Share|\nroot||1|\n a||9|\n  a|u1|2| \n";
    let document = slurm::read_assoc(with_separators, &[]).expect("read");
    assert_eq!(to_lines(document.builder), ["0 root 1 -", "1 a 9 -", "2 u1 2 -"]);
}

#[test]
fn a_deleted_association_is_left_out_with_a_note() {
    let text = "Account|User|Share|Flags\nroot||1|None\n a||9|None\n  a|u1|2|UsersAreCoords\n  a|u2|3|Deleted\n\
        \x20b||5|Deleted,NoUpdate\n  b|u3|5|Deleted\n c||4|None\n";
    let document = slurm::read_assoc(text, &[]).expect("read");
    assert_eq!(document.notes, ["3 lines are about deleted associations and left out; the first is line 5"]);
    assert_eq!(to_lines(document.builder), ["0 root 1 -", "1 a 9 -", "2 u1 2 -", "1 c 4 -"]);
}

#[test]
fn shares_that_slurm_stores_as_not_set_are_one_share() {
    let dump = |shares: &str| {
        let text = format!("Cluster - 'c'\nParent - 'root'\nUser - 'u1':Fairshare={shares}\n");
        slurm::read_dump(&text, &[]).map(|document| to_lines(document.builder)[1].clone())
    };
    for (shares, expected) in [("4294967293", "4294967293"), ("4294967294", "1"), ("4294967295", "1")] {
        assert_eq!(dump(shares).expect("read"), format!("1 u1 {expected} -"));
        let json = format!(
            r#"{{"shares": {{"shares": [{{"name": "root", "parent": "", "shares": 4294967295, "type": ["ASSOCIATION"]}},
                {{"name": "u1", "parent": "root", "shares": {shares}, "usage": 5, "type": ["USER"]}}]}}}}"#
        );
        let document = slurm::read_json(&json).expect("read");
        assert_eq!(to_lines(document.builder), ["0 root 1 -".to_owned(), format!("1 u1 {expected} 5")]);
    }
    let expected = "Fairshare is \"4294967296\", expected a whole number from 0 to 4294967293 or \"parent\"";
    assert!(dump("4294967296").expect_err("too large").ends_with(expected));
}

#[test]
fn an_error_in_sshare_json_shows_the_number_of_an_object() {
    for (key, number, expected) in [
        ("shares", "-1", "is -1.0, expected a whole number from 0 to 4294967293"),
        ("shares", "1.5", "is 1.5, expected a whole number from 0 to 4294967293"),
        ("usage", "-400", "is -400.0, expected a number from 0 to 1e298"),
    ] {
        let number = format!(r#"{{"set": true, "infinite": false, "number": {number}}}"#);
        let json =
            format!(r#"{{"shares": {{"shares": [{{"name": "root", "parent": "", "{key}": {number}}}]}}}}"#);
        assert_eq!(
            slurm::read_json(&json).expect_err("bad"),
            format!("share 1 (\"root\"): {key} {expected}")
        );
    }
}

/// The user u of account b has the rank of root, because the empty account a is tied with b and comes before b. In the second text,
/// u has a rank of its own, so no account came before b.
#[test]
fn an_empty_account_comes_first_if_the_ranks_show_that_a_tie_continues() {
    let text = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare|LevelFS\n\
        root|||0.000000|9|1.000000||\n root|root|1|1.000000|0|0.000000|1.000000|inf\n a||0|0.000000|0|0.000000||0.000000\n\
        \x20b||0|0.000000|9|1.000000||0.000000\n  b|u|1|0.500000|3|0.333333|1.000000|1.500000\n\
        \x20 b|v|1|0.500000|6|0.666667|0.333333|0.750000\n";
    let order = |text: &str| {
        let lines = to_lines(slurm::read_sshare(text).expect("read").builder);
        lines
            .into_iter()
            .filter(|line| line.starts_with("1 a") || line.starts_with("1 b"))
            .collect::<Vec<_>>()
    };
    assert_eq!(order(text), ["1 a 0 -", "1 b 0 -"]);
    assert_eq!(order(&text.replace("1.000000|1.5", "0.666667|1.5")), ["1 b 0 -", "1 a 0 -"]);
}

/// Slurm prints these zeros until the first calculation, and indefinitely if PriorityType is priority/basic.
#[test]
fn rows_that_slurm_has_not_computed_do_not_show_the_ranking_policy() {
    let text = "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS\n\
        root|||0.232831|12000||0.000000||0.000000\n a||100|0.500000|12000||0.000000||0.000000\n\
        \x20 a|u1|1|0.500000|11973||0.000000|0.000000|0.000000\n  a|u2|1|0.500000|27||0.000000|0.000000|0.000000\n\
        \x20b||100|0.500000|0||0.000000||0.000000\n";
    let share = |name: &str, parent: &str, kind: &str, shares: u32, norm: f64| {
        format!(
            r#"{{"name": "{name}", "parent": "{parent}", "shares": {shares}, "shares_normalized": {norm}, "usage": 5,
                "usage_normalized": null, "effective_usage": 0, "fairshare": {{"factor": 0, "level": 0}}, "type": ["{kind}"]}}"#
        )
    };
    let shares = [
        share("root", "", "ASSOCIATION", 1, 0.2),
        share("a", "root", "ASSOCIATION", 100, 0.5),
        share("u1", "a", "USER", 1, 0.5),
        share("u2", "a", "USER", 1, 0.5),
        share("b", "root", "ASSOCIATION", 100, 0.5),
    ];
    let json = format!(r#"{{"shares": {{"shares": [{}]}}}}"#, shares.join(","));
    for document in [slurm::read_sshare(text), slurm::read_json(&json)] {
        let Document { policy, undecided, claims, uncomputed, .. } = document.expect("read");
        assert_eq!((policy, undecided, claims, uncomputed), (Policy::FairTree, None, Vec::new(), 2));
    }
}

#[test]
fn files_of_slurm_and_pbs_without_a_tree_are_named_with_a_remedy() {
    let licence = "# a line of the licence\n".repeat(50);
    for (text, what, remedy) in [
        (
            format!("{licence}\nround_robin: False\tall\n#unknown_shares: 10\nfair_share: false\tALL\n"),
            "sched_config",
            "resource_group",
        ),
        (
            "#\n# Create queues\n#\ncreate queue workq\nset queue workq max_run = [u:PBS_GENERIC=4]\n".into(),
            "qmgr",
            "pbsfs",
        ),
        ("01/26/2016 00:00:37;E;29.pbs;user=u group=g queue=q\n".into(), "list of jobs of PBS", "pbsfs"),
        ("Job id  Name  User  Time Use S Queue\n------  ----\n".into(), "list of jobs of PBS", "pbsfs"),
        ("# slurm.conf\nAuthType=auth/munge\nClusterName=c\n".into(), "Slurm's configuration", "sshare"),
        ("JobID|User|Account|State\n1|u1|a|COMPLETED\n".into(), "sacct, which", "sshare"),
        ("JobID    JobName\n------ --------\n1      x\n".into(), "sacct, which", "sshare"),
        ("Name|Priority|GraceTime|Flags\nnormal|0|00:00:00|\n".into(), "list of QOS", "sshare"),
        (
            format!("; MaxProcs: 8\n{}", "1 0 0 60 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n".repeat(3)),
            "a trace",
            "simulate --trace",
        ),
        (
            "   Account   User Raw Shares Norm Shares   Raw Usage\n--------- ---- ---------- -----------\n"
                .into(),
            "table of sshare",
            "sshare",
        ),
    ] {
        assert_eq!(detect_format(&text), None, "{text}");
        let hint = known::describe_text(&text).expect(&text);
        assert!(hint.contains(what) && hint.contains(remedy), "{text}: {hint}");
    }
    assert_eq!(known::describe_text("what is this\n"), None);
}

#[test]
fn a_user_with_the_name_of_a_program_stays_in_a_list_of_usages() {
    for text in [
        "slurm: 300\nann: 1\n",
        "ann: 1\ninfo: 2.5e3\n",
        "host$ 300\nann 1\nwarning_user 5\n",
        "warning: 7\nann: 1\n",
        "ann 1\nwarnings=5\n",
    ] {
        assert_eq!(tidy::erase_lines_around_output(text), text);
    }
    let groups =
        "host$ 60 root 10\nwarnings 61 root 20 a remark\nerror: 62 warnings 5\nsvc@site$ 63 warnings 7\n";
    assert_eq!(tidy::erase_lines_around_output(groups), groups);
    let builder = pbs::read_resource_group(groups, &[], None, &mut Vec::new()).expect("read");
    let expected =
        ["0 root 1 -", "1 host$ 10 -", "1 warnings 20 -", "2 error: 5 -", "2 svc@site$ 7 -", "1 unknown 0 -"];
    assert_eq!(to_lines(builder), expected);
    assert_eq!(tidy::erase_lines_around_output("Warning: 3 users skipped\nann: 1\n"), "\nann: 1\n");
    assert_eq!(tidy::erase_lines_around_output("sshare: error: no\nann: 1\n"), "\nann: 1\n");
}

#[test]
fn no_import_format_is_detected_for_unrelated_text() {
    assert_eq!(detect_format("hello\nworld\n"), None);
    assert_eq!(detect_format(""), None);
    let tree =
        build_tree(documents::read_tree(r#"{"banks":[{"name":"root","parent":null}],"associations":[]}"#));
    assert_eq!(tree.len(), 1);
}
