// SPDX-License-Identifier: LGPL-3.0-only
//! Builds self-contained HTML pages: the parts that the report and the simulation share.
//!
//! A page consists of a frame, a style, a script, and the data as a JSON block. Names that users chose are only in the JSON block, never
//! in the HTML. `replaced.rs` writes a page to a file.

#[cfg(test)]
pub(crate) mod tests;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

const FRAME: &str = include_str!("frame.html");
const STYLE: &str = include_str!("style.css");
/// The beginning of every script.
const SHARED_SCRIPT: &str = concat!(
    "'use strict';\n",
    include_str!("words.js"),
    include_str!("grid.js"),
    include_str!("charts.js"),
    include_str!("manners.js"),
);

/// The parts of an HTML page that differ from all other pages.
pub(crate) struct Page<'a> {
    pub(crate) title: &'a str,
    /// The HTML between the header and the footer.
    pub(crate) body: &'static str,
    /// The page's own script. It may use all functions of the shared script.
    pub(crate) script: &'static str,
}

impl Page<'_> {
    /// Returns the page with `data` as its JSON block. Its content security policy allows only the page's own script and style, by
    /// their digests, and no requests.
    pub(crate) fn html(&self, data: &str) -> String {
        let script = [SHARED_SCRIPT, self.script].concat();
        let mut pieces = FRAME.split("{{");
        let mut page = pieces.next().unwrap_or_default().to_owned();
        for piece in pieces {
            let (name, after) = piece.split_once("}}").unwrap_or_default();
            page += &match name {
                "title" => escape_html(self.title),
                "script-digest" => digest(&script),
                "style-digest" => digest(STYLE),
                "style" => STYLE.to_owned(),
                "body" => self.body.to_owned(),
                "data" => escape_json(data),
                _ => script.clone(),
            };
            page += after;
        }
        page
    }
}

/// Escapes JSON for a script element. A text without `<` can't end the element. The escapes do not change the
/// value of the JSON text.
fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Escapes a text for HTML.
pub(crate) fn escape_html(text: &str) -> String {
    let text = crate::ui::printable::printable(text);
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn digest(text: &str) -> String {
    format!("sha256-{}", STANDARD.encode(Sha256::digest(text.as_bytes())))
}
