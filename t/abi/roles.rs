// SPDX-License-Identifier: LGPL-3.0-only
//! The role that each method requires. A guest must get no data of other users, whatever the payload claims.

use fairshare_embedded::Cred;
use mf_priority_testing::jobtap::{Jobtap, Role};
use mf_priority_testing::plugin::MfPriority;
use serde_json::{Value, json};

use super::{OWNER, SO, Site, job, topic};

const EPERM: i32 = 1;

/// All methods, each with the role that a caller needs.
const ROLES: [(&str, Role); 24] = [
    ("rec_update", Role::Owner),
    ("rec_q_update", Role::Owner),
    ("rec_proj_update", Role::Owner),
    ("rec_bank_update", Role::Owner),
    ("rec_fac_update", Role::Owner),
    ("rec_config_update", Role::Owner),
    ("policy_update", Role::Owner),
    ("policy_begin", Role::Owner),
    ("policy_part", Role::Owner),
    ("policy_commit", Role::Owner),
    ("policy_abort", Role::Owner),
    ("associations", Role::Admin),
    ("priorities", Role::Admin),
    ("prices", Role::Admin),
    ("tree", Role::Admin),
    ("reprioritize", Role::Owner),
    ("hand_over", Role::Owner),
    ("rest", Role::Owner),
    ("check", Role::Admin),
    ("explain", Role::Guest),
    ("standing", Role::Guest),
    ("jobs", Role::Guest),
    ("check_job", Role::Guest),
    ("stats", Role::Admin),
];

/// Returns payloads in which a guest claims to be another user.
fn list_forged_payloads(id: u64) -> Vec<Value> {
    let claims =
        json!({"owner": true, "rolemask": 1, "cred": {"userid": 5002, "rolemask": 1}, "userid": 5002});
    let with = |more: Value| {
        let mut all = claims.clone();
        all.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        all
    };
    vec![
        json!({}),
        with(json!({"id": id})),
        with(json!({"jobs": [id], "ids": [id]})),
        with(json!({"user": 5002})),
        with(json!({"user": 5002, "bank": "A"})),
        with(json!({"after": [5001, "B"]})),
        with(json!({"data": []})),
        json!({"jobs": [id]}),
        json!({"user": 5002}),
        json!({"bank": "A"}),
        json!({"queue": "q"}),
    ]
}

#[test]
fn the_role_table_contains_each_method_of_the_plugin() {
    let of_plugin: Vec<(&str, Role)> =
        MfPriority::METHODS.iter().map(|method| (method.title(), method.role)).collect();
    assert_eq!(of_plugin, ROLES);
}

#[test]
fn guests_cannot_read_data_of_other_users_or_change_data_with_any_payload() {
    let site = Site::new();
    let theirs = [site.submit(&job(5002, 1)), site.submit(&job(5002, 1))];
    site.submit(&job(5001, 1));
    let before = site.query();
    for (method, role) in ROLES {
        for payload in list_forged_payloads(theirs[0]) {
            for cred in [
                Cred::guest(5001),
                Cred::guest(6000),
                Cred { userid: 1000, rolemask: 2 },
                Cred { userid: 5002, rolemask: 0 },
            ] {
                let asked = site.host.request(&topic(method), Some(&payload.to_string()), cred);
                site.host.advance(2.0);
                let late: Vec<_> =
                    site.host.take_late_answers().into_iter().map(|late| late.answer).collect();
                for answer in std::iter::once(asked).chain(late) {
                    let place = format!("{method} {payload} as {cred:?}");
                    match answer {
                        Ok(text) => {
                            assert!(role == Role::Guest && cred.rolemask != 0, "{place}");
                            let text = text.unwrap_or_default();
                            // The id of the requested job is not secret: `flux jobs` shows the ids of all jobs to every user.
                            for secret in [theirs[1].to_string(), "5002".to_owned()] {
                                assert!(!text.contains(&secret), "{place} contains {secret}: {text}");
                            }
                        }
                        Err(refused) if role != Role::Guest || cred.rolemask == 0 => {
                            assert_eq!(refused.errno.0, EPERM, "{place}: {}", refused.text);
                        }
                        Err(refused) => assert!(!refused.text.is_empty(), "{place}"),
                    }
                }
            }
        }
    }
    assert_eq!(site.query(), before);
    site.check();
}

#[test]
fn the_former_method_prices_gives_the_same_answer_as_priorities() {
    let site = Site::new();
    // The first job fills the cluster, so the second is pending.
    let [_, id] = [4, 1].map(|nodes| site.submit(&job(5002, nodes)));
    let answer = |method| site.host.request(&topic(method), None, OWNER).unwrap().unwrap();
    let text = answer("priorities");
    let page: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(page["jobs"][0]["id"], json!(id));
    assert_eq!(answer("prices"), text);
}

/// The user has the roles `FLUX_ROLE_USER` and `FLUX_ROLE_ADMIN`. Methods that change data must refuse this user.
#[test]
fn admins_may_read_all_data_of_the_owner() {
    let site = Site::new();
    let theirs = site.submit(&job(5002, 1));
    let admin = Cred { userid: 5001, rolemask: 2 | 8 };
    for (method, role) in ROLES {
        let payload = if method == "explain" { json!({"jobs": [theirs]}) } else { json!({}) };
        let asked = |cred| site.host.request(&topic(method), Some(&payload.to_string()), cred);
        match role {
            Role::Owner => assert_eq!(asked(admin).unwrap_err().errno.0, EPERM, "{method}"),
            // If there is no tree, both the owner and the admin get an error.
            _ => assert_eq!(asked(admin).is_ok(), asked(crate::abi::OWNER).is_ok(), "{method}"),
        }
    }
    let ask = |method: &str, payload: Value, cred| {
        let answer = site.host.request(&topic(method), Some(&payload.to_string()), cred).unwrap();
        serde_json::from_str::<Value>(&answer.unwrap()).unwrap()
    };
    let answer = ask("explain", json!({"jobs": [theirs]}), admin);
    assert_eq!(
        (answer["jobs"][0]["id"].as_u64(), answer["refused"].as_array().unwrap().len()),
        (Some(theirs), 0)
    );
    assert!(ask("jobs", json!({"user": 5002}), admin)["jobs"].is_array());
}

/// With `public = "all"`, guests may see the fair-share of all users. So they may see the terms of other users' jobs too, but nothing else.
#[test]
fn guests_see_the_terms_of_other_users_jobs_only_if_the_site_shows_the_whole_tree() {
    let site = Site::new();
    // The first job fills the cluster, so the second is pending.
    let [_, theirs] = [4, 1].map(|nodes| site.submit(&job(5002, nodes)));
    let explain = |public: &str, is_private: bool, cred| {
        let config = json!({"fairshare": {"public": public}, "access": {"private-mode": is_private}});
        site.host.reload_config(&config).unwrap();
        let payload = json!({"jobs": [theirs]}).to_string();
        let answer = site.host.request(&topic("explain"), Some(&payload), cred).unwrap().unwrap();
        serde_json::from_str::<Value>(&answer).unwrap()
    };
    let guest = Cred::guest(5001);
    for (public, is_private, code) in
        [("own", false, "not-yours"), ("banks", false, "not-yours"), ("all", true, "unknown")]
    {
        let answer = explain(public, is_private, guest);
        assert_eq!((&answer["jobs"], &answer["refused"][0]["code"]), (&json!([]), &json!(code)), "{public}");
    }
    let shown = explain("all", false, guest)["jobs"][0].clone();
    let whole = explain("all", false, OWNER)["jobs"][0].clone();
    assert!(shown["posted"]["terms"].as_array().is_some_and(|terms| !terms.is_empty()), "{shown}");
    for key in ["id", "userid", "bank", "queue", "urgency", "state", "fairshare", "posted", "exact"] {
        assert_eq!(shown[key], whole[key], "{key}");
    }
    assert_eq!(whole["others"][0]["cause"], "resources");
    for key in ["holds", "others", "helps", "carries"] {
        assert_eq!(shown[key], json!([]), "{key}");
    }
    site.check();
}

/// In private mode, the answer about a job of another user must equal the answer about an unknown id.
#[test]
fn in_private_mode_the_answer_about_another_users_job_equals_that_of_an_unknown_id() {
    for is_private in [false, true] {
        let site = Site::new();
        let access = json!({"access": {"private-mode": is_private}});
        site.host.reload_config(&access).unwrap();
        // A refused configuration must not switch private mode on or off.
        let refused = json!({"access": {"private-mode": !is_private}, "fairshare": {"refresh": "often"}});
        site.host.reload_config(&refused).unwrap_err();
        let theirs = site.submit(&job(5002, 1));
        let read_refusal = |id: u64, cred| {
            let payload = json!({"jobs": [id]}).to_string();
            let answer = site.host.request(&topic("explain"), Some(&payload), cred).unwrap().unwrap();
            let mut refusal = serde_json::from_str::<Value>(&answer).unwrap()["refused"][0].clone();
            refusal["id"] = Value::Null;
            refusal
        };
        let guest = Cred::guest(5001);
        assert_eq!(read_refusal(theirs, guest) == read_refusal(1, guest), is_private);
        assert!(read_refusal(theirs, Cred { userid: 5001, rolemask: 2 | 8 })["code"].is_null());
    }
}

/// Another priority plugin has set the priority of a job of user 5002, as the priority in Flux shows.
#[test]
fn in_private_mode_a_guest_does_not_get_the_job_that_another_plugin_prioritized() {
    let site = Site::new();
    // The first job fills the cluster, so the other jobs are pending.
    let [_, theirs] = [4, 1].map(|nodes| site.submit(&job(5002, nodes)));
    let mine = site.submit(&job(5001, 1));
    let asked = json!({"id": theirs, "urgency": 16, "priority": 77, "state": 8});
    site.host.call_raw(SO, "job.priority.get", theirs, Some(&asked)).unwrap();
    for is_private in [false, true] {
        site.host.reload_config(&json!({"access": {"private-mode": is_private}})).unwrap();
        for (method, payload) in [
            ("explain", json!({"jobs": [mine]})),
            ("standing", json!({})),
            ("jobs", json!({})),
            ("check_job", json!({"jobspec": job(5001, 1).jobspec})),
        ] {
            let gets_job = |cred| {
                let answer = site.host.request(&topic(method), Some(&payload.to_string()), cred);
                let answer: Value = serde_json::from_str(&answer.unwrap().unwrap()).unwrap();
                answer["overruled"]["job"] == json!(theirs)
            };
            let got = [Cred::guest(5001), Cred::guest(5002), OWNER].map(gets_job);
            assert_eq!(got, [!is_private, true, true], "{method}, private mode: {is_private}");
        }
    }
}
