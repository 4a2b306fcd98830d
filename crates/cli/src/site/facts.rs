// SPDX-License-Identifier: LGPL-3.0-only
//! The ranking policy and its options in JSON documents.

use serde_json::{Map, Value};

use fairshare::{Options, Policy};

/// `policy` and `options` as JSON documents name them.
pub(crate) fn facts(policy: Policy, options: &Options) -> Vec<(&'static str, Value)> {
    vec![("policy", policy.name().into()), ("options", options_json(options))]
}

/// The options as a JSON object; numbers are numbers.
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
