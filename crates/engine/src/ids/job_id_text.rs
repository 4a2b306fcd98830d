// SPDX-License-Identifier: LGPL-3.0-only
//! Parses and prints the forms in which Flux writes job ids.

use super::JobId;

/// The digits of F58, by value.
const F58: &str = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

impl JobId {
    /// Parses the decimal, hexadecimal, dotted, KVS or F58 form of a job id. Returns `None` for other texts, including
    /// Flux's forms in words and in emoji.
    pub fn parse(text: &str) -> Option<JobId> {
        let number = if let Some(digits) = text.strip_prefix("0x") {
            u64::from_str_radix(digits, 16).ok()
        } else if let Some(digits) = text.strip_prefix('ƒ').or_else(|| text.strip_prefix('f')) {
            parse_f58(digits)
        } else if text.contains('.') {
            parse_dotted_hex_job_id(text.strip_prefix("job.").unwrap_or(text))
        } else {
            text.parse().ok()
        };
        number.map(JobId)
    }
}

/// Returns a job id in F58 (RFC 19), as Flux prints it.
pub fn f58(id: u64) -> String {
    let digits: Vec<char> = F58.chars().collect();
    let mut letters = Vec::new();
    let mut remaining = id;
    loop {
        letters.extend(digits.get((remaining % 58) as usize));
        remaining /= 58;
        if remaining == 0 {
            break;
        }
    }
    std::iter::once('ƒ').chain(letters.into_iter().rev()).collect()
}

/// Returns `text` with each number after `job ` replaced by its F58 form.
pub fn replace_job_numbers_with_f58(text: &str) -> String {
    let mut output = String::with_capacity(text.len());
    let mut pieces = text.split("job ");
    output.extend(pieces.next());
    for piece in pieces {
        let digits = piece.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(piece.len());
        let (number, after) = piece.split_at(digits);
        output.push_str("job ");
        output.push_str(&number.parse().map_or_else(|_| number.to_owned(), f58));
        output.push_str(after);
    }
    output
}

fn parse_f58(digits: &str) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.chars().try_fold(0u64, |value, letter| {
        let digit = F58.chars().position(|other| other == letter)?;
        value.checked_mul(58)?.checked_add(digit as u64)
    })
}

/// Parses four groups of four hexadecimal digits. Returns `None` for any other text.
fn parse_dotted_hex_job_id(text: &str) -> Option<u64> {
    let mut groups = 0;
    let value = text.split('.').try_fold(0u64, |value, group| {
        groups += 1;
        let bits = u64::from_str_radix(group, 16).ok().filter(|_| group.len() == 4)?;
        Some(value << 16 | bits)
    });
    value.filter(|_| groups == 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_printed_in_f58() {
        assert_eq!(f58(0), "ƒ1");
        for id in [183_387_553_792, 57, 58, u64::MAX] {
            assert_eq!(JobId::parse(&f58(id)), Some(JobId(id)));
        }
        assert_eq!(f58(183_387_553_792), "ƒ5pQL9cj");
    }

    #[test]
    fn ids_in_a_text_are_printed_in_f58() {
        for (text, printed) in [
            ("job 183387553792: failed; after job 57", "job ƒ5pQL9cj: failed; after job ƒz"),
            ("a job of 4", "a job of 4"),
            ("", ""),
        ] {
            assert_eq!(replace_job_numbers_with_f58(text), printed);
        }
    }

    #[test]
    fn each_form_of_an_id_is_parsed() {
        for text in [
            "183387553792",
            "0x2ab2c00000",
            "ƒ5pQL9cj",
            "f5pQL9cj",
            "0000.002a.b2c0.0000",
            "job.0000.002a.b2c0.0000",
        ] {
            assert_eq!(JobId::parse(text), Some(JobId(183_387_553_792)), "{text}");
        }
        for text in [
            "",
            "f",
            "ƒ",
            "ƒ0",
            "0x",
            "-1",
            "1.2",
            "job.1",
            "0000.0000.0000",
            "ƒzzzzzzzzzzzzz",
            "academy-cobra--x",
        ] {
            assert_eq!(JobId::parse(text), None, "{text}");
        }
    }
}
