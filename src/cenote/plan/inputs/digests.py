"""Compare files with the checksums that a catalogue has of them: each once, as long as it does not change."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from cenote import errors
from cenote.errors import CenoteError, Problem
from cenote.plan.inputs.metadata_cache import MetadataCache
from cenote.sources.support.byte_files import opened
from cenote.sources.support.files import explained, stamp_of
from cenote.values import dataclass

AT_ONCE = 8
"""Files that are read at the same time: checksums are computed without Python's lock, and servers answer slowly."""
_PIECE = 4_000_000


@dataclass(frozen=True)
class KnownDigest:
    """What a catalogue says of a file."""

    url: str
    adler32: str
    """Eight hexadecimal digits, as rucio writes them."""


def other_than_known(
    files: Sequence[KnownDigest],
    *,
    cache: MetadataCache | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, Problem]:
    """File → what is wrong with it, for those whose content is not the one that the catalogue knows."""
    if not files:
        return {}
    cache = cache or MetadataCache()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        stamps = dict(zip(files, pool.map(lambda file: stamp_of(file.url), files), strict=True))
        keys = {file: f"{file.url} {file.adler32} {stamps[file]}" for file in files if stamps[file]}
        compared = cache.compared(keys.values())
        left = [file for file in files if keys.get(file) not in compared]
        found: dict[KnownDigest, Problem | None] = {}
        for file, problem in zip(left, pool.map(_compared, left), strict=True):
            found[file] = problem
            if progress is not None:
                progress(len(found), len(left))
    # Only what is right is remembered: of a remote file that is replaced, not every server says that it is another one.
    cache.remember_compared(keys[file] for file, problem in found.items() if problem is None and file in keys)
    return {file.url: problem for file, problem in found.items() if problem is not None}


def _compared(file: KnownDigest) -> Problem | None:
    try:
        with explained(file.url, errors.BAD_INPUT):
            found = _adler32(file.url)
    except CenoteError as problem:
        return problem.problems[0]
    if found == file.adler32:
        return None
    return Problem(
        errors.BAD_INPUT,
        f"{file.url} is not the file that its catalogue knows: its adler32 is {found}, not {file.adler32}",
        hint="copy it again, or read another replica",
    )


def _adler32(url: str) -> str:
    value = 1
    with opened(url) as file:
        while piece := file.read(_PIECE):
            value = zlib.adler32(piece, value)
    return f"{value:08x}"
