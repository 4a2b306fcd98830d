// SPDX-License-Identifier: LGPL-3.0-only
//! Escapes texts that users chose, so that they can't control a terminal, and measures texts in cells.

use std::borrow::Cow;

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Escapes the characters that a terminal acts upon or does not show, as in a string literal.
pub(crate) fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unsafe_character) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        match letter {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            _ if letter.is_ascii_control() => shown.push_str(&format!("\\x{:02x}", u32::from(letter))),
            _ if is_unsafe_character(letter) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(letter))),
            _ => shown.push(letter),
        }
    }
    Cow::Owned(shown)
}

/// Escapes the characters of a JSON document on which a terminal would act. The escapes do not change the value of the document.
/// The serializer already escapes all ASCII control characters except DEL, and its line breaks must remain.
pub(crate) fn printable_json(document: &str) -> Cow<'_, str> {
    let must_escape = |letter: char| letter >= '\x7f' && is_unsafe_character(letter);
    if !document.contains(must_escape) {
        return Cow::Borrowed(document);
    }
    let mut shown = String::with_capacity(document.len() + 8);
    for letter in document.chars() {
        if must_escape(letter) {
            shown.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            shown.push(letter);
        }
    }
    Cow::Owned(shown)
}

/// Returns true for control characters, line separators, and marks that change the direction of writing.
fn is_unsafe_character(letter: char) -> bool {
    letter.is_control()
        || matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns the number of terminal cells that `text` takes.
pub(crate) fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.width() }
}

/// Cuts a text to at most `cells` cells. The ellipsis is its last cell. Colour codes take no cells and are kept.
pub(crate) fn cut(text: &str, cells: usize, ellipsis: &str) -> String {
    let room = cells.saturating_sub(width(ellipsis));
    let (mut shown, mut taken, mut full, mut code) = (String::new(), 0, false, false);
    for letter in text.chars() {
        if code || letter == '\x1b' {
            code = letter != 'm';
            shown.push(letter);
            continue;
        }
        let wide = letter.width().unwrap_or(0);
        if !full && taken + wide > room {
            full = true;
            shown.push_str(ellipsis);
        }
        if !full {
            taken += wide;
            shown.push(letter);
        }
    }
    shown
}

/// Formats a count with its noun: `1 level`, `2 levels`, `1,000 levels`.
pub(crate) fn count(number: impl ToString, noun: &str) -> String {
    let number = super::figures::number(number);
    format!("{number} {noun}{}", if number == "1" { "" } else { "s" })
}

/// Capitalizes the first letter of a text.
pub(crate) fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Capitalizes a text and adds a period.
pub(crate) fn sentence(text: &str) -> String {
    let text = capitalize(text);
    if text.ends_with('.') { text } else { text + "." }
}

/// Joins words for a sentence: `a, b and c`.
pub(crate) fn join_words(words: &[&str]) -> String {
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => words.concat(),
    }
}

#[cfg(test)]
mod tests {
    use super::{count, cut, is_unsafe_character, printable, printable_json, width};
    use serde_json::{Value, json};

    #[test]
    fn control_characters_are_escaped() {
        let rows = [
            ("plain", "plain"),
            ("日本", "日本"),
            ("a\x1b[31mb", "a\\x1b[31mb"),
            ("a\nb\r\tc\0\x7f", "a\\nb\\r\\tc\\x00\\x7f"),
            ("\u{9b}31m", "\\u{9b}31m"),
            ("a\u{202e}b", "a\\u{202e}b"),
            ("a\u{61c}b", "a\\u{61c}b"),
        ];
        for (text, expected) in rows {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn a_json_document_with_escaped_characters_has_the_same_value() {
        let text = "x\u{7f}\u{9b}2J\u{61c}\u{200f}\u{202e}\u{2028}\u{2069}\x1b日本\n\"";
        for document in [json!({text: [text, 1]}), json!({"plain": "日本"})] {
            let written = serde_json::to_string_pretty(&document).expect("JSON");
            let shown = printable_json(&written);
            assert!(!shown.replace('\n', "").contains(is_unsafe_character), "{shown}");
            assert_eq!(serde_json::from_str::<Value>(&shown).expect("JSON"), document);
        }
        assert_eq!(printable_json("\"\u{9b}\""), "\"\\u009b\"");
    }

    #[test]
    fn widths_count_terminal_cells() {
        assert_eq!([width("abc"), width("日本"), width("e\u{301}")], [3, 4, 1]);
        assert_eq!(
            [cut("abcdef", 4, "…"), cut("日本語", 5, "…"), cut("abcdef", 4, "..")],
            ["abc…", "日本…", "ab.."]
        );
        assert_eq!(cut("\x1b[1mabcdef\x1b[0m", 4, "…"), "\x1b[1mabc…\x1b[0m");
        assert_eq!([count(1, "level"), count(2, "level")], ["1 level", "2 levels"]);
    }
}
