_flux_fairshare_below_flux() {
    local at
    for ((at = 1; at < COMP_CWORD; ++at)); do
        [[ ${COMP_WORDS[at]} == -* ]] && continue
        [[ ${COMP_WORDS[at]} == fairshare ]] || break
        COMP_WORDS=(flux-fairshare "${COMP_WORDS[@]:at+1}")
        COMP_CWORD=$((COMP_CWORD - at))
        [[ "${BASH_VERSINFO[0]}" -ge 4 ]] && compopt -o bashdefault -o default 2>/dev/null
        _flux__fairshare flux-fairshare "$2" "$3"
        return
    done
    if ! declare -F _flux_core >/dev/null; then
        if declare -F _comp_load >/dev/null; then
            _comp_load flux 2>/dev/null
        elif declare -F __load_completion >/dev/null; then
            __load_completion flux 2>/dev/null
        fi
        complete -F _flux_fairshare_below_flux flux
    fi
    declare -F _flux_core >/dev/null && _flux_core "$@"
}
complete -F _flux_fairshare_below_flux flux
