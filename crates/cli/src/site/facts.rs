// SPDX-License-Identifier: LGPL-3.0-only
//! The ranking policy and its options in JSON documents.

use serde_json::{Map, Value};

use fairshare::{Options, Policy};

/// Returns the keys `policy` and `options` of a JSON document.
pub(crate) fn facts(policy: Policy, options: &Options) -> Vec<(&'static str, Value)> {
    vec![("policy", policy.name().into()), ("options", options_json(options))]
}

/// Returns the options as a JSON object, with numbers as JSON numbers.
pub(crate) fn options_json(options: &Options) -> Value {
    let value = |text: String| text.parse::<f64>().map_or_else(|_| Value::from(text), Value::from);
    Value::Object(
        options
            .settings()
            .into_iter()
            .map(|(name, text)| (name.to_owned(), value(text)))
            .collect::<Map<_, _>>(),
    )
}
