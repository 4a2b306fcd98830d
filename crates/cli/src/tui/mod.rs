// SPDX-License-Identifier: LGPL-3.0-only
//! The screen of `flux fairshare top`: asks the plugin, draws the answers, and reads keys until the user quits.

pub(crate) mod gather;
mod model;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::ui::printable::printable;
use fairshare_client::Flux;
use model::{Model, Snapshot, Wish};
use view::TerminalLook;

/// Returns the lines that explain the job with this id, for a terminal of this width.
type Explain<'a> = &'a dyn Fn(&Flux, u64, u16) -> Vec<String>;

/// Shows `first` on the whole screen and asks the plugin again after each `delay`, until the user quits.
pub(crate) fn run(
    flux: &Flux,
    delay: Duration,
    look: TerminalLook,
    first: Snapshot,
    explain: Explain<'_>,
) -> std::io::Result<()> {
    let mut model = Model::default();
    model.take(first);
    let mut terminal = ratatui::try_init()?;
    let outcome = watch(flux, delay, look, &mut model, explain, &mut terminal);
    ratatui::restore();
    outcome
}

fn watch(
    flux: &Flux,
    delay: Duration,
    look: TerminalLook,
    model: &mut Model,
    explain: Explain<'_>,
    terminal: &mut ratatui::DefaultTerminal,
) -> std::io::Result<()> {
    let mut asked = Instant::now();
    loop {
        terminal.draw(|frame| view::draw(model, look, frame))?;
        let left = delay.saturating_sub(asked.elapsed());
        let wish = if event::poll(left)? {
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => model.press(key),
                _ => Wish::Nothing,
            }
        } else {
            Wish::Refresh
        };
        match wish {
            Wish::Nothing => {}
            Wish::Quit => return Ok(()),
            Wish::Why(id) => model.show(explain(flux, id, terminal.size()?.width)),
            Wish::Refresh => {
                match gather::gather(flux) {
                    Ok(snapshot) => model.take(snapshot),
                    Err(failure) => {
                        model.snapshot.trouble = Some(printable(&failure.to_string()).into_owned())
                    }
                }
                asked = Instant::now();
            }
        }
    }
}
