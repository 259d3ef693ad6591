"""Files of compiled code, and their indices: JSON with the record of each file (`Compiled.record`).

A type is stored as the text of IR, and read once, when a launch needs it. A file is read without the compiler or LLVM.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from cuda_device import Compiled, LaunchError, Parameter
from cuda_device.extend import CodeRecord, pack_summary, replace, sha256, unpack_summary
from cuda_device.plugins.saved.loaded_kernel import LoadedKernel

_FORMAT = 5
"""The version of the format of an index."""
_DEFAULTS = CodeRecord("").options
_OPTIONS = type(_DEFAULTS).__match_args__
_TEXTS = "symbol", "target", "output"
"""Fields of `Compiled` that an index stores as they are."""
_ERRORS = (AttributeError, LookupError, SyntaxError, TypeError, ValueError)
"""What reading a file that is no index may raise."""


def save(compiled: Compiled, path: str | os.PathLike[str]) -> None:
    """Writes the code to a file, and its record to a second one."""
    path = os.fspath(path)
    with open(path, "wb") as file:
        file.write(data_of(compiled))
    write_index(f"{path}.json", {os.path.basename(path): compiled})


def data_of(compiled: Compiled) -> bytes:
    """The code as the content of a file."""
    return compiled.code if isinstance(compiled.code, bytes) else compiled.code.encode()


def write_index(path: str, files: Mapping[str, Compiled]) -> None:
    """Writes the index of files, by their names, at `path`."""
    kernels = [
        {
            "file": name,
            "digest": sha256(data_of(compiled)).hexdigest(),
            "text": isinstance(compiled.code, str),
            **{field: getattr(compiled, field) for field in _TEXTS},
            "record": _plain(compiled.record),
        }
        for name, compiled in files.items()
    ]
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"cuda_device": _FORMAT, "kernels": kernels}, file, indent=1, ensure_ascii=False)


def _plain(record: CodeRecord) -> dict[str, Any]:
    """A record as JSON."""
    values: dict[str, Any] = {name: getattr(record, name) for name in CodeRecord.__match_args__}
    options = {name: getattr(record.options, name) for name in _OPTIONS}
    programs = {target: pack_summary(program).decode() for target, program in record.programs.items()}
    return values | {"options": options, "programs": programs}


def _record(values: dict[str, Any]) -> CodeRecord:
    """The record that JSON describes; options of another version of this package are ignored."""
    options = {name: value for name, value in values["options"].items() if name in _OPTIONS}
    options |= {name: tuple(value) for name, value in options.items() if isinstance(value, list)}
    parameters = tuple(Parameter(*fields) for fields in values["parameters"])
    dependencies = tuple(values["dependencies"])
    programs = {target: unpack_summary(text.encode()) for target, text in values["programs"].items()}
    warnings = tuple(values.get("warnings", ()))
    read = {"parameters": parameters, "dependencies": dependencies, "programs": programs, "warnings": warnings}
    return CodeRecord(**{**values, **read, "options": replace(_DEFAULTS, **options)})


def load(path: str | os.PathLike[str]) -> Any:
    """Loads a file written by `Compiled.save`, or a folder written by `python -m cuda_device build`.

    Returns a `Compiled` for a file, and a dict of `LoadedKernel` by name for a folder, without loading the compiler or LLVM.
    Raises `LaunchError` for anything else, for files that have changed, and for files in another version of the format.
    """
    path = os.fspath(path)
    is_folder = os.path.isdir(path)
    index = os.path.join(path, "index.json") if is_folder else f"{path}.json"
    try:
        files = _read_index(index)
        if not is_folder:
            return files[0]
    except OSError as error:
        help = "load the output of Compiled.save(path) or of python -m cuda_device build, with its index in the same folder"
        raise LaunchError(f"{path} cannot be loaded: {error.filename}: {error.strerror}", help) from None
    except _ERRORS as error:
        raise LaunchError(f"{index} is not an index of compiled kernels ({error})", "build it again") from None
    kernels: dict[str, list[Compiled]] = {}
    for compiled in files:
        if compiled.record.is_loadable:
            kernels.setdefault(compiled.record.function, []).append(compiled)
    return {name: LoadedKernel(name, tuple(variants)) for name, variants in kernels.items()}


def _read_index(index: str) -> list[Compiled]:
    with open(index, encoding="utf-8") as file:
        data = json.load(file)
    if data["cuda_device"] != _FORMAT:
        raise ValueError(f"of format {data['cuda_device']}, and not {_FORMAT}")
    return [_compiled(os.path.dirname(index), entry) for entry in data["kernels"]]


def _compiled(folder: str, entry: dict[str, Any]) -> Compiled:
    path = os.path.join(folder, entry["file"])
    with open(path, "rb") as file:
        code = file.read()
    if sha256(code).hexdigest() != entry["digest"]:
        raise ValueError(f"{path} has changed since, or is another file")
    texts: dict[str, Any] = {field: entry[field] for field in _TEXTS}
    return Compiled(code.decode() if entry["text"] else code, **texts, record=_record(entry["record"]))
