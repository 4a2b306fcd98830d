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
}

use Part::{Entry, Lines, Section, Text};

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
        "The table [fairshare] of Flux's configuration; \"flux config reload\" puts it in force. A key that is unknown, or a \
         value that is none, refuses the whole table by name. Durations are seconds, or a number with ms, s, m, h or d.",
    ),
    Entry(
        "live",
        "Whether usage and fair-share follow the jobs between pushes; if not, fair-share is the number that was pushed. \
         Default: true.",
    ),
    Entry("refresh", "How often the order of pending jobs follows; 0: only at pushes. Default: \"30s\"."),
    Entry(
        "accrual",
        "\"elapsed\": a job is charged as it runs. \"committed\": at its start for all the time it asked for, and what it did \
         not use comes back. Default: \"elapsed\".",
    ),
    Entry(
        "weights",
        "A table: age, for the time a job was eligible over age-max, and size, for its nodes over the site's. Both are \
         integers; where the database's factors name age or size, those weights count instead. Default: {age = 0, size = 0}.",
    ),
    Entry(
        "age-max",
        "From here on a job's age counts no more; with max-wait-behind set it is only the unit in which age is measured, and age \
         has no end. Default: \"7d\".",
    ),
    Entry(
        "max-wait-behind",
        "A promise: no eligible job is overtaken for longer than this by later ones of equal size. The weight of age follows \
         from it. Default: none.",
    ),
    Entry(
        "interleave",
        "Whether a user's jobs are priced as if those before them had been charged, so that users take turns. Default: false.",
    ),
    Entry(
        "running-limits",
        "\"upstream\": limits on what runs are looked at when a job leaves DEPEND, as flux-accounting does. \"strict\": no more \
         jobs are in SCHED than could run at once. Default: \"upstream\".",
    ),
    Entry("queues", "A table by queue; in each running-limits can be set for that queue alone."),
    Entry("limits", "An array of tables, see LIMITS."),
    Entry(
        "public",
        "What of the tree everybody may see: \"own\" numbers alone, the \"banks\" above and beside them, or \"all\". With \"own\" a \
         limit on a bank is shown without what is in use. Default: \"banks\".",
    ),
    Entry(
        "annotate",
        "With true, flux jobs -o \"{annotations.user.standing}\" shows the fair-share and rank of each pending job as of the last \
         refresh, or the limit that holds it. Default: false.",
    ),
    Entry(
        "remember",
        "Whether the last push and what was used since are kept in the KVS, to be there again after a reload or restart. \
         Default: true.",
    ),
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
