"""The changes that `python -m tests.mutation` makes: each is Python, is what it says, and leaves docstrings alone."""

import ast
from pathlib import Path

import pytest
from mutation.mutants import mutants

SOURCE = '''
"""A docstring with 1 < 2."""
def f(a: int, b=True) -> "x < y":
    """Not a < b."""
    if a < b and not b:
        a += 1
        g(a)
        raise ValueError(f"{a + 1}")
    return (a * 2, b) if a is None else [a, b]
'''


def test_the_changes_of_a_function():
    found = {(mutant.kind, mutant.before.strip(), mutant.after.strip()) for mutant in mutants(SOURCE)}
    assert found == {
        ("comparison", "<", "<="), ("and/or", "and", "or"), ("not", "not b", "(b)"), ("constant", "True", "False"),
        ("condition", "a < b and not b", "(not (a < b and not b))"), ("constant", "1", "2"), ("statement", "a += 1", "pass"),
        ("statement", "g(a)", "pass"), ("operator", "*", "+"), ("constant", "2", "3"), ("order", "a * 2, b", "b, a * 2"),
        ("comparison", "is", "is not"), ("order", "a, b", "b, a"), ("condition", "a is None", "(not (a is None))"),
        ("result", "(a * 2, b) if a is None else [a, b]", "None"),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["passes/lower.py", "device/rows.py", "codegen/emitters.py", "bytecode/rows.py"])
def test_every_change_is_python(name):
    source = (Path(__file__).parent.parent / "cuda_device" / name).read_text()
    found = list(mutants(source))
    assert len(found) > 20
    for mutant in found[:: len(found) // 20]:
        assert mutant.text != source
        assert ast.get_docstring(ast.parse(mutant.text)) == ast.get_docstring(ast.parse(source))
