_flux-fairshare_below_flux() {
    local -i at
    for ((at = 2; at < CURRENT; ++at)); do
        [[ ${words[at]} == -* ]] && continue
        [[ ${words[at]} == fairshare ]] || break
        words=(flux-fairshare ${words[at+1,-1]})
        ((CURRENT -= at - 1))
        service=flux-fairshare _flux-fairshare
        return
    done
    if [[ -n $_flux_fairshare_next ]]; then
        $_flux_fairshare_next "$@"
    else
        _default
    fi
}
if [[ ${_comps[flux]:-} != _flux-fairshare_below_flux ]]; then
    typeset -g _flux_fairshare_next=${${_comps[flux]:-}#_flux-fairshare}
    compdef _flux-fairshare_below_flux flux
fi
