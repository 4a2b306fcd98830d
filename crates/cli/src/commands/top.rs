// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare top`: a live view of the instance on the whole screen.

use std::io::{IsTerminal, stdin, stdout};
use std::time::Duration;

use serde_json::json;

use super::why::job::history::ask_history;
use crate::outcome::{Answer, Outcome, failure};
use crate::plugin::ask::{InstanceArg, ask};
use crate::plugin::scheduling::ask_flux_about_job_start;
use crate::tui::{self, Asking, gather, view};
use crate::ui::figures::parse_duration;
use crate::ui::screen::{Screen, ScreenArgs};
use crate::ui::teller::TextPrinter;
use crate::ui::words::Words;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::Explained;

/// Watch banks, standings, pending and held jobs on the whole screen
///
/// Three pages: banks with shares and usage, jobs held by each limit and the cost of refreshes; standings; pending jobs with their
/// terms. Keys: 1 2 3 or Tab choose a page, s sorts by the next column, r reverses, / filters, Enter explains why a job is waiting,
/// p pauses, ? lists all keys, q quits. The instance owner sees all data, other users the part that the site shows them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The time between two requests to the plugin, for example 5s
    #[arg(short = 'd', long, value_name = "DURATION", default_value = "5s", value_parser = parse_duration)]
    delay: Duration,
    /// Print the page of banks once, as wide as the terminal, and exit; needs no terminal
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    instance: InstanceArg,
    #[command(flatten)]
    screen: ScreenArgs,
}

pub(super) fn run(args: &Args) -> Outcome {
    // The tables of this command have no lines of a tree.
    let screen = Screen { terminal: false, ..args.screen.screen() };
    if args.once {
        let snapshot = gather::gather(&args.instance.connect()?)?;
        let screen = Screen { width: screen.width.or(Some(80)), ..screen };
        view::print_banks(snapshot, &screen, &mut stdout().lock())?;
        return Ok(Answer::Yes);
    }
    if !(stdout().is_terminal() && stdin().is_terminal()) {
        let text = "top needs a terminal, or --once; programs can use \"flux fairshare metrics\", \"jobs\" and \"standing\"";
        return Err(failure(text.to_owned()));
    }
    // Asks the plugin before it switches to the full screen, so that an error message stays visible.
    let first = gather::gather(&args.instance.connect()?)?;
    let instance = args.instance.clone();
    let asking = Asking { connect: Box::new(move || instance.connect()), explain: explain_job };
    tui::run(asking, args.delay.max(Duration::from_millis(200)), screen, first).map_err(failure)?;
    Ok(Answer::Yes)
}

/// Returns the lines that `why JOBID` prints.
fn explain_job(flux: &Flux, id: u64, screen: &Screen) -> Vec<String> {
    let explained: Explained = match ask(flux, "explain", &json!({"jobs": [id]})) {
        Ok(explained) => explained,
        Err(failure) => return vec![failure.to_string()],
    };
    let Some(job) = explained.jobs.first() else {
        let gone = explained.refused.first().map(|refused| refused.reason.text.clone());
        return vec![gone.unwrap_or_else(|| "Flux no longer has the job".to_owned())];
    };
    let words = Words::for_flux_instance(flux, explained.heading.now);
    let teller = TextPrinter::new(screen, &words);
    let (start, history) = (ask_flux_about_job_start(flux, job), ask_history(flux, job.id.0));
    teller.explain_job(job, &explained, &start, history.as_ref());
    String::from_utf8_lossy(&teller.out.into_bytes()).lines().map(str::to_owned).collect()
}
