"""Put requests together that differ in the worker's name only: many workers then need one submission."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path

from cenote.strategies.interface import JobRequest

WORKER = "\x01"
"""Stands for the worker's name in a command and at the end of a path."""
_THOUSAND = 1000
"""Numbers in a series."""


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


@dataclass(frozen=True)
class Series:
    """Workers whose names differ in the last digits only: `gpu-1` and `gpu-2`, or `gpu-1001` and `gpu-1002`."""

    prefix: str
    """`gpu-`, or `gpu-1`."""
    numbers: tuple[int, ...]
    """What follows it, from 0 to 999."""
    digits: int
    """How many each number is written with, zeros first; 0 for as many as it needs."""

    def name(self, number: int) -> str:
        """Of the worker with this number."""
        return f"{self.prefix}{number:0{self.digits}}"


def in_thousands(workers: Sequence[str]) -> list[tuple[str, ...]]:
    """Neighbours that are one series; a worker whose name ends in no number is alone."""
    return [tuple(group) for _, group in groupby(workers, key=lambda worker: series_of([worker]).prefix)]


def series_of(workers: Sequence[str]) -> Series:
    """What workers that are one series have in common."""
    split = [_split(worker) for worker in workers]
    prefix, first = split[0]
    numbers = tuple(number % _THOUSAND for _, number in split)
    thousand = first // _THOUSAND
    return Series(f"{prefix}{thousand}", numbers, 3) if thousand else Series(prefix, numbers, 0)


def _split(worker: str) -> tuple[str, int]:
    """`gpu-1002` → `gpu-` and 1002."""
    match = re.fullmatch(r"(.*-)(0|[1-9]\d*)", worker)
    return (match[1], int(match[2])) if match else (worker, 0)


def ranges(numbers: Sequence[int]) -> str:
    """(1, 2, 3, 7) → `1-3,7`."""
    ordered = sorted(numbers)
    runs = groupby(enumerate(ordered), key=lambda pair: pair[1] - pair[0])
    spans = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{span[0]}-{span[-1]}" if len(span) > 1 else str(span[0]) for span in spans)
