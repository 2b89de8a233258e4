"""Find, add and read results: the store as one process sees it, and where it is."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cenote.analysis.sources.support.files import is_remote
from cenote.common import storage
from cenote.common.cache_file import cache_folder
from cenote.common.errors import CenoteError
from cenote.execution.runs.folder import RunFolder
from cenote.execution.runtime.result_store.folders import PACK, ResultFolder, Running
from cenote.execution.runtime.result_store.packs import (
    NOTHING,
    VERSION,
    NewResult,
    PackWriter,
    digest_of_body,
    read_at,
    write_index,
)
from cenote.execution.runtime.result_store.remote import SharedStore, is_shared, own_part
from cenote.execution.runtime.result_store.table import Pack, PackTable, StoredAt, joined
from cenote.execution.runtime.result_store.upkeep import keep_up
from cenote.execution.worker.results.bundle import ByteBuffer, NotPackedError, bodies_of, packed_bundle
from cenote.execution.worker.results.store import NAME as KEY
from cenote.execution.worker.results.store import DamagedResultError
from cenote.language.execution import StoreSettings
from cenote.language.schema.forms import IN_RUN

if TYPE_CHECKING:
    from cenote.execution.runtime.result_store.remote import RemoteStore


_LARGEST_PACK = 1 << 30
"""Bytes after which the next pack is begun."""
_MOST_OPEN = 64
"""Packs that are open at once."""
_MOST_LOOKS = 3
_LOOK_AGAIN = 1.0
"""Seconds between two looks at what other processes have added."""
Warn = Callable[[str], None]
Others = Callable[[Warn], Sequence[Pack]]


class ResultStore:
    """Results by their ids. Nothing that goes wrong here ends a run: what is not kept or found is computed.

    Several threads may use it.
    """

    def __init__(
        self,
        folder: ResultFolder,
        *,
        limit: int,
        warn: Warn,
        others: Others = lambda _: (),
        share: Callable[[], object] = lambda: None,
    ) -> None:
        """`others` gives the packs of people who share the store and are trusted, and says what is wrong with them;
        `share` is called when packs were added and are complete."""
        self._folder, self._limit, self._others, self._share = folder, limit, others, share
        self._warnings: set[str] = set()
        self._tell = warn
        self._lock = threading.RLock()
        self._running: Running | None = None
        self._writers: list[PackWriter] = []
        """Packs that this process made; it adds to the last one."""
        self._full = False
        """Whether the last one is complete."""
        self._added: dict[bytes, tuple[PackWriter, StoredAt]] = {}
        self._bytes_added = 0
        self._given_up = False
        self._table: PackTable | None = None
        self._looked = 0.0
        self._opened: dict[Path, int] = {}

    def find(self, ids: Iterable[bytes]) -> set[bytes]:
        """Which of these are there, as far as the indexes tell: reading may still find one damaged."""
        asked = list(ids)
        joined(asked)
        with self._lock:
            entries = self._known.entries(asked)
            found = {asked[number] for number in np.flatnonzero(entries >= 0).tolist()}
            self._note(entries[entries >= 0])
            if self._added:
                found.update(one for one in asked if one in self._added)
        return found

    def add(self, packed: ByteBuffer, ids: Mapping[str, bytes], *, seconds: float) -> None:
        """Keep the products of a bundle that have an id, as they are packed. `seconds` is what making them took."""
        joined(ids.values())
        try:
            bodies = bodies_of(packed)
        except NotPackedError:  # of an earlier version of Cenote, in the folder of a run
            return
        with self._lock:
            known = self._known.entries([*ids.values()]) >= 0
            new, at = [], int(time.time())
            for (name, one), there in zip(ids.items(), known.tolist(), strict=True):
                if not there and name in bodies and one not in self._added:
                    codec, content = bodies[name]
                    new.append(NewResult(one, name, codec, content, digest_of_body(content), seconds, at))
            size = sum(memoryview(one.content).nbytes for one in new)
            if not new or self._given_up or self._bytes_added + size > self._limit:
                return
            with self._writing():
                self._write(new)
                self._process.still()
                self._bytes_added += size

    def packed(self, ids: Mapping[str, bytes]) -> list[ByteBuffer]:
        """A bundle of these products. Raises DamagedResultError, with the id as its name, for one that is not whole."""
        with self._lock:
            found = [(name, *self._content(one)) for name, one in ids.items()]
        return packed_bundle((name, place.codec, [content]) for name, place, content in found)

    def drop(self, ids: Iterable[bytes]) -> None:
        """These are not to be found again, by nobody; one that is not there is not an error."""
        asked = list(dict.fromkeys(ids))
        joined(asked)
        with self._lock:
            while (entries := self._known.entries(asked)).max(initial=-1) >= 0:
                hidden = entries[entries >= 0]
                for number, rows in self._known.by_pack(hidden):
                    pack = self._known.packs[number]
                    self._forget(pack, pack.content.rows["id"][rows].tobytes())
                self._known.hide(hidden)
            for one in [one for one in asked if one in self._added]:
                writer, place = self._added.pop(one)
                self._forget(place.pack, one)
                self._full |= writer is self._writers[-1]  # where it may be added again

    def owner_of(self, id_: bytes) -> str:
        """Whose result it is, as their key is called here; nothing for one's own, and for one that is not there."""
        with self._lock:
            (entry,) = self._known.entries([id_]).tolist()
            owner = self._known.place(entry).pack.owner if entry >= 0 and id_ not in self._added else None
            return owner.name if owner else ""

    def close(self) -> None:
        """Write what is left, and make room: what was of no use for longest goes first, and never what a process that
        runs found or added."""
        with self._lock:
            for writer in self._writers:
                with suppress(OSError, CenoteError):
                    write_index(writer.path, writer.content, self._folder.own_seal, self._folder.mode)
                writer.close()
            for handle in self._opened.values():
                os.close(handle)
            self._opened.clear()
            if self._running is not None:
                with self._writing():
                    keep_up(self._folder, self._running, self._limit, added=bool(self._writers))
                self._running.leave()
                self._running = None
            if self._writers:
                self._share()
            self._writers, self._table = [], None
            self._added.clear()

    # what is there

    @property
    def _known(self) -> PackTable:
        if self._table is None:
            self._table = self._loaded()
        return self._table

    def _loaded(self) -> PackTable:
        self._looked = time.monotonic()
        if self._folder.is_foreign:
            self._give_up(f"{self._folder.path} is not yours alone")
            return PackTable(())
        if not self._folder.is_known:
            self._give_up(
                f"{self._folder.path} is of another version of Cenote ({self._folder.version}, this one is {VERSION})"
            )
            return PackTable(())
        if self._folder.has_lost_key:
            words = "is missing, or not yours alone: the results beside it are not used"
            self._warn(f"{self._folder.path / KEY} {words}")
        own = {writer.path for writer in self._writers}
        packs = [pack for pack in self._folder.known_packs() if pack.path not in own]
        packs += self._others(self._warn)
        table = PackTable(packs)
        for number, pack in enumerate(packs):
            if ids := self._folder.dropped_in(pack):
                table.hide_in(number, ids)
        return table

    def _content(self, id_: bytes) -> tuple[StoredAt, bytes]:
        if id_ in self._added:
            writer, place = self._added[id_]
            return place, self._checked(id_, place, writer.read(place.offset, place.length))
        for _ in range(_MOST_LOOKS):
            (entry,) = self._known.entries([id_]).tolist()
            if entry >= 0:
                place = self._known.place(entry)
                with suppress(OSError):  # somebody has written the pack again without what is of no use
                    return place, self._checked(id_, place, self._read(place))
            elif time.monotonic() < self._looked + _LOOK_AGAIN:
                break
            self._table = None
        raise DamagedResultError(id_.hex(), self._folder.packs)

    def _checked(self, id_: bytes, place: StoredAt, content: bytes) -> bytes:
        if len(content) != place.length or digest_of_body(content) != place.digest:
            raise DamagedResultError(id_.hex(), place.pack.path)
        return content

    def _read(self, place: StoredAt) -> bytes:
        if place.pack.remote is not None:
            return place.pack.remote.read(place.offset, place.length)
        path = place.pack.path
        handle = self._opened.get(path)
        if handle is None:
            if len(self._opened) >= _MOST_OPEN:
                os.close(self._opened.pop(next(iter(self._opened))))
            handle = self._opened[path] = self._folder.open_pack(path)
        return read_at(handle, place.offset, place.length)

    # what is new

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """What the file system refuses is told once, and the run goes on without."""
        try:
            yield
        except (OSError, CenoteError) as problem:
            words = str(problem) if isinstance(problem, CenoteError) else problem.strerror or str(problem)
            self._give_up(f"{self._folder.path}: {words.lower()}")

    def _give_up(self, why: str) -> None:
        if not self._given_up:
            self._given_up = True
            self._warn(f"results are not kept for later runs: {why}")

    def _warn(self, words: str) -> None:
        """Once."""
        if words not in self._warnings:
            self._warnings.add(words)
            self._tell(words)

    def _write(self, results: Sequence[NewResult]) -> None:
        if not self._writers or self._full:
            self._begin_pack()
        writer = self._writers[-1]
        pack = Pack(writer.path, NOTHING)
        for one, (offset, length) in zip(results, writer.add(results), strict=True):
            self._added[one.id] = writer, StoredAt(pack, offset, length, one.digest, one.codec)
        self._full = writer.end >= _LARGEST_PACK

    def _begin_pack(self) -> None:
        self._folder.make()
        name = f"{self._process.token}-{len(self._writers)}{PACK}"
        self._writers.append(PackWriter(self._folder.packs / name, self._folder.own_seal, self._folder.mode))
        self._full = False

    @property
    def _process(self) -> Running:
        """Raises OSError where nothing can be written."""
        if self._running is None:
            self._running = Running(self._folder.running)
        return self._running

    def _note(self, entries: NDArray[np.int64]) -> None:
        """These are of use to this run. Where nothing can be written they may go meanwhile."""
        if len(ids := self._known.newly_of_use(entries)):
            with suppress(OSError):
                self._process.found(ids)

    def _forget(self, pack: Pack, ids: bytes) -> None:
        with self._writing():
            self._folder.forget(pack, ids)


# Say where the results of a run are kept.


VARIABLE = "CENOTE_STORE"
_NAME = "results"
"""In the user's cache."""


def store_place(path: str | None, run: RunFolder, warn: Warn) -> Path | RemoteStore:
    """The store of a run: as the workflow says, else the variable, else in the user's cache."""
    if (path or os.environ.get(VARIABLE)) == IN_RUN:
        return run.results
    return place_of(path, warn) if path else usual_place(warn)


def usual_place(warn: Warn) -> Path | RemoteStore:
    """Of runs that say nothing else."""
    chosen = os.environ.get(VARIABLE)
    return place_of(chosen, warn) if chosen and chosen != IN_RUN else cache_folder() / _NAME


def place_of(path: str, warn: Warn) -> Path | RemoteStore:
    """The folder, or what is at the address."""
    if not is_remote(path):
        return storage.expanded(path).absolute()
    from cenote.execution.runtime.result_store.remote import RemoteStore  # hardly any run needs it

    return RemoteStore(path, warn)


def open_store(settings: StoreSettings, run: RunFolder, warn: Warn) -> ResultStore:
    """The store that a run uses; `warn` is told what is wrong with it."""
    limit, folder = settings.limit, cache_folder() / _NAME
    try:
        place = store_place(settings.path, run, warn)
        if not isinstance(place, Path):
            return ResultStore(place.own, limit=limit, warn=warn, others=place.packs, share=place.send)
        if is_shared(place):
            others = SharedStore(place).packs_of_others
            return ResultStore(own_part(place), limit=limit, warn=warn, others=others)
        folder = place
    except OSError as problem:
        where = settings.path or os.environ.get(VARIABLE)
        warn(f"{where} is not used, as there is no key to sign results with: {problem}")
    return ResultStore(private_part(folder), limit=limit, warn=warn)


def private_part(folder: Path) -> ResultFolder:
    """Of a store that nobody shares."""
    return ResultFolder(folder / "own")
