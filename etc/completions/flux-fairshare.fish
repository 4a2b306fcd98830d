# Print an optspec for argparse to handle cmd's options that are independent of any subcommand.
function __fish_flux_fairshare_global_optspecs
    string join \n h/help V/version
end

function __fish_flux_fairshare_needs_command
    # Figure out if the current invocation already has a command.
    set -l cmd (commandline -opc)
    set -e cmd[1]
    argparse -s (__fish_flux_fairshare_global_optspecs) -- $cmd 2>/dev/null
    or return
    if set -q argv[1]
        # Also print the command, so this can be used to figure out what it is.
        echo $argv[1]
        return 1
    end
    return 0
end

function __fish_flux_fairshare_using_subcommand
    set -l cmd (__fish_flux_fairshare_needs_command)
    test -z "$cmd"
    and return 1
    contains -- $cmd[1] $argv
end

complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -s h -l help -d 'Print help'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -s V -l version -d 'Print version'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "show" -d 'Show the tree: shares, usage and fair-share of every bank and user'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "update" -d 'Compute the fair-shares and store them in the database'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "policy" -d 'Show or choose the ranking policy of the site and its options'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "limit" -d 'Show, set or remove limits on GPUs, whole banks, and users over all their banks'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "budget" -d 'Show budgets of node-hours, core-hours or GPU-hours, and add to them'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "credit" -d 'Add or subtract usage of an association, with a reason and a log'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "push" -d 'Send the database to the priority plugin'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "sync" -d 'Fetch ended jobs, count usage, rank and push, in one step'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "recount" -d 'Recount all usage from the job records, and show where the stored usage differs'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "usage" -d 'Show node, core and GPU hours of users, banks, projects or days, from the records of ended jobs and from running jobs'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "scrub" -d 'Remove the records of jobs that ended long ago'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "compare" -d 'Compare policies on the same tree: gains, losses, and how much the orders differ'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "report" -d 'Write a report of the site as a single HTML page'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "why" -d 'Explain why a job is waiting, a user\'s or a bank\'s fair-share, or why one is ahead of another'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "what-if" -d 'Show who would move under other shares, usage, half-life, weights or policy; changes nothing'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "simulate" -d 'Replay a job history under other policies, weights, half-lives, limits and refresh intervals'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "jobs" -d 'Show the priorities of pending jobs and the terms that they are made of'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "standing" -d 'Show where you stand, your limits and how much of them is used'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "top" -d 'Watch banks, standings, pending and held jobs on the whole screen'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "metrics" -d 'Print metrics of the whole instance as OpenMetrics text, once, into a file, or over HTTP'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "status" -d 'Show the state of the priority plugin: its data, weights and half-life, jobs held by each limit'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "check" -d 'Show whether a job would be accepted, what would hold it, and its priority; submits nothing'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "check-import" -d 'Compare the values that Slurm, PBS or flux-accounting computed with ours'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "doctor" -d 'Check the database and the plugin for silent problems, and say what to do about each'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "diff" -d 'Show what differs between the database, the plugin and Flux\'s configuration'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "config" -d 'Check Flux\'s configuration files before Flux reads them'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "migrate" -d 'Before you go back to flux-accounting\'s plugin: list the held jobs that it would lose, and save them'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s u -l user -d 'Show only these users, by name or number, and the banks above them' -r -f -a '(flux fairshare complete users -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s b -l bank -d 'Show only these banks, all banks and users below them, and the banks above' -r -f -a '(flux fairshare complete banks -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l depth -d 'Show only this many levels below the root' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s S -l sort -d 'Sort siblings by this column, name, list (as the input has them), or pbs-walk (as PBS\'s scheduler compares them); with a leading -, the largest first' -r -f -a "name\t'bank or user, indented by depth'
kind\t'bank or association'
bank\t'the bank, or the association\'s bank'
parent\t'the parent bank'
user\t'the user'
shares\t'raw shares, or "parent"'
norm_shares\t'shares as a part of the site\'s (of the siblings\' shares under rank policies)'
usage\t'usage; in node-hours in tables if the unit is node-seconds'
norm_usage\t'usage as a part of the site\'s'
effective_usage\t'the usage that the policy compares with the shares'
level_fs\t'norm shares / effective usage among siblings'
weight\t'the weight by which weighted-walk sorts siblings'
place\t'1 is ranked first; ties share a place'
fairshare\t'0 to 1; a larger value ranks higher'
fairshare_perc\t'pbs: the target'
fairshare_tree_usage\t'pbs: the effective usage'
fairshare_factor\t'pbs: 2^-(tree usage / target)'
usage_over_perc\t'pbs: the value that its scheduler compares if no formula is set'
walk\t'pbs: the place in the order of its scheduler'
stored\t'the fair-share that the last update stored in the database; with a live tree, the fair-share in force in the plugin'
served\t'below its share, above its share, even, or has no (own) shares'
active\t'whether the association is active, and so ranked'
depth\t'levels below the root'
bar\t'effective usage drawn against norm shares (table only)'
list\t'as the input has them'
pbs-walk\t'as PBS\'s scheduler compares them'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s o -l format -d 'Columns by name or title, separated by commas; --help lists them' -r -f -a "name\t'bank or user, indented by depth'
kind\t'bank or association'
bank\t'the bank, or the association\'s bank'
parent\t'the parent bank'
user\t'the user'
shares\t'raw shares, or "parent"'
norm_shares\t'shares as a part of the site\'s (of the siblings\' shares under rank policies)'
usage\t'usage; in node-hours in tables if the unit is node-seconds'
norm_usage\t'usage as a part of the site\'s'
effective_usage\t'the usage that the policy compares with the shares'
level_fs\t'norm shares / effective usage among siblings'
weight\t'the weight by which weighted-walk sorts siblings'
place\t'1 is ranked first; ties share a place'
fairshare\t'0 to 1; a larger value ranks higher'
fairshare_perc\t'pbs: the target'
fairshare_tree_usage\t'pbs: the effective usage'
fairshare_factor\t'pbs: 2^-(tree usage / target)'
usage_over_perc\t'pbs: the value that its scheduler compares if no formula is set'
walk\t'pbs: the place in the order of its scheduler'
stored\t'the fair-share that the last update stored in the database; with a live tree, the fair-share in force in the plugin'
served\t'below its share, above its share, even, or has no (own) shares'
active\t'whether the association is active, and so ranked'
depth\t'levels below the root'
bar\t'effective usage drawn against norm shares (table only)'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s U -l users-only -d 'Show only users, no banks, like sshare -U'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s a -l all -d 'All users, which is the default; accepted for users of sshare'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s l -l long -d 'Show more columns, among them whether a user is above or below its share'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l limit -d 'With --dry-run: show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l dry-run -d 'Write nothing; show whose fair-share would change'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s v -l verbose -d 'Print a summary, even if not on a terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l unset -d 'Reset these options to their defaults' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l reset -d 'Reset all options to their defaults'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s q -l queue -d 'Count only jobs in this queue' -r -f -a '(flux fairshare complete queues -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l given -d 'Count the resources that running jobs were allocated, not those they asked for'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l push -d 'Also push, so that the change takes effect at once'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l unit -d 'The unit [default for deposit and refund: node-hours]' -r -f -a "node-hours\t''
core-hours\t''
gpu-hours\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l from -d 'The start of the window: 2027-01-01, 2027-01-01T08:00, 2027-01-01T08:00:00Z, or seconds since the epoch [default: now with --until, else the current window]' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l until -d 'The end of the window, which the window does not include: a time, or the length of the window, like 52w or 365d' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -s r -l reason -d 'The reason, for the log' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l job -d 'For refund: the ended job that spent the amount' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l push -d 'Also push, so that the change takes effect at once'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand budget" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -s r -l reason -d 'The reason, for the log' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l unit -d 'The unit of the amount' -r -f -a "node-hours\t'Node hours, times the weight of a node'
core-hours\t'Core hours, times the weight of a core'
gpu-hours\t'GPU hours, times the weight of a GPU'
usage\t'Usage in the unit of the database: weighted seconds'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l from -d 'The time of the added usage: 2026-11-21, 2026-11-21T13:00, 2026-11-21T12:00:00Z, seconds since the epoch, or how long ago (90m, 12h, 7d, 4w)' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l now -d 'The current time, in seconds since the epoch' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l push -d 'Also sync, which pushes, so that the change takes effect at once'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand credit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l dry-run -d 'Change nothing; show what would be sent, and what the plugin would do'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s v -l verbose -d 'Print a summary of the push'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l json -d 'Print the result as JSON; the changes are null if the plugin does not report them'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l only -d 'Do only this step; may be given several times' -r -f -a "fetch\t'Bring records of ended jobs into the database'
usage\t'Count usage'
fairshare\t'Compute fair-shares'
push\t'Send the database to the plugin'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l watch -d 'Keep running, and sync when jobs have ended or the database has changed' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l usage-rule -d 'The rule that counts usage: exact or flux-accounting' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l now -d 'The current time, in seconds since the epoch; for tests and recounts' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l limit -d 'With --dry-run: show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l dry-run -d 'Store and send nothing; show what would change'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s v -l verbose -d 'Print a summary, even if not on a terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l now -d 'The current time, in seconds since the epoch' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l limit -d 'Show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l write -d 'Store the recounted usage'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l since -d 'The beginning: 2026-11-21, 2026-11-21T13:00, 2026-11-21T12:00:00Z, seconds since the epoch, or how long ago (90m, 12h, 7d, 4w)' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l until -d 'The end, in the forms of --since' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l by -d 'Group usage by this' -r -f -a "association\t''
user\t''
bank\t''
project\t''
day\t''
period\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s u -l user -d 'Only these users' -r -f -a '(flux fairshare complete users -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s b -l bank -d 'Only these banks and those below them' -r -f -a '(flux fairshare complete banks -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l limit -d 'Show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l whole -d 'Count each job completely at the time of its end'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -l now -d 'The current time, in seconds since the epoch' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -l dry-run -d 'Remove nothing; show what would be removed'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l policy -d 'The policies to compare, the site\'s present policy first; a single policy is compared with it [default: all]' -r -f -a "weighted-walk\,fair-tree\t''
weighted-walk\,classic\t''
weighted-walk\,depth-oblivious\t''
weighted-walk\,pbs\t''
fair-tree\,weighted-walk\t''
fair-tree\,classic\t''
fair-tree\,depth-oblivious\t''
fair-tree\,pbs\t''
classic\,weighted-walk\t''
classic\,fair-tree\t''
classic\,depth-oblivious\t''
classic\,pbs\t''
depth-oblivious\,weighted-walk\t''
depth-oblivious\,fair-tree\t''
depth-oblivious\,classic\t''
depth-oblivious\,pbs\t''
pbs\,weighted-walk\t''
pbs\,fair-tree\t''
pbs\,classic\t''
pbs\,depth-oblivious\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l limit -d 'Show at most this many rows of each kind in the table, the largest differences first; 0 shows all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l half-life -d 'The half-life of usage, like 7d, for trees without a half-life; databases have one' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l output -d 'The file, which is replaced atomically; - is standard output. A link is refused' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l title -d 'The title of the page' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l json -d 'Print only the data, as a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l no-jobs -d 'Do not ask the plugin which jobs are held'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l half-life -d 'The half-life of usage, like 7d, for trees without a half-life; databases have one' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s l -l long -d 'Show every level of a very deep tree'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l json -d 'Print a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l shares -d 'Other shares of a bank, or of a user, with /BANK if in several banks' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l usage -d 'Change a user\'s usage: alice+=5000nh adds, alice-=20% subtracts, alice/chem=0 sets' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l add-user -d 'A new user without usage, with one share by default' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l in -d 'After this time, like 7d, 36h or "2 weeks"' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l idle -d 'With --in: users or banks that are idle until then; for a single user, also plots the fair-share at points in between' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l half-life -d 'Another half-life of usage, like 3d; with --in, the half-life until then' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l weight -d 'Instead: other weights of priority factors, as fairshare=50000,age=1000; shows which pending jobs would move' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l submit -d 'Instead: this many jobs, each with these options of flux submit: 100 -N2 -t1h' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l limit -d 'Show at most this many rows of each kind in the table, the largest differences first; 0 shows all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l trace -d 'The history: an accounting database, or a trace in the Standard Workload Format, which may be compressed (.gz) [default: the accounting database]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l nodes -d 'Nodes of the cluster, if the trace does not say [default: those of the Flux instance]' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l cores-per-node -d 'Cores of each node, if the trace does not say [default: with --nodes 1, otherwise those of the Flux instance]' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l scheduler -d 'The scheduler: fcfs starts jobs in the order of priority; easy also starts jobs that do not delay the first' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l backfill-depth -d 'With easy: how many pending jobs behind the first may be backfilled' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l policy -d 'A ranking policy; may be given several times [default: the site\'s]' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l sweep -d 'A setting and its values; if given several times, all combinations are simulated' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l config -d 'Use [fairshare] of this configuration of Flux: a file, or a directory with *.toml files. --sweep takes precedence' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l threads -d 'How many scenarios run at once [default: as many as there are cores]' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l by -d 'How the second table groups jobs; with --csv, print this table instead of the scenarios' -r -f -a "bank\t'Banks'
size\t'Sizes, in cores'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l report -d 'Also write an HTML page with all results; the file is replaced atomically, and a link is refused' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l title -d 'The title of the page' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l whole-nodes -d 'Jobs get whole nodes'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s u -l user -d 'The jobs of these users, by name or number; "all" is every user' -r -f -a '(flux fairshare complete users -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s q -l queue -d 'The jobs in these queues' -r -f -a '(flux fairshare complete queues -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s b -l bank -d 'The jobs in these banks' -r -f -a '(flux fairshare complete banks -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s j -l jobs -d 'These jobs; ids may have any form that Flux accepts' -r -f -a '(flux fairshare complete jobs -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s o -l format -d 'Show these columns; names, or a format of sprio' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s S -l sort -d 'Sort by these columns; with a leading -, the largest first' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s A -l all -d 'The jobs of all users that you may see; the default for the instance owner'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l normalized -d 'Show factors without their weights'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s w -l weights -d 'Show the weights instead of jobs'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s l -l long -d 'Show more columns'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s b -l bank -d 'Show only the association in this bank' -r -f -a '(flux fairshare complete banks -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s A -l all -d 'Print one line per association of the site'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s l -l long -d 'Also show the siblings of each level'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -s d -l delay -d 'The time between two requests to the plugin, for example 5s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l once -d 'Print the page of banks once, as wide as the terminal, and exit; needs no terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l textfile -d 'Write to this file atomically; a link is replaced, not followed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l every -d 'With --textfile: keep running, and rewrite the file this often' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l listen -d 'Serve http://ADDRESS/metrics, like 127.0.0.1:9909; other machines reach only addresses that need --listen-any' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l window -d 'Compare the banks\' shares with their delivered usage over this time, or since the start of the command if that is shorter' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l most -d 'How many banks, and pairs of bank and queue, get labels of their own at most' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l listen-any -d 'With --listen: allow an address that other machines reach, which can then read the metrics without a password'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l users -d 'Also print metrics of each association, with its user\'s name'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s u -l user -d 'The associations of these users, by name or number' -r -f -a '(flux fairshare complete users -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s b -l bank -d 'The associations in these banks' -r -f -a '(flux fairshare complete banks -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check" -s u -l user -d 'The user that would submit the job, by name or number [default: yourself]' -r -f -a '(flux fairshare complete users -- (commandline -ct) 2>/dev/null)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check" -l json -d 'Print the answer as JSON'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l tree-format -d 'The format of the document, if its beginning does not show it' -r -f -a "database\t''
tree\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l usage-file -d 'Usages for a resource_group file, or for output of sacctmgr' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l policy -d 'The ranking policy: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l limit -d 'Show at most this many rows of each kind in the table, the largest differences first; 0 shows all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l stale -d 'Report data and usage older than this many hours' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l json -d 'Print a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand diff" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand config" -l json -d 'Print a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l uri -d 'The Flux instance; by default the enclosing instance or the system instance' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l to-upstream -d 'Park the jobs that would be lost: give them urgency 0, and print a script that restores the urgencies'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l all-held -d 'Park all held jobs that no other plugin blocks, because the end of a job can change which jobs would be lost'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l json -d 'Print a JSON document with full precision; a missing value is null, infinity is "inf"'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -s n -l no-header -d 'Print no header'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l no-pager -d 'Don\'t start a pager for output that is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -s h -l help -d 'Print help (see more with \'--help\')'

function __fish_flux_fairshare_below_flux
    set -l words (commandline -opc)
    set -l at (contains -i -- fairshare $words); or return
    set -e words[1..$at]
    complete -C (string join ' ' -- flux-fairshare (string escape -- $words) (commandline -ct))
end
complete -c flux -n '__fish_seen_subcommand_from fairshare' -f -a '(__fish_flux_fairshare_below_flux)'
