// SPDX-License-Identifier: LGPL-3.0-only
//! A panic in each callback, method, timer and future: before the work, before each effect, and after the
//! work. The call must fail safely, and the log must name the place of the panic. Afterwards the counters,
//! holds and priorities of the plugin must equal those of the host's jobs.
//!
//! An environment variable names the call that panics. So each case runs in a process of its own, which is this binary with one test.

use std::process::Command;

use fairshare_embedded::{Cred, Errno};
use mf_priority_testing::jobtap::{Jobtap, RequestId};
use mf_priority_testing::plugin::MfPriority;
use serde_json::json;

use super::hostile::TOPICS;
use super::interrupted::make_site_reading_snapshot_with_plugin;
use super::play::{Play, full_document};
use super::remember::make_site_with_push;
use super::why::{QUEUE_STATUS, STOPPED};
use super::{FAULTY, OWNER, SO, faulty_plugin, job, topic};

const FAULT: &str = "MF_PRIORITY_FAULT";
/// The maximum number of histories for each place: before the work of a call, after its work, and before each of its
/// effects. In history N, the call panics when it reaches the place for the Nth time. The environment variable `STRIKES`
/// overrides this number.
const TIMES: usize = 2;
/// Callbacks, methods, timers and futures that have no effects in the tested history. So no panic can be injected before
/// an effect.
const WITHOUT_EFFECTS: &str = "job.destroy job.state.sched job.event.dependency-add job.event.urgency plugin.query check associations \
    rec_q_update rec_proj_update rec_bank_update rec_config_update policy_begin policy_part \
    policy_abort batch commits conf.update priorities prices usages tree written slice expire explain standing jobs \
    check_job stats answer hand_over";

/// Runs the ignored test `name` in a process of its own, with `WHAT` set to the call that panics.
fn run_in_process(name: &str, what: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &format!("abi::panics::{name}"), "--ignored", "--nocapture"])
        .env(FAULTY, faulty_plugin())
        .env("WHAT", what)
        .env_remove(FAULT)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && text.contains("1 passed"), "{what}:\n{text}");
    eprint!("{}", text.lines().filter(|line| line.starts_with("struck")).collect::<Vec<_>>().join("\n"));
}

#[test]
fn a_panic_in_each_callback_fails_safely() {
    // `Play::history` must cause a call of each topic.
    TOPICS.iter().for_each(|topic| run_in_process("a_panic_at_each_place_fails_safely", topic));
}

#[test]
fn a_panic_in_each_method_fails_safely() {
    MfPriority::METHODS
        .iter()
        .for_each(|method| run_in_process("a_panic_at_each_place_fails_safely", method.title()));
}

/// Returns the names of the plugin's timers and futures.
fn list_timers_and_futures() -> impl Iterator<Item = &'static str> {
    RequestId::NAMES.into_iter().chain(MfPriority::TIMERS.iter().copied())
}

#[test]
fn a_panic_in_each_timer_and_future_fails_safely() {
    list_timers_and_futures().for_each(|turn| run_in_process("a_panic_at_each_place_fails_safely", turn));
}

#[test]
fn the_plugin_recovers_if_every_call_of_one_callback_panics() {
    list_timers_and_futures()
        .chain(["job.new", "job.state.run"])
        .for_each(|what| run_in_process("the_plugin_goes_on_while_each_call_of_a_kind_panics", what));
}

fn arm(what: &str) {
    // SAFETY: this process runs one test, in this thread. The main thread waits for it.
    unsafe { std::env::set_var(FAULT, what) };
}

fn disarm() {
    // SAFETY: as above.
    unsafe { std::env::remove_var(FAULT) };
}

#[test]
#[ignore = "run by its siblings, in a process of its own where WHAT names what panics"]
fn a_panic_at_each_place_fails_safely() {
    let what = std::env::var("WHAT").expect("run by a sibling");
    let most = std::env::var("STRIKES").ok().and_then(|times| times.parse().ok()).unwrap_or(TIMES);
    let mut struck = 0;
    for place in ["before", "after"] {
        let times = (1..=most).take_while(|time| check_panic(&what, &format!("{place}#{time}"))).count();
        assert!(times > 0, "{what} was never called");
        struck += times;
    }
    let mut effects = 0;
    loop {
        let place = effects + 1;
        let times = (1..=most).take_while(|time| check_panic(&what, &format!("{place}#{time}"))).count();
        if times == 0 {
            break;
        }
        effects += 1;
        struck += times;
    }
    assert_eq!(
        effects == 0,
        WITHOUT_EFFECTS.split_whitespace().any(|name| name == what),
        "{what}: {effects} effects"
    );
    println!("struck {what} {struck} times, before up to {effects} effects");
}

/// Plays a history in which the call `what` panics in `place`, and checks the state of the plugin at the end. Returns true if the panic occurred.
fn check_panic(what: &str, place: &str) -> bool {
    let mut play = Play::new(what);
    arm(&format!("{what}@{place}"));
    play.history();
    let struck = std::env::var_os(FAULT).is_none();
    disarm();
    if struck {
        let log = &play.log;
        assert!(log.iter().any(|line| line.contains("/src/jobtap/fault.rs:")), "no place in {log:#?}");
        let text = format!("internal error in {what};");
        assert!(log.iter().any(|line| line.contains(&text)), "no {text} in {log:#?}");
        let has_answer = MfPriority::METHODS.iter().any(|method| method.title() == what)
            || matches!(what, "job.validate" | "plugin.query" | "conf.update")
            || what.starts_with("job.update.");
        let error_answers: Vec<_> =
            play.refusals.iter().filter(|text| text.contains("internal error")).collect();
        // Flux ignores the result of job.create for a replayed job, so the host refuses only new jobs.
        let may_get_error = has_answer || what == "job.create";
        assert!(error_answers.is_empty() || may_get_error, "{what}@{place}: {:?}", play.refusals);
        // The plugin still answers a request that was queued before the panic.
        let is_answered_later = what == "explain" && place.starts_with("after");
        assert!(
            !error_answers.is_empty() || !has_answer || is_answered_later,
            "{what}@{place}: {:?}",
            play.refusals
        );
    }
    play.end();
    struck
}

/// Flux calls flux_plugin_init before it checks whether a plugin of the same file name is loaded. This check
/// does not find a copy with another file name, so the plugin itself must refuse the second load.
#[test]
fn a_refused_second_load_does_not_change_the_loaded_plugin() {
    run_in_process("a_second_load_of_the_faulty_plugin_is_refused", "stats");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn a_second_load_of_the_faulty_plugin_is_refused() {
    let play = Play::new("stats");
    let host = &play.site.host;
    let id = play.site.submit(&job(5002, 1));
    host.take_log();
    assert_eq!(host.load(&play.site.so.path(), None), Err(format!("{SO} already loaded")));
    let [link, copy] = ["link.so", "copy.so"].map(|name| play.site.so.path().with_file_name(name));
    std::os::unix::fs::symlink(SO, &link).unwrap();
    std::fs::copy(play.site.so.path(), &copy).unwrap();
    for other in [&link, &copy] {
        let refused = host.load(other, None).unwrap_err();
        assert!(refused.contains("mf_priority: already loaded, possibly under another name"), "{refused}");
    }
    let log = || -> Vec<String> { host.take_log().into_iter().map(|line| line.text).collect() };
    assert_eq!(log(), [""; 0], "the refused loads log nothing");
    arm("stats@before");
    let refused = host.request(&topic("stats"), None, OWNER).unwrap_err();
    assert!(refused.text.contains("internal error"), "{}", refused.text);
    let log = log();
    assert!(log.iter().any(|line| line.contains("/src/jobtap/fault.rs:")), "{log:#?}");
    play.site.finish(id);
    play.site.check();
    // After the plugin is removed, another copy of the plugin can be loaded.
    host.remove(SO).unwrap();
    host.load(&link, None).unwrap();
    host.remove("link.so").unwrap();
    println!("struck");
}

/// A client pushes while the plugin reads the snapshot, and another call panics. The result must be the
/// complete push, without parts of the snapshot.
#[test]
fn a_push_during_a_snapshot_read_is_complete_after_a_panic() {
    run_in_process("a_panic_during_a_read", "stats");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn a_panic_during_a_read() {
    let site = make_site_reading_snapshot_with_plugin(faulty_plugin());
    let push = site.ask("policy_begin", &json!({}))["push"].clone();
    let mut rest = full_document();
    let associations = rest.as_object_mut().and_then(|rest| rest.remove("associations"));
    site.ask("policy_part", &json!({"push": push, "associations": associations}));
    arm("stats@before");
    assert!(site.host.request(&topic("stats"), None, OWNER).is_err());
    disarm();
    rest["push"] = push.clone();
    site.ask("policy_part", &rest);
    site.ask("policy_commit", &json!({ "push": push }));
    site.host.settle();
    assert_eq!(site.pushed_data(), make_site_with_push(&full_document()).pushed_data());
    println!("struck");
}

/// Otherwise the push of a client that ended stays open, and the plugin does not restore the snapshot (D17, D19).
#[test]
fn an_abandoned_push_expires_after_a_panic_of_the_timer() {
    run_in_process("an_abandoned_push_expires_although_its_timer_panics", "expire");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn an_abandoned_push_expires_although_its_timer_panics() {
    let play = Play::new("expire");
    let site = &play.site;
    let push = site.ask("policy_begin", &json!({"expires": 30}))["push"].clone();
    arm("expire@before");
    site.host.advance(31.0);
    assert!(std::env::var_os(FAULT).is_none(), "the timer has panicked");
    site.host.advance(31.0);
    let refused = site.rpc("policy_abort", &json!({ "push": push })).unwrap_err();
    assert!(refused.text.contains("it expired"), "{}", refused.text);
    println!("struck");
}

/// After a panic in any call, the plugin must still answer requests that wait for a response from Flux.
#[test]
fn requests_that_wait_for_answers_of_flux_are_answered_after_a_panic() {
    run_in_process("delayed_requests_are_answered_after_a_panic", "stats");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn delayed_requests_are_answered_after_a_panic() {
    let play = Play::new("stats");
    let host = &play.site.host;
    host.set_response(QUEUE_STATUS, Some(STOPPED));
    play.site.submit(&job(5002, 4));
    let waiting = play.site.submit(&job(5002, 1));
    let payload = json!({"jobs": [waiting]}).to_string();
    let guest = Cred::guest(5002);
    for cred in [OWNER, guest, OWNER, guest] {
        let ask = || host.request_now(&topic("explain"), Some(&payload), cred).unwrap_err();
        assert_eq!(ask().errno, Errno::EINPROGRESS);
        arm("stats@before");
        assert!(host.request_now(&topic("stats"), None, OWNER).unwrap_err().text.contains("internal error"));
        disarm();
        host.advance(5.0);
        let late = host.take_late_answers();
        assert!(late.len() == 1 && late[0].answer.is_ok(), "{} answers", late.len());
    }
    // The guest has sent too many requests, so the last request is delayed. Then the timer for delayed
    // requests panics.
    while host.request_now(&topic("standing"), None, guest).is_ok() {}
    arm("answer@before");
    host.advance(60.0);
    assert!(std::env::var_os(FAULT).is_none(), "the timer has panicked");
    disarm();
    host.advance(60.0);
    let late = host.take_late_answers();
    assert!(late.len() == 1 && late[0].answer.is_ok(), "{} answers", late.len());
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn the_plugin_goes_on_while_each_call_of_a_kind_panics() {
    let what = std::env::var("WHAT").expect("run by a sibling");
    let mut play = Play::new(&what);
    arm(&format!("{what}@before*"));
    // The injected panics may leave the plugin's state wrong. So this test does not compare the state with the jobs;
    // the plugin only has to keep running.
    play.is_trusting = true;
    play.history();
    play.site.host.settle();
    assert_eq!(play.site.host.violations(), Vec::<String>::new());
    let rest = play.site.host.take_log().into_iter().map(|line| line.text);
    let panics = rest.chain(play.log.drain(..)).filter(|line| line.contains("panic at")).count();
    println!("struck {what} {panics} times");
    assert!((1..200).contains(&panics), "{panics} panics");
    disarm();
    // Without further panics, the next push must repair the state.
    play.is_trusting = false;
    play.site.push(&full_document());
    play.end();
}
