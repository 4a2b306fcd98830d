// SPDX-License-Identifier: LGPL-3.0-only
//! Suggests a known name that is similar to the typed name.

/// The least similarity of a suggestion, from 0 to 1, as in clap. A name with a single typing error is suggested even if it is
/// less similar.
const ALIKE: f64 = 0.7;

/// Returns `; did you mean "..."?`, or an empty text if no known name is similar.
pub(crate) fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match find_nearest(typed, known) {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None => String::new(),
    }
}

/// Returns the name in `known` that is most similar to `typed`, or `None` if no name is similar enough. The case is ignored.
pub(crate) fn find_nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    // Names of very different lengths can't be similar. Skipping them keeps the search in a site's whole list of users fast.
    let slack = typed.chars().count() / 2 + 1;
    let mut best: Option<(f64, &str)> = None;
    for name in known {
        if name.len().abs_diff(typed.len()) > slack {
            continue;
        }
        let lower = name.to_lowercase();
        let is_slip = || typed.len() > 2 && strsim::osa_distance(&typed, &lower) == 1;
        let alike = strsim::jaro_winkler(&typed, &lower);
        let alike = if alike <= ALIKE && is_slip() { ALIKE.next_up() } else { alike };
        if alike > ALIKE && best.is_none_or(|(most, _)| alike > most) {
            best = Some((alike, name));
        }
    }
    best.map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::{did_you_mean, find_nearest};

    #[test]
    fn a_misspelled_name_finds_the_nearest_name_and_an_unknown_word_finds_none() {
        let known = ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"];
        for (typed, meant) in [("clasic", "classic"), ("fair-three", "fair-tree"), ("PSB", "pbs")] {
            assert_eq!(find_nearest(typed, known), Some(meant));
        }
        assert_eq!(did_you_mean("clasic", known), "; did you mean \"classic\"?");
        assert_eq!(find_nearest("bbo", ["eve", "bob"]), Some("bob"));
        assert_eq!(did_you_mean("xyzzy", known), "");
        assert_eq!(did_you_mean("alise", ["bob", "alice", "alicia"]), "; did you mean \"alice\"?");
    }
}
