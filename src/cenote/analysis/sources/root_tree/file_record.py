"""Find the tree in a file, straight from the file's bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any
from uuid import RFC_4122, UUID

import xxhash

from cenote.analysis.sources.root_tree.baskets import Fetch, decompressed
from cenote.analysis.sources.root_tree.tree_record import TreeRecord, UnfamiliarError, parse_tree
from cenote.analysis.sources.support.files import stamp_of
from cenote.common.values import dataclass

PREFERRED_TREES = ("Events", "events")
"""The tree to read when a file holds several and the workflow names none."""
OTHER_TREES = frozenset({"TNtuple", "TNtupleD", "TChain", "ROOT::RNTuple", "ROOT::Experimental::RNTuple"})
FOLDERS = frozenset({"TDirectory", "TDirectoryFile"})

_SMALL_FILE = struct.Struct(">4siiiiiiiBiiiH16s")
"""`root`, fVersion, fBEGIN, fEND, fSeekFree, fNbytesFree, nfree, fNbytesName, fUnits, fCompress, fSeekInfo,
fNbytesInfo, the version of fUUID, and fUUID."""
_LARGE_FILE = struct.Struct(">4siiqqiiiBiqiH16s")
HEADER_SIZE = _LARGE_FILE.size
_SMALL_FOLDER = struct.Struct(">hIIiiiii")
"""fVersion, fDatimeC, fDatimeM, fNbytesKeys, fNbytesName, fSeekDir, fSeekParent, fSeekKeys."""
_LARGE_FOLDER = struct.Struct(">hIIiiqqq")
_SMALL_KEY = struct.Struct(">ihiIhhii")
"""fNbytes, fVersion, fObjlen, fDatime, fKeylen, fCycle, fSeekKey, fSeekPdir."""
_LARGE_KEY = struct.Struct(">ihiIhhqq")
_FAR, _LARGE = 1_000_000, 1_000
"""What is added to versions of files, and of records in them, where places have 64 bits."""
_ROOM = _LARGE_FOLDER.size + 18
"""Of a folder, with the UUID that is behind it."""
_NUMBERED = 40_000
"""The first version of which it is sure that headers end with a UUID."""
_OF_ONE_FILE = frozenset({1, 4, 6, 7})
"""Versions of UUIDs that are made of a time and a place, or at random: those that are made of names come again."""
_START = 2_048
"""Bytes of the file that are read at once: the header and the folder of most."""


@dataclass(frozen=True)
class _Key:
    class_name: str
    name: str
    cycle: int
    seek: int
    size: int
    length: int
    data_size: int
    date: int
    """When it was written, to the second, as ROOT packs it."""


@dataclass(frozen=True)
class FileHeader:
    """How a file starts."""

    begin: int
    end: int
    """Its size, as it says itself."""
    name_size: int
    version: int
    """Of ROOT, as 6.32/04 is 63204."""
    uuid: UUID

    def identity(self, url: str) -> str:
        """Of this file elsewhere: another one has another. Where its number may be that of others, with what its server
        says of it."""
        own = f"{self.uuid}-{self.end}"
        return own if self.version >= _NUMBERED and _is_of_one_file(self.uuid) else f"{own}-{stamp_of(url)}"

    @property
    def named(self) -> int:
        """The first byte after all that says which file it is."""
        return self.begin + self.name_size + _ROOM

    def own_number(self, folder: memoryview) -> UUID | None:
        """No other file has it, unless it is a copy. Of what ROOT writes as an RNTuple without a TFile, the folder has
        it. None of files that have none: those to be `reproducible`, and those of Geant4, which call themselves old."""
        if self.version < _NUMBERED:
            return None
        large = int.from_bytes(folder[:2], "big") > _LARGE
        there = bytes(folder[(_LARGE_FOLDER if large else _SMALL_FOLDER).size :][2:18])
        found = self.uuid if self.uuid.int or len(there) < 16 else UUID(bytes=there)
        return found if _is_of_one_file(found) else None


def _is_of_one_file(number: UUID) -> bool:
    return number.variant == RFC_4122 and number.version in _OF_ONE_FILE


def read_header(start: memoryview) -> FileHeader:
    """From the first `HEADER_SIZE` bytes of a file."""
    large = int.from_bytes(start[4:8], "big") >= _FAR
    numbers = (_LARGE_FILE if large else _SMALL_FILE).unpack_from(start)
    if numbers[0] != b"root":
        raise UnfamiliarError
    return FileHeader(numbers[2], numbers[3], numbers[7], numbers[1] % _FAR, UUID(bytes=numbers[13]))


def content_of(header: FileHeader, start: memoryview, *said: Any) -> str:  # Any: bytes, in whatever holds them
    """The content of a tree, as `FileInfo` has it, by the start of its file, where and when the tree was written there,
    and what it says of itself, such as where its baskets are: no basket is read.

    A file keeps its number when something is written into it, but then its end, its times or its baskets are others.
    What nobody sees here is bytes changed where they are, by a program that knows nothing of ROOT.
    """
    folder = header.begin + header.name_size
    number = header.own_number(start[folder : header.named])
    if number is None:
        return ""
    hashed = xxhash.xxh3_128(number.bytes)
    for part in (start[: header.named], *said):
        hashed.update(len(part).to_bytes(8, "big"))
        hashed.update(part)
    return f"root-{hashed.hexdigest()}"


def find_tree(fetch: Fetch, size: int | None, name: str | None) -> tuple[FileHeader, TreeRecord, str]:
    """The header of a file of this size, if it is known, the tree of this name, or the only one, and its content, as
    `FileInfo` has it.

    Raises `UnfamiliarError` for whatever is not at the top of an ordinary file.
    """
    try:
        start = fetch(0, _START if size is None else min(_START, size))
        header = read_header(start)
        if size is not None and header.end > size:
            raise UnfamiliarError
        key = _chosen(list(_keys(fetch, header.begin + header.name_size, start)), name)
        raw = fetch(key.seek, key.size)
        packed = raw[key.length :]
        data = bytes(packed) if len(packed) == key.data_size else decompressed(packed, key.data_size).tobytes()
    except (struct.error, ValueError, IndexError) as problem:
        raise UnfamiliarError from problem
    content = content_of(header, start, f"/{key.name};{key.cycle} {key.date} {key.seek}".encode(), data)
    return header, parse_tree(data, key.length), content


def _keys(fetch: Fetch, folder: int, start: memoryview) -> Iterator[_Key]:
    room = _LARGE_FOLDER.size
    found = start[folder : folder + room] if folder + room <= len(start) else fetch(folder, room)
    large = int.from_bytes(found[:2], "big") > _LARGE
    numbers = (_LARGE_FOLDER if large else _SMALL_FOLDER).unpack_from(found)
    listing = bytes(fetch(numbers[7], numbers[3]))
    place = _read_key(listing, 0)[0].length
    (count,) = struct.unpack_from(">i", listing, place)
    place += 4
    for _ in range(count):
        key, place = _read_key(listing, place)
        yield key


def _read_key(listing: bytes, place: int) -> tuple[_Key, int]:
    version = int.from_bytes(listing[place + 4 : place + 6], "big")
    form = _LARGE_KEY if version > _LARGE else _SMALL_KEY
    size, _, data_size, date, length, cycle, seek, _ = form.unpack_from(listing, place)
    place += form.size
    texts = []
    for _ in range(3):
        text_size = listing[place]
        if text_size == 255:
            raise UnfamiliarError
        texts.append(listing[place + 1 : place + 1 + text_size].decode())
        place += 1 + text_size
    return _Key(texts[0], texts[1], cycle, seek, size, length, data_size, date), place


def _chosen(keys: list[_Key], name: str | None) -> _Key:
    if any(key.class_name in FOLDERS or key.class_name in OTHER_TREES for key in keys):
        raise UnfamiliarError
    trees = {key.name: key for key in sorted(keys, key=lambda key: key.cycle) if key.class_name == "TTree"}
    names = [name] if name is not None else list(trees) if len(trees) == 1 else PREFERRED_TREES
    for one in names:
        if one in trees:
            return trees[one]
    raise UnfamiliarError
