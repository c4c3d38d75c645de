//! Starts the real binary and exchanges MCP messages with it.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::{Scratch, binary, deadline, is_over, is_root, public, public_python, python};

/// The maximum time until the interpreters are warm.
const WARM_TIMEOUT: Duration = Duration::from_secs(60);

/// The environment variable with the timeout of a synchronous call, in ms.
pub(crate) const SYNC_TIMEOUT: &str = "QWED_MCP_TEST_SYNC_TIMEOUT_MS";

/// The maximum time to wait for a reply. It is longer than the longest timeout of a call.
const REPLY_TIMEOUT: Duration = Duration::from_secs(240);

/// The settings of a server to start.
#[derive(Debug, Clone)]
pub(crate) struct ServerBuilder {
    variables: Vec<(String, String)>,
    /// The current folder of the server. `None` is the current folder of the tests.
    folder: Option<PathBuf>,
    /// The UID of the server. `None` is the user of the tests.
    user: Option<u32>,
    /// The path of the program. `None` is the binary under test.
    path: Option<PathBuf>,
}

impl ServerBuilder {
    /// Creates the settings of a server that may run code with the tests' interpreter. The server's environment has
    /// only these variables and `PATH`.
    pub(crate) fn new() -> Self {
        Self::of_interpreter(python())
    }

    /// Like [`Self::new`], with another interpreter.
    pub(crate) fn of_interpreter(python: &Path) -> Self {
        let mut builder = Self { variables: Vec::new(), folder: None, user: None, path: None };
        if !is_root() {
            // Lets tests inspect the server's file descriptors.
            builder = builder.variable("QWED_MCP_TEST_DUMPABLE", "1");
        }
        builder
            .variable("PATH", &std::env::var("PATH").unwrap())
            .variable("QWED_MCP_TRUSTED_CODE_EXECUTION", "true")
            // Makes every run cold. With warm interpreters, timing would decide whether a run is warm or cold.
            .variable("QWED_MCP_WARM", "off")
            // On a busy machine, some scripts need more than 30 s.
            .variable(SYNC_TIMEOUT, "200000")
            .variable("QWED_MCP_PYTHON", python.to_str().unwrap())
    }

    /// Switches the analysis off, for tests with harmful code.
    pub(crate) fn unchecked(self) -> Self {
        self.variable("QWED_MCP_TEST_UNCHECKED_CODE", "1")
    }

    /// Keeps interpreters warm with these modules. Wait for them with [`McpProcess::wait_until_warm`].
    pub(crate) fn warm(self, modules: &str) -> Self {
        self.variable("QWED_MCP_WARM", "on").variable("QWED_MCP_PRELOAD", modules)
    }

    /// Runs the server with this UID and GID. The tests must run as root.
    pub(crate) fn with_user(mut self, user: u32) -> Self {
        self.user = Some(user);
        self
    }

    /// Starts the program at this path: a copy of the binary, or a symlink to it.
    pub(crate) fn started_by(mut self, path: &Path) -> Self {
        self.path = Some(path.to_owned());
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Starts the server in this folder, as a client does with an open project.
    pub(crate) fn in_folder(mut self, folder: &Path) -> Self {
        self.folder = Some(folder.to_owned());
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.variables.retain(|(known, _)| known != name);
        self
    }

    /// Returns the command, for tests that manage the process themselves.
    pub(crate) fn command(&self) -> Command {
        let own = || if self.user.is_some() { public(&binary()) } else { binary() };
        let mut command = Command::new(self.path.clone().unwrap_or_else(own));
        command.env_clear().envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }

    /// Starts the server with pipes, for tests that read and write the pipes themselves.
    pub(crate) fn spawn(&self) -> Child {
        let mut command = self.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// Returns the settings of two servers: one without the sandbox, and one at tier 2. Both use an interpreter that
    /// every user can start.
    pub(crate) fn below_tier_3(self) -> [Self; 2] {
        let python = public_python().expect("the test needs PublicPython");
        let builder = self.variable("QWED_MCP_PYTHON", python.to_str().unwrap());
        let off = builder.clone().variable("QWED_MCP_SANDBOX", "off");
        [off, builder.variable("QWED_MCP_TEST_KERNEL_LACKS", "namespaces")]
    }

    /// Runs these lines as a batch, and returns their answers in the same order.
    pub(crate) fn batch(&self, lines: &[Value]) -> Vec<Value> {
        let mut command = self.command();
        command.args(["run", "--batch", "-", "--ordered"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut batch = command.spawn().unwrap();
        let mut stdin = batch.stdin.take().unwrap();
        for line in lines {
            writeln!(stdin, "{line}").unwrap();
        }
        drop(stdin);
        let answers = String::from_utf8(batch.wait_with_output().unwrap().stdout).unwrap();
        answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Starts the server without a handshake.
    pub(crate) fn start(self) -> McpProcess {
        let scratch = Scratch::new();
        if let Some(user) = self.user {
            std::os::unix::fs::chown(scratch.path(), Some(user), Some(user)).unwrap();
        }
        let folder = scratch.path().to_str().unwrap();
        let path = self.variables.iter().find(|(name, _)| name == "PATH");
        let marked = path.map(|(_, path)| format!("{path}:{folder}"));
        let builder = self.variable("TMPDIR", folder);
        // `alive_with_marker` finds the server's script processes by this `PATH`, which contains the server's `TMPDIR`.
        let builder = match marked {
            Some(path) => builder.variable("PATH", &path),
            None => builder,
        };
        McpProcess::of(builder.command(), scratch)
    }

    /// Starts the server, and performs the handshake of the newest revision that has a handshake.
    pub(crate) fn connect(self) -> McpProcess {
        let mut server = self.start();
        server.initialize("2025-11-25");
        server
    }
}

#[derive(Debug)]
pub(crate) struct McpProcess {
    child: Child,
    stdin: Option<ChildStdin>,
    received: Receiver<Result<Value, String>>,
    log: Option<JoinHandle<String>>,
    /// Messages that arrived while the test waited for another message.
    unclaimed: VecDeque<Value>,
    last_id: i64,
    /// The `TMPDIR` of the server.
    pub(crate) scratch: Scratch,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CallResult {
    pub(crate) texts: Vec<String>,
    /// The pictures, which follow the texts.
    pub(crate) pictures: Vec<Vec<u8>>,
    pub(crate) is_error: bool,
    pub(crate) meta: Value,
}

impl CallResult {
    pub(crate) fn from_reply(reply: &Value) -> Self {
        let result = reply.get("result").unwrap_or_else(|| panic!("no result in {reply}"));
        assert!(result.get("structuredContent").is_none(), "{result}");
        let blocks = result["content"].as_array().unwrap();
        let is_text = |block: &&Value| block["type"] == "text";
        let (texts, pictures) = blocks.split_at(blocks.iter().take_while(is_text).count());
        let picture = |block: &Value| {
            assert_eq!(
                (&block["type"], &block["mimeType"]),
                (&json!("image"), &json!("image/png"))
            );
            BASE64_STANDARD.decode(block["data"].as_str().unwrap()).unwrap()
        };
        Self {
            texts: texts.iter().map(|block| block["text"].as_str().unwrap().to_owned()).collect(),
            pictures: pictures.iter().map(picture).collect(),
            is_error: result["isError"].as_bool().unwrap(),
            meta: result["_meta"].clone(),
        }
    }

    /// Returns the first text of a result. Asserts that at most a note about the script's checks follows this text.
    pub(crate) fn text(&self) -> &str {
        let is_note =
            |text: &String| text.starts_with("Nothing was verified: ") || text.starts_with("line ");
        let (first, others) = self.texts.split_first().unwrap();
        assert!(others.len() <= 1 && others.iter().all(is_note), "{:?}", self.texts);
        first
    }

    pub(crate) fn execution(&self) -> &Value {
        &self.meta["qwed.ai/execution"]
    }
}

impl McpProcess {
    /// Starts a server with this command, as a client would.
    pub(crate) fn of_command(mut command: Command) -> Self {
        let scratch = Scratch::new();
        command.env("TMPDIR", scratch.path());
        Self::of(command, scratch)
    }

    fn of(mut command: Command, scratch: Scratch) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        let mut stderr = child.stderr.take().unwrap();
        let (lines, received) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.split(b'\n') {
                let Ok(line) = line else { return };
                // Standard output must contain only JSON-RPC, so each line is parsed here.
                let message = serde_json::from_slice(&line)
                    .map_err(|error| format!("{error} in {:?}", String::from_utf8_lossy(&line)));
                if lines.send(message).is_err() {
                    return;
                }
            }
        });
        let log = thread::spawn(move || {
            let mut log = Vec::new();
            let _ = stderr.read_to_end(&mut log);
            String::from_utf8_lossy(&log).into_owned()
        });
        Self {
            child,
            stdin,
            received,
            log: Some(log),
            unclaimed: VecDeque::new(),
            last_id: 0,
            scratch,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn initialize(&mut self, version: &str) -> Value {
        let reply = self.request(
            "initialize",
            &json!({
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" }
            }),
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        reply["result"].clone()
    }

    /// Sends these bytes without a line end.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let stdin = self.stdin.as_mut().expect("the input is open");
        stdin.write_all(bytes).unwrap();
        stdin.flush().unwrap();
    }

    pub(crate) fn send(&mut self, message: &Value) {
        let mut line = message.to_string();
        line.push('\n');
        self.send_bytes(line.as_bytes());
    }

    /// Sends a request and returns its id.
    pub(crate) fn start_request(&mut self, method: &str, params: &Value) -> i64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    pub(crate) fn request(&mut self, method: &str, params: &Value) -> Value {
        let id = self.start_request(method, params);
        self.reply(id)
    }

    pub(crate) fn start_call(&mut self, tool: &str, arguments: &Value) -> i64 {
        self.start_request("tools/call", &json!({ "name": tool, "arguments": arguments }))
    }

    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> CallResult {
        let id = self.start_call(tool, arguments);
        CallResult::from_reply(&self.reply(id))
    }

    pub(crate) fn execute(&mut self, code: &str) -> CallResult {
        self.call("execute_python_code", &json!({ "code": code }))
    }

    /// Starts a synchronous call with a script. Returns the id of the request.
    pub(crate) fn start_execute(&mut self, code: &str) -> i64 {
        self.start_call("execute_python_code", &json!({ "code": code }))
    }

    /// Places a background job and returns its id.
    pub(crate) fn place(&mut self, code: &str) -> String {
        let arguments = json!({ "code": code, "background": true });
        let result = self.call("execute_python_code", &arguments);
        let text = result.text();
        let job_id = text
            .strip_prefix("Verification order is being placed for the request ")
            .and_then(|rest| {
                rest.strip_suffix(". Check back using the 'verification_status' tool.")
            })
            .unwrap_or_else(|| panic!("{text}"));
        assert_eq!(job_id.len(), 36);
        job_id.to_owned()
    }

    pub(crate) fn status(&mut self, job_id: &str) -> CallResult {
        self.call("verification_status", &json!({ "job_id": job_id }))
    }

    /// Polls a job until it has ended.
    pub(crate) fn wait_for_job(&mut self, job_id: &str) -> CallResult {
        let started = Instant::now();
        loop {
            let result = self.status(job_id);
            if !matches!(result.texts[0].as_str(), "Status: queued..." | "Status: running...") {
                return result;
            }
            assert!(!is_over(started, REPLY_TIMEOUT), "the job does not end");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn cancel(&mut self, id: i64) {
        self.send(&json!({
            "jsonrpc": "2.0",
            "method": "notifications/cancelled",
            "params": { "requestId": id, "reason": "test" }
        }));
    }

    pub(crate) fn reply(&mut self, id: i64) -> Value {
        self.message_where(|message| message["id"] == id)
    }

    /// Waits for a message that satisfies a condition. Stores all other messages.
    pub(crate) fn message_where(&mut self, fits: impl Fn(&Value) -> bool) -> Value {
        if let Some(position) = self.unclaimed.iter().position(&fits) {
            return self.unclaimed.remove(position).unwrap();
        }
        let deadline = Instant::now() + deadline(REPLY_TIMEOUT);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(message) = self.receive(left) else {
                panic!("no message in time, or the server has ended: {:?}", self.child.try_wait());
            };
            if fits(&message) {
                return message;
            }
            self.unclaimed.push_back(message);
        }
    }

    /// Returns the reply to a request if it has already arrived, while the test waited for another message.
    pub(crate) fn unclaimed_reply(&mut self, id: i64) -> Option<Value> {
        let position = self.unclaimed.iter().position(|message| message["id"] == id)?;
        self.unclaimed.remove(position)
    }

    /// Returns the next message in the order of arrival, or `None`.
    pub(crate) fn next_message(&mut self, limit: Duration) -> Option<Value> {
        self.unclaimed.pop_front().or_else(|| self.receive(limit))
    }

    /// Returns the last message before the end of the server's output. The server must be about to exit.
    pub(crate) fn last_message(&mut self) -> Option<Value> {
        let mut last = self.unclaimed.pop_back();
        loop {
            match self.received.recv_timeout(deadline(REPLY_TIMEOUT)) {
                Ok(message) => {
                    last = Some(message.unwrap_or_else(|error| panic!("on stdout: {error}")));
                }
                Err(RecvTimeoutError::Disconnected) => return last,
                Err(RecvTimeoutError::Timeout) => panic!("the output does not end"),
            }
        }
    }

    fn receive(&mut self, limit: Duration) -> Option<Value> {
        match self.received.recv_timeout(limit) {
            Ok(message) => Some(message.unwrap_or_else(|error| panic!("on stdout: {error}"))),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Waits until scripts run in warm interpreters.
    pub(crate) fn wait_until_warm(&mut self) {
        let started = Instant::now();
        while self.execute("print(1)").execution()["warm"] != true {
            assert!(!is_over(started, WARM_TIMEOUT), "interpreters stay cold");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Runs a script in a warm interpreter. Repeats a cold run, because the server may end a fork server while other
    /// tests keep the processors busy.
    pub(crate) fn execute_warm(&mut self, code: &str) -> CallResult {
        let result = self.execute(code);
        if result.execution()["warm"] != false {
            return result;
        }
        self.wait_until_warm();
        self.execute(code)
    }

    pub(crate) fn assert_alive(&mut self) {
        let reply = self.request("ping", &json!({}));
        assert_eq!(reply["result"], json!({}), "{reply}");
    }

    pub(crate) fn close_input(&mut self) {
        drop(self.stdin.take());
    }

    /// Sends a signal, given by its name without `SIG`, such as `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let signal: nix::sys::signal::Signal = format!("SIG{name}").parse().unwrap();
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid()).unwrap());
        nix::sys::signal::kill(pid, signal).unwrap();
    }

    /// Waits until the process has exited. Panics if the process still runs long after `limit`.
    pub(crate) fn wait_for_exit(&mut self, limit: Duration) -> ExitStatus {
        let started = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(!is_over(started, limit), "the server does not end");
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Closes the input, asserts that the server exits with 0, and returns the log.
    pub(crate) fn finish(mut self) -> String {
        self.close_input();
        let status = self.wait_for_exit(Duration::from_secs(10));
        assert_eq!(status.code(), Some(0));
        while let Some(message) = self.receive(Duration::from_secs(5)) {
            self.unclaimed.push_back(message);
        }
        self.log()
    }

    /// Returns the log. The process must have exited.
    pub(crate) fn log(&mut self) -> String {
        self.log.take().expect("asked once").join().unwrap()
    }
}

impl Drop for McpProcess {
    fn drop(&mut self) {
        // If the test has failed, the server still runs.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
