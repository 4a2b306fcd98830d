// SPDX-License-Identifier: LGPL-3.0-only
//! The manual page of the plugin: how it is loaded, and all that a site can set.

/// A part of the page.
pub(super) enum Part {
    /// A heading.
    Section(&'static str),
    /// A paragraph.
    Text(&'static str),
    /// What something is called, and what it is.
    Entry(&'static str, &'static str),
    /// Lines that stay as they are.
    Lines(&'static str),
    /// An entry for each setting.
    Settings,
}

use Part::{Entry, Lines, Section, Settings, Text};

/// The name of the page.
pub(super) const NAME: &str = "flux-fairshare-plugin";

/// All of it, from top to bottom.
pub(super) const PAGE: &[Part] = &[
    Section("NAME"),
    Text("flux-fairshare-plugin - fair-share priorities and limits in Flux's job manager (mf_priority.so)"),
    Section("SYNOPSIS"),
    Lines("flux jobtap load mf_priority.so [config=DOCUMENT] [KEY=VALUE ...]"),
    Section("DESCRIPTION"),
    Text(
        "A jobtap plugin that validates jobs, holds those that would exceed a limit, and computes each job's priority from \
         the fair-share of its association: one user in one bank. It is loaded in place of flux-accounting's plugin, has the \
         same name, and takes the same data from the same tools. Besides those, flux-fairshare-push(1) and \
         flux-fairshare-sync(1) bring it the tree of banks with shares and usage, from which it keeps fair-share up to date \
         by itself while jobs run.",
    ),
    Text(
        "Without data jobs wait in PRIORITY. After a reload or a restart the plugin goes by what it remembers of the last \
         push, if it was one of flux-fairshare's; otherwise it waits for the next.",
    ),
    Section("LOADING"),
    Text("What is given at load goes before what the configuration says. Any other option refuses the load."),
    Entry(
        "config",
        "A document as \"flux account export-json\" prints it, to begin with. Of its own \"config\" deny_unknown_queues \
         (true or false) and zero_score (\"hold\" or \"floor\") are known.",
    ),
    Entry("any key of SETTINGS", "For instance refresh=10, or a table as JSON."),
    Section("SETTINGS"),
    Text(
        "The table [fairshare] of Flux's configuration; \"flux config reload\" puts it in force. If a key is unknown or \
         a value is invalid, the whole table is rejected, and the message names the key. Durations are seconds, or a number with ms, s, m, h or d.",
    ),
    Settings,
    Section("LIMITS"),
    Text(
        "flux-accounting's limits come with its data. Limits on GPUs, whole banks, and users over all their banks come from \
         flux-fairshare-limit(1), or from tables [[fairshare.limits]]; where a push speaks of the same, the push counts.",
    ),
    Entry("scope", "\"association\", \"bank\" or \"user\"."),
    Entry(
        "name",
        "UID/BANK, a bank, or a user's id; \"*\" is each for which nothing else is said, of banks each that has none below it.",
    ),
    Entry("queue", "Of associations and banks: only jobs in this queue."),
    Entry(
        "counts",
        "\"asked\", or \"given\": whether running jobs count what they asked for or what they got.",
    ),
    Entry(
        "run-jobs, run-nodes, run-cores, run-gpus, sched-..., run-sched-...",
        "The limits: on jobs that run, that the scheduler has, or both.",
    ),
    Section("WHAT HOLDS A JOB"),
    Text(
        "A job in DEPEND carries one dependency for each limit that it would exceed: max-run-jobs-queue, \
         max-sched-jobs-queue-limit, max-sched-nodes-queue-limit, max-sched-cores-queue-limit, max-resources-queue, \
         max-running-jobs-user-limit, max-sched-jobs-user-limit, max-resources-user-limit, and for limits of the section above \
         max-MEASURE-SCOPE. Flux honours no name twice on a job: where one was taken off before, the next is numbered, as in \
         max-sched-jobs-user-limit.2. A job that is past DEPEND when a limit comes to concern it is held in \
         PRIORITY, or in SCHED at priority 0.",
    ),
    Section("METHODS"),
    Text(
        "Under job-manager.mf_priority. For the instance owner: rec_update, rec_q_update, rec_proj_update, rec_bank_update, \
         rec_fac_update, rec_config_update and reprioritize, as flux-accounting's tools call them; policy_update, policy_begin, \
         policy_part, policy_commit, policy_abort; associations, prices, usages, stats, check, hand_over, rest. For everybody, \
         about himself: explain, standing, jobs.",
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
