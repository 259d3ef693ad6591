"""SHA-256 from Python's own implementation: `hashlib` would load OpenSSL, which takes a twentieth of a cold start.

sha256(b"text").hexdigest()         as of `hashlib`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # since CPython 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

__all__ = ["sha256"]
