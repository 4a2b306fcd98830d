// SPDX-License-Identifier: LGPL-3.0-only
//! Tests `show` on documents, in all input and output formats.

use std::io::Read;
use std::process::{Command, Stdio};

use serde_json::json;

use super::{PROGRAM, directory, fairshare, file, run_fairshare_with_input};

const TREE: &str = r#"{"banks": [{"name": "root", "parent": null, "shares": 1}, {"name": "A", "parent": "root", "shares": 1},
     {"name": "B", "parent": "root", "shares": 3}],
 "associations": [{"user": "ann", "bank": "A", "shares": 1, "usage": 40}, {"user": "ben", "bank": "B", "shares": 1, "usage": 0},
     {"user": "cat", "bank": "B", "shares": 2, "usage": 30}, {"user": "dan", "bank": "B", "shares": 2, "usage": 30},
     {"user": "eve", "bank": "B", "shares": 2, "usage": 0, "active": false}]}"#;

#[test]
fn show_prints_the_tree_as_json() {
    let path = file("json_document", TREE);
    let document = fairshare([
        "show",
        "--tree",
        &path,
        "--policy",
        "fair-tree",
        "--set",
        "ties=slurm-program",
        "--json",
    ])
    .json();
    assert_eq!(document["policy"], "fair-tree");
    assert_eq!(document["options"]["ties"], "slurm-program");
    assert_eq!(document["options"]["dampening"], 1.0);
    let keys: Vec<&str> = document.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["nodes", "options", "policy"]);
    let nodes = document["nodes"].as_array().expect("nodes");
    assert_eq!(nodes.len(), 8);
    let ben = nodes.iter().find(|node| node["user"] == "ben").expect("ben");
    assert_eq!(
        ben,
        &json!({"kind": "association", "bank": "B", "parent": "B", "user": "ben", "shares": 1,
            "norm_shares": 1.0 / 7.0, "usage": 0.0, "norm_usage": 0.0, "effective_usage": 0.0, "level_fs": "inf",
            "weight": null, "place": 1, "fairshare": 1.0})
    );
    let eve = nodes.iter().find(|node| node["user"] == "eve").expect("eve");
    assert_eq!((&eve["place"], &eve["fairshare"]), (&json!(null), &json!(null)));
    assert_eq!(
        nodes[0],
        json!({"kind": "bank", "bank": "root", "parent": null, "user": null, "shares": 1,
        "norm_shares": 1.0, "usage": 100.0, "norm_usage": 1.0, "effective_usage": 1.0, "level_fs": null, "weight": null,
        "place": null, "fairshare": null})
    );
}

#[test]
fn show_prints_the_figures_of_pbs() {
    let path = file("pbs_figures", TREE);
    let with = |setting: &str| {
        let document =
            fairshare(["show", "--tree", &path, "--policy", "pbs", "--set", setting, "--json"]).json();
        let nodes = document["nodes"].as_array().expect("nodes").clone();
        nodes.into_iter().find(|node| node["user"] == "ann").expect("ann")
    };
    let pure = with("pbs.min_usage=0");
    assert_eq!(pure["fairshare_perc"], 0.25);
    assert_eq!(pure["fairshare_tree_usage"], 0.4);
    assert_eq!(pure["fairshare_factor"].as_f64(), Some((-1.6f64).exp2()));
    assert_ne!(with("pbs.min_usage=1")["fairshare_factor"], pure["fairshare_factor"]);
}

#[test]
fn csv_and_parsable_output_have_the_chosen_columns() {
    let path = file("csv", TREE.replace("ann", "a,n\\\"n"));
    let csv =
        fairshare(["show", "--tree", &path, "--csv", "-o", "user,bank,fairshare,level_fs", "--sort", "list"]);
    let expected =
        "user,bank,fairshare,level_fs\n,root,,\n,A,,0.625\n\"a,n\"\"n\",A,0.25,1\n,B,,1.25\nben,B,1,inf\n";
    assert!(csv.ok().starts_with(expected), "{csv:?}");
    let parsable = fairshare(["show", "--tree", &path, "-P"]);
    let header = "kind|bank|parent|user|shares|norm_shares|usage|norm_usage|effective_usage|level_fs|weight|place|fairshare\n";
    assert!(parsable.ok().starts_with(header), "{parsable:?}");
    let ran = fairshare(["show", "--tree", &path, "-o", "user,nonsense"]);
    assert!(
        ran.error()
            .starts_with("flux-fairshare: --format: unknown column \"nonsense\"; known are name, kind,"),
        "{ran:?}"
    );
}

#[test]
fn show_long_prints_the_table() {
    let path = file("table", TREE);
    let expected = "\
Bank/User  Shares  NormShares  Usage  NormUsage  EffUsage   LevelFS    Weight  Served           Place  FairShare  Active
root            1    1.000000    100   1.000000  1.000000
 B              3    0.750000     60   0.600000  0.600000  1.250000  1.250000  below its share
  ben           1    0.142857      0   0.000000  0.000000    unused    unused  below its share      1   1.000000  yes
  cat           2    0.285714     30   0.300000  0.500000  0.571429  0.571429  above its share      2   0.750000  yes
  dan           2    0.285714     30   0.300000  0.500000  0.571429  0.571429  above its share      2   0.750000  yes
  eve           2    0.285714      0   0.000000  0.000000    unused    unused  below its share                    no
 A              1    0.250000     40   0.400000  0.400000  0.625000  0.625000  above its share
  ann           1    1.000000     40   0.400000  1.000000  1.000000  1.000000  even                 4   0.250000  yes

NormShares and Served compare a bank or user with its siblings only; NormUsage is a part of the site's usage.
";
    assert_eq!(fairshare(["show", "--tree", &path, "--long"]).ok(), expected);
}

#[test]
fn show_selects_and_sorts_nodes_of_the_tree() {
    let path = file("selection", TREE);
    let names = |arguments: &[&str]| {
        let mut all = vec!["show", "--tree", &path, "--csv", "-o", "name"];
        all.extend(arguments);
        let ran = fairshare(all);
        ran.ok().lines().skip(1).map(|line| line.trim().to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names(&[]), "root B ben cat dan eve A ann");
    assert_eq!(names(&["--sort", "name"]), "root A ann B ben cat dan eve");
    assert_eq!(names(&["--sort", "usage"]), "root A ann B ben eve cat dan");
    assert_eq!(names(&["--sort", "-usage"]), "root B cat dan ben eve A ann");
    assert_eq!(names(&["--sort", "fairshare"]), "root A ann B eve dan cat ben");
    assert_eq!(names(&["--sort", "-FairShare"]), names(&[]));
    assert_eq!(names(&["--sort", "-name"]), "root B eve dan cat ben A ann");
    assert_eq!(names(&["--sort", "list"]), "root A ann B ben cat dan eve");
    assert_eq!(names(&["--sort", "-list"]), "root B eve dan cat ben A ann");
    // A bank is sorted by its best user.
    assert_eq!(names(&["--sort", "place"]), "root B ben cat dan eve A ann");
    assert_eq!(names(&["--sort", "-place"]), "root A ann B eve dan cat ben");
    assert_eq!(names(&["--depth", "1"]), "root B A");
    assert_eq!(names(&["--bank", "A"]), "root A ann");
    assert_eq!(names(&["--user", "cat,ann"]), "root B cat A ann");
    assert_eq!(names(&["--user", "cat", "--bank", "B"]), "root B cat");
    for (arguments, text) in [
        (["--user", "zoe", "--depth", "9"], "no user \"zoe\""),
        (["--user", "cat", "--bank", "A"], "no user \"cat\" in that bank"),
        (["--depth", "9", "--bank", "Z"], "no bank \"Z\""),
    ] {
        let mut all = vec!["show", "--tree", &path];
        all.extend(arguments);
        let ran = fairshare(all);
        assert_eq!((ran.status, ran.out.as_str()), (1, ""), "{ran:?}");
        assert_eq!(ran.err, format!("flux-fairshare: {path}: {text}\n"));
    }
}

#[test]
fn wrong_options_are_refused() {
    let path = file("wrong_options", TREE);
    for (arguments, text) in [
        (["--policy", "fair-weather"], "unknown policy \"fair-weather\""),
        (["--set", "ties=best"], "--set: ties is \"best\", expected"),
        (["--set", "dampening"], "--set: \"dampening\" is not of the form name=value"),
        (["--set", "colour=red"], "--set: unknown option \"colour\""),
        (["--tree-format", "xml"], "unknown format \"xml\""),
        (["--sort", "beauty"], "--sort: unknown column \"beauty\""),
        (["--wait", "1e9"], "expected 0 to 86400 seconds"),
        (["-p", "x"], "cannot be used with"),
    ] {
        let mut all = vec!["show", "--tree", &path];
        all.extend(arguments);
        let ran = fairshare(all);
        assert!(ran.error().contains(text), "{ran:?}");
    }
}

#[test]
fn errors_about_documents_name_the_invalid_value() {
    let path = file("wrong_document", TREE.replace("\"shares\": 3", "\"shares\": \"three\""));
    let ran = fairshare(["show", "--tree", &path]);
    assert!(
        ran.error().ends_with(
            "bank \"B\": shares is \"three\", expected a whole number from 0 to 18446744073709551615 or \"parent\""
        ),
        "{ran:?}"
    );
    let path = file(
        "wrong_tree",
        TREE.replace("\"parent\": \"root\", \"shares\": 3", "\"parent\": \"Q\", \"shares\": 3"),
    );
    let expected = format!("flux-fairshare: {path}: bank \"B\": its parent \"Q\" does not exist");
    assert_eq!(fairshare(["show", "--tree", &path]).error(), expected);
    let path = file("parent_shares", TREE.replace("\"shares\": 3", "\"shares\": \"parent\""));
    assert!(
        fairshare(["show", "--tree", &path])
            .error()
            .contains("bank \"B\": policy weighted-walk does not support")
    );
    fairshare(["show", "--tree", &path, "--policy", "fair-tree"]).ok();
    let path = file("nothing_known", "what is this\n");
    let expected = "has no known format: import the output of \"sshare -a -l -P\", \"sacctmgr dump\" or pbsfs, or name \
                    the format with --tree-format";
    assert_eq!(fairshare(["show", "--tree", &path]).error(), format!("flux-fairshare: {path}: {expected}"));
    let path = directory("by_its_name").join("resource_group");
    std::fs::write(&path, "what is this\n").expect("written");
    let ran = fairshare(["show".as_ref(), "--tree".as_ref(), path.as_os_str()]);
    assert!(ran.error().ends_with("line 1: expected name, id, parent and shares"), "{ran:?}");
    let path =
        file("sshare_for_people", "   Account   User  RawShares  NormShares  RawUsage\n------ -----\n");
    let text = "looks like the fixed-width table of sshare, which truncates names: import the output of \"sshare -a -l -P\"";
    assert!(fairshare(["show", "--tree", &path]).error().ends_with(text));
    let path = file("empty_document", "");
    assert_eq!(
        fairshare(["show", "--tree", &path]).error(),
        format!("flux-fairshare: {path}: an empty file")
    );
    for (name, text) in [
        ("no_banks", r#"{"banks": [], "associations": []}"#),
        ("header_alone", "Account|User|RawShares|RawUsage\n"),
    ] {
        let path = file(name, text);
        let expected = format!("flux-fairshare: {path}: there are no banks");
        assert_eq!(fairshare(["show", "--tree", &path]).error(), expected);
    }
}

#[test]
fn trees_of_slurm_and_pbs_are_read_from_a_pipe() {
    let sshare = "Account|User|RawShares|NormShares|RawUsage|EffectvUsage|FairShare\n\
        root|||0.0|30||\n root|root|1|0.0|0||\n a||3|0.0|30||\n  a|u1|1|0.0|10||\n  a|u2|1|0.0|20||\n";
    let arguments = ["show", "--tree", "/dev/stdin", "--policy", "fair-tree", "--csv", "-o", "user,place"];
    assert_eq!(run_fairshare_with_input(sshare, &arguments).ok(), "user,place\n,\nroot,1\n,\nu1,2\nu2,3\n");
    let groups =
        "g1 50 root 40\ng2 51 root 60\nBob 52 g1 50\nCathy 53 g1 50\nSuzy 54 g2 60\nScott 55 g2 40\n";
    let usage = file("pbs_usage", "Bob 100\nCathy 100\nScott 1000\n");
    let arguments = [
        "show",
        "--tree",
        "/dev/stdin",
        "--usage-file",
        &usage,
        "--policy",
        "pbs",
        "--csv",
        "-o",
        "user,fairshare",
    ];
    let ran = run_fairshare_with_input(groups, &arguments);
    // These are the values of the example in OpenPBS's design document, which has four digits.
    for line in ["Bob,0.64771", "Cathy,0.64771", "Suzy,0.38155", "Scott,0.09020"] {
        assert!(ran.ok().contains(line), "{line}: {ran:?}");
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let site = super::site::Site::large("closed_pipe", 50, 200);
    let mut child = Command::new(PROGRAM)
        .args(["show", "-p", site.path(), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut first = [0; 10];
    child.stdout.take().expect("piped").read_exact(&mut first).expect("output");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}

#[test]
fn a_full_disk_is_an_error() {
    let path = file("full_disk", TREE);
    let full_device = std::fs::OpenOptions::new().write(true).open("/dev/full").expect("/dev/full");
    let output =
        Command::new(PROGRAM).args(["show", "--tree", &path]).stdout(full_device).output().expect("it runs");
    assert_eq!(output.status.code(), Some(2));
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(text, "flux-fairshare: can't write the output: No space left on device\n");
}

#[test]
fn a_tree_of_100_000_levels_is_ranked() {
    let deepest = 100_000;
    let mut text = String::from("{\"banks\": [{\"name\": \"b0\", \"parent\": null}");
    for bank in 1..=deepest {
        text.push_str(&format!(",{{\"name\": \"b{bank}\", \"parent\": \"b{}\", \"shares\": 1}}", bank - 1));
    }
    text.push_str(&format!(
        "], \"associations\": [{{\"user\": \"u\", \"bank\": \"b{deepest}\", \"shares\": 1, \"usage\": 5}}]}}"
    ));
    let path = file("deep", text);
    for policy in ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"] {
        let ran = fairshare(["show", "--tree", &path, "--policy", policy, "--user", "u", "--no-header"]);
        assert_eq!(ran.ok().lines().count(), deepest + 2, "{policy}");
        assert!(ran.out.len() < 20_000_000, "indentation is bounded");
    }
    let ran = fairshare(["why", "u", "--tree", &path]);
    assert!(ran.ok().contains("99,978 levels, --long shows them"), "{ran:?}");
}
