// SPDX-License-Identifier: LGPL-3.0-only
//! Metrics over HTTP for Prometheus: GET of /metrics, one request per connection. There is no encryption and no password.
//!
//! Each client has a thread, so that a slow client does not delay the others. The calling thread collects the metrics, for one
//! client after another.

mod clients;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::mem;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::ui::messages::remark;
use clients::{Clients, Seat};

/// The media type of the text.
const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a client may take to send its request, and then to read the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a client waits for the metrics, unless its request names another time. Prometheus waits ten seconds by default.
const LONGEST_WAIT: f64 = 9.0;
/// The header with the seconds that Prometheus waits for an answer.
const WAIT_HEADER: &str = "x-prometheus-scrape-timeout-seconds:";
/// The time between two attempts to accept a client, after a failed attempt.
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);
/// The greatest length of a request line and its headers, in bytes.
const LONGEST_REQUEST: u64 = 16 * 1024;

/// The text of the metrics, or the text of an error.
type Collected = Result<String, String>;
/// A request for the metrics: where to send them, and until when the client waits.
type Request = (Sender<Collected>, Instant);

/// Parses an address and a port.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| "expected an address and a port, like 127.0.0.1:9909 or [::1]:9909".to_owned())
}

/// Fails if other machines can reach `address`, unless `is_any` allows it.
pub(crate) fn check_listen_address(address: SocketAddr, is_any: bool) -> Result<(), String> {
    if is_any || address.ip().is_loopback() {
        return Ok(());
    }
    Err(format!(
        "--listen: {} is not a loopback address: other machines could read the metrics without a password; \
         listen on 127.0.0.1 or [::1], or allow it by --listen-any",
        address.ip()
    ))
}

/// Serves requests until the process ends. `metrics` is called for each request, unless its client no longer waits.
pub(crate) fn serve(listener: &TcpListener, mut metrics: impl FnMut() -> Collected) {
    let clients = Clients::default();
    let (requests, requested) = channel::<Request>();
    thread::scope(|scope| {
        let clients = &clients;
        scope.spawn(move || {
            let mut is_failing = false;
            loop {
                let client = match listener.accept() {
                    Ok((client, _)) => Arc::new(client),
                    Err(error) if is_client_error(&error) => continue,
                    // For example, this process or the system has too many open files.
                    Err(error) => {
                        if !mem::replace(&mut is_failing, true) {
                            remark(format_args!("can't accept a connection, tries again: {error}"));
                        }
                        thread::sleep(BETWEEN_ATTEMPTS);
                        continue;
                    }
                };
                is_failing = false;
                let (seat, requests) = (clients.seat(&client), requests.clone());
                // If a client causes an error, or its thread does not start, the other clients are not affected.
                let attend = move || drop(answer(&client, seat, &requests));
                drop(thread::Builder::new().spawn_scoped(scope, attend));
            }
        });
        for (client, deadline) in requested {
            if Instant::now() < deadline {
                // If the client has disconnected, sending fails.
                let _ = client.send(metrics());
            }
        }
    });
}

/// Returns true if an error of accept(2) concerns only one client.
fn is_client_error(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Reads a client's request and answers it.
fn answer(client: &TcpStream, seat: Seat<'_>, requests: &Sender<Request>) -> io::Result<()> {
    let input = TimedStream::new(client);
    let mut reader = BufReader::new(input.take(LONGEST_REQUEST));
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let (mut header, mut wait) = (String::new(), LONGEST_WAIT);
    // Read all headers: if a connection is closed with unread data, it is reset and the client may lose the answer.
    while reader.read_line(&mut header)? > 2 {
        let seconds =
            header.to_ascii_lowercase().strip_prefix(WAIT_HEADER).map(|text| text.trim().parse::<f64>());
        // A second remains to send the answer.
        wait = seconds.and_then(Result::ok).map_or(wait, |seconds| (seconds - 1.0).clamp(0.5, 300.0));
        header.clear();
    }
    if request.is_empty() || !seat.protect() {
        return Ok(());
    }
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, media, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match request_metrics(requests, Duration::from_secs_f64(wait)) {
            Ok(text) => ("200 OK", MEDIA, text),
            Err(text) => ("503 Service Unavailable", "text/plain; charset=utf-8", text + "\n"),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain; charset=utf-8", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain; charset=utf-8", "GET /metrics\n".to_owned()),
    };
    let mut out = TimedStream::new(client);
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

/// Requests the metrics from the thread that called [`serve`], and waits at most `wait` for them.
fn request_metrics(requests: &Sender<Request>, wait: Duration) -> Collected {
    let (answer, answered) = channel();
    let is_late = |_| format!("the plugin has not answered for {} s", wait.as_secs_f64());
    let sent = requests.send((answer, Instant::now() + wait));
    sent.map_err(|_| ()).and_then(|()| answered.recv_timeout(wait).map_err(drop)).map_err(is_late)?
}

/// A connection with one deadline for all reads or all writes. With a timeout for each read, a slow client could keep the
/// connection open indefinitely.
struct TimedStream<'a> {
    client: &'a TcpStream,
    deadline: Instant,
}

impl TimedStream<'_> {
    fn new(client: &TcpStream) -> TimedStream<'_> {
        TimedStream { client, deadline: Instant::now() + PATIENCE }
    }

    fn remaining_time(&self) -> io::Result<Option<Duration>> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::Error::from(io::ErrorKind::TimedOut)) } else { Ok(Some(left)) }
    }
}

impl Read for TimedStream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.client.set_read_timeout(self.remaining_time()?)?;
        self.client.read(buffer)
    }
}

impl Write for TimedStream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.client.set_write_timeout(self.remaining_time()?)?;
        self.client.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.client.flush()
    }
}

#[cfg(test)]
mod tests;
