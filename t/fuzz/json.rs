// SPDX-License-Identifier: LGPL-3.0-only
//! Mutates the structure of JSON. Any value may get another type or exceed its range, and keys may be missing, repeated or unknown.

use serde_json::{Map, Value, json};

use super::drive::{Rng, mutate_bytes};

fn unusual_value(rng: &mut Rng) -> Value {
    match rng.below(24) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(0),
        3 => json!(-1),
        4 => json!(i64::MAX),
        5 => json!(i64::MIN),
        6 => json!(u64::MAX),
        7 => json!(2_147_483_647),
        8 => json!(4_294_967_296_u64),
        9 => json!(0.5),
        10 => json!(1e308),
        11 => json!(-0.0),
        12 => json!(5e-324),
        13 => json!(""),
        14 => json!("%s%n%d\u{1b}[31m\n\"\\'; DROP TABLE bank_table; --<script>\u{202e}"),
        15 => json!("x".repeat(1 + rng.below(5000))),
        16 => json!([]),
        17 => json!({}),
        18 => json!([[], {}, null]),
        19 => json!("0-4294967295"),
        20 => json!("0,0,1-0,[3-5]"),
        21 => json!("5001"),
        22 => json!(rng.next() as i64),
        _ => (0..rng.below(200)).fold(json!(1), |inner, _| json!([inner])),
    }
}

/// Returns the number of values in `value`, itself included.
fn count_values(value: &Value) -> usize {
    1 + match value {
        Value::Array(list) => list.iter().map(count_values).sum(),
        Value::Object(map) => map.values().map(count_values).sum(),
        _ => 0,
    }
}

/// Visits `value` and all values inside it, depth-first, and returns the value with index `place`. Returns `None` if there are fewer
/// values. Subtracts 1 from `place` for each value before the returned value.
fn find_value<'a>(value: &'a mut Value, place: &mut usize) -> Option<&'a mut Value> {
    if *place == 0 {
        return Some(value);
    }
    *place -= 1;
    match value {
        Value::Array(list) => list.iter_mut().find_map(|value| find_value(value, place)),
        Value::Object(map) => map.values_mut().find_map(|value| find_value(value, place)),
        _ => None,
    }
}

fn pick_value<'a>(rng: &mut Rng, value: &'a mut Value) -> &'a mut Value {
    let mut place = rng.below(count_values(value));
    // Search a copy first: after a failed search in `value` itself, the compiler would treat `value` as borrowed.
    let found = find_value(&mut value.clone(), &mut place.clone()).is_some();
    if found { find_value(value, &mut place).unwrap() } else { value }
}

fn change_map(rng: &mut Rng, map: &mut Map<String, Value>, other: &mut Value) {
    let keys: Vec<String> = map.keys().cloned().collect();
    match rng.below(4) {
        0 if !keys.is_empty() => drop(map.remove(rng.pick(&keys))),
        1 if !keys.is_empty() => {
            let value = map.remove(rng.pick(&keys)).unwrap_or_default();
            map.insert(rng.pick(&["", "data", "dry_run", "%s\n", "push", "config"]).to_string(), value);
        }
        2 => {
            if let Value::Object(more) = pick_value(rng, other) {
                map.extend(more.clone());
            }
        }
        _ => drop(
            map.insert(rng.pick(&["", "id", "tree", "limits", "expires"]).to_string(), unusual_value(rng)),
        ),
    }
}

fn mutate_json_list(rng: &mut Rng, list: &mut Vec<Value>, other: &mut Value) {
    match rng.below(5) {
        0 if !list.is_empty() => drop(list.remove(rng.below(list.len()))),
        1 if !list.is_empty() && list.len() < 2000 => {
            let repeated = list[rng.below(list.len())].clone();
            list.insert(rng.below(list.len() + 1), repeated);
        }
        2 if list.len() > 1 => {
            let (one, two) = (rng.below(list.len()), rng.below(list.len()));
            list.swap(one, two);
        }
        3 => list.push(pick_value(rng, other).clone()),
        _ => list.push(unusual_value(rng)),
    }
}

fn mutate_one_character(rng: &mut Rng, text: &mut String) {
    let mut letters: Vec<char> = text.chars().collect();
    let place = rng.below(letters.len() + 1);
    let special =
        ['\n', '\u{1b}', '"', '\\', ',', '-', '[', ':', '.', '\u{0}', '\u{9b}', '%', ' ', '9', 'A', '\u{e9}'];
    match rng.below(3) {
        0 => letters.insert(place, *rng.pick(&special)),
        1 if place < letters.len() => drop(letters.remove(place)),
        _ if place < letters.len() => letters[place] = *rng.pick(&special),
        _ => letters.push(*rng.pick(&special)),
    }
    *text = letters.into_iter().collect();
}

/// Returns the JSON document `input` with one change, which may insert a value of `other`. If `input` is not JSON, changes its bytes.
pub fn mutate_document(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let Ok(mut value) = serde_json::from_slice::<Value>(input) else {
        return mutate_bytes(rng, input, other);
    };
    if rng.happens_once_in(12) {
        return mutate_bytes(rng, input, other);
    }
    let mut other = serde_json::from_slice::<Value>(other).unwrap_or_default();
    let place = pick_value(rng, &mut value);
    match place {
        _ if rng.happens_once_in(4) => *place = unusual_value(rng),
        _ if rng.happens_once_in(8) => *place = pick_value(rng, &mut other).clone(),
        Value::Object(map) => change_map(rng, map, &mut other),
        Value::Array(list) => mutate_json_list(rng, list, &mut other),
        Value::String(text) => mutate_one_character(rng, text),
        Value::Number(number) => {
            let old = number.as_i64().unwrap_or(0);
            let new =
                [old.wrapping_add(1), old.wrapping_sub(1), old.wrapping_mul(2), old.wrapping_neg(), old ^ 1];
            *place = json!(*rng.pick(&new));
        }
        _ => *place = unusual_value(rng),
    }
    let text = value.to_string().into_bytes();
    if text.len() > 1 << 19 { input.to_vec() } else { text }
}

/// Applies [`mutate_document`] to the text after the first line. The first line may be replaced by the first line of `other`.
pub fn mutate_after_first_line(rng: &mut Rng, input: &[u8], other: &[u8]) -> Vec<u8> {
    let split = |input: &[u8]| {
        let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
        (input[..end].to_vec(), input.get(end + 1..).unwrap_or_default().to_vec())
    };
    let ((line, body), (other_line, other)) = (split(input), split(other));
    let line = if rng.happens_once_in(8) { other_line } else { line };
    let body = if rng.happens_once_in(10) { body } else { mutate_document(rng, &body, &other) };
    [line, body].join(&b'\n')
}
