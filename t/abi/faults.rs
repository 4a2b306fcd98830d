// SPDX-License-Identifier: LGPL-3.0-only
//! Makes one function of Flux fail, once or several times, during a history that runs all callbacks. The tests do this
//! for each function and each errno. The plugin must not panic, and must log an error if a load or an answer fails.
//!
//! When the function succeeds again and the data are pushed again, all jobs must run to their end. All counters must
//! then be 0.

use fairshare_embedded::{Errno, Fault, Host, State};
use serde_json::json;

use super::play::{Play, full_document};
use super::{METHODS, OWNER, SO, Site, association, document, job, job_in, plugin};

const ERRNOS: [Errno; 8] = [
    Errno::EPERM,
    Errno::ENOENT,
    Errno(5),
    Errno(11),
    Errno(12),
    Errno::EINVAL,
    Errno::ENOSYS,
    Errno::EPROTO,
];

/// Runs a fixed sequence of jobs and requests in which `fault` makes calls fail. Returns true if a call
/// failed.
fn replay_job_history_with_fault(fault: &Fault) -> bool {
    let mut play = Play::new("faults");
    // After a failed call, the state of the plugin may be wrong until the next push.
    play.is_trusting = true;
    play.site.host.set_fault(Some(fault.clone()));
    play.history();
    let (failures, _) = play.site.host.fault_counts();
    play.site.host.set_fault(None);
    play.site.host.settle();
    // All payloads of the history are valid, so the plugin may refuse a payload only after a fault.
    let is_misread = play.refusals.iter().any(|text| text.contains("mf_priority unpack:"));
    assert!(failures > 0 || !is_misread, "{:?}", play.refusals);
    assert!(!play.log.iter().any(|line| line.contains("panic")), "{fault:?}: {:#?}", play.log);
    play.site.push(&full_document());
    play.site.host.advance(70.0);
    play.site.host.reprioritize_all();
    play.end();
    failures > 0
}

/// Functions that the plugin calls at load.
const AT_LOAD: [&str; 6] = [
    "flux_aux_set",
    "flux_plugin_aux_set",
    "flux_jobtap_service_register_ex",
    "flux_jobtap_set_load_sort_order",
    "flux_plugin_add_handler",
    "flux_timer_watcher_create",
];
/// Functions that the plugin calls at the first push, for jobs that were submitted before the push.
const FOR_WAITING_JOBS: [&str; 2] = ["flux_jobtap_raise_exception", "flux_jobtap_jobspec_update_id_pack"];

#[test]
fn a_load_in_which_a_call_fails_is_refused_and_leaves_no_timer() {
    let site = Site::empty(plugin());
    let conf = json!({"config": document()});
    for call in AT_LOAD {
        let mut after = 0;
        loop {
            let errno = ERRNOS[after as usize % ERRNOS.len()];
            site.host.set_fault(Some(Fault { call, after, times: 1, errno }));
            let loaded = site.host.load(&site.so.path(), Some(&conf));
            let (failures, _) = site.host.fault_counts();
            site.host.set_fault(None);
            if failures == 0 {
                loaded.expect("nothing failed");
                site.host.remove(SO).unwrap();
                break;
            }
            match loaded {
                Err(text) => {
                    // The error is in the answer to the load or in the log.
                    let texts = text + &site.errors().join("\n");
                    let name = call.replace("add_handler", "register");
                    assert!(texts.contains(&name), "{call}: {texts}");
                }
                Ok(()) => panic!("call {after} of {call} failed, but the plugin is loaded"),
            }
            assert_eq!((site.host.live_watchers(), site.host.plugin_aux_count()), (0, 0), "{call} {after}");
            site.host.load(&site.so.path(), Some(&conf)).expect("the next load succeeds");
            site.check();
            site.host.remove(SO).unwrap();
            after += 1;
        }
        assert!(after > 0, "{call} was never called");
    }
}

/// At the first push, the plugin sets the bank of each job that was submitted before, and ends jobs without an association.
#[test]
fn the_next_push_repeats_flux_calls_that_failed_for_waiting_jobs() {
    for call in FOR_WAITING_JOBS {
        for (n, errno) in ERRNOS.into_iter().enumerate() {
            let site = Site::without_pushed_data();
            let mut plain = job(5002, 1);
            plain.jobspec["attributes"]["system"].as_object_mut().unwrap().remove("queue");
            let waiting: Vec<u64> = (0..3)
                .map(|n| {
                    let first = site.host.jobs().first().copied().filter(|_| n > 0);
                    let depends: Vec<_> =
                        first.iter().map(|id| json!({"scheme": "afterany", "value": id})).collect();
                    plain.jobspec["attributes"]["system"]["dependencies"] = depends.into();
                    site.submit(&plain)
                })
                .collect();
            let unknown_user = site.submit(&job_in(6000, "A", 1));
            // flux-accounting sends the record of the instance owner last.
            let mut all = document();
            all["associations"].as_array_mut().unwrap().push(association(1000, "A", json!({})));
            site.host.set_fault(Some(Fault { call, after: n as u64 % 2, times: 1 + n as u64, errno }));
            if call == FOR_WAITING_JOBS[0] {
                METHODS.iter().for_each(|(key, method)| drop(site.rpc(method, &json!({"data": all[key]}))));
                let _ = site.rpc("reprioritize", &json!({}));
            } else {
                site.host.remove(SO).unwrap();
                site.load(&all);
            }
            site.host.advance(11.0);
            let (failures, calls) = site.host.fault_counts();
            site.host.set_fault(None);
            // The plugin ends only one job, so there is no second call that could fail.
            let is_once = call == FOR_WAITING_JOBS[0] && n % 2 == 1;
            assert!(failures > 0 || is_once, "no call of {call} failed in {:?} calls", calls.get(call));
            // Another push must repair the state.
            site.push(&all);
            site.host.advance(11.0);
            site.check();
            for id in waiting.iter().chain([&unknown_user]) {
                let _ = site.host.cancel(*id, OWNER);
                site.host.settle();
                assert_eq!(site.state(*id), State::Inactive, "{call} {errno:?}");
            }
            assert_eq!(site.check()["jobs"], 0, "{call} {errno:?}");
            assert!(!site.errors().iter().any(|line| line.contains("panic")));
        }
    }
}

/// flux-accounting sends the record of the instance owner last, and this record releases held jobs of the
/// owner.
#[test]
fn a_push_takes_effect_even_if_flux_refuses_later_calls() {
    let site = Site::without_pushed_data();
    let mut all = document();
    // The plugin assumes that the user of its process is the instance owner.
    let owner = mf_priority_testing::jobtap::own_user();
    let one_at_a_time = association(owner, "A", json!({"max_running_jobs": 1}));
    all["associations"].as_array_mut().unwrap().push(one_at_a_time.clone());
    site.push(&all);
    let [running, held] = [(); 2].map(|()| site.submit(&job_in(owner, "A", 1)));
    site.host.remove(SO).unwrap();
    site.finish(running);
    site.host.load(&site.so.path(), None).unwrap();
    site.host.settle();
    site.push(&document());
    site.host.take_log();
    let call = "flux_jobtap_dependency_remove";
    site.host.set_fault(Some(Fault { call, after: 0, times: 1, errno: Errno(12) }));
    let error = site.rpc("rec_update", &json!({"data": [one_at_a_time]})).unwrap_err();
    site.host.set_fault(None);
    assert!(error.text.starts_with("the update is in force, but a call failed: "), "{}", error.text);
    assert_eq!(site.state(held), State::Depend);
    site.rpc("reprioritize", &json!({})).unwrap();
    assert_eq!(site.state(held), State::Run);
    let log: Vec<String> = site.host.take_log().into_iter().map(|line| line.text).collect();
    assert!(log.iter().any(|line| line.contains("push: ") && line.contains(" 1 added")), "{log:#?}");
    site.check();
}

#[test]
fn an_answer_that_cannot_be_sent_is_logged() {
    let site = Site::new();
    for errno in ERRNOS {
        site.host.set_fault(Some(Fault { call: "flux_respond", after: 0, times: 1, errno }));
        assert!(site.rpc("check", &json!({})).is_err());
        site.host.set_fault(None);
        assert!(site.errors().iter().any(|line| line.contains("failed to answer a request")));
        assert!(site.rpc("check", &json!({})).is_ok());
    }
}

/// Makes functions of Flux fail, one function in each run. Each `shard` from 0 to 3 tests a quarter of the
/// functions.
fn run_histories_with_failing_calls(shard: usize) {
    let is_here =
        |call: &str| !AT_LOAD.contains(&call) && !FOR_WAITING_JOBS.contains(&call) && call != "flux_respond";
    let calls = Host::FALLIBLE.split(' ').filter(|call| is_here(call)).enumerate();
    for (at, call) in calls.filter(|(at, _)| at % 4 == shard) {
        let mut failures = 0;
        let began = std::time::Instant::now();
        for (n, errno) in ERRNOS.into_iter().enumerate() {
            // Before the first failure, 0 to 3 calls succeed. With the last two values of `ERRNOS`, five calls in a row
            // fail.
            let times = if n >= ERRNOS.len() - 2 { 5 } else { 1 };
            failures += usize::from(replay_job_history_with_fault(&Fault {
                call,
                after: (n as u64) % 4,
                times,
                errno,
            }));
        }
        println!("{call}: failed in {failures} of {} histories, {:.0?}", ERRNOS.len(), began.elapsed());
        assert!(failures >= 4, "{call} failed in only {failures} histories ({at})");
    }
}

#[test]
fn the_plugin_survives_failing_flux_calls_of_quarter_1() {
    run_histories_with_failing_calls(0);
}

#[test]
fn the_plugin_survives_failing_flux_calls_of_quarter_2() {
    run_histories_with_failing_calls(1);
}

#[test]
fn the_plugin_survives_failing_flux_calls_of_quarter_3() {
    run_histories_with_failing_calls(2);
}

#[test]
fn the_plugin_survives_failing_flux_calls_of_quarter_4() {
    run_histories_with_failing_calls(3);
}
