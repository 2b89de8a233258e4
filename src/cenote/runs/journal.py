"""Keep the journal: every event as one JSON line, written before the engine sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import FileIO
from pathlib import Path

import msgspec

from cenote import errors, storage
from cenote.engine.messages import AnyEvent

NAME = "journal.jsonl"

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


class Journal:
    """An open journal of one run. A line is on its way to the disk when `write` returns."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        with storage.writing(self.path):
            self._file: FileIO = self.path.open("ab", buffering=0)
        if self._file.tell() and not self._ends_with_newline():
            self._append(b"\n")  # an earlier driver was killed in the middle of a line

    def write(self, events: Iterable[AnyEvent]) -> None:
        """Append these events."""
        lines = [_encoder.encode(event) for event in events]
        if lines:
            self._append(b"\n".join(lines) + b"\n")

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


def read_events(folder: Path) -> Iterator[AnyEvent]:
    """All events of a run so far; a line that was cut short by a crash is passed over."""
    path = folder / NAME
    if not path.is_file():
        raise errors.error(errors.NO_RUN, f"{folder} holds no run: there is no {NAME}")
    with path.open("rb") as file:
        for line in file:
            try:
                yield _decoder.decode(line)
            except msgspec.DecodeError:
                continue
