"""Keep a store up: index what was left without, note what was of use, make room, and remove what nobody needs."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from cenote import storage
from cenote.packing.locks import locked_at_once
from cenote.runtime.result_store.folders import PACK, ResultFolder
from cenote.runtime.result_store.packs import (
    NOTHING,
    ROW,
    NewResult,
    PackWriter,
    digest_of_body,
    read_at,
    write_index,
)
from cenote.runtime.result_store.room import Held, leaving
from cenote.runtime.result_store.running import Running, others
from cenote.runtime.result_store.table import Pack, PackTable

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
