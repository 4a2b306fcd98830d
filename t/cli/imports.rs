// SPDX-License-Identifier: LGPL-3.0-only
//! Trees from Slurm in all formats of its programs, made from the values in `t/golden/`. check-import must
//! find our values equal to Slurm's.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::golden::read_golden_files;
use super::{RunResult, fairshare, file};

/// Formats a number as sshare does.
fn format_as_sshare(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        number => format!("{:.6}", number.as_f64().expect("a number")),
    }
}

fn text_or_empty(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

/// Returns the parent of each account.
fn find_parents(golden: &Value) -> HashMap<String, String> {
    let rows = golden["tree"].as_array().expect("a tree");
    let accounts = rows.iter().filter(|row| row["kind"] == "account" && row["parent"].is_string());
    accounts
        .map(|row| (text_or_empty(&row["name"]).to_owned(), text_or_empty(&row["parent"]).to_owned()))
        .collect()
}

fn format_indent(golden: &Value, account: &str, is_user: bool) -> String {
    let parents = find_parents(golden);
    let depth = std::iter::successors(Some(account), |at| parents.get(*at).map(String::as_str)).count() - 1;
    " ".repeat(depth + usize::from(is_user))
}

fn format_raw_shares(row: &Value) -> String {
    match &row["raw_shares"] {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        number => number.to_string(),
    }
}

fn expected_rows(golden: &Value) -> impl Iterator<Item = &Value> {
    golden["expected"].as_array().expect("rows").iter()
}

/// Returns the output of `sshare -a -l -P` for a table.
pub fn format_sshare(golden: &Value) -> String {
    let fair_tree = golden["algorithm"] == "fair_tree";
    let level = if fair_tree { "|LevelFS" } else { "" };
    let mut out = format!(
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare{level}|GrpTRESMins|TRESRunMins\n"
    );
    for row in expected_rows(golden) {
        let account = text_or_empty(&row["account"]);
        let mut fields = vec![
            format!("{}{account}", format_indent(golden, account, row["user"].is_string())),
            text_or_empty(&row["user"]).to_owned(),
            format_raw_shares(row),
            format_as_sshare(&row["norm_shares"]),
            row["raw_usage"].to_string(),
            format_as_sshare(&row["norm_usage"]),
            format_as_sshare(&row["effective_usage"]),
            format_as_sshare(&row["fairshare"]),
        ];
        fields.extend(fair_tree.then(|| format_as_sshare(&row["level_fs"])));
        fields.extend(["".to_owned(), "cpu=0".to_owned()]);
        out.push_str(&(fields.join("|") + "\n"));
    }
    out
}

/// Formats a number as data_parser does.
fn format_number(value: &Value) -> Value {
    match value {
        Value::Null => json!({"set": false, "infinite": false, "number": 0.0}),
        Value::String(_) => json!({"set": false, "infinite": true, "number": 0.0}),
        number => json!({"set": true, "infinite": false, "number": number}),
    }
}

/// Returns the output of `sshare -a --json`.
pub fn format_sshare_json(golden: &Value) -> String {
    let parents = find_parents(golden);
    let share = |row: &Value| {
        let (account, user) = (text_or_empty(&row["account"]), row["user"].as_str());
        let shares = match row["raw_shares"].as_str() {
            Some(_) => json!({"set": true, "infinite": false, "number": 2_147_483_647}),
            None => format_number(&row["raw_shares"]),
        };
        json!({
            "id": 1, "cluster": "c", "name": user.unwrap_or(account),
            "parent": user.map_or_else(|| parents.get(account).cloned().unwrap_or_default(), |_| account.to_owned()),
            "partition": "", "shares_normalized": format_number(&row["full"]["norm_shares"]), "shares": shares,
            "tres": {"run_seconds": [], "group_minutes": [], "usage": [{"name": "cpu", "value": 1.5}]},
            "effective_usage": format_number(&row["full"]["effective_usage"]),
            "usage_normalized": format_number(&row["full"]["norm_usage"]), "usage": row["raw_usage"],
            "fairshare": {"factor": format_number(&row["full"]["fairshare"]), "level": format_number(&row["full"]["level_fs"])},
            "type": [if user.is_some() { "USER" } else { "ASSOCIATION" }],
        })
    };
    let shares: Vec<Value> = expected_rows(golden).map(share).collect();
    json!({"shares": {"shares": shares, "total_shares": 1}, "meta": {}, "errors": [], "warnings": []})
        .to_string()
}

pub fn assert_all_agree(name: &str, ran: &RunResult) {
    assert_eq!((ran.status, ran.err.as_str()), (0, ""), "{name}: {ran:?}");
    let lines: Vec<&str> = ran.out.lines().filter(|line| line.ends_with(" agree")).collect();
    assert!(!lines.is_empty(), "{name}: {ran:?}");
    for line in lines {
        let numbers: Vec<usize> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        assert!(numbers[0] == numbers[1] && numbers[1] > 0, "{name}: {line}");
    }
}

#[test]
fn check_import_agrees_with_slurm_in_text_and_in_json() {
    for (name, golden) in read_golden_files("slurm") {
        for (form, text) in [("txt", format_sshare(&golden)), ("json", format_sshare_json(&golden))] {
            let path = file(&format!("import_{name}_{form}"), text);
            let ran = match expect_text(&golden["algorithm"]) {
                // The columns of Slurm's text output show which formula Slurm used. Slurm's JSON output does not show
                // the formula, so the test names the policy.
                "depth_oblivious" if form == "json" => {
                    fairshare(["check-import", "--tree", &path, "--policy", "depth_oblivious"])
                }
                _ => fairshare(["check-import", "--tree", &path]),
            };
            assert_all_agree(&format!("{name} {form}"), &ran);
        }
    }
}

pub fn expect_text(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn check_import_names_the_tie_rule_with_the_most_matching_values() {
    let golden = find_golden("slurm", "t02_tie_two_accounts.fair_tree");
    let path = file("import_ties", format_sshare(&golden));
    let ran = fairshare(["check-import", "--tree", &path]);
    let expected = "FairShare: 13 of 13 agree\nLevelFS: 17 of 17 agree\nranked by fair-tree with ties=slurm-program, the best match of 2 ranking rules\n";
    assert_eq!(ran.ok(), expected);
    let ran = fairshare(["check-import", "--tree", &path, "--set", "ties=documented"]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""));
    assert!(ran.out.contains("FairShare: 6 of 13 agree\n"), "{ran:?}");
    assert!(ran.out.contains("a     a4    FairShare  0.538462  0.230769\n"), "{ran:?}");
    let ran = fairshare(["check-import", "--tree", &path, "--set", "ties=documented", "--json"]);
    let document: Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&document["agree"], &document["of"]), (&json!(23), &json!(30)));
    assert_eq!(document["quantities"]["LevelFS"], json!({"agree": 17, "of": 17}));
    assert_eq!(document["differences"].as_array().expect("a list").len(), 7);
}

pub fn find_golden(kind: &str, name: &str) -> Value {
    read_golden_files(kind).into_iter().find(|(found, _)| found == name).expect("a table").1
}

#[test]
fn a_changed_value_is_reported_as_a_difference() {
    let golden = find_golden("slurm", "t01_flux_docs.fair_tree");
    let right = format_sshare(&golden);
    let row = right.lines().find(|line| line.contains("|leaf.1.1|")).expect("a row");
    let fairshare_of = |row: &str| row.split('|').nth(7).expect("FairShare").to_owned();
    let wrong = row.replace(&format!("|{}|", fairshare_of(row)), "|0.123456|");
    let path = file("import_by_hand", right.replace(row, &wrong));
    let ran = fairshare(["check-import", "--tree", &path, "--csv"]);
    assert_eq!(ran.status, 1);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!((lines.len(), lines[0]), (2, "bank,user,quantity,theirs,ours"), "{ran:?}");
    assert!(lines[1].starts_with("account1,leaf.1.1,FairShare,0.123456,"), "{ran:?}");
}

#[test]
fn check_import_prints_enough_decimals_to_show_a_difference() {
    let golden = find_golden("slurm", "t02_tie_two_accounts.fair_tree");
    let mut document: Value = serde_json::from_str(&format_sshare_json(&golden)).expect("JSON");
    let shares = document["shares"]["shares"].as_array_mut().expect("shares");
    let user = shares.iter_mut().find(|row| row["type"][0] == "USER").expect("a user");
    let right = user["fairshare"]["factor"]["number"].as_f64().expect("a number");
    user["fairshare"]["factor"]["number"] = json!(right + 1e-8);
    let ran = fairshare(["check-import", "--tree", &file("import_near", document.to_string())]);
    let row = ran.out.lines().nth(1).expect("a difference");
    let values: Vec<&str> = row.split_whitespace().rev().take(2).collect();
    assert!(ran.status == 1 && values[0] != values[1], "{ran:?}");
}

#[test]
fn values_within_the_rounding_of_printed_usages_count_as_agreement() {
    // Slurm computed with 10.9 and 20.1, but prints RawUsage 10 and 20.
    let level = |usage: f64| 0.5 / (usage / 31.0);
    let text = format!(
        "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare|LevelFS\n\
         root|||0.0|31||1.0||\n a||1|1.0|31|1.0|1.0||1.000000\n  a|u|1|0.500000|10|0|0|1.000000|{:.6}\n  a|v|1|0.500000|20|0|0|0.500000|{:.6}\n",
        level(10.9),
        level(20.1)
    );
    let ran = fairshare(["check-import", "--tree", &file("import_cut", text)]);
    assert!(
        ran.ok().contains(
            "LevelFS: 3 of 3 agree\n2 agree only within the rounding of usages printed as whole numbers\n"
        ),
        "{ran:?}"
    );
}

/// Slurm computed with a usage of u0 of 71.7. Under depth-oblivious, the FairShare depends on the quotient of two usages.
#[test]
fn the_rounding_of_a_small_usage_changes_a_fair_share_of_depth_oblivious() {
    let text = "Account|User|RawShares|NormShares|RawUsage|NormUsage|EffectvUsage|FairShare\n\
        root|||1.000000|1105452||1.000000|0.500000\n root|root|1|0.001167|0|0.000000|0.000000|1.000000\n\
        \x20root|u5|535|0.624271|2|0.000002|0.000002|0.999997\n acct0||321|0.374562|1105449|0.999998|0.999998|0.157151\n\
        \x20 acct0|u0|501|0.105070|71|0.000065|0.200986|0.265564\n  acct0|u1|394|0.082630|0|0.000000|0.000000|1.000000\n\
        \x20 acct0|u2|697|0.146176|903007|0.816867|0.816867|0.020786\n  acct0|u3|0|0.000000|6008|0.005435|0.005435|0.000000\n\
        \x20 acct0|u4|194|0.040686|196361|0.177630|0.177630|0.048499\n";
    let check = |text: &str| fairshare(["check-import", "--tree", &file("import_small", text)]);
    assert!(check(text).ok().starts_with("FairShare: 8 of 8 agree\n3 agree only within the rounding"));
    // Rounding does not explain this value.
    assert_eq!(check(&text.replace("0.265564", "0.290000")).status, 1);
}

#[test]
fn check_import_compares_a_database_with_its_stored_fair_shares() {
    let site = super::site::Site::small("import_database");
    let ran = fairshare(["check-import", "-p", site.path()]);
    assert_eq!(ran.status, 1, "{ran:?}");
    fairshare(["update", "-p", site.path()]).ok();
    assert_eq!(
        fairshare(["check-import", "-p", site.path()]).ok(),
        "FairShare: 4 of 4 agree\nranked by weighted-walk\n"
    );
}

#[test]
fn check_import_refuses_a_document_without_computed_values() {
    let path = file("import_bare", r#"{"banks": [{"name": "root", "parent": null}], "associations": []}"#);
    let ran = fairshare(["check-import", "--tree", &path]);
    assert!(ran.error().contains("has no values that the other system computed"), "{ran:?}");
}

/// Returns the output of `sacctmgr dump`, with its comments and with options that the command does not read.
pub fn format_dump(golden: &Value, as_number: bool) -> String {
    let mut out = "# To edit this file start with a cluster line for the new cluster\n\
        # Cluster - 'cluster_name':MaxTRESPerJob=node=50\n\
        Cluster - 'c':Fairshare=1:QOS='normal'\n"
        .to_owned();
    let tree = golden["tree"].as_array().expect("a tree");
    let accounts = tree.iter().filter(|row| row["kind"] == "account").map(|row| text_or_empty(&row["name"]));
    for account in accounts {
        let below: Vec<&Value> = tree.iter().filter(|row| row["parent"] == account).collect();
        if !below.is_empty() {
            out.push_str(&format!("Parent - '{account}'\n"));
        }
        for row in below {
            let shares = match row["shares"].as_str() {
                Some(_) if as_number => "2147483647".to_owned(),
                Some(parent) => parent.to_owned(),
                None => row["shares"].to_string(),
            };
            let name = text_or_empty(&row["name"]);
            out.push_str(&match text_or_empty(&row["kind"]) {
                "user" => format!("User - '{name}':DefaultAccount='{account}':AdminLevel='None':Fairshare={shares}:MaxJobs=5\n"),
                _ => format!("Account - '{name}':Description='what: it is':Organization='o\\'s':Fairshare={shares}\n"),
            });
        }
    }
    out
}

/// Returns the output of `sacctmgr show assoc tree -P`.
pub fn format_assoc_list(golden: &Value) -> String {
    let mut out = "Cluster|Account|User|Partition|Share|Priority|GrpJobs|QOS|Def QOS\n".to_owned();
    for row in expected_rows(golden) {
        let (account, user) = (text_or_empty(&row["account"]), text_or_empty(&row["user"]));
        let shares = if row["raw_shares"].is_null() { "1".to_owned() } else { format_raw_shares(row) };
        let indent = format_indent(golden, account, !user.is_empty());
        out.push_str(&format!("c|{indent}{account}|{user}||{shares}||||normal|\n"));
    }
    out
}

#[test]
fn shares_of_sacctmgr_are_read_without_usage() {
    let columns = ["--csv", "-o", "bank,user,shares,norm_shares", "--sort", "name"];
    let note = "has shares but no usage, so the usage of each user is 0";
    for name in ["t09_parent_users.fair_tree", "t07_deep_irregular.fair_tree"] {
        let golden = find_golden("slurm", name);
        let show = |path: &str, more: &[&str]| {
            let mut all = vec!["show", "--tree", path];
            all.extend(columns);
            all.extend(more);
            fairshare(all)
        };
        let whole = show(&file(&format!("dump_{name}_whole"), format_sshare(&golden)), &[]);
        for (form, text) in [
            ("text", format_dump(&golden, false)),
            ("number", format_dump(&golden, true)),
            ("assoc", format_assoc_list(&golden)),
        ] {
            let path = file(&format!("dump_{name}_{form}"), text);
            let ran = show(&path, &[]);
            assert_eq!((ran.status, &ran.out), (0, &whole.out), "{name} {form}");
            assert!(ran.err.contains(note), "{ran:?}");
        }
    }
}

#[test]
fn usages_in_a_list_match_the_output_of_sacctmgr() {
    let golden = find_golden("slurm", "t12_multi_account_users.fair_tree");
    let tree = golden["tree"].as_array().expect("a tree");
    let users = tree.iter().filter(|row| row["kind"] == "user");
    let list: String = users
        .map(|row| {
            format!("{}/{} {}\n", text_or_empty(&row["name"]), text_or_empty(&row["parent"]), row["usage"])
        })
        .collect();
    let usage = file("dump_usages", list);
    let columns = ["--csv", "-o", "bank,user,fairshare", "--set", "ties=slurm-program"];
    let path = file("dump_whole", format_sshare(&golden));
    let complete_output = fairshare(["show", "--tree", &path].into_iter().chain(columns));
    let path = file("dump_and_usages", format_dump(&golden, true));
    let ran = fairshare(["show", "--tree", &path, "--usage-file", &usage].into_iter().chain(columns));
    assert_eq!(ran.ok(), complete_output.ok());
}

#[test]
fn an_association_list_without_parent_accounts_is_rejected() {
    let named = "Account|ParentName|User|Share\nroot|||1\nchem|root||10\nchem||ann|3\nchem||ben|parent\nphys|root||5\nphys||cat|1\n";
    let path = file("assoc_named", named);
    let ran = fairshare(["show", "--tree", &path, "--csv", "-o", "user,bank,norm_shares", "--sort", "list"]);
    assert!(ran.out.contains("ann,chem,1\n") && ran.out.contains(",phys,0.3333"), "{ran:?}");
    let flat = "Cluster|Account|User|Share\nc|root||1\nc|chem||10\nc|chem|ann|3\n";
    let ran = fairshare(["show", "--tree", &file("assoc_flat", flat)]);
    assert!(
        ran.error().ends_with("does not show its parent account; \"sacctmgr show assoc tree -P\" does"),
        "{ran:?}"
    );
    let assoc_list = "Cluster|Account|User|Share\nc|root||1\nd|root||1\n";
    let ran = fairshare(["show", "--tree", &file("assoc_two", assoc_list)]);
    assert!(ran.error().contains("there are several clusters, c and d"), "{ran:?}");
}
