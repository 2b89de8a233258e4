"""Write functions and calls to files, which the service sends to workers."""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
import time
from pathlib import Path

import msgspec

from cenote.client.functions.call_files import write_calls
from cenote.client.functions.calls import CallTerms, PoolCall
from cenote.client.functions.pickling import pickled_calls
from cenote.client.functions.problems import NotPicklableError

_folders: set[Path] = set()


class CallFolder:
    """A private folder for such files."""

    def __init__(self) -> None:
        self._path = Path(tempfile.mkdtemp(prefix="cenote-calls-"))
        _folders.add(self._path)

    def function(self, terms: CallTerms) -> Path:
        """A function, named by its content: workers fetch the same one once. Raises NotPicklableError."""
        sent = terms.pickled()
        file = self._path / hashlib.sha256(msgspec.msgpack.encode(sent)).hexdigest()[:32]
        if not file.exists():
            sent.write(file)
        return file

    def calls(self, chunks: list[bytes]) -> Path:
        """Calls of one task."""
        file = self._path / f"calls-{time.monotonic_ns():x}"
        write_calls(file, chunks)
        return file

    def remove(self) -> None:
        """With all that is in it; the end of the program does the same."""
        shutil.rmtree(self._path, ignore_errors=True)
        _folders.discard(self._path)


@atexit.register
def _remove_all() -> None:  # after all that modules which import this one do at the end
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)


def pickled(chunk: list[PoolCall]) -> tuple[list[PoolCall], bytes]:
    """The calls of one instance, ready to travel, without those that cannot: their futures say why."""
    while chunk:
        try:
            return chunk, pickled_calls([(call.arguments, call.named) for call in chunk], chunk[0].label)
        except NotPicklableError as problem:
            able = [call for call in chunk if _can_travel(call)]
            if len(able) == len(chunk):  # each of them could, alone
                able.pop(0).future.set_exception(problem)
            chunk = able
    return [], b""


def _can_travel(call: PoolCall) -> bool:
    """Whether it can, alone; else its future says why not."""
    try:
        pickled_calls([(call.arguments, call.named)], call.label)
    except NotPicklableError as problem:
        call.future.set_exception(problem)
        return False
    return True
