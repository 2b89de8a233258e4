"""This file puts requests together that differ in the worker's name only: many workers then need one submission."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from cenote.strategies.interface import JobRequest

WORKER = "\x01"
"""Stands for the worker's name in a command and at the end of a path."""


def alike(requests: Sequence[JobRequest]) -> list[tuple[JobRequest, tuple[str, ...]]]:
    """Neighbours that are alike as one request with the name left open, and their workers."""
    groups = groupby(requests, key=_with_the_name_open)
    return [(request, tuple(one.worker for one in group)) for request, group in groups]


def _with_the_name_open(request: JobRequest) -> JobRequest:
    """Its name, where that is a word of the command or the last part of a path in it."""
    ending = re.compile(rf"(^|/){re.escape(request.worker)}$")

    def opened(text: object) -> str:
        return ending.sub(rf"\g<1>{WORKER}", str(text))

    return replace(
        request,
        worker=WORKER,
        command=tuple(opened(word) for word in request.command),
        out=Path(opened(request.out)),
        err=Path(opened(request.err)),
        log=Path(opened(request.log)) if request.log else None,
    )


def numbered(workers: Sequence[str], *, most: int) -> tuple[str, tuple[int, ...]] | None:
    """`gpu-1`, `gpu-2` → `gpu-` and (1, 2); None when the names are not of that form or a number is too large."""
    matches = [re.fullmatch(r"(.*-)(0|[1-9]\d*)", worker) for worker in workers]
    found = [(match[1], int(match[2])) for match in matches if match]
    numbers = tuple(number for _, number in found)
    if len(found) != len(workers) or len({prefix for prefix, _ in found}) != 1 or max(numbers) > most:
        return None
    return found[0][0], numbers


def ranges(numbers: Sequence[int]) -> str:
    """(1, 2, 3, 7) → `1-3,7`."""
    ordered = sorted(numbers)
    runs = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
