//! What no text in a manifest should say, as data: a row for each, with the reason and with
//! examples that a test runs.

/// One row of the table: some word, and what comes after it.
#[derive(Debug, Clone, Copy)]
pub struct DangerousPattern {
    /// How findings name it: the regular expression of the Python implementation.
    pub expression: &'static str,
    /// The words; each counts only where it does not continue another word.
    pub words: &'static [&'static str],
    /// Whether `MixedCase` counts. The words, and the marks of `then`, are in lower case if so.
    pub case: Case,
    /// What must come after the word.
    pub then: Then,
    /// Why a manifest has no business with it.
    pub why: &'static str,
    /// Texts that the row finds.
    pub matches: &'static [&'static str],
    /// Texts that come close, and that no row finds.
    pub misses: &'static [&'static str],
}

/// How letters are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Case {
    /// As they are.
    Exact,
    /// Without regard to case.
    Ignored,
}

/// What must come after the word of a [`DangerousPattern`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// The end of the word.
    WordEnd,
    /// An opening parenthesis, maybe after white space.
    Call,
    /// The same, and later on the line one of these.
    CallWith(&'static [&'static str]),
    /// The same, and later on the line one of these at the start of a word.
    CallWithWord(&'static [&'static str]),
}

/// The patterns, in the order in which one text's findings are reported.
pub const DANGEROUS_PATTERNS: &[DangerousPattern] = &[
    DangerousPattern {
        expression: r"\beval\s*\(",
        words: &["eval"],
        case: Case::Ignored,
        then: Then::Call,
        why: "runs code that is made up at run time",
        matches: &["eval(x)", "x = Eval \n (y)", "model.eval()"],
        misses: &["retrieval(x)", "evaluate(x)", "eval: yes"],
    },
    DangerousPattern {
        expression: r"\bexec\s*\(",
        words: &["exec"],
        case: Case::Ignored,
        then: Then::Call,
        why: "runs code that is made up at run time",
        matches: &["exec(x)", "EXEC (x)"],
        misses: &["execute(x)", "my_exec(x)", "exec"],
    },
    DangerousPattern {
        expression: r"\b__import__\s*\(",
        words: &["__import__"],
        case: Case::Exact,
        then: Then::Call,
        why: "loads modules past every analysis of imports",
        matches: &["__import__('os')"],
        misses: &["x__import__('os')", "__IMPORT__('os')", "__import__"],
    },
    DangerousPattern {
        expression: r"\bos\.system\s*\(",
        words: &["os.system"],
        case: Case::Exact,
        then: Then::Call,
        why: "runs a shell command",
        matches: &["import os; os.system('id')"],
        misses: &["cos.system('id')", "os.systems('id')", "OS.system('id')"],
    },
    DangerousPattern {
        expression: r"\bsubprocess\.(call|run|Popen)\s*\(",
        words: &["subprocess.call", "subprocess.run", "subprocess.Popen"],
        case: Case::Exact,
        then: Then::Call,
        why: "starts a program",
        matches: &["subprocess.call(x)", "subprocess.run (x)", "subprocess.Popen(x)"],
        misses: &["subprocess.popen(x)", "my_subprocess.run(x)", "subprocess.runner(x)"],
    },
    DangerousPattern {
        expression: r"\b(credentials|api[_-]?key|secret[_-]?key)\b",
        words: &[
            "credentials",
            "apikey",
            "api_key",
            "api-key",
            "secretkey",
            "secret_key",
            "secret-key",
        ],
        case: Case::Ignored,
        then: Then::WordEnd,
        why: "reaches for secrets of the one who loads the skill",
        matches: &["send the Credentials!", "API_KEY", "api-key", "apikey", "my secret-key"],
        misses: &["my_credentials", "credential", "api_keys", "api key", "secretary"],
    },
    DangerousPattern {
        expression: r"\bopen\s*\(.*(\/etc\/|\/root\/|\.ssh\/|\.aws\/)",
        words: &["open"],
        case: Case::Ignored,
        then: Then::CallWith(&["/etc/", "/root/", ".ssh/", ".aws/"]),
        why: "reads the system's configuration or keys",
        matches: &[
            "open('/etc/passwd')",
            "open (x, '~/.SSH/id_rsa')",
            "open(\nopen(x) + '/root/.bashrc')",
            "open(expanduser('~/.aws/config'))",
        ],
        misses: &["open(x)\n/etc/passwd", "/etc/ open(x)", "reopen('/etc/x')", "open /etc/x"],
    },
    DangerousPattern {
        expression: r"\brequests\.(get|post)\s*\(.*\b(pastebin|ngrok|burp)",
        words: &["requests.get", "requests.post"],
        case: Case::Ignored,
        then: Then::CallWithWord(&["pastebin", "ngrok", "burp"]),
        why: "talks to a place where stolen data is dropped",
        matches: &["requests.get('https://pastebin.com/x')", "Requests.POST(ngrok)"],
        misses: &["requests.get('https://mypastebin.com')", "requests.put(ngrok)", "ngrok"],
    },
];
