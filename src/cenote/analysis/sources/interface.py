"""State what a source is: it describes files, and reads columns of an entry range."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.support.files import stamp_of
from cenote.common import errors
from cenote.common.text import column_name
from cenote.common.values import dataclass
from cenote.language.plugins.settings import Plugin


@dataclass(frozen=True)
class ColumnInfo:
    """What the metadata of a file says of one column."""

    type: str
    """As the format words it: `float`, `float[]`, `int64_t`, …"""
    bytes: int
    """Uncompressed size in the whole file, for choosing partitions."""
    unreadable: str = ""
    """Why it cannot be read, although it is there: "holds objects of a class that …"; empty where it can."""
    leaf: str = ""
    """What it is called within the branch that holds it, where that is another name: `jetEt` of `L1Upgrade/jetEt`."""


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
    places: bytes = field(default=b"", compare=False, repr=False)
    """Where the values of columns are, as the source notes it down for `cut_places`; empty: it will look again."""
    content: str = ""
    """What is in it, in a word that no file with other events has, whatever it is called and whenever it was copied.
    Empty: unknown, then address and `stamp` have to do."""


def flat_name(name: str) -> str:
    """`Muon.pt` and `Muon/pt` → `Muon_pt`: how columns inside others are called."""
    return column_name(name.replace("/", "_"))


def path_name(path: str) -> str:
    """`Jet/Jet.PT` → `Jet.PT`, `L1Upgrade/jetEt` → `L1Upgrade.jetEt`: a branch within others names each parent once."""
    parts = path.split("/")
    for parent in reversed(parts[:-1]):
        if not parts[-1].startswith(f"{parent.rstrip('.')}."):
            parts[-1] = f"{parent.rstrip('.')}.{parts[-1]}"
    return parts[-1]


def named(paths: Iterable[str]) -> dict[str, str]:
    """The flat name of each path → the path. Paths that would have the same one keep their own: see `clashes`."""
    flat = {path: flat_name(path_name(path)) for path in paths}
    often = Counter(flat.values())
    return {name if often[name] == 1 else path: path for path, name in flat.items()}


def clashes(columns: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The flat name that several columns would have → these columns: a name that means none of them."""
    found: dict[str, list[str]] = {}
    for name in columns:
        found.setdefault(flat_name(path_name(name)), []).append(name)
    return {flat: tuple(names) for flat, names in found.items() if len(names) > 1}


def find_column(name: str, columns: Container[str]) -> str | None:
    """The column that a name means: the very name, or `Muon_pt` for `Muon.pt` or a branch's path."""
    spellings = (name, flat_name(name), flat_name(path_name(name)))
    return next((spelling for spelling in spellings if spelling in columns), None)


def known_column(name: str, columns: Collection[str], url: str) -> str:
    """The same. Raises `unreadable-input`, with the nearest name, where a file has no such column."""
    found = find_column(name, columns)
    if found is None:
        words = f"{url} has no column '{name}'"
        problem = errors.unknown_name(errors.UNREADABLE_INPUT, words, name, columns, what="columns there")
        raise errors.CenoteError(problem)
    return found


class Source(Plugin):
    """Reads events. Its fields are the settings under `sources.<id>`."""

    @classmethod
    def own_dataset(cls, settings: Mapping[str, Any]) -> dict[str, Any] | None:  # noqa: ARG003  # for generators
        """Name, files and event type of the dataset of a workflow without any; None for what reads files."""
        return None

    def file_of(self, url: str, nevents: int | None) -> str:  # noqa: ARG002  # for generators
        """A file as a dataset with this `nevents` has it: another one where what is generated depends on how much."""
        return url

    def stamp(self, url: str) -> str:
        """Found without opening the file; while it stays the same, so does what `describe` says. Empty: unknown."""
        return stamp_of(url)

    def current_stamp(self, url: str) -> str:
        """The stamp that `describe` would give now, with as little reading as possible. Empty: unknown."""
        return self.stamp(url)

    def files_behind(self, url: str) -> tuple[str, ...]:
        """All that the events of a file come from: files of their own may belong to it. None of what is generated."""
        return (url,)

    @abstractmethod
    def describe(self, url: str) -> FileInfo:
        """Metadata only. Raises `bad-input` naming the file (and what it does hold) when it cannot be read."""

    @abstractmethod
    def read(self, url: str, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
        """Exactly these columns for entries [start, stop). Raises `unreadable-input` naming file and column."""

    def parts(self, url: str) -> Sequence[tuple[str, Source]]:  # noqa: ARG002  # for files that hold several
        """What a file holds that can be read: the name of each tree, and the source that reads it."""
        return (("", self),)

    @classmethod
    def finds_places(cls) -> bool:
        """Whether `read_placed` does what `read` does: a class with a `read` of its own alone may do something else."""
        return cls.maker_of("read") is cls.maker_of("read_placed")

    def cut_places(self, noted: bytes, columns: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Of what `describe` noted as `places`, the part that a task needs, for each of these ranges of entries."""
        raise NotImplementedError(f"{type(self).__name__} notes places, and does not say how to cut them")

    def read_placed(self, url: str, columns: Sequence[str], start: int, stop: int, places: bytes) -> dict[str, Column]:
        """What `read` does, told by `cut_places` where to find it."""
        raise NotImplementedError(f"{type(self).__name__} cuts places, and does not say how to read there")

    def fetch_placed(self, url: str, start: int, stop: int, places: bytes) -> None:
        """Begin to fetch what `read_placed` will soon be asked for, which may never happen. Returns at once; what goes
        wrong is told by the reading."""

    def frees_lock(self, url: str, columns: Sequence[str], places: bytes) -> bool:
        """Whether reading these, with or without places, is left nearly all to code without Python's lock, so that
        threads can share a process."""
        del url, columns, places
        return False
