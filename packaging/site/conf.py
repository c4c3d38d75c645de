"""Sphinx's configuration for the documentation site. packaging/site/build starts Sphinx.

The sources are a copy of the pages, in the folders of the repository. So links between pages are the same as on GitHub.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from pages import REPOSITORY, ROOT, sections

if TYPE_CHECKING:
    from sphinx.application import Sphinx

SECTIONS = sections()
PAGES = [page.path for pages in SECTIONS.values() for page in pages]

project = "qwed-mcp"
extensions = ["myst_parser"]
root_doc = "README"
myst_heading_anchors = 6
# JSON with an ellipsis is not valid, and is shown without colours.
suppress_warnings = ["misc.highlighting_failure"]

# Quotation marks and dashes stay as they are written.
smartquotes = False

html_theme = "furo"
html_title = project
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "", "top_of_page_buttons": ["edit"]}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_use_index = False
html_show_copyright = False


def prepare(_app: Sphinx, name: str, content: list[str]) -> None:
    """Leads links to files that are not pages to GitHub, and adds the navigation to the first page."""
    folder = (ROOT / name).parent

    def to_github(link: re.Match[str]) -> str:
        file = (folder / link[1]).resolve()
        if not file.exists() or str(file.relative_to(ROOT)) in PAGES:
            return link[0]
        kind = "tree" if file.is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{file.relative_to(ROOT)})"

    content[0] = re.sub(r"\]\(([^()\s#:]+)\)", to_github, content[0])
    if name == root_doc:
        for heading, pages in SECTIONS.items():
            paths = "\n".join(page.path for page in pages if page.path != "README.md")
            content[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {heading}\n\n{paths}\n```\n"


def setup(app: Sphinx) -> None:
    app.connect("source-read", prepare)
