"""What MkDocs does beyond turning these pages into HTML (`mkdocs.yml` names this file as a hook).

README becomes the first page. A page with the signatures and docstrings of all public functions and classes is added. Links to
files that are not part of the site, such as sources, become plain text.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import cuda_device

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[^):#\s]+)(?:#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made from other files."""
    home = re.sub(r"\]\(docs/", "](", (ROOT / "README.md").read_text())
    files.append(File.generated(config, "index.md", content=home))
    files.append(File.generated(config, "api.md", content=api()))
    return files


def api() -> str:
    """A page that names each public function and class which a module of the package defines in its text."""
    lines = ["# Functions and classes", "", "[Every public name](reference.md) lists the types and values, too.", ""]
    for module, names in cuda_device._MODULES.items():
        path = ROOT / "cuda_device" / f"{module.replace('.', '/')}.py"
        tree = ast.parse(path.read_text()) if path.exists() else ast.Module([], [])
        defined = {node.name for node in tree.body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
        lines += [f"::: cuda_device.{module}.{name}\n" for name in names.split() if name in defined]
    return "\n".join(lines)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page without links that lead out of the site."""
    folder = (DOCS / page.file.src_uri).parent

    def plain(match: re.Match[str]) -> str:
        there = (folder / match["path"]).resolve()
        made = {DOCS / "index.md", DOCS / "api.md"}
        inside = there.is_relative_to(DOCS) and there.is_file() and there.suffix != ".py"
        return match[0] if inside or there in made else match["text"]

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(plain, part) for part in parts)
