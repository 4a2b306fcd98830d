// SPDX-License-Identifier: LGPL-3.0-only
//! What a manual page says that no definition of an argument does: files, environment, examples.

use super::database;
use crate::store;

type Entry = (&'static str, &'static str);

const FILES: &[Entry] = &[(
    store::DEFAULT_PATH,
    "The accounting database, unless an option or the environment names another, or flux-accounting was built for one.",
)];

const DATABASE: Entry = (
    database::VARIABLE,
    "The accounting database, unless -p names one; else it is flux-accounting's own default.",
);

const INSTANCE: &[Entry] = &[
    DATABASE,
    (
        "FLUX_URI",
        "The instance that push and status speak to, unless --uri names one; where neither is given, the system's.",
    ),
];

const COLOUR: &[Entry] = &[
    DATABASE,
    ("NO_COLOR", "If set to anything but nothing, the table has no bars and no colours, on a terminal too."),
];

const OTHERS: &[Entry] = &[DATABASE];

/// True for the commands that can exit with status 1.
pub(super) fn says_no(command: &str) -> bool {
    !matches!(command, "update" | "push" | "compare")
}

/// The sections of a command's page, by its name.
pub(super) fn sections(command: &str) -> Vec<(&'static str, &'static [Entry])> {
    let environment = match command {
        "push" | "status" | "flux-fairshare" => INSTANCE,
        "show" => COLOUR,
        _ => OTHERS,
    };
    let mut sections = vec![("FILES", FILES), ("ENVIRONMENT", environment)];
    sections.push(("EXAMPLES", examples(command)));
    sections
}

fn examples(command: &str) -> &'static [Entry] {
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
            ("flux fairshare why ann", "Where ann's fair-share was lost."),
            ("flux fairshare why ann ben/physics", "Why one of them is ahead of the other."),
        ],
        "compare" => &[(
            "flux fairshare compare --policies weighted-walk,fair-tree",
            "Who would gain and who would lose under Slurm's rule.",
        )],
        "update" => &[
            ("flux fairshare update --dry-run", "Who would move, and how far."),
            (
                "flux fairshare update && flux fairshare push",
                "Store the fair-shares, and send them to the plugin.",
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
        _ => &[
            ("flux fairshare show", "The site's tree with everyone's fair-share."),
            ("flux fairshare why ann ben", "Why one of them is ahead of the other."),
            (
                "flux fairshare update && flux fairshare push",
                "What a timer runs to keep priorities up to date.",
            ),
        ],
    }
}
