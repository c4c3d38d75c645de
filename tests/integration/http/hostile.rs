//! Tests hostile requests. The server refuses or limits each of them, and logs it once.

use std::cell::RefCell;
use std::io::Read as _;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::json;

use super::{BOTH, HttpServer, JSON, request, script, soon, stateless};
use crate::harness::{ServerBuilder, deadline, resident_kibibytes};

tests! {
    needs [Python]:
        a_port_in_use_is_reported,
        another_host_is_refused_and_logged_once,
        an_origin_from_elsewhere_is_refused,
        shapes_that_smuggle_requests_are_refused,
        a_body_that_is_too_large_is_refused_before_it_is_sent,
        many_connections_are_bounded,
        slow_senders_are_disconnected,
        a_client_that_does_not_read_delays_no_other_client;
    needs [Tier3]:
        requests_in_flight_are_bounded_and_others_get_retry_after;
}

fn closed() -> ServerBuilder {
    ServerBuilder::new().without("QWED_MCP_TRUSTED_CODE_EXECUTION")
}

fn a_port_in_use_is_reported() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = |address: &str| {
        let mut command = closed().command();
        command.args(["serve", "--http", address]).stdin(Stdio::null());
        command.output().unwrap()
    };
    let second = run(&address);
    assert_eq!(second.status.code(), Some(1));
    let log = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(log.contains(&format!("failed to listen on {address}")), "{log}");
    // A server without tokens must not listen on addresses that other machines can reach.
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let refused = run(address);
        let log = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(1), "{log}");
        assert!(log.contains("use --require-token"), "{log}");
    }
}

fn another_host_is_refused_and_logged_once() {
    let server = HttpServer::start(closed(), &["--allow-host", "mcp.example.org"]);
    let list = request(1, "tools/list", &json!({})).to_string();
    let status = |host: &str| {
        server.send(&format!("POST /mcp HTTP/1.1\r\n{JSON}{BOTH}{host}"), &list).status
    };
    // The controls: with an accepted host, the status is 400, because the session id is missing.
    assert_eq!(status("Host: mcp.example.org\r\n"), 400);
    assert_eq!(status("Host: 127.0.0.1:80\r\n"), 400);
    for _ in 0..50 {
        assert_eq!(status("Host: rebound.example\r\n"), 403);
    }
    assert_eq!(status("Host: localhost\r\nHost: localhost\r\n"), 400);
    let absolute = format!("POST http://localhost/mcp HTTP/1.1\r\n{JSON}{BOTH}");
    assert_eq!(server.send(&absolute, &list).status, 400);
    let log = server.end();
    assert_eq!(log.matches("is not a name of this server").count(), 1, "{log}");
}

fn an_origin_from_elsewhere_is_refused() {
    let server = HttpServer::start(closed(), &["--allow-origin", "https://tools.example.org"]);
    let (head, body) = stateless("tools/list", json!({}));
    for (origin, status) in [
        ("", 200),
        ("Origin: https://tools.example.org\r\n", 200),
        ("Origin: https://evil.example\r\n", 403),
        ("Origin: null\r\n", 403),
        ("Origin: http://localhost\r\n", 403),
    ] {
        let response = server.send(&format!("{head}{origin}"), &body);
        assert_eq!(response.status, status, "{origin}");
        let allowed = response.header("access-control-allow-origin");
        let is_page = origin.contains("tools.example.org");
        assert_eq!(allowed.as_deref(), is_page.then_some("https://tools.example.org"), "{origin}");
    }
    // A browser first sends a preflight request, which has no token.
    let preflight = |origin: &str| {
        let asked = "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: authorization\r\n";
        server.send(&format!("OPTIONS /mcp HTTP/1.1\r\n{asked}Origin: {origin}\r\n"), "")
    };
    let page = preflight("https://tools.example.org");
    assert_eq!(page.status, 204);
    assert!(page.header("access-control-allow-headers").unwrap().contains("authorization"));
    assert!(page.header("access-control-allow-methods").unwrap().contains("post"));
    let evil = preflight("https://evil.example");
    assert_eq!((evil.status, evil.header("access-control-allow-origin")), (403, None));
    // A request without an `Origin` header is not a preflight request.
    assert_ne!(server.send("OPTIONS /mcp HTTP/1.1\r\n", "").status, 204);
}

fn shapes_that_smuggle_requests_are_refused() {
    let server = HttpServer::start(closed(), &[]);
    let smuggled = "GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n";
    let head = format!("POST /mcp HTTP/1.1\r\nHost: localhost\r\n{JSON}{BOTH}");
    // The control: two requests in one connection get two responses.
    let mut connection = server.connect();
    let two = format!("{head}Content-Length: 2\r\n\r\n{{}}{smuggled}");
    connection.write(two.as_bytes()).unwrap();
    assert_eq!(connection.response().unwrap().status, 400);
    assert_eq!(connection.response().unwrap().status, 404);
    for shape in [
        // The declared length exceeds the chunked body.
        format!(
            "Content-Length: {}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n{smuggled}",
            5 + smuggled.len()
        ),
        format!("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Content-Length: 2\r\nContent-Length: 3\r\n\r\n{{}}{smuggled}"),
        format!("Content-Length: +2\r\n\r\n{{}}{smuggled}"),
        format!("Content-Length: 2, 2\r\n\r\n{{}}{smuggled}"),
        format!("Transfer-Encoding: xchunked\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n{smuggled}"),
        format!("Content-Length: 2\r\n X: folded\r\n\r\n{{}}{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n{smuggled}"),
        format!("Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}XX{smuggled}"),
    ] {
        let mut connection = server.connect();
        connection.write(format!("{head}{shape}").as_bytes()).unwrap();
        let _ = connection.stream.get_mut().shutdown(Shutdown::Write);
        let first = connection.response().map(|response| response.status);
        assert!(first.is_none_or(|status| status == 400), "{shape:?}: {first:?}");
        let second = connection.response();
        assert!(second.is_none(), "{shape:?}: {second:?}");
    }
}

fn a_body_that_is_too_large_is_refused_before_it_is_sent() {
    let server = HttpServer::start(closed(), &[]);
    let before = resident_kibibytes(server.pid());
    for path in ["/mcp", "/run", "/run_code"] {
        let mut connection = server.connect();
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}{BOTH}Content-Length: \
             5368709120\r\n\r\n"
        );
        connection.write(head.as_bytes()).unwrap();
        assert_eq!(connection.response().unwrap().status, 413, "{path}");
    }
    let mut connection = server.connect();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{JSON}{BOTH}Transfer-Encoding: chunked\r\n\r\n"
    );
    connection.write(head.as_bytes()).unwrap();
    let chunk = format!("10000\r\n{}\r\n", "x".repeat(0x10000));
    let sent = (0..2000).take_while(|_| connection.write(chunk.as_bytes()).is_ok()).count();
    assert!(sent < 1000, "{sent} parts of 64 KiB were accepted");
    let grown = resident_kibibytes(server.pid()).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    assert_eq!(server.stateless("tools/list", json!({})).status, 200);
}

fn many_connections_are_bounded() {
    let server = HttpServer::start(closed(), &[]);
    let mut connections = Vec::new();
    // This is more than the maximum number of connections.
    for _ in 0..700 {
        connections.push(TcpStream::connect(server.address).unwrap());
    }
    soon("connections above the bound are closed", || {
        let closed = connections.iter().filter(|connection| {
            connection.set_nonblocking(true).unwrap();
            matches!((&mut &**connection).read(&mut [0]), Ok(0))
                || (&mut &**connection)
                    .read(&mut [0])
                    .is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
        });
        closed.count() >= 700 - 512
    });
    assert!(crate::harness::open_descriptors(server.pid()) < 600);
    drop(connections);
    soon("new connections are accepted again", || {
        let mut connection = server.connect();
        let (head, body) = stateless("tools/list", json!({}));
        connection.begin(&head, &body);
        connection.response().is_some_and(|response| response.status == 200)
    });
    let log = server.end();
    assert_eq!(log.matches("all connections are in use").count(), 1, "{log}");
}

fn slow_senders_are_disconnected() {
    let server = HttpServer::start(closed(), &[]);
    let started = Instant::now();
    let mut slow = [server.connect(), server.connect()];
    let mut is_cut = [false, false];
    slow[0].write(b"POST /mcp HT").unwrap();
    while is_cut.contains(&false) {
        assert!(started.elapsed() < deadline(Duration::from_secs(30)), "{is_cut:?}");
        std::thread::sleep(Duration::from_millis(500));
        // Occasional bytes must not extend the deadline of a request.
        for (connection, is_cut) in slow.iter_mut().zip(&mut is_cut) {
            *is_cut |= connection.write(b"X").is_err();
        }
    }
    assert_eq!(server.stateless("tools/list", json!({})).status, 200);
}

fn a_client_that_does_not_read_delays_no_other_client() {
    let server = HttpServer::start(closed(), &[]);
    let (head, body) = stateless("tools/list", json!({}));
    let mut connection = server.connect();
    let before = resident_kibibytes(server.pid());
    connection.stream.get_mut().set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let one = format!("{head}Host: localhost\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    // Writes requests without reading responses, until the server accepts no more bytes.
    let mut taken = 0;
    while connection.write(one.as_bytes()).is_ok() {
        taken += 1;
        assert!(taken < 100_000, "the server accepts every byte");
    }
    let grown = resident_kibibytes(server.pid()).saturating_sub(before);
    assert!(grown < 64 * 1024, "{grown} KiB");
    assert_eq!(server.stateless("tools/list", json!({})).status, 200);
}

fn requests_in_flight_are_bounded_and_others_get_retry_after() {
    let server = HttpServer::start(ServerBuilder::new(), &[]);
    let (head, body) = stateless("tools/call", script("import time; time.sleep(600)"));
    // Begins as many requests as the server handles at once. The server may refuse some of them while it handles
    // `tools/list`, so begins one more after each `tools/list` that the server accepts.
    let begun = || {
        let mut connection = server.connect();
        connection.begin(&head, &body);
        connection
    };
    let waiting: RefCell<Vec<_>> = RefCell::new((0..256).map(|_| begun()).collect());
    soon("no place is free", || {
        let is_full = server.stateless("tools/list", json!({})).status == 503;
        if !is_full {
            waiting.borrow_mut().push(begun());
        }
        is_full
    });
    let over = server.stateless("tools/list", json!({}));
    assert_eq!(over.header("retry-after").as_deref(), Some("1"));
    assert_eq!(over.json()["error"]["code"], -32000);
    let over = server.send(&format!("POST /run HTTP/1.1\r\n{JSON}"), r#"{"code":"print(1)"}"#);
    assert_eq!((over.status, over.header("retry-after").as_deref()), (429, Some("1")));
    drop(waiting);
    soon("places are free", || server.stateless("tools/list", json!({})).status == 200);
    assert!(server.run("print(1)").contains("STDOUT:\n1"));
    let log = server.end();
    assert_eq!(log.matches("too many requests are in flight").count(), 1, "{log}");
}
