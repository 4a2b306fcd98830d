// SPDX-License-Identifier: LGPL-3.0-only
//! Outputs of Slurm from 14.03 to 26.05 and of OpenPBS, one small input for each version and format, in the
//! form that the sources of these programs print. Also inputs that earlier versions of the command refused or
//! ranked wrongly.

use std::path::Path;

use serde_json::{Value, json};

use super::golden::read_golden_files;
use super::imports::{assert_all_agree, find_golden, format_sshare};
use super::{RunResult, directory, fairshare, file};

/// Returns the path of an input from a user.
fn input_path(name: &str) -> String {
    let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/data/imports").join(name);
    path.to_str().expect("text").to_owned()
}

fn run_show(path: &str, more: &[&str]) -> RunResult {
    fairshare(["show", "--tree", path].into_iter().chain(more.iter().copied()))
}

/// Returns `user,fairshare` of all users, in the order of the input.
fn list_fairshares(path: &str, more: &[&str]) -> String {
    let columns = ["--csv", "-o", "user,fairshare", "--users-only", "--sort", "list", "--no-header"];
    let ran = run_show(path, &columns.into_iter().chain(more.iter().copied()).collect::<Vec<_>>());
    assert_eq!(ran.status, 0, "{ran:?}");
    ran.out.trim_end().replace('\n', " ")
}

/// Returns `user,shares` of all users.
fn list_shares(path: &str) -> String {
    let ran =
        run_show(path, &["--csv", "-o", "user,shares", "--users-only", "--sort", "list", "--no-header"]);
    assert_eq!(ran.status, 0, "{ran:?}");
    ran.out.trim_end().replace('\n', " ")
}

/// Returns the output of sshare as in Slurm 25.11 and later, where accounts have no FairShare. `long` adds the columns of `-l`.
fn format_sshare_25_11(golden: &Value, long: bool) -> String {
    let is_dropped =
        |column: &str| !long && ["NormUsage", "LevelFS", "GrpTRESMins", "TRESRunMins"].contains(&column);
    let whole = format_sshare(golden);
    let names: Vec<&str> = whole.lines().next().expect("a header").split('|').collect();
    let line = |line: &str| {
        let fields: Vec<&str> = line.split('|').collect();
        let is_account = fields[1].is_empty();
        let cells = names.iter().zip(&fields).filter(|(name, _)| !is_dropped(name));
        let cells = cells.map(|(name, cell)| if *name == "FairShare" && is_account { "" } else { *cell });
        cells.collect::<Vec<_>>().join("|") + "\n"
    };
    whole.lines().map(line).collect()
}

#[test]
fn sshare_output_of_slurm_25_11_reveals_its_ranking_policy() {
    for (name, golden) in read_golden_files("slurm") {
        for long in [true, false] {
            let path = file(&format!("since_25_11_{name}_{long}"), format_sshare_25_11(&golden, long));
            let ran = fairshare(["check-import", "--tree", &path]);
            assert_all_agree(&format!("{name} long {long}"), &ran);
            let policy = run_show(&path, &["--json"]).json()["policy"].clone();
            let expected = golden["algorithm"].as_str().expect("text").replace('_', "-");
            // If all usage is 0, classic and depth-oblivious give the same values.
            let same = expected == "depth-oblivious" && policy == "classic" && name.contains("zero_usage");
            assert!(policy == expected.as_str() || same, "{name} long {long}: {policy}");
        }
    }
}

#[test]
fn sshare_output_of_slurm_25_11_with_classic_fair_share_is_recognized() {
    assert_eq!(list_fairshares(&input_path("f01-sshare-25.11-classic.txt"), &[]), "u1,0.25 u2,1");
    assert_eq!(list_fairshares(&input_path("f01b-sshare-25.11-classic-flat.txt"), &[]), "u1,0.0625 u2,1");
    for name in ["f01-sshare-25.11-classic.txt", "f01b-sshare-25.11-classic-flat.txt"] {
        assert_all_agree(name, &fairshare(["check-import", "--tree", &input_path(name)]));
    }
}

/// A tree of one level, in which NormShares are equal under all rules.
const FLAT: &str = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
    root|||1.000000|10|1.000000|\n root|u1|1|0.250000|10|1.000000|0.062500\n root|u2|3|0.750000|0|0.000000|1.000000\n";

#[test]
fn a_flat_sshare_table_that_fits_several_policies_needs_the_policy_option() {
    let path = file("flat_undecided", FLAT);
    for arguments in [vec!["show"], vec!["why", "u1"], vec!["what-if", "--shares", "u1/root=2"]] {
        let ran = fairshare(arguments.into_iter().chain(["--tree", &path]));
        assert!(
            ran.error().contains("name the policy with --policy: fair-tree is Slurm's default, classic"),
            "{ran:?}"
        );
    }
    assert_eq!(list_fairshares(&path, &["--policy", "classic"]), "u1,0.0625 u2,1");
    assert_eq!(list_fairshares(&path, &["--policy", "fair-tree"]), "u1,0.5 u2,1");
    let ran = fairshare(["check-import", "--tree", &path]);
    assert!(
        ran.ok().ends_with("FairShare: 2 of 2 agree\nranked by classic, the best match of 4 ranking rules\n"),
        "{ran:?}"
    );
    // Fair Tree prints NormShares 0 for the root.
    let fair_tree = FLAT.replace("root|||1.0", "root|||0.0").replace("0.062500", "0.500000");
    assert_eq!(list_fairshares(&file("flat_fair_tree", fair_tree), &[]), "u1,0.5 u2,1");
}

#[test]
fn a_dump_of_25_05_with_qos_lines_is_read() {
    assert_eq!(list_shares(&input_path("f02-sacctmgr-dump-25.05.txt")), "u1,1");
    let text = "# To edit this file start with a cluster line for the new cluster\n# Parent - 'root'\n\
        QOS - 'normal':Description='Normal QOS's default: all':GraceTime=30\nQOS - 'gpu':Description='':Priority=10:MaxTRESPerUser=gres/gpu=4\n\
        Cluster - 'c':Fairshare=1:QOS='gpu,normal'\nParent - 'root'\nAccount - 'a':Description='a':Organization='a':Fairshare=5\n\
        User - 'root':DefaultAccount='root':AdminLevel='Administrator':Fairshare=1\nParent - 'a'\n\
        User - 'u1':Partition='cpu':DefaultAccount='a':Fairshare=2147483647\n";
    assert_eq!(list_shares(&file("dump_25_05", text)), "root,1 u1,parent");
}

/// The outputs of each data_parser of Slurm 23.11 to 26.05 for 0.5, for infinity and for a number that is not set.
const NUMBERS: [(&str, &str, &str, &str); 5] = [
    ("v0.0.40", "0.5", "Infinity", "NaN"),
    ("v0.0.41 of 25.05", "0.5", "1.8446744073709552e+19", "4294967294.0"),
    (
        "v0.0.42 to v0.0.45",
        r#"{"set": true, "infinite": false, "number": 0.5}"#,
        r#"{"set": false, "infinite": true, "number": 0.0}"#,
        r#"{"set": false, "infinite": false, "number": 0.0}"#,
    ),
    ("+complex", "0.5", "\"Infinity\"", "null"),
    (
        "v0.0.40, a set object",
        r#"{"set": true, "infinite": false, "number": 0.5}"#,
        r#"{"set": true, "infinite": false, "number": Infinity}"#,
        r#"{"set": true, "infinite": false, "number": NaN}"#,
    ),
];

#[test]
fn sshare_json_of_each_data_parser_version_is_read() {
    for (name, half, infinite, none) in NUMBERS {
        let share = |who: &str,
                     parent: &str,
                     kind: &str,
                     shares: &str,
                     usage: u32,
                     level: &str,
                     factor: &str| {
            format!(
                r#"{{"id": 1, "cluster": "c", "name": "{who}", "parent": "{parent}", "partition": "", "shares_normalized": {half},
                "shares": {shares}, "tres": {{"usage": [{{"name": "cpu", "value": {none}}}]}}, "effective_usage": {none},
                "usage_normalized": {half}, "usage": {usage}, "fairshare": {{"factor": {factor}, "level": {level}}}, "type": ["{kind}"]}}"#
            )
        };
        let not_set = r#"{"set": false, "infinite": false, "number": 0}"#;
        let text = format!(
            r#"{{"shares": {{"shares": [{}, {}, {}], "total_shares": 2}}, "meta": {{"text": "no \"Infinity, NaN\" here"}}}}"#,
            share("root", "", "ASSOCIATION", not_set, 5, none, "0.0"),
            share("u1", "root", "USER", "1", 5, half, half),
            share("u2", "root", "USER", "1", 0, infinite, "1.0"),
        );
        let path = file(&format!("json_{}", name.replace([' ', ',', '+'], "_")), text);
        assert_eq!(list_fairshares(&path, &[]), "u1,0.5 u2,1", "{name}");
        let ran = fairshare(["check-import", "--tree", &path]);
        assert!(ran.ok().starts_with("FairShare: 2 of 2 agree\nLevelFS: 2 of 2 agree\n"), "{name}: {ran:?}");
    }
    assert_all_agree("as sent", &fairshare(["check-import", "--tree", &input_path("f03-sshare-23.11.json")]));
    let wrong = r#"{"shares": {"shares": [{"name": "root", "parent": "", "usage": -Infinity, "type": ["ASSOCIATION"]}]}}"#;
    let ran = run_show(&file("json_usage", wrong), &[]);
    assert!(ran.error().contains("share 1 (\"root\"): usage is -inf, expected a number from 0"), "{ran:?}");
    let one = r#"{"shares": {"shares": [{"name": "root", "parent": "", "type": ["ASSOCIATION"]},
        {"name": "u1", "parent": "root", "shares": 1, "type": ["USER"]}]}}"#;
    run_show(&file("json_cluster", format!("CLUSTER: c\n{one}\n")), &[]).ok();
    let ran = run_show(&file("json_clusters", format!("CLUSTER: c\n{one}\n\nCLUSTER: d\n{one}\n")), &[]);
    assert!(ran.error().contains("\"sshare -M NAME -a --json\" prints one"), "{ran:?}");
}

#[test]
fn an_infinite_level_fair_share_differs_from_each_finite_value() {
    let ran = fairshare(["check-import", "--tree", &input_path("f04-levelfs-not-infinite.txt")]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""), "{ran:?}");
    assert!(
        ran.out.contains("LevelFS: 2 of 3 agree\n")
            && ran.out.contains("a     u     LevelFS  7.000000   inf\n"),
        "{ran:?}"
    );
    let text = std::fs::read_to_string(input_path("f04-levelfs-not-infinite.txt")).expect("text");
    let other = text.replace("|0.500000|0.500000\n", "|0.500000|inf\n").replace("|7.000000", "|inf");
    let ran = fairshare(["check-import", "--tree", &file("level_theirs_infinite", other)]);
    assert!(ran.status == 1 && ran.out.contains("LevelFS: 2 of 3 agree\n"), "{ran:?}");
}

#[test]
fn a_pbs_entity_may_be_called_root() {
    let (tree, usage) = (input_path("f05-resource_group"), input_path("f05-usage.txt"));
    let listed = run_show(
        &tree,
        &["--usage-file", &usage, "--csv", "-o", "user,bank,usage,fairshare", "--users-only"],
    );
    assert!(
        listed.ok().contains("u1,phys,100,0.628997") && listed.out.contains("root,unknown,50,0"),
        "{listed:?}"
    );
    let table =
        run_show(&input_path("f05-pbsfs.txt"), &["--csv", "-o", "user,bank,usage,fairshare", "--users-only"]);
    assert_eq!(table.ok(), listed.out);
    assert_all_agree("pbsfs", &fairshare(["check-import", "--tree", &input_path("f05-pbsfs.txt")]));
    // This file contains an entity named root.
    let path = file("pbs_root_listed", "phys 50 root 60\nroot 51 phys 10\nu1 60 phys 10\n");
    assert_eq!(list_shares(&path), "root,10 u1,10");
}

#[test]
fn white_space_ends_a_name_in_a_list_of_usages() {
    let ran = run_show(
        &input_path("f06-resource_group"),
        &["--usage-file", &input_path("f06-usage.txt"), "--csv", "-o", "user,usage", "--users-only"],
    );
    assert_eq!(ran.ok(), "user,usage\nphys:u1,100\n");
    let tree =
        file("usage_names", "a:b 1 root 1\nc 2 root 1\nd=e 3 root 1\nf 4 root 1\ng 5 root 1\nh:i 6 root 1\n");
    let list = file("usage_names_list", "a:b\t10\nc: 20\nd=e 30\nf=40\ng : 50\nh:i:60\n");
    let ran = run_show(
        &tree,
        &[
            "--usage-file",
            &list,
            "--csv",
            "-o",
            "user,usage",
            "--users-only",
            "--sort",
            "list",
            "--no-header",
        ],
    );
    assert_eq!(ran.ok().replace('\n', " "), "a:b,10 c,20 d=e,30 f,40 g,50 h:i,60 ");
    // An association per partition is named USER:PARTITION.
    let dump = file(
        "usage_partitions",
        "Cluster - 'c'\nParent - 'root'\nUser - 'u1':Partition='cpu'\nUser - 'u1':Partition='gpu'\n",
    );
    let list = file("usage_partitions_list", "u1:cpu 10\nu1:gpu/root 20\n");
    let ran =
        run_show(&dump, &["--usage-file", &list, "--csv", "-o", "user,usage", "--users-only", "--no-header"]);
    assert!(ran.ok().contains("u1:cpu,10\n") && ran.out.contains("u1:gpu,20\n"), "{ran:?}");
}

#[test]
fn a_usage_of_a_user_outside_of_the_tree_gets_a_note() {
    let (tree, usage) = (input_path("f07-dump.txt"), input_path("f07-usage.txt"));
    let ran = run_show(&tree, &["--usage-file", &usage, "--json"]);
    let note = "1 usage is left out: no user in the tree has the name \"ul\"";
    assert!(ran.status == 0 && ran.err.contains(note), "{ran:?}");
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!(document["notes"], json!([note]));
    let many: String = (0..30).map(|number| format!("nobody{number} 1\n")).collect();
    let ran = run_show(&tree, &["--usage-file", &file("usage_nobodies", many)]);
    assert!(
        ran.err.contains("30 usages are left out") && ran.err.contains("\"nobody9\" and 20 more"),
        "{ran:?}"
    );
}

#[test]
fn nodes_of_pbs_are_identified_by_name_not_by_number() {
    let ran = run_show(&input_path("f08-resource_group"), &[]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(
        ran.err.contains("line 2: the number 502 of \"u2\" is also the number of \"u1\" (line 1)"),
        "{ran:?}"
    );
    // The leaf u0 and the groups a and b have the same cgrp number, 50. The children of each group are still known, because
    // pbsfs prints them right after the group.
    let rows = [
        ("TREEROOT", -1, 0, -1),
        ("u0", 0, 50, 5),
        ("b", 0, 50, 30),
        ("u2", 50, 7, 2),
        ("a", 0, 50, 20),
        ("u1", 50, 7, 1),
        ("unknown", 0, 1, 0),
    ];
    let row = |(name, group, id, shares): (&str, i32, i32, i32)| {
        format!("{name:<10}: Grp: {group:<5}  cgrp: {id:<5}Shares: {shares:<6} Usage: 1      Perc: 50.000%\n")
    };
    let table: String = rows.into_iter().map(row).collect();
    let path = file("pbsfs_numbers", format!("Fairshare usage units are in: cput\n{table}"));
    let ran = run_show(&path, &["--csv", "-o", "user,bank", "--users-only", "--sort", "list", "--no-header"]);
    assert_eq!(ran.ok(), "u0,root\nu2,b\nu1,a\n");
}

#[test]
fn a_line_of_the_unknown_group_is_left_out_as_pbs_does() {
    let path = input_path("f09-resource_group");
    let banks = |more: &[&str]| {
        let columns = ["--csv", "-o", "bank,shares", "--bank", "unknown", "--no-header"];
        run_show(&path, &columns.into_iter().chain(more.iter().copied()).collect::<Vec<_>>())
    };
    let ran = banks(&[]);
    assert!(ran.status == 0 && ran.out.contains("unknown,0\n"), "{ran:?}");
    assert!(
        ran.err.contains("line 1: \"unknown\" is left out, as OpenPBS does")
            && ran.err.contains("--unknown-shares"),
        "{ran:?}"
    );
    assert!(banks(&["--unknown-shares", "10"]).out.contains("unknown,10\n"));
    let ran = run_show(&input_path("f05-pbsfs.txt"), &["--unknown-shares", "10"]);
    assert!(
        ran.error().ends_with("is not a resource_group file (pbsfs), so --unknown-shares does not apply"),
        "{ran:?}"
    );
}

#[test]
fn a_user_with_parent_shares_has_no_level_fair_share() {
    let path = input_path("f10-parent-shares.txt");
    let ran = run_show(&path, &["--long"]);
    let row = ran.ok().lines().find(|line| line.contains("u1")).expect("a row");
    assert!(
        !row.contains("unused") && !row.contains("below its share") && row.contains("has no own shares"),
        "{row}"
    );
    let document = run_show(&path, &["--json"]).json();
    let node =
        document["nodes"].as_array().expect("nodes").iter().find(|node| node["user"] == "u1").expect("there");
    assert_eq!(node["level_fs"], Value::Null);
    let ran = fairshare(["why", "u1", "--tree", &path]);
    assert!(ran.ok().contains("u1 in bank a has no shares of their own (fairshare=parent)"), "{ran:?}");
    assert!(
        !ran.out.contains("unused")
            && !ran.out.contains("below its share")
            && !ran.out.contains("No level has used more"),
        "{ran:?}"
    );
}

#[test]
fn a_fair_share_that_slurm_had_not_computed_is_not_compared() {
    let ran = fairshare(["check-import", "--tree", &input_path("f11-not-computed-yet.txt")]);
    let text = "LevelFS: 2 of 2 agree\nnot compared: 1 FairShare that Slurm prints as 0, because Slurm computes \
        FairShare only once in PriorityCalcPeriod (5 minutes)\n";
    assert!(ran.ok().starts_with(text), "{ran:?}");
    let ran = fairshare(["check-import", "--tree", &input_path("f11-not-computed-yet.txt"), "--json"]);
    assert_eq!(ran.json()["not_computed"], 1);
}

#[test]
fn check_import_accepts_short_sshare_output_with_tied_accounts() {
    for name in [
        "t02_tie_two_accounts",
        "t03_tie_three_nested",
        "t04_user_account_tie",
        "t05_zero_usage",
        "t06_zero_shares",
    ] {
        let golden = find_golden("slurm", &format!("{name}.fair_tree"));
        let path = file(&format!("tied_short_{name}"), format_sshare_25_11(&golden, false));
        assert_all_agree(name, &fairshare(["check-import", "--tree", &path]));
    }
}

/// A table in the format of sshare.
const TABLE: &str =
    "Account|User|RawShares|RawUsage\nroot|||5\n root|root|1|0\n a||1|5\n  a|u1|1|5\n b||1|0\n  b|u2|1|0\n";

#[test]
fn a_table_is_found_within_text_of_terminals_and_mails() {
    let expected = list_fairshares(&file("table_plain", TABLE), &[]);
    let header = TABLE.lines().next().expect("a header");
    let old = "Account|User|Raw Shares|Raw Usage";
    for (name, text) in [
        ("nbsp", TABLE.replace("\n ", "\n\u{a0}")),
        ("tab_indents", TABLE.replace("\n  ", "\n\t\t").replace("\n ", "\n\t")),
        (
            "wide_indents",
            TABLE.replace("\n  ", "\n\u{1}").replace("\n ", "\n    ").replace('\u{1}', "        "),
        ),
        ("tabs", TABLE.replace('|', "\t")),
        ("parsable", TABLE.replace('\n', "|\n")),
        ("crlf", TABLE.replace('\n', "\r\n")),
        ("fence", format!("```text\n{TABLE}```\n")),
        ("prompt", format!("[root@head ~]# sshare -a -P\n{TABLE}[root@head ~]# \n")),
        ("other_prompt", format!("ann@head:~$ sshare -a -P\n{TABLE}ann@head:~$\n")),
        ("comment", format!("# shares of 2026-11-25\n{TABLE}# end\n")),
        ("warning", format!("sshare: warning: deprecated\nslurm_load_x: error: no\n{TABLE}")),
        ("between", TABLE.replace("\n a|", "\nsshare: error: late\n a|")),
        ("heading", format!("Shares of the site on Monday\n\n{TABLE}")),
        ("before_15_08", TABLE.replace(header, old)),
    ] {
        assert_eq!(list_fairshares(&file(&format!("table_{name}"), text), &[]), expected, "{name}");
    }
    assert_eq!(list_fairshares(&input_path("f13-nbsp.txt"), &[]), "root,1");
    // An incomplete row is refused.
    let ran = run_show(&file("table_cut", TABLE.trim_end_matches("|u2|1|0\n")), &[]);
    assert!(ran.error().ends_with("line 7: 1 of 4 columns: the row is cut off"), "{ran:?}");
    let json = r#"{"shares": {"shares": [{"name": "root", "parent": "", "type": ["ASSOCIATION"]},
        {"name": "u1", "parent": "root", "shares": 1, "type": ["USER"]}]}}"#;
    run_show(&file("json_fence", format!("```json\n$ sshare -a --json\n{json}\n```\n")), &[]).ok();
}

#[test]
fn latin_1_is_read_with_a_note() {
    let dump = b"Cluster - 'c'\nParent - 'root'\nAccount - 'a':Description='M\xfcller':Organization='x':Fairshare=7\n";
    let ran = run_show(&file("latin_1", dump), &["--csv", "-o", "bank,shares", "--no-header"]);
    assert!(ran.status == 0 && ran.out.contains("a,7\n"), "{ran:?}");
    assert!(ran.err.contains("not UTF-8: read as Latin-1"), "{ran:?}");
    let ran = run_show(&file("latin_1_binary", b"\x01\x02\xff\xfe\0"), &[]);
    assert!(ran.error().ends_with("not text (UTF-8)"), "{ran:?}");
}

#[test]
fn the_error_about_a_partial_tree_names_the_option() {
    let part = "Account|User|RawShares|RawUsage\na||1|5\n a|u1|1|5\nb||1|0\n b|u2|1|0\n";
    let assoc = "Cluster|Account|User|Partition|Share\nc|a|x||1\nc|b|x||1\n";
    let group = "# name id parent shares\n# u1 60 root 10\n";
    for (name, text, what, how) in [
        ("accounts", part, "run it without -A", "\"sshare -a -l -P\""),
        ("one_account", &part[..49], "not at the root", "run it without -A"),
        ("user", assoc, "account \"a\" is not listed", "\"sacctmgr show assoc tree -P\""),
        ("group", group, "contains only comments", "PBS_HOME/sched_priv/resource_group"),
        (
            "sreport",
            "Cluster|Account|Login|Proper Name|Used|Energy\nc|a|u1||5|0\n",
            "a report of sreport",
            "\"sshare -a -l -P\"",
        ),
        ("config", "unknown_shares: 10\nfairshare_usage_res: cput\n", "PBS's sched_config", "resource_group"),
    ] {
        let ran = run_show(&file(&format!("part_{name}"), text), &[]);
        assert!(ran.error().contains(what) && ran.error().contains(how), "{name}: {ran:?}");
    }
    let path = directory("part_named").join("resource_group");
    std::fs::write(&path, group).expect("written");
    let ran = run_show(path.to_str().expect("text"), &[]);
    assert!(ran.error().contains("contains only comments"), "{ran:?}");
    let ran = run_show(&input_path("f13-sreport.txt"), &[]);
    assert!(
        ran.error().contains("a report of sreport") && ran.error().contains("\"sshare -a -l -P\""),
        "{ran:?}"
    );
    let ran = run_show(&input_path("f07-dump.txt"), &["--usage-file", &input_path("f13-sreport.txt")]);
    assert!(ran.error().contains("a report of sreport"), "{ran:?}");
}

#[test]
fn the_error_about_a_user_names_the_associations_per_partition() {
    let text = "Account|User|Partition|RawShares|RawUsage\nroot||||5\n lab|||1|5\n  lab|u1|cpu|1|5\n  lab|u1|gpu|1|0\n";
    let path = file("why_partitions", text);
    let ran = fairshare(["why", "u1/lab", "--tree", &path]);
    let expected = "u1 has an association per partition in bank lab: say u1:cpu/lab or u1:gpu/lab\n";
    assert!(ran.status == 1 && ran.err.ends_with(expected), "{ran:?}");
    fairshare(["why", "u1:cpu/lab", "--tree", &path]).ok();
    let ran = run_show(&path, &["--user", "u1", "--bank", "lab"]);
    assert!(ran.err.contains("one association per partition: u1:cpu, u1:gpu"), "{ran:?}");
}

#[test]
fn a_dump_is_read_as_sacctmgr_load_reads_it() {
    for (name, line, expected) in [
        ("parent", "User - 'u1':Fairshare=Parent", "u1,parent"),
        ("parent_number", "User - 'u1':Fairshare=2147483647", "u1,parent"),
        ("short", "User - 'u1':Fair=7", "u1,7"),
        ("letter", "User - 'u1':f=7", "u1,7"),
        ("shares", "User - 'u1':Shares=7", "u1,7"),
        ("case", "USER - 'u1':FAIRSHARE=7", "u1,7"),
        ("spaces", "User  -  'u1' : Fairshare = 7 : MaxJobs = 5", "u1,7"),
        ("no_spaces", "User -'u1':Fairshare=7", "u1,7"),
        ("double", "User - \"u1\":Fairshare=\"7\"", "u1,7"),
        ("bare", "User - u1:Fairshare=7", "u1,7"),
        ("plus", "User - 'u1':Fairshare+=7", "u1,7"),
        ("last", "User - 'u1':Fairshare=3:Fairshare=7", "u1,7"),
        ("cleared", "User - 'u1':Fairshare=-1", "u1,1"),
        ("blank", "User - 'u1':Fairshare=:MaxJobs=5", "u1,1"),
        ("apostrophe", "User - 'u1':Comment='Ann's first':Fairshare=7", "u1,7"),
        ("apostrophes", "User - 'u1':Comment='it's':Fairshare=7:DefaultWCKey='Ann's'", "u1,7"),
        ("colon", "User - 'u1':Comment='a: b':Fairshare=7", "u1,7"),
        ("hash", "User - 'u1':Comment='a # b':Fairshare=7 # seven", "u1,7"),
        ("escaped", "User - 'u1':Comment='Ann\\'s':Fairshare=7", "u1,7"),
        ("continued", "User - 'u1':MaxJobs=5:\\\nFairshare=7", "u1,7"),
        ("again", "User - 'u1':Fairshare=7\nUser - 'u1':Fairshare=3", "u1,7"),
    ] {
        let text = format!("Cluster - 'c'\nAccount - 'root':Fairshare=5\nPARENT - 'Root'\n{line}\n");
        assert_eq!(list_shares(&file(&format!("dump_{name}"), text)), expected, "{name}");
    }
    let text = "Machine - 'c'\nProject - 'Chem':Description='Bob's lab':Organization='o'x':Fair=7\nAccount - 'chem':Fairshare=3\nParent - 'CHEM'\nUser - 'u1':Fairsare=9\n";
    let ran = run_show(
        &file("dump_project", text),
        &["--csv", "-o", "bank,user,shares", "--sort", "list", "--no-header"],
    );
    assert_eq!(ran.out, "root,,1\nchem,,7\nchem,u1,1\n", "{ran:?}");
    assert!(
        ran.err
            .contains("line 3: account \"chem\" is already defined: this line is left out, as by sacctmgr"),
        "{ran:?}"
    );
    assert!(ran.err.contains("line 5: \"u1\": sacctmgr has no option \"fairsare\": left out"), "{ran:?}");
    for (line, expected) in [
        (
            "User - 'u1':Fairshare=much",
            "line 2: user \"u1\": Fairshare is \"much\", expected a whole number from 0 to 4294967293 or \"parent\"",
        ),
        ("User - 'u1", "line 2: a quote is not closed"),
        ("Group - 'u1'", "line 2: expected Cluster, Parent, Account or User - 'name'"),
        ("User - 'u1':Fairshare", "line 2: \"Fairshare\": expected \"=\" and a value after this option"),
    ] {
        let ran = run_show(&file("dump_wrong", format!("Cluster - 'c'\n{line}\n")), &[]);
        assert!(ran.error().ends_with(expected), "{ran:?}");
    }
}

#[test]
fn parent_shares_are_replaced_in_a_simulation() {
    let text = "Account|User|RawShares|RawUsage\nroot|||0\n a||3|0\n  a|user1|4|0\n  a|user2|parent|0\n b||parent|0\n  b|user3|2|0\n  b|user4|6|0\n";
    let path = file("simulate_parent", text);
    let trace = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/data/week.swf");
    let ran = fairshare([
        "simulate".as_ref(),
        "--trace".as_ref(),
        trace.as_os_str(),
        "--tree".as_ref(),
        path.as_ref(),
        "--nodes".as_ref(),
        "64".as_ref(),
    ]);
    assert_eq!(ran.status, 0, "{ran:?}");
    assert!(ran.err.contains("2 associations with fairshare=parent, which Flux does not support"), "{ran:?}");
}
