"""What documents show is true: the examples run, README's program runs, the tour shows what the compiler prints."""

import json
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from conftest import can_assemble
from ir_helpers import job
from processes import python

import cuda_device as device
from cuda_device import compiler
from cuda_device.cpu import cpu_target
from cuda_device.device import rows

ROOT = pathlib.Path(__file__).parents[2]
README = ROOT / "README.md"
GUIDE = ROOT / "docs" / "guide.md"
TOUR = ROOT / "docs" / "tour.md"

BLOCK = r"```\w*\n(?P<text>.*?)```"
MARKED = re.compile(rf'<!-- (?P<kind>[\w]+)(?:: (?P<name>\w+))?(?:, from "(?P<start>[^"]+)")? -->\n{BLOCK}', re.S)


# What users should not see in what they are shown.
_STRICT = ("-W", "error::cuda_device.PrecisionWarning")


def marked(kind: str) -> str:
    """The text of the only block of the tour with this mark."""
    (text,) = (match["text"] for match in MARKED.finditer(TOUR.read_text()) if match["kind"] == kind)
    return text


def execute(text: str, tmp_path: pathlib.Path, **names):
    """Runs a program as a file, so that errors show its lines; returns its names."""
    file = tmp_path / "shown.py"
    file.write_text(text)
    exec(compile(text, str(file), "exec"), names)
    return names


# The photograph


@pytest.fixture(scope="module")
def photo():
    pytest.importorskip("matplotlib")
    pytest.importorskip("PIL")
    pytest.importorskip("scipy")
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        import photo

        yield photo
    finally:
        sys.path.remove(str(ROOT / "examples"))


def test_the_photograph(photo, tmp_path):
    from PIL import Image

    done = python(*_STRICT, str(ROOT / "examples" / "photo.py"), "--output", "out.png", "--cpu", cwd=tmp_path)
    assert "WRONG" not in done.stdout
    assert done.stdout.count(" right, within") == 4
    assert "CPU, " in done.stdout
    assert str(tmp_path / "out.png") in done.stdout
    with Image.open(tmp_path / "out.png") as picture:
        assert picture.size == (3 * 512, 600)
        pixels = np.asarray(picture)
    assert np.array_equal(pixels[:, :512], photo.read_photograph())
    assert all(pixels[:, start : start + 512].std() > 20 for start in (512, 1024))


def test_the_photograph_everywhere(photo, stream):
    # Not a multiple of the block along either axis, and smaller than one along the other.
    for shape in ((61, 83, 3), (5, 40, 3), (1, 1, 3)):
        colour = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
        assert photo.check(photo.process(colour, stream.stream), photo.expect(colour))


def test_a_wrong_photograph_fails(photo, monkeypatch, tmp_path, capsys):
    right = photo.expect
    monkeypatch.setattr(photo, "expect", lambda colour: right(colour) | {"edges": np.nan})
    monkeypatch.setattr(sys, "argv", ["photo.py", "--cpu", "--output", str(tmp_path / "out.png")])
    assert photo.main() == 1
    assert "edges       WRONG" in capsys.readouterr().out


# README


def test_the_program_in_readme(tmp_path):
    """It prints what README says; README has no other program, because `.ci/run` extracts this one."""
    text = README.read_text()
    (program,), (printed,) = (
        re.findall(rf"^```{language}\n(.*?)^```$", text, re.M | re.S) for language in ("python", "text")
    )
    (tmp_path / "smooth.py").write_text(program)
    done = python(*_STRICT, "smooth.py", cwd=tmp_path)
    assert done.stdout == printed


def test_the_program_of_the_photograph(tmp_path):
    plots, filters = pytest.importorskip("matplotlib.pyplot"), pytest.importorskip("scipy.ndimage")
    program = re.search(BLOCK, (ROOT / "docs" / "photo.md").read_text(), re.S)["text"]
    (tmp_path / "program.py").write_text(program)
    done = python(*_STRICT, "program.py", cwd=tmp_path)
    pixels = np.round(plots.imread(tmp_path / "photo.png")[..., :3] * 255)
    photo, blurred = pixels[:, :512], pixels[:, 512:]
    size = 2 * int(re.search(r"RADIUS = (\d+)", program)[1]) + 1
    expected = filters.uniform_filter(photo.astype(float), (size, size, 1), mode="nearest")
    assert np.abs(blurred - np.floor(expected + 1e-4)).max() <= 1
    assert photo.shape == (600, 512, 3) and np.abs(blurred - photo).max() > 50


def test_the_tour_names_what_is_there():
    paths = re.findall(r"^    (cuda(?:_device)?/[\w/.]+) ", TOUR.read_text(), re.M)
    assert paths
    for path in paths:
        assert (ROOT / path).exists(), path


def test_the_guide_has_all_environment_variables():
    used = {
        name
        for file in (ROOT / "cuda_device").rglob("*.py")
        for name in re.findall(r"\bCUDA_DEVICE_[A-Z_]+\b", file.read_text())
    }
    assert used == set(re.findall(r"`(CUDA_DEVICE_[A-Z_]+)`", GUIDE.read_text()))


def test_the_guide_has_all_options_of_kernels():
    table = GUIDE.read_text().partition("| option |")[2].partition("\n\n")[0]
    with pytest.raises(TypeError) as caught:
        device.kernel(no_such_option=1)
    options = set(str(caught.value).partition("the options are ")[2].split(", ")) - {"interop", "link"}
    assert options == set(re.findall(r"`(\w+)`", "".join(line.split("|")[1] for line in table.splitlines()[2:])))


# The tour


def stages(tmp_path) -> compiler.Work:
    kernel = execute(marked("program"), tmp_path)["reverse"]
    return compiler.run(job(kernel, device.ArrayType(device.float32, 1)), "llvm")


def test_the_tour_shows_what_the_compiler_prints(tmp_path, update_golden):
    work = stages(tmp_path)
    shows = {stage.name: stage.show for stage in compiler.GPU}

    def shown(match: re.Match) -> str:
        if match["kind"] != "stage":
            return match[0]
        text = str(shows[match["name"]](work[match["name"]]))
        if match["start"]:
            text = text[text.index(match["start"]) :]
        head, tail = match[0].split(match["text"] + "```") if match["text"] else (match[0][:-3], "")
        return f"{head}{text.rstrip()}\n```{tail}"

    old = TOUR.read_text()
    new = MARKED.sub(shown, old)
    if update_golden:
        TOUR.write_text(new)
    else:
        assert new == old, "docs/tour.md is out of date: pytest --update-golden tests/repository/test_examples.py"


def test_the_tour_shows_every_stage_of_the_front(tmp_path):
    shown = [match["name"] for match in MARKED.finditer(TOUR.read_text()) if match["kind"] == "stage"]
    assert shown == [*(stage.name for stage in compiler.FRONT), "llvm"]


def test_the_program_of_the_tour(tmp_path, stream):
    x = np.arange(64, dtype=np.float32)
    there = stream.array(x)
    stream.launch(execute(marked("program"), tmp_path)["reverse"], there, grid=1, block=64)
    assert np.array_equal(stream.numpy(there), x[::-1])


def test_the_intrinsic_of_the_tour(tmp_path, stream, monkeypatch):
    monkeypatch.setattr(rows, "BY_NAME", {**rows.BY_NAME})
    monkeypatch.setattr(rows, "BY_IDENTITY", {**rows.BY_IDENTITY})
    (row,) = execute(marked("intrinsic"), tmp_path)["ROWS"]
    monkeypatch.setattr(device, "lerp", row.entity, raising=False)
    execute(marked("test"), tmp_path, device=device)["test_lerp"](stream)


def prose_of(page: pathlib.Path) -> str:
    """The text of a page, or of the cells of a notebook that are text, without code."""
    text = page.read_text()
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```$|`[^`\n]+`", "", text, flags=re.S | re.M)


def heading_names(page: pathlib.Path) -> set[str]:
    """What links can name after `#`: the headings in small letters, without punctuation, with dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


TRACKED = subprocess.run(["git", "ls-files", "*.md", "*.ipynb"], cwd=ROOT, capture_output=True, text=True).stdout
PAGES = [ROOT / name for name in TRACKED.splitlines()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page):
    for link in re.findall(r"\]\(([^):\s]+)\)", prose_of(page)):
        path, _, heading = link.partition("#")
        there = (page.parent / path) if path else page
        assert there.exists(), link
        assert not heading or heading in heading_names(there), link


# Benchmarks


def test_the_benchmark_of_importing(tmp_path):
    done = python(str(ROOT / "benchmarks" / "import_time.py"), "--count", "1", cwd=tmp_path)
    assert "cuda_device after it" in done.stdout


@pytest.mark.long
@pytest.mark.skipif(not can_assemble(), reason="no assembler for sm_90 on this machine")
def test_the_benchmark_of_compiling(tmp_path):
    done = python(str(ROOT / "benchmarks" / "compile_time.py"), "--count", "1", "--largest", "100", cwd=tmp_path)
    assert "\n100 statements of loops " in done.stdout
    for stage in (*compiler.GPU, *cpu_target.STAGES):
        assert f"\n{stage.name} " in done.stdout


@pytest.mark.long
@pytest.mark.skipif(not can_assemble("sm_90a"), reason="no assembler for sm_90a on this machine")
def test_the_benchmark_of_compiling_the_transformer(tmp_path):
    done = python(str(ROOT / "benchmarks" / "compile_transformer.py"), "--count", "1", cwd=tmp_path)
    tables = done.stdout.strip().split("\n\n")
    for title, table in zip(("product", "attention"), tables, strict=True):
        assert table.startswith(title)
        parts = {name: float(time) for name, time in re.findall(r"^(\w+) +([\d.]+) ms$", table, re.M)}
        assert list(parts) == ["import", *(stage.name for stage in compiler.GPU), "other", "whole"]
        assert parts["whole"] == pytest.approx(
            sum(parts.values()) - parts["whole"] - parts["import"], abs=0.1 * len(parts)
        )


@pytest.mark.long
def test_the_benchmark_of_kernels_on_the_cpu(tmp_path):
    done = python(str(ROOT / "benchmarks" / "cpu.py"), "stream triad", "--scale", "0.0001", cwd=tmp_path)
    assert re.search(r"^stream triad +[\d.]+ +[\d.]+ +[\d.]+", done.stdout, re.M), done.stdout


@pytest.mark.long
@pytest.mark.skipif(not can_assemble(), reason="no assembler for sm_90 on this machine")
@pytest.mark.parametrize("script", ["code_quality.py", "compile_suite.py --count 1"])
def test_the_benchmarks_of_code(tmp_path, script):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    try:
        nvrtc.nvrtcVersion()
    except Exception as error:
        pytest.skip(f"NVRTC cannot be used: {error}")
    file, *options = script.split()
    done = python(str(ROOT / "benchmarks" / file), *options, "stream triad", cwd=tmp_path)
    assert "stream triad" in done.stdout


def test_the_plot_of_results(tmp_path):
    pytest.importorskip("matplotlib")
    seconds = {
        ("CUDA C++", "scan"): 2.0,
        ("cuda_device", "scan"): 1.0,
        ("Warp", "scan"): 3.0,
        ("CUDA C++", "life"): 1.0,
    }
    results = [
        {"contender": contender, "kernel": kernel, "seconds": time, "right": contender != "Warp"}
        for (contender, kernel), time in seconds.items()
    ]
    (tmp_path / "results.json").write_text(json.dumps({"machine": "a machine", "results": results}))
    done = python(str(ROOT / "benchmarks" / "plot.py"), "results.json", "--output", "plot.svg", cwd=tmp_path)
    drawn = (tmp_path / "plot.svg").read_text()
    assert drawn.count(">cuda_device</text>") == 1  # its line of the legend
    assert "Warp" not in drawn  # whose only result is wrong
    assert ">a machine</text>" in drawn


def test_every_benchmark_is_explained():
    told = (ROOT / "benchmarks" / "README.md").read_text()
    helpers = {"assembly.py", "numba_kernels.py", "nvrtc.py", "triton_kernels.py", "warp_kernels.py"}
    scripts = {path.name for path in (ROOT / "benchmarks").glob("*.py")} - helpers
    assert {name for name in scripts if f"`{name}`" not in told and f"[`{name}`]" not in told} == set()
