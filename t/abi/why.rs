// SPDX-License-Identifier: LGPL-3.0-only
//! Tests requests of users: each user may read only some data, and the terms of a priority sum to the priority in Flux.
//! Also tests guests who send requests without a pause.

use fairshare_embedded::{Cred, Errno, Shape, State, Submission};
use serde_json::{Value, json};

use super::push::parse_answer;
use super::{OWNER, Site, association, document, job, job_in, queue, topic};

fn ask(site: &Site, method: &str, payload: Value, cred: Cred) -> Value {
    let answer = site.host.request(&topic(method), Some(&payload.to_string()), cred);
    parse_answer(method, &answer.expect("it is answered").expect("with a document"))
}

fn expect_refusal(site: &Site, method: &str, payload: &str, cred: Cred) -> (i32, String) {
    let refused = site.host.request(&topic(method), Some(payload), cred).expect_err("it is refused");
    (refused.errno.0, refused.text)
}

#[test]
fn a_guest_reads_only_their_own_data_with_any_payload() {
    let site = Site::new();
    // This job takes all nodes, so the next jobs are pending.
    site.submit(&job(5002, 4));
    let (mine, other) = (site.submit(&job(5001, 1)), site.submit(&job(5002, 1)));
    let guest = Cred::guest(5001);
    let forged =
        json!({"jobs": [mine, other, 1], "user": 5002, "userid": 5002, "rolemask": 1, "owner": true});
    let answer = ask(&site, "explain", forged, guest);
    assert_eq!(
        answer["jobs"].as_array().unwrap().iter().map(|it| &it["id"]).collect::<Vec<_>>(),
        [&json!(mine)]
    );
    let codes: Vec<_> = answer["refused"].as_array().unwrap().iter().map(|it| it["code"].clone()).collect();
    assert_eq!(codes, ["not-yours", "unknown"]);
    let listed = ask(&site, "jobs", json!({"ids": [mine, other], "userid": 5002}), guest);
    assert_eq!(
        listed["jobs"].as_array().unwrap().iter().map(|it| &it["id"]).collect::<Vec<_>>(),
        [&json!(mine)]
    );
    let standing = ask(&site, "standing", json!({"all": true}), guest);
    let own: Vec<_> = standing["associations"].as_array().unwrap().iter().map(|it| &it["userid"]).collect();
    assert_eq!(own, [&json!(5001)]);
    for (method, payload) in [("jobs", r#"{"user": 5002}"#), ("standing", r#"{"user": 5002, "bank": "A"}"#)] {
        let text = "user 5001 may not ask for user 5002: only the instance owner and admins may".to_owned();
        assert_eq!(expect_refusal(&site, method, payload, guest), (1, text));
    }
    assert_eq!(expect_refusal(&site, "stats", "{}", guest).0, 1);
    // The plugin must not log payloads of guests.
    site.host.take_log();
    for payload in [
        "[]",
        "{",
        r#"{"jobs": "all"}"#,
        r#"{"jobs": []}"#,
        r#"{"after": -1}"#,
        "\u{1F4A5}",
        &"[".repeat(5000),
    ] {
        for method in ["explain", "jobs", "standing", "check_job"] {
            if let Err(refused) = site.host.request(&topic(method), Some(payload), guest) {
                assert!(
                    [22, 71].contains(&refused.errno.0) && !refused.text.is_empty(),
                    "{method} {payload}"
                );
            }
        }
    }
    assert_eq!(site.host.take_log().len(), 0);
    assert_eq!(ask(&site, "jobs", json!({}), OWNER)["jobs"].as_array().unwrap().len(), 2);
    site.check();
}

/// A pseudo-random number generator.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

#[test]
fn the_terms_of_a_thousand_jobs_sum_to_the_priority_in_flux() {
    let mut random = Random(13);
    let users: Vec<u32> = (5001..5041).collect();
    let records: Vec<Value> = users
        .iter()
        .map(|user| {
            let bank = ["A", "B"][(user % 2) as usize];
            let fairshare = random.below(1_000_000) as f64 / 1e6;
            association(*user, bank, json!({"fairshare": fairshare, "def_bank": bank}))
        })
        .collect();
    let document = json!({
        "associations": records,
        "queues": [queue("q", json!({"priority": 7})), queue("r", json!({"priority": -3}))],
        "projects": [{"project": "*"}],
        "banks": [{"bank": "A", "priority": 0.37}, {"bank": "B", "priority": 1.5}],
        "priority_factors": [
            {"factor": "fairshare", "weight": 123_457}, {"factor": "bank", "weight": 991}, {"factor": "size", "weight": 50_021},
            {"factor": "urgency", "weight": 77},
        ],
        "config": {},
    });
    let site = Site::with(&document);
    let mut ids = Vec::new();
    for _ in 0..1000 {
        let user = users[random.below(40) as usize];
        let attributes = [("queue", ["q", "r"][random.below(2) as usize])];
        let nodes = 1 + random.below(4);
        let mut job =
            Submission::simple(user, &Shape { nodes, cores: 1, attributes: &attributes, ..Shape::default() });
        job.urgency = i32::try_from(random.below(32)).unwrap();
        ids.push(site.submit(&job));
    }
    let (mut seen, mut by_terms) = (0, 0);
    for part in ids.chunks(100) {
        let answer = ask(&site, "explain", json!({"jobs": part}), OWNER);
        for job in answer["jobs"].as_array().unwrap() {
            let id = job["id"].as_u64().unwrap();
            if site.state(id) != State::Sched {
                continue;
            }
            seen += 1;
            let has = site.host.job(id, |job| job.priority).unwrap();
            let posted = &job["posted"];
            assert_eq!(posted["priority"].as_i64(), Some(has), "{job}");
            let terms = posted["terms"].as_array().unwrap();
            if terms.is_empty() {
                assert!(
                    ["held-by-urgency", "expedited"].contains(&posted["outcome"].as_str().unwrap()),
                    "{job}"
                );
                continue;
            }
            by_terms += 1;
            let product = |term: &Value| term["value"].as_f64().unwrap() * term["weight"].as_f64().unwrap();
            let sum: f64 = terms.iter().map(product).sum();
            assert_eq!(sum.round().clamp(0.0, 4_294_967_294.0) as i64, has, "{job}");
        }
        // The answer to "jobs" must have the same values as the answer to "explain".
        let listed = ask(&site, "jobs", json!({"ids": part, "limit": 100}), OWNER);
        for row in listed["jobs"].as_array().unwrap() {
            let id = row["id"].as_u64().unwrap();
            assert_eq!(
                row["priority"].as_i64(),
                Some(site.host.job(id, |job| job.priority).unwrap()),
                "{row}"
            );
            let weights = &listed["weighings"][row["weighing"].as_u64().unwrap() as usize];
            let values = row["values"].as_array().unwrap();
            let products = values.iter().zip(weights.as_array().unwrap());
            let sum: f64 =
                products.map(|(value, weight)| value.as_f64().unwrap() * weight.as_f64().unwrap()).sum();
            assert!(
                values.is_empty()
                    || sum.round().max(0.0) as i64 == site.host.job(id, |job| job.priority).unwrap(),
                "{row}"
            );
        }
    }
    assert!(seen > 900 && by_terms > 800, "{seen} {by_terms}");
    site.check();
}

/// The topic of Flux's request for the state of a queue, and an answer for a stopped queue.
pub(super) const QUEUE_STATUS: &str = "job-manager.queue-status";
pub(super) const STOPPED: &str = r#"{"enable": true, "start": false, "stop_reason": "repairs"}"#;

/// The plugin answers a request about a pending job after the job manager has reported the state of the job's queue.
/// At most eight requests of each guest may wait for this.
#[test]
fn eight_requests_of_a_guest_may_wait_for_the_state_of_a_queue() {
    let site = Site::with(&document());
    site.host.set_response(QUEUE_STATUS, Some(STOPPED));
    site.submit(&job(5002, 4));
    let waiting = [5002, 5001].map(|user| site.submit(&job(user, 1)));
    let ask = |user, id: u64| {
        let payload = json!({"jobs": vec![id; 100]}).to_string();
        site.host.request_now(&topic("explain"), Some(&payload), Cred::guest(user)).unwrap_err().errno
    };
    let asked: Vec<Errno> = (0..1000).map(|_| ask(5002, waiting[0])).collect();
    assert!(asked[..8].iter().all(|errno| *errno == Errno::EINPROGRESS), "{:?}", &asked[..8]);
    assert!(asked[8..].iter().all(|errno| errno.0 == 11), "{:?}", &asked[8..12]);
    assert_eq!(ask(5001, waiting[1]), Errno::EINPROGRESS, "another guest can still send requests");
    site.host.advance(5.0);
    let late = site.host.take_late_answers();
    assert_eq!(late.iter().map(|it| it.cred.userid).filter(|user| *user == 5002).count(), 8);
    assert_eq!(late.len(), 9);
    for late_answer in late {
        let answer: Value = serde_json::from_str(&late_answer.answer.unwrap().unwrap()).unwrap();
        let jobs = answer["jobs"].as_array().unwrap();
        assert_eq!(jobs.len(), 1, "a job is explained once, however often it is named");
        assert!(jobs[0].to_string().contains("queue q is stopped: repairs"), "{}", jobs[0]);
    }
    // A request that would be stored may have at most 64 KiB.
    let payload = json!({"jobs": [waiting[0]], "more": "x".repeat(65_536)}).to_string();
    let (errno, text) = expect_refusal(&site, "explain", &payload, Cred::guest(5002));
    assert_eq!(
        (errno, text),
        (22, format!("the request has {} bytes; at most 65536 are allowed", payload.len()))
    );
    site.check();
}

/// The explanation of a held job may examine all held jobs before it. So one request of a guest explains at most two held jobs.
#[test]
fn a_request_of_a_guest_explains_two_held_jobs() {
    let site = Site::with(&document());
    let jobs: Vec<u64> = (0..14).map(|_| site.submit(&job(5001, 1))).collect();
    let held: Vec<u64> = jobs.iter().copied().filter(|id| site.state(*id) == State::Depend).collect();
    let answer = ask(&site, "explain", json!({"jobs": jobs}), Cred::guest(5001));
    let ids = |list: &Value| list.as_array().unwrap().iter().map(|it| it["id"].clone()).collect::<Vec<_>>();
    assert_eq!(ids(&answer["refused"]), held[2..].iter().map(|id| json!(id)).collect::<Vec<_>>());
    assert!(held.len() > 2 && answer["refused"].as_array().unwrap().iter().all(|it| it["code"] == "later"));
    assert_eq!(ids(&answer["jobs"]).len(), jobs.len() - (held.len() - 2));
    assert_eq!(ask(&site, "explain", json!({"jobs": jobs}), OWNER)["jobs"].as_array().unwrap().len(), 14);
}

#[test]
fn twenty_of_many_dependencies_are_named_and_all_are_counted() {
    let site = Site::with(&document());
    let before = (0..24).map(|n| site.submit(&job(5001 + n % 2, 1)));
    let dependencies: Vec<_> = before.map(|id| json!({"scheme": "afterany", "value": id})).collect();
    let mut blocked = job(5001, 1);
    blocked.jobspec["attributes"]["system"]["dependencies"] = dependencies.into();
    let blocked = site.submit(&blocked);
    let answer = ask(&site, "explain", json!({"jobs": [blocked]}), Cred::guest(5001));
    let answer = &answer["jobs"][0];
    let named = answer["others"].as_array().unwrap();
    assert_eq!((named.len(), &answer["others_total"]), (20, &json!(24)), "{answer}");
    assert!(named.iter().all(|it| it["cause"] == "dependency"));
}

#[test]
fn a_guest_that_sends_requests_without_pause_gets_delayed_answers() {
    let site = Site::with(&document());
    let mine = site.submit(&job(5002, 1));
    let payload = json!({"jobs": [mine]}).to_string();
    let ask = |user| site.host.request_now(&topic("explain"), Some(&payload), Cred::guest(user));
    // When the guest has no credit left, the requests wait.
    let mut at_once = 0;
    let waits = loop {
        match ask(5002) {
            Ok(_) => at_once += 1,
            Err(refused) => break refused,
        }
        assert!(at_once < 100_000, "no request is delayed");
    };
    assert_eq!(waits.errno, Errno::EINPROGRESS);
    // Eight requests of one user may wait. The plugin refuses further requests with a text that says when to
    // try again.
    let mut waiting = 1;
    let full = loop {
        match ask(5002) {
            Err(refused) if refused.errno == Errno::EINPROGRESS => waiting += 1,
            other => break other.unwrap_err(),
        }
    };
    assert_eq!((waiting, full.errno.0), (8, 11));
    assert!(
        full.text.starts_with("too many requests of user 5002 wait already; try again in "),
        "{}",
        full.text
    );
    // Requests of the owner are not delayed.
    assert!(site.host.request_now(&topic("explain"), Some(&payload), OWNER).is_ok());
    site.host.advance(300.0);
    let late = site.host.take_late_answers();
    assert_eq!(late.len(), 8);
    for late_answer in &late {
        assert_eq!(late_answer.cred.userid, 5002);
        let answer: Value =
            serde_json::from_str(late_answer.answer.as_ref().unwrap().as_ref().unwrap()).unwrap();
        assert_eq!(answer["jobs"][0]["id"], json!(mine));
    }
    // By now the guest has new credit for requests, and gets an answer at once.
    assert!(ask(5002).is_ok());
    // When the plugin is removed, waiting requests get an error. With ENOSYS, the command would report after a reload that
    // the loaded plugin lacks the method.
    while ask(5002).is_ok() {}
    site.host.remove(super::SO).unwrap();
    let late = site.host.take_late_answers();
    assert_eq!(late.len(), 1);
    let refused = late[0].answer.as_ref().unwrap_err();
    assert_eq!((refused.errno.0, &*refused.text), (11, "the plugin was removed or failed; try again"));
    assert!(site.host.violations().is_empty(), "{:?}", site.host.violations());
}

/// The answer lists limits over scopes together with the other limits. Each has its scope, and the amount that the jobs in the scope use.
#[test]
fn limits_over_scopes_are_listed_with_their_scope() {
    let mut site_document = document();
    site_document["banks"] = json!([
        {"bank": "root", "priority": 0, "parent": "", "shares": 1, "active": 1},
        {"bank": "A", "priority": 0, "parent": "root", "shares": 1, "active": 1},
        {"bank": "B", "priority": 0, "parent": "root", "shares": 1, "active": 1},
    ]);
    site_document["associations"] = json!([
        association(5001, "A", json!({})),
        association(5002, "A", json!({})),
        association(5002, "B", json!({}))
    ]);
    site_document["limits"] = json!([
        {"scope": "bank", "name": "root", "run-sched-nodes": 3},
        {"scope": "bank", "name": "*", "queue": "q", "run-jobs": 9},
        {"scope": "bank", "name": "B", "run-jobs": 7},
        {"scope": "user", "name": "*", "run-sched-jobs": 1},
        {"scope": "association", "name": "5001/A", "queue": "q", "run-gpus": 4},
        {"scope": "bank", "name": "A", "active-jobs": 6},
        {"scope": "queue", "name": "q", "run-nodes": 50},
    ]);
    let site = Site::with(&site_document);
    site.submit(&job(5002, 2));
    let first = site.submit(&job(5001, 1));
    let wide = site.submit(&job(5002, 1));
    let held = site.submit(&job(5001, 1));
    assert_eq!([first, wide, held].map(|id| site.state(id)), [State::Run, State::Depend, State::Depend]);
    let answer = ask(&site, "standing", json!({}), Cred::guest(5001));
    let limits = answer["associations"][0]["limits"].as_array().unwrap();
    let of =
        |limit: &Value| ["limit", "scope", "name", "queue", "used", "limit_is"].map(|key| limit[key].clone());
    let shown: Vec<_> = limits.iter().filter(|it| !it["name"].is_null()).map(of).collect();
    let wanted = json!([
        ["max-run-gpus-association-queue", "association", "5001/A", "q", 0, 4],
        ["max-active-jobs-bank", "bank", "A", null, 4, 6],
        ["max-run-jobs-bank-queue", "bank", "A", "q", 2, 9],
        ["max-run-sched-nodes-bank", "bank", "root", null, 3, 3],
        ["max-run-sched-jobs-user", "user", "5001", null, 1, 1],
        ["max-run-nodes-in-queue", "queue", "q", "q", 3, 50],
    ]);
    assert_eq!(json!(shown), wanted);
    // A guest gets only amounts of the guest's own jobs. The amount that a bank or queue uses includes jobs of other users, and is hidden.
    site.host.reload_config(&json!({"fairshare": {"public": "own"}})).unwrap();
    let usage_of = |cred| {
        let answer = ask(&site, "standing", json!({"user": 5001}), cred);
        let limits = answer["associations"][0]["limits"].as_array().unwrap().iter();
        let over = limits.filter(|it| !it["name"].is_null());
        over.map(|it| json!([it["name"], it["used"], it["limit_is"]])).collect::<Value>()
    };
    let own = json!([
        ["5001/A", 0, 4],
        ["A", null, 6],
        ["A", null, 9],
        ["root", null, 3],
        ["5001", 1, 1],
        ["q", null, 50]
    ]);
    assert_eq!(usage_of(Cred::guest(5001)), own);
    let all =
        json!([["5001/A", 0, 4], ["A", 4, 6], ["A", 2, 9], ["root", 3, 3], ["5001", 1, 1], ["q", 3, 50]]);
    assert_eq!(usage_of(OWNER), all);
    // For a guest, check_job leaves out limits with hidden amounts. Otherwise the guest could find these amounts by checking jobs of several sizes.
    let check = |cred| {
        let payload = json!({"jobspec": job(5001, 1).jobspec, "user": 5001, "count": 5});
        let checked = ask(&site, "check_job", payload, cred);
        let names = checked["holds"].as_array().unwrap().iter().map(|hold| hold["name"].clone());
        let more = ["jobs_rejected", "leaves_out_shared_limits"].map(|key| checked[key].clone());
        (names.collect::<Value>(), json!(more))
    };
    assert_eq!(check(Cred::guest(5001)), (json!(["5001"]), json!([0, true])));
    assert_eq!(check(OWNER), (json!(["root", "5001"]), json!([3, false])));
    let why = ask(&site, "explain", json!({"jobs": [held]}), Cred::guest(5001));
    let holds = why["jobs"][0]["holds"].as_array().unwrap();
    let of = |hold: &Value| ["limit", "scope", "name"].map(|key| hold[key].clone());
    let wanted =
        json!([["max-run-sched-nodes-bank", "bank", "root"], ["max-run-sched-jobs-user", "user", "5001"]]);
    assert_eq!(json!(holds.iter().map(of).collect::<Vec<_>>()), wanted);
    site.check();
}

#[test]
fn a_check_of_a_job_predicts_the_outcome_of_its_submission() {
    let mut site_document = document();
    site_document["limits"] = json!([{"scope": "bank", "name": "A", "run-sched-nodes": 3}]);
    let site = Site::with(&site_document);
    let check = |job: &Submission| {
        let payload = json!({"jobspec": job.jobspec, "urgency": job.urgency});
        ask(&site, "check_job", payload, Cred::guest(job.userid))
    };
    let mut unreadable = job(5001, 1);
    unreadable.jobspec["attributes"]["system"]["bank"] = json!(5);
    let mut without_version = job(5001, 1);
    without_version.jobspec["version"] = json!("one");
    let jobs = [
        job(5002, 1),
        job(5001, 2),
        job(5001, 1),
        job_in(5001, "Z", 1),
        job(5999, 1),
        job(5001, 9),
        unreadable,
        without_version,
    ];
    let (mut rejected, mut held, mut free) = (0, 0, 0);
    for job in &jobs {
        let checked = check(job);
        match site.host.submit(job) {
            Err(text) => {
                // Flux cuts longer texts.
                assert_eq!(
                    checked["rejection"]
                        .as_str()
                        .map(|rejection| rejection.get(..text.len()).unwrap_or(rejection)),
                    Some(text.as_str())
                );
                rejected += 1;
            }
            Ok(id) => {
                assert_eq!(checked["rejection"], Value::Null, "{job:?}");
                let explained = ask(&site, "explain", json!({"jobs": [id]}), OWNER);
                let names = |holds: &Value| {
                    holds.as_array().unwrap().iter().map(|hold| hold["limit"].clone()).collect::<Vec<_>>()
                };
                assert_eq!(names(&checked["holds"]), names(&explained["jobs"][0]["holds"]));
                if names(&checked["holds"]).is_empty() {
                    let priority = site.host.job(id, |job| job.priority).unwrap();
                    assert_eq!(checked["priority"]["priority"].as_i64(), Some(priority));
                    free += 1;
                } else {
                    held += 1;
                }
            }
        }
    }
    assert_eq!((rejected, held, free), (5, 1, 2));
    // The owner may ask about another user. A guest may not.
    let payload = json!({"jobspec": job(5002, 1).jobspec, "user": 5002, "count": 7});
    let text = "user 5001 may not ask for user 5002: only the instance owner and admins may".to_owned();
    assert_eq!(expect_refusal(&site, "check_job", &payload.to_string(), Cred::guest(5001)), (1, text));
    assert_eq!(ask(&site, "check_job", payload, OWNER)["userid"], 5002);
    // In private mode, the number of pending jobs of other users is private, too.
    let place = |cred| {
        let checked = ask(&site, "check_job", json!({"jobspec": job(5002, 1).jobspec, "user": 5002}), cred);
        (checked["place"].is_u64(), checked["place_of"] == 0)
    };
    assert_eq!(place(Cred::guest(5002)), (true, false));
    site.host.reload_config(&json!({"access": {"private-mode": true}})).unwrap();
    assert_eq!((place(Cred::guest(5002)), place(OWNER).1), ((false, true), false));
    for (payload, text) in [
        (json!({}), "jobspec: expected an object"),
        (json!({"jobspec": {}, "urgency": 32}), "urgency: expected an integer from 0 to 31, got "),
        (json!({"jobspec": {}, "count": 0}), "count: expected an integer from 1 to 1000000, got "),
    ] {
        let (errno, found) = expect_refusal(&site, "check_job", &payload.to_string(), OWNER);
        assert_eq!(errno, 22);
        assert!(found.starts_with(&format!("mf_priority unpack: {text}")), "{found}");
    }
    // jansson reads the jobspec, and refuses some JSON that another parser accepts.
    for (jobspec, reason) in [
        ("{\"x\": 99999999999999999999}", "too big integer"),
        ("{\"x\": \"\\u0000\"}", "\\u0000 is not allowed"),
    ] {
        let payload = format!("{{\"jobspec\": {jobspec}}}");
        let (errno, found) = expect_refusal(&site, "check_job", &payload, OWNER);
        let text = format!("failed to unpack check_job msg: Protocol error: {reason}");
        assert!(errno == 71 && found.starts_with(&text), "{errno} {found}");
    }
    site.check();
}
