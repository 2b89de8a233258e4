"""Keep a store up: index, note what was of use, decide what leaves, make room, remove what nobody needs."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cenote.common import storage
from cenote.common.values import dataclass
from cenote.execution.packing.archive import locked_at_once
from cenote.execution.runtime.result_store.folders import PACK, ResultFolder, Running, others
from cenote.execution.runtime.result_store.packs import (
    NOTHING,
    ROW,
    NewResult,
    PackWriter,
    digest_of_body,
    read_at,
    write_index,
)
from cenote.execution.runtime.result_store.table import Pack, PackTable

# Decide what leaves the store: what was of no use for longest, and what fills packs that hold hardly anything.


_BELOW = 0.9
"""Share of the limit that is left when there is too much, so that not every run makes room."""
_HALF_EMPTY = 0.5
"""Share of a pack that must be of no use before it is written again without that."""
_SMALL = 16 << 20
_MOST_SMALL = 16
"""So many packs may be smaller than that many bytes before they become one."""
_SHORTEST = 3600.0
"""Seconds of no use that count as none."""


@dataclass(frozen=True)
class Held:
    """The results of complete packs, as arrays, one value each; those that are not to be found are not among them."""

    pack: NDArray[Any]
    """Number of the pack."""
    length: NDArray[Any]
    seconds: NDArray[Any]
    """What making it took."""
    idle: NDArray[Any]
    """Seconds since it was of use."""
    needed: NDArray[Any]
    """Whether a process that runs found it or made it."""


def leaving(
    held: Held, sizes: NDArray[Any], *, total: int, limit: int, unused_for: float | None = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Which packs are to be written again, and which results stay there.

    `sizes` are those of the packs, `total` that of all that there is, packs that others are writing included. What was
    of no use for so many seconds leaves in any case.
    """
    own = np.zeros(len(sizes)) + np.bincount(held.pack, held.length, len(sizes))
    stays = np.ones(len(held.pack), np.bool_)
    old = np.zeros(len(held.pack), np.bool_) if unused_for is None else (held.idle >= unused_for) & ~held.needed
    excess = total - _BELOW * limit if total > limit else 0.0
    order = _least_useful_first(held)
    if excess > 0:
        low, high = 0, len(order)
        while low < high:  # the fewest that make room
            middle = (low + high) // 2
            enough = _freed(held, sizes, own, order[:middle]).sum() >= excess
            low, high = (low, middle) if enough else (middle + 1, high)
        stays[order[:low]] = False
    freed = _freed(held, sizes, own, np.flatnonzero(~stays))
    stays &= ~old
    again = freed > 0
    again[held.pack[old]] = True
    small = (sizes < _SMALL) & ~again
    if small.sum() > _MOST_SMALL:
        again |= small
    stays |= ~again[held.pack]  # where little would be won, all stay
    return again, stays


def _least_useful_first(held: Held) -> NDArray[Any]:
    """Results that may go: those of no use for longest first; of those alike, what is made again most quickly."""
    age = np.floor(np.log2(np.maximum(held.idle, _SHORTEST) / _SHORTEST))
    worth = held.seconds / np.maximum(held.length, 1)
    order = np.lexsort((worth, -age))
    found: NDArray[Any] = order[~held.needed[order]]
    return found


def _freed(held: Held, sizes: NDArray[Any], own: NDArray[Any], gone: NDArray[Any]) -> NDArray[Any]:
    """Bytes that each pack would give back: none where too much of it stays."""
    lost = np.bincount(held.pack[gone], held.length[gone], len(sizes)) + (sizes - own)
    found: NDArray[Any] = np.where(lost >= _HALF_EMPTY * np.maximum(sizes, 1), lost, 0.0)
    return found


_MOST_LEFT = 8
"""So many processes that added nothing may be gone before somebody notes what was of use to them."""
_SAME = 3600
"""Seconds: when a result was of use is noted no more finely."""
_AT_ONCE = 256
"""Results that are written again as one record."""
_LEFTOVER = 86_400.0
"""Seconds after which a file that was never finished is removed."""
_LARGEST_PACK = 1 << 30
Staying: TypeAlias = tuple[Pack, NDArray[np.int64], NDArray[np.uint32]]
"""A pack, its rows that stay, and when each row was last of use."""


def keep_up(folder: ResultFolder, own: Running, limit: int, *, added: bool) -> None:
    """When a process is through with the store. Raises OSError and CenoteError."""
    if not added and sum(not one.runs for one in others(folder.running, own.token)) < _MOST_LEFT:
        own.leave()
        return
    with locked_at_once(folder.lock) as held:
        if not held:
            own.leave()  # somebody else is at it, and next time what was of use here is noted
            return
        make_room(folder, limit, own)
    own.close()


def make_room(folder: ResultFolder, limit: int, own: Running | None = None, *, unused_for: float | None = None) -> int:
    """Remove what goes beyond the limit, and what was of no use for so many seconds; returns how many bytes are left.

    For one process at a time: two of them would write the same packs again, which only takes longer.
    """
    found = b"" if own is None else own.ids()
    processes = [*others(folder.running, "" if own is None else own.token)]
    busy = {one.token for one in processes if one.runs}
    packs, total = [], 0
    for pack in folder.known_packs():
        total += size_of(pack)
        if pack.path.stem.rpartition("-")[0] not in busy:
            folder.index(pack)
            packs.append(pack)
    table = PackTable(packs)
    for number, pack in enumerate(packs):
        table.hide_in(number, folder.dropped_in(pack))
    now = int(time.time())
    uses = [*((one.found, one.at) for one in processes if not one.runs), (found, now)]
    used = _used(folder, packs, table, uses)
    needed = _rows_of(table, found + b"".join(one.found for one in processes if one.runs))
    if own is not None:
        for number, pack in enumerate(packs):
            if pack.path.stem.rpartition("-")[0] == own.token:
                needed[number][:] = True
    there = [table.rows_there(number) for number in range(len(packs))]
    held = _held(packs, there, used, needed, now)
    sizes = np.array([pack.path.stat().st_size for pack in packs], np.float64)
    again, stays = leaving(held, sizes, total=total, limit=limit, unused_for=unused_for)
    total -= _write_again(folder, packs, held, np.flatnonzero(again), stays, there, used)
    for one in processes:
        if not one.runs:
            one.path.unlink(missing_ok=True)
    _remove_leftovers(folder)
    return total


def size_of(pack: Pack) -> int:
    """Of its files."""
    size = 0
    for path in (pack.path, pack.path.with_suffix(".idx"), pack.path.with_suffix(".used")):
        with suppress(FileNotFoundError):
            size += path.stat().st_size
    return size


def _rows_of(table: PackTable, ids: bytes) -> list[NDArray[np.bool_]]:
    """Which rows of each pack have one of these ids."""
    found = [np.zeros(len(pack.content.rows), np.bool_) for pack in table.packs]
    entries = table.entries_of(ids)
    for number, rows in table.by_pack(entries[entries >= 0]):
        found[number][rows] = True
    return found


def _used(
    folder: ResultFolder, packs: Sequence[Pack], table: PackTable, uses: Sequence[tuple[bytes, int]]
) -> list[NDArray[np.uint32]]:
    """When each result of each pack was of use; written down where that was not known."""
    before = [folder.used(pack) for pack in packs]
    after = [used.copy() for used in before]
    for ids, at in uses:
        for used, rows in zip(after, _rows_of(table, ids) if ids else (), strict=False):
            used[rows] = np.maximum(used[rows], at)
    for pack, old, new in zip(packs, before, after, strict=True):
        if (new > old + np.uint32(_SAME)).any():
            folder.note_used(pack, new)
    return after


def _held(
    packs: Sequence[Pack],
    there: Sequence[NDArray[np.bool_]],
    used: Sequence[NDArray[np.uint32]],
    needed: Sequence[NDArray[np.bool_]],
    now: int,
) -> Held:
    """The results of these packs that are to be found, one after the other."""
    rows = np.concatenate([np.empty(0, ROW), *(pack.content.rows[n] for pack, n in zip(packs, there, strict=True))])
    since = np.concatenate([np.empty(0, np.uint32), *(one[n] for one, n in zip(used, there, strict=True))])
    kept = np.concatenate([np.empty(0, np.bool_), *(one[n] for one, n in zip(needed, there, strict=True))])
    counts = [int(one.sum()) for one in there]
    return Held(
        pack=np.repeat(np.arange(len(packs)), counts),
        length=rows["length"].astype(np.float64) + ROW.itemsize,
        seconds=rows["seconds"].astype(np.float64),
        idle=np.maximum(0.0, now - since.astype(np.float64)),
        needed=kept,
    )


def _write_again(
    folder: ResultFolder,
    packs: Sequence[Pack],
    held: Held,
    again: NDArray[Any],
    stays: NDArray[np.bool_],
    there: Sequence[NDArray[np.bool_]],
    used: Sequence[NDArray[np.uint32]],
) -> int:
    """Write what stays of these packs as one, and remove them; returns how many bytes that won."""
    won, left = 0, list[Staying]()
    for number in again.tolist():
        staying = np.flatnonzero(there[number])[stays[held.pack == number]]
        if len(staying):
            left.append((packs[number], staying, used[number]))
        else:  # first, for the disk may be full
            won += size_of(packs[number])
            folder.remove(packs[number])
    while left:
        some, size = list[Staying](), 0
        while left and (not some or size < _LARGEST_PACK):
            some.append(left.pop())
            pack, staying, _ = some[-1]
            size += int(pack.content.rows["length"][staying].sum())
        won += sum(size_of(pack) for pack, *_ in some) - _written_again(folder, some)
        for pack, *_ in some:
            folder.remove(pack)
    return won


def _written_again(folder: ResultFolder, some: Sequence[tuple[Pack, NDArray[np.int64], NDArray[np.uint32]]]) -> int:
    """These rows of packs as one new pack; returns its size."""
    folder.make()
    writer = PackWriter(folder.packs / f"{secrets.token_hex(8)}-0{PACK}", folder.own_seal, folder.mode)
    try:
        since = [used[_copied(folder, pack, staying, writer)] for pack, staying, used in some]
        made = Pack(writer.path, writer.content)
        write_index(made.path, made.content, folder.own_seal, folder.mode)
        folder.note_used(made, np.concatenate(since))
    except BaseException:
        folder.remove(Pack(writer.path, NOTHING))
        raise
    finally:
        writer.close()
    return size_of(made)


def _copied(folder: ResultFolder, pack: Pack, staying: NDArray[np.int64], writer: PackWriter) -> NDArray[np.int64]:
    """Add these rows of a pack to another one; returns those that were whole."""
    copied: list[int] = []
    handle = folder.open_pack(pack.path)
    try:
        for start in range(0, len(staying), _AT_ONCE):
            results = []
            for number in staying[start : start + _AT_ONCE].tolist():
                row = pack.content.rows[number]
                content = read_at(handle, int(row["offset"]), int(row["length"]))
                if digest_of_body(content) == row["digest"].tobytes():
                    results.append(_result(row, pack.content.names, content))
                    copied.append(number)
            if results:
                writer.add(results)
    finally:
        os.close(handle)
    return np.array(copied, np.int64)


def _result(row: Any, names: Sequence[str], content: bytes) -> NewResult:  # Any: a row of `ROW`
    return NewResult(
        row["id"].tobytes(),
        names[row["name"]],
        int(row["codec"]),
        content,
        row["digest"].tobytes(),
        float(row["seconds"]),
        int(row["added"]),
    )


def _remove_leftovers(folder: ResultFolder) -> None:
    """Files that somebody began who was killed since."""
    for file in storage.unfinished(folder.path):
        with suppress(OSError):
            if file.stat().st_mtime < time.time() - _LEFTOVER:
                storage.remove_unfinished(file)
