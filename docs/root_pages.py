"""MkDocs hook: show ``CONTRIBUTING.md`` and ``CHANGELOG.md`` of the project's root on the site."""

from pathlib import Path
from typing import Any

ROOT_PAGES = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace the text of a placeholder page by that of the root's file, with links relative to ``docs/``."""
    name = ROOT_PAGES.get(page.file.src_uri)
    if name is None:
        return markdown
    text = (Path(__file__).parents[1] / name).read_text(encoding="utf-8").replace("](docs/", "](")
    for placeholder, root_page in ROOT_PAGES.items():
        text = text.replace(f"]({root_page})", f"]({placeholder})")
    return text
