"""Cut input files into partitions, from their metadata alone: never from the number of workers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from itertools import pairwise
from math import ceil

from cenote.analysis.sources.interface import FileInfo, find_column
from cenote.common import errors
from cenote.common.errors import Problem
from cenote.common.text import did_you_mean
from cenote.planning.plan import Partition

TARGET_EVENTS = 200_000
"""Large enough that the fixed cost of a chunk (milliseconds) vanishes, small enough to share a file out."""
MOST_EVENTS = 500_000
"""Clusters of more events are cut, although both halves then decompress them."""
MOST_BYTES = 128_000_000
"""Of the columns read, uncompressed. Operations hold a few copies of some of them at a time."""


def make_partitions(
    infos: Sequence[FileInfo],
    columns_read: Sequence[str],
    *,
    dataset: str,
    source: str,
    chunk_size: int | None = None,
    start: int | None = None,
    stop: int | None = None,
    most: int | None = None,
    filled: Collection[str] = (),
) -> tuple[Partition, ...]:
    """The partitions of one dataset, in the order of its files.

    `start` and `stop` count entries within each file; `most` limits the dataset, file after file. Cuts fall on
    the files' own boundaries where that keeps partitions within the limits; `chunk_size` is obeyed exactly. An empty
    file gives no partition, but a dataset without any events gives one empty partition, so that its products exist.
    Columns that are `filled` need not be in every file.
    """
    partitions: list[Partition] = []
    left = most
    for info in infos:
        low, high = min(start or 0, info.entries), info.entries if stop is None else min(stop, info.entries)
        high = high if left is None else min(high, low + left)
        if high <= low:
            continue
        left = None if left is None else left - (high - low)
        cuts = [*range(low, high, chunk_size), high] if chunk_size else _cuts(info, columns_read, low, high)
        lacks = tuple(name for name in filled if find_column(name, info.columns) is None)
        partitions += [
            Partition(dataset, source, info.url, first, last, info.stamp, lacks, info.content)
            for first, last in pairwise(cuts)
        ]
    if not partitions and infos:
        lacks = tuple(name for name in filled if find_column(name, infos[0].columns) is None)
        return (Partition(dataset, source, infos[0].url, 0, 0, infos[0].stamp, lacks, infos[0].content),)
    return tuple(partitions)


def missing_columns(infos: Sequence[FileInfo], columns: Sequence[str]) -> list[Problem]:
    """Columns that some or all of these files lack; empty files without any columns are passed over."""
    described = [info for info in infos if info.columns or info.entries]
    problems: list[Problem] = []
    for name in columns:
        problems += _unreadable(name, described)
        without = [info.url for info in described if find_column(name, info.columns) is None]
        if without and len(without) == len(described):
            known = described[0].columns
            problems.append(
                Problem(errors.UNKNOWN_COLUMN, f"no file has the branch '{name}'", hint=did_you_mean(name, known))
            )
        elif without:
            problems.append(_missing_in_some(name, without, len(described)))
    return problems


def _unreadable(name: str, infos: Sequence[FileInfo]) -> list[Problem]:
    """The branch, in the first file where it is of a kind that cannot be read."""
    for info in infos:
        known = find_column(name, info.columns)
        if known is not None and (reason := info.columns[known].unreadable):
            return [Problem(errors.BAD_INPUT, f"branch '{name}' {reason}", details=(f"file: {info.url}",))]
    return []


def _missing_in_some(name: str, without: Sequence[str], files: int) -> Problem:
    shown = [*without[:5], f"… and {len(without) - 5} more"] if len(without) > 6 else without
    return Problem(
        errors.BAD_INPUT,
        f"branch '{name}' is missing in {len(without)} of {files} files",
        details=tuple(shown),
        hint="leave these files out, or put them in a dataset of their own that the stages reading it do not apply to",
    )


def _cuts(info: FileInfo, columns: Sequence[str], low: int, high: int) -> list[int]:
    """Near-equal parts, moved to the nearest boundary; parts that then are too large are cut regardless."""
    size = high - low
    most = max(1, min(MOST_EVENTS, int(MOST_BYTES / max(_bytes_per_event(info, columns), 1e-9))))
    parts = max(1, round(size / TARGET_EVENTS), ceil(size / most))
    if parts == 1:
        return [low, high]
    cuts = [low]
    for part in range(1, parts):
        wanted = low + round(part * size / parts)
        cut = _nearest_boundary(info.boundaries, wanted)
        if cut is not None and abs(cut - wanted) <= size / parts / 2 and cuts[-1] < cut < high:
            cuts.append(cut)
    return _no_larger_than(most, [*cuts, high])


def _no_larger_than(most: int, cuts: Sequence[int]) -> list[int]:
    result = [cuts[0]]
    for first, last in pairwise(cuts):
        parts = ceil((last - first) / most)
        result += [first + (last - first) * part // parts for part in range(1, parts + 1)]
    return result


def _nearest_boundary(boundaries: Sequence[int], wanted: int) -> int | None:
    if not boundaries:
        return wanted
    place = bisect_left(boundaries, wanted)
    around = boundaries[max(0, place - 1) : place + 1]
    return min(around, key=lambda boundary: abs(boundary - wanted)) if around else None


def _bytes_per_event(info: FileInfo, columns: Sequence[str]) -> float:
    names = (find_column(name, info.columns) for name in columns)
    return sum(info.columns[name].bytes for name in names if name is not None) / max(info.entries, 1)
