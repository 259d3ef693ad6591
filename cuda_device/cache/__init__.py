"""The cache of compiled kernels on disk: its keys, its files, the search for valid entries, and the hash of all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256
else:  # CPython's own implementation: `hashlib` loads OpenSSL, which takes a twentieth of a cold start
    try:
        from _sha2 import sha256  # since CPython 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

__all__ = ["sha256"]
