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
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "policy" -d 'Show or choose the policy of the site: the rule that makes fair-shares, and its options'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "limit" -d 'Show, set or take back limits on GPUs, whole banks, and users over all their banks'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "push" -d 'Send the database to the priority plugin'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "sync" -d 'Fetch ended jobs, count usage, rank, and push, as one'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "recount" -d 'Count all usage anew from the records, and show where the stored usage differs'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "usage" -d 'Show who used how much: node, core and GPU hours out of the records of ended jobs'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "scrub" -d 'Remove the records of jobs that ended long ago'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "compare" -d 'Compare policies on the same tree: who gains, who loses, how much the orders differ'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "report" -d 'Write a report of the site: one page of HTML that needs nothing else, to look at in a browser'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "why" -d 'Explain why a job waits, or a user\'s or a bank\'s fair-share, or why one is ahead of another, in words and numbers'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "what-if" -d 'Show who would move if something were different; nothing is changed'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "simulate" -d 'Replay a job history under other policies, weights, half-lives, limits and refresh intervals'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "jobs" -d 'Show the priorities of pending jobs and the terms that they are made of'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "standing" -d 'Show where you stand, your limits and how much of them is used'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "top" -d 'Watch banks, standings, pending and held jobs on the whole screen'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "metrics" -d 'Print metrics of the whole instance as OpenMetrics text, once, into a file, or over HTTP'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "status" -d 'Show the state of the priority plugin that is loaded: its data, jobs held by each limit, a recount'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "check-import" -d 'Compare the values in a document with ours: how many agree, and which do not'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "doctor" -d 'Look the database and the plugin over for what goes wrong quietly, and say what to do about each'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "config" -d 'Check Flux\'s configuration files before Flux reads them'
complete -c flux-fairshare -n "__fish_flux_fairshare_needs_command" -f -a "migrate" -d 'Before going back to flux-accounting\'s plugin: which held jobs it would lose, and how it loses none'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l usage -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s u -l user -d 'Only these users, with the banks above them' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s b -l bank -d 'Only these banks and what is below them, with the banks above' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s d -l depth -d 'Only this many levels below the root' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s s -l sort -d 'Order of siblings: name, list (as the input has them), pbs-walk (as PBS\'s scheduler compares them) or a column; larger numbers first, with a leading - last' -r -f -a "name\t'bank or user, indented by depth'
kind\t'bank or association'
bank\t'the bank, or the association\'s bank'
parent\t'the bank above'
user\t'the user'
shares\t'raw shares, or "parent"'
norm_shares\t'shares as a part of the whole (of siblings\' shares under rank policies)'
usage\t'usage; node-hours in tables, where it is known to be of nodes'
norm_usage\t'usage as a part of the site\'s'
effective_usage\t'the usage the policy compares with the shares'
level_fs\t'norm shares / effective usage among siblings'
weight\t'what weighted-walk sorts siblings by'
place\t'1 for who goes first; who is tied shares one'
fairshare\t'0 to 1, larger is more deserving'
fairshare_perc\t'pbs: the target'
fairshare_tree_usage\t'pbs: the effective usage'
fairshare_factor\t'pbs: 2^-(tree usage / target)'
usage_over_perc\t'pbs: what its scheduler compares without a formula'
walk\t'pbs: the place in its scheduler\'s own order'
stored\t'the fair-share in the database, which the plugin uses until the next update'
served\t'under-served, over-served, even, or has no (own) shares'
active\t'whether the association may be ranked'
depth\t'levels below the root'
bar\t'effective usage drawn against norm shares (table only)'
list\t'as the input has them'
pbs-walk\t'as PBS\'s scheduler compares them'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s o -l columns -d 'Columns by name or title, separated by commas; --help lists them' -r -f -a "name\t'bank or user, indented by depth'
kind\t'bank or association'
bank\t'the bank, or the association\'s bank'
parent\t'the bank above'
user\t'the user'
shares\t'raw shares, or "parent"'
norm_shares\t'shares as a part of the whole (of siblings\' shares under rank policies)'
usage\t'usage; node-hours in tables, where it is known to be of nodes'
norm_usage\t'usage as a part of the site\'s'
effective_usage\t'the usage the policy compares with the shares'
level_fs\t'norm shares / effective usage among siblings'
weight\t'what weighted-walk sorts siblings by'
place\t'1 for who goes first; who is tied shares one'
fairshare\t'0 to 1, larger is more deserving'
fairshare_perc\t'pbs: the target'
fairshare_tree_usage\t'pbs: the effective usage'
fairshare_factor\t'pbs: 2^-(tree usage / target)'
usage_over_perc\t'pbs: what its scheduler compares without a formula'
walk\t'pbs: the place in its scheduler\'s own order'
stored\t'the fair-share in the database, which the plugin uses until the next update'
served\t'under-served, over-served, even, or has no (own) shares'
active\t'whether the association may be ranked'
depth\t'levels below the root'
bar\t'effective usage drawn against norm shares (table only)'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s U -l users-only -d 'Only users, no banks, as sshare has it'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s a -l all -d 'Everybody, which is so anyway: sshare needs to be told'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s l -l long -d 'More columns; says who is under-served and who over-served'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s n -l no-header -d 'No line of titles'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand show" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l limit -d 'With --dry-run: show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s n -l dry-run -d 'Write nothing; show whose fair-share would change'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s v -l verbose -d 'Say what was done, also when not on a terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand update" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l unset -d 'Options that go back to their defaults' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l reset -d 'All options go back to their defaults'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand policy" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l queue -d 'Only of jobs in this queue' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l given -d 'Count what running jobs were given, not what they asked for'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand limit" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s n -l dry-run -d 'Change nothing; say what would be sent, and what the plugin would do'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s v -l verbose -d 'Say what was sent'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -l json -d 'The same as JSON; what changed, or would, is null if the plugin does not tell'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand push" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s c -l copy -d 'Also take the jobs of a job archive, as flux-core wrote it before 0.40' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l only -d 'Do only this; may be given several times' -r -f -a "fetch\t'Bring records of ended jobs into the database'
usage\t'Count usage'
fairshare\t'Compute fair-shares'
push\t'Send the database to the plugin'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l watch -d 'Stay, and do it when jobs ended or the database changed' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l usage-rule -d 'The rule that makes usage of jobs: exact or flux-accounting' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l now -d 'The time it is, in seconds since the epoch; for tests and recounts' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l limit -d 'With --dry-run: show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s n -l dry-run -d 'Store and send nothing; show what would change'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s v -l verbose -d 'Say what was done, also when not on a terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand sync" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l now -d 'The time it is, in seconds since the epoch' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l limit -d 'Show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s w -l write -d 'Store the recounted usage'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand recount" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l since -d 'From when on: 2026-11-21, 2026-11-21T13:00, seconds since the epoch, or how long ago (90m, 12h, 7d, 4w)' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l until -d 'Up to when' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l by -d 'What to add up by' -r -f -a "association\t''
user\t''
bank\t''
project\t''
day\t''
period\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s u -l user -d 'Only this user; may be given several times' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s b -l bank -d 'Only this bank and those below it; may be given several times' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l limit -d 'Show this many in the table, 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l whole -d 'Count a job whole where it ended'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand usage" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -l now -d 'The time it is, in seconds since the epoch' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -s n -l dry-run -d 'Remove nothing; say what would be'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand scrub" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l usage -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l policies -d 'The policies, the present one first; all unless given' -r -f -a "weighted-walk\,fair-tree\t''
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
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l limit -d 'In the table, show this many winners and as many losers, or of several policies whom they differ most on; 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand compare" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l usage -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l half-life -d 'How fast usage is forgotten, like 7d, where the tree does not say; a database does' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s o -l output -d 'The file, which is replaced as a whole; - is standard output. A link is refused' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l title -d 'What the page is called' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l json -d 'The data alone, as a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -l no-jobs -d 'Do not ask the plugin which jobs are held'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand report" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l usage -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l half-life -d 'How fast usage is forgotten, like 7d, where the tree does not say; a database does' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s l -l long -d 'Show every level of a very deep tree'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l json -d 'Print a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand why" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l shares -d 'Other shares of a bank, or of a user with /BANK if in several' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l usage -d 'More, less or another usage of a user: alice+=5000nh, alice-=20%, alice/chem=0' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l add-user -d 'A new user, with one share unless said, who has used nothing' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l in -d 'After so much time, like 7d, 36h or "2 weeks"' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l idle -d 'With --in: who runs nothing meanwhile, a user or a bank; of one user the way there is shown' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l half-life -d 'With --in: how fast usage is forgotten, like 7d, where the tree does not say; a database does' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l limit -d 'In the table, show this many winners and as many losers; 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l usages -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand what-if" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l trace -d 'The history: an accounting database, or a trace in the Standard Workload Format, which may be compressed (.gz)' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l usage -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l nodes -d 'Nodes of the cluster, unless the trace tells' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l cores-per-node -d 'Cores of each node, unless the trace tells' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l scheduler -d 'Who starts: fcfs, in the order of priority alone; easy, also whoever delays the first by nothing' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l backfill-depth -d 'With easy: so many pending jobs behind the first are looked at' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l policy -d 'A rule that makes fair-shares; may be given several times [default: the site\'s]' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l sweep -d 'Another rule, or several to try; of several such options all combinations are tried' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l threads -d 'How many scenarios run at once [default: as many as there are cores]' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l by -d 'What the second table shows; with --csv, print this in place of the scenarios' -r -f -a "bank\t'Banks'
size\t'Sizes, in cores'"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l report -d 'Write also a page of HTML that shows all of it in a browser; the file is replaced as a whole, and a link is refused' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l title -d 'What the page is called' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l whole-nodes -d 'Jobs get whole nodes'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand simulate" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s u -l user -d 'The jobs of these users, by name or number; "all" is everybody' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s q -l queue -d 'The jobs in these queues' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s b -l bank -d 'The jobs that count in these banks' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s j -l jobs -d 'These jobs, in any form in which Flux writes their ids' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s o -l format -d 'These columns, or one of sprio\'s formats' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s S -l sort -d 'Sort by columns; with a - before it, the largest first' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s A -l all -d 'Everybody\'s jobs, as far as the caller may see them; the instance owner needs no -A'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s n -l normalized -d 'The factors as they are, before they are weighed'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s w -l weights -d 'The weights in place of jobs'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s l -l long -d 'More columns'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l noheader -d 'No line of titles'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand jobs" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s b -l bank -d 'Only the association in this bank' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s A -l all -d 'A line for each association of the site'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s l -l long -d 'Also the siblings of each level'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand standing" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -s d -l delay -d 'Ask the plugin this often, like 5s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand top" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l textfile -d 'Write to this file, at once and as a whole; a link is replaced, not followed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l every -d 'With --textfile: go on, and write it anew this often' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l listen -d 'Serve http://ADDRESS/metrics; the address is one of this machine alone, like 127.0.0.1:9909' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l window -d 'Over how long promised and delivered shares are compared, as far as the command has been running' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l most -d 'Most banks, and pairs of bank and queue, that get labels of their own' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -l users -d 'Also metrics of each association, under its user\'s name'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand metrics" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s u -l user -d 'The associations of these users, by name or number' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s b -l bank -d 'The associations in these banks' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand status" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s t -l tree -d 'A tree from a document instead of the database; - is standard input' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l format -d 'What the document is, where it can\'t be told from its beginning' -r -f -a "database\t''
tree\t''
export-db\t''
csv\t''
resource-group\t''
pbsfs\t''
sshare\t''
sshare-json\t''
sacctmgr-dump\t''
sacctmgr-assoc\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l usage -d 'Usages that go with a resource_group file or with what sacctmgr printed' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l unknown-shares -d 'Shares of PBS\'s group "unknown", as unknown_shares in sched_config' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l policy -d 'The rule that makes fair-shares: weighted-walk, fair-tree, classic, depth-oblivious or pbs' -r -f -a "weighted-walk\t''
fair-tree\t''
classic\t''
depth-oblivious\t''
pbs\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l set -d 'Options of the policy' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l limit -d 'In the table, show this many of those that differ, the worst first; 0 is all' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand check-import" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -s p -l path -d 'The accounting database [default: flux-accounting\'s own]' -r -F
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l wait -d 'How long to wait for a locked database' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l stale -d 'Data and usage are old after so many hours' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -l json -d 'Print a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand doctor" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand config" -l json -d 'Print a JSON document'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand config" -s h -l help -d 'Print help (see more with \'--help\')'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l uri -d 'The Flux instance; otherwise the enclosing or the system\'s' -r -f
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l color -d 'Colours: on a terminal, always, or never' -r -f -a "auto\t''
always\t''
never\t''"
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l to-upstream -d 'Have those that would be lost rest at urgency 0, and print what lets them go again'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l all -d 'All held jobs that nobody else keeps: so it does not matter which jobs end before the other plugin is loaded'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l json -d 'Print a JSON document: full precision, null for what is absent, "inf" for infinity'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l csv -d 'Print comma-separated values (RFC 4180)'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -s P -l parsable -d 'Print values separated by |; a value with a | in it is quoted as in CSV'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -l no-pager -d 'Don\'t start a pager for what is longer than the terminal'
complete -c flux-fairshare -n "__fish_flux_fairshare_using_subcommand migrate" -s h -l help -d 'Print help (see more with \'--help\')'

function __fish_flux_fairshare_below_flux
    set -l words (commandline -opc)
    set -l at (contains -i -- fairshare $words); or return
    set -e words[1..$at]
    complete -C (string join ' ' -- flux-fairshare (string escape -- $words) (commandline -ct))
end
complete -c flux -n '__fish_seen_subcommand_from fairshare' -f -a '(__fish_flux_fairshare_below_flux)'
