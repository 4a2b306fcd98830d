// SPDX-License-Identifier: LGPL-3.0-only
//! The HTML page of a simulation: the document that `--json` prints, and the script that draws it.

use serde::Serialize;
use serde_json::value::RawValue;

use super::print::{ScenarioResult, SimulationFacts, build_document};
use crate::html::page::Page;
use crate::html::simulate;

/// The data of the page.
#[derive(Serialize)]
struct Data<'a> {
    format: u32,
    program: &'static str,
    title: &'a str,
    simulation: &'a RawValue,
}

/// Returns the page. It has no date and no path, so that the same history makes the same page.
pub(super) fn build_html(
    title: &str,
    results: &[ScenarioResult],
    facts: &SimulationFacts,
) -> std::io::Result<String> {
    let name = facts.trace.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // The page may be published, so it does not show the directory of the trace.
    let facts = SimulationFacts { trace: name.into(), ..facts.clone() };
    let simulation = build_document(results, &facts)?;
    let program = concat!("flux-fairshare ", env!("CARGO_PKG_VERSION"));
    let data = Data { format: 1, program, title, simulation: serde_json::from_slice(&simulation)? };
    Ok(Page { title, body: simulate::BODY, script: simulate::SCRIPT }.html(&serde_json::to_string(&data)?))
}
