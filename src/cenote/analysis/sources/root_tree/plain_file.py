"""Read with our own reader what it knows, from places that were noted, and with uproot the rest."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from threading import Lock
from types import ModuleType

import numpy as np

from cenote.analysis.operations.support.events import Column
from cenote.analysis.sources.interface import ColumnInfo, FileInfo, find_column, named
from cenote.analysis.sources.root_tree.baskets import (
    DamagedError,
    NotPlainError,
    PlainBranch,
    PlainType,
    SharedOffsets,
    UnknownAlgorithmError,
    read_plain,
)
from cenote.analysis.sources.root_tree.fetching import AHEAD, opened_bytes
from cenote.analysis.sources.root_tree.file_record import HEADER_SIZE, find_tree, read_header
from cenote.analysis.sources.root_tree.places import Places, boundaries, note, read_places
from cenote.analysis.sources.root_tree.tree_record import BranchRecord, TreeRecord, UnfamiliarError
from cenote.analysis.sources.support.byte_files import content_of_few
from cenote.analysis.sources.support.files import explained, file_number, is_remote, local_path, local_stamp
from cenote.common import errors
from cenote.common.errors import ErrorKind
from cenote.common.values import dataclass

NEVER_FILLED = "was never filled: it has no values"
KEPT = 16
"""Files whose places this process remembers."""

_TYPE_NAMES = {
    "b1": "bool", "i1": "int8_t", "u1": "uint8_t", "i2": "int16_t", "u2": "uint16_t", "i4": "int32_t",
    "u4": "uint32_t", "i8": "int64_t", "u8": "uint64_t", "f4": "float", "f8": "double",
}  # fmt: skip


@dataclass(frozen=True)
class PlainFile:
    """A file whose tree has plain branches only."""

    url: str
    size: int
    """As the file says itself."""
    stamp: str
    """Stays while the file is the same: for one elsewhere, what its first bytes say."""
    tree: TreeRecord
    content: str

    @cached_property
    def columns(self) -> dict[str, BranchRecord]:
        """Column name → its branch; of branches with the same name, the first."""
        first = {branch.name: branch for branch in reversed(self.tree.branches)}
        return {name: first[path] for name, path in _names(tuple(branch.name for branch in self.tree.branches)).items()}

    @cached_property
    def branches(self) -> dict[str, PlainBranch]:
        """Those with values."""
        return {name: _plain(branch) for name, branch in self.columns.items() if self._is_filled(branch)}

    def describe(self) -> FileInfo:
        """Entries, columns, cluster boundaries, and where everything is."""
        columns = {
            name: ColumnInfo(_type_name(branch), branch.bytes, "" if self._is_filled(branch) else NEVER_FILLED)
            for name, branch in self.columns.items()
        }
        starts = [(branch.entries, branch.bytes) for branch in self.columns.values() if len(branch.seeks)]
        return FileInfo(
            self.url,
            self.size,
            self.stamp,
            self.tree.entries,
            columns,
            boundaries(starts, self.tree.entries),
            note(self.stamp, self.branches),
            self.content,
        )

    def _is_filled(self, branch: BranchRecord) -> bool:
        return bool(branch.entries[-1] > 0 or self.tree.entries == 0)


_kept: OrderedDict[tuple[str, str | None, str, int], PlainFile] = OrderedDict()
_keeping = Lock()


def plain_file(url: str, tree: str | None) -> PlainFile:
    """The file, looked at now or before. Raises `UnfamiliarError` where uproot has to look."""
    key = (url, tree, local_stamp(url), file_number(url))  # another file may have the name, time and size of this one
    with _keeping:
        if key in _kept:
            _kept.move_to_end(key)
            return _kept[key]
    with opened_bytes(url) as file:
        header, found, content = find_tree(file.fetch, None if is_remote(url) else local_path(url).stat().st_size, tree)
    looked_at = PlainFile(url, header.end, key[2] or header.identity(url), found, content)
    with _keeping:
        _kept[key] = looked_at
        if len(_kept) > KEPT:
            _kept.popitem(last=False)
    return looked_at


def forget(url: str, tree: str | None) -> None:
    """What was found out about a remote file, which may have changed since."""
    with _keeping:
        _kept.pop((url, tree, "", 0), None)


def remote_stamp(url: str) -> str:
    """Of a file elsewhere, from its first bytes; empty where nobody answers."""
    try:
        with opened_bytes(url) as file:
            return read_header(file.fetch(0, HEADER_SIZE)).identity(url)
    except (UnfamiliarError, DamagedError):
        return "no ROOT file"
    except Exception:  # whatever is wrong will be said, better, by whoever reads the file
        return ""


def read_branches(
    url: str, branches: Mapping[str, PlainBranch], start: int, stop: int, *, identity: str
) -> dict[str, Column] | None:
    """Those of these columns that turn out to be plain, for entries [start, stop); None where the file has changed."""
    shared: SharedOffsets = {}
    columns: dict[str, Column] = {}
    remote = is_remote(url)
    if not remote and identity != local_stamp(url):
        return None
    ranges = _all_ranges(url, branches.values(), start, stop)
    with opened_bytes(url) as file:
        fetch = AHEAD.take(url, ranges) or file.merged(ranges)
        if remote and read_header(fetch(0, HEADER_SIZE)).identity(url) != identity:
            return None
        for name, branch in branches.items():
            with explained(url, errors.UNREADABLE_INPUT, what=f"branch '{name}' of {url}"):
                try:
                    columns[name] = read_plain(fetch, branch, start, stop, shared)
                except (NotPlainError, UnknownAlgorithmError):
                    continue
    return columns


def fetch_ahead(url: str, branches: Mapping[str, PlainBranch], start: int, stop: int) -> None:
    """Begin to fetch what `read_branches` will be asked for; returns at once."""
    AHEAD.begin(url, _all_ranges(url, branches.values(), start, stop))


def _all_ranges(url: str, branches: Iterable[PlainBranch], start: int, stop: int) -> list[tuple[int, int]]:
    """With those that tell whether a file elsewhere is still the same."""
    first = [(0, HEADER_SIZE)] if is_remote(url) else []
    return [*first, *_ranges(branches, start, stop)]


def _ranges(branches: Iterable[PlainBranch], start: int, stop: int) -> Iterable[tuple[int, int]]:
    for branch in branches:
        try:
            numbers = branch.baskets(start, stop)
        except NotPlainError:
            continue
        yield from ((branch.seeks[number], branch.sizes[number]) for number in numbers)


def _plain(branch: BranchRecord) -> PlainBranch:
    leaf = branch.leaf
    stored = np.dtype(leaf.number).newbyteorder(">")
    in_memory = stored.newbyteorder("=").str
    kind = PlainType(stored.str, in_memory, jagged=bool(leaf.counter), shape=leaf.shape, header=leaf.header)
    return PlainBranch(kind, leaf.counter, branch.entries.tolist(), branch.seeks.tolist(), branch.sizes.tolist())


@lru_cache(maxsize=4)
def _names(branches: tuple[str, ...]) -> Mapping[str, str]:
    """Column name → branch: the same for every file that was made alike."""
    return named(dict.fromkeys(branches))


def _type_name(branch: BranchRecord) -> str:
    """As uproot words it."""
    leaf = branch.leaf
    number = _TYPE_NAMES[leaf.number]
    if leaf.header:
        return f"std::vector<{number}>"
    return f"{number}{'[]' if leaf.counter else ''}{''.join(f'[{size}]' for size in leaf.shape)}"


# Read with our own reader what it knows, and with uproot the rest.
#
# uproot is imported where a file needs it: trees of numbers do not, and they are most.


_importing = Lock()


def describe(url: str, tree: str | None) -> FileInfo:
    """Entries, columns and cluster boundaries of the tree, and where its baskets are."""
    if is_remote(url):
        forget(url, tree)  # the stamp of what is kept tells of files of this machine alone
    with explained(url, errors.BAD_INPUT):
        file = _plain_file(url, tree, errors.BAD_INPUT)
        described: FileInfo = _with_uproot().describe(url, tree) if file is None else file.describe()
        return described if described.content else replace(described, content=content_of_few(url, described.size))


def read(url: str, tree: str | None, columns: Sequence[str], start: int, stop: int) -> dict[str, Column]:
    """Exactly these columns; what was found out of the file serves the next range."""
    file = _plain_file(url, tree, errors.UNREADABLE_INPUT)
    if file is None:
        return _read_rest(url, tree, columns, start, stop, {})
    with explained(url, errors.UNREADABLE_INPUT):
        places = Places(file.stamp, _named(file.branches, columns))
    found = _read_places(url, places, start, stop)
    if found is None:
        forget(url, tree)
    return _read_rest(url, tree, columns, start, stop, found or {})


def read_placed(
    url: str, tree: str | None, columns: Sequence[str], start: int, stop: int, places: bytes
) -> dict[str, Column]:
    """The same, at places that were noted; of a file that has changed since, they say nothing."""
    found = _read_places(url, read_places(places), start, stop)
    if found is None:
        return read(url, tree, columns, start, stop)
    return _read_rest(url, tree, columns, start, stop, found)


def fetch_placed(url: str, start: int, stop: int, places: bytes) -> None:
    """Begin to fetch what `read_placed` will be asked for; returns at once."""
    fetch_ahead(url, read_places(places).branches, start, stop)


def are_plain(url: str, tree: str | None, columns: Sequence[str], places: bytes) -> bool:
    """Whether none of these columns is left to uproot."""
    file = None if places else _plain_file(url, tree, errors.UNREADABLE_INPUT)
    branches = read_places(places).branches if places else {} if file is None else _named(file.branches, columns)
    return branches.keys() >= set(columns)


def _read_places(url: str, places: Places, start: int, stop: int) -> dict[str, Column] | None:
    if not places.branches:
        return {}
    with explained(url, errors.UNREADABLE_INPUT):
        return read_branches(url, places.branches, start, stop, identity=places.stamp)


def _read_rest(
    url: str, tree: str | None, columns: Sequence[str], start: int, stop: int, found: Mapping[str, Column]
) -> dict[str, Column]:
    """What is not found yet, by uproot."""
    left = [name for name in columns if name not in found]
    with explained(url, errors.UNREADABLE_INPUT):
        rest = _with_uproot().read(url, tree, left, start, stop) if left else {}
    return {name: found[name] if name in found else rest[name] for name in columns}


def _named(branches: Mapping[str, PlainBranch], columns: Sequence[str]) -> dict[str, PlainBranch]:
    known = {name: find_column(name, branches) for name in columns}
    return {name: branches[found] for name, found in known.items() if found is not None}


def _plain_file(url: str, tree: str | None, kind: ErrorKind) -> PlainFile | None:
    with explained(url, kind):
        try:
            return plain_file(url, tree)
        except UnfamiliarError:  # if anything is wrong with it, uproot's reader will say what
            return None


def _with_uproot() -> ModuleType:
    """Threads that import the same at once can fail."""
    with _importing:
        from cenote.analysis.sources.root_tree import reading
    return reading
