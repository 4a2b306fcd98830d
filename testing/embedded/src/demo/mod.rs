// SPDX-License-Identifier: LGPL-3.0-only
//! `fairshare-embedded demo`: runs the plugin on a small site, ends jobs of the site, and runs commands of `flux fairshare`.
//! `etc/demo.sh` builds everything and runs this command.
//!
//! The demo runs in a real Flux instance or in the embedded job manager ([`host::DemoHost`]). The commands send their requests to the
//! plugin in this job manager. So all priorities, holds and usages in the output come from the plugin, never from the site file.

mod embedded;
mod host;
mod real;
mod site;

use std::collections::BTreeMap;
use std::io::{StdoutLock, Write, stdout};
use std::path::PathBuf;

use serde_json::{Value, json};
use textwrap::WordSplitter;

use self::host::{CommandArgs, DemoHost};
use self::site::{DemoStep, Site};
use super::Outcome;
use fairshare_embedded::f58;

/// Run the plugin on a small site, and show priorities, holds, and rejections
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
    /// The site: banks, users, queues, jobs, and the steps of the demo
    site: PathBuf,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum HostKind {
    Flux,
    Embedded,
}

pub(super) fn run(args: &DemoArgs) -> Outcome {
    let site = Site::read(&args.site)?;
    if args.print_config {
        println!("{}", site.build_flux_config());
        return Ok(());
    }
    // Do not follow a symbolic link: Flux names the plugin by its path.
    let plugin =
        std::path::absolute(&args.plugin).map_err(|error| format!("{}: {error}", args.plugin.display()))?;
    let host: Box<dyn DemoHost> = match args.host {
        HostKind::Flux => Box::new(real::FluxInstance::start(&plugin)?),
        HostKind::Embedded => Box::new(embedded::Embedded::start(&site, &plugin)?),
    };
    DemoRun { host: host.as_ref(), site: &site, commands: &args.commands, out: stdout().lock() }.run()
}

/// A job that the plugin has accepted.
struct AcceptedJob {
    id: u64,
    userid: u32,
}

struct DemoRun<'a> {
    host: &'a dyn DemoHost,
    site: &'a Site,
    commands: &'a CommandArgs,
    out: StdoutLock<'static>,
}

impl<'a> DemoRun<'a> {
    fn run(mut self) -> Outcome {
        writeln!(self.out, "The plugin runs in {}.", self.host.name())?;
        self.push_site()?;
        let jobs = self.submit_jobs()?;
        for step in &self.site.steps {
            match step {
                DemoStep::Run(words) => self.run_command(words, &jobs)?,
                DemoStep::End(name) => self.end_job(name, &jobs)?,
            }
        }
        self.check_counters()
    }

    fn push_site(&mut self) -> Outcome {
        let document = self.site.build_document(self.host.now())?;
        self.host.request("policy_update", &json!({"data": document}))?;
        writeln!(self.out, "Pushed the site: {}.", self.site.describe_size())?;
        let cluster = &self.site.cluster;
        writeln!(self.out, "The cluster has {} nodes of {} cores.", cluster.nodes, cluster.cores_per_node)?;
        Ok(())
    }

    /// Submits every job of the site, and prints the rejections. Returns the named jobs by name.
    fn submit_jobs(&mut self) -> Outcome<BTreeMap<&'a str, AcceptedJob>> {
        let site = self.site;
        let (mut named, mut rejections) = (BTreeMap::new(), Vec::new());
        for job in &site.jobs {
            let userid = site.user_id(&job.user)?;
            match self.host.submit(userid, job, &site.build_jobspec(job))? {
                Ok(id) => named.extend(job.name.as_deref().map(|name| (name, AcceptedJob { id, userid }))),
                Err(text) => {
                    rejections.push(format!("A job of {} in queue {}: {text}", job.user, job.queue));
                }
            }
        }
        let accepted = site.jobs.len() - rejections.len();
        let submitted = site.jobs.len();
        writeln!(self.out, "Submitted {submitted} jobs: {accepted} accepted, {} refused.", rejections.len())?;
        writeln!(self.out, "\nRefused at submission, in the plugin's words")?;
        let layout = textwrap::Options::new(80).initial_indent("  ").subsequent_indent("     ");
        let layout = layout.word_splitter(WordSplitter::NoHyphenation);
        for text in rejections {
            writeln!(self.out, "{}", textwrap::fill(&text, &layout))?;
        }
        Ok(named)
    }

    /// Runs a command of `flux fairshare`, and prints its output. Does nothing if the demo got no command.
    fn run_command(&mut self, words: &[String], jobs: &BTreeMap<&str, AcceptedJob>) -> Outcome {
        let to_id = |word: &String| jobs.get(word.as_str()).map_or(word.clone(), |job| f58(job.id));
        let words: Vec<String> = words.iter().map(to_id).collect();
        let Some(mut command) = self.commands.build(self.site, &words) else { return Ok(()) };
        let output = self.host.run_command(self.commands, &mut command)?;
        write!(self.out, "\n$ flux fairshare {}\n{output}", words.join(" "))?;
        Ok(())
    }

    fn end_job(&mut self, name: &str, jobs: &BTreeMap<&str, AcceptedJob>) -> Outcome {
        let job = jobs.get(name);
        let job = job.ok_or_else(|| format!("job {name:?} can't end: it is unknown, or was rejected"))?;
        self.host.finish(job.id, job.userid)?;
        writeln!(self.out, "\nJob {} ends.", f58(job.id))?;
        Ok(())
    }

    /// Makes the plugin recount its counters, and prints the number of differences. Fails if there are any.
    fn check_counters(&mut self) -> Outcome {
        let answer = self.host.request("check", &json!({}))?;
        let count = |key: &str| answer.get(key).and_then(Value::as_u64).unwrap_or(0);
        let drift = answer.get("drift").and_then(Value::as_array);
        let drift = drift.ok_or("the response of the plugin's check has no drift")?;
        let (jobs, associations) = (count("jobs"), count("associations"));
        writeln!(
            self.out,
            "\nA recount of {jobs} jobs of {associations} associations: {} counters differ",
            drift.len()
        )?;
        if drift.is_empty() { Ok(()) } else { Err(format!("counters have drifted: {drift:?}").into()) }
    }
}
