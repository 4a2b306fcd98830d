// SPDX-License-Identifier: LGPL-3.0-only
//! `fairshare-embedded demo`: runs the plugin on a small site, and prints the priorities, holds, and rejections.
//! `etc/demo.sh` builds everything and runs this command.
//!
//! The demo runs in a real Flux instance or in the embedded job manager ([`host::DemoHost`]). The demo prints values from the
//! plugin's query document ([`view::View`]) and from the list of active jobs, never values from the site file. At the end the demo
//! runs commands of `flux fairshare`, which send their requests to the same plugin ([`commands`]).

mod embedded;
mod host;
mod real;
mod site;
mod table;
mod view;

use std::collections::BTreeMap;
use std::io::stdout;
use std::path::PathBuf;

use serde_json::{Value, json};

use self::host::{Active, CommandArgs, DemoHost, Stage};
use self::site::{DemoJob, Site};
use self::table::{Cell, Printer, Row, Tone, plain_cell};
use self::view::View;
use super::{Failure, Outcome, failure};
use anstream::{AutoStream, ColorChoice};
use fairshare_embedded::f58;

/// Run the plugin on a small site, and print priorities, holds, and rejections
#[derive(Debug, clap::Args)]
pub(super) struct DemoArgs {
    /// The job manager: the enclosing Flux instance (start one for the demo only) or the embedded job manager
    #[arg(long, value_enum, default_value = "embedded")]
    host: HostKind,
    /// Only print the configuration that a Flux instance for this site needs
    #[arg(long)]
    print_config: bool,
    /// The plugin to load
    #[arg(long, value_name = "FILE")]
    plugin: PathBuf,
    #[command(flatten)]
    commands: CommandArgs,
    /// The site: banks, users, queues, jobs
    site: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HostKind {
    Flux,
    Embedded,
}

pub(super) fn run(args: &DemoArgs) -> Outcome {
    let site = Site::read(&args.site).map_err(Failure::Message)?;
    if args.print_config {
        println!("{}", site.build_flux_config());
        return Ok(());
    }
    // Do not follow a symbolic link: Flux names the plugin by its path.
    let plugin = std::path::absolute(&args.plugin)
        .map_err(|error| failure(format!("{}: {error}", args.plugin.display())))?;
    let host: Box<dyn DemoHost> = match args.host {
        HostKind::Flux => Box::new(real::FluxInstance::start(&site, &plugin).map_err(Failure::Message)?),
        HostKind::Embedded => Box::new(embedded::Embedded::start(&site, &plugin).map_err(Failure::Message)?),
    };
    let mut out = stdout().lock();
    let printer = Printer { out: &mut out, colour: AutoStream::choice(&stdout()) != ColorChoice::Never };
    DemoRun { host: host.as_ref(), site: &site, commands: &args.commands, printer }.run()
}

type DemoResult<T> = Result<T, Failure>;

/// The active jobs and the plugin's query document, read at the same time.
struct Moment {
    jobs: Vec<Active>,
    view: View,
}

impl Moment {
    fn job(&self, id: u64) -> Option<&Active> {
        self.jobs.iter().find(|job| job.id == id)
    }
}

/// A rejected submission, and the text of the rejection.
struct Rejection<'a> {
    job: &'a DemoJob,
    text: String,
}

struct DemoRun<'a> {
    host: &'a dyn DemoHost,
    site: &'a Site,
    commands: &'a CommandArgs,
    printer: Printer<'a>,
}

impl<'a> DemoRun<'a> {
    fn run(mut self) -> Outcome {
        self.printer.print_line(&format!("The plugin runs in {}.", self.host.name()), Tone::Heading)?;
        self.push_site()?;
        let (names, refused) = self.submit_jobs()?;
        let mut moment = self.read_host_snapshot()?;
        self.show_ranking(&moment)?;
        self.show_holds(&moment)?;
        self.show_refusals(&refused)?;
        for name in &self.site.ends {
            let id = names.get(name.as_str()).ok_or_else(|| {
                let found = refused.iter().find(|refused| refused.job.name.as_ref() == Some(name));
                let text = found.map_or("the site has no such job", |refused| refused.text.as_str());
                format!("job {name:?} can't end, because its submission was rejected: {text}")
            })?;
            moment = self.end_job(*id, moment)?;
        }
        self.check_counters()?;
        self.run_commands(&names)
    }

    /// Runs the commands of the site, and prints each with its output.
    fn run_commands(&mut self, names: &BTreeMap<&'a str, u64>) -> Outcome {
        for words in &self.site.commands {
            let words: Vec<String> = words
                .iter()
                .map(|word| names.get(word.as_str()).map_or(word.clone(), |id| f58(*id)))
                .collect();
            let Some(mut command) = self.commands.build(self.site, &words, self.printer.colour) else {
                break;
            };
            let output = self.host.run_command(self.commands, &mut command)?;
            self.printer.print_heading(&format!("$ flux fairshare {}", words.join(" ")))?;
            write!(self.printer.out, "{output}")?;
        }
        Ok(())
    }

    fn push_site(&mut self) -> DemoResult<()> {
        let document = self.site.build_document(self.host.now())?;
        self.host.request("policy_update", &json!({"data": document}))?;
        let cluster = &self.site.cluster;
        let text = format!(
            "Pushed the site: {}.\nThe cluster has {} nodes of {} cores.",
            self.site.describe_size(),
            cluster.nodes,
            cluster.cores_per_node
        );
        Ok(self.printer.print_line(&text, Tone::Plain)?)
    }

    /// Submits every job of the site. Returns the ids of the named jobs by name, and the rejected submissions.
    fn submit_jobs(&mut self) -> DemoResult<(BTreeMap<&'a str, u64>, Vec<Rejection<'a>>)> {
        let site = self.site;
        let (mut names, mut refused) = (BTreeMap::new(), Vec::new());
        for job in &site.jobs {
            let uid = site.user_id(&job.user)?;
            match self.host.submit(uid, job, &site.build_jobspec(job))? {
                Ok(id) => names.extend(job.name.as_deref().map(|name| (name, id))),
                Err(text) => refused.push(Rejection { job, text }),
            }
        }
        let accepted = site.jobs.len() - refused.len();
        let text =
            format!("Submitted {} jobs: {accepted} accepted, {} refused.", site.jobs.len(), refused.len());
        self.printer.print_line(&text, Tone::Plain)?;
        Ok((names, refused))
    }

    fn read_host_snapshot(&self) -> DemoResult<Moment> {
        let jobs = self.host.jobs()?;
        Ok(Moment { jobs, view: View::read(self.host.query()?)? })
    }

    fn describe_job(&self, job: &Active) -> Vec<Cell> {
        let user = self.site.user_name(job.userid);
        let nodes = job.nodes.to_string();
        [f58(job.id), user, job.bank.clone(), job.queue.clone(), nodes].into_iter().map(plain_cell).collect()
    }

    fn show_ranking(&mut self, moment: &Moment) -> DemoResult<()> {
        let mut ranked: Vec<&Active> = moment.jobs.iter().filter(|job| job.stage != Stage::Held).collect();
        ranked.sort_by_key(|job| (std::cmp::Reverse(job.priority), job.id));
        let (mut rows, mut weights) = (Vec::new(), Vec::new());
        for job in ranked {
            let terms = moment.view.terms(job)?;
            if terms.priority(job.urgency) != job.priority {
                let sum = terms.priority(job.urgency);
                let id = f58(job.id);
                return Err(failure(format!(
                    "job {id} has priority {}, the sum of its terms is {sum}",
                    job.priority
                )));
            }
            let nodes = 4;
            let mut cells = self.describe_job(job);
            cells.remove(nodes);
            cells.push(match job.stage {
                Stage::Running => ("running".to_owned(), Tone::Good),
                _ if job.urgency == 0 => ("on hold".to_owned(), Tone::Bad),
                _ => ("pending".to_owned(), Tone::Waiting),
            });
            cells.push((job.priority.to_string(), Tone::Heading));
            cells.extend(terms.all().map(|term| plain_cell(term.points().round().to_string())));
            weights = terms.all().map(|term| term.weight).to_vec();
            rows.push(Row { cells, ..Row::default() });
        }
        self.printer.print_heading("Running and pending jobs, highest priority first")?;
        let titles = "JOB USER BANK QUEUE STATE >PRIORITY >FAIR-SHARE >QUEUE >BANK >URGENCY"
            .split(' ')
            .collect::<Vec<_>>();
        self.printer.print_table(&titles, &rows)?;
        if let [fairshare, queue, bank, urgency] = weights[..] {
            let sum = "The priority is the sum of the last four columns:";
            self.printer.print_line(&format!(" {sum} {fairshare} x fair-share,"), Tone::Faint)?;
            let others = format!("{queue} x queue, {bank} x bank, {urgency} x (urgency - 16); 0 if on hold.");
            self.printer.print_line(&format!(" {others}"), Tone::Faint)?;
        }
        Ok(())
    }

    fn show_holds(&mut self, moment: &Moment) -> DemoResult<()> {
        let mut rows = Vec::new();
        for job in moment.jobs.iter().filter(|job| job.stage == Stage::Held) {
            let mut cells = self.describe_job(job);
            for hold in moment.view.holds(job, &self.site.user_name(job.userid))? {
                cells.push((format!("{}:", hold.name), Tone::Bad));
                // Each further limit of the same job is on its own row, with empty cells for the values of the job.
                let blank = vec![plain_cell(""); 5];
                rows.push(Row { cells: std::mem::replace(&mut cells, blank), note: hold.text });
            }
        }
        self.printer.print_heading("Held jobs, and the limit that holds each")?;
        Ok(self.printer.print_table(&["JOB", "USER", "BANK", "QUEUE", ">NODES", "HELD BY"], &rows)?)
    }

    fn show_refusals(&mut self, refused: &[Rejection]) -> DemoResult<()> {
        let rows = refused.iter().map(|Rejection { job, text }| {
            let bank = job.bank.clone().unwrap_or_default();
            let nodes = job.nodes.to_string();
            let cells =
                [job.user.clone(), bank, job.queue.clone(), nodes].into_iter().map(plain_cell).collect();
            Row { cells, note: text.clone() }
        });
        let rows: Vec<Row> = rows.collect();
        self.printer.print_heading("Refused at submission, in the plugin's words")?;
        Ok(self.printer.print_table(&["USER", "BANK", "QUEUE", ">NODES"], &rows)?)
    }

    /// Ends a job, and prints the changes of the other jobs.
    fn end_job(&mut self, id: u64, before: Moment) -> DemoResult<Moment> {
        let job = before.job(id).ok_or_else(|| format!("job {} is not active", f58(id)))?;
        self.host.finish(job)?;
        let after = self.read_host_snapshot()?;
        let user = self.site.user_name(job.userid);
        self.printer.print_heading(&format!(
            "Job {} of {user} in {}, queue {}, ends",
            f58(id),
            job.bank,
            job.queue
        ))?;
        let mut rows = Vec::new();
        for now in &after.jobs {
            let Some(was) = before.job(now.id) else { continue };
            for (outcome, tone, why) in self.list_changes((was, &before.view), (now, &after.view), job)? {
                let mut row = vec![(outcome.to_owned(), tone)];
                row.extend(self.describe_job(now));
                rows.push(Row { cells: row, note: why });
            }
        }
        if rows.is_empty() {
            self.printer.print_line("  no other job changes", Tone::Plain)?;
        } else {
            self.printer.print_table(&["", "JOB", "USER", "BANK", "QUEUE", ">NODES"], &rows)?;
        }
        Ok(after)
    }

    /// Compares a job before and after the end of job `ended`. Returns the outcome, the text style and the reason of each change.
    fn list_changes(
        &self,
        (was, view_before): (&Active, &View),
        (now, view): (&Active, &View),
        ended: &Active,
    ) -> DemoResult<Vec<(&'static str, Tone, String)>> {
        let user = self.site.user_name(now.userid);
        let holds = view.holds(now, &user)?;
        // Limits belong to associations: the end of a job does not affect jobs of other associations.
        let same_association = (now.userid, &now.bank) == (ended.userid, &ended.bank);
        let mut changes = Vec::new();
        for hold in view_before.holds(was, &user)? {
            if !holds.iter().any(|still| still.name == hold.name) {
                let outcome = if holds.is_empty() { "released" } else { "one limit less" };
                let mut why = format!("{} no longer holds the job (before: {})", hold.name, hold.text);
                if now.stage == Stage::Pending {
                    why += &format!("; now pending with priority {}", now.priority);
                }
                changes.push((outcome, Tone::Good, why));
            }
        }
        if same_association && now.stage == Stage::Held && changes.is_empty() {
            changes.extend(
                holds
                    .into_iter()
                    .map(|hold| ("still held", Tone::Bad, format!("{}: {}", hold.name, hold.text))),
            );
        }
        if was.stage != Stage::Running && now.stage == Stage::Running {
            changes.push(("started", Tone::Good, format!("with the highest priority, {}", now.priority)));
        }
        Ok(changes)
    }

    /// Makes the plugin recount its counters, and prints the number of differences. Fails if there are any.
    fn check_counters(&mut self) -> DemoResult<()> {
        let answer = self.host.request("check", &json!({}))?;
        let count = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
        let drift = answer
            .get("drift")
            .and_then(Value::as_array)
            .ok_or_else(|| "the response of the plugin's check has no drift".to_owned())?;
        let (jobs, associations) = (count("jobs"), count("associations"));
        self.printer.print_heading(&format!(
            "A recount of {jobs} jobs of {associations} associations: {} counters differ",
            drift.len()
        ))?;
        if drift.is_empty() { Ok(()) } else { Err(failure(format!("counters have drifted: {drift:?}"))) }
    }
}
