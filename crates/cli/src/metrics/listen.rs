// SPDX-License-Identifier: LGPL-3.0-only
//! Metrics over HTTP, for a Prometheus on the same machine: GET of /metrics on a loopback address, one request a connection.
//!
//! Each client has a thread, so that who takes their time keeps nobody waiting. What is answered comes from the one thread that
//! called, for one client after the other.

mod clients;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clients::{Clients, Seat};

/// The media type of the text.
const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a client may take to ask, and then to read.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's line and headers are no longer than this.
const LONGEST_REQUEST: u64 = 16 * 1024;

/// What `metrics` says.
type Said = Result<String, String>;

/// An address of this machine alone.
pub(crate) fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text
        .parse()
        .map_err(|_| "expected an address and a port, like 127.0.0.1:9909 or [::1]:9909".to_owned())?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(format!(
        "{} is no loopback address: metrics are served to this machine alone (127.0.0.1 or [::1]); a proxy may pass them on",
        address.ip()
    ))
}

/// Answers each request with what `metrics` says then, for ever.
pub(crate) fn serve(listener: &TcpListener, mut metrics: impl FnMut() -> Said) -> io::Error {
    let clients = Clients::default();
    let (asks, asked) = channel::<Sender<Said>>();
    thread::scope(|scope| {
        let clients = &clients;
        let accepting = scope.spawn(move || {
            loop {
                let client = match listener.accept() {
                    Ok((client, _)) => Arc::new(client),
                    Err(error) if is_of_one(&error) => continue,
                    Err(error) => return error,
                };
                let (seat, asks) = (clients.seat(&client), asks.clone());
                // What becomes of one client is no matter of the others; nor is it where there is no thread to be had.
                let attend = move || drop(answer(&client, seat, &asks));
                drop(thread::Builder::new().spawn_scoped(scope, attend));
            }
        });
        for to in asked {
            // Who has gone meanwhile is told nothing.
            let _ = to.send(metrics());
        }
        accepting.join().unwrap_or_else(|_| io::Error::other("nobody listens any more"))
    })
}

/// Whether an error of accept(2) is about one client.
fn is_of_one(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

fn answer(client: &TcpStream, seat: Seat<'_>, asks: &Sender<Sender<Said>>) -> io::Result<()> {
    let asking = Until::soon(client);
    let mut reader = BufReader::new(asking.take(LONGEST_REQUEST));
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    // All of it is read: who closes with something unread resets the connection, and the answer is lost.
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    if request.is_empty() || !seat.keep() {
        return Ok(());
    }
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, media, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match told(asks)? {
            Ok(text) => ("200 OK", MEDIA, text),
            Err(text) => ("503 Service Unavailable", "text/plain; charset=utf-8", text + "\n"),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain; charset=utf-8", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain; charset=utf-8", "GET /metrics\n".to_owned()),
    };
    let mut out = Until::soon(client);
    write!(
        out,
        "HTTP/1.1 {status}\r\nContent-Type: {media}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    if method != "HEAD" {
        out.write_all(body.as_bytes())?;
    }
    out.flush()
}

/// What `metrics` says when it is this client's turn.
fn told(asks: &Sender<Sender<Said>>) -> io::Result<Said> {
    let (answer, answered) = channel();
    let over = || io::Error::from(io::ErrorKind::BrokenPipe);
    asks.send(answer).map_err(|_| over())?;
    answered.recv().map_err(|_| over())
}

/// What a client sends, or takes, up to an instant, however little at a time.
struct Until<'a> {
    client: &'a TcpStream,
    deadline: Instant,
}

impl Until<'_> {
    fn soon(client: &TcpStream) -> Until<'_> {
        Until { client, deadline: Instant::now() + PATIENCE }
    }

    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(Some(left)) }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(self.left()?)?;
        self.client.read(buffer)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(self.left()?)?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }
}

#[cfg(test)]
mod tests;
