"""What MkDocs does beyond turning these pages into HTML (`mkdocs.yml` names this file as a hook).

README becomes the first page, and the other documents of the repository pages, too. The page of the reference, which in the
repository is a list of names, has the docstrings of all public functions and classes. There is a page for each notebook, with its
outputs. Links lead to pages of the site. Those to other files of the repository, such as sources, lead to the repository if its
URL is known, and become plain text if it is not. A link to a file that does not exist is an error.
"""

from __future__ import annotations

import ast
import base64
import html
import json
import os
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

import cuda_device
from cuda_device import hooks, nvshmem

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))
# Pages that are made from other files, and those files.
PAGES = {
    "index.md": ROOT / "README.md",
    "benchmarks.md": ROOT / "benchmarks" / "README.md",
    "contributing.md": ROOT / "CONTRIBUTING.md",
    "security.md": ROOT / "SECURITY.md",
    "changelog.md": ROOT / "CHANGELOG.md",
    **{f"notebooks/{path.stem}.md": path for path in NOTEBOOKS},
}
PICTURES = {path.name: path for path in (ROOT / "benchmarks").glob("*.svg")}
MADE: set[str] = set()
PLACES = {path: name for name, path in (PAGES | PICTURES).items()}
LINK = re.compile(r"`[^`\n]+`|(?P<picture>!?)\[(?P<text>[^\]]*)\]\((?P<path>[^):#\s]+)(?P<heading>#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """The name of the site with the version that it describes."""
    config.site_name = f"cuda_device {cuda_device.__version__}"
    config.extra["files"] = f"{config.repo_url.rstrip('/')}/blob/HEAD/" if config.repo_url else ""
    return config


def on_page_read_source(page: Any, **_: Any) -> str | None:
    """The reference with docstrings."""
    return reference() if page.file.src_uri == "reference.md" else None


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are made from other files."""
    made: dict[str, str | bytes] = {name: path.read_bytes() for name, path in PICTURES.items()}
    for name, path in PAGES.items():
        made |= pages_of(path) if path in NOTEBOOKS else {name: path.read_text()}
    MADE.update(made)
    for name, content in made.items():
        files.append(File.generated(config, name, content=content))
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
    made = {f"{path.stem}.md": "\n\n".join([*parts, where]), **pictures}
    return {f"notebooks/{name}": content for name, content in made.items()}


def reference() -> str:
    """The chapters of docs/reference.md, with the whole docstrings of the package's own functions and classes."""
    introduction = (
        "In device code, integers in parameters and results have fixed widths: see [Types and promotion](numbers.md)."
    )
    lines = ["# Every public name", "", introduction, ""]
    rows: list[str] = []
    for line in [*(DOCS / "reference.md").read_text().splitlines(), "## "]:
        if line.startswith("## "):
            tables = [row for row in rows if row.startswith("|")]
            lines += [*["| name | what it is |", "|---|---|"][: 2 * bool(tables)], *tables, ""]
            lines += [row for row in rows if not row.startswith("|")]
            lines += [line, ""]
            rows = []
        elif found := re.match(r"\| `(\w+)", line):
            module, there = cuda_device._HOMES.get(found[1], ("", ""))
            rows.append(f"::: cuda_device.{module}.{there}\n" if there in defined(module) else line)
    return "\n".join(
        [
            *lines[:-2],
            *map(of_module, hooks.MODULES),
            of_nvshmem(),
        ]
    )


def defined(module: str) -> set[str]:
    """The functions and classes that are written in a module of the package."""
    path = ROOT / "cuda_device" / f"{module.replace('.', '/')}.py"
    body = ast.parse(path.read_text()).body if path.exists() else []
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


def of_module(name: str) -> str:
    """A module that programs import by itself, which is written in a plugin."""
    options = {"heading": f"cuda_device.{name}", "heading_level": 2, "filters": '["!^_", "!^pytest_"]'}
    return "\n".join(
        [
            f"::: cuda_device.{hooks.MODULES[name]}",
            "    options:",
            *(f"      {key}: {value}" for key, value in options.items()),
            "",
        ]
    )


def of_nvshmem() -> str:
    """The functions that NVSHMEM's headers declare, in C++."""
    lines = [nvshmem._PLAIN]
    for prototypes, types in nvshmem._OF_TYPES.items():
        lines.append(f"// for each T of {', '.join(types)}{prototypes}")
    return "\n".join(["```cpp", "\n".join(lines).strip(), "```", ""])


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """The page with links that stay in the site, and without the backslash that GitHub wants before | in a table."""
    here = page.file.src_uri
    folder = PAGES.get(here, DOCS / here).parent

    def on_site(link: re.Match[str]) -> str:
        if (
            link["path"] is None or os.path.normpath(Path(here).parent / link["path"]) in MADE
        ):  # code, or a notebook's output
            return link[0]
        there = Path(os.path.normpath(folder / link["path"]))
        if not there.exists():
            raise PluginError(f"{here} has a link to {link['path']}, which does not exist")
        name = PLACES.get(there)
        if name is None and there.is_relative_to(DOCS) and there.is_file() and there.suffix != ".py":
            name = there.relative_to(DOCS).as_posix()
        if name is None:
            files = config.extra.get("files")
            return f"[{link['text']}]({files}{there.relative_to(ROOT).as_posix()})" if files else link["text"]
        return f"{link['picture']}[{link['text']}]({os.path.relpath(name, Path(here).parent)}{link['heading'] or ''})"

    parts = re.split(r"(^```.*?^```$)", markdown, flags=re.M | re.S)
    return "".join(part if part.startswith("```") else LINK.sub(on_site, part.replace("\\|", "|")) for part in parts)


def on_page_content(text: str, page: Any, **_: Any) -> str:
    """The docstrings with links from chapters of the specification to what it requires there of programs."""
    if page.file.src_uri != "reference.md":
        return text
    for chapter in re.findall(r"^## (.+)$", (DOCS / "requirements.md").read_text(), re.M):
        anchor = re.sub(r"[^\w\- ]", "", chapter.lower()).replace(" ", "-")
        words = r"\s+".join(map(re.escape, chapter.split()))
        text = re.sub(rf"'({words})'", rf'<a href="requirements.html#{anchor}">\1</a>', text)
    return text
