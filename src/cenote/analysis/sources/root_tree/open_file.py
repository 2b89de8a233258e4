"""Open ROOT files, find the tree in them, and keep the last few open."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

from cenote.analysis.sources.root_tree.baskets import PlainBranch
from cenote.analysis.sources.root_tree.file_record import OTHER_TREES, PREFERRED_TREES, content_of, read_header
from cenote.analysis.sources.support.files import (
    explained,
    file_number,
    is_remote,
    local_path,
    local_stamp,
    remote_options,
)
from cenote.common import errors
from cenote.common.arrays import imported
from cenote.common.errors import ErrorKind
from cenote.common.text import listed
from cenote.common.values import dataclass

if TYPE_CHECKING:
    import uproot
else:
    uproot = imported("uproot")

OPEN_BRANCHES = 4_000
"""Trees are kept open until together they have more branches than this: about 40 MB."""
OPEN_FILES = 64
"""Kept open at the most, for the system's limit of open files."""

_TREE_CLASSES = frozenset({"TTree", *OTHER_TREES})

_HEADER_SIZES = range(45, 1024)
"""Where the first record of a ROOT file may start, as the file itself says: ROOT writes 100, Geant4 writes 64."""


@dataclass(frozen=True, eq=False)
class OpenTree:
    """A tree ready to be read, and what identifies the file it is in."""

    url: str
    tree: Any  # uproot publishes no types: a TTree or an RNTuple
    size: int
    stamp: str
    branches: int
    """How many it has, or fields: found out before others are read beside it, for it may be damaged."""
    columns: dict[str, Any] = field(default_factory=dict)
    """Filled by who first needs to know them all: column name → where it is."""
    plain: dict[str, PlainBranch | None] = field(default_factory=dict)
    """Filled by who reads: branch → where its baskets are, or None."""

    @property
    def is_rntuple(self) -> bool:
        """Whether it is of ROOT's new format."""
        return is_rntuple(self.tree)

    def content_by(self, *said: Any) -> str:  # Any: bytes, in whatever holds them
        """The content of the tree, by all that it says of itself."""
        key, file = self.tree.parent, self.tree.file
        start = memoryview(file.begin_chunk.raw_data)
        header = read_header(start)
        if len(start) < header.named:  # it has a long name
            start = memoryview(file.chunk(0, min(header.named, header.end)).raw_data)
        return content_of(header, start, f"{key.object_path} {key.fDatime} {key.fSeekKey}".encode(), *said)


def is_rntuple(tree: Any) -> bool:  # Any: as above
    """Whether it is of ROOT's new format."""
    return isinstance(tree, uproot.behaviors.RNTuple.RNTuple)


_Key = tuple[str, str | None, str, int]
_kept: OrderedDict[_Key, OpenTree] = OrderedDict()
"""The trees of this process that were used last, the latest at the end."""
_keeping = Lock()


def open_tree(url: str, tree: str | None, *, kind: ErrorKind, anew: bool = False) -> OpenTree:
    """The tree of this file, opened now or before. Problems are raised as this kind of error, naming the file."""
    with explained(url, kind):
        # Stamp and number are part of the key: a file that was rewritten, or is another one, is opened again.
        stamp = local_stamp(url)
        key = (url, tree, stamp, file_number(url))
        with _keeping:
            if key in _kept and not anew:
                _kept.move_to_end(key)
                return _kept[key]
        opened = _opened(url, tree, stamp)
        with _keeping:
            _kept[key] = opened
            while len(_kept) > 1 and (
                len(_kept) > OPEN_FILES or sum(one.branches for one in _kept.values()) > OPEN_BRANCHES
            ):
                _kept.popitem(last=False)
        return opened


def _branches_kept() -> int:
    return sum(one.branches for one in _kept.values())


def trees_in(url: str) -> list[str]:
    """The names of all trees of a file."""
    with explained(url, errors.BAD_INPUT):
        if not is_remote(url):
            _demand_whole(local_path(url))
        with _open_quickly(url if is_remote(url) else str(local_path(url)), **remote_options(url)) as file:
            trees = _trees(file)
        if not trees:
            raise errors.error(errors.BAD_INPUT, f"{url} holds no tree")
        return trees


def _trees(file: Any) -> list[str]:
    classes = file.classnames(recursive=True, cycle=False)
    return [key for key, class_name in classes.items() if class_name in _TREE_CLASSES]


def _opened(url: str, tree: str | None, stamp: str) -> OpenTree:
    if is_remote(url):
        file = _open_quickly(url, **remote_options(url))
    else:
        _demand_whole(local_path(url))
        file = _open_quickly(str(local_path(url)), handler=uproot.source.file.MultithreadedFileSource, num_workers=1)
    try:
        found = _named_tree(file, url, tree)
        branches = len(found.fields) if is_rntuple(found) else len(found.branches)
    except BaseException:
        file.close()
        raise
    header = read_header(memoryview(file.file.begin_chunk.raw_data))
    opened = OpenTree(url, found, header.end, stamp or header.identity(url), branches)
    weakref.finalize(opened, file.close)  # when nobody reads from it: maybe later than it is dropped here
    return opened


def _open_quickly(url: str, **options: Any) -> Any:  # Any: a directory of uproot, which publishes no types
    """Without uproot's caches of objects and arrays, which would keep a hundred trees in memory."""
    from cenote.analysis.sources.root_tree.interpretations import bound_lengths

    bound_lengths()
    return uproot.open({url: None}, object_cache=None, array_cache=None, **options)


def _named_tree(file: Any, url: str, name: str | None) -> Any:
    trees = _trees(file)
    chosen = name if name is not None else _only_tree(trees, url)
    if chosen not in trees:
        message = f"{url} holds no tree '{chosen}'"
        raise errors.CenoteError(errors.unknown_name(errors.BAD_INPUT, message, chosen, trees, what="trees there"))
    with _no_garbage_collection():
        return file[chosen]


def _only_tree(trees: list[str], url: str) -> str:
    if len(trees) == 1:
        return trees[0]
    if not trees:
        raise errors.error(errors.BAD_INPUT, f"{url} holds no tree")
    for preferred in PREFERRED_TREES:
        if preferred in trees:
            return preferred
    raise errors.error(
        errors.BAD_INPUT,
        f"{url} holds several trees",
        details=(f"trees there: {listed(trees)}",),
        hint="choose one under `sources`, for example `events: {kind: root_tree, tree: " + min(trees) + "}`",
    )


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Opening a tree of 900 branches makes a million objects that all stay: collecting in between only costs."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _demand_whole(path: Path) -> None:
    """A ROOT file says in its first bytes how long it should be."""
    size = path.stat().st_size
    if size == 0:
        raise errors.error(errors.BAD_INPUT, f"{path} is empty: a file of 0 bytes")
    with path.open("rb") as file:
        head = file.read(20)
    if head[:4] != b"root" or int.from_bytes(head[8:12], "big") not in _HEADER_SIZES or len(head) < 20:
        raise errors.error(errors.BAD_INPUT, f"{path} is not a ROOT file")
    large = int.from_bytes(head[4:8], "big") >= 1_000_000
    end = int.from_bytes(head[12:20] if large else head[12:16], "big")
    if size < end:
        raise errors.error(
            errors.BAD_INPUT,
            f"{path} is cut short: {size:,} bytes of {end:,}",
            hint="copy it again, or wait until its writer has closed it",
        )
