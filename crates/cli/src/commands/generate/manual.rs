// SPDX-License-Identifier: LGPL-3.0-only
//! What a manual page says that no definition of an argument does: files, environment, examples.

use clap::Command;

use crate::site::database;
use fairshare_accounting::store;

type Entry = (&'static str, &'static str);

/// The option by which a command finds the accounting database.
const PATH: &str = "path";

const FILES: &[Entry] = &[(
    store::DEFAULT_PATH,
    "The accounting database, unless an option or the environment names another, or flux-accounting was built for one.",
)];

/// What the environment says to commands that have an option.
const ENVIRONMENT: &[(&str, Entry)] = &[
    (
        PATH,
        (
            database::VARIABLE,
            "The accounting database, unless -p names one; else it is flux-accounting's own default.",
        ),
    ),
    (
        "uri",
        (
            "FLUX_URI",
            "The instance that is spoken to, unless --uri names one; where neither is given, the system's.",
        ),
    ),
    (
        "color",
        (
            "NO_COLOR, CLICOLOR, CLICOLOR_FORCE",
            "Unless --color says it: no colours and no bars where NO_COLOR is set to anything but nothing or CLICOLOR is 0; both also \
             into files and pipes where CLICOLOR_FORCE is set.",
        ),
    ),
    (
        "color",
        ("COLUMNS", "The width of tables and text, before what the terminal says, and where there is none."),
    ),
    (
        "no_pager",
        (
            "FLUX_FAIRSHARE_PAGER, PAGER, LESS",
            "What shows output that is longer than the terminal; less if neither says, with the options FRX if LESS is not set; cat or \
             nothing is none.",
        ),
    ),
    (
        "color",
        (
            "LC_ALL, LC_CTYPE, LANG",
            "Lines of the tree and blocks of bars are drawn where the letters are those of UTF-8.",
        ),
    ),
];

/// The text for exit status 1; `usual` for most commands, `None` for those that never exit with 1.
pub(super) fn no<'a>(command: &str, usual: &'a str) -> Option<&'a str> {
    match command {
        "update" | "push" | "sync" | "policy" | "recount" | "scrub" | "compare" | "what-if" | "simulate"
        | "top" | "metrics" | "report" => None,
        // Their descriptions say it.
        "doctor" | "status" | "check-import" | "migrate" | "config" => Some("see above"),
        _ => Some(usual),
    }
}

/// Whether a command has an option, or one that is shown below it.
fn has(command: &Command, option: &str) -> bool {
    let mut below = command.get_subcommands().filter(|command| !command.is_hide_set());
    command.get_arguments().any(|argument| argument.get_id() == option)
        || below.any(|command| has(command, option))
}

/// The sections of a command's page.
pub(super) fn sections(command: &Command) -> Vec<(&'static str, Vec<Entry>)> {
    let files = if has(command, PATH) { FILES } else { &[] };
    let environment = ENVIRONMENT.iter().filter(|(option, _)| has(command, option));
    let sections = [
        ("FILES", files.to_vec()),
        ("ENVIRONMENT", environment.map(|(_, entry)| *entry).collect()),
        ("EXAMPLES", examples(command.get_name()).to_vec()),
    ];
    sections.into_iter().filter(|(_, entries)| !entries.is_empty()).collect()
}

pub(super) fn examples(command: &str) -> &'static [Entry] {
    match command {
        "show" => &[
            ("flux fairshare show", "The whole site, the most deserving first."),
            ("flux fairshare show -l -u ann,ben", "All about two users, with the banks above them."),
            ("flux fairshare show -b physics -d 2 --sort -usage", "Who in a bank used least."),
            ("sshare -a -l -P | flux fairshare show --tree -", "A Slurm site's tree, by Slurm's rule."),
            (
                "flux fairshare show --tree resource_group --usage usages",
                "A PBS site's tree, by its rule; usages holds what pbsfs printed.",
            ),
        ],
        "why" => &[
            (
                "flux fairshare why ƒ2YSTvBdGM",
                "Why a job waits, until when at the latest, and what would help.",
            ),
            ("flux fairshare why ƒ2YSTvBdGM ƒ2YTUcv7Ub", "Which of two jobs goes first, and by what."),
            ("flux fairshare why ann", "Where ann's fair-share was lost."),
            ("flux fairshare why ann ben/physics", "Why one of them is ahead of the other."),
        ],
        "what-if" => &[
            ("flux fairshare what-if --shares chem=20", "Who would move if a bank had other shares."),
            (
                "flux fairshare what-if --usage ann+=5000nh --add-user ben/chem=2 --policy fair-tree",
                "Several changes at once, by another ranking policy.",
            ),
            (
                "flux fairshare what-if --in 3w --idle ann",
                "How ann's fair-share recovers while she rests and the others go on as they did.",
            ),
        ],
        "simulate" => &[
            (
                "flux fairshare simulate --trace FluxAccounting.db --nodes 512 --cores-per-node 96 --policy weighted-walk,fair-tree",
                "What the jobs on record would have waited for under two policies.",
            ),
            (
                "flux fairshare simulate --trace HPC2N-2002-2.2-cln.swf.gz --sweep half-life=1d,7d,28d --sweep refresh=30,300 --csv",
                "Six combinations on a trace of the Parallel Workloads Archive, for programs.",
            ),
        ],
        "compare" => &[
            ("flux fairshare compare", "Everyone's place under every policy, and the mean for each bank."),
            (
                "flux fairshare compare --policies weighted-walk,fair-tree",
                "Who would gain and who would lose under Slurm's rule.",
            ),
        ],
        "report" => &[
            ("flux fairshare report -o report.html", "The site as a page, to open in a browser or to send."),
            (
                "sshare -a -l -P | flux fairshare report --tree - --half-life 7d -o report.html",
                "That of a Slurm site; when usage is even again needs to know how fast it is forgotten.",
            ),
            ("flux fairshare report --json", "What the page shows, for programs."),
        ],
        "update" => &[
            ("flux fairshare update --dry-run", "Who would move, and how far."),
            (
                "flux fairshare update && flux fairshare push",
                "Store the fair-shares, and send them to the plugin.",
            ),
        ],
        "jobs" => &[
            ("flux fairshare jobs", "Your pending jobs, a column for each term of their priorities."),
            (
                "flux fairshare jobs -A -S -fairshare,id -n",
                "Everybody's, by the factor fair-share, the largest first, not weighed.",
            ),
            ("flux fairshare jobs -w", "The weights."),
            (
                "flux fairshare jobs -q batch -o id,user,priority,holds --csv",
                "Some columns of a queue's jobs, for programs.",
            ),
        ],
        "standing" => &[
            (
                "flux fairshare standing",
                "Where you stand, your limits, and when your usage is back at your share.",
            ),
            ("flux fairshare standing -l", "The same, with what is beside each level of the tree."),
            ("flux fairshare standing -A", "For the owner of the instance: a line for everybody."),
        ],
        "top" => &[("flux fairshare top -d 2s", "The instance as it goes; q leaves.")],
        "metrics" => &[
            (
                "flux fairshare metrics --listen 127.0.0.1:9909",
                "For a Prometheus on this machine: http://127.0.0.1:9909/metrics.",
            ),
            (
                "flux fairshare metrics --textfile /var/lib/prometheus/node-exporter/flux_fairshare.prom --every 30s",
                "For node_exporter's textfile collector.",
            ),
        ],
        "doctor" => &[
            ("flux fairshare doctor", "What is wrong, whom it harms, what to do."),
            (
                "flux fairshare doctor --json",
                "The same for a monitoring system; exit status 1 if something is to be done.",
            ),
        ],
        "config" => &[
            ("flux fairshare config check /etc/flux/system/conf.d", "Whether Flux would start with it."),
            ("flux fairshare config check new.toml --json", "The same of one file, for programs."),
        ],
        "migrate" => &[
            ("flux fairshare migrate", "Which held jobs flux-accounting's plugin would lose, or has lost."),
            (
                "flux fairshare migrate --to-upstream --all >>let-go.sh",
                "Before going back: all held jobs rest at urgency 0; \"sh let-go.sh\" lets them go when the other plugin is loaded.",
            ),
        ],
        "status" => &[
            ("flux fairshare status", "What the plugin knows, whom it holds and by which limit."),
            ("flux fairshare status -u ann", "Her associations: counters beside limits."),
        ],
        "check-import" => &[
            (
                "sshare -a -l -P | flux fairshare check-import --tree -",
                "How many of Slurm's FairShare and LevelFS ours equal.",
            ),
            (
                "(pbsfs; pbsfs -g ann; pbsfs -g ben) | flux fairshare check-import --tree -",
                "The same of PBS's percentages, usages of groups and two users' tree usages.",
            ),
        ],
        "push" => &[
            ("flux fairshare push -v", "Send the database to the plugin of the instance."),
            ("flux account export-json | flux fairshare push -p -", "Send what another program made of it."),
        ],
        "sync" => &[
            ("flux fairshare sync --dry-run", "Whose usage and fair-share would change."),
            ("flux fairshare sync --watch", "For a service: act when jobs end or the database changes."),
            (
                "flux fairshare sync --only fetch --only usage",
                "For a site that ranks and pushes by other programs.",
            ),
        ],
        "usage" => &[
            ("flux fairshare usage --since 7d", "Hours of each association in the last seven days."),
            (
                "flux fairshare usage --since 2026-10-01 --until 2026-11-01 --by bank --csv",
                "Hours of each bank in October, for programs.",
            ),
            (
                "flux fairshare usage --by period -u ann",
                "The parts of ann's usage, when each decays and when it expires.",
            ),
        ],
        "recount" => &[
            ("flux fairshare recount", "Where the stored usage differs from the records."),
            ("flux fairshare recount --write && flux fairshare update && flux fairshare push", "Mend it."),
        ],
        "scrub" => &[
            ("flux fairshare scrub --dry-run 26", "How many records ended more than 26 weeks ago."),
            ("flux fairshare scrub 26", "Remove those that no half-life period needs."),
        ],
        "policy" => &[
            ("flux fairshare policy", "The policy of the site and its options."),
            (
                "flux fairshare policy fair-tree && flux fairshare update && flux fairshare push",
                "Change to Slurm's rule; \"flux fairshare compare\" shows beforehand who gains and who loses.",
            ),
            ("flux fairshare policy --set inactive_usage=ignore", "Change an option."),
        ],
        // Its help has them.
        "limit" => &[],
        "flux-fairshare" => &[
            ("flux fairshare show", "The site's tree with everyone's fair-share."),
            ("flux fairshare why ann ben", "Why one of them is ahead of the other."),
            (
                "flux fairshare update && flux fairshare push",
                "What a timer runs to keep priorities up to date.",
            ),
        ],
        _ => &[],
    }
}
