"""Look after a store from outside of runs: what is in it, what is damaged, what may go."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, Union

import numpy as np

from cenote.common import errors
from cenote.common.values import dataclass
from cenote.execution.packing.archive import locked_at_once
from cenote.execution.runtime.result_store.folders import ResultFolder
from cenote.execution.runtime.result_store.packs import NOTHING, digest_of_body, names_in, open_plain, read_at
from cenote.execution.runtime.result_store.remote import SharedStore, is_shared, own_part
from cenote.execution.runtime.result_store.store import private_part
from cenote.execution.runtime.result_store.table import Pack
from cenote.execution.runtime.result_store.upkeep import make_room, size_of

if TYPE_CHECKING:
    from cenote.execution.runtime.result_store.remote import RemoteStore

_NO_LIMIT = 1 << 62
Warn = Callable[[str], None]
Place: TypeAlias = Union[Path, "RemoteStore"]


@dataclass(frozen=True)
class StageShare:
    """What a store keeps of one product, of whichever workflow."""

    name: str
    results: int
    size: int
    used_at: int
    """When one of them was last of use, in seconds since 1970."""


@dataclass(frozen=True)
class PersonShare:
    """What somebody else keeps in a shared store, as far as this user may use it."""

    name: str
    results: int
    size: int


@dataclass(frozen=True)
class StoreContent:
    """What is in a store."""

    place: Place
    shared: bool
    size: int
    """Bytes of one's own files."""
    results: int
    oldest_use: int | None
    stages: tuple[StageShare, ...]
    """The largest first."""
    people: tuple[PersonShare, ...]


@dataclass(frozen=True)
class Damage:
    """A result that is not what was written."""

    pack: str
    """Its path or address."""
    id: str
    name: str
    owner: str
    """Nothing for one's own."""


def own_folder(place: Place) -> ResultFolder:
    """One's own part of a store. Raises CenoteError where it is somebody else's, or of another version."""
    if not isinstance(place, Path):
        return place.own
    own = own_part(place) if is_shared(place) else private_part(place)
    if own.is_foreign:
        raise errors.error(errors.NO_ACCESS, f"{own.path} is not yours alone")
    if not own.is_known:
        hint = f"remove {own.path}, or use that version"
        raise errors.error(errors.USAGE, f"{own.path} is of another version of Cenote ({own.version})", hint=hint)
    return own


def packs_elsewhere(place: Place, warn: Warn) -> Sequence[Pack]:
    """Those of others in a shared store, as far as this user may use them; and one's own of other machines."""
    if not isinstance(place, Path):
        return place.packs(warn)
    return SharedStore(place).packs_of_others(warn) if is_shared(place) else ()


def content_of(place: Place, warn: Warn) -> StoreContent:
    """Everything that is there."""
    own = own_folder(place)
    stages: dict[str, StageShare] = {}
    size, oldest = 0, list[int]()
    for pack in own.known_packs():
        size += size_of(pack)
        used = own.used(pack)
        oldest += [int(used.min())] if len(used) else []
        for number, (name, rows) in enumerate(names_in(pack.content)):
            last = int(used[pack.content.rows["name"] == number].max(initial=0))
            before = stages.get(name, StageShare(name, 0, 0, 0))
            stages[name] = replace(
                before,
                results=before.results + len(rows),
                size=before.size + int(rows["length"].sum()),
                used_at=max(before.used_at, last),
            )
    ordered = sorted((one for one in stages.values() if one.results), key=lambda one: (-one.size, one.name))
    return StoreContent(
        place=place,
        shared=not isinstance(place, Path) or is_shared(place),
        size=size,
        results=sum(one.results for one in ordered),
        oldest_use=min(oldest, default=None),
        stages=tuple(ordered),
        people=tuple(_people(place, warn)),
    )


def _people(place: Place, warn: Warn) -> Iterator[PersonShare]:
    found: dict[str, list[Pack]] = {}
    for pack in packs_elsewhere(place, warn):
        found.setdefault(pack.owner.name if pack.owner else "you, elsewhere", []).append(pack)
    for name, packs in found.items():
        size = sum(int(pack.content.rows["length"].sum()) for pack in packs)
        yield PersonShare(name, sum(len(pack.content.rows) for pack in packs), size)


def damage_in(place: Place, warn: Warn) -> Iterator[Damage]:
    """Read all results; what is damaged is not found again."""
    own = own_folder(place)
    for pack in (*own.known_packs(), *packs_elsewhere(place, warn)):
        rows = pack.content.rows
        broken = [number for number in np.argsort(rows["offset"]).tolist() if not _is_whole(pack, number)]
        dropped = own.dropped_in(pack)
        for number in broken:
            id_ = rows["id"][number].tobytes()
            if id_ not in {dropped[at : at + 16] for at in range(0, len(dropped), 16)}:
                own.forget(pack, id_)
                name = pack.content.names[rows["name"][number]]
                yield Damage(str(pack.remote or pack.path), id_.hex(), name, pack.owner.name if pack.owner else "")


def _is_whole(pack: Pack, number: int) -> bool:
    row = pack.content.rows[number]
    if pack.remote is not None:
        with suppress(OSError):  # it was told of, or somebody has removed it meanwhile
            content = pack.remote.read(int(row["offset"]), int(row["length"]))
            return bool(digest_of_body(content) == row["digest"].tobytes())
        return True
    try:
        handle = open_plain(pack.path)
        try:
            content = read_at(handle, int(row["offset"]), int(row["length"]))
        finally:
            os.close(handle)
    except OSError:
        return False
    return bool(digest_of_body(content) == row["digest"].tobytes())


def clean(place: Place, *, unused_for: float | None = None, limit: int | None = None) -> int:
    """Remove one's own results that were of no use for so long, or for longest; returns how many bytes that won.

    What a process that runs found or added stays. What other machines of this user sent to an address goes if all goes.
    """
    here = _clean_here(place, own_folder(place), unused_for, limit)
    return here if isinstance(place, Path) else max(here, place.send(withdraw=unused_for == 0))


def _clean_here(place: Place, own: ResultFolder, unused_for: float | None, limit: int | None) -> int:
    if not own.path.is_dir():
        return 0
    if own.has_lost_key:  # nobody will read them
        unreadable = [Pack(path, NOTHING) for path in own.all_packs()]
        won = sum(map(size_of, unreadable))
        for pack in unreadable:
            own.remove(pack)
        return won
    before = sum(map(size_of, own.known_packs()))
    with locked_at_once(own.lock) as held:
        if not held:
            raise errors.error(errors.USAGE, f"a run is making room in {place}", hint="try again in a moment")
        return before - make_room(own, _NO_LIMIT if limit is None else limit, unused_for=unused_for)


def age_of(at: int) -> float:
    """Seconds since then."""
    return max(0.0, time.time() - at)
