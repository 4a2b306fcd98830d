// SPDX-License-Identifier: LGPL-3.0-only
//! Completion of `flux fairshare`. Shells complete the command `flux`, so each script hooks into the completion of `flux`, handles
//! `fairshare`, and passes all other commands on.

/// The kinds of names for which the scripts run `flux fairshare complete`.
pub(super) const NAMES: [&str; 5] = ["users", "banks", "queues", "jobs", "subjects"];

/// Returns the placeholder for the names of `kind`. clap_complete writes only fixed values, so the caller
/// replaces the placeholder in the finished script.
pub(super) fn placeholder(kind: &str) -> String {
    format!("__{kind}__")
}

/// Returns a bash expression that expands to the names of `kind`. The expression stands inside a double-quoted list
/// of words.
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

/// bash-completion loads Flux's own script on first use, and Flux's script then registers itself for `flux`. Flux's
/// script does not complete our commands, so our hook must register itself again.
pub(super) const BASH: &str = concat!("\n", include_str!("below-flux.bash"));

/// The first line of the zsh script, and its replacement, which also registers the script for `flux`.
pub(super) const ZSH_HEAD: (&str, &str) = ("#compdef flux-fairshare\n", "#compdef flux-fairshare flux\n");

/// Flux has no zsh completion. If another completion is registered for `flux`, the hook calls that completion. zsh loads a script in
/// `fpath` at the first completion, so the script must also handle the first completion.
pub(super) const ZSH: &str = concat!("\n", include_str!("below-flux.zsh"));

/// The line of the zsh script that handles the first completion, and its replacement, which also handles `flux`.
pub(super) const ZSH_TAIL: (&str, &str) = (
    "    _flux-fairshare \"$@\"\nelse",
    "    if [[ $service == flux ]]; then _flux-fairshare_below_flux \"$@\"; else _flux-fairshare \"$@\"; fi\nelse",
);

/// Makes fish complete `flux fairshare` like `flux-fairshare`.
pub(super) const FISH: &str = concat!("\n", include_str!("below-flux.fish"));
