// SPDX-License-Identifier: LGPL-3.0-only
//! Formats users, jobs and times of the plugin's answers for people.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use jiff::tz::TimeZone;

use super::figures::{duration, make_time_zone_note, moment, zone_name};
use super::printable::printable;
use fairshare_client::{Flux, user_id, user_name};

/// Formats job ids, user ids and times for messages.
pub(crate) struct Words<'a> {
    job: Box<dyn Fn(u64) -> String + 'a>,
    user: Box<dyn Fn(u32) -> Option<String> + 'a>,
    /// Names already looked up. A look-up may ask a directory service.
    users: RefCell<HashMap<u32, String>>,
    zone: TimeZone,
    /// True after [`Words::when`] has printed the time zone once.
    has_named_zone: Cell<bool>,
    /// The time of the plugin's answer.
    pub(crate) now: f64,
}

impl<'a> Words<'a> {
    /// Returns the names of this machine and this Flux instance. `now` is the time of the answer.
    pub(crate) fn for_flux_instance(flux: &'a Flux, now: f64) -> Words<'a> {
        Words::new(|id| flux.format_job_id(id), user_name, TimeZone::system(), now)
    }

    /// Creates a formatter with the given functions, for tests.
    pub(crate) fn new(
        job: impl Fn(u64) -> String + 'a,
        user: impl Fn(u32) -> Option<String> + 'a,
        zone: TimeZone,
        now: f64,
    ) -> Words<'a> {
        let (users, has_named_zone) = (RefCell::default(), Cell::new(false));
        Words { job: Box::new(job), user: Box::new(user), users, zone, has_named_zone, now }
    }

    /// Returns a job's id as Flux shows it.
    pub(crate) fn job(&self, id: u64) -> String {
        (self.job)(id)
    }

    /// Returns a user's name, or the user's id if there is no name.
    pub(crate) fn user(&self, userid: u32) -> String {
        let mut users = self.users.borrow_mut();
        let name =
            users.entry(userid).or_insert_with(|| (self.user)(userid).unwrap_or_else(|| userid.to_string()));
        printable(name).into_owned()
    }

    /// Shows the names of jobs and users in a text of the plugin: `job 123` gets the job id as Flux shows it, and `user 5` gets the user's
    /// name.
    pub(crate) fn named(&self, text: &str) -> String {
        let mut named = String::new();
        let mut last = "";
        for word in text.split_inclusive(' ') {
            let digits = word.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(word.len());
            let (number, after) = word.split_at(digits);
            let name = match last.trim_start_matches('(') {
                "job " => number.parse().ok().map(|id| self.job(id)),
                "user " => number.parse().ok().map(|id| self.user(id)),
                _ => None,
            };
            named.push_str(name.as_deref().unwrap_or(number));
            named.push_str(after);
            last = word;
        }
        named
    }

    /// Returns the sentence that names the time zone. Tables with times end with this sentence.
    pub(crate) fn make_time_zone_note(&self) -> String {
        make_time_zone_note(self.now, &self.zone)
    }

    /// Formats a time in the local time zone.
    pub(crate) fn format_time(&self, instant: f64) -> String {
        moment(instant, self.now, &self.zone)
    }

    /// Formats a time in the local time zone, followed by `(in ...)`, `(... ago)` or `(now)`. Only the first call adds
    /// the name of the time zone.
    pub(crate) fn when(&self, instant: f64) -> String {
        let mut time = self.format_time(instant);
        if !self.has_named_zone.replace(true) {
            time.push_str(&zone_name(instant, &self.zone));
        }
        match instant - self.now {
            away if away > 0.5 => format!("{time} (in {})", duration(away)),
            away if away < -0.5 => format!("{time} ({} ago)", duration(-away)),
            _ => format!("{time} (now)"),
        }
    }
}

/// Returns the id of the user in whose name requests are sent. Flux's FLUX_HANDLE_USERID lets the instance owner send requests as
/// another user.
pub(crate) fn caller() -> u32 {
    let given = std::env::var("FLUX_HANDLE_USERID").ok().and_then(|text| text.parse().ok());
    given.unwrap_or_else(|| rustix::process::getuid().as_raw())
}

/// Returns true if the caller owns the instance, and so sees all jobs.
pub(crate) fn is_owner(flux: &Flux) -> bool {
    flux.attribute("security.owner").is_ok_and(|owner| owner.parse() == Ok(caller()))
}

/// Returns a user's name on this machine, or the id if there is no name.
pub(crate) fn format_user_or_id(userid: u32) -> String {
    user_name(userid).map_or_else(|| userid.to_string(), |name| printable(&name).into_owned())
}

/// Returns the id of the user that `look_up` finds by the name `text`, or else the number `text`. Flux's commands also look up
/// the name first, because names of users may be numbers.
fn find_userid(text: &str, look_up: fn(&str) -> Option<u32>) -> Option<u32> {
    look_up(text).or_else(|| text.parse().ok())
}

/// Returns a user's id from a name or a number.
pub(crate) fn userid(text: &str) -> Result<u32, String> {
    find_userid(text, user_id).ok_or_else(|| {
        format!("no user \"{}\" on this machine; use a name that exists, or a user id", printable(text))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_printed_time_has_the_name_of_the_time_zone() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        let words = Words::new(|id| id.to_string(), |_| None, zone, 1_763_776_000.0);
        let times = [90.0, -90.0, 0.0, 90_000.0].map(|away| words.when(1_763_776_000.0 + away));
        assert_eq!(
            times,
            [
                "02:48:10 CET (in 90 seconds)",
                "02:45:10 (90 seconds ago)",
                "02:46:40 (now)",
                "2025-11-23 03:46 (in 25 hours)",
            ]
        );
    }

    #[test]
    fn a_number_that_is_the_name_of_a_user_means_this_user() {
        let look_up = |name: &str| (name == "1234567").then_some(42);
        assert_eq!(["1234567", "7", "x"].map(|text| find_userid(text, look_up)), [Some(42), Some(7), None]);
    }

    #[test]
    fn job_ids_and_user_ids_in_messages_are_replaced_by_names() {
        let user = |id| (id == 7).then(|| "ann".to_owned());
        let words = Words::new(|id| format!("ƒ{id}"), user, TimeZone::UTC, 0.0);
        for (text, named) in [
            ("the end of job 12, of user 7: 4 of user 8", "the end of job ƒ12, of user ann: 4 of user 8"),
            ("job 12", "job ƒ12"),
            ("bad (user 7, bank chem)", "bad (user ann, bank chem)"),
            ("4 of 4 jobs of user 7", "4 of 4 jobs of user ann"),
            ("a job of another user", "a job of another user"),
            ("", ""),
        ] {
            assert_eq!(words.named(text), named);
        }
    }
}
