// SPDX-License-Identifier: LGPL-3.0-only
//! Sections of manual pages other than the arguments: files, environment, examples.

use clap::Command;

use crate::site::database;
use fairshare_accounting::store;

type Entry = (&'static str, &'static str);

/// The option by which a command finds the accounting database.
const PATH: &str = "path";

const FILES: &[Entry] = &[(
    store::DEFAULT_PATH,
    "The accounting database, unless an option or the environment names another, or flux-accounting was built with another default.",
)];

/// Environment variables of commands that have an option.
const ENVIRONMENT: &[(&str, Entry)] = &[
    (
        PATH,
        (
            database::VARIABLE,
            "The accounting database, unless -p names one. If neither does, flux-accounting's default.",
        ),
    ),
    ("uri", ("FLUX_URI", "The Flux instance, unless --uri names one. If neither does, the system instance.")),
    (
        "color",
        (
            "NO_COLOR, CLICOLOR, CLICOLOR_FORCE",
            "Used without --color. No colours and no bars if NO_COLOR is not empty or CLICOLOR is 0; colours and bars also in files and \
             pipes if CLICOLOR_FORCE is set.",
        ),
    ),
    ("color", ("COLUMNS", "The width of tables and text; overrides the width of the terminal.")),
    (
        "no_pager",
        (
            "FLUX_FAIRSHARE_PAGER, PAGER, LESS",
            "The pager for output that is longer than the terminal; the default is less, with the options FRX if LESS is not set. cat or \
             an empty value turns the pager off.",
        ),
    ),
    (
        "color",
        (
            "LC_ALL, LC_CTYPE, LANG",
            "The tree and the bars are drawn with box characters if the encoding is UTF-8.",
        ),
    ),
];

/// Returns the text for exit status 1: `usual` for most commands, `None` for those that never exit with 1.
pub(super) fn exit_status_1_text<'a>(command: &str, usual: &'a str) -> Option<&'a str> {
    match command {
        "update" | "push" | "sync" | "policy" | "recount" | "scrub" | "compare" | "what-if" | "simulate"
        | "top" | "metrics" | "report" => None,
        // The descriptions of these commands explain exit status 1.
        "doctor" | "diff" | "status" | "check-import" | "migrate" | "config" => Some("see above"),
        _ => Some(usual),
    }
}

/// Returns true if the command or one of its visible subcommands has the option.
fn has_option(command: &Command, option: &str) -> bool {
    let mut below = command.get_subcommands().filter(|command| !command.is_hide_set());
    command.get_arguments().any(|argument| argument.get_id() == option)
        || below.any(|command| has_option(command, option))
}

/// Returns the sections of a command's page.
pub(super) fn list_sections(command: &Command) -> Vec<(&'static str, Vec<Entry>)> {
    let files = if has_option(command, PATH) { FILES } else { &[] };
    let environment = ENVIRONMENT.iter().filter(|(option, _)| has_option(command, option));
    let sections = [
        ("FILES", files.to_vec()),
        ("ENVIRONMENT", environment.map(|(_, entry)| *entry).collect()),
        ("EXAMPLES", list_examples(command.get_name()).to_vec()),
    ];
    sections.into_iter().filter(|(_, entries)| !entries.is_empty()).collect()
}

pub(super) fn list_examples(command: &str) -> &'static [Entry] {
    match command {
        "show" => &[
            ("flux fairshare show", "The whole site, the highest fair-share first."),
            ("flux fairshare show -l -u ann,ben", "All columns of two users and of the banks above them."),
            (
                "flux fairshare show -b physics --depth 2 --sort usage",
                "The children of a bank, the lowest usage first.",
            ),
            ("sshare -a -l -P | flux fairshare show --tree -", "A Slurm site's tree, ranked as Slurm does."),
            (
                "flux fairshare show --tree resource_group --usage-file usages",
                "A PBS site's tree, ranked as PBS does; the file usages holds the output of pbsfs.",
            ),
        ],
        "why" => &[
            (
                "flux fairshare why ƒ2YSTvBdGM",
                "Why a job is waiting, until when at the latest, and what would help.",
            ),
            (
                "flux fairshare why ƒ2YSTvBdGM ƒ2YTUcv7Ub",
                "Which of two jobs goes first, and which term decides.",
            ),
            ("flux fairshare why ann", "Which level of the tree lowers ann's fair-share."),
            ("flux fairshare why ann ben/physics", "Why one of them is ahead of the other."),
        ],
        "what-if" => &[
            ("flux fairshare what-if --shares chem=20", "Which users would move if a bank had other shares."),
            (
                "flux fairshare what-if --usage ann+=5000nh --add-user ben/chem=2 --policy fair-tree",
                "Several changes at once, by another ranking policy.",
            ),
            (
                "flux fairshare what-if --in 3w --idle ann",
                "How ann's fair-share recovers while ann is idle and the others continue as before.",
            ),
        ],
        "simulate" => &[
            (
                "flux fairshare simulate --policy weighted-walk,fair-tree",
                "How long the jobs of this site's database would have waited on its nodes under two policies.",
            ),
            (
                "flux fairshare simulate --trace FluxAccounting.db --nodes 512 --cores-per-node 96 --policy weighted-walk,fair-tree",
                "How long the recorded jobs would have waited under two policies.",
            ),
            (
                "flux fairshare simulate --trace HPC2N-2002-2.2-cln.swf.gz --sweep half-life=1d,7d,28d --sweep refresh=30,300 --csv",
                "Six combinations on a trace of the Parallel Workloads Archive, for programs.",
            ),
        ],
        "compare" => &[
            ("flux fairshare compare", "Everyone's place under every policy, and the mean for each bank."),
            (
                "flux fairshare compare --policy weighted-walk,fair-tree",
                "Gains and losses under Slurm's policy.",
            ),
        ],
        "report" => &[
            (
                "flux fairshare report --output report.html",
                "The site as a page, to open in a browser or to send.",
            ),
            (
                "sshare -a -l -P | flux fairshare report --tree - --half-life 7d --output report.html",
                "The page of a Slurm site; the half-life predicts when usage is back at the share.",
            ),
            ("flux fairshare report --json", "The numbers of the page, for programs."),
        ],
        "update" => &[
            ("flux fairshare update --dry-run", "Which users would move, and how far."),
            (
                "flux fairshare update && flux fairshare push",
                "Store the fair-shares, and send them to the plugin.",
            ),
        ],
        "jobs" => &[
            ("flux fairshare jobs", "Your pending jobs, a column for each term of their priorities."),
            (
                "flux fairshare jobs -A -S -fairshare,id --normalized",
                "All users' jobs with unweighted factors, sorted by fair-share, the largest first.",
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
            ("flux fairshare standing -l", "The same, with the siblings of each level of the tree."),
            ("flux fairshare standing -A", "For the owner of the instance: one line per association."),
        ],
        "check" => &[
            (
                "flux fairshare check -N2 -t 1h -q batch",
                "Whether this job would be accepted, what would hold it, and its place.",
            ),
            (
                "flux submit --dry-run -N2 --requires=a100 ./run | flux fairshare check -",
                "The same for a jobspec.",
            ),
        ],
        "top" => &[("flux fairshare top -d 2s", "A live view of the instance; q quits.")],
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
            ("flux fairshare doctor", "Problems, the users and banks they affect, and what to do."),
            (
                "flux fairshare doctor --json",
                "The same for a monitoring system; exit status 1 if a problem needs action.",
            ),
        ],
        "diff" => &[
            (
                "flux fairshare diff",
                "What a push would change, and the queues that only the database or only Flux has.",
            ),
            ("flux fairshare diff --json", "The same for a program; exit status 1 if something differs."),
        ],
        "config" => &[
            (
                "flux fairshare config check /etc/flux/system/conf.d",
                "Whether Flux would start with these files.",
            ),
            ("flux fairshare config check new.toml --json", "The same of one file, for programs."),
        ],
        "migrate" => &[
            ("flux fairshare migrate", "Which held jobs flux-accounting's plugin would lose, or has lost."),
            (
                "flux fairshare migrate --to-upstream --all-held >>let-go.sh",
                "Before you go back: parks all held jobs at urgency 0; \"sh let-go.sh\" restores their urgencies when the other plugin is loaded.",
            ),
        ],
        "status" => &[
            ("flux fairshare status", "The plugin's data, and how many jobs each limit holds."),
            ("flux fairshare status -u ann", "ann's associations, with counters and limits."),
        ],
        "check-import" => &[
            (
                "sshare -a -l -P | flux fairshare check-import --tree -",
                "How many of Slurm's FairShare and LevelFS values agree with ours.",
            ),
            (
                "(pbsfs; pbsfs -g ann; pbsfs -g ben) | flux fairshare check-import --tree -",
                "The same for PBS's percentages, group usages and two users' tree usages.",
            ),
        ],
        "push" => &[
            ("flux fairshare push -v", "Send the database to the plugin of the instance."),
            (
                "flux account export-json | flux fairshare push -p -",
                "Send the document that another program printed.",
            ),
        ],
        "sync" => &[
            ("flux fairshare sync --dry-run", "Whose usage and fair-share would change."),
            ("flux fairshare sync --watch", "For a service: act when jobs end or the database changes."),
            (
                "flux fairshare sync --only fetch --only usage",
                "For a site that ranks and pushes with other programs.",
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
            (
                "flux fairshare recount --write && flux fairshare update && flux fairshare push",
                "Correct the stored usage.",
            ),
        ],
        "scrub" => &[
            ("flux fairshare scrub --dry-run 26", "How many records ended more than 26 weeks ago."),
            ("flux fairshare scrub 26", "Remove the records among them that no half-life period needs."),
        ],
        "policy" => &[
            ("flux fairshare policy", "The policy of the site and its options."),
            (
                "flux fairshare policy fair-tree && flux fairshare update && flux fairshare push",
                "Change to Slurm's policy; \"flux fairshare compare\" shows gains and losses beforehand.",
            ),
            ("flux fairshare policy --set inactive_usage=ignore", "Change an option."),
        ],
        // The help of `limit` has examples.
        "limit" | "credit" => &[],
        "flux-fairshare" => &[
            ("flux fairshare show", "The site's tree with everyone's fair-share."),
            ("flux fairshare why ann ben", "Why one of them is ahead of the other."),
            (
                "flux fairshare update && flux fairshare push",
                "The commands of a timer that keeps priorities up to date.",
            ),
        ],
        _ => &[],
    }
}
