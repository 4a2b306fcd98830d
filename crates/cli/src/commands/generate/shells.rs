// SPDX-License-Identifier: LGPL-3.0-only
//! Completion of `flux fairshare` in shells, where what is completed is the command `flux`: each script gets a hook into
//! the completion of `flux` that answers below `fairshare` and passes everything else on.

/// Flux's own script offers nothing below a command that it does not know. It is loaded when it is first needed, as the
/// package bash-completion does, and would then register itself: the hook takes its place again.
pub(super) const BASH: &str = r#"
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
"#;

/// How the script for zsh begins, and how it does so that `flux`, too, finds it.
pub(super) const ZSH_HEAD: (&str, &str) = ("#compdef flux-fairshare\n", "#compdef flux-fairshare flux\n");

/// Flux has no completion for zsh of its own; if somebody else's is there, it goes on answering. Found through `fpath`, the
/// script is read at the first completion and has to answer that as well.
pub(super) const ZSH: &str = r#"
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
"#;

/// The line of the script for zsh that answers the first completion, and how it does so for `flux`.
pub(super) const ZSH_TAIL: (&str, &str) = (
    "    _flux-fairshare \"$@\"\nelse",
    "    if [[ $service == flux ]]; then _flux-fairshare_below_flux \"$@\"; else _flux-fairshare \"$@\"; fi\nelse",
);

/// What fish would offer for `flux-fairshare`, it offers below `flux fairshare`.
pub(super) const FISH: &str = r#"
function __fish_flux_fairshare_below_flux
    set -l words (commandline -opc)
    set -l at (contains -i -- fairshare $words); or return
    set -e words[1..$at]
    complete -C (string join ' ' -- flux-fairshare (string escape -- $words) (commandline -ct))
end
complete -c flux -n '__fish_seen_subcommand_from fairshare' -f -a '(__fish_flux_fairshare_below_flux)'
"#;
