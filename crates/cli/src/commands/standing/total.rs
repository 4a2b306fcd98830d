// SPDX-License-Identifier: LGPL-3.0-only
//! The usage of a user over all banks: with and without decay, and when nothing of it is left.

use serde::{Deserialize, Serialize};
use serde_json::json;
use std::collections::HashMap;

use crate::plugin::ask::{INACTIVE, RUN, ask_flux};
use crate::ui::figures::{Unit, half_life_text, plain, unrounded};
use crate::ui::printable::count;
use crate::ui::teller::TextPrinter;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::Standings;

/// The member of the JSON document that the command adds to the plugin's answer.
#[cfg(test)]
#[derive(schemars::JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
pub(in crate::commands) struct StandingJsonFields {
    /// The sums over all banks; null if the answer is about several users or one bank only, or if usage or jobs are unknown.
    total: Option<UserTotal>,
}

/// The usage of a user over all banks. All times are in seconds since the epoch, and assume that no job runs from now on.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct UserTotal {
    /// The sum of the decayed usages.
    usage: f64,
    /// The time at which half of the usage is left; null if usage does not decay.
    half_at: Option<f64>,
    /// The time at which less than 1 % of the usage is left. If sync drops the usage earlier, this is the time of the drop.
    gone_at: Option<f64>,
    /// The nodes times the run times of the jobs that Flux lists, without decay, weights, charge factors and credits.
    undecayed_node_seconds: f64,
    /// The number of jobs that Flux lists and that run or have run.
    listed_jobs: usize,
    /// True if Flux lists more jobs. Then only the latest 10,000 are counted, and all running jobs among them.
    has_more_jobs: bool,
    /// The earliest end of a listed job; null if no listed job has ended.
    since: Option<f64>,
    /// The latest end of a listed job; null if a listed job still runs, or if no listed job has ended.
    last_end: Option<f64>,
}

/// The greatest number of jobs that are counted. job-list answers with running jobs first, and then with the latest ended jobs.
const MOST: usize = 10_000;

/// A job in an answer of job-list.
#[derive(Deserialize)]
struct JobTimes {
    #[serde(default)]
    nnodes: f64,
    t_run: Option<f64>,
    t_inactive: Option<f64>,
}

impl UserTotal {
    /// Asks Flux for the jobs of `user`, and sums the usages in `standing`. Returns `None` if the plugin has no usage of the user.
    pub(super) fn ask(flux: &Flux, user: u32, standing: &Standings) -> Option<UserTotal> {
        // The states RUN, CLEANUP and INACTIVE.
        let constraint = json!({"and": [{"userid": [user]}, {"states": [2 * INACTIVE - RUN]}]});
        let attributes = ["nnodes", "t_run", "t_inactive"];
        let wanted = json!({"max_entries": MOST + 1, "attrs": attributes, "constraint": constraint});
        let answer: Option<HashMap<String, Vec<JobTimes>>> = ask_flux(flux, "job-list.list", &wanted);
        UserTotal::new(standing, &answer?.remove("jobs")?)
    }

    fn new(standing: &Standings, jobs: &[JobTimes]) -> Option<UserTotal> {
        let (usages, now) = (standing.associations.iter().filter_map(|it| it.usage), standing.heading.now);
        let usage = usages.reduce(|sum, usage| sum + usage)?;
        let after = |span: Option<f64>| Some(now + span.filter(|_| usage > 0.0)?);
        // The time after which 1 % of the usage is left.
        let nothing = standing.half_life.map(|half_life| half_life * 100f64.log2());
        let mut total = UserTotal { usage, half_at: after(standing.half_life), ..UserTotal::default() };
        total.has_more_jobs = jobs.len() > MOST;
        let mut runs = false;
        for job in jobs.iter().take(MOST) {
            let Some(start) = job.t_run.filter(|time| *time > 0.0) else { continue };
            total.listed_jobs += 1;
            total.undecayed_node_seconds += job.nnodes * (job.t_inactive.unwrap_or(now) - start).max(0.0);
            total.since = total.since.into_iter().chain(job.t_inactive).reduce(f64::min);
            total.last_end = total.last_end.into_iter().chain(job.t_inactive).reduce(f64::max);
            runs |= job.t_inactive.is_none();
        }
        total.last_end = total.last_end.filter(|_| !runs);
        let dropped =
            standing.reset.map(|reset| total.last_end.unwrap_or(now) + reset).filter(|_| usage > 0.0);
        total.gone_at = after(nothing).into_iter().chain(dropped).reduce(f64::min);
        Some(total)
    }
}

impl TextPrinter<'_> {
    /// Prints the total usage of the user whose associations `standing` lists. Also prints how and until when this usage decays.
    pub(super) fn print_total(&self, total: &UserTotal, standing: &Standings) {
        let user = standing.associations.first().map_or(String::new(), |it| self.words.user(it.userid.0));
        let banks: Vec<&str> = standing.associations.iter().map(|it| it.bank.as_str()).collect();
        self.heading(&format!("Usage of {user} in {}:", banks.join(" + ")));
        let usage = Unit::new(standing.in_node_seconds).amount(total.usage);
        let undecayed = total.undecayed_node_seconds;
        let undecayed = match undecayed != 0.0 && undecayed < 36.0 {
            true => format!("{} node-hours", plain(undecayed / 3600.0)),
            false => Unit::NodeSeconds.amount(undecayed),
        };
        let since = match (total.since, total.listed_jobs) {
            (Some(since), _) => format!(" (since {})", self.words.format_time(since)),
            (None, 0) => String::new(),
            (None, _) => " (running)".to_owned(),
        };
        self.item(&format!("{usage} now, with decay"));
        let text = format!(
            "{undecayed} without decay in the {}{} that Flux still lists{since}; for all jobs, ask an administrator for \
             \"flux fairshare usage -u {user}\"",
            if total.has_more_jobs { "latest " } else { "" },
            count(total.listed_jobs, "job")
        );
        self.item(&text);
        let half = total
            .half_at
            .filter(|half| Some(*half) < total.gone_at)
            .map(|at| format!("half of the usage is left {}, and ", self.words.when(at)));
        if let Some(gone) = total.gone_at {
            let last_end = total.last_end.unwrap_or(standing.heading.now);
            let reset = standing.reset.filter(|reset| last_end + reset == gone);
            let (half, gone) = (half.unwrap_or_default(), self.words.when(gone));
            let rest = match reset.map(unrounded) {
                None => format!("less than 1 % of the usage is left from {gone} on"),
                Some(_) if total.last_end.is_some() => format!("no usage is left from {gone} on"),
                Some(reset) if total.listed_jobs > 0 => {
                    let gone = self.words.format_time(total.gone_at.unwrap_or_default());
                    format!("no usage is left {reset} after the last job ends (not before {gone})")
                }
                Some(reset) => format!("no usage is left {reset} from now at the latest"),
            };
            self.item(&format!("if no job runs from now on, {half}{rest}"));
        }
        let decay = standing.half_life.map_or("usage does not decay".to_owned(), |half_life| {
            format!("usage halves every {}, so decay alone never makes it 0", half_life_text(half_life))
        });
        let dropped = standing.reset.map_or(String::new(), |reset| {
            format!("; the usage of a job counts at most until {} after its end", unrounded(reset))
        });
        self.item(&format!("{decay}{dropped}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::golden::{NOW, check, make_screen, make_standing_reply, make_words};

    #[test]
    fn the_user_total_sums_the_banks_and_shows_when_usage_ends() {
        let mut standing: Standings = serde_json::from_value(make_standing_reply()).expect("a standing");
        let mut other = standing.associations[0].clone();
        (other.bank, other.usage) = ("phys".into(), Some(9360.0));
        standing.associations.push(other);
        let job = |start, t_inactive| JobTimes { nnodes: 2.0, t_run: start, t_inactive };
        let at = |hours: f64| Some(NOW + 3600.0 * hours);
        let jobs = [job(at(-5.0), at(-2.0)), job(at(-1.0), None), job(None, at(-9.0))];
        let (screen, words, days) = (make_screen(80), make_words(), |days: f64| Some(86_400.0 * days));
        let mut screens = String::new();
        for (half_life, reset, jobs) in [
            (days(7.0), days(28.0), &jobs[..]),
            (days(7.0), days(90.0), &jobs[1..2]),
            (days(7.0), None, &[]),
            (None, days(28.0), &[]),
            (None, None, &[]),
        ] {
            (standing.half_life, standing.reset) = (half_life, reset);
            let total = UserTotal::new(&standing, jobs).expect("a total");
            let teller = TextPrinter::new(&screen, &words);
            teller.print_total(&total, &standing);
            let text = String::from_utf8(teller.out.into_bytes()).expect("text");
            screens += &format!("===== {half_life:?} {reset:?}\n{text}");
        }
        check("standing-total", 80, &screens);
        assert!(
            screens.contains("4.00 node-hours now") && screens.contains("  8.00 node-hours without decay")
        );
        (standing.half_life, standing.reset) = (Some(216_000.0), Some(907_200.0));
        let teller = TextPrinter::new(&screen, &words);
        teller.print_total(&UserTotal::new(&standing, &[]).expect("a total"), &standing);
        let text = String::from_utf8(teller.out.into_bytes()).expect("text").replace("\n    ", " ");
        for part in
            ["usage halves every 60h, so", "no usage is left 252h from now", "until 252h after its end"]
        {
            assert!(text.contains(part), "{text}");
        }
        // Flux lists more jobs than are counted.
        let many: Vec<JobTimes> = (0..=MOST).map(|_| job(at(-1.0), at(-0.5))).collect();
        let total = UserTotal::new(&standing, &many).expect("a total");
        assert_eq!((total.listed_jobs, total.undecayed_node_seconds), (MOST, 3600.0 * MOST as f64));
        let teller = TextPrinter::new(&screen, &words);
        teller.print_total(&total, &standing);
        let text = String::from_utf8(teller.out.into_bytes()).expect("text").replace("\n    ", " ");
        assert!(text.contains("without decay in the latest 10,000 jobs that Flux still lists"), "{text}");
        standing.associations.iter_mut().for_each(|association| association.usage = None);
        assert!(UserTotal::new(&standing, &[]).is_none());
    }
}
