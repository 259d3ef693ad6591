"""The notebooks in `examples/notebooks`: each runs from top to bottom, and shows what it says.

    pytest tests/repository/test_notebooks.py --update-golden          writes what cells show to the notebooks

Cells are run as Jupyter does, as far as these notebooks go: the value of the last expression is shown in the richest forms
that it has. Tags of a cell say what is different: `raises-exception`, as in Jupyter, and `varies`, where the compiler's own
texts or times are shown, which are not compared.
"""

import ast
import base64
import contextlib
import io
import json
import linecache
import re
import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest
from processes import python

import cuda_device as device
from cuda_device.errors import Location

NOTEBOOKS = sorted((Path(__file__).parents[2] / "examples" / "notebooks").glob("*.ipynb"))
FORMS = {"text/html": "_repr_html_", "image/png": "_repr_png_"}


def lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def shown(value: object) -> dict:
    """What Jupyter shows of a value."""
    data: dict = {}
    for kind, method in FORMS.items():
        if not isinstance(value, type) and hasattr(value, method):
            made = getattr(value, method)()
            data[kind] = base64.b64encode(made).decode() + "\n" if isinstance(made, bytes) else lines(made)
    return {**data, "text/plain": lines(repr(value))}


def run(cell: dict, number: int, names: dict) -> list[dict]:
    """The outputs of a cell; an error that its tags do not announce is raised."""
    source = "".join(cell["source"])
    file = f"cell {number}"
    linecache.cache[file] = len(source), None, lines(source), file
    tree = ast.parse(source)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    outputs, printed, value, error = [], io.StringIO(), None, None
    with contextlib.redirect_stdout(printed):
        try:
            exec(compile(tree, file, "exec"), names)
            value = eval(compile(last, file, "eval"), names) if last else None
        except Exception as raised:
            if "raises-exception" not in cell["metadata"].get("tags", ()):
                raise
            error = raised
    assert error or "raises-exception" not in cell["metadata"].get("tags", ()), f"raises nothing:\n{source}"
    if printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": lines(printed.getvalue())})
    if value is not None:
        result = {"data": shown(value), "execution_count": number, "metadata": {}, "output_type": "execute_result"}
        outputs.append(result)
    if error:
        name, text = type(error).__name__, str(error)
        outputs.append({"ename": name, "evalue": text, "output_type": "error", "traceback": [f"{name}: {text}"]})
    return outputs


def stable(outputs: list[dict], varies: bool) -> object:
    """What two runs of a cell have in common: pictures roughly, and no columns, which differ between releases of Python."""
    if varies:
        return [(output["output_type"], sorted(output.get("data", ()))) for output in outputs]
    plain = json.loads(json.dumps(outputs))
    for output in plain:
        if picture := output.get("data", {}).pop("image/png", None):
            from PIL import Image

            pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(picture))), dtype=np.float64)
            output["picture"] = pixels.shape
            output["brightness"] = np.round(pixels.mean(), 0)
            output["data"].pop("text/plain")
    return re.sub(r"\^+|0x[0-9a-fA-F]+", "", json.dumps(plain))


@pytest.fixture
def ipython(monkeypatch):
    """IPython, as far as messages ask it: its names of the cells that `run` has run."""
    shell = MagicMock()
    shell.compile.format_code_name = lambda file: ("Cell", f"In[{file[5:]}]") if file.startswith("cell ") else None
    monkeypatch.setitem(sys.modules, "IPython", MagicMock(get_ipython=lambda: shell, version_info=(9, 0)))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook(notebook, no_gpu, ipython, update_golden):
    pytest.importorskip("matplotlib")
    text = notebook.read_text()
    data = json.loads(text)
    names: dict = {"__name__": "__main__"}
    code = [cell for cell in data["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(code, 1):
        outputs = run(cell, number, names)
        varies = "varies" in cell["metadata"].get("tags", ())
        if stable(outputs, varies) != stable(cell["outputs"], varies):
            assert update_golden, f"--update-golden: cell {number} of {notebook.name} shows {outputs}"
            cell["outputs"], cell["execution_count"] = outputs, number
    if update_golden:
        notebook.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_are_of_the_format(notebook):
    nbformat = pytest.importorskip("nbformat")
    nbformat.validate(nbformat.read(notebook, as_version=4))


@pytest.mark.parametrize(
    "cell, complaint",
    [
        ({"source": ["1 / 0"], "metadata": {}}, "division by zero"),
        ({"source": ["1"], "metadata": {"tags": ["raises-exception"]}}, "raises nothing"),
    ],
)
def test_a_cell_that_is_wrong_fails(cell, complaint):
    with pytest.raises((AssertionError, ZeroDivisionError), match=complaint):
        run(cell, 1, {})


SESSION = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance(colors="NoColor")
shell.run_cell("import numpy as np, cuda_device as device", store_history=True)
shell.run_cell("@device.kernel\\ndef k(x, a):\\n    x[device.tid(1)] = a * a\\n", store_history=True)
shell.run_cell(
    "device.launch(k, np.ones(1), 0.5, grid=1, block=2, stream=device.cpu_stream())", store_history=True
)
"""


def test_messages_in_ipython_name_the_cell():
    pytest.importorskip("IPython")
    done = python("-c", SESSION)
    assert (
        "KernelError: index 1 is out of bounds for axis 0 of size 1\n  at Cell In[2], line 3, in thread" in done.stdout
    )
    assert "Cell In[2]:3: PrecisionWarning" in done.stderr and "at Cell In[2], line 3, in k\n" in done.stderr


def test_names_of_cells(ipython):
    assert str(Location("cell 3", 7, column=4)) == "Cell In[3], line 7"
    assert str(Location("cell 3", 0, function="k", offset=2)) == "Cell In[3], bytecode offset 2 of k"
    assert str(Location("kernel.py", 7, column=4)) == "kernel.py:7:5"


# What notebooks show of arrays


def test_arrays_show_what_they_are_above_their_elements():
    html = device.array(np.arange(6).reshape(2, 3), stream=device.cpu_stream())._repr_html_()
    cells = re.findall(r"<t[hd]>([^<]*)</t[hd]>", html)
    assert cells == ["shape", "(2, 3)", "dtype", "int64", "device", "cpu"]
    assert html.endswith("<pre>[[0, 1, 2],\n [3, 4, 5]]</pre>")
    assert "..., " in device.zeros(10_000, stream=device.cpu_stream())._repr_html_()
