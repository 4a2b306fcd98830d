// SPDX-License-Identifier: LGPL-3.0-only
//! Trees from PBS: the output of pbsfs, compared by check-import, and the usage file of its scheduler.

use std::io::Write;
use std::process::{Command, Stdio};

use super::golden::read_golden_files;
use super::imports::{assert_all_agree, expect_text, find_golden};
use super::{directory, fairshare, file};

/// Returns the table of pbsfs and the outputs of `pbsfs -g` from a recording of a session.
pub fn extract_pbsfs_output(recording: &str) -> String {
    let mut kept = String::new();
    let mut keep = false;
    for line in recording.lines() {
        if let Some(command) = line.strip_prefix("$ ") {
            keep = command == "pbsfs" || command.starts_with("pbsfs -g ");
        } else if keep {
            kept.push_str(&(line.trim_start_matches("[stderr] ").to_owned() + "\n"));
        }
    }
    kept
}

#[test]
fn check_import_agrees_with_pbs_in_percentages_group_usages_and_tree_usage() {
    let folder = std::path::Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).join("t/golden/pbs");
    let mut cases = 0;
    for (name, golden) in read_golden_files("pbs") {
        let recording = std::fs::read_to_string(folder.join(format!("{name}.pbsfs.txt"))).expect("text");
        let path = file(&format!("import_{name}"), extract_pbsfs_output(&recording));
        let ran = fairshare(["check-import", "--tree", &path]);
        assert_all_agree(&name, &ran);
        assert!(ran.out.contains("fairshare_tree_usage: "), "{name}: {ran:?}");
        assert!(golden["tree"].is_array());
        cases += 1;
    }
    assert!(cases > 5);
}

/// Writes a usage file of the scheduler with the memory layout of the C compiler.
pub fn write_usage_file(test: &str, entries: &[(&str, f64)]) -> String {
    let records: String = entries
        .iter()
        .map(|(name, amount)| {
            format!(
                "{{ struct record r = {{ \"{name}\", {amount:?} }}; fwrite(&r, sizeof r, 1, stdout); }}\n"
            )
        })
        .collect();
    let program = format!(
        "#include <stdio.h>\n#include <string.h>\n#include <time.h>\n\
         struct head {{ char tag[9]; double version; }};\nstruct record {{ char name[50]; double amount; }};\n\
         int main(void) {{ struct head h; memset(&h, 'x', sizeof h); strcpy(h.tag, \"PBS_MAG!\"); h.version = 2;\n\
         time_t last = 1700000000; fwrite(&h, sizeof h, 1, stdout); fwrite(&last, sizeof last, 1, stdout);\n{records}return 0; }}\n"
    );
    let folder = directory(test);
    let binary = folder.join("write");
    let mut cc = Command::new("cc")
        .args(["-x", "c", "-", "-o"])
        .arg(&binary)
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    cc.stdin.take().expect("piped").write_all(program.as_bytes()).expect("written");
    assert!(cc.wait().expect("it ends").success());
    let bytes = Command::new(&binary).output().expect("it runs").stdout;
    let path = folder.join("usage");
    std::fs::write(&path, bytes).expect("written");
    path.to_str().expect("text").to_owned()
}

#[test]
fn the_usage_file_of_the_scheduler_is_read() {
    let golden = find_golden("pbs", "flat_mixed");
    let groups = file("usage_file_groups", expect_text(&golden["resource_group_file"]));
    let usage = golden["usage"].as_object().expect("usages");
    let set: Vec<&str> =
        golden["usage_set_explicitly"].as_array().expect("a list").iter().map(expect_text).collect();
    let entries: Vec<(&str, f64)> =
        set.iter().map(|name| (*name, usage[*name].as_f64().expect("a number"))).collect();
    assert!(entries.len() > 1);
    let list: String = entries.iter().map(|(name, amount)| format!("{name} {amount}\n")).collect();
    let list = file("usage_file_list", list);
    let binary = write_usage_file("usage_file_binary", &entries);
    let show =
        |usage: &str| fairshare(["show", "--tree", &groups, "--usage-file", usage, "--json"]).ok().to_owned();
    assert_eq!(show(&binary), show(&list));

    let ran = fairshare(["show", "--tree", &binary]);
    assert!(ran.error().contains("looks like the usage file of PBS's scheduler"), "{ran:?}");
    let mut bytes = std::fs::read(&binary).expect("read");
    bytes.truncate(bytes.len() - 3);
    let cut = file("usage_file_cut", bytes);
    let ran = fairshare(["show", "--tree", &groups, "--usage-file", &cut]);
    assert!(
        ran.error().ends_with(&format!("PBS's usage file is cut off within entry {}", entries.len())),
        "{ran:?}"
    );
    let odd = write_usage_file("usage_file_odd", &[("ann", 5.0), ("", 3.0), ("ben", -1.0)]);
    let ran = fairshare(["show", "--tree", &groups, "--usage-file", &odd]);
    assert_eq!(ran.err.matches("is invalid: left out, as PBS does").count(), 2, "{ran:?}");
}
