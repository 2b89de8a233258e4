"""Pickle functions and calls by cloudpickle, which knows lambdas and what `__main__` defines; read outcomes."""

from __future__ import annotations

import os
import pickle
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cloudpickle

from cenote.client.functions.call_files import PYTHON, CallOutcome, SentFunction
from cenote.client.functions.problems import NotPicklableError, ProcessEndedError, RemoteError, RemoteTraceback

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
