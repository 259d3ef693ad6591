"""The tutorial, the how-tos and the explanations: each page's Python is one program, and it prints what the page says.

The ```python blocks of a page run one after the other, on a CPU stream. A ```text block is what the block before it prints,
as doctest compares it (`...` stands for anything); `--update-golden` writes it. A comment before a block says what is different
about it:

    <!-- raises -->             it ends with an error, whose message is the ```text block behind it
    <!-- warns -->              it gives a PrecisionWarning
    <!-- needs: torch, gpu -->  it runs where all of these are, in a test of its own; elsewhere that test is skipped
"""

import contextlib
import doctest
import importlib.util
import io
import linecache
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
import warnings
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import HAS_GPU, has_nvshmem

import cuda_device as device
from cuda_device import outputs
from cuda_device.plugins import command_line as command_line

DOCS = Path(__file__).parents[2] / "docs"
README = DOCS.parent / "README.md"
PAGES = [DOCS / "guide.md", DOCS / "extend.md", *sorted(DOCS.glob("*/*.md"))]
FENCE = re.compile(
    r"(?:<!-- (?P<mark>raises|warns|needs: (?P<needs>[\w, ]+)) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
pytestmark = pytest.mark.filterwarnings("error::cuda_device.PrecisionWarning")


@dataclass
class Block:
    """A ```python block: its text, its mark, what it needs, and what the page says that it prints."""

    text: str
    mark: str = ""
    needs: frozenset[str] = frozenset()
    prints: str | None = None
    where: tuple[int, int] = (0, 0)  # of that, in the page
    printed: str = ""


def blocks_of(text: str) -> list[Block]:
    """The blocks of a page, in their order."""
    found: list[Block] = []
    before = None
    for match in FENCE.finditer(text):
        if match["language"] == "python":
            needs = frozenset(filter(None, re.split(r", *", match["needs"] or "")))
            found.append(Block(match["text"], (match["mark"] or "").partition(":")[0], needs))
        elif match["language"] == "text" and before == "python":
            found[-1].prints, found[-1].where = match["text"], match.span("text")
        before = match["language"]
    return found


def is_here(need: str) -> bool:
    """Whether there is a GPU, the program nvcc, or the package of that name."""
    if need == "gpu":
        return HAS_GPU
    if need == "nvshmem":
        return bool(importlib.util.find_spec(need)) and has_nvshmem()
    return bool(shutil.which(need) if need == "nvcc" else importlib.util.find_spec(need))


def run(blocks: list[Block], folder: Path) -> None:
    """Runs the blocks as one program, `program.py`, and keeps what each prints."""
    program = folder / "program.py"
    names: dict[str, object] = {"__name__": "__main__"}
    written = ""
    for block in blocks:
        padded = "\n" * written.count("\n") + block.text
        written += block.text + "\n"
        program.write_text(written)
        linecache.checkcache(str(program))
        shown, error = io.StringIO(), None
        with contextlib.redirect_stdout(shown), warnings.catch_warnings(record=block.mark == "warns") as caught:
            if block.mark == "warns":
                warnings.simplefilter("always")
            try:
                exec(compile(padded, str(program), "exec"), names)
            except Exception as raised:
                if block.mark != "raises":
                    raise
                error = raised
        assert block.mark != "raises" or error, f"raises nothing:\n{block.text}"
        if block.mark == "warns":
            assert [warning.category for warning in caught] == [device.PrecisionWarning], block.text
            shown.write(str(caught[0].message))
        printed = shown.getvalue() + (f"{type(error).__name__}: {error}" if error else "")
        block.printed = re.sub(r"[ \t]+$", "", printed.replace(f"{folder}/", ""), flags=re.M).strip() + "\n"


def is_shown(block: Block) -> bool:
    """Whether the page shows what the block printed; columns and carets differ between releases of Python."""
    shown, printed = (
        re.sub(r"(?<=\.py:)(\d+):\d+|\n +\^+$", r"\1", text, flags=re.M)
        for text in (block.prints or "\n", block.printed)
    )
    return doctest.OutputChecker().check_output(shown, printed, doctest.ELLIPSIS)


def compare(blocks: list[Block]) -> None:
    """Raises an assertion where the page shows something else than what its blocks have printed."""
    for block in blocks:
        assert is_shown(block), (
            f"pytest --update-golden tests/repository/test_pages.py\n{block.text}\nprints\n\n{block.printed}"
        )


def update(page: Path, blocks: list[Block]) -> None:
    """Writes what the blocks have printed to the page."""
    text = page.read_text()
    for block in reversed(blocks):
        if block.prints is not None and not is_shown(block):
            start, end = block.where
            text = text[:start] + block.printed + text[end:]
    page.write_text(text)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_page(page, tmp_path, monkeypatch, no_gpu, update_golden):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(outputs, "_OF_GPUS", dict(outputs._OF_GPUS))  # without what a page adds
    blocks = blocks_of(page.read_text())
    for block in blocks:
        compile(block.text, page.name, "exec")  # those that need something, too
    plain = [block for block in blocks if not block.needs]
    run(plain, tmp_path)
    if update_golden:
        update(page, plain)
    else:
        compare(plain)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_what_needs_more(page, tmp_path, monkeypatch):
    """The whole page, where there is what its other blocks need."""
    monkeypatch.chdir(tmp_path)
    blocks = blocks_of(page.read_text())
    needs = sorted(set().union(*(block.needs for block in blocks)))
    if not needs:
        return
    here = {need for need in needs if is_here(need)}
    wanted = [block for block in blocks if block.needs <= here]
    if not any(block.needs for block in wanted):
        pytest.skip(f"no block of this page has all that it needs: {', '.join(needs)}")
    run(wanted, tmp_path)
    compare(wanted)


CPP = [match["text"] for page in PAGES for match in FENCE.finditer(page.read_text()) if match["language"] == "cpp"]


@pytest.mark.parametrize("text", [text for text in CPP if re.search(r"__(device|global)__", text)])
def test_cuda_cpp_compiles(text):
    cuda_cpp = pytest.importorskip("cuda_cpp")  # which needs NVRTC, that compiles no launches
    cuda_cpp.compile_cpp(re.sub(r".*<<<.*>>>.*", "", text))


def test_commands_are_those_that_there_are(monkeypatch):
    """Options of `python -m cuda_device` and extras of the package; files of the commands need not be there."""
    ran, texts = (
        [],
        [page.read_text().replace("\\\n", " ") for page in (*DOCS.parent.glob("*.md"), *DOCS.rglob("*.md"))],
    )
    for name in ("_info", "_dump", "_build", "_cache"):
        monkeypatch.setattr(command_line, name, ran.append)
    commands = [command for text in texts for command in re.findall(r"^python -m cuda_device (.*)", text, re.M)]
    assert [command_line.main(shlex.split(command, comments=True)) for command in commands] == [0] * len(ran)
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    named = {
        extra for text in texts for names in re.findall(r"install '?\.\[([\w,]+)\]", text) for extra in names.split(",")
    }
    assert len(ran) == len(commands) > 2 and {"cu13", "test", "docs"} <= named <= set(extras)


@pytest.mark.parametrize(
    "text, complaint",
    [
        ("```python\nprint(1 + 1)\n```\nprints\n```text\n3\n```\n", "prints"),
        ("```python\nprint(1 + 1)\n```\n", "prints"),
        ("<!-- raises -->\n```python\npass\n```\n", "raises nothing"),
    ],
)
def test_a_page_that_is_wrong_fails(text, complaint, tmp_path):
    blocks = blocks_of(text)

    def run_and_compare():
        run(blocks, tmp_path)
        compare(blocks)

    with pytest.raises(AssertionError, match=complaint):
        run_and_compare()


@pytest.mark.parametrize("page", [README, *PAGES], ids=lambda page: page.stem)
def test_names_are_public(page):
    names = set(re.findall(r"(?<![\w./])device\.([a-zA-Z]\w*)", page.read_text()))
    assert {name for name in names if not hasattr(device, name)} == set()


def test_the_site_has_every_page():
    named = set(re.findall(r"(?<=[ /])[\w/.-]+\.md$", (DOCS.parent / "mkdocs.yml").read_text(), re.M))
    made = {f"{name}.md" for name in "index benchmarks contributing security changelog".split()}
    made |= {f"notebooks/{path.stem}.md" for path in (DOCS.parent / "examples/notebooks").glob("*.ipynb")}
    assert named == made | {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


def test_links_of_the_site():
    """They stay in the site or become text; one to a file that does not exist is an error."""
    exceptions = pytest.importorskip("mkdocs.exceptions")
    namespace = runpy.run_path(str(DOCS / "mkdocs_hook.py"))

    def shown(text, page, repository=None):
        config = namespace["on_config"](SimpleNamespace(repo_url=repository, extra={}))
        return namespace["on_page_markdown"](text, SimpleNamespace(file=SimpleNamespace(src_uri=page)), config)

    assert shown("[a](docs/guide.md#launch) ![b](docs/photo.jpg)", "index.md") == "[a](guide.md#launch) ![b](photo.jpg)"
    assert shown("[the plot](../../benchmarks/kernels.svg)", "howto/debug.md") == "[the plot](../kernels.svg)"
    assert shown("[`a`](../../README.md), [b](../mkdocs_hook.py), `x[0](y)`", "howto/debug.md") == (
        "[`a`](../index.md), b, `x[0](y)`"
    )
    assert shown("[b](../mkdocs_hook.py)", "howto/debug.md", "https://example.org/us/it/") == (
        "[b](https://example.org/us/it/blob/HEAD/docs/mkdocs_hook.py)"
    )
    with pytest.raises(exceptions.PluginError, match="howto/debug.md has a link to guide.md, which does not exist"):
        shown("[a](guide.md)", "howto/debug.md")


def test_the_site(tmp_path):
    """It is built without warnings, and has the names that are made from the package."""
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    options = ["build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run([sys.executable, "-m", "mkdocs", *options], cwd=DOCS.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "site" / "reference.html").read_text()
    for name in ("runtime.launch.launcher.launch", "dask.spmd", "numba_compat.jit", "pytest_plugin.stream", "nvshmem"):
        assert f'id="cuda_device.{name}"' in text, name
    for row in ("thread_idx: Dim3", "lane_id: np.int32", "float32(value)", "smXX: SMSelector"):
        assert f"<td><code>{row}</code></td>" in text, row
    assert f"<title>Every public name - cuda_device {device.__version__}</title>" in text
    assert '<a href="requirements.html#thread-positioning">Thread Positioning</a>' in text


WIDTHS = """
<script>addEventListener("load", () => setTimeout(() => {
    const wider = [...document.querySelectorAll("pre, pre code")].filter(e => e.scrollWidth > e.clientWidth + 1 && e.clientWidth);
    document.body.append(`WIDTHS ${document.documentElement.scrollWidth - innerWidth} ${wider.length} WIDTHS`);
}, 300))</script></body>"""


@pytest.mark.long
@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium to lay pages out")
def test_no_page_of_the_site_is_wider_than_its_window(tmp_path):
    """And no code is cut at its right edge."""
    pytest.importorskip("mkdocstrings")
    build = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path / "site")]
    subprocess.run(build, cwd=DOCS.parent, check=True)
    browser = [
        "chromium",
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--virtual-time-budget=3000",
    ]
    for name in ("index", "tutorial/1-first-kernel", "reference", "benchmarks", "notebooks/first-kernel"):
        page = tmp_path / "site" / f"{name}.html"
        page.write_text(page.read_text().replace("</body>", WIDTHS))
        for width in (1280, 500):
            profile = f"--user-data-dir={tmp_path / 'profile'}"
            command = [*browser, profile, f"--window-size={width},1000", "--dump-dom", page.as_uri()]
            shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
            assert re.search(r"WIDTHS (-?\d+ \d+) WIDTHS", shown)[1] == "0 0", (name, width)


def test_the_pictures_are_what_the_scripts_draw(update_golden, monkeypatch):
    """And each of them is on a page."""
    monkeypatch.syspath_prepend(DOCS)
    pictures = runpy.run_path(str(DOCS / "pictures.py"))["PICTURES"] | runpy.run_path(str(DOCS / "charts.py"))["CHARTS"]
    assert {path.stem for path in (DOCS / "pictures").glob("*.svg")} == set(pictures) or update_golden
    pages = "".join(page.read_text() for page in (*DOCS.rglob("*.md"), *DOCS.parent.glob("*/README.md"), README))
    for name, draw in pictures.items():
        path, text = DOCS / "pictures" / f"{name}.svg", str(draw())
        if update_golden:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        assert path.read_text() == text
        assert f"pictures/{name}.svg)" in pages
        ET.fromstring(text)


def test_a_chart_names_what_was_not_measured(monkeypatch):
    """And has the mean of the ratios to what was measured: wrong results and other algorithms do not count."""
    monkeypatch.syspath_prepend(DOCS)
    charts = runpy.run_path(str(DOCS / "charts.py"))
    results = [
        {"contender": contender, "kernel": kernel, "seconds": seconds, "right": right, "alike": alike}
        for contender, kernel, seconds, right, alike in (
            ("cuda_device", "scan", 1.0, True, True), ("Triton", "scan", 2.0, True, True),
            ("cuda_device", "life", 1.0, True, True), ("Triton", "life", 8.0, True, True),
            ("cuda_device", "sort", 1.0, True, True), ("Triton", "sort", 64.0, False, True),
            ("cuda_device", "copy", 1.0, True, True), ("Triton", "copy", 64.0, True, False),
        )
    ]  # fmt: skip
    chart = charts["Picture"](640, 200, "a chart")
    charts["compare"](
        chart, 0, "title", "kernels.py", {"machine": "a GPU, 2026-11-23", "results": results}, ("Triton", "Warp")
    )
    charts["bars"](chart, 100, ("", "", ""), [("cuda_device", 3.54), ("Warp", None)], "µs")
    drawn = str(chart)
    assert ">0.25</text>" in drawn and drawn.count("<circle") == 2 and drawn.count(">not measured</text>") == 2
    assert ">3.5 µs</text>" in drawn and "a GPU, 2026-11-23, benchmarks/kernels.py" in drawn
