// SPDX-License-Identifier: LGPL-3.0-only
//! Completion of `flux fairshare`. Shells complete the command `flux`, so each script hooks into the completion of `flux`, handles
//! `fairshare`, and passes all other commands on.

/// The kinds of names for which the scripts run `flux fairshare complete`.
pub(super) const NAMES: [&str; 5] = ["users", "banks", "queues", "jobs", "subjects"];

/// Returns the value that stands for the names of a kind until the script is complete. clap_complete writes only fixed values.
pub(super) fn placeholder(kind: &str) -> String {
    format!("__{kind}__")
}

/// Returns the expansion to the names of `kind`, for a list of words in double quotes of bash.
pub(super) fn bash_names(kind: &str) -> String {
    format!(r#"$(flux fairshare complete {kind} -- "${{cur}}" 2>/dev/null)"#)
}

/// Returns the action of zsh that offers the names of `kind`.
pub(super) fn zsh_names(kind: &str) -> String {
    format!(r#"{{compadd -- ${{(f)"$(flux fairshare complete {kind} -- "$PREFIX" 2>/dev/null)"}}}}"#)
}

/// Returns the argument of fish's `complete -a` that offers the names of `kind`.
pub(super) fn fish_names(kind: &str) -> String {
    format!("'(flux fairshare complete {kind} -- (commandline -ct) 2>/dev/null)'")
}

/// Flux's own script does not complete unknown commands. bash-completion loads that script on first use, and the script then
/// registers itself, so the hook registers again.
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

/// The first line of the zsh script, and its replacement, which also registers the script for `flux`.
pub(super) const ZSH_HEAD: (&str, &str) = ("#compdef flux-fairshare\n", "#compdef flux-fairshare flux\n");

/// Flux has no zsh completion. If another completion is registered for `flux`, the hook calls that completion. zsh loads a script in
/// `fpath` at the first completion, so the script must also handle the first completion.
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

/// The line of the zsh script that handles the first completion, and its replacement, which also handles `flux`.
pub(super) const ZSH_TAIL: (&str, &str) = (
    "    _flux-fairshare \"$@\"\nelse",
    "    if [[ $service == flux ]]; then _flux-fairshare_below_flux \"$@\"; else _flux-fairshare \"$@\"; fi\nelse",
);

/// Makes fish complete `flux fairshare` like `flux-fairshare`.
pub(super) const FISH: &str = r#"
function __fish_flux_fairshare_below_flux
    set -l words (commandline -opc)
    set -l at (contains -i -- fairshare $words); or return
    set -e words[1..$at]
    complete -C (string join ' ' -- flux-fairshare (string escape -- $words) (commandline -ct))
end
complete -c flux -n '__fish_seen_subcommand_from fairshare' -f -a '(__fish_flux_fairshare_below_flux)'
"#;
