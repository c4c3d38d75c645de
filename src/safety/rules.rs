//! What is dangerous, as data: a row for each, with the reason and with examples that a test runs.

/// What a [`Rule`] looks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    /// A call of this builtin, unless the script defines a function or class of the name itself.
    Builtin(&'a str),
    /// A call of this function, by its qualified name.
    Function(&'a str),
    /// An import of this member of a module, even without a call.
    Member(&'a str, &'a str),
    /// An import of this module or a module below it, and calls of anything in it.
    Module(&'a str),
    /// Any use of this name.
    Name(&'a str),
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Rule {
    /// Stable identifier, `family/name`.
    pub id: &'static str,
    /// What it looks for.
    pub target: Target<'static>,
    /// The text to look for when the source does not parse; none where it would only find words.
    pub pattern: Option<&'static str>,
    /// Why a verification script has no business with it.
    pub why: &'static str,
    /// What to write instead.
    pub remedy: &'static str,
    /// Snippets that the rule finds.
    pub matches: &'static [&'static str],
    /// Snippets that come close, and that no rule finds.
    pub misses: &'static [&'static str],
}

/// The rules, by family. Order does not matter: findings are reported in source order.
pub const RULES: &[Rule] = &[
    Rule {
        id: "execution/eval",
        target: Target::Builtin("eval"),
        pattern: Some("eval"),
        why: "runs code that this analysis has not seen",
        remedy: "ast.literal_eval for data, sympy.sympify for formulas",
        matches: &[
            "eval('1')",
            "print(eval(x))",
            "[eval(x) for x in y]",
            "def f():\n    eval('1')",
        ],
        misses: &[
            "model.eval()",
            "df.eval('a + b')",
            "# eval('1')",
            "x = \"eval('1')\"",
            "def eval(x):\n    return x\neval(1)",
        ],
    },
    Rule {
        id: "execution/exec",
        target: Target::Builtin("exec"),
        pattern: Some("exec"),
        why: "runs code that this analysis has not seen",
        remedy: "write the statements into the script itself",
        matches: &["exec('import os')", "lambda: exec(x)"],
        misses: &["cursor.exec('x')", "executor = 1", "class exec: pass\nexec()"],
    },
    Rule {
        id: "execution/compile",
        target: Target::Builtin("compile"),
        pattern: Some("compile"),
        why: "makes code objects that this analysis has not seen",
        remedy: "write the statements into the script itself",
        matches: &["compile('1', '', 'eval')"],
        misses: &["import re\nre.compile('x')", "def compile(x): return x\ncompile(1)"],
    },
    Rule {
        id: "execution/import-function",
        target: Target::Name("__import__"),
        pattern: Some("__import__"),
        why: "imports a module whose name this analysis cannot see",
        remedy: "an import statement",
        matches: &["__import__('os')", "i = __import__"],
        misses: &["x = '__import__'", "obj.__import__"],
    },
    Rule {
        id: "files/open",
        target: Target::Builtin("open"),
        pattern: None,
        why: "reads or writes files of the machine",
        remedy: "put the data into the script",
        matches: &["open('/etc/passwd')", "with open('x') as f: pass"],
        misses: &[
            "account.open()",
            "def open(x): return x\nopen(1)",
            "class open: pass\nopen()",
            "is_open = True",
        ],
    },
    Rule {
        id: "process/os-system",
        target: Target::Function("os.system"),
        pattern: Some("os.system"),
        why: "runs a shell command",
        remedy: "do the work in Python",
        matches: &[
            "import os\nos.system('id')",
            "import os as x\nx.system('id')",
            "from os import *\nimport os\nos.system('id')",
        ],
        misses: &["import os\nos.path.join('a', 'b')", "import os\nos.environ.get('X')"],
    },
    Rule {
        id: "process/os-system-import",
        target: Target::Member("os", "system"),
        pattern: None,
        why: "brings in a function that runs shell commands",
        remedy: "do the work in Python",
        matches: &["from os import system", "from os import system as s"],
        misses: &["from os import path", "from mylib import system"],
    },
    Rule {
        id: "process/os-popen",
        target: Target::Function("os.popen"),
        pattern: Some("os.popen"),
        why: "runs a shell command",
        remedy: "do the work in Python",
        matches: &["import os\nos.popen('id')", "from os import popen as op\nop('id')"],
        misses: &["import os\nos.getcwd()"],
    },
    Rule {
        id: "process/os-popen-import",
        target: Target::Member("os", "popen"),
        pattern: None,
        why: "brings in a function that runs shell commands",
        remedy: "do the work in Python",
        matches: &["from os import popen"],
        misses: &["from os import getcwd"],
    },
    Rule {
        id: "process/subprocess",
        target: Target::Module("subprocess"),
        pattern: Some("subprocess"),
        why: "starts other programs",
        remedy: "do the work in Python",
        matches: &[
            "import subprocess",
            "import subprocess as sp\nsp.run(['id'])",
            "from subprocess import run",
            "subprocess.run(['id'])",
        ],
        misses: &["import subprocesses", "x = 'subprocess'", "self.subprocess.run()"],
    },
    Rule {
        id: "deserialisation/pickle-loads",
        target: Target::Function("pickle.loads"),
        pattern: Some("pickle.loads"),
        why: "runs code that is hidden in the data",
        remedy: "json.loads",
        matches: &["import pickle\npickle.loads(b'')", "import pickle as p\np.loads(b'')"],
        misses: &["import pickle\npickle.dumps(1)", "import json\njson.loads('1')"],
    },
    Rule {
        id: "deserialisation/pickle-loads-import",
        target: Target::Member("pickle", "loads"),
        pattern: None,
        why: "brings in a function that runs code hidden in data",
        remedy: "json.loads",
        matches: &["from pickle import loads", "from pickle import dumps, loads as l"],
        misses: &["from pickle import dumps", "from json import loads\nloads('1')"],
    },
    Rule {
        id: "deserialisation/marshal-loads",
        target: Target::Function("marshal.loads"),
        pattern: Some("marshal.loads"),
        why: "makes code objects out of data",
        remedy: "json.loads",
        matches: &["import marshal\nmarshal.loads(b'')"],
        misses: &["import marshal\nmarshal.dumps(1)"],
    },
    Rule {
        id: "deserialisation/marshal-loads-import",
        target: Target::Member("marshal", "loads"),
        pattern: None,
        why: "brings in a function that makes code objects out of data",
        remedy: "json.loads",
        matches: &["from marshal import loads"],
        misses: &["from marshal import dumps"],
    },
];
