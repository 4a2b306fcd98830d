// SPDX-License-Identifier: LGPL-3.0-only
//! Pages of HTML that need nothing else: what the report and the simulation have in common.
//!
//! A page is a frame, a style and a script, and the data among them as a block that no browser reads as anything else. What
//! people typed comes into it as data alone: nothing of that is HTML. `file.rs` puts a page into a file.

pub(crate) mod file;
#[cfg(test)]
pub(crate) mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const FRAME: &str = include_str!("frame.html");
const STYLE: &str = include_str!("style.css");
/// What every script begins with.
const BEFORE: &str = concat!(
    "'use strict';\n",
    include_str!("words.js"),
    include_str!("grid.js"),
    include_str!("charts.js"),
    include_str!("manners.js"),
);

/// What is a page's own.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// What is between its head and its foot.
    pub(crate) body: &'static str,
    /// One script: what is defined in one part is known in those behind it.
    pub(crate) script: &'static str,
}

impl Page<'_> {
    /// The page. Only its own script and style may run, by their digests, and nothing may be fetched or sent.
    pub(crate) fn html(&self, data: &str) -> String {
        let script = [BEFORE, self.script].concat();
        let parts = [
            ("{{title}}", text(self.title)),
            ("{{script-digest}}", digest(&script)),
            ("{{style-digest}}", digest(STYLE)),
            ("{{style}}", STYLE.to_owned()),
            ("{{body}}", self.body.to_owned()),
            ("{{data}}", inert(data)),
            ("{{script}}", script),
        ];
        // In the order of the frame, each once: what is put in is never looked at again.
        let mut page = String::with_capacity(data.len() + data.len() / 8 + 200_000);
        let mut rest = FRAME;
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
}

/// JSON in a script element: without a `<` it can neither end nor turn into anything else, and it stays the same JSON.
fn inert(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A text between tags.
pub(crate) fn text(text: &str) -> String {
    let text = crate::ui::printable::printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
