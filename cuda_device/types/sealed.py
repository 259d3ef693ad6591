"""The meaning of sealed tuples, results that a program passes on and cannot read yet (see `infer/sealed_tuples`)."""

from __future__ import annotations

from cuda_device.errors import CompileError
from cuda_device.lazy_dataclasses import dataclass, field
from cuda_device.types.known import Known, bundle_of
from cuda_device.types.model import Tuple


@dataclass(frozen=True, slots=True)
class Sealed:
    """The value of a bundle that is a sealed tuple. It prints as in error messages, and `use` is their help."""

    name: str
    use: str
    newer: int | None = field(default=None, compare=False)
    """How many tuples the program has sealed since, where that is known."""

    def __str__(self) -> str:
        return self.name

    def adopted(self, known: Known) -> Known:
        """A tuple that meets a sealed one where control flow joins, as a sealed tuple. Other values are unchanged."""
        return bundle_of(self, known.items) if isinstance(known.type, Tuple) else known

    def explain(self, error: CompileError) -> None:
        """Sets the help of an error whose reason is that a sealed tuple was read."""
        if self.name in error.reason:
            error.help = self.use
