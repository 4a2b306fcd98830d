// SPDX-License-Identifier: LGPL-3.0-only
//! The screen of `flux fairshare top`: asks the plugin, draws the answers, and reads keys until the user quits.
//!
//! A thread of its own sends the requests, so that the screen also answers keys while the plugin does not answer.

pub(crate) mod gather;
mod model;
#[cfg(test)]
mod tests;
pub(crate) mod view;

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use ratatui::crossterm::event::{self, Event, KeyEventKind};

use crate::outcome::{Failure, Result};
use crate::ui::figures::duration;
use crate::ui::printable::printable;
use crate::ui::screen::Screen;
use fairshare_client::Flux;
use model::{Model, Snapshot, Wish};

/// The functions that ask the plugin. They run in the thread that sends the requests.
pub(crate) struct Asking {
    /// Connects to the Flux instance.
    pub(crate) connect: Box<dyn Fn() -> Result<Flux> + Send>,
    /// Returns the lines that explain the job with this id.
    pub(crate) explain: fn(&Flux, u64, &Screen) -> Vec<String>,
}

#[derive(Debug, PartialEq)]
enum Question {
    Refresh,
    Why { id: u64, width: u16 },
}

enum Reply {
    Data(Result<Snapshot, String>),
    Explanation(Vec<String>),
}

/// Questions that the plugin has not answered yet. At most one question of each kind is sent at a time, so a
/// key that is held down does not fill a queue of requests.
#[derive(Debug, Default)]
struct UnansweredRequests {
    /// The time at which new data were requested, if no answer has arrived yet.
    refresh: Option<Instant>,
    explanation: bool,
}

impl UnansweredRequests {
    /// Returns the question that the user's action `wish` requires, and records it as unanswered. Returns `None` if no question is
    /// required, or if an earlier question of the same kind is still unanswered. `width` is the width of the terminal.
    fn open(&mut self, wish: &Wish, width: u16) -> Option<Question> {
        match wish {
            Wish::Refresh if self.refresh.is_none() => {
                self.refresh = Some(Instant::now());
                Some(Question::Refresh)
            }
            Wish::Why(id) if !std::mem::replace(&mut self.explanation, true) => {
                Some(Question::Why { id: *id, width })
            }
            Wish::Nothing | Wish::Quit | Wish::Refresh | Wish::Why(_) => None,
        }
    }

    fn close(&mut self, reply: &Reply) {
        match reply {
            Reply::Data(_) => self.refresh = None,
            Reply::Explanation(_) => self.explanation = false,
        }
    }
}

/// The time between two checks for replies.
const TICK: Duration = Duration::from_millis(100);
/// After this time without an answer, the screen shows that the plugin does not answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Shows `first` on the whole screen and asks the plugin again after each `delay`, until the user quits.
pub(crate) fn run(asking: Asking, delay: Duration, screen: Screen, first: Snapshot) -> io::Result<()> {
    let (questions, to_answer) = channel();
    let (answers, replies) = channel();
    // Nothing can interrupt a request that Flux does not answer, so the thread runs until the process ends.
    thread::Builder::new()
        .spawn(move || answer_questions_of_screen(&asking, screen, &to_answer, &answers))?;
    let mut model = Model::default();
    model.take(first);
    let mut terminal = ratatui::try_init()?;
    let outcome = watch(&questions, &replies, delay, &screen, &mut model, &mut terminal);
    ratatui::restore();
    outcome
}

/// Sends each question to the plugin and passes on the answer, until the user leaves the screen. If a request fails,
/// connects again, because the instance may have restarted.
fn answer_questions_of_screen(
    asking: &Asking,
    screen: Screen,
    questions: &Receiver<Question>,
    answers: &Sender<Reply>,
) {
    let text = |failure: &Failure| printable(&failure.to_string()).into_owned();
    let mut connection = None;
    while let Ok(question) = questions.recv() {
        let flux = connection.take().map_or_else(&asking.connect, Ok);
        let reply = match (question, &flux) {
            (Question::Refresh, Ok(flux)) => {
                Reply::Data(gather::gather(flux).map_err(|failure| text(&failure)))
            }
            (Question::Refresh, Err(failure)) => Reply::Data(Err(text(failure))),
            (Question::Why { id, width }, Ok(flux)) => {
                let screen = Screen { width: Some(width.into()), ..screen };
                Reply::Explanation((asking.explain)(flux, id, &screen))
            }
            (Question::Why { .. }, Err(failure)) => Reply::Explanation(vec![text(failure)]),
        };
        if !matches!(reply, Reply::Data(Err(_))) {
            connection = flux.ok();
        }
        if answers.send(reply).is_err() {
            return;
        }
    }
}

/// If the plugin does not answer, returns a sentence that says so. `answered` is the time since the last answer,
/// `waiting` the time since an unanswered question was sent, and `failed` the error of the last question.
fn describe_no_answer(answered: Duration, waiting: Option<Duration>, failed: Option<&str>) -> Option<String> {
    let since = duration(answered.as_secs_f64().round());
    match failed {
        Some(text) => Some(format!("No answer from the plugin for {since}: {text}")),
        None if waiting > Some(PATIENCE) => Some(format!("No answer from the plugin for {since}")),
        None => None,
    }
}

fn watch(
    questions: &Sender<Question>,
    replies: &Receiver<Reply>,
    delay: Duration,
    screen: &Screen,
    model: &mut Model,
    terminal: &mut ratatui::DefaultTerminal,
) -> io::Result<()> {
    let mut answered = Instant::now();
    let mut due = answered + delay;
    let mut open = UnansweredRequests::default();
    let mut failed: Option<String> = None;
    let mut is_changed = true;
    loop {
        for reply in replies.try_iter() {
            is_changed = true;
            open.close(&reply);
            match reply {
                Reply::Explanation(lines) => model.show(lines),
                Reply::Data(data) => {
                    due = Instant::now() + delay;
                    failed = data.map(|snapshot| model.take(snapshot)).err();
                    if failed.is_none() {
                        answered = Instant::now();
                    }
                }
            }
        }
        let silence = describe_no_answer(
            answered.elapsed(),
            open.refresh.map(|asked| asked.elapsed()),
            failed.as_deref(),
        );
        if is_changed || silence != model.silence {
            model.silence = silence;
            terminal.draw(|frame| view::draw(model, screen, frame))?;
            is_changed = false;
        }
        let waits = open.refresh.is_some() || model.paused;
        let left = due.saturating_duration_since(Instant::now()).min(TICK);
        let wish = if event::poll(if waits { TICK } else { left })? {
            is_changed = true;
            match event::read()? {
                Event::Key(key) if key.kind != KeyEventKind::Release => model.press(key),
                _ => Wish::Nothing,
            }
        } else if !waits && Instant::now() >= due {
            Wish::Refresh
        } else {
            Wish::Nothing
        };
        if wish == Wish::Quit {
            return Ok(());
        }
        if let Some(question) = open.open(&wish, terminal.size()?.width) {
            questions
                .send(question)
                .map_err(|_| io::Error::other("the thread that asks the plugin has ended"))?;
        }
    }
}
