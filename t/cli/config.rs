// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare config check` without Flux. `t/t5049-config.t` compares it with Flux.

use serde_json::json;

use super::{directory, fairshare};

#[test]
fn a_refused_key_is_reported_with_file_value_range_and_remedy() {
    let room = directory("config_refused");
    let file = room.join("fairshare.toml");
    std::fs::write(&file, "[fairshare]\nrefesh = 5\nannotate = 0\n").expect("written");
    let file = file.to_str().expect("text");
    let ran = fairshare(["config", "check", file]);
    assert_eq!((ran.status, ran.err.as_str()), (1, ""), "{ran:?}");
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines.len(), 2, "{ran:?}");
    assert!(lines[0].starts_with(&format!("{file}: fairshare.annotate: expected true or false, got integer 0; correct the value, or remove the key")), "{ran:?}");
    assert!(
        lines[1].starts_with(&format!("{file}: fairshare.refesh: unknown key; known are live, refresh,"))
            && lines[1].ends_with("correct the key or remove it; did you mean \"refresh\"?"),
        "{ran:?}"
    );
    let ran = fairshare(["config", "check", "--json", room.to_str().expect("text")]);
    let document: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((ran.status, &document["accepted"]), (1, &json!(false)));
    assert_eq!(document["faults"][0]["file"], json!(file));
    assert_eq!(document["faults"][0]["key"], json!("fairshare.annotate"));
    assert_eq!(document["faults"][0]["value"], json!(0));
}

/// Flux starts with a configuration of an earlier version. `config check` warns of keys that no longer have an effect.
#[test]
fn a_key_of_an_earlier_version_is_accepted_with_a_warning() {
    let file = directory("config_retired").join("fairshare.toml");
    let text = "[fairshare]\nrefresh = 5\nmax-stall = \"2s\"\n\
                [job-manager]\nplugins = [{ load = \"mf_priority.so\", conf = { depth = 7 } }]\n";
    std::fs::write(&file, text).expect("written");
    let ran = fairshare(["config".as_ref(), "check".as_ref(), file.as_os_str()]);
    assert!(ran.status == 0 && ran.out.ends_with("fairshare.toml: accepted\n"), "{ran:?}");
    for key in ["fairshare.max-stall", "job-manager.plugins: depth"] {
        assert!(
            ran.err.contains(&format!("fairshare.toml: {key}: no longer a setting, ignored: remove it")),
            "{ran:?}"
        );
    }
}

#[test]
fn several_files_are_checked_as_one_configuration() {
    let room = directory("config_accepted");
    let (toml, json) = (room.join("a.toml"), room.join("b.json"));
    std::fs::write(&toml, "[fairshare]\nrefresh = \"often\"\n").expect("written");
    std::fs::write(&json, r#"{"fairshare": {"refresh": 5, "queues": {"q": {}}}, "queues": {"q": {}}}"#)
        .expect("written");
    let ran = fairshare(["config".as_ref(), "check".as_ref(), toml.as_os_str(), json.as_os_str()]);
    assert!(ran.ok().ends_with("b.json: accepted\n"), "{ran:?}");
    let ran = fairshare(["config".as_ref(), "check".as_ref(), toml.as_os_str()]);
    assert_eq!(ran.status, 1, "{ran:?}");
    std::fs::write(&toml, "").expect("written");
    assert!(fairshare(["config", "check", toml.to_str().expect("text")]).ok().ends_with(": accepted\n"));
}

#[test]
fn a_file_that_can_not_be_read_is_an_error() {
    let ran = fairshare(["config", "check", "/nowhere/at/all.toml"]);
    assert!(ran.error().contains("/nowhere/at/all.toml: can't be read: No such file"), "{ran:?}");
    assert_eq!(fairshare(["config", "check"]).status, 2);
}

#[test]
fn bytes_that_are_not_utf_8_are_accepted_only_in_comments() {
    let directory = directory("config_latin_1");
    for (text, status, fault) in [
        (&b"# caf\xe9\n[fairshare]\nrefresh = 30\n"[..], 0, ""),
        (
            b"[fairshare]\n[x]\ny = \"caf\xe9\"\n",
            1,
            "contains a text that is not UTF-8, which Flux can't read",
        ),
    ] {
        let path = directory.join("a.toml");
        std::fs::write(&path, text).expect("written");
        let ran = fairshare(["config", "check", path.to_str().expect("UTF-8")]);
        assert!(ran.status == status && ran.err.is_empty() && ran.out.contains(fault), "{ran:?}");
    }
}
