# rule: none
# checks a template engine that renders code-like text without running it
import re
import textwrap

TEMPLATE = textwrap.dedent("""\
    #!/usr/bin/env python
    import {{ module }}
    {% for cmd in commands %}
    {{ module }}.{{ fn }}({{ cmd }})
    {% end %}
    exec(open("{{ name }}").read())
""")

def render(text, **context):
    def loop(m):
        var, seq, body = m.group(1), m.group(2), m.group(3)
        return "".join(render(body, **{**context, var: repr(item)}) for item in context[seq])
    text = re.sub(r"{% for (\w+) in (\w+) %}\n(.*?){% end %}\n", loop, text, flags=re.S)
    return re.sub(r"{{ (\w+) }}", lambda m: str(context[m[1]]), text)

script = render(TEMPLATE, module="subprocess", fn="run", commands=["ls", "rm -rf x"], name="setup.py")
print(script)
assert script.splitlines() == [
    "#!/usr/bin/env python",
    "import subprocess",
    "subprocess.run('ls')",
    "subprocess.run('rm -rf x')",
    'exec(open("setup.py").read())',
]
assert len(re.findall(r"subprocess\.run", script)) == 2
try:
    render("{{ missing }}")
except KeyError as e:
    print("missing variable", e)
