//! Contains the table of dangerous patterns, which match text that no manifest should contain. Each row has a reason,
//! and examples that a test checks.

use std::sync::LazyLock;

use regex::RegexSet;

/// One row of the table of dangerous patterns.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct DangerousPattern {
    /// The regular expression, in the syntax of Python's `re`. Findings show it in this form.
    pub expression: &'static str,
    /// Whether the expression ignores case.
    pub ignores_case: bool,
    /// The reason why a manifest should not contain a text that matches.
    pub why: &'static str,
    /// Examples of texts that this row matches.
    pub matches: &'static [&'static str],
    /// Examples of similar texts that no row matches.
    pub misses: &'static [&'static str],
}

/// The dangerous patterns. Findings about one text are reported in this order.
pub const DANGEROUS_PATTERNS: &[DangerousPattern] = &[
    DangerousPattern {
        expression: r"\beval\s*\(",
        ignores_case: true,
        why: "runs code that is made up at run time",
        matches: &["eval(x)", "x = Eval \n (y)", "model.eval()"],
        misses: &["retrieval(x)", "evaluate(x)", "eval: yes"],
    },
    DangerousPattern {
        expression: r"\bexec\s*\(",
        ignores_case: true,
        why: "runs code that is made up at run time",
        matches: &["exec(x)", "EXEC (x)"],
        misses: &["execute(x)", "my_exec(x)", "exec"],
    },
    DangerousPattern {
        expression: r"\b__import__\s*\(",
        ignores_case: false,
        why: "loads modules past every analysis of imports",
        matches: &["__import__('os')"],
        misses: &["x__import__('os')", "__IMPORT__('os')", "__import__"],
    },
    DangerousPattern {
        expression: r"\bos\.system\s*\(",
        ignores_case: false,
        why: "runs a shell command",
        matches: &["import os; os.system('id')"],
        misses: &["cos.system('id')", "os.systems('id')", "OS.system('id')"],
    },
    DangerousPattern {
        expression: r"\bsubprocess\.(call|run|Popen)\s*\(",
        ignores_case: false,
        why: "starts a program",
        matches: &["subprocess.call(x)", "subprocess.run (x)", "subprocess.Popen(x)"],
        misses: &["subprocess.popen(x)", "my_subprocess.run(x)", "subprocess.runner(x)"],
    },
    DangerousPattern {
        expression: r"\b(credentials|api[_-]?key|secret[_-]?key)\b",
        ignores_case: true,
        why: "reaches for secrets of the one who loads the skill",
        matches: &["send the Credentials!", "API_KEY", "api-key", "apikey", "my secret-key"],
        misses: &["my_credentials", "credential", "api_keys", "api key", "secretary"],
    },
    DangerousPattern {
        expression: r"\bopen\s*\(.*(\/etc\/|\/root\/|\.ssh\/|\.aws\/)",
        ignores_case: true,
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
        ignores_case: true,
        why: "talks to a place where stolen data is dropped",
        matches: &["requests.get('https://pastebin.com/x')", "Requests.POST(ngrok)"],
        misses: &["requests.get('https://mypastebin.com')", "requests.put(ngrok)", "ngrok"],
    },
];

/// The expressions of [`DANGEROUS_PATTERNS`], translated to the syntax of `regex` and compiled.
static EXPRESSIONS: LazyLock<RegexSet> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "a test compiles the expressions, which are constants")]
    RegexSet::new(DANGEROUS_PATTERNS.iter().map(translated)).expect("the expressions are valid")
});

/// Returns the patterns that match `text`, each pattern once. The time is linear in the length of `text`.
pub(super) fn patterns_in(text: &str) -> impl Iterator<Item = &'static DangerousPattern> {
    let found = EXPRESSIONS.matches(text).into_iter();
    found.filter_map(|index| DANGEROUS_PATTERNS.get(index))
}

/// Translates the expression of a row so that it matches exactly like Python's `re`. In `re`, combining marks are not
/// part of a word, and the four ASCII separators (U+001C to U+001F) are white space. If case is ignored, the letters
/// `İ` and `ı` match `i`.
fn translated(pattern: &DangerousPattern) -> String {
    // Every `\b` in the table is next to a word character of the expression. So the translation only has to check that
    // the character on the other side is not part of a word.
    let no_word = r"(?-i:[^\p{L}\p{N}_\n])";
    let (mut start, mut end) = ("", "");
    let mut expression = pattern.expression;
    if let Some(rest) = expression.strip_prefix(r"\b") {
        (start, expression) = (r"(?:\A|\n|NO_WORD)", rest);
    }
    if let Some(rest) = expression.strip_suffix(r"\b") {
        (end, expression) = (r"(?:\z|\n|NO_WORD)", rest);
    }
    let mut translated =
        expression.replace(r".*\b", "(?:.*NO_WORD)?").replace(r"\s", r"[\s\x1c-\x1f]");
    if pattern.ignores_case {
        translated = format!("(?i){}", translated.replace('i', "[iİı]"));
    }
    format!("{start}{translated}{end}").replace("NO_WORD", no_word)
}
