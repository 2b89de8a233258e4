"""Make the calls of a function that one instance is for, and write down how each ended, one after the other.

Runs as `python -m cenote.service.agent.function_calls FUNCTION CALLS INSTANCE LIMIT`, in the folder of the instance.
"""

from __future__ import annotations

import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cenote.service.client.functions.call_files import (
    PYTHON,
    CallOutcome,
    NotPicklableError,
    SentFunction,
    read_calls,
    write_outcome,
)
from cenote.service.client.python_call import RETURNED

# Any: functions of users, their arguments and what they return
_Calls = Sequence[tuple[tuple[Any, ...], dict[str, Any]]]


def calling_words(function: Path, calls: Path, instance: int, limit: float | None) -> tuple[str, ...]:
    """The words after `python -m` that make the calls of one instance."""
    return (__name__, str(function), str(calls), str(instance), "" if limit is None else repr(limit))


def main() -> None:
    """Make them."""
    function, calls, instance, limit = sys.argv[1:]
    sys.argv[:] = [""]  # the function is not a program
    returned = Path.cwd() / RETURNED
    sys.exit(make_calls(Path(function), Path(calls), int(instance), returned, float(limit) if limit else None))


def make_calls(function: Path, calls: Path, instance: int, returned: Path, limit: float | None) -> int:
    """All calls of this instance; the exit code says whether one raised. No call was begun where `returned` is not
    there."""
    first = ""
    loaded, made = _loaded(function, calls, instance)
    with returned.open("wb", buffering=0) as file:
        for arguments, named in made:
            outcome, problem = _call(loaded, arguments, named, limit)
            write_outcome(file, outcome)
            first = first or problem
    sys.stderr.write(first)  # its last line is what people read first of an instance that failed
    return int(bool(first))


def _loaded(function: Path, calls: Path, instance: int) -> tuple[Callable[..., Any], _Calls]:
    """The function and its calls. Raises where they cannot be read here: nothing was called then."""
    sent = SentFunction.read(function)
    if sent.python != PYTHON:
        raise RuntimeError(f"the function was pickled by Python {sent.python}, and this worker has {PYTHON}")
    sys.path.extend(folder for folder in sent.path if folder not in sys.path)
    return pickle.loads(sent.function), pickle.loads(read_calls(calls, instance))


def _call(function: Callable[..., Any], arguments: Any, named: Any, limit: float | None) -> tuple[CallOutcome, str]:
    """How it ended, and the traceback of what it raised."""
    begun = time.perf_counter()
    try:
        with _limited(limit):
            value = function(*arguments, **named)
        return CallOutcome(True, time.perf_counter() - begun, _pickled_value(value)), ""
    except BaseException as raised:
        seconds, text = time.perf_counter() - begun, "".join(traceback.format_exception(raised))
        return CallOutcome(False, seconds, _pickled_problem(raised, text)), text


@contextmanager
def _limited(seconds: float | None) -> Iterator[None]:
    """The system ends this process when that takes longer, whatever it does."""
    if seconds is None:
        yield
        return
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _pickled(value: object) -> bytes:
    """By cloudpickle where it must be: it is slower, and knows more."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception:
        import cloudpickle  # only where it is needed: every agent imports this

        data: bytes = cloudpickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
        return data


def _pickled_value(value: object) -> bytes:
    try:
        return _pickled(value)
    except Exception as problem:
        kind = type(value).__name__
        raise NotPicklableError(f"the call returned a {kind}, which cannot travel back: {problem}") from problem


def _pickled_problem(raised: BaseException, text: str) -> bytes:
    """With its traceback; only its words, where it cannot be put together again."""
    try:
        data = _pickled((raised, text))
        pickle.loads(data)
    except Exception:
        return pickle.dumps((f"{type(raised).__name__}: {raised}", text))
    return data


if __name__ == "__main__":
    main()
