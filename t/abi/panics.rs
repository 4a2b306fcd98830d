// SPDX-License-Identifier: LGPL-3.0-only
//! A panic in each callback, method, timer and future: before the work, before each of its effects, and after it. That call fails
//! safely, the log names the place, and the plugin agrees with the job manager again: its counters, holds and priorities are
//! compared with the jobs of the host, not with its own recount.
//!
//! The environment names the call that panics, so each case runs in a process of its own: this binary with one test.

use std::process::Command;

use fairshare_embedded::{Cred, Errno};
use mf_priority_testing::jobtap::{Jobtap, Turn};
use mf_priority_testing::plugin::MfPriority;
use serde_json::json;

use super::hostile::TOPICS;
use super::interrupted::site_in_read_with;
use super::play::{Play, full_document};
use super::remember::pushed;
use super::why::{QUEUE_STATUS, STOPPED};
use super::{FAULTY, OWNER, SO, faulty_plugin, job, topic};

const FAULT: &str = "MF_PRIORITY_FAULT";
/// The number of calls of a kind that panic in each place, one in each history; `STRIKES` overrides it.
const TIMES: usize = 4;
/// Calls without effects, at least in this history.
const WITHOUT_EFFECTS: &str = "job.destroy job.state.sched job.event.dependency-add job.event.urgency plugin.query check associations \
    rec_q_update rec_proj_update rec_bank_update rec_config_update policy_begin policy_part \
    policy_abort batch commits conf.update priorities prices usages tree written slice expire explain standing jobs stats answer hand_over";

/// Runs the ignored test `name` in a process of its own.
fn in_a_process(name: &str, what: &str) {
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
fn in_each_callback() {
    // A new topic needs a place in `history`.
    TOPICS.iter().for_each(|topic| in_a_process("each_place", topic));
}

#[test]
fn in_each_method() {
    MfPriority::METHODS.iter().for_each(|method| in_a_process("each_place", method.title()));
}

/// Returns the calls of Flux other than callbacks and requests.
fn turns() -> impl Iterator<Item = &'static str> {
    Turn::ALL.iter().map(|turn| turn.name()).chain(MfPriority::TIMERS.iter().copied())
}

#[test]
fn in_each_timer_and_future() {
    turns().for_each(|turn| in_a_process("each_place", turn));
}

#[test]
fn again_and_again() {
    turns().chain(["job.new", "job.state.run"]).for_each(|what| in_a_process("lasting", what));
}

fn arm(what: &str) {
    // SAFETY: the one test of this process runs in this thread; the main thread waits for it.
    unsafe { std::env::set_var(FAULT, what) };
}

fn disarm() {
    // SAFETY: as above.
    unsafe { std::env::remove_var(FAULT) };
}

#[test]
#[ignore = "run by its siblings, in a process of its own where WHAT names what panics"]
fn each_place() {
    let what = std::env::var("WHAT").expect("run by a sibling");
    let most = std::env::var("STRIKES").ok().and_then(|times| times.parse().ok()).unwrap_or(TIMES);
    let mut struck = 0;
    for place in ["before", "after"] {
        let times = (1..=most).take_while(|time| fails_safe(&what, &format!("{place}#{time}"))).count();
        assert!(times > 0, "{what} was never called");
        struck += times;
    }
    let mut effects = 0;
    loop {
        let place = effects + 1;
        let times = (1..=most).take_while(|time| fails_safe(&what, &format!("{place}#{time}"))).count();
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

/// Plays a history with the fault, checks its end, and returns whether the fault occurred.
fn fails_safe(what: &str, place: &str) -> bool {
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
        let is_told = MfPriority::METHODS.iter().any(|method| method.title() == what)
            || matches!(what, "job.validate" | "plugin.query" | "conf.update")
            || what.starts_with("job.update.");
        let told: Vec<_> = play.refusals.iter().filter(|text| text.contains("internal error")).collect();
        // A replayed job cannot be refused.
        let may_be_told = is_told || what == "job.create";
        assert!(told.is_empty() || may_be_told, "{what}@{place}: {:?}", play.refusals);
        // A request that was queued before the panic is still answered.
        let may_be_kept = what == "explain" && place.starts_with("after");
        assert!(!told.is_empty() || !is_told || may_be_kept, "{what}@{place}: {:?}", play.refusals);
    }
    play.end();
    struck
}

/// Flux initializes a plugin before it finds another one of the same file name. With another file name it would keep both.
#[test]
fn a_second_load_that_is_refused_leaves_the_first_as_it_is() {
    in_a_process("loaded_twice", "stats");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn loaded_twice() {
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
        assert!(refused.contains("mf_priority is loaded already, it may be under another name"), "{refused}");
    }
    let log = || -> Vec<String> { host.take_log().into_iter().map(|line| line.text).collect() };
    assert_eq!(log(), [""; 0], "nothing came and nothing went");
    arm("stats@before");
    let refused = host.request(&topic("stats"), None, OWNER).unwrap_err();
    assert!(refused.text.contains("internal error"), "{}", refused.text);
    let log = log();
    assert!(log.iter().any(|line| line.contains("/src/jobtap/fault.rs:")), "{log:#?}");
    play.site.finish(id);
    play.site.check();
    // After its removal another one can be loaded.
    host.remove(SO).unwrap();
    host.load(&link, None).unwrap();
    host.remove("link.so").unwrap();
    println!("struck");
}

/// The parts of a client's push stay separate from the snapshot, which waits for the end of the push.
#[test]
fn a_push_during_a_read_is_whole() {
    in_a_process("a_panic_during_a_read", "stats");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn a_panic_during_a_read() {
    let site = site_in_read_with(faulty_plugin());
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
    assert_eq!(site.policy(), pushed(&full_document()).policy());
    println!("struck");
}

/// After a panic anywhere, all requests that wait for answers of others are answered.
#[test]
fn requests_that_wait_for_others_are_answered() {
    in_a_process("parked", "stats");
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn parked() {
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
    // Guests wait for their turn, and the timer of the turn is lost.
    while host.request_now(&topic("standing"), None, guest).is_ok() {}
    arm("answer@before");
    host.advance(60.0);
    assert!(std::env::var_os(FAULT).is_none(), "it came");
    disarm();
    host.advance(60.0);
    let late = host.take_late_answers();
    assert!(late.len() == 1 && late[0].answer.is_ok(), "{} answers", late.len());
}

#[test]
#[ignore = "run by its sibling, in a process of its own where WHAT names what panics"]
fn lasting() {
    let what = std::env::var("WHAT").expect("run by a sibling");
    let mut play = Play::new(&what);
    arm(&format!("{what}@before*"));
    // At this point nothing is compared; the plugin only has to finish its work.
    play.is_trusting = true;
    play.history();
    play.site.host.settle();
    assert_eq!(play.site.host.violations(), Vec::<String>::new());
    let rest = play.site.host.take_log().into_iter().map(|line| line.text);
    let panics = rest.chain(play.log.drain(..)).filter(|line| line.contains("panic at")).count();
    println!("struck {what} {panics} times");
    assert!((1..200).contains(&panics), "{panics} panics");
    disarm();
    // The next requests succeed.
    play.is_trusting = false;
    play.site.push(&full_document());
    play.end();
}
