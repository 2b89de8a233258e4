"""Know files by their content: compare them with checksums of catalogues, and find the same file again."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from cenote.analysis.sources.interface import FileInfo, Source
from cenote.analysis.sources.support.byte_files import checksum, opened
from cenote.analysis.sources.support.files import explained, is_remote, local_path, stamp_of
from cenote.common import errors
from cenote.common.errors import CenoteError, Problem
from cenote.common.values import dataclass
from cenote.language.workflow import SourceUse
from cenote.planning.inputs.metadata import FileAnswer
from cenote.planning.inputs.metadata_cache import MetadataCache

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


# Say which file is the same as one of an earlier run: by its content, by where and how old it is, or by every byte.


def as_asked(
    files: Sequence[tuple[SourceUse, Source, FileAnswer]], *, all_seen: bool, cache: MetadataCache | None = None
) -> list[FileAnswer]:
    """These files with a `content` as their sources want it. Checksums are computed where all files are looked at."""
    behind = {
        (use.id, one.url): source.files_behind(one.url)
        for use, source, one in files
        if use.same_file == "checksum" and all_seen and isinstance(one, FileInfo)
    }
    checksums = _checksums(list(dict.fromkeys(url for some in behind.values() for url in some)), cache)

    def known_by(use: SourceUse, info: FileInfo) -> FileAnswer:
        found = [checksums[url] for url in behind.get((use.id, info.url), ())]
        problem = next((one for one in found if isinstance(one, Problem)), None)
        return problem or replace(info, content="+".join(map(str, found)))

    return [
        known_by(use, one) if use.same_file != "content" and isinstance(one, FileInfo) else one for use, _, one in files
    ]


def _checksums(urls: Sequence[str], cache: MetadataCache | None) -> dict[str, str | Problem]:
    """Of each file; one that was read before, and that nobody wrote to since, is not read again."""
    if not urls:
        return {}
    cache = cache or MetadataCache()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        versions = dict(zip(urls, pool.map(version_of, urls), strict=True))
        known = cache.checksums(version for version in versions.values() if version)
        found: dict[str, str | Problem] = {url: known[version] for url, version in versions.items() if version in known}
        left = [url for url in urls if url not in found]
        found |= zip(left, pool.map(_checksum, left), strict=True)
        now = dict(zip(left, pool.map(version_of, left), strict=True))
    cache.remember_checksums(dict(_unchanged(found, versions, now)))
    return found


def _unchanged(
    found: dict[str, str | Problem], before: dict[str, str], after: dict[str, str]
) -> Iterator[tuple[str, str]]:
    """Version → checksum, of files that nobody wrote to meanwhile."""
    for url, version in after.items():
        one = found[url]
        if version and version == before[url] and isinstance(one, str):
            yield version, one


def version_of(url: str) -> str:
    """Another text after a file was written, here also where its size and time are set back. Empty: unknown."""
    stamp = stamp_of(url)
    if not stamp or is_remote(url):
        return f"{url} {stamp}" if stamp else ""
    path = local_path(url)
    try:
        found = path.stat()
    except OSError:  # whoever reads it will say so
        return ""
    return f"{os.path.abspath(path)} {stamp} {found.st_ctime_ns} {found.st_ino}"  # noqa: PTH100  # links are followed by stat


def _checksum(url: str) -> str | Problem:
    try:
        with explained(url, errors.BAD_INPUT):
            return checksum(url)
    except CenoteError as problem:
        return problem.problems[0]
