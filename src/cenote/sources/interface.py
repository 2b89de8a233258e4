"""This file says what a source is: it describes files, and reads columns of an entry range."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field

from cenote.operations.events import Column
from cenote.plugins.settings import Settings
from cenote.sources._files import stamp_of


@dataclass(frozen=True)
class ColumnInfo:
    """What the metadata of a file says of one column."""

    type: str
    """As the format words it: `float`, `float[]`, `int64_t`, …"""
    bytes: int
    """Uncompressed size in the whole file, for choosing partitions."""


@dataclass(frozen=True)
class FileInfo:
    """The metadata of one input file: all that planning needs to know of it."""

    url: str
    size: int
    """Of the file in bytes; 0 where the protocol does not tell."""
    stamp: str
    """Changes when the content does: modification time, ETag or the file's own unique id."""
    entries: int
    columns: Mapping[str, ColumnInfo]
    boundaries: Sequence[int] = field(default=())
    """Entry numbers at which reading may start without decompressing anything twice, 0 and `entries` included."""


def flat_name(name: str) -> str:
    """`Muon.pt` and `Muon/pt` → `Muon_pt`: how columns inside others are called."""
    return name.replace("/", "_").replace(".", "_")


def find_column(name: str, columns: Container[str]) -> str | None:
    """The column that a name means: the very name, or `Muon_pt` where somebody wrote `Muon.pt` or `Muon/pt`."""
    if name in columns:
        return name
    flat = flat_name(name)
    return flat if flat in columns else None


class Source(Settings):
    """Reads events. Its fields are the settings under `sources.<id>`."""

    def stamp(self, url: str) -> str:
        """Found without opening the file; while it stays the same, so does what `describe` says. Empty: unknown."""
        return stamp_of(url)

    def describe(self, url: str) -> FileInfo:
        """Metadata only. Raises `bad-input` naming the file (and what it does hold) when it cannot be read."""
        raise NotImplementedError

    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns for entries [start, stop). Raises `unreadable-input` naming file and column."""
        raise NotImplementedError
