"""Take calls of functions to a pool and back: pickled, in files, so many at once, made again where lost."""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import pickle
import shutil
import sys
import sysconfig
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cloudpickle
import msgspec

from cenote.common import errors
from cenote.service.client.asking import ShownOutput
from cenote.service.client.definitions import InstanceState
from cenote.service.client.functions.call_files import (
    PYTHON,
    CallOutcome,
    NotPicklableError,
    ProcessEndedError,
    RemoteError,
    RemoteTraceback,
    SentFunction,
    read_outcomes,
    write_calls,
)
from cenote.service.client.line import Line
from cenote.service.client.python_call import RETURNED
from cenote.service.client.records import Done, EndedInstance

# Pickle functions and calls by cloudpickle, which knows lambdas and what `__main__` defines; read outcomes.


# Any: functions of users, their arguments and what they return


def sent_function(function: Any, name: str) -> SentFunction:
    """A function, ready to travel. Raises NotPicklableError."""
    return SentFunction(python=PYTHON, path=own_folders(), function=_dumped(function, name))


def pickled_calls(calls: Sequence[tuple[tuple[Any, ...], dict[str, Any]]], label: str) -> bytes:
    """Calls of one instance, called so in errors. Raises NotPicklableError."""
    return _dumped(list(calls), label)


def value_of(outcome: CallOutcome, label: str) -> Any:
    """What a call returned; raises what it raised, with the traceback of the worker as its cause."""
    try:
        found = pickle.loads(outcome.content)
    except Exception as problem:
        what = "returned" if outcome.succeeded else "raised"
        raise NotPicklableError(f"what {label} {what} cannot be read here: {problem}") from problem
    if outcome.succeeded:
        return found
    raised, text = found
    if isinstance(raised, str):
        raised = RemoteError(raised)
    elif not isinstance(raised, Exception):  # `sys.exit(0)` there would end this program here, and call it a success
        words = f": {raised}" if str(raised) else ""
        raised = ProcessEndedError(f"{label} ended its process: {type(raised).__name__}{words}")
    raised.__cause__ = RemoteTraceback(text)
    raise raised


def own_folders() -> tuple[str, ...]:
    """Where this program finds its own modules: beside its script, and what it added; not where packages are
    installed."""
    installed = {Path(path) for path in sysconfig.get_paths().values()}
    found = dict.fromkeys(Path(folder or os.curdir).absolute() for folder in sys.path)
    return tuple(str(folder) for folder in found if folder.is_dir() and not _is_installed(folder, installed))


def _is_installed(folder: Path, installed: set[Path]) -> bool:
    return folder in installed or any(
        folder.is_relative_to(Path(prefix, "lib")) for prefix in (sys.prefix, sys.base_prefix)
    )


def _dumped(value: object, what: str) -> bytes:
    try:
        data: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as problem:
        raise NotPicklableError(f"{what} cannot travel to a worker: {problem}") from problem
    return data


# Choose how many calls one instance makes: by how long calls took so far.


INSTANCE_SECONDS = 0.5
"""That calls of one instance should take together: to start one costs about 10 ms, which is 2 % of it."""
MOST_CALLS = 2000
"""Of one instance."""
_GROWTH = 8
"""A chunk is at most so many times as large as the largest that was measured."""
_MOST_KEPT_BYTES = 256 * 1024 * 1024
"""Of arguments and results that wait in this program."""
_MOST_KEPT, _FEWEST_KEPT = 50_000, 64
"""Calls that are under way, or whose results were not taken."""
_MEMORY = 0.7
"""How much of the average stays when something new is measured."""


class CallPace:
    """What is known of the calls of one function."""

    def __init__(self, chunksize: int | None = None) -> None:
        self._fixed = chunksize
        self._seconds: float | None = None
        """Of one call."""
        self._bytes = 0.0
        """Of one call and its result."""
        self._largest = 1

    def note(self, calls: int, seconds: float, size: int) -> None:
        """So many calls of one instance took so long, and their results were so large."""
        each, heavy = seconds / calls, size / calls
        self._seconds = each if self._seconds is None else _MEMORY * self._seconds + (1 - _MEMORY) * each
        self._bytes = max(heavy, _MEMORY * self._bytes + (1 - _MEMORY) * heavy)
        self._largest = max(self._largest, calls)

    @property
    def chunk(self) -> int:
        """Calls of one instance, where enough of them wait."""
        if self._fixed is not None:
            return self._fixed
        if self._seconds is None:
            return 1
        wanted = INSTANCE_SECONDS / max(self._seconds, 1e-7)
        return max(1, min(MOST_CALLS, _GROWTH * self._largest, int(wanted)))

    def chunk_of(self, waiting: int, slots: int) -> int:
        """The same where so many wait: every slot gets some."""
        if self._fixed is not None:
            return self._fixed
        return min(self.chunk, max(1, math.ceil(waiting / max(1, 2 * slots))))

    def kept(self, window: int) -> int:
        """Calls that may be under way or wait to be taken, for so many instances at once."""
        by_size = int(_MOST_KEPT_BYTES / self._bytes) if self._bytes else _MOST_KEPT
        return min(max(_FEWEST_KEPT, 2 * window * self.chunk), _MOST_KEPT, max(by_size, 1))


# Any: functions of users, their arguments and what they return


def name_of(function: Any) -> str:
    """As its author calls it. Raises TypeError where it is not a function."""
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called")
    found = getattr(function, "__qualname__", None) or getattr(getattr(function, "func", None), "__qualname__", None)
    return str(found or type(function).__qualname__).rpartition("<locals>.")[2]


@dataclass(eq=False)
class CallTerms:
    """What calls of one function share."""

    function: Callable[..., Any]
    title: str
    """How tasks are called that make them."""
    pace: CallPace = field(default_factory=CallPace)
    limit: float | None = None
    """Seconds for one call."""
    retries: int = 0
    """How often a call is made again that failed."""
    show: bool = False
    """Whether what calls print is shown."""
    sent: SentFunction | None = None
    """Where it was pickled already."""
    abandoned: bool = False
    """Whether nobody wants what is left."""

    def pickled(self) -> SentFunction:
        """The function, as it is now or was when it was pickled. Raises NotPicklableError."""
        return self.sent or sent_function(self.function, self.title)


@dataclass(eq=False)
class PoolCall:
    """One call, and who waits for it."""

    terms: CallTerms
    label: str
    """How errors call it."""
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    future: Future[Any] = field(default_factory=Future)
    failures: int = 0

    def fail(self, problem: BaseException) -> bool:
        """It failed; whether it should be made again."""
        self.failures += 1
        if self.failures <= self.terms.retries and not self.terms.abandoned:
            return True
        self.future.set_exception(problem)
        return False


# Write functions and calls to files, which the service sends to workers.


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


# Follow the calls of one task: read what its instances returned, and say what has to be made again.


_TIMED_OUT = "ended by SIGALRM"


@dataclass(eq=False)
class SentCalls:
    """A task whose instances make calls."""

    task: str
    terms: CallTerms
    chunks: dict[int, list[PoolCall]]
    """Calls by the instance that makes them, as long as they did not come back."""
    file: Path
    """In which the calls travel."""
    shown: dict[str, ShownOutput] = field(default_factory=lambda: defaultdict(ShownOutput))

    def take(self, line: Line, ended: EndedInstance) -> list[PoolCall]:
        """An instance is over: futures get their values; returns the calls that have to be made again."""
        outcomes = self._outcomes(line, ended)
        return self._settle(self.chunks.pop(ended.instance.number), ended, outcomes)

    def fail(self, problem: Exception) -> None:
        """Nothing more comes back."""
        for call in (call for chunk in self.chunks.values() for call in chunk):
            call.future.set_exception(problem)
        self.chunks.clear()

    def forget(self, line: Line) -> None:
        """All came back: what carried them is not needed any more."""
        self.file.unlink(missing_ok=True)
        with suppress(errors.CenoteError):  # they are only in the way
            line.delete(f"/tasks/{self.task}/results", Done)

    def _outcomes(self, line: Line, ended: EndedInstance) -> list[CallOutcome] | None:
        """None where its process made no call."""
        if ended.size is None:
            return None
        whole = len(ended.returned) == ended.size
        name = f"/tasks/{self.task}/results/{ended.instance.number}/{RETURNED}"
        return list(read_outcomes(ended.returned if whole else line.read(name)))

    def _settle(
        self, calls: list[PoolCall], ended: EndedInstance, outcomes: list[CallOutcome] | None
    ) -> list[PoolCall]:
        how = ended.why if ended.instance.state is InstanceState.CANCELLED else ended.instance.message
        if outcomes is None:
            why = how or "its process left nothing"
            return [call for call in calls if call.fail(ProcessEndedError(f"{call.label} was not made: {why}"))]
        if outcomes:
            size, seconds = sum(len(each.content) for each in outcomes), sum(each.seconds for each in outcomes)
            self.terms.pace.note(len(outcomes), seconds, size)
        again = [call for call, outcome in zip(calls, outcomes, strict=False) if _must_be_repeated(call, outcome)]
        last, never_begun = calls[len(outcomes) : len(outcomes) + 1], calls[len(outcomes) + 1 :]
        return [*again, *(call for call in last if call.fail(self._end_of(call, how))), *never_begun]

    def _end_of(self, call: PoolCall, how: str) -> Exception:
        if self.terms.limit is not None and how.startswith(_TIMED_OUT):
            return TimeoutError(f"{call.label} took longer than {self.terms.limit:g} s")
        return ProcessEndedError(f"{call.label} ended its process: {how or 'exit code 0, before it returned anything'}")

    def show(self, line: Line) -> None:
        """What its instances printed since it was last shown."""
        for stream, target in (("stdout", sys.stdout), ("stderr", sys.stderr)):
            text = line.read(f"/tasks/{self.task}/{stream}", since=self.shown[stream].size)
            target.write(self.shown[stream].text_of(text))
            target.flush()


def _must_be_repeated(call: PoolCall, outcome: CallOutcome) -> bool:
    """Whether the call has to be made again; else its future has what it returned or raised."""
    try:
        value = value_of(outcome, call.label)
    except BaseException as problem:
        return call.fail(problem)
    call.future.set_result(value)
    return False
