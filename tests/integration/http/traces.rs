//! Tests the traces of calls that a collector receives.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Attribute;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use serde_json::{Value, json};

use super::{HttpServer, JSON, script};
use crate::harness::{ServerBuilder, deadline};
use crate::receipts::Receipts;

tests! {
    needs [Sandbox]:
        a_call_is_a_part_of_its_callers_trace,
        a_team_server_has_traces_too,
        a_script_of_a_pipeline_is_recorded_like_a_call,
        without_a_collector_nothing_is_sent,
        a_missing_collector_delays_nothing;
}

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A collector that receives OTLP over HTTP.
struct Collector {
    address: String,
    requests: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let requests = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&requests);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = BufReader::new(stream.unwrap());
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).unwrap() > 0 {}
                let length = head.to_lowercase();
                let length = length.lines().find_map(|line| line.strip_prefix("content-length:"));
                let mut body = vec![0; length.unwrap().trim().parse().unwrap()];
                stream.read_exact(&mut body).unwrap();
                let request = ExportTraceServiceRequest::decode(&body[..]).unwrap();
                taken.lock().unwrap().push((head, request));
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
                stream.get_mut().write_all(answer).unwrap();
            }
        });
        Self { address, requests }
    }

    fn spans(&self) -> Vec<Span> {
        let requests = self.requests.lock().unwrap();
        let resources = requests.iter().flat_map(|(_, request)| &request.resource_spans);
        let scopes = resources.flat_map(|resource| &resource.scope_spans);
        scopes.flat_map(|scope| scope.spans.clone()).collect()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

fn attribute(span: &Span, name: &str) -> Value {
    let found = span.attributes.iter().find(|it| it.key == name);
    match found.and_then(|it| it.value.as_ref()?.value.as_ref()) {
        Some(Attribute::StringValue(text)) => json!(text),
        Some(Attribute::BoolValue(value)) => json!(value),
        Some(Attribute::IntValue(value)) => json!(value),
        other => {
            assert!(other.is_none(), "{name}: {other:?}");
            Value::Null
        }
    }
}

fn a_call_is_a_part_of_its_callers_trace() {
    let collector = Collector::new();
    let mut server = ServerBuilder::new()
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address)
        .variable("OTEL_EXPORTER_OTLP_HEADERS", "x-key=let-me-in")
        .connect();
    for code in ["print('a secret of the script')", "import os\nos.system('id')"] {
        let mut params = script(code);
        params["_meta"] = json!({ "traceparent": format!("00-{TRACE}-{PARENT}-01") });
        server.request("tools/call", &params);
    }
    server.execute("print(1)");
    server.close_input();
    server.last_message();
    let spans = collector.spans();
    let calls: Vec<_> = spans.iter().filter(|span| span.name.starts_with("tools/call")).collect();
    let [ran, refused, alone] = &calls[..] else { panic!("{spans:?}") };
    for call in [ran, refused] {
        assert_eq!(call.name, "tools/call execute_python_code");
        assert_eq!(
            (hex(&call.trace_id).as_str(), hex(&call.parent_span_id).as_str()),
            (TRACE, PARENT)
        );
        // 2 is the kind of a server's span (`SPAN_KIND_SERVER`).
        assert_eq!(call.kind, 2);
        for (name, expected) in [
            ("mcp.method.name", json!("tools/call")),
            ("gen_ai.operation.name", json!("execute_tool")),
            ("gen_ai.tool.name", json!("execute_python_code")),
            ("network.transport", json!("pipe")),
        ] {
            assert_eq!(attribute(call, name), expected, "{name}");
        }
    }
    assert_ne!(hex(&alone.trace_id), TRACE);
    assert!(alone.parent_span_id.is_empty());
    assert_eq!(attribute(ran, "qwed.decision.status"), "ALLOW_VERIFIED");
    assert_eq!(attribute(ran, "qwed.exit_code"), 0);
    assert!(attribute(ran, "qwed.sandbox.tier").is_string());
    assert_eq!(attribute(ran, "error.type"), Value::Null);
    assert_eq!(attribute(refused, "error.type"), "tool_error");
    assert_eq!(refused.status.as_ref().unwrap().code, 2);
    let children = |of: &Span| {
        let own = spans.iter().filter(|span| span.parent_span_id == of.span_id);
        own.map(|span| span.name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(children(ran), ["gateway.decide", "queue.wait", "sandbox.run"]);
    assert_eq!(children(refused), ["gateway.decide"]);
    let all = format!("{spans:?}");
    for hidden in ["a secret of the script", "os.system", "print("] {
        assert!(!all.contains(hidden), "{hidden}: {all}");
    }
    let requests = collector.requests.lock().unwrap();
    let (head, request) = &requests[0];
    assert!(head.starts_with("POST /v1/traces ") && head.contains("x-key: let-me-in"), "{head}");
    let resource = request.resource_spans[0].resource.as_ref().unwrap();
    let name = resource.attributes.iter().find(|it| it.key == "service.name").unwrap();
    assert!(format!("{name:?}").contains("\"qwed-mcp\""), "{name:?}");
}

fn a_team_server_has_traces_too() {
    let collector = Collector::new();
    let builder = ServerBuilder::new()
        .variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &format!("{}/here", collector.address))
        .variable("OTEL_SERVICE_NAME", "verification");
    let server = HttpServer::start(builder, &[]);
    assert!(server.run("print(6 * 7)").contains("42"));
    server.end();
    let spans = collector.spans();
    let call = spans.iter().find(|span| span.name.starts_with("tools/call")).unwrap();
    assert_eq!(attribute(call, "network.transport"), "tcp");
    assert_eq!(attribute(call, "network.protocol.name"), "http");
    assert_eq!(attribute(call, "mcp.protocol.version"), super::STATELESS);
    let requests = collector.requests.lock().unwrap();
    assert!(requests[0].0.starts_with("POST /here "));
    assert!(format!("{:?}", requests[0].1.resource_spans[0].resource).contains("verification"));
}

/// Checks the spans, the entry in the bill of materials, and the receipt, for a run and for a refusal.
fn a_script_of_a_pipeline_is_recorded_like_a_call() {
    let (collector, receipts) = (Collector::new(), Receipts::new());
    let bill = receipts.path("bill.json");
    let builder = receipts
        .server()
        .variable("QWED_MCP_AIBOM", bill.to_str().unwrap())
        .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address);
    let server = HttpServer::start(builder, &[]);
    let run = |code: &str| {
        let body = json!({ "code": code }).to_string();
        server.send(&format!("POST /run HTTP/1.1\r\n{JSON}"), &body).json()
    };
    assert_eq!(run("import os\nos.system('id')")["status"], "blocked");
    let decisions = || {
        let days = fs::read_dir(receipts.path("receipts")).unwrap();
        let days = days.map(|day| day.unwrap().path()).filter(|day| day.is_dir());
        let files = days.flat_map(|day| fs::read_dir(day).unwrap());
        let files = files.map(|file| file.unwrap().path().display().to_string());
        let shown = |file: String| receipts.command(&["receipt", "show", &file]).stdout;
        files.map(|file| String::from_utf8(shown(file)).unwrap()).collect::<Vec<_>>()
    };
    let refused = decisions();
    assert!(refused.len() == 1 && refused[0].contains("QWED-MCP-RISK-005"), "{refused:?}");
    assert_eq!(run("print(6 * 7)")["stdout"], "42");
    assert_eq!(decisions().len(), 2);
    server.end();
    let names: Vec<_> = collector.spans().into_iter().map(|span| span.name).collect();
    assert_eq!(names, ["gateway.decide", "gateway.decide", "queue.wait", "sandbox.run"]);
    let bill = fs::read_to_string(bill).unwrap();
    assert!(bill.contains("execute_python_code"), "{bill}");
}

fn without_a_collector_nothing_is_sent() {
    let collector = Collector::new();
    for (name, value) in [
        ("OTEL_SERVICE_NAME", "verification"),
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
    ] {
        let mut builder = ServerBuilder::new().variable(name, value);
        if name != "OTEL_SERVICE_NAME" {
            builder = builder.variable("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.address);
        }
        let mut server = builder.connect();
        server.execute("print(1)");
        server.close_input();
        server.last_message();
        assert!(collector.requests.lock().unwrap().is_empty(), "{name}");
    }
}

fn a_missing_collector_delays_nothing() {
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [gone, silent.local_addr().unwrap()] {
        let builder = ServerBuilder::new()
            .variable("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}"));
        let mut command = builder.command();
        let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let call = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
            "name": "verification_status", "arguments": { "job_id": "x" }, "_meta": {
                "io.modelcontextprotocol/protocolVersion": super::STATELESS,
                "io.modelcontextprotocol/clientCapabilities": {} } } });
        let mut stdin = child.stdin.take().unwrap();
        writeln!(stdin, "{call}").unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        assert!(answer.contains("\"id\":1"), "{answer}");
        let ended = Instant::now();
        drop(stdin);
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(ended.elapsed() < deadline(Duration::from_secs(4)), "{:?}", ended.elapsed());
    }
}
