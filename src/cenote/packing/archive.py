"""Describe a packed tree of files: all that a node must know to unpack it."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from cenote.values import dataclass

Compression = Literal["zstd", "gzip"]
ANY_PLATFORM = "noarch"
PREFIX = "CENOTE_PREFIX"
"""Variable of a worker's node by which an environment says where its software is."""
OWN_FOLDER = ".cenote"
"""In every archive: `activate.sh`, and where files hold the placeholder, `relocate.py` with its list."""


@dataclass(frozen=True)
class Archive:
    """A tar file, compressed. Its members are named from the folder that it is unpacked to: `bin/python`."""

    file: Path
    """An absolute path; its name has its digest, so that two archives never share one."""
    digest: str
    """SHA-256 of the file, in hex."""
    size: int
    """Bytes of the file."""
    unpacked: int
    """Bytes of disk once it is unpacked."""
    compression: Compression
    platform: str = ANY_PLATFORM
    """As conda names it: `linux-64`; `noarch` where any will do."""
    placeholder: str = ""
    """What stands in its files for the folder that it is unpacked to, which must not have a longer path; empty where
    nothing does. `bin/python .cenote/relocate.py FOLDER`, run in the unpacked tree, writes the folder instead."""
