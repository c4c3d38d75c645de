//! Tests the shares of users. If one user takes all of a resource, other users are still served.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::Duration;

use serde_json::{Value, json};

use super::teams::Tokens;
use super::{BOTH, Connection, HttpServer, JSON, bearer, script, soon, stateless};
use crate::harness::eventually;

tests! {
    needs [Python]:
        an_acknowledged_subscription_occupies_no_place,
        one_user_has_a_share_of_bytes,
        one_user_has_a_share_of_batches,
        one_user_has_a_share_of_connections,
        connections_without_a_token_do_not_exclude_users,
        the_admin_may_give_one_user_everything;
    needs [Tier3]:
        one_user_has_a_share_of_places,
        users_take_turns,
        scripts_that_wait_delay_no_other_user_on_any_route,
        jobs_that_wait_delay_no_other_users_job,
        each_test_of_a_line_has_a_turn_of_its_own,
        long_lines_do_not_wait_for_each_other,
        unread_answers_delay_only_their_own_user;
}

fn users() -> Tokens {
    Tokens::new(&[("ann", "user"), ("bob", "user")])
}

fn list(server: &HttpServer, token: &str) -> u16 {
    server.stateless_as(token, "tools/list", json!({})).status
}

fn begin(server: &HttpServer, token: &str, method: &str, params: Value) -> Connection {
    let (head, body) = stateless(method, params);
    let mut connection = server.connect();
    connection.begin(&format!("{head}{}", bearer(token)), &body);
    connection
}

/// Begins a batch with no lines yet.
fn batch(server: &HttpServer, token: &str) -> Connection {
    let mut connection = server.connect();
    let head = format!("POST /batch HTTP/1.1\r\nHost: localhost\r\n{JSON}{}", bearer(token));
    connection.write(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
    connection
}

fn an_acknowledged_subscription_occupies_no_place() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let mut subscriptions = Vec::new();
    // The number of these subscriptions is above a user's limit on requests in flight.
    for number in 0..80 {
        let mut one = begin(&server, ann, "subscriptions/listen", json!({ "notifications": {} }));
        let head = one.head().unwrap();
        assert!(head.starts_with("http/1.1 200"), "{number}: {head}");
        let first = String::from_utf8(one.chunk().unwrap()).unwrap();
        assert!(first.contains("acknowledged"), "{first}");
        subscriptions.push(one);
    }
    assert_eq!((list(&server, ann), list(&server, bob)), (200, 200));
    // The limit on a user's connections also limits subscriptions.
    let refused = (0..40).find_map(|_| {
        let mut one = begin(&server, ann, "subscriptions/listen", json!({ "notifications": {} }));
        let head = one.head().unwrap();
        subscriptions.push(one);
        (!head.starts_with("http/1.1 200")).then_some(head)
    });
    let refused = refused.expect("the number of subscriptions is not bounded");
    assert!(refused.starts_with("http/1.1 429") && refused.contains("connection: close"));
    assert_eq!(list(&server, bob), 200);
}

fn one_user_has_a_share_of_bytes() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\n{JSON}{BOTH}{}Content-Length: 4194304\r\n\r\n",
        bearer(ann)
    );
    let mut stalled = Vec::new();
    // A user's share is a quarter of 32 MiB. Two incomplete bodies of 4 MiB leave less than one request needs. The
    // server ends an incomplete request after 30 seconds. A busy machine may need longer for the next request, so try
    // again.
    let is_taken = (0..10).any(|_| {
        stalled.clear();
        for _ in 0..2 {
            let mut connection = server.connect();
            connection.write(head.as_bytes()).unwrap();
            // The server may still count the previous bodies, and then refuses this one.
            let _ = connection.write(&vec![b' '; 4_194_304 - 50]);
            stalled.push(connection);
        }
        eventually(Duration::from_secs(20), || list(&server, ann) == 429).is_some()
    });
    assert!(is_taken);
    assert_eq!(list(&server, bob), 200);
    drop(stalled);
    soon("the share is free", || list(&server, ann) == 200);
}

fn one_user_has_a_share_of_batches() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let mut batches: Vec<_> = (0..4).map(|_| batch(&server, ann)).collect();
    for batch in &mut batches {
        assert!(batch.head().unwrap().starts_with("http/1.1 200"));
    }
    let one_more = |token| batch(&server, token).head().unwrap();
    let refused = one_more(ann);
    assert!(refused.starts_with("http/1.1 429") && refused.contains("retry-after: 1"), "{refused}");
    assert!(one_more(bob).starts_with("http/1.1 200"));
    drop(batches);
    soon("the share is free", || one_more(ann).starts_with("http/1.1 200"));
}

fn one_user_has_a_share_of_connections() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let (head, body) = stateless("tools/list", json!({}));
    let send = |connection: &mut Connection, token: &str| {
        connection.send(&format!("{head}{}", bearer(token)), &body)
    };
    let mut connections: Vec<_> = (0..96).map(|_| server.connect()).collect();
    for connection in &mut connections {
        assert_eq!(send(connection, ann).status, 200);
    }
    let refused = send(&mut server.connect(), ann);
    assert_eq!(refused.status, 429);
    assert_eq!(refused.header("connection").as_deref(), Some("close"));
    assert_eq!(list(&server, bob), 200);
    // A connection counts for the user of its last request, because a proxy forwards requests of several users.
    assert_eq!(send(&mut connections[0], bob).status, 200);
    assert_eq!(send(&mut server.connect(), ann).status, 200);
}

fn connections_without_a_token_do_not_exclude_users() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let mut known = server.connect();
    let (head, body) = stateless("tools/list", json!({}));
    assert_eq!(known.send(&format!("{head}{}", bearer(ann)), &body).status, 200);
    // This is more than the maximum number of connections.
    let strangers: Vec<_> = (0..700).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    for _ in 0..20 {
        assert_eq!(list(&server, bob), 200);
    }
    assert_eq!(known.send(&format!("{head}{}", bearer(ann)), &body).status, 200);
    drop(strangers);
}

fn the_admin_may_give_one_user_everything() {
    let tokens = users();
    let server = tokens.server(&["--user-share", "100"]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let mut batches: Vec<_> = (0..16).map(|_| batch(&server, ann)).collect();
    for batch in &mut batches {
        assert!(batch.head().unwrap().starts_with("http/1.1 200"));
    }
    assert!(batch(&server, bob).head().unwrap().starts_with("http/1.1 429"));
}

fn one_user_has_a_share_of_places() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let endless = || begin(&server, ann, "tools/call", script("import time; time.sleep(600)"));
    // Begins a few more calls than the share, because the server may refuse some while it handles `list` below.
    let waiting: Vec<_> = (0..72).map(|_| endless()).collect();
    soon("the share is taken", || list(&server, ann) == 429);
    assert_eq!(list(&server, bob), 200);
    drop(waiting);
    soon("the share is free", || list(&server, ann) == 200);
}

fn users_take_turns() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let waiting = || server.metric("qwed_mcp_calls_waiting");
    let endless = || begin(&server, ann, "tools/call", script("import time; time.sleep(600)"));
    let first = endless();
    soon("the first script has the only turn", || server.metric("qwed_mcp_turns_free") == 0);
    let others: Vec<_> = (0..10).map(|_| endless()).collect();
    soon("ann's other scripts wait", || waiting() == 10);
    let mut of_bob = begin(&server, bob, "tools/call", script("print(6 * 7)"));
    soon("bob's script waits too", || waiting() == 11);
    drop(first);
    // In the order of arrival, bob's script would run only after ten of ann's scripts had timed out.
    let reply = of_bob.response().unwrap().json();
    assert!(reply["result"]["content"][0]["text"].as_str().unwrap().contains("42"), "{reply}");
    assert_eq!(waiting(), 9, "one of ann's scripts has the turn");
    drop(others);
}

/// Sends a script to a pipeline endpoint, on a new connection.
fn post(server: &HttpServer, token: &str, path: &str, line: &Value) -> Connection {
    let mut connection = server.connect();
    let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}{}", bearer(token));
    connection.begin(&head, &line.to_string());
    connection
}

fn run(server: &HttpServer, token: &str, line: &Value) -> Connection {
    post(server, token, "/run", line)
}

/// Sends a script to each endpoint whose scripts wait for a turn.
fn begin_on_each_route(server: &HttpServer, token: &str, code: &str) -> [Connection; 4] {
    let line = json!({ "code": code });
    [
        begin(server, token, "tools/call", script(code)),
        run(server, token, &line),
        post(server, token, "/batch", &line),
        post(server, token, "/run_code", &json!({ "code": code, "language": "python" })),
    ]
}

fn scripts_that_wait_delay_no_other_user_on_any_route() {
    let tokens = users();
    let server = tokens.server(&["--user-share", "50"]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let slow = "import time\ntime.sleep(0.5)";
    // A user may have at most eight batches.
    let waiting: Vec<_> = (0..7).map(|_| begin_on_each_route(&server, ann, slow)).collect();
    let more: Vec<_> = (0..33).map(|_| run(&server, ann, &json!({ "code": slow }))).collect();
    soon("most scripts wait", || server.metric("qwed_mcp_calls_waiting") >= 55);
    for mut connection in begin_on_each_route(&server, bob, "print(6 * 7)") {
        let response = connection.response().unwrap();
        let body = String::from_utf8(response.body).unwrap();
        assert!(response.status == 200 && body.contains("42"), "{body}");
    }
    // In the order of arrival, bob's scripts would have run last.
    let still_waiting = server.metric("qwed_mcp_calls_waiting");
    assert!(still_waiting > 30, "{still_waiting}");
    drop((waiting, more));
}

fn jobs_that_wait_delay_no_other_users_job() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let place = |token: &str, code: &str| {
        let mut params = script(code);
        params["arguments"]["background"] = json!(true);
        let reply = begin(&server, token, "tools/call", params).response().unwrap().json();
        reply["result"]["_meta"]["qwed.ai/job"]["job_id"].as_str().unwrap().to_owned()
    };
    for _ in 0..30 {
        place(ann, "import time\ntime.sleep(0.5)");
    }
    let job = place(bob, "print(6 * 7)");
    let status = json!({ "name": "verification_status", "arguments": { "job_id": job } });
    soon("bob's job has ended", || {
        let reply = server.stateless_as(bob, "tools/call", status.clone()).json();
        reply.to_string().contains("42")
    });
    let queued = server.metric("qwed_mcp_jobs{state=\"queued\"}");
    assert!(queued > 5, "{queued}");
}

fn each_test_of_a_line_has_a_turn_of_its_own() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    let turns_free = || server.metric("qwed_mcp_turns_free");
    let code = "import time\ntime.sleep(1)";
    let many = vec![json!({ "stdout": "" }); 12];
    let mut of_ann = run(&server, ann, &json!({ "code": code, "tests": many }));
    soon("ann's script has the only turn", || turns_free() == 0);
    let of_bob = run(&server, bob, &json!({ "code": "print(6 * 7)" })).response().unwrap().json();
    assert_eq!(of_bob["stdout"], "42", "{of_bob}");
    soon("ann's next test runs", || turns_free() == 0);
    let of_ann = of_ann.response().unwrap().json();
    assert_eq!((&of_ann["status"], &of_ann["passed"]), (&json!("ok"), &json!(true)), "{of_ann}");
    assert_eq!(of_ann["tests"].as_array().unwrap().len(), 12);
}

fn unread_answers_delay_only_their_own_user() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, bob] = &tokens.tokens[..] else { panic!() };
    // In JSON, each of these characters takes six bytes.
    let code = "import sys\nfor stream in sys.stdout, sys.stderr: stream.write('\\1' * 1_000_000)";
    let large = json!({ "code": code });
    let (one, lines) = (large.to_string(), format!("{large}\n").repeat(3));
    let small = || {
        let mut one = run(&server, ann, &json!({ "code": "print(6 * 7)" }));
        one.reads_within(Duration::from_secs(3))
    };
    for path in ["/run", "/batch"] {
        soon(path, small);
        let mut unread: Vec<Connection> = Vec::new();
        for _ in 0..2 {
            let mut connection = server.connect();
            let head = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n{JSON}{}", bearer(ann));
            connection.begin(&head, if path == "/run" { &one } else { &lines });
            unread.push(connection);
        }
        soon("ann waits", || !small());
        let of_bob = run(&server, bob, &json!({ "code": "print(6 * 7)" })).response().unwrap();
        assert_eq!(of_bob.json()["stdout"], "42");
        drop(unread);
        soon("ann is served again", small);
    }
}

fn long_lines_do_not_wait_for_each_other() {
    let tokens = users();
    let server = tokens.server(&[]);
    let [ann, _] = &tokens.tokens[..] else { panic!() };
    let line = json!({ "code": "print(len(input()))", "stdin": "x".repeat(3_000_000) }).to_string();
    // Together, the lines exceed a user's share. Each batch begins its line before another batch continues.
    let mut batches: Vec<_> = (0..4).map(|_| batch(&server, ann)).collect();
    let parts: Vec<&[u8]> = line.as_bytes().chunks(750_000).collect();
    let senders: Vec<_> = batches
        .iter()
        .map(|batch| {
            let mut stream = batch.stream.get_ref().try_clone().unwrap();
            let parts: Vec<Vec<u8>> = parts.iter().map(|part| part.to_vec()).collect();
            std::thread::spawn(move || {
                for part in parts {
                    write!(stream, "{:x}\r\n", part.len()).unwrap();
                    stream.write_all(&part).unwrap();
                    stream.write_all(b"\r\n").unwrap();
                    std::thread::sleep(Duration::from_millis(300));
                }
                stream.write_all(b"0\r\n\r\n").unwrap();
            })
        })
        .collect();
    for batch in &mut batches {
        let answers = batch.response().unwrap().lines();
        assert_eq!(answers[0]["stdout"], "3000000", "{answers:?}");
    }
    for sender in senders {
        sender.join().unwrap();
    }
}
