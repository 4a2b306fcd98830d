// SPDX-License-Identifier: LGPL-3.0-only

use super::*;

#[test]
fn metrics_listens_on_a_non_loopback_address_only_with_listen_any() {
    let check = |text: &str, is_any| check_listen_address(parse_address(text).expect(text), is_any);
    for text in ["127.0.0.1:9909", "[::1]:0"] {
        assert_eq!(check(text, false), Ok(()), "{text}");
    }
    for text in ["0.0.0.0:9909", "[::]:1", "10.0.0.1:80", "[::ffff:10.0.0.1]:80"] {
        let error = check(text, false).expect_err(text);
        assert!(error.contains("is not a loopback address") && error.ends_with("--listen-any"), "{error}");
        assert_eq!(check(text, true), Ok(()), "{text}");
    }
    assert!(parse_address("localhost").is_err() && parse_address("9909").is_err());
}

fn send_request(address: SocketAddr, request: &str) -> String {
    let mut client = TcpStream::connect(address).expect("it listens");
    client.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    client.read_to_string(&mut text).expect("an answer");
    text
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
    let ask = |request| send_request(address, request);
    let first = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(first.starts_with("HTTP/1.1 200 OK\r\n") && first.ends_with("\r\n\r\nx 1\n# EOF\n"), "{first}");
    assert!(first.contains("Content-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n"));
    let second = ask("GET /metrics?x=1 HTTP/1.0\r\n\r\n");
    assert!(second.starts_with("HTTP/1.1 503 ") && second.ends_with("no plugin\n"), "{second}");
    // If a client disconnects without a request, the server continues.
    drop(TcpStream::connect(address).expect("it listens"));
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
    let head = ask("HEAD /metrics HTTP/1.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn silent_clients_do_not_delay_the_others() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || serve(&listener, || Ok("x 1\n# EOF\n".to_owned())));
    let silent: Vec<_> = (0..40).map(|_| TcpStream::connect(address).expect("it listens")).collect();
    let begun = Instant::now();
    for _ in 0..10 {
        let text = send_request(address, "GET /metrics HTTP/1.1\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
    }
    assert!(begun.elapsed() < Duration::from_secs(2), "after {:?}", begun.elapsed());
    // The server has disconnected the first client. The last client may still send its request.
    let (mut first, mut last) = (&silent[0], &silent[39]);
    first.set_read_timeout(Some(PATIENCE)).expect("set");
    assert_eq!(first.read(&mut [0; 1]).expect("it ends"), 0);
    last.write_all(b"HEAD /metrics HTTP/1.1\r\n\r\n").expect("sent");
    let mut text = String::new();
    last.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

#[test]
fn a_client_that_is_being_answered_is_not_disconnected() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let connect = || Arc::new(TcpStream::connect(address).expect("it listens"));
    let clients = Clients::default();
    let came: Vec<_> = (0..clients::MOST).map(|_| connect()).collect();
    let mut seats: Vec<_> = came.iter().map(|client| clients.seat(client)).collect();
    assert!(seats[0].protect());
    std::thread::scope(|scope| {
        let comes = scope.spawn(|| drop(clients.seat(&connect())));
        // The second client has sent no request, so the server disconnects it to accept the new client.
        assert_eq!((&*came[1]).read(&mut [0; 1]).expect("it is disconnected"), 0);
        assert!(!seats[1].protect(), "a request now comes too late");
        drop(seats.remove(1));
        comes.join().expect("seated");
    });
    assert_eq!((&*came[0]).write(b"x").expect("still connected"), 1);
}

#[test]
fn a_client_that_reads_slowly_is_disconnected_at_the_deadline() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut reader = TcpStream::connect(listener.local_addr().expect("bound")).expect("it listens");
    let (client, _) = listener.accept().expect("it connects");
    // The client reads a kilobyte every few milliseconds. No write times out, but the whole answer would take minutes.
    std::thread::spawn(move || {
        let mut some = [0; 1024];
        while reader.read(&mut some).is_ok_and(|bytes| bytes > 0) {
            std::thread::sleep(Duration::from_millis(5));
        }
    });
    let mut out = TimedStream { client: &client, deadline: Instant::now() + Duration::from_millis(300) };
    let error = out.write_all(&vec![0; 64 << 20]).expect_err("it takes too long");
    assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
    assert!(Instant::now() >= out.deadline);
}

#[test]
fn a_client_gets_an_error_in_time_if_the_plugin_is_silent() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let (silence, ends) = channel::<()>();
    std::thread::spawn(move || {
        let mut times = 0;
        serve(&listener, || {
            times += 1;
            // The first request gets no answer until the test drops `silence`.
            let _ = ends.recv();
            Ok(format!("x {times}\n"))
        })
    });
    let request = "GET /metrics HTTP/1.1\r\nX-Prometheus-Scrape-Timeout-Seconds: 1.3\r\n\r\n";
    for _ in 0..3 {
        let (text, begun) = (send_request(address, request), Instant::now());
        assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with("for 0.5 s\n"), "{text}");
        assert!(begun.elapsed() < PATIENCE, "after {:?}", begun.elapsed());
    }
    drop(silence);
    // The clients that have left do not cost the plugin any work.
    let text = send_request(address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.ends_with("x 2\n"), "{text}");
}

#[test]
fn a_failed_accept_does_not_end_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    // accept(2) fails until a client connects, as it does while too many files are open.
    listener.set_nonblocking(true).expect("set");
    std::thread::spawn(move || serve(&listener, || Ok("x 1\n".to_owned())));
    std::thread::sleep(3 * BETWEEN_ATTEMPTS);
    let text = send_request(address, "GET /metrics HTTP/1.1\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}
