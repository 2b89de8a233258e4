"""Keep the journal: every event as one JSON line, written before the engine sees it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

import msgspec

from cenote.common import errors, storage
from cenote.common.errors import CenoteError
from cenote.engine.messages import AnyEvent, RunStarted
from cenote.execution.runs.folder import RunFolder

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


class Journal:
    """An open journal of one run. A line is on its way to the disk when `write` returns."""

    def __init__(self, folder: Path) -> None:
        self.path = RunFolder(folder).journal
        with storage.writing(self.path):
            self._file: FileIO = open(  # noqa: SIM115  # `close` closes it
                self.path, "ab", buffering=0, opener=storage.not_by_a_link
            )
        if self._file.tell() and not self._ends_with_newline():
            self._append(b"\n")  # an earlier driver was killed in the middle of a line

    def write(self, events: Iterable[AnyEvent]) -> None:
        """Append these events."""
        lines = [_encoder.encode(event) for event in events]
        if lines:
            self._append(b"\n".join(lines) + b"\n")

    @property
    def is_there(self) -> bool:
        """Whether others still find it: somebody may have removed the run's folder, or begun another run there."""
        try:
            return os.path.samestat(os.fstat(self._file.fileno()), self.path.stat())
        except OSError:
            return False

    def close(self) -> None:
        """End writing; closing twice is not an error."""
        self._file.close()

    def _append(self, data: bytes) -> None:
        """All of it or nothing: on a full disk no half line stays."""
        before, rest = self._file.tell(), memoryview(data)
        with storage.writing(self.path):
            try:
                while rest:
                    rest = rest[self._file.write(rest) :]
            except OSError:
                self._file.truncate(before)
                raise

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read(1) == b"\n"


class JournalReader:
    """Read the journal in a run's folder. Each call of `news` reads what was written since the one before."""

    def __init__(self, folder: Path) -> None:
        self.path = RunFolder(folder).journal
        if not self.path.is_file():
            raise errors.error(
                errors.NO_RUN,
                f"{folder} holds no run: there is no {self.path.name}",
                hint="name the folder that was given to `cenote run --out`",
            )
        self._read = 0
        self.damage: msgspec.DecodeError | None = None
        """Why a line could not be read; such a line is passed over, because a crash may cut one short."""

    @property
    def was_replaced(self) -> bool:
        """Whether another run has taken the place of what was read."""
        return self.path.stat().st_size < self._read

    def news(self, *, naming: str = "") -> Iterator[AnyEvent]:
        """The events since the last call; a line that is still being written waits for the next one.

        With `naming`, lines without this word are passed over unread: a journal can be long.
        """
        word = naming.encode()
        with self.path.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                if word in line:
                    try:
                        event = _decoder.decode(line)
                    except msgspec.DecodeError as problem:
                        self.damage = problem
                        continue
                    yield event


def read_events(folder: Path, *, naming: str = "") -> Iterator[AnyEvent]:
    """All events of a run so far; raises `no-run` where there is none."""
    return JournalReader(folder).news(naming=naming)


def runs_in(folder: Path) -> list[str]:
    """The ids of the runs that this folder had, the last one last; none where it cannot be read."""
    try:
        return [event.run for event in read_events(folder, naming="RunStarted") if isinstance(event, RunStarted)]
    except (OSError, CenoteError):
        return []
