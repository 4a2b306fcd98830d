// SPDX-License-Identifier: LGPL-3.0-only
//! The page: its parts, with the data among them as a block that no browser reads as anything else.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use sha2::{Digest, Sha256};

use super::data::Document;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
/// One script: what is defined in one part is known in those behind it.
const SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("page/model.js"),
    include_str!("page/words.js"),
    include_str!("page/tree.js"),
    include_str!("page/standings.js"),
    include_str!("page/policies.js"),
    include_str!("page/usage.js"),
    include_str!("page/held.js"),
    include_str!("page/user.js"),
    include_str!("page/main.js"),
);

/// The data as JSON.
pub(super) fn json(document: &impl Serialize, end: &str) -> serde_json::Result<String> {
    Ok(serde_json::to_string(document)? + end)
}

/// The page. Only its own script and style may run, by their digests, and nothing may be fetched or sent.
pub(super) fn html(document: &Document<'_>) -> serde_json::Result<String> {
    Ok(filled(&document.title, &json(document, "")?))
}

fn filled(title: &str, data: &str) -> String {
    let parts = [
        ("{{title}}", text(title)),
        ("{{script-digest}}", digest(SCRIPT)),
        ("{{style-digest}}", digest(STYLE)),
        ("{{style}}", STYLE.to_owned()),
        ("{{data}}", inert(data)),
        ("{{script}}", SCRIPT.to_owned()),
    ];
    // In the order of the template, each once: what is put in is never looked at again.
    let mut page = String::with_capacity(data.len() + data.len() / 8 + 200_000);
    let mut rest = TEMPLATE;
    while let Some((before, (name, value))) = parts
        .iter()
        .filter_map(|part| Some((rest.find(part.0)?, part)))
        .min_by_key(|(at, _)| *at)
        .and_then(|(at, part)| Some((rest.get(..at)?, part)))
    {
        page.push_str(before);
        page.push_str(value);
        rest = rest.get(before.len() + name.len()..).unwrap_or_default();
    }
    page.push_str(rest);
    page
}

/// JSON in a script element: without a `<` it can neither end nor turn into anything else, and it stays the same JSON.
pub(super) fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A text between tags.
pub(super) fn text(text: &str) -> String {
    let text = crate::cli::printable::printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
