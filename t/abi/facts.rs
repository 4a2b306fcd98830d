// SPDX-License-Identifier: LGPL-3.0-only
//! Tests which data of a running job the plugin reads from R, for any content of R.

use fairshare_embedded::{Order, State};
use serde_json::{Value, json};

use super::{SO, Site, job};

/// Returns the totals of running jobs in the answer to "check" (jobs, jobs with an unread R, nodes, cores,
/// GPUs), and the part of the answer that has these totals.
fn read_running_totals(site: &Site) -> ([u64; 5], Value) {
    let running = site.check()["running"].take();
    (["jobs", "unread", "nodes", "cores", "gpus"].map(|key| running[key].as_u64().unwrap()), running)
}

#[test]
fn the_data_of_r_survive_reload_and_restart() {
    let site = Site::new();
    site.host.advance(3.25);
    let id = site.submit(&job(5002, 2));
    assert_eq!(site.state(id), State::Run);
    let (r, submitted) = site.host.job(id, |job| (job.r.clone().unwrap(), job.t_submit)).unwrap();
    let cores = |entry: &Value| match entry["children"]["core"].as_str().unwrap().split_once('-') {
        Some((low, high)) => 1 + high.parse::<u64>().unwrap() - low.parse::<u64>().unwrap(),
        None => 1,
    };
    let entries = r["execution"]["R_lite"].as_array().unwrap();
    let given = [1, 0, entries.len() as u64, entries.iter().map(cores).sum(), 0];
    let before = read_running_totals(&site);
    assert_eq!(before.0, given);
    assert_eq!(
        (&before.1["since"], &before.1["submitted"]),
        (&r["execution"]["starttime"], &json!(submitted))
    );
    site.host.advance(1000.0);
    site.host.remove(SO).unwrap();
    site.load(&super::document());
    assert_eq!(read_running_totals(&site), before, "reload");
    site.host.restart(Order::Ascending).unwrap();
    site.host.settle();
    assert_eq!(read_running_totals(&site), before, "restart");
    site.finish(id);
    assert_eq!(read_running_totals(&site).0, [0; 5]);
}

/// Calls `job.state.run` for job `id` with the R `r`. Returns the totals of running jobs, the part of the answer to "check" that has these totals,
/// and the logged errors.
fn start_with_r(site: &Site, id: u64, r: &Value) -> ([u64; 5], Value, Vec<String>) {
    site.errors();
    let input = json!({"id": id, "userid": 5002, "urgency": 16, "state": 16, "priority": 1, "t_submit": 1.5,
        "jobspec": job(5002, 1).jobspec, "R": r,
        "entry": {"timestamp": 99.5, "name": "alloc"}});
    let (rc, _) = site.host.call_raw(SO, "job.state.run", id, Some(&input)).unwrap();
    assert_eq!(rc, 1, "{r}");
    let (amounts, more) = read_running_totals(site);
    (amounts, more, site.errors())
}

fn make_resource_set(entries: Value, start: Value) -> Value {
    json!({"version": 1, "execution": {"R_lite": entries, "starttime": start, "expiration": 0}})
}

#[test]
fn an_r_of_any_form_is_read_or_logged() {
    let site = Site::new();
    let id = site.submit(&job(5002, 1));
    let rank = |rank: &str, children: Value| json!([{"rank": rank, "children": children}]);
    let all = "0-4294967295";
    for (r, amounts, since) in [
        (make_resource_set(rank("0-3", json!({"core": "0-3", "gpu": "0,2"})), json!(7.5)), [4, 16, 8], 7.5),
        // Reading a long range of ranks must not take longer than reading a short range.
        (
            make_resource_set(rank("0-4294967294", json!({"core": "0"})), json!(7)),
            [4_294_967_295, 4_294_967_295, 0],
            7.0,
        ),
        (make_resource_set(json!([{"rank": 5, "children": {"core": 3}}]), json!(7.0)), [1, 1, 0], 7.0),
        // If R has no start time, the usage starts at the timestamp of the event in the arguments (here `alloc`).
        (json!({"version": 1, "execution": {"R_lite": []}}), [0, 0, 0], 99.5),
    ] {
        let (totals, more, errors) = start_with_r(&site, id, &r);
        assert_eq!((&totals[2..], &more["since"]), (&amounts[..], &json!(since)), "{r}");
        assert_eq!((totals[1], errors), (0, vec![]), "{r}");
    }
    for (r, what) in [
        (json!(null), "its version is not 1"),
        (json!([]), "its version is not 1"),
        (json!({"version": 2}), "its version is not 1"),
        (json!({"version": 1}), "it has no execution"),
        (json!({"version": 1, "execution": {}}), "it has no R_lite"),
        (make_resource_set(json!([{}]), json!(1)), "an entry of R_lite has no rank"),
        (
            make_resource_set(rank("3-1", json!({})), json!(1)),
            "the rank of an entry of R_lite is not an idset",
        ),
        (
            make_resource_set(rank("0", json!({"core": "0-"})), json!(1)),
            "an entry of R_lite has core or gpu children that are not an idset",
        ),
        (
            make_resource_set(rank("0", json!({"core": [1]})), json!(1)),
            "an entry of R_lite has core or gpu children that are not an idset",
        ),
        (make_resource_set(json!([{"rank": "0-2"}, {"rank": "2"}]), json!(1)), "a rank is named twice"),
        (make_resource_set(json!([]), json!("soon")), "starttime or expiration is not a time of 0 or more"),
        (make_resource_set(json!([]), json!(-1.5)), "starttime or expiration is not a time of 0 or more"),
        (make_resource_set(rank(all, json!({"core": all, "gpu": all})), json!(1)), "it exceeds 64 bits"),
    ] {
        let (totals, _, errors) = start_with_r(&site, id, &r);
        let wanted =
            format!("mf_priority: job {}: unable to read its R ({what})", fairshare_embedded::f58(id));
        // In the last row, 2^32 ranks of 2^32 cores exceed 64 bits by one.
        assert_eq!((totals, errors), ([1, 1, 0, 0, 0], vec![wanted]), "{r}");
    }
}

/// Each event of a job takes time, and stays in the memory of the job manager and in the KVS. So the plugin must post as few
/// events as possible for a submission.
#[test]
fn a_submission_posts_one_update_one_memo_and_one_priority() {
    let site = Site::new();
    let id = site.submit(&job(5002, 1));
    assert_eq!(site.state(id), State::Run);
    let log = site.host.job(id, |job| job.eventlog.clone()).unwrap();
    let names: Vec<&str> = log.iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(names[..6], ["submit", "jobspec-update", "validate", "depend", "memo", "priority"]);
    let later = |name: &&str| ["jobspec-update", "memo", "priority"].contains(name);
    assert!(!names[6..].iter().any(later), "{names:?}");
    let update = json!({"attributes.system.bank": "A", "attributes.system.project": "*"});
    assert_eq!([&log[1]["context"], &log[4]["context"]], [&update, &json!({"fairshare": 0.5})]);
}
