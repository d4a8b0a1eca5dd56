"""The verifier that stands alone, as the one file that it is when it is handed to somebody."""

from __future__ import annotations

from importlib import resources
from typing import Final

_IMPORTED: Final = "from amends.evidence.ed25519 import is_signature\n"


def verifier_source() -> str:
    """The source of a program that needs nothing but Python: the part that it would import stands in its place."""
    folder = resources.files("amends.evidence")
    whole = (folder / "standalone.py").read_text(encoding="utf-8")
    part = (folder / "ed25519.py").read_text(encoding="utf-8")
    _, _, code = part.partition("import hashlib\n")
    return whole.replace(_IMPORTED, f"# -- Ed25519 (RFC 8032), verifying only {'-' * 82}\n{code.rstrip()}\n\n")
