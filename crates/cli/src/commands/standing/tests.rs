// SPDX-License-Identifier: LGPL-3.0-only
//! Tests of the output of `flux fairshare standing`.

use super::association::describe_jobs;
use crate::tests::golden::{
    check, make_screen, make_standing_reply, make_standing_reply_with_nested_banks, make_words,
};
use crate::ui::teller::TextPrinter;
use fairshare_engine::engine::answers::Standings;
use serde_json::{Value, json};

fn render_screens(name: &str, document: Value, long: bool, caller: u32) -> String {
    let standing: Standings = serde_json::from_value(document).expect("a standing");
    let mut screens = String::new();
    for width in [80, 120] {
        let (screen, words) = (make_screen(width), make_words());
        let teller = TextPrinter::new(&screen, &words);
        teller.print_association(&standing.associations[0], &standing, long, caller);
        let text = String::from_utf8(teller.out.into_bytes()).expect("text");
        assert!(text.lines().all(|line| line.chars().count() <= width), "{name}: {text}");
        screens.push_str(&format!("===== {width} columns\n{text}"));
    }
    check(name, 120, &screens);
    screens
}

#[test]
fn screens_of_standings_equal_the_golden_files() {
    let text = render_screens("standing", make_standing_reply(), false, 5001);
    assert!(
        text.contains(
            "11th of 18 associations: 10 are ahead of you, tied with 1 other; fair-share 0.421053."
        ),
        "{text}"
    );
    let text = render_screens("standing-long", make_standing_reply(), true, 0);
    assert!(text.contains("11th of 18 associations: 10 are ahead of ann"), "{text}");
    let text = render_screens("standing-deep", make_standing_reply_with_nested_banks(), true, 0);
    assert!(
        text.find("     ann ") < text.find("   phys ") && text.find("   phys ") < text.find("   ops "),
        "{text}"
    );
    // The plugin lists an unset limit of a queue only while its counter is not 0.
    let mut in_use = make_standing_reply();
    let of = &mut in_use["associations"][0];
    let used = json!({"limit": "max-run-jobs-queue", "queue": "batch", "measure": "jobs", "used": 2, "reserved": 0, "limit_is": null});
    let budget = json!({"limit": "budget-node-hours-bank", "measure": "node-hours", "used": 1, "reserved": 0, "limit_is": 0});
    of["limits"].as_array_mut().expect("limits").extend([used, budget]);
    let text = render_screens("standing", in_use, false, 5001);
    assert!(text.contains("1 other limit of the association is not set"), "{text}");
    let mut blocked = make_standing_reply();
    blocked["associations"][0]["jobs"]["blocked"] = json!(3);
    let text =
        describe_jobs(&serde_json::from_value(blocked["associations"][0].clone()).expect("an association"));
    let wanted = "Jobs: 3 running on 16 cores, 1 pending, 2 more held, 3 more blocked (urgency 0, priority 0 or dependencies).";
    assert_eq!(text, wanted);
    // With public = "own" a bank's limit is shown without its count.
    let mut own = make_standing_reply();
    let of = &mut own["associations"][0];
    of["levels"] = json!([of["levels"][2]]);
    for limit in of["limits"].as_array_mut().expect("limits").iter_mut().filter(|it| it["scope"] == "bank") {
        limit["used"] = Value::Null;
    }
    own["public"] = json!("own");
    let text = render_screens("standing-own", own, false, 5001);
    let of_banks: Vec<_> = text.lines().filter(|line| line.contains("-bank")).collect();
    assert!(of_banks.len() == 4 && of_banks.iter().all(|line| !line.contains('[')), "{text}");
    let mut budgeted = make_standing_reply();
    let budget = |scope: &str, name: &str, spent: Value| {
        let is_shown = spent.is_u64();
        let show = |value: Value| if is_shown { value } else { Value::Null };
        json!({
            "scope": scope, "name": name, "unit": "node-hours", "start": 1_735_689_600, "end": 1_798_761_600,
            "in_force": true, "deposited": 36_000_000_000i64, "spent": spent, "committed": show(json!(3_600_000)),
            "rate": show(json!(360_000_000)), "complete": true,
        })
    };
    budgeted["associations"][0]["budgets"] =
        json!([budget("bank", "chem", Value::Null), budget("user", "5001", json!(9_000_000_000u64))]);
    let text = render_screens("standing-budgets", budgeted, false, 5001);
    assert!(text.contains("  bank chem: 10,000 node-hours until "), "amounts are hidden: {text}");
    assert!(text.contains("2,500 of 10,000 node-hours spent, 1 committed, 7,499 left until "), "{text}");
    let mut pushed = make_standing_reply();
    let of = &mut pushed["associations"][0];
    (of["rank"], of["levels"], of["limits"]) = (Value::Null, json!([]), json!([]));
    pushed["live"] = json!(false);
    let text = render_screens("standing-pushed", pushed, false, 5001);
    assert!(
        text.contains("Not ranked: the plugin has no tree") && text.contains("No limit is set."),
        "{text}"
    );
}
