# rule: none
# checks regular expressions that look for dangerous calls in code text
import re

CALL = re.compile(r"\b(?:eval|exec|compile|__import__)\s*\(")
OS = re.compile(r"\bos\.(?:system|popen|exec[lv]p?e?|spawn\w*|fork|kill|remove|unlink)\b")
SUB = re.compile(r"\bsubprocess\.(?:run|call|Popen|check_output)\b")
PICKLE = re.compile(r"\b(?:pickle|marshal|shelve)\.(?:loads?|open)\b")
FILES = re.compile(r"""\bopen\s*\(\s*['"](?P<path>[^'"]+)['"]\s*,\s*['"][wa]""")

cases = {
    "eval (x)": CALL, "re.compile('a')": CALL, "os.execvp('ls', [])": OS,
    "os.path.join(a)": None, "subprocess.run(cmd)": SUB, "my_eval(x)": None,
    "pickle.loads(b)": PICKLE, "json.loads(s)": None, "open('out.txt', 'w')": FILES,
    "open(name)": None, "medieval(times)": None,
}
for text, want in cases.items():
    hits = [p for p in (CALL, OS, SUB, PICKLE, FILES) if p.search(text)]
    print(f"{text:24} {len(hits)}")
    assert (want in hits) if want else not hits

assert FILES.search("open('out.txt', 'w')").group("path") == "out.txt"
code = "x = 1\nos.system('ls')\neval(x)"
assert [i for i, line in enumerate(code.splitlines(), 1) if OS.search(line) or CALL.search(line)] == [2, 3]
