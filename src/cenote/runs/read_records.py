"""Read the records that a run left, and say so where one is damaged."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from cenote import errors
from cenote.errors import CenoteError
from cenote.plan.record import PlanRecord
from cenote.runs.folder import RunFolder
from cenote.runs.summary import Summary

AnyRecord = TypeVar("AnyRecord", bound=msgspec.Struct)


def read_plan(folder: RunFolder) -> PlanRecord:
    """The plan that was run. Raises `damaged-run` where there is none."""
    return _read(folder.plan, PlanRecord, unreadable=OSError)


def read_summary(folder: RunFolder) -> Summary | None:
    """None while the run is in progress. Raises `damaged-run` for anything but a summary."""
    try:
        return _read(folder.summary, Summary, unreadable=IsADirectoryError)
    except FileNotFoundError:
        return None


def read_if_whole(path: Path, kind: type[AnyRecord]) -> AnyRecord | None:
    """The record in this file; None where there is none, or where it is damaged."""
    try:
        return _read(path, kind, unreadable=OSError)
    except CenoteError:
        return None


def _read(path: Path, kind: type[AnyRecord], *, unreadable: type[OSError]) -> AnyRecord:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (ValueError, unreadable) as problem:
        raise damaged(path, problem) from problem


def damaged(path: Path, problem: Exception) -> CenoteError:
    """The error for a file of a run that is not what a run writes."""
    return errors.error(
        errors.DAMAGED_RUN,
        f"{path} is damaged: {problem}",
        hint="`cenote run … --resume` writes it anew; what is finished is not repeated",
    )
