"""A key in a file that only its owner may read, and what it signs: JSON fields, by HMAC-SHA-256.

The ledger of a class is signed with one. A bundle runs where no key of ours is, so it carries a key that is
derived from ours for it alone.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import tempfile
from pathlib import Path

KEY_BYTES = 32


class KeyFileError(ValueError):
    """A file that is no key, or one that others can read. The text says what to do."""


def key(path: Path, make: bool = True) -> bytes:
    """The key in this file; with ``make`` a new one where there is none. Raises KeyFileError, OSError."""
    if make and not path.exists():
        with contextlib.suppress(FileExistsError):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor, made = tempfile.mkstemp(dir=path.parent)  # 0600
            with open(descriptor, "w") as file:
                file.write(secrets.token_hex(KEY_BYTES))
            try:
                os.link(made, path)  # of two that make it at once, one does; and nobody reads half a key
            finally:
                os.unlink(made)
    if path.stat().st_mode & 0o077:
        raise KeyFileError(f"others may read the key {path}: `chmod 600 {path}`, or name another with --key")
    with open(path, "rb") as file:
        text = file.read(1024).strip()
    if len(text) < 2 * KEY_BYTES:
        raise KeyFileError(f"{path} is no key: remove it, and a new one is made; what it signed is not known")
    return text


def derived(own: bytes, name: str) -> bytes:
    """A key for one use: who has it learns nothing of ``own``, nor of another's."""
    return hmac.new(own, name.encode(), hashlib.sha256).hexdigest().encode()


def sign(with_key: bytes, fields: dict) -> str:
    """The signature of JSON fields, whatever their order."""
    data = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    return hmac.new(with_key, data, hashlib.sha256).hexdigest()


def right(with_key: bytes, fields: dict, signature: object) -> bool:
    """Is this the signature of these fields?"""
    if not isinstance(signature, str) or not signature.isascii():
        return False
    return hmac.compare_digest(signature, sign(with_key, fields))
