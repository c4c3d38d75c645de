# rule: none
# checks an html sanitizer with script payloads as test data
import html
from html.parser import HTMLParser

PAYLOADS = [
    ("<script>eval(atob('YQ=='))</script>hi", "hi"),
    ("<b onclick=\"exec('rm')\">bold</b>", "bold"),
    ("<img src=x onerror=fetch('//evil')>ok", "ok"),
    ("plain os.system('ls') text", "plain os.system('ls') text"),
    ("1 &lt; 2", "1 < 2"),
]

class Stripper(HTMLParser):
    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.out, self.skip, self.attrs = [], 0, []

    def handle_starttag(self, tag, attrs):
        self.skip += tag in ("script", "style")
        self.attrs += [name for name, _ in attrs if name.startswith("on")]

    def handle_endtag(self, tag):
        self.skip -= tag in ("script", "style")

    def handle_data(self, data):
        if not self.skip:
            self.out.append(data)

found = []
for payload, want in PAYLOADS:
    p = Stripper()
    p.feed(payload)
    p.close()
    got = "".join(p.out)
    found += p.attrs
    print(f"{payload!r} -> {got!r}")
    assert got == want
assert found == ["onclick", "onerror"]
assert html.escape("<script>") == "&lt;script&gt;"
