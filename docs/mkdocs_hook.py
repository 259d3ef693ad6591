"""What MkDocs does beyond turning these pages into HTML (`mkdocs.yml` names this file as a hook).

README becomes the first page. A page with the signatures and docstrings of all public functions and classes is added, and one for
each notebook, with its outputs. Links to files that are not part of the site, such as sources, become plain text.
"""

from __future__ import annotations

import ast
import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

import cuda_device

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = ROOT / "examples" / "notebooks"
LINK = re.compile(r"(?<!!)\[(?P<text>[^\]]+)\]\((?P<path>[^):#\s]+)(?:#[^)\s]*)?\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made from other files."""
    home = re.sub(r"\]\(docs/", "](", (ROOT / "README.md").read_text())
    home = re.sub(r"\]\(examples/notebooks/([\w-]+)\.ipynb\)", r"](notebooks/\1.md)", home)
    files.append(File.generated(config, "index.md", content=home))
    files.append(File.generated(config, "api.md", content=api()))
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        for name, content in pages_of(path).items():
            files.append(File.generated(config, f"notebooks/{name}", content=content))
    return files


def pages_of(path: Path) -> dict[str, str | bytes]:
    """A notebook as a page, and its pictures: the files by their names."""
    parts: list[str] = []
    pictures: dict[str, str | bytes] = {}
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![What the cell above shows]({name})")
            elif "text/html" in data:
                shown = "".join(data["text/html"]).replace(
                    "\n", "&#10;"
                )  # a blank line would end the HTML for Markdown
                parts.append(f'<div class="output">{shown}</div>')
            else:
                text = output.get("text") or data.get("text/plain") or output["traceback"]
                parts.append(f'<pre class="output">{html.escape("".join(text))}</pre>'.replace("\n", "&#10;"))
    where = f"This page is the notebook `examples/notebooks/{path.name}`."
    return {f"{path.stem}.md": "\n\n".join([*parts, where]), **pictures}


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
    """The page without links that lead out of the site, and without the backslash that GitHub wants before | in a table."""
    folder = (DOCS / page.file.src_uri).parent

    def plain(match: re.Match[str]) -> str:
        there = (folder / match["path"]).resolve()
        notebooks = {DOCS / "notebooks" / f"{path.stem}.md" for path in NOTEBOOKS.glob("*.ipynb")}
        made = {DOCS / "index.md", DOCS / "api.md", *notebooks}
        inside = there.is_relative_to(DOCS) and there.is_file() and there.suffix != ".py"
        return match[0] if inside or there in made else match["text"]

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(plain, part.replace("\\|", "|")) for part in parts)
