function __fish_flux_fairshare_below_flux
    set -l words (commandline -opc)
    set -l at (contains -i -- fairshare $words); or return
    set -e words[1..$at]
    complete -C (string join ' ' -- flux-fairshare (string escape -- $words) (commandline -ct))
end
complete -c flux -n '__fish_seen_subcommand_from fairshare' -f -a '(__fish_flux_fairshare_below_flux)'
