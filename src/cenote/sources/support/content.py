"""Say what is in a file by all of its bytes, where nothing in the file says it."""

from __future__ import annotations

import hashlib

import xxhash

from cenote.sources.support.byte_files import opened
from cenote.sources.support.files import is_remote, local_path

FEW_BYTES = 1_000_000
"""Reading so many costs less than a hundredth of what a task does with them."""
_PIECE = 4_000_000


def content_of_few(url: str, size: int) -> str:
    """Of a file of this size, as `FileInfo` has it; empty for a large one, and for one elsewhere."""
    if is_remote(url) or size > FEW_BYTES:
        return ""
    return content_of_bytes(local_path(url).read_bytes())


def content_of_bytes(whole: bytes) -> str:
    """The same of bytes that are there already."""
    return f"bytes-{xxhash.xxh3_128_hexdigest(whole)}"


def checksum(url: str) -> str:
    """Of a file of any size, which is read whole: one that nobody can imitate."""
    hashed = hashlib.sha256()
    with opened(url) as file:
        while piece := file.read(_PIECE):
            hashed.update(piece)
    return f"sha256-{hashed.hexdigest()}"
