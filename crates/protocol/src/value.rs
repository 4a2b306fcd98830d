// SPDX-License-Identifier: LGPL-3.0-only
//! JSON values that are parsed only as far as necessary: the members of an object, and descriptions for messages.
//!
//! No function recurses into a value, so a newer client may send unknown keys with values of any depth.

use fairshare::shortened;
use serde::Deserialize;
use serde::de::value::{MapAccessDeserializer, MapDeserializer};
use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

/// The unparsed members of an object. If a key is repeated, the last value counts.
pub type Members<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// Returns the members of `value`; `None` if it is not an object.
pub fn members(value: &RawValue) -> Option<Members<'_>> {
    serde_json::from_str(value.get()).ok()
}

/// A record that must be an object. Serde alone would also accept an array of the values.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ObjectVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Object<T>, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }
        deserializer.deserialize_map(ObjectVisitor(PhantomData))
    }
}

impl<'a, T: Deserialize<'a>> Object<T> {
    /// Returns a record with the members named by `keys`.
    pub fn from_selected_members(
        members: &Members<'a>,
        keys: impl Iterator<Item = &'static str>,
    ) -> Result<Self, serde_json::Error> {
        let known = keys.filter_map(|key| Some((key, *members.get(key)?)));
        T::deserialize(MapDeserializer::new(known))
            .map(Object)
            .map_err(|error| serde_json::Error::custom(shortened(&error.to_string())))
    }
}

/// Reads a value that must be present.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// Reads any integer. An integer beyond 64 bits becomes the nearest 64-bit integer.
pub fn saturated<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let number = Number::deserialize(deserializer)?;
    let saturate = |number: f64| (number.abs() >= BEYOND).then_some(number as i64);
    let integer = number.as_i64().or_else(|| number.as_f64().and_then(saturate));
    integer.ok_or_else(|| D::Error::custom(format_args!("expected an integer, got {number}")))
}

/// 2^63, the smallest number above the range of `i64`.
pub const BEYOND: f64 = 9_223_372_036_854_775_808.0;

/// Returns the type of a value, with the value if it is a number or a boolean.
pub fn describe(value: &RawValue) -> String {
    let text = value.get();
    match text.as_bytes().first() {
        Some(b'n') => "null".to_owned(),
        Some(b't' | b'f') => format!("boolean {text}"),
        Some(b'"') => "string".to_owned(),
        Some(b'[') => "array".to_owned(),
        Some(b'{') => "object".to_owned(),
        _ if text.parse::<i64>().is_ok() => format!("integer {text}"),
        _ if text.contains(['.', 'e', 'E']) => format!("real {}", shortened(text)),
        _ => format!("integer {}, which is beyond 64 bits", shortened(text)),
    }
}
