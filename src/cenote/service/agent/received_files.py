"""Keep files that the service sent, by their content: each comes once, however many instances need it."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from cenote.service.protocol import FileChunk, FileRefused, NeedFile, PlacedFile

_DIGEST = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 1 << 30
"""Of files here: of those that no instance uses, the ones used longest ago go first, and come again when needed."""


class NoFileError(Exception):
    """Why a file is not there, in words."""


@dataclass(eq=False)
class _Coming:
    """A file of which not all is here."""

    ready: asyncio.Future[None]
    size: int = 0
    hash: hashlib._Hash = field(default_factory=hashlib.sha256)


class ReceivedFiles:
    """The files in one folder, named by their digests."""

    def __init__(self, folder: Path, ask: Callable[[NeedFile], None]) -> None:
        self._folder = folder
        self._ask = ask
        self._here: dict[str, int] = {}
        """Digest → bytes, those last that were used last."""
        self._in_use: Counter[str] = Counter()
        self._coming: dict[str, _Coming] = {}

    @contextmanager
    def kept(self, files: Iterable[PlacedFile]) -> Iterator[None]:
        """They stay for now, once they are here."""
        digests = [file.digest for file in files]
        self._in_use.update(digests)
        try:
            yield
        finally:
            for digest in digests:
                self._in_use[digest] -= 1
                if not self._in_use[digest]:
                    del self._in_use[digest]
                if digest in self._here:
                    self._here[digest] = self._here.pop(digest)

    async def have(self, files: Iterable[PlacedFile]) -> None:
        """Wait until all of them are here. Raises NoFileError."""
        for file in files:
            if not _DIGEST.fullmatch(file.digest):
                raise NoFileError(f"{file.name}: {file.digest!r} is not a SHA-256 digest")
            if file.digest in self._here:
                continue
            try:
                await asyncio.shield(self._requested(file.digest).ready)
            except NoFileError as problem:
                raise NoFileError(f"{file.name} could not be brought to the worker: {problem}") from problem

    def ask_again(self) -> None:
        """The connection is a new one: what was on its way is lost."""
        for digest, coming in self._coming.items():
            self._begin_anew(coming)
            self._ask(NeedFile(digest=digest))

    def receive(self, message: FileChunk | FileRefused) -> None:
        """A part of a file, or why it does not come. What nobody asked for is ignored."""
        coming = self._coming.get(message.digest)
        if coming is None:
            return
        if isinstance(message, FileRefused):
            self._fail(message.digest, message.reason)
            return
        try:
            self._add(coming, message)
        except OSError as problem:
            self._fail(message.digest, f"{self._folder}: {(problem.strerror or str(problem)).lower()}")

    def _requested(self, digest: str) -> _Coming:
        if digest not in self._coming:
            self._coming[digest] = _Coming(asyncio.get_running_loop().create_future())
            self._ask(NeedFile(digest=digest))
        return self._coming[digest]

    def _add(self, coming: _Coming, chunk: FileChunk) -> None:
        if chunk.offset == 0:
            self._begin_anew(coming)
        if chunk.offset != coming.size:
            return  # of a connection that broke; it is on its way again
        partial = self._folder / f"{chunk.digest}.part"
        with partial.open("wb" if chunk.offset == 0 else "ab") as file:
            file.write(chunk.data)
        coming.size += len(chunk.data)
        coming.hash.update(chunk.data)
        if not chunk.last:
            return
        if coming.hash.hexdigest() != chunk.digest:
            self._fail(chunk.digest, "it changed since the task was submitted")
            return
        partial.rename(self._folder / chunk.digest)
        self._make_room()
        self._here[chunk.digest] = coming.size
        del self._coming[chunk.digest]
        coming.ready.set_result(None)

    def _make_room(self) -> None:
        total = sum(self._here.values())
        for digest in [digest for digest in self._here if digest not in self._in_use]:
            if total <= _MOST_BYTES:
                return
            total -= self._here.pop(digest)
            (self._folder / digest).unlink(missing_ok=True)

    def _begin_anew(self, coming: _Coming) -> None:
        coming.size, coming.hash = 0, hashlib.sha256()

    def _fail(self, digest: str, reason: str) -> None:
        coming = self._coming.pop(digest)
        (self._folder / f"{digest}.part").unlink(missing_ok=True)
        coming.ready.set_exception(NoFileError(reason))
        coming.ready.exception()  # whoever waited may be gone
