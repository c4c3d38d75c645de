# rule: none
# scans sample texts for dangerous words; the words are only data
SAMPLES = [
    ("import os; os.system('rm -rf /')", True),
    ("subprocess.Popen(['ls'], shell=True)", True),
    ("eval(input())", True),
    ("__import__('socket').socket()", True),
    ("pickle.loads(blob)", True),
    ("open('/etc/passwd').read()", True),
    ("the door is open and the system works", False),
    ("evaluate(x) and execute_plan()", False),
]
BAD = ("os.system", "subprocess", "eval(", "exec(", "__import__", "pickle.loads", "open(", "ctypes", "/etc/passwd")

def suspicious(text: str) -> list[str]:
    return [w for w in BAD if w in text]

for text, want in SAMPLES:
    hits = suspicious(text)
    print(f"{'BAD ' if hits else 'ok  '} {text!r} {hits}")
    assert bool(hits) is want

joined = "\n".join(t for t, _ in SAMPLES)
assert joined.count("os.system") == 1
assert joined.replace("eval(", "literal(").count("eval(") == 0
assert "exec(" not in joined
