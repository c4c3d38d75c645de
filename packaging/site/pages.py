#!/usr/bin/env python3
"""The pages of the documentation, in the order of docs/README.md. As a program, writes llms.txt from them.

    packaging/site/pages.py            writes llms.txt
    packaging/site/pages.py --check    fails if llms.txt is not current
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
REPOSITORY = "https://github.com/QWED-AI/qwed-mcp"
# Markdown as it is written, because agents read that best.
RAW = "https://raw.githubusercontent.com/QWED-AI/qwed-mcp/main"
LINK = re.compile(r"\[([^\]]*)\]\(([^()\s]+)\)")


@dataclass
class Page:
    """A page, with its path from the root of the repository, and the tasks that it helps with."""

    path: str
    tasks: list[str]

    def paragraph(self, number: int) -> str:
        """Returns a paragraph in one line, without links. The title is number 0."""
        text = (ROOT / self.path).read_text().split("\n\n")[number]
        return LINK.sub(r"\1", " ".join(text.lstrip("# ").split()))

    def entry(self) -> str:
        """Returns the line of llms.txt: the title, the tasks, and the first sentence."""
        tasks = "; ".join(self.tasks)
        sentence = re.split(r"(?<=[.?]) ", self.paragraph(1))[0]
        return f"- [{self.paragraph(0)}]({RAW}/{self.path}): {tasks[0].upper()}{tasks[1:]}. {sentence}"


def sections() -> dict[str, list[Page]]:
    """Returns the pages below the bold words of the table in docs/README.md, each page once."""
    start = [
        Page("README.md", ["understand the server, and install it"]),
        Page("docs/README.md", ["find the page for a task"]),
    ]
    pages = {page.path: page for page in start}
    found = {"Start": start}
    for task, links in re.findall(r"^\| (.+) \| (\[.+) \|$", (ROOT / "docs/README.md").read_text(), re.MULTILINE):
        if heading := re.match(r"\*\*(.+)\*\*: ", task):
            task = task[heading.end() :]
            found[heading[1].capitalize()] = []
        for _, target in LINK.findall(links):
            file = ROOT / "docs" / target.partition("#")[0]
            path = str(file.resolve().relative_to(ROOT))
            if path not in pages:
                pages[path] = Page(path, [])
                list(found.values())[-1].append(pages[path])
            pages[path].tasks.append(task)
    unlisted = {str(file.relative_to(ROOT)) for file in ROOT.glob("docs/*.md")} - pages.keys()
    if unlisted:
        sys.exit(f"docs/README.md does not list {', '.join(sorted(unlisted))}")
    return found


def llms() -> str:
    """Returns llms.txt, in the format of https://llmstxt.org."""
    found = sections()
    readme = found["Start"][0]
    parts = [f"# {readme.paragraph(0)}", f"> {readme.paragraph(1)}"]
    for heading, pages in found.items():
        parts += [f"## {heading}", "\n".join(page.entry() for page in pages)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    file = ROOT / "llms.txt"
    if sys.argv[1:] == ["--check"]:
        if not file.exists() or file.read_text() != llms():
            sys.exit("llms.txt is not current; packaging/site/pages.py writes it")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        file.write_text(llms())


if __name__ == "__main__":
    main()
