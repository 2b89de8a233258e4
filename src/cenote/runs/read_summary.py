"""Read the summary that a run left, and say so when it is damaged."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from cenote import errors
from cenote.errors import CenoteError
from cenote.runs.folder import RunFolder

Summary = dict[str, Any]
"""The content of `summary.json`."""


class _Product(msgspec.Struct):
    name: str
    kind: str
    files: list[str] = []
    plots: list[str] = []
    partial: bool = False


class _Tasks(msgspec.Struct):
    total: int
    done: int
    reused: int


class _Failure(msgspec.Struct):
    message: str
    cause: str
    stage: str | None = None
    kind: str | None = None


class _Shape(msgspec.Struct):
    """What must hold of it: whoever reads it relies on that."""

    status: str
    tasks: _Tasks
    seconds: float
    retries: int
    events: int
    peak_memory: int
    products: list[_Product]
    failures: list[_Failure]
    warnings: list[str]


def read_summary(folder: RunFolder) -> Summary:
    """Empty while the run goes on. Raises `damaged-run` for anything but a summary."""
    try:
        found: Summary = json.loads(folder.summary.read_text(encoding="utf-8"))
        msgspec.convert(found, _Shape)
    except FileNotFoundError:
        return {}
    except (ValueError, msgspec.ValidationError, IsADirectoryError) as problem:
        raise damaged(folder, folder.summary.name, problem) from problem
    return found


def damaged(folder: RunFolder, name: str, problem: Exception) -> CenoteError:
    """The error for a file of a run that is not what a run writes."""
    return errors.error(
        errors.DAMAGED_RUN,
        f"{folder.path / name} is damaged: {problem}",
        hint="`cenote run … --resume` writes it anew; what is finished is not repeated",
    )
