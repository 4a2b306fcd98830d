// SPDX-License-Identifier: LGPL-3.0-only
//! Random data of jobs: jobspecs, R, eventlogs, and answers of job-list.

use std::collections::BTreeSet;

use fairshare_embedded::State;
use serde_json::{Value, json};

use super::drive::{Mutate, Rng, fuzz, hash_feature, mutate_bytes, strip_values};
use super::{SiteCache, assert_no_control_characters, check_log, document_with_tree, json, seeds};
use crate::abi::{OWNER, SO, Site, document, job};

fn parse(input: &[u8]) -> Option<Value> {
    serde_json::from_slice(input).ok()
}

/// Checks that the plugin stores no job and that all counters are 0.
fn assert_empty(site: &Site) {
    let check = site.check();
    assert_eq!(check["jobs"], 0, "{check}");
    for user in site.query()["mf_priority_map"].as_array().unwrap() {
        for bank in user["banks"].as_array().unwrap() {
            for key in ["cur_active_jobs", "cur_run_jobs", "cur_sched_jobs", "cur_nodes", "cur_cores"] {
                assert_eq!(bank[key], 0, "{key} of {bank}");
            }
        }
    }
}

#[test]
fn the_plugin_survives_any_jobspec() {
    let mut cache = SiteCache::default();
    let slot = json!([{"type": "slot", "count": 2, "label": "task", "with": [
        {"type": "node", "count": 1, "with": [{"type": "core", "count": 3}, {"type": "gpu", "count": 1}]}]}]);
    let mut nested = job(5002, 1).jobspec;
    nested["resources"] = slot;
    let mut named = job(5002, 2).jobspec;
    named["attributes"]["system"]["bank"] = json!("B");
    named["attributes"]["system"]["project"] = json!("*");
    let seeds = seeds([job(5002, 1).jobspec, nested, named]);
    fuzz("jobspec", seeds, json::mutate_document, |input| {
        let Some(jobspec) = parse(input) else { return Vec::new() };
        let site = cache.take();
        let mut submission = job(5002, 1);
        submission.jobspec = jobspec;
        let mut features = Vec::new();
        // The counters must also be right when one of two equal jobs has ended.
        let ids: Vec<u64> = (0..2)
            .filter_map(|_| match site.host.submit(&submission) {
                Ok(id) => Some(id),
                Err(text) => {
                    assert!(!text.is_empty() && text.len() < 400, "{text}");
                    features.push(hash_feature(strip_values(&text)));
                    None
                }
            })
            .collect();
        site.host.settle();
        features.push(hash_feature(ids.iter().map(|id| site.state(*id).name()).collect::<Vec<_>>()));
        for id in ids {
            let _ = site.host.cancel(id, OWNER);
            site.host.settle();
            assert_eq!(site.state(id), State::Inactive);
            site.check();
        }
        assert_empty(&site);
        features.extend(check_log(&site));
        cache.put_back(site);
        features
    });
}

/// Returns the ids of an idset, or `None` if it is invalid or has a range of more than 100,001 ids.
fn parse_idset(value: &Value) -> Option<BTreeSet<u32>> {
    if let Some(number) = value.as_u64() {
        return Some(BTreeSet::from([u32::try_from(number).ok()?]));
    }
    let text = value.as_str()?;
    let text = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let mut ids = BTreeSet::new();
    for range in text.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        // RFC 22: ascending ids in decimal digits without leading zeros.
        let is_plain = |text: &str| text == "0" || text.starts_with(|c: char| ('1'..='9').contains(&c));
        let is_number = |text: &str| is_plain(text) && text.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(low) || !is_number(high) {
            return None;
        }
        let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
        let is_after = ids.last().is_none_or(|last| *last < low);
        let is_range = if range.contains('-') { low < high } else { low == high };
        if !is_after || !is_range || high - low > 100_000 {
            return None;
        }
        if !(low..=high).all(|id| ids.insert(id)) {
            return None;
        }
    }
    Some(ids)
}

/// Returns the numbers of nodes, cores and GPUs of an R, or `None` if the R is invalid. This function counts
/// id by id, unlike the plugin.
fn count_resources(r: &Value) -> Option<(u64, u64, u64)> {
    let (mut ranks, mut cores, mut gpus) = (BTreeSet::new(), 0, 0);
    if r["version"].as_i64()? != 1 {
        return None;
    }
    for entry in r["execution"]["R_lite"].as_array()? {
        let here = parse_idset(&entry["rank"])?;
        let of_each = |kind: &str| match entry["children"].get(kind) {
            None => Some(0),
            Some(ids) => parse_idset(ids).map(|ids| ids.len() as u64),
        };
        cores += here.len() as u64 * of_each("core")?;
        gpus += here.len() as u64 * of_each("gpu")?;
        if !here.into_iter().all(|rank| ranks.insert(rank)) {
            return None;
        }
    }
    Some((ranks.len() as u64, cores, gpus))
}

#[test]
fn the_plugin_survives_any_resource_set_r() {
    let site = Site::new();
    let r = |rank: &str, core: Value, gpu: Value| {
        json!({"version": 1, "execution": {"R_lite": [{"rank": rank, "children": {"core": core, "gpu": gpu}}],
            "starttime": 1.7e9, "expiration": 1.7e9 + 60.0, "nodelist": ["n[0-3]"]}})
    };
    let seeds = seeds([
        r("0-3", json!("0-1"), json!("0")),
        r("0,2-3", json!("0,3,5-7"), json!("0-7")),
        r("5", json!(0), json!(1)),
    ]);
    fuzz("resources", seeds, json::mutate_document, |input| {
        let Some(r) = parse(input) else { return Vec::new() };
        let mut facts = json!({
            "id": 4711, "userid": 5002, "urgency": 16, "priority": 16, "state": 16, "t_submit": 1.5,
            "jobspec": job(5002, 1).jobspec, "R": r,
            "entry": {"timestamp": 1.7e9, "name": "start"},
        });
        let call =
            |topic: &str, facts: &Value| site.host.call_raw(SO, topic, 4711, Some(facts)).map(|(rc, _)| rc);
        for topic in ["job.new", "job.state.run"] {
            if call(topic, &facts).is_none() {
                return Vec::new();
            }
        }
        site.host.settle();
        let running = site.check()["running"].clone();
        let mut features: Vec<u64> = check_log(&site).into_iter().collect();
        if let Some((nodes, cores, gpus)) = count_resources(&r) {
            let is_time = |key: &str| {
                r["execution"].get(key).is_none_or(|time| time.as_f64().is_some_and(|t| t >= 0.0))
            };
            if is_time("starttime") && is_time("expiration") {
                let shown = [&running["nodes"], &running["cores"], &running["gpus"]].map(Value::as_u64);
                assert_eq!(shown, [Some(nodes), Some(cores), Some(gpus)], "{r}: {running}");
                features.push(hash_feature(("right", nodes.min(9), cores.min(9), gpus.min(9))));
            }
        }
        facts["state"] = json!(64);
        for topic in ["job.state.inactive", "job.destroy"] {
            call(topic, &facts);
        }
        site.host.settle();
        assert_empty(&site);
        features.extend(check_log(&site));
        features
    });
}

/// Returns lines of JSON with one change: a line is removed, repeated or changed in its structure, or any bytes change.
fn mutate_lines(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let mut all: Vec<Vec<u8>> = input.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let at = rng.below(all.len());
    match rng.below(6) {
        0 => return mutate_bytes(rng, input, other),
        1 => drop(all.remove(at)),
        2 => {
            let line = all[at].clone();
            all.insert(rng.below(all.len() + 1), line);
        }
        _ => all[at] = json::mutate_document(rng, &all[at], other),
    }
    all.truncate(500);
    all.join(&b'\n')
}

/// After a reload the plugin reads the eventlog of a held job, which may have any content.
#[test]
fn the_plugin_survives_any_eventlog() {
    let site = Site::new();
    let runs = site.submit(&job(5001, 1));
    let held: Vec<u64> = (0..3).map(|_| site.submit(&job(5001, 1))).collect();
    let id = *held.iter().find(|id| site.state(**id) == State::Depend).expect("one is held");
    let log = |entries: Vec<Value>| {
        entries.iter().map(|entry| format!("{entry}\n")).collect::<String>().into_bytes()
    };
    let whole = site.host.job(id, |job| log(job.eventlog.clone())).unwrap();
    let digits: Vec<String> = format!("{id:016x}")
        .as_bytes()
        .chunks(4)
        .map(|four| String::from_utf8_lossy(four).into_owned())
        .collect();
    let key = format!("job.{}.eventlog", digits.join("."));
    fuzz("eventlog", vec![whole, b"{}\n".to_vec()], mutate_lines as Mutate, |input| {
        let text = String::from_utf8_lossy(input).replace('\0', "");
        site.host.set_response(&key, Some(&text));
        site.host.remove(SO).unwrap();
        site.load(&document());
        site.host.advance(6.0);
        let features = check_log(&site).into_iter().chain([hash_feature(site.state(id).name())]).collect();
        site.check();
        assert_eq!(site.state(runs), State::Run);
        // The limit allows one running job, so this job must not run.
        assert_ne!(site.state(id), State::Run);
        site.host.set_response(&key, None);
        if site.state(id) != State::Depend {
            // The eventlog made the plugin release the job. After a restart the job is held again.
            site.host.restart(fairshare_embedded::Order::Ascending).unwrap();
        }
        features
    });
}

/// job-list may answer anything. The plugin asks job-list for ended jobs, and for the dependencies of a job whose eventlog it cannot read.
#[test]
fn the_plugin_survives_any_answer_of_job_list() {
    let site = Site::new();
    site.submit(&job(5001, 1));
    let held: Vec<u64> = (0..3).map(|_| site.submit(&job(5001, 1))).collect();
    let id = *held.iter().find(|id| site.state(**id) == State::Depend).expect("one is held");
    let ended = json!({"jobs": [
        {"id": 77, "userid": 5002, "bank": "A", "t_run": 1.6999e9, "t_inactive": 1.69999e9, "nnodes": 2, "ncores": 8},
        {"id": 78, "userid": 5001, "t_inactive": 1.69999e9}]});
    let known = json!({"job": {"id": id, "dependencies": ["max-running-jobs-user-limit", "afterany:5"]}});
    fuzz("job-list", seeds([ended, known, json!({"jobs": []})]), json::mutate_document, |input| {
        let text = String::from_utf8_lossy(input).replace('\0', "");
        site.host.set_readable(id, false);
        for topic in ["job-list.list", "job-list.list-id"] {
            site.host.set_response(topic, Some(&text));
        }
        site.host.remove(SO).unwrap();
        site.host.kvs().keys().for_each(|key| site.host.kvs_put(key, None));
        site.load(&document_with_tree());
        site.host.advance(11.0);
        site.check();
        let live = site.query()["live"].to_string();
        assert_no_control_characters("the query", &live);
        let features = check_log(&site).into_iter().chain([hash_feature(site.state(id).name())]).collect();
        // The next input begins with a readable eventlog and a held job.
        site.host.set_readable(id, true);
        for topic in ["job-list.list", "job-list.list-id"] {
            site.host.set_response(topic, None);
        }
        if site.state(id) != State::Depend {
            site.host.restart(fairshare_embedded::Order::Ascending).unwrap();
        }
        features
    });
}
