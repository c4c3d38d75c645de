//! Tests access tokens of an authorization server: which tokens are accepted, and how clients find the authorization
//! server. A Python library, which is independent of the server, signs the tokens.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::{HttpServer, JSON, Response, bearer, soon};
use crate::governed::Governed;
use crate::harness::{ServerBuilder, binary, python, root};

tests! {
    needs [Python]:
        an_issuer_that_cannot_be_reached_lets_nobody_in;
    needs [Python, Packages]:
        valid_tokens_of_every_algorithm_are_accepted,
        invalid_tokens_are_refused,
        scopes_set_the_role_of_a_user,
        clients_learn_where_to_get_a_token,
        keys_are_fetched_and_updated,
        keys_are_fetched_only_with_a_trusted_certificate,
        governed_tools_use_the_role_of_the_access_token,
        unsafe_settings_are_refused_at_start;
}

const ISSUER: &str = "https://id.example.org";
const AUDIENCE: &str = "https://mcp.example.org/mcp";

/// An authorization server and its keys.
struct Issuer {
    folder: tempfile::TempDir,
    keys: Vec<Value>,
}

impl Issuer {
    fn new(keys: &[(&str, &str)]) -> Self {
        let keys = keys.iter().map(|(kid, alg)| json!({ "kid": kid, "alg": alg })).collect();
        let issuer = Self { folder: tempfile::tempdir().unwrap(), keys };
        std::fs::write(issuer.jwks(), issuer.document()).unwrap();
        issuer
    }

    fn jwks(&self) -> PathBuf {
        self.folder.path().join("jwks.json")
    }

    fn program(&self) -> Command {
        let mut command = Command::new(python());
        command.arg(root().join("tests/integration/http/issuer.py")).arg(self.folder.path());
        command
    }

    fn make(&self, tokens: &[Value]) -> Value {
        let mut child =
            self.program().stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let wanted = json!({ "keys": self.keys, "tokens": tokens }).to_string();
        child.stdin.take().unwrap().write_all(wanted.as_bytes()).unwrap();
        let made = child.wait_with_output().unwrap();
        assert!(made.status.success());
        serde_json::from_slice(&made.stdout).unwrap()
    }

    fn document(&self) -> String {
        self.make(&[])["jwks"].to_string()
    }

    fn tokens(&self, wanted: &[Value]) -> Vec<String> {
        let made = self.make(wanted);
        let tokens = made["tokens"].as_array().unwrap();
        tokens.iter().map(|token| token.as_str().unwrap().to_owned()).collect()
    }

    fn options(jwks: &str) -> Vec<String> {
        ["--oidc-issuer", ISSUER, "--oidc-audience", AUDIENCE, "--oidc-jwks", jwks]
            .map(str::to_owned)
            .to_vec()
    }

    fn server(jwks: &str) -> HttpServer {
        start(ServerBuilder::new(), &Self::options(jwks))
    }

    fn server_with_file(&self) -> HttpServer {
        Self::server(self.jwks().to_str().unwrap())
    }
}

fn start(builder: ServerBuilder, options: &[String]) -> HttpServer {
    HttpServer::start(builder, &options.iter().map(String::as_str).collect::<Vec<_>>())
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs()
}

/// Returns the claims of a valid token, changed by `more`. A null value removes a claim.
fn claims(more: &Value) -> Value {
    let mut claims = json!({
        "iss": ISSUER, "aud": AUDIENCE, "exp": now() + 600, "iat": now(), "sub": "ann",
        "scope": "openid qwed:user",
    });
    for (name, value) in more.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims.as_object_mut().unwrap().retain(|_, value| !value.is_null());
    claims
}

fn wanted(alg: &str, key: &str, more: &Value) -> Value {
    json!({ "alg": alg, "key": key, "claims": claims(more) })
}

fn list(server: &HttpServer, token: &str) -> Response {
    server.stateless_as(token, "tools/list", json!({}))
}

fn run(server: &HttpServer, token: &str) -> Response {
    let head = format!("POST /run HTTP/1.1\r\n{JSON}{}", bearer(token));
    server.send(&head, r#"{"code":"print(6 * 7)"}"#)
}

const ALL: [(&str, &str); 5] =
    [("r", "RS256"), ("p", "PS256"), ("e", "ES256"), ("f", "ES384"), ("d", "EdDSA")];

fn valid_tokens_of_every_algorithm_are_accepted() {
    let issuer = Issuer::new(&ALL);
    let server = issuer.server_with_file();
    let good = json!({});
    let mut all: Vec<_> = ALL.iter().map(|(key, alg)| wanted(alg, key, &good)).collect();
    // The values of these claims differ between authorization servers.
    for more in [
        json!({ "aud": ["https://other.example.org", AUDIENCE] }),
        json!({ "scope": null, "scp": ["qwed:user"] }),
        json!({ "scope": null, "roles": ["qwed:admin"] }),
        json!({ "exp": now() - 10 }),
        json!({ "nbf": now() + 10 }),
    ] {
        all.push(wanted("RS256", "r", &more));
    }
    for typ in [json!("JWT"), json!("application/at+JWT"), json!(null)] {
        let mut token = wanted("RS256", "r", &good);
        token["header"] = json!({ "typ": typ });
        all.push(token);
    }
    for (wanted, token) in all.iter().zip(issuer.tokens(&all)) {
        assert_eq!(list(&server, &token).status, 200, "{wanted}");
    }
    let ran = run(&server, &issuer.tokens(&all[..1])[0]).json();
    assert_eq!((ran["status"].as_str(), ran["stdout"].as_str()), (Some("ok"), Some("42")), "{ran}");
}

/// Returns invalid tokens, each with a description of its fault.
fn bad_tokens() -> Vec<(&'static str, Value)> {
    let good = json!({});
    let mut bad: Vec<(&str, Value)> = [
        ("expired", json!({ "exp": now() - 60 })),
        ("no expiry", json!({ "exp": null })),
        ("an expiry that is a text", json!({ "exp": "4102444800" })),
        ("not yet valid", json!({ "nbf": now() + 600 })),
        ("another issuer", json!({ "iss": "https://evil.example" })),
        ("no issuer", json!({ "iss": null })),
        ("several issuers", json!({ "iss": ["https://evil.example", ISSUER] })),
        ("its issuer in an array", json!({ "iss": [ISSUER] })),
        ("an issuer that begins the same", json!({ "iss": format!("{ISSUER}.evil.example") })),
        ("for another server", json!({ "aud": "https://other.example.org/mcp" })),
        ("without an audience", json!({ "aud": null })),
        ("an empty list of audiences", json!({ "aud": [] })),
        ("without a user", json!({ "sub": null })),
        ("a user that is a number", json!({ "sub": 7 })),
        ("a user with an invalid name", json!({ "sub": "ann\nbob" })),
    ]
    .into_iter()
    .map(|(what, more)| (what, wanted("RS256", "r", &more)))
    .collect();
    let with = |alg: &str, key: &str, field: &str, value: Value| {
        let mut token = wanted(alg, key, &json!({}));
        token[field] = value;
        token
    };
    bad.extend([
        ("a key that is not published", wanted("RS256", "elsewhere", &good)),
        ("a key within the token", with("EdDSA", "own", "shows_key", json!(true))),
        ("a key within the token, with a known id", {
            let mut token = with("EdDSA", "own2", "shows_key", json!(true));
            token["header"] = json!({ "kid": "d" });
            token
        }),
        (
            "another key with a known id",
            with("RS256", "elsewhere", "header", json!({ "kid": "r" })),
        ),
        ("a key of another kind", with("ES256", "e", "header", json!({ "kid": "r" }))),
        ("no key id, with several keys", with("RS256", "r", "header", json!({ "kid": null }))),
        ("a short key", wanted("RS256", "short", &good)),
        ("no signature", wanted("none", "r", &good)),
        (
            "a signature with another algorithm in the header",
            with("RS256", "r", "header", json!({ "alg": "none" })),
        ),
        ("the public key as a secret", wanted("HS256", "r", &good)),
        ("an algorithm that is not accepted", wanted("RS384", "r", &good)),
        (
            "critical extensions",
            with("RS256", "r", "header", json!({ "crit": ["b64"], "b64": true })),
        ),
        ("another type", with("RS256", "r", "header", json!({ "typ": "dpop+jwt" }))),
        ("claims that differ from the signed claims", {
            let admin = claims(&json!({ "scope": "qwed:admin" }));
            with("RS256", "r", "instead", admin)
        }),
    ]);
    bad
}

fn invalid_tokens_are_refused() {
    let issuer = Issuer::new(&[ALL[0], ALL[2], ALL[4], ("short", "RS256")]);
    let server = issuer.server_with_file();
    let bad = bad_tokens();
    let mut made: Vec<_> = bad.iter().map(|(_, wanted)| wanted.clone()).collect();
    // The control: a valid token that the same key has signed.
    made.push(wanted("RS256", "r", &json!({})));
    let mut tokens = issuer.tokens(&made);
    let good = tokens.pop().unwrap();
    assert_eq!(list(&server, &good).status, 200);
    for ((what, _), token) in bad.iter().zip(&tokens) {
        let refused = list(&server, token);
        assert_eq!(refused.status, 401, "{what}");
        let challenge = refused.header("www-authenticate").unwrap();
        assert!(challenge.contains("error=\"invalid_token\""), "{what}: {challenge}");
    }
    let parts: Vec<_> = good.split('.').collect();
    for broken in [
        format!("{}.{}.", parts[0], parts[1]),
        format!("{}.{}", parts[0], parts[1]),
        format!("{good}.{}", parts[2]),
        format!("..{}", parts[2]),
        format!("{good}A"),
        format!("{}.{}.{}", parts[0], parts[1], parts[2].to_lowercase()),
        format!("qwedmcp_{}", "A".repeat(43)),
        "A".repeat(20_000),
    ] {
        assert_eq!(list(&server, &broken).status, 401, "{broken}");
    }
    let log = server.end();
    assert!(!log.contains(parts[2]) && !log.contains(parts[1]), "{log}");
}

fn scopes_set_the_role_of_a_user() {
    let issuer = Issuer::new(&ALL[4..]);
    let server = issuer.server_with_file();
    let scopes = ["qwed:viewer", "qwed:user", "qwed:admin", "openid profile", ""];
    let made = scopes.map(|scope| wanted("EdDSA", "d", &json!({ "scope": scope })));
    for ((scope, token), (listed, ran)) in scopes.iter().zip(issuer.tokens(&made)).zip([
        (200, 403),
        (200, 200),
        (200, 200),
        (403, 403),
        (403, 403),
    ]) {
        assert_eq!(list(&server, &token).status, listed, "{scope}");
        let answer = run(&server, &token);
        assert_eq!(answer.status, ran, "{scope}");
        if ran == 403 {
            let challenge = answer.header("www-authenticate").unwrap();
            assert!(challenge.contains("error=\"insufficient_scope\""), "{challenge}");
        }
    }
}

fn clients_learn_where_to_get_a_token() {
    let issuer = Issuer::new(&ALL[4..]);
    let server = issuer.server_with_file();
    let refused = server.stateless("tools/list", json!({}));
    assert_eq!(refused.status, 401);
    let url = "https://mcp.example.org/.well-known/oauth-protected-resource/mcp";
    assert_eq!(
        refused.header("www-authenticate").unwrap(),
        format!("bearer realm=\"qwed-mcp\", resource_metadata=\"{url}\", scope=\"qwed:user\"")
    );
    for path in
        ["/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource"]
    {
        let metadata = server.send(&format!("GET {path} HTTP/1.1\r\n"), "");
        assert_eq!(metadata.status, 200);
        assert_eq!(
            metadata.json(),
            json!({
                "resource": AUDIENCE,
                "authorization_servers": [ISSUER],
                "scopes_supported": ["qwed:viewer", "qwed:user", "qwed:admin"],
                "bearer_methods_supported": ["header"],
                "resource_name": "QWED-MCP",
            })
        );
        assert_eq!(server.send(&format!("POST {path} HTTP/1.1\r\n{JSON}"), "{}").status, 405);
        let elsewhere = server.send(&format!("GET {path} HTTP/1.1\r\nHost: evil.example\r\n"), "");
        assert_eq!(elsewhere.status, 403);
    }
    // Without access tokens, the server has no metadata about an authorization server.
    let plain = HttpServer::start(ServerBuilder::new(), &[]);
    assert_eq!(
        plain.send("GET /.well-known/oauth-protected-resource HTTP/1.1\r\n", "").status,
        404
    );
}

/// A local HTTP server that publishes the keys of an issuer.
struct Published {
    url: String,
    document: Arc<Mutex<String>>,
    /// The number of requests for the keys.
    asked: Arc<Mutex<usize>>,
}

impl Published {
    fn new(document: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (document, asked) = (Arc::new(Mutex::new(document)), Arc::new(Mutex::new(0)));
        let (shown, counted) = (Arc::clone(&document), Arc::clone(&asked));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let _ = stream.read(&mut [0; 4096]);
                *counted.lock().unwrap() += 1;
                let document = shown.lock().unwrap().clone();
                let head = if document.starts_with("HTTP/") { "" } else { "HTTP/1.1 200 OK\r\n" };
                let length =
                    format!("Content-Length: {}\r\nConnection: close\r\n\r\n", document.len());
                let answer =
                    if head.is_empty() { document } else { format!("{head}{length}{document}") };
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        Self { url, document, asked }
    }

    fn asked(&self) -> usize {
        *self.asked.lock().unwrap()
    }
}

fn keys_are_fetched_and_updated() {
    let (old, new) = (Issuer::new(&[("d", "EdDSA")]), Issuer::new(&[("n", "EdDSA")]));
    let published = Published::new(old.document());
    let server = Issuer::server(&published.url);
    let token = |issuer: &Issuer, key| issuer.tokens(&[wanted("EdDSA", key, &json!({}))]).remove(0);
    let (of_old, of_new) = (token(&old, "d"), token(&new, "n"));
    assert_eq!((list(&server, &of_old).status, list(&server, &of_new).status), (200, 401));
    let asked = published.asked();
    // The server must not fetch the keys again for each token with an unknown key.
    for _ in 0..50 {
        assert_eq!(list(&server, &of_new).status, 401);
        assert_eq!(list(&server, &of_old).status, 200);
    }
    assert!(published.asked() <= asked + 3, "{asked}, {}", published.asked());
    *published.document.lock().unwrap() = new.document();
    soon("the new key is known", || list(&server, &of_new).status == 200);
    assert_eq!(list(&server, &of_old).status, 401);
    // If the published key set is invalid, the server keeps the old keys.
    "{}".clone_into(&mut published.document.lock().unwrap());
    assert_eq!(list(&server, &of_new).status, 200);
}

/// A process that is killed when this value is dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn keys_are_fetched_only_with_a_trusted_certificate() {
    let issuer = Issuer::new(&ALL[4..]);
    let mut keys_server =
        Served(issuer.program().arg("--serve").stdout(Stdio::piped()).spawn().unwrap());
    let mut port = String::new();
    BufReader::new(keys_server.0.stdout.take().unwrap()).read_line(&mut port).unwrap();
    let options = Issuer::options(&format!("https://localhost:{}/keys", port.trim()));
    let token = issuer.tokens(&[wanted("EdDSA", "d", &json!({}))]).remove(0);
    let certificate = issuer.folder.path().join("certificate.pem");
    let trusting = ServerBuilder::new().variable("SSL_CERT_FILE", certificate.to_str().unwrap());
    assert_eq!(list(&start(trusting, &options), &token).status, 200);
    let wary = start(ServerBuilder::new(), &options);
    assert_eq!(list(&wary, &token).status, 503);
    assert!(wary.end().to_lowercase().contains("certificate"));
}

fn an_issuer_that_cannot_be_reached_lets_nobody_in() {
    let issuer = Issuer::new(&ALL[4..]);
    let token = issuer.tokens(&[wanted("EdDSA", "d", &json!({}))]).remove(0);
    let elsewhere = Published::new(issuer.document());
    for document in [
        "HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n".to_owned(),
        format!("HTTP/1.1 302 Found\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", elsewhere.url),
        "{\"keys\":[]}".to_owned(),
        format!("{{\"keys\":[\"{}\"]}}", "A".repeat(300 * 1024)),
    ] {
        let published = Published::new(document.clone());
        let server = Issuer::server(&published.url);
        assert_eq!(list(&server, &token).status, 503, "{document:.100}");
        let ready = server.admin("/readyz");
        assert_eq!(ready.status, 503, "{document:.100}");
        assert!(String::from_utf8_lossy(&ready.body).contains("tokens cannot be checked"));
        // The server fetches the keys again without a restart.
        *published.document.lock().unwrap() = issuer.document();
        soon("the keys are fetched", || list(&server, &token).status == 200);
    }
    assert_eq!(elsewhere.asked(), 0);
}

fn governed_tools_use_the_role_of_the_access_token() {
    let governed = Governed::new("ledger");
    let issuer = Issuer::new(&ALL[4..]);
    let server = start(governed.server(), &Issuer::options(issuer.jwks().to_str().unwrap()));
    let made = ["qwed:viewer", "qwed:user"].map(|scope| {
        wanted("EdDSA", "d", &json!({ "scope": scope, "sub": scope.replace(':', ".") }))
    });
    let tokens = issuer.tokens(&made);
    let call = |token: &str, params: Value| server.stateless_as(token, "tools/call", params).json();
    let artifacts = json!({ "name": "list_artifacts", "arguments": {} });
    let tests = json!({ "name": "run_pytest", "arguments": { "test_path": "tests" } });
    assert_eq!(call(&tokens[0], artifacts)["result"]["isError"], false);
    assert_eq!(call(&tokens[0], tests.clone())["error"]["code"], -32003);
    let ran = call(&tokens[1], tests);
    assert!(ran["result"]["_meta"]["qwed.ai/run"].is_object(), "{ran}");
    // A token in the call takes precedence over the token in the header.
    let mut own = json!({ "name": "list_artifacts", "arguments": {} });
    own["_meta"] = json!({ "qwed.ai/auth": { "token": format!("qwedmcp_{}", "A".repeat(43)) } });
    assert_eq!(call(&tokens[1], own)["error"]["code"], -32001);
    server.end();
    let rows = Command::new(binary())
        .args(["audit", "list", "--format", "json"])
        .env("QWED_MCP_DATA_DIR", &governed.data)
        .output()
        .unwrap();
    let text = String::from_utf8(rows.stdout).unwrap();
    for known in ["qwed.viewer", "qwed.user", "PERMISSION_DENIED", "oauth"] {
        assert!(text.contains(known), "{known}: {text}");
    }
}

fn unsafe_settings_are_refused_at_start() {
    let issuer = Issuer::new(&ALL[4..]);
    let file = issuer.jwks().to_str().unwrap().to_owned();
    let empty = issuer.folder.path().join("empty.json");
    std::fs::write(&empty, "{\"keys\":[]}").unwrap();
    let started = |options: &[&str]| {
        let mut command = ServerBuilder::new().command();
        let output =
            command.args(["serve", "--http", "127.0.0.1:0"]).args(options).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let (issuer, audience) = (["--oidc-issuer", ISSUER], ["--oidc-audience", AUDIENCE]);
    let with = |audience: [&str; 2], keys: &str| {
        started(&[&issuer[..], &audience, &["--oidc-jwks", keys]].concat())
    };
    for (error, expected) in [
        (started(&issuer), "--oidc-audience"),
        (started(&[&issuer[..], &audience].concat()), "--oidc-jwks"),
        (with(audience, "http://id.example.org/keys"), "over https only"),
        (with(["--oidc-audience", "http://mcp.example.org/mcp"], &file), "not an https URL"),
        (with(["--oidc-audience", "https://mcp.example.org/mcp?a"], &file), "not an https URL"),
        (with(["--oidc-audience", "https://:a@mcp.example.org/mcp"], &file), "not an https URL"),
        (with(audience, "/nonexistent/keys.json"), "could not be read"),
        (with(audience, empty.to_str().unwrap()), "no key that verifies tokens"),
    ] {
        assert!(error.contains(expected), "{expected}: {error}");
    }
}
