// SPDX-License-Identifier: LGPL-3.0-only
//! The manual page of the plugin: loading and settings.

/// A part of the page.
pub(super) enum Part {
    /// A heading.
    Section(&'static str),
    /// A paragraph.
    Text(&'static str),
    /// A term and its description.
    Entry(&'static str, &'static str),
    /// Preformatted lines.
    Lines(&'static str),
    /// An entry for each setting.
    Settings,
}

use Part::{Entry, Lines, Section, Settings, Text};

pub(super) const NAME: &str = "flux-fairshare-plugin";

/// The parts of the page.
pub(super) const PAGE: &[Part] = &[
    Section("NAME"),
    Text("flux-fairshare-plugin - fair-share priorities and limits in Flux's job manager (mf_priority.so)"),
    Section("SYNOPSIS"),
    Lines("flux jobtap load mf_priority.so [config=DOCUMENT] [KEY=VALUE ...]"),
    Section("DESCRIPTION"),
    Text(
        "A jobtap plugin that validates jobs and holds jobs that would exceed a limit. The plugin computes each job's priority \
         from the fair-share of its association (one user in one bank). The plugin is loaded in place of flux-accounting's \
         plugin, has the same name, and takes the same data from the same tools. flux-fairshare-push(1) and \
         flux-fairshare-sync(1) also send the tree of banks with shares and usage. From this tree, the plugin keeps fair-share \
         up to date while jobs run.",
    ),
    Text(
        "Without data, jobs wait in PRIORITY. After a reload or a restart, the plugin uses its snapshot of the last push if \
         flux-fairshare sent that push. Otherwise the plugin waits for the next push.",
    ),
    Section("LOADING"),
    Text(
        "Options given at load override the configuration. If an option is unknown, the plugin is not loaded.",
    ),
    Entry(
        "config",
        "A document as \"flux account export-json\" prints it, used until the first push. Its \"config\" may set deny_unknown_queues \
         (true or false) and zero_score (\"hold\" or \"floor\").",
    ),
    Entry("any key of SETTINGS", "For instance refresh=10, or a table as JSON."),
    Section("SETTINGS"),
    Text(
        "The table [fairshare] of Flux's configuration; \"flux config reload\" applies it. If a key is \
         unknown or a value is invalid, an error names the key, and the whole table is ignored. Durations are seconds, or a number with ms, s, m, h or d.",
    ),
    Settings,
    Section("LIMITS"),
    Text(
        "flux-accounting's limits come with its data. Limits on GPUs, whole banks, and users over all their banks come from \
         flux-fairshare-limit(1), or from tables [[fairshare.limits]]; if both set the same limit, the push counts.",
    ),
    Entry("scope", "\"association\", \"bank\", \"user\" or \"queue\"."),
    Entry(
        "name",
        "UID/BANK, a bank, a user's id, or a queue. \"*\" stands for each association, bank or user without a limit of its own; of \
         banks, only for those without \
         child banks; for queues, each for queue of the last push.",
    ),
    Entry("queue", "With scope association, bank or user: only jobs in this queue count."),
    Entry(
        "counts",
        "\"asked\" or \"given\": whether running jobs count the resources they asked for or those they were allocated.",
    ),
    Entry(
        "run-jobs, run-nodes, run-cores, run-gpus, sched-..., run-sched-...",
        "The limits, on jobs in RUN, in SCHED, or in both.",
    ),
    Entry(
        "run-node-hours",
        "The limit on the nodes of jobs in RUN times the time that these jobs may still run. A job without a time limit is rejected.",
    ),
    Entry("active-jobs", "The limit on jobs from submission to their end. More jobs are rejected, not held."),
    Entry(
        "job-nodes, job-time, job-node-hours",
        "Limits on one job: its nodes, its time limit in seconds, and the product of both in hours. A larger job is rejected, and so \
         is a job without a time limit if the limit counts time.",
    ),
    Section("HELD JOBS"),
    Text(
        "A job in DEPEND carries one dependency for each limit that it would exceed: max-run-jobs-queue, \
         max-sched-jobs-queue-limit, max-sched-nodes-queue-limit, max-sched-cores-queue-limit, max-resources-queue, \
         max-running-jobs-user-limit, max-sched-jobs-user-limit, max-resources-user-limit, and for limits of the section above \
         max-MEASURE-SCOPE, max-MEASURE-SCOPE-queue or max-MEASURE-in-queue. Flux accepts each name once per job. So a limit that holds a job again adds a number, for example \
         max-sched-jobs-user-limit.2. A job that has left DEPEND before a limit applies to it is held in PRIORITY, or in SCHED at \
         priority 0.",
    ),
    Section("METHODS"),
    Text(
        "Under job-manager.mf_priority. For the instance owner: rec_update, rec_q_update, rec_proj_update, rec_bank_update, \
         rec_fac_update, rec_config_update and reprioritize, as flux-accounting's tools call them; policy_update, policy_begin, \
         policy_part, policy_commit, policy_abort; associations, priorities, usages, stats, check, hand_over, rest. For all users, \
         about their own jobs and associations: explain, standing, jobs.",
    ),
    Section("EXAMPLES"),
    Lines(
        "[job-manager]\nplugins = [\n  { remove = \".priority-default\", load = \"mf_priority.so\" },\n]\n\n[fairshare]\nrefresh = \
         \"1m\"\nrunning-limits = \"strict\"\nweights = { age = 1000 }\n\n[fairshare.queues.debug]\n\
         running-limits = \"upstream\"\n\n[[fairshare.limits]]\nscope = \"bank\"\nname = \"small\"\nrun-sched-gpus = 4",
    ),
    Section("SEE ALSO"),
    Text(
        "flux-fairshare(1), flux-fairshare-push(1), flux-fairshare-status(1), flux-fairshare-doctor(1), \
         flux-fairshare-migrate(1), flux-jobtap(1), flux-config(1)",
    ),
];
