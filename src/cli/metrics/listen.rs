// SPDX-License-Identifier: LGPL-3.0-only
//! Metrics over HTTP, for a Prometheus on the same machine: GET of /metrics on a loopback address, one request a connection.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The media type of the text.
const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// How long a client may take to ask, and then to read: nobody keeps others waiting for longer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request's line and headers are no longer than this.
const LONGEST_REQUEST: u64 = 16 * 1024;

/// An address of this machine alone.
pub(super) fn loopback(text: &str) -> Result<SocketAddr, String> {
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

/// Answers one request after the other with what `metrics` says then, for ever.
pub(super) fn serve(
    listener: &TcpListener,
    mut metrics: impl FnMut() -> Result<String, String>,
) -> io::Error {
    loop {
        match listener.accept() {
            // What becomes of one client is no matter of the others.
            Ok((client, _)) => drop(answer(client, &mut metrics)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted) => {}
            Err(error) => return error,
        }
    }
}

fn answer(client: TcpStream, metrics: &mut impl FnMut() -> Result<String, String>) -> io::Result<()> {
    let asking = Until::soon(&client);
    let mut reader = BufReader::new(asking.take(LONGEST_REQUEST));
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut header = String::new();
    // All of it is read: who closes with something unread resets the connection, and the answer is lost.
    while reader.read_line(&mut header)? > 2 {
        header.clear();
    }
    let mut words = request.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, media, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => match metrics() {
            Ok(text) => ("200 OK", MEDIA, text),
            Err(text) => ("503 Service Unavailable", "text/plain; charset=utf-8", text + "\n"),
        },
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain; charset=utf-8", "see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain; charset=utf-8", "GET /metrics\n".to_owned()),
    };
    let mut out = Until::soon(&client);
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
mod tests {
    use super::*;

    #[test]
    fn only_this_machine() {
        assert!(loopback("127.0.0.1:9909").is_ok() && loopback("[::1]:0").is_ok());
        for text in ["0.0.0.0:9909", "[::]:1", "10.0.0.1:80", "[::ffff:10.0.0.1]:80"] {
            let error = loopback(text).expect_err(text);
            assert!(error.contains("no loopback address"), "{error}");
        }
        assert!(loopback("localhost").is_err() && loopback("9909").is_err());
    }

    #[test]
    fn requests_are_answered_one_by_one() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut times = 0;
            serve(&listener, || {
                times += 1;
                if times == 2 { Err("no plugin".to_owned()) } else { Ok(format!("x {times}\n# EOF\n")) }
            })
        });
        let ask = |request: &str| {
            let mut client = TcpStream::connect(address).expect("it listens");
            client.write_all(request.as_bytes()).expect("sent");
            let mut text = String::new();
            client.read_to_string(&mut text).expect("an answer");
            text
        };
        let first = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\nx 1\n# EOF\n"),
            "{first}"
        );
        assert!(
            first.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n")
        );
        let second = ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n");
        assert!(second.starts_with("HTTP/1.1 503 ") && second.ends_with("no plugin\n"), "{second}");
        // Who leaves without a word does not end it.
        drop(TcpStream::connect(address).expect("it listens"));
        assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    }

    #[test]
    fn who_reads_little_at_a_time_is_left() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut reader = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
        let (client, _) = listener.accept().expect("it connects");
        // A kilobyte every few milliseconds: each write goes on, all of it would take minutes.
        std::thread::spawn(move || {
            let mut some = [0; 1024];
            while reader.read(&mut some).is_ok_and(|bytes| bytes > 0) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let mut out = Until { client: &client, deadline: Instant::now() + Duration::from_millis(300) };
        let error = out.write_all(&vec![0; 64 << 20]).expect_err("it takes too long");
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(Instant::now() >= out.deadline);
    }
}
