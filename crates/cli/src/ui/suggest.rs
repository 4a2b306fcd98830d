// SPDX-License-Identifier: LGPL-3.0-only
//! What was probably meant: names near the one that was typed.

/// How alike two names must be, from 0 to 1; clap takes the same for its own suggestions. Two letters the other way round
/// make a short name less alike than that.
const ALIKE: f64 = 0.7;

/// `; did you mean "..."?` after a name that is not known, or nothing where none of the known is near.
pub(crate) fn did_you_mean<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    match nearest(typed, known) {
        Some(name) => format!("; did you mean \"{name}\"?"),
        None => String::new(),
    }
}

/// The known name that is most like the one typed, in any case of letters.
pub(crate) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    // Names differ by one letter at most per so many; comparing a site's whole list need not look at the others.
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
    use super::{did_you_mean, nearest};

    #[test]
    fn a_slip_of_the_finger_is_found_and_a_stranger_is_not() {
        let known = ["weighted-walk", "fair-tree", "classic", "depth-oblivious", "pbs"];
        for (typed, meant) in [("clasic", "classic"), ("fair-three", "fair-tree"), ("PSB", "pbs")] {
            assert_eq!(nearest(typed, known), Some(meant));
        }
        assert_eq!(did_you_mean("clasic", known), "; did you mean \"classic\"?");
        assert_eq!(nearest("bbo", ["eve", "bob"]), Some("bob"));
        assert_eq!(did_you_mean("xyzzy", known), "");
        assert_eq!(did_you_mean("alise", ["bob", "alice", "alicia"]), "; did you mean \"alice\"?");
    }
}
