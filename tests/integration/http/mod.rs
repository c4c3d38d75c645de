//! Tests the server over HTTP: both eras of MCP (with sessions and stateless), authentication, refusals, and scripts of
//! pipelines.

mod figures;
mod hostile;
mod oauth;
mod pipelines;
mod protocol;
mod shared_tokens;
mod shares;
mod teams;
mod traces;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::governed::Governed;
use crate::harness::{Scratch, ServerBuilder, Test, alive_with_marker, deadline};

pub(crate) fn tests() -> Vec<Test> {
    let parts = [
        figures::tests(),
        hostile::tests(),
        oauth::tests(),
        pipelines::tests(),
        protocol::tests(),
        shares::tests(),
        shared_tokens::tests(),
        teams::tests(),
        traces::tests(),
    ];
    parts.into_iter().flatten().collect()
}

const BOTH: &str = "Accept: application/json, text/event-stream\r\n";
const JSON: &str = "Content-Type: application/json\r\n";
const STATELESS: &str = "2026-07-28";

struct HttpServer {
    child: Child,
    address: SocketAddr,
    admin: SocketAddr,
    log: Option<JoinHandle<String>>,
    scratch: Scratch,
}

#[derive(Debug, Clone)]
struct Response {
    status: u16,
    /// The status line and the headers, in lower case.
    head: String,
    body: Vec<u8>,
}

/// A client's connection to a server.
struct Connection {
    stream: BufReader<TcpStream>,
}

impl HttpServer {
    fn start(builder: ServerBuilder, options: &[&str]) -> Self {
        let scratch = Scratch::new();
        let folder = scratch.path().to_str().unwrap().to_owned();
        let path = format!("{}:{folder}", std::env::var("PATH").unwrap());
        let builder = builder.variable("TMPDIR", &folder).variable("PATH", &path);
        let mut command = builder.command();
        command.args(["serve", "--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"]).args(options);
        Self::of(command, scratch)
    }

    fn of(mut command: Command, scratch: Scratch) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut seen = String::new();
        let address = listening(&mut stderr, &mut seen);
        let admin = listening(&mut stderr, &mut seen);
        let log = std::thread::spawn(move || {
            let mut rest = Vec::new();
            let _ = stderr.read_to_end(&mut rest);
            seen + &String::from_utf8_lossy(&rest)
        });
        Self { child, address, admin, log: Some(log), scratch }
    }

    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn connect(&self) -> Connection {
        Connection::to(self.address)
    }

    fn send(&self, head: &str, body: &str) -> Response {
        self.connect().send(head, body)
    }

    /// Posts a message of the older era of MCP, which has sessions.
    fn post(&self, headers: &str, message: &Value) -> Response {
        self.send(&format!("POST /mcp HTTP/1.1\r\n{JSON}{BOTH}{headers}"), &message.to_string())
    }

    fn stateless(&self, method: &str, params: Value) -> Response {
        let (head, body) = stateless(method, params);
        self.send(&head, &body)
    }

    fn stateless_as(&self, token: &str, method: &str, params: Value) -> Response {
        let (head, body) = stateless(method, params);
        self.send(&format!("{head}{}", bearer(token)), &body)
    }

    /// Runs a script in the stateless era. Returns the first text of the result.
    fn run(&self, code: &str) -> String {
        let response = self.stateless("tools/call", script(code));
        let text = &response.json()["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{response:?}")).to_owned()
    }

    /// Opens a session of the older era. Returns the session id.
    fn session(&self) -> String {
        let response = self.post("", &initialize());
        assert_eq!(response.status, 200, "{response:?}");
        response.header("mcp-session-id").unwrap()
    }

    fn admin(&self, path: &str) -> Response {
        Connection::to(self.admin).send(&format!("GET {path} HTTP/1.1\r\n"), "")
    }

    /// Returns the number of script processes.
    fn scripts(&self) -> usize {
        alive_with_marker(self.scratch.path()).len()
    }

    /// Ends the server with SIGTERM, and returns its log.
    fn end(mut self) -> String {
        kill(self.process(), Signal::SIGTERM).unwrap();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status:?}");
        self.log.take().unwrap().join().unwrap()
    }

    /// Waits until scripts can run. Before that, the processes that test the sandbox would count as scripts.
    fn wait_until_ready(&self) {
        soon("the server is ready", || self.admin("/readyz").status == 200);
    }

    /// Returns the value of a metric. `sample` is the name of the metric with the labels in braces. Panics if the
    /// server does not report this metric.
    fn metric(&self, sample: &str) -> u64 {
        let metrics = String::from_utf8(self.admin("/metrics").body).unwrap();
        let value = metrics.lines().find_map(|line| line.strip_prefix(&format!("{sample} ")));
        value.unwrap_or_else(|| panic!("{sample}: {metrics}")).parse().unwrap()
    }

    fn wait(mut self) {
        assert!(self.child.wait().unwrap().success());
    }

    fn process(&self) -> Pid {
        Pid::from_raw(self.pid().try_into().unwrap())
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads the log until it contains the server's address. Returns the address.
fn listening(stderr: &mut BufReader<ChildStderr>, seen: &mut String) -> SocketAddr {
    loop {
        let mut line = String::new();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "the server exited: {seen}");
        seen.push_str(&line);
        if let Some((_, urls)) =
            line.split_once(" INFO qwed_mcp::http::addresses: serving over HTTP ")
        {
            let address = urls.split('/').nth(2).unwrap();
            return address.parse().unwrap();
        }
    }
}

impl Connection {
    fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(deadline(Duration::from_secs(60)))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream: BufReader::new(stream) }
    }

    /// Sends this request repeatedly without reading responses, until all buffers are full.
    fn unread(address: SocketAddr, request: &[u8]) -> Self {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // Sets the size before the connection, because the client announces its receive window when it connects.
        socket.set_recv_buffer_size(2048).unwrap();
        socket.connect(&address.into()).unwrap();
        let mut this = Self { stream: BufReader::new(TcpStream::from(socket)) };
        this.stream.get_mut().set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let error = loop {
            if let Err(error) = this.write(request) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
        this
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.get_mut().write_all(bytes)
    }

    /// Sends a request with these headers, a `Host` header if it is missing, and the length of the body.
    fn begin(&mut self, head: &str, body: &str) {
        let host = if head.contains("Host:") { "" } else { "Host: localhost\r\n" };
        let request = format!("{head}{host}Content-Length: {}\r\n\r\n{body}", body.len());
        self.write(request.as_bytes()).unwrap();
    }

    fn send(&mut self, head: &str, body: &str) -> Response {
        self.begin(head, body);
        self.response().expect("a response")
    }

    /// Reads a response, or returns `None` if the server has closed the connection.
    fn response(&mut self) -> Option<Response> {
        let head = self.head()?;
        let status = head.split(' ').nth(1)?.parse().ok()?;
        let mut response = Response { status, head, body: Vec::new() };
        if let Some(length) = response.header("content-length") {
            response.body = vec![0; length.parse().unwrap()];
            self.stream.read_exact(&mut response.body).ok()?;
        } else if response.header("transfer-encoding").is_some() {
            while let Some(chunk) = self.chunk() {
                response.body.extend(chunk);
            }
        }
        Some(response)
    }

    /// Returns whether a response begins within this time. Unlike other limits, this time does not grow with the
    /// load.
    fn reads_within(&mut self, time: Duration) -> bool {
        self.stream.get_mut().set_read_timeout(Some(time)).unwrap();
        self.head().is_some()
    }

    fn head(&mut self) -> Option<String> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.stream.read_line(&mut head).ok()? == 0 {
                return None;
            }
        }
        Some(head.to_lowercase())
    }

    /// Reads a chunk of a chunked body, or returns `None` at its end.
    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut length = String::new();
        self.stream.read_line(&mut length).ok()?;
        let length = usize::from_str_radix(length.trim(), 16).ok()?;
        let mut chunk = vec![0; length + 2];
        self.stream.read_exact(&mut chunk).ok()?;
        chunk.truncate(length);
        (length > 0).then_some(chunk)
    }
}

impl Response {
    fn header(&self, name: &str) -> Option<String> {
        let line = self.head.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
        line.map(|value| value.trim().to_owned())
    }

    /// Returns the JSON of the body, or of the last event of a stream.
    fn json(&self) -> Value {
        let text = String::from_utf8_lossy(&self.body);
        let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        serde_json::from_str(last.unwrap_or(&text)).unwrap_or_else(|_| panic!("{self:?}"))
    }

    /// Returns the JSON object of each line.
    fn lines(&self) -> Vec<Value> {
        let text = String::from_utf8_lossy(&self.body).into_owned();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

fn initialize() -> Value {
    json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" },
    } })
}

fn script(code: &str) -> Value {
    json!({ "name": "execute_python_code", "arguments": { "code": code } })
}

fn request(id: i64, method: &str, params: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Returns the head and the body of a request of the stateless era.
fn stateless(method: &str, mut params: Value) -> (String, String) {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": STATELESS,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    for (key, value) in meta.as_object().unwrap() {
        params["_meta"][key] = value.clone();
    }
    let name = params["name"].as_str().or(params["uri"].as_str());
    let name = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
    let head = format!(
        "POST /mcp HTTP/1.1\r\n{JSON}{BOTH}MCP-Protocol-Version: {STATELESS}\r\nMcp-Method: {method}\r\n{name}"
    );
    (head, request(1, method, &params).to_string())
}

fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

/// Starts two servers with the same database and different data folders.
fn two_replicas(governed: &Governed) -> [HttpServer; 2] {
    let elsewhere = governed.beside("elsewhere");
    let other = governed.server().variable("QWED_MCP_DATA_DIR", elsewhere.to_str().unwrap());
    [governed.server(), other].map(|builder| HttpServer::start(builder, &["--require-token"]))
}

#[track_caller]
fn soon(what: &str, condition: impl Fn() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < deadline(Duration::from_secs(20)), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
