"""Share what packed environments have in common: packed once, sent, and unpacked on the node."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from cenote.environments.interface import Environment
from cenote.launch import Launch
from cenote.packing.archive import Compression
from cenote.packing.prefix import FilledPrefix
from cenote.packing.progress import Progress


class PackedEnvironment(Environment):
    """A prefix that is packed on this machine and unpacked on each node. A kind says what is in it."""

    scratch: str | None = None
    """A folder of the node for unpacked environments, with `$VARIABLES` of the node; without it, one in the node's
    usual place for temporary files."""
    folder: str | None = None
    """A folder that nodes see too: archives are copied there, and nodes read them there."""
    compression: Compression | None = None
    """`gzip` for nodes without `zstd`; without it, the best that is installed here."""
    variables: dict[str, str] = Field(default_factory=dict)
    """Environment variables for workers."""

    @abstractmethod
    def _key(self) -> str:
        """A text that is cheap to make and changes when the content would: hashes of a lock, stamps of files."""

    @abstractmethod
    def _fill(self, folder: Path, progress: Progress) -> FilledPrefix:
        """A prefix with everything in it: made in this folder, which is empty and goes afterwards, or one that is
        there already. Called where no archive has the key."""

    def _source(self) -> str:
        """What people would say it was made from: the path of a lock or of a prefix."""
        return type(self).__name__

    def prepare(self, progress: Progress) -> None:
        """Pack it, unless that is done."""
        raise NotImplementedError

    def complete(self, launch: Launch) -> Launch:
        """With its archives unpacked on the node, and its Python."""
        raise NotImplementedError

    def describe(self) -> Mapping[str, Any]:
        """Its digests, packages, Python and platform."""
        raise NotImplementedError
