// SPDX-License-Identifier: LGPL-3.0-only
//! `flux fairshare metrics`: metrics of the instance as OpenMetrics text.

use std::io::{self, IsTerminal, Write, stdout};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::metrics::window::Window;
use crate::metrics::{exposition, families, listen};
use crate::outcome::{Answer, Failure, Outcome, Result, failure};
use crate::plugin::ask::{InstanceArg, ask};
use crate::plugin::standing;
use crate::replaced;
use crate::ui::figures::parse_duration;
use crate::ui::messages::remark;
use crate::ui::printable::printable;
use crate::ui::words::Words;
use fairshare_client::Flux;
use fairshare_engine::engine::answers::Stats;

/// Print metrics of the whole instance as OpenMetrics text, once, into a file, or over HTTP
///
/// For Prometheus: served on a loopback address, or written to a file for node_exporter's textfile collector. etc/grafana/ has a
/// dashboard, etc/prometheus/ alert rules. User names are left out without --users. Only the instance owner may read metrics;
/// other users get their own numbers from "flux fairshare standing --json".
///
/// The served metrics have no password and no encryption: every process that reaches the address can read the names, jobs and usage
/// of all banks and queues, and with --users those of all users. On a loopback address, these are all users of this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write to this file atomically; a link is replaced, not followed
    #[arg(long, value_name = "FILE", conflicts_with = "listen", value_hint = clap::ValueHint::FilePath)]
    textfile: Option<PathBuf>,
    /// With --textfile: keep running, and rewrite the file this often
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "textfile", conflicts_with = "listen")]
    every: Option<Duration>,
    /// Serve http://ADDRESS/metrics, like 127.0.0.1:9909; other machines reach only addresses that need --listen-any
    #[arg(long, value_name = "ADDRESS", value_parser = listen::parse_address)]
    listen: Option<SocketAddr>,
    /// With --listen: allow an address that other machines reach, which can then read the metrics without a password
    #[arg(long, requires = "listen")]
    listen_any: bool,
    /// Compare the banks' shares with their delivered usage over this time, or since the start of the command if that is shorter
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = parse_duration)]
    window: Duration,
    /// Also print metrics of each association, with its user's name
    #[arg(long)]
    users: bool,
    /// How many banks, and pairs of bank and queue, get labels of their own at most
    #[arg(long, value_name = "NUMBER", default_value = "500")]
    most: usize,
    #[command(flatten)]
    instance: InstanceArg,
}

/// The least time between two recounts, because a recount visits every job.
const BETWEEN_RECOUNTS: Duration = Duration::from_secs(300);

/// How long a poll after the first waits for each answer of Flux. Prometheus waits ten seconds by default.
const PATIENCE: Duration = Duration::from_secs(8);

/// The connection to the plugin, and the state between two polls.
struct PolledPlugin<'a> {
    args: &'a Args,
    flux: Option<Flux>,
    window: Window,
    /// The time of the last recount, and the number of counters that differed from the recount.
    recount: Option<(Instant, Option<usize>)>,
}

pub(super) fn run(args: &Args) -> Outcome {
    let mut source = PolledPlugin {
        args,
        flux: None,
        window: Window::new(args.window.as_secs_f64().max(1.0)),
        recount: None,
    };
    if let Some(address) = args.listen {
        listen::check_listen_address(address, args.listen_any).map_err(failure)?;
        let listener =
            TcpListener::bind(address).map_err(|error| failure(format_args!("{address}: {error}")))?;
        // If the first request fails, the command ends with its error.
        source.ask()?;
        remark(format_args!("serving http://{}/metrics", listener.local_addr()?));
        listen::serve(&listener, || Ok(source.poll_metrics()));
        return Ok(Answer::Yes);
    }
    let text = source.ask()?;
    let Some(path) = &args.textfile else {
        let mut out = stdout().lock();
        if out.is_terminal() {
            text.lines().try_for_each(|line| writeln!(out, "{}", printable(line)))?;
        } else {
            out.write_all(text.as_bytes())?;
        }
        return Ok(Answer::Yes);
    };
    let put = |text: &str| {
        let about = |error: io::Error| failure(format_args!("{}: {error}", path.display()));
        replaced::replace_textfile(path, text).map_err(about)
    };
    put(&text)?;
    while let Some(every) = args.every {
        std::thread::sleep(every.max(Duration::from_secs(1)));
        // Continue after a failed write. If the command ended, the old file would say "up 1" indefinitely.
        put(&source.poll_metrics()).unwrap_or_else(remark);
    }
    Ok(Answer::Yes)
}

impl PolledPlugin<'_> {
    /// Returns the metrics. If the plugin does not answer, returns only `up 0`, which triggers an alert.
    fn poll_metrics(&mut self) -> String {
        self.ask().unwrap_or_else(|failure| {
            remark(failure);
            // The next poll reconnects.
            self.flux = None;
            exposition::format_families(&families::build_metric_families_without_plugin())
        })
    }

    fn ask(&mut self) -> Result<String> {
        let mut flux = if let Some(flux) = self.flux.take() { flux } else { self.args.instance.connect()? };
        if self.recount.is_some() {
            flux.patience = PATIENCE;
        }
        let text = self.ask_plugin(&flux)?;
        self.flux = Some(flux);
        Ok(text)
    }

    fn ask_plugin(&mut self, flux: &Flux) -> Result<String> {
        let is_due = self.recount.is_none_or(|(when, _)| when.elapsed() >= BETWEEN_RECOUNTS);
        let mut stats: Stats = ask(flux, "stats", &json!({"check": is_due})).map_err(add_guest_hint)?;
        if is_due {
            self.recount = Some((Instant::now(), stats.drift));
        }
        stats.drift = self.recount.and_then(|(_, drift)| drift);
        self.window.observe(&stats);
        let mut all = families::build_metric_families(&stats, &self.window, self.args.most);
        if self.args.users {
            let wanted = Map::from_iter([("all".to_owned(), Value::Bool(true))]);
            let answer = standing::fetch(flux, &wanted, usize::MAX)?;
            all.extend(families::user_families(&answer, &Words::for_flux_instance(flux, stats.heading.now)));
        }
        Ok(exposition::format_families(&all))
    }
}

/// If the plugin refuses the request, adds a hint about a command that guests may use.
fn add_guest_hint(failed: Failure) -> Failure {
    match failed {
        Failure::No(text) => failure(format!(
            "{text}: only the instance owner may read metrics; \"flux fairshare standing --json\" shows your own numbers"
        )),
        failed => failed,
    }
}
